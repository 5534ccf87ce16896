//! Merges adjacent weak matches into runs that one strong sum confirms (NetSync §4.3).
//!
//! Consecutive new chunks often match consecutive old chunks. One strong sum over the whole run saves the
//! strong sums of its chunks. Sometimes a weak match is false; then the strong sums over the run differ (a
//! *merge collision*), and every chunk of the run is unproved. A short run is sent as literal. A longer run is
//! split into chunks, and the strong sum of each chunk is requested.
//!
//! Law 5 holds for any collisions: runs and their parts tile the matched chunks, each is decided once, and all
//! bytes that are not copied are sent. The receiver asks about a chunk at most twice.
//!
//! Two differences from the paper:
//!
//! - A run has a maximum length. So runs are sent while matching goes on, and one false match costs a bounded
//!   amount of hashing.
//! - A refuted run of one chunk is sent as literal whatever its length, because the strong sum of the chunk is
//!   known already.

use crate::index::ChunkNo;

/// A refuted run shorter than this many bytes is sent as literal; a longer run is split (NetSync §4.3: 800 KB).
pub const RESEND_BELOW_BYTES: u64 = 800 << 10;

/// A new chunk and an old chunk with equal weak sums and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMatch {
    /// Number of the new chunk, from 0.
    pub new: u32,
    /// Number of the old chunk.
    pub old: ChunkNo,
    /// Length of both chunks in bytes.
    pub len: u32,
}

/// Consecutive new chunks that match consecutive old chunks of the same lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRun {
    /// Number of the first new chunk, from 0.
    pub new: u32,
    /// Number of the first old chunk.
    pub old: ChunkNo,
    /// Number of chunks, at least one.
    pub chunks: u32,
    /// Total length in bytes.
    pub len: u64,
}

impl MatchRun {
    /// A run of one chunk.
    #[must_use]
    pub const fn of(one: ChunkMatch) -> Self {
        Self { new: one.new, old: one.old, chunks: 1, len: one.len as u64 }
    }

    /// The next step for this run once it is refuted: its strong sums in the old and in the new version differ.
    #[must_use]
    pub const fn next_step_if_refuted(&self) -> RefutedStep {
        RefutedStep::of(self.chunks, self.len)
    }

    /// Splits the run into runs of one chunk. `lens` returns the length of a new chunk in bytes.
    pub fn split(self, lens: impl Fn(u32) -> u32) -> impl Iterator<Item = Self> {
        let olds = std::iter::successors(Some(self.old), |old| Some(old.next()));
        let news = self.new..self.new + self.chunks;
        news.zip(olds).map(move |(new, old)| Self::of(ChunkMatch { new, old, len: lens(new) }))
    }

    fn continues_with(&self, next: &ChunkMatch) -> bool {
        let after = (self.new.checked_add(self.chunks), self.old.as_index() + self.chunks as usize);
        after == (Some(next.new), next.old.as_index())
    }
}

/// Next step for a refuted run: its strong sums in the old and in the new version differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefutedStep {
    /// The bytes of the run are sent as literal.
    Send,
    /// The strong sum of each chunk is requested ([`MatchRun::split`]).
    Split,
}

impl RefutedStep {
    /// The next step for a refuted run of `chunks` chunks and `len` bytes. Needs no position in the old version.
    #[must_use]
    pub const fn of(chunks: u32, len: u64) -> Self {
        if chunks == 1 || len < RESEND_BELOW_BYTES { Self::Send } else { Self::Split }
    }
}

/// Merges adjacent matches into runs, one match at a time.
#[derive(Clone, Debug)]
pub struct RunMerger {
    max_bytes: u64,
    open: Option<MatchRun>,
}

impl RunMerger {
    /// A merger for runs of at most `max_bytes`. A single chunk may be longer.
    #[must_use]
    pub const fn new(max_bytes: u64) -> Self {
        Self { max_bytes, open: None }
    }

    /// Takes the next match, in the order of the new chunks. Returns the previous run if this match does not
    /// extend it.
    pub fn push(&mut self, next: ChunkMatch) -> Option<MatchRun> {
        if let Some(run) = &mut self.open {
            let len = run.len + u64::from(next.len);
            if run.continues_with(&next) && len <= self.max_bytes {
                (run.chunks, run.len) = (run.chunks + 1, len);
                return None;
            }
        }
        self.open.replace(MatchRun::of(next))
    }

    /// Closes and returns the open run. The next match starts a new run.
    pub const fn finish(&mut self) -> Option<MatchRun> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::CuckooIndex;

    /// Numbers of old chunks, from 0.
    fn olds(count: usize) -> Vec<ChunkNo> {
        let mut index = CuckooIndex::new(count);
        (0..count).for_each(|_| index.push(0u32));
        index.candidates(0, &mut usize::MAX.clone()).collect()
    }

    fn runs(max_bytes: u64, matches: &[(u32, usize, u32)]) -> Vec<(u32, usize, u32, u64)> {
        let olds = olds(100);
        let mut runs = RunMerger::new(max_bytes);
        let mut all: Vec<MatchRun> = matches
            .iter()
            .filter_map(|(new, old, len)| {
                runs.push(ChunkMatch { new: *new, old: olds[*old], len: *len })
            })
            .collect();
        all.extend(runs.finish());
        all.iter().map(|run| (run.new, run.old.as_index(), run.chunks, run.len)).collect()
    }

    #[test]
    fn matches_adjacent_in_old_and_new_merge() {
        let matches = [(0, 5, 10), (1, 6, 20), (2, 8, 30), (4, 9, 40), (5, 10, 50), (6, 10, 60)];
        let expected = [(0, 5, 2, 30), (2, 8, 1, 30), (4, 9, 2, 90), (6, 10, 1, 60)];
        assert_eq!(runs(1000, &matches), expected);
    }

    #[test]
    fn a_run_has_a_longest_length_but_a_single_chunk_may_exceed_it() {
        let matches = [(0, 0, 50), (1, 1, 50), (2, 2, 1), (3, 3, 500), (4, 4, 1)];
        assert_eq!(
            runs(100, &matches),
            [(0, 0, 2, 100), (2, 2, 1, 1), (3, 3, 1, 500), (4, 4, 1, 1)]
        );
    }

    #[test]
    fn a_refuted_run_is_sent_below_800_kb_and_split_from_there() {
        let run = |chunks, len| MatchRun { new: 0, old: olds(1)[0], chunks, len };
        assert_eq!(run(100, RESEND_BELOW_BYTES - 1).next_step_if_refuted(), RefutedStep::Send);
        assert_eq!(run(100, RESEND_BELOW_BYTES).next_step_if_refuted(), RefutedStep::Split);
        assert_eq!(run(1, RESEND_BELOW_BYTES).next_step_if_refuted(), RefutedStep::Send);
    }

    /// NetSync §4.3: a run saves 24 bytes a chunk and a collision costs 8 KB a chunk, so merging pays below 0.003.
    #[test]
    fn merging_pays_below_the_collision_rate_of_the_paper() {
        let gain = |rate: f64| (1.0 - rate) * 24.0 - rate * 8192.0;
        assert!(gain(0.0029) > 0.0 && gain(0.003) < 0.0);
    }
}
