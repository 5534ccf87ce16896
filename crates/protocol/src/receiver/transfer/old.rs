//! The index of the old versions: their chunks, and the progress of cutting the versions into chunks.

use deltic_core::chunk::{ChunkerSpec, Segment, SegmentChunks};
use deltic_core::recipe::Chunk;
use deltic_core::{BlockSumSpec, ChunkNo, Chunks, Index};

use crate::cutting::{CutPart, FileCutting};
use crate::limits::INDEX_BUDGET_CHUNKS;
use crate::work::WorkError;

/// Most chunks to reserve memory for; further chunks grow the index as they arrive.
const MAX_EXPECTED_CHUNKS: u64 = 1 << 18;

/// The index of the old versions, laid end to end.
#[derive(Debug)]
pub(crate) struct OldIndex {
    spec: ChunkerSpec,
    index: Box<Index>,
    /// True once all old versions are indexed.
    is_known: bool,
    /// Order in which old versions are read.
    view: ReadOrder,
    indexing: Option<VersionIndexing>,
}

/// The old version that is being indexed.
#[derive(Debug)]
struct VersionIndexing {
    version: usize,
    /// Offset of the next chunk, with all versions laid end to end.
    at: u64,
    cutting: FileCutting<Chunk>,
}

/// Order in which old versions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOrder {
    /// From the first byte of the file to the last.
    AsTheyAre,
    /// The order of the new version's data. The data map of the new version has not arrived yet.
    Awaited,
    /// The order of the new version's data: bytes at offsets where the new version has data come first.
    Facing,
}

/// A part of an old version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexPart {
    pub(super) version: usize,
    pub(super) spec: ChunkerSpec,
    view: ReadOrder,
    part: CutPart,
}

impl OldIndex {
    /// Creates an empty index.
    pub(crate) fn new(spec: ChunkerSpec) -> Self {
        let index = Box::new(Index::new(INDEX_BUDGET_CHUNKS));
        Self { spec, index, is_known: false, view: ReadOrder::AsTheyAre, indexing: None }
    }

    /// Creates the index from the known recipe of the first version. Returns `None` if the chunks do not cover
    /// exactly `len` bytes.
    pub(crate) fn from_recipe(spec: ChunkerSpec, chunks: Chunks, len: u64) -> Option<Self> {
        let mut at = 0;
        let all =
            chunks.iter().all(|(span, _)| std::mem::replace(&mut at, span.end()) == span.start);
        // The state is as if the version had been cut.
        let indexing =
            Some(VersionIndexing { version: 0, at, cutting: FileCutting::new(&spec, 0) });
        let index = || Box::new(Index::from_chunks(chunks, INDEX_BUDGET_CHUNKS));
        (all && at == len && len > 0).then(|| Self { index: index(), indexing, ..Self::new(spec) })
    }

    pub(super) const fn index(&self) -> &Index {
        &self.index
    }

    /// Moves the index out, for the proof of the file, and leaves an empty index.
    pub(super) fn take_index(&mut self) -> Box<Index> {
        std::mem::replace(&mut self.index, Box::new(Index::new(0)))
    }

    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    pub(super) fn is_cut_by(&self, spec: &ChunkerSpec) -> bool {
        self.spec == *spec
    }

    /// Returns the parts of the versions to read now; `lens` are the lengths of all versions in bytes. Once the last
    /// of them is read, the index is complete.
    pub(super) fn next_segments(&mut self, lens: &[u64]) -> Vec<(IndexPart, Segment)> {
        if self.is_known || self.view == ReadOrder::Awaited {
            return Vec::new();
        }
        loop {
            let (version, at) = match &mut self.indexing {
                Some(VersionIndexing { version, cutting, .. }) if !cutting.is_complete() => {
                    let (version, spec, view) = (*version, self.spec, self.view);
                    let next = std::iter::from_fn(|| cutting.next());
                    let of = |(part, s)| (IndexPart { version, spec, view, part }, s);
                    return next.map(of).collect();
                }
                Some(VersionIndexing { version, at, .. }) => {
                    self.index.end_part();
                    (*version + 1, *at)
                }
                None => (0, 0),
            };
            let Some(len) = lens.get(version) else { break };
            let cutting = FileCutting::new(&self.spec, *len);
            let chunks = (*len / u64::from(self.spec.mean_len())).min(MAX_EXPECTED_CHUNKS);
            self.index.reserve(chunks as usize);
            self.indexing = Some(VersionIndexing { version, at, cutting });
        }
        self.mark_complete();
        Vec::new()
    }

