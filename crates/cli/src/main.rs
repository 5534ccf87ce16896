//! The program `deltic`.
//!
//! The command line becomes a plan ([`plan`]); later code sees only the plan. The library prints nothing and reads no
//! environment; only this crate does both.

mod args;
mod commands;
mod plan;
mod report;
mod words;

use std::process::ExitCode;

use args::{Command, settings};
use commands::start;
use deltic_net::SyncError;
use report::exit::Exit;
use report::{hint, output};

fn main() -> ExitCode {
    let parsed = args::read(std::env::args_os(), &settings::SettingSources::here());
    let is_far = parsed.as_ref().is_ok_and(|cli| matches!(cli.command, Command::Agent(_)));
    let stands_in = !is_far && output::behaves_like_rsync();
    if stands_in {
        start::warn_of_aliases();
    }
    let exit = match parsed {
        Ok(cli) => {
            cli.unread
                .iter()
                .for_each(|why| output::complain(&format!("no settings: {why}"), None));
            start::refuse_wrapper().or_else(start::prefer_isa).unwrap_or_else(|| run(cli.command))
        }
        Err(refusal) => start::explain(&refusal),
    };
    if exit != Exit::Success && stands_in {
        output::note(&format!("{}\n", output::ending(exit)));
    }
    exit.into()
}

fn run(command: Command) -> Exit {
    match command {
        Command::Sync(args) => commands::sync::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Ls(args) => ended_with(|| commands::look::list(&args)),
        Command::Cat(args) => ended_with(|| commands::look::cat(&args)),
        Command::Size(args) => ended_with(|| commands::look::size(&args)),
        Command::Signature(args) => ended(|| commands::signature::run(&args)),
        Command::Delta(args) => ended(|| commands::delta::run(&args)),
        Command::Patch(args) => ended(|| commands::patch::run(&args)),
        #[cfg(feature = "labs")]
        Command::Storage(args) => ended_with(|| commands::storage::run(&args)),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::man::complete(&args),
        Command::Man(args) => ended(|| commands::man::run(&args)),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Token(args) => ended(|| commands::token::run(&args)),
        Command::Login(args) => ended(|| commands::login::run(&args)),
        Command::Versions(args) => ended(|| commands::versions::list(&args)),
        Command::Restore(args) => ended_with(|| commands::versions::restore(&args)),
        Command::Install(args) => commands::install::run(&args),
        Command::Facts(args) => ended(|| commands::facts::run(&args)),
        Command::Agent(args) => commands::agent::run(&args),
    }
}

/// Runs a command that works on single files, and reports its error.
fn ended(command: impl FnOnce() -> anyhow::Result<()>) -> Exit {
    ended_with(|| command().map(|()| Exit::Success))
}

/// Runs a command that returns an exit code, and reports its error.
fn ended_with(command: impl FnOnce() -> anyhow::Result<Exit>) -> Exit {
    deltic_net::let_long_writes_fail();
    let error = match command() {
        Ok(exit) => return exit,
        Err(error) => error,
    };
    let of_sync = error.downcast_ref::<SyncError>();
    output::complain(&output::words(&error), of_sync.and_then(hint::of_dial));
    of_sync.map_or_else(|| Exit::from(&error), Exit::from)
}
