//! Removes whole trees, some names per call, without recursion and with one open directory at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deltic_core::PackedStrings;
use deltic_core::packed;
use deltic_tree::{EntryType, Name, RelPath};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::finished::Expected;
use super::state::StoreState;
use crate::attributes::attrs::open_to_owner;
use crate::commit::changes::Became;
use crate::handles::dir::{Dir, Use};
use crate::handles::place::Place;
use crate::handles::stat::{Stamp, file_type, inode_of};
use crate::keep::backup::Goes;
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use deltic_store::filter::{Fate, Judge, Scope, Scopes};
use deltic_store::{RemoveOptions, RemoveResult, StoreError};

/// Unfinished removals, and the rules for names to remove.
#[derive(Debug)]
pub(crate) struct Removals {
    under_way: Mutex<HashMap<RelPath, Removal>>,
    /// Rules from rules files, as read when the first name of a directory was removed: the files may be removed later.
    rules: Mutex<Scopes>,
}

impl Removals {
    pub(crate) fn new(rules: Scopes) -> Self {
        Self { under_way: Mutex::default(), rules: Mutex::new(rules) }
    }

    /// Returns the rules for `dir`. Rules files are read again if names are only counted, or another entry replaces the
    /// directory: the run may still add rules files.
    fn scope_of(
        &self,
        store: &StoreState,
        dir: &RelPath,
        going: RemoveOptions,
    ) -> Result<Arc<Scope>, StoreError> {
        match going.gives_way || going.dry_run {
            true => store.scopes.fresh(dir, &*store.root),
            false => lock(&self.rules).scope(dir, &*store.root),
        }
    }
}

/// An unfinished removal.
#[derive(Debug)]
struct Removal {
    going: RemoveOptions,
    /// The path to remove.
    path: RelPath,
    /// Directories that are being emptied, each inside the previous one.
    frames: Vec<RemovalFrame>,
    /// The reason why `path` must stay; `No` if there is none.
    stays: Stays,
    /// Results of the present call.
    done: RemoveResult,
}

/// A directory that is being emptied.
#[derive(Debug)]
struct RemovalFrame {
    path: RelPath,
    scope: Arc<Scope>,
    judges: [Judge; 2],
    /// Type and name of each entry.
    entries: PackedStrings,
    /// Entries by name; the first `seen` entries are done.
    order: Vec<packed::StringSlot>,
    seen: usize,
    /// The error of listing the directory. The directory may be empty nevertheless.
    unread: Option<StoreError>,
    stays: Stays,
}

/// Reasons why a directory stays. Of several reasons, the last variant is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stays {
    #[default]
    No,
    /// The directory holds backups.
    Backups,
    /// The directory holds protected entries.
    Protected,
    /// New entries appeared while the directory was emptied.
    Refilled,
    /// An entry could not be removed; the error is reported.
    Failed,
}

/// Removes the file at `path`, if the file has this version. Keeps the old version if the store keeps old versions.
pub(crate) fn remove_version(
    store: &StoreState,
    path: &RelPath,
    version: Stamp,
) -> Result<(), StoreError> {
    let place = Place::parent_of(&store.root, REMOVE, path)?;
    let turn = place.lock_entry().at(REMOVE, path)?;
    let was = Expected::Version(version).check_replaced_entry(&place, store.see)?;
    let remove = || place.dir.remove_file(&place.name).at(REMOVE, path);
    store.back_up(&turn, Goes::Removed, was.as_ref().map(inode_of), remove)?;
    drop(turn);
    store.touched.add(&place.dir_path);
    store.commits.changes.report(path, Became::Gone);
    Ok(())
}

/// A directory in which names are removed, and the rules for these names.
pub(crate) struct RemovalSite {
    place: Place,
    scope: Arc<Scope>,
    judges: [Judge; 2],
    /// True if entries of the directory may belong to another path, through a symlink that is treated as a directory.
    is_led_to: bool,
}

impl RemovalSite {
    /// Returns the site for removing `path`. If the directory is that of the `last` site, reuses facts about the
    /// directory.
    fn site_of(
        store: &StoreState,
        path: &RelPath,
        going: RemoveOptions,
        last: Option<Self>,
    ) -> Result<Self, StoreError> {
        let (place, last) = match last {
            Some(Self { place, scope, judges, is_led_to }) => {
                let dir = place.dir_path.clone();
                let place = place.next_place(&store.root, REMOVE, path)?;
                let is_there = place.dir_path == dir;
                (place, is_there.then_some((scope, judges, is_led_to)))
            }
            None => (Place::parent_of(&store.root, REMOVE, path)?, None),
        };
        let (scope, judges, is_led_to) = match last {
            Some(last) => last,
            None => {
                let scope = store.removals.scope_of(store, &place.dir_path, going)?;
                let judges = judges_for(store, &place.dir_path, &scope)?;
                (scope, judges, store.borders.has_other_path(&place.dir_path))
            }
        };
        Ok(Self { place, scope, judges, is_led_to })
    }
}

