//! Block sums that a file system or store keeps, and CRC-32C of chunks combined from block sums (SkySync §3.1,
//! §3.2.1).
//!
//! A store fills [`StoredSums`] for a range of a version. [`ChunkSums`] computes CRC-32C of chunks at any offset
//! in this range. The sums of whole blocks are combined; only the partial blocks at both ends of a chunk are
//! read. The partial block at the front needs no reading if the previous chunk ended in the same block: its CRC
//! follows from the CRC of the whole block and that of the front part.

use std::ops::{Range, RangeInclusive};

use crate::strong::{StrongKind, StrongSum};
use crate::weak::Crc32c;

/// Kind of a stored sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// CRC-32C with inverted initial and final value, little-endian.
    Crc32c = 0,
    /// XXH64, little-endian.
    Xxh64 = 1,
    /// SHA-256.
    Sha256 = 2,
    /// BLAKE2b-256.
    Blake2b = 3,
}

impl SumKind {
    /// Length of one sum in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxh64 => 8,
            Self::Sha256 | Self::Blake2b => 32,
        }
    }

    /// The number of the kind in messages and files.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name of the kind in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "CRC-32C",
            Self::Xxh64 => "XXH64",
            Self::Sha256 => "SHA-256",
            Self::Blake2b => "BLAKE2b",
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        let kinds = [Self::Crc32c, Self::Xxh64, Self::Sha256, Self::Blake2b];
        kinds.into_iter().find(|kind| kind.number() == number)
    }

    /// The same hash as an unkeyed [`StrongKind`] sum, or `None` if the kind is not collision-resistant (SkySync
    /// §3.3.2).
    #[must_use]
    pub const fn strong(self) -> Option<StrongKind> {
        match self {
            Self::Sha256 => Some(StrongKind::Sha256),
            Self::Blake2b => Some(StrongKind::Blake2b),
            Self::Crc32c | Self::Xxh64 => None,
        }
    }

    /// Strength of equal sums of this kind as evidence of equal blocks.
    #[must_use]
    pub const fn strength(self) -> SumStrength {
        match self {
            Self::Crc32c => SumStrength::Hint,
            Self::Xxh64 => SumStrength::AgainstAccidents,
            Self::Sha256 | Self::Blake2b => SumStrength::Proof,
        }
    }
}

/// Strength of two equal sums as evidence of equal blocks (docs/storage.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SumStrength {
    /// 32 bits: the blocks may be equal and must be compared.
    Hint,
    /// 64 bits: the blocks are equal unless an author forged the sum.
    AgainstAccidents,
    /// A cryptographic hash: blocks with equal sums are equal.
    Proof,
}

/// Kind and block length of the sums that a store keeps of a version, as sent to the peer (SkySync §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSumSpec {
    /// Kind of the sums.
    pub kind: SumKind,
    /// Length of a block in bytes.
    pub block_bytes: u32,
}

impl BlockSumSpec {
    /// Returns `None` if `block_bytes` is not a power of two from 4 KiB to 64 KiB.
    #[must_use]
    pub fn new(kind: SumKind, block_bytes: u32) -> Option<Self> {
        let is_block = block_bytes.is_power_of_two() && BLOCK_BYTES.contains(&block_bytes);
        is_block.then_some(Self { kind, block_bytes })
    }
}

/// Range of block lengths of the supported stores.
const BLOCK_BYTES: RangeInclusive<u32> = 4096..=65_536;

/// The stored sum of a block, or its state without a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSum<'a> {
    /// The sum of the block.
    Sum(&'a [u8]),
    /// The block is all zeros.
    Zero,
    /// The store has no sum of the block.
    Unknown,
}

/// Stored sums of all blocks that overlap a range of a version. Takes one byte and one sum for each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSums {
    kind: SumKind,
    block: u32,
    start: u64,
    states: Vec<BlockState>,
    sums: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    Unknown = 0,
    Zero = 1,
    Sum = 2,
}

