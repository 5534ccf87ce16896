//! What an entry gets besides its content: owner, attributes, ACLs, mode and times, in this order. A change of owner
//! takes setuid away, so the mode comes later; a mode may close a file to its owner, so attributes come before; times
//! are last.
//!
//! What cannot be set keeps nothing else away: it is noted, and told of once the entry is in place. But what is not
//! whose it should be gets no bits that lend it to others, and what lacks its ACL is open to nobody to whom that would
//! have closed it as the owning group.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use deltic_tree::meta::fake_super::{FakeKind, FakeStat};
use deltic_tree::meta::{Acl, LENDING_BITS, OWNER_BITS, SETGID, Timestamp, XattrScope};
use deltic_tree::{Meta, MetaMask, Name, RelPath};
use rustix::fs::{
    self, AtFlags, CWD, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use rustix::process;

use super::heritage::Heritage;
use super::more::{ACL, Reach, access_acl, inherit, set_acls, set_xattrs};
use super::noted;
use super::snapshot::file_type;
use crate::dir::{Dir, Use, keeps_to_volumes, proc_path, set_mode_of_held, set_mode_of_open};
use crate::system::told;
use deltic_store::{Filter, Keep, Unset};

/// What to set on an entry.
#[derive(Debug)]
pub(super) struct Attrs<'a> {
    meta: &'a Meta,
    keep: Keep,
    /// Of extended attributes; and which of these are ours to change.
    scope: XattrScope,
    rules: &'a Filter,
    /// True if what only the superuser may set is noted, and not set.
    notes: bool,
    mode: Option<u32>,
    /// A mode nobody asked to keep: a file system without modes may refuse it.
    mode_is_optional: bool,
    times: Option<Timestamps>,
    /// What its directory would have handed down.
    heritage: Heritage,
}

/// What a store looks at of an entry, and its rules.
pub(super) type Ways<'a> = (MetaMask, &'a Filter);

/// What to set it on.
#[derive(Clone, Copy, Debug)]
pub(super) enum On<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A handle that is only good to reach what it stands for (`O_PATH`).
    Handle(BorrowedFd<'a>),
    /// A symlink, which has no handle of its own everywhere.
    Link(&'a Dir, &'a Name),
}

/// Inputs of a new entry's mode, besides what is kept of its source.
#[derive(Clone, Debug)]
pub(super) struct NewMode {
    /// The mode of the old version.
    pub(super) old: Option<u32>,
    pub(super) umask: u32,
    /// Handed down by its directory.
    pub(super) heritage: Heritage,
}

impl NewMode {
    /// For an entry without an old version.
    pub(super) const fn below(heritage: Heritage, umask: u32) -> Self {
        Self { old: None, umask, heritage }
    }

    /// For one whose directory hands down nothing, in place of an old version of mode `old`.
    pub(super) fn replacing(old: Option<u32>, umask: u32) -> Self {
        Self { old, umask, heritage: Heritage::default() }
    }
}

