//! Runs and measures a sync: by Deltic with both ends in this process, or by another program.

use std::fs::{self, File, FileTimes};
use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use deltic_core::chunk::cut_all;
use deltic_core::strategy::LinkModel;
use deltic_core::{AtEnd, ChunkerSpec, Strategy};
use deltic_net::SyncError;
use deltic_net::embed::SumCounts;
use deltic_net::monitor::{Spent, Stage};
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_net::rehearsal::{Rehearsal, rehearse};
use deltic_protocol::Purpose;
use deltic_protocol::options::Options;
use deltic_protocol::report::{Notice, Trouble};
use rustix::time::{ClockId, clock_gettime};

use super::settings::{LiteralCodec, SyncSettings};
use super::tree;
use crate::exit::shown;
use crate::machine::PeakMemory;

/// Two versions of a file, and the destination that holds the old version.
pub(crate) struct SyncFiles {
    pub(crate) old: PathBuf,
    pub(crate) new: PathBuf,
    /// Destination with the result of the last sync.
    pub(crate) dest: PathBuf,
}

impl SyncFiles {
    /// Copies the old version to the destination and flushes it, so that the next run does not pay for this write. The
    /// modification time is a day ago, so that the quick check sees every change.
    pub(crate) fn restore(&self) -> Result<()> {
        let yesterday = SystemTime::now() - Duration::from_secs(86_400);
        if self.old.is_dir() {
            return tree::copy(&self.old, &self.dest, yesterday);
        }
        if self.dest.is_dir() {
            tree::remove(&self.dest)?;
        }
        let failed = || format!("write {}", shown(&self.dest));
        fs::copy(&self.old, &self.dest).with_context(failed)?;
        let file = File::options().write(true).open(&self.dest).with_context(failed)?;
        file.set_times(FileTimes::new().set_modified(yesterday)).with_context(failed)?;
        file.sync_all().with_context(failed)
    }

    /// Fails unless the destination equals the new version byte by byte.
    pub(crate) fn check(&self) -> Result<()> {
        if self.new.is_dir() {
            let pairs = tree::pairs(&self.new, &self.dest)?;
            return pairs.iter().try_for_each(|[new, dest]| Self::check_file(new, dest));
        }
        Self::check_file(&self.new, &self.dest)
    }

    fn check_file(new: &Path, dest: &Path) -> Result<()> {
        let open = |path: &Path| File::open(path).with_context(|| format!("open {}", shown(path)));
        let (mut new, mut dest) = (open(new)?, open(dest)?);
        let (mut one, mut other) = (vec![0; SEGMENT_BYTES], vec![0; SEGMENT_BYTES]);
        loop {
            let (got, there) = (fill(&mut new, &mut one)?, fill(&mut dest, &mut other)?);
            ensure!(one[..got] == other[..there], "the destination differs from the new version");
            if got == 0 {
                return Ok(());
            }
        }
    }
}

/// Cost of a sync. Figures that are unknown for a program are absent.
pub(crate) struct SyncSample {
    pub(crate) wall: Duration,
    /// Processor time of both ends.
    pub(crate) cpu: Duration,
    pub(crate) ends: Option<EndTimes>,
    /// Processor time of the sender and of the receiver.
    pub(crate) split: Option<[Duration; 2]>,
    /// Bytes from the sender.
    pub(crate) up: u64,
    /// Bytes to the sender.
    pub(crate) down: u64,
    /// Literal bytes before compression.
    pub(crate) literal: Option<u64>,
    /// Most memory that both ends had in addition to the memory before the sync, in bytes.
    pub(crate) peak: Option<u64>,
    /// Sums of both ends by their source.
    pub(crate) sums: Option<SumCounts>,
}

/// Figures that only Deltic's ends report.
pub(crate) struct EndTimes {
    /// Times of the sender and of the receiver.
    pub(crate) spent: [Spent; 2],
    pub(crate) waiting: Duration,
    /// Processor time of cutting the new and the old version without sums.
    pub(crate) cut: [Duration; 2],
}

