//! Wanted files: when each is transferred, the data that it is matched against, and its attempts.
//!
//! ```text
//! a candidate ──► (waits for the chart, or as a repeat) ──► the queue ──► an attempt: Opening ──► Asked ──► Running
//!     done: Settled                                            failed: Over ──► the next attempt, or Settled
//! ```

mod attempts;
pub(super) mod candidate;
mod incoming;
mod moved;
mod proved;
mod queue;
mod repeats;
mod sharing;
pub(super) mod start;
mod under_way;
mod viewing;

use std::cmp::Ordering;

use deltic_core::recipe::Digest;
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::message::{BriefDigest, ChunkLine, FileNo, GroupLine, ToReceiver};
use crate::options::Options;
use crate::report::{Notice, ReadReason, Trouble};
use crate::streams::Aside;
use crate::work::{ErrorAction, Handle, UnknownAnswer, WorkError};

use super::ask::{LookupAnswer, NewVersionAnswer, OldVersionAnswer, ReceiverAnswer};
use super::context::Context;
use super::pending::FilePending;
use super::transfer::IncomingTransfer;
use super::transfer::file_context::{FileContext, TransferOutcome};
use super::transfer::gap::GapPayload;
use candidate::{FileCandidate, SettledFile};
use incoming::{AttemptStage, IncomingFile};
use moved::MovedFiles;
use queue::FileQueue;
use repeats::{RepeatedFiles, may_share};
use start::{FileOffer, FileStart, SingleBlock};
use under_way::{FilesUnderWay, LentPaths};

/// Mean length of files that count as short, in bytes.
const SHORT_BYTES: u64 = 32 << 10;

/// The wanted files.
#[derive(Debug)]
pub(super) struct WantedFiles {
    queue: FileQueue,
    moved: MovedFiles,
    repeats: RepeatedFiles,
    under_way: FilesUnderWay,
    lent: LentPaths,
    offer: Option<FileOffer>,
    /// Number of new files so far that may share parts with other files.
    may_share: u64,
    /// Settled files that the tree has not taken yet.
    settled: Vec<SettledFile>,
}

impl WantedFiles {
    /// Creates the state without files; at most `most` small files may be under way at once.
    pub(super) fn new(most: Option<usize>) -> Self {
        Self {
            queue: FileQueue::new(most),
            moved: MovedFiles::default(),
            repeats: RepeatedFiles::default(),
            under_way: FilesUnderWay::default(),
            lent: LentPaths::default(),
            offer: None,
            may_share: 0,
            settled: Vec::new(),
        }
    }

