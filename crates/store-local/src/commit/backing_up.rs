//! Keeps the old version of an entry: as a hard link, by a rename, or as a copy.

use std::os::fd::{AsFd, OwnedFd};

use deltic_store::{Filter, Keep, StoreError, Unset};
use deltic_tree::links::leaves_root;
use deltic_tree::meta::Inode;
use deltic_tree::meta::XattrScope;
use deltic_tree::{Meta, MetaMask, Name, RelPath};
use rustix::fs::{self, FileType, Gid, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::attributes::attrs::{AttributeRules, Attrs, NewMode, On, set_mode};
use crate::attributes::metadata::read_meta_of;
use crate::bytes::copy::End;
use crate::commit::inplace::is_marked_half_changed;
use crate::commit::state::StoreState;
use crate::handles::dir::Dir;
use crate::handles::place::{Place, Turn};
use crate::handles::stat::{Stamp, file_type, inode_of};
use crate::keep::backup::{BACK_UP, BackupPlace, BackupSpot, Goes, KeptNames, TakenPaths};
use crate::kernel::errno::{At, store_error};
use crate::staging::stage::new_name;

impl StoreState {
    /// Keeps the old version at the place of `turn`, if old versions are kept, then calls `then`. `then` replaces or
    /// removes the entry there. `then` is not called if the entry was to be removed and was moved to its backup.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if `was` is set and another entry is at the place.
    pub(crate) fn back_up(
        &self,
        turn: &Turn<'_>,
        goes: Goes,
        was: Option<Inode>,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let place = turn.place;
        self.count_replacement(turn, || {
            self.keep_version(place, was, || self.back_up_named(place, goes, was, then))
        })
    }

    fn back_up_named(
        &self,
        place: &Place,
        goes: Goes,
        was: Option<Inode>,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(backup) = &self.old.backup else { return then() };
        self.touched.add(&place.dir_path);
        let taken = self.old.listed.taken_paths(&self.root);
        let old = OldVersion::find_old(self, place, goes)?;
        let moved =
            old.map_or(Ok(None), |old| old.with_expected_inode(was).keep_old(backup, &taken))?;
        match (moved, goes) {
            (None, _) => then(),
            (Some(_), Goes::Removed) => Ok(()),
            (Some(spot), Goes::Replaced) => then().inspect_err(|_| {
                // The old version stays with the backups if this rename fails too.
                let _ = spot.dir_of_spot().rename_new(&spot.name, &place.dir, &place.name);
            }),
        }
    }

    /// Keeps a copy of the `old` file at `place`, which is about to be changed in place, if old versions are kept. If
    /// the file was already changed under its name `other`, links the copy that was kept for `other`. Returns the
    /// attributes that could not be set on the copy.
    pub(crate) fn back_up_copy(
        &self,
        place: &Place,
        old: &OwnedFd,
        stat: &Stat,
        other: Option<&RelPath>,
    ) -> Result<Unset, StoreError> {
        let Some(backup) = &self.old.backup else { return Ok(Unset::default()) };
        let taken = self.old.listed.taken_paths(&self.root);
        let spot = backup.first_free_spot(place, &taken)?;
        if is_marked_half_changed(stat) && spot.has_file().at(BACK_UP, &place.path)? {
            return Ok(Unset::default());
        }
        if let Some(other) = other {
            let other = Place::parent_of(&self.root, BACK_UP, other)?;
            let kept = backup.first_free_spot(&other, &taken)?;
            self.touched.add(&place.dir_path);
            let put = |to: &Dir, name: &Name| kept.dir_of_spot().link(&kept.name, to, name);
            backup.put_backup(&self.root, place, &spot, put).at(BACK_UP, &place.path)?;
            return Ok(Unset::default());
        }
        let staged = self.stages.create_staged(place)?;
        // Done before the file is read, since a read may change the file's times.
        let meta = self.old_meta(place).at(BACK_UP, &place.path)?;
        let unset = match self.copy_content(&meta, old, stat, &staged.file) {
            Err(Errno::BUSY) => Err(StoreError::Changed { path: place.path.clone() }),
            filled => filled.at(BACK_UP, &place.path),
        }?;
        self.touched.add(&place.dir_path);
        let dir = self.stages.open_dir_of(&staged.home).at(BACK_UP, &place.path)?;
        let put = |to: &Dir, name: &Name| match dir.rename(&staged.name, to, name) {
            Err(Errno::XDEV) => {
                self.stages.discard(&dir, &staged.name);
                self.copy_away(place, to, name)
            }
            renamed => renamed,
        };
        backup.put_backup(&self.root, place, &spot, put).at(BACK_UP, &place.path)?;
        Ok(unset)
    }

    /// Copies the entry at `place` to `name` in `to`. Attributes that cannot be set there are left out.
    pub(crate) fn copy_away(&self, place: &Place, to: &Dir, name: &Name) -> Result<(), Errno> {
        self.copy_entry(place, to, name, || self.open_old(place))
    }

    /// Copies an entry that this run staged to `name` in `to`. If the mode of a staged file forbids its owner to read,
    /// changes the mode while the file is opened.
    pub(crate) fn copy_staged(&self, staged: &Place, to: &Dir, name: &Name) -> Result<(), Errno> {
        const OWNER_READS: u32 = 0o400;
        self.copy_entry(staged, to, name, || match self.open_old(staged) {
            Err(Errno::ACCESS) => {
                let handle = staged.dir.open(&staged.name, OFlags::PATH)?;
                let mode = fs::fstat(&handle)?.st_mode;
                set_mode(&handle, mode | OWNER_READS, staged.dir.bounds())?;
                let opened = self.open_old(staged);
                set_mode(&handle, mode, staged.dir.bounds())?;
                opened.map(|(file, meta)| (file, Meta { mode: meta.mode & !OWNER_READS, ..meta }))
            }
            opened => opened,
        })
    }

    /// Opens the file at `place`. Reads the attributes of the file before its content, since a read may change the
    /// file's times.
    fn open_old(&self, place: &Place) -> Result<(OwnedFd, Meta), Errno> {
        let file = place.dir.open(&place.name, OFlags::RDONLY)?;
        Ok((file, self.old_meta(place)?))
    }

    fn copy_entry(
        &self,
        place: &Place,
        to: &Dir,
        name: &Name,
        open: impl FnOnce() -> Result<(OwnedFd, Meta), Errno>,
    ) -> Result<(), Errno> {
        let stat = place.dir.stat(&place.name)?;
        let copied = match file_type(&stat) {
            FileType::RegularFile => {
                open().and_then(|(old, meta)| self.copy_file_away(old, meta, to, name))
            }
            FileType::Symlink => to
                .make_symlink(name, &place.dir.read_link(&place.name)?)
                .and_then(|()| self.copy_attributes_to(place, On::Link(to, name))),
            kind => to.make_special(name, kind, stat.st_rdev).and_then(|()| {
                self.copy_attributes_to(place, On::Handle(to.open(name, OFlags::PATH)?.as_fd()))
            }),
        };
        let flush = || if self.touched.is_durable() { to.flush() } else { Ok(()) };
        let copied = copied.and_then(|()| flush());
        copied.inspect_err(|_| {
            // An incomplete copy is no backup.
            let _ = to.remove_file(name);
        })
    }

    fn copy_file_away(&self, old: OwnedFd, meta: Meta, to: &Dir, name: &Name) -> Result<(), Errno> {
        let stat = fs::fstat(&old)?;
        let copy = to.create(name)?;
        let _ = self.copy_content(&meta, &old, &stat, &copy)?;
        let is_whole = fs::fstat(&copy)?.st_size == stat.st_size;
        let is_still = Stamp::of(&fs::fstat(&old)?).is_same_except_names(Stamp::of(&stat));
        if is_whole && is_still { Ok(()) } else { Err(Errno::BUSY) }
    }

    /// Gives `copy` the content of the `old` file and the attributes in `meta`, and flushes the copy.
    fn copy_content(
        &self,
        meta: &Meta,
        old: &OwnedFd,
        stat: &Stat,
        copy: &OwnedFd,
    ) -> Result<Unset, Errno> {
        let from = End { file: old.as_fd(), device: stat.st_dev };
        let to = End { file: copy.as_fd(), device: fs::fstat(copy)?.st_dev };
        if !self.copier.copy_with_holes(from, stat.st_size as u64, to)? {
            // The file ended before the length in `stat`.
            return Err(Errno::BUSY);
        }
        let unset = self.set_attributes_of_old(meta, On::Open(copy.as_fd()));
        if self.touched.is_durable() {
            fs::fsync(copy)?;
        }
        Ok(unset)
    }

    fn copy_attributes_to(&self, place: &Place, on: On<'_>) -> Result<(), Errno> {
        let _ = self.set_attributes_of_old(&self.old_meta(place)?, on);
        Ok(())
    }

    fn old_meta(&self, place: &Place) -> Result<Meta, Errno> {
        read_meta_of(&place.dir, &place.name, self.mask_for_old())
    }

    fn mask_for_old(&self) -> MetaMask {
        MetaMask { users: true, groups: true, acls: true, ..self.see }
    }

    /// Sets all attributes that this process may set. Returns the attributes that could not be set.
    fn set_attributes_of_old(&self, old: &Meta, on: On<'_>) -> Unset {
        let see = self.mask_for_old();
        let gives_all = geteuid().is_root() || see.fake_super;
        if let Some(group) = old.group.filter(|_| !gives_all) {
            // This succeeds if the user is a member of the group.
            let _ = on.set_owner(None, Some(Gid::from_raw(group)));
        }
        let own =
            Meta { user: None, group: None, mode: self.mode_of_own_copy(old, on), ..old.clone() };
        let old = if gives_all { old } else { &own };
        // ACLs inherited from a default ACL are kept even without the option for ACLs.
        let acls = self.see.acls || old.access_acl().is_some();
        let xattrs = see.xattrs != XattrScope::Nothing;
        let keep = Keep { modes: true, times: true, acls, xattrs, ..Keep::default() };
        let filter = &Filter::default();
        let rules = AttributeRules { keep, see, filter, bounds: self.root.bounds() };
        Attrs::of_new(old, rules, NewMode::for_replacement(None, self.makes.umask)).set(on)
    }

    /// Returns the mode of a copy that belongs to the user who made it. Under another user or group than that of `old`,
    /// the copy has no setuid and setgid bits. Under another group, the group gets only permissions that all others
    /// have.
    fn mode_of_own_copy(&self, old: &Meta, on: On<'_>) -> u32 {
        let is = on.stat().ok();
        let has_user = is.is_none_or(|is| old.user == Some(is.st_uid));
        let has_group = is.is_none_or(|is| old.group == Some(is.st_gid));
        let mode = if has_user && has_group { old.mode } else { old.mode & 0o1777 };
        if has_group { mode } else { mode & (0o1707 | (mode & 0o7) << 3) }
    }
}

/// An old version that is about to be replaced or removed.
struct OldVersion<'a> {
    store: &'a StoreState,
    place: &'a Place,
    goes: Goes,
    stat: Stat,
    /// Device and inode number of the entry to keep. An entry with other numbers was put there by another run.
    inode: Inode,
}

