//! Keeping a destination equal to its source.

use std::time::Duration;

use deltic_net::embed;
use deltic_net::watch::{Ended, Pace, Watch};

use crate::sync::{block_on, refuse_runtime};
use crate::{Event, Outcome, SyncError, TreeSync};

/// A finished round of a watch: a sync of everything, or of the names that changed.
#[derive(Debug)]
pub struct WatchRound {
    /// Number of the round, from 1.
    pub number: u64,
    /// Result of the sync. After an error the next round compares everything.
    pub result: Result<Outcome, SyncError>,
}

impl TreeSync {
    /// Syncs now, and after each change of the source, until the [`Cancel`](crate::Cancel) of this sync is called.
    /// Calls `on_round` after each round.
    ///
    /// Runs on this thread, as [`TreeSync::run`] does. The source must be local.
    ///
    /// # Errors
    /// - [`SyncError::NoSource`] if the source is missing
    /// - [`SyncError::Usage`] if the source is not local, or inside an async runtime
    /// - [`SyncError::Watch`] if the system refuses to watch
    /// - the error of the first round: the paths are most likely wrong
    pub fn watch(
        self,
        mut on_event: impl FnMut(Event) + Send,
        mut on_round: impl FnMut(&WatchRound),
    ) -> Result<(), SyncError> {
        refuse_runtime()?;
        let with = self.with.clone();
        let cancel = with.cancel.clone();
        let ending = async move { cancel.cancelled().await };
        let mut watch = Watch::start(&self.plan()?, PACE, ending)?;
        while let Some(round) = watch.next(&mut |_| ()) {
            let result = block_on(embed::sync(round.plan.clone(), &with, &mut on_event));
            let ended = match &result {
                Err(SyncError::Interrupted) => return Ok(()),
                Err(_) if !watch.has_begun() => return result.map(drop),
                Err(_) => Ended::Broken,
                Ok(outcome) if outcome.totals.failed > 0 => Ended::Partly,
                Ok(_) => Ended::Well,
            };
            let number = round.number;
            watch.note_result(round, ended, result.as_ref().ok());
            on_round(&WatchRound { number, result });
        }
        Ok(())
    }
}

/// Changes are gathered until half a second passes without a change, and for ten seconds at most.
const PACE: Pace = Pace { delay: Duration::from_millis(500), longest: Duration::from_secs(10) };
