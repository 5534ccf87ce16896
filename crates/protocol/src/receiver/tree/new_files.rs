//! Moved files, for the guard on deletions: a deleted name counts as moved if a new file has the same length and
//! time. Content is not compared: if the deletion is an accident, no new file arrives.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use deltic_tree::Meta;

/// Lengths and times of the files that arrived and were not at the destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewFiles {
    /// Number of files by the hash of length and time.
    counts: HashMap<u64, u32>,
}

/// Most pairs of length and time to keep; further files count as new and deleted.
const MOST_KEPT: usize = 1 << 18;

impl NewFiles {
    /// Notes a new file.
    pub(super) fn add(&mut self, meta: &Meta) {
        let key = key(meta);
        if self.counts.len() < MOST_KEPT || self.counts.contains_key(&key) {
            let count = self.counts.entry(key).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Pairs a file to be deleted with a new file of the same length and time. Returns false if no such file is left:
    /// each new file is paired only once.
    pub fn take_match(&mut self, gone: &Meta) -> bool {
        let count = self.counts.get_mut(&key(gone)).filter(|count| gone.is_file() && **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    /// True if no file was noted.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Returns a hash of length and time.
fn key(meta: &Meta) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one((meta.len, meta.modified))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Timestamp};

    #[test]
    fn each_new_file_pairs_with_one_deleted_file() {
        let meta =
            |kind, len, secs| Meta::without_owner(kind, len, Timestamp { secs, nanos: 0 }, 0o644);
        let mut new = NewFiles::default();
        new.add(&meta(Kind::File, 7, 1));
        new.add(&meta(Kind::File, 7, 1));
        new.add(&meta(Kind::File, 0, 2));
        for other in [meta(Kind::File, 7, 2), meta(Kind::File, 8, 1), meta(Kind::Dir, 0, 2)] {
            assert!(!new.take_match(&other), "{other:?}");
        }
        let taken = [(); 3].map(|()| new.take_match(&meta(Kind::File, 7, 1)));
        assert_eq!(taken, [true, true, false]);
        assert!(new.take_match(&meta(Kind::File, 0, 2)));
    }
}
