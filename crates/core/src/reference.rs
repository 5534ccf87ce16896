//! Reference implementations: slow and obvious, written from the definitions in the module documents (law 4).
//!
//! For tests and benchmarks only. Nothing here shares code with the tested implementation, except for plain
//! data types.

use std::cmp::Ordering;
use std::sync::LazyLock;

use crate::chunk::{Algorithm, ChunkerSpec, Sizes};
use crate::delta::DeltaOp;
use crate::fingerprint::{ChunkPrefix, Fingerprint};
use crate::recipe::{Chunk, Digest, Group};
use crate::span::Span;

/// The length of the first chunk of `data`.
#[must_use]
pub fn cut(spec: &ChunkerSpec, data: &[u8]) -> usize {
    let data = &data[..data.len().min(spec.max_len() as usize)];
    let first = |ends: fn(Sizes, &[u8]) -> bool, sizes| {
        (1..data.len()).find(|len| ends(sizes, &data[..*len]))
    };
    let found = match *spec {
        ChunkerSpec::Fixed(_) => None,
        ChunkerSpec::ByContent(algorithm, sizes) => match algorithm {
            Algorithm::Crc => first(crc_ends, sizes),
            Algorithm::Rabin => first(rabin_ends, sizes),
            Algorithm::Tttd => {
                first(rabin_ends, sizes).or_else(|| last_tttd_backup_boundary(sizes, data))
            }
            Algorithm::Gear => first(gear_ends, sizes),
            Algorithm::GearNc => first(gear_nc_ends, sizes),
            Algorithm::FastCdc => first(fastcdc_ends, sizes),
            Algorithm::FastCdcNc => first(fastcdc_nc_ends, sizes),
            Algorithm::AeMax => first(ae_max_ends, sizes),
            Algorithm::AeMin => first(ae_min_ends, sizes),
            Algorithm::Ram => first(ram_ends, sizes),
            Algorithm::Maxp => maxp_cut(sizes, data),
            Algorithm::Seq => seq_cut(sizes, data),
            Algorithm::Sieve => first(sieve_ends, sizes),
        },
    };
    found.unwrap_or(data.len())
}

/// Expected number of bytes between the minimum and a boundary, without normalised sizes.
fn expected_wait(sizes: Sizes) -> u64 {
    (sizes.avg() - sizes.min()).max(1).into()
}

fn gear_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    is_small(sizes, chunk, gear_hash(chunk))
}

fn gear_nc_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    is_small_nc(sizes, chunk, gear_hash(chunk))
}

fn fastcdc_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    is_small(sizes, chunk, cold_hash(sizes, chunk))
}

fn fastcdc_nc_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    is_small_nc(sizes, chunk, cold_hash(sizes, chunk))
}

fn is_small(sizes: Sizes, chunk: &[u8], hash: u64) -> bool {
    chunk.len() >= sizes.min() as usize && hash <= u64::MAX / expected_wait(sizes)
}

/// With normalised sizes: two more bits before the average, two fewer after it.
fn is_small_nc(sizes: Sizes, chunk: &[u8], hash: u64) -> bool {
    let bits = sizes.avg().ilog2();
    let zeros = if chunk.len() <= sizes.avg() as usize { bits + 2 } else { bits - 2 };
    chunk.len() >= sizes.min() as usize && hash.leading_zeros() >= zeros
}

/// The Gear hash that begins at the first byte that may end a chunk.
fn cold_hash(sizes: Sizes, chunk: &[u8]) -> u64 {
    gear_hash(&chunk[chunk.len().min(sizes.min() as usize - 1)..])
}

/// The gear hash of the last 64 bytes of `data`.
#[must_use]
pub fn gear_hash(data: &[u8]) -> u64 {
    /// A number for each byte value.
    static GEAR: LazyLock<[u64; 256]> =
        LazyLock::new(|| std::array::from_fn(|byte| split_mix(0x6465_6c74_6975, byte as u64)));
    let gear = &*GEAR;
    let window = data.iter().rev().take(64).enumerate();
    window.fold(0, |sum, (age, byte)| sum.wrapping_add(gear[usize::from(*byte)] << age))
}

