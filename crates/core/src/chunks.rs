//! A compact list of chunks with their positions. A large file has hundreds of thousands of chunks, and this
//! list takes most of the memory of a sync.

use std::ops::Range;

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
use crate::recipe::Chunk;
use crate::span::Span;

/// Index of a chunk in [`Chunks`], in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkNo(pub(crate) u32);

impl ChunkNo {
    /// The number of the first chunk. An empty list has no chunk with this number.
    pub const FIRST: Self = Self(0);

    /// The next number. The list may have no chunk with that number.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number that is larger by `count`. The list may have no chunk with that number.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The previous number; 0 stays 0.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The number as an array index, from 0.
    #[must_use]
    pub const fn as_index(self) -> usize {
        self.0 as usize
    }
}

/// A list of chunks with the byte offset, the length and the fingerprint of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Low 32 bits of the byte offsets.
    lows: Vec<u32>,
    /// High 32 bits of the byte offsets, without trailing zeros. Offsets below 4 GiB have zeros here.
    highs: Vec<u32>,
    lens: Vec<u32>,
    /// First halves of the fingerprints.
    heads: Vec<Half>,
    /// Second halves of the fingerprints, without trailing zeros. Keyed fingerprints have zeros here.
    tails: Vec<Half>,
}

type Half = [u8; FINGERPRINT_BYTES / 2];

impl Chunks {
    /// Number of chunks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.heads.len()
    }

    /// True if the list has no chunk.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Reserves memory for `count` more chunks.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.lows.reserve(count);
        self.lens.reserve(count);
        self.heads.reserve(count);
    }

    /// Appends a chunk that begins at byte `start`. Returns the chunk's number.
    ///
    /// # Panics
    /// If the list would have more than `u32::MAX` chunks.
    pub fn push(&mut self, start: u64, Chunk { len, fingerprint }: Chunk) -> ChunkNo {
        let no = ChunkNo(u32::try_from(self.len()).expect("chunk numbers fit in 32 bits"));
        let [head, tail] = fingerprint_halves(&fingerprint);
        if tail != Half::default() {
            // Reserve as much memory as `heads` has.
            self.tails.reserve(self.heads.capacity() - self.tails.len());
            self.tails.resize(self.heads.len(), Half::default());
            self.tails.push(tail);
        }
        let high = (start >> 32) as u32;
        if high != 0 {
            // Reserve as much memory as `lows` has.
            self.highs.reserve(self.lows.capacity() - self.highs.len());
            self.highs.resize(self.lows.len(), 0);
            self.highs.push(high);
        }
        self.lows.push(start as u32);
        self.lens.push(len);
        self.heads.push(head);
        no
    }

    /// The byte range of chunk `no`, or `None` if the list has no such chunk.
    #[must_use]
    pub fn span(&self, no: ChunkNo) -> Option<Span> {
        Some(Span::new(self.start(no.as_index())?, *self.lens.get(no.as_index())?))
    }

    /// The byte offset of chunk `at`, or `None` if the list has no such chunk.
    fn start(&self, at: usize) -> Option<u64> {
        let high = self.highs.get(at).copied().unwrap_or(0);
        self.lows.get(at).map(|low| u64::from(high) << 32 | u64::from(*low))
    }

    /// The byte range and the fingerprint of chunk `no`, or `None` if the list has no such chunk.
    #[must_use]
    pub fn get(&self, no: ChunkNo) -> Option<(Span, Fingerprint)> {
        let span = self.span(no)?;
        let tail = self.tails.get(no.as_index()).copied().unwrap_or_default();
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes[..tail.len()].copy_from_slice(&self.heads[no.as_index()]);
        bytes[tail.len()..].copy_from_slice(&tail);
        Some((span, Fingerprint::from_bytes(bytes)))
    }

    /// The chunks with numbers in `range`, in order. Numbers past the end of the list are skipped.
    pub fn range(&self, range: Range<ChunkNo>) -> impl Iterator<Item = (Span, Fingerprint)> {
        (range.start.0..range.end.0).map_while(|no| self.get(ChunkNo(no)))
    }

    /// The chunks, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Span, Fingerprint)> {
        self.range(ChunkNo(0)..ChunkNo(self.len() as u32))
    }

    /// Returns a new list of the chunks with these numbers, in this order. Numbers without a chunk are skipped.
    #[must_use]
    pub fn select(&self, numbers: &[ChunkNo]) -> Self {
        let mut picked = Self::default();
        picked.reserve(numbers.len());
        for (Span { start, len }, fingerprint) in numbers.iter().filter_map(|no| self.get(*no)) {
            picked.push(start, Chunk { len, fingerprint });
        }
        picked
    }

    /// The first chunk that starts at or after byte `start`, by binary search: the starts must ascend. Returns
    /// `len()` if all chunks start before `start`.
    #[must_use]
    pub fn first_from(&self, start: u64) -> ChunkNo {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.start(middle).is_some_and(|other| other < start) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        ChunkNo(from as u32)
    }

    /// The first half of the fingerprint of chunk `no`.
    pub(crate) fn first_half_of_fingerprint(&self, no: ChunkNo) -> Option<&Half> {
        self.heads.get(no.as_index())
    }
}

