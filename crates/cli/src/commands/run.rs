//! Runs a plan while another thread reports its progress.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use deltic_net::plan::Sources;
use deltic_net::{MovedSources, Outcome, Plan, SyncError, User};
use deltic_protocol::options::{Delete, Missing, Options};
use deltic_protocol::report::{Action, Change, Notice};

use super::install;
use crate::plan::SyncRequest;
use crate::report;
use crate::report::exit::{Exit, TroubleKinds};
use crate::report::output::{self, Output};
use crate::report::question;
use crate::report::reporter::{Reporter, RunEnding, UiEvent, listen};
use crate::report::view::{OutputView, ProgressMode};
use crate::words::ways::Ways;

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
/// The sync runs again:
/// - after a lost connection to a server; data that has arrived is not sent again,
/// - after the pause that a busy server asks for,
/// - if a server with a kept login is not reachable: the server may be restarting,
/// - after deltic was installed on a machine that had none.
pub(super) fn sync_by(
    mut request: SyncRequest,
    user: Option<User>,
    run: Runner<'_>,
) -> FinishedRun {
    let (mut retries, mut deletions) = (RetryState::default(), RunDeletions::of(&mut request));
    loop {
        let begun = Instant::now();
        let attempt = RunAttempt::run(request.clone(), user.clone(), &mut |plan, user, watch| {
            run(plan, user, &mut |notice| {
                deletions.note(&notice);
                watch(notice);
            })
        });
        if matches!(attempt.result, Err(SyncError::NoRemoteProgram)) && install::offer(&mut request)
        {
            continue;
        }
        let pause = retries.pause(&request, &attempt.result, begun.elapsed());
        let finished = attempt.finish(&request.view, pause);
        let Some(pause) = pause else { return deletions.report_held_back(finished) };
        output::note(&format!("trying again in {:.1} s\n", pause.as_secs_f64()));
        if !deltic_net::pause(pause) {
            let interrupted = SyncError::Interrupted;
            output::complain(&interrupted.to_string(), request.view.hint(&interrupted).as_deref());
            let exit = Exit::from(&interrupted);
            return FinishedRun { result: Err(interrupted), exit };
        }
        deletions.limit(&mut request.plan.options, request.ways);
    }
}

/// Failed attempts of a run so far.
#[derive(Default)]
struct RetryState {
    absence: ServerAbsence,
    /// True once the server has answered.
    has_answered: bool,
}

impl RetryState {
    /// Returns the pause before another attempt, after an attempt of duration `took`. `None` if the run is over.
    fn pause(
        &mut self,
        request: &SyncRequest,
        result: &Result<Outcome, SyncError>,
        took: Duration,
    ) -> Option<Duration> {
        let is_cut =
            matches!(result, Err(SyncError::Disconnected(_) | SyncError::Transport { .. }));
        let wait = match result {
            Err(SyncError::Busy { wait, .. }) => Some(*wait),
            // Without a login for the address, the address of a first attempt may be wrong.
            Err(SyncError::Dial { source, .. })
                if self.has_answered || has_stored_login(request) && is_server_absent(source) =>
            {
                Some(Duration::ZERO)
            }
            _ => is_cut.then_some(Duration::ZERO),
        };
        self.has_answered |= wait.is_some();
        self.absence.add_attempt(took, is_cut);
        self.absence.pause(wait.filter(|_| may_retry(request))?)
    }
}

/// Deletions of a run over all of its connections. Limits of deletions count for the whole run.
#[derive(Debug, Default)]
struct RunDeletions {
    /// Names deleted over the last connection.
    deleted: u64,
    /// True if sources are removed after arrival.
    removes_sources: bool,
    /// True if another attempt lists the removed sources again. Sources at the other end are not known here, and
    /// directories that `--prune-empty-dirs` leaves out are not listed at all.
    lists_again: bool,
    /// True once deletions are held back, because another attempt cannot list the removed sources.
    held_back: bool,
}

