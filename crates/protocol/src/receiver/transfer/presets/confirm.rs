//! Chunks of the new version, found by weak sums and confirmed by strong sums (dsync, NetSync §4.3, ParaSync §3.2).
//!
//! Each chunk is looked up once, with one candidate, or with all (ParaSync §3.2). Refuted chunks are sent as literals.
//! For the chunks of a long refuted run the sender is asked once more, chunk by chunk.

use std::collections::{HashMap, VecDeque};
use std::iter::Peekable;
use std::ops::Range;

use deltic_core::strategy::{CandidateChoice, FileProof, MatchMerging};
use deltic_core::{
    ChunkMatch, ChunkNo, Fingerprint, MatchRun, RefutedStep, RunMerger, Span, Strategy, StrongSum,
};

use crate::error::PeerError;
use crate::limits::{MAX_CANDIDATES, MAX_TOKEN_BYTES, SEGMENT_BYTES, SUM_WINDOW};
use crate::report::Counts;
use crate::sums::{Sum, Token, TokenScope};

use super::super::copies::FoundCopies;
use super::asked::{AskedToken, OtherCandidate};
use super::chunks::{PeerChunks, weak_sum};
use super::known::{NewChunk, OldChunks};

/// The matches, from the look-up to the sender's answer.
#[derive(Debug)]
pub(super) struct MatchConfirmation {
    old: OldChunks,
    merge: MatchMerging,
    /// Old chunks that this end proposes for a chunk.
    pub(super) candidates: CandidateChoice,
    /// Weak sums of the chunks of the new version.
    weak: Vec<u32>,
    /// Fingerprints of these chunks, if the recipe is the proof.
    names: Option<Vec<Fingerprint>>,
    /// Number of chunks looked up in the old versions.
    looked: u32,
    /// Number of chunks that the receiver has named to the sender, as needed or as matched.
    named: u32,
    after: Option<ChunkNo>,
    hashing: usize,
    /// Tokens without an answer of the sender; one list for each `Match` frame.
    asked: VecDeque<Vec<AskedToken>>,
}

/// Bytes of chunks in one `Match` frame while the sender checks matches concurrently: with smaller batches the sender
/// begins sooner.
const BATCH_BYTES: u64 = 1 << 20;

/// Chunks that were looked for in the old versions.
#[derive(Debug, Default)]
pub(super) struct ConfirmBatch {
    /// Chunks that the old versions lack.
    pub(super) needs: Vec<Range<u32>>,
    /// Chunks that the old versions may have.
    pub(super) tokens: Vec<AskedToken>,
}

impl MatchConfirmation {
    pub(super) fn new(strategy: &Strategy) -> Self {
        Self {
            old: OldChunks::new(strategy),
            merge: strategy.merge,
            candidates: CandidateChoice::One,
            weak: Vec::new(),
            names: (strategy.proof() == FileProof::Recipe).then(Vec::new),
            looked: 0,
            named: 0,
            after: None,
            hashing: 0,
            asked: VecDeque::new(),
        }
    }

    pub(super) fn is_done(&self, chunks: &PeerChunks) -> bool {
        let looked = self.old.is_complete() && self.looked == chunks.count();
        looked && self.hashing == 0 && self.asked.is_empty()
    }

    /// Takes the next chunks of the old versions. If `end` is given, one old version ends at that offset in the
    /// concatenation of all old versions; if `complete`, this is the last version.
    pub(super) fn add_old_chunks(&mut self, sums: &[Sum], end: Option<u64>, complete: bool) {
        sums.iter().for_each(|sum| self.old.push(sum.len, sum.weak));
        if let Some(end) = end {
            self.old.skip_to(end);
        }
        if complete {
            self.old.mark_complete();
        }
    }

    pub(super) fn add_looked_up(&self, chunks: &PeerChunks, no: u32) -> Sum {
        weak_sum(chunks.span(no).len, self.weak[no as usize])
    }

    /// Takes the sum of the next chunk of the new version.
    pub(super) fn take_sum(&mut self, sum: &Sum) -> Result<(), PeerError> {
        if !sum.strong.as_bytes().is_empty() {
            return Err(PeerError::Unexpected("a strong sum of a wrong length"));
        }
        self.weak.push(sum.weak);
        if let Some(names) = &mut self.names {
            names.push(Fingerprint::from_bytes([0; 32]));
        }
        Ok(())
    }

    /// Checks that not too many told chunks are unnamed; one segment above the window is allowed. Errors: `Limit`.
    pub(super) fn check_window(&self, chunks: &PeerChunks) -> Result<(), PeerError> {
        let most = SUM_WINDOW + (SEGMENT_BYTES / 512) as u32;
        let fits = chunks.count() - self.named <= most;
        if fits { Ok(()) } else { Err(PeerError::Limit("chunks that no match has named")) }
    }

    pub(super) fn set_fingerprint(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if let Some(names) = &mut self.names {
            names[chunk as usize] = fingerprint;
        }
    }

