//! Flushes files to the disk, several at a time where that is cheaper.
//!
//! On most file systems, concurrent flushes share one write of the journal. On btrfs each flush writes its own journal,
//! and a flush of the whole file system costs hardly more. So flushes that wait there for a running flush are done
//! together next (docs/decisions/0005).

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs;
use rustix::io::Errno;

use crate::bytes::write_back;
use crate::kernel::lock;
use crate::kernel::system::System;

/// Flushes that may be done together, by the device of their file system.
#[derive(Debug, Default)]
pub(crate) struct FlushGroups(Mutex<HashMap<u64, Arc<FlushGroup>>>);

impl FlushGroups {
    /// Flushes a file or directory of a store on `system`, with the file metadata that is needed to find the data.
    ///
    /// # Errors
    /// The error of `fsync`: written data may be lost.
    pub(crate) fn flush(&self, file: impl AsFd, system: System) -> Result<(), Errno> {
        self.flush_all(&[file.as_fd()], system).pop().expect("one file has one answer")
    }

    /// Flushes several files or directories of a store on `system`; returns the results in order.
    ///
    /// Write-back of all files starts before the first `fsync`, which then writes the journal for all of them.
    pub(crate) fn flush_all(
        &self,
        files: &[BorrowedFd<'_>],
        system: System,
    ) -> Vec<Result<(), Errno>> {
        let each = || match files {
            [only] => vec![fs::fsync(only)],
            _ => {
                let begun: Vec<_> = files.iter().map(|file| write_back::start(*file)).collect();
                files.iter().zip(begun).map(|(file, begun)| fs::fsync(file).and(begun)).collect()
            }
        };
        let device = if system.is_btrfs() { common_device(files) } else { None };
        let (Some(device), [first, ..]) = (device, files) else { return each() };
        let own = self.flush_group_of(device).flush(each, || fs::syncfs(first));
        // Another caller of `syncfs` may have received the error of this file, so each file is asked for its own error.
        own.unwrap_or_else(|| files.iter().map(|file| write_back::wait(*file)).collect())
    }

    /// Returns the flushes of the file system `device`.
    fn flush_group_of(&self, device: u64) -> Arc<FlushGroup> {
        Arc::clone(lock(&self.0).entry(device).or_default())
    }
}

/// Returns the device of these files, if all are on one device: `syncfs` flushes a single file system.
fn common_device(files: &[BorrowedFd<'_>]) -> Option<u64> {
    let mut devices = files.iter().map(|file| fs::fstat(file).ok().map(|stat| stat.st_dev));
    let first = devices.next()??;
    devices.all(|device| device == Some(first)).then_some(first)
}

/// Number of waiting flushes from which `syncfs` is cheaper.
const WORTHWHILE: usize = 4;

/// Longest wait for a running flush.
const PATIENCE: Duration = Duration::from_millis(20);

/// Flushes of one file system.
#[derive(Debug, Default)]
struct FlushGroup {
    state: Mutex<FlushState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FlushState {
    /// True while a flush runs that later callers wait for.
    busy: bool,
    /// Number of callers that wait for the next flush.
    waiting: usize,
    next: u64,
    /// Number of the last flush that ended, with true if that flush covered the files of all waiting callers.
    ended: Option<(u64, bool)>,
}

impl FlushGroup {
    /// Flushes the files of this caller with `own`, or the files of all waiting callers with `all`. Returns the result
    /// of `own`; `None` if `all` was called.
    fn flush<T>(
        &self,
        own: impl FnOnce() -> T,
        all: impl FnOnce() -> Result<(), Errno>,
    ) -> Option<T> {
        let mut state = lock(&self.state);
        let number = state.next;
        state.waiting += 1;
        let waits = |state: &mut FlushState| state.busy && state.next == number;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, waits);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.next > number {
            // Another thread began the flush that this caller waited for.
            let runs = |state: &mut FlushState| state.ended.is_none_or(|(ended, _)| ended < number);
            let ended = self.changed.wait_while(state, runs);
            let is_flushed = ended.unwrap_or_else(PoisonError::into_inner).ended;
            return (is_flushed != Some((number, true))).then(own);
        }
        if state.busy {
            // The running flush is of a long file, so this caller stops waiting.
            state.waiting -= 1;
            drop(state);
            return Some(own());
        }
        let waiting = std::mem::take(&mut state.waiting);
        (state.busy, state.next) = (true, number + 1);
        drop(state);
        self.changed.notify_all();
        // An error of `all` may belong to another caller's file. Each caller then flushes by `own`.
        let is_flushed = waiting >= WORTHWHILE && all().is_ok();
        let flushed = (!is_flushed).then(own);
        let mut state = lock(&self.state);
        (state.busy, state.ended) = (false, Some((number, is_flushed)));
        drop(state);
        self.changed.notify_all();
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    /// Runs this many threads that flush repeatedly; each flush takes some time.
    fn flushes(threads: usize, rounds: usize, all: fn() -> Result<(), Errno>) -> (usize, usize) {
        let (group, own, together) =
            (FlushGroup::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let written = AtomicUsize::new(0);
        let safe = AtomicUsize::new(0);
        let flush = || {
            let number = written.fetch_add(1, Ordering::SeqCst) + 1;
            let is_own = AtomicUsize::new(0);
            let one = || {
                own.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
                is_own.store(1, Ordering::Relaxed);
            };
            let every = || {
                together.fetch_add(1, Ordering::Relaxed);
                let before = written.load(Ordering::SeqCst);
                thread::sleep(Duration::from_millis(2));
                all().inspect(|()| _ = safe.fetch_max(before, Ordering::SeqCst))
            };
            group.flush(one, every);
            // The file was flushed by `own`, or by a flush of all that began after the write.
            assert!(is_own.load(Ordering::Relaxed) == 1 || safe.load(Ordering::SeqCst) >= number);
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..rounds).for_each(|_| flush()));
            }
        });
        (own.into_inner(), together.into_inner())
    }

