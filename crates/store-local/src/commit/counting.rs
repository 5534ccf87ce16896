//! Steps of a store that reserve or free space in quotas.

use deltic_store::StoreError;
use deltic_tree::RelPath;
use rustix::fs::{FileType, Stat};

use super::state::StoreState;
use crate::handles::place::{Place, Turn};
use crate::handles::stat::file_type;
use crate::kernel::errno::At;
use crate::roots::quota::{FileSize, Reserved};

impl StoreState {
    /// Reserves bytes for a new name at `path`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has less room left.
    pub(crate) fn reserve(&self, path: &RelPath, bytes: u64) -> Result<Reserved, StoreError> {
        self.space.reserve(path, FileSize::without_holes(bytes), 1)
    }

    /// Reserves room at `place` for a file that may have holes. On a file system without holes (exFAT), reserves the
    /// whole length. Also reserves the file's name, unless the file replaces an entry that is not kept as an old
    /// version: then [`Reserved::take_name`] reserves the name at the commit.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_size(
        &self,
        place: &Place,
        size: FileSize,
    ) -> Result<Reserved, StoreError> {
        let asks = size.data < size.len && self.space.is_limited();
        let is_full = asks && !self.stages.leaves_holes(place)?;
        let size = if is_full { FileSize::without_holes(size.len) } else { size };
        self.space.reserve(&place.path, size, self.new_name_count(place))
    }

    /// Returns the number of names that a file at `place` adds: 0 if the file replaces an entry that is not kept as an
    /// old version.
    fn new_name_count(&self, place: &Place) -> u64 {
        let is_counted = self.space.counts_removals() && !self.old.keeps_old_versions();
        u64::from(!is_counted || !matches!(place.dir.stat_if_exists(&place.name), Ok(Some(_))))
    }

    /// Reserves a name at `place`, if there is no entry.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_name(&self, place: &Place) -> Result<Reserved, StoreError> {
        match self.space.is_limited() && place.dir.stat_if_exists(&place.name) == Ok(None) {
            true => self.reserve(&place.path, 0),
            false => Ok(Reserved::default()),
        }
    }

    /// Reserves `bytes` at `place` for the unfinished file `stat` that is resumed. Takes over reservations left with
    /// the file, and counts its bytes on disk as written.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn replace_reservation(
        &self,
        place: &Place,
        stat: &Stat,
        bytes: u64,
    ) -> Result<Reserved, StoreError> {
        self.space.reserve_again(&place.path, stat, bytes, self.new_name_count(place))
    }

    /// Calls `then`, which replaces or removes the entry at the place. Afterwards frees the space of the entry in the
    /// quotas, unless the old version is kept.
    pub(crate) fn count_replacement(
        &self,
        Turn { place, .. }: &Turn<'_>,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if !self.space.counts_removals() {
            return then();
        }
        let old = place.dir.stat_if_exists(&place.name).at("count", &place.path)?;
        then()?;
        let Some(old) = old else { return Ok(()) };
        for quota in self.space.quotas_counting_removals() {
            let has_versions = quota.counts_versions() && self.old.versions.is_some();
            let kept = match file_type(&old) {
                FileType::Directory => false,
                FileType::RegularFile => has_versions || self.old.backup.is_some(),
                _ => self.old.backup.is_some(),
            };
            if !kept {
                quota.subtract_removed(&old);
            }
        }
        Ok(())
    }
}
