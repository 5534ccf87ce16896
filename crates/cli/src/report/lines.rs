//! Lines on standard output, in order; the progress bar makes way for them.

use std::time::Duration;

use deltic_protocol::report::Change;

use crate::report::output::Output;
use crate::report::progress::ProgressDisplay;
use crate::report::view::OutputView;
use crate::report::waiting::{DeletionOrder, HeldLines, LineGroup};

/// Lines on standard output.
pub(super) struct StdoutLines {
    pub(super) output: Output,
    pub(super) progress: ProgressDisplay,
    /// Lines of changes, held until all changes are known: changes come in any order, and users compare the output of
    /// runs.
    held: HeldLines,
    /// Time of the first tick since lines are held.
    held_since: Option<Duration>,
    /// Lines that wait for the line with the number of names, if that line comes first.
    counting: Option<Vec<u8>>,
    when_deletions: DeletionOrder,
    /// True if lines are held to be shown in the order of names.
    in_order: bool,
    dry_run: bool,
    by_line: bool,
}

impl StdoutLines {
    pub(super) fn new(view: &OutputView, progress: ProgressDisplay, output: Output) -> Self {
        Self {
            output,
            progress,
            held: HeldLines::default(),
            held_since: None,
            counting: None,
            when_deletions: view.when_deletions,
            in_order: view.in_order || view.dry_run,
            dry_run: view.dry_run,
            by_line: view.by_line,
        }
    }

    /// Begins the line with the number of names. Later lines wait until this line is complete.
    pub(super) fn count(&mut self, built: &str) {
        self.output.text(format!("{built} ... \n 0 files...\r"));
        self.counting = Some(Vec::new());
    }

    /// Completes the line that [`Self::count`] began, with the number of names if the number is known. Then shows the
    /// waiting lines.
    pub(super) fn counted(&mut self, names: Option<u64>) {
        let Some(waiting) = self.counting.take() else { return };
        self.output.line(match names {
            None => String::new(),
            Some(1) => "1 file to consider".to_owned(),
            Some(names) => format!("{names} files to consider"),
        });
        self.output.text(waiting);
    }

    /// Adds a line.
    pub(super) fn say(&mut self, line: impl AsRef<[u8]>) {
        if let Some(waiting) = &mut self.counting {
            waiting.extend_from_slice(line.as_ref());
            waiting.push(b'\n');
            if waiting.len() > MAX_HELD_BYTES {
                self.counted(None);
            }
            return;
        }
        self.output.line(line);
        if self.by_line {
            self.flush();
        }
    }

    /// Adds a line of a series of possibly millions of lines.
    pub(super) fn say_one(&mut self, line: &[u8]) {
        say_one(line, &mut self.output, &mut self.progress);
    }

    /// Adds the line of a change in the order of names; or at once, if lines need no order.
    ///
    /// Lines of changes made are shown in parts if too many to hold, or held for a while.
    pub(super) fn say_change(&mut self, change: &Change, group: LineGroup, line: &[u8]) {
        if !self.in_order {
            return self.say(line);
        }
        if self.held.push(change, group, self.when_deletions, line).is_err() {
            self.say_held();
            return self.say(line);
        }
        if self.held.bytes() > MAX_HELD_BYTES && !self.dry_run {
            self.say_held();
        }
    }

    /// Adds the held lines, in rsync's order of names.
    pub(super) fn say_held(&mut self) {
        self.held_since = None;
        self.counted(None);
        let Self { held, progress, output, when_deletions, .. } = self;
        held.say(*when_deletions, |line| say_one(line, output, progress));
    }

    /// Shows the lines and the progress at time `now`. Lines held for long are shown too, so that users can follow
    /// the run; not in a dry run.
    pub(super) fn tick(&mut self, now: Duration) {
        let may_wait = self.dry_run || self.held.is_empty() || self.counting.is_some();
        if !may_wait && now >= *self.held_since.get_or_insert(now) + MAX_WAIT {
            self.say_held();
        }
        self.flush();
        // The progress bar would overwrite the line of the count.
        if self.counting.is_none() {
            self.progress.show(now);
        }
    }

    /// Shows the waiting lines, after the progress bar is cleared.
    pub(super) fn flush(&mut self) {
        if self.output.waiting_bytes() > 0 {
            self.progress.aside(|| self.output.flush());
        }
    }
}

fn say_one(line: &[u8], output: &mut Output, progress: &mut ProgressDisplay) {
    output.line(line);
    if output.is_full() {
        progress.aside(|| output.flush());
    }
}

/// Most bytes of held lines: tens of thousands of lines.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Longest time that lines are held in a run that changes files, except for one tick.
const MAX_WAIT: Duration = Duration::from_secs(1);