impl<'a> Attrs<'a> {
    /// For an entry that the tree has not shown yet, or that gets a mode by `new`.
    pub(super) fn of_new(meta: &'a Meta, what: (Keep, Ways<'a>), new: NewMode) -> Self {
        let NewMode { old, umask, heritage } = new;
        let mode = Some(what.0.mode_of_new(meta, old, heritage.umask(umask)));
        let mode_is_optional = !what.0.modes;
        Self { mode, mode_is_optional, heritage, ..Self::of_existing(meta, what) }
    }

    /// For an entry that was there before.
    pub(super) fn of_existing(meta: &'a Meta, (keep, (see, rules)): (Keep, Ways<'a>)) -> Self {
        let mode = keep.modes.then_some(meta.mode & ALL_BITS);
        let times = times(meta, keep);
        let heritage = Heritage::default();
        let (scope, notes) = (see.xattrs, see.fake_super);
        Self { meta, keep, scope, rules, notes, mode, mode_is_optional: false, times, heritage }
    }

    /// With the setgid bit that a new directory of mode `now` got from the one above it.
    pub(super) fn inheriting(mut self, now: u32) -> Self {
        if !self.keep.modes {
            self.mode = self.mode.map(|mode| mode | now & SETGID);
        }
        self
    }

    /// True if nothing is to be set.
    pub(super) fn is_empty(&self) -> bool {
        self.mode.is_none() && self.times.is_none() && !self.looks_first() && !self.notes
    }

    /// True if what to set depends on what there is.
    fn looks_first(&self) -> bool {
        let Keep { executability, acls, xattrs, .. } = self.keep;
        let owned = self.meta.user.is_some() || self.meta.group.is_some();
        let inherits = self.heritage != Heritage::default();
        owned || acls || xattrs || inherits || executability && self.mode.is_none()
    }

    /// The mode that a file may be made with which belongs to `owner` then: the one that it is to get, where nothing
    /// but times is to be set besides; else its owner's alone, for nobody may read it before it is as it should be.
    pub(super) fn birth_mode(&self, owner: (u32, u32)) -> Mode {
        match self.mode.filter(|mode| self.suits(owner) && mode & !0o777 == 0) {
            Some(mode) => Mode::from_raw_mode(mode),
            None => Mode::RUSR | Mode::WUSR,
        }
    }

    /// Sets it on a file that was just made, and then was `born`.
    pub(super) fn set_on_new(&self, on: On<'_>, born: &Stat) -> Unset {
        let has_mode = self.mode == Some(born.st_mode & ALL_BITS);
        if !has_mode || !self.suits((born.st_uid, born.st_gid)) {
            return self.set(on);
        }
        let mut unset = Unset::default();
        self.set_times(on, &mut unset);
        unset
    }

    /// True if an entry that is this has all of it already.
    pub(super) fn are_on(&self, is: &Stat) -> bool {
        let has_mode = self.mode.is_none_or(|mode| mode == is.st_mode & ALL_BITS);
        let has_times = self.times.as_ref().is_none_or(|times| {
            let Timespec { tv_sec, tv_nsec } = times.last_modification;
            let modified = i128::from(tv_sec) == i128::from(is.st_mtime)
                && i128::from(tv_nsec) == i128::from(is.st_mtime_nsec);
            modified && times.last_access.tv_nsec == AT_ANY_TIME.tv_nsec
        });
        has_mode && has_times && !self.notes && self.suits((is.st_uid, is.st_gid))
    }

    /// True if a new file of this user and group lacks mode and times at most.
    pub(super) fn suits(&self, owner: (u32, u32)) -> bool {
        let Keep { acls, xattrs, .. } = self.keep;
        self.is_of(owner) && !acls && !xattrs && self.heritage == Heritage::default()
    }

    /// True if what is this user's and group's stays so.
    fn is_of(&self, (user, group): (u32, u32)) -> bool {
        self.meta.user.is_none_or(|wanted| wanted == user)
            && self.meta.group.is_none_or(|wanted| wanted == group)
    }

    /// Sets what counts before anything is made in a directory that was there: its owner, its group and whether it
    /// hands that down. Until it has its mode it lets nobody do what not both the old and the new one do. What cannot
    /// be set is told when all is.
    pub(super) fn set_first(&self, on: On<'_>) -> Result<(), Errno> {
        let is = on.stat()?;
        let mode = is.st_mode & ALL_BITS;
        let moves = !self.notes && !self.is_of((is.st_uid, is.st_gid));
        let new = self.mode.unwrap_or(mode);
        let closed = match self.mode {
            Some(_) if self.meets_acl(on) => (mode & !OTHERS_BITS) & (new | !LENDING_BITS),
            Some(new) => between(mode, new, moves),
            None => mode,
        };
        if closed != mode {
            on.set_mode(closed)?;
        }
        let mut unset = Unset::default();
        if moves {
            self.set_owner(on, &is, &mut unset);
        }
        if new & !closed & SETGID != 0 && !self.notes && unset.why(GROUP).is_none() {
            on.set_mode(closed | SETGID)?;
        }
        Ok(())
    }

    /// True if an ACL is there, or is to be: only that says what the mode lets whom do.
    fn meets_acl(&self, on: On<'_>) -> bool {
        let has_one = || access_acl(&on.reach()).is_some();
        self.keep.acls && !self.notes && (self.meta.access_acl().is_some() || has_one())
    }

    /// Sets it; says what could not be set.
    pub(super) fn set(&self, on: On<'_>) -> Unset {
        let mut unset = Unset::default();
        let mode = match () {
            () if self.notes => self.set_noted(on, &mut unset),
            () if self.looks_first() => self.set_special(on, &mut unset),
            () => self.mode,
        };
        if let Some(mode) = mode.filter(|_| !self.meta.is_symlink()) {
            match on.set_mode(mode) {
                Err(Errno::PERM | Errno::OPNOTSUPP) if self.mode_is_optional => {}
                set => unset.note(MODE, set),
            }
        }
        self.set_times(on, &mut unset);
        unset
    }

    fn set_times(&self, on: On<'_>, unset: &mut Unset) {
        if let Some(times) = &self.times {
            unset.note("times", on.set_times(times));
        }
    }

    /// Sets what must come before the mode; says which mode is to be set then.
    fn set_special(&self, on: On<'_>, unset: &mut Unset) -> Option<u32> {
        let stat = match on.stat() {
            Ok(stat) => stat,
            Err(errno) => {
                unset.note("all but times", Err(errno));
                return None;
            }
        };
        let now = stat.st_mode & ALL_BITS;
        let mut wanted = self.mode.unwrap_or_else(|| self.keep.executable(self.meta, now));
        self.set_owner(on, &stat, unset);
        if unset.why(OWNER).or_else(|| unset.why(GROUP)).is_some() {
            wanted &= !LENDING_BITS;
        }
        self.inherit_group(on, unset);
        let at = on.reach();
        self.set_more(on, (now, wanted), unset);
        wanted = less(wanted, self.meta.access_acl(), unset);
        if let Some(acl) = self.heritage.acl.as_ref().filter(|_| !self.keep.acls) {
            unset.note(ACL, inherit(&at, acl, wanted));
            wanted = less(wanted, Some(acl), unset);
        }
        // Nobody may have asked for a mode: but a change of owner, or of an ACL, may have taken special bits away.
        Some(wanted)
    }

    /// Sets what a directory, in which things are to be made, gets besides owner, mode and times: too much to keep
    /// until all is made. Also returns the bits that its mode must lack then, because its ACL could not be set.
    pub(super) fn set_early(&self, on: On<'_>) -> (Unset, u32) {
        let mut unset = Unset::default();
        match on.stat() {
            Ok(stat) => {
                let now = stat.st_mode & ALL_BITS;
                let wanted = if self.notes { self.mode.unwrap_or(now) } else { now };
                self.set_more(on, (now, wanted), &mut unset);
            }
            Err(errno) => unset.note("attributes", Err(errno)),
        }
        let withheld = match self.notes {
            true => 0,
            false => ALL_BITS & !less(ALL_BITS, self.meta.access_acl(), &unset),
        };
        (unset, withheld)
    }

    /// Without these bits in its mode.
    pub(super) fn without(mut self, bits: u32) -> Self {
        self.mode = self.mode.map(|mode| mode & !bits);
        self
    }

    /// Sets extended attributes, and ACLs with the permissions of `wanted`, on what has the mode `now`.
    fn set_more(&self, on: On<'_>, (now, wanted): (u32, u32), unset: &mut Unset) {
        let Keep { acls, xattrs, .. } = self.keep;
        if self.meta.is_partly_unread() || !(acls || xattrs) {
            return;
        }
        let at = on.reach();
        if xattrs {
            unset.append(self.set_xattrs(on, &at, now));
        }
        match acls && !self.meta.is_symlink() {
            true if self.notes => noted::set_acls(&at, self.meta, wanted, unset),
            true => set_acls(&at, self.meta, wanted, unset),
            false => {}
        }
    }

    /// Sets the extended attributes of what has the mode `now`.
    fn set_xattrs(&self, on: On<'_>, at: &Reach, now: u32) -> Unset {
        let set = || set_xattrs(at, self.meta, (self.scope, self.rules));
        let unset = set();
        // What its owner may not write may not be noted on either.
        let denies = |why| Errno::from_io_error(why) == Some(Errno::ACCESS);
        let is_closed = unset.reasons().any(denies) && !self.meta.is_symlink();
        if !is_closed || on.set_mode(now | OWNER_WRITES).is_err() {
            return unset;
        }
        let mut unset = set();
        unset.note(MODE, on.set_mode(now));
        unset
    }

    /// Notes what only the superuser may set, and sets the rest; all of it while its owner may write.
    fn set_noted(&self, on: On<'_>, unset: &mut Unset) -> Option<u32> {
        self.inherit_group(on, unset);
        let at = on.reach();
        let stat = match on.stat() {
            Ok(stat) => stat,
            Err(errno) => {
                unset.note(noted::NOTE, Err(errno));
                return None;
            }
        };
        let now = noted::note_of(&at, &stat);
        let old_mode = now.map_or(stat.st_mode & ALL_BITS, |noted| noted.mode);
        let (user, group) = now.map_or(SUPERUSER, |now| (now.user, now.group));
        let wanted = FakeStat {
            kind: FakeKind::of(&self.meta.kind),
            mode: self.mode.unwrap_or_else(|| self.keep.executable(self.meta, old_mode)),
            user: self.meta.user.unwrap_or(user),
            group: self.meta.group.unwrap_or(group),
        };
        let owner_bits = if self.meta.is_dir() { OWNER_BITS } else { OWNER_READS_AND_WRITES };
        let mode = wanted.mode & ACCESS_BITS | owner_bits;
        if let Some(acl) = &self.heritage.acl {
            unset.note(ACL, inherit(&at, acl, mode));
        }
        unset.note(MODE, on.set_mode(mode));
        let is_plain = matches!(wanted.kind, FakeKind::File | FakeKind::Dir);
        let is_so = is_plain
            && (mode, stat.st_uid, stat.st_gid) == (wanted.mode, wanted.user, wanted.group);
        unset.note(noted::NOTE, noted::set(&at, Some(&wanted).filter(|_| !is_so)));
        self.set_more(on, (mode, wanted.mode), unset);
        None
    }

    fn inherit_group(&self, on: On<'_>, unset: &mut Unset) {
        let group = self.heritage.group.filter(|_| self.meta.group.is_none());
        match group.map(|group| on.set_owner(None, Some(Gid::from_raw(group)))) {
            // The system hands down groups that we are not in; we cannot.
            None | Some(Ok(()) | Err(Errno::PERM)) => {}
            Some(error) => unset.note(GROUP, error),
        }
    }

    fn set_owner(&self, on: On<'_>, now: &Stat, unset: &mut Unset) {
        let user = self.meta.user.filter(|user| *user != now.st_uid);
        let group = self.meta.group.filter(|group| *group != now.st_gid);
        if user.is_some() && group.is_some() && set_owner(on, user, group).is_ok() {
            return;
        }
        // Each by itself: one may be set where the other may not. The group first, for who gives a file away cannot.
        for (name, user, group) in [(GROUP, None, group), (OWNER, user, None)] {
            if user.is_some() || group.is_some() {
                unset.note(name, set_owner(on, user, group));
            }
        }
    }
}

