//! LastFP: the hash that ended the chunk (NetSync §4.2), for comparison only.
//!
//! ```text
//! hash(n) = sum over k in 0..64 of  GEAR[data[n - 1 - k]] << k    (mod 2^64)
//! LastFP  = hash(n) / 2^32, rounded down
//! ```
//!
//! LastFP is free with chunking and covers the last 64 bytes of the chunk (32 in the paper, whose hash has 32
//! bits). LastFP of the paper is the value that satisfied the criterion of the cut. Our criterion compares the
//! highest bits of the hash, so LastFP is these bits. After a Gear cut they begin with zeros, and the
//! distribution is as uneven as in the paper (§5.2). FastCDC with a cold hash judges a boundary within 64 bytes
//! of the minimum by fewer bytes. LastFP depends on the chunk only, so it uses 64 bytes there too.

use crate::constants::GEAR;

/// LastFP of a chunk.
pub(super) fn last_fp(chunk: &[u8]) -> u32 {
    let window = &chunk[chunk.len().saturating_sub(u64::BITS as usize)..];
    let enter = |hash: u64, byte: &u8| (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
    (window.iter().fold(0, enter) >> 32) as u32
}
