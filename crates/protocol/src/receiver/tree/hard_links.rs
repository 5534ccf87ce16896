//! Files with several hard links (`-H`). The first suitable name, the *leader*, is transferred. The other names are
//! hard-linked to the leader.
//!
//! ```text
//! the first name      ──► leads: is decided as any other entry
//! a later name        ──► the leader is on its way:  waits for it
//!                     ──► the leader is in place:    linked to it, unless it is already
//!                     ──► no leader:                 leads itself
//! a leader that fails ──► the first waiting name leads
//! ```
//!
//! Of names that are looked at together, the name with the best local version leads: nothing is sent if any of them
//! is up to date, whichever name is first in the list. Nothing is sent either if an alternate has one of the names.
//!
//! A name that cannot be linked is transferred by itself. The entry of each waiting name stays unsettled, so that its
//! file may still be wanted, and the window bounds the number of waiting names.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use deltic_tree::meta::{ExtraMeta, HardLink, Inode};
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::{MAX_LINKED, MAX_LINKED_BYTES, hard_link_bytes};
use crate::message::FileNo;
use crate::options::Options;
use crate::report::EntryType;

use super::compare::{QuickCheck, quick_check};
use super::looked::{LookedEntry, PlacedEntry};
use super::resting::RestingFiles;
use super::sections::DirSection;

/// Files with several hard links, by the number of the first listed name.
#[derive(Debug, Default)]
pub(super) struct HardLinks {
    files: HashMap<FileNo, LinkedFile>,
    /// Files that need no step until another name is listed.
    resting: RestingFiles,
    /// Number of files with names still to be listed. `open_bytes` is the length of their first names and targets.
    open: usize,
    open_bytes: usize,
    /// Leading names that are on the way, each with the first name of the file.
    leaders: HashMap<FileNo, FileNo>,
    /// Names that wait for a leader, or are being linked.
    names: BTreeMap<FileNo, LaterName>,
    /// Files with a leader that is now in place, by first name.
    linkable: VecDeque<FileNo>,
    /// Names that become leaders because the leader failed.
    promoted: VecDeque<FileNo>,
}

/// A later name of a file, and the entry in place.
#[derive(Debug)]
pub(super) struct LaterName {
    pub(super) path: RelPath,
    pub(super) meta: Meta,
    pub(super) more: Option<Arc<ExtraMeta>>,
    pub(super) seen: Option<Meta>,
    /// True if no alternate has the name.
    pub(super) is_not_beside: bool,
}

impl LaterName {
    /// Returns the entry for a transfer without the leader.
    pub(super) fn into_placed_entry(self, file: FileNo) -> PlacedEntry {
        let meta = self.meta_alone();
        PlacedEntry { file, path: self.path, meta, seen: self.seen }
    }

    /// Returns the metadata for a transfer without the leader.
    pub(super) fn meta_alone(&self) -> Meta {
        let more = self.more.as_deref().cloned().map(Box::new);
        let mut meta = Meta { more, ..self.meta.clone() };
        meta.set_hard_link(self.meta.hard_link());
        meta
    }
}

/// Returns the number of the first name of a file, if the entry is a later name.
pub(super) fn first_name_of(file: FileNo, meta: &Meta) -> Option<FileNo> {
    match meta.hard_link() {
        Some(HardLink::Back(back)) => file.0.checked_sub(back).map(FileNo),
        _ => None,
    }
}

/// The next step of a later name.
#[derive(Debug)]
pub(super) enum NameStep {
    /// The name waits until the leader is in place.
    Wait,
    /// The name becomes a link to the leader, which is in place.
    Link(LaterName),
    /// The name becomes the leader.
    Lead(LaterName),
}

/// Names for which a step is possible.
#[derive(Debug)]
pub(super) enum LinkStep {
    /// The names to link to a leader in place; `first` is the first name of the file.
    Link { first: FileNo, names: Vec<(FileNo, LaterName)> },
    /// The name that becomes the leader, because the leader of the file failed.
    Lead { file: FileNo, first: FileNo, name: LaterName },
}

/// The local version of a listed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LocalVersion {
    /// No usable version, or the name is skipped because of the options.
    Nothing,
    /// Another version.
    Old,
    /// A version of the same length, which may be up to date; only a comparison of contents can tell.
    Unproven,
    /// The listed version, perhaps with other attributes.
    Here,
}

