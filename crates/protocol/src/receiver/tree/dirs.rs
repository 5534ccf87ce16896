//! Directories from listing to placement. The entries listed in a directory wait until they may be looked at.

use std::collections::HashMap;

use deltic_tree::fold::FoldedNames;
use deltic_tree::meta::OWNER_BITS;
use deltic_tree::{Entry, Kind, Meta, Names, RelPath, Timestamp};

use crate::message::FileNo;
use crate::receiver::ask::{CarriedMeta, EntryWork, LookupWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;
use crate::receiver::setting::Setting;
use crate::report::{Action, Change, Differs, EntryType, Facts};
use crate::work::{WorkError, WorkTurn};

use super::beside::best_match;
use super::compare::{differing_attributes, differs_from};
use super::digests::{DirDigests, TallyState, vanished_dir_trouble};
use super::final_dirs::{FinalDirs, FinalMeta};
use super::hard_links::first_name_of;
use super::list::EntryList;
use super::owners::OwnerNames;
use super::sections::{LossReason, WaitingSections};

/// The directories of the list.
#[derive(Debug)]
pub(super) struct ListedDirs {
    pub(super) list: EntryList,
    pub(super) sections: WaitingSections,
    pub(super) digests: DirDigests,
    pub(super) owners: OwnerNames,
    pub(super) names: ListedNames,
    /// Directories that get their times and modes at the end.
    pub(super) last: FinalDirs,
    pub(super) root: TransferRoot,
    /// Number of listed names that are left out because of their kind.
    pub(super) left_out: u64,
    /// Entries given up with their directory; for a later hard link, also the number of the file's first name.
    given_up: Vec<(FileNo, Option<FileNo>)>,
}

/// The names listed in directories; all names if deletions are asked for.
#[derive(Debug, Default)]
pub(super) struct ListedNames {
    /// Names of the directory being listed.
    pub(super) keep: Names,
    /// Names of directories that are not in place yet: the present entry may be a symlink, or not readable.
    pub(super) keep_later: HashMap<RelPath, Names>,
    /// Names of the directory being listed, to find names that some file systems treat as one.
    pub(super) folded: FoldedNames,
}

/// The root of the transfer.
#[derive(Debug)]
pub(super) struct TransferRoot {
    /// True if the whole root is part of the transfer.
    pub(super) is_whole: bool,
    /// True if the root is new and no entry for it was listed yet.
    pub(super) is_bare: bool,
}

/// Returns the report of a new directory.
pub(super) fn new_dir_change(
    path: RelPath,
    meta: &Meta,
    action: Action,
    differs: Differs,
) -> Change {
    Change { path, item: EntryType::Dir, action, differs, facts: Facts::state_at_sender(meta) }
}

impl ListedDirs {
    /// Creates the state with only the root.
    pub(super) fn new(setting: &Setting) -> Self {
        Self {
            list: EntryList::new(),
            sections: WaitingSections::default(),
            digests: DirDigests::new(setting.options.tallied_attributes()),
            owners: OwnerNames::default(),
            names: ListedNames::default(),
            last: FinalDirs::default(),
            root: TransferRoot { is_whole: false, is_bare: setting.made_dirs > 0 },
            left_out: 0,
            given_up: Vec::new(),
        }
    }

    /// Gives up an entry.
    pub(super) fn give_up_entry(&mut self, file: FileNo, meta: &Meta) {
        self.given_up.push((file, first_name_of(file, meta)));
    }

    /// Takes the entries given up since the last call, each with the first name of the file.
    pub(super) fn take_given_up(&mut self) -> Vec<(FileNo, Option<FileNo>)> {
        std::mem::take(&mut self.given_up)
    }

    /// Returns the topmost directories of the transfer.
    pub(super) fn topmost_dirs(&self, cx: &Context) -> Vec<RelPath> {
        if self.root.is_whole {
            return vec![RelPath::root()];
        }
        // An implied directory says nothing about other entries in it.
        match cx.setting.options.select.relative {
            true => Vec::new(),
            false => self.last.topmost_dirs(),
        }
    }

    pub(super) fn request_lookup(&mut self, cx: &mut Context, no: u64) {
        let section = self.sections.get(no);
        if let Some(lost) = self.sections.loss_reason(&section.dir) {
            return self.give_up_section(cx, no, lost);
        }
        if section.own.is_none() && section.entries.is_empty() {
            // An empty directory is not looked at: no window bounds the number of empty directories.
            self.sections.take(no);
            return;
        }
        let own = section.own.iter().map(|_| RelPath::root());
        let entries = section.entries.iter().filter_map(|entry| section.dir.join(&entry.name).ok());
        let paths = own.chain(entries).collect();
        let (users, groups) = self.owners.unknown_owners(section);
        // A symlink in the place of one of these directories may be kept.
        let keeps = cx.setting.options.follow.keep_dirs;
        let may_be_link =
            |Entry { meta, .. }: &&Entry| meta.is_dir() && keeps || meta.is_implied_dir();
        let dirs = section.entries.iter().filter(may_be_link);
        let dirs = dirs.filter_map(|entry| section.dir.join(&entry.name).ok()).collect();
        let alike = section.alike.clone();
        cx.request_work(
            ReceiverWork::Lookup(LookupWork::Look { paths, dirs, alike, users, groups }),
            TreePending::Look(no),
        );
    }

    /// Gives up a section of a lost directory and everything below; the loss was reported already.
    fn give_up_section(&mut self, cx: &mut Context, no: u64, lost: LossReason) {
        let Some(section) = self.sections.take(no) else { return };
        for (nth, entry) in section.entries.into_iter().enumerate() {
            cx.totals.failed += u64::from(lost == LossReason::Failed);
            cx.report_settled(entry.meta.len);
            self.give_up_entry(FileNo(section.first + nth as u64), &entry.meta);
            if let (Kind::Dir, Ok(path)) = (&entry.meta.kind, section.dir.join(&entry.name)) {
                self.lose_dir(cx, path, lost);
            }
        }
    }

    pub(super) fn lose_dir(&mut self, cx: &mut Context, path: RelPath, lost: LossReason) {
        self.names.keep_later.remove(&path);
        self.sections
            .give_up_dir(path, lost)
            .into_iter()
            .for_each(|no| self.give_up_section(cx, no, lost));
    }

    /// Continues with the entries of a directory in place, once the unlisted names there are known.
    pub(super) fn release_dir(&mut self, cx: &mut Context, path: &RelPath) {
        if !self.request_unlisted_before_entries(cx, path) {
            self.continue_below(cx, path);
        }
    }

    /// Continues with the entries that waited for a directory.
    pub(super) fn continue_below(&mut self, cx: &mut Context, path: &RelPath) {
        self.sections.release_sections(path).into_iter().for_each(|no| self.request_lookup(cx, no));
    }

    /// Requests the unlisted names of a directory that is now in place, before any entry is created there, because
    /// the directory may contain filter rules. Returns true if the names were requested.
    pub(super) fn request_unlisted_before_entries(
        &mut self,
        cx: &mut Context,
        dir: &RelPath,
    ) -> bool {
        let keep = self.names.keep_later.remove(dir);
        keep.map(|keep| self.request_unlisted(cx, dir.clone(), keep)).is_some()
    }

    pub(super) fn request_unlisted(&mut self, cx: &mut Context, dir: RelPath, keep: Names) {
        let extra = ReceiverWork::Lookup(LookupWork::Extra {
            dir: dir.clone(),
            keep: Some(keep),
            rest: None,
        });
        cx.request_work(extra, TreePending::Extra(dir));
    }

    /// Makes and reports a directory.
    pub(super) fn make_and_report_dir(&mut self, cx: &mut Context, meta: Meta, change: Change) {
        let path = change.path.clone();
        if !meta.is_implied_dir() {
            cx.report_change(change);
        }
        if self.is_known_equal(&path) {
            self.sections.release_sections(&path);
            return cx.count_failure(vanished_dir_trouble(&path));
        }
        if cx.setting.options.dry_run {
            self.last.push(&path, (&meta).into());
            self.release_dir(cx, &path);
        } else {
            self.make_dir(cx, path, meta);
        }
    }

    /// Reports that the root was made: as a new directory, or by its difference from the alternates' root.
    fn report_new_root_dir(&mut self, cx: &mut Context, meta: Meta) {
        if cx.setting.options.compare.alternates.dirs.is_empty() {
            return self.take_new_root(cx, &meta, Vec::new());
        }
        cx.request_work(
            ReceiverWork::Lookup(LookupWork::LookUpAlternates { path: RelPath::root() }),
            TreePending::LookBesideRoot(meta),
        );
    }

    pub(super) fn take_new_root(
        &mut self,
        cx: &mut Context,
        meta: &Meta,
        beside: Vec<Option<Meta>>,
    ) {
        let (action, differs) = match best_match(&cx.setting.options, meta, beside) {
            Some(best) => (Action::Copied, differs_from(&cx.setting.options, meta, &best.is)),
            None => (Action::Created, Differs::default()),
        };
        let (path, item, facts) = (RelPath::root(), EntryType::Dir, Facts::state_at_sender(meta));
        cx.report_change(Change { path, item, action, differs, facts });
    }

    /// Makes a directory, or prepares an existing one. Its mode and times are set last.
    pub(super) fn make_dir(&mut self, cx: &mut Context, path: RelPath, meta: Meta) {
        self.last.push(&path, (&meta).into());
        let (meta, carries) = match meta.is_implied_dir() {
            true => (temporary_meta(&meta), CarriedMeta::Nothing),
            false => (meta, CarriedMeta::All),
        };
        // No window bounds the number of waiting directories: count the path and the work of each.
        let bytes = meta.extra_metadata_bytes() + path.as_bytes().len() + WORK_BYTES;
        let pending = TreePending::MakeDir { path: path.clone(), bytes };
        cx.request_write(
            WorkTurn::Any,
            ReceiverWork::Entry(EntryWork::MakeDir { path, meta, carries }),
            pending,
        );
    }

    /// Sets the metadata of existing directories.
    pub(super) fn request_dir_meta(
        &mut self,
        cx: &mut Context,
        dirs: Vec<(RelPath, Meta)>,
        carries: CarriedMeta,
    ) {
        let bytes = dirs.iter().map(|(_, meta)| meta.extra_metadata_bytes()).sum();
        let work = ReceiverWork::SetDirs { dirs, carries };
        cx.request_write(WorkTurn::Any, work, TreePending::SetDirs { bytes });
    }

    pub(super) fn take_new_dir(
        &mut self,
        cx: &mut Context,
        path: &RelPath,
        made: Result<(), WorkError>,
    ) {
        match made {
            Ok(()) => self.release_dir(cx, path),
            Err(error) => {
                self.last.remove(path);
                cx.count_failure(error.trouble);
                self.lose_dir(cx, path.clone(), LossReason::Failed);
            }
        }
    }

    pub(super) fn take_existing_dir(
        &mut self,
        cx: &mut Context,
        path: RelPath,
        meta: Meta,
        old: &Meta,
    ) {
        if !meta.is_implied_dir() {
            cx.warn_withheld_mode(&path, &meta, Some(old));
        }
        let differs = differing_attributes(&cx.setting.options, &meta, old);
        let implied = meta.is_implied_dir();
        if path.is_root() && root_is_new(cx) {
            self.report_new_root_dir(cx, meta.clone());
        } else if differs != Differs::default() {
            let (item, action) = (EntryType::Dir, Action::Touched);
            let facts = Facts::state_at_sender(&meta);
            if !implied {
                cx.report_change(Change { path: path.clone(), item, action, differs, facts });
            }
        } else {
            cx.report_unchanged(&path, &meta, None);
        }
        let Setting { options, made_dirs, .. } = &cx.setting;
        let is_open = old.mode & OWNER_BITS == OWNER_BITS;
        let is_new = path.is_root() && *made_dirs > 0;
        let Differs { mode, user, group, acl, xattrs, .. } = differs;
        let changes = (mode || user || group || acl) && !implied;
        if (!is_open || is_new || changes) && !options.dry_run {
            return self.make_dir(cx, path, meta);
        }
        let sets_now = xattrs && !cx.setting.options.dry_run && !implied;
        let own = FinalMeta::from(&meta);
        if differs != Differs::default() || !is_open || !self.defer_final_meta(&path, own) {
            self.last.push(&path, own);
        }
        if sets_now {
            self.request_dir_meta(cx, vec![(path.clone(), meta)], CarriedMeta::All);
        }
        self.release_dir(cx, &path);
    }

    /// Notes that a listing names a directory, of which a digest may have come before.
    pub(super) fn note_named(&mut self, path: &RelPath, meta: Option<FinalMeta>) {
        let Some(tallied) = self.digests.open.get_mut(path) else {
            return self.list.allow_listing(path, meta);
        };
        match tallied.state {
            TallyState::Comparing => (tallied.named, tallied.meta) = (true, meta),
            TallyState::Alike => drop(self.digests.open.remove(path)),
            TallyState::Unlike => {
                self.digests.open.remove(path);
                self.list.allow_listing(path, meta);
            }
        }
    }

    /// True if a directory that a listing names was found to be equal to the sender's.
    pub(super) fn is_known_equal(&self, path: &RelPath) -> bool {
        self.digests.compared.is_some()
            && !path.is_root()
            && !self.list.may_be_listed(path)
            && !self.digests.open.contains_key(path)
            && !self.sections.has_listed_entries(path)
    }

    /// Keeps the final metadata of a directory that is up to date, for the case that the directory is listed. If it
    /// is not listed, nothing changes in it. Returns false if the metadata is not kept.
    pub(super) fn defer_final_meta(&mut self, path: &RelPath, meta: FinalMeta) -> bool {
        if self.is_known_equal(path) {
            return true;
        }
        if self.digests.compared.is_none() || self.sections.has_listed_entries(path) {
            return false;
        }
        let tallied = self.digests.open.get_mut(path).map(|tallied| &mut tallied.meta);
        match tallied.or_else(|| self.list.final_meta_mut(path)) {
            Some(kept) => {
                *kept = Some(meta);
                true
            }
            None => false,
        }
    }

    /// Sets the next batch of directories. Times are set last and from the leaves up, because every change in a
    /// directory changes its time.
    pub(super) fn set_next_batch(&mut self, cx: &mut Context) {
        if cx.setting.options.dry_run {
            self.last = FinalDirs::default();
        } else if let Some((dirs, carries)) = self.last.pop_batch() {
            self.request_dir_meta(cx, dirs, carries);
        }
    }
}

/// Approximate memory in bytes of a directory that waits to be made, without path and attributes.
const WORK_BYTES: usize = 256;

/// True if the root is reported as a new directory. As in rsync, a root made by `--mkpath` counts as present before
/// the list.
const fn root_is_new(cx: &Context) -> bool {
    let Setting { options, made_dirs, .. } = &cx.setting;
    *made_dirs > 0 && (!options.select.mkpath || options.dry_run)
}

/// Returns the metadata with which an implied directory is made, while it is not known whether the directory is only
/// implied. This end's user owns it; other users get no more rights than they will have under any final owner.
fn temporary_meta(meta: &Meta) -> Meta {
    let all = meta.mode & meta.mode >> 3 & 7;
    let others = match (meta.access_acl(), meta.user, meta.group) {
        (Some(_), ..) => 0,
        (None, None, None) => meta.mode & 0o077,
        _ => all << 3 | all,
    };
    Meta::without_owner(Kind::Dir, 0, Timestamp::default(), OWNER_BITS | others)
}
