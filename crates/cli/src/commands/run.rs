//! Runs a plan while another thread tells of it.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::report::Notice;

use crate::plan::Request;
use crate::report::exit::{Exit, Troubles};
use crate::report::output::{self, Output};
use crate::report::question;
use crate::report::tell::{self, Said, Teller};
use crate::report::view::Live;

/// Runs one sync and tells of it; how it ended. Where the guard asks, `user` answers, by default the one at this terminal.
pub(super) fn sync(request: Request, user: Option<User>) -> (Result<Outcome, SyncError>, Exit) {
    let mut teller = tell::teller(&request.plan, &request.view, output(&request));
    // There are thousands of them for one large file.
    let shows_progress = request.view.json || request.view.live != Live::Nothing;
    let (result, troubles) = watched(request.plan, user, shows_progress, &mut *teller);
    let exit = Exit::of(&result, troubles);
    let written = teller.finish(&result, exit);
    let exit = written.map_or_else(|error| unwritten(&error, exit), |()| exit);
    (result, exit)
}

/// Where a request's words go.
pub(super) fn output(request: &Request) -> Output {
    if request.view.to_stderr { Output::stderr() } else { Output::stdout() }
}

/// How a command ends whose words could not be written.
pub(super) fn unwritten(error: &io::Error, exit: Exit) -> Exit {
    output::complain_unwritten(error);
    if exit == Exit::Success { Exit::Files } else { exit }
}

/// Runs the plan here while `teller` tells of it on another thread.
pub(super) fn watched(
    plan: Plan,
    user: Option<User>,
    shows_progress: bool,
    teller: &mut dyn Teller,
) -> (Result<Outcome, SyncError>, Troubles) {
    let (sender, said) = sync_channel(WAITING_NOTICES);
    let user = user.unwrap_or_else(|| match plan.options.asks() {
        true => at_terminal(&sender),
        false => User::default(),
    });
    thread::scope(|scope| {
        let tell = move || tell::listen(&said, teller);
        let telling = match thread::Builder::new().spawn_scoped(scope, tell) {
            Ok(telling) => telling,
            Err(error) => return (Err(SyncError::Thread(error)), Troubles::default()),
        };
        // The teller leaves when it is told to: who waits for an answer of the user keeps an end too.
        let over = Over { sender: &sender, teller: telling.thread().clone() };
        let result = deltic_net::run(plan, &user, &mut |notice| {
            if !shows_progress && matches!(notice, Notice::Settled { .. } | Notice::Wire { .. }) {
                return;
            }
            // The teller looks now and then, and wakes up where more waits than there is room for.
            if let Err(TrySendError::Full(said)) = sender.try_send(Said::Notice(notice)) {
                telling.thread().unpark();
                sender.send(said).ok();
            }
        });
        drop(over);
        (result, telling.join().expect("the teller does not panic"))
    })
}

/// Tells the teller when dropped, by a panic too, that the run is over: the scope waits for it.
struct Over<'a> {
    sender: &'a SyncSender<Said>,
    teller: thread::Thread,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.sender.send(Said::Over).ok();
        self.teller.unpark();
    }
}

/// The user at this terminal. The teller shows the question: it knows what else is on the screen.
fn at_terminal(said: &SyncSender<Said>) -> User {
    let said = said.clone();
    User::new(move |question| {
        if question::is_in_background() {
            return false;
        }
        question::forget_input();
        // A run that ends meanwhile has ended its teller.
        said.send(Said::Question(question.clone())).ok();
        let answer = question::answer();
        said.send(Said::Answered).ok();
        answer
    })
}

/// Most notices between the run and the teller.
const WAITING_NOTICES: usize = 512;
