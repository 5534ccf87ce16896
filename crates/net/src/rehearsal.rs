//! A sync with both ends in this process, to measure its costs.
//!
//! The ends are the real machines, workers, stores and transport. Only the stream between them is in memory, or a
//! simulated link ([`Rehearsal::link`]).

use std::fmt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use deltic_core::strategy::LinkModel;
use deltic_protocol::report::Notice;

use crate::config::SessionConfig;
use crate::embed::{Embedding, run_until_cancelled, serve};
use crate::monitor::{Either, Monitor, Spent};
use crate::plan::{Destination, Plan, Sources};
use crate::run::{WORK_TIMEOUT, block_on, cancel_on_signals};
use crate::session::{Session, dial};
use crate::shape::{LineDirection, simulate_direction};
pub use crate::shape::{Reserve, reservation_end};
use crate::task::Task;
use crate::{Outcome, SyncError, transport};

/// Settings of a rehearsal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rehearsal {
    /// The simulated link between the ends; `None` to connect the ends in memory. Both ends know the link at first.
    pub link: Option<LinkModel>,
}

/// Measured costs of a sync with both ends in this process.
#[derive(Clone, Copy, Debug)]
pub struct Rehearsed {
    /// Result of the connecting end, which is the sender.
    pub outcome: Outcome,
    /// Costs of the sender.
    pub sender: Spent,
    /// Costs of the receiver.
    pub receiver: Spent,
    /// Wall time in which neither end was at work: both waited for the link, or for a thread to wake.
    pub waiting: Duration,
}

/// Longest time that the serving end may take after the connecting end has finished.
const LAST_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a sync between local directories, and reports events to `watch`. Both ends follow the strategy of `plan`, also
/// where its choices differ from those of the preset of its name. So a benchmark can compare presets with one hash.
///
/// # Errors
/// [`SyncError`], as [`run`](crate::run); `Usage` if a side is remote.
pub fn rehearse(
    plan: &Plan,
    rehearsal: Rehearsal,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Rehearsed, SyncError> {
    if !matches!((&plan.sources, &plan.destination), (Sources::Local(_), Destination::Local(_))) {
        return Err(SyncError::Usage(
            "a rehearsal needs a local source and a local destination".into(),
        ));
    }
    let either = Either::default();
    let config = || SessionConfig {
        limits: plan.limits.clone(),
        between: rehearsal.link,
        monitor: Monitor::reporting_to(&either),
        ..SessionConfig::default()
    };
    let ours = config();
    // A request names a strategy only. The other end needs the choices that this plan changes.
    let strategy = Some(plan.options.strategy);
    let theirs = SessionConfig { under_way: ours.under_way.clone(), strategy, ..config() };
    let with = Embedding::default();
    let outcome = block_on(WORK_TIMEOUT, async {
        let _hearing = cancel_on_signals(&with);
        let (near, far) = rehearsal.link.map_or_else(transport::memory, transport::simulated);
        // Errors of the task arrive as an abort frame.
        let serving = Task::spawn(serve(far, theirs.clone()));
        let (session, plan) = (Session::new(near, ours.clone()), plan.clone());
        run_until_cancelled(&ours, &with, watch, |watch| {
            Box::pin(async move {
                dial(session, plan, watch).await?;
                tokio::time::timeout(LAST_TIMEOUT, serving).await.ok();
                Ok(())
            })
        })
        .await
    })?;
    Ok(Rehearsed {
        outcome,
        sender: ours.monitor.costs(),
        receiver: theirs.monitor.costs(),
        waiting: outcome.elapsed.saturating_sub(either.busy()),
    })
}

/// A simulated link to a program, which may share its line with other processes.
pub struct FarLink {
    /// Rate and round trip.
    pub figures: LinkModel,
    /// Time that bytes wait in front of the line at most. Bytes that must wait longer stay in the pipe of their writer.
    pub queue: Duration,
    /// The line to the far end, and the line back.
    pub lines: [Reserve; 2],
}

/// A link with lines of its own, without a queue.
impl From<LinkModel> for FarLink {
    fn from(figures: LinkModel) -> Self {
        let lines = [(); 2].map(|()| LineDirection::from(figures).reserve);
        Self { figures, queue: Duration::ZERO, lines }
    }
}

impl fmt::Debug for FarLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarLink").field("figures", &self.figures).finish_non_exhaustive()
    }
}

/// Runs `command` at the far end of a simulated link, to measure other programs over the same link. The near end is the
/// standard input and output of this process. Returns the exit status.
///
/// # Errors
/// [`SyncError`] if the command cannot be started.
pub fn run_at_far_end(link: FarLink, command: Command) -> Result<ExitStatus, SyncError> {
    let FarLink { figures, queue, lines } = link;
    let [there, back] = lines.map(|reserve| LineDirection { figures, queue, reserve });
    let program = command.get_program().to_string_lossy().into_owned();
    // A thread may still be waiting for standard input.
    block_on(Duration::ZERO, async {
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|source| SyncError::Start { program, source })?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let to = to.expect("standard input is piped");
        let from = from.expect("standard output is piped");
        // This task is not awaited: the run must end with the command, even if standard input stays open.
        tokio::spawn(simulate_direction(transport::standard_input(), to, there));
        simulate_direction(from, transport::standard_output(), back).await;
        let failed = |source| SyncError::Transport { action: "wait for the far end", source };
        child.wait().await.map_err(failed)
    })
}
