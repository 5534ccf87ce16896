//! A file sent by recipe: cut the file into chunks, send the groups of chunks, list the chunks of groups that the
//! receiver lacks, and send the chunks that the receiver needs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::recipe::{Chunk, Group, Grouper};
use deltic_core::{GapSums, PrefixLen, Span};

use crate::cutting::{CutPart, FileCutting};
use crate::error::PeerError;
use crate::known::{Known, KnownRecipe};
use crate::limits::{GROUP_WINDOW, Limits, MAX_GROUPS, OFFERED_GROUPS, TOLD_BY_CHUNK_BYTES};
use crate::message::{ChunkLine, ChunkLines, FileNo, GapLine, GroupLine, ToReceiver};
use crate::report::Trouble;
use crate::sender::ask::{FileSeal, FileWork, Gap, Sealing, SenderWork};
use crate::sender::context::Context;
use crate::sender::pending::SenderPending;
use crate::work::WorkTurn;

use super::attempt::SendAttempt;
use super::table::{ChunkTable, NeededChunks};

/// Least number of groups sent together while more are to come: enough to fill a packet. A new TCP connection sends
/// only a few packets at first, whether the packets are full or not.
const SENT_TOGETHER: usize = 128;

/// Trouble message; the receiver then requests the whole file.
const TOO_MANY_GROUPS: &str = "its recipe has too many groups";

/// A recipe while it is sent.
#[derive(Debug)]
pub(super) struct RecipeSender {
    pub(super) spec: ChunkerSpec,
    /// Chunker of a resumed transfer.
    agreed: Option<ChunkerSpec>,
    pub(super) table: ChunkTable,
    stage: RecipeStage,
    /// Groups that wait for the window.
    unsent: VecDeque<Group>,
    /// Groups sent and not answered; one range for each frame.
    sent: VecDeque<Range<u32>>,
    /// Chunks sent and not answered; ranges for each frame.
    spelled: VecDeque<Vec<Range<u32>>>,
    needs: NeededChunks,
    /// Bytes of all requested gaps.
    pub(super) gap_bytes: u64,
}

/// Stage of a recipe.
#[derive(Debug)]
enum RecipeStage {
    /// The file is not open yet.
    Opening,
    /// The chunks are known without reading.
    Known(Arc<Vec<Chunk>>),
    /// The file is being read and cut.
    Scanning(Box<(FileCutting<Chunk>, Grouper)>),
    /// The recipe is complete, and the proof was requested.
    Sealing,
    /// The proof is here, and the last groups are not sent yet.
    Sealed(FileSeal),
    /// The end was sent.
    Ended,
}

impl RecipeSender {
    pub(super) fn new(agreed: Option<ChunkerSpec>, spec: ChunkerSpec) -> Self {
        Self {
            spec,
            agreed,
            table: ChunkTable::default(),
            stage: RecipeStage::Opening,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            spelled: VecDeque::new(),
            needs: NeededChunks::new(WorkTurn::Any),
            gap_bytes: 0,
        }
    }

    /// Chooses the chunker of a file of `len` bytes, of which `data_len` bytes are cut. A recipe that the sender's store
    /// knows decides the chunker.
    pub(super) fn choose_chunker(&mut self, cx: &Context, len: u64, data_len: u64, known: Known) {
        let fits = |recipe: &KnownRecipe| {
            recipe.fits(data_len, self.agreed) && recipe.spec.max_len() <= cx.strategy.longest
        };
        let known = known.recipe.filter(fits);
        let chosen = known.as_ref().map(|recipe| recipe.spec).or(self.agreed);
        self.spec = chosen.unwrap_or_else(|| cx.strategy.chunker(len, None));
        self.stage = match known {
            Some(recipe) => RecipeStage::Known(recipe.chunks),
            None => RecipeStage::Scanning(Box::new((
                FileCutting::new(&self.spec, data_len),
                Grouper::new(),
            ))),
        };
    }

