//! A local directory as a destination.

mod looking;
mod making;
mod setting;
pub(crate) mod spelling;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deltic_tree::path::printable;
use deltic_tree::{Kind, Meta, MetaMask, Name, RelPath};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::attributes::attrs::{Attrs, NewMode, On, open_to_owner};
use super::attributes::heritage::Heritage;
use super::attributes::metadata::read_meta_of_root;
use super::attributes::more::{Reach, default_acl};
use super::attributes::new_entries::{NewEntries, UnfinishedDir};
use super::bytes::copy::Copier;
use super::commit::changes::Changes;
use super::commit::inplace::{LeftFiles, UnderWay};
use super::commit::land::{link_delayed, stage_hard_link};
use super::commit::rebuild::LocalRebuild;
use super::commit::remove::{Removals, remove_after, remove_version};
use super::commit::replaceable::Replaceable;
use super::commit::state::{CommitState, StoreState};
use super::commit::whole::{BegunFile, begin_file, finish_all};
use super::commit::writing::{CommitOptions, PartialDir};
use super::handles::borders::{KeepLinks, TreeBorders};
use super::handles::place::{COMMIT, Place};
use super::handles::touched::Touched;
use super::keep::backup::{BackupPlace, ListedPaths};
use super::keep::old_copies::OldCopies;
use super::read::above::scopes_below;
use super::read::snapshot::LocalSnapshot;
use super::roots::named::NamedDir;
use super::roots::quota::{FileSize, SpaceQuota, StoreSpace};
use super::staging::stage::{StageOwner, StagedPlace, Stages};
use crate::kernel::lock;
use setting::{making_action, node_of};

use crate::handles::dir::{Dir, Trust};
use crate::keep::versions::OldVersions;
use crate::kernel::errno::{At, store_error};
use deltic_store::filter::Start;
use deltic_store::{
    Durability, Filter, Keep, Link, Listing, NamePair, OneName, Posix, RemoveOptions, RemoveResult,
    Respell, Resumed, Store, StoreError, Tree, Version, Whole,
};

/// A local directory as a destination.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<StoreState>);

/// Options of a [`LocalStore`].
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// When changes are safe from a power cut.
    pub durability: Durability,
    /// Rules for the names that may be removed: a receiver's filter. Other names are never listed. Extended attributes
    /// that the rules exclude are neither read nor changed.
    pub rules: Filter,
    /// Metadata to read, and extended attributes that may be changed.
    pub see: MetaMask,
    /// The place for old versions, if old versions are kept.
    pub backup: Option<BackupPlace>,
    /// True if mount points below the root are left alone when a directory is removed.
    pub one_file_system: bool,
    /// Symlinks that may be [treated as directories](deltic_store::Posix::keep_dirlink).
    pub keep_dirlinks: KeepLinks,
    /// True if no later run resumes unfinished versions. Such versions are then removed.
    pub one_shot: bool,
    /// Options for putting new versions in place.
    pub writing: CommitOptions,
    /// Notes the files that are being changed in place.
    pub under_way: UnderWay,
    /// Quotas of the client, besides the volume's quota.
    pub quotas: Vec<Arc<SpaceQuota>>,
    /// Callback for changes.
    pub changes: Changes,
    /// Name of the client under which [changes of files are noted](crate::ChangeNote); `None` if no changes are noted.
    pub author: Option<Arc<str>>,
    /// Versions of files that may be replaced.
    pub replaceable: Replaceable,
}

