//! Directories and files whose paths are in options and arguments (`--backup-dir` and similar options, the destination,
//! lists).
//!
//! The path of such a directory or file may lead through directories in which other users may create symlinks, for
//! example a destination of another user. So a symlink on the way is followed only if it belongs to the superuser or
//! this user: another user's symlink could lead anywhere.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_tree::RelPath;
use deltic_tree::path::printable;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::handles::dir::{Dir, PathBounds, Resolution, Trust, Use, WayEnd};
use crate::handles::shared::SharedState;
use crate::kernel::errno::{LEADS_OUT, io_error};
use crate::roots::context::StoreContext;
use deltic_store::StoreError;

/// Returns the absolute path of `path` below `root`.
pub(crate) fn full_path(root: &Path, path: &RelPath, bounds: &PathBounds) -> Option<PathBuf> {
    let below = root.join(OsStr::from_bytes(path.as_bytes()));
    // A trailing slash stands for the content of the directory. Messages show the directory without the slash.
    Some(bounds.client_path(&std::path::absolute(below).ok()?).components().collect())
}

/// A directory that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDir {
    /// Path of the directory.
    pub path: PathBuf,
    /// Trusted owners of symlinks on the way.
    pub trust: Trust,
    /// State that stores in the directory share with other stores.
    pub context: StoreContext,
}

impl NamedDir {
    /// Returns the directory `path`, with a context of its own.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, trust: Trust) -> Self {
        Self { path: path.into(), trust, context: StoreContext::default() }
    }

    /// Returns the directory with this context.
    #[must_use]
    pub fn in_context(self, context: &StoreContext) -> Self {
        Self { context: context.clone(), ..self }
    }

    /// Opens the directory.
    pub(crate) fn open(&self) -> Result<Dir, Errno> {
        match self.resolve()? {
            Resolution::To(dir) => Ok(dir),
            Resolution::Stranger(_) => Err(Errno::LOOP),
        }
    }

    /// Checks that no symlink of another user is on the way.
    ///
    /// # Errors
    /// [`StoreError::ForeignSymlink`], with the path of the symlink.
    pub fn check_symlinks(&self) -> Result<(), StoreError> {
        match self.resolve() {
            Ok(Resolution::Stranger(link)) => Err(foreign_symlink_error(&link, &self.context)),
            // A missing directory is created later, and other errors are reported when the directory is used.
            Ok(Resolution::To(_)) | Err(_) => Ok(()),
        }
    }

    /// Checks that no symlink of another user is on the way; the error names the option's directory.
    pub(crate) fn check_for(&self, action: &'static str) -> Result<(), StoreError> {
        self.check_symlinks().map_err(|link| self.refusal_error(action, io::Error::other(link)))
    }

    /// Opens the directory; the error names the option's directory.
    pub(crate) fn open_for(&self, action: &'static str) -> Result<Dir, StoreError> {
        self.open().map_err(|errno| self.refusal_error(action, io_error(errno)))
    }

    fn refusal_error(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Argument {
            action,
            argument: self.context.client_path(&self.path).into(),
            source,
        }
    }

    /// Returns the names in the directory, in no particular order.
    ///
    /// # Errors
    /// The system's error.
    pub fn list_names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let dir = self.open()?.open_dir(&RelPath::root(), Use::Read)?;
        dir.for_each_name(|name| names.push(name.to_vec()))?;
        Ok(names)
    }

    /// Makes the directory this process's working directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn enter(&self) -> io::Result<()> {
        Ok(rustix::process::fchdir(self.open()?)?)
    }

    /// Returns a directory that the operator of this process names for the program itself.
    #[must_use]
    pub fn of_operator(path: &Path) -> Self {
        Self::new(path, Trust::Ours)
    }

    /// Checks that no symlink of another user is in the path of a directory that the operator names. The error names
    /// the symlink.
    ///
    /// # Errors
    /// A symlink of another user is in the path.
    pub fn check_operators(&self) -> io::Result<()> {
        match self.resolve() {
            Ok(Resolution::Stranger(link)) => Err(untrusted_symlink_error(&link)),
            Ok(Resolution::To(_)) | Err(_) => Ok(()),
        }
    }

    /// Opens the directory. If a symlink of another user is in the path, the error names the symlink.
    ///
    /// # Errors
    /// The system's error, or a symlink of another user in the path.
    pub fn open_held(&self) -> io::Result<OwnedFd> {
        match self.resolve()? {
            Resolution::To(dir) => dir.as_fd().try_clone_to_owned(),
            Resolution::Stranger(link) => Err(untrusted_symlink_error(&link)),
        }
    }

    /// Returns the path of the directory, without symlinks.
    ///
    /// # Errors
    /// As [`NamedDir::open_held`].
    pub fn real_path(&self) -> io::Result<PathBuf> {
        let held = self.open_held()?;
        let link = format!("/proc/self/fd/{}", held.as_raw_fd());
        Ok(OsString::from_vec(fs::readlinkat(CWD, link, Vec::new())?.into_bytes()).into())
    }

    /// Opens the directory. Creates the directory and its missing parents with `mode`.
    ///
    /// # Errors
    /// As [`NamedDir::open_held`].
    pub fn open_or_create(&self, mode: u32) -> io::Result<OwnedFd> {
        self.check_operators()?;
        self.make_with_parents(Mode::from_raw_mode(mode))?;
        self.open_held()
    }

    /// Creates the last directory of the path, if missing. Returns true if the directory was created.
    pub(crate) fn make_dir(&self, mode: Mode) -> Result<bool, Errno> {
        let Some(name) = self.path.file_name() else { return self.open().map(|_| false) };
        match fs::mkdirat(self.open_parent()?, name, mode) {
            Err(Errno::EXIST) => self.open().map(|_| false),
            made => made.map(|()| true),
        }
    }

    /// Removes the directory, which must be empty.
    pub(crate) fn remove_dir(&self) -> Result<(), Errno> {
        let name = self.path.file_name().ok_or(Errno::INVAL)?;
        fs::unlinkat(self.open_parent()?, name, AtFlags::REMOVEDIR)
    }

    /// Opens the parent directory.
    pub(crate) fn open_parent(&self) -> Result<Dir, Errno> {
        match self.path.parent() {
            Some(above) if above != Path::new("") => self.in_own_context(above).open(),
            _ => self.in_own_context(Path::new(".")).open(),
        }
    }

    /// Opens the directory. Creates the directory and its missing parents with `mode`.
    pub(crate) fn make_with_parents(&self, mode: Mode) -> Result<Dir, Errno> {
        let missing = |dir: &Self| dir.open().is_err_and(|errno| errno == Errno::NOENT);
        let ancestors = self.path.ancestors().filter(|dir| *dir != Path::new(""));
        let above: Vec<_> =
            ancestors.map(|dir| self.in_own_context(dir)).take_while(missing).collect();
        above.iter().rev().try_for_each(|dir| dir.make_dir(mode).map(drop))?;
        self.open()
    }

    fn in_own_context(&self, path: &Path) -> Self {
        Self { path: path.to_path_buf(), trust: self.trust, context: self.context.clone() }
    }

    fn resolve(&self) -> Result<Resolution, Errno> {
        match Dir::open_without_symlinks(&self.path, &self.context.shared) {
            Ok(dir) => Ok(Resolution::To(dir)),
            Err(Errno::NAMETOOLONG) => Err(Errno::NAMETOOLONG),
            // A symlink is in the path, or this kernel cannot check that.
            Err(_) => {
                open_start(&self.path, &self.context.shared)?.resolve_dir(&self.path, self.trust)
            }
        }
    }
}

