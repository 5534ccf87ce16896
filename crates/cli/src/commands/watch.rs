//! `deltic watch`: a sync, and one more whenever something has changed.

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use deltic_net::watch::{Ended, Note, Pace, Round, Watch};
use deltic_net::{Outcome, SyncError};
use indicatif::{HumanBytes, HumanCount};

use super::sync::{asked, output, refuse, sync, unwritten};
use crate::args::SyncArgs;
use crate::events::{Event, Watched, millis};
use crate::exit::{self, Exit};
use crate::output;
use crate::plan::Request;
use crate::summary::duration;
use crate::view::Summary;

/// The words of `deltic watch`: those of `deltic sync`, and two more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) sync: SyncArgs,
    /// Sync what has changed once nothing more has for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", help_heading = WATCH)]
    delay: Seconds,
    /// Sync it after so many seconds in any case
    #[arg(long, value_name = "SECONDS", default_value = "10", help_heading = WATCH)]
    max_delay: Seconds,
}

const HELP: &str = "see `deltic watch --help`";
const WATCH: &str = "When it syncs";

/// A time in seconds, perhaps with a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seconds(Duration);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let seconds: f64 = word.parse().map_err(|_| "not a number of seconds")?;
        let known = (0.0..=MOST_SECONDS).contains(&seconds);
        if known { Ok(Self(Duration::from_secs_f64(seconds))) } else { Err("from 0 to a day") }
    }
}

const MOST_SECONDS: f64 = 24.0 * 3600.0;

/// Syncs until it is told to end.
pub(crate) fn run(args: &Args) -> Exit {
    let request = match asked(&args.sync, HELP) {
        Ok(request) => request,
        Err(exit) => return exit,
    };
    if request.batch.is_some() {
        return refuse(&args.sync, HELP, &anyhow!("a batch keeps one run: `deltic sync` knows it"));
    }
    let (Seconds(delay), Seconds(longest)) = (args.delay, args.max_delay);
    match Watch::start(&request.plan, Pace { delay, longest }) {
        Ok(watch) => Course::new(request).run(watch),
        Err(error) => {
            if request.view.json {
                say(&request, &Event::error(&error, HELP));
            }
            output::complain(&error.to_string(), exit::hint(&error, HELP));
            Exit::from(&error)
        }
    }
}

/// What came of all rounds so far.
struct Course {
    request: Request,
    start: Instant,
    all: Watched,
    /// How the last round ended.
    last: Exit,
}

impl Course {
    fn new(request: Request) -> Self {
        Self { request, start: Instant::now(), all: Watched::default(), last: Exit::Success }
    }

    fn run(mut self, mut watch: Watch) -> Exit {
        while let Some(round) = watch.next(&mut |note| tell(&self.request, note)) {
            let (result, exit) = self.round(&round);
            let ended = match (&result, exit) {
                // As another sync would end: it is most likely a wrong word.
                (Err(_), _) if !watch.has_begun() => return exit,
                (Err(SyncError::Interrupted | SyncError::Torn(_) | SyncError::TimeUp), _) => break,
                (Err(_), _) => Ended::Broken,
                (Ok(_), Exit::DeleteLimit) => Ended::HeldBack,
                (Ok(_), Exit::Success | Exit::Vanished) => Ended::Well,
                (Ok(_), _) => Ended::Partly,
            };
            watch.ended(round, ended, result.as_ref().ok());
        }
        if watch.is_time_up() && self.last == Exit::Success {
            self.last = Exit::Timeout;
        }
        self.finish(watch.is_clean())
    }

    fn round(&mut self, round: &Round) -> (Result<Outcome, SyncError>, Exit) {
        let mut request = self.request.clone();
        request.plan = round.plan.clone();
        if request.view.summary == Summary::Short {
            request.view.summary = Summary::Nothing;
        }
        if request.view.json {
            say(&request, &Event::round(round));
        }
        let (result, exit) = sync(request);
        self.note(&result, exit);
        (result, exit)
    }

    fn note(&mut self, result: &Result<Outcome, SyncError>, exit: Exit) {
        let all = &mut self.all;
        all.rounds += 1;
        all.failed_rounds += u64::from(exit != Exit::Success);
        self.last = exit;
        let Ok(Outcome { totals, traffic, .. }) = result else { return };
        all.sent_bytes += traffic.sent;
        all.received_bytes += traffic.received;
        all.created += totals.created;
        all.transferred += totals.transferred;
        all.transferred_bytes += totals.transferred_bytes;
        all.literal_bytes += totals.literal;
        all.deleted += totals.deleted;
    }

    /// Says what it all came to.
    fn finish(mut self, complete: bool) -> Exit {
        self.all.exit_code = self.last.code();
        self.all.elapsed_ms = millis(self.start.elapsed());
        self.all.complete = complete && self.last == Exit::Success;
        let mut output = output(&self.request);
        if self.request.view.json {
            output.line(Event::Watched(Box::new(self.all)).line());
        } else if !self.request.view.quiet {
            lines(&self.all).iter().for_each(|line| output.line(line));
        }
        output.finish().map_or_else(|error| unwritten(&error, self.last), |()| self.last)
    }
}

fn lines(all: &Watched) -> [String; 2] {
    let failed = match all.failed_rounds {
        0 => String::new(),
        failed => format!(" ({} of them not complete)", HumanCount(failed)),
    };
    let rounds = if all.rounds == 1 { "round" } else { "rounds" };
    let waits = if all.complete { "" } else { "; not everything is at the destination" };
    [
        format!(
            "watched for {}: {} {rounds}{failed}, {} files transferred, {} names removed{waits}",
            duration(Duration::from_millis(all.elapsed_ms)),
            HumanCount(all.rounds),
            HumanCount(all.transferred),
            HumanCount(all.deleted),
        ),
        format!(
            "sent {}, received {}, {} of them new",
            HumanBytes(all.sent_bytes),
            HumanBytes(all.received_bytes),
            HumanBytes(all.literal_bytes),
        ),
    ]
}

fn tell(request: &Request, note: &Note) {
    if request.view.json {
        say(request, &Event::watch(note));
    }
    let hint = match note {
        Note::TooManyDirs => Some("`sysctl fs.inotify.max_user_watches=N` allows more"),
        Note::SourceGone | Note::SourceBack => None,
    };
    output::complain(&note.to_string(), hint);
}

/// Writes an event. Whether somebody still reads is known at the end.
fn say(request: &Request, event: &Event<'_>) {
    let mut output = output(request);
    output.line(event.line());
    output.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_up_to_a_day() {
        let seconds = |word: &str| word.parse::<Seconds>().ok().map(|Seconds(time)| time);
        assert_eq!(seconds("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(seconds("0"), Some(Duration::ZERO));
        for word in ["", "-1", "x", "inf", "nan", "1e9"] {
            assert_eq!(seconds(word), None, "{word}");
        }
    }

    #[test]
    fn the_end_says_whether_all_is_there() {
        let all = Watched { rounds: 3, transferred: 2, complete: true, ..Watched::default() };
        assert_eq!(
            lines(&all)[0],
            "watched for 0.00 s: 3 rounds, 2 files transferred, 0 names removed"
        );
        let one = lines(&Watched { rounds: 1, ..all });
        assert!(one[0].starts_with("watched for 0.00 s: 1 round, "), "{one:?}");
        let all = Watched { failed_rounds: 1, complete: false, ..all };
        assert!(lines(&all)[0].contains("(1 of them not complete)"));
        assert!(lines(&all)[0].ends_with("not everything is at the destination"));
    }
}
