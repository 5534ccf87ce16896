//! Strategies of the papers: sums of the new version, sent chunk by chunk, and the steps that follow them.

mod confirm;
mod named;
mod regions;
mod search;
mod sub_table;

use std::collections::VecDeque;
use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::recipe::{Chunk, FileDigest};
use deltic_core::strategy::{Conversation, Delivery, FileProof};
use deltic_core::{BlockSumSpec, Fingerprint, Strategy, StrongKind, StrongSum};

use crate::error::PeerError;
use crate::limits::{MAX_SUMS, SEGMENT_BYTES, SUM_WINDOW};
use crate::message::{Extent, FileNo, ToReceiver, TransferKind};
use crate::report::Trouble;
use crate::summing::{FileSummation, Portion, SumStep, Summed};
use crate::sums::{StrategySums, Sum, SumEncoder, SumLine, Summing};

use super::ask::{FileSeal, FileWork, Sealing, SenderWork};
use super::context::Context;
use super::pending::SenderPending;
use super::transfer::{CHANGED, ChunkTable, NeededChunks, SendAttempt};

use named::NamedChunks;
use search::Signature;

/// Trouble message for a file with more than [`MAX_SUMS`] sums. The receiver retries the file, and finally requests
/// the whole file.
const TOO_MANY_SUMS: &str = "the file has too many chunks for this strategy";
/// Bytes hashed in one piece of work, where hashing is separate work.
const HASHED_BYTES: u64 = 2 * SEGMENT_BYTES;
/// Distance between chunks with a remembered offset, in chunks.
const MARK_CHUNKS: usize = 64;

/// An attempt by a strategy of the papers.
#[derive(Debug)]
pub(super) struct PresetSender {
    ways: StrategySums,
    spec: ChunkerSpec,
    side: MatchMethod,
    table: ChunkTable,
    needs: NeededChunks,
    /// Bytes of the new version that were cut or searched.
    scanned: u64,
    /// State of the file's digest, if the proof covers the bytes. `None` while work holds the state.
    digest: Option<Box<FileDigest>>,
    /// Bytes hashed or being hashed, where hashing is separate work.
    hashed: u64,
    encoder: SumEncoder,
    /// Sums not yet sent.
    waiting: VecDeque<SumLine>,
    /// Summation of the new version. Set once the file is open, if the strategy sends sums of the new version.
    summation: Option<FileSummation>,
    /// True once all of the new version is cut.
    is_cut: bool,
    /// True once the last sum was sent.
    sent_last: bool,
    /// True once the end of the file was sent.
    has_ended: bool,
    /// Number of the old version's sums that the receiver sent.
    pub(super) old_sums: usize,
}

/// The step that follows the sums.
#[derive(Debug)]
enum MatchMethod {
    /// The receiver names matches, which are confirmed.
    Confirm(NamedChunks),
    /// The receiver requests blocks. True for each requested block.
    Rolled(Vec<bool>),
    /// The receiver sends the sums of the old version.
    Signature(Signature),
}

impl PresetSender {
    /// Creates the state for a transfer of kind `how`. Returns `None` if the strategy has no sums for that
    /// kind, or sends plain recipes.
    pub(super) fn new(strategy: Strategy, how: TransferKind) -> Option<Box<Self>> {
        let ways = StrategySums::of(strategy, how)?;
        let side = match strategy.conversation {
            Conversation::RecipeConfirm => MatchMethod::Confirm(NamedChunks::default()),
            Conversation::RecipeRolled => MatchMethod::Rolled(Vec::new()),
            Conversation::Signature => MatchMethod::Signature(Signature::Closed(None)),
            Conversation::Recipe => return None,
        };
        let digest = (strategy.proof() == FileProof::WholeFile).then(Box::default);
        Some(Box::new(Self {
            ways,
            spec: strategy.chunker(0, None),
            side,
            table: ChunkTable::default(),
            needs: NeededChunks::new(ways.delivery_turn()),
            scanned: 0,
            digest,
            hashed: 0,
            encoder: SumEncoder::default(),
            waiting: VecDeque::new(),
            summation: None,
            is_cut: false,
            sent_last: false,
            has_ended: false,
            old_sums: 0,
        }))
    }

    fn is_pipelined(&self) -> bool {
        self.ways.strategy.delivery == Delivery::Pipelined
    }

    /// True if the receiver searches the old version by rolling sums, and requests blocks afterwards.
    const fn is_rolled(&self) -> bool {
        matches!(self.side, MatchMethod::Rolled(_))
    }

