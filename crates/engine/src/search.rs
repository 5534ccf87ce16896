//! Searching a file for blocks whose sums are known: by the sender in new, or by the receiver in old.

use deltic_core::recipe::FileDigest;
use deltic_core::search::SearchedRegion;
use deltic_core::{AtEnd, DeltaOp, Searcher, Span, StoredSums};
use deltic_protocol::limits::Limits;
use deltic_protocol::message::Payload;
use deltic_protocol::receiver::Rolled;
use deltic_protocol::sender::Searched;
use deltic_protocol::sums::PatchStep;

use crate::pack::packed;

/// A search through new, from one segment to the next.
#[derive(Debug)]
pub struct NewSearch {
    /// Looks for the blocks of old.
    pub searcher: Box<Searcher>,
    /// Hashes what is settled.
    pub digest: Box<FileDigest>,
    /// The first byte of the next segment.
    pub start: u64,
    /// The level at which literals are compressed, if they are.
    pub zstd: Option<i32>,
    /// Bounds of the frames that bring what is found.
    pub limits: Limits,
    /// Sums that the file's store keeps of the segment.
    pub kept: Option<StoredSums>,
    /// The region that the segment is the rest of, where that was searched.
    pub region: Option<Box<SearchedRegion>>,
}

impl NewSearch {
    /// Searches the next bytes, and hashes what is settled of them.
    #[must_use]
    pub fn search(self, bytes: &[u8], at_end: AtEnd) -> Searched {
        let Self { mut searcher, mut digest, start, zstd, limits, kept, region } = self;
        let mut patches = Patches::new(searcher.block_len(), zstd, limits);
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
        digest.push(&bytes[..consumed]);
        let (patches, at_end) = (patches.finish(), at_end == AtEnd::Yes);
        Searched { patches, consumed: consumed as u64, at_end, searcher, digest }
    }
}

/// Searches bytes of old.
#[must_use]
pub fn in_old(mut searcher: Box<Searcher>, bytes: &[u8], at_end: AtEnd) -> Rolled {
    let mut found = Vec::new();
    let consumed = searcher.search(bytes, at_end, |op| {
        found.extend(Some(op).filter(|op| matches!(op, DeltaOp::Copy { .. })));
    });
    Rolled { found, consumed: consumed as u64, at_end: at_end == AtEnd::Yes, searcher }
}

/// Gathers the steps of a search into patches that frames may hold.
struct Patches {
    block: u32,
    zstd: Option<i32>,
    limits: Limits,
    steps: Vec<PatchStep>,
    literals: Vec<u8>,
    done: Vec<(Vec<PatchStep>, Payload)>,
}

impl Patches {
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
        if is_full || self.steps.len() == self.limits.batch() {
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
