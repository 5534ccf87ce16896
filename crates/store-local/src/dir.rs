//! Held directory handles: the only way to touch a tree.
//!
//! A path is resolved in one step that can neither leave the root nor pass a symlink (`openat2`), or name by name where
//! the kernel does not know that call. What is done with an entry is then done relative to the held handle of its
//! directory, on a [`Name`], and without following: there is nothing left to race for (`RELIABILITY` finding 9).
//!
//! Symlinks that are to be [kept](KeptLinks) and taken for the directories behind them (`--keep-dirlinks`) are followed
//! once, when they are first looked at, and only below the root. What lies behind is held from then on, and paths below
//! it start there: whatever becomes of the link, or of any name on the way to it, nothing is resolved through it a
//! second time. So are links on the way to a named source, wherever they lead, if they are [ours or the
//! system's](Dir::end_of).

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

use deltic_tree::{Name, RelPath};
use rustix::fs::{
    self, AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, ResolveFlags,
    SeekFrom, Stat, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::lock;

pub use jail::{
    History, KeepVersions, QuotaLimits, VolumeDir, check_path, client_path, confine,
    confine_to_volumes, keeps_versions, leads_out, part_path, volume_path,
};
pub(crate) use jail::{
    is_confined, is_in_volume, is_private, keeps_to_volumes, kept_volume, may_read, rebased,
    stat_in_volume,
};
pub(crate) use mode::{set_mode_of_held, set_mode_of_open};
pub use way::Trust;
pub(crate) use way::{Led, WayEnd};

/// A directory, held.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    way: Way,
    /// Of a root that keeps some.
    links: Option<KeptLinks>,
}

/// Opens the directory `path` of this user alone, and makes it where it is missing.
///
/// # Errors
/// Somebody else may put things there, or leads there by a symlink; or what the system says.
pub fn own_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(Dir::make_own(path)?.fd)
}

/// The directories behind symlinks that are taken for directories, by the paths of the links.
#[derive(Debug)]
pub(crate) struct KeptLinks {
    behind: Mutex<BTreeMap<RelPath, Arc<OwnedFd>>>,
    /// Which are taken for them where they are [named](Dir::named_dir).
    trust: Trust,
}

impl KeptLinks {
    /// How many lead to this directory.
    fn lead_to(&self, dir: (u64, u64)) -> usize {
        let is_it = |fd: &&Arc<OwnedFd>| fs::fstat(fd).is_ok_and(|stat| inode(&stat) == dir);
        lock(&self.behind).values().filter(is_it).count()
    }

    /// What the last link on the way to `path` leads to, and the path behind that.
    fn above(&self, path: &RelPath) -> Option<(Arc<OwnedFd>, RelPath)> {
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

const fn inode(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// How paths below a handle are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By `openat2`.
    Kernel,
    /// Name by name.
    Walk,
    /// Wherever symlinks lead, because that was asked for.
    Follow,
    /// To nothing: the root is not there.
    Nowhere,
}

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To reach its entries; needs no permission to read it.
    Pass,
    /// To list or to flush it.
    Read,
}

impl Use {
    fn flags(self) -> OFlags {
        OFlags::DIRECTORY
            | OFlags::CLOEXEC
            | match self {
                Self::Pass => OFlags::PATH,
                Self::Read => OFlags::RDONLY,
            }
    }
}

impl Dir {
    /// Opens a root: a path of the operator's is followed.
    pub(crate) fn open_root(path: &Path) -> Result<Self, Errno> {
        match Self::start(path)? {
            None => Self::open_anywhere(path),
            Some(jail) => match jail.led_to(path, Trust::Anyone)? {
                Led::To(dir) => Ok(dir),
                Led::Stranger(_) => Err(Errno::LOOP),
            },
        }
    }

    /// Opens a path of our own, wherever it is.
    fn open_anywhere(path: &Path) -> Result<Self, Errno> {
        Self::of(fs::openat(CWD, path, Use::Pass.flags(), Mode::empty())?)
    }

