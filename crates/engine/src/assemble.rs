//! Assembles a new version in memory, so that whole blocks are written with one call each.
//!
//! Scattered edits make a new version of tens of thousands of short spans, alternately copied and sent. Few spans begin
//! at a page boundary. Separate writes of these spans would cost two system calls each, touch pages twice, prevent
//! large pages, and make threads wait for each other. So spans are collected until a block is complete. The thread that
//! completes a block assembles the block in memory and writes it. Old bytes are read at that time.
//!
//! Law: a journal notes only written chunks. A chunk is noted after the last of its blocks was written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deltic_core::fingerprint::FINGERPRINT_BYTES;
use deltic_core::recipe::Chunk;
use deltic_core::{CodecError, Fingerprint, Put, Reader, Span};
use deltic_protocol::receiver::KeptChunk;

/// Size of a block in bytes: fits a second-level cache, and is aligned for large pages.
pub(crate) const BLOCK_BYTES: u64 = 512 << 10;
/// Largest number of received bytes in incomplete blocks. If the process is killed, at most this many bytes are lost.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Largest packed note, and growth step of the packed notes, in bytes.
const MAX_PACKED_BYTES: usize = 10 + 5 + 1 + FINGERPRINT_BYTES;
const PACKED_STEP_BYTES: usize = 1 << 10;

/// The incomplete blocks of a new version.
#[derive(Debug)]
pub struct WriteBuffer {
    len: u64,
    open: HashMap<u64, OpenBlock>,
    /// Received bytes in incomplete blocks.
    held: usize,
    /// Memory of piece lists and chunk notes of incomplete blocks, in bytes. Received content counts in `held`.
    kept: usize,
    /// Largest value of `kept`, above which incomplete blocks are written early.
    most_kept: usize,
}

/// A block with missing bytes.
#[derive(Debug, Default)]
struct OpenBlock {
    /// Number of known bytes, written or not.
    have: u64,
    /// Known pieces that are not written.
    pieces: Vec<WritePiece<'static>>,
    notes: BlockNotes,
}

/// A range of the new version with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePiece<'a> {
    /// Position in the new version.
    pub start: u64,
    /// Source of the bytes.
    pub from: PieceSource<'a>,
}

/// Source of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceSource<'a> {
    /// A span of the concatenated old versions.
    Old(Span),
    /// Bytes received from the peer.
    Sent(Cow<'a, [u8]>),
    /// Bytes that are already written. Holds the number of bytes.
    Written(u64),
}

/// Pieces split at block boundaries, sorted by block.
#[derive(Debug)]
pub struct BlockPieces<'a>(Vec<WritePiece<'a>>);

impl<'a> BlockPieces<'a> {
    /// Splits pieces at block boundaries.
    #[must_use]
    pub fn new(pieces: impl IntoIterator<Item = WritePiece<'a>>) -> Self {
        let mut parts: Vec<_> = pieces.into_iter().flat_map(WritePiece::by_blocks).collect();
        parts.sort_by_key(WritePiece::block);
        Self(parts)
    }
}

/// Chunks to note in the journal. A large file has hundreds of thousands of chunks in incomplete blocks, so they are
/// packed.
#[derive(Debug, Default)]
struct BlockNotes {
    /// Chunks within this block: start, length, and the fingerprint without trailing zeros.
    packed: Vec<u8>,
    shared: Vec<SharedChunk>,
}

/// A chunk in several blocks, with the number of its unwritten blocks.
#[derive(Clone, Debug)]
struct SharedChunk {
    chunk: KeptChunk,
    left: Arc<AtomicU32>,
}

impl BlockNotes {
    /// Adds a chunk. Returns the packed size in bytes.
    fn push(&mut self, KeptChunk { start, chunk }: &KeptChunk) -> usize {
        let before = self.packed.len();
        let name = chunk.fingerprint.as_bytes();
        let len = FINGERPRINT_BYTES - name.iter().rev().take_while(|byte| **byte == 0).count();
        // Doubling the capacity would waste half of the memory.
        if self.packed.capacity() - self.packed.len() < MAX_PACKED_BYTES {
            self.packed.reserve_exact(PACKED_STEP_BYTES);
        }
        self.packed.put_varint(*start);
        self.packed.put_varint(chunk.len.into());
        self.packed.put_u8(len as u8);
        self.packed.put_bytes(&name[..len]);
        self.packed.len() - before
    }

