//! The oracle: everything again, slow and obvious, from the definitions in the module documents (law 4).
//!
//! For tests and benches only; nothing here shares code with what it judges, but for the plain data types.

use crate::chunk::{Algorithm, ChunkerSpec, Sizes};
use crate::delta::Op;
use crate::fingerprint::{Fingerprint, ShortFingerprint};
use crate::recipe::{Chunk, Digest, Group};
use crate::span::Span;

/// The length of the first chunk of `data`.
#[must_use]
pub fn cut(spec: &ChunkerSpec, data: &[u8]) -> usize {
    let max = data.len().min(spec.max_len() as usize);
    let backup = match spec {
        ChunkerSpec::ByContent(Algorithm::Tttd, sizes) => tttd_backup(*sizes, &data[..max]),
        _ => max,
    };
    let ends = |len: usize| match spec {
        ChunkerSpec::Fixed(_) => false,
        ChunkerSpec::ByContent(algorithm, sizes) => match algorithm {
            Algorithm::GearNc => normalised_ends(*sizes, &data[..len], gear_hash(&data[..len])),
            Algorithm::Gear => gear_ends(*sizes, &data[..len], gear_hash(&data[..len])),
            Algorithm::FastCdc => gear_ends(*sizes, &data[..len], cold_hash(*sizes, &data[..len])),
            Algorithm::FastCdcNc => {
                normalised_ends(*sizes, &data[..len], cold_hash(*sizes, &data[..len]))
            }
            Algorithm::Ram => ram_ends(*sizes, &data[..len]),
            Algorithm::Crc => crc_ends(*sizes, &data[..len]),
            Algorithm::Rabin | Algorithm::Tttd => rabin_ends(*sizes, &data[..len], wait(*sizes)),
            Algorithm::Sieve => sieve_ends(*sizes, &data[..len]),
        },
    };
    (1..max).find(|len| ends(*len)).unwrap_or(backup)
}

/// In how many bytes past the minimum a chunk without normalised sizes should end.
fn wait(sizes: Sizes) -> u64 {
    (sizes.avg() - sizes.min()).max(1).into()
}

fn gear_ends(sizes: Sizes, chunk: &[u8], hash: u64) -> bool {
    chunk.len() >= sizes.min() as usize && hash <= u64::MAX / wait(sizes)
}

fn normalised_ends(sizes: Sizes, chunk: &[u8], hash: u64) -> bool {
    let bits = sizes.avg().ilog2();
    let zeros = if chunk.len() <= sizes.avg() as usize { bits + 2 } else { bits - 2 };
    chunk.len() >= sizes.min() as usize && hash.leading_zeros() >= zeros
}

/// The gear hash that begins at the first byte a chunk may end with.
fn cold_hash(sizes: Sizes, chunk: &[u8]) -> u64 {
    gear_hash(&chunk[chunk.len().min(sizes.min() as usize - 1)..])
}

/// The gear hash of the last 64 bytes of `data`.
#[must_use]
pub fn gear_hash(data: &[u8]) -> u64 {
    let window = data.iter().rev().take(64).enumerate();
    window.fold(0, |sum, (age, byte)| sum.wrapping_add(gear(*byte) << age))
}

/// The number for one byte value: SplitMix64's answer number `byte`, counted from 0.
fn gear(byte: u8) -> u64 {
    split_mix(0x6465_6c74_6975, byte.into())
}

/// SplitMix64's answer number `n`, counted from 0.
fn split_mix(seed: u64, n: u64) -> u64 {
    let state = seed.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn crc_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let highest = u64::from(u32::MAX);
    chunk.len() >= sizes.min() as usize
        && u64::from(crc(&chunk[chunk.len() - 256..])) >= highest - highest / wait(sizes)
}

/// The register of CRC-32C after `data`, bit by bit.
fn crc(data: &[u8]) -> u32 {
    let bits = data.iter().flat_map(|byte| (0..8).map(move |n| u32::from(byte >> n & 1)));
    bits.fold(0, |register, bit| {
        let carry = (register ^ bit) & 1;
        (register >> 1) ^ (carry * 0x82f6_3b78)
    })
}

fn rabin_ends(sizes: Sizes, chunk: &[u8], wait: u64) -> bool {
    let highest = (1 << 53) - 1;
    chunk.len() >= sizes.min() as usize
        && rabin(&chunk[chunk.len() - 48..]) >= highest - highest / wait
}

/// `data` as a polynomial, the highest power first, modulo an irreducible one: long division, bit by bit.
fn rabin(data: &[u8]) -> u64 {
    let bits = data.iter().flat_map(|byte| (0..8).rev().map(move |n| u64::from(byte >> n & 1)));
    bits.fold(0, |remainder, bit| {
        let longer = remainder << 1 | bit;
        longer.min(longer ^ 0x0025_a5b6_82de_b26d)
    })
}

/// Where the chunk `data` ends that no main divisor did, if it is not the last of the file.
fn tttd_backup(sizes: Sizes, data: &[u8]) -> usize {
    let backup = |len: &usize| rabin_ends(sizes, &data[..*len], wait(sizes).div_ceil(2));
    let full = data.len() == sizes.max() as usize;
    (1..=data.len()).rev().find(|len| full && backup(len)).unwrap_or(data.len())
}

