//! The thread that reports a run while it goes on.
//!
//! The library's notices come over a bounded queue to one thread, which owns both streams. So a line never tears the
//! bar, and a terminal that is slow to read slows the run instead of filling memory.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use deltic_net::{Outcome, SyncError};
use deltic_protocol::report::{Notice, Question};

use crate::report::exit::{Exit, Troubles};

/// Reports a run: in words for a person, or in events for a program.
pub(crate) trait Reporter: Send {
    /// Reports a notice.
    fn report(&mut self, notice: &Notice);
    /// Asks the user; until there is an answer nothing may be written over the question. Some runs ask nothing.
    fn ask(&mut self, _question: &Question) {}
    /// Goes on after the answer.
    fn answered(&mut self) {}
    /// Shows the state at this time since the start; called a few times a second, whatever happens.
    fn tick(&mut self, elapsed: Duration);
    /// Ends the report. Returns an error if something could not be written.
    fn finish(&mut self, ending: &Ending<'_>) -> std::io::Result<()>;
}

/// The end of a run, for its reporter.
pub(crate) struct Ending<'a> {
    pub(crate) result: &'a Result<Outcome, SyncError>,
    pub(crate) exit: Exit,
    /// What the user can do about the error, unless Deltic goes on by itself.
    pub(crate) hint: Option<String>,
}

/// An event of a run, for its reporter.
pub(crate) enum UiEvent {
    /// A notice of the library.
    Notice(Notice),
    /// A question to the user, who answers elsewhere.
    Question(Question),
    /// The user has answered.
    Answered,
    /// The last event.
    Over,
}

/// Hands `reporter` the events of a run until it is over; returns the troubles, which decide the exit code.
///
/// It polls: to be woken for each notice would cost more than to report it. The last event comes with a wake-up.
pub(crate) fn listen(events: &Receiver<UiEvent>, reporter: &mut dyn Reporter) -> Troubles {
    let start = Instant::now();
    let (mut troubles, mut ticked) = (Troubles::default(), start);
    loop {
        let mut reported = 0;
        while reported < BATCH {
            match events.try_recv() {
                Ok(UiEvent::Notice(notice)) => {
                    if let Notice::Trouble(trouble) = &notice {
                        troubles.note(trouble.kind);
                    }
                    reporter.report(&notice);
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

/// Longest silence before a tick.
const TICK: Duration = Duration::from_millis(200);
/// Time between two looks, where nothing was found.
const PAUSE: Duration = Duration::from_millis(10);
/// Most notices between two ticks.
const BATCH: usize = 1000;