impl LocalStore {
    /// Opens the directory `root`, following symlinks. Changes nothing.
    ///
    /// # Errors
    /// `root` is no directory, or may not be entered.
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        Self::open_named(&NamedDir::new(root, Trust::Anyone), options)
    }

    /// Returns the store with a root that was just [created](crate::create_root), which lacks its mode until
    /// [`Store::set_meta`].
    #[must_use]
    pub fn with_new_root(self) -> Self {
        // A default ACL may have closed the root to its owner.
        open_to_owner(&self.0.root, &RelPath::root());
        lock(&self.0.makes.unfinished).insert(&RelPath::root(), UnfinishedDir::Heir);
        self
    }

    /// Resumes the staged file that a rebuild of another process [left](LocalRebuild::keep_when_dropped), or that a killed
    /// process left with notes. Quotas that have no reservation for the file reserve nothing until
    /// [`LocalRebuild::reserve_written`]. `None` without such a file for `len` bytes, or if a process uses the file.
    ///
    /// # Errors
    /// The system's error, or the quota of a directory is unknown.
    pub fn resume_staged(
        &self,
        path: &RelPath,
        len: u64,
        staged: &StagedPlace,
    ) -> Result<Option<Resumed<LocalRebuild>>, StoreError> {
        LocalRebuild::resume_staged(Arc::clone(&self.0), path, len, staged)
    }

    /// Removes the staged file that another process left at this place, also if no process can resume the file.
    ///
    /// # Errors
    /// The system's error, or a process uses the file.
    pub fn discard_staged(&self, staged: &StagedPlace) -> Result<(), StoreError> {
        self.0.growing_stages().discard_staged(staged).at("discard", &staged.home)
    }

    /// True if the root was created and not used: no entry was created in it, and the root got no mode.
    #[must_use]
    pub fn is_new_and_unused(&self) -> bool {
        lock(&self.0.makes.unfinished).get(&RelPath::root()) == Some(&UnfinishedDir::Heir)
    }

    /// Returns a store with a missing `root`, for a dry run. The root counts as an empty directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn with_missing_root(root: &NamedDir, options: LocalOptions) -> Result<Self, StoreError> {
        let dir = Dir::missing_root(&root.context.shared).at("open", &RelPath::root())?;
        Self::new(dir, root, options)
    }

    /// Opens the directory that an argument or an option names. Changes nothing.
    ///
    /// # Errors
    /// `root` is no directory, may not be entered, or has a symlink of another user in its path.
    pub fn open_named(root: &NamedDir, options: LocalOptions) -> Result<Self, StoreError> {
        root.check_symlinks()?;
        let mut dir = root.open().at("open", &RelPath::root())?;
        if options.keep_dirlinks != KeepLinks::None {
            dir = dir.keeping_links(root.trust);
        }
        Self::new(dir, root, options)
    }

    pub(crate) fn new(
        root: Dir,
        NamedDir { path, context, .. }: &NamedDir,
        options: LocalOptions,
    ) -> Result<Self, StoreError> {
        let (root, space) = (Arc::new(root), &context.space);
        let stages =
            |root, whose| Stages::new(root, whose, Arc::clone(space)).at("open", &RelPath::root());
        let own = stages(Arc::clone(&root), StageOwner::Own)?;
        let kept = options.backup.as_ref().and_then(|backup| backup.dir.as_ref());
        let shown = match &options.writing.partial_dir {
            Some(PartialDir::Outside(dir)) => Some(dir),
            _ => None,
        };
        let temp = options.writing.temp_dir.as_ref();
        let named = [("use --backup-dir", kept), ("use --partial-dir", shown), (USE_TEMP, temp)];
        named
            .into_iter()
            .try_for_each(|(action, dir)| dir.map_or(Ok(()), |dir| dir.check_for(action)))?;
        let staged = |dir: &NamedDir| stages(Arc::new(dir.open_for(USE_TEMP)?), StageOwner::Temp);
        let temp = temp.map(staged).transpose()?;
        let versions = OldVersions::for_root(path, context, Some(&root), options.durability);
        let versions = versions.at("open", &RelPath::root())?;
        let borders =
            TreeBorders::new(Arc::clone(&root), options.one_file_system, options.keep_dirlinks);
        Ok(Self(Arc::new(StoreState {
            touched: Touched::new(options.durability, &root),
            root,
            root_path: path.to_owned(),
            scopes: scopes_below(options.rules.clone(), path, Start::Root),
            see: options.see,
            old: OldCopies { backup: options.backup, listed: ListedPaths::default(), versions },
            space: StoreSpace::new(
                context.quota_at(path).into_iter().chain(options.quotas).collect(),
                Arc::clone(space),
            ),
            borders,
            stages: own,
            temp,
            writing: options.writing,
            removals: Removals::new(scopes_below(options.rules, path, Start::Root)),
            commits: CommitState {
                delayed: Mutex::default(),
                left: LeftFiles::default(),
                under_way: options.under_way,
                one_shot: options.one_shot,
                changes: options.changes,
                author: options.author,
                replaceable: options.replaceable,
            },
            copier: Copier::default(),
            makes: NewEntries::of_process(),
        })))
    }

    /// Removes the file at `path`, if the file has this version. Keeps an old version if the store keeps old versions.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another entry is there by now.
    pub fn remove_version(
        &self,
        path: &RelPath,
        version: &LocalSnapshot,
    ) -> Result<(), StoreError> {
        remove_version(&self.0, path, version.stamp())
    }

    /// Removes the empty directory at `path`.
    ///
    /// # Errors
    /// The directory cannot be removed, for example because it is not empty.
    pub fn remove_empty(&self, path: &RelPath) -> Result<(), StoreError> {
        let place = self.place_of("remove", path)?;
        self.0
            .report_removal_by(&place, || place.dir.remove_dir(&place.name).at("remove", path))?;
        self.0.touched.add(&place.dir_path);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn touched_dirs(&self) -> Vec<RelPath> {
        self.0.touched.dirs()
    }

    /// From now on, gives every file a name before the commit.
    #[cfg(test)]
    pub(crate) fn require_names(&self) {
        self.0.stages.need_names();
    }

    /// Fails if the version at `path` may not be replaced.
    fn check_replaceable(&self, path: &RelPath) -> Result<(), StoreError> {
        self.0.commits.replaceable.check(path, || Tree::open(self, path)).map(drop)
    }

    fn place_of(&self, action: &'static str, path: &RelPath) -> Result<Place, StoreError> {
        Place::parent_of(&self.0.root, action, path)
    }

    /// Returns the metadata that entries inherit from the new root. The root inherited the same metadata from its
    /// parent.
    fn inherited_by_root(&self) -> Heritage {
        let acl = default_acl(&Reach::Followed(self.0.root.own_path()));
        Heritage { acl, ..Heritage::default() }
    }

    /// Returns the place of `path`. Reuses the directory handle of the `last` place if the directory is the same.
    fn place_reusing(
        &self,
        action: &'static str,
        path: &RelPath,
        last: &mut Option<Place>,
    ) -> Result<Place, StoreError> {
        match last.take() {
            Some(place) => place.next_place(&self.0.root, action, path),
            None => self.place_of(action, path),
        }
    }
}

