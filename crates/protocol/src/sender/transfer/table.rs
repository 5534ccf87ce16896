//! Known chunks of a file's new version, and the chunks that the receiver needs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::Span;
use deltic_core::recipe::{Chunk, Group};

use crate::limits::Limits;
use crate::work::WorkTurn;

use super::super::ask::{FileWork, SenderWork, Sums};
use super::super::context::Context;
use super::super::pending::SenderPending;
use super::attempt::SendAttempt;

/// Chunks in order, and the positions of some chunks, which are called *marked*.
#[derive(Debug, Default)]
pub(crate) struct ChunkTable {
    /// Shared with the sealing work at the end.
    chunks: Arc<Vec<Chunk>>,
    /// Positions of marked chunks: the first chunk of each group.
    marks: Vec<ChunkMark>,
    /// Position after the last marked group.
    end: ChunkMark,
}

/// Position of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct ChunkMark {
    start: u64,
    chunk: u32,
}

impl ChunkTable {
    pub(crate) fn of(chunks: Arc<Vec<Chunk>>) -> Self {
        Self { chunks, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn shared_chunks(&self) -> Arc<Vec<Chunk>> {
        Arc::clone(&self.chunks)
    }

    pub(crate) fn extend(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        let own = Arc::get_mut(&mut self.chunks);
        own.expect("only sealing shares the chunks").extend(chunks);
    }

    /// Marks the next position.
    pub(crate) fn mark_position(&mut self) {
        self.marks.push(self.end);
    }

    /// Moves the next position forward by this number of bytes and chunks.
    pub(crate) const fn advance(&mut self, bytes: u64, chunks: u32) {
        self.end.start += bytes;
        self.end.chunk += chunks;
    }

    /// Marks the starts of new groups. Returns the numbers of these groups.
    pub(crate) fn mark_groups(&mut self, groups: &[Group]) -> Range<u32> {
        let first = self.marks.len() as u32;
        for group in groups {
            self.mark_position();
            self.advance(group.len, group.chunks);
        }
        first..self.marks.len() as u32
    }

    /// Returns the number of marked groups or positions.
    pub(crate) fn mark_count(&self) -> usize {
        self.marks.len()
    }

    /// True if all chunks of the range lie before the next position.
    pub(crate) const fn has_passed(&self, chunks: &Range<u32>) -> bool {
        chunks.end <= self.end.chunk
    }

    /// Returns the chunks of a range of groups.
    pub(crate) fn chunks_of(&self, groups: &Range<u32>) -> Range<u32> {
        let first = |group: u32| match self.marks.get(group as usize) {
            Some(mark) => mark.chunk,
            None => self.end.chunk,
        };
        first(groups.start)..first(groups.end)
    }

    pub(crate) fn slice(&self, chunks: &Range<u32>) -> &[Chunk] {
        &self.chunks[chunks.start as usize..chunks.end as usize]
    }

    /// Returns the spans of a range of chunks.
    pub(crate) fn spans(&self, chunks: &Range<u32>) -> impl Iterator<Item = Span> + '_ {
        let mark = self.marks.partition_point(|mark| mark.chunk <= chunks.start) - 1;
        let ChunkMark { start, chunk } = self.marks[mark];
        let mut at = start + self.bytes_of(&(chunk..chunks.start));
        self.slice(chunks).iter().map(move |chunk| {
            let span = Span::new(at, chunk.len);
            at = span.end();
            span
        })
    }

    pub(crate) fn bytes_of(&self, chunks: &Range<u32>) -> u64 {
        self.slice(chunks).iter().map(|chunk| u64::from(chunk.len)).sum()
    }
}

/// Chunks that are to be sent.
#[derive(Debug)]
pub(crate) struct NeededChunks {
    /// Order of the reads: in the order of the file, or any.
    turn: WorkTurn,
    ranges: VecDeque<Range<u32>>,
    bytes: u64,
}

impl NeededChunks {
    pub(crate) const fn new(turn: WorkTurn) -> Self {
        Self { turn, ranges: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, table: &ChunkTable, chunks: &[Range<u32>]) {
        self.bytes += chunks.iter().map(|range| table.bytes_of(range)).sum::<u64>();
        self.ranges.extend(chunks.iter().cloned());
    }

    /// Reads full fills, and a last smaller fill if nothing more can be requested.
    pub(crate) fn read_fills(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        table: &ChunkTable,
        nothing_follows: bool,
    ) {
        let (sums, handle) = (Sums::Known, attempt.handle);
        if self.turn == WorkTurn::Own && !self.ranges.iter().is_sorted_by_key(|range| range.start) {
            self.ranges.make_contiguous().sort_unstable_by_key(|range| range.start);
        }
        while self.bytes >= cx.limits.fill_bytes() || nothing_follows && self.bytes > 0 {
            let (chunks, bytes) = self.take_fill(table, &cx.limits);
            let spans = chunks.iter().flat_map(|chunks| table.spans(chunks)).collect();
            let work = SenderWork::File(FileWork::Read { handle, spans, sums });
            cx.jobs.request_in_turn(self.turn, work, SenderPending::Read { handle, chunks, bytes });
        }
    }

    /// Takes chunks for up to one fill.
    fn take_fill(&mut self, table: &ChunkTable, limits: &Limits) -> (Vec<Range<u32>>, u64) {
        let (mut taken, mut bytes, mut is_full) = (Vec::new(), 0, false);
        while let Some(mut range) = self.ranges.pop_front_if(|_| !is_full) {
            let mut end = range.start;
            while end < range.end && !is_full {
                let len = u64::from(table.chunks[end as usize].len);
                is_full = bytes > 0 && !limits.fits_frame(bytes + len, taken.len() + 1);
                if !is_full {
                    (bytes, end) = (bytes + len, end + 1);
                    is_full = bytes >= limits.fill_bytes();
                }
            }
            taken.extend((end > range.start).then_some(range.start..end));
            range.start = end;
            if !range.is_empty() {
                self.ranges.push_front(range);
            }
            is_full |= taken.len() == limits.max_items();
        }
        self.bytes -= bytes;
        (taken, bytes)
    }
}
