//! Sessions in a program that has its own runtime: this module starts no runtime and handles no signals.
//!
//! [`sync`] runs a sync of the connecting end, with the other end in this process or behind a remote shell.
//! [`sync_over`] does so over any byte stream, and [`serve_over`] is the other end. Each returns a future that may be
//! spawned. Dropping the future frees its resources. A [cancelled](Cancel) run ends as if interrupted, once no file is
//! changing in place.
//!
//! A write beyond the longest allowed file raises a signal, which ends a process without a handler for the signal
//! ([`let_long_writes_fail`](crate::let_long_writes_fail) installs a handler).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};

use deltic_core::strategy::PackingTotals;
pub use deltic_engine::sums::SumCounts;
use deltic_protocol::options::Options;
use deltic_protocol::report::{Notice, Totals, Trouble, TroubleKind};
use deltic_store::{Store, Tree};
pub use deltic_store_local::cache::{Bases, LocalFacts, RecipeCache};
use deltic_store_local::{StoreContext, UnderWay};
pub use deltic_worker::owners::Accounts;

use crate::batch::{self, Batch};
pub use crate::config::Facts;
use crate::config::{Further, SessionConfig};
use crate::error::SyncError;
use crate::executor::{Budget, Executor};
use crate::host::restrict::Restriction;
use crate::host::user::{Conversation, Watch};
use crate::host::{Agent, AnyHost, destination, place};
use crate::learned::{InstalledNote, LinkNote};
use crate::plan::{
    self, Destination, Plan, RoundTrip, Sources, StoreTraffic, Traffic, remote_host,
};
pub use crate::session::{DestinationRequest, OpenDestination, Served};
use crate::session::{Session, SourcePaths, adapt_to_plan, dial};
use crate::task::Task;
use crate::timeouts;
use crate::transport::{self, Ends, Heard, Part, Shell};
use deltic_worker::old_sums::OldSums;
use deltic_worker::user::User;

/// Longest time between the end of a connection and the signal that caused this end.
const SIGNAL_LATENESS: Duration = Duration::from_millis(100);

/// Pause between two checks for files that are changing in place.
const SETTLING: Duration = Duration::from_millis(10);

/// Resources that a program provides to its sessions.
#[derive(Clone, Debug, Default)]
pub struct Embedding {
    /// Threads that do the work, by default the threads that the process shares.
    pub executor: Executor,
    /// Limits of a session to threads, memory and open files.
    pub budget: Budget,
    /// The user to ask if the options say so.
    pub user: User,
    /// Ends the session from another task or thread.
    pub cancel: Cancel,
    /// Store of digests, recipes and bases of files, for later sessions. A run with its own cache directory uses that
    /// directory instead.
    pub facts: Facts,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Counts of the work done.
    pub totals: Totals,
    /// Bytes on the wire.
    pub traffic: Traffic,
    /// Wall time from the first connection to the last flush.
    pub elapsed: Duration,
    /// The link to the other end, as far as this end sent over it.
    pub link: LinkReport,
    /// Sums of this end by their source, if a strategy of a paper ran. Of both ends, if both are in this process.
    pub sums: SumCounts,
    /// Traffic with a store that a URL names.
    pub store: StoreTraffic,
}

/// Rate of the link to the other end, and compression of literals, measured by one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Rate of the link for the data, in bits a second, as the sender measured it. `None` if the link never limited the
    /// rate.
    pub bits_per_second: Option<u64>,
    /// Round trip between the ends, as the sender measured it. `None` if the sender sent too little.
    pub round_trip: Option<RoundTrip>,
    /// Literals that this end sent over a network, by their compression.
    pub packing: PackingTotals,
}

/// Ends sessions from another task or thread. Clones end the same sessions.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<watch::Sender<u32>>);

impl Cancel {
    /// Ends the sessions with [`SyncError::Interrupted`]. A session that is changing a file in place first completes
    /// that file; a second call ends the session at once.
    pub fn cancel(&self) {
        self.0.send_modify(|times| *times += 1);
    }

    /// Waits until [`cancel`](Self::cancel) is called.
    pub async fn cancelled(&self) {
        // This value holds the sender, so the wait does not fail.
        let _ = self.0.subscribe().wait_for(|calls| *calls > 0).await;
    }

