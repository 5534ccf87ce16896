//! Sums for the strategies of the papers, at either end: sums of portions, of spans, and of whole files.

use std::cell::Cell;
use std::convert::Infallible;
use std::ops::{AddAssign, Range};

use deltic_core::chunk::{JudgeScope, SsCdc, SummingChunker, TwoStage, cut_all};
use deltic_core::recipe::FileDigest;
use deltic_core::stored::ChunkSums;
use deltic_core::{
    AtEnd, Chunker, Crc32c, Digest, Isa, Span, StoredSums, StrongKind, StrongSum, SumKey, WeakKind,
};
use deltic_protocol::limits::SEGMENT_BYTES;
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::{Keying, Sum, Summing};

use crate::task::{FileShrank, Task, longest};

/// Default number of bytes read in a step.
pub const READ_BYTES: usize = SEGMENT_BYTES as usize;

/// Returns the byte range to read for a portion. The range of [`Portion::From`] may go past the end of the file.
#[must_use]
pub fn read_range(portion: &Portion) -> Range<u64> {
    match portion {
        Portion::From(start) => *start..start.saturating_add(READ_BYTES as u64),
        Portion::Chunks(start, lens) => {
            *start..start + lens.iter().map(|len| u64::from(*len)).sum::<u64>()
        }
        Portion::Boundaries(range) | Portion::Ends(range, _) | Portion::SubChunks(range, _) => {
            TwoStage::read(range)
        }
        Portion::Segment(segment) => segment.own.start..segment.read_end,
        Portion::Digest(range) => range.clone(),
    }
}

/// Returns whether `got` bytes read from `start` reach the end of a file of `file_len` bytes. `wanted` bytes were
/// requested.
#[must_use]
pub const fn at_end(start: u64, got: usize, wanted: usize, file_len: u64) -> AtEnd {
    if got < wanted || start + got as u64 >= file_len { AtEnd::Yes } else { AtEnd::No }
}

/// Parameters for cutting and summing portions of a file.
#[derive(Debug)]
pub struct PortionSummer<'a> {
    /// Chunker and kinds of sums.
    summing: Summing,
    /// Key of the strong sums.
    key: &'a SumKey,
    /// Length of the file in bytes.
    file_len: u64,
    /// Block sums of the portion that the file's store keeps. Weak block sums are combined to chunk sums; strong block
    /// sums are used unchanged.
    stored: Option<StoredSums>,
    counts: Cell<SumCounts>,
}

/// Number of sums of chunks and blocks by their source. A chunk with a weak and a strong sum counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumCounts {
    /// Sums that storage keeps, or that were combined from such sums.
    pub stored: u64,
    /// Sums that were computed from bytes alone.
    pub computed: u64,
    /// Computed weak sums that are a by-product of the hash that cuts the file (NetSync §4.2).
    pub by_product: u64,
}

impl AddAssign for SumCounts {
    fn add_assign(&mut self, more: Self) {
        self.stored += more.stored;
        self.computed += more.computed;
        self.by_product += more.by_product;
    }
}

impl<'a> PortionSummer<'a> {
    /// Sums portions of a file of `file_len` bytes, of which storage keeps `stored`.
    #[must_use]
    pub fn new(
        summing: Summing,
        key: &'a SumKey,
        file_len: u64,
        stored: Option<StoredSums>,
    ) -> Self {
        Self { summing, key, file_len, stored, counts: Cell::default() }
    }

    /// Returns the number of sums so far by their source.
    #[must_use]
    pub fn counts(&self) -> SumCounts {
        self.counts.get()
    }

    /// Counts a sum.
    fn count(&self, is_stored: bool) {
        let (stored, computed) = (is_stored.into(), (!is_stored).into());
        self.add_counts(SumCounts { stored, computed, by_product: 0 });
    }

    fn add_counts(&self, more: SumCounts) {
        let mut counts = self.counts.get();
        counts += more;
        self.counts.set(counts);
    }

