//! Reports a run to a person: names, troubles, progress and a summary.

use std::io;
use std::mem;
use std::time::Duration;

use deltic_net::plan::Sources;
use deltic_net::{Outcome, Plan, SyncError};
use deltic_protocol::options::Options;
use deltic_protocol::report::{Action, Change, EntryType, MadeRoot, Notice, Question, TroubleKind};
use deltic_tree::{Meta, RelPath};

use crate::report::asides;
use crate::report::complaints::Complaints;
use crate::report::escape::Escape;
use crate::report::exit::Exit;
use crate::report::explain::SendExplanation;
use crate::report::format::{self, FormatContext, LineFormat};
use crate::report::journal::{LogWriter, is_shown, is_up_to_date, line};
use crate::report::lines::StdoutLines;
use crate::report::link::link_lines;
use crate::report::listing::{ListStyle, ListedEntries};
use crate::report::ordered::PathTexts;
use crate::report::output::{self, Output};
use crate::report::progress::ProgressDisplay;
use crate::report::question;
use crate::report::reporter::{Reporter, RetryNotice, RunEnding};
use crate::report::summary::{self, ChangeTally};
use crate::report::view::{ListLine, OutputView, SummaryForm};
use crate::report::waiting::LineGroup;

/// Reports a run in text.
pub(super) struct PersonReporter {
    view: OutputView,
    setting: FormatContext,
    tally: ChangeTally,
    explain: Option<SendExplanation>,
    listed: ListedEntries,
    options: Options,
    /// rsync's `delta-transmission` message, until it is shown before the first change. `None` without `--debug=flist`.
    transmission: Option<&'static str>,
    /// Removed sources, to be shown in the order of names.
    removed: PathTexts,
    lines: StdoutLines,
    complaints: Complaints,
    /// True if a directory was left out.
    skipped_dir: bool,
    log: Option<LogWriter>,
}

impl PersonReporter {
    pub(super) fn new(plan: &Plan, view: OutputView, output: Output) -> Self {
        let setting = FormatContext::of(plan);
        let [streams, built] = match plan.sources {
            Sources::Local(_) => ["sending incremental file list", "building file list"],
            Sources::Remote { .. } => ["receiving incremental file list", "receiving file list"],
        };
        let mut log = view.log.as_ref().and_then(|log| LogWriter::open(log, &setting));
        if let Some(log) = &mut log {
            log.line(built);
        }
        let progress = ProgressDisplay::new(plan, view.live, view.numbers);
        let lines = StdoutLines::new(&view, progress, output);
        let (tally, explain) =
            (ChangeTally::default(), view.explain.then(|| SendExplanation::new(plan)));
        let transmission = (view.debug.flist > 0).then(|| asides::transmission(&plan.options));
        let mut reporter = Self {
            view,
            setting,
            tally,
            explain,
            listed: ListedEntries::default(),
            options: plan.options.clone(),
            transmission,
            removed: PathTexts::default(),
            lines,
            complaints: Complaints::default(),
            skipped_dir: false,
            log,
        };
        let Self { lines, view, .. } = &mut reporter;
        if view.debug.nstr > 0 {
            asides::negotiated(&plan.options, view.checksum.as_deref())
                .for_each(|line| lines.say(line));
        }
        match view.list {
            ListLine::Nothing => {}
            ListLine::Streams => lines.say(streams),
            ListLine::Whole => lines.say(format!("{built} ... done")),
            ListLine::Counted => lines.count(built),
        }
        reporter
    }

    /// Adds a listed entry. If the list is full, its lines so far are shown first.
    fn list(&mut self, path: &RelPath, meta: &Meta) {
        if !self.view.quiet && self.listed.add(path, meta).is_err() {
            self.say_listed();
            // The emptied list has room.
            let _ = self.listed.add(path, meta);
        }
    }

    fn say_listed(&mut self) {
        let Self { listed, setting, lines, view, options, .. } = self;
        let (escape, numbers, zone) = (view.escape, view.numbers, setting.zone());
        let (links, accessed) = (options.links, options.metadata.accessed);
        let style = ListStyle { links, accessed, escape, numbers, zone };
        listed.say(style, |line| lines.say_one(line));
    }

    fn say_transmission(&mut self) {
        if let Some(words) = self.transmission.take() {
            self.lines.say(words);
            self.log_aside(|_| words.into());
        }
    }

