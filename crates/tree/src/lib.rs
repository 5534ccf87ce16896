//! Names, relative paths, metadata, filter rules, directory digests and the plan of a two-way sync (docs/ARCHITECTURE.md).
//!
//! This crate only computes, like `deltic-core`, on which it depends: no IO, no threads, no clock. File content is
//! handled by other crates.

pub mod dir_digest;
pub mod fold;
pub mod glob;
pub mod links;
pub mod meta;
pub mod names;
pub mod path;
pub mod path_map;
pub mod reconcile;
pub mod rule;
pub mod walk;

pub use dir_digest::{ComparedAttributes, DirDigest, DirDigestKey, DirHasher};
pub use meta::{Acl, Entry, EntryType, ExtraMeta, Kind, Meta, MetaMask, Timestamp, Xattr};
pub use names::{Names, UnsortedNames};
pub use path::{Name, RelPath};
pub use path_map::PathMap;
pub use walk::{Follow, Mounts};
