//! Progress: one line on the terminal, nothing where nobody watches.

use std::io::{IsTerminal, Write};

/// Shows a line that the next one overwrites.
pub(crate) fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush()).ok();
    }
}

/// The steps of a comparison; the line goes with the value.
pub(crate) struct Steps {
    is_quiet: bool,
    whole: usize,
    done: usize,
}

impl Steps {
    /// Counts up to `whole` steps.
    pub(crate) fn new(whole: usize, is_quiet: bool) -> Self {
        Self { is_quiet, whole, done: 0 }
    }

    /// Begins the next step.
    pub(crate) fn next(&mut self, what: &str) {
        self.show(what);
        self.done += 1;
    }

    /// Names the work before the next step.
    pub(crate) fn show(&mut self, what: &str) {
        if !self.is_quiet {
            progress(&format!("{}/{}: {what}", self.done, self.whole));
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if !self.is_quiet {
            progress("");
        }
    }
}
