//! The state that a step of a transfer may read and change.

use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::receiver::context::Context;
use crate::work::{Handle, WorkError};

use super::old::OldVersions;

/// The context of a file: numbers, path and old versions, the receiver's context, and the end of the transfer.
#[derive(Debug)]
pub(crate) struct FileContext<'a> {
    pub(crate) cx: &'a mut Context,
    pub(crate) file: FileNo,
    pub(crate) handle: Handle,
    /// The path of the new version.
    pub(crate) path: &'a RelPath,
    /// The entry that was found at the path.
    pub(crate) seen: Option<&'a Meta>,
    pub(crate) old: &'a OldVersions,
    reported: ReportedBytes<'a>,
    outcome: Option<TransferOutcome>,
}

/// The end of a transfer.
#[derive(Debug)]
pub(crate) enum TransferOutcome {
    /// Work of the transfer failed.
    Failed(WorkError),
    /// A dry run found a difference, and needs nothing more.
    Differs,
    /// The version in place proved to equal the new version; the attributes may still differ.
    Proved,
    /// The new version is in place.
    Committed,
}

/// A file's number, handle and path, and the entry that was found at the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePlace<'a> {
    pub(crate) file: FileNo,
    pub(crate) handle: Handle,
    /// The path of the new version.
    pub(crate) path: &'a RelPath,
    /// The entry that was found at the path.
    pub(crate) seen: Option<&'a Meta>,
}

/// Bytes of a file that are reported as settled.
#[derive(Debug)]
pub(crate) struct ReportedBytes<'a> {
    /// Bytes reported over all attempts.
    pub(crate) reported: &'a mut u64,
    /// Most bytes that may be reported as settled, over all attempts.
    pub(crate) most: u64,
}

impl<'a> FileContext<'a> {
    pub(crate) const fn new(
        cx: &'a mut Context,
        place: FilePlace<'a>,
        old: &'a OldVersions,
        reported: ReportedBytes<'a>,
    ) -> Self {
        let FilePlace { file, handle, path, seen } = place;
        Self { cx, file, handle, path, seen, old, reported, outcome: None }
    }

    /// Ends the transfer, unless it has ended.
    pub(super) fn end_transfer(&mut self, outcome: TransferOutcome) {
        self.outcome.get_or_insert(outcome);
    }

    /// Ends the transfer because work failed.
    pub(super) fn fail_transfer(&mut self, error: WorkError) {
        self.end_transfer(TransferOutcome::Failed(error));
    }

    /// Returns the result of work that succeeded; ends the transfer otherwise.
    pub(super) fn or_fail<T>(&mut self, result: Result<T, WorkError>) -> Option<T> {
        result.map_err(|error| self.fail_transfer(error)).ok()
    }

    /// True once the transfer has ended. The receiver then asks and sends nothing more for the transfer.
    pub(super) const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Takes the end of the transfer, if this step ended it.
    pub(crate) fn take_outcome(&mut self) -> Option<TransferOutcome> {
        self.outcome.take()
    }

    /// Reports progress, and counts each byte of a file only once over all attempts.
    pub(super) fn report_progress(&mut self, settled: u64) {
        let ReportedBytes { reported, most } = &mut self.reported;
        let fresh = settled.min(*most).saturating_sub(**reported);
        **reported += fresh;
        self.cx.report_settled(fresh);
    }
}
