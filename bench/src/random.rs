//! Bytes and numbers from a seed, so that a figure can be had again: SplitMix64 (Steele, Lea, Flood, 2014).

/// A generator with a full period.
pub(crate) struct Random(u64);

impl Random {
    /// The generator that starts with `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; the bias of the remainder is far below what a benchmark sees.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// A place among so many.
    pub(crate) fn place(&mut self, among: usize) -> usize {
        self.below(among as u64) as usize
    }

    /// Overwrites `bytes` with others.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.number().to_le_bytes()[..word.len()]);
        }
    }

    /// Makes `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}
