//! Compressed sorted lists of the names in one directory. A directory may have millions of names, and all must be read
//! before the first is sent, because lists are sent in order.
//!
//! Neighbours in sorted order share a long prefix. Each name is stored as the length of the shared prefix, the length
//! of the suffix, and the suffix. One name in `BLOCK_NAMES` is stored whole, so that a search can begin there:
//!
//! ```text
//! blocks   ↓                                        ↓
//! bytes    0 9 "photo-001" 8 1 "2" 8 1 "3" …        0 9 "photo-017" 8 1 "8" …
//! ```

use std::cmp::Ordering;

use crate::meta::Inode;
use crate::path::Name;
use deltic_core::packed::{OutOfRoom, PackedStrings, UnpackedStrings};

/// Names of one directory, sorted, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    bytes: Vec<u8>,
    /// Offsets in `bytes` of the names stored whole.
    blocks: Vec<usize>,
    len: usize,
    last: Vec<u8>,
}

/// Names of one directory in any order. A short list stores names plainly, because most directories are small; a long
/// list packs them.
#[derive(Debug, Default)]
pub struct UnsortedNames {
    few: Vec<Name>,
    many: PackedStrings,
}

/// Error of [`Names::push`]: the name does not sort after the last name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names out of order")]
pub struct OutOfOrder;

/// Iterator over the names of one directory, sorted, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedNames {
    left: NamesLeft,
    dirs: Vec<Inode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NamesLeft {
    /// Names in reverse order: the next name is at the end.
    Few(Vec<Name>),
    Many {
        names: Names,
        at: usize,
        taken: usize,
        last: Vec<u8>,
    },
}

impl Names {
    /// Number of names.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the approximate memory of the names, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.blocks)
    }

    /// Appends a name.
    ///
    /// # Errors
    /// [`OutOfOrder`] if `name` does not sort after the last name.
    pub fn push(&mut self, name: &Name) -> Result<(), OutOfOrder> {
        self.push_bytes(name.as_bytes())
    }

    fn push_bytes(&mut self, name: &[u8]) -> Result<(), OutOfOrder> {
        if name <= &*self.last {
            return Err(OutOfOrder);
        }
        let mut shared = 0;
        if self.len.is_multiple_of(BLOCK_NAMES) {
            self.blocks.push(self.bytes.len());
        } else {
            shared = self.last.iter().zip(name).take_while(|(one, next)| one == next).count();
        }
        // A name has at most 255 bytes.
        self.bytes.extend_from_slice(&[shared as u8, (name.len() - shared) as u8]);
        self.bytes.extend_from_slice(&name[shared..]);
        self.last.truncate(shared);
        self.last.extend_from_slice(&name[shared..]);
        self.len += 1;
        Ok(())
    }

    /// True if the list contains `name`.
    #[must_use]
    pub fn contains(&self, name: &Name) -> bool {
        let name = name.as_bytes();
        let after = self.blocks.partition_point(|at| self.whole_name(*at) <= name);
        let Some(block) = after.checked_sub(1) else { return false };
        let (mut at, mut found) = (self.blocks[block], Vec::new());
        let end = self.blocks.get(after).copied().unwrap_or(self.bytes.len());
        while at < end {
            at = self.decode_name(at, &mut found);
            match found.as_slice().cmp(name) {
                Ordering::Less => {}
                Ordering::Equal => return true,
                Ordering::Greater => return false,
            }
        }
        false
    }

    /// Returns the name stored whole at offset `at`.
    fn whole_name(&self, at: usize) -> &[u8] {
        let len = usize::from(self.bytes[at + 1]);
        &self.bytes[at + 2..at + 2 + len]
    }

    /// Decodes the name at offset `at` over `name`, which holds the name before. Returns the offset of the next name.
    fn decode_name(&self, at: usize, name: &mut Vec<u8>) -> usize {
        let (shared, len) = (usize::from(self.bytes[at]), usize::from(self.bytes[at + 1]));
        name.truncate(shared);
        let end = at + 2 + len;
        name.extend_from_slice(&self.bytes[at + 2..end]);
        end
    }
}

impl FromIterator<Name> for Names {
    /// Collects the names. Drops names beyond the limit of [`UnsortedNames::push`].
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut pile = UnsortedNames::default();
        for name in names {
            pile.push(name).ok();
        }
        pile.into_sorted_names()
    }
}

impl IntoIterator for Names {
    type Item = Name;
    type IntoIter = SortedNames;

    fn into_iter(self) -> SortedNames {
        let left = NamesLeft::Many { names: self, at: 0, taken: 0, last: Vec::new() };
        SortedNames { left, dirs: Vec::new() }
    }
}

impl SortedNames {
    /// Stores the inodes of the directories in which the names were read. With these inodes, a caller can detect that
    /// another directory has taken the path since.
    #[must_use]
    pub fn with_dirs(self, dirs: Vec<Inode>) -> Self {
        Self { dirs, ..self }
    }

    /// Returns the directories in which the names were read, if known.
    #[must_use]
    pub fn dirs(&self) -> &[Inode] {
        &self.dirs
    }
}

impl Iterator for SortedNames {
    type Item = Name;

