//! How fast chunkers without hashes are, with every instruction set: `hashless [hot|cold] [algorithms] [text.file]`.
//!
//! Prints GB/s, medians of runs that take turns, beside a plain sum over the same bytes. Hot is a buffer that fits the
//! second-level cache; cold is one that fits none. *Plain* is the algorithm as its paper writes it, byte by byte. Without
//! a file, words made up stand in for text.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures"
)]

use std::hint::black_box;
use std::time::Instant;

use deltic_core::{Algorithm, Chunker, ChunkerSpec, Isa, Sizes};

const HOT_BYTES: usize = 256 << 10;
const COLD_BYTES: usize = 1 << 30;
const MIN: usize = 2048;
const AVG: usize = 8192;
const MAX: usize = 32_768;
const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Ram, Algorithm::AeMax, Algorithm::AeMin, Algorithm::Maxp, Algorithm::Seq];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word| args.iter().any(|arg| arg == word);
    let chosen: Vec<Algorithm> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let algorithms = if chosen.is_empty() { &ALGORITHMS[..] } else { &chosen };
    let file = args.iter().find(|arg| arg.contains(['.', '/']));
    let text = file.map_or_else(words, |path| std::fs::read(path).expect("read the text"));
    let kinds = [("random", random()), ("text", text), ("rare top", rare_top())];
    for (kind, data) in kinds {
        if !has("cold") {
            let data: Vec<u8> = data.iter().copied().cycle().take(HOT_BYTES).collect();
            Contest { data: &data, runs: 21, passes: 200 }
                .print(&format!("hot, {kind}"), algorithms);
        }
        if !has("hot") {
            let data: Vec<u8> = data.iter().copied().cycle().take(COLD_BYTES).collect();
            Contest { data: &data, runs: 5, passes: 1 }.print(&format!("cold, {kind}"), algorithms);
        }
    }
}

/// One table: a row for each algorithm, a column for each way to run it.
struct Contest<'a> {
    data: &'a [u8],
    runs: usize,
    passes: usize,
}

type Cut = Box<dyn Fn(&[u8]) -> usize>;

impl Contest<'_> {
    fn print(&self, title: &str, algorithms: &[Algorithm]) {
        let cuts: Vec<Vec<Cut>> = algorithms.iter().map(|algorithm| cuts(*algorithm)).collect();
        let mut sums = Vec::new();
        let mut speeds: Vec<Vec<Vec<f64>>> =
            cuts.iter().map(|row| row.iter().map(|_| Vec::new()).collect()).collect();
        for _ in 0..self.runs {
            sums.push(self.speed(self.passes, sum));
            for (cuts, speeds) in cuts.iter().zip(&mut speeds) {
                for (n, (cut, speeds)) in cuts.iter().zip(speeds).enumerate() {
                    // The two slow ones need not run as often.
                    let passes = if n < 2 { self.passes.div_ceil(16) } else { self.passes };
                    speeds.push(self.speed(passes, |data| count(cut, data)));
                }
            }
        }
        println!("{title}: sum {:.1} GB/s", median(&mut sums));
        let names: String =
            Isa::available().iter().map(|isa| format!("{:>8}", isa.name())).collect();
        println!("{:10}{:>8}{:>8}{names}", "", "mean", "plain");
        for ((algorithm, cuts), speeds) in algorithms.iter().zip(&cuts).zip(&mut speeds) {
            let counts: Vec<u64> = cuts.iter().map(|cut| count(cut, self.data)).collect();
            assert!(counts.iter().all(|chunks| *chunks == counts[0]), "{algorithm:?}: {counts:?}");
            let mean = self.data.len() as u64 / counts[0];
            let speeds: String =
                speeds.iter_mut().map(|run| format!("{:8.2}", median(run))).collect();
            println!("{:10}{mean:8}{speeds}", algorithm.name());
        }
    }

    fn speed(&self, passes: usize, work: impl Fn(&[u8]) -> u64) -> f64 {
        let start = Instant::now();
        for _ in 0..passes {
            black_box(work(black_box(self.data)));
        }
        (passes * self.data.len()) as f64 / start.elapsed().as_secs_f64() / 1e9
    }
}

fn median(speeds: &mut [f64]) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

