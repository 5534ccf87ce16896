//! Parts that repeat among the files of a run: the source of each part, and the files that wait for a source.
//!
//! ```text
//! a group is not in old ──► not requested in any file: it is lacked, and this file is its source from now on
//!                      └──► another file is its source: this file waits until that file is in place, and is matched
//!                           against that file as against any old version
//! ```
//!
//! A fingerprint prefix in the table proves nothing: it shows which file is worth reading, and all content is proven.
//! No two files wait for each other. No file waits for a file that failed, or whose path is lent
//! (docs/decisions/0036).

use std::collections::{BTreeMap, HashMap};

use deltic_core::GroupPrefix;
use deltic_tree::RelPath;

use crate::message::FileNo;

use super::guesses::GuessedBytes;
use super::recent::RecentTable;

/// Files that are transferred by recipe, and the groups requested from the sender in each file.
#[derive(Debug, Default)]
pub(super) struct RecipeSources {
    files: HashMap<FileNo, SourceFile>,
    /// The file in which each group was requested.
    groups: RecentTable<GroupPrefix, FileNo, MAX_NOTED>,
    /// Waiting files, each with the source that is awaited.
    waits: BTreeMap<FileNo, FileNo>,
    guesses: GuessedBytes,
}

/// A file that other files may be matched against.
#[derive(Debug)]
struct SourceFile {
    len: u64,
    /// True if the file is new and uses a recipe only for content shared with other files.
    is_new: bool,
    /// Path of the file, once the file is in place.
    path: Option<RelPath>,
    /// The files that this file is itself matched against.
    borrows: Vec<FileNo>,
}

/// Most groups in the newer half of the table; both halves take some megabytes.
const MAX_NOTED: usize = 1 << 16;
/// Most files with noted groups.
const MAX_FILES: usize = 4096;
/// Most files of the run that a file is matched against; one fewer for a file with an old version. These files take
/// the place of missing old versions, so that no more files are open at once.
pub const MAX_BORROWED: usize = 2;
/// Total length of new files that may be sent by recipe without any match, in bytes, unless the user says that the
/// link is slow.
const WRONG_BYTES_BORNE: u64 = 128 << 20;
/// A source is read if its length is at most this many times the number of bytes that are likely to be copied from
/// it.
const WORTH: u64 = 16;

impl RecipeSources {
    /// True if a file of `len` bytes may be a source. A new file is sent by recipe only in order to be a source.
    pub(super) fn has_room(&self, len: u64, is_new: bool, link_is_slow: bool) -> bool {
        let pays = !is_new || link_is_slow || self.guesses.has_room(len, WRONG_BYTES_BORNE);
        pays && self.files.len() < MAX_FILES
    }

    /// Notes a file that begins a transfer by recipe.
    pub(super) fn begin_file(&mut self, file: FileNo, len: u64, is_new: bool) {
        if is_new {
            self.guesses.begin_guess(len);
        }
        self.files.insert(file, SourceFile { len, is_new, path: None, borrows: Vec::new() });
    }

    /// Notes that the sender is asked for this group in this file.
    pub(super) fn note_requested(&mut self, file: FileNo, group: GroupPrefix) {
        if self.files.contains_key(&file) {
            self.groups.insert(group, file);
        }
    }

