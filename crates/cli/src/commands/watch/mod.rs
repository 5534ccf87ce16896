//! `deltic watch`: a sync, and one more whenever something has changed.

mod confirm;
mod state;
mod updates;

use std::io;
use std::time::{Duration, Instant, SystemTime};

use anyhow::anyhow;
use deltic_net::watch::{Ended, Note, Pace, Round, Watch};
use deltic_net::{Outcome, SyncError, reason};
use deltic_tree::path::printable;
use indicatif::{HumanBytes, HumanCount};

use confirm::ConfirmSocket;
use updates::EditedFiles;

use super::run::{FinishedRun, output, report_write_error, sync_by};
use super::sync::{build_request, refuse};
use crate::args::sync::SyncArgs;
use crate::args::watch::{Seconds, WatchArgs};
use crate::plan::SyncRequest;
use crate::report::events::{JsonEvent, WatchTotals, millis};
use crate::report::exit::Exit;
use crate::report::hint::NextRun;
use crate::report::numbers::counted;
use crate::report::output::{self, Output};
use crate::report::summary::duration;
use crate::report::view::SummaryForm;
use crate::words::zone::Zone;

/// Syncs until told to end.
pub(crate) fn run(args: &WatchArgs) -> Exit {
    if args.confirm {
        return confirm(&args.sync);
    }
    let request = match build_request(&args.sync) {
        Ok(request) => request,
        Err(exit) => return exit,
    };
    if request.batch.is_some() {
        return refuse(&args.sync, &anyhow!("a batch holds one run; use `deltic sync`"));
    }
    let (Seconds(delay), Seconds(longest)) = (args.delay, args.max_delay);
    let ending = async { deltic_net::until_end_signal().await };
    match Watch::start(&request.plan, Pace { delay, longest }, ending) {
        Ok(watch) => {
            let operands = operand_line(&args.sync);
            let listening = confirm::listen(watch.confirmation_handle(), operands);
            let updates = EditedFiles::new(&request.plan, &args.sync.login);
            WatchRun::new(request, listening, updates.ok().flatten()).run(watch)
        }
        Err(error) => {
            let hint = request.view.hint(&error);
            output::complain(&error.to_string(), hint.as_deref());
            if request.view.json {
                say(&request, &JsonEvent::error(&error, hint));
            }
            Exit::from(&error)
        }
    }
}

/// Sends the user's confirmation to running watches.
fn confirm(args: &SyncArgs) -> Exit {
    if !args.operands.is_empty() {
        return refuse(args, &anyhow!("--confirm takes no SRC and DEST"));
    }
    let mut all_heard = true;
    let confirmed = confirm::confirm(|name, error| {
        all_heard = false;
        let what = format!("cannot confirm: watch {}: {}", name.display(), reason(error));
        output::complain(&what, None);
    });
    let exit = if all_heard { Exit::Success } else { Exit::Files };
    match confirmed {
        Ok(confirmed) if confirmed.is_empty() && all_heard => {
            let hint = "a watch with an empty source waits for a first name; a watch with --force-delete asks nothing";
            output::complain("no watch of this user waits for a confirmation", Some(hint));
            Exit::Selection
        }
        Ok(confirmed) => {
            let mut output = Output::stdout();
            for (names, operands) in confirmed {
                output.line(format!(
                    "{} may be removed: deltic watch {operands}",
                    counted(names, "name")
                ));
            }
            let written = output.finish();
            written.map_or_else(|error| report_write_error(&error, exit), |()| exit)
        }
        Err(error) => {
            output::complain(&format!("cannot confirm: {}", reason(&error)), None);
            Exit::Files
        }
    }
}

/// Returns the operands as typed, on one line.
fn operand_line(args: &SyncArgs) -> String {
    let words = args.operands.iter().map(|word| printable(word.as_encoded_bytes()));
    words.collect::<Vec<_>>().join(" ")
}

/// Sums over all rounds so far.
struct WatchRun {
    request: SyncRequest,
    /// The socket for the user's confirmation, or the error without one.
    listening: io::Result<ConfirmSocket>,
    /// Updates of edited files, if the destination supports updates.
    updates: Option<EditedFiles>,
    start: Instant,
    all: WatchTotals,
    /// Exit of the last round.
    last: Exit,
}

impl WatchRun {
    fn new(
        request: SyncRequest,
        listening: io::Result<ConfirmSocket>,
        updates: Option<EditedFiles>,
    ) -> Self {
        let (start, all) = (Instant::now(), WatchTotals::default());
        Self { request, listening, updates, start, all, last: Exit::Success }
    }

    fn run(mut self, mut watch: Watch) -> Exit {
        while let Some(round) = watch.next(&mut |note| self.report(note)) {
            let FinishedRun { result, exit } = self.round(&round, watch.has_begun());
            let number = round.number;
            let ended = match (&result, exit) {
                // A failed first round ends the watch as it ends a sync: the arguments are most likely wrong.
                (Err(_), _) if !watch.has_begun() => return exit,
                (Err(SyncError::Interrupted | SyncError::Torn(_) | SyncError::TimeUp), _) => break,
                (Err(_), _) => Ended::Broken,
                (Ok(_), Exit::DeleteLimit) => Ended::HeldBack,
                (Ok(_), Exit::Success | Exit::Vanished) => Ended::Well,
                (Ok(_), _) => Ended::Partly,
            };
            watch.note_result(round, ended, result.as_ref().ok());
            self.show(&state::RoundEnd {
                number,
                result: &result,
                exit,
                held: watch.held_back_count(),
                next_try: watch.next_try(),
            });
        }
        if watch.is_time_up() && self.last == Exit::Success {
            self.last = Exit::Timeout;
        }
        self.all.waiting = watch.held_back_count();
        self.finish(watch.is_clean())
    }