    /// Waits until [`cancel`](Self::cancel) is called once more.
    async fn cancelled_again(&self) {
        let before = *self.0.borrow();
        let _ = self.0.subscribe().wait_for(|calls| *calls > before).await;
    }
}

/// Runs a sync to its end, and reports events to `watch`. The run waits while `watch` runs. If the remote shell does
/// not find the program in `PATH`, the run starts again with the program that `deltic install` copies. The next runs to
/// the same machine begin with that program.
///
/// # Errors
/// [`SyncError`] if the run could not start or go on.
pub async fn sync(plan: Plan, with: &Embedding, watch: Watch<'_>) -> Result<Outcome, SyncError> {
    let is_by_shell = plan.batch.is_none() && plan.dial.is_none();
    let Some(remote) = plan.remote.installed().filter(|_| is_by_shell) else {
        return sync_once(plan, with, watch).await;
    };
    let note = InstalledNote::of(&plan);
    let by_installed = Plan { remote, ..plan.clone() };
    let is_noted = note.as_ref().is_some_and(InstalledNote::is_set);
    let (first, second) = if is_noted { (by_installed, plan) } else { (plan, by_installed) };
    let ended = sync_once(first, with, watch).await;
    if !matches!(ended, Err(SyncError::NoRemoteProgram)) {
        return ended;
    }
    let ended = sync_once(second, with, watch).await;
    if !matches!(ended, Err(SyncError::NoRemoteProgram)) {
        note.iter().for_each(|note| note.set(!is_noted));
    }
    ended
}

async fn sync_once(plan: Plan, with: &Embedding, watch: Watch<'_>) -> Result<Outcome, SyncError> {
    let mut config = config(&plan, with)?;
    let note = LinkNote::of(&plan);
    config.learned = note.as_ref().and_then(LinkNote::rate);
    let (shell, counters) = (config.shell.clone(), Arc::clone(&config.counters));
    let failed_traffic = plan.failed_traffic.clone();
    let store_traffic = plan.dial.as_ref().and_then(|dial| dial.traffic.clone());
    let before = store_traffic.as_ref().map(|store_traffic| store_traffic());
    let ended = run_until_cancelled(&config.clone(), with, watch, |watch| {
        Box::pin(async move {
            match plan.batch.clone() {
                Some(plan::Batch::Read { file, name }) => {
                    let batch = Batch::open(file, &name, &plan)?;
                    let plan = batch.plan(plan);
                    converse(plan, SessionConfig { batch: Some(batch), ..config }, watch).await
                }
                _ => batch::write(plan, converse, config, watch).await,
            }
        })
    })
    .await;
    let mut traffic = counters.traffic();
    let store =
        store_traffic.zip(before).map(|(store_traffic, before)| store_traffic().since(before));
    if let Some(StoreTraffic { received, .. }) = store {
        traffic.received = received;
    }
    if ended.is_err() {
        failed_traffic.add_failed_attempt(traffic);
        end_shell(shell).await;
    } else if let Some(note) = note {
        note.note_run(&counters);
    }
    Ok(Outcome { traffic, store: store.unwrap_or_default(), ..ended? })
}

/// Ends the remote shell of a failed run, since a hanging shell would outlive this process. Waits on a separate thread
/// if a thread can be started.
async fn end_shell(shell: Shell) {
    let (done, stopped) = oneshot::channel();
    let there = shell.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        there.end_shell();
        done.send(()).ok();
    });
    match thread {
        Ok(_) => stopped.await.unwrap_or_default(),
        Err(_) => shell.end_shell(),
    }
}

/// Runs a sync with the other end of `transport`. The host in the plan is not used.
///
/// # Errors
/// [`SyncError`], as [`sync`].
pub async fn sync_over(
    plan: Plan,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
    watch: Watch<'_>,
) -> Result<Outcome, SyncError> {
    let config = config(&plan, with)?;
    run_until_cancelled(&config.clone(), with, watch, |watch| {
        let (timeouts, counters) = (plan.timeouts, Arc::clone(&config.counters));
        let session = Session::new(transport::over_stream(transport), config);
        Box::pin(async move {
            tokio::select! {
                result = dial(session, plan, watch) => result,
                error = timeouts::wait_for_timeout(&timeouts, &counters) => Err(error),
            }
        })
    })
    .await
}

