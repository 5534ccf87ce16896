//! Options of a session: the meaning of the command line, sent once, after the hello.

mod compare;
mod metadata;
mod remove;
mod select;
mod tallied;
mod writing;

use deltic_core::Strategy;
use deltic_tree::rule::Rules;
use deltic_tree::{Follow, Kind};

use crate::limits::{GUARDED_DELETES, GUARDED_PERCENT};

pub use compare::{AlternateUse, Alternates, Compare, Fuzzy, TrustedSums, Window};
pub use metadata::{Links, Metadata, Powers};
pub use remove::{Backup, Remove};
pub use select::{Missing, Select};
pub use writing::{Append, Writing};

/// Options of a sync. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Descend into directories (`-r`).
    pub recursive: bool,
    /// Recreate symbolic links (`-l`).
    pub links: bool,
    /// Carry permission bits over (`-p`).
    pub modes: bool,
    /// Carry modification times over (`-t`).
    pub times: bool,
    /// Compare content where size and modification time agree (`-c`).
    pub checksum: bool,
    /// Send changed files whole, without a recipe (`-W`).
    pub whole_file: bool,
    /// Owners of entries, and further metadata.
    pub metadata: Metadata,
    /// Report the changes of a run without any change (`-n`).
    pub dry_run: bool,
    /// Report up-to-date entries as well (`-ii`, `-vv`).
    pub tells_unchanged: bool,
    /// Report the sender's owner and group of each changed entry (`%U`, `%G`).
    pub tells_owners: bool,
    /// Report the digest of each changed file, where this end knows the digest (`%C`). Not sent to the other end.
    pub tells_digests: bool,
    /// Delete names that the sender does not have (`--delete`).
    pub delete: Delete,
    /// Compress literals with zstd (`-z`); see [`compression`](Self::compression).
    pub compress: bool,
    /// zstd level (`--compress-level`), up to [`MAX_LEVEL`](crate::limits::MAX_LEVEL); 0 leaves the level to the sender.
    pub compress_level: u32,
    /// Flush files and directories to the disk before the run counts as done; off with `--no-fsync`.
    pub durable: bool,
    /// Threads that each end computes with (`--threads`), capped by each end's machine; 0 means one per processor.
    pub threads: u32,
    /// Streams of the session (`--streams`), counting the first; 0 means 1. More than 1 only where both ends [support
    /// further streams](crate::hello::LinkTerms::streams).
    pub streams: u32,
    /// Longest silence of either end (`--timeout`), in seconds; 0 means no limit. A working end sends something three
    /// times within that time.
    pub silence: u32,
    /// Strategy for files that are not sent whole (`--strategy`).
    pub strategy: Strategy,
    /// Mean chunk length or block length in bytes (`--block-size`), up to
    /// [`MAX_BLOCK_BYTES`](crate::limits::MAX_BLOCK_BYTES); `None` means the strategy's own length.
    pub block_bytes: Option<u32>,
    /// Filter rules: which names are sent, and which names may be deleted.
    pub rules: Rules,
    /// Treatment of symlinks beyond [`links`](Self::links).
    pub follow: Links,
    /// Further removals, and backups of replaced or deleted entries.
    pub remove: Remove,
    /// Selection among the source entries.
    pub select: Select,
    /// Conditions under which a file counts as changed.
    pub compare: Compare,
    /// Ways of writing new versions.
    pub writing: Writing,
}

impl Options {
    /// Returns the strategy, with the requested chunk length if one is set.
    #[must_use]
    pub fn effective_strategy(&self) -> Strategy {
        self.block_bytes.map_or(self.strategy, |bytes| self.strategy.with_chunk_len(bytes))
    }

    /// True if entries of this kind are transferred.
    #[must_use]
    pub(crate) const fn transfers_kind(&self, kind: &Kind) -> bool {
        match kind {
            Kind::File => true,
            Kind::Dir => self.recursive || self.select.dirs || self.select.relative,
            Kind::Symlink(_) => self.links,
            Kind::Fifo | Kind::Socket => self.metadata.specials,
            Kind::Device(_) => self.metadata.devices,
        }
    }

