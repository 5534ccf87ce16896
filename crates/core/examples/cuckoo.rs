//! Benchmark of the cuckoo index: its fill level when the first sum finds no slot, and its speed compared with
//! the standard map.
//!
//! `cargo run --release -p deltic-core --example cuckoo [BITS]` measures up to 2^BITS slots, by default 2^20.
//! The contenders are measured in turn, many times; the medians are printed in nanoseconds of CPU time for each
//! sum.
#![allow(clippy::print_stdout, reason = "the table is what this is for")]
#![allow(clippy::disallowed_methods, reason = "a program has arguments")]

#[path = "common/clock.rs"]
mod clock;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::time::Duration;

use deltic_core::index::{CuckooIndex, Entry1, PublishedTable};

use clock::cpu_time;

fn main() {
    let bits = std::env::args().nth(1).map_or(20, |bits| bits.parse().expect("bits"));
    loads(bits);
    speeds(bits);
}

fn loads(bits: u32) {
    println!("share of slots taken at the first sum without a place: least, median");
    println!("{:>10} {:>16} {:>16}", "slots", "ours", "highest bit");
    for bits in (8..=bits).step_by(4) {
        let [ours, flipped] = [ours, flipped].map(|fill| {
            let mut loads: Vec<f64> = (1..=ROUNDS as u64).map(|seed| fill(bits, seed)).collect();
            loads.sort_unstable_by(f64::total_cmp);
            format!("{:.3} {:.3}", loads[0], loads[ROUNDS / 2])
        });
        println!("{:>10} {ours:>16} {flipped:>16}", 1u64 << bits);
    }
}

fn ours(bits: u32, seed: u64) -> f64 {
    let slots = 1 << bits;
    let mut index = CuckooIndex::with_room(slots, slots * 9 / 10);
    assert_eq!(index.fill_level().slots, slots);
    let mut full = 0;
    for sum in sums(seed) {
        full = index.fill_level().taken.max(full);
        index.push(sum);
        if index.fill_level().overflow > 0 || index.fill_level().slots > slots {
            break;
        }
    }
    full as f64 / slots as f64
}

/// SkySync's table.
fn flipped(bits: u32, seed: u64) -> f64 {
    let slots = 1usize << bits;
    let mut table = PublishedTable::with_load(slots, 100);
    assert_eq!(table.fill_level().slots, slots);
    let taken = sums(seed).position(|weak| {
        table.insert(Entry1 { weak, chunk: 0 });
        table.doublings() > 0
    });
    taken.expect("some pair fills") as f64 / slots as f64
}

fn speeds(bits: u32) {
    let slots = 1usize << bits;
    let count = slots * 9 / 10;
    let known: Vec<u32> = sums(1).take(count).collect();
    let others: Vec<u32> = sums(2).take(count).collect();
    let mut order = known.clone();
    order.sort_unstable_by_key(|sum| sum.wrapping_mul(0x9e37_79b1));
    let mut cuckoo = CuckooIndex::new(0);
    let mut sip: HashMap<u32, u32> = HashMap::new();
    let mut plain: HashMap<u32, u32, BuildHasherDefault<Straight>> = HashMap::default();
    let mut times: [[Vec<Duration>; 3]; 4] = Default::default();
    for _ in 0..ROUNDS {
        times[0][0].push(
            time(|| cuckoo = CuckooIndex::with_room(count, count))
                + time(|| known.iter().for_each(|sum| cuckoo.push(*sum))),
        );
        times[0][1].push(time(|| {
            sip = HashMap::with_capacity(count);
            known.iter().zip(0..).for_each(|(sum, n)| first(sip.entry(*sum), n));
        }));
        times[0][2].push(time(|| {
            plain = HashMap::with_capacity_and_hasher(count, BuildHasherDefault::default());
            known.iter().zip(0..).for_each(|(sum, n)| first(plain.entry(*sum), n));
        }));
        for (kind, wanted) in [&known, &order, &others].into_iter().enumerate() {
            let times = &mut times[kind + 1];
            times[0].push(time(|| found(wanted, |sum| cuckoo.find(sum).is_some())));
            times[1].push(time(|| found(wanted, |sum| sip.contains_key(&sum))));
            times[2].push(time(|| found(wanted, |sum| plain.contains_key(&sum))));
        }
    }
    println!(
        "\n{count} sums, ns each {:>13} {:>13} {:>13}",
        "cuckoo", "map, SipHash", "map, no hash"
    );
    for (kind, times) in
        ["build", "find, in order", "find, shuffled", "find, absent"].into_iter().zip(&mut times)
    {
        let cells: String = times
            .iter_mut()
            .map(|times| {
                times.sort_unstable();
                format!(" {:13.1}", times[ROUNDS / 2].as_secs_f64() * 1e9 / count as f64)
            })
            .collect();
        println!("{kind:<20}{cells}");
    }
}

fn first(entry: Entry<'_, u32, u32>, n: u32) {
    entry.or_insert(n);
}

fn found(wanted: &[u32], has: impl Fn(u32) -> bool) {
    black_box(wanted.iter().filter(|sum| has(**sum)).count());
}

fn time(run: impl FnOnce()) -> Duration {
    let start = cpu_time();
    run();
    cpu_time() - start
}

/// Hasher for sums that are evenly distributed: repeats the sum, because the standard map uses both ends of a
/// hash.
#[derive(Default)]
struct Straight(u64);

impl Hasher for Straight {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("sums are numbers");
    }

    fn write_u32(&mut self, sum: u32) {
        self.0 = u64::from(sum) << 32 | u64::from(sum);
    }
}

/// Outputs of SplitMix64.
fn sums(seed: u64) -> impl Iterator<Item = u32> {
    (1..).map(move |n: u64| {
        let state = (seed << 40).wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32 ^ mixed as u32
    })
}

const ROUNDS: usize = 9;
