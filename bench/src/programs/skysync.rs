//! SkySync's figures 7 to 12 with the sums that btrfs keeps, and with computed sums; with and without a proof of whole
//! files.
//!
//! SkySync's presets run in two directories of a btrfs. The file system keeps sums in one directory; in the other
//! (`chattr +C`) the same sums are computed. Computed sums are what rsync and dsync would use with SkySync's hashes. So
//! the difference shows the value of stored sums and not of another hash. All runs are runs of `deltic-bench sync`,
//! with a process for each directory and instruction set.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Parser};
use deltic_core::StrongKind;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::disk::LoopDisk;
use super::figures::publish;
use super::peer::ProgramPaths;
use super::run::{BenchDirs, BenchRig};
use crate::figure::{BarChart, BarGroup, Figure, FigureContent, both};
use crate::files::make_dir;
use crate::machine::MachineInfo;
use crate::progress::progress;
use crate::scale::{AxisScale, number};
use crate::table::TextTable;

#[derive(Args)]
pub(crate) struct SkysyncOptions {
    /// Lengths of the file: 10MB (256 B to 1 MiB change) or 100MB (2 KiB to 8 MiB)
    #[arg(long, value_delimiter = ',', value_enum, default_value = "10MB,100MB")]
    size: Vec<FileLength>,
    /// Instruction sets: the best of this machine, and plain Rust
    #[arg(long, value_delimiter = ',', value_enum, default_value = "best,scalar")]
    isa: Vec<IsaChoice>,
    /// Number of measured rounds; the median is shown
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Strong sum of every strategy that confirms matches [default: its own]
    #[arg(long, value_name = "NAME")]
    strong: Option<StrongKind>,
    /// Only syncs without a link
    #[arg(long)]
    no_links: bool,
    /// Draw the figures into DIR, each as SVG and PNG
    #[arg(long, value_name = "DIR")]
    plot: Option<std::path::PathBuf>,
    #[command(flatten)]
    at: BenchDirs,
    #[command(flatten)]
    programs: ProgramPaths,
}

/// Parser of the words behind `deltic-bench skysync`.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct SkysyncWords {
    #[command(flatten)]
    options: SkysyncOptions,
}

impl SkysyncOptions {
    /// Parses the words behind `deltic-bench skysync`.
    pub(crate) fn by_words(words: &[&str]) -> Result<Self> {
        let parsed = SkysyncWords::try_parse_from(words);
        Ok(parsed.map_err(|refusal| anyhow!(refusal.to_string()))?.options)
    }
}

/// A file length of the paper, with its amounts of change.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FileLength {
    #[value(name = "10MB")]
    Short,
    #[value(name = "100MB")]
    Long,
}

/// The instruction set of chunkers and searches.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IsaChoice {
    Best,
    Scalar,
}

/// Cost of a sync, with the parameters of the sync.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SkysyncRow {
    isa: &'static str,
    pub(crate) size: &'static str,
    pub(crate) change: String,
    pub(crate) changed: u64,
    link: String,
    pub(crate) way: String,
    /// Sender's processor time, receiver's processor time, and wall time, in seconds.
    pub(crate) cost: [f64; 3],
    /// Bytes that the receiver read, without blocks that the file system shared.
    pub(crate) read: f64,
}

impl FileLength {
    /// Returns the values of `--size` and `--change`.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Short => ("10MB", "0,256B,4KiB,64KiB,1MiB"),
            Self::Long => ("100MB", "0,2KiB,128KiB,8MiB"),
        }
    }
}

impl IsaChoice {
    const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Scalar => "scalar",
        }
    }
}

pub(crate) fn skysync(options: &SkysyncOptions) -> Result<()> {
    let Some(rows) = measured(options)? else { return Ok(()) };
    let header = [
        "instructions",
        "size",
        "change",
        "B changed",
        "link",
        "by",
        "S ms",
        "R ms",
        "wall ms",
        "R read MB",
    ];
    let mut table = TextTable::new(6, header);
    rows.iter().for_each(|row| table.row(row.cells()));
    publish(&table, &options.at.out, "skysync")?;
    options.plot.as_deref().map_or(Ok(()), |dir| draw(&rows, dir))
}

