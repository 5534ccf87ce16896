//! The state that all parts of the receiver share: setting, work, frames, notices and totals.

use std::collections::VecDeque;

use deltic_core::Strategy;
use deltic_tree::{Meta, Name, RelPath};

use crate::message::ToSender;
use crate::options::Options;
use crate::report::{
    Action, ByteProgress, Change, Counts, Differs, EntryType, Facts, MadeRoot, Notice, PassedOver,
    Side, Totals, Trouble, TroubleKind,
};
use crate::work::{ErrorAction, WorkError, WorkQueue, WorkTurn};

use super::ask::{ReceiverAnswer, ReceiverWork};
use super::credit::GrantedCredit;
use super::load::TransferLoad;
use super::pending::ReceiverPending;
use super::setting::Setting;
use super::sources::RecipeSources;

/// Setting, work, frames, notices and totals of a receiver.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) setting: Setting,
    pub(super) jobs: WorkQueue<ReceiverWork, ReceiverPending>,
    /// Frames that wait to be polled.
    pub(super) frames: VecDeque<ToSender>,
    /// Notices that wait to be polled.
    pub(super) notices: VecDeque<Notice>,
    pub(super) totals: Totals,
    pub(super) progress: ByteProgress,
    pub(super) counts: Counts,
    pub(super) load: TransferLoad,
    pub(super) credit: GrantedCredit,
    /// Compression of the frame that is handled now.
    pub(super) compression: FrameCompression,
    pub(super) sources: RecipeSources,
    pub(super) partial_meta: PartialMeta,
    /// The path under which the sender listed the entry that `Setting::rename` renames.
    pub(super) listed_as: Option<RelPath>,
    /// True once every file is in place or has failed.
    pub(super) is_closing: bool,
    /// True once the user was told that some mode bits are not set here.
    told_withheld: bool,
}

/// Lengths of the payload of a frame in bytes: on the wire, and decompressed. Both are 0 for a frame that is not
/// compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCompression {
    /// Length on the wire.
    pub wire: usize,
    /// Length of the decompressed frame.
    pub decompressed: usize,
}

impl FrameCompression {
    /// Returns the length on the wire of `bytes` of the frame.
    pub(super) fn wire_bytes(self, bytes: usize) -> u64 {
        match self.decompressed {
            0 => bytes as u64,
            all => bytes as u64 * self.wire as u64 / all as u64,
        }
    }
}

impl Context {
    pub(super) fn new(setting: Setting) -> Self {
        Self {
            credit: GrantedCredit::new(setting.limits),
            setting,
            jobs: WorkQueue::new(),
            frames: VecDeque::new(),
            notices: VecDeque::new(),
            totals: Totals::default(),
            progress: ByteProgress::default(),
            counts: Counts::default(),
            load: TransferLoad::default(),
            compression: FrameCompression::default(),
            sources: RecipeSources::default(),
            partial_meta: PartialMeta::default(),
            listed_as: None,
            is_closing: false,
            told_withheld: false,
        }
    }

    /// Returns the session's strategy, with chunks that fit the session's frames.
    pub(super) fn strategy(&self) -> Strategy {
        let Setting { options, limits, .. } = &self.setting;
        Strategy { longest: limits.chunk_bytes(), ..options.effective_strategy() }
    }

    /// Gives the sender credit for literals that no longer wait to be written.
    pub(super) fn poll_credit(&mut self) -> Option<ToSender> {
        self.credit.poll_credit(self.load.backlog_bytes())
    }

    /// Requests a write, whose bytes count as waiting until the answer.
    pub(super) fn request_write(
        &mut self,
        turn: WorkTurn,
        work: ReceiverWork,
        pending: impl Into<ReceiverPending>,
    ) {
        let pending = pending.into();
        self.load.count_pending(&pending);
        self.jobs.request_in_turn(turn, work, pending);
    }

    /// Asks the driver for work.
    pub(super) fn request_work(&mut self, work: ReceiverWork, pending: impl Into<ReceiverPending>) {
        self.jobs.request(work, pending.into());
    }

    /// Reports attributes that could not be set, and treats the answer as a success otherwise.
    pub(super) fn report_partial_meta(&mut self, answer: ReceiverAnswer) -> ReceiverAnswer {
        match answer {
            ReceiverAnswer::Done(Err(WorkError { trouble, then: ErrorAction::GoOn })) => {
                self.partial_meta.names += 1;
                self.partial_meta.is_last = true;
                self.count_failure(trouble);
                ReceiverAnswer::Done(Ok(()))
            }
            answer => answer,
        }
    }

    /// Reports a trouble that the driver found to the users of both ends. Harmless troubles do not count as failures.
    pub(super) fn report_trouble(&mut self, trouble: Trouble) {
        self.totals.failed += u64::from(!trouble.kind.is_harmless());
        self.send_trouble(trouble);
    }

    /// Takes the result of a step, and reports a failure.
    pub(super) fn take_closing_result(&mut self, done: Result<(), WorkError>) {
        if let Err(error) = done {
            self.count_failure(error.trouble);
        }
    }

