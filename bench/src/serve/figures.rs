//! Figures of one server beside the loads: a hog beside small clients, one large file, and clients that are idle.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deltic_protocol::options::Options as SyncOptions;

use super::clients::Fleet;
use super::load::Options;
use super::row::at_share;
use super::server::{Server, ended_cpu};
use crate::progress::progress;
use crate::random::Random;
use crate::table::Table;

/// Time in which wake-ups of an idle server are counted.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of a file that are made at once.
const PIECE: usize = 16 << 20;
/// Runs of the large file, of which the fastest counts.
const RUNS: usize = 3;

/// Prints the memory and the wake-ups of a server: with nobody there, and for each client that is silent after its
/// file went up and came down.
pub(super) async fn idle(options: &Options, sync: SyncOptions) -> Result<Table> {
    let header = ["server", "clients", "RSS MiB", "KiB a client", "wake-ups/s", "cpu ms/s"];
    let mut table = Table::new(1, header);
    let server = start(options)?;
    let alone = silence(&server).await?;
    table.row(alone.cells("alone", (0, 0)));
    let mut fleet = Fleet::new(&server, options, sync)?;
    progress("connecting");
    fleet.settle(options.idle).await?;
    fleet.fetch_all().await?;
    let one = options.clients + options.idle;
    let idle = silence(&server).await?;
    table.row(idle.cells("with idle clients", (one, alone.resident_kib)));
    ensure!(fleet.len() == one, "clients are gone");
    Ok(table)
}

/// A server with nothing to do.
struct Silence {
    resident_kib: u64,
    wakes: f64,
    cpu_ms: f64,
}

impl Silence {
    fn cells(&self, name: &str, (clients, before_kib): (usize, u64)) -> [String; 6] {
        let each = self.resident_kib.saturating_sub(before_kib) as f64 / clients.max(1) as f64;
        [
            name.into(),
            clients.to_string(),
            format!("{:.1}", self.resident_kib as f64 / 1024.0),
            if clients == 0 { "-".into() } else { format!("{each:.1}") },
            format!("{:.1}", self.wakes),
            format!("{:.2}", self.cpu_ms),
        ]
    }
}

/// Watches a server that nobody asks for anything.
async fn silence(server: &Server) -> Result<Silence> {
    progress("idle");
    // Threads end, and buffers are given back.
    tokio::time::sleep(SILENCE + Duration::from_secs(2)).await;
    let (wakes, cpu) = (server.switches()?, server.cpu()?);
    tokio::time::sleep(SILENCE).await;
    let of_a_second = |count: f64| count / SILENCE.as_secs_f64();
    Ok(Silence {
        resident_kib: server.resident_kib()?,
        wakes: of_a_second(server.switches()?.saturating_sub(wakes) as f64),
        cpu_ms: of_a_second((server.cpu()?.saturating_sub(cpu)).as_secs_f64() * 1e3),
    })
}

/// Times of small clients by themselves, and beside a client that brings a large file over and over: to a server of its
/// own, which shows what the machine makes them wait, and to theirs.
pub(super) async fn hog(options: &Options, sync: SyncOptions) -> Result<Table> {
    let header =
        ["small clients", "syncs", "failed", "p50 ms", "p99 ms", "to calm", "the hog's MB/s"];
    let mut table = Table::new(1, header);
    let (server, other) = (start(options)?, start(options)?);
    let mut fleet = Fleet::new(&server, options, sync)?;
    progress("connecting");
    fleet.settle(0).await?;
    let file = tempfile::tempdir_in(&options.client_dir).context("make a directory")?;
    let large = file.path().join("hog");
    make(&large, options.large.bytes())?;
    let load = (Some(options.period), options.seconds, options.edit.bytes());
    let mut calm_p99 = None;
    for (name, at) in
        [("calm", None), ("hog elsewhere", Some(&other)), ("beside a hog", Some(&server))]
    {
        progress(name);
        let mut working = std::mem::take(&mut fleet.working);
        let (begun, written) = (Instant::now(), at.map_or(Ok(0), Server::written_bytes)?);
        let samples = tokio::select! {
            samples = fleet.run(&mut working, load) => samples?,
            failed = be_hog(at, &large) => bail!("the hog: {failed:#}"),
        };
        fleet.working = working;
        let written = at.map_or(Ok(0), Server::written_bytes)?.saturating_sub(written);
        let rate = written as f64 / 1e6 / begun.elapsed().as_secs_f64();
        let millis = |share| at_share(&samples, share) * 1e3;
        let calm = *calm_p99.get_or_insert_with(|| millis(0.99));
        table.row([
            name.into(),
            samples.len().to_string(),
            fleet.failed().to_string(),
            format!("{:.1}", millis(0.5)),
            format!("{:.1}", millis(0.99)),
            format!("{:.1}", millis(0.99) / calm.max(f64::MIN_POSITIVE)),
            at.map_or_else(|| "-".into(), |_| format!("{rate:.0}")),
        ]);
    }
    Ok(table)
}

