//! The journal of a large file: the chunks in place, so that an interrupted transfer resumes (docs/decisions/0016).
//!
//! A journal is a list of notes that a store keeps beside the staged file. The first note identifies the version of the
//! source, the chunker and the fingerprints. Each later note follows its event. *chunks*: these chunks have been
//! written. *void*: the span is about to be overwritten.
//!
//! ```text
//! version   0, form (0 BLAKE3, 1 keyed sum), key, chunker, length, seconds and nanoseconds of the modification time
//! chunks    1, then for each: start, length, fingerprint (of the keyed sum its first half: the rest is zeros)
//! void      2, start, length
//! data      3, then for each run of data: length of the hole before the run, length of the run
//! ```
//!
//! If a transfer skips holes, *data* notes follow the first note and list the runs of data. All positions in
//! later notes count through the packed data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::Algorithm;
use deltic_core::fingerprint::FINGERPRINT_BYTES;
use deltic_core::keyed::SUM_BYTES;
use deltic_core::recipe::Chunk;
use deltic_core::{
    ChunkNo, ChunkerSpec, Chunks, CodecError, DataMap, Fingerprint, Key, Put, Reader, Span,
};
use deltic_protocol::Terms;
use deltic_protocol::limits::{INDEX_BUDGET_CHUNKS, LARGE_FILE_BYTES};
use deltic_protocol::receiver::{KeptChunk, KnownChunks, NewVersion};
use deltic_tree::Meta;

/// True if a file of `len` bytes has a journal. Shorter files transfer too fast to need one.
#[must_use]
pub const fn is_kept(len: u64) -> bool {
    len > LARGE_FILE_BYTES
}

/// Returns the first note of a journal of `new`.
#[must_use]
pub fn version_note(new: &NewVersion, key: &Key, terms: Terms) -> Vec<u8> {
    let mut note = vec![VERSION, form(terms)];
    note.put_bytes(key.as_bytes());
    new.spec.encode(&mut note);
    note.put_varint(new.len);
    note.put_signed(new.modified.secs);
    note.put_varint(new.modified.nanos.into());
    note
}

/// Returns the *data* notes with the data runs of `new`, if the transfer skips holes. Otherwise returns no notes.
pub fn data(new: &NewVersion) -> impl Iterator<Item = Vec<u8>> {
    let runs = new.map.as_ref().map(|map| map.runs());
    let none = runs.filter(|runs| runs.is_empty()).map(|_| vec![DATA]);
    let mut end = 0;
    let note = move |runs: &[Range<u64>]| {
        let mut note = vec![DATA];
        for run in runs {
            note.put_varint(run.start - std::mem::replace(&mut end, run.end));
            note.put_varint(run.end - run.start);
        }
        note
    };
    none.into_iter().chain(runs.unwrap_or_default().chunks(NOTED_RUNS).map(note))
}

/// Number of data runs in a note.
const NOTED_RUNS: usize = 4096;

/// Returns a *chunks* note: these chunks are in place.
#[must_use]
pub fn chunks_note(kept: impl IntoIterator<Item = KeptChunk>, terms: Terms) -> Vec<u8> {
    let mut note = vec![CHUNKS];
    for KeptChunk { start, chunk } in kept {
        note.put_varint(start);
        note.put_varint(chunk.len.into());
        put_name(&mut note, &chunk.fingerprint, terms);
    }
    note
}

/// Returns a *void* note for each of `spans` that overlaps a range of `kept`.
pub fn voids(
    kept: &[Range<u64>],
    spans: impl IntoIterator<Item = Span>,
) -> impl Iterator<Item = Vec<u8>> {
    spans.into_iter().filter_map(|span| {
        let next = kept.partition_point(|range| range.end <= span.start);
        kept.get(next).filter(|range| range.start < span.end())?;
        let mut note = vec![VOID];
        note.put_varint(span.start);
        note.put_varint(span.len.into());
        Some(note)
    })
}

