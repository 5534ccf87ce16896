//! The content of one file, from the sender's `Start` until the new version is proved.
//!
//! A transfer decides about no path, and knows no directory and no other file. Frames and answers come in; frames and
//! work go out through its [`FileContext`], which also takes the end of the transfer.
//!
//! ```text
//! Coming ──► every byte found, asked for or here, and End ──► Ended ──► Commit, Confirm or Replace ──► Settling
//! ```

mod again;
mod assembly;
mod blocks;
mod changes;
mod copies;
pub(crate) mod file_context;
pub(crate) mod gap;
mod gaps;
pub(crate) mod indexing;
mod keeping;
pub(crate) mod old;
pub(crate) mod presets;
mod probing;
pub(crate) mod proof;
mod recipe;
mod settling;
mod shift;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{Algorithm, ChunkerSpec};
use deltic_core::delta::DeltaOp;
use deltic_core::{BlockSumSpec, DataMap, Digest, Fingerprint, MovedRun, Span, Strategy};
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::{Limits, OFFERED_GROUPS};
use crate::message::{ChunkLine, Extent, GroupLine, Payload, ToSender, TransferKind};
use crate::sums::{PatchStep, SumLine};
use crate::work::WorkTurn;

use super::ask::{NewVersion, NewVersionAnswer, PayloadChunk, ReceiverAnswer};
use super::context::Context;
use super::load::LoadShare;
use super::pending::FilePending;
use assembly::{FileAssembly, LiteralChunks};
use blocks::BlockReceiver;
use changes::ChangeReceiver;
use copies::copy_runs;
use file_context::{FileContext, TransferOutcome};
use gap::GapPayload;
use indexing::ExpectedTransfer;
use presets::PresetState;
use recipe::RecipeReceiver;
use table::UNASKED;

/// A transfer of the content of a file.
#[derive(Debug)]
pub(crate) struct IncomingTransfer {
    meta: Meta,
    build: FileAssembly,
    method: TransferMethod,
    phase: TransferPhase,
    /// True if the source grew while it was read, or a program has the source open for writing.
    is_restless: bool,
}

/// The way of transferring the content, with the state of the transfer.
#[derive(Debug)]
enum TransferMethod {
    Recipe(Box<RecipeReceiver>),
    Blocks(BlockReceiver),
    Changes(ChangeReceiver),
    Preset(Box<PresetState>),
}

impl TransferMethod {
    /// Takes the waiting copies that lie before `place`, if copies and literals alternate.
    fn take_before(&mut self, place: u64) -> Vec<DeltaOp> {
        match self {
            Self::Preset(preset) => preset.take_before(place),
            Self::Changes(changes) => changes.take_before(place),
            Self::Recipe(_) | Self::Blocks(_) => Vec::new(),
        }
    }

    /// Takes the copies that wait for the end, if there are any.
    fn take_late(&mut self) -> Option<Vec<DeltaOp>> {
        match self {
            Self::Preset(preset) => preset.take_late(),
            Self::Changes(changes) => Some(changes.take_before(u64::MAX)),
            Self::Recipe(_) | Self::Blocks(_) => None,
        }
        .filter(|late| !late.is_empty())
    }
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferPhase {
    /// Further frames may arrive for the transfer.
    Coming,
    /// The sender has told all content; holds the digest that proves the whole.
    Ended(Digest),
    /// The result is being put in place.
    Settling,
}

impl IncomingTransfer {
    /// Begins a transfer of the version `meta`. With a `map`, only the data of the map is transferred.
    pub(crate) fn new(
        meta: Meta,
        how: TransferKind,
        spec: ChunkerSpec,
        map: Option<Arc<DataMap>>,
        cx: &Context,
    ) -> Self {
        let new = NewVersion { len: meta.len, map, modified: meta.modified, from: 0, spec };
        let (method, turn) = match (how, PresetState::new(cx.strategy(), how, spec, meta.len)) {
            (TransferKind::Whole | TransferKind::Tail, _) => (
                TransferMethod::Blocks(BlockReceiver::new(new.clone(), how == TransferKind::Whole)),
                WorkTurn::Any,
            ),
            (_, Some(preset)) => {
                let turn = preset.write_order();
                (TransferMethod::Preset(preset), turn)
            }
            (_, None) => {
                let recipe = RecipeReceiver::new(spec, new.transferred_len(), cx.setting.limits);
                (TransferMethod::Recipe(Box::new(recipe)), WorkTurn::Any)
            }
        };
        let build = FileAssembly::new(new, turn);
        Self { meta, build, method, phase: TransferPhase::Coming, is_restless: false }
    }

