//! Sources that go once they have arrived at the other end and are safe there (`--remove-source-files`).

use std::collections::BTreeMap;

use deltic_core::{Meta, RelPath};

use crate::error::PeerError;
use crate::message::{FileNo, ToReceiver};
use crate::report::{Notice, Trouble};

use super::{Place, Sender, Work};

/// Most sources that stay and are told of: all fit a frame.
const MOST_TOLD: usize = 128;

/// What may go, and what is going.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// What may still arrive.
    sources: BTreeMap<FileNo, (RelPath, Meta)>,
    /// How many are being removed, and what went wrong with others, from when the first arrived.
    out: usize,
    stay: Vec<Trouble>,
    /// Whether all have arrived that will.
    all_arrived: bool,
}

impl Leaving {
    /// A source may go once it has arrived.
    pub(super) fn push(&mut self, file: FileNo, source: (RelPath, Meta)) {
        self.sources.insert(file, source);
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
            self.jobs.ask(Work::RemoveSource { path, meta }, Place::RemoveSource);
        }
        if upto.0 > self.lister.told() {
            return Err(no_source);
        }
        self.leaving.sources = self.leaving.sources.split_off(&upto);
        self.leaving.all_arrived = last;
        self.tell_gone();
        Ok(())
    }

    pub(super) fn removed(&mut self, removed: Result<(), Trouble>) {
        self.leaving.out -= 1;
        let leaving = &mut self.leaving;
        leaving.stay.extend(removed.err().filter(|_| leaving.stay.len() < MOST_TOLD));
        self.tell_gone();
    }

    /// Says what stays of what arrived, once the rest is gone.
    fn tell_gone(&mut self) {
        if self.leaving.all_arrived && self.leaving.out == 0 {
            let troubles = std::mem::take(&mut self.leaving.stay);
            self.notices.extend(troubles.iter().cloned().map(Notice::Trouble));
            self.frames.push_back(ToReceiver::Gone(troubles));
        }
    }
}
