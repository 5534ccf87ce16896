//! Held directory handles, and entries named by a handle: all access to a tree goes through here.

pub(crate) mod borders;
pub(crate) mod dir;
pub(crate) mod place;
pub(crate) mod shared;
pub(crate) mod stat;
pub(crate) mod touched;
