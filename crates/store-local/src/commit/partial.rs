//! Unfinished new versions that users can see (`--partial-dir`).
//!
//! A new version grows in the staging directory. From its first bytes on, the staged file has a hard link in the
//! partial directory. So users can see and take the file even if the run fails. The link is removed just before the
//! commit. A run that is killed in between leaves a staged file, which the next run resumes. The partial directory
//! never has a link to a file that is in place.

use deltic_tree::Name;
use deltic_tree::meta::Inode;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::state::StoreState;
use super::writing::PartialDir;
use crate::handles::dir::{Dir, Use};
use crate::handles::place::Place;
use crate::handles::stat::{file_type, inode_of};
use crate::read::snapshot::LocalSnapshot;

/// Treatment of another file that has the name in the partial directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// The other file keeps the name. The other file may be an open old version, and removing its name would look like
    /// a change.
    Stays,
    /// The other file loses the name.
    Goes,
}

impl StoreState {
    /// Links the staged file for `place` into the partial directory, if the run has one. The staged file is the entry
    /// `staged` of `from`. Errors are ignored: the staged file is kept in any case.
    pub(crate) fn link_partial(&self, place: &Place, from: &Dir, staged: &Name, other: Other) {
        if let Some(partial) = &self.writing.partial_dir {
            let other = if self.old.versions.is_some() { Other::Stays } else { other };
            let _ = partial.link_file(place, from, staged, other);
        }
    }

    /// Removes the file for `place` from the partial directory: a link to `staged`, or a file of an earlier run. In a
    /// volume that keeps versions, a file of an earlier run stays, since it may be any file of the volume.
    pub(crate) fn remove_partial(&self, place: &Place, staged: Inode) -> Result<(), Errno> {
        let other = if self.old.versions.is_some() { Other::Stays } else { Other::Goes };
        self.writing
            .partial_dir
            .as_ref()
            .map_or(Ok(()), |partial| partial.remove_file(place, staged, other))
    }
}

impl PartialDir {
    fn link_file(
        &self,
        place: &Place,
        from: &Dir,
        staged: &Name,
        other: Other,
    ) -> Result<(), Errno> {
        let dir = match self.open_dir(place) {
            Err(Errno::NOENT) => {
                self.make_last_dir(place)?;
                self.open_dir(place)?
            }
            opened => opened?,
        };
        match from.link(staged, &dir, &place.name) {
            Err(Errno::EXIST) if other == Other::Goes => {
                dir.remove_file(&place.name)?;
                from.link(staged, &dir, &place.name)
            }
            linked => linked,
        }
    }

    /// Removes the file for `place` from the partial directory. Also removes the directory if it is beside `place` and
    /// empty. Fails if the link to `staged` stays. Another file may stay: it does no harm, and can serve as an old
    /// version.
    fn remove_file(&self, place: &Place, staged: Inode, other: Other) -> Result<(), Errno> {
        let dir = match self.open_dir(place) {
            // No file was linked if the directory is missing or inaccessible.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
            opened => opened?,
        };
        let may_go = other == Other::Goes
            || dir.stat_if_exists(&place.name)?.is_none_or(|stat| inode_of(&stat) == staged);
        if may_go
            && let Err(errno) = dir.remove_file(&place.name)
            && dir.stat(&place.name).is_ok_and(|stat| inode_of(&stat) == staged)
        {
            return Err(errno);
        }
        if let Some((above, name)) = self.parent_beside(place)? {
            // The directory stays if it has other files.
            let _ = above.remove_dir(&name);
        }
        Ok(())
    }

    /// Returns device and inode of the file for `place` in the partial directory.
    pub(crate) fn inode_in_partial(&self, place: &Place) -> Option<Inode> {
        self.open_dir(place).and_then(|dir| dir.stat(&place.name)).ok().map(|stat| inode_of(&stat))
    }

    /// Opens the file for `place` in the partial directory.
    pub(crate) fn open_partial(&self, place: &Place) -> Option<LocalSnapshot> {
        let dir = self.open_dir(place).ok()?;
        let stat = dir.stat_if_exists(&place.name).ok()??;
        if !file_type(&stat).is_file() {
            return None;
        }
        let file = dir.open(&place.name, OFlags::RDONLY).ok()?;
        LocalSnapshot::from_open_file(file, &place.path, place.dir.shared()).ok()?
    }

    fn open_dir(&self, place: &Place) -> Result<Dir, Errno> {
        match self {
            Self::Beside(path) => place.dir.open_dir(path, Use::Read),
            Self::Outside(dir) => dir.open(),
        }
    }

    /// Creates the last directory of the path. A directory beside `place` is accessible by its owner only.
    fn make_last_dir(&self, place: &Place) -> Result<(), Errno> {
        match (self, self.parent_beside(place)?) {
            (_, Some((above, name))) => match above.make_dir(&name, Mode::RWXU) {
                Err(Errno::EXIST) => Ok(()),
                made => made,
            },
            (Self::Outside(dir), None) => dir.make_dir(Mode::from_raw_mode(0o777)).map(drop),
            (Self::Beside(_), None) => Err(Errno::INVAL),
        }
    }

    /// Returns the parent of the partial directory that is beside `place`, and the directory's name there.
    fn parent_beside(&self, place: &Place) -> Result<Option<(Dir, Name)>, Errno> {
        let Self::Beside(path) = self else { return Ok(None) };
        let Some((above, name)) = path.split_last() else { return Ok(None) };
        Ok(Some((place.dir.open_dir(&above, Use::Pass)?, name)))
    }
}
