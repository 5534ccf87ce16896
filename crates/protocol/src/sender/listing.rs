//! Walking the tree and telling it, a directory at a time, never far ahead of what the receiver has settled.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use deltic_tree::links::MUNGED;
use deltic_tree::meta::{Linked, Owner, Unread};
use deltic_tree::names::SortedNames;
use deltic_tree::path::BadPath;
use deltic_tree::{DirDigest, Entry, Follow, Kind, Meta, RelPath, Xattr};

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, LISTED_BYTES, MAX_BATCH, MAX_OWNER_NAMES};
use crate::listed::ListedBytes;
use crate::message::{Extent, FileNo, NameLine, ToReceiver};
use crate::options::Options;
use crate::report::{Notice, Trouble, TroubleKind};

use super::linking::{Linking, Told, leave_said};
use super::tallying::Tallies;
use super::{Inquiry, Listed, Listing, Place, Sender, Work};

/// Directories listed at once: hides the latency of a cold disk. Of small ones more, which go to threads in bundles.
const LISTS_AT_ONCE: usize = 4;
const SMALL_AT_ONCE: usize = 64;
/// Entries that lists at once have together, if directories are as large as the last one was.
const ENTRIES_AT_ONCE: usize = 4096;
/// Paths in one frame: the longest fit.
const MISSING_AT_ONCE: usize = 128;
/// Entries' own bytes in one frame.
const FRAME_ENTRY_BYTES: usize = 128 << 10;

/// Names of users, and as many of groups, in one frame.
const NAMES_AT_ONCE: usize = 1 << 10;

/// Where the walk stands.
#[derive(Debug)]
pub(super) struct Lister {
    /// Directories still to list, the last is the next; and the tally of the directory above, where that was told by it.
    pub(super) dirs: Vec<(RelPath, Option<u32>)>,
    lists_out: usize,
    /// Entries of the directory that was listed last.
    last_len: usize,
    /// Most bytes of attributes and ACLs that came of one list: a directory without any says nothing of the next.
    most_bytes: usize,
    /// Directories listed and not yet told.
    pub(super) ready: VecDeque<Ready>,
    pub(super) tallies: Tallies,
    next: u64,
    settled: u64,
    /// Of those between.
    bytes: ListedBytes,
    intact: bool,
    complete: bool,
    pub(super) names: u64,
    pub(super) files: u64,
    /// The users and groups whose names were told.
    named: (HashSet<u32>, HashSet<u32>),
    linking: Linking,
}

#[derive(Debug)]
pub(super) struct Ready {
    pub(super) dir: RelPath,
    pub(super) own: Option<Meta>,
    pub(super) entries: VecDeque<Entry>,
    /// What is not listed yet.
    pub(super) rest: Untold,
    pub(super) partial: bool,
    pub(super) is_empty_source: bool,
    /// The tally of the directory above, if that was told by it.
    pub(super) above: Option<u32>,
    /// Whether some of the entries are told.
    has_begun: bool,
    /// What may stand for the entries.
    tally: Option<DirDigest>,
    /// What stood for them: then what is below is being walked already.
    pub(super) tallied: Option<u32>,
}

/// What of a directory is not listed yet.
#[derive(Debug)]
pub(super) enum Untold {
    Nothing,
    Names(Box<SortedNames>),
    /// It is being listed.
    Asked,
}

impl From<Option<Box<SortedNames>>> for Untold {
    fn from(rest: Option<Box<SortedNames>>) -> Self {
        rest.map_or(Self::Nothing, Self::Names)
    }
}

impl Ready {
    /// Whether nothing of it can be told before more is listed.
    fn waits(&self) -> bool {
        self.entries.is_empty() && matches!(self.rest, Untold::Asked)
    }

    /// Whether all of it is told.
    fn is_told(&self) -> bool {
        self.entries.is_empty() && matches!(self.rest, Untold::Nothing)
    }
}

