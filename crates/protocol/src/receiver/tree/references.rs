//! Alternates: other trees at the receiver that may have a file already, or a similar one (`--compare-dest`,
//! `--copy-dest`, `--link-dest`).
//!
//! ```text
//! decide ──► LookBeside ──► all agrees:      leave it out, copy or link it, as the alternates are used
//!                       ──► content agrees:  copy it, with the sender's attributes
//!                       ──► a file is there: match against it
//!                       ──► nothing:         as if there were no alternates
//! ```
//!
//! If contents are compared (`-c`), no file agrees before its comparison: the file is transferred by recipe, and is
//! linked, copied or left out once the alternate's bytes prove to equal the sender's.

use deltic_tree::{Kind, Meta};

use crate::message::FileNo;
use crate::options::AlternateUse;
use crate::receiver::ask::{EntryWork, LookupWork, ReceiverWork, RemovedNames};
use crate::receiver::pending::TreePending;
use crate::report::{Action, Change, EntryType, Facts};
use crate::work::WorkError;

use super::beside::{AlternateEntry, EntryLikeness, best_match, is_same};
use super::clearing::BlockedEntry;
use super::compare::differs_from;
use super::dirs::new_dir_change;
use super::entries::{TreeContext, UnsettledEntries};
use super::looked::PlacedEntry;

impl UnsettledEntries {
    /// True if the alternates matter to an entry with `seen` in its place.
    pub(super) fn asks_alternates(
        &self,
        tx: &TreeContext<'_>,
        meta: &Meta,
        seen: Option<&Meta>,
    ) -> bool {
        let alternates = &tx.cx.setting.options.compare.alternates;
        let has_old = seen.is_some_and(Meta::is_file);
        let gives_way = |old: &Meta| !old.is_dir() && tx.cx.setting.rename.is_none();
        !alternates.dirs.is_empty()
            && match meta.kind {
                Kind::File => !has_old || alternates.usage != AlternateUse::Copy,
                // A directory is made here in any case, and reported by the difference from the alternate.
                Kind::Dir => seen.is_none_or(gives_way),
                Kind::Device(_) if !tx.cx.setting.is_privileged => false,
                ref kind => seen.is_none() && tx.cx.setting.options.transfers_kind(kind),
            }
    }

    /// Looks for an entry in the alternates.
    pub(super) fn request_alternates_lookup(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
    ) {
        let (file, path) = (placed.file, placed.path.clone());
        tx.cx.request_work(
            ReceiverWork::Lookup(LookupWork::LookUpAlternates { path }),
            TreePending::LookBeside(file),
        );
        let file = placed.file;
        self.beside.insert(file, placed);
    }

    pub(super) fn take_alternates(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        found: Vec<Option<Meta>>,
    ) {
        let Some(placed) = self.beside.remove(&file) else { return };
        match best_match(&tx.cx.setting.options, &placed.meta, found) {
            Some(best) => self.use_alternate(tx, placed, best),
            None => self.decide_without_alternate(tx, placed),
        }
    }

    pub(super) fn use_alternate(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
        best: AlternateEntry,
    ) {
        let usage = tx.cx.setting.options.compare.alternates.usage;
        let has_old = placed.has_old_file();
        match best.likeness {
            _ if placed.meta.is_dir() => {
                let differs = differs_from(&tx.cx.setting.options, &placed.meta, &best.is);
                let change = new_dir_change(placed.path, &placed.meta, Action::Copied, differs);
                tx.dirs.make_and_report_dir(tx.cx, placed.meta, change);
            }
            EntryLikeness::All if usage == AlternateUse::Compare => {
                self.leave_out_entry(tx, placed)
            }
            EntryLikeness::All | EntryLikeness::Content
                if placed.seen.as_ref().is_some_and(Meta::is_dir) =>
            {
                let (file, path) = (placed.file, placed.path.clone());
                self.clear_place(tx, file, path, BlockedEntry::Beside(Box::new((placed, best))));
            }
            EntryLikeness::All
                if usage == AlternateUse::Link && !is_same(&placed.seen, &best.is) =>
            {
                self.link_from_alternate(tx, placed, best);
            }
            EntryLikeness::All | EntryLikeness::Content if !has_old && placed.meta.is_file() => {
                self.copy_from_alternate(tx, placed, best);
            }
            _ => {
                let best = Some(best).filter(|_| !has_old);
                self.decide_here(tx, placed, best);
            }
        }
    }

