//! The log file of a run, and lines of changes for both the log and standard output.

use std::fs::File;

use deltic_net::{NamedFile, Outcome};
use deltic_protocol::report::{Action, Change, Differs, EntryType};

use crate::report::escape::Escape;
use crate::report::exit::Exit;
use crate::report::format::{self, FormatContext, LineFormat};
use crate::report::output::{self, Output};
use crate::report::summary;
use crate::report::view::{LogFile, OutputView, SummaryForm};
use crate::words::password::without_passwords;

/// The file of `--log-file`: a line for each event, with time and process id.
pub(super) struct LogWriter {
    pub(super) names: Option<LineFormat>,
    output: Output,
    setting: FormatContext,
}

impl LogWriter {
    /// Opens the log. `None` if that fails: the run then continues without a log, as in rsync.
    pub(super) fn open(log: &LogFile, setting: &FormatContext) -> Option<Self> {
        match NamedFile::find_file(&log.path, log.trust).and_then(|file| file.open_to_append()) {
            Ok(file) => {
                let output = Output::new(Box::new(File::from(file)));
                Some(Self { names: log.names.clone(), output, setting: setting.clone() })
            }
            Err(error) => {
                output::complain(&format::unopened(&log.path, &error), Some("nothing is logged"));
                None
            }
        }
    }

    pub(super) fn line(&mut self, text: impl AsRef<[u8]>) {
        let head = format!("{} [{}] ", self.setting.time(format::now()), std::process::id());
        let text = text.as_ref();
        let shown = std::str::from_utf8(text).map(without_passwords);
        let shown = shown.as_deref().map_or(text, str::as_bytes);
        self.output.line([head.as_bytes(), shown].concat());
    }

    pub(super) fn change(&mut self, change: &Change, view: &OutputView) {
        let Some(format) = &self.names else { return };
        if is_shown(change, view) {
            let line = line(format, change, &self.setting, view, Escape::Log);
            self.line(line);
        }
    }

    /// Adds the summary that standard output shows, or rsync's line for a log if standard output shows no summary or
    /// the short one.
    pub(super) fn end(&mut self, lines: Vec<String>, outcome: &Outcome, view: &OutputView) {
        let lines = match view.summary {
            SummaryForm::Totals | SummaryForm::Full | SummaryForm::Line => lines,
            SummaryForm::Nothing | SummaryForm::Short => vec![summary::logged(outcome)],
        };
        for line in lines.iter().filter(|line| !line.is_empty()) {
            self.line(line);
        }
    }

    /// Adds the last line of an unsuccessful run: scripts look for it.
    pub(super) fn ending(&mut self, exit: Exit) {
        if exit != Exit::Success {
            self.line(output::ending(exit));
        }
        self.output.flush();
    }

    pub(super) fn flush(&mut self) {
        self.output.flush();
    }
}

/// True if the entry was not changed, or was copied unchanged from an alternate.
pub(super) fn is_up_to_date(change: &Change, setting: &FormatContext) -> bool {
    let is_same = change.differs == Differs::default() && !setting.retimes(change);
    change.action == Action::Unchanged || change.action == Action::Copied && is_same
}

/// True if rsync would name the change, also in a log.
///
/// A change of attributes alone is named if standard output itemizes, or with `--info=name2`. Directories are always
/// named.
pub(super) fn is_shown(change: &Change, view: &OutputView) -> bool {
    let itemizes = || view.names.as_ref().is_some_and(LineFormat::itemizes);
    change.action != Action::Touched
        || change.item == EntryType::Dir
        || itemizes()
        || view.info.name > 1
}

/// Returns the line for a change that is shown. If only attributes changed, the line is the name alone, unless
/// standard output itemizes.
pub(super) fn line(
    format: &LineFormat,
    change: &Change,
    setting: &FormatContext,
    view: &OutputView,
    escape: Escape,
) -> Vec<u8> {
    let itemizes = view.names.as_ref().is_some_and(LineFormat::itemizes);
    match (change.action, change.item) {
        (Action::Touched, item) if item != EntryType::Dir && !itemizes => {
            format::plain(change, escape)
        }
        _ => format.line(change, setting, escape),
    }
}
