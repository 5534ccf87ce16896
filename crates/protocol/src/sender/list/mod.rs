//! The list: walks the tree and sends the entries, one directory at a time, limited by the entries that the receiver
//! has settled.

mod digests;
mod linking;
mod ready;
mod send;
mod tallies;

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use deltic_tree::{Entry, Kind, Name, RelPath};

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, LISTED_BYTES, MAX_BATCH};
use crate::listed::ListedBytes;
use crate::message::{FileNo, PathBefore, ToReceiver};
use crate::options::Options;
use crate::report::{Notice, Trouble, TroubleKind};

use super::ask::{Listed, SenderWork};
use super::context::Context;
use super::leaving::SourceRemoval;
use super::pending::{RequestedDir, SenderPending};

use linking::LinkedNames;
use ready::{ReadyDir, UnlistedPart};
use tallies::DirTallies;

/// Directories listed at once, which hides the latency of a cold disk. Small directories go to threads in bundles, so
/// more of them are listed at once.
const LISTS_AT_ONCE: usize = 4;
const SMALL_AT_ONCE: usize = 64;
/// Entries listed at once, if all directories are as large as the last.
const ENTRIES_AT_ONCE: usize = 4096;

/// A directory still to be listed, as parent and name: siblings share the bytes of their parent.
#[derive(Debug)]
struct UnlistedDir {
    parent: RelPath,
    /// Name in `parent`; `None` for the root.
    name: Option<Name>,
    /// Number of the tally of the parent directory, if a tally was sent for it.
    above: Option<u32>,
}

impl UnlistedDir {
    /// Returns the path; `None` if the name makes no valid path.
    fn path(&self) -> Option<RelPath> {
        self.name.as_ref().map_or_else(|| Some(RelPath::root()), |name| self.parent.join(name).ok())
    }
}

/// Numbers of names and of files listed, by name or in directories that match their tallies.
#[derive(Clone, Copy, Debug, Default)]
struct ListedCounts {
    names: u64,
    files: u64,
}

/// State of the walk.
#[derive(Debug)]
pub(super) struct Lister {
    /// Stack of directories still to be listed. The last directory is listed next.
    dirs: Vec<UnlistedDir>,
    lists_out: usize,
    /// Number of entries of the directory listed last.
    last_len: usize,
    /// Largest number of attribute and ACL bytes in one listing so far, as an estimate for the next listing. The last
    /// listing would be a poor estimate, because many directories have no attributes.
    most_bytes: usize,
    /// Directories listed and not yet sent.
    ready: VecDeque<ReadyDir>,
    tallies: DirTallies,
    /// Path of the last frame with the short form of a path.
    path_before: PathBefore,
    next: u64,
    settled: u64,
    /// Attribute bytes of the entries from `settled` to `next`.
    bytes: ListedBytes,
    intact: bool,
    complete: bool,
    counts: ListedCounts,
    /// Users and groups with a name already sent.
    named: (HashSet<u32>, HashSet<u32>),
    linking: LinkedNames,
}

