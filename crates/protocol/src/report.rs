//! What a run says about itself: changes, troubles and totals. Both ends speak of them, so they cross the wire.

pub use deltic_tree::Item;
use deltic_tree::meta::Owner;
use deltic_tree::path::{printable, shortened};
use deltic_tree::{Kind, Meta, RelPath, Timestamp};

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
    /// Where it happened, if that is one name.
    pub spot: Option<Box<Spot>>,
}

/// Where a trouble happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// At which end; unknown until the trouble [is located](Trouble::locate).
    pub side: Option<Side>,
    /// The name, below the root of that end; none of a source argument.
    pub path: Option<RelPath>,
    /// The same from the root of that machine's file system, where that is known.
    pub full_path: Option<Box<[u8]>>,
    /// The system's number for the reason.
    pub errno: Option<u32>,
    /// Where the message has the path, if the full one is to stand there.
    pub(crate) hole: Option<usize>,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that has the new version.
    Sender,
    /// The one that gets it.
    Receiver,
}

impl Trouble {
    /// One of no name in particular.
    #[must_use]
    pub fn new(kind: TroubleKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), spot: None }
    }

    /// One of the name `path`, which the message has as it is, if at all.
    #[must_use]
    pub fn about(kind: TroubleKind, path: &RelPath, message: String) -> Self {
        let spot = Spot { path: Some(path.clone()), ..Spot::default() };
        Self { kind, message, spot: Some(Box::new(spot)) }
    }

    /// The same; `words` makes the message, in which the full path is to stand, of the path.
    #[must_use]
    pub fn at(kind: TroubleKind, path: &RelPath, words: impl FnOnce(&str) -> String) -> Self {
        let blank = words(BLANK);
        let message = blank.replacen(BLANK, &path.to_string(), 1);
        let mut trouble = Self::about(kind, path, message);
        trouble.spot_mut().hole = blank.find(BLANK);
        trouble
    }

    /// The same, at this end, of which the other one tells.
    #[must_use]
    pub fn on(mut self, side: Side) -> Self {
        let spot = self.spot_mut();
        (spot.side, spot.hole) = (Some(side), None);
        self
    }

    /// The same, for which the system gave this reason.
    #[must_use]
    pub fn with_errno(mut self, errno: Option<u32>) -> Self {
        self.spot_mut().errno = errno;
        self
    }

    /// The same, of what is at this path from the root of the file system.
    #[must_use]
    pub fn with_full_path(mut self, path: Box<[u8]>) -> Self {
        self.spot_mut().full_path = Some(path);
        self
    }

    fn spot_mut(&mut self) -> &mut Spot {
        self.spot.get_or_insert_default()
    }

    /// That what is at `path` is left out for its kind, in rsync's words, which keep the name as it is.
    #[must_use]
    pub fn skipped(kind: &Kind, path: &RelPath) -> Self {
        let message = match kind {
            Kind::Dir => format!("skipping directory {path}"),
            _ => format!("skipping non-regular file \"{path}\""),
        };
        Self::about(TroubleKind::Skipped, path, message)
    }

    /// The same, and why.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        Self { message: format!("{}: {why}", self.message), ..self }
    }

    /// Says that it happened at this end, unless it is known where, and has the message tell the full path.
    pub fn locate(&mut self, side: Side, full_path: impl FnOnce(&RelPath) -> Option<Box<[u8]>>) {
        let Some(spot) = self.spot.as_deref_mut().filter(|spot| spot.side.is_none()) else {
            return;
        };
        spot.side = Some(side);
        let hole = spot.hole.take();
        let Some(path) = &spot.path else { return };
        let Some(full) = full_path(path) else { return };
        if let Some(start) = hole {
            let (end, shown) = (start + path.to_string().len(), printable(&full));
            // A directory is told with a slash, which the root's path has.
            let has_slash = shown.ends_with('/') && self.message[end..].starts_with('/');
            let shown = if has_slash { &shown[..shown.len() - 1] } else { &shown };
            self.message.replace_range(start..end, &shortened(shown));
        }
        spot.full_path = Some(full);
    }
}

/// Stands for the path in a message: what is safe to print has no such byte.
const BLANK: &str = "\0";

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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn told(path: &RelPath) -> Trouble {
        Trouble::at(TroubleKind::Failed, path, |path| format!("cannot list {path}/: why"))
    }

    #[test]
    fn a_trouble_tells_the_full_path_once_it_is_located() {
        let mut trouble = told(&path("a"));
        assert_eq!(trouble.message, "cannot list a/: why");
        trouble.locate(Side::Sender, |path| Some([b"/srv/", path.as_bytes()].concat().into()));
        assert_eq!(trouble.message, "cannot list /srv/a/: why");
        let spot = trouble.spot.clone().unwrap();
        assert_eq!((spot.side, spot.full_path), (Some(Side::Sender), Some((*b"/srv/a").into())));
        // The other end, which tells of it too, knows nothing better.
        trouble.locate(Side::Receiver, |_| Some((*b"/elsewhere").into()));
        assert_eq!(trouble.message, "cannot list /srv/a/: why");
    }

    #[test]
    fn the_root_of_all_has_one_slash_and_what_is_unknown_keeps_its_name() {
        let mut trouble = told(&RelPath::root());
        trouble.locate(Side::Sender, |_| Some((*b"/").into()));
        assert_eq!(trouble.message, "cannot list /: why");
        let mut trouble = told(&path("a"));
        trouble.locate(Side::Sender, |_| None);
        assert_eq!(trouble.message, "cannot list a/: why");
        let mut trouble = Trouble::skipped(&Kind::Dir, &path("a"));
        trouble.locate(Side::Sender, |_| Some((*b"/srv/a").into()));
        assert_eq!(trouble.message, "skipping directory a");
    }

    #[test]
    fn what_a_path_holds_does_not_reach_the_terminal() {
        let mut trouble = told(&path("a"));
        trouble.locate(Side::Sender, |_| Some((*b"/\x1b[2J/a").into()));
        assert_eq!(trouble.message, "cannot list /\\u{1b}[2J/a/: why");
    }
}
