//! Trees in Linux directories, and facts about files that are kept between runs.
//!
//! Below a root, only held handles (module `dir`) access a tree; paths only open roots.

mod above;
mod attrs;
mod backing_up;
mod backup;
mod boot;
mod borders;
pub mod cache;
mod changes;
mod clock;
mod context;
mod copy;
mod counting;
mod dir;
mod errno;
pub mod facts;
mod finished;
mod flush;
mod follow;
mod heritage;
mod holes;
mod inner;
mod inplace;
mod keeping;
mod land;
mod lease;
mod list;
mod log;
mod metadata;
mod more;
mod named;
mod new_entries;
mod noted;
mod old_copies;
mod partial;
mod place;
mod quota;
mod read_write;
mod rebuild;
mod recent;
mod remove;
mod room;
mod roots;
mod shared;
mod snapshot;
mod sources;
mod spelling;
mod stage;
mod stat;
mod store;
mod system;
mod telling;
mod tight;
mod touched;
mod versions;
mod whole;
mod write_back;
mod writing;

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use attrs::umask;
pub use backup::Backup;
pub use borders::KeepLinks;
pub use cache::Cache;
pub use changes::{Became, Changes};
pub use clock::{AgeClock, Clocks, Jump, SETTLING};
pub use context::StoreContext;
pub use dir::{
    History, KeepVersions, QuotaLimits, Trust, VolumeDir, own_dir, part_path, volume_path,
};
pub use errno::reason;
pub use inplace::UnderWay;
pub use named::{NamedDir, NamedFile};
pub use quota::{Quota, Usage};
pub use rebuild::LocalRebuild;
pub use roots::{create_above, create_root, remove_root};
pub use snapshot::LocalSnapshot;
pub use sources::{SourceArg, SourceArgs, SourceOptions, Sources};
pub use spelling::folds_names;
pub use store::{LocalOptions, LocalStore};
pub use versions::{OldVersion, OldVersions, VersionId};
pub use writing::{PartialDir, Writing};

/// Locks `mutex`, even after a panic of another thread: each lock in this crate covers one simple change, so no state
/// is half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
