//! `deltic bench chunk`: chunkers side by side, as in VectorCDC (§5): throughput, space savings and chunk lengths. Also
//! the cost of an edit, which decides the cost of a sync.

mod cuts;
mod edits;
mod plots;
pub(crate) mod report;
mod speed;
mod unique;

use std::env;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use deltic_core::chunk::{
    BadSizes, FixedLen, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, PublishedForm, SsCdc, UnknownAlgorithm,
};
use deltic_core::{Algorithm, ChunkerSpec, Isa, Sizes};

use crate::exit::{Exit, complain, give_up, print, refuse_input, words};
use crate::files;
use crate::inputs::Inputs;
use crate::machine::{ISA_VARIABLE, MachineInfo, available_memory};
use crate::progress::StepProgress;
use crate::size::ByteSize;
use cuts::{CutStats, FormMismatch, OtherForm};
use edits::EditTrial;
use report::{ChunkReport, ChunkerRow, CsvFiles, SizeResults, TimedRow};
use speed::{TimedData, TimedSubject, measure};

/// Compare chunkers on this machine and your data
///
/// All inputs are read into memory first, so no figure depends on a disk.
///
/// Throughput is in 10^9 bytes a second, the median of all runs. Columns:
///
///   cold        one pass over all inputs in memory; inputs shorter than four
///               times the last-level cache leave the caches before each pass
///   hot         many passes over a slice in the core's own cache
///   cpu, wall   by processor time, by the clock
///   of sum      cold throughput in percent of "vector sum"
///   "+ crc32c"  cold, by processor time: cutting, and the checksum of each
///               chunk while the chunk is in the cache; likewise "+ blake3"
///   savings     share of bytes that are not stored if equal chunks are stored once
///   new in      bytes that an input adds to all inputs before: of two releases,
///               the bytes to send of the second
///
/// Rows besides the chunkers:
///
///   vector sum        adds all bytes: the speed of reading. A chunker that
///                     skips bytes may be faster
///   sums alone        checksums of the sieve's chunks, without cutting
///   fixed             reads no bytes, so `fixed` has no throughput
///   ss-crc, ss-gear   `crc` and `gear` in the two stages of SS-CDC
///   ram-native, vram-ebs, vram
///                     with --published: `ram` as VectorCDC publishes it, which
///                     reads whole windows, by bytes, with vectors in the search
///                     for the largest byte alone, and in both phases. Likewise
///                     for `ae-max` and `ae-min`
///
/// All instruction sets must find the same chunks; a difference ends the run.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = EXAMPLES)]
pub(crate) struct ChunkArgs {
    /// Files and directories, each an input; directories count with all regular files in them. None: random bytes
    #[arg(value_name = "FILE|DIR")]
    inputs: Vec<PathBuf>,
    /// Chunkers to compare [default: fixed and all others]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    algorithms: Vec<ChunkerFamily>,
    /// Target mean lengths of chunks: powers of two
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "8KiB")]
    avg: Vec<ByteSize>,
    /// Shortest chunk [default: a quarter of the mean]
    #[arg(long, value_name = "SIZE")]
    min: Option<ByteSize>,
    /// Longest chunk [default: four times the mean]
    #[arg(long, value_name = "SIZE")]
    max: Option<ByteSize>,
    /// Instruction sets to compare [default: the one in DELTIC_ISA, or else all that this machine has]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    isa: Vec<Isa>,
    /// Random bytes as a last input, the same each time [default: 256MiB where there are no inputs]
    #[arg(long, value_name = "SIZE")]
    random: Option<ByteSize>,
    /// Also count the bytes to send after an edit: single inserts, overwrites and deletions of 1 B to 64 KiB at
    /// random places of the inputs, and of data that is hard to cut
    #[arg(long)]
    edits: bool,
    /// Also time `ram`, `ae-max` and `ae-min` as VectorCDC publishes them
    #[arg(long)]
    published: bool,
    /// Runs of each row; the median is shown
    #[arg(long, value_name = "N", default_value = "5")]
    runs: std::num::NonZeroUsize,
    /// Memory limit for inputs. Speeds are measured on that much; chunks are counted in all inputs, those beyond the
    /// limit from their files [default: half of the available memory]
    #[arg(long, value_name = "SIZE")]
    limit: Option<ByteSize>,
    /// Write all figures to FILE; lengths and edits go to files beside it, named FILE-lengths and FILE-edits. Without
    /// --edits, FILE-edits of an earlier run is removed. None may be an input
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw throughput, space savings and lengths into DIR, each as SVG and PNG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Show no progress, and no notes
    #[arg(short, long)]
    quiet: bool,
}

