//! Staged files that killed runs left behind: finds files that are not locked and can be used.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_store::StoreError;
use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FlockOperation, OFlags, Stat};
use rustix::io::Errno;

use super::{
    KEY_DIGITS, Leftover, Leftovers, Logged, NONCE_DIGITS, SWEEP, Staged, StagedPlace, Stages,
};
use crate::handles::dir::Dir;
use crate::handles::place::{Place, STAGED_SUFFIX};
use crate::handles::stat::{inode_of, name_count};
use crate::kernel::errno::At;
use crate::read::snapshot::LocalSnapshot;
use crate::roots::quota::SpaceLedger;
use crate::staging::log::{LOG_SUFFIX, Log, Notes, remove_log, staged_name};

/// Waits for other processes that hold leftovers: 2 seconds for all files of a run. A killed run may leave its agent on
/// the other machine behind, and that agent holds the file for a moment longer than its client lives. A server does not
/// wait: its sessions share their threads.
#[derive(Debug)]
pub(super) struct LockWaits(AtomicU32);

impl LockWaits {
    const INTERVAL: Duration = Duration::from_millis(50);

    pub(super) fn new(is_server: bool) -> Self {
        Self(AtomicU32::new(if is_server { 0 } else { 40 }))
    }

    /// Locks `file` as [`try_lock`] does, after other processes have released the file, if they do in time.
    fn lock(&self, file: &OwnedFd) -> Result<bool, Errno> {
        loop {
            let is_locked = fs::flock(file, FlockOperation::NonBlockingLockExclusive);
            if is_locked != Err(Errno::WOULDBLOCK) || !self.take_interval() {
                return finish_lock(file, is_locked);
            }
            thread::sleep(Self::INTERVAL);
        }
    }

