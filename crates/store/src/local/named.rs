//! Directories that options name (`--backup-dir` and its like).
//!
//! Such a path may lead through directories in which others may put symlinks, as a destination that is another user's. So a
//! symlink on the way is followed only if it is the superuser's or our own: what others put there could lead anywhere.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use deltic_core::Name;
use deltic_core::path::printable;
use rustix::fs::{self, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::snapshot::file_type;
use crate::StoreError;
use crate::dir::Dir;

/// The directory that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDir {
    /// Where it is.
    pub path: PathBuf,
    /// Whether symlinks on the way are followed, whoever made them (`--insecure-links`).
    pub insecure: bool,
}

/// Where the way to a directory ended.
enum End {
    Dir(Dir),
    /// At this symlink of another user.
    Link(PathBuf),
}

impl NamedDir {
    /// Holds it.
    pub(super) fn open(&self) -> Result<Dir, Errno> {
        match self.walk()? {
            End::Dir(dir) => Ok(dir),
            End::Link(_) => Err(Errno::LOOP),
        }
    }

    /// Fails where a symlink of another user is on the way, and says which.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.walk() {
            Ok(End::Link(link)) => {
                Err(StoreError::Stranger { link: printable(link.as_os_str().as_bytes()) })
            }
            // What is missing is made, and what else is wrong is said by who uses it.
            Ok(End::Dir(_)) | Err(_) => Ok(()),
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

    fn walk(&self) -> Result<End, Errno> {
        if self.insecure {
            return Dir::open_root(&self.path).map(End::Dir);
        }
        match Dir::open_straight(&self.path) {
            Ok(dir) => Ok(End::Dir(dir)),
            // There are symlinks, or this kernel cannot tell.
            Err(_) => walk(&self.path),
        }
    }
}

/// Follows `path` name by name.
fn walk(path: &Path) -> Result<End, Errno> {
    let ours = [0, geteuid().as_raw()];
    let (mut held, mut at) = (hold(Path::new("."))?, PathBuf::new());
    let mut names: Vec<OsString> = Vec::new();
    let push = |names: &mut Vec<OsString>, path: &Path| {
        let own = path.components().filter(|part| *part != Component::CurDir);
        names.extend(own.rev().map(|part| part.as_os_str().to_owned()));
    };
    push(&mut names, path);
    let mut links = 0;
    while let Some(name) = names.pop() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = fs::openat(&held, &name, flags, Mode::empty())?;
        let stat = fs::fstat(&next)?;
        if !file_type(&stat).is_symlink() {
            // What is no directory has nothing below it: that is said of the next name, or in the end.
            (held, at) = (next, at.join(name));
            continue;
        }
        if !ours.contains(&stat.st_uid) {
            return Ok(End::Link(at.join(name)));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = fs::readlinkat(&next, "", Vec::new())?.into_bytes();
        push(&mut names, Path::new(OsStr::from_bytes(&target)));
    }
    match file_type(&fs::fstat(&held)?).is_dir() {
        true => Dir::of(held).map(End::Dir),
        false => Err(Errno::NOTDIR),
    }
}

fn hold(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(CWD, path, flags, Mode::empty())
}

/// As many symlinks on one way are followed as the kernel follows.
const MAX_LINKS: usize = 40;
