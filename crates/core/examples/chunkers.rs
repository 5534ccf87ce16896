//! Benchmark of our chunkers and of other crates: GB per second of CPU time, medians of interleaved rounds.
//!
//! `cargo run --release -p deltic-core --example chunkers [MIN AVG MAX]`, in bytes.
//!
//! `cargo run --release -p deltic-core --example chunkers hot` measures only chunkers without a hash, in the L2
//! cache. *paper* is the byte-by-byte loop of the paper, compared with our portable code and our best vector
//! code.
#![allow(clippy::print_stdout, reason = "the table is what this is for")]
#![allow(clippy::disallowed_methods, reason = "text to chunk is read from files")]

#[path = "common/clock.rs"]
mod clock;
#[path = "common/random.rs"]
mod random;

use std::hint::black_box;
use std::time::Duration;

use deltic_core::chunk::{PublishedForm, SsCdc};
use deltic_core::{Algorithm, Chunker, ChunkerSpec, Isa, Sizes};
use fastcdc::{v2016, v2020};
use rustic_cdc::{Rabin64, RollingHash64};

use clock::cpu_time;
use random::random;

/// A chunker's name, and a function that counts the chunks of a file.
struct Contender {
    name: String,
    count: Count,
}

type Count = Box<dyn FnMut(&[u8]) -> usize>;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["hot"] {
        let [random, text] = [random(HOT_BYTES), text(HOT_BYTES)];
        let rare = rare_top(HOT_BYTES);
        contest(&[("random", random), ("text", text), ("rare top", rare)], HOT_PASSES, hashless());
        return;
    }
    let numbers: Vec<u32> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let (min, avg, max) = match numbers[..] {
        [min, avg, max] => (min, avg, max),
        _ => SIZES,
    };
    let sizes = Sizes::new(min, avg, max).expect("sizes rise");
    contest(&[("random", random(BYTES)), ("text", text(BYTES))], 1, contenders(sizes));
}

/// Prints a row for each contender, with a column for each input.
fn contest(inputs: &[(&str, Vec<u8>)], passes: usize, mut contenders: Vec<Contender>) {
    let len = inputs[0].1.len();
    let names: String = inputs.iter().map(|(name, _)| format!(" {name:>8}")).collect();
    println!("{:32}{names}   GB/s, mean bytes of a chunk", "");
    let mut times = vec![vec![vec![]; inputs.len()]; contenders.len()];
    let mut chunks = vec![vec![0; inputs.len()]; contenders.len()];
    for _ in 0..ROUNDS {
        for (n, contender) in contenders.iter_mut().enumerate() {
            for (m, (_, data)) in inputs.iter().enumerate() {
                let start = cpu_time();
                for _ in 0..passes {
                    chunks[n][m] = black_box((contender.count)(black_box(data)));
                }
                times[n][m].push(cpu_time() - start);
            }
        }
    }
    for ((contender, times), chunks) in contenders.iter().zip(&mut times).zip(&chunks) {
        let rate = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            (passes * len) as f64 / times[ROUNDS / 2].as_secs_f64() / 1e9
        };
        let rates: String = times.iter_mut().map(|run| format!(" {:8.2}", rate(run))).collect();
        let means: Vec<usize> = chunks.iter().map(|chunks| len / chunks).collect();
        println!("{:32}{rates}   {means:?}", contender.name);
    }
}

/// Chunkers without a hash, in forms that the other table omits.
fn hashless() -> Vec<Contender> {
    let sizes = Sizes::new(SIZES.0, SIZES.1, SIZES.2).expect("sizes rise");
    let native = |algorithm| {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let chunker =
            spec.build_as_published(PublishedForm::Native).expect("a published algorithm");
        (algorithm, counting(move |data| chunker.cut(data)))
    };
    let papers: [(Algorithm, Count); 5] = [
        native(Algorithm::Ram),
        native(Algorithm::AeMax),
        native(Algorithm::AeMin),
        (Algorithm::Maxp, counting(paper_maxp)),
        (Algorithm::Seq, counting(paper_seq)),
    ];
    let mut all = Vec::new();
    for (algorithm, count) in papers {
        all.push(Contender { name: format!("{}, paper", algorithm.name()), count });
        for isa in [Isa::SCALAR, Isa::best()] {
            let chunker = ChunkerSpec::ByContent(algorithm, sizes).build_for(isa);
            let count = counting(move |data| chunker.cut(data));
            all.push(Contender { name: format!("{}, {}", algorithm.name(), isa.name()), count });
        }
    }
    all
}

