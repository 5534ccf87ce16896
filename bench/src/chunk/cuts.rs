//! Chunk boundaries and lengths, and the bytes left after deduplication.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use deltic_core::chunk::{PublishedForm, SsCdc, cut_all};
use deltic_core::{AnyChunker, AtEnd, Chunker, ChunkerSpec, Isa};

use super::unique::UniqueChunks;
use crate::exit::shown;
use crate::inputs::{InputFile, Inputs};

/// An implementation of a chunker (*form*). Each form must find the same chunks as the plain form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OtherForm {
    /// The form for an instruction set.
    Form(Isa),
    /// Two stages (SS-CDC) with an instruction set.
    Stages(SsCdc, Isa),
    /// A form that VectorCDC publishes.
    Published(PublishedForm),
}

/// The chunks that a chunker finds in all inputs. Each file is cut separately.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutStats {
    /// Number of chunks by length in bytes.
    lens: BTreeMap<u32, u64>,
    /// Bytes of chunks that no earlier input has, for each input.
    pub(crate) new_in: Vec<u64>,
}

impl CutStats {
    /// Cuts `inputs` with the plain form of `spec`, and checks that each of `others` finds the same chunks in the part
    /// that is in memory. A file that is not in memory is read from its path, and cut with the best form.
    pub(crate) fn of(spec: &ChunkerSpec, inputs: &Inputs, others: &[OtherForm]) -> Result<Self> {
        let (mut cuts, mut unique) = (Self::default(), UniqueChunks::new(inputs.list.len()));
        for (no, input) in inputs.list.iter().enumerate() {
            for file in &input.files {
                let bounds = bounds(&spec.build_for(Isa::SCALAR), &file.bytes);
                others.iter().try_for_each(|other| check(spec, other, file, &bounds))?;
                let mut put = |chunk: &[u8]| {
                    *cuts.lens.entry(chunk.len() as u32).or_default() += 1;
                    unique.put(no, chunk)
                };
                if file.bytes.len() as u64 == file.len {
                    pieces(&file.bytes, &bounds).try_for_each(&mut put)?;
                } else {
                    stream(spec, file, put)
                        .with_context(|| format!("read {}", shown(&file.path)))?;
                }
            }
        }
        cuts.new_in = unique.new_in()?;
        Ok(cuts)
    }

    /// Returns the total length of all chunks in bytes.
    pub(crate) fn original(&self) -> u64 {
        self.lens.iter().map(|(len, count)| u64::from(*len) * count).sum()
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
    pub(crate) fn count(&self) -> u64 {
        self.lens.values().sum()
    }

    /// Returns the mean chunk length in bytes.
    pub(crate) fn mean(&self) -> f64 {
        self.original() as f64 / self.count().max(1) as f64
    }

    /// Returns the standard deviation of the chunk lengths in bytes.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |len: u32| (f64::from(len) - mean).powi(2);
        let squares = self.lens.iter().map(|(len, count)| square(*len) * *count as f64);
        (squares.sum::<f64>() / self.count().max(1) as f64).sqrt()
    }

    /// Returns the chunk length in bytes that `percent` percent of the chunks do not exceed. 0 returns the shortest.
    pub(crate) fn percentile(&self, percent: usize) -> u32 {
        let rank = (self.count() * percent as u64).div_ceil(100).max(1);
        let mut below = 0;
        let found = self.lens.iter().find(|(_, count)| {
            below += *count;
            below >= rank
        });
        found.map_or(0, |(len, _)| *len)
    }

    /// Returns the number of chunks up to `len` bytes long.
    pub(crate) fn up_to(&self, len: u32) -> u64 {
        self.lens.range(..=len).map(|(_, count)| count).sum()
    }
}

/// Returns the value that `percent` percent of `sorted` do not exceed (nearest rank).
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Cuts a file that is not in memory.
fn stream(
    spec: &ChunkerSpec,
    file: &InputFile,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let chunker = spec.build_for(Isa::best());
    let mut read = File::open(&file.path)?.take(file.len);
    let (mut buffer, mut kept, mut whole) = (Vec::new(), 0, 0);
    loop {
        buffer.truncate(kept);
        let got = read.by_ref().take(SEGMENT_BYTES as u64).read_to_end(&mut buffer)?;
        whole += got as u64;
        let at_end = if got < SEGMENT_BYTES { AtEnd::Yes } else { AtEnd::No };
        let mut result = Ok(());
        let done = cut_all(&chunker, &buffer, at_end, |chunk| {
            if result.is_ok() {
                result = put(chunk);
            }
        });
        result?;
        if at_end == AtEnd::Yes {
            ensure!(whole == file.len, "the file became shorter");
            return Ok(());
        }
        buffer.copy_within(done.., 0);
        kept = buffer.len() - done;
    }
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
    let by = |chunker: AnyChunker| {
        let cut = |(start, wanted)| (start, wanted, chunker.cut(&file.bytes[start..]));
        wanted.clone().map(cut).find(differs)
    };
    let (how, found) = match *other {
        OtherForm::Form(isa) => (isa.name().into(), by(spec.build_for(isa))),
        OtherForm::Published(form) => {
            let chunker = spec.build_as_published(form);
            (format!("{form:?}, as published"), chunker.and_then(by))
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

/// Bytes that are read at a time.
const SEGMENT_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Input;
    use crate::random::Random;
    use deltic_core::chunk::FixedLen;
    use deltic_core::{Algorithm, Sizes};

    fn inputs(list: &[&[u8]]) -> Inputs {
        let input = |bytes: &&[u8]| {
            let len = bytes.len() as u64;
            let file = InputFile { path: "x".into(), bytes: bytes.to_vec(), len };
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
    fn a_file_that_is_not_in_memory_has_the_same_chunks() {
        let dir = tempfile::tempdir().unwrap();
        let data = Random::new(1).bytes(2 * SEGMENT_BYTES + 1000);
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, &data).unwrap());
        let of = |limit| {
            let inputs = Inputs::read(&paths, None, limit);
            let sizes = Sizes::new(2048, 8192, 32_768).unwrap();
            let spec = ChunkerSpec::ByContent(Algorithm::Sieve, sizes);
            let cuts = CutStats::of(&spec, &inputs, &[]).unwrap();
            (cuts.savings(), cuts.count(), cuts.new_in)
        };
        let whole = of(1 << 30);
        assert_eq!(whole.0, 50.0);
        for limit in [0, 100_000, data.len() as u64, data.len() as u64 + 1] {
            assert_eq!(of(limit), whole, "{limit}");
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
            let stages = isas.map(|isa| OtherForm::Stages(SsCdc::new(other, isa).unwrap(), isa));
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
