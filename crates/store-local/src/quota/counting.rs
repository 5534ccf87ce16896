//! Steps of a store that take or give back space.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use deltic_store::StoreError;
use deltic_tree::RelPath;
use rustix::fs::{self, FileType, Stat};
use rustix::io::Errno;

use super::{LEFT, Left, Reserved, Share};
use crate::errno::At;
use crate::inner::Inner;
use crate::lock;
use crate::place::Place;
use crate::snapshot::{file_type, inode_of};

/// The turn of who changes what is at a place.
fn turn(place: &Place) -> Result<&'static Mutex<()>, Errno> {
    static TURNS: [Mutex<()>; 256] = [const { Mutex::new(()) }; 256];
    let (_, number) = inode_of(&fs::fstat(&place.dir)?);
    let hash = (place.name.as_bytes().iter())
        .fold(number, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    Ok(&TURNS[(hash % TURNS.len() as u64) as usize])
}

impl Inner {
    /// Reserves bytes for a new name at `path`.
    ///
    /// # Errors
    /// [`StoreError::Full`] where the quota of the volume has not so much left.
    pub(crate) fn reserve(&self, path: &RelPath, bytes: u64) -> Result<Reserved, StoreError> {
        self.policy
            .quota
            .as_ref()
            .map_or(Ok(Reserved::default()), |quota| quota.reserve(path, bytes))
    }

    /// Reserves a name at `place`, if nothing is there.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn reserve_name(&self, place: &Place) -> Result<Reserved, StoreError> {
        match self.policy.quota.is_some() && place.dir.find(&place.name) == Ok(None) {
            true => self.reserve(&place.path, 0),
            false => Ok(Reserved::default()),
        }
    }

    /// The same for an unfinished file that somebody goes on with, of which the disk has this much.
    pub(crate) fn reserve_again(
        &self,
        path: &RelPath,
        (stat, bytes): (&Stat, u64),
    ) -> Result<Reserved, StoreError> {
        let left = lock(&LEFT).remove(&inode_of(stat));
        let reserved = match left {
            Some(Left { quota, bytes }) => {
                Reserved(Some(Share { quota, bytes, unwritten: AtomicU64::new(0) }))
            }
            None => self.reserve(path, bytes)?,
        };
        reserved.wrote(stat.st_blocks as u64 * 512);
        Ok(reserved)
    }

    /// True if names that go are counted.
    pub(crate) fn counts(&self) -> bool {
        self.policy.quota.as_ref().is_some_and(|quota| quota.counts())
    }

    /// Calls `then`, which replaces or removes what is at `place`, and gives back what that held, unless it is kept.
    pub(crate) fn counting(
        &self,
        place: &Place,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(quota) = self.policy.quota.as_ref().filter(|quota| quota.counts()) else {
            return then();
        };
        let _turn = lock(turn(place).at("count", &place.path)?);
        let old = place.dir.find(&place.name).at("count", &place.path)?;
        then()?;
        if let Some(old) = old {
            let kept = match file_type(&old) {
                FileType::Directory => false,
                FileType::RegularFile => self.old.versions.is_some() || self.old.backup.is_some(),
                _ => self.old.backup.is_some(),
            };
            if !kept {
                quota.gone(&old);
            }
        }
        Ok(())
    }

    /// Takes it that an entry is gone that no [count](Self::counting) saw.
    pub(crate) fn gone(&self, old: &Stat) {
        if let Some(quota) = self.policy.quota.as_ref().filter(|quota| quota.counts()) {
            quota.gone(old);
        }
    }
}
