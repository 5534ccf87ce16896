//! The sender: holds the new version, lists it, and answers the receiver's requests.
//!
//! ```text
//! list directories ──► Listing … Listed          (within ENTRY_WINDOW of the entries that the receiver settled)
//!                 └──► Tally                     (within TALLY_WINDOW of the tallies that it answered)
//! Tallied(unlike)  ──► Listing
//! no answer yet    ──► Offer, and the frames after Start, of a single file  (within OFFERED_GROUPS)
//! Want(file)       ──► open, Start, scan, Groups …, End     (within GROUP_WINDOW; short files: Recipe)
//! Lack(groups)     ──► Chunks
//! Need(chunks)     ──► read, Fill
//! Mend(gaps)       ──► read, compare, Mended                (within GAP_WINDOW of the gaps answered)
//! ```
//!
//! [`Sender`] routes frames and answers to its parts. Each part owns its state and takes the `Context`. `list` walks
//! the tree and sends it. `files` holds a `transfer` for each wanted file. `presets` are the strategies of the
//! papers. `leaving` removes sources.

mod ask;
mod context;
mod credit;
mod digesting;
mod files;
mod leaving;
mod list;
mod listed_file;
mod offering;
mod pending;
mod presets;
mod transfer;

use deltic_core::strategy::LinkModel;

use crate::digests::DigestQueue;
use crate::error::PeerError;
use crate::hello::{ShortForms, Terms};
use crate::limits::Limits;
use crate::message::{Answers, FileNo, Outcome, ToReceiver, ToSender, TransferKind};
use crate::options::Options;
use crate::report::{Change, Counts, Notice, Question, Totals};
use crate::work::{UnknownAnswer, WorkId};

use context::Context;
use files::FileTransfers;
use leaving::{ArrivedFiles, SourceRemoval};
use list::Lister;
use offering::OfferState;
use pending::SenderPending;
use transfer::{AttemptStart, ReadChunks, ResumedTransfer};

pub use ask::{
    Body, Deltas, FileAnswer, FileSeal, FileWork, Gap, Listed, Opened, Sealing, Searched,
    SenderAnswer, SenderWork, Sums, ToleratedChanges,
};

/// The sender's state machine. Feed in frames and answers; poll frames, work and notices until none is left.
#[derive(Debug)]
pub struct Sender {
    cx: Context,
    list: Lister,
    files: FileTransfers,
    digesting: DigestQueue,
    leaving: SourceRemoval,
    /// True once the user was asked: one question is allowed.
    was_asked: bool,
    /// True once [`Notice::Closing`] was given.
    reported_closing: bool,
    finished: bool,
}