/// Removes some of the entries at and below `path` that the filter admits. If the directory is that of the `last`
/// removed name, reuses facts about the directory.
pub(crate) fn remove_after(
    store: &StoreState,
    path: &RelPath,
    going: RemoveOptions,
    last: &mut Option<RemovalSite>,
) -> Result<RemoveResult, StoreError> {
    let is_its = |removal: &Removal| RemoveOptions { most: going.most, ..removal.going } == going;
    let under_way = lock(&store.removals.under_way).remove(path).filter(is_its);
    let mut removal = match under_way {
        Some(removal) => Removal { going, ..removal },
        None => {
            let site = RemovalSite::site_of(store, path, going, last.take())?;
            Removal::begin_removal(store, last.insert(site), going)?
        }
    };
    removal.remove_more(store);
    let done = std::mem::take(&mut removal.done);
    if !going.dry_run {
        store.report_removed(&done);
    }
    if done.goes_on {
        lock(&store.removals.under_way).insert(path.clone(), removal);
    }
    Ok(done)
}

/// Returns the rules for names in `dir`: the rules at the first listing, and the present rules. A name stays if either
/// set of rules protects the name, since the run may have added or removed rules files.
fn judges_for(
    store: &StoreState,
    dir: &RelPath,
    now: &Arc<Scope>,
) -> Result<[Judge; 2], StoreError> {
    let scopes = &store.scopes;
    Ok([scopes.judge(dir, &*store.root)?, scopes.judge_in(Arc::clone(now), dir)])
}

fn bad_name(dir: &RelPath) -> StoreError {
    StoreError::BadName { action: REMOVE, path: dir.clone() }
}

impl Removal {
    /// Removes the entry at `site`, or lists a directory.
    fn begin_removal(
        store: &StoreState,
        site: &mut RemovalSite,
        going: RemoveOptions,
    ) -> Result<Self, StoreError> {
        let RemovalSite { place, scope, judges, is_led_to } = site;
        let Place { path, dir, name, .. } = place;
        let (frames, stays, done) = (Vec::new(), Stays::No, RemoveResult::default());
        let mut removal = Self { going, path: path.clone(), frames, stays, done };
        let item = item_of(file_type(&dir.stat(name).at(REMOVE, path)?));
        if going.gives_way && item == EntryType::Dir && store.borders.is_mount(dir, name) {
            return Err(store_error("remove the mount point", path, Errno::BUSY));
        }
        let entry = ListedEntry { dir, name, item };
        let goes = going.gives_way || !*is_led_to && store.may_remove(judges, &entry, Fate::Stays);
        match item {
            _ if !goes => {}
            EntryType::Dir => removal.enter_dir(store, path, scope)?,
            _ => removal.remove_file(store, &entry, path)?,
        }
        Ok(removal)
    }

    /// Removes further entries, up to the limit of names for one call.
    fn remove_more(&mut self, store: &StoreState) {
        let mut held = HeldDir(None);
        while let Some(frame) = self.frames.last_mut() {
            if self.done.gone.len() + self.done.stayed.len() >= REMOVED_AT_ONCE {
                self.done.goes_on = true;
                return;
            }
            let step = match frame.next_entry() {
                Some((name, item)) => self.remove_entry(store, &mut held, name, item),
                None => self.leave_dir(store, &mut held),
            };
            self.note_failure(step);
            if self.done.goes_on {
                return;
            }
        }
        if !self.going.dry_run {
            self.path.split_last().inspect(|(dir, _)| store.touched.add(dir));
        }
        let path = || self.path.clone();
        self.done.stayed.extend(match self.stays {
            Stays::Protected => Some(StoreError::Protected { path: path() }),
            Stays::Refilled => Some(StoreError::NewEntriesAppeared { path: path() }),
            Stays::Backups if self.going.gives_way => {
                Some(StoreError::HoldsBackups { path: path() })
            }
            Stays::No | Stays::Backups | Stays::Failed => None,
        });
    }

