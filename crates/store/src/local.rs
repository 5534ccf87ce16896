//! Trees in local file systems.

pub(crate) mod above;
mod attrs;
mod copy;
mod list;
mod log;
mod place;
mod rebuild;
mod remove;
mod room;
mod snapshot;
mod sources;
mod stage;
mod store;
mod touched;

#[cfg(test)]
mod tests;

pub use rebuild::LocalRebuild;
pub use snapshot::LocalSnapshot;
pub use sources::{SourceArg, Sources};
pub use store::{LocalOptions, LocalStore, create_root};
