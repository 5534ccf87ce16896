//! Special measurements of a server: a hog beside small clients, a large file, and idle clients.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::clients::{ClientFleet, ClientOptions};
use super::load::ServeOptions;
use super::row::at_share;
use super::server::{TestServer, ended_cpu};
use crate::median::median;
use crate::progress::progress;
use crate::random::Random;
use crate::table::TextTable;

/// Duration of counting an idle server's wake-ups.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes generated at a time.
const PIECE: usize = 16 << 20;
/// Rounds with small clients; medians are shown.
const HOG_ROUNDS: usize = 4;
/// Runs with the large file; the fastest run is shown.
const RUNS: usize = 3;

/// Measures memory and wake-ups of a server: without clients, and per silent client after an upload and a download.
pub(super) async fn idle(options: &ServeOptions, manner: ClientOptions) -> Result<TextTable> {
    let header = ["server", "clients", "RSS MiB", "KiB a client", "wake-ups/s", "cpu ms/s"];
    let mut table = TextTable::new(1, header);
    let server = start(options)?;
    let alone = silence(&server).await?;
    table.row(alone.cells("alone", 0, 0));
    let mut fleet = ClientFleet::new(&server, options, manner)?;
    progress("connecting");
    fleet.settle(options.idle).await?;
    fleet.fetch_all().await?;
    let one = options.clients + options.idle;
    let idle = silence(&server).await?;
    table.row(idle.cells("with idle clients", one, alone.resident_kib));
    ensure!(fleet.len() == one, "clients have lost their connections");
    Ok(table)
}

/// Figures of an idle server.
struct IdleFigures {
    resident_kib: u64,
    wakes: f64,
    cpu_ms: f64,
}