    /// Takes one interval from the time that is left. Returns false if no time is left.
    fn take_interval(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Removes the staged files in `dir` that no process holds, and that have not changed for `age`. Also removes logs without
/// a staged file. Returns the number of staged files.
pub(super) fn sweep_dir(dir: &Dir, space: &SpaceLedger, age: Duration) -> Result<u64, Errno> {
    let mut removed = 0;
    for name in names_of(dir, STAGED_SUFFIX)? {
        if is_unchanged_for(dir, &name, age) && is_unlocked(dir, &name) {
            space.free_pending(dir, &name);
            match dir.remove_file(&name) {
                Ok(()) => removed += 1,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    for log in names_of(dir, LOG_SUFFIX)? {
        if let Some(staged) = staged_name(&log)
            && dir.stat_if_exists(&staged)?.is_none()
        {
            remove_log(dir, &staged);
        }
    }
    Ok(removed)
}

/// True if the file `name` has not changed for `age`. The time of the last change is not a time that a program can set.
fn is_unchanged_for(dir: &Dir, name: &Name, age: Duration) -> bool {
    let is_old = |stat: Stat| {
        let changed = Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or_default());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(changed) >= age
    };
    age.is_zero() || dir.stat(name).is_ok_and(is_old)
}

pub(super) fn scan_leftovers(dir: &Dir) -> Result<Leftovers, Errno> {
    let mut leftovers = Leftovers::new();
    for name in names_of(dir, STAGED_SUFFIX)? {
        let key = name.as_bytes()[..KEY_DIGITS].to_vec();
        leftovers.entry(key).or_default().push(Leftover { name, taken: false });
    }
    Ok(leftovers)
}

/// Opens the newest leftovers in `known` that no process holds, after waiting by `waits`, and marks these leftovers as
/// taken.
pub(super) fn take_leftovers(
    dir: &Dir,
    place: &Place,
    known: &mut [Leftover],
    waits: &LockWaits,
) -> Result<Vec<LocalSnapshot>, StoreError> {
    let mut snapshots = Vec::new();
    for leftover in known.iter_mut().take(MAX_LEFTOVERS) {
        if let Ok(file) = open_writable(dir, &leftover.name)
            && waits.lock(&file) == Ok(true)
        {
            snapshots.extend(LocalSnapshot::from_open_file(file, &place.path, dir.shared())?);
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
    waits: &LockWaits,
) -> Result<Option<(OwnedFd, Log, Notes)>, Errno> {
    let file = match dir.open(name, OFlags::RDWR) {
        Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    if !waits.lock(&file)? {
        return Ok(None);
    }
    let stat = fs::fstat(&file)?;
    let most_names = 1 + u64::from(shown == Some(inode_of(&stat)));
    if stat.st_size as u64 == len && name_count(stat.st_nlink) <= most_names {
        match Log::open_log(dir, &file, name) {
            Ok(Some((log, notes))) => return Ok(Some((file, log, notes))),
            // This process may read the log later.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(errno),
            Ok(None) | Err(_) => {}
        }
    }
    remove_log(dir, name);
    Ok(None)
}

impl Stages {
    /// Opens the staged file at this place with its log, as [`resume`] does.
    pub(crate) fn resume_staged(
        &self,
        at: &StagedPlace,
        len: u64,
    ) -> Result<Option<Logged>, Errno> {
        if !is_name_of(&at.name, STAGED_SUFFIX) {
            return Ok(None);
        }
        match self.open_own(&at.home) {
            Err(Errno::NOENT) => return Ok(None),
            opened => drop(opened?),
        }
        let found = resume(&*self.open_or_create(&at.home)?, &at.name, len, None, &self.waits)?;
        Ok(found.map(|(file, log, notes)| {
            let (home, name) = (at.home.clone(), at.name.clone());
            Logged { staged: Staged { file, home, whose: self.whose, name }, log, notes }
        }))
    }

    /// Removes files without an owner from the staging directory of `home` while other processes use the directory, if the
    /// directory is in a volume and the files have not changed for [`OLD`]. In a volume some client may always have an
    /// unfinished upload.
    pub(super) fn sweep_old(&self, home: &RelPath) -> Result<u64, StoreError> {
        match self.open_own(home) {
            Ok((_, dir)) if self.root.bounds().are_volumes() => {
                sweep_dir(&dir, &self.space, OLD).at(SWEEP, home)
            }
            _ => Ok(0),
        }
    }

    /// Removes the staged file at this place with its log, whatever the log says. Errors: `AGAIN` while a process holds
    /// the file.
    pub(crate) fn discard_staged(&self, at: &StagedPlace) -> Result<(), Errno> {
        if !is_name_of(&at.name, STAGED_SUFFIX) {
            return Ok(());
        }
        match self.open_own(&at.home) {
            Err(Errno::NOENT) => return Ok(()),
            opened => drop(opened?),
        }
        let dir = self.open_or_create(&at.home)?;
        if dir.stat_if_exists(&at.name)?.is_none() {
            return Ok(());
        }
        if !is_unlocked(&dir, &at.name) {
            return Err(Errno::AGAIN);
        }
        self.space.free_pending(&dir, &at.name);
        match dir.remove_file(&at.name) {
            Ok(()) | Err(Errno::NOENT) => {
                remove_log(&dir, &at.name);
                Ok(())
            }
            removed => removed,
        }
    }
}

/// Opens the file `name` for writing if its mode allows writing. Some network file systems only lock files that are open
/// for writing. A finished file may not be writable.
fn open_writable(dir: &Dir, name: &Name) -> Result<OwnedFd, Errno> {
    match dir.open(name, OFlags::RDWR) {
        Err(Errno::ACCESS) => dir.open(name, OFlags::RDONLY),
        opened => opened,
    }
}

/// True if no process has locked the staged file `name`.
pub(super) fn is_unlocked(dir: &Dir, name: &Name) -> bool {
    match open_writable(dir, name).and_then(|file| try_lock(&file)) {
        Ok(is_locked) => is_locked,
        // The name is a symlink, which no run creates here, or a finished file with a mode that excludes its owner. If
        // such a file is about to be renamed, its commit fails with an error.
        Err(errno) => matches!(errno, Errno::LOOP | Errno::ACCESS),
    }
}

/// Locks `file`. Returns false if another process holds or has removed the file.
fn try_lock(file: &OwnedFd) -> Result<bool, Errno> {
    finish_lock(file, fs::flock(file, FlockOperation::NonBlockingLockExclusive))
}

/// Returns false if another process holds `file`, by the result of `flock`, or has removed `file`.
fn finish_lock(file: &OwnedFd, result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
        Ok(()) => Ok(fs::fstat(file)?.st_nlink > 0),
    }
}

/// Returns the names in `dir` that Deltic could have made, with this suffix. Other names are ignored.
fn names_of(dir: &Dir, suffix: &[u8]) -> Result<Vec<Name>, Errno> {
    let mut names = Vec::new();
    let is_ours = |name: &Name| is_name_of(name, suffix);
    match dir.for_each_name(|name| names.extend(Name::new(name).ok().filter(is_ours))) {
        // A sweep without the lock may meet a directory that another run has just removed.
        Ok(()) | Err(Errno::NOENT) => Ok(names),
        Err(errno) => Err(errno),
    }
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

/// Age from which a file without an owner is removed from a directory in use. A server keeps an unfinished upload as
/// long. A run that puts all files in place at its end (`--delay-updates`) does not hold its finished files.
const OLD: Duration = Duration::from_hours(7 * 24);
/// Most leftovers of a path that are examined.
pub(super) const MAX_LEFTOVERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::dir::Use;

    #[test]
    fn a_directory_that_another_run_has_removed_has_no_leftovers() {
        let root = tempfile::tempdir().unwrap();
        let parent = Dir::make_own_dir(root.path()).unwrap();
        let dir = Dir::make_own_dir(&root.path().join("staged")).unwrap();
        let dir = dir.open_dir(&RelPath::root(), Use::Read).unwrap();
        assert_eq!(names_of(&dir, STAGED_SUFFIX), Ok(Vec::new()));
        parent.remove_dir(&Name::new(b"staged").unwrap()).unwrap();
        assert_eq!(names_of(&dir, STAGED_SUFFIX), Ok(Vec::new()));
    }
}
