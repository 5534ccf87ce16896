//! Staging directories, which hold new versions until the commit, and the remains of killed runs.
//!
//! A staged file has a name from the start (btrfs loses the fsync of a nameless file), and is locked as long as its
//! process lives: the kernel releases a `flock` however the process ends. So an unlocked file has no owner. The name of
//! a staged file consists of a hash of its path and random digits. A file may stay nameless until its commit, if it is
//! not flushed and of no use before it is complete.
//!
//! A staged file is renamed into place, which only works within one [realm](Realm): one mount, one quota project, one
//! encryption key. So each realm below the root has its own staging directories, in the directories of the files. The
//! same holds for a tree in whose root this user may create no file. The kernel also refuses some renames that no
//! property of the directories explains. After a refused rename, the directory and all directories below have their own
//! staging directories too.
//!
//! In a tree with several writers, the staging directory of another user is left alone: this user has a staging
//! directory beside it.

mod homes;
mod left;
mod realm;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use deltic_core::Fingerprint;
use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FlockOperation, Mode, Stat};
use rustix::io::Errno;

use super::log::{Log, Notes, remove_log};
use crate::attributes::heritage::remove_inheritance;
use crate::attributes::recent::Recent;
use crate::bytes::holes::has_holes;
use crate::handles::place::{Place, STAGED_SUFFIX};
use crate::handles::stat::{Stamp, file_type};
use crate::read::snapshot::LocalSnapshot;
use crate::roots::quota::SpaceLedger;
use left::{
    LockWaits, MAX_LEFTOVERS, is_unlocked, resume, scan_leftovers, sweep_dir, take_leftovers,
};
use realm::Realm;

use crate::handles::dir::{Dir, Use};
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use crate::kernel::system::System;
use deltic_store::{STAGING_NAME, StoreError};

/// The staging directories of a store.
#[derive(Debug)]
pub(crate) struct Stages {
    root: Arc<Dir>,
    whose: StageOwner,
    system: System,
    realm: Realm,
    /// Reservations of unfinished files.
    space: Arc<SpaceLedger>,
    /// Directories into which the kernel refused to rename a file that was staged elsewhere.
    parted: Mutex<HashSet<RelPath>>,
    /// Leftovers by home: the directory that has, or may have, the staging directory. `None` before the first scan.
    homes: Mutex<HashMap<RelPath, Option<Leftovers>>>,
    waits: LockWaits,
    /// Staging directories in use. Each has a lock that other writers can share.
    held: Mutex<HashMap<RelPath, (Name, Arc<Dir>)>>,
    /// The *home* of recently used directories: the directory that contains the staging directory for files in them.
    last: Recent<RelPath>,
    /// True if nameless files cannot be created here, or cannot be given a name.
    needs_names: AtomicBool,
    /// True if this user cannot create a staging directory in the root.
    is_closed: OnceLock<bool>,
    user: u32,
    /// By device, owner and mode of new files of this user, on file systems that report an unexpected owner.
    made_up: Mutex<HashMap<u64, MadeUp>>,
    /// For each probed device, true if new files have holes there.
    makes_holes: Mutex<HashMap<u64, bool>>,
}

/// Owner and mode that a file system reports, whatever was requested, as FAT, network and FUSE file systems may do.
#[derive(Clone, Copy, Debug)]
struct MadeUp {
    user: u32,
    /// True if the mode lets other users write.
    opens: bool,
}

/// Location of staging directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageOwner {
    /// Staging directories in the destination.
    Own,
    /// A single staging directory in `--temp-dir`, which other users may use as well.
    Temp,
}

/// Staged files that had no owner at the time of the scan, by the [`path_key`] of the path.
type Leftovers = HashMap<Vec<u8>, Vec<Leftover>>;

#[derive(Debug)]
struct Leftover {
    name: Name,
    /// True if this run uses and has locked the file, and so must remove the file.
    taken: bool,
}

