//! Finds blocks that moved to another offset since an older version, by block sums that a store keeps
//! (`docs/decisions/0060`).
//!
//! [`KeptSums`] holds the block sums of one version. [`find`] returns the runs of the new version that the
//! older version has. Equal sums are accepted without comparing bytes, so only kinds of sums that may decide
//! equality are kept (`docs/storage.md`).

use std::ops::Range;

use crate::codec::{Put, Reader};
use crate::stored::{BlockSum, StoredSums, SumKind, SumStrength};

/// A run of blocks of the new version that the old version has too. All fields count blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// First block in the new version.
    pub to: u32,
    /// First block in the old version.
    pub from: u32,
    /// Number of blocks.
    pub blocks: u32,
}

impl MovedRun {
    /// The block after the run, in the new version.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.to as u64 + self.blocks as u64
    }

    /// The block after the run, in the old version.
    #[must_use]
    pub const fn old_end(&self) -> u64 {
        self.from as u64 + self.blocks as u64
    }
}

/// Sums of all whole blocks of a version, shortened to 16 bytes without loss of strength. A sum may be unknown.
///
/// Longer hashes are replaced by 16 bytes of a keyed hash. An author of blocks does not know the key and cannot
/// aim for a collision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSums {
    kind: SumKind,
    block: u32,
    key: [u8; 32],
    /// The shortened sums of all blocks, concatenated.
    sums: Vec<u8>,
}

impl KeptSums {
    /// Creates a table for the whole blocks of a version of `len` bytes; all sums are unknown. `key` must be
    /// random.
    ///
    /// Returns `None` if
    ///
    /// - one block's sum of this `kind` cannot decide equality (docs/decisions/0060),
    /// - there are more than [`MAX_BLOCKS`] blocks,
    /// - `block` is 0.
    #[must_use]
    pub fn new(kind: SumKind, block: u32, key: [u8; 32], len: u64) -> Option<Self> {
        let blocks = usize::try_from(len.checked_div(block.into())?).ok()?;
        let may_decide = kind.strength() > SumStrength::Hint && blocks <= MAX_BLOCKS;
        may_decide.then(|| Self { kind, block, key, sums: vec![0; blocks * sum_bytes(kind)] })
    }

    /// Creates an empty table with the same kind, block length and key, for a version of `len` bytes. The two
    /// tables can be compared.
    #[must_use]
    pub fn empty_for(&self, len: u64) -> Option<Self> {
        Self::new(self.kind, self.block, self.key, len)
    }

    /// Kind of the original sums.
    #[must_use]
    pub const fn kind(&self) -> SumKind {
        self.kind
    }

