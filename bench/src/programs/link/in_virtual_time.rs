//! The grid in virtual time: the cost model, the meter of the rate and a simulated link, with processor time by seconds
//! a byte that were measured apart.
//!
//! ```text
//! for each kind of data, kind of transfer and level: a sync in this process ─► ratio, seconds a byte of each end
//! for each cell and choice:                          those costs ─► deltic_net::virtual_link ─► time
//! ```
//!
//! Streams are no choice: the model has one connection.

use std::time::Duration;

use anyhow::Result;
use deltic_core::strategy::{CodecModel, LinkModel};
use deltic_net::monitor::{Spent, Stage};
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_net::rehearsal::{Rehearsal, Rehearsed, rehearse};
use deltic_net::virtual_link::{VirtualChoice, VirtualData, VirtualLink, transfer_time};
use deltic_protocol::Purpose;
use deltic_protocol::options::Options;

use super::super::run::BenchRig;
use super::choices::{LEVELS, TransferChoice, fixed_name};
use super::data::{LinkCase, LinkData, NEW_TIME, new_bytes};
use super::options::LinkOptions;
use super::releases::Releases;
use crate::machine::processors;
use crate::progress::progress;
use crate::sync::LinkSpec;
use crate::table::TextTable;

/// Rates in Mbit/s and round trips in milliseconds of the default grid.
const RATES: [u64; 6] = [1, 10, 50, 100, 500, 1000];
const ROUND_TRIPS: [u64; 4] = [1, 30, 100, 200];
/// Bytes that pipes in front of the link hold.
const BUFFER_BYTES: u64 = 512 << 10;
/// Bytes of new data that are measured. The cells scale them to their links.
const MEASURED_BYTES: u64 = 16 << 20;
/// Round trips of a transfer of a changed file, and of any other transfer.
const DELTA_TRIPS: u32 = 4;
const WHOLE_TRIPS: u32 = 2;
/// A link that falls from 100 to 5 Mbit/s.
const FALL: (Duration, u64) = (Duration::from_secs(1), 5_000_000);
const FALLING: LinkModel =
    LinkModel { bits_per_second: 100_000_000, round_trip: Duration::from_millis(30) };

/// A kind of data, with the costs of each kind of transfer.
struct MeasuredCase {
    kind: LinkData,
    transfers: Vec<(TransferChoice, VirtualData)>,
}

/// Times of a cell in virtual time.
struct VirtualCell {
    link: String,
    kind: LinkData,
    default: Duration,
    /// Time of the default after a run over the same link.
    later: Duration,
    best: Duration,
    /// Name of the best fixed choice.
    choice: String,
}

impl VirtualCell {
    /// Returns this time as a multiple of the time of the best fixed choice.
    fn ratio_of(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.best.as_secs_f64()
    }
}

/// Measures the costs of the data, and computes the grid.
pub(super) fn grid(options: &LinkOptions, rig: &BenchRig) -> Result<TextTable> {
    let cases = measured_cases(options, rig)?;
    let links: Vec<LinkModel> = match options.links.is_empty() {
        false => options.links.iter().filter_map(|link| link.link()).collect(),
        true => {
            RATES.iter().flat_map(|rate| ROUND_TRIPS.map(|trip| link_of(*rate, trip))).collect()
        }
    };
    let steady = |figures| VirtualLink { figures, buffer_bytes: BUFFER_BYTES, change: None };
    let mut cells = Vec::new();
    for case in &cases {
        for link in &links {
            cells.push(cell(case, &steady(*link)));
        }
        cells.push(cell(case, &VirtualLink { change: Some(FALL), ..steady(FALLING) }));
    }
    progress("");
    println!("{}", verdict("first run", &cells, |cell| cell.default));
    println!("{}", verdict("later run", &cells, |cell| cell.later));
    Ok(table(&cells))
}

const fn link_of(mbit: u64, millis: u64) -> LinkModel {
    LinkModel { bits_per_second: mbit * 1_000_000, round_trip: Duration::from_millis(millis) }
}

fn measured_cases(options: &LinkOptions, rig: &BenchRig) -> Result<Vec<MeasuredCase>> {
    let mut all = Vec::new();
    let releases = Releases::fetch(options, rig)?;
    for (kind, case) in releases.cases(&options.data, rig, MEASURED_BYTES)? {
        let mut transfers = Vec::new();
        for transfer in TransferChoice::ALL {
            // Without an old version, all files are sent whole.
            if transfer == TransferChoice::Whole || case.old.is_some() || transfers.is_empty() {
                progress(&format!("{kind}: {}", fixed_name(None, transfer)));
                transfers.push((transfer, measured(options, rig, &case, transfer)?));
            }
        }
        all.push(MeasuredCase { kind, transfers });
    }
    Ok(all)
}