impl Lister {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            dirs: vec![(RelPath::root(), None)],
            lists_out: 0,
            last_len: ENTRIES_AT_ONCE,
            most_bytes: 0,
            ready: VecDeque::new(),
            tallies: Tallies::new(options),
            next: 0,
            settled: 0,
            bytes: ListedBytes::default(),
            intact: true,
            complete: false,
            names: 0,
            files: 0,
            named: (HashSet::new(), HashSet::new()),
            linking: Linking::default(),
        }
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// The numbers of the entries that are settled now and were not.
    pub(super) fn settle(&mut self, upto: FileNo) -> Result<Range<FileNo>, PeerError> {
        if upto.0 < self.settled || upto.0 > self.next {
            return Err(PeerError::Unexpected("settled entries that were not listed"));
        }
        let before = std::mem::replace(&mut self.settled, upto.0);
        self.bytes.settle(upto.0);
        Ok(FileNo(before)..upto)
    }

    /// Entries told.
    pub(super) const fn told(&self) -> u64 {
        self.next
    }

    /// Entries told and not settled.
    pub(super) const fn unsettled(&self) -> u64 {
        self.next - self.settled
    }

    const fn has_room(&self) -> bool {
        self.unsettled() + self.tallies.kept() < ENTRY_WINDOW && self.bytes.has_room()
    }

    /// Directories that are listed, or about to be, and wait for anything but their answer.
    fn ahead(&self) -> usize {
        self.ready.len() + self.lists_out + self.tallies.parked()
    }
}

impl Sender {
    /// Tells what is ready and asks for more directories, as far as the window reaches.
    pub(super) fn list_more(&mut self) {
        while self.tell_next() {}
        let by_entries = ENTRIES_AT_ONCE / (self.lister.last_len + 1);
        let by_bytes = LISTED_BYTES / (self.lister.most_bytes + 1);
        let at_once = by_entries.min(by_bytes).clamp(LISTS_AT_ONCE, SMALL_AT_ONCE);
        while self.lister.ahead() < at_once {
            let Some((dir, above)) = self.lister.dirs.pop() else { break };
            self.lister.lists_out += 1;
            let tally = self.lister.tallies.wants();
            let work = Work::List { dir: dir.clone(), tally, rest: None };
            self.jobs.ask(work, Place::List(dir, above));
        }
        let idle = self.lister.ahead() == 0 && self.lister.tallies.is_idle();
        if idle && !self.lister.complete {
            self.lister.complete = true;
            self.frames.push_back(ToReceiver::Listed { intact: self.lister.intact });
            self.report_listed();
        }
    }

