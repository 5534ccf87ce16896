//! Chunks of one length, like rsync's blocks: cheap, but an insertion shifts all later boundaries.

use super::{BadSizes, Chunker, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

/// A chunk length in bytes; the last chunk of a file may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedLen(u32);

impl FixedLen {
    /// Checks a length in bytes.
    ///
    /// # Errors
    /// [`BadSizes::Range`] outside of [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub const fn new(len: u32) -> Result<Self, BadSizes> {
        if len < MIN_CHUNK_BYTES || MAX_CHUNK_BYTES < len {
            Err(BadSizes::Range)
        } else {
            Ok(Self(len))
        }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Cuts chunks of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedChunker {
    len: usize,
}

impl FixedChunker {
    /// Creates a chunker for chunks of `len` bytes.
    pub(super) const fn new(len: FixedLen) -> Self {
        Self { len: len.0 as usize }
    }
}

impl Chunker for FixedChunker {
    fn max_len(&self) -> usize {
        self.len
    }

    fn cut(&self, data: &[u8]) -> usize {
        data.len().min(self.len)
    }
}
