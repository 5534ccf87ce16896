//! Open versions of files.

use std::ops::Range;

use deltic_core::{StoredSums, SumKind};
use deltic_tree::{Meta, Timestamp};

use crate::{Extents, StoreError};

/// A version of a file, held open.
pub trait Snapshot: Send + Sync + 'static {
    /// Metadata of the file when it was opened.
    fn meta(&self) -> &Meta;

    /// Fills `buf` with the bytes from offset `start`. Returns less than the length of `buf` only at the end of the
    /// file.
    ///
    /// # Errors
    /// If the bytes cannot be read; [`StoreError::Short`] if they end before the length in [`Self::meta`], as for
    /// files that a kernel generates on reading.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError>;

    /// Announces the ranges that will be read, ascending and disjoint. A store behind a network may start to fetch
    /// them. Returns the number of bytes that need no fetch, because the old version at the destination has them at
    /// other offsets.
    fn will_read(&self, ranges: &[Range<u64>]) -> u64 {
        let _ = ranges;
        0
    }

    /// Checks that all bytes read so far are of one version.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file is no longer the version that was opened.
    fn check_unchanged(&self) -> Result<(), StoreError>;

    /// Checks that all bytes read so far are of one version, and that no program was writing to the file.
    ///
    /// # Errors
    /// [`StoreError::Changed`] as [`Snapshot::check_unchanged`]; [`StoreError::InUse`] if the file
    /// [may be written](Snapshot::may_be_written).
    fn check_settled(&self) -> Result<(), StoreError> {
        self.check_unchanged()
    }

    /// True if a program may have been writing to the file when the file was opened. A write under way changes the
    /// bytes that are read, but not the version. A second read finds the change.
    fn may_be_written(&self) -> bool {
        false
    }

    /// Waits until a write that was under way when the file was opened must have changed the version. Does not wait for
    /// a write that never ends. Returns true if no program has the file open for writing afterwards: all bytes read
    /// from now on belong to one version.
    fn wait_for_writes(&self) -> bool {
        true
    }

    /// Returns the present length of the file in bytes, for files that may be changed in place.
    ///
    /// # Errors
    /// If the length cannot be determined.
    fn len_now(&self) -> Result<u64, StoreError> {
        Ok(self.meta().len)
    }

    /// True if the file got more hard links since it was opened and shows no other change. A new link changes the
    /// change time, so other changes may be hidden.
    ///
    /// # Errors
    /// If the file cannot be examined.
    fn only_got_names(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// True if the file has several hard links.
    fn has_other_names(&self) -> bool {
        false
    }

    /// True if this snapshot is of `version`, which must be a reliable version.
    fn has_version(&self, version: Version) -> bool {
        self.identity() == Some(version)
    }

    /// Returns the version, if the store guarantees that no other content has the same version: neither this file nor
    /// another file, now or later. `None` without this guarantee.
    fn identity(&self) -> Option<Version> {
        None
    }

    /// Returns the ranges of this version that hold data, ascending and disjoint. All other bytes are holes, which
    /// read as zeros and take no time to read. `None` if no hole is known.
    ///
    /// # Errors
    /// If the ranges cannot be read.
    fn data_runs(&self) -> Result<Option<Vec<Range<u64>>>, StoreError> {
        Ok(None)
    }

    /// Returns the storage of each part of this version. Written bytes are flushed first, so that the extents match the
    /// bytes of a read. `None` if the store has no extents, or no reliable ones.
    ///
    /// A caller that keeps extents with a digest asks for the extents first, then reads the content. If an undetected
    /// change happens between the two steps, the changed part is read a second time. In the other order the change
    /// would be missed.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file is no longer the version that was opened.
    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        Ok(None)
    }

    /// Returns the reason for missing extents, as the end of a message that begins `cannot tell where its bytes lie:`.
    fn missing_extents_reason(&self) -> String {
        "this store has no extents".to_owned()
    }

    /// Returns the kind of block sums that the store keeps. This file may have no sums.
    fn sum_kind(&self) -> Option<SumKind> {
        None
    }

    /// Returns the sums that the store keeps of the blocks of `range`. The sums match the bytes of a read, since
    /// written bytes are flushed first. Takes memory for each block of the range. `None` if the store keeps no sums.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file is no longer the version that was opened.
    fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
        let _ = range;
        Ok(None)
    }

    /// Returns the fs-verity digest of this version (SHA-256, blocks of 4 KiB, no salt). Each read is checked against
    /// the digest, so all reads return the same bytes. `None` if the store has no digest.
    fn verity(&self) -> Option<[u8; 32]> {
        None
    }
}

/// Identifies a version of a file, in a form that every store can provide. If two values are equal, the contents are
/// equal.
///
/// Times are of the store's own clock. They matter only for a store that may reuse a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Identifies the file in its store, or this version of the file.
    pub token: VersionToken,
    /// Length in bytes.
    pub len: u64,
    /// Modification time of the content. Anyone with write access can set it.
    pub modified: Timestamp,
    /// Time of the last change of any kind. Two changes in one tick of the clock have the same time.
    pub changed: Timestamp,
}

/// Bytes chosen by the store: an inode, a generation, a hash of an entity tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionToken(pub [u8; 32]);
