//! Metadata of entries: reads it, sets it, and hands it down from a directory to its new entries.

pub(crate) mod attrs;
pub(crate) mod heritage;
pub(crate) mod metadata;
pub(crate) mod more;
pub(crate) mod new_entries;
pub(crate) mod noted;
pub(crate) mod recent;
