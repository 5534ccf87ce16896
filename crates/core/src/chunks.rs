//! Many chunks in their places. A large file has hundreds of thousands, and most memory of a sync goes to what is
//! kept of them.

use std::ops::Range;

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
use crate::recipe::Chunk;
use crate::span::Span;

/// A chunk of [`Chunks`], numbered in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkNo(pub(crate) u32);

impl ChunkNo {
    /// The number of the first chunk, whether or not there is one.
    pub const FIRST: Self = Self(0);

    /// The number after this one, whether or not there is such a chunk.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number `count` after this one, whether or not there is such a chunk.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The number before this one; that of the first is itself.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The number itself, from 0.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Chunks and where they start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Low halves of their starts.
    lows: Vec<u32>,
    /// High halves, up to the last one that is not zero: those in the first 4 GiB are.
    highs: Vec<u32>,
    lens: Vec<u32>,
    /// First halves of their fingerprints.
    heads: Vec<Half>,
    /// Second halves, up to the last one that is not all zeros: those that a key makes are.
    tails: Vec<Half>,
}

type Half = [u8; FINGERPRINT_BYTES / 2];

impl Chunks {
    /// Number of chunks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.heads.len()
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.lows.reserve(count);
        self.lens.reserve(count);
        self.heads.reserve(count);
    }

    /// Adds one that starts at byte `start`; its number.
    ///
    /// # Panics
    /// Where there are more than numbers.
    pub fn push(&mut self, start: u64, Chunk { len, fingerprint }: Chunk) -> ChunkNo {
        let no = ChunkNo(u32::try_from(self.len()).expect("more chunks than numbers"));
        let [head, tail] = halves(&fingerprint);
        if tail != Half::default() {
            // As much room as there is for heads.
            self.tails.reserve(self.heads.capacity() - self.tails.len());
            self.tails.resize(self.heads.len(), Half::default());
            self.tails.push(tail);
        }
        let high = (start >> 32) as u32;
        if high != 0 {
            // As much room as there is for low halves.
            self.highs.reserve(self.lows.capacity() - self.highs.len());
            self.highs.resize(self.lows.len(), 0);
            self.highs.push(high);
        }
        self.lows.push(start as u32);
        self.lens.push(len);
        self.heads.push(head);
        no
    }

    /// The bytes of a chunk, if there is one of this number.
    #[must_use]
    pub fn span(&self, no: ChunkNo) -> Option<Span> {
        Some(Span::new(self.start(no.at())?, *self.lens.get(no.at())?))
    }

    /// The start of the chunk with this number, if there is one.
    fn start(&self, at: usize) -> Option<u64> {
        let high = self.highs.get(at).copied().unwrap_or(0);
        self.lows.get(at).map(|low| u64::from(high) << 32 | u64::from(*low))
    }

    /// A chunk and where it lies, if there is one of this number.
    #[must_use]
    pub fn get(&self, no: ChunkNo) -> Option<(Span, Fingerprint)> {
        let span = self.span(no)?;
        let tail = self.tails.get(no.at()).copied().unwrap_or_default();
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes[..tail.len()].copy_from_slice(&self.heads[no.at()]);
        bytes[tail.len()..].copy_from_slice(&tail);
        Some((span, Fingerprint::from_bytes(bytes)))
    }

    /// Chunks of a range of numbers, in order; numbers without a chunk are passed over.
    pub fn range(&self, range: Range<ChunkNo>) -> impl Iterator<Item = (Span, Fingerprint)> {
        (range.start.0..range.end.0).map_while(|no| self.get(ChunkNo(no)))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Span, Fingerprint)> {
        self.range(ChunkNo(0)..ChunkNo(self.len() as u32))
    }

    /// Chunks of these numbers, in this order; numbers without a chunk are passed over.
    #[must_use]
    pub fn pick(&self, numbers: &[ChunkNo]) -> Self {
        let mut picked = Self::default();
        picked.reserve(numbers.len());
        for (Span { start, len }, fingerprint) in numbers.iter().filter_map(|no| self.get(*no)) {
            picked.push(start, Chunk { len, fingerprint });
        }
        picked
    }

    /// The first that does not start before byte `start`, of chunks whose starts ascend; where there is none, one
    /// past the last.
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

    /// The first half of a fingerprint.
    pub(crate) fn head(&self, no: ChunkNo) -> Option<&Half> {
        self.heads.get(no.at())
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

fn halves(fingerprint: &Fingerprint) -> [Half; 2] {
    let bytes = fingerprint.as_bytes();
    let (head, tail) = bytes.split_first_chunk().expect("a half is shorter");
    [*head, *tail.first_chunk().expect("a half is left")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_come_out_as_they_went_in_and_the_first_4_gib_take_half() {
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
    fn chunks_come_out_as_they_went_in_and_zeros_take_no_room() {
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
