//! How fast chunkers without hashes are, with every instruction set: `hashless [hot|cold] [algorithms] [text.file]`.
//!
//! Prints GB/s, medians of runs that take turns, beside a plain sum over the same bytes. Hot is a buffer that fits the
//! second-level cache; cold is one that fits none. Without a text file, words made up stand in for text.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures")]

use std::hint::black_box;
use std::time::Instant;

use deltic_core::{Algorithm, Chunker, ChunkerSpec, Isa, Sizes};

const HOT_BYTES: usize = 256 << 10;
const COLD_BYTES: usize = 1 << 30;
const SIZES: (u32, u32, u32) = (2048, 8192, 32_768);
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ram,
    Algorithm::AeMax,
    Algorithm::AeMin,
    Algorithm::Maxp,
    Algorithm::Seq,
    Algorithm::Sieve,
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wants = |word| {
        !args.iter().any(|arg| arg == "hot" || arg == "cold") || args.iter().any(|arg| arg == word)
    };
    let chosen: Vec<Algorithm> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let algorithms = if chosen.is_empty() { &ALGORITHMS[..] } else { &chosen };
    let file = args.iter().find(|arg| arg.contains(['.', '/']));
    let text = file.map_or_else(words, |path| std::fs::read(path).expect("read the text"));
    let kinds = [
        ("random", random()),
        ("text", text.iter().copied().cycle().take(HOT_BYTES).collect()),
        ("rare top", rare_top()),
    ];
    for (kind, data) in kinds {
        if wants("hot") {
            measure(&format!("hot, {kind}"), &data, algorithms, (15, 400));
        }
        if wants("cold") {
            let data: Vec<u8> = data.iter().copied().cycle().take(COLD_BYTES).collect();
            measure(&format!("cold, {kind}"), &data, algorithms, (7, 1));
        }
    }
}

/// Prints a table: a row for each algorithm, a column for each instruction set.
fn measure(title: &str, data: &[u8], algorithms: &[Algorithm], (runs, passes): (usize, usize)) {
    let sizes = Sizes::new(SIZES.0, SIZES.1, SIZES.2).expect("sizes rise");
    let isas = Isa::available();
    let mut contests: Vec<(Option<Algorithm>, Isa, Vec<f64>)> = vec![(None, Isa::SCALAR, vec![])];
    for algorithm in algorithms {
        contests.extend(isas.iter().map(|isa| (Some(*algorithm), *isa, vec![])));
    }
    for _ in 0..runs {
        for (algorithm, isa, speeds) in &mut contests {
            let chunker = algorithm.map(|name| ChunkerSpec::ByContent(name, sizes).build_for(*isa));
            // The slow ones need not be run as often.
            let passes = if *isa == Isa::SCALAR && algorithm.is_some() {
                passes.div_ceil(8)
            } else {
                passes
            };
            let start = Instant::now();
            for _ in 0..passes {
                match &chunker {
                    Some(chunker) => black_box(count(chunker, black_box(data))),
                    None => black_box(sum(black_box(data))) as usize,
                };
            }
            speeds.push((passes * data.len()) as f64 / start.elapsed().as_secs_f64() / 1e9);
        }
    }
    let median = |speeds: &mut Vec<f64>| {
        speeds.sort_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    };
    println!("{title}: sum {:.1} GB/s", median(&mut contests[0].2));
    let header: String = isas.iter().map(|isa| format!("{:>9}", isa.name())).collect();
    println!("{:10}{:>8}{header}", "", "mean");
    for row in contests[1..].chunks_mut(isas.len()) {
        let name = row[0].0.map_or("", Algorithm::name);
        let speeds: String =
            row.iter_mut().map(|run| format!("{:9.2}", median(&mut run.2))).collect();
        let spec = row[0].0.map(|name| ChunkerSpec::ByContent(name, sizes));
        let sample = &data[..data.len().min(HOT_BYTES)];
        let mean = spec.map_or(0, |spec| sample.len() / count(&spec.build(), sample));
        println!("{name:10}{mean:8}{speeds}");
    }
}

fn count(chunker: &impl Chunker, mut data: &[u8]) -> usize {
    let mut chunks = 0;
    while !data.is_empty() {
        data = &data[chunker.cut(data)..];
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
    let rare = |n: usize, byte: u8| if (n * 2_654_435_761) % 6007 == 0 { 250 } else { byte % 200 };
    random().iter().enumerate().map(|(n, byte)| rare(n, *byte)).collect()
}

fn words() -> Vec<u8> {
    let words = [
        "let ",
        "mut ",
        "fn ",
        "(self) ",
        "{\n",
        "    ",
        "}\n",
        "// chunk ",
        "return ",
        "n += 1;\n",
    ];
    random().iter().flat_map(|byte| words[usize::from(*byte) % words.len()].bytes()).collect()
}
