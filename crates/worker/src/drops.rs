//! Old versions that take long to free.
//!
//! Freeing the pages of 1 GiB takes the kernel 80 ms, and the run need not wait for that. But on a nearly full disk the
//! next file may need the room. So work that finds no room waits until all pending drops have ended. If any drop ended
//! meanwhile, the work is tried again.

use std::fmt;

use deltic_store::StoreError;

/// Drops values that are slow to free.
pub trait DropLater: fmt::Debug + Send + Sync {
    /// Drops `what`, at once or on another thread.
    fn drop_later(&self, what: Box<dyn Send>);

    /// Returns the number of drops that have ended so far.
    fn ended_count(&self) -> u64;

    /// Waits until no drop is pending. Returns the number of drops that have ended so far.
    fn wait_for_drops(&self) -> u64;
}

impl dyn DropLater {
    /// Does `work`. If `work` finds no room, waits for pending drops, and repeats `work` if any drop ended.
    pub fn with_room<T>(
        &self,
        mut work: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let before = self.ended_count();
            match work() {
                Err(error) if error.wants_room() && self.wait_for_drops() > before => {}
                done => return done,
            }
        }
    }
}

/// Drops each value at once, so that no drop is ever pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropNow;

impl DropLater for DropNow {
    fn drop_later(&self, what: Box<dyn Send>) {
        drop(what);
    }

    fn ended_count(&self) -> u64 {
        0
    }

    fn wait_for_drops(&self) -> u64 {
        0
    }
}
