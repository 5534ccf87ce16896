//! A file that is sent whole, in blocks of equal length.

use std::collections::HashMap;
use std::ops::Range;

use deltic_core::recipe::Chunk;
use deltic_core::{Chunks, Fingerprint, Span};

use crate::error::PeerError;
use crate::message::Payload;
use crate::receiver::ask::{NewVersion, PayloadChunk};

use super::table::UNASKED;

/// The blocks of a new version, or of its tail.
#[derive(Debug)]
pub(super) struct BlockReceiver {
    new: NewVersion,
    /// Length in bytes of the transferred content of the new version.
    len: u64,
    /// Fingerprints by block number; `None` while a block is being written.
    named: HashMap<u32, Option<Fingerprint>>,
    /// True if the blocks were requested. Requested blocks may arrive in any order, and after `End`.
    asked: bool,
    /// The bytes of a file of a single block, until `End` arrives.
    body: Option<Payload>,
    is_whole: bool,
}

impl BlockReceiver {
    pub(super) fn new(new: NewVersion, is_whole: bool) -> Self {
        let len = new.transferred_len();
        Self { new, len, named: HashMap::new(), asked: false, body: None, is_whole }
    }

    /// Length of a block in bytes.
    const fn block_bytes(&self) -> u64 {
        self.new.spec.max_len() as u64
    }

    /// Number of blocks.
    fn block_count(&self) -> u64 {
        (self.len - self.new.from).div_ceil(self.block_bytes())
    }

    /// Marks all blocks as requested, if there are several. Returns their range.
    pub(super) fn mark_all_requested(&mut self) -> Option<Range<u32>> {
        let count = u32::try_from(self.block_count()).ok()?;
        self.asked = count > 1;
        self.asked.then_some(0..count)
    }

    /// True if the blocks were requested.
    pub(super) const fn is_requested(&self) -> bool {
        self.asked
    }

    /// True once all blocks have arrived.
    pub(super) fn has_all(&self) -> bool {
        self.named.len() as u64 == self.block_count()
    }

    /// True if the file is sent whole and in a single piece. Such a file is put in place in a single step.
    pub(super) const fn is_single(&self) -> bool {
        self.is_whole && self.new.map.is_none() && self.len <= self.block_bytes()
    }

    /// Keeps the bytes of the single block.
    pub(super) fn keep_single_block(&mut self, payload: Payload) {
        self.body = Some(payload);
    }

    /// Takes the bytes of the single block; an empty file has no bytes.
    pub(super) fn take_single_block(&mut self) -> Payload {
        self.body.take().unwrap_or(Payload::Plain(Vec::new()))
    }

    /// Marks a block as received, and returns the block's place. Errors: `UNASKED` for a block outside the file or
    /// received before.
    pub(super) fn receive(&mut self, block: u32) -> Result<PayloadChunk, PeerError> {
        let most = self.block_bytes();
        let start = self.new.from + u64::from(block) * most;
        if start >= self.len || self.named.insert(block, None).is_some() {
            return Err(UNASKED);
        }
        let len = most.min(self.len - start) as u32;
        Ok(PayloadChunk { span: Span::new(start, len), brief: None })
    }

    /// Notes a block that was written.
    pub(super) fn note_written(&mut self, block: u32, fingerprint: Fingerprint) {
        self.named.insert(block, Some(fingerprint));
    }

    /// Returns the blocks as chunks, in order.
    pub(super) fn as_chunks(&self) -> Chunks {
        let most = self.block_bytes();
        let mut blocks: Vec<_> = self.named.iter().collect();
        blocks.sort_unstable_by_key(|(no, _)| **no);
        let chunk = |(no, fingerprint): (&u32, &Option<Fingerprint>)| {
            let len = most.min(self.len - self.new.from - u64::from(*no) * most) as u32;
            Some((0, Chunk { len, fingerprint: (*fingerprint)? }))
        };
        blocks.into_iter().filter_map(chunk).collect()
    }
}
