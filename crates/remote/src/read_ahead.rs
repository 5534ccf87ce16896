//! Reads an object with several range requests in flight, ahead of the reader, and verifies unit checksums.
//!
//! `plan` announces the ranges to be read. A few threads fetch windows of these ranges in order; a window is kept until
//! the reader has read the window once. Windows become longer while answers come soon, because each request costs a
//! fixed time. Each read outside of the plan sends a separate request. If the plan covers a whole unit, the fetched
//! bytes must match the unit's checksum. After a mismatch every later read and `check` fail. Bytes that the old version
//! has at another offset are read there instead of fetched, and verified in the same way.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::RemoteError;
use crate::old_versions::OldCopy;
use crate::sums::{ContentSum, ObjectSums, SumHasher, pad};
use crate::system::{ObjectVersion, StorageSystem};

/// Bytes of the first requests for an object.
const WINDOW_BYTES: u64 = 2 << 20;
/// Most bytes of a request. A request takes twice the bytes of the previous request, if the previous answer came soon.
const MOST_WINDOW_BYTES: u64 = 16 << 20;
/// Longest time of a quick answer. After a quick answer the next request is longer, because each request has a fixed
/// cost.
const SOON: Duration = Duration::from_secs(2);
/// Most bytes that the windows of all objects hold beyond [`WINDOW_BYTES`] each.
const MOST_EXTRA_BYTES: u64 = 128 << 20;
/// Most windows of an object in flight or waiting for the reader.
const WINDOWS: usize = 8;
/// Most threads that fetch windows of an object.
const THREADS: usize = 4;
/// Ranges are widened to multiples of this length, in bytes.
const BLOCK: u64 = 4096;

/// A reader of an object that fetches ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    shared: Arc<SharedReads>,
}

#[derive(Debug)]
struct SharedReads {
    system: Arc<dyn StorageSystem>,
    path: String,
    object: ObjectVersion,
    state: Mutex<ReadState>,
    moved: Condvar,
    extra: ExtraBytes,
    /// The old version, if it has planned bytes at other offsets.
    old: OnceLock<OldCopy>,
}

/// Bytes that the windows of all objects of a tree hold beyond [`WINDOW_BYTES`] each.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraBytes(Arc<AtomicU64>);

/// Bytes taken from [`ExtraBytes`] until this value is dropped.
#[derive(Debug)]
struct ExtraShare(ExtraBytes, u64);

impl ExtraBytes {
    /// Takes `bytes`, if they stay below the limit.
    fn take(&self, bytes: u64) -> Option<ExtraShare> {
        let add = |held: u64| Some(held + bytes).filter(|held| *held <= MOST_EXTRA_BYTES);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(ExtraShare(self.clone(), bytes))
    }
}

impl Drop for ExtraShare {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct ReadState {
    /// Ranges not yet requested, ascending. Fetch windows are cut out of these ranges.
    queue: VecDeque<Range<u64>>,
    /// Windows by start offset.
    windows: BTreeMap<u64, FetchWindow>,
    /// Bytes of the next window; 0 stands for [`WINDOW_BYTES`].
    window_bytes: u64,
    check: SumCheck,
    /// A checksum mismatch. After a mismatch, no bytes of the object may be used.
    failed: Option<SumMismatch>,
    threads: usize,
    is_planned: bool,
    is_over: bool,
}

#[derive(Debug)]
struct FetchWindow {
    end: u64,
    bytes: WindowContent,
    /// Bytes that the reader took.
    taken: u64,
    /// The share of a window longer than [`WINDOW_BYTES`].
    _extra: Option<ExtraShare>,
}

impl FetchWindow {
    fn pending(QueuedWindow { range, extra }: QueuedWindow) -> Self {
        Self { end: range.end, bytes: WindowContent::Pending, taken: 0, _extra: extra }
    }
}

/// A window taken off the queue.
#[derive(Debug)]
struct QueuedWindow {
    range: Range<u64>,
    extra: Option<ExtraShare>,
}

#[derive(Debug)]
enum WindowContent {
    Pending,
    Ready(Arc<[u8]>),
    Failed(String),
    Changed,
}

impl ReadAhead {
    pub(crate) fn new(
        system: Arc<dyn StorageSystem>,
        path: String,
        object: ObjectVersion,
        extra: ExtraBytes,
    ) -> Self {
        let (state, moved) = (Mutex::default(), Condvar::new());
        let old = OnceLock::new();
        Self { shared: Arc::new(SharedReads { system, path, object, state, moved, extra, old }) }
    }