impl SyncSample {
    /// Returns the names of [`SyncSample::cells`].
    pub(crate) fn columns() -> Vec<String> {
        let fixed = FIXED.map(String::from).into_iter();
        let ends = ["sender", "receiver"];
        let stages = ends.iter().flat_map(|end| {
            Stage::ALL.map(|stage| format!("{end}_{}_cpu_s", stage.name())).into_iter()
        });
        let compared = ends
            .iter()
            .flat_map(|end| COMPARED.map(|(_, column)| format!("{end}_{column}")).into_iter());
        let purposes = ["up", "down"].into_iter().flat_map(|way| {
            Purpose::ALL.map(|purpose| format!("{way}_{}_bytes", purpose.name())).into_iter()
        });
        fixed.chain(stages).chain(compared).chain(purposes).collect()
    }

    /// Returns the figures, in seconds and bytes.
    pub(crate) fn cells(&self) -> Vec<Option<f64>> {
        let seconds = |time: Duration| Some(time.as_secs_f64());
        let of = |end: usize, figure: fn(&Spent) -> Duration| {
            self.ends.as_ref().map(|ends| figure(&ends.spent[end]).as_secs_f64())
        };
        let cut = |end: usize| self.ends.as_ref().map(|ends| ends.cut[end].as_secs_f64());
        let split = |end: usize| self.split.map(|split| split[end].as_secs_f64());
        let spent = |end: usize| self.ends.as_ref().map(|ends| ends.spent[end]);
        let fixed = [
            seconds(self.wall),
            seconds(self.cpu),
            split(0),
            split(1),
            of(0, |spent| spent.busy),
            of(1, |spent| spent.busy),
            self.ends.as_ref().map(|ends| ends.waiting.as_secs_f64()),
            cut(0),
            cut(1),
            Some(self.up as f64),
            Some(self.down as f64),
            self.literal.map(|bytes| bytes as f64),
            self.peak.map(|bytes| bytes as f64),
            self.sums.map(|sums| sums.stored as f64),
            self.sums.map(|sums| sums.by_product as f64),
            spent(0).map(|spent| spent.read as f64),
            spent(1).map(|spent| spent.read as f64),
        ];
        let stages = [0, 1].into_iter().flat_map(|end| {
            Stage::ALL.map(|stage| spent(end).map(|spent| spent.cpu(stage).as_secs_f64()))
        });
        let compared = [0, 1].into_iter().flat_map(|end| {
            let counts = spent(end).map(|spent| spent.compared);
            [
                counts.map(|counts| counts.weak as f64),
                counts.map(|counts| counts.strong as f64),
                counts.map(|counts| counts.sub_table_hits as f64),
                counts.map(|counts| counts.tagged as f64),
                counts.map(|counts| counts.gathered as f64),
            ]
        });
        let purposes = [0, 1].into_iter().flat_map(|end| {
            Purpose::ALL.map(|purpose| spent(end).map(|spent| spent.sent(purpose) as f64))
        });
        fixed.into_iter().chain(stages).chain(compared).chain(purposes).collect()
    }
}

/// Counts of compared sums: title and column, without the end.
pub(crate) const COMPARED: [(&str, &str); 5] = [
    ("weak", "weak_compared"),
    ("strong", "strong_compared"),
    ("sub-table hits", "sub_table_hits"),
    ("tagged", "tagged_chunks"),
    ("gathered", "gathered_bytes"),
];

/// Options of Deltic for a sync.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncWay {
    pub(crate) strategy: Strategy,
    pub(crate) threads: NonZeroU32,
    pub(crate) link: Option<LinkModel>,
    pub(crate) codec: LiteralCodec,
    pub(crate) block_bytes: Option<u32>,
    pub(crate) durable: bool,
}

/// Result of a sync.
pub(crate) enum SyncResult {
    Well(Box<SyncSample>),
    /// The session does not support these options.
    Refused(String),
}

impl SyncWay {
    /// Syncs `files`, which are in place.
    pub(crate) fn run(&self, files: &SyncFiles) -> Result<SyncResult> {
        let plan = self.plan(files);
        let mut troubles = Vec::new();
        let mut note = |notice: Notice| {
            if let Notice::Trouble(Trouble { message, .. }) = notice {
                troubles.push(message);
            }
        };
        let (before, memory) = (process_cpu(), PeakMemory::watch());
        let rehearsal = Rehearsal { link: self.link };
        let ended = match rehearse(&plan, rehearsal, &mut note) {
            Ok(ended) => ended,
            Err(SyncError::Interrupted) => return Err(SyncError::Interrupted.into()),
            Err(error @ (SyncError::Usage(_) | SyncError::Incompatible(_))) => {
                return Ok(SyncResult::Refused(error.to_string()));
            }
            Err(error) => return Err(error).context(self.strategy.name),
        };
        let (cpu, peak) = (process_cpu() - before, memory.rise());
        if let Some(trouble) = troubles.first() {
            bail!("{}: {trouble}", self.strategy.name);
        }
        let spent = [ended.sender, ended.receiver];
        let ends = EndTimes { spent, waiting: ended.waiting, cut: self.cut(files)? };
        Ok(SyncResult::Well(Box::new(SyncSample {
            wall: ended.outcome.elapsed,
            cpu,
            ends: Some(ends),
            split: Some(spent.map(|spent| spent.total_cpu())),
            up: ended.outcome.traffic.sent,
            down: ended.outcome.traffic.received,
            literal: Some(ended.outcome.totals.literal),
            peak,
            sums: Some(ended.outcome.sums),
        })))
    }

