//! Directories that options and arguments name, and the state that stores there share: context and quotas.

pub(crate) mod context;
pub(crate) mod creating;
pub(crate) mod named;
pub(crate) mod quota;
