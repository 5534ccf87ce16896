//! Staging directories: where new versions grow until their commit, and what killed runs leave behind.
//!
//! A staged file has a name from its first moment (an fsync of a nameless file is lost on btrfs, `RELIABILITY`
//! finding 3) and is locked for as long as its owner lives: a `flock` goes with the process, however that ends. So a
//! file whose lock can be had is nobody's. Its name says which path it was for, by hash, and is random besides.
//!
//! A staged file is renamed into place, which works within one mount only. So each mount below the root has staging
//! directories of its own, in the directories of the files.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use deltic_core::{Fingerprint, Name, RelPath};
use rustix::fs::{self, AtFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;

use super::place::Place;
use super::snapshot::{LocalSnapshot, Version};
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::{STAGING_NAME, StoreError, lock};

/// All staging directories of a store.
#[derive(Debug)]
pub(super) struct Stages {
    root: Arc<Dir>,
    mount: Mount,
    /// What was found in every directory that has, or may have, a staging directory.
    homes: Mutex<HashMap<RelPath, Option<Leftovers>>>,
}

/// Staged files that were nobody's when we looked, by the [`key`] of their paths.
type Leftovers = HashMap<Vec<u8>, Vec<Leftover>>;

#[derive(Debug)]
struct Leftover {
    name: Name,
    /// Handed out, locked: ours to remove.
    taken: bool,
}

/// Something just made in a staging directory.
#[derive(Debug)]
pub(super) struct Staged<T> {
    pub(super) made: T,
    /// The directory whose staging directory it is in.
    pub(super) home: RelPath,
    pub(super) name: Name,
}

impl Stages {
    pub(super) fn new(root: Arc<Dir>) -> Result<Self, Errno> {
        let mount = mount_of(&root)?;
        Ok(Self { root, mount, homes: Mutex::default() })
    }

    /// A new locked file for `place`, its owner's alone.
    pub(super) fn file(&self, place: &Place) -> Result<Staged<OwnedFd>, StoreError> {
        self.make(place, |dir, name| {
            let file = dir.create(name)?;
            let lost = matches!(try_lock(&file), Ok(false));
            Ok((!lost).then_some(file))
        })
    }

    /// A new symlink for `place`. It cannot be locked: a sweep may take it away.
    pub(super) fn symlink(&self, place: &Place, target: &[u8]) -> Result<Staged<()>, StoreError> {
        self.make(place, |dir, name| dir.make_symlink(name, target).map(Some))
    }

    /// Makes something until no sweep interferes: one may see the file before our lock, or its directory before the file.
    fn make<T>(
        &self,
        place: &Place,
        make: impl Fn(&Dir, &Name) -> Result<Option<T>, Errno>,
    ) -> Result<Staged<T>, StoreError> {
        let home = self.home(place)?;
        for attempt in 0..MAX_TRIES {
            thread::sleep(Duration::from_millis(attempt));
            let name = new_name(&place.path);
            match self.made_dir(&home).and_then(|dir| make(&dir, &name)) {
                Ok(Some(made)) => return Ok(Staged { made, home, name }),
                Ok(None) | Err(Errno::NOENT | Errno::EXIST) => {}
                Err(errno) => return Err(StoreError::new("create", &place.path, errno)),
            }
        }
        Err(StoreError::new("create", &place.path, Errno::AGAIN))
    }

    /// The staging directory of `home`, which may be missing.
    pub(super) fn dir(&self, home: &RelPath) -> Result<Dir, Errno> {
        self.root.dir(&staging_path(home)?, Use::Read)
    }

    fn made_dir(&self, home: &RelPath) -> Result<Dir, Errno> {
        match self.dir(home) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        match self.root.dir(home, Use::Pass)?.make_dir(&staging_name()) {
            Err(Errno::EXIST) | Ok(()) => self.dir(home),
            Err(errno) => Err(errno),
        }
    }

    /// The directory whose staging directory serves `place`.
    fn home(&self, place: &Place) -> Result<RelPath, StoreError> {
        if mount_of(&place.dir).at("create", &place.path)? == self.mount {
            return Ok(RelPath::root());
        }
        lock(&self.homes).entry(place.dir_path.clone()).or_default();
        Ok(place.dir_path.clone())
    }

    /// Locked snapshots of what was left behind for `place`, newest first.
    pub(super) fn leftovers(&self, place: &Place) -> Result<Vec<LocalSnapshot>, StoreError> {
        let home = self.home(place)?;
        let dir = match self.dir(&home) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            opened => opened.at("resume", &place.path)?,
        };
        let mut homes = lock(&self.homes);
        let known = homes.entry(home).or_default();
        if known.is_none() {
            *known = Some(scan(&dir).at("resume", &place.path)?);
        }
        let of_path = known.as_mut().and_then(|known| known.get_mut(&key(&place.path)));
        take(&dir, place, of_path.map_or(&mut [][..], Vec::as_mut_slice))
    }

    /// Makes a staged file that its owner lets go of known as a leftover of `path`.
    pub(super) fn leave(&self, path: &RelPath, home: &RelPath, name: Name) {
        // A directory that nobody scanned yet will show it.
        if let Some(Some(known)) = lock(&self.homes).get_mut(home) {
            known.entry(key(path)).or_default().push(Leftover { name, taken: false });
        }
    }

    /// Removes the leftovers of `path`, which is committed.
    pub(super) fn clear(&self, path: &RelPath, home: &RelPath) {
        let known =
            lock(&self.homes).get_mut(home).and_then(|known| known.as_mut()?.remove(&key(path)));
        let (Some(known), Ok(dir)) = (known, self.dir(home)) else { return };
        for leftover in known {
            if leftover.taken || is_nobodys(&dir, &leftover.name) {
                // What stays is litter for the sweep.
                let _ = dir.remove_file(&leftover.name);
            }
        }
    }

    /// Removes what nobody holds from every staging directory that was met. Returns how many files.
    pub(super) fn sweep(&self) -> Result<u64, StoreError> {
        let mut homes: Vec<RelPath> = lock(&self.homes).drain().map(|(home, _)| home).collect();
        if !homes.iter().any(RelPath::is_root) {
            homes.push(RelPath::root());
        }
        let counts: Vec<_> = homes.iter().map(|home| self.sweep_home(home)).collect();
        counts.into_iter().sum()
    }

    /// Removes what nobody holds from the staging directory of `home`, and that directory if nothing stays.
    pub(super) fn sweep_home(&self, home: &RelPath) -> Result<u64, StoreError> {
        match self.dir(home) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(0),
            opened => sweep_dir(&opened.at("sweep", home)?).at("sweep", home),
        }
        .inspect(|_| {
            // It stays while it is in use.
            let _ = self.root.dir(home, Use::Pass).map(|dir| dir.remove_dir(&staging_name()));
        })
    }
}

