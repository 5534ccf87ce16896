//! The words that `deltic` knows. What they mean together is [`plan`](crate::plan)'s to say.

pub(crate) mod accepted;
pub(crate) mod batch;
mod compare;
pub(crate) mod filters;
mod links;
pub(crate) mod metadata;
mod remove;
mod screen;
mod select;
pub(crate) mod settings;
pub(crate) mod show;
mod sums;
pub(crate) mod travel;
mod writing;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stdin, stdout};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::value_parser;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use deltic_core::Strategy;
use deltic_protocol::limits::{MAX_STREAMS, MAX_THREADS};

use self::accepted::Accepted;
use self::filters::Filters;
use self::settings::{Applied, Places, SettingArgs};
use self::show::Show;
use self::travel::Travel;
use crate::commands::{
    agent, bench, completions, delta, doctor, install, man, patch, signature, sync, verify, watch,
};
use crate::report::exit::Exit;
use crate::report::output;
use crate::words::size::Size;

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
        disable_help_flag = true,
        disable_version_flag = true,
        alias = "rsync"
    )]
    Sync(Box<SyncArgs>),
    #[command(mut_args(compared))]
    Verify(Box<verify::Args>),
    /// Keep a destination equal to its sources until interrupted
    #[command(
        after_help = WATCH_EXAMPLES,
        override_usage = "deltic watch [OPTIONS] SRC... DEST\n       deltic watch --confirm",
        mut_arg("operands", |operands| operands.required_unless_present("confirm")),
        args_override_self = true,
        disable_help_flag = true,
        disable_version_flag = true
    )]
    Watch(Box<watch::Args>),
    Signature(signature::Args),
    Delta(delta::Args),
    Patch(patch::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
    Doctor(doctor::Args),
    Install(install::Args),
    /// Serve one session on standard input and output; internal
    ///
    /// `deltic sync` starts this on the other machine. It is not meant to be started by hand.
    #[command(hide = true, after_help = AGENT_EXAMPLES)]
    Agent(agent::Args),
}

/// Understands the words of a command line, and the settings of these places.
///
/// # Errors
/// What is wrong with words or settings, or the help that they ask for.
pub(crate) fn read(words: impl Iterator<Item = OsString>, places: &Places) -> Result<Cli, Refusal> {
    let Understood { matches, applied, .. } = understand(words, places)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    match &mut cli.command {
        Command::Sync(args) => args.complete(applied),
        Command::Watch(args) => args.sync.complete(applied),
        Command::Verify(args) => args.complete(applied),
        _ => {}
    }
    Ok(cli)
}

/// The same, of the words alone.
#[cfg(test)]
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    read(words, &Places::default()).map_err(|refusal| refusal.error)
}

/// Why words make no sense, and the settings that were among them.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: clap::Error,
    applied: Applied,
}

impl From<clap::Error> for Refusal {
    fn from(error: clap::Error) -> Self {
        Self { error, applied: Applied::default() }
    }
}

/// A command line as clap understands it, with its settings in front.
struct Understood {
    cli: clap::Command,
    matches: ArgMatches,
    applied: Applied,
}

fn understand(
    words: impl Iterator<Item = OsString>,
    places: &Places,
) -> Result<Understood, Refusal> {
    let mut words = words.peekable();
    let as_rsync = words.peek().is_some_and(|name| is_rsync(name));
    let mut words = normal(words);
    // What other commands take back is not put together for nothing.
    let mut cli = (WITH_OPPOSITES.iter())
        .filter(|name| words.iter().any(|word| word == *name))
        .fold(Cli::command(), |cli, name| cli.mut_subcommand(*name, with_opposites));
    cli = screen::shown(cli, &mut words);
    let matches = cli.try_get_matches_from_mut(&words)?;
    let applied = settings::applied(&cli, &matches, places, as_rsync)
        .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))?;
    if applied.words.is_empty() {
        return Ok(Understood { cli, matches, applied });
    }
    // They stand behind the name of the command.
    words.splice(2..2, applied.words.iter().cloned());
    match cli.try_get_matches_from_mut(&words) {
        Ok(matches) => Ok(Understood { cli, matches, applied }),
        Err(error) => Err(Refusal { error, applied }),
    }
}

