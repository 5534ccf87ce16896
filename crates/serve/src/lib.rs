//! Volumes over one port: a server, and the client that a command dials it with.
//!
//! A [`server`] has directories as *volumes* and serves them in two ways: sessions of the protocol over a WebSocket,
//! for programs and browsers, and plain HTTP for everything else. Nothing is served without a [`token`]. A WebSocket
//! carries several sessions as [channels](channel); what is said about them goes over
//! [channel 0](deltic_carrier::control). Messages and channels are computed by [`deltic_carrier`], which has no IO.

pub mod age;
pub mod channel;
pub mod client;

mod pass;
pub mod private;
pub mod server;
pub mod token;
pub mod trust;
mod upgrade;

pub use deltic_carrier::update;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` protects. Each lock here covers one simple change, so a panic elsewhere leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
