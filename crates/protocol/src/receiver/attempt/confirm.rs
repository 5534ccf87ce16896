//! Chunks of new that are looked for by weak sums, and confirmed by strong ones (dsync, NetSync §4.3, ParaSync §3.2).
//!
//! Each chunk is looked for once, with one candidate at most. What is refuted comes as literals, or is asked about once more
//! where a long run was refuted: each chunk of it by itself.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use deltic_core::strategy::{Merge, Proof};
use deltic_core::{ChunkNo, Fingerprint, Match, Refuted, Run, Runs, Span, Strategy, StrongSum};

use crate::error::PeerError;
use crate::limits::{MAX_BATCH, MAX_TOKEN_BYTES, SEGMENT_BYTES, SUM_WINDOW};
use crate::message::{FileNo, ToSender};
use crate::receiver::{Place, Receiver, Work};
use crate::sums::{Over, Sum, Token};
use crate::work::{Handle, Setback};

use super::Copies;
use super::known::Known;
use super::talk::{Side, Talk, Told, weak_sum};

/// What is known of matches.
#[derive(Debug)]
pub(super) struct Confirm {
    old: Known,
    merge: Merge,
    /// Of the chunks of new.
    weak: Vec<u32>,
    /// Their names, where these are the proof.
    names: Option<Vec<Fingerprint>>,
    /// How many were looked for, and told to the sender.
    looked: u32,
    named: u32,
    after: Option<ChunkNo>,
    hashing: usize,
    /// Tokens that the sender has not judged, those of each match.
    asked: VecDeque<Vec<Asked>>,
}

/// A token as the receiver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::receiver) struct Asked {
    chunks: Range<u32>,
    over: Over,
    /// The first chunk of old, or the only one.
    old: ChunkNo,
    /// Bytes of all its chunks.
    len: u64,
    /// Which of the sums of its batch is its own.
    hashed: usize,
    strong: StrongSum,
}

/// Bytes of the chunks that are asked about at a time where the sender judges meanwhile: the less, the sooner it begins.
const BATCH_BYTES: u64 = 1 << 20;

/// Chunks that were looked for: the first are not in old, the others may be.
type Batch = (Vec<Range<u32>>, Vec<Asked>);

impl Asked {
    fn of(run: Run) -> Self {
        let Run { new, old, chunks, len } = run;
        Self {
            chunks: new..new + chunks,
            over: Over::Run,
            old,
            len,
            hashed: 0,
            strong: StrongSum::NONE,
        }
    }

    /// Takes one more chunk that equals those before it in everything that is known.
    fn repeat(&mut self, next: &Match) -> bool {
        let len = self.len + u64::from(next.len);
        let repeats = (self.chunks.end, self.old) == (next.new, next.old);
        if repeats && len <= MAX_TOKEN_BYTES {
            (self.chunks.end, self.over, self.len) = (next.new + 1, Over::Each, len);
        }
        repeats && len <= MAX_TOKEN_BYTES
    }
}

impl Confirm {
    pub(super) fn new(strategy: &Strategy) -> Self {
        Self {
            old: Known::new(strategy),
            merge: strategy.merge,
            weak: Vec::new(),
            names: (strategy.proof() == Proof::Recipe).then(Vec::new),
            looked: 0,
            named: 0,
            after: None,
            hashing: 0,
            asked: VecDeque::new(),
        }
    }

    pub(super) fn is_done(&self, told: &Told) -> bool {
        let looked = self.old.is_complete() && self.looked == told.count();
        looked && self.hashing == 0 && self.asked.is_empty()
    }

    /// Takes the next chunks of old. One of the old versions ends at `end`, of all laid end to end, if that is said, and
    /// that is the last one if it is `complete`.
    pub(super) fn learn(&mut self, sums: &[Sum], end: Option<u64>, complete: bool) {
        sums.iter().for_each(|sum| self.old.push(sum.len, sum.weak));
        if let Some(end) = end {
            self.old.skip_to(end);
        }
        if complete {
            self.old.complete();
        }
    }

    pub(super) fn sum(&self, told: &Told, no: u32) -> Sum {
        weak_sum(told.span(no).len, self.weak[no as usize])
    }

    /// Takes the sum of the next chunk of new.
    pub(super) fn hear(&mut self, sum: &Sum) -> Result<(), PeerError> {
        if !sum.strong.as_bytes().is_empty() {
            return Err(PeerError::Unexpected("a strong sum of another length"));
        }
        self.weak.push(sum.weak);
        if let Some(names) = &mut self.names {
            names.push(Fingerprint::from_bytes([0; 32]));
        }
        Ok(())
    }

