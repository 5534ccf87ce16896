//! Selection among the sources.

use deltic_core::codec::{Put, Reader};
use deltic_tree::Mounts;

use crate::wire::codec::{Bad, Wire, closed_set, put_flags, take_flags};

/// Names that take part, besides the rules. Everything is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Take directories without what is in them (`--dirs`).
    pub dirs: bool,
    /// Names keep the directories that they were named with (`--relative`).
    pub relative: bool,
    /// Make these directories, and leave them alone otherwise (`--no-implied-dirs`).
    pub plain_implied_dirs: bool,
    /// Leave out directories without files (`--prune-empty-dirs`).
    pub prune_empty_dirs: bool,
    /// Make every missing directory on the way to the destination (`--mkpath`).
    pub mkpath: bool,
    /// Tell what there is, and bring nothing (`--list-only`).
    pub list_only: bool,
    /// The destination's directory must be there: it is not made.
    pub existing: bool,
    /// Treatment of other file systems (`--one-file-system`).
    pub mounts: Mounts,
    /// Meaning of a source that is not there.
    pub missing: Missing,
}

/// Meaning of a source that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// A failure.
    #[default]
    Fail,
    /// No meaning (`--ignore-missing-args`).
    Ignore,
    /// Removal at the destination as well (`--delete-missing-args`).
    Delete,
}

closed_set!(Mounts: Enter = 0, Empty = 1, LeaveOut = 2);
closed_set!(Missing: Fail = 0, Ignore = 1, Delete = 2);

impl Wire for Select {
    fn put(&self, to: &mut Vec<u8>) {
        let Self {
            dirs,
            relative,
            plain_implied_dirs,
            prune_empty_dirs,
            mkpath,
            list_only,
            existing,
            ..
        } = *self;
        let empty = prune_empty_dirs;
        put_flags(to, [dirs, relative, plain_implied_dirs, empty, mkpath, list_only, existing]);
        self.mounts.put(to);
        self.missing.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let [dirs, relative, plain_implied_dirs, prune_empty_dirs, mkpath, list_only, existing] =
            take_flags(from)?;
        Ok(Self {
            dirs,
            relative,
            plain_implied_dirs,
            prune_empty_dirs,
            mkpath,
            list_only,
            existing,
            mounts: Wire::take(from)?,
            missing: Wire::take(from)?,
        })
    }
}
