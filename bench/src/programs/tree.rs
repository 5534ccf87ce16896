//! A tree of real files: the first copy, syncs without changes, and a sync after a change of 1 % of the files.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::e2e::tabulate;
use super::figures::{FIGURES, medians, publish};
use super::peer::{PeerProgram, ProgramPaths, SyncTask, turns};
use super::run::{BenchRig, TransferCost, helper};
use super::tree_bytes::by_option;
use crate::progress::progress;
use crate::random::Random;
use crate::serve::REST;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct TreeOptions {
    /// Directories to take real files from, in order, until there are enough
    #[arg(long, value_delimiter = ',', default_value = "/usr/share,/usr/lib,/usr/include")]
    source: Vec<PathBuf>,
    /// Number of files to take
    #[arg(long, default_value_t = 25_000)]
    files: usize,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,deltic-no-fsync,rsync")]
    peers: Vec<PeerProgram>,
    /// Runs of each program; the median is shown
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Directory for the data (try a tmpfs too: creating files on a disk takes most of the time)
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Sync locally, without a pipe between two processes
    #[arg(long)]
    local: bool,
    /// Count the bytes of lists and files with each of several options, in place of times
    #[arg(long)]
    bytes: bool,
    /// Directory for the table
    #[arg(long, default_value = "bench/out")]
    out: PathBuf,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// States of source and destination before a sync.
const PHASES: [&str; 4] = ["first copy", "no change", "no change, -c again", "1 % of files edited"];

pub(crate) fn tree(options: &TreeOptions) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let rig = BenchRig::new(&options.programs, &options.dir)?;
    let source = rig.path("source");
    let copy = TreeCopy::of(&options.source, &source, options.files)?;
    eprintln!("{} files, {:.1} MiB", copy.files.len(), copy.bytes as f64 / f64::from(1 << 20));
    if copy.files.len() < options.files {
        bail!("only {} of {} files found; name another --source", copy.files.len(), options.files);
    }
    if options.bytes {
        let table = by_option(&rig, &options.peers, &source, &copy.files)?;
        return publish(&table, &options.out, "tree-bytes");
    }
    let mut runs = vec![vec![Vec::new(); options.peers.len()]; PHASES.len()];
    for round in 1..=options.runs {
        for (phase, runs) in runs.iter_mut().enumerate() {
            if phase == EDITED {
                edit(&copy.files, round)?;
            }
            for (number, &peer) in turns(&options.peers, round) {
                if !takes_part(peer, phase) {
                    continue;
                }
                progress(&format!(
                    "round {round}/{}: {}, {}",
                    options.runs,
                    PHASES[phase],
                    peer.name()
                ));
                let dest = rig.path(&format!("dest-{number}"));
                if phase == FIRST && dest.exists() {
                    fs::remove_dir_all(&dest)?;
                }
                let flags = if phase == CHECKSUM { CHECKED } else { PLAIN };
                let task = SyncTask { flags, local: options.local, ..SyncTask::default() };
                if phase == CHECKSUM {
                    // Programs with a cache of digests read the contents once before.
                    one(&rig, peer, task, &source, &dest)?;
                }
                runs[number].push(one(&rig, peer, task, &source, &dest)?);
            }
        }
    }
    progress("");
    let mut table = TextTable::new(0, [&["tree", "peer"][..], &FIGURES].concat());
    for (phase, runs) in PHASES.iter().zip(&runs) {
        let of: Vec<(PeerProgram, TransferCost)> = options
            .peers
            .iter()
            .zip(runs)
            .filter(|(_, runs)| !runs.is_empty())
            .map(|(peer, runs)| (*peer, medians(runs)))
            .collect();
        tabulate(&[phase.to_string()], &of, &mut table);
    }
    publish(&table, &options.out, "tree")
}

/// Returns false if the peer is no lower bound of the phase: `cp` is one of a first copy, two walks are one of the
/// rest.
fn takes_part(peer: PeerProgram, phase: usize) -> bool {
    match peer {
        PeerProgram::Cp => phase == FIRST,
        PeerProgram::Walks => phase != FIRST,
        _ => true,
    }
}

fn one(
    rig: &BenchRig,
    peer: PeerProgram,
    task: SyncTask<'_>,
    source: &Path,
    dest: &Path,
) -> Result<TransferCost> {
    let run = rig.transfer(peer, task, &source.join(""), dest)?;
    if peer == PeerProgram::Walks {
        return Ok(run);
    }
    let judge = rig.programs().rsync().to_string_lossy().into_owned();
    let (from, to) = (source.join(""), dest.join(""));
    let said = helper(
        &judge,
        &[OsStr::new("-anci"), OsStr::new("--delete"), from.as_os_str(), to.as_os_str()],
    )?;
    if !said.is_empty() {
        let lines: Vec<&str> = said.lines().take(20).collect();
        bail!(
            "after {}, rsync -anci --delete still finds differences:\n{}",
            peer.name(),
            lines.join("\n")
        );
    }
    Ok(run)
}

/// A private copy of real files. The current user owns all files, so that owners and groups are equal.
struct TreeCopy {
    files: Vec<PathBuf>,
    bytes: u64,
}

impl TreeCopy {
    fn of(sources: &[PathBuf], to: &Path, limit: usize) -> Result<Self> {
        let mut copy = Self { files: Vec::new(), bytes: 0 };
        for source in sources {
            let name = source.file_name().context("a source has a name")?;
            copy.take(source, &to.join(name), limit)?;
        }
        Ok(copy)
    }

    fn take(&mut self, from: &Path, to: &Path, limit: usize) -> Result<()> {
        fs::create_dir_all(to)?;
        let mut entries: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.files.len() >= limit {
                return Ok(());
            }
            let (kind, from, to) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
            if kind.is_dir() {
                self.take(&from, &to, limit)?;
            } else if kind.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
            } else if kind.is_file() && entry.metadata()?.len() <= LARGEST {
                self.take_file(&from, &to)?;
            }
        }
        Ok(())
    }

    fn take_file(&mut self, from: &Path, to: &Path) -> Result<()> {
        let about = from.metadata()?;
        fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
        // Set-user-ID and similar bits are dropped.
        fs::set_permissions(to, fs::Permissions::from_mode(about.permissions().mode() & 0o777))?;
        File::open(to)?.set_times(FileTimes::new().set_modified(about.modified()?))?;
        self.bytes += about.len();
        self.files.push(to.into());
        Ok(())
    }
}

/// Overwrites a few bytes in 1 % of the files.
fn edit(files: &[PathBuf], round: u32) -> Result<()> {
    let mut random = Random::new(u64::from(round));
    for _ in 0..files.len().div_ceil(100) {
        let place = random.place(files.len());
        overwrite(&files[place], &mut random)?;
    }
    std::thread::sleep(REST);
    Ok(())
}

/// Overwrites a few bytes of a file.
pub(super) fn overwrite(path: &Path, random: &mut Random) -> Result<()> {
    let mut file = File::options()
        .write(true)
        .open(path)
        .with_context(|| format!("open {}", path.display()))?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(random.below(len)))?;
    file.write_all(&random.bytes(64))?;
    Ok(())
}

const FIRST: usize = 0;
const CHECKSUM: usize = 2;
const EDITED: usize = 3;
/// Options with which both programs transfer everything in a private copy.
const PLAIN: &[&str] = &["-rlpt"];
const CHECKED: &[&str] = &["-rlptc"];
/// Larger files are left out: a few large libraries would hide the cost of thousands of small files.
const LARGEST: u64 = 16 << 20;
