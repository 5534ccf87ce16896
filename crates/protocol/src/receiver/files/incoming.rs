//! A file under way: the attempts, and the stage of the current attempt.

use deltic_core::strategy::Conversation;
use deltic_core::{ChunkerSpec, Strategy};
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::{LARGE_FILE_BYTES, MAX_SUMS};
use crate::message::{FileNo, TransferKind};
use crate::options::Fuzzy;
use crate::receiver::ask::{FileRelation, FileStamp, OtherPaths, SimilarFile};
use crate::receiver::context::Context;
use crate::receiver::transfer::IncomingTransfer;
use crate::receiver::transfer::file_context::{FileContext, FilePlace, ReportedBytes};
use crate::receiver::transfer::indexing::ExpectedTransfer;
use crate::receiver::transfer::old::OldVersions;
use crate::report::Differs;
use crate::work::{Handle, WorkError};

use super::candidate::FileCandidate;

/// A file under way.
#[derive(Debug)]
pub(super) struct IncomingFile {
    pub(super) candidate: FileCandidate,
    pub(super) handle: Handle,
    pub(super) how: TransferKind,
    pub(super) tries: AttemptCounts,
    /// The open old versions.
    pub(super) old: OldVersions,
    /// The file of another name that this file is matched against.
    pub(super) similar: Option<SimilarFile>,
    pub(super) stage: AttemptStage,
    /// Bytes reported as settled, over all attempts.
    reported: u64,
}

/// The attempts at a file so far.
#[derive(Debug, Default)]
pub(super) struct AttemptCounts {
    pub(super) count: u32,
    /// True once the file was postponed because the disk was full, which happens at most once.
    pub(super) found_no_room: bool,
    /// True once old versions were searched for an interrupted transfer. A failed transfer is not resumed.
    pub(super) sought: bool,
    /// Number of requests for the file to the sender.
    pub(super) wants: u32,
    /// Number of reasons that the sender gave for reading the file whole or in part.
    pub(super) reasons: u32,
    /// True if the current attempt names blocks by the sums that storage keeps. The next attempt cuts by content.
    pub(super) uses_stored_sums: bool,
}

/// The stage of an attempt.
#[derive(Debug)]
pub(super) enum AttemptStage {
    /// The old versions are being opened.
    Opening,
    /// The sender was asked for the file.
    Asked(ExpectedTransfer),
    /// The content is arriving.
    Running(Box<IncomingTransfer>),
    /// The attempt is over, and the driver undoes its work.
    Over {
        /// True if the sender was asked for the file.
        was_asked: bool,
        why: Option<WorkError>,
    },
}

/// The error for data runs that the file cannot have.
pub(super) const UNFIT: PeerError =
    PeerError::Unexpected("data runs that do not fit the length of the file");

/// Returns the length in bytes up to which a leftover of a killed run may be of use. A longer leftover is from
/// another file or is a hostile sender's empty claim, and would take long to read.
pub(super) fn max_leftover_bytes(candidate: &FileCandidate) -> u64 {
    candidate.longer_len().saturating_mul(2).saturating_add(LARGE_FILE_BYTES)
}

/// True if the strategy can send sums of this many bytes of the old versions. Only signatures have a limit.
pub(super) fn can_send_sums(strategy: &Strategy, bytes: u64) -> bool {
    let block = u64::from(strategy.chunker(bytes, None).min_len());
    strategy.conversation != Conversation::Signature || bytes.div_ceil(block) <= MAX_SUMS as u64
}

impl IncomingFile {
    /// Creates the state of a file before its first attempt.
    pub(super) fn new(candidate: FileCandidate, handle: Handle, how: TransferKind) -> Self {
        let tries = AttemptCounts { count: 1, ..AttemptCounts::default() };
        let (old, stage) = (OldVersions::default(), AttemptStage::Opening);
        Self { candidate, handle, how, tries, old, similar: None, stage, reported: 0 }
    }

    /// Returns the bytes reported as settled, over all attempts.
    pub(super) const fn reported_bytes(&self) -> u64 {
        self.reported
    }

    /// Counts a new attempt, which has no old version yet.
    pub(super) fn count_attempt(&mut self) {
        self.old.lens.clear();
        self.tries.count += 1;
    }

    /// True if the sender was asked for the file in the current attempt.
    pub(super) const fn is_requested(&self) -> bool {
        match self.stage {
            AttemptStage::Opening => false,
            AttemptStage::Asked(_) | AttemptStage::Running(_) => true,
            AttemptStage::Over { was_asked, .. } => was_asked,
        }
    }