    /// Counts a name that failed and tells both ends' users.
    pub(super) fn count_failure(&mut self, trouble: Trouble) {
        self.totals.failed += 1;
        self.send_trouble(trouble);
    }

    /// Returns the trouble of a file that changed at the sender, with the file's path at the sender. `words` makes
    /// the message from this path.
    pub(super) fn changed_at_sender_trouble(
        &self,
        path: &RelPath,
        words: impl FnOnce(&str) -> String,
    ) -> Trouble {
        let path = self.path_at_sender(path).unwrap_or(path);
        Trouble::at(TroubleKind::Vanished, path, words).at_side(Side::Sender)
    }

    pub(super) fn send_trouble(&mut self, trouble: Trouble) {
        self.frames.push_back(ToSender::Trouble(trouble.clone()));
        self.notices.push_back(Notice::Trouble(trouble));
    }

    /// Warns the users of both ends, once, that this end does not set some mode bits of `new`, which the entry `old`
    /// lacks.
    pub(super) fn warn_withheld_mode(&mut self, path: &RelPath, new: &Meta, old: Option<&Meta>) {
        let Options { modes, metadata, .. } = &self.setting.options;
        let withheld = metadata.withheld_mode_bits(new.mode, old.map_or(0, |old| old.mode));
        if !*modes || withheld == 0 || self.told_withheld {
            return;
        }
        self.told_withheld = true;
        let words = |path: &str| {
            format!(
                "{path}: a volume keeps no set-user-ID and set-group-ID bits; this is the first name with some"
            )
        };
        self.send_trouble(Trouble::at(TroubleKind::Warned, path, words));
    }

    /// Tells both ends' users that the root was created.
    pub(super) fn report_new_root(&mut self) {
        let Setting { made_dirs: dirs, rename, .. } = &self.setting;
        let made = MadeRoot { dirs: *dirs, holds_file: rename.is_some() };
        self.frames.push_back(ToSender::MadeRoot(made));
        self.notices.push_back(Notice::MadeRoot(made));
    }

    /// Tells both ends' users of a change.
    pub(super) fn report_change(&mut self, change: Change) {
        self.totals.created += u64::from(change.action == Action::Created);
        let change = self.with_path_at_sender(change);
        self.send_change(change.clone());
        self.notices.push_back(Notice::Changed(change));
    }

    /// Returns `change` with the path at the sender if the destination renames the entry, as in rsync.
    pub(super) fn with_path_at_sender(&self, change: Change) -> Change {
        match self.path_at_sender(&change.path) {
            Some(listed) => Change { path: listed.clone(), ..change },
            None => change,
        }
    }

    /// Returns the path under which the sender listed the entry `path`, if the destination gives the entry another
    /// name.
    fn path_at_sender(&self, path: &RelPath) -> Option<&RelPath> {
        let is_it = |name: &&Name| path.as_bytes() == name.as_bytes();
        self.setting.rename.as_ref().filter(is_it).and(self.listed_as.as_ref())
    }

    /// Reports a name that is up to date, if the options request such reports; `linked` is the other name of a hard
    /// link.
    pub(super) fn report_unchanged(
        &mut self,
        path: &RelPath,
        meta: &Meta,
        linked: Option<RelPath>,
    ) {
        if self.setting.options.tells_unchanged {
            let (path, item, action) = (path.clone(), EntryType::of(&meta.kind), Action::Unchanged);
            let facts = Facts { linked, ..Facts::state_at_sender(meta) };
            self.report_change(Change { path, item, action, differs: Differs::default(), facts });
        }
    }

    /// Reports a name that is skipped because of the options, if the options request such reports.
    pub(super) fn report_passed_over(&mut self, path: &RelPath, meta: &Meta, why: PassedOver) {
        if !self.setting.options.tells_unchanged {
            return;
        }
        let (item, action, differs) =
            (EntryType::of(&meta.kind), Action::PassedOver(why), Differs::default());
        let change = Change {
            path: path.clone(),
            item,
            action,
            differs,
            facts: Facts::state_at_sender(meta),
        };
        // For these reasons rsync names the destination's entry, not the listed entry.
        let change = match why {
            PassedOver::Large | PassedOver::Small => self.with_path_at_sender(change),
            PassedOver::New | PassedOver::Exists | PassedOver::Newer => change,
        };
        if self.setting.tells_passed_over {
            self.frames.push_back(ToSender::Changed(change.clone()));
        }
        self.notices.push_back(Notice::Changed(change));
    }

    pub(super) fn report_settled(&mut self, bytes: u64) {
        self.notices.extend(self.progress.settle(bytes));
    }
}

/// Entries that are in place but lack attributes that could not be set. As with rsync, other names are linked to
/// these entries, and deletions go ahead. Unlike with rsync, their sources stay (`--remove-source-files`): no other
/// place has the missing attributes.
#[derive(Debug, Default)]
pub(super) struct PartialMeta {
    /// Number of these entries.
    pub(super) names: u64,
    /// True if the entry being settled lacks attributes.
    pub(super) is_last: bool,
}
