//! One attempt at one file: match its recipe against what is known of old, copy, write what is sent, prove the whole.

mod confirm;
mod facing;
mod keeping;
mod known;
mod mending;
mod old;
mod patched;
mod probing;
mod roll;
mod steps;
mod talk;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::{CopyRuns, Cover, MAX_RUN_BYTES, Op};
use deltic_core::recipe::{Chunk, Digest, MAX_GROUP_CHUNKS};
use deltic_core::{ChunkNo, ChunkPrefix, Chunks, Fingerprint, GroupPrefix, Span, Strategy};
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::{MAX_GROUPS, TOLD_BY_CHUNK_BYTES, WHOLE_BLOCK_BYTES};
use crate::message::{ChunkLine, GroupLine, How, Payload};
use crate::work::Turn;

use super::proof::{ProofChunks, ProofOf, Source};
use super::{CopyRun, KeptChunk, New, Piece, Proof};

pub(super) use confirm::Asked;
use keeping::Keeping;
pub(super) use mending::Gap;
use mending::Gaps;
pub(super) use old::{IndexPart, Old};
pub(super) use steps::is_agreed;
use talk::Talk;

/// What is known of the new version so far, and where its bytes come from.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) meta: Meta,
    how: How,
    spec: ChunkerSpec,
    /// The first byte that is to come, of a file that only grows.
    from: u64,
    old: Old,
    /// Chunks of an interrupted transfer that are in place.
    kept: Keeping,
    /// Chunks that came, in the order in which they were written.
    came: Chunks,
    /// Nothing was lacked yet, so old was not read: an interrupted transfer may need nothing of it.
    unread: bool,
    groups: Vec<Slot>,
    next_start: u64,
    next_chunk: u32,
    /// How many groups have been looked for, and those of them that were not found where old was known by then.
    looked: usize,
    missing: Vec<u32>,
    /// Groups told and not answered, a range for each frame.
    told: VecDeque<Range<u32>>,
    /// Groups that the sender has been asked to spell out, in order.
    lacked: VecDeque<u32>,
    /// Groups of which the sender told the chunks unasked, while old was not known: a range for each frame.
    unmatched: VecDeque<Range<u32>>,
    /// Chunks asked for and not received.
    needed: u64,
    gaps: Gaps,
    /// Fingerprints of the blocks of a file that comes whole; `None` while a block is being written.
    blocks: HashMap<u32, Option<Fingerprint>>,
    /// Whether they were asked for, so that they may come beside each other, and behind their end.
    asked: bool,
    /// All of a file that is one block, until its end comes.
    body: Option<Payload>,
    /// While everything matched so far lies where it lay in the one in place: copies that may never be needed.
    held: Option<Vec<Op>>,
    /// The last match, for locality.
    after: Option<ChunkNo>,
    /// How many fingerprints were compared since somebody asked.
    compared: u64,
    jobs: usize,
    cover: Cover,
    pub(super) matched: Matched,
    literal: u64,
    end: Option<Digest>,
    /// Whether the source grew while it was read.
    pub(super) restless: bool,
    settling: bool,
    /// Where it comes by a strategy of the papers.
    talk: Option<Box<Talk>>,
}

/// How much of a file the receiver has.
#[derive(Debug)]
pub(super) struct Matched {
    pub(super) bytes: u64,
    /// Those of them that an interrupted run had left.
    pub(super) resumed: u64,
    /// Where what killed runs left begins, all old versions laid end to end.
    pub(super) left_at: u64,
}

impl Default for Matched {
    fn default() -> Self {
        Self { bytes: 0, resumed: 0, left_at: u64::MAX }
    }
}

impl Matched {
    /// Counts bytes that were found in old from `start` on.
    const fn in_old(&mut self, start: u64, len: u64) {
        self.bytes += len;
        if start >= self.left_at {
            self.resumed += len;
        }
    }