fn set_owner(on: On<'_>, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
    // The highest number means "leave it": nobody can have it.
    if user == Some(u32::MAX) || group == Some(u32::MAX) {
        return Err(Errno::INVAL);
    }
    on.set_owner(user.map(Uid::from_raw), group.map(Gid::from_raw))
}

/// What of the modes `old` and `new` a directory may have in between: what both let others do; where it `moves` to
/// another owner or group, no class of them more than the other, for then nobody knows who is in which.
const fn between(old: u32, new: u32, moves: bool) -> u32 {
    let both = old & new;
    let least = both & both >> 3 & 7;
    let others = if moves { least << 3 | least } else { both & OTHERS_BITS };
    old & OWNER_BITS | others | both & LENDING_BITS | (old | new) & STICKY
}

/// Of a `mode` that `acl` was to go with, and could not be set: what the owning group may do is what the ACL says, for
/// in the mode there stands the most that anybody named may.
fn less(mode: u32, acl: Option<&Acl>, unset: &Unset) -> u32 {
    match acl.filter(|acl| acl.mask.is_some() && unset.why(ACL).is_some()) {
        Some(acl) => mode & !(u32::from(!acl.group & 7) << 3),
        None => mode,
    }
}

impl On<'_> {
    pub(super) fn stat(self) -> Result<Stat, Errno> {
        match self {
            Self::Open(fd) | Self::Handle(fd) => fs::fstat(fd),
            Self::Link(dir, name) => dir.stat(name),
        }
    }

    fn reach(self) -> Reach {
        match self {
            Self::Link(dir, name) => Reach::Name(dir.path_to(name)),
            Self::Open(fd) | Self::Handle(fd) => Reach::Followed(proc_path(fd)),
        }
    }

    pub(super) fn set_owner(self, user: Option<Uid>, group: Option<Gid>) -> Result<(), Errno> {
        match self {
            Self::Open(fd) | Self::Handle(fd) => {
                fs::chownat(fd, "", user, group, AtFlags::EMPTY_PATH)
            }
            Self::Link(dir, name) => dir.set_owner(name, user, group),
        }
    }

    fn has_mode(self, mode: u32) -> bool {
        self.stat().is_ok_and(|is| is.st_mode & ALL_BITS == mode)
    }

    /// True if it has this mode, and may: in a volume no file lends the rights of its owner or group to what came.
    fn keeps_mode(self, mode: u32) -> bool {
        let is_file = || self.stat().is_ok_and(|is| file_type(&is).is_file());
        self.has_mode(mode) && !(keeps_to_volumes() && is_file())
    }

    /// Who does not own it may not even say again which mode it has; who is not in its group takes setgid away by that.
    fn set_mode(self, mode: u32) -> Result<(), Errno> {
        let to_set = Mode::from_raw_mode(mode);
        if mode & SETGID != 0 && self.keeps_mode(mode) {
            return Ok(());
        }
        let set = match self {
            Self::Open(fd) => set_mode_of_open(fd, to_set),
            Self::Handle(fd) => set_mode_of_held(fd, to_set),
            Self::Link(..) => Ok(()),
        };
        if set == Err(Errno::PERM) && self.has_mode(mode) { Ok(()) } else { set }
    }

    fn set_times(self, times: &Timestamps) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fs::futimens(fd, times),
            Self::Handle(fd) => fs::utimensat(CWD, &*proc_path(fd), times, AtFlags::empty()),
            Self::Link(dir, name) => dir.set_times(name, times),
        }
    }
}

