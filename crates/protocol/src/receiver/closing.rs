//! The end of a run, in an order that a crash cannot turn against the user: give waiting files their names, delete, sweep,
//! set directories, flush, let sources go that have arrived, say so.
//!
//! Directories are set after the last name in them has come or gone, or their times would be those of the sync.

use deltic_core::RelPath;

use crate::error::PeerError;
use crate::limits::{FEW_DELETES, GUARDED_DELETES, MAX_ASKED};
use crate::message::ToSender;
use crate::options::Delete;
use crate::report::{Action, Change, Differs, Facts, Item, Notice, Question, Trouble, TroubleKind};
use crate::work::Setback;

use super::{List, Place, Receiver, Removed, Work};

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
        let List::Complete { intact } = self.list else { return };
        let busy = !self.jobs.idle() || !self.queue.is_idle() || !self.sections.is_empty();
        let waits = self.comparing.first().is_some() || self.arrivals.are_leaving() || self.asked;
        let removes = self.removing && !self.extras.is_empty();
        if busy || waits || removes || self.closing == Some(Closing::Finished) {
            return;
        }
        let next = match self.closing {
            None => Closing::Landing,
            Some(Closing::Landing) => Closing::Deleting,
            Some(Closing::Deleting) => Closing::Sweeping,
            Some(Closing::Sweeping) => Closing::SettingDirs,
            Some(Closing::SettingDirs) => Closing::Flushing,
            Some(Closing::Flushing) => Closing::Arriving,
            Some(_) => Closing::Finished,
        };
        self.closing = Some(next);
        match next {
            Closing::Landing => self.land(),
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
        if self.setting.options.writing.delay {
            self.ask_to_close(Work::Land, Place::Land);
        }
    }

    fn delete(&mut self, intact: bool) {
        self.look_for_missing();
        if self.extras.is_empty() {
            return;
        }
        let whole = intact && self.totals.failed == 0;
        if !whole && !self.setting.options.remove.ignore_errors {
            let why = match intact {
                true => "not everything arrived",
                false => "the source could not be listed in full",
            };
            let message = format!("delete nothing: {why}; --ignore-errors allows it");
            return self.trouble(Trouble { kind: TroubleKind::Failed, message });
        }
        let most = self.most_deletes();
        let names = self.names_to_go();
        if names <= most {
            self.remove_all();
        } else if self.setting.options.asks() {
            self.ask(names);
        } else {
            self.hold_back(names);
        }
    }

    fn names_to_go(&self) -> u64 {
        self.extras.names().saturating_add(self.cleared_names)
    }

    fn remove_all(&mut self) {
        self.removing = true;
        self.remove_more();
    }

    fn hold_back(&mut self, names: u64) {
        let why =
            if self.known == 0 { "the source is empty" } else { "that looks like an accident" };
        let message = format!(
            "delete nothing: {names} names would go, and {why}; --max-delete={names} or --force-delete allows it"
        );
        self.tell_trouble(Trouble { kind: TroubleKind::DeleteLimit, message });
    }

    /// Leaves it to the user, wherever that is.
    fn ask(&mut self, names: u64) {
        let first = self.extras.first(MAX_ASKED);
        // All that is listed is in place by now.
        let question = Question { names, of: self.known.saturating_add(names), first };
        self.asked = true;
        if self.setting.user_is_here {
            self.jobs.ask(Work::Ask(question), Place::Ask);
        } else {
            self.frames.push_back(ToSender::Ask(question));
        }
    }

    /// The answer of a user at the other end.
    pub(super) fn allow(&mut self, allowed: bool) -> Result<(), PeerError> {
        if self.setting.user_is_here || !self.asked {
            return Err(PeerError::Unexpected("the answer to no question"));
        }
        self.answered(allowed);
        Ok(())
    }

    pub(super) fn answered(&mut self, allowed: bool) {
        self.asked = false;
        if allowed {
            return self.remove_all();
        }
        self.hold_back(self.names_to_go());
    }

    /// How many names may be removed: by accident, few; by will, as many as were said.
    fn most_deletes(&self) -> u64 {
        let listed = self.known;
        match self.setting.options.delete {
            Delete::Never => 0,
            Delete::AtMost(most) => most,
            Delete::Guarded if listed == 0 => 0,
            // A third of what is listed is a quarter of what was there.
            Delete::Guarded => (listed / 3).clamp(FEW_DELETES, GUARDED_DELETES),
        }
    }

    pub(super) fn removed(&mut self, path: RelPath, item: Item, removed: Result<Removed, Trouble>) {
        self.removals_out -= 1;
        // What went counts, though some of it stayed.
        self.totals.deleted += removed.as_ref().map_or(0, |removed| removed.names);
        match removed.and_then(Removed::whole) {
            Ok(_) => self.deleted(path, item),
            // What rules protect stays as the user wishes.
            Err(trouble) if trouble.kind == TroubleKind::Skipped => self.tell_trouble(trouble),
            Err(trouble) => self.trouble(trouble),
        }
    }

    pub(super) fn deleted(&mut self, path: RelPath, item: Item) {
        let (action, differs) = (Action::Deleted, Differs::default());
        self.changed(Change { path, item, action, differs, facts: Facts::default() });
    }

    /// Directories get their times last and from the leaves up: every change inside one touches them.
    fn set_dirs(&mut self) {
        if self.setting.options.dry_run {
            return;
        }
        let mut dirs = std::mem::take(&mut self.dirs);
        dirs.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        let implied = self.take_implied_dirs(&mut dirs);
        if !implied.is_empty() {
            self.jobs.ask(Work::SetDirs { dirs: implied, carries: false }, Place::SetDirs);
        }
        self.jobs.ask(Work::SetDirs { dirs, carries: true }, Place::SetDirs);
    }

    fn ask_to_close(&mut self, work: Work, place: Place) {
        if !self.setting.options.dry_run {
            self.jobs.ask(work, place);
        }
    }

    pub(super) fn closed(&mut self, done: Result<(), Setback>) {
        if let Err(setback) = done {
            self.trouble(setback.trouble);
        }
    }

    fn finish(&mut self) {
        self.frames.push_back(ToSender::Finished(self.totals));
        self.notices.push_back(Notice::Finished(self.totals));
    }
}
