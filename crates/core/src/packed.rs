//! Byte strings packed into a few large buffers. A million short strings, each in its own `Vec`, would take
//! most of their memory for allocation overhead.
//!
//! ```text
//! parts   ┌ 7 "dir/one" 7 "dir/two" … ┐ ┌ 9 "dir/three" … ┐
//! Slot      ↑           ↑                 ↑
//! ```

use crate::codec::{Put, Reader};

/// An append-only list of byte strings, in the order of insertion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedStrings {
    /// Buffers of strings; each string follows its length.
    parts: Vec<Vec<u8>>,
    len: usize,
}

/// Position of one byte string. Slots ascend in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringSlot(u32);

impl StringSlot {
    const fn new(part: usize, start: usize) -> Self {
        Self((part * PART_BYTES + start) as u32)
    }

    /// Number of the buffer, and the offset in the buffer.
    const fn part_and_start(self) -> (usize, usize) {
        (self.0 as usize / PART_BYTES, self.0 as usize % PART_BYTES)
    }
}

/// Byte strings that can be removed in any order. An empty buffer is freed.
#[derive(Debug, Default)]
pub struct StringSlab {
    parts: Vec<SlabPart>,
    /// Number of the buffer that takes new strings.
    filling: usize,
    /// Numbers of the other empty buffers.
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct SlabPart {
    bytes: Vec<u8>,
    /// Number of strings in this buffer that were not removed.
    kept: usize,
}

/// The table of strings is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many strings")]
pub struct OutOfRoom;

/// Iterator over the strings of a [`PackedStrings`]. Each buffer is freed once its last string was returned.
#[derive(Debug)]
pub struct UnpackedStrings {
    parts: std::vec::IntoIter<Vec<u8>>,
    part: Vec<u8>,
    start: usize,
    left: usize,
}

impl PackedStrings {
    /// Number of strings.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no string.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `text`. Returns its slot.
    ///
    /// # Errors
    /// [`OutOfRoom`] if the slots are exhausted.
    pub fn push(&mut self, text: &[u8]) -> Result<StringSlot, OutOfRoom> {
        let is_full = |part: &Vec<u8>| part.len() + text.len() + MAX_LEN_BYTES > PART_BYTES;
        if self.parts.last().is_none_or(is_full) {
            // The first one may stay small.
            let bytes = if self.parts.is_empty() { 0 } else { PART_BYTES };
            self.parts.push(Vec::with_capacity(bytes));
        }
        let no = self.parts.len() - 1;
        if no >= MAX_PARTS {
            self.parts.pop();
            return Err(OutOfRoom);
        }
        let start = self.parts[no].len();
        self.parts[no].put_prefixed(text);
        self.len += 1;
        Ok(StringSlot::new(no, start))
    }

    /// The string at slot `at`.
    ///
    /// # Panics
    /// If `at` is not a slot of this list.
    #[must_use]
    pub fn get(&self, at: StringSlot) -> &[u8] {
        let (no, start) = at.part_and_start();
        read(&self.parts[no], start).0
    }

    /// The strings with their slots, in the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (StringSlot, &[u8])> {
        let in_part = |(no, part): (usize, &'_ Vec<u8>)| (no, part.len());
        self.parts.iter().enumerate().map(in_part).flat_map(move |(no, len)| {
            let mut next = 0;
            std::iter::from_fn(move || {
                let start = next;
                let (text, end) = (start < len).then(|| read(&self.parts[no], start))?;
                next = end;
                Some((StringSlot::new(no, start), text))
            })
        })
    }
}

impl IntoIterator for PackedStrings {
    type Item = Vec<u8>;
    type IntoIter = UnpackedStrings;

    fn into_iter(self) -> UnpackedStrings {
        let (parts, left) = (self.parts.into_iter(), self.len);
        UnpackedStrings { parts, part: Vec::new(), start: 0, left }
    }
}

impl Iterator for UnpackedStrings {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.start == self.part.len() {
            (self.part, self.start) = (self.parts.next()?, 0);
        }
        let (text, end) = read(&self.part, self.start);
        let text = text.to_vec();
        self.start = end;
        self.left -= 1;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for UnpackedStrings {}

impl StringSlab {
    /// Stores `text`. Returns its slot.
    ///
    /// # Errors
    /// [`OutOfRoom`] if the slots are exhausted.
    pub fn store(&mut self, text: &[u8]) -> Result<StringSlot, OutOfRoom> {
        let is_full = |part: &SlabPart| part.bytes.len() + text.len() + MAX_LEN_BYTES > PART_BYTES;
        if self.parts.get(self.filling).is_none_or(is_full) {
            self.filling = self.free.pop().unwrap_or(self.parts.len());
        }
        let no = self.filling;
        if no == self.parts.len() {
            if no == MAX_PARTS {
                return Err(OutOfRoom);
            }
            self.parts.push(SlabPart::default());
        }
        let part = &mut self.parts[no];
        let start = part.bytes.len();
        part.bytes.put_prefixed(text);
        part.kept += 1;
        Ok(StringSlot::new(no, start))
    }