/// The commands with options that can be taken back.
const WITH_OPPOSITES: [&str; 2] = ["sync", "watch"];

/// The words of this process's `sync` as they are needed once more, in one form for all, but for operands and the options
/// `without` these names.
pub(crate) fn options_again(without: &[&str]) -> Vec<OsString> {
    let Ok(Understood { cli, matches, .. }) = understand(std::env::args_os(), &Places::here())
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

/// All that `deltic` knows: what is declared, and `--no-OPTION` for each option of `sync` that can be taken back.
pub(crate) fn command() -> clap::Command {
    let with = |cli: clap::Command, name| cli.mut_subcommand(name, with_opposites);
    WITH_OPPOSITES.into_iter().fold(Cli::command(), with)
}

/// `sync` as rsync's users write it: with `--no-OPTION` (and `--no-O`) for its options, as far as they are not declared and make
/// sense.
fn with_opposites(sync: clap::Command) -> clap::Command {
    // As to rsync, a word behind an option that takes one is its value, whatever it begins with.
    let sync = sync.mut_args(|arg| match takes_value(&arg) {
        true => arg.allow_hyphen_values(true),
        false => arg,
    });
    let mut known: HashSet<_> = sync.get_arguments().flat_map(names).collect();
    let ids: Vec<_> = sync.get_arguments().map(|arg| arg.get_id().clone()).collect();
    ids.iter().fold(sync, |sync, id| with_opposite(sync, id, &mut known))
}

/// `sync` with the opposite of the option `id`; `known` are all long names so far.
fn with_opposite(sync: clap::Command, id: &clap::Id, known: &mut HashSet<String>) -> clap::Command {
    let Some(arg) = sync.get_arguments().find(|arg| arg.get_id() == id) else { return sync };
    let Some(long) = arg.get_long() else { return sync };
    let flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
    let once = matches!(long, "help" | "version" | "server" | "sender" | "daemon");
    if once || long.starts_with("no-") || !(flag || TAKEN_BACK.contains(&long)) {
        return sync;
    }
    let short = arg.get_short().map(|short| short.to_string());
    let mut fresh: Vec<_> = names(arg)
        .chain(short)
        .map(|name| format!("no-{name}"))
        .filter(|name| known.insert(name.clone()))
        .collect();
    let opposite = format!("no_{id}");
    if sync.get_arguments().any(|other| *other.get_id() == *opposite) {
        return sync.mut_arg(opposite, |arg| arg.aliases(fresh));
    }
    if fresh.is_empty() {
        return sync;
    }
    let arg = Arg::new(opposite).long(fresh.remove(0)).aliases(fresh).overrides_with(id.clone());
    sync.arg(arg.action(ArgAction::SetTrue).hide(true))
}

/// An option of `sync` as `verify` has it.
fn compared(arg: Arg) -> Arg {
    let help = arg.get_help().map(|help| help.to_string().replace("Preserve ", "Compare "));
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// Whether it is an option with a value.
fn takes_value(arg: &Arg) -> bool {
    let takes_values = arg.get_num_args().is_none_or(|values| values.takes_values());
    arg.get_action().takes_values() && takes_values && !arg.is_positional()
}

/// All long names of an option.
pub(crate) fn names(arg: &Arg) -> impl Iterator<Item = String> {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(aliases).map(str::to_owned)
}

/// Options with a value that rsync takes back too.
const TAKEN_BACK: &[&str] = &["bwlimit", "timeout", "contimeout", "iconv"];

/// The words as clap is to see them. A program that is called `rsync` is `deltic sync`, or its far end.
fn normal(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = without_empty(words);
    if words.first().is_some_and(|name| is_rsync(name)) {
        let far = is_started_as_agent(&words) && !stdin().is_terminal() && !stdout().is_terminal();
        words[0] = "deltic".into();
        if !far {
            words.insert(1, "sync".into());
        }
    }
    if words.get(1).is_some_and(|word| word == "help") {
        // `help sync` is `sync --help`.
        words.remove(1);
        words.push("--help".into());
    }
    if let [_, first, second] = &words[..]
        && [first, second].map(|word| word.to_str().unwrap_or_default()).iter().all(is_version)
        && first != second
    {
        // `--version -v` tells the build too.
        words.insert(1, "sync".into());
    }
    words
}

/// Tells whether a word asks for the version, or for more of it.
fn is_version(word: &&str) -> bool {
    ["--version", "-V", "-v", "--verbose"].contains(word)
}

/// Whether a program of this name is called as rsync is.
pub(crate) fn is_rsync(name: &OsStr) -> bool {
    Path::new(name).file_name().is_some_and(|name| name.as_bytes().ends_with(b"rsync"))
}

/// Whether the words are those that another `deltic` starts its far end with.
fn is_started_as_agent(words: &[OsString]) -> bool {
    let is_option = |word: &OsString| word.as_bytes().starts_with(b"--");
    matches!(words, [_, first, rest @ ..] if first == "agent" && rest.iter().all(is_option))
}

/// The words without options of an empty value, where these mean to rsync that they are not given: scripts have them whose
/// variables are not set.
fn without_empty(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut words) = (Vec::new(), words.peekable());
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        let text = word.to_str().unwrap_or_default();
        let name = text.strip_suffix('=');
        let is_empty = name.is_some() || words.peek().is_some_and(|value| value.is_empty());
        let is = |options: &[&str]| is_empty && options.contains(&name.unwrap_or(text));
        let zero = is(EMPTY_IS_ZERO).then(|| format!("{}=0", name.unwrap_or(text)));
        let is_shell = is_empty && name.is_none() && flags_before_shell(text).is_some();
        if zero.is_none() && !is_shell && !is(EMPTY_IS_UNSET) {
            kept.push(word);
            continue;
        }
        if name.is_none() {
            words.next();
        }
        kept.extend(flags_before_shell(text).map(OsString::from));
        kept.extend(zero.map(OsString::from));
    }
    kept
}

