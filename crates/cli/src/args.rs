//! The words that `deltic` knows. What they mean together is [`plan`](crate::plan)'s to say.

mod compare;
mod links;
mod metadata;
mod remove;
mod select;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Parser, Subcommand, value_parser};
use deltic_core::Strategy;
use deltic_core::rule::{Action, Rule};
use deltic_protocol::limits::{MAX_STREAMS, MAX_THREADS};

use crate::commands::{agent, bench, delta, patch, signature};
use crate::exit::Exit;
use crate::output;
use crate::rate::Rate;

pub(crate) use metadata::MetadataArgs;

/// Keeps huge files and whole trees identical between machines, and moves only what changed.
#[derive(Debug, Parser)]
#[command(name = "deltic", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a destination equal to its sources, here or over ssh
    #[command(
        after_help = SYNC_EXAMPLES,
        override_usage = "deltic sync [OPTIONS] SRC... DEST",
        args_override_self = true,
        disable_help_flag = true
    )]
    Sync(Box<SyncArgs>),
    Signature(signature::Args),
    Delta(delta::Args),
    Patch(patch::Args),
    Bench(bench::Args),
    /// Serve one session on standard input and output; internal
    ///
    /// `deltic sync` starts this on the other machine. It is not meant to be started by hand.
    #[command(hide = true, after_help = AGENT_EXAMPLES)]
    Agent(agent::Args),
}

/// The words of a command line; `-h` alone asks for help, among others it is rsync's "for people".
pub(crate) fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    if let [_, command, help] = &mut words[..]
        && command == "sync"
        && help == "-h"
    {
        *help = "--help".into();
    }
    words
}

/// The words of `deltic sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// SRC... DEST: what to read and where it goes. One side may be on another machine, as `[user@]host:path`. A source
    /// that ends in a slash stands for its contents
    #[arg(value_name = "PATH", required = true)]
    pub(crate) operands: Vec<OsString>,

    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Accepted as in rsync: figures are for people anyway (with --stats exact as well)
    #[arg(short = 'h', long, help_heading = SHOW)]
    pub(crate) human_readable: bool,

    /// Same as -rlptgoD
    #[arg(short, long, help_heading = CARRY)]
    pub(crate) archive: bool,
    /// Descend into directories
    #[arg(short, long, overrides_with = "no_recursive", help_heading = CARRY)]
    pub(crate) recursive: bool,
    /// Recreate symbolic links
    #[arg(short, long, overrides_with = "no_links", help_heading = CARRY)]
    pub(crate) links: bool,
    /// Carry permission bits over
    #[arg(short, long, overrides_with = "no_perms", help_heading = CARRY)]
    pub(crate) perms: bool,
    /// Carry modification times over; without them the next run cannot tell what is unchanged
    #[arg(short, long, overrides_with = "no_times", help_heading = CARRY)]
    pub(crate) times: bool,
    /// Do not descend, though -a says so
    #[arg(long, alias = "no-r", overrides_with = "recursive", help_heading = CARRY)]
    pub(crate) no_recursive: bool,
    /// Leave symbolic links out, though -a says otherwise
    #[arg(long, alias = "no-l", overrides_with = "links", help_heading = CARRY)]
    pub(crate) no_links: bool,
    /// Leave permission bits alone, though -a says otherwise
    #[arg(long, alias = "no-p", overrides_with = "perms", help_heading = CARRY)]
    pub(crate) no_perms: bool,
    /// Leave modification times alone, though -a says otherwise
    #[arg(long, alias = "no-t", overrides_with = "times", help_heading = CARRY)]
    pub(crate) no_times: bool,
    /// Owners, devices, ACLs and the like.
    #[command(flatten)]
    pub(crate) metadata: MetadataArgs,

    /// Which names take part.
    #[command(flatten)]
    pub(crate) select: select::SelectArgs,
    /// What counts as changed.
    #[command(flatten)]
    pub(crate) compare: compare::CompareArgs,

    /// Compare content where size and time agree
    #[arg(short, long, help_heading = CHOOSE)]
    pub(crate) checksum: bool,
    /// Includes and excludes.
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// What becomes of symlinks.
    #[command(flatten)]
    pub(crate) follow: links::LinkArgs,
    /// What is removed.
    #[command(flatten)]
    pub(crate) remove: remove::RemoveArgs,
    /// Say what would change, change nothing
    #[arg(short = 'n', long, help_heading = CHOOSE)]
    pub(crate) dry_run: bool,

    /// Send changed files whole; the default between two local paths
    #[arg(short = 'W', long, overrides_with = "no_whole_file", help_heading = TRAVEL)]
    pub(crate) whole_file: bool,
    /// Send only what changed of a file; the default over a connection
    #[arg(long, overrides_with = "whole_file", help_heading = TRAVEL)]
    pub(crate) no_whole_file: bool,
    /// How files go that do not go whole: Deltic's own way, or that of a system of the papers, to compare with
    #[arg(long, value_name = "NAME", value_parser = strategies(), help_heading = TRAVEL)]
    #[arg(conflicts_with = "whole_file")]
    pub(crate) strategy: Option<Strategy>,
    /// Compress what is sent (zstd)
    #[arg(short = 'z', long, help_heading = TRAVEL)]
    pub(crate) compress: bool,
    /// Most bytes a second on the wire, in KiB or with a unit: 500K, 1.5M, 2GB; 0 for no limit
    #[arg(long, value_name = "RATE", help_heading = TRAVEL)]
    pub(crate) bwlimit: Option<Rate>,
    /// Carry literals over N connections: where one alone does not fill the line (1 to 16)
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_STREAMS)))]
    pub(crate) streams: u32,
    /// Compute with N threads on each machine; by default with as many as it has processors
    #[arg(long, value_name = "N", help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u32>,
    /// Leave flushing to the disk to the system: faster, but a power cut may lose what was reported done
    #[arg(long, help_heading = TRAVEL)]
    pub(crate) no_fsync: bool,
    /// Remote shell and its options, split into words as a shell does
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = TRAVEL)]
    #[arg(env = "DELTIC_RSH", hide_env_values = true, default_value = "ssh")]
    pub(crate) rsh: Words,
    /// The deltic program on the other machine
    #[arg(long, value_name = "PROGRAM", default_value = "deltic", help_heading = TRAVEL)]
    pub(crate) deltic_path: OsString,

    /// Name what changes, and sum up at the end
    #[arg(short, long, action = ArgAction::Count, help_heading = SHOW)]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, conflicts_with_all = ["verbose", "stats"], help_heading = SHOW)]
    pub(crate) quiet: bool,
    /// Name what changes and how, in rsync's format
    #[arg(short, long, help_heading = SHOW)]
    pub(crate) itemize_changes: bool,
    /// Count everything at the end, to the byte
    #[arg(long, help_heading = SHOW)]
    pub(crate) stats: bool,
    /// Show progress even where standard error is no terminal: a line a second
    #[arg(long, overrides_with = "no_progress", help_heading = SHOW)]
    pub(crate) progress: bool,
    /// Show no progress, not even on a terminal
    #[arg(long, overrides_with = "progress", help_heading = SHOW)]
    pub(crate) no_progress: bool,
    /// Write events for programs, one JSON object per line, and nothing else, to standard output
    #[arg(long, help_heading = SHOW)]
    pub(crate) json: bool,
}