impl Sender {
    /// A sender at the start of its session. The sender lists before the terms of the session are agreed, and does
    /// not know them.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            list: Lister::new(&options),
            cx: Context::new(options),
            files: FileTransfers::default(),
            digesting: DigestQueue::default(),
            leaving: SourceRemoval::default(),
            was_asked: false,
            reported_closing: false,
            finished: false,
        }
    }

    /// Sets the current link to the receiver. Later choices use this link: some strategies choose the chunk length of
    /// each file by bandwidth. Until a link is set, these strategies assume a medium bandwidth
    /// ([`netsync_avg_bytes`](deltic_core::strategy::netsync_avg_bytes)).
    pub const fn set_link(&mut self, link: LinkModel) {
        self.cx.link = Some(link);
    }

    /// Offers no file longer than `most` bytes. Where a base is likely, a longer file would probably be sent as
    /// differences, without being read.
    #[must_use]
    pub fn with_max_offer_len(mut self, most: u64) -> Self {
        self.files.offer = OfferState::Possible { most };
        self
    }

    /// Sends every tally that the protocol allows, so that tests need no large tree.
    #[doc(hidden)]
    #[must_use]
    pub fn tally_all_dirs(mut self) -> Self {
        self.list.tally_all_dirs();
        self
    }

    /// Returns the next frame to send, if any.
    pub fn poll_frame(&mut self) -> Option<ToReceiver> {
        self.cx.next_frame()
    }

    /// Returns the next frame, and its attempt if the frame may overtake others in an
    /// [`Aside`](crate::streams::Aside). Frames of the papers' strategies, and blocks that were not requested, never
    /// overtake.
    pub fn poll_for_streams(&mut self) -> Option<(ToReceiver, Option<u32>)> {
        let frame = self.poll_frame()?;
        let file = frame.unordered_file();
        let attempt = file.and_then(|file| self.files.unordered_attempt(&self.cx, file));
        Some((frame, attempt))
    }

    /// Returns the next notice, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.cx.notices.pop_front().or_else(|| self.poll_closing_notice())
    }

    /// Returns [`Notice::Closing`] once, when every listed file is done.
    fn poll_closing_notice(&mut self) -> Option<Notice> {
        let is_closing = !self.finished && self.has_sent_all();
        (is_closing && !std::mem::replace(&mut self.reported_closing, true))
            .then_some(Notice::Closing)
    }

    /// True once the list is complete and the receiver wants no more files.
    fn has_sent_all(&self) -> bool {
        self.list.is_complete() && self.cx.entries.is_empty() && self.files.is_empty()
    }

    /// Returns the next piece of work, if any.
    pub fn poll_work(&mut self) -> Option<(WorkId, SenderWork)> {
        self.list.continue_listing(&mut self.cx, &mut self.leaving);
        self.files.continue_transfers(&mut self.cx);
        digesting::request_digests(&mut self.digesting, &mut self.cx);
        self.cx.next_work()
    }

    /// True while literals are ready and wait for credit from the receiver.
    #[must_use]
    pub fn lacks_credit(&self) -> bool {
        self.cx.lacks_credit()
    }

    /// True once the receiver has ended the session.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the number of sum comparisons so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.cx.counts
    }

    /// Returns the limits that the two ends agreed on; before the receiver's hello arrives, the narrowest limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.cx.limits
    }

    /// Offers the only listed file, if there is exactly one: call this when the receiver has not answered for some
    /// time.
    pub fn note_slow_answer(&mut self) {
        if self.list.is_complete() {
            self.files.offer(&mut self.cx);
        }
    }

    /// Takes the limits from the terms of the session; `offers` is true if an offer made before is valid.
    pub fn set_terms(&mut self, offers: bool, limits: Limits) {
        self.cx.set_limits(limits);
        self.files.check_offer(&mut self.cx, offers);
    }

    /// Tells the receiver which sums the storage keeps, where a strategy uses stored sums: the receiver supports
    /// this.
    pub const fn negotiate_stored_sums(&mut self) {
        self.cx.abilities.agrees_on_sums = true;
    }

    /// Sends files in the blocks that storage keeps sums of, where the receiver asks for such blocks.
    pub fn use_stored_sums(&mut self, terms: &Terms) {
        self.cx.abilities.summed_blocks = terms.summed_blocks(&self.cx.options);
    }

    /// Sends files that programs have open for writing: the receiver supports `Restless` for such files.
    pub const fn tolerate_writers(&mut self) {
        self.cx.abilities.bears_writers = true;
    }

    /// Tells the receiver why large files are read whole or in part: the receiver asked.
    pub const fn tell_reasons(&mut self) {
        self.cx.abilities.tells_reasons = true;
    }

    /// Uses these short forms of frames: the receiver understands them.
    pub const fn use_short_forms(&mut self, forms: ShortForms) {
        self.cx.abilities.short_forms = forms;
    }

    /// Reports each removed source to the receiver: the user is there, and the receiver supports the report.
    pub const fn report_removed_sources(&mut self) {
        self.leaving.reports = true;
    }

    /// Takes a frame from the receiver.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is not allowed now; then the session is over.
    pub fn handle(&mut self, frame: ToSender) -> Result<(), PeerError> {
        if self.finished {
            return Err(PeerError::Unexpected("a frame after the end"));
        }
        let Self { cx, list, files, digesting, leaving, .. } = self;
        match frame {
            ToSender::Want { how: TransferKind::Tail, .. } => {
                Err(PeerError::Unexpected("a request for a tail, without the kept part"))
            }
            ToSender::Want { how: TransferKind::Changes, .. } => {
                Err(PeerError::Unexpected("a request for changes, without a base"))
            }
            ToSender::Tallied { alike, unlike } => {
                list.receive_tally_answers(cx, leaving, alike, unlike)
            }
            ToSender::Digest(files) => digesting::receive_digest_request(digesting, cx, &files),
            ToSender::Want { file, how } => files.begin_attempt(cx, file, how, AttemptStart::Anew),
            ToSender::Base { file, base } => files.take_base(cx, file, base),
            ToSender::Resume { file, key, spec } => files.begin_attempt(
                cx,
                file,
                TransferKind::Recipe,
                AttemptStart::Resumed(ResumedTransfer { key, spec }),
            ),
            ToSender::Append { file, from } => {
                files.begin_attempt(cx, file, TransferKind::Tail, AttemptStart::Behind(from))
            }
            ToSender::Settled { upto } => self.receive_settled_number(upto),
            ToSender::Lack { file, groups } => {
                files.pass_frame(cx, file, |transfer, cx| transfer.receive_lack(cx, &groups))
            }
            ToSender::Need { file, chunks } => {
                files.pass_frame(cx, file, |transfer, cx| transfer.receive_need(cx, &chunks))
            }
            ToSender::Mend { file, gaps } => files.receive_gap_requests(cx, file, gaps),
            ToSender::Signs { file, by } => {
                files.pass_frame(cx, file, |transfer, cx| transfer.receive_signature_sums(cx, by))
            }
            ToSender::Sums { file, sums, extent } => files.receive_old_sums(cx, file, sums, extent),
            ToSender::Match { file, needs, tokens } => {
                files.pass_frame(cx, file, |transfer, cx| {
                    transfer.receive_matches(cx, &needs, tokens)
                })
            }
            ToSender::Credit { bytes, more, .. } => cx.credit.add_credit(bytes, more),
            ToSender::Done { file, done } => files.settled_notice(cx, file, done),
            ToSender::Answers(answers) => self.receive_answers(answers),
            ToSender::MadeRoot(made) => {
                list.note_new_root();
                cx.notify(Notice::MadeRoot(made))
            }
            ToSender::Changed(change) => self.receive_change(change),
            ToSender::Trouble(trouble) => cx.notify(Notice::Trouble(trouble)),
            ToSender::Arrived { files, upto, last } => {
                leaving.arrived(cx, ArrivedFiles { files, upto, last }, list.sent_count())
            }
            ToSender::Ask(question) => self.receive_question(question),
            ToSender::Finished(totals) => self.receive_totals(totals),
        }
    }

    /// Takes the answer to a piece of work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] where no such work is under way.
    pub fn answer(&mut self, id: WorkId, answer: SenderAnswer) -> Result<(), UnknownAnswer> {
        let Self { cx, list, files, digesting, leaving, .. } = self;
        match (cx.jobs.take_answer(id)?, answer) {
            (SenderPending::List(dir), SenderAnswer::Listed(listed)) => {
                list.take_listed(cx, leaving, dir, listed);
            }
            (SenderPending::ListOn, SenderAnswer::Listed(listed)) => {
                list.take_listed_part(cx, leaving, listed)
            }
            (SenderPending::Open(handle), SenderAnswer::Opened(opened)) => {
                files.take_opened(cx, handle, opened)
            }
            (SenderPending::Scan(handle, part), SenderAnswer::File(FileAnswer::Scanned(run))) => {
                files.take_scanned(cx, handle, part, run);
            }
            (SenderPending::Seal(handle), SenderAnswer::File(FileAnswer::Sealed(sealed))) => {
                files.pass_result(cx, handle, sealed, |transfer, cx, sealed| {
                    transfer.take_seal(cx, sealed)
                });
            }
            (SenderPending::Sum(handle, step), SenderAnswer::File(FileAnswer::Summed(summed)))
                if summed.as_ref().map_or(true, |(summed, _)| step.accepts_result(summed)) =>
            {
                files.pass_result(cx, handle, summed, |transfer, cx, (summed, digest)| {
                    transfer.take_sums(cx, step, summed, digest)
                });
            }
            (SenderPending::Hash(handle), SenderAnswer::File(FileAnswer::Hashed(sums))) => {
                files.pass_result(cx, handle, sums, |transfer, cx, sums| {
                    transfer.take_token_sums(cx, &sums)
                });
            }
            (SenderPending::Search(handle), SenderAnswer::File(FileAnswer::Searched(searched))) => {
                files.pass_result(cx, handle, searched, |transfer, cx, searched| {
                    transfer.take_search_result(cx, searched)
                });
            }
            (SenderPending::Find(handle, no), SenderAnswer::File(FileAnswer::Found(found))) => {
                files.pass_result(cx, handle, found, |transfer, cx, found| {
                    transfer.take_region_matches(cx, no, found)
                });
            }
            (
                SenderPending::Read { handle, chunks, bytes },
                SenderAnswer::File(FileAnswer::Read(read)),
            ) => {
                files.pass_result(cx, handle, read, |transfer, cx, (payload, sums)| {
                    transfer.send_literals(cx, ReadChunks { chunks, bytes, payload, sums })
                });
            }
            (
                SenderPending::Mend { handle, gaps },
                SenderAnswer::File(FileAnswer::Mended(mended)),
            ) => {
                files.take_gap_deltas(cx, handle, gaps, mended);
            }
            (SenderPending::Digest(files), SenderAnswer::Digested(digests))
                if digests.len() == files.len() =>
            {
                digesting::send_digests(digesting, cx, files, digests);
            }
            (SenderPending::RemoveSource(path), SenderAnswer::Removed(removed)) => {
                leaving.removed(cx, path, removed);
            }
            (SenderPending::Ask, SenderAnswer::Asked(allowed)) => {
                cx.send(ToReceiver::Allow(allowed))
            }
            (SenderPending::Close, SenderAnswer::Closed) => {}
            _ => return Err(UnknownAnswer),
        }
        Ok(())
    }

    fn receive_answers(&mut self, answers: Answers) -> Result<(), PeerError> {
        if !self.cx.abilities.short_forms.answers {
            return Err(PeerError::Unexpected("answers in one frame, which were not agreed on"));
        }
        let Answers { outcomes, wanted, upto } = answers;
        for outcome in outcomes {
            match outcome {
                Outcome::Created(file) => self.files.take_created(&mut self.cx, file)?,
                Outcome::Changed(change) => self.receive_change(change)?,
            }
        }
        let (how, begins) = (TransferKind::Whole, AttemptStart::Anew);
        for file in wanted {
            self.files.begin_attempt(&mut self.cx, file, how, begins)?;
        }
        upto.map_or(Ok(()), |upto| self.receive_settled_number(upto))
    }

    fn receive_settled_number(&mut self, upto: FileNo) -> Result<(), PeerError> {
        let settled = self.list.settle_below(upto)?;
        self.files.settle_unrequested(&mut self.cx, settled)
    }

    fn receive_change(&mut self, change: Change) -> Result<(), PeerError> {
        if change.action.is_none() && !self.cx.options.tells_unchanged {
            return Err(PeerError::Unexpected(
                "a report of an unchanged name, without the option for these reports",
            ));
        }
        self.cx.notify(Notice::Changed(change))
    }

    /// Asks the user whether many names may be deleted at the other end.
    fn receive_question(&mut self, question: Question) -> Result<(), PeerError> {
        if !self.cx.options.may_ask_before_deleting()
            || std::mem::replace(&mut self.was_asked, true)
        {
            return Err(PeerError::Unexpected("a question about deletions in this state"));
        }
        self.cx.jobs.request(SenderWork::Ask(question), SenderPending::Ask);
        Ok(())
    }

    fn receive_totals(&mut self, totals: Totals) -> Result<(), PeerError> {
        if !self.has_sent_all() {
            return Err(PeerError::Unexpected("the end of an unfinished session"));
        }
        self.finished = true;
        self.cx.notify(Notice::Finished(totals))
    }
}
