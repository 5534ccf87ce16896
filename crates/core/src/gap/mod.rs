//! The fine level: what little changed between two neighbours that match (docs/decisions/0018).
//!
//! A *gap in new* is where chunks of new matched nothing, but the ones before and behind did. Between the same
//! neighbours lies a *gap in old*. The receiver has the old one and sends short sums of its blocks; the sender rolls
//! over the new one and answers with copies and literals:
//!
//! ```text
//! receiver   GapSums::of(old)  ── sums ──►  GapDelta::of(new, sums)   sender
//!            apply(old, delta) ◄── delta ──
//! ```
//!
//! This is rsync's algorithm inside of a gap, where it is at its best: blocks are short because the gap is, and both
//! its ends are aligned. Sums may collide, so nothing here proves anything: the chunks' fingerprints do, and a false
//! match costs chunks sent whole, never a wrong file (law 9). Both ends know the seed of the sums. It is drawn for
//! the session, so nobody can have looked for collisions before, and it costs nothing.
//!
//! # Bytes on the wire
//!
//! With e edits in a gap of G bytes, sums and what literals send of old together are `3 G / n + e n` bytes for blocks
//! of n: least at `n = sqrt(3 G / e)`, which is what [`BlockLen::for_gap`] takes. What one insert of 256 bytes costs
//! in all, sums and delta (an overwrite is as dear, a cut 256 cheaper):
//!
//! | gap | block | sums | delta | both | with four inserts |
//! |---|---|---|---|---|---|
//! | 8 KiB | 128 | 196 | 396 | 592 | 1748 |
//! | 64 KiB | 320 | 620 | 589 | 1209 | 2974 |
//! | 256 KiB | 640 | 1235 | 909 | 2144 | 4831 |
//!
//! # Three bytes for a sum
//!
//! Windows of new meet sums of old in two ways. Where blocks are due, each is compared with one sum: an edit makes
//! about a dozen of these comparisons fail, so with 24 bits one in a million edits is taken for a match. Rolled
//! windows are compared with all sums, 2^27 pairs in 256 KiB: there two blocks in a row must match, and 48 bits leave
//! one gap in two million. So a GiB with 1 % of scattered edits, forty thousand of them, sends a chunk again in one
//! of thirty syncs. Four bytes would make that rarer still, and sums and literals of old 15 % longer. Two bytes would
//! make them 18 % shorter, but some eight chunks of each such sync would wait for another round trip; and sums do not
//! travel where literals do.
//!
//! # Two bytes where blocks are shortest
//!
//! A program that was compiled again has addresses that moved: every few bytes differ, and of blocks of 64 bytes most
//! are spoilt. Blocks of 32 save more than their sums cost, if these have two bytes. Of a release pair (8 MB of gaps,
//! what travels in kB; a false match costs its chunk):
//!
//! | block, bits of a sum | sums | literals, zstd | false matches | all |
//! |---|---|---|---|---|
//! | 64, 24 | 380 | 2003 | 0 | 2405 |
//! | 64, 16 | 254 | 2003 | 6 | 2289 |
//! | 32, 24 | 760 | 1515 | 0 | 2315 |
//! | 32, 16 | 507 | 1515 | 7 | 2074 |
//! | 32, 14 | 443 | 1609 | 45 | 2165 |
//! | 24, 16 | 675 | 1360 | 14 | 2109 |
//! | 16, 16 | 1013 | 1158 | 40 | 2300 |
//!
//! Whatever has been copied near the literals, as a prefix for zstd, would bring 1.5 % to 4 % more.
//!
//! # Speed
//!
//! Speed of the sum (`sum.rs`) beside others, in GB/s from the cache and in ns for each byte rolled. Deltic's last
//! column has the look-ups, the others' do not (`examples/gap.rs`, on an EPYC with AVX-512, one thread; all are plain
//! Rust but the crate's CRC):
//!
//! | sum | blocks of 128 | 320 | 1024 | rolled |
//! |---|---|---|---|---|
//! | this polynomial | 14 | 17 | 20 | 1.1 to 1.5 |
//! | CRC-32C | 11 | 11 | 17 | 2.4 |
//! | rsync's two sums | 4 | 4 | 4 | 1.1 |
//!
//! A CRC rolls by two look-ups that wait for each other. rsync's sums could use vectors, but sum up bytes: of short
//! blocks of text they leave fewer bits than they take.
//!
//! Gaps of 64 KiB are summed at 17 GB/s. Their deltas are found at 15 GB/s where there is one edit, or overwrites
//! alone, at 8 GB/s with four inserts, and in 1.2 to 2.6 ns a byte with nothing in common; [`apply`] copies. The
//! worst found is 10 ns a byte: nothing in common in the longest gap, with the shortest blocks, which no honest
//! receiver takes for it.

mod delta;
mod search;
mod sum;
mod sums;

pub use delta::{BadDelta, GapDelta, apply};
pub use sums::GapSums;

use crate::codec::CodecError;

/// Longest gap, old or new, in bytes. Whoever has a longer one sends it whole, or its first part as a gap.
pub const MAX_GAP_BYTES: usize = 1 << 20;
/// Bytes of a block's sum, but for the shortest blocks.
pub const SUM_BYTES: usize = 3;
/// Bytes of the sum of a block of [`BlockLen::MIN`].
pub const SHORT_SUM_BYTES: usize = 2;

/// A length in bytes that every block of an old gap but the last may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockLen(u32);

impl BlockLen {
    /// Shortest block, in bytes: half a strip of the sum. All others are whole strips.
    pub const MIN: u32 = 32;
    /// Longest block, in bytes.
    pub const MAX: u32 = 4096;

    /// Checks a length in bytes: [`BlockLen::MIN`], or whole strips of the sum up to [`BlockLen::MAX`].
    #[must_use]
    pub const fn new(len: u32) -> Option<Self> {
        let strips = 0 < len && len <= Self::MAX && len.is_multiple_of(sum::STRIP as u32);
        if strips || len == Self::MIN { Some(Self(len)) } else { None }
    }

    /// The length at which sums and literals are shortest together, for an old gap of so many bytes with so many edits.
    #[must_use]
    pub const fn for_gap(old_len: u64, edits: u32) -> Self {
        let edits = if edits == 0 { 1 } else { edits as u64 };
        let best = (old_len.saturating_mul(SUM_BYTES as u64) / edits).isqrt();
        let strip = sum::STRIP as u64;
        let rounded = (best + strip / 2) / strip * strip;
        match rounded {
            _ if best < (Self::MIN as u64 + strip) / 2 => Self(Self::MIN),
            _ if rounded > Self::MAX as u64 => Self(Self::MAX),
            _ => Self(rounded as u32),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Bytes of such a block's sum that travel.
    #[must_use]
    pub const fn sum_bytes(self) -> usize {
        if self.0 == Self::MIN { SHORT_SUM_BYTES } else { SUM_BYTES }
    }
}

/// A number of bytes, if a gap may have as many.
fn bounded(len: u64) -> Result<usize, CodecError> {
    let len = usize::try_from(len).map_err(|_| CodecError::OutOfRange)?;
    if len > MAX_GAP_BYTES { Err(CodecError::OutOfRange) } else { Ok(len) }
}
