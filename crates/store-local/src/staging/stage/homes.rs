//! Chooses the *home* of a place: the directory that contains the staging directory for the place.

use std::sync::Arc;

use deltic_store::StoreError;
use deltic_tree::RelPath;
use rustix::fs::{self, Access, AtFlags};
use rustix::io::Errno;

use super::realm::Realm;
use super::{StageOwner, Stages};
use crate::handles::dir::Dir;
use crate::handles::place::{COMMIT, Place};
use crate::kernel::errno::At;
use crate::kernel::lock;

impl Stages {
    /// True unless it is known that a rename from the root's staging directory to `place` fails.
    fn is_reachable_from_root(&self, place: &Place) -> Result<bool, StoreError> {
        let to = Realm::of(&place.dir, self.system).at(COMMIT, &place.path)?;
        Ok(self.realm.can_rename_to(to))
    }

    /// True if a file staged in `home` can be renamed to `place`, as far as is known.
    pub(crate) fn is_reachable_from(
        &self,
        home: &RelPath,
        place: &Place,
    ) -> Result<bool, StoreError> {
        match self.whose {
            StageOwner::Own => Ok(self.home_of(place)? == *home),
            StageOwner::Temp => self.is_reachable_from_root(place),
        }
    }

    /// Returns the staging directory beside `place`. From now on, files for the directory of `place` and for
    /// directories below are staged there, since the kernel refused a rename from elsewhere.
    ///
    /// # Errors
    /// `XDEV` if the directory of `place` is the root: there is no other staging directory.
    pub(crate) fn open_beside(&self, place: &Place) -> Result<Arc<Dir>, Errno> {
        let home = &place.dir_path;
        if home.is_root() {
            return Err(Errno::XDEV);
        }
        let dir = self.open_or_create(home)?;
        lock(&self.parted).insert(home.clone());
        self.last.clear();
        self.note_home(place, home.clone());
        Ok(dir)
    }

    /// Returns the directory that has the staging directory for `place`.
    pub(super) fn home_of(&self, place: &Place) -> Result<RelPath, StoreError> {
        if self.whose == StageOwner::Temp {
            return Ok(RelPath::root());
        }
        if let Some(home) = self.last.fact_about(&place.dir_path) {
            return Ok(home);
        }
        let is_here = self.is_reachable_from_root(place)?
            && !self.is_root_closed()
            && !self.is_known_unreachable(place);
        let home = if is_here { RelPath::root() } else { place.dir_path.clone() };
        self.note_home(place, home.clone());
        Ok(home)
    }

    fn note_home(&self, place: &Place, home: RelPath) {
        if !home.is_root() {
            lock(&self.homes).entry(home.clone()).or_default();
        }
        self.last.store_fact(&place.dir_path, home);
    }

    /// True if the directory of `place` was [parted](Self::open_beside) from the root: by this run, or by a killed run that
    /// left a staging directory there.
    fn is_known_unreachable(&self, Place { dir_path, .. }: &Place) -> bool {
        let parted = lock(&self.parted);
        if !parted.is_empty() && parted.iter().any(|parted| dir_path.starts_with(parted)) {
            return true;
        }
        drop(parted);
        !dir_path.is_root() && self.open_own(dir_path).is_ok()
    }

    /// Returns the directories with staging directories that may hold a leftover for `place`. A file that was begun
    /// before its directory was parted is in the staging directory of the root.
    pub(super) fn homes_for(&self, place: &Place) -> Result<Vec<RelPath>, StoreError> {
        let home = self.home_of(place)?;
        let root = (!home.is_root()).then(RelPath::root);
        Ok([Some(home), root].into_iter().flatten().collect())
    }

    /// True if this user may create no file in the root, and has no staging directory there.
    fn is_root_closed(&self) -> bool {
        *self.is_closed.get_or_init(|| {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            let may = fs::accessat(&*self.root, ".", access, AtFlags::EACCESS);
            let may_not = matches!(may, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS));
            may_not && self.open_own(&RelPath::root()).is_err()
        })
    }
}
