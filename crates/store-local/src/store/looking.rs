//! Lists, looks at and opens entries of the destination.

use std::cell::RefCell;
use std::path::PathBuf;

use deltic_store::{Listing, StoreError, Tree, Version};
use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, Follow, Kind, Meta, MetaMask, Name, RelPath, Timestamp};
use rustix::fs;
use rustix::io::Errno;

use super::{LOOK, LocalStore};
use crate::attributes::metadata::{read_meta_of, read_meta_of_root};
use crate::attributes::more::Reach;
use crate::attributes::new_entries::UnfinishedDir;
use crate::handles::dir::Use;
use crate::handles::place::{Place, VersionLookup, is_right_in};
use crate::keep::change_notes::ChangeNote;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::read::list::{Look, Part};
use crate::read::snapshot::LocalSnapshot;
use crate::roots::named::full_path;

/// The part of a directory to list.
enum Much<'a> {
    /// With ACLs and extended attributes, if the store sees them.
    Part(Part),
    /// Without ACLs and extended attributes.
    Stat(Part),
    /// The first entries, except for names that this function admits.
    But(&'a dyn Fn(&Name) -> bool),
    /// At most so many entries after a name, with the versions of files.
    After(&'a [u8], usize),
}

impl Tree for LocalStore {
    type Snapshot = LocalSnapshot;

    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        full_path(&self.0.root_path, path, self.0.root.bounds())
    }

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::Part(Part::All))
    }

    fn list_some(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::Part(rest.into()))
    }

    fn list_stat(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::Stat(rest.into()))
    }

    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::Part(Part::FirstVersions))
    }

    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        let (mut last, mut versions) = (None, VersionLookup::default());
        let mut version = |path| {
            let place = self.place_reusing(LOOK, path, &mut last).ok()?;
            versions.of(last.insert(place)).filter(|_| !self.0.see.fake_super)
        };
        paths.iter().map(&mut version).collect()
    }

    fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        self.open_after(path, &mut None)
    }

    fn open_all(
        &self,
        paths: &[RelPath],
    ) -> impl Iterator<Item = Result<LocalSnapshot, StoreError>> {
        let mut last = None;
        paths.iter().map(move |path| self.open_after(path, &mut last))
    }

    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        let place = self.place_of("remove", path)?;
        let found = read_meta_of(&place.dir, &place.name, self.0.see.without_optional());
        self.0.report_removal_by(&place, || place.remove_unchanged(is, found))
    }
}