/// The flags in front of an `e` in the same word: those of `-ve`.
fn flags_before_shell(word: &str) -> Option<&str> {
    let flags = word.strip_suffix('e').filter(|flags| flags.len() > 1)?;
    let letters = flags.strip_prefix('-')?;
    // Behind one of these the rest is its value, and a second hyphen begins a name.
    (!letters.contains(['-', 'B', 'M', 'T', 'e', 'f', '@'])).then_some(flags)
}

/// Options that are as if they were not there where their value is empty.
const EMPTY_IS_UNSET: &[&str] = &[
    "--link-dest",
    "--compare-dest",
    "--copy-dest",
    "--partial-dir",
    "--log-file",
    "--compress-level",
    "--zl",
    "--compress-threads",
    "--zt",
    "--modify-window",
    "-@",
    "--port",
    "--checksum-seed",
    "--exclude-from",
    "--include-from",
    "--rsh",
    "-e",
];

/// Options of which an empty value is a 0.
const EMPTY_IS_ZERO: &[&str] = &[
    "--bwlimit",
    "--timeout",
    "--contimeout",
    "--block-size",
    "-B",
    "--max-delete",
    "--max-size",
    "--min-size",
];

/// The words of `deltic sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// SRC... DEST: what to copy and where; one side may be host:path
    ///
    /// A source that ends in a slash stands for its contents.
    #[arg(value_name = "PATH", required_unless_present_any = ANSWERS)]
    pub(crate) operands: Vec<OsString>,

    /// Print all options; -h alone prints the usual ones
    #[arg(long, action = clap::ArgAction::HelpShort)]
    pub(crate) help: Option<bool>,

    /// Same as -rlptgoD
    #[arg(short, long, help_heading = CARRY)]
    pub(crate) archive: bool,
    /// Descend into directories
    #[arg(short, long, overrides_with = "no_recursive", help_heading = CARRY)]
    pub(crate) recursive: bool,
    /// Preserve symbolic links
    #[arg(short, long, overrides_with = "no_links", help_heading = CARRY)]
    pub(crate) links: bool,
    /// Preserve permissions
    #[arg(short, long, overrides_with = "no_perms", help_heading = CARRY)]
    pub(crate) perms: bool,
    /// Preserve modification times
    ///
    /// Without them the next run cannot tell what is unchanged.
    #[arg(short, long, overrides_with = "no_times", help_heading = CARRY)]
    pub(crate) times: bool,
    /// Undo the -r of -a
    #[arg(long, alias = "no-r", overrides_with = "recursive", help_heading = CARRY)]
    pub(crate) no_recursive: bool,
    /// Undo the -l of -a
    #[arg(long, alias = "no-l", overrides_with = "links", help_heading = CARRY)]
    pub(crate) no_links: bool,
    /// Undo the -p of -a
    #[arg(long, alias = "no-p", overrides_with = "perms", help_heading = CARRY)]
    pub(crate) no_perms: bool,
    /// Undo the -t of -a
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

    /// Compare contents of files of equal size
    #[arg(short, long, help_heading = CHOOSE)]
    pub(crate) checksum: bool,
    /// Which names take part.
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// What becomes of symlinks.
    #[command(flatten)]
    pub(crate) follow: links::LinkArgs,
    /// What is removed.
    #[command(flatten)]
    pub(crate) remove: remove::RemoveArgs,
    /// Show what would change, change nothing
    #[arg(short = 'n', long, help_heading = CHOOSE)]
    pub(crate) dry_run: bool,

    /// How files are written.
    #[command(flatten)]
    pub(crate) writing: writing::WritingArgs,

    /// Send changed files whole (default on one machine)
    #[arg(short = 'W', long, overrides_with = "no_whole_file", help_heading = TRAVEL)]
    pub(crate) whole_file: bool,
    /// Send only changes of files (default over a connection)
    #[arg(long, visible_alias = "no-W", overrides_with = "whole_file", help_heading = TRAVEL)]
    pub(crate) no_whole_file: bool,
    /// Send changes in this way: Deltic's, or a published one
    ///
    /// Those of the papers are there to compare with; they have no journal to resume by.
    #[arg(long, value_name = "NAME", value_parser = strategies(), help_heading = TRAVEL)]
    #[arg(conflicts_with = "whole_file")]
    pub(crate) strategy: Option<Strategy>,
    /// Use chunks of about SIZE: 700, 8K, 128K; 0: automatic
    ///
    /// Where a strategy has blocks, they are of that size.
    #[arg(short = 'B', long, value_name = "SIZE", help_heading = TRAVEL)]
    pub(crate) block_size: Option<Size>,
    /// Checksums.
    #[command(flatten)]
    pub(crate) sums: sums::SumArgs,
    /// Compression, limits of rate and time.
    #[command(flatten)]
    pub(crate) travel: Travel,
    /// Send data over N connections, 1 to 16
    ///
    /// Use it where one connection alone does not fill the line.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_STREAMS)))]
    pub(crate) streams: u32,
    /// Use N threads on each machine (default: all processors)
    #[arg(long, value_name = "N", help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u32>,
    /// Do not flush to disk: faster, less safe
    ///
    /// A power cut may then lose what was reported done.
    #[arg(long, overrides_with = "fsync", help_heading = TRAVEL)]
    pub(crate) no_fsync: bool,
    /// Flush files and directories to disk (default)
    #[arg(long, overrides_with = "no_fsync", help_heading = TRAVEL)]
    pub(crate) fsync: bool,
    /// Use this remote shell, with its options
    ///
    /// The words are split as a shell splits them.
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh", help_heading = TRAVEL)]
    pub(crate) rsh: Words,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    #[arg(help_heading = TRAVEL)]
    pub(crate) deltic_path: OsString,

    /// Runs that are kept in a file.
    #[command(flatten)]
    pub(crate) batch: batch::BatchArgs,

    /// What is shown.
    #[command(flatten)]
    pub(crate) show: Show,
    /// What is set elsewhere.
    #[command(flatten)]
    _settings: SettingArgs,
    /// The settings that count.
    #[arg(skip)]
    pub(crate) applied: Applied,
    /// What scripts for rsync may say.
    #[command(flatten)]
    pub(crate) accepted: Accepted,
}