/// Lets us do what we like in the directory `path` below `root`, if it is ours and says otherwise: which mode it had
/// then. If we may not, what is tried in it will say so.
pub(super) fn open_to_owner(root: &Dir, path: &RelPath) -> Option<u32> {
    if process::geteuid().is_root() {
        return None;
    }
    let open = |dir: &Dir| {
        let mode = fs::fstat(dir).ok()?.st_mode;
        let closed = mode & OWNER_BITS != OWNER_BITS;
        (closed && set_mode(dir, mode | OWNER_BITS).is_ok()).then_some(mode)
    };
    // Nothing is found in one that is closed, not even itself.
    if path.is_root() { open(root) } else { open(&root.dir(path, Use::Pass).ok()?) }
}

/// Changes the mode of what `handle` stands for, which may not be open to read.
pub(super) fn set_mode(handle: impl AsFd, mode: u32) -> Result<(), Errno> {
    On::Handle(handle.as_fd()).set_mode(mode & ALL_BITS)
}

/// The times that are to be set; what is not said stays.
fn times(meta: &Meta, keep: Keep) -> Option<Timestamps> {
    if !keep.times_of(&meta.kind) {
        return None;
    }
    let accessed = meta.accessed().filter(|_| !meta.is_dir());
    let modified = keep.times.then_some(meta.modified);
    let spec = |time: Timestamp| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
    let stays = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps {
        last_access: accessed.map_or(AT_ANY_TIME, spec),
        last_modification: modified.map_or(stays, spec),
    };
    (accessed.is_some() || modified.is_some()).then_some(times)
}

/// When something was last read, where that is not asked for: now, for file systems in user space pass over one time
/// without the other and say nothing.
pub(super) const AT_ANY_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// The bits that this process withheld from new files when it was asked first. Asked of `/proc`, since the system call
/// that tells also sets, for all threads; all that can be withheld where nothing is mounted there.
#[must_use]
pub fn umask() -> u32 {
    static ASKED: OnceLock<u32> = OnceLock::new();
    *ASKED.get_or_init(read_umask)
}

fn read_umask() -> u32 {
    let status = told("/proc/self/status", 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}

/// User and group of new files under `--fake-super`, where the superuser is played.
const SUPERUSER: (u32, u32) = (0, 0);
/// All that a mode can say.
const ALL_BITS: u32 = 0o7777;
const STICKY: u32 = 0o1000;
const OTHERS_BITS: u32 = 0o077;
const OWNER_WRITES: u32 = 0o200;
const OWNER_READS_AND_WRITES: u32 = 0o600;
const ACCESS_BITS: u32 = 0o777;
/// What attributes are called.
const MODE: &str = "mode";
const OWNER: &str = "owner";
const GROUP: &str = "group";
