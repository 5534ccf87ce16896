//! The decision about a listed entry: keep, change, create or transfer, depending on the entry in its place.

use deltic_tree::links::{MUNGED, leaves_root};
use deltic_tree::path::printable;
use deltic_tree::{Kind, Meta};

use crate::message::FileNo;
use crate::options::{Append, Links, Options};
use crate::receiver::ask::{EntryWork, ReceiverWork};
use crate::receiver::files::candidate::FileCandidate;
use crate::receiver::pending::TreePending;
use crate::report::{Action, Change, Differs, EntryType, Facts, Trouble, TroubleKind};
use crate::work::WorkError;

use super::beside::AlternateEntry;
use super::clearing::BlockedEntry;
use super::compare::{QuickCheck, differs_from, quick_check};
use super::comparing::ContentPair;
use super::dirs::new_dir_change;
use super::entries::{TreeContext, UnsettledEntries};
use super::hard_links::first_name_of;
use super::looked::{LookedEntry, PlacedEntry};
use super::sections::{DirSection, LossReason};

impl UnsettledEntries {
    /// Decides about the entries of a section.
    pub(super) fn decide_section(
        &mut self,
        tx: &mut TreeContext<'_>,
        section: DirSection,
        found: impl Iterator<Item = Result<Option<Meta>, Trouble>>,
    ) {
        self.links.update_shared_metadata(&section);
        let looked = |((nth, entry), old)| {
            let file = FileNo(section.first + nth as u64);
            LookedEntry { file, entry, old }
        };
        let mut all: Vec<LookedEntry> =
            section.entries.into_iter().enumerate().zip(found).map(looked).collect();
        self.links.choose_leaders(&tx.cx.setting.options, &mut all);
        for LookedEntry { file, entry, old } in all {
            let Ok(path) = section.dir.join(&entry.name) else { continue };
            match old {
                Ok(seen) => self.decide(tx, PlacedEntry { file, path, meta: entry.meta, seen }),
                Err(trouble) => {
                    self.note_undecided_failure(file, &entry.meta);
                    tx.cx.report_settled(entry.meta.len);
                    tx.cx.count_failure(trouble);
                    if entry.meta.is_dir() {
                        tx.dirs.lose_dir(tx.cx, path, LossReason::Failed);
                    }
                }
            }
            self.note_given_up(tx.dirs);
        }
    }

    fn decide(&mut self, tx: &mut TreeContext<'_>, mut placed: PlacedEntry) {
        let PlacedEntry { file, path, meta, .. } = &mut placed;
        let file = *file;
        if let Kind::Symlink(target) = &mut meta.kind {
            let Links { safe, munge, .. } = tx.cx.setting.options.follow;
            if safe && tx.cx.setting.options.links && leaves_root(path.as_bytes(), target) {
                let message =
                    format!("ignoring unsafe symlink \"{path}\" -> \"{}\"", printable(target));
                self.note_undecided_failure(file, meta);
                let ignored = Trouble::about(TroubleKind::UnsafeLink, path, message);
                return tx.cx.send_trouble(ignored);
            }
            if munge {
                *target = [MUNGED, target].concat().into();
            }
        }
        let PlacedEntry { path, meta, seen, .. } = &placed;
        if let Some(why) = tx.cx.setting.options.compare.reason_to_pass_over(meta, seen.as_ref()) {
            tx.cx.report_passed_over(path, meta, why);
            tx.cx.report_settled(meta.len);
            self.note_undecided_failure(file, meta);
            if meta.is_dir() {
                tx.dirs.lose_dir(tx.cx, placed.path, LossReason::PassedOver);
            }
        } else if let Some(first) = first_name_of(file, meta) {
            self.decide_linked(tx, first, placed);
        } else {
            self.decide_alone(tx, placed);
        }
    }

    /// Decides about an entry that is not linked to another name.
    pub(super) fn decide_alone(&mut self, tx: &mut TreeContext<'_>, placed: PlacedEntry) {
        let PlacedEntry { file, path, meta, seen } = &placed;
        let compare = &tx.cx.setting.options.compare;
        if meta.is_file()
            && let Some(why) = compare.reason_to_pass_over_file(meta, seen.as_ref())
        {
            tx.cx.report_passed_over(path, meta, why);
            tx.cx.report_settled(meta.len);
            self.note_failure(*file);
        } else if self.asks_alternates(tx, meta, seen.as_ref()) {
            self.request_alternates_lookup(tx, placed);
        } else {
            self.decide_here(tx, placed, None);
        }
    }

    /// Decides about an entry that the alternates do not have, or only as data to match against.
    pub(super) fn decide_here(
        &mut self,
        tx: &mut TreeContext<'_>,
        placed: PlacedEntry,
        beside: Option<AlternateEntry>,
    ) {
        match &placed.meta.kind {
            // Entries of this kind are listed so that the entries in their places are not deleted.
            kind if !tx.cx.setting.options.transfers_kind(kind) => self.note_failure(placed.file),
            Kind::Dir => decide_dir(tx, placed),
            Kind::File => self.decide_file(tx, placed, beside),
            kind @ Kind::Device(_) if !tx.cx.setting.is_privileged => {
                self.note_failure(placed.file);
                let skipped = Trouble::skipped_entry(kind, &placed.path);
                tx.cx.send_trouble(skipped.with_reason("only the superuser makes devices"));
            }
            _ => self.decide_other(tx, placed, beside),
        }
    }

