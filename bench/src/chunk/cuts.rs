//! Ends and lengths of chunks, and the bytes that are left when equal chunks are kept once.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use deltic_core::chunk::{TwoStage, cut_all};
use deltic_core::{AtEnd, Chunker, ChunkerSpec, Fingerprint, Isa};

use crate::exit::shown;
use crate::inputs::{Bytes, Inputs};

/// A form that must find the chunks of a chunker's plain form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    /// Another form.
    Form(Isa),
    /// Two stages, with an instruction set.
    Stages(TwoStage, Isa),
}

/// The chunks that one chunker makes of all inputs. Each file is cut on its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts {
    /// Length of every chunk, in bytes, the shortest first.
    lens: Vec<u32>,
    /// Bytes of chunks that no input before had, for each input.
    pub(crate) new_in: Vec<u64>,
}

impl Cuts {
    /// Cuts `inputs` as `spec` says, in its plain form, and checks that each of `others` does the same.
    pub(crate) fn of(
        spec: &ChunkerSpec,
        inputs: &Inputs,
        others: &[Other],
    ) -> Result<Self, Mismatch> {
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

    /// Bytes of all chunks.
    pub(crate) fn original(&self) -> u64 {
        self.lens.iter().map(|len| u64::from(*len)).sum()
    }

    /// Bytes of the chunks that differ.
    pub(crate) fn deduplicated(&self) -> u64 {
        self.new_in.iter().sum()
    }

    /// Space savings in per cent (VectorCDC, equation 1).
    pub(crate) fn savings(&self) -> f64 {
        let (original, deduplicated) = (self.original() as f64, self.deduplicated() as f64);
        if original > 0.0 { (original - deduplicated) / original * 100.0 } else { 0.0 }
    }

    /// Counts the chunks.
    pub(crate) fn count(&self) -> usize {
        self.lens.len()
    }

    /// Their mean length in bytes.
    pub(crate) fn mean(&self) -> f64 {
        self.original() as f64 / self.count().max(1) as f64
    }

    /// The standard deviation of their lengths in bytes.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self.lens.iter().map(|len| (f64::from(*len) - mean).powi(2));
        (squares.sum::<f64>() / self.count().max(1) as f64).sqrt()
    }

    /// The length in bytes that so many in a hundred chunks do not exceed; 0 asks for the shortest.
    pub(crate) fn percentile(&self, percent: usize) -> u32 {
        percentile(&self.lens, percent)
    }

    /// Counts the chunks that are no longer than `len` bytes.
    pub(crate) fn up_to(&self, len: u32) -> usize {
        self.lens.partition_point(|other| *other <= len)
    }
}

/// The value that so many in a hundred of `sorted` do not exceed (nearest rank).
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// All boundaries of `bytes`: 0, and the end of each chunk.
pub(crate) fn bounds(chunker: &impl Chunker, bytes: &[u8]) -> Vec<usize> {
    let (mut bounds, mut end) = (vec![0], 0);
    cut_all(chunker, bytes, AtEnd::Yes, |chunk| {
        end += chunk.len();
        bounds.push(end);
    });
    bounds
}

/// The chunks between `bounds`.
pub(crate) fn pieces<'a>(bytes: &'a [u8], bounds: &[usize]) -> impl Iterator<Item = &'a [u8]> {
    bounds.windows(2).map(|ends| &bytes[ends[0]..ends[1]])
}

