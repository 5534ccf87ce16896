//! The directories that this process is restricted to, if any (`deltic agent --restrict`, `deltic serve`).
//!
//! Paths in arguments, options and files of rules are then resolved from an open handle, name by name. `..` above
//! that directory, and links that lead out of it, are errors. A path below a root cannot leave the root in any case
//! ([`Dir`]). The restriction is global to the process, like the working directory: so no code path can forget it.
//!
//! A process restricted to one directory has it as its working directory. A process restricted to volumes has none:
//! paths are absolute there, their first name is that of a volume, and absolute symlinks are errors. The first name
//! may also be that of a [part](part_path) of a volume: paths that begin with a part do not lead out of the part.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltic_store::{PrivateDir, StoreError, is_staging_name};
use deltic_tree::meta::LENDING_BITS;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{Dir, Led, Trust, Use, inode};
use crate::clock::AgeClock;
use crate::shared::SharedState;

/// A directory that this process is restricted to.
#[derive(Debug)]
struct Jail {
    dir: OwnedFd,
    inode: (u64, u64),
    /// Prefix of absolute paths into the directory: the real path without symlinks, or `/VOLUME`.
    path: PathBuf,
    /// Policy for old versions; `None` if old versions are not kept.
    versions: Option<History>,
}

impl Jail {
    fn of(dir: OwnedFd, path: PathBuf) -> io::Result<Self> {
        Ok(Self { inode: inode(&fs::fstat(&dir)?), dir, path, versions: None })
    }
}

/// Limit to the old versions that a volume keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepVersions {
    /// The newest versions of each file, up to this number.
    Number(usize),
    /// Versions that were replaced no longer ago than this.
    For(Duration),
}

/// Policy for the old versions of a volume, and the clock for the age of versions.
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
    /// Bytes that stay free on the disk of the volume.
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

/// Directories that a process is restricted to.
#[derive(Debug)]
enum Kept {
    One(Jail),
    Volumes(Vec<Jail>),
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Restricts this process for good to the directory `path`, which becomes its working directory. Returns the real
/// path without symlinks.
///
/// # Errors
/// If `path` is no directory that this user may enter, or the process is already restricted.
pub fn confine(path: &Path) -> io::Result<PathBuf> {
    let dir = Dir::open_by_our_links(path)?.fd;
    rustix::process::fchdir(&dir)?;
    let path = std::env::current_dir()?;
    keep(Kept::One(Jail::of(dir, path.clone())?))?;
    Ok(path)
}

/// Restricts this process for good to these directories: `/NAME/…` is a path in the directory of that name.
///
/// # Errors
/// If a path is no directory that this user may enter, or the process is already restricted.
pub fn confine_to_volumes(volumes: &[VolumeDir]) -> io::Result<()> {
    let jail = |VolumeDir { name, path, versions, .. }: &VolumeDir| {
        let jail = Jail::of(Dir::open_by_our_links(path)?.fd, volume_path(name))?;
        Ok(Jail { versions: versions.clone(), ..jail })
    };
    keep(Kept::Volumes(volumes.iter().map(jail).collect::<io::Result<_>>()?))
}

/// Returns the volume that `path` leads into, and the rest of the path; `None` unless the volume keeps old versions.
pub(crate) fn kept_volume(
    path: &Path,
    shared: &Arc<SharedState>,
) -> Result<Option<(Dir, History, PathBuf)>, Errno> {
    let Some(Kept::Volumes(jails)) = KEPT.get() else { return Ok(None) };
    let Some(top) = top_of(jails, path) else { return Ok(None) };
    let Some(versions) = top.jail.versions.clone() else { return Ok(None) };
    let way = Path::new(OsStr::from_bytes(top.part.as_bytes())).join(top.below);
    Ok(Some((Dir::of(held(top.jail)?, shared)?, versions, way)))
}

/// Returns the path of the volume `name` in a process [restricted to volumes](confine_to_volumes).
#[must_use]
pub fn volume_path(name: &Name) -> PathBuf {
    Path::new(ROOT).join(OsStr::from_bytes(name.as_bytes()))
}

/// Returns a path for the directory `part` of the volume `name` as a root of its own: no path that begins so leads
/// out of that directory. Parts must be UTF-8.
#[must_use]
pub fn part_path(name: &Name, part: &RelPath) -> PathBuf {
    let part = String::from_utf8_lossy(part.as_bytes()).replace('%', "%25").replace('/', "%2F");
    let mut first = name.as_bytes().to_vec();
    first.extend([b":", part.as_bytes()].concat());
    Path::new(ROOT).join(OsStr::from_bytes(&first))
}

/// Returns a path in the form that clients use: a first name that denotes a [part](part_path) is replaced by the
/// volume and the path of the part.
#[must_use]
pub fn client_path(path: &Path) -> Cow<'_, Path> {
    let Some(Kept::Volumes(jails)) = KEPT.get() else { return path.into() };
    match top_of(jails, path) {
        Some(top) if !top.part.is_root() => {
            let names = [top.jail.path.as_os_str().as_bytes(), top.part.as_bytes()];
            let first = names.join(&b'/');
            let first = Path::new(OsStr::from_bytes(&first));
            Cow::Owned(first.components().chain(top.below.components()).collect())
        }
        _ => path.into(),
    }
}