impl SyncArgs {
    /// Adds what settings say besides words.
    fn complete(&mut self, mut applied: Applied) {
        self.filters.put_last(applied.rules);
        self.operands = applied.operands.take().unwrap_or_else(|| mem::take(&mut self.operands));
        self.applied = applied;
        self.split_path();
    }

    /// Takes options behind the program's name for what rsync would do with them: `--rsync-path='sudo rsync --fake-super'`.
    fn split_path(&mut self) {
        let words = self.deltic_path.as_bytes();
        let Some(at) = words.windows(3).position(|word| word == b" --") else { return };
        let (program, options) = words.split_at(at);
        let options = options.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        if options.clone().all(|word| word.starts_with(b"--")) {
            let options = options.map(|word| OsStr::from_bytes(word).to_owned());
            self.travel.remote_option.extend(options);
            self.deltic_path = OsStr::from_bytes(program).to_owned();
        }
    }
}

/// Options that print something, or refuse, and end: they need no operands.
const ANSWERS: [&str; 4] = ["version", "info", "debug", "daemon"];

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

/// Prints why the words made no sense, or the help that they asked for.
pub(crate) fn explain(Refusal { error, applied }: &Refusal) -> Exit {
    if !error.use_stderr() {
        let _ = error.print(); // The reader may have left.
        return Exit::Success;
    }
    if let Some((word, why)) = not_yet(error) {
        output::complain(&format!("'{word}' is not supported"), Some(why));
        return Exit::Usage;
    }
    let text = with_useful_tips(error, &error.render().to_string());
    let text = text.replace("invalid digit found in string", "not a whole number");
    if let Some(origin) = applied.blame(&text) {
        output::complain(&as_rsync(error, &text), Some(&origin));
        return exit_of(error);
    }
    if output::stands_in() {
        output::complain(&as_rsync(error, &text), Some(sync::HELP));
        return exit_of(error);
    }
    match text.strip_prefix("error: ") {
        Some(what) => output::note(&format!("deltic: {what}")),
        None => output::note(&text),
    }
    if text.contains(WITHOUT_COMMAND)
        && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        output::note("  hint: to sync as rsync does, write `deltic sync [OPTIONS] SRC... DEST`\n");
    }
    exit_of(error)
}

