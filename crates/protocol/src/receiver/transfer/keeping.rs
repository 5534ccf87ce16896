//! Chunks that an interrupted transfer left in place: they are neither sent nor read again (docs/decisions/0016).
//!
//! A kept chunk counts only in its own place. A copy to another place would read a file that is being written.

use std::ops::Range;

use deltic_core::recipe::{Chunk, Grouper};
use deltic_core::{ChunkNo, Chunks, Fingerprint, Index, PrefixLen, Span};

use crate::message::{ChunkLine, GroupLine};

/// Kept chunks in their places, ascending and without overlaps.
#[derive(Debug, Default)]
pub(super) struct KeptChunks(Chunks);

impl KeptChunks {
    /// Takes the ascending `chunks`, without chunks that overlap others or do not fit a file of `len` bytes.
    pub(super) fn new(chunks: Chunks, len: u64) -> Self {
        let is_apart = |end: &mut u64, span: Span| {
            let apart = span.len > 0 && *end <= span.start && span.end() <= len;
            *end = if apart { span.end() } else { *end };
            apart
        };
        // Honest records need no second list, which would take as much memory.
        let mut end = 0;
        if chunks.iter().all(|(span, _)| is_apart(&mut end, span)) {
            return Self(chunks);
        }
        end = 0;
        let apart = chunks.iter().filter(|(span, _)| is_apart(&mut end, *span));
        Self(apart.map(|(span, fingerprint)| (span.start, chunk(span, fingerprint))).collect())
    }

    /// Returns the kept chunk that starts at `start`, if there is one.
    fn chunk_at(&self, start: u64) -> Option<(ChunkNo, Chunk)> {
        let no = self.0.first_from(start);
        let (span, fingerprint) = self.0.get(no)?;
        (span.start == start).then_some((no, chunk(span, fingerprint)))
    }

    /// Returns the kept chunks that form the group of `line` at `start`.
    pub(super) fn find_group(&self, start: u64, line: &GroupLine) -> Option<Range<ChunkNo>> {
        let (first, _) = self.chunk_at(start)?;
        let range = first..first.plus(line.chunks);
        let (mut grouper, mut end, mut group, mut count) = (Grouper::new(), start, None, 0);
        for (span, fingerprint) in self.0.range(range.clone()) {
            if span.start != end || group.is_some() {
                return None;
            }
            (end, count) = (span.end(), count + 1);
            group = grouper.push(&chunk(span, fingerprint));
        }
        let group = group.or_else(|| grouper.finish())?;
        let is_it = (group.len, count) == (line.len, line.chunks);
        (is_it && group.fingerprint.group_prefix() == line.short).then_some(range)
    }

    /// Returns the kept chunk that equals the chunk of `line` at `start`.
    pub(super) fn find_chunk(&self, start: u64, line: &ChunkLine) -> Option<ChunkNo> {
        let (no, Chunk { len, fingerprint }) = self.chunk_at(start)?;
        (len == line.len && line.brief.is_prefix_of(&fingerprint)).then_some(no)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all kept chunks, and leaves none.
    pub(super) fn take_all(&mut self) -> Chunks {
        std::mem::take(&mut self.0)
    }

    /// Returns the chunk of the old versions that equals kept chunk `no`, if there is such a chunk. It may be the
    /// neighbour of a gap.
    pub(super) fn equal_old_chunk(&self, no: ChunkNo, index: &Index) -> Option<ChunkNo> {
        let (span, fingerprint) = self.0.get(no)?;
        index.find_chunk(fingerprint.chunk_prefix(PrefixLen::MAX), span.len, None)
    }
}

const fn chunk(span: Span, fingerprint: Fingerprint) -> Chunk {
    Chunk { len: span.len, fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, name: u8, len: u32) -> (u64, Chunk) {
        (start, Chunk { len, ..Chunk::of(&[name]) })
    }

    fn keeping<'a>(chunks: impl IntoIterator<Item = &'a (u64, Chunk)>, len: u64) -> KeptChunks {
        KeptChunks::new(chunks.into_iter().copied().collect(), len)
    }

    #[test]
    fn what_cannot_be_true_is_not_kept() {
        let honest = [kept(0, 1, 10), kept(10, 2, 5), kept(20, 3, 10)];
        let lies = [kept(12, 4, 1), kept(19, 5, 0), kept(25, 6, 6), kept(u64::MAX, 7, 9)];
        assert_eq!(keeping(&honest, 30).0, honest.into_iter().collect());
        let mut all = [&lies[..], &honest[..]].concat();
        all.sort_by_key(|(start, _)| *start);
        assert_eq!(keeping(&all, 30).0, honest.into_iter().collect());
        all.reverse();
        assert_eq!(keeping(&all, 30).0, [honest[2]].into_iter().collect());
    }

    #[test]
    fn a_group_is_kept_if_all_of_its_chunks_are() {
        let chunks: Vec<_> = (0..20).map(|n| kept(u64::from(n) * 100, n, 100)).collect();
        let mut grouper = Grouper::new();
        let mut groups: Vec<_> = chunks.iter().filter_map(|(_, c)| grouper.push(c)).collect();
        groups.extend(grouper.finish());
        let lines: Vec<_> = (groups.iter())
            .map(|group| GroupLine {
                len: group.len,
                chunks: group.chunks,
                short: group.fingerprint.group_prefix(),
            })
            .collect();
        let all = keeping(&chunks, 2000);
        let (mut start, mut next) = (0, 0);
        for line in &lines {
            let range = next..next + line.chunks as usize;
            let found = all.find_group(start, line).expect("all are kept");
            assert_eq!(found.start.as_index()..found.end.as_index(), range);
            assert_eq!(all.find_group(start + 100, line), None);
            for missing in range {
                let mut fewer = chunks.clone();
                fewer.remove(missing);
                assert_eq!(keeping(&fewer, 2000).find_group(start, line), None);
            }
            next += line.chunks as usize;
            start += line.len;
        }
    }
}
