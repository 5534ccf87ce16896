//! The part of the sender's list that has arrived: directories that may be listed next, their order, and the bounds on
//! unsettled entries.

use deltic_tree::{Entry, Name, PathMap, RelPath};

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, MAX_BATCH};
use crate::listed::ListedBytes;
use crate::message::Extent;

use super::final_dirs::FinalMeta;
use super::sections::DirSection;

/// The entries received so far, and the directories that may be listed next.
#[derive(Debug)]
pub(super) struct EntryList {
    state: ListState,
    /// Number of entries received so far.
    listed_count: u64,
    settled: u64,
    /// Bytes of the unsettled entries.
    bytes: ListedBytes,
    /// Number of entries received, plus the entries of directories that the sender did not list because their digests
    /// are equal.
    known: u64,
    /// Directories that the sender has named but not listed. A listed directory gets this metadata at the end. `None`
    /// if the metadata is set in any case.
    announced: PathMap<Option<FinalMeta>>,
    /// The directory that the sender is listing, and the last name received.
    listing: Option<(RelPath, Option<Name>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    Growing,
    Complete { intact: bool },
}

impl EntryList {
    /// Creates an empty list. The sender may only list the root.
    pub(super) fn new() -> Self {
        let mut announced = PathMap::default();
        announced.insert(&RelPath::root(), None);
        Self {
            state: ListState::Growing,
            listed_count: 0,
            settled: 0,
            bytes: ListedBytes::default(),
            known: 0,
            announced,
            listing: None,
        }
    }

    /// Checks that the list is not complete. Errors: `Unexpected`.
    pub(super) fn check_incomplete(&self) -> Result<(), PeerError> {
        match self.state {
            ListState::Growing => Ok(()),
            ListState::Complete { .. } => {
                Err(PeerError::Unexpected("a frame of the list after its end"))
            }
        }
    }

    /// Ends the list. `intact` is true if the sender could list all entries.
    pub(super) fn end(&mut self, intact: bool) {
        self.state = ListState::Complete { intact };
    }

    pub(super) fn is_complete(&self) -> bool {
        self.state != ListState::Growing
    }

    /// Returns whether the sender could list all entries. Returns `None` before the end of the list.
    pub(super) const fn is_intact(&self) -> Option<bool> {
        match self.state {
            ListState::Growing => None,
            ListState::Complete { intact } => Some(intact),
        }
    }

    /// Number of entries received, which is the number of the next entry.
    pub(super) const fn listed_count(&self) -> u64 {
        self.listed_count
    }

    /// Number of the first unsettled entry. No file with a lower number will be requested.
    pub(super) const fn first_unsettled(&self) -> u64 {
        self.settled
    }

    /// Number of entries in the list so far, including the entries of directories with equal digests.
    pub(super) const fn listed_and_equal_count(&self) -> u64 {
        self.known
    }

    /// Counts the entries of a directory with an equal digest.
    pub(super) fn count_equal_entries(&mut self, entries: u64) {
        self.known += entries;
    }

    /// Counts received entries. Errors: `Limit` if the window has no room for these entries.
    pub(super) fn take_entries(&mut self, listed: &[Entry]) -> Result<(), PeerError> {
        let entries = listed.len() as u64;
        self.listed_count += entries;
        self.known += entries;
        if !self.bytes.add_listing(listed, self.listed_count) {
            return Err(PeerError::Limit("attributes of unsettled entries"));
        }
        // The last frame that fitted the window may exceed the window by the frame's own entries.
        let most = ENTRY_WINDOW + MAX_BATCH as u64;
        if self.listed_count - self.settled > most {
            Err(PeerError::Limit("unsettled entries"))
        } else {
            Ok(())
        }
    }

    /// Settles all entries below `waiting`, the lowest number of an entry that waits. Returns the first unsettled
    /// number if the call settled entries.
    pub(super) fn settle_below(&mut self, waiting: Option<u64>) -> Option<u64> {
        let upto = waiting.unwrap_or(self.listed_count);
        self.bytes.remove_settled(upto);
        let is_more = upto > self.settled;
        self.settled = self.settled.max(upto);
        is_more.then_some(upto)
    }

    /// Allows the sender to list a directory. A listed directory gets `meta` at the end.
    pub(super) fn allow_listing(&mut self, dir: &RelPath, meta: Option<FinalMeta>) {
        self.announced.insert(dir, meta);
    }

    /// Forbids the listing of a directory. Returns the final metadata if the directory was announced.
    pub(super) fn forbid_listing(&mut self, dir: &RelPath) -> Option<Option<FinalMeta>> {
        self.announced.remove(dir)
    }

    pub(super) fn may_be_listed(&self, dir: &RelPath) -> bool {
        self.announced.contains(dir)
    }

    /// Returns the metadata that an announced directory gets at the end, for changes.
    pub(super) fn final_meta_mut(&mut self, dir: &RelPath) -> Option<&mut Option<FinalMeta>> {
        self.announced.get_mut(dir)
    }

    /// True once all announced directories were listed.
    pub(super) fn has_listed_all_dirs(&self) -> bool {
        self.announced.is_empty()
    }

    /// True while a directory is being listed.
    pub(super) fn is_listing(&self, dir: &RelPath) -> bool {
        self.listing.as_ref().is_some_and(|(listed, _)| listed == dir)
    }

