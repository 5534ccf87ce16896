//! A file that is sent in blocks of one length, whole or from an offset on.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::Span;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::recipe::Chunk;
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::message::{BriefDigest, Payload, ToReceiver};
use crate::report::Trouble;

use super::super::ask::{Body, FileWork, Sealing, SenderWork, Sums};
use super::super::context::Context;
use super::super::pending::SenderPending;
use super::attempt::SendAttempt;

/// Most reads under way for one file.
const READS: usize = 4;

const SHORTER: &str = "it is shorter than what is to be added to";
const TOO_LONG: &str = "it is too long";

/// Blocks of a file, as far as they were read.
#[derive(Debug)]
pub(super) struct BlockSender {
    pub(super) spec: ChunkerSpec,
    /// Offset of the first block.
    start: u64,
    next: u32,
    count: u32,
    /// True if the receiver requested the blocks. Then `Start` has arrived there, and the blocks may overtake other
    /// frames.
    pub(super) asked: bool,
    reading: usize,
    /// Requested blocks. No memory is reserved by the length of the file, which may be all holes.
    blocks: Vec<Option<Chunk>>,
    /// True if the whole file was read when it was opened: then the handle holds nothing open.
    pub(super) at_once: bool,
}

impl BlockSender {
    pub(super) const fn new(start: u64, spec: ChunkerSpec) -> Self {
        Self {
            spec,
            start,
            next: 0,
            count: 0,
            asked: false,
            reading: 0,
            blocks: Vec::new(),
            at_once: false,
        }
    }

    /// Length of a block, in bytes.
    const fn block_bytes(&self) -> u64 {
        self.spec.max_len() as u64
    }

    /// Computes the number of blocks of a file of `len` bytes.
    pub(super) fn count_blocks(&mut self, attempt: &SendAttempt, len: u64) -> Result<(), Trouble> {
        let rest = len.checked_sub(self.start).ok_or_else(|| attempt.retry_trouble(SHORTER))?;
        let count = u32::try_from(rest.div_ceil(self.block_bytes()));
        self.count = count.map_err(|_| attempt.retry_trouble(TOO_LONG))?;
        Ok(())
    }

    /// Sends a whole file that is a single block, or empty, in one frame.
    pub(super) fn send_single(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        meta: Meta,
        Body { payload, sealed }: Body,
    ) {
        let (file, digest) = (attempt.file, BriefDigest::of(&sealed.digest));
        self.at_once = true;
        let is_as_listed = cx.options.metadata.chmod.is_empty()
            && cx.entries.get(&file).is_some_and(|listed| listed.is_as(&meta));
        let meta = (!is_as_listed).then_some(meta);
        let payload = if attempt.len > 0 { payload } else { Payload::Plain(Vec::new()) };
        cx.send(match meta {
            None if cx.abilities.short_forms.proofs => {
                ToReceiver::ShortSingle { file, digest: digest.prefix(), payload }
            }
            meta => ToReceiver::Single { file, meta, digest, payload },
        });
        attempt.count_settled(cx, attempt.len);
    }

    /// Sends a whole file that is a single block, or empty.
    pub(super) fn send_whole(&mut self, attempt: &mut SendAttempt, cx: &mut Context, body: Body) {
        let (file, Body { payload, sealed }) = (attempt.file, body);
        self.at_once = true;
        if attempt.len > 0 {
            let chunks = std::iter::once(0..1).collect();
            cx.send(ToReceiver::Fill { file, chunks, payload });
        }
        attempt.send_end(cx, sealed);
        attempt.count_settled(cx, attempt.len);
    }

    /// Takes the receiver's request for all blocks of a file with several blocks; allowed once.
    pub(super) fn receive_block_request(&mut self, needed: &[Range<u32>]) -> Result<(), PeerError> {
        let is_all = self.count > 1 && needed == std::slice::from_ref(&(0..self.count));
        if !is_all || std::mem::replace(&mut self.asked, true) {
            return Err(PeerError::Unexpected("a Need frame in this state"));
        }
        Ok(())
    }

    /// Reads the next blocks, or seals the file after the last block.
    pub(super) fn read_more(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let (handle, sums) = (attempt.handle, Sums::Take);
        while self.reading < READS && self.next < self.count {
            let start = self.start + u64::from(self.next) * self.block_bytes();
            let len = (attempt.len - start).min(self.block_bytes()) as u32;
            let work = SenderWork::File(FileWork::Read {
                handle,
                spans: vec![Span::new(start, len)],
                sums,
            });
            let chunks = std::iter::once(self.next..self.next + 1).collect();
            cx.jobs.request(work, SenderPending::Read { handle, chunks, bytes: u64::from(len) });
            self.blocks.push(None);
            self.next += 1;
            self.reading += 1;
        }
        if self.reading == 0 && self.next == self.count {
            let chunks: Option<Vec<_>> = self.blocks.iter().copied().collect();
            let proof = Sealing::Chunks(Arc::new(chunks.expect("every block was read")));
            attempt.request_proof(cx, proof);
        }
    }

    /// Records a block that was read.
    pub(super) fn record_sums(&mut self, block: u32, sums: &[Chunk]) {
        self.reading -= 1;
        self.blocks[block as usize] = sums.first().copied();
    }
}

/// Returns the frame with the literals that were read.
pub(super) fn fill_frame(
    attempt: &SendAttempt,
    chunks: Vec<Range<u32>>,
    payload: Payload,
) -> ToReceiver {
    ToReceiver::Fill { file: attempt.file, chunks, payload }
}
