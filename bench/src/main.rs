//! Deltic and its peers side by side: what a sync costs, and what survives when it is killed or the disk is full.
//!
//! Every subcommand runs the real programs through pipes, prints a table and writes it to `bench/out`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "these programs talk to a terminal")]

mod again;
mod data;
mod e2e;
mod enospc;
mod files;
mod kill;
mod measured;
mod peer;
mod processes;
mod relay;
mod release;
mod run;
mod size;
mod table;
mod tree;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(name = "bench", version, about)]
enum Program {
    /// One changed file: time, processor time, memory, bytes each way
    E2e(e2e::Options),
    /// One large file that changes a little before each of many syncs
    Again(again::Options),
    /// A tree of real files: first copy, no change, a few files edited
    Tree(tree::Options),
    /// SIGKILL at random moments, then the same sync again
    Kill(kill::Options),
    /// Syncs onto a nearly full disk (root only)
    Enospc(enospc::Options),
    /// Run a command and write what it cost to FILE
    #[command(hide = true)]
    Measured(Wrapped),
    /// Run a command behind pipes that count what passes into FILE
    #[command(hide = true)]
    Relay(Wrapped),
}

#[derive(clap::Args)]
struct Wrapped {
    file: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    run(Program::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(program: Program) -> Result<ExitCode> {
    match program {
        Program::E2e(options) => e2e::e2e(&options)?,
        Program::Again(options) => again::again(&options)?,
        Program::Tree(options) => tree::tree(&options)?,
        Program::Kill(options) => kill::kill(&options)?,
        Program::Enospc(options) => enospc::enospc(&options)?,
        Program::Measured(Wrapped { file, command }) => {
            return Ok(measured::measured(&file, &command)?.into());
        }
        Program::Relay(Wrapped { file, command }) => {
            return Ok(relay::relay(&file, &command)?.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}
