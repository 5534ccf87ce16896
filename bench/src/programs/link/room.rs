//! The room that a sync leaves for other traffic: pings beside a transfer, through the queue of the transfer.
//!
//! ```text
//! client ─► pipe ─┐
//!                 ├─► queue of a router ─► line at the rate of the link
//! ping ───────────┘
//! ```
//!
//! A ping knows nothing of the sync: it reserves the same line in each direction, behind the bytes in the queue.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use deltic_core::strategy::LinkModel;
use deltic_net::LinkDirection;

use super::super::figures::{median, seconds};
use super::super::peer::turns;
use super::super::run::BenchRig;
use super::choices::{ChoiceKind, LinkChoice, deltic};
use super::data::{new_bytes, noise};
use super::options::LinkOptions;
use super::transfer::sync_once;
use crate::median::at_share;
use crate::progress::progress;
use crate::sync::LinkSpec;
use crate::sync::line::SharedLine;
use crate::table::TextTable;

/// Longest wait in the queue of the router.
const QUEUE: Duration = Duration::from_millis(200);
/// Time that the link takes for the data: `auto` takes seconds to find the rate of a link.
const TRANSFER_TIME: Duration = Duration::from_secs(6);
/// Share of the rate of the link that the fixed limit takes.
const FIXED_SHARE: f64 = 0.85;
/// Time between two pings, and bytes of a ping.
const EVERY: Duration = Duration::from_millis(50);
const PING_BYTES: u32 = 64;

/// Measures noise with and without limits over each link.
pub(super) fn room(options: &LinkOptions, rig: &BenchRig, links: &[LinkSpec]) -> Result<TextTable> {
    let header =
        ["link", "limit", "s", "share of the link", "ping median ms", "ping 95 % ms", "idle ms"];
    let mut table = TextTable::new(2, header);
    for between in links {
        let Some(link) = between.link() else { continue };
        let line = rig.write_linked_shell(*between, QUEUE)?;
        let bytes = new_bytes(*between, TRANSFER_TIME);
        let case = noise(rig, bytes)?;
        let choices = limits(link);
        let mut runs: Vec<Vec<RoomRun>> = choices.iter().map(|_| Vec::new()).collect();
        for round in 0..options.runs {
            for (number, choice) in turns(&choices, round) {
                progress(&format!("{between}, room, round {round}: {}", choice.name));
                let pings = Pings::start(&line, link)?;
                let cost = sync_once(rig, choice, &case)?;
                runs[number].push(RoomRun { wall: cost.wall, pings: pings.end()? });
            }
        }
        for (choice, runs) in choices.iter().zip(&runs) {
            table.row(row(*between, link, choice, &Measured { bytes, runs }));
        }
    }
    Ok(table)
}

/// No limit, a fixed limit, and `auto`.
fn limits(link: LinkModel) -> [LinkChoice; 3] {
    let fixed = (link.bits_per_second as f64 / 8.0 * FIXED_SHARE) as u64;
    let limit = |name: &str, flag: Option<String>| {
        deltic(name.into(), ChoiceKind::Default, flag.into_iter().collect())
    };
    [
        limit("none", None),
        limit("85 % of the link", Some(format!("--bwlimit={fixed}B"))),
        limit("auto", Some("--bwlimit=auto".into())),
    ]
}

/// Time of a transfer, and the pings beside it.
struct RoomRun {
    wall: Duration,
    pings: Vec<Duration>,
}

struct Measured<'a> {
    bytes: u64,
    runs: &'a [RoomRun],
}

fn row(
    between: LinkSpec,
    link: LinkModel,
    choice: &LinkChoice,
    Measured { bytes, runs }: &Measured<'_>,
) -> Vec<String> {
    let wall = median(runs, |run| run.wall);
    let carried = *bytes as f64 * 8.0 / wall.as_secs_f64().max(1e-9);
    let share = carried / link.bits_per_second as f64;
    let mut pings: Vec<Duration> = runs.iter().flat_map(|run| &run.pings).copied().collect();
    pings.sort_unstable();
    let [middle, late] = [0.5, 0.95].map(|share| millis(at_share(&pings, share)));
    let idle = millis(link.round_trip);
    let share = format!("{:.0} %", share * 100.0);
    vec![between.to_string(), choice.name.clone(), seconds(wall), share, middle, late, idle]
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Pings over a line, until the value is ended.
struct Pings {
    /// Dropped to end the thread.
    going: Sender<()>,
    thread: JoinHandle<Result<Vec<Duration>>>,
}

impl Pings {
    fn start(line: &Path, link: LinkModel) -> Result<Self> {
        let (going, stopped) = channel();
        let line = SharedLine::open(line)?;
        let thread = thread::spawn(move || {
            let mut pings = Vec::new();
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                pings.push(ping(&line, link)?);
            }
            Ok(pings)
        });
        Ok(Self { going, thread })
    }

    fn end(self) -> Result<Vec<Duration>> {
        drop(self.going);
        self.thread.join().map_err(|_| anyhow!("the thread of the pings has failed"))?
    }
}

/// Sends a message there and back. Returns its time.
fn ping(line: &SharedLine, link: LinkModel) -> Result<Duration> {
    let time = Duration::from_secs_f64(f64::from(PING_BYTES) * 8.0 / link.bits_per_second as f64);
    let start = Instant::now();
    for direction in [LinkDirection::There, LinkDirection::Back] {
        thread::sleep(line.reserve(direction, time)? + link.round_trip / 2);
    }
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_waits_behind_the_bytes_in_the_queue() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("line");
        SharedLine::create(&path).unwrap();
        let line = SharedLine::open(&path).unwrap();
        let link = LinkModel { bits_per_second: 10_000_000, round_trip: Duration::from_millis(20) };
        let idle = ping(&line, link).unwrap();
        assert!(idle >= link.round_trip, "{idle:?}");
        line.reserve(LinkDirection::There, Duration::from_millis(300)).unwrap();
        let behind = ping(&line, link).unwrap();
        assert!(behind >= Duration::from_millis(310), "{behind:?}");
    }
}
