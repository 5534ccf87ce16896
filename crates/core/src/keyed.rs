//! A keyed hash at memory speed, which proves equality between two ends that share a fresh secret.
//!
//! BLAKE3 resists an attacker who chooses bytes *after* seeing everything, and is slower for that. Here the key
//! is drawn once the bytes exist. Then two different strings have equal sums with a small probability, for any
//! author of the strings (docs/decisions/0014). A sum is worthless under another key, and proves nothing to a
//! party that did not hold the key.
//!
//! # The sum
//!
//! BLAKE3 expands the key ([`KeyedSum::with_engine`]) to a point `p` of GF(2^128) and to rows of 64-bit words. Numbers
//! are little-endian polynomials over GF(2), lowest bit first; the field polynomial is `x^128 + x^7 + x^2 + x +
//! 1`.
//!
//! ```text
//! rows     the input in rows of ROW_BYTES. If the input does not end with a row, the last row is the last ROW_BYTES
//!          of the input, and overlaps the row before. Shorter input is one row, padded with zeros; empty input has no row.
//! pages    the rows in pages of PAGE_ROWS; the last page may be shorter. Row r of a page is pairs (u, v) of words.
//! inner    A = sum of (u + a) * (v + b) over all pairs of the page, where (a, b) is the same pair of key row r
//!          B = the same with key row r + 1                              two polynomials of degree below 127, not reduced
//! outer    sum = A1 p^(2n+1) + B1 p^2n + … + An p^3 + Bn p^2 + len p     in the field, for n pages and len bytes
//! ```
//!
//! # The bound
//!
//! Let `a, b, p` be uniform and independent. For two different strings and any `d`, `P[sum ^ sum' = d] <= (2n +
//! 2) / 2^128`, where n is the number of pages of the longer string. A string of the maximum chunk length has
//! 128 pages, so the bound is below `2^-119`. A collision is the case `d = 0`. As the bound holds for every
//! `d`, any `t` bits of the sum collide with at most `2^(128-t)` times the bound, and tables may use a part of
//! a sum.
//!
//! *Different lengths.* The outer polynomials differ in the coefficient of `p`. Their sum plus `d` is a nonzero
//! polynomial in `p` of degree at most `2n + 1`, so this polynomial has at most `2n + 1` roots.
//!
//! *Equal lengths.* The rows determine the bytes, so some page has a pair that differs.
//!
//! 1. If A or B of that page differs, the argument above holds, given the key rows.
//! 2. A and B both agree with probability at most `2^-128`. Let u or v differ in pair q of row r, and let no
//!    later pair differ. In `A + A'` products of key words cancel, so `A + A'` is linear in the key: `(u + u')
//!    b + (v + v') a` of pair q, plus terms without these two key words. Polynomials have no zero divisors, so
//!    for given other words at most one b (or a) makes `A + A'` zero: `P[A = A'] <= 2^-64`. `A + A'` does not
//!    depend on key words after pair q of row r. `B + B'` is linear in the words of pair q in row r + 1 in the
//!    same way, and these words are still uniform given `A + A'`: `P[B = B' | A = A'] <= 2^-64`.
//!
//! This is the Toeplitz argument of UMAC for NH; NH without carries is the CLNH of Lemire and Kaser's CLHASH.
//!
//! The words are derived, not uniform. The bound holds except for the advantage of an attacker who can
//! distinguish BLAKE3's output from random bits without the key.

use std::fmt;

use crate::simd::carryless::{
    Carryless, CarrylessKernel, MultiplierWitness, PortableMultiplier, ROW_BYTES, Row,
};

/// Length of a sum in bytes.
pub const SUM_BYTES: usize = 16;

/// Length of a [`Key`] in bytes.
pub const KEY_BYTES: usize = 32;

/// The secret of one session: random bytes, drawn after the bytes to be summed were fixed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key with these `bytes`, which must be random and secret. Every value is valid.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Derives the session key from this key, which the sender drew. The receiver adds nothing: the sender may
    /// name chunks before the receiver's first message, and a malicious sender could choose the names of chunks
    /// anyway.
    #[must_use]
    pub fn for_session(self) -> Self {
        Self(blake3::derive_key(SESSION_CONTEXT, &self.0))
    }

    /// Returns the name under this key of the content with this BLAKE3 `digest`. The first half of a name suffices to
    /// compare contents: without the key, nobody can choose two contents whose names begin alike.
    #[must_use]
    pub fn content_name(&self, digest: &[u8; 32]) -> [u8; 32] {
        blake3::keyed_hash(&blake3::derive_key(CONTENT_CONTEXT, &self.0), digest).into()
    }

    /// A seed derived from the key, for hashes that need a seed only.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let derived = blake3::derive_key(SEED_CONTEXT, &self.0);
        u64::from_le_bytes(*derived.first_chunk().expect("a derived key has 32 bytes"))
    }
}

const SESSION_CONTEXT: &str = "deltic 2026 session";
const SEED_CONTEXT: &str = "deltic 2026 seed";
const CONTENT_CONTEXT: &str = "deltic 2026 content";

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Computes keyed sums under one key.
#[derive(Clone)]
pub struct KeyedSum {
    engine: CarrylessEngine,
    secrets: Box<ExpandedKey>,
}

