//! The settings of a receiver, which do not change during the session.

use deltic_tree::{Name, Names, glob};

use crate::hello::SummedBlocks;
use crate::limits::Limits;
use crate::options::Options;

/// The settings of a receiver, which do not change during the session.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The options of the session.
    pub options: Options,
    /// The only names that the sender may list at the root; `None` if any name is allowed. A sender that was asked
    /// for `a` must not send `b`.
    pub expect: Option<Expect>,
    /// True if the user is at this end; otherwise the user is at the sender's end.
    pub user_is_here: bool,
    /// True if this end has the superuser's rights: gives files away, makes devices.
    pub is_privileged: bool,
    /// Number of directories made for this session (in a dry run: to be made): the root, and missing directories
    /// above it.
    pub made_dirs: u64,
    /// True if a root that was created for this session stays even if no entry arrives: the user wrote it as a
    /// directory.
    pub root_is_wanted: bool,
    /// The name that the single listed entry gets here, if the destination is the path of that entry.
    pub rename: Option<Name>,
    /// True if an offer of the sender uses the fingerprints of this session
    /// ([`Terms::offers`](crate::hello::Common::offers)).
    pub takes_offers: bool,
    /// True if this end may tell the sender which base equals an old version.
    pub tells_bases: bool,
    /// True if the sender may send the positions of holes instead of zeros ([`Terms::may_send_holes`](crate::Terms::may_send_holes)).
    pub takes_holes: bool,
    /// True if the ends may agree to use sums that their storage keeps.
    pub agrees_on_sums: bool,
    /// Blocks that have fingerprints made of the sums that storage keeps.
    pub summed_blocks: Option<SummedBlocks>,
    /// True if this end may propose several old chunks for a chunk of the new version.
    pub proposes_candidates: bool,
    /// True if the driver can supply a base for an old version that no earlier run noted, by sums that the sender
    /// computes in the same way. Then short files may have bases too.
    pub sums_old: bool,
    /// True if this end may report the number of resumed bytes to the sender.
    pub tells_resumed: bool,
    /// True if this end may report to the sender why names are skipped.
    pub tells_passed_over: bool,
    /// True if this end asked the sender why large files are read whole or in part.
    pub asks_reasons: bool,
    /// True if several answers may travel in one frame.
    pub joins_answers: bool,
    /// The limits that the two ends agreed on.
    pub limits: Limits,
    /// Most files under way at once, if the system lets this end hold only few files open.
    pub most_files: Option<usize>,
}

impl Setting {
    /// True if recipes from earlier runs may be used. False with `--checksum`: if contents differ, the old version
    /// may have been damaged since.
    pub(super) const fn uses_recipes(&self) -> bool {
        !self.options.checksum
    }

    /// True if bases of old versions are used. Files that are changed in place have no base.
    pub(super) const fn uses_bases(&self) -> bool {
        let Options { dry_run, compare, writing, .. } = &self.options;
        let counts = self.uses_recipes() && compare.cached;
        self.tells_bases && counts && !*dry_run && !writing.inplace
    }
}

/// The names that the sender may list at the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The allowed names.
    pub names: Names,
    /// Patterns of further allowed names (`deltic_tree::glob`).
    pub globs: Vec<Box<[u8]>>,
    /// True if the sender may list the root itself.
    pub own: bool,
}

impl Expect {
    /// True if `name` is allowed.
    #[must_use]
    pub fn is_expected(&self, name: &Name) -> bool {
        self.names.contains(name) || self.globs.iter().any(|g| glob::matches(g, name.as_bytes()))
    }
}

impl<const N: usize> From<[Name; N]> for Expect {
    fn from(names: [Name; N]) -> Self {
        Self { names: names.into_iter().collect(), ..Self::default() }
    }
}
