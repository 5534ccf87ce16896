//! Assembles a new version: gathers what it is made of until whole blocks of it can be written, each in one call.
//!
//! Scattered edits make a new version of tens of thousands of short spans, copied and patched in turn, and hardly one
//! begins where a page does. Written one by one, they cost the kernel two calls each, a page twice at each end, and
//! small pages where it would take large ones; and the threads that write them wait for each other. So a span is only
//! noted when it is known. Whoever brings the last one of a block puts it together in memory and writes it. Bytes of
//! old are read then.
//!
//! Law: what a journal notes is written. A chunk is noted when the last block that it lies in is written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deltic_core::fingerprint::FINGERPRINT_BYTES;
use deltic_core::recipe::Chunk;
use deltic_core::{CodecError, Fingerprint, Put, Reader, Span};
use deltic_protocol::receiver::KeptChunk;

/// Bytes of a block: written at once they fit a second-level cache, and begin where large pages do.
pub(crate) const BLOCK_BYTES: u64 = 512 << 10;
/// Sent bytes beyond which none more are held back for their block. A kill may cost as many.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Most bytes of a packed note, and how many more there is room for at a time.
const MAX_PACKED_BYTES: usize = 10 + 5 + 1 + FINGERPRINT_BYTES;
const PACKED_STEP_BYTES: usize = 1 << 10;

/// The blocks of one new version that are not complete.
#[derive(Debug)]
pub struct WriteBuffer {
    len: u64,
    open: HashMap<u64, OpenBlock>,
    /// Sent bytes of open blocks.
    held: usize,
    /// Bytes of what is kept of open blocks besides.
    kept: usize,
    /// Bytes of these beyond which what is known of a block is written.
    most_kept: usize,
}

/// A block of which not all is known.
#[derive(Debug, Default)]
struct OpenBlock {
    /// Bytes that are known.
    have: u64,
    /// Pieces of it that are not written.
    pieces: Vec<Piece<'static>>,
    notes: Notes,
}

/// Some bytes of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Their place in it.
    pub start: u64,
    /// Their source.
    pub from: Source<'a>,
}

/// The source of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The old versions, laid end to end.
    Old(Span),
    /// The peer.
    Sent(Cow<'a, [u8]>),
    /// Written already: so many bytes.
    Written(u64),
}

/// Pieces apart by the blocks that they lie in, in order of these.
#[derive(Debug)]
pub struct Parts<'a>(Vec<Piece<'a>>);

impl<'a> Parts<'a> {
    /// Splits pieces where blocks end.
    #[must_use]
    pub fn new(pieces: impl IntoIterator<Item = Piece<'a>>) -> Self {
        let mut parts: Vec<_> = pieces.into_iter().flat_map(Piece::by_blocks).collect();
        parts.sort_by_key(Piece::block);
        Self(parts)
    }
}

/// Chunks to be noted. A large file has hundreds of thousands in blocks that wait for what is sent: they are packed.
#[derive(Debug, Default)]
struct Notes {
    /// Chunks that lie in this block alone: start, length, and the fingerprint without the zeros at its end.
    packed: Vec<u8>,
    shared: Vec<Shared>,
}

/// A chunk that lies in several blocks, and how many of them are not written.
#[derive(Clone, Debug)]
struct Shared {
    chunk: KeptChunk,
    left: Arc<AtomicU32>,
}

impl Notes {
    /// Adds a chunk; how many bytes it takes.
    fn push(&mut self, KeptChunk { start, chunk }: &KeptChunk) -> usize {
        let before = self.packed.len();
        let name = chunk.fingerprint.as_bytes();
        let len = FINGERPRINT_BYTES - name.iter().rev().take_while(|byte| **byte == 0).count();
        // Twice as much room as is needed would be half of all.
        if self.packed.capacity() - self.packed.len() < MAX_PACKED_BYTES {
            self.packed.reserve_exact(PACKED_STEP_BYTES);
        }
        self.packed.put_varint(*start);
        self.packed.put_varint(chunk.len.into());
        self.packed.put_u8(len as u8);
        self.packed.put_bytes(&name[..len]);
        self.packed.len() - before
    }