fn sweep_dir(dir: &Dir) -> Result<u64, Errno> {
    let mut removed = 0;
    for name in staged_names(dir)? {
        if is_nobodys(dir, &name) {
            match dir.remove_file(&name) {
                Ok(()) => removed += 1,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(removed)
}

fn scan(dir: &Dir) -> Result<Leftovers, Errno> {
    let mut leftovers = Leftovers::new();
    for name in staged_names(dir)? {
        let key = name.as_bytes()[..KEY_DIGITS].to_vec();
        leftovers.entry(key).or_default().push(Leftover { name, taken: false });
    }
    Ok(leftovers)
}

/// Opens the newest of `known` that nobody holds, and marks them as taken.
fn take(
    dir: &Dir,
    place: &Place,
    known: &mut [Leftover],
) -> Result<Vec<LocalSnapshot>, StoreError> {
    let age =
        |leftover: &Leftover| dir.stat(&leftover.name).map(|stat| Version::of(&stat).modified).ok();
    known.sort_by_cached_key(|leftover| std::cmp::Reverse(age(leftover)));
    let mut snapshots = Vec::new();
    for leftover in known.iter_mut().take(MAX_LEFTOVERS) {
        if let Ok(Some(file)) = lock_free(dir, &leftover.name) {
            snapshots.extend(LocalSnapshot::of(file, &place.path)?);
            leftover.taken = true;
        }
    }
    Ok(snapshots)
}

/// The file `name`, locked, unless somebody holds it.
fn lock_free(dir: &Dir, name: &Name) -> Result<Option<OwnedFd>, Errno> {
    // Some network file systems lock only what is open to write; a finished file may not be.
    let file = match dir.open(name, OFlags::RDWR) {
        Err(Errno::ACCESS) => dir.open(name, OFlags::RDONLY)?,
        opened => opened?,
    };
    Ok(try_lock(&file)?.then_some(file))
}

/// Whether no living process holds the staged file `name`.
fn is_nobodys(dir: &Dir, name: &Name) -> bool {
    match lock_free(dir, name) {
        Ok(held) => held.is_some(),
        // A symlink has no lock, and neither has a finished file whose mode keeps its owner out: their owners bear it.
        Err(errno) => matches!(errno, Errno::LOOP | Errno::ACCESS),
    }
}

/// Locks `file`; `false` where somebody else holds it or removed it before.
fn try_lock(file: &OwnedFd) -> Result<bool, Errno> {
    match fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
        Ok(()) => Ok(fs::fstat(file)?.st_nlink > 0),
    }
}

/// The names in `dir` that are of our making; a stranger's file in there is none of our business.
fn staged_names(dir: &Dir) -> Result<Vec<Name>, Errno> {
    let mut names = Vec::new();
    dir.for_each_name(|name| names.extend(Name::new(name).ok().filter(is_staged_name)))?;
    Ok(names)
}

fn is_staged_name(name: &Name) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let name = name.as_bytes();
    name.len() == KEY_DIGITS + 1 + NONCE_DIGITS + SUFFIX.len()
        && is_hex(&name[..KEY_DIGITS])
        && name[KEY_DIGITS] == b'.'
        && is_hex(&name[KEY_DIGITS + 1..][..NONCE_DIGITS])
        && name.ends_with(SUFFIX)
}

fn new_name(path: &RelPath) -> Name {
    // The standard library's hasher is keyed with random bytes.
    let nonce = format!(".{:016x}", RandomState::new().build_hasher().finish());
    let name = [&key(path), nonce.as_bytes(), SUFFIX].concat();
    Name::new(&name).expect("digits and dots are a name")
}

/// The part of a staged name that says which path it is for.
fn key(path: &RelPath) -> Vec<u8> {
    Fingerprint::of(path.as_bytes()).short().to_string().into_bytes()
}

pub(super) fn staging_path(home: &RelPath) -> Result<RelPath, Errno> {
    home.join(&staging_name()).map_err(|_| Errno::NAMETOOLONG)
}

fn staging_name() -> Name {
    Name::new(STAGING_NAME).expect("the staging directory has a name")
}

/// What a rename cannot leave: device and mount, for one device can be mounted twice.
type Mount = ((u32, u32), u64);

fn mount_of(dir: &Dir) -> Result<Mount, Errno> {
    let stat =
        fs::statx(dir, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
    let knows_mounts = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
    let mount = if knows_mounts { stat.stx_mnt_id } else { 0 };
    Ok(((stat.stx_dev_major, stat.stx_dev_minor), mount))
}

const KEY_DIGITS: usize = 32;
const NONCE_DIGITS: usize = 16;
const SUFFIX: &[u8] = b".tmp";
/// Leftovers of one path that are worth a look.
const MAX_LEFTOVERS: usize = 4;
/// Tries of an act that a concurrent sweep undid.
pub(super) const MAX_TRIES: u64 = 8;