impl<'a> OldVersion<'a> {
    /// Finds the entry at `place`, if any.
    fn find_old(
        store: &'a StoreState,
        place: &'a Place,
        goes: Goes,
    ) -> Result<Option<Self>, StoreError> {
        let stat = place.dir.stat_if_exists(&place.name).at(BACK_UP, &place.path)?;
        Ok(stat.map(|stat| Self { store, place, goes, stat, inode: inode_of(&stat) }))
    }

    /// Expects the inode `was`, if set, in place of the inode that was found.
    fn with_expected_inode(self, was: Option<Inode>) -> Self {
        Self { inode: was.unwrap_or(self.inode), ..self }
    }

    /// Keeps the old version by a hard link, a rename or a copy. A directory is not kept, nor is a backup beside the
    /// new versions that is removed, nor a symlink that the options drop. Returns the backup's place if the old version
    /// was moved there.
    fn keep_old(
        &self,
        backup: &BackupPlace,
        taken: &TakenPaths<'_>,
    ) -> Result<Option<BackupSpot<'a>>, StoreError> {
        let is_one = || backup.is_beside() && backup.may_hold_old(&self.place.path);
        let is_dropped = || backup.drops_unsafe_links && self.leads_out();
        if file_type(&self.stat).is_dir() || self.goes == Goes::Removed && is_one() || is_dropped()
        {
            return Ok(None);
        }
        let root = &self.store.root;
        let conflict = || StoreError::Conflict { path: self.place.path.clone() };
        // Tries twice, since another old version may take the place first.
        for _ in 0..2 {
            let spot = backup.first_free_spot(self.place, taken)?;
            if is_marked_half_changed(&self.stat)
                && spot.has_file().at(BACK_UP, &self.place.path)?
            {
                return Ok(None);
            }
            let way = backup.remove_old_dir(root, self.place, &spot).and_then(|over| {
                self.store.keep_replaced_backup(spot.dir_of_spot(), &spot.name)?;
                self.put_old(&spot, over)
            });
            match way {
                Err(Errno::EXIST) => {}
                Err(Errno::STALE) => return Err(conflict()),
                Err(Errno::BUSY) if self.is_in_place() == Ok(false) => return Err(conflict()),
                kept => {
                    let kept = kept.at(BACK_UP, &self.place.path)?;
                    return Ok((kept == KeptNames::Alone).then_some(spot));
                }
            }
        }
        Err(store_error(BACK_UP, &self.place.path, Errno::EXIST))
    }

    /// True if the old version is a symlink that may lead out of the tree.
    fn leads_out(&self) -> bool {
        let Place { dir, path, name, .. } = self.place;
        let target = file_type(&self.stat).is_symlink().then(|| dir.read_link(name));
        matches!(target, Some(Ok(target)) if leaves_root(path.as_bytes(), &target))
    }

    fn is_expected(&self, found: Option<Stat>) -> bool {
        found.is_some_and(|found| inode_of(&found) == self.inode)
    }

    fn is_in_place(&self) -> Result<bool, Errno> {
        Ok(self.is_expected(self.place.dir.stat_if_exists(&self.place.name)?))
    }

    /// Links, moves or copies the old version to `spot`. With `over`, an older backup may be replaced.
    fn put_old(&self, spot: &BackupSpot<'_>, over: bool) -> Result<KeptNames, Errno> {
        match (self.link_old(spot, over), self.goes) {
            (Err(errno), Goes::Removed) if is_link_refused(errno) => {
                self.move_old(spot, over).or_else(|_| self.copy_old(spot, over))
            }
            (Err(errno), Goes::Replaced) if is_link_refused(errno) => {
                match self.copy_old(spot, over) {
                    // `BUSY` means that the file is being changed: a rename would remove content that was never examined.
                    Err(errno) if !matches!(errno, Errno::BUSY | Errno::STALE | Errno::EXIST) => {
                        self.move_old(spot, over).map_err(|_| errno)
                    }
                    copied => copied,
                }
            }
            (linked, _) => linked.map(|()| KeptNames::Too),
        }
    }

    /// Links the old version to `spot`. Fails with `STALE` if another file is at the old version's place.
    fn link_old(&self, spot: &BackupSpot<'_>, over: bool) -> Result<(), Errno> {
        let place = self.place;
        let Ok(dir) = self.store.stages.open_dir_for(place) else {
            let link = || place.dir.link(&place.name, spot.dir_of_spot(), &spot.name);
            return if over { Err(Errno::NOSYS) } else { link() };
        };
        let name = new_name(&place.path);
        place.link_to(&dir, &name, self.inode)?;
        let linked = spot.move_here(&dir, &name, over);
        // The temporary name remains if `spot` was a name of the same file: then a rename does nothing.
        let _ = dir.remove_file(&name);
        linked
    }

    /// Copies the old version to `spot`, under a temporary name until the copy is complete. The rename then replaces an
    /// older backup in one step.
    fn copy_old(&self, spot: &BackupSpot<'_>, over: bool) -> Result<KeptNames, Errno> {
        let (dir, own) = (spot.dir_of_spot(), new_name(&self.place.path));
        self.store.copy_away(self.place, dir, &own)?;
        self.rename_to_spot(spot, dir, &own, over).map(|()| KeptNames::Too).inspect_err(|_| {
            let _ = dir.remove_file(&own);
        })
    }

    fn move_old(&self, spot: &BackupSpot<'_>, over: bool) -> Result<KeptNames, Errno> {
        self.rename_to_spot(spot, &self.place.dir, &self.place.name, over)
            .map(|()| KeptNames::Alone)
    }

    /// Renames `name` of `from` to `spot`. Fails with `STALE` if another file is at the old version's place.
    fn rename_to_spot(
        &self,
        spot: &BackupSpot<'_>,
        from: &Dir,
        name: &Name,
        over: bool,
    ) -> Result<(), Errno> {
        match self.is_in_place()? {
            true => spot.move_here(from, name, over),
            false => Err(Errno::STALE),
        }
    }
}

/// True if the error means that no hard link is possible or permitted here.
const fn is_link_refused(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::XDEV | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK
    )
}
