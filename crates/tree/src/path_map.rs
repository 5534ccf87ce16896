//! Values by path without the paths: where a tree has many directories, their paths are most of what a map would hold.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::path::RelPath;

/// Values by path. It holds a hash of 128 bits in the place of each path.
///
/// The key of the hash is random and its own, so nobody can choose paths that share one. Of n paths two share a hash by
/// chance of n² / 2^129.
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
    /// True if it has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// True if `path` has a value.
    #[must_use]
    pub fn contains(&self, path: &RelPath) -> bool {
        self.get(path).is_some()
    }

    /// The value of `path`.
    #[must_use]
    pub fn get(&self, path: &RelPath) -> Option<&V> {
        self.values.get(&self.hash(path))
    }

    /// The value of `path`, to be changed.
    #[must_use]
    pub fn get_mut(&mut self, path: &RelPath) -> Option<&mut V> {
        self.values.get_mut(&self.hash(path))
    }

    /// Gives `path` a value; the one that it had.
    pub fn insert(&mut self, path: &RelPath, value: V) -> Option<V> {
        self.values.insert(self.hash(path), value)
    }

    /// Takes the value of `path`.
    pub fn remove(&mut self, path: &RelPath) -> Option<V> {
        let value = self.values.remove(&self.hash(path));
        // What was large gives back most of its memory as it empties.
        if self.values.len() < self.values.capacity() / 8 && self.values.capacity() > LARGE {
            self.values.shrink_to(self.values.capacity() / 4);
        }
        value
    }

    fn hash(&self, path: &RelPath) -> [u64; 2] {
        self.keys.each_ref().map(|key| key.hash_one(path.as_bytes()))
    }
}

/// Values of a map that may shrink.
const LARGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_own_value_until_it_is_taken() {
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
