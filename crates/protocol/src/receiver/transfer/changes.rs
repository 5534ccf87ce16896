//! A file that goes by what changed since a base, which the version in place is: blocks that are told are new, all
//! others stay where they lie.

use std::collections::VecDeque;

use deltic_core::delta::Op;
use deltic_core::recipe::{Chunk, Digest};
use deltic_core::{Fingerprint, Span};

use crate::error::PeerError;
use crate::limits::{CHANGED_BLOCK_BYTES, MAX_CHANGED_BLOCKS};
use crate::receiver::ask::Piece;

use super::proof::ProofOf;
use super::table::UNASKED;

const BLOCK: u64 = CHANGED_BLOCK_BYTES as u64;

/// Longest copy in one piece of work, in bytes.
const COPY_BYTES: u64 = 64 << 20;

/// The blocks that changed, as far as they came.
#[derive(Debug)]
pub(super) struct Changes {
    base: Digest,
    /// Length of the base in bytes.
    old: u64,
    /// Length of the new version in bytes.
    new: u64,
    /// End of what came or stays.
    end: u64,
    /// Bytes that stay.
    kept: u64,
    /// Copies between blocks that came, and of what is behind the last.
    copies: VecDeque<Op>,
    /// Blocks that came, ascending; they have no fingerprint while they are written.
    blocks: Vec<(u32, Option<Chunk>)>,
}

impl Changes {
    pub(super) const fn new(base: Digest, old: u64, new: u64) -> Self {
        Self { base, old, new, end: 0, kept: 0, copies: VecDeque::new(), blocks: Vec::new() }
    }

    /// Takes all up to `end` from the base; false where that is shorter.
    fn stays(&mut self, end: u64) -> bool {
        if end > self.old && end > self.end {
            return false;
        }
        while self.end < end {
            let old = Span::new(self.end, (end - self.end).min(COPY_BYTES) as u32);
            self.copies.push_back(Op::Copy { old, new_start: old.start });
            self.end = old.end();
            self.kept += u64::from(old.len);
        }
        true
    }

    /// Marks a block as arrived; its place. Blocks come in ascending order.
    pub(super) fn receive(&mut self, block: u32) -> Result<Piece, PeerError> {
        let start = u64::from(block) * BLOCK;
        if start < self.end || start >= self.new || !self.stays(start) {
            return Err(UNASKED);
        }
        if self.blocks.len() == MAX_CHANGED_BLOCKS {
            return Err(PeerError::Limit("blocks that changed"));
        }
        self.end = (start + BLOCK).min(self.new);
        self.blocks.push((block, None));
        Ok(Piece { span: Span::new(start, (self.end - start) as u32), brief: None })
    }

    /// Takes the end: all behind the last block that came stays. False where the base is too short for that.
    pub(super) fn end(&mut self) -> bool {
        self.stays(self.new)
    }

    /// Bytes that stay, as far as is told.
    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// The copies that lie before `place`, and were not taken yet.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<Op> {
        let is_before =
            |op: &mut Op| matches!(op, Op::Copy { new_start, .. } if *new_start < place);
        std::iter::from_fn(|| self.copies.pop_front_if(is_before)).collect()
    }

    /// Notes a block that was written.
    pub(super) fn wrote(&mut self, block: u32, fingerprint: Fingerprint) {
        let len = (self.new - u64::from(block) * BLOCK).min(BLOCK) as u32;
        if let Ok(at) = self.blocks.binary_search_by_key(&block, |(block, _)| *block) {
            self.blocks[at].1 = Some(Chunk { len, fingerprint });
        }
    }

    /// The facts that prove the file.
    pub(super) fn prove(&mut self) -> ProofOf {
        let blocks = std::mem::take(&mut self.blocks);
        let blocks = blocks.into_iter().filter_map(|(block, chunk)| Some((block, chunk?)));
        ProofOf::Changes(self.base, self.new, blocks.collect())
    }
}
