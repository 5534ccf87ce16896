//! Staging directories with unfinished new versions, and the logs beside these.

pub(crate) mod log;
pub(crate) mod stage;
