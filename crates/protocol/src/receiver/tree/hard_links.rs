//! Files of several names (`-H`): one name is brought over, and the others become other names of what it is here.
//!
//! ```text
//! the first name told ──► leads: is decided as any other entry
//! a later one         ──► the leader is on its way:  waits for it
//!                     ──► the leader is here:        linked to it, unless it is already
//!                     ──► no name is here or coming: leads itself
//! a leader that does not come ──► the first of those that wait leads
//! ```
//!
//! Of names that were looked at together the one leads of which most is here: nothing is sent if one of them is what it
//! shall be, whichever comes first in the list. Nor is it if an alternate has one of them.
//!
//! A name that cannot be linked comes by itself. All that waits keeps its entry unsettled, so that its file may still
//! be wanted, and so that no more wait than the window lets in.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use deltic_tree::meta::{ExtraMeta, HardLink, Inode};
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::{MAX_LINKED, MAX_LINKED_BYTES, linked_bytes};
use crate::message::FileNo;
use crate::options::Options;
use crate::report::EntryType;

use super::compare::{Quick, quick};
use super::looked::{Looked, Placed};
use super::resting::Resting;
use super::sections::Section;

/// Files of several names, by the number of the first that was told.
#[derive(Debug, Default)]
pub(super) struct HardLinks {
    files: HashMap<FileNo, Shared>,
    /// Files for which nothing is to be done until another name is told.
    resting: Resting,
    /// Number of files of which more names may be told, and the bytes of their first names and targets.
    open: usize,
    open_bytes: usize,
    /// The names that lead and are on their way, and which file each is of.
    leaders: HashMap<FileNo, FileNo>,
    /// Names that wait for their leader, or are being linked.
    names: BTreeMap<FileNo, LaterName>,
    /// Leaders that are here by now.
    came: VecDeque<FileNo>,
    /// Names that lead since their leader did not come.
    promoted: VecDeque<FileNo>,
}

/// A later name of a file, and what stands in its place.
#[derive(Debug)]
pub(super) struct LaterName {
    pub(super) path: RelPath,
    pub(super) meta: Meta,
    pub(super) more: Option<Arc<ExtraMeta>>,
    pub(super) seen: Option<Meta>,
    /// True where the reference directories are known not to have it.
    pub(super) is_not_beside: bool,
}

impl LaterName {
    /// The entry, where it brings everything itself.
    pub(super) fn placed(self, file: FileNo) -> Placed {
        let meta = self.alone();
        Placed { file, path: self.path, meta, seen: self.seen }
    }

    /// Its metadata, where it brings everything itself.
    pub(super) fn alone(&self) -> Meta {
        let more = self.more.as_deref().cloned().map(Box::new);
        let mut meta = Meta { more, ..self.meta.clone() };
        meta.set_linked(self.meta.linked());
        meta
    }
}

/// The number of the first name that was told of the file that an entry is a later name of.
pub(super) fn first_of(file: FileNo, meta: &Meta) -> Option<FileNo> {
    match meta.linked() {
        Some(HardLink::Back(back)) => file.0.checked_sub(back).map(FileNo),
        _ => None,
    }
}

/// The next step of a later name.
#[derive(Debug)]
pub(super) enum Next {
    /// Waits for its leader, which is on its way.
    Wait,
    /// Becomes a link to its leader, which is here.
    Link(LaterName),
    /// Leads itself.
    Lead(LaterName),
}

/// Names to go on with.
#[derive(Debug)]
pub(super) enum Step {
    /// These are linked to their leader, which is here: the first name of their file.
    Link(FileNo, Vec<(FileNo, LaterName)>),
    /// This one leads, for the leader of its file did not come.
    Lead((FileNo, FileNo), LaterName),
}

/// The version of a listed name that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// No version that it could keep, or it is passed over.
    Nothing,
    /// Another version of it.
    Old,
    /// A version that may be it, as far as size tells.
    Unproven,
    /// The version that it shall be, but perhaps for attributes.
    Here,
}

