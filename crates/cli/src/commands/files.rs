//! Input files, read from front to back, and output files, which appear under their names when complete.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use deltic_net::{NamedFile, Trust};
use deltic_tree::path::printable;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fsync, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::holes::WithHoles;

/// A file or standard input, read once from front to back.
pub(super) struct InputStream {
    name: PathBuf,
    reader: Box<dyn Read>,
    /// Length in bytes, if known before the end of the stream.
    pub(super) len: Option<u64>,
}

impl InputStream {
    /// Opens `path`; `-` is standard input. Follows only symlinks that `trust` allows.
    pub(super) fn open(path: &Path, trust: Trust) -> Result<Self> {
        if path.as_os_str() == OsStr::new("-") {
            let reader = Box::new(io::stdin().lock());
            return Ok(Self { name: "standard input".into(), reader, len: None });
        }
        let file = opened_to_read(path, trust)?;
        let meta = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            let is_dir = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(is_dir).with_context(|| format!("cannot read {}", path.display()));
        }
        let len = meta.is_file().then_some(meta.len());
        Ok(Self { name: path.into(), reader: Box::new(file), len })
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        self.name.display()
    }

    /// Reads some bytes into `buffer`; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    return read.with_context(|| format!("cannot read {}", self.name.display()));
                }
            }
        }
    }

    /// Reads up to the end, and calls `each` for each piece.
    pub(super) fn each_piece(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(()),
                n => each(&buffer[..n])?,
            }
        }
    }
}

/// Opens `path` for reading. Follows only symlinks that `trust` allows.
pub(super) fn opened_to_read(path: &Path, trust: Trust) -> Result<File> {
    let opened = NamedFile::find_file(path, trust).and_then(|file| file.open_to_read());
    let name = || printable(path.as_os_str().as_encoded_bytes());
    Ok(opened.with_context(|| format!("cannot open {}", name()))?.into())
}

/// The destination of a result: standard output, or a file that appears under its name when complete.
pub(super) struct ResultFile {
    sink: BufWriter<Box<dyn Write>>,
    file: Option<PendingFile>,
}

impl ResultFile {
    /// Opens `path`, or without a path standard output. Follows only symlinks that `trust` allows.
    ///
    /// # Errors
    /// If `path` cannot be created, or if standard output is a terminal.
    pub(super) fn open(path: Option<&Path>, trust: Trust) -> Result<Self> {
        if let Some(path) = path {
            return Self::create(path, None, trust);
        }
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal: name a file with -o, or redirect");
        }
        Ok(Self { sink: BufWriter::new(Box::new(io::stdout())), file: None })
    }

    /// Creates the file `path`, with `permissions` from the start.
    pub(super) fn create(
        path: &Path,
        permissions: Option<&Permissions>,
        trust: Trust,
    ) -> Result<Self> {
        let (new, file) = PendingFile::create(path, permissions, trust)?;
        Ok(Self { sink: BufWriter::with_capacity(READ_BYTES, Box::new(file)), file: Some(new) })
    }

    /// Creates the file `path` with these permissions, and with holes for blocks of zeros.
    pub(super) fn sparse(path: &Path, permissions: &Permissions, trust: Trust) -> Result<Self> {
        let mut output = Self::create(path, Some(permissions), trust)?;
        if let Some(new) = &output.file {
            let file =
                new.file.try_clone().with_context(|| format!("cannot write {}", path.display()))?;
            let sink = Box::new(WithHoles::new(file));
            output.sink = BufWriter::with_capacity(READ_BYTES, sink);
        }
        Ok(output)
    }

    /// Appends `bytes`, then clears the buffer.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let written = self.write(bytes);
        bytes.clear();
        written
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.sink.write_all(bytes);
        written.with_context(|| format!("cannot write {}", self.name()))
    }

    /// Flushes the output and gives the file its name. Without a commit, no file appears.
    pub(super) fn commit(mut self) -> Result<()> {
        let flushed = self.sink.flush();
        flushed.with_context(|| format!("cannot write {}", self.name()))?;
        self.file.take().map_or(Ok(()), PendingFile::commit)
    }

    fn name(&self) -> String {
        let file = self.file.as_ref().map(|file| file.path.display().to_string());
        file.unwrap_or_else(|| "standard output".into())
    }
}

