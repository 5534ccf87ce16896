//! Deltas of gaps: small changes between two matching neighbours (docs/decisions/0018).
//!
//! A *gap in new* is a run of new chunks that matched nothing, between chunks that matched. The bytes of the
//! old version between the same neighbours are the *gap in old*. The receiver has the old gap and sends short
//! block sums; the sender rolls over the new gap and answers with copies and literals:
//!
//! ```text
//! receiver   GapSums::of(old)  ── sums ──►  GapDelta::of(new, sums)   sender
//!            apply(old, delta) ◄── delta ──
//! ```
//!
//! This is rsync's algorithm inside a gap, where the algorithm works best: blocks are short because the gap is
//! short, and both ends of the gap are aligned. Sums may collide, so a match proves nothing. The chunk
//! fingerprints prove the result: a false match costs chunks sent as literals, never a wrong file (law 9). Both
//! ends know the seed of the sums. The seed is drawn for each session, so nobody can prepare collisions.
//!
//! # Bytes on the wire
//!
//! With e edits in a gap of G bytes, sums and literals of old bytes take `3 G / n + e n` bytes together, for
//! blocks of n bytes. The minimum is at `n = sqrt(3 G / e)`, the length that [`BlockLen::for_gap`] returns. The
//! table shows the total cost of inserting 256 bytes, sums and delta. An overwrite costs as much, and a
//! deletion costs 256 bytes less:
//!
//! | gap | block | sums | delta | both | with four inserts |
//! |---|---|---|---|---|---|
//! | 8 KiB | 128 | 196 | 396 | 592 | 1748 |
//! | 64 KiB | 320 | 620 | 589 | 1209 | 2974 |
//! | 256 KiB | 640 | 1235 | 909 | 2144 | 4831 |
//!
//! # Three bytes for a sum
//!
//! Windows of the new gap are compared with sums of the old gap in two ways. At an expected block, a window is
//! compared with one sum. An edit makes about a dozen such comparisons fail, so with 24 bits one edit in a
//! million is missed. Rolled windows are compared with all sums, 2^27 pairs in 256 KiB. There two consecutive
//! blocks must match, and 48 bits leave one false match in two million gaps. So a GiB with 1 % of scattered
//! edits, forty thousand of them, sends one chunk again in one of thirty syncs. Four bytes would make that
//! rarer, but sums and literals of old bytes 15 % longer. Two bytes would make them 18 % shorter, but about
//! eight chunks of each such sync would wait for another round trip. Sums are sent in the direction opposite to
//! literals.
//!
//! # Two bytes where blocks are shortest
//!
//! In a recompiled program the addresses have moved: every few bytes differ, and most blocks of 64 bytes are
//! changed. Blocks of 32 bytes save more than their sums cost if these sums have two bytes. The table is for a
//! release pair with 8 MB of gaps; sizes in kB are bytes sent, and a false match costs its chunk:
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
//! A zstd prefix of the copied bytes around the literals would save 1.5 % to 4 % more.
//!
//! # Speed
//!
//! Speed of the sum (`sum.rs`) compared with others, in GB/s from the cache and in ns for each rolled byte. In
//! the last column the figure of Deltic includes table look-ups, the others do not. Measured by
//! `examples/gap.rs` on an EPYC with AVX-512, one thread; all sums are portable Rust except the CRC of the
//! `crc32c` crate:
//!
//! | sum | blocks of 128 | 320 | 1024 | rolled |
//! |---|---|---|---|---|
//! | this polynomial | 14 | 17 | 20 | 1.1 to 1.5 |
//! | CRC-32C | 11 | 11 | 17 | 2.4 |
//! | rsync's two sums | 4 | 4 | 4 | 1.1 |
//!
//! A rolling CRC needs two dependent table look-ups. The sums of rsync could use vectors, but they add up
//! bytes: for short blocks of text they have less entropy than their length.
//!
//! Gaps of 64 KiB are summed at 17 GB/s. Deltas are found at 15 GB/s for one edit or for overwrites only, and at
//! 8 GB/s for four insertions. Unrelated gaps take 1.2 to 2.6 ns per byte. [`apply`] only copies. The worst case
//! found is 10 ns per byte: unrelated gaps of maximum length with the shortest blocks. An honest receiver does
//! not choose this block length for such a gap.

mod delta;
mod deltas;
mod search;
mod sum;
mod sums;

pub use delta::{BadDelta, GapDelta, apply};
pub use deltas::{GapDeltaReader, GapDeltaWriter, ReadDelta};
pub use sums::GapSums;

use crate::codec::CodecError;

/// Maximum length of a gap, old or new, in bytes. A longer gap is sent as literals, or only its first part is a
/// gap.
pub const MAX_GAP_BYTES: usize = 1 << 20;
/// Length of a block sum in bytes, except for the shortest blocks.
pub const SUM_BYTES: usize = 3;
/// Length of the sum of a block of [`BlockLen::MIN`] bytes.
pub const SHORT_SUM_BYTES: usize = 2;

/// Length of the blocks of an old gap in bytes; the last block may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockLen(u32);

impl BlockLen {
    /// Minimum block length in bytes: half a strip of the sum. All other lengths are whole strips.
    pub const MIN: u32 = 32;
    /// Maximum block length in bytes.
    pub const MAX: u32 = 4096;

    /// Returns `None` unless `len` is [`BlockLen::MIN`], or whole strips of the sum up to [`BlockLen::MAX`].
    #[must_use]
    pub const fn new(len: u32) -> Option<Self> {
        let strips = 0 < len && len <= Self::MAX && len.is_multiple_of(sum::STRIP as u32);
        if strips || len == Self::MIN { Some(Self(len)) } else { None }
    }

    /// The block length that minimises sums plus literals, for an old gap of `old_len` bytes with `edits`
    /// edits.
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

    /// Length of the sum of one block in bytes, as sent.
    #[must_use]
    pub const fn sum_bytes(self) -> usize {
        if self.0 == Self::MIN { SHORT_SUM_BYTES } else { SUM_BYTES }
    }

    /// Length of the sums of all blocks of an old gap of `old_len` bytes, as sent, in bytes.
    #[must_use]
    pub const fn sums_bytes(self, old_len: u64) -> u64 {
        old_len.div_ceil(self.0 as u64) * self.sum_bytes() as u64
    }
}

/// `len` as a `usize`, or an error if it exceeds [`MAX_GAP_BYTES`].
fn checked_len(len: u64) -> Result<usize, CodecError> {
    let len = usize::try_from(len).map_err(|_| CodecError::OutOfRange)?;
    if len > MAX_GAP_BYTES { Err(CodecError::OutOfRange) } else { Ok(len) }
}
