//! A thousand sessions in one process: how many threads and how much memory they take, how they share both, and what
//! is left of those that are cancelled.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deltic_net::embed::{Cancel, Embedding, serve_over, sync, sync_over};
use deltic_net::executor::{Budget, Cost, Executor, Limits};
use deltic_net::plan::{Destination, Plan};
use deltic_net::{Outcome, SyncError};
use deltic_protocol::options::Options;
use deltic_protocol::report::Notice;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, join, split};
use tokio::task::JoinHandle;
use tokio_util::io::InspectReader;

const SESSIONS: usize = 1000;
const AT_WORK: usize = 100;
const CANCELLED: usize = 500;
/// How long a busy machine may take for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(300);
/// Threads of the test itself, and of its runtime.
const OTHER_THREADS: usize = 16;
/// What a session keeps that waits for its other end: streams, queues and its machine, at both ends.
const IDLE_BYTES: usize = 512 << 10;
/// What one has that works: its budget for work, and frames on their way.
const WORK_BYTES: usize = 8 << 20;

/// Lets no other test of this process run: each counts what the process holds.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entries(dir: &str) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

fn threads() -> usize {
    entries("/proc/self/task")
}

fn open_files() -> usize {
    entries("/proc/self/fd")
}

/// Open files below a directory.
fn open_below(dir: &Path) -> usize {
    let opened = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let opened = opened.filter_map(|file| std::fs::read_link(file.path()).ok());
    opened.filter(|opened| opened.starts_with(dir)).count()
}