    /// Returns the strong sums computed while chunks are cut: for sending, or as proof.
    fn strong_kind(&self) -> Option<StrongKind> {
        let proves = self.ways.strategy.proof() == FileProof::Recipe;
        (self.is_rolled() || proves).then_some(self.ways.strong)
    }

    /// Returns the sums of a chunk as sent.
    fn sum_line(&mut self, sum: Sum) -> SumLine {
        let travels = if self.is_rolled() { self.ways.strong_bytes() } else { 0 };
        self.encoder.sum_line(Sum { strong: sum.strong.shortened(travels), ..sum })
    }

    /// Chooses the chunker of a file of `len` bytes; `keeps` are the sums that storage keeps of the file.
    pub(super) fn choose_chunker(
        &mut self,
        cx: &Context,
        len: u64,
        keeps: Option<BlockSumSpec>,
    ) -> ChunkerSpec {
        if let MatchMethod::Signature(old) = &mut self.side {
            *old = Signature::Closed(keeps);
        }
        let bits_per_second = cx.link.map(|link| link.bits_per_second);
        self.spec = self.ways.strategy.chunker(len, bits_per_second);
        self.spec
    }

    /// Begins the attempt after the new version was opened.
    pub(super) fn begin(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        if let MatchMethod::Signature(old) = &mut self.side {
            *old = old.open(self.ways, self.spec, attempt.file, cx);
            return;
        }
        let parallel = self.ways.parallel_mode(cx.options.threads);
        self.summation =
            Some(FileSummation::new(parallel, &self.spec, attempt.len, self.strong_kind()));
        self.sum_more(attempt, cx);
    }

    /// Continues sending, cutting and summing, as far as the window of unnamed chunks allows.
    fn sum_more(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let (handle, sent_before) = (attempt.handle, self.sent_last);
        cx.frames.extend(self.sum_frames(attempt.file, cx.limits.max_items()));
        if self.sent_last {
            if sent_before {
                return;
            }
            let proof = self.sealing();
            return attempt.request_proof(cx, proof);
        }
        let StrategySums { weak, keying, .. } = self.ways;
        let summing = Summing { chunker: self.spec, weak, strong: self.strong_kind(), keying };
        self.hash_more(attempt, summing, cx);
        while self.waiting.is_empty() || !self.is_pipelined() {
            let Some(summation) = &mut self.summation else { return };
            let Some((step, portion)) = summation.next() else { return };
            let digest = self.digest.take_if(|_| !summation.hashes_separately());
            let work = SenderWork::File(FileWork::Sum { handle, summing, portion, digest });
            cx.jobs.request(work, SenderPending::Sum(handle, step));
        }
    }

    /// Returns the proof of the new version, which was read to the end.
    fn sealing(&self) -> Sealing {
        match (&self.digest, self.ways.strategy.proof()) {
            (Some(digest), _) => Sealing::Bytes(digest.finish()),
            (None, FileProof::Nothing) => Sealing::Nothing,
            (None, _) => Sealing::Chunks(self.table.shared_chunks()),
        }
    }

    fn hashes_separately(&self) -> bool {
        self.ways.strategy.proof() == FileProof::WholeFile
            && self.summation.as_ref().is_some_and(FileSummation::hashes_separately)
    }

    /// Hashes the next bytes for the file's digest, where hashing is separate work.
    fn hash_more(&mut self, attempt: &SendAttempt, summing: Summing, cx: &mut Context) {
        let handle = attempt.handle;
        let portion = self.hashed..attempt.len.min(self.hashed + HASHED_BYTES);
        if self.hashes_separately()
            && !portion.is_empty()
            && let Some(digest) = self.digest.take()
        {
            self.hashed = portion.end;
            let (portion, digest) = (Portion::Digest(portion), Some(digest));
            let work = SenderWork::File(FileWork::Sum { handle, summing, portion, digest });
            cx.jobs.request(work, SenderPending::Sum(handle, SumStep::Digest));
        }
    }

    /// True once all bytes are hashed, where hashing is separate work.
    fn is_hashed(&self, attempt: &SendAttempt) -> bool {
        !self.hashes_separately() || self.hashed == attempt.len && self.digest.is_some()
    }