    /// Announces the ranges to be read, ascending and disjoint, the checksums to verify, and the old version that has
    /// some of the bytes. Only the first call has an effect.
    pub(crate) fn plan(&self, ranges: &[Range<u64>], sums: &ObjectSums, old: Option<OldCopy>) {
        let mut state = self.shared.lock();
        if std::mem::replace(&mut state.is_planned, true) {
            return;
        }
        if let Some(old) = old {
            self.shared.old.set(old).ok();
        }
        let len = self.shared.object.len;
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let start = range.start / BLOCK * BLOCK;
            let end = range.end.next_multiple_of(BLOCK).min(len);
            // Systems are never asked for an empty range.
            if range.is_empty() || start >= end {
                continue;
            }
            match joined.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => joined.push(start..end),
            }
        }
        state.check = SumCheck::new(&joined, sums, len);
        state.queue = joined.into();
    }

    /// True once `plan` was called.
    pub(crate) fn is_planned(&self) -> bool {
        self.shared.lock().is_planned
    }

    /// Fails if any fetched bytes did not match their checksum, whether read or not.
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        self.shared.lock().check_failed()
    }

    /// Reads from offset `start` into `buf`. Returns the number of bytes, fewer than `buf` only at the end of the
    /// object.
    pub(crate) fn read(&self, start: u64, buf: &mut [u8]) -> Result<usize, RemoteError> {
        let len = self.shared.object.len;
        let want = (len.saturating_sub(start)).min(buf.len() as u64) as usize;
        let mut got = 0;
        while got < want {
            let at = start + got as u64;
            let rest = &mut buf[got..want];
            got += match self.read_planned(at, rest)? {
                Some(some) => some,
                None => {
                    let some = rest.len().min(WINDOW_BYTES as usize);
                    let range = at..at + some as u64;
                    let SharedReads { system, path, object, .. } = &*self.shared;
                    system.read(path, object, range, &mut rest[..some])?;
                    some
                }
            };
        }
        Ok(got)
    }

    /// Copies bytes at offset `at` out of a window, after waiting for the fetch. `None` if `at` is outside of the plan.
    fn read_planned(&self, at: u64, buf: &mut [u8]) -> Result<Option<usize>, RemoteError> {
        let mut state = self.shared.lock();
        loop {
            state.check_failed()?;
            let is_queued = state.queue_index(at).is_some();
            let Some((&start, window)) = state.windows.range(..=at).next_back() else {
                match is_queued {
                    true => state = self.shared.wait_for(at, state),
                    false => return Ok(None),
                }
                continue;
            };
            if at >= window.end {
                match is_queued {
                    true => state = self.shared.wait_for(at, state),
                    false => return Ok(None),
                }
                continue;
            }
            match &window.bytes {
                WindowContent::Pending => {
                    self.shared.start_threads(&mut state);
                    state = self.shared.wait(state);
                }
                WindowContent::Changed => return Err(RemoteError::Changed),
                WindowContent::Failed(why) => return Err(RemoteError::Wrong(why.clone())),
                WindowContent::Ready(bytes) => {
                    let from = (at - start) as usize;
                    let some = buf.len().min(bytes.len() - from);
                    buf[..some].copy_from_slice(&bytes[from..from + some]);
                    self.shared.take(&mut state, start, some as u64);
                    return Ok(Some(some));
                }
            }
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        state.queue.clear();
    }
}