    /// Begins after `Start` was sent: takes the known chunks, or finishes an empty file.
    pub(super) fn begin(&mut self, attempt: &SendAttempt, cx: &mut Context) -> Result<(), Trouble> {
        let RecipeStage::Known(chunks) = &self.stage else {
            return self.add_chunks(attempt, cx, Vec::new());
        };
        let mut grouper = Grouper::new();
        self.unsent.extend(chunks.iter().filter_map(|chunk| grouper.push(chunk)));
        self.unsent.extend(grouper.finish());
        self.table = ChunkTable::of(Arc::clone(chunks));
        self.check_size(attempt, cx, true)
    }

    pub(super) fn unanswered_groups(&self) -> u64 {
        self.sent.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// Returns the number of fingerprint bytes that are sent for each chunk. Chunks of fixed length get the maximum.
    fn prefix_len(&self, len: u64) -> PrefixLen {
        match self.spec {
            ChunkerSpec::Fixed(_) => PrefixLen::MAX,
            ChunkerSpec::ByContent(..) => {
                PrefixLen::for_chunks(len / u64::from(self.spec.mean_len()))
            }
        }
    }

    /// True if the waiting groups fill a packet, or are the last.
    fn must_send_groups(&self) -> bool {
        let scans = matches!(
            self.stage,
            RecipeStage::Opening | RecipeStage::Known(_) | RecipeStage::Scanning(_)
        );
        self.unsent.len() >= SENT_TOGETHER || !scans && !self.unsent.is_empty()
    }

    /// Continues sending and scanning. Returns true if groups wait for the window.
    pub(super) fn continue_sending(&mut self, attempt: &mut SendAttempt, cx: &mut Context) -> bool {
        self.send_groups(attempt, cx);
        if self.must_send_groups() {
            return true;
        }
        let (handle, spec) = (attempt.handle, self.spec);
        if let RecipeStage::Scanning(scan) = &mut self.stage {
            while let Some((part, segment)) = scan.0.next() {
                cx.jobs.request(
                    SenderWork::File(FileWork::Scan { handle, spec, segment }),
                    SenderPending::Scan(handle, part),
                );
            }
        }
        false
    }

    pub(super) fn take_scanned(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        part: CutPart,
        run: SegmentChunks<Chunk>,
    ) -> Result<(), Trouble> {
        // A segment may arrive that is not needed any more, because the previous segment extended past it.
        let RecipeStage::Scanning(scan) = &mut self.stage else { return Ok(()) };
        let certain = scan.0.take_chunks(part, run);
        self.add_chunks(attempt, cx, certain)
    }

    /// Takes the next chunks; after the last chunk requests the proof.
    fn add_chunks(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        certain: Vec<Chunk>,
    ) -> Result<(), Trouble> {
        let RecipeStage::Scanning(scan) = &mut self.stage else { return Ok(()) };
        let (cutting, grouper) = &mut **scan;
        self.unsent.extend(certain.iter().filter_map(|chunk| grouper.push(chunk)));
        let is_complete = cutting.is_complete();
        if is_complete {
            self.unsent.extend(grouper.finish());
        }
        self.table.extend(certain);
        self.check_size(attempt, cx, is_complete)
    }

    /// Checks the size of the grown recipe; requests the proof once it is complete.
    fn check_size(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        is_complete: bool,
    ) -> Result<(), Trouble> {
        if self.table.mark_count() + self.unsent.len() > MAX_GROUPS {
            return Err(attempt.retry_trouble(TOO_MANY_GROUPS));
        }
        if is_complete {
            self.stage = RecipeStage::Sealing;
            attempt.request_proof(cx, Sealing::Chunks(self.table.shared_chunks()));
        }
        Ok(())
    }

    pub(super) fn take_seal(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        sealed: FileSeal,
    ) {
        self.stage = RecipeStage::Sealed(sealed);
        self.send_groups(attempt, cx);
    }

    /// Sends groups as far as the window allows, and the end after the last group.
    fn send_groups(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let window = if attempt.is_offer { OFFERED_GROUPS } else { GROUP_WINDOW };
        while self.must_send_groups() && cx.groups_out < window {
            let room = (window - cx.groups_out).min(cx.limits.max_items() as u64) as usize;
            let batch: Vec<_> = self.unsent.drain(..room.min(self.unsent.len())).collect();
            if attempt.len <= TOLD_BY_CHUNK_BYTES && self.agreed.is_none() {
                let frame = self.chunk_frame(attempt, &batch);
                cx.send(frame);
            } else {
                cx.groups_out += batch.len() as u64;
                let frame = self.group_frame(attempt.file, &batch);
                cx.send(frame);
            }
        }
        if let RecipeStage::Sealed(sealed) = self.stage
            && self.unsent.is_empty()
        {
            self.stage = RecipeStage::Ended;
            attempt.send_end(cx, sealed);
            self.read_requested_chunks(attempt, cx);
        }
    }

    /// Returns the frame of new groups; records that they await an answer.
    fn group_frame(&mut self, file: FileNo, groups: &[Group]) -> ToReceiver {
        let new = self.table.mark_groups(groups);
        self.sent.push_back(new);
        let line = |group: &Group| {
            let Group { len, chunks, fingerprint } = group;
            GroupLine { len: *len, chunks: *chunks, short: fingerprint.group_prefix() }
        };
        ToReceiver::Groups { file, groups: groups.iter().map(line).collect() }
    }

    /// Returns the frame of the chunks of new groups; records that they await an answer.
    fn chunk_frame(&mut self, attempt: &SendAttempt, groups: &[Group]) -> ToReceiver {
        let new = self.table.mark_groups(groups);
        let chunks = self.table.chunks_of(&new);
        let lines = ChunkLines(self.chunk_lines(attempt.len, &chunks).collect());
        self.spelled.push_back(std::iter::once(chunks).collect());
        ToReceiver::Recipe { file: attempt.file, chunks: lines }
    }

    /// Returns these chunks of a file of `len` bytes as wire lines.
    fn chunk_lines(&self, len: u64, chunks: &Range<u32>) -> impl Iterator<Item = ChunkLine> + '_ {
        let brief = self.prefix_len(len);
        let line = move |chunk: &Chunk| ChunkLine {
            len: chunk.len,
            brief: chunk.fingerprint.chunk_prefix(brief),
        };
        self.table.slice(chunks).iter().map(line)
    }

