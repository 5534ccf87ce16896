//! Listed entries that wait until their directory exists at the destination or is given up.

use std::collections::{BTreeMap, HashMap};

use deltic_tree::{Entry, Meta, RelPath};

use crate::receiver::ask::AlikeNames;

/// Entries of a directory that wait to be compared with the entries in the same places.
#[derive(Debug)]
pub(super) struct DirSection {
    pub(super) dir: RelPath,
    pub(super) own: Option<Meta>,
    pub(super) entries: Vec<Entry>,
    /// The number of the first entry.
    pub(super) first: u64,
    /// Names of the section that some file systems treat as the same as an earlier name of the directory.
    pub(super) alike: Vec<AlikeNames>,
}

/// The reason why a directory is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossReason {
    /// The directory failed, with everything below.
    Failed,
    /// The directory is skipped because of the options.
    PassedOver,
}

/// The waiting sections, and the directories that they wait for.
#[derive(Debug, Default)]
pub(super) struct WaitingSections {
    /// Sections by number. Section numbers ascend with the numbers of the first entries.
    waiting: BTreeMap<u64, DirSection>,
    next: u64,
    /// Listed directories that are not in place yet, each with the waiting sections.
    making: HashMap<RelPath, Vec<u64>>,
    /// Directories that are not made; everything below is given up.
    lost: HashMap<RelPath, LossReason>,
}

impl DirSection {
    pub(super) fn new(dir: RelPath, own: Option<Meta>, entries: Vec<Entry>) -> Self {
        Self { dir, own, entries, first: 0, alike: Vec::new() }
    }

    pub(super) fn metas(&self) -> impl Iterator<Item = &Meta> {
        self.own.iter().chain(self.entries.iter().map(|entry| &entry.meta))
    }

    pub(super) fn metas_mut(&mut self) -> impl Iterator<Item = &mut Meta> {
        self.own.iter_mut().chain(self.entries.iter_mut().map(|entry| &mut entry.meta))
    }
}

impl WaitingSections {
    /// Makes the entries listed in `dir` wait until `dir` is in place.
    pub(super) fn wait_for_dir(&mut self, dir: RelPath) {
        self.making.entry(dir).or_default();
    }

    /// Adds a section. Returns the number of the section, or `None` if the section has to wait for its directory.
    pub(super) fn push_and_get_if_ready(&mut self, section: DirSection) -> Option<u64> {
        let no = self.next;
        self.next += 1;
        let waiting = self.making.get_mut(&section.dir);
        let waits = waiting.map(|waiting| waiting.push(no)).is_some();
        self.waiting.insert(no, section);
        (!waits).then_some(no)
    }

    pub(super) fn get(&self, no: u64) -> &DirSection {
        &self.waiting[&no]
    }

    pub(super) fn take(&mut self, no: u64) -> Option<DirSection> {
        self.waiting.remove(&no)
    }

    /// Returns the lowest number of a waiting entry.
    pub(super) fn first_waiting(&self) -> Option<u64> {
        self.waiting.values().next().map(|section| section.first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Ends the waiting for `dir`, which is in place or soon will be. Returns the sections that waited.
    pub(super) fn release_sections(&mut self, dir: &RelPath) -> Vec<u64> {
        self.making.remove(dir).unwrap_or_default()
    }

    /// Gives up `dir`, which is not made. Returns the sections that waited, to be given up too.
    pub(super) fn give_up_dir(&mut self, dir: RelPath, lost: LossReason) -> Vec<u64> {
        let waiting = self.release_sections(&dir);
        self.lost.insert(dir, lost);
        waiting
    }

    /// Returns the reason if a directory is given up.
    pub(super) fn loss_reason(&self, dir: &RelPath) -> Option<LossReason> {
        self.lost.get(dir).copied()
    }

    /// True if the directory was listed and is not in place yet.
    pub(super) fn is_awaited(&self, dir: &RelPath) -> bool {
        self.making.contains_key(dir)
    }

    /// True if entries listed in `dir` wait for `dir`, or if no entry has to wait for `dir`.
    pub(super) fn has_listed_entries(&self, dir: &RelPath) -> bool {
        self.making.get(dir).is_none_or(|waiting| !waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_waits_for_its_directory_or_is_given_up_with_it() {
        let [made, lost] = ["made", "lost"].map(|dir| RelPath::parse(dir.as_bytes()).unwrap());
        let section = |dir: &RelPath| DirSection::new(dir.clone(), None, Vec::new());
        let mut sections = WaitingSections::default();
        assert_eq!(sections.push_and_get_if_ready(section(&RelPath::root())), Some(0));
        for dir in [&made, &lost] {
            sections.wait_for_dir(dir.clone());
            assert!(sections.is_awaited(dir) && !sections.has_listed_entries(dir));
            assert_eq!(sections.push_and_get_if_ready(section(dir)), None);
            assert!(sections.has_listed_entries(dir));
        }
        assert_eq!(sections.release_sections(&made), [1]);
        assert_eq!(sections.give_up_dir(lost.clone(), LossReason::Failed), [2]);
        assert_eq!(
            [&made, &lost].map(|dir| sections.loss_reason(dir)),
            [None, Some(LossReason::Failed)]
        );
        assert!(!sections.is_awaited(&made) && !sections.is_awaited(&lost));
        // Later sections do not wait.
        assert_eq!(
            [&made, &lost].map(|dir| sections.push_and_get_if_ready(section(dir))),
            [Some(3), Some(4)]
        );
        (0..5).for_each(|no| drop(sections.take(no).unwrap()));
        assert!(sections.is_empty());
    }
}
