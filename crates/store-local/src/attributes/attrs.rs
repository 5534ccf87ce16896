//! Sets the metadata of an entry in this order: owner, attributes, ACLs, mode and times. A change of owner clears
//! setuid, so the mode comes later. A mode may close a file to its owner, so attributes come earlier. Times are last.
//!
//! A failure to set one attribute stops nothing else: the failure is noted, and reported once the entry is in place.
//! But an entry with the wrong owner gets no setuid or setgid. An entry that lacks its ACL stays closed to the owning
//! group wherever the ACL would have closed it.

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
use super::more::{ACL, Reach, access_acl, set_acls, set_inherited_acl, set_xattrs};
use crate::attributes::noted;
use crate::handles::dir::{Dir, PathBounds, Use, proc_path, set_mode_of_held, set_mode_of_open};
use crate::handles::stat::file_type;
use crate::kernel::system::read_system_file;
use deltic_store::{Filter, Keep, Unset};

/// The metadata to set on an entry.
#[derive(Debug)]
pub(crate) struct Attrs<'a> {
    meta: &'a Meta,
    keep: Keep,
    /// Scope of the extended attributes that the run may change.
    scope: XattrScope,
    rules: &'a Filter,
    /// True if metadata that only the superuser may set is stored in an extended attribute (`--fake-super`).
    notes: bool,
    mode: Option<u32>,
    /// True if the run does not set modes. An error of a file system without modes is then ignored.
    mode_is_optional: bool,
    times: Option<Timestamps>,
    /// Group and default ACL that the entry would have inherited from its directory.
    heritage: Heritage,
    bounds: &'a PathBounds,
}

/// The metadata that a run sets, the metadata that the store reads, its rules, and the directories that the store is
/// confined to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeRules<'a> {
    pub(crate) keep: Keep,
    pub(crate) see: MetaMask,
    pub(crate) filter: &'a Filter,
    pub(crate) bounds: &'a PathBounds,
}

/// User and group of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryOwner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl EntryOwner {
    fn from_stat(stat: &Stat) -> Self {
        Self { user: stat.st_uid, group: stat.st_gid }
    }
}

/// The entry to set metadata on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A handle opened with `O_PATH`.
    Handle(BorrowedFd<'a>),
    /// A symlink, by its directory and name, since not every system can open a handle of a symlink.
    Link(&'a Dir, &'a Name),
}

/// Inputs, besides the mode at the source, from which the mode of a new entry is computed.
#[derive(Clone, Debug)]
pub(crate) struct NewMode {
    /// The mode of the old version, if there is one.
    pub(crate) old: Option<u32>,
    pub(crate) umask: u32,
    /// Metadata that entries inherit from the directory.
    pub(crate) heritage: Heritage,
}

impl NewMode {
    /// Inputs for an entry without an old version.
    pub(crate) const fn for_new_entry(heritage: Heritage, umask: u32) -> Self {
        Self { old: None, umask, heritage }
    }

    /// Inputs for an entry that replaces an old version of mode `old`, in a directory whose entries inherit nothing.
    pub(crate) fn for_replacement(old: Option<u32>, umask: u32) -> Self {
        Self { old, umask, heritage: Heritage::default() }
    }
}

impl<'a> Attrs<'a> {
    /// Returns the metadata to set on a new entry, or on an entry whose mode is computed from `new`.
    pub(crate) fn of_new(meta: &'a Meta, rules: AttributeRules<'a>, new: NewMode) -> Self {
        let NewMode { old, umask, heritage } = new;
        let mode = Some(rules.keep.mode_of_new(meta, old, heritage.umask(umask)));
        let mode_is_optional = !rules.keep.modes;
        Self { mode, mode_is_optional, heritage, ..Self::of_existing(meta, rules) }
    }

    /// Returns the metadata to set on an entry that was in the tree before.
    pub(crate) fn of_existing(meta: &'a Meta, rules: AttributeRules<'a>) -> Self {
        let AttributeRules { keep, see, filter: rules, bounds } = rules;
        let mode = keep.modes.then_some(meta.mode & ALL_BITS);
        let times = times(meta, keep);
        let heritage = Heritage::default();
        let (scope, notes) = (see.xattrs, see.fake_super);
        let mode_is_optional = false;
        Self { meta, keep, scope, rules, notes, mode, mode_is_optional, times, heritage, bounds }
    }