impl LocalVersion {
    fn of(options: &Options, meta: &Meta, old: Option<&Meta>) -> Self {
        let (compare, is_file) = (&options.compare, meta.is_file());
        let Some(old) = old.filter(|old| EntryType::of(&old.kind) == EntryType::of(&meta.kind))
        else {
            return Self::Nothing;
        };
        match () {
            () if compare.reason_to_pass_over(meta, Some(old)).is_some() => Self::Nothing,
            () if is_file && compare.reason_to_pass_over_file(meta, Some(old)).is_some() => {
                Self::Nothing
            }
            () if !is_file && meta.kind == old.kind => Self::Here,
            () if !is_file => Self::Old,
            () => match quick_check(options, meta, old) {
                QuickCheck::Same => Self::Here,
                QuickCheck::Unknown => Self::Unproven,
                QuickCheck::Differs => Self::Old,
            },
        }
    }
}

impl HardLinks {
    /// Returns the lowest number of a waiting name.
    pub(super) fn first_waiting(&self) -> Option<FileNo> {
        self.names.keys().next().copied()
    }

    /// True if this entry is the leader that other names of the same file wait for.
    pub(super) fn is_awaited_leader(&self, file: FileNo) -> bool {
        self.leaders.contains_key(&file)
    }

    /// Notes the first name of a file.
    fn add_first_name(&mut self, file: FileNo, path: RelPath, meta: &Meta, names: u32) {
        let path_bytes = hard_link_bytes(&path, meta);
        self.open += 1;
        self.open_bytes += path_bytes;
        let shared = LinkedFile {
            meta: Meta { user: meta.user, group: meta.group, ..without_hard_link(meta) },
            more: extra_meta_of_first(meta),
            path,
            path_bytes,
            unlisted_names: names - 1,
            undecided_names: 0,
            state: LeaderState::Coming,
            inode: None,
            is_beside: false,
            waiting: VecDeque::new(),
        };
        self.files.insert(file, shared);
        self.leaders.insert(file, file);
    }

    /// Takes a later name of the file with first name `first`. Returns the metadata that was listed with the first
    /// name.
    fn take_later_name(&mut self, first: FileNo) -> Option<Meta> {
        if let Some(shared) = self.resting.take_stored(first) {
            self.files.insert(first, shared);
        }
        let shared = self.files.get_mut(&first).filter(|shared| shared.unlisted_names > 0)?;
        shared.unlisted_names -= 1;
        shared.undecided_names += 1;
        if shared.unlisted_names == 0 {
            self.open -= 1;
            self.open_bytes -= shared.path_bytes;
        }
        Some(shared.meta.clone())
    }

    /// Removes the first name of a file as leader, so that another name can lead. The first name is decided again,
    /// like a later name.
    fn demote_first(&mut self, first: FileNo) {
        self.leaders.remove(&first);
        if let Some(shared) = self.files.get_mut(&first) {
            shared.state = LeaderState::Nowhere;
            shared.undecided_names += 1;
        }
    }

    /// Drops a file that needs no further step, or stores the file compactly if it only waits for more names to be
    /// listed.
    pub(super) fn drop_or_compact(&mut self, first: FileNo) {
        let is_over = |shared: &LinkedFile| {
            shared.unlisted_names == 0
                && shared.undecided_names == 0
                && shared.state != LeaderState::Coming
        };
        let Some(shared) = self.files.get(&first) else { return };
        if is_over(shared) || self.resting.store_if_idle(first, shared) {
            self.files.remove(&first);
        }
    }

    /// Notes the names of a section that share a file with other names, and copies the metadata of first names to
    /// later names. Errors: `Unexpected` for an unknown file, `Limit` for too many files.
    pub(super) fn note_section(&mut self, section: &mut DirSection) -> Result<(), PeerError> {
        for (nth, entry) in section.entries.iter_mut().enumerate() {
            let file = FileNo(section.first + nth as u64);
            match entry.meta.hard_link() {
                Some(HardLink::First(names)) => {
                    let path = section.dir.join(&entry.name);
                    let path =
                        path.map_err(|source| PeerError::BadName { frame: "Listing", source })?;
                    self.add_first_name(file, path, &entry.meta, names);
                }
                linked @ Some(HardLink::Back(_)) => {
                    let first = first_name_of(file, &entry.meta);
                    let first_meta = first.and_then(|first| self.take_later_name(first));
                    let unknown =
                        PeerError::Unexpected("a hard link to a file that was not listed");
                    entry.meta = first_meta.ok_or(unknown)?;
                    entry.meta.set_hard_link(linked);
                }
                Some(HardLink::Inode(..)) | None => {}
            }
        }
        if self.open > MAX_LINKED || self.open_bytes > MAX_LINKED_BYTES {
            return Err(PeerError::Limit("files with hard links"));
        }
        Ok(())
    }

