//! Runs many requests on a few threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Number of threads.
const AT_ONCE: usize = 8;

/// Calls `call` on each item, on several threads, and returns the results in the order of `all`. If a thread cannot be
/// started, the calling thread does its share.
///
/// # Errors
/// The error of the first failed item in the order of `all`. After an error no further call begins.
pub(crate) fn map_parallel<T: Sync, R: Send, E: Send>(
    all: &[T],
    call: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let is_over = AtomicBool::new(false);
    let run = |part: &[T]| -> Result<Vec<R>, E> {
        let mut said = Vec::with_capacity(part.len());
        for one in part {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            said.push(call(one).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?);
        }
        Ok(said)
    };
    let run = &run;
    thread::scope(|scope| {
        let start = |part| {
            let thread = thread::Builder::new().name("ask".into());
            thread.spawn_scoped(scope, move || run(part)).map_err(|_| part)
        };
        let share = all.len().div_ceil(AT_ONCE).max(1);
        let parts: Vec<_> = all.chunks(share).map(start).collect();
        let mut said = Vec::with_capacity(all.len());
        for part in parts {
            said.extend(match part {
                Ok(thread) => thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why)),
                Err(part) => run(part),
            }?);
        }
        Ok(said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_the_order_of_the_questions() {
        for count in [0, 1, AT_ONCE, AT_ONCE + 1, 100] {
            let all: Vec<usize> = (0..count).collect();
            let said = map_parallel(&all, |no| Ok::<_, ()>(*no));
            assert_eq!(said, Ok(all));
        }
    }

    #[test]
    fn after_an_error_nothing_more_is_asked() {
        let all: Vec<usize> = (0..10_000).collect();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let said = map_parallel(&all, |no| {
            asked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(std::time::Duration::from_millis(1));
            if *no == 0 { Err("no") } else { Ok(()) }
        });
        assert_eq!(said, Err("no"));
        assert!(asked.into_inner() < 5000);
    }
}
