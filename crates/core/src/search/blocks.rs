//! The block sums of old: what the receiver tells in the signature conversation (docs/papers.md).

use crate::chunk::{AtEnd, FixedLen};
use crate::span::Span;
use crate::strong::{Strong, SumKey};
use crate::weak::Rolling;

/// Length and sums of blocks: agreed between both ends.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpec {
    /// The length of each block but the last.
    pub len: FixedLen,
    /// Weak sum, which suggests a match.
    pub weak: Rolling,
    /// Strong sum, which confirms it.
    pub strong: Strong,
    /// The key of the strong sums, if they have one.
    pub key: Option<SumKey>,
}

/// The sums of all blocks of old, in order. Only the last block may be shorter than the others.
#[derive(Clone, Debug)]
pub struct BlockSums {
    spec: BlockSpec,
    weak: Vec<u32>,
    /// The sums' bytes, one behind the other.
    strong: Vec<u8>,
    /// Length of the block that is shorter than the others, in bytes. Zero if none is.
    short_len: u32,
}

/// Why a block cannot follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    /// An empty block, or one longer than blocks are.
    #[error("a block of {0} bytes")]
    Len(u32),
    /// The one before was shorter than the others, and so the last.
    #[error("a block behind the last one")]
    BehindLast,
    /// Its strong sum has not as many bytes as its kind.
    #[error("a strong sum of {0} bytes")]
    StrongLen(usize),
    /// There are as many as can be numbered.
    #[error("more blocks than can be numbered")]
    TooMany,
}

impl BlockSums {
    /// The sums of an empty old version.
    #[must_use]
    pub const fn new(spec: BlockSpec) -> Self {
        Self { spec, weak: Vec::new(), strong: Vec::new(), short_len: 0 }
    }

    /// Takes the sums of the next bytes of old, as far as they fill blocks. Returns how many bytes that are; the next
    /// call starts there, as with [`cut_all`](crate::chunk::cut_all).
    ///
    /// # Errors
    /// [`BadBlock`], for bytes behind the end and for more blocks than can be numbered.
    pub fn sum(&mut self, old: &[u8], at_end: AtEnd) -> Result<usize, BadBlock> {
        let BlockSpec { len, weak, strong, key } = self.spec;
        let mut summed = 0;
        for block in old.chunks(len.get() as usize) {
            if block.len() < len.get() as usize && at_end == AtEnd::No {
                break;
            }
            let strong = strong.of(key.as_ref(), block);
            self.push(block.len() as u32, weak.weak().of(block), strong.as_bytes())?;
            summed += block.len();
        }
        Ok(summed)
    }

    /// Takes the sums of the next block of old, of `len` bytes, as the other end or a storage layer knows them.
    ///
    /// # Errors
    /// [`BadBlock`]; nothing changes then.
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

    /// The same with `key` for the key of its strong sums: whoever collects sums need not know it.
    #[must_use]
    pub const fn keyed(mut self, key: Option<SumKey>) -> Self {
        self.spec.key = key;
        self
    }

    /// Length and sums of blocks.
    #[must_use]
    pub const fn spec(&self) -> &BlockSpec {
        &self.spec
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.weak.len() as u32
    }

    /// Length of old, in bytes.
    #[must_use]
    pub fn old_len(&self) -> u64 {
        u64::from(self.full()) * u64::from(self.spec.len.get()) + u64::from(self.short_len)
    }

    /// Place in old of block `number`, counted from 0.
    ///
    /// # Panics
    /// Where there is no such block.
    #[must_use]
    pub fn span(&self, number: u32) -> Span {
        assert!(number < self.count(), "block {number} of {}", self.count());
        let len = if number < self.full() { self.spec.len.get() } else { self.short_len };
        Span::new(u64::from(number) * u64::from(self.spec.len.get()), len)
    }

    /// The weak sum of block `number`.
    ///
    /// # Panics
    /// Where there is no such block.
    #[must_use]
    pub fn weak(&self, number: u32) -> u32 {
        self.weak[number as usize]
    }

    /// The bytes of the strong sum of block `number`.
    ///
    /// # Panics
    /// Where there is no such block.
    #[must_use]
    pub fn strong(&self, number: u32) -> &[u8] {
        let bytes = self.spec.strong.bytes();
        &self.strong[number as usize * bytes..][..bytes]
    }

    /// Number of blocks of the full length.
    pub(super) fn full(&self) -> u32 {
        self.count() - u32::from(self.short_len > 0)
    }

    /// The number of the block that has not, if there is one.
    pub(super) fn short(&self) -> Option<u32> {
        (self.short_len > 0).then(|| self.count() - 1)
    }
}

/// Numbers, and how many there are, fit 32 bits.
const MAX_BLOCKS: usize = u32::MAX as usize >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_that_can_be_are_taken() {
        let len = FixedLen::new(512).unwrap();
        let spec = BlockSpec { len, weak: Rolling::Adler, strong: Strong::Md5, key: None };
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