    /// Counts bytes that are in place since an interrupted run.
    const fn kept(&mut self, len: u64) {
        self.bytes += len;
        self.resumed += len;
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
    Open(GroupPrefix),
    /// Found in old.
    Matched(Range<ChunkNo>),
    /// In place since an interrupted transfer: these of what it left.
    Kept(Range<ChunkNo>),
    /// Not in old: to be spelled out.
    Lacked,
    /// Spelled out, and not matched yet.
    Told(Vec<ChunkLine>),
    /// Spelled out.
    Spelled(Vec<(u32, Origin)>),
}

impl Slot {
    /// Adds its chunks.
    fn prove(&self, proof: &mut ProofChunks) {
        match &self.state {
            State::Matched(range) => proof.push(Source::Old, range.clone()),
            State::Kept(range) => proof.push(Source::Kept, range.clone()),
            State::Spelled(chunks) => {
                for (_, origin) in chunks {
                    let (source, no) = match *origin {
                        Origin::Old(no) => (Source::Old, no),
                        Origin::Kept(no) => (Source::Kept, no),
                        Origin::New(no) => (Source::Came, no),
                        Origin::Needed(_) | Origin::Gap(_) | Origin::Writing(_) => continue,
                    };
                    proof.push(source, no..no.next());
                }
            }
            State::Open(_) | State::Lacked | State::Told(_) => {}
        }
    }
}

/// Where a chunk's bytes come from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Old(ChunkNo),
    /// In place since an interrupted transfer.
    Kept(ChunkNo),
    Needed(ChunkPrefix),
    /// Part of a gap.
    Gap(ChunkPrefix),
    Writing(ChunkPrefix),
    /// It came.
    New(ChunkNo),
}

/// How the bytes of a chunk arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Itself,
    Gap,
}

impl Attempt {
    pub(super) fn new(meta: Meta, (how, spec): (How, ChunkerSpec), strategy: Strategy) -> Self {
        let talk = Talk::new(strategy, (how, spec), meta.len);
        let cover = Cover::new(meta.len);
        Self {
            meta,
            how,
            spec,
            from: 0,
            old: Old::new(spec),
            kept: Keeping::default(),
            came: Chunks::default(),
            unread: false,
            groups: Vec::new(),
            next_start: 0,
            next_chunk: 0,
            looked: 0,
            missing: Vec::new(),
            told: VecDeque::new(),
            lacked: VecDeque::new(),
            unmatched: VecDeque::new(),
            needed: 0,
            gaps: Gaps::default(),
            blocks: HashMap::new(),
            asked: false,
            body: None,
            held: Some(Vec::new()),
            after: None,
            compared: 0,
            jobs: 0,
            cover,
            matched: Matched::default(),
            literal: 0,
            end: None,
            restless: false,
            settling: false,
            talk,
        }
    }

    /// How many fingerprints were compared since the last time.
    const fn take_compared(&mut self) -> u64 {
        std::mem::replace(&mut self.compared, 0)
    }

    /// The new version.
    fn new_version(&self) -> New {
        New { len: self.meta.len, modified: self.meta.modified, from: self.from, spec: self.spec }
    }

    /// Only what lies behind byte `from` is to come.
    fn begin_at(&mut self, from: u64) {
        (self.from, self.matched.bytes) = (from, from);
        self.cover.add(0, from).expect("it is no longer than the file, and nothing was there");
    }

    /// Whether literals come in fixed blocks, unasked.
    const fn comes_in_blocks(&self) -> bool {
        matches!(self.how, How::Whole | How::Tail)
    }

    /// Asks for all of these, where there are several; the question.
    fn ask_for_blocks(&mut self) -> Option<Range<u32>> {
        let count = u32::try_from(self.block_count()).ok()?;
        self.asked = self.comes_in_blocks() && count > 1;
        self.asked.then_some(0..count)
    }

    /// Whether nothing of it may overtake what else is told of it: it goes by another strategy, or in blocks that were not
    /// asked for.
    pub(super) const fn comes_in_order(&self) -> bool {
        !matches!(self.how, How::Recipe) && !self.asked
    }

    /// Whether all of them came.
    fn has_all_blocks(&self) -> bool {
        self.blocks.len() as u64 == self.block_count()
    }

    /// How many of these there are.
    fn block_count(&self) -> u64 {
        (self.meta.len - self.from).div_ceil(u64::from(WHOLE_BLOCK_BYTES))
    }

