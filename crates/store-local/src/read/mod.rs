//! Reads trees: listings, open files, and the arguments of a sender.

pub(crate) mod above;
pub(crate) mod follow;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod snapshot;
pub(crate) mod sources;
