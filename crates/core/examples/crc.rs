//! Benchmark of CRC-32C: cost of sums and of concatenations (docs/decisions/0012).
//!
//! `cargo run --release -p deltic-core --example crc [-- MiB of the cold run]`. The contenders of a table are
//! measured in turn, many times; the medians are printed.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures has a clock, an argument and an output"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, checksum_combine, crc32_iscsi};
use deltic_core::weak::{ConcatEngine, Crc32c};

type Digest = fn(&[u8]) -> u32;
type Concat = fn(u32, u32, u64) -> u32;

const DIGESTS: [(&str, Digest); 2] = [("crc32c", crc32c::crc32c), ("crc-fast", crc32_iscsi)];

const CONCATS: [(&str, Concat); 4] = [
    ("deltic", |a, b, len| Crc32c::new(a).concat(Crc32c::new(b), len).get()),
    ("deltic portable", |a, b, len| {
        Crc32c::new(a).concat_on(ConcatEngine::portable(), Crc32c::new(b), len).get()
    }),
    ("crc32c", |a, b, len| crc32c::crc32c_combine(a, b, len as usize)),
    ("crc-fast", |a, b, len| {
        checksum_combine(CrcAlgorithm::Crc32Iscsi, a.into(), b.into(), len) as u32
    }),
];

fn main() {
    let cold_mib = std::env::args().nth(1).map_or(1024, |mib| mib.parse().expect("MiB"));
    digests_in_cache();
    digest_of_cold(cold_mib << 20);
    concats();
}

fn digests_in_cache() {
    println!("GB/s in cache         {}", names(&DIGESTS));
    for len in [512, 2 << 10, 8 << 10, 64 << 10] {
        let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        let calls = (1 << 20) / len;
        let times = medians(&DIGESTS, 101, |digest| {
            for _ in 0..calls {
                black_box(digest(black_box(&data)));
            }
        });
        println!("{:>9} bytes       {}", len, gigabytes_a_second(&times, calls * len));
    }
}

fn digest_of_cold(len: usize) {
    let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
    let times = medians(&DIGESTS, 5, |digest| {
        for chunk in data.chunks(8 << 10) {
            black_box(digest(chunk));
        }
    });
    println!("{:>9} MiB cold    {}", len >> 20, gigabytes_a_second(&times, len));
}

/// Each concatenation depends on the one before, as for the sums of a file.
fn concats() {
    println!("\nns per concatenation  {}", names(&CONCATS));
    let mut seed = 1;
    let mut lens = |low: u64, high: u64| -> Vec<u64> {
        (0..CONCATS_PER_RUN).map(|_| low + random(&mut seed) % (high - low)).collect()
    };
    let kinds = [
        ("each 4 KiB", vec![4 << 10; CONCATS_PER_RUN]),
        ("512 B to 64 KiB", lens(512, 64 << 10)),
        ("64 KiB to 512 KiB", lens(64 << 10, 512 << 10)),
        ("up to 2^40", lens(0, 1 << 40)),
    ];
    for (kind, lens) in &kinds {
        let times = medians(&CONCATS, 51, |concat| {
            let whole = lens.iter().fold(1, |sum, len| concat(sum, black_box(7), *len));
            black_box(whole);
        });
        let nanos = times.map(|time| time.as_secs_f64() * 1e9 / lens.len() as f64);
        println!("{kind:<20}  {}", row(&nanos.map(|nanos| format!("{nanos:.1}"))));
    }
}

/// The median time of `runs` runs for each of `rivals`, measured in turn.
fn medians<T: Copy, const N: usize>(
    rivals: &[(&str, T); N],
    runs: usize,
    run: impl Fn(T),
) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..runs {
        for ((_, rival), times) in rivals.iter().zip(&mut times) {
            let start = Instant::now();
            run(*rival);
            times.push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

fn names<T, const N: usize>(rivals: &[(&str, T); N]) -> String {
    row(&rivals.each_ref().map(|(name, _)| (*name).to_owned()))
}

fn gigabytes_a_second<const N: usize>(times: &[Duration; N], bytes: usize) -> String {
    row(&times.map(|time| format!("{:.1}", bytes as f64 / time.as_secs_f64() / 1e9)))
}

fn row(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("{cell:>16}")).collect()
}

/// The next output of SplitMix64.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

const CONCATS_PER_RUN: usize = 1000;
