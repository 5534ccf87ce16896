//! Steps that change a tree: putting new versions in place, and removing entries.
//!
//! ```text
//! rebuild   stages a new version, sets its metadata, and flushes the file
//! finished  the version, which only lacks its name; with `--delay-updates` until the end of the run
//! land      checks the replaced version, keeps it as a backup if asked, then renames the staged file
//! ```
//!
//! The rename is the commit: before, the name shows the old version; afterwards, the new version.

pub(crate) mod backing_up;
pub(crate) mod changes;
pub(crate) mod counting;
pub(crate) mod finished;
pub(crate) mod inplace;
pub(crate) mod keeping;
pub(crate) mod land;
pub(crate) mod partial;
pub(crate) mod rebuild;
pub(crate) mod remove;
pub(crate) mod replaceable;
pub(crate) mod state;
pub(crate) mod telling;
pub(crate) mod whole;
pub(crate) mod writing;
