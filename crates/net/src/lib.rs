//! The shell around the machines: runs them against stores over transports. Threads, clocks and async live here only.
//!
//! [`run`] is one sync from the dialling end, [`agent`] the other end of it. Inside: `greeting` is heard while `session` takes roles,
//! `drive` is the one loop that runs either machine, `hands` does what machines ask for, `executor` has the threads for it, `watch` says what to sync again, `batch` keeps runs in files, `transport` moves bytes, `place` knows what a destination argument means. [`rehearsal`] runs both ends here to
//! measure them, by [`monitor`] and over a link from `shape`.

mod batch;
mod bounds;
mod conduct;
mod destination;
mod drive;
pub mod error;
pub mod executor;
mod greeting;
mod hands;
mod machine;
pub mod monitor;
mod outlets;
mod patience;
mod place;
pub mod plan;
pub mod rehearsal;
pub mod restrict;
mod session;
mod shape;
mod sources;
mod streams;
mod transport;
mod user;
pub mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use deltic_store_local::reason;
pub use deltic_store_local::{NamedFile, Trust, own_dir, umask};
pub use error::SyncError;
pub use executor::most_threads;
pub use plan::{Plan, Traffic};
pub use restrict::Restriction;
pub use sources::{ListForm, read_names};
pub use user::User;

use deltic_protocol::report::{Notice, Totals, Trouble, TroubleKind};
use deltic_store_local::UnderWay;

use batch::Batch;
use conduct::{Conduct, Further};
use plan::{Destination, Sources};
use session::{Session, Watch, dial};
use transport::{Ends, Heard, Part};

/// How often a run that is to end looks whether it may.
const SETTLING: Duration = Duration::from_millis(10);

/// How a run ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// What was done.
    pub totals: Totals,
    /// What it cost on the wire.
    pub traffic: Traffic,
    /// Wall time from the first connection to the last flush.
    pub elapsed: Duration,
}

/// Runs one sync to its end, telling `watch` what happens; the run waits while it is told. `user` is asked where the
/// [options](deltic_protocol::options::Options::asks) say so.
///
/// # Errors
/// [`SyncError`] where the run as a whole could not start or go on.
pub fn run(
    plan: Plan,
    user: &User,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<Outcome, SyncError> {
    let start = Instant::now();
    let (mut inside, mut beside) = (None, None);
    place::check_len(match &plan.destination {
        Destination::Local(path) => path.as_os_str(),
        Destination::Remote { path, .. } => path,
    })?;
    if let Destination::Local(to) = &plan.destination
        && !plan.options.select.list_only
        // A destination that cannot be resolved is told of where it is used.
        && let Ok(resolved) =
            place::resolve(&place::here(to.as_os_str()), None, plan.options.select.mkpath)
    {
        let from = match &plan.sources {
            Sources::Local(from) => &from[..],
            Sources::Remote { .. } => &[],
        };
        destination::check_dirs(&resolved.root, from, &plan.options)?;
        if matches!(plan.sources, Sources::Local(_)) {
            if plan.options.recursive {
                inside = place::inside(from, plan.options.follow.follow, &resolved)?;
            }
            beside = Some(resolved.root);
        }
    }
    let (cache, user) = (plan.cache.clone(), user.clone());
    let inside = inside.map(|inside| inside.destination);
    let conduct =
        Conduct { bwlimit: plan.bwlimit, cache, user, inside, beside, ..Conduct::default() };
    let counters = Arc::clone(&conduct.counters);
    let (under_way, shell) = (conduct.under_way.clone(), conduct.shell.clone());
    let (patience, seen) = (plan.patience, Arc::clone(&counters));
    let converse = async |plan: Plan, conduct, watch: Watch<'_>| {
        tokio::select! {
            result = converse(plan, conduct, watch) => result,
            error = patience::run_out(&patience, &seen) => Err(error),
        }
    };
    let ended = supervised(under_way, watch, async |watch| match plan.batch.clone() {
        None => converse(plan, conduct, watch).await,
        Some(plan::Batch::Read(file)) => {
            let batch = Batch::open(file, &plan)?;
            let plan = batch.plan(plan);
            converse(plan, Conduct { batch: Some(batch), ..conduct }, watch).await
        }
        Some(plan::Batch::Write(file)) => {
            batch::write(plan, (file, false), converse, (conduct, watch)).await
        }
        Some(plan::Batch::OnlyWrite(file)) => {
            batch::write(plan, (file, true), converse, (conduct, watch)).await
        }
    });
    // A remote shell that hangs would outlive us.
    let totals = ended.inspect_err(|_| shell.stop())?;
    Ok(Outcome { totals, traffic: counters.traffic(), elapsed: start.elapsed() })
}

