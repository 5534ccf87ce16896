//! The receiver's index of old: its chunks and groups, found by the part of their fingerprints that travels.
//!
//! Content is chosen by others, so three things are made impossible (RELIABILITY §3.2): look-ups never walk a chain of
//! equal chunks (only the first of them is in the table), nobody can aim at slots of the table (its hash has a random
//! key), and memory has a bound (the budget). A short fingerprint finds bytes and proves nothing; the digest does.
//!
//! A match is looked for right after the last one first: runs of copies stay long, and files of equal chunks cost no
//! table look-up (locality, DESIGN §6).

mod cuckoo;
mod table;

pub use cuckoo::{Cuckoo, Load, SumBits};

use std::ops::Range;

use crate::fingerprint::{BriefFingerprint, BriefLen, Fingerprint, ShortFingerprint};
use crate::recipe::{Chunk, Group, Grouper};
use crate::span::Span;
use table::Table;

/// A chunk of an [`Index`], numbered in the order of [`Index::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkNo(u32);

impl ChunkNo {
    /// The number after this one, whether or not there is such a chunk.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number `count` after this one, whether or not there is such a chunk.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The number before this one; that of the first is itself.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The number itself, from 0.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The chunks and groups of old.
#[derive(Debug)]
pub struct Index {
    budget: usize,
    dropped: u64,
    starts: Vec<u64>,
    lens: Vec<u32>,
    fingerprints: Vec<Fingerprint>,
    chunk_table: Table,
    grouper: Grouper,
    groups: Vec<KnownGroup>,
    group_table: Table,
}

/// A group of old. Groups are in the order of their chunks, which do not overlap.
#[derive(Clone, Copy, Debug)]
struct KnownGroup {
    first: ChunkNo,
    group: Group,
    /// True if it would end there whatever follows: not cut short by the end of its file.
    ends: bool,
}

impl KnownGroup {
    fn short(&self) -> ShortFingerprint {
        self.group.fingerprint.short()
    }

