//! Confirms matches that the receiver found by weak sums: compares strong sums, and denies the matches that differ
//! (dsync, NetSync §4.3, ParaSync §3.2).

use std::ops::Range;

use deltic_core::strategy::{CandidateChoice, FileProof, MatchMerging};
use deltic_core::{RefutedStep, Span, StrongSum};

use crate::error::PeerError;
use crate::limits::{MAX_CANDIDATES, MAX_TOKEN_BYTES};
use crate::message::ToReceiver;
use crate::sums::{Token, TokenScope};

use super::super::ask::{FileWork, SenderWork};
use super::super::context::Context;
use super::super::pending::SenderPending;
use super::super::transfer::SendAttempt;
use super::named::{JudgedMatch, JudgedToken, NamedChunks};
use super::{MatchMethod, PresetSender};

impl PresetSender {
    const fn named_chunks(&mut self) -> Option<&mut NamedChunks> {
        match &mut self.side {
            MatchMethod::Confirm(named) => Some(named),
            MatchMethod::Rolled(_) | MatchMethod::Signature(_) => None,
        }
    }

    /// True while matches are not checked because some chunks are not named yet: strategies that do not pipeline
    /// check matches only when all chunks are named.
    fn waits_for_names(&self) -> bool {
        let MatchMethod::Confirm(named) = &self.side else { return false };
        !self.is_pipelined() && (!self.sent_last || named.unnamed_count() > 0)
    }

    /// Refuses an invalid token.
    fn check_token(&self, token: &JudgedToken) -> Result<(), PeerError> {
        let is_single = token.chunks.end - token.chunks.start == 1;
        let bytes = self.ways.strong_bytes();
        if token.candidates.iter().any(|strong| strong.as_bytes().len() != bytes) {
            return Err(PeerError::Unexpected("a strong sum of a wrong length"));
        }
        if token.over == TokenScope::Run
            && !is_single
            && self.ways.strategy.merge != MatchMerging::Runs
        {
            return Err(PeerError::Unexpected(
                "a token for a run of chunks, in a strategy without runs",
            ));
        }
        if !is_single && self.table.bytes_of(&token.chunks) > MAX_TOKEN_BYTES {
            return Err(PeerError::Limit("bytes of a token"));
        }
        Ok(())
    }

    /// Returns the spans that the strong sums of a token cover.
    fn spans_of(&self, token: &JudgedToken) -> Vec<Span> {
        let mut spans = self.table.spans(&token.chunks);
        match token.over {
            TokenScope::Each => spans.collect(),
            TokenScope::Run => {
                let first = spans.next().map_or(0, |span| span.start);
                vec![Span::new(first, self.table.bytes_of(&token.chunks) as u32)]
            }
        }
    }

    /// Returns the strong sums of a token's chunks from the recipe.
    fn known_sums(&self, token: &JudgedToken) -> Vec<StrongSum> {
        let sum = |bytes| StrongSum::from_bytes(bytes).expect("a fingerprint is a sum");
        let chunks = self.table.slice(&token.chunks).iter();
        chunks.map(|chunk| sum(chunk.fingerprint.as_bytes())).collect()
    }

    /// Compares the next token of the first match with `sums`, the strong sums of the new version. Returns how many
    /// of `sums` the token used.
    fn compare_token(&mut self, attempt: &mut SendAttempt, sums: &[StrongSum]) -> usize {
        let (bytes, candidates) = (self.ways.strong_bytes(), self.ways.strategy.candidates);
        let Some(named) = self.named_chunks() else { return 0 };
        let NamedChunks { matches, table, .. } = named;
        let Some(open) = matches.front_mut() else { return 0 };
        if candidates == CandidateChoice::All {
            table.fill(open.tokens.iter());
        }
        let Some(token) = open.tokens.pop_front() else { return 0 };
        let own = token.strong_sum_count();
        let each =
            if token.over == TokenScope::Run { token.chunks.end - token.chunks.start } else { 1 };
        let parts = token.chunks.clone().step_by(each as usize).map(|no| no..no + each);
        let mut refuted = Vec::new();
        for (part, sum) in parts.zip(&sums[..own]) {
            let sum = sum.shortened(bytes);
            let equal = match candidates {
                CandidateChoice::One => (token.candidates[0] == sum).then_some(0),
                CandidateChoice::All => table.find(&token, sum),
            };
            // A part is denied once for each candidate before the equal one.
            let denials = equal.unwrap_or(token.candidates.len());
            open.denied.extend(std::iter::repeat_n(part.clone(), denials));
            refuted.extend(Some(part).filter(|_| equal.is_none()));
        }
        attempt.settled += self.table.bytes_of(&token.chunks);
        refuted.into_iter().for_each(|range| self.mark_different(attempt, range));
        own
    }

