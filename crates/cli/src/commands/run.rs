//! Runs a plan while another thread reports it.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::report::Notice;

use crate::plan::Request;
use crate::report;
use crate::report::exit::{Exit, Troubles};
use crate::report::output::{self, Output};
use crate::report::question;
use crate::report::reporter::{Reporter, UiEvent, listen};
use crate::report::view::Live;

/// Runs one sync and reports it. Where the guard asks, `user` answers, by default the one at this terminal.
pub(super) fn sync(request: Request, user: Option<User>) -> (Result<Outcome, SyncError>, Exit) {
    let mut reporter = report::reporter(&request.plan, &request.view, output(&request));
    // There are thousands of them for one large file.
    let shows_progress = request.view.json || request.view.live != Live::Nothing;
    let (result, troubles) = watched(request.plan, user, shows_progress, &mut *reporter);
    let exit = Exit::of(&result, troubles);
    let written = reporter.finish(&result, exit);
    let exit = written.map_or_else(|error| unwritten(&error, exit), |()| exit);
    (result, exit)
}

/// The stream for a request's words.
pub(super) fn output(request: &Request) -> Output {
    if request.view.to_stderr { Output::stderr() } else { Output::stdout() }
}

/// Reports that words could not be written; returns the exit of such a command.
pub(super) fn unwritten(error: &io::Error, exit: Exit) -> Exit {
    output::complain_unwritten(error);
    if exit == Exit::Success { Exit::Files } else { exit }
}

/// Runs the plan here while `reporter` reports it on another thread.
pub(super) fn watched(
    plan: Plan,
    user: Option<User>,
    shows_progress: bool,
    reporter: &mut dyn Reporter,
) -> (Result<Outcome, SyncError>, Troubles) {
    let (sender, events) = sync_channel(WAITING_NOTICES);
    let user = user.unwrap_or_else(|| match plan.options.asks() {
        true => at_terminal(&sender),
        false => User::default(),
    });
    thread::scope(|scope| {
        let listen = move || listen(&events, reporter);
        let reporting = match thread::Builder::new().spawn_scoped(scope, listen) {
            Ok(reporting) => reporting,
            Err(error) => return (Err(SyncError::Thread(error)), Troubles::default()),
        };
        // The reporter ends by an event alone: who waits for an answer of the user keeps an end too.
        let over = Over { sender: &sender, reporter: reporting.thread().clone() };
        let result = deltic_net::run(plan, &user, &mut |notice| {
            if !shows_progress && matches!(notice, Notice::Settled { .. } | Notice::Wire { .. }) {
                return;
            }
            // The reporter looks now and then, and wakes up where more waits than there is room for.
            if let Err(TrySendError::Full(said)) = sender.try_send(UiEvent::Notice(notice)) {
                reporting.thread().unpark();
                sender.send(said).ok();
            }
        });
        drop(over);
        (result, reporting.join().expect("the reporter does not panic"))
    })
}

/// Ends the reporter when dropped, by a panic too: the scope waits for it.
struct Over<'a> {
    sender: &'a SyncSender<UiEvent>,
    reporter: thread::Thread,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.sender.send(UiEvent::Over).ok();
        self.reporter.unpark();
    }
}

/// The user at this terminal. The reporter shows the question: it knows what else is on the screen.
fn at_terminal(said: &SyncSender<UiEvent>) -> User {
    let said = said.clone();
    User::new(move |question| {
        if question::is_in_background() {
            return false;
        }
        question::forget_input();
        // A run that ends meanwhile has ended its reporter.
        said.send(UiEvent::Question(question.clone())).ok();
        let answer = question::answer();
        said.send(UiEvent::Answered).ok();
        answer
    })
}

/// Most notices between the run and the reporter.
const WAITING_NOTICES: usize = 512;
