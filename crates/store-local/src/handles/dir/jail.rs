//! Start of paths in the directories that a context is confined to.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::bounds::{History, Jail, PathBounds, ROOT, Top, VolumeDir, find_jail, volume_path};
use super::{Dir, Resolution, Trust, Use};
use crate::handles::shared::SharedState;
use crate::kernel::errno::LEADS_OUT;

impl PathBounds {
    /// Confines paths to the directory `path`, which becomes the working directory of this process. Also returns the
    /// real path of the directory.
    ///
    /// # Errors
    /// `path` is no directory that this user may enter.
    pub(crate) fn of_dir(path: &Path) -> io::Result<(Self, PathBuf)> {
        let dir = Dir::open_trusted_path(path)?.fd;
        rustix::process::fchdir(&dir)?;
        let path = std::env::current_dir()?;
        Ok((Self::One(Jail::of(dir, path.clone(), None)?), path))
    }

    /// Confines paths to these directories: `/NAME/…` is a path in the directory of that name.
    ///
    /// # Errors
    /// A path is no directory that this user may enter.
    pub(crate) fn of_volumes(volumes: &[VolumeDir]) -> io::Result<Self> {
        let jail = |VolumeDir { name, path, versions, .. }: &VolumeDir| {
            Jail::of(Dir::open_trusted_path(path)?.fd, volume_path(name), versions.clone())
        };
        Ok(Self::Volumes(volumes.iter().map(jail).collect::<io::Result<_>>()?))
    }

    /// Returns the directory that an absolute path starts in, and the rest of the path. `is_link` is true for the
    /// target of a symlink.
    pub(super) fn starting_dir<'a>(
        &self,
        way: &'a Path,
        is_link: bool,
    ) -> Result<(OwnedFd, &'a Path), Errno> {
        let jail = match self {
            Self::System => {
                let root = fs::openat(fs::CWD, ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                return Ok((root?, way.strip_prefix(ROOT).unwrap_or(way)));
            }
            Self::One(jail) => jail,
            // The absolute target of a symlink starts at the root of the system.
            Self::Volumes(_) if is_link => return Err(LEADS_OUT),
            Self::Volumes(jails) => return open_starting_dir(jails, way),
        };
        let below = way.strip_prefix(&jail.path).map_err(|_| LEADS_OUT)?;
        Ok((jail.open_held()?, below))
    }

    /// Opens the entry at the absolute `path` of a volume in one call. `None` without volumes, or if the path must be
    /// resolved name by name: the path has a symlink or a private directory, or does not exist.
    fn open_in_volume(&self, path: &Path, flags: OFlags) -> Option<OwnedFd> {
        let Self::Volumes(jails) = self else { return None };
        let top = find_jail(jails, path)?;
        let below = if top.below == Path::new("") { Path::new(".") } else { top.below };
        below.components().try_for_each(|name| self.check_name(name.as_os_str())).ok()?;
        let part = if top.part.is_root() { None } else { Some(open_dir_of(&top).ok()?) };
        let at = part.as_ref().unwrap_or(&top.jail.dir);
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        fs::openat2(at, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }

    /// Returns the attributes of the entry at `path` in a volume, which is not a symlink. `None` if the path must be
    /// resolved name by name.
    pub(crate) fn stat_in_volume(&self, path: &Path) -> Option<Stat> {
        fs::fstat(self.open_in_volume(path, OFlags::PATH)?).ok()
    }
}

/// Opens the directory that `path` starts in, and returns the rest of the path.
fn open_starting_dir<'a>(jails: &[Jail], path: &'a Path) -> Result<(OwnedFd, &'a Path), Errno> {
    let dir = open_dir_of(&find_jail(jails, path).ok_or(LEADS_OUT)?)?;
    // The rest follows the root and the first name.
    let mut names = path.components();
    names.by_ref().take(2).for_each(drop);
    Ok((dir, names.as_path()))
}

/// Opens the directory that a path starts in. Follows no symlink.
fn open_dir_of(top: &Top<'_>) -> Result<OwnedFd, Errno> {
    let volume = top.jail.open_held()?;
    if top.part.is_root() {
        return Ok(volume);
    }
    // No name of a part may be that of a private directory.
    let is_private = |name: &[u8]| deltic_store::PrivateDir::found_by(name).is_some();
    if top.part.components().any(is_private) {
        return Err(LEADS_OUT);
    }
    Ok(Dir::from_handle(volume, &Arc::default())?.open_dir(&top.part, Use::Pass)?.fd)
}

/// Returns the volume that `path` leads into, and the rest of the path; `None` unless the volume keeps old versions.
pub(crate) fn kept_volume(
    path: &Path,
    shared: &Arc<SharedState>,
) -> Result<Option<(Dir, History, PathBuf)>, Errno> {
    let PathBounds::Volumes(jails) = &shared.bounds else { return Ok(None) };
    let Some(top) = find_jail(jails, path) else { return Ok(None) };
    let Some(versions) = top.jail.versions.clone() else { return Ok(None) };
    let way = Path::new(OsStr::from_bytes(top.part.as_bytes())).join(top.below);
    Ok(Some((Dir::from_handle(top.jail.open_held()?, shared)?, versions, way)))
}

/// True if `path` leads out of the directories of its context, as far as the path exists.
pub(crate) fn leads_out(path: &Path, shared: &Arc<SharedState>) -> bool {
    if shared.bounds.stat_in_volume(path).is_some() {
        return false;
    }
    let end = Dir::open_start(path, shared)
        .and_then(|start| start.map_or(Ok(()), |dir| dir.resolve(path, Trust::Anyone).map(drop)));
    end.is_err_and(|errno| errno == LEADS_OUT)
}

impl Dir {
    /// Opens the directory at `path` in a volume, if a single call is enough.
    pub(super) fn straight_in_volume(
        path: &Path,
        shared: &Arc<SharedState>,
    ) -> Option<Result<Self, Errno>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Some(Self::from_handle(shared.bounds.open_in_volume(path, flags)?, shared))
    }

    /// Returns the directory that an argument's `path` starts in, if the context is confined.
    pub(crate) fn open_start(
        path: &Path,
        shared: &Arc<SharedState>,
    ) -> Result<Option<Self>, Errno> {
        let start = match &shared.bounds {
            PathBounds::System => return Ok(None),
            PathBounds::One(jail) => jail.open_held()?,
            PathBounds::Volumes(jails) => open_starting_dir(jails, path)?.0,
        };
        Self::from_handle(start, shared).map(Some)
    }

    /// Returns the attributes of the entry at the [end](Self::end_of) of `way`.
    pub(crate) fn stat_at_end(self, way: &Path) -> Result<Stat, Errno> {
        match self.resolve(way, Trust::Anyone)? {
            Resolution::To(end) => fs::fstat(end.open_entry(OFlags::PATH)?),
            Resolution::Stranger(_) => Err(Errno::LOOP),
        }
    }
}