    /// Begins a transfer of the changes of the version `meta` since a base of `base_len` bytes.
    pub(crate) fn from_base(meta: Meta, base: Digest, base_len: u64) -> Self {
        let spec = Limits::changed_file_chunker();
        let new = NewVersion { len: meta.len, map: None, modified: meta.modified, from: 0, spec };
        let method = TransferMethod::Changes(ChangeReceiver::new(base, base_len, meta.len));
        let build = FileAssembly::new(new, WorkTurn::Any);
        Self { meta, build, method, phase: TransferPhase::Coming, is_restless: false }
    }

    /// The metadata of the new version, as the sender opened it.
    pub(crate) const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Replaces the metadata of the new version.
    pub(crate) fn set_meta(&mut self, meta: Meta) {
        self.meta = meta;
    }

    /// Keeps the first `from` bytes of the version in place; returns false if the new version is shorter.
    pub(crate) fn keep_start(&mut self, from: u64) -> bool {
        let fits = from <= self.meta.len;
        if fits {
            self.build.keep_start(from);
            self.method = TransferMethod::Blocks(BlockReceiver::new(self.build.new.clone(), false));
        }
        fits
    }

    /// Begins to match against the old versions, with the index and the interrupted transfer known so far.
    pub(crate) fn begin_matching(&mut self, fx: &mut FileContext<'_>, expected: ExpectedTransfer) {
        let ExpectedTransfer { kept, ahead, .. } = expected;
        self.build.set_leftover_start(fx.old.left_at);
        match &mut self.method {
            TransferMethod::Recipe(recipe) => {
                ahead.into_iter().for_each(|ahead| recipe.use_early_index(*ahead));
                match kept {
                    Some(kept) => {
                        self.build.stop_holding_copies();
                        recipe.resume(kept.chunks, !fx.old.lens.is_empty());
                    }
                    None => recipe.index_more(fx, &mut self.build),
                }
            }
            TransferMethod::Blocks(blocks) if fx.cx.setting.options.streams > 1 => {
                if let Some(all) = blocks.mark_all_requested() {
                    fx.cx.frames.push_back(ToSender::Need { file: fx.file, chunks: vec![all] });
                }
            }
            TransferMethod::Blocks(_) | TransferMethod::Changes(_) => {}
            TransferMethod::Preset(preset) => preset.begin(fx),
        }
    }

    /// Holds back all reads of old versions until their order of reading is known.
    pub(crate) fn hold_back_reads(&mut self) {
        if let TransferMethod::Recipe(recipe) = &mut self.method {
            recipe.hold_back_reads();
        }
    }

    /// Continues with the old versions once their order of reading is known.
    pub(crate) fn use_data_order(&mut self, fx: &mut FileContext<'_>) {
        self.build.set_leftover_start(fx.old.left_at);
        if let TransferMethod::Recipe(recipe) = &mut self.method {
            recipe.use_data_order(fx, &mut self.build);
        }
    }

    /// True if no frame of the transfer may overtake another: for preset strategies, changes, and blocks that were
    /// not requested.
    pub(crate) const fn comes_in_order(&self) -> bool {
        match &self.method {
            TransferMethod::Recipe(_) => false,
            TransferMethod::Blocks(blocks) => !blocks.is_requested(),
            TransferMethod::Changes(_) | TransferMethod::Preset(_) => true,
        }
    }

    /// True while the result is being put in place.
    pub(crate) fn is_settling(&self) -> bool {
        self.phase == TransferPhase::Settling
    }

    /// True if the source grew while it was read, or a program has the source open for writing.
    pub(crate) const fn is_restless(&self) -> bool {
        self.is_restless
    }

    /// Numbers of bytes sent, bytes matched, and matched bytes that an interrupted run left.
    pub(crate) fn transferred_bytes(&self) -> (u64, u64, u64) {
        let (literal, matched, holes) =
            (self.build.literal, &self.build.matched, self.build.hole_bytes());
        // Holes are content too, and count as sent if nothing was matched.
        match matched.bytes {
            0 => (literal + holes, 0, matched.resumed),
            bytes => (literal, bytes + holes, matched.resumed),
        }
    }

    /// The transfer's share of the work under way.
    pub(crate) fn load_share(&self) -> LoadShare {
        match &self.method {
            TransferMethod::Recipe(recipe) => recipe.load_share(),
            TransferMethod::Blocks(_) | TransferMethod::Changes(_) | TransferMethod::Preset(_) => {
                LoadShare::default()
            }
        }
    }

