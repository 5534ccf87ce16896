//! A file in transfer to the receiver: by recipe, in blocks, as differences from a base, or by a strategy of the
//! papers.
//!
//! A transfer knows neither the tree nor other files. It takes frames about its file and answers to its work; frames
//! and work leave through the [`Context`].

mod attempt;
mod blocks;
mod changes;
mod recipe;
mod table;

use std::ops::Range;

use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::recipe::{Chunk, FileDigest};
use deltic_core::search::SearchedRegion;
use deltic_core::{BlockSumSpec, DataMap, Digest, Key, StrongSum};

use crate::cutting::CutPart;
use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::{
    DataLine, Extent, FileNo, GapLine, Payload, SumLine, ToReceiver, Token, TransferKind,
};
use crate::report::Trouble;
use crate::summing::{SumStep, Summed};

use super::ask::{Deltas, FileSeal, Opened, Searched};
use super::context::Context;
use super::presets::PresetSender;

use blocks::{BlockSender, fill_frame};
use changes::ChangeSender;
use recipe::{RecipeSender, UNOFFERED};

pub(super) use attempt::{CHANGED, SendAttempt, other_chunks_trouble};
pub(super) use table::{ChunkTable, NeededChunks};

/// A file in transfer.
#[derive(Debug)]
pub(super) struct OutgoingTransfer {
    pub(super) attempt: SendAttempt,
    /// Base that the receiver named.
    pub(super) base: Option<Digest>,
    way: SendMethod,
}

/// State of a transfer, by the way in which the file is sent.
#[derive(Debug)]
enum SendMethod {
    Recipe(Box<RecipeSender>),
    Blocks(BlockSender),
    Changes(ChangeSender),
    Preset(Box<PresetSender>),
}

/// Key and chunker of a transfer that began in an earlier session.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResumedTransfer {
    pub(super) key: Key,
    pub(super) spec: ChunkerSpec,
}

impl ResumedTransfer {
    /// True if a file of `len` bytes may have been cut by this chunker: as this program cuts it, whole, by recipe or
    /// into blocks with stored sums.
    /// A peer that could request smaller chunks could force a longer recipe into memory.
    pub(super) fn may_have_cut(&self, cx: &Context, len: u64) -> bool {
        let is_summed = cx
            .abilities
            .summed_blocks
            .is_some_and(|blocks| blocks.chunker == self.spec && blocks.may_cut(len));
        is_summed
            || self.spec == cx.limits.whole_file_chunker()
            || self.spec == cx.strategy.chunker(len, None)
    }
}

/// Position where an attempt begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptStart {
    /// The first byte of the file.
    Anew,
    /// The point where an earlier session was interrupted.
    Resumed(ResumedTransfer),
    /// This offset: the receiver has the bytes before.
    Behind(u64),
}

impl AttemptStart {
    pub(super) const fn resumed(self) -> Option<ResumedTransfer> {
        match self {
            Self::Resumed(resumed) => Some(resumed),
            Self::Anew | Self::Behind(_) => None,
        }
    }

    const fn start(self) -> u64 {
        match self {
            Self::Behind(start) => start,
            Self::Anew | Self::Resumed(_) => 0,
        }
    }
}

/// Literals that were read for one `Fill`.
#[derive(Debug)]
pub(super) struct ReadChunks {
    pub(super) chunks: Vec<Range<u32>>,
    /// Length of the chunks in bytes.
    pub(super) bytes: u64,
    pub(super) payload: Payload,
    /// Lengths and fingerprints of the chunks, if the driver was asked for them.
    pub(super) sums: Vec<Chunk>,
}

impl OutgoingTransfer {
    pub(super) fn new(mut attempt: SendAttempt, begins: AttemptStart, cx: &Context) -> Self {
        attempt.settled = begins.start();
        let (blocks, agreed) =
            (cx.limits.whole_file_chunker(), begins.resumed().map(|resumed| resumed.spec));
        let way = match PresetSender::new(cx.strategy, attempt.how) {
            Some(preset) => SendMethod::Preset(preset),
            None if attempt.how == TransferKind::Recipe => {
                SendMethod::Recipe(Box::new(RecipeSender::new(agreed, agreed.unwrap_or(blocks))))
            }
            None => SendMethod::Blocks(BlockSender::new(begins.start(), blocks)),
        };
        Self { attempt, base: None, way }
    }

    /// True if the frames of this transfer answer requests, so that they may come in any order.
    pub(super) fn has_unordered_frames(&self) -> bool {
        match &self.way {
            SendMethod::Recipe(_) => true,
            SendMethod::Blocks(blocks) => blocks.asked,
            SendMethod::Changes(_) | SendMethod::Preset(_) => false,
        }
    }

    /// True if the chunks of the file fit frames with these limits.
    pub(super) fn is_within(&self, limits: &Limits) -> bool {
        match &self.way {
            SendMethod::Recipe(recipe) => limits.admits_chunker(&recipe.spec),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => true,
        }
    }

