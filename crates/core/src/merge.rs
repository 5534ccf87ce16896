//! Neighbours that matched by their weak sums, told and confirmed as one (NetSync §4.3).
//!
//! Consecutive chunks of new often match consecutive chunks of old. Then one strong sum over all of them saves the
//! sums of the parts. Weak sums lie now and then; then the strong sums over the run differ (a *merge collision*), and
//! all of it is doubtful. A short run is not worth a second question: its bytes are sent. A longer one is split into
//! its chunks, and the strong sum of each is asked for.
//!
//! Law 5 holds for any collisions: runs and what they split into tile the matched chunks, each is judged to its end
//! once, and what is not copied is sent. A chunk is asked about twice at most.
//!
//! We differ from the paper in two things. A run has a longest length, so that it is told while matching goes on, and
//! that one lie costs no more than that much hashing. And a run of one chunk is sent at once, however long: its
//! strong sum is known already.

use crate::index::ChunkNo;

/// A run whose strong sum was refuted is sent from here down, and split above, in bytes (NetSync §4.3: 800 KB).
pub const RESEND_BELOW_BYTES: u64 = 800 << 10;

/// A chunk of new that may be one of old: their weak sums and lengths are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Chunk of new, from 0.
    pub new: u32,
    /// Chunk of old.
    pub old: ChunkNo,
    /// Length of both, in bytes.
    pub len: u32,
}

/// Chunks of new that follow each other, and as many of old of the same lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first chunk of new, from 0.
    pub new: u32,
    /// The first chunk of old.
    pub old: ChunkNo,
    /// Number of chunks; at least one.
    pub chunks: u32,
    /// Bytes of all of them.
    pub len: u64,
}

impl Run {
    /// A run of one.
    #[must_use]
    pub const fn of(one: Match) -> Self {
        Self { new: one.new, old: one.old, chunks: 1, len: one.len as u64 }
    }

    /// Next step where the strong sums over the run of old and of new are not equal.
    #[must_use]
    pub const fn refuted(&self) -> Refuted {
        Refuted::of(self.chunks, self.len)
    }

    /// Its chunks as runs of one. `lens` says how long chunks of new are, in bytes.
    pub fn split(self, lens: impl Fn(u32) -> u32) -> impl Iterator<Item = Self> {
        let olds = std::iter::successors(Some(self.old), |old| Some(old.next()));
        let news = self.new..self.new + self.chunks;
        news.zip(olds).map(move |(new, old)| Self::of(Match { new, old, len: lens(new) }))
    }

    fn goes_on_with(&self, next: &Match) -> bool {
        let after = (self.new.checked_add(self.chunks), self.old.at() + self.chunks as usize);
        after == (Some(next.new), next.old.at())
    }
}

/// Next step for a run that was refuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuted {
    /// Its bytes are sent.
    Send,
    /// Its chunks are asked about, each by itself ([`Run::split`]).
    Split,
}

impl Refuted {
    /// The same for a run of so many chunks and bytes, wherever it lies in old: the other end does not know.
    #[must_use]
    pub const fn of(chunks: u32, len: u64) -> Self {
        if chunks == 1 || len < RESEND_BELOW_BYTES { Self::Send } else { Self::Split }
    }
}

/// Makes runs of matches, as they come.
#[derive(Clone, Debug)]
pub struct Runs {
    max_bytes: u64,
    open: Option<Run>,
}

impl Runs {
    /// No run yet, and none that is longer than `max_bytes`, but for a single chunk.
    #[must_use]
    pub const fn new(max_bytes: u64) -> Self {
        Self { max_bytes, open: None }
    }

    /// Takes the next match in the order of new; the run before it, where it does not go on with this one.
    pub fn push(&mut self, next: Match) -> Option<Run> {
        if let Some(run) = &mut self.open {
            let len = run.len + u64::from(next.len);
            if run.goes_on_with(&next) && len <= self.max_bytes {
                (run.chunks, run.len) = (run.chunks + 1, len);
                return None;
            }
        }
        self.open.replace(Run::of(next))
    }

    /// The run that is still open. The next match starts a new one.
    pub const fn finish(&mut self) -> Option<Run> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Cuckoo;

    /// Numbers of chunks of old, from 0.
    fn olds(count: usize) -> Vec<ChunkNo> {
        let mut index = Cuckoo::new(count);
        (0..count).for_each(|_| index.push(0u32));
        index.candidates(0, &mut usize::MAX.clone()).collect()
    }

    fn runs(max_bytes: u64, matches: &[(u32, usize, u32)]) -> Vec<(u32, usize, u32, u64)> {
        let olds = olds(100);
        let mut runs = Runs::new(max_bytes);
        let mut all: Vec<Run> = matches
            .iter()
            .filter_map(|(new, old, len)| {
                runs.push(Match { new: *new, old: olds[*old], len: *len })
            })
            .collect();
        all.extend(runs.finish());
        all.iter().map(|run| (run.new, run.old.at(), run.chunks, run.len)).collect()
    }

    #[test]
    fn matches_merge_where_both_sides_go_on() {
        let matches = [(0, 5, 10), (1, 6, 20), (2, 8, 30), (4, 9, 40), (5, 10, 50), (6, 10, 60)];
        let expected = [(0, 5, 2, 30), (2, 8, 1, 30), (4, 9, 2, 90), (6, 10, 1, 60)];
        assert_eq!(runs(1000, &matches), expected);
    }

    #[test]
    fn a_run_has_a_longest_length_and_a_chunk_has_none() {
        let matches = [(0, 0, 50), (1, 1, 50), (2, 2, 1), (3, 3, 500), (4, 4, 1)];
        assert_eq!(
            runs(100, &matches),
            [(0, 0, 2, 100), (2, 2, 1, 1), (3, 3, 1, 500), (4, 4, 1, 1)]
        );
    }

    #[test]
    fn a_refuted_run_is_sent_below_800_kb_and_split_from_there() {
        let run = |chunks, len| Run { new: 0, old: olds(1)[0], chunks, len };
        assert_eq!(run(100, RESEND_BELOW_BYTES - 1).refuted(), Refuted::Send);
        assert_eq!(run(100, RESEND_BELOW_BYTES).refuted(), Refuted::Split);
        assert_eq!(run(1, RESEND_BELOW_BYTES).refuted(), Refuted::Send);
    }

    /// NetSync §4.3: a run saves 24 bytes a chunk and a collision costs 8 KB a chunk, so merging pays below 0.003.
    #[test]
    fn merging_pays_below_the_rate_of_collisions_that_the_paper_gives() {
        let gain = |rate: f64| (1.0 - rate) * 24.0 - rate * 8192.0;
        assert!(gain(0.0029) > 0.0 && gain(0.003) < 0.0);
    }
}