    /// Length of a block in bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.sums.len() / sum_bytes(self.kind)
    }

    /// True if the version has no whole block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// True if at least one sum is known.
    #[must_use]
    pub fn any_known(&self) -> bool {
        self.sums.iter().any(|byte| *byte != 0)
    }

    /// Stores the sums of `stored` for all blocks that lie entirely in `range`. Ignores `stored` if its kind or
    /// block length differs.
    pub fn take_stored(&mut self, stored: &StoredSums, range: &Range<u64>) {
        if (stored.kind(), stored.block_bytes()) != (self.kind, self.block) {
            return;
        }
        let block = u64::from(self.block);
        for no in
            self.numbers(&(range.start.next_multiple_of(block)..range.end - range.end % block))
        {
            let sum = match stored.sum_at(no as u64 * block) {
                BlockSum::Sum(sum) => self.shortened_sum(sum),
                BlockSum::Zero => ZEROS,
                BlockSum::Unknown => UNKNOWN,
            };
            let width = sum_bytes(self.kind);
            self.sums[no * width..][..width].copy_from_slice(&sum[..width]);
        }
    }

    /// Marks all blocks that overlap `range` as unknown.
    pub fn forget_range(&mut self, range: &Range<u64>) {
        let block = u64::from(self.block);
        let end = range.end.div_ceil(block).saturating_mul(block);
        let (blocks, width) =
            (self.numbers(&(range.start - range.start % block..end)), sum_bytes(self.kind));
        self.sums[blocks.start * width..blocks.end * width].fill(0);
    }

    /// Truncates the table to the whole blocks of the first `len` bytes.
    pub fn truncate(&mut self, len: u64) {
        let blocks = usize::try_from(len / u64::from(self.block)).unwrap_or(usize::MAX);
        self.sums.truncate(blocks.saturating_mul(sum_bytes(self.kind)));
    }

    /// The numbers of the blocks in `range`, which begins and ends at block boundaries, clipped to the table.
    fn numbers(&self, range: &Range<u64>) -> Range<usize> {
        let no = |at: u64| (at / u64::from(self.block)).min(self.len() as u64) as usize;
        no(range.start)..no(range.end).max(no(range.start))
    }

    fn shortened_sum(&self, sum: &[u8]) -> [u8; MAX_WIDTH] {
        let mut short = UNKNOWN;
        match sum_bytes(self.kind) {
            MAX_WIDTH => {
                short.copy_from_slice(&blake3::keyed_hash(&self.key, sum).as_bytes()[..MAX_WIDTH])
            }
            width => short[..width].copy_from_slice(sum),
        }
        // A sum that looks like the mark of a zero block is stored as unknown.
        if short[..sum_bytes(self.kind)] == ZEROS[..sum_bytes(self.kind)] { UNKNOWN } else { short }
    }

    /// The shortened sum of block `no`; `None` if the sum is unknown or the table has no such block.
    fn sum_at(&self, no: usize) -> Option<&[u8]> {
        let width = sum_bytes(self.kind);
        let sum = self.sums.get(no * width..(no + 1) * width)?;
        (sum != &UNKNOWN[..width]).then_some(sum)
    }

    /// True if both blocks have known and equal sums.
    fn has_same_block(&self, no: usize, other: &Self, other_no: usize) -> bool {
        self.sum_at(no).is_some_and(|sum| other.sum_at(other_no) == Some(sum))
    }

    /// A hash of the block by which [`SeedTable`] finds it. `None` if the block is unknown, zeros, or equal to the
    /// block before.
    fn seed_of(&self, no: usize) -> Option<u64> {
        let sum = self.sum_at(no)?;
        let repeats = no > 0 && self.sum_at(no - 1) == Some(sum);
        let is_zeros = sum == &ZEROS[..sum.len()];
        let seed = u64::from_le_bytes(*sum.first_chunk()?);
        (!repeats && !is_zeros).then_some(seed)
    }

    /// Encodes the table for [`KeptSums::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.sums.len());
        bytes.put_u8(KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(KINDS.len()) as u8);
        bytes.put_bytes(&self.block.to_le_bytes());
        bytes.put_bytes(&self.key);
        bytes.put_bytes(&self.sums);
        bytes
    }

    /// Parses the output of [`KeptSums::encode`]; `None` if `bytes` are invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let kind = *KINDS.get(usize::from(from.u8().ok()?))?;
        let block = u32::from_le_bytes(from.array().ok()?);
        let key = from.array().ok()?;
        let sums = bytes.get(HEAD_BYTES..)?.to_vec();
        let fits = sums.len().is_multiple_of(sum_bytes(kind))
            && sums.len() / sum_bytes(kind) <= MAX_BLOCKS;
        (fits && block > 0).then_some(Self { kind, block, key, sums })
    }
}

/// Finds runs of blocks of `new` in `base`. Returns ascending runs that do not overlap. Unknown blocks belong
/// to no run. Runs at an unchanged offset are returned too.
///
/// A run begins in one of three cases:
///
/// - the block is the same as the block of `base` at the same offset;
/// - the last run continues after some changed blocks;
/// - two consecutive blocks are found at any offset.
///
/// So each block of a run is compared with one expected block, and the number of blocks does not weaken 64-bit
/// sums.
#[must_use]
pub fn find(base: &KeptSums, new: &KeptSums) -> Vec<MovedRun> {
    let seeds = SeedTable::of(base);
    let (mut runs, mut at) = (Vec::<MovedRun>::new(), 0);
    while at < new.len() {
        let forward =
            |from: usize| (0..).take_while(|n| new.has_same_block(at + n, base, from + n)).count();
        let stays = Some((at, forward(at)));
        let last = runs.last().map_or(0..0, |run| run.to as usize..run.end() as usize);
        let goes_on = runs.last().and_then(|run| (run.from as usize + at).checked_sub(last.start));
        let goes_on = goes_on.map(|from| (from, forward(from)));
        let is_close = |(_, blocks): &(usize, usize)| *blocks >= MIN_NEAR_BLOCKS;
        let near = [stays, goes_on].into_iter().flatten().filter(is_close);
        let best = near.max_by_key(|(from, blocks)| (*blocks, *from == at));
        let found = best
            .is_none_or(|(_, blocks)| blocks < MIN_FAR_BLOCKS)
            .then(|| seeds.find(base, new, at))
            .flatten();
        let found =
            found.map(|from| (from, forward(from))).filter(|(_, blocks)| *blocks >= MIN_FAR_BLOCKS);
        let Some((mut from, mut blocks)) = found.or(best) else {
            at += 1;
            continue;
        };
        // Blocks before the seed may belong to the run too.
        let mut to = at;
        while to > last.end && from > 0 && new.has_same_block(to - 1, base, from - 1) {
            (to, from, blocks) = (to - 1, from - 1, blocks + 1);
        }
        at = to + blocks;
        runs.push(MovedRun { to: to as u32, from: from as u32, blocks: blocks as u32 });
    }
    runs
}

