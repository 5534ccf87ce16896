//! SIGKILL at a random moment to a random process of a sync, then an undisturbed second sync.
//!
//! Requirements (docs/promises.md): at every moment each name shows the old or the new content. The second sync
//! succeeds, leaves equal trees and no temporary files, and resumes most of the received data.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::figures::{median, publish};
use super::files::TreeFiles;
use super::measured::adopt_orphans;
use super::peer::{ByteStats, PeerProgram, ProgramPaths, SyncTask};
use super::processes::{KillTarget, RunningSync};
use super::relay::RelayCounts;
use super::run::{BenchDirs, BenchRig, shown};
use crate::progress::progress;
use crate::random::Random;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct KillOptions {
    /// Kills for each peer
    #[arg(long, default_value_t = 100)]
    runs: u32,
    /// Size of the large file; two fifths of the file change
    #[arg(long, default_value = "64MiB")]
    size: ByteSize,
    /// Programs to kill
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "deltic,deltic-partial,rsync,rsync-partial"
    )]
    peers: Vec<PeerProgram>,
    /// Seed of the data, the moments and the victims [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Both versions of the tree, in memory and on disk.
struct KillStage {
    rig: BenchRig,
    old: TreeFiles,
    new: TreeFiles,
}

/// Figures of an undisturbed sync.
#[derive(Clone, Copy)]
struct CalmRun {
    wall: Duration,
    literal: u64,
    /// Bytes to the receiver besides literals.
    overhead: u64,
}

/// Result of a kill.
#[derive(Default)]
struct KillOutcome {
    victim: Option<KillTarget>,
    survivors: bool,
    /// True if the large file was not complete.
    cut_short: bool,
    torn: Vec<PathBuf>,
    litter: usize,
    arrived: u64,
    rerun: SecondRun,
}

/// Result of the sync after a kill.
#[derive(Default)]
struct SecondRun {
    complaint: Option<String>,
    differing: Vec<PathBuf>,
    litter: Vec<PathBuf>,
    literal: u64,
    wall: Duration,
}

pub(crate) fn kill(options: &KillOptions) -> Result<()> {
    options.programs.announce(&options.peers)?;
    adopt_orphans()?;
    let seed = options.seed.unwrap_or_else(clock);
    eprintln!("seed {seed}");
    let stage = KillStage::new(options, seed)?;
    let mut table = TextTable::new(0, COLUMNS);
    let mut broken = Vec::new();
    for &peer in &options.peers {
        let calm = stage.calm(peer)?;
        let mut random = Random::new(seed);
        let mut outcomes = Vec::new();
        for run in 1..=options.runs {
            progress(&format!("{}: kill {run}/{}", peer.name(), options.runs));
            outcomes.push(stage.kill_once(peer, calm, &mut random)?);
        }
        progress("");
        table.row(summary(peer, calm, &outcomes));
        let faults = outcomes
            .iter()
            .enumerate()
            .filter_map(|(run, outcome)| Some((run, outcome.fault(calm)?)));
        for (run, fault) in faults {
            eprintln!("{}, kill {}: {fault}", peer.name(), run + 1);
            broken.extend(peer.is_deltic().then_some(run));
        }
    }
    publish(&table, &options.at.out, "kill")?;
    if !broken.is_empty() {
        bail!("{} kills violated a requirement; seed {seed}", broken.len());
    }
    Ok(())
}

impl KillStage {
    fn new(options: &KillOptions, seed: u64) -> Result<Self> {
        let rig = BenchRig::new(&options.programs, &options.at.dir)?;
        rig.write_shell("relay", &rig.path("passed"))?;
        let (old, new) = trees(options.size.bytes() as usize, seed);
        new.write(&rig.path("new"))?;
        Ok(Self { rig, old, new })
    }

