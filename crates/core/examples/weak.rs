//! Benchmark of weak sums: distribution and collisions (NetSync §5.2), and speed of the sums and of the rolling
//! search.
//!
//! `cargo run --release -p deltic-core --example weak [FILE...]`
//!
//! Different chunks (by BLAKE3) are counted in 1024 bins of the range of a sum. One column gives the strictest
//! level at which a chi-square test accepts a uniform distribution, from 10 % down. A pair is two different
//! chunks with equal sums. *records* are pages with the same records in different orders, as databases may
//! write them.
#![allow(clippy::print_stdout, reason = "the table is what this is for")]
#![allow(clippy::disallowed_methods, reason = "chunks of real data are read from files")]

#[path = "common/clock.rs"]
mod clock;
#[path = "../../../bench/src/papers/uniformity.rs"]
mod uniformity;

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::chunk::FixedLen;
use deltic_core::{
    Algorithm, AtEnd, BlockSpec, BlockSums, Fingerprint, Locality, RollingKind, Searcher,
    StrongKind, WeakKind,
};

use clock::cpu_time;
use uniformity::{chi_square, chunks, verdict};

fn main() {
    println!(
        "distribution: chi-square of 1024 bins, accepted at; pairs of chunks with equal sums, expected"
    );
    let random = random(1, RANDOM_BYTES);
    for avg in [1024, 8192] {
        judge(&format!("random, {avg}"), chunks(&random, Algorithm::FastCdcNc, avg));
    }
    let records = records();
    judge("records", records.chunks(PAGE_BYTES).collect());
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path).expect("file is readable");
        for avg in [1024, 8192] {
            judge(&format!("{path}, {avg}"), chunks(&data, Algorithm::FastCdcNc, avg));
        }
    }
    speeds(&random[..HOT_BYTES]);
    searches(&random[..SEARCH_BYTES]);
}

/// Pages that hold the same records, each page in another order.
fn records() -> Vec<u8> {
    let page = random(2, PAGE_BYTES);
    let mut records: Vec<&[u8]> = page.chunks(RECORD_BYTES).collect();
    let mut dice = random(3, PAGES * records.len()).into_iter();
    let mut pages = Vec::new();
    for _ in 0..PAGES {
        for last in (1..records.len()).rev() {
            let other = usize::from(dice.next().expect("there is one for each")) % (last + 1);
            records.swap(last, other);
        }
        records.iter().for_each(|record| pages.extend_from_slice(record));
    }
    pages
}

/// Prints a row for each weak sum.
fn judge(name: &str, chunks: Vec<&[u8]>) {
    let mut seen = HashSet::new();
    let distinct: Vec<&[u8]> =
        chunks.into_iter().filter(|chunk| seen.insert(Fingerprint::of(chunk))).collect();
    let n = distinct.len() as f64;
    let expected_pairs = n * (n - 1.0) / 2.0 / 2f64.powi(WeakKind::BITS as i32);
    println!("\n{name}: {} chunks", distinct.len());
    for kind in WeakKind::ALL {
        let sums: Vec<u32> = distinct.iter().map(|chunk| kind.of(chunk)).collect();
        let statistic = chi_square(&sums);
        let (verdict, pairs) = (verdict(statistic), pairs(&sums));
        println!(
            "  {:12} {statistic:14.0} {verdict:>9} {pairs:12} {expected_pairs:10.1}",
            kind.name()
        );
    }
}

fn pairs(sums: &[u32]) -> u64 {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for sum in sums {
        *counts.entry(*sum).or_default() += 1;
    }
    counts.values().map(|count| count * (count - 1) / 2).sum()
}