impl BlockState {
    fn of_number(number: u8) -> Option<Self> {
        let states = [Self::Unknown, Self::Zero, Self::Sum];
        states.into_iter().find(|state| *state as u8 == number)
    }
}

/// Format version, the first byte of encoded sums.
const FORMAT: u8 = 1;

impl StoredSums {
    /// A table of all blocks of `block` bytes that overlap `range`. All sums are unknown.
    ///
    /// # Panics
    /// If `block` is 0.
    #[must_use]
    pub fn new(kind: SumKind, block: u32, range: &Range<u64>) -> Self {
        let len = u64::from(block);
        let start = range.start - range.start % len;
        let count = range.end.saturating_sub(start).div_ceil(len) as usize;
        let (states, sums) = (vec![BlockState::Unknown; count], vec![0; count * kind.bytes()]);
        Self { kind, block, start, states, sums }
    }

    /// Kind of the sums.
    #[must_use]
    pub const fn kind(&self) -> SumKind {
        self.kind
    }

    /// Length of a block in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block
    }

    /// Kind and block length of the sums, or `None` if no block has a sum.
    #[must_use]
    pub fn spec(&self) -> Option<BlockSumSpec> {
        let is_kept = self.states.contains(&BlockState::Sum);
        BlockSumSpec::new(self.kind, self.block).filter(|_| is_kept)
    }

    /// The strong sum of `len` bytes from `start`, if these bytes are one whole block with a known sum of this
    /// kind. Strong sums of several blocks cannot be combined.
    #[must_use]
    pub fn strong(&self, kind: StrongKind, start: u64, len: usize) -> Option<StrongSum> {
        let is_block = start.is_multiple_of(u64::from(self.block)) && len == self.block as usize;
        match self.sum_at(start) {
            BlockSum::Sum(sum) if is_block && self.kind.strong() == Some(kind) => {
                StrongSum::from_bytes(sum)
            }
            _ => None,
        }
    }

    /// The byte range of the blocks. It is aligned to blocks, so it may extend past the end of the version.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.states.len() as u64 * u64::from(self.block)
    }

    /// Stores the concatenated `sums` of consecutive blocks from byte `start`. Blocks outside of the table are
    /// ignored.
    ///
    /// # Panics
    /// If `start` is not a block boundary, or the length of `sums` is not a multiple of one sum.
    pub fn put_sums(&mut self, start: u64, sums: &[u8]) {
        let each = self.kind.bytes();
        assert!(start.is_multiple_of(u64::from(self.block)) && sums.len().is_multiple_of(each));
        let end = start + (sums.len() / each) as u64 * u64::from(self.block);
        let blocks = self.blocks(&(start..end));
        if blocks.is_empty() {
            return;
        }
        let first = self.start + blocks.start as u64 * u64::from(self.block);
        let from = ((first - start) / u64::from(self.block)) as usize * each;
        self.states[blocks.clone()].fill(BlockState::Sum);
        let to = blocks.start * each..blocks.end * each;
        self.sums[to.clone()].copy_from_slice(&sums[from..from + to.len()]);
    }

    /// Marks the blocks that lie entirely in `range` as zeros.
    pub fn put_zeros(&mut self, range: &Range<u64>) {
        let block = u64::from(self.block);
        let whole = range.start.next_multiple_of(block)..range.end - range.end % block;
        let blocks = self.blocks(&whole);
        self.states[blocks].fill(BlockState::Zero);
    }

    /// Marks the sum of the block with byte `at` as unknown. A block of zeros stays a block of zeros.
    pub fn forget_block(&mut self, at: u64) {
        let range = self.range();
        if range.contains(&at) {
            let state = &mut self.states[((at - range.start) / u64::from(self.block)) as usize];
            *state = if *state == BlockState::Sum { BlockState::Unknown } else { *state };
        }
    }

    /// The sum of the block with byte `at`. Blocks outside of the table are unknown.
    #[must_use]
    pub fn sum_at(&self, at: u64) -> BlockSum<'_> {
        let range = self.range();
        if !range.contains(&at) {
            return BlockSum::Unknown;
        }
        let no = ((at - range.start) / u64::from(self.block)) as usize;
        let each = self.kind.bytes();
        match self.states[no] {
            BlockState::Unknown => BlockSum::Unknown,
            BlockState::Zero => BlockSum::Zero,
            BlockState::Sum => BlockSum::Sum(&self.sums[no * each..(no + 1) * each]),
        }
    }

    /// CRC-32C of the block at `start` if known. `zeros` is the CRC-32C of a block of zeros.
    #[must_use]
    pub fn crc32c(&self, start: u64, zeros: Crc32c) -> Option<Crc32c> {
        match self.sum_at(start) {
            BlockSum::Zero => Some(zeros),
            BlockSum::Sum(sum) if self.kind == SumKind::Crc32c => {
                Some(Crc32c::new(u32::from_le_bytes(sum.try_into().ok()?)))
            }
            BlockSum::Sum(_) | BlockSum::Unknown => None,
        }
    }

    /// CRC-32C of `len` bytes from `start`, joined from stored sums. `None` unless the range consists of whole blocks,
    /// each with a stored CRC-32C; blocks of zeros have no stored sum.
    #[must_use]
    pub fn joined_crc32c(&self, start: u64, len: usize) -> Option<Crc32c> {
        let (block, end) = (u64::from(self.block), start + len as u64);
        if len == 0 || !start.is_multiple_of(block) || !end.is_multiple_of(block) {
            return None;
        }
        (start..end).step_by(self.block as usize).try_fold(Crc32c::EMPTY, |sum, at| {
            let BlockSum::Sum(next) = self.sum_at(at) else { return None };
            let next = next.try_into().ok().filter(|_| self.kind == SumKind::Crc32c)?;
            Some(sum.concat(Crc32c::new(u32::from_le_bytes(next)), block))
        })
    }

    /// Encodes the sums for [`Self::decode`]: a state byte for each block, then the known sums.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.kind.number()];
        bytes.extend(self.block.to_le_bytes());
        bytes.extend(self.states.iter().map(|state| *state as u8));
        for (state, sum) in self.states.iter().zip(self.sums.chunks(self.kind.bytes())) {
            if *state == BlockState::Sum {
                bytes.extend(sum);
            }
        }
        bytes
    }

    /// Parses the output of [`Self::encode`] for a table over `range`. Returns `None` if `bytes` are invalid.
    #[must_use]
    pub fn decode(bytes: &[u8], range: &Range<u64>) -> Option<Self> {
        let ([FORMAT, kind, block @ ..], rest) = bytes.split_first_chunk::<6>()? else {
            return None;
        };
        let keeps = BlockSumSpec::new(SumKind::of_number(*kind)?, u32::from_le_bytes(*block))?;
        // Check the number of blocks against the input before allocating the table.
        let blocks = range.end.checked_sub(range.start)? / u64::from(keeps.block_bytes);
        if blocks > rest.len() as u64 {
            return None;
        }
        let mut parsed = Self::new(keeps.kind, keeps.block_bytes, range);
        let (states, mut sums) = rest.split_at_checked(parsed.states.len())?;
        let room = parsed.sums.chunks_mut(keeps.kind.bytes());
        for ((state, room), number) in parsed.states.iter_mut().zip(room).zip(states) {
            *state = BlockState::of_number(*number)?;
            if *state == BlockState::Sum {
                let sum;
                (sum, sums) = sums.split_at_checked(room.len())?;
                room.copy_from_slice(sum);
            }
        }
        sums.is_empty().then_some(parsed)
    }

    /// Appends the sums of the next range. Returns `None` if `next` does not begin where `self` ends, or has
    /// another kind or block length.
    #[must_use]
    pub fn followed_by(mut self, next: &Self) -> Option<Self> {
        let is_next =
            (self.kind, self.block, self.range().end) == (next.kind, next.block, next.start);
        self.states.extend(&next.states);
        self.sums.extend(&next.sums);
        is_next.then_some(self)
    }

    /// The numbers of the blocks in `range`, which is aligned to blocks, clipped to the table.
    fn blocks(&self, range: &Range<u64>) -> Range<usize> {
        let no = |at: u64| {
            let no = at.saturating_sub(self.start) / u64::from(self.block);
            no.min(self.states.len() as u64) as usize
        };
        no(range.start)..no(range.end).max(no(range.start))
    }
}

