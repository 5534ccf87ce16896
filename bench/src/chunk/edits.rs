//! The cost of an edit: bytes of chunks that the old version does not have.
//!
//! A chunker is memoryless (law 1), so only a small part is cut again. A chunk that ends more than the longest chunk
//! length before the edit cannot change. From there the new version is cut until a boundary after the edit is also a
//! boundary of the old version. After this boundary both versions have the same chunks.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;

use deltic_core::{AnyChunker, Chunker, ChunkerSpec, Fingerprint, Isa};

use super::cuts::{bounds, percentile, pieces};
use crate::inputs::Inputs;
use crate::random::Random;

/// Kind of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    Insert,
    Overwrite,
    Delete,
}

impl EditKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::Insert, Self::Overwrite, Self::Delete];

    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
        }
    }
}

/// Lengths of edits in bytes.
pub(crate) const LENS: [usize; 5] = [1, 16, 256, 4 << 10, 64 << 10];

/// Old versions of files, with single edits to apply.
pub(crate) struct EditTrial<'a> {
    /// Name of the data set.
    pub(crate) name: &'static str,
    files: Vec<Cow<'a, [u8]>>,
    edits: Vec<FileEdit>,
}

/// An edit: replaces a range of a file with other bytes.
#[derive(Clone, Debug)]
struct FileEdit {
    kind: EditKind,
    /// Nominal length: the larger of the removed and the new bytes.
    len: usize,
    file: usize,
    start: usize,
    end: usize,
    bytes: Vec<u8>,
}

/// Cost of edits of one kind and length, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct EditCost {
    /// Mean cost.
    pub(crate) mean: f64,
    /// 95th percentile.
    pub(crate) p95: u64,
}

/// Costs of all edits of a trial with a chunker.
#[derive(Clone, Debug)]
pub(crate) struct EditCosts {
    /// Kind, length and cost of each edit.
    list: Vec<(EditKind, usize, u64)>,
}

impl EditCosts {
    /// Returns the cost of edits of this kind and length. `None` matches every kind or length.
    pub(crate) fn of(&self, kind: Option<EditKind>, len: Option<usize>) -> EditCost {
        let wanted = |edit: &&(EditKind, usize, u64)| {
            kind.is_none_or(|kind| kind == edit.0) && len.is_none_or(|len| len == edit.1)
        };
        let mut costs: Vec<_> = self.list.iter().filter(wanted).map(|edit| edit.2).collect();
        costs.sort_unstable();
        let mean = costs.iter().sum::<u64>() as f64 / costs.len().max(1) as f64;
        EditCost { mean, p95: percentile(&costs, 95) }
    }
}

impl<'a> EditTrial<'a> {
    /// Makes edits of `inputs`, and of generated data that is hard for chunkers.
    pub(crate) fn all(inputs: &'a Inputs) -> Vec<Self> {
        let mut random = Random::new(SEED);
        let (two, runs) = (two_values(&mut random), zero_runs(&mut random));
        vec![
            Self::new("inputs", large_files(inputs), &mut random),
            Self::new("two values", vec![two.into()], &mut random),
            Self::new("zero runs", vec![runs.into()], &mut random),
        ]
    }

    fn new(name: &'static str, files: Vec<Cow<'a, [u8]>>, random: &mut Random) -> Self {
        let mut edits = Vec::new();
        for kind in EditKind::ALL {
            for len in LENS {
                edits.extend((0..PLACES).map(|_| FileEdit::new(kind, len, &files, random)));
            }
        }
        Self { name, files, edits }
    }

