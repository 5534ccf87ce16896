//! The receiver's index of the old version: chunks and groups, found by the fingerprint prefixes that are sent.
//!
//! Other people choose the content, so the index resists three attacks (SECURITY.md):
//!
//! - Look-ups of [`Index`] never walk a chain of equal chunks: only the first of equal chunks is in the table.
//!   Callers of [`TagTable`] bound the walk.
//! - Nobody can aim at one slot of the table: its hash has a random key.
//! - Memory is bounded by a budget.
//!
//! A prefix finds candidates and proves nothing; the digest proves the result. The chunk after the last match
//! is tried first: runs of copies stay long, and files of equal chunks need no table look-up.

mod cuckoo;
mod published;
mod table;
mod tags;

pub use crate::chunks::ChunkNo;
pub use cuckoo::{CuckooIndex, FillLevel, SumBits};
pub use published::{Entry1, Entry2, PublishedTable, TableEntry};
pub use tags::TagTable;

use std::ops::Range;

use crate::chunks::Chunks;
use crate::fingerprint::{ChunkPrefix, Fingerprint, GroupPrefix, PrefixLen};
use crate::recipe::{Chunk, Group, Grouper};
use crate::span::Span;
use table::KeyTable;

/// Index of the chunks and groups of old versions.
#[derive(Debug)]
pub struct Index {
    budget: usize,
    dropped: u64,
    chunks: Chunks,
    chunk_table: KeyTable,
    grouper: Grouper,
    groups: Vec<OldGroup>,
    group_table: KeyTable,
}

/// A group of an old version. Groups are in the order of their chunks, which do not overlap.
#[derive(Clone, Copy, Debug)]
struct OldGroup {
    first: ChunkNo,
    group: Group,
    /// True if content or size ended the group, and not the end of its file.
    ends: bool,
}

impl OldGroup {
    fn prefix(&self) -> GroupPrefix {
        self.group.fingerprint.group_prefix()
    }

    fn chunks(&self) -> Range<ChunkNo> {
        self.first..self.first.plus(self.group.chunks)
    }
}

