//! Transfers by strategies from papers (presets): the chunks that the sender has listed, and the chunks still to
//! arrive.
//!
//! [`PresetState`] is the single interface: the default strategy's steps know no more of a preset than its methods.

pub(crate) mod asked;
mod chunks;
mod confirm;
mod known;
mod patched;
mod roll;

use std::collections::BTreeMap;
use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::DeltaOp;
use deltic_core::recipe::Chunk;
use deltic_core::strategy::{Conversation, Delivery, FileProof};
use deltic_core::{BlockSumSpec, Fingerprint, Span, Strategy, StrongKind, StrongSum};

use crate::error::PeerError;
use crate::limits::MAX_TOKEN_BYTES;
use crate::message::{Extent, Payload, ToSender, TransferKind};
use crate::receiver::ask::{
    OldMatches, OldVersionAnswer, OldVersionWork, ReceiverAnswer, ReceiverWork,
};
use crate::receiver::pending::FilePending;
use crate::report::{AgreedSums, Notice, PeerSums};
use crate::summing::{FileSummation, SumStep, Summed};
use crate::sums::{PatchStep, Search, StrategySums, SumLine, Summing, sum_of};
use crate::work::{WorkError, WorkTurn};

use super::assembly::{FileAssembly, LiteralChunks};
use super::copies::FoundCopies;
use super::file_context::FileContext;
use super::proof::{ProofChunks, ProofOf};
use chunks::PeerChunks;
use confirm::{ConfirmBatch, MatchConfirmation, MatchVerdict};
use patched::PatchedBlocks;
use roll::RolledBlocks;

/// A transfer by a strategy from a paper.
#[derive(Debug)]
pub(super) struct PresetState {
    config: StrategySums,
    spec: ChunkerSpec,
    chunks: PeerChunks,
    side: SumUse,
    /// True until the sender has reported the sums that its storage keeps.
    awaits_keeps: bool,
    /// The old version that is being summed.
    reading: Option<VersionSumming>,
    /// Copies that wait for literals, by their offsets in the new version.
    late: BTreeMap<u64, DeltaOp>,
}

/// An old version that is being summed.
#[derive(Debug)]
struct VersionSumming {
    part: usize,
    summation: FileSummation,
}

/// A portion of an old version that was summed.
#[derive(Debug)]
struct SummedPortion {
    /// Index of the old version.
    part: usize,
    step: SumStep,
    summed: Result<Summed, WorkError>,
}

/// The use of the sums.
#[derive(Debug)]
enum SumUse {
    /// Sums of the new version, to be looked for among chunks of the old versions and confirmed.
    Confirm(Box<MatchConfirmation>),
    /// Sums of the new version, to be searched for in the old version by rolling sums.
    Roll(Box<RolledBlocks>),
    /// Sums of the old version, to be sent to the sender.
    Patched(PatchedBlocks),
}

impl PresetState {
    /// Creates a transfer of `len` bytes by `strategy`; `None` for the default strategy.
    pub(super) fn new(
        strategy: Strategy,
        how: TransferKind,
        spec: ChunkerSpec,
        len: u64,
    ) -> Option<Box<Self>> {
        let config = StrategySums::of(strategy, how)?;
        let side = match strategy.conversation {
            Conversation::RecipeConfirm => {
                SumUse::Confirm(Box::new(MatchConfirmation::new(&strategy)))
            }
            Conversation::RecipeRolled => SumUse::Roll(Box::new(RolledBlocks::new(config, spec))),
            Conversation::Signature => SumUse::Patched(PatchedBlocks::new(spec)),
            Conversation::Recipe => return None,
        };
        let (chunks, late) = (PeerChunks::new(spec, len), BTreeMap::new());
        let awaits_keeps = false;
        Some(Box::new(Self { config, spec, chunks, side, awaits_keeps, reading: None, late }))
    }

    /// The order of copies and writes.
    pub(super) fn write_order(&self) -> WorkTurn {
        self.config.delivery_turn()
    }

    fn is_pipelined(&self) -> bool {
        self.config.strategy.delivery == Delivery::Pipelined
    }

