//! Results of a comparison, as tables for the terminal and as CSV.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use deltic_core::chunk::PublishedForm;
use deltic_core::{ChunkerSpec, Isa, Sizes};

use crate::exit::shown;
use crate::files::write;
use crate::inputs::Inputs;
use crate::machine::MachineInfo;
use crate::size::ByteSize;
use crate::table::TextTable;

use super::cuts::CutStats;
use super::edits::{EditCost, EditCosts, EditKind, HORIZON_BYTES, LENS};
use super::speed::{Speed, TimedSubject};

/// All results.
pub(crate) struct ChunkReport {
    /// Description of the data set.
    data: String,
    /// Description of the machine.
    machine: String,
    /// Chunker that a sync would choose for the data.
    default: String,
    /// Name and length of each input.
    inputs: Vec<(String, u64)>,
    /// Results by mean chunk length.
    pub(crate) blocks: Vec<SizeResults>,
}

/// Results for a mean chunk length.
pub(crate) struct SizeResults {
    pub(crate) sizes: Sizes,
    /// Speeds; the first is the vector sum.
    pub(crate) timed: Vec<TimedRow>,
    pub(crate) chunked: Vec<ChunkerRow>,
}

/// Speed of a form of a chunker.
pub(crate) struct TimedRow {
    pub(crate) name: &'static str,
    /// Instruction set. `None` if the chunker has a single form.
    pub(crate) isa: Option<Isa>,
    /// The form of VectorCDC. `None` for a form of Deltic.
    pub(crate) published: Option<PublishedForm>,
    pub(crate) subject: TimedSubject,
    pub(crate) speed: Speed,
}

/// Chunks that a chunker finds in the inputs, in any form.
pub(crate) struct ChunkerRow {
    pub(crate) name: &'static str,
    pub(crate) cuts: CutStats,
    /// Costs of edits for each edited data set.
    pub(crate) costs: Vec<(&'static str, EditCosts)>,
}

impl TimedRow {
    /// Makes a row without results.
    pub(crate) fn new(name: &'static str, isa: Option<Isa>, subject: TimedSubject) -> Self {
        Self { name, isa, published: None, subject, speed: Speed::default() }
    }

    /// Makes a row for a form of VectorCDC, without results.
    pub(crate) fn published(
        name: &'static str,
        form: PublishedForm,
        subject: TimedSubject,
    ) -> Self {
        let isa = match form {
            PublishedForm::Native => None,
            PublishedForm::SearchOnly(isa) | PublishedForm::Both(isa) => Some(isa),
        };
        Self { published: Some(form), ..Self::new(name, isa, subject) }
    }

    /// Returns the name in tables.
    pub(crate) fn title(&self) -> String {
        self.isa
            .map_or_else(|| self.algorithm(), |isa| format!("{} {}", self.algorithm(), isa.name()))
    }

    /// Returns the name of the chunker, or the paper's name for a form of VectorCDC.
    pub(crate) fn algorithm(&self) -> String {
        let Self { name, published, .. } = self;
        match published {
            None => (*name).into(),
            Some(PublishedForm::Native) => format!("{name}-native"),
            Some(PublishedForm::SearchOnly(_)) => format!("v{name}-ebs"),
            Some(PublishedForm::Both(_)) => format!("v{name}"),
        }
    }
}

impl SizeResults {
    /// Returns the mean length.
    pub(crate) fn avg(&self) -> ByteSize {
        u64::from(self.sizes.avg()).into()
    }

    /// Returns the cold speed of the vector sum in 10^9 bytes per second of processor time.
    pub(crate) fn limit(&self) -> f64 {
        self.timed.first().map_or(0.0, |sum| sum.speed.cold.cpu)
    }
}

impl ChunkReport {
    /// Makes a report of `blocks`.
    pub(crate) fn new(
        inputs: &Inputs,
        machine: &MachineInfo,
        runs: usize,
        blocks: Vec<SizeResults>,
    ) -> Self {
        let isas: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
        let (l2, last) = (ByteSize::from(machine.l2), ByteSize::from(machine.last_level));
        let (name, isas) = (&machine.name, isas.join(" "));
        Self {
            data: format!("{}, {} MB", inputs.title(), megabytes(inputs.full_len())),
            default: default_for(inputs.files().map(<[u8]>::len).max().unwrap_or(0) as u64),
            machine: format!("{name} ({isas}), L2 {l2}, last level {last}, median of {runs}"),
            inputs: inputs
                .list
                .iter()
                .map(|input| (input.name.clone(), input.full_len()))
                .collect(),
            blocks,
        }
    }

