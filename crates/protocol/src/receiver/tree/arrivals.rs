//! Arrived entries: entries that are in place as listed. Other names of the same file may be linked to an arrived
//! entry (`-H`). Once arrived entries are flushed, their sources may be removed (`--remove-source-files`). Arrivals
//! are reported in batches, so that the sender need not remember all sources, or all at the end, if a source may be
//! read again or commits are delayed.

use std::collections::{BTreeSet, HashMap, HashSet};

use deltic_tree::RelPath;

use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{FileNo, ToSender};
use crate::options::Options;
use crate::report::{Notice, Trouble};
use crate::work::WorkError;

use crate::receiver::ask::ReceiverWork;
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;

use super::sections::DirSection;

/// Entries that have arrived or may arrive.
#[derive(Debug, Default)]
pub(super) struct EntryArrivals {
    /// Arrived entries with sources to be removed.
    arrived: Vec<FileNo>,
    /// Entries that may still arrive, if sources are removed before the end.
    open: BTreeSet<FileNo>,
    /// All arrivals of entries below this number were reported to the sender.
    upto: FileNo,
    /// True while a flush is under way, to report arrivals.
    flushing: bool,
    /// True once a flush has failed: entries that arrived since may be lost, and a later flush does not report that
    /// again.
    is_lost: bool,
    /// True once an arrival was reported.
    has_reported: bool,
    /// Entries that arrive once the change at a path is done.
    changing: HashMap<RelPath, FileNo>,
    /// Arrived entries with delayed commits, by path.
    uncommitted: HashMap<RelPath, FileNo>,
    /// True while the sender removes the sources of arrived entries.
    pub(super) removing_sources: bool,
    /// Number of reported arrivals that the sender has not reported as removed.
    unremoved: u64,
}

impl EntryArrivals {
    /// Removes and returns the entry that arrives by the change at `path`.
    pub(super) fn take_change(&mut self, path: &RelPath) -> Option<FileNo> {
        self.changing.remove(path)
    }

    /// Returns the number below which no further entry will arrive.
    fn first_possible(&self, listed_count: u64) -> FileNo {
        self.open.first().copied().unwrap_or(FileNo(listed_count))
    }
}

impl EntryArrivals {
    /// Notes an entry as arrived: in place, or left out because an alternate has the entry.
    pub(super) fn note_arrived(&mut self, cx: &mut Context, file: FileNo) {
        let Options { remove, dry_run, .. } = &cx.setting.options;
        let leaves = remove.sources && !dry_run;
        // An entry that was given up keeps its source.
        if leaves && (self.open.remove(&file) || !cx.setting.options.may_remove_sources_early()) {
            self.arrived.push(file);
        }
    }

    /// Notes that the entries of a section may arrive, if sources are removed before the end. Directories are never
    /// removed at the source.
    pub(super) fn note_expected(&mut self, cx: &mut Context, section: &DirSection) {
        if cx.setting.options.may_remove_sources_early() {
            let numbered = (section.first..).zip(&section.entries);
            let open = numbered.filter(|(_, entry)| !entry.meta.is_dir());
            self.open.extend(open.map(|(no, _)| FileNo(no)));
        }
    }

    /// Notes that an entry will not arrive, so its source is not removed.
    pub(super) fn note_failed(&mut self, file: FileNo) {
        self.open.remove(&file);
    }

    /// Flushes and reports the arrivals so far, once there are many, or once the sender remembers many sources that
    /// will stay.
    pub(super) fn flush_early(&mut self, cx: &mut Context, listed_count: u64) {
        let Self { arrived, upto, flushing, .. } = &*self;
        let is_early = cx.setting.options.may_remove_sources_early() && !cx.is_closing;
        if !is_early || *flushing {
            return;
        }
        let next = self.first_possible(listed_count);
        if arrived.len() >= MAX_BATCH || next.0 - upto.0 >= 2 * MAX_BATCH as u64 {
            self.flushing = true;
            let files = std::mem::take(&mut self.arrived);
            cx.request_work(ReceiverWork::Flush, TreePending::FlushArrived { files, upto: next });
        }
    }

