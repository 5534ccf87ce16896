//! What the conversations of the papers' strategies have in common at the receiver: the chunks that were told, and which of
//! them are still to come.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::Op;
use deltic_core::recipe::Chunk;
use deltic_core::strategy::{Conversation, Delivery, Proof};
use deltic_core::{Fingerprint, Index, Span, Strategy, StrongSum};

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::{Extent, FileNo, How};
use crate::receiver::proof::{ProofOf, ProofPart};
use crate::receiver::{Place, Receiver, SummedOld, Work};
use crate::sums::{Sum, SumLine, Summing, Ways, sum_of};
use crate::work::{Handle, Setback};

use super::Copies;
use super::confirm::Confirm;
use super::patched::Patched;
use super::roll::Roll;

/// What an attempt by a strategy of the papers knows.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) ways: Ways,
    pub(super) told: Told,
    pub(super) side: Side,
    /// The old version that is summed, and up to which byte.
    reading: (usize, u64),
    /// Copies that wait until all literals are written.
    late: Vec<Op>,
}

/// What the sums are for.
#[derive(Debug)]
pub(super) enum Side {
    /// To be looked for among chunks of old, and confirmed.
    Confirm(Box<Confirm>),
    /// To be rolled for over old.
    Roll(Box<Roll>),
    /// They are those of old, and go to the sender.
    Patched(Patched),
}

/// The chunks of new, in order, as far as they were told; or its bytes, as far as patches came.
#[derive(Debug)]
pub(super) struct Told {
    spec: ChunkerSpec,
    len: u64,
    pub(super) end: u64,
    chunks: Vec<(Span, Source)>,
    complete: bool,
    needed: u64,
}

/// Where a chunk's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Open,
    Needed,
    Known,
}

impl Told {
    pub(super) const fn count(&self) -> u32 {
        self.chunks.len() as u32
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn span(&self, chunk: u32) -> Span {
        self.chunks[chunk as usize].0
    }

    /// Takes the next chunk.
    fn push(&mut self, len: u32) -> Result<(), PeerError> {
        let is_last = self.end + u64::from(len) == self.len;
        let least = if is_last { 1 } else { self.spec.min_len() };
        let fits = u64::from(len) <= self.len - self.end;
        if len < least || len > self.spec.max_len() || !fits {
            return Err(PeerError::Limit("length of a chunk"));
        }
        if self.chunks.len() >= MAX_SUMS {
            return Err(PeerError::Limit("sums of one file"));
        }
        self.chunks.push((Span::new(self.end, len), Source::Open));
        self.end += u64::from(len);
        Ok(())
    }

    /// The sender is asked for these chunks.
    pub(super) fn need(&mut self, chunks: Range<u32>) {
        self.needed += u64::from(chunks.end - chunks.start);
        let chunks = &mut self.chunks[chunks.start as usize..chunks.end as usize];
        chunks.iter_mut().for_each(|(_, source)| *source = Source::Needed);
    }
}

impl Talk {
    pub(super) fn new(
        strategy: Strategy,
        (how, spec): (How, ChunkerSpec),
        len: u64,
    ) -> Option<Box<Self>> {
        let ways = Ways::of(strategy, how)?;
        let side = match strategy.conversation {
            Conversation::RecipeConfirm => Side::Confirm(Box::new(Confirm::new(&strategy))),
            Conversation::RecipeRolled => Side::Roll(Box::new(Roll::new(ways, spec))),
            Conversation::Signature => Side::Patched(Patched::new(spec)),
            Conversation::Recipe => return None,
        };
        let chunks = Vec::new();
        let told = Told { spec, len, end: 0, chunks, complete: false, needed: 0 };
        Some(Box::new(Self { ways, told, side, reading: (0, 0), late: Vec::new() }))
    }

    pub(super) fn is_pipelined(&self) -> bool {
        self.ways.strategy.delivery == Delivery::Pipelined
    }

    /// Whether all of new was told.
    pub(super) fn is_told(&self) -> bool {
        let complete = self.told.complete || matches!(self.side, Side::Patched(_));
        complete && self.told.end == self.told.len
    }

    /// Whether the sender owes nothing, and nothing is looked for.
    pub(super) fn is_quiet(&self) -> bool {
        let found = match &self.side {
            Side::Confirm(confirm) => confirm.is_done(&self.told),
            Side::Roll(roll) => roll.is_done(),
            Side::Patched(_) => true,
        };
        found && self.is_told() && self.told.needed == 0
    }

    /// Marks a chunk as arrived; where it goes, if it was asked for.
    pub(super) fn receive(&mut self, chunk: u32) -> Option<Span> {
        let (span, source) = self.told.chunks.get_mut(chunk as usize)?;
        if *source != Source::Needed {
            return None;
        }
        *source = Source::Known;
        self.told.needed -= 1;
        Some(*span)
    }

    pub(super) fn wrote(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if let Side::Confirm(confirm) = &mut self.side {
            confirm.name(chunk, fingerprint);
        }
    }

