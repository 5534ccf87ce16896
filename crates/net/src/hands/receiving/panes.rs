//! What a new version is made of, gathered until whole panes of it can be written, each in one call.
//!
//! Scattered edits make a new version of tens of thousands of short spans, copied and mended in turn, and hardly one begins
//! where a page does. Written one by one, they cost the kernel two calls each, a page twice at each end, and small pages
//! where it would take large ones; and the threads that write them wait for each other. So a span is only noted when it
//! is known. Whoever brings the last one of a pane puts it together in memory and writes it. Bytes of old are read then.
//!
//! Law: what a journal is told is written. A chunk is told of when the last pane that it lies in is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use deltic_core::fingerprint::FINGERPRINT_BYTES;
use deltic_core::recipe::Chunk;
use deltic_core::{CodecError, Fingerprint, Put, Reader, Span};
use deltic_protocol::receiver::KeptChunk;

use crate::hands::lock;

/// Bytes of a pane: written at once they fit a second-level cache, and begin where large pages do.
pub(super) const PANE_BYTES: u64 = 512 << 10;
/// Sent bytes beyond which none more are held back for their pane. A kill may cost as many.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Most bytes of a packed note, and how many more there is room for at a time.
const MAX_PACKED_BYTES: usize = 10 + 5 + 1 + FINGERPRINT_BYTES;
const PACKED_STEP_BYTES: usize = 1 << 10;

/// The panes of one new version that are not complete.
#[derive(Debug)]
pub(super) struct Panes {
    len: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Pane>,
    held: usize,
}

#[derive(Debug, Default)]
struct Pane {
    /// Bytes that are known.
    have: u64,
    pieces: Vec<Piece<'static>>,
    notes: Notes,
}

/// Some bytes of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) start: u64,
    pub(super) from: Source<'a>,
}

/// Where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// The old versions, laid end to end.
    Old(Span),
    Sent(Cow<'a, [u8]>),
    /// So many are written already.
    Written(u64),
}

/// Chunks to be told of. A large file has hundreds of thousands, of panes that wait for what is sent: they are packed.
#[derive(Debug, Default)]
struct Notes {
    /// Those that lie in this pane alone: start, length, and the fingerprint without the zeros at its end.
    packed: Vec<u8>,
    shared: Vec<Shared>,
}

/// A chunk that lies in several panes, and how many of them are not written.
#[derive(Clone, Debug)]
struct Shared {
    chunk: KeptChunk,
    left: Arc<AtomicU32>,
}

impl Notes {
    fn push(&mut self, KeptChunk { start, chunk }: &KeptChunk) {
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
    }

    /// The packed ones.
    fn unpacked(&self) -> impl Iterator<Item = KeptChunk> {
        let mut from = Reader::new(&self.packed);
        std::iter::from_fn(move || if from.is_empty() { None } else { unpack(&mut from).ok() })
    }
}

/// What [`Notes::push`] wrote.
fn unpack(from: &mut Reader<'_>) -> Result<KeptChunk, CodecError> {
    let (start, len) = (from.varint()?, from.varint_u32()?);
    let (mut name, told) = ([0; FINGERPRINT_BYTES], from.u8()?);
    name[..told.into()].copy_from_slice(from.bytes(told.into())?);
    Ok(KeptChunk { start, chunk: Chunk { len, fingerprint: Fingerprint::from_bytes(name) } })
}

/// All of a pane.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    /// In order.
    pub(super) pieces: Vec<Piece<'a>>,
    notes: Notes,
}

impl Panes {
    /// Nothing of `len` bytes is known.
    pub(super) fn new(len: u64) -> Self {
        Self { len, state: Mutex::default() }
    }

    /// Whether so many sent bytes may be held back.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        lock(&self.state).held + bytes <= MAX_HELD_BYTES
    }

    /// Whether every pane was complete of which anything is known.
    pub(super) fn are_done(&self) -> bool {
        lock(&self.state).open.is_empty()
    }

    /// Takes pieces, each once, and the chunks that they make; the panes that are complete with them.
    pub(super) fn take<'a>(
        &self,
        pieces: impl IntoIterator<Item = Piece<'a>>,
        chunks: &[KeptChunk],
    ) -> Vec<Ready<'a>> {
        let mut parts: Vec<_> = pieces.into_iter().flat_map(Piece::by_panes).collect();
        parts.sort_by_key(Piece::pane);
        let mut ready: Vec<(u64, Ready<'a>)> = Vec::new();
        let mut state = lock(&self.state);
        for parts in parts.chunk_by(|one, next| one.pane() == next.pane()) {
            let no = parts[0].pane();
            ready.extend(self.join(&mut state, no, parts).map(|ready| (no, ready)));
        }
        for chunk in chunks {
            let panes = pane_range(chunk);
            let count = (panes.end - panes.start) as u32;
            let shared = (count > 1)
                .then(|| Shared { chunk: *chunk, left: Arc::new(AtomicU32::new(count)) });
            for no in panes {
                let notes = match ready.binary_search_by_key(&no, |(no, _)| *no) {
                    Ok(found) => &mut ready[found].1.notes,
                    // A chunk comes with its pieces: they are in one or the other.
                    Err(_) => &mut state.open.entry(no).or_default().notes,
                };
                match &shared {
                    Some(shared) => notes.shared.push(shared.clone()),
                    None => notes.push(chunk),
                }
            }
        }
        ready.into_iter().map(|(_, ready)| ready).collect()
    }

    /// Adds pieces to pane `no`; all of it, if it is complete.
    fn join<'a>(&self, state: &mut State, no: u64, parts: &[Piece<'a>]) -> Option<Ready<'a>> {
        let mut pane = state.open.remove(&no).unwrap_or_default();
        pane.have += parts.iter().map(Piece::len).sum::<u64>();
        if pane.have < PANE_BYTES.min(self.len - no * PANE_BYTES) {
            let sent: usize = parts.iter().map(Piece::sent).sum();
            pane.pieces.extend(parts.iter().cloned().map(Piece::into_owned));
            state.held += sent;
            state.open.insert(no, pane);
            return None;
        }
        state.held -= pane.pieces.iter().map(Piece::sent).sum::<usize>();
        let mut pieces: Vec<Piece<'a>> = pane.pieces;
        pieces.extend_from_slice(parts);
        pieces.sort_unstable_by_key(|piece| piece.start);
        Some(Ready { pieces, notes: pane.notes })
    }
}

