//! Directories that options and arguments name, and what stores there share: their context and quotas.

pub(crate) mod context;
pub(crate) mod creating;
pub(crate) mod named;
pub(crate) mod quota;