impl IdleFigures {
    fn cells(&self, name: &str, clients: usize, before_kib: u64) -> [String; 6] {
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

/// Watches an idle server.
async fn silence(server: &TestServer) -> Result<IdleFigures> {
    progress("idle");
    // Lets threads end and buffers be freed first.
    tokio::time::sleep(SILENCE + Duration::from_secs(2)).await;
    let (wakes, cpu) = (server.switches()?, server.cpu()?);
    tokio::time::sleep(SILENCE).await;
    let of_a_second = |count: f64| count / SILENCE.as_secs_f64();
    Ok(IdleFigures {
        resident_kib: server.resident_kib()?,
        wakes: of_a_second(server.switches()?.saturating_sub(wakes) as f64),
        cpu_ms: of_a_second((server.cpu()?.saturating_sub(cpu)).as_secs_f64() * 1e3),
    })
}

/// Times small clients in three settings: alone, beside a hog that uploads a large file to another server on this
/// machine, and beside a hog on the same server. The settings alternate in rounds. The table has medians.
pub(super) async fn hog(options: &ServeOptions, manner: ClientOptions) -> Result<TextTable> {
    let (server, other) = (start(options)?, start(options)?);
    let mut fleet = ClientFleet::new(&server, options, manner)?;
    progress("connecting");
    fleet.settle(0).await?;
    let file = tempfile::tempdir_in(&options.client_dir).context("make a directory")?;
    let large = file.path().join("hog");
    make(&large, options.large.bytes())?;
    let places = [("calm", None), ("hog elsewhere", Some(&other)), ("beside a hog", Some(&server))];
    let mut rounds: [Vec<RoundFigures>; 3] = Default::default();
    for round in 1..=HOG_ROUNDS {
        for ((name, at), rounds) in places.iter().zip(&mut rounds) {
            progress(&format!("round {round}, {name}"));
            rounds.push(run_beside_hog(&mut fleet, options, *at, &large).await?);
        }
    }
    let header = ["small clients", "syncs", "failed", "p50 ms", "p99 ms", "each round"];
    let mut table =
        TextTable::new(1, header.into_iter().chain(["to calm", "to floor", "hog MB/s"]));
    let of = |rounds: &[RoundFigures], figure: fn(&RoundFigures) -> f64| {
        median(rounds.iter().map(figure))
    };
    let p99 = |rounds: &[RoundFigures]| of(rounds, |round| round.p99_ms);
    for ((name, at), seen) in places.iter().zip(&rounds) {
        let each: Vec<_> = seen.iter().map(|round| format!("{:.1}", round.p99_ms)).collect();
        let to = |other: &[RoundFigures]| {
            format!("{:.2}", p99(seen) / p99(other).max(f64::MIN_POSITIVE))
        };
        let has_hog = |cell| if at.is_some() { cell } else { "-".into() };
        table.row([
            (*name).into(),
            seen.iter().map(|round| round.syncs).sum::<usize>().to_string(),
            seen.iter().map(|round| round.failed).sum::<u64>().to_string(),
            format!("{:.1}", of(seen, |round| round.p50_ms)),
            format!("{:.1}", p99(seen)),
            each.join(" "),
            to(&rounds[0]),
            has_hog(to(&rounds[1])),
            has_hog(format!("{:.0}", of(seen, |round| round.hog_rate))),
        ]);
    }
    Ok(table)
}

/// Figures of small clients in a round.
struct RoundFigures {
    syncs: usize,
    failed: u64,
    p50_ms: f64,
    p99_ms: f64,
    /// Megabytes per second of the hog.
    hog_rate: f64,
}

/// Runs small clients while a hog uploads a file, if `at` names a server.
async fn run_beside_hog(
    fleet: &mut ClientFleet,
    options: &ServeOptions,
    at: Option<&TestServer>,
    large: &Path,
) -> Result<RoundFigures> {
    let (period, edit) = (Some(options.period), options.edit.bytes());
    let mut working = std::mem::take(&mut fleet.working);
    let (begun, failed) = (Instant::now(), fleet.failed());
    let written = || at.map_or(Ok(0), TestServer::written_bytes);
    let before = written()?;
    let samples = tokio::select! {
        samples = fleet.run(&mut working, period, options.seconds, edit) => samples?,
        failed = upload_repeatedly(at, large) => bail!("the hog: {failed:#}"),
    };
    fleet.working = working;
    let millis = |share| at_share(&samples, share, |sample| sample.elapsed).as_secs_f64() * 1e3;
    Ok(RoundFigures {
        syncs: samples.len(),
        failed: fleet.failed() - failed,
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        hog_rate: written()?.saturating_sub(before) as f64 / 1e6 / begun.elapsed().as_secs_f64(),
    })
}

/// Uploads a file to a server again and again in a separate process, until dropped. Returns the error of a failed
/// upload.
async fn upload_repeatedly(at: Option<&TestServer>, file: &Path) -> anyhow::Error {
    let Some(server) = at else { return std::future::pending().await };
    loop {
        let mut line = client(server);
        pinned(&mut line, server).arg(file).arg(server.url("hog"));
        let mut line = tokio::process::Command::from(line);
        match line.kill_on_drop(true).status().await {
            Ok(status) if status.success() => {}
            Ok(status) => return anyhow::anyhow!("the upload ended with {status}"),
            Err(error) => return error.into(),
        }
    }
}

/// Ways to copy a large file between two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyWay {
    /// A session through a pipe.
    Pipe,
    /// A plain HTTP request to the same server by another program: the cost of TLS, a socket and a file on this
    /// machine.
    Curl,
    /// A session with the server.
    Server,
}

/// Measures push and pull of a large new file with the server, compared with a pipe and with curl.
pub(super) fn large(options: &ServeOptions) -> Result<TextTable> {
    let header = ["way", "direction", "seconds", "MB/s", "client cpu s", "server cpu s", "to pipe"];
    let mut table = TextTable::new(2, header.into_iter().chain(["to curl"]));
    let copies = CopyBench::new(options)?;
    for direction in ["push", "pull"] {
        let (mut piped, mut curled) = (None, None);
        for way in [CopyWay::Pipe, CopyWay::Curl, CopyWay::Server] {
            progress(&format!("{way:?}, {direction}"));
            let Some(best) = copies.fastest(way, direction == "push")? else {
                eprintln!("SKIPPED: curl is not installed");
                continue;
            };
            match way {
                CopyWay::Pipe => piped = Some(best.seconds),
                CopyWay::Curl => curled = Some(best.seconds),
                CopyWay::Server => {}
            }
            let to = |other: Option<f64>| {
                other.map_or_else(|| "-".into(), |other| format!("{:.2}", other / best.seconds))
            };
            let tls = if options.plain { "" } else { ", TLS" };
            let is_piped = way == CopyWay::Pipe;
            table.row([
                if is_piped { "pipe".into() } else { format!("{way:?}").to_lowercase() + tls },
                direction.into(),
                format!("{:.2}", best.seconds),
                format!("{:.0}", options.large.bytes() as f64 / 1e6 / best.seconds),
                format!("{:.2}", best.client_s),
                if is_piped { "-".into() } else { format!("{:.2}", best.server_s) },
                to(piped),
                to(curled),
            ]);
        }
    }
    Ok(table)
}

/// A large file and its destinations.
struct CopyBench {
    server: TestServer,
    near: TempDir,
    far: TempDir,
    has_curl: bool,
}

impl CopyBench {
    fn new(options: &ServeOptions) -> Result<Self> {
        let near = tempfile::tempdir_in(&options.client_dir).context("make a directory")?;
        let far = tempfile::tempdir_in(&options.dir).context("make a directory")?;
        make(&near.path().join("large"), options.large.bytes())?;
        fs::write(near.path().join("shell"), "shift\nexec \"$@\"\n")?;
        let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
        let has_curl = curl.is_ok_and(|status| status.success());
        Ok(Self { server: start(options)?, near, far, has_curl })
    }

