//! Answers that the sender waits for, and the state each answer belongs to.

use std::ops::Range;

use deltic_tree::RelPath;

use crate::cutting::CutPart;
use crate::message::FileNo;
use crate::summing::SumStep;
use crate::work::{Handle, HasHandle};

/// A directory that the driver is listing.
#[derive(Debug)]
pub(super) struct RequestedDir {
    pub(super) dir: RelPath,
    /// Number of the tally of the parent directory, if that was sent.
    pub(super) above: Option<u32>,
}

/// State that an answer belongs to.
#[derive(Debug)]
pub(super) enum SenderPending {
    List(RequestedDir),
    /// Next entries of the directory that is being sent.
    ListOn,
    Open(Handle),
    Scan(Handle, CutPart),
    Seal(Handle),
    Sum(Handle, SumStep),
    Hash(Handle),
    Search(Handle),
    /// The region with this number.
    Find(Handle, u64),
    Read {
        handle: Handle,
        chunks: Vec<Range<u32>>,
        bytes: u64,
    },
    Mend {
        handle: Handle,
        gaps: Vec<Range<u32>>,
    },
    Digest(Vec<FileNo>),
    RemoveSource(RelPath),
    Ask,
    Close,
}

impl HasHandle for SenderPending {
    fn handle(&self) -> Option<Handle> {
        match self {
            Self::Open(handle) | Self::Scan(handle, _) | Self::Seal(handle) => Some(*handle),
            Self::Sum(handle, _) | Self::Hash(handle) | Self::Search(handle) => Some(*handle),
            Self::Find(handle, _) => Some(*handle),
            Self::Read { handle, .. } | Self::Mend { handle, .. } => Some(*handle),
            Self::List(..) | Self::ListOn | Self::Digest(_) => None,
            Self::RemoveSource(_) | Self::Ask | Self::Close => None,
        }
    }
}
