//! Runs of blocks that lie elsewhere than in an older version, found by the sums that a store keeps of blocks
//! (`docs/decisions/0060`).
//!
//! [`KeptSums`] are what is kept of an older version. Of each run of a new version that is in it, [`find`] tells where.
//! Equal sums decide here, so only kinds that may are ever kept (`docs/storage.md`).

use std::ops::Range;

use crate::codec::{Put, Reader};
use crate::stored::{BlockSum, StoredSums, Strength, SumKind};

/// A run of blocks of a new version that the old one has at another place. All are numbers of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// Its first block in the new version.
    pub to: u32,
    /// Its first block in the old one.
    pub from: u32,
    /// Number of its blocks.
    pub blocks: u32,
}

impl MovedRun {
    /// The block behind it in the new version.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.to as u64 + self.blocks as u64
    }

    /// The block behind it in the old one.
    #[must_use]
    pub const fn old_end(&self) -> u64 {
        self.from as u64 + self.blocks as u64
    }
}

/// Sums of all whole blocks of a version, as far as they are known, in a form that is short and as strong as they are.
///
/// Hashes are kept in 16 bytes, under a key: whoever writes blocks does not know it, and can aim at no collision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSums {
    kind: SumKind,
    block: u32,
    key: [u8; 32],
    /// A name for each block.
    names: Vec<u8>,
}

impl KeptSums {
    /// Sums of the whole blocks of a version of `len` bytes, none of which is known yet. `None` for a kind that says
    /// nothing of a block alone (docs/decisions/0039), for more than [`MAX_BLOCKS`], and for blocks of no length. The
    /// key is random.
    #[must_use]
    pub fn new(kind: SumKind, block: u32, key: [u8; 32], len: u64) -> Option<Self> {
        let blocks = usize::try_from(len.checked_div(block.into())?).ok()?;
        let may_decide = kind.strength() > Strength::Hint && blocks <= MAX_BLOCKS;
        may_decide.then(|| Self { kind, block, key, names: vec![0; blocks * width(kind)] })
    }

    /// The same for a version of another length, to be compared with this one.
    #[must_use]
    pub fn beside(&self, len: u64) -> Option<Self> {
        Self::new(self.kind, self.block, self.key, len)
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

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.names.len() / width(self.kind)
    }

    /// True for a version without whole blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// True where any is known.
    #[must_use]
    pub fn has_some(&self) -> bool {
        self.names.iter().any(|byte| *byte != 0)
    }

    /// Takes the sums of the blocks that lie in `range` whole. Sums of another kind, or of other blocks, are of no use.
    pub fn take(&mut self, told: &StoredSums, range: &Range<u64>) {
        if (told.kind(), told.block_bytes()) != (self.kind, self.block) {
            return;
        }
        let block = u64::from(self.block);
        for no in
            self.numbers(&(range.start.next_multiple_of(block)..range.end - range.end % block))
        {
            let name = match told.at(no as u64 * block) {
                BlockSum::Sum(sum) => self.name_of(sum),
                BlockSum::Zero => ZEROS,
                BlockSum::Unknown => UNKNOWN,
            };
            let width = width(self.kind);
            self.names[no * width..][..width].copy_from_slice(&name[..width]);
        }
    }

    /// Forgets all blocks that have bytes of `range`.
    pub fn forget(&mut self, range: &Range<u64>) {
        let block = u64::from(self.block);
        let end = range.end.div_ceil(block).saturating_mul(block);
        let (blocks, width) =
            (self.numbers(&(range.start - range.start % block..end)), width(self.kind));
        self.names[blocks.start * width..blocks.end * width].fill(0);
    }

    /// Forgets what is behind the first `len` bytes.
    pub fn cut(&mut self, len: u64) {
        let blocks = usize::try_from(len / u64::from(self.block)).unwrap_or(usize::MAX);
        self.names.truncate(blocks.saturating_mul(width(self.kind)));
    }

