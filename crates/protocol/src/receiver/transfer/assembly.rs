//! The incomplete new version: the bytes in place, and the copies that wait.

use deltic_core::delta::{DeltaOp, WriteCover};
use deltic_core::recipe::Chunk;
use deltic_core::{Index, Span};

use crate::message::Payload;
use crate::receiver::ask::{
    CopyRun, KeptChunk, NewVersion, NewVersionWork, PayloadChunk, ReceiverWork,
};
use crate::receiver::pending::FilePending;
use crate::work::WorkTurn;

use super::copies::{batches, op_bytes};
use super::file_context::{FileContext, TransferOutcome};

/// A new version that is being assembled.
#[derive(Debug)]
pub(super) struct FileAssembly {
    pub(super) new: NewVersion,
    cover: WriteCover,
    pub(super) matched: MatchedBytes,
    pub(super) literal: u64,
    /// Copies that are held back, while all matches so far lie at the same offset in the version in place: this
    /// version may prove unchanged. `None` once copies are started as they are found.
    held: Option<Vec<DeltaOp>>,
    /// Number of copies and writes under way.
    jobs: usize,
    /// The order of copies and writes.
    turn: WorkTurn,
}

/// Received chunks of a payload.
#[derive(Debug)]
pub(super) struct LiteralChunks {
    /// Numbers of the chunks. `pieces` holds the places of the same chunks in the new version.
    pub(super) chunks: Vec<u32>,
    pub(super) pieces: Vec<PayloadChunk>,
    pub(super) payload: Payload,
    /// Length of the chunks in bytes.
    pub(super) bytes: usize,
}

/// Bytes of a file that the receiver already has.
#[derive(Debug)]
pub(super) struct MatchedBytes {
    pub(super) bytes: u64,
    /// Number of matched bytes that come from an interrupted run.
    pub(super) resumed: u64,
    /// The offset in the old versions at which leftovers of killed runs begin.
    left_at: u64,
}

impl MatchedBytes {
    /// Counts bytes found in the old versions from `start` on.
    pub(super) const fn count_found(&mut self, start: u64, len: u64) {
        self.bytes += len;
        if start >= self.left_at {
            self.resumed += len;
        }
    }
}

impl FileAssembly {
    /// Creates a new version without any bytes in place.
    pub(super) fn new(new: NewVersion, turn: WorkTurn) -> Self {
        Self {
            cover: WriteCover::new(new.transferred_len()),
            new,
            matched: MatchedBytes { bytes: 0, resumed: 0, left_at: u64::MAX },
            literal: 0,
            held: Some(Vec::new()),
            jobs: 0,
            turn,
        }
    }

    /// Sets the offset in the old versions at which leftovers of killed runs begin.
    pub(super) const fn set_leftover_start(&mut self, left_at: u64) {
        self.matched.left_at = left_at;
    }

    /// Keeps the first `from` bytes unchanged. Only the later bytes are transferred.
    pub(super) fn keep_start(&mut self, from: u64) {
        (self.new.from, self.matched.bytes) = (from, from);
        self.cover.add(0, from).expect("it is no longer than the file, and nothing was there");
    }

    /// Starts copies as they are found from now on. The new version is partly written, so the version in place does
    /// not equal the new version.
    pub(super) fn stop_holding_copies(&mut self) {
        self.held = None;
    }

    /// Counts bytes that an interrupted run left in place.
    pub(super) fn count_kept(&mut self, start: u64, len: u64) {
        self.matched.bytes += len;
        self.matched.resumed += len;
        self.mark_written(start, len);
    }

    /// Marks bytes of the new version as written.
    pub(super) fn mark_written(&mut self, start: u64, len: u64) {
        let covered = self.cover.add(start, len);
        covered.expect("a group or chunk comes once, in its own place");
    }

    /// Number of bytes that are matched, received or in holes.
    pub(super) fn settled_bytes(&self) -> u64 {
        self.matched.bytes + self.literal + self.hole_bytes()
    }

    /// Number of bytes in holes that are not transferred.
    pub(super) fn hole_bytes(&self) -> u64 {
        self.new.len - self.new.transferred_len()
    }

    /// True while copies or writes are under way.
    pub(super) const fn is_busy(&self) -> bool {
        self.jobs > 0
    }

    /// True once every byte is in place.
    pub(super) fn is_complete(&self) -> bool {
        self.cover.is_complete()
    }