impl SharedReads {
    fn lock(&self) -> MutexGuard<'_, ReadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, ReadState>) -> MutexGuard<'a, ReadState> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change of the window that holds `at`. A reader out of order does not wait for room among the
    /// windows.
    fn wait_for<'a>(
        self: &'a Arc<Self>,
        at: u64,
        mut state: MutexGuard<'a, ReadState>,
    ) -> MutexGuard<'a, ReadState> {
        if state.windows.len() >= WINDOWS {
            // The windows held may be read only after this one.
            if let Some(window) = state.pop_at(at, &self.extra) {
                self.start_thread(&mut state, window);
            }
        }
        self.start_threads(&mut state);
        self.wait(state)
    }

    fn start_threads(self: &Arc<Self>, state: &mut ReadState) {
        while state.threads < THREADS && state.windows.len() + state.threads < WINDOWS {
            let Some(window) = state.pop(&self.extra) else { return };
            self.start_thread(state, window);
        }
    }

    fn start_thread(self: &Arc<Self>, state: &mut ReadState, window: QueuedWindow) {
        let range = window.range.clone();
        state.windows.insert(range.start, FetchWindow::pending(window));
        state.threads += 1;
        let shared = Arc::clone(self);
        let fetch = move || shared.fetch(range);
        if thread::Builder::new().name("fetch".into()).spawn(fetch).is_err() {
            state.threads -= 1;
            let failed = WindowContent::Failed("cannot start a thread".into());
            state.windows.values_mut().for_each(|window| {
                if matches!(window.bytes, WindowContent::Pending) {
                    window.bytes = WindowContent::Failed(String::new());
                }
            });
            if let Some(mut last) = state.windows.last_entry() {
                last.get_mut().bytes = failed;
            }
        }
    }

    /// Fetches a window, then further windows while there is room.
    fn fetch(self: Arc<Self>, mut range: Range<u64>) {
        loop {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            let start = Instant::now();
            let read = self.read(range.clone(), &mut bytes);
            let is_soon = start.elapsed() < SOON;
            let mut state = self.lock();
            state.resize(range.end - range.start, is_soon);
            let fetched = match read {
                Ok(()) => WindowContent::Ready(bytes.into()),
                Err(RemoteError::Changed) => WindowContent::Changed,
                Err(error) => WindowContent::Failed(error.to_string()),
            };
            if let Some(window) = state.windows.get_mut(&range.start) {
                window.bytes = fetched;
            }
            state.check_arrived(self.old.get());
            self.moved.notify_all();
            let has_room = state.windows.len() < WINDOWS && !state.is_over;
            let Some(next) = has_room.then(|| state.pop(&self.extra)).flatten() else {
                state.threads -= 1;
                return;
            };
            range = next.range.clone();
            state.windows.insert(range.start, FetchWindow::pending(next));
        }
    }

    /// Reads a range from the old version or the system.
    fn read(&self, range: Range<u64>, buf: &mut [u8]) -> Result<(), RemoteError> {
        let fetch = |range: Range<u64>, buf: &mut [u8]| {
            self.system.read(&self.path, &self.object, range, buf)
        };
        match self.old.get() {
            Some(old) => old.read(range, buf, fetch),
            None => fetch(range, buf),
        }
    }

    /// Counts `bytes` as read from the window at `start`, and drops a window that is read and verified.
    fn take(self: &Arc<Self>, state: &mut ReadState, start: u64, bytes: u64) {
        let checked = state.check.at();
        let Some(window) = state.windows.get_mut(&start) else { return };
        window.taken += bytes;
        if window.taken >= window.end - start && checked.is_none_or(|at| at >= window.end) {
            state.windows.remove(&start);
        }
        self.start_threads(state);
    }
}

impl ReadState {
    fn check_failed(&self) -> Result<(), RemoteError> {
        self.failed.as_ref().map_or(Ok(()), |mismatch| Err(mismatch.error()))
    }

    /// Index of the queued range that holds `at`.
    fn queue_index(&self, at: u64) -> Option<usize> {
        let found = self.queue.partition_point(|range| range.end <= at);
        self.queue.get(found).is_some_and(|range| range.start <= at).then_some(found)
    }

    /// Sets the length of the next window, after a window of `bytes` was fetched.
    fn resize(&mut self, bytes: u64, is_soon: bool) {
        let next = if is_soon { bytes * 2 } else { bytes / 2 };
        self.window_bytes = next.clamp(WINDOW_BYTES, MOST_WINDOW_BYTES);
    }

    /// Takes the first window off the queue.
    fn pop(&mut self, extra: &ExtraBytes) -> Option<QueuedWindow> {
        self.pop_at(self.queue.front()?.start, extra)
    }

