//! Frees old versions on threads of the executor, while the run goes on with the next file.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::Share;
use deltic_worker::drops::DropLater;
use deltic_worker::lock::lock;

/// Drops values on threads of the executor.
#[derive(Debug)]
pub(crate) struct DeferredDrop {
    share: Share,
    counted: Arc<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    counts: Mutex<Counts>,
    ended: Condvar,
}

/// Numbers of drops that have begun and that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    ended: u64,
}

impl DeferredDrop {
    pub(crate) fn new(share: Share) -> Self {
        Self { share, counted: Arc::default() }
    }
}

impl DropLater for DeferredDrop {
    /// Drops `what` on another thread, or on this thread if no thread can be started.
    fn drop_later(&self, what: Box<dyn Send>) {
        lock(&self.counted.counts).begun += 1;
        let going = PendingDrop(Arc::clone(&self.counted));
        self.share.drop_later((what, going));
    }

    fn ended_count(&self) -> u64 {
        lock(&self.counted.counts).ended
    }

    /// Waits until no drop is pending.
    fn wait_for_drops(&self) -> u64 {
        let goes = |counts: &mut Counts| counts.ended < counts.begun;
        let waited = self.counted.ended.wait_while(lock(&self.counted.counts), goes);
        waited.unwrap_or_else(PoisonError::into_inner).ended
    }
}

/// A drop under way. Counts the drop as ended when this value is dropped, even by a panic.
struct PendingDrop(Arc<Counted>);

impl Drop for PendingDrop {
    fn drop(&mut self) {
        lock(&self.0.counts).ended += 1;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;

    use crate::executor::{Budget, Executor};

    use deltic_store::StoreError;
    use deltic_tree::RelPath;

    fn deferred() -> Box<dyn DropLater> {
        Box::new(DeferredDrop::new(Executor::of_process().admit(Budget::default())))
    }

    /// A value that waits for a message when dropped.
    struct Old(mpsc::Receiver<()>);

    impl Drop for Old {
        fn drop(&mut self) {
            self.0.recv().ok();
        }
    }

    fn full() -> StoreError {
        let source = std::io::ErrorKind::StorageFull.into();
        StoreError::Full { action: "write", path: RelPath::root(), source }
    }

    #[test]
    fn work_without_room_waits_for_drops() {
        let deferred = deferred();
        let (tell, told) = mpsc::channel();
        deferred.drop_later(Box::new(Old(told)));
        let tries = Cell::new(0);
        let done = deferred.with_room(|| {
            tries.set(tries.get() + 1);
            if tries.get() == 1 {
                // The old value is dropped only after this work found no room.
                tell.send(()).unwrap();
                return Err(full());
            }
            Ok(tries.get())
        });
        assert_eq!(done.ok(), Some(2));
    }

    #[test]
    fn without_drops_there_is_no_second_try() {
        let deferred = deferred();
        let tries = Cell::new(0);
        let work = || {
            tries.set(tries.get() + 1);
            Err::<(), _>(full())
        };
        assert!(deferred.with_room(work).is_err());
        assert_eq!(tries.get(), 1);
    }
}