    fn plan(&self, files: &SyncFiles) -> Plan {
        let Self { strategy, threads, durable, block_bytes, .. } = *self;
        let (compress, compress_level) = self.codec.options();
        let is_tree = files.new.is_dir();
        let options = Options {
            times: true,
            recursive: is_tree,
            compress,
            compress_level,
            durable,
            threads: threads.get(),
            strategy,
            block_bytes,
            ..Options::default()
        };
        let destination = Destination::Local(files.dest.clone());
        // A name that ends with a slash stands for the content of the directory.
        let new = if is_tree { files.new.join("") } else { files.new.clone() };
        Plan::new(Sources::Local(vec![new]), destination, options)
    }

    /// Returns the settings of this way that a fair table holds equal.
    pub(crate) fn settings(&self) -> SyncSettings {
        let Self { strategy, threads, codec, .. } = *self;
        SyncSettings::new(strategy, threads, codec, self.block_bytes)
    }

    fn chunker(&self, new_len: u64) -> ChunkerSpec {
        let bandwidth = self.link.map(|link| link.bits_per_second);
        let strategy = self.strategy;
        let asked = self.block_bytes.map_or(strategy, |bytes| strategy.with_chunk_len(bytes));
        asked.chunker(new_len, bandwidth)
    }

    /// Measures the processor time of cutting both versions with this strategy's chunker and without sums. A session
    /// cuts and sums together, so the share of cutting is only known from this measurement. Trees are not measured.
    fn cut(&self, files: &SyncFiles) -> Result<[Duration; 2]> {
        if files.new.is_dir() {
            return Ok([Duration::ZERO; 2]);
        }
        let new_len = files.new.metadata()?.len();
        let spec = self.chunker(new_len);
        Ok([cut_alone(&files.new, spec)?, cut_alone(&files.old, spec)?])
    }
}

/// Returns this thread's processor time for cutting `path`, without reading.
fn cut_alone(path: &Path, spec: ChunkerSpec) -> Result<Duration> {
    let chunker = spec.build();
    let mut file = File::open(path).with_context(|| format!("open {}", shown(path)))?;
    let mut buffer = vec![0; SEGMENT_BYTES];
    let (mut kept, mut time) = (0, Duration::ZERO);
    loop {
        let got = fill(&mut file, &mut buffer[kept..])?;
        let at_end = if kept + got < buffer.len() { AtEnd::Yes } else { AtEnd::No };
        let start = clock(ClockId::ThreadCPUTime);
        let done = cut_all(&chunker, &buffer[..kept + got], at_end, |chunk| {
            std::hint::black_box(chunk.len());
        });
        time += clock(ClockId::ThreadCPUTime) - start;
        if at_end == AtEnd::Yes {
            return Ok(time);
        }
        buffer.copy_within(done.., 0);
        kept = buffer.len() - done;
    }
}

/// Reads until `buffer` is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read(&mut buffer[got..]).context("read back")? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

fn process_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// First names of [`SyncSample::columns`].
const FIXED: [&str; 17] = [
    "wall_s",
    "cpu_s",
    "sender_cpu_s",
    "receiver_cpu_s",
    "sender_busy_s",
    "receiver_busy_s",
    "waiting_s",
    "new_cut_cpu_s",
    "old_cut_cpu_s",
    "up_bytes",
    "down_bytes",
    "literal_bytes",
    "peak_bytes",
    "stored_sums",
    "by_product_sums",
    "sender_read_bytes",
    "receiver_read_bytes",
];
/// Bytes that are compared or cut at a time.
const SEGMENT_BYTES: usize = 1 << 20;
