//! Streams that are of use as a whole.

use std::fmt;
use std::time::{Duration, Instant};

/// A stream that arrives, and who waits for all of it.
pub(super) struct Whole {
    bytes: Vec<u8>,
    /// Most bytes that are waited for.
    most: usize,
    begun: Instant,
    then: Box<dyn FnOnce(Vec<u8>) + Send>,
}

impl Whole {
    pub(super) fn new(most: usize, then: impl FnOnce(Vec<u8>) + Send + 'static) -> Self {
        Self { bytes: Vec::new(), most, begun: Instant::now(), then: Box::new(then) }
    }

    /// Takes what arrives, which is nothing at the end; true if nothing more is waited for.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        bytes.is_empty() || self.bytes.len() > self.most
    }

    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Hands out what has arrived.
    pub(super) fn end(self) {
        (self.then)(self.bytes);
    }
}

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Whole({} of {} bytes)", self.bytes.len(), self.most)
    }
}