    /// Refuses chunks that were told although many are not named: one segment of them is let through.
    pub(super) fn check_window(&self, told: &Told) -> Result<(), PeerError> {
        let most = SUM_WINDOW + (SEGMENT_BYTES / 512) as u32;
        let fits = told.count() - self.named <= most;
        if fits { Ok(()) } else { Err(PeerError::Limit("chunks that no match has named")) }
    }

    pub(super) fn name(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if let Some(names) = &mut self.names {
            names[chunk as usize] = fingerprint;
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.names.iter().flatten().copied()
    }

    /// The spans of old whose strong sums a batch needs, each once: chunks of new with one weak sum are all looked for in
    /// the same chunk of old.
    fn spans(&self, tokens: &mut [Asked]) -> Vec<Span> {
        let (mut spans, mut places) = (Vec::new(), HashMap::new());
        for token in tokens {
            let span = self.span(token);
            token.hashed = *places.entry((span.start, span.len)).or_insert_with(|| {
                spans.push(span);
                spans.len() - 1
            });
        }
        spans
    }

    /// Where a token's bytes are in old, to be hashed in one go.
    fn span(&self, token: &Asked) -> Span {
        let first = self.old.span(token.old);
        if token.over == Over::Each { first } else { Span::new(first.start, token.len as u32) }
    }
}

impl Talk {
    fn confirm(&mut self) -> Option<&mut Confirm> {
        match &mut self.side {
            Side::Confirm(confirm) => Some(confirm),
            _ => None,
        }
    }

    /// Looks for the next chunks, if it is their time; how many weak sums were compared.
    fn next_batch(&mut self) -> Option<(Batch, u64)> {
        let pipelined = self.is_pipelined();
        let ready = pipelined || self.told.is_complete();
        let Self { told, side: Side::Confirm(confirm), .. } = self else { return None };
        if !ready || !confirm.old.is_complete() || confirm.looked == told.count() {
            return None;
        }
        let (mut needs, mut tokens): Batch = (Vec::new(), Vec::new());
        let most = if pipelined { BATCH_BYTES } else { MAX_TOKEN_BYTES };
        let (mut runs, mut bytes, mut compared) = (Runs::new(MAX_TOKEN_BYTES), 0, 0);
        while confirm.looked < told.count()
            && needs.len().max(tokens.len() + 1) < MAX_BATCH
            && bytes < most
        {
            let new = confirm.looked;
            let (span, weak) = (told.span(new), confirm.weak[new as usize]);
            let len = span.len;
            confirm.looked += 1;
            let found = confirm.old.find((new, span), weak, confirm.after, &mut compared);
            let Some(old) = found else {
                told.need(new..new + 1);
                match needs.last_mut() {
                    Some(last) if last.end == new => last.end += 1,
                    _ => needs.push(new..new + 1),
                }
                continue;
            };
            (confirm.after, bytes) = (Some(old), bytes + u64::from(len));
            let next = Match { new, old, len };
            if confirm.merge == Merge::Runs {
                tokens.extend(runs.push(next).map(Asked::of));
            } else if !tokens.last_mut().is_some_and(|last| last.repeat(&next)) {
                tokens.push(Asked::of(Run::of(next)));
            }
        }
        tokens.extend(runs.finish().map(Asked::of));
        Some(((needs, tokens), compared))
    }

    /// What the sender's judgement of the oldest match means: copies, and the runs that are to be asked about again.
    fn judged(&mut self, denied: &[Range<u32>], found: &mut Copies) -> Result<Verdict, PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a denial of what was not asked");
        let Self { told, side: Side::Confirm(confirm), .. } = self else { return Err(UNFIT) };
        let tokens = confirm.asked.pop_front().ok_or(UNFIT)?;
        let mut denied = denied.iter().cloned().flatten().peekable();
        let mut verdict = Verdict::default();
        for token in tokens {
            let count = token.chunks.end - token.chunks.start;
            let mut refuted = Vec::new();
            for chunk in token.chunks.clone() {
                refuted.extend(denied.next_if_eq(&chunk));
            }
            let all = refuted.len() == count as usize;
            if token.over == Over::Run && !all && !refuted.is_empty() {
                return Err(UNFIT);
            }
            if token.over == Over::Run && all && Refuted::of(count, token.len) == Refuted::Split {
                let run =
                    Run { new: token.chunks.start, old: token.old, chunks: count, len: token.len };
                verdict.again.extend(run.split(|no| told.span(no).len).map(Asked::of));
                continue;
            }
            verdict.needs |= !refuted.is_empty();
            refuted.iter().for_each(|chunk| told.need(*chunk..chunk + 1));
            if token.over == Over::Run && !all {
                let first = told.span(token.chunks.start).start;
                found.push(confirm.span(&token), first);
                verdict.bytes += token.len;
                if let Ok(bytes) = token.strong.as_bytes().try_into() {
                    confirm.name(token.chunks.start, Fingerprint::from_bytes(bytes));
                }
                continue;
            }
            let mut refuted = refuted.into_iter().peekable();
            for chunk in token.chunks.clone().filter(|_| token.over == Over::Each) {
                if refuted.next_if_eq(&chunk).is_some() {
                    continue;
                }
                found.push(confirm.span(&token), told.span(chunk).start);
                verdict.bytes += u64::from(told.span(chunk).len);
                if let Ok(bytes) = token.strong.as_bytes().try_into() {
                    confirm.name(chunk, Fingerprint::from_bytes(bytes));
                }
            }
        }
        if denied.peek().is_some() { Err(UNFIT) } else { Ok(verdict) }
    }
}

