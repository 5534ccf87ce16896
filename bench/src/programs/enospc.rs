//! Syncs to a full disk: a small ext4 with less, enough and more free space than a sync needs.
//!
//! Requirements (docs/promises.md): a file that does not fit keeps its old content, files that fit are synced, the exit
//! code is right, nothing is left behind, and a retry with more free space succeeds.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::disk::LoopDisk;
use super::figures::publish;
use super::files::TreeFiles;
use super::peer::{PeerProgram, ProgramPaths, SyncTask};
use super::run::{BenchRig, helper};
use crate::progress::progress;
use crate::random::Random;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct EnospcOptions {
    /// Number of amounts of free space to try, around the needed space
    #[arg(long, default_value_t = 40)]
    steps: u64,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,rsync")]
    peers: Vec<PeerProgram>,
    /// Directory for the disk image
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Directory for the table
    #[arg(long, default_value = "bench/out")]
    out: PathBuf,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Result of a sync to a nearly full disk.
#[derive(Default)]
struct DiskOutcome {
    fitted: bool,
    /// Violated requirements.
    faults: Vec<&'static str>,
}

pub(crate) fn enospc(options: &EnospcOptions) -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("SKIPPED: mounting a file system on a loop device needs root");
        return Ok(());
    }
    options.programs.announce(&options.peers)?;
    let rig = BenchRig::new(&options.programs, &options.dir)?;
    if let Err(error) = new_disk(&rig) {
        eprintln!("SKIPPED: cannot mount a loop device: {error:#}");
        return Ok(());
    }
    let (old, new) = trees();
    new.write(&rig.path("new"))?;
    let mut table = TextTable::new(0, ["peer", "sizes", "fitted", "faults"]);
    let mut broken = 0;
    for &peer in &options.peers {
        let mut outcomes = Vec::new();
        for step in 0..options.steps {
            progress(&format!("{}: size {}/{}", peer.name(), step + 1, options.steps));
            let free = LEAST_FREE + (MOST_FREE - LEAST_FREE) * step / options.steps.max(1);
            outcomes.push(one(&rig, peer, &old, &new, free)?);
        }
        progress("");
        table.row(summary(peer, &outcomes));
        if peer.is_deltic() {
            broken += outcomes.iter().filter(|outcome| !outcome.faults.is_empty()).count();
        }
    }
    publish(&table, &options.out, "enospc")?;
    if broken > 0 {
        bail!("{broken} syncs to a full disk violated a requirement");
    }
    Ok(())
}

fn one(
    rig: &BenchRig,
    peer: PeerProgram,
    old: &TreeFiles,
    new: &TreeFiles,
    free: u64,
) -> Result<DiskOutcome> {
    let disk = new_disk(rig)?;
    let dest = disk.mount.join("dest");
    old.write(&dest)?;
    let filler = fill_leaving(&disk, free)?;
    let succeeded = sync(rig, peer, &dest)?;
    let mut faults = Vec::new();
    let left = new.differing(&dest);
    let mut check = |holds: bool, fault| faults.extend((!holds).then_some(fault));
    check(succeeded == left.is_empty(), "exit code lies");
    let large = fs::read(dest.join(LARGE)).ok();
    let whole =
        large.as_deref() == old.get(LARGE.as_ref()) || large.as_deref() == new.get(LARGE.as_ref());
    check(whole, "old content lost");
    check(left.iter().all(|name| name == Path::new(LARGE)), "small file not synced");
    check(new.litter(&dest)?.is_empty(), "litter");
    fs::remove_file(filler)?;
    check(sync(rig, peer, &dest)? && new.differing(&dest).is_empty(), "retry incomplete");
    check(new.litter(&dest)?.is_empty(), "litter after retry");
    Ok(DiskOutcome { fitted: left.is_empty(), faults })
}

/// Runs a sync. Returns true if the exit code is 0.
fn sync(rig: &BenchRig, peer: PeerProgram, dest: &Path) -> Result<bool> {
    let task = SyncTask { flags: &["-a", "--no-whole-file"], ..SyncTask::default() };
    let line = rig.line(peer, task, &rig.path("new/"), dest);
    let quiet = Command::new(&line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(quiet.success())
}

fn summary(peer: PeerProgram, outcomes: &[DiskOutcome]) -> Vec<String> {
    let mut faults: Vec<&str> =
        outcomes.iter().flat_map(|outcome| outcome.faults.iter().copied()).collect();
    faults.sort_unstable();
    let counted: Vec<String> = faults
        .chunk_by(PartialEq::eq)
        .map(|same| format!("{} x {}", same.len(), same[0]))
        .collect();
    let fitted = outcomes.iter().filter(|outcome| outcome.fitted).count();
    let faults = if counted.is_empty() { "none".into() } else { counted.join("; ") };
    vec![peer.name().into(), outcomes.len().to_string(), fitted.to_string(), faults]
}

fn new_disk(rig: &BenchRig) -> Result<LoopDisk> {
    LoopDisk::new(rig, DISK, &["mkfs.ext4", "-q", "-m0"])
}

/// Fills a disk up to `free` bytes with a file. Returns the path of the file.
fn fill_leaving(disk: &LoopDisk, free: u64) -> Result<PathBuf> {
    let filler = disk.mount.join("filler");
    // Because of delayed allocation, the free space is known only after a flush.
    helper("sync", &[OsStr::new("-f"), disk.mount.as_os_str()])?;
    let said = helper("stat", &[OsStr::new("-fc%a %S"), disk.mount.as_os_str()])?;
    let mut numbers = said.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next().context("stat -f has two numbers")?.context("a number");
    let available = next()? * next()?;
    let len = available.saturating_sub(free).to_string();
    helper("fallocate", &[OsStr::new("-l"), OsStr::new(&len), filler.as_os_str()])?;
    Ok(filler)
}

/// Makes both versions of a tree: a large file that changes everywhere, and new small files that sort after the large
/// file.
fn trees() -> (TreeFiles, TreeFiles) {
    let mut random = Random::new(4);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut old = TreeFiles { content: [].into(), modified: now - Duration::from_secs(86_400) };
    let mut new = TreeFiles { content: [].into(), modified: now };
    old.content.insert(LARGE.into(), random.bytes(NEED));
    new.content.insert(LARGE.into(), random.bytes(NEED));
    for number in 0..5 {
        new.content.insert(format!("small-{number}").into(), random.bytes(3000));
    }
    (old, new)
}

const LARGE: &str = "large";
const NEED: usize = 16 << 20;
const DISK: u64 = 64 << 20;
/// Room for the small files and their directory blocks, but not for the large file.
const LEAST_FREE: u64 = 1 << 20;
const MOST_FREE: u64 = NEED as u64 + (4 << 20);
