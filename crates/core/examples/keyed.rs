//! Benchmark of the keyed sum compared with BLAKE3 and CRC-32C (docs/decisions/0014).
//!
//! `cargo run --release -p deltic-core --example keyed [-- MiB of the cold run]`. The columns of a row are
//! measured in turn, many times; the medians are printed. Hot pieces are consecutive parts of 256 KiB, at odd
//! offsets.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures has a clock, an argument and an output"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use deltic_core::keyed::{CarrylessEngine, Key, KeyedSum};
use deltic_core::{Crc32c, Fingerprint};

type Sum = Box<dyn Fn(&[u8])>;

fn main() {
    let cold_mib: usize = std::env::args().nth(1).map_or(512, |mib| mib.parse().expect("MiB"));
    let rivals = rivals();
    let data: Vec<u8> = (0..cold_mib << 20).map(|n| (n % 251) as u8).collect();

    println!("GB/s hot            {}", names(&rivals));
    for len in PIECES {
        let hot = &data[OFFSET..OFFSET + HOT_BYTES];
        let times = medians(&rivals, 51, |sum| (0..8).for_each(|_| pieces(hot, len, sum)));
        println!("{:>9} bytes     {}", len, gigabytes_a_second(&times, 8 * HOT_BYTES / len * len));
    }
    println!("GB/s cold           {}", names(&rivals));
    for len in PIECES {
        let times = medians(&rivals, 5, |sum| pieces(&data[OFFSET..], len, sum));
        println!("{:>9} bytes     {}", len, gigabytes_a_second(&times, data.len()));
    }
    println!("ns for a short one  {}", names(&rivals));
    for len in [0, 1, 63, 64, 100, 512, 1000] {
        let piece = &data[OFFSET..OFFSET + len];
        let times = medians(&rivals, 51, |sum| (0..1000).for_each(|_| sum(black_box(piece))));
        let nanos = times.iter().map(|time| format!("{:.1}", time.as_secs_f64() * 1e6));
        println!("{:>9} bytes     {}", len, row(nanos));
    }
}

fn rivals() -> Vec<(&'static str, Sum)> {
    let key = Key::from_bytes(*blake3::hash(b"a key").as_bytes());
    let by_engine = CarrylessEngine::available().into_iter().map(|engine| {
        let keyed = KeyedSum::with_engine(&key, engine);
        (engine.name(), rival(move |bytes| keyed.sum(bytes)))
    });
    let others = [("blake3", rival(Fingerprint::of)), ("crc32c", rival(Crc32c::of))];
    by_engine.chain(others).collect()
}

fn rival<T>(sum: impl Fn(&[u8]) -> T + 'static) -> Sum {
    Box::new(move |bytes| {
        black_box(sum(bytes));
    })
}

fn pieces(data: &[u8], len: usize, sum: &Sum) {
    data.chunks_exact(len).for_each(|piece| sum(black_box(piece)));
}

/// The median time of `runs` runs for each of `rivals`, measured in turn.
fn medians(rivals: &[(&str, Sum)], runs: usize, run: impl Fn(&Sum)) -> Vec<Duration> {
    let mut times = vec![Vec::new(); rivals.len()];
    for _ in 0..runs {
        for ((_, rival), times) in rivals.iter().zip(&mut times) {
            let start = Instant::now();
            run(rival);
            times.push(start.elapsed());
        }
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    times.into_iter().map(median).collect()
}

fn names(rivals: &[(&str, Sum)]) -> String {
    row(rivals.iter().map(|(name, _)| (*name).to_owned()))
}

fn gigabytes_a_second(times: &[Duration], bytes: usize) -> String {
    row(times.iter().map(|time| format!("{:.1}", bytes as f64 / time.as_secs_f64() / 1e9)))
}

fn row(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!("{cell:>12}")).collect()
}

/// Lengths of the pieces to sum.
const PIECES: [usize; 5] = [512, 2 << 10, 4 << 10, 8 << 10, 64 << 10];
/// Fits in the L2 cache, not in L1.
const HOT_BYTES: usize = 256 << 10;
/// Pieces are unaligned, as chunks are.
const OFFSET: usize = 13;