    /// True if the driver holds no open file under the handle.
    pub(super) const fn has_no_open_file(&self) -> bool {
        matches!(&self.way, SendMethod::Blocks(blocks) if blocks.at_once)
    }

    pub(super) fn unanswered_groups(&self) -> u64 {
        match &self.way {
            SendMethod::Recipe(recipe) => recipe.unanswered_groups(),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => 0,
        }
    }

    /// Returns the number of the old version's sums that the receiver sent.
    pub(super) fn old_sum_count(&self) -> usize {
        match &self.way {
            SendMethod::Preset(preset) => preset.old_sums,
            SendMethod::Recipe(_) | SendMethod::Blocks(_) | SendMethod::Changes(_) => 0,
        }
    }

    pub(super) fn take_opened(&mut self, cx: &mut Context, opened: Opened) -> Result<(), Trouble> {
        let Opened { meta, body, mut known } = opened;
        if let Some(reason) = known.reason.take() {
            self.attempt.report_reason(cx, reason);
        }
        let map = known.map.take();
        self.attempt.len = map.as_ref().map_or(meta.len, DataMap::data_len);
        let changes = self.base.zip(known.changed.take());
        let changes =
            changes.and_then(|(base, changed)| ChangeSender::new(base, changed, meta.len));
        if let Some(changes) = changes {
            (self.attempt.how, self.way) = (TransferKind::Changes, SendMethod::Changes(changes));
        }
        let spec = match &mut self.way {
            SendMethod::Recipe(recipe) => {
                recipe.choose_chunker(cx, meta.len, self.attempt.len, known);
                recipe.spec
            }
            SendMethod::Blocks(blocks) => {
                blocks.count_blocks(&self.attempt, self.attempt.len)?;
                blocks.spec
            }
            SendMethod::Changes(_) => Limits::changed_file_chunker(),
            SendMethod::Preset(preset) => preset.choose_chunker(cx, meta.len, known.keeps),
        };
        let SendAttempt { file, how, is_offer, .. } = self.attempt;
        if let Some(map) = &map {
            cx.frames.extend(hole_frames(file, map, cx.limits.max_items()));
            self.attempt.count_settled(cx, map.hole_len());
        }
        let body = match (&mut self.way, body) {
            (SendMethod::Blocks(blocks), Some(body)) if cx.may_be_single(how, &map, &body) => {
                blocks.send_single(&mut self.attempt, cx, meta, body);
                return Ok(());
            }
            (_, body) => body,
        };
        cx.send(match is_offer {
            true => ToReceiver::Offer { file, meta, spec },
            false => ToReceiver::Start { file, meta, how, spec },
        });
        match (&mut self.way, body) {
            (SendMethod::Blocks(blocks), Some(body)) if how == TransferKind::Whole => {
                blocks.send_whole(&mut self.attempt, cx, body);
            }
            (SendMethod::Blocks(blocks), _) => blocks.read_more(&self.attempt, cx),
            (SendMethod::Recipe(recipe), _) => recipe.begin(&self.attempt, cx)?,
            (SendMethod::Changes(changes), _) => changes.begin(&mut self.attempt, cx),
            (SendMethod::Preset(preset), _) => preset.begin(&self.attempt, cx),
        }
        Ok(())
    }

