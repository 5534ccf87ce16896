//! The program's own files: settings, keys and tokens that the operator names, or that are in a directory of the
//! program.
//!
//! The program may run as root, and the owner of a parent directory could put a symlink there. So paths are walked
//! like the path of a destination: only symlinks of the caller and of the superuser are followed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use deltic_store_local::NamedFile;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Longest file that is read, in bytes; the program's own files are much shorter.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a file, or a pipe if the process is not confined to directories yet.
///
/// # Errors
/// The system's errors, a symlink of another user in the path, or a file that is too long.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    bytes(NamedFile::of_operator(path)?.open_to_read()?.into())
}

/// Reads a regular file, and nothing else.
///
/// # Errors
/// Same as [`read`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    bytes(NamedFile::of_operator(path)?.open_regular()?.into())
}

/// Reads an open file to its end.
///
/// # Errors
/// The system's errors, or a file that is too long.
pub(crate) fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_BYTES {
        return Err(too_long());
    }
    Ok(bytes)
}

fn too_long() -> io::Error {
    io::Error::other("it is longer than 64 MiB")
}

/// Removes the file at `path`.
///
/// # Errors
/// The system's errors.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let place = NamedFile::of_operator(path)?;
    Ok(unlinkat(&place, place.name(), AtFlags::empty())?)
}

/// Replaces the file at `path` in one step by a file with mode 0600, and flushes the content and the name.
///
/// # Errors
/// The system's errors, or more bytes than [`read`] accepts; the file at `path` is then unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_long());
    }
    let place = NamedFile::of_operator(path)?;
    let new: OsString = Path::new(place.name()).with_extension("new").into();
    // A leftover of an earlier attempt, or a file of another program, may be readable by others.
    match unlinkat(&place, &new, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(&place, &new, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    file.sync_all()?;
    renameat(&place, &new, &place, place.name())?;
    let dir = openat(&place, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::fsync(dir)?)
}
