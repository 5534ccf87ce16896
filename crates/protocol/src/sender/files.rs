//! Attempts under way: one transfer for each wanted file.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use deltic_core::Digest;
use deltic_core::chunk::SegmentChunks;
use deltic_core::recipe::Chunk;
use deltic_core::strategy::Conversation;

use crate::cutting::CutPart;
use crate::error::PeerError;
use crate::limits::{
    Limits, MAX_ACTIVE_FILES, MAX_ACTIVE_LARGE, MAX_ATTEMPTS, MAX_GAPS_OUT, MAX_SUMS,
};
use crate::message::{Done, Extent, FileNo, GapLine, SumLine, ToReceiver, TransferKind};
use crate::options::{Append, Options};
use crate::report::Trouble;
use crate::sums::StrategySums;
use crate::work::Handle;

use super::ask::{Deltas, Opened, SenderWork};
use super::context::Context;
use super::listed_file::{DigestInquiry, ListedFile};
use super::offering::OfferState;
use super::pending::SenderPending;
use super::transfer::{AttemptStart, OutgoingTransfer, SendAttempt, other_chunks_trouble};

/// Most sums held for all files in transfer: the sums of the large files, and room for all small files together. A
/// repeated sum takes one byte on the wire, and many times that in memory.
const MAX_SUMS_HELD: usize = (MAX_ACTIVE_LARGE + 1) * MAX_SUMS;

/// Transfers by file, in the order of the list; files are scanned in this order.
#[derive(Debug, Default)]
pub(super) struct FileTransfers {
    transfers: BTreeMap<FileNo, OutgoingTransfer>,
    /// Files with more to scan or send.
    scanners: VecDeque<FileNo>,
    /// Files by the handles of attempts under way, to route answers.
    handles: HashMap<Handle, FileNo>,
    next_handle: u64,
    /// Bases that the receiver named for files that it will request next.
    bases: HashMap<FileNo, Digest>,
    pub(super) offer: OfferState,
}

impl FileTransfers {
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// True if the chunks of a file in transfer fit frames with these limits.
    pub(super) fn fits_frames(&self, file: FileNo, limits: &Limits) -> bool {
        self.transfers.get(&file).is_none_or(|transfer| transfer.is_within(limits))
    }

    /// Returns the number of the attempt if the file's frames may be sent in any order, else `None`.
    pub(super) fn unordered_attempt(&self, cx: &Context, file: FileNo) -> Option<u32> {
        self.transfers.get(&file).filter(|transfer| transfer.has_unordered_frames())?;
        Some(cx.entries.get(&file)?.attempts)
    }

    /// Takes the base that the receiver holds of the file that it requests next.
    pub(super) fn take_base(
        &mut self,
        cx: &Context,
        file: FileNo,
        base: Digest,
    ) -> Result<(), PeerError> {
        let is_listed = cx.entries.contains_key(&file);
        if !is_listed || cx.strategy.conversation != Conversation::Recipe {
            return Err(PeerError::Unexpected(
                "a base for a file that is not listed, or for this strategy",
            ));
        }
        if self.bases.len() >= MAX_ACTIVE_FILES {
            return Err(PeerError::Limit("bases of files"));
        }
        self.bases.insert(file, base);
        Ok(())
    }

    /// Begins a new attempt at a file.
    pub(super) fn begin_attempt(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        how: TransferKind,
        begins: AttemptStart,
    ) -> Result<(), PeerError> {
        let listed = cx.entries.get_mut(&file);
        let listed = listed.ok_or(PeerError::Unexpected("a file that was not listed"))?;
        if !may_go(&cx.options, how) {
            return Err(PeerError::Unexpected("a kind of transfer that the strategy does not use"));
        }
        listed.attempts += 1;
        let (path, attempt, len) = (listed.path.clone(), listed.attempts, listed.len);
        let base = self.bases.remove(&file);
        let is_anew = matches!(begins, AttemptStart::Anew) && base.is_none();
        if self.take_offer(cx, file, how == TransferKind::Recipe && is_anew) {
            return Ok(());
        }
        if attempt > MAX_ATTEMPTS {
            return Err(PeerError::Limit("attempts to send a file"));
        }
        if attempt > 1 {
            // Waiting frames of the last attempt would be taken for frames of this attempt.
            cx.frames.retain(|frame| frame.unordered_file() != Some(file));
        }
        self.drop_attempt(cx, file);
        let resumed = begins.resumed();
        if !resumed.is_none_or(|resumed| resumed.may_have_cut(cx, len)) {
            let trouble = other_chunks_trouble(&path);
            cx.send(ToReceiver::Failed { file, attempt, trouble });
            return Ok(());
        }
        self.check_active(cx, file)?;
        let key = resumed.map(|resumed| resumed.key);
        let handle = self.register_attempt(cx, file, how, begins);
        let bears = self.transfers[&file].attempt.bears;
        let base = base.filter(|_| how != TransferKind::Tail);
        self.transfers.get_mut(&file).expect("it was started").base = base;
        let work = SenderWork::Open { handle, path, how, key, bears, base };
        cx.jobs.request(work, SenderPending::Open(handle));
        Ok(())
    }