    /// True while copies are held back.
    pub(super) const fn holds_copies(&self) -> bool {
        self.held.is_some()
    }

    /// True if the version in place, of `len` bytes, equals the new version.
    pub(super) fn is_identical(&self, len: Option<u64>) -> bool {
        let held = self.held.as_ref().map(|held| held.iter().map(op_bytes).sum::<u64>());
        let told = self.new.transferred_len();
        held == Some(told) && len == Some(told)
    }

    /// Starts the copies in `found`. While all copies keep bytes at their places in the old version, the file may be
    /// unchanged, and the copies are held back. `index` holds the chunks of the old versions.
    pub(super) fn start_copies(
        &mut self,
        fx: &mut FileContext<'_>,
        found: Vec<DeltaOp>,
        differs: bool,
        index: Option<&Index>,
    ) {
        let in_place = fx.old.len_in_place().unwrap_or(0);
        let stays = |op: &DeltaOp| matches!(op, DeltaOp::Copy { old, new_start } if old.start == *new_start && old.end() <= in_place);
        let mut ops = found;
        if let Some(held) = &mut self.held {
            let identical = !differs && ops.iter().all(stays);
            held.append(&mut ops);
            if identical {
                return;
            }
            ops = self.held.take().unwrap_or_default();
        }
        if fx.cx.setting.options.dry_run {
            return fx.end_transfer(TransferOutcome::Differs);
        }
        let batches = batches(&ops);
        self.jobs += batches.len();
        for runs in batches {
            let chunks = index.map(|index| kept_chunks(index, &runs)).unwrap_or_default();
            let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len)).collect();
            let (handle, path) = (fx.handle, fx.path.clone());
            let pending = FilePending::Copy { handle, spans, chunks: chunks.len() };
            let work = ReceiverWork::New(NewVersionWork::Copy {
                handle,
                path,
                new: self.new.clone(),
                runs,
                chunks,
            });
            fx.cx.request_write(self.turn, work, pending);
        }
    }

    /// Copies bytes that repeat within the new version, which is otherwise complete.
    pub(super) fn copy_repeats(&mut self, fx: &mut FileContext<'_>, ops: &[DeltaOp]) {
        for runs in batches(ops) {
            self.jobs += 1;
            let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len)).collect();
            let (handle, path) = (fx.handle, fx.path.clone());
            let work = ReceiverWork::New(NewVersionWork::Repeat {
                handle,
                path,
                new: self.new.clone(),
                runs,
            });
            // The first repeat writes out data held back, which the other repeats read.
            let pending = FilePending::Copy { handle, spans, chunks: 0 };
            fx.cx.request_write(WorkTurn::Own, work, pending);
        }
    }

    /// Writes literals. Before each literal, the copies of `between` that lie before it in the new version are made.
    pub(super) fn write_literals(
        &mut self,
        fx: &mut FileContext<'_>,
        literals: LiteralChunks,
        between: Vec<CopyRun>,
    ) {
        self.jobs += 1;
        let LiteralChunks { chunks, pieces, payload, bytes } = literals;
        let copied = between.iter().map(|run| Span::new(run.new_start, run.old.len));
        let spans = pieces.iter().map(|piece| piece.span).chain(copied).collect();
        let (handle, path) = (fx.handle, fx.path.clone());
        let work = ReceiverWork::New(NewVersionWork::Write {
            handle,
            path,
            new: self.new.clone(),
            pieces,
            payload,
            between,
        });
        let pending = FilePending::Write { handle, chunks, spans, payload_bytes: bytes };
        fx.cx.request_write(self.turn, work, pending);
    }

    /// Counts a write that the caller requests itself, such as the rebuilding of gaps.
    pub(super) const fn count_job(&mut self) {
        self.jobs += 1;
    }

    /// Counts a copy or a write as done.
    pub(super) const fn end_job(&mut self) {
        self.jobs -= 1;
    }
}

/// Returns the chunks that the copies `runs` write, with their places in the new version.
fn kept_chunks(index: &Index, runs: &[CopyRun]) -> Vec<KeptChunk> {
    let chunks = runs.iter().flat_map(|run| {
        index.chunks_in(run.old).map(|(span, fingerprint)| KeptChunk {
            start: run.new_start + (span.start - run.old.start),
            chunk: Chunk { len: span.len, fingerprint },
        })
    });
    let mut chunks: Vec<_> = chunks.collect();
    // Many of these lists wait.
    chunks.shrink_to_fit();
    chunks
}
