//! Directories that options name (`--backup-dir` and its like).
//!
//! Such a path may lead through directories in which others may put symlinks, as a destination that is another user's. So a
//! symlink on the way is followed only if it is the superuser's or our own: what others put there could lead anywhere.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_core::Name;
use deltic_core::path::printable;
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use crate::StoreError;
use crate::dir::{Dir, Led};

/// The directory that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDir {
    /// Where it is.
    pub path: PathBuf,
    /// Whether symlinks on the way are followed, whoever made them (`--insecure-links`).
    pub insecure: bool,
}

impl NamedDir {
    /// Holds it.
    pub(super) fn open(&self) -> Result<Dir, Errno> {
        match self.walk()? {
            Led::To(dir) => Ok(dir),
            Led::Stranger(_) => Err(Errno::LOOP),
        }
    }

    /// Fails where a symlink of another user is on the way, and says which.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.walk() {
            Ok(Led::Stranger(link)) => {
                Err(StoreError::Stranger { link: printable(link.as_os_str().as_bytes()) })
            }
            // What is missing is made, and what else is wrong is said by who uses it.
            Ok(Led::To(_)) | Err(_) => Ok(()),
        }
    }

    /// Makes the last directory of the path, unless there is one.
    pub(super) fn make(&self) -> Result<(), Errno> {
        let Some(name) = self.path.file_name() else { return self.open().map(drop) };
        let above = match self.path.parent() {
            Some(above) if above != Path::new("") => above,
            _ => Path::new("."),
        };
        let name = Name::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        let mode = Mode::from_raw_mode(0o777);
        match fs::mkdirat(self.at(above).open()?, name.as_bytes(), mode) {
            Err(Errno::EXIST) => self.open().map(drop),
            made => made,
        }
    }

    /// Holds it; it and what is missing above it are made.
    pub(super) fn make_all(&self) -> Result<Dir, Errno> {
        let missing = |dir: &Self| dir.open().is_err_and(|errno| errno == Errno::NOENT);
        let ancestors = self.path.ancestors().filter(|dir| *dir != Path::new(""));
        let above: Vec<_> = ancestors.map(|dir| self.at(dir)).take_while(missing).collect();
        above.iter().rev().try_for_each(Self::make)?;
        self.open()
    }

    fn at(&self, path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..*self }
    }

    fn walk(&self) -> Result<Led, Errno> {
        if self.insecure {
            return Dir::open_root(&self.path).map(Led::To);
        }
        match Dir::open_straight(&self.path) {
            Ok(dir) => Ok(Led::To(dir)),
            // There are symlinks, or this kernel cannot tell.
            Err(_) => Dir::open_root(Path::new("."))?.follow_ours(&self.path),
        }
    }
}
