//! Golden files for all formats of this crate: a change here is a change of a format.
//!
//! `DELTIC_UPDATE_GOLDEN=1 cargo test -p deltic-core --test golden` rewrites the files.
#![allow(clippy::disallowed_methods, reason = "golden files are files")]

use std::fmt::Write as _;

use deltic_core::chunk::FixedLen;
use deltic_core::format::{delta, matches, recipe};
use deltic_core::gap::GapDeltaWriter;
use deltic_core::keyed::{CarrylessEngine, Key, KeyedSum};
use deltic_core::{
    Algorithm, AtEnd, BlockLen, Chunk, ChunkerSpec, Digest, Fingerprint, GapDelta, GapSums, Sizes,
    Span, Strategy, StrongKind, SumKey, WeakKind, digest_of, reference, scan,
};

/// A fixed input: SplitMix64 from seed 0, one byte of each output, with a hole.
fn input() -> Vec<u8> {
    input_of(96 << 10)
}

fn input_of(len: u64) -> Vec<u8> {
    let byte = |n: u64| {
        let state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u8
    };
    (1..=len).map(|n| if (40 << 10..60 << 10).contains(&n) { 0 } else { byte(n) }).collect()
}

fn specs() -> [(&'static str, ChunkerSpec); 5] {
    let sizes = |min, avg, max| Sizes::new(min, avg, max).expect("sizes rise");
    [
        ("fixed 4096", ChunkerSpec::Fixed(FixedLen::new(4096).expect("length is in range"))),
        ("gear 512 2048 8192", ChunkerSpec::ByContent(Algorithm::GearNc, sizes(512, 2048, 8192))),
        (
            "gear 4096 8192 12288",
            ChunkerSpec::ByContent(Algorithm::GearNc, sizes(4096, 8192, 12288)),
        ),
        ("ram 512 2048 8192", ChunkerSpec::ByContent(Algorithm::Ram, sizes(512, 2048, 8192))),
        ("ram 4096 8192 12288", ChunkerSpec::ByContent(Algorithm::Ram, sizes(4096, 8192, 12288))),
    ]
}

fn chunks(spec: &ChunkerSpec) -> Vec<Chunk> {
    scan(&spec.build(), &input(), AtEnd::Yes).chunks
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect()
}

fn assert_golden(name: &str, found: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(&path, found).expect("golden file is writable");
    }
    let golden = std::fs::read_to_string(&path).expect("golden file is readable");
    assert!(found == golden, "{name} changed: this is a change of a format\n{found}");
}

#[test]
fn cut_points_fingerprints_and_digests() {
    let mut found = format!("input {}\n", Fingerprint::of(&input()));
    for (name, spec) in specs() {
        let chunks = chunks(&spec);
        writeln!(found, "\n{name}").unwrap();
        for chunk in &chunks {
            writeln!(found, "{} {}", chunk.len, chunk.fingerprint).unwrap();
        }
        writeln!(found, "digest {}", digest_of(&chunks)).unwrap();
    }
    assert_golden("chunks.txt", &found);
}

/// One line for each algorithm and sizes: the lengths of all chunks. The sieve with long chunks has a finer
/// mesh and gets a longer input.
#[test]
fn cut_points_of_all_algorithms() {
    let mut found = String::new();
    for algorithm in Algorithm::ALL {
        for sizes in [(512, 1024, 2048), (512, 2048, 8192), (4096, 8192, 32768)] {
            found += &lens(algorithm, sizes, &input());
        }
    }
    let long = input_of(2 << 20);
    for sizes in [(8192, 32_768, 131_072), (32_768, 131_072, 524_288)] {
        found += &lens(Algorithm::Sieve, sizes, &long);
    }
    assert_golden("cuts.txt", &found);
}

