//! The sender: holds the new version, lists it, and answers what the receiver asks for.
//!
//! ```text
//! list directories ──► Listing … Listed          (within ENTRY_WINDOW of what the receiver settled)
//!                 └──► Tally                     (within TALLY_WINDOW of what it answered)
//! Tallied(unlike)  ──► Listing
//! nothing heard    ──► Offer, and what follows Start, of a single file      (within OFFERED_GROUPS)
//! Want(file)       ──► open, Start, scan, Groups …, End     (within GROUP_WINDOW of what it answered; short files: Recipe)
//! Lack(groups)     ──► Chunks
//! Need(chunks)     ──► read, Fill
//! Mend(gaps)       ──► read, compare, Mended                (within GAP_WINDOW of what it answered)
//! ```

mod ask;
mod confirm;
mod digesting;
mod file;
mod leaving;
mod linking;
mod listing;
mod mending;
mod offering;
mod searching;
mod tallying;
mod telling;

use std::collections::{BTreeMap, HashMap, VecDeque};

use deltic_core::Strategy;
use deltic_core::strategy::Conversation;
use deltic_tree::meta::Owner;
use deltic_tree::{RelPath, Timestamp};

use crate::cutting::Part;
use crate::digests::Digesting;
use crate::error::PeerError;
use crate::limits::{LARGE_FILE_BYTES, MAX_ACTIVE_FILES, MAX_ACTIVE_LARGE, MAX_ATTEMPTS};
use crate::message::{Done, FileNo, How, ToReceiver, ToSender};
use crate::options::{Append, Options};
use crate::report::{
    Action, Change, Counts, EntryType, Facts, Notice, Progress, Question, Totals, Trouble,
};
use crate::summing::Step;
use crate::sums::Ways;
use crate::work::{Concerns, Handle, Jobs, UnknownAnswer, WorkId};

use file::{Beginning, Outgoing, Resumed};
use leaving::Leaving;
use listing::Lister;
use offering::Offering;

pub use ask::{
    Answer, Bears, Body, Deltas, Gap, Listed, Opened, Sealed, Sealing, Searched, Sums, Work,
};

/// A question is answered before what it is about is settled: what waits to be answered is within the window.
const EARLY: PeerError = PeerError::Unexpected("the end of a file whose digest is asked for");

/// The sender's machine. Feed it frames and answers; poll frames, work and notices until nothing comes.
#[derive(Debug)]
pub struct Sender {
    options: Options,
    jobs: Jobs<Work, Place>,
    frames: VecDeque<ToReceiver>,
    notices: VecDeque<Notice>,
    lister: Lister,
    /// Regular files that the receiver has not settled.
    entries: BTreeMap<FileNo, Listing>,
    /// In the order of the list, which is the order in which they are scanned.
    files: BTreeMap<FileNo, Outgoing>,
    /// Files of which more may be scanned, or told.
    scanners: VecDeque<FileNo>,
    digesting: Digesting,
    offering: Offering,
    /// Handles of attempts under way, to place answers.
    handles: HashMap<Handle, FileNo>,
    next_handle: u64,
    groups_out: u64,
    /// Gaps to be mended.
    gaps_out: u64,
    progress: Progress,
    counts: Counts,
    leaving: Leaving,
    /// Whether the user was asked: once is enough.
    was_asked: bool,
    /// Whether [`Notice::Closing`] was given.
    reported_closing: bool,
    /// Of the way to the receiver, where the driver knows.
    bits_per_second: Option<u64>,
    finished: bool,
}

/// A file that the receiver may still want.
#[derive(Debug)]
struct Listing {
    path: RelPath,
    len: u64,
    modified: Timestamp,
    mode: u32,
    owner: Owner,
    attempts: u32,
    inquiry: Inquiry,
    /// Bytes reported as settled, by any attempt.
    reported: u64,
}

/// Whether the receiver asked for a file's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inquiry {
    Unasked,
    /// It is being taken.
    Open,
    Answered,
}

impl Listing {
    const fn is_large(&self) -> bool {
        self.len > LARGE_FILE_BYTES
    }