    /// Numbers of the blocks of a range that begins and ends with blocks, as far as there are any.
    fn numbers(&self, range: &Range<u64>) -> Range<usize> {
        let no = |at: u64| (at / u64::from(self.block)).min(self.len() as u64) as usize;
        no(range.start)..no(range.end).max(no(range.start))
    }

    fn name_of(&self, sum: &[u8]) -> [u8; MOST_WIDTH] {
        let mut name = UNKNOWN;
        match width(self.kind) {
            MOST_WIDTH => {
                name.copy_from_slice(&blake3::keyed_hash(&self.key, sum).as_bytes()[..MOST_WIDTH])
            }
            width => name[..width].copy_from_slice(sum),
        }
        // What looks like zeros and is not, is not known.
        if name[..width(self.kind)] == ZEROS[..width(self.kind)] { UNKNOWN } else { name }
    }

    /// The name of a block; `None` where it is not known, or there is none.
    fn at(&self, no: usize) -> Option<&[u8]> {
        let width = width(self.kind);
        let name = self.names.get(no * width..(no + 1) * width)?;
        (name != &UNKNOWN[..width]).then_some(name)
    }

    /// True where both blocks are known, and are the same.
    fn is_same(&self, no: usize, other: &Self, other_no: usize) -> bool {
        self.at(no).is_some_and(|name| other.at(other_no) == Some(name))
    }

    /// A number that is spread evenly, by the name of a block that runs may begin to be found by: it is known, is not
    /// zeros, and not what the block before it is.
    fn seed(&self, no: usize) -> Option<u64> {
        let name = self.at(no)?;
        let repeats = no > 0 && self.at(no - 1) == Some(name);
        let is_zeros = name == &ZEROS[..name.len()];
        let seed = u64::from_le_bytes(*name.first_chunk()?);
        (!repeats && !is_zeros).then_some(seed)
    }

    /// The bytes that [`KeptSums::decode`] reads.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.names.len());
        bytes.put_u8(KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(KINDS.len()) as u8);
        bytes.put_bytes(&self.block.to_le_bytes());
        bytes.put_bytes(&self.key);
        bytes.put_bytes(&self.names);
        bytes
    }

    /// Reads what [`KeptSums::encode`] wrote; `None` for all other bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let kind = *KINDS.get(usize::from(from.u8().ok()?))?;
        let block = u32::from_le_bytes(from.array().ok()?);
        let key = from.array().ok()?;
        let names = bytes.get(HEAD_BYTES..)?.to_vec();
        let fits =
            names.len().is_multiple_of(width(kind)) && names.len() / width(kind) <= MAX_BLOCKS;
        (fits && block > 0).then_some(Self { kind, block, key, names })
    }
}

/// Runs of blocks of `new` that `base` has: ascending, and apart. Blocks of `new` that are not known belong to none. A
/// run that lies where it lay is told too.
///
/// A run begins where a block is as it was, where the last run goes on behind other blocks, or where two blocks that
/// follow each other are found anywhere. So each block of a run is compared with one that its place names, and sums of
/// 64 bits are not made weaker by how many blocks there are.
#[must_use]
pub fn find(base: &KeptSums, new: &KeptSums) -> Vec<MovedRun> {
    let seeds = Seeds::of(base);
    let (mut runs, mut at) = (Vec::<MovedRun>::new(), 0);
    while at < new.len() {
        let forward =
            |from: usize| (0..).take_while(|n| new.is_same(at + n, base, from + n)).count();
        let stays = Some((at, forward(at)));
        let last = runs.last().map_or(0..0, |run| run.to as usize..run.end() as usize);
        let goes_on = runs.last().and_then(|run| (run.from as usize + at).checked_sub(last.start));
        let goes_on = goes_on.map(|from| (from, forward(from)));
        let is_close = |(_, blocks): &(usize, usize)| *blocks >= ALONE;
        let near = [stays, goes_on].into_iter().flatten().filter(is_close);
        let best = near.max_by_key(|(from, blocks)| (*blocks, *from == at));
        let found = best
            .is_none_or(|(_, blocks)| blocks < FAR)
            .then(|| seeds.find(base, new, at))
            .flatten();
        let found = found.map(|from| (from, forward(from))).filter(|(_, blocks)| *blocks >= FAR);
        let Some((mut from, mut blocks)) = found.or(best) else {
            at += 1;
            continue;
        };
        // Blocks before it may be of it too: they were no seeds.
        let mut to = at;
        while to > last.end && from > 0 && new.is_same(to - 1, base, from - 1) {
            (to, from, blocks) = (to - 1, from - 1, blocks + 1);
        }
        at = to + blocks;
        runs.push(MovedRun { to: to as u32, from: from as u32, blocks: blocks as u32 });
    }
    runs
}