impl Posix for LocalStore {
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        if self.0.see.fake_super {
            return self.make_file_with_note(path, target, meta, keep);
        }
        let make = |dir: &Dir, name: &Name| dir.make_symlink(name, target);
        self.make_at(making_action(&meta.kind), path, make, |dir, name, heritage| {
            let heritage = Heritage { acl: None, ..heritage };
            let what = self.0.attribute_rules(keep);
            let attrs =
                Attrs::of_new(meta, what, NewMode::for_new_entry(heritage, self.0.makes.umask));
            Ok(attrs.set(On::Link(dir, name)))
        })
    }

    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let action = making_action(&meta.kind);
        let (kind, device) =
            node_of(&meta.kind).ok_or_else(|| store_error(action, path, Errno::INVAL))?;
        if self.0.see.fake_super {
            return self.make_file_with_note(path, b"", meta, keep);
        }
        let make = |dir: &Dir, name: &Name| dir.make_special(name, kind, device);
        self.make_at(action, path, make, |dir, name, heritage| {
            let held = dir.open(name, OFlags::PATH)?;
            let what = self.0.attribute_rules(keep);
            let attrs =
                Attrs::of_new(meta, what, NewMode::for_new_entry(heritage, self.0.makes.umask));
            Ok(attrs.set(On::Handle(held.as_fd())))
        })
    }

    fn link(&self, path: &RelPath, named: Link<'_, Self>) -> Result<(), StoreError> {
        let Link { from: Self(from), at, is, seen } = named;
        link_delayed(&self.0, path, &Link { from: &**from, at, is, seen })
    }

    fn keep_dirlink(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let root = &self.0.root;
        root.check_path(LOOK, path)?;
        let behind = match self.0.borders.keep_link(path) {
            Err(Errno::XDEV) => Err(Errno::LOOP),
            Err(Errno::PERM) => {
                return Err(StoreError::ForeignSymlink { link: printable(path.as_bytes()) });
            }
            behind => behind,
        }
        .at(LOOK, path)?;
        let look = |dir: Dir| {
            let meta = read_meta_of_root(&dir, self.0.see).at(LOOK, path)?;
            Ok(self.0.without_excluded(meta, || Reach::Followed(dir.own_path())))
        };
        behind.map(look).transpose()
    }

    fn stage_hard_link(
        &self,
        path: &RelPath,
        leader: &RelPath,
        seen: Option<&Meta>,
    ) -> Result<bool, StoreError> {
        stage_hard_link(&self.0, path, leader, seen)
    }

    fn land(&self, is_same: &dyn Fn(&Meta, &Meta) -> bool) -> Vec<(RelPath, StoreError)> {
        let delayed = lock(&self.0.commits.delayed).take();
        let (mut last, mut failed) = (None::<Place>, Vec::new());
        for finished in delayed {
            let landed = self
                .place_reusing(COMMIT, &finished.path, &mut last)
                .and_then(|place| finished.place_unless_same(&self.0, last.insert(place), is_same));
            failed.extend(landed.err().map(|error| (finished.path, error)));
        }
        failed
    }
}

