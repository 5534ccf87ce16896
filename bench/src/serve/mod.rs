//! `deltic serve` under load: the workloads of WebR2sync+ (section 6.2), by many clients over one server.
//!
//! The server is the program, in a process of its own. The clients are tasks here, each with a WebSocket and a file of
//! its own, which it changes and syncs. What a sync costs the server is read from the system, so it holds whatever the
//! clients cost; where they took so much that they were late themselves, times are not to be trusted, and it says so.

mod clients;
mod plots;
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    /// Seconds after which the server is killed, and started again, over and over; its files are looked at each time
    #[arg(long, value_name = "SECONDS")]
    kill_every: Option<f64>,
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
    /// Draws figures 19 to 22 of the paper anew, into this directory
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
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
    let mut rows = Vec::new();
    for way in &options.ways {
        progress(&format!("{way}: connecting"));
        let mut server = Server::start(options.deltic.as_deref(), &options.dir, options.plain)?;
        let fleet = Fleet::new(&server, options, strategy(way)?)?;
        rows.extend(runtime.block_on(measure(fleet, &mut server, options, way))?);
    }
    progress("");
    let mut table = Table::new(1, HEADER);
    rows.iter().for_each(|row| table.row(row.cells()));
    table.lines().iter().for_each(|line| println!("{line}"));
    if let Some(csv) = &options.csv {
        std::fs::write(csv, table.csv()).with_context(|| format!("write {}", csv.display()))?;
    }
    options.plot.as_deref().map_or(Ok(()), |dir| plots::draw(&rows, options, dir))
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

/// Figures of one way under the load.
struct Row {
    way: String,
    edit: u64,
    clients: usize,
    samples: Vec<Sample>,
    failed: u64,
    /// Processor time of the server and of the clients for a sync, in milliseconds.
    server_ms: f64,
    client_ms: f64,
    wall: Duration,
    resident_kib: u64,
    /// Longest time by which a client was late.
    late: Duration,
}

impl Row {
    /// Clients of the paper's regular load that this machine bears, by processor time alone.
    fn bears(&self) -> f64 {
        1e3 * PAPERS_PERIOD * f64::from(processors().get()) / self.server_ms
    }

    /// Kilobytes to the server, of the sync in the middle.
    fn up_kb(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.up as f64)) / 1e3
    }

    fn cells(&self) -> [String; 15] {
        let Self { samples, late, .. } = self;
        let millis = |share| format!("{:.1}", at_share(samples, share) * 1e3);
        let down = median(samples.iter().map(|sample| sample.down as f64)) / 1e3;
        let late = if *late > LATE { format!("{} ms late", late.as_millis()) } else { "no".into() };
        [
            self.way.clone(),
            self.edit.to_string(),
            self.clients.to_string(),
            samples.len().to_string(),
            self.failed.to_string(),
            format!("{:.0}", samples.len() as f64 / self.wall.as_secs_f64()),
            format!("{:.2}", self.server_ms),
            format!("{:.0}", self.bears()),
            millis(0.5),
            millis(0.99),
            format!("{:.1}", self.up_kb()),
            format!("{down:.1}"),
            format!("{:.1}", self.resident_kib as f64 / 1024.0),
            format!("{:.2}", self.client_ms),
            late,
        ]
    }
}

/// Runs the load with one way: a row for each length of an edit.
async fn measure(
    mut fleet: Fleet,
    server: &mut Server,
    options: &Options,
    way: &str,
) -> Result<Vec<Row>> {
    progress(&format!("{way}: first copies"));
    // The first copy brings the file; the second is of one that was changed.
    fleet.settle(options.idle).await?;
    let edits = match options.load {
        Load::Simple => EDITS.to_vec(),
        Load::Regular | Load::Intensive => vec![options.edit.bytes()],
    };
    let mut rows = Vec::new();
    for edit in edits {
        progress(&format!("{way}: edits of {edit} bytes"));
        let (before, begun) = ((server.cpu()?, own_cpu()?), Instant::now());
        let samples = match options.load {
            Load::Simple => fleet.one_by_one(edit, SIMPLE_ROUNDS).await?,
            Load::Regular | Load::Intensive => {
                let period = (options.load == Load::Regular).then_some(options.period);
                let mut working = std::mem::take(&mut fleet.working);
                let running = fleet.run(&mut working, (period, options.seconds, edit));
                let samples = match options.kill_every {
                    None => running.await?,
                    Some(every) => tokio::select! {
                        samples = running => samples?,
                        killed = fleet.kill(server, Duration::from_secs_f64(every)) => {
                            return killed.map(|()| Vec::new());
                        }
                    },
                };
                fleet.working = working;
                fleet.check(server)?;
                samples
            }
        };
        let wall = begun.elapsed();
        let each = |spent: Duration| spent.as_secs_f64() * 1e3 / samples.len().max(1) as f64;
        let spent = (server.cpu()?, own_cpu()?);
        rows.push(Row {
            way: way.to_owned(),
            edit,
            clients: fleet.len(),
            failed: fleet.failed(),
            server_ms: each(spent.0.saturating_sub(before.0)),
            client_ms: each(spent.1.saturating_sub(before.1)),
            wall,
            resident_kib: server.resident_kib()?,
            late: fleet.late(),
            samples,
        });
    }
    Ok(rows)
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
    "late",
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
