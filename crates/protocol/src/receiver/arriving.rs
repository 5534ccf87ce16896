//! Entries that are here as listed: other names of their files may be linked to them (`-H`), and their sources may go
//! (`--remove-source-files`), once all is flushed.

use std::collections::{HashMap, HashSet};

use deltic_core::RelPath;

use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{FileNo, ToSender};
use crate::report::{Notice, Trouble};

use super::Receiver;

/// What is here, or will be.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Entries that are here; if their sources are to go.
    here: Vec<FileNo>,
    /// Those that will be once a change is done.
    coming: HashMap<RelPath, FileNo>,
    /// Of those that are here, what waits for its name.
    unnamed: HashMap<RelPath, FileNo>,
    /// Whether the sender removes what arrived.
    leaving: bool,
}

impl Arrivals {
    /// Takes the entry that a change at `path` was to bring.
    pub(super) fn take(&mut self, path: &RelPath) -> Option<FileNo> {
        self.coming.remove(path)
    }

    /// Whether the sender was told, and has not answered.
    pub(super) const fn are_leaving(&self) -> bool {
        self.leaving
    }
}

impl Receiver {
    /// An entry is here as listed, or would be in a dry run.
    pub(super) fn arrive(&mut self, file: FileNo) {
        self.came(file);
        self.arrive_elsewhere(file);
    }

    /// What an entry brings need not be brought again, though it is not here.
    pub(super) fn arrive_elsewhere(&mut self, file: FileNo) {
        if self.setting.options.remove.sources && !self.setting.options.dry_run {
            self.arrivals.here.push(file);
        }
    }

    /// An entry is here as listed once a change of it is done.
    pub(super) fn will_arrive(&mut self, file: FileNo, path: &RelPath) {
        if self.setting.options.remove.sources || self.linking.leads(file) {
            self.arrivals.coming.insert(path.clone(), file);
        }
    }

    /// What is here may still wait for its name.
    pub(super) fn waits(&mut self, file: FileNo, path: &RelPath) {
        if self.setting.options.writing.delay && self.setting.options.remove.sources {
            self.arrivals.unnamed.insert(path.clone(), file);
        }
    }

    /// What did not get its name did not arrive.
    pub(super) fn landed(&mut self, failed: Vec<(RelPath, Trouble)>) {
        let mut stay_away = HashSet::new();
        for (path, trouble) in failed {
            stay_away.extend(self.arrivals.unnamed.remove(&path));
            self.trouble(trouble);
        }
        self.arrivals.here.retain(|here| !stay_away.contains(here));
        self.arrivals.unnamed.clear();
    }

    /// Not before all is flushed: what goes at the source must be safe here.
    pub(super) fn tell_arrived(&mut self) {
        if self.arrivals.here.is_empty() {
            return;
        }
        for files in self.arrivals.here.chunks(MAX_BATCH) {
            self.frames.push_back(ToSender::Arrived(files.to_vec()));
        }
        self.frames.push_back(ToSender::Arrived(Vec::new()));
        self.arrivals.leaving = true;
    }

    /// What arrived is gone at the sender, but for this.
    pub(super) fn gone(&mut self, troubles: Vec<Trouble>) -> Result<(), PeerError> {
        if !std::mem::take(&mut self.arrivals.leaving) {
            return Err(PeerError::Unexpected("the end of what did not arrive"));
        }
        self.totals.failed += troubles.len() as u64;
        self.notices.extend(troubles.into_iter().map(Notice::Trouble));
        Ok(())
    }
}
