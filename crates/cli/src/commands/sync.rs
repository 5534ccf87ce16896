//! `deltic sync`: plans, runs and reports a sync.

use std::io::{IsTerminal, stderr, stdin, stdout};

use super::run::sync;
use super::{batch, version};
use crate::args::sync::{HELP, SyncArgs};
use crate::plan::{SyncRequest, Terminals};
use crate::report::events::JsonEvent;
use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::words::levels::UnknownItem;
use crate::words::refused::Unsupported;

/// Runs one sync.
pub(crate) fn run(args: &SyncArgs) -> Exit {
    match build_request(args) {
        Ok(mut request) => match request.batch.take() {
            Some(batch) => batch::run(&batch, request).unwrap_or_else(|(exit, error)| {
                refuse(args, &error);
                exit
            }),
            None => sync(request).exit,
        },
        Err(exit) => exit,
    }
}

/// Builds the request from the arguments. Prints the version, or the refusal of invalid arguments.
///
/// # Errors
/// The exit code, if there is no sync to run.
pub(super) fn build_request(args: &SyncArgs) -> Result<SyncRequest, Exit> {
    if args.show.version > 0 {
        return Err(version::print(args.show.version, args.show.verbose > 0));
    }
    let terminals = Terminals {
        stdout: stdout().is_terminal(),
        stderr: stderr().is_terminal(),
        stdin: stdin().is_terminal(),
        plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
    };
    SyncRequest::new(args, terminals).map_err(|refusal| refuse(args, &refusal))
}

pub(super) fn refuse(args: &SyncArgs, refusal: &anyhow::Error) -> Exit {
    if let Some(UnknownItem::Help(text)) = refusal.downcast_ref() {
        return if args.show.quiet { Exit::Success } else { version::print_text(text) };
    }
    if args.show.json {
        let mut output = Output::stdout();
        output.line(JsonEvent::refusal(refusal).line());
        output.flush();
    }
    let exit = Exit::after_refusal(refusal);
    let instead = refusal.downcast_ref::<Unsupported>().map(|unsupported| unsupported.instead);
    let what = output::words(refusal);
    let blamed = args.applied.origin_of_error(&what);
    let hint = match refusal.downcast_ref() {
        Some(UnknownItem::Item { option, .. }) => Some(format!("`{option}=help` lists the items")),
        // Operands that are present have their own error message.
        _ => args.operands.is_empty().then(|| HELP.into()),
    };
    output::complain(&what, instead.or(blamed.as_deref()).or(hint.as_deref()));
    exit
}
