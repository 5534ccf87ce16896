//! The view of a run, decided once from the arguments and the terminals.

use std::path::PathBuf;

use deltic_net::{SyncError, Trust};
use deltic_protocol::options::Options;
use deltic_protocol::report::TroubleKind;

use crate::args::settings::AppliedSettings;
use crate::report::escape::Escape;
use crate::report::format::LineFormat;
use crate::report::hint::{self, NextRun, RemoteMachine};
use crate::report::numbers::NumberStyle;
use crate::report::waiting::DeletionOrder;
use crate::words::levels::{DebugLevels, InfoLevels};

/// Settings for the output of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputView {
    /// True if programs read standard output.
    pub(crate) json: bool,
    /// Format of changes on standard output, if changes are shown.
    pub(crate) names: Option<LineFormat>,
    /// Format of deletions, if deletions are shown.
    pub(crate) deletions: Option<LineFormat>,
    /// True if names that are up to date are shown as well.
    pub(crate) unchanged: bool,
    /// True if owners are shown.
    pub(crate) owners: bool,
    /// True if digests of files are shown.
    pub(crate) digests: bool,
    /// Settings that messages may refer to.
    pub(crate) applied: AppliedSettings,
    /// The other machine, if there is one.
    pub(crate) far: RemoteMachine,
    /// Way to continue after an incomplete run.
    pub(crate) next_run: NextRun,
    /// Levels of information.
    pub(crate) info: InfoLevels,
    /// Levels of debug output.
    pub(crate) debug: DebugLevels,
    /// Name of rsync's checksum that the user chose.
    pub(crate) checksum: Option<String>,
    /// Style of figures.
    pub(crate) numbers: NumberStyle,
    /// Bytes of names that are not escaped.
    pub(crate) escape: Escape,
    /// True if the run changes nothing.
    pub(crate) dry_run: bool,
    /// True if the run is a round of a watch, and more follow.
    pub(crate) watches: bool,
    /// Form of the first line, about the list.
    pub(crate) list: ListLine,
    /// Form of the last lines.
    pub(crate) summary: SummaryForm,
    /// True if the output explains how files were sent.
    pub(crate) explain: bool,
    /// Form of progress.
    pub(crate) live: ProgressMode,
    /// True if only errors are shown.
    pub(crate) quiet: bool,
    /// True if the summary may use colours.
    pub(crate) color: bool,
    /// True if messages that are no errors go to standard error.
    pub(crate) to_stderr: bool,
    /// True if each line is written at once.
    pub(crate) by_line: bool,
    /// True if lines are held to be shown in the order of names.
    pub(crate) in_order: bool,
    /// Place of deletions among the lines.
    pub(crate) when_deletions: DeletionOrder,
    /// Log file, if any.
    pub(crate) log: Option<LogFile>,
}

/// A log file besides standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    /// Policy for symlinks on the way to the log file, by owner.
    pub(crate) trust: Trust,
    /// Format of changes, if changes are logged.
    pub(crate) names: Option<LineFormat>,
}

/// Form of the first line, about the list, as in rsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListLine {
    Nothing,
    /// The list is made while the run goes on.
    Streams,
    /// The list is complete before the run begins, as in rsync.
    Whole,
    /// The list is complete before the run begins, and its names are counted before any other output.
    Counted,
}

/// Last lines on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryForm {
    Nothing,
    /// Three lines for a person at a terminal.
    Short,
    /// rsync's two lines.
    Totals,
    /// rsync's `--stats`.
    Full,
    /// A line with all counts, for logs.
    Line,
}

/// Form of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    Nothing,
    /// A bar on standard error that redraws itself.
    Bar,
    /// A line on standard error at intervals.
    Lines,
    /// A line like rsync's on standard output at intervals; `again` if each line overwrites the one before.
    Piped {
        again: bool,
    },
}

impl OutputView {
    /// Returns the hint for an error: the setting that the error is about, or advice.
    pub(crate) fn hint(&self, error: &SyncError) -> Option<String> {
        self.applied
            .origin_of_error(&error.to_string())
            .or_else(|| hint::of(error, &self.far, self.next_run))
    }

    /// True if troubles of this kind are shown on the output streams.
    pub(crate) const fn shows(&self, kind: TroubleKind) -> bool {
        match kind {
            TroubleKind::Skipped => !self.quiet && self.info.nonreg > 0,
            TroubleKind::UnsafeLink => !self.quiet && self.info.name > 0,
            TroubleKind::Warned => !self.quiet,
            TroubleKind::Vanished | TroubleKind::Failed | TroubleKind::DeleteLimit => true,
        }
    }

    /// True if the run has to report unchanged names.
    pub(crate) const fn wants_unchanged(&self, options: &Options) -> bool {
        let names_sources = options.remove.sources && self.info.remove > 0;
        self.unchanged || self.info.skip > 0 || names_sources
    }
}

impl ProgressMode {
    /// Returns the form on standard error: a bar on a terminal, else lines if progress was `asked` for.
    pub(crate) const fn on(is_terminal: bool, asked: bool) -> Self {
        match (is_terminal, asked) {
            (true, _) => Self::Bar,
            (false, true) => Self::Lines,
            (false, false) => Self::Nothing,
        }
    }
}
