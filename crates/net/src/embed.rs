//! Sessions inside a program that has a runtime of its own: nothing here starts one, or takes the process's signals.
//!
//! [`sync`] is one run from the dialling end, in this process or over a remote shell; [`sync_over`] is the same over
//! any stream of bytes, and [`serve_over`] the other end of that. Each is a future that may be spawned. Dropped, it
//! drops what it holds; [cancelled](Cancel), it ends as if it were interrupted, once no file is changing where it is.
//!
//! A write beyond the longest file that the process may make raises the system's signal, which ends a process that
//! does not hear it ([`let_long_writes_fail`](crate::let_long_writes_fail) has it heard).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};

pub use crate::worker::owners::Accounts;
use deltic_protocol::options::Options;
use deltic_protocol::report::{Notice, Totals, Trouble, TroubleKind};
use deltic_store::{Store, Tree};
use deltic_store_local::UnderWay;
pub use deltic_store_local::cache::{Bases, LocalFacts, RecipeCache};

use crate::batch::{self, Batch};
pub use crate::config::Facts;
use crate::config::{Further, SessionConfig};
use crate::error::SyncError;
use crate::executor::{Budget, Executor};
use crate::host::restrict::Restriction;
use crate::host::user::{Conversation, User, Watch};
use crate::host::{Agent, AnyHost, destination, place};
use crate::old_sums::OldSums;
use crate::patience;
use crate::plan::{self, Destination, Plan, Sources, Traffic, far_host};
use crate::reasons::Reasons;
pub use crate::session::{DestinationRequest, OpenDestination, Served};
use crate::session::{Session, begin, dial};
use crate::task::Task;
use crate::transport::{self, Ends, Heard, Part, Shell};

/// Longest time between the end of a connection and the signal that ended both it and the run.
const SIGNAL_LATENESS: Duration = Duration::from_millis(100);

/// Pause between two looks whether a run that is to end may.
const SETTLING: Duration = Duration::from_millis(10);

/// Resources that a program gives the sessions that it holds.
#[derive(Clone, Debug, Default)]
pub struct Embedding {
    /// Threads that do the work: those of the process, unless it says otherwise.
    pub executor: Executor,
    /// Limits of a session to threads, memory and open files.
    pub budget: Budget,
    /// The user, asked where the options say so.
    pub user: User,
    /// Ends the session from elsewhere.
    pub cancel: Cancel,
    /// Facts that sessions keep for each other. A run with a cache directory of its own takes the facts in that directory
    /// instead.
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
}

/// Ends sessions from elsewhere; clones end the same ones.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<watch::Sender<u32>>);

impl Cancel {
    /// Ends the sessions with [`SyncError::Interrupted`]. One with a file that is changing where it is ends when that
    /// is done; a second call does not wait for it either.
    pub fn cancel(&self) {
        self.0.send_modify(|times| *times += 1);
    }

    /// Waits for the first call.
    async fn called(&self) {
        // The sender is ours.
        let _ = self.0.subscribe().wait_for(|calls| *calls > 0).await;
    }

    /// Waits for one more call than there have been.
    async fn called_again(&self) {
        let before = *self.0.borrow();
        let _ = self.0.subscribe().wait_for(|calls| *calls > before).await;
    }
}

/// Runs one sync to its end, telling `watch` what happens; the run waits while it is told.
///
/// # Errors
/// [`SyncError`] where the run as a whole could not start or go on.
pub async fn sync(plan: Plan, with: &Embedding, watch: Watch<'_>) -> Result<Outcome, SyncError> {
    let config = config(&plan, with)?;
    let shell = config.shell.clone();
    let ended = held(&config.clone(), with, watch, |watch| {
        Box::pin(async move {
            match plan.batch.clone() {
                Some(plan::Batch::Read(file)) => {
                    let batch = Batch::open(file, &plan)?;
                    let plan = batch.plan(plan);
                    converse(plan, SessionConfig { batch: Some(batch), ..config }, watch).await
                }
                _ => batch::write(plan, converse, (config, watch)).await,
            }
        })
    })
    .await;
    if ended.is_err() {
        stop(shell).await;
    }
    ended
}

/// Ends a remote shell with the run that failed: one that hangs would outlive us. Waits on a thread, where there is
/// one.
async fn stop(shell: Shell) {
    let (done, stopped) = oneshot::channel();
    let there = shell.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        there.stop();
        done.send(()).ok();
    });
    match thread {
        Ok(_) => stopped.await.unwrap_or_default(),
        Err(_) => shell.stop(),
    }
}

