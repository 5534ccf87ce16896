//! The end of a run, in an order that is safe against crashes: land delayed commits, delete, sweep, set directories,
//! flush, report arrivals, finish.
//!
//! The metadata of a directory is set after the last change of a name in the directory; otherwise the directory would
//! get the time of that change.

use crate::message::ToSender;
use crate::receiver::ask::{LookupAnswer, ReceiverAnswer, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::TreePending;
use crate::report::{Notice, Totals, Trouble, TroubleKind};
use crate::work::UnknownAnswer;

use super::ReceiverTree;

/// The steps after the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosingStep {
    Landing,
    Deleting,
    Sweeping,
    SettingDirs,
    Flushing,
    Arriving,
    Finished,
}

impl ReceiverTree {
    /// True once everything is in place and `Finished` was sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.closing == Some(ClosingStep::Finished)
    }

    /// True while names are deleted, which may make room.
    pub(crate) fn is_deleting(&self) -> bool {
        self.closing == Some(ClosingStep::Deleting)
    }

    /// True once the closing steps have begun.
    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// True if the next closing step may be taken, once no file is under way.
    pub(crate) fn may_close(&self, cx: &Context) -> bool {
        let waits = !cx.jobs.is_idle()
            || !self.dirs.sections.is_empty()
            || self.entries.comparing.first_file().is_some()
            || self.entries.arrivals.removing_sources
            || self.deleting.asked
            || self.deleting.has_names_to_remove();
        self.dirs.list.is_complete() && !waits && !self.is_finished()
    }

    /// Takes the next closing step.
    pub(crate) fn take_next_step(&mut self, cx: &mut Context) {
        let Some(intact) = self.dirs.list.is_intact() else { return };
        let next = match self.closing {
            None => ClosingStep::Landing,
            Some(ClosingStep::Landing) => ClosingStep::Deleting,
            Some(ClosingStep::Deleting) => ClosingStep::Sweeping,
            Some(ClosingStep::Sweeping) => {
                self.dirs.last.sort();
                if let dirs @ 1.. = self.dirs.last.unset_count() {
                    let message =
                        format!("too many directories: {dirs} keep their times and modes");
                    cx.count_failure(Trouble::new(TroubleKind::Failed, message));
                }
                ClosingStep::SettingDirs
            }
            Some(ClosingStep::SettingDirs) if !self.dirs.last.are_set() => ClosingStep::SettingDirs,
            Some(ClosingStep::SettingDirs) => ClosingStep::Flushing,
            Some(ClosingStep::Flushing) => ClosingStep::Arriving,
            Some(_) => ClosingStep::Finished,
        };
        self.closing = Some(next);
        cx.is_closing = true;
        match next {
            ClosingStep::Landing => {
                cx.notices.push_back(Notice::Closing);
                if cx.setting.options.writing.delay {
                    request_closing_work(cx, ReceiverWork::Land, TreePending::Land);
                }
            }
            ClosingStep::Deleting => {
                self.missing.request_lookup(cx);
                self.deleting.delete(cx, intact, self.dirs.list.listed_and_equal_count());
            }
            ClosingStep::Sweeping => {
                request_closing_work(cx, ReceiverWork::Sweep, TreePending::Sweep)
            }
            ClosingStep::SettingDirs => self.dirs.set_next_batch(cx),
            ClosingStep::Flushing => {
                request_closing_work(cx, ReceiverWork::Flush, TreePending::Flush)
            }
            ClosingStep::Arriving => {
                let listed_count = self.dirs.list.listed_count();
                self.entries.arrivals.report_all(cx, listed_count);
            }
            ClosingStep::Finished => send_finished(cx),
        }
    }

    /// Takes the answer to work of closing steps and deletions.
    pub(super) fn take_answer(
        &mut self,
        cx: &mut Context,
        pending: TreePending,
        answer: ReceiverAnswer,
    ) -> Result<(), UnknownAnswer> {
        match (pending, answer) {
            (TreePending::Extra(dir), ReceiverAnswer::Lookup(LookupAnswer::Extra(found))) => {
                self.take_unlisted_names(cx, dir, found)
            }
            (
                TreePending::CountGoing(names),
                ReceiverAnswer::Lookup(LookupAnswer::Counted(now)),
            ) => {
                self.deleting.take_recount(cx, names, now);
            }
            (
                TreePending::CountMoved,
                ReceiverAnswer::Lookup(LookupAnswer::CountedMoved { files, new }),
            ) => {
                self.deleting.take_moved_count(cx, files, *new);
            }
            (TreePending::Remove(removal), ReceiverAnswer::Removed(removed)) => {
                self.deleting.take_removal_result(cx, removal, removed);
            }
            (TreePending::Ask, ReceiverAnswer::Asked(allowed)) => {
                self.deleting.take_user_answer(cx, allowed)
            }
            (TreePending::SetDirs { .. }, ReceiverAnswer::SetDirs(troubles)) => {
                troubles.into_iter().for_each(|trouble| cx.count_failure(trouble));
            }
            (TreePending::Land, ReceiverAnswer::Landed(failed)) => {
                self.entries.arrivals.take_delayed_commits(cx, failed)
            }
            (TreePending::Sweep, ReceiverAnswer::Done(done)) => cx.take_closing_result(done),
            (TreePending::Flush, ReceiverAnswer::Done(done)) => {
                self.entries.arrivals.take_last_flush(cx, done)
            }
            (TreePending::FlushArrived { files, upto }, ReceiverAnswer::Done(done)) => {
                self.entries.arrivals.take_early_flush(cx, files, upto, done);
            }
            _ => return Err(UnknownAnswer),
        }
        Ok(())
    }
}

fn request_closing_work(cx: &mut Context, work: ReceiverWork, pending: TreePending) {
    if !cx.setting.options.dry_run {
        cx.request_work(work, pending);
    }
}

fn send_finished(cx: &mut Context) {
    let resumed = if cx.setting.tells_resumed { cx.totals.resumed } else { 0 };
    cx.frames.push_back(ToSender::Finished(Totals { resumed, ..cx.totals }));
    cx.notices.push_back(Notice::Finished(cx.totals));
}
