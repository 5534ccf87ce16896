//! Resolves paths in options and arguments, and decides which symlinks are followed.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Dir, Use};
use crate::handles::stat::inode_of;
use crate::kernel::errno::LEADS_OUT;

/// Policy for symlinks in paths of options and arguments, by the owners of the symlinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Symlinks of this user and of the superuser.
    #[default]
    Ours,
    /// Symlinks of any user (`--insecure-links`).
    Anyone,
}

impl Trust {
    /// Returns `Anyone` if `insecure`, else `Ours`.
    #[must_use]
    pub const fn new(insecure: bool) -> Self {
        if insecure { Self::Anyone } else { Self::Ours }
    }
}

/// Result of a path resolution.
pub(crate) enum Resolution<T = Dir> {
    To(T),
    /// The resolution stopped at this symlink of another user.
    Stranger(PathBuf),
}

/// The end of a path: a name in an open directory. The entry may be missing. The entry is not a symlink, except one
/// that only the kernel can follow (`/proc/self/fd/3`).
#[derive(Debug)]
pub(crate) struct WayEnd {
    pub(crate) dir: Dir,
    pub(crate) name: OsString,
    is_magic: bool,
}

impl WayEnd {
    /// Opens the entry with this name, or creates a file if `flags` say so.
    pub(crate) fn open_entry(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.make_entry(flags, Mode::from_raw_mode(0o666))
    }

    /// Opens the entry with this name. A file that is created gets `mode`.
    pub(crate) fn make_entry(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let follow = if self.is_magic { OFlags::empty() } else { OFlags::NOFOLLOW };
        fs::openat(&self.dir, &self.name, flags | follow | OFlags::CLOEXEC, mode)
    }
}

impl Dir {
    /// Opens the directory that `way` [resolves](Self::resolve) to.
    pub(crate) fn resolve_dir(self, way: &Path, trust: Trust) -> Result<Resolution, Errno> {
        match self.resolve(way, trust)? {
            Resolution::To(end) => {
                Self::from_handle(end.open_entry(Use::Pass.open_flags())?, &end.dir.shared)
                    .map(Resolution::To)
            }
            Resolution::Stranger(link) => Ok(Resolution::Stranger(link)),
        }
    }

    /// Resolves `way` from this directory, name by name. Follows symlinks of this user and of the superuser: another
    /// user's symlink could lead to a place that this user may not see. Each symlink is held open while it is examined
    /// and read. The last name need not exist.
    pub(crate) fn resolve(self, way: &Path, trust: Trust) -> Result<Resolution<WayEnd>, Errno> {
        self.resolve_by_name(way, trust)
    }

    /// Resolves a path that the operator of this process chose. The path may lead anywhere, even if the process is
    /// restricted to some directories. Symlinks are followed as by [`Trust::Ours`].
    pub(crate) fn resolve_trusted(path: &Path) -> Result<Resolution<WayEnd>, Errno> {
        if let Some(end) = Self::resolve_fast(path) {
            return Ok(Resolution::To(end));
        }
        let top = Path::new(if path.is_absolute() { "/" } else { "." });
        Self::open_anywhere(top, &Arc::default())?.resolve_by_name(path, Trust::Ours)
    }

    /// Resolves `path` in few system calls. `None` if the path contains a symlink, or ends at a symlink.
    fn resolve_fast(path: &Path) -> Option<WayEnd> {
        let (above, name) = (path.parent()?, path.file_name()?);
        let above = if above == Path::new("") { Path::new(".") } else { above };
        let flags = Use::Pass.open_flags();
        let fd = fs::openat2(fs::CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let dir = Self::from_handle(fd.ok()?, &Arc::default()).ok()?;
        let stat = fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(stat.st_mode).is_symlink();
        (!is_link).then(|| WayEnd { dir, name: name.to_owned(), is_magic: false })
    }

    fn resolve_by_name(self, way: &Path, trust: Trust) -> Result<Resolution<WayEnd>, Errno> {
        let shared = self.shared();
        let bounds = &shared.bounds;
        let ours = [0, rustix::process::geteuid().as_raw()];
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (mut held, mut at, mut links) = (self, PathBuf::new(), 0..MAX_LINKS);
        // Names still to resolve, the next name last.
        let mut ahead: Vec<OsString> = Vec::new();
        let put =
            |held: &mut Self, at: &mut PathBuf, ahead: &mut Vec<OsString>, way: &Path, is_link| {
                let mut way = way;
                if way.is_absolute() {
                    (held.fd, way) = bounds.starting_dir(way, is_link)?;
                    *at = "/".into();
                }
                let names = way.components().filter(|name| *name != Component::CurDir);
                ahead.extend(names.rev().map(|name| name.as_os_str().to_owned()));
                Ok(())
            };
        put(&mut held, &mut at, &mut ahead, way, false)?;
        // The path must stay below its start, so no symlink may lead to another start.
        let top = inode_of(&fs::fstat(&held)?);
        while let Some(name) = ahead.pop() {
            bounds.check_step(held.as_fd(), &name, top)?;
            let is_last = ahead.is_empty();
            let end = |dir, name, is_magic| Ok(Resolution::To(WayEnd { dir, name, is_magic }));
            let mut next = match fs::openat(&held, &name, flags, Mode::empty()) {
                Err(Errno::NOENT) if is_last => return end(held, name, false),
                next => next?,
            };
            let stat = fs::fstat(&next)?;
            at.push(&name);
            let is_link = FileType::from_raw_mode(stat.st_mode).is_symlink();
            if is_link && trust == Trust::Ours && !ours.contains(&stat.st_uid) {
                return Ok(Resolution::Stranger(at));
            }
            let is_magic = is_link && fs::fstatfs(&next)?.f_type == fs::PROC_SUPER_MAGIC;
            if is_magic && bounds.are_confined() {
                return Err(LEADS_OUT);
            }
            if is_last && (is_magic || !is_link) {
                return end(held, name, is_magic);
            }
            if is_magic {
                next = fs::openat(&held, &name, flags.difference(OFlags::NOFOLLOW), Mode::empty())?;
            }
            if is_magic || !is_link {
                // An entry that is not a directory fails at the next name.
                held = Self { fd: next, ..held };
                continue;
            }
            links.next().ok_or(Errno::LOOP)?;
            let target = fs::readlinkat(&next, "", Vec::new())?.into_bytes();
            at.pop();
            put(&mut held, &mut at, &mut ahead, Path::new(&OsString::from_vec(target)), true)?;
        }
        Ok(Resolution::To(WayEnd { dir: held, name: ".".into(), is_magic: false }))
    }
}

/// Most symlinks followed in a path, the limit of the kernel.
const MAX_LINKS: usize = 40;
