//! The options of `deltic bench`, `deltic completions` and `deltic man`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap_complete::Shell;

use super::command;

/// Measure what the parts of a sync cost on this machine and your data
///
/// Runs deltic-bench, a separate program: the one beside deltic, else the one in
/// PATH.
///
///   deltic bench --help                             what can be measured
///   deltic bench chunk                              all chunkers on random bytes
///   deltic bench sync                               whole syncs, on files made for it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, disable_help_flag = true)]
pub(crate) struct BenchArgs {
    /// Arguments of deltic-bench
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Print completions for a shell
///
/// Write the completions to a file that the shell reads:
///
///   deltic completions bash > ~/.local/share/bash-completion/completions/deltic
///   deltic completions zsh  > ~/.zfunc/_deltic
///   deltic completions fish > ~/.config/fish/completions/deltic.fish
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
    /// Name of the completed command; rsync completes options of `deltic sync`
    #[arg(long, default_value = "deltic", value_parser = ["deltic", "rsync"])]
    pub(crate) name: String,
}

/// Report changed blocks of files to the syncs of all users
///
/// Btrfs reports the changed blocks of a file since the last sync, and most kernels
/// the checksums of blocks, but only to CAP_SYS_ADMIN. The service has that
/// capability, and answers for files that the client has open for reading. All
/// users may connect; only root can start the service:
///
///   systemctl enable --now deltic-facts.socket
///   sudo deltic facts                               start by hand
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FactsArgs {
    /// Listen on this socket
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
    /// Command of the page
    #[arg(value_name = "COMMAND", default_value = "sync", conflicts_with = "dir")]
    #[arg(value_parser = parse_command_name)]
    pub(crate) command: String,
    /// Write the pages of all commands to DIR; create DIR if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Checks that `name` is a command with a manual page. Returns the command's own name.
fn parse_command_name(name: &str) -> Result<String, String> {
    let deltic = command();
    let command = deltic.find_subcommand(name).filter(|command| !command.is_hide_set());
    command.map(|command| command.get_name().to_owned()).ok_or_else(|| "no such command".into())
}
