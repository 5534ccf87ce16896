//! Options set in configuration files and in the environment.
//!
//! Each setting becomes an argument in front of the command line, and clap parses all of them: an option has one
//! meaning everywhere. The nearest place wins: command line, environment, profile, the user's file, the system's
//! file.

mod file;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::headings::{SHOW, TRAVEL};
use super::opposites::long_names;
use crate::words::home::CONFIG;
use crate::words::ways::OptionBehaviour;

/// The option for settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SettingArgs {
    /// Do not read configuration files
    #[arg(long, help_heading = "Settings")]
    pub(crate) no_config: bool,
}

/// The sources of settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingSources {
    /// Configuration files, the nearest one last.
    files: Vec<PathBuf>,
    /// True if the user named a file, which must exist.
    named: bool,
    /// Environment variables that may be settings.
    variables: Vec<(String, OsString)>,
}

impl SettingSources {
    /// Returns the sources for this process: `DELTIC_CONFIG` names another file, or `none`.
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

/// Returns the paths of the system's file and of the user's file.
fn usual_files() -> Vec<PathBuf> {
    let dirs = [Some(PathBuf::from("/etc")), CONFIG.find()];
    dirs.into_iter().flatten().map(|dir| dir.join("deltic/config.toml")).collect()
}

/// The place where a setting was made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingOrigin {
    Variable(String),
    Line { file: PathBuf, line: usize, in_profile: bool },
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "{name} in the environment"),
            Self::Line { file, line, .. } => write!(f, "{}, line {line}", file.display()),
        }
    }
}

/// An option with its value and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OptionSetting {
    name: String,
    value: SettingValue,
    origin: SettingOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingValue {
    Flag(bool),
    Texts(Vec<OsString>),
}

/// The settings of one run, restricted to the options of its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppliedSettings {
    /// Arguments to insert in front of the command line.
    pub(crate) words: Vec<OsString>,
    /// Number of filter rules among these arguments.
    pub(crate) rules: usize,
    /// The operands of a profile, if any.
    pub(crate) operands: Option<Vec<OsString>>,
    /// Error messages of configuration files that could not be read and were skipped.
    pub(crate) unread: Vec<String>,
    /// Settings in effect.
    settings: Vec<OptionSetting>,
}

impl AppliedSettings {
    /// Names the place of the setting that `message` complains about, if any.
    pub(crate) fn origin_of_error(&self, message: &str) -> Option<String> {
        let is_named = |setting: &&OptionSetting| {
            let name = format!("--{}", setting.name);
            let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
            message.match_indices(&name).any(|(at, name)| is_end(&message[at + name.len()..]))
        };
        let setting = self.settings.iter().rfind(is_named)?;
        Some(format!("`{}` is set in {}", setting.name, setting.origin))
    }
}

/// Returns the settings for the parsed command, if the command takes settings. In rsync's
/// ways, settings of output do not count.
///
/// # Errors
/// An invalid setting, and its place.
pub(crate) fn applied(
    cli: &Command,
    matches: &ArgMatches,
    places: &SettingSources,
    ways: OptionBehaviour,
) -> Result<AppliedSettings, String> {
    let as_rsync = ways == OptionBehaviour::Rsync;
    let Some((name, given)) = matches.subcommand() else { return Ok(AppliedSettings::default()) };
    let Some(command) = cli.find_subcommand(name).filter(|_| COMMANDS.contains(&name)) else {
        return Ok(AppliedSettings::default());
    };
    if matches!(given.try_get_one::<u8>("version"), Ok(Some(1..))) {
        return Ok(AppliedSettings::default());
    }
    let files = if given.get_flag("no_config") { &[][..] } else { &places.files };
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for path in files {
        match file::read(path, places.named) {
            Ok(file) => read.extend(file),
            // Scripts that call rsync do not know these files, so unreadable files are skipped.
            Err(file::ConfigFileError::Unread(why)) if as_rsync && !places.named => {
                unread.push(why)
            }
            Err(file::ConfigFileError::Unread(why)) => {
                return Err(format!("{why} (--no-config ignores the file)"));
            }
            Err(file::ConfigFileError::Wrong(why)) => return Err(why),
        }
    }
    let files = read;
    let mut applied = AppliedSettings { unread, ..AppliedSettings::default() };
    let mut settings: Vec<_> = files.iter().flat_map(|file| file.defaults.clone()).collect();
    if let Some(profile) = profile(given).filter(|_| !as_rsync) {
        let profile = find(&files, &profile)?;
        applied.operands = Some(profile.operands(given, name)?);
        settings.extend(profile.options.clone());
    }
    settings.extend(variables(places, cli));
    let take = SettingContext { cli, command, given, as_rsync };
    for (at, setting) in settings.iter().enumerate() {
        let nearer = &settings[at + 1..];
        let words =
            take.arguments(setting, nearer).map_err(|why| format!("{}: {why}", setting.origin))?;
        applied.rules += if RULES.contains(&&*setting.name) { words.len() } else { 0 };
        applied.settings.extend((!words.is_empty()).then(|| setting.clone()));
        applied.words.extend(words);
    }
    Ok(applied)
}

