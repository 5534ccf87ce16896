//! The thread that reports a run, and the events for that thread.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, Thread};

use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::report::Notice;

use super::Runner;
use crate::report::exit::TroubleKinds;
use crate::report::question;
use crate::report::reporter::{Reporter, UiEvent, listen};

/// Passes the events of a run to the thread of its reporter.
pub(super) struct EventSender<'a> {
    sender: &'a SyncSender<UiEvent>,
    reporter: Thread,
    /// True if the reporter shows progress. A large file causes thousands of progress notices.
    shows_progress: bool,
}

impl EventSender<'_> {
    /// Passes on an event, unless nobody sees the event. Waits while the queue is full.
    pub(super) fn send(&self, event: UiEvent) {
        let is_progress =
            matches!(event, UiEvent::Notice(Notice::Settled { .. } | Notice::Wire { .. }));
        if is_progress && !self.shows_progress {
            return;
        }
        // The reporter polls the channel from time to time. Wake the reporter if the channel is full.
        if let Err(TrySendError::Full(event)) = self.sender.try_send(event) {
            self.reporter.unpark();
            self.sender.send(event).ok();
        }
    }
}

/// Ends the reporter when dropped, also on a panic: the thread scope waits for the reporter.
impl Drop for EventSender<'_> {
    fn drop(&mut self) {
        self.sender.send(UiEvent::Over).ok();
        self.reporter.unpark();
    }
}

/// Runs the plan by `run` on this thread, while `reporter` runs on another thread.
pub(in crate::commands) fn run_with_reporter(
    plan: Plan,
    run: Runner<'_>,
    reporter: &mut dyn Reporter,
) -> (Result<Outcome, SyncError>, TroubleKinds) {
    let asks = plan.options.may_ask_before_deleting();
    while_reporting(reporter, true, |events| {
        let user = if asks { at_terminal(events) } else { User::default() };
        run(plan, &user, &mut |notice| events.send(UiEvent::Notice(notice)))
    })
}

/// Does `work` on this thread, while `reporter` runs on another thread.
pub(super) fn while_reporting(
    reporter: &mut dyn Reporter,
    shows_progress: bool,
    work: impl FnOnce(&EventSender<'_>) -> Result<Outcome, SyncError>,
) -> (Result<Outcome, SyncError>, TroubleKinds) {
    let (sender, events) = sync_channel(WAITING_EVENTS);
    thread::scope(|scope| {
        let listen = move || listen(&events, reporter);
        let reporting = match thread::Builder::new().spawn_scoped(scope, listen) {
            Ok(reporting) => reporting,
            Err(error) => return (Err(SyncError::Thread(error)), TroubleKinds::default()),
        };
        // Only an event ends the reporter: a thread that waits for the user's answer still holds a sender.
        let reporter = reporting.thread().clone();
        let events = EventSender { sender: &sender, reporter, shows_progress };
        let result = work(&events);
        drop(events);
        (result, reporting.join().expect("the reporter does not panic"))
    })
}

/// Returns the user at this terminal. The reporter shows the question, because only the reporter knows the screen.
pub(super) fn at_terminal(events: &EventSender<'_>) -> User {
    let sender = events.sender.clone();
    User::new(move |question| {
        if question::is_in_background() {
            return false;
        }
        question::forget_input();
        // The reporter is gone if the run has ended meanwhile.
        sender.send(UiEvent::Question(question.clone())).ok();
        let answer = question::answer();
        sender.send(UiEvent::Answered).ok();
        answer
    })
}

/// Most events between the run and the reporter.
const WAITING_EVENTS: usize = 512;
