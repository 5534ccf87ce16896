//! Options that stand in configuration files and in the environment.
//!
//! Each becomes a word in front of those of the command line, and clap reads them all: an option has one meaning,
//! wherever it stands. The nearest place counts: command line, environment, profile, the user's file, the system's
//! file.

mod file;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::headings::{SHOW, TRAVEL};
use super::opposites::names;
use crate::words::home::CONFIG;

/// The word about settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SettingArgs {
    /// Read no configuration file
    #[arg(long, help_heading = "Settings")]
    pub(crate) no_config: bool,
}

/// The places that settings are read from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Configuration files, the nearest last.
    files: Vec<PathBuf>,
    /// A file that was named must be there.
    named: bool,
    /// Variables of the environment.
    variables: Vec<(String, OsString)>,
}

impl Places {
    /// The places of this process: `DELTIC_CONFIG` names another file, or `none`.
    pub(crate) fn here() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, value)| {
                (name.starts_with(PREFIX) || name == RSYNC_RSH) && !value.is_empty()
            })
            .collect();
        let (files, named) = match std::env::var_os("DELTIC_CONFIG").filter(|path| !path.is_empty())
        {
            Some(none) if none == "none" => (Vec::new(), false),
            Some(file) => (vec![file.into()], true),
            None => (usual_files(), false),
        };
        Self { files, named, variables }
    }
}

/// The system's file and the user's.
fn usual_files() -> Vec<PathBuf> {
    let dirs = [Some(PathBuf::from("/etc")), CONFIG.find()];
    dirs.into_iter().flatten().map(|dir| dir.join("deltic/config.toml")).collect()
}

/// Origin of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Variable(String),
    Line { file: PathBuf, line: usize, in_profile: bool },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "{name} in the environment"),
            Self::Line { file, line, .. } => write!(f, "{}, line {line}", file.display()),
        }
    }
}

/// An option as it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    name: String,
    value: Value,
    origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Flag(bool),
    Texts(Vec<OsString>),
}

/// The settings of one run, as far as its command knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Words to put in front of those of the command line.
    pub(crate) words: Vec<OsString>,
    /// Number of these words that are filter rules.
    pub(crate) rules: usize,
    /// The operands, where a profile has some.
    pub(crate) operands: Option<Vec<OsString>>,
    /// Why files were left out that could not be read.
    pub(crate) unread: Vec<String>,
    /// Settings that count.
    settings: Vec<Setting>,
}

impl Applied {
    /// Names the place of the setting that `message` complains about.
    pub(crate) fn blame(&self, message: &str) -> Option<String> {
        let is_named = |setting: &&Setting| {
            let name = format!("--{}", setting.name);
            let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
            message.match_indices(&name).any(|(at, name)| is_end(&message[at + name.len()..]))
        };
        let setting = self.settings.iter().rfind(is_named)?;
        Some(format!("`{}` is set in {}", setting.name, setting.origin))
    }
}

/// What is set for the command that `matches` are of, if it takes settings; `as_rsync` where it is called by that name.
///
/// # Errors
/// What is wrong with a setting, and where it stands.
pub(crate) fn applied(
    cli: &Command,
    matches: &ArgMatches,
    places: &Places,
    as_rsync: bool,
) -> Result<Applied, String> {
    let Some((name, given)) = matches.subcommand() else { return Ok(Applied::default()) };
    let Some(command) = cli.find_subcommand(name).filter(|_| COMMANDS.contains(&name)) else {
        return Ok(Applied::default());
    };
    if matches!(given.try_get_one::<u8>("version"), Ok(Some(1..))) {
        return Ok(Applied::default());
    }
    let files = if given.get_flag("no_config") { &[][..] } else { &places.files };
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for path in files {
        match file::read(path, places.named) {
            Ok(file) => read.extend(file),
            // Scripts that call rsync know nothing of it.
            Err(file::Fault::Unread(why)) if as_rsync && !places.named => unread.push(why),
            Err(file::Fault::Unread(why)) => {
                return Err(format!("{why} (--no-config leaves it out)"));
            }
            Err(file::Fault::Wrong(why)) => return Err(why),
        }
    }
    let files = read;
    let mut applied = Applied { unread, ..Applied::default() };
    let mut settings: Vec<_> = files.iter().flat_map(|file| file.defaults.clone()).collect();
    if let Some(profile) = profile(given).filter(|_| !as_rsync) {
        let profile = find(&files, &profile)?;
        applied.operands = Some(profile.operands(given, name)?);
        settings.extend(profile.options.clone());
    }
    settings.extend(variables(places, cli));
    let take = Taking { cli, command, given, as_rsync };
    for (at, setting) in settings.iter().enumerate() {
        let nearer = &settings[at + 1..];
        let words =
            take.words(setting, nearer).map_err(|why| format!("{}: {why}", setting.origin))?;
        applied.rules += if RULES.contains(&&*setting.name) { words.len() } else { 0 };
        applied.settings.extend((!words.is_empty()).then(|| setting.clone()));
        applied.words.extend(words);
    }
    Ok(applied)
}