/// A file that an option names, existing or not: the handle of its directory, and its name.
#[derive(Debug)]
pub struct NamedFile(WayEnd);

impl NamedFile {
    /// Finds the file at `path`, which may lead anywhere, for this machine's own user. Symlinks on the way, and at the
    /// path itself, are followed as `trust` allows.
    ///
    /// # Errors
    /// The directory of the file is missing or cannot be entered, or a symlink of another user is on the way.
    pub fn find_file(path: &Path, trust: Trust) -> io::Result<Self> {
        Self::find_within(path, trust, &StoreContext::default())
    }

    /// Finds the file at `path`, for a client that is confined to the directories of `context`.
    ///
    /// # Errors
    /// As [`NamedFile::find_file`], and if the path leads out of the directories.
    pub fn find_within(path: &Path, trust: Trust, context: &StoreContext) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        match open_start(path, &context.shared)?.resolve(path, trust)? {
            Resolution::To(end) => Ok(Self(end)),
            Resolution::Stranger(link) => {
                Err(io::Error::other(foreign_symlink_error(&link, context)))
            }
        }
    }

    /// Finds a file that the operator of this process names for the program itself: settings, a key, a log. The path
    /// may leave the directories that sessions are confined to. Symlinks on the path, and at the file itself, are
    /// followed if they belong to this user or to the superuser.
    ///
    /// # Errors
    /// The directory of the file is missing or cannot be entered, or a symlink of another user is on the way.
    pub fn of_operator(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        match Dir::resolve_trusted(path)? {
            Resolution::To(end) => Ok(Self(end)),
            Resolution::Stranger(link) => Err(untrusted_symlink_error(&link)),
        }
    }

    /// Opens the file to read.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_to_read(&self) -> io::Result<OwnedFd> {
        // A client may have created a FIFO there, which would block the open.
        match self.0.dir.bounds().are_confined() {
            true => self.open_regular(),
            false => Ok(self.0.open_entry(READ)?),
        }
    }

    /// Opens a regular file for reading. Never blocks on a FIFO.
    ///
    /// # Errors
    /// The system's error, or the entry is no regular file.
    pub fn open_regular(&self) -> io::Result<OwnedFd> {
        let file = self.open_any()?;
        let kind = FileType::from_raw_mode(fs::fstat(&file)?.st_mode);
        if kind.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
    }

    /// Opens a file of any type for reading. Opening a FIFO does not wait for a writer.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_any(&self) -> io::Result<OwnedFd> {
        Ok(self.0.open_entry(READ | OFlags::NONBLOCK)?)
    }

    /// Opens the file for reading and appending. A missing file is created, with access for its owner alone.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_log(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOCTTY;
        Ok(self.0.make_entry(flags, OWNERS)?)
    }

    /// Creates the file for writing, with access for the owner alone.
    ///
    /// # Errors
    /// The system's error, also if the name is taken.
    pub fn create_file(&self) -> io::Result<OwnedFd> {
        Ok(self.0.make_entry(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, OWNERS)?)
    }

    /// Returns the metadata of the entry with this name.
    ///
    /// # Errors
    /// The system's error.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(self.0.open_entry(OFlags::PATH)?)?)
    }

    /// Opens the file for appending; creates a missing file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_to_append(&self) -> io::Result<OwnedFd> {
        Ok(self.0.open_entry(OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOCTTY)?)
    }

    /// Returns the file's name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.0.name
    }
}

