//! `deltic sync`: plan, run, tell.

use std::io::{IsTerminal, stderr, stdout};
use std::sync::mpsc::sync_channel;
use std::thread;

use deltic_net::{Outcome, SyncError};
use deltic_protocol::report::Notice;

use crate::args::SyncArgs;
use crate::args::accepted::Unsupported;
use crate::events::Event;
use crate::exit::{Exit, Troubles};
use crate::levels::Unknown;
use crate::output::{self, Output};
use crate::plan::Request;
use crate::tell::{self, Teller};
use crate::view::{Live, Terminals};

use super::version;

/// Runs one sync to its end.
pub(crate) fn run(args: &SyncArgs) -> Exit {
    if args.show.version > 0 {
        return version::print(args.show.version);
    }
    let terminals = Terminals {
        stdout: stdout().is_terminal(),
        stderr: stderr().is_terminal(),
        plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
    };
    match Request::new(args, terminals) {
        Ok(request) => sync(&request),
        Err(refusal) => refuse(args, &refusal),
    }
}

fn refuse(args: &SyncArgs, refusal: &anyhow::Error) -> Exit {
    if let Some(Unknown::Help(text)) = refusal.downcast_ref() {
        return version::print_text(text);
    }
    if args.show.json {
        let mut output = Output::stdout();
        output.line(Event::refusal(refusal).line());
        output.flush();
    }
    let instead = refusal.downcast_ref::<Unsupported>().map(|unsupported| unsupported.instead);
    output::complain(&format!("{refusal:#}"), instead.or(Some("see `deltic sync --help`")));
    Exit::of_refusal(refusal)
}

fn sync(request: &Request) -> Exit {
    let output = if request.view.to_stderr { Output::stderr() } else { Output::stdout() };
    let mut teller = tell::teller(request, output);
    let (result, troubles) = watched(request, &mut *teller);
    let exit = Exit::of(&result, troubles);
    match teller.finish(&result, exit) {
        Ok(()) => exit,
        Err(error) => {
            output::complain(&format!("write standard output: {error}"), None);
            if exit == Exit::Success { Exit::Files } else { exit }
        }
    }
}

/// Runs the plan here while `teller` tells of it on another thread.
fn watched(request: &Request, teller: &mut dyn Teller) -> (Result<Outcome, SyncError>, Troubles) {
    let (sender, notices) = sync_channel(WAITING_NOTICES);
    // There are thousands of them for one large file.
    let shows_progress = request.view.json || request.view.live != Live::Nothing;
    thread::scope(|scope| {
        let telling = scope.spawn(move || tell::listen(&notices, teller));
        // The teller leaves only when we drop our end.
        let result = deltic_net::run(&request.plan, &mut |notice| {
            if shows_progress || !matches!(notice, Notice::Settled { .. }) {
                sender.send(notice).ok();
            }
        });
        drop(sender);
        telling.thread().unpark();
        (result, telling.join().expect("the teller does not panic"))
    })
}

/// Most notices between the run and the teller.
const WAITING_NOTICES: usize = 4096;
