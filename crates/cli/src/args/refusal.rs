//! Command lines that clap refuses, and the messages about them.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::settings::AppliedSettings;

/// The reason why a command line is invalid, and the settings that were applied.
#[derive(Debug)]
pub(crate) struct UsageError {
    pub(super) error: clap::Error,
    pub(super) applied: AppliedSettings,
}

impl From<clap::Error> for UsageError {
    fn from(error: clap::Error) -> Self {
        Self { error, applied: AppliedSettings::default() }
    }
}

impl UsageError {
    /// Returns clap's error.
    pub(crate) fn error(&self) -> &clap::Error {
        &self.error
    }

    /// Returns an unknown option that other tools have, with advice for users of these tools.
    pub(crate) fn not_yet(&self) -> Option<(&str, &'static str)> {
        not_yet(&self.error)
    }

    /// Returns the text of the error, without misleading tips.
    pub(crate) fn text(&self) -> String {
        let text = with_useful_tips(&self.error, &self.error.render().to_string());
        let text = match self.is_helped() {
            true => text,
            // The message is complete without a reference to the help.
            false => text.split(MORE).next().unwrap_or_default().trim_end().to_owned() + "\n",
        };
        text.replace("invalid digit found in string", "not a whole number")
    }

    /// True if the help explains more: for an unknown or a missing argument.
    pub(crate) fn is_helped(&self) -> bool {
        let lacks_value = self.error.kind() == ErrorKind::InvalidValue
            && self.error.get(ContextKind::InvalidValue).is_none_or(is_empty);
        let is_said = matches!(
            self.error.kind(),
            ErrorKind::InvalidValue
                | ErrorKind::ValueValidation
                | ErrorKind::ArgumentConflict
                | ErrorKind::InvalidUtf8
        );
        lacks_value || !is_said
    }

    /// Names the setting that `text` complains about, and its place.
    pub(crate) fn origin(&self, text: &str) -> Option<String> {
        self.applied.origin_of_error(text)
    }

    /// Returns `text` in rsync's words.
    pub(crate) fn in_rsyncs_words(&self, text: &str) -> String {
        in_rsyncs_words(&self.error, text)
    }

    /// True for an unknown `--compress-choice`: rsync reports this with an exit code other than that of a usage
    /// error.
    pub(crate) fn is_way_to_compress(&self) -> bool {
        let arg = self.error.get(ContextKind::InvalidArg);
        let is_it = |arg: &ContextValue| arg.to_string().starts_with("--compress-choice ");
        self.error.kind() == ErrorKind::InvalidValue && arg.is_some_and(is_it)
    }

    /// True if the command is missing: users of rsync start with options.
    pub(crate) fn lacks_command(&self, text: &str) -> bool {
        text.contains("<COMMAND>")
            && self.error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    }

    /// True if `deltic restore` is told neither a version nor a time.
    pub(crate) fn lacks_version(&self, text: &str) -> bool {
        let is_missing = self.error.kind() == ErrorKind::MissingRequiredArgument;
        is_missing && text.contains("--version <ID>|--at <TIME>")
    }
}

/// The start of clap's closing reference to the help.
const MORE: &str = "\n\nFor more information, try ";

fn is_empty(value: &ContextValue) -> bool {
    matches!(value, ContextValue::String(text) if text.is_empty())
}

/// Returns `text` in rsync's words for unknown options, and without usage.
fn in_rsyncs_words(error: &clap::Error, text: &str) -> String {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(word)) => format!("{word}: unknown option"),
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(text);
            text.split("\n\n").next().unwrap_or_default().trim_end().to_owned()
        }
    }
}

/// Removes misleading tips from `text`: a mistyped option or command gets only a similar name as a tip.
fn with_useful_tips(error: &clap::Error, text: &str) -> String {
    let (word, near) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        _ => return text.to_owned(),
    };
    let word = error.get(word).map(ToString::to_string).unwrap_or_default();
    let is_near = |near: &String| edits(&word, near) <= MAX_TYPOS || near.starts_with(&word);
    let near = match error.get(near) {
        Some(ContextValue::String(near)) => is_near(near),
        Some(ContextValue::Strings(near)) => near.iter().any(is_near),
        _ => false,
    };
    let is_useful = |part: &&str| !part.starts_with("  tip: ") || near && part.contains("similar");
    text.split("\n\n").filter(is_useful).collect::<Vec<_>>().join("\n\n")
}

/// Most wrong characters in a mistyped option or command.
const MAX_TYPOS: usize = 2;

/// Returns the edit distance of two words, in characters.
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

/// Returns an unknown option that other tools have, with advice for users of these tools.
fn not_yet(error: &clap::Error) -> Option<(&str, &'static str)> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, why) = NOT_YET.iter().find(|(words, _)| words.split(' ').any(|known| known == word))?;
    (error.kind() == ErrorKind::UnknownArgument).then_some((word, why))
}

/// Options of rsync and similar tools that users will try, each with advice.
const NOT_YET: &[(&str, &str)] = &[
    ("-N --crtimes", "Linux sets creation times; no program can set creation times"),
    ("--write-devices --copy-devices", "devices are made or left out, and never written or read"),
    ("--drop-D", "--no-D leaves devices and special files out"),
    ("--ssh-port", "-e 'ssh -p PORT' names the port"),
    ("--ssh --ssh-command --ssh-cmd --ssh-options --ssh-args", "use -e 'ssh OPTIONS'"),
    ("--ssh-key --key --identity --identity-file", "-e 'ssh -i FILE' names the key"),
    ("--sudo", "use --deltic-path 'sudo deltic' for the far end"),
    (
        "--parallel --transfers --checkers --jobs -j --concurrency --multi-thread-streams",
        "many files are synced at once by default; --threads N sets the threads, --streams N the connections",
    ),
    ("--bandwidth --limit --limit-rate --rate-limit", "use --bwlimit RATE"),
    ("--mirror --purge", "use -a --delete"),
    ("--recurse", "use -r, or -a to keep attributes too"),
    ("--follow --follow-symlinks --follow-links --dereference", "use -L"),
    ("--skip-existing --no-overwrite --no-clobber --immutable", "use --ignore-existing"),
    ("--exclude-file --ignore-file", "use --exclude-from FILE"),
    ("--include-file", "use --include-from FILE"),
    ("--exclude-dir", "use --exclude 'DIR/'"),
    ("--simulate --pretend --just-print", "use -n"),
    ("--resume --continue", "run the same command again; the run resumes"),
    (
        "--retries --retry",
        "a lost connection is made again by default; --retry-for TIME sets the time",
    ),
    (
        "--yes --assume-yes --no-confirm",
        "--force-delete allows any number of deletions; no other question is asked",
    ),
    ("--confine-root", "run deltic where no other tree can be reached, as in a container"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(words: &str) -> clap::Error {
        let words = shlex::split(&format!("deltic sync {words}")).unwrap();
        crate::args::parse(words.into_iter().map(Into::into)).unwrap_err()
    }

    #[test]
    fn options_of_rsync_that_are_missing_are_explained() {
        assert_eq!(not_yet(&sync("-avN a b")).map(|(word, _)| word), Some("-N"));
        assert_eq!(not_yet(&sync("--fooo a b")), None);
    }
}