    /// Returns the cost of each edit with the chunker `spec`.
    pub(crate) fn costs(&self, spec: &ChunkerSpec) -> EditCosts {
        let chunker = spec.build_for(Isa::best());
        let old: Vec<_> = self.files.iter().map(|file| bounds(&chunker, file)).collect();
        let chunks = self.files.iter().zip(&old).flat_map(|(file, old)| pieces(file, old));
        let known: HashSet<_> = chunks.map(Fingerprint::of).collect();
        let cost = |edit: &FileEdit| {
            let version = UneditedFile {
                chunker: &chunker,
                bytes: &self.files[edit.file],
                bounds: &old[edit.file],
                known: &known,
            };
            (edit.kind, edit.len, version.cost(edit))
        };
        EditCosts { list: self.edits.iter().map(cost).collect() }
    }
}

impl FileEdit {
    /// Makes a random edit in `files`. New bytes have values that occur in the file, unless the file has a single
    /// value.
    fn new(kind: EditKind, len: usize, files: &[Cow<'_, [u8]>], random: &mut Random) -> Self {
        let total = files.iter().map(|file| file.len()).sum();
        let (mut file, mut place) = (0, random.place(total));
        while place >= files[file].len() {
            place -= files[file].len();
            file += 1;
        }
        let old = &files[file];
        let start = if kind == EditKind::Insert {
            place
        } else {
            place.min(old.len() - len.min(old.len()))
        };
        let end = if kind == EditKind::Insert { start } else { old.len().min(start + len) };
        let mut bytes: Vec<_> = (0..len).map(|_| old[random.place(old.len())]).collect();
        match kind {
            EditKind::Insert => {}
            // An overwrite always changes the first byte.
            EditKind::Overwrite => {
                bytes.truncate(end - start);
                if bytes[0] == old[start] {
                    bytes[0] = other_than(old[start], old, random);
                }
            }
            EditKind::Delete => bytes.clear(),
        }
        Self { kind, len, file, start, end, bytes }
    }
}

/// Returns a random value of `bytes` other than `value`, or `value ^ 1` if there is none.
fn other_than(value: u8, bytes: &[u8], random: &mut Random) -> u8 {
    // The search starts at a random position, because the value may be rare.
    let (before, behind) = bytes.split_at(random.place(bytes.len()));
    let mut others = behind.iter().chain(before).filter(|other| **other != value);
    others.next().copied().unwrap_or(value ^ 1)
}

/// The old version of a file with a chunker.
struct UneditedFile<'a> {
    chunker: &'a AnyChunker,
    bytes: &'a [u8],
    bounds: &'a [usize],
    known: &'a HashSet<Fingerprint>,
}

impl UneditedFile<'_> {
    /// Returns the bytes of new chunks after the edit.
    fn cost(&self, edit: &FileEdit) -> u64 {
        let max = self.chunker.max_len();
        // Earlier chunks cannot see the edit, although a chunker may look ahead past the end of a chunk.
        let first = self.bounds.partition_point(|start| start + max <= edit.start);
        let start = self.bounds[first];
        let behind = &self.bytes[edit.end..];
        let new = [&self.bytes[start..edit.start], &edit.bytes, &behind[..behind.len().min(max)]];
        let (new, edited) = (new.concat(), edit.start - start + edit.bytes.len());
        let (mut cost, mut at) = (0, 0);
        while at < edited {
            at += self.next(&new[at..], &mut cost);
        }
        let mut old_at = edit.end + (at - edited);
        while old_at < self.bytes.len().min(edit.end + HORIZON_BYTES)
            && self.bounds.binary_search(&old_at).is_err()
        {
            old_at += self.next(&self.bytes[old_at..], &mut cost);
        }
        cost
    }

    /// Returns the length of the first chunk of `data`, and adds the length to `cost` if the chunk is new.
    fn next(&self, data: &[u8], cost: &mut u64) -> usize {
        let chunk = &data[..self.chunker.cut(data)];
        if !self.known.contains(&Fingerprint::of(chunk)) {
            *cost += chunk.len() as u64;
        }
        chunk.len()
    }
}

