//! Blocks named by the sums that storage keeps, for users who trust both stores (docs/decisions/0044).
//!
//! A fingerprint is made of the sum of a block, so an end reads only blocks without a stored sum.

use deltic_core::Fingerprint;
use deltic_core::chunk::{Segment, SegmentChunks};
use deltic_core::recipe::Chunk;
use deltic_core::stored::{BlockSum, StoredSums};
use deltic_engine::sums::{READ_BYTES, SumCounts};
use deltic_protocol::hello::SummedBlocks;
use deltic_store::{Snapshot, StoreError};

use super::Buffers;
use super::steps::{asking_pays, read_exact};
use crate::sum_report::SumReport;

/// True if storage keeps sums of these blocks of a file. Tests the start of the file.
pub(super) fn are_kept(blocks: &SummedBlocks, file: &impl Snapshot) -> bool {
    // Changes of the file are detected when the file is read.
    let sums = || file.stored_sums(&(0..READ_BYTES as u64)).ok().flatten()?.spec();
    asking_pays(file) && sums() == Some(blocks.spec)
}

/// Means to name blocks.
pub(super) struct BlockFingerprints<'a> {
    pub(super) blocks: &'a SummedBlocks,
    pub(super) buffers: &'a Buffers,
    pub(super) report: &'a SumReport,
}

impl BlockFingerprints<'_> {
    /// Names the blocks of a segment, and reads the blocks without a stored sum. Returns `None` if storage keeps the
    /// sums of less than half of the blocks, so that reading the segment at once is faster.
    pub(super) fn of_segment(
        &self,
        file: &impl Snapshot,
        segment: &Segment,
    ) -> Result<Option<SegmentChunks<Chunk>>, StoreError> {
        let (own, block) = (&segment.own, u64::from(self.blocks.spec.block_bytes));
        let starts = || own.clone().step_by(block as usize);
        if !asking_pays(file) || !own.start.is_multiple_of(block) {
            return Ok(None);
        }
        let kept = file.stored_sums(own)?;
        let kept = kept.filter(|kept| kept.spec() == Some(self.blocks.spec));
        let Some(kept) = kept else { return Ok(None) };
        let unknown = starts().filter(|start| kept.sum_at(*start) == BlockSum::Unknown).count();
        if unknown * 2 > starts().count() {
            return Ok(None);
        }
        let mut chunks = Vec::with_capacity(starts().count());
        let mut counts = SumCounts::default();
        for start in starts() {
            let len = block.min(own.end - start) as u32;
            let told =
                if u64::from(len) == block { self.stored_fingerprint(&kept, start) } else { None };
            *(if told.is_some() { &mut counts.stored } else { &mut counts.computed }) += 1;
            let fingerprint =
                told.map_or_else(|| self.computed_fingerprint(file, start, len), Ok)?;
            chunks.push((len, Chunk { len, fingerprint }));
        }
        self.report.add(counts);
        Ok(Some(SegmentChunks::from_lens(own.start, chunks)))
    }

    /// Returns the fingerprint of the whole block at `start`, if storage knows the block.
    fn stored_fingerprint(&self, kept: &StoredSums, start: u64) -> Option<Fingerprint> {
        match kept.sum_at(start) {
            BlockSum::Sum(sum) => self.blocks.fingerprint(sum),
            BlockSum::Zero => {
                let zeros = vec![0; self.blocks.spec.block_bytes as usize];
                Some(self.blocks.fingerprinter().of(&zeros))
            }
            BlockSum::Unknown => None,
        }
    }

    fn computed_fingerprint(
        &self,
        file: &impl Snapshot,
        start: u64,
        len: u32,
    ) -> Result<Fingerprint, StoreError> {
        self.buffers.with(len as usize, |bytes| {
            read_exact(file, start, bytes)?;
            Ok(self.blocks.fingerprinter().of(bytes))
        })
    }
}