/// A staged file of an earlier run, with log and notes.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) staged: Staged,
    pub(crate) log: Log,
    pub(crate) notes: Notes,
}

/// The place of a staged file, for a process that [resumes](crate::LocalStore::resume_staged) the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPlace {
    /// The directory that holds the staging directory.
    pub home: RelPath,
    /// Name in the staging directory.
    pub name: Name,
}

/// A locked file in a staging directory, accessible by the owner only.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) file: OwnedFd,
    /// The directory that holds the staging directory.
    pub(crate) home: RelPath,
    pub(crate) whose: StageOwner,
    pub(crate) name: Name,
}

impl Stages {
    pub(crate) fn new(
        root: Arc<Dir>,
        whose: StageOwner,
        space: Arc<SpaceLedger>,
    ) -> Result<Self, Errno> {
        let system = System::of(&*root);
        let realm = Realm::of(&root, system)?;
        let user = rustix::process::geteuid().as_raw();
        let waits = LockWaits::new(root.bounds().are_volumes());
        let (homes, held, last) = (Mutex::default(), Mutex::default(), Recent::default());
        let (needs_names, is_closed) = (AtomicBool::new(false), OnceLock::new());
        let (made_up, makes_holes, parted) = Default::default();
        Ok(Self {
            root,
            whose,
            system,
            realm,
            space,
            parted,
            homes,
            waits,
            held,
            last,
            needs_names,
            is_closed,
            user,
            made_up,
            makes_holes,
        })
    }

    /// Creates a staged file for `place`, accessible by the owner only.
    pub(crate) fn create_staged(&self, place: &Place) -> Result<Staged, StoreError> {
        self.create_staged_with_mode(place, Mode::RUSR | Mode::WUSR)
    }