    /// The string at slot `at`.
    ///
    /// # Panics
    /// If slot `at` holds no string.
    #[must_use]
    pub fn get(&self, at: StringSlot) -> &[u8] {
        let (no, start) = at.part_and_start();
        read(&self.parts[no].bytes, start).0
    }

    /// Removes and returns the string at slot `at`.
    ///
    /// # Panics
    /// If slot `at` holds no string.
    pub fn remove(&mut self, at: StringSlot) -> Vec<u8> {
        let (no, start) = at.part_and_start();
        let part = &mut self.parts[no];
        let text = read(&part.bytes, start).0.to_vec();
        part.kept -= 1;
        if part.kept == 0 && no == self.filling {
            part.bytes.clear();
        } else if part.kept == 0 {
            part.bytes = Vec::new();
            self.free.push(no);
        }
        text
    }

    /// Approximate memory of the stored strings in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}

/// The string at offset `start` of a buffer, and the offset of the next string.
fn read(part: &[u8], start: usize) -> (&[u8], usize) {
    const WHOLE: &str = "strings are stored whole";
    let mut reader = Reader::new(&part[start..]);
    let text = reader.prefixed(usize::MAX).expect(WHOLE);
    (text, part.len() - reader.rest().len())
}

/// Size of a buffer in bytes. A longer string gets its own buffer.
const PART_BYTES: usize = 1 << 20;
/// Slots are `u32`, which allows no more buffers.
const MAX_PARTS: usize = u32::MAX as usize / PART_BYTES + 1;
const MAX_LEN_BYTES: usize = crate::codec::MAX_VARINT_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Vec<u8>> {
        let lens = [0, 1, 127, 128, 300, PART_BYTES / 2, PART_BYTES - MAX_LEN_BYTES, PART_BYTES];
        let lens = lens.into_iter().chain([3 * PART_BYTES, 0, 5, PART_BYTES - 20, 7]);
        lens.enumerate().map(|(n, len)| vec![n as u8; len]).collect()
    }

    #[test]
    fn added_strings_come_out_in_order() {
        let mut packed = PackedStrings::default();
        assert!(packed.is_empty());
        let places: Vec<StringSlot> = some().iter().map(|one| packed.push(one).unwrap()).collect();
        assert!(places.is_sorted_by(|one, next| one < next));
        assert_eq!(packed.len(), some().len());
        for (at, one) in places.iter().zip(some()) {
            assert!(packed.get(*at) == one, "{} bytes", one.len());
        }
        let all = packed.iter().map(|(at, one)| (at, one.to_vec()));
        assert!(all.eq(places.into_iter().zip(some())));
        let all = packed.into_iter();
        assert_eq!(all.len(), some().len());
        assert!(all.eq(some()));
        assert_eq!(PackedStrings::default().into_iter().next(), None);
    }

    #[test]
    fn a_string_without_room_is_not_added() {
        let mut packed = PackedStrings::default();
        packed.push(b"one").unwrap();
        packed.parts.resize(MAX_PARTS - 1, Vec::new());
        let last = packed.push(&vec![1; PART_BYTES]).unwrap();
        assert_eq!(packed.push(&vec![2; PART_BYTES]), Err(OutOfRoom));
        assert_eq!(packed.push(b"no"), Err(OutOfRoom));
        assert_eq!((packed.get(last).len(), packed.len()), (PART_BYTES, 2));
    }

    #[test]
    fn a_slab_frees_its_memory_when_strings_are_taken_in_any_order() {
        let mut shelf = StringSlab::default();
        for round in 0..3u8 {
            let text =
                |n: u32| [&[round][..], &n.to_le_bytes(), &vec![7; n as usize % 500]].concat();
            let mut places: Vec<_> =
                (0..20_000).map(|n| (n, shelf.store(&text(n)).unwrap())).collect();
            assert!(shelf.held_bytes() > 4 * PART_BYTES);
            // Every seventh string first, then all others from the end.
            places.sort_by_key(|(n, _)| (n % 7 != 0, std::cmp::Reverse(*n)));
            for (n, at) in places {
                assert_eq!(shelf.remove(at), text(n));
            }
            assert_eq!(shelf.held_bytes(), 0);
            assert!(shelf.parts.len() < 10, "free buffers are used again: {}", shelf.parts.len());
        }
        let long = shelf.store(&vec![1; 2 * PART_BYTES]).unwrap();
        let next = shelf.store(b"next").unwrap();
        assert_eq!(
            (shelf.remove(long).len(), &*shelf.remove(next)),
            (2 * PART_BYTES, &b"next"[..])
        );
    }
}
