//! Versions of files, held open.

use std::ops::Range;

use deltic_core::{StoredSums, SumKind};
use deltic_tree::{Meta, Timestamp};

use crate::{Extents, StoreError};

/// One version of a file, held open.
pub trait Snapshot: Send + Sync + 'static {
    /// What the file was when it was opened.
    fn meta(&self) -> &Meta;

    /// Fills `buf` with the bytes from `start`; returns less than its length only at the end of the file.
    ///
    /// # Errors
    /// Where the bytes cannot be read; [`StoreError::Short`] where they end before the length that [`Self::meta`] says,
    /// as of files that a kernel makes up when they are read.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError>;

    /// Says which ranges will be read, ascending and apart: a store that is a network away may begin to fetch them.
    fn will_read(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Checks that all bytes read so far are of one version.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the file is not what was opened any more.
    fn check_unchanged(&self) -> Result<(), StoreError>;

    /// Checks that all bytes read so far are of one version, and that no program was writing to the file.
    ///
    /// # Errors
    /// [`StoreError::Changed`] as [`Snapshot::check_unchanged`]; [`StoreError::InUse`] where
    /// [`may_be_written`](Snapshot::may_be_written).
    fn check_settled(&self) -> Result<(), StoreError> {
        self.check_unchanged()
    }

    /// True if a program may have been writing to the file when the file was opened. A change under way then changes
    /// the bytes that are read, but not the version. A second reading finds such a change.
    fn may_be_written(&self) -> bool {
        false
    }

    /// Waits until a change that was under way at the open shows in the version, if the change ends by itself.
    /// Returns true if no program has the file open for writing by then: all bytes that are read from now on are of
    /// one version.
    fn comes_to_rest(&self) -> bool {
        true
    }

    /// Length in bytes that the file has by now, as far as it can be written to where it is.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn len_now(&self) -> Result<u64, StoreError> {
        Ok(self.meta().len)
    }

    /// True if it is what was opened but for names that it got since, which hide whether it changed besides.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn only_got_names(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// True if the file has other names.
    fn has_other_names(&self) -> bool {
        false
    }

    /// True if this is that version, which can be relied on.
    fn is(&self, version: Version) -> bool {
        self.identity() == Some(version)
    }

    /// What no other version has, of this file or of another one, now or later; `None` where that cannot be relied on.
    fn identity(&self) -> Option<Version> {
        None
    }

    /// The runs of this version that hold data, ascending and apart. All other bytes are holes, which read as zeros
    /// and take no time to read. `None` if the store knows of no hole.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn data_runs(&self) -> Result<Option<Vec<Range<u64>>>, StoreError> {
        Ok(None)
    }

    /// The storage that each part of this version lies in. Bytes that were written are flushed first, so that it is of
    /// what a read gives. `None` where the store has no facts, or none that can be relied on.
    ///
    /// Facts that are kept for a content are taken before that is read. A change that the store does not show between
    /// the two then costs reading it again. Were they taken after, the change would be lost.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the file is not what was opened any more.
    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        Ok(None)
    }

    /// Why there are none, in words that follow `cannot tell where its bytes lie:`.
    fn lack(&self) -> String {
        "this store keeps no such facts".to_owned()
    }

    /// Kind of the sums that the store keeps of blocks of files. Of this one it may have none.
    fn sum_kind(&self) -> Option<SumKind> {
        None
    }

    /// Sums that the store keeps of the blocks of `range`: those of the bytes that a read gives. Bytes that were
    /// written are flushed first. It takes memory for each block of the range. `None` where the store keeps none.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the file is not what was opened any more.
    fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
        let _ = range;
        Ok(None)
    }

    /// The digest that each read of this version is checked against, so that all reads of it give the same: that of
    /// fs-verity, with SHA-256, blocks of 4 KiB and no salt. `None` where the store has none.
    fn verity(&self) -> Option<[u8; 32]> {
        None
    }
}

/// A version of a file. Any store can fill it: two that are equal are of one content.
///
/// Times are of the store's own clock. A store of which no token returns needs none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Tells the file from all others of its store, or this version of it from all others.
    pub token: VersionToken,
    /// Length in bytes.
    pub len: u64,
    /// When its content was changed, as whoever may write to it says.
    pub modified: Timestamp,
    /// When it was changed in any way: another change in the same tick of the clock looks the same.
    pub changed: Timestamp,
}

/// Bytes of a store's own: an inode, a generation, a hash of an entity tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionToken(pub [u8; 32]);