/// Measures all rows. Returns `None` if no btrfs can be made.
pub(crate) fn measured(options: &SkysyncOptions) -> Result<Option<Vec<SkysyncRow>>> {
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let Some(disk) = LoopDisk::btrfs(&rig, 2 << 30) else { return Ok(None) };
    let [kept, computed] = ["kept", "computed"].map(|name| disk.mount.join(name));
    [&kept, &computed].into_iter().try_for_each(fs::create_dir)?;
    let dir = File::open(&computed)?;
    ioctl_setflags(&dir, ioctl_getflags(&dir)? | IFlags::NOCOW)?;
    let hashed = LoopDisk::btrfs_by(&rig, 2 << 30, "sha256");
    let places = [(&*kept, KEPT, Some(UNPROVEN)), (&*computed, COMPUTED, None)];
    let hashed = hashed.iter().map(|disk| (&*disk.mount, HASHED, Some(HASHED_UNPROVEN)));
    let places: Vec<_> = places.into_iter().chain(hashed).collect();
    let mut rows = Vec::new();
    for isa in &options.isa {
        for length in &options.size {
            for &(dir, ways, unproven) in &places {
                let of = RunSet { isa: *isa, length: *length, dir, ways, options };
                // All kinds of change without a link, and inserts over the links of figure 12.
                let links = (!options.no_links).then_some(&LINKS[..]);
                for more in [&["--kind", "insert,cut,inverse"][..]].into_iter().chain(links) {
                    rows.extend(of.rows(&rig.path("rows.csv"), more)?);
                }
                let more = ["--kind", "insert,inverse", "--proof", "none"];
                if let Some(ways) = unproven {
                    rows.extend(RunSet { ways, ..of }.rows(&rig.path("rows.csv"), &more)?);
                }
            }
        }
    }
    progress("");
    Ok(Some(rows))
}

/// Calls `run` with a directory of a new btrfs, which keeps sums. Returns `None` if no btrfs can be made in `dir`.
pub(crate) fn on_btrfs<T>(dir: &Path, run: impl FnOnce(&Path) -> T) -> Result<Option<T>> {
    let options = SkysyncOptions::by_words(&["--dir", &dir.display().to_string()])?;
    let rig = BenchRig::new(&options.programs, &options.at.dir)?;
    let disk = LoopDisk::btrfs(&rig, 2 << 30);
    Ok(disk.map(|disk| run(&disk.mount)))
}

/// Runs with an instruction set in a directory.
#[derive(Clone, Copy)]
struct RunSet<'a> {
    isa: IsaChoice,
    length: FileLength,
    dir: &'a Path,
    ways: &'static [(&'static str, &'static str)],
    options: &'a SkysyncOptions,
}

impl RunSet<'_> {
    fn rows(&self, csv: &Path, more: &[&str]) -> Result<Vec<SkysyncRow>> {
        let (size, changes) = self.length.words();
        let isa = self.isa.name();
        progress(&format!("{size}, {isa}, {}", self.dir.display()));
        let strategies: Vec<_> = self.ways.iter().map(|(strategy, _)| *strategy).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["sync", "--quiet", "--threads", "1", "--strategy", &strategies.join(",")]);
        let runs = self.options.runs.to_string();
        command.args(["--size", size, "--change", changes, "--runs", &runs]);
        command.args(self.options.strong.iter().flat_map(|kind| ["--strong", kind.name()]));
        command.args(more).arg("--dir").arg(self.dir).arg("--csv").arg(csv);
        if self.isa == IsaChoice::Scalar {
            command.env("DELTIC_ISA", isa);
        }
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "deltic-bench sync in {}: {status}", self.dir.display());
        let text = fs::read_to_string(csv).with_context(|| format!("read {}", csv.display()))?;
        parse(&text, isa, size, self.ways).context("the figures of deltic-bench sync")
    }
}

/// Parses the rows of a CSV file. `ways` renames strategies. Returns `None` if a column or strategy is missing.
fn parse(
    text: &str,
    isa: &'static str,
    size: &'static str,
    ways: &[(&str, &str)],
) -> Option<Vec<SkysyncRow>> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next()?;
    let at = |name: &str| header.iter().position(|column| *column == name);
    let [change, changed, link, by] = ["change", "changed_bytes", "link", "name"].map(&at);
    let cost = ["sender_cpu_s", "receiver_cpu_s", "wall_s"].map(&at);
    let read = at("receiver_read_bytes");
    lines
        .map(|cells| {
            let cell = |at: Option<usize>| cells.get(at?).copied();
            let (_, way) = ways.iter().find(|(name, _)| Some(*name) == cell(by))?;
            let [sender, receiver, wall] = cost.map(|at| cell(at)?.parse().ok());
            Some(SkysyncRow {
                isa,
                size,
                change: cell(change)?.to_owned(),
                changed: cell(changed)?.parse().ok()?,
                link: cell(link)?.to_owned(),
                way: (*way).to_owned(),
                cost: [sender?, receiver?, wall?],
                read: cell(read)?.parse().ok()?,
            })
        })
        .collect()
}