impl Standing {
    fn of(options: &Options, meta: &Meta, old: Option<&Meta>) -> Self {
        let (compare, is_file) = (&options.compare, meta.is_file());
        let Some(old) = old.filter(|old| EntryType::of(&old.kind) == EntryType::of(&meta.kind))
        else {
            return Self::Nothing;
        };
        match () {
            () if compare.passes_over(meta, Some(old)).is_some() => Self::Nothing,
            () if is_file && compare.passes_over_file(meta, Some(old)).is_some() => Self::Nothing,
            () if !is_file && meta.kind == old.kind => Self::Here,
            () if !is_file => Self::Old,
            () => match quick(options, meta, old) {
                Quick::Same => Self::Here,
                Quick::Unknown => Self::Unproven,
                Quick::Differs => Self::Old,
            },
        }
    }
}

impl HardLinks {
    /// The lowest number that waits.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.names.keys().next().copied()
    }

    /// True where this entry is the one name of a file that the others wait for.
    pub(super) fn leads(&self, file: FileNo) -> bool {
        self.leaders.contains_key(&file)
    }

    /// Notes the first name of a file.
    fn open(&mut self, file: FileNo, path: RelPath, (meta, names): (&Meta, u32)) {
        let path_bytes = linked_bytes(&path, meta);
        self.open += 1;
        self.open_bytes += path_bytes;
        let shared = Shared {
            meta: Meta { user: meta.user, group: meta.group, ..plain(meta) },
            more: more_of(meta),
            path,
            path_bytes,
            untold: names - 1,
            undecided: 0,
            state: State::Coming,
            inode: None,
            is_beside: false,
            waiting: VecDeque::new(),
        };
        self.files.insert(file, shared);
        self.leaders.insert(file, file);
    }

    /// Notes a later name of the file whose first is `first`; what was said of it.
    fn meet(&mut self, first: FileNo) -> Option<Meta> {
        if let Some(shared) = self.resting.take(first) {
            self.files.insert(first, shared);
        }
        let shared = self.files.get_mut(&first).filter(|shared| shared.untold > 0)?;
        shared.untold -= 1;
        shared.undecided += 1;
        if shared.untold == 0 {
            self.open -= 1;
            self.open_bytes -= shared.path_bytes;
        }
        Some(shared.meta.clone())
    }

    /// Leaves it to another name to lead. The first one, which was to, is decided as a later one.
    fn stand_back(&mut self, first: FileNo) {
        self.leaders.remove(&first);
        if let Some(shared) = self.files.get_mut(&first) {
            shared.state = State::Nowhere;
            shared.undecided += 1;
        }
    }

    /// Forgets a file that nothing more will be asked about, and lays one aside of which more names may be told.
    pub(super) fn forget(&mut self, first: FileNo) {
        let is_over = |shared: &Shared| {
            shared.untold == 0 && shared.undecided == 0 && shared.state != State::Coming
        };
        let Some(shared) = self.files.get(&first) else { return };
        if is_over(shared) || self.resting.keep(first, shared) {
            self.files.remove(&first);
        }
    }

    /// Notes the names of a section that share a file with others, and says of the later ones what was said of the
    /// first.
    pub(super) fn take(&mut self, section: &mut Section) -> Result<(), PeerError> {
        for (nth, entry) in section.entries.iter_mut().enumerate() {
            let file = FileNo(section.first + nth as u64);
            match entry.meta.linked() {
                Some(HardLink::First(names)) => {
                    let path = section.dir.join(&entry.name);
                    let path =
                        path.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
                    self.open(file, path, (&entry.meta, names));
                }
                linked @ Some(HardLink::Back(_)) => {
                    let first = first_of(file, &entry.meta);
                    let said = first.and_then(|first| self.meet(first));
                    let unknown = PeerError::Unexpected("another name of a file that was not told");
                    entry.meta = said.ok_or(unknown)?;
                    entry.meta.set_linked(linked);
                }
                Some(HardLink::Inode(..)) | None => {}
            }
        }
        if self.open > MAX_LINKED || self.open_bytes > MAX_LINKED_BYTES {
            return Err(PeerError::Limit("files of several names"));
        }
        Ok(())
    }

    /// Keeps what the first names of a section bring as this end understands it: whom their ACLs name.
    pub(super) fn know(&mut self, section: &Section) {
        for (nth, entry) in section.entries.iter().enumerate() {
            if matches!(entry.meta.linked(), Some(HardLink::First(_)))
                && let Some(shared) = self.files.get_mut(&FileNo(section.first + nth as u64))
            {
                shared.more = more_of(&entry.meta);
            }
        }
    }

    /// Lets that name of a file lead of which most is here, where the first is among those that were looked at. It
    /// takes the first one's place in `looked`, with what was said of that alone.
    pub(super) fn lead_by_what_is_here(&mut self, options: &Options, looked: &mut [Looked]) {
        // The first names, and which name has most.
        let mut firsts: HashMap<FileNo, (usize, (Standing, usize))> = HashMap::new();
        for (nth, Looked { file, entry, old }) in looked.iter().enumerate() {
            let old = || old.as_ref().ok().and_then(Option::as_ref);
            let standing = || Standing::of(options, &entry.meta, old());
            match entry.meta.linked() {
                Some(HardLink::First(_)) => drop(firsts.insert(*file, (nth, (standing(), nth)))),
                Some(HardLink::Back(_)) => {
                    let first = first_of(*file, &entry.meta);
                    let first = first.and_then(|first| firsts.get_mut(&first));
                    let Some((_, best)) = first else { continue };
                    let standing = standing();
                    if standing > best.0 {
                        *best = (standing, nth);
                    }
                }
                _ => {}
            }
        }
        for (first, (at, (_, best))) in firsts {
            if at == best {
                continue;
            }
            self.stand_back(first);
            let mut plain = looked[best].entry.meta.clone();
            let linked = plain.linked();
            plain.set_linked(Some(HardLink::Back(0)));
            let mut said = std::mem::replace(&mut looked[at].entry.meta, plain);
            said.set_linked(linked);
            looked[best].entry.meta = said;
            looked.swap(at, best);
        }
    }

    /// An entry is here, or would be in a dry run.
    pub(super) fn came(&mut self, file: FileNo) {
        if let Some(first) = self.leaders.remove(&file) {
            self.came.push_back(first);
        }
    }

    /// A leader comes from an alternate: its other names are not told as new.
    pub(super) fn comes_from_beside(&mut self, file: FileNo) {
        let first = self.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.files.get_mut(first)) {
            shared.is_beside = true;
        }
    }

    /// A leader stays what it `is`: names of that need nothing more.
    pub(super) fn stays(&mut self, file: FileNo, is: &Meta) {
        let first = self.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.files.get_mut(first)) {
            shared.inode = is.linked().and_then(HardLink::inode);
        }
    }

    /// Takes a later name that was looked at, and says what is to be done with it; then the file may be
    /// [forgotten](Self::forget).
    pub(super) fn decide(&mut self, first: FileNo, placed: Placed) -> Next {
        let Placed { file, path, meta, seen } = placed;
        let shared = self.files.get_mut(&first).expect("a name is to be decided");
        shared.undecided -= 1;
        let more = shared.more.clone();
        let name = LaterName { path, meta, more, seen, is_not_beside: false };
        match shared.state {
            State::Coming => {
                shared.waiting.push_back(file);
                self.names.insert(file, name);
                Next::Wait
            }
            State::Here => Next::Link(name),
            State::Nowhere => Next::Lead(name),
        }
    }

    /// Has a name lead: it brings what the first name said.
    pub(super) fn lead(&mut self, (file, first): (FileNo, FileNo), name: &mut LaterName) {
        let shared = self.files.get_mut(&first).expect("one of its names is to lead");
        shared.state = State::Coming;
        name.more.clone_from(&shared.more);
        shared.path = name.path.clone();
        self.leaders.insert(file, first);
    }

    /// Has a leader without an old version give way that is in no reference directory, if others wait that may be; else
    /// it is returned.
    pub(super) fn give_way(&mut self, placed: Placed) -> Option<Placed> {
        let Self { files, leaders, names, promoted, .. } = self;
        let shared = leaders.get(&placed.file).and_then(|first| files.get_mut(first));
        let has_old = placed.has_old();
        let Some(shared) = shared.filter(|shared| !has_old && !shared.waiting.is_empty()) else {
            return Some(placed);
        };
        let Placed { file, path, mut meta, seen } = placed;
        leaders.remove(&file);
        if !matches!(meta.linked(), Some(HardLink::Back(_))) {
            meta.set_linked(Some(HardLink::Back(0)));
        }
        let more = shared.more.clone();
        names.insert(file, LaterName { path, meta, more, seen, is_not_beside: true });
        shared.waiting.push_back(file);
        // The first one, if none of them has it.
        let next = shared.waiting.iter().position(|name| !names[name].is_not_beside).unwrap_or(0);
        promoted.extend(shared.waiting.remove(next));
        None
    }

    /// Notes that an entry does not come: if others wait for it, one of them leads.
    pub(super) fn miss(&mut self, file: FileNo) {
        let Some(first) = self.leaders.remove(&file) else { return };
        let Some(shared) = self.files.get_mut(&first) else { return };
        match shared.waiting.pop_front() {
            Some(next) => self.promoted.push_back(next),
            None => {
                shared.state = State::Nowhere;
                self.forget(first);
            }
        }
    }

    /// Notes that a name is given up that was not decided yet.
    pub(super) fn miss_undecided(&mut self, first: Option<FileNo>) {
        if let Some(first) = first
            && let Some(shared) = self.files.get_mut(&first)
        {
            shared.undecided -= 1;
            self.forget(first);
        }
    }

    /// The next names to go on with: those that waited for leaders that came, or did not.
    pub(super) fn next_step(&mut self) -> Option<Step> {
        loop {
            if let Some(first) = self.came.pop_front() {
                let Some(shared) = self.files.get_mut(&first) else { continue };
                shared.state = State::Here;
                let waiting = std::mem::take(&mut shared.waiting).into_iter();
                let names = waiting.filter_map(|file| Some((file, self.names.remove(&file)?)));
                return Some(Step::Link(first, names.collect()));
            }
            let file = self.promoted.pop_front()?;
            let Some(name) = self.names.remove(&file) else { continue };
            if let Some(first) = first_of(file, &name.meta) {
                return Some(Step::Lead((file, first), name));
            }
        }
    }

    /// The leader of a file, which is here.
    pub(super) fn leader(&self, first: FileNo) -> &Shared {
        &self.files[&first]
    }

    /// Keeps a name that is being linked.
    pub(super) fn link(&mut self, file: FileNo, name: LaterName) {
        self.names.insert(file, name);
    }

    /// Takes a name that was linked, or could not be.
    pub(super) fn linked(&mut self, file: FileNo) -> Option<LaterName> {
        self.names.remove(&file)
    }

    /// True where nothing is kept of any file.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.leaders.is_empty()
    }
}

