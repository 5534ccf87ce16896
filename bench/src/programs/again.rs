//! A large file that changes a little every day: the cost of each of many syncs, with what earlier runs learned.

use std::fs::{self, File, FileTimes};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::data::{PIECE, write_base};
use super::e2e::tabulate;
use super::figures::{FIGURES, medians, publish};
use super::files::same_content;
use super::peer::{Peer, Programs, Task};
use super::run::{Places, Rig, Transfer, helper};
use crate::progress::progress;
use crate::random::Random;
use crate::size::Size;
use crate::table::Table;

#[derive(Args)]
pub(crate) struct Options {
    /// Length of the file
    #[arg(long, default_value = "1GiB")]
    size: Size,
    /// How many places are written over before each sync
    #[arg(long, default_value_t = 100)]
    places: u32,
    /// What to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,deltic-no-cache,rsync")]
    peers: Vec<Peer>,
    /// Syncs of each that count, after a first copy and a first change; the median counts
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Change the file where it is
    #[arg(long)]
    inplace: bool,
    /// Before each sync, let the system forget what it read of the old version (root only)
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    at: Places,
    #[command(flatten)]
    programs: Programs,
}

pub(crate) fn again(options: &Options) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let rig = Rig::new(&options.programs, &options.at.dir)?;
    let new = rig.path("new");
    progress(&format!("writing {}", options.size));
    write_base(&new, options.size.bytes(), options.size.bytes())?;
    let mut runs = vec![Vec::new(); options.peers.len()];
    for round in 0..options.runs + 2 {
        change(&new, options, round)?;
        for (peer, runs) in options.peers.iter().zip(&mut runs) {
            progress(&format!("round {round}/{}: {}", options.runs + 1, peer.name()));
            let dest = rig.path(peer.name());
            if options.cold {
                forget(&new)?;
            }
            let flags: &[&str] = if options.inplace { &["-t", "--inplace"] } else { &["-t"] };
            let run = rig.transfer(*peer, Task { flags, ..Task::default() }, (&new, &dest))?;
            if !same_content(&new, &dest)? {
                bail!("{} left a file that is not the new one", peer.name());
            }
            // The first copies, and then cuts what was copied.
            if round > 1 {
                runs.push(run);
            }
        }
    }
    progress("");
    let mut header = vec!["file", "peer"];
    header.extend(FIGURES);
    let mut table = Table::new(0, header.iter().copied());
    let of: Vec<(Peer, Transfer)> =
        options.peers.iter().zip(&runs).map(|(peer, runs)| (*peer, medians(runs))).collect();
    tabulate(&[options.size.to_string()], &of, &mut table);
    publish(&table, &options.at.out, "again")
}

/// Writes over some places of the file, which gets a time of its own in the past.
fn change(new: &Path, options: &Options, round: u32) -> Result<()> {
    let mut random = Random::new(u64::from(round));
    let mut file = File::options().write(true).open(new)?;
    for _ in 0..options.places {
        file.seek(SeekFrom::Start(random.below(options.size.bytes() - PIECE as u64)))?;
        file.write_all(&random.bytes(PIECE))?;
    }
    let days = u64::from(options.runs + 2 - round);
    let time = SystemTime::now() - Duration::from_secs(86_400 * days);
    Ok(file.set_times(FileTimes::new().set_modified(time))?)
}

/// Empties the page cache, but for the new version.
fn forget(new: &Path) -> Result<()> {
    helper("sync", &[])?;
    fs::write("/proc/sys/vm/drop_caches", "3").context("drop caches, which only root may")?;
    std::io::copy(&mut File::open(new)?, &mut std::io::sink())?;
    Ok(())
}