    /// Returns the title of a figure: subject, data and machine.
    pub(crate) fn title(&self, what: String) -> [String; 3] {
        [what, self.data.clone(), self.machine.clone()]
    }

    /// Formats all tables for the terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.data.clone(), self.machine.clone()];
        if self.inputs.len() > 1 {
            let mut inputs = TextTable::new(2, ["", "input", "MB"]);
            for (at, (name, len)) in self.inputs.iter().enumerate() {
                inputs.row([(at + 1).to_string(), name.clone(), megabytes(*len)]);
            }
            lines.extend(inputs.lines());
        }
        lines.push(self.default.clone());
        for block in &self.blocks {
            let [min, max] =
                [block.sizes.min(), block.sizes.max()].map(|len| ByteSize::from(u64::from(len)));
            lines.extend([String::new(), format!("== {} ({min} to {max})", block.avg())]);
            let tables = [block.speeds(), block.chunks()].into_iter().chain(block.edits());
            for table in tables {
                lines.push(String::new());
                lines.extend(table.lines());
            }
        }
        if self.blocks.iter().any(|block| block.chunked.iter().any(|row| !row.costs.is_empty())) {
            let horizon = ByteSize::from(HORIZON_BYTES as u64);
            let what = "edits: bytes of chunks that the old version lacks, counted up to";
            lines.extend([String::new(), format!("{what} {horizon} behind each")]);
        }
        lines
    }
}

impl SizeResults {
    fn speeds(&self) -> TextTable {
        let mut table = TextTable::new(
            2,
            [
                "chunker",
                "isa",
                "cold cpu GB/s",
                "cold wall GB/s",
                "of sum",
                "hot cpu GB/s",
                "hot wall GB/s",
                "+ crc32c cpu GB/s",
                "+ blake3 cpu GB/s",
            ],
        );
        for row in &self.timed {
            let Speed { cold, hot, crc32c, blake3 } = row.speed;
            let pace = |pace: f64| if pace > 0.0 { format!("{pace:.2}") } else { "-".into() };
            let share = cold.cpu / self.limit() * 100.0;
            table.row([
                row.algorithm(),
                row.isa.map_or("-", Isa::name).into(),
                pace(cold.cpu),
                pace(cold.wall),
                if share > 0.0 { format!("{share:.0} %") } else { "-".into() },
                pace(hot.cpu),
                pace(hot.wall),
                pace(crc32c),
                pace(blake3),
            ]);
        }
        table
    }

    fn chunks(&self) -> TextTable {
        let inputs = self.chunked.first().map_or(0, |row| row.cuts.new_in.len());
        let new_in = || (inputs > 1).then_some(1..=inputs).into_iter().flatten();
        let header = ["chunker", "savings %", "chunks", "mean B", "deviation B"];
        let header = header.into_iter().chain(["min B", "5 % B", "50 % B", "95 % B", "max B"]);
        let header = header.map(String::from);
        let mut table =
            TextTable::new(1, header.chain(new_in().map(|at| format!("new in {at} MB"))));
        for ChunkerRow { name, cuts, .. } in &self.chunked {
            let lens = PERCENTILES.map(|percent| cuts.percentile(percent).to_string());
            let figures = [
                (*name).into(),
                format!("{:.2}", cuts.savings()),
                cuts.count().to_string(),
                format!("{:.0}", cuts.mean()),
                format!("{:.0}", cuts.deviation()),
            ];
            let new_in = new_in().map(|at| megabytes(cuts.new_in[at - 1]));
            table.row(figures.into_iter().chain(lens).chain(new_in));
        }
        table
    }

    /// Makes a table for each edited data set, with mean costs: over all edits, by kind, and by length.
    fn edits(&self) -> Vec<TextTable> {
        let sets = self.chunked.first().map_or(0, |row| row.costs.len());
        (0..sets).map(|set| self.edits_of(set)).collect()
    }

