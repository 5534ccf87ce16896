//! `deltic serve` under load: the workloads of WebR2sync+ (section 6.2), with many clients of a server.
//!
//! The server is a process. The clients are tasks of this process; each client has a WebSocket and a file that it
//! changes and syncs. Processor times of the server come from the system, so the clients do not distort them. Wall
//! times are void if the clients were late or took most of the processors.

mod clients;
mod figures;
mod floor;
mod load;
mod plots;
mod row;
pub(crate) mod server;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deltic_protocol::options::Options as SyncOptions;
use tokio::runtime::Runtime;

use crate::progress::progress;
use crate::table::TextTable;
pub(crate) use clients::REST;
use clients::{ClientFleet, ClientOptions};
use load::LoadKind;
pub(crate) use load::ServeOptions;
use row::{HEADER, LoadRow};
use server::TestServer;

/// Edit lengths of the simple load, in bytes.
const EDITS: [u64; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// Largest number of clients for which the floor is measured.
const MOST_AT_FLOOR: usize = 5000;
/// Number of edits per length in the simple load.
const SIMPLE_ROUNDS: usize = 30;

/// Runs the load in each way and prints the table.
pub(crate) fn serve(options: &ServeOptions) -> Result<()> {
    ensure!(options.clients > 0, "--clients must be at least 1");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("start the clients")?;
    if let Some(table) = single_way_table(options, &runtime)? {
        return show(&table, options);
    }
    let mut rows = Vec::new();
    for way in &options.ways {
        progress(&format!("{way}: connecting"));
        let mut server = TestServer::start(options.deltic.as_deref(), &options.dir, options.plain)?;
        let fleet = ClientFleet::new(&server, options, client_options(way)?)?;
        rows.extend(runtime.block_on(measure(fleet, &mut server, options, way))?);
    }
    let mut table = TextTable::new(1, HEADER);
    let floor = match options.load {
        // The floor does not depend on the number of clients, and does not support very many.
        LoadKind::Regular
            if options.ends().is_none() && !options.plain && options.clients <= MOST_AT_FLOOR =>
        {
            progress("floor");
            Some(runtime.block_on(floor::measure(options))?)
        }
        _ => None,
    };
    progress("");
    let floor_ms = floor.as_ref().map(|floor| floor.server_ms);
    floor.iter().chain(&rows).for_each(|row| table.row(row.cells(floor_ms)));
    show(&table, options)?;
    options.plot.as_deref().map_or(Ok(()), |dir| plots::draw(&rows, options, dir))
}

/// Runs a load that does not compare ways to sync: hog, large or idle. Such a load uses the first way of `--ways`.
fn single_way_table(options: &ServeOptions, runtime: &Runtime) -> Result<Option<TextTable>> {
    let way = || client_options(options.ways.first().context("--ways is empty")?);
    let table = match options.load {
        LoadKind::Simple | LoadKind::Regular | LoadKind::Intensive => return Ok(None),
        LoadKind::Hog => runtime.block_on(figures::hog(options, way()?))?,
        LoadKind::Large => figures::large(options)?,
        LoadKind::Idle => runtime.block_on(figures::idle(options, way()?))?,
    };
    progress("");
    Ok(Some(table))
}

fn show(table: &TextTable, options: &ServeOptions) -> Result<()> {
    table.lines().iter().for_each(|line| println!("{line}"));
    options.csv.as_ref().map_or(Ok(()), |csv| {
        std::fs::write(csv, table.csv()).with_context(|| format!("write {}", csv.display()))
    })
}

/// Returns the client options for `way`: `whole`, `update` or the name of a strategy.
fn client_options(way: &str) -> Result<ClientOptions> {
    let mut options = SyncOptions { times: true, modes: true, ..SyncOptions::default() };
    (options.durable, options.compare.cached) = (true, true);
    let updates = way == "update";
    let sync = match way {
        "whole" => SyncOptions { whole_file: true, ..options },
        "update" => options,
        way => SyncOptions { strategy: way.parse()?, ..options },
    };
    Ok(ClientOptions { sync, updates })
}

/// Runs the load in a way. Returns a row for each edit length.
async fn measure(
    mut fleet: ClientFleet,
    server: &mut TestServer,
    options: &ServeOptions,
    way: &str,
) -> Result<Vec<LoadRow>> {
    progress(&format!("{way}: first copies"));
    // The setup uploads each file and one change.
    fleet.settle(options.idle).await?;
    let edits = match options.load {
        LoadKind::Simple => EDITS.to_vec(),
        _ => vec![options.edit.bytes()],
    };
    let mut rows = Vec::new();
    for edit in edits {
        progress(&format!("{way}: edits of {edit} bytes"));
        let (before, begun) = ((server.cpu()?, own_cpu()?), Instant::now());
        let samples = match options.load {
            LoadKind::Simple => fleet.one_by_one(edit, SIMPLE_ROUNDS).await?,
            _ => {
                let period = (options.load == LoadKind::Regular).then_some(options.period);
                let mut working = std::mem::take(&mut fleet.working);
                let running = fleet.run(&mut working, period, options.seconds, edit);
                let samples = match options.ends() {
                    None => running.await?,
                    Some((by, every)) => tokio::select! {
                        samples = running => samples?,
                        ended = fleet.end(server, by, every) => return ended.map(|()| Vec::new()),
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
        rows.push(LoadRow {
            way: way.to_owned(),
            edit,
            clients: fleet.len(),
            failed: fleet.failed(),
            server_ms: each(spent.0.saturating_sub(before.0)),
            client_ms: each(spent.1.saturating_sub(before.1)),
            wall,
            resident_kib: server.resident_kib()?,
            samples,
        });
    }
    Ok(rows)
}

/// Returns the processor time of this process.
fn own_cpu() -> Result<Duration> {
    server::cpu_of(std::process::id())
}
