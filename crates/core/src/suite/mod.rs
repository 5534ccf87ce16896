//! Test suite for all forms of all chunkers (law 4). Library code, so that the suite runs on platforms without
//! tests.
//!
//! ```text
//! for each case:                    every instruction set  ==  portable code
//! for as many as are affordable:    portable code          ==  reference
//! ```
//!
//! The reference starts anew at each byte: for most algorithms it hashes a window there, for AE and RAM it
//! reads the whole chunk. So the reference judges all short or cheap cases and some of the others; for the
//! rest, portable code is the reference.

mod inputs;
mod operations;

pub use operations::check_operations;

use crate::chunk::{Algorithm, AnyChunker, Chunker, ChunkerSpec, FixedLen, Sizes};
use crate::reference;
use crate::simd::Isa;
use inputs::{CriticalLens, SuiteInput, deciders, inputs};

/// Error: a form of a chunker (for an instruction set, or portable) cuts at a wrong position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{spec:?} on {case}: {form} cuts after {found} bytes, {judge} after {expected}")]
pub struct FormMismatch {
    spec: ChunkerSpec,
    case: String,
    form: &'static str,
    found: usize,
    judge: &'static str,
    expected: usize,
}

/// Number of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonCounts {
    /// Number of comparisons of an instruction set with portable code.
    pub with_scalar: u64,
    /// Number of comparisons of portable code with the reference, on data longer than the minimum.
    pub with_reference: u64,
}

/// The chunkers to test: all algorithms, with narrow and wide ranges of sizes. Leaves out sizes for which the
/// reference is too slow.
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

/// Number of steps that the reference needs to test one possible boundary. A step takes about a nanosecond.
const fn steps_per_end(algorithm: Algorithm, sizes: Sizes) -> u64 {
    match algorithm {
        Algorithm::Crc => 2 * 256,
        // Computed bit by bit.
        Algorithm::Rabin | Algorithm::Tttd => 8 * 48,
        Algorithm::Gear | Algorithm::GearNc | Algorithm::FastCdc | Algorithm::FastCdcNc => 64,
        Algorithm::Sieve => 3 * 16,
        // Comparisons of bytes take at most an eighth of a step; AE usually needs only the first few.
        Algorithm::AeMax | Algorithm::AeMin => sizes.max() as u64 / 64,
        Algorithm::Ram => sizes.avg() as u64 / 8,
        // Usually only the first bytes of the two windows are compared.
        Algorithm::Maxp => 4,
        Algorithm::Seq => 1,
    }
}

/// Compares all forms of one chunker that this machine has.
///
/// # Errors
/// The first [`FormMismatch`] found.
pub fn check(spec: &ChunkerSpec) -> Result<ComparisonCounts, FormMismatch> {
    let edges = CriticalLens::of(spec);
    let mut forms = ChunkerForms::of(spec);
    check_lens(&mut forms, &inputs(spec, edges.longest() + STARTS), &edges)?;
    check_positions(&mut forms, deciders(spec, edges.longest()), &edges)?;
    Ok(forms.compared)
}

/// Cuts slices of all lengths, with starts of all alignments. Each input gets a share of the lengths.
fn check_lens(
    forms: &mut ChunkerForms<'_>,
    inputs: &[SuiteInput],
    edges: &CriticalLens,
) -> Result<(), FormMismatch> {
    let (lens, shares) = (edges.lens(), LEN_SHARES * edges.thinned());
    forms.judge_some_of(inputs.len() * lens.len().div_ceil(shares));
    for (turn, SuiteInput { name, bytes }) in inputs.iter().enumerate() {
        // The step is coprime to the number of shares, so all inputs begin at different lengths.
        let first = turn * (LEN_SHARES + 1) % shares;
        for (n, len) in lens.iter().enumerate().skip(first).step_by(shares) {
            let start = (turn + n) % STARTS;
            let case = || format!("{name}, {len} bytes from {start}");
            forms.compare(&bytes[start..start + len], &case)?;
        }
    }
    Ok(())
}

/// Tests the pairs of [`deciders`](inputs::deciders): writes the bytes at each position of the data. For long
/// chunks, each pair gets a share of the positions.
fn check_positions(
    forms: &mut ChunkerForms<'_>,
    deciders: Vec<(SuiteInput, Vec<u8>)>,
    edges: &CriticalLens,
) -> Result<(), FormMismatch> {
    let (positions, shares) = (edges.critical_positions(), edges.thinned());
    forms.judge_some_of(deciders.len() * positions.len().div_ceil(shares));
    for (turn, (SuiteInput { name, bytes: quiet }, loud)) in deciders.into_iter().enumerate() {
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
struct ChunkerForms<'a> {
    spec: &'a ChunkerSpec,
    scalar: AnyChunker,
    others: Vec<(Isa, AnyChunker)>,
    compared: ComparisonCounts,
    /// Number of steps that each case adds to `credit`.
    income: u64,
    /// Number of steps that the reference may still spend. The reference is skipped while `credit` is negative.
    credit: i64,
}

impl<'a> ChunkerForms<'a> {
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
            compared: ComparisonCounts::default(),
            income: 0,
            credit: 0,
        }
    }

    /// Distributes the reference's budget over the next `cases` cases.
    fn judge_some_of(&mut self, cases: usize) {
        self.income = REFERENCE_BUDGET / cases as u64;
        self.credit = 0;
    }

    /// Number of steps that the reference needs to find the boundary `end`.
    fn steps(&self, end: usize) -> u64 {
        match *self.spec {
            ChunkerSpec::Fixed(_) => 1,
            ChunkerSpec::ByContent(algorithm, sizes) => {
                steps_per_end(algorithm, sizes) * end as u64
            }
        }
    }

    fn compare(&mut self, data: &[u8], case: &dyn Fn() -> String) -> Result<(), FormMismatch> {
        let scalar = self.scalar.cut(data);
        let differ = |form, found, judge, expected| {
            Err(FormMismatch { spec: *self.spec, case: case(), form, found, judge, expected })
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

/// Minimum, average and maximum chunk lengths to test, in bytes. The mesh of the sieve is finer from 8 KiB on.
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
/// Number of inputs over which the lengths are distributed, for short chunks.
const LEN_SHARES: usize = 12;
/// Number of start offsets of slices: the longest vector, plus one.
const STARTS: usize = crate::simd::MAX_LANES + 1;
/// Steps that the reference may spend in each half of the suite: the lengths and the positions.
const REFERENCE_BUDGET: u64 = 150_000_000;
/// Maximum number of steps that the reference may need for one chunk. Chunkers above this maximum are not tested.
const LONGEST_CASE: u64 = 9_000_000;