    /// True once the whole new version was told.
    pub(super) fn covers_file(&self) -> bool {
        let complete = self.chunks.is_complete() || matches!(self.side, SumUse::Patched(_));
        complete && self.chunks.end == self.chunks.len()
    }

    /// True while the sender owes something, or a search is under way.
    pub(super) fn is_busy(&self) -> bool {
        let found = match &self.side {
            SumUse::Confirm(confirm) => confirm.is_done(&self.chunks),
            SumUse::Roll(roll) => roll.is_done(),
            SumUse::Patched(_) => true,
        };
        !found || !self.covers_file() || self.chunks.is_awaiting_chunks()
    }

    /// Marks a chunk as received; returns the chunk's place if the chunk was requested.
    pub(super) fn take_requested(&mut self, chunk: u32) -> Option<Span> {
        self.chunks.take_requested(chunk)
    }

    /// Notes a chunk that was written.
    pub(super) fn note_written(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if let SumUse::Confirm(confirm) = &mut self.side {
            confirm.set_fingerprint(chunk, fingerprint);
        }
    }

    /// Returns the copies that may begin now. A strategy in phases keeps copies until nothing else is left. A
    /// strategy in order keeps each copy until all before it in the file is written; patches are in order anyway.
    fn ready_copies(&mut self, found: FoundCopies) -> Vec<DeltaOp> {
        let ops = found.finish();
        let is_patched = matches!(self.side, SumUse::Patched(_));
        let waits = match self.config.strategy.delivery {
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

    /// Takes the waiting copies that lie before `place`, for a strategy that writes in order.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<DeltaOp> {
        if self.config.strategy.delivery != Delivery::InOrder {
            return Vec::new();
        }
        let later = self.late.split_off(&place);
        std::mem::replace(&mut self.late, later).into_values().collect()
    }

    /// Takes the waiting copies, if there are any.
    pub(super) fn take_late(&mut self) -> Option<Vec<DeltaOp>> {
        let late = std::mem::take(&mut self.late);
        Some(late.into_values().collect()).filter(|late: &Vec<_>| !late.is_empty())
    }

    /// The kind of strong sums to compute of all chunks of the old version, if these are sent.
    fn old_strong_kind(&self) -> Option<StrongKind> {
        matches!(self.side, SumUse::Patched(_)).then_some(self.config.strong)
    }

    /// Returns the evidence that proves the file.
    pub(super) fn proof(&self) -> ProofOf {
        match (&self.side, self.config.strategy.proof()) {
            (SumUse::Confirm(confirm), FileProof::Recipe) => {
                let chunk = |(len, fingerprint)| (0, Chunk { len, fingerprint });
                let chunks = self.chunks.lens().zip(confirm.fingerprints()).map(chunk).collect();
                ProofOf::Chunks(Box::new(ProofChunks::all_received(chunks)))
            }
            (_, FileProof::Nothing) => ProofOf::Nothing,
            _ => ProofOf::Bytes,
        }
    }

    /// Takes the answer to work of the preset.
    pub(super) fn answer(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        pending: FilePending,
        answer: ReceiverAnswer,
    ) {
        match (pending, answer) {
            (
                FilePending::SumOld { part, step, .. },
                ReceiverAnswer::Old(OldVersionAnswer::Summed(summed)),
            ) => {
                self.take_old_sums(fx, build, SummedPortion { part, step, summed });
            }
            (
                FilePending::HashOld { needs, tokens, .. },
                ReceiverAnswer::Old(OldVersionAnswer::Hashed(sums)),
            ) => {
                if let Some(sums) = fx.or_fail(sums) {
                    self.send_match(fx, ConfirmBatch { needs, tokens }, &sums);
                }
            }
            (FilePending::Roll(_), ReceiverAnswer::Old(OldVersionAnswer::Rolled(rolled))) => {
                self.take_roll_result(fx, build, rolled)
            }
            _ => {}
        }
    }

    /// Begins to sum the old versions, if the old sums are needed before the new sums.
    pub(super) fn begin(&mut self, fx: &mut FileContext<'_>) {
        match &mut self.side {
            SumUse::Confirm(confirm) => {
                if fx.cx.setting.proposes_candidates {
                    confirm.candidates = self.config.strategy.candidates;
                }
                self.begin_old_sums(fx, 0);
            }
            SumUse::Patched(_) => {
                self.awaits_keeps = fx.cx.setting.agrees_on_sums && self.config.negotiates();
                if !self.awaits_keeps {
                    self.begin_old_sums(fx, fx.old.first_nonempty());
                }
            }
            SumUse::Roll(_) => {}
        }
    }

    /// Takes the kind of sums that the sender's storage keeps, announces the kind for the old version, and begins to
    /// sum.
    pub(super) fn receive_stored_sum_kind(
        &mut self,
        fx: &mut FileContext<'_>,
        kept: Option<BlockSumSpec>,
    ) -> Result<(), PeerError> {
        if !std::mem::take(&mut self.awaits_keeps) {
            return Err(PeerError::Unexpected("a kind of stored sums that was not asked for"));
        }
        let part = fx.old.first_nonempty();
        // Kept sums must have the block length that the user chose, if any.
        let is_asked = fx.cx.setting.options.block_bytes.is_some();
        let asked = |kept: &BlockSumSpec| !is_asked || kept.block_bytes == self.spec.max_len();
        let (receiver, sender) = (fx.old.keeps.filter(asked), kept.filter(asked));
        let by = self.config.agreed_stored_sums(self.spec, receiver, sender, fx.old.len_of(part));
        let (here, path) = (fx.old.keeps, fx.path.clone());
        let agreed = AgreedSums { path, here, there: PeerSums::Told(kept), agreed: by };
        fx.cx.notices.push_back(Notice::Agreed(agreed));
        if let Some((config, spec)) = by.and_then(|kept| self.config.with_stored_sums(kept)) {
            (self.config, self.spec, self.side) =
                (config, spec, SumUse::Patched(PatchedBlocks::new(spec)));
        }
        fx.cx.frames.push_back(ToSender::Signs { file: fx.file, by });
        self.begin_old_sums(fx, part);
        Ok(())
    }

    /// Begins to sum old version `part`.
    fn begin_old_sums(&mut self, fx: &mut FileContext<'_>, part: usize) {
        let parallel = self.config.parallel_mode(fx.cx.setting.options.threads);
        let strong = self.old_strong_kind();
        let summation = FileSummation::new(parallel, &self.spec, fx.old.len_of(part), strong);
        self.reading = Some(VersionSumming { part, summation });
        self.request_old_sums(fx);
    }

    /// Asks for all portions that may be summed by now.
    fn request_old_sums(&mut self, fx: &mut FileContext<'_>) {
        let (StrategySums { weak, keying, .. }, strong) = (self.config, self.old_strong_kind());
        let summing = Summing { chunker: self.spec, weak, strong, keying };
        let Some(VersionSumming { part, summation }) = &mut self.reading else { return };
        let (part, handle) = (*part, fx.handle);
        while let Some((step, portion)) = summation.next() {
            let work = ReceiverWork::Old(OldVersionWork::SumOld { handle, part, portion, summing });
            fx.cx.request_work(work, FilePending::SumOld { handle, part, step });
        }
    }

    /// Takes the sums of a portion of an old version. A part that is unreadable or beyond the budget is not matched
    /// against.
    fn take_old_sums(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        portion: SummedPortion,
    ) {
        let SummedPortion { part, step, summed } = portion;
        let parts = fx.old.lens.len();
        let read = fx.old.lens.iter().take(part + 1).sum();
        let reading = self.reading.as_mut().filter(|reading| reading.part == part);
        let Some(reading) = reading else { return };
        let (sums, at_end) = match summed {
            Ok(summed) => {
                let sums = reading.summation.take_result(step, summed);
                fx.cx.counts.gathered += reading.summation.take_gathered();
                (sums, reading.summation.is_complete() || reading.summation.has_too_many_chunks())
            }
            Err(_) => (Vec::new(), true),
        };
        let done = match &mut self.side {
            SumUse::Confirm(confirm) => {
                confirm.add_old_chunks(&sums, at_end.then_some(read), at_end && part + 1 >= parts);
                at_end && part + 1 >= parts
            }
            // A rolling search uses one old version only.
            SumUse::Patched(patched) => {
                let most = fx.cx.setting.limits.max_items();
                fx.cx.frames.extend(patched.next_frames(fx.file, most, &sums, at_end));
                at_end
            }
            SumUse::Roll(_) => return,
        };
        if at_end {
            self.reading = None;
        }
        if done {
            self.match_more(fx, build);
        } else if at_end {
            self.begin_old_sums(fx, part + 1);
        } else {
            self.request_old_sums(fx);
        }
    }

    /// Takes the next sums of the new version.
    pub(super) fn match_sums(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        self.take_sums(lines, extent)?;
        self.match_more(fx, build);
        if !fx.is_over()
            && let SumUse::Roll(roll) = &mut self.side
            && let Some(search) = roll.start_search(&self.chunks)
        {
            request_roll(fx, 0, search);
        }
        Ok(())
    }

    fn take_sums(&mut self, lines: Vec<SumLine>, extent: Extent) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a Sums frame in this state");
        if self.chunks.is_complete() {
            return Err(UNFIT);
        }
        for line in lines {
            let count = self.chunks.count();
            let sum = match &mut self.side {
                SumUse::Confirm(confirm) => {
                    let sum = line.resolve(count, |no| confirm.add_looked_up(&self.chunks, no))?;
                    confirm.take_sum(&sum)?;
                    sum
                }
                SumUse::Roll(roll) => {
                    let sums = roll.sums.as_ref().ok_or(UNFIT)?;
                    let sum = line.resolve(count, |no| sum_of(sums, no))?;
                    roll.take_sum(line, &sum)?;
                    sum
                }
                SumUse::Patched(_) => return Err(UNFIT),
            };
            self.chunks.push_chunk(sum.len)?;
        }
        self.chunks.note_extent(extent)?;
        match &self.side {
            SumUse::Confirm(confirm) if self.is_pipelined() => confirm.check_window(&self.chunks),
            SumUse::Patched(_) => Err(UNFIT),
            _ => Ok(()),
        }
    }

