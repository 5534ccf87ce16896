//! A file that comes whole, in blocks of one length.

use std::collections::HashMap;
use std::ops::Range;

use deltic_core::recipe::Chunk;
use deltic_core::{Chunks, Fingerprint, Span};

use crate::error::PeerError;
use crate::message::Payload;
use crate::receiver::ask::{New, Piece};

use super::table::UNASKED;

/// The blocks of a new version, or of its tail.
#[derive(Debug)]
pub(super) struct Blocks {
    new: New,
    /// Length in bytes of the transferred content of the new version.
    len: u64,
    /// Their fingerprints; `None` while a block is being written.
    named: HashMap<u32, Option<Fingerprint>>,
    /// True where they were asked for, so that they may come beside each other, and behind their end.
    asked: bool,
    /// The bytes of a file that is one block, until its end comes.
    body: Option<Payload>,
    is_whole: bool,
}

impl Blocks {
    pub(super) fn new(new: New, is_whole: bool) -> Self {
        let len = new.told_len();
        Self { new, len, named: HashMap::new(), asked: false, body: None, is_whole }
    }

    /// Length of a block, in bytes.
    const fn block(&self) -> u64 {
        self.new.spec.max_len() as u64
    }

    /// Number of blocks.
    fn count(&self) -> u64 {
        (self.len - self.new.from).div_ceil(self.block())
    }

    /// Asks for all of them, where there are several; the question.
    pub(super) fn ask(&mut self) -> Option<Range<u32>> {
        let count = u32::try_from(self.count()).ok()?;
        self.asked = count > 1;
        self.asked.then_some(0..count)
    }

    /// True where they were asked for.
    pub(super) const fn is_asked(&self) -> bool {
        self.asked
    }

    /// True once all of them came.
    pub(super) fn has_all(&self) -> bool {
        self.named.len() as u64 == self.count()
    }

    /// True where the file is put in place in one go: it comes whole and in one piece.
    pub(super) const fn is_single(&self) -> bool {
        self.is_whole && self.new.map.is_none() && self.len <= self.block()
    }

    /// Keeps the bytes of the one block.
    pub(super) fn keep(&mut self, payload: Payload) {
        self.body = Some(payload);
    }

    /// The bytes of the one block, if it is not empty.
    pub(super) fn take_body(&mut self) -> Payload {
        self.body.take().unwrap_or(Payload::Plain(Vec::new()))
    }

    /// Marks a block as arrived; its place.
    pub(super) fn receive(&mut self, block: u32) -> Result<Piece, PeerError> {
        let most = self.block();
        let start = self.new.from + u64::from(block) * most;
        if start >= self.len || self.named.insert(block, None).is_some() {
            return Err(UNASKED);
        }
        let len = most.min(self.len - start) as u32;
        Ok(Piece { span: Span::new(start, len), brief: None })
    }

    /// Notes a block that was written.
    pub(super) fn wrote(&mut self, block: u32, fingerprint: Fingerprint) {
        self.named.insert(block, Some(fingerprint));
    }

    /// The blocks in order, as chunks.
    pub(super) fn chunks(&self) -> Chunks {
        let most = self.block();
        let mut blocks: Vec<_> = self.named.iter().collect();
        blocks.sort_unstable_by_key(|(no, _)| **no);
        let chunk = |(no, fingerprint): (&u32, &Option<Fingerprint>)| {
            let len = most.min(self.len - self.new.from - u64::from(*no) * most) as u32;
            Some((0, Chunk { len, fingerprint: (*fingerprint)? }))
        };
        blocks.into_iter().filter_map(chunk).collect()
    }
}
