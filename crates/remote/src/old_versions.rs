//! Old versions at the destination, from which the end that reads a remote system takes bytes instead of fetching them.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_net::plan::StoreTraffic;
use deltic_store::Snapshot;
use deltic_tree::RelPath;

use crate::shifted::{ShiftedRun, ShiftedUnits, read_exact};
use crate::{RemoteError, lock};

/// Most old versions that wait for the other end. Each one is an open file.
const MAX_WAITING: usize = 64;

/// Old versions that the receiver opened, until the sender reads the objects of the same paths; and counts of the units
/// that old versions have at other offsets.
#[derive(Default)]
pub(crate) struct OldVersions {
    waiting: Mutex<HashMap<RelPath, Box<dyn Snapshot>>>,
    units: AtomicU64,
    bytes: AtomicU64,
}

impl OldVersions {
    /// Lends the old version of the object at `path` to the sender. Replaces another one if many wait: the objects of
    /// some are never read.
    pub(crate) fn lend(&self, path: RelPath, old: Box<dyn Snapshot>) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= MAX_WAITING
            && !waiting.contains_key(&path)
            && let Some(other) = waiting.keys().next().cloned()
        {
            waiting.remove(&other);
        }
        waiting.insert(path, old);
    }

    /// Takes the old version of the object at `path`.
    pub(crate) fn take(&self, path: &RelPath) -> Option<Box<dyn Snapshot>> {
        lock(&self.waiting).remove(path)
    }

    /// Counts units that an old version has at another offset. Returns the number of bytes in these units.
    pub(crate) fn count(&self, found: &ShiftedUnits) -> u64 {
        let bytes = found.runs.iter().map(|run| run.new.end - run.new.start).sum();
        self.units.fetch_add(found.units, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// Returns the counts so far, with `received` bytes received from the store.
    pub(crate) fn counted(&self, received: u64) -> StoreTraffic {
        let [shifted_units, shifted_bytes] =
            [&self.units, &self.bytes].map(|count| count.load(Ordering::Relaxed));
        StoreTraffic { received, shifted_units, shifted_bytes }
    }
}

impl fmt::Debug for OldVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OldVersions")
    }
}

/// An old version, and the runs of an object that the old version has at other offsets.
pub(crate) struct OldCopy {
    old: Box<dyn Snapshot>,
    runs: Vec<ShiftedRun>,
}

impl OldCopy {
    /// Takes `runs` from `old`. Returns `None` without runs.
    pub(crate) fn new(old: Box<dyn Snapshot>, runs: Vec<ShiftedRun>) -> Option<Self> {
        (!runs.is_empty()).then_some(Self { old, runs })
    }

    /// True if bytes of `range` come from the old version.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let next = self.runs.partition_point(|run| run.new.end <= range.start);
        self.runs.get(next).is_some_and(|run| run.new.start < range.end)
    }

    /// Reads `range` of the object into `buf`: from the old version where a run has the bytes, else by `fetch`.
    ///
    /// # Errors
    /// [`RemoteError::Changed`] if the old version is shorter by now or unreadable, and errors of `fetch`.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        buf: &mut [u8],
        mut fetch: impl FnMut(Range<u64>, &mut [u8]) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let (mut at, mut rest) = (range.start, buf);
        let first = self.runs.partition_point(|run| run.new.end <= range.start);
        let mut runs = self.runs[first..].iter();
        while at < range.end {
            let run = runs.next().filter(|run| run.new.start < range.end);
            let start = run.map_or(range.end, |run| run.new.start.max(at));
            let end = run.map_or(range.end, |run| run.new.end.min(range.end));
            let (fetched, after) = rest.split_at_mut((start - at) as usize);
            if !fetched.is_empty() {
                fetch(at..start, fetched)?;
            }
            let (copied, after) = after.split_at_mut((end - start) as usize);
            if let Some(run) = run {
                read_exact(&*self.old, run.old + (start - run.new.start), copied)?;
            }
            (at, rest) = (end, after);
        }
        Ok(())
    }
}

impl fmt::Debug for OldCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OldCopy").field(&self.runs).finish()
    }
}