impl Index {
    /// An empty index of at most `budget` chunks, about 60 bytes each.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            budget: budget.min(MAX_BUDGET),
            dropped: 0,
            chunks: Chunks::default(),
            chunk_table: KeyTable::default(),
            grouper: Grouper::new(),
            groups: Vec::new(),
            group_table: KeyTable::default(),
        }
    }

    /// An index of the first `budget` of these old `chunks`.
    #[must_use]
    pub fn from_chunks(chunks: Chunks, budget: usize) -> Self {
        let mut index = Self { chunks, ..Self::new(budget) };
        index.reserve(0);
        for no in (0..index.len() as u32).map(ChunkNo) {
            let (Span { len, .. }, fingerprint) = index.chunk(no);
            index.insert(no, &Chunk { len, fingerprint });
        }
        index
    }

    /// Reserves memory for about `chunks` more chunks, at most up to the budget.
    pub fn reserve(&mut self, chunks: usize) {
        let chunks = chunks.min(self.budget.saturating_sub(self.len()));
        self.chunks.reserve(chunks);
        let all = self.len() + chunks;
        self.chunk_table.reserve(all, |n| chunk_key(&self.chunks, n));
    }

    /// Adds the next old chunk, which starts at byte `start`. Beyond the budget, chunks are counted but not
    /// stored.
    pub fn push(&mut self, start: u64, chunk: Chunk) {
        if self.len() >= self.budget {
            self.dropped += 1;
            return;
        }
        let no = self.chunks.push(start, chunk);
        self.insert(no, &chunk);
    }

    /// Inserts a stored chunk in the tables.
    fn insert(&mut self, no: ChunkNo, chunk: &Chunk) {
        self.chunk_table.insert(no.0, |n| chunk_key(&self.chunks, n));
        if let Some(group) = self.grouper.push(chunk) {
            self.push_group(group, no.next(), true);
        }
    }

    /// Marks the end of an old file. A group never spans two files.
    pub fn end_part(&mut self) {
        if let Some(group) = self.grouper.finish() {
            self.push_group(group, self.end_number(), false);
        }
    }

    /// Adds a group that ends before chunk `end`.
    fn push_group(&mut self, group: Group, end: ChunkNo, ends: bool) {
        let first = ChunkNo(end.0 - group.chunks);
        self.groups.push(OldGroup { first, group, ends });
        let key = |n: u32| group_key(self.groups[n as usize].prefix());
        self.group_table.insert(self.groups.len() as u32 - 1, key);
    }

    /// Finds a chunk of `len` bytes with a fingerprint that begins with `prefix`. Tries the chunk right after `after`
    /// first, then the first chunk in the table. Of chunks that agree in the first [`PrefixLen::MIN`] bytes,
    /// only the first is in the table.
    #[must_use]
    pub fn find_chunk(
        &self,
        prefix: ChunkPrefix,
        len: u32,
        after: Option<ChunkNo>,
    ) -> Option<ChunkNo> {
        let matches = |no: ChunkNo| {
            self.chunks
                .first_half_of_fingerprint(no)
                .is_some_and(|head| head.starts_with(prefix.as_bytes()))
                && self.chunks.span(no).is_some_and(|span| span.len == len)
        };
        let neighbour = after.map(ChunkNo::next).filter(|no| matches(*no));
        neighbour.or_else(|| {
            let key = |n| chunk_key(&self.chunks, n);
            let first = self.chunk_table.find(key_of(prefix.as_bytes()), key);
            first.map(ChunkNo).filter(|no| matches(*no))
        })
    }

    /// Finds the chunks of a group by fingerprint prefix, length in bytes and number of chunks. Tries the group
    /// that starts right after `after` first, then the first such group.
    #[must_use]
    pub fn find_group(
        &self,
        prefix: GroupPrefix,
        len: u64,
        chunks: u32,
        after: Option<ChunkNo>,
    ) -> Option<Range<ChunkNo>> {
        let matches = |known: &&OldGroup| {
            known.prefix() == prefix && known.group.len == len && known.group.chunks == chunks
        };
        let neighbour = after.and_then(|no| self.group_from(no.next())).filter(matches);
        let found = neighbour.or_else(|| {
            let key = |n: u32| group_key(self.groups[n as usize].prefix());
            let first = self.group_table.find(group_key(prefix), key)?;
            Some(&self.groups[first as usize]).filter(matches)
        });
        found.map(OldGroup::chunks)
    }

    /// The group that a [`Grouper`] at the start of a group would find first in `range`, and the chunks after
    /// the group. `None` if the index does not know; then the caller must examine the chunks.
    #[must_use]
    pub fn first_group(&self, range: Range<ChunkNo>) -> Option<(Group, Range<ChunkNo>)> {
        let known = self.group_from(range.start)?;
        let end = known.chunks().end;
        (known.ends && end <= range.end).then_some((known.group, end..range.end))
    }

    fn group_from(&self, first: ChunkNo) -> Option<&OldGroup> {
        let at = self.groups.binary_search_by_key(&first, |known| known.first).ok()?;
        self.groups.get(at)
    }

    /// The byte offset in the old version up to which all groups are known.
    #[must_use]
    pub fn groups_end(&self) -> u64 {
        let last = self.groups.last();
        last.map_or(0, |known| self.chunk(known.first).0.start + known.group.len)
    }

    /// The byte range of chunk `no` in the old version, and its full fingerprint.
    ///
    /// # Panics
    /// If this index did not return `no`.
    #[must_use]
    pub fn chunk(&self, no: ChunkNo) -> (Span, Fingerprint) {
        self.chunks.get(no).expect("the index returned this number")
    }

    /// The stored chunks.
    #[must_use]
    pub const fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// The chunks that lie entirely in `old`, in order.
    pub fn chunks_in(&self, old: Span) -> impl Iterator<Item = (Span, Fingerprint)> {
        let chunks = self.chunks.range(self.chunks.first_from(old.start)..self.end_number());
        chunks.take_while(move |(span, _)| span.end() <= old.end())
    }

    /// The number after the last chunk.
    fn end_number(&self) -> ChunkNo {
        ChunkNo(self.len() as u32)
    }

    /// Number of stored chunks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.chunks.len()
    }

    /// True if no chunk is stored.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Number of chunks beyond the budget, which are not stored.
    #[must_use]
    pub const fn dropped_count(&self) -> u64 {
        self.dropped
    }
}

