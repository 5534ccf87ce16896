//! A directory that is listed and not yet sent.

use std::collections::VecDeque;

use deltic_tree::names::SortedNames;
use deltic_tree::{DirDigest, Entry, Kind, Meta, RelPath};

use crate::message::Extent;
use crate::options::Options;

/// A directory with entries to be sent.
#[derive(Debug)]
pub(super) struct ReadyDir {
    pub(super) dir: RelPath,
    pub(super) own: Option<Meta>,
    pub(super) entries: VecDeque<Entry>,
    pub(super) rest: UnlistedPart,
    pub(super) partial: bool,
    pub(super) is_empty_source: bool,
    /// Number of the tally sent for the parent directory, if any.
    pub(super) above: Option<u32>,
    /// True if some of the entries are sent.
    pub(super) has_begun: bool,
    /// Tally that may replace the entries.
    pub(super) tally: Option<DirDigest>,
    /// Number of the tally that was sent for the entries: then the directories below are already being walked.
    pub(super) tallied: Option<u32>,
}

/// The part of a directory that is not listed yet.
#[derive(Debug)]
pub(super) enum UnlistedPart {
    Nothing,
    Names(Box<SortedNames>),
    /// A listing of the rest is under way.
    Asked,
}

impl From<Option<Box<SortedNames>>> for UnlistedPart {
    fn from(rest: Option<Box<SortedNames>>) -> Self {
        rest.map_or(Self::Nothing, Self::Names)
    }
}

impl ReadyDir {
    /// Returns the bytes of ACLs and extended attributes of the entries.
    pub(super) fn attribute_bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.meta.extra_metadata_bytes()).sum()
    }

    /// True if no entry can be sent before the next part of the directory is listed.
    pub(super) fn waits_for_listing(&self) -> bool {
        self.entries.is_empty() && matches!(self.rest, UnlistedPart::Asked)
    }

    /// Returns the extent for a frame with the entries that were removed last.
    pub(super) fn extent(&self) -> Extent {
        let is_sent = self.entries.is_empty() && matches!(self.rest, UnlistedPart::Nothing);
        match (is_sent, self.is_empty_source, self.partial) {
            (false, ..) => Extent::More,
            (true, true, _) => Extent::Empty,
            (true, false, false) => Extent::Last,
            (true, false, true) => Extent::Part,
        }
    }

    /// True if a tally may replace the entries: no entry needs a report of its own.
    pub(super) fn is_plain(&self, options: &Options) -> bool {
        let is_whole = !self.partial && !self.is_empty_source;
        let is_quiet = |entry: &Entry| {
            !is_left_out(&entry.meta.kind, options)
                && !matches!(entry.meta.kind, Kind::Device(_))
                && !entry.meta.has_unread_attributes()
                && self.dir.can_hold(&entry.name)
        };
        self.own.is_none() && is_whole && !self.dir.is_root() && self.entries.iter().all(is_quiet)
    }
}

/// True if entries of this kind are left out.
pub(super) fn is_left_out(kind: &Kind, options: &Options) -> bool {
    !options.transfers_kind(kind) && *kind != Kind::File
}