    /// Copies that may begin now; a strategy in phases keeps them until nothing else is left.
    pub(super) fn ripe(&mut self, found: Copies) -> Vec<Op> {
        let mut ops = found.finish();
        if self.ways.strategy.delivery == Delivery::Phased {
            self.late.append(&mut ops);
        }
        ops
    }

    /// The copies that were kept, if there are any.
    pub(super) fn take_late(&mut self) -> Option<Vec<Op>> {
        Some(std::mem::take(&mut self.late)).filter(|late| !late.is_empty())
    }

    pub(super) fn proof_of(&self) -> ProofOf {
        match (&self.side, self.ways.strategy.proof()) {
            (Side::Confirm(confirm), Proof::Recipe) => {
                let spans = self.told.chunks.iter().map(|(span, _)| span.len);
                let chunk = |(len, fingerprint)| Chunk { len, fingerprint };
                let chunks = spans.zip(confirm.names()).map(chunk).collect();
                let index = Arc::new(Index::new(0));
                ProofOf::Chunks { index, parts: vec![ProofPart::New(chunks)] }
            }
            _ => ProofOf::Bytes,
        }
    }

    /// Takes the next sums of new.
    fn hear(&mut self, lines: Vec<SumLine>, extent: Extent) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("sums");
        if self.told.complete {
            return Err(UNFIT);
        }
        for line in lines {
            let count = self.told.count();
            let sum = match &mut self.side {
                Side::Confirm(confirm) => {
                    let told = &self.told;
                    let sum = line.sum(count, |no| confirm.sum(told, no))?;
                    confirm.hear(&sum)?;
                    sum
                }
                Side::Roll(roll) => {
                    let sums = roll.sums.as_ref().ok_or(UNFIT)?;
                    let sum = line.sum(count, |no| sum_of(sums, no))?;
                    roll.hear(line, &sum)?;
                    sum
                }
                Side::Patched(_) => return Err(UNFIT),
            };
            self.told.push(sum.len)?;
        }
        if extent == Extent::Part {
            return Err(PeerError::Unexpected("a part of the sums"));
        }
        self.told.complete = extent == Extent::Last;
        if self.told.complete && self.told.end != self.told.len {
            return Err(PeerError::Unexpected("the end of incomplete sums"));
        }
        match &self.side {
            Side::Confirm(confirm) if self.is_pipelined() => confirm.check_window(&self.told),
            Side::Patched(_) => Err(UNFIT),
            _ => Ok(()),
        }
    }
}

impl Receiver {
    /// New is open at the other end.
    pub(super) fn begin_talk(&mut self, handle: Handle) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        let first = incoming.first_part();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Some(talk) = &attempt.talk else { return };
        match talk.side {
            Side::Confirm(_) => self.sum_old(handle, 0),
            Side::Patched(_) => self.sum_old(handle, first),
            Side::Roll(_) => {}
        }
    }

    /// Sums the next segment of old version `part`.
    fn sum_old(&mut self, handle: Handle, part: usize) {
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        let chunker = attempt.spec;
        let Some(talk) = &mut attempt.talk else { return };
        talk.reading.0 = part;
        let start = talk.reading.1;
        let tells = matches!(talk.side, Side::Patched(_));
        let strong = tells.then_some(talk.ways.strong);
        let summing = Summing { chunker, weak: talk.ways.weak, strong };
        self.jobs.ask(Work::SumOld { handle, part, start, summing }, Place::SumOld(handle));
    }

    pub(in crate::receiver) fn summed_old(
        &mut self,
        handle: Handle,
        summed: Result<SummedOld, Setback>,
    ) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let parts = incoming.parts.len();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        // What of old cannot be read is only so much less to match against.
        let SummedOld { sums, at_end } =
            summed.unwrap_or(SummedOld { sums: Vec::new(), at_end: true });
        let Some(talk) = &mut attempt.talk else { return };
        let (part, start) = talk.reading;
        let read = sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        talk.reading = if at_end { (part + 1, 0) } else { (part, start + read) };
        let next = talk.reading.0;
        let (done, frames) = match &mut talk.side {
            Side::Confirm(confirm) => {
                let done = next == parts;
                confirm.learn(&sums, done);
                (done, Vec::new())
            }
            // A rolling search is for one version.
            Side::Patched(patched) => (at_end, patched.tell(file, &sums, at_end)),
            Side::Roll(_) => return,
        };
        self.frames.extend(frames);
        if done {
            self.match_more(file);
            self.try_settle(handle);
        } else {
            self.sum_old(handle, next);
        }
    }

    pub(in crate::receiver) fn sums(
        &mut self,
        file: FileNo,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        let talk = attempt.talk.as_mut().ok_or(PeerError::Unexpected("sums"))?;
        talk.hear(lines, extent)?;
        self.match_more(file);
        self.roll_over(handle);
        self.try_settle(handle);
        Ok(())
    }
}

/// The sum of a chunk of which only the weak one travels.
pub(super) fn weak_sum(len: u32, weak: u32) -> Sum {
    Sum { len, weak, strong: StrongSum::NONE }
}
