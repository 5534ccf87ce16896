//! `deltic completions`: what a shell needs to complete our words, from the same declarations as the words.

use super::version;
use crate::args::{self, tools::CompletionsArgs};
use crate::report::exit::Exit;

/// Prints them.
pub(crate) fn run(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(&args.name), &args.name, &mut script);
    version::print_text(&String::from_utf8_lossy(&script))
}

/// The command that is completed, without what is internal.
fn completed(name: &str) -> clap::Command {
    let all = args::command();
    match all.find_subcommand("sync").filter(|_| name == "rsync") {
        Some(sync) => sync.clone().name("rsync"),
        None => {
            let shown = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
            let deltic = clap::Command::new("deltic").version(env!("CARGO_PKG_VERSION"));
            deltic.disable_help_subcommand(true).subcommands(shown)
        }
    }
}
