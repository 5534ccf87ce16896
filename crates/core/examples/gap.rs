//! Benchmark of gaps: cost of sums and deltas in bytes and time, for block lengths around the default.
//!
//! `cargo run --release -p deltic-core --example gap`. The contenders are measured in turn, many times; the
//! medians are printed.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program that measures has a clock and an output"
)]

#[path = "common/clock.rs"]
mod clock;

use std::hint::black_box;
use std::time::Duration;

use deltic_core::gap::{BlockLen, GapDelta, GapSums, apply};

use clock::cpu_time;

fn main() {
    sums();
    rolling();
    worst();
    gaps();
}

/// Compares block sums: ours, CRC-32C as storage layers keep, and rsync's.
fn sums() {
    let data = random(1, 64 << 10);
    println!("GB/s of sums in cache   {}", row(&["deltic", "crc32c", "adler"]));
    for len in [128, 256, 320, 512, 1024, 4096] {
        let blocks = |sum: fn(&[u8]) -> u32| {
            black_box(&data).chunks(len as usize).for_each(|block| _ = black_box(sum(block)));
        };
        let times = medians([
            &|| drop(black_box(GapSums::sums_of(black_box(&data), block_len(len), SEED))),
            &|| blocks(crc32c::crc32c),
            &|| blocks(adler),
        ]);
        let speeds = times.map(|time| format!("{:.1}", speed(data.len(), time)));
        println!("{len:>9} bytes         {}", row(&speeds));
    }
}

/// Cost of a search without matches. The other sums only roll, without look-ups.
fn rolling() {
    let (old, new) = (random(1, 64 << 10), random(2, 64 << 10));
    println!("\nns per byte rolled      {}", row(&["deltic", "crc32c", "adler"]));
    for len in [128, 320, 1024] {
        let sums = GapSums::sums_of(&old, block_len(len), SEED);
        let crc = RollingCrc::new(len as usize);
        let times = medians([
            &|| drop(black_box(GapDelta::of(black_box(&new), &sums, SEED))),
            &|| _ = black_box(crc.roll(black_box(&new))),
            &|| _ = black_box(roll_adler(black_box(&new), len as usize)),
        ]);
        let nanos = times.map(|time| format!("{:.2}", time.as_secs_f64() * 1e9 / new.len() as f64));
        println!("{len:>9} bytes         {}", row(&nanos));
    }
}

/// Gaps that cost the search most.
fn worst() {
    let zeros = vec![0; 1 << 20];
    let old = random(1, 1 << 20);
    let mut one_of_zeros = old.clone();
    one_of_zeros[4096..8192].fill(0);
    // Pairs of consecutive blocks in random order: rolling finds each pair, and nothing is near.
    let blocks = (0..3000u64).map(|n| (n * 2_654_435_761 % 8000 * 128) as usize);
    let torn: Vec<u8> = blocks.flat_map(|at| [&old[at..at + 256], b"-"].concat()).collect();
    println!("\nns per byte at worst    {}", row(&["128", "1280"]));
    for (name, old, new) in [
        ("nothing in common", &old, &random(2, 1 << 20)),
        ("zeros, one in old", &one_of_zeros, &zeros),
        ("pairs of old blocks", &old, &torn),
        ("noise, old is zeros", &zeros, &old),
    ] {
        let sums = [128, 1280].map(|len| GapSums::sums_of(old, block_len(len), SEED));
        let run = |n: usize| drop(black_box(GapDelta::of(black_box(new), &sums[n], SEED)));
        let times = medians([&|| run(0), &|| run(1)]);
        let nanos = times.map(|time| format!("{:.2}", time.as_secs_f64() * 1e9 / new.len() as f64));
        println!("{name:<24}{}", row(&nanos));
    }
}

fn gaps() {
    let columns =
        ["block", "sums", "delta", "literal", "per byte", "sums GB/s", "delta", "apply", "wrong"];
    println!("\nold KiB, edits          {}", row(&columns));
    for kib in [8, 64, 256] {
        let chosen = BlockLen::for_gap(kib << 10, 2).get();
        let halved = (chosen / 2).next_multiple_of(64).max(BlockLen::MIN);
        for edits in [1, 4] {
            for kind in [Kind::Insert, Kind::Cut, Kind::Overwrite] {
                let pairs = pairs(kib as usize * 1024, kind, edits);
                for len in [halved, chosen, 2 * chosen] {
                    let cells = measure(&pairs, block_len(len), edits);
                    println!("{:<24}{}", format!("{kib}, {edits} {kind:?}"), row(&cells));
                }
            }
        }
        let pairs: Vec<_> =
            (0..PAIRS).map(|n| [1, 2].map(|m| random(2 * n + m, kib as usize * 1024))).collect();
        let cells = measure(&pairs, block_len(chosen), 1);
        println!("{:<24}{}", format!("{kib}, nothing common"), row(&cells));
    }
}

