//! Many sessions in one process: threads, memory, how evenly they are served, and how soon those that are cancelled
//! are gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltic_net::embed::{Cancel, Embedding, serve_over, sync, sync_over};
use deltic_net::executor::{Executor, Limits};
use deltic_net::plan::{Destination, Names, Patience, Plan, Remote, Sources};
use deltic_protocol::options::Options as SyncOptions;
use deltic_protocol::report::Notice;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, join, split};

use crate::table::Table;

/// Many sessions in one process: threads, memory, fairness, cancel
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sessions in all; those that do not work wait for their other end
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// Sessions that work at once
    #[arg(long, default_value_t = 100)]
    working: usize,
    /// Bytes that each of them copies, in files of 64 KiB
    #[arg(long, default_value_t = 4 << 20)]
    bytes: u64,
    /// Directory for the trees
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
}

/// Longest time for sessions to begin, to work and to end.
const PATIENCE: Duration = Duration::from_secs(600);
const FILE_BYTES: usize = 64 << 10;

/// Holds the sessions and prints what they took.
pub(crate) fn sessions(options: &Options) -> Result<()> {
    let dir = tempfile::tempdir_in(&options.dir).context("make a directory")?;
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    make(&small, 4, 8 << 10)?;
    make(&large, options.bytes.div_ceil(FILE_BYTES as u64), FILE_BYTES)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let executor = Executor::new(Limits::default());
    let measured = runtime.block_on(async {
        let idle = options.sessions.saturating_sub(options.working);
        let before = resident_kib()?;
        let destination = |no: usize| dir.path().join(no.to_string());
        let waiting: Vec<_> =
            (0..idle).map(|no| wait(&executor, &small, destination(no))).collect();
        until(|| executor.usage().sessions >= 2 * idle).await?;
        let idle_kib = (resident_kib()? - before) / idle.max(1) as u64;
        let work = work(&executor, &large, (options.working, &destination)).await?;
        let half = waiting.len() / 2;
        let start = Instant::now();
        waiting[..half].iter().for_each(|session| session.cancel.cancel());
        until(|| executor.usage().sessions <= 2 * (idle - half)).await?;
        anyhow::Ok((idle_kib, work, start.elapsed()))
    });
    let (idle_kib, work, cancelled) = measured?;
    let header =
        ["sessions", "working", "threads", "idle KiB each", "peak MiB", "fairness", "cancel ms"];
    let mut table = Table::new(0, header);
    table.row([
        options.sessions.to_string(),
        options.working.to_string(),
        work.threads.to_string(),
        idle_kib.to_string(),
        (work.kib >> 10).to_string(),
        format!("{:.2}", work.fairness),
        cancelled.as_millis().to_string(),
    ]);
    table.lines().iter().for_each(|line| println!("{line}"));
    Ok(())
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
    Plan {
        sources: Sources::Local(vec![source.join("")]),
        names: Names::None,
        destination,
        options: SyncOptions { recursive: true, times: true, ..SyncOptions::default() },
        remote: Remote { shell: Vec::new(), program: "deltic".into(), options: Vec::new() },
        bwlimit: None,
        patience: Patience::default(),
        by_blake3: false,
        cache: None,
        batch: None,
    }
}

/// A one-way stream from one end to the other.
fn pipe() -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
    let (from, to) = duplex(FILE_BYTES);
    (split(from).0, split(to).1)
}

/// Both ends of a session whose dialling end hears nothing: they begin, and wait.
struct Waiting {
    cancel: Cancel,
    _unused: (WriteHalf<DuplexStream>, ReadHalf<DuplexStream>),
}

fn wait(executor: &Executor, source: &Path, destination: PathBuf) -> Waiting {
    let with = Embedding { executor: executor.clone(), ..Embedding::default() };
    let (cancel, there) = (with.cancel.clone(), with.clone());
    let plan = plan(source, Destination::Remote { host: "there".into(), path: destination.into() });
    let ((from_near, to_far), (silence, unsaid), (unheard, to_nobody)) = (pipe(), pipe(), pipe());
    tokio::spawn(async move {
        sync_over(plan, join(silence, to_far), &with, &mut |_| ()).await.map(drop)
    });
    tokio::spawn(async move { serve_over(join(from_near, to_nobody), &there).await });
    Waiting { cancel, _unused: (unsaid, unheard) }
}

/// Resources that sessions at work took.
struct Work {
    threads: usize,
    kib: u64,
    /// Share of its work that the slowest session had done when the first was done.
    fairness: f64,
}

async fn work(
    executor: &Executor,
    source: &Path,
    (sessions, destination): (usize, &dyn Fn(usize) -> PathBuf),
) -> Result<Work> {
    let settled: Vec<_> = (0..sessions).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let begin = |(no, settled): (usize, &Arc<AtomicU64>)| {
        let with = Embedding { executor: executor.clone(), ..Embedding::default() };
        let plan = plan(source, Destination::Local(destination(usize::MAX - no)));
        let settled = Arc::clone(settled);
        tokio::spawn(async move {
            let mut watch = |notice| {
                if let Notice::Settled { bytes } = notice {
                    settled.fetch_add(bytes, Ordering::Relaxed);
                }
            };
            sync(plan, &with, &mut watch).await
        })
    };
    let working: Vec<_> = settled.iter().enumerate().map(begin).collect();
    let (mut taken, start) = (Work { threads: 0, kib: 0, fairness: 1.0 }, Instant::now());
    let mut first = None;
    while !working.iter().all(tokio::task::JoinHandle::is_finished) {
        if start.elapsed() > PATIENCE {
            bail!("the sessions did not end");
        }
        taken.threads = taken.threads.max(std::fs::read_dir("/proc/self/task")?.count());
        taken.kib = taken.kib.max(resident_kib()?);
        if first.is_none() && working.iter().any(tokio::task::JoinHandle::is_finished) {
            let done = || settled.iter().map(|settled| settled.load(Ordering::Relaxed));
            first = done().min().zip(done().max());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for ended in working {
        ended.await??;
    }
    if let Some((least, most)) = first {
        taken.fairness = least as f64 / most.max(1) as f64;
    }
    Ok(taken)
}

async fn until(is: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is() {
        if start.elapsed() > PATIENCE {
            bail!("sessions neither began nor ended");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Memory of this process.
fn resident_kib() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/statm")?;
    let pages = stat.split(' ').nth(1).context("/proc/self/statm has two numbers")?;
    Ok((pages.parse::<u64>()? * rustix::param::page_size() as u64) >> 10)
}
