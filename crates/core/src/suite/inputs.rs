//! Inputs of the suite: data of many kinds, with lengths and positions around all critical values.

use std::collections::BTreeSet;

use crate::chunk::{Chunker, ChunkerSpec};
use crate::reference;
use crate::simd::{Isa, MAX_LANES};

/// Test data and its name.
pub(super) struct SuiteInput {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl SuiteInput {
    fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), bytes }
    }
}

/// Critical lengths of a chunker: minimum, window of AE and RAM, average, maximum.
pub(super) struct CriticalLens([usize; 4]);

impl CriticalLens {
    pub(super) fn of(spec: &ChunkerSpec) -> Self {
        let (min, max) = (spec.min_len() as usize, spec.max_len() as usize);
        let avg = match spec {
            ChunkerSpec::Fixed(_) => min,
            ChunkerSpec::ByContent(_, sizes) => sizes.avg() as usize,
        };
        Self([min, avg.saturating_sub(256), avg, max])
    }

    /// The largest of [`CriticalLens::lens`].
    pub(super) const fn longest(&self) -> usize {
        self.0[3] + NEAR
    }

    /// Lengths around the edges and around multiples of the lanes, and all lengths below two vectors.
    pub(super) fn lens(&self) -> Vec<usize> {
        let multiples = (MAX_LANES..self.0[3]).step_by(MAX_LANES * self.thinned());
        let multiples = multiples.flat_map(|n| n - 1..=n + 1);
        let lens: BTreeSet<usize> = self.near().chain(1..=NEAR).chain(multiples).collect();
        lens.into_iter().collect()
    }

    /// Positions around the edges, and enough further positions to hit every lane.
    pub(super) fn critical_positions(&self) -> Vec<usize> {
        let others = (0..self.0[3]).step_by((MAX_LANES - 3) * self.thinned());
        let positions: BTreeSet<usize> = self.near().chain(others).collect();
        positions.into_iter().collect()
    }

    /// Step between tested lengths and positions, so that long chunks take no more time than short ones. Odd,
    /// so that all lanes are hit.
    pub(super) const fn thinned(&self) -> usize {
        (self.0[3] / THICK_BYTES) | 1
    }

    fn near(&self) -> impl Iterator<Item = usize> {
        self.0.into_iter().flat_map(|edge| edge.saturating_sub(NEAR)..=edge + NEAR)
    }
}

/// Test data of all kinds.
pub(super) fn inputs(spec: &ChunkerSpec, len: usize) -> Vec<SuiteInput> {
    let repeat = |pattern: &[u8]| pattern.iter().copied().cycle().take(len).collect::<Vec<u8>>();
    let each = |byte: fn(usize) -> usize| (0..len).map(|n| byte(n) as u8).collect::<Vec<u8>>();
    let constant =
        [0, 1, 127, 128, 255].map(|n| SuiteInput::new(format!("all bytes {n}"), vec![n; len]));
    let periodic = [2, 3, 4, 5, 7, 8, 16, 64, 251, 4096]
        .map(|n| SuiteInput::new(format!("period {n}"), repeat(&random(n as u64, n))));
    let end = own_end(spec);
    let ends = [1, 2, 8, 16, 32, 64].map(|n| {
        SuiteInput::new(
            format!("last {n} bytes of a chunk, repeated"),
            repeat(&end[end.len() - n..]),
        )
    });
    let few = [1, 3, 17, 128].map(|mask| {
        let bytes = random(mask.into(), len).into_iter().map(|byte| byte & mask);
        SuiteInput::new(format!("bits {mask:08b}"), bytes.collect())
    });
    let full = (0..4).map(|seed| SuiteInput::new(format!("random {seed}"), random(seed, len)));
    let others = [
        SuiteInput::new("every byte in turn", each(|n| n)),
        SuiteInput::new("every byte in turn, falling", each(|n| 255 - n % 256)),
        SuiteInput::new("steps of three", each(|n| n / 3)),
        SuiteInput::new("steps of three, falling", each(|n| 255 - n / 3 % 256)),
        SuiteInput::new("a saw of seven", each(|n| 7 - n % 7)),
        SuiteInput::new("a slow rise", slope(len)),
        SuiteInput::new("a slow fall", slope(len).into_iter().rev().collect()),
        SuiteInput::new("text", text(5, len)),
        SuiteInput::new("machine code", code(6, len)),
        SuiteInput::new("holes in random bytes", holes(7, len)),
    ];
    constant.into_iter().chain(periodic).chain(ends).chain(few).chain(full).chain(others).collect()
}

