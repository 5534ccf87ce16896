//! Locks that a panic of another thread does not spoil: the session ends by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, whatever became of the thread that had it before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
