//! File locks (`flock`). The kernel releases a lock when the file is closed, even after a crash.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use deltic_store_local::NamedFile;
use rustix::fs::{Mode, OFlags, openat};

/// Longest wait for a program that holds a lock while changing a file.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks the file `name` in the directory `dir`, for a short change. The lock is released when the returned file is
/// dropped.
///
/// # Errors
/// `TimedOut` if another program holds the lock for more than 30 seconds, and errors of the system.
pub(super) fn lock_for_change(dir: &Path, name: &str) -> io::Result<File> {
    let file = open_lock(dir, name)?;
    let held = || {
        let secs = CHANGE_PATIENCE.as_secs();
        let why = format!(
            "another `deltic` has held {name} for {secs} s; end that program, or try again"
        );
        io::Error::new(io::ErrorKind::TimedOut, why)
    };
    if wait_for(&file, CHANGE_PATIENCE)? { Ok(file) } else { Err(held()) }
}

/// Opens the lock file `name` in the directory `dir`, and creates the file if it is missing.
pub(super) fn open_lock(dir: &Path, name: &str) -> io::Result<File> {
    let place = NamedFile::of_operator(&dir.join(name))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(&place, place.name(), flags, Mode::RUSR | Mode::WUSR)?))
}

/// Waits up to `patience` for a lock. True if the file is locked, false if another program still holds the lock.
pub(super) fn wait_for(file: &File, patience: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return Ok(false),
            Err(TryLockError::WouldBlock) => sleep(PAUSE),
        }
    }
}
