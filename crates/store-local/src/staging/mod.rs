//! Staging directories with unfinished new versions, and their logs.

pub(crate) mod log;
pub(crate) mod stage;
