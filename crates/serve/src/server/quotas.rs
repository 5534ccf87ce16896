//! Quotas of tokens: room in the part of a volume that a token is for, for what it writes, and tokens that it made.
//!
//! As with a bucket of an object store, what counts is what is there, whoever put it there, and what is deleted counts
//! no more. Old versions count to the volume alone. What others change there is counted now and then.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use deltic_store::StoreError;
use deltic_store_local::{Quota, QuotaLimits};
use deltic_tree::{Name, RelPath};

use crate::lock;
use crate::token::TokenHash;

/// Longest wait for a count that somebody else has begun, by pauses: who waits keeps others from the disk.
const PATIENCE: (u32, Duration) = (50, Duration::from_millis(10));
/// Longest time for which a count is taken to be right, whatever others did.
const RECOUNT_AFTER: Duration = Duration::from_secs(10 * 60);
/// Quotas that are kept before those that nobody uses are looked for.
const SWEEP: usize = 128;

/// A token's quota, in each of its volumes.
#[derive(Clone, Debug)]
pub(crate) struct TokenQuota {
    pub(crate) token: TokenHash,
    /// Path in the volume that the token is for.
    pub(crate) part: RelPath,
    pub(crate) limits: QuotaLimits,
}

/// Counts, by tokens and volumes.
#[derive(Debug, Default)]
pub(crate) struct TokenQuotas(Mutex<HashMap<(TokenHash, String), Slot>>);

/// A count, made by the first who needs it.
type Slot = Arc<Mutex<Option<Arc<Quota>>>>;

impl TokenQuotas {
    /// The quotas in a volume of a token and of those by which it was made, with all files counted. Waits for the disk.
    ///
    /// # Errors
    /// Where the part of a token is not there, or is being counted.
    pub(crate) fn hold(
        &self,
        quotas: &[TokenQuota],
        volume: &Name,
    ) -> Result<Vec<Arc<Quota>>, StoreError> {
        let hold = |TokenQuota { token, part, limits }: &TokenQuota| {
            let slot = self.slot((*token, volume.to_string()));
            let mut slot = in_time(&slot).ok_or_else(|| being_counted(part))?;
            let is_it =
                |quota: &&Arc<Quota>| quota.limits() == *limits && quota.is_of(volume, part);
            if let Some(quota) = slot.as_ref().filter(is_it).cloned() {
                drop(slot);
                quota.recount_after(RECOUNT_AFTER);
                return Ok(quota);
            }
            let quota = Quota::of_token(volume, part, *limits)?;
            *slot = Some(Arc::clone(&quota));
            Ok(quota)
        };
        quotas.iter().map(hold).collect()
    }

    fn slot(&self, key: (TokenHash, String)) -> Slot {
        let mut all = lock(&self.0);
        if all.len() >= SWEEP && !all.contains_key(&key) {
            // A slot that nobody else has is not locked.
            all.retain(|_, slot| {
                let is_used = |quota: &Arc<Quota>| Arc::strong_count(quota) > 1;
                Arc::strong_count(slot) > 1 || lock(slot).as_ref().is_some_and(is_used)
            });
        }
        Arc::clone(all.entry(key).or_default())
    }
}

/// Locks a slot, unless somebody keeps it for long.
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
    let why = "that is being done: ask again soon";
    let source = io::Error::new(io::ErrorKind::WouldBlock, why);
    StoreError::Io { action: "count", path: part.clone(), source }
}
