//! The thread that reports a run.
//!
//! Notices of the library go through a bounded queue to one thread, which owns both output streams. So lines never
//! garble the progress bar, and a slow terminal slows the run instead of filling memory.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use deltic_net::{Outcome, SyncError};
use deltic_protocol::report::{Notice, Question, TroubleKind};

use crate::report::exit::{Exit, TroubleKinds};
use crate::report::output;

/// Reports a run: as text for a person, or as events for a program.
pub(crate) trait Reporter: Send {
    /// Reports a notice.
    fn report(&mut self, notice: &Notice);
    /// Asks the user. Until the answer, nothing may be written over the question. The default does nothing.
    fn ask(&mut self, _question: &Question) {}
    /// Continues after the answer.
    fn answered(&mut self) {}
    /// Reports that the connection was lost, and that another attempt follows. The default does nothing.
    fn retry(&mut self, _notice: &RetryNotice) {}
    /// Shows the state at `elapsed` after the start; called a few times a second, with or without notices.
    fn tick(&mut self, elapsed: Duration);
    /// Ends the report. Fails if output could not be written.
    fn finish(&mut self, ending: &RunEnding<'_>) -> std::io::Result<()>;
}

/// The end of a run, for its reporter.
pub(crate) struct RunEnding<'a> {
    pub(crate) result: &'a Result<Outcome, SyncError>,
    pub(crate) exit: Exit,
    /// Advice on the error, unless Deltic continues by itself.
    pub(crate) hint: Option<String>,
}

/// A failed attempt of a run, before another attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetryNotice {
    /// The error of the failed attempt.
    pub(crate) why: String,
    /// Time until the next attempt.
    pub(crate) pause: Duration,
}

impl RetryNotice {
    /// Returns the line that announces the next attempt.
    pub(crate) fn line(&self) -> String {
        format!("trying again in {:.1} s", self.pause.as_secs_f64())
    }

    /// Writes the error, and the line that announces the next attempt, to standard error.
    pub(crate) fn complain(&self) {
        output::complain(&self.why, None);
        output::note(&format!("{}\n", self.line()));
    }
}

/// An event of a run, for its reporter.
#[derive(Debug)]
pub(crate) enum UiEvent {
    /// A notice of the library.
    Notice(Notice),
    /// A trouble that an earlier attempt of the run has reported.
    Repeated(TroubleKind),
    /// The run connects again after a pause.
    Retry(RetryNotice),
    /// A question to the user; the answer is read elsewhere.
    Question(Question),
    /// The user has answered.
    Answered,
    /// The last event.
    Over,
}

/// Passes the events of a run to `reporter` until the run is over. Returns the troubles, which determine the exit
/// code.
///
/// The function polls: a wake-up for each notice would cost more than its report. Only the last event comes with a
/// wake-up.
pub(crate) fn listen(events: &Receiver<UiEvent>, reporter: &mut dyn Reporter) -> TroubleKinds {
    let start = Instant::now();
    let (mut troubles, mut ticked) = (TroubleKinds::default(), start);
    loop {
        let mut reported = 0;
        while reported < BATCH {
            match events.try_recv() {
                Ok(UiEvent::Notice(notice)) => {
                    if let Notice::Trouble(trouble) = &notice {
                        troubles.note_trouble(trouble);
                    }
                    reporter.report(&notice);
                }
                Ok(UiEvent::Repeated(kind)) => troubles.note(kind),
                Ok(UiEvent::Retry(notice)) => {
                    troubles.begin_again();
                    reporter.retry(&notice);
                }
                Ok(UiEvent::Question(question)) => reporter.ask(&question),
                Ok(UiEvent::Answered) => reporter.answered(),
                Err(TryRecvError::Empty) => break,
                Ok(UiEvent::Over) | Err(TryRecvError::Disconnected) => return troubles,
            }
            reported += 1;
        }
        if reported > 0 || ticked.elapsed() >= TICK {
            ticked = Instant::now();
            reporter.tick(start.elapsed());
        }
        if reported < BATCH {
            thread::park_timeout(PAUSE);
        }
    }
}

/// Longest time without events before a tick.
const TICK: Duration = Duration::from_millis(200);
/// Time between two polls if no event was found.
const PAUSE: Duration = Duration::from_millis(10);
/// Most notices between two ticks.
const BATCH: usize = 1000;
