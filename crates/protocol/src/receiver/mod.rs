//! The receiver: rebuilds new versions of files from old versions and from the content that it asks the sender for.
//!
//! ```text
//! Listing ──► look at the destination ──► make directories and links at once, queue files
//! Tally   ──► list the own directory, compare: Tallied
//! a queued file ──► open its old version, Want ──► Start ──► index old
//!     Groups ──► Lack     Chunks, Recipe ──► Need, Mend     Fill, Mended ──► write       matched ──► copy
//!     all covered and End ──► commit, Done
//! the list is complete, every file done ──► (land delayed commits,) delete, set directories, flush, Finished
//! ```
//!
//! [`Receiver`] only routes. The `tree` knows names, metadata and deletion; `files` decides which files are
//! transferred, when, and how often each is tried; a `transfer` handles the content of one file. Each part owns its
//! state and takes the `Context`, which queues frames, work and reports. The tree names wanted files; `files` hands
//! settled files back.

mod answers;
mod ask;
mod context;
mod credit;
mod files;
mod guesses;
mod load;
mod pending;
mod recent;
mod setting;
mod sources;
mod transfer;
mod tree;

use crate::Purpose;
use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::{FileNo, ToReceiver, ToSender, TransferKind};
use crate::report::{Counts, Notice, Trouble};
use crate::streams::Aside;
use crate::work::{UnknownAnswer, WorkId};

use context::Context;
use files::WantedFiles;
use files::start::FileStart;
use pending::ReceiverPending;
use tree::ReceiverTree;

pub use ask::{
    AlikeNames, AlikePaths, CarriedMeta, CopyRun, EntryWork, EqualDir, Extra, FileRelation,
    FileStamp, GapPatch, GapSurvey, KeptChunk, KnownChunks, LocalOwner, LookupAnswer, LookupWork,
    MappedOwners, Mended, MoveIndexExtent, NewVersion, NewVersionAnswer, NewVersionWork, NotListed,
    OldGap, OldLens, OldMatches, OldVersionAnswer, OldVersionWork, OtherPaths, PayloadChunk,
    ReceiverAnswer, ReceiverWork, RemovedNames, SettleWork, SimilarFile, SmallFile, UnlistedNames,
};
pub use context::FrameCompression;
pub use setting::{Expect, Setting};
pub use sources::MAX_BORROWED;
pub use transfer::proof::Proof;
pub use tree::compare::agrees_with;
pub use tree::new_files::NewFiles;

/// The receiver's state machine. Feed it frames and answers; poll frames, work and notices until none is left.
#[derive(Debug)]
pub struct Receiver {
    cx: Context,
    tree: ReceiverTree,
    files: WantedFiles,
    /// The last wanted file of the last `Answers` that had one.
    last_wanted: Option<FileNo>,
    /// True once the connection is lost.
    is_lost: bool,
}

