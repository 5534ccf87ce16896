//! Chunk boundaries and lengths, and the bytes left after deduplication.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use deltic_core::chunk::{TwoStage, cut_all};
use deltic_core::{AtEnd, Chunker, ChunkerSpec, Fingerprint, Isa};

use crate::exit::shown;
use crate::inputs::{InputFile, Inputs};

/// An implementation of a chunker (*form*). Each form must find the same chunks as the plain form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OtherForm {
    /// The form for an instruction set.
    Form(Isa),
    /// Two stages (SS-CDC) with an instruction set.
    Stages(TwoStage, Isa),
}

/// The chunks that a chunker finds in all inputs. Each file is cut separately.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutStats {
    /// Lengths of all chunks in bytes, sorted.
    lens: Vec<u32>,
    /// Bytes of chunks that no earlier input has, for each input.
    pub(crate) new_in: Vec<u64>,
}

impl CutStats {
    /// Cuts `inputs` with the plain form of `spec`, and checks that each of `others` finds the same chunks.
    pub(crate) fn of(
        spec: &ChunkerSpec,
        inputs: &Inputs,
        others: &[OtherForm],
    ) -> Result<Self, FormMismatch> {
        let (mut cuts, mut known) = (Self::default(), HashSet::new());
        for input in &inputs.list {
            let mut new = 0;
            for file in &input.files {
                let bounds = bounds(&spec.build_for(Isa::SCALAR), &file.bytes);
                others.iter().try_for_each(|other| check(spec, other, file, &bounds))?;
                for chunk in pieces(&file.bytes, &bounds) {
                    cuts.lens.push(chunk.len() as u32);
                    if known.insert(Fingerprint::of(chunk)) {
                        new += chunk.len() as u64;
                    }
                }
            }
            cuts.new_in.push(new);
        }
        cuts.lens.sort_unstable();
        Ok(cuts)
    }

    /// Returns the total length of all chunks in bytes.
    pub(crate) fn original(&self) -> u64 {
        self.lens.iter().map(|len| u64::from(*len)).sum()
    }

    /// Returns the total length of the distinct chunks in bytes.
    pub(crate) fn deduplicated(&self) -> u64 {
        self.new_in.iter().sum()
    }

    /// Returns the space savings in percent (VectorCDC, equation 1).
    pub(crate) fn savings(&self) -> f64 {
        let (original, deduplicated) = (self.original() as f64, self.deduplicated() as f64);
        if original > 0.0 { (original - deduplicated) / original * 100.0 } else { 0.0 }
    }

    /// Returns the number of chunks.
    pub(crate) fn count(&self) -> usize {
        self.lens.len()
    }

    /// Returns the mean chunk length in bytes.
    pub(crate) fn mean(&self) -> f64 {
        self.original() as f64 / self.count().max(1) as f64
    }

    /// Returns the standard deviation of the chunk lengths in bytes.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.lens.iter().map(|len| (f64::from(*len) - mean).powi(2));
        (squares.sum::<f64>() / self.count().max(1) as f64).sqrt()
    }

    /// Returns the chunk length in bytes that `percent` percent of the chunks do not exceed. 0 returns the shortest.
    pub(crate) fn percentile(&self, percent: usize) -> u32 {
        percentile(&self.lens, percent)
    }

    /// Returns the number of chunks up to `len` bytes long.
    pub(crate) fn up_to(&self, len: u32) -> usize {
        self.lens.partition_point(|other| *other <= len)
    }
}

/// Returns the value that `percent` percent of `sorted` do not exceed (nearest rank).
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns all boundaries of `bytes`: 0 and the end of each chunk.
pub(crate) fn bounds(chunker: &impl Chunker, bytes: &[u8]) -> Vec<usize> {
    let (mut bounds, mut end) = (vec![0], 0);
    cut_all(chunker, bytes, AtEnd::Yes, |chunk| {
        end += chunk.len();
        bounds.push(end);
    });
    bounds
}

/// Iterates over the chunks between `bounds`.
pub(crate) fn pieces<'a>(bytes: &'a [u8], bounds: &[usize]) -> impl Iterator<Item = &'a [u8]> {
    bounds.windows(2).map(|ends| &bytes[ends[0]..ends[1]])
}

/// Cuts `file` with another form, and fails at the first chunk that differs from `bounds`.
fn check(
    spec: &ChunkerSpec,
    other: &OtherForm,
    file: &InputFile,
    bounds: &[usize],
) -> Result<(), FormMismatch> {
    let wanted = bounds.windows(2).map(|ends| (ends[0], ends[1] - ends[0]));
    let (how, found) = match *other {
        OtherForm::Form(isa) => {
            let chunker = spec.build_for(isa);
            let cut = |(start, wanted)| (start, wanted, chunker.cut(&file.bytes[start..]));
            (isa.name().into(), wanted.map(cut).find(differs))
        }
        OtherForm::Stages(stages, isa) => {
            let mut lens = Vec::new();
            stages.cuts(&file.bytes, &mut lens);
            // A missing chunk counts as a chunk of length 0.
            let lens = lens.into_iter().map(|len| len as usize).chain([0]);
            let mut both = wanted.chain([(file.bytes.len(), 0)]).zip(lens);
            let found =
                both.find_map(|((start, wanted), len)| Some((start, wanted, len)).filter(differs));
            (format!("{} in two stages", isa.name()), found)
        }
    };
    found.map_or(Ok(()), |(start, wanted, len)| {
        Err(FormMismatch { spec: *spec, how, path: file.path.clone(), start, len, wanted })
    })
}