fn lens(algorithm: Algorithm, (min, avg, max): (u32, u32, u32), data: &[u8]) -> String {
    let sizes = Sizes::new(min, avg, max).expect("sizes rise");
    let mut line = format!("{} {min} {avg} {max}:", algorithm.name());
    for chunk in scan(&ChunkerSpec::ByContent(algorithm, sizes).build(), data, AtEnd::Yes).chunks {
        write!(line, " {}", chunk.len).expect("a string takes all");
    }
    line + "\n"
}

#[test]
fn gear_table() {
    let number = |byte: u8| format!("{:016x}\n", reference::gear_hash(&[byte]));
    assert_golden("gear.txt", &(0..=255).map(number).collect::<String>());
}

#[test]
fn chunker_specs() {
    let line = |(name, spec): (&str, ChunkerSpec)| {
        let mut bytes = Vec::new();
        spec.encode(&mut bytes);
        format!("{name} = {}", hex(&bytes))
    };
    assert_golden("specs.txt", &specs().into_iter().map(line).collect::<String>());
}

/// Both ends identify a strategy by its name only, so a strategy with other choices needs another name.
#[test]
fn strategies() {
    let line = |strategy: Strategy| format!("{strategy:#?}\n");
    assert_golden("strategies.txt", &Strategy::ALL.map(line).concat());
}

#[test]
fn recipe_file() {
    let (_, spec) = specs()[4];
    let mut bytes = Vec::new();
    recipe::RecipeRecord::Header(spec).encode(&mut bytes);
    let mut sum = recipe::SummaryBuilder::new();
    for batch in chunks(&spec).chunks(8) {
        batch.iter().for_each(|chunk| sum.push(chunk).expect("lengths are small"));
        recipe::RecipeRecord::Chunks(batch.to_vec()).encode(&mut bytes);
    }
    recipe::RecipeRecord::End(sum.finish()).encode(&mut bytes);
    assert_golden("recipe.hex", &hex(&bytes));
}

#[test]
fn delta_file() {
    let (_, spec) = specs()[1];
    let old_digest = Digest::from_bytes([0x11; 32]);
    let records = [
        delta::DeltaRecord::Header(delta::DeltaHeader { old_digest, old_len: 96 << 10, spec }),
        delta::DeltaRecord::Copy(Span::new(0, 40_000)),
        delta::DeltaRecord::Literal(b"literal".to_vec()),
        delta::DeltaRecord::Copy(Span::new(40_010, 50_000)),
        delta::DeltaRecord::End { len: 90_007, digest: Digest::from_bytes([0x22; 32]) },
    ];
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    assert_golden("delta.hex", &hex(&bytes));
}

#[test]
fn matches_file() {
    let (_, spec) = specs()[1];
    let old_digest = Digest::from_bytes([0x11; 32]);
    let records = [
        matches::MatchRecord::Header(delta::DeltaHeader { old_digest, old_len: 96 << 10, spec }),
        matches::MatchRecord::Copy(Span::new(0, 40_000)),
        matches::MatchRecord::Lack(700_000),
        matches::MatchRecord::Copy(Span::new(40_010, 50_000)),
        matches::MatchRecord::End { len: 790_000 },
    ];
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    assert_golden("matches.hex", &hex(&bytes));
}

/// Sums of an old gap, and the delta of a new gap with an insertion and a deletion; then the same with the
/// shortest blocks.
#[test]
fn gap_sums_and_delta() {
    const SEED: u64 = 0x6465_6c74_6963;
    let old = input_of(4000);
    let new = [&old[..1000], b"inserted", &old[1000..2500], &old[2600..]].concat();
    let lines = [2, 20].map(|edits| {
        let sums = GapSums::sums_of(&old, BlockLen::for_gap(4000, edits), SEED);
        let (mut sums_bytes, mut delta_bytes) = (Vec::new(), Vec::new());
        sums.encode(&mut sums_bytes);
        GapDelta::of(&new, &sums, SEED).encode(&mut delta_bytes);
        format!("{}\n{}", hex(&sums_bytes), hex(&delta_bytes))
    });
    assert_golden("gap.hex", &lines.join("\n"));
}

