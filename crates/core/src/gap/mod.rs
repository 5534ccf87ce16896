//! HEAD
mod delta;
mod search;
mod sum;
mod sums;

pub use delta::{BadDelta, GapDelta, apply};
pub use sums::GapSums;

use crate::codec::CodecError;

/// Longest gap, old or new, in bytes.
pub const MAX_GAP_BYTES: usize = 1 << 20;
/// Bytes of a block's sum.
pub const SUM_BYTES: usize = 3;

/// A length in bytes that every block of an old gap but the last may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockLen(u32);

impl BlockLen {
    /// Shortest block, in bytes, and what all are multiples of.
    pub const MIN: u32 = 128;
    /// Longest block, in bytes.
    pub const MAX: u32 = 4096;

    /// Checks a length in bytes: from [`BlockLen::MIN`] to [`BlockLen::MAX`], whole strips of the sum.
    #[must_use]
    pub const fn new(len: u32) -> Option<Self> {
        let fits = Self::MIN <= len && len <= Self::MAX && len.is_multiple_of(sum::STRIP as u32);
        if fits { Some(Self(len)) } else { None }
    }

    /// The length at which sums and literals are shortest together, for an old gap of so many bytes with two edits.
    #[must_use]
    pub const fn for_gap(old_len: u64) -> Self {
        let best = (old_len.saturating_mul(SUM_BYTES as u64) / EDITS).isqrt();
        let strip = sum::STRIP as u64;
        let rounded = (best + strip / 2) / strip * strip;
        let len = if rounded > Self::MAX as u64 { Self::MAX } else { rounded as u32 };
        Self(if len < Self::MIN { Self::MIN } else { len })
    }

    /// The length in bytes.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Edits that a gap is expected to have.
const EDITS: u64 = 2;

/// A number of bytes, if a gap may have as many.
fn bounded(len: u64) -> Result<usize, CodecError> {
    let len = usize::try_from(len).map_err(|_| CodecError::OutOfRange)?;
    if len > MAX_GAP_BYTES { Err(CodecError::OutOfRange) } else { Ok(len) }
}