    /// True if no file waits or is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.repeats.first_waiting().is_none()
    }

    /// Returns the lowest number of a file that may still be requested from the sender.
    pub(super) fn first_unrequested(&self) -> Option<FileNo> {
        let waiting = [
            self.queue.first_waiting(),
            self.moved.first(),
            self.repeats.first_waiting(),
            self.under_way.first_unrequested(),
        ];
        waiting.into_iter().flatten().min()
    }

    /// True if the sender was asked for this file, and has not answered.
    pub(super) fn is_awaited(&self, file: FileNo) -> bool {
        let is_asked = |file: &IncomingFile| matches!(file.stage, AttemptStage::Asked(_));
        self.under_way.get(&file).is_some_and(is_asked)
    }

    /// True if the files under way are short, so that some of them are settled soon even over a slow link.
    pub(super) const fn are_short(&self) -> bool {
        self.queue.has_mean_len(SHORT_BYTES)
    }

    /// Takes the files settled since the last call.
    pub(super) fn take_settled(&mut self) -> Vec<SettledFile> {
        std::mem::take(&mut self.settled)
    }

    /// Takes a wanted file. The file may have to wait for the index of moved files, or for a file with the same
    /// length, before it is queued.
    pub(super) fn add_wanted(&mut self, options: &Options, candidate: FileCandidate) {
        let is_new = candidate.old.is_none();
        self.may_share += u64::from(is_new && may_share(options, &candidate));
        if let Some(candidate) = self.moved.admit_or_hold(options, candidate) {
            self.queue_up(options, candidate);
        }
    }

    fn queue_up(&mut self, options: &Options, candidate: FileCandidate) {
        if let Some(candidate) = self.repeats.admit_or_hold(options, candidate) {
            self.queue.push(candidate);
        }
    }

    /// Extends the index of moved files, and queues the files that need not wait for the index.
    pub(super) fn extend_move_index(
        &mut self,
        cx: &mut Context,
        near: impl FnOnce(&Context) -> Vec<RelPath>,
        known: u64,
    ) {
        for candidate in self.moved.extend_index(cx, near, known) {
            self.queue_up(&cx.setting.options, candidate);
        }
    }

    /// Requests sums of the old bytes in place of gaps, as far as the window of gaps allows, file by file.
    pub(super) fn request_gap_sums(&mut self, cx: &mut Context) {
        while let Some((handle, most)) = cx.load.next_gaps() {
            let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { continue };
            let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else {
                continue;
            };
            transfer.survey_gaps(&mut fx, most);
        }
    }

    /// True if a frame that may have overtaken others belongs to the current attempt at the frame's file. A frame of
    /// an earlier attempt is dropped.
    pub(super) fn accepts_out_of_order(&self, aside: &Aside) -> Result<bool, PeerError> {
        let file = aside.frame.unordered_file().and_then(|file| self.under_way.get(&file));
        let Some(incoming) = file else { return Ok(false) };
        match incoming.compare_attempt(aside.attempt) {
            Ordering::Less => Ok(false),
            Ordering::Equal if incoming.comes_in_order() => Err(PeerError::Unexpected(
                "a frame on a second stream, for a file that uses one stream",
            )),
            Ordering::Equal => Ok(true),
            Ordering::Greater => Err(PeerError::Unexpected("a frame of a future attempt")),
        }
    }

    /// Takes a frame about the content of a file.
    pub(super) fn handle(&mut self, cx: &mut Context, frame: ToReceiver) -> Result<(), PeerError> {
        match frame {
            ToReceiver::ReadReason { file, reason } => self.receive_read_reason(cx, file, reason),
            ToReceiver::Holes { file, runs } => self.receive_data_map(cx, file, &runs),
            ToReceiver::Start { file, meta, how, spec } => {
                self.receive_start(cx, file, FileStart { meta, how, spec })
            }
            ToReceiver::Groups { file, groups } => self.receive_groups(cx, file, &groups),
            ToReceiver::Recipe { file, chunks } => self.receive_recipe(cx, file, &chunks.0),
            ToReceiver::Restless { file } => self.mark_restless(cx, file),
            ToReceiver::End { file, digest } => self.receive_end(cx, file, digest),
            ToReceiver::Failed { file, attempt, trouble } => {
                self.receive_failure(cx, file, attempt, trouble)
            }
            ToReceiver::Chunks { file, groups, chunks } => {
                self.run_step(cx, file, |transfer, fx| {
                    transfer.receive_group_chunks(fx, &groups, &chunks.0)
                })
            }
            ToReceiver::Moved { file, runs } => {
                self.run_step(cx, file, |transfer, _| transfer.take_moved_runs(&runs))
            }
            ToReceiver::Fill { file, chunks, payload } => {
                self.run_step(cx, file, |transfer, fx| {
                    transfer.receive_literals(fx, &chunks, payload)
                })
            }
            ToReceiver::Single { file, meta, digest, payload } => {
                self.receive_single(cx, file, meta, SingleBlock { digest, payload })
            }
            ToReceiver::ShortSingle { file, digest, payload } => {
                let digest = BriefDigest::from_prefix(digest);
                self.receive_single(cx, file, None, SingleBlock { digest, payload })
            }
            ToReceiver::Mended { file, gaps, bytes, payload } => {
                self.run_step(cx, file, |transfer, fx| {
                    let packed = fx.cx.compression.wire_bytes(payload.packed_bytes());
                    transfer.receive_gaps(fx, &gaps, GapPayload { bytes, packed, payload })
                })
            }
            ToReceiver::Keeps { file, kept } => {
                self.run_step(cx, file, |transfer, fx| transfer.receive_stored_sum_kind(fx, kept))
            }
            ToReceiver::Sums { file, sums, extent } => {
                self.run_step(cx, file, |transfer, fx| transfer.receive_sums(fx, sums, extent))
            }
            ToReceiver::Deny { file, chunks } => {
                self.run_step(cx, file, |transfer, fx| transfer.receive_denial(fx, &chunks))
            }
            ToReceiver::Patch { file, steps, payload } => {
                self.run_step(cx, file, |transfer, fx| transfer.receive_patch(fx, &steps, payload))
            }
            _ => Err(PeerError::Unexpected("a frame that concerns no file")),
        }
    }

    /// Runs a step of a file's transfer. Does nothing if the transfer has ended at this end, and the sender cannot
    /// know that yet.
    fn run_step(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        step: impl FnOnce(&mut IncomingTransfer, &mut FileContext<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.under_way.get_mut(&file) else { return Ok(()) };
        let handle = incoming.handle;
        let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else {
            return Ok(());
        };
        step(transfer, &mut fx)?;
        let outcome = fx.take_outcome();
        self.apply_outcome(cx, handle, outcome);
        Ok(())
    }

    /// Acts on the outcome of a step: ends the transfer, or puts its result in place.
    fn apply_outcome(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        outcome: Option<TransferOutcome>,
    ) {
        match outcome {
            Some(TransferOutcome::Failed(error)) => self.fail_attempt(cx, handle, error),
            Some(TransferOutcome::Differs) => self.abandon_attempt(cx, handle, None),
            Some(TransferOutcome::Proved) => self.settle_equal(cx, handle),
            Some(TransferOutcome::Committed) => self.take_committed(cx, handle),
            None => self.commit_if_complete(cx, handle),
        }
    }

    /// Commits a complete file, or confirms the version in place, unless the file's path is lent.
    fn commit_if_complete(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let is_guest = incoming.matches_other_path();
        let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else { return };
        if transfer.is_complete(&mut fx) {
            let waits = !transfer.is_identical(&fx) && !is_guest;
            if waits && self.lent.is_lent(handle, fx.path) {
                // The borrower of this path may wait for this file, directly or through other files: from now on no
                // file waits for it.
                fx.cx.sources.end_attempt(file, None);
                return;
            }
            transfer.commit_or_keep(&mut fx);
        }
        if let Some(outcome) = fx.take_outcome() {
            self.apply_outcome(cx, handle, Some(outcome));
        }
    }

    /// Reports why the sender reads a requested file whole or in part. Errors: `Unexpected` if this end did not ask, or
    /// for a second reason of an attempt.
    fn receive_read_reason(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        reason: ReadReason,
    ) -> Result<(), PeerError> {
        if !cx.setting.asks_reasons {
            return Err(PeerError::Unexpected("a reason that was not asked for"));
        }
        let Some(incoming) = self.under_way.get_mut(&file).filter(|file| file.is_requested())
        else {
            return Ok(());
        };
        incoming.tries.reasons += 1;
        if incoming.tries.reasons > incoming.tries.wants {
            return Err(PeerError::Unexpected("a second reason for one request"));
        }
        let path = incoming.candidate.path.clone();
        cx.notices.push_back(Notice::ReadReason { path, reason });
        Ok(())
    }

    fn receive_groups(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        match self.open_offer(file) {
            Some(offer) => offer.take_offered_groups(lines),
            None => self.run_step(cx, file, |transfer, fx| transfer.receive_groups(fx, lines)),
        }
    }

    fn receive_recipe(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        match self.open_offer(file) {
            Some(offer) => offer.take_offered_chunks(lines),
            None => self.run_step(cx, file, |transfer, fx| transfer.receive_chunks(fx, lines)),
        }
    }

    /// Notes that a source is not at rest. The copy gets a time that no comparison takes for the source's time, so
    /// that the next run reads the source again.
    fn mark_restless(&mut self, cx: &mut Context, file: FileNo) -> Result<(), PeerError> {
        let window = cx.setting.options.compare.window;
        match self.open_offer(file) {
            Some(_) => Err(PeerError::Unexpected("a Restless frame in this state")),
            None => self.run_step(cx, file, |transfer, _| {
                let modified = window.before(transfer.meta().modified);
                transfer.set_meta(Meta { modified, ..transfer.meta().clone() });
                transfer.mark_restless()
            }),
        }
    }

    fn receive_end(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        digest: Digest,
    ) -> Result<(), PeerError> {
        match self.open_offer(file) {
            Some(offer) => offer.receive_digest(digest),
            None => self.run_step(cx, file, |transfer, _| transfer.receive_digest(digest)),
        }
    }

    /// Takes a failure of a file at the sender. The failure is ignored if this end has already given up the same
    /// attempt.
    fn receive_failure(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        attempt: u32,
        trouble: Trouble,
    ) -> Result<(), PeerError> {
        let meant = |file: &&IncomingFile| file.is_requested() && file.tries.wants == attempt;
        let Some(incoming) = self.under_way.get(&file).filter(meant) else { return Ok(()) };
        if incoming.running_transfer().is_some_and(IncomingTransfer::is_settling) {
            return Err(PeerError::Unexpected("the failure of a complete file"));
        }
        let vanished = trouble.kind == crate::report::TroubleKind::Vanished;
        let then = if vanished { ErrorAction::Retry } else { ErrorAction::GiveUp };
        let handle = incoming.handle;
        self.fail_attempt(cx, handle, WorkError { trouble, then });
        Ok(())
    }

    /// Takes the answer to a piece of work.
    pub(super) fn answer(
        &mut self,
        cx: &mut Context,
        pending: FilePending,
        answer: ReceiverAnswer,
    ) -> Result<(), UnknownAnswer> {
        if !is_of_kind(&pending, &answer) {
            return Err(UnknownAnswer);
        }
        match (pending, answer) {
            (
                FilePending::ExtendMoveIndex,
                ReceiverAnswer::Lookup(LookupAnswer::MoveIndexExtended(charted)),
            ) => self.moved.take_index_extent(charted),
            (FilePending::Release, _) => {}
            (FilePending::Abandon(file), _) => self.take_abandoned(cx, file),
            (FilePending::OpenOld(handle), ReceiverAnswer::Old(OldVersionAnswer::Opened(lens))) => {
                self.take_old_versions(cx, handle, lens);
                self.commit_if_complete(cx, handle);
            }
            (
                FilePending::OpenMore(handle),
                ReceiverAnswer::Old(OldVersionAnswer::OpenedMore(len)),
            ) => {
                self.take_more_old(cx, handle, len);
            }
            (FilePending::View(handle), ReceiverAnswer::Old(OldVersionAnswer::Viewed(lens))) => {
                self.take_data_order(cx, handle, lens)
            }
            (FilePending::TakeBeside { handle, links }, ReceiverAnswer::Done(done)) => {
                self.take_alternate_result(cx, handle, links, done);
                self.commit_if_complete(cx, handle);
            }
            (FilePending::TouchFile(handle), ReceiverAnswer::Done(done)) => {
                self.take_attributes_result(cx, handle, done);
            }
            (pending, answer) => self.answer_transfer(cx, pending, answer),
        }
        Ok(())
    }

    /// Takes the answer to work of a transfer, unless the transfer has ended.
    fn answer_transfer(&mut self, cx: &mut Context, pending: FilePending, answer: ReceiverAnswer) {
        let Some(handle) = pending.handle() else { return };
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let outcome = if let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) {
            transfer.answer(&mut fx, pending, answer);
            fx.take_outcome()
        } else if let Some((expected, mut fx)) = incoming.expected_and_context(cx, file)
            && let (
                FilePending::Index(_, part),
                ReceiverAnswer::Old(OldVersionAnswer::Indexed(run)),
            ) = (pending, answer)
        {
            expected.take_old_chunks(&mut fx, part, run);
            fx.take_outcome()
        } else {
            None
        };
        self.apply_outcome(cx, handle, outcome);
    }

    /// Returns the transfer of an offered file, unless the transfer was used or dropped.
    fn open_offer(&mut self, file: FileNo) -> Option<&mut IncomingTransfer> {
        let offer = self.offer.as_mut().filter(|offer| offer.file == file)?;
        offer.transfer.as_deref_mut()
    }

    /// Takes the offered transfer of a file, after which the offer is empty.
    fn take_offer(&mut self, file: FileNo) -> Option<Box<IncomingTransfer>> {
        self.offer.as_mut().filter(|offer| offer.file == file)?.transfer.take()
    }
}

