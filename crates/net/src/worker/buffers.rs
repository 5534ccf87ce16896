//! Buffers for bytes that are read.

use std::sync::Mutex;

use crate::lock::lock;

/// Buffers that outlive the work that used them, so that segments are not allocated anew each time. As many are kept
/// as were ever in use at once, which the pool bounds.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Calls `with` a buffer of `len` bytes, whose content is arbitrary. It begins where a page does: the kernel copies
    /// a third faster where both sides lie the same in their pages than where it writes a little ahead of what it
    /// reads.
    pub(super) fn with<T>(&self, len: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut buffer = lock(&self.0).pop().unwrap_or_default();
        if buffer.len() < len + PAGE_BYTES {
            buffer.resize(len + PAGE_BYTES, 0);
        }
        let start = buffer.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        let result = with(&mut buffer[start..start + len]);
        lock(&self.0).push(buffer);
        result
    }
}

/// A page of memory on most machines.
const PAGE_BYTES: usize = 4096;
