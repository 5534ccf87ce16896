//! The directory that this process keeps to, if it was told to (`deltic agent --restrict`).
//!
//! Every way to what an argument, an option or a file of rules names then begins at the held handle of that directory,
//! and is walked name by name: `..` from it, and links that lead elsewhere, are errors. A way below a root leads out of
//! nothing anyway ([`Dir`]). The directory is the whole process's, as the working directory is: so no way can forget
//! it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Dir, Led, Trust, inode};

/// The directory.
#[derive(Debug)]
struct Jail {
    dir: OwnedFd,
    inode: (u64, u64),
    /// Where it is, without links: what paths from the root of the file system on begin with that lead to it.
    path: PathBuf,
}

static JAIL: OnceLock<Jail> = OnceLock::new();

/// Has this process keep to the directory `path`, which becomes its working directory, for good. Tells where it is,
/// without links.
///
/// # Errors
/// Where it is no directory that we may enter, or the process keeps to one already.
pub fn confine(path: &Path) -> io::Result<PathBuf> {
    let dir = Dir::open_anywhere(path)?.fd;
    rustix::process::fchdir(&dir)?;
    let path = std::env::current_dir()?;
    let jail = Jail { inode: inode(&fs::fstat(&dir)?), dir, path: path.clone() };
    JAIL.set(jail).map_err(|_| io::Error::from(Errno::EXIST))?;
    Ok(path)
}

/// True if the way to `path` leads out of the directory that this process keeps to, as far as it is there.
#[must_use]
pub fn leads_out(path: &Path) -> bool {
    let Ok(Some(jail)) = Dir::jail() else { return false };
    jail.end_of(path, Trust::Anyone).is_err_and(|errno| errno == Errno::XDEV)
}

/// True if a path from the root of the file system on, without `..`, is that directory or below it by its words.
pub(crate) fn is_within(path: &[u8]) -> bool {
    JAIL.get().is_none_or(|jail| Path::new(OsStr::from_bytes(path)).starts_with(&jail.path))
}

/// The path from the root of the file system on that somebody else means by this one: to him, the directory is that
/// root.
pub(crate) fn rebased(path: &[u8]) -> Vec<u8> {
    let root = JAIL.get().map_or(&b""[..], |jail| jail.path.as_os_str().as_bytes());
    [root, path].concat()
}

/// The first name of an absolute way that is walked.
pub(super) const ROOT: &str = "/";

/// The names of `way`, of which the first is [`ROOT`] where it does not begin where we are.
pub(super) fn way_within(way: &Path) -> Result<PathBuf, Errno> {
    match JAIL.get().filter(|_| way.is_absolute()) {
        None => Ok(way.to_path_buf()),
        Some(jail) => {
            let below = way.strip_prefix(&jail.path).map_err(|_| Errno::XDEV)?;
            Ok(Path::new(ROOT).join(below))
        }
    }
}

/// Opens the root that absolute ways begin at.
pub(super) fn open_top() -> Result<OwnedFd, Errno> {
    match Dir::jail()? {
        Some(jail) => Ok(jail.fd),
        None => fs::openat(fs::CWD, ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
    }
}

/// Fails where `..` of `dir` would lead out.
pub(super) fn check_above(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    match JAIL.get() {
        Some(jail) if inode(&fs::fstat(dir)?) == jail.inode => Err(Errno::XDEV),
        _ => Ok(()),
    }
}

/// True if this process keeps to a directory.
pub(crate) fn is_confined() -> bool {
    JAIL.get().is_some()
}

impl Dir {
    /// The directory that this process keeps to, if it does.
    pub(crate) fn jail() -> Result<Option<Self>, Errno> {
        let held = JAIL.get().map(|jail| jail.dir.as_fd().try_clone_to_owned());
        let held =
            held.transpose().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        held.map(Self::of).transpose()
    }

    /// What is at the [end](Self::end_of) of `way`.
    pub(crate) fn stat_at_end(self, way: &Path) -> Result<Stat, Errno> {
        match self.end_of(way, Trust::Anyone)? {
            Led::To(end) => fs::fstat(end.open(OFlags::PATH)?),
            Led::Stranger(_) => Err(Errno::LOOP),
        }
    }
}