    /// The packed ones.
    fn unpacked(&self) -> impl Iterator<Item = KeptChunk> {
        let mut from = Reader::new(&self.packed);
        std::iter::from_fn(move || if from.is_empty() { None } else { unpack(&mut from).ok() })
    }
}

/// Reads what [`Notes::push`] wrote.
fn unpack(from: &mut Reader<'_>) -> Result<KeptChunk, CodecError> {
    let (start, len) = (from.varint()?, from.varint_u32()?);
    let (mut name, told) = ([0; FINGERPRINT_BYTES], from.u8()?);
    name[..told.into()].copy_from_slice(from.bytes(told.into())?);
    Ok(KeptChunk { start, chunk: Chunk { len, fingerprint: Fingerprint::from_bytes(name) } })
}

/// A block that is complete, or as much of it as is known.
#[derive(Debug)]
pub struct WriteBlock<'a> {
    /// The pieces, in order.
    pieces: Vec<Piece<'a>>,
    notes: Notes,
}

impl WriteBuffer {
    /// Starts a version of `len` bytes, of which nothing is known. Pieces and packed notes are kept for their block up
    /// to `most_kept` bytes; beyond that, what is known of a block is written. Of 1 GiB with an edit each 25 kB they
    /// take 4 MiB.
    #[must_use]
    pub fn new(len: u64, most_kept: usize) -> Self {
        Self { len, open: HashMap::new(), held: 0, kept: 0, most_kept }
    }

    /// True if so many sent bytes may be held back.
    #[must_use]
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.held + bytes <= MAX_HELD_BYTES
    }

    /// True if every block was complete of which anything is known.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes pieces, each once, and the chunks that they make; returns what is to be written now, in order: the blocks
    /// that are complete with them, and as much as is known of others while too much is kept.
    pub fn take<'a>(
        &mut self,
        Parts(parts): Parts<'a>,
        chunks: &[KeptChunk],
    ) -> Vec<WriteBlock<'a>> {
        let mut ready: Vec<(u64, WriteBlock<'a>)> = Vec::new();
        for parts in parts.chunk_by(|one, next| one.block() == next.block()) {
            let no = parts[0].block();
            ready.extend(self.join(no, parts).map(|ready| (no, ready)));
        }
        for chunk in chunks {
            let blocks = block_range(chunk);
            let count = (blocks.end - blocks.start) as u32;
            let shared = (count > 1)
                .then(|| Shared { chunk: *chunk, left: Arc::new(AtomicU32::new(count)) });
            for no in blocks {
                let mut kept = 0;
                let (notes, kept) = match ready.binary_search_by_key(&no, |(no, _)| *no) {
                    Ok(found) => (&mut ready[found].1.notes, &mut kept),
                    // A chunk comes with its pieces: they are in one or the other.
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

    /// All that is known of blocks that are not complete: it is to be written now.
    pub fn take_known(&mut self) -> Vec<WriteBlock<'static>> {
        let mut known = Vec::new();
        for block in self.open.values_mut().filter(|block| !block.pieces.is_empty()) {
            self.held -= block.pieces.iter().map(Piece::sent).sum::<usize>();
            self.kept -= block.kept_bytes();
            let OpenBlock { pieces, notes, .. } = block;
            pieces.sort_unstable_by_key(|piece| piece.start);
            let (pieces, notes) = (std::mem::take(pieces), std::mem::take(notes));
            known.push(WriteBlock { pieces, notes });
        }
        known
    }

    /// Adds pieces to block `no`; all of it, if it is complete, or what is not written of it, while too much is kept.
    fn join<'a>(&mut self, no: u64, parts: &[Piece<'a>]) -> Option<WriteBlock<'a>> {
        let mut block = self.open.remove(&no).unwrap_or_default();
        block.have += parts.iter().map(Piece::len).sum::<u64>();
        let is_complete = block.have >= BLOCK_BYTES.min(self.len - no * BLOCK_BYTES);
        if !is_complete && self.kept <= self.most_kept {
            let unwritten = parts.iter().filter(|piece| !piece.is_written());
            self.held += parts.iter().map(Piece::sent).sum::<usize>();
            self.kept -= block.kept_bytes();
            block.pieces.extend(unwritten.cloned().map(Piece::into_owned));
            self.kept += block.kept_bytes();
            self.open.insert(no, block);
            return None;
        }
        self.kept -= block.kept_bytes();
        let OpenBlock { have, pieces, notes } = block;
        self.held -= pieces.iter().map(Piece::sent).sum::<usize>();
        if !is_complete {
            self.open.insert(no, OpenBlock { have, ..OpenBlock::default() });
        }
        let mut pieces: Vec<Piece<'a>> = pieces;
        pieces.extend_from_slice(parts);
        pieces.sort_unstable_by_key(|piece| piece.start);
        Some(WriteBlock { pieces, notes })
    }
}