/// Pulls the plan's sources from the other end of `transport` into the destination that `open` opens for the plan's
/// destination. Opens no local tree: only facts are read from the local disk, if the plan names a cache.
///
/// # Errors
/// [`SyncError`], as [`sync`]; [`SyncError::Usage`] if the plan's sources are not at the other end.
pub async fn pull_into<S: Store>(
    plan: Plan,
    open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
    watch: Watch<'_>,
) -> Result<Outcome, SyncError> {
    let Sources::Remote { paths, .. } = plan.sources.clone() else {
        return Err(SyncError::Usage("the sources of a pull are at the other end".into()));
    };
    let path: Box<[u8]> = match &plan.destination {
        Destination::Local(path) => path.as_os_str().as_encoded_bytes().into(),
        Destination::Remote { path, .. } => path.as_encoded_bytes().into(),
    };
    let config = config_of(&plan, with);
    run_until_cancelled(&config.clone(), with, watch, |watch| {
        let (timeouts, counters) = (plan.timeouts, Arc::clone(&config.counters));
        let (session, options) =
            adapt_to_plan(Session::new(transport::over_stream(transport), config), &plan);
        Box::pin(async move {
            let request = DestinationRequest { path, single: None, options };
            let sources = SourcePaths { paths: &paths, names: plan.names };
            let pull = session.pull_into(sources, request, open, watch);
            tokio::select! {
                result = pull => result,
                error = timeouts::wait_for_timeout(&timeouts, &counters) => Err(error),
            }
        })
    })
    .await
}

/// Receives the files that the other end of `transport` pushes, into the destination that `open` opens for its
/// request. `open` may block.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub async fn receive_into<S: Store>(
    open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    let config = with.config();
    run_until_cancelled(&config.clone(), with, &mut |_| (), |watch| {
        Box::pin(
            Session::new(transport::over_stream(transport), config).serve_destination(open, watch),
        )
    })
    .await
}

/// Serves the request of the other end of `transport`, with all rights of this process.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub async fn serve_over(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<(), SyncError> {
    serve_as(AnyHost::new(Agent::default()), transport, with).await.map(drop)
}

impl Embedding {
    fn config(&self) -> SessionConfig {
        let Self { executor, budget, user, facts, .. } = self.clone();
        SessionConfig { executor, budget, user, facts, ..SessionConfig::default() }
    }
}

/// Returns this end's configuration for a plan, without settings that depend on the destination.
fn config_of(plan: &Plan, with: &Embedding) -> SessionConfig {
    let old_sums = plan.dial.as_ref().and_then(|dial| dial.old_sums.clone());
    SessionConfig {
        limits: plan.limits.clone(),
        facts: plan.cache.clone().map_or_else(|| with.facts.clone(), Facts::from),
        asks_reasons: plan.asks_reasons,
        moved: plan.moved.clone(),
        // The end that reads a store is in this process, and lends its sums of old versions.
        is_near: old_sums.is_some(),
        old_sums,
        ..with.config()
    }
}

/// Checks the destination of a plan, and returns this end's configuration.
fn config(plan: &Plan, with: &Embedding) -> Result<SessionConfig, SyncError> {
    place::check_len(match &plan.destination {
        Destination::Local(path) => path.as_os_str(),
        Destination::Remote { path, .. } => path,
    })?;
    let config = config_of(plan, with);
    let Destination::Local(to) = &plan.destination else { return Ok(config) };
    if plan.options.select.list_only {
        return Ok(config);
    }
    let (mkpath, context) = (plan.options.select.mkpath, StoreContext::default());
    // An unusable destination is reported later, when the run opens the destination.
    let Ok(resolved) =
        place::resolve(&place::to_local_path(to.as_os_str()), None, mkpath, &context)
    else {
        return Ok(config);
    };
    let Sources::Local(from) = &plan.sources else {
        destination::check_dirs(&resolved.root, &[], &plan.options, &context)?;
        return Ok(config);
    };
    destination::check_dirs(&resolved.root, from, &plan.options, &context)?;
    let inside = match plan.options.recursive {
        true => place::source_containing(from, plan.options.follow.follow, &resolved, &context)?,
        false => None,
    };
    let inside = inside.map(|inside| inside.destination);
    Ok(SessionConfig { inside, beside: Some(resolved.root), ..config })
}