    fn change(&mut self, change: &Change) {
        self.say_transmission();
        match change.action {
            Action::PassedOver(why) if self.view.info.skip > 0 => {
                return self.aside(change, |escape| asides::passed_over(change, why, escape));
            }
            Action::Unchanged if self.view.unchanged => return self.unchanged(change),
            Action::PassedOver(_) | Action::Unchanged => return,
            _ => {}
        }
        self.tally.note(change);
        if self.view.debug.fuzzy > 0
            && let Some(line) = asides::fuzzy(change, self.view.escape)
        {
            self.lines.say_change(change, LineGroup::Asides, &line);
        }
        let follows_name = asides::follows_name(change, &self.options);
        if !follows_name {
            self.backed_up(change);
        }
        match is_up_to_date(change, &self.setting) {
            true if self.view.unchanged => self.unchanged(change),
            true => {}
            false => self.name(change),
        }
        if follows_name {
            self.backed_up(change);
        }
        if let Some(line) = self.explain.as_mut().and_then(|explain| explain.note(change))
            && self.view.info.name > 0
            && is_shown(change, &self.view)
        {
            self.lines.say_change(change, LineGroup::Names, line.as_bytes());
        }
    }

    fn name(&mut self, change: &Change) {
        let format = match change.action {
            Action::Deleted => self.view.deletions.as_ref(),
            _ => self.view.names.as_ref().filter(|_| is_shown(change, &self.view)),
        };
        if let Some(format) = format {
            let line = line(format, change, &self.setting, &self.view, self.view.escape);
            self.lines.say_change(change, LineGroup::Names, &line);
        }
        if let Some(log) = self.log.as_mut().filter(|_| !self.view.dry_run) {
            log.change(change, &self.view);
        }
    }

    fn made_root(&mut self, made: MadeRoot) {
        let itemizes = self.view.names.as_ref().is_some_and(LineFormat::itemizes);
        if self.view.quiet || self.view.info.name == 0 && !itemizes {
            return;
        }
        for line in self.setting.made_root(made, self.view.dry_run) {
            self.lines.say(self.view.escape.escaped(&line));
            if let Some(log) = &mut self.log {
                log.line(Escape::Log.escaped(&line));
            }
        }
    }

    /// Shows a name that is up to date: itemized, or else as a message. A directory gets a message only if an
    /// alternate has the directory.
    fn unchanged(&mut self, change: &Change) {
        let is_itemized = self.view.names.as_ref().is_some_and(LineFormat::itemizes);
        if !is_itemized && change.item == EntryType::Dir && change.action == Action::Unchanged {
            return;
        }
        let Some(format) = self.view.names.as_ref().filter(|_| is_itemized) else {
            return self.aside(change, |escape| format::up_to_date(change, escape));
        };
        let line = format.line(change, &self.setting, self.view.escape);
        self.lines.say_change(change, LineGroup::Names, &line);
        let log = self.log.as_mut().filter(|_| !self.view.dry_run);
        if let Some(log) = log.filter(|log| log.names.as_ref().is_some_and(LineFormat::itemizes)) {
            log.change(change, &self.view);
        }
    }

    /// Shows and logs a line that is not about a change.
    fn aside(&mut self, change: &Change, line: impl Fn(Escape) -> Vec<u8>) {
        self.lines.say_change(change, LineGroup::Asides, &line(self.view.escape));
        self.log_aside(line);
    }

    fn log_aside(&mut self, line: impl Fn(Escape) -> Vec<u8>) {
        if let Some(log) = self.log.as_mut().filter(|_| !self.view.dry_run) {
            log.line(line(Escape::Log));
        }
    }

    fn backed_up(&mut self, change: &Change) {
        if self.view.info.backup == 0 {
            return;
        }
        let line = |escape| asides::backed_up(change, &self.options, escape);
        let Some((shown, logged)) = line(self.view.escape).zip(line(Escape::Log)) else { return };
        let group = if asides::is_replaced(change) { LineGroup::Names } else { LineGroup::Asides };
        self.lines.say_change(change, group, &shown);
        self.log_aside(|_| logged.clone());
    }

    fn source_removed(&mut self, path: &RelPath) {
        if self.view.info.remove > 0 && self.removed.push(path, EntryType::File, b"").is_err() {
            self.say_removed();
            // The emptied list has room.
            let _ = self.removed.push(path, EntryType::File, b"");
        }
    }

    /// Shows the removed sources.
    fn say_removed(&mut self) {
        let Self { log, lines, view, .. } = self;
        mem::take(&mut self.removed).by_name(|path, _| {
            lines.say_one(&asides::removed(path, view.escape));
            if let Some(log) = log {
                log.line(asides::removed(path, Escape::Log));
            }
        });
    }
}

