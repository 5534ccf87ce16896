//! Cutting old: before `Start` by what the list lets expect, then by what `Start` says.

use std::ops::Range;

use deltic_core::Digest;
use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::recipe::Chunk;

use crate::receiver::ask::{Kept, Work};
use crate::receiver::pending::FilePending;
use crate::work::Setback;

use super::file_context::FileContext;
use super::old::{IndexPart, Old};

/// A transfer that the sender was asked for and has not started.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The chunker that the sender was asked to use, as in an earlier session.
    pub(crate) spec: Option<ChunkerSpec>,
    /// Chunks of an interrupted transfer that goes on.
    pub(crate) kept: Option<Box<Kept>>,
    /// The index of old, cut by what `Start` most likely says.
    pub(crate) ahead: Option<Box<Old>>,
    /// The base that the sender was told of.
    pub(crate) base: Option<Digest>,
    /// The runs of data that the sender has told of the new version so far.
    pub(crate) data: Option<Vec<Range<u64>>>,
}

impl Expected {
    /// Goes on indexing old, if it is to be cut ahead.
    pub(crate) fn index_more(&mut self, fx: &mut FileContext<'_>) {
        if let Some(old) = &mut self.ahead {
            ask_more(old, fx);
        }
    }

    /// Takes a part of an old version.
    pub(crate) fn indexed(
        &mut self,
        fx: &mut FileContext<'_>,
        (part, run): (IndexPart, Result<SegmentChunks<Chunk>, Setback>),
    ) {
        if let Some(old) = &mut self.ahead {
            old.take(part, run, &fx.old.lens);
            ask_more(old, fx);
        }
    }
}

/// Asks for the segments of old that may be read now.
pub(super) fn ask_more(old: &mut Old, fx: &mut FileContext<'_>) {
    let handle = fx.handle;
    for (part, segment) in old.next_segments(&fx.old.lens) {
        let work = Work::Index { handle, part: part.version, segment, spec: part.spec };
        fx.cx.ask(work, FilePending::Index(handle, part));
    }
}
