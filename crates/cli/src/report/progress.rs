//! Progress: a bar on a terminal, but not in a short run. Elsewhere, if progress is requested, a line at intervals,
//! like rsync's on standard output.

use std::time::Duration;

use deltic_net::plan::{Destination, Sources};
use deltic_net::{Outcome, Plan};
use deltic_protocol::report::Notice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::meter::RunMeter;
use crate::report::numbers::NumberStyle;
use crate::report::output::{self, Output};
use crate::report::view::ProgressMode;

/// Progress of a run.
pub(crate) struct ProgressDisplay {
    meter: RunMeter,
    /// The word for moving data.
    transfer: &'static str,
    screen: ProgressForm,
    /// True while a question to the user is open.
    paused: bool,
    /// True once the other machine has sent data: until then the remote shell may be asking for a password.
    heard: bool,
}

/// Form and place of the progress display.
enum ProgressForm {
    Nothing,
    /// A bar and its text; `None` until the bar is first shown, and while progress is paused.
    Bar(Option<(ProgressBar, String)>),
    /// Lines on standard error, with the time of the last line.
    Lines(Duration),
    /// Lines as rsync's, on standard output.
    Piped(PipedProgress),
}

/// Progress lines on standard output, in rsync's form.
struct PipedProgress {
    output: Output,
    numbers: NumberStyle,
    last: Duration,
    /// True if each line overwrites the line before.
    again: bool,
    /// True if the last line has no newline yet.
    open: bool,
}

impl PipedProgress {
    fn show(&mut self, line: &str, is_last: bool) {
        self.open = self.again && !is_last;
        self.output.text(format!("\r{line}{}", if self.open { "  " } else { "\n" }));
        self.output.flush();
    }

    /// Ends the last line, if the line has no newline yet.
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.output.text("\n");
            self.output.flush();
        }
    }
}

impl ProgressDisplay {
    /// Creates the progress of `plan` in the form `live`; `numbers` is the style of figures on standard output.
    pub(crate) fn new(plan: &Plan, live: ProgressMode, numbers: NumberStyle) -> Self {
        let screen = match live {
            ProgressMode::Nothing => ProgressForm::Nothing,
            ProgressMode::Bar => ProgressForm::Bar(None),
            ProgressMode::Lines => ProgressForm::Lines(Duration::ZERO),
            ProgressMode::Piped { again } => ProgressForm::Piped(PipedProgress {
                output: Output::stdout(),
                numbers,
                last: Duration::ZERO,
                again,
                open: false,
            }),
        };
        let transfer = match (&plan.sources, &plan.destination) {
            (Sources::Remote { .. }, _) => "receiving",
            (Sources::Local(_), Destination::Remote { .. }) => "sending",
            (Sources::Local(_), Destination::Local(_)) => "copying",
        };
        let heard = matches!(
            (&plan.sources, &plan.destination),
            (Sources::Local(_), Destination::Local(_))
        );
        Self { meter: RunMeter::default(), transfer, screen, paused: false, heard }
    }

    /// Counts a notice of the run.
    pub(crate) fn note(&mut self, notice: &Notice) {
        self.heard |= matches!(notice, Notice::Wire { .. });
        self.meter.note(notice);
    }

    /// Returns the state so far.
    pub(crate) fn meter(&self) -> &RunMeter {
        &self.meter
    }

    /// Shows the progress at `elapsed` after the start.
    pub(crate) fn show(&mut self, elapsed: Duration) {
        self.meter.tick(elapsed);
        if self.paused {
            return;
        }
        match &mut self.screen {
            ProgressForm::Bar(bar) if elapsed >= SHORT_RUN && self.heard => {
                let (bar, said) =
                    bar.get_or_insert_with(|| (new_bar(RunMeter::WHOLE), String::new()));
                let line = self.meter.line(self.transfer, text_width());
                if line != *said {
                    said.clone_from(&line);
                    bar.set_position(self.meter.share());
                    bar.set_message(line);
                }
            }
            ProgressForm::Lines(last) if elapsed >= *last + LINE_EVERY && self.heard => {
                *last = elapsed;
                output::note(&format!("{}\n", self.meter.line(self.transfer, usize::MAX)));
            }
            ProgressForm::Piped(piped) if elapsed >= piped.last + LINE_EVERY && self.heard => {
                piped.last = elapsed;
                piped.show(&self.meter.piped(piped.numbers), false);
            }
            _ => {}
        }
    }

    /// Runs `write` while the bar is cleared.
    pub(crate) fn aside(&mut self, write: impl FnOnce()) {
        match &mut self.screen {
            ProgressForm::Bar(Some((bar, _))) => return bar.suspend(write),
            ProgressForm::Piped(piped) => piped.close(),
            _ => {}
        }
        write();
    }

    /// Begins another attempt of the run. Runs `write` while the bar is cleared.
    pub(crate) fn begin_again(&mut self, write: impl FnOnce()) {
        self.meter.begin_again();
        self.aside(write);
    }

    /// Clears the bar until [`Self::go_on`].
    pub(crate) fn pause(&mut self) {
        self.paused = true;
        if let ProgressForm::Bar(bar @ Some(_)) = &mut self.screen {
            bar.take().iter().for_each(|(bar, _)| bar.finish_and_clear());
        }
    }

    /// Shows progress again.
    pub(crate) fn go_on(&mut self) {
        self.paused = false;
    }

    /// Clears the bar for good.
    pub(crate) fn clear(&mut self) {
        if let ProgressForm::Bar(Some((bar, _))) = &self.screen {
            bar.finish_and_clear();
            self.screen = ProgressForm::Nothing;
        }
    }

    /// Ends the progress. Lines on standard output end with the totals of a completed run.
    pub(crate) fn end(&mut self, outcome: Option<&Outcome>) {
        if let ProgressForm::Piped(piped) = &mut self.screen {
            match outcome {
                Some(outcome) => {
                    piped.show(&self.meter.piped_end(outcome, piped.numbers), true);
                }
                None => piped.close(),
            }
        }
        self.screen = ProgressForm::Nothing;
    }
}

fn new_bar(whole: u64) -> ProgressBar {
    let template = format!("{{bar:{BAR_CHARS}}} {{wide_msg}}");
    let style = ProgressStyle::with_template(&template).expect("the template is a constant");
    ProgressBar::with_draw_target(Some(whole), ProgressDrawTarget::stderr())
        .with_style(style.progress_chars("=> "))
}

/// Returns the number of characters behind the bar on the terminal.
fn text_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
    // Assume 80 columns if the terminal does not tell its width.
    let columns = if columns == 0 { 80 } else { usize::from(columns) };
    columns.saturating_sub(BAR_CHARS + 1)
}

/// Length of the bar in characters.
const BAR_CHARS: usize = 12;
/// Shorter runs show no progress.
const SHORT_RUN: Duration = Duration::from_secs(1);
/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);
