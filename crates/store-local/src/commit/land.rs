//! Moves a finished version into place by a rename, at once or together with all others of the run.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use deltic_store::{Link, Replaces, StoreError, Version};
use deltic_tree::{ExtraMeta, Meta, MetaMask, Name, RelPath};
use rustix::fs;
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::attributes::metadata::read_meta_of;
use crate::attributes::more::Reach;
use crate::commit::changes::Became;
use crate::commit::finished::{Expected, Finished};
use crate::commit::partial::Other;
use crate::commit::state::StoreState;
use crate::handles::dir::Dir;
use crate::handles::place::{COMMIT, Landed, Place};
use crate::handles::stat::{Stamp, file_type, inode_of};
use crate::keep::backup::Goes;
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use crate::read::snapshot::LocalSnapshot;
use crate::staging::log::remove_log;
use crate::staging::stage::{StageOwner, new_name};

/// Delays the creation of the hard link `path` until the commit of the version that waits at `leader`. Returns false if
/// no version waits there.
pub(crate) fn stage_hard_link(
    store: &StoreState,
    path: &RelPath,
    leader: &RelPath,
    seen: Option<&Meta>,
) -> Result<bool, StoreError> {
    const LINK: &str = "link";
    let waiting = lock(&store.commits.delayed).leader_at(leader);
    let Some(Finished { home, whose, name, inode, .. }) = waiting else { return Ok(false) };
    let place = Place::parent_of(&store.root, LINK, path)?;
    let replaces = seen.map_or(Expected::Nothing, |seen| Expected::Seen(Box::new(seen.clone())));
    replaces.check_can_be_placed(&place)?;
    let from = store.stages_of(whose).open_dir_of(&home).at(LINK, path)?;
    let (home, own) = store.stages_of(StageOwner::Own).open_home_for(&place)?;
    let own_name = new_name(path);
    let reserved = store.reserve(path, 0)?;
    from.link(&name, &own, &own_name).at(LINK, path)?;
    reserved.convert_to_used();
    let finished = Finished {
        path: path.clone(),
        home,
        whose: StageOwner::Own,
        name: own_name,
        inode,
        is_noted: false,
        meta: None,
        expected: replaces,
    };
    lock(&store.commits.delayed).add_version(finished, false)?;
    Ok(true)
}

impl Expected {
    pub(crate) fn expected_of(replaces: &Replaces<'_, LocalSnapshot>) -> Self {
        match replaces {
            Replaces::Nothing => Self::Nothing,
            Replaces::Version(old) => Self::Version(old.stamp()),
            Replaces::Seen(meta) => Self::Seen(Box::new((*meta).clone())),
        }
    }

    /// Fails if it is certain that the version cannot be put in place later, because a directory there is not empty.
    pub(crate) fn check_can_be_placed(&self, place: &Place) -> Result<(), StoreError> {
        let is_dir = matches!(self, Self::Seen(meta) if meta.is_dir());
        if is_dir && place.has_nonempty_dir().at(COMMIT, &place.path)? {
            return Err(store_error(COMMIT, &place.path, Errno::NOTEMPTY));
        }
        Ok(())
    }

    /// Checks that the entry to be replaced is at `place`. Returns its state.
    pub(crate) fn check_replaced(
        &self,
        place: &Place,
        store: &StoreState,
    ) -> Result<Option<Stat>, StoreError> {
        match self.check_replaced_entry(place, store.see) {
            Err(StoreError::Conflict { .. }) => self.check_if_links_left(place, store),
            checked => checked,
        }
    }

    /// Checks that the entry to be replaced is at `place`. Ignores changes that this run made under other names.
    pub(crate) fn check_replaced_entry(
        &self,
        place: &Place,
        see: MetaMask,
    ) -> Result<Option<Stat>, StoreError> {
        let found = place.dir.stat_if_exists(&place.name).at(COMMIT, &place.path)?;
        let expected = match (self, found) {
            (Self::Nothing, found) => found.is_none(),
            (Self::Version(old), Some(stat)) => Stamp::of(&stat).is_same_except_names(*old),
            (Self::Seen(meta), Some(stat)) if meta.is_dir() => file_type(&stat).is_dir(),
            (Self::Seen(meta), Some(_)) => {
                place.read_meta(see.without_optional()).at(COMMIT, &place.path)?.is_equal_file(meta)
            }
            (Self::Version(_) | Self::Seen(_), None) => false,
        };
        if expected { Ok(found) } else { Err(StoreError::Conflict { path: place.path.clone() }) }
    }