    /// Returns the packed chunks.
    fn unpacked(&self) -> impl Iterator<Item = KeptChunk> {
        let mut from = Reader::new(&self.packed);
        std::iter::from_fn(move || if from.is_empty() { None } else { unpack(&mut from).ok() })
    }
}

/// Decodes a chunk that [`BlockNotes::push`] encoded.
fn unpack(from: &mut Reader<'_>) -> Result<KeptChunk, CodecError> {
    let (start, len) = (from.varint()?, from.varint_u32()?);
    let (mut name, told) = ([0; FINGERPRINT_BYTES], from.u8()?);
    name[..told.into()].copy_from_slice(from.bytes(told.into())?);
    Ok(KeptChunk { start, chunk: Chunk { len, fingerprint: Fingerprint::from_bytes(name) } })
}

/// A block to be written: a complete block, or the known part of an incomplete block.
#[derive(Debug)]
pub struct WriteBlock<'a> {
    /// Pieces sorted by position.
    pieces: Vec<WritePiece<'a>>,
    notes: BlockNotes,
}

impl WriteBuffer {
    /// Creates a buffer for a version of `len` bytes. Above `most_kept` bytes of pieces and notes, incomplete blocks
    /// are written early. A file of 1 GiB with an edit every 25 kB takes 4 MiB.
    #[must_use]
    pub fn new(len: u64, most_kept: usize) -> Self {
        Self { len, open: HashMap::new(), held: 0, kept: 0, most_kept }
    }

    /// True if the buffer may hold `bytes` more received bytes.
    #[must_use]
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.held + bytes <= MAX_HELD_BYTES
    }

    /// True if no block is incomplete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds pieces and the chunks of these pieces. Each byte must be added once. Returns the blocks to write now, in
    /// order; these include incomplete blocks while too much memory is in use.
    pub fn take<'a>(
        &mut self,
        BlockPieces(parts): BlockPieces<'a>,
        chunks: &[KeptChunk],
    ) -> Vec<WriteBlock<'a>> {
        let mut ready: Vec<(u64, WriteBlock<'a>)> = Vec::new();
        for parts in parts.chunk_by(|one, next| one.block() == next.block()) {
            let no = parts[0].block();
            ready.extend(self.add_to_block(no, parts).map(|ready| (no, ready)));
        }
        for chunk in chunks {
            let blocks = block_range(chunk);
            let count = (blocks.end - blocks.start) as u32;
            let shared = (count > 1)
                .then(|| SharedChunk { chunk: *chunk, left: Arc::new(AtomicU32::new(count)) });
            for no in blocks {
                let mut kept = 0;
                let (notes, kept) = match ready.binary_search_by_key(&no, |(no, _)| *no) {
                    Ok(found) => (&mut ready[found].1.notes, &mut kept),
                    // The pieces of a chunk arrive with the chunk, so the block is in `ready` or in `open`.
                    Err(_) => (&mut self.open.entry(no).or_default().notes, &mut self.kept),
                };
                match &shared {
                    Some(shared) => notes.shared.push(shared.clone()),
                    None => *kept += notes.push(chunk),
                }
            }
        }
        ready.into_iter().map(|(_, ready)| ready).collect()
    }

    /// Returns the known pieces of all incomplete blocks, to be written now.
    pub fn take_known(&mut self) -> Vec<WriteBlock<'static>> {
        let mut known = Vec::new();
        for block in self.open.values_mut().filter(|block| !block.pieces.is_empty()) {
            self.held -= block.pieces.iter().map(WritePiece::sent).sum::<usize>();
            self.kept -= block.kept_bytes();
            let OpenBlock { pieces, notes, .. } = block;
            pieces.sort_unstable_by_key(|piece| piece.start);
            let (pieces, notes) = (std::mem::take(pieces), std::mem::take(notes));
            known.push(WriteBlock { pieces, notes });
        }
        known
    }

    /// Adds pieces to block `no`. Returns a complete block. While too much memory is in use, returns the unwritten part
    /// of an incomplete block.
    fn add_to_block<'a>(&mut self, no: u64, parts: &[WritePiece<'a>]) -> Option<WriteBlock<'a>> {
        let mut block = self.open.remove(&no).unwrap_or_default();
        block.have += parts.iter().map(WritePiece::len).sum::<u64>();
        let is_complete = block.have >= BLOCK_BYTES.min(self.len - no * BLOCK_BYTES);
        if !is_complete && self.kept <= self.most_kept {
            let unwritten = parts.iter().filter(|piece| !piece.is_written());
            self.held += parts.iter().map(WritePiece::sent).sum::<usize>();
            self.kept -= block.kept_bytes();
            block.pieces.extend(unwritten.cloned().map(WritePiece::into_owned));
            self.kept += block.kept_bytes();
            self.open.insert(no, block);
            return None;
        }
        self.kept -= block.kept_bytes();
        let OpenBlock { have, pieces, notes } = block;
        self.held -= pieces.iter().map(WritePiece::sent).sum::<usize>();
        if !is_complete {
            self.open.insert(no, OpenBlock { have, ..OpenBlock::default() });
        }
        let mut pieces: Vec<WritePiece<'a>> = pieces;
        pieces.extend_from_slice(parts);
        pieces.sort_unstable_by_key(|piece| piece.start);
        Some(WriteBlock { pieces, notes })
    }
}