    /// Takes the window that holds `at` off the queue. The window is short if other windows hold all extra bytes.
    fn pop_at(&mut self, at: u64, extra: &ExtraBytes) -> Option<QueuedWindow> {
        let found = self.queue_index(at)?;
        let range = self.queue.remove(found)?;
        let share = match self.window_bytes.saturating_sub(WINDOW_BYTES) {
            0 => None,
            more => extra.take(more),
        };
        let most = WINDOW_BYTES + share.as_ref().map_or(0, |share| share.1);
        let start = at - (at - range.start) % most;
        let end = range.end.min(start + most);
        for rest in [end..range.end, range.start..start] {
            if !rest.is_empty() {
                self.queue.insert(found, rest);
            }
        }
        Some(QueuedWindow { range: start..end, extra: share })
    }

    /// Verifies fetched windows that follow the bytes verified so far.
    fn check_arrived(&mut self, old: Option<&OldCopy>) {
        while let Some(at) = self.check.at() {
            let Some(window) = self.windows.get_mut(&at) else { return };
            let WindowContent::Ready(bytes) = &window.bytes else { return };
            let bytes = Arc::clone(bytes);
            let end = window.end;
            let is_done = window.taken >= end - at;
            if let Err(unit) = self.check.push(&bytes) {
                let is_of_old = old.is_some_and(|old| old.overlaps(&unit));
                self.failed = Some(SumMismatch { unit, is_of_old });
                return;
            } else if is_done {
                self.windows.remove(&at);
            }
        }
    }
}

/// A unit whose bytes do not match the checksum.
#[derive(Debug)]
struct SumMismatch {
    unit: Range<u64>,
    /// True if bytes of the unit came from the old version, which matched the checksum when it was searched.
    is_of_old: bool,
}

impl SumMismatch {
    fn error(&self) -> RemoteError {
        let Range { start, end } = self.unit;
        match self.is_of_old {
            true => RemoteError::Changed,
            false => RemoteError::Wrong(format!("checksum mismatch in bytes {start}–{end}")),
        }
    }
}

/// Verifies fetched bytes, in order, against unit checksums.
#[derive(Debug, Default)]
struct SumCheck {
    /// Ranges still to be verified; the first begins at the next byte.
    rest: VecDeque<Range<u64>>,
    /// Expected checksums in order: range, zeros to append, checksum.
    units: VecDeque<(Range<u64>, u64, ContentSum)>,
    summing: Option<PartialSum>,
}

struct PartialSum(SumHasher);

impl std::fmt::Debug for PartialSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Running")
    }
}

impl SumCheck {
    fn new(ranges: &[Range<u64>], sums: &ObjectSums, len: u64) -> Self {
        let (mut start, mut rest) = (0, ranges);
        let mut units = VecDeque::new();
        for unit in &sums.units {
            let range = start..start + unit.len;
            start = range.end;
            while rest.first().is_some_and(|first| first.end < range.end) {
                rest = &rest[1..];
            }
            if let Some(sum) = &unit.sum
                && sum.algorithm.summer().is_some()
                && rest.first().is_some_and(|first| first.start <= range.start)
            {
                units.push_back((range, unit.padded - unit.len, sum.clone()));
            }
        }
        let has_gaps = units.len() < sums.units.len().max(1);
        if let Some(sum) = &sums.whole
            && has_gaps
            && sum.algorithm.summer().is_some()
            && ranges.first() == Some(&(0..len))
            && len > 0
        {
            units = VecDeque::from([(0..len, 0, sum.clone())]);
        }
        let rest = if units.is_empty() { VecDeque::new() } else { ranges.to_vec().into() };
        Self { rest, units, summing: None }
    }

    /// Offset of the next byte to verify; `None` once no checksum is left.
    fn at(&self) -> Option<u64> {
        if self.units.is_empty() { None } else { self.rest.front().map(|range| range.start) }
    }

