//! Trees in Linux directories, and facts about files that are kept between runs.
//!
//! Below a root, only held handles (folder `handles`) access a tree; paths only open roots. The folders, from the bottom
//! up: `kernel`, `facts`, `bytes`, `handles`, `roots`, `attributes`, `read`, `cache`, `staging`, `keep`, `commit`,
//! `store`.

mod attributes;
mod bytes;
pub mod cache;
mod commit;
pub mod facts;
mod handles;
mod keep;
mod kernel;
mod read;
mod roots;
mod staging;
mod store;

#[cfg(test)]
mod tests;

pub use attributes::attrs::umask;
pub use cache::Cache;
pub use commit::changes::{Became, Changes};
pub use commit::inplace::UnderWay;
pub use commit::rebuild::LocalRebuild;
pub use commit::replaceable::Replaceable;
pub use commit::writing::{CommitOptions, PartialDir};
pub use handles::borders::KeepLinks;
pub use handles::dir::{
    History, KeepVersions, QuotaLimits, Trust, VolumeDir, open_own_dir, part_path, volume_path,
};
pub use keep::backup::BackupPlace;
pub use keep::change_notes::{ChangeNote, compare_short_versions};
pub use keep::versions::{OldVersion, OldVersions, VersionId};
pub use keep::versions_below::{ContentAt, PastEntry, PresentFile, VersionsOfFile, VersionsPage};
pub use kernel::clock::{AgeClock, Clocks, Jump, SETTLING};
pub use kernel::errno::reason;
pub use kernel::tight::is_memory_tight;
pub use read::snapshot::LocalSnapshot;
pub use read::sources::{SourceArg, SourceArgs, SourceOptions, SourceTree};
pub use roots::context::StoreContext;
pub use roots::creating::{create_parent, create_root, remove_root};
pub use roots::named::{NamedDir, NamedFile};
pub use roots::quota::{SpaceQuota, SpaceUsage};
pub use staging::stage::StagedPlace;
pub use store::spelling::folds_names;
pub use store::{LocalOptions, LocalStore};
