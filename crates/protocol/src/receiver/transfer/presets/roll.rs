//! The blocks of the new version, searched for in the old version by rolling sums (WebR2sync+ §5.1).

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::DeltaOp;
use deltic_core::{BlockSums, Span, search};

use crate::error::PeerError;
use crate::sums::{Keying, Search, StrategySums, Sum, SumLine};

use super::super::assembly::MatchedBytes;
use super::super::copies::{FoundCopies, runs};
use super::chunks::PeerChunks;

/// The blocks of the new version, and their offsets in the old version.
#[derive(Debug)]
pub(super) struct RolledBlocks {
    /// Sums of the blocks, until the search begins.
    pub(super) sums: Option<Box<BlockSums>>,
    locality: search::Locality,
    /// For each block, the first block with the same sums.
    firsts: Vec<u32>,
    /// For each block, the offset in the old version, if found.
    found: Vec<Option<u64>>,
    /// End of the searched part of the old version.
    searched: u64,
    done: bool,
}

impl RolledBlocks {
    pub(super) fn new(ways: StrategySums, spec: ChunkerSpec) -> Self {
        let sums = Some(Box::new(ways.block_sums(spec)));
        let (firsts, found) = (Vec::new(), Vec::new());
        Self { sums, locality: ways.locality(), firsts, found, searched: 0, done: false }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the sums of the next block. Errors: `Unexpected`.
    pub(super) fn take_sum(&mut self, line: SumLine, sum: &Sum) -> Result<(), PeerError> {
        const UNFIT: PeerError =
            PeerError::Unexpected("a block in a wrong order, or of a wrong length");
        let sums = self.sums.as_mut().ok_or(UNFIT)?;
        let no = sums.count();
        sums.push(sum.len, sum.weak, sum.strong.as_bytes()).map_err(|_| UNFIT)?;
        self.firsts.push(match line {
            SumLine::New(_) => no,
            SumLine::Again(back) => self.firsts[(no - back) as usize],
        });
        self.found.push(None);
        Ok(())
    }

    /// Notes copies from blocks of the new version to places in the old version.
    fn record_copies(&mut self, ops: &[DeltaOp], block: u32) {
        for op in ops {
            let DeltaOp::Copy { old, new_start } = *op else { continue };
            let first = (old.start / u64::from(block)) as u32;
            for nth in 0..old.len.div_ceil(block) {
                let place = new_start + u64::from(nth) * u64::from(block);
                let no = (first + nth) as usize;
                let class = self.firsts[no];
                self.found[no].get_or_insert(place);
                self.found[class as usize].get_or_insert(place);
                // Each of several equal blocks is copied from the same place if possible, so that an unchanged file
                // is recognised.
                let own = (place / u64::from(block)) as usize;
                let is_own = place.is_multiple_of(u64::from(block));
                if is_own && self.firsts.get(own) == Some(&class) {
                    self.found[own] = Some(place);
                }
            }
        }
    }

    /// Returns the place in the old version of a block, or of an equal block.
    fn old_place(&self, no: u32) -> Option<u64> {
        let first = self.firsts[no as usize];
        self.found[no as usize].or(self.found[first as usize])
    }

    /// Returns the search once all blocks were told; the second call returns `None`.
    pub(super) fn start_search(&mut self, chunks: &PeerChunks) -> Option<Search> {
        let sums = self.sums.take_if(|_| chunks.is_complete())?;
        Some(Search::New(*sums, self.locality, Keying::Session))
    }

    /// Takes the matches of a search; returns the start of the next one.
    pub(super) fn take_matches(&mut self, found: &[DeltaOp], consumed: u64, block: u32) -> u64 {
        self.record_copies(found, block);
        self.searched += consumed;
        self.searched
    }

    /// Ends the search: adds copies of the matches to `copies`, and returns the blocks to request.
    pub(super) fn finish_search(
        &mut self,
        chunks: &mut PeerChunks,
        matched: &mut MatchedBytes,
        copies: &mut FoundCopies,
    ) -> Vec<Range<u32>> {
        self.done = true;
        let missing = (0..chunks.count()).filter(|no| match self.old_place(*no) {
            Some(place) => {
                let span = chunks.span(*no);
                matched.count_found(place, span.len.into());
                copies.push(Span::new(place, span.len), span.start);
                false
            }
            None => true,
        });
        let missing: Vec<Range<u32>> = runs(missing);
        missing.iter().for_each(|range| chunks.mark_requested(range.clone()));
        missing
    }
}
