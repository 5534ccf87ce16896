//! `deltic sync`: plan, run, tell.

use std::io::{IsTerminal, stderr, stdout};
use std::sync::mpsc::sync_channel;
use std::thread;

use deltic_net::{Outcome, SyncError};
use deltic_protocol::report::Notice;

use crate::args::SyncArgs;
use crate::events::Event;
use crate::exit::{Exit, Troubles};
use crate::output::{self, Output};
use crate::plan::{Live, Request, Terminals};
use crate::tell::{self, Teller};

/// Runs one sync to its end.
pub(crate) fn run(args: &SyncArgs) -> Exit {
    let terminals = Terminals { stdout: stdout().is_terminal(), stderr: stderr().is_terminal() };
    match Request::new(args, terminals) {
        Ok(request) => sync(&request),
        Err(refusal) => refuse(args, &refusal),
    }
}

fn refuse(args: &SyncArgs, refusal: &anyhow::Error) -> Exit {
    if args.json {
        let mut output = Output::stdout();
        output.line(&Event::refusal(refusal).line());
        output.flush();
    }
    output::complain(&format!("{refusal:#}"), Some("see `deltic sync --help`"));
    Exit::Usage
}

fn sync(request: &Request) -> Exit {
    let mut teller = tell::teller(request, Output::stdout());
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
    // Each would wake the teller, thousands of times for one large file.
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
        (result, telling.join().expect("the teller does not panic"))
    })
}

/// Most notices between the run and the teller.
const WAITING_NOTICES: usize = 4096;
