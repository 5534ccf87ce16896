//! Comparisons of programs through pipes: time, processor time, memory and bytes of a sync, and the files left after a
//! kill or on a full disk.

pub(crate) mod again;
mod data;
mod disk;
pub(crate) mod e2e;
pub(crate) mod enospc;
mod figures;
mod files;
pub(crate) mod kill;
pub(crate) mod link;
pub(crate) mod measured;
pub(crate) mod peer;
mod processes;
pub(crate) mod relay;
mod release;
pub(crate) mod remote;
mod run;
pub(crate) mod skysync;
pub(crate) mod storage;
pub(crate) mod sums;
pub(crate) mod tree;
mod tree_bytes;