/// Reads the notes of a journal. Returns the chunks in place, at most [`INDEX_BUDGET_CHUNKS`], and the byte ranges of
/// all chunks in place.
///
/// Returns `None` if the journal is invalid, of another version than `meta`, or unusable under these terms.
#[must_use]
pub fn read(
    notes: Vec<Vec<u8>>,
    meta: &Meta,
    terms: Terms,
) -> Option<(KnownChunks, Vec<Range<u64>>)> {
    let mut notes = notes.into_iter();
    let (key, spec) = read_version(&notes.next()?, meta, terms).ok()??;
    let mut told = JournalNotes::default();
    for note in notes {
        told.read(&note, meta.len, terms).ok()?;
    }
    let mut places = told.last();
    let map = match told.data.take() {
        Some(runs) => Some(Arc::new(DataMap::new(runs, meta.len)?)),
        None => None,
    };
    // Ranges beyond the kept chunks need *void* notes too.
    let noted = runs(&told.chunks, &places);
    places.truncate(INDEX_BUDGET_CHUNKS);
    let chunks = told.chunks.select(&places);
    Some((KnownChunks { key, spec, map, chunks }, noted))
}

/// Returns the byte ranges of these chunks, which ascend. Adjacent ranges are merged.
fn runs(chunks: &Chunks, places: &[ChunkNo]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for span in places.iter().filter_map(|no| chunks.span(*no)) {
        match runs.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end(),
            _ => runs.push(span.start..span.end()),
        }
    }
    runs
}

/// Reads the note of [`version_note`]. Returns `None` if the note is of another version or unusable under these terms.
pub(crate) fn read_version(
    note: &[u8],
    meta: &Meta,
    terms: Terms,
) -> Result<Option<(Key, ChunkerSpec)>, CodecError> {
    let mut from = Reader::new(note);
    let head = (from.u8()?, from.u8()?);
    let (key, spec) = (Key::from_bytes(from.array()?), ChunkerSpec::decode(&mut from)?);
    let (len, secs, nanos) = (from.varint()?, from.signed()?, from.varint_u32()?);
    let same_version = (len, secs, nanos) == (meta.len, meta.modified.secs, meta.modified.nanos);
    let agreed = match spec {
        ChunkerSpec::Fixed(_) => spec == terms.limits.whole_file_chunker(),
        ChunkerSpec::ByContent(algorithm, _) => {
            algorithm == Algorithm::Sieve && terms.limits.admits_chunker(&spec)
        }
    };
    let holds = head == (VERSION, form(terms)) && same_version && agreed;
    Ok((holds && from.rest().is_empty()).then_some((key, spec)))
}

/// The decoded notes of a journal, in order.
#[derive(Debug, Default)]
struct JournalNotes {
    chunks: Chunks,
    /// Overwritten spans. The number counts the chunks that were noted before the *void* note.
    voids: Vec<(usize, Span)>,
    /// Runs of data, if the transfer skips holes.
    data: Option<Vec<Range<u64>>>,
}

impl JournalNotes {
    fn read(&mut self, note: &[u8], len: u64, terms: Terms) -> Result<(), CodecError> {
        let mut from = Reader::new(note);
        match from.u8()? {
            CHUNKS => {
                while !from.is_empty() {
                    let Span { start, len } = read_span(&mut from, len)?;
                    let fingerprint = read_name(&mut from, terms)?;
                    self.chunks.push(start, Chunk { len, fingerprint });
                }
            }
            VOID => self.voids.push((self.chunks.len(), read_span(&mut from, len)?)),
            DATA => self.read_data(from)?,
            _ => return Err(CodecError::OutOfRange),
        }
        Ok(())
    }

    fn read_data(&mut self, mut from: Reader<'_>) -> Result<(), CodecError> {
        let runs = self.data.get_or_insert_default();
        while !from.is_empty() {
            let end = runs.last().map_or(0, |run| run.end);
            let start = end.checked_add(from.varint()?).ok_or(CodecError::OutOfRange)?;
            let end = start.checked_add(from.varint()?).ok_or(CodecError::OutOfRange)?;
            runs.push(start..end);
        }
        Ok(())
    }

    /// Returns the chunks that no later chunk or *void* note overlaps, sorted by position.
    fn last(&self) -> Vec<ChunkNo> {
        let (mut later, mut last) = (CoveredBytes::default(), Vec::new());
        let mut voids = self.voids.iter().rev().peekable();
        for no in (0..self.chunks.len()).rev() {
            while let Some((_, span)) = voids.next_if(|(before, _)| *before > no) {
                later.take(*span);
            }
            let no = ChunkNo::FIRST.plus(no as u32);
            if self.chunks.span(no).is_some_and(|span| later.take(span)) {
                last.push(no);
            }
        }
        last.sort_unstable_by_key(|no| self.chunks.span(*no).map(|span| span.start));
        last
    }
}

