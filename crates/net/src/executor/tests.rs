//! Tests of the threads that start on demand, and of the waiting jobs of sessions that end.

use std::sync::Barrier;
use std::sync::mpsc;

use super::*;

fn admit(executor: &Executor, compute: u32) -> Share {
    executor.admit(Budget { compute, ..Budget::default() })
}

#[test]
fn threads_start_when_there_is_work_for_them() {
    let executor = Executor::new(Limits { compute: 8, ..Limits::default() });
    let together = Barrier::new(3);
    let share = admit(&executor, 3);
    let width = share.budget().threads().min(3);
    let (mut pool, mut results) = SessionPool::new(share, move |works, results| {
        if width == 3 {
            together.wait();
        }
        results.extend(works);
    });
    assert_eq!(executor.usage().threads, 0);
    for work in 0..3 {
        assert!(pool.has_room(Cost::Heavy, 1));
        pool.accept(Cost::Heavy, work, 1);
    }
    pool.start().unwrap();
    // Each job waits for the two others.
    let done: Vec<_> = (0..3).map(|_| results.blocking_recv().unwrap()).collect();
    done.iter().for_each(|done| pool.note_results(done));
    let mut all: Vec<i32> = done.into_iter().flat_map(|done| done.results).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2]);
    assert!((1..=3).contains(&executor.usage().threads));
}

#[test]
fn threads_are_no_more_than_the_sessions_ask_for_and_the_limits_allow() {
    let limits = Limits { compute: 2, copies: 1, flushes: 3 };
    let executor = Executor::new(limits);
    let shares: Vec<_> = (0..50).map(|_| admit(&executor, 1)).collect();
    for share in &shares {
        for cost in &Cost::ALL[..5] {
            (0..10).for_each(|_| share.submit(*cost, || ()).unwrap());
        }
    }
    assert!(executor.usage().threads <= limits.threads(), "{executor:?}");
}

/// Keeps the only thread of a share busy until the returned sender is used or dropped.
fn hold(share: &Share) -> mpsc::Sender<()> {
    let ((go, gone), (begun, begins)) = (mpsc::channel::<()>(), mpsc::channel());
    let wait = move || {
        begun.send(()).unwrap();
        gone.recv().ok();
    };
    share.submit(Cost::Heavy, wait).unwrap();
    begins.recv().unwrap();
    go
}

/// Sends a message when it is dropped.
struct Held(mpsc::Sender<()>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send(()).ok();
    }
}

#[test]
fn what_a_cancelled_session_has_waiting_is_dropped_at_once_and_nothing_more_is_taken() {
    let executor = Executor::new(Limits::default());
    let share = admit(&executor, 1);
    let go = hold(&share);
    let (dropped, drops) = mpsc::channel();
    for _ in 0..10 {
        let held = Held(dropped.clone());
        share.submit(Cost::Heavy, move || panic!("{:?}", held.0)).unwrap();
    }
    assert_eq!((executor.usage().waiting, drops.try_iter().count()), (10, 0));
    share.cancel();
    assert_eq!((executor.usage().waiting, drops.try_iter().count()), (0, 10));
    share.submit(Cost::Heavy, || unreachable!("it is cancelled")).unwrap();
    drop(go);
    drop(share);
    assert_eq!(executor.usage().sessions, 0);
}

#[test]
fn a_pool_counts_what_is_under_way_and_ends_a_bundle_that_nobody_waits_for() {
    const PIECE: usize = 4 << 10;
    let executor = Executor::new(Limits::default());
    let budget = Budget { compute: 1, work_bytes: 3 * PIECE, ..Budget::default() };
    let share = executor.admit(budget);
    let go = hold(&share);
    let (mut pool, results) =
        SessionPool::<u32, u32>::new(share.clone(), |works, results| results.extend(works));
    let mut taken = 0;
    while pool.has_room(Cost::Light, PIECE) {
        pool.accept(Cost::Light, taken, PIECE);
        taken += 1;
    }
    assert_eq!((taken, share.pending_work()), (3, (3, 3 * PIECE)));
    assert!(!pool.has_room(Cost::Heavy, 1), "it would hold too much");
    pool.start().unwrap();
    drop((pool, results));
    assert_eq!(share.pending_work(), (0, 0));
    drop(go);
}