/// Runs one sync with the other end of `transport`, whatever host the plan names.
///
/// # Errors
/// [`SyncError`] as of [`sync`].
pub async fn sync_over(
    plan: Plan,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
    watch: Watch<'_>,
) -> Result<Outcome, SyncError> {
    let config = config(&plan, with)?;
    held(&config.clone(), with, watch, |watch| {
        let (timeouts, counters) = (plan.patience, Arc::clone(&config.counters));
        let session = Session::new(transport::over(transport), config);
        Box::pin(async move {
            tokio::select! {
                result = dial(session, plan, watch) => result,
                error = patience::run_out(&timeouts, &counters) => Err(error),
            }
        })
    })
    .await
}

/// Pulls the plan's sources from the other end of `transport` into the destination that `open` makes of the plan's
/// destination. Nothing is looked at on the disk here.
///
/// # Errors
/// [`SyncError`] as of [`sync`]; [`SyncError::Usage`] where the plan's sources are not at the other end.
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
    held(&config.clone(), with, watch, |watch| {
        let (timeouts, counters) = (plan.patience, Arc::clone(&config.counters));
        let (session, options) = begin(Session::new(transport::over(transport), config), &plan);
        Box::pin(async move {
            let request = DestinationRequest { path, single: None, options };
            let pull = session.pull_into((&paths, plan.names), request, open, watch);
            tokio::select! {
                result = pull => result,
                error = patience::run_out(&timeouts, &counters) => Err(error),
            }
        })
    })
    .await
}

/// Receives what the other end of `transport` pushes, into the destination that `open` makes of what that end asks for.
/// `open` may block.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub async fn receive_into<S: Store>(
    open: impl FnOnce(DestinationRequest) -> Result<OpenDestination<S>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    let config = with.config();
    held(&config.clone(), with, &mut |_| (), |watch| {
        Box::pin(Session::new(transport::over(transport), config).serve_destination(open, watch))
    })
    .await
}

/// Does what the other end of `transport` asks, with all rights of this process.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub async fn serve_over(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<(), SyncError> {
    serve_as(AnyHost::new(Agent), transport, with).await.map(drop)
}

impl Embedding {
    fn config(&self) -> SessionConfig {
        let Self { executor, budget, user, facts, .. } = self.clone();
        SessionConfig { executor, budget, user, facts, ..SessionConfig::default() }
    }
}

/// How this end goes about a plan, whatever its destination.
fn config_of(plan: &Plan, with: &Embedding) -> SessionConfig {
    SessionConfig {
        bwlimit: plan.bwlimit,
        facts: plan.cache.clone().map_or_else(|| with.facts.clone(), Facts::from),
        reasons: plan.reasons.clone(),
        moved: plan.moved.clone(),
        old_sums: plan.dial.as_ref().and_then(|dial| dial.old_sums.clone()),
        ..with.config()
    }
}

/// Looks at a plan's destination, and says how this end goes about it.
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
    let mkpath = plan.options.select.mkpath;
    // A destination that cannot be resolved is told of where it is used.
    let Ok(resolved) = place::resolve(&place::here(to.as_os_str()), None, mkpath) else {
        return Ok(config);
    };
    let Sources::Local(from) = &plan.sources else {
        destination::check_dirs(&resolved.root, &[], &plan.options)?;
        return Ok(config);
    };
    destination::check_dirs(&resolved.root, from, &plan.options)?;
    let inside = match plan.options.recursive {
        true => place::inside(from, plan.options.follow.follow, &resolved)?,
        false => None,
    };
    let inside = inside.map(|inside| inside.destination);
    Ok(SessionConfig { inside, beside: Some(resolved.root), ..config })
}

