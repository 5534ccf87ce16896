//! Adapter from awaited stores to the blocking traits, for worker threads and for the conformance suite.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use deltic_tree::{Meta, RelPath};

use crate::awaited::{AsyncSnapshot, AsyncStore, Upload};
use crate::{
    Cause, Commit, Going, Keep, Listing, Posix, Rebuild, Removed, Resumable, Snapshot, Store,
    StoreError, Tree, Version, lock,
};

/// An awaited store behind the blocking traits. Each call waits on the thread of its caller.
#[derive(Clone, Debug)]
pub struct Blocking<S>(pub S);

/// A snapshot of a [`Blocking`] store.
#[derive(Debug)]
pub struct BlockingSnapshot<S>(S);

/// A rebuild of a [`Blocking`] store. Spans come in any order; the spans of a part are held in memory until the part
/// is complete.
#[derive(Debug)]
pub struct BlockingRebuild<U> {
    path: RelPath,
    len: u64,
    upload: U,
    parts: Mutex<BTreeMap<u64, Part>>,
}

/// A part that is being gathered, or that was uploaded.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    /// Start and end of the spans that were written, ascending; neighbouring spans are merged.
    written: BTreeMap<usize, usize>,
    is_put: bool,
}

/// Runs `future` to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

impl<S: AsyncStore> Tree for Blocking<S> {
    type Snapshot = BlockingSnapshot<S::Snapshot>;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        block_on(self.0.list(dir))
    }

    fn open(&self, path: &RelPath) -> Result<Self::Snapshot, StoreError> {
        block_on(self.0.open(path)).map(BlockingSnapshot)
    }
}

impl<S: AsyncStore> Posix for Blocking<S> {}

impl<S: AsyncStore> Store for Blocking<S> {
    type Rebuild = BlockingRebuild<S::Upload>;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        block_on(self.0.look(path))
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<Self::Rebuild, StoreError> {
        let upload = block_on(self.0.create(path, len))?;
        Ok(BlockingRebuild { path: path.clone(), len, upload, parts: Mutex::default() })
    }

    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        block_on(self.0.make_dir(path, will))
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        block_on(self.0.set_meta(path, meta, keep))
    }

    fn remove(&self, path: &RelPath, going: Going) -> Result<Removed, StoreError> {
        block_on(self.0.remove(path, going))
    }
}

impl<S: AsyncSnapshot> Snapshot for BlockingSnapshot<S> {
    fn meta(&self) -> &Meta {
        self.0.meta()
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let bytes = block_on(self.0.read(start..start.saturating_add(buf.len() as u64)))?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        block_on(self.0.check_unchanged())
    }

    fn identity(&self) -> Option<Version> {
        self.0.identity()
    }
}

impl<U: Upload> BlockingRebuild<U> {
    fn invalid(&self, action: &'static str) -> StoreError {
        Cause::Other(std::io::ErrorKind::InvalidInput).at(action, &self.path)
    }

    /// Returns the length of the part that starts at `start`.
    fn part_len(&self, start: u64) -> usize {
        let rest = usize::try_from(self.len - start).unwrap_or(usize::MAX);
        rest.min(self.upload.part_bytes())
    }

    /// Writes bytes that lie in a single part, and uploads the part once complete.
    fn gather(&self, start: u64, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let whole = {
            let mut parts = lock(&self.parts);
            let part = parts.entry(start).or_insert_with(|| Part::new(self.part_len(start)));
            if part.is_put {
                return Err(self.invalid("write again"));
            }
            part.write(at, bytes);
            part.take_whole()
        };
        whole.map_or(Ok(()), |whole| block_on(self.upload.put(start, whole)))
    }

    /// Uploads the parts that are not complete. Bytes that were not written are zeros.
    fn put_rest(&self) -> Result<(), StoreError> {
        let mut parts = std::mem::take(&mut *lock(&self.parts));
        let mut start = 0;
        while start < self.len {
            let part = parts.remove(&start).unwrap_or_else(|| Part::new(self.part_len(start)));
            let len = self.part_len(start) as u64;
            if !part.is_put {
                block_on(self.upload.put(start, part.bytes))?;
            }
            start += len;
        }
        Ok(())
    }
}

impl Part {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], written: BTreeMap::new(), is_put: false }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let (mut start, mut end) = (at, at + bytes.len());
        let near = self.written.range(..=end).rev().take_while(|(_, end)| **end >= start);
        let near: Vec<_> = near.map(|(start, end)| (*start, *end)).collect();
        for (other, other_end) in near {
            self.written.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.written.insert(start, end);
    }

    /// Takes the bytes of the part if each byte was written.
    fn take_whole(&mut self) -> Option<Vec<u8>> {
        self.is_put = self.written.get(&0) == Some(&self.bytes.len());
        self.is_put.then(|| std::mem::take(&mut self.bytes))
    }
}

impl<U: Upload> Resumable for BlockingRebuild<U> {}

impl<U: Upload<Snapshot: AsyncSnapshot>> Rebuild for BlockingRebuild<U> {
    type Snapshot = BlockingSnapshot<U::Snapshot>;

    fn copy(
        &self,
        from: &Self::Snapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError> {
        if old.start > old.end || old.end > from.meta().len {
            return Err(self.invalid("copy to"));
        }
        let mut at = old.start;
        while at < old.end {
            let end = old.end.min(at + self.upload.part_bytes() as u64);
            let bytes = block_on(from.0.read(at..end))?;
            if bytes.is_empty() {
                return Err(self.invalid("copy to"));
            }
            self.write(new_start + (at - old.start), &bytes)?;
            at += bytes.len() as u64;
        }
        from.check_unchanged()
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let end = new_start.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(self.invalid("write"));
        }
        let part = self.upload.part_bytes();
        let (mut at, mut rest) = (new_start, bytes);
        while !rest.is_empty() {
            let within = (at % part as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(part - within));
            self.gather(at - within as u64, within, now)?;
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    fn commit(self, commit: Commit<'_, Self::Snapshot>) -> Result<Option<Version>, StoreError> {
        self.put_rest()?;
        block_on(self.upload.finish(commit.map(|old| &old.0)))
    }
}
