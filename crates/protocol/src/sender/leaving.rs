//! Sources that go once they have arrived at the other end and are safe there (`--remove-source-files`).

use std::collections::BTreeMap;

use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::message::{FileNo, ToReceiver};
use crate::report::{Notice, Trouble, TroubleKind};

use super::{Place, Sender, Work};

/// Most sources that stay and are named: all fit a frame, with one that counts the others.
const MOST_NAMED: usize = 80;

/// What may go, and what is going.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// What may still arrive.
    sources: BTreeMap<FileNo, (RelPath, Meta)>,
    /// How many are being removed, and what went wrong with others, from when the first arrived.
    out: usize,
    stay: Vec<Trouble>,
    /// How many others stay, and the worst of why.
    more: Option<(u64, TroubleKind)>,
    /// Whether all have arrived that will.
    all_arrived: bool,
    /// The user is at the receiver's end, and hears of each that is removed.
    reports: bool,
}

impl Leaving {
    /// A source may go once it has arrived.
    pub(super) fn push(&mut self, file: FileNo, source: (RelPath, Meta)) {
        self.sources.insert(file, source);
    }

    /// A source stays.
    fn keep(&mut self, trouble: Trouble) {
        if self.stay.len() < MOST_NAMED {
            return self.stay.push(trouble);
        }
        let (count, kind) = self.more.unwrap_or((0, trouble.kind));
        let is_change = kind == TroubleKind::Vanished;
        self.more = Some((count + 1, if is_change { trouble.kind } else { kind }));
    }

    /// What is told of those that stay.
    fn told(&mut self) -> Vec<Trouble> {
        let mut told = std::mem::take(&mut self.stay);
        told.extend(self.more.take().map(|(count, kind)| {
            let message =
                format!("{count} more sources could not be removed, or changed: they stay");
            Trouble::new(kind, message)
        }));
        told
    }
}

impl Sender {
    /// These are at the other end, and safe there; what else is below `upto` stays.
    pub(super) fn arrived(
        &mut self,
        files: &[FileNo],
        upto: FileNo,
        last: bool,
    ) -> Result<(), PeerError> {
        let no_source = PeerError::Unexpected("the arrival of no source");
        if !self.options.remove.sources || self.leaving.all_arrived {
            return Err(no_source);
        }
        for file in files {
            let (path, meta) =
                self.leaving.sources.remove(file).ok_or_else(|| no_source.clone())?;
            self.leaving.out += 1;
            let place = Place::RemoveSource(path.clone());
            self.jobs.ask(Work::RemoveSource { path, meta }, place);
        }
        if upto.0 > self.lister.told() {
            return Err(no_source);
        }
        self.leaving.sources = self.leaving.sources.split_off(&upto);
        self.leaving.all_arrived = last;
        self.tell_gone();
        Ok(())
    }

    /// Reports each source that is removed to the receiver: the user is there, and it understands.
    pub const fn report_removed(&mut self) {
        self.leaving.reports = true;
    }

    pub(super) fn removed(&mut self, path: RelPath, removed: Result<(), Trouble>) {
        self.leaving.out -= 1;
        match removed {
            Ok(()) if self.leaving.reports => self.frames.push_back(ToReceiver::Removed(path)),
            Ok(()) => self.notices.push_back(Notice::Removed(path)),
            Err(trouble) => self.leaving.keep(trouble),
        }
        self.tell_gone();
    }

    /// Says what stays of what arrived, once the rest is gone.
    fn tell_gone(&mut self) {
        if self.leaving.all_arrived && self.leaving.out == 0 {
            let troubles = self.leaving.told();
            self.notices.extend(troubles.iter().cloned().map(Notice::Trouble));
            self.frames.push_back(ToReceiver::Gone(troubles));
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
            leaving.keep(trouble(TroubleKind::Vanished));
        }
        leaving.keep(trouble(TroubleKind::Failed));
        leaving.keep(trouble(TroubleKind::Vanished));
        let told = leaving.told();
        assert_eq!(told.len(), MOST_NAMED + 1);
        let last = &told[MOST_NAMED];
        assert_eq!(last.kind, TroubleKind::Failed);
        assert!(last.message.contains("4 more sources"), "{}", last.message);
        assert!(leaving.told().is_empty());
    }
}
