//! The options of `deltic bench`, `deltic completions` and `deltic man`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap_complete::Shell;

use super::command;

/// Measure what the parts of a sync cost on this machine and your data
///
/// Runs the program deltic-bench, which is installed apart from deltic: the one
/// beside this program, else the one in PATH.
///
///   deltic bench --help                             what can be measured
///   deltic bench chunk                              all chunkers on random bytes
///   deltic bench sync                               whole syncs, on files made for it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, disable_help_flag = true)]
pub(crate) struct BenchArgs {
    /// The words of deltic-bench
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Print completions for a shell
///
/// Write them where the shell looks for such:
///
///   deltic completions bash > ~/.local/share/bash-completion/completions/deltic
///   deltic completions zsh  > ~/.zfunc/_deltic
///   deltic completions fish > ~/.config/fish/completions/deltic.fish
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
    /// Under which name: as rsync it completes what `deltic sync` takes
    #[arg(long, default_value = "deltic", value_parser = ["deltic", "rsync"])]
    pub(crate) name: String,
}

/// Tell other users' syncs what changed in their files
///
/// Btrfs tells which parts of a file changed since the last sync, and most kernels
/// the sums of its blocks, but to CAP_SYS_ADMIN alone. This service has it, and
/// answers for files that whoever asks has open to read. All users may connect;
/// root alone starts it:
///
///   systemctl enable --now deltic-facts.socket
///   sudo deltic facts                               by hand
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FactsArgs {
    /// Listen here
    ///
    /// [default: /run/deltic/facts.sock]
    #[arg(long, value_name = "PATH", env = "DELTIC_FACTS_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
}

/// Print the manual page of a command, or write all pages
///
///   deltic man | man -l -
///   deltic man verify | man -l -
///   deltic man --dir ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArgs {
    /// Which command
    #[arg(value_name = "COMMAND", default_value = "sync", conflicts_with = "dir")]
    #[arg(value_parser = known)]
    pub(crate) command: String,
    /// Write the pages of all commands into DIR, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Checks that `name` is a command with a manual page. Returns the command's own name.
fn known(name: &str) -> Result<String, String> {
    let deltic = command();
    let command = deltic.find_subcommand(name).filter(|command| !command.is_hide_set());
    command.map(|command| command.get_name().to_owned()).ok_or_else(|| "no such command".into())
}