impl SkysyncRow {
    fn cells(&self) -> Vec<String> {
        let Self { isa, size, change, changed, link, way, cost, read } = self;
        let words = [(*isa).into(), (*size).into(), change.clone(), changed.to_string()];
        let cost = cost.map(|seconds| format!("{:.1}", seconds * 1e3));
        let read = format!("{:.1}", read / 1e6);
        let words = words.into_iter().chain([link.clone(), way.clone()]);
        words.chain(cost).chain([read]).collect()
    }
}

/// Draws each figure of the paper that has rows.
fn draw(rows: &[SkysyncRow], dir: &Path) -> Result<()> {
    make_dir(dir)?;
    let kinds: BTreeSet<_> = rows
        .iter()
        .map(|row| (row.isa, row.size, row.change.as_str(), row.link.as_str()))
        .collect();
    for (isa, size, change, link) in kinds {
        let of: Vec<_> = rows
            .iter()
            .filter(|row| {
                (row.isa, row.size, &*row.change, &*row.link) == (isa, size, change, link)
            })
            .collect();
        let figures: &[_] = if link == "none" { &[SENDER, RECEIVER] } else { &[TOTAL] };
        for (no, what, name) in figures {
            let title = [
                (*what).to_owned(),
                format!("{size}, {change}, link: {link}, instructions: {isa}"),
                MachineInfo::here().name,
            ];
            let plain = link.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            let file = both(dir, &format!("skysync-{name}-{size}-{change}-{plain}-{isa}"));
            figure(&of, *no, title).save(&file)?;
        }
    }
    Ok(())
}

/// Makes a figure with a group for each amount of change and a bar for each way.
fn figure(rows: &[&SkysyncRow], cost: usize, title: [String; 3]) -> Figure {
    let mut series: Vec<String> = Vec::new();
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in rows {
        let bar = series.iter().position(|name| *name == row.way).unwrap_or(series.len());
        if bar == series.len() {
            series.push(row.way.clone());
        }
        let (name, value) = (format!("{} B", row.changed), row.cost[cost] * 1e3);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.bars.push((bar, value)),
            None => groups.push(BarGroup { name, bars: vec![(bar, value)] }),
        }
    }
    let values: Vec<_> = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1).collect();
    let scale = AxisScale::log(10, &values, number);
    let axis = "milliseconds (logarithmic)".into();
    Figure {
        title,
        axis,
        series,
        content: FigureContent::Bars(BarChart { groups, mark: None, scale }),
    }
}

/// Strategies in the directory with stored sums, and their names in figures.
const KEPT: &[(&str, &str)] = &[
    ("rsync", "rsync"),
    ("dsync", "dsync"),
    ("skysync-f", "skysync-f, sums kept"),
    ("skysync-c", "skysync-c, sums kept"),
    ("deltic", "deltic"),
];
/// Strategies in the directory with computed sums, and their names in figures.
const COMPUTED: &[(&str, &str)] =
    &[("skysync-f", "rsync, sums of skysync"), ("skysync-c", "dsync, sums of skysync")];
/// The strategy in the directory with stored CRC-32C, without a proof of whole files.
const UNPROVEN: &[(&str, &str)] = &[("skysync-f", "skysync-f, sums kept, no proof")];
/// The strategy on a btrfs that keeps SHA-256, with and without a proof of whole files.
const HASHED: &[(&str, &str)] = &[("skysync-f", "skysync-f, SHA-256 kept")];
const HASHED_UNPROVEN: &[(&str, &str)] = &[("skysync-f", "skysync-f, SHA-256 kept, no proof")];
/// Links of figure 12.
const LINKS: [&str; 6] = ["--kind", "insert", "--link", "500Mbit,35ms", "--link", "100Mbit,35ms"];
/// Index of a cost in [`SkysyncRow::cost`], and the title and the name of its figure.
const SENDER: (usize, &str, &str) = (0, "Processor time of the sender", "sender");
const RECEIVER: (usize, &str, &str) = (1, "Processor time of the receiver", "receiver");
const TOTAL: (usize, &str, &str) = (2, "Time of a sync", "total");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_sync_are_called_by_where_their_sums_are_from() {
        let text = "data,change,changed_bytes,link,name,wall_s,sender_cpu_s,receiver_cpu_s,receiver_read_bytes\n\
                    10 MB,insert,256,none,skysync-f,0.3,0.1,0.2,7\n";
        let rows = parse(text, "best", "10MB", COMPUTED).unwrap();
        assert_eq!((&*rows[0].way, rows[0].cost), ("rsync, sums of skysync", [0.1, 0.2, 0.3]));
        assert_eq!(rows[0].read, 7.0);
        assert_eq!(parse(&text.replace("wall_s", "wall"), "best", "10MB", COMPUTED), None);
        assert_eq!(parse(&text.replace("skysync-f", "other"), "best", "10MB", COMPUTED), None);
    }
}
