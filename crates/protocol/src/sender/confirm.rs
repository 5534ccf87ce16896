//! Matches that the receiver found by weak sums: their strong sums are compared, and what is refuted is denied
//! (dsync, NetSync §4.3, ParaSync §3.2).
//!
//! A chunk is named once, and once more where its run was refuted and split; so at most two strong sums are taken of it,
//! whatever the receiver says.

use std::collections::VecDeque;
use std::ops::Range;

use deltic_core::strategy::{Merge, Proof};
use deltic_core::{Refuted, Span, StrongSum};

use crate::error::PeerError;
use crate::limits::MAX_TOKEN_BYTES;
use crate::message::{FileNo, ToReceiver};
use crate::report::Trouble;
use crate::sums::{Over, Token};
use crate::work::Handle;

use super::file::Outgoing;
use super::telling::{Side, Talk};
use super::{Place, Sender, Work};

/// What was said about the chunks that were told.
#[derive(Debug, Default)]
pub(super) struct Confirm {
    chunks: Vec<Named>,
    /// Chunks that were told and not named.
    unnamed: u32,
    /// Chunks of refuted runs that were not named again.
    split: u32,
    /// Matches that were not answered, in the order of their arrival.
    matches: VecDeque<Open>,
    /// Tokens of the first match that are being hashed.
    hashing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Not,
    Once,
    Split,
    Again,
}

/// A match that is being judged.
#[derive(Debug)]
struct Open {
    tokens: VecDeque<Token>,
    denied: Vec<Range<u32>>,
}

impl Confirm {
    pub(super) fn told(&mut self, chunks: usize) {
        self.chunks.resize(self.chunks.len() + chunks, Named::Not);
        self.unnamed += chunks as u32;
    }

    pub(super) const fn unnamed(&self) -> u32 {
        self.unnamed
    }

    fn is_done(&self) -> bool {
        self.unnamed == 0 && self.split == 0 && self.matches.is_empty()
    }

    /// Names chunks, all for the first time, or one for the second.
    fn name(&mut self, range: &Range<u32>) -> Result<(), PeerError> {
        const TWICE: PeerError = PeerError::Unexpected("a chunk that was named already");
        let chunks = self.chunks.get_mut(range.start as usize..range.end as usize);
        let chunks = chunks.ok_or(PeerError::Unexpected("a chunk that was not told"))?;
        match chunks {
            [one] if *one == Named::Split => {
                *one = Named::Again;
                self.split -= 1;
            }
            _ if chunks.iter().all(|chunk| *chunk == Named::Not) => {
                chunks.fill(Named::Once);
                self.unnamed -= range.end - range.start;
            }
            _ => return Err(TWICE),
        }
        Ok(())
    }
}

impl Talk {
    fn confirm(&mut self) -> Option<&mut Confirm> {
        match &mut self.side {
            Side::Confirm(confirm) => Some(confirm),
            _ => None,
        }
    }

    /// Whether matches wait until every chunk was named: the barrier of a strategy that does not pipeline.
    fn waits(&self) -> bool {
        let Side::Confirm(confirm) = &self.side else { return false };
        !self.is_pipelined() && (!self.told_all() || confirm.unnamed > 0)
    }
}

impl Outgoing {
    /// Whether literals wait for the answers to matches.
    pub(super) fn holds_back(&self) -> bool {
        self.talk.as_ref().is_some_and(|talk| !talk.is_pipelined()) && !self.is_named()
    }

    /// Whether it is known of each chunk whether it is to be sent.
    pub(super) fn is_named(&self) -> bool {
        self.talk.as_ref().is_none_or(|talk| match &talk.side {
            Side::Confirm(confirm) => talk.told_all() && confirm.is_done(),
            _ => true,
        })
    }

    /// Refuses a token that cannot be.
    fn check_token(&self, token: &Token) -> Result<(), PeerError> {
        let Some(talk) = &self.talk else { return Err(PeerError::Unexpected("a match")) };
        let single = token.chunks.end - token.chunks.start == 1;
        if token.strong.as_bytes().len() != talk.ways.strong_bytes() {
            return Err(PeerError::Unexpected("a strong sum of another length"));
        }
        if token.over == Over::Run && !single && talk.ways.strategy.merge != Merge::Runs {
            return Err(PeerError::Unexpected("a run of a strategy that merges none"));
        }
        if !single && self.bytes_of(&token.chunks) > MAX_TOKEN_BYTES {
            return Err(PeerError::Limit("bytes of a token"));
        }
        Ok(())
    }

    /// The spans that the strong sums of a token are taken over.
    fn spans_of(&self, token: &Token) -> Vec<Span> {
        let mut spans = self.spans(&token.chunks);
        match token.over {
            Over::Each => spans.collect(),
            Over::Run => {
                let first = spans.next().map_or(0, |span| span.start);
                vec![Span::new(first, self.bytes_of(&token.chunks) as u32)]
            }
        }
    }

    /// The strong sums of a token's chunks where the recipe has them.
    fn known_sums(&self, token: &Token) -> Vec<StrongSum> {
        let chunks = &self.chunks[token.chunks.start as usize..token.chunks.end as usize];
        let sum = |bytes| StrongSum::from_bytes(bytes).expect("a fingerprint is a sum");
        chunks.iter().map(|chunk| sum(chunk.fingerprint.as_bytes())).collect()
    }