    pub(super) fn listed(
        &mut self,
        (dir, above): (RelPath, Option<u32>),
        listed: Result<Listed, Trouble>,
    ) {
        self.lister.lists_out -= 1;
        let mut listed = listed.unwrap_or_else(Listed::from);
        let is_whole = listed.troubles.is_empty() && listed.rest.is_none();
        let partial = listed.partial || listed.has_vanished();
        let mut entries = VecDeque::from(self.take_listed(&mut listed));
        let mut own = listed.own;
        if own.is_some() && !self.options.takes(&Kind::Dir) {
            self.trouble(Trouble::skipped(&Kind::Dir, &dir));
            own = None;
            entries.clear();
            listed.rest = None;
        }
        let bytes = entries.iter().map(|entry| entry.meta.more_bytes()).sum();
        self.lister.last_len = entries.len();
        self.lister.most_bytes = self.lister.most_bytes.max(bytes);
        if !listed.missing.is_empty() {
            self.tell_missing(listed.missing);
        }
        let above = above.filter(|above| self.lister.tallies.is_open(*above));
        let mut ready = Ready {
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
        ready.tally = self.tally_of(&ready, listed.tally.filter(|_| is_whole));
        match above.filter(|_| ready.tally.is_none()) {
            Some(above) => self.lister.tallies.park(above, ready),
            None => self.lister.ready.push_back(ready),
        }
        self.list_more();
    }

    /// Takes the next entries of the directory that is being told.
    pub(super) fn listed_on(&mut self, listed: Result<Listed, Trouble>) {
        let mut listed = listed.unwrap_or_else(Listed::from);
        let has_vanished = listed.has_vanished();
        let entries = self.take_listed(&mut listed);
        let ready = self.lister.ready.front_mut().expect("what has begun stays the first");
        ready.partial |= has_vanished;
        ready.entries.extend(entries);
        ready.rest = listed.rest.into();
        self.list_more();
    }

    /// What came of listing a directory: tells what is no entry, and leaves the entries.
    fn take_listed(&mut self, listed: &mut Listed) -> Vec<Entry> {
        for trouble in std::mem::take(&mut listed.troubles) {
            // Where something vanished nothing is deleted; elsewhere it does not matter.
            self.lister.intact &= trouble.kind != TroubleKind::Failed;
            self.trouble(trouble);
        }
        self.tell_owners(std::mem::take(&mut listed.users), std::mem::take(&mut listed.groups));
        std::mem::take(&mut listed.entries)
    }

    /// Asks for more of a directory that is being told, before there is nothing to tell.
    fn list_on(&mut self, ready: &mut Ready) {
        if ready.entries.len() >= MAX_BATCH || !matches!(ready.rest, Untold::Names(_)) {
            return;
        }
        if let Untold::Names(rest) = std::mem::replace(&mut ready.rest, Untold::Asked) {
            let work = Work::List { dir: ready.dir.clone(), tally: false, rest: Some(rest) };
            self.jobs.ask(work, Place::ListOn);
        }
    }

    /// Tells what comes next, as far as there is room; whether there was anything.
    fn tell_next(&mut self) -> bool {
        // What was begun comes in one piece; then what is owed, for which room is kept.
        let has_begun = self.lister.ready.front().is_some_and(|ready| ready.has_begun);
        if !has_begun && let Some(owed) = self.lister.tallies.take_owed() {
            self.lister.ready.push_front(owed);
        }
        let Some(first) = self.lister.ready.front() else { return false };
        match (first.tallied, first.tally) {
            (None, Some(tally)) if self.lister.tallies.begin(self.lister.next) => {
                self.tell_tally(tally)
            }
            (Some(_), _) => self.tell_some(),
            (None, _) => self.lister.has_room() && self.tell_some(),
        }
    }

    /// Tells what users and groups are called, each once; of too many the last stay without a name.
    fn tell_owners(&mut self, mut users: Vec<NameLine>, mut groups: Vec<NameLine>) {
        let news = |known: &mut HashSet<u32>, line: &NameLine| {
            known.len() < MAX_OWNER_NAMES && known.insert(line.id)
        };
        users.retain(|line| news(&mut self.lister.named.0, line));
        groups.retain(|line| news(&mut self.lister.named.1, line));
        while !(users.is_empty() && groups.is_empty()) {
            let frame = ToReceiver::Owners {
                users: users.drain(..users.len().min(NAMES_AT_ONCE)).collect(),
                groups: groups.drain(..groups.len().min(NAMES_AT_ONCE)).collect(),
            };
            self.frames.push_back(frame);
        }
    }

    /// Tells one frame's worth of the first directory that is ready; whether there was one.
    fn tell_some(&mut self) -> bool {
        let Some(mut ready) = self.lister.ready.pop_front_if(|ready| !ready.waits()) else {
            return false;
        };
        let (mut entries, mut bytes, mut taken) = (Vec::new(), 0, 0);
        while bytes < FRAME_ENTRY_BYTES && entries.len() < MAX_BATCH {
            let Some(mut entry) = ready.entries.pop_front() else { break };
            bytes += weight(&entry);
            taken += 1;
            if self.tells((&ready.dir, ready.tallied), &mut entry) {
                entries.push(entry);
            }
        }
        let (dir, own) = (ready.dir.clone(), ready.own.take());
        if self.options.select.list_only {
            self.notices.extend(entry_notices(&dir, own.as_ref(), &entries));
        }
        self.list_on(&mut ready);
        let extent = match (ready.is_told(), ready.is_empty_source, ready.partial) {
            (false, ..) => Extent::More,
            (true, true, _) => Extent::Empty,
            (true, false, false) => Extent::Last,
            (true, false, true) => Extent::Part,
        };
        if ready.tallied.is_some() {
            self.lister.tallies.tell(taken);
        }
        let tallied = ready.tallied;
        if extent == Extent::More {
            (ready.has_begun, ready.tally) = (true, None);
            self.lister.ready.push_front(ready);
        }
        // Where all of a batch was left out there is nothing to tell, unless it was the last.
        if extent != Extent::More || own.is_some() || !entries.is_empty() {
            self.lister.names += u64::from(own.is_some());
            entries.iter_mut().for_each(|entry| leave_said(&mut entry.meta));
            self.lister.bytes.take(&entries, self.lister.next);
            self.frames.push_back(ToReceiver::Listing { dir, own, entries, extent });
            self.report_listed();
        }
        if let Some(no) = tallied.filter(|_| extent != Extent::More) {
            let parked = self.lister.tallies.close(no);
            self.lister.ready.extend(parked);
        }
        true
    }

    /// Tells which sources are not there.
    fn tell_missing(&mut self, mut missing: Vec<RelPath>) {
        while !missing.is_empty() {
            let rest = missing.split_off(missing.len().min(MISSING_AT_ONCE));
            self.frames.push_back(ToReceiver::Missing(std::mem::replace(&mut missing, rest)));
        }
    }

    /// Notes an entry that is told, or says why it is not.
    fn tells(&mut self, (dir, tallied): (&RelPath, Option<u32>), entry: &mut Entry) -> bool {
        let path = match dir.join(&entry.name) {
            Ok(path) => path,
            Err(bad) => {
                self.lister.intact = false;
                self.trouble(unsendable(dir, entry, &bad));
                return false;
            }
        };
        if is_left_out(&entry.meta.kind, &self.options) {
            if !self.options.select.list_only {
                self.trouble(Trouble::skipped(&entry.meta.kind, &path));
            }
            if entry.meta.is_dir() {
                return false;
            }
            // It comes to nothing at the other end: nobody waits for it.
            entry.meta.set_linked(None);
        }
        self.lister.names += 1;
        self.tell_linked(&path, &mut entry.meta);
        if self.options.remove.sources && !entry.meta.is_dir() {
            let source = (path.clone(), entry.meta.clone());
            self.leaving.push(FileNo(self.lister.next), source);
        }
        if self.options.follow.unmunge {
            unmunge(&mut entry.meta);
        }
        if let Some(unread) = entry.meta.unread() {
            let why = match unread {
                Unread::Denied => "permission denied",
                Unread::TooMuch => "they are more than can be sent",
                Unread::Other => "the system does not give them",
            };
            let words = |path: &str| format!("cannot read attributes of {path}: {why}");
            self.trouble(Trouble::at(TroubleKind::Failed, &path, words));
        }
        match entry.meta.kind {
            Kind::Dir if tallied.is_none() => self.lister.dirs.push((path, None)),
            Kind::File => {
                self.lister.files += 1;
                self.progress.list(entry.meta.len);
                let Meta { len, modified, mode, user, group, .. } = entry.meta;
                let listing = Listing {
                    path,
                    len,
                    modified,
                    mode,
                    owner: Owner { user, group },
                    attempts: 0,
                    inquiry: Inquiry::Unasked,
                    reported: 0,
                };
                self.entries.insert(FileNo(self.lister.next), listing);
            }
            _ => {}
        }
        self.lister.next += 1;
        true
    }

    fn tell_linked(&mut self, path: &RelPath, meta: &mut Meta) {
        if let Some(Linked::Inode(inode, _)) = meta.linked()
            && self.options.follow.follow != Follow::Never
        {
            // By a link to a directory, a file is met under more names than it has.
            meta.set_linked(Some(Linked::Inode(inode, u32::MAX)));
        }
        if self.lister.linking.tell((self.lister.next, path), meta) == Told::Crowded {
            let words = |path: &str| {
                format!(
                    "cannot link {path}: too many files of several names; each name of such is sent by itself"
                )
            };
            self.trouble(Trouble::at(TroubleKind::Failed, path, words));
        }
    }

    /// Tells both ends' users.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        self.frames.push_back(ToReceiver::Trouble(trouble.clone()));
        self.notices.push_back(Notice::Trouble(trouble));
    }

