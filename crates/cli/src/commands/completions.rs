//! `deltic completions`: what a shell needs to complete our words, from the same declarations as the words.

use clap_complete::Shell;

use super::version;
use crate::args;
use crate::exit::Exit;

/// Print completions for a shell
///
/// Write them where the shell looks for such:
///
///   deltic completions bash > ~/.local/share/bash-completion/completions/deltic
///   deltic completions zsh  > ~/.zfunc/_deltic
///   deltic completions fish > ~/.config/fish/completions/deltic.fish
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "deltic", &mut script);
    version::print_text(&String::from_utf8_lossy(&script))
}
