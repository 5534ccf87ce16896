//! Many sessions in a single process: threads, memory, fairness, and the time until cancelled sessions end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltic_net::embed::{Cancel, Embedding, serve_over, sync_over};
use deltic_net::executor::{Executor, Limits};
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_net::{Outcome, SyncError};
use deltic_protocol::options::Options as SyncOptions;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadHalf, WriteHalf, duplex, join, split};
use tokio::task::JoinHandle;
use tokio_util::io::InspectReader;

use crate::machine::resident_kib;
use crate::table::TextTable;

/// Many sessions in one process: threads, memory, fairness, cancel
#[derive(clap::Args)]
pub(crate) struct SessionsOptions {
    /// Number of all sessions; sessions that do not work wait for their other end
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// Sessions that work at once
    #[arg(long, default_value_t = 100)]
    working: usize,
    /// Bytes to copy in each working session, in files of 64 KiB
    #[arg(long, default_value_t = 16 << 20)]
    bytes: u64,
    /// Bytes of the large session that runs while small sessions are timed
    #[arg(long, default_value_t = 1 << 30)]
    hog: u64,
    /// Number of small sessions, with a single file of 64 KiB each
    #[arg(long, default_value_t = 200)]
    small: usize,
    /// Directory for the trees
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
}

/// Longest time until sessions have started, worked or ended.
const PATIENCE: Duration = Duration::from_secs(600);
const FILE_BYTES: usize = 64 << 10;
/// Number of concurrent small sessions.
const AT_ONCE: usize = 8;
/// Time for the large session to get going.
const HEAD_START: Duration = Duration::from_millis(300);

/// Runs the benchmark and prints its tables.
pub(crate) fn sessions(options: &SessionsOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&options.dir).context("make a directory")?;
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    make(&small, 4, 8 << 10)?;
    make(&large, options.bytes.div_ceil(FILE_BYTES as u64), FILE_BYTES)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let executor = Executor::new(Limits::default());
    let measured = runtime.block_on(async {
        let idle = options.sessions.saturating_sub(options.working);
        let before = resident_kib("self")?;
        let destination = |no: usize| dir.path().join(no.to_string());
        let waiting: Vec<_> =
            (0..idle).map(|no| wait(&executor, &small, destination(no))).collect();
        until(|| executor.usage().sessions >= 2 * idle).await?;
        let idle_kib = (resident_kib("self")? - before) / idle.max(1) as u64;
        let work = work(&executor, &large, options.bytes, options.working, &destination).await?;
        let half = waiting.len() / 2;
        let start = Instant::now();
        waiting[..half].iter().for_each(|session| session.cancel.cancel());
        until(|| executor.usage().sessions <= 2 * (idle - half)).await?;
        anyhow::Ok((idle_kib, work, start.elapsed()))
    });
    let (idle_kib, work, cancelled) = measured?;
    let header =
        ["sessions", "working", "threads", "idle KiB each", "peak MiB", "shares", "cancel ms"];
    let mut table = TextTable::new(0, header);
    table.row([
        options.sessions.to_string(),
        options.working.to_string(),
        work.threads.to_string(),
        idle_kib.to_string(),
        (work.kib >> 10).to_string(),
        format!("{:.2} to {:.2}", work.shares.0, work.shares.1),
        cancelled.as_millis().to_string(),
    ]);
    table.lines().iter().for_each(|line| println!("{line}"));
    let (calm, beside) = runtime.block_on(beside_hog(&executor, dir.path(), options))?;
    let mut table =
        TextTable::new(0, ["small sessions", "hog MiB", "p99 ms calm", "p99 ms beside it"]);
    let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let (small, hog) = (options.small.to_string(), (options.hog >> 20).to_string());
    table.row([small, hog, millis(calm), millis(beside)]);
    table.lines().iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Times small sessions alone, then beside a session that copies a large file. Returns both 99th percentiles.
async fn beside_hog(
    executor: &Executor,
    dir: &Path,
    options: &SessionsOptions,
) -> Result<(Duration, Duration)> {
    let (one, long) = (dir.join("one"), dir.join("long"));
    make(&one, 1, FILE_BYTES)?;
    make(&long, 1, options.hog as usize)?;
    small_ones(executor, &one, options.small, dir.join("first")).await?;
    let calm = small_ones(executor, &one, options.small, dir.join("calm")).await?;
    let hog = begin(executor, &long, dir.join("hog"), Arc::default());
    tokio::time::sleep(HEAD_START).await;
    let beside = small_ones(executor, &one, options.small, dir.join("beside")).await?;
    if hog.is_finished() {
        bail!("the long session ended before the small ones");
    }
    hog.await??;
    Ok((calm, beside))
}