/// As its paper has it, and with each instruction set.
fn cuts(algorithm: Algorithm) -> Vec<Cut> {
    let sizes = Sizes::new(MIN as u32, AVG as u32, MAX as u32).expect("sizes rise");
    let spec = ChunkerSpec::ByContent(algorithm, sizes);
    let plain: Cut = match algorithm {
        Algorithm::Ram => Box::new(plain_ram),
        Algorithm::AeMax => Box::new(|data| plain_ae(data, |a, b| a > b)),
        Algorithm::AeMin => Box::new(|data| plain_ae(data, |a, b| a < b)),
        Algorithm::Maxp => Box::new(plain_maxp),
        Algorithm::Seq => Box::new(plain_seq),
        _ => Box::new(move |data| spec.build_for(Isa::SCALAR).cut(data)),
    };
    let mut cuts = vec![plain];
    for isa in Isa::available() {
        let chunker = spec.build_for(isa);
        cuts.push(Box::new(move |data| chunker.cut(data)));
    }
    cuts
}

fn count(cut: &Cut, mut data: &[u8]) -> u64 {
    let mut chunks = 0;
    while !data.is_empty() {
        data = &data[cut(data)..];
        chunks += 1;
    }
    chunks
}

/// What any reader of the bytes must at least do.
fn sum(data: &[u8]) -> u64 {
    let (blocks, _) = data.as_chunks::<128>();
    let mut sums = [0u64; 16];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |total, sum| total.wrapping_add(*sum))
}

fn plain_ram(data: &[u8]) -> usize {
    let data = &data[..data.len().min(MAX)];
    let mut top = 0;
    for (at, byte) in data.iter().enumerate() {
        if *byte >= top {
            if at >= AVG - 256 {
                return at + 1;
            }
            top = *byte;
        }
    }
    data.len()
}

fn plain_ae(data: &[u8], exceeds: fn(u8, u8) -> bool) -> usize {
    let data = &data[..data.len().min(MAX)];
    let (mut top, mut end) = (data[0], AVG - 256);
    for (at, byte) in data.iter().enumerate() {
        if exceeds(*byte, top) {
            (top, end) = (*byte, at + AVG - 256);
        } else if at == end {
            return at + 1;
        }
    }
    data.len()
}

fn plain_maxp(data: &[u8]) -> usize {
    const WINDOW: usize = 846;
    let data = &data[..data.len().min(MAX)];
    let (mut peak, mut from) = (MIN - 1, MIN - 1);
    for at in MIN..data.len() {
        if at == from || data[at] >= data[peak] {
            peak = at;
        } else if at == peak + WINDOW {
            if data[peak - WINDOW..peak].iter().all(|byte| *byte <= data[peak]) {
                return peak + 1;
            }
            (peak, from) = (at, at + 1);
        }
    }
    data.len()
}

fn plain_seq(data: &[u8]) -> usize {
    const SKIP: usize = (AVG - MIN - 870) * 100 / 825;
    let data = &data[..data.len().min(MAX)];
    let (mut at, mut ups, mut downs) = (MIN, 0, 0);
    while at < data.len() {
        let (before, here) = (data[at - 1], data[at]);
        at += 1;
        if here > before {
            ups += 1;
            if ups == 5 {
                return at;
            }
        } else if here < before {
            (ups, downs) = (0, downs + 1);
            if downs == 50 {
                (at, downs) = (at + SKIP, 0);
            }
        }
    }
    data.len()
}

fn random() -> Vec<u8> {
    let mut state = 1u64;
    let bytes = (0..HOT_BYTES).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    bytes.collect()
}

/// Bytes below 200, and one of 250 in a while: no search ends early.
fn rare_top() -> Vec<u8> {
    let mut bytes = random();
    bytes.iter_mut().for_each(|byte| *byte %= 200);
    bytes.iter_mut().step_by(6007).for_each(|byte| *byte = 250);
    bytes
}

fn words() -> Vec<u8> {
    let words = ["let ", "mut ", "fn ", "(self) ", "{\n", "    ", "}\n", "// chunk ", "n += 1;\n"];
    random().iter().flat_map(|byte| words[usize::from(*byte) % words.len()].bytes()).collect()
}
