//! Block sums that btrfs keeps, compared with reading the file and computing the sums.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Parser};
use deltic_core::stored::BlockSum;
use deltic_core::{Crc32c, StoredSums};
use deltic_store::{Snapshot, Tree};
use deltic_store_local::{LocalOptions, LocalStore};
use deltic_tree::RelPath;

use super::disk::LoopDisk;
use super::figures::{median, publish, seconds};
use super::peer::ProgramPaths;
use super::run::{BenchDirs, BenchRig};
use crate::progress::progress;
use crate::random::Random;
use crate::size::ByteSize;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct SumsOptions {
    /// Length of the large file
    #[arg(long, default_value = "4GiB")]
    size: ByteSize,
    /// Number of small files, of 16 KiB each
    #[arg(long, default_value_t = 20_000)]
    files: u32,
    /// Number of measured rounds; the median is shown
    #[arg(long, default_value_t = 5)]
    runs: u32,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Parser of the words behind `deltic-bench sums`.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct SumsWords {
    #[command(flatten)]
    options: SumsOptions,
}

impl SumsOptions {
    /// Parses the words behind `deltic-bench sums`.
    pub(crate) fn by_words(words: &[&str]) -> Result<Self> {
        let parsed = SumsWords::try_parse_from(words);
        Ok(parsed.map_err(|refusal| anyhow!(refusal.to_string()))?.options)
    }
}

pub(crate) fn sums(options: &SumsOptions) -> Result<()> {
    measured(options)?.map_or(Ok(()), |table| publish(&table, &options.at.out, "sums"))
}

/// Measures both ways. Returns `None` if no btrfs can be made.
pub(crate) fn measured(options: &SumsOptions) -> Result<Option<TextTable>> {
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let small = u64::from(options.files) * SMALL_BYTES * 2;
    let len = options.size.bytes() + small + (2 << 30);
    let Some(disk) = LoopDisk::btrfs(&rig, len) else { return Ok(None) };
    let mut table = TextTable::new(2, ["files", "cache", "sums kept", "read and CRC-32C", "ratio"]);
    let large = (format!("one of {}", options.size), 1, options.size.bytes());
    let small = (format!("{} of 16 KiB", options.files), options.files, SMALL_BYTES);
    for (label, count, len) in [large, small] {
        let names = write(&disk, count, len)?;
        for cache in ["cold", "warm"] {
            let (mut kept, mut taken) = (Vec::new(), Vec::new());
            for run in 0..options.runs {
                progress(&format!("{label}, {cache}, {run}"));
                let mut found = Vec::new();
                for (ask, times) in [(SumSource::Kept, &mut kept), (SumSource::Taken, &mut taken)] {
                    if cache == "cold" {
                        disk.mount_again()?;
                    } else {
                        timed(&disk, &names, ask)?;
                    }
                    let (time, sums) = timed(&disk, &names, ask)?;
                    times.push(time);
                    found.push(sums);
                }
                ensure!(found[0] == found[1], "{label}: sums differ: {found:x?}");
            }
            let [kept, taken] = [kept, taken].map(|times| median(&times, |time| *time));
            let ratio = format!("{:.1}", taken.as_secs_f64() / kept.as_secs_f64());
            table.row([label.clone(), cache.into(), millis(kept), seconds(taken), ratio]);
        }
    }
    progress("");
    Ok(Some(table))
}

const SMALL_BYTES: u64 = 16 << 10;

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Writes files of random bytes.
fn write(disk: &LoopDisk, count: u32, len: u64) -> Result<Vec<RelPath>> {
    let mut random = Random::new(len);
    let mut piece = vec![0; len.min(1 << 20) as usize];
    (0..count)
        .map(|no| {
            let name = format!("{len}-{no}");
            let mut file = File::create(disk.mount.join(&name))?;
            for _ in 0..len.div_ceil(piece.len() as u64) {
                random.fill(&mut piece);
                file.write_all(&piece)?;
            }
            RelPath::parse(name.as_bytes()).context("a name is a path")
        })
        .collect()
}

#[derive(Clone, Copy)]
enum SumSource {
    /// The file system reports the sums.
    Kept,
    /// The bytes are read and summed.
    Taken,
}

/// Times the sums of all blocks of these files. Returns the time and the XOR of all sums.
fn timed(disk: &LoopDisk, names: &[RelPath], ask: SumSource) -> Result<(Duration, u32)> {
    let store = LocalStore::open(&disk.mount, LocalOptions::default())?;
    let (mut buffer, mut all) = (vec![0; STEP_BYTES as usize], 0);
    let begun = Instant::now();
    for name in names {
        let snapshot = store.open(name)?;
        let len = snapshot.meta().len;
        for start in (0..len).step_by(STEP_BYTES as usize) {
            let range = start..len.min(start + STEP_BYTES);
            all ^= match ask {
                SumSource::Kept => {
                    let sums = snapshot.stored_sums(&range)?;
                    xor_of_sums(&sums.context("btrfs reports no sums")?)?
                }
                SumSource::Taken => {
                    let bytes = &mut buffer[..(range.end - range.start) as usize];
                    snapshot.read_at(start, bytes)?;
                    let sums = bytes.chunks(BLOCK_BYTES).map(|block| Crc32c::of(block).get());
                    sums.fold(0, |all, sum| all ^ sum)
                }
            };
        }
    }
    Ok((begun.elapsed(), all))
}

/// Returns the XOR of the sums. Every block of random bytes has a sum.
fn xor_of_sums(sums: &StoredSums) -> Result<u32> {
    let mut blocks = sums.range().step_by(sums.block_bytes() as usize);
    blocks.try_fold(0, |all, at| match sums.sum_at(at) {
        BlockSum::Sum(sum) => Ok(all ^ u32::from_le_bytes(sum.try_into()?)),
        other => bail!("btrfs reports {other:?} for a block of random bytes"),
    })
}

const BLOCK_BYTES: usize = 4096;

/// Bytes per request.
const STEP_BYTES: u64 = 64 << 20;
