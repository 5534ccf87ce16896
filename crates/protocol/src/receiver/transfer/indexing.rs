//! The cutting of old versions: before `Start` by the expected chunker, then by the chunker of `Start`.

use std::ops::Range;

use deltic_core::Digest;
use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::recipe::Chunk;

use crate::receiver::ask::{KnownChunks, OldVersionWork, ReceiverWork};
use crate::receiver::pending::FilePending;
use crate::work::WorkError;

use super::file_context::FileContext;
use super::old::{IndexPart, OldIndex};

/// A transfer that was requested and has not started.
#[derive(Debug, Default)]
pub(crate) struct ExpectedTransfer {
    /// The chunker that the sender was asked to use, from an earlier session.
    pub(crate) spec: Option<ChunkerSpec>,
    /// Chunks of an interrupted transfer that resumes.
    pub(crate) kept: Option<Box<KnownChunks>>,
    /// The index of the old versions, cut by the expected chunker.
    pub(crate) ahead: Option<Box<OldIndex>>,
    /// The base that this end told the sender.
    pub(crate) base: Option<Digest>,
    /// The data runs of the new version received so far.
    pub(crate) data: Option<Vec<Range<u64>>>,
}

impl ExpectedTransfer {
    /// Continues to index old versions, if they are indexed before `Start` arrives.
    pub(crate) fn index_more(&mut self, fx: &mut FileContext<'_>) {
        if let Some(old) = &mut self.ahead {
            request_segments(old, fx);
        }
    }

    /// Takes the chunks of a segment of an old version.
    pub(crate) fn take_old_chunks(
        &mut self,
        fx: &mut FileContext<'_>,
        part: IndexPart,
        run: Result<SegmentChunks<Chunk>, WorkError>,
    ) {
        if let Some(old) = &mut self.ahead {
            old.take_index_part(part, run, &fx.old.lens);
            request_segments(old, fx);
        }
    }
}

/// Asks for the segments of old versions that may be read now.
pub(super) fn request_segments(old: &mut OldIndex, fx: &mut FileContext<'_>) {
    let handle = fx.handle;
    for (part, segment) in old.next_segments(&fx.old.lens) {
        let work = ReceiverWork::Old(OldVersionWork::Index {
            handle,
            part: part.version,
            segment,
            spec: part.spec,
        });
        fx.cx.request_work(work, FilePending::Index(handle, part));
    }
}