    /// Cuts and sums `bytes`, the bytes of [`read_range`], and adds the cut bytes to `digest`. Returns `None` if the
    /// file is shorter than the portion.
    #[must_use]
    pub fn sum(
        &self,
        portion: Portion,
        bytes: &[u8],
        digest: Option<&mut FileDigest>,
    ) -> Option<Summed> {
        let range = read_range(&portion);
        let wanted = (range.end - range.start) as usize;
        if let Portion::From(start) = portion {
            let at_end = at_end(start, bytes.len(), wanted, self.file_len);
            return Some(self.cut(start, bytes, at_end, digest));
        }
        if bytes.len() < wanted {
            return None;
        }
        let strong = |chunk: &[u8]| Some(self.summing.strong?.sum_of(self.key(), chunk));
        Some(match portion {
            Portion::Boundaries(range) => {
                let stages = SsCdc::new(&self.summing.chunker, Isa::best());
                Summed::Boundaries(stages.expect(HAS_STAGES).boundaries(&range, bytes))
            }
            Portion::Ends(range, judge) => {
                self.sub_chunks(range, judge, bytes, (|_| Crc32c::EMPTY, |_| None))
            }
            Portion::SubChunks(range, judge) => {
                self.sub_chunks(range, judge, bytes, (Crc32c::of, strong))
            }
            Portion::Chunks(start, lens) => {
                self.sum_chunks(&lens, start, bytes, range.end == self.file_len)
            }
            Portion::Segment(segment) => {
                let mut summer = self.summer(segment.own.start);
                let chunker = self.summing.chunker.build();
                Summed::Segment(segment.cut(&chunker, bytes, |chunk| summer.next(chunk)))
            }
            Portion::Digest(_) => {
                digest.into_iter().for_each(|digest| digest.push(bytes));
                Summed::Chunks(Vec::new(), false)
            }
            Portion::From(_) => unreachable!("`From` returned above"),
        })
    }

    fn cut(
        &self,
        start: u64,
        bytes: &[u8],
        at_end: AtEnd,
        digest: Option<&mut FileDigest>,
    ) -> Summed {
        let chunker = self.summing.chunker.build();
        debug_assert!(chunker.max_len() < READ_BYTES, "a segment makes progress");
        let (mut sums, mut summer) = (Vec::new(), self.summer(start));
        let consumed = match SummingChunker::new(&self.summing.chunker, self.summing.weak) {
            Some(chunker) => chunker
                .cut_all(bytes, at_end, |chunk, weak| sums.push(summer.with_weak(chunk, weak))),
            None => cut_all(&chunker, bytes, at_end, |chunk| sums.push(summer.next(chunk))),
        };
        if let Some(digest) = digest {
            digest.push(&bytes[..consumed]);
        }
        Summed::Chunks(sums, at_end == AtEnd::Yes)
    }

    fn sum_chunks(&self, lens: &[u32], start: u64, mut bytes: &[u8], is_last: bool) -> Summed {
        let mut summer = self.summer(start);
        let sums = lens.iter().map(|len| {
            let (chunk, after) = bytes.split_at(*len as usize);
            bytes = after;
            summer.next(chunk)
        });
        Summed::Chunks(sums.collect(), is_last)
    }

    fn sub_chunks(
        &self,
        range: Range<u64>,
        judge: JudgeScope,
        bytes: &[u8],
        sums: (impl FnMut(&[u8]) -> Crc32c, impl FnMut(&[u8]) -> Option<StrongSum>),
    ) -> Summed {
        let stages = TwoStage::new(&self.summing.chunker).expect(HAS_STAGES);
        Summed::SubChunks(stages.sub_chunks(&range, bytes, judge, sums))
    }

    /// Returns the key of strong sums, if the keying uses a key.
    fn key(&self) -> Option<&SumKey> {
        self.summing.keying.key(self.key)
    }

    /// Returns a summer for consecutive chunks from `start` on.
    fn summer(&self, start: u64) -> ChunkSummer<'_> {
        let stored = self.stored.as_ref().filter(|_| self.summing.weak == WeakKind::Crc32c);
        ChunkSummer { portions: self, joined: stored.map(ChunkSums::new), at: start }
    }
}

/// Sums consecutive chunks.
struct ChunkSummer<'a> {
    portions: &'a PortionSummer<'a>,
    joined: Option<ChunkSums<'a>>,
    at: u64,
}