impl RunDeletions {
    /// Starts without deletions. From now on the run notes each source removed from this machine; a later attempt
    /// lists these sources again.
    fn of(request: &mut SyncRequest) -> Self {
        let options = &request.plan.options;
        let removes_sources = options.remove.sources;
        let are_remote = matches!(request.plan.sources, Sources::Remote { .. });
        let lists_again = !are_remote && !options.select.prune_empty_dirs;
        if removes_sources && options.delete != Delete::Never && lists_again && may_retry(request) {
            request.plan.moved = Some(MovedSources::default());
        }
        Self { removes_sources, lists_again, ..Self::default() }
    }

    fn note(&mut self, notice: &Notice) {
        if let Notice::Changed(Change { action: Action::Deleted, .. }) = notice {
            self.deleted += 1;
        }
    }

    /// Limits the deletions of another attempt.
    fn limit(&mut self, options: &mut Options, ways: Ways) {
        options.delete = ways.deletions_again(options.delete);
        let deleted = std::mem::take(&mut self.deleted);
        if let Delete::AtMost(most) = &mut options.delete
            && *most < u64::MAX
        {
            *most = most.saturating_sub(deleted);
        }
        if self.removes_sources && !self.lists_again && options.delete != Delete::Never {
            options.delete = Delete::Never;
            self.held_back = true;
        }
        // An argument that this run removed is missing now.
        if self.removes_sources && options.select.missing == Missing::Delete {
            options.select.missing = Missing::Ignore;
            self.held_back = true;
        }
    }

    /// Reports deletions that were held back.
    fn report_held_back(self, mut finished: FinishedRun) -> FinishedRun {
        if !self.held_back {
            return finished;
        }
        output::complain(
            "nothing deleted: the connection was lost while sources were removed that had arrived, \
             and the remaining sources do not show which names to delete",
            None,
        );
        if finished.exit == Exit::Success {
            finished.exit = Exit::DeleteLimit;
        }
        finished
    }
}

/// Time for which a server has been absent, or has had no room.
struct ServerAbsence {
    spent: Duration,
    next: Duration,
}

impl Default for ServerAbsence {
    fn default() -> Self {
        Self { spent: Duration::ZERO, next: FIRST_PAUSE }
    }
}

impl ServerAbsence {
    /// Counts an attempt of duration `took`. A connection that was cut after a while resets the count.
    fn add_attempt(&mut self, took: Duration, is_cut: bool) {
        match is_cut && took > LONGEST_PAUSE {
            true => *self = Self::default(),
            false => self.spent += took,
        }
    }

    /// Returns the pause before another attempt, at least `wait`; `None` if that would be too late.
    fn pause(&mut self, wait: Duration) -> Option<Duration> {
        let pause = self.next.max(wait);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        self.spent += pause;
        (self.spent <= LONGEST_ABSENCE).then_some(pause)
    }
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

/// True if a lost connection is worth another attempt: to a server, without a batch, and without a program that reads
/// events.
fn may_retry(SyncRequest { plan, view, batch, .. }: &SyncRequest) -> bool {
    plan.dial.is_some() && plan.batch.is_none() && batch.is_none() && !view.json
}

/// A finished attempt of a run; its end is not reported yet.
struct RunAttempt {
    result: Result<Outcome, SyncError>,
    troubles: TroubleKinds,
    reporter: Box<dyn Reporter>,
}

impl RunAttempt {
    fn run(request: SyncRequest, user: Option<User>, run: Runner<'_>) -> Self {
        let mut reporter = report::reporter(&request.plan, &request.view, output(&request));
        // A large file causes thousands of progress notices.
        let shows_progress = request.view.json || request.view.live != ProgressMode::Nothing;
        let (result, troubles) =
            run_with_reporter(request.plan, run, user, shows_progress, &mut *reporter);
        Self { result, troubles, reporter }
    }

