//! Held directory handles: the only way to touch a tree.
//!
//! A path is resolved in one step that can neither leave the root nor pass a symlink (`openat2`), or name by name on a
//! kernel without that call. An operation on an entry then takes the held handle of its directory and a [`Name`], and
//! follows no symlink. So no concurrent change of the path matters.
//!
//! Symlinks that are treated as directories (`--keep-dirlinks`, [kept](KeptLinks) links) are followed once, when they
//! are first looked at, and only below the root. The directory behind such a link is held from then on, and paths below
//! the link start there. No path is resolved through the link a second time, even if the link or a name on the way to
//! it changes. Symlinks on the way to a named source are also followed once, wherever they lead, if they belong to
//! [this user or the superuser](Dir::resolve).

mod bounds;
mod jail;
mod kept;
mod mode;
mod way;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use deltic_store::StoreError;
use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{
    self, AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, ResolveFlags,
    SeekFrom, Stat, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::handles::shared::SharedState;
use crate::handles::stat::inode_of;
use crate::kernel::lock;

pub(crate) use bounds::PathBounds;
pub use bounds::{History, KeepVersions, QuotaLimits, VolumeDir, part_path, volume_path};
pub(crate) use jail::{kept_volume, leads_out};
pub(crate) use mode::{set_mode_of_held, set_mode_of_open};
pub use way::Trust;
pub(crate) use way::{Resolution, WayEnd};

/// A held directory.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    way: Way,
    /// Symlinks that are treated as directories; `None` for a root without such symlinks.
    links: Option<KeptLinks>,
    shared: Arc<SharedState>,
}

/// Opens the directory `path` of this user alone. Creates the directory if missing.
///
/// # Errors
/// `EPERM` if another user may write to the directory, owns it, or owns a symlink on the way; otherwise the system's
/// error.
pub fn open_own_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(Dir::make_own_dir(path)?.fd)
}

/// Directories behind symlinks that are treated as directories, by the paths of the symlinks.
#[derive(Debug)]
pub(crate) struct KeptLinks {
    behind: Mutex<BTreeMap<RelPath, Arc<OwnedFd>>>,
    /// Symlinks that [`Dir::named_dir`] treats as directories, by the owner of the symlink.
    trust: Trust,
}

impl KeptLinks {
    /// Returns the number of symlinks that lead to this directory.
    fn count_links_to(&self, dir: Inode) -> usize {
        let is_it = |fd: &&Arc<OwnedFd>| fs::fstat(fd).is_ok_and(|stat| inode_of(&stat) == dir);
        lock(&self.behind).values().filter(is_it).count()
    }

    /// Returns the directory behind the last kept symlink on the way to `path`, and the rest of `path` after that
    /// symlink.
    fn last_kept_link(&self, path: &RelPath) -> Option<(Arc<OwnedFd>, RelPath)> {
        let links = lock(&self.behind);
        if links.is_empty() {
            return None;
        }
        let mut at = path.clone();
        loop {
            if let Some(behind) = links.get(&at) {
                let rest = &path.as_bytes()[at.as_bytes().len()..];
                let rest = RelPath::parse(rest.strip_prefix(b"/").unwrap_or(rest));
                return Some((Arc::clone(behind), rest.ok()?));
            }
            (at, _) = at.split_last()?;
        }
    }
}

/// Method of resolving paths below a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By `openat2`.
    Kernel,
    /// Name by name.
    Walk,
    /// Following all symlinks, as the options ask.
    Follow,
    /// Never, since the root does not exist.
    Nowhere,
}

/// The purpose for which a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reaching entries of the directory, which needs no read permission.
    Pass,
    /// Listing or flushing the directory.
    Read,
}

impl Use {
    fn open_flags(self) -> OFlags {
        OFlags::DIRECTORY
            | OFlags::CLOEXEC
            | match self {
                Self::Pass => OFlags::PATH,
                Self::Read => OFlags::RDONLY,
            }
    }
}

impl Dir {
    /// Opens a root. Follows symlinks in `path`, which the operator chose.
    pub(crate) fn open_root(path: &Path, shared: &Arc<SharedState>) -> Result<Self, Errno> {
        match Self::open_start(path, shared)? {
            None => Self::open_anywhere(path, shared),
            Some(jail) => match jail.resolve_dir(path, Trust::Anyone)? {
                Resolution::To(dir) => Ok(dir),
                Resolution::Stranger(_) => Err(Errno::LOOP),
            },
        }
    }

