//! The directories that this process keeps to, if it was told to (`deltic agent --restrict`, `deltic serve`).
//!
//! Every way to what an argument, an option or a file of rules names then begins at a held handle, and is walked name
//! by name: `..` from it, and links that lead elsewhere, are errors. A way below a root leads out of nothing anyway
//! ([`Dir`]). The directories are the whole process's, as the working directory is: so no way can forget them.
//!
//! A process that keeps to one directory has it as its working directory. One that keeps to volumes has none: there a
//! way is absolute, its first name is the volume's, and an absolute symlink leads nowhere.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use deltic_store::is_staging_name;
use deltic_tree::Name;
use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Dir, Led, Trust, inode};

/// A directory that is kept to.
#[derive(Debug)]
struct Jail {
    dir: OwnedFd,
    inode: (u64, u64),
    /// What absolute paths that lead into it begin with: where it is, without links, or `/VOLUME`.
    path: PathBuf,
    /// Old versions that are kept, if some are.
    versions: Option<KeepVersions>,
}

impl Jail {
    fn of(dir: OwnedFd, path: PathBuf) -> io::Result<Self> {
        Ok(Self { inode: inode(&fs::fstat(&dir)?), dir, path, versions: None })
    }
}

/// Old versions that a volume keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepVersions {
    /// A number of each file.
    Number(usize),
    /// The ones that went no longer ago than this.
    For(Duration),
}

/// Limits of a volume; none of them by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Most bytes of all files.
    pub bytes: Option<u64>,
    /// Most names of files, directories and links.
    pub files: Option<u64>,
    /// Bytes that stay free on its disk.
    pub free_bytes: u64,
}

/// A directory that is served by a name.
#[derive(Clone, Debug)]
pub struct VolumeDir {
    /// Name that clients use.
    pub name: Name,
    /// Its path.
    pub path: PathBuf,
    /// Old versions of its files that are kept, if some are.
    pub versions: Option<KeepVersions>,
    /// Space that its files may take.
    pub quota: QuotaLimits,
}

/// Extent that a process keeps to.
#[derive(Debug)]
enum Kept {
    One(Jail),
    Volumes(Vec<Jail>),
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Has this process keep to the directory `path`, which becomes its working directory, for good. Returns where it is,
/// without links.
///
/// # Errors
/// Where it is no directory that we may enter, or the process keeps to one already.
pub fn confine(path: &Path) -> io::Result<PathBuf> {
    let dir = Dir::open_anywhere(path)?.fd;
    rustix::process::fchdir(&dir)?;
    let path = std::env::current_dir()?;
    keep(Kept::One(Jail::of(dir, path.clone())?))?;
    Ok(path)
}

/// Has this process keep to these directories, for good: `/NAME/…` is a path in the one of that name.
///
/// # Errors
/// Where one is no directory that we may enter, or the process keeps to some already.
pub fn confine_to_volumes(volumes: &[VolumeDir]) -> io::Result<()> {
    let jail = |VolumeDir { name, path, versions, .. }: &VolumeDir| {
        let jail = Jail::of(Dir::open_anywhere(path)?.fd, volume_path(name))?;
        Ok(Jail { versions: *versions, ..jail })
    };
    keep(Kept::Volumes(volumes.iter().map(jail).collect::<io::Result<_>>()?))
}

/// The volume that `path` leads into, if it keeps old versions, with the way from there on.
pub(crate) fn kept_volume(path: &Path) -> Result<Option<(Dir, KeepVersions, &Path)>, Errno> {
    let Some(Kept::Volumes(jails)) = KEPT.get() else { return Ok(None) };
    let Some(jail) = volume_of(jails, path) else { return Ok(None) };
    let Some(versions) = jail.versions else { return Ok(None) };
    let way = path.strip_prefix(&jail.path).map_err(|_| Errno::XDEV)?;
    Ok(Some((Dir::of(held(jail)?)?, versions, way)))
}

/// The path of the volume `name` in a process that [keeps to volumes](confine_to_volumes).
#[must_use]
pub fn volume_path(name: &Name) -> PathBuf {
    Path::new(ROOT).join(OsStr::from_bytes(name.as_bytes()))
}

fn keep(kept: Kept) -> io::Result<()> {
    KEPT.set(kept).map_err(|_| io::Error::from(Errno::EXIST))
}

/// True if the way to `path` leads out of the directory that this process keeps to, as far as it is there.
#[must_use]
pub fn leads_out(path: &Path) -> bool {
    let end = Dir::start(path)
        .and_then(|start| start.map_or(Ok(()), |dir| dir.end_of(path, Trust::Anyone).map(drop)));
    end.is_err_and(|errno| errno == Errno::XDEV)
}

/// True if who is at `base` may read rules at `path`. Both are from the root of the file system on, without `..`.
pub(crate) fn may_read(base: &[u8], path: &[u8]) -> bool {
    let within = |jail: &Jail, path| Path::new(OsStr::from_bytes(path)).starts_with(&jail.path);
    match KEPT.get() {
        None => true,
        Some(Kept::One(jail)) => !within(jail, base) || within(jail, path),
        Some(Kept::Volumes(jails)) => {
            jails.iter().any(|jail| within(jail, base) && within(jail, path))
        }
    }
}

/// The path from the root of the file system on that somebody at `base` means by this one: to him, the directory is
/// that root.
pub(crate) fn rebased(base: &[u8], path: &[u8]) -> Vec<u8> {
    let root = match KEPT.get() {
        None => None,
        Some(Kept::One(jail)) => Some(jail),
        Some(Kept::Volumes(jails)) => volume_of(jails, Path::new(OsStr::from_bytes(base))),
    };
    [root.map_or(&b""[..], |jail| jail.path.as_os_str().as_bytes()), path].concat()
}

/// True if `path` leads into a volume that keeps old versions.
#[must_use]
pub fn keeps_versions(path: &Path) -> bool {
    kept_volume(path).is_ok_and(|volume| volume.is_some())
}

fn volume_of<'a>(jails: &'a [Jail], path: &Path) -> Option<&'a Jail> {
    jails.iter().find(|jail| path.starts_with(&jail.path))
}