impl ChunkSummer<'_> {
    fn next(&mut self, chunk: &[u8]) -> Sum {
        let weak = self.portions.summing.weak;
        let weak = match &mut self.joined {
            Some(joined) => {
                let before = joined.hashed_bytes();
                let sum = joined.next_sum(self.at, chunk).get();
                self.portions.count(joined.hashed_bytes() - before < chunk.len() as u64);
                sum
            }
            None => {
                self.portions.count(false);
                weak.of(chunk)
            }
        };
        self.sum(chunk, weak)
    }

    /// Sums a chunk whose weak sum is a by-product of its cut.
    fn with_weak(&mut self, chunk: &[u8], weak: u32) -> Sum {
        self.portions.add_counts(SumCounts { stored: 0, computed: 1, by_product: 1 });
        self.sum(chunk, weak)
    }

    fn sum(&mut self, chunk: &[u8], weak: u32) -> Sum {
        let strong = self.portions.summing.strong;
        let strong = strong.map_or(StrongSum::NONE, |strong| self.strong(strong, chunk));
        self.at += chunk.len() as u64;
        Sum { len: chunk.len() as u32, weak, strong }
    }

    /// Returns the strong sum of a chunk: the store's sum if available, or a computed sum.
    fn strong(&self, strong: StrongKind, chunk: &[u8]) -> StrongSum {
        let stored = self.portions.stored.as_ref();
        let stored = stored.filter(|_| self.portions.summing.keying == Keying::Plain);
        let kept = stored.and_then(|stored| stored.strong(strong, self.at, chunk.len()));
        self.portions.count(kept.is_some());
        kept.unwrap_or_else(|| strong.sum_of(self.portions.key(), chunk))
    }
}

/// Task that computes the strong sum of each span.
#[derive(Debug)]
pub struct StrongSums<'a> {
    strong: StrongKind,
    key: &'a SumKey,
    spans: &'a [Span],
    sums: Vec<StrongSum>,
}

impl<'a> StrongSums<'a> {
    /// Creates the task for these spans.
    #[must_use]
    pub fn new(strong: StrongKind, key: &'a SumKey, spans: &'a [Span]) -> Self {
        Self { strong, key, spans, sums: Vec::with_capacity(spans.len()) }
    }
}

impl Task for StrongSums<'_> {
    type Output = Vec<StrongSum>;
    type Error = FileShrank;

    fn max_read_bytes(&self) -> usize {
        longest(self.spans)
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.spans.get(self.sums.len()).map(std::slice::from_ref)
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), FileShrank> {
        if bytes.len() < self.spans[self.sums.len()].len as usize {
            return Err(FileShrank);
        }
        self.sums.push(self.strong.sum_of(Some(self.key), bytes));
        Ok(())
    }

    fn finish(self) -> Vec<StrongSum> {
        self.sums
    }
}

/// Task that computes the BLAKE3 digest of a file up to its end.
#[derive(Debug)]
pub struct WholeDigest {
    digest: FileDigest,
    next: Option<Span>,
    len: u64,
}

impl WholeDigest {
    /// Creates the task for at most `len` bytes, so that the task ends even if the file grows.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { digest: FileDigest::new(), next: Self::next(0, len), len }
    }

    fn next(start: u64, len: u64) -> Option<Span> {
        let rest = len.saturating_sub(start).min(READ_BYTES as u64);
        (rest > 0).then(|| Span::new(start, rest as u32))
    }
}

impl Task for WholeDigest {
    type Output = Digest;
    type Error = Infallible;

    fn max_read_bytes(&self) -> usize {
        READ_BYTES
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.next.as_ref().map(std::slice::from_ref)
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        let start = self.next.map_or(0, |span| span.start) + bytes.len() as u64;
        self.next = if bytes.is_empty() { None } else { Self::next(start, self.len) };
        self.digest.push(bytes);
        Ok(())
    }

    fn finish(self) -> Digest {
        self.digest.finish()
    }
}

const HAS_STAGES: &str = "a machine asks for two stages only with a two-stage chunker";

#[cfg(test)]
mod tests {
    use deltic_core::chunk::{ChunkerSpec, FixedLen};
    use deltic_core::{Strategy, StrongKind, SumKind};
    use deltic_protocol::sums::Keying;