    /// Bytes newly settled, given that `settled` of the present attempt are.
    fn advance(&mut self, settled: u64) -> u64 {
        let fresh = settled.min(self.len).saturating_sub(self.reported);
        self.reported += fresh;
        fresh
    }
}

/// Where an answer belongs.
#[derive(Debug)]
enum Place {
    List(RelPath, Option<u32>),
    /// What comes next of the directory that is being told.
    ListOn,
    Open(Handle),
    Scan(Handle, Part),
    Seal(Handle),
    Sum(Handle, Step),
    Hash(Handle),
    Search(Handle),
    Read {
        handle: Handle,
        chunks: Vec<std::ops::Range<u32>>,
        bytes: u64,
    },
    Mend {
        handle: Handle,
        gaps: Vec<std::ops::Range<u32>>,
    },
    Digest(Vec<FileNo>),
    RemoveSource(RelPath),
    Ask,
    Close,
}

impl Concerns for Place {
    fn handle(&self) -> Option<Handle> {
        match self {
            Self::Open(handle) | Self::Scan(handle, _) | Self::Seal(handle) => Some(*handle),
            Self::Sum(handle, _) | Self::Hash(handle) | Self::Search(handle) => Some(*handle),
            Self::Read { handle, .. } | Self::Mend { handle, .. } => Some(*handle),
            Self::List(..) | Self::ListOn | Self::Digest(_) => None,
            Self::RemoveSource(_) | Self::Ask | Self::Close => None,
        }
    }
}

