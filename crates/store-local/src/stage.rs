//! Staging directories: where new versions grow until their commit, and what killed runs leave behind.
//!
//! A staged file has a name from its first moment (an fsync of a nameless file is lost on btrfs, `RELIABILITY`
//! finding 3) and is locked for as long as its owner lives: a `flock` goes with the process, however that ends. So a
//! file whose lock can be had is nobody's. Its name says which path it was for, by hash, and is random besides.
//! What is not to be flushed, and of no use unless it is complete, may do without a name until it gets its own.
//!
//! A staged file is renamed into place, which works within one [realm](Realm) only: one mount, one project of a
//! quota, one encryption key. So each realm below the root has staging directories of its own, in the directories of
//! the files; so has a tree in whose root this user may make nothing. The kernel refuses some other renames without
//! notice. After a refused rename, that directory and all below it have staging directories of their own too.
//!
//! The staging directory of another user, in a tree to which several users write, is left alone: this user has a
//! staging directory beside it.

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
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FlockOperation, Mode, Stat};
use rustix::io::Errno;

use super::heritage::disinherit;
use super::holes::has_holes;
use super::log::{Log, Notes, STAGED_SUFFIX, remove_log};
use super::place::Place;
use super::quota::forget;
use super::recent::Recent;
use super::snapshot::{LocalSnapshot, Stamp, file_type};
use left::{MAX_LEFTOVERS, is_nobodys, resume, scan, sweep_dir, take};
use realm::Realm;

use crate::dir::{Dir, Use, keeps_to_volumes};
use crate::errno::{At, store_error};
use crate::lock;
use crate::system::System;
use deltic_store::{STAGING_NAME, StoreError};

/// All staging directories of a store.
#[derive(Debug)]
pub(super) struct Stages {
    root: Arc<Dir>,
    whose: Whose,
    system: System,
    realm: Realm,
    /// Directories into which the kernel refused to rename a file staged elsewhere.
    parted: Mutex<HashSet<RelPath>>,
    /// What was found in every directory that has, or may have, a staging directory.
    homes: Mutex<HashMap<RelPath, Option<Leftovers>>>,
    /// The staging directories in which something was made, locked together with others who make something there.
    held: Mutex<HashMap<RelPath, (Name, Arc<Dir>)>>,
    /// For the directories asked about last the one whose staging directory serves it.
    last: Recent<RelPath>,
    /// True if files without a name were tried and cannot be made here, or not be given one.
    needs_names: AtomicBool,
    /// Whether the root can have no staging directory of ours.
    is_closed: OnceLock<bool>,
    user: u32,
    /// Of devices on which something looked like another's: what the system makes of what is ours there.
    made_up: Mutex<HashMap<u64, MadeUp>>,
    /// For devices that were asked: true if new files have holes there.
    makes_holes: Mutex<HashMap<u64, bool>>,
}

/// What a file system makes of owners and modes: many of FAT, of networks and in user space have the same for all.
#[derive(Clone, Copy, Debug)]
struct MadeUp {
    user: u32,
    /// True if everybody may write, whatever was asked for.
    opens: bool,
}

/// Where staging directories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// In the destination.
    Own,
    /// In a directory for it (`--temp-dir`), which others may use as well: one for all files.
    Temp,
}

/// Staged files that were nobody's when we looked, by the [`key`] of their paths.
type Leftovers = HashMap<Vec<u8>, Vec<Leftover>>;

#[derive(Debug)]
struct Leftover {
    name: Name,
    /// Handed out, locked: ours to remove.
    taken: bool,
}

/// A staged file that was left behind, and what was noted of it.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) staged: Staged,
    pub(super) log: Log,
    pub(super) notes: Notes,
}

/// A file in a staging directory, locked, its owner's alone.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) file: OwnedFd,
    /// The directory whose staging directory it is in.
    pub(super) home: RelPath,
    pub(super) whose: Whose,
    pub(super) name: Name,
}