    fn round(&mut self, round: &Round, has_begun: bool) -> FinishedRun {
        let mut request = self.request.clone();
        request.plan = round.plan.clone();
        request.view.watches = true;
        if has_begun {
            request.view.next_run = NextRun::OfWatch;
        }
        if request.view.summary == SummaryForm::Short {
            request.view.summary = SummaryForm::Nothing;
        }
        if request.view.json {
            say(&request, &JsonEvent::round(round));
        }
        let user = round.user.clone();
        let finished = match &mut self.updates {
            None => sync_by(request, user, &mut deltic_net::run),
            Some(updates) => {
                sync_by(request, user, &mut |plan, user, hear| updates.run(round, plan, user, hear))
            }
        };
        self.note(&finished);
        finished
    }

    /// Prints the state after a round, if the output has a summary or names.
    fn show(&self, round: &state::RoundEnd<'_>) {
        let view = &self.request.view;
        let is_told = match view.summary {
            SummaryForm::Nothing => view.info.name > 0,
            SummaryForm::Line => false,
            _ => true,
        };
        if view.json || view.quiet || !is_told {
            return;
        }
        if let Some(line) = state::line(round, &Zone::here(), SystemTime::now()) {
            let mut output = output(&self.request);
            output.line(line);
            output.flush();
        }
    }

    fn note(&mut self, FinishedRun { result, exit }: &FinishedRun) {
        let all = &mut self.all;
        all.rounds += 1;
        all.failed_rounds += u64::from(*exit != Exit::Success);
        self.last = *exit;
        let Ok(Outcome { totals, traffic, .. }) = result else { return };
        all.sent_bytes += traffic.sent;
        all.received_bytes += traffic.received;
        all.created += totals.created;
        all.transferred += totals.transferred;
        all.transferred_bytes += totals.transferred_bytes;
        all.literal_bytes += totals.literal;
        all.deleted += totals.deleted;
    }

    fn report(&self, note: &Note) {
        if self.request.view.json {
            say(&self.request, &JsonEvent::watch(note));
        }
        let hint = match (note, &self.listening) {
            (Note::TooManyDirs, _) => {
                Some("`sysctl fs.inotify.max_user_watches=N` allows more".into())
            }
            (Note::HeldBack(_), Ok(_)) => {
                Some(format!("`{}` allows the deletions", confirm::command()))
            }
            (Note::HeldBack(_), Err(error)) => Some(format!(
                "confirmations cannot be received here ({}); start with --max-delete or --force-delete",
                reason(error)
            )),
            (Note::SourceGone | Note::SourceBack, _) => None,
        };
        output::complain(&note.to_string(), hint.as_deref());
    }

    /// Prints the sums of all rounds.
    fn finish(mut self, complete: bool) -> Exit {
        self.all.exit_code = self.last.code();
        self.all.elapsed_ms = millis(self.start.elapsed());
        self.all.complete = complete && self.last == Exit::Success;
        let mut output = output(&self.request);
        if self.request.view.json {
            output.line(JsonEvent::Watched(Box::new(self.all)).line());
        } else if !self.request.view.quiet {
            lines(&self.all).iter().for_each(|line| output.line(line));
        }
        output.finish().map_or_else(|error| report_write_error(&error, self.last), |()| self.last)
    }
}

fn lines(all: &WatchTotals) -> [String; 2] {
    let failed = match all.failed_rounds {
        0 => String::new(),
        failed => format!(" ({} of them not complete)", HumanCount(failed)),
    };
    let waits = match (all.complete, all.waiting) {
        (true, _) => String::new(),
        (false, 0) => "; not everything is at the destination".to_owned(),
        (false, held) => format!("; {}", state::waiting(held)),
    };
    [
        format!(
            "watched for {}: {}{failed}, {} transferred, {} removed{waits}",
            duration(Duration::from_millis(all.elapsed_ms)),
            counted(all.rounds, "round"),
            counted(all.transferred, "file"),
            counted(all.deleted, "name"),
        ),
        format!(
            "sent {}, received {}, {} of them new",
            HumanBytes(all.sent_bytes),
            HumanBytes(all.received_bytes),
            HumanBytes(all.literal_bytes),
        ),
    ]
}

/// Writes an event. Write errors show up at the end.
fn say(request: &SyncRequest, event: &JsonEvent<'_>) {
    let mut output = output(request);
    output.line(event.line());
    output.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_whether_all_is_there() {
        let all =
            WatchTotals { rounds: 3, transferred: 2, complete: true, ..WatchTotals::default() };
        assert_eq!(
            lines(&all)[0],
            "watched for 0.00 s: 3 rounds, 2 files transferred, 0 names removed"
        );
        let one = lines(&WatchTotals { rounds: 1, ..all });
        assert!(one[0].starts_with("watched for 0.00 s: 1 round, "), "{one:?}");
        let one = lines(&WatchTotals { transferred: 1, deleted: 1, ..all });
        assert!(one[0].ends_with("1 file transferred, 1 name removed"), "{one:?}");
        let all = WatchTotals { failed_rounds: 1, complete: false, ..all };
        assert!(lines(&all)[0].contains("(1 of them not complete)"));
        assert!(lines(&all)[0].ends_with("not everything is at the destination"));
        let all = WatchTotals { waiting: 1, ..all };
        assert!(lines(&all)[0].contains("; 1 name waits for `"), "{:?}", lines(&all));
    }
}
