//! Quotas of tokens. A quota limits the bytes and files in the part of a volume that a token is for. The quota applies
//! to writes with the token and with tokens made by it.
//!
//! As with a bucket of an object store, all present files count, no matter which token wrote them, and deleted files
//! do not count. Old versions count toward the volume's quota only. The part is recounted from time to time, to
//! include changes made without the token.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use deltic_store::StoreError;
use deltic_store_local::{QuotaLimits, SpaceQuota, StoreContext};
use deltic_tree::{Name, RelPath};

use crate::lock;
use crate::token::TokenHash;

/// Longest wait for a count in progress, as a number of pauses and their length. A waiting request occupies a disk
/// thread.
const PATIENCE: (u32, Duration) = (50, Duration::from_millis(10));
/// Age after which a count is repeated, because other programs and tokens may have changed files.
const RECOUNT_AFTER: Duration = Duration::from_secs(10 * 60);
/// Number of stored counts at which unused counts are removed.
const SWEEP: usize = 128;

/// The quota of a token, in each of the token's volumes.
#[derive(Clone, Debug)]
pub(crate) struct TokenQuota {
    pub(crate) token: TokenHash,
    /// Path in the volumes that the token is for.
    pub(crate) part: RelPath,
    pub(crate) limits: QuotaLimits,
}

/// Most counts at once: each count occupies a disk thread until all files are counted.
const MAX_COUNTS: usize = 4;

/// Counts of quotas, by token and volume.
#[derive(Debug, Default)]
pub(crate) struct TokenQuotas {
    slots: Mutex<HashMap<(TokenHash, String), Slot>>,
    /// Locked during a count.
    counting: [Mutex<()>; MAX_COUNTS],
}

/// The count of a quota, or `None` until the first request counts the files.
type Slot = Arc<Mutex<Option<Arc<SpaceQuota>>>>;

impl TokenQuotas {
    /// Returns the quotas in a volume, one for each element of `quotas`, with all files counted. Blocks on the disk.
    ///
    /// # Errors
    /// If the part of a token does not exist, or is being counted for long.
    pub(crate) fn hold(
        &self,
        quotas: &[TokenQuota],
        volume: &Name,
        context: &StoreContext,
    ) -> Result<Vec<Arc<SpaceQuota>>, StoreError> {
        let hold = |TokenQuota { token, part, limits }: &TokenQuota| {
            let slot = self.slot(*token, volume);
            let mut slot = in_time(&slot).ok_or_else(|| being_counted(part))?;
            let is_it = |quota: &&Arc<SpaceQuota>| {
                quota.limits() == *limits && quota.is_still_dir_of(volume, part)
            };
            if let Some(quota) = slot.as_ref().filter(is_it).cloned() {
                drop(slot);
                // Otherwise a later request counts again.
                if let Ok(_turn) = self.counting(token).try_lock() {
                    quota.recount_after(RECOUNT_AFTER);
                }
                return Ok(quota);
            }
            let _turn = in_time(self.counting(token)).ok_or_else(|| being_counted(part))?;
            let quota = context.token_quota(volume, part, *limits)?;
            *slot = Some(Arc::clone(&quota));
            Ok(quota)
        };
        quotas.iter().map(hold).collect()
    }

    fn counting(&self, token: &TokenHash) -> &Mutex<()> {
        &self.counting[usize::from(token.as_bytes()[0]) % MAX_COUNTS]
    }

    fn slot(&self, token: TokenHash, volume: &Name) -> Slot {
        let key = (token, volume.to_string());
        let mut all = lock(&self.slots);
        if all.len() >= SWEEP && !all.contains_key(&key) {
            // No other thread has the slot, so locking the slot does not block.
            all.retain(|_, slot| {
                let is_used = |quota: &Arc<SpaceQuota>| Arc::strong_count(quota) > 1;
                Arc::strong_count(slot) > 1 || lock(slot).as_ref().is_some_and(is_used)
            });
        }
        Arc::clone(all.entry(key).or_default())
    }
}

/// Locks a slot. `None` if the slot stays locked longer than `PATIENCE`.
fn in_time<T>(slot: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..PATIENCE.0 {
        match slot.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(PATIENCE.1),
        }
    }
    None
}

fn being_counted(part: &RelPath) -> StoreError {
    let why = "the files are being counted: try again soon";
    let source = io::Error::new(io::ErrorKind::WouldBlock, why);
    StoreError::Io { action: "count", path: part.clone(), source }
}