    use super::*;

    const BLOCK: usize = 4096;

    /// Returns the strong sums of `bytes` in blocks. The store keeps `stored`.
    fn strong_sums(bytes: &[u8], keying: Keying, stored: Option<StoredSums>) -> Vec<StrongSum> {
        let key = SumKey::from_bytes([7; 32]);
        let chunker = ChunkerSpec::Fixed(FixedLen::new(BLOCK as u32).unwrap());
        let summing =
            Summing { chunker, weak: WeakKind::Crc32c, strong: Some(StrongKind::Sha256), keying };
        let file_len = bytes.len() as u64;
        let portions = PortionSummer::new(summing, &key, file_len, stored);
        let Some(Summed::Chunks(sums, true)) = portions.sum(Portion::From(0), bytes, None) else {
            panic!("all of it is summed")
        };
        assert!(sums.iter().zip(bytes.chunks(BLOCK)).all(|(sum, block)| {
            sum.weak == WeakKind::Crc32c.of(block) && sum.len as usize == block.len()
        }));
        sums.into_iter().map(|sum| sum.strong).collect()
    }

    /// `dsync` and `netsync` take their weak sum from the loop that cuts; a sum of another kind is computed afterwards.
    #[test]
    fn fastfp_is_a_by_product_of_cutting() {
        let bytes: Vec<u8> =
            (0..1 << 20).map(|at: u32| (at.wrapping_mul(at) >> 11) as u8).collect();
        for (name, has_by_product) in [
            ("dsync", true),
            ("netsync", true),
            ("netsync-16", true),
            ("netsync-last", true),
            ("skysync-c", false),
        ] {
            let strategy = Strategy::by_name(name).unwrap();
            let (weak, key) = (strategy.weak.unwrap(), SumKey::from_bytes([7; 32]));
            let chunker = strategy.chunker(bytes.len() as u64, None);
            let summing = Summing { chunker, weak, strong: None, keying: Keying::Plain };
            let portions = PortionSummer::new(summing, &key, bytes.len() as u64, None);
            let Some(Summed::Chunks(sums, true)) = portions.sum(Portion::From(0), &bytes, None)
            else {
                panic!("all of it is summed")
            };
            let mut rest = &bytes[..];
            for sum in &sums {
                let chunk = rest.split_off(..sum.len as usize).unwrap();
                assert_eq!(sum.weak, weak.of(chunk), "{name}");
            }
            let count = if has_by_product { sums.len() as u64 } else { 0 };
            assert!(sums.len() > 50 && portions.counts().by_product == count, "{name}");
        }
    }

    /// The stored sum is wrong on purpose, to prove that the bytes were not summed.
    #[test]
    fn strong_sums_of_whole_blocks_come_from_storage() {
        let bytes: Vec<u8> = (0..5 * BLOCK as u32 + 9).map(|at| ((at * at) >> 5) as u8).collect();
        let stored = |kind: SumKind| {
            let mut stored = StoredSums::new(kind, BLOCK as u32, &(0..bytes.len() as u64));
            stored.put_sums(0, &[0xaa; 3 * 32]);
            Some(stored)
        };
        let computed = |key| bytes.chunks(BLOCK).map(move |at| StrongKind::Sha256.sum_of(key, at));
        let plain: Vec<_> = computed(None).collect();
        assert_eq!(strong_sums(&bytes, Keying::Plain, None), plain);
        let lie = StrongSum::from_bytes(&[0xaa; 32]).unwrap();
        let expected: Vec<_> = [lie; 3].into_iter().chain(plain[3..].iter().copied()).collect();
        assert_eq!(strong_sums(&bytes, Keying::Plain, stored(SumKind::Sha256)), expected);
        // Sums of another kind, or of a session with a key, are computed.
        assert_eq!(strong_sums(&bytes, Keying::Plain, stored(SumKind::Blake2b)), plain);
        let key = SumKey::from_bytes([7; 32]);
        let keyed: Vec<_> = computed(Some(&key)).collect();
        assert_eq!(strong_sums(&bytes, Keying::Session, stored(SumKind::Sha256)), keyed);
    }
}
