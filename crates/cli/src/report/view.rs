//! The view of a run: decided once, from the words and the terminals.

use std::path::PathBuf;

use deltic_net::{SyncError, Trust};
use deltic_protocol::options::Options;
use deltic_protocol::report::TroubleKind;

use crate::args::settings::Applied;
use crate::report::escape::Escape;
use crate::report::format::Format;
use crate::report::hint::{self, Far, NextRun};
use crate::report::numbers::Numbers;
use crate::report::waiting::Deletions;
use crate::words::levels::{Debug, Info};

/// Choice of what the user sees of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Programs read standard output.
    pub(crate) json: bool,
    /// Format of changes on standard output, if they are shown.
    pub(crate) names: Option<Format>,
    /// Format of deletions, if they are shown.
    pub(crate) deletions: Option<Format>,
    /// Names that are up to date are shown as well.
    pub(crate) unchanged: bool,
    /// Owners are shown.
    pub(crate) owners: bool,
    /// True if digests of files are shown.
    pub(crate) digests: bool,
    /// Settings that messages may be about.
    pub(crate) applied: Applied,
    /// The other machine, if there is one.
    pub(crate) far: Far,
    /// How the user goes on with a run that did not end.
    pub(crate) next_run: NextRun,
    /// Levels of output.
    pub(crate) info: Info,
    /// The same of the inside of the run.
    pub(crate) debug: Debug,
    /// Style of figures.
    pub(crate) numbers: Numbers,
    /// Bytes of names that are let through.
    pub(crate) escape: Escape,
    /// The run changes nothing.
    pub(crate) dry_run: bool,
    /// A watch runs it, and others follow.
    pub(crate) watches: bool,
    /// First line, about the list.
    pub(crate) list: ListLine,
    /// Last lines.
    pub(crate) summary: Summary,
    /// Reasons are given for how files went.
    pub(crate) explain: bool,
    /// Form of progress.
    pub(crate) live: Live,
    /// Errors alone are shown.
    pub(crate) quiet: bool,
    /// Colours may be used in the summary.
    pub(crate) color: bool,
    /// Messages that are no errors go to standard error.
    pub(crate) to_stderr: bool,
    /// Each line is written at once.
    pub(crate) by_line: bool,
    /// Names wait for each other, to be shown in order: where nobody watches.
    pub(crate) in_order: bool,
    /// The place of deletions among them.
    pub(crate) when_deletions: Deletions,
    /// Log of what happens.
    pub(crate) log: Option<Log>,
}

/// A log besides standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    /// Owners whose symlinks are followed on the way there.
    pub(crate) trust: Trust,
    /// Format of changes, if they are logged.
    pub(crate) names: Option<Format>,
}

/// First line, about the list, as rsync would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListLine {
    Nothing,
    /// The list comes while the run goes on.
    Streams,
    /// All of the list is there before the run begins, as with rsync.
    Whole,
    /// The same, and what is in it is counted before all else is said.
    Counted,
}

/// Last lines on standard output.
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

/// Form of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    Nothing,
    /// A bar on standard error that redraws itself.
    Bar,
    /// A line there now and then.
    Lines,
    /// A line as rsync has it now and then on standard output, where others read it; one that stands for the one
    /// before.
    Piped {
        again: bool,
    },
}

impl View {
    /// The hint for an error: the setting that it is about, or what to do.
    pub(crate) fn hint(&self, error: &SyncError) -> Option<String> {
        self.applied.blame(&error.to_string()).or_else(|| hint::of(error, &self.far, self.next_run))
    }

    /// True if troubles of this kind are shown on our streams.
    pub(crate) const fn shows(&self, kind: TroubleKind) -> bool {
        match kind {
            TroubleKind::Skipped => !self.quiet && self.info.nonreg > 0,
            TroubleKind::UnsafeLink => !self.quiet && self.info.name > 0,
            TroubleKind::Warned => !self.quiet,
            TroubleKind::Vanished | TroubleKind::Failed | TroubleKind::DeleteLimit => true,
        }
    }

    /// True where the run is to tell of names that stay as they are.
    pub(crate) const fn wants_unchanged(&self, options: &Options) -> bool {
        let names_sources = options.remove.sources && self.info.remove > 0;
        self.unchanged || self.info.skip > 0 || names_sources
    }
}

impl Live {
    /// The form on standard error: on a terminal a bar, else lines where progress was `asked` for.
    pub(crate) const fn on(is_terminal: bool, asked: bool) -> Self {
        match (is_terminal, asked) {
            (true, _) => Self::Bar,
            (false, true) => Self::Lines,
            (false, false) => Self::Nothing,
        }
    }
}
