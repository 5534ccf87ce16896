//! Runs a plan, again after a lost connection, while another thread reports its progress.

mod deletions;
mod merging;
mod reporting;
mod retry;

use std::io;
use std::time::{Duration, Instant};

use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::report::Notice;

use self::deletions::RunDeletions;
use self::merging::RunNotices;
pub(super) use self::reporting::run_with_reporter;
use self::reporting::{EventSender, at_terminal, while_reporting};
use self::retry::{FailedAttempt, RetryObstacle, RetryState};
use super::install;
use crate::plan::SyncRequest;
use crate::report;
use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::report::reporter::{RetryNotice, RunEnding, UiEvent};
use crate::report::view::ProgressMode;

/// A function that runs a plan: [`deltic_net::run`], or a wrapper around it.
pub(super) type Runner<'a> =
    &'a mut dyn FnMut(Plan, &User, &mut (dyn FnMut(Notice) + Send)) -> Result<Outcome, SyncError>;

/// The result of a run, and the exit code of the command.
pub(super) struct FinishedRun {
    pub(super) result: Result<Outcome, SyncError>,
    pub(super) exit: Exit,
}

/// Runs one sync, and reports its progress and its result.
pub(super) fn sync(request: SyncRequest) -> FinishedRun {
    sync_by(request, None, &mut deltic_net::run)
}

/// Runs one sync by `run`. `user` answers questions about deletions, by default on this terminal.
///
/// The sync connects again, as one run with one report:
/// - after a lost connection; data that has arrived is not sent again,
/// - after the pause that a busy server asks for,
/// - if a server with a kept login is not reachable: the server may be restarting,
/// - after deltic was installed on a machine that had none.
pub(super) fn sync_by(request: SyncRequest, user: Option<User>, run: Runner<'_>) -> FinishedRun {
    let view = request.view.clone();
    let mut reporter = report::reporter(&request.plan, &view, output(&request));
    let shows_progress = view.json || view.live != ProgressMode::Nothing;
    let mut attempts = RunAttempts::new(request, run);
    let (result, troubles) = while_reporting(&mut *reporter, shows_progress, |events| {
        let user =
            user.unwrap_or_else(|| match attempts.request.plan.options.may_ask_before_deleting() {
                true => at_terminal(events),
                false => User::default(),
            });
        attempts.run(&user, events)
    });
    let exit = attempts.deletions.exit(Exit::of(&result, troubles));
    let hint = result.as_ref().err().and_then(|error| attempts.hint(error));
    let written = reporter.finish(&RunEnding { result: &result, exit, hint });
    attempts.deletions.report_held_back();
    let exit = written.map_or_else(|error| report_write_error(&error, exit), |()| exit);
    FinishedRun { result, exit }
}

/// The attempts of a run.
struct RunAttempts<'a> {
    request: SyncRequest,
    runner: Runner<'a>,
    obstacle: Option<RetryObstacle>,
    retries: RetryState,
    deletions: RunDeletions,
    notices: RunNotices,
    start: Instant,
}

impl<'a> RunAttempts<'a> {
    fn new(mut request: SyncRequest, runner: Runner<'a>) -> Self {
        let obstacle = RetryObstacle::of(&request);
        let may_retry = obstacle.is_none();
        let deletions = RunDeletions::of(&mut request, may_retry);
        let lists_removed_again = request.plan.moved.is_some();
        let notices = RunNotices::of(&request.plan.options, may_retry, lists_removed_again);
        let (retries, start) = (RetryState::new(request.retry.longest), Instant::now());
        Self { request, runner, obstacle, retries, deletions, notices, start }
    }

    /// Makes attempts until the run is over.
    fn run(&mut self, user: &User, events: &EventSender<'_>) -> Result<Outcome, SyncError> {
        let whole = self.request.plan.timeouts.whole;
        loop {
            let begun = Instant::now();
            let error = match self.attempt(user, events) {
                Ok(last) => return Ok(self.notices.outcome(&last, self.start.elapsed())),
                Err(error) => error,
            };
            if matches!(error, SyncError::NoRemoteProgram) && install::offer(&mut self.request) {
                continue;
            }
            let Some(pause) = self.pause(&error, begun.elapsed()) else { return Err(error) };
            events.send(UiEvent::Retry(RetryNotice { why: error.to_string(), pause }));
            if !deltic_net::wait_or_cancel(pause) {
                return Err(SyncError::Interrupted);
            }
            self.begin_again();
            self.request.plan.timeouts.whole =
                whole.map(|whole| whole.saturating_sub(self.start.elapsed()));
        }
    }

    fn attempt(&mut self, user: &User, events: &EventSender<'_>) -> Result<Outcome, SyncError> {
        let Self { request, runner, deletions, notices, .. } = self;
        runner(request.plan.clone(), user, &mut |notice| {
            deletions.note(&notice);
            if let Some(event) = notices.event(notice) {
                events.send(event);
            }
        })
    }

    /// Returns the pause before another attempt, after an attempt of duration `took`. `None` if the run is over.
    fn pause(&mut self, error: &SyncError, took: Duration) -> Option<Duration> {
        let (was_heard, made_progress) = (self.notices.was_heard(), self.notices.made_progress());
        let attempt = FailedAttempt { error, took, was_heard, made_progress };
        match self.obstacle {
            None => self.retries.pause(&self.request, attempt),
            Some(_) => None,
        }
    }

    /// Prepares another attempt.
    fn begin_again(&mut self) {
        let SyncRequest { plan, retry, ways, .. } = &mut self.request;
        self.notices.begin_again(plan.failed_traffic.take_counts(), &mut plan.options);
        self.deletions.limit(&mut plan.options, *ways);
        retry.ask_nothing(&mut plan.remote.shell);
    }

    /// Returns the hint for the error that ended the run.
    fn hint(&self, error: &SyncError) -> Option<String> {
        let hint = self.request.view.hint(error);
        let obstacle = self.obstacle.filter(|_| error.is_lost_connection());
        match (obstacle.and_then(RetryObstacle::words), hint) {
            (Some(words), Some(hint)) => Some(format!("{words}; {hint}")),
            (_, hint) => hint,
        }
    }
}

/// Returns the stream for the output of a request.
pub(super) fn output(request: &SyncRequest) -> Output {
    if request.view.to_stderr { Output::stderr() } else { Output::stdout() }
}

/// Reports that output could not be written; returns the exit code of the command.
pub(super) fn report_write_error(error: &io::Error, exit: Exit) -> Exit {
    output::complain_unwritten(error);
    if exit == Exit::Success { Exit::Files } else { exit }
}