/// Returns the name of a profile, if the first operand is `@NAME`.
fn profile(given: &ArgMatches) -> Option<String> {
    let first = given.try_get_raw("operands").ok()??.next()?;
    let name = first.to_str()?.strip_prefix('@')?;
    let is_name = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// Returns the profile `name` from the nearest file.
///
/// # Errors
/// If no file has the profile; lists all profiles.
fn find<'a>(files: &'a [file::ConfigFile], name: &str) -> Result<&'a file::Profile, String> {
    let profiles = || files.iter().rev().flat_map(|file| &file.profiles);
    profiles().find(|profile| profile.name == name).ok_or_else(|| {
        let mut known: Vec<_> = profiles().map(|profile| format!("@{}", profile.name)).collect();
        known.sort();
        let lacks = match known.is_empty() {
            true => "no profile is defined".to_owned(),
            false => format!("no such profile ({})", known.join(", ")),
        };
        format!("'@{name}': {lacks}; write './@{name}' for a file of that name")
    })
}

/// Returns the settings in environment variables.
fn variables(places: &SettingSources, cli: &Command) -> Vec<OptionSetting> {
    let text = |value: &OsString| SettingValue::Texts(vec![value.clone()]);
    let setting = |name: &str, variable: &str, value| OptionSetting {
        name: name.into(),
        value: text(value),
        origin: SettingOrigin::Variable(variable.into()),
    };
    let rsh = places.variables.iter().filter(|(name, _)| name == RSYNC_RSH);
    let rsh = rsh.map(|(name, value)| setting("rsh", name, value));
    let own = places.variables.iter().filter_map(|(variable, value)| {
        let name = variable.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
        // Other variables with this prefix may belong to other programs.
        let is_setting = !ANSWERS.contains(&&*name) && option(cli, &name).is_some();
        is_setting.then(|| setting(&name, variable, value))
    });
    rsh.chain(own).collect()
}

/// Returns the declaration of an option, in any command that takes settings.
fn option<'a>(cli: &'a Command, name: &str) -> Option<&'a Arg> {
    let commands = COMMANDS.iter().filter_map(|command| cli.find_subcommand(command));
    commands.into_iter().find_map(|command| option_of(command, name))
}

fn option_of<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| long_names(arg).any(|known| known == name))
}

/// The context that decides which settings become arguments.
struct SettingContext<'a> {
    cli: &'a Command,
    command: &'a Command,
    given: &'a ArgMatches,
    as_rsync: bool,
}

