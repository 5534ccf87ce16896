//! Walking the tree and telling it, a directory at a time, never far ahead of what the receiver has settled.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use deltic_core::links::MUNGED;
use deltic_core::path::BadPath;
use deltic_core::{Entry, Kind, Meta, RelPath, Xattr};

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, MAX_BATCH, MAX_OWNER_NAMES};
use crate::message::{Extent, FileNo, NameLine, ToReceiver};
use crate::options::Options;
use crate::report::{Notice, Trouble, TroubleKind};

use super::linking::{Linking, Told, leave_said};
use super::{Inquiry, Listed, Listing, Place, Sender, Work};

/// Directories listed at once: hides the latency of a cold disk.
const LISTS_AT_ONCE: usize = 4;
/// Paths in one frame: the longest fit.
const MISSING_AT_ONCE: usize = 128;
/// Entries' own bytes in one frame.
const FRAME_ENTRY_BYTES: usize = 128 << 10;

/// Names of users, and as many of groups, in one frame.
const NAMES_AT_ONCE: usize = 1 << 10;

/// Where the walk stands.
#[derive(Debug)]
pub(super) struct Lister {
    /// Directories still to list; the last is the next.
    dirs: Vec<RelPath>,
    lists_out: usize,
    /// Directories listed and not yet told.
    ready: VecDeque<Ready>,
    next: u64,
    settled: u64,
    intact: bool,
    complete: bool,
    files: u64,
    /// The users and groups whose names were told.
    named: (HashSet<u32>, HashSet<u32>),
    linking: Linking,
}

#[derive(Debug)]
struct Ready {
    dir: RelPath,
    own: Option<Meta>,
    entries: VecDeque<Entry>,
    partial: bool,
}

impl Lister {
    pub(super) fn new() -> Self {
        Self {
            dirs: vec![RelPath::root()],
            lists_out: 0,
            ready: VecDeque::new(),
            next: 0,
            settled: 0,
            intact: true,
            complete: false,
            files: 0,
            named: (HashSet::new(), HashSet::new()),
            linking: Linking::default(),
        }
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// The numbers of the entries that are settled now and were not.
    pub(super) const fn settle(&mut self, upto: FileNo) -> Result<Range<FileNo>, PeerError> {
        if upto.0 < self.settled || upto.0 > self.next {
            return Err(PeerError::Unexpected("settled entries that were not listed"));
        }
        let before = std::mem::replace(&mut self.settled, upto.0);
        Ok(FileNo(before)..upto)
    }

    const fn has_room(&self) -> bool {
        self.next - self.settled < ENTRY_WINDOW
    }
}

impl Sender {
    /// Tells what is ready and asks for more directories, as far as the window reaches.
    pub(super) fn list_more(&mut self) {
        while self.lister.has_room() && self.tell_some() {}
        while self.lister.ready.len() + self.lister.lists_out < LISTS_AT_ONCE {
            let Some(dir) = self.lister.dirs.pop() else { break };
            self.lister.lists_out += 1;
            self.jobs.ask(Work::List { dir: dir.clone() }, Place::List(dir));
        }
        let idle = self.lister.lists_out == 0 && self.lister.ready.is_empty();
        if idle && !self.lister.complete {
            self.lister.complete = true;
            self.frames.push_back(ToReceiver::Listed { intact: self.lister.intact });
            self.report_listed();
        }
    }