impl Receiver {
    /// Creates a receiver at the start of its session.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self {
            tree: ReceiverTree::new(&setting),
            files: WantedFiles::new(setting.most_files),
            cx: Context::new(setting),
            last_wanted: None,
            is_lost: false,
        }
    }

    /// Returns the next frame to send, if any.
    pub fn poll_frame(&mut self) -> Option<ToSender> {
        let is_over = self.is_finished();
        let frame = self.next_frame().or_else(|| self.tree.poll_verdicts());
        frame.or_else(|| self.cx.poll_credit().filter(|_| !is_over))
    }

    /// Returns the next notice, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.cx.notices.pop_front()
    }

    /// Returns the next piece of work, if any.
    pub fn poll_work(&mut self) -> Option<(WorkId, ReceiverWork)> {
        self.cx.jobs.poll()
    }

    /// True once everything is in place and [`ToSender::Finished`] was sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.tree.is_finished()
    }

    /// Bytes of literals and of directory attributes that are received and not yet written. A driver stops reading
    /// frames while there are many.
    #[must_use]
    pub const fn backlog_bytes(&self) -> usize {
        self.cx.load.backlog_bytes()
    }

    /// Copies found and not yet made, plus the chunks that the copies bring. A driver stops reading frames while
    /// there are many: a few bytes can ask for a copy that keeps the disk busy for longer.
    #[must_use]
    pub const fn copies_waiting(&self) -> usize {
        self.cx.load.copies_waiting()
    }

    /// Number of frames that wait to be polled. A driver stops reading while many frames wait. The sender always
    /// reads, so the waiting frames can be sent.
    #[must_use]
    pub fn frames_waiting(&self) -> usize {
        self.cx.frames.len()
    }

    /// The limits that the two ends agreed on.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.cx.setting.limits
    }

    /// Numbers of sums compared so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.cx.counts
    }

    /// Reports a trouble that the driver found to the users of both ends. Harmless troubles do not count as failures.
    pub fn report_trouble(&mut self, trouble: Trouble) {
        self.cx.report_trouble(trouble);
    }

    /// Takes a frame from the sender.
    ///
    /// # Errors
    /// [`PeerError`] if the frame is not allowed now. The session is then over.
    pub fn handle(&mut self, frame: ToReceiver) -> Result<(), PeerError> {
        self.cx.credit.spend(frame.literal_bytes())?;
        match frame {
            ToReceiver::Offer { file, meta, spec } => {
                let listed = self.tree.unsettled_entries();
                let offer = FileStart { meta, how: TransferKind::Recipe, spec };
                self.files.receive_offer(&mut self.cx, file, offer, listed)?;
            }
            frame @ (ToReceiver::ReadReason { .. }
            | ToReceiver::Holes { .. }
            | ToReceiver::Start { .. }
            | ToReceiver::Groups { .. }
            | ToReceiver::Chunks { .. }
            | ToReceiver::Recipe { .. }
            | ToReceiver::Moved { .. }
            | ToReceiver::Fill { .. }
            | ToReceiver::Single { .. }
            | ToReceiver::ShortSingle { .. }
            | ToReceiver::Mended { .. }
            | ToReceiver::Keeps { .. }
            | ToReceiver::Sums { .. }
            | ToReceiver::Deny { .. }
            | ToReceiver::Patch { .. }
            | ToReceiver::Restless { .. }
            | ToReceiver::End { .. }
            | ToReceiver::Failed { .. }) => self.files.handle(&mut self.cx, frame)?,
            frame => self.tree.handle(&mut self.cx, frame)?,
        }
        self.take_possible_steps();
        Ok(())
    }

    /// Takes a frame that travelled as a part of a zstd stream.
    ///
    /// # Errors
    /// [`PeerError`] if the frame is not allowed now, or has no literals. The session is then over.
    pub fn handle_compressed(
        &mut self,
        frame: ToReceiver,
        compression: FrameCompression,
    ) -> Result<(), PeerError> {
        if frame.purpose() != Purpose::Literal {
            return Err(PeerError::Unexpected("a compressed frame without literals"));
        }
        self.cx.compression = compression;
        let handled = self.handle(frame);
        self.cx.compression = FrameCompression::default();
        handled
    }

    /// Takes a frame that may have overtaken others. The frame is dropped if the attempt that it belongs to is over.
    ///
    /// # Errors
    /// [`PeerError`] if the frame is not allowed now. The session is then over.
    pub fn handle_aside(&mut self, aside: Aside) -> Result<(), PeerError> {
        match self.files.accepts_out_of_order(&aside)? {
            true => self.handle(aside.frame),
            false => self.cx.credit.spend(aside.frame.literal_bytes()),
        }
    }

    /// Takes the answer to a piece of work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] if no work of this id is under way.
    pub fn answer(&mut self, id: WorkId, answer: ReceiverAnswer) -> Result<(), UnknownAnswer> {
        let pending = self.cx.jobs.take_answer(id)?;
        self.cx.load.uncount_pending(&pending);
        let answer = self.cx.report_partial_meta(answer);
        match pending {
            ReceiverPending::Tree(pending) => self.tree.answer(&mut self.cx, pending, answer)?,
            ReceiverPending::File(pending) => self.files.answer(&mut self.cx, pending, answer)?,
        }
        self.pass_settled();
        self.cx.partial_meta.is_last = false;
        self.take_possible_steps();
        Ok(())
    }

    /// Passes settled files on to the tree.
    fn pass_settled(&mut self) {
        for settled in self.files.take_settled() {
            self.tree.take_settled_file(&mut self.cx, settled);
        }
    }

    /// Starts all steps that have become possible.
    fn take_possible_steps(&mut self) {
        self.pass_settled();
        let Self { cx, tree, files, .. } = self;
        tree.take_possible_steps(cx);
        for candidate in tree.take_wanted() {
            files.add_wanted(&cx.setting.options, candidate);
        }
        files.request_gap_sums(cx);
        files.open_sources(cx);
        files.extend_move_index(cx, |cx| tree.topmost_dirs(cx), tree.listed_and_equal_count());
        files.start_waiting_files(cx);
        tree.report_settled_number(cx, files.first_unrequested());
        self.take_closing_steps();
    }

    /// Tells the receiver that the connection is lost: no closing step begins from now on, so nothing is deleted and no
    /// delayed update is put in place. Returns false if closing steps have begun before.
    pub const fn lose_connection(&mut self) -> bool {
        self.is_lost = true;
        !self.tree.is_closing()
    }

    /// Takes the closing steps, each once the step before is done.
    fn take_closing_steps(&mut self) {
        while !self.is_lost && self.files.is_idle() && self.tree.may_close(&self.cx) {
            let may_try = self.tree.is_deleting();
            if may_try && self.files.retry_parked(&mut self.cx) {
                self.pass_settled();
            } else {
                self.tree.take_next_step(&mut self.cx);
            }
        }
    }
}
