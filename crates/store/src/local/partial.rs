//! New versions that are not complete, where everybody sees them (`--partial-dir`).
//!
//! A new version grows in the staging directory as ever. From its first bytes on it has a second name, so that it can be
//! seen, and taken, whatever becomes of the run; with its commit that name goes.

use deltic_core::{Name, RelPath};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::place::Place;
use super::snapshot::{LocalSnapshot, file_type};
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

impl PartialDir {
    /// Gives `staged` of `from`, which is for `place`, its second name.
    pub(super) fn show(
        &self,
        root: &Dir,
        place: &Place,
        (from, staged): (&Dir, &Name),
        other: Other,
    ) -> Result<(), Errno> {
        let dir = match self.open(place) {
            Err(Errno::NOENT) => {
                self.make(root, place)?;
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

    /// Takes the second name of what was for `place` away, and the directory if it is beside it and empty.
    pub(super) fn hide(&self, root: &Dir, place: &Place) {
        let Ok(dir) = self.open(place) else { return };
        // What stays is of no harm: something to match against.
        let _ = dir.remove_file(&place.name);
        if let Some((above, name)) = self.beside(place) {
            let _ = root.dir(&above, Use::Pass).and_then(|above| above.remove_dir(&name));
        }
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
    fn make(&self, root: &Dir, place: &Place) -> Result<(), Errno> {
        match self.beside(place) {
            Some((above, name)) => match root.dir(&above, Use::Pass)?.make_dir(&name, Mode::RWXU) {
                Err(Errno::EXIST) => Ok(()),
                made => made,
            },
            None => match self {
                Self::Outside(dir) => dir.make(),
                Self::Beside(_) => Err(Errno::INVAL),
            },
        }
    }

    /// The directory above the one of `place`, and its name there.
    fn beside(&self, place: &Place) -> Option<(RelPath, Name)> {
        let Self::Beside(path) = self else { return None };
        let mut all = place.dir_path.clone();
        for name in path.components() {
            all = all.join(&Name::new(name).ok()?).ok()?;
        }
        all.split_last()
    }
}
