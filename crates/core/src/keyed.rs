//! A keyed sum of bytes at the speed of memory: proof of equality between two ends that share a fresh secret.
//!
//! BLAKE3 resists whoever chooses bytes *after* seeing everything; it costs for that. Here the key is drawn once the
//! bytes are there, and then two different strings have one sum with a small probability, whoever chose them
//! (docs/decisions/0014). The sum is worth nothing for another key, and proves nothing to somebody who did not hold
//! it.
//!
//! # The sum
//!
//! BLAKE3 expands the key ([`KeyedSum::with`]) to a point `p` of GF(2^128) and to rows of words of 64 bits. Numbers are
//! little-endian polynomials over GF(2), lowest bit first; the field is that of `x^128 + x^7 + x^2 + x + 1`.
//!
//! ```text
//! rows     the bytes in rows of ROW_BYTES; the last row is the last ROW_BYTES of the bytes, even if it repeats some of
//!          the row before. Fewer bytes than that are one row, with zeros behind them; no bytes are no row.
//! pages    the rows in pages of PAGE_ROWS, the last one shorter. Row r of a page is pairs (u, v) of words.
//! inner    A = sum of (u + a) * (v + b) over all pairs of the page, where (a, b) is the pair of key row r there
//!          B = the same with key row r + 1                              two polynomials of degree below 127, not reduced
//! outer    sum = A1 p^(2n+1) + B1 p^2n + … + An p^3 + Bn p^2 + len p     in the field, for n pages and len bytes
//! ```
//!
//! # The bound
//!
//! Let `a, b, p` be uniform and independent, and take two different strings and any `d`. Then `P[sum ^ sum' = d] <=
//! (2n + 2) / 2^128`, with n pages in the longer one: a string of the longest chunk has 128 pages, and the bound is
//! below `2^-119`. With `d = 0` that is a collision. That it holds for every `d` makes any `t` bits of the sum
//! collide with `2^(128-t)` times the bound at most: tables may use part of a sum.
//!
//! *Different lengths.* The outer polynomials differ in the coefficient of `p`. Their sum plus `d` is a polynomial in
//! `p` that is not zero, of degree `2n + 1` at most, and has no more zeros than that.
//!
//! *Equal lengths.* The rows tell the bytes apart, so some page has a pair that differs. (1) If its A or B differs,
//! the same argument holds, given the rows of the key. (2) Both agree with probability `2^-128` at most: say that u,
//! or else v, differs in pair q of row r, and that no later pair differs. In `A + A'` products of key words cancel,
//! so it is linear in the key; it is `(u + u') b + (v + v') a` of pair q plus what does not depend on these. So for
//! given other words at most one b (or a) makes it zero, as polynomials have no divisors of zero: `P[A = A'] <=
//! 2^-64`. `A + A'` knows no words of the key behind those of pair q in row r. `B + B'` is linear in those of pair q
//! in row r + 1 in the same way: whatever `A + A'` is, they are still uniform, and `P[B = B' | A = A'] <= 2^-64`.
//! (That is the Toeplitz argument of UMAC for its NH; without carries NH is the CLNH of Lemire and Kaser's CLHASH.)
//!
//! The words are not uniform but derived: the bound holds but for what somebody could gain by telling BLAKE3's output
//! from random bits, without its key.

use std::fmt;

use crate::simd::carryless::{Carryless, Kernel, Portable, ROW_BYTES, Row, Witness};

/// Length of a sum in bytes.
pub const SUM_BYTES: usize = 16;

/// Length of a [`Key`] in bytes.
pub const KEY_BYTES: usize = 32;

/// Secret random bytes of one session, drawn after the bytes to be summed were fixed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key that was drawn, or received, as `bytes`. Any will do; nobody else may know them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key of the session whose sender drew this one. The sender alone is enough to make it new: it may name
    /// chunks by it before it has heard the receiver, and one of bad will could choose what it names anyway.
    #[must_use]
    pub fn for_session(self) -> Self {
        Self(blake3::derive_key(SESSION_CONTEXT, &self.0))
    }

    /// A number that belongs to the key, for sums that need no more than a seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let derived = blake3::derive_key(SEED_CONTEXT, &self.0);
        u64::from_le_bytes(*derived.first_chunk().expect("there are eight bytes"))
    }
}

