//! Benchmark of chunking and summing one file on threads: GB per second, and the cost of the sequential part
//! (docs/decisions/0015).
//!
//! `cargo run --release -p deltic-core --example parallel [-- MiB [FOLDER]]`: random bytes, and the files of a
//! folder. The methods are measured in turn, many times; the medians are printed.
//!
//! *wall* is elapsed time, meaningful only on an idle machine with enough cores. *model* is an estimate for
//! other machines: CPU time of the jobs divided by the number of threads, plus CPU time of the last stage. The
//! model shows the cost of the last stage, but not contention for memory and caches.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures has threads, a clock, files and an output"
)]

#[path = "common/clock.rs"]
mod clock;
#[path = "common/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use deltic_core::chunk::{
    FileSegments, JudgeScope, MergeRequest, SegmentChunks, SegmentStitcher, SsCdc, TwoStage,
    cut_all,
};
use deltic_core::{Algorithm, AtEnd, Chunk, ChunkerSpec, Crc32c, Isa, Sizes};

use clock::cpu_time;
use random::random;

/// Result and cost of one method.
struct Outcome {
    chunks: usize,
    /// A checksum of all sums.
    check: u32,
    spent: Spent,
    /// Number of bytes summed more than once.
    again: u64,
    /// Number of sequential reads in the last stage.
    seams: usize,
}

/// CPU time of one run.
#[derive(Clone, Copy, Default)]
struct Spent {
    /// Work that is shared by threads.
    jobs: Duration,
    /// Work of the last stage, on one thread.
    joining: Duration,
}

/// Computes a sum of a chunk, and a few bits of this sum for the checksum.
type Sum<T> = (fn(&[u8]) -> T, fn(&T) -> u32);

type Way<'a> = Box<dyn Fn(&[u8], usize) -> Outcome + 'a>;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let len = args.first().map_or(512, |mib| mib.parse().expect("MiB")) << 20;
    let folder = args.get(1).map_or("/usr/share", String::as_str);
    for (name, data) in [("random", random(len)), (folder, files(Path::new(folder), len))] {
        println!("\n{name}, {} MiB", data.len() >> 20);
        contest(&data, &families(data.len() as u64));
    }
}

/// Groups of methods that find the same chunks and sums. The first method of a group is one pass.
fn families<'a>(file_len: u64) -> Vec<Vec<(String, Way<'a>)>> {
    let sieve = ChunkerSpec::for_len(file_len);
    let mut all = vec![family(sieve, "sieve + BLAKE3", Chunk::of, |chunk| {
        u32::from_le_bytes(*chunk.fingerprint.as_bytes().first_chunk().expect("four bytes"))
    })];
    let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).expect("sizes rise");
    for algorithm in [Algorithm::Crc, Algorithm::Gear] {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let name = format!("{} + CRC-32C", algorithm.name());
        let mut ways = family(spec, &name, summed, |(_, sum)| sum.get());
        let stages = TwoStage::new(&spec).expect("one criterion");
        for (judge, which) in [(JudgeScope::Every, "all ends"), (JudgeScope::AsCut, "as cut")] {
            ways.push((
                format!("{name}, ParaSync, {which}"),
                Box::new(move |data, n| parasync(stages, data, n, judge)),
            ));
        }
        for isa in [Isa::SCALAR, Isa::best()] {
            let stages = SsCdc::new(&spec, isa).expect("one criterion");
            let name = format!("{name}, SS-CDC, {}", isa.name());
            ways.push((name, Box::new(move |data, n| ss_cdc(stages, data, n))));
        }
        all.push(ways);
    }
    all
}

/// Compares one pass with stitched segments.
fn family<'a, T: Send + 'a>(
    spec: ChunkerSpec,
    name: &str,
    sum: fn(&[u8]) -> T,
    check: fn(&T) -> u32,
) -> Vec<(String, Way<'a>)> {
    let mut ways: Vec<(String, Way<'a>)> = vec![(
        format!("{name}{ONE_PASS}"),
        Box::new(move |data, _| {
            let (start, mut sums) = (cpu_time(), Vec::new());
            cut_all(&spec.build(), data, AtEnd::Yes, |chunk| sums.push(sum(chunk)));
            let spent = Spent { joining: cpu_time() - start, ..Spent::default() };
            outcome(sums.iter().map(check), spent, 0, 0)
        }),
    )];
    for mib in [1, 4] {
        let way: Way<'a> = Box::new(move |data, n| stitch(spec, data, n, mib << 20, (sum, check)));
        ways.push((format!("{name}, stitch {mib} MiB"), way));
    }
    ways
}

