//! The command line of `deltic`. [`plan`](crate::plan) turns parsed arguments into a plan.

mod accepted;
pub(crate) mod agent;
mod compare;
#[cfg(test)]
mod documents;
pub(crate) mod far;
pub(crate) mod filters;
mod headings;
pub(crate) mod links;
pub(crate) mod look;
pub(crate) mod metadata;
pub(crate) mod offline;
mod opposites;
pub(crate) mod refusal;
mod remove;
mod rewrite;
mod screen;
mod select;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod show;
#[cfg(feature = "labs")]
pub(crate) mod storage;
pub(crate) mod sync;
pub(crate) mod tools;
pub(crate) mod travel;
pub(crate) mod verify;
pub(crate) mod watch;
mod writing;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::agent::AgentArgs;
use self::far::{DoctorArgs, InstallArgs};
use self::look::{CatArgs, LsArgs, SizeArgs};
use self::offline::{DeltaArgs, PatchArgs, SignatureArgs};
use self::opposites::with_opposites;
use self::refusal::UsageError;
use self::server::{LoginCommandArgs, RestoreArgs, ServeArgs, TokenArgs, VersionsArgs};
use self::settings::{AppliedSettings, SettingSources};
#[cfg(feature = "labs")]
use self::storage::StorageArgs;
use self::sync::SyncArgs;
use self::tools::{BenchArgs, CompletionsArgs, FactsArgs, ManArgs};
use self::verify::VerifyArgs;
use self::watch::WatchArgs;
use crate::words::ways::OptionBehaviour;

/// Sync huge files and whole trees between machines, and transfer only the changes
#[derive(Debug, Parser)]
#[command(name = "deltic", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Error messages of configuration files that were skipped.
    #[arg(skip)]
    pub(crate) unread: Vec<String>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a destination equal to its sources, locally or over ssh
    #[command(
        after_help = sync::EXAMPLES,
        override_usage = "deltic sync [OPTIONS] SRC... DEST",
        args_override_self = true,
        disable_help_flag = true,
        disable_version_flag = true,
        alias = "rsync"
    )]
    Sync(Box<SyncArgs>),
    #[command(mut_args(with_verify_help))]
    Verify(Box<VerifyArgs>),
    /// Keep a destination equal to its sources until interrupted
    #[command(
        after_help = watch::EXAMPLES,
        override_usage = "deltic watch [OPTIONS] SRC... DEST\n       deltic watch --confirm",
        mut_arg("operands", |operands| operands.required_unless_present("confirm")),
        args_override_self = true,
        disable_help_flag = true,
        disable_version_flag = true
    )]
    Watch(Box<WatchArgs>),
    Ls(LsArgs),
    Cat(CatArgs),
    Size(SizeArgs),
    Signature(SignatureArgs),
    Delta(DeltaArgs),
    Patch(PatchArgs),
    #[cfg(feature = "labs")]
    Storage(StorageArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Doctor(DoctorArgs),
    Install(InstallArgs),
    Facts(FactsArgs),
    Serve(ServeArgs),
    Token(TokenArgs),
    Login(LoginCommandArgs),
    Versions(VersionsArgs),
    Restore(RestoreArgs),
    /// Serve one session on standard input and output; internal
    ///
    /// `deltic sync` starts this on the other machine. It is not meant to be started by hand.
    #[command(hide = true, after_help = agent::EXAMPLES)]
    Agent(AgentArgs),
}

/// Parses a command line together with the settings of `places`.
///
/// # Errors
/// An invalid argument or setting, or the requested help.
pub(crate) fn read(
    words: impl Iterator<Item = OsString>,
    places: &SettingSources,
) -> Result<Cli, UsageError> {
    let ParsedCommandLine { matches, applied, ways, .. } = parse_with_settings(words, places)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    cli.unread.clone_from(&applied.unread);
    match &mut cli.command {
        Command::Sync(args) => {
            args.complete(applied);
            args.ways = ways;
        }
        Command::Watch(args) => args.sync.complete(applied),
        Command::Verify(args) => args.complete(applied),
        _ => {}
    }
    Ok(cli)
}

/// Parses a command line without settings.
#[cfg(test)]
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    read(words, &SettingSources::default()).map_err(|refusal| refusal.error)
}

/// A parsed command line, with the settings inserted.
struct ParsedCommandLine {
    cli: clap::Command,
    matches: ArgMatches,
    applied: AppliedSettings,
    ways: OptionBehaviour,
}

fn parse_with_settings(
    words: impl Iterator<Item = OsString>,
    places: &SettingSources,
) -> Result<ParsedCommandLine, UsageError> {
    let words: Vec<_> = words.collect();
    let ways = OptionBehaviour::of(&words);
    let mut words = rewrite::normalized(words.into_iter());
    // Adds the `--no-OPTION` forms only for a command that uses them: building them takes time.
    let mut cli = (WITH_OPPOSITES.iter())
        .filter(|name| words.iter().any(|word| word == *name))
        .fold(Cli::command(), |cli, name| cli.mut_subcommand(*name, with_opposites));
    cli = screen::with_short_help(cli, &mut words);
    let matches = cli.try_get_matches_from_mut(&words)?;
    let applied = settings::applied(&cli, &matches, places, ways)
        .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))?;
    if applied.words.is_empty() {
        return Ok(ParsedCommandLine { cli, matches, applied, ways });
    }
    // Insert settings behind the command's name.
    words.splice(2..2, applied.words.iter().cloned());
    match cli.try_get_matches_from_mut(&words) {
        Ok(matches) => Ok(ParsedCommandLine { cli, matches, applied, ways }),
        Err(error) => Err(UsageError { error, applied }),
    }
}