    pub(super) fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.names.iter().flatten().copied()
    }

    /// Returns the spans of the old versions to hash for a batch, each once. Chunks of the new version with one weak
    /// sum are all looked for in the same old chunk.
    fn spans_to_hash(&self, tokens: &mut [AskedToken]) -> Vec<Span> {
        let (mut spans, mut places) = (Vec::new(), HashMap::new());
        let mut place_of = |span: Span| {
            *places.entry((span.start, span.len)).or_insert_with(|| {
                spans.push(span);
                spans.len() - 1
            })
        };
        for token in tokens {
            token.hashed = place_of(self.span_of_token(token));
            for other in &mut token.others {
                other.hashed = place_of(self.old.span(other.old));
            }
        }
        spans
    }

    /// Returns the place of a token's bytes in the old versions, to be hashed in a single step.
    fn span_of_token(&self, token: &AskedToken) -> Span {
        let first = self.old.span(token.old);
        if token.over == TokenScope::Each {
            first
        } else {
            Span::new(first.start, token.len as u32)
        }
    }
}

impl MatchConfirmation {
    /// Looks for the next chunks, if they may be looked for now, with at most `most_items` needs or tokens. Also
    /// returns the counts of compared sums and walked chunks.
    pub(super) fn next_batch(
        &mut self,
        chunks: &mut PeerChunks,
        pipelined: bool,
        most_items: usize,
    ) -> Option<(ConfirmBatch, Counts)> {
        let ready = pipelined || chunks.is_complete();
        if !ready || !self.old.is_complete() || self.looked == chunks.count() {
            return None;
        }
        let ConfirmBatch { mut needs, mut tokens } = ConfirmBatch::default();
        let most = if pipelined { BATCH_BYTES } else { MAX_TOKEN_BYTES };
        let (mut runs, mut bytes) = (RunMerger::new(MAX_TOKEN_BYTES), 0);
        let mut counts = Counts::default();
        // With several candidates, each of them becomes a token of the frame and may be denied for each chunk.
        let (mut answers, at_once) = (0, self.most_candidates());
        while self.looked < chunks.count()
            && needs.len().max(tokens.len() + 1).max(answers + at_once) < most_items
            && bytes < most
        {
            let new = self.looked;
            let (len, weak) = (chunks.span(new).len, self.weak[new as usize]);
            self.looked += 1;
            let chunk = NewChunk { len, weak };
            let found = self.old.find(&chunk, self.after, &mut counts);
            let Some(old) = found else {
                chunks.mark_requested(new..new + 1);
                match needs.last_mut() {
                    Some(last) if last.end == new => last.end += 1,
                    _ => needs.push(new..new + 1),
                }
                continue;
            };
            (self.after, bytes) = (Some(old), bytes + u64::from(len));
            let next = ChunkMatch { new, old, len };
            if self.merge == MatchMerging::Runs {
                tokens.extend(runs.push(next).map(AskedToken::of));
            } else if !tokens.last_mut().is_some_and(|last| last.extend_if_equal(&next)) {
                let mut token = AskedToken::of(MatchRun::of(next));
                token.others = self.other_candidates(&chunk, old);
                bytes += token.others.len() as u64 * u64::from(len);
                tokens.push(token);
            }
            if self.candidates == CandidateChoice::All {
                answers += 1 + tokens.last().map_or(0, |last| last.others.len());
            }
        }
        tokens.extend(runs.finish().map(AskedToken::of));
        Some((ConfirmBatch { needs, tokens }, counts))
    }

    /// Returns the most candidates of a chunk.
    const fn most_candidates(&self) -> usize {
        match self.candidates {
            CandidateChoice::One => 1,
            CandidateChoice::All => MAX_CANDIDATES,
        }
    }

    /// Returns the candidates of a chunk besides `first`.
    fn other_candidates(&self, chunk: &NewChunk, first: ChunkNo) -> Vec<OtherCandidate> {
        match self.candidates {
            CandidateChoice::One => Vec::new(),
            CandidateChoice::All => {
                self.old.others(chunk, first).into_iter().map(OtherCandidate::of).collect()
            }
        }
    }

    /// Takes the sender's answer to a token with several candidates: a chunk is denied once for each refuted
    /// candidate before the equal one.
    fn take_choice(
        &mut self,
        chunks: &mut PeerChunks,
        token: &AskedToken,
        denied: &mut Peekable<impl Iterator<Item = u32>>,
        found: &mut FoundCopies,
    ) -> MatchVerdict {
        let mut verdict = MatchVerdict::default();
        for chunk in token.chunks.clone() {
            let refuted = || denied.next_if_eq(&chunk).is_some();
            let most = 1 + token.others.len();
            let refuted = std::iter::repeat_with(refuted).take(most).take_while(|no| *no).count();
            let Some((old, strong)) = token.candidate(refuted) else {
                verdict.needs = true;
                chunks.mark_requested(chunk..chunk + 1);
                continue;
            };
            found.push(self.old.span(old), chunks.span(chunk).start);
            verdict.bytes += u64::from(chunks.span(chunk).len);
            if let Ok(bytes) = strong.as_bytes().try_into() {
                self.set_fingerprint(chunk, Fingerprint::from_bytes(bytes));
            }
        }
        verdict
    }