    /// Checks that a file with several hard links is at `place`, in the state in which this run left the file under
    /// another name.
    fn check_if_links_left(
        &self,
        place: &Place,
        store: &StoreState,
    ) -> Result<Option<Stat>, StoreError> {
        let conflict = || StoreError::Conflict { path: place.path.clone() };
        let find = || place.dir.stat_if_exists(&place.name).at(COMMIT, &place.path);
        let left = find()?.and_then(|stat| store.commits.left.turn_if_changed(inode_of(&stat)));
        let left = left.ok_or_else(conflict)?;
        // The lock keeps the file unchanged during the check.
        let left = lock(&left);
        let found = find()?.ok_or_else(conflict)?;
        let now = Stamp::of(&found);
        let is_left = left.version.is_some_and(|left| now.is_same_except_names(left));
        let is_seen = match self {
            Self::Nothing => false,
            Self::Version(old) => now.has_len_and_inode_of(*old),
            Self::Seen(meta) => {
                let seen = place.read_meta(store.see.without_optional()).at(COMMIT, &place.path)?;
                (&seen.kind, seen.len) == (&meta.kind, meta.len)
            }
        };
        if is_left && is_seen { Ok(Some(found)) } else { Err(conflict()) }
    }
}

impl Finished {
    /// Moves the version into place by [`land`](Self::land). Discards the version if another run has meanwhile put an
    /// equal version (`is_same`) there.
    pub(crate) fn place_unless_same(
        &self,
        store: &StoreState,
        place: &Place,
        is_same: &dyn Fn(&Meta, &Meta) -> bool,
    ) -> Result<(), StoreError> {
        let is_there = |new| {
            let is = place.read_meta(store.see).ok();
            let sifted =
                |is| store.without_excluded(is, || Reach::Name(place.dir.path_to(&place.name)));
            is.is_some_and(|is| is_same(new, &sifted(is)))
        };
        match self.place_staged(store, place) {
            Err(StoreError::Conflict { .. }) if self.meta.as_ref().is_some_and(is_there) => {
                store.stages_of(self.whose).discard_in(&self.home, &self.name);
                // The partial file goes too, since a later run can match against the version in place.
                let _ = store.remove_partial(place, self.inode);
                store.remove_remains(place, self.whose, &self.home);
                Ok(())
            }
            landed => landed.map(drop),
        }
    }

    /// Moves the staged file into place. Checks before that the staged file is still this process's file, and that the
    /// file to be replaced is the expected one. Returns whether the staged file was renamed or copied.
    pub(crate) fn place_staged(
        &self,
        store: &StoreState,
        place: &Place,
    ) -> Result<Landed, StoreError> {
        let turn = place.lock_entry().at(COMMIT, &self.path)?;
        let was = self.expected.check_replaced(place, store)?.as_ref().map(inode_of);
        let stages = store.stages_of(self.whose);
        let dir = stages.open_dir_of(&self.home).at(COMMIT, &self.path)?;
        let staged = dir.stat(&self.name).at(COMMIT, &self.path)?;
        if inode_of(&staged) != self.inode {
            return Err(StoreError::Conflict { path: self.path.clone() });
        }
        store.remove_partial(place, self.inode).at(COMMIT, &self.path)?;
        let mut landed_as = Landed::Itself;
        let land = || {
            let landed = store.place_entry(place, &dir, &self.name, |dir, name| {
                place.rename_into_place(dir, name)
            });
            landed_as = landed.at(COMMIT, &self.path)?;
            Ok(())
        };
        store.back_up(&turn, Goes::Replaced, was, land).inspect_err(|_| {
            store.link_partial(place, &dir, &self.name, Other::Goes);
        })?;
        drop(turn);
        store.space.ledger.settle_pending(self.inode);
        if self.is_noted {
            remove_log(&dir, &self.name);
        }
        store.touched.add(&place.dir_path);
        if let (StageOwner::Own, Ok(staging)) = (self.whose, stages.path_of_dir(&self.home)) {
            store.touched.add(&staging);
        }
        store.remove_remains(place, self.whose, &self.home);
        store.commits.changes.report(&self.path, Became::Put);
        Ok(landed_as)
    }
}