    /// Verifies the next bytes. Fails with the range of a unit whose bytes do not match.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Range<u64>> {
        let Some(front) = self.rest.front_mut() else { return Ok(()) };
        let (mut at, end) = (front.start, front.start + bytes.len() as u64);
        front.start = end;
        if front.start >= front.end {
            self.rest.pop_front();
        }
        let begin = at;
        while let Some((range, zeros, sum)) = self.units.front() {
            let (from, to) = (at.max(range.start), end.min(range.end));
            if from >= to {
                break;
            }
            let fresh = || sum.algorithm.summer().map(PartialSum);
            let Some(PartialSum(mut summer)) = self.summing.take().or_else(fresh) else { break };
            summer.push(&bytes[(from - begin) as usize..(to - begin) as usize]);
            at = to;
            if to < range.end {
                self.summing = Some(PartialSum(summer));
                break;
            }
            pad(&mut summer, *zeros);
            if summer.finish() != sum.bytes {
                return Err(range.clone());
            }
            self.units.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::bytes;
    use crate::shifted::{ShiftedRun, tests::BytesFile};
    use crate::system::SystemEntry;
    use crate::testing::MemorySystem;

    #[test]
    fn a_window_is_cut_out_of_the_queue_at_any_offset() {
        const W: u64 = WINDOW_BYTES;
        let mut state =
            ReadState { queue: [0..W * 4 + 1, W * 9..W * 9 + 5].into(), ..ReadState::default() };
        let none = ExtraBytes::default();
        let range = |window: QueuedWindow| window.range;
        assert_eq!(state.pop_at(W * 2 + 7, &none).map(range), Some(W * 2..W * 3));
        assert!(state.pop_at(W * 2 + 7, &none).is_none());
        assert!(state.pop_at(W * 9 + 5, &none).is_none());
        assert_eq!(state.queue, [0..W * 2, W * 3..W * 4 + 1, W * 9..W * 9 + 5]);
        let rest: Vec<_> = std::iter::from_fn(|| state.pop(&none)).map(range).collect();
        let ends = [(0, W), (W, W * 2), (W * 3, W * 4), (W * 4, W * 4 + 1), (W * 9, W * 9 + 5)];
        assert_eq!(rest, ends.map(|(start, end)| start..end));
    }

    #[test]
    fn bytes_come_from_the_old_version_and_are_verified() {
        const UNIT: u64 = 64 << 10;
        let new = bytes(UNIT as usize * 5, 1);
        let system = MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("img", &new);
        let Some(SystemEntry::Object(object)) = system.look("img").unwrap() else { panic!() };
        let system = Arc::new(system);
        let sums = system.sums("img", &object).unwrap();
        for is_right in [true, false] {
            let mut old = [b"before", &new[UNIT as usize..]].concat();
            old[6 + 2 * UNIT as usize] ^= u8::from(!is_right);
            let run = ShiftedRun { new: UNIT..UNIT * 4, old: 6 };
            let copy = OldCopy::new(Box::new(BytesFile::new(old)), vec![run]).unwrap();
            let (of, path) = (Arc::clone(&system) as Arc<dyn StorageSystem>, "img".to_owned());
            let ahead = ReadAhead::new(of, path, object.clone(), ExtraBytes::default());
            let before = system.received();
            ahead.plan(std::slice::from_ref(&(0..object.len)), &sums, Some(copy));
            let mut read = vec![0; new.len()];
            let ended = ahead.read(0, &mut read);
            assert_eq!(system.received() - before, UNIT * 2);
            match is_right {
                true => {
                    assert!(ended.unwrap() == new.len() && read == new && ahead.check().is_ok())
                }
                false => assert!(matches!(ahead.check(), Err(RemoteError::Changed))),
            }
        }
    }

    #[test]
    fn windows_grow_while_answers_come_soon_and_share_one_limit() {
        let extra = ExtraBytes::default();
        let mut state = ReadState::default();
        state.queue.push_back(0..1 << 40);
        let mut held: Vec<QueuedWindow> = Vec::new();
        for _ in 0..20 {
            let window = state.pop(&extra).unwrap();
            state.resize(window.range.end - window.range.start, true);
            held.push(window);
        }
        let bytes = |window: &QueuedWindow| (window.range.end - window.range.start) >> 20;
        let lens: Vec<_> = held.iter().map(bytes).collect();
        assert_eq!(lens[..5], [2, 4, 8, 16, 16]);
        assert_eq!(lens.iter().map(|len| len - 2).sum::<u64>(), MOST_EXTRA_BYTES >> 20, "{lens:?}");
        held.clear();
        state.resize(MOST_WINDOW_BYTES, true);
        assert_eq!(bytes(&state.pop(&extra).unwrap()), 16);
        state.resize(MOST_WINDOW_BYTES, false);
        assert_eq!(bytes(&state.pop(&extra).unwrap()), 8);
    }
}
