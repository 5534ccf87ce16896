//! Short sums of the blocks of an old gap, which the receiver sends to describe the gap.

use super::sum::SumPolynomial;
use super::{BlockLen, MAX_GAP_BYTES, SUM_BYTES};
use crate::code::mask;
use crate::codec::{CodecError, Put, Reader};

/// The sums of all blocks of an old gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapSums {
    pub(super) old_len: usize,
    pub(super) block_len: BlockLen,
    /// True if the address fields of the old gap count as zeros.
    pub(super) is_masked: bool,
    /// Sums of the blocks, in order. The last block may be shorter.
    pub(super) sums: Vec<u32>,
}

impl GapSums {
    /// The block sums of `old`. `seed` is the seed of the session, known to both ends.
    ///
    /// # Panics
    /// If `old` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn sums_of(old: &[u8], block_len: BlockLen, seed: u64) -> Self {
        assert!(old.len() <= MAX_GAP_BYTES, "a gap has at most MAX_GAP_BYTES");
        let polynomial = SumPolynomial::new(seed, block_len);
        let blocks = old.chunks(block_len.get() as usize);
        let sums = blocks.map(|block| polynomial.sum(block)).collect();
        Self { old_len: old.len(), block_len, is_masked: false, sums }
    }

    /// The block sums of `old`, with zeros in the address fields of x86-64 code.
    ///
    /// # Panics
    /// If `old` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn sums_of_code(old: &[u8], block_len: BlockLen, seed: u64) -> Self {
        let mut masked = old.to_vec();
        mask(&mut masked);
        Self { is_masked: true, ..Self::sums_of(&masked, block_len, seed) }
    }

    /// True if the address fields of the old gap were zero when the sums were computed.
    #[must_use]
    pub const fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// Length of the old gap in bytes.
    #[must_use]
    pub const fn old_len(&self) -> usize {
        self.old_len
    }

    /// Appends the lengths, then [`BlockLen::sum_bytes`] bytes for each block. The block length is odd if the sums are
    /// masked.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.old_len as u64);
        out.put_varint(u64::from(self.block_len.get() | u32::from(self.is_masked)));
        let sum_bytes = self.block_len.sum_bytes();
        out.reserve(self.sums.len() * sum_bytes);
        for sum in &self.sums {
            out.put_bytes(&sum.to_le_bytes()[SUM_BYTES - sum_bytes..SUM_BYTES]);
        }
    }

    /// Reads the output of [`GapSums::encode`].
    ///
    /// # Errors
    /// - [`CodecError::OutOfRange`]: the gap is longer than [`MAX_GAP_BYTES`], or the block length is not a
    ///   [`BlockLen`].
    /// - [`CodecError::Truncated`]: sums are missing. No memory is allocated for missing sums.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let old_len = super::checked_len(reader.varint()?)?;
        let len = reader.varint_u32()?;
        let is_masked = len % 2 == 1;
        let block_len = BlockLen::new(len & !1).ok_or(CodecError::OutOfRange)?;
        let sum_bytes = block_len.sum_bytes();
        let bytes = reader.bytes(old_len.div_ceil(block_len.get() as usize) * sum_bytes)?;
        let sums = bytes.chunks_exact(sum_bytes).map(from_highest_bytes).collect();
        Ok(Self { old_len, block_len, is_masked, sums })
    }

    /// Length of all sums, as sent, in bytes.
    #[must_use]
    pub const fn sums_bytes(&self) -> u64 {
        self.block_len.sums_bytes(self.old_len as u64)
    }

    /// Length of each block but the last, in bytes.
    pub(super) const fn block_len(&self) -> usize {
        self.block_len.get() as usize
    }

    /// Length of block number `block` in bytes. The block must exist.
    pub(super) fn len_of(&self, block: usize) -> usize {
        self.block_len().min(self.old_len - block * self.block_len())
    }

    /// Start offset of block number `block`; for the number of blocks, the end of the gap.
    pub(super) fn start_of(&self, block: usize) -> usize {
        (block * self.block_len()).min(self.old_len)
    }
}

/// The sum with these highest bytes; the other bytes are zero.
fn from_highest_bytes(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    sum << (8 * (SUM_BYTES - bytes.len()))
}
