//! Destination names that are not listed. They can be removed only once the list is complete, and may be millions: so
//! they are stored in few bytes each, and removed some at a time.
//!
//! ```text
//! dir/old-1   0 9 "dir/old-1" 1
//! dir/old-2   8 1 "2"         1
//! ```

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::RelPath;

/// Names to be removed, in the order of discovery.
#[derive(Debug, Default)]
pub(super) struct ExtraNames {
    /// For each name: length of the prefix shared with the path before, the rest of the path, and the number of names
    /// to be removed there.
    bytes: Vec<u8>,
    last: Vec<u8>,
    names: u64,
    taken: NameCursor,
}

/// Progress of reading the names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameCursor {
    at: usize,
    last: Vec<u8>,
}

impl ExtraNames {
    /// Adds `path`, with the number of names to be removed there. The number includes `path` itself unless `path`
    /// stays.
    pub(super) fn push(&mut self, path: &RelPath, names: u64) {
        let path = path.as_bytes();
        let shared = self.last.iter().zip(path).take_while(|(one, next)| one == next).count();
        self.bytes.put_varint(shared as u64);
        self.bytes.put_prefixed(&path[shared..]);
        self.bytes.put_varint(names);
        self.last.truncate(shared);
        self.last.extend_from_slice(&path[shared..]);
        self.names = self.names.saturating_add(names);
    }

    /// Number of names to be removed in all, including names already taken.
    pub(super) const fn names(&self) -> u64 {
        self.names
    }

    /// Takes back names that are not to be removed.
    pub(super) fn remove_from_count(&mut self, names: u64) {
        self.names = self.names.saturating_sub(names);
    }

    /// Returns the next name that `seen` has not passed.
    pub(super) fn next_unseen(&self, seen: &mut NameCursor) -> Option<<Self as Iterator>::Item> {
        seen.next(&self.bytes)
    }

    /// True if all names were taken, or there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.taken.at == self.bytes.len()
    }

    /// Returns the paths of the first names that were not taken.
    pub(super) fn first_paths(&self, count: usize) -> Vec<RelPath> {
        let mut taken = self.taken.clone();
        std::iter::from_fn(|| taken.next(&self.bytes)).map(|(path, _)| path).take(count).collect()
    }
}

impl Iterator for ExtraNames {
    type Item = (RelPath, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.taken.next(&self.bytes)
    }
}

impl NameCursor {
    fn next(&mut self, bytes: &[u8]) -> Option<<ExtraNames as Iterator>::Item> {
        let mut from = Reader::new(bytes.get(self.at..).filter(|left| !left.is_empty())?);
        let next = self.read(&mut from).expect("they were put so");
        self.at = bytes.len() - from.rest().len();
        Some(next)
    }

    fn read(
        &mut self,
        from: &mut Reader<'_>,
    ) -> Result<<ExtraNames as Iterator>::Item, CodecError> {
        self.last.truncate(from.varint()? as usize);
        self.last.extend_from_slice(from.prefixed(usize::MAX)?);
        let path = RelPath::parse(&self.last).expect("it was one");
        Ok((path, from.varint()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<<ExtraNames as Iterator>::Item> {
        let path = |n: u64| RelPath::parse(format!("d{}/old-{}", n / 251, n * 7919).as_bytes());
        (0..1000).map(|n| (path(n).unwrap(), n * n * n)).collect()
    }

    #[test]
    fn what_was_put_is_taken_in_order() {
        let mut extras = ExtraNames::default();
        assert!(extras.is_empty() && extras.first_paths(5).is_empty());
        for (path, names) in some() {
            extras.push(&path, names);
        }
        assert_eq!(extras.names(), some().iter().map(|(_, names)| names).sum::<u64>());
        let paths: Vec<_> = some().into_iter().map(|(path, _)| path).collect();
        assert_eq!(extras.first_paths(5), paths[..5]);
        assert_eq!(extras.by_ref().take(300).collect::<Vec<_>>(), some()[..300]);
        assert_eq!(extras.first_paths(2), paths[300..302]);
        assert_eq!(extras.by_ref().collect::<Vec<_>>(), some()[300..]);
        assert!(extras.is_empty());
    }

    /// Bounds the memory for the removal of a million names.
    #[test]
    fn numbered_names_take_few_bytes() {
        let mut extras = ExtraNames::default();
        for n in 0..100_000 {
            let path = RelPath::parse(format!("dir/name-of-a-{n:07}.dat").as_bytes()).unwrap();
            extras.push(&path, 1);
        }
        assert!(extras.bytes.len() < 100_000 * 10, "{}", extras.bytes.len());
    }
}
