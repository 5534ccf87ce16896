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
    /// Differences before.
    pub differs: Differs,
    /// The present state; empty for a name that was removed.
    pub facts: Facts,
}

/// The present state of a changed name, for whoever shows it (`--out-format`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Length of a file, in bytes.
    pub len: u64,
    /// Modification time at the sender.
    pub modified: Timestamp,
    /// Permission bits at the sender (`0o7777`).
    pub mode: u32,
    /// Owner at the sender, where the [options](crate::options::Options::tells_owners) ask for it.
    pub owner: Owner,
    /// Target of a symbolic link.
    pub target: Option<Box<[u8]>>,
    /// The name that it was made another one of, or stays another one of (`-H`); its own where that is an alternate's.
    pub linked: Option<RelPath>,
    /// Bytes of the file that were sent.
    pub literal: u64,
    /// Another file that it was matched against.
    pub from: Option<RelPath>,
    /// The digest of all bytes, where the [options](crate::options::Options::tells_digests) ask for it and this end
    /// knows it.
    pub digest: Option<Digest>,
}

impl Facts {
    /// The state in the sender's tree.
    #[must_use]
    pub fn of(meta: &Meta) -> Self {
        let target = match &meta.kind {
            Kind::Symlink(target) => Some(target.clone()),
            _ => None,
        };
        let Meta { len, modified, mode, .. } = *meta;
        Self { len, modified, mode, target, owner: meta.owner(), ..Self::default() }
    }
}

/// Action on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Created: nothing was there.
    Created,
    /// Its content was replaced.
    Updated,
    /// Only its attributes were set.
    Touched,
    /// Removed.
    Deleted,
    /// Nothing: it is up to date. Told where the [options](crate::options::Options::tells_unchanged) ask for it.
    Unchanged,
    /// It was not there, and came from another tree of the receiver (`--copy-dest`), from which it differs.
    Copied,
    /// The options leave it out. Told where [`Action::Unchanged`] is, if the other end knows of it.
    PassedOver(PassedOver),
}

impl Action {
    /// True for an action that leaves the name as it was.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::Unchanged | Self::PassedOver(_))
    }
}

/// Why a listed name is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// Nothing stands in its place (`--existing`).
    New,
    /// Something stands in its place (`--ignore-existing`).
    Exists,
    /// The file in its place is newer (`--update`).
    Newer,
    /// The file is too long (`--max-size`).
    Large,
    /// The file is too short (`--min-size`).
    Small,
}

/// Differences between the old entry and the new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The content, as found by comparing it (`-c`).
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
    /// When it was last read.
    pub accessed: bool,
    /// The ACL, or that of what is made in it.
    pub acl: bool,
    /// The extended attributes.
    pub xattrs: bool,
    /// The kind: another kind of entry was there.
    pub kind: bool,
}