    fn start(&self, peer: PeerProgram) -> Result<RunningSync> {
        let source = self.rig.path("new/");
        // A killed agent ends the run: the second run is the one that is measured.
        let flags: &[_] = match peer.is_deltic() {
            true => &["-a", "--no-whole-file", "--no-retry"],
            false => &["-a", "--no-whole-file"],
        };
        let task = SyncTask { flags, ..SyncTask::default() };
        let line = self.rig.line(peer, task, &source, &self.dest());
        fs::remove_file(self.rig.path("passed")).ok();
        let child = Command::new(&line[0])
            .args(&line[1..])
            .stdin(Stdio::null())
            .stdout(File::create(self.rig.path("said"))?)
            .stderr(File::create(self.rig.path("complained"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", shown(&line)))?;
        Ok(RunningSync::new(child))
    }

    /// Measures undisturbed syncs.
    fn calm(&self, peer: PeerProgram) -> Result<CalmRun> {
        let mut runs = Vec::new();
        for _ in 0..3 {
            self.old.write(&self.dest())?;
            let start = Instant::now();
            let status = self.start(peer)?.wait()?;
            let wall = start.elapsed();
            if !status.success() {
                bail!("{}: {status}\n{}", peer.name(), self.heard("complained"));
            }
            let literal = ByteStats::parse(&self.heard("said"))?.literal;
            let overhead = RelayCounts::read(&self.rig.path("passed")).up.saturating_sub(literal);
            runs.push(CalmRun { wall, literal, overhead });
        }
        Ok(CalmRun {
            wall: median(&runs, |run| run.wall),
            literal: median(&runs, |run| run.literal),
            overhead: median(&runs, |run| run.overhead),
        })
    }

    fn kill_once(
        &self,
        peer: PeerProgram,
        calm: CalmRun,
        random: &mut Random,
    ) -> Result<KillOutcome> {
        self.old.write(&self.dest())?;
        let mut running = self.start(peer)?;
        std::thread::sleep(Duration::from_micros(random.below(calm.wall.as_micros() as u64)));
        let victim = running.kill_one(random)?;
        let survivors = !running.all_gone(PATIENCE)?;
        let up = RelayCounts::read(&self.rig.path("passed")).up;
        Ok(KillOutcome {
            victim,
            survivors,
            cut_short: fs::read(self.dest().join(LARGE)).ok().as_deref()
                != self.new.get(LARGE.as_ref()),
            torn: self.torn(),
            litter: self.new.litter(&self.dest())?.len(),
            arrived: up.saturating_sub(calm.overhead).min(calm.literal),
            rerun: self.rerun(peer)?,
        })
    }

    /// Returns the names with neither the old nor the new content.
    fn torn(&self) -> Vec<PathBuf> {
        let whole = |name: &Path, new: &[u8]| {
            let found = fs::read(self.dest().join(name)).ok();
            found.as_deref() == self.old.get(name) || found.as_deref() == Some(new)
        };
        self.new
            .content
            .iter()
            .filter(|(name, new)| !whole(name, new))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn rerun(&self, peer: PeerProgram) -> Result<SecondRun> {
        let start = Instant::now();
        let status = self.start(peer)?.wait()?;
        let wall = start.elapsed();
        let stats = ByteStats::parse(&self.heard("said"));
        let complaint = match &stats {
            Err(error) => Some(format!("{status}: {error}")),
            Ok(_) if !status.success() => Some(status.to_string()),
            Ok(_) => None,
        };
        Ok(SecondRun {
            complaint: complaint.map(|text| format!("{text}: {}", self.heard("complained"))),
            differing: self.new.differing(&self.dest()),
            litter: self.new.litter(&self.dest())?,
            literal: stats.unwrap_or_default().literal,
            wall,
        })
    }

    fn dest(&self) -> PathBuf {
        self.rig.path("dest")
    }

    fn heard(&self, file: &str) -> String {
        fs::read_to_string(self.rig.path(file)).unwrap_or_default()
    }
}

impl KillOutcome {
    /// Returns the first requirement that this kill violated.
    fn fault(&self, calm: CalmRun) -> Option<String> {
        let SecondRun { complaint, differing, litter, literal, wall: _ } = &self.rerun;
        if !self.torn.is_empty() {
            return Some(format!("torn: {:?}", self.torn));
        }
        if let Some(complaint) = complaint {
            return Some(format!("the rerun failed: {complaint}"));
        }
        if !differing.is_empty() {
            return Some(format!("differ after the rerun: {differing:?}"));
        }
        if !litter.is_empty() {
            return Some(format!("litter after the rerun: {litter:?}"));
        }
        if self.wasteful(calm) {
            return Some(format!(
                "{} of {} arrived, {literal} sent again",
                self.arrived, calm.literal
            ));
        }
        self.survivors.then(|| "a process outlived its sync".into())
    }

    /// True if the second sync sent more than the missing bytes and the allowed slack.
    fn wasteful(&self, calm: CalmRun) -> bool {
        self.rerun.literal > calm.literal - self.arrived + SLACK
    }
}

const COLUMNS: [&str; 16] = [
    "peer",
    "calm s",
    "kills",
    "client",
    "agent",
    "link",
    "group",
    "cut short",
    "torn",
    "litter",
    "survivors",
    "rerun wrong",
    "rerun litter",
    "over budget",
    "resumed %",
    "rerun s",
];

fn summary(peer: PeerProgram, calm: CalmRun, outcomes: &[KillOutcome]) -> Vec<String> {
    let count = |is: &dyn Fn(&KillOutcome) -> bool| {
        outcomes.iter().filter(|outcome| is(outcome)).count().to_string()
    };
    let of = |victim| count(&move |outcome: &KillOutcome| outcome.victim == Some(victim));
    let cut = || outcomes.iter().filter(|outcome| outcome.cut_short);
    let arrived: u64 = cut().map(|outcome| outcome.arrived).sum();
    let saved: u64 = cut()
        .map(|outcome| calm.literal.saturating_sub(outcome.rerun.literal).min(outcome.arrived))
        .sum();
    let resumed = saved as f64 * 100.0 / arrived.max(1) as f64;
    let reruns: Vec<Duration> = cut().map(|outcome| outcome.rerun.wall).collect();
    let rerun = median(&reruns, |wall| *wall);
    vec![
        peer.name().into(),
        format!("{:.3}", calm.wall.as_secs_f64()),
        count(&|outcome| outcome.victim.is_some()),
        of(KillTarget::Client),
        of(KillTarget::Agent),
        of(KillTarget::Link),
        of(KillTarget::Group),
        count(&|outcome| outcome.cut_short),
        count(&|outcome| !outcome.torn.is_empty()),
        count(&|outcome| outcome.litter > 0),
        count(&|outcome| outcome.survivors),
        count(&|outcome| outcome.rerun.complaint.is_some() || !outcome.rerun.differing.is_empty()),
        count(&|outcome| !outcome.rerun.litter.is_empty()),
        count(&|outcome| outcome.wasteful(calm)),
        format!("{resumed:.0}"),
        format!("{:.3}", rerun.as_secs_f64()),
    ]
}

/// Makes both versions of a tree: a large file with two fifths of its 64 KiB parts changed, and small files that
/// change, stay equal or are new.
fn trees(size: usize, seed: u64) -> (TreeFiles, TreeFiles) {
    let mut random = Random::new(seed);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(clock() / 1_000_000_000);
    let mut old = TreeFiles { content: [].into(), modified: now - Duration::from_secs(86_400) };
    let mut new = TreeFiles { content: [].into(), modified: now };
    let large = random.bytes(size);
    let mut changed = large.clone();
    for part in changed.chunks_mut(PART) {
        if random.below(5) < 2 {
            random.fill(part);
        }
    }
    old.content.insert(LARGE.into(), large);
    new.content.insert(LARGE.into(), changed);
    for number in 0..SMALL {
        let name = PathBuf::from(format!("d{}/small-{number}", number % 7));
        let len = 1 + random.below(32 << 10) as usize;
        let before = random.bytes(len);
        let after = if number % 3 == 0 { before.clone() } else { random.bytes(len) };
        if number % 5 != 4 {
            old.content.insert(name.clone(), before);
        }
        new.content.insert(name, after);
    }
    (old, new)
}

fn clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

const LARGE: &str = "large";
const SMALL: usize = 60;
const PART: usize = 64 << 10;
/// Literal bytes that a second sync may send again.
const SLACK: u64 = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
