//! Fills a new version with copies, literals and rebuilt gaps.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use deltic_core::recipe::Chunk;
use deltic_core::{ChunkerSpec, DataMap, Fingerprint, Fingerprinter, Key, Span};
use deltic_engine::assemble::{BlockPieces, PieceSource, WriteBlock, WriteBuffer, WritePiece};
use deltic_engine::check::all_proven;
use deltic_engine::gap::GapRebuild;
use deltic_engine::pack::unpacked;
use deltic_engine::{ContentMismatch, journal};
use deltic_protocol::limits::Limits;
use deltic_protocol::message::Payload;
use deltic_protocol::receiver::{self, CopyRun, GapPatch, KeptChunk, Mended, NewVersion};
use deltic_protocol::work::{ErrorAction, Handle, WorkError};
use deltic_store::{Content, Rebuild, Resumable, Store, StoreError};
use deltic_tree::RelPath;

use super::slot::{AttemptFiles, Growing, Slot};
use super::{DestinationWorker, shrunk, unproven};
use crate::lock::lock;
use crate::stage::{Stage, reading, within};
use crate::steps::perform;
use crate::work_error;

/// Bytes of the new version that are copied at a time.
const REPEATED_BYTES: usize = 512 << 10;

impl<S: Store> DestinationWorker<S> {
    /// Returns the new version of an attempt; the first call creates its staged file.
    pub(super) fn growing(
        &self,
        handle: Handle,
        path: &RelPath,
        new: NewVersion,
    ) -> Result<Arc<Growing<S>>, StoreError> {
        let slot = self.slot(handle);
        let mut growing = lock(&slot.growing);
        if let Some(growing) = &*growing {
            return Ok(Arc::clone(growing));
        }
        let rebuild = self.create_staged(path, new.len, new.map.as_deref())?;
        // Another session cannot check the bytes before a tail, nor blocks with stored sums. Changed blocks are few, and
        // are sent again.
        let is_told = new.from == 0
            && new.spec != Limits::changed_file_chunker()
            && !self.uses_stored_sums(&new.spec);
        if self.keeps_notes() && is_told && journal::is_kept(new.len) {
            let version = journal::version_note(&new, &self.key_of(&slot), self.agreed.terms);
            let mut notes = std::iter::once(version).chain(journal::data(&new));
            let noted = notes.try_for_each(|note| rebuild.note(&note));
            slot.noted.store(noted.is_ok(), Ordering::Relaxed);
        }
        // The first block of a tail would wait for the bytes before it, so a tail is not buffered.
        let most = self.buffered_bytes;
        let buffer =
            (new.from == 0).then(|| Mutex::new(WriteBuffer::new(new.transferred_len(), most)));
        let is_read = new.from == 0 && new.map.is_none();
        let digest = (is_read && self.hashes_written()).then(Mutex::default);
        let made = Arc::new(Growing { rebuild, new, buffer, digest });
        *growing = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Creates a staged file of `len` bytes, with the holes of `map`.
    pub(super) fn create_staged(
        &self,
        path: &RelPath,
        len: u64,
        map: Option<&DataMap>,
    ) -> Result<S::Rebuild, StoreError> {
        let rebuild = self.drops.with_room(|| match map {
            Some(map) => self.store.create_sparse(path, len, map.data_len()),
            None => self.store.create(path, len),
        })?;
        map.into_iter().flat_map(DataMap::holes).try_for_each(|hole| rebuild.clear(hole))?;
        Ok(rebuild)
    }

    /// Copies ranges with shareable blocks. Other ranges are queued, with the place where their bytes will be read.
    pub(super) fn copy(
        &self,
        files: AttemptFiles<'_, S>,
        runs: &[CopyRun],
        chunks: Vec<KeptChunk>,
    ) -> Result<(), WorkError> {
        let AttemptFiles { slot, growing, .. } = files;
        growing.hash_no_more();
        let rebuild = &growing.rebuild;
        let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len));
        write_over(rebuild, &slot.kept, spans).map_err(|error| work_error(&error))?;
        let mut pieces = Vec::with_capacity(runs.len());
        for CopyRun { old, new_start } in runs {
            let (mut at, mut start) = (old.start, *new_start);
            for (snapshot, part) in slot.parts(*old) {
                let is_replaced = slot.is_replaced(snapshot);
                for (part, place) in growing.parts(part, start) {
                    let len = part.end - part.start;
                    rebuild.note_origin(place.clone(), is_replaced.then_some(part.start));
                    let shared =
                        growing.buffer.is_none() || rebuild.may_share(snapshot, &part, place.start);
                    let from = if shared {
                        let copy = || rebuild.copy(snapshot, part.clone(), place.start);
                        self.drops.with_room(copy).map_err(|error| work_error(&error))?;
                        PieceSource::Written(len)
                    } else {
                        PieceSource::Old(Span::new(at, len as u32))
                    };
                    pieces.push(WritePiece { start, from });
                    (at, start) = (at + len, start + len);
                }
            }
        }
        self.add(files, pieces, chunks)
    }

    /// Copies ranges within the new version, after writing buffered bytes that the copies may need.
    pub(super) fn repeat(
        &self,
        files: AttemptFiles<'_, S>,
        runs: &[CopyRun],
    ) -> Result<(), WorkError> {
        let AttemptFiles { slot, growing, .. } = files;
        if let Some(buffer) = &growing.buffer {
            let known = lock(buffer).take_known();
            self.write_blocks(files, known)?;
        }
        let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len));
        write_over(&growing.rebuild, &slot.kept, spans).map_err(|error| work_error(&error))?;
        let mut pieces = Vec::with_capacity(runs.len());
        for CopyRun { old, new_start } in runs {
            for from in (0..u64::from(old.len)).step_by(REPEATED_BYTES) {
                let len = REPEATED_BYTES.min((u64::from(old.len) - from) as usize);
                self.buffers.with(len, |bytes| {
                    let read = reading(|| growing.read_at(old.start + from, bytes));
                    if read.map_err(|error| retry_whole_error(&error))? < len {
                        return Err(shrunk());
                    }
                    self.write_at(growing, new_start + from, bytes)
                })?;
            }
            growing.note_new(*new_start..new_start + u64::from(old.len));
            let from = PieceSource::Written(old.len.into());
            pieces.push(WritePiece { start: *new_start, from });
        }
        self.add(files, pieces, Vec::new())
    }

    /// Unpacks a payload, checks each chunk and writes it, and makes the copies between the chunks.
    pub(super) fn write(
        &self,
        files: AttemptFiles<'_, S>,
        pieces: &[receiver::PayloadChunk],
        payload: &Payload,
        between: &[CopyRun],
    ) -> Result<Vec<Fingerprint>, WorkError> {
        let AttemptFiles { path, slot, growing } = files;
        let len = pieces.iter().map(|piece| piece.span.len as usize).sum();
        let bytes = within(Stage::Pack, || unpacked(payload, len));
        let bytes = bytes.ok_or_else(|| unproven(path))?;
        let fingerprints = within(Stage::Sum, || {
            all_proven(&self.fingerprinter_for(slot, &growing.new.spec), pieces, &bytes)
        });
        let fingerprints = fingerprints.ok_or_else(|| unproven(path))?;
        let named: Vec<_> = pieces.iter().zip(&fingerprints).collect();
        let (mut done, mut rest) = (0, &bytes[..]);
        for copy in between {
            let before =
                |(piece, _): &(&receiver::PayloadChunk, _)| piece.span.start < copy.new_start;
            let at = done + named[done..].partition_point(before);
            let len = pieces[done..at].iter().map(|piece| piece.span.len as usize).sum();
            let (these, after) = rest.split_at(len);
            self.put(files, named[done..at].iter().copied(), these)?;
            self.copy(files, &[*copy], Vec::new())?;
            (done, rest) = (at, after);
        }
        self.put(files, named[done..].iter().copied(), rest)?;
        Ok(fingerprints)
    }

    /// Rebuilds gaps, and writes the chunks that match the announced fingerprints.
    pub(super) fn mend(
        &self,
        files: AttemptFiles<'_, S>,
        gaps: &[GapPatch],
        bytes: u32,
        payload: &Payload,
    ) -> Result<Vec<Mended>, WorkError> {
        let AttemptFiles { path, slot, growing } = files;
        let deltas = within(Stage::Pack, || unpacked(payload, bytes as usize));
        let deltas = deltas.ok_or_else(|| unproven(path))?;
        let names = self.fingerprinter_for(slot, &growing.new.spec);
        let task = GapRebuild::new(&names, gaps, &deltas);
        let read = |spans: &[Span], into: &mut [u8]| slot.read(spans, into).map(<[u8]>::len);
        let rebuilt = perform(&self.buffers, Stage::Sum, task, read);
        let rebuilt = rebuilt.map_err(|error| work_error(&error))?;
        let (mended, new) = rebuilt.map_err(|ContentMismatch| unproven(path))?;
        let gaps = gaps.iter().zip(&mended);
        let chunks = gaps.flat_map(|(gap, mended)| gap.pieces.iter().zip(&mended.fingerprints));
        let chunks = chunks.filter_map(|(piece, of)| Some((piece, of.as_ref()?)));
        self.put(files, chunks, &new)?;
        Ok(mended)
    }

    /// Adds chunks that were sent; the chunks lie end to end in `bytes`. If many bytes are already buffered, the
    /// chunks are written at once.
    fn put<'a>(
        &self,
        files: AttemptFiles<'_, S>,
        chunks: impl Iterator<Item = (&'a receiver::PayloadChunk, &'a Fingerprint)>,
        bytes: &[u8],
    ) -> Result<(), WorkError> {
        let AttemptFiles { slot, growing, .. } = files;
        let (mut rest, mut pieces, mut kept) = (bytes, Vec::<(u64, &[u8])>::new(), Vec::new());
        for (receiver::PayloadChunk { span, .. }, fingerprint) in chunks {
            let (chunk, behind) = rest.split_at(span.len as usize);
            kept.push(KeptChunk {
                start: span.start,
                chunk: Chunk { len: span.len, fingerprint: *fingerprint },
            });
            // Adjacent chunks become one piece.
            match pieces.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == span.start => {
                    let from = bytes.len() - rest.len() - run.len();
                    *run = &bytes[from..from + run.len() + chunk.len()];
                }
                _ => pieces.push((span.start, chunk)),
            }
            rest = behind;
        }
        let spans = kept.iter().map(|kept| Span::new(kept.start, kept.chunk.len));
        let voided = write_over(&growing.rebuild, &slot.kept, spans);
        voided.map_err(|error| work_error(&error))?;
        let held =
            (growing.buffer.as_ref()).is_some_and(|buffer| lock(buffer).has_room(bytes.len()));
        let mut gathered = Vec::with_capacity(pieces.len());
        for (start, bytes) in pieces {
            growing.note_new(start..start + bytes.len() as u64);
            let from = if held {
                PieceSource::Sent(bytes.into())
            } else {
                self.write_at(growing, start, bytes)?;
                PieceSource::Written(bytes.len() as u64)
            };
            gathered.push(WritePiece { start, from });
        }
        self.add(files, gathered, kept)
    }

    /// Adds pieces and the chunks made of them, and writes the blocks that are now complete.
    fn add(
        &self,
        files: AttemptFiles<'_, S>,
        pieces: Vec<WritePiece<'_>>,
        chunks: Vec<KeptChunk>,
    ) -> Result<(), WorkError> {
        let AttemptFiles { slot, growing, .. } = files;
        let Some(buffer) = &growing.buffer else {
            self.note(files, chunks);
            return Ok(());
        };
        let noted = if slot.noted.load(Ordering::Relaxed) { &chunks[..] } else { &[] };
        let parts = BlockPieces::new(pieces);
        let complete = lock(buffer).take(parts, noted);
        self.write_blocks(files, complete)
    }

    /// Writes blocks, and notes the chunks that are complete with them.
    fn write_blocks(
        &self,
        files: AttemptFiles<'_, S>,
        blocks: Vec<WriteBlock<'_>>,
    ) -> Result<(), WorkError> {
        for block in blocks {
            self.write_block(files, &block)?;
            self.note(files, block.written());
        }
        Ok(())
    }

    /// Assembles a block and writes the parts that are not written yet.
    fn write_block(
        &self,
        files: AttemptFiles<'_, S>,
        block: &WriteBlock<'_>,
    ) -> Result<(), WorkError> {
        let AttemptFiles { slot, growing, .. } = files;
        for run in block.runs() {
            if let Some(bytes) = run.single_received_piece() {
                self.write_at(growing, run.start(), bytes)?;
                continue;
            }
            self.buffers.with(run.byte_len(), |bytes| {
                run.put_sent(bytes);
                for (span, place) in run.old_spans() {
                    read_all(slot, span, &mut bytes[place])?;
                }
                let old = run.old_spans().map(|(span, _)| span);
                slot.check_unchanged(old).map_err(|error| work_error(&error))?;
                let content = if run.is_old() { Content::Old } else { Content::OldAndSent };
                let write = || {
                    let put = |at, part: &[u8]| growing.rebuild.write_old(at, part, content);
                    growing.write_parts(run.start(), bytes, put)
                };
                self.write_and_hash(growing, run.start(), bytes, write)
            })?;
        }
        Ok(())
    }

    fn write_at(&self, growing: &Growing<S>, start: u64, bytes: &[u8]) -> Result<(), WorkError> {
        let put = |at, part: &[u8]| growing.rebuild.write(at, part);
        self.write_and_hash(growing, start, bytes, || growing.write_parts(start, bytes, put))
    }

    /// Calls `write` to write `bytes`, and hashes the bytes while they are in the CPU cache.
    fn write_and_hash(
        &self,
        growing: &Growing<S>,
        start: u64,
        bytes: &[u8],
        write: impl FnMut() -> Result<(), StoreError>,
    ) -> Result<(), WorkError> {
        let write = || self.drops.with_room(write);
        growing.write_hashed(start, bytes, write).map_err(|error| work_error(&error))
    }

    /// Notes in the journal the chunks that are staged.
    fn note(&self, files: AttemptFiles<'_, S>, mut chunks: Vec<KeptChunk>) {
        let AttemptFiles { slot, growing, .. } = files;
        if !slot.noted.load(Ordering::Relaxed) {
            return;
        }
        chunks.retain(|kept| growing.has_staged(kept.start..kept.end()));
        if !chunks.is_empty() {
            // Chunks without a note are sent again after a kill.
            let _ = growing.rebuild.note(&journal::chunks_note(chunks, self.agreed.terms));
        }
    }

    /// Returns the fingerprinter of chunks that `spec` cuts.
    pub(super) fn fingerprinter_for(&self, slot: &Slot<S>, spec: &ChunkerSpec) -> Fingerprinter {
        match (self.agreed.summed_blocks(spec), &slot.named) {
            (Some(blocks), _) => blocks.fingerprinter(),
            (None, Some((_, names))) => names.clone(),
            (None, None) => self.agreed.names.clone(),
        }
    }

    /// True if the blocks that `spec` cuts have fingerprints made of stored sums.
    pub(super) fn uses_stored_sums(&self, spec: &ChunkerSpec) -> bool {
        self.agreed.summed_blocks(spec).is_some()
    }

    pub(super) fn key_of(&self, slot: &Slot<S>) -> Key {
        slot.named.as_ref().map_or_else(|| self.agreed.terms.key, |(key, _)| *key)
    }
}

/// Returns the error of reading the new version back. A store that cannot read back gets another attempt without copies
/// within the new version.
fn retry_whole_error(error: &StoreError) -> WorkError {
    match error {
        StoreError::Unsupported { .. } => {
            WorkError { then: ErrorAction::Retry, ..work_error(error) }
        }
        _ => work_error(error),
    }
}

/// Fills `room` with a span of the old versions.
fn read_all<S: Store>(slot: &Slot<S>, span: Span, room: &mut [u8]) -> Result<(), WorkError> {
    let len = room.len();
    let read = reading(|| slot.read(&[span], room).map(<[u8]>::len));
    let read = read.map_err(|error| work_error(&error))?;
    if read < len { Err(shrunk()) } else { Ok(()) }
}

/// Notes in the journal that the journaled ranges in `spans` are about to be overwritten.
fn write_over<R: Rebuild>(
    rebuild: &R,
    kept: &[Range<u64>],
    spans: impl IntoIterator<Item = Span>,
) -> Result<(), StoreError> {
    journal::voids(kept, spans).try_for_each(|note| rebuild.note(&note))
}