    /// What copies bring, in their places in new.
    fn chunks_of(&self, runs: &[CopyRun]) -> Vec<KeptChunk> {
        let index = self.old.index();
        let chunks = runs.iter().flat_map(|run| {
            index.chunks_in(run.old).map(|(span, fingerprint)| KeptChunk {
                start: run.new_start + (span.start - run.old.start),
                chunk: Chunk { len: span.len, fingerprint },
            })
        });
        chunks.collect()
    }

    /// Bytes whose source is found or that have arrived.
    pub(super) const fn settled(&self) -> u64 {
        self.matched.bytes + self.literal
    }

    /// Whether its result is being put in place.
    pub(super) const fn is_settling(&self) -> bool {
        self.settling
    }

    pub(super) fn groups_held(&self) -> u64 {
        self.groups.len() as u64
    }

    pub(super) fn groups_unanswered(&self) -> u64 {
        self.told.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    pub(super) fn gaps_out(&self) -> u64 {
        self.gaps.out()
    }

    pub(super) const fn old(&mut self) -> &mut Old {
        &mut self.old
    }

    /// Takes what was cut ahead of old, if it is cut in the same way.
    pub(super) fn go_on_from(&mut self, ahead: Old) {
        if ahead.is_cut_by(&self.spec) {
            self.old = ahead;
        }
    }

    fn knows_old(&self) -> bool {
        self.old.is_known()
    }

    /// There is nothing to read of old.
    fn knows_all(&mut self) {
        self.unread = false;
        self.old.knows_all();
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
            let state = match self.kept.group(self.next_start, line) {
                Some(kept) => {
                    self.keep(self.next_start, line.len);
                    State::Kept(kept)
                }
                None => State::Open(line.short),
            };
            self.groups.push(Slot {
                start: self.next_start,
                first_chunk: self.next_chunk,
                chunks: line.chunks,
                len: line.len,
                state,
            });
            self.next_start += line.len;
            self.next_chunk += line.chunks;
        }
        self.told.push_back(first..self.groups.len() as u32);
        Ok(())
    }

    /// Looks for groups as far as old is known: for each once what lies around its own place is, and for those that were
    /// not found once more when all of old is; what is not found then is lacked. Whether any was not found: then the old
    /// version in place is not the new one.
    ///
    /// An earlier look would find one of several equal groups far away and not the one in its own place.
    fn resolve(&mut self, copies: &mut Copies) -> bool {
        let known = if self.knows_old() { u64::MAX } else { self.old.index().groups_end() };
        let mut missed = false;
        while let Some(slot) = self.groups.get(self.looked)
            && slot.start + slot.len + AROUND_BYTES <= known
        {
            let found = self.look(self.looked, copies);
            if !found {
                missed = true;
                self.missing.push(self.looked as u32);
            }
            self.looked += 1;
        }
        if self.knows_old() {
            for no in std::mem::take(&mut self.missing) {
                // Locality goes on where the recipe does.
                let before = (no as usize).checked_sub(1).map(|no| &self.groups[no].state);
                if let Some(State::Matched(found)) = before {
                    self.after = Some(found.end.previous());
                }
                if !self.look(no as usize, copies) {
                    self.groups[no as usize].state = State::Lacked;
                }
            }
        }
        missed
    }