impl Sender {
    /// A sender at the start of its session. It knows nothing of the session's terms: it lists before there are any.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            lister: Lister::new(&options),
            options,
            jobs: Jobs::new(),
            frames: VecDeque::new(),
            notices: VecDeque::new(),
            entries: BTreeMap::new(),
            files: BTreeMap::new(),
            scanners: VecDeque::new(),
            digesting: Digesting::default(),
            offering: Offering::default(),
            handles: HashMap::new(),
            next_handle: 0,
            groups_out: 0,
            gaps_out: 0,
            progress: Progress::default(),
            counts: Counts::default(),
            leaving: Leaving::default(),
            was_asked: false,
            reported_closing: false,
            bits_per_second: None,
            finished: false,
        }
    }

    /// The same over a link of this bandwidth, by which some strategies choose their chunks. Where nothing is known they
    /// take those for a middling one ([`netsync_avg_bytes`](deltic_core::strategy::netsync_avg_bytes)).
    #[must_use]
    pub fn over(self, bits_per_second: Option<u64>) -> Self {
        Self { bits_per_second, ..self }
    }

    /// The next frame to send, if any.
    pub fn poll_frame(&mut self) -> Option<ToReceiver> {
        self.frames.pop_front()
    }

    /// The next frame and, where it may overtake the others in an [`Aside`](crate::streams::Aside), the attempt that it is
    /// of. A file that goes whole is told in order until the receiver asks for its blocks: what overtakes its `Start` would
    /// come unasked. One that goes by another strategy always is: what was denied comes behind the `Deny`, unasked.
    pub fn poll_for_streams(&mut self) -> Option<(ToReceiver, Option<u32>)> {
        let frame = self.poll_frame()?;
        let answers = |file: &FileNo| self.files.get(file).is_some_and(Outgoing::answers);
        let file = frame.may_overtake().filter(answers);
        let attempt = file.and_then(|file| Some(self.entries.get(&file)?.attempts));
        Some((frame, attempt))
    }

    /// The next notice, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front().or_else(|| self.closing())
    }

    /// [`Notice::Closing`], once every listed file is done.
    fn closing(&mut self) -> Option<Notice> {
        let is_closing = !self.finished && self.has_sent_all();
        (is_closing && !std::mem::replace(&mut self.reported_closing, true))
            .then_some(Notice::Closing)
    }

    /// Whether the list is complete and the receiver wants no more of it.
    fn has_sent_all(&self) -> bool {
        self.lister.is_complete() && self.entries.is_empty() && self.files.is_empty()
    }

    /// The next piece of work, if any.
    pub fn poll_work(&mut self) -> Option<(WorkId, Work)> {
        self.list_more();
        self.scan_more();
        self.digest_more();
        self.jobs.poll()
    }

    /// Whether the receiver has said that the session is over.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// How often sums were compared so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a frame from the receiver.
    ///
    /// # Errors
    /// [`PeerError`] where the frame cannot come now; the session is over.
    pub fn handle(&mut self, frame: ToSender) -> Result<(), PeerError> {
        if self.finished {
            return Err(PeerError::Unexpected("a frame after the end"));
        }
        match frame {
            ToSender::Want { how: How::Tail, .. } => {
                Err(PeerError::Unexpected("a tail of no beginning"))
            }
            ToSender::Tallied { alike, unlike } => self.tallied(alike, unlike),
            ToSender::Digest(files) => self.asked(&files),
            ToSender::Want { file, how } => self.want(file, how, Beginning::Anew),
            ToSender::Resume { file, key, spec } => {
                self.want(file, How::Recipe, Beginning::Resumed(Resumed { key, spec }))
            }
            ToSender::Append { file, from } => self.want(file, How::Tail, Beginning::Behind(from)),
            ToSender::Settled { upto } => self.settle(upto),
            ToSender::Lack { file, groups } => match self.attempt(file)? {
                Some(_) => self.lack(file, &groups),
                None => Ok(()),
            },
            ToSender::Need { file, chunks } => match self.attempt(file)? {
                Some(_) => self.need(file, chunks),
                None => Ok(()),
            },
            ToSender::Mend { file, gaps } => match self.attempt(file)? {
                Some(_) => self.mend(file, gaps),
                None => Ok(()),
            },
            ToSender::Sums { file, sums, extent } => match self.attempt(file)? {
                Some(_) => self.old_sums(file, sums, extent),
                None => Ok(()),
            },
            ToSender::Match { file, needs, tokens } => match self.attempt(file)? {
                Some(_) => self.matched(file, &needs, tokens),
                None => Ok(()),
            },
            ToSender::Done { file, done } => self.done(file, done),
            ToSender::MadeRoot(made) => {
                self.notices.push_back(Notice::MadeRoot(made));
                Ok(())
            }
            ToSender::Changed(change) => {
                if change.action.is_none() && !self.options.tells_unchanged {
                    return Err(PeerError::Unexpected("a name that stays as it is"));
                }
                self.notices.push_back(Notice::Changed(change));
                Ok(())
            }
            ToSender::Trouble(trouble) => {
                self.notices.push_back(Notice::Trouble(trouble));
                Ok(())
            }
            ToSender::Arrived { files, upto, last } => self.arrived(&files, upto, last),
            ToSender::Ask(question) => self.ask(question),
            ToSender::Finished(totals) => self.finish(totals),
        }
    }

    /// Takes the answer to a piece of work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] where nothing waits for it.
    pub fn answer(&mut self, id: WorkId, answer: Answer) -> Result<(), UnknownAnswer> {
        match (self.jobs.answered(id)?, answer) {
            (Place::List(dir, above), Answer::Listed(listed)) => self.listed((dir, above), listed),
            (Place::ListOn, Answer::Listed(listed)) => self.listed_on(listed),
            (Place::Open(handle), Answer::Opened(opened)) => self.opened(handle, opened),
            (Place::Scan(handle, part), Answer::Scanned(run)) => self.scanned(handle, part, run),
            (Place::Seal(handle), Answer::Sealed(sealed)) => self.sealed(handle, sealed),
            (Place::Sum(handle, step), Answer::Summed(summed))
                if summed.as_ref().map_or(true, |(summed, _)| step.fits(summed)) =>
            {
                self.summed(handle, step, summed);
            }
            (Place::Hash(handle), Answer::Hashed(sums)) => self.hashed(handle, sums),
            (Place::Search(handle), Answer::Searched(searched)) => self.searched(handle, searched),
            (Place::Read { handle, chunks, bytes }, Answer::Read(read)) => {
                self.read(handle, (chunks, bytes), read);
            }
            (Place::Mend { handle, gaps }, Answer::Mended(mended)) => {
                self.mended(handle, gaps, mended);
            }
            (Place::Digest(files), Answer::Digested(digests)) if digests.len() == files.len() => {
                self.digested(files, digests);
            }
            (Place::RemoveSource(path), Answer::Removed(removed)) => self.removed(path, removed),
            (Place::Ask, Answer::Asked(allowed)) => {
                self.frames.push_back(ToReceiver::Allow(allowed));
            }
            (Place::Close, Answer::Closed) => {}
            _ => return Err(UnknownAnswer),
        }
        Ok(())
    }

    /// A new attempt at a file.
    fn want(&mut self, file: FileNo, how: How, begins: Beginning) -> Result<(), PeerError> {
        let listing = self
            .entries
            .get_mut(&file)
            .ok_or(PeerError::Unexpected("a file that was not listed"))?;
        let strategy = self.options.way();
        let is_own = strategy.conversation == Conversation::Recipe;
        let knows = match how {
            How::Whole => true,
            How::Tail => self.options.writing.append == Append::Blindly,
            How::Recipe => is_own,
            How::Strategy | How::Stronger => Ways::of(strategy, how).is_some(),
        };
        if !knows {
            return Err(PeerError::Unexpected("a way that is not the strategy's"));
        }
        listing.attempts += 1;
        let is_anew = matches!(begins, Beginning::Anew);
        if self.take_offer(file, how == How::Recipe && is_anew) {
            return Ok(());
        }
        let listing = self.entries.get_mut(&file).expect("it was found");
        if listing.attempts > MAX_ATTEMPTS {
            return Err(PeerError::Limit("attempts at one file"));
        }
        let (path, attempt) = (listing.path.clone(), listing.attempts);
        let resumed = begins.resumed();
        let fits = resumed.is_none_or(|resumed| resumed.fits(&strategy, listing.len));
        if attempt > 1 {
            // What waits to be said of the last attempt would be taken for this one's.
            self.frames.retain(|frame| frame.may_overtake() != Some(file));
        }
        self.drop_attempt(file);
        if !fits {
            let trouble = file::cut_otherwise(&path);
            self.frames.push_back(ToReceiver::Failed { file, attempt, trouble });
            return Ok(());
        }
        self.check_active(file)?;
        let (zstd, key) = (self.options.compress, resumed.map(|resumed| resumed.key));
        let handle = self.start_attempt(file, (how, begins), strategy);
        let bears = self.bears(file);
        self.jobs.ask(Work::Open { handle, path, how, zstd, key, bears }, Place::Open(handle));
        Ok(())
    }

    /// Notes an attempt at a file, and gives it a handle.
    fn start_attempt(&mut self, file: FileNo, how: (How, Beginning), strategy: Strategy) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(handle, file);
        self.files.insert(file, Outgoing::new(handle, how, strategy));
        handle
    }

    /// Refuses a file more than may be under way at once: each holds a file open and its recipe in memory.
    fn check_active(&self, file: FileNo) -> Result<(), PeerError> {
        let is_large = |file: &FileNo| self.entries.get(file).is_some_and(Listing::is_large);
        if self.files.len() >= MAX_ACTIVE_FILES + MAX_ACTIVE_LARGE {
            return Err(PeerError::Limit("files under way"));
        }
        if is_large(&file)
            && self.files.keys().filter(|file| is_large(file)).count() >= MAX_ACTIVE_LARGE
        {
            return Err(PeerError::Limit("large files under way"));
        }
        Ok(())
    }

    /// Forgets the attempt under way, if there is one.
    fn drop_attempt(&mut self, file: FileNo) {
        let Some(old) = self.files.remove(&file) else { return };
        let handle = old.handle;
        self.handles.remove(&handle);
        self.groups_out -= old.groups_unanswered();
        if old.at_once {
            return;
        }
        let forgotten = self.jobs.ask_last(handle, Work::Close { handle }, Place::Close);
        for place in forgotten {
            if let Place::Mend { gaps, .. } = place {
                self.gaps_out -= gaps.len() as u64;
            }
        }
    }

    /// The file's attempt; `None` where it has failed on this side and the receiver cannot know yet.
    fn attempt(&mut self, file: FileNo) -> Result<Option<&mut Outgoing>, PeerError> {
        match self.files.get_mut(&file) {
            Some(outgoing) if !self.offering.is_told(file) => Ok(Some(outgoing)),
            None if self.entries.get(&file).is_some_and(|listing| listing.attempts > 0) => Ok(None),
            _ => Err(PeerError::Unexpected("an answer about a file that is not under way")),
        }
    }

    fn settle(&mut self, upto: FileNo) -> Result<(), PeerError> {
        // What was wanted before stays until it is done, and is not looked at again.
        let settled = self.entries.range(self.lister.settle(upto)?);
        if settled.clone().any(|(_, listing)| listing.inquiry == Inquiry::Open) {
            return Err(EARLY);
        }
        let unwanted = settled.filter(|(_, listing)| listing.attempts == 0);
        for file in unwanted.map(|(file, _)| *file).collect::<Vec<_>>() {
            let listing = self.entries.remove(&file);
            self.withdraw(file);
            self.report_settled(listing.map_or(0, |listing| listing.len));
        }
        Ok(())
    }

    fn done(&mut self, file: FileNo, done: Done) -> Result<(), PeerError> {
        let unknown = PeerError::Unexpected("the end of a file that is not under way");
        let listing = self.entries.remove(&file).ok_or(unknown)?;
        if listing.inquiry == Inquiry::Open {
            return Err(EARLY);
        }
        if !done.may_end(listing.attempts) {
            return Err(PeerError::Unexpected("an end that nothing led to"));
        }
        self.withdraw(file);
        self.drop_attempt(file);
        self.report_settled(listing.len.saturating_sub(listing.reported));
        let Listing { path, len, modified, mode, owner, .. } = listing;
        let (item, target, literal) = (EntryType::File, None, done.literal());
        let (action, differs, from) = match done {
            Done::Same { touched: false, differs } if self.options.tells_unchanged => {
                (Action::Unchanged, differs, None)
            }
            Done::Same { touched: false, .. } => return Ok(()),
            Done::Same { differs, .. } => (Action::Touched, differs, None),
            Done::Replaced { action, differs, from, .. } => (action, differs, from),
            Done::Failed(trouble) => {
                self.notices.push_back(Notice::Trouble(trouble));
                return Ok(());
            }
        };
        let facts = Facts { len, modified, mode, owner, target, linked: None, literal, from };
        let change = Change { path, item, action, differs, facts };
        self.notices.push_back(Notice::Changed(change));
        Ok(())
    }

    /// Many names would go at the other end.
    fn ask(&mut self, question: Question) -> Result<(), PeerError> {
        if !self.options.asks() || std::mem::replace(&mut self.was_asked, true) {
            return Err(PeerError::Unexpected("a question"));
        }
        self.jobs.ask(Work::Ask(question), Place::Ask);
        Ok(())
    }

    fn finish(&mut self, totals: Totals) -> Result<(), PeerError> {
        if !self.has_sent_all() {
            return Err(PeerError::Unexpected("the end of an unfinished session"));
        }
        self.finished = true;
        self.notices.push_back(Notice::Finished(totals));
        Ok(())
    }

    fn report_settled(&mut self, bytes: u64) {
        self.notices.extend(self.progress.settle(bytes));
    }

    /// So many bytes of an attempt are settled: tells those that no attempt at the file reported before.
    fn advance(&mut self, file: FileNo, settled: u64) {
        let Some(listing) = self.entries.get_mut(&file) else { return };
        let fresh = listing.advance(settled);
        self.report_settled(fresh);
    }

    /// Ends an attempt on this side; the receiver decides whether there is another.
    fn fail(&mut self, handle: Handle, trouble: Trouble) {
        let Some(file) = self.handles.get(&handle).copied() else { return };
        self.drop_attempt(file);
        let Some(trouble) = self.spoil_offer(file, trouble) else { return };
        let attempt = self.entries.get(&file).map_or(0, |listing| listing.attempts);
        self.frames.push_back(ToReceiver::Failed { file, attempt, trouble });
    }
}
