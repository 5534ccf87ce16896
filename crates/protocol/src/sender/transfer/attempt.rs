//! An attempt at a file: the state that all transfer methods share.

use deltic_core::BlockSumSpec;
use deltic_tree::RelPath;

use crate::limits::MAX_ATTEMPTS;
use crate::message::{FileNo, ToReceiver, TransferKind};
use crate::report::{AgreedSums, Notice, PeerSums, ReadReason, Trouble, TroubleKind};
use crate::work::Handle;

use super::super::ask::{FileSeal, FileWork, Sealing, SenderWork, ToleratedChanges};
use super::super::context::Context;
use super::super::pending::SenderPending;

pub(crate) const CHANGED: &str = "it changed while it was read";

/// An attempt at a file.
#[derive(Debug)]
pub(crate) struct SendAttempt {
    pub(crate) file: FileNo,
    pub(crate) handle: Handle,
    pub(crate) how: TransferKind,
    path: RelPath,
    /// Changes of the file that this attempt tolerates.
    pub(crate) bears: ToleratedChanges,
    /// True while the receiver has not asked for the file.
    pub(crate) is_offer: bool,
    /// The reason why an offered file is read whole or in part, until the receiver asks for the file.
    held_reason: Option<ReadReason>,
    /// Length in bytes of the transferred content, once the file is open: the whole file, or the packed data.
    pub(crate) len: u64,
    /// Bytes that the receiver has or that were sent.
    pub(crate) settled: u64,
}

impl SendAttempt {
    /// An attempt with number `attempts`, counted from 1; 0 for an offer.
    pub(crate) fn new(
        file: FileNo,
        path: RelPath,
        handle: Handle,
        how: TransferKind,
        attempts: u32,
    ) -> Self {
        let bears = ToleratedChanges { growth: attempts + 1 >= MAX_ATTEMPTS, writers: false };
        let is_offer = attempts == 0;
        Self { file, handle, how, path, bears, is_offer, held_reason: None, len: 0, settled: 0 }
    }

    /// Also tolerates programs that have the file open for writing, if the receiver `understands` that.
    pub(crate) fn tolerating_writers(mut self, understands: bool) -> Self {
        self.bears.writers = understands && !self.is_offer;
        self
    }

    /// Counts bytes as settled and reports them.
    pub(crate) fn count_settled(&mut self, cx: &mut Context, bytes: u64) {
        self.settled += bytes;
        cx.report_progress(self.file, self.settled);
    }

    /// Requests the proof of the bytes that were read.
    pub(crate) fn request_proof(&self, cx: &mut Context, proof: Sealing) {
        let Self { handle, bears, .. } = *self;
        cx.jobs.request(
            SenderWork::File(FileWork::Seal { handle, proof, bears }),
            SenderPending::Seal(handle),
        );
    }

    /// Sends the end of the file.
    pub(crate) fn send_end(&self, cx: &mut Context, sealed: FileSeal) {
        let (file, FileSeal { digest, restless }) = (self.file, sealed);
        if restless {
            cx.send(ToReceiver::Restless { file });
        }
        cx.send(ToReceiver::End { file, digest });
    }

    /// Reports why the file is read whole or in part: here, and to a receiver that asked. The reason of an offer waits
    /// until the receiver asks for the file.
    pub(crate) fn report_reason(&mut self, cx: &mut Context, reason: ReadReason) {
        self.held_reason = Some(reason);
        if !self.is_offer {
            self.report_held_reason(cx);
        }
    }

    /// Reports the reason that waited.
    pub(crate) fn report_held_reason(&mut self, cx: &mut Context) {
        let Some(reason) = self.held_reason.take() else { return };
        if cx.abilities.tells_reasons {
            cx.send(ToReceiver::ReadReason { file: self.file, reason: reason.clone() });
        }
        cx.notices.push_back(Notice::ReadReason { path: self.path.clone(), reason });
    }

    /// Returns the notice of the sums that both ends agreed on. Storage keeps `here` of this version.
    pub(crate) fn agreed_notice(
        &self,
        here: Option<BlockSumSpec>,
        agreed: Option<BlockSumSpec>,
    ) -> Notice {
        let (path, there) = (self.path.clone(), PeerSums::Untold);
        Notice::Agreed(AgreedSums { path, here, there, agreed })
    }

    /// Returns the trouble that ends this attempt; another attempt may succeed.
    pub(crate) fn retry_trouble(&self, why: &str) -> Trouble {
        unsent_trouble(&self.path, why)
    }
}

/// Returns the trouble for a transfer that cannot be resumed, because this program would cut the file differently.
pub(crate) fn other_chunks_trouble(path: &RelPath) -> Trouble {
    unsent_trouble(path, "the interrupted transfer used other chunks than this run")
}

fn unsent_trouble(path: &RelPath, why: &str) -> Trouble {
    Trouble::at(TroubleKind::Vanished, path, |path| format!("cannot send {path}: {why}"))
}
