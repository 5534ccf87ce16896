//! Space that one store reserves and frees, in every quota that applies to the store.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use deltic_store::StoreError;
use deltic_tree::RelPath;
use rustix::fs::Stat;

use super::{
    FileSize, QuotaOwner, QuotaShare, Reserved, SpaceLedger, SpaceQuota, SpaceUsage, name_usage,
};
use crate::bytes::holes::bytes_on_disk;
use crate::handles::stat::inode_of;
use crate::kernel::lock;
use crate::roots::named::NamedDir;

/// Space of one store: the quotas in which the store counts, and the reservations of unfinished files.
#[derive(Debug)]
pub(crate) struct StoreSpace {
    /// Space limits of the volume and of the client.
    quotas: Vec<Arc<SpaceQuota>>,
    /// Reservations of unfinished files.
    pub(crate) ledger: Arc<SpaceLedger>,
}

impl StoreSpace {
    pub(crate) const fn new(quotas: Vec<Arc<SpaceQuota>>, ledger: Arc<SpaceLedger>) -> Self {
        Self { quotas, ledger }
    }

    /// True if a quota limits the store.
    pub(crate) const fn is_limited(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// True if a quota counts removed names.
    pub(crate) fn counts_removals(&self) -> bool {
        self.quotas_counting_removals().next().is_some()
    }

    /// Returns the quotas that count removed names.
    pub(crate) fn quotas_counting_removals(&self) -> impl Iterator<Item = &Arc<SpaceQuota>> {
        self.quotas.iter().filter(|quota| quota.is_counting())
    }

    /// Reserves room for a file at `path` and for `names` further names.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has less room left.
    pub(crate) fn reserve(
        &self,
        path: &RelPath,
        size: FileSize,
        names: u64,
    ) -> Result<Reserved, StoreError> {
        Reserved::in_all(&self.quotas, path, size, names)
    }

    /// Reserves `bytes` and `names` further names for the unfinished file `stat`, which is resumed at `path`. Takes
    /// over the reservation that was left with the file, and counts its bytes on disk as written. With 0 bytes, a full
    /// disk is no error.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_again(
        &self,
        path: &RelPath,
        stat: &Stat,
        bytes: u64,
        names: u64,
    ) -> Result<Reserved, StoreError> {
        let mut reserved = self.ledger.take_pending(inode_of(stat)).unwrap_or_default();
        for quota in &self.quotas {
            if reserved.0.iter().any(|share| Arc::ptr_eq(&share.quota, quota)) {
                continue;
            }
            let reserved_now = match bytes {
                0 => quota.reserve_written(path, 0, names),
                _ => quota.reserve(path, FileSize::without_holes(bytes), names),
            };
            match reserved_now {
                Ok(share) => reserved.0.push(share),
                Err(error) => {
                    // The reservation stays with the file, for a session that has room.
                    reserved.move_to_file(inode_of(stat), &self.ledger);
                    return Err(error);
                }
            }
        }
        reserved.note_written(bytes_on_disk(stat));
        Ok(reserved)
    }

    /// Counts an entry as removed.
    pub(crate) fn subtract_removed(&self, old: &Stat) {
        self.quotas_counting_removals().for_each(|quota| quota.subtract_removed(old));
    }
}

impl Reserved {
    /// Reserves `bytes` in each quota, in place of the bytes reserved before. These bytes are on the disk already, so
    /// they need no free space there.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room.
    pub(crate) fn resize_written(&mut self, path: &RelPath, bytes: u64) -> Result<(), StoreError> {
        for share in &mut self.0 {
            let mut used = lock(&share.quota.used);
            if let Some(more) = bytes.checked_sub(share.bytes) {
                share.quota.check_bytes(*used, path, more)?;
                used.pending.add(SpaceUsage { bytes: more, files: 0 });
            } else {
                used.pending.remove(SpaceUsage { bytes: share.bytes - bytes, files: 0 });
            }
            share.bytes = bytes;
        }
        Ok(())
    }

    /// Reserves the name of the directory `dir`, in the quota of the volume and in `quotas`.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room.
    pub(crate) fn of_dir(dir: &NamedDir, quotas: &[Arc<SpaceQuota>]) -> Result<Self, StoreError> {
        let all: Vec<_> = SpaceQuota::of_dir(dir, quotas).collect();
        Self::in_all(&all, &RelPath::root(), FileSize::without_holes(0), 1)
    }

    /// Reserves room for a file and for `names` further names in each of these quotas.
    fn in_all(
        quotas: &[Arc<SpaceQuota>],
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

impl SpaceQuota {
    /// Reserves room for `bytes` at `path` that are on the disk already, and for `names` further names.
    fn reserve_written(
        self: &Arc<Self>,
        path: &RelPath,
        bytes: u64,
        names: u64,
    ) -> Result<QuotaShare, StoreError> {
        let mut used = lock(&self.used);
        self.check_names(*used, path, names)?;
        self.check_bytes(*used, path, bytes)?;
        used.pending.add(SpaceUsage { bytes, files: names });
        Ok(QuotaShare { quota: Arc::clone(self), bytes, names, unwritten: AtomicU64::new(0) })
    }

    /// Counts the directory `dir`, which was [reserved](Reserved::of_dir), as removed.
    pub(crate) fn count_dir_removed(dir: &NamedDir, quotas: &[Arc<Self>]) {
        Self::of_dir(dir, quotas).for_each(|quota| lock(&quota.used).settled.remove(name_usage(0)));
    }

    /// True if old versions count.
    pub(crate) fn counts_versions(&self) -> bool {
        self.whose == QuotaOwner::Volume
    }

    fn of_dir(dir: &NamedDir, quotas: &[Arc<Self>]) -> impl Iterator<Item = Arc<Self>> {
        dir.context.quota_at(&dir.path).into_iter().chain(quotas.iter().cloned())
    }
}