impl Store for LocalStore {
    type Rebuild = LocalRebuild;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.look_after(path, &mut None)
    }

    fn look_all(&self, paths: &[RelPath]) -> Vec<Result<Option<Meta>, StoreError>> {
        self.0.old.backup.iter().for_each(|backup| self.0.old.listed.note_paths(backup, paths));
        if self.are_in_bare_dir(paths) {
            let root = &self.0.root;
            return paths.iter().map(|at| root.check_path(LOOK, at).map(|()| None)).collect();
        }
        let mut last = None;
        paths.iter().map(|path| self.look_after(path, &mut last)).collect()
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<LocalRebuild, StoreError> {
        self.check_replaceable(path)?;
        LocalRebuild::new(Arc::clone(&self.0), path, FileSize::without_holes(len))
    }

    fn create_sparse(
        &self,
        path: &RelPath,
        len: u64,
        data: u64,
    ) -> Result<LocalRebuild, StoreError> {
        self.check_replaceable(path)?;
        LocalRebuild::new(Arc::clone(&self.0), path, FileSize { len, data })
    }

    fn replace_all(
        &self,
        files: &[Whole<'_>],
        keep: Keep,
    ) -> Vec<Result<Option<Version>, StoreError>> {
        let mut last = None;
        let mut begun = |file: &Whole<'_>| {
            if file.seen.is_some() || !self.0.can_put_whole() {
                return Ok(BegunFile::Ended(self.replace(file, keep)));
            }
            self.check_replaceable(file.path)?;
            let place = self.place_reusing("create", file.path, &mut last)?;
            begin_file(&self.0, last.insert(place).clone(), file, keep)
        };
        finish_all(&self.0, files.iter().map(&mut begun).collect())
    }

    fn leftovers(&self, path: &RelPath) -> Result<Vec<LocalSnapshot>, StoreError> {
        match self.place_of("resume", path) {
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            place => self.0.leftovers(&place?),
        }
    }

    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<LocalRebuild>>, StoreError> {
        self.check_replaceable(path)?;
        LocalRebuild::resume(Arc::clone(&self.0), path, len)
    }

    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        self.create_or_prepare(path, will)?;
        match will {
            Some((meta, keep)) if keep.acls || keep.xattrs => self.set_early(path, meta, keep),
            _ => Ok(()),
        }
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let made = lock(&self.0.makes.unfinished).remove(path).map(UnfinishedDir::old_mode);
        let attrs = self.attrs_for(meta, keep, made);
        let place = || self.place_of(SET_META, path);
        match &meta.kind {
            _ if attrs.is_empty() => Ok(()),
            Kind::Dir => {
                self.0.root.check_path(SET_META, path)?;
                self.set_dir(path, meta, keep, made)
            }
            Kind::File => self.set_file(&place()?, &attrs),
            _ if self.0.see.fake_super => self.set_file(&place()?, &attrs),
            Kind::Symlink(_) => self.set_symlink(&place()?, &attrs),
            kind => self.set_special(&place()?, kind, &attrs),
        }
    }

    fn list_but(&self, dir: &RelPath, keep: &dyn Fn(&Name) -> bool) -> Result<Listing, StoreError> {
        self.list_except(dir, keep)
    }

    fn remove(&self, path: &RelPath, going: RemoveOptions) -> Result<RemoveResult, StoreError> {
        remove_after(&self.0, path, going, &mut None)
    }

    fn remove_all(
        &self,
        names: &[(RelPath, RemoveOptions)],
    ) -> Vec<Result<RemoveResult, StoreError>> {
        let mut last = None;
        names.iter().map(|(path, going)| remove_after(&self.0, path, *going, &mut last)).collect()
    }

    fn respell(&self, dir: &RelPath, respell: &Respell<'_>) -> Result<Vec<Name>, StoreError> {
        spelling::respell(&self.0, dir, respell)
    }

    fn one_name(&self, dir: &RelPath, pair: &NamePair<'_>) -> Result<OneName, StoreError> {
        spelling::is_one_name(&self.0, dir, pair)
    }

    fn flush(&self) -> Result<(), StoreError> {
        let kept = self.0.old.versions.as_ref().map_or(Ok(()), OldVersions::flush);
        self.0.touched.flush(&self.0.root).and(kept)
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        let swept = self.0.temp.as_ref().map_or(Ok(0), Stages::sweep);
        Ok(self.0.stages.sweep()? + swept?)
    }
}

const LOOK: &str = "look at";
const USE_TEMP: &str = "use --temp-dir";
const SET_META: &str = "set metadata of";