/// Bytes covered by later notes: start and end of disjoint runs that do not touch.
#[derive(Default)]
struct CoveredBytes(BTreeMap<u64, u64>);

impl CoveredBytes {
    /// Adds the span of the next note from the end of the journal. Returns true if no later note overlaps the span.
    fn take(&mut self, span: Span) -> bool {
        let (mut start, mut end, mut is_last) = (span.start, span.end(), true);
        while let Some((&from, &to)) = self.0.range(..=end).next_back()
            && to >= start
        {
            is_last &= to <= span.start || span.end() <= from;
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
        is_last
    }
}

/// Appends the stored part of a fingerprint.
pub(crate) fn put_name(to: &mut Vec<u8>, fingerprint: &Fingerprint, terms: Terms) {
    to.put_bytes(&fingerprint.as_bytes()[..name_bytes(terms)]);
}

/// Reads a fingerprint that [`put_name`] wrote.
pub(crate) fn read_name(from: &mut Reader<'_>, terms: Terms) -> Result<Fingerprint, CodecError> {
    let mut name = [0; FINGERPRINT_BYTES];
    let told = name_bytes(terms);
    name[..told].copy_from_slice(from.bytes(told)?);
    Ok(Fingerprint::from_bytes(name))
}

/// Reads a span within the first `len` bytes.
fn read_span(from: &mut Reader<'_>, len: u64) -> Result<Span, CodecError> {
    let (start, span_len) = (from.varint()?, from.varint_u32()?);
    let fits = start.checked_add(span_len.into()).is_some_and(|end| end <= len) && span_len > 0;
    if fits { Ok(Span::new(start, span_len)) } else { Err(CodecError::OutOfRange) }
}

fn form(terms: Terms) -> u8 {
    u8::from(terms.keyed)
}

/// Length of the stored part of a fingerprint.
fn name_bytes(terms: Terms) -> usize {
    if terms.keyed { SUM_BYTES } else { FINGERPRINT_BYTES }
}

const VERSION: u8 = 0;
const CHUNKS: u8 = 1;
const VOID: u8 = 2;
const DATA: u8 = 3;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use deltic_core::Fingerprinter;
    use deltic_core::chunk::FixedLen;
    use deltic_protocol::{Hello, negotiate};
    use deltic_tree::{Kind, Timestamp};

    const LEN: u64 = LARGE_FILE_BYTES + 1;

    pub(crate) fn terms(keyed: bool) -> Terms {
        let mut hello = Hello::of_this_version(Key::from_bytes([3; 32]));
        if keyed {
            hello.capabilities.insert("names:keyed".into());
        } else {
            hello.capabilities.remove("names:keyed");
        }
        negotiate(&hello, &hello).unwrap()
    }

    fn new() -> NewVersion {
        let modified = Timestamp { secs: -5, nanos: 999_999_999 };
        NewVersion { len: LEN, map: None, modified, from: 0, spec: ChunkerSpec::for_len(LEN) }
    }

    fn meta() -> Meta {
        Meta::without_owner(Kind::File, LEN, new().modified, 0o644)
    }

    fn kept(start: u64, text: &str, terms: Terms) -> KeptChunk {
        let names: Fingerprinter = terms.fingerprinter(&deltic_core::Strategy::DELTIC);
        KeptChunk { start, chunk: names.chunk(text.as_bytes()) }
    }

    fn places(kept: &[KeptChunk]) -> Chunks {
        kept.iter().map(|kept| (kept.start, kept.chunk)).collect()
    }

    #[test]
    fn notes_are_read_again() {
        for terms in [terms(true), terms(false)] {
            let told =
                [kept(0, "one", terms), kept(9, "two", terms), kept(LEN - 5, "three", terms)];
            let notes = [
                version_note(&new(), &terms.key, terms),
                chunks_note([told[2], told[0]], terms),
                chunks_note([told[1]], terms),
            ];
            let (found, noted) = read(notes.to_vec(), &meta(), terms).unwrap();
            assert_eq!((found.key, found.spec), (terms.key, new().spec));
            assert_eq!(found.chunks, places(&told));
            assert_eq!(noted, [0..3, 9..12, LEN - 5..LEN]);
        }
    }