#[test]
fn a_job_that_panics_costs_no_thread() {
    let executor = Executor::new(Limits { compute: 1, ..Limits::default() });
    let share = admit(&executor, 1);
    share.submit(Cost::Light, || panic!("on purpose")).unwrap();
    let (say, said) = mpsc::channel();
    share.submit(Cost::Light, move || say.send(7).unwrap()).unwrap();
    assert_eq!(said.recv(), Ok(7));
}

/// Admits a session that gives way from its first byte on.
fn admit_bulk(executor: &Executor, compute: u32) -> Share {
    let share = executor.admit(Budget { compute, prompt_bytes: Some(0), ..Budget::default() });
    share.add_load(1);
    share
}

#[test]
fn sessions_with_much_work_do_not_delay_other_sessions() {
    let executor = Executor::new(Limits { compute: 1, copies: 1, ..Limits::default() });
    let hogs: Vec<_> = (0..4).map(|_| admit_bulk(&executor, 1)).collect();
    let held = hold(&hogs[0]);
    for hog in &hogs {
        for _ in 0..100 {
            hog.submit(Cost::Heavy, || ()).unwrap();
            hog.submit(Cost::Copy, || ()).unwrap();
        }
    }
    let small = admit(&executor, 1);
    let (say, said) = mpsc::channel();
    for cost in [Cost::Heavy, Cost::Copy] {
        let say = say.clone();
        small.submit(cost, move || say.send(cost).unwrap()).unwrap();
        assert_eq!(said.recv(), Ok(cost));
    }
    assert_eq!(executor.usage().waiting, 800, "the one that is held has the only thread for them");
    // The jobs of these sessions still run later.
    drop(held);
    let (done, finished) = mpsc::channel();
    hogs[3].submit(Cost::Heavy, move || done.send(()).unwrap()).unwrap();
    assert_eq!(finished.recv(), Ok(()));
}

#[test]
fn a_session_gives_way_once_it_has_brought_more_than_its_budget_says() {
    let executor = Executor::new(Limits { compute: 1, ..Limits::default() });
    let (share, own) = (
        executor.admit(Budget { prompt_bytes: Some(10), ..Budget::default() }),
        admit(&executor, 1),
    );
    let is_behind = |share: &Share| thread_of(share) != thread_of(&own);
    share.add_load(10);
    share.subtract_load(1, 10);
    assert!(!is_behind(&share));
    share.add_load(1);
    assert!(is_behind(&share));
    own.add_load(1 << 40);
    assert!(!is_behind(&own));
}

/// Returns the thread that computes for a session. All sessions that give way share one thread, and all others
/// another.
fn thread_of(share: &Share) -> std::thread::ThreadId {
    let (say, said) = mpsc::channel();
    share.submit(Cost::Heavy, move || say.send(std::thread::current().id()).unwrap()).unwrap();
    said.recv().unwrap()
}

#[test]
fn the_system_prefers_threads_of_those_that_brought_little() {
    let executor = Executor::new(Limits::default());
    let niceness = |share: &Share| {
        let (say, said) = mpsc::channel();
        let tell = move || say.send(getpriority_process(None).unwrap()).unwrap();
        share.submit(Cost::Heavy, tell).unwrap();
        said.recv().unwrap()
    };
    let own = niceness(&admit(&executor, 1));
    assert_eq!(own, getpriority_process(None).unwrap());
    let most = 19;
    assert_eq!(niceness(&admit_bulk(&executor, 1)), (own + GIVING_WAY).min(most));
}
