//! The suite for all forms of all chunkers (law 4): library code, so that it runs also where there are no tests.
//!
//! ```text
//! for each case:                    every instruction set  ==  plain Rust
//! for as many as can be afforded:   plain Rust             ==  reference
//! ```
//!
//! The reference begins anew at each byte: for most algorithms it hashes a window there, for AE and RAM it looks at
//! all of the chunk. So it judges all cases that are short or cheap and some of the others, where plain Rust stands
//! in for it.

mod inputs;
mod operations;

pub use operations::check_operations;

use crate::chunk::{Algorithm, AnyChunker, Chunker, ChunkerSpec, FixedLen, Sizes};
use crate::reference;
use crate::simd::Isa;
use inputs::{Edges, Input, deciders, inputs};

/// A form of a chunker that cuts elsewhere than it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{spec:?} on {case}: {form} cuts after {found} bytes, {judge} after {expected}")]
pub struct Mismatch {
    spec: ChunkerSpec,
    case: String,
    form: &'static str,
    found: usize,
    judge: &'static str,
    expected: usize,
}

/// Number of answers that were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Answers of an instruction set against those of plain Rust.
    pub with_scalar: u64,
    /// Answers of plain Rust against those of the reference, on bytes that go on past the minimum.
    pub with_reference: u64,
}

/// All chunkers, with sizes that leave much room, little, and none, as long as the reference can follow.
pub fn specs() -> impl Iterator<Item = ChunkerSpec> {
    let sizes = SIZES.map(|(min, avg, max)| Sizes::new(min, avg, max).expect("sizes rise"));
    let by_content = Algorithm::ALL.into_iter().flat_map(move |algorithm| {
        let affordable = move |sizes: &Sizes| {
            steps_per_end(algorithm, *sizes) * u64::from(sizes.max()) <= LONGEST_CASE
        };
        let sizes = sizes.into_iter().filter(affordable);
        sizes.map(move |sizes| ChunkerSpec::ByContent(algorithm, sizes))
    });
    let fixed = FixedLen::new(SIZES[2].0).map(ChunkerSpec::Fixed).expect("length is in range");
    std::iter::once(fixed).chain(by_content)
}

/// Cost of the reference for each byte that a chunk may end with, in steps of about a nanosecond.
const fn steps_per_end(algorithm: Algorithm, sizes: Sizes) -> u64 {
    match algorithm {
        Algorithm::Crc => 2 * 256,
        // Bit by bit.
        Algorithm::Rabin | Algorithm::Tttd => 8 * 48,
        Algorithm::Gear | Algorithm::GearNc | Algorithm::FastCdc | Algorithm::FastCdcNc => 64,
        Algorithm::Sieve => 3 * 16,
        // Comparisons of bytes, no more than an eighth of a step each; for AE most often only the first ones.
        Algorithm::AeMax | Algorithm::AeMin => sizes.max() as u64 / 64,
        Algorithm::Ram => sizes.avg() as u64 / 8,
        // Of two windows, most often only the first bytes.
        Algorithm::Maxp => 4,
        Algorithm::Seq => 1,
    }
}

/// Compares all forms that this machine has of one chunker.
///
/// # Errors
/// The first [`Mismatch`].
pub fn check(spec: &ChunkerSpec) -> Result<Compared, Mismatch> {
    let edges = Edges::of(spec);
    let mut forms = Forms::of(spec);
    check_lens(&mut forms, &inputs(spec, edges.longest() + STARTS), &edges)?;
    check_positions(&mut forms, deciders(spec, edges.longest()), &edges)?;
    Ok(forms.compared)
}

/// Cuts slices of all lengths, from starts that are aligned in all ways. Each input takes its share of the lengths.
fn check_lens(forms: &mut Forms<'_>, inputs: &[Input], edges: &Edges) -> Result<(), Mismatch> {
    let (lens, shares) = (edges.lens(), LEN_SHARES * edges.thinned());
    forms.judge_some_of(inputs.len() * lens.len().div_ceil(shares));
    for (turn, Input { name, bytes }) in inputs.iter().enumerate() {
        // A step that has no factor in common with the shares, so inputs start all over.
        let first = turn * (LEN_SHARES + 1) % shares;
        for (n, len) in lens.iter().enumerate().skip(first).step_by(shares) {
            let start = (turn + n) % STARTS;
            let case = || format!("{name}, {len} bytes from {start}");
            forms.compare(&bytes[start..start + len], &case)?;
        }
    }
    Ok(())
}

