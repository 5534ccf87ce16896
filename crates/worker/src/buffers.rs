//! Buffers for bytes that are read from files.

use std::sync::Mutex;

use crate::lock::lock;

/// Buffers that are reused for every segment. The pool of threads bounds the number of buffers in use, and so the
/// number that is kept.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Calls `with` with a buffer of `len` bytes of arbitrary content. The buffer begins at a page boundary: the
    /// kernel copies a third faster if source and target have the same offset in their pages than if the target lies
    /// a little ahead.
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

/// Bytes of a memory page on most machines.
const PAGE_BYTES: usize = 4096;