    /// Looks up all chunks that can be looked up by now.
    fn match_more(&mut self, fx: &mut FileContext<'_>, build: &mut FileAssembly) {
        let (pipelined, most) = (self.is_pipelined(), fx.cx.setting.limits.max_items());
        while !fx.is_over()
            && let SumUse::Confirm(confirm) = &mut self.side
            && let Some((batch, counts)) = confirm.next_batch(&mut self.chunks, pipelined, most)
        {
            fx.cx.counts.add(counts.weak, 0);
            fx.cx.counts.tagged += counts.tagged;
            self.request_strong_sums(fx, build, batch);
        }
    }

    /// Requests strong sums of the chunks that the old versions may have, to be sent to the sender.
    fn request_strong_sums(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        batch: ConfirmBatch,
    ) {
        let ConfirmBatch { needs, mut tokens } = batch;
        if !needs.is_empty() {
            build.start_copies(fx, Vec::new(), true, None);
        }
        let SumUse::Confirm(confirm) = &mut self.side else { return };
        if fx.is_over() {
            return;
        }
        let spans = confirm.begin_hashing(&mut tokens);
        if tokens.is_empty() {
            return self.send_match(fx, ConfirmBatch { needs, tokens }, &[]);
        }
        let (handle, strong) = (fx.handle, self.config.strong);
        let work = ReceiverWork::Old(OldVersionWork::HashOld { handle, strong, spans });
        let pending = FilePending::HashOld { handle, needs, tokens };
        fx.cx.jobs.request_in_turn(self.config.matching_turn(), work, pending.into());
    }