fn resident_bytes() -> usize {
    let stat = std::fs::read_to_string("/proc/self/statm").unwrap();
    stat.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn limits() -> Limits {
    let cores = std::thread::available_parallelism().unwrap().get();
    Limits { compute: cores, copies: 2, flushes: 16 }
}

fn embedding(executor: &Executor) -> Embedding {
    let budget =
        Budget { work_bytes: 4 << 20, light_work: 32, open_files: Some(64), ..Budget::default() };
    Embedding { executor: executor.clone(), budget, ..Embedding::default() }
}

fn plan(source: &Path, destination: Destination) -> Plan {
    let options = Options { recursive: true, times: true, durable: false, ..Options::default() };
    common::plan(source.join(""), destination, options)
}

/// Waits until `is` holds.
fn until(what: &str, is: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// What carries bytes from one end to the other.
fn pipe() -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
    let (from, to) = duplex(64 << 10);
    (split(from).0, split(to).1)
}

/// Two ends that have begun, and wait for each other for ever.
struct Waiting {
    cancel: Cancel,
    ends: [JoinHandle<Result<(), SyncError>>; 2],
    /// The ends of pipes that nobody uses: the dialling end hears nothing.
    _unused: (WriteHalf<DuplexStream>, ReadHalf<DuplexStream>),
}

fn ends_of(sessions: &[Waiting]) -> impl Iterator<Item = &JoinHandle<Result<(), SyncError>>> {
    sessions.iter().flat_map(|session| &session.ends)
}

fn begin(executor: &Executor, source: &Path, destination: PathBuf) -> Waiting {
    let with = embedding(executor);
    let (cancel, there) = (with.cancel.clone(), with.clone());
    let to = common::there(destination);
    let plan = plan(source, to);
    let ((from_near, to_far), (silence, unsaid), (unheard, to_nobody)) = (pipe(), pipe(), pipe());
    let (near, far) = (join(silence, to_far), join(from_near, to_nobody));
    let dialling = async move { sync_over(plan, near, &with, &mut |_| ()).await.map(drop) };
    let serving = async move { serve_over(far, &there).await };
    Waiting {
        cancel,
        ends: [tokio::spawn(dialling), tokio::spawn(serving)],
        _unused: (unsaid, unheard),
    }
}

/// Copies a tree by a session within this process; `settled` counts its bytes.
async fn work(
    executor: Executor,
    (source, destination): (PathBuf, PathBuf),
    settled: Arc<AtomicU64>,
) -> Result<Outcome, SyncError> {
    let plan = plan(&source, Destination::Local(destination));
    let mut watch = |notice| {
        if let Notice::Settled { bytes } = notice {
            settled.fetch_add(bytes, Ordering::Relaxed);
        }
    };
    sync(plan, &embedding(&executor), &mut watch).await
}

/// Sources, and where destinations are made.
struct Trees(tempfile::TempDir);

impl Trees {
    fn new() -> Self {
        let trees = Self(tempfile::tempdir().unwrap());
        for (dir, len) in [(trees.small(), 8 << 10), (trees.large(), 64 << 10)] {
            std::fs::create_dir(&dir).unwrap();
            for no in 0..16_u32 {
                let bytes: Vec<u8> = (0..len).map(|at: u32| (at * (no + 7) % 251) as u8).collect();
                std::fs::write(dir.join(no.to_string()), bytes).unwrap();
            }
        }
        trees
    }

    /// For sessions that wait: what they hold is all that a session itself costs.
    fn small(&self) -> PathBuf {
        self.0.path().join("small")
    }

    /// For those that work.
    fn large(&self) -> PathBuf {
        self.0.path().join("large")
    }

    fn destination(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let dir = self.0.path().join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir(&dir).unwrap();
        dir
    }
}

/// Sessions that wait: as many as this process may open files for, a few each.
fn idle_sessions() -> usize {
    let may_open = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = may_open.map_or(usize::MAX, |most| (most as usize).saturating_sub(400) / 8);
    most.min(SESSIONS - AT_WORK)
}

/// Has sessions work until all are done; most threads and most memory that there were meanwhile.
fn work_through(executor: &Executor, trees: &Trees) -> (usize, usize) {
    let settled: Vec<_> = (0..AT_WORK).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let begin = |settled: &Arc<AtomicU64>| {
        let dirs = (trees.large(), trees.destination());
        tokio::spawn(work(executor.clone(), dirs, Arc::clone(settled)))
    };
    let working: Vec<_> = settled.iter().map(begin).collect();
    let (mut most_threads, mut most_bytes) = (0, 0);
    let all_done = || working.iter().all(JoinHandle::is_finished);
    let start = Instant::now();
    while !all_done() {
        assert!(start.elapsed() < PATIENCE, "they are at it for too long");
        most_threads = most_threads.max(threads());
        most_bytes = most_bytes.max(resident_bytes());
        std::thread::sleep(Duration::from_millis(5));
    }
    for ended in working {
        tokio::runtime::Handle::current().block_on(ended).unwrap().unwrap();
    }
    (most_threads, most_bytes)
}

#[test]
fn a_thousand_sessions_are_bounded_and_those_that_are_cancelled_leave_nothing() {
    let _alone = alone();
    let trees = Trees::new();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let executor = Executor::new(limits());
    let (files_before, bytes_before, idle) = (open_files(), resident_bytes(), idle_sessions());
    let begin = |_| begin(&executor, &trees.small(), trees.destination());
    let waiting: Vec<_> = (0..idle).map(begin).collect();
    let is_quiet = || executor.usage().waiting + executor.usage().running == 0;
    until("all have begun", || executor.usage().sessions == 2 * idle);
    until("each holds its destination", || open_files() - files_before >= idle);
    until("they wait for each other", is_quiet);
    let held = open_files() - files_before;

    let idle_bytes = (resident_bytes() - bytes_before) / idle;
    assert!(idle_bytes <= IDLE_BYTES, "{idle_bytes} bytes each");

    let (most_threads, most_bytes) = work_through(&executor, &trees);
    assert!(most_threads <= limits().threads() + OTHER_THREADS, "{most_threads} threads");
    let (bytes, within) = (most_bytes - bytes_before, idle * IDLE_BYTES + AT_WORK * WORK_BYTES);
    assert!(bytes <= within, "{bytes} bytes");

    let (cancelled, kept) = waiting.split_at(CANCELLED.min(idle / 2));
    cancelled.iter().for_each(|session| session.cancel.cancel());
    let took = until("they have left", || executor.usage().sessions == 2 * kept.len());
    until("their tasks have ended", || ends_of(cancelled).all(JoinHandle::is_finished));
    let share = held * kept.len() / idle;
    until("their files are closed", || open_files() - files_before <= share + 16);
    until("nothing more is done", is_quiet);
    assert!(ends_of(kept).all(|end| !end.is_finished()));
    eprintln!("{most_threads} threads, {idle_bytes} bytes idle, {bytes} in all, gone in {took:?}");
}

/// Sessions that are at work get the same, whatever the pieces of their work cost; a thousand are admitted.
#[test]
fn who_works_gets_a_fair_share_of_the_threads() {
    let _alone = alone();
    let executor = Executor::new(limits());
    let shares: Vec<_> = (0..SESSIONS).map(|_| executor.admit(Budget::default())).collect();
    let spent: Arc<Vec<_>> = Arc::new((0..AT_WORK).map(|_| AtomicU64::new(0)).collect());
    let (total, enough) = (Arc::new(AtomicU64::new(0)), 20_000);
    // Nobody is ahead: no thread is free until all have brought their work.
    let (gate, begun) = (executor.admit(Budget::default()), limits().compute + 1);
    let begun = Arc::new(Barrier::new(begun));
    for _ in 0..limits().compute {
        let begun = Arc::clone(&begun);
        let wait = move || {
            begun.wait();
        };
        gate.submit(Cost::Heavy, wait).unwrap();
    }
    for (no, share) in shares.iter().take(AT_WORK).enumerate() {
        // One in ten brings long pieces, and all bring more than there is time for.
        let rounds = if no % 10 == 0 { 20 } else { 1 };
        for _ in 0..enough / 20 {
            let (spent, total) = (Arc::clone(&spent), Arc::clone(&total));
            let job = move || {
                if total.load(Ordering::Relaxed) >= enough {
                    return;
                }
                let toil = (0..rounds * 100_000_u64).fold(no as u64, |sum, at| {
                    std::hint::black_box(sum.wrapping_mul(31).wrapping_add(at))
                });
                std::hint::black_box(toil);
                spent[no].fetch_add(rounds, Ordering::Relaxed);
                total.fetch_add(rounds, Ordering::Relaxed);
            };
            share.submit(Cost::Heavy, job).unwrap();
        }
    }
    begun.wait();
    until("enough is done", || total.load(Ordering::Relaxed) >= enough);
    let spent: Vec<_> = spent.iter().map(|spent| spent.load(Ordering::Relaxed)).collect();
    let fair = spent.iter().sum::<u64>() / AT_WORK as u64;
    assert!(spent.iter().all(|spent| spent * 2 >= fair && *spent <= fair * 2), "{fair}: {spent:?}");
    assert!(threads() <= limits().threads() + OTHER_THREADS);
}

/// Pushes a tree to an end in this process, which answers once all do; `moved` counts the bytes that come to it.
fn push(
    executor: &Executor,
    (source, to): (&Path, PathBuf),
    (moved, all): (&Arc<AtomicU64>, &Arc<tokio::sync::Barrier>),
) -> Pushing {
    let (with, bytes, all) = (embedding(executor), Arc::clone(moved), Arc::clone(all));
    let plan = plan(source, common::there(to));
    let ((near, inner), there) = (duplex(64 << 10), with.clone());
    tokio::spawn(async move {
        all.wait().await;
        let count = move |came: &[u8]| {
            bytes.fetch_add(came.len() as u64, Ordering::Relaxed);
        };
        serve_over(InspectReader::new(inner, count), &there).await
    });
    tokio::spawn(async move { sync_over(plan, near, &with, &mut |_| ()).await })
}

type Pushing = JoinHandle<Result<Outcome, SyncError>>;

/// Whole sessions, from their runtime to their disk: when half of all bytes have crossed, each has about its share. On
/// several threads a runtime may let one run ahead.
#[test]
#[ignore = "the runtime's order decides: it does not hold in each run (docs/decisions/0029)"]
fn sessions_at_work_move_the_same_bytes() {
    const BYTES: u64 = 8 << 20;
    let _alone = alone();
    let trees = Trees::new();
    let source = trees.0.path().join("long");
    std::fs::create_dir(&source).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * at % 251) as u8).collect();
    std::fs::write(source.join("file"), bytes).unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let executor = Executor::new(limits());
    let moved: Vec<_> = (0..AT_WORK).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let all = Arc::new(tokio::sync::Barrier::new(AT_WORK));
    let begin = |moved| push(&executor, (&source, trees.destination()), (moved, &all));
    let pushing: Vec<_> = moved.iter().map(begin).collect();
    let now = || moved.iter().map(|moved| moved.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let half = BYTES * AT_WORK as u64 / 2;
    until("half has crossed", || now().iter().sum::<u64>() >= half);
    let (shares, fair) = (now(), half / AT_WORK as u64);
    assert!(shares.iter().all(|share| share * 2 >= fair && *share <= fair * 2), "{shares:?}");
    for pushed in pushing {
        runtime.block_on(pushed).unwrap().unwrap();
    }
}