/// Reads a strategy's name; the help and a refusal list all there are.
fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let names = PossibleValuesParser::new(Strategy::ALL.map(|strategy| strategy.name));
    names.try_map(|name| Strategy::named(&name))
}

/// A command, split as a shell splits words; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<OsString>);

impl FromStr for Words {
    type Err = &'static str;

    fn from_str(command: &str) -> Result<Self, Self::Err> {
        let words = shlex::split(command).ok_or("a quote is not closed")?;
        if words.is_empty() {
            return Err("no command");
        }
        Ok(Self(words.into_iter().map(OsString::from).collect()))
    }
}

/// `--include` and `--exclude`, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

impl clap::Args for Rules {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .arg(rule_arg(
                "exclude",
                "Leave out names that match; of all patterns the first that matches wins",
            ))
            .arg(rule_arg("include", "Take names that match, whatever a later --exclude says"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let excludes = rules(matches, "exclude", Action::Exclude);
        let includes = rules(matches, "include", Action::Include);
        let mut rules: Vec<_> = excludes.chain(includes).collect();
        rules.sort_by_key(|(position, _)| *position);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn rule_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("PATTERN")
        .action(ArgAction::Append)
        .value_parser(value_parser!(OsString))
        .help_heading(CHOOSE)
        .help(help)
}

/// The rules of one option and where each was written.
fn rules<'a>(
    matches: &'a ArgMatches,
    name: &str,
    action: Action,
) -> impl Iterator<Item = (usize, Rule)> + use<'a> {
    let positions = matches.indices_of(name).into_iter().flatten();
    let patterns = matches.get_many::<OsString>(name).into_iter().flatten();
    positions.zip(patterns).map(move |(position, pattern)| {
        (position, Rule { action, pattern: pattern.clone().into_vec().into() })
    })
}

/// Prints why the words made no sense, or the help that they asked for.
pub(crate) fn explain(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print(); // The reader may have left.
        return Exit::Success;
    }
    if let Some((word, why)) = not_yet(error) {
        output::complain(&format!("'{word}' is not supported"), Some(why));
        return Exit::Usage;
    }
    let text = error.render().to_string();
    match text.strip_prefix("error: ") {
        Some(what) => output::note(&format!("deltic: {what}")),
        None => output::note(&text),
    }
    Exit::Usage
}