impl StoreState {
    /// Brings `staged`, an entry of the staging directory `from`, to `place` by `rename`, which gets the directory and
    /// the name to rename. If the kernel refuses to rename from `from` to `place`, `rename` gets a copy in the staging
    /// directory beside the place. All later files for that directory are then staged there.
    ///
    /// # Errors
    /// The system's error. The staged entry then stays in `from`.
    pub(crate) fn place_entry(
        &self,
        place: &Place,
        from: &Arc<Dir>,
        staged: &Name,
        rename: impl Fn(&Dir, &Name) -> Result<(), Errno>,
    ) -> Result<Landed, Errno> {
        match rename(from, staged) {
            Err(Errno::XDEV) => {}
            landed => return landed.map(|()| Landed::Itself),
        }
        let beside = self.stages.open_beside(place)?;
        if inode_of(&fs::fstat(&beside)?) == inode_of(&fs::fstat(from)?) {
            return Err(Errno::XDEV);
        }
        let Place { path, dir_path, .. } = place.clone();
        let original = Place { path, dir: Arc::clone(from), dir_path, name: staged.clone() };
        self.copy_staged(&original, &beside, staged)?;
        rename(&beside, staged).inspect_err(|_| {
            // The sweep removes the copy if this fails.
            let _ = beside.remove_file(staged);
        })?;
        let _ = from.remove_file(staged);
        Ok(Landed::Copy)
    }

    /// Returns the version of the file at its place, if the `staged` file itself was renamed. `None` for a copy, or if
    /// the store does not flush.
    pub(crate) fn version_in_place(&self, landed: Landed, staged: &OwnedFd) -> Option<Version> {
        (landed == Landed::Itself).then(|| self.version_written(staged)).flatten()
    }
}

/// Creates a hard link at `path` in `store`.
///
/// The link is created in the staging directory, checked there, and then renamed to its place. So the entry that gets
/// the name is the entry that was checked, even if its first name changes meanwhile.
pub(crate) fn link_delayed(
    store: &StoreState,
    path: &RelPath,
    link: &Link<'_, StoreState>,
) -> Result<(), StoreError> {
    let Link { from, at, is, seen } = *link;
    let place = Place::parent_of(&store.root, LINK, path)?;
    let there = Place::parent_of(&from.root, LINK, at)?;
    let found = place.dir.stat_if_exists(&place.name).at(LINK, path)?;
    let source = there.dir.stat(&there.name).at(LINK, path)?;
    // A rename from one hard link of a file to another does nothing and leaves both.
    if found.as_ref().is_some_and(|found| inode_of(found) == inode_of(&source)) {
        return Ok(());
    }
    let replaces = seen.map_or(Expected::Nothing, |seen| Expected::Seen(Box::new(seen.clone())));
    replaces.check_replaced(&place, store)?;
    let reserved = store.reserve(path, 0)?;
    let link_in = |dir: &Dir| {
        let name = new_name(path);
        there.dir.link(&there.name, dir, &name).at(LINK, path)?;
        let landed = match read_meta_of(dir, &name, lasting_metadata(from.see)) {
            Ok(linked)
                if from.without_excluded(linked.clone(), || Reach::Name(dir.path_to(&name)))
                    == lasting_part_of(is) =>
            {
                place.lock_entry().at(LINK, path).and_then(|turn| {
                    let was = replaces.check_replaced(&place, store)?.as_ref().map(inode_of);
                    let land = || place.rename_into_place(dir, &name).at(LINK, path);
                    store.back_up(&turn, Goes::Replaced, was, land)
                })
            }
            Ok(_) => Err(StoreError::Changed { path: path.clone() }),
            Err(errno) => Err(store_error(LINK, path, errno)),
        };
        landed.inspect_err(|_| {
            // The sweep removes the link if this fails.
            let _ = dir.remove_file(&name);
        })
    };
    let is_on_device = || fs::fstat(&place.dir).is_ok_and(|dir| dir.st_dev == source.st_dev);
    let landed = match link_in(&*store.stages.open_dir_for(&place)?) {
        // From a staging directory beside the place, the rename may be allowed.
        Err(error) if error.errno() == Some(Errno::XDEV.raw_os_error()) && is_on_device() => {
            store.stages.open_beside(&place).at(LINK, path).and_then(|beside| link_in(&beside))
        }
        landed => landed,
    };
    store.touched.add(&place.dir_path);
    reserved.convert_if_put(&landed);
    store.report_if_put(path, &landed);
    landed
}

/// Removes from `see` the metadata that changes when a file is read or gets another hard link: access time and number
/// of links.
fn lasting_metadata(see: MetaMask) -> MetaMask {
    MetaMask { accessed: false, linked: false, ..see }
}

/// Removes access time and number of hard links from `meta`.
fn lasting_part_of(meta: &Meta) -> Meta {
    let more = meta.more.as_deref().cloned().unwrap_or_default();
    Meta { more: ExtraMeta { accessed: None, linked: None, ..more }.into_box(), ..meta.clone() }
}

const LINK: &str = "link";
