//! A status line on a terminal, for commands that send many requests.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that is replaced by the next one. The line is shown on a terminal only, and not in the
/// first second.
pub(crate) struct StatusLine {
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), bar: None }
    }

    /// Shows the text that `text` returns.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.begun.elapsed() < SHOWN_AFTER {
            return;
        }
        self.bar.get_or_insert_with(new_line).set_message(text());
    }

    /// Removes the line, so that other lines can be written.
    pub(crate) fn clear(&mut self) {
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Time after which a status is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

fn new_line() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is valid"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_shown_after_a_second_and_not_before() {
        let mut line = StatusLine::new();
        line.show(|| unreachable!("the command has just begun"));
        assert!(line.bar.is_none());
        let begun =
            Instant::now().checked_sub(SHOWN_AFTER).expect("the clock is past its first second");
        line.begun = begun;
        line.show(|| "3 files restored".to_owned());
        assert_eq!(line.bar.as_ref().expect("the line is shown").message(), "3 files restored");
        line.clear();
        assert!(line.bar.is_none());
    }
}