    /// Removes the next entry of the last frame if the rules allow, or lists the entry if it is a directory.
    fn remove_entry(
        &mut self,
        store: &StoreState,
        held: &mut HeldDir,
        name: Name,
        item: EntryType,
    ) -> Result<(), StoreError> {
        let is_spent = self.has_reached_limit();
        let frame = self.frames.last_mut().expect("it is an entry of one");
        let path = frame.path.join(&name).map_err(|_| bad_name(&frame.path))?;
        if store.root.bounds().is_private(name.as_bytes()) {
            // A staging directory of a run that had its root here, or on this mount.
            return match self.going.dry_run {
                true => Ok(()),
                false => store.stages.sweep_home(&frame.path).map(drop),
            };
        }
        let dir = held.open_dir_of(store, &frame.path).at(REMOVE, &path)?;
        let entry = ListedEntry { dir, name: &name, item };
        if !store.may_remove(&mut frame.judges, &entry, Fate::Goes) {
            self.note_stays(Stays::Protected);
            return Ok(());
        }
        if store.old.is_backup(&path) {
            // Backups stay even against the rules: this run may have made the backup.
            self.note_stays(Stays::Backups);
            return Ok(());
        }
        match item {
            EntryType::Dir => {
                let scope = Arc::clone(&frame.scope);
                self.enter_dir(store, &path, &scope)
            }
            _ if is_spent => {
                frame.seen -= 1;
                self.done.goes_on = true;
                Ok(())
            }
            _ => self.remove_file(store, &entry, &path),
        }
    }

    /// Removes a file or link, which is at `path` below the root.
    fn remove_file(
        &mut self,
        store: &StoreState,
        &ListedEntry { dir, name, item }: &ListedEntry<'_>,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        if !self.going.dry_run {
            let remove = || dir.remove_file(name).at(REMOVE, path);
            if store.old.keeps_old_versions() || store.space.counts_removals() {
                let place = Place::parent_of(&store.root, REMOVE, path)?;
                let turn = place.lock_entry().at(REMOVE, path)?;
                store.back_up(&turn, Goes::Removed, None, remove)?;
            } else {
                remove()?;
            }
        }
        if store.old.backs_up_beside(path) {
            self.note_stays(Stays::Backups);
        }
        self.done.gone.push((path.clone(), item));
        Ok(())
    }

    /// Lists the directory `path`. `above` has the rules of its parent.
    fn enter_dir(
        &mut self,
        store: &StoreState,
        path: &RelPath,
        above: &Arc<Scope>,
    ) -> Result<(), StoreError> {
        // A directory that another entry replaces was counted as far as readable, without a change of its mode.
        if !(self.going.dry_run || self.going.gives_way && *path == self.path) {
            open_to_owner(&store.root, path);
        }
        let scope = store.scopes.enter(above, path, &*store.root)?;
        let judges = judges_for(store, path, &scope)?;
        let (entries, order, seen) = (PackedStrings::default(), Vec::new(), 0);
        let (path, unread, stays) = (path.clone(), None, Stays::No);
        let mut frame = RemovalFrame { path, scope, judges, entries, order, seen, unread, stays };
        let read = match frame.read(store) {
            // An unreadable directory can be removed if empty.
            Err(error @ StoreError::Denied { .. }) => {
                frame.unread = Some(error);
                Ok(())
            }
            read => read,
        };
        self.frames.push(frame);
        read
    }

    /// Removes the emptied directory of the last frame, unless some entries stay.
    fn leave_dir(&mut self, store: &StoreState, held: &mut HeldDir) -> Result<(), StoreError> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let gives_way = self.going.gives_way && self.frames.is_empty();
        if frame.stays == Stays::No && !gives_way && self.has_reached_limit() {
            self.frames.push(frame);
            self.done.goes_on = true;
            return Ok(());
        }
        let RemovalFrame { path, unread, stays, .. } = frame;
        self.note_stays(stays);
        if stays != Stays::No {
            return Ok(());
        }
        if !self.going.dry_run {
            let (above, name) = path.split_last().ok_or_else(|| bad_name(&path))?;
            let dir = held.open_dir_of(store, &above).at(REMOVE, &path)?;
            let was = if store.space.counts_removals() { dir.stat(&name).ok() } else { None };
            match (dir.remove_dir(&name), unread) {
                (Err(Errno::NOTEMPTY), Some(unread)) => return Err(unread),
                (Err(Errno::NOTEMPTY), None) => {
                    self.note_stays(Stays::Refilled);
                    return Ok(());
                }
                (removed, _) => removed.at(REMOVE, &path)?,
            }
            if let Some(was) = was {
                store.space.subtract_removed(&was);
            }
        }
        self.done.gone.push((path, EntryType::Dir));
        Ok(())
    }

    /// True if this call has removed as many names as allowed.
    fn has_reached_limit(&self) -> bool {
        self.done.gone.len() as u64 >= self.going.most
    }

    /// Records the reason why an entry stayed. The directory then stays too. A vanished entry is no error.
    fn note_failure(&mut self, step: Result<(), StoreError>) {
        match step {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                self.done.stayed.push(error);
                self.note_stays(Stays::Failed);
            }
        }
    }

    /// Records that the directory that is being emptied must stay.
    fn note_stays(&mut self, why: Stays) {
        let stays = self.frames.last_mut().map_or(&mut self.stays, |frame| &mut frame.stays);
        *stays = why.max(*stays);
    }
}