impl Reporter for PersonReporter {
    fn report(&mut self, notice: &Notice) {
        self.lines.progress.note(notice);
        match notice {
            Notice::MadeRoot(made) => self.made_root(*made),
            Notice::Changed(change) => self.change(change),
            Notice::Removed(path) => self.source_removed(path),
            Notice::ReadReason { path, reason } => {
                if let Some(explain) = &mut self.explain {
                    explain.note_reason(path, reason);
                }
            }
            Notice::Agreed(sums) => {
                if let Some(explain) = &mut self.explain {
                    explain.note_sums(sums);
                }
            }
            Notice::Trouble(trouble)
                if matches!(trouble.kind, TroubleKind::Skipped | TroubleKind::UnsafeLink) =>
            {
                if !self.view.shows(trouble.kind) {
                    return;
                }
                self.lines.say(&trouble.message);
                self.skipped_dir |= trouble.message.starts_with("skipping directory ");
                if let Some(log) = &mut self.log {
                    log.line(&trouble.message);
                }
            }
            Notice::Trouble(trouble) => {
                self.lines.flush();
                if self.view.shows(trouble.kind) {
                    self.lines.progress.aside(|| self.complaints.report(trouble, &self.view));
                }
                if let Some(log) = &mut self.log {
                    let message = self.view.far.message(trouble);
                    log.line(output::complaint(&message));
                }
            }
            Notice::Entry { path, meta } => self.list(path, meta),
            Notice::Listed { names, complete: true, .. } => self.lines.counted(Some(*names)),
            Notice::Listed { .. }
            | Notice::Settled { .. }
            | Notice::Wire { .. }
            | Notice::Closing
            | Notice::Finished(_) => {}
        }
    }

    fn ask(&mut self, question: &Question) {
        self.lines.flush();
        self.lines.progress.pause();
        output::note(&question::text(question));
    }

    fn answered(&mut self) {
        self.lines.progress.go_on();
    }

    fn retry(&mut self, notice: &RetryNotice) {
        self.lines.flush();
        self.lines.progress.begin_again(|| notice.complain());
        if let Some(log) = &mut self.log {
            log.line(output::complaint(&notice.why));
            log.line(notice.line());
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        self.lines.tick(elapsed);
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    fn finish(&mut self, ending: &RunEnding<'_>) -> io::Result<()> {
        let result = ending.result;
        self.lines.progress.clear();
        if result.is_ok() {
            self.say_transmission();
        }
        self.lines.say_held();
        self.say_removed();
        self.lines.flush();
        self.lines.progress.end(result.as_ref().ok());
        self.complaints.finish();
        if self.skipped_dir && !self.options.recursive && !output::behaves_like_rsync() {
            output::note("  hint: -a copies directories and their content\n");
        }
        match result {
            Ok(outcome) => self.finish_completed(outcome, ending.exit),
            Err(error) => self.finish_badly(error, ending),
        }
    }
}

impl PersonReporter {
    fn finish_completed(&mut self, outcome: &Outcome, exit: Exit) -> io::Result<()> {
        self.say_listed();
        if self.view.debug.deltasum > 0 {
            let matched = if self.view.dry_run { 0 } else { self.tally.matched() };
            let line = asides::matches(matched, &outcome.totals);
            self.lines.output.line(&line);
            self.log_aside(|_| line.clone().into());
        }
        if let Some(explain) = self.explain.as_ref().filter(|_| self.view.info.name == 0) {
            explain.lines().iter().for_each(|line| self.lines.output.line(line));
        }
        if let Some(explain) = &self.explain {
            explain.reasons().iter().for_each(|line| self.lines.output.line(line));
            explain.sums().iter().for_each(|line| self.lines.output.line(line));
            // The full summary has the line of sums, and the lines of a run that compressed.
            if self.view.summary != SummaryForm::Full {
                let line = summary::sums(outcome.sums, self.view.numbers);
                line.iter().for_each(|line| self.lines.output.line(line));
            }
            if self.view.summary != SummaryForm::Full || outcome.link.packing.original == 0 {
                link_lines(&outcome.link).iter().for_each(|line| self.lines.output.line(line));
            }
        }
        let lines = summary::lines(&self.view, outcome, &self.tally, exit);
        lines.iter().for_each(|line| self.lines.output.line(line));
        if let Some(log) = &mut self.log {
            log.end(lines, outcome, &self.view);
            log.ending(exit);
        }
        self.lines.output.finish()
    }

    fn finish_badly(&mut self, error: &SyncError, ending: &RunEnding<'_>) -> io::Result<()> {
        if self.view.summary == SummaryForm::Line {
            self.lines.output.line(format!("exit_code={}", ending.exit.code()));
        }
        let written = self.lines.output.finish();
        output::complain(&error.to_string(), ending.hint.as_deref());
        if let Some(log) = &mut self.log {
            log.line(output::complaint(&error.to_string()));
            log.ending(ending.exit);
        }
        written
    }
}