/// A kind of chunker. The chunk lengths are chosen separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkerFamily {
    /// Chunks of a fixed length.
    Fixed,
    /// Content-defined chunks.
    ByContent(Algorithm),
}

impl ChunkerFamily {
    fn all() -> Vec<Self> {
        [Self::Fixed].into_iter().chain(Algorithm::ALL.map(Self::ByContent)).collect()
    }

    /// Returns the name, as [`FromStr`] parses it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::ByContent(algorithm) => algorithm.name(),
        }
    }

    fn spec(self, sizes: Sizes) -> ChunkerSpec {
        match self {
            Self::Fixed => {
                let len = FixedLen::new(sizes.avg());
                ChunkerSpec::Fixed(len.expect("sizes have the same bounds"))
            }
            Self::ByContent(algorithm) => ChunkerSpec::ByContent(algorithm, sizes),
        }
    }

    /// Returns the instruction sets to time this chunker with. Empty for `fixed`; the only element is `None` for a
    /// chunker without vector forms.
    fn forms(self, isas: &[Isa]) -> Vec<Option<Isa>> {
        match self {
            Self::Fixed => Vec::new(),
            Self::ByContent(algorithm) if algorithm.has_vector_form() => {
                isas.iter().copied().map(Some).collect()
            }
            Self::ByContent(_) => vec![None],
        }
    }

    /// Returns the instruction sets for which the chunks are compared with those of the plain form.
    fn other_forms(self, isas: &[Isa]) -> Vec<Isa> {
        let forms = self.forms(isas).into_iter().flatten();
        forms.filter(|isa| *isa != Isa::SCALAR).collect()
    }
}

impl FromStr for ChunkerFamily {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        if name == Self::Fixed.name() { Ok(Self::Fixed) } else { name.parse().map(Self::ByContent) }
    }
}

/// The validated options.
struct ChunkPlan<'a> {
    args: &'a ChunkArgs,
    families: Vec<ChunkerFamily>,
    sizes: Vec<Sizes>,
    /// Sorted as [`Isa::available`].
    isas: Vec<Isa>,
}

impl<'a> ChunkPlan<'a> {
    fn new(args: &'a ChunkArgs) -> Result<Self> {
        let families =
            if args.algorithms.is_empty() { ChunkerFamily::all() } else { args.algorithms.clone() };
        let sizes = args.avg.iter().map(|avg| {
            let sizes = args.sizes(*avg);
            sizes.with_context(|| format!("--avg {avg} (a power of two, 512 B to 512 KiB)"))
        });
        Ok(Self { args, families, sizes: sizes.collect::<Result<_>>()?, isas: args.isas() })
    }

    fn inputs(&self) -> Inputs {
        let ChunkArgs { inputs, random, limit, .. } = self.args;
        let random =
            random.map(ByteSize::bytes).or_else(|| inputs.is_empty().then_some(RANDOM_BYTES));
        let limit = limit.map_or_else(usual_limit, ByteSize::bytes);
        Inputs::read(inputs, random, limit)
    }

    /// Returns all output files.
    fn files(&self, csv: Option<&CsvFiles>) -> Vec<PathBuf> {
        let csv = csv.iter().flat_map(|csv| csv.all()).map(PathBuf::from);
        let avgs: Vec<_> = self.sizes.iter().map(|sizes| u64::from(sizes.avg()).into()).collect();
        let plots = self.args.plot.iter().flat_map(|dir| plots::files(dir, &avgs));
        csv.chain(plots).collect()
    }

    /// Measures `inputs`.
    fn report(&self, inputs: &Inputs) -> Result<ChunkReport> {
        let trials = if self.args.edits { EditTrial::all(inputs) } else { Vec::new() };
        let mut blocks: Vec<_> = self.sizes.iter().map(|sizes| self.block(*sizes)).collect();
        let turns =
            self.args.runs.get() * blocks.iter().map(|block| block.timed.len()).sum::<usize>();
        let machine = MachineInfo::here();
        let course = TimedData::new(inputs, &machine);
        if !self.args.quiet {
            note(&course, &machine, &blocks);
        }
        let mut steps =
            StepProgress::new(turns + self.families.len() * blocks.len(), self.args.quiet);
        for block in &mut blocks {
            for family in &self.families {
                steps.next(&format!("cutting by {}, {}", family.name(), block.avg()));
                block.chunked.push(self.chunked(*family, block.sizes, inputs, &trials)?);
            }
        }
        self.time(&course, &mut blocks, &mut steps);
        Ok(ChunkReport::new(inputs, &machine, self.args.runs.get(), blocks))
    }