/// An option that rsync has and Deltic has not, and what to say of it.
fn not_yet(error: &clap::Error) -> Option<(&str, &'static str)> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, why) = NOT_YET.iter().find(|(words, _)| words.split(' ').any(|known| known == word))?;
    (error.kind() == ErrorKind::UnknownArgument).then_some((word, why))
}

/// Options that hands used to rsync will try.
const NOT_YET: &[(&str, &str)] = &[
    ("-H --hard-links", "hard links are not carried yet; each name gets its own copy"),
    ("-N --crtimes", "Linux sets when a file was created, and lets nobody else do so"),
    ("--fake-super", "what only the superuser may set is skipped, not noted in attributes"),
    ("-P --partial --append", "an interrupted run resumes by itself; --progress shows progress"),
    ("--inplace", "files are always replaced whole and at once, never changed in place"),
    ("-f --filter --exclude-from --include-from", "only --include and --exclude exist so far"),
];

/// Names the instruction set that chunkers use.
pub(crate) const ISA_VARIABLE: &str = "DELTIC_ISA";

const CARRY: &str = "What is carried over";
const CHOOSE: &str = "What is taken, left out and removed";
const TRAVEL: &str = "How it travels";
const SHOW: &str = "What is shown";

const EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/     push what changed over ssh
  deltic sync -avn --delete a/ b/                 see what would change, change nothing
  deltic sync --help                              every option";

const SYNC_EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/
      make /srv/photos on 'backup' hold what photos holds
  deltic sync -av photos backup:/srv/
      the same: without the slash, the directory itself goes
  deltic sync -a backup:/srv/vm.img .
      fetch a file; if an older vm.img is here, only what changed
  deltic sync -ain --delete src/ /mnt/copy/
      list what would change and be removed, change nothing
  deltic sync -az -e 'ssh -p 2222' --bwlimit 2M src/ me@host:src/
      another port, compressed, at most 2 MiB a second
  deltic sync -a --include '*/' --include '*.rs' --exclude '*' src/ dst/
      directories and Rust files only; the first pattern that matches wins
  deltic sync -a --json src/ host:dst/ | jq 'select(.event == \"change\").path'
      what changed, for programs

EXIT CODES:
  0 done, 1 usage, 2 incompatible, 3 selection, 10 connection, 11 files, 12 protocol,
  14 start, 20 interrupted, 23 some names failed, 24 some vanished, 25 delete limit";

const AGENT_EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -a --deltic-path /opt/deltic/bin/deltic src/ host:dst/
      runs `ssh host /opt/deltic/bin/deltic agent`";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn sync(words: &str) -> Result<SyncArgs, clap::Error> {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        match Cli::try_parse_from(words)?.command {
            Command::Sync(args) => Ok(*args),
            _ => unreachable!("the words say sync"),
        }
    }

    #[test]
    fn the_declarations_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_options_combine() {
        let args = sync("-avvzn src dst").unwrap();
        assert!(args.archive && args.compress && args.dry_run);
        assert_eq!((args.verbose, args.operands.len()), (2, 2));
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
        assert!(args.progress && !args.no_progress);
    }

    #[test]
    fn includes_and_excludes_keep_their_order() {
        let args = sync("--exclude=a --include b a/ --include=c b --exclude d").unwrap();
        let rules: Vec<_> = args.rules.0.iter().map(|r| (r.action, &*r.pattern)).collect();
        assert_eq!(
            rules,
            [
                (Action::Exclude, &b"a"[..]),
                (Action::Include, b"b"),
                (Action::Include, b"c"),
                (Action::Exclude, b"d"),
            ]
        );
    }

    #[test]
    fn the_remote_shell_is_split_as_a_shell_splits() {
        let args = sync("-e \"ssh -p 22 -i 'my key'\" a b").unwrap();
        assert_eq!(args.rsh.0, ["ssh", "-p", "22", "-i", "my key"]);
        assert!(sync("-e \"ssh 'x\" a b").is_err());
        assert!(sync("-e '' a b").is_err());
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for words in ["", "--fooo a b", "--bwlimit=1x a b", "-qv a b"] {
            assert!(sync(words).is_err(), "{words}");
        }
        assert!(sync("--delete --max-delete=-1 a b").is_err());
    }

    #[test]
    fn options_of_rsync_that_are_missing_are_explained() {
        for (words, word) in [("-avH a b", "-H"), ("--inplace a b", "--inplace")] {
            assert_eq!(not_yet(&sync(words).unwrap_err()).map(|(word, _)| word), Some(word));
        }
        assert_eq!(not_yet(&sync("--fooo a b").unwrap_err()), None);
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