    /// Updates the metadata shared with later names after owners in ACLs were mapped to local ones.
    pub(super) fn update_shared_metadata(&mut self, section: &DirSection) {
        for (nth, entry) in section.entries.iter().enumerate() {
            if matches!(entry.meta.hard_link(), Some(HardLink::First(_)))
                && let Some(shared) = self.files.get_mut(&FileNo(section.first + nth as u64))
            {
                shared.more = extra_meta_of_first(&entry.meta);
            }
        }
    }

    /// Makes the name with the best local version lead, if the first name of the file is in `looked`. The leader
    /// takes the first name's place in `looked`, and the metadata that only the first name has.
    pub(super) fn choose_leaders(&mut self, options: &Options, looked: &mut [LookedEntry]) {
        // For each first name: its place, and the name with the best local version.
        let mut firsts: HashMap<FileNo, (usize, (LocalVersion, usize))> = HashMap::new();
        for (nth, LookedEntry { file, entry, old }) in looked.iter().enumerate() {
            let old = || old.as_ref().ok().and_then(Option::as_ref);
            let standing = || LocalVersion::of(options, &entry.meta, old());
            match entry.meta.hard_link() {
                Some(HardLink::First(_)) => drop(firsts.insert(*file, (nth, (standing(), nth)))),
                Some(HardLink::Back(_)) => {
                    let first = first_name_of(*file, &entry.meta);
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
            self.demote_first(first);
            let mut plain = looked[best].entry.meta.clone();
            let linked = plain.hard_link();
            plain.set_hard_link(Some(HardLink::Back(0)));
            let mut first_meta = std::mem::replace(&mut looked[at].entry.meta, plain);
            first_meta.set_hard_link(linked);
            looked[best].entry.meta = first_meta;
            looked.swap(at, best);
        }
    }

    /// Notes that an entry is in place, or would be in a dry run.
    pub(super) fn note_in_place(&mut self, file: FileNo) {
        if let Some(first) = self.leaders.remove(&file) {
            self.linkable.push_back(first);
        }
    }

    /// Notes that the leader of a file's hard links was copied or linked from an alternate. The other names are then
    /// not reported as new.
    pub(super) fn note_from_alternate(&mut self, file: FileNo) {
        let first = self.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.files.get_mut(first)) {
            shared.is_beside = true;
        }
    }

    /// Stores the inode of the local file `is`, which stays the leader. Other local names of that inode need no step.
    pub(super) fn keep_inode(&mut self, file: FileNo, is: &Meta) {
        let first = self.leaders.get(&file);
        if let Some(shared) = first.and_then(|first| self.files.get_mut(first)) {
            shared.inode = is.hard_link().and_then(HardLink::inode);
        }
    }

    /// Takes a later name with its local entry. Returns the next step. The file may be [forgotten](Self::drop_or_compact)
    /// afterwards.
    pub(super) fn next_step_for(&mut self, first: FileNo, placed: PlacedEntry) -> NameStep {
        let PlacedEntry { file, path, meta, seen } = placed;
        let shared = self.files.get_mut(&first).expect("a name is to be decided");
        shared.undecided_names -= 1;
        let more = shared.more.clone();
        let name = LaterName { path, meta, more, seen, is_not_beside: false };
        match shared.state {
            LeaderState::Coming => {
                shared.waiting.push_back(file);
                self.names.insert(file, name);
                NameStep::Wait
            }
            LeaderState::Here => NameStep::Link(name),
            LeaderState::Nowhere => NameStep::Lead(name),
        }
    }

    /// Makes a name the leader, with the metadata that was listed with the first name.
    pub(super) fn make_leader(&mut self, file: FileNo, first: FileNo, name: &mut LaterName) {
        let shared = self.files.get_mut(&first).expect("one of its names is to lead");
        shared.state = LeaderState::Coming;
        name.more.clone_from(&shared.more);
        shared.path = name.path.clone();
        self.leaders.insert(file, first);
    }

    /// Replaces a leader that has no old version and is in no alternate, if other names wait that may be in one.
    /// Otherwise returns the leader.
    pub(super) fn replace_leader(&mut self, placed: PlacedEntry) -> Option<PlacedEntry> {
        let Self { files, leaders, names, promoted, .. } = self;
        let shared = leaders.get(&placed.file).and_then(|first| files.get_mut(first));
        let has_old = placed.has_old_file();
        let Some(shared) = shared.filter(|shared| !has_old && !shared.waiting.is_empty()) else {
            return Some(placed);
        };
        let PlacedEntry { file, path, mut meta, seen } = placed;
        leaders.remove(&file);
        if !matches!(meta.hard_link(), Some(HardLink::Back(_))) {
            meta.set_hard_link(Some(HardLink::Back(0)));
        }
        let more = shared.more.clone();
        names.insert(file, LaterName { path, meta, more, seen, is_not_beside: true });
        shared.waiting.push_back(file);
        // If no other name may be there, the first name leads.
        let next = shared.waiting.iter().position(|name| !names[name].is_not_beside).unwrap_or(0);
        promoted.extend(shared.waiting.remove(next));
        None
    }

    /// Notes that an entry failed. If other names wait for this entry, one of them leads.
    pub(super) fn note_failure(&mut self, file: FileNo) {
        let Some(first) = self.leaders.remove(&file) else { return };
        let Some(shared) = self.files.get_mut(&first) else { return };
        match shared.waiting.pop_front() {
            Some(next) => self.promoted.push_back(next),
            None => {
                shared.state = LeaderState::Nowhere;
                self.drop_or_compact(first);
            }
        }
    }

    /// Takes an undecided name that is given up.
    pub(super) fn note_undecided_failure(&mut self, first: Option<FileNo>) {
        if let Some(first) = first
            && let Some(shared) = self.files.get_mut(&first)
        {
            shared.undecided_names -= 1;
            self.drop_or_compact(first);
        }
    }

    /// Returns the next names with a possible step, because the leader is in place or has failed.
    pub(super) fn next_step(&mut self) -> Option<LinkStep> {
        loop {
            if let Some(first) = self.linkable.pop_front() {
                let Some(shared) = self.files.get_mut(&first) else { continue };
                shared.state = LeaderState::Here;
                let waiting = std::mem::take(&mut shared.waiting).into_iter();
                let names = waiting.filter_map(|file| Some((file, self.names.remove(&file)?)));
                return Some(LinkStep::Link { first, names: names.collect() });
            }
            let file = self.promoted.pop_front()?;
            let Some(name) = self.names.remove(&file) else { continue };
            if let Some(first) = first_name_of(file, &name.meta) {
                return Some(LinkStep::Lead { file, first, name });
            }
        }
    }

    /// Returns a file with its leader in place.
    pub(super) fn placed_leader(&self, first: FileNo) -> &LinkedFile {
        &self.files[&first]
    }

    /// Keeps a name that is being linked.
    pub(super) fn keep_linking_name(&mut self, file: FileNo, name: LaterName) {
        self.names.insert(file, name);
    }

    /// Removes and returns a name after its link succeeded or failed.
    pub(super) fn take_linking_name(&mut self, file: FileNo) -> Option<LaterName> {
        self.names.remove(&file)
    }

    /// True if no file is kept.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.leaders.is_empty()
    }
}