/// A session with few open files waits for its own before it opens more.
#[test]
fn a_session_keeps_to_its_open_files() {
    const FILES: usize = 150;
    let _alone = alone();
    let trees = Trees::new();
    let source = trees.0.path().join("many");
    std::fs::create_dir(&source).unwrap();
    let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at * at % 251) as u8).collect();
    let changed = [&bytes[..], b"more"].concat();
    (0..FILES).for_each(|no| std::fs::write(source.join(no.to_string()), &changed).unwrap());
    let most = |open_files| {
        let to = trees.destination();
        (0..FILES).for_each(|no| std::fs::write(to.join(no.to_string()), &bytes).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let mut with = embedding(&Executor::new(limits()));
        with.budget.open_files = open_files;
        let plan = plan(&source, Destination::Local(to));
        let run = tokio::spawn(async move { sync(plan, &with, &mut |_| ()).await });
        let mut most = 0;
        while !run.is_finished() {
            most = most.max(open_below(trees.0.path()));
        }
        let totals = runtime.block_on(run).unwrap().unwrap().totals;
        assert_eq!((totals.failed, totals.transferred), (0, FILES as u64));
        most
    };
    let held = most(Some(48));
    assert!(held <= 48, "{held} files");
    // Who seldom gets to look sees too few.
    let free: Vec<_> = (0..5).map(|_| most(None)).take_while(|free| *free <= held).collect();
    assert!(free.len() < 5, "{free:?} files without a limit, {held} with one");
}