    fn edits_of(&self, set: usize) -> TextTable {
        let name = self.chunked[0].costs[set].0;
        let header = [format!("edits of {name}, KiB"), "mean".into(), "95 %".into()].into_iter();
        let header = header.chain(EditKind::ALL.map(|kind| kind.name().into()));
        let header = header.chain(LENS.map(|len| ByteSize::from(len as u64).to_string()));
        let mut table = TextTable::new(1, header);
        for row in &self.chunked {
            let costs = &row.costs[set].1;
            let all = costs.of(None, None);
            let kinds = EditKind::ALL.map(|kind| kibibytes(costs.of(Some(kind), None).mean));
            let lens = LENS.map(|len| kibibytes(costs.of(None, Some(len)).mean));
            let figures = [row.name.into(), kibibytes(all.mean), kibibytes(all.p95 as f64)];
            table.row(figures.into_iter().chain(kinds).chain(lens));
        }
        table
    }
}

impl ChunkReport {
    /// Makes a table with a row for each mean length, chunker and form.
    pub(crate) fn figures(&self) -> TextTable {
        let new_in = (1..=self.inputs.len()).map(|at| format!("new_in_{at}_bytes"));
        let mut table = TextTable::new(0, FIGURES.map(String::from).into_iter().chain(new_in));
        for block in &self.blocks {
            let [min, avg, max] = [block.sizes.min(), block.sizes.avg(), block.sizes.max()];
            let names = |name: &str, isa: Option<Isa>| {
                let sizes = [avg, min, max].map(|len| len.to_string());
                [name.into(), isa.map_or("", Isa::name).into()].into_iter().chain(sizes)
            };
            for row in &block.timed {
                // The two stages of SS-CDC find the chunks of the plain chunker.
                let name = row.name.strip_prefix("ss-").unwrap_or(row.name);
                let chunked = block.chunked.iter().find(|chunked| chunked.name == name);
                let speeds = speeds(&row.speed, block.limit());
                table.row(names(&row.algorithm(), row.isa).chain(speeds).chain(self.cuts(chunked)));
            }
            let timed = |name| block.timed.iter().any(|row| row.name == name);
            for row in block.chunked.iter().filter(|row| !timed(row.name)) {
                let speeds = vec![String::new(); SPEEDS];
                table.row(names(row.name, None).chain(speeds).chain(self.cuts(Some(row))));
            }
        }
        table
    }

    fn cuts(&self, row: Option<&ChunkerRow>) -> Vec<String> {
        let Some(ChunkerRow { cuts, .. }) = row else {
            return vec![String::new(); FIGURES.len() - NAMES - SPEEDS + self.inputs.len()];
        };
        let figures = [
            cuts.original().to_string(),
            cuts.deduplicated().to_string(),
            format!("{:.4}", cuts.savings()),
            cuts.count().to_string(),
            format!("{:.1}", cuts.mean()),
            format!("{:.1}", cuts.deviation()),
        ];
        let lens = PERCENTILES.map(|percent| cuts.percentile(percent).to_string());
        let new_in = cuts.new_in.iter().map(ToString::to_string);
        figures.into_iter().chain(lens).chain(new_in).collect()
    }

    /// Makes a table of the number of chunks by length.
    pub(crate) fn lengths(&self) -> TextTable {
        let mut table = TextTable::new(0, ["algorithm", "avg_bytes", "up_to_bytes", "chunks"]);
        for block in &self.blocks {
            let (avg, max) = (block.sizes.avg(), block.sizes.max());
            for ChunkerRow { name, cuts, .. } in &block.chunked {
                let mut before = 0;
                for bin in 1..=BINS {
                    let up_to = (u64::from(max) * u64::from(bin) / u64::from(BINS)) as u32;
                    let chunks = cuts.up_to(up_to) - before;
                    before += chunks;
                    let numbers = [avg.to_string(), up_to.to_string(), chunks.to_string()];
                    table.row([(*name).into()].into_iter().chain(numbers));
                }
            }
        }
        table
    }

    /// True if `text` starts with the header of [`ChunkReport::edits`].
    pub(crate) fn is_edits(text: &[u8]) -> bool {
        text.starts_with(EDITS.join(",").as_bytes())
    }

