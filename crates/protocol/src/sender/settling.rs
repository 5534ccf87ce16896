//! Files that the receiver settles: those that it never wants, and those that are done.

use std::ops::Range;

use crate::error::PeerError;
use crate::message::{Done, FileNo};

use super::context::Context;
use super::files::Files;
use super::listed_file::Inquiry;

/// A question is answered before what it is about is settled: what waits to be answered is within the window.
const EARLY: PeerError = PeerError::Unexpected("the end of a file whose digest is asked for");

impl Files {
    /// Settles files that were never wanted.
    pub(super) fn settle(
        &mut self,
        cx: &mut Context,
        numbers: Range<FileNo>,
    ) -> Result<(), PeerError> {
        // What was wanted before stays until it is done, and is not looked at again.
        let settled = cx.entries.range(numbers);
        if settled.clone().any(|(_, listed)| listed.inquiry == Inquiry::Open) {
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

    /// Settles a file that was wanted.
    pub(super) fn done(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        done: Done,
    ) -> Result<(), PeerError> {
        let unknown = PeerError::Unexpected("the end of a file that is not under way");
        let listed = cx.entries.remove(&file).ok_or(unknown)?;
        if listed.inquiry == Inquiry::Open {
            return Err(EARLY);
        }
        if !done.may_end(listed.attempts) {
            return Err(PeerError::Unexpected("an end that nothing led to"));
        }
        self.withdraw(cx, file);
        self.drop_attempt(cx, file);
        cx.report_settled(listed.len.saturating_sub(listed.reported));
        let notice = listed.done(done, cx.options.tells_unchanged);
        cx.notices.extend(notice);
        Ok(())
    }
}
