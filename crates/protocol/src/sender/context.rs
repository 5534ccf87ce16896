//! State that all parts of the sender share: options, limits and output queues.

use std::collections::{BTreeMap, VecDeque};

use deltic_core::strategy::LinkModel;
use deltic_core::{DataMap, Strategy};

use crate::error::PeerError;
use crate::hello::{ShortForms, SummedBlocks};
use crate::limits::Limits;
use crate::message::{FileNo, ToReceiver, TransferKind};
use crate::options::Options;
use crate::report::{ByteProgress, Counts, Notice, Trouble};
use crate::work::{WorkId, WorkQueue};

use super::ask::{Body, SenderWork};
use super::credit::SendCredit;
use super::listed_file::ListedFile;
use super::pending::SenderPending;

/// Options, work, frames, notices, unsettled files and windows of a sender.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: Options,
    pub(super) jobs: WorkQueue<SenderWork, SenderPending>,
    /// Frames waiting to be polled.
    pub(super) frames: VecDeque<ToReceiver>,
    /// Notices waiting to be polled.
    pub(super) notices: VecDeque<Notice>,
    /// Regular files that the receiver has not settled.
    pub(super) entries: BTreeMap<FileNo, ListedFile>,
    pub(super) progress: ByteProgress,
    pub(super) counts: Counts,
    pub(super) credit: SendCredit,
    /// Limits that the two ends agreed on; before the receiver's hello arrives, the limits that hold in any case.
    pub(super) limits: Limits,
    /// Strategy of the session, with chunks that fit its frames.
    pub(super) strategy: Strategy,
    pub(super) abilities: SharedAbilities,
    /// True once the receiver's hello has arrived.
    pub(super) is_greeted: bool,
    /// Groups sent and not answered, over all files.
    pub(super) groups_out: u64,
    /// Gaps requested and not answered, over all files.
    pub(super) gaps_out: u64,
    /// Current model of the link to the receiver, if the driver knows the link.
    pub(super) link: Option<LinkModel>,
}

/// Optional capabilities that both ends have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SharedAbilities {
    /// The ends may agree on sums that their storage keeps.
    pub(super) agrees_on_sums: bool,
    /// Blocks that have fingerprints made of stored sums.
    pub(super) summed_blocks: Option<SummedBlocks>,
    /// The receiver accepts `Restless` for files that programs have open for writing.
    pub(super) bears_writers: bool,
    /// The receiver asked why large files are read whole or in part.
    pub(super) tells_reasons: bool,
    /// The receiver understands these short forms.
    pub(super) short_forms: ShortForms,
}

impl Context {
    pub(super) fn new(options: Options) -> Self {
        Self {
            strategy: options.effective_strategy(),
            options,
            jobs: WorkQueue::new(),
            frames: VecDeque::new(),
            notices: VecDeque::new(),
            entries: BTreeMap::new(),
            progress: ByteProgress::default(),
            counts: Counts::default(),
            credit: SendCredit::default(),
            limits: Limits::UNHEARD,
            abilities: SharedAbilities::default(),
            is_greeted: false,
            groups_out: 0,
            gaps_out: 0,
            link: None,
        }
    }

    /// Sets the limits that the two ends agreed on.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.credit = SendCredit::new(limits.credit);
        self.strategy.longest = limits.chunk_bytes();
        (self.limits, self.is_greeted) = (limits, true);
    }

    /// True if a file sent whole may be sent in a single frame: a file without holes that was read as one version.
    pub(super) fn may_be_single(
        &self,
        how: TransferKind,
        map: &Option<DataMap>,
        body: &Body,
    ) -> bool {
        let is_allowed = self.abilities.short_forms.files && how == TransferKind::Whole;
        is_allowed && map.is_none() && !body.sealed.restless
    }

    pub(super) fn send(&mut self, frame: ToReceiver) {
        self.frames.push_back(frame);
    }

    /// Returns the next frame, unless its literals must wait for credit.
    pub(super) fn next_frame(&mut self) -> Option<ToReceiver> {
        let frame =
            self.frames.pop_front_if(|frame| self.credit.has_room(frame.literal_bytes()))?;
        self.credit.spend(frame.literal_bytes());
        Some(frame)
    }

    /// True if literals are ready that must wait for credit.
    pub(super) fn lacks_credit(&self) -> bool {
        self.frames.front().is_some_and(|frame| !self.credit.has_room(frame.literal_bytes()))
    }

    /// Returns the next work. Returns no work that reads literals while other literals wait for credit.
    pub(super) fn next_work(&mut self) -> Option<(WorkId, SenderWork)> {
        let next = self.frames.front().map_or(0, ToReceiver::literal_bytes);
        let is_held = !self.credit.has_room(next);
        self.jobs.poll_except(|work| is_held && work.reads_literals())
    }

    /// Passes a notice from the receiver on.
    pub(super) fn notify(&mut self, notice: Notice) -> Result<(), PeerError> {
        self.notices.push_back(notice);
        Ok(())
    }

    /// Reports a trouble to the users at both ends.
    pub(super) fn report_trouble(&mut self, trouble: Trouble) {
        self.send(ToReceiver::Trouble(trouble.clone()));
        self.notices.push_back(Notice::Trouble(trouble));
    }

    pub(super) fn report_settled(&mut self, bytes: u64) {
        self.notices.extend(self.progress.settle(bytes));
    }

    /// Reports settled bytes of an attempt, except bytes that an earlier attempt reported.
    pub(super) fn report_progress(&mut self, file: FileNo, settled: u64) {
        let Some(listed) = self.entries.get_mut(&file) else { return };
        let fresh = listed.advance(settled);
        self.report_settled(fresh);
    }
}