    /// Adds the setgid bit that a new directory of mode `now` inherited from its parent.
    pub(crate) fn with_inherited_setgid(mut self, now: u32) -> Self {
        if !self.keep.modes {
            self.mode = self.mode.map(|mode| mode | now & SETGID);
        }
        self
    }

    /// True if there is no metadata to set.
    pub(crate) fn is_empty(&self) -> bool {
        self.mode.is_none() && self.times.is_none() && !self.must_read_first() && !self.notes
    }

    /// True if the present metadata of the entry must be read first.
    fn must_read_first(&self) -> bool {
        let Keep { executability, acls, xattrs, .. } = self.keep;
        let owned = self.meta.user.is_some() || self.meta.group.is_some();
        let inherits = self.heritage != Heritage::default();
        owned || acls || xattrs || inherits || executability && self.mode.is_none()
    }

    /// Returns the mode to create a file with. `owner` is the owner that the new file gets. This is the final mode if
    /// only times are to be set besides. Otherwise only the owner may read and write, so nobody else reads the file
    /// before its metadata is set.
    pub(crate) fn birth_mode(&self, owner: EntryOwner) -> Mode {
        match self.mode.filter(|mode| self.needs_only_mode_and_times(owner) && mode & !0o777 == 0) {
            Some(mode) => Mode::from_raw_mode(mode),
            None => Mode::RUSR | Mode::WUSR,
        }
    }

    /// Sets the metadata on a new file; `born` is the file's state right after its creation.
    pub(crate) fn set_on_new(&self, on: On<'_>, born: &Stat) -> Unset {
        let has_mode = self.mode == Some(born.st_mode & ALL_BITS);
        if !has_mode || !self.needs_only_mode_and_times(EntryOwner::from_stat(born)) {
            return self.set(on);
        }
        let mut unset = Unset::default();
        self.set_times(on, &mut unset);
        unset
    }

    /// True if the entry with the state `is` already has all of the metadata.
    pub(crate) fn are_set_on(&self, is: &Stat) -> bool {
        let has_mode = self.mode.is_none_or(|mode| mode == is.st_mode & ALL_BITS);
        let has_times = self.times.as_ref().is_none_or(|times| {
            let Timespec { tv_sec, tv_nsec } = times.last_modification;
            let modified = i128::from(tv_sec) == i128::from(is.st_mtime)
                && i128::from(tv_nsec) == i128::from(is.st_mtime_nsec);
            modified && times.last_access.tv_nsec == AT_ANY_TIME.tv_nsec
        });
        has_mode
            && has_times
            && !self.notes
            && self.needs_only_mode_and_times(EntryOwner::from_stat(is))
    }

    /// True if a new file of this user and group would lack at most its mode and times.
    pub(crate) fn needs_only_mode_and_times(&self, owner: EntryOwner) -> bool {
        let Keep { acls, xattrs, .. } = self.keep;
        self.is_owned_by(owner) && !acls && !xattrs && self.heritage == Heritage::default()
    }

    /// True if the entry keeps this user and group.
    fn is_owned_by(&self, EntryOwner { user, group }: EntryOwner) -> bool {
        self.meta.user.is_none_or(|wanted| wanted == user)
            && self.meta.group.is_none_or(|wanted| wanted == group)
    }

    /// Sets the metadata that must be right before entries are created in an existing directory: owner, group and
    /// setgid. Until the final mode is set, others may do only what both the old and the new mode allow. Failures are
    /// reported later, when all metadata is set.
    pub(crate) fn set_before_entries(&self, on: On<'_>) -> Result<(), Errno> {
        let is = on.stat()?;
        let mode = is.st_mode & ALL_BITS;
        let moves = !self.notes && !self.is_owned_by(EntryOwner::from_stat(&is));
        let new = self.mode.unwrap_or(mode);
        let closed = match self.mode {
            Some(_) if self.has_acl(on) => (mode & !OTHERS_BITS) & (new | !LENDING_BITS),
            Some(new) => intermediate_mode(mode, new, moves),
            None => mode,
        };
        if closed != mode {
            on.set_mode(closed, self.bounds)?;
        }
        let mut unset = Unset::default();
        if moves {
            self.set_owner(on, &is, &mut unset);
        }
        if new & !closed & SETGID != 0 && !self.notes && unset.attribute_error(GROUP).is_none() {
            on.set_mode(closed | SETGID, self.bounds)?;
        }
        Ok(())
    }