    /// Decides about a link, a FIFO, a socket or a device. These have no content to send.
    fn decide_other(
        &mut self,
        tx: &mut TreeContext<'_>,
        mut placed: PlacedEntry,
        beside: Option<AlternateEntry>,
    ) {
        let item = EntryType::of(&placed.meta.kind);
        let mut differs =
            self.differs_from_known(tx, &placed.meta, placed.seen.as_ref(), beside.as_ref());
        if let Some(old) = placed.seen.as_ref().filter(|old| old.kind == placed.meta.kind) {
            if !differs.time {
                placed.meta.modified = old.modified;
            }
            return self.keep_entry(tx, placed, differs);
        }
        let PlacedEntry { file, path, meta, seen: old } = placed;
        let is_alike =
            beside.is_some() || old.as_ref().is_some_and(|old| EntryType::of(&old.kind) == item);
        let action = match &beside {
            Some(beside) if beside.is_equal() => Action::Copied,
            _ if is_alike => Action::Updated,
            _ => Action::Created,
        };
        differs.content = action == Action::Updated;
        differs.kind = old.is_some() && !is_alike;
        self.note_pending(tx.cx, file, &path);
        let facts = Facts::state_at_sender(&meta);
        let change = Change { path: path.clone(), item, action, differs, facts };
        if self.must_clear(tx, old.as_ref()) {
            self.clear_place(tx, file, path, BlockedEntry::Other { meta, change });
        } else {
            self.request_creation(tx, file, meta, change);
        }
    }

    /// Returns the attributes in which an entry differs from the old version, or else from the version in an
    /// alternate.
    fn differs_from_known(
        &self,
        tx: &TreeContext<'_>,
        meta: &Meta,
        old: Option<&Meta>,
        beside: Option<&AlternateEntry>,
    ) -> Differs {
        let known = old.or_else(|| beside.map(|beside| &beside.is));
        known.map(|is| differs_from(&tx.cx.setting.options, meta, is)).unwrap_or_default()
    }

    pub(super) fn request_creation(
        &mut self,
        tx: &mut TreeContext<'_>,
        file: FileNo,
        meta: Meta,
        change: Change,
    ) {
        if tx.cx.setting.options.dry_run {
            tx.cx.report_change(change);
            return self.links.note_in_place(file);
        }
        let path = change.path.clone();
        let work = match &meta.kind {
            Kind::Symlink(target) => {
                ReceiverWork::Entry(EntryWork::MakeSymlink { path, target: target.clone(), meta })
            }
            _ => ReceiverWork::Entry(EntryWork::MakeSpecial { path, meta }),
        };
        tx.cx.request_work(work, TreePending::Make { change });
    }

    pub(super) fn take_change_result(
        &mut self,
        tx: &mut TreeContext<'_>,
        change: Change,
        done: Result<(), WorkError>,
    ) {
        let arrived = self.arrivals.take_change(&change.path);
        match done {
            Ok(()) => {
                arrived.into_iter().for_each(|file| self.note_in_place(tx.cx, file));
                tx.cx.report_change(change);
            }
            Err(error) => {
                arrived.into_iter().for_each(|file| self.note_failure(file));
                tx.cx.count_failure(error.trouble);
            }
        }
    }

    fn decide_file(
        &mut self,
        tx: &mut TreeContext<'_>,
        PlacedEntry { file, path, meta, seen }: PlacedEntry,
        beside: Option<AlternateEntry>,
    ) {
        let old = seen.clone().filter(Meta::is_file);
        tx.cx.warn_withheld_mode(&path, &meta, old.as_ref());
        let options = &tx.cx.setting.options;
        let clears = self.must_clear(tx, seen.as_ref());
        let differs = Differs {
            kind: seen.is_some() && old.is_none(),
            ..self.differs_from_known(tx, &meta, old.as_ref(), beside.as_ref())
        };
        let looks = old.as_ref().map(|old| quick_check(options, &meta, old));
        if looks == Some(QuickCheck::Same) {
            return self.keep_file(tx, PlacedEntry { file, path, meta, seen }, differs);
        }
        let has_grown = old.as_ref().is_none_or(|old| old.len < meta.len);
        if options.writing.append != Append::Never && !has_grown {
            tx.cx.report_settled(meta.len);
            return self.note_failure(file);
        }
        let candidate = FileCandidate {
            file,
            path,
            meta,
            old,
            seen,
            differs,
            compared: false,
            beside,
            may_have_moved: false,
            repeats: None,
        };
        if looks == Some(QuickCheck::Unknown) {
            self.comparing.compare(candidate);
        } else if clears {
            self.clear_place(
                tx,
                file,
                candidate.path.clone(),
                BlockedEntry::File(Box::new(candidate)),
            );
        } else {
            self.want_file(tx, candidate);
        }
    }

