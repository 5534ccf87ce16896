//! Random bytes for the examples.

/// `len` bytes of SplitMix64, rounded down to whole words.
pub(crate) fn random(len: usize) -> Vec<u8> {
    let words = (1..=len as u64 / 8).flat_map(|n| {
        let state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    });
    words.collect()
}
