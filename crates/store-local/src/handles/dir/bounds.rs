//! The directories that paths of a context may lead to, if the context is confined (`deltic agent --restrict`, `deltic
//! serve`).
//!
//! Paths in arguments, options and rules files are then resolved from an open handle, name by name. `..` above that
//! directory, and links that lead out of it, are errors. A path below a root cannot leave the root in any case
//! ([`Dir`](super::Dir)).
//!
//! For a context that is confined to one directory, that directory is the working directory of the process. A context
//! that is confined to volumes has no working directory: paths are absolute, their first name is that of a volume, and
//! absolute symlinks are errors. The first name may also be that of a [part](part_path) of a volume. Paths that begin
//! with a part do not lead out of the part.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deltic_store::{PrivateDir, StoreError, is_staging_name};
use deltic_tree::meta::Inode;
use deltic_tree::meta::LENDING_BITS;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use crate::handles::stat::inode_of;
use crate::kernel::clock::AgeClock;
use crate::kernel::errno::LEADS_OUT;

/// A directory that a context is confined to.
#[derive(Debug)]
pub(crate) struct Jail {
    pub(super) dir: OwnedFd,
    inode: Inode,
    /// Prefix of absolute paths into the directory: its real path, or `/VOLUME`.
    pub(super) path: PathBuf,
    /// Policy for old versions; `None` if old versions are not kept.
    pub(super) versions: Option<History>,
}

impl Jail {
    pub(super) fn of(dir: OwnedFd, path: PathBuf, versions: Option<History>) -> io::Result<Self> {
        let stat = fs::fstat(&dir)?;
        Ok(Self { inode: inode_of(&stat), dir, path, versions })
    }

    pub(super) fn open_held(&self) -> Result<OwnedFd, Errno> {
        let held = self.dir.as_fd().try_clone_to_owned();
        held.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// Limit to the old versions that a volume keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepVersions {
    /// The newest versions of each file, at most this number.
    Number(usize),
    /// Versions that were replaced less than this time ago.
    For(Duration),
}

/// Policy for the old versions of a volume, and the clock that tells their age.
#[derive(Clone, Debug)]
pub struct History {
    /// Greatest number or age of versions.
    pub keep: KeepVersions,
    /// Clock that tells the age of a version.
    pub clock: Arc<AgeClock>,
}

/// Limits of a volume; no limits by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Most bytes of all files.
    pub bytes: Option<u64>,
    /// Most names of files, directories and links.
    pub files: Option<u64>,
    /// Bytes to leave free on the disk of the volume.
    pub free_bytes: u64,
}

/// A directory that is served under a name.
#[derive(Clone, Debug)]
pub struct VolumeDir {
    /// Name that clients use.
    pub name: Name,
    /// Path of the directory.
    pub path: PathBuf,
    /// Policy for old versions of files; `None` if old versions are not kept.
    pub versions: Option<History>,
    /// Space limits of the volume.
    pub quota: QuotaLimits,
}

/// Directories that paths of a context may lead to.
#[derive(Debug, Default)]
pub(crate) enum PathBounds {
    /// Any directory of the system.
    #[default]
    System,
    /// One directory: paths may lead into this directory only.
    One(Jail),
    /// Volumes: the first name of a path selects the directory.
    Volumes(Vec<Jail>),
}

/// Returns the path of the volume `name` in a context of volumes.
#[must_use]
pub fn volume_path(name: &Name) -> PathBuf {
    Path::new(ROOT).join(OsStr::from_bytes(name.as_bytes()))
}

/// Returns the path of the directory `part` of the volume `name`, as a root for clients. No path that begins with this
/// path leads out of the directory. Parts must be UTF-8.
#[must_use]
pub fn part_path(name: &Name, part: &RelPath) -> PathBuf {
    let part = String::from_utf8_lossy(part.as_bytes()).replace('%', "%25").replace('/', "%2F");
    let mut first = name.as_bytes().to_vec();
    first.extend([b":", part.as_bytes()].concat());
    Path::new(ROOT).join(OsStr::from_bytes(&first))
}

/// Result of looking up the directory in which a path in a volume starts.
pub(super) struct Top<'a> {
    pub(super) jail: &'a Jail,
    /// The part of the volume; the root if the path starts at the volume itself.
    pub(super) part: RelPath,
    /// The first name of the path.
    name: &'a OsStr,
    /// The rest of the path.
    pub(super) below: &'a Path,
}

impl Top<'_> {
    /// Returns the prefix of all paths below the directory.
    fn path(&self) -> PathBuf {
        Path::new(ROOT).join(self.name)
    }
}

/// Finds the directory in which `path` starts.
pub(super) fn find_jail<'a>(jails: &'a [Jail], path: &'a Path) -> Option<Top<'a>> {
    let mut names = path.components();
    let (Some(Component::RootDir), Some(Component::Normal(name))) = (names.next(), names.next())
    else {
        return None;
    };
    let first = name.as_bytes();
    let (volume, part) = match first.iter().position(|byte| *byte == b':') {
        None => (first, RelPath::root()),
        Some(at) => {
            let part = std::str::from_utf8(&first[at + 1..]).ok()?;
            let part = part.replace("%2F", "/").replace("%25", "%");
            (&first[..at], RelPath::parse(part.as_bytes()).ok()?)
        }
    };
    let is_it = |jail: &&Jail| jail.path.as_os_str().as_bytes().strip_prefix(b"/") == Some(volume);
    let jail = jails.iter().find(is_it)?;
    Some(Top { jail, part, name, below: names.as_path() })
}