/// Output number `n` of SplitMix64, counted from 0.
fn split_mix(seed: u64, n: u64) -> u64 {
    let state = seed.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn crc_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let highest = u64::from(u32::MAX);
    chunk.len() >= sizes.min() as usize
        && u64::from(crc(&chunk[chunk.len() - 256..])) >= highest - highest / expected_wait(sizes)
}

/// The CRC-32C register after `data`, from 0 and not inverted.
fn crc(data: &[u8]) -> u32 {
    static LOWEST: LazyLock<[u32; 256]> =
        LazyLock::new(|| std::array::from_fn(|byte| zero_byte(byte as u32)));
    let lowest = &*LOWEST;
    data.iter().fold(0, |register, byte| {
        let register = register ^ u32::from(*byte);
        lowest[register as usize % 256] ^ register >> 8
    })
}

fn rabin_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    chunk.len() >= sizes.min() as usize && is_high(chunk, expected_wait(sizes))
}

/// True if the fingerprint of the last 48 bytes is in the highest `1 / of` of all values.
fn is_high(chunk: &[u8], of: u64) -> bool {
    let highest = (1 << 53) - 1;
    rabin(&chunk[chunk.len() - 48..]) >= highest - highest / of
}

/// `data` as a polynomial, the highest power first, modulo an irreducible polynomial: bitwise long division.
fn rabin(data: &[u8]) -> u64 {
    let next = |remainder: u64, bit: u8| {
        let longer = remainder << 1 | u64::from(bit);
        longer.min(longer ^ 0x0025_a5b6_82de_b26d)
    };
    data.iter().fold(0, |remainder, byte| {
        [7, 6, 5, 4, 3, 2, 1, 0].iter().fold(remainder, |sum, n| next(sum, byte >> n & 1))
    })
}

/// The last backup boundary of `data`, a chunk of maximum length without a main boundary.
fn last_tttd_backup_boundary(sizes: Sizes, data: &[u8]) -> Option<usize> {
    let ends = sizes.min() as usize..=data.len();
    let is_backup = |len: &usize| is_high(&data[..*len], expected_wait(sizes).div_ceil(2));
    let full = data.len() == sizes.max() as usize;
    ends.rev().filter(|_| full).find(is_backup)
}

fn ram_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let window = (sizes.avg() as usize - 256).max(sizes.min() as usize - 1);
    chunk.len() > window && Some(&chunk[chunk.len() - 1]) >= chunk[..window].iter().max()
}

fn ae_max_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    ae_ends(sizes, chunk, |byte| byte)
}

fn ae_min_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    ae_ends(sizes, chunk, |byte| 255 - byte)
}

fn ae_ends(sizes: Sizes, chunk: &[u8], rank: fn(u8) -> u8) -> bool {
    let window = (sizes.avg() as usize - 256).max(sizes.min() as usize - 1);
    chunk.len().checked_sub(window + 1).is_some_and(|at| {
        let top = rank(chunk[at]);
        chunk[..at].iter().all(|byte| rank(*byte) < top)
            && chunk[at + 1..].iter().all(|byte| rank(*byte) <= top)
    })
}

fn maxp_cut(sizes: Sizes, data: &[u8]) -> Option<usize> {
    let window = maxp_window(sizes);
    let peak = |at: usize| {
        data[at + 1..=at + window].iter().all(|byte| *byte < data[at])
            && data[at - window..at].iter().all(|byte| *byte <= data[at])
    };
    let first = window.max(sizes.min() as usize - 1);
    (first..data.len().saturating_sub(window)).find(|at| peak(*at)).map(|at| at + 1)
}