    /// Returns the subjects to time with chunks of `sizes`.
    fn block(&self, sizes: Sizes) -> SizeResults {
        let forms = self.families.iter().flat_map(|family| {
            let forms = family.forms(&self.isas).into_iter();
            let best = self.isas.last().copied();
            forms.map(move |isa| {
                let chunker = family.spec(sizes).build_for(isa.unwrap_or(Isa::SCALAR));
                let summed = isa.is_none() || isa == best;
                let subject = if summed { TimedSubject::Summed } else { TimedSubject::Chunker };
                TimedRow::new(family.name(), isa, subject(chunker))
            })
        });
        let sum = TimedRow::new("vector sum", None, TimedSubject::Sum);
        let sieve = ChunkerFamily::ByContent(Algorithm::Sieve).spec(sizes).build();
        let sums = TimedRow::new("sums alone", None, TimedSubject::Sums(sieve));
        let stages = self.families.iter().flat_map(|family| {
            let name = if family.name() == "crc" { "ss-crc" } else { "ss-gear" };
            self.two_stages(*family, sizes).into_iter().map(move |(stages, isa)| {
                let subject = TimedSubject::Stages(stages, sizes.max() as usize);
                TimedRow::new(name, Some(isa), subject)
            })
        });
        let published = self.families.iter().flat_map(|family| {
            let spec = family.spec(sizes);
            self.published_forms(*family).into_iter().filter_map(move |form| {
                let subject = TimedSubject::Chunker(spec.build_as_published(form)?);
                Some(TimedRow::published(family.name(), form, subject))
            })
        });
        let timed = [sum, sums].into_iter().chain(forms).chain(stages).chain(published).collect();
        SizeResults { sizes, timed, chunked: Vec::new() }
    }

    /// Returns the forms of VectorCDC to time and to compare: the native loop, and two forms of each instruction set.
    fn published_forms(&self, family: ChunkerFamily) -> Vec<PublishedForm> {
        let ChunkerFamily::ByContent(Algorithm::Ram | Algorithm::AeMax | Algorithm::AeMin) = family
        else {
            return Vec::new();
        };
        if !self.args.published {
            return Vec::new();
        }
        let isas = || self.isas.iter().copied().filter(|isa| *isa != Isa::SCALAR);
        let [one, both] = [PublishedForm::SearchOnly, PublishedForm::Both];
        std::iter::once(PublishedForm::Native)
            .chain(isas().map(one))
            .chain(isas().map(both))
            .collect()
    }

    /// Returns the two-stage forms (SS-CDC) of a hash-based chunker: portable, and by the gathers of AVX2 and AVX-512.
    fn two_stages(&self, family: ChunkerFamily, sizes: Sizes) -> Vec<(SsCdc, Isa)> {
        let isas = self.isas.iter().copied();
        let isas = isas.filter(|isa| ["scalar", "avx2", "avx512"].contains(&isa.name()));
        isas.filter_map(|isa| Some((SsCdc::new(&family.spec(sizes), isa)?, isa))).collect()
    }