    /// Returns the recipe while more of it may arrive. Errors: `Unexpected` otherwise.
    fn growing_recipe(
        &mut self,
        what: &'static str,
    ) -> Result<(&mut RecipeReceiver, &mut FileAssembly), PeerError> {
        match &mut self.method {
            TransferMethod::Recipe(recipe) if self.phase == TransferPhase::Coming => {
                Ok((recipe, &mut self.build))
            }
            _ => Err(PeerError::Unexpected(what)),
        }
    }

    /// Takes groups of an offer.
    pub(crate) fn take_offered_groups(&mut self, lines: &[GroupLine]) -> Result<(), PeerError> {
        let (recipe, build) = self.growing_recipe("groups")?;
        recipe.receive_groups(build, lines)?;
        let fits = recipe.load_share().groups_held <= OFFERED_GROUPS;
        if fits { Ok(()) } else { Err(PeerError::Limit("groups of an offer")) }
    }

    /// Takes chunks of an offer.
    pub(crate) fn take_offered_chunks(&mut self, lines: &[ChunkLine]) -> Result<(), PeerError> {
        self.growing_recipe("a Recipe frame in this state")?.0.receive_chunks(lines)
    }

    pub(crate) fn receive_groups(
        &mut self,
        fx: &mut FileContext<'_>,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        let (recipe, build) = self.growing_recipe("groups")?;
        recipe.take_groups(fx, build, lines)
    }

    pub(crate) fn receive_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        let (recipe, build) = self.growing_recipe("a Recipe frame in this state")?;
        recipe.take_recipe_chunks(fx, build, lines)
    }