    /// Judges the next token of the first match by the sums of new; how many of these are its own.
    fn judge(&mut self, sums: &[StrongSum]) -> usize {
        let Some(talk) = &mut self.talk else { return 0 };
        let bytes = talk.ways.strong_bytes();
        let Some(confirm) = talk.confirm() else { return 0 };
        let Some(open) = confirm.matches.front_mut() else { return 0 };
        let Some(token) = open.tokens.pop_front() else { return 0 };
        let own = token.sums();
        let each = if token.over == Over::Run { token.chunks.end - token.chunks.start } else { 1 };
        let parts = token.chunks.clone().step_by(each as usize).map(|no| no..no + each);
        let refuted = |(_, sum): &(Range<u32>, &StrongSum)| sum.first(bytes) != token.strong;
        let refuted: Vec<_> = parts.zip(&sums[..own]).filter(refuted).map(|part| part.0).collect();
        open.denied.extend(refuted.iter().cloned());
        self.settled += self.bytes_of(&token.chunks);
        refuted.into_iter().for_each(|range| self.refute(range));
        own
    }

    /// A run, or a chunk, is not what the receiver has.
    fn refute(&mut self, range: Range<u32>) {
        let (count, bytes) = (range.end - range.start, self.bytes_of(&range));
        self.settled -= bytes;
        if Refuted::of(count, bytes) == Refuted::Send {
            self.need_bytes += bytes;
            self.needs.push_back(range);
        } else if let Some(confirm) = self.talk.as_mut().and_then(|talk| talk.confirm()) {
            confirm.chunks[range.start as usize..range.end as usize].fill(Named::Split);
            confirm.split += count;
        }
    }
}

impl Sender {
    /// The receiver names chunks: those it needs, and those it may have.
    pub(super) fn matched(
        &mut self,
        file: FileNo,
        needs: &[Range<u32>],
        tokens: Vec<Token>,
    ) -> Result<(), PeerError> {
        let outgoing = self.files.get_mut(&file).expect("the caller found the attempt");
        let confirm = outgoing.talk.as_mut().and_then(|talk| talk.confirm());
        let confirm = confirm.ok_or(PeerError::Unexpected("a match"))?;
        if needs.is_empty() && tokens.is_empty() {
            return Err(PeerError::Unexpected("a match of nothing"));
        }
        for range in needs.iter().chain(tokens.iter().map(|token| &token.chunks)) {
            confirm.name(range)?;
        }
        tokens.iter().try_for_each(|token| outgoing.check_token(token))?;
        outgoing.need_bytes += needs.iter().map(|range| outgoing.bytes_of(range)).sum::<u64>();
        outgoing.needs.extend(needs.iter().cloned());
        if let Some(confirm) = outgoing.talk.as_mut().and_then(|talk| talk.confirm()) {
            confirm.matches.push_back(Open { tokens: tokens.into(), denied: Vec::new() });
        }
        self.judge_more(file);
        self.sum_more(file);
        Ok(())
    }

    /// Judges tokens as far as sums are known; asks for the next ones.
    fn judge_more(&mut self, file: FileNo) {
        loop {
            let Some(outgoing) = self.files.get_mut(&file) else { return };
            let Some(talk) = &mut outgoing.talk else { return };
            if talk.waits() {
                return;
            }
            let (ways, Some(confirm)) = (talk.ways, talk.confirm()) else { return };
            if confirm.hashing > 0 {
                return;
            }
            let Some(open) = confirm.matches.front_mut() else { break };
            let Some(token) = open.tokens.front().cloned() else {
                let chunks = std::mem::take(&mut open.denied);
                confirm.matches.pop_front();
                self.frames.push_back(ToReceiver::Deny { file, chunks });
                continue;
            };
            if ways.strategy.proof() == Proof::Recipe {
                let sums = outgoing.known_sums(&token);
                let own = outgoing.judge(&sums);
                self.counts.add(0, own as u64);
            } else {
                self.hash_tokens(file);
            }
        }
        let settled = self.files.get(&file).map_or(0, |outgoing| outgoing.settled);
        self.advance(file, settled);
        self.read_needs(file);
    }

    /// Asks for the strong sums of some tokens of the first match.
    fn hash_tokens(&mut self, file: FileNo) {
        let Some(outgoing) = self.files.get_mut(&file) else { return };
        let (handle, mut spans, mut bytes, mut count) = (outgoing.handle, Vec::new(), 0, 0);
        let Some(Talk { ways, side: Side::Confirm(confirm), .. }) = outgoing.talk.as_deref() else {
            return;
        };
        for token in &confirm.matches[0].tokens {
            if bytes > MAX_TOKEN_BYTES {
                break;
            }
            bytes += outgoing.bytes_of(&token.chunks);
            spans.extend(outgoing.spans_of(token));
            count += 1;
        }
        let work = Work::Hash { handle, strong: ways.strong, spans };
        if let Some(confirm) = outgoing.talk.as_mut().and_then(|talk| talk.confirm()) {
            confirm.hashing = count;
        }
        self.jobs.ask(work, Place::Hash(handle));
    }

    pub(super) fn hashed(&mut self, handle: Handle, sums: Result<Vec<StrongSum>, Trouble>) {
        let sums = match sums {
            Ok(sums) => sums,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        let confirm = outgoing.talk.as_mut().and_then(|talk| talk.confirm());
        let count = confirm.map_or(0, |confirm| std::mem::take(&mut confirm.hashing));
        let mut rest = &sums[..];
        for _ in 0..count {
            let own = outgoing.judge(rest);
            rest = &rest[own..];
        }
        self.counts.add(0, sums.len() as u64);
        self.judge_more(file);
    }
}