    /// Adds a file to the wanted files. A dry run reports the file instead, unless an alternate may have its content:
    /// then the content is compared.
    pub(super) fn want_file(&mut self, tx: &mut TreeContext<'_>, candidate: FileCandidate) {
        let Options { dry_run, checksum, .. } = tx.cx.setting.options;
        let is_beside =
            |beside: &AlternateEntry| beside.may_have_content(checksum, &candidate.meta);
        if dry_run && !candidate.beside.as_ref().is_some_and(is_beside) {
            self.report_dry_replacement(tx, candidate);
        } else {
            self.wanted.push(candidate);
        }
    }

    /// Keeps a file with the same size and time, or without content to compare. At most the attributes are set.
    fn keep_file(&mut self, tx: &mut TreeContext<'_>, placed: PlacedEntry, differs: Differs) {
        tx.cx.report_settled(placed.meta.len);
        self.keep_entry(tx, placed, differs);
    }

    /// Keeps the entry in place, and sets differing attributes.
    fn keep_entry(&mut self, tx: &mut TreeContext<'_>, placed: PlacedEntry, differs: Differs) {
        let PlacedEntry { file, path, mut meta, seen } = placed;
        let old = seen.expect("what is kept is here");
        self.links.keep_inode(file, &old);
        if differs == Differs::default() {
            tx.cx.report_unchanged(&path, &meta, None);
            return self.note_in_place(tx.cx, file);
        }
        if !differs.time {
            // A time within the window stays as it is.
            meta.modified = old.modified;
        }
        let Options { dry_run, metadata, remove, .. } = &tx.cx.setting.options;
        // With `--remove-source-files`, a source is removed only once its own name is done.
        let may_be_again = !(*dry_run || metadata.hard_links || remove.sources);
        if may_be_again && self.touched.note_new_attributes(&old, &meta) {
            tx.cx.report_unchanged(&path, &meta, None);
            return self.note_in_place(tx.cx, file);
        }
        self.note_pending(tx.cx, file, &path);
        let (item, action, facts) =
            (EntryType::of(&meta.kind), Action::Touched, Facts::state_at_sender(&meta));
        let change = Change { path: path.clone(), item, action, differs, facts };
        if tx.cx.setting.options.dry_run {
            tx.cx.report_change(change);
            self.links.note_in_place(file);
        } else {
            tx.cx.request_work(
                ReceiverWork::Entry(EntryWork::SetMeta { path, meta }),
                TreePending::Touch { change },
            );
        }
    }

    pub(super) fn report_dry_replacement(
        &mut self,
        tx: &mut TreeContext<'_>,
        candidate: FileCandidate,
    ) {
        let action = candidate.action();
        tx.cx.totals.transferred += 1;
        let bytes = &mut tx.cx.totals.transferred_bytes;
        *bytes = bytes.saturating_add(candidate.meta.len);
        tx.cx.report_settled(candidate.meta.len);
        self.links.note_in_place(candidate.file);
        tx.deleting.note_new_file(tx.cx, &candidate);
        let FileCandidate { path, meta, mut differs, .. } = candidate;
        differs.content = tx.cx.setting.options.checksum && action == Action::Updated;
        let (item, facts) = (EntryType::File, Facts::state_at_sender(&meta));
        tx.cx.report_change(Change { path, item, action, differs, facts });
    }

    pub(super) fn take_comparison(&mut self, tx: &mut TreeContext<'_>, pair: ContentPair) {
        let touched = |old| self.touched.has_changed(old);
        if pair.may_read_local_again() && pair.candidate.old.as_ref().is_some_and(touched) {
            // The file got other attributes through another hard link during the read.
            return self.comparing.compare_again(pair);
        }
        let ContentPair { candidate, local, remote, .. } = pair;
        let known = local.is_known() && remote.is_known();
        tx.cx.counts.add(0, u64::from(known));
        if local.agrees(&remote) {
            let FileCandidate { file, path, meta, old: seen, differs, .. } = candidate;
            self.keep_file(tx, PlacedEntry { file, path, meta, seen }, differs);
        } else if known && tx.cx.setting.options.dry_run {
            self.report_dry_replacement(tx, candidate);
        } else {
            // An unreadable content is reported when the file is wanted.
            let candidate = FileCandidate { compared: known, ..candidate };
            self.wanted.push(candidate);
        }
    }
}

/// Decides about a directory.
fn decide_dir(tx: &mut TreeContext<'_>, PlacedEntry { path, meta, seen, .. }: PlacedEntry) {
    match seen {
        Some(old) if old.is_dir() => tx.dirs.take_existing_dir(tx.cx, path, meta, &old),
        Some(_) if tx.cx.setting.rename.is_some() => {
            let words = |path: &str| format!("cannot replace {path}: not a directory");
            tx.cx.count_failure(Trouble::at(TroubleKind::Failed, &path, words));
            tx.dirs.lose_dir(tx.cx, path, LossReason::Failed);
        }
        old => {
            let differs = Differs { kind: old.is_some(), ..Differs::default() };
            let change = new_dir_change(path, &meta, Action::Created, differs);
            tx.dirs.make_and_report_dir(tx.cx, meta, change);
        }
    }
}
