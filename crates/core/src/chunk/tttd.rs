//! Two Thresholds, Two Divisors (Eshghi and Tang 2005) over [Rabin fingerprints](super::Rabin).
//!
//! ```text
//! cut = the least i in min..max with hash(i) >= limit(1 / (avg - min)),       (the main divisor, D)
//!       else the greatest i in min..=max with hash(i) >= limit(2 / (avg - min)),   (the backup divisor, D / 2)
//!       else max                                                          (hash and limit as for Rabin)
//! ```
//!
//! 1. As with Rabin: high hashes cut, and the mean on random bytes is `avg`, a little less for the backups.
//! 2. A file that ends before `max` ends its last chunk; backups are for chunks that grew too long.
//! 3. The paper notes each backup as it comes by. Few chunks need one, so it is searched for only then, backwards from
//!    `max`.
//! 4. A run of one byte value, which has one hash all along, has no backup either, where the mean is 128 bytes or more
//!    above the minimum. Bytes before the run may hold one: then the chunk ends there, and the next is all run.

use super::rabin::{Fingerprint, one_in};
use super::rolling::first;
use super::{Chunker, Sizes};

/// Cuts where the Rabin fingerprint of the last 48 bytes is high, or where it last was half as high before the maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tttd {
    min: usize,
    max: usize,
    limit: u64,
    backup_limit: u64,
}

impl Tttd {
    /// A chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            min: sizes.min() as usize,
            max: sizes.max() as usize,
            limit: one_in(sizes.wait()),
            backup_limit: one_in(sizes.wait().div_ceil(2)),
        }
    }

    /// The greatest of all ends that the second divisor divides.
    fn backup(&self, data: &[u8]) -> Option<usize> {
        let mut after = data.len() + 1;
        while after > self.min {
            let start = after.saturating_sub(BACKUP_STRETCH).max(self.min);
            let next = |end| first::<Fingerprint, _>(data, end..after, self.backup_limit);
            let backups = std::iter::successors(next(start), |end| next(end + 1));
            if let Some(last) = backups.last() {
                return Some(last);
            }
            after = start;
        }
        None
    }
}

impl Chunker for Tttd {
    fn max_len(&self) -> usize {
        self.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min {
            return data.len();
        }
        let main = first::<Fingerprint, _>(data, self.min..data.len(), self.limit);
        let backup = || if data.len() == self.max { self.backup(data) } else { None };
        main.or_else(backup).unwrap_or(data.len())
    }
}

/// Ends that are searched at once for the last backup.
const BACKUP_STRETCH: usize = 1024;
