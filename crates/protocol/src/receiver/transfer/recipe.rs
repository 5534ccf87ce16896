//! A file sent by recipe: groups and chunks are matched against the old versions, and the rest is requested.

use std::collections::VecDeque;
use std::ops::Range;

use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::delta::DeltaOp;
use deltic_core::recipe::{Chunk, MAX_GROUP_CHUNKS};
use deltic_core::{ChunkNo, Chunks, Fingerprint, GapSums, Index, Span};

use crate::error::PeerError;
use crate::limits::{GROUP_WINDOW, Limits, TOLD_BY_CHUNK_BYTES};
use crate::message::{ChunkLine, GroupLine, ToSender};
use crate::receiver::ask::{
    Mended, NewVersionAnswer, NewVersionWork, OldVersionAnswer, OldVersionWork, PayloadChunk,
    ReceiverAnswer, ReceiverWork,
};
use crate::receiver::{load::LoadShare, pending::FilePending};
use crate::report::{Trouble, TroubleKind};
use crate::work::{ErrorAction, WorkError, WorkTurn};

use super::again::RepeatedChunks;
use super::assembly::FileAssembly;
use super::copies::{FoundCopies, runs};
use super::file_context::FileContext;
use super::gap::{ChunkGap, GapPayload};
use super::gaps::{KnownContent, TransferGaps};
use super::indexing::request_segments;
use super::keeping::KeptChunks;
use super::old::{IndexPart, OldIndex, comparison_count};
use super::proof::ProofChunks;
use super::shift::{ShiftedBlocks, shifted_error};
use super::table::{ArrivalForm, ChunkOrigin, GroupState, GroupTable};

/// Bytes around the place of a group in which the old versions must be indexed before the group is looked for.
const AROUND_BYTES: u64 = 256 << 10;

/// Most unanswered groups of a file that waits for another file, so that the window has room for the other.
const MAX_WAITING_GROUPS: u64 = GROUP_WINDOW / 8;

/// A recipe, and the index of the old versions.
#[derive(Debug)]
pub(super) struct RecipeReceiver {
    old: OldIndex,
    /// Chunks of an interrupted transfer that are in place.
    kept: KeptChunks,
    table: GroupTable,
    /// True in a resumed transfer until a group is not in place; until then the old version is not read.
    unread: bool,
    /// Number of groups looked for, followed by the groups not found in the old bytes indexed by then.
    looked: usize,
    missing: Vec<u32>,
    /// Unanswered groups, a range for each frame.
    unanswered: VecDeque<Range<u32>>,
    /// Groups whose chunks the sender was asked to list, in order.
    lacked: VecDeque<u32>,
    /// Groups whose chunks the sender listed unasked, before the old versions were indexed; a range for each frame.
    unmatched: VecDeque<Range<u32>>,
    gaps: TransferGaps,
    again: RepeatedChunks,
    /// The last match: the chunk after it is looked up first.
    after: Option<ChunkNo>,
    /// Fingerprints compared since the last report.
    compared: u64,
    shifted: ShiftedBlocks,
}

impl RecipeReceiver {
    /// Creates a recipe without groups for a new version of `len` bytes.
    pub(super) fn new(spec: ChunkerSpec, len: u64, limits: Limits) -> Self {
        Self {
            old: OldIndex::new(spec),
            kept: KeptChunks::default(),
            table: GroupTable::new(spec, len, limits),
            unread: false,
            looked: 0,
            missing: Vec::new(),
            unanswered: VecDeque::new(),
            lacked: VecDeque::new(),
            unmatched: VecDeque::new(),
            gaps: TransferGaps::default(),
            again: RepeatedChunks::default(),
            after: None,
            compared: 0,
            shifted: ShiftedBlocks::default(),
        }
    }

    /// Takes the index built before `Start`, if that index is cut by the same chunker.
    pub(super) fn use_early_index(&mut self, ahead: OldIndex) {
        if ahead.is_cut_by(&self.table.spec) && !self.old.holds_back_reads() {
            self.old = ahead;
        }
    }