/// Cuts `file` again, and finds the first chunk that does not lie between `bounds`.
fn check(
    spec: &ChunkerSpec,
    other: &Other,
    file: &Bytes,
    bounds: &[usize],
) -> Result<(), Mismatch> {
    let wanted = bounds.windows(2).map(|ends| (ends[0], ends[1] - ends[0]));
    let (how, found) = match *other {
        Other::Form(isa) => {
            let chunker = spec.build_for(isa);
            let cut = |(start, wanted)| (start, wanted, chunker.cut(&file.bytes[start..]));
            (isa.name().into(), wanted.map(cut).find(differs))
        }
        Other::Stages(stages, isa) => {
            let mut lens = Vec::new();
            stages.cuts(&file.bytes, &mut lens);
            // Who has no more chunks has one of no bytes.
            let lens = lens.into_iter().map(|len| len as usize).chain([0]);
            let mut both = wanted.chain([(file.bytes.len(), 0)]).zip(lens);
            let found =
                both.find_map(|((start, wanted), len)| Some((start, wanted, len)).filter(differs));
            (format!("{} in two stages", isa.name()), found)
        }
    };
    found.map_or(Ok(()), |(start, wanted, len)| {
        Err(Mismatch { spec: *spec, how, path: file.path.clone(), start, len, wanted })
    })
}

/// True if a chunk, by its start, is not as long as wanted.
fn differs((_, wanted, len): &(usize, usize, usize)) -> bool {
    wanted != len
}

/// Two forms of one chunker differ, which they never may.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    spec: ChunkerSpec,
    /// The instruction set, and in how many stages.
    how: String,
    path: PathBuf,
    start: usize,
    len: usize,
    wanted: usize,
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Mismatch {
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
            let file = Bytes { path: "x".into(), bytes: bytes.to_vec() };
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
            let others = Isa::available().into_iter().map(Other::Form).collect::<Vec<_>>();
            let cuts = Cuts::of(&spec, &inputs(&[&data, &data]), &others).unwrap();
            assert_eq!((cuts.savings(), &cuts.new_in[..]), (50.0, &[100_000, 0][..]), "{spec:?}");
        }
    }

    #[test]
    fn an_input_adds_what_all_before_it_lack() {
        let (a, b) = (Random::new(1).bytes(4096), Random::new(2).bytes(4096));
        let both = [&a[..], &b].concat();
        let cuts = Cuts::of(&fixed(), &inputs(&[&a, &both, &b]), &[]).unwrap();
        assert_eq!(cuts.new_in, [4096, 4096, 0]);
        assert_eq!((cuts.original(), cuts.deduplicated(), cuts.savings()), (16384, 8192, 50.0));
    }

    #[test]
    fn lengths_are_described_from_the_shortest_to_the_longest() {
        let cuts = Cuts::of(&fixed(), &inputs(&[&[0; 3 * 1024 + 24]]), &[]).unwrap();
        assert_eq!((cuts.count(), cuts.mean()), (4, 774.0));
        assert_eq!([0, 25, 26, 100].map(|percent| cuts.percentile(percent)), [24, 24, 1024, 1024]);
        assert!((cuts.deviation() - 433.01).abs() < 0.01, "{}", cuts.deviation());
        assert_eq!([23, 24, 1023, 1024].map(|len| cuts.up_to(len)), [0, 1, 1, 4]);
    }

    #[test]
    fn two_stages_that_find_other_chunks_are_told() {
        let data = Random::new(1).bytes(200_000);
        let spec =
            |avg, max| ChunkerSpec::ByContent(Algorithm::Gear, Sizes::new(512, avg, max).unwrap());
        let of = |other: &ChunkerSpec| {
            let isas = Isa::available().into_iter();
            let stages = isas.map(|isa| Other::Stages(TwoStage::new(other, isa).unwrap(), isa));
            Cuts::of(&spec(1024, 4096), &inputs(&[&data]), &stages.collect::<Vec<_>>())
        };
        assert!(of(&spec(1024, 4096)).is_ok());
        for other in [spec(2048, 4096), spec(1024, 2048)] {
            let told = of(&other).unwrap_err().to_string();
            assert!(told.contains("with scalar in two stages: the chunk at byte "), "{told}");
        }
    }

    #[test]
    fn nothing_at_all_has_no_figures() {
        let cuts = Cuts::of(&fixed(), &inputs(&[]), &[]).unwrap();
        assert_eq!((cuts.count(), cuts.savings(), cuts.mean()), (0, 0.0, 0.0));
        assert_eq!((cuts.percentile(50), cuts.deviation()), (0, 0.0));
    }
}
