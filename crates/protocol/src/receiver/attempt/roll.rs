//! The blocks of new, rolled for over old (WebR2sync+ §5.1).

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::Op;
use deltic_core::{BlockSums, search};

use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::ToSender;
use crate::receiver::{Place, Receiver, Rolled, Work};
use crate::sums::{Search, Sum, SumLine, Ways};
use crate::work::{Handle, Setback};

use super::talk::Side;
use super::{Copies, runs};

/// What is known of the blocks of new.
#[derive(Debug)]
pub(super) struct Roll {
    /// Until the search begins.
    pub(super) sums: Option<Box<BlockSums>>,
    locality: search::Locality,
    /// The first block with the same sums, for each.
    firsts: Vec<u32>,
    /// Where in old each was found.
    found: Vec<Option<u64>>,
    /// Up to where old was searched.
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
    fn find(&mut self, ops: &[Op], block: u32) {
        for op in ops {
            let Op::Copy { old, new_start } = *op else { continue };
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

    /// Where a block is in old, or one that equals it.
    fn place(&self, no: u32) -> Option<u64> {
        let first = self.firsts[no as usize];
        self.found[no as usize].or(self.found[first as usize])
    }
}

impl Receiver {
    /// Begins to search old once all of new was told.
    pub(super) fn roll_over(&mut self, handle: Handle) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        let part = incoming.first_part();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Some(talk) = &mut attempt.talk else { return };
        let complete = talk.told.is_complete();
        let Side::Roll(roll) = &mut talk.side else { return };
        if let Some(sums) = roll.sums.take_if(|_| complete) {
            let search = Search::New(*sums, roll.locality);
            self.cx.jobs.ask(Work::Roll { handle, part, start: 0, search }, Place::Roll(handle));
        }
    }

    pub(in crate::receiver) fn rolled(&mut self, handle: Handle, rolled: Result<Rolled, Setback>) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        let part = incoming.first_part();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let block = attempt.spec.max_len();
        let Some(talk) = &mut attempt.talk else { return };
        let Side::Roll(roll) = &mut talk.side else { return };
        // What of old cannot be read is only so much less to match against.
        if let Ok(Rolled { found, consumed, at_end, searcher }) = rolled {
            roll.find(&found, block);
            roll.searched += consumed;
            if !at_end {
                let (start, search) = (roll.searched, Search::On(searcher));
                return self
                    .cx
                    .jobs
                    .ask(Work::Roll { handle, part, start, search }, Place::Roll(handle));
            }
            let counts = searcher.counts();
            self.cx.counts.add(counts.weak, counts.strong);
        }
        self.found_all(handle);
    }

    /// Copies what was found; asks for the rest.
    fn found_all(&mut self, handle: Handle) {
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        let Some(talk) = &mut attempt.talk else { return };
        let Side::Roll(roll) = &mut talk.side else { return };
        roll.done = true;
        let (told, mut copies) = (&talk.told, Copies::default());
        let missing = (0..told.count()).filter(|no| match roll.place(*no) {
            Some(place) => {
                let span = told.span(*no);
                attempt.matched.in_old(place, span.len.into());
                copies.push(deltic_core::Span::new(place, span.len), span.start);
                false
            }
            None => true,
        });
        let missing: Vec<Range<u32>> = runs(missing);
        missing.iter().for_each(|range| talk.told.need(range.clone()));
        let ops = talk.ripe(copies);
        for chunks in missing.chunks(MAX_BATCH) {
            self.cx.frames.push_back(ToSender::Need { file, chunks: chunks.to_vec() });
        }
        self.advance(file);
        self.copy(handle, ops, !missing.is_empty());
    }
}
