//! `deltic sync`: plan, run, tell.

use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::report::Notice;

use crate::args::SyncArgs;
use crate::args::accepted::Unsupported;
use crate::plan::{BadOperand, Request};
use crate::report::events::Event;
use crate::report::exit::{Exit, Troubles};
use crate::report::output::{self, Output};
use crate::report::question;
use crate::report::tell::{self, Said, Teller};
use crate::report::view::{Live, Terminals};
use crate::words::levels::Unknown;

use super::{batch, version};

/// Where to look for what the words of a sync mean.
pub(crate) const HELP: &str = "see `deltic sync --help`";

/// Runs one sync to its end.
pub(crate) fn run(args: &SyncArgs) -> Exit {
    match asked(args, HELP) {
        Ok(Request { batch: Some(batch), plan, view }) => {
            batch::run(&batch, Request { plan, view, batch: None }).unwrap_or_else(
                |(exit, error)| {
                    refuse(args, HELP, &error);
                    exit
                },
            )
        }
        Ok(request) => sync(request, None).1,
        Err(exit) => exit,
    }
}

/// What the words ask for; the way out where that is no sync. `help` says where more is said of them.
pub(super) fn asked(args: &SyncArgs, help: &'static str) -> Result<Request, Exit> {
    if args.show.version > 0 {
        return Err(version::print(args.show.version, args.show.verbose > 0));
    }
    let terminals = Terminals {
        stdout: stdout().is_terminal(),
        stderr: stderr().is_terminal(),
        stdin: stdin().is_terminal(),
        plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
    };
    let mut request =
        Request::new(args, terminals).map_err(|refusal| refuse(args, help, &refusal))?;
    request.view.help = help;
    Ok(request)
}

pub(super) fn refuse(args: &SyncArgs, help: &'static str, refusal: &anyhow::Error) -> Exit {
    if let Some(Unknown::Help(text)) = refusal.downcast_ref() {
        return if args.show.quiet { Exit::Success } else { version::print_text(text) };
    }
    if args.show.json {
        let mut output = Output::stdout();
        output.line(Event::refusal(refusal).line());
        output.flush();
    }
    let exit = Exit::of_refusal(refusal);
    let instead = refusal.downcast_ref::<Unsupported>().map(|unsupported| unsupported.instead);
    // Words that make sense need no explanation.
    let is_file = refusal.chain().any(|cause| cause.is::<std::io::Error>());
    let is_words = exit != Exit::Files && !is_file && !refusal.is::<BadOperand>();
    let help = Some(help).filter(|_| is_words);
    let what = output::words(refusal);
    let blamed = args.applied.blame(&what);
    output::complain(&what, instead.or(blamed.as_deref()).or(help));
    exit
}

/// Runs one sync and tells of it; how it ended. Where the guard asks, `user` answers, by default the one at this terminal.
pub(super) fn sync(request: Request, user: Option<User>) -> (Result<Outcome, SyncError>, Exit) {
    let mut teller = tell::teller(&request, output(&request));
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
