//! Repeated syncs of a large file with small changes: the cost of each sync with the cache of earlier syncs.

use std::fs::{self, File, FileTimes};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::data::{EditSpec, PIECE, write_base, write_edited};
use super::e2e::tabulate;
use super::figures::{FIGURES, medians, publish};
use super::files::same_content;
use super::peer::{PeerProgram, ProgramPaths, SyncTask, turns};
use super::run::{BenchDirs, BenchRig, TransferCost, helper};
use crate::progress::progress;
use crate::random::Random;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct AgainOptions {
    /// Length of the file
    #[arg(long, default_value = "1GiB")]
    size: ByteSize,
    /// Number of ranges to overwrite before each sync
    #[arg(long, default_value_t = 100)]
    places: u32,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,deltic-no-cache,rsync")]
    peers: Vec<PeerProgram>,
    /// Measured syncs of each program, after a first copy and a first change; the median is shown
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Update the destination file in place
    #[arg(long)]
    inplace: bool,
    /// Empty the page cache of the old version before each sync (root only)
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

pub(crate) fn again(options: &AgainOptions) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let (len, places) = (options.size.bytes(), options.places);
    let flags: &[&str] = if options.inplace { &["-t", "--inplace"] } else { &["-t"] };
    let edits = FileEdits::Overwritten { places, whole_blocks: false };
    let change = FileChange { len, edits, cold: options.cold, flags };
    let dir = rig.path("");
    let of = rounds(&rig, [&dir, &dir], &options.peers, options.runs, &change)?;
    let mut header = vec!["file", "peer"];
    header.extend(FIGURES);
    let mut table = TextTable::new(0, header.iter().copied());
    tabulate(&[options.size.to_string()], &of, &mut table);
    publish(&table, &options.at.out, "again")
}

/// The change before each sync.
pub(super) struct FileChange {
    /// Length of the file in bytes.
    pub(super) len: u64,
    /// Edits, followed by a new modification time.
    pub(super) edits: FileEdits,
    /// Empty the page cache of the old version before each sync.
    pub(super) cold: bool,
    /// Options of the syncs.
    pub(super) flags: &'static [&'static str],
}

/// Edits of a file before a sync.
#[derive(Clone, Copy)]
pub(super) enum FileEdits {
    /// No edit, and the same modification time.
    Nothing,
    /// Some ranges are overwritten in place.
    Overwritten {
        /// Number of ranges.
        places: u32,
        /// True for whole aligned blocks of 4 KiB; false for some bytes anywhere.
        whole_blocks: bool,
    },
    /// Runs of whole blocks are inserted, and the file is rewritten.
    Inserted {
        /// Percentage of inserted bytes.
        percent: f64,
    },
    /// Pieces of 256 bytes are inserted, as many are overwritten, and the file is rewritten.
    Rewritten {
        /// Percentage of changed bytes.
        percent: f64,
    },
}

/// Syncs a file from the first to the second directory `count` times with each peer, after a first copy and a first
/// change. Returns the medians.
pub(super) fn rounds(
    rig: &BenchRig,
    dirs: [&Path; 2],
    peers: &[PeerProgram],
    count: u32,
    change: &FileChange,
) -> Result<Vec<(PeerProgram, TransferCost)>> {
    let [from, to] = dirs;
    let new = from.join("new");
    progress("writing the file");
    write_base(&new, change.len, change.len)?;
    let mut runs = vec![Vec::new(); peers.len()];
    for round in 0..count + 2 {
        change.make(&new, round, count)?;
        for (number, &peer) in turns(peers, round) {
            progress(&format!("round {round}/{}: {}", count + 1, peer.name()));
            let dest = rig.dest(peer, to);
            if change.cold {
                forget(&new)?;
            }
            // Otherwise this run would wait for unwritten data of another run.
            helper("sync", &[])?;
            let task = SyncTask { flags: change.flags, ..SyncTask::default() };
            let run = rig.transfer(peer, task, &new, &dest)?;
            if !same_content(&new, &dest)? {
                bail!("{}: the destination differs from the new version", peer.name());
            }
            // The first round copies, and the second indexes the copied file.
            if round > 1 {
                runs[number].push(run);
            }
        }
    }
    progress("");
    Ok(peers.iter().zip(&runs).map(|(peer, runs)| (*peer, medians(runs))).collect())
}

impl FileChange {
    /// Edits the file and sets a modification time in the past.
    fn make(&self, new: &Path, round: u32, count: u32) -> Result<()> {
        match self.edits {
            FileEdits::Nothing => return Ok(()),
            FileEdits::Overwritten { places, whole_blocks } => {
                let mut random = Random::new(u64::from(round));
                let mut file = File::options().write(true).open(new)?;
                let (bytes, unit) = if whole_blocks { (BLOCK, BLOCK as u64) } else { (PIECE, 1) };
                for _ in 0..places {
                    let at = random.below((self.len - bytes as u64) / unit) * unit;
                    file.seek(SeekFrom::Start(at))?;
                    file.write_all(&random.bytes(bytes))?;
                }
            }
            FileEdits::Inserted { percent } => {
                let edited = new.with_extension("edited");
                write_inserted(new, &edited, percent, round.into())?;
                fs::rename(&edited, new)?;
            }
            FileEdits::Rewritten { percent } => {
                let edited = new.with_extension("edited");
                write_edited(new, &edited, EditSpec { percent, seed: u64::from(round) })?;
                fs::rename(&edited, new)?;
            }
        }
        let file = File::open(new)?;
        let days = u64::from(count + 2 - round);
        let time = SystemTime::now() - Duration::from_secs(86_400 * days);
        Ok(file.set_times(FileTimes::new().set_modified(time))?)
    }
}

const BLOCK: usize = 4096;
/// Number of blocks inserted at a position.
const INSERTED: usize = 40;

/// Copies a file with runs of new blocks inserted: `percent` more bytes, at blocks chosen by the seed.
fn write_inserted(from: &Path, to: &Path, percent: f64, seed: u64) -> Result<()> {
    let (mut random, mut old, mut new) = (Random::new(seed), File::open(from)?, File::create(to)?);
    let blocks = old.metadata()?.len() / BLOCK as u64;
    let runs = (blocks as f64 * percent / 100.0 / INSERTED as f64).max(1.0) as usize;
    let mut places: Vec<_> = (0..runs).map(|_| random.below(blocks)).collect();
    places.sort_unstable();
    let mut at = 0;
    for place in places {
        std::io::copy(&mut (&mut old).take((place - at) * BLOCK as u64), &mut new)?;
        new.write_all(&random.bytes(INSERTED * BLOCK))?;
        at = place;
    }
    std::io::copy(&mut old, &mut new)?;
    Ok(())
}

/// Empties the page cache, except for the new version.
fn forget(new: &Path) -> Result<()> {
    helper("sync", &[])?;
    fs::write("/proc/sys/vm/drop_caches", "3").context("drop caches (needs root)")?;
    std::io::copy(&mut File::open(new)?, &mut std::io::sink())?;
    Ok(())
}