/// A hash table of blocks of the base, by their shortened sums: candidate starts of moved runs.
struct SeedTable {
    /// Block numbers plus one; 0 is an empty slot.
    places: Vec<u32>,
}

impl SeedTable {
    fn of(base: &KeptSums) -> Self {
        // A block is a seed if its hash has none of these bits.
        let sparse = (base.len().div_ceil(MAX_SEEDS).next_power_of_two() - 1) as u64;
        let count = (base.len() / (sparse as usize + 1) * 2).next_power_of_two();
        let mut seeds = Self { places: vec![0; count] };
        for no in 0..base.len() {
            let Some(seed) = base.seed_of(no).filter(|seed| seed & sparse == 0) else { continue };
            // The first of several equal blocks is kept.
            let free = seeds.slots_to_probe(seed).find(|place| match seeds.places[*place] {
                0 => true,
                other => base.sum_at(other as usize - 1) == base.sum_at(no),
            });
            if let Some(free) = free.filter(|free| seeds.places[*free] == 0) {
                seeds.places[free] = no as u32 + 1;
            }
        }
        seeds
    }

    /// The slots to probe for `seed`. Their number is small, so that an author of blocks cannot slow the search
    /// down.
    fn slots_to_probe(&self, seed: u64) -> impl Iterator<Item = usize> + use<> {
        let (first, mask) = ((seed >> 20) as usize, self.places.len() - 1);
        (0..MAX_PROBES).map(move |n| (first + n) & mask)
    }

    /// The first block of the base that is equal to block `at` of the new version.
    fn find(&self, base: &KeptSums, new: &KeptSums, at: usize) -> Option<usize> {
        let seed = new.sum_at(at).and_then(|sum| Some(u64::from_le_bytes(*sum.first_chunk()?)))?;
        let taken = self.slots_to_probe(seed).map_while(|place| self.places[place].checked_sub(1));
        taken.map(|no| no as usize).find(|no| new.has_same_block(at, base, *no))
    }
}

/// The kinds of sums; the index is the number in the encoding.
const KINDS: [SumKind; 3] = [SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];

/// Number of bytes that are kept of a sum.
const fn sum_bytes(kind: SumKind) -> usize {
    if kind.bytes() < MAX_WIDTH { kind.bytes() } else { MAX_WIDTH }
}

const MAX_WIDTH: usize = 16;
const UNKNOWN: [u8; MAX_WIDTH] = [0; MAX_WIDTH];
const ZEROS: [u8; MAX_WIDTH] = [0xff; MAX_WIDTH];
/// Length of the header: kind, block length, key.
const HEAD_BYTES: usize = 37;

/// Maximum number of blocks in a table: 16 GiB in blocks of 4 KiB.
pub const MAX_BLOCKS: usize = 4 << 20;
/// Minimum length in blocks of a run at an unchanged offset, or of a run that continues the previous run.
const MIN_NEAR_BLOCKS: usize = 1;
/// Minimum length in blocks of a run at any other offset.
const MIN_FAR_BLOCKS: usize = 2;
/// Approximate maximum number of seeds. In a longer base every second or fourth block is a seed, and so on.
const MAX_SEEDS: usize = 1 << 20;
/// Number of slots that a lookup probes.
const MAX_PROBES: usize = 16;