/// The name of a profile, where the first operand is one.
fn profile(given: &ArgMatches) -> Option<String> {
    let first = given.try_get_raw("operands").ok()??.next()?;
    let name = first.to_str()?.strip_prefix('@')?;
    let is_name = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// The profile of this name, in the nearest file that has it.
fn find<'a>(files: &'a [file::File], name: &str) -> Result<&'a file::Profile, String> {
    let profiles = || files.iter().rev().flat_map(|file| &file.profiles);
    profiles().find(|profile| profile.name == name).ok_or_else(|| {
        let mut known: Vec<_> = profiles().map(|profile| format!("@{}", profile.name)).collect();
        known.sort();
        let known = if known.is_empty() { "there is none".into() } else { known.join(", ") };
        format!("'@{name}': no such profile ({known}); write './@{name}' for a file of that name")
    })
}

/// Settings of the environment.
fn variables(places: &Places, cli: &Command) -> Vec<Setting> {
    let text = |value: &OsString| Value::Texts(vec![value.clone()]);
    let setting = |name: &str, variable: &str, value| Setting {
        name: name.into(),
        value: text(value),
        origin: Origin::Variable(variable.into()),
    };
    let rsh = places.variables.iter().filter(|(name, _)| name == RSYNC_RSH);
    let rsh = rsh.map(|(name, value)| setting("rsh", name, value));
    let own = places.variables.iter().filter_map(|(variable, value)| {
        let name = variable.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
        // Other variables of this beginning are not ours to judge.
        let is_setting = !ANSWERS.contains(&&*name) && option(cli, &name).is_some();
        is_setting.then(|| setting(&name, variable, value))
    });
    rsh.chain(own).collect()
}

/// The declaration of an option, in any command that takes settings.
fn option<'a>(cli: &'a Command, name: &str) -> Option<&'a Arg> {
    let commands = COMMANDS.iter().filter_map(|command| cli.find_subcommand(command));
    commands.into_iter().find_map(|command| option_of(command, name))
}

fn option_of<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| names(arg).any(|known| known == name))
}

/// Context that decides which settings become words.
struct Taking<'a> {
    cli: &'a Command,
    command: &'a Command,
    given: &'a ArgMatches,
    as_rsync: bool,
}

