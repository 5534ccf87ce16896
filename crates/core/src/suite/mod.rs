//! One suite for all forms of all chunkers (law 4): library code, so that it runs also where there are no tests.
//!
//! ```text
//! for each case:                    every instruction set  ==  plain Rust
//! for as many as can be afforded:   plain Rust             ==  reference
//! ```
//!
//! The reference looks at all of a chunk again for each of its bytes. So it judges all cases of short chunks and few of
//! long ones, where plain Rust stands in for it.

mod inputs;
mod operations;

pub use operations::check_operations;

use crate::chunk::{Algorithm, AnyChunker, Chunker, ChunkerSpec, Sizes};
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

/// How many answers were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Those of an instruction set with those of plain Rust.
    pub with_scalar: u64,
    /// Those of plain Rust with those of the reference.
    pub with_reference: u64,
}

/// All chunkers, with sizes that leave much room, little, and none.
pub fn specs() -> impl Iterator<Item = ChunkerSpec> {
    let sizes = SIZES.map(|(min, avg, max)| Sizes::new(min, avg, max).expect("sizes rise"));
    let with_sizes = move |algorithm| sizes.map(|sizes| ChunkerSpec::ByContent(algorithm, sizes));
    Algorithm::ALL.into_iter().flat_map(with_sizes)
}

/// Compares all forms that this machine has of one chunker.
///
/// # Errors
/// The first [`Mismatch`].
pub fn check(spec: &ChunkerSpec) -> Result<Compared, Mismatch> {
    let edges = Edges::of(spec);
    let mut forms = Forms::of(spec);
    check_lens(&mut forms, &inputs(spec, edges.longest() + STARTS), &edges.lens())?;
    check_positions(&mut forms, deciders(spec, edges.longest()), &edges.positions())?;
    Ok(forms.compared)
}

/// Cuts slices of all lengths, from starts that are aligned in all ways. Each input takes its share of the lengths.
fn check_lens(forms: &mut Forms<'_>, inputs: &[Input], lens: &[usize]) -> Result<(), Mismatch> {
    forms.judge_some_of(inputs.len() * lens.len().div_ceil(SHARES));
    for (turn, Input { name, bytes }) in inputs.iter().enumerate() {
        for (n, len) in lens.iter().enumerate().skip(turn % SHARES).step_by(SHARES) {
            let start = (turn + n) % STARTS;
            let case = || format!("{name}, {len} bytes from {start}");
            forms.compare(&bytes[start..start + len], &case)?;
        }
    }
    Ok(())
}

/// Moves what decides over bytes that do not.
fn check_positions(
    forms: &mut Forms<'_>,
    deciders: Vec<(Input, Vec<u8>)>,
    positions: &[usize],
) -> Result<(), Mismatch> {
    forms.judge_some_of(deciders.len() * positions.len());
    for (Input { name, bytes: quiet }, loud) in deciders {
        let mut bytes = quiet.clone();
        for at in positions.iter().copied() {
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
    /// The reference judges one case in so many.
    one_in: u64,
    /// Cases until then.
    left: u64,
}

impl<'a> Forms<'a> {
    fn of(spec: &'a ChunkerSpec) -> Self {
        let others = Isa::available().into_iter().filter(|isa| *isa != Isa::SCALAR);
        Self {
            spec,
            scalar: spec.build_for(Isa::SCALAR),
            others: others.map(|isa| (isa, spec.build_for(isa))).collect(),
            compared: Compared::default(),
            one_in: 1,
            left: 1,
        }
    }

    /// Spreads the time of the reference over so many cases to come.
    fn judge_some_of(&mut self, cases: usize) {
        let cost = u64::from(self.spec.max_len()).pow(2);
        // Odd, so that lengths and positions take turns.
        self.one_in = (cases as u64 * cost).div_ceil(REFERENCE_BUDGET) | 1;
        self.left = self.one_in;
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
        self.left -= 1;
        if self.left == 0 {
            let expected = reference::cut(self.spec, data);
            if scalar != expected {
                return differ(Isa::SCALAR.name(), scalar, "the reference", expected);
            }
            self.compared.with_reference += 1;
            self.left = self.one_in;
        }
        Ok(())
    }
}

/// Shortest, mean and longest chunks, in bytes.
const SIZES: [(u32, u32, u32); 6] = [
    (512, 512, 512),
    (512, 512, 600),
    (700, 1024, 1500),
    (512, 512, 4096),
    (513, 2048, 3001),
    (512, 1 << 12, 1 << 14),
];
/// Among how many inputs the lengths are dealt out.
const SHARES: usize = 12;
/// Starts of slices: a vector's worth and one.
const STARTS: usize = crate::simd::MAX_LANES + 1;
/// How many bytes the reference may look at for one half of the suite, if it looks at all of a chunk for each.
const REFERENCE_BUDGET: u64 = 1_200_000_000;
