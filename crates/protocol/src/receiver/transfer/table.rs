//! The recipe of the new version as received so far: groups, chunks, and the source of each. A group is *told* once
//! the sender sent its line, and *spelled out* once the sender listed its chunks.

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::recipe::{Chunk, MAX_GROUP_CHUNKS};
use deltic_core::{ChunkNo, ChunkPrefix, Chunks, Fingerprint, GroupPrefix, Index, Span};

use crate::error::PeerError;
use crate::limits::{Limits, MAX_GROUPS};
use crate::message::{ChunkLine, GroupLine};
use crate::receiver::ask::PayloadChunk;

use super::keeping::KeptChunks;
use super::proof::{ProofChunks, ProofSource};

/// The groups told so far.
#[derive(Debug)]
pub(super) struct GroupTable {
    pub(super) spec: ChunkerSpec,
    pub(super) limits: Limits,
    /// Length of the new version in bytes.
    pub(super) len: u64,
    pub(super) groups: Vec<GroupSlot>,
    /// Offset of the next group, followed by the number of the group's first chunk.
    pub(super) next_start: u64,
    pub(super) next_chunk: u32,
    /// Number of chunks requested and not received.
    pub(super) needed: u64,
    /// Received chunks, in the order in which they were written.
    pub(super) received: Chunks,
}

/// A group of the recipe.
#[derive(Debug)]
pub(super) struct GroupSlot {
    pub(super) start: u64,
    pub(super) first_chunk: u32,
    pub(super) chunks: u32,
    pub(super) len: u64,
    pub(super) state: GroupState,
}

/// The source of a group.
#[derive(Debug)]
pub(super) enum GroupState {
    /// Told, and not found yet.
    Open(GroupPrefix),
    /// Found in an old version.
    Matched(Range<ChunkNo>),
    /// Kept in place since an interrupted transfer; holds the kept chunks.
    Kept(Range<ChunkNo>),
    /// Missing from the old versions; the sender must spell the group out.
    Lacked,
    /// Spelled out, and not matched yet.
    Told(Vec<ChunkLine>),
    /// Spelled out and matched.
    Spelled(Vec<(u32, ChunkOrigin)>),
}

/// The source of a chunk's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChunkOrigin {
    Old(ChunkNo),
    /// Kept in place since an interrupted transfer.
    Kept(ChunkNo),
    Needed(ChunkPrefix),
    /// Part of a gap.
    Gap(ChunkPrefix),
    /// Equal to an earlier chunk, to be copied once that chunk has arrived.
    Repeat,
    Writing(ChunkPrefix),
    /// Received.
    New(ChunkNo),
}

/// The form in which the bytes of a chunk arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalForm {
    Itself,
    Gap,
}

/// The error for a chunk that was not requested.
pub(super) const UNASKED: PeerError = PeerError::Unexpected("a chunk that was not requested");

impl GroupSlot {
    /// Adds the chunks of the group to a proof.
    pub(super) fn add_to_proof(&self, proof: &mut ProofChunks) {
        match &self.state {
            GroupState::Matched(range) => proof.push(ProofSource::Old, range.clone()),
            GroupState::Kept(range) => proof.push(ProofSource::Kept, range.clone()),
            GroupState::Spelled(chunks) => {
                for (_, origin) in chunks {
                    let (source, no) = match *origin {
                        ChunkOrigin::Old(no) => (ProofSource::Old, no),
                        ChunkOrigin::Kept(no) => (ProofSource::Kept, no),
                        ChunkOrigin::New(no) => (ProofSource::Received, no),
                        ChunkOrigin::Needed(_)
                        | ChunkOrigin::Gap(_)
                        | ChunkOrigin::Repeat
                        | ChunkOrigin::Writing(_) => continue,
                    };
                    proof.push(source, no..no.next());
                }
            }
            GroupState::Open(_) | GroupState::Lacked | GroupState::Told(_) => {}
        }
    }
}

impl GroupTable {
    /// Creates a table without groups for a new version of `len` bytes.
    pub(super) fn new(spec: ChunkerSpec, len: u64, limits: Limits) -> Self {
        let (groups, received) = (Vec::new(), Chunks::default());
        Self { spec, limits, len, groups, next_start: 0, next_chunk: 0, needed: 0, received }
    }

    /// Number of groups.
    pub(super) const fn group_count(&self) -> u32 {
        self.groups.len() as u32
    }