    /// Makes a table with a row for each mean length, chunker, data set, kind and length of edits. Returns `None`
    /// without edits.
    pub(crate) fn edits(&self) -> Option<TextTable> {
        let mut table = TextTable::new(0, EDITS);
        let mut any = false;
        for block in &self.blocks {
            for row in &block.chunked {
                for (data, costs) in &row.costs {
                    any = true;
                    let mut put = |kind: &str, len: &str, EditCost { mean, p95 }: EditCost| {
                        let names = [row.name, &block.sizes.avg().to_string(), data, kind, len];
                        let names = names.map(String::from).into_iter();
                        table.row(names.chain([format!("{mean:.1}"), p95.to_string()]));
                    };
                    put("all", "", costs.of(None, None));
                    for kind in EditKind::ALL {
                        for len in LENS {
                            let cost = costs.of(Some(kind), Some(len));
                            put(kind.name(), &len.to_string(), cost);
                        }
                    }
                }
            }
        }
        any.then_some(table)
    }
}

/// Returns the chunker that `deltic sync` uses for a file of `len` bytes.
fn default_for(len: u64) -> String {
    let name = match ChunkerSpec::for_len(len) {
        ChunkerSpec::Fixed(len) => format!("fixed, {}", ByteSize::from(u64::from(len.get()))),
        ChunkerSpec::ByContent(algorithm, sizes) => {
            format!("{}, {}", algorithm.name(), ByteSize::from(u64::from(sizes.avg())))
        }
    };
    format!("deltic sync, for the longest file here: {name} (no option changes that)")
}

fn speeds(speed: &Speed, limit: f64) -> Vec<String> {
    let Speed { cold, hot, crc32c, blake3 } = speed;
    let figures = [cold.cpu, cold.wall, cold.cpu / limit, hot.cpu, hot.wall, *crc32c, *blake3];
    let text = |figure: &f64| if *figure > 0.0 { format!("{figure:.4}") } else { String::new() };
    figures.iter().map(text).collect()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

fn kibibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0)
}

/// Percentiles of the chunk lengths in tables.
const PERCENTILES: [usize; 5] = [0, 5, 50, 95, 100];
/// Number of length classes.
const BINS: u32 = 64;
/// Number of leading columns of [`FIGURES`] that identify a row.
const NAMES: usize = 5;
/// Number of columns of [`FIGURES`] with speeds, after [`NAMES`].
const SPEEDS: usize = 7;
const FIGURES: [&str; 23] = [
    "algorithm",
    "isa",
    "avg_bytes",
    "min_bytes",
    "max_bytes",
    "cold_cpu_gb_s",
    "cold_wall_gb_s",
    "cold_cpu_of_sum",
    "hot_cpu_gb_s",
    "hot_wall_gb_s",
    "cold_cpu_with_crc32c_gb_s",
    "cold_cpu_with_blake3_gb_s",
    "original_bytes",
    "deduplicated_bytes",
    "savings_percent",
    "chunks",
    "mean_bytes",
    "deviation_bytes",
    "shortest_bytes",
    "p5_bytes",
    "p50_bytes",
    "p95_bytes",
    "longest_bytes",
];
const EDITS: [&str; 7] =
    ["algorithm", "avg_bytes", "data", "kind", "edit_bytes", "mean_bytes", "p95_bytes"];

/// Paths of the three CSV files.
pub(crate) struct CsvFiles {
    figures: PathBuf,
    lengths: PathBuf,
    edits: PathBuf,
}

impl CsvFiles {
    /// Returns `path` and the paths of the files beside it.
    pub(crate) fn new(path: &Path) -> Self {
        let [lengths, edits] = ["lengths", "edits"].map(|what| beside(path, what));
        Self { figures: path.into(), lengths, edits }
    }

    /// Returns all files that a run may write or remove.
    pub(crate) fn all(&self) -> [&Path; 3] {
        [&self.figures, &self.lengths, &self.edits]
    }

    /// Writes the files. Without edits, removes the edits file of an earlier run.
    pub(crate) fn write(&self, report: &ChunkReport) -> Result<()> {
        write(&self.figures, report.figures().csv().as_bytes())?;
        write(&self.lengths, report.lengths().csv().as_bytes())?;
        match report.edits() {
            Some(edits) => write(&self.edits, edits.csv().as_bytes()),
            None => self.remove_edits(),
        }
    }

    /// Removes the edits file of an earlier run, but no other file of that name.
    fn remove_edits(&self) -> Result<()> {
        let removed = match fs::read(&self.edits) {
            Ok(text) if ChunkReport::is_edits(&text) => fs::remove_file(&self.edits),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed.with_context(|| format!("remove {}", shown(&self.edits)))
    }
}

/// Appends `-what` to the stem: `figures.csv` becomes `figures-what.csv`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{what}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