/// Runs the session of a plan.
fn converse(plan: Plan, config: SessionConfig, watch: Watch<'_>) -> Conversation<'_> {
    let (timeouts, counters) = (plan.timeouts, Arc::clone(&config.counters));
    Box::pin(async move {
        tokio::select! {
            result = connect_and_dial(plan, config, watch) => result,
            error = timeouts::wait_for_timeout(&timeouts, &counters) => Err(error),
        }
    })
}

async fn connect_and_dial(
    plan: Plan,
    config: SessionConfig,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let host = remote_host(&plan.sources, &plan.destination).map(str::to_owned);
    let (link, further, _other_end) = connect(&plan, host.as_deref(), &config).await?;
    let (counters, shell) = (Arc::clone(&config.counters), config.shell.clone());
    let session = Session::new(link, SessionConfig { further, ..config });
    match (dial(session, plan, watch).await, counters.heard()) {
        // The files are in place. Waiting for the other end to exit would cost a round trip.
        (Ok(()), _) => {
            shell.let_exit();
            Ok(())
        }
        // The exit status of the remote shell explains more than the end of the stream.
        (Err(SyncError::Disconnected(why)), heard) => {
            let error = transport::exit_error(&shell, heard).await;
            Err(error.unwrap_or(SyncError::Disconnected(why)))
        }
        (Err(error), _) if host.is_none() => Err(error.in_one_process()),
        (Err(error), heard) => {
            if heard == Heard::Hello {
                transport::exit_error(&shell, heard).await;
            }
            Err(error.with_host(&host.unwrap_or_default()))
        }
    }
}

/// The other end of a session in this process.
type OtherEnd = Task<Result<(), SyncError>>;

/// Connects to the other end: over a connection that the plan opens, by a remote shell, or to a task in this process.
/// The task ends with this run.
async fn connect(
    plan: &Plan,
    host: Option<&str>,
    config: &SessionConfig,
) -> Result<(Ends, Further, Option<OtherEnd>), SyncError> {
    if let (Some(dial), Some(_)) = (&plan.dial, host) {
        return Ok((transport::over_stream(dial.open().await?), Further::Never, None));
    }
    if let Some(host) = host {
        let link = transport::spawn(&plan.remote, host, Part::First)?;
        let further = Further::Dial { remote: plan.remote.clone(), host: host.to_owned() };
        return Ok((link.into(), further, None));
    }
    let (ours, theirs) = transport::memory();
    let SessionConfig { facts, sums, under_way, executor, budget, .. } = config.clone();
    let rest = SessionConfig::default();
    let config = SessionConfig { facts, sums, under_way, executor, budget, ..rest };
    // Errors of the task arrive as an abort frame.
    Ok((ours, Further::Never, Some(Task::spawn(serve(theirs, config)))))
}

pub(crate) async fn serve(ends: Ends, config: SessionConfig) -> Result<(), SyncError> {
    Session::new(ends, config).serve(&mut |_| ()).await
}

/// Serves the request of the other end of `transport`, if `limits` allow that.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub async fn serve_within(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    limits: Restriction,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    serve_as(AnyHost::new(limits), transport, with).await
}

/// Facts for an end whose other end is in this process too.
#[derive(Clone, Debug, Default)]
pub struct InProcessFacts {
    /// Directory with facts that earlier runs kept.
    pub cache: Option<PathBuf>,
    /// Supplies facts that both ends know.
    pub old_sums: Option<Arc<dyn OldSums>>,
}