    /// Leaves out an entry that an alternate has.
    fn leave_out_entry(&mut self, tx: &mut TreeContext<'_>, placed: PlacedEntry) {
        let PlacedEntry { file, path, meta, seen } = placed;
        self.arrivals.note_arrived(tx.cx, file);
        self.note_failure(file);
        tx.cx.report_unchanged(&path, &meta, None);
        match seen {
            Some(seen) if seen.is_dir() => {
                tx.cx.report_settled(meta.len);
                self.clear_place(tx, file, path, BlockedEntry::Nothing);
            }
            Some(_) if !tx.cx.setting.options.dry_run => {
                tx.cx.report_settled(meta.len);
                let work = ReceiverWork::Remove { path, gives_way: false, dry_run: false, most: 1 };
                tx.cx.request_work(work, TreePending::LeaveOut);
            }
            _ => tx.cx.report_settled(meta.len),
        }
    }

    pub(super) fn take_left_out(&mut self, tx: &mut TreeContext<'_>, removed: RemovedNames) {
        removed.troubles.into_iter().for_each(|trouble| tx.cx.count_failure(trouble));
    }

    fn link_from_alternate(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
        beside: AlternateEntry,
    ) {
        if tx.cx.setting.options.dry_run {
            self.links.note_from_alternate(placed.file);
            self.links.note_in_place(placed.file);
            tx.cx.report_unchanged(&placed.path, &placed.meta, Some(placed.path.clone()));
            return tx.cx.report_settled(placed.meta.len);
        }
        let AlternateEntry { alternate, is, .. } = beside.clone();
        let (path, seen) = (placed.path.clone(), placed.seen.clone());
        let file = placed.file;
        self.beside.insert(file, placed);
        let work = ReceiverWork::Entry(EntryWork::LinkFromAlternate { path, alternate, is, seen });
        tx.cx.request_work(work, TreePending::LinkBeside { file, beside });
    }

    /// Takes the result of a link. A file that cannot be linked is copied; a file with an old version is brought up
    /// to date.
    pub(super) fn take_alternate_link(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        beside: AlternateEntry,
        done: Result<(), WorkError>,
    ) {
        let Some(placed) = self.beside.remove(&file) else { return };
        let has_old = placed.has_old_file();
        match done {
            Ok(()) => {
                self.links.note_from_alternate(file);
                self.note_in_place(tx.cx, file);
                tx.cx.report_unchanged(&placed.path, &placed.meta, Some(placed.path.clone()));
                tx.cx.report_settled(placed.meta.len);
            }
            Err(_) if placed.meta.is_file() && !has_old => {
                self.copy_from_alternate(tx, placed, beside)
            }
            Err(_) => self.decide_here(tx, placed, None),
        }
    }

    fn copy_from_alternate(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
        beside: AlternateEntry,
    ) {
        let change = self.copy_change(tx, &placed, &beside.is);
        if tx.cx.setting.options.dry_run {
            tx.cx.report_settled(placed.meta.len);
            self.links.note_from_alternate(placed.file);
            self.links.note_in_place(placed.file);
            return tx.cx.report_change(change);
        }
        let PlacedEntry { path, meta, seen, .. } = &placed;
        let work = ReceiverWork::Entry(EntryWork::CopyFromAlternate {
            path: path.clone(),
            alternate: beside.alternate,
            is: beside.is,
            meta: meta.clone(),
            seen: seen.clone(),
        });
        let file = placed.file;
        self.beside.insert(file, placed);
        tx.cx.request_work(work, TreePending::CopyBeside { file, change });
    }

    /// Returns the report of a file copied from the alternate entry `is`: the difference from that entry.
    fn copy_change(
        &self,
        tx: &TreeContext<'_>,
        PlacedEntry { path, meta, .. }: &PlacedEntry,
        is: &Meta,
    ) -> Change {
        let differs = differs_from(&tx.cx.setting.options, meta, is);
        let (action, facts) = (Action::Copied, Facts::state_at_sender(meta));
        Change { path: path.clone(), item: EntryType::File, action, differs, facts }
    }

    /// Takes the result of a copy; a file that cannot be copied is transferred by the sender.
    pub(super) fn take_copy_result(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        change: Change,
        done: Result<(), WorkError>,
    ) {
        let Some(placed) = self.beside.remove(&file) else { return };
        match done {
            Ok(()) => {
                self.links.note_from_alternate(file);
                self.note_in_place(tx.cx, file);
                self.arrivals.note_uncommitted(tx.cx, file, &placed.path);
                tx.cx.report_settled(placed.meta.len);
                tx.cx.report_change(change);
            }
            Err(_) => self.decide_here(tx, placed, None),
        }
    }
}
