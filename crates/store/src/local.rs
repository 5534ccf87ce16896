//! Trees in local file systems.

pub(crate) mod above;
mod attrs;
mod backup;
mod copy;
mod finished;
mod follow;
mod heritage;
mod holes;
mod inplace;
mod link;
mod list;
mod log;
mod more;
mod named;
mod noted;
mod partial;
mod place;
mod rebuild;
mod recent;
mod remove;
mod room;
mod snapshot;
mod sources;
mod stage;
mod store;
mod touched;
mod whole;
mod writing;

#[cfg(test)]
mod tests;

pub use crate::dir::{Trust, confine, leads_out, own_dir};
pub use attrs::umask;
pub use backup::Backup;
pub(crate) use copy::write_at;
pub use inplace::UnderWay;
pub use named::{NamedDir, NamedFile, look, look_at};
pub use rebuild::LocalRebuild;
pub use snapshot::LocalSnapshot;
#[cfg(test)]
pub(crate) use snapshot::Stamp;
pub(crate) use snapshot::read_at;
pub use sources::{SourceArg, SourceArgs, SourceOptions, Sources};
pub use store::{KeepLinks, LocalOptions, LocalStore, create_above, create_root, remove_root};
pub use writing::{PartialDir, Writing};