const ROOT: &str = "/";

/// The directory that an absolute way begins at, and the names from there on; `is_link` where a symlink says so.
pub(super) fn top(way: &Path, is_link: bool) -> Result<(OwnedFd, &Path), Errno> {
    let jail = match KEPT.get() {
        None => {
            let root = fs::openat(fs::CWD, ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            return Ok((root, way.strip_prefix(ROOT).unwrap_or(way)));
        }
        Some(Kept::One(jail)) => jail,
        // What a link calls a root is the system's.
        Some(Kept::Volumes(_)) if is_link => return Err(Errno::XDEV),
        Some(Kept::Volumes(jails)) => volume_of(jails, way).ok_or(Errno::XDEV)?,
    };
    let below = way.strip_prefix(&jail.path).map_err(|_| Errno::XDEV)?;
    Ok((held(jail)?, below))
}

fn held(jail: &Jail) -> Result<OwnedFd, Errno> {
    let held = jail.dir.as_fd().try_clone_to_owned();
    held.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Fails where `..` of `dir` would lead out.
pub(super) fn check_above(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let jails = match KEPT.get() {
        None => return Ok(()),
        Some(Kept::One(jail)) => std::slice::from_ref(jail),
        Some(Kept::Volumes(jails)) => jails,
    };
    let is = inode(&fs::fstat(dir)?);
    if jails.iter().any(|jail| jail.inode == is) { Err(Errno::XDEV) } else { Ok(()) }
}

/// Fails where a way would lead into what a volume keeps for itself.
pub(super) fn check_name(name: &OsStr) -> Result<(), Errno> {
    let is_ours = matches!(KEPT.get(), Some(Kept::Volumes(_))) && is_staging_name(name.as_bytes());
    if is_ours { Err(Errno::XDEV) } else { Ok(()) }
}

/// The part of `mode` that clients may give: in volumes nobody makes programs that run as somebody else.
pub(super) fn allowed(mode: Mode) -> Mode {
    match KEPT.get() {
        Some(Kept::Volumes(_)) => mode.difference(Mode::SUID | Mode::SGID),
        Some(Kept::One(_)) | None => mode,
    }
}

/// True if this process keeps to directories.
pub(crate) fn is_confined() -> bool {
    KEPT.get().is_some()
}

impl Dir {
    /// The directory that the way to an argument's `path` begins at, if this process keeps to some.
    pub(crate) fn start(path: &Path) -> Result<Option<Self>, Errno> {
        let jail = match KEPT.get() {
            None => return Ok(None),
            Some(Kept::One(jail)) => jail,
            Some(Kept::Volumes(jails)) => volume_of(jails, path).ok_or(Errno::XDEV)?,
        };
        Self::of(held(jail)?).map(Some)
    }

    /// What is at the [end](Self::end_of) of `way`.
    pub(crate) fn stat_at_end(self, way: &Path) -> Result<Stat, Errno> {
        match self.end_of(way, Trust::Anyone)? {
            Led::To(end) => fs::fstat(end.open(OFlags::PATH)?),
            Led::Stranger(_) => Err(Errno::LOOP),
        }
    }
}