/// Prints GB per second of CPU time, for data in the CPU cache.
fn speeds(data: &[u8]) {
    let lens = [512, 2048, 8192, 32_768];
    println!("\nspeed in cache, GB/s    {}", lens.map(|len| format!("{len:>9}")).concat());
    let kinds = WeakKind::ALL.map(|kind| (kind.name(), Sum::Weak(kind))).into_iter();
    let kinds: Vec<(&str, Sum)> =
        kinds.chain(StrongKind::ALL.map(|kind| (kind.name(), Sum::Strong(kind)))).collect();
    let mut times = vec![vec![vec![]; lens.len()]; kinds.len()];
    for _ in 0..ROUNDS {
        for ((_, kind), times) in kinds.iter().zip(&mut times) {
            for (len, times) in lens.iter().zip(times) {
                times.push(time(|| data.chunks(*len).for_each(|chunk| kind.take(chunk))));
            }
        }
    }
    for ((name, _), times) in kinds.iter().zip(&mut times) {
        let rates: String =
            times.iter_mut().map(|times| format!("{:9.2}", rate(data.len(), times))).collect();
        println!("  {name:22}{rates}");
    }
}

#[derive(Clone, Copy)]
enum Sum {
    Weak(WeakKind),
    Strong(StrongKind),
}

impl Sum {
    fn take(self, chunk: &[u8]) {
        match self {
            Self::Weak(kind) => {
                black_box(kind.of(black_box(chunk)));
            }
            Self::Strong(kind) => {
                black_box(kind.sum_of(None, black_box(chunk)));
            }
        }
    }
}

/// Prints the speed of a search for old blocks, in GB of the new version per second of CPU time.
fn searches(old: &[u8]) {
    let other = random(9, old.len());
    let moved = [&other[..100], &old[..old.len() - 100]].concat();
    println!(
        "\nsearch, GB/s                        same     moved unrelated  ns a block   false alarms"
    );
    for (weak, strong) in [
        (RollingKind::Adler, StrongKind::Md5),
        (RollingKind::Adler, StrongKind::SipHash),
        (RollingKind::Adler, StrongKind::Blake3),
        (RollingKind::Crc32c, StrongKind::Sha256),
    ] {
        let spec =
            BlockSpec { len: FixedLen::new(8192).expect("in range"), weak, strong, key: None };
        let mut sums = BlockSums::new(spec);
        sums.sum(old, AtEnd::Yes).expect("there are few blocks");
        let sums = Arc::new(sums);
        let name = format!("{} {}", weak.weak().name(), strong.name());
        let (mut rates, mut alarms, mut tables) = (String::new(), Vec::new(), Vec::new());
        for new in [old, &moved, &other] {
            let mut times = Vec::new();
            for _ in 0..3 {
                let mut searcher = None;
                tables.push(time(|| {
                    searcher = Some(Searcher::new(Arc::clone(&sums), Locality::Neighbour));
                }));
                let searcher = searcher.as_mut().expect("the searcher was created");
                times.push(time(|| {
                    searcher.search(new, AtEnd::Yes, |op| {
                        black_box(op);
                    });
                }));
                alarms.push(searcher.counts().false_alarms);
            }
            rates += &format!("{:10.2}", rate(new.len(), &mut times));
        }
        tables.sort_unstable();
        let table = tables[tables.len() / 2].as_secs_f64() * 1e9 / f64::from(sums.count());
        println!("  {name:28}{rates}{table:12.0}   {:?}", [alarms[0], alarms[3], alarms[6]]);
    }
}

fn rate(bytes: usize, times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    bytes as f64 / times[times.len() / 2].as_secs_f64() / 1e9
}

fn time(run: impl FnOnce()) -> Duration {
    let start = cpu_time();
    run();
    cpu_time() - start
}

/// `len` bytes of SplitMix64.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let word = |n: u64| {
        let state = (seed << 40).wrapping_add(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..len as u64 / 8 + 1).flat_map(word).take(len).collect()
}

const RANDOM_BYTES: usize = 512 << 20;
const SEARCH_BYTES: usize = 64 << 20;
/// Larger than the L1 cache, smaller than L2.
const HOT_BYTES: usize = 256 << 10;
const PAGES: usize = 100_000;
const PAGE_BYTES: usize = 1024;
const RECORD_BYTES: usize = 32;
const ROUNDS: usize = 51;