    /// Reports the end. If no other attempt follows, an error comes with a hint.
    fn finish(mut self, view: &OutputView, pause: Option<Duration>) -> FinishedRun {
        let exit = Exit::of(&self.result, self.troubles);
        let error = self.result.as_ref().err().filter(|_| pause.is_none());
        let hint = error.and_then(|error| view.hint(error));
        let written = self.reporter.finish(&RunEnding { result: &self.result, exit, hint });
        let exit = written.map_or_else(|error| report_write_error(&error, exit), |()| exit);
        FinishedRun { result: self.result, exit }
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

/// Runs the plan by `run` on this thread, while `reporter` runs on another thread.
pub(super) fn run_with_reporter(
    plan: Plan,
    run: Runner<'_>,
    user: Option<User>,
    shows_progress: bool,
    reporter: &mut dyn Reporter,
) -> (Result<Outcome, SyncError>, TroubleKinds) {
    let (sender, events) = sync_channel(WAITING_NOTICES);
    let user = user.unwrap_or_else(|| match plan.options.asks() {
        true => at_terminal(&sender),
        false => User::default(),
    });
    thread::scope(|scope| {
        let listen = move || listen(&events, reporter);
        let reporting = match thread::Builder::new().spawn_scoped(scope, listen) {
            Ok(reporting) => reporting,
            Err(error) => return (Err(SyncError::Thread(error)), TroubleKinds::default()),
        };
        // Only an event ends the reporter: a thread that waits for the user's answer still holds a sender.
        let guard = ReporterGuard { sender: &sender, reporter: reporting.thread().clone() };
        let result = run(plan, &user, &mut |notice| {
            if !shows_progress && matches!(notice, Notice::Settled { .. } | Notice::Wire { .. }) {
                return;
            }
            // The reporter polls the channel from time to time. Wake the reporter if the channel is full.
            if let Err(TrySendError::Full(said)) = sender.try_send(UiEvent::Notice(notice)) {
                reporting.thread().unpark();
                sender.send(said).ok();
            }
        });
        drop(guard);
        (result, reporting.join().expect("the reporter does not panic"))
    })
}

/// Ends the reporter when dropped, also on a panic: the thread scope waits for the reporter.
struct ReporterGuard<'a> {
    sender: &'a SyncSender<UiEvent>,
    reporter: thread::Thread,
}

impl Drop for ReporterGuard<'_> {
    fn drop(&mut self) {
        self.sender.send(UiEvent::Over).ok();
        self.reporter.unpark();
    }
}

/// Returns the user at this terminal. The reporter shows the question, because only the reporter knows the screen.
fn at_terminal(said: &SyncSender<UiEvent>) -> User {
    let said = said.clone();
    User::new(move |question| {
        if question::is_in_background() {
            return false;
        }
        question::forget_input();
        // The reporter is gone if the run has ended meanwhile.
        said.send(UiEvent::Question(question.clone())).ok();
        let answer = question::answer();
        said.send(UiEvent::Answered).ok();
        answer
    })
}

/// Pauses before another attempt, and the longest time for a server to come back.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_ABSENCE: Duration = Duration::from_secs(60);
/// Most notices between the run and the reporter.
const WAITING_NOTICES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_as_long_as_it_says_but_not_for_ever() {
        let secs = Duration::from_secs;
        // A server that puts off each attempt, even after a while.
        for took in [0, 9, 30] {
            let (mut absence, mut spent) = (ServerAbsence::default(), Duration::ZERO);
            loop {
                absence.add_attempt(secs(took), false);
                let Some(pause) = absence.pause(secs(1)) else { break };
                assert!(pause >= secs(1));
                spent += secs(took) + pause;
            }
            assert!(spent <= LONGEST_ABSENCE, "{took}: {spent:?}");
        }
        assert_eq!(ServerAbsence::default().pause(LONGEST_ABSENCE), Some(LONGEST_ABSENCE));
        assert_eq!(ServerAbsence::default().pause(LONGEST_ABSENCE + secs(1)), None);
        // A cut after a long attempt gives the full time again.
        let mut absence = ServerAbsence::default();
        absence.add_attempt(secs(3_000), true);
        assert_eq!(absence.pause(Duration::ZERO), Some(FIRST_PAUSE));
    }
}