    /// The same as [`open_root`](Self::open_root), but no symlink is on the way; where this kernel cannot tell, it
    /// fails.
    pub(crate) fn open_straight(path: &Path) -> Result<Self, Errno> {
        let resolve = ResolveFlags::NO_SYMLINKS;
        let open = |at: BorrowedFd<'_>, path: &Path, resolve| {
            Self::of(open_so(at, path.as_os_str().as_bytes(), Use::Pass, resolve)?)
        };
        if let Some(opened) = Self::straight_in_volume(path) {
            return opened;
        }
        match Self::start(path)? {
            None => open(CWD, path, resolve),
            // What is not plainly below it is walked to.
            Some(jail) => open(jail.as_fd(), path, resolve | ResolveFlags::BENEATH),
        }
    }

    /// The directory that `fd` is, as a root.
    pub(crate) fn of(fd: OwnedFd) -> Result<Self, Errno> {
        /// Set once the kernel has opened a directory so: it still knows how from then on.
        static KNOWN: AtomicBool = AtomicBool::new(false);
        let is_known = KNOWN.load(Ordering::Relaxed) || {
            let probe = open_beneath(fd.as_fd(), b".", Use::Pass);
            KNOWN.fetch_or(probe.is_ok(), Ordering::Relaxed);
            !matches!(probe, Err(Errno::NOSYS | Errno::PERM))
        };
        Ok(Self { fd, way: if is_known { Way::Kernel } else { Way::Walk }, links: None })
    }

    /// The root that is not there: nothing is found below it, or made.
    pub(crate) fn missing_root() -> Result<Self, Errno> {
        Ok(Self::open_anywhere(Path::new("/"))?.with_way(Way::Nowhere))
    }

    /// True if it is that one.
    pub(crate) fn is_missing(&self) -> bool {
        self.way == Way::Nowhere
    }

