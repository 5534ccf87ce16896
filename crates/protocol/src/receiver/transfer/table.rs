//! The recipe of the new version as it comes: its groups, their chunks, and the source of each.

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::recipe::{Chunk, MAX_GROUP_CHUNKS};
use deltic_core::{ChunkNo, ChunkPrefix, Chunks, Fingerprint, GroupPrefix, Index, Span};

use crate::error::PeerError;
use crate::limits::{Limits, MAX_GROUPS};
use crate::message::{ChunkLine, GroupLine};
use crate::receiver::ask::Piece;

use super::keeping::Keeping;
use super::proof::{ProofChunks, Source};

/// The groups that were told so far.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) spec: ChunkerSpec,
    pub(super) limits: Limits,
    /// Length of the new version in bytes.
    pub(super) len: u64,
    pub(super) groups: Vec<Slot>,
    /// Start and first chunk of the next group.
    pub(super) next_start: u64,
    pub(super) next_chunk: u32,
    /// Chunks asked for and not received.
    pub(super) needed: u64,
    /// Chunks that came, in the order in which they were written.
    pub(super) came: Chunks,
}

/// A group of the recipe.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) start: u64,
    pub(super) first_chunk: u32,
    pub(super) chunks: u32,
    pub(super) len: u64,
    pub(super) state: State,
}

/// The source of a group.
#[derive(Debug)]
pub(super) enum State {
    /// Told; not found yet.
    Open(GroupPrefix),
    /// Found in old.
    Matched(Range<ChunkNo>),
    /// Kept in place since an interrupted transfer: these of what it left.
    Kept(Range<ChunkNo>),
    /// Missing from old: to be spelled out.
    Lacked,
    /// Spelled out, and not matched yet.
    Told(Vec<ChunkLine>),
    /// Spelled out.
    Spelled(Vec<(u32, Origin)>),
}

/// The source of a chunk's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Old(ChunkNo),
    /// Kept in place since an interrupted transfer.
    Kept(ChunkNo),
    Needed(ChunkPrefix),
    /// Part of a gap.
    Gap(ChunkPrefix),
    /// The same as a chunk before it: it is copied once that one is here.
    Repeat,
    Writing(ChunkPrefix),
    /// Received.
    New(ChunkNo),
}

/// The way on which the bytes of a chunk arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Itself,
    Gap,
}

/// Refuses a chunk that nobody asked for.
pub(super) const UNASKED: PeerError = PeerError::Unexpected("a chunk that was not asked for");

impl Slot {
    /// Adds its chunks.
    pub(super) fn prove(&self, proof: &mut ProofChunks) {
        match &self.state {
            State::Matched(range) => proof.push(Source::Old, range.clone()),
            State::Kept(range) => proof.push(Source::Kept, range.clone()),
            State::Spelled(chunks) => {
                for (_, origin) in chunks {
                    let (source, no) = match *origin {
                        Origin::Old(no) => (Source::Old, no),
                        Origin::Kept(no) => (Source::Kept, no),
                        Origin::New(no) => (Source::Came, no),
                        Origin::Needed(_)
                        | Origin::Gap(_)
                        | Origin::Repeat
                        | Origin::Writing(_) => continue,
                    };
                    proof.push(source, no..no.next());
                }
            }
            State::Open(_) | State::Lacked | State::Told(_) => {}
        }
    }
}

impl Table {
    /// No group of a new version of `len` bytes.
    pub(super) fn new(spec: ChunkerSpec, len: u64, limits: Limits) -> Self {
        let (groups, came) = (Vec::new(), Chunks::default());
        Self { spec, limits, len, groups, next_start: 0, next_chunk: 0, needed: 0, came }
    }

    /// Number of groups.
    pub(super) const fn count(&self) -> u32 {
        self.groups.len() as u32
    }

    /// True once all of the new version was told.
    pub(super) const fn is_told(&self) -> bool {
        self.next_start == self.len
    }

    /// Adds the next group; the groups and chunks add up.
    pub(super) fn push(&mut self, chunks: u32, len: u64, state: State) {
        let (start, first_chunk) = (self.next_start, self.next_chunk);
        self.groups.push(Slot { start, first_chunk, chunks, len, state });
        self.next_start += len;
        self.next_chunk += chunks;
    }

    /// Refuses a line that cannot be the next group.
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