    /// Reports flushed arrivals, so that their sources may be removed; if the flush failed, the sources stay.
    pub(super) fn take_early_flush(
        &mut self,
        cx: &mut Context,
        files: Vec<FileNo>,
        upto: FileNo,
        flushed: Result<(), WorkError>,
    ) {
        self.flushing = false;
        match flushed {
            Ok(()) => self.send_arrivals(cx, files, upto),
            Err(error) => {
                self.is_lost = true;
                self.send_arrivals(cx, Vec::new(), upto);
                cx.count_failure(error.trouble);
            }
        }
    }

    fn send_arrivals(&mut self, cx: &mut Context, files: Vec<FileNo>, upto: FileNo) {
        let files = if self.is_lost { Vec::new() } else { files };
        let (mut files, before) = (files.chunks(MAX_BATCH).peekable(), self.upto);
        (self.has_reported, self.upto) = (true, upto);
        loop {
            let part = files.next().unwrap_or_default().to_vec();
            let is_last = files.peek().is_none();
            self.unremoved += part.len() as u64;
            let upto = if is_last { upto } else { before };
            cx.frames.push_back(ToSender::Arrived { files: part, upto, last: false });
            if is_last {
                return;
            }
        }
    }

    /// Takes the result of the last flush; if it failed, no source may be removed.
    pub(super) fn take_last_flush(&mut self, cx: &mut Context, flushed: Result<(), WorkError>) {
        if flushed.is_err() {
            self.is_lost = true;
            self.arrived.clear();
        }
        cx.take_closing_result(flushed);
    }

    /// Notes an arrived entry, in case its commit is delayed.
    pub(super) fn note_uncommitted(&mut self, cx: &mut Context, file: FileNo, path: &RelPath) {
        if cx.setting.options.writing.delay && cx.setting.options.remove.sources {
            self.uncommitted.insert(path.clone(), file);
        }
    }

    /// Takes the result of the delayed commits. Reports each failure; the sources of the `failed` entries stay.
    pub(super) fn take_delayed_commits(
        &mut self,
        cx: &mut Context,
        failed: Vec<(RelPath, Trouble)>,
    ) {
        let mut stay_away = HashSet::new();
        for (path, trouble) in failed {
            stay_away.extend(self.uncommitted.remove(&path));
            cx.count_failure(trouble);
        }
        self.arrived.retain(|arrived| !stay_away.contains(arrived));
        self.uncommitted.clear();
    }

    /// Reports all arrivals after the last flush: an entry must be safe here before the source is removed.
    pub(super) fn report_all(&mut self, cx: &mut Context, listed_count: u64) {
        let files = std::mem::take(&mut self.arrived);
        if files.is_empty() && !self.has_reported {
            return;
        }
        let upto = FileNo(listed_count);
        self.send_arrivals(cx, files, upto);
        cx.frames.push_back(ToSender::Arrived { files: Vec::new(), upto, last: true });
        self.removing_sources = true;
    }

    /// Takes the report of a source that the sender removed. Errors: `Unexpected` if no reported arrival is left.
    pub(super) fn receive_removed_source(
        &mut self,
        cx: &mut Context,
        path: RelPath,
    ) -> Result<(), PeerError> {
        let unremoved = self.unremoved.checked_sub(1);
        self.unremoved = unremoved
            .ok_or(PeerError::Unexpected("the removal of a source that did not arrive"))?;
        cx.notices.push_back(Notice::Removed(path));
        Ok(())
    }

    /// Takes the sender's final answer: the sources of arrivals are removed, except for the sources in `troubles`.
    pub(super) fn receive_sources_removed(
        &mut self,
        cx: &mut Context,
        troubles: Vec<Trouble>,
    ) -> Result<(), PeerError> {
        if !std::mem::take(&mut self.removing_sources) {
            return Err(PeerError::Unexpected("the end of removals that were not requested"));
        }
        cx.totals.failed += troubles.len() as u64;
        cx.notices.extend(troubles.into_iter().map(Notice::Trouble));
        Ok(())
    }

    /// Notes that an entry arrives once the change at `path` is done.
    pub(super) fn note_pending_arrival(&mut self, file: FileNo, path: &RelPath) {
        self.changing.insert(path.clone(), file);
    }
}
