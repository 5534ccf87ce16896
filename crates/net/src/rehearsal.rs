//! A sync whose two ends are both here and watched, to measure what it costs.
//!
//! The ends are the real ones: machines, hands, stores, transport. Only the stream between them is in memory, or a link
//! of given figures ([`Rehearsal::link`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use deltic_core::strategy::Link;
use deltic_protocol::report::Notice;

use crate::conduct::Conduct;
use crate::monitor::{Either, Monitor, Spent};
use crate::plan::{Destination, Plan, Sources};
use crate::session::{Session, dial};
use crate::{Outcome, SyncError, serve, supervised, transport};

/// How to rehearse.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rehearsal {
    /// What lies between the ends; nothing where none is said.
    pub link: Option<Link>,
}

/// What a rehearsed sync cost.
#[derive(Clone, Copy, Debug)]
pub struct Rehearsed {
    /// As the dialling end, which sends, saw it.
    pub outcome: Outcome,
    /// By the end that has new.
    pub sender: Spent,
    /// By the end that has old.
    pub receiver: Spent,
    /// Wall time in which neither end did anything: both waited for the link, or for a thread to wake.
    pub waiting: Duration,
}

/// How long the end that was dialled may take to be done when the other is.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Runs one sync from here to here, telling `watch` what happens.
///
/// # Errors
/// [`SyncError`] as of [`run`](crate::run); `Usage` where one end is not here.
pub fn rehearse(
    plan: &Plan,
    rehearsal: Rehearsal,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Rehearsed, SyncError> {
    if !matches!((&plan.sources, &plan.destination), (Sources::Local(_), Destination::Local(_))) {
        return Err(SyncError::Usage("both ends of a rehearsal are here".into()));
    }
    let either = Either::default();
    let conduct = || Conduct {
        bwlimit: plan.bwlimit,
        between: rehearsal.link,
        monitor: Monitor::on(&either),
        ..Conduct::default()
    };
    let (ours, theirs) = (conduct(), conduct());
    let start = Instant::now();
    let session = async |watch: crate::session::Watch<'_>| {
        let (near, far) = rehearsal.link.map_or_else(transport::memory, transport::shaped);
        // Its errors reach us as its last word.
        let serving = tokio::spawn(serve(far, theirs.clone()));
        let (session, _) = Session::new(near, ours.clone());
        dial(session, plan, watch).await?;
        tokio::time::timeout(LAST_PATIENCE, serving).await.ok();
        Ok(())
    };
    let totals = supervised(watch, session)?;
    let (elapsed, traffic) = (start.elapsed(), Arc::clone(&ours.counters).traffic());
    Ok(Rehearsed {
        outcome: Outcome { totals, traffic, elapsed },
        sender: ours.monitor.spent(),
        receiver: theirs.monitor.spent(),
        waiting: elapsed.saturating_sub(either.busy()),
    })
}