impl OpenBlock {
    /// Memory of pieces and notes in bytes, without received bytes.
    fn kept_bytes(&self) -> usize {
        self.pieces.len() * size_of::<WritePiece<'_>>() + self.notes.packed.len()
    }
}

impl<'a> WriteBlock<'a> {
    /// Returns the runs to write. One system call writes one run.
    pub fn runs(&self) -> impl Iterator<Item = WriteRun<'_, 'a>> {
        let goes_on = |one: &WritePiece<'_>, next: &WritePiece<'_>| {
            one.is_written() == next.is_written() && one.end() == next.start
        };
        let runs = self.pieces.chunk_by(goes_on).filter(|run| !run[0].is_written());
        runs.map(WriteRun)
    }

    /// Marks the block as written. Returns the chunks that are now completely written.
    #[must_use]
    pub fn written(self) -> Vec<KeptChunk> {
        let complete = |shared: &&SharedChunk| shared.left.fetch_sub(1, Ordering::AcqRel) == 1;
        let shared = self.notes.shared.iter().filter(complete).map(|shared| shared.chunk);
        self.notes.unpacked().chain(shared).collect()
    }
}

/// Adjacent unwritten pieces of a block.
#[derive(Clone, Copy, Debug)]
pub struct WriteRun<'b, 'a>(&'b [WritePiece<'a>]);