fn maxp_window(sizes: Sizes) -> usize {
    let next = |(rise, fall): &(u64, u64)| Some((rise + rise / 255, fall - fall / 256));
    let powers = std::iter::successors(Some((1 << 32, 1 << 32)), next);
    let mean = |(window, (rise, fall)): (u64, (u64, u64))| {
        let wait = ((rise - fall) >> 24).saturating_sub(window);
        (window + 1).max(sizes.min().into()) + wait
    };
    let means = (0..).zip(powers).skip(1).map(mean);
    1 + means.take_while(|mean| *mean < sizes.avg().into()).count()
}

fn seq_cut(sizes: Sizes, data: &[u8]) -> Option<usize> {
    let skip = (sizes.avg() - sizes.min()).saturating_sub(870) * 100 / 825;
    let (mut at, mut ups, mut downs) = (sizes.min() as usize, 0, 0);
    while at < data.len() {
        match data[at].cmp(&data[at - 1]) {
            Ordering::Greater => ups += 1,
            Ordering::Equal => {}
            Ordering::Less => (ups, downs) = (0, downs + 1),
        }
        at += 1;
        if ups == 5 {
            return Some(at);
        }
        if downs == 50 {
            (at, downs) = (at + skip as usize, 0);
        }
    }
    None
}

fn sieve_ends(sizes: Sizes, chunk: &[u8]) -> bool {
    let bits = sizes.avg().ilog2();
    let more = bits.clamp(12, 20) - 12;
    let zeros = if chunk.len() <= sizes.avg() as usize { bits + 2 } else { bits - 2 };
    let sums = |len| sieve_sum(&chunk[chunk.len() - len..]);
    chunk.len() >= sizes.min() as usize
        && sums(16) == 0
        && sums(8).leading_zeros() >= more
        && sieve_hash(&chunk[chunk.len() - 32..]).leading_zeros() >= zeros.max(8 + more) - 8 - more
}

/// The sum of the terms of `window`, by doubling.
fn sieve_sum(window: &[u8]) -> u8 {
    static TABLE: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..4).flat_map(|n| split_mix(SIEVE_SEED, n).to_le_bytes()).collect());
    if let [byte] = window {
        return TABLE[usize::from(byte % 16)] ^ TABLE[16 + usize::from(byte / 16)];
    }
    let half = window.len() / 2;
    let turn = if half == 8 { 1 } else { half as u32 };
    sieve_sum(&window[half..]).wrapping_add(sieve_sum(&window[..half]).rotate_left(turn))
}

fn sieve_hash(window: &[u8]) -> u64 {
    let word = |n: usize| (0..8).fold(0, |sum, m| sum | u64::from(window[8 * n + m]) << (8 * m));
    let key = |n: usize| split_mix(SIEVE_SEED, 4 + n as u64) | 1;
    (0..4).fold(0, |sum: u64, n| sum.wrapping_add(key(n).wrapping_mul(word(n))))
}

const SIEVE_SEED: u64 = 0x6465_6c74_6963;

/// The chunks of the file `data`.
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

