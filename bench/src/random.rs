//! A seeded pseudo-random generator, for reproducible benchmarks: SplitMix64 (Steele, Lea, Flood, 2014).

/// A generator with a full period.
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a uniform number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`. The bias of the remainder does not matter for a benchmark.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Returns an index below `among`.
    pub(crate) fn place(&mut self, among: usize) -> usize {
        self.below(among as u64) as usize
    }

    /// Overwrites `bytes` with random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.number().to_le_bytes()[..word.len()]);
        }
    }

    /// Returns `len` random bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}
