//! Removal of sources that have arrived and are flushed at the destination (`--remove-source-files`).

use std::collections::BTreeMap;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::{FileNo, ToReceiver};
use crate::report::{Notice, Trouble, TroubleKind};

use super::ask::SenderWork;
use super::context::Context;
use super::pending::SenderPending;

/// Maximum number of remaining sources that are reported by name. One more trouble reports the number of others.
const MOST_NAMED: usize = 80;
/// Maximum size of a trouble in a frame, in bytes.
const TROUBLE_BYTES: usize = 12 << 10;

/// Sources that may be removed, and removals under way.
#[derive(Debug, Default)]
pub(super) struct SourceRemoval {
    /// Sources that the receiver has not reported as arrived, with path and metadata.
    sources: BTreeMap<FileNo, (RelPath, Meta)>,
    /// Number of removals under way. `stay` holds the troubles of failed removals.
    out: usize,
    stay: Vec<Trouble>,
    /// Number of remaining sources that are not in `stay`, and the worst kind of their troubles.
    more: Option<(u64, TroubleKind)>,
    /// True once the receiver has reported the last arrival.
    all_arrived: bool,
    /// True if the user is at the receiver's end: each removal is then sent to the receiver.
    pub(super) reports: bool,
}

/// Content of an `Arrived` frame: files that are flushed to disk at the destination.
#[derive(Debug)]
pub(super) struct ArrivedFiles {
    pub(super) files: Vec<FileNo>,
    /// No further file with a number below `upto` will arrive.
    pub(super) upto: FileNo,
    /// True if no further file will arrive.
    pub(super) last: bool,
}

impl SourceRemoval {
    /// Adds a source that may be removed after its arrival.
    pub(super) fn push(&mut self, file: FileNo, path: RelPath, meta: Meta) {
        self.sources.insert(file, (path, meta));
    }

    /// Records a source that remains.
    fn keep(&mut self, trouble: Trouble, limits: &Limits) {
        if self.stay.len() < MOST_NAMED.min(limits.frame_bytes / TROUBLE_BYTES) {
            return self.stay.push(trouble);
        }
        let (count, kind) = self.more.unwrap_or((0, trouble.kind));
        let is_change = kind == TroubleKind::Vanished;
        self.more = Some((count + 1, if is_change { trouble.kind } else { kind }));
    }

    /// Removes and returns the troubles of the remaining sources.
    fn take_troubles(&mut self) -> Vec<Trouble> {
        let mut troubles = std::mem::take(&mut self.stay);
        troubles.extend(self.more.take().map(|(count, kind)| {
            let message = format!(
                "{count} more sources were not removed: they changed or could not be deleted"
            );
            Trouble::new(kind, message)
        }));
        troubles
    }

    /// Removes sources that are flushed at the destination. Other sources below `arrived.upto` remain. `listed` is the
    /// number of listed entries.
    pub(super) fn arrived(
        &mut self,
        cx: &mut Context,
        arrived: ArrivedFiles,
        listed: u64,
    ) -> Result<(), PeerError> {
        let ArrivedFiles { files, upto, last } = arrived;
        let no_source = PeerError::Unexpected("the arrival of a file that is not a source");
        if !cx.options.remove.sources || self.all_arrived {
            return Err(no_source);
        }
        for file in &files {
            let (path, meta) = self.sources.remove(file).ok_or_else(|| no_source.clone())?;
            self.out += 1;
            let pending = SenderPending::RemoveSource(path.clone());
            cx.jobs.request(SenderWork::RemoveSource { path, meta }, pending);
        }
        if upto.0 > listed {
            return Err(no_source);
        }
        self.sources = self.sources.split_off(&upto);
        self.all_arrived = last;
        self.send_gone(cx);
        Ok(())
    }

    pub(super) fn removed(
        &mut self,
        cx: &mut Context,
        path: RelPath,
        removed: Result<(), Trouble>,
    ) {
        self.out -= 1;
        match removed {
            Ok(()) if self.reports => cx.send(ToReceiver::Removed(path)),
            Ok(()) => cx.notices.push_back(Notice::Removed(path)),
            Err(trouble) => self.keep(trouble, &cx.limits),
        }
        self.send_gone(cx);
    }

    /// Sends the troubles of the remaining sources, once all removals are done.
    fn send_gone(&mut self, cx: &mut Context) {
        if self.all_arrived && self.out == 0 {
            let troubles = self.take_troubles();
            cx.notices.extend(troubles.iter().cloned().map(Notice::Trouble));
            cx.send(ToReceiver::Gone(troubles));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_named_is_counted_and_the_worst_counts() {
        let trouble = |kind| Trouble::new(kind, "sad");
        let mut leaving = SourceRemoval::default();
        for _ in 0..MOST_NAMED + 2 {
            leaving.keep(trouble(TroubleKind::Vanished), &Limits::default());
        }
        leaving.keep(trouble(TroubleKind::Failed), &Limits::default());
        leaving.keep(trouble(TroubleKind::Vanished), &Limits::default());
        let troubles = leaving.take_troubles();
        assert_eq!(troubles.len(), MOST_NAMED + 1);
        let last = &troubles[MOST_NAMED];
        assert_eq!(last.kind, TroubleKind::Failed);
        assert!(last.message.contains("4 more sources"), "{}", last.message);
        assert!(leaving.take_troubles().is_empty());
    }
}
