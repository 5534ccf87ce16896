//! Ends a run that takes too long, or whose other end is silent for too long.

use std::time::Duration;

use deltic_protocol::limits::MAX_MUTE_SECONDS;
use tokio::time::Instant;

use crate::error::SyncError;
use crate::plan::SessionTimeouts;
use crate::transport::Counters;

/// Longest time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until a limit is exceeded. Returns the error of that limit. Waits for ever if `timeouts` has no limits.
pub(crate) async fn wait_for_timeout(timeouts: &SessionTimeouts, counters: &Counters) -> SyncError {
    let start = Instant::now();
    let (mut heard, mut heard_at) = (0, start);
    let (mut moved, mut moved_at) = ((0, 0), start);
    loop {
        let now = Instant::now();
        let traffic = counters.traffic();
        // Sent bytes prove nothing: a pipe accepts bytes even if the other end does not read.
        if traffic.received != heard || counters.is_busy() {
            (heard, heard_at) = (traffic.received, now);
        }
        // Signs of life and echoes alone do not keep a session alive for ever.
        let moves = (counters.progress_count(), counters.sent_unasked());
        if moves != moved || counters.is_busy() {
            (moved, moved_at) = (moves, now);
        }
        let (silent, mute) = (now - heard_at, now - moved_at);
        let waits = Waits { whole: now - start, silent, mute, unheard: heard == 0 };
        if let Some(error) = exceeded_limit(timeouts, &waits) {
            return error;
        }
        tokio::time::sleep(check_interval(timeouts)).await;
    }
}

/// Longest time with signs of life only. No file takes an end this long without another frame, but a disk that does not
/// respond may.
const LONGEST_MUTE: Duration = Duration::from_secs(MAX_MUTE_SECONDS);

/// The times that a run has waited so far.
struct Waits {
    whole: Duration,
    silent: Duration,
    /// Time since a frame other than a sign of life was sent or received.
    mute: Duration,
    /// True if no byte has been received yet.
    unheard: bool,
}

fn exceeded_limit(timeouts: &SessionTimeouts, waits: &Waits) -> Option<SyncError> {
    let past = |limit: Option<Duration>, waited| limit.is_some_and(|limit| waited >= limit);
    if past(timeouts.whole, waits.whole) {
        Some(SyncError::TimeUp)
    } else if waits.unheard && past(timeouts.answer, waits.whole) {
        Some(SyncError::NoAnswerInTime)
    } else if past(timeouts.silence, waits.silent)
        || timeouts.silence.is_some() && waits.mute >= LONGEST_MUTE
    {
        Some(SyncError::Silence)
    } else {
        None
    }
}