impl Ready<'_> {
    /// The pane is written: the chunks of which all is.
    pub(super) fn written(self) -> Vec<KeptChunk> {
        let complete = |shared: &&Shared| shared.left.fetch_sub(1, Ordering::AcqRel) == 1;
        let shared = self.notes.shared.iter().filter(complete).map(|shared| shared.chunk);
        self.notes.unpacked().chain(shared).collect()
    }
}

impl<'a> Piece<'a> {
    pub(super) fn len(&self) -> u64 {
        match &self.from {
            Source::Old(span) => span.len.into(),
            Source::Sent(bytes) => bytes.len() as u64,
            Source::Written(len) => *len,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.len()
    }

    pub(super) const fn is_written(&self) -> bool {
        matches!(self.from, Source::Written(_))
    }

    fn sent(&self) -> usize {
        if let Source::Sent(bytes) = &self.from { bytes.len() } else { 0 }
    }

    fn pane(&self) -> u64 {
        self.start / PANE_BYTES
    }

    /// Its parts in each pane.
    fn by_panes(self) -> impl Iterator<Item = Self> {
        let mut rest = Some(self).filter(|piece| piece.len() > 0);
        std::iter::from_fn(move || {
            let piece = rest.take()?;
            let room = (piece.pane() + 1) * PANE_BYTES - piece.start;
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

/// The panes that a chunk lies in.
fn pane_range(chunk: &KeptChunk) -> Range<u64> {
    chunk.start / PANE_BYTES..chunk.end().div_ceil(PANE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 3 * PANE_BYTES + 5;

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
    fn a_pane_is_ready_when_its_last_piece_is_known() {
        let panes = Panes::new(LEN);
        assert!(panes.take([old(0, 1000), old(1256, PANE_BYTES)], &[]).is_empty());
        let bytes = [1; 256];
        let ready = panes.take([sent(1000, &bytes)], &[]);
        let pieces: Vec<_> = ready.iter().map(|ready| ready.pieces.clone()).collect();
        let expected = [vec![old(0, 1000), sent(1000, &bytes), old(1256, PANE_BYTES - 1256)]];
        assert_eq!(pieces, expected);
        assert!(!panes.are_done());
        // Some of the second pane is known.
        let rest = old(PANE_BYTES + 1256, LEN - PANE_BYTES - 1256);
        assert_eq!(panes.take([rest], &[]).len(), 3);
        assert!(panes.are_done());
    }

    #[test]
    fn a_chunk_is_told_of_when_its_last_pane_is_written() {
        let panes = Panes::new(LEN);
        let within = chunk(10, 100);
        let across = chunk(PANE_BYTES - 50, 100);
        let first = old(0, PANE_BYTES + 50);
        let mut ready = panes.take([first], &[within, across]);
        assert_eq!(ready.len(), 1);
        assert_eq!(ready.remove(0).written(), [within]);
        let mut ready = panes.take([old(PANE_BYTES + 50, PANE_BYTES - 50)], &[]);
        assert_eq!(ready.remove(0).written(), [across]);
    }

    #[test]
    fn a_chunk_comes_out_of_its_pane_as_it_went_in() {
        let names = [[9; 32], [0; 32], [[7; 16], [0; 16]].concat().try_into().unwrap()];
        let chunks: Vec<_> = (0..names.len() as u64)
            .map(|no| {
                let fingerprint = Fingerprint::from_bytes(names[no as usize]);
                KeptChunk { start: 10 * no, chunk: Chunk { len: 1 << no, fingerprint } }
            })
            .collect();
        let panes = Panes::new(LEN);
        assert!(panes.take([old(0, 1000)], &chunks).is_empty());
        let mut ready = panes.take([old(1000, PANE_BYTES - 1000)], &[]);
        assert_eq!(ready.remove(0).written(), chunks);
    }

    #[test]
    fn what_is_held_back_is_bounded_and_given_free_with_its_pane() {
        let panes = Panes::new(1 << 40);
        let bytes = vec![1; PANE_BYTES as usize / 2];
        for no in 0..MAX_HELD_BYTES as u64 / bytes.len() as u64 {
            assert!(panes.has_room(bytes.len()));
            assert!(panes.take([sent(no * PANE_BYTES, &bytes)], &[]).is_empty());
        }
        assert!(!panes.has_room(1));
        let written = Source::Written(PANE_BYTES / 2);
        assert_eq!(panes.take([Piece { start: PANE_BYTES / 2, from: written }], &[]).len(), 1);
        assert!(panes.has_room(bytes.len()));
    }
}