    /// Returns the times of the fastest run, or `None` if the program is missing.
    fn fastest(&self, way: CopyWay, is_push: bool) -> Result<Option<SyncTimes>> {
        if way == CopyWay::Curl && !self.has_curl {
            return Ok(None);
        }
        let mut best: Option<SyncTimes> = None;
        for run in 0..RUNS {
            let timed = SyncTimes::of(&mut self.line(way, is_push), &self.server);
            let timed = timed.with_context(|| format!("{way:?}, push: {is_push}, run {run}"))?;
            fs::remove_file(self.near.path().join("got")).ok();
            if best.as_ref().is_none_or(|best| timed.seconds < best.seconds) {
                best = Some(timed);
            }
        }
        Ok(best)
    }

    fn line(&self, way: CopyWay, is_push: bool) -> Command {
        let Self { server, near, far, .. } = self;
        let (file, got) = (near.path().join("large"), near.path().join("got"));
        if way == CopyWay::Curl {
            let mut line = curl(server, "large");
            match is_push {
                true => line.arg("-T").arg(file),
                false => line.arg("-o").arg(got),
            };
            return line;
        }
        let mut line = client(server);
        let there: OsString = match way {
            CopyWay::Pipe => {
                let shell = format!("sh {}", near.path().join("shell").display());
                line.args(["-e", &shell, "--deltic-path"]).arg(server.program());
                format!("host:{}/large", far.path().display()).into()
            }
            _ => {
                pinned(&mut line, server);
                server.url("large")
            }
        };
        match is_push {
            true => line.arg(file).arg(there),
            false => line.arg(there).arg(got),
        };
        line
    }
}

/// Returns a curl command for a file of the server.
fn curl(server: &TestServer, name: &str) -> Command {
    let mut line = Command::new("curl");
    let (address, credentials) = &*server.to;
    line.args(["--silent", "--show-error", "--fail"]).stdout(Stdio::null());
    if let Some(pin) = &credentials.pin {
        line.args(["--insecure", "--pinnedpubkey", &pin.to_string()]);
    }
    line.args(["-H", &format!("Authorization: Bearer {}", credentials.token.reveal())]);
    line.arg(format!("{}/v1/volumes/{}/files/{name}", address.server(), address.volume));
    line
}

/// Wall time and processor times of a sync in seconds.
#[derive(Default)]
struct SyncTimes {
    seconds: f64,
    client_s: f64,
    server_s: f64,
}

impl SyncTimes {
    fn of(line: &mut Command, server: &TestServer) -> Result<Self> {
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

fn start(options: &ServeOptions) -> Result<TestServer> {
    TestServer::start(options.deltic.as_deref(), &options.dir, options.plain)
}

/// Returns a `deltic sync` command, to run in a separate process.
fn client(server: &TestServer) -> Command {
    let mut line = Command::new(server.program());
    let (_, credentials) = &*server.to;
    line.env("DELTIC_TOKEN", credentials.token.reveal()).stdout(Stdio::null());
    line.args(["sync", "-W", "-I"]);
    line
}

/// Adds the server's certificate pin.
fn pinned<'a>(line: &'a mut Command, server: &TestServer) -> &'a mut Command {
    match &server.to.1.pin {
        Some(pin) => line.args(["--pin", &pin.to_string()]),
        None => line,
    }
}

/// Makes a file of random bytes.
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