impl Taking<'_> {
    /// The words of a setting: none where a nearer place sets the same, or the command does not know it.
    fn words(&self, setting: &Setting, nearer: &[Setting]) -> Result<Vec<OsString>, String> {
        let name = &*setting.name;
        let positive = name.strip_prefix("no-").unwrap_or(name);
        let known = option(self.cli, name).or_else(|| option(self.cli, positive));
        let Some(known) = known.filter(|_| !ANSWERS.contains(&name)) else {
            return Err(format!("'{name}' is no option that can be set"));
        };
        let by_profile = matches!(setting.origin, Origin::Line { in_profile: true, .. });
        if !by_profile && !may_be_default(known) {
            return Err(format!(
                "'{name}' says what is synced, so it belongs on the command line or into a profile"
            ));
        }
        let Some(arg) = option_of(self.command, name) else { return Ok(Vec::new()) };
        let shows = known.get_help_heading() == Some(SHOW);
        let adds_up = matches!(arg.get_action(), ArgAction::Append);
        let is_same = |other: &Setting| names(arg).any(|name| name == other.name);
        let is_given =
            self.given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        if self.as_rsync && shows || !adds_up && (is_given || nearer.iter().any(is_same)) {
            return Ok(Vec::new());
        }
        self.spelled(arg, setting)
    }

    /// The words of `setting`, which count.
    fn spelled(&self, arg: &Arg, setting: &Setting) -> Result<Vec<OsString>, String> {
        let name = &setting.name;
        let word = OsString::from(format!("--{name}"));
        let with =
            |value: &OsString| [word.as_os_str(), OsStr::new("="), value].into_iter().collect();
        let number = |value: &OsString| value.to_str()?.parse::<u8>().ok();
        match (arg.get_action(), &setting.value) {
            (ArgAction::SetTrue | ArgAction::Count, Value::Flag(true)) => Ok(vec![word]),
            (ArgAction::SetTrue | ArgAction::Count, Value::Flag(false)) => Ok(self.opposite(name)),
            (ArgAction::Count, Value::Texts(texts)) => match &texts[..] {
                [text] if number(text).is_some_and(|times| times <= MOST_TIMES) => {
                    Ok(vec![word; number(text).unwrap_or_default().into()])
                }
                _ => Err(format!("'{name}' is a number up to {MOST_TIMES}, true or false")),
            },
            (ArgAction::SetTrue, Value::Texts(texts)) => match &texts[..] {
                [text] if is_any(text, &["true", "yes", "on", "1"]) => Ok(vec![word]),
                [text] if is_any(text, &["false", "no", "off", "0"]) => Ok(self.opposite(name)),
                _ => Err(format!("'{name}' is true or false")),
            },
            (ArgAction::Append, Value::Texts(texts)) => Ok(texts.iter().map(with).collect()),
            (_, Value::Texts(texts)) if texts.len() == 1 => Ok(vec![with(&texts[0])]),
            (_, Value::Texts(_)) => Err(format!("'{name}' has one value")),
            (_, Value::Flag(_)) => Err(format!("'{name}' has a value, and is not true or false")),
        }
    }

    /// The word that takes a flag back, where there is one.
    fn opposite(&self, name: &str) -> Vec<OsString> {
        let opposite = format!("no-{name}");
        let word = option_of(self.command, &opposite).map(|_| format!("--{opposite}").into());
        word.into_iter().collect()
    }
}

fn is_any(text: &OsStr, words: &[&str]) -> bool {
    words.iter().any(|word| text.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
}

/// True for an option that may be set for all runs: it says how a sync goes, and not what is synced.
fn may_be_default(arg: &Arg) -> bool {
    let heading = arg.get_help_heading();
    let is_any_of = |list: &[&str]| names(arg).any(|name| list.contains(&&*name));
    is_any_of(DEFAULTS) || matches!(heading, Some(TRAVEL | SHOW)) && !is_any_of(NO_DEFAULTS)
}

/// The commands that heed settings.
const COMMANDS: [&str; 5] = ["sync", "watch", "verify", "doctor", "install"];
/// Prefix of variables.
const PREFIX: &str = "DELTIC_";
/// The one variable of rsync that is a setting too; the own one is nearer.
const RSYNC_RSH: &str = "RSYNC_RSH";
/// Options that only make sense where they are typed.
const ANSWERS: &[&str] = &["help", "version", "config", "no-config", "token"];
/// May be set for all runs, besides what travels and what is shown.
const DEFAULTS: &[&str] =
    &["max-delete", "force-delete", "cache", "no-cache", "checksum-max-age", "delay", "max-delay"];
/// May not, though it is about travelling.
const NO_DEFAULTS: &[&str] = &["remote-option"];
/// Options that add filter rules.
const RULES: &[&str] = &["filter", "exclude", "include", "exclude-from", "include-from"];
/// Most times that a counted option may be set.
const MOST_TIMES: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_default_is_an_option() {
        let cli = crate::args::command();
        for name in DEFAULTS.iter().chain(NO_DEFAULTS).chain(RULES) {
            assert!(option(&cli, name).is_some(), "{name}");
        }
    }
}