/// What followed from a judgement.
#[derive(Debug, Default)]
struct Verdict {
    /// Bytes that were confirmed.
    bytes: u64,
    /// Whether any chunk is to come as it is.
    needs: bool,
    /// Chunks of refuted runs, to be asked about by themselves.
    again: Vec<Asked>,
}

impl Receiver {
    /// Looks for what can be looked for by now.
    pub(super) fn match_more(&mut self, file: FileNo) {
        loop {
            let Some((handle, attempt)) = self.attempt(file) else { return };
            let Some(talk) = &mut attempt.talk else { return };
            let Some((batch, compared)) = talk.next_batch() else { return };
            self.cx.counts.add(compared, 0);
            self.ask_about(handle, batch);
        }
    }

    /// Takes the strong sums of what may be in old, and tells the sender.
    fn ask_about(&mut self, handle: Handle, (needs, mut tokens): Batch) {
        if !needs.is_empty() {
            self.copy(handle, Vec::new(), true);
        }
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        let Some(talk) = &mut attempt.talk else { return };
        let strong = talk.ways.strong;
        let Some(confirm) = talk.confirm() else { return };
        confirm.hashing += 1;
        if tokens.is_empty() {
            return self.hashed_old(handle, (needs, tokens), Ok(Vec::new()));
        }
        let spans = confirm.spans(&mut tokens);
        let (turn, work) = (talk.ways.matching_turn(), Work::HashOld { handle, strong, spans });
        self.cx.jobs.ask_as(turn, work, Place::HashOld { handle, needs, tokens });
    }

    pub(in crate::receiver) fn hashed_old(
        &mut self,
        handle: Handle,
        (needs, mut tokens): Batch,
        sums: Result<Vec<StrongSum>, Setback>,
    ) {
        let sums = match sums {
            Ok(sums) => sums,
            Err(setback) => return self.fail(handle, setback),
        };
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        let Some(talk) = &mut attempt.talk else { return };
        let bytes = talk.ways.strong_bytes();
        let Some(confirm) = talk.confirm() else { return };
        let sum_of = |token: &Asked| sums.get(token.hashed).copied().unwrap_or(StrongSum::NONE);
        tokens.iter_mut().for_each(|token| token.strong = sum_of(token));
        let line = |token: &Asked| Token {
            chunks: token.chunks.clone(),
            over: token.over,
            strong: token.strong.first(bytes),
        };
        let told = tokens.iter().map(line).collect();
        let ranges = needs.iter().chain(tokens.iter().map(|token| &token.chunks));
        confirm.named += ranges.map(|range| range.end - range.start).sum::<u32>();
        confirm.named = confirm.named.min(confirm.looked);
        confirm.hashing -= 1;
        confirm.asked.push_back(tokens);
        self.cx.frames.push_back(ToSender::Match { file, needs, tokens: told });
    }

    pub(in crate::receiver) fn deny(
        &mut self,
        file: FileNo,
        denied: &[Range<u32>],
    ) -> Result<(), PeerError> {
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        let talk = attempt.talk.as_mut().ok_or(PeerError::Unexpected("a denial"))?;
        let mut found = Copies::default();
        let Verdict { bytes, needs, again } = talk.judged(denied, &mut found)?;
        let ops = talk.ripe(found);
        attempt.matched.bytes += bytes;
        self.advance(file);
        self.copy(handle, ops, needs);
        let mut batch = Vec::new();
        let mut bytes = 0;
        for token in again {
            bytes += token.len;
            batch.push(token);
            if bytes >= MAX_TOKEN_BYTES || batch.len() == MAX_BATCH {
                bytes = 0;
                self.ask_about(handle, (Vec::new(), std::mem::take(&mut batch)));
            }
        }
        if !batch.is_empty() {
            self.ask_about(handle, (Vec::new(), batch));
        }
        self.try_settle(handle);
        Ok(())
    }
}
