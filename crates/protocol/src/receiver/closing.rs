//! The end of a run, in an order that a crash cannot turn against the user: give waiting files their names, delete, sweep,
//! set directories, flush, let sources go that have arrived, say so.
//!
//! Directories are set after the last name in them has come or gone, or their times would be those of the sync.

use crate::message::ToSender;
use crate::report::Notice;
use crate::work::Setback;

use super::final_dirs::FinalDirs;
use super::{Place, Receiver, Work};
use crate::report::Totals;

/// The steps after the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Landing,
    Deleting,
    Sweeping,
    SettingDirs,
    Flushing,
    Arriving,
    Finished,
}

impl Receiver {
    /// Takes the next step towards the end, if the one before is done.
    pub(super) fn close(&mut self) {
        let Some(intact) = self.list.is_intact() else { return };
        let busy = !self.cx.jobs.idle() || !self.queue.is_idle() || !self.sections.is_empty();
        let waits = self.comparing.first().is_some()
            || self.repeats.first().is_some()
            || self.arrivals.are_leaving()
            || self.deleting.is_asking()
            || self.deleting.is_removing();
        if busy || waits || self.closing == Some(Closing::Finished) {
            return;
        }
        if self.closing == Some(Closing::Deleting) && self.try_parked() {
            return self.close();
        }
        let next = match self.closing {
            None => Closing::Landing,
            Some(Closing::Landing) => Closing::Deleting,
            Some(Closing::Deleting) => Closing::Sweeping,
            Some(Closing::Sweeping) => {
                self.dirs.sort();
                Closing::SettingDirs
            }
            Some(Closing::SettingDirs) if !self.dirs.are_set() => Closing::SettingDirs,
            Some(Closing::SettingDirs) => Closing::Flushing,
            Some(Closing::Flushing) => Closing::Arriving,
            Some(_) => Closing::Finished,
        };
        self.closing = Some(next);
        match next {
            Closing::Landing => {
                self.cx.notices.push_back(Notice::Closing);
                self.land();
            }
            Closing::Deleting => self.delete(intact),
            Closing::Sweeping => self.ask_to_close(Work::Sweep, Place::Sweep),
            Closing::SettingDirs => self.set_dirs(),
            Closing::Flushing => self.ask_to_close(Work::Flush, Place::Flush),
            Closing::Arriving => self.tell_arrived(),
            Closing::Finished => self.finish(),
        }
        self.close();
    }

    fn land(&mut self) {
        if self.cx.setting.options.writing.delay {
            self.ask_to_close(Work::Land, Place::Land);
        }
    }

    /// Directories get their times last and from the leaves up: every change inside one touches them.
    fn set_dirs(&mut self) {
        if self.cx.setting.options.dry_run {
            self.dirs = FinalDirs::default();
        } else if let Some((dirs, carries)) = self.dirs.pop_batch() {
            self.set_dirs_now(dirs, carries);
        }
    }

    fn ask_to_close(&mut self, work: Work, place: Place) {
        if !self.cx.setting.options.dry_run {
            self.cx.jobs.ask(work, place);
        }
    }

    pub(super) fn closed(&mut self, done: Result<(), Setback>) {
        if let Err(setback) = done {
            self.cx.trouble(setback.trouble);
        }
    }

    fn finish(&mut self) {
        let resumed = if self.cx.setting.tells_resumed { self.cx.totals.resumed } else { 0 };
        self.cx.frames.push_back(ToSender::Finished(Totals { resumed, ..self.cx.totals }));
        self.cx.notices.push_back(Notice::Finished(self.cx.totals));
    }
}
