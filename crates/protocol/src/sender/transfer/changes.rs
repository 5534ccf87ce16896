//! A file that is sent as differences from a base: the receiver has all other bytes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::moved::MovedRun;
use deltic_core::recipe::Chunk;
use deltic_core::{Digest, Span};

use crate::known::Changed;
use crate::limits::{CHANGED_BLOCK_BYTES, MAX_CHANGED_BLOCKS, MAX_MOVED_RUNS};
use crate::message::ToReceiver;

use super::super::ask::{FileWork, Sealing, SenderWork, Sums};
use super::super::context::Context;
use super::super::pending::SenderPending;
use super::attempt::SendAttempt;
use crate::work::WorkTurn;

const BLOCK: u64 = CHANGED_BLOCK_BYTES as u64;

/// Most reads requested at once. The reads run one after the other: blocks are sent in order.
const READS: usize = 4;

/// Changed blocks, as far as they were read.
#[derive(Debug)]
pub(super) struct ChangeSender {
    base: Digest,
    /// Runs that the base has at other positions.
    moved: Arc<Vec<MovedRun>>,
    /// Blocks still to be read, in ascending order.
    unread: VecDeque<Range<u32>>,
    /// Number of bytes in all changed blocks.
    bytes: u64,
    reading: usize,
    /// Blocks that were read.
    blocks: Vec<(u32, Chunk)>,
}

impl ChangeSender {
    /// Returns the blocks of a file of `len` bytes that differ from `base`, and the runs that the base has elsewhere.
    /// Returns `None` if there are too many, or if `changed` does not fit the file.
    pub(super) fn new(base: Digest, changed: Changed, len: u64) -> Option<Self> {
        let Changed { ranges: changed, moved } = changed;
        u32::try_from(len.div_ceil(BLOCK)).ok()?;
        let mut unread = VecDeque::<Range<u32>>::new();
        for range in &changed {
            if range.start >= range.end || range.end > len {
                return None;
            }
            let blocks = (range.start / BLOCK) as u32..range.end.div_ceil(BLOCK) as u32;
            match unread.back_mut() {
                Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
                _ => unread.push_back(blocks),
            }
        }
        let bytes = |blocks: &Range<u32>| {
            (u64::from(blocks.end) * BLOCK).min(len) - u64::from(blocks.start) * BLOCK
        };
        let count: usize = unread.iter().map(|blocks| (blocks.end - blocks.start) as usize).sum();
        let is_told = moved.len() <= MAX_MOVED_RUNS && are_separate(&moved, &unread, len);
        if count > MAX_CHANGED_BLOCKS || !is_told {
            return None;
        }
        let bytes = unread.iter().map(bytes).sum();
        let moved = Arc::new(moved);
        Some(Self { base, moved, unread, bytes, reading: 0, blocks: Vec::new() })
    }

    /// Starts to read, after `Start` was sent.
    pub(super) fn begin(&mut self, attempt: &mut SendAttempt, cx: &mut Context) {
        for runs in self.moved.chunks(cx.limits.max_items()) {
            cx.send(ToReceiver::Moved { file: attempt.file, runs: runs.to_vec() });
        }
        attempt.count_settled(cx, attempt.len - self.bytes);
        self.read_more(attempt, cx);
    }

    /// Reads the next blocks, or seals the file after the last block.
    pub(super) fn read_more(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let (handle, sums) = (attempt.handle, Sums::Take);
        while self.reading < READS && !self.unread.is_empty() {
            let (chunks, bytes) = self.take_fill(attempt.len, cx);
            let span = |block: u32| {
                let start = u64::from(block) * BLOCK;
                Span::new(start, (attempt.len - start).min(BLOCK) as u32)
            };
            let spans = chunks.iter().cloned().flatten().map(span).collect();
            let work = SenderWork::File(FileWork::Read { handle, spans, sums });
            cx.jobs.request_in_turn(
                WorkTurn::Own,
                work,
                SenderPending::Read { handle, chunks, bytes },
            );
            self.reading += 1;
        }
        if self.reading == 0 {
            let blocks = Arc::new(std::mem::take(&mut self.blocks));
            attempt.request_proof(cx, Sealing::Changes(self.base, Arc::clone(&self.moved), blocks));
        }
    }

    /// Takes blocks for up to one fill from a file of `len` bytes. Returns the blocks and the number of bytes in
    /// them.
    fn take_fill(&mut self, len: u64, cx: &Context) -> (Vec<Range<u32>>, u64) {
        let most = ((cx.limits.fill_bytes() / BLOCK) as u32).max(1);
        let (mut taken, mut count, mut bytes) = (Vec::new(), 0, 0);
        while count < most
            && taken.len() < cx.limits.max_items()
            && let Some(range) = self.unread.front_mut()
        {
            let end = range.end.min(range.start + (most - count));
            let blocks = range.start..end;
            count += end - range.start;
            bytes += (u64::from(end) * BLOCK).min(len) - u64::from(range.start) * BLOCK;
            range.start = end;
            if range.start == range.end {
                self.unread.pop_front();
            }
            taken.push(blocks);
        }
        (taken, bytes)
    }

    /// Records blocks that were read.
    pub(super) fn record_sums(&mut self, blocks: &[Range<u32>], sums: Vec<Chunk>) {
        self.reading -= 1;
        self.blocks.extend(blocks.iter().cloned().flatten().zip(sums));
    }
}

/// True if `moved` are ascending runs of whole blocks of a file of `len` bytes, and none overlaps blocks to be read.
fn are_separate(moved: &[MovedRun], unread: &VecDeque<Range<u32>>, len: u64) -> bool {
    let (mut end, mut unread) = (0, unread.iter().peekable());
    moved.iter().all(|run| {
        while unread.next_if(|blocks| u64::from(blocks.end) <= run.to.into()).is_some() {}
        let is_free = unread.peek().is_none_or(|blocks| u64::from(blocks.start) >= run.end());
        let is_next = run.blocks > 0 && u64::from(run.to) >= end && run.end() <= len / BLOCK;
        end = run.end();
        is_free && is_next
    })
}