    pub(crate) fn receive_group_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        groups: &[Range<u32>],
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        match &mut self.method {
            _ if groups.is_empty() => Err(PeerError::Unexpected("chunks without a group")),
            TransferMethod::Recipe(recipe) => {
                recipe.take_chunks(fx, &mut self.build, groups, lines)
            }
            _ => Err(PeerError::Unexpected("chunks of a group that was not requested")),
        }
    }

    /// Marks a chunk as received, and returns the chunk's place.
    fn mark_received(&mut self, chunk: u32) -> Result<PayloadChunk, PeerError> {
        match &mut self.method {
            TransferMethod::Recipe(recipe) => recipe.mark_received(chunk),
            TransferMethod::Blocks(blocks) => blocks.receive(chunk),
            TransferMethod::Changes(changes) => changes.receive(chunk),
            TransferMethod::Preset(preset) => {
                let span = preset.take_requested(chunk).ok_or(UNASKED)?;
                Ok(PayloadChunk { span, brief: None })
            }
        }
    }

    /// Takes runs of blocks that the base has at other offsets.
    pub(crate) fn take_moved_runs(&mut self, runs: &[MovedRun]) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Changes(changes) if self.phase == TransferPhase::Coming => {
                changes.take_moved_runs(runs)
            }
            _ => Err(PeerError::Unexpected("moved blocks in this state")),
        }
    }

    /// Takes literals.
    pub(crate) fn receive_literals(
        &mut self,
        fx: &mut FileContext<'_>,
        ranges: &[Range<u32>],
        payload: Payload,
    ) -> Result<(), PeerError> {
        let (mut chunks, mut pieces, mut bytes) = (Vec::new(), Vec::new(), 0);
        for chunk in ranges.iter().cloned().flatten() {
            let piece = self.mark_received(chunk)?;
            bytes += piece.span.len as usize;
            if bytes > fx.cx.setting.limits.frame_bytes {
                return Err(PeerError::Limit("literal bytes in a frame"));
            }
            chunks.push(chunk);
            pieces.push(piece);
        }
        if !payload.may_hold(bytes) {
            return Err(PeerError::Unexpected("literals with another length than the chunks"));
        }
        let mut between = Vec::new();
        match (&mut self.method, &pieces[..]) {
            (TransferMethod::Blocks(blocks), _) if blocks.is_single() => {
                blocks.keep_single_block(payload);
                self.build.literal = self.build.new.len;
                fx.report_progress(self.build.settled_bytes());
                return Ok(());
            }
            (method, [first, .., last] | [first @ last]) => {
                // Copies between changed blocks are long, and may be made in any order.
                let is_ordered = matches!(method, TransferMethod::Preset(_));
                let until = if is_ordered { first.span.start } else { last.span.start };
                let earlier = method.take_before(until);
                between = copy_runs(&method.take_before(last.span.start));
                if !earlier.is_empty() {
                    self.build.start_copies(fx, earlier, true, None);
                }
            }
            _ => {}
        }
        if !fx.is_over() {
            let literals = LiteralChunks { chunks, pieces, payload, bytes };
            self.build.write_literals(fx, literals, between);
        }
        Ok(())
    }

    /// Takes gaps sent as deltas against the old versions.
    pub(crate) fn receive_gaps(
        &mut self,
        fx: &mut FileContext<'_>,
        ranges: &[Range<u32>],
        deltas: GapPayload,
    ) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Recipe(recipe) => {
                recipe.receive_gaps(fx, &mut self.build, ranges, deltas)
            }
            _ => Err(PeerError::Unexpected("a gap that was not requested")),
        }
    }

    /// Takes the kind of sums that the sender's storage keeps.
    pub(crate) fn receive_stored_sum_kind(
        &mut self,
        fx: &mut FileContext<'_>,
        kept: Option<BlockSumSpec>,
    ) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Preset(preset) => preset.receive_stored_sum_kind(fx, kept),
            _ => Err(PeerError::Unexpected("a kind of stored sums that was not asked for")),
        }
    }

    /// Takes sums of the new version, for a strategy that sends sums.
    pub(crate) fn receive_sums(
        &mut self,
        fx: &mut FileContext<'_>,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Preset(preset) => preset.match_sums(fx, &mut self.build, lines, extent),
            _ => Err(PeerError::Unexpected("a Sums frame in this state")),
        }
    }

    /// Takes the sender's answer to a match: the chunks that differ.
    pub(crate) fn receive_denial(
        &mut self,
        fx: &mut FileContext<'_>,
        denied: &[Range<u32>],
    ) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Preset(preset) => preset.receive_denial(fx, &mut self.build, denied),
            _ => Err(PeerError::Unexpected("a Denied frame in this state")),
        }
    }

    /// Takes the next steps of a patch.
    pub(crate) fn receive_patch(
        &mut self,
        fx: &mut FileContext<'_>,
        steps: &[PatchStep],
        payload: Payload,
    ) -> Result<(), PeerError> {
        match &mut self.method {
            TransferMethod::Preset(preset) if self.phase == TransferPhase::Coming => {
                preset.receive_patch(fx, &mut self.build, steps, payload)
            }
            _ => Err(PeerError::Unexpected("a Patch frame in this state")),
        }
    }

    /// Notes that the source is not at rest. `Restless` arrives at most once, before the proof of the file.
    pub(crate) fn mark_restless(&mut self) -> Result<(), PeerError> {
        if self.phase != TransferPhase::Coming || std::mem::replace(&mut self.is_restless, true) {
            return Err(PeerError::Unexpected("a Restless frame in this state"));
        }
        Ok(())
    }

    /// Takes the digest that proves the whole file, after all content was told.
    pub(crate) fn receive_digest(&mut self, digest: Digest) -> Result<(), PeerError> {
        let covers_file = match &mut self.method {
            TransferMethod::Recipe(recipe) => recipe.covers_file(),
            TransferMethod::Blocks(blocks) => blocks.is_requested() || blocks.has_all(),
            TransferMethod::Changes(changes) => {
                let covers_file = changes.queue_last_copies();
                self.build.matched.count_found(0, changes.copied_bytes());
                covers_file
            }
            TransferMethod::Preset(preset) => preset.covers_file(),
        };
        if self.phase != TransferPhase::Coming || !covers_file {
            return Err(PeerError::Unexpected("the end of an incomplete file"));
        }
        self.phase = TransferPhase::Ended(digest);
        Ok(())
    }

    /// Surveys at most `most` gaps, as the window has room for.
    pub(crate) fn survey_gaps(&mut self, fx: &mut FileContext<'_>, most: u64) {
        if let TransferMethod::Recipe(recipe) = &mut self.method {
            recipe.survey_gaps(fx, most);
        }
    }

    /// Continues to index the old versions, of which there may be more now.
    pub(crate) fn index_more(&mut self, fx: &mut FileContext<'_>) {
        if let TransferMethod::Recipe(recipe) = &mut self.method {
            recipe.index_more(fx, &mut self.build);
        }
    }

    /// Takes the answer to work of the transfer.
    pub(crate) fn answer(
        &mut self,
        fx: &mut FileContext<'_>,
        pending: FilePending,
        answer: ReceiverAnswer,
    ) {
        match (pending, answer) {
            (
                FilePending::Copy { spans, .. },
                ReceiverAnswer::New(NewVersionAnswer::Copied(copied)),
            ) => match copied {
                Ok(()) => self.note_copied(&spans),
                Err(error) => fx.fail_transfer(error),
            },
            (
                FilePending::Write { chunks, spans, .. },
                ReceiverAnswer::New(NewVersionAnswer::Written(written)),
            ) => match written {
                Ok(fingerprints) => self.take_written_chunks(fx, &chunks, &spans, fingerprints),
                Err(error) => fx.fail_transfer(error),
            },
            (FilePending::Commit(_) | FilePending::Replace { .. }, ReceiverAnswer::Done(done)) => {
                let committed = |()| TransferOutcome::Committed;
                fx.end_transfer(done.map_or_else(TransferOutcome::Failed, committed));
            }
            (FilePending::Confirm(_), ReceiverAnswer::Done(done)) => {
                let proved = |()| TransferOutcome::Proved;
                fx.end_transfer(done.map_or_else(TransferOutcome::Failed, proved));
            }
            (pending, answer) => match &mut self.method {
                TransferMethod::Recipe(recipe) => {
                    recipe.answer(fx, &mut self.build, pending, answer)
                }
                TransferMethod::Preset(preset) => {
                    preset.answer(fx, &mut self.build, pending, answer)
                }
                TransferMethod::Blocks(_) | TransferMethod::Changes(_) => {}
            },
        }
    }

    fn note_copied(&mut self, spans: &[Span]) {
        self.build.end_job();
        spans.iter().for_each(|span| self.build.mark_written(span.start, span.len.into()));
    }

    fn take_written_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        chunks: &[u32],
        spans: &[Span],
        fingerprints: Vec<Fingerprint>,
    ) {
        self.build.end_job();
        for ((chunk, fingerprint), span) in chunks.iter().zip(fingerprints).zip(spans) {
            match &mut self.method {
                TransferMethod::Recipe(recipe) => recipe.note_written(*chunk, fingerprint),
                TransferMethod::Blocks(blocks) => blocks.note_written(*chunk, fingerprint),
                TransferMethod::Changes(changes) => changes.note_written(*chunk, fingerprint),
                TransferMethod::Preset(preset) => preset.note_written(*chunk, fingerprint),
            }
            self.build.literal += u64::from(span.len);
        }
        spans.iter().for_each(|span| self.build.mark_written(span.start, span.len.into()));
        fx.report_progress(self.build.settled_bytes());
    }

    /// True once nothing more is to arrive and no work is under way, so that the result may be put in place. Work
    /// whose result no step waits for counts too, such as reads of an unreadable old version: after the last work the
    /// driver closes all versions.
    pub(crate) fn is_complete(&mut self, fx: &mut FileContext<'_>) -> bool {
        while matches!(self.phase, TransferPhase::Ended(_))
            && !fx.cx.jobs.is_busy(fx.handle)
            && !self.is_busy()
        {
            if let Some(late) = self.method.take_late() {
                self.build.start_copies(fx, late, self.build.literal > 0, None);
                if fx.is_over() {
                    return false;
                }
                continue;
            }
            let TransferMethod::Recipe(recipe) = &mut self.method else { return true };
            let repeats = recipe.take_repeats();
            if repeats.is_empty() {
                return true;
            }
            self.build.copy_repeats(fx, &repeats);
        }
        false
    }

    fn is_busy(&self) -> bool {
        let comes = match &self.method {
            TransferMethod::Recipe(recipe) => recipe.is_busy(),
            TransferMethod::Blocks(blocks) => !blocks.has_all(),
            TransferMethod::Changes(_) => false,
            TransferMethod::Preset(preset) => preset.is_busy(),
        };
        comes || self.build.is_busy()
    }
}

/// True for a chunker that every session agrees on. Other chunkers cost the receiver more time for each byte.
pub(crate) const fn is_agreed(spec: &ChunkerSpec) -> bool {
    matches!(spec, ChunkerSpec::Fixed(_) | ChunkerSpec::ByContent(Algorithm::Sieve, _))
}

/// True for a chunker that a sender may use by a preset strategy. Only the sender knows the rate of its link.
pub(crate) fn may_cut(strategy: &Strategy, len: u64, spec: ChunkerSpec) -> bool {
    let rates = [None, Some(1), Some(20_000_000), Some(u64::MAX)];
    rates.into_iter().any(|rate| strategy.chunker(len, rate) == spec)
}