fn ram_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let window = (sizes.avg() as usize - 256).max(sizes.min() as usize - 1);
    chunk.len() > window && Some(&chunk[chunk.len() - 1]) >= chunk[..window].iter().max()
}

fn sieve_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let bits = sizes.avg().ilog2() - 8;
    let zeros = if chunk.len() <= sizes.avg() as usize { bits + 2 } else { bits.max(2) - 2 };
    chunk.len() >= sizes.min() as usize
        && sieve_gear(&chunk[chunk.len() - 8..]) == 0
        && sieve_hash(&chunk[chunk.len() - 32..]).leading_zeros() >= zeros
}

fn sieve_gear(window: &[u8]) -> u8 {
    let table: Vec<u8> = (0..4).flat_map(|n| split_mix(SIEVE_SEED, n).to_le_bytes()).collect();
    let term = |byte: &u8| table[usize::from(byte % 16)] ^ table[16 + usize::from(byte / 16)];
    window.iter().fold(0, |sum: u8, byte| sum.wrapping_mul(2).wrapping_add(term(byte)))
}

fn sieve_hash(window: &[u8]) -> u64 {
    let word = |n: usize| (0..8).fold(0, |sum, m| sum | u64::from(window[8 * n + m]) << (8 * m));
    let key = |n: usize| split_mix(SIEVE_SEED, 4 + n as u64) | 1;
    (0..4).fold(0, |sum: u64, n| sum.wrapping_add(key(n).wrapping_mul(word(n))))
}

const SIEVE_SEED: u64 = 0x6465_6c74_6965;

/// All chunks of the file `data`.
#[must_use]
pub fn chunks(spec: &ChunkerSpec, mut data: &[u8]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while !data.is_empty() {
        let (chunk, rest) = data.split_at(cut(spec, data));
        chunks.push(Chunk { len: chunk.len() as u32, fingerprint: Fingerprint::of(chunk) });
        data = rest;
    }
    chunks
}

/// All groups of the file that consists of `chunks`.
#[must_use]
pub fn groups(chunks: &[Chunk]) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut open: Vec<Chunk> = Vec::new();
    for (n, chunk) in chunks.iter().enumerate() {
        open.push(*chunk);
        let marked = chunk.fingerprint.as_bytes()[0].is_multiple_of(16);
        if marked || open.len() == 64 || n + 1 == chunks.len() {
            groups.push(group(&open));
            open.clear();
        }
    }
    groups
}

fn group(chunks: &[Chunk]) -> Group {
    let mut bytes = Vec::new();
    for chunk in chunks {
        bytes.extend_from_slice(&chunk.len.to_le_bytes());
        bytes.extend_from_slice(chunk.fingerprint.as_bytes());
    }
    Group {
        len: chunks.iter().map(|chunk| u64::from(chunk.len)).sum(),
        chunks: chunks.len() as u32,
        fingerprint: Fingerprint::from_bytes(blake3::derive_key("deltic 2026 group", &bytes)),
    }
}

/// The digest of the file that consists of `chunks`.
#[must_use]
pub fn digest(chunks: &[Chunk]) -> Digest {
    let mut bytes = Vec::new();
    for group in groups(chunks) {
        bytes.extend_from_slice(&group.len.to_le_bytes());
        bytes.extend_from_slice(group.fingerprint.as_bytes());
    }
    let len: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
    bytes.extend_from_slice(&len.to_le_bytes());
    Digest::from_bytes(blake3::derive_key("deltic 2026 recipe", &bytes))
}

/// Which of `known` an index finds: the one right after `after` where it is equal, else the first that is.
#[must_use]
pub fn find_chunk(
    known: &[Chunk],
    short: ShortFingerprint,
    len: u32,
    after: Option<usize>,
) -> Option<usize> {
    let equal = |chunk: &Chunk| chunk.fingerprint.short() == short && chunk.len == len;
    let neighbour = after.map(|n| n + 1).filter(|n| known.get(*n).is_some_and(equal));
    neighbour.or_else(|| known.iter().position(equal))
}

/// Which bytes of a file are covered: one flag each.
#[derive(Clone, Debug)]
pub struct CoverMap(Vec<bool>);

impl CoverMap {
    /// Nothing of `len` bytes is covered.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self(vec![false; len])
    }

    /// Covers `len` bytes from `start`; whether that was allowed.
    pub fn add(&mut self, start: usize, len: usize) -> bool {
        let run = self.0.get_mut(start..start.saturating_add(len));
        let free = run.filter(|run| !run.contains(&true));
        free.map(|run| run.fill(true)).is_some()
    }

    /// How many bytes are not covered.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.0.iter().filter(|covered| !**covered).count() as u64
    }
}

/// What `ops` make of `old`, with literals from `new`. Zeros where no step wrote.
///
/// # Panics
/// Where a step reaches beyond either version.
#[must_use]
pub fn apply(ops: &[Op], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut made = vec![0; new.len()];
    for op in ops {
        match op {
            Op::Copy { old: span, new_start } => {
                let new_span = Span::new(*new_start, span.len);
                made[range(new_span)].copy_from_slice(&old[range(*span)]);
            }
            Op::Literal { new: span } => made[range(*span)].copy_from_slice(&new[range(*span)]),
        }
    }
    made
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end() as usize
}
