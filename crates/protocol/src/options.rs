//! Options of a session: the meaning of the command line, sent once after the hello.

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
    /// Compare content where size and time agree (`-c`).
    pub checksum: bool,
    /// Send changed files whole instead of by recipe (`-W`).
    pub whole_file: bool,
    /// Owners of entries, and other metadata.
    pub metadata: Metadata,
    /// Say what would change, change nothing (`-n`).
    pub dry_run: bool,
    /// Tell what is up to date, too (`-ii`, `-vv`).
    pub tells_unchanged: bool,
    /// Tell whose at the sender is what changes (`%U`, `%G`).
    pub tells_owners: bool,
    /// Tell the digest of what changes, where this end knows it (`%C`). The other end does not hear of it.
    pub tells_digests: bool,
    /// Remove names that the sender does not have (`--delete`).
    pub delete: Delete,
    /// Compress literals with zstd (`-z`).
    pub compress: bool,
    /// Level of zstd (`--compress-level`), up to [`MAX_LEVEL`](crate::limits::MAX_LEVEL); 0 is its own default.
    pub compress_level: u32,
    /// Flush files and directories to the disk before the run counts as done; off with `--no-fsync`.
    pub durable: bool,
    /// Threads that each end computes with (`--threads`), as far as its machine bears them; 0 for as many as it has
    /// processors.
    pub threads: u32,
    /// Streams of the session (`--streams`), the first among them; 0 is one as well. More only where both ends
    /// [know how](crate::hello::Common::streams).
    pub streams: u32,
    /// Longest silence of either end (`--timeout`), in seconds; 0 for ever. Each that is at work
    /// says something three times meanwhile.
    pub silence: u32,
    /// Strategy of files that do not go whole (`--strategy`).
    pub strategy: Strategy,
    /// Mean length of its chunks, or blocks, in bytes, if not its own (`--block-size`); up to
    /// [`MAX_BLOCK_BYTES`](crate::limits::MAX_BLOCK_BYTES).
    pub block_bytes: Option<u32>,
    /// Rules for names that are sent, and that may be deleted.
    pub rules: Rules,
    /// Treatment of symlinks, besides [`links`](Self::links).
    pub follow: Links,
    /// Removals besides, and backups of what is removed.
    pub remove: Remove,
    /// Selection among the sources.
    pub select: Select,
    /// Conditions for a file to count as changed.
    pub compare: Compare,
    /// Ways of writing files.
    pub writing: Writing,
}

impl Options {
    /// The strategy, with chunks of the length that was asked for.
    #[must_use]
    pub fn way(&self) -> Strategy {
        self.block_bytes.map_or(self.strategy, |bytes| self.strategy.with_mean(bytes))
    }

    /// Returns true for a kind of entries that is brought over.
    #[must_use]
    pub(crate) const fn takes(&self, kind: &Kind) -> bool {
        match kind {
            Kind::File => true,
            Kind::Dir => self.recursive || self.select.dirs || self.select.relative,
            Kind::Symlink(_) => self.links,
            Kind::Fifo | Kind::Socket => self.metadata.specials,
            Kind::Device(_) => self.metadata.devices,
        }
    }

    /// Returns true where the user may be asked before many names are removed.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.remove.asks && matches!(self.delete, Delete::Guarded(_)) && !self.dry_run
    }

    /// Returns true where sources may go before all of them have arrived: nothing that goes is looked at
    /// again for the sake of another name, neither of the same file nor of a link that is followed to it, and nothing
    /// waits for its own name until the end.
    #[must_use]
    pub(crate) fn sources_go_early(&self) -> bool {
        let Self { remove, metadata, follow, writing, dry_run, .. } = self;
        let alone = !metadata.hard_links && follow.follow == Follow::Never;
        remove.sources && alone && !writing.delay && !dry_run
    }

    /// True if files that find no room wait for what is deleted: no other name, nor their source, waits for them until
    /// then.
    #[must_use]
    pub(crate) fn deletes_for_room(&self) -> bool {
        let waits = self.metadata.hard_links || self.writing.delay || self.remove.sources;
        self.delete != Delete::Never && !self.dry_run && !waits
    }

    /// Returns true where full directories give way to other entries.
    #[must_use]
    pub(crate) fn clears(&self) -> bool {
        self.delete != Delete::Never || self.remove.force
    }
}

/// Bounds on the removal of names that the sender does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delete {
    /// Never.
    #[default]
    Never,
    /// Yes, but not from an empty source, and all or nothing: more names than this allows are an accident more often
    /// than a wish.
    Guarded(Guard),
    /// Yes, but no more names than this (`--max-delete`), and none from an empty source; without a limit if that is the
    /// highest number (`--force-delete`).
    AtMost(u64),
}

/// The number of deletions that looks like an accident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// This share of the destination's names, in percent (`--max-delete 10%`). By default it is
    /// [`GUARDED_PERCENT`], and at least [`GUARDED_DELETES`].
    pub percent: Option<u8>,
    /// The number of these names where the list is a part of them only, as in a round of a watch.
    pub names: Option<u64>,
}

impl Guard {
    /// The most names that may go of `there`, the number at the destination as far as the list tells.
    #[must_use]
    pub(crate) fn most(self, there: u64) -> u64 {
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