    /// Registers an attempt at a listed file, and gives it a handle.
    pub(super) fn register_attempt(
        &mut self,
        cx: &Context,
        file: FileNo,
        how: TransferKind,
        begins: AttemptStart,
    ) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(handle, file);
        let ListedFile { path, attempts, .. } = &cx.entries[&file];
        let attempt = SendAttempt::new(file, path.clone(), handle, how, *attempts);
        let attempt = attempt.tolerating_writers(cx.abilities.bears_writers);
        self.transfers.insert(file, OutgoingTransfer::new(attempt, begins, cx));
        handle
    }

    /// Refuses more files than may be in transfer at once: each transfer holds an open file and a recipe in memory.
    fn check_active(&self, cx: &Context, file: FileNo) -> Result<(), PeerError> {
        let is_large = |file: &FileNo| cx.entries.get(file).is_some_and(ListedFile::is_large);
        if self.transfers.len() >= MAX_ACTIVE_FILES + MAX_ACTIVE_LARGE {
            return Err(PeerError::Limit("files under way"));
        }
        let large = || self.transfers.keys().filter(|file| is_large(file)).count();
        if is_large(&file) && large() >= MAX_ACTIVE_LARGE {
            return Err(PeerError::Limit("large files under way"));
        }
        Ok(())
    }

    /// Turns an offer into the first attempt at its file.
    pub(super) fn accept_offer(&mut self, cx: &mut Context, file: FileNo) {
        if let Some(transfer) = self.transfers.get_mut(&file) {
            transfer.attempt.is_offer = false;
            transfer.attempt.report_held_reason(cx);
        }
    }

    /// Drops the attempt under way, if there is one.
    pub(super) fn drop_attempt(&mut self, cx: &mut Context, file: FileNo) {
        let Some(old) = self.transfers.remove(&file) else { return };
        let handle = old.attempt.handle;
        self.handles.remove(&handle);
        cx.groups_out -= old.unanswered_groups();
        if old.has_no_open_file() {
            return;
        }
        let forgotten =
            cx.jobs.request_last(handle, SenderWork::Close { handle }, SenderPending::Close);
        for pending in forgotten {
            if let SenderPending::Mend { gaps, .. } = pending {
                cx.gaps_out -= gaps.len() as u64;
            }
        }
    }

    /// Returns the transfer that a frame concerns. Returns `None` if the transfer failed here and the receiver cannot
    /// know yet.
    fn requested_transfer(
        &mut self,
        cx: &Context,
        file: FileNo,
    ) -> Result<Option<&mut OutgoingTransfer>, PeerError> {
        let is_known = cx.entries.get(&file).is_some_and(|listed| listed.attempts > 0);
        match self.transfers.get_mut(&file) {
            Some(transfer) if !transfer.attempt.is_offer => Ok(Some(transfer)),
            None if is_known => Ok(None),
            _ => Err(PeerError::Unexpected("an answer about a file that is not under way")),
        }
    }

    /// Passes a frame to the transfer of its file.
    pub(super) fn pass_frame(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        take: impl FnOnce(&mut OutgoingTransfer, &mut Context) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        self.requested_transfer(cx, file)?.map_or(Ok(()), |transfer| take(transfer, cx))
    }

    pub(super) fn receive_gap_requests(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: Vec<GapLine>,
    ) -> Result<(), PeerError> {
        let Some(transfer) = self.requested_transfer(cx, file)? else { return Ok(()) };
        cx.gaps_out += lines.len() as u64;
        if lines.is_empty() || cx.gaps_out > MAX_GAPS_OUT {
            return Err(PeerError::Limit("gaps to be filled by block sums"));
        }
        transfer.receive_gap_requests(cx, lines)
    }

    pub(super) fn receive_old_sums(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        let Some(transfer) = self.requested_transfer(cx, file)? else { return Ok(()) };
        transfer.take_old_sums(cx, lines, extent)?;
        if self.transfers.values().map(OutgoingTransfer::old_sum_count).sum::<usize>()
            > MAX_SUMS_HELD
        {
            return Err(PeerError::Limit("sums of all files"));
        }
        Ok(())
    }

    /// Continues sending and scanning wherever the window of unanswered groups allows.
    pub(super) fn continue_transfers(&mut self, cx: &mut Context) {
        for _ in 0..self.scanners.len() {
            let Some(file) = self.scanners.pop_front() else { return };
            let Some(transfer) = self.transfers.get_mut(&file) else { continue };
            if transfer.continue_sending(cx) {
                self.scanners.push_back(file);
            }
        }
    }

    /// Passes the result of work to the transfer of a handle, unless the transfer has ended.
    pub(super) fn pass_result<T>(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        result: Result<T, Trouble>,
        take: impl FnOnce(&mut OutgoingTransfer, &mut Context, T) -> Result<(), Trouble>,
    ) {
        let Some(file) = self.handles.get(&handle).copied() else { return };
        let transfer = self.transfers.get_mut(&file).expect("handles name attempts");
        if let Err(trouble) = result.and_then(|taken| take(transfer, cx, taken)) {
            self.fail(cx, file, trouble);
        }
    }

    pub(super) fn take_opened(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        opened: Result<Opened, Trouble>,
    ) {
        self.pass_result(cx, handle, opened, OutgoingTransfer::take_opened);
        self.scanners.extend(self.handles.get(&handle));
    }

    pub(super) fn take_scanned(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        part: CutPart,
        run: Result<SegmentChunks<Chunk>, Trouble>,
    ) {
        self.pass_result(cx, handle, run, |transfer, cx, run| transfer.take_scanned(cx, part, run));
        self.scanners.extend(self.handles.get(&handle));
    }

    pub(super) fn take_gap_deltas(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        gaps: Vec<Range<u32>>,
        mended: Result<Deltas, Trouble>,
    ) {
        cx.gaps_out -= gaps.len() as u64;
        cx.counts.add(mended.as_ref().map_or(0, |deltas| deltas.compared), 0);
        self.pass_result(cx, handle, mended, |transfer, cx, deltas| {
            transfer.send_gap_deltas(cx, gaps, deltas);
            Ok(())
        });
    }

    /// Ends an attempt that failed at this end; the receiver decides whether to retry.
    fn fail(&mut self, cx: &mut Context, file: FileNo, trouble: Trouble) {
        self.drop_attempt(cx, file);
        let Some(trouble) = self.cancel_offer(file, trouble) else { return };
        let attempt = cx.entries.get(&file).map_or(0, |listed| listed.attempts);
        cx.send(ToReceiver::Failed { file, attempt, trouble });
    }
}