/// Masked sums of old code, and the deltas of two gaps: of new code, with one function more in front, and of code
/// without old bytes.
#[test]
fn gaps_of_code() {
    const SEED: u64 = 0x6465_6c74_6963;
    let old = code(0);
    let new = [&[0x90; 37], &code(37)[..]].concat();
    let sums = GapSums::sums_of_code(&old, BlockLen::for_gap(old.len() as u64, 20), SEED);
    let nothing = GapSums::sums_of(&[], BlockLen::for_gap(0, 2), SEED);
    let (mut sums_bytes, mut deltas) = (Vec::new(), GapDeltaWriter::new(true));
    sums.encode(&mut sums_bytes);
    deltas.add(&new, 5000, &sums, SEED);
    deltas.add(&code(90), 9000, &nothing, SEED);
    assert_golden("code.hex", &format!("{}\n{}", hex(&sums_bytes), hex(&deltas.finish())));
}

/// Code with calls of a few functions that lie `shift` bytes further, operands, one far call, and other bytes.
fn code(shift: u32) -> Vec<u8> {
    let (mut code, other) = (Vec::new(), input_of(3000));
    for (no, other) in (0..).zip(other.chunks(15)) {
        let (head, target): (&[u8], u32) = match no % 4 {
            0 | 1 => (&[0xe8], 0x4000 + no * no % 5 * 0x130),
            2 => (&[0x48, 0x8b, 0x05], 0x10_0000 + no % 9 * 8),
            _ if no == 43 => (&[0xe8], 0x7654_3210),
            _ => (&[], 0),
        };
        code.extend_from_slice(head);
        if !head.is_empty() {
            let end = code.len() as u32 + 4;
            code.extend_from_slice(&(target + shift).wrapping_sub(end).to_le_bytes());
        }
        code.extend_from_slice(other);
    }
    code
}

/// Sums under one key: one line for each length of data with period 251.
#[test]
fn keyed_sums() {
    let key = std::array::from_fn(|n| 0xa0 + n as u8);
    let data: Vec<u8> = (0..512 << 10).map(|n| (n % 251) as u8).collect();
    for engine in CarrylessEngine::available() {
        let keyed = KeyedSum::with_engine(&Key::from_bytes(key), engine);
        let mut found = format!("key {}", hex(&key));
        for len in KEYED_LENS {
            write!(found, "{len} {}", hex(&keyed.sum(&data[..len]))).expect("a string takes all");
        }
        assert_golden("keyed.txt", &found);
    }
}

/// Lengths around a pair of words, a row and a page, and the longest chunk.
const KEYED_LENS: [usize; 23] = [
    0, 1, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 4032, 4095, 4096, 4097, 4160, 8191, 8192,
    8193, 65_536, 524_288,
];

/// One line for each kind of sum, key and length.
#[test]
fn weak_and_strong_sums() {
    let mut found = String::new();
    let data = input();
    let lens = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 512, 8192, 65_536];
    for kind in WeakKind::ALL {
        let mut tag = Vec::new();
        kind.encode(&mut tag);
        for len in lens {
            let sum = kind.of(&data[..len]);
            writeln!(found, "{} {} {len}: {sum:08x}", tag[0], kind.name()).unwrap();
        }
    }
    let key = SumKey::from_bytes(std::array::from_fn(|n| n as u8));
    for kind in StrongKind::ALL {
        let mut tag = Vec::new();
        kind.encode(&mut tag);
        for (keyed, key) in [("plain", None), ("keyed", Some(&key))] {
            for len in [0, 1, 64, 8192, 65_536] {
                let sum = kind.sum_of(key, &data[..len]);
                writeln!(found, "{} {} {keyed} {len}: {sum}", tag[0], kind.name()).unwrap();
            }
        }
    }
    assert_golden("weak.txt", &found);
}