    /// Returns whether `name` may still come in the listing of `dir`, whose names ascend. Returns `None` if the sender
    /// is not listing `dir`.
    pub(super) fn may_still_list(&self, dir: &RelPath, name: &Name) -> Option<bool> {
        let (_, last) = self.listing.as_ref().filter(|(listed, _)| listed == dir)?;
        Some(last.as_ref().is_none_or(|last| last < name))
    }

    /// Checks the order of a section. Returns true if the section is the first of its directory. Errors: `Unexpected`
    /// for a directory that was not announced, for repeated or descending names, and for an empty section.
    pub(super) fn check_order(
        &self,
        section: &DirSection,
        extent: Extent,
    ) -> Result<bool, PeerError> {
        let (last, begins) = match &self.listing {
            Some((dir, last)) if *dir == section.dir => (last.as_ref(), false),
            None if self.may_be_listed(&section.dir) => (None, true),
            _ => return Err(PeerError::Unexpected("a listing of a directory that was not listed")),
        };
        let mut names = last.into_iter().chain(section.entries.iter().map(|entry| &entry.name));
        if !names.clone().zip(names.by_ref().skip(1)).all(|(one, next)| one < next) {
            return Err(PeerError::Unexpected("names out of order"));
        }
        if section.own.is_some() && !(begins && section.dir.is_root()) {
            return Err(PeerError::Unexpected("metadata of a directory that is not the root"));
        }
        if !is_last_section(extent) && section.entries.is_empty() && section.own.is_none() {
            return Err(PeerError::Unexpected("an empty listing"));
        }
        Ok(begins)
    }

    /// Takes the next section. Returns the final metadata of the directory if the section is the first of the
    /// directory.
    pub(super) fn take_section(
        &mut self,
        section: &DirSection,
        extent: Extent,
    ) -> Option<FinalMeta> {
        let before = self.listing.take();
        let begun = self.announced.get_mut(&section.dir).filter(|_| before.is_none());
        let kept = begun.and_then(Option::take);
        if is_last_section(extent) {
            self.announced.remove(&section.dir);
        } else {
            let last = section.entries.last().map(|entry| entry.name.clone());
            let last = last.or_else(|| before.and_then(|(_, last)| last));
            self.listing = Some((section.dir.clone(), last));
        }
        kept
    }
}

/// True if a section of this extent is the last of its directory.
pub(super) fn is_last_section(extent: Extent) -> bool {
    extent != Extent::More
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Entry, Kind, Meta, Timestamp};

    fn section(dir: &str, names: &[&str]) -> DirSection {
        let meta = || Meta::without_owner(Kind::File, 0, Timestamp::default(), 0o644);
        let entry = |name: &&str| Entry { name: Name::new(name.as_bytes()).unwrap(), meta: meta() };
        let dir = RelPath::parse(dir.as_bytes()).unwrap();
        DirSection::new(dir, None, names.iter().map(entry).collect())
    }

    #[test]
    fn names_ascend_over_all_sections_of_a_directory() {
        let mut list = EntryList::new();
        let first = section("", &["a", "c"]);
        assert_eq!(list.check_order(&first, Extent::More), Ok(true));
        assert_eq!(list.take_section(&first, Extent::More), None);
        for again in [&["b"][..], &["c"], &["e", "d"], &["d", "d"], &[]] {
            assert!(list.check_order(&section("", again), Extent::More).is_err(), "{again:?}");
        }
        let may = |name: &str| {
            list.may_still_list(&RelPath::root(), &Name::new(name.as_bytes()).unwrap()).unwrap()
        };
        assert_eq!(["b", "c", "d"].map(may), [false, false, true]);
        let last = section("", &["d"]);
        assert_eq!(list.check_order(&last, Extent::Last), Ok(false));
        list.take_section(&last, Extent::Last);
        assert!(list.has_listed_all_dirs() && !list.is_listing(&RelPath::root()));
        assert!(list.check_order(&section("", &["e"]), Extent::Last).is_err(), "it is over");
    }

    #[test]
    fn a_directory_comes_once_it_was_announced_and_brings_what_was_kept_for_it() {
        let mut list = EntryList::new();
        list.take_section(&section("", &["a"]), Extent::Last);
        let below = section("a", &["b"]);
        assert!(list.check_order(&below, Extent::Last).is_err());
        let meta = FinalMeta::from(&Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755));
        list.allow_listing(&below.dir, Some(meta));
        assert_eq!(list.check_order(&below, Extent::Last), Ok(true));
        assert_eq!(list.take_section(&below, Extent::Last), Some(meta));
        assert!(list.has_listed_all_dirs());
    }

    #[test]
    fn a_window_of_entries_is_told_ahead_and_no_more() {
        let mut list = EntryList::new();
        let most = ENTRY_WINDOW as usize + MAX_BATCH;
        let plain = Meta::without_owner(Kind::File, 0, Timestamp::default(), 0o644);
        let entry = Entry { name: Name::new(b"file").unwrap(), meta: plain };
        let entries = |count| vec![entry.clone(); count];
        assert_eq!(list.take_entries(&entries(most)), Ok(()));
        assert_eq!(list.settle_below(Some(10)), Some(10));
        assert_eq!([list.settle_below(Some(10)), list.settle_below(Some(9))], [None; 2]);
        assert_eq!(list.take_entries(&entries(10)), Ok(()));
        assert!(list.take_entries(&entries(1)).is_err());
        assert_eq!(list.settle_below(None), Some(list.listed_count()));
    }
}