/// True if the options allow transfers of kind `how`.
fn may_go(options: &Options, how: TransferKind) -> bool {
    let strategy = options.effective_strategy();
    match how {
        TransferKind::Whole => true,
        TransferKind::Tail => options.writing.append == Append::Blindly,
        TransferKind::Recipe => strategy.conversation == Conversation::Recipe,
        TransferKind::Changes => false,
        TransferKind::Strategy | TransferKind::Stronger => {
            StrategySums::of(strategy, how).is_some()
        }
    }
}

/// Error: the receiver settled a file before the requested digest of the file arrived. This check bounds the number
/// of requests without an answer.
const EARLY: PeerError = PeerError::Unexpected("the end of a file before its requested digest");

impl FileTransfers {
    /// Settles the files in `numbers` that the receiver never requested.
    pub(super) fn settle_unrequested(
        &mut self,
        cx: &mut Context,
        numbers: Range<FileNo>,
    ) -> Result<(), PeerError> {
        self.bases.retain(|file, _| !numbers.contains(file));
        // A file wanted earlier stays until it is done.
        let settled = cx.entries.range(numbers);
        if settled.clone().any(|(_, listed)| listed.inquiry == DigestInquiry::Open) {
            return Err(EARLY);
        }
        let unwanted = settled.filter(|(_, listed)| listed.attempts == 0);
        for file in unwanted.map(|(file, _)| *file).collect::<Vec<_>>() {
            let listed = cx.entries.remove(&file);
            self.withdraw(cx, file);
            cx.report_settled(listed.map_or(0, |listed| listed.len));
        }
        Ok(())
    }

    /// Settles a new file of which all listed bytes were sent as literals.
    pub(super) fn take_created(&mut self, cx: &mut Context, file: FileNo) -> Result<(), PeerError> {
        let len = cx.entries.get(&file).map_or(0, |listed| listed.len);
        self.settled_notice(cx, file, Done::created(len))
    }

    /// Settles a file that the receiver requested.
    pub(super) fn settled_notice(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        done: Done,
    ) -> Result<(), PeerError> {
        let unknown = PeerError::Unexpected("the end of a file that is not under way");
        let listed = cx.entries.remove(&file).ok_or(unknown)?;
        if listed.inquiry == DigestInquiry::Open {
            return Err(EARLY);
        }
        if !done.is_possible_after(listed.attempts) {
            return Err(PeerError::Unexpected("the end of a file without a matching attempt"));
        }
        self.bases.remove(&file);
        self.withdraw(cx, file);
        self.drop_attempt(cx, file);
        cx.report_settled(listed.len.saturating_sub(listed.reported));
        let notice = listed.done(done, cx.options.tells_unchanged);
        cx.notices.extend(notice);
        Ok(())
    }
}
