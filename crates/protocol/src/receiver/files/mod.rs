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
use crate::message::{ChunkLine, FileNo, GroupLine, ToReceiver};
use crate::options::Options;
use crate::report::Trouble;
use crate::streams::Aside;
use crate::work::{ErrorAction, Handle, UnknownAnswer, WorkError};

use super::ask::{LookupAnswer, NewVersionAnswer, OldVersionAnswer, ReceiverAnswer};
use super::context::Context;
use super::pending::FilePending;
use super::transfer::IncomingTransfer;
use super::transfer::file_context::{FileContext, TransferOutcome};
use super::transfer::gap::GapPayload;
use candidate::{FileCandidate, SettledFile};
use incoming::IncomingFile;
use moved::MovedFiles;
use queue::FileQueue;
use repeats::{RepeatedFiles, may_share};
use start::{FileOffer, FileStart, SingleBlock};
use under_way::{FilesUnderWay, LentPaths};

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
        self.queue.is_idle() && self.repeats.first().is_none()
    }

    /// Returns the lowest number of a file that may still be requested from the sender.
    pub(super) fn first_unasked(&self) -> Option<FileNo> {
        let waiting = [
            self.queue.first(),
            self.moved.first(),
            self.repeats.first(),
            self.under_way.first_unasked(),
        ];
        waiting.into_iter().flatten().min()
    }

    /// Takes the files settled since the last call.
    pub(super) fn take_settled(&mut self) -> Vec<SettledFile> {
        std::mem::take(&mut self.settled)
    }

    /// Takes a wanted file. The file may have to wait for the index of moved files, or for a file with the same
    /// length, before it is queued.
    pub(super) fn want(&mut self, options: &Options, candidate: FileCandidate) {
        let is_new = candidate.old.is_none();
        self.may_share += u64::from(is_new && may_share(options, &candidate));
        if let Some(candidate) = self.moved.admit(options, candidate) {
            self.queue_up(options, candidate);
        }
    }

    fn queue_up(&mut self, options: &Options, candidate: FileCandidate) {
        if let Some(candidate) = self.repeats.admit(options, candidate) {
            self.queue.push(candidate);
        }
    }

    /// Extends the index of moved files, and queues the files that need not wait for the index.
    pub(super) fn continue_chart(
        &mut self,
        cx: &mut Context,
        near: impl FnOnce(&Context) -> Vec<RelPath>,
        known: u64,
    ) {
        for candidate in self.moved.continue_chart(cx, near, known) {
            self.queue_up(&cx.setting.options, candidate);
        }
    }

    /// Requests sums of the old bytes in place of gaps, as far as the window of gaps allows, file by file.
    pub(super) fn survey_more(&mut self, cx: &mut Context) {
        while let Some((handle, most)) = cx.load.next_gaps() {
            let Some((file, incoming)) = self.under_way.of_mut(handle) else { continue };
            let Some((transfer, mut fx)) = incoming.running(cx, file) else { continue };
            transfer.survey_gaps(&mut fx, most);
        }
    }

    /// True if a frame that may have overtaken others belongs to the current attempt at the frame's file. A frame of
    /// an earlier attempt is dropped.
    pub(super) fn accepts_out_of_order(&self, aside: &Aside) -> Result<bool, PeerError> {
        let file = aside.frame.may_overtake().and_then(|file| self.under_way.get(&file));
        let Some(incoming) = file else { return Ok(false) };
        match incoming.is_at(aside.attempt) {
            Ordering::Less => Ok(false),
            Ordering::Equal if incoming.comes_in_order() => {
                Err(PeerError::Unexpected("an aside of a file that goes in order"))
            }
            Ordering::Equal => Ok(true),
            Ordering::Greater => Err(PeerError::Unexpected("a frame of a future attempt")),
        }
    }

    /// Takes a frame about the content of a file.
    pub(super) fn handle(&mut self, cx: &mut Context, frame: ToReceiver) -> Result<(), PeerError> {
        match frame {
            ToReceiver::Holes { file, runs } => self.holes(cx, file, &runs),
            ToReceiver::Start { file, meta, how, spec } => {
                self.start(cx, file, FileStart { meta, how, spec })
            }
            ToReceiver::Groups { file, groups } => self.groups(cx, file, &groups),
            ToReceiver::Recipe { file, chunks } => self.recipe(cx, file, &chunks.0),
            ToReceiver::Restless { file } => self.mark_restless(cx, file),
            ToReceiver::End { file, digest } => self.end(cx, file, digest),
            ToReceiver::Failed { file, attempt, trouble } => {
                self.sender_failed(cx, file, attempt, trouble)
            }
            ToReceiver::Chunks { file, groups, chunks } => {
                self.step(cx, file, |transfer, fx| transfer.chunks(fx, &groups, &chunks.0))
            }
            ToReceiver::Moved { file, runs } => {
                self.step(cx, file, |transfer, _| transfer.take_moved_runs(&runs))
            }
            ToReceiver::Fill { file, chunks, payload } => {
                self.step(cx, file, |transfer, fx| transfer.fill(fx, &chunks, payload))
            }
            ToReceiver::Single { file, meta, digest, payload } => {
                self.single(cx, file, meta, SingleBlock { digest, payload })
            }
            ToReceiver::Mended { file, gaps, bytes, payload } => {
                self.step(cx, file, |transfer, fx| {
                    let packed = fx.cx.compression.wire_bytes(payload.packed_bytes());
                    transfer.mend(fx, &gaps, GapPayload { bytes, packed, payload })
                })
            }
            ToReceiver::Keeps { file, kept } => {
                self.step(cx, file, |transfer, fx| transfer.keeps(fx, kept))
            }
            ToReceiver::Sums { file, sums, extent } => {
                self.step(cx, file, |transfer, fx| transfer.sums(fx, sums, extent))
            }
            ToReceiver::Deny { file, chunks } => {
                self.step(cx, file, |transfer, fx| transfer.deny(fx, &chunks))
            }
            ToReceiver::Patch { file, steps, payload } => {
                self.step(cx, file, |transfer, fx| transfer.patch(fx, &steps, payload))
            }
            _ => Err(PeerError::Unexpected("a frame that concerns no file")),
        }
    }

    /// Runs a step of a file's transfer. Does nothing if the transfer has ended at this end, and the sender cannot
    /// know that yet.
    fn step(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        step: impl FnOnce(&mut IncomingTransfer, &mut FileContext<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.under_way.get_mut(&file) else { return Ok(()) };
        let handle = incoming.handle;
        let Some((transfer, mut fx)) = incoming.running(cx, file) else { return Ok(()) };
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
            Some(TransferOutcome::Failed(error)) => self.fail(cx, handle, error),
            Some(TransferOutcome::Differs) => self.abandon(cx, handle, None),
            Some(TransferOutcome::Proved) => self.proved(cx, handle),
            Some(TransferOutcome::Committed) => self.committed(cx, handle),
            None => self.try_settle(cx, handle),
        }
    }

    /// Commits a complete file, or confirms the version in place, unless the file's path is lent.
    fn try_settle(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.of_mut(handle) else { return };
        let is_guest = incoming.is_guest();
        let Some((transfer, mut fx)) = incoming.running(cx, file) else { return };
        if transfer.is_complete(&mut fx) {
            let waits = !transfer.is_identical(&fx) && !is_guest;
            if waits && self.lent.holds(handle, fx.path) {
                // The borrower of this path may wait for this file, directly or through other files: from now on no
                // file waits for it.
                fx.cx.sources.end(file, None);
                return;
            }
            transfer.settle(&mut fx);
        }
        if let Some(outcome) = fx.take_outcome() {
            self.apply_outcome(cx, handle, Some(outcome));
        }
    }

    fn groups(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        match self.offer_of(file) {
            Some(offer) => offer.offer_groups(lines),
            None => self.step(cx, file, |transfer, fx| transfer.groups(fx, lines)),
        }
    }

    fn recipe(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        match self.offer_of(file) {
            Some(offer) => offer.offer_recipe(lines),
            None => self.step(cx, file, |transfer, fx| transfer.recipe(fx, lines)),
        }
    }

    /// Notes that a source is not at rest. The copy gets a time that no comparison takes for the source's time, so
    /// that the next run reads the source again.
    fn mark_restless(&mut self, cx: &mut Context, file: FileNo) -> Result<(), PeerError> {
        let window = cx.setting.options.compare.window;
        match self.offer_of(file) {
            Some(_) => Err(PeerError::Unexpected("restless")),
            None => self.step(cx, file, |transfer, _| {
                let modified = window.before(transfer.meta().modified);
                transfer.set_meta(Meta { modified, ..transfer.meta().clone() });
                transfer.mark_restless()
            }),
        }
    }

    fn end(&mut self, cx: &mut Context, file: FileNo, digest: Digest) -> Result<(), PeerError> {
        match self.offer_of(file) {
            Some(offer) => offer.end(digest),
            None => self.step(cx, file, |transfer, _| transfer.end(digest)),
        }
    }

    /// Takes a failure of a file at the sender. The failure is ignored if this end has already given up the same
    /// attempt.
    fn sender_failed(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        attempt: u32,
        trouble: Trouble,
    ) -> Result<(), PeerError> {
        let meant = |file: &&IncomingFile| file.is_asked() && file.tries.wants == attempt;
        let Some(incoming) = self.under_way.get(&file).filter(meant) else { return Ok(()) };
        if incoming.transfer().is_some_and(IncomingTransfer::is_settling) {
            return Err(PeerError::Unexpected("the failure of a complete file"));
        }
        let vanished = trouble.kind == crate::report::TroubleKind::Vanished;
        let then = if vanished { ErrorAction::Retry } else { ErrorAction::GiveUp };
        let handle = incoming.handle;
        self.fail(cx, handle, WorkError { trouble, then });
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
            (FilePending::Chart, ReceiverAnswer::Lookup(LookupAnswer::Charted(charted))) => {
                self.moved.charted(charted)
            }
            (FilePending::Release, _) => {}
            (FilePending::Abandon(file), _) => self.abandoned(cx, file),
            (FilePending::OpenOld(handle), ReceiverAnswer::Old(OldVersionAnswer::Opened(lens))) => {
                self.opened_old(cx, handle, lens);
                self.try_settle(cx, handle);
            }
            (
                FilePending::OpenMore(handle),
                ReceiverAnswer::Old(OldVersionAnswer::OpenedMore(len)),
            ) => {
                self.opened_more(cx, handle, len);
            }
            (FilePending::View(handle), ReceiverAnswer::Old(OldVersionAnswer::Viewed(lens))) => {
                self.viewed(cx, handle, lens)
            }
            (FilePending::TakeBeside { handle, links }, ReceiverAnswer::Done(done)) => {
                self.took_beside(cx, handle, links, done);
                self.try_settle(cx, handle);
            }
            (FilePending::TouchFile(handle), ReceiverAnswer::Done(done)) => {
                self.touched(cx, handle, done);
            }
            (pending, answer) => self.answer_transfer(cx, pending, answer),
        }
        Ok(())
    }

    /// Takes the answer to work of a transfer, unless the transfer has ended.
    fn answer_transfer(&mut self, cx: &mut Context, pending: FilePending, answer: ReceiverAnswer) {
        let Some(handle) = pending.handle() else { return };
        let Some((file, incoming)) = self.under_way.of_mut(handle) else { return };
        let outcome = if let Some((transfer, mut fx)) = incoming.running(cx, file) {
            transfer.answer(&mut fx, pending, answer);
            fx.take_outcome()
        } else if let Some((expected, mut fx)) = incoming.expected(cx, file)
            && let (
                FilePending::Index(_, part),
                ReceiverAnswer::Old(OldVersionAnswer::Indexed(run)),
            ) = (pending, answer)
        {
            expected.indexed(&mut fx, part, run);
            fx.take_outcome()
        } else {
            None
        };
        self.apply_outcome(cx, handle, outcome);
    }

    /// Returns the transfer of an offered file, unless the transfer was used or dropped.
    fn offer_of(&mut self, file: FileNo) -> Option<&mut IncomingTransfer> {
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
        ) => summed.as_ref().map_or(true, |summed| step.fits(summed)),
        (FilePending::Chart, ReceiverAnswer::Lookup(LookupAnswer::Charted(_)))
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