    /// Takes the chunks of a part; `lens` are the lengths of all versions in bytes.
    pub(super) fn take_index_part(
        &mut self,
        IndexPart { version, spec, view, part }: IndexPart,
        run: Result<SegmentChunks<Chunk>, WorkError>,
        lens: &[u64],
    ) {
        let Some(indexing) = &mut self.indexing else { return };
        // Places of reads that were asked for before the order of reading was known are wrong.
        let is_same = self.spec == spec && self.view == view;
        if self.is_known || indexing.version != version || !is_same {
            return;
        }
        match run {
            Ok(run) => {
                for chunk in indexing.cutting.take_chunks(part, run) {
                    self.index.push(indexing.at, chunk);
                    indexing.at += u64::from(chunk.len);
                }
            }
            // An unreadable old version is only one version less to match against.
            Err(_) => {
                indexing.at = lens[..=version].iter().sum();
                indexing.cutting = FileCutting::new(&self.spec, 0);
            }
        }
    }

    /// Marks the index as incomplete: another version follows.
    pub(super) const fn expect_another_version(&mut self) {
        self.is_known = false;
    }

    /// Holds back all reads until the order of reading is known.
    pub(super) const fn hold_back_reads(&mut self) {
        self.view = ReadOrder::Awaited;
    }

    /// True until the order of reading is known.
    pub(super) fn holds_back_reads(&self) -> bool {
        self.view == ReadOrder::Awaited
    }

    /// Reads old versions in the order of the new data from now on.
    pub(super) const fn read_in_data_order(&mut self) {
        self.view = ReadOrder::Facing;
    }

    /// Marks the index as complete.
    pub(super) const fn mark_complete(&mut self) {
        self.is_known = true;
    }
}

/// The lengths of the old versions, and facts about the version in place.
#[derive(Clone, Debug)]
pub(crate) struct OldVersions {
    /// Length in bytes of each old version.
    pub(crate) lens: Vec<u64>,
    /// The offset at which leftovers of killed runs begin.
    pub(crate) left_at: u64,
    /// True if the first version is in place, or in an alternate and may serve in place of a missing version.
    pub(crate) in_place: bool,
    /// True if the version in place is replaced even if the content is equal. Otherwise its other hard links would
    /// get the attributes of a file that is a separate file at the sender.
    pub(crate) leaves_names: bool,
    /// True if the first version is one of an alternate.
    pub(crate) is_beside: bool,
    /// The sums that storage keeps of the first version that is not empty.
    pub(crate) keeps: Option<BlockSumSpec>,
    /// True if an old version has large holes.
    pub(crate) has_holes: bool,
    /// True once old versions are read in the order of the new data; all lengths are then packed lengths.
    pub(crate) is_viewed: bool,
}

impl Default for OldVersions {
    /// No old version.
    fn default() -> Self {
        Self {
            lens: Vec::new(),
            left_at: u64::MAX,
            in_place: false,
            leaves_names: false,
            is_beside: false,
            keeps: None,
            has_holes: false,
            is_viewed: false,
        }
    }
}

impl OldVersions {
    /// Takes the lengths of the versions in the new order of reading, for a new version of `file_len` bytes.
    pub(crate) fn set_view_lens(&mut self, lens: Vec<u64>, file_len: u64) {
        // A version of another length is not the new version, even with the same data.
        self.in_place &= self.lens.first() == Some(&file_len);
        let starts =
            self.lens.iter().scan(0_u64, |end, len| Some(std::mem::replace(end, *end + len)));
        let others = starts.take_while(|start| *start < self.left_at).count();
        self.left_at = if others < lens.len() { lens[..others].iter().sum() } else { u64::MAX };
        (self.lens, self.is_viewed) = (lens, true);
    }

    /// Index of the first version that is not empty; it begins at offset 0 of all versions.
    pub(crate) fn first_nonempty(&self) -> usize {
        self.lens.iter().position(|len| *len > 0).unwrap_or(0)
    }

    /// Length of a version in bytes.
    pub(crate) fn len_of(&self, part: usize) -> u64 {
        self.lens.get(part).copied().unwrap_or(0)
    }

    /// Length in bytes of the version in place.
    pub(crate) fn len_in_place(&self) -> Option<u64> {
        self.lens.first().copied().filter(|_| self.in_place)
    }

    /// Length in bytes of the version in place, if that version may stay.
    pub(crate) fn len_that_stays(&self) -> Option<u64> {
        self.len_in_place().filter(|_| !self.leaves_names)
    }

    /// End of the version that holds the byte before `at`.
    pub(super) fn end_of_version_at(&self, at: u64) -> u64 {
        self.version_ends().find(|end| at <= *end).unwrap_or(at)
    }

    /// Start of the version that holds the byte at `at`.
    pub(super) fn start_of_version_at(&self, at: u64) -> u64 {
        self.version_ends().take_while(|end| *end <= at).last().unwrap_or(0)
    }

    /// Returns the end of each old version, as an offset in the concatenation of all old versions.
    fn version_ends(&self) -> impl Iterator<Item = u64> {
        self.lens.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        })
    }
}

/// Number of fingerprints that a look-up compared: that of the chunk after `after`, and that of the chunk found in
/// the table.
pub(super) fn comparison_count(after: Option<ChunkNo>, found: Option<ChunkNo>) -> u64 {
    let next = after.map(ChunkNo::next);
    u64::from(next.is_some()) + u64::from(found.is_some() && found != next)
}