/// Blocks of a base by their names: where a run of a new version may come from.
struct Seeds {
    /// Numbers of blocks and one; 0 is an empty place.
    places: Vec<u32>,
}

impl Seeds {
    fn of(base: &KeptSums) -> Self {
        // Seeds are those whose names have no bit of this.
        let sparse = (base.len().div_ceil(MAX_SEEDS).next_power_of_two() - 1) as u64;
        let count = (base.len() / (sparse as usize + 1) * 2).next_power_of_two();
        let mut seeds = Self { places: vec![0; count] };
        for no in 0..base.len() {
            let Some(seed) = base.seed(no).filter(|seed| seed & sparse == 0) else { continue };
            // The first of blocks that are the same stays.
            let free = seeds.probe(seed).find(|place| match seeds.places[*place] {
                0 => true,
                other => base.at(other as usize - 1) == base.at(no),
            });
            if let Some(free) = free.filter(|free| seeds.places[*free] == 0) {
                seeds.places[free] = no as u32 + 1;
            }
        }
        seeds
    }

    /// Places where a seed may be: few, so that whoever chooses names gains nothing.
    fn probe(&self, seed: u64) -> impl Iterator<Item = usize> + use<> {
        let (first, mask) = ((seed >> 20) as usize, self.places.len() - 1);
        (0..MAX_PROBES).map(move |n| (first + n) & mask)
    }

    /// The first block of the base that is what block `at` of a new version is.
    fn find(&self, base: &KeptSums, new: &KeptSums, at: usize) -> Option<usize> {
        let seed = new.at(at).and_then(|name| Some(u64::from_le_bytes(*name.first_chunk()?)))?;
        let taken = self.probe(seed).map_while(|place| self.places[place].checked_sub(1));
        taken.map(|no| no as usize).find(|no| new.is_same(at, base, *no))
    }
}

/// By their numbers.
const KINDS: [SumKind; 3] = [SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];

/// Bytes that are kept of a sum.
const fn width(kind: SumKind) -> usize {
    if kind.bytes() < MOST_WIDTH { kind.bytes() } else { MOST_WIDTH }
}

const MOST_WIDTH: usize = 16;
const UNKNOWN: [u8; MOST_WIDTH] = [0; MOST_WIDTH];
const ZEROS: [u8; MOST_WIDTH] = [0xff; MOST_WIDTH];
/// Kind, length of a block, key.
const HEAD_BYTES: usize = 37;

/// Blocks of a version of which sums are kept at most: 16 GiB in blocks of 4 KiB.
pub const MAX_BLOCKS: usize = 4 << 20;
/// Blocks that a run which lies where it lay, or goes on behind others, has at least.
const ALONE: usize = 1;
/// Blocks that a run has at least which is found elsewhere.
const FAR: usize = 2;
/// Seeds of a base, about: of longer ones each second block is one, or each fourth.
const MAX_SEEDS: usize = 1 << 20;
/// Places in which a seed is looked for.
const MAX_PROBES: usize = 16;
