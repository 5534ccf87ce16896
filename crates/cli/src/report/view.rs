//! What the user sees of a run: decided once, from the words and the terminals.

use std::path::PathBuf;

use deltic_net::Trust;
use deltic_protocol::options::Options;

use crate::report::escape::Escape;
use crate::report::format::Format;
use crate::report::held::Deletions;
use crate::report::hint::Far;
use crate::report::numbers::Numbers;
use crate::words::levels::{Debug, Info};

/// What the user sees of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether programs read standard output.
    pub(crate) json: bool,
    /// How changes are named on standard output, if they are.
    pub(crate) names: Option<Format>,
    /// How deletions are, if they are.
    pub(crate) deletions: Option<Format>,
    /// Whether what is up to date is told as well.
    pub(crate) unchanged: bool,
    /// Whether it is told whose things are.
    pub(crate) owners: bool,
    /// Where to look for what the words mean.
    pub(crate) help: &'static str,
    /// The other machine, if there is one.
    pub(crate) far: Far,
    /// What is told.
    pub(crate) info: Info,
    /// The same of the inside of the run.
    pub(crate) debug: Debug,
    /// How figures are written.
    pub(crate) numbers: Numbers,
    /// Which bytes of names are let through.
    pub(crate) escape: Escape,
    /// Whether nothing is to be changed.
    pub(crate) dry_run: bool,
    /// A watch runs it, and others follow.
    pub(crate) watches: bool,
    /// What is said of the list before all else.
    pub(crate) list: ListLine,
    /// What is said at the end.
    pub(crate) summary: Summary,
    /// Whether it is said why files went as they did.
    pub(crate) explain: bool,
    /// How progress is shown.
    pub(crate) live: Live,
    /// Whether only errors are said.
    pub(crate) quiet: bool,
    /// Whether the summary may be coloured.
    pub(crate) color: bool,
    /// Where messages go that are no errors.
    pub(crate) to_stderr: bool,
    /// Whether each line is written at once.
    pub(crate) by_line: bool,
    /// Whether names wait for each other, to be told in order: where nobody watches.
    pub(crate) in_order: bool,
    /// The place of deletions among them.
    pub(crate) when_deletions: Deletions,
    /// Where to log what happens.
    pub(crate) log: Option<Log>,
}

/// A log besides standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    /// Whose symlinks are followed on the way there.
    pub(crate) trust: Trust,
    /// How changes are named, if they are.
    pub(crate) names: Option<Format>,
}

/// What is said of the list before all else, as rsync would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListLine {
    Nothing,
    /// It comes while the run goes on.
    Streams,
    /// Where rsync has all of it before it begins.
    Whole,
    /// The same, and what is in it is counted before all else is said.
    Counted,
}

/// What is said at the end on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summary {
    Nothing,
    /// Three lines for a person at a terminal.
    Short,
    /// rsync's two lines.
    Totals,
    /// rsync's `--stats`.
    Full,
    /// A line of every count, for logs.
    Line,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    Nothing,
    /// A bar on standard error that redraws itself.
    Bar,
    /// A line there now and then.
    Lines,
    /// A line as rsync has it now and then on standard output, where others read it; one that stands for the one before.
    Piped {
        again: bool,
    },
}

impl View {
    /// True where the run is to tell of names that stay as they are.
    pub(crate) const fn wants_unchanged(&self, options: &Options) -> bool {
        let names_sources = options.remove.sources && self.info.remove > 0;
        self.unchanged || self.info.skip > 0 || names_sources
    }
}

impl Live {
    /// What standard error shows: a terminal what is made for it, else only what was `asked` for.
    pub(crate) const fn on(is_terminal: bool, asked: bool) -> Self {
        match (is_terminal, asked) {
            (true, _) => Self::Bar,
            (false, true) => Self::Lines,
            (false, false) => Self::Nothing,
        }
    }
}
