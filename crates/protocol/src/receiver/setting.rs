//! The facts that a receiver starts from.

use deltic_tree::{Name, Names, glob};

use crate::limits::Limits;
use crate::options::Options;

/// The facts that a receiver starts from.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The options of the session.
    pub options: Options,
    /// The only names that the sender may list at the root; `None` if any. A sender that was asked for `a` must not
    /// bring `b`.
    pub expect: Option<Expect>,
    /// True where the user is at this end; else at the sender's.
    pub user_is_here: bool,
    /// True where this end does what the superuser may: gives files away, makes devices.
    pub is_privileged: bool,
    /// Number of directories made for this session (in a dry run: to be made): the root, and missing ones above it.
    pub made_dirs: u64,
    /// True where a root that was made stays if nothing comes: the user wrote it as a directory.
    pub root_is_wanted: bool,
    /// The name that the one listed entry is to have here, where the destination is that.
    pub rename: Option<Name>,
    /// True where the sender names what it offers as the session does ([`Terms::offers`](crate::hello::Common::offers)).
    pub takes_offers: bool,
    /// True where the sender can be told which base an old version is.
    pub tells_bases: bool,
    /// True if the sender may tell the holes of files instead of sending zeros
    /// ([`Terms::holes`](crate::Terms::holes)).
    pub takes_holes: bool,
    /// True where the ends may agree on sums that their storage keeps.
    pub agrees_on_sums: bool,
    /// True where old versions without a base can be summed as the sender sums what it has: short files count too.
    pub sums_old: bool,
    /// True where the sender can be told how much was resumed.
    pub tells_resumed: bool,
    /// The sender can be told why names are passed over.
    pub tells_passed_over: bool,
    /// The bounds that the two ends agree on.
    pub limits: Limits,
    /// Most files under way at once, where the system lets this end hold only few open.
    pub most_files: Option<usize>,
}

impl Setting {
    /// True where recipes that were kept count. With checksums none does: contents that were found to differ may have
    /// rotted since.
    pub(super) const fn uses_recipes(&self) -> bool {
        !self.options.checksum
    }

    /// True where it counts which base an old version is. Files that change in place have none.
    pub(super) const fn uses_bases(&self) -> bool {
        let Options { dry_run, compare, writing, .. } = &self.options;
        let counts = self.uses_recipes() && compare.cached;
        self.tells_bases && counts && !*dry_run && !writing.inplace
    }
}

/// The names that may be listed at the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// These.
    pub names: Names,
    /// And what one of these patterns matches (`deltic_tree::glob`).
    pub globs: Vec<Box<[u8]>>,
    /// And what the root itself is.
    pub own: bool,
}

impl Expect {
    /// True where `name` was asked for.
    #[must_use]
    pub fn admits(&self, name: &Name) -> bool {
        self.names.contains(name) || self.globs.iter().any(|g| glob::matches(g, name.as_bytes()))
    }
}

impl<const N: usize> From<[Name; N]> for Expect {
    fn from(names: [Name; N]) -> Self {
        Self { names: names.into_iter().collect(), ..Self::default() }
    }
}