/// True if the length of a chunk differs.
fn differs((_, wanted, len): &(usize, usize, usize)) -> bool {
    wanted != len
}

/// Error: two forms of a chunker found different chunks.
#[derive(Clone, Debug)]
pub(crate) struct FormMismatch {
    spec: ChunkerSpec,
    /// Instruction set and number of stages.
    how: String,
    path: PathBuf,
    start: usize,
    len: usize,
    wanted: usize,
}

impl std::error::Error for FormMismatch {}

impl fmt::Display for FormMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, how, path, start, len, wanted } = self;
        let path = shown(path);
        write!(
            f,
            "cut {path} by {spec:?} with {how}: the chunk at byte {start} has {len} bytes, "
        )?;
        write!(f, "with plain Rust {wanted}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Input;
    use crate::random::Random;
    use deltic_core::chunk::FixedLen;
    use deltic_core::{Algorithm, Sizes};

    fn inputs(list: &[&[u8]]) -> Inputs {
        let input = |bytes: &&[u8]| {
            let file = InputFile { path: "x".into(), bytes: bytes.to_vec() };
            Input { name: "x".into(), files: vec![file] }
        };
        Inputs { list: list.iter().map(input).collect(), ..Inputs::default() }
    }

    fn fixed() -> ChunkerSpec {
        ChunkerSpec::Fixed(FixedLen::new(1024).unwrap())
    }

    #[test]
    fn the_same_input_twice_saves_half() {
        let data = Random::new(1).bytes(100_000);
        let sizes = Sizes::new(512, 1024, 4096).unwrap();
        let by_content = Algorithm::ALL.map(|algorithm| ChunkerSpec::ByContent(algorithm, sizes));
        for spec in by_content.into_iter().chain([fixed()]) {
            let others = Isa::available().into_iter().map(OtherForm::Form).collect::<Vec<_>>();
            let cuts = CutStats::of(&spec, &inputs(&[&data, &data]), &others).unwrap();
            assert_eq!((cuts.savings(), &cuts.new_in[..]), (50.0, &[100_000, 0][..]), "{spec:?}");
        }
    }

    #[test]
    fn an_input_adds_the_chunks_that_earlier_inputs_lack() {
        let (a, b) = (Random::new(1).bytes(4096), Random::new(2).bytes(4096));
        let both = [&a[..], &b].concat();
        let cuts = CutStats::of(&fixed(), &inputs(&[&a, &both, &b]), &[]).unwrap();
        assert_eq!(cuts.new_in, [4096, 4096, 0]);
        assert_eq!((cuts.original(), cuts.deduplicated(), cuts.savings()), (16384, 8192, 50.0));
    }

    #[test]
    fn lengths_are_described_from_the_shortest_to_the_longest() {
        let cuts = CutStats::of(&fixed(), &inputs(&[&[0; 3 * 1024 + 24]]), &[]).unwrap();
        assert_eq!((cuts.count(), cuts.mean()), (4, 774.0));
        assert_eq!([0, 25, 26, 100].map(|percent| cuts.percentile(percent)), [24, 24, 1024, 1024]);
        assert!((cuts.deviation() - 433.01).abs() < 0.01, "{}", cuts.deviation());
        assert_eq!([23, 24, 1023, 1024].map(|len| cuts.up_to(len)), [0, 1, 1, 4]);
    }

    #[test]
    fn two_stages_with_different_chunks_are_reported() {
        let data = Random::new(1).bytes(200_000);
        let spec =
            |avg, max| ChunkerSpec::ByContent(Algorithm::Gear, Sizes::new(512, avg, max).unwrap());
        let of = |other: &ChunkerSpec| {
            let isas = Isa::available().into_iter();
            let stages = isas.map(|isa| OtherForm::Stages(TwoStage::new(other, isa).unwrap(), isa));
            CutStats::of(&spec(1024, 4096), &inputs(&[&data]), &stages.collect::<Vec<_>>())
        };
        assert!(of(&spec(1024, 4096)).is_ok());
        for other in [spec(2048, 4096), spec(1024, 2048)] {
            let told = of(&other).unwrap_err().to_string();
            assert!(told.contains("with scalar in two stages: the chunk at byte "), "{told}");
        }
    }

    #[test]
    fn empty_inputs_have_no_figures() {
        let cuts = CutStats::of(&fixed(), &inputs(&[]), &[]).unwrap();
        assert_eq!((cuts.count(), cuts.savings(), cuts.mean()), (0, 0.0, 0.0));
        assert_eq!((cuts.percentile(50), cuts.deviation()), (0, 0.0));
    }
}