/// Runs small sessions, some at a time. Returns the 99th percentile of their durations.
async fn small_ones(
    executor: &Executor,
    source: &Path,
    sessions: usize,
    to: PathBuf,
) -> Result<Duration> {
    std::fs::create_dir(&to)?;
    let mut took = Vec::with_capacity(sessions);
    for first in (0..sessions).step_by(AT_ONCE) {
        let timed = |no: usize| {
            let (start, to) = (Instant::now(), to.join(no.to_string()));
            let session = begin(executor, source, to, Arc::default());
            tokio::spawn(async move {
                session.await??;
                anyhow::Ok(start.elapsed())
            })
        };
        let some: Vec<_> = (first..sessions.min(first + AT_ONCE)).map(timed).collect();
        for session in some {
            took.push(session.await??);
        }
    }
    took.sort_unstable();
    took.get(took.len() * 99 / 100).copied().context("--small is 0")
}

/// Starts a session between two ends in this process. `moved` counts the bytes that the serving end receives.
fn begin(
    executor: &Executor,
    source: &Path,
    destination: PathBuf,
    moved: Arc<AtomicU64>,
) -> JoinHandle<Result<Outcome, SyncError>> {
    let with = Embedding { executor: executor.clone(), ..Embedding::default() };
    let plan = plan(source, Destination::Remote { host: "there".into(), path: destination.into() });
    let (near, far) = duplex(FILE_BYTES);
    let (far, there) = (counted(far, moved), with.clone());
    tokio::spawn(async move { serve_over(far, &there).await });
    tokio::spawn(async move { sync_over(plan, near, &with, &mut |_| ()).await })
}

fn make(dir: &Path, files: u64, len: usize) -> Result<()> {
    std::fs::create_dir(dir)?;
    for no in 0..files {
        let bytes: Vec<u8> = (0..len as u64).map(|at| (at * (no + 7) % 251) as u8).collect();
        std::fs::write(dir.join(no.to_string()), bytes)?;
    }
    Ok(())
}

fn plan(source: &Path, destination: Destination) -> Plan {
    let options = SyncOptions { recursive: true, times: true, ..SyncOptions::default() };
    Plan::new(Sources::Local(vec![source.join("")]), destination, options)
}

/// Creates a one-way stream.
fn pipe() -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
    let (from, to) = duplex(FILE_BYTES);
    (split(from).0, split(to).1)
}

/// Both ends of a session that started and now waits, because the dialling end receives nothing.
struct WaitingSession {
    cancel: Cancel,
    _unused: (WriteHalf<DuplexStream>, ReadHalf<DuplexStream>),
}

fn wait(executor: &Executor, source: &Path, destination: PathBuf) -> WaitingSession {
    let with = Embedding { executor: executor.clone(), ..Embedding::default() };
    let (cancel, there) = (with.cancel.clone(), with.clone());
    let plan = plan(source, Destination::Remote { host: "there".into(), path: destination.into() });
    let ((from_near, to_far), (silence, unsaid), (unheard, to_nobody)) = (pipe(), pipe(), pipe());
    tokio::spawn(async move {
        sync_over(plan, join(silence, to_far), &with, &mut |_| ()).await.map(drop)
    });
    tokio::spawn(async move { serve_over(join(from_near, to_nobody), &there).await });
    WaitingSession { cancel, _unused: (unsaid, unheard) }
}

/// Resources that working sessions used.
struct WorkUsage {
    threads: usize,
    kib: u64,
    /// Fairness, measured when half of all bytes are copied: the fewest and the most bytes of a session, relative to
    /// the mean.
    shares: (f64, f64),
}

async fn work(
    executor: &Executor,
    source: &Path,
    bytes: u64,
    sessions: usize,
    destination: &dyn Fn(usize) -> PathBuf,
) -> Result<WorkUsage> {
    let moved: Vec<_> = (0..sessions).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let begin = |(no, moved): (usize, &Arc<AtomicU64>)| {
        begin(executor, source, destination(usize::MAX - no), Arc::clone(moved))
    };
    let working: Vec<_> = moved.iter().enumerate().map(begin).collect();
    let (mut taken, start) = (WorkUsage { threads: 0, kib: 0, shares: (1.0, 1.0) }, Instant::now());
    let all = || moved.iter().map(|moved| moved.load(Ordering::Relaxed));
    let half = bytes * sessions as u64 / 2;
    let mut halfway = None;
    while !working.iter().all(JoinHandle::is_finished) {
        if start.elapsed() > PATIENCE {
            bail!("the sessions did not end in time");
        }
        taken.threads = taken.threads.max(std::fs::read_dir("/proc/self/task")?.count());
        taken.kib = taken.kib.max(resident_kib("self")?);
        if halfway.is_none() && all().sum::<u64>() >= half {
            let fair = all().sum::<u64>() as f64 / sessions as f64;
            halfway = all()
                .min()
                .zip(all().max())
                .map(|(least, most)| (least as f64 / fair, most as f64 / fair));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for ended in working {
        ended.await??;
    }
    taken.shares = halfway.unwrap_or(taken.shares);
    Ok(taken)
}

/// Wraps `stream` so that `bytes` counts the received bytes.
fn counted(stream: DuplexStream, bytes: Arc<AtomicU64>) -> impl AsyncRead + AsyncWrite {
    InspectReader::new(stream, move |came: &[u8]| {
        bytes.fetch_add(came.len() as u64, Ordering::Relaxed);
    })
}

async fn until(is: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is() {
        if start.elapsed() > PATIENCE {
            bail!("sessions did not start or end in time");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