/// Commands with `--no-OPTION` forms.
const WITH_OPPOSITES: [&str; 2] = ["sync", "watch"];

/// Returns the options of this process's `sync` in a uniform form, for a script. Leaves out operands and the options
/// in `without`.
pub(crate) fn options_again(without: &[&str]) -> Vec<OsString> {
    let Ok(ParsedCommandLine { cli, matches, .. }) =
        parse_with_settings(std::env::args_os(), &SettingSources::here())
    else {
        return Vec::new();
    };
    let (Some(sync), Some(given)) =
        (cli.find_subcommand("sync"), matches.subcommand_matches("sync"))
    else {
        return Vec::new();
    };
    let mut words = Vec::new();
    for arg in sync.get_arguments() {
        let (id, long) = (arg.get_id().as_str(), arg.get_long());
        let is_given = given.value_source(id) == Some(ValueSource::CommandLine);
        let name = long.map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        let (Some(name), true) = (name.or(short), is_given && !without.contains(&id)) else {
            continue;
        };
        let indices = given.indices_of(id).into_iter().flatten();
        let values = given.get_raw(id).into_iter().flatten();
        let count = match arg.get_action() {
            ArgAction::Count => usize::from(given.get_count(id)),
            _ => 1,
        };
        for (index, value) in indices.zip(values) {
            let mut word = OsString::from(&name);
            if arg.get_action().takes_values() && long.is_some() {
                word.push("=");
                word.push(value);
            }
            words.extend(std::iter::repeat_n((index, word), count));
        }
    }
    words.sort_by_key(|(index, _)| *index);
    words.into_iter().map(|(_, word)| word).collect()
}

/// Returns the whole command line interface, with `--no-OPTION` for each reversible option of `sync` and `watch`.
pub(crate) fn command() -> clap::Command {
    let with = |cli: clap::Command, name| cli.mut_subcommand(name, with_opposites);
    WITH_OPPOSITES.into_iter().fold(Cli::command(), with)
}

/// Adapts the help of a `sync` option for `verify`.
fn with_verify_help(arg: Arg) -> Arg {
    let help = arg.get_help().map(|help| help.to_string().replace("Preserve ", "Compare "));
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/     push changes over ssh
  deltic sync -avn --delete a/ b/                 show what would change
  deltic verify photos/ backup:/srv/photos/       compare both trees
  deltic sync --help                              list all options";

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(words: &str) -> Result<SyncArgs, clap::Error> {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match parse(words.into_iter().map(Into::into))?.command {
            Command::Sync(args) => Ok(*args),
            _ => unreachable!("the words say sync"),
        }
    }

    #[test]
    fn the_declarations_agree_with_each_other() {
        command().debug_assert();
    }

    #[test]
    fn short_options_combine() {
        let args = sync("-avvzn src dst").unwrap();
        assert!(args.archive && args.travel.compression.compress && args.dry_run);
        assert_eq!((args.show.verbose, args.operands.len()), (2, 2));
    }

    #[test]
    fn options_may_follow_operands_until_two_dashes() {
        assert!(sync("src dst -r").unwrap().recursive);
        assert_eq!(sync("-- -r dst").unwrap().operands, ["-r", "dst"]);
    }

    #[test]
    fn the_later_of_two_opposites_counts() {
        let args = sync("-W --no-whole-file --no-progress --progress a b").unwrap();
        assert!(args.no_whole_file && !args.whole_file);
        assert!(args.show.progress && !args.show.no_progress);
    }

    #[test]
    fn the_remote_shell_is_split_as_a_shell_splits() {
        let args = sync("-e \"ssh -p 22 -i 'my key'\" a b").unwrap();
        assert_eq!(args.rsh.0, ["ssh", "-p", "22", "-i", "my key"]);
        assert!(sync("-e \"ssh 'x\" a b").is_err());
        assert!(sync("-e ' ' a b").is_err());
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for words in ["", "--fooo a b", "--bwlimit=1x a b"] {
            assert!(sync(words).is_err(), "{words}");
        }
        assert!(sync("--delete --max-delete=x a b").is_err());
    }

    /// Returns the options without a row in `document`.
    fn without_row(document: &str) -> Vec<String> {
        let command = command();
        // `watch` includes the options of `sync`.
        let watch = command.find_subcommand("watch").unwrap();
        let options =
            watch.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
        let name = |arg: &Arg| match arg.get_long() {
            Some(long) => format!("`--{long}"),
            None => format!("`-{}", arg.get_short().expect("it has a name")),
        };
        let is_told = |name: &String| {
            let cells =
                document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
            let ends = ["`", "="].map(|end| format!("{name}{end}"));
            cells.into_iter().any(|cell| ends.iter().any(|name| cell.contains(name)))
        };
        options.map(name).filter(|name| !is_told(name)).collect()
    }

    #[test]
    fn every_option_has_a_row_in_the_document() {
        let missing = without_row(include_str!("../../../../docs/options.md"));
        assert_eq!(missing, [""; 0], "docs/options.md");
    }

    #[test]
    fn the_help_of_every_command_shows_an_example() {
        let mut cli = Cli::command();
        for command in cli.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(
                help.lines().any(|line| line.starts_with("  ") && line.contains("deltic ")),
                "{help}"
            );
        }
    }
}