/// Returns the handle of the file's directory.
impl AsFd for NamedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.dir.as_fd()
    }
}

/// Opens the directory in which `path` starts. This needs no read permission.
fn open_start(path: &Path, shared: &Arc<SharedState>) -> Result<Dir, Errno> {
    match Dir::open_start(path, shared)? {
        Some(start) => Ok(start),
        None => Dir::open_root(Path::new(if path.is_absolute() { "/" } else { "." }), shared),
    }
}

impl StoreContext {
    /// Returns the metadata of the entry at an argument's path, following symlinks.
    ///
    /// # Errors
    /// The system's error.
    pub fn stat_path(&self, path: &Path) -> io::Result<Stat> {
        if let Some(stat) = self.shared.bounds.stat_in_volume(path) {
            return Ok(stat);
        }
        match Dir::open_start(path, &self.shared)? {
            None => Ok(fs::statat(CWD, path, AtFlags::empty())?),
            Some(start) => Ok(start.stat_at_end(path)?),
        }
    }

    /// Returns the metadata of the entry at an argument's path, without following a symlink at its end.
    ///
    /// # Errors
    /// The system's error.
    pub fn lstat_path(&self, path: &Path) -> io::Result<Stat> {
        if !self.shared.bounds.are_confined() {
            return Ok(fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?);
        }
        if let Some(stat) = self.shared.bounds.stat_in_volume(path) {
            return Ok(stat);
        }
        match path.file_name() {
            Some(name) if !path.as_os_str().as_bytes().ends_with(b"/") => {
                match NamedDir::new(path, Trust::Anyone).in_context(self).open_parent() {
                    // The path is the directory that confines this context, and so no symlink.
                    Err(LEADS_OUT) => self.stat_path(path),
                    above => Ok(fs::statat(above?, name, AtFlags::SYMLINK_NOFOLLOW)?),
                }
            }
            _ => self.stat_path(path),
        }
    }
}

/// Flags for opening a named file for reading.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOCTTY);
/// Mode of a file that only its owner may read.
const OWNERS: Mode = Mode::RUSR.union(Mode::WUSR);

/// Error for a symlink of another user in a path of the program itself, for which no option allows such symlinks.
fn untrusted_symlink_error(link: &Path) -> io::Error {
    let link = printable(link.as_os_str().as_bytes());
    io::Error::other(format!(
        "{link} is a symlink of another user, and is not followed: give the path of its target"
    ))
}

fn foreign_symlink_error(link: &Path, context: &StoreContext) -> StoreError {
    StoreError::ForeignSymlink { link: printable(context.client_path(link).as_os_str().as_bytes()) }
}