/// A new file without a name, or with a temporary name beside its final path. Removed when dropped before a commit.
pub(super) struct PendingFile {
    /// The path as typed.
    path: PathBuf,
    target: NamedFile,
    temp: OsString,
    file: File,
    has_name: bool,
}

impl PendingFile {
    /// Creates a new file for `path`. Follows only symlinks that `trust` allows.
    pub(super) fn create(
        path: &Path,
        permissions: Option<&Permissions>,
        trust: Trust,
    ) -> Result<(Self, File)> {
        let place = || format!("cannot create {}", path.display());
        let target = target(path, trust)?;
        let mut temp = OsString::from(".");
        temp.push(target.name());
        temp.push(format!(".{}.deltic-tmp", std::process::id()));
        let (file, has_name) = match nameless(&target, permissions) {
            Some(file) => (file, false),
            None => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                (opened(&target, &temp, flags, permissions).with_context(place)?, true)
            }
        };
        let sink = file.try_clone();
        let new = Self { path: path.into(), target, temp, file, has_name };
        if let Some(permissions) = permissions {
            new.file.set_permissions(permissions.clone()).with_context(place)?;
        }
        Ok((new, sink.with_context(place)?))
    }

    pub(super) fn commit(mut self) -> Result<()> {
        let place = format!("cannot write {}", self.path.display());
        // On btrfs, a flush before the file has a name is lost.
        if !self.has_name {
            self.name().with_context(|| place.clone())?;
            self.has_name = true;
        }
        self.file.sync_all().with_context(|| place.clone())?;
        let Self { target, temp, .. } = &self;
        let renamed = renameat(target, temp, target, target.name()).map_err(io::Error::from);
        renamed.and_then(|()| sync_dir(target)).with_context(|| place)
    }

    /// Links a nameless file to its temporary name. Only a killed process of the same number can have left that name.
    fn name(&self) -> io::Result<()> {
        let Self { target, temp, file, .. } = self;
        let _ = unlinkat(target, temp, AtFlags::empty());
        Ok(linkat(CWD, path_of(file), target, temp, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // After a commit the temporary name is gone. After a failure, that failure is reported instead.
        if self.has_name {
            let _ = unlinkat(&self.target, &self.temp, AtFlags::empty());
        }
    }
}

/// Creates a nameless file (`O_TMPFILE`) in the directory of `target`, which a kill does not leave behind. `None` if
/// not supported.
fn nameless(target: &NamedFile, permissions: Option<&Permissions>) -> Option<File> {
    let file = opened(target, OsStr::new("."), OFlags::TMPFILE, permissions).ok()?;
    // `linkat` needs this path to give the file its name.
    path_of(&file).exists().then_some(file)
}

/// Opens `name` beside `target` for reading and writing. If permissions are set later, no other user can open the
/// file before.
fn opened(
    target: &NamedFile,
    name: &OsStr,
    flags: OFlags,
    permissions: Option<&Permissions>,
) -> io::Result<File> {
    let mode = Mode::from_raw_mode(if permissions.is_some() { 0o600 } else { 0o666 });
    Ok(openat(target, name, flags | OFlags::RDWR | OFlags::CLOEXEC, mode)?.into())
}

fn path_of(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Returns the file that `path` names, with symlinks followed.
///
/// # Errors
/// If the path exists and is not a regular file.
fn target(path: &Path, trust: Trust) -> Result<NamedFile> {
    let place = || format!("cannot open {}", path.display());
    let target = NamedFile::find_file(path, trust).with_context(place)?;
    let refuse =
        |why: io::Error| Err(why).with_context(|| format!("cannot write {}", path.display()));
    match statat(&target, target.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Ok(target),
        Ok(_) => refuse(io::Error::other("the path exists and is not a regular file")),
        Err(Errno::NOENT) if !names_dir(path) => Ok(target),
        Err(errno) => Err(io::Error::from(errno)).with_context(place),
    }
}

/// True if `path` can only name a directory.
fn names_dir(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Flushes the directory of `target`, so that the new name lasts.
fn sync_dir(target: &NamedFile) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(target, ".", flags, Mode::empty())?)?)
}

/// Bytes read at once.
pub(super) const READ_BYTES: usize = 1 << 20;