    /// True once the whole new version was told.
    pub(super) const fn covers_file(&self) -> bool {
        self.next_start == self.len
    }

    /// Adds the next group. The caller has checked its lengths.
    pub(super) fn push_group(&mut self, chunks: u32, len: u64, state: GroupState) {
        let (start, first_chunk) = (self.next_start, self.next_chunk);
        self.groups.push(GroupSlot { start, first_chunk, chunks, len, state });
        self.next_start += len;
        self.next_chunk += chunks;
    }

    /// Checks that a line can be the next group. Errors: `Limit`.
    pub(super) fn check_group(&self, line: &GroupLine) -> Result<(), PeerError> {
        let most = u64::from(line.chunks) * u64::from(self.spec.max_len());
        let fits = line.len <= self.len - self.next_start;
        if line.len == 0 || line.chunks == 0 || line.chunks > MAX_GROUP_CHUNKS {
            return Err(PeerError::Limit("chunks in a group"));
        }
        let least = u64::from(line.chunks - 1) * u64::from(self.spec.min_len());
        if !fits || line.len <= least || line.len > most || self.groups.len() >= MAX_GROUPS {
            return Err(PeerError::Limit("length of a group"));
        }
        Ok(())
    }

    /// Checks that these chunks may begin at `start`, and returns their length in bytes. Errors: `Limit`.
    pub(super) fn check_chunks(&self, start: u64, lines: &[ChunkLine]) -> Result<u64, PeerError> {
        let mut end = start;
        for line in lines {
            end += u64::from(line.len);
            let least = if end == self.len { 1 } else { self.spec.min_len() };
            if line.len < least || line.len > self.spec.max_len() || end > self.len {
                return Err(PeerError::Limit("length of a chunk"));
            }
        }
        Ok(end - start)
    }

    /// Returns fingerprint prefix and length in bytes of a group that the sender told and that no old version has:
    /// another file of the run may have the group, so this file may wait for that file. Returns `None` if all chunks
    /// of the group have the maximum length: such groups are mostly zeros, and zeros are not sent.
    pub(super) fn shareable_group(&self, no: u32) -> Option<(GroupPrefix, u64)> {
        let GroupSlot { chunks, len, state, .. } = &self.groups[no as usize];
        let GroupState::Open(name) = *state else { return None };
        (*len < u64::from(*chunks) * u64::from(self.spec.max_len())).then_some((name, *len))
    }

    /// Takes the chunks of a group that was lacked.
    pub(super) fn expand_group(&mut self, no: u32, lines: &[ChunkLine]) -> Result<(), PeerError> {
        let (start, len) = (self.groups[no as usize].start, self.groups[no as usize].len);
        if self.check_chunks(start, lines)? != len {
            return Err(PeerError::Unexpected(
                "chunks whose lengths do not add up to the length of the group",
            ));
        }
        self.groups[no as usize].state = GroupState::Told(lines.to_vec());
        Ok(())
    }

    /// Returns the number of the group that holds a chunk, or of the last group for a chunk after all groups.
    pub(super) fn group_of(&self, chunk: u32) -> Option<usize> {
        self.groups.partition_point(|slot| slot.first_chunk <= chunk).checked_sub(1)
    }

    /// Marks a chunk as received, by itself or in a gap, and returns the chunk's place. Errors: `UNASKED`.
    pub(super) fn mark_received(
        &mut self,
        chunk: u32,
        by: ArrivalForm,
    ) -> Result<PayloadChunk, PeerError> {
        let slot = self.group_of(chunk).ok_or(UNASKED)?;
        let slot = &mut self.groups[slot];
        let GroupState::Spelled(chunks) = &mut slot.state else { return Err(UNASKED) };
        let nth = (chunk - slot.first_chunk) as usize;
        let Some((len, origin)) = chunks.get_mut(nth) else { return Err(UNASKED) };
        let (len, brief) = match (&origin, by) {
            (ChunkOrigin::Needed(brief), ArrivalForm::Itself)
            | (ChunkOrigin::Gap(brief), ArrivalForm::Gap) => (*len, *brief),
            _ => return Err(UNASKED),
        };
        *origin = ChunkOrigin::Writing(brief);
        let before: u64 = chunks[..nth].iter().map(|(len, _)| u64::from(*len)).sum();
        self.needed -= 1;
        Ok(PayloadChunk { span: Span::new(slot.start + before, len), brief: Some(brief) })
    }