impl KeyedSum {
    /// Expands `key`, in some microseconds, for the fastest [`CarrylessEngine`] of this machine.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        Self::with_engine(key, CarrylessEngine::best())
    }

    /// As [`KeyedSum::new`] with an engine that tests and benchmarks choose.
    #[must_use]
    pub fn with_engine(key: &Key, engine: CarrylessEngine) -> Self {
        Self { engine, secrets: Box::new(ExpandedKey::of(key)) }
    }

    /// True if this machine has an instruction for carry-less multiplication. Without that instruction a sum
    /// takes longer than a BLAKE3 hash, and a peer should not be offered keyed sums.
    #[must_use]
    pub fn is_fast() -> bool {
        CarrylessEngine::best() != CarrylessEngine::PORTABLE
    }

    /// The sum of `bytes`, which may have any length.
    #[must_use]
    pub fn sum(&self, bytes: &[u8]) -> [u8; SUM_BYTES] {
        self.engine.0.run(SumKernel { secrets: &self.secrets, bytes })
    }
}

impl fmt::Debug for KeyedSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedSum({:?}, secret)", self.engine)
    }
}

/// A carry-less multiplier: an instruction set, or portable Rust. All engines give the same sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CarrylessEngine(MultiplierWitness);

impl CarrylessEngine {
    /// Portable Rust, available on every machine.
    pub const PORTABLE: Self = Self(MultiplierWitness::Portable(PortableMultiplier));

    /// The engines of this machine, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        MultiplierWitness::detect_all().into_iter().map(Self).collect()
    }

    /// The fastest engine of this machine.
    #[must_use]
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// Name of the engine.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }
}

impl fmt::Debug for CarrylessEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Rows in a page. Longer pages need fewer outer products, but a longer key, which shares the L1 cache with the
/// input.
const PAGE_ROWS: usize = 64;

/// BLAKE3 context for the expansion of the key. Another text gives other sums.
const CONTEXT: &str = "deltic 2026 keyed sum";

/// The expanded key. Each row lies in its own cache line.
#[derive(Clone)]
#[repr(C, align(64))]
struct ExpandedKey {
    rows: [Row; PAGE_ROWS + 1],
    /// `powers[n]` is `p^(n + 1)`.
    powers: [u128; 4],
}

impl ExpandedKey {
    fn of(key: &Key) -> Self {
        let mut stream = blake3::Hasher::new_derive_key(CONTEXT).update(&key.0).finalize_xof();
        let mut point = [0; SUM_BYTES];
        let mut rows = [[0; ROW_BYTES]; PAGE_ROWS + 1];
        stream.fill(rows.as_flattened_mut());
        stream.fill(&mut point);
        let mut powers = [u128::from_le_bytes(point); 4];
        for n in 1..powers.len() {
            powers[n] = PortableMultiplier.dot([(powers[n - 1], powers[0])]);
        }
        Self { rows, powers }
    }
}

/// A kernel that computes the sum of `bytes`.
struct SumKernel<'a> {
    secrets: &'a ExpandedKey,
    bytes: &'a [u8],
}

impl CarrylessKernel for SumKernel<'_> {
    type Output = [u8; SUM_BYTES];

    /// Horner's rule, one page at a time. Each page depends on the page before by one product only.
    #[inline(always)]
    fn run<C: Carryless>(self, carryless: C) -> [u8; SUM_BYTES] {
        let (rows, rest) = self.bytes.as_chunks();
        let mut padded = [0; ROW_BYTES];
        let last_row = match self.bytes.last_chunk() {
            _ if rest.is_empty() => None,
            Some(row) => Some(row),
            None => {
                padded[..rest.len()].copy_from_slice(rest);
                Some(&padded)
            }
        };
        let row_count = rows.len() + usize::from(last_row.is_some());
        let (first_rows, rows) = rows.split_at(row_count.saturating_sub(1) / PAGE_ROWS * PAGE_ROWS);

        let [p1, p2, p3, p4] = self.secrets.powers.map(|power| carryless.element(power));
        let mut before = carryless.element(0);
        for page in first_rows.chunks_exact(PAGE_ROWS) {
            let [a, b] = self.sum_page(carryless, page, None);
            before = carryless.add(carryless.dot([(before, p2), (a, p1)]), b);
        }
        let [a, b] = self.sum_page(carryless, rows, last_row);
        let len = carryless.element(self.bytes.len() as u128);
        carryless.bits(carryless.dot([(before, p4), (a, p3), (b, p2), (len, p1)])).to_le_bytes()
    }
}

impl SumKernel<'_> {
    /// A and B of the page of `rows`, followed by `last_row`.
    #[inline(always)]
    fn sum_page<C: Carryless>(
        &self,
        carryless: C,
        rows: &[Row],
        last_row: Option<&Row>,
    ) -> [C::Element; 2] {
        let keys = &self.secrets.rows;
        let [mut a, mut b] = [carryless.zero(); 2];
        for (row, key) in rows.iter().zip(keys.windows(2)) {
            a = carryless.add_pairs(a, row, &key[0]);
            b = carryless.add_pairs(b, row, &key[1]);
        }
        if let Some(row) = last_row {
            a = carryless.add_pairs(a, row, &keys[rows.len()]);
            b = carryless.add_pairs(b, row, &keys[rows.len() + 1]);
        }
        [carryless.total(a), carryless.total(b)]
    }
}