impl OpenBlock {
    /// Bytes of what is kept of it, but for what was sent.
    fn kept_bytes(&self) -> usize {
        self.pieces.len() * size_of::<Piece<'_>>() + self.notes.packed.len()
    }
}

impl<'a> WriteBlock<'a> {
    /// The runs that are still to be written, each in one call.
    pub fn runs(&self) -> impl Iterator<Item = WriteRun<'_, 'a>> {
        let goes_on = |one: &Piece<'_>, next: &Piece<'_>| {
            one.is_written() == next.is_written() && one.end() == next.start
        };
        let runs = self.pieces.chunk_by(goes_on).filter(|run| !run[0].is_written());
        runs.map(WriteRun)
    }

    /// Takes the block for written: the chunks of which all is.
    #[must_use]
    pub fn written(self) -> Vec<KeptChunk> {
        let complete = |shared: &&Shared| shared.left.fetch_sub(1, Ordering::AcqRel) == 1;
        let shared = self.notes.shared.iter().filter(complete).map(|shared| shared.chunk);
        self.notes.unpacked().chain(shared).collect()
    }
}

/// Adjacent pieces of a block, none of them written.
#[derive(Clone, Copy, Debug)]
pub struct WriteRun<'b, 'a>(&'b [Piece<'a>]);