fn contenders(sizes: Sizes) -> Vec<Contender> {
    let mut all = Vec::new();
    let mut add = |name: &str, count: Count| all.push(Contender { name: name.into(), count });
    for algorithm in Algorithm::ALL {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let chunker = spec.build();
        add(algorithm.name(), counting(move |data| chunker.cut(data)));
        for isa in Isa::available() {
            let Some(stages) = SsCdc::new(&spec, isa) else { continue };
            let name = format!("{}, two stages, {}", algorithm.name(), isa.name());
            let mut lens = Vec::new();
            let count = move |data: &[u8]| {
                lens.clear();
                stages.cuts(data, &mut lens);
                lens.len()
            };
            if ["scalar", "avx2", "avx512"].contains(&isa.name()) {
                add(&name, Box::new(count));
            }
        }
    }
    add("gearhash 0.1", counting(move |data| gearhash_cut(sizes, data)));
    let mut rabin = Rabin64::new(6);
    add("rustic_cdc 0.3 Rabin64", counting(move |data| rustic_cut(&mut rabin, sizes, data)));
    let [min, avg, max] = [sizes.min(), sizes.avg(), sizes.max()].map(|len| len as usize);
    for (name, level) in
        [("level 0", v2016::Normalization::Level0), ("level 2", v2016::Normalization::Level2)]
    {
        let cut = move |data: &[u8]| {
            v2016::FastCDC::with_level(data, min, avg, max, level).cut(0, data.len()).1
        };
        add(&format!("fastcdc 5 v2016 {name}"), counting(cut));
    }
    for (name, level) in
        [("level 0", v2020::Normalization::Level0), ("level 2", v2020::Normalization::Level2)]
    {
        let (a, b) = v2020::select_masks(avg, level);
        let (gear, doubled) = v2020::get_gear_with_seed(0);
        let cut = move |data: &[u8]| {
            v2020::cut_gear(data, min, avg, max, a, b, a << 1, b << 1, &gear, &doubled).1
        };
        add(&format!("fastcdc 5 v2020 {name}"), counting(cut));
    }
    all
}

/// Returns a function that counts the chunks of a file.
fn counting(mut cut: impl FnMut(&[u8]) -> usize + 'static) -> Count {
    Box::new(move |mut data| {
        let mut chunks = 0;
        while !data.is_empty() {
            data = &data[cut(data)..];
            chunks += 1;
        }
        chunks
    })
}

/// Vectorised Gear, warmed up like ours. Its mask cuts slightly less often.
fn gearhash_cut(sizes: Sizes, data: &[u8]) -> usize {
    let data = &data[..data.len().min(sizes.max() as usize)];
    let min = sizes.min() as usize;
    if data.len() <= min {
        return data.len();
    }
    let mut hasher = gearhash::Hasher::default();
    hasher.update(&data[min - 65..min - 1]);
    let bits = (sizes.avg() - sizes.min()).max(1).next_power_of_two().trailing_zeros();
    let mask = u64::MAX << (64 - bits);
    hasher.next_match(&data[min - 1..], mask).map_or(data.len(), |n| min - 1 + n)
}

fn rustic_cut(rabin: &mut Rabin64, sizes: Sizes, data: &[u8]) -> usize {
    let data = &data[..data.len().min(sizes.max() as usize)];
    let min = sizes.min() as usize;
    if data.len() <= min {
        return data.len();
    }
    let limit = (1 << 53) / u64::from(sizes.avg() - sizes.min()).max(1);
    rabin.reset_and_prefill_window(&mut data[min - 64..].iter().copied());
    let end = data[min - 1..].iter().position(|byte| {
        rabin.slide(*byte);
        rabin.hash < limit
    });
    end.map_or(data.len(), |n| min + n)
}

fn paper_maxp(data: &[u8]) -> usize {
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

fn paper_seq(data: &[u8]) -> usize {
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

/// The source of this crate, repeated.
fn text(len: usize) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/chunk");
    let files = std::fs::read_dir(folder).expect("the source is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let source = paths.iter().flat_map(|path| std::fs::read(path).expect("source is readable"));
    let source: Vec<u8> = source.collect();
    source.iter().copied().cycle().take(len).collect()
}

/// Bytes below 200 with a rare 250, so that no search ends early.
fn rare_top(len: usize) -> Vec<u8> {
    let mut bytes = random(len);
    bytes.iter_mut().for_each(|byte| *byte %= 200);
    bytes.iter_mut().step_by(6007).for_each(|byte| *byte = 250);
    bytes
}

/// Minimum, average and maximum chunk lengths in bytes.
const SIZES: (u32, u32, u32) = (2048, 8192, 32_768);
const MIN: usize = SIZES.0 as usize;
const AVG: usize = SIZES.1 as usize;
const MAX: usize = SIZES.2 as usize;
const BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;
/// Number of bytes that fit in the L2 cache, and how often a round cuts them.
const HOT_BYTES: usize = 256 << 10;
const HOT_PASSES: usize = 50;