/// Mean sizes of sums and deltas, bytes sent for each edited byte, and the speed of each step.
fn measure(pairs: &[[Vec<u8>; 2]], len: BlockLen, edits: usize) -> Vec<String> {
    let (mut sums_len, mut delta_len, mut literal_len, mut wrong) = (0, 0, 0, 0);
    let (mut encoded, mut out) = (Vec::new(), Vec::new());
    for [old, new] in pairs {
        encoded.clear();
        let sums = GapSums::sums_of(old, len, SEED);
        sums.encode(&mut encoded);
        sums_len += encoded.len();
        encoded.clear();
        let delta = GapDelta::of(new, &sums, SEED);
        delta.encode(&mut encoded);
        delta_len += encoded.len();
        literal_len += delta.literal_len();
        out.clear();
        apply(old, &delta, new.len(), &mut out).expect("the delta is of this gap");
        wrong += usize::from(out != *new);
    }
    let all: Vec<GapSums> = pairs.iter().map(|[old, _]| GapSums::sums_of(old, len, SEED)).collect();
    let deltas: Vec<_> =
        pairs.iter().zip(&all).map(|(p, sums)| GapDelta::of(&p[1], sums, SEED)).collect();
    let times = medians([
        &|| pairs.iter().for_each(|[old, _]| drop(black_box(GapSums::sums_of(old, len, SEED)))),
        &|| {
            let both = pairs.iter().zip(&all);
            both.for_each(|([_, new], sums)| drop(black_box(GapDelta::of(new, sums, SEED))));
        },
        &|| {
            let mut out = Vec::with_capacity(1 << 20);
            for ([old, new], delta) in pairs.iter().zip(&deltas) {
                out.clear();
                apply(old, delta, new.len(), &mut out).expect("the delta is of this gap");
                black_box(&out);
            }
        },
    ]);
    let bytes = pairs.iter().map(|[_, new]| new.len()).sum();
    let mean = |sum: usize| (sum / pairs.len()).to_string();
    let per_byte = (sums_len + delta_len) as f64 / (pairs.len() * edits * EDIT) as f64;
    let mut cells = vec![len.get().to_string(), mean(sums_len), mean(delta_len), mean(literal_len)];
    cells.push(format!("{per_byte:.2}"));
    cells.extend(times.map(|time| format!("{:.1}", speed(bytes, time))));
    cells.push(wrong.to_string());
    cells
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Insert,
    Cut,
    Overwrite,
}

/// Pairs of an old gap of `len` bytes and a new gap, with edits at random offsets.
fn pairs(len: usize, kind: Kind, edits: usize) -> Vec<[Vec<u8>; 2]> {
    let edited = |n: u64| {
        let old = random(n, len);
        let mut new = old.clone();
        for edit in 0..edits as u64 {
            let number = u64::from_le_bytes(*random(n << 8 | edit, 8).as_array().expect("eight"));
            let at = number as usize % (new.len() - EDIT);
            let (cut, insert) = match kind {
                Kind::Insert => (0, EDIT),
                Kind::Cut => (EDIT, 0),
                Kind::Overwrite => (EDIT, EDIT),
            };
            new.splice(at..at + cut, random(!(n << 8 | edit), insert));
        }
        [old, new]
    };
    (1..=PAIRS).map(edited).collect()
}

/// rsync's rolling sum: the sum of the bytes, and the sum of the partial sums.
fn adler(block: &[u8]) -> u32 {
    let len = block.len() as u32;
    let (low, high) = (0u32..).zip(block).fold((0u32, 0u32), |(low, high), (n, byte)| {
        let byte = u32::from(*byte);
        (low.wrapping_add(byte), high.wrapping_add((len - n).wrapping_mul(byte)))
    });
    low & 0xffff | high << 16
}

fn roll_adler(data: &[u8], len: usize) -> u32 {
    let sum = adler(&data[..len]);
    let (mut low, mut high, mut any) = (sum & 0xffff, sum >> 16, 0);
    for (out, incoming) in data.iter().zip(&data[len..]) {
        low = low.wrapping_sub((*out).into()).wrapping_add((*incoming).into());
        high = high.wrapping_sub(len as u32 * u32::from(*out)).wrapping_add(low);
        any |= black_box(low & 0xffff | high << 16);
    }
    any
}

/// Rolling CRC-32C with two tables, for entering and leaving bytes.
struct RollingCrc {
    len: usize,
    incoming: [u32; 256],
    out: [u32; 256],
}

impl RollingCrc {
    fn new(len: usize) -> Self {
        // Bare registers, without the two inversions.
        let register = |bytes: &[u8]| !crc32c::crc32c_append(!0, bytes);
        let incoming = std::array::from_fn(|byte| register(&[byte as u8]));
        let leaving = |byte| register(&[&[byte as u8][..], &vec![0; len]].concat());
        Self { len, incoming, out: std::array::from_fn(leaving) }
    }

    fn roll(&self, data: &[u8]) -> u32 {
        let (mut register, mut any) = (0, 0);
        for (out, incoming) in data.iter().zip(&data[self.len..]) {
            let lowest = (register as u8 ^ incoming) as usize;
            register = self.incoming[lowest] ^ register >> 8 ^ self.out[usize::from(*out)];
            any |= black_box(register);
        }
        any
    }
}

/// The median time of a call of each job, measured in turn.
fn medians<const N: usize>(jobs: [&dyn Fn(); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..RUNS {
        for (job, times) in jobs.iter().zip(&mut times) {
            let start = cpu_time();
            // Reading the clock takes as long as hashing a few KiB.
            (0..CALLS).for_each(|_| job());
            times.push((cpu_time() - start) / CALLS);
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// Speed in GB/s.
fn speed(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

fn block_len(len: u32) -> BlockLen {
    BlockLen::new(len).expect("lengths are of blocks")
}

fn row<T: AsRef<str>>(cells: &[T]) -> String {
    cells.iter().map(|cell| format!("{:>10}", cell.as_ref())).collect()
}

/// `len` bytes of SplitMix64.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let words = (1..=len.div_ceil(8) as u64).flat_map(|n| {
        let state = seed.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(n << 1);
        let state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    });
    words.take(len).collect()
}

/// Length of one edit in bytes.
const EDIT: usize = 256;
/// Number of gaps of each kind.
const PAIRS: u64 = 64;
const RUNS: usize = 9;
const CALLS: u32 = 8;
const SEED: u64 = 7;
