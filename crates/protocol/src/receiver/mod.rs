//! The receiver: holds the old version, decides what it wants, and rebuilds the new from what it has and what is sent.
//!
//! ```text
//! Listing ──► look at the destination ──► make directories and links at once, queue files
//! Tally   ──► list our own, compare: Tallied
//! a queued file ──► open its old version, Want ──► Start ──► index old
//!     Groups ──► Lack     Chunks, Recipe ──► Need, Mend     Fill, Mended ──► write       matched ──► copy
//!     all covered and End ──► commit, Done
//! the list is complete, every file done ──► (name what waits,) delete, set directories, flush, Finished
//! ```

mod arriving;
mod ask;
mod attempt;
mod beside;
mod clearing;
mod closing;
mod compare;
mod comparing;
mod context;
mod credit;
mod deciding;
mod deleting;
mod expect;
mod extras;
mod file;
mod files;
mod final_dirs;
mod lacking;
mod linking;
mod list;
mod listing;
mod load;
mod missing;
mod moved;
mod new_files;
mod offered;
mod owning;
mod place;
mod proof;
mod queue;
mod repeats;
mod sections;
mod tallying;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use deltic_tree::{Name, RelPath};

use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::{Extent, FileNo, ToReceiver, ToSender};
use crate::options::Options;
use crate::report::{Counts, Notice, Trouble, TroubleKind};
use crate::streams::Aside;
use crate::work::{Concerns, UnknownAnswer, WorkId};

use arriving::Arrivals;
use beside::Waiting;
use clearing::Cleared;
use closing::Closing;
use comparing::Comparing;
use context::Context;
use deleting::Deleting;
use files::Files;
use final_dirs::FinalDirs;
use lacking::Lacking;
use linking::Linking;
use list::List;
use moved::Moved;
use offered::Offer;
use owning::Owners;
use place::Place;
use queue::Queue;
use repeats::Repeats;
use sections::{Section, Sections};
use tallying::Tallies;

pub use ask::{
    Alike, Answer, Carries, Charted, CopyRun, Elsewhere, Extra, Facing, Kept, KeptChunk, Kinship,
    Mended, New, OldGap, OldLens, Ours, Patch, Piece, Removed, Rolled, Similar, Small, Unlisted,
    Unseen, Work,
};
pub use compare::is_there;
pub use expect::Expect;
pub use new_files::NewFiles;
pub use proof::Proof;

/// What the receiver knows before the conversation begins.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// How to sync.
    pub options: Options,
    /// The only names that the sender may list at the root; `None` if any. A sender that was asked for `a` must not
    /// bring `b`.
    pub expect: Option<Expect>,
    /// Whether the user is at this end; else at the sender's.
    pub user_is_here: bool,
    /// Whether this end does what the superuser may: gives files away, makes devices.
    pub is_privileged: bool,
    /// How many directories were made for this session (in a dry run: would be): the root, and what lacked above it.
    pub made_dirs: u64,
    /// Whether a root that was made stays if nothing comes: the user wrote it as a directory.
    pub root_is_wanted: bool,
    /// The name that the one listed entry is to have here, where the destination is that.
    pub rename: Option<Name>,
    /// Whether the sender names what it offers as the session does ([`Terms::offers`](crate::Terms::offers)).
    pub takes_offers: bool,
    /// Whether the sender can be told how much was resumed.
    pub tells_resumed: bool,
    /// The sender can be told why names are passed over.
    pub tells_passed_over: bool,
    /// The bounds that the two ends agree on.
    pub limits: Limits,
    /// Most files under way at once, where the system lets this end hold only few open.
    pub most_files: Option<usize>,
}

/// The receiver's machine. Feed it frames and answers; poll frames, work and notices until nothing comes.
#[derive(Debug)]
pub struct Receiver {
    cx: Context,
    /// Names that were listed and take no part for their kind.
    left_out: u64,
    list: List,
    sections: Sections,
    tallies: Tallies,
    owners: Owners,
    dirs: FinalDirs,
    deleting: Deleting,
    root_is_whole: bool,
    /// Whether the root is new and nothing came that goes into it.
    root_is_bare: bool,
    queue: Queue,
    moved: Moved,
    repeats: Repeats,
    comparing: Comparing,
    /// What is listed where a directory stands that is being removed.
    clearing: BTreeMap<FileNo, Cleared>,
    arrivals: Arrivals,
    /// Sources that are not there.
    missing: Vec<RelPath>,
    /// What waits for the alternates.
    beside: BTreeMap<FileNo, Waiting>,
    linking: Linking,
    files: Files,
    offer: Option<Offer>,
    lacking: Lacking,
    closing: Option<Closing>,
}