impl Stages {
    pub(super) fn new(root: Arc<Dir>, whose: Whose) -> Result<Self, Errno> {
        let system = System::of(&*root);
        let realm = Realm::of(&root, system)?;
        let user = rustix::process::geteuid().as_raw();
        let (homes, held, last) = (Mutex::default(), Mutex::default(), Recent::default());
        let (needs_names, is_closed) = (AtomicBool::new(false), OnceLock::new());
        let (made_up, makes_holes, parted) = Default::default();
        Ok(Self {
            root,
            whose,
            system,
            realm,
            parted,
            homes,
            held,
            last,
            needs_names,
            is_closed,
            user,
            made_up,
            makes_holes,
        })
    }

    /// A new file for `place`, its owner's alone.
    pub(super) fn create(&self, place: &Place) -> Result<Staged, StoreError> {
        self.create_as(place, Mode::RUSR | Mode::WUSR)
    }

    /// The same of this mode, less what the process withholds.
    pub(super) fn create_as(&self, place: &Place, mode: Mode) -> Result<Staged, StoreError> {
        let (home, name) = (self.home(place)?, new_name(&place.path));
        let create = || match self.enter(&home)?.create_as(&name, mode) {
            // Somebody removed it by hand.
            Err(Errno::NOENT) => {
                self.let_go(&home);
                self.enter(&home)?.create_as(&name, mode)
            }
            created => created,
        };
        let file = create().map_err(|errno| cannot_enter(place, errno))?;
        // Without locks, as on some network file systems, a sweep leaves everything alone.
        let _ = fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Staged { file, home, whose: self.whose, name })
    }

    /// A new file for `place` that has no name, which spares it a lock: nobody else ever meets it, and no kill leaves
    /// it behind; and the directory whose staging directory it would be in. `None`, where it is to have a name like
    /// others.
    pub(super) fn create_nameless(&self, place: &Place, mode: Mode) -> Option<(OwnedFd, RelPath)> {
        if self.needs_names.load(Ordering::Relaxed) {
            return None;
        }
        let home = self.home(place).ok()?;
        match self.enter(&home).and_then(|dir| dir.create_nameless(mode)) {
            Ok(file) => Some((file, home)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                self.need_names();
                None
            }
            // Whatever it is, it is said where a name is tried.
            Err(_) => None,
        }
    }

    /// Has all new files have names from now on.
    pub(super) fn need_names(&self) {
        self.needs_names.store(true, Ordering::Relaxed);
    }

    /// The staging directory for `place`, and which directory it is of; no sweep takes anything from it while it is
    /// held.
    pub(super) fn home_for(&self, place: &Place) -> Result<(RelPath, Arc<Dir>), StoreError> {
        let home = self.home(place)?;
        let dir = self.enter(&home).map_err(|errno| cannot_enter(place, errno))?;
        Ok((home, dir))
    }

    /// The staging directory for `place`, from which no sweep takes anything while it is held.
    pub(super) fn dir_for(&self, place: &Place) -> Result<Arc<Dir>, StoreError> {
        self.home_for(place).map(|(_, dir)| dir)
    }

    /// The staging directory of `home`, which may be missing.
    pub(super) fn dir(&self, home: &RelPath) -> Result<Arc<Dir>, Errno> {
        match lock(&self.held).get(home) {
            Some((_, dir)) => Ok(Arc::clone(dir)),
            None => self.open(home).map(|(_, dir)| Arc::new(dir)),
        }
    }

    /// Where that one is.
    pub(super) fn path(&self, home: &RelPath) -> Result<RelPath, Errno> {
        let held = lock(&self.held).get(home).map(|(name, _)| name.clone());
        below(home, &held.unwrap_or_else(staging_name))
    }

    /// The staging directory of `home` that is ours, and its name; one that is not is passed over.
    fn open(&self, home: &RelPath) -> Result<(Name, Dir), Errno> {
        for name in [self.own_name(), staging_name()] {
            match self.root.dir(&below(home, &name)?, Use::Read) {
                Ok(dir) if self.is_ours(&dir)? => return Ok((name, dir)),
                Ok(_) | Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    /// What others can change in there is not what we put there.
    fn is_ours(&self, dir: &Dir) -> Result<bool, Errno> {
        let stat = fs::fstat(dir)?;
        let is_of = |of: MadeUp| stat.st_uid == of.user && (of.opens || !is_open(&stat));
        let is_plainly_ours = || is_of(MadeUp { user: self.user, opens: false });
        Ok(file_type(&stat).is_dir()
            && (is_plainly_ours() || is_of(self.made_up(dir, stat.st_dev))))
    }

    /// What the system makes of a new file of ours in `dir`, which is of this device. Nobody comes between that file
    /// and us, as somebody may between a directory that we made and its name.
    fn made_up(&self, dir: &Dir, device: u64) -> MadeUp {
        *lock(&self.made_up).entry(device).or_insert_with(|| {
            let name = new_name(&RelPath::root());
            let stat = dir.create_as(&name, Mode::RUSR | Mode::WUSR).and_then(fs::fstat);
            let _ = dir.remove_file(&name);
            let as_asked = MadeUp { user: self.user, opens: false };
            stat.map_or(as_asked, |stat| MadeUp { user: stat.st_uid, opens: is_open(&stat) })
        })
    }

    /// What our staging directory is called where another user has one.
    fn own_name(&self) -> Name {
        let name = [STAGING_NAME, format!("-{}", self.user).as_bytes()].concat();
        Name::new(&name).expect("digits are part of a name")
    }

    /// True if a new file staged for `place` has holes where nothing was written.
    pub(super) fn makes_holes(&self, place: &Place) -> Result<bool, StoreError> {
        const PROBE_BYTES: u64 = 64 << 10;
        let dir = self.dir_for(place)?;
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

    /// Makes a staging directory in `home`, unless others have all names for it. Another try may find one, or find none
    /// again: a sweep may have been quicker.
    fn make(&self, home: &RelPath) -> Result<(), Errno> {
        let dir = self.root.dir(home, Use::Pass)?;
        for name in [staging_name(), self.own_name()] {
            match dir.make_dir(&name, Mode::RWXU) {
                Ok(()) => {
                    return match self.root.dir(&below(home, &name)?, Use::Read) {
                        Err(Errno::NOENT) => Ok(()),
                        made => disinherit(&made?),
                    };
                }
                Err(Errno::EXIST) => match self.root.dir(&below(home, &name)?, Use::Read) {
                    Ok(dir) if self.is_ours(&dir)? => return Ok(()),
                    Err(Errno::NOENT) => return Ok(()),
                    _ => {}
                },
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// The staging directory of `home`, made if need be, and locked from now on: nobody sweeps it.
    fn enter(&self, home: &RelPath) -> Result<Arc<Dir>, Errno> {
        if let Some((_, dir)) = lock(&self.held).get(home) {
            return Ok(Arc::clone(dir));
        }
        let open = || match self.open(home) {
            Err(Errno::NOENT) => self.make(home).and(Err(Errno::AGAIN)),
            opened => opened.map(Some),
        };
        let (name, dir) = lock_dir(open, TO_MAKE)?.ok_or(Errno::AGAIN)?;
        let mut held = lock(&self.held);
        let (_, dir) = held.entry(home.clone()).or_insert_with(|| (name, Arc::new(dir)));
        Ok(Arc::clone(dir))
    }

    /// Unlocks the staging directory of `home`, as far as we hold it.
    fn let_go(&self, home: &RelPath) {
        lock(&self.held).remove(home);
    }

    /// Locked snapshots of what was left behind for `place`, newest first.
    pub(super) fn leftovers(&self, place: &Place) -> Result<Vec<LocalSnapshot>, StoreError> {
        let mut found = Vec::new();
        for home in self.homes(place)? {
            found.extend(self.with_known(place, &home, |dir, known| take(dir, place, known))?);
        }
        Ok(found)
    }

    /// The newest staged file of `len` bytes that was left behind for `place` and has a log that holds. It has no other
    /// name than that of `shown`, which goes with the commit.
    pub(super) fn resume(
        &self,
        place: &Place,
        len: u64,
        shown: Option<(u64, u64)>,
    ) -> Result<Option<Logged>, StoreError> {
        for home in self.homes(place)? {
            let resumed = self.with_known(place, &home, |dir, known| {
                for at in 0..known.len().min(MAX_LEFTOVERS) {
                    let found = resume(dir, &known[at].name, (len, shown));
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

    /// Calls `with` each known leftover for `place` in the staging directory of `home`, newest first.
    fn with_known<T: Default>(
        &self,
        place: &Place,
        home: &RelPath,
        with: impl FnOnce(&Dir, &mut Vec<Leftover>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(Some(known)) = lock(&self.homes).get(home)
            && !known.contains_key(&key(&place.path))
        {
            return Ok(T::default());
        }
        let dir = match self.dir(home) {
            Err(Errno::NOENT) => return Ok(T::default()),
            opened => opened.at("resume", &place.path)?,
        };
        let mut homes = lock(&self.homes);
        let known = homes.entry(home.clone()).or_default();
        if known.is_none() {
            *known = match scan(&dir) {
                // Another run has swept it meanwhile.
                Err(Errno::NOENT) => return Ok(T::default()),
                found => Some(found.at("resume", &place.path)?),
            };
        }
        let of_path = known.as_mut().and_then(|known| known.get_mut(&key(&place.path)));
        let Some(known) = of_path else { return Ok(T::default()) };
        let age = |leftover: &Leftover| {
            dir.stat(&leftover.name).map(|stat| Stamp::of(&stat).modified).ok()
        };
        known.sort_by_cached_key(|leftover| std::cmp::Reverse(age(leftover)));
        with(&dir, known)
    }

    /// Makes a staged file that its owner lets go of known as a leftover of `path`.
    pub(super) fn leave(&self, path: &RelPath, home: &RelPath, name: Name) {
        // A directory that nobody scanned yet will show it.
        if let Some(Some(known)) = lock(&self.homes).get_mut(home) {
            known.entry(key(path)).or_default().push(Leftover { name, taken: false });
        }
    }

    /// Removes the leftovers of `path`, which is committed from the staging directory of `home`.
    pub(super) fn clear(&self, path: &RelPath, home: &RelPath) {
        self.clear_in(path, home);
        if !home.is_root() {
            self.clear_in(path, &RelPath::root());
        }
    }

    fn clear_in(&self, path: &RelPath, home: &RelPath) {
        let known = lock(&self.homes).get_mut(home).and_then(|known| {
            let known = known.as_mut().filter(|known| !known.is_empty())?;
            known.remove(&key(path))
        });
        let Some(known) = known else { return };
        let Ok(dir) = self.dir(home) else { return };
        for leftover in known {
            if leftover.taken || is_nobodys(&dir, &leftover.name) {
                discard(&dir, &leftover.name);
            }
        }
    }

    /// Removes what nobody holds from every staging directory that was met. Returns how many files.
    pub(super) fn sweep(&self) -> Result<u64, StoreError> {
        let mut homes = vec![RelPath::root()];
        for (home, known) in lock(&self.homes).iter_mut() {
            *known = None;
            homes.extend((!home.is_root()).then(|| home.clone()));
        }
        let counts: Vec<_> = homes.iter().map(|home| self.sweep_home(home)).collect();
        counts.into_iter().sum()
    }

    /// Removes what nobody holds from the staging directory of `home`, and that directory if nothing stays.
    pub(super) fn sweep_home(&self, home: &RelPath) -> Result<u64, StoreError> {
        self.let_go(home);
        let open = || match self.open(home) {
            Err(Errno::NOENT) => Ok(None),
            opened => opened.map(Some),
        };
        // In a volume the last of many runs at once does it; nobody waits for others, who may never all be gone.
        let dir = lock_dir(open, if keeps_to_volumes() { TO_TIDY } else { TO_SWEEP });
        let Some((name, dir)) = dir.at(SWEEP, home)? else { return Ok(0) };
        let removed = sweep_dir(&dir).at(SWEEP, home)?;
        match self.root.dir(home, Use::Pass).and_then(|home| home.remove_dir(&name)) {
            Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(removed),
            Err(errno) => Err(store_error(SWEEP, home, errno)),
        }
    }
}

impl Stages {
    /// Removes the staging directories that were used, where nothing is in them and nobody else is at work there.
    pub(super) fn tidy(&self) {
        let homes: Vec<_> = lock(&self.held).drain().map(|(home, _)| home).collect();
        for home in homes {
            let open = || self.open(&home).map(Some);
            if let Ok(Some((name, _locked))) = lock_dir(open, TO_TIDY) {
                // One that is not empty stays.
                let _ = self.root.dir(&home, Use::Pass).and_then(|dir| dir.remove_dir(&name));
            }
        }
    }
}

/// Why nothing can be staged for `place`.
fn cannot_enter(place: &Place, errno: Errno) -> StoreError {
    match errno {
        Errno::EXIST => store_error(STAGE, &place.path, Errno::PERM),
        errno => store_error("create", &place.path, errno),
    }
}

/// The directory that `open` opens, under `lock`: nobody sweeps where somebody makes something. `open` may ask to be
/// called again. `None` where there is no directory, or others keep it locked: a sweep can be left to them.
fn lock_dir(
    open: impl Fn() -> Result<Option<(Name, Dir)>, Errno>,
    (lock, tries): (FlockOperation, u64),
) -> Result<Option<(Name, Dir)>, Errno> {
    for attempt in 0..tries {
        let (name, dir) = match open() {
            Err(Errno::AGAIN) => continue,
            Ok(Some(found)) => found,
            none_or_error => return none_or_error,
        };
        if fs::flock(&dir, lock) == Err(Errno::WOULDBLOCK) {
            thread::sleep(Duration::from_millis(attempt));
        } else if fs::fstat(&dir)?.st_nlink > 0 {
            return Ok(Some((name, dir)));
        }
        // Else a sweep removed it before we had the lock.
    }
    Ok(None)
}

/// Removes a staged file and its log. What stays is litter for the sweep.
pub(super) fn discard(dir: &Dir, name: &Name) {
    forget(dir, name);
    let _ = dir.remove_file(name);
    remove_log(dir, name);
}

pub(super) fn new_name(path: &RelPath) -> Name {
    // The standard library's hasher is keyed with random bytes.
    let nonce = RandomState::new().build_hasher().finish().to_be_bytes();
    let mut name = key(path);
    name.push(b'.');
    name.extend(hex(&nonce));
    name.extend(STAGED_SUFFIX);
    Name::new(&name).expect("digits and dots are a name")
}

/// True if others may write.
fn is_open(stat: &Stat) -> bool {
    stat.st_mode & 0o022 != 0
}

/// The part of a staged name that says which path it is for.
fn key(path: &RelPath) -> Vec<u8> {
    // With room for all of a staged name.
    let mut key = Vec::with_capacity(2 * KEY_DIGITS);
    key.extend(hex(&Fingerprint::of(path.as_bytes()).as_bytes()[..KEY_DIGITS / 2]));
    key
}

/// Digits of these bytes. A first copy makes a name for each file: the standard library's formatting takes ten times
/// as long.
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

/// What is said to have been tried where both names of a staging directory are taken.
const STAGE: &str = "stage (.deltic and .deltic-UID there are not ours: remove them, or -T DIR)";
/// What is said to have been tried where leftovers of killed runs stay.
const SWEEP: &str = "remove leftovers in";
const KEY_DIGITS: usize = 32;
const NONCE_DIGITS: usize = 16;
/// How a staging directory is locked, and how often that is tried, with longer and longer pauses. A sweep takes about a
/// second at worst; who makes something holds on until the end of the run, and sweeps then.
const TO_MAKE: (FlockOperation, u64) = (FlockOperation::NonBlockingLockShared, 45);
const TO_SWEEP: (FlockOperation, u64) = (FlockOperation::NonBlockingLockExclusive, 10);
const TO_TIDY: (FlockOperation, u64) = (FlockOperation::NonBlockingLockExclusive, 1);
