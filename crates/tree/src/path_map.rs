//! A map keyed by path that stores hashes instead of paths. In a large tree the paths would take most of the memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::path::RelPath;

/// Map from path to value that stores a 128-bit hash of each path.
///
/// Each map has its own random hash key, so a peer cannot choose colliding paths. Among n paths a collision has a
/// probability of about n² / 2^129.
#[derive(Clone, Debug)]
pub struct PathMap<V> {
    values: HashMap<[u64; 2], V>,
    keys: [RandomState; 2],
}

impl<V> Default for PathMap<V> {
    fn default() -> Self {
        Self { values: HashMap::new(), keys: [RandomState::new(), RandomState::new()] }
    }
}

impl<V> PathMap<V> {
    /// True if the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// True if `path` has a value.
    #[must_use]
    pub fn contains(&self, path: &RelPath) -> bool {
        self.get(path).is_some()
    }

    /// Returns the value of `path`.
    #[must_use]
    pub fn get(&self, path: &RelPath) -> Option<&V> {
        self.values.get(&self.hash(path))
    }

    /// Returns the value of `path` for changes.
    #[must_use]
    pub fn get_mut(&mut self, path: &RelPath) -> Option<&mut V> {
        self.values.get_mut(&self.hash(path))
    }

    /// Sets the value of `path`. Returns the previous value.
    pub fn insert(&mut self, path: &RelPath, value: V) -> Option<V> {
        self.values.insert(self.hash(path), value)
    }

    /// Removes and returns the value of `path`.
    pub fn remove(&mut self, path: &RelPath) -> Option<V> {
        let value = self.values.remove(&self.hash(path));
        // A map that was large gives back most of its memory as it empties.
        if self.values.len() < self.values.capacity() / 8 && self.values.capacity() > LARGE {
            self.values.shrink_to(self.values.capacity() / 4);
        }
        value
    }

    fn hash(&self, path: &RelPath) -> [u64; 2] {
        self.keys.each_ref().map(|key| key.hash_one(path.as_bytes()))
    }
}

/// Capacity above which a map shrinks.
const LARGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_own_value_until_removal() {
        let path = |n: usize| RelPath::parse(format!("{}/{n}", n / 7).as_bytes()).unwrap();
        let mut map = PathMap::default();
        assert!(map.is_empty() && !map.contains(&path(0)));
        for n in 0..20_000 {
            assert_eq!(map.insert(&path(n), n), None);
        }
        assert_eq!(map.insert(&path(5), 6), Some(5));
        *map.get_mut(&path(5)).unwrap() -= 1;
        for n in (0..20_000).rev() {
            assert_eq!(map.get(&path(n)), Some(&n));
            assert_eq!((map.remove(&path(n)), map.remove(&path(n))), (Some(n), None));
        }
        assert!(map.is_empty() && map.values.capacity() <= 2 * LARGE);
    }
}