    /// Takes the receiver's answer to the oldest unanswered groups. `lacked` are the groups that the receiver lacks;
    /// their chunks are sent next.
    pub(super) fn receive_lack(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        lacked: &[Range<u32>],
    ) -> Result<(), PeerError> {
        let sent = self
            .sent
            .pop_front()
            .ok_or(PeerError::Unexpected("a Lack frame without an open group"))?;
        check_within(lacked, std::slice::from_ref(&sent))?;
        let bytes = |groups: &Range<u32>| self.table.bytes_of(&self.table.chunks_of(groups));
        let had = bytes(&sent) - lacked.iter().map(bytes).sum::<u64>();
        let frames = self.expand_groups(attempt, lacked, cx.limits.max_items());
        cx.groups_out -= u64::from(sent.end - sent.start);
        cx.frames.extend(frames);
        attempt.count_settled(cx, had);
        self.read_requested_chunks(attempt, cx);
        Ok(())
    }

    /// Returns frames that expand these groups, with at most `most` chunks each; records the chunks that await an
    /// answer.
    fn expand_groups(
        &mut self,
        attempt: &SendAttempt,
        lacked: &[Range<u32>],
        most: usize,
    ) -> Vec<ToReceiver> {
        let file = attempt.file;
        let mut frames = Vec::new();
        let mut groups: Vec<Range<u32>> = Vec::new();
        let mut spelled = Vec::new();
        let mut flush = |groups: &mut Vec<Range<u32>>, lines: &mut Vec<ChunkLine>| {
            if !groups.is_empty() {
                let (groups, chunks) = (std::mem::take(groups), std::mem::take(lines));
                frames.push(ToReceiver::Chunks { file, groups, chunks: ChunkLines(chunks) });
            }
        };
        for group in lacked.iter().flat_map(Clone::clone) {
            let chunks = self.table.chunks_of(&(group..group + 1));
            if spelled.len() + chunks.len() > most {
                flush(&mut groups, &mut spelled);
            }
            match groups.last_mut() {
                Some(last) if last.end == group => last.end += 1,
                _ => groups.push(group..group + 1),
            }
            spelled.extend(self.chunk_lines(attempt.len, &chunks));
        }
        flush(&mut groups, &mut spelled);
        for frame in &frames {
            let ToReceiver::Chunks { groups, .. } = frame else { continue };
            let awaited = groups.iter().map(|groups| self.table.chunks_of(groups)).collect();
            self.spelled.push_back(awaited);
        }
        frames
    }