impl<'b> WriteRun<'b, '_> {
    /// Returns the position in the new version.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.0[0].start
    }

    /// Returns the length in bytes, at most the size of a block.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        (self.0[self.0.len() - 1].end() - self.start()) as usize
    }

    /// Returns the bytes of the run if the run is a single received piece. Such a run needs no buffer.
    #[must_use]
    pub fn single_received_piece(&self) -> Option<&'b [u8]> {
        match self.0 {
            [WritePiece { from: PieceSource::Sent(bytes), .. }] => Some(bytes),
            _ => None,
        }
    }

    /// Copies the received bytes to their positions in `run`, a buffer of [`byte_len`](Self::byte_len) bytes.
    pub fn put_sent(&self, run: &mut [u8]) {
        for piece in self.0 {
            if let PieceSource::Sent(bytes) = &piece.from {
                let from = (piece.start - self.start()) as usize;
                run[from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Returns the old spans to read, each with its range in the run's buffer.
    pub fn old_spans(&self) -> impl Iterator<Item = (Span, Range<usize>)> + Clone {
        let start = self.start();
        self.0.iter().filter_map(move |piece| {
            let PieceSource::Old(span) = piece.from else { return None };
            let from = (piece.start - start) as usize;
            Some((span, from..from + span.len as usize))
        })
    }

    /// True if the run has only old bytes.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.old_spans().count() == self.0.len()
    }
}

impl<'a> WritePiece<'a> {
    fn len(&self) -> u64 {
        match &self.from {
            PieceSource::Old(span) => span.len.into(),
            PieceSource::Sent(bytes) => bytes.len() as u64,
            PieceSource::Written(len) => *len,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.len()
    }

    const fn is_written(&self) -> bool {
        matches!(self.from, PieceSource::Written(_))
    }

    fn sent(&self) -> usize {
        if let PieceSource::Sent(bytes) = &self.from { bytes.len() } else { 0 }
    }

    const fn block(&self) -> u64 {
        self.start / BLOCK_BYTES
    }

    /// Splits a piece at block boundaries.
    fn by_blocks(self) -> impl Iterator<Item = Self> {
        let mut rest = Some(self).filter(|piece| piece.len() > 0);
        std::iter::from_fn(move || {
            let piece = rest.take()?;
            let room = (piece.block() + 1) * BLOCK_BYTES - piece.start;
            if piece.len() <= room {
                return Some(piece);
            }
            let (part, behind) = piece.split(room);
            rest = Some(behind);
            Some(part)
        })
    }

    /// Splits a piece after `len` bytes.
    fn split(self, len: u64) -> (Self, Self) {
        let Self { start, from } = self;
        let (one, other) = match from {
            PieceSource::Old(span) => {
                let (len, rest) = (len as u32, span.len - len as u32);
                let behind = Span::new(span.start + u64::from(len), rest);
                (PieceSource::Old(Span::new(span.start, len)), PieceSource::Old(behind))
            }
            PieceSource::Sent(Cow::Borrowed(bytes)) => {
                let (one, other) = bytes.split_at(len as usize);
                (PieceSource::Sent(one.into()), PieceSource::Sent(other.into()))
            }
            PieceSource::Sent(Cow::Owned(mut bytes)) => {
                let other = bytes.split_off(len as usize);
                (PieceSource::Sent(bytes.into()), PieceSource::Sent(other.into()))
            }
            PieceSource::Written(all) => {
                (PieceSource::Written(len), PieceSource::Written(all - len))
            }
        };
        (Self { start, from: one }, Self { start: start + len, from: other })
    }

    fn into_owned(self) -> WritePiece<'static> {
        let from = match self.from {
            PieceSource::Old(span) => PieceSource::Old(span),
            PieceSource::Sent(bytes) => PieceSource::Sent(Cow::Owned(bytes.into_owned())),
            PieceSource::Written(len) => PieceSource::Written(len),
        };
        WritePiece { start: self.start, from }
    }
}

/// Returns the numbers of the blocks that a chunk overlaps.
fn block_range(chunk: &KeptChunk) -> Range<u64> {
    chunk.start / BLOCK_BYTES..chunk.end().div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 3 * BLOCK_BYTES + 5;
    const MAX_KEPT_BYTES: usize = 1 << 20;

    fn old(start: u64, len: u64) -> WritePiece<'static> {
        WritePiece { start, from: PieceSource::Old(Span::new(7 + start, len as u32)) }
    }

    fn sent(start: u64, bytes: &[u8]) -> WritePiece<'_> {
        WritePiece { start, from: PieceSource::Sent(bytes.into()) }
    }

    fn chunk(start: u64, len: u64) -> KeptChunk {
        let fingerprint = Fingerprint::from_bytes([9; 32]);
        KeptChunk { start, chunk: Chunk { len: len as u32, fingerprint } }
    }

    #[test]
    fn a_block_is_ready_when_its_last_piece_is_known() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        assert!(
            buffer.take(BlockPieces::new([old(0, 1000), old(1256, BLOCK_BYTES)]), &[]).is_empty()
        );
        let bytes = [1; 256];
        let ready = buffer.take(BlockPieces::new([sent(1000, &bytes)]), &[]);
        let pieces: Vec<_> = ready.iter().map(|ready| ready.pieces.clone()).collect();
        let expected = [vec![old(0, 1000), sent(1000, &bytes), old(1256, BLOCK_BYTES - 1256)]];
        assert_eq!(pieces, expected);
        assert!(!buffer.is_done());
        // Part of the second block is known.
        let rest = old(BLOCK_BYTES + 1256, LEN - BLOCK_BYTES - 1256);
        assert_eq!(buffer.take(BlockPieces::new([rest]), &[]).len(), 3);
        assert!(buffer.is_done());
    }

    #[test]
    fn a_chunk_is_noted_when_its_last_block_is_written() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        let within = chunk(10, 100);
        let across = chunk(BLOCK_BYTES - 50, 100);
        let first = old(0, BLOCK_BYTES + 50);
        let mut ready = buffer.take(BlockPieces::new([first]), &[within, across]);
        assert_eq!(ready.len(), 1);
        assert_eq!(ready.remove(0).written(), [within]);
        let mut ready =
            buffer.take(BlockPieces::new([old(BLOCK_BYTES + 50, BLOCK_BYTES - 50)]), &[]);
        assert_eq!(ready.remove(0).written(), [across]);
    }

    #[test]
    fn packed_chunks_are_unpacked_unchanged() {
        let names = [[9; 32], [0; 32], [[7; 16], [0; 16]].concat().try_into().unwrap()];
        let chunks: Vec<_> = (0..names.len() as u64)
            .map(|no| {
                let fingerprint = Fingerprint::from_bytes(names[no as usize]);
                KeptChunk { start: 10 * no, chunk: Chunk { len: 1 << no, fingerprint } }
            })
            .collect();
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        assert!(buffer.take(BlockPieces::new([old(0, 1000)]), &chunks).is_empty());
        let mut ready = buffer.take(BlockPieces::new([old(1000, BLOCK_BYTES - 1000)]), &[]);
        assert_eq!(ready.remove(0).written(), chunks);
    }

    fn runs<'a>(ready: &WriteBlock<'a>) -> Vec<Vec<WritePiece<'a>>> {
        ready.runs().map(|run| run.0.to_vec()).collect()
    }

    #[test]
    fn the_memory_of_incomplete_blocks_is_bounded() {
        let each = 64;
        let count = MAX_KEPT_BYTES as u64 / 16;
        for noted in [true, false] {
            let (mut buffer, mut written, mut runs_written) =
                (WriteBuffer::new(1 << 40, MAX_KEPT_BYTES), 0, 0);
            for no in 0..count {
                let start = no * BLOCK_BYTES;
                let chunks = [chunk(start, each)];
                let ready = buffer
                    .take(BlockPieces::new([old(start, each)]), if noted { &chunks } else { &[] });
                for ready in ready {
                    runs_written += runs(&ready).len();
                    written += ready.written().len();
                }
                assert!(buffer.kept <= MAX_KEPT_BYTES + 200, "{}", buffer.kept);
            }
            assert!(runs_written > 0);
            assert_eq!(written, if noted { runs_written } else { 0 });
            // Early writes are not repeated, and still count for their block.
            let start = (count - 1) * BLOCK_BYTES;
            let rest = old(start + each + 1, BLOCK_BYTES - each - 1);
            let early = buffer.take(BlockPieces::new([rest.clone()]), &[]);
            assert_eq!(early.iter().flat_map(runs).collect::<Vec<_>>(), [[rest]]);
            let last = old(start + each, 1);
            let ready = buffer.take(BlockPieces::new([last.clone()]), &[]);
            assert_eq!(ready.iter().flat_map(runs).collect::<Vec<_>>(), [[last]]);
            assert!(!buffer.open.contains_key(&(start / BLOCK_BYTES)));
            // Completed blocks release all memory.
            for no in buffer.open.keys().copied().collect::<Vec<_>>() {
                let start = no * BLOCK_BYTES + each;
                buffer.take(BlockPieces::new([old(start, BLOCK_BYTES - each)]), &[]);
            }
            assert!(buffer.is_done());
            assert_eq!((buffer.kept, buffer.held), (0, 0));
        }
    }

    #[test]
    fn the_known_part_of_a_block_can_be_written_early() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        let (bytes, noted) = ([1; 256], chunk(1000, 256));
        assert!(
            buffer.take(BlockPieces::new([sent(1000, &bytes), old(0, 10)]), &[noted]).is_empty()
        );
        let known = buffer.take_known();
        let expected = [vec![old(0, 10)], vec![sent(1000, &bytes)]];
        assert_eq!(known.iter().flat_map(runs).collect::<Vec<_>>(), expected);
        assert_eq!(known.into_iter().flat_map(WriteBlock::written).collect::<Vec<_>>(), [noted]);
        assert!(buffer.take_known().is_empty());
        assert_eq!((buffer.kept, buffer.held), (0, 0));
        // The rest completes the block, and only the rest is written.
        let rest = [old(10, 990), old(1256, BLOCK_BYTES - 1256)];
        let ready = buffer.take(BlockPieces::new(rest.clone()), &[]);
        assert_eq!(ready.iter().flat_map(runs).collect::<Vec<_>>(), rest.map(|piece| vec![piece]));
        assert!(buffer.is_done());
    }

    #[test]
    fn received_bytes_are_bounded_and_released_with_their_block() {
        let mut buffer = WriteBuffer::new(1 << 40, MAX_KEPT_BYTES);
        let bytes = vec![1; BLOCK_BYTES as usize / 2];
        for no in 0..MAX_HELD_BYTES as u64 / bytes.len() as u64 {
            assert!(buffer.has_room(bytes.len()));
            assert!(
                buffer.take(BlockPieces::new([sent(no * BLOCK_BYTES, &bytes)]), &[]).is_empty()
            );
        }
        assert!(!buffer.has_room(1));
        let written = PieceSource::Written(BLOCK_BYTES / 2);
        assert_eq!(
            buffer
                .take(BlockPieces::new([WritePiece { start: BLOCK_BYTES / 2, from: written }]), &[])
                .len(),
            1
        );
        assert!(buffer.has_room(bytes.len()));
    }
}
