//! Entries, from the decision until each is in place or given up.
//!
//! The steps are in files of their own: [`deciding`](super::deciding), [`linking`](super::linking),
//! [`references`](super::references) and [`clearing`](super::clearing).

use std::collections::BTreeMap;

use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::receiver::context::Context;
use crate::receiver::files::candidate::{FileCandidate, FileOutcome, SettledFile};

use super::arrivals::EntryArrivals;
use super::clearing::BlockedEntry;
use super::comparing::ComparedFiles;
use super::deleting::PendingDeletions;
use super::dirs::ListedDirs;
use super::hard_links::{HardLinks, first_name_of};
use super::looked::PlacedEntry;
use super::touched::TouchedFiles;

/// The entries that are not settled.
#[derive(Debug, Default)]
pub(super) struct UnsettledEntries {
    pub(super) links: HardLinks,
    pub(super) arrivals: EntryArrivals,
    pub(super) comparing: ComparedFiles,
    /// Entries that wait for the alternates.
    pub(super) beside: BTreeMap<FileNo, PlacedEntry>,
    /// Entries that wait for the removal of a directory in the same place.
    pub(super) clearing: BTreeMap<FileNo, BlockedEntry>,
    pub(super) touched: TouchedFiles,
    /// Wanted files that the caller has not taken yet.
    pub(super) wanted: Vec<FileCandidate>,
}

/// The state, besides the entries, that a step of an entry may read and change.
#[derive(Debug)]
pub(super) struct TreeContext<'a> {
    pub(super) cx: &'a mut Context,
    pub(super) dirs: &'a mut ListedDirs,
    pub(super) deleting: &'a mut PendingDeletions,
}

impl UnsettledEntries {
    /// Returns the lowest number of a waiting entry.
    pub(super) fn first(&self) -> Option<FileNo> {
        let clearing = self.clearing.keys().next().copied();
        let beside = self.beside.keys().next().copied();
        let waiting = [clearing, beside, self.links.first_waiting(), self.comparing.first_file()];
        waiting.into_iter().flatten().min()
    }

    /// Notes that an entry is in place as listed, or would be in a dry run.
    pub(super) fn note_in_place(&mut self, cx: &mut Context, file: FileNo) {
        self.links.note_in_place(file);
        if cx.partial_meta.is_last {
            // The source stays: only there are the attributes that could not be set.
            self.arrivals.note_failed(file);
        } else {
            self.arrivals.note_arrived(cx, file);
        }
    }

    /// Notes that an entry will be in place once a change is done.
    pub(super) fn note_pending(&mut self, cx: &Context, file: FileNo, path: &RelPath) {
        if cx.setting.options.remove.sources || self.links.is_awaited_leader(file) {
            self.arrivals.note_pending_arrival(file, path);
        }
    }

    /// Notes that an entry will not arrive.
    pub(super) fn note_failure(&mut self, file: FileNo) {
        self.arrivals.note_failed(file);
        self.links.note_failure(file);
    }

    /// Notes that an undecided entry is given up.
    pub(super) fn note_undecided_failure(&mut self, file: FileNo, meta: &Meta) {
        self.note_failure(file);
        self.links.note_undecided_failure(first_name_of(file, meta));
    }

    /// Notes the entries that were given up with their directories.
    pub(super) fn note_given_up(&mut self, dirs: &mut ListedDirs) {
        for (file, first) in dirs.take_given_up() {
            self.note_failure(file);
            self.links.note_undecided_failure(first);
        }
    }

    /// Takes a wanted file that is settled.
    pub(super) fn take_settled_file(&mut self, tx: &mut TreeContext<'_>, settled: SettledFile) {
        let SettledFile { candidate, end, is_restless } = settled;
        let file = candidate.file;
        if let (FileOutcome::Same, Some(old)) = (end, &candidate.old) {
            self.links.keep_inode(file, old);
        }
        match end {
            FileOutcome::Failed { is_excused } => {
                tx.deleting.excused += u64::from(is_excused);
                self.note_failure(file);
            }
            // The source stays, but other names are linked to the new file.
            FileOutcome::Same | FileOutcome::Replaced if is_restless => {
                self.arrivals.note_failed(file);
                self.links.note_in_place(file);
            }
            FileOutcome::Same | FileOutcome::Replaced => {
                self.note_in_place(tx.cx, file);
                self.arrivals.note_uncommitted(tx.cx, file, &candidate.path);
            }
        }
        if end == FileOutcome::Replaced {
            tx.deleting.note_new_file(tx.cx, &candidate);
        }
    }
}
