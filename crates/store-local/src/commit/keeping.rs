//! Keeps a version of a file before a store replaces or removes the file.

use std::sync::Arc;

use deltic_store::StoreError;
use deltic_tree::meta::Inode;
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::commit::state::StoreState;
use crate::handles::dir::{Dir, Use};
use crate::handles::place::Place;
use crate::handles::stat::{file_type, inode_of};
use crate::keep::versions::{KEEP, OldVersions, VersionId, ids, path_lock};
use crate::kernel::clock::Clocks;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::staging::stage::new_name;
use deltic_tree::{Name, RelPath};

impl StoreState {
    /// Calls `then`, which replaces or removes the entry at `place`. Before, keeps a version of a file, if the volume
    /// keeps versions.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if `was` is set and another file is at the place.
    pub(crate) fn keep_version(
        &self,
        place: &Place,
        was: Option<Inode>,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(versions) = &self.old.versions else { return then() };
        let path = versions.path_in_volume(&place.path).at(KEEP, &place.path)?;
        let _turn = lock(path_lock(&path));
        let found = place.dir.stat_if_exists(&place.name).at(KEEP, &place.path)?;
        let Some(old) = found.filter(|found| file_type(found).is_file()) else { return then() };
        if was.is_some_and(|was| was != inode_of(&old)) {
            return Err(StoreError::Conflict { path: place.path.clone() });
        }
        // Another run may remove an empty directory of versions meanwhile.
        let mut tries = 0;
        let (dir, mut ids) = loop {
            tries += 1;
            match self.add_version(versions, place, &old, &path) {
                Err(Errno::NOENT) if tries < 3 => {}
                Err(Errno::STALE | Errno::BUSY) => {
                    return Err(StoreError::Conflict { path: place.path.clone() });
                }
                added => break added.at(KEEP, &place.path)?,
            }
        };
        versions.touched.add(&path);
        let done = then();
        if done.is_err() {
            let newest = ids.pop().expect("it was added");
            // The remaining version is a further name of the present file if this fails.
            let _ = dir.remove_file(&newest.name());
        }
        // Versions that cannot be removed now are removed later.
        let _ = versions.remove_expired(&dir, &ids);
        done
    }

    /// Keeps a version of the file `name` of `dir`, an older backup that is about to be replaced, if the volume keeps
    /// versions. This path is not locked, since the caller has the lock of another path.
    pub(crate) fn keep_replaced_backup(&self, dir: &Dir, name: &Name) -> Result<(), Errno> {
        let Some(versions) = &self.old.versions else { return Ok(()) };
        let found = dir.stat_if_exists(name)?.filter(|found| file_type(found).is_file());
        let Some(old) = found else { return Ok(()) };
        let dir_path = versions.path_of_dir(dir).ok_or(Errno::INVAL)?;
        let path = dir_path.join(name).map_err(|_| Errno::NAMETOOLONG)?;
        let dir = Arc::new(dir.open_dir(&RelPath::root(), Use::Pass)?);
        let place = Place { path: path.clone(), dir, dir_path, name: name.clone() };
        let (kept, ids) = self.add_version(versions, &place, &old, &path)?;
        versions.touched.add(&path);
        // Versions that cannot be removed now are removed later.
        let _ = versions.remove_expired(&kept, &ids);
        Ok(())
    }

    /// Adds the `old` file at `place` as the newest version. Returns the directory with all versions of the file, and
    /// the list of versions.
    fn add_version(
        &self,
        versions: &OldVersions,
        place: &Place,
        old: &Stat,
        path: &RelPath,
    ) -> Result<(Dir, Vec<VersionId>), Errno> {
        let dir = versions.open_or_create(path)?;
        let mut ids = ids(&dir)?;
        let newest = ids.last().map_or(0, |id| id.0.saturating_add(1));
        let now = versions.history.clock.version_name_time(Clocks::now());
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let id = VersionId(now.max(newest));
        match place.link_to(&dir, &id.name(), inode_of(old)) {
            Ok(()) => {}
            Err(Errno::XDEV | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::MLINK) => {
                // A complete copy gets the version's name.
                let own = new_name(path);
                let copied = self.copy_away(place, &dir, &own);
                copied.and_then(|()| dir.rename_new(&own, &dir, &id.name())).inspect_err(|_| {
                    let _ = dir.remove_file(&own);
                })?;
            }
            Err(errno) => return Err(errno),
        }
        // After a kill, the last version may be the present file itself.
        let is_old = |last: &VersionId| {
            dir.stat(&last.name()).is_ok_and(|stat| inode_of(&stat) == inode_of(old))
        };
        if let Some(last) = ids.pop_if(|last| is_old(last)) {
            let _ = dir.remove_file(&last.name());
        }
        ids.push(id);
        Ok((dir, ids))
    }
}