    /// Returns the transfer, if content is arriving.
    pub(super) const fn running_transfer(&self) -> Option<&IncomingTransfer> {
        match &self.stage {
            AttemptStage::Running(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// Returns the running transfer, and the context for its steps.
    pub(super) fn transfer_and_context<'a>(
        &'a mut self,
        cx: &'a mut Context,
        file: FileNo,
    ) -> Option<(&'a mut IncomingTransfer, FileContext<'a>)> {
        let AttemptStage::Running(transfer) = &mut self.stage else { return None };
        let FileCandidate { path, seen, meta, .. } = &self.candidate;
        let place = FilePlace { file, handle: self.handle, path, seen: seen.as_ref() };
        let reported = ReportedBytes { reported: &mut self.reported, most: meta.len };
        let fx = FileContext::new(cx, place, &self.old, reported);
        Some((transfer, fx))
    }

    /// Returns the state before `Start`, and the context for its steps.
    pub(super) fn expected_and_context<'a>(
        &'a mut self,
        cx: &'a mut Context,
        file: FileNo,
    ) -> Option<(&'a mut ExpectedTransfer, FileContext<'a>)> {
        let AttemptStage::Asked(expected) = &mut self.stage else { return None };
        let FileCandidate { path, seen, meta, .. } = &self.candidate;
        let place = FilePlace { file, handle: self.handle, path, seen: seen.as_ref() };
        let reported = ReportedBytes { reported: &mut self.reported, most: meta.len };
        let fx = FileContext::new(cx, place, &self.old, reported);
        Some((expected, fx))
    }

    /// Compares the number of an attempt with the current attempt: `Less` for earlier attempts, `Greater` for later
    /// attempts.
    pub(super) fn compare_attempt(&self, attempt: u32) -> std::cmp::Ordering {
        attempt.cmp(&self.tries.wants)
    }

    /// True if the file was requested a single time, by recipe from the first byte, and has not started yet.
    pub(super) fn waits_for_first_start(&self) -> bool {
        let is_special =
            |expected: &ExpectedTransfer| expected.spec.is_some() || expected.base.is_some();
        let is_special =
            matches!(&self.stage, AttemptStage::Asked(expected) if is_special(expected));
        let has_begun = matches!(self.stage, AttemptStage::Running(_));
        let is_first = self.tries.wants == 1 && self.is_requested() && !has_begun;
        is_first && self.how == TransferKind::Recipe && !is_special
    }

    /// True if the content arrives in order.
    pub(super) fn comes_in_order(&self) -> bool {
        self.running_transfer().is_some_and(IncomingTransfer::comes_in_order)
    }

    /// True if the file is matched against a file at another path. Then the file never waits for its own path, as two
    /// files could wait for each other.
    pub(super) fn matches_other_path(&self) -> bool {
        self.similar.as_ref().is_some_and(|similar| similar.relation.is_some())
    }

    /// Returns the metadata of the version if an interrupted transfer of it may be resumed. A file that is sent whole
    /// anyway resumes only if it is large. A file that may differ in content only is compared instead.
    pub(super) fn resumable_meta(&self) -> Option<Meta> {
        let FileCandidate { meta, old, differs, compared, beside, .. } = &self.candidate;
        let may_be_same = (old.is_some() || beside.is_some()) && *differs == Differs::default();
        let is_comparison = may_be_same && !compared;
        let worthwhile = self.how == TransferKind::Recipe || meta.len > LARGE_FILE_BYTES;
        (!self.tries.sought && worthwhile && !is_comparison).then(|| meta.clone())
    }

    /// True if the driver should look up the base of the old version: for a file sent whole, only above `least`
    /// bytes. False for a file that is only compared and may prove unchanged.
    pub(super) fn may_hold_base(&self, least: u64) -> bool {
        let FileCandidate { meta, old, differs, compared, .. } = &self.candidate;
        let is_comparison = *differs == Differs::default() && !compared;
        let worthwhile = match self.how {
            TransferKind::Recipe => true,
            // Only the base needs the old version.
            TransferKind::Whole => meta.len > least && !self.tries.sought,
            TransferKind::Strategy
            | TransferKind::Stronger
            | TransferKind::Tail
            | TransferKind::Changes => false,
        };
        old.is_some() && worthwhile && !is_comparison
    }

    /// Returns the chunker that the sender will most likely use.
    pub(super) fn expected_chunker(&self, strategy: &Strategy) -> ChunkerSpec {
        strategy.chunker(self.candidate.meta.len, None)
    }

    /// Returns other places of old versions: no places if a version is in place, or if no old version is to be
    /// matched.
    pub(super) fn other_old_places(&self, fuzzy: Fuzzy, most: Option<FileRelation>) -> OtherPaths {
        let FileCandidate { meta, old, beside, may_have_moved, repeats, .. } = &self.candidate;
        if old.is_some() || self.how == TransferKind::Whole {
            return OtherPaths::default();
        }
        let alternate = beside.as_ref().map(|beside| beside.alternate);
        let moved = most.filter(|_| *may_have_moved);
        let (repeated, new) = (repeats.clone(), FileStamp::of(meta));
        OtherPaths { repeated, alternate, fuzzy, moved, new }
    }
}
