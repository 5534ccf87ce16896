//! Sources that go once they have arrived at the other end and are safe there (`--remove-source-files`).

use std::collections::BTreeMap;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::{FileNo, ToReceiver};
use crate::report::{Notice, Trouble, TroubleKind};

use super::ask::Work;
use super::context::Context;
use super::pending::Pending;

/// Most sources that stay and are named, with one that counts the others.
const MOST_NAMED: usize = 80;
/// Bytes of a frame for each of them: the longest fit.
const TROUBLE_BYTES: usize = 12 << 10;

/// Sources that may go, and those that are going.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Those that may still arrive.
    sources: BTreeMap<FileNo, (RelPath, Meta)>,
    /// Removals under way, and what went wrong with others, from when the first arrived.
    out: usize,
    stay: Vec<Trouble>,
    /// The number of others that stay, and the worst of why.
    more: Option<(u64, TroubleKind)>,
    /// All have arrived that will.
    all_arrived: bool,
    /// The user is at the receiver's end, and hears of each that is removed.
    pub(super) reports: bool,
}

impl Leaving {
    /// Adds a source that may go once it has arrived.
    pub(super) fn push(&mut self, file: FileNo, source: (RelPath, Meta)) {
        self.sources.insert(file, source);
    }

    /// Notes that a source stays.
    fn keep(&mut self, trouble: Trouble, limits: &Limits) {
        if self.stay.len() < MOST_NAMED.min(limits.frame_bytes / TROUBLE_BYTES) {
            return self.stay.push(trouble);
        }
        let (count, kind) = self.more.unwrap_or((0, trouble.kind));
        let is_change = kind == TroubleKind::Vanished;
        self.more = Some((count + 1, if is_change { trouble.kind } else { kind }));
    }

    /// The troubles of those that stay.
    fn told(&mut self) -> Vec<Trouble> {
        let mut told = std::mem::take(&mut self.stay);
        told.extend(self.more.take().map(|(count, kind)| {
            let message =
                format!("{count} more sources could not be removed, or changed: they stay");
            Trouble::new(kind, message)
        }));
        told
    }

    /// Removes sources that are safe at the other end; what else is below `upto` stays. So many entries were `listed`.
    pub(super) fn arrived(
        &mut self,
        cx: &mut Context,
        files: &[FileNo],
        (upto, listed): (FileNo, u64),
        last: bool,
    ) -> Result<(), PeerError> {
        let no_source = PeerError::Unexpected("the arrival of no source");
        if !cx.options.remove.sources || self.all_arrived {
            return Err(no_source);
        }
        for file in files {
            let (path, meta) = self.sources.remove(file).ok_or_else(|| no_source.clone())?;
            self.out += 1;
            let pending = Pending::RemoveSource(path.clone());
            cx.jobs.ask(Work::RemoveSource { path, meta }, pending);
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

    /// Sends which of the sources that arrived stay, once the rest is gone.
    fn send_gone(&mut self, cx: &mut Context) {
        if self.all_arrived && self.out == 0 {
            let troubles = self.told();
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
        let mut leaving = Leaving::default();
        for _ in 0..MOST_NAMED + 2 {
            leaving.keep(trouble(TroubleKind::Vanished), &Limits::default());
        }
        leaving.keep(trouble(TroubleKind::Failed), &Limits::default());
        leaving.keep(trouble(TroubleKind::Vanished), &Limits::default());
        let told = leaving.told();
        assert_eq!(told.len(), MOST_NAMED + 1);
        let last = &told[MOST_NAMED];
        assert_eq!(last.kind, TroubleKind::Failed);
        assert!(last.message.contains("4 more sources"), "{}", last.message);
        assert!(leaving.told().is_empty());
    }
}
