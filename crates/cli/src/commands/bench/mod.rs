//! `deltic bench`: what the parts of a sync cost on this machine and on the user's own data.

mod chunk;
mod cuts;
mod edits;
mod figure;
mod files;
mod inputs;
mod link;
mod machine;
mod median;
mod plots;
mod random;
mod report;
mod scale;
mod speed;
mod sync;
mod table;

use crate::exit::Exit;

/// Measure what the parts of a sync cost on this machine and your data
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to measure.
    #[command(subcommand)]
    bench: Bench,
}

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
enum Bench {
    Chunk(Box<chunk::Args>),
    Sync(Box<sync::Args>),
    #[command(hide = true)]
    Link(link::Args),
}

/// Measures what `args` say.
pub(crate) fn run(args: &Args) -> Exit {
    match &args.bench {
        Bench::Chunk(args) => chunk::run(args),
        Bench::Sync(args) => sync::run(args),
        Bench::Link(args) => link::run(args),
    }
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic bench chunk                              all chunkers on random bytes
  deltic bench sync                               whole syncs, on files made for it
  deltic bench sync --help                        every option";