    /// Continues sending and scanning a recipe. Returns true if groups wait for the window.
    pub(super) fn continue_sending(&mut self, cx: &mut Context) -> bool {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.continue_sending(&mut self.attempt, cx),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => false,
        }
    }

    pub(super) fn take_scanned(
        &mut self,
        cx: &mut Context,
        part: CutPart,
        run: SegmentChunks<Chunk>,
    ) -> Result<(), Trouble> {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.take_scanned(&self.attempt, cx, part, run),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => Ok(()),
        }
    }

    pub(super) fn take_seal(&mut self, cx: &mut Context, sealed: FileSeal) -> Result<(), Trouble> {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.take_seal(&mut self.attempt, cx, sealed),
            SendMethod::Blocks(_) | SendMethod::Changes(_) => self.attempt.send_end(cx, sealed),
            SendMethod::Preset(preset) => preset.take_seal(&self.attempt, cx, sealed),
        }
        Ok(())
    }

    /// Sends the literals that were read.
    pub(super) fn send_literals(
        &mut self,
        cx: &mut Context,
        read: ReadChunks,
    ) -> Result<(), Trouble> {
        let ReadChunks { chunks, bytes, payload, sums } = read;
        match &mut self.way {
            SendMethod::Blocks(blocks) => blocks.record_sums(chunks[0].start, &sums),
            SendMethod::Changes(changes) => changes.record_sums(&chunks, sums),
            SendMethod::Recipe(_) | SendMethod::Preset(_) => {}
        }
        cx.send(fill_frame(&self.attempt, chunks, payload));
        self.attempt.count_settled(cx, bytes);
        match &mut self.way {
            SendMethod::Blocks(blocks) => blocks.read_more(&self.attempt, cx),
            SendMethod::Changes(changes) => changes.read_more(&self.attempt, cx),
            SendMethod::Recipe(_) | SendMethod::Preset(_) => {}
        }
        Ok(())
    }

    pub(super) fn send_gap_deltas(&self, cx: &mut Context, gaps: Vec<Range<u32>>, deltas: Deltas) {
        let (file, Deltas { payload, bytes, .. }) = (self.attempt.file, deltas);
        cx.send(ToReceiver::Mended { file, gaps, bytes, payload });
    }

    pub(super) fn receive_lack(
        &mut self,
        cx: &mut Context,
        lacked: &[Range<u32>],
    ) -> Result<(), PeerError> {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.receive_lack(&mut self.attempt, cx, lacked),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => {
                Err(PeerError::Unexpected("a Lack frame without an open group"))
            }
        }
    }

    pub(super) fn receive_need(
        &mut self,
        cx: &mut Context,
        needed: &[Range<u32>],
    ) -> Result<(), PeerError> {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.receive_need(&mut self.attempt, cx, needed),
            SendMethod::Blocks(blocks) => blocks.receive_block_request(needed),
            SendMethod::Changes(_) => Err(PeerError::Unexpected("a Need frame in this state")),
            SendMethod::Preset(preset) => preset.receive_block_requests(&self.attempt, cx, needed),
        }
    }

    pub(super) fn receive_gap_requests(
        &mut self,
        cx: &mut Context,
        lines: Vec<GapLine>,
    ) -> Result<(), PeerError> {
        match &mut self.way {
            SendMethod::Recipe(recipe) => recipe.take_gap_requests(&self.attempt, cx, lines),
            SendMethod::Blocks(_) | SendMethod::Changes(_) | SendMethod::Preset(_) => {
                Err(UNOFFERED)
            }
        }
    }

    /// Returns the state of the papers' strategy, if the file is sent by one.
    fn preset_and_attempt(&mut self) -> Option<(&mut PresetSender, &mut SendAttempt)> {
        match &mut self.way {
            SendMethod::Preset(preset) => Some((preset, &mut self.attempt)),
            SendMethod::Recipe(_) | SendMethod::Blocks(_) | SendMethod::Changes(_) => None,
        }
    }

    pub(super) fn receive_signature_sums(
        &mut self,
        cx: &mut Context,
        by: Option<BlockSumSpec>,
    ) -> Result<(), PeerError> {
        let (preset, attempt) = self
            .preset_and_attempt()
            .ok_or(PeerError::Unexpected("a choice of signature sums in this state"))?;
        let here = preset.receive_signature_sums(by)?;
        cx.notify(attempt.agreed_notice(here, by))
    }

    pub(super) fn take_old_sums(
        &mut self,
        cx: &mut Context,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        let unfit = PeerError::Unexpected("signature sums in this state");
        let (preset, attempt) = self.preset_and_attempt().ok_or(unfit)?;
        preset.take_old_sums(attempt, cx, lines, extent)
    }

    pub(super) fn receive_matches(
        &mut self,
        cx: &mut Context,
        needs: &[Range<u32>],
        tokens: Vec<Token>,
    ) -> Result<(), PeerError> {
        let (preset, attempt) = self
            .preset_and_attempt()
            .ok_or(PeerError::Unexpected("a Match frame in this state"))?;
        preset.receive_matches(attempt, cx, needs, tokens)
    }

    pub(super) fn take_sums(
        &mut self,
        cx: &mut Context,
        step: SumStep,
        summed: Summed,
        digest: Option<Box<FileDigest>>,
    ) -> Result<(), Trouble> {
        let Some((preset, attempt)) = self.preset_and_attempt() else { return Ok(()) };
        preset.take_digest(digest);
        preset.take_sums(attempt, cx, step, summed)
    }

    pub(super) fn take_token_sums(
        &mut self,
        cx: &mut Context,
        sums: &[StrongSum],
    ) -> Result<(), Trouble> {
        if let Some((preset, attempt)) = self.preset_and_attempt() {
            preset.take_token_sums(attempt, cx, sums);
        }
        Ok(())
    }

    pub(super) fn take_region_matches(
        &mut self,
        cx: &mut Context,
        no: u64,
        region: SearchedRegion,
    ) -> Result<(), Trouble> {
        if let Some((preset, attempt)) = self.preset_and_attempt() {
            preset.take_region_matches(attempt, cx, no, region);
        }
        Ok(())
    }

    pub(super) fn take_search_result(
        &mut self,
        cx: &mut Context,
        searched: Searched,
    ) -> Result<(), Trouble> {
        let Some((preset, attempt)) = self.preset_and_attempt() else { return Ok(()) };
        preset.take_search_result(attempt, cx, searched)
    }
}

/// Returns the `Holes` frames of a file: at least one frame, each with at most `most` runs of data.
fn hole_frames(file: FileNo, map: &DataMap, most: usize) -> Vec<ToReceiver> {
    let lines: Vec<_> = DataLine::from_runs(map.runs()).collect();
    let frame = |runs: &[DataLine]| ToReceiver::Holes { file, runs: runs.to_vec() };
    if lines.is_empty() { vec![frame(&[])] } else { lines.chunks(most).map(frame).collect() }
}
