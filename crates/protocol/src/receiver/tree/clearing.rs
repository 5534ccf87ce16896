//! Removes a directory that stands in the place of a new file or link, with its entries, if the options delete names
//! and the limit of deletions allows the removal. A dry run checks the same conditions.

use deltic_tree::{Meta, RelPath};

use crate::limits::GUARDED_DELETES;
use crate::message::FileNo;
use crate::options::Delete;
use crate::receiver::ask::{LookupWork, ReceiverWork, RemovedNames};
use crate::receiver::files::candidate::FileCandidate;
use crate::receiver::pending::TreePending;
use crate::report::{Change, Trouble, TroubleKind};

use super::beside::AlternateEntry;
use super::deleting::report_removed;
use super::entries::{TreeContext, UnsettledEntries};
use super::hard_links::LaterName;
use super::looked::PlacedEntry;
use super::removal::{NO_LIMIT, NameRemoval};

impl UnsettledEntries {
    /// True if the entry `seen` at a path is a directory that must be removed first. In a dry run this holds for
    /// every directory, so that obstacles to the real run are reported.
    pub(super) fn must_clear(&self, tx: &TreeContext<'_>, seen: Option<&Meta>) -> bool {
        let options = &tx.cx.setting.options;
        (options.replaces_full_dirs() || options.dry_run) && seen.is_some_and(Meta::is_dir)
    }

    /// Removes the directory in an entry's place, once the names in the directory are counted.
    pub(super) fn clear_place(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        path: RelPath,
        entry: BlockedEntry,
    ) {
        self.clearing.insert(file, entry);
        let all = ReceiverWork::Lookup(LookupWork::Count { path: path.clone(), gives_way: true });
        tx.cx.request_work(all, TreePending::CountBelow { file, path });
    }

    pub(super) fn take_name_count(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        path: RelPath,
        names: u64,
    ) {
        // The final length of the list is not known yet.
        let most = self.max_cleared_names(tx);
        if !tx.cx.setting.options.replaces_full_dirs() && names > 1 {
            let words = |path: &str| format!("cannot replace {path}: directory not empty");
            let trouble = Trouble::at(TroubleKind::Failed, &path, words);
            return self.give_up_uncleared(tx, file, vec![trouble]);
        }
        // An empty directory gives way under any limit: nothing is lost.
        let lost = if names > 1 { names } else { 0 };
        if !tx.deleting.count_cleared(lost, most) {
            let words = |path: &str| {
                format!(
                    "cannot replace {path}: {names} names in that directory would go, with others more than {most}; \
                     --delete with --max-delete or --force-delete allows it"
                )
            };
            let trouble = Trouble::at(TroubleKind::DeleteLimit, &path, words);
            return self.give_up_uncleared(tx, file, vec![trouble]);
        }
        // Protected names stay if no entry takes the place.
        let is_deleted = matches!(self.clearing.get(&file), Some(BlockedEntry::Nothing));
        let names = names.saturating_sub(u64::from(!is_deleted));
        let removal = NameRemoval { path, gives_way: !is_deleted, names, ..NameRemoval::default() };
        self.request_clearing(tx, file, removal);
    }

    fn request_clearing(&mut self, tx: &mut TreeContext<'_>, file: FileNo, removal: NameRemoval) {
        let most = if tx.cx.setting.options.dry_run { NO_LIMIT } else { removal.names };
        let work = removal.work(tx.cx.setting.options.dry_run, most);
        tx.cx.request_work(work, TreePending::Clear { file, removal });
    }

    /// Most names that may be removed for new entries in their place, in the whole run.
    fn max_cleared_names(&self, tx: &TreeContext<'_>) -> u64 {
        let options = &tx.cx.setting.options;
        match options.delete {
            Delete::AtMost(most) => most,
            Delete::Guarded(_) => GUARDED_DELETES,
            Delete::Never if options.remove.force => GUARDED_DELETES,
            // Only an empty directory may.
            Delete::Never => 0,
        }
    }

    pub(super) fn take_clearing_result(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        mut removal: NameRemoval,
        removed: RemovedNames,
    ) {
        removal.subtract(&removed);
        report_removed(tx.cx, &removal, removed.gone);
        let mut troubles = removed.troubles;
        if troubles.is_empty() && removed.goes_on {
            let dry_run = tx.cx.setting.options.dry_run;
            if removal.names == 0 && !dry_run {
                removal.names = tx.deleting.grant_cleared(self.max_cleared_names(tx));
            }
            if removal.names > 0 || dry_run {
                return self.request_clearing(tx, file, removal);
            }
            troubles.push(removal.new_names_trouble("replace"));
        }
        // Take back the count of names that stayed or were gone already.
        tx.deleting.uncount_cleared(removal.names);
        if !troubles.is_empty() {
            return self.give_up_uncleared(tx, file, troubles);
        }
        match self.clearing.remove(&file) {
            Some(BlockedEntry::File(mut candidate)) => {
                candidate.seen = None;
                self.want_file(tx, *candidate);
            }
            Some(BlockedEntry::Other { meta, change }) => {
                self.request_creation(tx, file, meta, change)
            }
            Some(BlockedEntry::Name { mut name, change }) => {
                name.seen = None;
                self.request_link(tx, file, name, change);
            }
            Some(BlockedEntry::Beside(both)) => {
                let (mut placed, beside) = *both;
                placed.seen = None;
                self.use_alternate(tx, placed, beside);
            }
            Some(BlockedEntry::Nothing) | None => {}
        }
    }

    /// Gives up an entry because the directory in the same place stays.
    fn give_up_uncleared(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        troubles: Vec<Trouble>,
    ) {
        match self.clearing.remove(&file) {
            Some(BlockedEntry::File(candidate)) => {
                tx.cx.report_settled(candidate.meta.len);
                self.note_failure(file);
            }
            Some(BlockedEntry::Other { change, .. }) => {
                self.arrivals.take_change(&change.path);
                self.note_failure(file);
            }
            Some(BlockedEntry::Beside(both)) => {
                tx.cx.report_settled(both.0.meta.len);
                self.note_failure(file);
            }
            Some(BlockedEntry::Name { change, .. }) => tx.cx.report_settled(change.facts.len),
            Some(BlockedEntry::Nothing) | None => {}
        }
        for trouble in troubles {
            tx.cx.count_failure(Trouble { kind: TroubleKind::Failed, ..trouble });
        }
    }
}

/// An entry that waits for the removal of the directory in the same place.
#[derive(Debug)]
pub(super) enum BlockedEntry {
    File(Box<FileCandidate>),
    Other {
        meta: Meta,
        change: Change,
    },
    Name {
        name: LaterName,
        change: Change,
    },
    /// A file to be taken from an alternate.
    Beside(Box<(PlacedEntry, AlternateEntry)>),
    /// No entry takes the place: an alternate has the entry.
    Nothing,
}
