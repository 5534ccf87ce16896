//! Names that a run changed.

use deltic_core::Digest;
use deltic_tree::meta::Owner;
use deltic_tree::{EntryType, Kind, Meta, RelPath, Timestamp};

/// A name that the run changed (or, in a dry run, would change).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name, below the destination's root.
    pub path: RelPath,
    /// The kind of entry.
    pub item: EntryType,
    /// The action.
    pub action: Action,
    /// Differences between the old entry and the new one.
    pub differs: Differs,
    /// State of the new entry; empty for a deleted name.
    pub facts: Facts,
}

/// State of a changed name, for display (`--out-format`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Length of a file, in bytes.
    pub len: u64,
    /// Modification time at the sender.
    pub modified: Timestamp,
    /// Permission bits at the sender (`0o7777`).
    pub mode: u32,
    /// Owner at the sender, where the [options](crate::options::Options::tells_owners) request it.
    pub owner: Owner,
    /// Target of a symbolic link.
    pub target: Option<Box<[u8]>>,
    /// Name that this name is hard-linked to (`-H`). For a hard link to a file of an alternate: the entry's own name.
    pub linked: Option<RelPath>,
    /// Bytes of the file that were sent as literals.
    pub literal: u64,
    /// Path of another file that served as the old version of this file.
    pub from: Option<RelPath>,
    /// Digest of the whole content, where the [options](crate::options::Options::tells_digests) request it and this
    /// end knows the digest.
    pub digest: Option<Digest>,
}

impl Facts {
    /// Returns the state in the sender's tree.
    #[must_use]
    pub fn state_at_sender(meta: &Meta) -> Self {
        let target = match &meta.kind {
            Kind::Symlink(target) => Some(target.clone()),
            _ => None,
        };
        let Meta { len, modified, mode, .. } = *meta;
        Self { len, modified, mode, target, owner: meta.owner(), ..Self::default() }
    }
}

/// Action of a run on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new entry was created.
    Created,
    /// The content was replaced.
    Updated,
    /// Only attributes were set.
    Touched,
    /// The entry was removed.
    Deleted,
    /// No change: the entry is up to date. Reported where the [options](crate::options::Options::tells_unchanged)
    /// request it.
    Unchanged,
    /// A new name was made from an alternate's entry, for example by `--copy-dest`. [`Change::differs`] compares with
    /// that entry.
    Copied,
    /// Skipped because of the options. Reported under the same options as [`Action::Unchanged`], if the other end
    /// supports it.
    PassedOver(PassedOver),
}

impl Action {
    /// True for an action that leaves the name as it was.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::Unchanged | Self::PassedOver(_))
    }
}

/// Reason for skipping a listed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// The name does not exist at the destination (`--existing`).
    New,
    /// The name exists at the destination (`--ignore-existing`).
    Exists,
    /// The destination's file is newer (`--update`).
    Newer,
    /// The file is too long (`--max-size`).
    Large,
    /// The file is too short (`--min-size`).
    Small,
}

/// Differences between the old entry and the new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The content, found different by comparison (`-c`).
    pub content: bool,
    /// The length.
    pub size: bool,
    /// The modification time.
    pub time: bool,
    /// The permission bits.
    pub mode: bool,
    /// The owner.
    pub user: bool,
    /// The group.
    pub group: bool,
    /// The access time.
    pub accessed: bool,
    /// The access ACL, or the default ACL of a directory.
    pub acl: bool,
    /// The extended attributes.
    pub xattrs: bool,
    /// The kind: the old entry was of another kind.
    pub kind: bool,
}