/// True if the answer is of the kind that the work asked for.
fn is_of_kind(pending: &FilePending, answer: &ReceiverAnswer) -> bool {
    match (pending, answer) {
        (
            FilePending::SumOld { step, .. },
            ReceiverAnswer::Old(OldVersionAnswer::Summed(summed)),
        ) => summed.as_ref().map_or(true, |summed| step.accepts_result(summed)),
        (
            FilePending::ExtendMoveIndex,
            ReceiverAnswer::Lookup(LookupAnswer::MoveIndexExtended(_)),
        )
        | (FilePending::OpenOld(_), ReceiverAnswer::Old(OldVersionAnswer::Opened(_)))
        | (FilePending::OpenMore(_), ReceiverAnswer::Old(OldVersionAnswer::OpenedMore(_)))
        | (FilePending::View(_), ReceiverAnswer::Old(OldVersionAnswer::Viewed(_)))
        | (FilePending::Index(..), ReceiverAnswer::Old(OldVersionAnswer::Indexed(_)))
        | (FilePending::Copy { .. }, ReceiverAnswer::New(NewVersionAnswer::Copied(_)))
        | (FilePending::Write { .. }, ReceiverAnswer::New(NewVersionAnswer::Written(_)))
        | (FilePending::Survey { .. }, ReceiverAnswer::Old(OldVersionAnswer::Surveyed(_)))
        | (FilePending::Mend { .. }, ReceiverAnswer::New(NewVersionAnswer::Mended(_)))
        | (FilePending::HashOld { .. }, ReceiverAnswer::Old(OldVersionAnswer::Hashed(_)))
        | (FilePending::Roll(_), ReceiverAnswer::Old(OldVersionAnswer::Rolled(_))) => true,
        (
            FilePending::Commit(_)
            | FilePending::Replace { .. }
            | FilePending::Confirm(_)
            | FilePending::TouchFile(_)
            | FilePending::TakeBeside { .. }
            | FilePending::Abandon(_)
            | FilePending::Release,
            answer,
        ) => matches!(answer, ReceiverAnswer::Done(_)),
        _ => false,
    }
}
