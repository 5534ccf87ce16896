//! A run of bytes in one version of a file.

/// A half-open run of bytes at an absolute offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte, counted from the start of the file.
    pub start: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// Returns the span of `len` bytes that begins at `start`.
    #[must_use]
    pub const fn new(start: u64, len: u32) -> Self {
        Self { start, len }
    }

    /// The offset just past the last byte; saturates at `u64::MAX`, which no file reaches.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.len as u64)
    }
}
