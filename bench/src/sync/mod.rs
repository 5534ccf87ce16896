//! `deltic bench sync`: whole syncs side by side, as in the papers. Strategies and other programs are compared over
//! kinds and amounts of changes, threads and links.

mod compare;
pub(crate) mod line;
pub(crate) mod link;
mod made;
mod peers;
mod plots;
pub(crate) mod report;
pub(crate) mod settings;
mod tree;
mod trial;
mod words;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Parser;
use deltic_core::strategy::{Conversation, Proving};
use deltic_core::{Strategy, StrongKind};
use deltic_net::max_threads;

use crate::exit::{Exit, complain, give_up, print, refuse_input, words as causes};
use crate::files;
use crate::inputs::id;
use crate::machine::{MachineInfo, processors};
use crate::size::ByteSize;
use compare::{Comparison, VersionPair};
use report::{SyncCase, SyncReport};
use settings::LiteralCodec;
pub(crate) use words::LinkSpec;
use words::{ChangeAmount, ChangeKind, DataKind, EditPlaces, OtherProgram, ProofChoice};

/// Compare whole syncs: strategies, changes, threads, links, other programs
///
/// Both ends run in this process, with real files in a temporary directory (in
/// --dir), which is removed at the end. Old is random bytes, the same each time;
/// new is old with changes in pieces of 256 bytes at random places. Each result
/// is compared with new, byte by byte. All ways to sync take turns, and the
/// medians count. Columns:
///
///   wall           time by the clock, from the first thread to the last byte
///   cpu            processor time of the whole process
///   sender cpu     processor time of the sender; likewise "receiver cpu"
///   both wait      time by the clock in which neither end worked
///   up, down       bytes from the sender, bytes to the sender
///   literal        bytes of new that were sent as content
///
/// The second and third tables split the processor time of each end:
///
///   scan           cutting and checksums
///   cut alone      cutting the same bytes without checksums, measured afterwards
///   decide         the protocol: frames, the index, look-ups
///
/// Other programs (--peer) sync over the same links, through pipes and files, and
/// are measured from outside, so unknown figures are shown as "-".
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = EXAMPLES)]
pub(crate) struct BenchSyncArgs {
    /// Strategies to compare; "all" is every strategy of the papers and of Deltic
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "deltic")]
    strategy: Vec<String>,
    /// Lengths of old [default: 10MB where there is no --pair]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    size: Vec<ByteSize>,
    /// Content of old: random, zeros, forged (blocks with equal CRC-32C), or a length: random bytes of this length, repeated
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "random")]
    data: Vec<DataKind>,
    /// How bytes change
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "insert,cut,inverse"
    )]
    kind: Vec<ChangeKind>,
    /// How many bytes change: sizes, or shares of old such as 0.1%
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0,256B,4KiB,64KiB,1MiB"
    )]
    change: Vec<ChangeAmount>,
    /// Two versions of a file or of a directory, such as releases; may be repeated
    #[arg(long, value_names = ["OLD", "NEW"], num_args = 2)]
    pair: Vec<PathBuf>,
    /// Threads of each end that compute [default: as many as there are processors]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<NonZeroU32>,
    /// Link between the ends: bits per second and round trip time, such as 500Mbit,50ms, or none. May be repeated
    #[arg(long, value_name = "RATE,RTT", default_value = "none")]
    link: Vec<LinkSpec>,
    /// Programs to compare with: rsync or rdiff, at PATH if given; may be repeated
    #[arg(long, value_name = "NAME[=PATH]")]
    peer: Vec<OtherProgram>,
    /// Compress literals (zstd)
    #[arg(short = 'z', long)]
    compress: bool,
    /// Compressor of every strategy: own (each as it chooses), none, or zstd:LEVEL
    #[arg(long, value_name = "NAME", default_value = "own", conflicts_with = "compress")]
    zc: LiteralCodec,
    /// Strong sum of every strategy that confirms matches: blake3, md5, sha1, sha256, siphash-2-4 [default: its own]
    #[arg(long, value_name = "NAME")]
    strong: Option<StrongKind>,
    /// Proof of each file: own (as each strategy has it), or none (the sums that confirmed matches are believed, as in
    /// the papers)
    #[arg(long, value_name = "NAME", value_enum, default_value = "own")]
    proof: ProofChoice,
    /// Mean length of chunks, or length of blocks, of every strategy [default: its own]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<ByteSize>,
    /// Where pieces change: even (random places of the whole file), or netsync (70 % of the bytes in the first
    /// third of the file, 10 % in the middle, 20 % in the last third)
    #[arg(long, value_name = "NAME", value_enum, default_value = "even")]
    places: EditPlaces,
    /// Flush files to the disk, as `deltic sync` does; without this option files are not flushed, as with rsync
    #[arg(long)]
    durable: bool,
    /// Runs of each way to sync; the median is shown
    #[arg(long, value_name = "N", default_value = "3")]
    runs: NonZeroUsize,
    /// Directory for the files [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write all figures to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw times and bytes into DIR, each as SVG and PNG
    #[arg(long, visible_alias = "plots", value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// The validated options.