fn exit_of(error: &clap::Error) -> Exit {
    if is_way_to_compress(error) { Exit::Unsupported } else { Exit::Usage }
}

/// What was wrong, as rsync's users read it: in its words, if they are a matter of form, and without our usage.
fn as_rsync(error: &clap::Error, text: &str) -> String {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(word)) => format!("{word}: unknown option"),
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(text);
            text.split("\n\n").next().unwrap_or_default().to_owned()
        }
    }
}

/// Whether it is about a way to compress that there is not: to rsync that is no fault of the words.
fn is_way_to_compress(error: &clap::Error) -> bool {
    let arg = error.get(ContextKind::InvalidArg);
    let is_it = |arg: &ContextValue| arg.to_string().starts_with("--compress-choice ");
    error.kind() == ErrorKind::InvalidValue && arg.is_some_and(is_it)
}

/// How clap shows the usage where a command is missing: whoever is used to rsync begins with its options.
const WITHOUT_COMMAND: &str = "<COMMAND>";

/// The words of `error` without tips that lead astray: of a mistyped option the right one is named, and no other.
fn with_useful_tips(error: &clap::Error, text: &str) -> String {
    if error.kind() != ErrorKind::UnknownArgument {
        return text.to_owned();
    }
    let word = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => {
            edits(&word, near) <= MAX_TYPOS || near.starts_with(&word)
        }
        _ => false,
    };
    let is_useful = |part: &&str| !part.starts_with("  tip: ") || near && part.contains("similar");
    text.split("\n\n").filter(is_useful).collect::<Vec<_>>().join("\n\n")
}

/// Characters that a mistyped word may have wrong.
const MAX_TYPOS: usize = 2;

