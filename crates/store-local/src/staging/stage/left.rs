//! Staged files that killed runs left behind: finds files that are not locked and can be used.

use std::os::fd::OwnedFd;

use deltic_store::StoreError;
use deltic_tree::Name;
use deltic_tree::meta::Inode;
use rustix::fs::{self, FlockOperation, OFlags};
use rustix::io::Errno;

use super::{KEY_DIGITS, Leftover, Leftovers, NONCE_DIGITS};
use crate::handles::dir::Dir;
use crate::handles::place::{Place, STAGED_SUFFIX};
use crate::handles::stat::{inode_of, names};
use crate::read::snapshot::LocalSnapshot;
use crate::roots::quota::SpaceLedger;
use crate::staging::log::{LOG_SUFFIX, Log, Notes, remove_log, staged_name};

pub(super) fn sweep_dir(dir: &Dir, space: &SpaceLedger) -> Result<u64, Errno> {
    let mut removed = 0;
    for name in names_of(dir, STAGED_SUFFIX)? {
        if is_nobodys(dir, &name) {
            space.forget(dir, &name);
            match dir.remove_file(&name) {
                Ok(()) => removed += 1,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    for log in names_of(dir, LOG_SUFFIX)? {
        if let Some(staged) = staged_name(&log)
            && dir.find(&staged)?.is_none()
        {
            remove_log(dir, &staged);
        }
    }
    Ok(removed)
}

pub(super) fn scan(dir: &Dir) -> Result<Leftovers, Errno> {
    let mut leftovers = Leftovers::new();
    for name in names_of(dir, STAGED_SUFFIX)? {
        let key = name.as_bytes()[..KEY_DIGITS].to_vec();
        leftovers.entry(key).or_default().push(Leftover { name, taken: false });
    }
    Ok(leftovers)
}

/// Opens the newest leftovers in `known` that no process holds, and marks these leftovers as taken.
pub(super) fn take(
    dir: &Dir,
    place: &Place,
    known: &mut [Leftover],
) -> Result<Vec<LocalSnapshot>, StoreError> {
    let mut snapshots = Vec::new();
    for leftover in known.iter_mut().take(MAX_LEFTOVERS) {
        if let Ok(Some(file)) = lock_free(dir, &leftover.name) {
            snapshots.extend(LocalSnapshot::of(file, &place.path, dir.shared())?);
            leftover.taken = true;
        }
    }
    Ok(snapshots)
}

/// Opens the staged file `name` with its log and notes, if the file is as it was left: `len` bytes, and no hard links
/// but its own name and the `shown` file. Otherwise removes the log, and with it the key in the log. `None` if another
/// process holds the file.
pub(super) fn resume(
    dir: &Dir,
    name: &Name,
    len: u64,
    shown: Option<Inode>,
) -> Result<Option<(OwnedFd, Log, Notes)>, Errno> {
    let file = match dir.open(name, OFlags::RDWR) {
        Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    if !try_lock(&file)? {
        return Ok(None);
    }
    let stat = fs::fstat(&file)?;
    let most_names = 1 + u64::from(shown == Some(inode_of(&stat)));
    if stat.st_size as u64 == len
        && names(stat.st_nlink) <= most_names
        && let Ok(Some((log, notes))) = Log::resume(dir, &file, name)
    {
        return Ok(Some((file, log, notes)));
    }
    remove_log(dir, name);
    Ok(None)
}

/// Opens and locks the file `name`; `None` if another process holds it.
fn lock_free(dir: &Dir, name: &Name) -> Result<Option<OwnedFd>, Errno> {
    // Some network file systems only lock files that are open for writing. A finished file may not be writable.
    let file = match dir.open(name, OFlags::RDWR) {
        Err(Errno::ACCESS) => dir.open(name, OFlags::RDONLY)?,
        opened => opened?,
    };
    Ok(try_lock(&file)?.then_some(file))
}

/// True if no living process holds the staged file `name`.
pub(super) fn is_nobodys(dir: &Dir, name: &Name) -> bool {
    match lock_free(dir, name) {
        Ok(held) => held.is_some(),
        // The name is a symlink, which no run creates here, or a finished file with a mode that excludes its owner. If
        // such a file is about to be renamed, its commit fails with an error.
        Err(errno) => matches!(errno, Errno::LOOP | Errno::ACCESS),
    }
}

/// Locks `file`. Returns false if another process holds or has removed the file.
fn try_lock(file: &OwnedFd) -> Result<bool, Errno> {
    match fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
        Ok(()) => Ok(fs::fstat(file)?.st_nlink > 0),
    }
}

/// Returns the names in `dir` that Deltic could have made, with this suffix. Other names are ignored.
fn names_of(dir: &Dir, suffix: &[u8]) -> Result<Vec<Name>, Errno> {
    let mut names = Vec::new();
    let is_ours = |name: &Name| is_name_of(name, suffix);
    dir.for_each_name(|name| names.extend(Name::new(name).ok().filter(is_ours)))?;
    Ok(names)
}

fn is_name_of(name: &Name, suffix: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let name = name.as_bytes();
    name.len() == KEY_DIGITS + 1 + NONCE_DIGITS + suffix.len()
        && is_hex(&name[..KEY_DIGITS])
        && name[KEY_DIGITS] == b'.'
        && is_hex(&name[KEY_DIGITS + 1..][..NONCE_DIGITS])
        && name.ends_with(suffix)
}

/// Most leftovers of a path that are examined.
pub(super) const MAX_LEFTOVERS: usize = 4;