    /// Takes the receiver's answer to the oldest expanded chunks: the needed chunks.
    pub(super) fn receive_need(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        needed: &[Range<u32>],
    ) -> Result<(), PeerError> {
        let spelled =
            self.spelled.pop_front().ok_or(PeerError::Unexpected("a Need frame in this state"))?;
        check_within(needed, &spelled)?;
        let bytes = |chunks: &[Range<u32>]| {
            chunks.iter().map(|chunks| self.table.bytes_of(chunks)).sum::<u64>()
        };
        let had = bytes(&spelled) - bytes(needed);
        self.needs.push(&self.table, needed);
        attempt.count_settled(cx, had);
        self.read_requested_chunks(attempt, cx);
        Ok(())
    }

    fn read_requested_chunks(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let is_answered = self.sent.is_empty() && self.spelled.is_empty();
        let nothing_follows = is_answered && matches!(self.stage, RecipeStage::Ended);
        self.needs.read_fills(attempt, cx, &self.table, nothing_follows);
    }
}

/// Checks that the ranges of `asked` are ascending, each within one of the ascending ranges of `offered`.
fn check_within(asked: &[Range<u32>], offered: &[Range<u32>]) -> Result<(), PeerError> {
    let mut offers = offered.iter();
    let mut offer = offers.next();
    let mut floor = 0;
    for range in asked {
        while offer.is_some_and(|offer| offer.end < range.end) {
            offer = offers.next();
        }
        let fits = offer.is_some_and(|offer| offer.start <= range.start) && range.start >= floor;
        if !fits {
            return Err(PeerError::Unexpected("ranges that were not offered"));
        }
        floor = range.end;
    }
    Ok(())
}

impl RecipeSender {
    /// Reads gaps and compares them with the sums of the old version.
    pub(super) fn take_gap_requests(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        lines: Vec<GapLine>,
    ) -> Result<(), PeerError> {
        let handle = attempt.handle;
        let (mut gaps, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        for GapLine { chunks, sums } in lines {
            if sums.is_masked() && !cx.abilities.short_forms.split_code {
                return Err(PeerError::Unexpected("masked sums of a gap, without the capability"));
            }
            let span = self.gap_span(attempt, &chunks, &sums, &cx.limits)?;
            if bytes + u64::from(span.len) > cx.limits.mended_bytes() && bytes > 0 {
                let work =
                    SenderWork::File(FileWork::Mend { handle, gaps: std::mem::take(&mut gaps) });
                let gaps = std::mem::take(&mut ranges);
                cx.jobs.request(work, SenderPending::Mend { handle, gaps });
                bytes = 0;
            }
            bytes += u64::from(span.len);
            gaps.push(Gap { span, sums });
            ranges.push(chunks);
        }
        cx.jobs.request(
            SenderWork::File(FileWork::Mend { handle, gaps }),
            SenderPending::Mend { handle, gaps: ranges },
        );
        Ok(())
    }

    /// Returns the span of a gap if the gap is valid: chunks that were offered, not too long, and all gaps together
    /// at most twice the length of the file.
    fn gap_span(
        &mut self,
        attempt: &SendAttempt,
        chunks: &Range<u32>,
        sums: &GapSums,
        limits: &Limits,
    ) -> Result<Span, PeerError> {
        if !self.table.has_passed(chunks) {
            return Err(UNOFFERED);
        }
        let len = self.table.bytes_of(chunks);
        if len > limits.gap_bytes() || sums.old_len() as u64 > 2 * len {
            return Err(PeerError::Limit("bytes of a gap"));
        }
        self.gap_bytes += len;
        if self.gap_bytes > 2 * attempt.len {
            return Err(PeerError::Limit("bytes of all gaps"));
        }
        let first = self.table.spans(chunks).next().expect("a range is not empty");
        Ok(Span::new(first.start, len as u32))
    }
}

/// Error for a gap that may not be requested.
pub(super) const UNOFFERED: PeerError = PeerError::Unexpected("a gap that was not offered");
