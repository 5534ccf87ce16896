//! One attempt at one file: match its recipe against what is known of old, copy, write what is sent, prove the whole.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, FixedLen};
use deltic_core::delta::{CopyRuns, Cover, MAX_RUN_BYTES, Op};
use deltic_core::recipe::{Chunk, Digest, MAX_GROUP_CHUNKS};
use deltic_core::{ChunkNo, Fingerprint, Index, Meta, ShortFingerprint, Span};

use crate::error::PeerError;
use crate::limits::{INDEX_BUDGET_CHUNKS, MAX_FRAME_BYTES, MAX_GROUPS, WHOLE_BLOCK_BYTES};
use crate::message::{ChunkLine, Done, FileNo, GroupLine, How, Payload, ToSender};
use crate::report::{Action, Differs};
use crate::work::{Handle, Setback};

use super::{CopyRun, Indexed, Piece, Place, Proof, ProofPart, Receiver, Work};

/// What is known of the new version so far, and where its bytes come from.
#[derive(Debug)]
pub(super) struct Attempt {
    meta: Meta,
    how: How,
    spec: ChunkerSpec,
    old: Old,
    /// The old version being indexed, and up to which byte.
    indexing: (usize, u64),
    groups: Vec<Slot>,
    next_start: u64,
    next_chunk: u32,
    /// Groups told and not answered, a range for each frame.
    told: VecDeque<Range<u32>>,
    /// Groups that the sender has been asked to spell out, in order.
    lacked: VecDeque<u32>,
    /// Chunks asked for and not received.
    needed: u64,
    /// Fingerprints of the blocks of a file that comes whole; `None` while a block is being written.
    blocks: HashMap<u32, Option<Fingerprint>>,
    /// All of a file that is one block, until its end comes.
    body: Option<Payload>,
    /// While everything matched so far lies where it lay in the one in place: copies that may never be needed.
    held: Option<Vec<Op>>,
    /// The last match, for locality.
    after: Option<ChunkNo>,
    jobs: usize,
    cover: Cover,
    matched: u64,
    literal: u64,
    end: Option<Digest>,
    settling: bool,
}

/// What is known of the old versions.
#[derive(Debug)]
enum Old {
    Indexing(Box<Index>),
    Known(Arc<Index>),
}

impl Old {
    fn index(&self) -> &Index {
        match self {
            Self::Indexing(index) => index,
            Self::Known(index) => index,
        }
    }
}

/// A group of the recipe.
#[derive(Debug)]
struct Slot {
    start: u64,
    first_chunk: u32,
    chunks: u32,
    len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Told; not found yet.
    Open(ShortFingerprint),
    /// Found in old.
    Matched(Range<ChunkNo>),
    /// Not in old: to be spelled out.
    Lacked,
    /// Spelled out.
    Spelled(Vec<(u32, Origin)>),
}

/// Where a chunk's bytes come from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Old(ChunkNo),
    Needed(ShortFingerprint),
    Writing,
    New(Fingerprint),
}

impl Attempt {
    fn new(meta: Meta, how: How, spec: ChunkerSpec) -> Self {
        let cover = Cover::new(meta.len);
        Self {
            meta,
            how,
            spec,
            old: Old::Indexing(Box::new(Index::new(INDEX_BUDGET_CHUNKS))),
            indexing: (0, 0),
            groups: Vec::new(),
            next_start: 0,
            next_chunk: 0,
            told: VecDeque::new(),
            lacked: VecDeque::new(),
            needed: 0,
            blocks: HashMap::new(),
            body: None,
            held: Some(Vec::new()),
            after: None,
            jobs: 0,
            cover,
            matched: 0,
            literal: 0,
            end: None,
            settling: false,
        }
    }

    /// Bytes whose source is found or that have arrived.
    pub(super) const fn settled(&self) -> u64 {
        self.matched + self.literal
    }

    /// Whether its result is being put in place.
    pub(super) const fn is_settling(&self) -> bool {
        self.settling
    }