/// Data without chunk boundaries, each paired with bytes that, written into the data, end a chunk at some
/// positions.
pub(super) fn deciders(spec: &ChunkerSpec, len: usize) -> Vec<(SuiteInput, Vec<u8>)> {
    let rise = slope(len);
    let fall = rise.iter().rev().copied().collect();
    vec![
        (SuiteInput::new("255 in a fall", fall), vec![255]),
        (SuiteInput::new("0 in a rise", rise), vec![0]),
        (SuiteInput::new("9 among 7s", vec![7; len]), vec![9]),
        (SuiteInput::new("5 among 7s", vec![7; len]), vec![5]),
        (SuiteInput::new("its own end in zeros", vec![0; len]), own_end(spec)),
    ]
}

/// The last bytes of a chunk: a hash of a window cuts after these bytes at any position. Prefers bytes that cut
/// at the minimum too.
fn own_end(spec: &ChunkerSpec) -> Vec<u8> {
    let chunker = spec.build_for(Isa::SCALAR);
    let (min, max) = (spec.min_len() as usize, chunker.max_len());
    let bytes = random(8, 64 * max);
    let mut at = 0;
    let mut ends = Vec::new();
    while at < bytes.len() {
        let len = chunker.cut(&bytes[at..]);
        at += len;
        if len < max {
            ends.push(&bytes[at.max(WINDOW) - WINDOW..at]);
        }
    }
    let cuts_early = |end: &&&[u8]| {
        let chunk = [&vec![0; min - WINDOW], **end, &[0]].concat();
        reference::cut(spec, &chunk) == min
    };
    let end = ends.iter().find(cuts_early).or_else(|| ends.first());
    end.map_or_else(|| random(9, WINDOW), |end| end.to_vec())
}

/// Rising bytes from 1 to 254, with runs of equal bytes if `len` is large.
fn slope(len: usize) -> Vec<u8> {
    (0..len).map(|n| (1 + 253 * n / (len - 1)) as u8).collect()
}

/// `len` bytes from a SplitMix64 generator.
pub(super) fn random(seed: u64, len: usize) -> Vec<u8> {
    let words = (1..=len.div_ceil(8) as u64).map(|n| {
        let state = (seed << 32).wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    let words = ["old ", "new ", "span ", "chunk ", "group ", "recipe ", "literal, ", "copy.\n"];
    let letters = random(seed, len).into_iter().flat_map(|n| words[usize::from(n % 8)].bytes());
    letters.take(len).collect()
}

/// Opcodes, registers and displacements with upper bytes of 0 or 255, as in x86 programs.
fn code(seed: u64, len: usize) -> Vec<u8> {
    let dice = random(seed, 3 * len);
    let (throws, _) = dice.as_chunks::<3>();
    let bytes = throws.iter().flat_map(|[kind, low, high]| {
        let sign = if kind & 8 == 0 { 0 } else { 255 };
        let (bytes, len) = match kind % 8 {
            0 => ([0xe8, *low, *high, sign, sign, 0, 0], 5),
            1 => ([0x48, 0x8b, 0x80 | (low % 8), *high, sign, sign, sign], 7),
            2 => ([0x0f, 0x84, *low, high % 4, 0, 0, 0], 6),
            3 => ([0x48, 0x89, low % 64, 0, 0, 0, 0], 3),
            4 => ([0xb8, *low, 0, 0, 0, 0, 0], 5),
            5 => ([0x55, 0x48, 0x89, 0xe5, 0, 0, 0], 4),
            6 => ([0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc], 1 + usize::from(low % 7)),
            _ => ([0x83, 0xc0 | (low % 8), high % 16, 0, 0, 0, 0], 3),
        };
        bytes.into_iter().take(len)
    });
    bytes.take(len).collect()
}

/// Random bytes with runs of zeros; both have random lengths below 256.
fn holes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = random(seed, len);
    let mut at = 0;
    for lens in random(seed + 1, len).chunks(2) {
        let start = len.min(at + usize::from(lens[0]));
        at = len.min(start + lens.last().map_or(0, |len| usize::from(*len)));
        bytes[start..at].fill(0);
    }
    bytes
}

/// Maximum distance from an edge to test: two of the longest vectors, plus two.
const NEAR: usize = 2 * MAX_LANES + 2;
/// Up to this chunk length all lengths and positions are tested.
const THICK_BYTES: usize = 16 << 10;
/// Longest window of any hash, in bytes.
const WINDOW: usize = 64;
