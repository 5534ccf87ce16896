//! A changed file from end to end: Deltic, rsync and cp, with interleaved runs.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::data::{EditSpec, write_base, write_edited};
use super::figures::{FIGURES, figures, medians, publish, ratios};
use super::files::same_content;
use super::peer::{PeerProgram, ProgramPaths, SyncTask, turns};
use super::release::ReleasePair;
use super::run::{BenchDirs, BenchRig, TransferCost};
use crate::progress::progress;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct E2eOptions {
    /// Sizes of the generated files
    #[arg(long, value_delimiter = ',', default_value = "100MB,1GiB,4GiB")]
    sizes: Vec<ByteSize>,
    /// Percentage of changed bytes, in scattered pieces; 0 is an equal file with a new time
    #[arg(long, value_delimiter = ',', default_value = "0.1,1,10")]
    edits: Vec<f64>,
    /// Two releases of an npm package, as tar files; `none` skips this case
    #[arg(long, default_value = "npm:typescript@5.9.2..5.9.3")]
    release_pair: ReleasePair,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,deltic-no-fsync,rsync")]
    peers: Vec<PeerProgram>,
    /// Runs of each program; the median is shown
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Compression off, on, or both in turn
    #[arg(long, value_enum, default_value_t = CompressModes::Both)]
    compress: CompressModes,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressModes {
    Off,
    On,
    Both,
}

impl CompressModes {
    fn each(self) -> &'static [bool] {
        match self {
            Self::Off => &[false],
            Self::On => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// Two versions of a file.
struct FileCase {
    name: String,
    old: PathBuf,
    new: PathBuf,
}

pub(crate) fn e2e(options: &E2eOptions) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let mut header = vec!["file", "compress", "peer"];
    header.extend(FIGURES);
    let mut table = TextTable::new(0, header.iter().copied());
    for size in &options.sizes {
        let old = rig.path("old");
        progress(&format!("writing {size}"));
        write_base(&old, size.bytes(), size.bytes())?;
        for percent in &options.edits {
            let new = rig.path("new");
            progress(&format!("editing {percent} % of {size}"));
            write_edited(&old, &new, EditSpec { percent: *percent, seed: size.bytes() ^ 1 })?;
            let case =
                FileCase { name: format!("{size}, {percent} % edited"), old: old.clone(), new };
            compare(options, &rig, &case, &mut table)?;
        }
    }
    if let Some((old, new)) = options.release_pair.fetch(&rig.path("release"))? {
        let case = FileCase { name: options.release_pair.to_string(), old, new };
        compare(options, &rig, &case, &mut table)?;
    }
    progress("");
    publish(&table, &options.at.out, "e2e")
}

fn compare(
    options: &E2eOptions,
    rig: &BenchRig,
    case: &FileCase,
    table: &mut TextTable,
) -> Result<()> {
    make_older(&case.old)?;
    for &compress in options.compress.each() {
        let mut runs = vec![Vec::new(); options.peers.len()];
        for round in 1..=options.runs {
            for (number, &peer) in turns(&options.peers, round) {
                let zstd = if compress { "zstd" } else { "plain" };
                progress(&format!(
                    "{}, {zstd}, round {round}/{}: {}",
                    case.name,
                    options.runs,
                    peer.name()
                ));
                runs[number].push(one(rig, peer, compress, case)?);
            }
        }
        let of: Vec<(PeerProgram, TransferCost)> =
            options.peers.iter().zip(&runs).map(|(peer, runs)| (*peer, medians(runs))).collect();
        tabulate(&[case.name.clone(), if compress { "zstd" } else { "no" }.into()], &of, table);
    }
    Ok(())
}

fn one(rig: &BenchRig, peer: PeerProgram, compress: bool, case: &FileCase) -> Result<TransferCost> {
    let dest = rig.path("dest");
    restore(&case.old, &dest)?;
    let task = SyncTask { flags: &["-t", "--no-whole-file"], compress, ..SyncTask::default() };
    let run = rig.transfer(peer, task, &case.new, &dest)?;
    if !same_content(&case.new, &dest)? {
        bail!("{}: {}: the destination differs from the new version", case.name, peer.name());
    }
    Ok(run)
}

/// Gives the old version a time of yesterday: the quick check must see a change even if an edit kept the length.
pub(super) fn make_older(old: &Path) -> Result<()> {
    let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    File::open(old)?.set_times(FileTimes::new().set_modified(yesterday))?;
    Ok(())
}

/// Copies the old version to the destination and flushes it, so that the next run does not pay for this write.
pub(super) fn restore(old: &Path, dest: &Path) -> Result<()> {
    fs::remove_file(dest).ok();
    fs::copy(old, dest)?;
    let file = File::open(dest)?;
    file.set_times(FileTimes::new().set_modified(old.metadata()?.modified()?))?;
    file.sync_all()?;
    Ok(())
}

/// Adds a row for each peer, then a row for each Deltic peer with the ratios to rsync.
pub(crate) fn tabulate(
    prefix: &[String],
    of: &[(PeerProgram, TransferCost)],
    table: &mut TextTable,
) {
    let with = |name: String, cells: Vec<String>| [prefix.to_vec(), vec![name], cells].concat();
    for (peer, run) in of {
        table.row(with(peer.name().into(), figures(run)));
    }
    let Some((_, rsync)) = of.iter().find(|(peer, _)| *peer == PeerProgram::Rsync) else { return };
    for (peer, run) in of.iter().filter(|(peer, _)| peer.is_deltic()) {
        table.row(with(format!("{} / rsync", peer.name()), ratios(run, rsync)));
    }
}
