//! Facts from the kernel and the machine: kinds of file systems, errors, the clock, the boot, limits of memory.

pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod errno;
pub(crate) mod read_write;
pub(crate) mod system;
pub(crate) mod tight;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even after a panic of another thread. Each lock in this crate covers one simple change, so no state
/// is half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