/// Runs a session of its own in a runtime of its own, to its end or until the user interrupts it.
fn supervised(
    under_way: UnderWay,
    watch: Watch<'_>,
    session: impl AsyncFnOnce(Watch<'_>) -> Result<(), SyncError>,
) -> Result<Totals, SyncError> {
    let mut totals = Totals::default();
    let mut note = |notice: Notice| {
        if let Notice::Finished(finished) = notice {
            totals = finished;
        }
        watch(notice);
    };
    // A piece of work under way when a run ends early may still end: what it stages, the next run takes up.
    let result = block_on(Duration::from_millis(500), async {
        let result = tokio::select! {
            result = session(&mut note) => result,
            () = told_to_end() => Err(SyncError::Interrupted),
        };
        let Some(path) = under_way.end().filter(|_| result.is_err()) else { return result };
        let message = format!(
            "{path} is changing in place: the run ends when it is done; \
             a second signal would leave it part old and part new"
        );
        note(Notice::Trouble(Trouble::new(TroubleKind::Warned, message)));
        tokio::select! {
            () = settled(&under_way) => result,
            () = told_to_end() => Err(under_way.end().map_or(SyncError::Interrupted, SyncError::Torn)),
        }
    });
    result.map(|()| totals)
}

/// Ends when no file is changing where it is.
async fn settled(under_way: &UnderWay) {
    while under_way.end().is_some() {
        tokio::time::sleep(SETTLING).await;
    }
}

/// Ends with the first signal that asks a program to end. Signals are heard from the call on, not from the first poll:
/// one that comes while a remote shell starts counts.
fn told_to_end() -> impl Future<Output = ()> {
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

/// Serves one session on this process's standard input and output: the far end of `deltic sync HOST:…`. Further streams
/// may join it through a socket in one of `dirs`, the best first. `bwlimit` is in bytes a second; what is known of files is in
/// the directory `cache`. With a `restriction`, less may be asked for, and no stream may join.
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
    let conduct = Conduct { bwlimit, further, cache, restriction, ..Conduct::default() };
    let under_way = conduct.under_way.clone();
    // Standard input may be in the midst of a read that nothing will end.
    block_on(Duration::ZERO, async {
        let result = serve(transport::stdio(), conduct).await;
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

async fn converse(plan: Plan, conduct: Conduct, watch: Watch<'_>) -> Result<(), SyncError> {
    let (link, further) = connect(&plan, &conduct.under_way)?;
    let host = match &further {
        Further::Dial { host, .. } => Some(host.clone()),
        Further::Never | Further::Answer { .. } => None,
    };
    let counters = Arc::clone(&conduct.counters);
    let shell = conduct.shell.clone();
    let session = Session::new(link, Conduct { further, ..conduct });
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
        (Err(error), Heard::Nothing) => Err(error),
        (Err(error), Heard::Hello) => {
            transport::farewell(&shell, Heard::Hello).await;
            Err(error.on(&host.unwrap_or_default()))
        }
    }
}

/// Lets a write beyond the longest file that this process may make fail, from now on: the system's signal would end it.
pub fn let_long_writes_fail() {
    // Where there is no runtime to hear signals with, all is as it was.
    let _ = runtime();
}

/// The other end: a child that was told to be it, or a task here.
fn connect(plan: &Plan, under_way: &UnderWay) -> Result<(Ends, Further), SyncError> {
    let host = match (&plan.sources, &plan.destination) {
        (Sources::Remote { host, .. }, _) | (_, Destination::Remote { host, .. }) => Some(host),
        _ => None,
    };
    if let Some(host) = host {
        let link = transport::spawn(&plan.remote, host, Part::First)?;
        return Ok((
            link.into(),
            Further::Dial { remote: plan.remote.clone(), host: host.clone() },
        ));
    }
    let (ours, theirs) = transport::memory();
    // Its errors reach us as its last word.
    let (cache, under_way) = (plan.cache.clone(), under_way.clone());
    tokio::spawn(serve(theirs, Conduct { cache, under_way, ..Conduct::default() }));
    Ok((ours, Further::Never))
}

async fn serve(ends: Ends, conduct: Conduct) -> Result<(), SyncError> {
    let session = Session::new(ends, conduct);
    session.serve(&mut |_| ()).await
}

/// Runs `work` to its end in a runtime of its own, whose threads get `patience` to end. A panic becomes an error:
/// unwinding through the runtime could wait for ever for a thread that reads.
fn block_on<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    let runtime = runtime()?;
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
    runtime.shutdown_timeout(patience);
    ended.unwrap_or(Err(SyncError::Internal))
}

/// One thread: whatever takes long is done by those of the pool, and tasks that hand bytes to each other would only wake
/// each other up if each had its own.
fn runtime() -> Result<tokio::runtime::Runtime, SyncError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        built.map_err(|source| SyncError::Transport { action: "start threads", source })?;
    bounds::meet(&runtime);
    Ok(runtime)
}
