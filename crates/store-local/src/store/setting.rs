//! Creates entries without content, and sets attributes, by kind of entry.

use std::os::fd::AsFd;

use deltic_tree::meta::{Device, DeviceClass};
use deltic_tree::{Kind, Meta, Name, RelPath};
use rustix::fs::{self, Dev, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::{LocalStore, SET_META};
use crate::attributes::attrs::{Attrs, NewMode, On};
use crate::attributes::heritage::Heritage;
use crate::attributes::noted::NOTE;
use crate::handles::dir::{Dir, Use};
use crate::handles::place::Place;
use crate::handles::stat::{Stamp, file_type, inode_of};
use crate::keep::backup::Goes;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::kernel::read_write::write_at;
use crate::staging::stage::new_name;
use deltic_store::{Keep, StoreError, Unset};

impl LocalStore {
    pub(super) fn set_dir(
        &self,
        path: &RelPath,
        meta: &Meta,
        keep: Keep,
        made: Option<Option<u32>>,
    ) -> Result<(), StoreError> {
        // The directory has already inherited from its parent. But the default ACL of the parent also replaces the
        // umask.
        let above = match (made, keep.modes) {
            (Some(None), false) if path.is_root() => self.inherited_by_root(),
            (Some(None), false) => {
                let place = self.place_of(SET_META, path)?;
                self.0.makes.heritage(&place).at(SET_META, path)?
            }
            _ => Heritage::default(),
        };
        let umask = above.umask(self.0.makes.umask);
        let withheld = lock(&self.0.makes.withheld).remove(path).unwrap_or_default();
        let set = |on: On<'_>, dir: &Dir| {
            let what = self.0.attribute_rules(keep);
            let attrs = match made {
                Some(old) => Attrs::of_new(meta, what, NewMode::for_replacement(old, umask)),
                None => Attrs::of_existing(meta, what),
            };
            let is = fs::fstat(dir)?;
            let attrs = attrs.with_inherited_setgid(is.st_mode).without_bits(withheld);
            let lacks = made.is_some() || !attrs.are_set_on(&is);
            Ok(lacks.then(|| attrs.set(on)))
        };
        let open = |usage| self.0.root.open_dir(path, usage);
        let set = match open(Use::Read) {
            Err(Errno::ACCESS) => {
                open(Use::Pass).and_then(|dir| set(On::Handle(dir.as_fd()), &dir))
            }
            opened => opened.and_then(|dir| set(On::Open(dir.as_fd()), &dir)),
        }
        .at(SET_META, path)?;
        // The attributes are right already, so nothing is written or flushed.
        let Some(unset) = set else { return Ok(()) };
        self.0.makes.heritages.clear();
        self.0.touched.add(path);
        unset.of(path)
    }

    pub(super) fn set_file(&self, place: &Place, attrs: &Attrs<'_>) -> Result<(), StoreError> {
        let open = |how| place.dir.open(&place.name, how);
        let (file, is_path) = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) => (open(OFlags::PATH), true),
            opened => (opened, false),
        };
        let file = file.at(SET_META, &place.path)?;
        let stat = fs::fstat(&file).at(SET_META, &place.path)?;
        if !file_type(&stat).is_file() {
            return Err(StoreError::NotAFile { action: SET_META, path: place.path.clone() });
        }
        let open = On::Open(file.as_fd());
        let set = || {
            let unset = attrs.set(if is_path { On::Handle(file.as_fd()) } else { open });
            if !is_path && self.0.touched.is_durable() {
                fs::fsync(&file).at(SET_META, &place.path)?;
            }
            unset.of(&place.path)
        };
        self.set_under_all_names(&stat, set, || fs::fstat(&file))
    }

    /// Calls `set`, which changes attributes of the entry described by `stat`. If another name of the entry is still to
    /// be replaced, stores the state of the entry after the change.
    fn set_under_all_names(
        &self,
        stat: &Stat,
        set: impl FnOnce() -> Result<(), StoreError>,
        now: impl FnOnce() -> Result<Stat, Errno>,
    ) -> Result<(), StoreError> {
        let left = (stat.st_nlink > 1).then(|| self.0.commits.left.turn_of(inode_of(stat)));
        let Some(left) = left.flatten() else { return set() };
        let mut left = lock(&left);
        if left.rewritten_as.is_some() {
            // The file has new content under another name, and the attributes are for content that is gone. The next
            // run corrects the attributes.
            return Ok(());
        }
        let done = set();
        left.version = now().ok().map(|now| Stamp::of(&now));
        done
    }

    /// Creates a file with these bytes, and a note (`--fake-super`) of the kind of entry that the file stands for.
    pub(super) fn make_file_with_note(
        &self,
        path: &RelPath,
        bytes: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        let make = |dir: &Dir, name: &Name| write_at(dir.create(name)?.as_fd(), 0, bytes);
        self.make_at(making_action(&meta.kind), path, make, |dir, name, heritage| {
            let file = dir.open(name, OFlags::RDONLY)?;
            let mode = NewMode::for_new_entry(heritage, self.0.makes.umask);
            let attrs = Attrs::of_new(meta, self.0.attribute_rules(keep), mode);
            let unset = attrs.set(On::Open(file.as_fd()));
            // A file without the note would be an ordinary file.
            unset
                .attribute_error(NOTE)
                .map_or(Ok(()), |why| Err(Errno::from_io_error(why).unwrap_or(Errno::IO)))?;
            if self.0.touched.is_durable() {
                fs::fsync(&file)?;
            }
            Ok(unset)
        })
    }

    pub(super) fn set_symlink(&self, place: &Place, attrs: &Attrs<'_>) -> Result<(), StoreError> {
        let stat = place.dir.stat(&place.name).at(SET_META, &place.path)?;
        if !file_type(&stat).is_symlink() {
            return Err(StoreError::Conflict { path: place.path.clone() });
        }
        let set = || attrs.set(On::Link(&place.dir, &place.name)).of(&place.path);
        self.set_under_all_names(&stat, set, || place.dir.stat(&place.name))
    }

    pub(super) fn set_special(
        &self,
        place: &Place,
        kind: &Kind,
        attrs: &Attrs<'_>,
    ) -> Result<(), StoreError> {
        let held = place.dir.open(&place.name, OFlags::PATH).at(SET_META, &place.path)?;
        let stat = fs::fstat(&held).at(SET_META, &place.path)?;
        if node_of(kind) != Some((file_type(&stat), stat.st_rdev)) {
            return Err(StoreError::Conflict { path: place.path.clone() });
        }
        let set = || attrs.set(On::Handle(held.as_fd())).of(&place.path);
        self.set_under_all_names(&stat, set, || fs::fstat(&held))
    }

    /// Returns the attributes to set on an existing entry. With `made`, the entry lacks its final mode: it was created
    /// here, or opened to the owner.
    pub(super) fn attrs_for<'a>(
        &'a self,
        meta: &'a Meta,
        keep: Keep,
        made: Option<Option<u32>>,
    ) -> Attrs<'a> {
        let what = self.0.attribute_rules(keep);
        match made {
            Some(old) => {
                Attrs::of_new(meta, what, NewMode::for_replacement(old, self.0.makes.umask))
            }
            None => Attrs::of_existing(meta, what),
        }
    }

    /// Creates an entry without content by `make`, sets the attributes by `set`, and commits the entry.
    pub(super) fn make_at(
        &self,
        action: &'static str,
        path: &RelPath,
        make: impl FnOnce(&Dir, &Name) -> Result<(), Errno>,
        set: impl FnOnce(&Dir, &Name, Heritage) -> Result<Unset, Errno>,
    ) -> Result<(), StoreError> {
        let place = self.place_of(action, path)?;
        let heritage = self.0.makes.heritage(&place).at(action, path)?;
        let reserved = self.0.reserve(path, 0)?;
        let (dir, name) = (self.0.stages.open_dir_for(&place)?, new_name(path));
        make(&dir, &name).at(action, path)?;
        let landed = set(&dir, &name, heritage).at(action, path).and_then(|unset| {
            let rename = |dir: &Dir, name: &Name| place.rename_into_place(dir, name);
            let land =
                || self.0.place_entry(&place, &dir, &name, rename).map(drop).at(action, path);
            let turn = place.lock_entry().at(action, path)?;
            self.0.back_up(&turn, Goes::Replaced, None, land).map(|()| unset)
        });
        if landed.is_err() {
            // The sweep removes the file if this fails.
            let _ = dir.remove_file(&name);
        }
        self.0.touched.add(&place.dir_path);
        reserved.convert_if_put(&landed);
        self.0.report_if_put(path, &landed);
        landed?.of(path)
    }
}

/// Returns the action, as errors name it, that makes an entry of this kind.
pub(super) const fn making_action(kind: &Kind) -> &'static str {
    match kind {
        Kind::Symlink(_) => "make symlink",
        _ => "make special file",
    }
}

/// Returns type and device number of a FIFO, socket or device; `None` for files, directories and symlinks.
pub(super) fn node_of(kind: &Kind) -> Option<(FileType, Dev)> {
    match kind {
        Kind::File | Kind::Dir | Kind::Symlink(_) => None,
        Kind::Fifo => Some((FileType::Fifo, 0)),
        Kind::Socket => Some((FileType::Socket, 0)),
        Kind::Device(Device { class, major, minor }) => {
            let kind = match class {
                DeviceClass::Char => FileType::CharacterDevice,
                DeviceClass::Block => FileType::BlockDevice,
            };
            Some((kind, fs::makedev(*major, *minor)))
        }
    }
}
