//! Entries that are here as listed: other names of their files may be linked to them (`-H`), and their sources may go
//! (`--remove-source-files`), once they are flushed: many at a time, so that the sender need not hold all of them;
//! where a source may be looked at again, or what arrived waits for its name, all at the end.

use std::collections::{BTreeSet, HashMap, HashSet};

use deltic_tree::RelPath;

use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{FileNo, ToSender};
use crate::options::Options;
use crate::report::{Notice, Trouble};
use crate::work::Setback;

use crate::receiver::ask::Work;
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;

use super::sections::Section;

/// Entries that are here, or will be.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Entries that are here; if their sources are to go.
    here: Vec<FileNo>,
    /// Entries that may still arrive, where sources go before the end.
    open: BTreeSet<FileNo>,
    /// Below this the sender was told all that arrived.
    upto: FileNo,
    /// True while entries are being flushed, to be reported.
    flushing: bool,
    /// True if that ever failed: what was lost may be of what arrived since, and a later one does not say so again.
    is_lost: bool,
    /// True once any were reported.
    begun: bool,
    /// Entries that will be here once a change is done.
    coming: HashMap<RelPath, FileNo>,
    /// Entries that are here and wait for their names.
    unnamed: HashMap<RelPath, FileNo>,
    /// True while the sender removes what arrived.
    pub(super) leaving: bool,
    /// Number of those it was told of and has not reported as removed.
    unreported: u64,
}

impl Arrivals {
    /// Takes the entry that a change at `path` was to bring.
    pub(super) fn take(&mut self, path: &RelPath) -> Option<FileNo> {
        self.coming.remove(path)
    }

    /// The number below which nothing will arrive that did not.
    fn next(&self, told: u64) -> FileNo {
        self.open.first().copied().unwrap_or(FileNo(told))
    }
}

impl Arrivals {
    /// Notes an entry that need not be brought again, though it is not here.
    pub(super) fn arrive(&mut self, cx: &mut Context, file: FileNo) {
        let Options { remove, dry_run, .. } = &cx.setting.options;
        let leaves = remove.sources && !dry_run;
        // What was given up stays.
        if leaves && (self.open.remove(&file) || !cx.setting.options.sources_go_early()) {
            self.here.push(file);
        }
    }

    /// Entries may arrive that are listed.
    pub(super) fn expect(&mut self, cx: &mut Context, section: &Section) {
        if cx.setting.options.sources_go_early() {
            let numbered = (section.first..).zip(&section.entries);
            let open = numbered.filter(|(_, entry)| !entry.meta.is_dir());
            self.open.extend(open.map(|(no, _)| FileNo(no)));
        }
    }

    /// An entry does not arrive.
    pub(super) fn stays_there(&mut self, file: FileNo) {
        self.open.remove(&file);
    }

    /// Makes what arrived so far safe, so that the sender may let go of it, once that is much or the sender holds much
    /// that stays.
    pub(super) fn let_go(&mut self, cx: &mut Context, told: u64) {
        let Self { here, upto, flushing, .. } = &*self;
        let is_early = cx.setting.options.sources_go_early() && !cx.is_closing;
        if !is_early || *flushing {
            return;
        }
        let next = self.next(told);
        if here.len() >= MAX_BATCH || next.0 - upto.0 >= 2 * MAX_BATCH as u64 {
            self.flushing = true;
            let files = std::mem::take(&mut self.here);
            cx.ask(Work::Flush, TreePending::FlushArrived { files, upto: next });
        }
    }

    /// Lets entries go that are safe now; if the flush failed, they stay.
    pub(super) fn flushed_arrived(
        &mut self,
        cx: &mut Context,
        (files, upto): (Vec<FileNo>, FileNo),
        flushed: Result<(), Setback>,
    ) {
        self.flushing = false;
        match flushed {
            Ok(()) => self.send(cx, files, upto),
            Err(setback) => {
                self.is_lost = true;
                self.send(cx, Vec::new(), upto);
                cx.trouble(setback.trouble);
            }
        }
    }

    fn send(&mut self, cx: &mut Context, files: Vec<FileNo>, upto: FileNo) {
        let files = if self.is_lost { Vec::new() } else { files };
        let (mut files, before) = (files.chunks(MAX_BATCH).peekable(), self.upto);
        (self.begun, self.upto) = (true, upto);
        loop {
            let part = files.next().unwrap_or_default().to_vec();
            let is_last = files.peek().is_none();
            self.unreported += part.len() as u64;
            let upto = if is_last { upto } else { before };
            cx.frames.push_back(ToSender::Arrived { files: part, upto, last: false });
            if is_last {
                return;
            }
        }
    }

    /// Without a flush nothing is safe.
    pub(super) fn flushed(&mut self, cx: &mut Context, flushed: Result<(), Setback>) {
        if flushed.is_err() {
            self.is_lost = true;
            self.here.clear();
        }
        cx.closed(flushed);
    }

    /// Notes an entry that is here and may still wait for its name.
    pub(super) fn waits(&mut self, cx: &mut Context, file: FileNo, path: &RelPath) {
        if cx.setting.options.writing.delay && cx.setting.options.remove.sources {
            self.unnamed.insert(path.clone(), file);
        }
    }

    /// Takes back entries that did not get their names.
    pub(super) fn landed(&mut self, cx: &mut Context, failed: Vec<(RelPath, Trouble)>) {
        let mut stay_away = HashSet::new();
        for (path, trouble) in failed {
            stay_away.extend(self.unnamed.remove(&path));
            cx.trouble(trouble);
        }
        self.here.retain(|here| !stay_away.contains(here));
        self.unnamed.clear();
    }

    /// Reports all that arrived, behind the last flush: what goes at the source must be safe here.
    pub(super) fn tell_arrived(&mut self, cx: &mut Context, told: u64) {
        let files = std::mem::take(&mut self.here);
        if files.is_empty() && !self.begun {
            return;
        }
        let upto = FileNo(told);
        self.send(cx, files, upto);
        cx.frames.push_back(ToSender::Arrived { files: Vec::new(), upto, last: true });
        self.leaving = true;
    }

    /// Takes the report of a source that is gone at the sender.
    pub(super) fn removed_source(
        &mut self,
        cx: &mut Context,
        path: RelPath,
    ) -> Result<(), PeerError> {
        let unreported = self.unreported.checked_sub(1);
        self.unreported =
            unreported.ok_or(PeerError::Unexpected("the removal of what did not arrive"))?;
        cx.notices.push_back(Notice::Removed(path));
        Ok(())
    }

    /// Takes the sender's answer: all that arrived is gone there, but for these.
    pub(super) fn gone(
        &mut self,
        cx: &mut Context,
        troubles: Vec<Trouble>,
    ) -> Result<(), PeerError> {
        if !std::mem::take(&mut self.leaving) {
            return Err(PeerError::Unexpected("the end of what did not arrive"));
        }
        cx.totals.failed += troubles.len() as u64;
        cx.notices.extend(troubles.into_iter().map(Notice::Trouble));
        Ok(())
    }

    /// Notes that an entry is here as listed once the change at `path` is done.
    pub(super) fn will_arrive(&mut self, file: FileNo, path: &RelPath) {
        self.coming.insert(path.clone(), file);
    }
}
