//! The state that a step of a transfer may touch.

use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::receiver::context::Context;
use crate::work::{Handle, Setback};

use super::old::OldVersions;

/// The context of a file: numbers, path and old versions, the receiver's context, and the end of the transfer.
#[derive(Debug)]
pub(crate) struct FileContext<'a> {
    pub(crate) cx: &'a mut Context,
    pub(crate) file: FileNo,
    pub(crate) handle: Handle,
    /// The path of the new version.
    pub(crate) path: &'a RelPath,
    /// The entry that stood at the path.
    pub(crate) seen: Option<&'a Meta>,
    pub(crate) old: &'a OldVersions,
    /// Bytes reported as settled over all attempts, and the most that may be reported.
    pub(crate) reported: (&'a mut u64, u64),
    outcome: Option<TransferOutcome>,
}

/// The end of a transfer.
#[derive(Debug)]
pub(crate) enum TransferOutcome {
    /// Work of the transfer failed.
    Failed(Setback),
    /// A dry run found a difference, and needs nothing more.
    Differs,
    /// The version in place proved to equal the new version; the attributes may still differ.
    Proved,
    /// The new version is in place.
    Committed,
}

/// A file's number, handle and path, and the entry that stood there.
pub(crate) type FilePlace<'a> = (FileNo, Handle, &'a RelPath, Option<&'a Meta>);

impl<'a> FileContext<'a> {
    pub(crate) const fn new(
        cx: &'a mut Context,
        (file, handle, path, seen): FilePlace<'a>,
        old: &'a OldVersions,
        reported: (&'a mut u64, u64),
    ) -> Self {
        Self { cx, file, handle, path, seen, old, reported, outcome: None }
    }

    /// Ends the transfer, unless it has ended.
    pub(super) fn end(&mut self, outcome: TransferOutcome) {
        self.outcome.get_or_insert(outcome);
    }

    /// Ends the transfer because work failed.
    pub(super) fn fail(&mut self, setback: Setback) {
        self.end(TransferOutcome::Failed(setback));
    }

    /// Returns the result of work that succeeded; ends the transfer otherwise.
    pub(super) fn or_fail<T>(&mut self, result: Result<T, Setback>) -> Option<T> {
        result.map_err(|setback| self.fail(setback)).ok()
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
    pub(super) fn advance(&mut self, settled: u64) {
        let (reported, most) = &mut self.reported;
        let fresh = settled.min(*most).saturating_sub(**reported);
        **reported += fresh;
        self.cx.report_settled(fresh);
    }
}
