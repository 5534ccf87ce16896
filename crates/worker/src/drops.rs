//! Old versions that take long to free.
//!
//! Freeing the pages of 1 GiB takes the kernel 80 ms, and the run need not wait for that. But on a nearly full disk
//! the next file may need the room. So work that finds no room waits until all pending drops have ended, and is tried
//! again if any ended meanwhile.

use std::fmt;

use deltic_store::StoreError;

/// Drops values that are slow to free.
pub trait DropLater: fmt::Debug + Send + Sync {
    /// Drops `what`, now or later.
    fn let_go(&self, what: Box<dyn Send>);

    /// Returns the number of drops that have ended.
    fn ended(&self) -> u64;

    /// Returns the number of drops that have ended, once no drop is pending.
    fn settle(&self) -> u64;
}

impl dyn DropLater {
    /// Does `work`. Repeats `work` if it found no room and drops ended meanwhile.
    pub fn with_room<T>(
        &self,
        mut work: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let before = self.ended();
            match work() {
                Err(error) if error.wants_room() && self.settle() > before => {}
                done => return done,
            }
        }
    }
}

/// Drops each value at once, so that no drop is ever pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropNow;

impl DropLater for DropNow {
    fn let_go(&self, what: Box<dyn Send>) {
        drop(what);
    }

    fn ended(&self) -> u64 {
        0
    }

    fn settle(&self) -> u64 {
        0
    }
}