    /// Holds back all reads of old versions until their order of reading is known.
    pub(super) const fn hold_back_reads(&mut self) {
        self.old.hold_back_reads();
    }

    /// Continues with the old versions once their order of reading is known.
    pub(super) fn use_data_order(&mut self, fx: &mut FileContext<'_>, build: &mut FileAssembly) {
        self.old.read_in_data_order();
        if !self.unread {
            self.index_more(fx, build);
        }
    }

    /// Resumes an interrupted transfer, which left `chunks` in place. Old versions, if any, need not be read yet.
    pub(super) fn resume(&mut self, chunks: Chunks, has_old: bool) {
        self.kept = KeptChunks::new(chunks, self.table.len);
        self.unread = has_old;
        if !has_old {
            self.old.mark_complete();
        }
    }

    /// True if an interrupted transfer resumes.
    fn is_resumed(&self) -> bool {
        self.unread || !self.kept.is_empty()
    }

    pub(super) fn load_share(&self) -> LoadShare {
        let groups_out =
            self.unanswered.iter().map(|range| u64::from(range.end - range.start)).sum();
        let groups_held = u64::from(self.table.group_count());
        LoadShare { groups_out, groups_held, gaps_out: self.gaps.open_count() }
    }

    /// True once the whole recipe was told.
    pub(super) const fn covers_file(&self) -> bool {
        self.table.covers_file()
    }

    /// True while the sender owes something, or old versions are being read.
    pub(super) fn is_busy(&self) -> bool {
        let owes_answer = !self.unanswered.is_empty() || !self.unmatched.is_empty();
        let asked = owes_answer || !self.lacked.is_empty() || self.table.needed > 0;
        asked || !self.old.is_known() && !self.unread
    }

    /// Takes the copies of repeated chunks, from the places that hold them now.
    pub(super) fn take_repeats(&mut self) -> Vec<DeltaOp> {
        let mut copies = FoundCopies::default();
        for (chunk, of) in self.again.take_waiting() {
            let (from, start) = self.table.copy_of_earlier(chunk, of);
            copies.push(from, start);
        }
        copies.finish()
    }

    /// Returns the chunks that prove the file, and takes the index of the old versions for it.
    pub(super) fn proof_chunks(&mut self) -> ProofChunks {
        let (kept, received) = (self.kept.take_all(), std::mem::take(&mut self.table.received));
        let mut chunks = ProofChunks::new(self.old.take_index(), kept, received);
        self.table.groups.iter().for_each(|slot| slot.add_to_proof(&mut chunks));
        chunks
    }

    /// Continues to index the old versions, in order, and matches all that can be matched by now.
    pub(super) fn index_more(&mut self, fx: &mut FileContext<'_>, build: &mut FileAssembly) {
        request_segments(&mut self.old, fx);
        self.match_more(fx, build);
    }

    /// The index of the old versions.
    pub(super) const fn index(&self) -> &Index {
        self.old.index()
    }

    /// Takes the answer to work of a recipe.
    pub(super) fn answer(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        pending: FilePending,
        answer: ReceiverAnswer,
    ) {
        match (pending, answer) {
            (FilePending::Index(_, part), ReceiverAnswer::Old(OldVersionAnswer::Indexed(run))) => {
                self.take_old_chunks(fx, build, part, run);
            }
            (
                FilePending::Survey { gaps, .. },
                ReceiverAnswer::Old(OldVersionAnswer::Surveyed(sums)),
            ) => {
                if let Some(sums) = fx.or_fail(sums) {
                    self.take_gap_sums(fx, gaps, sums);
                }
            }
            (
                FilePending::Mend { gaps, .. },
                ReceiverAnswer::New(NewVersionAnswer::Mended(mended)),
            ) => {
                if let Some(mended) = fx.or_fail(mended) {
                    build.end_job();
                    self.take_rebuilt_gaps(fx, build, gaps, mended);
                }
            }
            _ => {}
        }
    }

