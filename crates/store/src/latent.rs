//! A store with awaited calls that take some time: simulates an object store without a network.
//!
//! The wrapped store lives in memory. A seed determines how often each call is polled before it is ready, so a run of
//! many calls can be repeated with its seed. To make awaited calls fail, wrap a store that
//! [fails on demand](crate::faulty).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use deltic_tree::{Meta, RelPath};

use crate::awaited::{AsyncSnapshot, AsyncStore, Upload};
use crate::{
    Commit, Going, Keep, Listing, Rebuild, Removed, Snapshot, Store, StoreError, Version, lock,
};

/// An awaited store that delays each call of the store `S`.
#[derive(Clone, Debug)]
pub struct Latent<S> {
    inner: S,
    delays: Delays,
}

/// A snapshot of a [`Latent`] store.
#[derive(Debug)]
pub struct LatentSnapshot<S> {
    inner: S,
    delays: Delays,
}

/// A new version of a file of a [`Latent`] store. All parts stay in memory until the end.
#[derive(Debug)]
pub struct LatentUpload<R> {
    inner: R,
    parts: Mutex<Vec<(u64, Vec<u8>)>>,
    delays: Delays,
}

/// Delays of calls. Clones share one sequence.
#[derive(Clone, Debug)]
pub struct Delays {
    state: Arc<AtomicU64>,
    most: u64,
}

impl Delays {
    /// Returns delays of at most `most` polls, in the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64, most: u64) -> Self {
        Self { state: Arc::new(AtomicU64::new(seed)), most }
    }

    /// Yields as many times as the sequence says.
    async fn wait(&self) {
        // SplitMix64.
        let mut word = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mut left = (word ^ (word >> 31)) % (self.most + 1);
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl<S: Store> Latent<S> {
    /// Wraps `inner` so that each call takes as long as `delays` say.
    pub const fn new(inner: S, delays: Delays) -> Self {
        Self { inner, delays }
    }
}

impl<S: Store> AsyncStore for Latent<S> {
    type Snapshot = LatentSnapshot<S::Snapshot>;
    type Upload = LatentUpload<S::Rebuild>;

    async fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.delays.wait().await;
        self.inner.list(dir)
    }

    async fn open(&self, path: &RelPath) -> Result<Self::Snapshot, StoreError> {
        self.delays.wait().await;
        Ok(LatentSnapshot { inner: self.inner.open(path)?, delays: self.delays.clone() })
    }

    async fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.delays.wait().await;
        self.inner.look(path)
    }

    async fn create(&self, path: &RelPath, len: u64) -> Result<Self::Upload, StoreError> {
        self.delays.wait().await;
        let inner = self.inner.create(path, len)?;
        Ok(LatentUpload { inner, parts: Mutex::default(), delays: self.delays.clone() })
    }

    async fn make_dir(
        &self,
        path: &RelPath,
        will: Option<(&Meta, Keep)>,
    ) -> Result<(), StoreError> {
        self.delays.wait().await;
        self.inner.make_dir(path, will)
    }

    async fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        self.delays.wait().await;
        self.inner.set_meta(path, meta, keep)
    }

    async fn remove(&self, path: &RelPath, going: Going) -> Result<Removed, StoreError> {
        self.delays.wait().await;
        self.inner.remove(path, going)
    }
}

impl<S: Snapshot> AsyncSnapshot for LatentSnapshot<S> {
    fn meta(&self) -> &Meta {
        self.inner.meta()
    }

    async fn read(&self, span: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.delays.wait().await;
        let end = span.end.min(self.inner.meta().len);
        let mut bytes = vec![0; end.saturating_sub(span.start) as usize];
        let len = self.inner.read_at(span.start, &mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    async fn check_unchanged(&self) -> Result<(), StoreError> {
        self.delays.wait().await;
        self.inner.check_unchanged()
    }

    fn identity(&self) -> Option<Version> {
        self.inner.identity()
    }
}

impl<R: Rebuild> Upload for LatentUpload<R> {
    type Snapshot = LatentSnapshot<R::Snapshot>;

    fn part_bytes(&self) -> usize {
        PART_BYTES
    }

    async fn put(&self, start: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.delays.wait().await;
        lock(&self.parts).push((start, bytes));
        Ok(())
    }

    async fn finish(
        self,
        commit: Commit<'_, Self::Snapshot>,
    ) -> Result<Option<Version>, StoreError> {
        self.delays.wait().await;
        for (start, bytes) in &*lock(&self.parts) {
            self.inner.write(*start, bytes)?;
        }
        self.inner.commit(commit.map(|old| &old.inner))
    }
}

/// Length of a part in bytes. Short, so that files of tests have many parts.
const PART_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests;
