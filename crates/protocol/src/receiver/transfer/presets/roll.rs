//! The blocks of new, rolled for over old (WebR2sync+ §5.1).

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::DeltaOp;
use deltic_core::{BlockSums, Span, search};

use crate::error::PeerError;
use crate::sums::{Keying, Search, Sum, SumLine, Ways};

use super::super::assembly::Matched;
use super::super::copies::{Copies, runs};
use super::chunks::PeerChunks;

/// The blocks of new, and where old has them.
#[derive(Debug)]
pub(super) struct Roll {
    /// Until the search begins.
    pub(super) sums: Option<Box<BlockSums>>,
    locality: search::Locality,
    /// The first block with the same sums, for each.
    firsts: Vec<u32>,
    /// The place in old of each that was found.
    found: Vec<Option<u64>>,
    /// End of what was searched of old.
    searched: u64,
    done: bool,
}

impl Roll {
    pub(super) fn new(ways: Ways, spec: ChunkerSpec) -> Self {
        let sums = Some(Box::new(ways.block_sums(spec)));
        let (firsts, found) = (Vec::new(), Vec::new());
        Self { sums, locality: ways.locality(), firsts, found, searched: 0, done: false }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the sums of the next block.
    pub(super) fn hear(&mut self, line: SumLine, sum: &Sum) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a block that cannot follow");
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

    /// Notes copies from blocks of new to places in old.
    fn find(&mut self, ops: &[DeltaOp], block: u32) {
        for op in ops {
            let DeltaOp::Copy { old, new_start } = *op else { continue };
            let first = (old.start / u64::from(block)) as u32;
            for nth in 0..old.len.div_ceil(block) {
                let place = new_start + u64::from(nth) * u64::from(block);
                let no = (first + nth) as usize;
                let class = self.firsts[no];
                self.found[no].get_or_insert(place);
                self.found[class as usize].get_or_insert(place);
                // Of equal blocks each is taken from its own place: so an unchanged file is seen to be one.
                let own = (place / u64::from(block)) as usize;
                let is_own = place.is_multiple_of(u64::from(block));
                if is_own && self.firsts.get(own) == Some(&class) {
                    self.found[own] = Some(place);
                }
            }
        }
    }

    /// The place of a block in old, or of one that equals it.
    fn place(&self, no: u32) -> Option<u64> {
        let first = self.firsts[no as usize];
        self.found[no as usize].or(self.found[first as usize])
    }

    /// The search, once all of new was told: only once.
    pub(super) fn begin(&mut self, told: &PeerChunks) -> Option<Search> {
        let sums = self.sums.take_if(|_| told.is_complete())?;
        Some(Search::New(*sums, self.locality, Keying::Session))
    }

    /// Takes what a search found; the start of the next one.
    pub(super) fn take(&mut self, found: &[DeltaOp], consumed: u64, block: u32) -> u64 {
        self.find(found, block);
        self.searched += consumed;
        self.searched
    }

    /// Ends the search: copies what was found, and asks for the rest.
    pub(super) fn finish(
        &mut self,
        told: &mut PeerChunks,
        matched: &mut Matched,
        copies: &mut Copies,
    ) -> Vec<Range<u32>> {
        self.done = true;
        let missing = (0..told.count()).filter(|no| match self.place(*no) {
            Some(place) => {
                let span = told.span(*no);
                matched.in_old(place, span.len.into());
                copies.push(Span::new(place, span.len), span.start);
                false
            }
            None => true,
        });
        let missing: Vec<Range<u32>> = runs(missing);
        missing.iter().for_each(|range| told.need(range.clone()));
        missing
    }
}
