//! Selection among the source entries.

use deltic_core::codec::{Put, Reader};
use deltic_tree::Mounts;

use crate::wire::codec::{BadPayload, WireEncoding, closed_set, read_flags, write_flags};

/// Names that take part, besides the filter rules. Everything is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Transfer directories without the contents (`--dirs`).
    pub dirs: bool,
    /// Keep the directories of each source argument in the destination's paths (`--relative`).
    pub relative: bool,
    /// Create the implied directories of `--relative`, but do not change existing ones (`--no-implied-dirs`).
    pub plain_implied_dirs: bool,
    /// Leave out directories that hold no files (`--prune-empty-dirs`).
    pub prune_empty_dirs: bool,
    /// Create all missing parent directories of the destination (`--mkpath`).
    pub mkpath: bool,
    /// List the entries, transfer nothing (`--list-only`).
    pub list_only: bool,
    /// Fail if the destination directory does not exist, instead of creating it.
    pub existing: bool,
    /// Treatment of mount points of other file systems (`--one-file-system`).
    pub mounts: Mounts,
    /// Treatment of a missing source argument.
    pub missing: Missing,
}

/// Treatment of a missing source argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// A missing argument is an error.
    #[default]
    Fail,
    /// A missing argument is ignored (`--ignore-missing-args`).
    Ignore,
    /// The name of a missing argument is deleted at the destination (`--delete-missing-args`).
    Delete,
}

closed_set!(Mounts: Enter = 0, Empty = 1, LeaveOut = 2);
closed_set!(Missing: Fail = 0, Ignore = 1, Delete = 2);

impl WireEncoding for Select {
    fn write_to(&self, to: &mut Vec<u8>) {
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
        write_flags(to, [dirs, relative, plain_implied_dirs, empty, mkpath, list_only, existing]);
        self.mounts.write_to(to);
        self.missing.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [dirs, relative, plain_implied_dirs, prune_empty_dirs, mkpath, list_only, existing] =
            read_flags(from)?;
        Ok(Self {
            dirs,
            relative,
            plain_implied_dirs,
            prune_empty_dirs,
            mkpath,
            list_only,
            existing,
            mounts: WireEncoding::read_from(from)?,
            missing: WireEncoding::read_from(from)?,
        })
    }
}