impl RemovalFrame {
    /// Reads the entries of the directory, which may be very many.
    fn read(&mut self, store: &StoreState) -> Result<(), StoreError> {
        let Self { path, entries, order, .. } = self;
        let dir = store.root.open_dir(path, Use::Read).at(REMOVE, path)?;
        let mut line = Vec::new();
        let mut put = |name: &[u8], file_type: FileType| {
            let name = Name::new(name).map_err(|_| bad_name(path))?;
            let file_type = match file_type {
                FileType::Unknown => dir.stat(&name).map(|stat| self::file_type(&stat)),
                known => Ok(known),
            };
            let item = item_of(file_type.at(REMOVE, path)?);
            line.clear();
            line.push(ITEMS.iter().position(|one| *one == item).unwrap_or_default() as u8);
            line.extend_from_slice(name.as_bytes());
            let crowded = |_| store_error(REMOVE, path, Errno::OVERFLOW);
            order.push(entries.push(&line).map_err(crowded)?);
            Ok(())
        };
        let mut whole = Ok(());
        dir.for_each_entry(|name, file_type| {
            if let Err(error) = put(name, file_type) {
                whole = Err(error);
            }
        })
        .at(REMOVE, path)?;
        order.sort_unstable_by(|one, other| entries.get(*one)[1..].cmp(&entries.get(*other)[1..]));
        whole
    }

    fn next_entry(&mut self) -> Option<(Name, EntryType)> {
        let (item, name) = self.entries.get(*self.order.get(self.seen)?).split_first()?;
        self.seen += 1;
        Some((Name::new(name).ok()?, ITEMS[usize::from(*item)]))
    }
}

/// The directory that was used last, and its handle.
struct HeldDir(Option<(RelPath, Dir)>);

impl HeldDir {
    /// Returns the handle of `path`.
    fn open_dir_of(&mut self, store: &StoreState, path: &RelPath) -> Result<&Dir, Errno> {
        if self.0.as_ref().is_none_or(|(held, _)| held != path) {
            self.0 = Some((path.clone(), store.root.open_dir(path, Use::Pass)?));
        }
        Ok(&self.0.as_ref().expect("it was just put there").1)
    }
}

/// An entry that was listed, and may be removed.
struct ListedEntry<'a> {
    dir: &'a Dir,
    name: &'a Name,
    item: EntryType,
}

impl StoreState {
    /// True if an entry may be removed.
    fn may_remove(
        &self,
        judges: &mut [Judge; 2],
        &ListedEntry { dir, name, item }: &ListedEntry<'_>,
        fate: Fate,
    ) -> bool {
        let is_dir = item == EntryType::Dir;
        judges.iter_mut().all(|judge| judge.admits_as(name, is_dir, fate))
            && !(is_dir && self.borders.is_excluded_dir(dir, name))
    }
}

fn item_of(file_type: FileType) -> EntryType {
    match file_type {
        FileType::Directory => EntryType::Dir,
        FileType::Symlink => EntryType::Symlink,
        FileType::CharacterDevice | FileType::BlockDevice => EntryType::Device,
        FileType::Fifo | FileType::Socket => EntryType::Special,
        FileType::RegularFile | FileType::Unknown => EntryType::File,
    }
}

/// Most names that one call removes, or reports as staying.
const REMOVED_AT_ONCE: usize = 256;
const ITEMS: [EntryType; 5] =
    [EntryType::File, EntryType::Dir, EntryType::Symlink, EntryType::Device, EntryType::Special];
const REMOVE: &str = "remove";
