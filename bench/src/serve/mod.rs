//! `deltic serve` under load: the workloads of WebR2sync+ (section 6.2), by many clients over one server.
//!
//! The server is the program, in a process of its own. The clients are tasks here, each with a WebSocket and a file of
//! its own, which it changes and syncs. What a sync costs the server is read from the system, so it holds whatever the
//! clients cost; where they took so much that they were late themselves, times are not to be trusted, and it says so.

mod clients;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use deltic_protocol::options::Options as SyncOptions;

use crate::median::median;
use crate::progress::progress;
use crate::size::Size;
use crate::sync::processors;
use crate::table::Table;
use clients::{Fleet, Sample};
use server::Server;

/// Many clients of one server: processor time of a sync, clients that it bears, times, memory
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Work of the clients
    #[arg(long, value_enum, default_value = "regular")]
    load: Load,
    /// Clients, each with a file of its own
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Clients that are connected besides, and silent after they synced once
    #[arg(long, default_value_t = 0)]
    idle: usize,
    /// Seconds between two syncs of a client (regular load)
    #[arg(long, default_value_t = 10.0)]
    period: f64,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Length of a file
    #[arg(long, default_value = "1MB")]
    size: Size,
    /// Bytes of an edit
    #[arg(long, default_value = "1KB")]
    edit: Size,
    /// Ways to sync: strategies, or whole uploads
    #[arg(long, value_delimiter = ',', default_value = "deltic,webr2sync+,webr2sync,rsync,whole")]
    ways: Vec<String>,
    /// No TLS
    #[arg(long)]
    plain: bool,
    /// Directory of the volume
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Directory of the clients' files
    #[arg(long, default_value = "/dev/shm")]
    client_dir: PathBuf,
    /// The deltic binary [default: the one beside this program, else in PATH]
    #[arg(long = "deltic", value_name = "PATH")]
    deltic: Option<PathBuf>,
    /// Writes the table as CSV into this file
    #[arg(long)]
    csv: Option<PathBuf>,
}

/// Work of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Edits of one client, one after the other, of several lengths
    Simple,
    /// An edit of each client once in a period
    Regular,
    /// Syncs without a pause, as many as the server and the clients can do
    Intensive,
}

/// Cases of the simple load: bytes of an edit.
const EDITS: [u64; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// Edits of each case of the simple load.
const SIMPLE_ROUNDS: usize = 30;

/// Runs the load with each way and prints what it took.
pub(crate) fn serve(options: &Options) -> Result<()> {
    ensure!(options.clients > 0, "--clients: there is nothing to measure");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("start the clients")?;
    let mut table = Table::new(2, HEADER);
    for way in &options.ways {
        progress(&format!("{way}: connecting"));
        let server = Server::start(options.deltic.as_deref(), &options.dir, options.plain)?;
        let fleet = Fleet::new(&server, options, strategy(way)?)?;
        runtime.block_on(measure(fleet, &server, options, (way, &mut table)))?;
    }
    progress("");
    table.lines().iter().for_each(|line| println!("{line}"));
    if let Some(csv) = &options.csv {
        std::fs::write(csv, table.csv()).with_context(|| format!("write {}", csv.display()))?;
    }
    Ok(())
}

/// Options of the syncs of one way.
fn strategy(way: &str) -> Result<SyncOptions> {
    let mut options = SyncOptions { times: true, modes: true, ..SyncOptions::default() };
    (options.durable, options.compare.cached) = (true, true);
    Ok(match way {
        "whole" => SyncOptions { whole_file: true, ..options },
        way => SyncOptions { strategy: way.parse()?, ..options },
    })
}

async fn measure(
    mut fleet: Fleet,
    server: &Server,
    options: &Options,
    (way, table): (&str, &mut Table),
) -> Result<()> {
    progress(&format!("{way}: first copies"));
    // The first copy brings the file; the second is the first that is cut.
    fleet.settle(options.idle).await?;
    let before = (server.cpu()?, own_cpu()?);
    let cases: Vec<_> = match options.load {
        Load::Simple => {
            let mut cases = Vec::new();
            for edit in EDITS {
                let before = server.cpu()?;
                let samples = fleet.one_by_one(edit, SIMPLE_ROUNDS).await?;
                let cpu = server.cpu()?.saturating_sub(before);
                cases.push((edit, samples, cpu, Duration::ZERO));
            }
            cases
        }
        Load::Regular | Load::Intensive => {
            let begun = std::time::Instant::now();
            let period = (options.load == Load::Regular).then_some(options.period);
            let samples = fleet.run(period, options.seconds, options.edit.bytes()).await?;
            let cpu = server.cpu()?.saturating_sub(before.0);
            vec![(options.edit.bytes(), samples, cpu, begun.elapsed())]
        }
    };
    let late = fleet.late();
    let own = own_cpu()?.saturating_sub(before.1);
    for (edit, samples, cpu, wall) in cases {
        let syncs = samples.len().max(1) as f64;
        let millis = |share: f64| format!("{:.1}", at_share(&samples, share) * 1e3);
        let cpu_ms = cpu.as_secs_f64() * 1e3 / syncs;
        let rate = if wall.is_zero() { 0.0 } else { syncs / wall.as_secs_f64() };
        let bears = 1e3 * PAPERS_PERIOD * f64::from(processors().get()) / cpu_ms;
        let bytes = median(samples.iter().map(|sample| sample.up as f64));
        let down = median(samples.iter().map(|sample| sample.down as f64));
        table.row([
            way.to_owned(),
            edit.to_string(),
            fleet.len().to_string(),
            samples.len().to_string(),
            fleet.failed().to_string(),
            format!("{rate:.0}"),
            format!("{cpu_ms:.2}"),
            format!("{bears:.0}"),
            millis(0.5),
            millis(0.99),
            format!("{:.1}", bytes / 1e3),
            format!("{:.1}", down / 1e3),
            (server.resident_kib()? >> 10).to_string(),
            format!("{:.2}", own.as_secs_f64() * 1e3 / syncs),
            if late > LATE {
                format!("late {:.0} ms", late.as_secs_f64() * 1e3)
            } else {
                "ok".into()
            },
        ]);
    }
    Ok(())
}

/// Seconds between two syncs of a client of the paper's.
const PAPERS_PERIOD: f64 = 10.0;
/// Clients that begin later than this are not to be trusted with times.
const LATE: Duration = Duration::from_millis(10);

const HEADER: [&str; 15] = [
    "way",
    "edit B",
    "clients",
    "syncs",
    "failed",
    "syncs/s",
    "server ms",
    "bears",
    "p50 ms",
    "p99 ms",
    "up kB",
    "down kB",
    "RSS MiB",
    "client ms",
    "clients are",
];

/// Seconds of the sync below which this share of all lies.
fn at_share(samples: &[Sample], share: f64) -> f64 {
    let mut times: Vec<_> = samples.iter().map(|sample| sample.elapsed.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Processor time of this process.
fn own_cpu() -> Result<Duration> {
    server::cpu_of(std::process::id())
}
