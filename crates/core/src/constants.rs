//! Numbers that chunkers and weak sums share.

/// The CRC-32C (Castagnoli) polynomial without the `x^32` term, bit-reversed: the highest bit is `x^0`.
pub(crate) const CASTAGNOLI: u32 = 0x82f6_3b78;

/// The Gear table: a pseudo-random number for each byte value, from SplitMix64 with seed [`SEED`].
pub(crate) static GEAR: [u64; 256] = table();

/// The first seed after ASCII "deltic" for which no run of one repeated byte value has a hash in the lowest
/// 1/128.
/// So the Gear chunker cuts holes and padding only at `max`: at normalisation level 2 with all sizes, at level 0 if
/// `avg - min` is at least 128 bytes.
const SEED: u64 = 0x6465_6c74_6975;

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = split_mix(SEED, byte as u64);
        byte += 1;
    }
    table
}

/// Output number `n` of SplitMix64, counted from 0.
pub(crate) const fn split_mix(seed: u64, n: u64) -> u64 {
    let state = seed.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
