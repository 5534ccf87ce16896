//! Old versions: backups, and the versions of a volume.

pub(crate) mod backup;
pub(crate) mod change_notes;
pub(crate) mod old_copies;
pub(crate) mod versions;
pub(crate) mod versions_below;
