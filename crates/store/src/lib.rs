//! Traits of stores: trees that can be read, trees that can be changed, and files that are rebuilt in a staged file.
//!
//! The law of this crate is *old is safe*: nothing changes at a destination before [`Rebuild::commit`], and a commit
//! is one step. Calls block and are made from worker threads.
//!
//! A store implements the required methods of [`Tree`], [`Snapshot`], [`Store`] and [`Rebuild`]. [`Posix`] has the
//! calls that only a POSIX tree can serve, [`Resumable`] the calls about data that outlives a killed run. A store
//! without these abilities implements the two traits without any method.
//!
//! A [`FactStore`] keeps facts that earlier runs found out about files.

pub mod conformance;
mod error;
mod fact_store;
pub mod facts;
pub mod faulty;
pub mod filter;
pub mod memory;
mod moment;
mod posix;
mod private;
mod rebuild;
mod snapshot;
mod spelling;
mod store;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::{Cause, StoreError, Unset, reason};
pub use fact_store::{BaseNote, DigestQuery, FactStore, MemoryFacts, NoFacts};
pub use facts::Extents;
pub use filter::Filter;
pub use moment::{Moment, SettledVersion};
pub use posix::{Link, Posix};
pub use private::{
    PrivateDir, SERVER_STATE_NAME, STAGING_NAME, VERSIONS_NAME, check_path, check_volume_path,
    is_staging_name,
};
pub use rebuild::{Commit, Content, Keep, Rebuild, Replaces, Resumable, Resumed};
pub use snapshot::{Snapshot, Version, VersionToken};
pub use spelling::{NamePair, OneName, Respell};
pub use store::{Durability, RemoveOptions, RemoveResult, Store, Whole};
pub use tree::{Listing, Tree};

/// Locks `mutex`, even if poisoned. Each lock here covers one simple change, so a panic elsewhere leaves nothing half
/// done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
