//! All that a step of a transfer may touch.

use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::receiver::context::Context;
use crate::work::{Handle, Setback};

use super::old::OldVersions;

/// The context of one file: its numbers, place and old versions, the receiver's context, and the end of the transfer.
#[derive(Debug)]
pub(crate) struct FileContext<'a> {
    pub(crate) cx: &'a mut Context,
    pub(crate) file: FileNo,
    pub(crate) handle: Handle,
    /// The place of the new version.
    pub(crate) path: &'a RelPath,
    /// The entry that stood there.
    pub(crate) seen: Option<&'a Meta>,
    pub(crate) old: &'a OldVersions,
    /// Bytes reported as settled, by any attempt, and the most that may be.
    pub(crate) reported: (&'a mut u64, u64),
    outcome: Option<Outcome>,
}

/// The end of a transfer.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Work of the transfer failed.
    Failed(Setback),
    /// A dry run found a difference: it needs nothing more.
    Differs,
    /// The version in place proved to be the new one; its attributes may still differ.
    Proved,
    /// The new version is in its place.
    Committed,
}

/// A file's place: its number and handle, its path, and what stood there.
pub(crate) type Place<'a> = (FileNo, Handle, &'a RelPath, Option<&'a Meta>);

impl<'a> FileContext<'a> {
    pub(crate) const fn new(
        cx: &'a mut Context,
        (file, handle, path, seen): Place<'a>,
        old: &'a OldVersions,
        reported: (&'a mut u64, u64),
    ) -> Self {
        Self { cx, file, handle, path, seen, old, reported, outcome: None }
    }

    /// Ends the transfer.
    pub(super) fn end(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
    }

    /// Ends the transfer: work failed.
    pub(super) fn fail(&mut self, setback: Setback) {
        self.end(Outcome::Failed(setback));
    }

    /// The result of work, if it did not fail; else the transfer ends.
    pub(super) fn or_fail<T>(&mut self, result: Result<T, Setback>) -> Option<T> {
        result.map_err(|setback| self.fail(setback)).ok()
    }

    /// True once the transfer has ended: nothing more is asked or sent for it.
    pub(super) const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// The end of the transfer, if this step brought it.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// Reports progress, counting no byte of a file twice however often it is tried.
    pub(super) fn advance(&mut self, settled: u64) {
        let (reported, most) = &mut self.reported;
        let fresh = settled.min(*most).saturating_sub(**reported);
        **reported += fresh;
        self.cx.report_settled(fresh);
    }
}