/// Counts the characters to change, add or leave out that make one word the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (y, a) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], y + 1);
        for (x, b) in other.chars().enumerate() {
            let best = (before + usize::from(a != b)).min(row[x] + 1).min(row[x + 1] + 1);
            before = std::mem::replace(&mut row[x + 1], best);
        }
    }
    row[other.chars().count()]
}

/// An option that other tools have and Deltic has not, and what to say of it.
fn not_yet(error: &clap::Error) -> Option<(&str, &'static str)> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, why) = NOT_YET.iter().find(|(words, _)| words.split(' ').any(|known| known == word))?;
    (error.kind() == ErrorKind::UnknownArgument).then_some((word, why))
}

/// Options that hands used to rsync, and to tools like it, will try.
const NOT_YET: &[(&str, &str)] = &[
    ("-N --crtimes", "Linux sets when a file was created, and lets nobody else do so"),
    ("--write-devices --copy-devices", "devices are made or left out, and never written or read"),
    ("--drop-D", "--no-D leaves devices and special files out"),
    ("--ssh-port", "-e 'ssh -p PORT' names the port"),
    ("--ssh --ssh-command --ssh-cmd --ssh-options --ssh-args", "-e 'ssh OPTIONS' does that"),
    ("--ssh-key --key --identity --identity-file", "-e 'ssh -i FILE' names the key"),
    ("--sudo", "--deltic-path 'sudo deltic' does that at the far end"),
    (
        "--parallel --transfers --checkers --jobs -j --concurrency --multi-thread-streams",
        "many files go at once by themselves; --threads N sets how many work on them, --streams N connections",
    ),
    ("--bandwidth --limit --limit-rate --rate-limit", "--bwlimit RATE does that"),
    ("--mirror --purge", "-a --delete does that"),
    ("--recurse", "-r does that, and -a more"),
    ("--follow --follow-symlinks --follow-links --dereference", "-L does that"),
    ("--skip-existing --no-overwrite --no-clobber --immutable", "--ignore-existing does that"),
    ("--exclude-file --ignore-file", "--exclude-from FILE does that"),
    ("--include-file", "--include-from FILE does that"),
    ("--exclude-dir", "--exclude 'DIR/' does that"),
    ("--simulate --pretend --just-print", "-n does that"),
    (
        "--retries --retry --resume --continue",
        "run the same command again: it goes on where it stopped",
    ),
    (
        "--yes --assume-yes --no-confirm",
        "--force-delete lets any number of names go; nothing else asks",
    ),
    ("--confine-root", "run deltic where no other tree can be reached, as in a container"),
];

/// Names the instruction set that chunkers use.
pub(crate) const ISA_VARIABLE: &str = "DELTIC_ISA";

const CARRY: &str = "What is preserved";
const CHOOSE: &str = "What is copied and left out";
pub(crate) const TRAVEL: &str = "How it travels";
pub(crate) const SHOW: &str = "What is shown";
const COMPATIBLE: &str = "Accepted or refused for scripts of rsync";

const EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/     push what changed over ssh
  deltic sync -avn --delete a/ b/                 see what would change, change nothing
  deltic verify photos/ backup:/srv/photos/       see whether they are equal
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
   0  done
   1  the command line makes no sense
   2  the two ends share no protocol
   3  a source or the destination cannot be used
   4  an option that Deltic does not do
  10  the connection could not be read or written
  11  files, or standard output, could not be read or written
  12  the connection ended early, or the other end broke the protocol
  14  the remote shell could not be started
  20  interrupted by a signal
  23  some names failed
  24  some names vanished at the source
  25  deletions were held back
  30  nothing came from the other end for too long (--timeout), or the time was up (--stop-after)
  35  no answer in time (--contimeout)
 127  the remote shell did not find deltic there
 255  the remote shell failed, as ssh that cannot connect";

const WATCH_EXAMPLES: &str = "\
EXAMPLES:
  deltic watch -a --delete src/ backup:/srv/src/
      make /srv/src hold what src holds, and keep it so
  deltic watch -av --delay 0.2 site/ /srv/www/
      name what changes; wait a fifth of a second for more

EXIT CODES:
  those of `deltic sync`; 0 where a signal ended it between two rounds, after one that went well";