    /// Makes a file of `len` bytes wait for the best source of the `missing` groups (names and lengths in bytes).
    /// Returns false if no source is worth waiting for.
    pub(super) fn wait_for_source(
        &mut self,
        file: FileNo,
        len: u64,
        missing: impl Iterator<Item = (GroupPrefix, u64)>,
    ) -> bool {
        let may_borrow =
            |own: &&SourceFile| own.borrows.len() + usize::from(!own.is_new) < MAX_BORROWED;
        let Some(own) = self.files.get(&file).filter(may_borrow) else { return false };
        let (mut found, mut all) = (BTreeMap::<FileNo, u64>::new(), 0);
        for (group, bytes) in missing {
            all += bytes;
            let of = self.groups.get(&group);
            if let Some(of) = of.filter(|of| **of != file && !own.borrows.contains(of)) {
                *found.entry(*of).or_default() += bytes;
            }
        }
        found.retain(|of, _| self.files.contains_key(of) && !self.waits_for(*of, file));
        let Some((source, bytes)) = found.into_iter().max_by_key(|(_, bytes)| *bytes) else {
            return false;
        };
        // For a new file, assume that the rest repeats as much as the part told so far.
        let likely = match own.is_new {
            true => u128::from(bytes) * u128::from(len) / u128::from(all.max(1)),
            false => bytes.into(),
        };
        let is_worth_it = u128::from(self.files[&source].len) <= likely * u128::from(WORTH);
        if is_worth_it && let Some(own) = self.files.get_mut(&file) {
            own.borrows.push(source);
            self.waits.insert(file, source);
        }
        is_worth_it
    }

    /// True if `file` waits for `other`, directly or through other files.
    fn waits_for(&self, mut file: FileNo, other: FileNo) -> bool {
        while let Some(next) = self.waits.get(&file) {
            if *next == other {
                return true;
            }
            file = *next;
        }
        false
    }

    /// True while a file waits for a source.
    pub(super) fn is_waiting(&self, file: FileNo) -> bool {
        self.waits.contains_key(&file)
    }

    /// Returns a file that no longer needs to wait, and the path of its source; `None` in place of the path if the
    /// source has failed.
    pub(super) fn next_ready(&mut self) -> Option<(FileNo, Option<RelPath>)> {
        let is_over = |source: &FileNo| self.files.get(source).is_none_or(|it| it.path.is_some());
        let (file, source) = self.waits.iter().find(|(_, source)| is_over(source))?;
        let (file, path) = (*file, self.files.get(source).and_then(|it| it.path.clone()));
        self.waits.remove(&file);
        Some((file, path))
    }

