//! Entry points of the command. Each has its own runtime, and handles the signals of the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use deltic_protocol::report::Notice;
use deltic_store::Store;

use crate::config::{Facts, Further, SessionConfig};
use crate::embed::{
    self, DestinationRequest, Embedding, OpenDestination, Outcome, until_no_in_place_write,
};
use crate::error::SyncError;
use crate::host::restrict::Restriction;
use crate::host::{Agent, AnyHost};
use crate::plan::Plan;
use crate::rates::RateLimits;
use crate::task::Task;
use crate::{bounds, streams, transport};
use deltic_worker::user::User;

/// Longest wait for running work when a run ends early. The next run resumes from staged files.
pub(crate) const WORK_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs a sync until the end, or until the user interrupts the run. Reports events to `watch`, and waits while `watch`
/// runs. Asks `user` if the [options](deltic_protocol::options::Options::may_ask_before_deleting) say so.
///
/// # Errors
/// [`SyncError`] if the run could not start or go on.
pub fn run(
    plan: Plan,
    user: &User,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Outcome, SyncError> {
    let with = Embedding { user: user.clone(), ..Embedding::default() };
    block_on(WORK_TIMEOUT, async {
        let _hearing = cancel_on_signals(&with);
        embed::sync(plan, &with, watch).await
    })
}

/// Pulls the plan's sources over the plan's own connection into the destination that `open` opens. Runs until the end,
/// or until the user interrupts the run, as [`run`] does.
///
/// # Errors
/// [`SyncError`] as [`run`], and [`SyncError::Usage`] for a plan without a connection of its own.
pub fn pull_into<S: Store>(
    plan: Plan,
    open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
    user: &User,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Outcome, SyncError> {
    let with = Embedding { user: user.clone(), ..Embedding::default() };
    block_on(WORK_TIMEOUT, async {
        let _hearing = cancel_on_signals(&with);
        let Some(dial) = plan.dial.clone() else {
            return Err(SyncError::Usage("the sources are not a URL".into()));
        };
        let transport = dial.open().await?;
        embed::pull_into(plan, open, transport, &with, watch).await
    })
}

/// Cancels the run at each signal that asks the program to end, until the task is dropped.
pub(crate) fn cancel_on_signals(with: &Embedding) -> Task<()> {
    let (cancel, mut told) = (with.cancel.clone(), until_end_signal());
    Task::spawn(async move {
        loop {
            told.await;
            told = until_end_signal();
            cancel.cancel();
        }
    })
}

/// Waits for the first signal that asks the program to end. Signals are noticed from the call on, not from the first
/// poll, so no signal is missed while a remote shell starts.
pub fn until_end_signal() -> impl Future<Output = ()> {
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

/// Waits for `time`. Returns false if a signal asks the program to end meanwhile.
#[must_use]
pub fn wait_or_cancel(time: Duration) -> bool {
    let wait = async {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = until_end_signal() => Err(SyncError::Interrupted),
        }
    };
    block_on(Duration::ZERO, wait).is_ok()
}

/// Serves a session on this process's standard input and output: the far end of `deltic sync HOST:…`. Further streams
/// may join through a socket in one of `dirs`, the best first. Facts about files are kept in the directory `cache`.
/// `limits` hold for this end. A `restriction` limits requests, and lets no stream join.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub fn run_agent(
    dirs: Vec<PathBuf>,
    limits: RateLimits,
    cache: Option<PathBuf>,
    restriction: Option<Restriction>,
) -> Result<(), SyncError> {
    // The socket would be outside of the permitted directory.
    let dirs = if restriction.is_some() { Vec::new() } else { dirs };
    let further = Further::Answer { dirs };
    let host = restriction.map_or_else(|| AnyHost::new(Agent::default()), AnyHost::new);
    let facts = cache.map_or_else(Facts::default, Facts::from);
    let config = SessionConfig { limits, further, facts, host, ..SessionConfig::default() };
    let under_way = config.under_way.clone();
    // A thread may wait for standard input for ever.
    block_on(Duration::ZERO, async {
        let result = embed::serve(transport::stdio(), config).await;
        until_no_in_place_write(&under_way).await;
        result
    })
}

/// Connects this process's standard input and output to a session on this machine, as a further stream of that
/// session.
///
/// # Errors
/// [`SyncError::Refused`] if no session waits for a stream, or the token is wrong.
pub fn join_session() -> Result<(), SyncError> {
    block_on(Duration::ZERO, streams::relay())
}

/// Makes a write beyond the longest allowed file fail from now on. By default, the system's signal would end this
/// process.
pub fn let_long_writes_fail() {
    // Without a runtime that handles signals, writes end the process as before.
    let _ = runtime();
}

/// Runs `work` to its end in a new runtime. The threads of the runtime get `timeout` to end. A panic becomes an error,
/// since unwinding through the runtime could wait for ever for a reading thread.
pub(crate) fn block_on<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    let runtime = runtime()?;
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
    runtime.shutdown_timeout(timeout);
    ended.unwrap_or(Err(SyncError::Internal))
}

/// Builds a runtime with one thread. Long work runs on the executor's threads, and tasks on separate threads would
/// only wake each other to pass bytes on.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, SyncError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        built.map_err(|source| SyncError::Transport { action: "start threads", source })?;
    bounds::raise_open_file_limit(&runtime);
    Ok(runtime)
}