    /// Takes the strong sums of a batch, and sends the match.
    fn send_match(&mut self, fx: &mut FileContext<'_>, batch: ConfirmBatch, sums: &[StrongSum]) {
        let ConfirmBatch { needs, tokens } = batch;
        let SumUse::Confirm(confirm) = &mut self.side else { return };
        let tokens = confirm.take_hashes(&needs, tokens, sums, self.config.strong_bytes());
        fx.cx.frames.push_back(ToSender::Match { file: fx.file, needs, tokens });
    }

    /// Takes the sender's answer to the oldest match.
    pub(super) fn receive_denial(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        denied: &[Range<u32>],
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError =
            PeerError::Unexpected("a Denied frame for chunks that were not requested");
        let SumUse::Confirm(confirm) = &mut self.side else { return Err(UNFIT) };
        let mut found = FoundCopies::default();
        let MatchVerdict { bytes, needs, again } =
            confirm.take_answer(&mut self.chunks, denied, &mut found)?;
        let ops = self.ready_copies(found);
        build.matched.bytes += bytes;
        fx.report_progress(build.settled_bytes());
        build.start_copies(fx, ops, needs, None);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for token in again {
            bytes += token.len;
            batch.push(token);
            if bytes >= MAX_TOKEN_BYTES || batch.len() == fx.cx.setting.limits.max_items() {
                bytes = 0;
                let tokens = std::mem::take(&mut batch);
                self.request_strong_sums(fx, build, ConfirmBatch { needs: Vec::new(), tokens });
            }
        }
        if !batch.is_empty() {
            self.request_strong_sums(fx, build, ConfirmBatch { needs: Vec::new(), tokens: batch });
        }
        Ok(())
    }