    pub(super) fn report_listed(&mut self) {
        let Lister { names, files, complete, .. } = self.lister;
        let bytes = self.progress.listed();
        self.notices.push_back(Notice::Listed { names, files, bytes, complete });
    }
}

/// A link that was munged when it was received is sent as it was.
fn unmunge(meta: &mut Meta) {
    if let Kind::Symlink(target) = &mut meta.kind
        && let Some(own) = target.strip_prefix(MUNGED).filter(|own| !own.is_empty())
    {
        *target = own.into();
    }
}

/// Whether an entry takes no part for its kind.
pub(super) fn is_left_out(kind: &Kind, options: &Options) -> bool {
    !options.takes(kind) && *kind != Kind::File
}

/// What there is to tell of a section where nothing is brought over.
fn entry_notices(dir: &RelPath, own: Option<&Meta>, entries: &[Entry]) -> Vec<Notice> {
    let own = own.map(|meta| Notice::Entry { path: dir.clone(), meta: meta.clone() });
    let entry = |entry: &Entry| {
        Some(Notice::Entry { path: dir.join(&entry.name).ok()?, meta: entry.meta.clone() })
    };
    own.into_iter().chain(entries.iter().filter_map(entry)).collect()
}

fn unsendable(dir: &RelPath, entry: &Entry, bad: &BadPath) -> Trouble {
    let words = |dir: &str| format!("cannot send {} in {dir}: {bad}", entry.name);
    Trouble::at(TroubleKind::Failed, dir, words)
}

/// About the bytes that an entry takes in a frame.
fn weight(entry: &Entry) -> usize {
    let target = if let Kind::Symlink(target) = &entry.meta.kind { target.len() } else { 0 };
    let acls = entry.meta.access_acl().into_iter().chain(entry.meta.default_acl());
    let named: usize = acls.map(|acl| acl.named.len()).sum();
    let xattr = |xattr: &Xattr| xattr.name.len() + xattr.value.len() + 4;
    let xattrs: usize = entry.meta.xattrs().iter().map(xattr).sum();
    entry.name.as_bytes().len() + target + 7 * named + xattrs + 48
}