    /// Returns the request for compression. A level without `compress` requests no compression: a sender of an
    /// earlier version then compresses nothing either.
    #[must_use]
    pub const fn compression(&self) -> CompressionRequest {
        match (self.compress, self.compress_level) {
            (false, 0) => CompressionRequest::ForLink,
            (true, 0) => CompressionRequest::ForLinkOrUsual,
            (true, level) => CompressionRequest::Level(level),
            (false, _) => CompressionRequest::Never,
        }
    }

    /// True if the user may be asked before many names are deleted.
    #[must_use]
    pub fn may_ask_before_deleting(&self) -> bool {
        self.remove.asks && matches!(self.delete, Delete::Guarded(_)) && !self.dry_run
    }

    /// True if sources may be removed before all sources have arrived. False if a removed source might be read again
    /// under another name (as a hard link, or through a symlink that is followed), and false if files get their final
    /// names only at the end.
    #[must_use]
    pub(crate) fn may_remove_sources_early(&self) -> bool {
        let Self { remove, metadata, follow, writing, dry_run, .. } = self;
        let alone = !metadata.hard_links && follow.follow == Follow::Never;
        remove.sources && alone && !writing.delay && !dry_run
    }

    /// True if files that do not fit on the disk wait until deletions free space. False if commits are delayed, or if
    /// a hard link or the removal of a source might depend on such a file before that.
    #[must_use]
    pub(crate) fn waits_for_deletions(&self) -> bool {
        let waits = self.metadata.hard_links || self.writing.delay || self.remove.sources;
        self.delete != Delete::Never && !self.dry_run && !waits
    }

    /// True if a file with equal content is written again: with `-I --inplace -S`, its blocks of zeros become holes.
    #[must_use]
    pub(crate) fn rewrites_equal(&self) -> bool {
        let Self { compare, writing, dry_run, .. } = self;
        compare.ignore_times && writing.inplace && writing.sparse && !dry_run
    }

    /// True if a directory that is not empty is deleted when an entry of another kind takes its place.
    #[must_use]
    pub(crate) fn replaces_full_dirs(&self) -> bool {
        self.delete != Delete::Never || self.remove.force
    }
}

/// The user's request for compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionRequest {
    /// The sender chooses for its link. Without a link, literals stay uncompressed.
    ForLink,
    /// The sender chooses for its link. Without a link, the usual level is used (`-z`).
    ForLinkOrUsual,
    /// All literals are compressed at this level, from 1 (`--compress-level`).
    Level(u32),
    /// Literals stay uncompressed (`--compress-choice=none`).
    Never,
}

/// Bounds on the deletion of names that the sender does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delete {
    /// Delete nothing.
    #[default]
    Never,
    /// Delete unless the source is empty; delete all names or, above the guard's limit, nothing. A deletion above the
    /// limit is more often an accident than a wish.
    Guarded(Guard),
    /// Delete at most this many names (`--max-delete`), and nothing if the source is empty. `u64::MAX` means no limit
    /// (`--force-delete`).
    AtMost(u64),
}

/// Number of deletions above which a run is more likely an accident than intended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Allowed share of the destination's names, in percent (`--max-delete 10%`). Default: [`GUARDED_PERCENT`], and
    /// at least [`GUARDED_DELETES`] names.
    pub percent: Option<u8>,
    /// Number of names at the destination, given where the list covers only a part of them, as in a round of a watch.
    pub names: Option<u64>,
}

impl Guard {
    /// Returns the largest allowed number of deletions. `there` is the number of names at the destination as far as
    /// the list tells.
    #[must_use]
    pub(crate) fn max_deletions(self, there: u64) -> u64 {
        let there = self.names.unwrap_or(there);
        let share = |percent: u8| {
            let share = u128::from(there) * u128::from(percent) / 100;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        match self.percent {
            Some(percent) => share(percent),
            None => share(GUARDED_PERCENT).max(GUARDED_DELETES),
        }
    }
}
