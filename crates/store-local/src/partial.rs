//! New versions that are not complete, where everybody sees them (`--partial-dir`).
//!
//! A new version grows in the staging directory as ever. From its first bytes on it has a second name, so that it can
//! be seen, and taken, whatever becomes of the run. That name goes just before the commit: a run that is killed in
//! between leaves a staged file, which the next run uses, and never a second name of a file that is in place.

use deltic_tree::Name;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::inner::Inner;
use super::place::Place;
use super::snapshot::{LocalSnapshot, file_type, inode_of};
use super::writing::PartialDir;
use crate::dir::{Dir, Use};

/// What has the second name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// It keeps it: it may be what is being matched against, and would count as changed without it.
    Stays,
    /// It loses it.
    Goes,
}

impl Inner {
    /// Gives `staged` of `from`, which is for `place`, its second name, where that is asked for. What cannot be shown
    /// is kept all the same.
    pub(super) fn show_partial(&self, place: &Place, staged: (&Dir, &Name), other: Other) {
        if let Some(partial) = &self.writing.partial_dir {
            let _ = partial.show(place, staged, other);
        }
    }

    /// Takes that name away again, from `staged` or from what an earlier run left there.
    pub(super) fn hide_partial(&self, place: &Place, staged: (u64, u64)) -> Result<(), Errno> {
        self.writing.partial_dir.as_ref().map_or(Ok(()), |partial| partial.hide(place, staged))
    }
}

impl PartialDir {
    fn show(
        &self,
        place: &Place,
        (from, staged): (&Dir, &Name),
        other: Other,
    ) -> Result<(), Errno> {
        let dir = match self.open(place) {
            Err(Errno::NOENT) => {
                self.make(place)?;
                self.open(place)?
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

    /// Takes the second name of what is for `place` away, and the directory if it is beside it and empty. Fails where
    /// `staged` keeps the name. Another file may keep it: it does no harm, and is something to match against.
    fn hide(&self, place: &Place, staged: (u64, u64)) -> Result<(), Errno> {
        let dir = match self.open(place) {
            // Nothing was shown where there is no such directory, or we may not enter it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
            opened => opened?,
        };
        if let Err(errno) = dir.remove_file(&place.name)
            && dir.stat(&place.name).is_ok_and(|stat| inode_of(&stat) == staged)
        {
            return Err(errno);
        }
        if let Some((above, name)) = self.beside(place)? {
            // Others may be shown there.
            let _ = above.remove_dir(&name);
        }
        Ok(())
    }

    /// Which file has the second name of `place`.
    pub(super) fn inode(&self, place: &Place) -> Option<(u64, u64)> {
        self.open(place).and_then(|dir| dir.stat(&place.name)).ok().map(|stat| inode_of(&stat))
    }

    /// What has the second name of `place`.
    pub(super) fn snapshot(&self, place: &Place) -> Option<LocalSnapshot> {
        let dir = self.open(place).ok()?;
        let stat = dir.find(&place.name).ok()??;
        if !file_type(&stat).is_file() {
            return None;
        }
        let file = dir.open(&place.name, OFlags::RDONLY).ok()?;
        LocalSnapshot::of(file, &place.path).ok()?
    }

    fn open(&self, place: &Place) -> Result<Dir, Errno> {
        match self {
            Self::Beside(path) => place.dir.dir(path, Use::Read),
            Self::Outside(dir) => dir.open(),
        }
    }

    /// Makes the last directory, its owner's alone.
    fn make(&self, place: &Place) -> Result<(), Errno> {
        match (self, self.beside(place)?) {
            (_, Some((above, name))) => match above.make_dir(&name, Mode::RWXU) {
                Err(Errno::EXIST) => Ok(()),
                made => made,
            },
            (Self::Outside(dir), None) => dir.make(Mode::from_raw_mode(0o777)).map(drop),
            (Self::Beside(_), None) => Err(Errno::INVAL),
        }
    }

    /// The directory above the one that is beside `place`, and its name there.
    fn beside(&self, place: &Place) -> Result<Option<(Dir, Name)>, Errno> {
        let Self::Beside(path) = self else { return Ok(None) };
        let Some((above, name)) = path.split_last() else { return Ok(None) };
        Ok(Some((place.dir.dir(&above, Use::Pass)?, name)))
    }
}