impl<'b> WriteRun<'b, '_> {
    /// Its place in the new version.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.0[0].start
    }

    /// Its length in bytes, at most that of a block.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        (self.0[self.0.len() - 1].end() - self.start()) as usize
    }

    /// All its bytes, where they were sent in one piece: they need no buffer.
    #[must_use]
    pub fn one_sent(&self) -> Option<&'b [u8]> {
        match self.0 {
            [Piece { from: Source::Sent(bytes), .. }] => Some(bytes),
            _ => None,
        }
    }

    /// Puts what was sent in its place in `run`, which is as long as this.
    pub fn put_sent(&self, run: &mut [u8]) {
        for piece in self.0 {
            if let Source::Sent(bytes) = &piece.from {
                let from = (piece.start - self.start()) as usize;
                run[from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// The spans of old to read into it, and where each goes.
    pub fn old(&self) -> impl Iterator<Item = (Span, Range<usize>)> + Clone {
        let start = self.start();
        self.0.iter().filter_map(move |piece| {
            let Source::Old(span) = piece.from else { return None };
            let from = (piece.start - start) as usize;
            Some((span, from..from + span.len as usize))
        })
    }

    /// True if nothing of it was sent.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.old().count() == self.0.len()
    }
}

impl<'a> Piece<'a> {
    fn len(&self) -> u64 {
        match &self.from {
            Source::Old(span) => span.len.into(),
            Source::Sent(bytes) => bytes.len() as u64,
            Source::Written(len) => *len,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.len()
    }

    const fn is_written(&self) -> bool {
        matches!(self.from, Source::Written(_))
    }

    fn sent(&self) -> usize {
        if let Source::Sent(bytes) = &self.from { bytes.len() } else { 0 }
    }

    const fn block(&self) -> u64 {
        self.start / BLOCK_BYTES
    }

    /// Its parts in each block.
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

    /// The first `len` bytes, and the others.
    fn split(self, len: u64) -> (Self, Self) {
        let Self { start, from } = self;
        let (one, other) = match from {
            Source::Old(span) => {
                let (len, rest) = (len as u32, span.len - len as u32);
                let behind = Span::new(span.start + u64::from(len), rest);
                (Source::Old(Span::new(span.start, len)), Source::Old(behind))
            }
            Source::Sent(Cow::Borrowed(bytes)) => {
                let (one, other) = bytes.split_at(len as usize);
                (Source::Sent(one.into()), Source::Sent(other.into()))
            }
            Source::Sent(Cow::Owned(mut bytes)) => {
                let other = bytes.split_off(len as usize);
                (Source::Sent(bytes.into()), Source::Sent(other.into()))
            }
            Source::Written(all) => (Source::Written(len), Source::Written(all - len)),
        };
        (Self { start, from: one }, Self { start: start + len, from: other })
    }

    fn into_owned(self) -> Piece<'static> {
        let from = match self.from {
            Source::Old(span) => Source::Old(span),
            Source::Sent(bytes) => Source::Sent(Cow::Owned(bytes.into_owned())),
            Source::Written(len) => Source::Written(len),
        };
        Piece { start: self.start, from }
    }
}

/// The blocks that a chunk lies in.
fn block_range(chunk: &KeptChunk) -> Range<u64> {
    chunk.start / BLOCK_BYTES..chunk.end().div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 3 * BLOCK_BYTES + 5;
    const MAX_KEPT_BYTES: usize = 1 << 20;

    fn old(start: u64, len: u64) -> Piece<'static> {
        Piece { start, from: Source::Old(Span::new(7 + start, len as u32)) }
    }

    fn sent(start: u64, bytes: &[u8]) -> Piece<'_> {
        Piece { start, from: Source::Sent(bytes.into()) }
    }

    fn chunk(start: u64, len: u64) -> KeptChunk {
        let fingerprint = Fingerprint::from_bytes([9; 32]);
        KeptChunk { start, chunk: Chunk { len: len as u32, fingerprint } }
    }

    #[test]
    fn a_block_is_ready_when_its_last_piece_is_known() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        assert!(buffer.take(Parts::new([old(0, 1000), old(1256, BLOCK_BYTES)]), &[]).is_empty());
        let bytes = [1; 256];
        let ready = buffer.take(Parts::new([sent(1000, &bytes)]), &[]);
        let pieces: Vec<_> = ready.iter().map(|ready| ready.pieces.clone()).collect();
        let expected = [vec![old(0, 1000), sent(1000, &bytes), old(1256, BLOCK_BYTES - 1256)]];
        assert_eq!(pieces, expected);
        assert!(!buffer.is_done());
        // Some of the second block is known.
        let rest = old(BLOCK_BYTES + 1256, LEN - BLOCK_BYTES - 1256);
        assert_eq!(buffer.take(Parts::new([rest]), &[]).len(), 3);
        assert!(buffer.is_done());
    }

    #[test]
    fn a_chunk_is_noted_when_its_last_block_is_written() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        let within = chunk(10, 100);
        let across = chunk(BLOCK_BYTES - 50, 100);
        let first = old(0, BLOCK_BYTES + 50);
        let mut ready = buffer.take(Parts::new([first]), &[within, across]);
        assert_eq!(ready.len(), 1);
        assert_eq!(ready.remove(0).written(), [within]);
        let mut ready = buffer.take(Parts::new([old(BLOCK_BYTES + 50, BLOCK_BYTES - 50)]), &[]);
        assert_eq!(ready.remove(0).written(), [across]);
    }

    #[test]
    fn a_chunk_comes_out_of_its_block_as_it_went_in() {
        let names = [[9; 32], [0; 32], [[7; 16], [0; 16]].concat().try_into().unwrap()];
        let chunks: Vec<_> = (0..names.len() as u64)
            .map(|no| {
                let fingerprint = Fingerprint::from_bytes(names[no as usize]);
                KeptChunk { start: 10 * no, chunk: Chunk { len: 1 << no, fingerprint } }
            })
            .collect();
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        assert!(buffer.take(Parts::new([old(0, 1000)]), &chunks).is_empty());
        let mut ready = buffer.take(Parts::new([old(1000, BLOCK_BYTES - 1000)]), &[]);
        assert_eq!(ready.remove(0).written(), chunks);
    }

    fn runs<'a>(ready: &WriteBlock<'a>) -> Vec<Vec<Piece<'a>>> {
        ready.runs().map(|run| run.0.to_vec()).collect()
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let each = 64;
        let count = MAX_KEPT_BYTES as u64 / 16;
        for noted in [true, false] {
            let (mut buffer, mut written, mut runs_written) =
                (WriteBuffer::new(1 << 40, MAX_KEPT_BYTES), 0, 0);
            for no in 0..count {
                let start = no * BLOCK_BYTES;
                let chunks = [chunk(start, each)];
                let ready =
                    buffer.take(Parts::new([old(start, each)]), if noted { &chunks } else { &[] });
                for ready in ready {
                    runs_written += runs(&ready).len();
                    written += ready.written().len();
                }
                assert!(buffer.kept <= MAX_KEPT_BYTES + 200, "{}", buffer.kept);
            }
            assert!(runs_written > 0);
            assert_eq!(written, if noted { runs_written } else { 0 });
            // What was written early is not written again, and closes its block.
            let start = (count - 1) * BLOCK_BYTES;
            let rest = old(start + each + 1, BLOCK_BYTES - each - 1);
            let early = buffer.take(Parts::new([rest.clone()]), &[]);
            assert_eq!(early.iter().flat_map(runs).collect::<Vec<_>>(), [[rest]]);
            let last = old(start + each, 1);
            let ready = buffer.take(Parts::new([last.clone()]), &[]);
            assert_eq!(ready.iter().flat_map(runs).collect::<Vec<_>>(), [[last]]);
            assert!(!buffer.open.contains_key(&(start / BLOCK_BYTES)));
            // All is given free with its blocks.
            for no in buffer.open.keys().copied().collect::<Vec<_>>() {
                let start = no * BLOCK_BYTES + each;
                buffer.take(Parts::new([old(start, BLOCK_BYTES - each)]), &[]);
            }
            assert!(buffer.is_done());
            assert_eq!((buffer.kept, buffer.held), (0, 0));
        }
    }

    #[test]
    fn an_open_block_may_be_written_as_far_as_it_is_known() {
        let mut buffer = WriteBuffer::new(LEN, MAX_KEPT_BYTES);
        let (bytes, noted) = ([1; 256], chunk(1000, 256));
        assert!(buffer.take(Parts::new([sent(1000, &bytes), old(0, 10)]), &[noted]).is_empty());
        let known = buffer.take_known();
        let expected = [vec![old(0, 10)], vec![sent(1000, &bytes)]];
        assert_eq!(known.iter().flat_map(runs).collect::<Vec<_>>(), expected);
        assert_eq!(known.into_iter().flat_map(WriteBlock::written).collect::<Vec<_>>(), [noted]);
        assert!(buffer.take_known().is_empty());
        assert_eq!((buffer.kept, buffer.held), (0, 0));
        // The rest of the block closes it, and it alone is written.
        let rest = [old(10, 990), old(1256, BLOCK_BYTES - 1256)];
        let ready = buffer.take(Parts::new(rest.clone()), &[]);
        assert_eq!(ready.iter().flat_map(runs).collect::<Vec<_>>(), rest.map(|piece| vec![piece]));
        assert!(buffer.is_done());
    }

    #[test]
    fn held_bytes_are_bounded_and_given_free_with_their_block() {
        let mut buffer = WriteBuffer::new(1 << 40, MAX_KEPT_BYTES);
        let bytes = vec![1; BLOCK_BYTES as usize / 2];
        for no in 0..MAX_HELD_BYTES as u64 / bytes.len() as u64 {
            assert!(buffer.has_room(bytes.len()));
            assert!(buffer.take(Parts::new([sent(no * BLOCK_BYTES, &bytes)]), &[]).is_empty());
        }
        assert!(!buffer.has_room(1));
        let written = Source::Written(BLOCK_BYTES / 2);
        assert_eq!(
            buffer.take(Parts::new([Piece { start: BLOCK_BYTES / 2, from: written }]), &[]).len(),
            1
        );
        assert!(buffer.has_room(bytes.len()));
    }
}