/// Moves what decides over bytes that do not. Where chunks are long, each takes its share of the positions.
fn check_positions(
    forms: &mut Forms<'_>,
    deciders: Vec<(Input, Vec<u8>)>,
    edges: &Edges,
) -> Result<(), Mismatch> {
    let (positions, shares) = (edges.positions(), edges.thinned());
    forms.judge_some_of(deciders.len() * positions.len().div_ceil(shares));
    for (turn, (Input { name, bytes: quiet }, loud)) in deciders.into_iter().enumerate() {
        let mut bytes = quiet.clone();
        for at in positions.iter().copied().skip(turn % shares).step_by(shares) {
            let end = bytes.len().min(at + loud.len());
            bytes[at..end].copy_from_slice(&loud[..end - at]);
            forms.compare(&bytes, &|| format!("{name} at {at}"))?;
            bytes[at..end].copy_from_slice(&quiet[at..end]);
        }
    }
    Ok(())
}

/// The forms of one chunker.
struct Forms<'a> {
    spec: &'a ChunkerSpec,
    scalar: AnyChunker,
    others: Vec<(Isa, AnyChunker)>,
    compared: Compared,
    /// Steps that each case earns the reference.
    income: u64,
    /// Steps earned and not spent. In debt, the reference waits.
    credit: i64,
}

impl<'a> Forms<'a> {
    fn of(spec: &'a ChunkerSpec) -> Self {
        let has_others = match spec {
            ChunkerSpec::Fixed(_) => false,
            ChunkerSpec::ByContent(algorithm, _) => algorithm.has_vector_form(),
        };
        let others = Isa::available().into_iter().filter(|isa| has_others && *isa != Isa::SCALAR);
        Self {
            spec,
            scalar: spec.build_for(Isa::SCALAR),
            others: others.map(|isa| (isa, spec.build_for(isa))).collect(),
            compared: Compared::default(),
            income: 0,
            credit: 0,
        }
    }

    /// Spreads the time of the reference over so many cases to come.
    fn judge_some_of(&mut self, cases: usize) {
        self.income = REFERENCE_BUDGET / cases as u64;
        self.credit = 0;
    }

    /// The steps of the reference to find an end.
    fn steps(&self, end: usize) -> u64 {
        match *self.spec {
            ChunkerSpec::Fixed(_) => 1,
            ChunkerSpec::ByContent(algorithm, sizes) => {
                steps_per_end(algorithm, sizes) * end as u64
            }
        }
    }

    fn compare(&mut self, data: &[u8], case: &dyn Fn() -> String) -> Result<(), Mismatch> {
        let scalar = self.scalar.cut(data);
        let differ = |form, found, judge, expected| {
            Err(Mismatch { spec: *self.spec, case: case(), form, found, judge, expected })
        };
        for (isa, form) in &self.others {
            let found = form.cut(data);
            if found != scalar {
                return differ(isa.name(), found, Isa::SCALAR.name(), scalar);
            }
        }
        self.compared.with_scalar += self.others.len() as u64;
        self.credit = self.credit.saturating_add_unsigned(self.income);
        if self.credit >= 0 {
            let expected = reference::cut(self.spec, data);
            if scalar != expected {
                return differ(Isa::SCALAR.name(), scalar, "the reference", expected);
            }
            self.compared.with_reference += u64::from(data.len() > self.spec.min_len() as usize);
            self.credit = self.credit.saturating_sub_unsigned(self.steps(expected)).min(0);
        }
        Ok(())
    }
}

/// Shortest, mean and longest chunks, in bytes. The sieve's mesh is finer from 8 KiB on.
const SIZES: [(u32, u32, u32); 9] = [
    (512, 512, 512),
    (512, 512, 600),
    (700, 1024, 1500),
    (512, 512, 4096),
    (513, 2048, 3001),
    (512, 1 << 12, 1 << 14),
    (2 << 10, 8 << 10, 32 << 10),
    (8 << 10, 32 << 10, 128 << 10),
    (128 << 10, 512 << 10, 512 << 10),
];
/// Among how many inputs the lengths are dealt out, where chunks are short.
const LEN_SHARES: usize = 12;
/// Starts of slices: a vector's worth and one.
const STARTS: usize = crate::simd::MAX_LANES + 1;
/// Steps of the reference for one half of the suite.
const REFERENCE_BUDGET: u64 = 150_000_000;
/// Steps of the reference for one chunk, at most.
const LONGEST_CASE: u64 = 9_000_000;