/// Measures the costs of a kind of transfer.
fn measured(
    options: &LinkOptions,
    rig: &BenchRig,
    case: &LinkCase,
    transfer: TransferChoice,
) -> Result<VirtualData> {
    let best = |level| -> Result<Rehearsed> {
        let mut best: Option<Rehearsed> = None;
        for _ in 0..options.runs.max(1) {
            let run = rehearsed(rig, case, transfer, level)?;
            if best.is_none_or(|best| cpu(&run) < cpu(&best)) {
                best = Some(run);
            }
        }
        best.ok_or_else(|| anyhow::anyhow!("no run"))
    };
    let plain = best(None)?;
    let literal = plain.sender.sent(Purpose::Literal);
    let mut levels = Vec::new();
    for level in LEVELS.into_iter().flatten() {
        let packed = best(Some(level))?;
        let bytes = packed.sender.sent(Purpose::Literal);
        let [compressed_per_second, decompressed_per_second] =
            [(packed.sender, plain.sender), (packed.receiver, plain.receiver)].map(
                |(with, without): (Spent, Spent)| {
                    let seconds = with.cpu(Stage::Pack).saturating_sub(without.cpu(Stage::Pack));
                    literal as f64 / seconds.as_secs_f64().max(1e-9)
                },
            );
        let ratio = bytes as f64 / literal.max(1) as f64;
        let codec = CodecModel { ratio, compressed_per_second, decompressed_per_second };
        levels.push((i32::from(level), codec));
    }
    let is_delta = transfer != TransferChoice::Whole && case.old.is_some();
    Ok(VirtualData {
        literal_bytes: literal,
        other_bytes: plain.outcome.traffic.sent.saturating_sub(literal),
        work: [plain.sender, plain.receiver].map(|spent| spent.total_cpu()),
        levels,
        threads: processors().get(),
        round_trips: if is_delta { DELTA_TRIPS } else { WHOLE_TRIPS },
    })
}

fn cpu(run: &Rehearsed) -> Duration {
    run.sender.total_cpu() + run.receiver.total_cpu()
}

/// Syncs with both ends in this process.
fn rehearsed(
    rig: &BenchRig,
    case: &LinkCase,
    transfer: TransferChoice,
    level: Option<u8>,
) -> Result<Rehearsed> {
    let dest = case.fresh_destination(&rig.path("virtual"))?;
    let options = Options {
        recursive: true,
        times: true,
        whole_file: transfer == TransferChoice::Whole,
        block_bytes: match transfer {
            TransferChoice::Delta(mean) => mean,
            TransferChoice::Whole => None,
        },
        compress: level.is_some(),
        compress_level: level.unwrap_or(0).into(),
        durable: false,
        ..Options::default()
    };
    let from = Sources::Local(vec![case.source()]);
    let plan = Plan::new(from, Destination::Local(dest), options);
    Ok(rehearse(&plan, Rehearsal::default(), &mut |_| ())?)
}

fn cell(case: &MeasuredCase, link: &VirtualLink) -> VirtualCell {
    let time =
        |data: &VirtualData, choice| transfer_time(&fitted(data, case.kind, link), link, choice);
    let fixed = case.transfers.iter().flat_map(|(transfer, data)| {
        LEVELS.map(|level| {
            let choice = VirtualChoice::Fixed(level.map(i32::from));
            (time(data, choice), fixed_name(level, *transfer))
        })
    });
    let (best, choice) = fixed.min_by_key(|(time, _)| *time).unwrap_or_default();
    let default =
        |choice| case.transfers.first().map(|(_, data)| time(data, choice)).unwrap_or_default();
    let falls = if link.change.is_some() { ", falls to 5 Mbit/s" } else { "" };
    VirtualCell {
        link: format!("{}{falls}", LinkSpec::Link(link.figures)),
        kind: case.kind,
        default: default(VirtualChoice::Adapted),
        later: default(VirtualChoice::Noted),
        best,
        choice,
    }
}

/// Returns the data of a cell. New data is scaled to the link, with its costs.
fn fitted(data: &VirtualData, kind: LinkData, link: &VirtualLink) -> VirtualData {
    if !matches!(kind, LinkData::Noise | LinkData::Files) {
        return data.clone();
    }
    let bytes = new_bytes(LinkSpec::Link(link.figures), NEW_TIME);
    let factor = bytes as f64 / data.literal_bytes.max(1) as f64;
    VirtualData {
        literal_bytes: bytes,
        other_bytes: (data.other_bytes as f64 * factor) as u64,
        work: data.work.map(|work| work.mul_f64(factor)),
        ..data.clone()
    }
}

fn verdict(run: &str, cells: &[VirtualCell], time: fn(&VirtualCell) -> Duration) -> String {
    let ratios: Vec<f64> = cells.iter().map(|cell| cell.ratio_of(time(cell))).collect();
    let count = |is: fn(f64) -> bool| ratios.iter().filter(|ratio| is(**ratio)).count();
    format!(
        "virtual time, default of a {run} beside the best fixed choice: within 10 % in {} of {} cells, over 25 % in {}",
        count(|ratio| ratio <= 1.10),
        cells.len(),
        count(|ratio| ratio > 1.25)
    )
}

fn table(cells: &[VirtualCell]) -> TextTable {
    let header = [
        "link",
        "data",
        "default s",
        "later run s",
        "best fixed s",
        "best fixed choice",
        "default / best",
        "later run / best",
    ];
    let mut table = TextTable::new(2, header);
    for cell in cells {
        let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
        table.row([
            cell.link.clone(),
            cell.kind.to_string(),
            seconds(cell.default),
            seconds(cell.later),
            seconds(cell.best),
            cell.choice.clone(),
            format!("{:.2}x", cell.ratio_of(cell.default)),
            format!("{:.2}x", cell.ratio_of(cell.later)),
        ]);
    }
    table
}
