//! The command's own entry points: each has a runtime for itself, and hears the process's signals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use deltic_protocol::report::Notice;

use crate::config::{Facts, Further, SessionConfig};
use crate::embed::{self, Embedding, Outcome, settled};
use crate::error::SyncError;
use crate::host::restrict::Restriction;
use crate::host::user::User;
use crate::host::{Agent, AnyHost};
use crate::plan::Plan;
use crate::task::Task;
use crate::{bounds, streams, transport};

/// Longest wait for a piece of work when a run ends early: what it stages, the next run takes up.
pub(crate) const WORK_PATIENCE: Duration = Duration::from_millis(500);

/// Runs one sync to its end, or until the user interrupts it, telling `watch` what happens; the run waits while it is
/// told. `user` is asked where the [options](deltic_protocol::options::Options::asks) say so.
///
/// # Errors
/// [`SyncError`] where the run as a whole could not start or go on.
pub fn run(
    plan: Plan,
    user: &User,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Outcome, SyncError> {
    let with = Embedding { user: user.clone(), ..Embedding::default() };
    block_on(WORK_PATIENCE, async {
        let _hearing = cancel_on_signals(&with);
        embed::sync(plan, &with, watch).await
    })
}

/// Cancels with each signal that asks the program to end, from now on.
pub(crate) fn cancel_on_signals(with: &Embedding) -> Task<()> {
    let (cancel, mut told) = (with.cancel.clone(), told_to_end());
    Task::spawn(async move {
        loop {
            told.await;
            told = told_to_end();
            cancel.cancel();
        }
    })
}

/// Ends with the first signal that asks a program to end. Signals are heard from the call on, not from the first
/// poll: one that comes while a remote shell starts counts.
pub fn told_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut signals: Vec<_> =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .into_iter()
            .filter_map(|kind| signal(kind).ok())
            .collect();
    std::future::poll_fn(move |context| {
        let told = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if told { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
}

/// Waits so long; false if a signal asks the program to end meanwhile.
#[must_use]
pub fn pause(time: Duration) -> bool {
    let wait = async {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = told_to_end() => Err(SyncError::Interrupted),
        }
    };
    block_on(Duration::ZERO, wait).is_ok()
}

/// Serves one session on this process's standard input and output: the far end of `deltic sync HOST:…`. Further streams
/// may join it through a socket in one of `dirs`, the best first. `bwlimit` is in bytes a second;
/// facts about files are kept in the directory `cache`. With a `restriction`, less may be asked for, and no stream may join.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub fn agent(
    dirs: Vec<PathBuf>,
    (bwlimit, cache): (Option<u64>, Option<PathBuf>),
    restriction: Option<Restriction>,
) -> Result<(), SyncError> {
    // A socket would be outside.
    let dirs = if restriction.is_some() { Vec::new() } else { dirs };
    let further = Further::Answer { dirs };
    let host = restriction.map_or_else(|| AnyHost::new(Agent), AnyHost::new);
    let facts = cache.map_or_else(Facts::default, Facts::from);
    let config = SessionConfig { bwlimit, further, facts, host, ..SessionConfig::default() };
    let under_way = config.under_way.clone();
    // Standard input may be in the midst of a read that nothing will end.
    block_on(Duration::ZERO, async {
        let result = embed::serve(transport::stdio(), config).await;
        settled(&under_way).await;
        result
    })
}

/// Leads this process's standard input and output to a session on this machine, as one more stream of it.
///
/// # Errors
/// [`SyncError::Refused`] where none waits for it, or its token is wrong.
pub fn join() -> Result<(), SyncError> {
    block_on(Duration::ZERO, streams::relay())
}

/// Lets a write beyond the longest file that this process may make fail, from now on: the system's signal would end it.
pub fn let_long_writes_fail() {
    // Where there is no runtime to hear signals with, all is as it was.
    let _ = runtime();
}

/// Runs `work` to its end in a runtime of its own, whose threads get `patience` to end. A panic becomes an error:
/// unwinding through the runtime could wait for ever for a thread that reads.
pub(crate) fn block_on<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    let runtime = runtime()?;
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
    runtime.shutdown_timeout(patience);
    ended.unwrap_or(Err(SyncError::Internal))
}

/// Builds a runtime of one thread: whatever takes long is done by those of the executor, and tasks that hand bytes to
/// each other would only wake each other up if each had its own.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, SyncError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        built.map_err(|source| SyncError::Transport { action: "start threads", source })?;
    bounds::meet(&runtime);
    Ok(runtime)
}