    /// Returns frames with the sums that may be sent now, at most `most` sums in each.
    fn sum_frames(&mut self, file: FileNo, most: usize) -> Vec<ToReceiver> {
        if !self.is_cut && !self.is_pipelined() || self.sent_last {
            return Vec::new();
        }
        let room = match &self.side {
            MatchMethod::Confirm(named) if self.is_pipelined() => {
                SUM_WINDOW.saturating_sub(named.unnamed_count()) as usize
            }
            _ => self.waiting.len(),
        };
        let waiting: Vec<_> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        match &mut self.side {
            MatchMethod::Confirm(named) => named.add_sent(waiting.len()),
            MatchMethod::Rolled(asked) => asked.resize(asked.len() + waiting.len(), false),
            MatchMethod::Signature(_) => {}
        }
        self.sent_last = self.is_cut && self.waiting.is_empty();
        let mut batches: Vec<_> = waiting.chunks(most).map(<[_]>::to_vec).collect();
        if self.sent_last && batches.is_empty() {
            batches.push(Vec::new());
        }
        let last = batches.len().saturating_sub(1);
        let frame = |(nth, sums)| {
            let extent = if self.sent_last && nth == last { Extent::Last } else { Extent::More };
            ToReceiver::Sums { file, sums, extent }
        };
        batches.into_iter().enumerate().map(frame).collect()
    }

    /// Keeps the state of the file's digest, if the driver returns one with sums.
    pub(super) fn take_digest(&mut self, digest: Option<Box<FileDigest>>) {
        self.digest = digest.or_else(|| self.digest.take());
    }

    pub(super) fn take_sums(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        step: SumStep,
        summed: Summed,
    ) -> Result<(), Trouble> {
        let Some(summation) = &mut self.summation else { return Ok(()) };
        let sums =
            if step == SumStep::Digest { Vec::new() } else { summation.take_result(step, summed) };
        cx.counts.gathered += summation.take_gathered();
        let (is_complete, too_many) = (summation.is_complete(), summation.has_too_many_chunks());
        self.scanned += sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        if self.scanned > attempt.len || is_complete && self.scanned < attempt.len {
            return Err(attempt.retry_trouble(CHANGED));
        }
        if too_many || self.table.len() + sums.len() > MAX_SUMS {
            return Err(attempt.retry_trouble(TOO_MANY_SUMS));
        }
        sums.iter().for_each(|sum| self.add_chunk(sum));
        for sum in sums {
            let line = self.sum_line(sum);
            self.waiting.push_back(line);
        }
        self.is_cut = is_complete && self.is_hashed(attempt);
        self.sum_more(attempt, cx);
        Ok(())
    }

    /// Adds a chunk to the table.
    fn add_chunk(&mut self, sum: &Sum) {
        if self.table.len().is_multiple_of(MARK_CHUNKS) {
            self.table.mark_position();
        }
        self.table.advance(sum.len.into(), 1);
        self.table.extend([Chunk { len: sum.len, fingerprint: fingerprint_of(&sum.strong) }]);
    }

    pub(super) fn take_seal(&mut self, attempt: &SendAttempt, cx: &mut Context, sealed: FileSeal) {
        self.has_ended = true;
        attempt.send_end(cx, sealed);
        self.read_requested_blocks(attempt, cx);
    }

    /// Takes blocks that the receiver did not find; each block once.
    pub(super) fn receive_block_requests(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        needed: &[Range<u32>],
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError =
            PeerError::Unexpected("a request for unknown or already requested blocks");
        let MatchMethod::Rolled(asked) = &mut self.side else {
            return Err(PeerError::Unexpected("a Need frame in this state"));
        };
        for range in needed {
            let blocks = asked.get_mut(range.start as usize..range.end as usize);
            let blocks = blocks.filter(|_| self.sent_last).ok_or(UNFIT)?;
            if blocks.iter_mut().any(|asked| std::mem::replace(asked, true)) {
                return Err(UNFIT);
            }
        }
        self.needs.push(&self.table, needed);
        self.read_requested_blocks(attempt, cx);
        Ok(())
    }

    fn read_requested_blocks(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        // Literals wait for the answers to all matches, unless the strategy pipelines them.
        let is_named = self.has_all_named();
        if !self.is_pipelined() && !is_named {
            return;
        }
        let nothing_follows = self.has_ended && is_named || self.is_rolled();
        self.needs.read_fills(attempt, cx, &self.table, nothing_follows);
    }

    /// True once the receiver has named every chunk, as needed or as matched.
    fn has_all_named(&self) -> bool {
        match &self.side {
            MatchMethod::Confirm(named) => self.sent_last && named.is_done(),
            MatchMethod::Rolled(_) | MatchMethod::Signature(_) => true,
        }
    }
}

/// Returns a strong sum as the fingerprint of its chunk; meaningful only where the sum is a fingerprint.
fn fingerprint_of(sum: &StrongSum) -> Fingerprint {
    let mut bytes = [0; deltic_core::strong::MAX_STRONG_BYTES];
    bytes[..sum.as_bytes().len()].copy_from_slice(sum.as_bytes());
    Fingerprint::from_bytes(bytes)
}