/// Holds a session as the plan has it.
fn converse(plan: Plan, config: SessionConfig, watch: Watch<'_>) -> Conversation<'_> {
    let (timeouts, counters) = (plan.patience, Arc::clone(&config.counters));
    Box::pin(async move {
        tokio::select! {
            result = connect_and_dial(plan, config, watch) => result,
            error = patience::run_out(&timeouts, &counters) => Err(error),
        }
    })
}

async fn connect_and_dial(
    plan: Plan,
    config: SessionConfig,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let host = far_host(&plan.sources, &plan.destination).map(str::to_owned);
    let (link, further, _other_end) = connect(&plan, host.as_deref(), &config).await?;
    let (counters, shell) = (Arc::clone(&config.counters), config.shell.clone());
    let session = Session::new(link, SessionConfig { further, ..config });
    match (dial(session, plan, watch).await, counters.heard()) {
        // Everything is in place: what the other end still does, it does without us, or it would cost a round trip.
        (Ok(()), _) => {
            shell.leave();
            Ok(())
        }
        // How the other end's shell ended says more than that its stream did.
        (Err(SyncError::Disconnected(why)), heard) => {
            let error = transport::farewell(&shell, heard).await;
            Err(error.unwrap_or(SyncError::Disconnected(why)))
        }
        (Err(error), _) if host.is_none() => Err(error.of_one_process()),
        (Err(error), heard) => {
            if heard == Heard::Hello {
                transport::farewell(&shell, heard).await;
            }
            Err(error.on(&host.unwrap_or_default()))
        }
    }
}

/// The other end of a session in this process.
type OtherEnd = Task<Result<(), SyncError>>;

/// The other end: a connection that was dialled, a child that was told to be it, or a task here, which ends with us.
async fn connect(
    plan: &Plan,
    host: Option<&str>,
    config: &SessionConfig,
) -> Result<(Ends, Further, Option<OtherEnd>), SyncError> {
    if let (Some(dial), Some(_)) = (&plan.dial, host) {
        return Ok((transport::over(dial.open().await?), Further::Never, None));
    }
    if let Some(host) = host {
        let link = transport::spawn(&plan.remote, host, Part::First)?;
        let further = Further::Dial { remote: plan.remote.clone(), host: host.to_owned() };
        return Ok((link.into(), further, None));
    }
    let (ours, theirs) = transport::memory();
    let SessionConfig { facts, reasons, under_way, executor, budget, .. } = config.clone();
    let rest = SessionConfig::default();
    let config = SessionConfig { facts, reasons, under_way, executor, budget, ..rest };
    // Its errors reach us as its last word.
    Ok((ours, Further::Never, Some(Task::spawn(serve(theirs, config)))))
}

pub(crate) async fn serve(ends: Ends, config: SessionConfig) -> Result<(), SyncError> {
    Session::new(ends, config).serve(&mut |_| ()).await
}

/// Does what the other end of `transport` asks, as far as `limits` allow it.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub async fn serve_within(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    limits: Restriction,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    serve_as(AnyHost::new(limits), transport, with).await
}

/// Knowledge of an end in this process about files, and whom it tells.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Directory of what earlier runs kept.
    pub cache: Option<PathBuf>,
    /// Facts that the other end has too.
    pub old_sums: Option<Arc<dyn OldSums>>,
    /// Told why files are read whole, or not.
    pub reasons: Option<Reasons>,
}

/// Serves one session from a tree that `open` makes of what the other end of `transport` asks for. That end is in this
/// process.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub async fn serve_tree<T: Tree>(
    open: impl FnOnce(Vec<Vec<u8>>, &Options) -> Result<Served<T>, SyncError> + Send + 'static,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    Knowledge { cache, old_sums, reasons }: Knowledge,
    with: &Embedding,
) -> Result<(), SyncError> {
    let facts = cache.map_or_else(|| with.facts.clone(), Facts::from);
    let config = SessionConfig { facts, old_sums, reasons, ..with.config() };
    held(&config.clone(), with, &mut |_| (), |_| {
        Box::pin(Session::new(transport::over(transport), config).serve_tree(open))
    })
    .await
    .map(drop)
}

async fn serve_as(
    host: AnyHost,
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<Outcome, SyncError> {
    let further = Further::Answer { dirs: Vec::new() };
    let config = SessionConfig { further, host, ..with.config() };
    held(&config.clone(), with, &mut |_| (), |watch| {
        Box::pin(Session::new(transport::over(transport), config).serve(watch))
    })
    .await
}

/// Holds a session to its end or until it is cancelled.
pub(crate) async fn held(
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
        () = with.cancel.called() => Err(SyncError::Interrupted),
    };
    if let Err(error) = result {
        let error = cancelled_meanwhile(error, with).await;
        return Err(settle(error, &config.under_way, (with, &mut note)).await);
    }
    Ok(Outcome { totals, traffic: config.counters.traffic(), elapsed: start.elapsed() })
}

/// The error to tell: a terminal sends Ctrl-C to the remote shell as well, whose end may be seen before the signal.
async fn cancelled_meanwhile(error: SyncError, with: &Embedding) -> SyncError {
    if !error.is_lost_connection() {
        return error;
    }
    match tokio::time::timeout(SIGNAL_LATENESS, with.cancel.called()).await {
        Ok(()) => SyncError::Interrupted,
        Err(_) => error,
    }
}

/// Waits until no file is changing where it is; the error to end with.
async fn settle(
    error: SyncError,
    under_way: &UnderWay,
    (with, watch): (&Embedding, Watch<'_>),
) -> SyncError {
    let Some(path) = under_way.end() else { return error };
    let message = format!(
        "{path} is changing in place: the run ends when it is done; \
         a second signal would leave it part old and part new"
    );
    watch(Notice::Trouble(Trouble::new(TroubleKind::Warned, message)));
    tokio::select! {
        () = settled(under_way) => error,
        () = with.cancel.called_again() => {
            under_way.end().map_or(SyncError::Interrupted, SyncError::Torn)
        }
    }
}

/// Ends when no file is changing where it is.
pub(crate) async fn settled(under_way: &UnderWay) {
    while under_way.end().is_some() {
        tokio::time::sleep(SETTLING).await;
    }
}
