//! A file sent as the changes since a base, which is the version in place. Changed blocks are sent. Moved runs of
//! blocks are copied from other offsets of the base, and all other bytes from the same offsets.

use std::collections::VecDeque;

use deltic_core::delta::DeltaOp;
use deltic_core::moved::MovedRun;
use deltic_core::recipe::{Chunk, Digest};
use deltic_core::{Fingerprint, Span};

use crate::error::PeerError;
use crate::limits::{CHANGED_BLOCK_BYTES, MAX_CHANGED_BLOCKS, MAX_MOVED_RUNS};
use crate::receiver::ask::PayloadChunk;

use super::proof::ProofOf;
use super::table::UNASKED;

const BLOCK: u64 = CHANGED_BLOCK_BYTES as u64;

const UNMOVED: PeerError = PeerError::Unexpected("an invalid run of moved blocks");

/// Longest copy in a piece of work, in bytes.
const COPY_BYTES: u64 = 64 << 20;

/// The changed blocks received so far.
#[derive(Debug)]
pub(super) struct ChangeReceiver {
    base: Digest,
    /// Length of the base in bytes.
    old: u64,
    /// Length of the new version in bytes.
    new: u64,
    /// Offset in the new version up to which all bytes are received or copied.
    end: u64,
    /// Number of bytes copied from the base.
    kept: u64,
    /// Copies between the received blocks, and after the last block.
    copies: VecDeque<DeltaOp>,
    /// Moved runs: runs of blocks at another offset in the base, ascending.
    moved: Vec<MovedRun>,
    /// Number of moved runs that begin before `end`.
    passed: usize,
    /// Received blocks, ascending; `None` while a block is being written.
    blocks: Vec<(u32, Option<Chunk>)>,
}

impl ChangeReceiver {
    pub(super) const fn new(base: Digest, old: u64, new: u64) -> Self {
        Self {
            base,
            old,
            new,
            end: 0,
            kept: 0,
            copies: VecDeque::new(),
            moved: Vec::new(),
            passed: 0,
            blocks: Vec::new(),
        }
    }

    /// Takes moved runs: whole blocks of both versions, in ascending order, before any block arrives. Errors:
    /// `Unexpected` for other runs, `Limit` for too many runs.
    pub(super) fn take_moved_runs(&mut self, runs: &[MovedRun]) -> Result<(), PeerError> {
        if runs.is_empty() || !self.blocks.is_empty() {
            return Err(UNMOVED);
        }
        if self.moved.len() + runs.len() > MAX_MOVED_RUNS {
            return Err(PeerError::Limit("runs of moved blocks"));
        }
        for run in runs {
            let behind = self.moved.last().map_or(0, MovedRun::end);
            let is_within = run.end() <= self.new / BLOCK && run.old_end() <= self.old / BLOCK;
            let has_moved = run.blocks > 0 && run.to != run.from;
            if !(is_within && has_moved && u64::from(run.to) >= behind) {
                return Err(UNMOVED);
            }
            self.moved.push(*run);
        }
        Ok(())
    }

    /// Queues copies of all bytes up to `end`: moved runs that begin before `end`, and the bytes between moved runs
    /// from the same offsets of the base. Returns false if the base is too short.
    fn queue_copies_up_to(&mut self, end: u64) -> bool {
        while let Some(run) = self.moved.get(self.passed).copied()
            && u64::from(run.to) * BLOCK < end
        {
            let to = u64::from(run.to) * BLOCK;
            if !self.queue_unmoved_copies(to) {
                return false;
            }
            self.queue_copies(u64::from(run.from) * BLOCK, run.end() * BLOCK);
            self.passed += 1;
        }
        self.queue_unmoved_copies(end)
    }

    /// Queues copies of all bytes up to `end` from offset `from` of the base.
    fn queue_copies(&mut self, mut from: u64, end: u64) {
        while self.end < end {
            let old = Span::new(from, (end - self.end).min(COPY_BYTES) as u32);
            self.copies.push_back(DeltaOp::Copy { old, new_start: self.end });
            (from, self.end) = (old.end(), self.end + u64::from(old.len));
            self.kept += u64::from(old.len);
        }
    }

    /// Queues copies of all bytes up to `end` from the same offsets of the base. Returns false if the base is too
    /// short.
    fn queue_unmoved_copies(&mut self, end: u64) -> bool {
        let is_there = end <= self.old || end <= self.end;
        if is_there {
            self.queue_copies(self.end, end);
        }
        is_there
    }

    /// Marks a block as received. Returns the place of the block. Blocks arrive in ascending order.
    pub(super) fn receive(&mut self, block: u32) -> Result<PayloadChunk, PeerError> {
        let start = u64::from(block) * BLOCK;
        // A moved run may reach into this block, or begin exactly at it: both are refused.
        let is_free = start >= self.end && start < self.new && self.queue_copies_up_to(start);
        let next = self.moved.get(self.passed).map_or(u64::MAX, |run| u64::from(run.to) * BLOCK);
        if !is_free || self.end > start || next <= start {
            return Err(UNASKED);
        }
        if self.blocks.len() == MAX_CHANGED_BLOCKS {
            return Err(PeerError::Limit("changed blocks"));
        }
        self.end = (start + BLOCK).min(self.new);
        self.blocks.push((block, None));
        Ok(PayloadChunk { span: Span::new(start, (self.end - start) as u32), brief: None })
    }

    /// Ends the changes: queues copies of the bytes after the last block. Returns false if the base is too short.
    pub(super) fn queue_last_copies(&mut self) -> bool {
        self.queue_copies_up_to(self.new)
    }

    /// Number of bytes copied from the base so far.
    pub(super) const fn copied_bytes(&self) -> u64 {
        self.kept
    }

    /// Takes the waiting copies that lie before `place`.
    pub(super) fn take_before(&mut self, place: u64) -> Vec<DeltaOp> {
        let is_before =
            |op: &mut DeltaOp| matches!(op, DeltaOp::Copy { new_start, .. } if *new_start < place);
        std::iter::from_fn(|| self.copies.pop_front_if(is_before)).collect()
    }

    /// Stores the fingerprint of a block that was written.
    pub(super) fn note_written(&mut self, block: u32, fingerprint: Fingerprint) {
        let len = (self.new - u64::from(block) * BLOCK).min(BLOCK) as u32;
        if let Ok(at) = self.blocks.binary_search_by_key(&block, |(block, _)| *block) {
            self.blocks[at].1 = Some(Chunk { len, fingerprint });
        }
    }

    /// Returns the evidence that proves the file.
    pub(super) fn proof(&mut self) -> ProofOf {
        let blocks = std::mem::take(&mut self.blocks);
        let blocks = blocks.into_iter().filter_map(|(block, chunk)| Some((block, chunk?)));
        ProofOf::Changes(self.base, self.new, std::mem::take(&mut self.moved), blocks.collect())
    }
}
