//! Creates directories and prepares existing ones, so that entries can be created in them.

use std::os::fd::AsFd;

use deltic_tree::meta::OWNER_BITS;
use deltic_tree::{Kind, Meta, RelPath, Timestamp};
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::{LocalStore, UnfinishedDir};
use crate::attributes::attrs::{Attrs, EntryOwner, NewMode, On, open_to_owner, set_mode};
use crate::attributes::heritage::Heritage;
use crate::commit::changes::Became;
use crate::commit::finished::Expected;
use crate::handles::dir::{Dir, Use};
use crate::handles::place::Place;
use crate::handles::stat::file_type;
use crate::keep::backup::Goes;
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use crate::read::snapshot::LocalSnapshot;
use deltic_store::{Keep, StoreError};

impl LocalStore {
    /// Creates the directory `path`, or prepares an existing directory.
    pub(super) fn create_or_prepare(
        &self,
        path: &RelPath,
        will: Option<(&Meta, Keep)>,
    ) -> Result<(), StoreError> {
        if path.is_root() && self.is_new_and_unused() {
            self.prepare_new_root(will);
            return Ok(());
        }
        if path.is_root() {
            self.open_to_owner(path);
        }
        if path.is_root() || self.0.root.keeps_link(path) {
            self.set_owner_first(path, will);
            return Ok(());
        }
        let place = self.place_of(MAKE, path)?;
        let above = self.0.makes.heritage(&place);
        let is_plain = above.as_ref().is_ok_and(|above| *above == Heritage::default());
        let above = above.unwrap_or_default();
        let own = self.0.makes.owner;
        let owner = EntryOwner { group: above.group.unwrap_or(own.group), ..own };
        let shown = early_attributes(will);
        let of_new = |meta| {
            let mode = NewMode::for_replacement(None, above.umask(self.0.makes.umask));
            Attrs::of_new(meta, self.0.attribute_rules(Keep::default()), mode)
        };
        let shown = shown.as_ref().map(of_new);
        let mode = shown.as_ref().map_or(Mode::RWXU, |attrs| attrs.birth_mode(owner) | Mode::RWXU);
        // Tries twice, since another entry may be in the way.
        for _ in 0..2 {
            let reserved = self.0.reserve_name(&place)?;
            match place.dir.make_dir(&place.name, mode) {
                Err(Errno::EXIST) if self.remove_unless_dir(&place)? => {
                    self.open_to_owner(path);
                    self.set_owner_first(path, will);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                made => {
                    made.at(MAKE, path)?;
                    reserved.convert_to_used();
                    let lacks = if is_plain { UnfinishedDir::Plain } else { UnfinishedDir::Heir };
                    lock(&self.0.makes.unfinished).insert(path, lacks);
                    if above.denies_owner() {
                        let made = self.0.root.open_dir(path, Use::Pass);
                        made.and_then(|dir| give_owner_bits(&dir)).at(MAKE, path)?;
                    }
                    match shown {
                        Some(attrs) if attrs.needs_only_mode_and_times(owner) => {}
                        Some(attrs) => self.set_protecting(path, attrs).at(MAKE, path)?,
                        // A directory without setgid has the group of this process, and entries get that group in any
                        // case.
                        None if above.group.is_some() => self.set_owner_first(path, will),
                        None => {}
                    }
                    self.0.touched.add(&place.dir_path);
                    self.0.commits.changes.report(path, Became::Put);
                    return Ok(());
                }
            }
        }
        Err(StoreError::Conflict { path: path.clone() })
    }

    /// Sets the extended attributes and ACLs of the directory `path`, which are too large to remember until
    /// [`Store::set_meta`].
    ///
    /// [`Store::set_meta`]: deltic_store::Store::set_meta
    pub(super) fn set_early(
        &self,
        path: &RelPath,
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        let dir = self.0.root.open_dir(path, Use::Pass).at(MAKE, path)?;
        let attrs = Attrs::of_existing(meta, self.0.attribute_rules(keep));
        let (unset, withheld) = attrs.set_early(On::Handle(dir.as_fd()));
        if withheld != 0 {
            lock(&self.0.makes.withheld).insert(path, withheld);
        }
        let mut unfinished = lock(&self.0.makes.unfinished);
        // New entries now inherit the directory's default ACL.
        if unfinished.get(path) == Some(&UnfinishedDir::Plain) && meta.default_acl().is_some() {
            unfinished.insert(path, UnfinishedDir::Heir);
        }
        drop(unfinished);
        self.0.makes.heritages.clear();
        self.0.touched.add(path);
        unset.of(path)
    }

    /// Makes a directory of this user writable for the user, until the final mode is set. If that fails, writes to the
    /// directory will report the error.
    fn open_to_owner(&self, path: &RelPath) {
        if let Some(mode) = open_to_owner(&self.0.root, path) {
            lock(&self.0.makes.unfinished).insert(path, UnfinishedDir::Opened(mode));
        }
    }

    /// Sets owner, group and setgid of the existing directory `path` before entries are created in it. A failure is
    /// reported when the other attributes are set.
    fn set_owner_first(&self, path: &RelPath, will: Option<(&Meta, Keep)>) {
        let Some((meta, keep)) = will else { return };
        let attrs = Attrs::of_existing(meta, self.0.attribute_rules(keep));
        let dir = self.0.root.open_dir(path, Use::Pass);
        let _ = dir.and_then(|dir| attrs.set_before_entries(On::Handle(dir.as_fd())));
        self.0.makes.heritages.clear();
        self.0.touched.add(path);
    }

    /// Sets the attributes that protect a new directory until it has its final owner.
    fn set_protecting(&self, path: &RelPath, attrs: Attrs<'_>) -> Result<(), Errno> {
        let dir = self.0.root.open_dir(path, Use::Pass)?;
        // Attributes that cannot be set are reported when all attributes are set.
        let _ = attrs.with_inherited_setgid(fs::fstat(&dir)?.st_mode).set(On::Handle(dir.as_fd()));
        self.0.makes.heritages.clear();
        Ok(())
    }

    /// Prepares a new root, so that entries can be created in it.
    fn prepare_new_root(&self, will: Option<(&Meta, Keep)>) {
        let Some(meta) = early_attributes(will) else {
            return self.set_owner_first(&RelPath::root(), will);
        };
        let umask = self.inherited_by_root().umask(self.0.makes.umask);
        let what = self.0.attribute_rules(Keep::default());
        let attrs = Attrs::of_new(&meta, what, NewMode::for_replacement(None, umask));
        let _ = self.set_protecting(&RelPath::root(), attrs);
    }

    /// Moves the file `from` to `to`, without replacing an entry at `to`. With a `version`, moves the file only if it
    /// has that version.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if an entry is at `to`, or another version at `from`. Otherwise the system's error.
    pub fn rename(
        &self,
        from: &RelPath,
        to: &RelPath,
        version: Option<&LocalSnapshot>,
    ) -> Result<(), StoreError> {
        let (old, new) = (self.place_of(MOVE, from)?, self.place_of(MOVE, to)?);
        // With these turns, no commit of this process replaces the file between the check and the rename, or the moved
        // file after its own check that nothing is at `to`.
        let _turns = old.lock_entries(&new).at(MOVE, from)?;
        if let Some(version) = version {
            Expected::Version(version.stamp()).check_replaced_entry(&old, self.0.see)?;
        }
        match old.dir.move_new(&old.name, &new.dir, &new.name) {
            Err(Errno::EXIST) => return Err(StoreError::Conflict { path: to.clone() }),
            moved => moved.at(MOVE, from)?,
        }
        self.0.touched.add(&old.dir_path);
        self.0.touched.add(&new.dir_path);
        self.0.commits.changes.report(from, Became::Gone);
        self.0.commits.changes.report(to, Became::Put);
        Ok(())
    }

    /// Removes the entry at `place`, unless the entry is a directory. Returns true for a directory.
    fn remove_unless_dir(&self, place: &Place) -> Result<bool, StoreError> {
        let found = place.dir.stat_if_exists(&place.name).at(MAKE, &place.path)?;
        if found.is_some_and(|stat| file_type(&stat).is_dir()) {
            return Ok(true);
        }
        let remove = || match place.dir.remove_file(&place.name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(store_error(MAKE, &place.path, errno)),
        };
        let turn = place.lock_entry().at(MAKE, &place.path)?;
        self.0.back_up(&turn, Goes::Replaced, None, remove).map(|()| false)
    }
}

/// Returns the attributes that a new directory gets at once, if the run does not set modes. The next run would take any
/// other mode for the user's own. The mode lets the owner work in the directory.
fn early_attributes(will: Option<(&Meta, Keep)>) -> Option<Meta> {
    let (meta, _) = will.filter(|(_, keep)| !keep.modes)?;
    let mode = meta.mode & 0o777 | OWNER_BITS;
    let (user, group) = (meta.user, meta.group);
    Some(Meta { user, group, ..Meta::without_owner(Kind::Dir, 0, Timestamp::default(), mode) })
}

const MOVE: &str = "move";
const MAKE: &str = "make directory";

/// Gives the owner all bits of the directory's mode.
fn give_owner_bits(dir: &Dir) -> Result<(), Errno> {
    set_mode(dir, fs::fstat(dir)?.st_mode | OWNER_BITS, dir.bounds())
}