    pub(super) fn groups_unanswered(&self) -> u64 {
        self.told.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    fn knows_old(&self) -> bool {
        matches!(self.old, Old::Known(_))
    }

    /// All of old is indexed.
    fn knows_all(&mut self) {
        let indexed = std::mem::replace(&mut self.old, Old::Indexing(Box::new(Index::new(0))));
        self.old = match indexed {
            Old::Indexing(index) => Old::Known(Arc::new(*index)),
            known @ Old::Known(_) => known,
        };
    }

    /// Takes the next groups of the recipe.
    fn tell(&mut self, lines: &[GroupLine]) -> Result<(), PeerError> {
        let first = self.groups.len() as u32;
        for line in lines {
            let most = u64::from(line.chunks) * u64::from(self.spec.max_len());
            let fits = line.len <= self.meta.len - self.next_start;
            if line.len == 0 || line.chunks == 0 || line.chunks > MAX_GROUP_CHUNKS {
                return Err(PeerError::Limit("chunks in a group"));
            }
            let least = u64::from(line.chunks - 1) * u64::from(self.spec.min_len());
            if !fits || line.len <= least || line.len > most || self.groups.len() >= MAX_GROUPS {
                return Err(PeerError::Limit("length of a group"));
            }
            self.groups.push(Slot {
                start: self.next_start,
                first_chunk: self.next_chunk,
                chunks: line.chunks,
                len: line.len,
                state: State::Open(line.short),
            });
            self.next_start += line.len;
            self.next_chunk += line.chunks;
        }
        self.told.push_back(first..self.groups.len() as u32);
        Ok(())
    }

    /// Looks for the groups of `range` in old; what is not found is lacked.
    ///
    /// All of old is known: an earlier look would find what depends on a race, and lose the match's neighbours.
    fn resolve(&mut self, range: Range<u32>, copies: &mut Copies) {
        let index = self.old.index();
        for slot in &mut self.groups[range.start as usize..range.end as usize] {
            let State::Open(short) = slot.state else { continue };
            match index.find_group(short, slot.len, slot.chunks, self.after) {
                Some(found) => {
                    let old_start = index.chunk(found.start).0.start;
                    copies.push(Span::new(old_start, slot.len as u32), slot.start);
                    self.matched += slot.len;
                    self.after = Some(found.end.previous());
                    slot.state = State::Matched(found);
                }
                // Locality goes on where the recipe does: the group's chunks are looked for from here.
                None => slot.state = State::Lacked,
            }
        }
    }

    /// The answers that are complete, in the order of their frames.
    fn lacks(&mut self) -> Vec<(Range<u32>, Vec<Range<u32>>)> {
        let mut answers = Vec::new();
        while let Some(range) = self.told.front() {
            let slots = &self.groups[range.start as usize..range.end as usize];
            if slots.iter().any(|slot| matches!(slot.state, State::Open(_))) {
                break;
            }
            let lacked = (range.clone())
                .filter(|no| matches!(self.groups[*no as usize].state, State::Lacked));
            let lacked: Vec<u32> = lacked.collect();
            answers.push((range.clone(), runs(lacked.iter().copied())));
            self.lacked.extend(lacked);
            self.told.pop_front();
        }
        answers
    }

    /// Takes the chunks of one group that was lacked; which of them old does not have either.
    fn spell(
        &mut self,
        no: u32,
        lines: &[ChunkLine],
        copies: &mut Copies,
    ) -> Result<Vec<u32>, PeerError> {
        let before = no.checked_sub(1).map(|no| &self.groups[no as usize].state);
        if let Some(State::Matched(found)) = before {
            self.after = Some(found.end.previous());
        }
        let slot = &mut self.groups[no as usize];
        let (mut start, mut needed) = (slot.start, Vec::new());
        let mut chunks = Vec::with_capacity(lines.len());
        for (nth, line) in lines.iter().enumerate() {
            let is_last = start + u64::from(line.len) == self.meta.len;
            let least = if is_last { 1 } else { self.spec.min_len() };
            if line.len < least || line.len > self.spec.max_len() {
                return Err(PeerError::Limit("length of a chunk"));
            }
            let index = self.old.index();
            let origin = match index.find_chunk(line.short, line.len, self.after) {
                Some(found) => {
                    copies.push(index.chunk(found).0, start);
                    self.matched += u64::from(line.len);
                    self.after = Some(found);
                    Origin::Old(found)
                }
                None => {
                    needed.push(slot.first_chunk + nth as u32);
                    Origin::Needed(line.short)
                }
            };
            chunks.push((line.len, origin));
            start += u64::from(line.len);
        }
        if start - slot.start != slot.len {
            return Err(PeerError::Unexpected("chunks that do not add up to their group"));
        }
        slot.state = State::Spelled(chunks);
        self.needed += needed.len() as u64;
        Ok(needed)
    }

    /// Marks a chunk as arrived; where it goes.
    fn receive(&mut self, chunk: u32) -> Result<Piece, PeerError> {
        const UNASKED: PeerError = PeerError::Unexpected("a chunk that was not asked for");
        if self.how == How::Whole {
            let block = u64::from(WHOLE_BLOCK_BYTES);
            let start = u64::from(chunk) * block;
            if start >= self.meta.len || self.blocks.insert(chunk, None).is_some() {
                return Err(UNASKED);
            }
            let len = block.min(self.meta.len - start) as u32;
            return Ok(Piece { span: Span::new(start, len), short: None });
        }
        let slot = self.groups.partition_point(|slot| slot.first_chunk <= chunk).checked_sub(1);
        let slot = &mut self.groups[slot.ok_or(UNASKED)?];
        let State::Spelled(chunks) = &mut slot.state else { return Err(UNASKED) };
        let nth = (chunk - slot.first_chunk) as usize;
        let Some((len, origin @ &mut Origin::Needed(short))) =
            chunks.get_mut(nth).map(|(l, o)| (*l, o))
        else {
            return Err(UNASKED);
        };
        *origin = Origin::Writing;
        let before: u64 = chunks[..nth].iter().map(|(len, _)| u64::from(*len)).sum();
        self.needed -= 1;
        Ok(Piece { span: Span::new(slot.start + before, len), short: Some(short) })
    }

    /// Notes a chunk that was written.
    fn wrote(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if self.how == How::Whole {
            self.blocks.insert(chunk, Some(fingerprint));
            return;
        }
        let slot = self.groups.partition_point(|slot| slot.first_chunk <= chunk) - 1;
        let slot = &mut self.groups[slot];
        if let State::Spelled(chunks) = &mut slot.state {
            chunks[(chunk - slot.first_chunk) as usize].1 = Origin::New(fingerprint);
        }
    }

    /// Whether the file comes whole and in one piece, to be put in place in one go.
    fn is_single_block(&self) -> bool {
        self.how == How::Whole && self.meta.len <= u64::from(WHOLE_BLOCK_BYTES)
    }

    /// Whether nothing more is to come and nothing is under way.
    fn is_quiet(&self) -> bool {
        let asked = !self.told.is_empty() || !self.lacked.is_empty() || self.needed > 0;
        let indexing = self.how == How::Recipe && !self.knows_old();
        self.end.is_some() && !asked && !indexing && self.jobs == 0 && !self.settling
    }

    /// Whether the one in place, of `len` bytes, is the new version already.
    fn is_identical(&self, len: Option<u64>) -> bool {
        let held = self.held.as_ref().map(|held| held.iter().map(op_bytes).sum::<u64>());
        self.how == How::Recipe && held == Some(self.meta.len) && len == Some(self.meta.len)
    }

    fn proof(&self, digest: Digest) -> Proof {
        let index = match &self.old {
            Old::Known(index) => Arc::clone(index),
            Old::Indexing(_) => Arc::new(Index::new(0)),
        };
        let parts = match self.how {
            How::Recipe => self.groups.iter().flat_map(slot_parts).collect(),
            How::Whole => vec![ProofPart::New(self.block_chunks())],
        };
        Proof { digest, index, parts }
    }

    fn block_chunks(&self) -> Vec<Chunk> {
        let block = u64::from(WHOLE_BLOCK_BYTES);
        let mut blocks: Vec<_> = self.blocks.iter().collect();
        blocks.sort_unstable_by_key(|(no, _)| **no);
        let chunk = |(no, fingerprint): (&u32, &Option<Fingerprint>)| {
            let len = block.min(self.meta.len - u64::from(*no) * block) as u32;
            Some(Chunk { len, fingerprint: (*fingerprint)? })
        };
        blocks.into_iter().filter_map(chunk).collect()
    }
}

fn op_bytes(op: &Op) -> u64 {
    match op {
        Op::Copy { old, .. } => u64::from(old.len),
        Op::Literal { new } => u64::from(new.len),
    }
}

fn slot_parts(slot: &Slot) -> Vec<ProofPart> {
    match &slot.state {
        State::Matched(range) => vec![ProofPart::Old(range.clone())],
        State::Spelled(chunks) => (chunks.iter())
            .map(|(len, origin)| match origin {
                Origin::Old(no) => ProofPart::Old(*no..no.next()),
                Origin::New(fingerprint) => {
                    ProofPart::New(vec![Chunk { len: *len, fingerprint: *fingerprint }])
                }
                Origin::Needed(_) | Origin::Writing => ProofPart::New(Vec::new()),
            })
            .collect(),
        State::Open(_) | State::Lacked => Vec::new(),
    }
}

/// Copies found in one step, merged where they continue each other.
#[derive(Default)]
struct Copies {
    runs: CopyRuns,
    done: Vec<Op>,
}

impl Copies {
    fn push(&mut self, old: Span, new_start: u64) {
        self.done.extend(self.runs.push(old, new_start));
    }

