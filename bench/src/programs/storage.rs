//! A disk image on btrfs that is synced again: the cost where storage tells what has changed, and where nobody asks.

use std::fs;

use anyhow::Result;
use clap::Args;

use super::again::{Change, rounds};
use super::disk::Disk;
use super::e2e::tabulate;
use super::figures::{FIGURES, publish};
use super::peer::{Peer, Programs};
use super::run::{Places, Rig};
use crate::progress::progress;
use crate::size::Size;
use crate::table::Table;

#[derive(Args)]
pub(crate) struct Options {
    /// Length of the image
    #[arg(long, default_value = "4GiB")]
    size: Size,
    /// Blocks of 4 KiB that are written over before each sync
    #[arg(long, default_value_t = 100)]
    blocks: u32,
    /// Programs to compare
    #[arg(long, value_delimiter = ',', value_enum, default_value = "deltic,deltic-no-cache,rsync")]
    peers: Vec<Peer>,
    /// Syncs of each that count; the median counts
    #[arg(long, default_value_t = 5)]
    runs: u32,
    #[command(flatten)]
    at: Places,
    #[command(flatten)]
    programs: Programs,
}

pub(crate) fn storage(options: &Options) -> Result<()> {
    options.programs.announce(&options.peers)?;
    let rig = Rig::new(&options.programs, &options.at.dir)?;
    // The image, a copy for each peer, and one that grows.
    let copies = options.peers.len() as u64 + 3;
    let len = options.size.bytes() * copies + (1 << 30);
    let Some(disk) = Disk::btrfs(&rig, len) else { return Ok(()) };
    let mut header = vec!["changed", "peer"];
    header.extend(FIGURES);
    let mut table = Table::new(0, header.iter().copied());
    let blocks = format!("{} blocks", options.blocks);
    let changes = [(&*blocks, Some(options.blocks)), ("its time", Some(0)), ("nothing", None)];
    for (label, places) in changes {
        let dir = disk.mount.join(label);
        fs::create_dir(&dir)?;
        let len = options.size.bytes();
        let change = Change { len, places, whole_blocks: true, cold: false, flags: &["-t"] };
        let of = rounds(&rig, &dir, (&options.peers, options.runs), &change)?;
        tabulate(&[label.to_owned()], &of, &mut table);
        fs::remove_dir_all(&dir)?;
    }
    progress("");
    publish(&table, &options.at.out, "storage")
}