    /// Flushes the names in it; one that we may write and not read cannot be flushed by us.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        match self.dir(&RelPath::root(), Use::Read) {
            Err(Errno::ACCESS) => Ok(()),
            opened => fs::fsync(opened?),
        }
    }

    /// Opens the directory `path` of our own, for nobody else; it and what is missing above it are made. Refuses one in
    /// which somebody else could put things, to make one in what is somebody else's (it would be in their way), and to
    /// be led there by somebody else's symlink.
    pub(crate) fn make_own(path: &Path) -> Result<Self, Errno> {
        let ours = rustix::process::geteuid().as_raw();
        let owner = |dir: &Self| Ok::<_, Errno>(fs::fstat(&dir.fd)?.st_uid);
        let mut missing = Vec::new();
        let mut at = path;
        let mut held = loop {
            match Self::open_by_our_links(at) {
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
            let flags = Use::Pass.flags() | OFlags::NOFOLLOW;
            held = Self::of(fs::openat(&held, name, flags, Mode::empty())?)?;
        }
        let stat = fs::fstat(&held.fd)?;
        let is_shared = stat.st_mode & 0o022 != 0;
        if stat.st_uid == ours && !is_shared { Ok(held) } else { Err(Errno::PERM) }
    }

    /// Opens a path of our own, wherever it is, through symlinks of ours and the superuser's alone.
    fn open_by_our_links(path: &Path) -> Result<Self, Errno> {
        let path = if path == Path::new("") { Path::new(".") } else { path };
        if is_confined() {
            return Self::open_anywhere(path);
        }
        match Self::open_anywhere(Path::new("."))?.led_to(path, Trust::Ours)? {
            Led::To(dir) => Ok(dir),
            Led::Stranger(_) => Err(Errno::PERM),
        }
    }

    /// Opens the regular file `name` of our own, or makes it, for nobody else.
    pub(crate) fn open_own(&self, name: &Name, how: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | how;
        let file = fs::openat(&self.fd, name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        let ours = stat.st_uid == rustix::process::geteuid().as_raw();
        if is_file && ours { Ok(file) } else { Err(Errno::PERM) }
    }

    /// The same handle with another way to resolve.
    pub(crate) fn with_way(self, way: Way) -> Self {
        Self { way, ..self }
    }

    /// The directory `path` below this one.
    pub(crate) fn dir(&self, path: &RelPath, usage: Use) -> Result<Self, Errno> {
        match self.links.as_ref().and_then(|links| links.above(path)) {
            Some((behind, rest)) => self.open_from(behind.as_fd(), &rest, usage),
            None => self.open_from(self.fd.as_fd(), path, usage),
        }
    }

    fn open_from(&self, at: BorrowedFd<'_>, path: &RelPath, usage: Use) -> Result<Self, Errno> {
        let fd = match self.way {
            Way::Nowhere => return Err(Errno::NOENT),
            _ if path.is_root() => fs::openat(at, ".", usage.flags(), Mode::empty())?,
            Way::Kernel => open_beneath(at, path.as_bytes(), usage)?,
            Way::Walk => open_by_names(at, path, usage)?,
            Way::Follow => fs::openat(at, path.as_bytes(), usage.flags(), Mode::empty())?,
        };
        Ok(Self { fd, way: self.way, links: None })
    }

    /// Calls `each` with every name but `.` and `..`, in no order.
    pub(crate) fn for_each_name(&self, mut each: impl FnMut(&[u8])) -> Result<(), Errno> {
        self.for_each_entry(|name, _| each(name))
    }

    /// The same with what each is, where the file system says so.
    pub(crate) fn for_each_entry(
        &self,
        mut each: impl FnMut(&[u8], FileType),
    ) -> Result<(), Errno> {
        // Where somebody read on this handle before, the names behind that place would be all.
        fs::seek(&self.fd, SeekFrom::Start(0))?;
        // Kept by its thread: for thousands of small directories, memory would be taken and given back each time.
        let mut buffer = NAMES_BUFFER.take();
        buffer.resize(NAMES_BUFFER_BYTES, MaybeUninit::uninit());
        let read = read_entries(&self.fd, &mut buffer, &mut each);
        NAMES_BUFFER.set(buffer);
        read
    }

    /// What `name` itself is.
    pub(crate) fn stat(&self, name: &Name) -> Result<Stat, Errno> {
        fs::statat(&self.fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// What `name` is or points at.
    pub(crate) fn stat_behind(&self, name: &Name) -> Result<Stat, Errno> {
        if is_confined() {
            let held = self.open_from(self.fd.as_fd(), &RelPath::root(), Use::Pass)?;
            return held.stat_at_end(Path::new(OsStr::from_bytes(name.as_bytes())));
        }
        fs::statat(&self.fd, name.as_bytes(), AtFlags::empty())
    }

    /// Opens what `name` is or points at to read, or with `more` than that; blocks on nothing.
    pub(crate) fn open_behind(&self, name: &Name, more: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags | more, Mode::empty())
    }

    /// What `name` itself is, if it is.
    pub(crate) fn find(&self, name: &Name) -> Result<Option<Stat>, Errno> {
        match self.stat(name) {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Where the symlink `name` points.
    pub(crate) fn read_link(&self, name: &Name) -> Result<Box<[u8]>, Errno> {
        Ok(fs::readlinkat(&self.fd, name.as_bytes(), Vec::new())?.into_bytes().into())
    }

    /// Opens `name` to read, or with `more` than that; blocks on nothing, follows nothing.
    pub(crate) fn open(&self, name: &Name, more: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags | more, Mode::empty())
    }

    /// Makes the file `name` to read and write, its owner's alone; it must not exist.
    pub(crate) fn create(&self, name: &Name) -> Result<OwnedFd, Errno> {
        self.create_as(name, Mode::RUSR | Mode::WUSR)
    }

    /// The same with this mode, less what the process withholds.
    pub(crate) fn create_as(&self, name: &Name, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.fd, name.as_bytes(), flags, mode)
    }

    /// Makes a file that has no name, to read and write, on the file system of this directory, with this mode, less
    /// what the process withholds. What gets [no name](Self::put) goes with its handle.
    pub(crate) fn create_nameless(&self, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        fs::openat(&self.fd, ".", flags, mode)
    }

    /// Gives a file that has none this name, which nothing may have. Older kernels want a privilege for that.
    pub(crate) fn put(&self, nameless: &OwnedFd, name: &Name) -> Result<(), Errno> {
        fs::linkat(nameless, "", &self.fd, name.as_bytes(), AtFlags::EMPTY_PATH)
    }

    /// Makes the directory `name` with this mode, less what the process, or a default ACL, withholds.
    pub(crate) fn make_dir(&self, name: &Name, mode: Mode) -> Result<(), Errno> {
        fs::mkdirat(&self.fd, name.as_bytes(), mode)
    }

    /// Makes the symlink `name`.
    pub(crate) fn make_symlink(&self, name: &Name, target: &[u8]) -> Result<(), Errno> {
        fs::symlinkat(target, &self.fd, name.as_bytes())
    }

    /// Makes the FIFO, socket or device `name`, its owner's alone.
    pub(crate) fn make_special(&self, name: &Name, kind: FileType, dev: Dev) -> Result<(), Errno> {
        fs::mknodat(&self.fd, name.as_bytes(), kind, Mode::RUSR | Mode::WUSR, dev)
    }

    /// Makes `new_name` in `dir` another name of `name` itself, be it a symlink; it must not exist.
    pub(crate) fn link(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        fs::linkat(&self.fd, name.as_bytes(), &dir.fd, new_name.as_bytes(), AtFlags::empty())
    }

    /// Moves `name` to `new_name` in `dir`, over what is there unless that is a directory.
    pub(crate) fn rename(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        fs::renameat(&self.fd, name.as_bytes(), &dir.fd, new_name.as_bytes())
    }

    /// Moves `name` to `new_name` in `dir`, where nothing may be.
    pub(crate) fn rename_new(&self, name: &Name, dir: &Self, new_name: &Name) -> Result<(), Errno> {
        let (from, to, flags) = (name.as_bytes(), new_name.as_bytes(), RenameFlags::NOREPLACE);
        match fs::renameat_with(&self.fd, from, &dir.fd, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                // This file system cannot tell and move in one step.
                match dir.find(new_name)? {
                    Some(_) => Err(Errno::EXIST),
                    None => self.rename(name, dir, new_name),
                }
            }
            moved => moved,
        }
    }

    /// Removes `name`, which is no directory.
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

    /// Sets the times of `name` itself, be it a symlink.
    pub(crate) fn set_times(&self, name: &Name, times: &Timestamps) -> Result<(), Errno> {
        fs::utimensat(&self.fd, name.as_bytes(), times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Sets owner and group of `name` itself, be it a symlink.
    pub(crate) fn set_owner(
        &self,
        name: &Name,
        user: Option<Uid>,
        group: Option<Gid>,
    ) -> Result<(), Errno> {
        fs::chownat(&self.fd, name.as_bytes(), user, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// A path to `name` itself for calls that take no handle of its directory: it starts at the held one, and what such
    /// a call does not follow is the last name.
    pub(crate) fn path_to(&self, name: &Name) -> Vec<u8> {
        [&self.own_path()[..], name.as_bytes()].concat()
    }

    /// The same to the directory itself, ending in a slash.
    pub(crate) fn own_path(&self) -> Vec<u8> {
        format!("/proc/self/fd/{}/", self.fd.as_raw_fd()).into_bytes()
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The link that `/proc` has for what a handle stands for.
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
    // Both mean that the path tried to leave.
    open_so(root, path, usage, resolve)
        .map_err(|errno| if errno == Errno::XDEV { Errno::LOOP } else { errno })
}

fn open_so(
    root: BorrowedFd<'_>,
    path: &[u8],
    usage: Use,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..MAX_TRIES {
        answer = fs::openat2(root, path, usage.flags(), Mode::empty(), resolve);
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
        let opened = fs::openat(above, name, usage.flags() | OFlags::NOFOLLOW, Mode::empty());
        held = Some(opened.map_err(|errno| symlink_or(errno, above, name))?);
    }
    held.ok_or(Errno::INVAL)
}

/// Tells a symlink in the way from a file: the open calls both "not a directory".
fn symlink_or(errno: Errno, dir: BorrowedFd<'_>, name: &[u8]) -> Errno {
    let is_symlink = |stat: Stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink();
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if errno == Errno::NOTDIR && is_symlink(stat) => Errno::LOOP,
        _ => errno,
    }
}

/// Tries of a resolution that a concurrent rename disturbed.
const MAX_TRIES: usize = 8;
const NAMES_BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Empty while it is in use.
    static NAMES_BUFFER: Cell<Vec<MaybeUninit<u8>>> = const { Cell::new(Vec::new()) };
}
