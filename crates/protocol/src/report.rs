//! What a run says about itself: changes, troubles and totals. Both ends speak of them, so they cross the wire.

pub use deltic_core::Item;
use deltic_core::meta::Owner;
use deltic_core::{Kind, Meta, RelPath, Timestamp};

/// One name that the run changed (or, in a dry run, would change).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name, below the destination's root.
    pub path: RelPath,
    /// What kind of entry it is.
    pub item: Item,
    /// What was done.
    pub action: Action,
    /// What differed before.
    pub differs: Differs,
    /// What it is now; nothing of a name that was removed.
    pub facts: Facts,
}

/// What a changed name is now, for whoever shows it (`--out-format`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Length of a file, in bytes.
    pub len: u64,
    /// Modification time at the sender.
    pub modified: Timestamp,
    /// Permission bits at the sender (`0o7777`).
    pub mode: u32,
    /// Whose it is at the sender, where the [options](crate::options::Options::tells_owners) ask for it.
    pub owner: Owner,
    /// Where a symbolic link points.
    pub target: Option<Box<[u8]>>,
    /// The name that it was made another one of, or stays another one of (`-H`); its own where that is an alternate's.
    pub linked: Option<RelPath>,
    /// Bytes of the file that were sent.
    pub literal: u64,
    /// Which file of another name it was matched against.
    pub from: Option<RelPath>,
}

impl Facts {
    /// What the sender's tree says of it.
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

/// What was done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was not there.
    Created,
    /// Its content was replaced.
    Updated,
    /// Only its attributes were set.
    Touched,
    /// It was removed.
    Deleted,
    /// Nothing: it is up to date. Told where the [options](crate::options::Options::tells_unchanged) ask for it.
    Unchanged,
    /// It was not there, and came from another tree of the receiver (`--copy-dest`), from which it differs.
    Copied,
}

/// In what the old entry differed from the new.
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
    /// What it is at all: another kind of entry was there.
    pub kind: bool,
}

/// Something that went wrong with one name; the rest of the run went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it means for the run.
    pub kind: TroubleKind,
    /// What was tried, on what, and why it failed; safe to print.
    pub message: String,
}

impl Trouble {
    /// That what is at `path` is left out for its kind, in rsync's words.
    #[must_use]
    pub fn skipped(kind: &Kind, path: &RelPath) -> Self {
        let message = match kind {
            Kind::Dir => format!("skipping directory {path}"),
            _ => format!("skipping non-regular file \"{path}\""),
        };
        Self { kind: TroubleKind::Skipped, message }
    }

    /// The same, and why.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        Self { message: format!("{}: {why}", self.message), ..self }
    }
}

/// What a trouble means for the run's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// A source vanished or kept changing while it was read.
    Vanished,
    /// A name could not be read or written.
    Failed,
    /// A name was left out on purpose (a device, or a directory without `-r`); not an error.
    Skipped,
    /// A symlink that may lead out of the tree was left out on purpose; not an error.
    UnsafeLink,
    /// Deletions were held back by their limit.
    DeleteLimit,
    /// Something is not as it was asked for, and the run goes on all the same; not an error.
    Warned,
}

impl TroubleKind {
    /// Whether it is no failure of a name.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Skipped | Self::UnsafeLink | Self::Warned)
    }
}

/// The destination was not there, and was made (in a dry run: would be).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeRoot {
    /// Directories that were made: the root, and what lacked above it.
    pub dirs: u64,
    /// Whether it holds the file that the destination names, and is not the destination itself.
    pub holds_file: bool,
}

/// What a user is asked before many names are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names that would go.
    pub names: u64,
    /// Names that there are at the destination, those among them.
    pub of: u64,
    /// The first of those that would go, at most [`MAX_ASKED`](crate::limits::MAX_ASKED); of a directory only itself.
    pub first: Vec<RelPath>,
}

/// Counts of a whole run, as the receiver saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files in the sender's list.
    pub files: u64,
    /// Directories in the sender's list, with the root where it is part of the transfer.
    pub dirs: u64,
    /// Symbolic links in the sender's list.
    pub links: u64,
    /// Devices in the sender's list.
    pub devices: u64,
    /// FIFOs and sockets in the sender's list.
    pub specials: u64,
    /// Length of all listed files and of where links point, in bytes.
    pub bytes: u64,
    /// Names that were created.
    pub created: u64,
    /// Files whose content was replaced or created.
    pub transferred: u64,
    /// Length of those files, in bytes.
    pub transferred_bytes: u64,
    /// Bytes of them that were sent.
    pub literal: u64,
    /// Bytes of them that the receiver already had.
    pub matched: u64,
    /// Bytes of those that an interrupted run had left.
    pub resumed: u64,
    /// Names that were removed.
    pub deleted: u64,
    /// Names that could not be synced.
    pub failed: u64,
}

impl Totals {
    /// All names in the sender's list.
    #[must_use]
    pub const fn listed(&self) -> u64 {
        self.files + self.dirs + self.links + self.devices + self.specials
    }
}

/// What a running machine tells whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The sender's list so far; `complete` once it will not grow any more.
    Listed {
        /// Names of all kinds so far, also of those that take no part.
        names: u64,
        /// Regular files among them.
        files: u64,
        /// Their length in bytes.
        bytes: u64,
        /// Whether the list is complete.
        complete: bool,
    },
    /// So many more bytes of the listed files are settled: found up to date, matched or sent.
    Settled {
        /// Bytes, never more in sum than were listed.
        bytes: u64,
    },
    /// So many bytes went over the wire so far, both ways; told now and then.
    Wire {
        /// Bytes since the session began.
        bytes: u64,
    },
    /// Every file is in place or has failed: what is left is deleting, setting directories and flushing.
    Closing,
    /// A listed name; only where that is all there is to tell.
    Entry {
        /// Where it is below the root.
        path: RelPath,
        /// What it is.
        meta: Meta,
    },
    /// The destination was not there; told before any change.
    MadeRoot(MadeRoot),
    /// A name changed.
    Changed(Change),
    /// A name failed.
    Trouble(Trouble),
    /// The run is over; nothing follows.
    Finished(Totals),
}

/// How often an end compared a sum with one of the other end's, equal or not. What a tag, a bit or a length rules out is not
/// compared; of a hash table only the entry that is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Weak sums, which only suggest: of chunks, of windows, of blocks in gaps.
    pub weak: u64,
    /// Strong sums, and fingerprints, which need nothing to confirm them.
    pub strong: u64,
}

impl Counts {
    pub(crate) const fn add(&mut self, weak: u64, strong: u64) {
        self.weak += weak;
        self.strong += strong;
    }
}

/// How much of what was listed is settled: keeps the promise of [`Notice::Settled`], whatever a peer claims.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    listed: u64,
    settled: u64,
}

impl Progress {
    /// So many more bytes are listed.
    pub(crate) const fn list(&mut self, bytes: u64) {
        self.listed = self.listed.saturating_add(bytes);
    }

    /// Bytes listed so far.
    pub(crate) const fn listed(&self) -> u64 {
        self.listed
    }

    /// So many more bytes are settled; what to tell, if anything.
    pub(crate) fn settle(&mut self, bytes: u64) -> Option<Notice> {
        let bytes = bytes.min(self.listed - self.settled);
        self.settled += bytes;
        (bytes > 0).then_some(Notice::Settled { bytes })
    }
}