    /// Takes the chunks of a segment of an old version.
    fn take_old_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        part: IndexPart,
        run: Result<SegmentChunks<Chunk>, WorkError>,
    ) {
        self.old.take_index_part(part, run, &fx.old.lens);
        self.index_more(fx, build);
    }

    /// Takes the next groups of a recipe told by groups.
    pub(super) fn receive_groups(
        &mut self,
        build: &mut FileAssembly,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        if lines.is_empty() {
            return Err(PeerError::Unexpected("an empty list of groups"));
        }
        let first = self.table.group_count();
        for line in lines {
            self.table.check_group(line)?;
            let start = self.table.next_start;
            let state = match self.kept.find_group(start, line) {
                Some(kept) => {
                    build.count_kept(start, line.len);
                    GroupState::Kept(kept)
                }
                None => GroupState::Open(line.short),
            };
            self.table.push_group(line.chunks, line.len, state);
        }
        self.unanswered.push_back(first..self.table.group_count());
        Ok(())
    }

    /// Takes the next chunks of a short file's recipe, to be matched once the old versions are indexed. Each group
    /// has as many chunks as allowed.
    pub(super) fn receive_chunks(&mut self, lines: &[ChunkLine]) -> Result<(), PeerError> {
        if self.is_resumed() || self.table.len > TOLD_BY_CHUNK_BYTES || lines.is_empty() {
            return Err(PeerError::Unexpected("a Recipe frame in this state"));
        }
        let first = self.table.group_count();
        for lines in lines.chunks(MAX_GROUP_CHUNKS as usize) {
            let len = self.table.check_chunks(self.table.next_start, lines)?;
            self.table.push_group(lines.len() as u32, len, GroupState::Told(lines.to_vec()));
        }
        self.unmatched.push_back(first..self.table.group_count());
        Ok(())
    }

    /// Takes groups that need an answer.
    pub(super) fn take_groups(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        self.receive_groups(build, lines)?;
        fx.cx.load.receive_groups(lines.len() as u64)?;
        if fx.cx.load.is_crowded() {
            let message = "receive: more groups under way than can be held";
            let trouble = Trouble::new(TroubleKind::Failed, message);
            fx.fail_transfer(WorkError { trouble, then: ErrorAction::Retry });
            return Ok(());
        }
        if self.must_read_old() {
            request_segments(&mut self.old, fx);
        }
        self.match_more(fx, build);
        Ok(())
    }

    /// True if old versions must be read now, for the first time, because some of the last groups are not kept.
    fn must_read_old(&mut self) -> bool {
        let first = self.unanswered.back().map_or(0, |range| range.start as usize);
        let mut last = self.table.groups[first..].iter();
        let lacks = last.any(|slot| matches!(slot.state, GroupState::Open(_)));
        self.unread && lacks && std::mem::take(&mut self.unread)
    }

    /// Takes chunks of a recipe told by chunks.
    pub(super) fn take_recipe_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        let before = self.table.group_count();
        self.receive_chunks(lines)?;
        fx.cx.load.hold_groups(u64::from(self.table.group_count() - before));
        self.match_more(fx, build);
        Ok(())
    }

    /// Takes the chunks of groups that were lacked.
    pub(super) fn take_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        groups: &[Range<u32>],
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        let mut lines = lines;
        for no in groups.iter().cloned().flatten() {
            if self.lacked.pop_front() != Some(no) {
                return Err(PeerError::Unexpected("chunks of a group that was not requested"));
            }
            let count = self.table.groups[no as usize].chunks as usize;
            let own = lines.split_off(..count);
            let own = own.ok_or(PeerError::Unexpected("fewer chunks than the groups announced"))?;
            self.table.expand_group(no, own)?;
        }
        if !lines.is_empty() {
            return Err(PeerError::Unexpected("more chunks than the groups announced"));
        }
        self.match_chunks(fx, build, groups);
        Ok(())
    }

    /// Matches all that can be matched by now, and sends the answers that are complete.
    fn match_more(&mut self, fx: &mut FileContext<'_>, build: &mut FileAssembly) {
        let mut copies = FoundCopies::default();
        let missed = self.match_groups(build, &mut copies);
        self.lack_missing_groups(fx);
        for (unanswered, groups) in self.ready_answers() {
            fx.cx.load.answer_groups(u64::from(unanswered.end - unanswered.start));
            fx.cx.frames.push_back(ToSender::Lack { file: fx.file, groups });
        }
        fx.cx.counts.add(0, std::mem::take(&mut self.compared));
        fx.report_progress(build.settled_bytes());
        build.start_copies(fx, copies.finish(), missed, Some(self.old.index()));
        while !fx.is_over()
            && self.old.is_known()
            && let Some(groups) = self.unmatched.pop_front()
        {
            self.match_chunks(fx, build, &[groups]);
        }
    }

    /// Looks for groups as far as the old versions are indexed. Each group is looked for once when the bytes around
    /// its own place are indexed, and again, if not found, when all old versions are. Returns true if a group was not
    /// found at first: the version in place then differs from the new one.
    ///
    /// If several groups are equal, an earlier search would find a distant group, not the group in the same place.
    fn match_groups(&mut self, build: &mut FileAssembly, copies: &mut FoundCopies) -> bool {
        let is_known = self.old.is_known();
        let known = if is_known { u64::MAX } else { self.old.index().groups_end() };
        let mut missed = false;
        while let Some(slot) = self.table.groups.get(self.looked)
            && slot.start + slot.len + AROUND_BYTES <= known
        {
            if !self.find_group(build, self.looked, copies) {
                missed = true;
                self.missing.push(self.looked as u32);
            }
            self.looked += 1;
        }
        if is_known {
            let mut missing = std::mem::take(&mut self.missing);
            missing.retain(|no| {
                self.look_up_after(*no);
                !self.find_group(build, *no as usize, copies)
            });
            self.missing = missing;
        }
        missed
    }

    /// Marks missing groups as lacked once all old versions are indexed, unless the file waits for another file of
    /// the run with some of these groups.
    fn lack_missing_groups(&mut self, fx: &mut FileContext<'_>) {
        let sources = &mut fx.cx.sources;
        if sources.is_waiting(fx.file) && self.load_share().groups_out > MAX_WAITING_GROUPS {
            sources.end_attempt(fx.file, None);
            self.old.mark_complete();
        }
        if !self.old.is_known() || self.missing.is_empty() {
            return;
        }
        let missing = self.missing.iter().filter_map(|no| self.table.shareable_group(*no));
        if sources.wait_for_source(fx.file, self.table.len, missing) {
            return self.old.expect_another_version();
        }
        for no in std::mem::take(&mut self.missing) {
            let shareable = self.table.shareable_group(no);
            shareable.into_iter().for_each(|(name, _)| sources.note_requested(fx.file, name));
            self.table.groups[no as usize].state = GroupState::Lacked;
        }
    }

    /// If the group before group `no` was found, the look-up of group `no` tries the chunk after that match first.
    fn look_up_after(&mut self, no: u32) {
        let before = no.checked_sub(1).map(|no| &self.table.groups[no as usize].state);
        if let Some(GroupState::Matched(found)) = before {
            self.after = Some(found.end.previous());
        }
    }

    /// Searches the old versions for group `no`, and records the copy. Returns false if no old version has the group.
    fn find_group(
        &mut self,
        build: &mut FileAssembly,
        no: usize,
        copies: &mut FoundCopies,
    ) -> bool {
        let (index, slot) = (self.old.index(), &mut self.table.groups[no]);
        let GroupState::Open(short) = slot.state else { return true };
        let found = index.find_group(short, slot.len, slot.chunks, self.after);
        self.compared += comparison_count(self.after, found.as_ref().map(|found| found.start));
        let Some(found) = found else { return false };
        let old_start = index.chunk(found.start).0.start;
        copies.push(Span::new(old_start, slot.len as u32), slot.start);
        build.matched.count_found(old_start, slot.len);
        self.after = Some(found.end.previous());
        slot.state = GroupState::Matched(found);
        true
    }

    /// Returns the answers that are complete, in the order of their frames.
    fn ready_answers(&mut self) -> Vec<(Range<u32>, Vec<Range<u32>>)> {
        let (groups, mut answers) = (&self.table.groups, Vec::new());
        while let Some(range) = self.unanswered.front() {
            let slots = &groups[range.start as usize..range.end as usize];
            if slots.iter().any(|slot| matches!(slot.state, GroupState::Open(_))) {
                break;
            }
            let lacked = (range.clone())
                .filter(|no| matches!(groups[*no as usize].state, GroupState::Lacked));
            let lacked: Vec<u32> = lacked.collect();
            answers.push((range.clone(), runs(lacked.iter().copied())));
            self.lacked.extend(lacked);
            self.unanswered.pop_front();
        }
        answers
    }

    /// Looks for the told chunks of these groups, and requests the chunks that the old versions lack.
    fn match_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        groups: &[Range<u32>],
    ) {
        let (mut copies, mut needed) = (FoundCopies::default(), Vec::new());
        let waiting = self.again.waiting_count();
        for no in groups.iter().cloned().flatten() {
            let lacked = self.find_chunks(build, no, &mut copies);
            self.shifted.count(&self.table, no, &lacked, fx);
            needed.extend(lacked);
        }
        if self.shifted.are_most() {
            return fx.fail_transfer(shifted_error());
        }
        fx.cx.counts.add(0, std::mem::take(&mut self.compared));
        // The chunks of a lacked group may all prove to be known: then nothing is held back any more.
        let differs = !needed.is_empty() || self.again.waiting_count() > waiting;
        let told_from = self.table.groups[groups[0].start as usize].first_chunk;
        let known = KnownContent { index: self.old.index(), kept: &self.kept, old: fx.old };
        let needed =
            self.gaps.find_runs(&mut self.table, runs(needed.into_iter()), told_from, known);
        fx.cx.frames.push_back(ToSender::Need { file: fx.file, chunks: needed });
        fx.cx.load.queue_gaps(fx.handle);
        fx.report_progress(build.settled_bytes());
        build.start_copies(fx, copies.finish(), differs, Some(self.old.index()));
    }

    /// Looks for the told chunks of a group; returns the chunks that the old versions lack.
    fn find_chunks(
        &mut self,
        build: &mut FileAssembly,
        no: u32,
        copies: &mut FoundCopies,
    ) -> Vec<u32> {
        self.look_up_after(no);
        let max_len = self.table.spec.max_len();
        let (index, slot) = (self.old.index(), &mut self.table.groups[no as usize]);
        let GroupState::Told(lines) = &slot.state else { return Vec::new() };
        let (mut start, mut needed) = (slot.start, Vec::new());
        let mut chunks = Vec::with_capacity(lines.len());
        for (nth, line) in lines.iter().enumerate() {
            let (no, name) = (slot.first_chunk + nth as u32, (line.brief, line.len));
            self.again.note_chunk(name, line.len == max_len);
            let origin = if let Some(kept) = self.kept.find_chunk(start, line) {
                build.count_kept(start, line.len.into());
                ChunkOrigin::Kept(kept)
            } else {
                let found = index.find_chunk(line.brief, line.len, self.after);
                self.compared += comparison_count(self.after, found);
                if let Some(found) = found {
                    let old = index.chunk(found).0;
                    copies.push(old, start);
                    build.matched.count_found(old.start, line.len.into());
                    self.after = Some(found);
                    ChunkOrigin::Old(found)
                } else if self.again.wait_or_request(no, name) {
                    build.matched.bytes += u64::from(line.len);
                    ChunkOrigin::Repeat
                } else {
                    needed.push(no);
                    ChunkOrigin::Needed(line.brief)
                }
            };
            chunks.push((line.len, origin));
            start += u64::from(line.len);
        }
        slot.state = GroupState::Spelled(chunks);
        self.table.needed += needed.len() as u64;
        needed
    }

    /// Marks a chunk as received, and returns the chunk's place.
    pub(super) fn mark_received(&mut self, chunk: u32) -> Result<PayloadChunk, PeerError> {
        self.table.mark_received(chunk, ArrivalForm::Itself)
    }

    /// Notes a chunk that was written.
    pub(super) fn note_written(&mut self, chunk: u32, fingerprint: Fingerprint) {
        self.table.note_written(chunk, fingerprint);
    }

    /// Surveys at most `most` gaps.
    pub(super) fn survey_gaps(&mut self, fx: &mut FileContext<'_>, most: u64) {
        let gaps = self.gaps.take_to_survey(most, fx.cx.setting.limits.mended_bytes());
        if gaps.is_empty() {
            return;
        }
        let handle = fx.handle;
        fx.cx.load.request_gaps(gaps.len());
        fx.cx.load.queue_gaps(handle);
        let facing = gaps.iter().map(ChunkGap::survey_request).collect();
        fx.cx.request_work(
            ReceiverWork::Old(OldVersionWork::Survey { handle, gaps: facing }),
            FilePending::Survey { handle, gaps },
        );
    }

    /// Takes the sums of surveyed gaps, and requests these gaps.
    fn take_gap_sums(&mut self, fx: &mut FileContext<'_>, gaps: Vec<ChunkGap>, sums: Vec<GapSums>) {
        let gaps = self.gaps.request_lines(gaps, sums);
        fx.cx.frames.push_back(ToSender::Mend { file: fx.file, gaps });
    }

    /// Takes gaps sent as deltas.
    pub(super) fn receive_gaps(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        ranges: &[Range<u32>],
        deltas: GapPayload,
    ) -> Result<(), PeerError> {
        let (gaps, patches, new_bytes) = self.gaps.receive(&mut self.table, ranges, &deltas)?;
        let GapPayload { bytes, payload, .. } = deltas;
        if bytes as usize > fx.cx.setting.limits.frame_bytes || !payload.may_hold(bytes as usize) {
            return Err(PeerError::Limit("bytes of gaps"));
        }
        let (handle, path, new) = (fx.handle, fx.path.clone(), build.new.clone());
        build.count_job();
        fx.cx.load.receive_gaps(gaps.len());
        let payload_bytes = new_bytes + bytes as usize;
        let work = ReceiverWork::New(NewVersionWork::Mend {
            handle,
            path,
            new,
            gaps: patches,
            bytes,
            payload,
        });
        let pending = FilePending::Mend { handle, gaps, payload_bytes };
        fx.cx.request_write(WorkTurn::Any, work, pending);
        Ok(())
    }

    /// Takes rebuilt gaps. A rebuilt chunk is accepted if its fingerprint begins with the announced prefix.
    fn take_rebuilt_gaps(
        &mut self,
        fx: &mut FileContext<'_>,
        build: &mut FileAssembly,
        gaps: Vec<ChunkGap>,
        mended: Vec<Mended>,
    ) {
        let compared = mended.iter().map(|mended| mended.fingerprints.len() as u64).sum();
        for (gap, mended) in gaps.into_iter().zip(mended) {
            let filled = self.gaps.fill_gap(&mut self.table, &gap, mended);
            for bytes in filled.written {
                build.mark_written(bytes.start, bytes.end - bytes.start);
            }
            build.literal += filled.literal;
            build.matched.bytes += filled.copied;
        }
        fx.cx.counts.add(0, compared);
        fx.cx.load.queue_gaps(fx.handle);
        fx.report_progress(build.settled_bytes());
    }
}