    pub(super) fn listed(&mut self, dir: &RelPath, listed: Result<Listed, Trouble>) {
        self.lister.lists_out -= 1;
        let mut listed = listed
            .unwrap_or_else(|trouble| Listed { troubles: vec![trouble], ..Listed::default() });
        if self.options.follow.munge {
            listed.entries.iter_mut().for_each(unmunge);
        }
        for trouble in listed.troubles {
            self.lister.intact &= trouble.kind == TroubleKind::Skipped;
            self.trouble(trouble);
        }
        self.tell_owners(listed.users, listed.groups);
        let (mut own, mut entries) = (listed.own, VecDeque::from(listed.entries));
        if own.is_some() && !self.options.takes(&Kind::Dir) {
            self.trouble(skipped("directory", dir));
            own = None;
            entries.clear();
        }
        let partial = listed.partial;
        if !listed.missing.is_empty() {
            self.tell_missing(listed.missing);
        }
        self.lister.ready.push_back(Ready { dir: dir.clone(), own, entries, partial });
        self.list_more();
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
        let Some(mut ready) = self.lister.ready.pop_front() else { return false };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while bytes < FRAME_ENTRY_BYTES && entries.len() < MAX_BATCH {
            let Some(mut entry) = ready.entries.pop_front() else { break };
            bytes += weight(&entry);
            if self.tells(&ready.dir, &mut entry) {
                entries.push(entry);
            }
        }
        let (dir, own) = (ready.dir.clone(), ready.own.take());
        if self.options.select.list_only {
            self.notices.extend(entry_notices(&dir, own.as_ref(), &entries));
        }
        let extent = match (ready.entries.is_empty(), ready.partial) {
            (false, _) => Extent::More,
            (true, false) => Extent::Last,
            (true, true) => Extent::Part,
        };
        if extent == Extent::More {
            self.lister.ready.push_front(ready);
        }
        // Where all of a batch was left out there is nothing to tell, unless it was the last.
        if extent != Extent::More || own.is_some() || !entries.is_empty() {
            entries.iter_mut().for_each(|entry| leave_said(&mut entry.meta));
            self.frames.push_back(ToReceiver::Listing { dir, own, entries, extent });
            self.report_listed();
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
    fn tells(&mut self, dir: &RelPath, entry: &mut Entry) -> bool {
        let path = match dir.join(&entry.name) {
            Ok(path) => path,
            Err(bad) => {
                self.lister.intact = false;
                self.trouble(unsendable(dir, entry, &bad));
                return false;
            }
        };
        if let Some(what) = left_out(&entry.meta.kind, &self.options) {
            if !self.options.select.list_only {
                self.trouble(skipped(what, &path));
            }
            if entry.meta.is_dir() {
                return false;
            }
            // It comes to nothing at the other end: nobody waits for it.
            entry.meta.set_linked(None);
        }
        self.tell_linked(&path, &mut entry.meta);
        if self.options.remove.sources && !entry.meta.is_dir() {
            let source = (path.clone(), entry.meta.clone());
            self.sources.insert(FileNo(self.lister.next), source);
        }
        if entry.meta.is_partly_unread() {
            let message = format!("read attributes of {path}: too many, or not ours to read");
            self.trouble(Trouble { kind: TroubleKind::Failed, message });
        }
        match entry.meta.kind {
            Kind::Dir => self.lister.dirs.push(path),
            Kind::File => {
                self.lister.files += 1;
                self.progress.list(entry.meta.len);
                let Meta { len, modified, mode, .. } = entry.meta;
                let listing = Listing {
                    path,
                    len,
                    modified,
                    mode,
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
        if self.lister.linking.tell((self.lister.next, path), meta) == Told::Crowded {
            let message = format!(
                "link {path}: too many files of several names; each name of such is sent by itself"
            );
            self.trouble(Trouble { kind: TroubleKind::Failed, message });
        }
    }

    /// Tells both ends' users.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        self.frames.push_back(ToReceiver::Trouble(trouble.clone()));
        self.notices.push_back(Notice::Trouble(trouble));
    }

    fn report_listed(&mut self) {
        let Lister { files, complete, .. } = self.lister;
        let bytes = self.progress.listed();
        self.notices.push_back(Notice::Listed { files, bytes, complete });
    }
}

/// A link that was munged when it was received is sent as it was.
fn unmunge(entry: &mut Entry) {
    if let Kind::Symlink(target) = &mut entry.meta.kind
        && let Some(own) = target.strip_prefix(MUNGED).filter(|own| !own.is_empty())
    {
        *target = own.into();
    }
}

/// What an entry is that does not take part.
fn left_out(kind: &Kind, options: &Options) -> Option<&'static str> {
    match kind {
        _ if options.takes(kind) => None,
        Kind::File => None,
        Kind::Dir => Some("directory"),
        Kind::Symlink(_) => Some("symbolic link"),
        Kind::Fifo | Kind::Socket | Kind::Device(_) => Some("special file"),
    }
}

/// What there is to tell of a section where nothing is brought over.
fn entry_notices(dir: &RelPath, own: Option<&Meta>, entries: &[Entry]) -> Vec<Notice> {
    let own = own.map(|meta| Notice::Entry { path: dir.clone(), meta: meta.clone() });
    let entry = |entry: &Entry| {
        Some(Notice::Entry { path: dir.join(&entry.name).ok()?, meta: entry.meta.clone() })
    };
    own.into_iter().chain(entries.iter().filter_map(entry)).collect()
}

fn skipped(what: &str, path: &RelPath) -> Trouble {
    Trouble { kind: TroubleKind::Skipped, message: format!("skip {what} {path}") }
}

fn unsendable(dir: &RelPath, entry: &Entry, bad: &BadPath) -> Trouble {
    let message = format!("send {} in {dir}: {bad}", entry.name);
    Trouble { kind: TroubleKind::Failed, message }
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
