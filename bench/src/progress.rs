//! Progress on standard error: a single line, and only on a terminal.

use std::io::{IsTerminal, Write};

/// Shows a line. The next call overwrites the line.
pub(crate) fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush()).ok();
    }
}

/// Progress of a comparison in steps. Dropping the value clears the line.
pub(crate) struct StepProgress {
    is_quiet: bool,
    whole: usize,
    done: usize,
}

impl StepProgress {
    /// Starts at step 0 of `whole`.
    pub(crate) fn new(whole: usize, is_quiet: bool) -> Self {
        Self { is_quiet, whole, done: 0 }
    }

    /// Shows `what` and counts a step.
    pub(crate) fn next(&mut self, what: &str) {
        self.show(what);
        self.done += 1;
    }

    /// Shows `what` without counting a step.
    pub(crate) fn show(&mut self, what: &str) {
        if !self.is_quiet {
            progress(&format!("{}/{}: {what}", self.done, self.whole));
        }
    }
}

impl Drop for StepProgress {
    fn drop(&mut self) {
        if !self.is_quiet {
            progress("");
        }
    }
}