    fn chunked(
        &self,
        family: ChunkerFamily,
        sizes: Sizes,
        inputs: &Inputs,
        trials: &[EditTrial<'_>],
    ) -> Result<ChunkerRow> {
        let spec = family.spec(sizes);
        let stages = self.two_stages(family, sizes).into_iter();
        let stages = stages.map(|(stages, isa)| OtherForm::Stages(stages, isa));
        let forms = family.other_forms(&self.isas).into_iter().map(OtherForm::Form);
        let published = self.published_forms(family).into_iter().map(OtherForm::Published);
        let others: Vec<_> = forms.chain(stages).chain(published).collect();
        let cuts = CutStats::of(&spec, inputs, &others)?;
        let costs = trials.iter().map(|trial| (trial.name, trial.costs(&spec)));
        Ok(ChunkerRow { name: family.name(), cuts, costs: costs.collect() })
    }

    fn time(&self, course: &TimedData<'_>, blocks: &mut [SizeResults], steps: &mut StepProgress) {
        let timed = blocks.iter().flat_map(|block| block.timed.iter().map(move |row| (block, row)));
        let (names, subjects): (Vec<_>, Vec<_>) = timed
            .map(|(block, row)| (format!("{}, {}", row.title(), block.avg()), row.subject))
            .unzip();
        let runs = self.args.runs.get();
        let speeds = measure(course, &subjects, runs, |run, at| {
            steps.next(&format!("timing {}, run {} of {runs}", names[at], run + 1));
        });
        let rows = blocks.iter_mut().flat_map(|block| &mut block.timed);
        rows.zip(speeds).for_each(|(row, speed)| row.speed = speed);
    }
}

impl ChunkArgs {
    /// Returns the instruction sets to compare, the best last.
    fn isas(&self) -> Vec<Isa> {
        // The variable has already set the best instruction set.
        if self.isa.is_empty() && env::var_os(ISA_VARIABLE).is_some_and(|name| !name.is_empty()) {
            return vec![Isa::best()];
        }
        let mut isas = Isa::available();
        isas.retain(|isa| self.isa.is_empty() || self.isa.contains(isa));
        isas
    }

    /// Returns the chunk lengths around a mean of `avg`: the requested lengths, or a usual spread within the limits of
    /// the formats.
    fn sizes(&self, avg: ByteSize) -> Result<Sizes, BadSizes> {
        let bytes = |size: ByteSize| u32::try_from(size.bytes()).map_err(|_| BadSizes::Range);
        let avg = bytes(avg)?;
        let usual_min = (avg / SPREAD).max(MIN_CHUNK_BYTES);
        let usual_max = avg.saturating_mul(SPREAD).min(MAX_CHUNK_BYTES);
        let min = self.min.map_or(Ok(usual_min), bytes)?;
        let max = self.max.map_or(Ok(usual_max), bytes)?;
        Sizes::new(min, avg, max)
    }
}

/// Runs the comparison and prints its figures.
pub(crate) fn run(args: &ChunkArgs) -> Exit {
    let plan = match ChunkPlan::new(args) {
        Ok(plan) => plan,
        Err(refusal) => {
            complain(&words(&refusal), Some("see `deltic bench chunk --help`"));
            return Exit::Usage;
        }
    };
    match compare(&plan) {
        Ok(exit) => exit,
        Err(error) if error.is::<FormMismatch>() => {
            complain(&words(&error), Some("this is a bug; please report it"));
            Exit::Files
        }
        Err(error) => give_up(&error),
    }
}

fn compare(plan: &ChunkPlan<'_>) -> Result<Exit> {
    // Output files are checked before the measurement, which may take long.
    let csv = plan.args.csv.as_deref().map(CsvFiles::new);
    let plots = plan.args.plot.as_deref();
    plots.map_or(Ok(()), files::make_dir)?;
    let files = plan.files(csv.as_ref());
    files.iter().try_for_each(|file| files::try_out(file))?;
    let inputs = plan.inputs();
    if let Some(file) = files.iter().find(|file| inputs.have(file)) {
        return Ok(refuse_input(file));
    }
    if inputs.len() == 0 {
        complain("the inputs are empty: there is nothing to measure", None);
        return Ok(if inputs.failed { Exit::Partial } else { Exit::Selection });
    }
    let report = plan.report(&inputs)?;
    print(&report.lines())?;
    csv.map_or(Ok(()), |csv| csv.write(&report))?;
    plots.map_or(Ok(()), |dir| plots::draw(&report, dir))?;
    Ok(if inputs.failed { Exit::Partial } else { Exit::Success })
}

/// Measures what the command line `deltic-bench chunk WORDS` would measure, and prints no tables.
pub(crate) fn measured_by(words: &[String]) -> Result<ChunkReport> {
    let args = ChunkWords::try_parse_from(words).map_err(|refusal| anyhow!(refusal.to_string()))?;
    let plan = ChunkPlan::new(&args.args)?;
    let inputs = plan.inputs();
    ensure!(!inputs.failed && inputs.len() > 0, "an input cannot be read or is empty");
    plan.report(&inputs)
}

/// Parser of the words behind `deltic-bench chunk`.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct ChunkWords {
    #[command(flatten)]
    args: ChunkArgs,
}

