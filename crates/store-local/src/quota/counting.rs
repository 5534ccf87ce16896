//! Steps of a store that take or free space.

use std::sync::Arc;

use deltic_store::StoreError;
use deltic_tree::RelPath;
use rustix::fs::{FileType, Stat};

use super::{FileSize, Quota, Reserved, Whose, one};
use crate::errno::At;
use crate::holes::bytes_on_disk;
use crate::inner::Inner;
use crate::lock;
use crate::named::NamedDir;
use crate::place::{Place, Turn};
use crate::stat::{file_type, inode_of};

impl Reserved {
    /// Reserves the name of the directory `dir`, in the quota of the volume and in `quotas`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room.
    pub(crate) fn of_dir(dir: &NamedDir, quotas: &[Arc<Quota>]) -> Result<Self, StoreError> {
        let all: Vec<_> = Quota::of_dir(dir, quotas).collect();
        Self::in_all(&all, &RelPath::root(), FileSize::full(0), 1)
    }

    /// Reserves room for a file and for `names` further names in each of these quotas.
    fn in_all(
        quotas: &[Arc<Quota>],
        path: &RelPath,
        size: FileSize,
        names: u64,
    ) -> Result<Self, StoreError> {
        let mut reserved = Self::default();
        for quota in quotas {
            reserved.0.push(quota.reserve(path, size, names)?);
        }
        Ok(reserved)
    }
}

impl Quota {
    /// Counts the directory `dir`, which was [reserved](Reserved::of_dir), as removed.
    pub(crate) fn dir_gone(dir: &NamedDir, quotas: &[Arc<Self>]) {
        Self::of_dir(dir, quotas).for_each(|quota| lock(&quota.used).settled.remove(one(0)));
    }

    fn of_dir(dir: &NamedDir, quotas: &[Arc<Self>]) -> impl Iterator<Item = Arc<Self>> {
        dir.context.quota_at(&dir.path).into_iter().chain(quotas.iter().cloned())
    }
}

impl Inner {
    /// Reserves bytes for a new name at `path`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has less room left.
    pub(crate) fn reserve(&self, path: &RelPath, bytes: u64) -> Result<Reserved, StoreError> {
        Reserved::in_all(&self.policy.quotas, path, FileSize::full(bytes), 1)
    }

    /// Reserves room at `place` for a file that may have holes. Holes need room too if the file system does not
    /// support holes (exFAT) and stores the whole length. The file's name is reserved too, unless an entry of that name
    /// is there and is not kept: then [`Reserved::take_name`] reserves the name at the commit.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_size(
        &self,
        place: &Place,
        size: FileSize,
    ) -> Result<Reserved, StoreError> {
        let asks = size.data < size.len && !self.policy.quotas.is_empty();
        let is_full = asks && !self.stages.makes_holes(place)?;
        let size = if is_full { FileSize::full(size.len) } else { size };
        Reserved::in_all(&self.policy.quotas, &place.path, size, self.further_names(place))
    }

    /// Returns the number of further names that a file at `place` needs: 0 if the file replaces an entry that is not
    /// kept as an old version.
    fn further_names(&self, place: &Place) -> u64 {
        let is_counted = self.counts() && !self.keeps_old();
        u64::from(!is_counted || !matches!(place.dir.find(&place.name), Ok(Some(_))))
    }

    /// Reserves a name at `place`, if there is no entry.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_name(&self, place: &Place) -> Result<Reserved, StoreError> {
        match !self.policy.quotas.is_empty() && place.dir.find(&place.name) == Ok(None) {
            true => self.reserve(&place.path, 0),
            false => Ok(Reserved::default()),
        }
    }

    /// Reserves `bytes` at `place` for the unfinished file `stat` that is resumed. Takes over reservations left with
    /// the file, and counts its bytes on disk as written.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_again(
        &self,
        place: &Place,
        (stat, bytes): (&Stat, u64),
    ) -> Result<Reserved, StoreError> {
        let mut reserved = self.policy.space.take(inode_of(stat)).unwrap_or_default();
        for quota in &self.policy.quotas {
            if reserved.0.iter().any(|share| Arc::ptr_eq(&share.quota, quota)) {
                continue;
            }
            match quota.reserve(&place.path, FileSize::full(bytes), self.further_names(place)) {
                Ok(share) => reserved.0.push(share),
                Err(error) => {
                    // The reservation stays with the file, for a session that has room.
                    reserved.leave(inode_of(stat), &self.policy.space);
                    return Err(error);
                }
            }
        }
        reserved.wrote(bytes_on_disk(stat));
        Ok(reserved)
    }

    /// True if a quota counts removed names.
    pub(crate) fn counts(&self) -> bool {
        self.policy.quotas.iter().any(|quota| quota.counts())
    }

    /// Calls `then`, which replaces or removes the entry at the place. Then frees the entry's space in the quotas,
    /// unless the old version is kept.
    pub(crate) fn counting(
        &self,
        Turn { place, .. }: &Turn<'_>,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if !self.counts() {
            return then();
        }
        let old = place.dir.find(&place.name).at("count", &place.path)?;
        then()?;
        let Some(old) = old else { return Ok(()) };
        for quota in self.counting_quotas() {
            let has_versions = quota.whose == Whose::Volume && self.old.versions.is_some();
            let kept = match file_type(&old) {
                FileType::Directory => false,
                FileType::RegularFile => has_versions || self.old.backup.is_some(),
                _ => self.old.backup.is_some(),
            };
            if !kept {
                quota.gone(&old);
            }
        }
        Ok(())
    }

    /// Counts an entry as removed that was not removed within [`Self::counting`].
    pub(crate) fn gone(&self, old: &Stat) {
        self.counting_quotas().for_each(|quota| quota.gone(old));
    }

    fn counting_quotas(&self) -> impl Iterator<Item = &Arc<Quota>> {
        self.policy.quotas.iter().filter(|quota| quota.counts())
    }
}