/// Returns the pause between two checks, which is long if there are no limits.
fn check_interval(timeouts: &SessionTimeouts) -> Duration {
    let shortest = [timeouts.silence, timeouts.answer, timeouts.whole].into_iter().flatten().min();
    shortest.map_or(Duration::from_secs(3600), |limit| (limit / 8).min(LOOK_EVERY))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes what is synced")]
mod tests {
    use super::*;
    use crate::executor::Budget;
    use std::sync::Arc;

    use deltic_protocol::hello::{Alive, MAGIC};
    use deltic_protocol::options::Options;
    use tokio::time::timeout;

    use crate::config::{Further, SessionConfig};
    use crate::greeting::hello;
    use crate::plan::{Plan, Sources};
    use crate::session::{Session, dial};
    use crate::transport::{Reader, Writer, memory};

    #[test]
    fn each_limit_has_its_own_end() {
        let second = |n| Some(Duration::from_secs(n));
        let all = SessionTimeouts { silence: second(10), answer: second(5), whole: second(60) };
        let ended = |timeouts: &SessionTimeouts, whole, silent, unheard| {
            let (whole, silent) = (Duration::from_secs(whole), Duration::from_secs(silent));
            let waits = Waits { whole, silent, mute: silent, unheard };
            exceeded_limit(timeouts, &waits).map(|error| error.to_string())
        };
        let said = |error: SyncError| Some(error.to_string());
        assert_eq!(ended(&all, 4, 4, true), None);
        assert_eq!(ended(&all, 5, 5, true), said(SyncError::NoAnswerInTime));
        assert_eq!(ended(&all, 30, 9, false), None);
        assert_eq!(ended(&all, 30, 10, false), said(SyncError::Silence));
        assert_eq!(ended(&all, 60, 0, false), said(SyncError::TimeUp));
        assert_eq!(ended(&SessionTimeouts::default(), 1 << 30, 1 << 30, true), None);
    }

    #[test]
    fn a_peer_that_says_for_a_day_that_it_lives_and_nothing_else_is_silent() {
        let silence = Some(Duration::from_secs(60));
        let ended = |silence, mute| {
            let (timeouts, mute) =
                (SessionTimeouts { silence, ..SessionTimeouts::default() }, mute);
            let waits = Waits { whole: 2 * mute, silent: Duration::ZERO, mute, unheard: false };
            exceeded_limit(&timeouts, &waits).is_some()
        };
        assert!(!ended(silence, LONGEST_MUTE - Duration::from_secs(1)));
        assert!(ended(silence, LONGEST_MUTE));
        assert!(!ended(None, LONGEST_MUTE));
    }

    /// Passes batches from one end to the other. After the first batch that it `swallows`, only signs of life pass.
    async fn relay(from: Reader, to: Writer, swallows: impl Fn(usize) -> bool) {
        let (Reader::Memory(mut from), Writer::Memory(to)) = (from, to) else {
            unreachable!("both ends are in memory")
        };
        for count in 0.. {
            let Some(batch) = from.recv().await else { return };
            if (!swallows(count) || batch == Alive.encode()) && to.send(batch).await.is_err() {
                return;
            }
        }
    }

    /// Sends a byte of `said` each second, and keeps the stream open.
    async fn trickle(said: Vec<u8>, to: Writer) {
        let Writer::Memory(to) = to else { unreachable!("both ends are in memory") };
        for byte in said {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if to.send(vec![byte]).await.is_err() {
                return;
            }
        }
        to.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_does_not_greet_is_given_up_whatever_it_says_meanwhile() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let greeting = [&MAGIC[..], &hello(&Budget::default()).encode()].concat();
        let alive = [&greeting[..], &Alive.encode().repeat(1000)].concat();
        for said in [Vec::new(), greeting, alive] {
            let (near, far) = memory();
            tokio::spawn(trickle(said.clone(), near.writer));
            let config = SessionConfig {
                further: Further::Answer { dirs: Vec::new() },
                ..SessionConfig::default()
            };
            let served = Session::new(far, config).serve(&mut |_| ()).await;
            assert!(matches!(served, Err(SyncError::NoAnswerInTime)), "{served:?}");
            drop(near.reader);
            for pulls in [true, false] {
                let (near, far) = memory();
                tokio::spawn(trickle(said.clone(), far.writer));
                let sources = match pulls {
                    true => Sources::Remote { host: "there".into(), paths: vec!["x".into()] },
                    false => Sources::Local(vec![dir.path().into()]),
                };
                let plan = Plan::plain(sources, dir.path().join("dst"), Options::default());
                let dialled =
                    dial(Session::new(near, SessionConfig::default()), plan, &mut |_| ()).await;
                assert!(matches!(dialled, Err(SyncError::NoAnswerInTime)), "{pulls} {dialled:?}");
                drop(far.reader);
            }
        }
    }

    /// The receiver's requests get lost, so each end waits for the other.
    #[tokio::test]
    async fn two_ends_that_wait_for_each_other_give_up() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let [source, destination] = ["src", "dst"].map(|name| dir.path().join(name));
        std::fs::create_dir(&source).expect("it is empty");
        std::fs::write(source.join("file"), [7; 100_000]).expect("it is new");
        let ((ours, near), (far, theirs)) = (memory(), memory());
        tokio::spawn(relay(near.reader, far.writer, |_| false));
        // The greeting passes.
        tokio::spawn(relay(far.reader, near.writer, |count| count > 1));
        let options = Options { recursive: true, silence: 1, ..Options::default() };
        let plan = Plan::plain(Sources::Local(vec![source]), destination, options);
        let serving =
            async { Session::new(theirs, SessionConfig::default()).serve(&mut |_| ()).await };
        let dialling = async {
            let config = SessionConfig::default();
            let counters = Arc::clone(&config.counters);
            let session = Session::new(ours, config);
            let (timeouts, mut watch) = (plan.timeouts, |_| ());
            tokio::select! {
                result = dial(session, plan, &mut watch) => result,
                error = wait_for_timeout(&timeouts, &counters) => Err(error),
            }
        };
        let both = async { tokio::join!(Box::pin(dialling), Box::pin(serving)) };
        let (dialled, served) = timeout(Duration::from_secs(30), both).await.expect("they end");
        assert!(dialled.is_err() && served.is_err(), "{dialled:?} {served:?}");
    }
}