/// The start of a path in a volume.
struct Top<'a> {
    jail: &'a Jail,
    /// The part of the volume; the root if the path starts at the volume itself.
    part: RelPath,
    /// The first name of the path.
    name: &'a OsStr,
    /// The rest of the path.
    below: &'a Path,
}

impl Top<'_> {
    /// Opens the directory. No symlinks are followed.
    fn dir(&self) -> Result<OwnedFd, Errno> {
        let volume = held(self.jail)?;
        if self.part.is_root() {
            return Ok(volume);
        }
        self.part.components().try_for_each(|name| check_name(OsStr::from_bytes(name)))?;
        Ok(Dir::of(volume, &Arc::default())?.dir(&self.part, Use::Pass)?.fd)
    }

    /// Prefix of all paths below the directory.
    fn path(&self) -> PathBuf {
        Path::new(ROOT).join(self.name)
    }
}

/// Finds the start of `path`.
fn top_of<'a>(jails: &'a [Jail], path: &'a Path) -> Option<Top<'a>> {
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

/// True if `path` leads into the volume at `volume`.
pub(crate) fn is_in_volume(path: &Path, volume: &Path) -> bool {
    let Some(Kept::Volumes(jails)) = KEPT.get() else { return path.starts_with(volume) };
    top_of(jails, path).is_some_and(|top| top.jail.path == volume)
}

fn keep(kept: Kept) -> io::Result<()> {
    KEPT.set(kept).map_err(|_| io::Error::from(Errno::EXIST))
}

/// True if `path` leads out of the directory that this process is restricted to, as far as the path exists.
#[must_use]
pub fn leads_out(path: &Path) -> bool {
    if straight_in_volume(path, OFlags::PATH).is_some() {
        return false;
    }
    let end = Dir::start(path, &Arc::default())
        .and_then(|start| start.map_or(Ok(()), |dir| dir.end_of(path, Trust::Anyone).map(drop)));
    end.is_err_and(|errno| errno == Errno::XDEV)
}

/// True if a client at `base` may read rules at `path`. Both paths are absolute, without `..`.
pub(crate) fn may_read(base: &[u8], path: &[u8]) -> bool {
    let within = |jail: &Jail, path| Path::new(OsStr::from_bytes(path)).starts_with(&jail.path);
    match KEPT.get() {
        None => true,
        Some(Kept::One(jail)) => !within(jail, base) || within(jail, path),
        Some(Kept::Volumes(jails)) => {
            let top =
                |path| top_of(jails, Path::new(OsStr::from_bytes(path))).map(|top| top.path());
            top(base).is_some_and(|base| top(path) == Some(base))
        }
    }
}

/// Returns the absolute path that a client at `base` means by `path`: for the client, the permitted directory is the
/// root.
pub(crate) fn rebased(base: &[u8], path: &[u8]) -> Vec<u8> {
    let root = match KEPT.get() {
        None => None,
        Some(Kept::One(jail)) => Some(jail.path.clone()),
        Some(Kept::Volumes(jails)) => {
            top_of(jails, Path::new(OsStr::from_bytes(base))).map(|top| top.path())
        }
    };
    [root.unwrap_or_default().as_os_str().as_bytes(), path].concat()
}

/// True if `path` leads into a volume that keeps old versions.
#[must_use]
pub fn keeps_versions(path: &Path) -> bool {
    kept_volume(path, &Arc::default()).is_ok_and(|volume| volume.is_some())
}

const ROOT: &str = "/";

/// Returns the directory that an absolute path starts in, and the rest of the path; `is_link` if the path comes from
/// a symlink.
pub(super) fn top(way: &Path, is_link: bool) -> Result<(OwnedFd, &Path), Errno> {
    let jail = match KEPT.get() {
        None => return system_top(way),
        Some(Kept::One(jail)) => jail,
        // A link's absolute target starts at the root of the system.
        Some(Kept::Volumes(_)) if is_link => return Err(Errno::XDEV),
        Some(Kept::Volumes(jails)) => {
            let top = top_of(jails, way).ok_or(Errno::XDEV)?;
            return Ok((top.dir()?, top.below));
        }
    };
    let below = way.strip_prefix(&jail.path).map_err(|_| Errno::XDEV)?;
    Ok((held(jail)?, below))
}

/// Opens the root of the system. Returns the root, and the absolute `way` without the leading slash.
pub(super) fn system_top(way: &Path) -> Result<(OwnedFd, &Path), Errno> {
    let root = fs::openat(fs::CWD, ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    Ok((root, way.strip_prefix(ROOT).unwrap_or(way)))
}

fn held(jail: &Jail) -> Result<OwnedFd, Errno> {
    let held = jail.dir.as_fd().try_clone_to_owned();
    held.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Fails if the step from `dir` to `name` would lead out of the permitted directories, out of `top`, where the path
/// began, or into a private directory of a volume.
pub(super) fn check_step(dir: BorrowedFd<'_>, name: &OsStr, top: (u64, u64)) -> Result<(), Errno> {
    match name.as_bytes() {
        b".." => check_above(dir, top),
        _ => check_name(name),
    }
}

/// Fails if `..` of `dir` would lead out.
fn check_above(dir: BorrowedFd<'_>, top: (u64, u64)) -> Result<(), Errno> {
    let (jails, top) = match KEPT.get() {
        None => return Ok(()),
        Some(Kept::One(jail)) => (std::slice::from_ref(jail), None),
        Some(Kept::Volumes(jails)) => (&**jails, Some(top)),
    };
    let is = inode(&fs::fstat(dir)?);
    let is_top = top == Some(is) || jails.iter().any(|jail| jail.inode == is);
    if is_top { Err(Errno::XDEV) } else { Ok(()) }
}

/// Fails if the name is that of a private directory of a volume.
fn check_name(name: &OsStr) -> Result<(), Errno> {
    let is_ours = keeps_to_volumes() && is_private(name.as_bytes());
    if is_ours { Err(Errno::XDEV) } else { Ok(()) }
}

/// True for the name of a directory that Deltic keeps for itself. In a volume this is each name that
/// [finds](PrivateDir::found_by) one.
pub(crate) fn is_private(name: &[u8]) -> bool {
    match keeps_to_volumes() {
        true => PrivateDir::found_by(name).is_some(),
        false => is_staging_name(name),
    }
}

/// Refuses paths into directories that Deltic keeps for itself. In a volume, every spelling of their names is
/// refused.
///
/// # Errors
/// [`StoreError::BadName`].
pub fn check_path(action: &'static str, path: &RelPath) -> Result<(), StoreError> {
    match keeps_to_volumes() {
        true => deltic_store::check_volume_path(action, path),
        false => deltic_store::check_path(action, path),
    }
}

/// Returns the part of `mode` that clients may set: setuid and setgid are dropped in volumes.
pub(super) fn allowed(mode: Mode) -> Mode {
    match KEPT.get() {
        Some(Kept::Volumes(_)) => mode.difference(Mode::from_raw_mode(LENDING_BITS)),
        Some(Kept::One(_)) | None => mode,
    }
}

/// Returns the attributes of the entry at `path` in a volume; `None` if the path must be resolved name by name. The
/// entry is no symlink.
pub(crate) fn stat_in_volume(path: &Path) -> Option<Stat> {
    fs::fstat(straight_in_volume(path, OFlags::PATH)?).ok()
}

/// True if this process is restricted to directories.
pub(crate) fn is_confined() -> bool {
    KEPT.get().is_some()
}

/// True if this process is restricted to volumes: then many runs at once work in this process, possibly in the same
/// directory.
pub(crate) fn keeps_to_volumes() -> bool {
    matches!(KEPT.get(), Some(Kept::Volumes(_)))
}

/// Opens the entry at the absolute `path` of a volume in one call. `None` if this process is not restricted to
/// volumes, or if the path must be resolved name by name: because the path has a symlink or a private directory, or
/// does not exist.
fn straight_in_volume(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let Some(Kept::Volumes(jails)) = KEPT.get() else { return None };
    let top = top_of(jails, path)?;
    let below = if top.below == Path::new("") { Path::new(".") } else { top.below };
    below.components().try_for_each(|name| check_name(name.as_os_str())).ok()?;
    let part = if top.part.is_root() { None } else { Some(top.dir().ok()?) };
    let at = part.as_ref().unwrap_or(&top.jail.dir);
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    fs::openat2(at, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}

impl Dir {
    /// Opens the directory at `path` in a volume, if a single call is enough.
    pub(super) fn straight_in_volume(
        path: &Path,
        shared: &Arc<SharedState>,
    ) -> Option<Result<Self, Errno>> {
        Some(Self::of(straight_in_volume(path, OFlags::PATH | OFlags::DIRECTORY)?, shared))
    }

    /// Returns the directory that an argument's `path` starts in, if this process is restricted.
    pub(crate) fn start(path: &Path, shared: &Arc<SharedState>) -> Result<Option<Self>, Errno> {
        let jail = match KEPT.get() {
            None => return Ok(None),
            Some(Kept::One(jail)) => jail,
            Some(Kept::Volumes(jails)) => {
                return Self::of(top_of(jails, path).ok_or(Errno::XDEV)?.dir()?, shared).map(Some);
            }
        };
        Self::of(held(jail)?, shared).map(Some)
    }

    /// Returns the attributes of the entry at the [end](Self::end_of) of `way`.
    pub(crate) fn stat_at_end(self, way: &Path) -> Result<Stat, Errno> {
        match self.end_of(way, Trust::Anyone)? {
            Led::To(end) => fs::fstat(end.open(OFlags::PATH)?),
            Led::Stranger(_) => Err(Errno::LOOP),
        }
    }
}
