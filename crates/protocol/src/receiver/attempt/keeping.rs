//! What an interrupted transfer left in place: chunks that neither travel nor are read again (docs/decisions/0016).
//!
//! A kept chunk counts in its own place only. To copy it to another would read a file that is being written.

use std::ops::Range;

use deltic_core::recipe::{Chunk, Grouper};
use deltic_core::{BriefLen, ChunkNo, Index};

use crate::message::{ChunkLine, GroupLine};
use crate::receiver::KeptChunk;

use super::{Attempt, State};

/// Chunks in their places, ascending, of which none overlaps another.
#[derive(Debug, Default)]
pub(super) struct Keeping(Vec<KeptChunk>);

impl Keeping {
    /// Those of `chunks` that can all be true of a file of `len` bytes.
    pub(super) fn new(mut chunks: Vec<KeptChunk>, len: u64) -> Self {
        chunks.retain(|kept| kept.chunk.len > 0 && kept.end() <= len);
        chunks.sort_unstable_by_key(|kept| kept.start);
        let mut end = 0;
        chunks.retain(|kept| {
            let apart = kept.start >= end;
            end = end.max(kept.end());
            apart
        });
        Self(chunks)
    }

    /// Where the chunk is that starts at `start`, if one does.
    fn at(&self, start: u64) -> Option<usize> {
        self.0.binary_search_by_key(&start, |kept| kept.start).ok()
    }

    /// The kept chunks that are the group of `line`, which starts at `start`.
    pub(super) fn group(&self, start: u64, line: &GroupLine) -> Option<Range<usize>> {
        let first = self.at(start)?;
        let range = first..first.checked_add(line.chunks as usize)?;
        let chunks = self.0.get(range.clone())?;
        let (mut grouper, mut end, mut group) = (Grouper::new(), start, None);
        for kept in chunks {
            if kept.start != end || group.is_some() {
                return None;
            }
            end = kept.end();
            group = grouper.push(&kept.chunk);
        }
        let group = group.or_else(|| grouper.finish())?;
        (group.len == line.len && group.fingerprint.short() == line.short).then_some(range)
    }

    /// The kept chunk that is the one of `line`, which starts at `start`.
    pub(super) fn chunk(&self, start: u64, line: &ChunkLine) -> Option<usize> {
        let no = self.at(start)?;
        let Chunk { len, fingerprint } = self.0[no].chunk;
        (len == line.len && line.brief.begins(&fingerprint)).then_some(no)
    }

    pub(super) fn chunks(&self, range: Range<usize>) -> Vec<Chunk> {
        self.0[range].iter().map(|kept| kept.chunk).collect()
    }

    /// Where old has kept chunk `no` as well: it may be the neighbour of a gap.
    pub(super) fn in_old(&self, no: usize, index: &Index) -> Option<ChunkNo> {
        let Chunk { len, fingerprint } = self.0[no].chunk;
        index.find_chunk(fingerprint.brief(BriefLen::MAX), len, None)
    }
}

impl Attempt {
    /// Goes on with an interrupted transfer, which left `chunks` in place.
    pub(super) fn go_on_with(&mut self, chunks: Vec<KeptChunk>) {
        self.kept = Keeping::new(chunks, self.meta.len);
        self.unread = true;
        // The new version is in the making: it is not the one in place.
        self.held = None;
    }

    /// Whether an interrupted transfer goes on.
    pub(super) const fn is_resumed(&self) -> bool {
        self.unread || !self.kept.0.is_empty()
    }

    /// Counts bytes that are in place.
    pub(super) fn keep(&mut self, start: u64, len: u64) {
        self.matched.kept(len);
        let covered = self.cover.add(start, len);
        covered.expect("what is kept is told once, in its own place");
    }

    /// Whether old must be read now, for the first time: some of the groups told last are not kept.
    pub(super) fn needs_old(&mut self) -> bool {
        let told = self.told.back().map_or(0, |told| told.start as usize);
        let lacks = |slot: &super::Slot| matches!(slot.state, State::Open(_));
        self.unread && self.groups[told..].iter().any(lacks) && std::mem::take(&mut self.unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, name: u8, len: u32) -> KeptChunk {
        KeptChunk { start, chunk: Chunk { len, ..Chunk::of(&[name]) } }
    }

    #[test]
    fn what_cannot_be_true_is_not_kept() {
        let honest = [kept(0, 1, 10), kept(10, 2, 5), kept(20, 3, 10)];
        let lies = [kept(12, 4, 1), kept(19, 5, 0), kept(25, 6, 6), kept(u64::MAX, 7, 9)];
        let kept = Keeping::new([&lies[..], &honest[..]].concat(), 30);
        assert_eq!(kept.0, honest);
    }

    #[test]
    fn a_group_is_kept_if_all_of_its_chunks_are() {
        let chunks: Vec<_> = (0..20).map(|n| kept(u64::from(n) * 100, n, 100)).collect();
        let mut grouper = Grouper::new();
        let mut groups: Vec<_> = chunks.iter().filter_map(|c| grouper.push(&c.chunk)).collect();
        groups.extend(grouper.finish());
        let lines: Vec<_> = (groups.iter())
            .map(|group| GroupLine {
                len: group.len,
                chunks: group.chunks,
                short: group.fingerprint.short(),
            })
            .collect();
        let all = Keeping::new(chunks.clone(), 2000);
        let (mut start, mut next) = (0, 0);
        for line in &lines {
            let range = next..next + line.chunks as usize;
            assert_eq!(all.group(start, line), Some(range.clone()));
            assert_eq!(all.group(start + 100, line), None);
            for missing in range {
                let mut fewer = chunks.clone();
                fewer.remove(missing);
                assert_eq!(Keeping::new(fewer, 2000).group(start, line), None);
            }
            next += line.chunks as usize;
            start += line.len;
        }
    }
}
