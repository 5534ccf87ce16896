//! Rolling search for blocks with known sums: by the sender in the new file, or by the receiver in the old file.

use deltic_core::recipe::FileDigest;
use deltic_core::search::SearchedRegion;
use deltic_core::{AtEnd, DeltaOp, Searcher, Span, StoredSums};
use deltic_protocol::limits::Limits;
use deltic_protocol::message::Payload;
use deltic_protocol::receiver::OldMatches;
use deltic_protocol::sender::Searched;
use deltic_protocol::sums::PatchStep;

use crate::pack::packed;

/// A rolling search through the new file, one segment at a time.
#[derive(Debug)]
pub struct NewSearch {
    /// Searcher for the blocks of the old file.
    pub searcher: Box<Searcher>,
    /// Digest of the bytes searched so far, if the bytes are to be hashed.
    pub digest: Option<Box<FileDigest>>,
    /// Position of the segment in the file.
    pub start: u64,
    /// Compression level of literals, if any.
    pub zstd: Option<i32>,
    /// Limits of the frames that carry the result.
    pub limits: Limits,
    /// Sums that the file's store keeps of the segment.
    pub kept: Option<StoredSums>,
    /// A region that was searched in advance and ends with this segment.
    pub region: Option<Box<SearchedRegion>>,
}

impl NewSearch {
    /// Searches the next segment and adds the settled bytes to the digest.
    #[must_use]
    pub fn search(self, bytes: &[u8], at_end: AtEnd) -> Searched {
        let Self { mut searcher, mut digest, start, zstd, limits, kept, region } = self;
        let mut patches = PatchBuilder::new(searcher.block_len(), zstd, limits);
        let each = |op| match op {
            DeltaOp::Copy { old, .. } => patches.copy(old),
            DeltaOp::Literal { new } => {
                let from = (new.start - start) as usize;
                patches.literal(&bytes[from..from + new.len as usize]);
            }
        };
        let kept = kept.as_ref();
        let consumed = match &region {
            Some(region) => searcher.search_region(bytes, at_end, (region, kept), each),
            None => searcher.search_with(bytes, at_end, kept, each),
        };
        digest.iter_mut().for_each(|digest| digest.push(&bytes[..consumed]));
        let (patches, at_end) = (patches.finish(), at_end == AtEnd::Yes);
        Searched { patches, consumed: consumed as u64, at_end, searcher, digest }
    }
}

/// Searches bytes of the old file.
#[must_use]
pub fn in_old(mut searcher: Box<Searcher>, bytes: &[u8], at_end: AtEnd) -> OldMatches {
    let mut found = Vec::new();
    let consumed = searcher.search(bytes, at_end, |op| {
        found.extend(Some(op).filter(|op| matches!(op, DeltaOp::Copy { .. })));
    });
    OldMatches { found, consumed: consumed as u64, at_end: at_end == AtEnd::Yes, searcher }
}

/// Groups the steps of a search into patches that fit frames.
struct PatchBuilder {
    block: u32,
    zstd: Option<i32>,
    limits: Limits,
    steps: Vec<PatchStep>,
    literals: Vec<u8>,
    done: Vec<(Vec<PatchStep>, Payload)>,
}

impl PatchBuilder {
    const fn new(block: u32, zstd: Option<i32>, limits: Limits) -> Self {
        Self { block, zstd, limits, steps: Vec::new(), literals: Vec::new(), done: Vec::new() }
    }

    fn copy(&mut self, old: Span) {
        let first = (old.start / u64::from(self.block)) as u32;
        self.step(PatchStep::Copy(first..first + old.len.div_ceil(self.block)));
    }

    fn literal(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.limits.fill_bytes() as usize - self.literals.len();
            let (piece, after) = bytes.split_at(room.min(bytes.len()));
            self.literals.extend_from_slice(piece);
            self.step(PatchStep::Literal(piece.len() as u32));
            bytes = after;
        }
    }

    fn step(&mut self, step: PatchStep) {
        self.steps.push(step);
        let is_full = self.literals.len() as u64 == self.limits.fill_bytes();
        if is_full || self.steps.len() == self.limits.max_items() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let (steps, bytes) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.literals));
        let zstd = self.zstd.filter(|_| !bytes.is_empty());
        self.done.push((steps, packed(bytes, zstd)));
    }

    fn finish(mut self) -> Vec<(Vec<PatchStep>, Payload)> {
        if !self.steps.is_empty() {
            self.flush();
        }
        self.done
    }
}