    /// Creates a staged file for `place` with this mode, less the `umask`.
    pub(crate) fn create_staged_with_mode(
        &self,
        place: &Place,
        mode: Mode,
    ) -> Result<Staged, StoreError> {
        let (home, name) = (self.home_of(place)?, new_name(&place.path));
        let create = || match self.open_or_create(&home)?.create_as(&name, mode) {
            // A user has removed the staging directory.
            Err(Errno::NOENT) => {
                self.release_dir(&home);
                self.open_or_create(&home)?.create_as(&name, mode)
            }
            created => created,
        };
        let file = create().map_err(|errno| staging_error(place, errno))?;
        // A file system may have no locks, as some network file systems. A sweep then removes no file.
        let _ = fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Staged { file, home, whose: self.whose, name })
    }

    /// Creates a nameless file for `place`. Also returns the directory whose staging directory is to be used. A
    /// nameless file needs no lock: no other process can open it, and a kill leaves nothing behind. `None` if the file
    /// must have a name.
    pub(crate) fn create_nameless(&self, place: &Place, mode: Mode) -> Option<(OwnedFd, RelPath)> {
        if self.needs_names.load(Ordering::Relaxed) {
            return None;
        }
        let home = self.home_of(place).ok()?;
        match self.open_or_create(&home).and_then(|dir| dir.create_nameless(mode)) {
            Ok(file) => Some((file, home)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                self.need_names();
                None
            }
            // An attempt with a name will report the error.
            Err(_) => None,
        }
    }

    /// Makes all new files have names from now on.
    pub(crate) fn need_names(&self) {
        self.needs_names.store(true, Ordering::Relaxed);
    }

    /// Opens the staging directory for `place`. Also returns its parent directory. While the handle exists, no sweep
    /// removes files from the staging directory.
    pub(crate) fn open_home_for(&self, place: &Place) -> Result<(RelPath, Arc<Dir>), StoreError> {
        let home = self.home_of(place)?;
        let dir = self.open_or_create(&home).map_err(|errno| staging_error(place, errno))?;
        Ok((home, dir))
    }

    /// Opens the staging directory for `place`. While the handle exists, no sweep removes files from it.
    pub(crate) fn open_dir_for(&self, place: &Place) -> Result<Arc<Dir>, StoreError> {
        self.open_home_for(place).map(|(_, dir)| dir)
    }

    /// Opens the staging directory of `home`, which may be missing.
    pub(crate) fn open_dir_of(&self, home: &RelPath) -> Result<Arc<Dir>, Errno> {
        match lock(&self.held).get(home) {
            Some((_, dir)) => Ok(Arc::clone(dir)),
            None => self.open_own(home).map(|(_, dir)| Arc::new(dir)),
        }
    }

    /// Returns the path of the staging directory of `home`.
    pub(crate) fn path_of_dir(&self, home: &RelPath) -> Result<RelPath, Errno> {
        let held = lock(&self.held).get(home).map(|(name, _)| name.clone());
        below(home, &held.unwrap_or_else(staging_name))
    }

    /// Opens this user's staging directory in `home`. Also returns its name. A directory of another user is ignored.
    fn open_own(&self, home: &RelPath) -> Result<(Name, Dir), Errno> {
        for name in [self.own_name(), staging_name()] {
            match self.root.open_dir(&below(home, &name)?, Use::Read) {
                Ok(dir) if self.is_ours(&dir)? => return Ok((name, dir)),
                Ok(_) | Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    /// True if `dir` can hold staged files: it belongs to this user, and other users may not write to it.
    fn is_ours(&self, dir: &Dir) -> Result<bool, Errno> {
        let stat = fs::fstat(dir)?;
        let is_of =
            |of: MadeUp| stat.st_uid == of.user && (of.opens || !is_writable_by_others(&stat));
        let is_plainly_ours = || is_of(MadeUp { user: self.user, opens: false });
        Ok(file_type(&stat).is_dir()
            && (is_plainly_ours() || is_of(self.probe_new_files(dir, stat.st_dev))))
    }

    /// Returns the owner and mode of new files in `dir` on `device`, found with a probe file once for each device. The
    /// probe is a file, not a directory, because another user could replace a directory before it is opened.
    fn probe_new_files(&self, dir: &Dir, device: u64) -> MadeUp {
        *lock(&self.made_up).entry(device).or_insert_with(|| {
            let name = new_name(&RelPath::root());
            let stat = dir.create_as(&name, Mode::RUSR | Mode::WUSR).and_then(fs::fstat);
            let _ = dir.remove_file(&name);
            let as_asked = MadeUp { user: self.user, opens: false };
            stat.map_or(as_asked, |stat| MadeUp {
                user: stat.st_uid,
                opens: is_writable_by_others(&stat),
            })
        })
    }

    /// Returns the name of this user's staging directory beside that of another user.
    fn own_name(&self) -> Name {
        let name = [STAGING_NAME, format!("-{}", self.user).as_bytes()].concat();
        Name::new(&name).expect("digits are part of a name")
    }

    /// True if unwritten ranges of a new file staged for `place` are holes.
    pub(crate) fn leaves_holes(&self, place: &Place) -> Result<bool, StoreError> {
        const PROBE_BYTES: u64 = 64 << 10;
        let dir = self.open_dir_for(place)?;
        let device = fs::fstat(&*dir).at("create", &place.path)?.st_dev;
        let probe = || {
            let name = new_name(&RelPath::root());
            let stat = dir.create_as(&name, Mode::RUSR | Mode::WUSR).and_then(|file| {
                fs::ftruncate(&file, PROBE_BYTES)?;
                fs::fstat(file)
            });
            let _ = dir.remove_file(&name);
            stat.is_ok_and(|stat| has_holes(&stat))
        };
        Ok(*lock(&self.makes_holes).entry(device).or_insert_with(probe))
    }

    /// Creates a staging directory in `home`, unless other users have taken both names. A sweep may remove the
    /// directory before it is opened.
    fn make_dir(&self, home: &RelPath) -> Result<(), Errno> {
        let dir = self.root.open_dir(home, Use::Pass)?;
        for name in [staging_name(), self.own_name()] {
            match dir.make_dir(&name, Mode::RWXU) {
                Ok(()) => {
                    return match self.root.open_dir(&below(home, &name)?, Use::Read) {
                        Err(Errno::NOENT) => Ok(()),
                        made => remove_inheritance(&made?),
                    };
                }
                Err(Errno::EXIST) => match self.root.open_dir(&below(home, &name)?, Use::Read) {
                    Ok(dir) if self.is_ours(&dir)? => return Ok(()),
                    Err(Errno::NOENT) => return Ok(()),
                    _ => {}
                },
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Opens the staging directory of `home`, created if missing. The directory stays locked, so no sweep removes it.
    fn open_or_create(&self, home: &RelPath) -> Result<Arc<Dir>, Errno> {
        if let Some((_, dir)) = lock(&self.held).get(home) {
            return Ok(Arc::clone(dir));
        }
        let open = || match self.open_own(home) {
            Err(Errno::NOENT) => self.make_dir(home).and(Err(Errno::AGAIN)),
            opened => opened.map(Some),
        };
        let (name, dir) = lock_dir(open, TO_MAKE)?.ok_or(Errno::AGAIN)?;
        let mut held = lock(&self.held);
        let (_, dir) = held.entry(home.clone()).or_insert_with(|| (name, Arc::new(dir)));
        Ok(Arc::clone(dir))
    }

    /// Releases the staging directory of `home`.
    fn release_dir(&self, home: &RelPath) {
        lock(&self.held).remove(home);
    }

    /// Returns locked snapshots of the leftovers for `place`, newest first.
    pub(crate) fn leftovers(&self, place: &Place) -> Result<Vec<LocalSnapshot>, StoreError> {
        let mut found = Vec::new();
        for home in self.homes_for(place)? {
            found.extend(self.with_known_leftovers(place, &home, |dir, known| {
                take_leftovers(dir, place, known, &self.waits)
            })?);
        }
        Ok(found)
    }

    /// Returns the newest leftover for `place` that has `len` bytes and a valid log. The file may have one other hard
    /// link, the file `shown`, which the commit removes.
    pub(crate) fn resume(
        &self,
        place: &Place,
        len: u64,
        shown: Option<Inode>,
    ) -> Result<Option<Logged>, StoreError> {
        for home in self.homes_for(place)? {
            let resumed = self.with_known_leftovers(place, &home, |dir, known| {
                for at in 0..known.len().min(MAX_LEFTOVERS) {
                    let found = resume(dir, &known[at].name, len, shown, &self.waits);
                    if let Some((file, log, notes)) = found.at("resume", &place.path)? {
                        let name = known.remove(at).name;
                        let staged = Staged { file, home: home.clone(), whose: self.whose, name };
                        return Ok(Some(Logged { staged, log, notes }));
                    }
                }
                Ok(None)
            })?;
            if resumed.is_some() {
                return Ok(resumed);
            }
        }
        Ok(None)
    }

    /// Calls `with` with the known leftovers for `place` in the staging directory of `home`, newest first.
    fn with_known_leftovers<T: Default>(
        &self,
        place: &Place,
        home: &RelPath,
        with: impl FnOnce(&Dir, &mut Vec<Leftover>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(Some(known)) = lock(&self.homes).get(home)
            && !known.contains_key(&path_key(&place.path))
        {
            return Ok(T::default());
        }
        let dir = match self.open_dir_of(home) {
            Err(Errno::NOENT) => return Ok(T::default()),
            opened => opened.at("resume", &place.path)?,
        };
        let mut homes = lock(&self.homes);
        let known = homes.entry(home.clone()).or_default();
        if known.is_none() {
            *known = match scan_leftovers(&dir) {
                // Another run has swept the directory meanwhile.
                Err(Errno::NOENT) => return Ok(T::default()),
                found => Some(found.at("resume", &place.path)?),
            };
        }
        let of_path = known.as_mut().and_then(|known| known.get_mut(&path_key(&place.path)));
        let Some(known) = of_path else { return Ok(T::default()) };
        let age = |leftover: &Leftover| {
            dir.stat(&leftover.name).map(|stat| Stamp::of(&stat).modified).ok()
        };
        known.sort_by_cached_key(|leftover| std::cmp::Reverse(age(leftover)));
        with(&dir, known)
    }

    /// Notes a staged file as a leftover of `path`. Called when a rebuild is dropped.
    pub(crate) fn note_leftover(&self, path: &RelPath, home: &RelPath, name: Name) {
        // Without a scan so far, the first scan will find the file.
        if let Some(Some(known)) = lock(&self.homes).get_mut(home) {
            known.entry(path_key(path)).or_default().push(Leftover { name, taken: false });
        }
    }

    /// Removes the leftovers of `path`, which was committed from the staging directory of `home`.
    pub(crate) fn remove_leftovers(&self, path: &RelPath, home: &RelPath) {
        self.remove_leftovers_in(path, home);
        if !home.is_root() {
            self.remove_leftovers_in(path, &RelPath::root());
        }
    }

    fn remove_leftovers_in(&self, path: &RelPath, home: &RelPath) {
        let known = lock(&self.homes).get_mut(home).and_then(|known| {
            let known = known.as_mut().filter(|known| !known.is_empty())?;
            known.remove(&path_key(path))
        });
        let Some(known) = known else { return };
        let Ok(dir) = self.open_dir_of(home) else { return };
        for leftover in known {
            if leftover.taken || is_unlocked(&dir, &leftover.name) {
                self.discard(&dir, &leftover.name);
            }
        }
    }

    /// Removes files without an owner from every known staging directory. Returns the number of files.
    pub(crate) fn sweep(&self) -> Result<u64, StoreError> {
        let mut homes = vec![RelPath::root()];
        for (home, known) in lock(&self.homes).iter_mut() {
            *known = None;
            homes.extend((!home.is_root()).then(|| home.clone()));
        }
        let counts: Vec<_> = homes.iter().map(|home| self.sweep_home(home)).collect();
        counts.into_iter().sum()
    }

    /// Removes files without an owner from the staging directory of `home`. Also removes the directory if it is then
    /// empty. Returns the number of files.
    pub(crate) fn sweep_home(&self, home: &RelPath) -> Result<u64, StoreError> {
        self.release_dir(home);
        let open = || match self.open_own(home) {
            Err(Errno::NOENT) => Ok(None),
            opened => opened.map(Some),
        };
        // The last of many concurrent runs in a volume sweeps, and no run waits for other runs, which may never all
        // end.
        let dir = lock_dir(open, if self.root.bounds().are_volumes() { TO_TIDY } else { TO_SWEEP });
        let Some((name, dir)) = dir.at(SWEEP, home)? else { return self.sweep_old(home) };
        let removed = sweep_dir(&dir, &self.space, Duration::ZERO).at(SWEEP, home)?;
        match self.root.open_dir(home, Use::Pass).and_then(|home| home.remove_dir(&name)) {
            Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(removed),
            Err(errno) => Err(store_error(SWEEP, home, errno)),
        }
    }
}

impl Stages {
    /// Removes the staged file `name` of `dir`, and its log. After an error, the sweep removes what is left.
    pub(crate) fn discard(&self, dir: &Dir, name: &Name) {
        self.space.free_pending(dir, name);
        let _ = dir.remove_file(name);
        remove_log(dir, name);
    }

    /// Removes the staged file `name` of the staging directory of `home`, and the log, if the directory can be opened.
    pub(crate) fn discard_in(&self, home: &RelPath, name: &Name) {
        if let Ok(dir) = self.open_dir_of(home) {
            self.discard(&dir, name);
        }
    }

    /// Removes the staging directories that this run used, if empty and not in use by another process.
    pub(crate) fn remove_empty_dirs(&self) {
        let homes: Vec<_> = lock(&self.held).drain().map(|(home, _)| home).collect();
        for home in homes {
            let open = || self.open_own(&home).map(Some);
            if let Ok(Some((name, _locked))) = lock_dir(open, TO_TIDY) {
                // A directory with files stays.
                let _ = self.root.open_dir(&home, Use::Pass).and_then(|dir| dir.remove_dir(&name));
            }
        }
    }
}

/// Returns the error of staging for `place`.
fn staging_error(place: &Place, errno: Errno) -> StoreError {
    match errno {
        Errno::EXIST => store_error(STAGE, &place.path, Errno::PERM),
        errno => store_error("create", &place.path, errno),
    }
}

/// Opens a staging directory by `open` and takes the lock `lock`: writers and sweeps exclude each other. `open` may
/// return `EAGAIN` to be called again. `None` if there is no directory, or if other processes keep the lock: these
/// processes will sweep.
fn lock_dir(
    open: impl Fn() -> Result<Option<(Name, Dir)>, Errno>,
    lock: LockTries,
) -> Result<Option<(Name, Dir)>, Errno> {
    for attempt in 0..lock.tries {
        let (name, dir) = match open() {
            Err(Errno::AGAIN) => continue,
            Ok(Some(found)) => found,
            none_or_error => return none_or_error,
        };
        if fs::flock(&dir, lock.operation) == Err(Errno::WOULDBLOCK) {
            thread::sleep(Duration::from_millis(attempt));
        } else if fs::fstat(&dir)?.st_nlink > 0 {
            return Ok(Some((name, dir)));
        }
        // A sweep removed the directory before it was locked.
    }
    Ok(None)
}

pub(crate) fn new_name(path: &RelPath) -> Name {
    // The standard library's hasher is keyed with random bytes.
    let nonce = RandomState::new().build_hasher().finish().to_be_bytes();
    let mut name = path_key(path);
    name.push(b'.');
    name.extend(hex(&nonce));
    name.extend(STAGED_SUFFIX);
    Name::new(&name).expect("digits and dots are a name")
}

/// True if the group or other users may write.
fn is_writable_by_others(stat: &Stat) -> bool {
    stat.st_mode & 0o022 != 0
}

/// Returns the part of a staged name that identifies the path.
fn path_key(path: &RelPath) -> Vec<u8> {
    // With capacity for a whole staged name.
    let mut key = Vec::with_capacity(2 * KEY_DIGITS);
    key.extend(hex(&Fingerprint::of(path.as_bytes()).as_bytes()[..KEY_DIGITS / 2]));
    key
}

/// Returns the hexadecimal digits of these bytes. Each new file gets a name, and the standard library's formatting
/// takes ten times as long.
fn hex(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let digits =
        |byte: &u8| [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    bytes.iter().flat_map(digits)
}

fn below(home: &RelPath, name: &Name) -> Result<RelPath, Errno> {
    home.join(name).map_err(|_| Errno::NAMETOOLONG)
}

fn staging_name() -> Name {
    Name::new(STAGING_NAME).expect("the staging directory has a name")
}

/// Action in errors if both names of a staging directory are taken.
const STAGE: &str = "use .deltic or .deltic-UID (each belongs to another user or is no directory: remove one, \
                     or use -T DIR) to write";
/// Action in errors of a sweep.
const SWEEP: &str = "remove leftovers in";
const KEY_DIGITS: usize = 32;
const NONCE_DIGITS: usize = 16;
/// Kind of lock on a staging directory, and the number of attempts, at growing intervals. A sweep takes about a second
/// at worst. A writer keeps its lock until the end of the run, and then sweeps.
#[derive(Clone, Copy)]
struct LockTries {
    operation: FlockOperation,
    tries: u64,
}

const TO_MAKE: LockTries =
    LockTries { operation: FlockOperation::NonBlockingLockShared, tries: 45 };
const TO_SWEEP: LockTries =
    LockTries { operation: FlockOperation::NonBlockingLockExclusive, tries: 10 };
const TO_TIDY: LockTries =
    LockTries { operation: FlockOperation::NonBlockingLockExclusive, tries: 1 };