impl Receiver {
    /// A receiver at the start of its session.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self {
            tallies: Tallies::new(setting.options.tallied()),
            queue: Queue::new(setting.most_files),
            root_is_bare: setting.made_dirs > 0,
            cx: Context::new(setting),
            left_out: 0,
            list: List::new(),
            sections: Sections::default(),
            owners: Owners::default(),
            dirs: FinalDirs::default(),
            deleting: Deleting::default(),
            root_is_whole: false,
            moved: Moved::default(),
            repeats: Repeats::default(),
            comparing: Comparing::default(),
            clearing: BTreeMap::new(),
            arrivals: Arrivals::default(),
            missing: Vec::new(),
            beside: BTreeMap::new(),
            linking: Linking::default(),
            files: Files::default(),
            offer: None,
            lacking: Lacking::default(),
            closing: None,
        }
    }

    /// The next frame to send, if any.
    pub fn poll_frame(&mut self) -> Option<ToSender> {
        let is_over = self.is_finished();
        let frame = self.cx.frames.pop_front().or_else(|| self.tallies.verdicts());
        frame.or_else(|| self.cx.give_credit().filter(|_| !is_over))
    }

    /// The next notice, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.cx.notices.pop_front()
    }

    /// The next piece of work, if any.
    pub fn poll_work(&mut self) -> Option<(WorkId, Work)> {
        self.cx.jobs.poll()
    }

    /// Whether everything is in place and [`ToSender::Finished`] was said.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closing == Some(Closing::Finished)
    }

    /// Bytes of literals, and of attributes of directories, received and not yet written: a driver stops reading frames while
    /// there are many.
    #[must_use]
    pub const fn backlog_bytes(&self) -> usize {
        self.cx.load.backlog_bytes()
    }

    /// Copies found and not yet made: a driver stops reading while there are many. A few bytes can ask for one, and it takes
    /// the disk longer than them.
    #[must_use]
    pub const fn copies_waiting(&self) -> usize {
        self.cx.load.copies_waiting()
    }

    /// Frames that wait to be polled: a driver stops reading while there are many. The sender reads in any case, so that
    /// they leave.
    #[must_use]
    pub fn frames_waiting(&self) -> usize {
        self.cx.frames.len()
    }

    /// How often sums were compared so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.cx.counts
    }

    /// Sends what the driver found to both ends' users. Not all of it is a failure.
    pub fn found(&mut self, trouble: Trouble) {
        self.cx.totals.failed += u64::from(!trouble.kind.is_harmless());
        self.cx.tell_trouble(trouble);
    }

    /// Takes a frame from the sender.
    ///
    /// # Errors
    /// [`PeerError`] where the frame cannot come now; the session is over.
    pub fn handle(&mut self, frame: ToReceiver) -> Result<(), PeerError> {
        self.cx.credit.take(frame.literal_bytes())?;
        match frame {
            ToReceiver::Listing { dir, own, entries, extent } => {
                self.list.growing()?;
                self.listing(Section::new(dir, own, entries), extent)?;
            }
            ToReceiver::Tally { dir, tally } => {
                self.list.growing()?;
                self.tally(dir, tally)?;
            }
            ToReceiver::Owners { users, groups } => {
                self.list.growing()?;
                self.owners(users, groups)?;
            }
            ToReceiver::Listed { intact } => {
                self.list.growing()?;
                self.end_list(intact)?;
            }
            ToReceiver::Start { file, meta, how, spec } => self.start(file, meta, (how, spec))?,
            ToReceiver::Offer { file, meta, spec } => self.offered(file, meta, spec)?,
            ToReceiver::Groups { file, groups } => self.groups(file, &groups)?,
            ToReceiver::Chunks { file, groups, chunks } => self.chunks(file, &groups, &chunks.0)?,
            ToReceiver::Recipe { file, chunks } => self.recipe(file, &chunks.0)?,
            ToReceiver::Fill { file, chunks, payload } => self.fill(file, &chunks, payload)?,
            ToReceiver::Mended { file, gaps, bytes, payload } => {
                self.mended_frame(file, &gaps, (bytes, payload))?;
            }
            ToReceiver::Sums { file, sums, extent } => self.sums(file, sums, extent)?,
            ToReceiver::Deny { file, chunks } => self.deny(file, &chunks)?,
            ToReceiver::Patch { file, steps, payload } => self.patch(file, &steps, payload)?,
            ToReceiver::Restless { file } => self.restless(file)?,
            ToReceiver::End { file, digest } => self.end(file, digest)?,
            ToReceiver::Failed { file, attempt, trouble } => {
                self.sender_failed(file, attempt, trouble)?;
            }
            ToReceiver::Digests(lines) => self.told_digests(lines)?,
            ToReceiver::Missing(paths) => self.missing(paths)?,
            ToReceiver::Removed(path) => self.removed_source(path)?,
            ToReceiver::Gone(troubles) => self.gone(troubles)?,
            ToReceiver::Allow(allowed) => self.allow(allowed)?,
            ToReceiver::Trouble(trouble) => {
                self.list.growing()?;
                // What vanished before it was listed is not here, and is no failure.
                let failed = !trouble.kind.is_harmless() && trouble.kind != TroubleKind::Vanished;
                self.cx.totals.failed += u64::from(failed);
                self.cx.notices.push_back(Notice::Trouble(trouble));
            }
        }
        self.go_on();
        Ok(())
    }

    /// Takes a frame that may have overtaken others: it is of no use once the attempt that it belongs to is over.
    ///
    /// # Errors
    /// [`PeerError`] where the frame cannot come now; the session is over.
    pub fn handle_aside(&mut self, Aside { attempt, frame }: Aside) -> Result<(), PeerError> {
        let file = frame.may_overtake().and_then(|file| self.files.get(&file));
        let Some(incoming) = file else { return self.cx.credit.take(frame.literal_bytes()) };
        match incoming.is_at(attempt) {
            Ordering::Less => self.cx.credit.take(frame.literal_bytes()),
            Ordering::Equal if incoming.comes_in_order() => {
                Err(PeerError::Unexpected("an aside of a file that goes in order"))
            }
            Ordering::Equal => self.handle(frame),
            Ordering::Greater => Err(PeerError::Unexpected("an attempt to come")),
        }
    }

    /// Takes the answer to a piece of work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] where nothing waits for it.
    pub fn answer(&mut self, id: WorkId, answer: Answer) -> Result<(), UnknownAnswer> {
        let place = self.cx.jobs.answered(id)?;
        let handle = place.handle();
        self.cx.load.lift(&place);
        let answer = self.tell_what_lacks(answer);
        match (place, answer) {
            (Place::Look(section), Answer::Looked(found, ours)) => {
                self.looked(section, found, ours);
            }
            (Place::Compare(no), Answer::Compared(alike)) => self.compared_tally(no, alike),
            (Place::Digest(files), Answer::Digested(digests)) if digests.len() == files.len() => {
                self.digested(files, digests);
            }
            (Place::LookMissing(paths), Answer::Looked(found, _)) => {
                self.looked_missing(paths, found);
            }
            (Place::CountMissing(path), Answer::Counted(names)) => {
                self.counted_missing(path, names);
            }
            (Place::LookBeside(file), Answer::Beside(found)) => self.looked_beside(file, found),
            (Place::LookBesideRoot(meta), Answer::Beside(found)) => self.made_root(&meta, found),
            (Place::LinkBeside { file, beside }, Answer::Done(done)) => {
                self.linked(file, beside, done);
            }
            (Place::CopyBeside { file, change }, Answer::Done(done)) => {
                self.copied_beside(file, change, done);
            }
            (Place::TakeBeside { handle, links }, Answer::Done(done)) => {
                self.took_beside(handle, links, done);
            }
            (Place::LeaveOut, Answer::Removed(removed)) => {
                self.left_out(removed);
            }
            (Place::Link { file, change }, Answer::Done(done)) => {
                self.linked_name(file, change, done);
            }
            (Place::Extra(dir), Answer::Extra(found)) => self.extra(dir, found),
            (Place::CountBelow { file, path }, Answer::Counted(names)) => {
                self.counted(file, path, names);
            }
            (Place::CountGoing(names), Answer::Counted(now)) => self.recounted(names, now),
            (Place::CountMoved, Answer::CountedMoved { files, new }) => {
                self.counted_moved(files, *new);
            }
            (Place::MakeDir { path, .. }, Answer::Done(made)) => self.made_dir(&path, made),
            (Place::Make { change } | Place::Touch { change }, Answer::Done(done)) => {
                self.changed_in_place(change, done);
            }
            (Place::Clear { file, removal }, Answer::Removed(removed)) => {
                self.cleared(file, removal, removed);
            }
            (Place::Remove(removal), Answer::Removed(removed)) => self.removed(removal, removed),
            (Place::Ask, Answer::Asked(allowed)) => self.answered(allowed),
            (Place::SetDirs { .. }, Answer::SetDirs(troubles)) => {
                troubles.into_iter().for_each(|trouble| self.cx.trouble(trouble));
            }
            (Place::Land, Answer::Landed(failed)) => self.landed(failed),
            (Place::Sweep, Answer::Done(done)) => self.closed(done),
            (Place::Flush, Answer::Done(done)) => self.flushed(done),
            (Place::FlushArrived { files, upto }, Answer::Done(done)) => {
                self.flushed_arrived((files, upto), done);
            }
            (Place::Chart, Answer::Charted(charted)) => self.charted(charted),
            (Place::OpenOld(handle), Answer::Opened(lens)) => self.opened_old(handle, lens),
            (Place::Index(handle, part), Answer::Indexed(run)) => self.indexed(handle, part, run),
            (Place::Copy(handle, spans), Answer::Copied(copied)) => {
                self.copied(handle, &spans, copied);
            }
            (Place::Write { handle, chunks, spans, .. }, Answer::Written(written)) => {
                self.written(handle, (&chunks, &spans), written);
            }
            (Place::Survey { handle, gaps }, Answer::Surveyed(sums)) => {
                self.surveyed(handle, gaps, sums);
            }
            (Place::Mend { handle, gaps, .. }, Answer::Mended(mended)) => {
                self.mended(handle, gaps, mended);
            }
            (Place::SumOld { handle, part, step }, Answer::Summed(summed))
                if summed.as_ref().map_or(true, |summed| step.fits(summed)) =>
            {
                self.summed_old(handle, (part, step), summed);
            }
            (Place::HashOld { handle, needs, tokens }, Answer::Hashed(sums)) => {
                self.hashed_old(handle, (needs, tokens), sums);
            }
            (Place::Roll(handle), Answer::Rolled(rolled)) => self.rolled(handle, rolled),
            (Place::Commit(handle) | Place::Replace { handle, .. }, Answer::Done(done)) => {
                self.committed(handle, done);
            }
            (Place::Confirm(handle), Answer::Done(done)) => self.confirmed(handle, done),
            (Place::TouchFile(handle), Answer::Done(done)) => self.touched(handle, done),
            (Place::Abandon(file), Answer::Done(_)) => self.abandoned(file),
            (Place::Release, Answer::Done(_)) => {}
            _ => return Err(UnknownAnswer),
        }
        self.lacking.is_last = false;
        // It may have been the last that was under way.
        if let Some(handle) = handle {
            self.try_settle(handle);
        }
        self.go_on();
        Ok(())
    }

    /// Starts what has become possible.
    fn go_on(&mut self) {
        self.link_more();
        self.survey_more();
        self.compare_more();
        self.draw();
        self.activate();
        self.settle();
        self.let_go();
        self.remove_more();
        self.close();
    }

    /// Nothing more will be listed: what was announced must have come.
    fn end_list(&mut self, intact: bool) -> Result<(), PeerError> {
        if !self.list.has_all() || !self.tallies.is_empty() {
            return Err(PeerError::Unexpected("the end of an incomplete list"));
        }
        if self.cx.setting.root_is_wanted {
            self.show_new_root(false);
        }
        self.list.end(intact);
        self.report_listed();
        Ok(())
    }

    /// Tells the sender up to where nothing more will be wanted.
    fn settle(&mut self) {
        let looking = self.sections.first();
        let queued = self.queue.first().map(|file| file.0);
        let clearing = self.clearing.keys().next().map(|file| file.0);
        let unasked = self.files.first_unasked().map(|file| file.0);
        let beside = self.beside.keys().next().map(|file| file.0);
        let charting = self.moved.first().map(|file| file.0);
        let repeating = self.repeats.first().map(|file| file.0);
        let linking = self.linking.first().map(|file| file.0);
        let comparing = self.comparing.first().map(|file| file.0);
        let waiting =
            [looking, queued, charting, repeating, clearing, beside, linking, comparing, unasked];
        if let Some(upto) = self.list.settle(waiting.into_iter().flatten().min()) {
            self.cx.frames.push_back(ToSender::Settled { upto: FileNo(upto) });
        }
    }
}

/// Whether nothing more of a directory is listed behind a section of this extent.
fn ends(extent: Extent) -> bool {
    extent != Extent::More
}