    #[test]
    fn flushes_at_the_same_time_share_one() {
        let (own, together) = flushes(16, 20, || Ok(()));
        assert!(own + together < 16 * 20 && together > 0, "{own} {together}");
    }

    #[test]
    fn each_file_has_its_own_answer_whatever_it_is_on() {
        // `fsync` is invalid for files in `/proc`.
        let stat = openat(CWD, "/proc/self/stat", OFlags::RDONLY, Mode::empty()).unwrap();
        let (disk, told) = (tempfile::tempfile().unwrap(), stat);
        let (disk, told) = (disk.as_fd(), told.as_fd());
        let flushed = FlushGroups::default().flush_all(&[disk, told, disk], System::of(disk));
        assert_eq!(flushed, [Ok(()), Err(Errno::INVAL), Ok(())]);
        assert!(common_device(&[disk, disk]).is_some());
        assert_eq!(common_device(&[disk, told]), None);
        assert_eq!(common_device(&[]), None);
    }

    #[test]
    fn flushes_of_two_values_do_not_wait_for_each_other() {
        let [one, other] = [FlushGroups::default(), FlushGroups::default()];
        assert!(Arc::ptr_eq(&one.flush_group_of(1), &one.flush_group_of(1)));
        assert!(!Arc::ptr_eq(&one.flush_group_of(1), &other.flush_group_of(1)));
        assert!(!Arc::ptr_eq(&one.flush_group_of(1), &one.flush_group_of(2)));
    }

    #[test]
    fn one_alone_flushes_its_own_file() {
        assert_eq!(flushes(1, 20, || Ok(())), (20, 0));
    }

    #[test]
    fn an_error_of_all_is_nobodys_until_it_asks_for_its_own() {
        let (own, _) = flushes(16, 10, || Err(Errno::IO));
        assert_eq!(own, 160);
    }
}
