//! `deltic-bench link`: default options beside fixed choices and beside rsync, over a grid of simulated links.
//!
//! ```text
//! bench ─► measured NEAR ─► client ─► shell ─► far-end LINK ─► measured FAR ─► server
//! ```
//!
//! A cell is a link and a kind of data. In each cell, every choice runs once a round, in turn. The links have a rate and
//! a round trip, and neither loss nor slow start.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::data::{EditSpec, write_base, write_edited};
use super::e2e::{make_older, restore};
use super::figures::{medians, publish, seconds};
use super::files::same_content;
use super::peer::{PeerProgram, ProgramPaths, SyncTask};
use super::release::ReleasePair;
use super::run::{BenchDirs, BenchRig, TransferCost};
use crate::progress::progress;
use crate::sync::LinkSpec;
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct LinkOptions {
    /// Link between the ends, may be repeated; each rate is combined with 1, 30 and 100 ms by default
    #[arg(long = "link", value_name = "RATE,RTT")]
    links: Vec<LinkSpec>,
    /// Kinds of data
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = LinkData::ALL)]
    data: Vec<LinkData>,
    /// Two releases of an npm package that holds text
    #[arg(long, default_value = "npm:typescript@5.9.2..5.9.3")]
    text: ReleasePair,
    /// Two releases of an npm package that holds a program
    #[arg(long, default_value = "npm:@esbuild/linux-x64@0.25.10..0.25.11")]
    binary: ReleasePair,
    /// Runs of each choice; the median is shown
    #[arg(long, default_value_t = 3)]
    runs: u32,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Links of the default grid.
const LINKS: [&str; 9] = [
    "10Mbit,1ms",
    "10Mbit,30ms",
    "10Mbit,100ms",
    "100Mbit,1ms",
    "100Mbit,30ms",
    "100Mbit,100ms",
    "1000Mbit,1ms",
    "1000Mbit,30ms",
    "1000Mbit,100ms",
];

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinkData {
    /// A release of text over the release before.
    Text,
    /// A release of a program over the release before.
    Binary,
    /// Random bytes with 1 % edited.
    Edits,
    /// A new file of random bytes, as of compressed data.
    Noise,
    /// New small files of text.
    Files,
}

impl LinkData {
    const ALL: [Self; 5] = [Self::Text, Self::Binary, Self::Edits, Self::Noise, Self::Files];
}

impl fmt::Display for LinkData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Edits => "edits",
            Self::Noise => "noise",
            Self::Files => "files",
        })
    }
}

/// A program with options that hold for a whole run.
struct LinkChoice {
    name: &'static str,
    program: PeerProgram,
    flags: &'static [&'static str],
    compress: bool,
}