fn stitch<T: Send>(
    spec: ChunkerSpec,
    data: &[u8],
    threads: usize,
    segment_len: u64,
    (sum, check): Sum<T>,
) -> Outcome {
    let chunker = spec.build();
    let segments = FileSegments::new(&spec, data.len() as u64, segment_len);
    let jobs: Vec<_> = segments.iter().collect();
    let (mut stitch, mut sums) = (SegmentStitcher::new(segments), Vec::new());
    let (mut seams, mut cut) = (0, 0);
    let spent = in_order(
        threads,
        &jobs,
        |job| job.cut(&chunker, &data[job.own.start as usize..job.read_end as usize], sum),
        |run: SegmentChunks<T>| {
            cut += run.end() - run.start();
            sums.extend(stitch.push(run));
            while let Some(seam) = stitch.seam() {
                let bytes = &data[seam.own.start as usize..seam.read_end as usize];
                let run = seam.cut(&chunker, bytes, sum);
                cut += run.end() - run.start();
                seams += 1;
                sums.extend(stitch.fill_seam(run));
            }
        },
    );
    outcome(sums.iter().map(check), spent, cut - data.len() as u64, seams)
}

fn parasync(stages: TwoStage, data: &[u8], threads: usize, judge: JudgeScope) -> Outcome {
    let (mut merge, mut sums, mut again, mut seams) = (stages.merge(), Vec::new(), 0, 0);
    let sub_chunks = |range: &Range<u64>, judge| {
        let sums = (Crc32c::of, |_: &[u8]| None::<()>);
        stages.sub_chunks(range, bytes_of(data, &TwoStage::read(range)), judge, sums)
    };
    let spent = in_order(
        threads,
        &ranges(data.len()),
        |range| sub_chunks(range, judge),
        |found| {
            sums.extend(merge.push(found));
            while let Some(ask) = merge.request() {
                seams += 1;
                let (MergeRequest::Sum(range) | MergeRequest::Judge(range)) = &ask;
                again += range.end - range.start;
                sums.extend(match &ask {
                    MergeRequest::Sum(front) => merge.split(Crc32c::of(bytes_of(data, front))),
                    MergeRequest::Judge(rest) => merge.judge(sub_chunks(rest, JudgeScope::Every)),
                });
            }
        },
    );
    sums.extend(merge.finish());
    outcome(sums.iter().map(|chunk| chunk.sum.get()), spent, again, seams)
}

/// Chunks as pdsync does (ParaSync §2.3): sums are computed after all boundaries are known.
fn ss_cdc(stages: SsCdc, data: &[u8], threads: usize) -> Outcome {
    let mut all = Vec::new();
    let find =
        |range: &Range<u64>| stages.boundaries(range, bytes_of(data, &TwoStage::read(range)));
    let mut spent = in_order(threads, &ranges(data.len()), find, |bits| all.push(bits));
    let start = cpu_time();
    let (mut walk, mut lens, mut rest) = (stages.walk(), Vec::new(), data);
    all.iter().for_each(|bits| walk.take(bits, &mut lens));
    lens.extend(walk.finish());
    let mut sums = Vec::new();
    for len in lens {
        let (chunk, after) = rest.split_at(len as usize);
        sums.push(summed(chunk).1.get());
        rest = after;
    }
    spent.joining += cpu_time() - start;
    outcome(sums.into_iter(), spent, 0, 0)
}

/// Runs all jobs on threads. Passes their results to `take` in order.
fn in_order<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    run: impl Fn(&J) -> R + Sync,
    mut take: impl FnMut(R),
) -> Spent {
    let timed = |job| {
        let start = cpu_time();
        (run(job), cpu_time() - start)
    };
    let mut spent = Spent::default();
    let mut take = |(result, time)| {
        let start = cpu_time();
        take(result);
        spent.jobs += time;
        spent.joining += cpu_time() - start;
    };
    let (next, timed) = (&AtomicUsize::new(0), &timed);
    let (send, results) = mpsc::sync_channel(2 * threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let send = send.clone();
            scope.spawn(move || {
                while let Some((n, job)) = numbered(jobs, next.fetch_add(1, Ordering::Relaxed)) {
                    send.send((n, timed(job))).expect("results are taken until the end");
                }
            });
        }
        drop(send);
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for (n, result) in results {
            early.insert(n, result);
            while let Some(result) = early.remove(&expected) {
                take(result);
                expected += 1;
            }
        }
    });
    spent
}