/// Returns the largest files of `inputs`, or a concatenation of all files if no file is large.
fn large_files(inputs: &Inputs) -> Vec<Cow<'_, [u8]>> {
    let mut files: Vec<_> = inputs.files().filter(|file| file.len() >= LARGE_BYTES).collect();
    if files.is_empty() {
        let mut all =
            inputs.files().flatten().copied().take(CONCATENATED_BYTES).collect::<Vec<_>>();
        all.shrink_to_fit();
        return vec![all.into()];
    }
    files.sort_by_key(|file| Reverse(file.len()));
    files.into_iter().take(FILES).map(Into::into).collect()
}

/// Makes bytes of low entropy: each byte is one of two values.
fn two_values(random: &mut Random) -> Vec<u8> {
    let bits = random.bytes(MADE_BYTES / 8);
    bits.iter().flat_map(|byte| (0..8).map(move |bit| b'a' + (byte >> bit & 1))).collect()
}

/// Makes random bytes and runs of zeros in turn, of random lengths.
fn zero_runs(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MADE_BYTES);
    while bytes.len() < MADE_BYTES {
        let len = random.place(MAX_RUN_BYTES);
        bytes.extend(random.bytes(len));
        let zeros = random.place(MAX_RUN_BYTES);
        bytes.resize(bytes.len() + zeros, 0);
    }
    bytes.truncate(MADE_BYTES);
    bytes
}

