//! Configuration files in TOML: options for all runs, and profiles.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use deltic_net::{NamedFile, reason};
use rustix::process::geteuid;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{OptionSetting, SettingOrigin, SettingValue};

/// Contents of a configuration file.
pub(super) struct ConfigFile {
    /// Options for all runs.
    pub(super) defaults: Vec<OptionSetting>,
    pub(super) profiles: Vec<Profile>,
}

/// A named sync.
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) options: Vec<OptionSetting>,
    sources: Vec<OsString>,
    destination: Option<OsString>,
}

impl Profile {
    /// Returns the operands of `command`: from the profile, and the operands typed behind the profile's name.
    pub(super) fn operands(
        &self,
        given: &ArgMatches,
        command: &str,
    ) -> Result<Vec<OsString>, String> {
        let Self { name, sources, destination, .. } = self;
        let words = given.get_raw("operands").into_iter().flatten().skip(1);
        let words: Vec<_> = words.map(OsString::from).collect();
        // `sync` copies sources into the destination, but `verify` compares a source with the destination itself.
        let is_content = matches!(&sources[..], [one] if one.as_encoded_bytes().ends_with(b"/"));
        if command == "verify" && words.is_empty() && !is_content {
            return Err(format!(
                "'@{name}': `source` must be one path that ends in a slash; or write `deltic verify A B`"
            ));
        }
        let destination = destination.clone().into_iter();
        match (words.len(), sources.is_empty(), destination.len()) {
            (1, false, 1) => Err(format!(
                "'@{name}' has a source and a destination; give both on the command line, or neither"
            )),
            (0 | 1, ..) => Ok(sources.iter().cloned().chain(words).chain(destination).collect()),
            _ => Ok(words),
        }
    }
}

/// Errors of a configuration file that end a run.
pub(super) enum ConfigFileError {
    /// The file must not or cannot be read.
    Unread(String),
    /// The file has invalid contents.
    Wrong(String),
}

/// Reads the file at `path`. `None` if the file is missing, unless `must` is true.
pub(super) fn read(path: &Path, must: bool) -> Result<Option<ConfigFile>, ConfigFileError> {
    match text(path, must) {
        Ok(text) => {
            ConfigParser { path, text: &text }.file().map(Some).map_err(ConfigFileError::Wrong)
        }
        Err(error) if !must && is_missing(&error) => Ok(None),
        Err(error) => Err(ConfigFileError::Unread(format!(
            "cannot read {}: {}",
            path.display(),
            reason(&error)
        ))),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads the text of a configuration file.
///
/// Options name programs to run, so the file must belong to this user or root, and nobody else may write the file. A
/// file that the user `named` may be a pipe or a device; elsewhere a pipe would block every run.
fn text(path: &Path, named: bool) -> io::Result<String> {
    let found = NamedFile::of_operator(path)?;
    let file = fs::File::from(if named { found.open_to_read() } else { found.open_any() }?);
    let metadata = file.metadata()?;
    let refuse = |why| Err(io::Error::other(why));
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return refuse("another user owns the file");
    }
    if !metadata.is_file() && !named {
        return refuse("not a regular file");
    }
    if metadata.is_file() && metadata.mode() & 0o022 != 0 {
        return refuse("other users can write the file; run `chmod go-w`");
    }
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return refuse("the file is longer than 1 MiB");
    }
    Ok(text)
}

/// Longest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A configuration file during parsing.
struct ConfigParser<'a> {
    path: &'a Path,
    text: &'a str,
}

type Entry<'a, 'b> = (&'b Spanned<DeString<'a>>, &'b Spanned<DeValue<'a>>);

impl<'a> ConfigParser<'a> {
    fn file(&self) -> Result<ConfigFile, String> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.wrong(error.span().unwrap_or_default(), error.message()))?;
        let mut file = ConfigFile { defaults: Vec::new(), profiles: Vec::new() };
        for (key, value) in in_order(table.get_ref()) {
            match value.get_ref() {
                DeValue::Table(profiles) if key.get_ref() == "profiles" => {
                    let profiles = in_order(profiles).into_iter().map(|entry| self.profile(entry));
                    file.profiles = profiles.collect::<Result<_, _>>()?;
                }
                _ => file.defaults.push(self.setting((key, value), false)?),
            }
        }
        Ok(file)
    }

    fn profile(&self, (name, value): Entry<'a, '_>) -> Result<Profile, String> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(name.span(), "a profile must be a table"));
        };
        let mut profile = Profile {
            name: name.get_ref().to_string(),
            options: Vec::new(),
            sources: Vec::new(),
            destination: None,
        };
        for (key, value) in in_order(table) {
            match &**key.get_ref() {
                "source" => profile.sources = self.paths(value)?,
                "destination" => match &mut self.paths(value)?[..] {
                    [one] => profile.destination = Some(std::mem::take(one)),
                    _ => {
                        return Err(
                            self.wrong(value.span(), "a profile has exactly one destination")
                        );
                    }
                },
                _ => profile.options.push(self.setting((key, value), true)?),
            }
        }
        Ok(profile)
    }

    /// Parses operands. Expands `~/`, because no shell has expanded operands in a file.
    fn paths(&self, value: &Spanned<DeValue<'a>>) -> Result<Vec<OsString>, String> {
        let SettingValue::Texts(paths) = self.value(value)? else {
            return Err(self.wrong(value.span(), "a path must be a string"));
        };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let below_home = |path: OsString| match (path.to_str(), &home) {
            (Some(text), Some(home)) if text.starts_with("~/") => home.join(&text[2..]).into(),
            _ => path,
        };
        Ok(paths.into_iter().map(below_home).collect())
    }

    fn setting(
        &self,
        (key, value): Entry<'a, '_>,
        in_profile: bool,
    ) -> Result<OptionSetting, String> {
        let (file, line) = (self.path.to_owned(), self.line(&key.span()));
        let origin = SettingOrigin::Line { file, line, in_profile };
        Ok(OptionSetting { name: key.get_ref().to_string(), value: self.value(value)?, origin })
    }

    fn value(&self, value: &Spanned<DeValue<'a>>) -> Result<SettingValue, String> {
        let one = |text: String| SettingValue::Texts(vec![text.into()]);
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(SettingValue::Flag(*flag)),
            DeValue::String(text) => Ok(one(text.to_string())),
            DeValue::Integer(number) => Ok(one(number.to_string())),
            DeValue::Float(number) => Ok(one(number.to_string())),
            DeValue::Array(list) => {
                let text = |item: &Spanned<DeValue<'a>>| match item.get_ref() {
                    DeValue::String(text) => Ok(text.to_string().into()),
                    _ => Err(self.wrong(item.span(), "a list must contain strings")),
                };
                list.iter().map(text).collect::<Result<_, _>>().map(SettingValue::Texts)
            }
            DeValue::Table(_) => Err(self.wrong(value.span(), "tables are [profiles.NAME] only")),
            DeValue::Datetime(_) => Err(self.wrong(value.span(), "write a time as a string")),
        }
    }

    fn wrong(&self, at: Range<usize>, why: &str) -> String {
        format!("{}, line {}: {why}", self.path.display(), self.line(&at))
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(at.start);
        before.filter(|byte| **byte == b'\n').count() + 1
    }
}

/// Returns the entries of a table in the order of the file.
fn in_order<'a, 'b>(table: &'b DeTable<'a>) -> Vec<Entry<'a, 'b>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}