impl LocalStore {
    /// Lists the first entries of `dir`, except for names that `keep` admits.
    pub(super) fn list_except(
        &self,
        dir: &RelPath,
        keep: &dyn Fn(&Name) -> bool,
    ) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::But(keep))
    }

    /// Lists the first `most` entries of `dir` whose names are after `last` in byte order, with the
    /// [versions](Listing::versions) of files. Other entries are not examined.
    ///
    /// # Errors
    /// As [`Tree::list`].
    pub fn list_after(
        &self,
        dir: &RelPath,
        last: &[u8],
        most: usize,
    ) -> Result<Listing, StoreError> {
        self.list_with(dir, Much::After(last, most))
    }

    /// Returns the [notes about the last changes](ChangeNote) of files in `dir`, in the order of `names`. `None` for an
    /// entry without a note.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn change_notes<'a>(
        &self,
        dir: &RelPath,
        names: impl Iterator<Item = &'a Name>,
    ) -> Result<Vec<Option<ChangeNote>>, StoreError> {
        self.0.root.check_path("list", dir)?;
        let held = self.0.root.open_dir(dir, Use::Pass).at("list", dir)?;
        Ok(names.map(|name| ChangeNote::of_name(&held, name)).collect())
    }

    fn list_with(&self, dir: &RelPath, much: Much<'_>) -> Result<Listing, StoreError> {
        self.0.root.check_path("list", dir)?;
        let held = self.0.root.open_dir(dir, Use::Read).at("list", dir)?;
        let mut judge = self.0.scopes.judge(dir, &*self.0.root)?;
        // Owner and group are read at no cost. Digests of directories also cover ACLs and extended attributes.
        let MetaMask { users, groups, fake_super, .. } = self.0.see;
        let see = match much {
            Much::Part(_) if !fake_super => self.0.see,
            _ => MetaMask { users, groups, ..self.0.see.without_optional() },
        };
        let look = Look { root: &held, dir: &held, path: dir, follow: Follow::Never, see };
        let mut listing = match much {
            Much::But(keep) => {
                let own = RefCell::new(self.0.scopes.judge(dir, &*self.0.root)?);
                let risks = |name: &Name| own.borrow_mut().risks(name);
                let is_kept = |name: &Name| {
                    self.0.old.protects(dir, name)
                        && !(self.0.old.is_earlier_backup(&held, name, keep) && risks(name))
                };
                let keep = |name: &Name| keep(name) || is_kept(name);
                look.list_except_kept(&mut judge, &keep)
            }
            Much::Part(part) | Much::Stat(part) => look.list(&mut judge, part),
            Much::After(last, most) => look.list_after(&mut judge, last, most),
        };
        listing.warnings = self.0.scopes.filter().warnings();
        // Listings with versions are not used for removal.
        if self.0.borders.one_file_system() && listing.versions.is_empty() {
            let is_home = self.0.borders.is_on_root_device(fs::fstat(&held));
            let is_mount =
                |entry: &Entry| entry.meta.is_dir() && self.0.borders.is_mount(&held, &entry.name);
            listing.entries.retain(|entry| is_home && !is_mount(entry));
        }
        Ok(listing)
    }

    fn open_after(
        &self,
        path: &RelPath,
        last: &mut Option<Place>,
    ) -> Result<LocalSnapshot, StoreError> {
        let place = self.place_reusing("open", path, last)?;
        let place = last.insert(place);
        let opened = LocalSnapshot::open(&place.dir, &place.name, path, self.0.see);
        opened.map(LocalSnapshot::allowing_new_names)
    }

    /// Returns the metadata of `path`. Reuses the directory handle of the `last` place if the directory is the same.
    pub(super) fn look_after(
        &self,
        path: &RelPath,
        last: &mut Option<Place>,
    ) -> Result<Option<Meta>, StoreError> {
        if path.is_root() && self.0.root.is_missing() {
            return Ok(Some(Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755)));
        }
        if path.is_root() {
            let mut own = read_meta_of_root(&self.0.root, self.0.see).at(LOOK, path)?;
            if self.is_new_and_unused() {
                own.mode |= 0o777 & !self.0.makes.umask;
            }
            if self.0.root.may_keep_links() {
                let stat = fs::fstat(&*self.0.root).at(LOOK, path)?;
                self.0.borders.note_seen_dir(&stat);
            }
            return Ok(Some(
                self.0.without_excluded(own, || Reach::Followed(self.0.root.own_path())),
            ));
        }
        let place = self.place_reusing(LOOK, path, last);
        let look = |place: &Place| self.meta_at(place).at(LOOK, path);
        match place.and_then(|place| look(last.insert(place))) {
            Err(StoreError::NotFound { .. } | StoreError::NotADir { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// True if all `paths`, at least [`WORTH_LISTING`], are in one empty directory that this run created.
    pub(super) fn are_in_bare_dir(&self, paths: &[RelPath]) -> bool {
        let first = paths.first().filter(|_| paths.len() >= WORTH_LISTING);
        let Some((dir, _)) = first.and_then(RelPath::split_last) else { return false };
        let known = lock(&self.0.makes.unfinished).get(&dir).copied();
        let is_made = matches!(known, Some(UnfinishedDir::Plain | UnfinishedDir::Heir));
        is_made && paths.iter().all(|path| is_right_in(&dir, path)) && self.is_empty(&dir)
    }

    fn is_empty(&self, dir: &RelPath) -> bool {
        let mut is_empty = true;
        let held = self.0.root.open_dir(dir, Use::Read);
        held.and_then(|held| held.for_each_name(|_| is_empty = false)).is_ok() && is_empty
    }

    fn meta_at(&self, place: &Place) -> Result<Meta, Errno> {
        let meta = place.read_meta(self.0.see)?;
        if meta.is_dir() && self.0.root.may_keep_links() {
            self.0.borders.note_seen_dir(&place.dir.stat(&place.name)?);
        }
        Ok(self.0.without_excluded(meta, || Reach::Name(place.dir.path_to(&place.name))))
    }
}

/// Number of names from which on listing their directory is cheaper than a look at each.
const WORTH_LISTING: usize = 4;
