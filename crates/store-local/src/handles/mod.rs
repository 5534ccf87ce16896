//! Held directory handles, and entries that a handle names: all access to a tree uses these.

pub(crate) mod borders;
pub(crate) mod dir;
pub(crate) mod place;
pub(crate) mod shared;
pub(crate) mod stat;
pub(crate) mod touched;