const AGENT_EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -a --deltic-path /opt/deltic/bin/deltic src/ host:dst/
      runs `ssh host /opt/deltic/bin/deltic agent`
  command=\"deltic agent --restrict /srv/backup --no-delete\",restrict ssh-ed25519 AAAA... laptop
      a line of ~/.ssh/authorized_keys: this key puts files below /srv/backup, and deletes none
  command=\"deltic agent --restrict /srv/photos --ro\",restrict ssh-ed25519 AAAA... tv
      this one only fetches what is below /srv/photos";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::rate::Rate;

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
        assert!(args.archive && args.travel.compress && args.dry_run);
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
    fn what_is_empty_is_not_given() {
        let args =
            sync("--link-dest= --link-dest '' --bwlimit 5 --bwlimit= --timeout '' -- --port= b");
        let args = args.unwrap();
        assert_eq!(args.operands, ["--port=", "b"]);
        assert_eq!((args.travel.bwlimit.and_then(Rate::limit), args.travel.timeout), (None, 0));
        for words in ["--files-from '' a b", "--stop-after= a b", "--max-alloc 1 '' b"] {
            assert_eq!(
                without_empty(shlex::split(words).unwrap().into_iter().map(Into::into)).len(),
                shlex::split(words).unwrap().len(),
                "{words}"
            );
        }
    }

    #[test]
    fn the_far_end_is_known_by_its_words() {
        for (words, far) in [
            ("rsync agent", true),
            ("rsync agent --bwlimit=1 --join", true),
            ("rsync agent -a", false),
            ("rsync agent b", false),
            ("rsync ./agent", false),
        ] {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            assert_eq!(is_started_as_agent(&words), far, "{words:?}");
        }
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for words in ["", "--fooo a b", "--bwlimit=1x a b"] {
            assert!(sync(words).is_err(), "{words}");
        }
        assert!(sync("--delete --max-delete=x a b").is_err());
    }

    #[test]
    fn options_of_rsync_that_are_missing_are_explained() {
        assert_eq!(not_yet(&sync("-avN a b").unwrap_err()).map(|(word, _)| word), Some("-N"));
        assert_eq!(not_yet(&sync("--fooo a b").unwrap_err()), None);
    }

    /// The options of which no row of `document` tells in its first cell.
    fn without_row(document: &str) -> Vec<String> {
        let command = command();
        // It has the options of sync as well.
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
    fn every_option_has_a_row_in_the_matrix_of_tests() {
        let missing = without_row(include_str!("../../../../testing/COVERAGE.md"));
        assert_eq!(missing, [""; 0], "testing/COVERAGE.md");
    }

    #[test]
    fn every_option_can_be_taken_back_unless_it_answers_or_is_refused() {
        let command = command();
        let sync = command.find_subcommand("sync").unwrap();
        let known: Vec<_> = sync.get_arguments().flat_map(names).collect();
        for option in sync.get_arguments() {
            let Some(long) = option.get_long() else { continue };
            let flag = matches!(option.get_action(), ArgAction::SetTrue | ArgAction::Count);
            let once = ["help", "version", "server", "sender", "daemon"].contains(&long);
            if flag && !once && !long.starts_with("no-") {
                assert!(known.contains(&format!("no-{long}")), "--no-{long}");
            }
        }
    }

    #[test]
    fn a_word_behind_an_option_that_takes_one_is_its_value_though_it_begins_with_a_hyphen() {
        let command = command();
        let sync = command.find_subcommand("sync").unwrap();
        let mut options = 0;
        for option in sync.get_arguments().filter(|option| takes_value(option)) {
            let short = option.get_short().map(|short| format!("-{short}"));
            for name in option.get_long().map(|long| format!("--{long}")).into_iter().chain(short) {
                let words = ["deltic", "sync", &name, "-v-", "src", "dst"];
                let parsed = parse(words.into_iter().map(Into::into));
                // What it means is another question.
                let why = parsed.map_or_else(|error| error.to_string(), |_| String::new());
                assert!(why.is_empty() || why.contains("invalid value '-v-'"), "{name}: {why}");
                options += 1;
            }
        }
        assert!(options > 50, "{options}");
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