    /// Ends an attempt at a file; `done` is the path of the finished file and the number of matched bytes.
    pub(super) fn end_attempt(&mut self, file: FileNo, done: Option<(&RelPath, u64)>) {
        let Some(source) = self.files.get_mut(&file) else { return };
        if source.is_new {
            self.guesses.end_guess(source.len, done.map_or(0, |(_, matched)| matched));
        }
        self.waits.remove(&file);
        match done {
            Some((path, _)) => source.path = Some(path.clone()),
            None => drop(self.files.remove(&file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 20;

    fn group(name: u64) -> GroupPrefix {
        GroupPrefix::from_bytes(name.to_le_bytes())
    }

    fn waits(
        sources: &mut RecipeSources,
        file: u64,
        groups: impl IntoIterator<Item = u64>,
    ) -> bool {
        let missing = groups.into_iter().map(|name| (group(name), LEN / 4));
        sources.wait_for_source(FileNo(file), LEN, missing)
    }

    fn path(file: u64) -> RelPath {
        RelPath::parse(file.to_string().as_bytes()).unwrap()
    }

    fn begun(files: std::ops::Range<u64>) -> RecipeSources {
        let mut sources = RecipeSources::default();
        for file in files {
            sources.begin_file(FileNo(file), LEN, true);
            sources.note_requested(FileNo(file), group(file));
        }
        sources
    }

    #[test]
    fn no_two_files_wait_for_each_other() {
        let mut sources = begun(0..3);
        assert!(!waits(&mut sources, 0, [0]), "its own");
        assert!(waits(&mut sources, 0, [1]));
        assert!(waits(&mut sources, 1, [2]));
        assert!(!waits(&mut sources, 2, [0]));
        assert!(!waits(&mut sources, 2, [1]));
        assert_eq!(sources.next_ready(), None);
        sources.end_attempt(FileNo(2), Some((&path(2), 0)));
        assert_eq!(sources.next_ready(), Some((FileNo(1), Some(path(2)))));
        assert_eq!(sources.next_ready(), None);
        assert!(!waits(&mut sources, 1, [2]), "that one was read");
        sources.end_attempt(FileNo(1), None);
        assert_eq!(sources.next_ready(), Some((FileNo(0), None)));
        assert!(!waits(&mut sources, 0, [1]), "it is gone");
        assert!(!sources.is_waiting(FileNo(0)));
    }

    #[test]
    fn the_source_of_most_is_read_and_so_many_at_most() {
        let mut sources = begun(0..4);
        for (name, file) in [(10, 1), (11, 1), (12, 2)] {
            sources.note_requested(FileNo(file), group(name));
        }
        assert!(waits(&mut sources, 0, [2, 10, 11]));
        assert_eq!(sources.waits[&FileNo(0)], FileNo(1));
        sources.end_attempt(FileNo(1), Some((&path(1), 0)));
        sources.next_ready();
        assert!(waits(&mut sources, 0, [10, 12]));
        sources.end_attempt(FileNo(2), None);
        sources.next_ready();
        assert!(!waits(&mut sources, 0, [3]));
    }

    #[test]
    fn a_long_file_is_not_read_for_a_short_part() {
        let mut sources = begun(0..1);
        sources.begin_file(FileNo(9), 17 * LEN, true);
        sources.note_requested(FileNo(9), group(9));
        assert!(!waits(&mut sources, 0, [9]));
        sources.begin_file(FileNo(8), 16 * LEN, true);
        sources.note_requested(FileNo(8), group(8));
        assert!(!waits(&mut sources, 0, [8, 70]), "only one of its two groups has a source");
        assert!(waits(&mut sources, 0, [8]));
    }

    #[test]
    fn the_oldest_groups_are_forgotten_and_only_sources_are_noted() {
        let mut sources = begun(0..2);
        (0..3 * MAX_NOTED as u64).for_each(|name| sources.note_requested(FileNo(0), group(name)));
        assert!(!waits(&mut sources, 1, [0]));
        assert!(waits(&mut sources, 1, [3 * MAX_NOTED as u64 - 1]));
        sources.note_requested(FileNo(7), group(7));
        assert_eq!(sources.groups.get(&group(7)), None, "file 7 is not a source");
        let many = begun(0..MAX_FILES as u64);
        assert!(!many.has_room(0, true, true));
    }

    #[test]
    fn a_changed_file_is_no_guess_and_waits_by_its_missing_bytes_alone() {
        let mut sources = begun(0..1);
        sources.begin_file(FileNo(1), 100 << 30, false);
        assert!(sources.has_room(1 << 40, false, false));
        sources.note_requested(FileNo(1), group(7));
        assert!(!waits(&mut sources, 0, [7]), "the source is too long to wait for");
        sources.begin_file(FileNo(2), 100 << 30, false);
        assert!(waits(&mut sources, 2, [0, 70, 71]), "a quarter of a source, if little of itself");
        sources.end_attempt(FileNo(1), Some((&path(1), 0)));
        assert!(sources.has_room(WRONG_BYTES_BORNE - LEN, true, false), "nothing was lost");
    }

    #[test]
    fn files_that_share_nothing_come_by_recipe_up_to_a_bound() {
        let mut sources = RecipeSources::default();
        assert!(sources.has_room(WRONG_BYTES_BORNE, true, false));
        assert!(!sources.has_room(WRONG_BYTES_BORNE + 1, true, false));
        sources.begin_file(FileNo(0), WRONG_BYTES_BORNE, true);
        sources.end_attempt(FileNo(0), Some((&path(0), 0)));
        assert!(!sources.has_room(1, true, false) && sources.has_room(1, true, true));
        sources.begin_file(FileNo(1), LEN, true);
        sources.end_attempt(FileNo(1), Some((&path(1), LEN)));
        assert!(sources.has_room(2 * LEN, true, false));
    }
}