    /// True if the entry has or gets an access ACL, so that the mode bits alone do not determine who may access the
    /// entry.
    fn has_acl(&self, on: On<'_>) -> bool {
        let has_one = || access_acl(&on.reach_of()).is_some();
        self.keep.acls && !self.notes && (self.meta.access_acl().is_some() || has_one())
    }

    /// Sets the metadata; returns the parts that could not be set.
    pub(crate) fn set(&self, on: On<'_>) -> Unset {
        let mut unset = Unset::default();
        let mode = match () {
            () if self.notes => self.set_note(on, &mut unset),
            () if self.must_read_first() => self.set_special(on, &mut unset),
            () => self.mode,
        };
        if let Some(mode) = mode.filter(|_| !self.meta.is_symlink()) {
            match on.set_mode(mode, self.bounds) {
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

    /// Sets the metadata that must come before the mode. Returns the mode to set afterwards.
    fn set_special(&self, on: On<'_>, unset: &mut Unset) -> Option<u32> {
        let stat = match on.stat() {
            Ok(stat) => stat,
            Err(errno) => {
                unset.note("attributes other than times", Err(errno));
                return None;
            }
        };
        let now = stat.st_mode & ALL_BITS;
        let mut wanted = self.mode.unwrap_or_else(|| self.keep.mode_with_execute(self.meta, now));
        self.set_owner(on, &stat, unset);
        if unset.attribute_error(OWNER).or_else(|| unset.attribute_error(GROUP)).is_some() {
            wanted &= !LENDING_BITS;
        }
        self.inherit_group(on, unset);
        let at = on.reach_of();
        self.set_xattrs_and_acls(on, now, wanted, unset);
        wanted = mode_without_unset_acl(wanted, self.meta.access_acl(), unset);
        if let Some(acl) = self.heritage.acl.as_ref().filter(|_| !self.keep.acls) {
            unset.note(ACL, set_inherited_acl(&at, acl, wanted));
            wanted = mode_without_unset_acl(wanted, Some(acl), unset);
        }
        // The mode is set even if the run does not set modes: a change of owner or ACL may have cleared special bits.
        Some(wanted)
    }

    /// Sets attributes and ACLs of a directory in which entries will be created: attributes and ACLs are too large to
    /// keep in memory until the end of the run. Owner, mode and times follow later. Also returns the mode bits to leave
    /// out then, because the ACL could not be set.
    pub(crate) fn set_early(&self, on: On<'_>) -> (Unset, u32) {
        let mut unset = Unset::default();
        match on.stat() {
            Ok(stat) => {
                let now = stat.st_mode & ALL_BITS;
                let wanted = if self.notes { self.mode.unwrap_or(now) } else { now };
                self.set_xattrs_and_acls(on, now, wanted, &mut unset);
            }
            Err(errno) => unset.note("attributes", Err(errno)),
        }
        let withheld = match self.notes {
            true => 0,
            false => ALL_BITS & !mode_without_unset_acl(ALL_BITS, self.meta.access_acl(), &unset),
        };
        (unset, withheld)
    }

    /// Removes these bits from the mode.
    pub(crate) fn without_bits(mut self, bits: u32) -> Self {
        self.mode = self.mode.map(|mode| mode & !bits);
        self
    }

    /// Sets extended attributes, and ACLs with the permissions of `wanted`, on an entry of mode `now`.
    fn set_xattrs_and_acls(&self, on: On<'_>, now: u32, wanted: u32, unset: &mut Unset) {
        let Keep { acls, xattrs, .. } = self.keep;
        if self.meta.has_unread_attributes() || !(acls || xattrs) {
            return;
        }
        let at = on.reach_of();
        if xattrs {
            unset.append(self.set_xattrs(on, &at, now));
        }
        match acls && !self.meta.is_symlink() {
            true if self.notes => noted::set_acls(&at, self.meta, wanted, unset),
            true => set_acls(&at, self.meta, wanted, unset),
            false => {}
        }
    }

    /// Sets the extended attributes of an entry of mode `now`.
    fn set_xattrs(&self, on: On<'_>, at: &Reach, now: u32) -> Unset {
        let set = || set_xattrs(at, self.meta, self.scope, self.rules);
        let unset = set();
        // No attribute can be set on an entry without write permission, so the owner gets the write bit meanwhile.
        let denies = |why| Errno::from_io_error(why) == Some(Errno::ACCESS);
        let is_closed = unset.reasons().any(denies) && !self.meta.is_symlink();
        if !is_closed || on.set_mode(now | OWNER_WRITES, self.bounds).is_err() {
            return unset;
        }
        let mut unset = set();
        unset.note(MODE, on.set_mode(now, self.bounds));
        unset
    }

    /// Stores metadata that only the superuser may set in a note, an extended attribute, and sets the rest while the
    /// owner may write to the entry.
    fn set_note(&self, on: On<'_>, unset: &mut Unset) -> Option<u32> {
        self.inherit_group(on, unset);
        let at = on.reach_of();
        let stat = match on.stat() {
            Ok(stat) => stat,
            Err(errno) => {
                unset.note(noted::NOTE, Err(errno));
                return None;
            }
        };
        let now = noted::note_of(&at, &stat);
        let old_mode = now.map_or(stat.st_mode & ALL_BITS, |noted| noted.mode);
        let EntryOwner { user, group } =
            now.map_or(SUPERUSER, |now| EntryOwner { user: now.user, group: now.group });
        let wanted = FakeStat {
            kind: FakeKind::of(&self.meta.kind),
            mode: self.mode.unwrap_or_else(|| self.keep.mode_with_execute(self.meta, old_mode)),
            user: self.meta.user.unwrap_or(user),
            group: self.meta.group.unwrap_or(group),
        };
        let owner_bits = if self.meta.is_dir() { OWNER_BITS } else { OWNER_READS_AND_WRITES };
        let mode = wanted.mode & ACCESS_BITS | owner_bits;
        if let Some(acl) = &self.heritage.acl {
            unset.note(ACL, set_inherited_acl(&at, acl, mode));
        }
        unset.note(MODE, on.set_mode(mode, self.bounds));
        let is_plain = matches!(wanted.kind, FakeKind::File | FakeKind::Dir);
        let is_so = is_plain
            && (mode, stat.st_uid, stat.st_gid) == (wanted.mode, wanted.user, wanted.group);
        unset.note(noted::NOTE, noted::set_note(&at, Some(&wanted).filter(|_| !is_so)));
        self.set_xattrs_and_acls(on, mode, wanted.mode, unset);
        None
    }

    fn inherit_group(&self, on: On<'_>, unset: &mut Unset) {
        let group = self.heritage.group.filter(|_| self.meta.group.is_none());
        match group.map(|group| on.set_owner(None, Some(Gid::from_raw(group)))) {
            // An entry may inherit even a group that this user is not in; `chown` to such a group fails.
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
        // Owner and group are set separately, since the system may allow only one of them. The group comes first: after
        // a change of owner, this user may not set the group.
        for (name, user, group) in [(GROUP, None, group), (OWNER, user, None)] {
            if user.is_some() || group.is_some() {
                unset.note(name, set_owner(on, user, group));
            }
        }
    }
}

fn set_owner(on: On<'_>, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
    // The system takes `u32::MAX` for "leave unchanged".
    if user == Some(u32::MAX) || group == Some(u32::MAX) {
        return Err(Errno::INVAL);
    }
    on.set_owner(user.map(Uid::from_raw), group.map(Gid::from_raw))
}

/// Returns the mode of a directory during a change from mode `old` to `new`. Others may do only what both modes allow.
/// If the directory `moves` to another owner or group, the group and all others get the same bits, since the class of a
/// user is unknown meanwhile.
const fn intermediate_mode(old: u32, new: u32, moves: bool) -> u32 {
    let both = old & new;
    let least = both & both >> 3 & 7;
    let others = if moves { least << 3 | least } else { both & OTHERS_BITS };
    old & OWNER_BITS | others | both & LENDING_BITS | (old | new) & STICKY
}

/// Returns `mode` without the group bits that `acl` denies to the owning group, if `acl` could not be set. In a mode
/// that belongs to an ACL, the group bits are the mask of the ACL.
fn mode_without_unset_acl(mode: u32, acl: Option<&Acl>, unset: &Unset) -> u32 {
    match acl.filter(|acl| acl.mask.is_some() && unset.attribute_error(ACL).is_some()) {
        Some(acl) => mode & !(u32::from(!acl.group & 7) << 3),
        None => mode,
    }
}

impl On<'_> {
    pub(crate) fn stat(self) -> Result<Stat, Errno> {
        match self {
            Self::Open(fd) | Self::Handle(fd) => fs::fstat(fd),
            Self::Link(dir, name) => dir.stat(name),
        }
    }

    fn reach_of(self) -> Reach {
        match self {
            Self::Link(dir, name) => Reach::Name(dir.path_to(name)),
            Self::Open(fd) | Self::Handle(fd) => Reach::Followed(proc_path(fd)),
        }
    }

    pub(crate) fn set_owner(self, user: Option<Uid>, group: Option<Gid>) -> Result<(), Errno> {
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

    /// True if the entry has this mode and may keep this mode. In volumes, a file of a client may not have setuid or
    /// setgid.
    fn keeps_mode(self, mode: u32, bounds: &PathBounds) -> bool {
        let is_file = || self.stat().is_ok_and(|is| file_type(&is).is_file());
        self.has_mode(mode) && !(bounds.are_volumes() && is_file())
    }

    /// Sets the mode. If the entry already has the mode, errors are ignored, since only the owner may set a mode. With
    /// setgid, the call is then left out, since `chmod` by a user outside the group clears setgid.
    fn set_mode(self, mode: u32, bounds: &PathBounds) -> Result<(), Errno> {
        let to_set = Mode::from_raw_mode(mode);
        if mode & SETGID != 0 && self.keeps_mode(mode, bounds) {
            return Ok(());
        }
        let set = match self {
            Self::Open(fd) => set_mode_of_open(fd, to_set, bounds),
            Self::Handle(fd) => set_mode_of_held(fd, to_set, bounds),
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

/// Gives this user all owner bits on the directory `path` below `root`, if the user owns the directory and lacks one of
/// the bits. Returns the former mode. If the mode cannot be set, later calls on the directory will report the error.
pub(crate) fn open_to_owner(root: &Dir, path: &RelPath) -> Option<u32> {
    if process::geteuid().is_root() {
        return None;
    }
    let open = |dir: &Dir| {
        let mode = fs::fstat(dir).ok()?.st_mode;
        let closed = mode & OWNER_BITS != OWNER_BITS;
        (closed && set_mode(dir, mode | OWNER_BITS, dir.bounds()).is_ok()).then_some(mode)
    };
    // In a closed directory no name can be looked up, not even `.`, so the root is changed by its own handle.
    if path.is_root() { open(root) } else { open(&root.open_dir(path, Use::Pass).ok()?) }
}

/// Changes the mode of the entry behind `handle`, which may be an `O_PATH` handle.
pub(crate) fn set_mode(handle: impl AsFd, mode: u32, bounds: &PathBounds) -> Result<(), Errno> {
    On::Handle(handle.as_fd()).set_mode(mode & ALL_BITS, bounds)
}

/// Returns the times to set. Times that the run does not set stay unchanged.
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

/// The present time, for an access time that the run does not set. FUSE file systems ignore a call that sets only
/// mtime, without an error.
pub(crate) const AT_ANY_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// Returns the `umask` that the process had at the first call. Read from `/proc`, since the system call that returns
/// the mask also sets the mask for all threads; `0o077` if `/proc` is not mounted.
#[must_use]
pub fn umask() -> u32 {
    static ASKED: OnceLock<u32> = OnceLock::new();
    *ASKED.get_or_init(read_umask)
}

fn read_umask() -> u32 {
    let status = read_system_file("/proc/self/status", 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}

/// User and group of new files under `--fake-super`, as for the superuser.
const SUPERUSER: EntryOwner = EntryOwner { user: 0, group: 0 };
/// Every mode bit: permissions, setuid, setgid and the sticky bit.
const ALL_BITS: u32 = 0o7777;
const STICKY: u32 = 0o1000;
const OTHERS_BITS: u32 = 0o077;
const OWNER_WRITES: u32 = 0o200;
const OWNER_READS_AND_WRITES: u32 = 0o600;
const ACCESS_BITS: u32 = 0o777;
/// Names of metadata in reports.
const MODE: &str = "mode";
const OWNER: &str = "owner";
const GROUP: &str = "group";