fn without_hard_link(meta: &Meta) -> Meta {
    Meta::without_owner(meta.kind.clone(), meta.len, meta.modified, meta.mode)
}

/// Returns the extra metadata of a first name, if there is any besides the hard link.
fn extra_meta_of_first(meta: &Meta) -> Option<Arc<ExtraMeta>> {
    let mut meta = meta.clone();
    meta.set_hard_link(None);
    meta.more.map(Arc::from)
}

/// A file with several hard links.
#[derive(Debug)]
pub(super) struct LinkedFile {
    /// Metadata of the file, without the extra metadata of the first name.
    pub(super) meta: Meta,
    /// Extra metadata of the first name, which also applies to a name transferred by itself.
    pub(super) more: Option<Arc<ExtraMeta>>,
    /// Path of the leader.
    pub(super) path: RelPath,
    /// Length in bytes of the first name and the link target.
    pub(super) path_bytes: usize,
    /// Number of names still to be listed. `undecided_names` counts the listed names still to be decided.
    pub(super) unlisted_names: u32,
    pub(super) undecided_names: u32,
    pub(super) state: LeaderState,
    /// Local inode of the leader, if the leader stays the same file.
    pub(super) inode: Option<Inode>,
    /// True if the leader is taken from an alternate.
    pub(super) is_beside: bool,
    pub(super) waiting: VecDeque<FileNo>,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderState {
    /// No name of the file is in place or on the way.
    Nowhere,
    /// The leader is on the way.
    Coming,
    /// The leader is in place.
    Here,
}