impl SettingContext<'_> {
    /// Returns the arguments for a setting. Empty if a nearer place sets the option, or if the command lacks the
    /// option.
    fn arguments(
        &self,
        setting: &OptionSetting,
        nearer: &[OptionSetting],
    ) -> Result<Vec<OsString>, String> {
        let name = &*setting.name;
        let positive = name.strip_prefix("no-").unwrap_or(name);
        let known = option(self.cli, name).or_else(|| option(self.cli, positive));
        let Some(known) = known.filter(|_| !ANSWERS.contains(&name)) else {
            return Err(format!("'{name}' is not an option"));
        };
        let by_profile = matches!(setting.origin, SettingOrigin::Line { in_profile: true, .. });
        if !by_profile && !may_be_default(known) {
            return Err(format!(
                "'{name}' cannot be set for all runs; use the command line or a profile"
            ));
        }
        let Some(arg) = option_of(self.command, name) else { return Ok(Vec::new()) };
        let shows = known.get_help_heading() == Some(SHOW);
        let adds_up = matches!(arg.get_action(), ArgAction::Append);
        let is_same = |other: &OptionSetting| long_names(arg).any(|name| name == other.name);
        let is_given =
            self.given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        if self.as_rsync && shows || !adds_up && (is_given || nearer.iter().any(is_same)) {
            return Ok(Vec::new());
        }
        self.spelled(arg, setting)
    }

    /// Returns the arguments for a `setting` in effect.
    fn spelled(&self, arg: &Arg, setting: &OptionSetting) -> Result<Vec<OsString>, String> {
        let name = &setting.name;
        let word = OsString::from(format!("--{name}"));
        let with =
            |value: &OsString| [word.as_os_str(), OsStr::new("="), value].into_iter().collect();
        let number = |value: &OsString| value.to_str()?.parse::<u8>().ok();
        match (arg.get_action(), &setting.value) {
            (ArgAction::SetTrue | ArgAction::Count, SettingValue::Flag(true)) => Ok(vec![word]),
            (ArgAction::SetTrue | ArgAction::Count, SettingValue::Flag(false)) => {
                Ok(self.opposite(name))
            }
            (ArgAction::Count, SettingValue::Texts(texts)) => match &texts[..] {
                [text] if number(text).is_some_and(|times| times <= MOST_TIMES) => {
                    Ok(vec![word; number(text).unwrap_or_default().into()])
                }
                _ => Err(format!("'{name}' is a number up to {MOST_TIMES}, true or false")),
            },
            (ArgAction::SetTrue, SettingValue::Texts(texts)) => match &texts[..] {
                [text] if is_any(text, &["true", "yes", "on", "1"]) => Ok(vec![word]),
                [text] if is_any(text, &["false", "no", "off", "0"]) => Ok(self.opposite(name)),
                _ => Err(format!("'{name}' is true or false")),
            },
            (ArgAction::Append, SettingValue::Texts(texts)) => Ok(texts.iter().map(with).collect()),
            (_, SettingValue::Texts(texts)) if texts.len() == 1 => Ok(vec![with(&texts[0])]),
            (_, SettingValue::Texts(_)) => Err(format!("'{name}' takes one value")),
            (_, SettingValue::Flag(_)) => Err(format!("'{name}' takes a value, not true or false")),
        }
    }

    /// Returns the negated form of a flag, if declared.
    fn opposite(&self, name: &str) -> Vec<OsString> {
        let opposite = format!("no-{name}");
        let word = option_of(self.command, &opposite).map(|_| format!("--{opposite}").into());
        word.into_iter().collect()
    }
}

fn is_any(text: &OsStr, words: &[&str]) -> bool {
    words.iter().any(|word| text.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
}

/// True if the option may be set for all runs: the option decides how to sync, not which files.
fn may_be_default(arg: &Arg) -> bool {
    let heading = arg.get_help_heading();
    let is_any_of = |list: &[&str]| long_names(arg).any(|name| list.contains(&&*name));
    is_any_of(DEFAULTS) || matches!(heading, Some(TRAVEL | SHOW)) && !is_any_of(NO_DEFAULTS)
}

/// Commands that take settings.
const COMMANDS: [&str; 5] = ["sync", "watch", "verify", "doctor", "install"];
/// Prefix of environment variables.
const PREFIX: &str = "DELTIC_";
/// rsync's only variable that is a setting too; Deltic's own variable is nearer.
const RSYNC_RSH: &str = "RSYNC_RSH";
/// Options that are only valid on the command line.
const ANSWERS: &[&str] = &["help", "version", "config", "no-config", "token"];
/// Options that may be set for all runs, besides options for the connection and for output.
const DEFAULTS: &[&str] =
    &["max-delete", "force-delete", "cache", "no-cache", "checksum-max-age", "delay", "max-delay"];
/// Options for the connection that may not be set for all runs.
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
