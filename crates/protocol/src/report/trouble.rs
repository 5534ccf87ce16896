//! Names that something went wrong with.

use deltic_tree::path::{printable, shortened};
use deltic_tree::{Kind, RelPath};

/// Something that went wrong with one name; the rest of the run went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Consequence for the run.
    pub kind: TroubleKind,
    /// The message: what was tried, on what, and why it failed; safe to print.
    pub message: String,
    /// Place where it happened, if that is one name.
    pub spot: Option<Box<Spot>>,
}

/// The place of a trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The end; unknown until the trouble [is located](Trouble::locate).
    pub side: Option<Side>,
    /// The name, below the root of that end; none of a source argument.
    pub path: Option<RelPath>,
    /// The same from the root of that machine's file system, where that is known.
    pub full_path: Option<Box<[u8]>>,
    /// The system's number for the reason.
    pub errno: Option<u32>,
    /// Place of the path in the message, if the full one is to stand there.
    pub(crate) hole: Option<usize>,
}

/// An end of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that has the new version.
    Sender,
    /// The one that gets it.
    Receiver,
}

impl Trouble {
    /// A trouble of no name in particular.
    #[must_use]
    pub fn new(kind: TroubleKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), spot: None }
    }

    /// A trouble of the name `path`, which the message has as it is, if at all.
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
    pub(crate) fn on(mut self, side: Side) -> Self {
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

    /// The trouble of an entry that is left out for its kind, in rsync's words, which keep the name as it is.
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

    /// Says that it happened at this end, unless it is known where, and has the message tell the full path. If the
    /// other end tells of a trouble at this end, the message tells the full path only if the message begins with the
    /// path.
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

/// Consequence of a trouble for the run's exit code.
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
    /// Returns true for troubles that are no failure of a name.
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
        // The other end, which tells of it too, knows nothing better.
        trouble.locate(Side::Receiver, |_| Some((*b"/elsewhere").into()));
        assert_eq!(trouble.message, "cannot list /srv/a/: why");
    }

    #[test]
    fn a_trouble_that_the_other_end_tells_of_tells_the_full_path_if_it_begins_with_the_path() {
        let (start, full) = (path("a"), |_: &RelPath| Some((*b"/srv/a").into()));
        let mut trouble =
            Trouble::at(TroubleKind::Vanished, &start, |path| format!("{path} was a"));
        trouble = trouble.on(Side::Sender);
        trouble.locate(Side::Receiver, |_| Some((*b"/elsewhere").into()));
        assert_eq!(trouble.message, "a was a");
        trouble.locate(Side::Sender, full);
        assert_eq!(trouble.message, "/srv/a was a");
        let mut trouble = told(&start).on(Side::Sender);
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