    /// Checks that these chunks may begin at `start`; their length in bytes.
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

    /// Name and length in bytes of a group that was told, and that another file may have. Chunks that end nowhere are
    /// mostly zeros, which do not travel: nobody need wait for them.
    pub(super) fn shareable(&self, no: u32) -> Option<(GroupPrefix, u64)> {
        let Slot { chunks, len, state, .. } = &self.groups[no as usize];
        let State::Open(name) = *state else { return None };
        (*len < u64::from(*chunks) * u64::from(self.spec.max_len())).then_some((name, *len))
    }

    /// Takes the chunks of one group that was lacked.
    pub(super) fn spell(&mut self, no: u32, lines: &[ChunkLine]) -> Result<(), PeerError> {
        let (start, len) = (self.groups[no as usize].start, self.groups[no as usize].len);
        if self.check_chunks(start, lines)? != len {
            return Err(PeerError::Unexpected("chunks that do not add up to their group"));
        }
        self.groups[no as usize].state = State::Told(lines.to_vec());
        Ok(())
    }

    /// The number of the group that a chunk is in; of the last one, for chunks behind all.
    pub(super) fn group_of(&self, chunk: u32) -> Option<usize> {
        self.groups.partition_point(|slot| slot.first_chunk <= chunk).checked_sub(1)
    }

    /// Marks a chunk as arrived, by itself or in its gap; its place.
    pub(super) fn receive(&mut self, chunk: u32, by: By) -> Result<Piece, PeerError> {
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
    pub(super) fn wrote(&mut self, chunk: u32, fingerprint: Fingerprint) {
        let slot = self.group_of(chunk).expect("a chunk that was asked for has a group");
        let slot = &mut self.groups[slot];
        if let State::Spelled(chunks) = &mut slot.state {
            let (len, origin) = &mut chunks[(chunk - slot.first_chunk) as usize];
            // Where it starts is known by its group.
            *origin = Origin::New(self.came.push(0, Chunk { len: *len, fingerprint }));
        }
    }

    /// Leaves a chunk to its gap; what arrived for it, if anything did, was not the chunk.
    pub(super) fn needs_gap(&mut self, chunk: u32) {
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
            Origin::Old(_) | Origin::Kept(_) | Origin::Gap(_) | Origin::Repeat | Origin::New(_) => {
            }
        }
    }

    /// Takes a chunk for what one before it is, which came: the place of that one, and where it comes again.
    pub(super) fn repeat(&mut self, chunk: u32, of: u32) -> (Span, u64) {
        let (from, start) = (self.place_of(of), self.place_of(chunk));
        let came = *self.spelled(of);
        *self.spelled(chunk) = came;
        (Span::new(from, came.0), start)
    }

    /// Length in bytes and origin of a chunk that was spelled out.
    fn spelled(&mut self, chunk: u32) -> &mut (u32, Origin) {
        let slot = self.group_of(chunk).expect("a chunk that was spelled out has a group");
        let slot = &mut self.groups[slot];
        match &mut slot.state {
            State::Spelled(chunks) => &mut chunks[(chunk - slot.first_chunk) as usize],
            state => unreachable!("chunk {chunk} was not spelled out: {state:?}"),
        }
    }

    /// Start of a chunk that was spelled out, or follows one that was.
    pub(super) fn place_of(&self, chunk: u32) -> u64 {
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

    /// The bytes of these chunks in new.
    pub(super) fn bytes_of(&self, chunks: &Range<u32>) -> Range<u64> {
        self.place_of(chunks.start)..self.place_of(chunks.end)
    }

    /// The place of this chunk in old, if it was found there.
    pub(super) fn found_in_old(&self, chunk: u32, kept: &Keeping, index: &Index) -> Option<Span> {
        let slot = &self.groups[self.group_of(chunk)?];
        let nth = chunk - slot.first_chunk;
        let no: ChunkNo = match &slot.state {
            State::Matched(range) => range.start.plus(nth),
            State::Kept(range) => kept.in_old(range.start.plus(nth), index)?,
            State::Spelled(chunks) => match chunks.get(nth as usize)?.1 {
                Origin::Old(no) => no,
                Origin::Kept(no) => kept.in_old(no, index)?,
                _ => return None,
            },
            State::Open(_) | State::Lacked | State::Told(_) => return None,
        };
        Some(index.chunk(no).0)
    }
}
