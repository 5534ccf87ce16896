//! A bounded table of the latest entries.

use std::collections::HashMap;
use std::hash::Hash;

/// A table of at most twice `HALF` entries. When the newer half is full, the older half is dropped.
#[derive(Debug)]
pub(super) struct RecentTable<K, V, const HALF: usize> {
    before: HashMap<K, V>,
    last: HashMap<K, V>,
}

impl<K, V, const HALF: usize> Default for RecentTable<K, V, HALF> {
    fn default() -> Self {
        Self { before: HashMap::new(), last: HashMap::new() }
    }
}

impl<K: Eq + Hash, V, const HALF: usize> RecentTable<K, V, HALF> {
    /// Inserts an entry.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.last.len() >= HALF {
            self.before = std::mem::take(&mut self.last);
        }
        self.last.insert(key, value);
    }

    /// Returns the latest value of a key, if the table still has the key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.last.get(key).or_else(|| self.before.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_half_is_kept_and_no_more_than_two() {
        const HALF: usize = 8;
        let mut recent = RecentTable::<usize, usize, HALF>::default();
        for no in 0..5 * HALF {
            recent.insert(no, 2 * no);
            let kept = recent.before.len() + recent.last.len();
            assert!((HALF.min(no + 1)..=2 * HALF).contains(&kept), "{kept}");
            assert!(
                (no.saturating_sub(HALF - 1)..=no).all(|no| recent.get(&no) == Some(&(2 * no)))
            );
        }
        assert_eq!(recent.get(&0), None);
        recent.insert(0, 7);
        recent.insert(0, 8);
        assert_eq!(recent.get(&0), Some(&8));
    }
}
