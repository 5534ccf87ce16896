//! `deltic sync`: plan, run, tell.

use std::io::{IsTerminal, stderr, stdin, stdout};

use super::run::sync;
use super::{batch, version};
use crate::args::sync::{HELP, SyncArgs};
use crate::plan::{BadOperand, Request, Terminals};
use crate::report::events::Event;
use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::words::levels::Unknown;
use crate::words::refused::Unsupported;

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

/// Makes the request that the words ask for; ends with the exit where that is no sync. `help` says where more is said.
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
    let exit = Exit::after_refusal(refusal);
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