    fn next(&mut self) -> Option<Name> {
        match &mut self.left {
            NamesLeft::Few(names) => names.pop(),
            NamesLeft::Many { names, taken, .. } if *taken == names.len => None,
            NamesLeft::Many { names, at, taken, last } => {
                *at = names.decode_name(*at, last);
                *taken += 1;
                Some(Name::new(last).expect("push checked the name"))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.left {
            NamesLeft::Few(names) => names.len(),
            NamesLeft::Many { names, taken, .. } => names.len - taken,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for SortedNames {}

impl UnsortedNames {
    /// Adds a name.
    ///
    /// # Errors
    /// [`OutOfRoom`] if the list is full.
    pub fn push(&mut self, name: Name) -> Result<(), OutOfRoom> {
        if self.many.is_empty() && self.few.len() < FEW_NAMES {
            self.few.push(name);
            return Ok(());
        }
        for name in self.few.drain(..) {
            self.many.push(name.as_bytes())?;
        }
        self.many.push(name.as_bytes()).map(drop)
    }

    /// Returns an iterator over the names, sorted, without duplicates.
    #[must_use]
    pub fn into_sorted(mut self) -> SortedNames {
        if !self.many.is_empty() {
            return self.into_sorted_names().into_iter();
        }
        self.few.sort_unstable_by(|one, other| other.cmp(one));
        self.few.dedup();
        SortedNames { left: NamesLeft::Few(self.few), dirs: Vec::new() }
    }

    /// Returns the names, sorted, without duplicates.
    #[must_use]
    pub fn into_sorted_names(self) -> Names {
        let mut names = Names::default();
        if self.many.is_empty() {
            self.into_sorted().for_each(|name| names.push(&name).expect("the names are sorted"));
            return names;
        }
        let mut places = Vec::with_capacity(self.many.len());
        places.extend(self.many.iter().map(|(at, _)| at));
        places.sort_unstable_by(|one, other| self.many.get(*one).cmp(self.many.get(*other)));
        for at in places {
            // Only duplicates fail.
            names.push_bytes(self.many.get(at)).ok();
        }
        names
    }
}

impl IntoIterator for UnsortedNames {
    type Item = Name;
    type IntoIter = std::iter::Chain<
        std::vec::IntoIter<Name>,
        std::iter::Map<UnpackedStrings, fn(Vec<u8>) -> Name>,
    >;

    /// Returns the names in the order of [`push`](Self::push).
    fn into_iter(self) -> Self::IntoIter {
        let name: fn(Vec<u8>) -> Name = |name| Name::new(&name).expect("push checked the name");
        self.few.into_iter().chain(self.many.into_iter().map(name))
    }
}

/// Number of names from one name stored whole to the next.
const BLOCK_NAMES: usize = 16;
/// Longest list that stores names plainly.
const FEW_NAMES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn name(bytes: &[u8]) -> Name {
        Name::new(bytes).unwrap()
    }

    /// Names that share much, little and nothing with their neighbours, the longest possible name among them.
    fn sample_names(count: usize) -> BTreeSet<Vec<u8>> {
        let one = |n: usize| match n % 4 {
            0 => format!("photo-{:06}.jpeg", n * 7919 % 100_003).into_bytes(),
            1 => vec![b'a' + (n % 23) as u8; 1 + n % 255],
            2 => format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes(),
            _ => vec![0xff, 1 + (n % 45) as u8, b'x'],
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn names_are_those_of_a_sorted_set() {
        for count in [0, 1, 15, 16, 17, 33, FEW_NAMES - 5, FEW_NAMES, FEW_NAMES + 1, 1000] {
            let set = sample_names(count);
            let mut pile = UnsortedNames::default();
            // Some names come twice, as when a directory changes while it is read.
            set.iter()
                .rev()
                .chain(set.iter().take(5))
                .for_each(|one| pile.push(name(one)).unwrap());
            let mut again = UnsortedNames::default();
            set.iter().rev().for_each(|one| again.push(name(one)).unwrap());
            assert!(again.into_iter().eq(set.iter().rev().map(|one| name(one))));
            let names = pile.into_sorted_names();
            let mut pile = UnsortedNames::default();
            set.iter().chain(set.iter().take(5)).for_each(|one| pile.push(name(one)).unwrap());
            let rest = pile.into_sorted();
            assert!(rest.len() == set.len() && rest.eq(set.iter().map(|one| name(one))));
            let mut pushed = Names::default();
            set.iter().for_each(|one| pushed.push(&name(one)).unwrap());
            assert_eq!(names, pushed);
            assert_eq!((names.len(), names.is_empty()), (set.len(), set.is_empty()));
            for one in sample_names(2 * count + 10) {
                assert_eq!(names.contains(&name(&one)), set.contains(&one), "{one:?} of {count}");
            }
            let all = names.into_iter();
            assert_eq!(all.len(), set.len());
            assert!(all.map(|one| one.as_bytes().to_vec()).eq(set));
        }
    }

    #[test]
    fn names_out_of_order_are_refused() {
        let mut names = Names::default();
        names.push(&name(b"b")).unwrap();
        assert_eq!(names.push(&name(b"b")), Err(OutOfOrder));
        assert_eq!(names.push(&name(b"a")), Err(OutOfOrder));
        assert_eq!(names.len(), 1);
    }

    /// Bounds the memory for a directory of a million files.
    #[test]
    fn numbered_names_take_few_bytes() {
        let mut pile = UnsortedNames::default();
        (0..100_000)
            .for_each(|n| pile.push(name(format!("name-of-a-{n:07}.dat").as_bytes())).unwrap());
        let held = pile.into_sorted_names().held_bytes();
        assert!(held < 100_000 * 10, "{held}");
    }
}
