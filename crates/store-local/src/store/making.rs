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
    pub(super) fn make_ready(
        &self,
        path: &RelPath,
        will: Option<(&Meta, Keep)>,
    ) -> Result<(), StoreError> {
        if path.is_root() && self.was_made_in_vain() {
            self.show_root(will);
            return Ok(());
        }
        if path.is_root() {
            self.open_to_owner(path);
        }
        if path.is_root() || self.0.root.keeps_link(path) {
            self.set_first(path, will);
            return Ok(());
        }
        let place = self.place(MAKE, path)?;
        let above = self.0.makes.heritage(&place);
        let is_plain = above.as_ref().is_ok_and(|above| *above == Heritage::default());
        let above = above.unwrap_or_default();
        let own = self.0.makes.owner;
        let owner = EntryOwner { group: above.group.unwrap_or(own.group), ..own };
        let shown = shown(will);
        let of_new = |meta| {
            let mode = NewMode::replacing(None, above.umask(self.0.makes.umask));
            Attrs::of_new(meta, self.0.attribute_rules(Keep::default()), mode)
        };
        let shown = shown.as_ref().map(of_new);
        let mode = shown.as_ref().map_or(Mode::RWXU, |attrs| attrs.birth_mode(owner) | Mode::RWXU);
        // Tries twice, since another entry may be in the way.
        for _ in 0..2 {
            let reserved = self.0.reserve_name(&place)?;
            match place.dir.make_dir(&place.name, mode) {
                Err(Errno::EXIST) if self.clear_for_dir(&place)? => {
                    self.open_to_owner(path);
                    self.set_first(path, will);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                made => {
                    made.at(MAKE, path)?;
                    reserved.keep();
                    let lacks = if is_plain { UnfinishedDir::Plain } else { UnfinishedDir::Heir };
                    lock(&self.0.makes.unfinished).insert(path, lacks);
                    if above.closes_to_owner() {
                        let made = self.0.root.dir(path, Use::Pass);
                        made.and_then(|dir| give_owner_bits(&dir)).at(MAKE, path)?;
                    }
                    match shown {
                        Some(attrs) if attrs.suits(owner) => {}
                        Some(attrs) => self.show(path, attrs).at(MAKE, path)?,
                        // A directory without setgid has the group of this process, and entries get that group in any
                        // case.
                        None if above.group.is_some() => self.set_first(path, will),
                        None => {}
                    }
                    self.0.touched.add(&place.dir_path);
                    self.0.commits.changes.tell(path, Became::Put);
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
        let dir = self.0.root.dir(path, Use::Pass).at(MAKE, path)?;
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
    fn set_first(&self, path: &RelPath, will: Option<(&Meta, Keep)>) {
        let Some((meta, keep)) = will else { return };
        let attrs = Attrs::of_existing(meta, self.0.attribute_rules(keep));
        let dir = self.0.root.dir(path, Use::Pass);
        let _ = dir.and_then(|dir| attrs.set_first(On::Handle(dir.as_fd())));
        self.0.makes.heritages.clear();
        self.0.touched.add(path);
    }

    /// Sets the attributes that protect a new directory until it has its final owner.
    fn show(&self, path: &RelPath, attrs: Attrs<'_>) -> Result<(), Errno> {
        let dir = self.0.root.dir(path, Use::Pass)?;
        // Attributes that cannot be set are reported when all attributes are set.
        let _ = attrs.inheriting(fs::fstat(&dir)?.st_mode).set(On::Handle(dir.as_fd()));
        self.0.makes.heritages.clear();
        Ok(())
    }

    /// Prepares a new root, so that entries can be created in it.
    fn show_root(&self, will: Option<(&Meta, Keep)>) {
        let Some(meta) = shown(will) else { return self.set_first(&RelPath::root(), will) };
        let umask = self.heritage_of_root().umask(self.0.makes.umask);
        let what = self.0.attribute_rules(Keep::default());
        let attrs = Attrs::of_new(&meta, what, NewMode::replacing(None, umask));
        let _ = self.show(&RelPath::root(), attrs);
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
        let (old, new) = (self.place(MOVE, from)?, self.place(MOVE, to)?);
        // With these turns, no commit of this process replaces the file between the check and the rename, or the moved
        // file after its own check that nothing is at `to`.
        let _turns = old.turns(&new).at(MOVE, from)?;
        if let Some(version) = version {
            Expected::Version(version.stamp()).check_alone(&old, self.0.see)?;
        }
        match old.dir.move_new(&old.name, &new.dir, &new.name) {
            Err(Errno::EXIST) => return Err(StoreError::Conflict { path: to.clone() }),
            moved => moved.at(MOVE, from)?,
        }
        self.0.touched.add(&old.dir_path);
        self.0.touched.add(&new.dir_path);
        self.0.commits.changes.tell(from, Became::Gone);
        self.0.commits.changes.tell(to, Became::Put);
        Ok(())
    }

    /// Removes the entry at `place`, unless the entry is a directory. Returns true for a directory.
    fn clear_for_dir(&self, place: &Place) -> Result<bool, StoreError> {
        let found = place.dir.find(&place.name).at(MAKE, &place.path)?;
        if found.is_some_and(|stat| file_type(&stat).is_dir()) {
            return Ok(true);
        }
        let remove = || match place.dir.remove_file(&place.name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(store_error(MAKE, &place.path, errno)),
        };
        let turn = place.turn().at(MAKE, &place.path)?;
        self.0.back_up(&turn, Goes::Replaced, None, remove).map(|()| false)
    }
}

/// Returns the attributes that a new directory gets at once, if the run does not set modes. The next run would take any
/// other mode for the user's own. The mode lets the owner work in the directory.
fn shown(will: Option<(&Meta, Keep)>) -> Option<Meta> {
    let (meta, _) = will.filter(|(_, keep)| !keep.modes)?;
    let mode = meta.mode & 0o777 | OWNER_BITS;
    let (user, group) = (meta.user, meta.group);
    Some(Meta { user, group, ..Meta::plain(Kind::Dir, 0, Timestamp::default(), mode) })
}

const MOVE: &str = "move";
const MAKE: &str = "make directory";

/// Gives the owner all bits of the directory's mode.
fn give_owner_bits(dir: &Dir) -> Result<(), Errno> {
    set_mode(dir, fs::fstat(dir)?.st_mode | OWNER_BITS, dir.bounds())
}
