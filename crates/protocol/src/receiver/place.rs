//! Where answers belong.

use std::ops::Range;

use deltic_core::Span;
use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::report::Change;
use crate::summing::Step;
use crate::work::{Concerns, Handle};

use super::attempt::{Asked, Gap, IndexPart};
use super::beside::Beside;
use super::deleting::Removal;

/// Where an answer belongs.
#[derive(Debug)]
pub(super) enum Place {
    Look(u64),
    Compare(u32),
    Digest(Vec<FileNo>),
    LookBeside(FileNo),
    LookBesideRoot(Meta),
    LookMissing(Vec<RelPath>),
    CountMissing(RelPath),
    LinkBeside {
        file: FileNo,
        beside: Beside,
    },
    CopyBeside {
        file: FileNo,
        change: Change,
    },
    TakeBeside {
        handle: Handle,
        links: bool,
    },
    LeaveOut,
    Link {
        file: FileNo,
        change: Change,
    },
    Extra(RelPath),
    CountBelow {
        file: FileNo,
        path: RelPath,
    },
    /// So many would go by what was known when it was listed.
    CountGoing(u64),
    CountMoved,
    MakeDir {
        path: RelPath,
        bytes: usize,
    },
    Make {
        change: Change,
    },
    Touch {
        change: Change,
    },
    Clear {
        file: FileNo,
        removal: Removal,
    },
    Remove(Removal),
    Ask,
    SetDirs {
        bytes: usize,
    },
    Land,
    Sweep,
    Flush,
    FlushArrived {
        files: Vec<FileNo>,
        upto: FileNo,
    },
    Chart,
    OpenOld(Handle),
    Index(Handle, IndexPart),
    Copy(Handle, Vec<Span>),
    Write {
        handle: Handle,
        chunks: Vec<u32>,
        spans: Vec<Span>,
        payload_bytes: usize,
    },
    Survey {
        handle: Handle,
        gaps: Vec<Gap>,
    },
    Mend {
        handle: Handle,
        gaps: Vec<Gap>,
        payload_bytes: usize,
    },
    SumOld {
        handle: Handle,
        part: usize,
        step: Step,
    },
    HashOld {
        handle: Handle,
        needs: Vec<Range<u32>>,
        tokens: Vec<Asked>,
    },
    Roll(Handle),
    Commit(Handle),
    Replace {
        handle: Handle,
        payload_bytes: usize,
    },
    Confirm(Handle),
    TouchFile(Handle),
    Abandon(FileNo),
    Release,
}

impl Concerns for Place {
    fn handle(&self) -> Option<Handle> {
        match self {
            Self::OpenOld(handle)
            | Self::Index(handle, _)
            | Self::Copy(handle, _)
            | Self::Write { handle, .. }
            | Self::Survey { handle, .. }
            | Self::Mend { handle, .. }
            | Self::SumOld { handle, .. }
            | Self::HashOld { handle, .. }
            | Self::Roll(handle)
            | Self::Commit(handle)
            | Self::Confirm(handle)
            | Self::TakeBeside { handle, .. }
            | Self::TouchFile(handle) => Some(*handle),
            _ => None,
        }
    }
}

impl Place {
    /// What waits to be written until the answer comes: literals and attributes of directories, in bytes, and copies.
    pub(super) const fn weight(&self) -> (usize, usize) {
        match self {
            Self::Write { payload_bytes, .. }
            | Self::Mend { payload_bytes, .. }
            | Self::Replace { payload_bytes, .. } => (*payload_bytes, 0),
            Self::MakeDir { bytes, .. } | Self::SetDirs { bytes } => (*bytes, 0),
            Self::Copy(_, spans) => (0, spans.len()),
            _ => (0, 0),
        }
    }
}
