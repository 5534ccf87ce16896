//! Entries that are in place but for attributes that could not be set: told of as failures, and else taken for what
//! they should be.
//!
//! Other names are linked to them, and what is to be deleted goes, as with rsync: nothing of the list is missing. But
//! their sources stay (`--remove-source-files`), where rsync removes them: no other place has those attributes.

/// Entries that lack attributes.
#[derive(Debug, Default)]
pub(super) struct PartialMeta {
    /// Number of them.
    pub(super) names: u64,
    /// True where the entry is one that is being settled.
    pub(super) is_last: bool,
}