/// The groups of a file with these `chunks`.
#[must_use]
pub fn groups(chunks: &[Chunk]) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut open: Vec<Chunk> = Vec::new();
    for (n, chunk) in chunks.iter().enumerate() {
        open.push(*chunk);
        let marked = chunk.fingerprint.as_bytes()[0].is_multiple_of(32);
        if marked || open.len() == 128 || n + 1 == chunks.len() {
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

/// The digest of a file with these `chunks`.
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

/// The chunk of `known` that an index finds: the one right after `after` if it matches, else the first match.
#[must_use]
pub fn find_chunk(
    known: &[Chunk],
    prefix: ChunkPrefix,
    len: u32,
    after: Option<usize>,
) -> Option<usize> {
    let equal = |chunk: &Chunk| prefix.is_prefix_of(&chunk.fingerprint) && chunk.len == len;
    let neighbour = after.map(|n| n + 1).filter(|n| known.get(*n).is_some_and(equal));
    neighbour.or_else(|| known.iter().position(equal))
}

/// CRC-32C of `data`, one bit at a time.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |register, byte| zero_byte(register ^ u32::from(*byte)))
}

/// The sum of two adjacent byte strings with the sums `first` and `next`; the second has `next_len` bytes.
///
/// The register is linear in the input. So the result is the register after the first string and `next_len`
/// zeros, XOR a value that depends on the second string only.
#[must_use]
pub fn crc32c_concat(first: u32, next: u32, next_len: u64) -> u32 {
    let bytes = !next ^ zero_bytes(!0, next_len);
    !(zero_bytes(!first, next_len) ^ bytes)
}

/// The CRC-32C register after one zero byte.
fn zero_byte(register: u32) -> u32 {
    (0..8).fold(register, |register, _| (register >> 1) ^ (0x82f6_3b78 * (register & 1)))
}

/// The register after `len` zero bytes. Zeros change a register linearly, so the images of its 32 bits suffice.
fn zero_bytes(register: u32, len: u64) -> u32 {
    let bits = |register: u32| (0..32).filter(move |bit| register >> bit & 1 == 1);
    let image = |map: &[u32], register| bits(register).fold(0, |sum, bit| sum ^ map[bit]);
    let mut map: Vec<u32> = (0..32).map(|bit| zero_byte(1 << bit)).collect();
    let mut register = register;
    for bit in 0..u64::BITS {
        if len >> bit & 1 == 1 {
            register = image(&map, register);
        }
        map = map.iter().map(|register| image(&map, *register)).collect();
    }
    register
}

/// Sum of a block of a gap, at its full length of three bytes.
#[must_use]
pub fn gap_sum(block: &[u8], seed: u64) -> u32 {
    let k = split_mix(seed, 0) / 8 * 8 + 5;
    let word = |bytes: &[u8]| {
        let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        word ^ word >> 32
    };
    let hash =
        block.chunks(8).fold(0u64, |hash, bytes| hash.wrapping_add(word(bytes)).wrapping_mul(k));
    (hash >> 40) as u32
}

/// For each byte of a new gap, the old byte from which it is copied.
#[must_use]
pub fn gap_sources(old: &[u8], new: &[u8], len: usize, seed: u64) -> Vec<Option<usize>> {
    let blocks: Vec<&[u8]> = old.chunks(len).collect();
    let is_short = len == 32;
    let gap_sum = |block: &[u8]| gap_sum(block, seed) >> if is_short { 8 } else { 0 };
    let sums: Vec<u32> = blocks.iter().map(|block| gap_sum(block)).collect();
    let is = |at: usize, block: usize, limit: usize| {
        let Some(bytes) = blocks.get(block) else { return false };
        let end = at + bytes.len();
        end <= limit && gap_sum(&new[at..end]) == sums[block]
    };
    let mut sources = vec![None; new.len()];
    let mut copy = |at: usize, block: usize| {
        let bytes = (0..blocks[block].len()).map(|n| (at + n, block * len + n));
        bytes.for_each(|(to, from)| sources[to] = Some(from));
    };
    let (mut at, mut block) = (0, 0);
    let (mut back, mut back_block, mut middle) = (new.len(), blocks.len(), None);
    let mut forgotten = Vec::new();
    loop {
        while is(at, block, back) {
            copy(at, block);
            (at, block) = (at + blocks[block].len(), block + 1);
        }
        let near = || block..back_block.min(block + 5);
        let unshifted = near().skip(1).map(|next| (at + (next - block) * len, next));
        let to_end = near().map(|next| ((new.len() + next * len).checked_sub(old.len()), next));
        let to_end = to_end.filter_map(|(at, next)| Some((at?, next)));
        let ahead = to_end.filter(|place| place.0 >= at);
        if let Some(found) = unshifted.chain(ahead).find(|place| is(place.0, place.1, back)) {
            (at, block) = found;
            continue;
        }
        if middle.is_none() {
            while back_block > block
                && let Some(start) = back.checked_sub(blocks[back_block - 1].len())
                && start >= at
                && is(start, back_block - 1, back)
            {
                (back, back_block) = (start, back_block - 1);
                copy(back, back_block);
            }
            middle = Some(block..back_block.min((old.len() / len).saturating_sub(1)));
        }
        let middle = middle.clone().unwrap_or_default();
        let windows = at..(back + 1).saturating_sub(2 * len);
        let worth = middle.len() >= 4 && back - at >= 4 * len;
        let found = windows.filter(|_| worth).find_map(|at| {
            let sum = gap_sum(&new[at..at + len]);
            let first = middle.clone().find(|n| sums[*n] == sum && !forgotten.contains(&sum))?;
            let follows = is(at + len, first + 1, back);
            if !follows && !is_short {
                forgotten.push(sum);
            }
            follows.then_some((at, first))
        });
        let Some(found) = found else { return sources };
        (at, block) = found;
    }
}

/// The keyed sum of `data`: coefficients first, then Horner's rule.
#[must_use]
pub fn keyed_sum(key: &[u8; 32], data: &[u8]) -> [u8; 16] {
    let mut secret = vec![0; 65 * 64 + 16];
    blake3::Hasher::new_derive_key("deltic 2026 keyed sum")
        .update(key)
        .finalize_xof()
        .fill(&mut secret);
    let (keys, point) = secret.split_at(65 * 64);
    let point = u128::from_le_bytes(point.try_into().expect("sixteen bytes are left"));
    let mut coefficients = Vec::new();
    for page in rows_of(data).chunks(64) {
        coefficients.extend([
            sum_of_pair_products(&page.concat(), keys),
            sum_of_pair_products(&page.concat(), &keys[64..]),
        ]);
    }
    coefficients.extend([data.len() as u128, 0]);
    coefficients.iter().fold(0, |sum, next| multiply_in_field(sum, point) ^ next).to_le_bytes()
}

/// `data` in rows of 64 bytes. The last row is the last 64 bytes, or all of `data` padded with zeros.
fn rows_of(data: &[u8]) -> Vec<Vec<u8>> {
    let ends = (1..=data.len().div_ceil(64)).map(|n| (64 * n).min(data.len()));
    let row = |end: usize| {
        let mut row = data[end.saturating_sub(64)..end].to_vec();
        row.resize(64, 0);
        row
    };
    ends.map(row).collect()
}

/// The sum of the products of pairs of words, after XOR of each word with a word of `keys`.
fn sum_of_pair_products(page: &[u8], keys: &[u8]) -> u128 {
    let word = |n: usize| {
        (0..8).fold(0, |word, m| word | u64::from(page[8 * n + m] ^ keys[8 * n + m]) << (8 * m))
    };
    (0..page.len() / 16)
        .fold(0, |sum, n| sum ^ multiply_without_carries(word(2 * n), word(2 * n + 1)))
}

/// The product of two polynomials over GF(2).
fn multiply_without_carries(a: u64, b: u64) -> u128 {
    let bits = (0..64).filter(|bit| b >> bit & 1 == 1);
    bits.fold(0, |product, bit| product ^ u128::from(a) << bit)
}

/// `a * b` modulo `x^128 + x^7 + x^2 + x + 1`, from the highest power of `b` to the lowest.
#[must_use]
pub fn multiply_in_field(a: u128, b: u128) -> u128 {
    (0..128).rev().fold(0, |product, bit| {
        let carried = product << 1 ^ if product >> 127 == 1 { 0x87 } else { 0 };
        carried ^ if b >> bit & 1 == 1 { a } else { 0 }
    })
}

/// rsync's rolling sum of `data`.
#[must_use]
pub fn adler(data: &[u8]) -> u32 {
    let signed = |byte: &u8| i64::from(*byte as i8);
    let a: i64 = data.iter().map(signed).sum();
    let b: i64 = data.iter().rev().zip(1..).map(|(byte, weight)| weight * signed(byte)).sum();
    (a.rem_euclid(1 << 16) | b.rem_euclid(1 << 16) << 16) as u32
}

/// FastFP(+`stride`) of a chunk by NetSync's algorithm. A stride of one is FastFP.
#[must_use]
pub fn fast_fp(chunk: &[u8], stride: usize) -> u32 {
    let (mut hash, mut sum) = (0u32, 0u32);
    for (end, byte) in (1..).zip(chunk) {
        hash = (hash << 1).wrapping_add(gear_hash(&[*byte]) as u32);
        if end % stride == 0 || end == chunk.len() {
            sum = sum.wrapping_add(hash);
        }
    }
    sum
}

/// LastFP of a chunk.
#[must_use]
pub fn last_fp(chunk: &[u8]) -> u32 {
    (gear_hash(chunk) >> 32) as u32
}

/// Finds blocks of `old` in `new` by comparing bytes. With `neighbours`, the block after the last match precedes the
/// first equal block right behind this match. Returns pairs of block number and offset.
#[must_use]
pub fn search(old: &[u8], new: &[u8], block_len: usize, neighbours: bool) -> Vec<(usize, usize)> {
    let blocks: Vec<&[u8]> = old.chunks(block_len).collect();
    let (mut found, mut at, mut open): (Vec<(usize, usize)>, _, _) = (Vec::new(), 0, 0);
    while at + block_len <= new.len() {
        let equal = |block: &usize| blocks.get(*block) == Some(&&new[at..at + block_len]);
        let follows =
            |(block, place): &(usize, usize)| (at - place == block_len).then_some(block + 1);
        let expected = found.last().filter(|_| neighbours).and_then(follows).filter(equal);
        if let Some(block) = expected.or_else(|| (0..blocks.len()).find(equal)) {
            found.push((block, at));
            at += block_len;
            open = at;
        } else {
            at += 1;
        }
    }
    let short = blocks.last().filter(|block| block.len() < block_len && new.ends_with(block));
    let place = short.map(|block| new.len() - block.len()).filter(|place| *place >= open);
    found.extend(place.map(|place| (blocks.len() - 1, place)));
    found
}

/// Covered bytes of a file, one flag for each byte.
#[derive(Clone, Debug)]
pub struct CoverMap(Vec<bool>);

impl CoverMap {
    /// A map of `len` bytes without covered bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self(vec![false; len])
    }

    /// Marks `len` bytes from `start` as covered. Returns false, without effect, if a byte is covered or out of
    /// range.
    pub fn add(&mut self, start: usize, len: usize) -> bool {
        let run = self.0.get_mut(start..start.saturating_add(len));
        let free = run.filter(|run| !run.contains(&true));
        free.map(|run| run.fill(true)).is_some()
    }

    /// Number of bytes that are not covered.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.0.iter().filter(|covered| !**covered).count() as u64
    }
}

/// The bytes that `ops` make from `old`, with literals from `new`. Other bytes are zeros.
///
/// # Panics
/// If an operation reaches past the end of a version.
#[must_use]
pub fn apply(ops: &[DeltaOp], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut made = vec![0; new.len()];
    for op in ops {
        match op {
            DeltaOp::Copy { old: span, new_start } => {
                let new_span = Span::new(*new_start, span.len);
                made[byte_range(new_span)].copy_from_slice(&old[byte_range(*span)]);
            }
            DeltaOp::Literal { new: span } => {
                made[byte_range(*span)].copy_from_slice(&new[byte_range(*span)])
            }
        }
    }
    made
}

fn byte_range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end() as usize
}
