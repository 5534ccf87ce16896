//! FastFP and FastFP(+L): sums of Gear hashes, by-products of chunking (NetSync §4.2).
//!
//! ```text
//! hash(0)     = 0
//! hash(i)     = 2 hash(i - 1) + GEAR[data[i - 1]]                 (mod 2^32; depends on the 32 bytes before i)
//! FastFP      = sum of hash(i) for i in 1..=n                     (mod 2^32)
//! FastFP(+L)  = sum of hash(i) for i in 1..=n, where L divides i or i = n
//! ```
//!
//! Choices where the paper is silent or cannot be followed:
//!
//! 1. *Skipped bytes.* FastCDC does not hash the bytes below the minimum. A sum without these bytes would be
//!    equal for chunks that differ only there. So the sum begins with the first byte of the chunk.
//! 2. *Positions.* Algorithm 1 tests whether `L` divides the position in the file, so an insertion would change
//!    the sums of all later chunks. Here positions count from the start of the chunk.
//! 3. *The end.* The `+L` of the paper omits bytes after the last multiple of `L`. Here the last hash counts
//!    too.
//! 4. *Bits.* The hash of the paper has 32 bits. Ours has 64 bits, and the highest bits decide cuts. The sum
//!    adds the lower half, which equals a 32-bit Gear hash with the lower half of the table.
//!
//! In the recurrence of Algorithm 1 each hash depends on the previous one. Summed over all `i` the recurrence
//! gives
//!
//! ```text
//! FastFP = 2 (FastFP - hash(n)) + sum of GEAR[byte]       and so       FastFP = 2 hash(n) - sum of GEAR[byte]
//! ```
//!
//! which needs the hash of the last 32 bytes and a plain sum without dependencies. A chunker with a Gear hash yields
//! the sum in its own loop ([`SummingChunker`](crate::chunk::SummingChunker)). For `L` = 16, with the hash `h` of each
//! block of 16 bytes alone, the terms are `h(m) + 2^16 h(m - 1)`: the blocks are independent.
//!
//! The equation also shows the weakness of FastFP. Except for the last 31 bytes, FastFP does not depend on
//! their *order*: two chunks with the same bytes in different order and the same end have equal sums.
//! FastFP(+16) depends on the order within aligned blocks of 16 bytes, but not on the order of the blocks.
//! Random data (NetSync §5.2) does not show that. So a match by FastFP must always be confirmed.

use crate::constants::GEAR;

/// FastFP of a chunk.
pub(super) fn fast_fp(chunk: &[u8]) -> u32 {
    let (eights, rest) = chunk.as_chunks::<8>();
    let add = |sum: u32, byte: &u8| sum.wrapping_add(number(*byte));
    // Two sums shorten the dependency chain.
    let [even, odd] = eights.iter().fold([0, 0], |[even, odd], eight| {
        [eight[..4].iter().fold(even, add), eight[4..].iter().fold(odd, add)]
    });
    let plain = rest.iter().fold(even.wrapping_add(odd), add);
    last_hash(chunk).wrapping_mul(2).wrapping_sub(plain)
}

/// FastFP(+16) of a chunk.
pub(super) fn fast_fp_stride(chunk: &[u8]) -> u32 {
    let (blocks, rest) = chunk.as_chunks::<STRIDE>();
    let sum = blocks.iter().fold(0u32, |sum, block| sum.wrapping_add(hash(block)));
    let all_but_last = blocks.last().map_or(0, |last| sum.wrapping_sub(hash(last)));
    let at_ends = sum.wrapping_add(all_but_last << STRIDE);
    if rest.is_empty() { at_ends } else { at_ends.wrapping_add(last_hash(chunk)) }
}

/// The hash after the last byte.
pub(crate) fn last_hash(chunk: &[u8]) -> u32 {
    hash(&chunk[chunk.len().saturating_sub(WINDOW)..])
}

fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash, byte| (hash << 1).wrapping_add(number(*byte)))
}

fn number(byte: u8) -> u32 {
    GEAR[usize::from(byte)] as u32
}

/// The `L` that the paper evaluates.
pub(crate) const STRIDE: usize = 16;
/// Number of bytes that a hash of 32 bits depends on.
pub(crate) const WINDOW: usize = u32::BITS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_even_before_the_minimum() {
        let chunk: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        for changed in 0..chunk.len() {
            let mut other = chunk.clone();
            other[changed] ^= 1;
            assert_ne!(fast_fp(&other), fast_fp(&chunk), "{changed}");
            assert_ne!(fast_fp_stride(&other), fast_fp_stride(&chunk), "{changed}");
        }
    }

    /// A property of the definition: the reason why a match must be confirmed.
    #[test]
    fn fastfp_ignores_the_order_of_distant_bytes() {
        let chunk: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        let mut shuffled = chunk.clone();
        shuffled[..969].reverse();
        assert_eq!(fast_fp(&shuffled), fast_fp(&chunk));
        assert_ne!(fast_fp_stride(&shuffled), fast_fp_stride(&chunk));
        let mut blocks = chunk.clone();
        blocks[16..48].rotate_left(16);
        assert_eq!(fast_fp_stride(&blocks), fast_fp_stride(&chunk));
        let mut end = chunk.clone();
        end.swap(968, 969);
        assert_ne!(fast_fp(&end), fast_fp(&chunk));
    }
}
