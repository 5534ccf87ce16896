//! Errors with single entries, after which the session continues.

use deltic_tree::path::{printable, shortened};
use deltic_tree::{Kind, RelPath};

/// An error with a single name; the rest of the run continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Consequence for the run.
    pub kind: TroubleKind,
    /// Message: the operation, the name and the reason; safe to print.
    pub message: String,
    /// Place of the error, if a single name is concerned.
    pub spot: Option<Box<Spot>>,
}

/// Place of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// End of the session; `None` until the trouble [is located](Trouble::locate).
    pub side: Option<Side>,
    /// Name below that end's root; `None` for a source argument.
    pub path: Option<RelPath>,
    /// Path from the root of that machine's file system, where known.
    pub full_path: Option<Box<[u8]>>,
    /// The system's errno.
    pub errno: Option<u32>,
    /// Offset of the path in the message, for replacement by the full path.
    pub(crate) hole: Option<usize>,
}

/// An end of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that has the new version.
    Sender,
    /// The end that receives the new version.
    Receiver,
}

impl Trouble {
    /// A trouble that concerns no particular name.
    #[must_use]
    pub fn new(kind: TroubleKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), spot: None }
    }

    /// A trouble with `path`. The message is final: no full path is put into it.
    #[must_use]
    pub fn about(kind: TroubleKind, path: &RelPath, message: String) -> Self {
        let spot = Spot { path: Some(path.clone()), ..Spot::default() };
        Self { kind, message, spot: Some(Box::new(spot)) }
    }

    /// A trouble with `path`. `words` builds the message from a path, which [`locate`](Trouble::locate) may replace
    /// by the full one.
    #[must_use]
    pub fn at(kind: TroubleKind, path: &RelPath, words: impl FnOnce(&str) -> String) -> Self {
        let blank = words(BLANK);
        let message = blank.replacen(BLANK, &path.to_string(), 1);
        let mut trouble = Self::about(kind, path, message);
        trouble.spot_mut().hole = blank.find(BLANK);
        trouble
    }

    /// Sets `side` as the end of the trouble, before this end sends the trouble to the other end.
    #[must_use]
    pub(crate) fn at_side(mut self, side: Side) -> Self {
        let spot = self.spot_mut();
        (spot.side, spot.hole) = (Some(side), None);
        self
    }

    /// Adds the system's errno.
    #[must_use]
    pub fn with_errno(mut self, errno: Option<u32>) -> Self {
        self.spot_mut().errno = errno;
        self
    }

    /// Adds the path from the root of the file system.
    #[must_use]
    pub fn with_full_path(mut self, path: Box<[u8]>) -> Self {
        self.spot_mut().full_path = Some(path);
        self
    }

    fn spot_mut(&mut self) -> &mut Spot {
        self.spot.get_or_insert_default()
    }

    /// A trouble for an entry that is skipped for its kind. The message is rsync's, so the name keeps its relative
    /// path.
    #[must_use]
    pub fn skipped_entry(kind: &Kind, path: &RelPath) -> Self {
        let message = match kind {
            Kind::Dir => format!("skipping directory {path}"),
            _ => format!("skipping non-regular file \"{path}\""),
        };
        Self::about(TroubleKind::Skipped, path, message)
    }

    /// Appends the reason `why` to the message.
    #[must_use]
    pub fn with_reason(self, why: &str) -> Self {
        Self { message: format!("{}: {why}", self.message), ..self }
    }

    /// Sets `side` as the end of the trouble, unless its end is known, and puts the full path into the message. If
    /// the other end reported a trouble of this end, the full path replaces only a path at the start of the message.
    pub fn locate(&mut self, side: Side, full_path: impl FnOnce(&RelPath) -> Option<Box<[u8]>>) {
        let is_here = |spot: &&mut Spot| {
            spot.side.is_none() || spot.side == Some(side) && spot.full_path.is_none()
        };
        let Some(spot) = self.spot.as_deref_mut().filter(is_here) else { return };
        let is_told = spot.side.replace(side).is_some();
        let hole = spot.hole.take();
        let Some(path) = &spot.path else { return };
        let begins = || self.message.starts_with(&format!("{path} "));
        let hole = hole.or_else(|| (is_told && begins()).then_some(0));
        let Some(full) = full_path(path) else { return };
        if let Some(start) = hole {
            let (end, shown) = (start + path.to_string().len(), printable(&full));
            // The message puts a slash after a directory; the path of the root ends with one.
            let has_slash = shown.ends_with('/') && self.message[end..].starts_with('/');
            let shown = if has_slash { &shown[..shown.len() - 1] } else { &shown };
            self.message.replace_range(start..end, &shortened(shown));
        }
        spot.full_path = Some(full);
    }
}

/// Placeholder for the path in a message: printable text contains no such byte.
const BLANK: &str = "\0";

/// Consequence of a trouble for the run's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// A source vanished, or changed repeatedly while it was read.
    Vanished,
    /// A name could not be read or written.
    Failed,
    /// A name was skipped on purpose (a device, or a directory without `-r`); not an error.
    Skipped,
    /// A symlink that may lead out of the tree was skipped on purpose; not an error.
    UnsafeLink,
    /// Deletions were stopped by the limit.
    DeleteLimit,
    /// The run deviates from its options in a detail and continues; not an error.
    Warned,
}

impl TroubleKind {
    /// True for troubles that do not make a name fail.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::Skipped | Self::UnsafeLink | Self::Warned)
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
        // The other end, which reports the trouble too, has no better path.
        trouble.locate(Side::Receiver, |_| Some((*b"/elsewhere").into()));
        assert_eq!(trouble.message, "cannot list /srv/a/: why");
    }

    #[test]
    fn a_trouble_that_the_other_end_tells_of_tells_the_full_path_if_it_begins_with_the_path() {
        let (start, full) = (path("a"), |_: &RelPath| Some((*b"/srv/a").into()));
        let mut trouble =
            Trouble::at(TroubleKind::Vanished, &start, |path| format!("{path} was a"));
        trouble = trouble.at_side(Side::Sender);
        trouble.locate(Side::Receiver, |_| Some((*b"/elsewhere").into()));
        assert_eq!(trouble.message, "a was a");
        trouble.locate(Side::Sender, full);
        assert_eq!(trouble.message, "/srv/a was a");
        let mut trouble = told(&start).at_side(Side::Sender);
        trouble.locate(Side::Sender, full);
        assert_eq!(trouble.message, "cannot list a/: why");
        assert_eq!(trouble.spot.unwrap().full_path, Some((*b"/srv/a").into()));
    }

    #[test]
    fn the_root_of_all_has_one_slash_and_what_is_unknown_keeps_its_name() {
        let mut trouble = told(&RelPath::root());
        trouble.locate(Side::Sender, |_| Some((*b"/").into()));
        assert_eq!(trouble.message, "cannot list /: why");
        let mut trouble = told(&path("a"));
        trouble.locate(Side::Sender, |_| None);
        assert_eq!(trouble.message, "cannot list a/: why");
        let mut trouble = Trouble::skipped_entry(&Kind::Dir, &path("a"));
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
