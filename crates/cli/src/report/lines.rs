//! Lines on standard output, in their order, with progress out of their way.

use std::time::Duration;

use deltic_protocol::report::Change;

use crate::report::output::Output;
use crate::report::progress::Progress;
use crate::report::view::View;
use crate::report::waiting::{Among, Deletions, Held};

/// Lines on standard output.
pub(super) struct Lines {
    pub(super) output: Output,
    pub(super) progress: Progress,
    /// Lines of changes, until all are known: these come in no order, and are compared with other runs.
    held: Held,
    /// The first tick since something is held.
    held_since: Option<Duration>,
    /// Lines that wait until the names of the list are counted, where the count comes before them.
    counting: Option<Vec<u8>>,
    when_deletions: Deletions,
    /// Names wait for each other.
    in_order: bool,
    dry_run: bool,
    by_line: bool,
}

impl Lines {
    pub(super) fn new(view: &View, progress: Progress, output: Output) -> Self {
        Self {
            output,
            progress,
            held: Held::default(),
            held_since: None,
            counting: None,
            when_deletions: view.when_deletions,
            in_order: view.in_order || view.dry_run,
            dry_run: view.dry_run,
            by_line: view.by_line,
        }
    }

    /// Begins the line of the count; later ones wait for it.
    pub(super) fn count(&mut self, built: &str) {
        self.output.text(format!("{built} ... \n 0 files...\r"));
        self.counting = Some(Vec::new());
    }

    /// Ends the line of the count, with the number of names if that is known.
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

    /// Adds one of what may be millions of lines.
    pub(super) fn say_one(&mut self, line: &[u8]) {
        say_one(line, &mut self.output, &mut self.progress);
    }

    /// Adds the line of a change in its turn, or at once where others watch.
    ///
    /// Changes that were made are shown a part at a time where they are too much to be held, or held for a while.
    pub(super) fn say_of(&mut self, change: &Change, among: Among, line: &[u8]) {
        if !self.in_order {
            return self.say(line);
        }
        if self.held.push(change, (among, self.when_deletions), line).is_err() {
            self.say_held();
            return self.say(line);
        }
        if self.held.bytes() > MAX_HELD_BYTES && !self.dry_run {
            self.say_held();
        }
    }

    /// Adds the lines that were held back, in rsync's order of names.
    pub(super) fn say_held(&mut self) {
        self.held_since = None;
        self.counted(None);
        let Self { held, progress, output, when_deletions, .. } = self;
        held.say(*when_deletions, |line| say_one(line, output, progress));
    }

    /// Shows the lines and the progress at this time. Lines that were held for long are shown, but those of a dry run:
    /// others follow the run as it goes on.
    pub(super) fn tick(&mut self, now: Duration) {
        let may_wait = self.dry_run || self.held.is_empty() || self.counting.is_some();
        if !may_wait && now >= *self.held_since.get_or_insert(now) + MAX_WAIT {
            self.say_held();
        }
        self.flush();
        // It would stand in the line of the count.
        if self.counting.is_none() {
            self.progress.show(now);
        }
    }

    /// Shows the lines that wait, with the bar out of their way.
    pub(super) fn flush(&mut self) {
        if self.output.waiting_bytes() > 0 {
            self.progress.aside(|| self.output.flush());
        }
    }
}

fn say_one(line: &[u8], output: &mut Output, progress: &mut Progress) {
    output.line(line);
    if output.is_full() {
        progress.aside(|| output.flush());
    }
}

/// Most bytes of lines that wait to be shown in order: tens of thousands of lines.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Longest that they wait in a run that changes something, but for a tick.
const MAX_WAIT: Duration = Duration::from_secs(1);
