//! Benchmarks of Deltic: chunkers and whole syncs inside this process, and comparisons with other programs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

mod chunk;
mod exit;
mod figure;
mod files;
mod inputs;
mod machine;
mod median;
mod papers;
mod programs;
mod progress;
mod random;
mod scale;
mod serve;
mod sessions;
mod size;
mod sync;
mod table;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use deltic_core::Isa;

use exit::{Exit, complain, words};
use machine::ISA_VARIABLE;
use programs::{
    again, e2e, enospc, kill, link, measured, relay, remote, skysync, storage, sums, tree,
};

/// Measure the cost of the parts of a sync on this machine and your data
#[derive(Parser)]
#[command(name = "deltic-bench", version, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
enum Program {
    Chunk(Box<chunk::ChunkArgs>),
    Sync(Box<sync::BenchSyncArgs>),
    Papers(Box<papers::PapersArgs>),
    /// Sync a changed file with each program: time, processor time, memory, bytes each way
    E2e(e2e::E2eOptions),
    /// Sync a large file many times, with a small change before each sync
    Again(again::AgainOptions),
    /// Sync a disk image on btrfs many times, with some blocks changed before each sync (root only)
    Storage(storage::StorageOptions),
    /// Sync a slightly changed file from a remote store, compared with a plain download
    Remote(Box<remote::RemoteOptions>),
    /// Read the block sums that btrfs keeps, compared with computing them (root only)
    Sums(sums::SumsOptions),
    /// Repeat SkySync's figures with the sums that btrfs keeps, and with computed sums (root only)
    Skysync(Box<skysync::SkysyncOptions>),
    /// Sync a tree of real files: first copy, no change, a few files edited
    Tree(tree::TreeOptions),
    /// Kill syncs at random moments (SIGKILL), then run each sync again
    Kill(kill::KillOptions),
    Sessions(sessions::SessionsOptions),
    Serve(serve::ServeOptions),
    /// Sync to a nearly full disk (root only)
    Enospc(enospc::EnospcOptions),
    /// Compare default options with fixed choices and with rsync, over simulated links
    Link(link::LinkOptions),
    #[command(hide = true)]
    FarEnd(sync::link::LinkCommandArgs),
    /// Run a command and write its cost to FILE
    #[command(hide = true)]
    Measured(WrappedCommand),
    /// Run a command behind pipes, and count the bytes of both directions in FILE
    #[command(hide = true)]
    Relay(WrappedCommand),
}

#[derive(clap::Args)]
struct WrappedCommand {
    file: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(refusal) => {
            let exit = if refusal.use_stderr() { Exit::Usage } else { Exit::Success };
            // An error of the message itself cannot be reported.
            let _ = refusal.print();
            return exit.into();
        }
    };
    if let Err(unknown) = prefer_isa() {
        complain(&format!("{ISA_VARIABLE}: {unknown}"), None);
        return Exit::Usage.into();
    }
    run(program).unwrap_or_else(|error| {
        complain(&words(&error), None);
        ExitCode::FAILURE
    })
}

fn run(program: Program) -> Result<ExitCode> {
    match program {
        Program::Chunk(args) => return Ok(chunk::run(&args).into()),
        Program::Sync(args) => return Ok(sync::run(&args).into()),
        Program::Papers(args) => return Ok(papers::run(&args).into()),
        Program::FarEnd(args) => return Ok(sync::link::run(&args).into()),
        Program::E2e(options) => e2e::e2e(&options)?,
        Program::Again(options) => again::again(&options)?,
        Program::Storage(options) => storage::storage(&options)?,
        Program::Remote(options) => remote::remote(&options)?,
        Program::Sums(options) => sums::sums(&options)?,
        Program::Skysync(options) => skysync::skysync(&options)?,
        Program::Tree(options) => tree::tree(&options)?,
        Program::Kill(options) => kill::kill(&options)?,
        Program::Link(options) => link::link(&options)?,
        Program::Sessions(options) => sessions::sessions(&options)?,
        Program::Serve(options) => serve::serve(&options)?,
        Program::Enospc(options) => enospc::enospc(&options)?,
        Program::Measured(WrappedCommand { file, command }) => {
            return Ok(measured::measured(&file, &command)?.into());
        }
        Program::Relay(WrappedCommand { file, command }) => {
            return Ok(relay::relay(&file, &command)?.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes chunkers use the instruction set in [`ISA_VARIABLE`], as `deltic` does.
fn prefer_isa() -> Result<(), <Isa as std::str::FromStr>::Err> {
    if let Some(name) = std::env::var_os(ISA_VARIABLE).filter(|name| !name.is_empty()) {
        name.to_string_lossy().parse::<Isa>()?.prefer();
    }
    Ok(())
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic bench chunk                              all chunkers on random bytes
  deltic bench sync                               whole syncs, on files made for it
  deltic bench e2e --sizes 100MB --peers deltic,rsync
                                                  programs, one changed file
  deltic-bench papers --list                      figures and tables of the papers
  deltic bench sync --help                        every option";
