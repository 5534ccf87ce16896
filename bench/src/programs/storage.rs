//! Repeated syncs of a disk image between two btrfs: the cost with and without the file system's knowledge of changed
//! and moved blocks.

use std::fs;

use anyhow::Result;
use clap::Args;

use super::again::{FileChange, FileEdits, rounds};
use super::disk::LoopDisk;
use super::e2e::tabulate;
use super::figures::{FIGURES, publish};
use super::peer::{PeerProgram, ProgramPaths};
use super::run::{BenchDirs, BenchRig};
use crate::progress::progress;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct StorageOptions {
    /// Length of the image; the last two cases use a quarter of this length
    #[arg(long, default_value = "4GiB")]
    size: ByteSize,
    /// Number of 4 KiB blocks to overwrite before each sync
    #[arg(long, default_value_t = 100)]
    blocks: u32,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = PEERS)]
    peers: Vec<PeerProgram>,
    /// Percentage of bytes to change in the last two cases: in pieces of 256 bytes, inserted or overwritten, then in
    /// inserted 4 KiB blocks on a btrfs with SHA-256
    #[arg(long, default_value_t = 1.0)]
    percent: f64,
    /// Measured syncs of each program; the median is shown
    #[arg(long, default_value_t = 5)]
    runs: u32,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Programs to compare by default.
const PEERS: &str = "deltic,deltic-served,deltic-no-cache,rsync";
/// Bytes for file system metadata and for the reserve that a server keeps free.
const SLACK: u64 = 3 << 30;

pub(crate) fn storage(options: &StorageOptions) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let mut rig = BenchRig::new(&options.programs, &options.at.dir)?;
    // Room for the image and a growing file, or for a copy for each peer. Removed files are freed later.
    let copies = options.peers.len() as u64 + 4;
    let len = options.size.bytes() * copies + SLACK;
    let disks = (LoopDisk::btrfs(&rig, len), LoopDisk::btrfs(&rig, len));
    let (Some(disk), Some(there)) = disks else { return Ok(()) };
    let is_served = options.peers.iter().any(|peer| peer.is_served());
    let _server = if is_served { Some(rig.serve(&there.mount)?) } else { None };
    let mut header = vec!["changed", "peer"];
    header.extend(FIGURES);
    let mut table = TextTable::new(0, header.iter().copied());
    let blocks = format!("{} blocks", options.blocks);
    let pieces = format!("{} % in pieces", options.percent);
    let over = |places| FileEdits::Overwritten { places, whole_blocks: true };
    let whole = options.size.bytes();
    let cases = [
        (&*blocks, whole, over(options.blocks)),
        ("its time", whole, over(0)),
        ("nothing", whole, FileEdits::Nothing),
        (&*pieces, whole / 4, FileEdits::Rewritten { percent: options.percent }),
    ];
    let mut case = |disk: &LoopDisk, (label, len, edits): (&str, u64, FileEdits)| -> Result<()> {
        let (from, to) = (disk.mount.join("case"), there.mount.join("case"));
        fs::create_dir(&from)?;
        fs::create_dir(&to)?;
        let change = FileChange { len, edits, cold: false, flags: &["-t"] };
        let of = rounds(&rig, [&from, &to], &options.peers, options.runs, &change)?;
        tabulate(&[label.to_owned()], &of, &mut table);
        fs::remove_dir_all(&from)?;
        fs::remove_dir_all(&to)?;
        fs::remove_file(rig.dest(PeerProgram::DelticServed, &to)).ok();
        Ok(())
    };
    cases.into_iter().try_for_each(|of| case(&disk, of))?;
    let inserted = format!("{} % in whole blocks", options.percent);
    if let Some(disk) = LoopDisk::btrfs_by(&rig, whole / 4 * copies + SLACK, "sha256") {
        case(&disk, (&*inserted, whole / 4, FileEdits::Inserted { percent: options.percent }))?;
    }
    progress("");
    publish(&table, &options.at.out, "storage")
}
