//! Reused buffers for read bytes and for batches. All bytes of a run pass through a few buffers: buffers from the
//! system would be pages that the kernel must clear.

use std::cell::RefCell;
use std::ops::Deref;

/// Most buffers that are kept: about as many as a pipe has in use between its ends.
const KEPT: usize = 4;
/// Longest buffer that is kept, in bytes: enough for a batch with a usual frame of literals at its end.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// The spare buffers. The tasks of a process all run on one thread.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer, with capacity if one was kept.
pub(crate) fn buffer() -> Vec<u8> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Keeps a buffer for reuse, unless the buffer is too long.
pub(crate) fn keep(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > KEPT_BYTES {
        return;
    }
    buffer.clear();
    // A thread that is ending cannot keep a buffer.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(buffer);
        }
    });
}

/// Bytes in a buffer that is kept for reuse when this value is dropped.
pub(super) struct Used(pub(super) Vec<u8>);

impl Deref for Used {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_empty_and_bounded() {
        assert_eq!(buffer().capacity(), 0);
        drop(Used(vec![7; 100]));
        let again = buffer();
        assert!(again.is_empty() && again.capacity() >= 100);
        keep(Vec::with_capacity(KEPT_BYTES + 1));
        assert_eq!(buffer().capacity(), 0);
        (0..=KEPT).for_each(|_| keep(Vec::with_capacity(1)));
        assert!((0..KEPT).all(|_| buffer().capacity() > 0));
        assert_eq!(buffer().capacity(), 0);
    }
}
