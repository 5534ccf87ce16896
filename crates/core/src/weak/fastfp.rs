//! FastFP and FastFP(+L): sums of a gear hash, by-products of chunking (NetSync §4.2).
//!
//! ```text
//! hash(0)     = 0
//! hash(i)     = 2 hash(i - 1) + GEAR[data[i - 1]]                 (mod 2^32; the 32 bytes before i reach it)
//! FastFP      = sum of hash(i) for i in 1..=n                     (mod 2^32)
//! FastFP(+L)  = sum of hash(i) for i in 1..=n, where L divides i or i = n
//! ```
//!
//! Choices where the paper is silent, or cannot be followed:
//!
//! 1. *Skipped bytes.* FastCDC hashes nothing before the minimum; a sum of what it does hash would leave these bytes
//!    out, and chunks that differ there alone would collide. The sum begins with the chunk's first byte.
//! 2. *Places.* Algorithm 1 asks whether `L` divides the place in the file, so an insert would change the sums of all
//!    chunks behind it. Here places count from the chunk's start.
//! 3. *The end.* The paper's `+L` leaves out what lies behind the last multiple of `L`. Here the last hash counts too.
//! 4. *Bits.* The paper's hash has 32 bits. Ours has 64 and is judged by the highest; its lower half, which is what a
//!    gear of 32 bits makes of the lower half of the table, is what is added up.
//!
//! The recurrence of Algorithm 1 makes each hash wait for the one before. Added up over all `i` it says
//!
//! ```text
//! FastFP = 2 (FastFP - hash(n)) + sum of GEAR[byte]       and so       FastFP = 2 hash(n) - sum of GEAR[byte]
//! ```
//!
//! which needs the hash of 32 bytes and a plain sum, for which nothing waits. For `L` = 16, with the hash `h` of each
//! block of 16 bytes by itself, the terms are `h(m) + 2^16 h(m - 1)`: the blocks do not wait for each other.
//!
//! The equation also shows what FastFP is worth. But for the last 31 bytes it does not depend on their *order*: two
//! chunks with the same bytes, shuffled, and the same end have the same sum. FastFP(+16) sees the order within 16
//! bytes, and not that of aligned blocks. Random data (NetSync §5.2) cannot show it. So a match by FastFP is always
//! to be confirmed.

use crate::constants::GEAR;

/// FastFP of a chunk.
pub(super) fn fast_fp(chunk: &[u8]) -> u32 {
    let (eights, rest) = chunk.as_chunks::<8>();
    let add = |sum: u32, byte: &u8| sum.wrapping_add(number(*byte));
    // Two sums: nothing waits for long.
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

/// The hash behind the last byte.
fn last_hash(chunk: &[u8]) -> u32 {
    hash(&chunk[chunk.len().saturating_sub(u32::BITS as usize)..])
}

fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash, byte| (hash << 1).wrapping_add(number(*byte)))
}

fn number(byte: u8) -> u32 {
    GEAR[usize::from(byte)] as u32
}

/// The `L` that the paper evaluates.
const STRIDE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_those_before_the_minimum_too() {
        let chunk: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        for changed in 0..chunk.len() {
            let mut other = chunk.clone();
            other[changed] ^= 1;
            assert_ne!(fast_fp(&other), fast_fp(&chunk), "{changed}");
            assert_ne!(fast_fp_stride(&other), fast_fp_stride(&chunk), "{changed}");
        }
    }

    /// A fact of the definition, and why a match is always to be confirmed.
    #[test]
    fn fastfp_does_not_see_the_order_of_far_bytes() {
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