/// Computes CRC-32C of consecutive chunks of a version from [`StoredSums`].
#[derive(Debug)]
pub struct ChunkSums<'a> {
    stored: &'a StoredSums,
    zeros: Crc32c,
    /// End offset of the last chunk, and CRC of the chunk's bytes in its last block, if the chunk covers the
    /// front of that block.
    tail: Option<(u64, Crc32c)>,
    summed: u64,
}

impl<'a> ChunkSums<'a> {
    /// Starts at any offset, with no chunk before.
    #[must_use]
    pub fn new(stored: &'a StoredSums) -> Self {
        let zeros = Crc32c::of(&vec![0; stored.block as usize]);
        Self { stored, zeros, tail: None, summed: 0 }
    }

    /// Number of bytes hashed so far because no stored sum could replace them.
    #[must_use]
    pub const fn hashed_bytes(&self) -> u64 {
        self.summed
    }

    /// CRC-32C of `chunk`, which begins at byte `start`.
    pub fn next_sum(&mut self, start: u64, chunk: &[u8]) -> Crc32c {
        let block = u64::from(self.stored.block);
        let end = start + chunk.len() as u64;
        let (first, last) = (start.next_multiple_of(block), end - end % block);
        if first > last {
            // The chunk lies within one block, so the next chunk cannot use this block's stored sum.
            self.tail = None;
            return self.extend_sum(Crc32c::EMPTY, chunk);
        }
        let at = |place: u64| (place - start) as usize;
        let mut sum = self.front_sum(start, &chunk[..at(first)]);
        for place in (first..last).step_by(self.stored.block as usize) {
            sum = match self.stored.crc32c(place, self.zeros) {
                Some(next) => sum.concat(next, block),
                None => self.extend_sum(sum, &chunk[at(place)..][..self.stored.block as usize]),
            };
        }
        let back = &chunk[at(last)..];
        let tail = self.extend_sum(Crc32c::EMPTY, back);
        self.tail = Some((end, tail));
        sum.concat(tail, back.len() as u64)
    }

