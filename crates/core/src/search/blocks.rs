//! Block sums of the old version, as in rsync, sent by the receiver in the signature conversation
//! (docs/papers.md).

use crate::chunk::{AtEnd, FixedLen};
use crate::span::Span;
use crate::strong::{StrongKind, SumKey};
use crate::weak::RollingKind;

/// Block length and kinds of sums, agreed by both ends.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpec {
    /// Length of each block but the last.
    pub len: FixedLen,
    /// The weak sum, which suggests a match.
    pub weak: RollingKind,
    /// The strong sum, which confirms the match.
    pub strong: StrongKind,
    /// The key of the strong sums, if any.
    pub key: Option<SumKey>,
}

/// Weak and strong sums of all blocks of the old version, in order. Only the last block may be shorter than the
/// others.
#[derive(Clone, Debug)]
pub struct BlockSums {
    spec: BlockSpec,
    weak: Vec<u32>,
    /// The strong sums, concatenated.
    strong: Vec<u8>,
    /// Length of the short last block in bytes, or zero.
    short_len: u32,
}

/// Reason why a block cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    /// The block is empty, or longer than the block length.
    #[error("block of {0} bytes is empty or longer than the block length")]
    Len(u32),
    /// The previous block is short, so no block may follow.
    #[error("a block follows the short last block")]
    BehindLast,
    /// The strong sum has the wrong length for its kind.
    #[error("strong sum of {0} bytes has the wrong length for its kind")]
    StrongLen(usize),
    /// The number of blocks has reached its limit.
    #[error("too many blocks")]
    TooMany,
}

impl BlockSums {
    /// The block sums of an empty old version.
    #[must_use]
    pub const fn new(spec: BlockSpec) -> Self {
        Self { spec, weak: Vec::new(), strong: Vec::new(), short_len: 0 }
    }

    /// Sums the whole blocks at the front of `old`, the next bytes of the old version. Returns the number of
    /// bytes summed; the next call begins there, as with [`cut_all`](crate::chunk::cut_all).
    ///
    /// # Errors
    /// [`BadBlock`] for bytes after the end, or for too many blocks.
    pub fn sum(&mut self, old: &[u8], at_end: AtEnd) -> Result<usize, BadBlock> {
        let BlockSpec { len, weak, strong, key } = self.spec;
        let mut summed = 0;
        for block in old.chunks(len.get() as usize) {
            if block.len() < len.get() as usize && at_end == AtEnd::No {
                break;
            }
            let strong = strong.sum_of(key.as_ref(), block);
            self.push(block.len() as u32, weak.weak().of(block), strong.as_bytes())?;
            summed += block.len();
        }
        Ok(summed)
    }

    /// Appends the sums of the next block, of `len` bytes, as received from the other end or a storage layer.
    ///
    /// # Errors
    /// [`BadBlock`]. An error leaves the sums unchanged.
    pub fn push(&mut self, len: u32, weak: u32, strong: &[u8]) -> Result<(), BadBlock> {
        if len == 0 || len > self.spec.len.get() {
            return Err(BadBlock::Len(len));
        }
        if self.short_len > 0 {
            return Err(BadBlock::BehindLast);
        }
        if strong.len() != self.spec.strong.bytes() {
            return Err(BadBlock::StrongLen(strong.len()));
        }
        if self.weak.len() >= MAX_BLOCKS {
            return Err(BadBlock::TooMany);
        }
        self.weak.push(weak);
        self.strong.extend_from_slice(strong);
        self.short_len = if len < self.spec.len.get() { len } else { 0 };
        Ok(())
    }

    /// Sets the key of the strong sums. The collector of received sums need not know the key.
    #[must_use]
    pub const fn with_key(mut self, key: Option<SumKey>) -> Self {
        self.spec.key = key;
        self
    }

    /// Block length and kinds of sums.
    #[must_use]
    pub const fn spec(&self) -> &BlockSpec {
        &self.spec
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.weak.len() as u32
    }

    /// Length of the old version in bytes.
    #[must_use]
    pub fn old_len(&self) -> u64 {
        u64::from(self.full_count()) * u64::from(self.spec.len.get()) + u64::from(self.short_len)
    }

    /// The byte range of block `number`, counted from 0.
    ///
    /// # Panics
    /// If the block does not exist.
    #[must_use]
    pub fn span(&self, number: u32) -> Span {
        assert!(number < self.count(), "block {number} of {}", self.count());
        let len = if number < self.full_count() { self.spec.len.get() } else { self.short_len };
        Span::new(u64::from(number) * u64::from(self.spec.len.get()), len)
    }

    /// The weak sum of block `number`.
    ///
    /// # Panics
    /// If the block does not exist.
    #[must_use]
    pub fn weak(&self, number: u32) -> u32 {
        self.weak[number as usize]
    }

    /// The strong sum of block `number`.
    ///
    /// # Panics
    /// If the block does not exist.
    #[must_use]
    pub fn strong(&self, number: u32) -> &[u8] {
        let bytes = self.spec.strong.bytes();
        &self.strong[number as usize * bytes..][..bytes]
    }

    /// Number of blocks of the full length.
    pub(super) fn full_count(&self) -> u32 {
        self.count() - u32::from(self.short_len > 0)
    }

    /// The number of the short last block, if any.
    pub(super) fn short_block(&self) -> Option<u32> {
        (self.short_len > 0).then(|| self.count() - 1)
    }
}

/// Block numbers and the number of blocks fit in 32 bits.
const MAX_BLOCKS: usize = u32::MAX as usize >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_blocks_are_refused() {
        let len = FixedLen::new(512).unwrap();
        let spec = BlockSpec { len, weak: RollingKind::Adler, strong: StrongKind::Md5, key: None };
        let mut sums = BlockSums::new(spec);
        assert_eq!(sums.push(0, 1, &[1; 16]), Err(BadBlock::Len(0)));
        assert_eq!(sums.push(513, 1, &[1; 16]), Err(BadBlock::Len(513)));
        assert_eq!(sums.push(512, 1, &[1; 15]), Err(BadBlock::StrongLen(15)));
        assert_eq!(sums.push(512, 1, &[1; 16]), Ok(()));
        assert_eq!(sums.push(7, 2, &[2; 16]), Ok(()));
        assert_eq!(sums.push(7, 3, &[3; 16]), Err(BadBlock::BehindLast));
        assert_eq!((sums.count(), sums.old_len()), (2, 519));
        assert_eq!((sums.span(0), sums.span(1)), (Span::new(0, 512), Span::new(512, 7)));
        assert_eq!((sums.weak(1), sums.strong(1)), (2, &[2; 16][..]));
    }
}
