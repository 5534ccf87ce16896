//! How long a run may take, or be silent, before this end gives up.

use std::time::{Duration, Instant};

use crate::error::SyncError;
use crate::plan::Patience;
use crate::transport::Counters;

/// Longest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Ends when there is nothing more to wait for; never, where `patience` has no end.
pub(crate) async fn run_out(patience: &Patience, counters: &Counters) -> SyncError {
    let start = Instant::now();
    let (mut seen, mut since) = (0, start);
    loop {
        let now = Instant::now();
        let heard = counters.traffic().received;
        // What we send says nothing of the other end: a pipe takes it whether or not somebody reads.
        if heard != seen || counters.is_behind() {
            (seen, since) = (heard, now);
        }
        let waits = Waits { whole: now - start, silent: now - since, unheard: heard == 0 };
        if let Some(error) = over(patience, &waits) {
            return error;
        }
        tokio::time::sleep(pause(patience)).await;
    }
}

/// How long a run has waited, and for what.
struct Waits {
    whole: Duration,
    silent: Duration,
    /// Nothing has come yet.
    unheard: bool,
}

fn over(patience: &Patience, waits: &Waits) -> Option<SyncError> {
    let past = |limit: Option<Duration>, waited| limit.is_some_and(|limit| waited >= limit);
    if past(patience.whole, waits.whole) {
        Some(SyncError::TimeUp)
    } else if waits.unheard && past(patience.answer, waits.whole) {
        Some(SyncError::NoAnswerInTime)
    } else if past(patience.silence, waits.silent) {
        Some(SyncError::Silence)
    } else {
        None
    }
}

/// Looks are rare where nothing is waited for.
fn pause(patience: &Patience) -> Duration {
    let shortest = [patience.silence, patience.answer, patience.whole].into_iter().flatten().min();
    shortest.map_or(Duration::from_secs(3600), |limit| (limit / 8).min(LOOK_EVERY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_own_end() {
        let second = |n| Some(Duration::from_secs(n));
        let all = Patience { silence: second(10), answer: second(5), whole: second(60) };
        let ended = |patience: &Patience, whole, silent, unheard| {
            let (whole, silent) = (Duration::from_secs(whole), Duration::from_secs(silent));
            over(patience, &Waits { whole, silent, unheard }).map(|error| error.to_string())
        };
        let said = |error: SyncError| Some(error.to_string());
        assert_eq!(ended(&all, 4, 4, true), None);
        assert_eq!(ended(&all, 5, 5, true), said(SyncError::NoAnswerInTime));
        assert_eq!(ended(&all, 30, 9, false), None);
        assert_eq!(ended(&all, 30, 10, false), said(SyncError::Silence));
        assert_eq!(ended(&all, 60, 0, false), said(SyncError::TimeUp));
        assert_eq!(ended(&Patience::default(), 1 << 30, 1 << 30, true), None);
    }
}