struct SyncPlan<'a> {
    args: &'a BenchSyncArgs,
    strategies: Vec<Strategy>,
    threads: Vec<NonZeroU32>,
    scenes: Vec<VersionPair>,
    links: Vec<LinkSpec>,
}

impl<'a> SyncPlan<'a> {
    fn new(args: &'a BenchSyncArgs) -> Result<Self> {
        let mut strategies = Vec::new();
        for name in &args.strategy {
            let named =
                if name == "all" { Strategy::ALL.into() } else { vec![Strategy::by_name(name)?] };
            for strategy in named {
                if !strategies.contains(&strategy) {
                    strategies.push(strategy);
                }
            }
        }
        let threads =
            if args.threads.is_empty() { vec![processors()] } else { args.threads.clone() };
        let most = max_threads();
        if let Some(many) = threads.iter().find(|threads| threads.get() > most) {
            bail!("--threads {many}: at most {most} on this machine");
        }
        if let Some(size) = args.block_size {
            ensure!(u32::try_from(size.bytes()).is_ok(), "--block-size {size}: less than 4 GiB");
        }
        let strategies = strategies.into_iter().map(|strategy| args.altered(strategy)).collect();
        Ok(Self { args, strategies, threads, scenes: args.scenes()?, links: args.link.clone() })
    }

    /// Returns all cases to compare.
    fn cases(&self) -> Result<Vec<SyncCase>> {
        let cases =
            self.scenes.iter().flat_map(|scene| self.links.iter().map(|link| scene.case(*link)));
        cases.collect()
    }

    /// Returns all output files.
    fn files(&self, cases: &[SyncCase]) -> Vec<PathBuf> {
        let plots = self.args.plot.iter().flat_map(|dir| plots::files(dir, cases));
        self.args.csv.iter().cloned().chain(plots).collect()
    }
}

impl BenchSyncArgs {
    /// Returns `strategy` with the hash and the proof that this comparison gives to every strategy. Deltic's own
    /// recipes have no confirming hash, and are always proven.
    fn altered(&self, strategy: Strategy) -> Strategy {
        let confirms = strategy.conversation != Conversation::Recipe;
        let strong = self.strong.filter(|_| confirms).unwrap_or(strategy.strong);
        let proving = match self.proof {
            ProofChoice::Nothing if confirms => Proving::Never,
            ProofChoice::Nothing | ProofChoice::Own => strategy.proving,
        };
        Strategy { strong, proving, ..strategy }
    }

    /// Returns the compressor of all strategies.
    fn codec(&self) -> LiteralCodec {
        if self.compress { LiteralCodec::Usual } else { self.zc }
    }

    /// Returns the pairs of versions to compare.
    fn scenes(&self) -> Result<Vec<VersionPair>> {
        let sizes = match &self.size[..] {
            [] if self.pair.is_empty() => vec![ByteSize::from(USUAL_BYTES)],
            sizes => sizes.to_vec(),
        };
        let mut scenes = Vec::new();
        let made = self.data.iter().flat_map(|data| sizes.iter().map(|size| (*data, *size)));
        for (data, size) in made {
            // All kinds of an empty change are the same.
            if self.change.iter().any(|amount| amount.of(size.bytes()) == 0) {
                scenes.push(VersionPair::same(data, size));
            }
            for change in &self.kind {
                for amount in self.change.iter().filter(|amount| amount.of(size.bytes()) > 0) {
                    let fits = amount.of(size.bytes()) <= size.bytes();
                    ensure!(fits, "--change {amount}: more than --size {size}");
                    let change = Some((*change, *amount));
                    scenes.push(VersionPair::Made { data, size, change });
                }
            }
        }
        let pairs = self.pair.chunks_exact(2);
        scenes.extend(
            pairs.map(|two| VersionPair::Pair { old: two[0].clone(), new: two[1].clone() }),
        );
        Ok(scenes)
    }
}

