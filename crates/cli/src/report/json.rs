//! Reports a run to a program: one event per line.

use std::io;
use std::time::Duration;

use deltic_net::Plan;
use deltic_protocol::report::{Action, Notice, Question};

use crate::report::complaints::Complaints;
use crate::report::events::JsonEvent;
use crate::report::output::{self, Output};
use crate::report::progress::ProgressDisplay;
use crate::report::question;
use crate::report::reporter::{Reporter, RetryNotice, RunEnding};
use crate::report::view::OutputView;

/// Reports a run as events. Troubles and errors also go to standard error, where logs look for them.
pub(super) struct JsonReporter {
    view: OutputView,
    dry_run: bool,
    progress: ProgressDisplay,
    last: Duration,
    complaints: Complaints,
    output: Output,
}

impl JsonReporter {
    pub(super) fn new(plan: &Plan, view: OutputView, mut output: Output) -> Self {
        output.line(JsonEvent::start(plan).line());
        Self {
            progress: ProgressDisplay::new(plan, view.live, view.numbers),
            view,
            dry_run: plan.options.dry_run,
            last: Duration::ZERO,
            complaints: Complaints::default(),
            output,
        }
    }
}

impl Reporter for JsonReporter {
    fn report(&mut self, notice: &Notice) {
        self.progress.note(notice);
        match notice {
            Notice::Changed(change) => {
                let is_shown = match change.action {
                    Action::Unchanged => self.view.unchanged,
                    Action::PassedOver(_) => self.view.info.skip > 0,
                    _ => true,
                };
                if is_shown {
                    self.output.line(JsonEvent::change(change).line());
                }
            }
            Notice::Trouble(trouble) => {
                self.output.line(JsonEvent::trouble(trouble).line());
                if self.view.shows(trouble.kind) {
                    self.progress.aside(|| self.complaints.report(trouble, &self.view));
                }
            }
            Notice::Agreed(sums) => self.output.line(JsonEvent::sums(sums).line()),
            Notice::Entry { path, meta } => self.output.line(JsonEvent::entry(path, meta).line()),
            Notice::Listed { .. }
            | Notice::Settled { .. }
            | Notice::Wire { .. }
            | Notice::Closing
            | Notice::MadeRoot(_)
            | Notice::ReadReason { .. }
            | Notice::Removed(_)
            | Notice::Finished(_) => {}
        }
    }

    fn ask(&mut self, question: &Question) {
        self.output.flush();
        self.progress.pause();
        output::note(&question::text(question));
    }

    fn answered(&mut self) {
        self.progress.go_on();
    }

    fn retry(&mut self, notice: &RetryNotice) {
        self.output.line(JsonEvent::retry(notice).line());
        let output = &mut self.output;
        self.progress.begin_again(|| {
            output.flush();
            notice.complain();
        });
    }

    fn tick(&mut self, elapsed: Duration) {
        self.progress.show(elapsed);
        if elapsed >= self.last + EVENT_EVERY {
            self.last = elapsed;
            self.output.line(JsonEvent::progress(self.progress.meter(), elapsed).line());
        }
        self.progress.aside(|| self.output.flush());
    }

    fn finish(&mut self, ending: &RunEnding<'_>) -> io::Result<()> {
        self.progress.clear();
        self.complaints.finish();
        match ending.result {
            Ok(outcome) => {
                self.output.line(JsonEvent::summary(outcome, self.dry_run, ending.exit).line());
            }
            Err(error) => {
                output::complain(&error.to_string(), ending.hint.as_deref());
                self.output.line(JsonEvent::error(error, ending.hint.clone()).line());
            }
        }
        self.output.finish()
    }
}

/// Time between two progress events.
const EVENT_EVERY: Duration = Duration::from_millis(250);