    /// Takes the matches of a search through the old version. At the end of the version, copies them and requests the
    /// rest.
    fn take_roll_result(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        rolled: Result<OldMatches, WorkError>,
    ) {
        let SumUse::Roll(roll) = &mut self.side else { return };
        // An unreadable part of the old version is only not matched against.
        if let Ok(OldMatches { found, consumed, at_end, searcher }) = rolled {
            let start = roll.take_matches(&found, consumed, self.spec.max_len());
            if !at_end {
                return request_roll(fx, start, Search::On(searcher));
            }
            let counts = searcher.counts();
            fx.cx.counts.add(counts.weak, counts.strong);
        }
        let mut copies = FoundCopies::default();
        let missing = roll.finish_search(&mut self.chunks, &mut build.matched, &mut copies);
        let ops = self.ready_copies(copies);
        for chunks in missing.chunks(fx.cx.setting.limits.max_items()) {
            fx.cx.frames.push_back(ToSender::Need { file: fx.file, chunks: chunks.to_vec() });
        }
        fx.report_progress(build.settled_bytes());
        build.start_copies(fx, ops, !missing.is_empty(), None);
    }

    /// Takes the next steps of a patch, with their literals.
    pub(super) fn receive_patch(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        steps: &[PatchStep],
        payload: Payload,
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a Patch frame in this state");
        let SumUse::Patched(patched) = &self.side else { return Err(UNFIT) };
        if !patched.is_all_sent || steps.is_empty() {
            return Err(UNFIT);
        }
        let (mut copies, before) = (FoundCopies::default(), self.chunks.end);
        let pieces = patched.take_steps(&mut self.chunks, steps, &mut copies)?;
        let bytes: usize = pieces.iter().map(|piece| piece.span.len as usize).sum();
        let fits = if pieces.is_empty() {
            payload == Payload::Plain(Vec::new())
        } else {
            bytes <= fx.cx.setting.limits.frame_bytes && payload.may_hold(bytes)
        };
        if !fits {
            return Err(PeerError::Unexpected(
                "literals with another length than the patch announced",
            ));
        }
        build.matched.bytes += self.chunks.end - before - bytes as u64;
        let ops = self.ready_copies(copies);
        fx.report_progress(build.settled_bytes());
        build.start_copies(fx, ops, !pieces.is_empty(), None);
        if fx.is_over() || pieces.is_empty() {
            return Ok(());
        }
        let chunks = vec![0; pieces.len()];
        build.write_literals(fx, LiteralChunks { chunks, pieces, payload, bytes }, Vec::new());
        Ok(())
    }
}

/// Asks for a search from `start` in the first old version that is not empty.
fn request_roll(fx: &mut FileContext<'_>, start: u64, search: Search) {
    let (handle, part) = (fx.handle, fx.old.first_nonempty());
    fx.cx.request_work(
        ReceiverWork::Old(OldVersionWork::Roll { handle, part, start, search }),
        FilePending::Roll(handle),
    );
}

/// Returns the offset of an operation's bytes in the new version.
const fn place_of(op: &DeltaOp) -> u64 {
    match op {
        DeltaOp::Copy { new_start, .. } => *new_start,
        DeltaOp::Literal { new } => new.start,
    }
}
