//! `deltic completions`: what a shell needs to complete our words, from the same declarations as the words.

use clap_complete::Shell;

use super::version;
use crate::args;
use crate::report::exit::Exit;

/// Print completions for a shell
///
/// Write them where the shell looks for such:
///
///   deltic completions bash > ~/.local/share/bash-completion/completions/deltic
///   deltic completions zsh  > ~/.zfunc/_deltic
///   deltic completions fish > ~/.config/fish/completions/deltic.fish
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
    /// Under which name: as rsync it completes what `deltic sync` takes
    #[arg(long, default_value = "deltic", value_parser = ["deltic", "rsync"])]
    name: String,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(&args.name), &args.name, &mut script);
    version::print_text(&String::from_utf8_lossy(&script))
}

/// What is completed: nothing that is internal.
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