    /// Takes the sender's answer to the oldest `Match` frame. Adds confirmed copies to `found`, and returns the
    /// chunks of refuted runs, which must be confirmed one by one.
    pub(super) fn take_answer(
        &mut self,
        chunks: &mut PeerChunks,
        denied: &[Range<u32>],
        found: &mut FoundCopies,
    ) -> Result<MatchVerdict, PeerError> {
        const UNFIT: PeerError =
            PeerError::Unexpected("a Denied frame for chunks that were not requested");
        let tokens = self.asked.pop_front().ok_or(UNFIT)?;
        let mut denied = denied.iter().cloned().flatten().peekable();
        let mut verdict = MatchVerdict::default();
        for token in tokens {
            if !token.others.is_empty() {
                let choice = self.take_choice(chunks, &token, &mut denied, found);
                verdict.bytes += choice.bytes;
                verdict.needs |= choice.needs;
                continue;
            }
            let count = token.chunks.end - token.chunks.start;
            let mut refuted = Vec::new();
            for chunk in token.chunks.clone() {
                refuted.extend(denied.next_if_eq(&chunk));
            }
            let all = refuted.len() == count as usize;
            if token.over == TokenScope::Run && !all && !refuted.is_empty() {
                return Err(UNFIT);
            }
            if token.over == TokenScope::Run
                && all
                && RefutedStep::of(count, token.len) == RefutedStep::Split
            {
                let run = MatchRun {
                    new: token.chunks.start,
                    old: token.old,
                    chunks: count,
                    len: token.len,
                };
                verdict.again.extend(run.split(|no| chunks.span(no).len).map(AskedToken::of));
                continue;
            }
            verdict.needs |= !refuted.is_empty();
            refuted.iter().for_each(|chunk| chunks.mark_requested(*chunk..chunk + 1));
            if token.over == TokenScope::Run && !all {
                let first = chunks.span(token.chunks.start).start;
                found.push(self.span_of_token(&token), first);
                verdict.bytes += token.len;
                if let Ok(bytes) = token.strong.as_bytes().try_into() {
                    self.set_fingerprint(token.chunks.start, Fingerprint::from_bytes(bytes));
                }
                continue;
            }
            let mut refuted = refuted.into_iter().peekable();
            for chunk in token.chunks.clone().filter(|_| token.over == TokenScope::Each) {
                if refuted.next_if_eq(&chunk).is_some() {
                    continue;
                }
                found.push(self.span_of_token(&token), chunks.span(chunk).start);
                verdict.bytes += u64::from(chunks.span(chunk).len);
                if let Ok(bytes) = token.strong.as_bytes().try_into() {
                    self.set_fingerprint(chunk, Fingerprint::from_bytes(bytes));
                }
            }
        }
        if denied.peek().is_some() { Err(UNFIT) } else { Ok(verdict) }
    }
    /// Begins the hashing of chunks that the old versions may have; returns the spans to hash.
    pub(super) fn begin_hashing(&mut self, tokens: &mut [AskedToken]) -> Vec<Span> {
        self.hashing += 1;
        self.spans_to_hash(tokens)
    }

    /// Takes the strong sums of a batch; returns the batch's tokens as they are sent, with `bytes` bytes of each sum.
    pub(super) fn take_hashes(
        &mut self,
        needs: &[Range<u32>],
        mut tokens: Vec<AskedToken>,
        sums: &[StrongSum],
        bytes: usize,
    ) -> Vec<Token> {
        let sum_of = |hashed: usize| sums.get(hashed).copied().unwrap_or(StrongSum::NONE);
        tokens.iter_mut().for_each(|token| token.take_sums(sum_of));
        let lines_of = |token: &AskedToken| {
            let (chunks, over) = (token.chunks.clone(), token.over);
            let sums: Vec<_> = token.strong_sums().collect();
            let line = move |strong: StrongSum| Token {
                chunks: chunks.clone(),
                over,
                strong: strong.shortened(bytes),
            };
            sums.into_iter().map(line)
        };
        let lines = tokens.iter().flat_map(lines_of).collect();
        let ranges = needs.iter().chain(tokens.iter().map(|token| &token.chunks));
        self.named += ranges.map(|range| range.end - range.start).sum::<u32>();
        self.named = self.named.min(self.looked);
        self.hashing -= 1;
        self.asked.push_back(tokens);
        lines
    }
}

/// The result of the sender's answer to a match.
#[derive(Debug, Default)]
pub(super) struct MatchVerdict {
    /// Number of confirmed bytes.
    pub(super) bytes: u64,
    /// True if a chunk must be sent as literal.
    pub(super) needs: bool,
    /// Chunks of refuted runs, each to be confirmed by itself.
    pub(super) again: Vec<AskedToken>,
}