    /// Marks a run or a chunk as different from the receiver's bytes.
    fn mark_different(&mut self, attempt: &mut SendAttempt, range: Range<u32>) {
        let (count, bytes) = (range.end - range.start, self.table.bytes_of(&range));
        attempt.settled -= bytes;
        if RefutedStep::of(count, bytes) == RefutedStep::Send {
            self.needs.push(&self.table, std::slice::from_ref(&range));
        } else if let Some(named) = self.named_chunks() {
            named.allow_again(&range);
        }
    }

    /// Takes a `Match` frame: chunks that the receiver needs, and chunks that the receiver may have.
    pub(crate) fn receive_matches(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        needs: &[Range<u32>],
        tokens: Vec<Token>,
    ) -> Result<(), PeerError> {
        let most = match self.ways.strategy.candidates {
            CandidateChoice::One => 1,
            CandidateChoice::All => MAX_CANDIDATES,
        };
        let named =
            self.named_chunks().ok_or(PeerError::Unexpected("a Match frame in this state"))?;
        if needs.is_empty() && tokens.is_empty() {
            return Err(PeerError::Unexpected("an empty Match frame"));
        }
        let tokens = JudgedToken::join(tokens, most)?;
        for range in needs.iter().chain(tokens.iter().map(|token| &token.chunks)) {
            named.mark_named(range)?;
        }
        tokens.iter().try_for_each(|token| self.check_token(token))?;
        self.needs.push(&self.table, needs);
        if let Some(named) = self.named_chunks() {
            named.matches.push_back(JudgedMatch { tokens, denied: Vec::new() });
        }
        self.compare_tokens(attempt, cx);
        self.sum_more(attempt, cx);
        Ok(())
    }

    /// Checks tokens as far as strong sums are known, and requests the next strong sums.
    fn compare_tokens(&mut self, attempt: &mut SendAttempt, cx: &mut Context) {
        let proof = self.ways.strategy.proof();
        while !self.waits_for_names() {
            let Some(named) = self.named_chunks().filter(|named| named.hashing == 0) else {
                return;
            };
            let Some(open) = named.matches.front_mut() else {
                cx.report_progress(attempt.file, attempt.settled);
                return self.read_requested_blocks(attempt, cx);
            };
            let Some(token) = open.tokens.front().cloned() else {
                let chunks = std::mem::take(&mut open.denied);
                named.matches.pop_front();
                named.table.clear();
                cx.counts.sub_table_hits += named.table.take_hits();
                cx.send(ToReceiver::Deny { file: attempt.file, chunks });
                continue;
            };
            if proof == FileProof::Recipe {
                let sums = self.known_sums(&token);
                let own = self.compare_token(attempt, &sums);
                cx.counts.add(0, own as u64);
            } else {
                self.request_token_sums(attempt, cx);
            }
        }
    }

    /// Requests the strong sums for some tokens of the first match.
    fn request_token_sums(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let (handle, mut spans, mut bytes, mut count) = (attempt.handle, Vec::new(), 0, 0);
        let MatchMethod::Confirm(named) = &self.side else { return };
        for token in &named.matches[0].tokens {
            if bytes > MAX_TOKEN_BYTES {
                break;
            }
            bytes += self.table.bytes_of(&token.chunks);
            spans.extend(self.spans_of(token));
            count += 1;
        }
        if let Some(named) = self.named_chunks() {
            named.hashing = count;
        }
        let work = SenderWork::File(FileWork::Hash { handle, strong: self.ways.strong, spans });
        cx.jobs.request(work, SenderPending::Hash(handle));
    }

    /// Checks tokens with the computed strong sums of the new version.
    pub(crate) fn take_token_sums(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        sums: &[StrongSum],
    ) {
        let count = self.named_chunks().map_or(0, |named| std::mem::take(&mut named.hashing));
        let mut rest = sums;
        for _ in 0..count {
            let own = self.compare_token(attempt, rest);
            rest = &rest[own..];
        }
        cx.counts.add(0, sums.len() as u64);
        self.compare_tokens(attempt, cx);
    }
}