fn numbered<J>(jobs: &[J], n: usize) -> Option<(usize, &J)> {
    jobs.get(n).map(|job| (n, job))
}

fn summed(chunk: &[u8]) -> (u32, Crc32c) {
    (chunk.len() as u32, Crc32c::of(chunk))
}

fn ranges(len: usize) -> Vec<Range<u64>> {
    let (len, step) = (len as u64, 1 << 20);
    (0..len.div_ceil(step)).map(|n| n * step..len.min((n + 1) * step)).collect()
}

fn bytes_of<'a>(data: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    &data[range.start as usize..range.end as usize]
}

fn outcome(
    sums: impl ExactSizeIterator<Item = u32>,
    spent: Spent,
    again: u64,
    seams: usize,
) -> Outcome {
    let chunks = sums.len();
    let check = sums.fold(0u32, |check, sum| check.rotate_left(1) ^ sum);
    Outcome { chunks, check, spent, again, seams }
}

/// Prints a row for each method.
fn contest(data: &[u8], families: &[Vec<(String, Way<'_>)>]) {
    let heads: String = THREADS.iter().map(|n| format!("{:>8}", format!("{n} thr."))).collect();
    println!("{:41}{heads} wall{heads} model   2 by 1: wall  model   last   again  seams", "GB/s");
    for ways in families {
        let mut runs: Vec<[Vec<Row>; THREADS.len()]> =
            ways.iter().map(|_| Default::default()).collect();
        let mut first = None;
        for _ in 0..ROUNDS {
            for ((name, way), runs) in ways.iter().zip(&mut runs) {
                // One pass takes one thread.
                let most = if name.ends_with(ONE_PASS) { 1 } else { THREADS.len() };
                for (threads, runs) in THREADS.iter().zip(runs).take(most) {
                    let start = Instant::now();
                    let outcome = black_box(way(black_box(data), *threads));
                    let wall = start.elapsed().as_secs_f64();
                    let found = (outcome.chunks, outcome.check);
                    assert_eq!(
                        *first.get_or_insert(found),
                        found,
                        "{name} finds what one pass does"
                    );
                    runs.push(Row::new(wall, *threads, &outcome));
                }
            }
        }
        for ((name, _), runs) in ways.iter().zip(&runs) {
            print_row(name, runs, data.len() as f64);
        }
    }
}

/// Figures of one run.
struct Row {
    wall: f64,
    model: f64,
    /// Share of the last stage in `model`.
    last: f64,
    again: u64,
    seams: usize,
}

impl Row {
    fn new(wall: f64, threads: usize, outcome: &Outcome) -> Self {
        let Spent { jobs, joining } = outcome.spent;
        let model = (jobs / threads as u32 + joining).as_secs_f64();
        let last = joining.as_secs_f64() / model;
        Self { wall, model, last, again: outcome.again, seams: outcome.seams }
    }
}

fn print_row(name: &str, runs: &[Vec<Row>; THREADS.len()], len: f64) {
    let rates = |of: fn(&Row) -> f64| -> String {
        let rate = |runs: &Vec<Row>| format!("{:8.2}", len / median(runs, of) / 1e9);
        runs.iter().map(|runs| if runs.is_empty() { " ".repeat(8) } else { rate(runs) }).collect()
    };
    let wall = rates(|row| row.wall);
    let [one, two, ..] = runs;
    if two.is_empty() {
        println!("{name:41}{wall}");
        return;
    }
    let gain = |of: fn(&Row) -> f64| median(one, of) / median(two, of);
    let (model, gains) = (rates(|row| row.model), [gain(|row| row.wall), gain(|row| row.model)]);
    let (last, again) = (100.0 * median(two, |row| row.last), 100.0 * two[0].again as f64 / len);
    println!(
        "{name:41}{wall}     {model}         {:10.2}{:7.2}{last:5.1} %{again:6.2} %{:7}",
        gains[0], gains[1], two[0].seams
    );
}

fn median(runs: &[Row], of: fn(&Row) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The files below `folder`, concatenated and cut to `len` bytes.
fn files(folder: &Path, len: usize) -> Vec<u8> {
    let (mut folders, mut data) = (vec![folder.to_path_buf()], Vec::with_capacity(len));
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.into_iter().filter(|path| !path.is_symlink()) {
            if path.is_dir() {
                folders.push(path);
            } else if data.len() < len {
                data.extend(std::fs::read(path).unwrap_or_default());
            }
        }
    }
    data.truncate(len);
    data
}

const ONE_PASS: &str = ", one pass";
const ROUNDS: usize = 5;
const THREADS: [usize; 3] = [1, 2, 8];