const SESSION_CONTEXT: &str = "deltic 2026 session";
const SEED_CONTEXT: &str = "deltic 2026 seed";

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Takes sums under one key.
#[derive(Clone)]
pub struct KeyedSum {
    engine: Engine,
    secrets: Box<Secrets>,
}

impl KeyedSum {
    /// For `key`, by the fastest means of this machine. Expands the key: some microseconds.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        Self::with(key, Engine::best())
    }

    /// The same by means of the caller's choice, for tests and benches.
    #[must_use]
    pub fn with(key: &Key, engine: Engine) -> Self {
        Self { engine, secrets: Box::new(Secrets::of(key)) }
    }

    /// True if this machine multiplies without carries by an instruction. Where it does not, a sum takes longer than
    /// a BLAKE3 hash, and a peer should not be offered one.
    #[must_use]
    pub fn is_fast() -> bool {
        Engine::best() != Engine::PORTABLE
    }

    /// The sum of `bytes`, of any length.
    #[must_use]
    pub fn sum(&self, bytes: &[u8]) -> [u8; SUM_BYTES] {
        self.engine.0.run(Sum { secrets: &self.secrets, bytes })
    }
}

impl fmt::Debug for KeyedSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedSum({:?}, secret)", self.engine)
    }
}

/// Multiplier: instructions of the processor, or plain Rust. All give the same sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Engine(Witness);

impl Engine {
    /// Plain Rust: every machine has it.
    pub const PORTABLE: Self = Self(Witness::Portable(Portable));

    /// All that this machine has, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Witness::detect_all().into_iter().map(Self).collect()
    }

    /// The fastest that this machine has.
    #[must_use]
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Rows in a page. More make the outer polynomial rarer and the key longer, which shares the first cache with the
/// bytes.
const PAGE_ROWS: usize = 64;

/// Names the key's expansion: another text gives other sums.
const CONTEXT: &str = "deltic 2026 keyed sum";

/// Rows that a key is expanded to. Each row lies in a cache line of its own.
#[derive(Clone)]
#[repr(C, align(64))]
struct Secrets {
    rows: [Row; PAGE_ROWS + 1],
    /// `powers[n]` is `p^(n + 1)`.
    powers: [u128; 4],
}

impl Secrets {
    fn of(key: &Key) -> Self {
        let mut stream = blake3::Hasher::new_derive_key(CONTEXT).update(&key.0).finalize_xof();
        let mut point = [0; SUM_BYTES];
        let mut rows = [[0; ROW_BYTES]; PAGE_ROWS + 1];
        stream.fill(rows.as_flattened_mut());
        stream.fill(&mut point);
        let mut powers = [u128::from_le_bytes(point); 4];
        for n in 1..powers.len() {
            powers[n] = Portable.dot([(powers[n - 1], powers[0])]);
        }
        Self { rows, powers }
    }
}

/// The sum of `bytes`, as a kernel.
struct Sum<'a> {
    secrets: &'a Secrets,
    bytes: &'a [u8],
}

impl Kernel for Sum<'_> {
    type Output = [u8; SUM_BYTES];

    /// Horner's rule, a page at a time, so that one page waits for the one before with one product only.
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
            let [a, b] = self.page(carryless, page, None);
            before = carryless.add(carryless.dot([(before, p2), (a, p1)]), b);
        }
        let [a, b] = self.page(carryless, rows, last_row);
        let len = carryless.element(self.bytes.len() as u128);
        carryless.bits(carryless.dot([(before, p4), (a, p3), (b, p2), (len, p1)])).to_le_bytes()
    }
}

impl Sum<'_> {
    /// A and B of the page that consists of `rows` and, behind them, of `last_row`.
    #[inline(always)]
    fn page<C: Carryless>(
        &self,
        carryless: C,
        rows: &[Row],
        last_row: Option<&Row>,
    ) -> [C::Element; 2] {
        let keys = &self.secrets.rows;
        let [mut a, mut b] = [carryless.nothing(); 2];
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