    /// Looks for one group; whether it was found.
    fn look(&mut self, no: usize, copies: &mut Copies) -> bool {
        let (index, slot) = (self.old.index(), &mut self.groups[no]);
        let State::Open(short) = slot.state else { return true };
        let found = index.find_group(short, slot.len, slot.chunks, self.after);
        self.compared += compared(self.after, found.as_ref().map(|found| found.start));
        let Some(found) = found else { return false };
        let old_start = index.chunk(found.start).0.start;
        copies.push(Span::new(old_start, slot.len as u32), slot.start);
        self.matched.in_old(old_start, slot.len);
        self.after = Some(found.end.previous());
        slot.state = State::Matched(found);
        true
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

    /// Refuses more of a recipe that is at its end, or of a file that has none.
    fn awaits_more(&self, what: &'static str) -> Result<(), PeerError> {
        let awaits = self.how == How::Recipe && self.end.is_none();
        if awaits { Ok(()) } else { Err(PeerError::Unexpected(what)) }
    }

    /// Takes the next groups of a recipe that is told by them.
    fn tell_groups(&mut self, lines: &[GroupLine]) -> Result<(), PeerError> {
        self.awaits_more("groups")?;
        if lines.is_empty() {
            return Err(PeerError::Unexpected("no groups"));
        }
        self.tell(lines)
    }

    /// Takes the next chunks of a recipe that is told by them.
    fn tell_recipe(&mut self, lines: &[ChunkLine]) -> Result<(), PeerError> {
        self.awaits_more("recipe")?;
        if self.is_resumed() || self.meta.len > TOLD_BY_CHUNK_BYTES || lines.is_empty() {
            return Err(PeerError::Unexpected("recipe"));
        }
        self.tell_chunks(lines)
    }

    /// The source grew while it was read: said once, before what proves the whole.
    fn tell_restless(&mut self) -> Result<(), PeerError> {
        if self.end.is_some() || std::mem::replace(&mut self.restless, true) {
            return Err(PeerError::Unexpected("restless"));
        }
        Ok(())
    }

    /// Takes what proves the whole, behind all of it.
    fn tell_end(&mut self, digest: Digest) -> Result<(), PeerError> {
        let complete = match &self.talk {
            Some(talk) => talk.is_told(),
            None if self.comes_in_blocks() => self.asked || self.has_all_blocks(),
            None => self.next_start == self.meta.len,
        };
        if self.end.replace(digest).is_some() || !complete {
            return Err(PeerError::Unexpected("the end of an incomplete file"));
        }
        Ok(())
    }

    /// Takes the next chunks of the recipe of a short file, to be matched when old is known; a group is as many as may be.
    fn tell_chunks(&mut self, lines: &[ChunkLine]) -> Result<(), PeerError> {
        let first = self.groups.len() as u32;
        for lines in lines.chunks(MAX_GROUP_CHUNKS as usize) {
            let len = self.check_chunks(self.next_start, lines)?;
            let (start, first_chunk) = (self.next_start, self.next_chunk);
            let (chunks, state) = (lines.len() as u32, State::Told(lines.to_vec()));
            self.groups.push(Slot { start, first_chunk, chunks, len, state });
            self.next_start += len;
            self.next_chunk += chunks;
        }
        self.unmatched.push_back(first..self.groups.len() as u32);
        Ok(())
    }

    /// What can be matched by now of what was told unasked.
    fn next_unmatched(&mut self) -> Option<Range<u32>> {
        if self.knows_old() { self.unmatched.pop_front() } else { None }
    }

    /// Checks that these chunks may begin at `start`; how many bytes they are.
    fn check_chunks(&self, start: u64, lines: &[ChunkLine]) -> Result<u64, PeerError> {
        let mut end = start;
        for line in lines {
            end += u64::from(line.len);
            let least = if end == self.meta.len { 1 } else { self.spec.min_len() };
            if line.len < least || line.len > self.spec.max_len() || end > self.meta.len {
                return Err(PeerError::Limit("length of a chunk"));
            }
        }
        Ok(end - start)
    }

    /// Takes the chunks of one group that was lacked.
    fn spell(&mut self, no: u32, lines: &[ChunkLine]) -> Result<(), PeerError> {
        let (start, len) = (self.groups[no as usize].start, self.groups[no as usize].len);
        if self.check_chunks(start, lines)? != len {
            return Err(PeerError::Unexpected("chunks that do not add up to their group"));
        }
        self.groups[no as usize].state = State::Told(lines.to_vec());
        Ok(())
    }

    /// Looks for the chunks of one group that were told; which of them old does not have.
    fn find_chunks(&mut self, no: u32, copies: &mut Copies) -> Vec<u32> {
        let before = no.checked_sub(1).map(|no| &self.groups[no as usize].state);
        if let Some(State::Matched(found)) = before {
            self.after = Some(found.end.previous());
        }
        let slot = &mut self.groups[no as usize];
        let State::Told(lines) = &slot.state else { return Vec::new() };
        let (mut start, mut needed) = (slot.start, Vec::new());
        let (mut chunks, mut in_place) = (Vec::with_capacity(lines.len()), Vec::new());
        for (nth, line) in lines.iter().enumerate() {
            let index = self.old.index();
            let kept = self.kept.chunk(start, line);
            let found = match kept {
                Some(_) => None,
                None => {
                    let found = index.find_chunk(line.brief, line.len, self.after);
                    self.compared += compared(self.after, found);
                    found
                }
            };
            let origin = match (kept, found) {
                (Some(kept), _) => {
                    in_place.push(Span::new(start, line.len));
                    Origin::Kept(kept)
                }
                (None, Some(found)) => {
                    let old = index.chunk(found).0;
                    copies.push(old, start);
                    self.matched.in_old(old.start, line.len.into());
                    self.after = Some(found);
                    Origin::Old(found)
                }
                (None, None) => {
                    needed.push(slot.first_chunk + nth as u32);
                    Origin::Needed(line.brief)
                }
            };
            chunks.push((line.len, origin));
            start += u64::from(line.len);
        }
        slot.state = State::Spelled(chunks);
        in_place.into_iter().for_each(|span| self.keep(span.start, span.len.into()));
        self.needed += needed.len() as u64;
        needed
    }

    /// The number of the group that a chunk is in; of the last one, for chunks behind all.
    fn group_of(&self, chunk: u32) -> Option<usize> {
        self.groups.partition_point(|slot| slot.first_chunk <= chunk).checked_sub(1)
    }

    /// Marks a chunk as arrived, by itself or in its gap; where it goes.
    fn receive(&mut self, chunk: u32, by: By) -> Result<Piece, PeerError> {
        const UNASKED: PeerError = PeerError::Unexpected("a chunk that was not asked for");
        if let Some(talk) = &mut self.talk {
            let span = talk.receive(chunk).filter(|_| by == By::Itself).ok_or(UNASKED)?;
            return Ok(Piece { span, brief: None });
        }
        if self.comes_in_blocks() {
            let block = u64::from(WHOLE_BLOCK_BYTES);
            let start = self.from + u64::from(chunk) * block;
            if start >= self.meta.len || self.blocks.insert(chunk, None).is_some() {
                return Err(UNASKED);
            }
            let len = block.min(self.meta.len - start) as u32;
            return Ok(Piece { span: Span::new(start, len), brief: None });
        }
        let slot = self.group_of(chunk).ok_or(UNASKED)?;
        let slot = &mut self.groups[slot];
        let State::Spelled(chunks) = &mut slot.state else { return Err(UNASKED) };
        let nth = (chunk - slot.first_chunk) as usize;
        let Some((len, origin)) = chunks.get_mut(nth) else { return Err(UNASKED) };
        let (len, brief) = match (&origin, by) {
            (Origin::Needed(brief), By::Itself) | (Origin::Gap(brief), By::Gap) => (*len, *brief),
            _ => return Err(UNASKED),
        };
        *origin = Origin::Writing(brief);
        let before: u64 = chunks[..nth].iter().map(|(len, _)| u64::from(*len)).sum();
        self.needed -= 1;
        Ok(Piece { span: Span::new(slot.start + before, len), brief: Some(brief) })
    }

    /// Notes a chunk that was written.
    fn wrote(&mut self, chunk: u32, fingerprint: Fingerprint) {
        if let Some(talk) = &mut self.talk {
            return talk.wrote(chunk, fingerprint);
        }
        if self.comes_in_blocks() {
            self.blocks.insert(chunk, Some(fingerprint));
            return;
        }
        let slot = self.group_of(chunk).expect("a chunk that was asked for has a group");
        let slot = &mut self.groups[slot];
        if let State::Spelled(chunks) = &mut slot.state {
            let (len, origin) = &mut chunks[(chunk - slot.first_chunk) as usize];
            // Where it starts is known by its group.
            *origin = Origin::New(self.came.push(0, Chunk { len: *len, fingerprint }));
        }
    }

    /// The chunk is to come in its gap; what arrived for it, if anything did, was not the chunk.
    fn needs_gap(&mut self, chunk: u32) {
        let slot = self.group_of(chunk).expect("a chunk that was asked for has a group");
        let slot = &mut self.groups[slot];
        let State::Spelled(chunks) = &mut slot.state else { return };
        let origin = &mut chunks[(chunk - slot.first_chunk) as usize].1;
        match *origin {
            Origin::Needed(brief) => *origin = Origin::Gap(brief),
            Origin::Writing(brief) => {
                *origin = Origin::Gap(brief);
                self.needed += 1;
            }
            Origin::Old(_) | Origin::Kept(_) | Origin::Gap(_) | Origin::New(_) => {}
        }
    }

    /// Where a chunk starts that was spelled out, or follows one that was.
    fn place_of(&self, chunk: u32) -> u64 {
        let slot = self.group_of(chunk).expect("a chunk that was spelled out has a group");
        let slot = &self.groups[slot];
        match &slot.state {
            State::Spelled(chunks) => {
                let before = &chunks[..(chunk - slot.first_chunk) as usize];
                slot.start + before.iter().map(|(len, _)| u64::from(*len)).sum::<u64>()
            }
            _ => slot.start,
        }
    }

    /// Whether the file comes whole and in one piece, to be put in place in one go.
    fn is_single_block(&self) -> bool {
        self.how == How::Whole && self.meta.len <= u64::from(WHOLE_BLOCK_BYTES)
    }

    /// When copies and literals may be made.
    fn turn(&self) -> Turn {
        self.talk.as_ref().map_or(Turn::Any, |talk| talk.ways.delivery_turn())
    }

    /// Whether nothing more is to come and nothing is under way.
    fn is_quiet(&self) -> bool {
        let told = !self.told.is_empty() || !self.unmatched.is_empty();
        let blocks = self.comes_in_blocks() && !self.has_all_blocks();
        let asked = told || !self.lacked.is_empty() || self.needed > 0 || blocks;
        let indexing = self.how == How::Recipe && !self.knows_old() && !self.unread;
        let talking = self.talk.as_ref().is_some_and(|talk| !talk.is_quiet());
        self.end.is_some() && !asked && !indexing && !talking && self.jobs == 0 && !self.settling
    }

    /// Whether the one in place, of `len` bytes, is the new version already.
    fn is_identical(&self, len: Option<u64>) -> bool {
        let held = self.held.as_ref().map(|held| held.iter().map(op_bytes).sum::<u64>());
        !self.comes_in_blocks() && held == Some(self.meta.len) && len == Some(self.meta.len)
    }

    /// What the file is proven by; of old it takes all that is known.
    fn proof(&mut self, digest: Digest) -> Proof {
        if let Some(talk) = &self.talk {
            return Proof { digest, of: talk.proof_of() };
        }
        let chunks = match self.how {
            How::Whole | How::Tail => ProofChunks::all(self.block_chunks()),
            _ => {
                let (kept, came) = (self.kept.give_away(), std::mem::take(&mut self.came));
                let mut chunks = ProofChunks::new(self.old.give_away(), kept, came);
                self.groups.iter().for_each(|slot| slot.prove(&mut chunks));
                chunks
            }
        };
        Proof { digest, of: ProofOf::Chunks(Box::new(chunks)) }
    }

    fn block_chunks(&self) -> Chunks {
        let block = u64::from(WHOLE_BLOCK_BYTES);
        let mut blocks: Vec<_> = self.blocks.iter().collect();
        blocks.sort_unstable_by_key(|(no, _)| **no);
        let chunk = |(no, fingerprint): (&u32, &Option<Fingerprint>)| {
            let len = block.min(self.meta.len - self.from - u64::from(*no) * block) as u32;
            Some((0, Chunk { len, fingerprint: (*fingerprint)? }))
        };
        blocks.into_iter().filter_map(chunk).collect()
    }
}

/// How far around the place of a group old must be known before it is looked for.
const AROUND_BYTES: u64 = 256 << 10;

fn op_bytes(op: &Op) -> u64 {
    match op {
        Op::Copy { old, .. } => u64::from(old.len),
        Op::Literal { new } => u64::from(new.len),
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

/// Copies as a driver makes them.
fn copy_runs(ops: &[Op]) -> Vec<CopyRun> {
    let run = |op: &Op| match *op {
        Op::Copy { old, new_start } => Some(CopyRun { old, new_start }),
        Op::Literal { .. } => None,
    };
    ops.iter().filter_map(run).collect()
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

/// How many fingerprints a look-up behind `after` compared: that of the next one, and that which the table had.
fn compared(after: Option<ChunkNo>, found: Option<ChunkNo>) -> u64 {
    let next = after.map(ChunkNo::next);
    u64::from(next.is_some()) + u64::from(found.is_some() && found != next)
}