    #[test]
    fn the_data_of_a_version_with_holes_is_noted() {
        let terms = terms(true);
        let many = (0..9000).map(|no| no * 3000 + 5..no * 3000 + 2000).collect();
        for runs in [Vec::new(), std::iter::once(0..4096).collect(), many] {
            let map = DataMap::new(runs, LEN).map(Arc::new);
            let new = NewVersion { map: map.clone(), ..new() };
            let notes = std::iter::once(version_note(&new, &terms.key, terms)).chain(data(&new));
            let (found, _) = read(notes.collect(), &meta(), terms).unwrap();
            assert!(found.map.is_some() && found.map == map);
        }
        assert_eq!(data(&new()).count(), 0);
    }

    /// A later session must not trust chunks that this session overwrites.
    #[test]
    fn ranges_beyond_the_kept_chunks_are_returned() {
        let terms = terms(true);
        let end = INDEX_BUDGET_CHUNKS as u64 + 9;
        let notes = (0..end).map(|start| KeptChunk { start, ..kept(0, "x", terms) });
        let notes = [version_note(&new(), &terms.key, terms), chunks_note(notes, terms)];
        let (found, noted) = read(notes.to_vec(), &meta(), terms).unwrap();
        assert_eq!(found.chunks.len(), INDEX_BUDGET_CHUNKS);
        assert_eq!(noted, std::iter::once(0..end).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_note_of_a_byte_decides() {
        let terms = terms(true);
        let void = |start: u64, len: u64| {
            let mut note = vec![VOID];
            note.put_varint(start);
            note.put_varint(len);
            note
        };
        let first = [kept(0, "0123456789", terms), kept(10, "0123456789", terms)];
        let read = |later: Vec<u8>| {
            let notes = [version_note(&new(), &terms.key, terms), chunks_note(first, terms), later];
            read(notes.to_vec(), &meta(), terms).unwrap().0.chunks
        };
        assert_eq!(read(void(20, 5)), places(&first));
        assert_eq!(read(void(10, 1)), places(&first[..1]));
        assert_eq!(read(void(9, 1)), places(&first[1..]));
        assert_eq!(read(void(9, 2)), places(&[]));
        let over = kept(5, "0123456789", terms);
        assert_eq!(read(chunks_note([over], terms)), places(&[over]));
        // A later note does not restore an overwritten chunk.
        let twice = [version_note(&new(), &terms.key, terms), chunks_note([first[0], over], terms)];
        let gone = super::read([&twice[..], &[void(12, 1)]].concat(), &meta(), terms).unwrap();
        assert_eq!((gone.0.chunks, gone.1), (places(&[]), Vec::new()));
    }

    #[test]
    fn unusable_notes_are_not_read() {
        let (here, there) = (terms(true), terms(false));
        let good = version_note(&new(), &here.key, here);
        assert!(read(vec![good.clone()], &meta(), here).is_some());
        assert!(read(Vec::new(), &meta(), here).is_none());
        assert!(read(vec![good.clone()], &meta(), there).is_none());
        let mut other = meta();
        other.modified.nanos -= 1;
        assert!(read(vec![good.clone()], &other, here).is_none());
        other = Meta { len: LEN + 1, ..meta() };
        assert!(read(vec![good.clone()], &other, here).is_none());
        let fine = ChunkerSpec::Fixed(FixedLen::new(512).unwrap());
        assert!(
            read(
                vec![version_note(&NewVersion { spec: fine, ..new() }, &here.key, here)],
                &meta(),
                here
            )
            .is_none()
        );
        for bad in [&[][..], &[7], &[CHUNKS, 1], &[VOID, 1, 0], &[VOID, 0xff, 0xff, 0xff, 0x7f, 1]]
        {
            assert!(read(vec![good.clone(), bad.to_vec()], &meta(), here).is_none(), "{bad:?}");
        }
        for end in 0..good.len() {
            assert!(read(vec![good[..end].to_vec()], &meta(), here).is_none());
        }
    }
}