/// Number of edits of each kind and length.
const PLACES: usize = 64;
/// Counting stops at this distance after an edit if boundaries have not met.
pub(crate) const HORIZON_BYTES: usize = 4 << 20;
/// Shorter files are edited only if no file is this long.
const LARGE_BYTES: usize = 1 << 20;
/// Number of the largest files to edit.
const FILES: usize = 16;
/// Length limit of the concatenation of small files.
const CONCATENATED_BYTES: usize = 64 << 20;
/// Length of generated data.
const MADE_BYTES: usize = 8 << 20;
/// Longest run in generated data.
const MAX_RUN_BYTES: usize = 64 << 10;
/// Seed of the random edits: "edits" in ASCII.
const SEED: u64 = 0x65_6469_7473;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::chunk::FixedLen;
    use deltic_core::{Algorithm, Sizes};

    fn fixed(len: u32) -> ChunkerSpec {
        ChunkerSpec::Fixed(FixedLen::new(len).unwrap())
    }

    fn trial(files: &[&[u8]]) -> EditTrial<'static> {
        let files = files.iter().map(|file| file.to_vec().into()).collect();
        EditTrial::new("test", files, &mut Random::new(5))
    }

    #[test]
    fn an_overwritten_byte_costs_the_chunk_that_it_lies_in() {
        let costs = trial(&[&Random::new(1).bytes(1 << 17)]).costs(&fixed(2048));
        let cost = costs.of(Some(EditKind::Overwrite), Some(1));
        assert_eq!(cost, EditCost { mean: 2048.0, p95: 2048 });
    }

    #[test]
    fn an_insert_shifts_fixed_chunks_unless_it_is_as_long_as_they_are() {
        let costs = trial(&[&Random::new(1).bytes(1 << 17)]).costs(&fixed(4096));
        let cost = |len| costs.of(Some(EditKind::Insert), Some(len)).mean;
        assert!(cost(1) > 50_000.0, "{}", cost(1));
        assert!(cost(4096) <= 8192.0, "{}", cost(4096));
    }

    #[test]
    fn costs_are_over_the_requested_edits() {
        let list = vec![
            (EditKind::Insert, 1, 10),
            (EditKind::Insert, 16, 20),
            (EditKind::Delete, 1, 60),
            (EditKind::Delete, 16, 0),
        ];
        let costs = EditCosts { list };
        assert_eq!(costs.of(None, None), EditCost { mean: 22.5, p95: 60 });
        assert_eq!(costs.of(Some(EditKind::Insert), None), EditCost { mean: 15.0, p95: 20 });
        assert_eq!(costs.of(Some(EditKind::Delete), Some(16)), EditCost { mean: 0.0, p95: 0 });
        assert_eq!(costs.of(Some(EditKind::Overwrite), None), EditCost::default());
    }

    /// Computes the cost in a slow and simple way: cuts the whole new version.
    fn slow_cost(
        chunker: &AnyChunker,
        known: &HashSet<Fingerprint>,
        old: &[u8],
        edit: &FileEdit,
    ) -> u64 {
        let new = [&old[..edit.start], &edit.bytes, &old[edit.end..]].concat();
        let bounds = bounds(chunker, &new);
        let chunks = pieces(&new, &bounds);
        let lacking = chunks.filter(|chunk| !known.contains(&Fingerprint::of(chunk)));
        lacking.map(|chunk| chunk.len() as u64).sum()
    }

    #[test]
    fn the_cost_is_the_same_as_after_cutting_everything() {
        let sizes = Sizes::new(512, 1024, 4096).unwrap();
        let by_content = Algorithm::ALL.map(|algorithm| ChunkerSpec::ByContent(algorithm, sizes));
        let mut zeros = Random::new(2).bytes(90_000);
        zeros[20_000..70_000].fill(0);
        let trial = trial(&[&zeros, &Random::new(3).bytes(50_000)]);
        for spec in by_content.into_iter().chain([fixed(1024)]) {
            let chunker = spec.build();
            let bounds: Vec<_> = trial.files.iter().map(|file| bounds(&chunker, file)).collect();
            let chunks = trial.files.iter().zip(&bounds).flat_map(|(file, at)| pieces(file, at));
            let known = chunks.map(Fingerprint::of).collect();
            let costs = trial.costs(&spec);
            for (edit, (kind, len, cost)) in trial.edits.iter().zip(&costs.list).step_by(7) {
                let slow = slow_cost(&chunker, &known, &trial.files[edit.file], edit);
                assert_eq!(*cost, slow, "{spec:?} {kind:?} {len} at {}", edit.start);
            }
        }
    }

    #[test]
    fn an_edit_changes_its_number_of_bytes() {
        let old = Random::new(1).bytes(100_000);
        for FileEdit { kind, len, start, end, bytes, .. } in trial(&[&old]).edits {
            let lens = (end - start, bytes.len());
            assert_eq!(
                lens,
                match kind {
                    EditKind::Insert => (0, len),
                    EditKind::Overwrite => (len, len),
                    EditKind::Delete => (len, 0),
                }
            );
            assert!(kind != EditKind::Overwrite || bytes != old[start..end]);
        }
    }

    #[test]
    fn an_edit_uses_only_values_of_the_data() {
        let two = two_values(&mut Random::new(1));
        for FileEdit { kind, start, bytes, .. } in trial(&[&two]).edits {
            assert!(bytes.iter().all(|byte| matches!(byte, b'a' | b'b')), "{kind:?}");
            assert!(kind != EditKind::Overwrite || bytes[0] != two[start]);
        }
        let mut rare = vec![7; 100_000];
        rare[99_999] = 9;
        assert_eq!(other_than(7, &rare, &mut Random::new(1)), 9);
        assert_eq!(other_than(7, &[7; 9], &mut Random::new(1)), 6);
    }

    #[test]
    fn small_inputs_are_edited_as_one_file() {
        let inputs = Inputs::read(&[], Some(1000), u64::MAX);
        assert_eq!(large_files(&inputs).len(), 1);
        assert_eq!(EditTrial::all(&inputs)[0].files[0].len(), 1000);
    }

    #[test]
    fn generated_data_has_the_right_length_and_structure() {
        let mut random = Random::new(1);
        let (two, runs) = (two_values(&mut random), zero_runs(&mut random));
        assert_eq!((two.len(), runs.len()), (MADE_BYTES, MADE_BYTES));
        assert!(two.iter().all(|byte| matches!(byte, b'a' | b'b')));
        let zeros = runs.iter().filter(|byte| **byte == 0).count();
        assert!((MADE_BYTES / 3..MADE_BYTES * 2 / 3).contains(&zeros), "{zeros}");
    }
}
