//! The shell around the machines: transports, threads, clocks.

pub mod error;
pub mod plan;

use std::time::Duration;

pub use error::SyncError;
pub use plan::{Plan, Traffic};

use deltic_protocol::report::{Notice, Totals};

/// How a run ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// What was done.
    pub totals: Totals,
    /// What it cost on the wire.
    pub traffic: Traffic,
    /// Wall time from the first connection to the last flush.
    pub elapsed: Duration,
}

/// Runs one sync to its end, telling `watch` what happens (from another thread; it must return at once).
///
/// # Errors
/// [`SyncError`] where the run as a whole could not start or go on.
pub fn run(_plan: &Plan, _watch: &mut (dyn FnMut(Notice) + Send)) -> Result<Outcome, SyncError> {
    Err(SyncError::Usage("not wired yet".into()))
}

/// Serves one session on this process's standard input and output: the far end of `deltic sync HOST:…`.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub fn agent() -> Result<(), SyncError> {
    Err(SyncError::Usage("not wired yet".into()))
}
