//! Decides whether a failed attempt of a run is followed by another attempt, and when.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use deltic_net::SyncError;
use deltic_net::plan::remote_host;
use deltic_protocol::options::Append;

use crate::plan::SyncRequest;

/// The reason why a run does not connect again after its connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryObstacle {
    /// There is no other machine.
    Local,
    /// The user wants no other attempt.
    Refused,
    /// The run writes or reads a batch.
    Batch,
    /// `--append`: another attempt would take bytes that an attempt appended for bytes that were there before.
    Append,
}

impl RetryObstacle {
    /// Returns the obstacle of a request, if any.
    pub(super) fn of(request: &SyncRequest) -> Option<Self> {
        let SyncRequest { plan, retry, .. } = request;
        match () {
            () if remote_host(&plan.sources, &plan.destination).is_none() => Some(Self::Local),
            () if retry.longest == Some(Duration::ZERO) => Some(Self::Refused),
            () if plan.batch.is_some() => Some(Self::Batch),
            () if plan.options.writing.append != Append::Never => Some(Self::Append),
            () => None,
        }
    }

    /// Returns the message about an obstacle, if the user may not expect the obstacle.
    pub(super) const fn words(self) -> Option<&'static str> {
        match self {
            Self::Local | Self::Refused => None,
            Self::Batch => Some("a run with a batch does not connect again by itself"),
            Self::Append => Some("a run with --append does not connect again by itself"),
        }
    }
}

/// A failed attempt of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedAttempt<'a> {
    pub(super) error: &'a SyncError,
    pub(super) took: Duration,
    /// True if bytes of the other end arrived.
    pub(super) was_heard: bool,
    /// True if the attempt settled more than the attempts before it.
    pub(super) made_progress: bool,
}

/// Attempts of a run so far.
#[derive(Debug)]
pub(super) struct RetryState {
    /// Longest time without progress; `None` for no limit.
    longest: Option<Duration>,
    /// Time without progress so far.
    spent: Duration,
    /// The next pause.
    next: Duration,
    /// True once the other end has answered.
    has_answered: bool,
}

impl RetryState {
    /// Returns the state of a run that ends after the time `longest` without progress, if there is a limit.
    pub(super) const fn new(longest: Option<Duration>) -> Self {
        Self { longest, spent: Duration::ZERO, next: FIRST_PAUSE, has_answered: false }
    }

    /// Returns the pause before another attempt. `None` if the run is over.
    pub(super) fn pause(
        &mut self,
        request: &SyncRequest,
        attempt: FailedAttempt<'_>,
    ) -> Option<Duration> {
        let is_lost = self.is_lost(request.plan.dial.is_some(), attempt);
        let wait = match attempt.error {
            SyncError::Busy { wait, .. } => *wait,
            // Without a login for the address, the address of a first attempt may be wrong.
            SyncError::Dial { source, .. }
                if self.has_answered || has_stored_login(request) && is_server_absent(source) =>
            {
                Duration::ZERO
            }
            _ if is_lost => Duration::ZERO,
            _ => return None,
        };
        let starts_again = attempt.made_progress || is_lost && !self.has_answered;
        self.has_answered = true;
        self.pause_after(attempt.took, starts_again, wait)
    }

    /// True if the attempt lost a connection that worked before. False if the host was never reached, or if the program
    /// failed by itself: another attempt would fail too.
    fn is_lost(&self, is_server: bool, attempt: FailedAttempt<'_>) -> bool {
        match attempt.error {
            SyncError::Disconnected(_)
            | SyncError::Transport { .. }
            | SyncError::StreamLost
            | SyncError::Silence => is_server || self.has_answered || attempt.was_heard,
            SyncError::ShellEnded(status) => !is_own_failure(*status),
            SyncError::NoAnswer(status) => self.has_answered && !is_own_failure(*status),
            SyncError::NoAnswerInTime => self.has_answered,
            _ => false,
        }
    }

