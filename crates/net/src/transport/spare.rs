//! Buffers that readings and batches are put in, and put in again: all bytes of a run pass through a few of them.
//! What is given back to the system comes back as pages that it has to clear.

use std::cell::RefCell;
use std::ops::Deref;

/// Buffers that are kept: about as many as are between the ends of a pipe.
const KEPT: usize = 4;
/// Longest buffer that is kept, in bytes: of a batch whose last frame is a usual fill.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// All tasks of a process share one thread.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with room if one is kept.
pub(crate) fn buffer() -> Vec<u8> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Keeps a buffer whose content is of no use any more.
pub(crate) fn keep(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > KEPT_BYTES {
        return;
    }
    buffer.clear();
    // A thread that ends keeps nothing.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(buffer);
        }
    });
}

/// Bytes in a buffer that is kept when they are of no use any more.
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