/// Serves a session from the tree that `open` opens for the request of the other end. The other end of `transport` is
/// in this process.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub async fn serve_tree<T: Tree>(
    open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    InProcessFacts { cache, old_sums }: InProcessFacts,
    with: &Embedding,
) -> Result<(), SyncError> {
    let facts = cache.map_or_else(|| with.facts.clone(), Facts::from);
    let config = SessionConfig { facts, old_sums, is_near: true, ..with.config() };
    serve_tree_as(config, open, transport, with).await.map(drop)
}

/// Serves a session from the tree that `open` opens for the request of the other end. The other end of `transport` is on
/// another machine, so no facts are shared.
///
/// # Errors
/// [`SyncError`] if the session failed; the error was also sent to the other end.
pub async fn serve_far_tree<T: Tree>(
    open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    serve_tree_as(with.config(), open, transport, with).await
}

async fn serve_tree_as<T: Tree>(
    config: SessionConfig,
    open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    run_until_cancelled(&config.clone(), with, &mut |_| (), |_| {
        Box::pin(Session::new(transport::over_stream(transport), config).serve_tree(open))
    })
    .await
}

async fn serve_as(
    host: AnyHost,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    let further = Further::Answer { dirs: Vec::new() };
    let config = SessionConfig { further, host, ..with.config() };
    run_until_cancelled(&config.clone(), with, &mut |_| (), |watch| {
        Box::pin(Session::new(transport::over_stream(transport), config).serve(watch))
    })
    .await
}

/// Runs a session until the session ends or is cancelled.
pub(crate) async fn run_until_cancelled(
    config: &SessionConfig,
    with: &Embedding,
    watch: Watch<'_>,
    session: impl for<'a> FnOnce(Watch<'a>) -> Conversation<'a>,
) -> Result<Outcome, SyncError> {
    let start = Instant::now();
    let mut totals = Totals::default();
    let mut note = |notice: Notice| {
        if let Notice::Finished(finished) = notice {
            totals = finished;
        }
        watch(notice);
    };
    let result = tokio::select! {
        result = session(&mut note) => result,
        () = with.cancel.cancelled() => Err(SyncError::Interrupted),
    };
    if let Err(error) = result {
        let error = interrupted_if_cancelled(error, with).await;
        return Err(wait_for_in_place_writes(error, &config.under_way, with, &mut note).await);
    }
    let (counters, packing) = (&config.counters, config.packing.totals());
    let (bits_per_second, round_trip) = (counters.bandwidth_limit(), counters.round_trip());
    let link = LinkReport { bits_per_second, round_trip, packing };
    let sums = config.sums.totals();
    Ok(Outcome {
        totals,
        traffic: counters.traffic(),
        elapsed: start.elapsed(),
        link,
        sums,
        store: StoreTraffic::default(),
    })
}

/// Replaces the error of a lost connection by `Interrupted` if the run is cancelled within [`SIGNAL_LATENESS`]. Ctrl-C
/// in a terminal also ends the remote shell, and the end of the shell may be noticed before the signal.
async fn interrupted_if_cancelled(error: SyncError, with: &Embedding) -> SyncError {
    if !error.is_lost_connection() {
        return error;
    }
    match tokio::time::timeout(SIGNAL_LATENESS, with.cancel.cancelled()).await {
        Ok(()) => SyncError::Interrupted,
        Err(_) => error,
    }
}

/// Waits until no file is changing in place. Returns the error to end the run with.
async fn wait_for_in_place_writes(
    error: SyncError,
    under_way: &UnderWay,
    with: &Embedding,
    watch: Watch<'_>,
) -> SyncError {
    let Some(path) = under_way.stop_changes() else { return error };
    let message = format!(
        "{path} is being changed in place; the run ends after that; \
         a second signal (Ctrl-C) would leave {path} half changed"
    );
    watch(Notice::Trouble(Trouble::new(TroubleKind::Warned, message)));
    tokio::select! {
        () = until_no_in_place_write(under_way) => error,
        () = with.cancel.cancelled_again() => {
            under_way.stop_changes().map_or(SyncError::Interrupted, SyncError::Torn)
        }
    }
}

/// Waits until no file is changing in place.
pub(crate) async fn until_no_in_place_write(under_way: &UnderWay) {
    while under_way.stop_changes().is_some() {
        tokio::time::sleep(SETTLING).await;
    }
}
