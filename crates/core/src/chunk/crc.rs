//! Chunking by a CRC of a sliding window (SS-CDC, Ni et al. 2019; ParaSync §2.2).
//!
//! ```text
//! hash(i) = the CRC-32C register after data[i - 256..i], from 0 and not inverted
//! cut     = the least i >= min with hash(i) >= limit,
//!           else max, or the end of the file            where limit = 2^32 - 1 - (2^32 - 1) / (avg - min)
//! ```
//!
//! Differences from the papers, and why:
//!
//! 1. The criterion is a comparison, not a remainder or a mask. So a hash cuts with probability `1 / (avg -
//!    min)`, and the average chunk of random bytes has `avg` bytes. With a mask of the bits of `avg` the
//!    average is `min + avg`.
//! 2. High hashes cut. A run of zeros has hash 0, and no run of another byte value has a hash in the highest
//!    1/256. So holes and padding make maximal chunks where the average is that far above the minimum.
//! 3. The window ends with the last byte of the chunk, and lies inside the chunk: the window is shorter than
//!    any minimum.
//! 4. Bytes below `min` are skipped, except for the window. `roll` adds one byte to the window and removes one,
//!    by a table for each.

use super::rolling::{self, RollingHash};
use super::{Chunker, Sizes};
use crate::constants::CASTAGNOLI;

/// Cuts where the CRC of the last 256 bytes is at least `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrcChunker {
    min: usize,
    max: usize,
    limit: u32,
}

impl CrcChunker {
    /// Creates a chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes) -> Self {
        let limit = u32::MAX - u32::MAX / sizes.wait();
        Self { min: sizes.min() as usize, max: sizes.max() as usize, limit }
    }

    /// The lowest hash that cuts.
    pub(super) const fn limit(self) -> u32 {
        self.limit
    }
}

impl Chunker for CrcChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        rolling::cut::<CrcHash, _>(data, self.min, self.max, self.limit)
    }
}

/// CRC-32C, bit-reversed: the lowest bit is the highest power.
pub(super) struct CrcHash;

impl RollingHash<4> for CrcHash {
    type Hash = u32;

    const WINDOW: usize = 256;
    const STRETCH: usize = 512;

    #[inline(always)]
    fn add_byte(hash: u32, byte: u8) -> u32 {
        (hash >> 8) ^ ENTERS[usize::from(hash as u8 ^ byte)]
    }

    #[inline(always)]
    fn roll(hash: u32, enters: u8, leaves: u8) -> u32 {
        Self::add_byte(hash, enters) ^ LEAVES[usize::from(leaves)]
    }

    #[inline(always)]
    fn ends(hash: u32, limit: u32) -> bool {
        hash >= limit
    }
}

/// The register after each byte value, from register 0.
pub(crate) static ENTERS: [u32; 256] = after_zeros(0);
/// The register after each byte value and a window of zeros: the part of a byte that leaves the window.
pub(super) static LEAVES: [u32; 256] = after_zeros(CrcHash::WINDOW);

const fn after_zeros(zeros: usize) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = byte as u32;
        let mut bit = 0;
        while bit < 8 * (zeros + 1) {
            let carry = table[byte] & 1;
            table[byte] = (table[byte] >> 1) ^ (CASTAGNOLI * carry);
            bit += 1;
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_is_that_of_crc_32c() {
        let register =
            b"123456789".iter().fold(u32::MAX, |hash, byte| CrcHash::add_byte(hash, *byte));
        assert_eq!(!register, 0xe306_9283);
    }

    #[test]
    fn a_byte_that_leaves_the_window_has_no_effect() {
        let zeros = [0; CrcHash::WINDOW];
        let rolled = zeros
            .iter()
            .fold(CrcHash::add_byte(0, 0xa5), |hash, byte| CrcHash::add_byte(hash, *byte));
        assert_eq!(CrcHash::roll(rolled, 7, 0), CrcHash::add_byte(rolled, 7));
        let inside = zeros[1..]
            .iter()
            .fold(CrcHash::add_byte(0, 0xa5), |hash, byte| CrcHash::add_byte(hash, *byte));
        assert_eq!(CrcHash::roll(inside, 0, 0xa5), 0);
    }
}