/// Brings a file to a server over and over, as a process of its own, until this is dropped; why it could not.
async fn be_hog(at: Option<&Server>, file: &Path) -> anyhow::Error {
    let Some(server) = at else { return std::future::pending().await };
    loop {
        let mut line = client(server);
        pinned(&mut line, server).arg(file).arg(server.url("hog"));
        let mut line = tokio::process::Command::from(line);
        match line.kill_on_drop(true).status().await {
            Ok(status) if status.success() => {}
            Ok(status) => return anyhow::anyhow!("it ended with {status}"),
            Err(error) => return error.into(),
        }
    }
}

/// Pushes and pulls one large new file by the server, beside the same through a pipe.
pub(super) fn large(options: &Options) -> Result<Table> {
    let header = ["way", "direction", "seconds", "MB/s", "client cpu s", "server cpu s", "to pipe"];
    let mut table = Table::new(2, header);
    let server = start(options)?;
    let near = tempfile::tempdir_in(&options.client_dir).context("make a directory")?;
    let far = tempfile::tempdir_in(&options.dir).context("make a directory")?;
    let file = near.path().join("large");
    make(&file, options.large.bytes())?;
    let shell = near.path().join("shell");
    fs::write(&shell, "shift\nexec \"$@\"\n")?;
    for (direction, is_push) in [("push", true), ("pull", false)] {
        let mut piped = 0.0;
        for way in ["pipe", "server"] {
            progress(&format!("{way}, {direction}"));
            let there: OsString = match way {
                "pipe" => format!("host:{}/large", far.path().display()).into(),
                _ => server.url("large"),
            };
            let mut best = Timed { seconds: f64::INFINITY, ..Timed::default() };
            for run in 0..RUNS {
                let got = near.path().join("got");
                let (from, to) = match is_push {
                    true => (file.as_os_str(), there.as_os_str()),
                    false => (there.as_os_str(), got.as_os_str()),
                };
                let mut line = client(&server);
                let line = match way {
                    "pipe" => {
                        let shell = format!("sh {}", shell.display());
                        line.args(["-e", &shell, "--deltic-path"]);
                        line.arg(server.program())
                    }
                    _ => pinned(&mut line, &server),
                };
                let timed = Timed::of(line.arg(from).arg(to), &server);
                let timed = timed.with_context(|| format!("{way}, {direction}, run {run}"))?;
                if timed.seconds < best.seconds {
                    best = timed;
                }
                fs::remove_file(&got).ok();
            }
            let rate = options.large.bytes() as f64 / 1e6 / best.seconds;
            let share = if way == "pipe" { 1.0 } else { rate / piped };
            piped = if way == "pipe" { rate } else { piped };
            table.row([
                if way == "server" && !options.plain { "server, TLS" } else { way }.to_owned(),
                direction.into(),
                format!("{:.2}", best.seconds),
                format!("{rate:.0}"),
                format!("{:.2}", best.client_s),
                if way == "pipe" { "-".into() } else { format!("{:.2}", best.server_s) },
                format!("{share:.2}"),
            ]);
        }
    }
    Ok(table)
}

/// Times of a sync, in seconds.
#[derive(Default)]
struct Timed {
    seconds: f64,
    client_s: f64,
    server_s: f64,
}

impl Timed {
    fn of(line: &mut Command, server: &Server) -> Result<Self> {
        let (before, begun) = (server.cpu()?, Instant::now());
        let children = ended_cpu()?;
        let status = line.status().context("start a client")?;
        ensure!(status.success(), "the sync ended with {status}");
        let seconds = begun.elapsed().as_secs_f64();
        let client = ended_cpu()?.saturating_sub(children);
        let server = server.cpu()?.saturating_sub(before);
        Ok(Self { seconds, client_s: client.as_secs_f64(), server_s: server.as_secs_f64() })
    }
}

fn start(options: &Options) -> Result<Server> {
    Server::start(options.deltic.as_deref(), &options.dir, options.plain)
}

/// A sync, as a process of its own.
fn client(server: &Server) -> Command {
    let mut line = Command::new(server.program());
    let (_, credentials) = &*server.to;
    line.env("DELTIC_TOKEN", credentials.token.reveal()).stdout(Stdio::null());
    line.args(["sync", "-W", "-I"]);
    line
}

/// Has it know the server that it goes to.
fn pinned<'a>(line: &'a mut Command, server: &Server) -> &'a mut Command {
    match &server.to.1.pin {
        Some(pin) => line.args(["--pin", pin]),
        None => line,
    }
}

/// Makes a file of bytes that nobody has.
fn make(path: &Path, len: u64) -> Result<()> {
    use std::io::Write;
    let (mut file, mut random) = (fs::File::create(path)?, Random::new(len));
    let mut left = len;
    while left > 0 {
        let piece = random.bytes(PIECE.min(usize::try_from(left).unwrap_or(PIECE)));
        file.write_all(&piece)?;
        left -= piece.len() as u64;
    }
    Ok(())
}
