//! Work under way, with the data that each part of the receiver needs to process the answer.

use std::ops::Range;

use deltic_core::Span;
use deltic_tree::{Meta, RelPath};

use crate::message::FileNo;
use crate::report::Change;
use crate::summing::SumStep;
use crate::work::{Handle, HasHandle};

use super::transfer::gap::ChunkGap;
use super::transfer::old::IndexPart;
use super::transfer::presets::asked::AskedToken;
use super::tree::beside::AlternateEntry;
use super::tree::removal::NameRemoval;

/// Unanswered work, by the part of the receiver that waits for the answer.
#[derive(Debug)]
pub(super) enum ReceiverPending {
    Tree(TreePending),
    File(FilePending),
}

/// Work for the tree: names, metadata, deletion, the end of a run.
#[derive(Debug)]
pub(super) enum TreePending {
    Look(u64),
    Compare(u32),
    Digest(Vec<FileNo>),
    LookBeside(FileNo),
    LookBesideRoot(Meta),
    LookMissing(Vec<RelPath>),
    CountMissing(RelPath),
    LinkBeside {
        file: FileNo,
        beside: AlternateEntry,
    },
    CopyBeside {
        file: FileNo,
        change: Change,
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
    /// Second count; holds the number of names that would go by the first count.
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
        removal: NameRemoval,
    },
    Remove(NameRemoval),
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
}

/// Work for the content of files.
#[derive(Debug)]
pub(super) enum FilePending {
    ExtendMoveIndex,
    OpenOld(Handle),
    OpenMore(Handle),
    View(Handle),
    Index(Handle, IndexPart),
    /// `chunks` is the number of chunks that the copies bring.
    Copy {
        handle: Handle,
        spans: Vec<Span>,
        chunks: usize,
    },
    Write {
        handle: Handle,
        chunks: Vec<u32>,
        spans: Vec<Span>,
        payload_bytes: usize,
    },
    Survey {
        handle: Handle,
        gaps: Vec<ChunkGap>,
    },
    Mend {
        handle: Handle,
        gaps: Vec<ChunkGap>,
        payload_bytes: usize,
    },
    SumOld {
        handle: Handle,
        part: usize,
        step: SumStep,
    },
    HashOld {
        handle: Handle,
        needs: Vec<Range<u32>>,
        tokens: Vec<AskedToken>,
    },
    Roll(Handle),
    Commit(Handle),
    Replace {
        handle: Handle,
        payload_bytes: usize,
    },
    Confirm(Handle),
    TouchFile(Handle),
    TakeBeside {
        handle: Handle,
        links: bool,
    },
    Abandon(FileNo),
    Release,
}

impl From<TreePending> for ReceiverPending {
    fn from(pending: TreePending) -> Self {
        Self::Tree(pending)
    }
}

impl From<FilePending> for ReceiverPending {
    fn from(pending: FilePending) -> Self {
        Self::File(pending)
    }
}

impl FilePending {
    /// The attempt that the work is part of, if any.
    pub(super) const fn handle(&self) -> Option<Handle> {
        match self {
            Self::OpenOld(handle)
            | Self::OpenMore(handle)
            | Self::View(handle)
            | Self::Index(handle, _)
            | Self::Copy { handle, .. }
            | Self::Write { handle, .. }
            | Self::Survey { handle, .. }
            | Self::Mend { handle, .. }
            | Self::SumOld { handle, .. }
            | Self::HashOld { handle, .. }
            | Self::Roll(handle)
            | Self::Commit(handle)
            | Self::Replace { handle, .. }
            | Self::Confirm(handle)
            | Self::TakeBeside { handle, .. }
            | Self::TouchFile(handle) => Some(*handle),
            Self::ExtendMoveIndex | Self::Abandon(_) | Self::Release => None,
        }
    }
}

impl HasHandle for ReceiverPending {
    fn handle(&self) -> Option<Handle> {
        match self {
            // The driver holds nothing open for this work.
            Self::File(FilePending::Replace { .. }) | Self::Tree(_) => None,
            Self::File(pending) => pending.handle(),
        }
    }
}

impl ReceiverPending {
    /// Bytes of literals and of directory attributes, and number of copies and of the chunks in them, that wait to be
    /// written until the answer comes.
    pub(super) const fn weight(&self) -> (usize, usize) {
        match self {
            Self::File(
                FilePending::Write { payload_bytes, .. }
                | FilePending::Mend { payload_bytes, .. }
                | FilePending::Replace { payload_bytes, .. },
            ) => (*payload_bytes, 0),
            Self::Tree(TreePending::MakeDir { bytes, .. } | TreePending::SetDirs { bytes }) => {
                (*bytes, 0)
            }
            Self::File(FilePending::Copy { spans, chunks, .. }) => (0, spans.len() + *chunks),
            Self::File(_) | Self::Tree(_) => (0, 0),
        }
    }
}