/// Runs the comparison and prints its figures.
pub(crate) fn run(args: &BenchSyncArgs) -> Exit {
    let plan = match SyncPlan::new(args) {
        Ok(plan) => plan,
        Err(refusal) => {
            complain(&causes(&refusal), Some("see `deltic bench sync --help`"));
            return Exit::Usage;
        }
    };
    compare(&plan).unwrap_or_else(|error| give_up(&error))
}

fn compare(plan: &SyncPlan<'_>) -> Result<Exit> {
    // Output files are checked before the measurement, which may take long.
    let cases = plan.cases()?;
    let files = plan.files(&cases);
    if let Some(file) = files.iter().find(|file| is_input(file, &plan.args.pair)) {
        return Ok(refuse_input(file));
    }
    plan.args.plot.as_deref().map_or(Ok(()), files::make_dir)?;
    files.iter().try_for_each(|file| files::try_out(file))?;
    let (report, is_whole) = measure(plan)?;
    print(&report.lines())?;
    let csv = plan.args.csv.as_deref();
    csv.map_or(Ok(()), |path| files::write(path, report.csv().as_bytes()))?;
    plan.args.plot.as_deref().map_or(Ok(()), |dir| plots::draw(&report, dir))?;
    Ok(if is_whole { Exit::Success } else { Exit::Partial })
}

/// Measures all rows. Returns the report, and true if no way was refused.
fn measure(plan: &SyncPlan<'_>) -> Result<(SyncReport, bool)> {
    let mut comparison = Comparison::new(plan)?;
    let rows = comparison.rows(plan)?;
    let (machine, runs) = (MachineInfo::here().name, plan.args.runs);
    let processors = processors();
    let machine = format!("{machine}, {processors} processors, median of {runs}");
    Ok((SyncReport { machine, rows }, comparison.is_whole()))
}

/// Measures what the command line `deltic-bench sync WORDS` would measure, and prints no tables.
pub(crate) fn measured_by(words: &[String]) -> Result<SyncReport> {
    let args = SyncWords::try_parse_from(words).map_err(|refusal| anyhow!(refusal.to_string()))?;
    let (report, is_whole) = measure(&SyncPlan::new(&args.args)?)?;
    ensure!(is_whole, "a strategy was refused");
    Ok(report)
}

/// Parser of the words behind `deltic-bench sync`.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct SyncWords {
    #[command(flatten)]
    args: BenchSyncArgs,
}

/// True if `path` is one of `inputs`, even under another name.
fn is_input(path: &Path, inputs: &[PathBuf]) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|meta| id(&meta));
    let this = identity(path);
    this.is_some() && inputs.iter().any(|input| identity(input) == this)
}

/// Default length of the old version.
const USUAL_BYTES: u64 = 10_000_000;

const EXAMPLES: &str = "\
EXAMPLES:
  deltic bench sync
      Deltic, 10 MB, each kind of change from 256 B to 1 MiB
  deltic bench sync --strategy all --size 100MB --change 0,0.1%,1% --peer rsync --peer rdiff
      every system of the papers, and two programs, on 100 MB
  deltic bench sync --strategy deltic,parasync,pdsync --size 1GiB --kind insert --change 1% --threads 1,2,4,8
      what threads are worth
  deltic bench sync --link none --link 500Mbit,50ms --csv wan.csv --plot wan
      the same over a wide network, all figures for a program, and pictures
  deltic bench sync --data random,zeros,100B,4KiB,forged --size 1GiB --change 0,0.1% --kind insert --runs 1
      what data that repeats itself may cost
  deltic bench sync --pair typescript-5.9.2.tar typescript-5.9.3.tar -z --peer rsync
      two releases, compressed";
