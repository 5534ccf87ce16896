//! Metadata of entries: reading, setting, and inheritance by the new entries of a directory.

pub(crate) mod attrs;
pub(crate) mod heritage;
pub(crate) mod metadata;
pub(crate) mod more;
pub(crate) mod new_entries;
pub(crate) mod noted;
pub(crate) mod recent;