    /// Opens the directory at `path`, which this program chose, so no confinement applies. Follows symlinks.
    fn open_anywhere(path: &Path, shared: &Arc<SharedState>) -> Result<Self, Errno> {
        Self::from_handle(fs::openat(CWD, path, Use::Pass.open_flags(), Mode::empty())?, shared)
    }

    /// Opens a root by a path without symlinks. Fails if the path has a symlink, or the kernel cannot check that.
    pub(crate) fn open_without_symlinks(
        path: &Path,
        shared: &Arc<SharedState>,
    ) -> Result<Self, Errno> {
        let resolve = ResolveFlags::NO_SYMLINKS;
        let open = |at: BorrowedFd<'_>, path: &Path, resolve| {
            Self::from_handle(
                open_with_resolve(at, path.as_os_str().as_bytes(), Use::Pass, resolve)?,
                shared,
            )
        };
        if let Some(opened) = Self::straight_in_volume(path, shared) {
            return opened;
        }
        match Self::open_start(path, shared)? {
            None => open(CWD, path, resolve),
            // In a confined process, the path must be below the directory that confines the process.
            Some(jail) => open(jail.as_fd(), path, resolve | ResolveFlags::BENEATH),
        }
    }

    /// Returns the directory behind the handle `fd`, as a root.
    pub(crate) fn from_handle(fd: OwnedFd, shared: &Arc<SharedState>) -> Result<Self, Errno> {
        /// Set once the kernel has opened a directory by `openat2`; that call is not probed again.
        static KNOWN: AtomicBool = AtomicBool::new(false);
        let is_known = KNOWN.load(Ordering::Relaxed) || {
            let probe = open_beneath(fd.as_fd(), b".", Use::Pass);
            KNOWN.fetch_or(probe.is_ok(), Ordering::Relaxed);
            !matches!(probe, Err(Errno::NOSYS | Errno::PERM))
        };
        let way = if is_known { Way::Kernel } else { Way::Walk };
        Ok(Self { fd, way, links: None, shared: Arc::clone(shared) })
    }

    /// Returns the directories that paths from this handle may lead to.
    pub(crate) fn bounds(&self) -> &PathBounds {
        &self.shared.bounds
    }

    /// Refuses paths into private directories of Deltic.
    ///
    /// # Errors
    /// [`StoreError::BadName`].
    pub(crate) fn check_path(
        &self,
        action: &'static str,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        self.bounds().check_path(action, path)
    }

    /// Returns the state that this handle shares with other handles.
    pub(crate) fn shared(&self) -> Arc<SharedState> {
        Arc::clone(&self.shared)
    }

    /// Returns a root that does not exist: every lookup and creation fails.
    pub(crate) fn missing_root(shared: &Arc<SharedState>) -> Result<Self, Errno> {
        Ok(Self::open_anywhere(Path::new("/"), shared)?.with_resolver(Way::Nowhere))
    }

    /// True if this root does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.way == Way::Nowhere
    }

    /// Flushes the names in the directory. A directory that this user may write but not read cannot be flushed, which
    /// is no error.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        match self.open_dir(&RelPath::root(), Use::Read) {
            Err(Errno::ACCESS) => Ok(()),
            opened => fs::fsync(opened?),
        }
    }

    /// Opens the directory `path` of this user alone. Creates missing directories of the path. Refuses a directory that
    /// others may write to. Refuses to create directories inside another user's directory, and to follow another user's
    /// symlink.
    pub(crate) fn make_own_dir(path: &Path) -> Result<Self, Errno> {
        let ours = rustix::process::geteuid().as_raw();
        let owner = |dir: &Self| Ok::<_, Errno>(fs::fstat(&dir.fd)?.st_uid);
        let mut missing = Vec::new();
        let mut at = path;
        let mut held = loop {
            match Self::open_trusted_path(at) {
                Err(Errno::NOENT) => {
                    missing.push(at.file_name().ok_or(Errno::INVAL)?);
                    at = at.parent().ok_or(Errno::NOENT)?;
                }
                opened => break opened?,
            }
        };
        if ![0, ours].contains(&owner(&held)?) {
            return Err(Errno::PERM);
        }
        for name in missing.into_iter().rev() {
            match fs::mkdirat(&held, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let flags = Use::Pass.open_flags() | OFlags::NOFOLLOW;
            held = Self::from_handle(fs::openat(&held, name, flags, Mode::empty())?, &held.shared)?;
        }
        let stat = fs::fstat(&held.fd)?;
        let is_shared = stat.st_mode & 0o022 != 0;
        if stat.st_uid == ours && !is_shared { Ok(held) } else { Err(Errno::PERM) }
    }

    /// True if there is a directory at `path`, which this program chose.
    pub(crate) fn is_dir_there(path: &Path) -> bool {
        Self::open_trusted_path(path).is_ok()
    }

    /// Opens the directory at `path`, which this program chose, so no confinement applies. Follows symlinks of this
    /// user and of the superuser only.
    fn open_trusted_path(path: &Path) -> Result<Self, Errno> {
        let path = if path == Path::new("") { Path::new(".") } else { path };
        match Self::open_anywhere(Path::new("."), &Arc::default())?
            .resolve_dir(path, Trust::Ours)?
        {
            Resolution::To(dir) => Ok(dir),
            Resolution::Stranger(_) => Err(Errno::PERM),
        }
    }

    /// Opens the regular file `name`, which must belong to this user. With `CREATE` in `how`, creates a missing file
    /// for this user alone.
    pub(crate) fn open_own(&self, name: &Name, how: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | how;
        let file = fs::openat(&self.fd, name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        let ours = stat.st_uid == rustix::process::geteuid().as_raw();
        if is_file && ours { Ok(file) } else { Err(Errno::PERM) }
    }

    /// Returns the handle with another way to resolve paths.
    pub(crate) fn with_resolver(self, way: Way) -> Self {
        Self { way, ..self }
    }

    /// Opens the directory `path` below this directory.
    pub(crate) fn open_dir(&self, path: &RelPath, usage: Use) -> Result<Self, Errno> {
        match self.links.as_ref().and_then(|links| links.last_kept_link(path)) {
            Some((behind, rest)) => self.open_from(behind.as_fd(), &rest, usage),
            None => self.open_from(self.fd.as_fd(), path, usage),
        }
    }

    fn open_from(&self, at: BorrowedFd<'_>, path: &RelPath, usage: Use) -> Result<Self, Errno> {
        let fd = match self.way {
            Way::Nowhere => return Err(Errno::NOENT),
            _ if path.is_root() => fs::openat(at, ".", usage.open_flags(), Mode::empty())?,
            Way::Kernel => open_beneath(at, path.as_bytes(), usage)?,
            Way::Walk => open_by_names(at, path, usage)?,
            Way::Follow => fs::openat(at, path.as_bytes(), usage.open_flags(), Mode::empty())?,
        };
        Ok(Self { fd, way: self.way, links: None, shared: self.shared() })
    }

    /// Calls `each` with every name except `.` and `..`, in no particular order.
    pub(crate) fn for_each_name(&self, mut each: impl FnMut(&[u8])) -> Result<(), Errno> {
        self.for_each_entry(|name, _| each(name))
    }

    /// Calls `each` with every name except `.` and `..`, and the type of the entry, if the file system tells types.
    pub(crate) fn for_each_entry(
        &self,
        mut each: impl FnMut(&[u8], FileType),
    ) -> Result<(), Errno> {
        // An earlier listing through this handle may have moved the position of the handle.
        fs::seek(&self.fd, SeekFrom::Start(0))?;
        // Each thread keeps its buffer: allocating for each of thousands of small directories would be slow.
        let mut buffer = NAMES_BUFFER.take();
        buffer.resize(NAMES_BUFFER_BYTES, MaybeUninit::uninit());
        let read = read_entries(&self.fd, &mut buffer, &mut each);
        NAMES_BUFFER.set(buffer);
        read
    }

    /// Returns the metadata of `name`, without following a symlink.
    pub(crate) fn stat(&self, name: &Name) -> Result<Stat, Errno> {
        fs::statat(&self.fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the metadata of `name`, following a symlink.
    pub(crate) fn stat_behind(&self, name: &Name) -> Result<Stat, Errno> {
        if self.bounds().are_confined() {
            let held = self.open_from(self.fd.as_fd(), &RelPath::root(), Use::Pass)?;
            return held.stat_at_end(Path::new(OsStr::from_bytes(name.as_bytes())));
        }
        fs::statat(&self.fd, name.as_bytes(), AtFlags::empty())
    }

    /// Opens `name` to read, following a symlink; `more` adds flags. Never blocks.
    pub(crate) fn open_behind(&self, name: &Name, more: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags | more, Mode::empty())
    }

    /// Returns the metadata of `name`, without following a symlink; `None` if there is no such entry.
    pub(crate) fn stat_if_exists(&self, name: &Name) -> Result<Option<Stat>, Errno> {
        match self.stat(name) {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns the target of the symlink `name`.
    pub(crate) fn read_link(&self, name: &Name) -> Result<Box<[u8]>, Errno> {
        Ok(fs::readlinkat(&self.fd, name.as_bytes(), Vec::new())?.into_bytes().into())
    }

    /// Opens `name` to read, without following a symlink; `more` adds flags. Never blocks.
    pub(crate) fn open(&self, name: &Name, more: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags | more, Mode::empty())
    }

    /// Creates the file `name` to read and write, accessible by the owner only; the name must be free.
    pub(crate) fn create(&self, name: &Name) -> Result<OwnedFd, Errno> {
        self.create_as(name, Mode::RUSR | Mode::WUSR)
    }

    /// Creates the file `name` with this mode, less the `umask`; the name must be free.
    pub(crate) fn create_as(&self, name: &Name, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags, mode)
    }

    /// Creates a file without a name (`O_TMPFILE`) on the file system of this directory, with this mode, less the
    /// `umask`. Unless it gets a [name](Self::link_nameless), the file vanishes with its handle.
    pub(crate) fn create_nameless(&self, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        fs::openat(&self.fd, ".", flags, mode)
    }

    /// Gives a nameless file the name `name`, which must be free. Older kernels require a privilege for this call.
    pub(crate) fn link_nameless(&self, nameless: &OwnedFd, name: &Name) -> Result<(), Errno> {
        fs::linkat(nameless, "", &self.fd, name.as_bytes(), AtFlags::EMPTY_PATH)
    }

    /// Creates the directory `name` with this mode, less the `umask` or the default ACL.
    pub(crate) fn make_dir(&self, name: &Name, mode: Mode) -> Result<(), Errno> {
        fs::mkdirat(&self.fd, name.as_bytes(), mode)
    }

    /// Creates the symlink `name`.
    pub(crate) fn make_symlink(&self, name: &Name, target: &[u8]) -> Result<(), Errno> {
        fs::symlinkat(target, &self.fd, name.as_bytes())
    }

    /// Creates the FIFO, socket or device `name`, accessible by the owner only.
    pub(crate) fn make_special(&self, name: &Name, kind: FileType, dev: Dev) -> Result<(), Errno> {
        fs::mknodat(&self.fd, name.as_bytes(), kind, Mode::RUSR | Mode::WUSR, dev)
    }

    /// Creates the hard link `new_name` in `dir` to `name`, without following a symlink; the new name must be free.
    pub(crate) fn link(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        fs::linkat(&self.fd, name.as_bytes(), &dir.fd, new_name.as_bytes(), AtFlags::empty())
    }

    /// Renames `name` to `new_name` in `dir`. Replaces an entry there that is not a directory.
    pub(crate) fn rename(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        fs::renameat(&self.fd, name.as_bytes(), &dir.fd, new_name.as_bytes())
    }

    /// Renames `name` to `new_name` in `dir`. The new name must be free.
    pub(crate) fn rename_new(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        let (from, to, flags) = (name.as_bytes(), new_name.as_bytes(), RenameFlags::NOREPLACE);
        match fs::renameat_with(&self.fd, from, &dir.fd, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                // This file system cannot check and rename in one step.
                match dir.stat_if_exists(new_name)? {
                    Some(_) => Err(Errno::EXIST),
                    None => self.rename(name, dir, new_name),
                }
            }
            moved => moved,
        }
    }

    /// Moves the file `name` to `new_name` in `dir`. Replaces no entry, even if another program takes the new name
    /// meanwhile. A file system that cannot check and rename in one step (NFS) gives the file its new name first, and
    /// then removes the old name.
    ///
    /// # Errors
    /// `EXIST` if the new name is taken; `OPNOTSUPP` if the file system has no hard links either.
    pub(crate) fn move_new(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        let (from, to, flags) = (name.as_bytes(), new_name.as_bytes(), RenameFlags::NOREPLACE);
        match fs::renameat_with(&self.fd, from, &dir.fd, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.link_then_remove(name, dir, new_name)
            }
            moved => moved,
        }
    }

    /// Moves the file `name` by a hard link, which never replaces an entry. After a failure, the file may have both
    /// names, and always has one.
    pub(crate) fn link_then_remove(
        &self,
        name: &Name,
        dir: &Self,
        new_name: &Name,
    ) -> Result<(), Errno> {
        match self.link(name, dir, new_name) {
            Err(Errno::PERM | Errno::NOSYS) => return Err(Errno::OPNOTSUPP),
            linked => linked?,
        }
        if inode_of(&self.stat(name)?) != inode_of(&dir.stat(new_name)?) {
            // Another program has just put a file at the old name. That file stays.
            return Err(Errno::BUSY);
        }
        self.remove_file(name)
    }

    /// Removes the entry `name`, which must not be a directory.
    pub(crate) fn remove_file(&self, name: &Name) -> Result<(), Errno> {
        fs::unlinkat(&self.fd, name.as_bytes(), AtFlags::empty())
    }

    /// Removes the empty directory `name`.
    pub(crate) fn remove_dir(&self, name: &Name) -> Result<(), Errno> {
        match fs::unlinkat(&self.fd, name.as_bytes(), AtFlags::REMOVEDIR) {
            Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
            removed => removed,
        }
    }

    /// Sets the times of `name`, without following a symlink.
    pub(crate) fn set_times(&self, name: &Name, times: &Timestamps) -> Result<(), Errno> {
        fs::utimensat(&self.fd, name.as_bytes(), times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Sets owner and group of `name`, without following a symlink.
    pub(crate) fn set_owner(
        &self,
        name: &Name,
        user: Option<Uid>,
        group: Option<Gid>,
    ) -> Result<(), Errno> {
        fs::chownat(&self.fd, name.as_bytes(), user, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns a path to `name` for calls that take no directory handle. The path starts at the held directory. So only
    /// the last name could be a symlink, which such a call must not follow.
    pub(crate) fn path_to(&self, name: &Name) -> Vec<u8> {
        [&self.own_path()[..], name.as_bytes()].concat()
    }

    /// Returns a path to this directory, ending in a slash, for calls that take no directory handle.
    pub(crate) fn own_path(&self) -> Vec<u8> {
        format!("/proc/self/fd/{}/", self.fd.as_raw_fd()).into_bytes()
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the path of the link in `/proc` to the entry behind a handle.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> Vec<u8> {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes()
}

fn read_entries(
    dir: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    each: &mut impl FnMut(&[u8], FileType),
) -> Result<(), Errno> {
    let mut entries = RawDir::new(dir, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => each(name, entry.file_type()),
        }
    }
    Ok(())
}

fn open_beneath(root: BorrowedFd<'_>, path: &[u8], usage: Use) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // With either error, the path tried to leave the root.
    open_with_resolve(root, path, usage, resolve)
        .map_err(|errno| if errno == Errno::XDEV { Errno::LOOP } else { errno })
}

fn open_with_resolve(
    root: BorrowedFd<'_>,
    path: &[u8],
    usage: Use,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..MAX_TRIES {
        answer = fs::openat2(root, path, usage.open_flags(), Mode::empty(), resolve);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    answer
}

fn open_by_names(root: BorrowedFd<'_>, path: &RelPath, usage: Use) -> Result<OwnedFd, Errno> {
    let mut names = path.components().peekable();
    let mut held = None;
    while let Some(name) = names.next() {
        let above = held.as_ref().map_or(root, |fd: &OwnedFd| fd.as_fd());
        let usage = if names.peek().is_none() { usage } else { Use::Pass };
        let opened = fs::openat(above, name, usage.open_flags() | OFlags::NOFOLLOW, Mode::empty());
        held = Some(opened.map_err(|errno| symlink_error_or(errno, above, name))?);
    }
    held.ok_or(Errno::INVAL)
}

/// Tells a symlink on the way from a file, since `open` reports "not a directory" for both.
fn symlink_error_or(errno: Errno, dir: BorrowedFd<'_>, name: &[u8]) -> Errno {
    let is_symlink = |stat: Stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink();
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if errno == Errno::NOTDIR && is_symlink(stat) => Errno::LOOP,
        _ => errno,
    }
}

/// Most attempts to resolve a path that concurrent renames disturb.
const MAX_TRIES: usize = 8;
const NAMES_BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Buffer for a directory's entries; empty while in use.
    static NAMES_BUFFER: Cell<Vec<MaybeUninit<u8>>> = const { Cell::new(Vec::new()) };
}