    /// Counts an attempt of duration `took`, or `starts_again` to count. Returns the pause before another attempt, at
    /// least `wait`; `None` if that would be too late.
    fn pause_after(
        &mut self,
        took: Duration,
        starts_again: bool,
        wait: Duration,
    ) -> Option<Duration> {
        match starts_again {
            true => (self.spent, self.next) = (Duration::ZERO, FIRST_PAUSE),
            false => self.spent += took,
        }
        let pause = self.next.max(wait);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        self.spent += pause;
        self.longest.is_none_or(|longest| self.spent <= longest).then_some(pause)
    }
}

/// True for the exit status of a Deltic that failed by itself: a bug, which another attempt would meet again.
fn is_own_failure(status: ExitStatus) -> bool {
    matches!(status.code(), Some(11 | 101))
}

fn has_stored_login(request: &SyncRequest) -> bool {
    request.plan.dial.as_ref().is_some_and(|dial| dial.is_kept)
}

/// True for errors of a server that is starting again. A host without an address and a key that is not trusted give
/// other errors.
fn is_server_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, TimedOut, UnexpectedEof,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | TimedOut
            | UnexpectedEof
    )
}

/// Pauses before another attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::travel::RetryLimits;

    fn state() -> RetryState {
        RetryState::new(RetryLimits::default().longest)
    }

    #[test]
    fn a_server_is_waited_for_as_long_as_it_says_but_not_for_ever() {
        let secs = Duration::from_secs;
        let longest = RetryLimits::default().longest.unwrap();
        // A server that puts off each attempt, even after a while.
        for took in [0, 9, 30] {
            let (mut state, mut spent) = (state(), Duration::ZERO);
            while let Some(pause) = state.pause_after(secs(took), false, secs(1)) {
                assert!(pause >= secs(1));
                spent += secs(took) + pause;
            }
            assert!(spent <= longest, "{took}: {spent:?}");
        }
        assert_eq!(state().pause_after(Duration::ZERO, false, longest), Some(longest));
        assert_eq!(state().pause_after(Duration::ZERO, false, longest + secs(1)), None);
        // Progress gives the full time again.
        let mut state = state();
        state.pause_after(Duration::ZERO, false, secs(50));
        assert_eq!(state.pause_after(secs(3_000), true, Duration::ZERO), Some(FIRST_PAUSE));
        let mut endless = RetryState::new(None);
        assert!(endless.pause_after(secs(1 << 40), false, Duration::ZERO).is_some());
    }

    #[test]
    fn only_a_connection_that_worked_is_made_again() {
        use std::os::unix::process::ExitStatusExt;
        let (fresh, mut answered) = (state(), state());
        answered.has_answered = true;
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let lost = |state: &RetryState, error: SyncError, was_heard| {
            let (took, made_progress) = (Duration::ZERO, false);
            state.is_lost(false, FailedAttempt { error: &error, took, was_heard, made_progress })
        };
        let cut = || SyncError::Disconnected(String::new());
        assert!(!lost(&fresh, cut(), false) && lost(&fresh, cut(), true));
        assert!(lost(&answered, cut(), false));
        for (code, is_lost) in [(255, true), (12, true), (0, true), (11, false), (101, false)] {
            assert_eq!(lost(&fresh, SyncError::ShellEnded(exit(code)), false), is_lost, "{code}");
            assert!(!lost(&fresh, SyncError::NoAnswer(exit(code)), false), "{code}");
            assert_eq!(lost(&answered, SyncError::NoAnswer(exit(code)), false), is_lost, "{code}");
        }
        for error in [
            SyncError::Refused(String::new()),
            SyncError::Damaged,
            SyncError::NoRemoteProgram,
            SyncError::TimeUp,
            SyncError::Interrupted,
        ] {
            let shown = error.to_string();
            assert!(!lost(&answered, error, true), "{shown}");
        }
    }
}
