//! A listed file that the receiver has not settled.

use deltic_tree::meta::Owner;
use deltic_tree::{Meta, RelPath, Timestamp};

use crate::limits::LARGE_FILE_BYTES;
use crate::message::Done;
use crate::report::{Action, Change, EntryType, Facts, Notice};

/// A file that the receiver may still request.
#[derive(Debug)]
pub(super) struct ListedFile {
    pub(super) path: RelPath,
    pub(super) len: u64,
    modified: Timestamp,
    mode: u32,
    owner: Owner,
    pub(super) attempts: u32,
    pub(super) inquiry: DigestInquiry,
    /// Bytes reported as settled, over all attempts.
    pub(super) reported: u64,
}

/// State of the receiver's request for the file's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestInquiry {
    Unasked,
    /// The digest is being computed.
    Open,
    Answered,
}

impl ListedFile {
    pub(super) const fn new(path: RelPath, meta: &Meta) -> Self {
        let Meta { len, modified, mode, user, group, .. } = *meta;
        let owner = Owner { user, group };
        let (attempts, inquiry, reported) = (0, DigestInquiry::Unasked, 0);
        Self { path, len, modified, mode, owner, attempts, inquiry, reported }
    }

    /// True if the opened file has the listed length, time and mode.
    pub(super) fn is_as(&self, opened: &Meta) -> bool {
        (opened.len, opened.modified, opened.mode) == (self.len, self.modified, self.mode)
    }

    pub(super) const fn is_large(&self) -> bool {
        self.len > LARGE_FILE_BYTES
    }

    /// Returns the newly settled bytes, given `settled` bytes of the current attempt.
    pub(super) fn advance(&mut self, settled: u64) -> u64 {
        let fresh = settled.min(self.len).saturating_sub(self.reported);
        self.reported += fresh;
        fresh
    }

    /// Returns the notice of how the file was settled, if one is due.
    pub(super) fn done(self, done: Done, reports_unchanged: bool) -> Option<Notice> {
        let Self { path, len, modified, mode, owner, .. } = self;
        let (item, target, literal) = (EntryType::File, None, done.literal_bytes());
        let (action, differs, from) = match done {
            Done::Same { touched: false, differs } if reports_unchanged => {
                (Action::Unchanged, differs, None)
            }
            Done::Same { touched: false, .. } => return None,
            Done::Same { differs, .. } => (Action::Touched, differs, None),
            Done::Replaced { action, differs, from, .. } => (action, differs, from),
            Done::Failed(trouble) => return Some(Notice::Trouble(trouble)),
        };
        let facts = Facts { len, modified, mode, owner, target, literal, from, ..Facts::default() };
        Some(Notice::Changed(Change { path, item, action, differs, facts }))
    }
}