/// The table key of a chunk.
fn chunk_key(chunks: &Chunks, no: u32) -> u64 {
    chunks.first_half_of_fingerprint(ChunkNo(no)).map_or(0, |head| key_of(head))
}

/// The table key of all fingerprints that begin with `bytes`. Uses [`PrefixLen::MIN`] bytes, which are always
/// sent.
fn key_of(bytes: &[u8]) -> u64 {
    let mut key = [0; size_of::<u64>()];
    key[..PrefixLen::MIN.get()].copy_from_slice(&bytes[..PrefixLen::MIN.get()]);
    u64::from_le_bytes(key)
}

const fn group_key(prefix: GroupPrefix) -> u64 {
    u64::from_le_bytes(*prefix.as_bytes())
}

/// Chunk numbers, and the number after the last, fit in 32 bits. So do table slots in a 32-bit address space.
const MAX_BUDGET: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: u32) -> Chunk {
        Chunk { len: 1000, fingerprint: Fingerprint::of(&name.to_le_bytes()) }
    }

    #[test]
    fn a_match_right_after_the_last_one_wins() {
        let mut index = Index::new(100);
        for (n, name) in [1, 2, 1, 3].into_iter().enumerate() {
            index.push(n as u64 * 1000, chunk(name));
        }
        let prefix = chunk(1).fingerprint.chunk_prefix(PrefixLen::MIN);
        let first = index.find_chunk(prefix, 1000, None).unwrap();
        assert_eq!(index.chunk(first).0, Span::new(0, 1000));
        let second = index.find_chunk(prefix, 1000, Some(first.next())).unwrap();
        assert_eq!(index.chunk(second).0, Span::new(2000, 1000));
        assert_eq!(index.find_chunk(prefix, 1000, Some(second.next())), Some(first));
        assert_eq!(index.find_chunk(prefix, 999, None), None);
    }

    #[test]
    fn chunks_in_returns_chunks_entirely_inside_the_span() {
        let mut index = Index::new(100);
        (0..5).for_each(|name| index.push(u64::from(name) * 1000, chunk(name)));
        let starts = |start, len| {
            let chunks = index.chunks_in(Span::new(start, len));
            chunks.map(|(span, _)| span.start).collect::<Vec<_>>()
        };
        assert_eq!(starts(1000, 2000), [1000, 2000]);
        assert_eq!(starts(999, 2002), [1000, 2000]);
        assert_eq!(starts(1001, 1999), [2000]);
        assert_eq!(starts(4000, 5000), [4000]);
        assert_eq!(starts(5000, 1), []);
    }

    #[test]
    fn a_group_never_spans_two_old_files() {
        let names: Vec<u32> = (0..40).collect();
        let mut index = Index::new(1000);
        for _ in 0..2 {
            for name in &names {
                index.push(0, chunk(*name));
            }
            index.end_part();
        }
        let mut grouper = Grouper::new();
        let mut groups: Vec<Group> =
            names.iter().filter_map(|n| grouper.push(&chunk(*n))).collect();
        groups.extend(grouper.finish());
        assert!(groups.len() > 1);
        let mut after = None;
        for part in 0..2 {
            let mut next = part * 40;
            for group in &groups {
                let prefix = group.fingerprint.group_prefix();
                let found = index.find_group(prefix, group.len, group.chunks, after).unwrap();
                assert_eq!(found.start, ChunkNo(next), "{part}");
                assert_eq!(index.chunks().range(found.clone()).count(), group.chunks as usize);
                next = found.end.0;
                after = Some(ChunkNo(next - 1));
            }
        }
    }

    #[test]
    fn chunks_over_budget_are_counted_and_not_found() {
        let mut index = Index::new(2);
        for name in 0..5 {
            index.push(0, chunk(name));
        }
        index.end_part();
        assert_eq!((index.len(), index.dropped_count()), (2, 3));
        assert!(
            index
                .find_chunk(chunk(1).fingerprint.chunk_prefix(PrefixLen::MAX), 1000, None)
                .is_some()
        );
        assert!(
            index
                .find_chunk(chunk(2).fingerprint.chunk_prefix(PrefixLen::MAX), 1000, None)
                .is_none()
        );
    }
}