    /// Notes a chunk that was written.
    pub(super) fn note_written(&mut self, chunk: u32, fingerprint: Fingerprint) {
        let slot = self.group_of(chunk).expect("a chunk that was asked for has a group");
        let slot = &mut self.groups[slot];
        if let GroupState::Spelled(chunks) = &mut slot.state {
            let (len, origin) = &mut chunks[(chunk - slot.first_chunk) as usize];
            // The offset of the chunk is known from its group.
            *origin = ChunkOrigin::New(self.received.push(0, Chunk { len: *len, fingerprint }));
        }
    }

    /// Assigns a chunk to a gap. Any bytes that arrived for this chunk before were wrong.
    pub(super) fn assign_to_gap(&mut self, chunk: u32) {
        let slot = self.group_of(chunk).expect("a chunk that was asked for has a group");
        let slot = &mut self.groups[slot];
        let GroupState::Spelled(chunks) = &mut slot.state else { return };
        let origin = &mut chunks[(chunk - slot.first_chunk) as usize].1;
        match *origin {
            ChunkOrigin::Needed(brief) => *origin = ChunkOrigin::Gap(brief),
            ChunkOrigin::Writing(brief) => {
                *origin = ChunkOrigin::Gap(brief);
                self.needed += 1;
            }
            ChunkOrigin::Old(_)
            | ChunkOrigin::Kept(_)
            | ChunkOrigin::Gap(_)
            | ChunkOrigin::Repeat
            | ChunkOrigin::New(_) => {}
        }
    }

    /// Takes a chunk as a copy of the earlier chunk `of`; returns the place of that chunk, and the offset of the
    /// copy.
    pub(super) fn copy_of_earlier(&mut self, chunk: u32, of: u32) -> (Span, u64) {
        let (from, start) = (self.chunk_start(of), self.chunk_start(chunk));
        let earlier = *self.expanded_chunk(of);
        *self.expanded_chunk(chunk) = earlier;
        (Span::new(from, earlier.0), start)
    }

    /// Length in bytes and origin of a chunk that was spelled out.
    fn expanded_chunk(&mut self, chunk: u32) -> &mut (u32, ChunkOrigin) {
        let slot = self.group_of(chunk).expect("a chunk that was spelled out has a group");
        let slot = &mut self.groups[slot];
        match &mut slot.state {
            GroupState::Spelled(chunks) => &mut chunks[(chunk - slot.first_chunk) as usize],
            state => unreachable!("chunk {chunk} was not spelled out: {state:?}"),
        }
    }

    /// Offset of a chunk that was spelled out, or follows such a chunk.
    pub(super) fn chunk_start(&self, chunk: u32) -> u64 {
        let slot = self.group_of(chunk).expect("a chunk that was spelled out has a group");
        let slot = &self.groups[slot];
        match &slot.state {
            GroupState::Spelled(chunks) => {
                let before = &chunks[..(chunk - slot.first_chunk) as usize];
                slot.start + before.iter().map(|(len, _)| u64::from(*len)).sum::<u64>()
            }
            _ => slot.start,
        }
    }

    /// Returns the range of these chunks' bytes in the new version.
    pub(super) fn bytes_of(&self, chunks: &Range<u32>) -> Range<u64> {
        self.chunk_start(chunks.start)..self.chunk_start(chunks.end)
    }

    /// Returns the place of this chunk in the old versions, if it was found there.
    pub(super) fn found_in_old(
        &self,
        chunk: u32,
        kept: &KeptChunks,
        index: &Index,
    ) -> Option<Span> {
        let slot = &self.groups[self.group_of(chunk)?];
        let nth = chunk - slot.first_chunk;
        let no: ChunkNo = match &slot.state {
            GroupState::Matched(range) => range.start.plus(nth),
            GroupState::Kept(range) => kept.equal_old_chunk(range.start.plus(nth), index)?,
            GroupState::Spelled(chunks) => match chunks.get(nth as usize)?.1 {
                ChunkOrigin::Old(no) => no,
                ChunkOrigin::Kept(no) => kept.equal_old_chunk(no, index)?,
                _ => return None,
            },
            GroupState::Open(_) | GroupState::Lacked | GroupState::Told(_) => return None,
        };
        Some(index.chunk(no).0)
    }
}