impl FromIterator<(u64, Chunk)> for Chunks {
    fn from_iter<I: IntoIterator<Item = (u64, Chunk)>>(chunks: I) -> Self {
        let mut all = Self::default();
        for (start, chunk) in chunks {
            all.push(start, chunk);
        }
        all
    }
}

fn fingerprint_halves(fingerprint: &Fingerprint) -> [Half; 2] {
    let bytes = fingerprint.as_bytes();
    let (head, tail) = bytes.split_first_chunk().expect("a fingerprint has two halves");
    [*head, *tail.first_chunk().expect("a fingerprint has two halves")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_stored_exactly_and_take_half_the_memory_below_4_gib() {
        let fingerprint = Fingerprint::of(b"");
        let low = [0, 5, u32::MAX.into()];
        let high = [1 << 32, (7 << 32) + 3, 1, u64::MAX - 9, 2];
        let chunks = |starts: &[u64]| -> Chunks {
            starts.iter().map(|start| (*start, Chunk { len: 1, fingerprint })).collect()
        };
        assert_eq!(chunks(&low).highs.capacity(), 0);
        let all = [&low[..], &high].concat();
        assert!(chunks(&all).iter().map(|(span, _)| span.start).eq(all));
        let ascending = chunks(&[0, 5, 1 << 32, (1 << 32) + 5, 9 << 32]);
        for (start, no) in
            [(0, 0), (1, 1), (5, 1), (6, 2), (1 << 32, 2), ((1 << 32) + 1, 3), (u64::MAX, 5)]
        {
            assert_eq!(ascending.first_from(start), ChunkNo(no), "{start}");
        }
    }

    #[test]
    fn chunks_are_stored_exactly_and_zero_halves_take_no_memory() {
        let keyed =
            |n: u8| Fingerprint::from_bytes([[n; 16], [0; 16]].concat().try_into().unwrap());
        let place = |(n, fingerprint)| (7 * n as u64, Chunk { len: n as u32, fingerprint });
        let of_key: Chunks = (0..50).map(keyed).enumerate().map(place).collect();
        assert_eq!((of_key.len(), of_key.tails.capacity()), (50, 0));
        let plain = [Fingerprint::of(b"plain"), keyed(51), Fingerprint::of(b"other"), keyed(52)];
        let both = (0..50).map(keyed).chain(plain).enumerate().map(place);
        let all: Chunks = both.clone().collect();
        let back = all
            .iter()
            .map(|(span, fingerprint)| (span.start, Chunk { len: span.len, fingerprint }));
        assert!(back.eq(both));
    }
}