impl Lister {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            dirs: vec![UnlistedDir { parent: RelPath::root(), name: None, above: None }],
            lists_out: 0,
            last_len: ENTRIES_AT_ONCE,
            most_bytes: 0,
            ready: VecDeque::new(),
            tallies: DirTallies::new(options),
            path_before: PathBefore::default(),
            next: 0,
            settled: 0,
            bytes: ListedBytes::default(),
            intact: true,
            complete: false,
            counts: ListedCounts::default(),
            named: (HashSet::new(), HashSet::new()),
            linking: LinkedNames::default(),
        }
    }

    /// Sends tallies of all directories that may have a tally, even of small ones.
    pub(super) const fn tally_all_dirs(&mut self) {
        self.tallies.tally_all_dirs();
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Settles all entries below `upto`. Returns the numbers of the entries that this call settled.
    pub(super) fn settle_below(&mut self, upto: FileNo) -> Result<Range<FileNo>, PeerError> {
        if upto.0 < self.settled || upto.0 > self.next {
            return Err(PeerError::Unexpected("settled entries that were not listed"));
        }
        let before = std::mem::replace(&mut self.settled, upto.0);
        self.bytes.remove_settled(upto.0);
        Ok(FileNo(before)..upto)
    }

    /// Returns the number of entries sent.
    pub(super) const fn sent_count(&self) -> u64 {
        self.next
    }

    /// Returns the number of entries sent and not settled.
    const fn unsettled_count(&self) -> u64 {
        self.next - self.settled
    }

    const fn has_room(&self) -> bool {
        self.unsettled_count() + self.tallies.unsettled_entries() < ENTRY_WINDOW
            && self.bytes.has_room()
    }

    /// Returns the number of directories that are listed or being listed and not yet sent.
    fn ready_dir_count(&self) -> usize {
        self.ready.len() + self.lists_out + self.tallies.parked_count()
    }

    /// Sends entries that are ready and requests the listing of more directories, as far as the window allows.
    pub(super) fn continue_listing(&mut self, cx: &mut Context, leaving: &mut SourceRemoval) {
        while self.send_next(cx, leaving) {}
        let by_entries = ENTRIES_AT_ONCE / (self.last_len + 1);
        let by_bytes = LISTED_BYTES / (self.most_bytes + 1);
        let at_once = by_entries.min(by_bytes).clamp(LISTS_AT_ONCE, SMALL_AT_ONCE);
        while self.ready_dir_count() < at_once {
            let Some(ahead) = self.dirs.pop() else { break };
            // A name that makes no valid path was refused on arrival.
            let Some(dir) = ahead.path() else { continue };
            self.lists_out += 1;
            let tally = self.tallies.wants_tally();
            let work = SenderWork::List { dir: dir.clone(), tally, rest: None };
            let requested = RequestedDir { dir, above: ahead.above };
            cx.jobs.request(work, SenderPending::List(requested));
        }
        let is_idle = self.ready_dir_count() == 0 && self.tallies.is_idle();
        if is_idle && !self.complete {
            self.complete = true;
            cx.send(ToReceiver::Listed { intact: self.intact });
            self.report_listed(cx);
        }
    }

    /// Takes the first entries of a directory.
    pub(super) fn take_listed(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
        dir: RequestedDir,
        listed: Result<Listed, Trouble>,
    ) {
        let RequestedDir { dir, above } = dir;
        self.lists_out -= 1;
        let mut listed = listed.unwrap_or_else(Listed::from);
        let is_whole = listed.troubles.is_empty() && listed.rest.is_none();
        let partial = listed.partial || listed.has_vanished();
        let mut entries = VecDeque::from(self.take_entries(cx, &mut listed));
        let mut own = listed.own;
        if own.is_some() && !cx.options.transfers_kind(&Kind::Dir) {
            cx.report_trouble(Trouble::skipped_entry(&Kind::Dir, &dir));
            own = None;
            entries.clear();
            listed.rest = None;
        }
        let bytes = entries.iter().map(|entry| entry.meta.extra_metadata_bytes()).sum();
        self.last_len = entries.len();
        self.most_bytes = self.most_bytes.max(bytes);
        if !listed.missing.is_empty() {
            send::send_missing(cx, listed.missing);
        }
        let above = above.filter(|above| self.tallies.awaits_answer(*above));
        let mut ready = ReadyDir {
            dir,
            own,
            entries,
            rest: listed.rest.into(),
            partial,
            is_empty_source: listed.is_empty_source,
            above,
            has_begun: false,
            tally: None,
            tallied: None,
        };
        ready.tally = listed.tally.filter(|_| is_whole && self.may_tally(&ready, &cx.options));
        match above.filter(|_| ready.tally.is_none()) {
            Some(above) => self.tallies.park(above, ready),
            None => self.ready.push_back(ready),
        }
        self.continue_listing(cx, leaving);
    }

    /// Takes the next entries of the directory that is being sent.
    pub(super) fn take_listed_part(
        &mut self,
        cx: &mut Context,
        leaving: &mut SourceRemoval,
        listed: Result<Listed, Trouble>,
    ) {
        let mut listed = listed.unwrap_or_else(Listed::from);
        let has_vanished = listed.has_vanished();
        let entries = self.take_entries(cx, &mut listed);
        let ready = self.ready.front_mut().expect("what has begun stays the first");
        ready.partial |= has_vanished;
        ready.entries.extend(entries);
        ready.rest = listed.rest.into();
        self.continue_listing(cx, leaving);
    }

    /// Returns the entries of a listing; sends its troubles and names of owners.
    fn take_entries(&mut self, cx: &mut Context, listed: &mut Listed) -> Vec<Entry> {
        for trouble in std::mem::take(&mut listed.troubles) {
            // A vanished entry does not stop deletions elsewhere: its own directory counts as partial.
            self.intact &= trouble.kind != TroubleKind::Failed;
            cx.report_trouble(trouble);
        }
        let (users, groups) =
            (std::mem::take(&mut listed.users), std::mem::take(&mut listed.groups));
        self.send_owners(cx, users, groups);
        std::mem::take(&mut listed.entries)
    }

    /// Requests more of the directory that is being sent, before its entries run out.
    fn request_more(cx: &mut Context, ready: &mut ReadyDir) {
        if ready.entries.len() >= MAX_BATCH || !matches!(ready.rest, UnlistedPart::Names(_)) {
            return;
        }
        if let UnlistedPart::Names(rest) = std::mem::replace(&mut ready.rest, UnlistedPart::Asked) {
            let work = SenderWork::List { dir: ready.dir.clone(), tally: false, rest: Some(rest) };
            cx.jobs.request(work, SenderPending::ListOn);
        }
    }

    /// Sends the next frame, if there is room. Returns false if nothing was sent.
    fn send_next(&mut self, cx: &mut Context, leaving: &mut SourceRemoval) -> bool {
        // A directory that has begun is sent in one piece. Owed listings come next; room is kept for them.
        let has_begun = self.ready.front().is_some_and(|ready| ready.has_begun);
        if !has_begun && let Some(owed) = self.tallies.next_to_list() {
            self.ready.push_front(owed);
        }
        let Some(first) = self.ready.front() else { return false };
        match (first.tallied, first.tally) {
            (None, Some(tally)) if self.may_send_tally(cx) => self.send_tally(cx, tally),
            (Some(_), _) => self.bytes.has_room() && self.send_listing_frame(cx, leaving),
            (None, _) => {
                self.has_room() && self.may_list(cx) && self.send_listing_frame(cx, leaving)
            }
        }
    }

    fn report_listed(&self, cx: &mut Context) {
        let Self { counts: ListedCounts { names, files }, complete, .. } = *self;
        let bytes = cx.progress.listed();
        cx.notices.push_back(Notice::Listed { names, files, bytes, complete });
    }
}