    fn chunks(&self) -> Range<ChunkNo> {
        self.first..self.first.plus(self.group.chunks)
    }
}

impl Index {
    /// An empty index that keeps at most `budget` chunks, about 60 bytes each.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            budget: budget.min(MAX_BUDGET),
            dropped: 0,
            starts: Vec::new(),
            lens: Vec::new(),
            fingerprints: Vec::new(),
            chunk_table: Table::default(),
            grouper: Grouper::new(),
            groups: Vec::new(),
            group_table: Table::default(),
        }
    }

    /// Makes room for about so many `chunks` more, as far as the budget goes: none has to move when they come.
    pub fn expect(&mut self, chunks: usize) {
        let chunks = chunks.min(self.budget - self.len());
        self.starts.reserve(chunks);
        self.lens.reserve(chunks);
        self.fingerprints.reserve(chunks);
        let all = self.len() + chunks;
        self.chunk_table.expect(all, |n: u32| chunk_key(&self.fingerprints[n as usize]));
    }

    /// Takes the next `chunk` of old, which starts at byte `start`. Over budget it is only counted.
    pub fn push(&mut self, start: u64, chunk: Chunk) {
        if self.len() == self.budget {
            self.dropped += 1;
            return;
        }
        self.starts.push(start);
        self.lens.push(chunk.len);
        self.fingerprints.push(chunk.fingerprint);
        let key = |n: u32| chunk_key(&self.fingerprints[n as usize]);
        self.chunk_table.insert(self.fingerprints.len() as u32 - 1, key);
        if let Some(group) = self.grouper.push(&chunk) {
            self.push_group(group, true);
        }
    }

    /// Ends an old file: no group spans two.
    pub fn end_part(&mut self) {
        if let Some(group) = self.grouper.finish() {
            self.push_group(group, false);
        }
    }

    fn push_group(&mut self, group: Group, ends: bool) {
        let first = ChunkNo(self.len() as u32 - group.chunks);
        self.groups.push(KnownGroup { first, group, ends });
        let key = |n: u32| group_key(self.groups[n as usize].short());
        self.group_table.insert(self.groups.len() as u32 - 1, key);
    }

    /// A chunk whose fingerprint begins so, of this length in bytes: the one right after `after` if that is one, else the
    /// first. Of chunks whose fingerprints begin with the same [`BriefLen::MIN`] bytes only the first is found, and what follows
    /// `after`.
    #[must_use]
    pub fn find_chunk(
        &self,
        brief: BriefFingerprint,
        len: u32,
        after: Option<ChunkNo>,
    ) -> Option<ChunkNo> {
        let matches = |no: ChunkNo| {
            self.fingerprints.get(no.at()).is_some_and(|known| brief.begins(known))
                && self.lens[no.at()] == len
        };
        let neighbour = after.map(ChunkNo::next).filter(|no| matches(*no));
        neighbour.or_else(|| {
            let key = |n: u32| chunk_key(&self.fingerprints[n as usize]);
            let first = self.chunk_table.find(key_of(brief.as_bytes()), key);
            first.map(ChunkNo).filter(|no| matches(*no))
        })
    }

    /// The chunks of a group with this fingerprint, length in bytes and number of chunks: the group that starts right
    /// after `after` if that is one, else the first.
    #[must_use]
    pub fn find_group(
        &self,
        short: ShortFingerprint,
        len: u64,
        chunks: u32,
        after: Option<ChunkNo>,
    ) -> Option<Range<ChunkNo>> {
        let matches = |known: &&KnownGroup| {
            known.short() == short && known.group.len == len && known.group.chunks == chunks
        };
        let neighbour = after.and_then(|no| self.group_from(no.next())).filter(matches);
        let found = neighbour.or_else(|| {
            let key = |n: u32| group_key(self.groups[n as usize].short());
            let first = self.group_table.find(group_key(short), key)?;
            Some(&self.groups[first as usize]).filter(matches)
        });
        found.map(KnownGroup::chunks)
    }

    /// The group that a [`Grouper`] at the start of a group finds in `range`, and the chunks after it: none if this index
    /// does not know, and its chunks have to be looked at.
    #[must_use]
    pub fn first_group(&self, range: Range<ChunkNo>) -> Option<(Group, Range<ChunkNo>)> {
        let known = self.group_from(range.start)?;
        let end = known.chunks().end;
        (known.ends && end <= range.end).then_some((known.group, end..range.end))
    }

    fn group_from(&self, first: ChunkNo) -> Option<&KnownGroup> {
        let at = self.groups.binary_search_by_key(&first, |known| known.first).ok()?;
        self.groups.get(at)
    }

    /// Up to which byte of old all groups are known.
    #[must_use]
    pub fn groups_end(&self) -> u64 {
        self.groups.last().map_or(0, |known| self.starts[known.first.at()] + known.group.len)
    }

    /// Place of chunk `no` in old, and its full fingerprint.
    ///
    /// # Panics
    /// On a number that this index did not give.
    #[must_use]
    pub fn chunk(&self, no: ChunkNo) -> (Span, Fingerprint) {
        (Span::new(self.starts[no.at()], self.lens[no.at()]), self.fingerprints[no.at()])
    }

    /// Places and fingerprints of each of `range`, in order, as by [`Index::chunk`].
    ///
    /// # Panics
    /// On numbers that this index did not give.
    pub fn chunks(
        &self,
        range: Range<ChunkNo>,
    ) -> impl ExactSizeIterator<Item = (Span, Fingerprint)> {
        (range.start.0..range.end.0).map(|no| self.chunk(ChunkNo(no)))
    }

    /// The chunks that lie in `old`, in order.
    pub fn chunks_in(&self, old: Span) -> impl Iterator<Item = (Span, Fingerprint)> {
        let from = self.starts.partition_point(|start| *start < old.start);
        let chunks = (from..self.len()).map(|no| self.chunk(ChunkNo(no as u32)));
        chunks.take_while(move |(span, _)| span.end() <= old.end())
    }

    /// Number of chunks that it keeps.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// True if it keeps none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fingerprints.is_empty()
    }

    /// Number of chunks that came over budget and will not be found.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Key of a chunk in the table: as much of its fingerprint as travels in any case.
fn chunk_key(fingerprint: &Fingerprint) -> u64 {
    key_of(fingerprint.as_bytes())
}

fn key_of(bytes: &[u8]) -> u64 {
    let mut key = [0; size_of::<u64>()];
    key[..BriefLen::MIN.get()].copy_from_slice(&bytes[..BriefLen::MIN.get()]);
    u64::from_le_bytes(key)
}

const fn group_key(short: ShortFingerprint) -> u64 {
    u64::from_le_bytes(*short.as_bytes())
}

/// Chunk numbers and one past the last fit 32 bits, and so do their slots in a 32-bit address space.
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
        let brief = chunk(1).fingerprint.brief(BriefLen::MIN);
        let first = index.find_chunk(brief, 1000, None).unwrap();
        assert_eq!(index.chunk(first).0, Span::new(0, 1000));
        let second = index.find_chunk(brief, 1000, Some(first.next())).unwrap();
        assert_eq!(index.chunk(second).0, Span::new(2000, 1000));
        assert_eq!(index.find_chunk(brief, 1000, Some(second.next())), Some(first));
        assert_eq!(index.find_chunk(brief, 999, None), None);
    }

    #[test]
    fn the_chunks_in_a_span_are_those_that_lie_in_it() {
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
                let short = group.fingerprint.short();
                let found = index.find_group(short, group.len, group.chunks, after).unwrap();
                assert_eq!(found.start, ChunkNo(next), "{part}");
                assert_eq!(index.chunks(found.clone()).len(), group.chunks as usize);
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
        assert_eq!((index.len(), index.dropped()), (2, 3));
        assert!(index.find_chunk(chunk(1).fingerprint.brief(BriefLen::MAX), 1000, None).is_some());
        assert!(index.find_chunk(chunk(2).fingerprint.brief(BriefLen::MAX), 1000, None).is_none());
    }
}