const fn deltic(name: &'static str, flags: &'static [&'static str]) -> LinkChoice {
    LinkChoice { name, program: PeerProgram::Deltic, flags, compress: false }
}

const fn rsync(name: &'static str, compress: bool) -> LinkChoice {
    LinkChoice { name, program: PeerProgram::Rsync, flags: &["-rt", "--no-whole-file"], compress }
}

/// The default options are first, and the choices of rsync last. No program flushes to the disk. All runs but
/// [`LATER`] know no earlier run's rate.
const CHOICES: [LinkChoice; 11] = [
    deltic("default", &["-rt", "--no-fsync"]),
    deltic("no compression", &["-rt", "--no-fsync", "--zc=none"]),
    deltic("zstd 1", &["-rt", "--no-fsync", "--zl=1"]),
    deltic("zstd 3", &["-rt", "--no-fsync", "--zl=3"]),
    deltic("zstd 6", &["-rt", "--no-fsync", "--zl=6"]),
    deltic("zstd 9", &["-rt", "--no-fsync", "--zl=9"]),
    deltic("whole", &["-rtW", "--no-fsync"]),
    deltic("whole, zstd 3", &["-rtW", "--no-fsync", "--zl=3"]),
    deltic("later run", &["-rt", "--no-fsync"]),
    rsync("rsync", false),
    rsync("rsync -z --zc=zstd", true),
];
/// Fixed choices of Deltic.
const FIXED: std::ops::Range<usize> = 1..8;
/// Default options after a run over the same link.
const LATER: usize = 8;
const RSYNC: std::ops::Range<usize> = 9..11;

/// Length of the random file with edits, in bytes.
const EDITED_BYTES: u64 = 32 << 20;
/// Time that a link takes for new bytes, as long as the number of bytes is within `NEW_BYTES`.
const NEW_TIME: Duration = Duration::from_secs(1);
/// Least and most bytes of new data.
const NEW_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(64 << 20);
/// Length of a small file, in bytes.
const SMALL_BYTES: usize = 4 << 10;
/// Most small files.
const MOST_FILES: usize = 2000;

/// Source of a sync, and the version at the destination before.
struct LinkCase {
    new: PathBuf,
    old: Option<PathBuf>,
}

pub(crate) fn link(options: &LinkOptions) -> Result<()> {
    options.programs.announce(&[PeerProgram::Deltic, PeerProgram::Rsync])?;
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let links = match options.links.is_empty() {
        true => LINKS.iter().flat_map(|word| word.parse()).collect(),
        false => options.links.clone(),
    };
    let fetch = |pair: &ReleasePair, name: &str, kinds: &[LinkData]| match kinds
        .iter()
        .any(|kind| options.data.contains(kind))
    {
        true => pair.fetch(&rig.path(name)),
        false => Ok(None),
    };
    // The small files are pieces of the text.
    let text = fetch(&options.text, "text", &[LinkData::Text, LinkData::Files])?;
    let binary = fetch(&options.binary, "binary", &[LinkData::Binary])?;
    let release =
        |pair: &(PathBuf, PathBuf)| LinkCase { new: pair.1.clone(), old: Some(pair.0.clone()) };
    let mut cells = Vec::new();
    for between in &links {
        rig.write_linked_shell(*between)?;
        for kind in &options.data {
            let found = match kind {
                LinkData::Text => text.as_ref().map(release),
                LinkData::Binary => binary.as_ref().map(release),
                LinkData::Edits => Some(edits(&rig)?),
                LinkData::Noise => Some(noise(&rig, new_bytes(*between))?),
                LinkData::Files => match &text {
                    Some((_, new)) => Some(small_files(&rig, new, new_bytes(*between))?),
                    None => None,
                },
            };
            let Some(case) = found else { continue };
            let of = LinkCellName { link: *between, data: *kind };
            cells.push(cell(options, &rig, of, &case)?);
        }
    }
    progress("");
    for line in verdict(&cells) {
        println!("{line}");
    }
    publish(&table(&cells), &options.at.out, "link")
}

/// Returns the bytes that `between` carries within [`NEW_TIME`].
fn new_bytes(between: LinkSpec) -> u64 {
    let carried = between.link().map_or(u64::MAX, |link| {
        (link.bits_per_second as f64 / 8.0 * NEW_TIME.as_secs_f64()) as u64
    });
    carried.clamp(*NEW_BYTES.start(), *NEW_BYTES.end())
}

fn edits(rig: &BenchRig) -> Result<LinkCase> {
    let (old, new) = (rig.path("edits-old"), rig.path("edits-new"));
    if !new.exists() {
        write_base(&old, EDITED_BYTES, 1)?;
        write_edited(&old, &new, EditSpec { percent: 1.0, seed: 2 })?;
    }
    Ok(LinkCase { new, old: Some(old) })
}

fn noise(rig: &BenchRig, bytes: u64) -> Result<LinkCase> {
    let new = rig.path("noise");
    write_base(&new, bytes, 3)?;
    Ok(LinkCase { new, old: None })
}

/// Writes pieces of `text` as small files, `bytes` in all.
fn small_files(rig: &BenchRig, text: &Path, bytes: u64) -> Result<LinkCase> {
    let new = rig.path("files");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir(&new)?;
    let text = fs::read(text)?;
    let count = (bytes as usize / SMALL_BYTES).min(MOST_FILES);
    for (no, piece) in text.chunks_exact(SMALL_BYTES).take(count).enumerate() {
        fs::write(new.join(format!("{no}.txt")), piece)?;
    }
    Ok(LinkCase { new, old: None })
}

/// The link and the data of a cell.
#[derive(Clone, Copy)]
struct LinkCellName {
    link: LinkSpec,
    data: LinkData,
}

/// Medians of all choices in a cell.
struct LinkCell {
    of: LinkCellName,
    costs: Vec<TransferCost>,
}

impl LinkCell {
    fn wall(&self, choice: usize) -> f64 {
        self.costs[choice].wall.as_secs_f64()
    }

    /// Returns the fastest of `choices`.
    fn fastest(&self, choices: std::ops::Range<usize>) -> usize {
        let first = choices.start;
        choices.min_by(|a, b| self.wall(*a).total_cmp(&self.wall(*b))).unwrap_or(first)
    }

    /// Returns the time of the default options as a multiple of the time of the fastest of `choices`.
    fn ratio_to(&self, choices: std::ops::Range<usize>) -> f64 {
        self.wall(0) / self.wall(self.fastest(choices))
    }
}

fn cell(
    options: &LinkOptions,
    rig: &BenchRig,
    of: LinkCellName,
    case: &LinkCase,
) -> Result<LinkCell> {
    let LinkCellName { link, data } = of;
    if let Some(old) = &case.old {
        make_older(old)?;
    }
    let mut runs = vec![Vec::new(); CHOICES.len()];
    for round in 0..options.runs as usize {
        // Each round starts with another choice: the first choice pays for the state that the previous round left.
        for turn in 0..CHOICES.len() {
            let number = (turn + round) % CHOICES.len();
            let choice = &CHOICES[number];
            progress(&format!("{link}, {data}, round {round}: {}", choice.name));
            if number != LATER {
                forget_rates(rig)?;
            }
            runs[number].push(one(rig, choice, case)?);
        }
    }
    Ok(LinkCell { of, costs: runs.iter().map(|runs| medians(runs)).collect() })
}

/// Removes the rates that earlier runs noted.
fn forget_rates(rig: &BenchRig) -> Result<()> {
    let notes = rig.path("cache").join("deltic/links-1");
    match fs::remove_dir_all(&notes) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn one(rig: &BenchRig, choice: &LinkChoice, case: &LinkCase) -> Result<TransferCost> {
    // A directory of its own: the far end also finds old content in files beside the destination.
    let place = rig.path("far-files");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir(&place)?;
    let dest = place.join("dest");
    if let Some(old) = &case.old {
        restore(old, &dest)?;
    }
    let task = SyncTask { flags: choice.flags, compress: choice.compress, local: false };
    let is_tree = case.new.is_dir();
    let from = if is_tree { case.new.join("") } else { case.new.clone() };
    let cost = rig.transfer(choice.program, task, &from, &dest)?;
    let equal = match is_tree {
        false => same_content(&case.new, &dest)?,
        true => {
            let mut equal = true;
            for entry in fs::read_dir(&case.new)? {
                let name = entry?.file_name();
                equal &= same_content(&case.new.join(&name), &dest.join(&name))?;
            }
            equal
        }
    };
    if !equal {
        bail!("{}: the destination differs from the source", choice.name);
    }
    Ok(cost)
}

/// Returns sentences about all cells.
fn verdict(cells: &[LinkCell]) -> Vec<String> {
    let all = cells.len();
    let near = |most: f64| cells.iter().filter(|cell| cell.ratio_to(FIXED) <= most).count();
    let mut beside: Vec<f64> = cells.iter().map(|cell| cell.ratio_to(RSYNC)).collect();
    beside.sort_by(f64::total_cmp);
    let slower = beside.iter().filter(|ratio| **ratio > 1.0).count();
    let median = beside.get(all / 2).copied().unwrap_or_default();
    vec![
        format!(
            "default beside the best fixed choice: within 10 % in {} of {all} cells, within 25 % in {}",
            near(1.10),
            near(1.25)
        ),
        format!(
            "default beside the faster rsync: slower in {slower} of {all} cells, median {median:.2}x of its time"
        ),
    ]
}

fn table(cells: &[LinkCell]) -> TextTable {
    let mut header: Vec<String> =
        ["link", "data", "default s", "best fixed s", "best fixed choice", "default / best"]
            .map(Into::into)
            .into();
    header.extend(["rsync s", "default / rsync"].map(Into::into));
    header.extend(CHOICES.iter().map(|choice| format!("{} s", choice.name)));
    header.extend(["default B", "best B", "rsync B"].map(Into::into));
    let mut table = TextTable::new(0, header);
    for cell in cells {
        let (best, rsync) = (cell.fastest(FIXED), cell.fastest(RSYNC));
        let bytes = |choice: usize| {
            let stats = cell.costs[choice].stats;
            (stats.sent + stats.received).to_string()
        };
        let mut row = vec![
            cell.of.link.to_string(),
            cell.of.data.to_string(),
            seconds(cell.costs[0].wall),
            seconds(cell.costs[best].wall),
            CHOICES[best].name.into(),
            format!("{:.2}x", cell.ratio_to(FIXED)),
            seconds(cell.costs[rsync].wall),
            format!("{:.2}x", cell.ratio_to(RSYNC)),
        ];
        row.extend(cell.costs.iter().map(|cost| seconds(cost.wall)));
        row.extend([bytes(0), bytes(best), bytes(rsync)]);
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell_of(walls: [u64; CHOICES.len()]) -> LinkCell {
        let cost = |ms| TransferCost { wall: Duration::from_millis(ms), ..TransferCost::default() };
        let of = LinkCellName { link: LinkSpec::Nothing, data: LinkData::Text };
        LinkCell { of, costs: walls.map(cost).into() }
    }

    #[test]
    fn the_default_is_compared_with_fixed_choices_and_with_rsync_apart() {
        let cell = cell_of([110, 100, 200, 200, 200, 200, 200, 200, 1, 55, 220]);
        assert_eq!(cell.fastest(FIXED), 1);
        assert!((cell.ratio_to(FIXED) - 1.1).abs() < 1e-9);
        assert!((cell.ratio_to(RSYNC) - 2.0).abs() < 1e-9);
        let slow = cell_of([150, 100, 200, 200, 200, 200, 200, 200, 1, 300, 600]);
        let said = verdict(&[cell, slow]);
        assert!(said[0].contains("within 10 % in 1 of 2 cells, within 25 % in 1"), "{said:?}");
        assert!(said[1].contains("slower in 1 of 2 cells, median 2.00x"), "{said:?}");
    }

    #[test]
    fn new_data_fits_the_link() {
        let bytes = |word: &str| new_bytes(word.parse().unwrap());
        assert_eq!(bytes("10Mbit,1ms"), 1_250_000);
        assert_eq!([bytes("1Mbit,1ms"), bytes("none")], [1 << 20, 64 << 20]);
    }

    #[test]
    fn all_links_of_the_default_grid_parse() {
        assert!(LINKS.iter().all(|word| word.parse::<LinkSpec>().is_ok()));
        assert_eq!((FIXED.end, LATER + 1, RSYNC.end), (LATER, RSYNC.start, CHOICES.len()));
    }
}