impl PathBounds {
    /// Returns a path in the form that clients use. If the first name is that of a [part](part_path), the volume and
    /// the path of the part take its place.
    pub(crate) fn client_path<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        let Self::Volumes(jails) = self else { return path.into() };
        match find_jail(jails, path) {
            Some(top) if !top.part.is_root() => {
                let names = [top.jail.path.as_os_str().as_bytes(), top.part.as_bytes()];
                let first = names.join(&b'/');
                let first = Path::new(OsStr::from_bytes(&first));
                Cow::Owned(first.components().chain(top.below.components()).collect())
            }
            _ => path.into(),
        }
    }

    /// True if `path` leads into the volume at `volume`.
    pub(crate) fn is_in_volume(&self, path: &Path, volume: &Path) -> bool {
        let Self::Volumes(jails) = self else { return path.starts_with(volume) };
        find_jail(jails, path).is_some_and(|top| top.jail.path == volume)
    }

    /// True if a client that is confined to `base` may read rules files at `path`. Both paths are absolute, without
    /// `..`.
    pub(crate) fn may_read(&self, base: &[u8], path: &[u8]) -> bool {
        let within = |jail: &Jail, path| Path::new(OsStr::from_bytes(path)).starts_with(&jail.path);
        match self {
            Self::System => true,
            Self::One(jail) => !within(jail, base) || within(jail, path),
            Self::Volumes(jails) => {
                let top = |path| {
                    find_jail(jails, Path::new(OsStr::from_bytes(path))).map(|top| top.path())
                };
                top(base).is_some_and(|base| top(path) == Some(base))
            }
        }
    }

    /// Converts `path`, an absolute path from a client at `base`, to a path of this process. For the client, the
    /// permitted directory is the root.
    pub(crate) fn path_in_process(&self, base: &[u8], path: &[u8]) -> Vec<u8> {
        let root = match self {
            Self::System => None,
            Self::One(jail) => Some(jail.path.clone()),
            Self::Volumes(jails) => {
                find_jail(jails, Path::new(OsStr::from_bytes(base))).map(|top| top.path())
            }
        };
        [root.unwrap_or_default().as_os_str().as_bytes(), path].concat()
    }

    /// Fails if the step from `dir` to `name` leads out of the permitted directories or into a private directory of a
    /// volume. Also fails if the step leads out of `top`, where the path began.
    pub(super) fn check_step(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        top: Inode,
    ) -> Result<(), Errno> {
        match name.as_bytes() {
            b".." => self.check_above(dir, top),
            _ => self.check_name(name),
        }
    }

    /// Fails if `..` of `dir` leads out of the permitted directory.
    fn check_above(&self, dir: BorrowedFd<'_>, top: Inode) -> Result<(), Errno> {
        let (jails, top) = match self {
            Self::System => return Ok(()),
            Self::One(jail) => (std::slice::from_ref(jail), None),
            Self::Volumes(jails) => (&**jails, Some(top)),
        };
        let stat = fs::fstat(dir)?;
        let is = inode_of(&stat);
        let is_top = top == Some(is) || jails.iter().any(|jail| jail.inode == is);
        if is_top { Err(LEADS_OUT) } else { Ok(()) }
    }

    /// Fails if the name is that of a private directory of a volume.
    pub(super) fn check_name(&self, name: &OsStr) -> Result<(), Errno> {
        let is_ours = self.are_volumes() && self.is_private(name.as_bytes());
        if is_ours { Err(LEADS_OUT) } else { Ok(()) }
    }

    /// True for the name of a private directory of Deltic. In a volume, also true for each name that
    /// [finds](PrivateDir::found_by) a private directory.
    pub(crate) fn is_private(&self, name: &[u8]) -> bool {
        match self.are_volumes() {
            true => PrivateDir::found_by(name).is_some(),
            false => is_staging_name(name),
        }
    }

    /// Refuses paths into private directories of Deltic. In a volume, also refuses other spellings of their names.
    ///
    /// # Errors
    /// [`StoreError::BadName`].
    pub(crate) fn check_path(
        &self,
        action: &'static str,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        match self.are_volumes() {
            true => deltic_store::check_volume_path(action, path),
            false => deltic_store::check_path(action, path),
        }
    }

    /// Returns the part of `mode` that clients may set: setuid and setgid are dropped in volumes.
    pub(crate) fn allowed_mode(&self, mode: Mode) -> Mode {
        match self.are_volumes() {
            true => mode.difference(Mode::from_raw_mode(LENDING_BITS)),
            false => mode,
        }
    }

    /// True if paths may lead to some directories only.
    pub(crate) fn are_confined(&self) -> bool {
        !matches!(self, Self::System)
    }

    /// True for volumes. Many runs then work in this process at once, possibly in the same directory.
    pub(crate) fn are_volumes(&self) -> bool {
        matches!(self, Self::Volumes(_))
    }
}

pub(super) const ROOT: &str = "/";