fn plain(meta: &Meta) -> Meta {
    Meta::plain(meta.kind.clone(), meta.len, meta.modified, meta.mode)
}

/// The metadata that a first name says besides, if it says anything but that it is one.
fn more_of(meta: &Meta) -> Option<Arc<ExtraMeta>> {
    let mut meta = meta.clone();
    meta.set_linked(None);
    meta.more.map(Arc::from)
}

/// A file of several names.
#[derive(Debug)]
pub(super) struct Shared {
    /// The metadata that was said of it, but for what its first name brings to all of them.
    pub(super) meta: Meta,
    /// The metadata that its first name brings to all of them: a name that comes by itself brings it too.
    pub(super) more: Option<Arc<ExtraMeta>>,
    /// The name that leads.
    pub(super) path: RelPath,
    /// Bytes of the first name, and of what it points at.
    pub(super) path_bytes: usize,
    /// Names that are still to be told, and names that were told and are to be decided.
    pub(super) untold: u32,
    pub(super) undecided: u32,
    pub(super) state: State,
    /// The inode that its leader was a name of here before, if it stays that.
    pub(super) inode: Option<Inode>,
    /// True where its leader comes from a reference directory.
    pub(super) is_beside: bool,
    pub(super) waiting: VecDeque<FileNo>,
}

/// The fate of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No name of it is here or on its way.
    Nowhere,
    /// Its leader is on its way.
    Coming,
    /// Its leader is here.
    Here,
}
