//! Two Thresholds, Two Divisors (Eshghi and Tang 2005) over [Rabin fingerprints](super::RabinChunker).
//!
//! ```text
//! cut = the least i in min..max with hash(i) >= limit(1 / (avg - min)),       (the main divisor, D)
//!       else the greatest i in min..=max with hash(i) >= limit(2 / (avg - min)),   (the backup divisor, D / 2)
//!       else max                                                          (hash and limit as for Rabin)
//! ```
//!
//! 1. As with Rabin, high hashes cut. The average chunk of random bytes has `avg` bytes, slightly fewer because
//!    of backups.
//! 2. If the file ends before `max`, the end of the file ends its last chunk; backups serve only chunks that
//!    reach `max`.
//! 3. The paper records each backup in passing. Few chunks need a backup, so the code searches backwards from
//!    `max` only for those.
//! 4. A run of one byte value has the same hash everywhere, and no backup if the average is at least 128 bytes
//!    above the minimum. Bytes before the run may contain a backup: then the chunk ends there, and the next
//!    chunk is all run.

use super::rabin::{RabinHash, one_in};
use super::rolling::first;
use super::{Chunker, Sizes};

/// Cuts where the Rabin fingerprint of the last 48 bytes reaches a threshold; at the maximum, at the last
/// position that reached a lower threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct TttdChunker {
    min: usize,
    max: usize,
    limit: u64,
    backup_limit: u64,
}

impl TttdChunker {
    /// Creates a chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            min: sizes.min() as usize,
            max: sizes.max() as usize,
            limit: one_in(sizes.wait()),
            backup_limit: one_in(sizes.wait().div_ceil(2)),
        }
    }

    /// The last position that reaches the backup threshold.
    fn last_backup_boundary(&self, data: &[u8]) -> Option<usize> {
        let mut after = data.len() + 1;
        while after > self.min {
            let start = after.saturating_sub(BACKUP_STRETCH).max(self.min);
            let next = |end| first::<RabinHash, _>(data, end..after, self.backup_limit);
            let backups = std::iter::successors(next(start), |end| next(end + 1));
            if let Some(last) = backups.last() {
                return Some(last);
            }
            after = start;
        }
        None
    }
}

impl Chunker for TttdChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min {
            return data.len();
        }
        let main = first::<RabinHash, _>(data, self.min..data.len(), self.limit);
        let backup = || if data.len() == self.max { self.last_backup_boundary(data) } else { None };
        main.or_else(backup).unwrap_or(data.len())
    }
}

/// Number of positions that one search for the last backup covers.
const BACKUP_STRETCH: usize = 1024;
