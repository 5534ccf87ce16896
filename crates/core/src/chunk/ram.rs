//! RAM, Rapid Asymmetric Maximum chunking (VectorCDC §4.3): comparisons instead of a hash.
//!
//! ```text
//! top = the largest byte of data[..window]                (Extreme Byte Search)
//! cut = the least i > window with data[i - 1] >= top,     (Range Scan)
//!       else max, or the end of the file
//! ```
//!
//! Choices where the paper is silent:
//!
//! 1. The byte that reaches `top` is the last of its chunk.
//! 2. `window = avg - 256`, and at least `min - 1`. In random bytes `top` is 255, which occurs once in 256
//!    bytes, so the average chunk has `avg` bytes. No chunk is shorter than `min`.
//! 3. A chunk ends at `max`, whatever its bytes.
//!
//! The search for `top` ends at a byte of 255, because no byte is larger. So most of a window of random or
//! compressed bytes is not read.
//!
//! A cut depends on the whole chunk before it. After an edit, boundaries realign only by chance, which can take
//! long in data with few byte values. A Gear chunker realigns sooner.

use super::{Chunker, Sizes};
use crate::simd::search::{Extreme, WantedBytes};
use crate::simd::{Isa, Kernel, Simd};

/// Cuts at the first byte that is at least the largest byte of the window at the start of the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct RamChunker {
    window: usize,
    max: usize,
    isa: Isa,
}

impl RamChunker {
    /// Creates a chunker for chunks of `sizes` with the instructions of `isa`.
    pub(super) fn new(sizes: Sizes, isa: Isa) -> Self {
        Self { window: sizes.window() as usize, max: sizes.max() as usize, isa }
    }
}

impl Chunker for RamChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        let Some((window, after)) = data.split_at_checked(self.window) else { return data.len() };
        let reached = self.isa.run(RamCut { window, after });
        reached.map_or(data.len(), |n| self.window + n + 1)
    }
}

struct RamCut<'a> {
    window: &'a [u8],
    after: &'a [u8],
}

impl Kernel for RamCut<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Option<usize> {
        let top = Extreme::Max.extreme_byte(simd, self.window);
        WantedBytes::AtLeast(top).find(simd, self.after)
    }
}
