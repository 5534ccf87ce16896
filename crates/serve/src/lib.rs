//! A server for volumes over one port, and its client.
//!
//! A [`server`] serves directories as *volumes* in two ways: sessions of the protocol over a WebSocket, for programs
//! and browsers, and plain HTTP for everything else. All access needs a [`token`]. A WebSocket carries several
//! sessions as [channels](channel), and control messages on [channel 0](deltic_carrier::control). Messages and
//! channels are encoded by [`deltic_carrier`], which has no IO.

pub mod age;
pub mod channel;
pub mod client;

mod pass;
mod percent;
pub mod private;
pub mod server;
pub mod token;
pub mod trust;
mod upgrade;

pub use deltic_carrier::update;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if poisoned. Each lock here covers one simple change, so a panic elsewhere leaves nothing half
/// done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