    /// CRC of the bytes of a chunk before its first block boundary.
    fn front_sum(&mut self, start: u64, bytes: &[u8]) -> Crc32c {
        let tail = self.tail.filter(|(end, _)| *end == start && !bytes.is_empty());
        let whole = tail.and_then(|(_, tail)| {
            // CRC(front part, bytes) is the CRC of the whole block, so `bytes` follows by subtraction.
            let whole =
                self.stored.crc32c(start - start % u64::from(self.stored.block), self.zeros)?;
            let before = tail.concat(Crc32c::EMPTY, bytes.len() as u64);
            Some(Crc32c::new(whole.get() ^ before.get()))
        });
        whole.unwrap_or_else(|| self.extend_sum(Crc32c::EMPTY, bytes))
    }

    fn extend_sum(&mut self, before: Crc32c, bytes: &[u8]) -> Crc32c {
        self.summed += bytes.len() as u64;
        before.append(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 4096;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = len as u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// Sums of the whole blocks of `bytes`, from offset `from`.
    fn stored(bytes: &[u8], from: u64) -> StoredSums {
        let range = from..bytes.len() as u64;
        let mut sums = StoredSums::new(SumKind::Crc32c, BLOCK, &range);
        let first = sums.range().start as usize;
        for (no, block) in bytes[first..].chunks_exact(BLOCK as usize).enumerate() {
            let start = (first + no * BLOCK as usize) as u64;
            if block.iter().all(|byte| *byte == 0) {
                sums.put_zeros(&(start..start + u64::from(BLOCK)));
            } else {
                sums.put_sums(start, &Crc32c::of(block).get().to_le_bytes());
            }
        }
        sums
    }

    /// Cuts `bytes` into chunks, whose lengths repeat `lens`.
    fn check(bytes: &[u8], stored: &StoredSums, from: usize, lens: &[usize]) -> u64 {
        let (mut joined, mut at) = (ChunkSums::new(stored), from);
        for len in lens.iter().cycle() {
            let end = bytes.len().min(at + len);
            let sum = joined.next_sum(at as u64, &bytes[at..end]);
            assert_eq!(sum, Crc32c::of(&bytes[at..end]), "{at}..{end}");
            at = end;
            if at == bytes.len() {
                return joined.hashed_bytes();
            }
        }
        unreachable!("the lengths repeat without end")
    }

    #[test]
    fn combined_sums_equal_sums_of_the_bytes_at_any_offset() {
        let mut bytes = noise(300_001);
        bytes[40_000..90_000].fill(0);
        let lens: [&[usize]; 7] = [
            &[8192],
            &[4096],
            &[1],
            &[4095, 4097],
            &[1, 4096, 8191, 3],
            &[5000, 7777, 12_288, 100],
            &[99_999],
        ];
        let mut holes = stored(&bytes, 0);
        for at in (0..300_000).step_by(7 * 4096) {
            holes.forget_block(at);
        }
        let nothing = StoredSums::new(SumKind::Crc32c, BLOCK, &(0..300_001));
        for lens in lens {
            for from in [0, 5, 4096, 70_001] {
                check(&bytes, &stored(&bytes, from as u64), from, lens);
                check(&bytes, &stored(&bytes, 100_000), from, lens);
                check(&bytes, &holes, from, lens);
                let summed = check(&bytes, &nothing, from, lens);
                assert_eq!(summed, (bytes.len() - from) as u64);
            }
        }
    }

    #[test]
    fn only_the_partial_block_at_one_end_of_a_chunk_is_read() {
        let bytes = noise(1 << 20);
        let stored = stored(&bytes, 0);
        assert_eq!(check(&bytes, &stored, 0, &[8192]), 0);
        // Each chunk ends 100 bytes later in its block. The front of the next chunk follows from the block's
        // stored sum.
        let chunks = (bytes.len() / 8292) as u64;
        let summed = check(&bytes, &stored, 0, &[8292]);
        assert!(summed < (chunks + 1) * u64::from(BLOCK) * 6 / 10, "{summed} of {chunks} chunks");
    }

    #[test]
    fn sums_of_another_kind_help_with_blocks_of_zeros_only() {
        let bytes = [vec![0; 8192], noise(8192)].concat();
        let mut stored = StoredSums::new(SumKind::Xxh64, BLOCK, &(0..16384));
        stored.put_zeros(&(0..8192));
        stored.put_sums(8192, &[7; 16]);
        assert_eq!(check(&bytes, &stored, 0, &[16384]), 8192);
    }

    #[test]
    fn a_stored_strong_sum_is_returned_for_one_whole_block_only() {
        let mut sums = StoredSums::new(SumKind::Sha256, BLOCK, &(0..5 * 4096));
        assert_eq!(sums.spec(), None);
        sums.put_zeros(&(0..4096));
        assert_eq!(sums.spec(), None, "zeros need no kept sum");
        sums.put_sums(4096, &[7; 96]);
        assert_eq!(sums.spec(), Some(BlockSumSpec { kind: SumKind::Sha256, block_bytes: BLOCK }));
        let taken = |start, len| sums.strong(StrongKind::Sha256, start, len);
        assert_eq!(taken(8192, 4096), StrongSum::from_bytes(&[7; 32]));
        for (start, len) in [(0, 4096), (4096, 8192), (4096, 4095), (4097, 4096), (16_384, 4096)] {
            assert_eq!(taken(start, len), None, "{start} {len}");
        }
        assert_eq!(sums.strong(StrongKind::Blake2b, 8192, 4096), None);
    }

    #[test]
    fn encoded_sums_decode_and_other_bytes_are_refused() {
        for kind in [SumKind::Crc32c, SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b] {
            let range = 10_000..40_000;
            let mut sums = StoredSums::new(kind, BLOCK, &range);
            sums.put_sums(12_288, &noise(3 * kind.bytes()));
            sums.put_zeros(&(24_576..32_768));
            let encoded = sums.encode();
            assert_eq!(StoredSums::decode(&encoded, &range), Some(sums.clone()));
            for len in 0..encoded.len() {
                assert_eq!(StoredSums::decode(&encoded[..len], &range), None, "{len} bytes");
            }
            assert_eq!(StoredSums::decode(&[&encoded[..], &[0]].concat(), &range), None);
            assert_eq!(StoredSums::decode(&encoded, &(0..u64::MAX)), None);
            assert_eq!(StoredSums::decode(&encoded, &Range { start: 40_000, end: 10_000 }), None);
            // Format version, kind, block length, state of a block.
            for (at, byte) in [(0, 2), (1, 4), (2, 1), (5, 1), (6, 3)] {
                let mut encoded = encoded.clone();
                encoded[at] = byte;
                assert_eq!(StoredSums::decode(&encoded, &range), None, "byte {at}");
            }
        }
    }

    #[test]
    fn appended_sums_equal_the_sums_of_the_whole_range() {
        let bytes = noise(100_000);
        let part = |range: Range<usize>| stored(&bytes[..range.end], range.start as u64);
        let [one, two] = [part(0..65_536), part(65_536..100_000)];
        assert_eq!(one.clone().followed_by(&two), Some(stored(&bytes, 0)));
        assert_eq!(two.followed_by(&one), None);
        let other = StoredSums::new(SumKind::Xxh64, BLOCK, &(65_536..100_000));
        assert_eq!(one.followed_by(&other), None);
    }

    #[test]
    fn sums_outside_of_the_range_are_ignored() {
        let mut sums = StoredSums::new(SumKind::Xxh64, BLOCK, &(10_000..20_000));
        assert_eq!(sums.range(), 8192..20_480);
        let eight = |no: u8| [no; 8];
        sums.put_sums(4096, &[eight(1), eight(2), eight(3)].concat());
        sums.put_sums(16_384, &[eight(5), eight(6), eight(7)].concat());
        sums.put_sums(0, &eight(8));
        sums.put_sums(40_960, &eight(9));
        let found = |at| sums.sum_at(at);
        assert_eq!(found(8191), BlockSum::Unknown);
        assert_eq!([8192, 12_288].map(found), [BlockSum::Sum(&[2; 8]), BlockSum::Sum(&[3; 8])]);
        assert_eq!([16_384, 20_479].map(found), [BlockSum::Sum(&[5; 8]); 2]);
        assert_eq!(found(20_480), BlockSum::Unknown);
        sums.put_zeros(&(8191..16_383));
        assert_eq!(
            [sums.sum_at(8192), sums.sum_at(12_288)],
            [BlockSum::Zero, BlockSum::Sum(&[3; 8])]
        );
        sums.forget_block(8192);
        sums.forget_block(12_300);
        sums.forget_block(50_000);
        assert_eq!([sums.sum_at(8192), sums.sum_at(12_288)], [BlockSum::Zero, BlockSum::Unknown]);
    }
}
