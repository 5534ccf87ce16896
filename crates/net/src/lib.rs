//! Runs the protocol's state machines (sender and receiver) on stores, over transports. Only this crate uses threads,
//! clocks and async.
//!
//! [`run`] is a sync of the connecting end and [`run_agent`] its other end, for the command; [`embed`] has both for
//! programs with a runtime. Inside, `session` takes a role after a `greeting`, and `host` resolves the paths of
//! requests. `drive` runs the machine of the role; a worker of `deltic_worker` does the work that the machine requests,
//! on the threads of `executor`. `transport` moves bytes. `watch` decides what to sync again, and `batch` stores runs
//! in files. [`rehearsal`] runs both ends in this process to measure them, with [`monitor`] and over a link from
//! `shape`. [`virtual_link`] computes the time of a transfer without a run.

mod batch;
mod bounds;
mod config;
mod drive;
pub mod embed;
pub mod error;
pub mod executor;
mod greeting;
mod host;
mod learned;
pub mod monitor;
mod outlets;
pub mod plan;
pub mod rates;
pub mod rehearsal;
mod run;
mod session;
mod shape;
mod streams;
mod task;
mod timeouts;
mod transport;
pub mod virtual_link;
pub mod watch;

pub use batch::{Spool, spool_batch};
pub use deltic_store_local::facts::service as facts;
pub use deltic_store_local::facts::{Kept, stored_sum_kind};
pub use deltic_store_local::reason;
pub use deltic_store_local::{
    LocalSnapshot, NamedDir, NamedFile, Trust, folds_names, open_own_dir, umask,
};
pub use deltic_worker::moved_sources::MovedSources;
pub use deltic_worker::old_sums;
pub use deltic_worker::user::User;
pub use embed::Outcome;
pub use error::SyncError;
pub use executor::max_threads;
pub use host::restrict::{self, Restriction};
pub use host::sources::{ListForm, read_names};
pub use host::walls;
pub use learned::{LinkDirection, note_link_rate};
pub use plan::{Plan, RoundTrip, Traffic};
pub use run::{
    join_session, let_long_writes_fail, pull_into, run, run_agent, until_end_signal, wait_or_cancel,
};
pub use transport::child::{TOKEN_VARIABLE, withhold_secrets};
