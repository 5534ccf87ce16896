//! LastFP: the hash that ended the chunk (NetSync §4.2), only to compare with.
//!
//! ```text
//! hash(n) = sum over k in 0..64 of  GEAR[data[n - 1 - k]] << k    (mod 2^64)
//! LastFP  = hash(n) / 2^32, rounded down
//! ```
//!
//! LastFP costs nothing beside chunking and covers 64 bytes of the chunk (in the paper 32, for its hash has 32 bits).
//! The paper's LastFP is the value that satisfied the cut's criterion. Our criterion judges the highest bits of the
//! hash, so LastFP is these. Where a gear cut, they begin with zeros, and the sum is as uneven as the paper found it
//! (§5.2). Chunks that a cold FastCDC ends within 64 bytes of the minimum were judged by a hash of fewer bytes;
//! LastFP depends on the chunk's bytes alone, so it takes all 64 there too.

use crate::constants::GEAR;

/// LastFP of a chunk.
pub(super) fn last_fp(chunk: &[u8]) -> u32 {
    let window = &chunk[chunk.len().saturating_sub(u64::BITS as usize)..];
    let enter = |hash: u64, byte: &u8| (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
    (window.iter().fold(0, enter) >> 32) as u32
}
