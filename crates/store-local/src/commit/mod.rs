//! Steps that change a tree: putting new versions in place, and removing entries.

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
pub(crate) mod state;
pub(crate) mod telling;
pub(crate) mod whole;
pub(crate) mod writing;
