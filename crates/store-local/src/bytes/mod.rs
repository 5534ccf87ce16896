//! Bytes of open files: copies, holes, allocated blocks, and flushes to the disk.

pub(crate) mod copy;
pub(crate) mod flush;
pub(crate) mod holes;
pub(crate) mod room;
pub(crate) mod write_back;