    fn finish(mut self) -> Vec<Op> {
        self.done.extend(self.runs.finish());
        self.done
    }
}

/// Copies in portions that are worth a thread's while and do not keep it long.
fn batches(ops: &[Op]) -> Vec<Vec<CopyRun>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for op in ops {
        let Op::Copy { old, new_start } = *op else { continue };
        if bytes + old.len > MAX_RUN_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += old.len;
        batch.push(CopyRun { old, new_start });
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Ascending numbers as ranges.
fn runs(numbers: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for no in numbers {
        match runs.last_mut() {
            Some(last) if last.end == no => last.end += 1,
            _ => runs.push(no..no + 1),
        }
    }
    runs
}

impl Receiver {
    pub(super) fn start(
        &mut self,
        file: FileNo,
        meta: Meta,
        (how, spec): (How, ChunkerSpec),
    ) -> Result<(), PeerError> {
        // An attempt may have ended here while its beginning was on the way.
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        if !self.handles.contains_key(&incoming.handle) {
            return Ok(());
        }
        let blocks = FixedLen::new(WHOLE_BLOCK_BYTES).map(ChunkerSpec::Fixed);
        let fits = how == incoming.how && (how == How::Recipe || Ok(spec) == blocks);
        if !incoming.asked || incoming.attempt.is_some() || !fits || !meta.is_file() {
            return Err(PeerError::Unexpected("start"));
        }
        incoming.attempt = Some(Box::new(Attempt::new(meta, how, spec)));
        let handle = incoming.handle;
        if how == How::Recipe {
            self.jobs.ask(Work::Index { handle, part: 0, start: 0, spec }, Place::Index(handle));
        }
        Ok(())
    }

    /// The file's attempt; `None` where it has ended here and the sender cannot know yet.
    fn attempt(&mut self, file: FileNo) -> Option<(Handle, &mut Attempt)> {
        let incoming = self.files.get_mut(&file)?;
        Some((incoming.handle, incoming.attempt.as_mut()?))
    }

    fn attempt_of(&mut self, handle: Handle) -> Option<(FileNo, &mut Attempt)> {
        let (file, incoming) = self.incoming(handle)?;
        Some((file, incoming.attempt.as_mut()?))
    }

    pub(super) fn indexed(&mut self, handle: Handle, indexed: Result<Indexed, Setback>) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let parts = incoming.parts.clone();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Old::Indexing(index) = &mut attempt.old else { return };
        let (part, mut start) = attempt.indexing;
        let base: u64 = parts[..part].iter().sum();
        // An old version that cannot be read is only a version less to match against.
        let Indexed { chunks, at_end } =
            indexed.unwrap_or(Indexed { chunks: Vec::new(), at_end: true });
        for chunk in chunks {
            index.push(base + start, chunk);
            start += u64::from(chunk.len);
        }
        let next = if at_end {
            index.end_part();
            (part + 1, 0)
        } else {
            (part, start)
        };
        attempt.indexing = next;
        let spec = attempt.spec;
        if next.0 < parts.len() {
            let (part, start) = next;
            self.jobs.ask(Work::Index { handle, part, start, spec }, Place::Index(handle));
        } else {
            attempt.knows_all();
            self.resolve(file, None);
        }
    }

    pub(super) fn groups(&mut self, file: FileNo, lines: &[GroupLine]) -> Result<(), PeerError> {
        let Some((_, attempt)) = self.attempt(file) else { return Ok(()) };
        if attempt.how != How::Recipe || attempt.end.is_some() {
            return Err(PeerError::Unexpected("groups"));
        }
        if lines.is_empty() {
            return Err(PeerError::Unexpected("no groups"));
        }
        attempt.tell(lines)?;
        let told = attempt.told.back().cloned();
        self.take_groups(lines.len() as u64)?;
        self.resolve(file, told);
        Ok(())
    }

    /// Matches the groups of one frame, or of all that are unanswered; answers what it can.
    fn resolve(&mut self, file: FileNo, frame: Option<Range<u32>>) {
        let Some((handle, attempt)) = self.attempt(file) else { return };
        if !attempt.knows_old() {
            return;
        }
        let frames = match frame {
            Some(frame) => vec![frame],
            None => attempt.told.iter().cloned().collect(),
        };
        let mut copies = Copies::default();
        for frame in frames {
            attempt.resolve(frame, &mut copies);
        }
        let answers = attempt.lacks();
        let differs = answers.iter().any(|(_, lacked)| !lacked.is_empty());
        for (told, groups) in answers {
            self.groups_out -= u64::from(told.end - told.start);
            self.frames.push_back(ToSender::Lack { file, groups });
        }
        self.advance(file);
        self.copy(handle, copies.finish(), differs);
        self.try_settle(handle);
    }

    /// Copies what was found, or holds it back while it may turn out that nothing changed.
    fn copy(&mut self, handle: Handle, found: Vec<Op>, differs: bool) {
        let dry_run = self.setting.options.dry_run;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let in_place = incoming.len_in_place().unwrap_or(0);
        let path = incoming.candidate.path.clone();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let stays = |op: &Op| matches!(op, Op::Copy { old, new_start } if old.start == *new_start && old.end() <= in_place);
        let mut ops = found;
        if let Some(held) = &mut attempt.held {
            let identical = !differs && ops.iter().all(stays);
            held.append(&mut ops);
            if identical {
                return;
            }
            ops = attempt.held.take().unwrap_or_default();
        }
        if dry_run {
            return self.differs(file, handle);
        }
        let len = attempt.meta.len;
        let batches = batches(&ops);
        attempt.jobs += batches.len();
        for runs in batches {
            let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len)).collect();
            let work = Work::Copy { handle, path: path.clone(), len, runs };
            self.jobs.ask(work, Place::Copy(handle, spans));
        }
    }

    pub(super) fn chunks(
        &mut self,
        file: FileNo,
        groups: &[Range<u32>],
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        if groups.is_empty() {
            return Err(PeerError::Unexpected("chunks of no group"));
        }
        let (mut lines, mut copies, mut needed) = (lines, Copies::default(), Vec::new());
        for no in groups.iter().cloned().flatten() {
            if attempt.lacked.pop_front() != Some(no) {
                return Err(PeerError::Unexpected("chunks of a group that was not asked for"));
            }
            let count = attempt.groups[no as usize].chunks as usize;
            let own = lines.split_off(..count);
            let own = own.ok_or(PeerError::Unexpected("fewer chunks than their groups have"))?;
            needed.extend(attempt.spell(no, own, &mut copies)?);
        }
        if !lines.is_empty() {
            return Err(PeerError::Unexpected("more chunks than their groups have"));
        }
        self.frames.push_back(ToSender::Need { file, chunks: runs(needed.into_iter()) });
        self.advance(file);
        self.copy(handle, copies.finish(), true);
        self.try_settle(handle);
        Ok(())
    }

    pub(super) fn fill(
        &mut self,
        file: FileNo,
        ranges: &[Range<u32>],
        payload: Payload,
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let path = incoming.candidate.path.clone();
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else {
            return Ok(());
        };
        let (mut chunks, mut pieces, mut bytes) = (Vec::new(), Vec::new(), 0);
        for chunk in ranges.iter().cloned().flatten() {
            let piece = attempt.receive(chunk)?;
            bytes += piece.span.len as usize;
            if bytes > MAX_FRAME_BYTES {
                return Err(PeerError::Limit("literal bytes in a frame"));
            }
            chunks.push(chunk);
            pieces.push(piece);
        }
        if !payload.may_hold(bytes) {
            return Err(PeerError::Unexpected("literals of another length than their chunks"));
        }
        let len = attempt.meta.len;
        if attempt.is_single_block() {
            attempt.literal = len;
            attempt.body = Some(payload);
            self.advance(file);
            return Ok(());
        }
        attempt.jobs += 1;
        self.backlog_bytes += bytes;
        let spans = pieces.iter().map(|piece| piece.span).collect();
        self.jobs.ask(
            Work::Write { handle, path, len, pieces, payload },
            Place::Write { handle, chunks, spans, payload_bytes: bytes },
        );
        Ok(())
    }

    pub(super) fn written(
        &mut self,
        handle: Handle,
        (chunks, spans): (&[u32], &[Span]),
        written: Result<Vec<Fingerprint>, Setback>,
    ) {
        let fingerprints = match written {
            Ok(fingerprints) => fingerprints,
            Err(setback) => return self.fail(handle, setback),
        };
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        attempt.jobs -= 1;
        for ((chunk, fingerprint), span) in chunks.iter().zip(fingerprints).zip(spans) {
            attempt.wrote(*chunk, fingerprint);
            attempt.literal += u64::from(span.len);
            let covered = attempt.cover.add(span.start, u64::from(span.len));
            covered.expect("a chunk is received once, in its own place");
        }
        self.advance(file);
        self.try_settle(handle);
    }

    pub(super) fn copied(&mut self, handle: Handle, new: &[Span], copied: Result<(), Setback>) {
        if let Err(setback) = copied {
            return self.fail(handle, setback);
        }
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        attempt.jobs -= 1;
        for span in new {
            let covered = attempt.cover.add(span.start, u64::from(span.len));
            covered.expect("a group or chunk is matched once, in its own place");
        }
        self.try_settle(handle);
    }

    pub(super) fn end(&mut self, file: FileNo, digest: Digest) -> Result<(), PeerError> {
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        let whole = attempt.how == How::Whole;
        let blocks = attempt.meta.len.div_ceil(u64::from(WHOLE_BLOCK_BYTES));
        let complete = if whole {
            attempt.blocks.len() as u64 == blocks
        } else {
            attempt.next_start == attempt.meta.len
        };
        if attempt.end.replace(digest).is_some() || !complete {
            return Err(PeerError::Unexpected("the end of an incomplete file"));
        }
        self.try_settle(handle);
        Ok(())
    }

    /// Commits the file, or finds that there is nothing to commit, once nothing more is to come.
    fn try_settle(&mut self, handle: Handle) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let in_place = incoming.len_in_place();
        let path = incoming.candidate.path.clone();
        let seen = incoming.candidate.seen.clone();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Some(digest) = attempt.end.filter(|_| attempt.is_quiet()) else { return };
        if attempt.is_single_block() {
            attempt.settling = true;
            let meta = attempt.meta.clone();
            let payload = attempt.body.take().unwrap_or(Payload::Plain(Vec::new()));
            let payload_bytes = meta.len as usize;
            self.backlog_bytes += payload_bytes;
            self.jobs.ask(
                Work::Replace { path, meta, seen, payload, digest },
                Place::Replace { handle, payload_bytes },
            );
        } else if attempt.is_identical(in_place) {
            attempt.settling = true;
            let proof = attempt.proof(digest);
            self.jobs.ask(Work::Confirm { handle, proof }, Place::Confirm(handle));
        } else if attempt.held.is_some() && attempt.how == How::Recipe {
            // A prefix of the one in place: what was held back is needed after all.
            self.copy(handle, Vec::new(), true);
            self.try_settle(handle);
        } else if attempt.cover.is_complete() {
            attempt.settling = true;
            let (meta, proof) = (attempt.meta.clone(), attempt.proof(digest));
            self.jobs.ask(Work::Commit { handle, path, meta, seen, proof }, Place::Commit(handle));
        } else {
            debug_assert!(false, "file {} is quiet and not covered", file.0);
        }
    }

    pub(super) fn committed(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let checksum = self.setting.options.checksum;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let Some(attempt) = &incoming.attempt else { return };
        let existed = incoming.candidate.old.is_some();
        let done = Done::Replaced {
            action: if existed { Action::Updated } else { Action::Created },
            differs: Differs { content: checksum && existed, ..incoming.candidate.differs },
            literal: attempt.literal,
            matched: attempt.matched,
        };
        self.done(file, done);
    }

    /// The one in place is the new version; its attributes may still differ.
    pub(super) fn confirmed(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let dry_run = self.setting.options.dry_run;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let differs = incoming.candidate.differs;
        let path = incoming.candidate.path.clone();
        let Some(attempt) = &incoming.attempt else { return };
        let meta = attempt.meta.clone();
        if differs == Differs::default() || dry_run {
            self.done(file, Done::Same { touched: differs != Differs::default(), differs });
        } else {
            self.jobs.ask(Work::SetMeta { path, meta }, Place::TouchFile(handle));
        }
    }

    pub(super) fn touched(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let differs = incoming.candidate.differs;
        self.done(file, Done::Same { touched: true, differs });
    }
}