/// Prints notes on figures that need an explanation.
fn note(course: &TimedData<'_>, machine: &MachineInfo, blocks: &[SizeResults]) {
    if course.evicts() {
        eprintln!("note: inputs are short; caches are emptied before each cold pass");
    }
    for block in blocks {
        let hot = course.hot_len(block.sizes.max() as usize);
        if hot as u64 > machine.l2 {
            let (hot, l2) = (ByteSize::from(hot as u64), ByteSize::from(machine.l2));
            let avg = block.avg();
            eprintln!("note: {avg}: the hot slice, {hot}, exceeds the L2 cache, {l2}");
        }
    }
}

fn usual_limit() -> u64 {
    available_memory().map_or(USUAL_LIMIT_BYTES, |bytes| bytes / 2)
}

/// Default ratio of the longest chunk to the mean, and of the mean to the shortest.
const SPREAD: u32 = 4;
/// Default length of random input.
const RANDOM_BYTES: u64 = 256 << 20;
/// Default memory limit if the available memory is unknown.
const USUAL_LIMIT_BYTES: u64 = 1 << 30;

const EXAMPLES: &str = "\
EXAMPLES:
  deltic bench chunk
      all chunkers, in each form that this machine has, on random bytes
  deltic bench chunk linux-6.1.tar linux-6.2.tar
      two releases: \"new in 2\" is what would be sent of the second
  deltic bench chunk --algorithms gear-nc,ram --avg 2KiB,8KiB,64KiB --edits /srv/images
      two chunkers at three mean lengths, and what one edit costs
  deltic bench chunk --isa scalar,avx2 --csv figures.csv --runs 15 disk.img
      two instruction sets, more runs, all figures for a program";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;
    use clap::Parser;

    fn args(words: &str) -> ChunkArgs {
        let words = format!("deltic-bench chunk {words}");
        let words = words.split_whitespace();
        match Program::try_parse_from(words).unwrap() {
            Program::Chunk(args) => *args,
            _ => unreachable!("the words say bench chunk"),
        }
    }

    fn sizes(words: &str) -> Option<Vec<(u32, u32, u32)>> {
        let args = args(words);
        let plan = ChunkPlan::new(&args).ok()?;
        Some(plan.sizes.iter().map(|sizes| (sizes.min(), sizes.avg(), sizes.max())).collect())
    }

    #[test]
    fn lengths_spread_around_the_mean_as_far_as_formats_allow() {
        assert_eq!(sizes("").unwrap(), [(2048, 8192, 32768)]);
        assert_eq!(
            sizes("--avg 512b,256KiB").unwrap(),
            [(512, 512, 2048), (64 << 10, 256 << 10, 512 << 10)]
        );
        assert_eq!(sizes("--min 1k --max 1m --avg 4k"), None);
        assert_eq!(sizes("--min 1k --max 64k --avg 4k").unwrap(), [(1024, 4096, 65536)]);
        assert_eq!(sizes("--avg 9k"), None);
    }

    #[test]
    fn a_chunker_is_timed_once_for_each_form_and_fixed_is_not_timed() {
        for (name, wanted) in [("fixed", 0), ("rabin", 1), ("gear-nc", 1), ("ram", 3), ("sieve", 3)]
        {
            let family: ChunkerFamily = name.parse().unwrap();
            assert_eq!(family.forms(&[Isa::SCALAR; 3]).len(), wanted, "{name}");
        }
    }

    #[test]
    fn instruction_sets_are_compared_once_each_and_the_best_last() {
        let available = Isa::available();
        let names: Vec<_> = available.iter().rev().map(|isa| isa.name()).collect();
        let args = args(&format!("--isa {0},{0}", names.join(",")));
        assert_eq!(ChunkPlan::new(&args).unwrap().isas, available);
    }

    #[test]
    fn only_the_best_form_is_timed_with_sums() {
        let best = *Isa::available().last().unwrap();
        let args = args(&format!("--algorithms ram --isa {},scalar", best.name()));
        let plan = ChunkPlan::new(&args).unwrap();
        let block = plan.block(plan.sizes[0]);
        let summed =
            block.timed.iter().filter(|row| matches!(row.subject, TimedSubject::Summed(_)));
        assert_eq!(summed.map(|row| row.isa).collect::<Vec<_>>(), [Some(best)]);
    }
}
