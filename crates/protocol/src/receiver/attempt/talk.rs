//! What the conversations of the papers' strategies have in common at the receiver: the chunks that were told, and which of
//! them are still to come.

use std::collections::BTreeMap;
use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::Op;
use deltic_core::recipe::Chunk;
use deltic_core::strategy::{Conversation, Delivery, Proof};
use deltic_core::{Fingerprint, Span, Strategy, Strong, StrongSum};

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::{Extent, FileNo, How};
use crate::receiver::proof::{ProofChunks, ProofOf};
use crate::receiver::{Place, Receiver, Work};
use crate::summing::{Step, Summation, Summed};
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
    /// The old version that is being summed.
    reading: Option<Reading>,
    /// Copies that wait for literals, by their places in new.
    late: BTreeMap<u64, Op>,
}

/// An old version on its way to being sums.
#[derive(Debug)]
struct Reading {
    part: usize,
    summation: Summation,
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
        Some(Box::new(Self { ways, told, side, reading: None, late: BTreeMap::new() }))
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

    /// Copies that may begin now. A strategy in phases keeps them until nothing else is left, one in order until what lies
    /// before them in the file is written; patches come in order by themselves.
    pub(super) fn ripe(&mut self, found: Copies) -> Vec<Op> {
        let ops = found.finish();
        let is_patched = matches!(self.side, Side::Patched(_));
        let waits = match self.ways.strategy.delivery {
            Delivery::Phased => true,
            Delivery::InOrder => !is_patched,
            Delivery::Pipelined => false,
        };
        if !waits {
            return ops;
        }
        self.late.extend(ops.into_iter().map(|op| (place_of(&op), op)));
        Vec::new()
    }

    /// The copies that were kept and lie before `place`, for a strategy whose copies and literals follow each other.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<Op> {
        if self.ways.strategy.delivery != Delivery::InOrder {
            return Vec::new();
        }
        let later = self.late.split_off(&place);
        std::mem::replace(&mut self.late, later).into_values().collect()
    }

    /// The copies that were kept, if there are any.
    pub(super) fn take_late(&mut self) -> Option<Vec<Op>> {
        let late = std::mem::take(&mut self.late);
        Some(late.into_values().collect()).filter(|late: &Vec<_>| !late.is_empty())
    }

    /// The strong sums that are taken of all chunks of old: those that are told.
    fn strong_of_old(&self) -> Option<Strong> {
        matches!(self.side, Side::Patched(_)).then_some(self.ways.strong)
    }

    pub(super) fn proof_of(&self) -> ProofOf {
        match (&self.side, self.ways.strategy.proof()) {
            (Side::Confirm(confirm), Proof::Recipe) => {
                let spans = self.told.chunks.iter().map(|(span, _)| span.len);
                let chunk = |(len, fingerprint)| (0, Chunk { len, fingerprint });
                let chunks = spans.zip(confirm.names()).map(chunk).collect();
                ProofOf::Chunks(Box::new(ProofChunks::all(chunks)))
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
        if matches!(extent, Extent::Part | Extent::Empty) {
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

    /// Begins to sum old version `part`.
    fn sum_old(&mut self, handle: Handle, part: usize) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        let len = incoming.parts.get(part).copied().unwrap_or(0);
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let spec = attempt.spec;
        let Some(talk) = &mut attempt.talk else { return };
        let (parallel, strong) = (talk.ways.strategy.parallel, talk.strong_of_old());
        let summation = Summation::new((parallel, &spec), len, strong);
        talk.reading = Some(Reading { part, summation });
        self.sum_more_of_old(handle);
    }

    /// Goes on with what may be summed by now.
    fn sum_more_of_old(&mut self, handle: Handle) {
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        let chunker = attempt.spec;
        let Some(talk) = &mut attempt.talk else { return };
        let summing = Summing { chunker, weak: talk.ways.weak, strong: talk.strong_of_old() };
        let Some(Reading { part, summation }) = &mut talk.reading else { return };
        let part = *part;
        let portions: Vec<_> = std::iter::from_fn(|| summation.next()).collect();
        for (step, portion) in portions {
            let work = Work::SumOld { handle, part, portion, summing };
            self.cx.jobs.ask(work, Place::SumOld { handle, part, step });
        }
    }

    pub(in crate::receiver) fn summed_old(
        &mut self,
        handle: Handle,
        (part, step): (usize, Step),
        summed: Result<Summed, Setback>,
    ) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let parts = incoming.parts.len();
        let read = incoming.parts.iter().take(part + 1).sum();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Some(talk) = &mut attempt.talk else { return };
        let Some(reading) = talk.reading.as_mut().filter(|reading| reading.part == part) else {
            return;
        };
        // What of old cannot be read, or is too much, is only so much less to match against.
        let (sums, at_end) = match summed {
            Ok(summed) => {
                let sums = reading.summation.take(step, summed);
                (sums, reading.summation.is_complete() || reading.summation.is_too_much())
            }
            Err(_) => (Vec::new(), true),
        };
        let (done, frames) = match &mut talk.side {
            Side::Confirm(confirm) => {
                confirm.learn(&sums, at_end.then_some(read), at_end && part + 1 >= parts);
                (at_end && part + 1 >= parts, Vec::new())
            }
            // A rolling search is for one version.
            Side::Patched(patched) => (at_end, patched.tell(file, &sums, at_end)),
            Side::Roll(_) => return,
        };
        if at_end {
            talk.reading = None;
        }
        self.cx.frames.extend(frames);
        if done {
            self.match_more(file);
        } else if at_end {
            self.sum_old(handle, part + 1);
        } else {
            self.sum_more_of_old(handle);
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

/// Where an operation's bytes go.
const fn place_of(op: &Op) -> u64 {
    match op {
        Op::Copy { new_start, .. } => *new_start,
        Op::Literal { new } => new.start,
    }
}

/// The sum of a chunk of which only the weak one travels.
pub(super) fn weak_sum(len: u32, weak: u32) -> Sum {
    Sum { len, weak, strong: StrongSum::NONE }
}
