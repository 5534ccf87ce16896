//! Deltas by plain HTTP: signatures, patches and deltas of files, in the formats of `deltic signature`, `deltic
//! delta` and `deltic patch`.
//!
//! The server keeps nothing between two requests. The length of a body and the growth of a patched file are bounded.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use deltic_core::format::delta::{
    DeltaFormat, DeltaHeader, DeltaRecord, DeltaWriter, MAX_KNOWN_CHUNKS,
};
use deltic_core::format::matches::MatchFinder;
use deltic_core::format::recipe::{self, RecipeFile, RecipeReader, StreamSummary};
use deltic_core::format::{FormatError, RecordParser};
use deltic_core::{ChunkerSpec, CodecError, Digest, Span};
use deltic_store::{Content, Rebuild, Snapshot, StoreError};
use deltic_store_local::LocalSnapshot;
use deltic_tree::RelPath;

use super::conditions::{need_condition, tag};
use super::incoming::Incoming;
use super::pieces::{PIECE, Pieces, Reader, Step, body_of, steps};
use super::replacement::{NewAttributes, ReplaceTarget, Replacement};
use super::request::{At, no_store, on_disk};
use super::versions;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Right;

/// Longest body of a signature or a delta, in bytes.
const MAX_BODY: u64 = 64 << 20;
/// Bytes of memory for each byte of a signature, when a delta is made.
const INDEX_COST: u64 = 3;
/// Bytes of memory for each byte of a signature, when the place of each matching chunk is kept (`?as=match`).
const FOUND_COST: u64 = 6;
/// Most bytes that a patch may write, for each byte of the old version and of the patch.
const MAX_GROWTH: u64 = 4;
/// Bytes that a patch writes in one step.
const STEP_BYTES: usize = 8 << 20;

/// Answers with the signature of a file.
pub(super) async fn signature(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let reader = Reader::of(&server, &at)?;
    let snapshot = on_disk(&server, move || versions::open(&volume, &at)).await?;
    let tag = tag(&server, &snapshot);
    let spec = ChunkerSpec::for_len(snapshot.meta().len);
    let mut out = Vec::new();
    let writer = recipe::RecipeWriter::new(&spec, &mut out);
    let made = Making { pieces: Pieces::whole(snapshot), writer: Some(writer), out };
    Ok(answer(reader, &tag, made))
}

/// Answers with the delta from the client's version to the server's version of a file. The body is the signature of
/// the client's version.
pub(super) async fn delta(server: Arc<Server>, at: At, body: Body) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let reader = Reader::of(&server, &at)?;
    let (known, incoming) = read_signature(&at, body, INDEX_COST).await?;
    let snapshot = on_disk(&server, move || versions::open(&volume, &at)).await?;
    let tag = tag(&server, &snapshot);
    let mut out = Vec::new();
    let writer = DeltaWriter::new(known, &mut out);
    let made = Making { pieces: Pieces::whole(snapshot), writer: Some((writer, incoming)), out };
    Ok(answer(reader, &tag, made))
}

/// Answers with the spans of the file that match chunks of a new version. The body is the signature of the new
/// version.
pub(super) async fn matches(server: Arc<Server>, at: At, body: Body) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let reader = Reader::of(&server, &at)?;
    let (known, incoming) = read_signature(&at, body, FOUND_COST).await?;
    let snapshot = on_disk(&server, move || versions::open(&volume, &at)).await?;
    let tag = tag(&server, &snapshot);
    let made = Making {
        pieces: Pieces::whole(snapshot),
        writer: Some((MatchFinder::new(known), incoming)),
        out: Vec::new(),
    };
    Ok(answer(reader, &tag, made))
}

/// Reads a signature from a body, and reserves `cost` bytes of memory for each byte of the signature.
async fn read_signature(at: &At, body: Body, cost: u64) -> Result<(RecipeFile, Incoming), Problem> {
    let mut incoming = Incoming::new(&at.headers, body, MAX_BODY, cost)?;
    let mut reader = RecipeReader::new(MAX_KNOWN_CHUNKS);
    while let Some(piece) = incoming.next().await? {
        reader.feed(&piece).map_err(garbled)?;
    }
    Ok((reader.finish().map_err(garbled)?, incoming))
}

fn garbled(why: FormatError) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("the body: {why}; nothing was changed"))
}

/// Output computed from a file's bytes.
trait Write: Send + 'static {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError>;
    fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError>;
}

impl Write for recipe::RecipeWriter {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.push(bytes, out)
    }

    fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.finish(out)
    }
}

/// A delta writer, with the memory reserved for its index.
impl Write for (DeltaWriter, Incoming) {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.push(bytes, out)
    }

    fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.finish(out)
    }
}

/// A search for matches, with the memory reserved for its index. The matches are written at the end.
impl Write for (MatchFinder, Incoming) {
    fn push(&mut self, bytes: &[u8], _: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.push(bytes)
    }

    fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.finish(out)
    }
}

/// An answer computed while the file is read.
struct Making<W> {
    pieces: Pieces,
    writer: Option<W>,
    out: Vec<u8>,
}

impl<W: Write> Making<W> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let too_long = |_| StoreError::Changed { path: RelPath::root() };
        let Some(writer) = &mut self.writer else { return Ok(None) };
        match self.pieces.next()? {
            Some(piece) => writer.push(&piece, &mut self.out).map_err(too_long)?,
            None => {
                let writer = self.writer.take().expect("it is there");
                writer.finish(&mut self.out).map_err(too_long)?;
            }
        }
        Ok(Some(std::mem::take(&mut self.out)))
    }
}

fn answer(reader: Reader, tag: &str, mut made: Making<impl Write>) -> Response {
    let body = body_of(reader, move || made.next());
    let response = Response::builder()
        .header(header::ETAG, tag)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    no_store(response.body(body).expect("headers are plain text"))
}

/// Replaces a file atomically with the version that a delta makes of it.
pub(super) async fn patch(server: Arc<Server>, at: At, body: Body) -> Result<Response, Problem> {
    // The delta's copies, and the answer, reveal the file's content.
    let target = ReplaceTarget::for_request(&server, &at, true)?;
    need_condition(&at.headers)?;
    let incoming = Incoming::new(&at.headers, body, MAX_BODY, 1)?;
    let body = Patch::read(incoming).await?;
    let most = server.upload_bytes;
    let patching = on_disk(&server, move || Patching::begin(body, target, most)).await?;
    let patching = steps(&server, patching, Patching::step).await?;
    let (replacement, len) = patching.check(&server).await?;
    on_disk(&server, move || replacement.commit(NewAttributes::usual(len))?.answer()).await
}

/// A complete delta. Its bytes were checked as far as possible without the old version.
struct Patch {
    bytes: Vec<u8>,
    header: DeltaHeader,
    new_len: u64,
    digest: Digest,
    /// Keeps the memory for `bytes` reserved until the patch is dropped.
    _incoming: Incoming,
}

impl Patch {
    async fn read(mut incoming: Incoming) -> Result<Self, Problem> {
        let (mut parser, mut bytes) = (RecordParser::<DeltaFormat>::new(), Vec::new());
        let (mut first, mut last) = (None, None);
        while let Some(piece) = incoming.next().await? {
            parser.feed(&piece);
            bytes.extend_from_slice(&piece);
            while let Some(record) = parser.next_record().map_err(garbled)? {
                match record {
                    DeltaRecord::Header(header) => first = Some(header),
                    DeltaRecord::End { len, digest } => last = Some((len, digest)),
                    DeltaRecord::Copy(_) | DeltaRecord::Literal(_) => {}
                }
            }
        }
        parser.finish().map_err(garbled)?;
        let both = first.zip(last).ok_or_else(|| garbled(FormatError::Truncated))?;
        let (header, (new_len, digest)) = both;
        Ok(Self { bytes, header, new_len, digest, _incoming: incoming })
    }
}

/// A patch in progress.
struct Patching {
    patch: Patch,
    /// Bytes of the patch that were fed to the parser.
    read: usize,
    parser: RecordParser<DeltaFormat>,
    old: Arc<LocalSnapshot>,
    replacement: Replacement,
    sum: StreamSummary,
    made: u64,
    /// The part of the current copy that is still to be copied.
    copy: Option<Span>,
}

impl Patching {
    fn begin(patch: Patch, target: ReplaceTarget, most: u64) -> Result<Self, Problem> {
        let store = target.volume.store()?;
        let present = target.open(store)?;
        let old = Arc::clone(&present.old);
        if patch.header.old_len != old.meta().len {
            return Err(other_version());
        }
        let fed = old.meta().len.saturating_add(patch.bytes.len() as u64);
        if patch.new_len > most.min(fed.saturating_mul(MAX_GROWTH)) {
            let why = format!(
                "the new version of {} bytes is longer than a patch may produce",
                patch.new_len
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        let replacement = present.begin(patch.new_len)?;
        let sum = StreamSummary::new(&patch.header.spec);
        let parser = RecordParser::new();
        Ok(Self { patch, read: 0, parser, old, replacement, sum, made: 0, copy: None })
    }

    /// Writes the next bytes of the new version, about `STEP_BYTES` of them.
    fn step(&mut self) -> Result<Step, Problem> {
        let end = self.made + STEP_BYTES as u64;
        while self.made < end {
            if let Some(copy) = self.copy.take() {
                self.copy_some(copy)?;
                continue;
            }
            match self.parser.next_record().map_err(garbled)? {
                Some(DeltaRecord::Copy(span)) => self.copy = Some(span),
                Some(DeltaRecord::Literal(bytes)) => {
                    self.replacement.new.write(self.made, &bytes)?;
                    let span = self.made..self.made + bytes.len() as u64;
                    self.replacement.new.note_origin(span, None);
                    self.take(&bytes)?;
                }
                Some(DeltaRecord::Header(_) | DeltaRecord::End { .. }) => {}
                None => {
                    let rest = &self.patch.bytes[self.read..];
                    let piece = &rest[..rest.len().min(PIECE)];
                    if piece.is_empty() {
                        return Ok(Step::Done);
                    }
                    self.parser.feed(piece);
                    self.read += piece.len();
                }
            }
        }
        Ok(Step::On)
    }

    /// Copies at most `PIECE` bytes of a span, and keeps the rest for the next step.
    fn copy_some(&mut self, Span { start, len }: Span) -> Result<(), Problem> {
        let want = (len as usize).min(PIECE);
        let mut piece = vec![0; want];
        if self.old.read_at(start, &mut piece)? < want {
            return Err(other_version());
        }
        let old = start..start + want as u64;
        let new = &self.replacement.new;
        new.note_origin(self.made..self.made + want as u64, Some(start));
        if new.may_share(&self.old, &old, self.made) {
            new.copy(&self.old, old, self.made)?;
        } else {
            new.write_old(self.made, &piece, Content::Old)?;
        }
        self.take(&piece)?;
        let rest = Span::new(start + want as u64, len - want as u32);
        self.copy = Some(rest).filter(|rest| rest.len > 0);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.made += bytes.len() as u64;
        self.sum.push(bytes).map_err(|error| garbled(error.into()))
    }

    /// Compares length and digest of the new version with those in the delta. Returns the complete new version and
    /// its length.
    async fn check(self, server: &Server) -> Result<(Replacement, u64), Problem> {
        let Self { patch, old, replacement, sum, .. } = self;
        let made = sum.finish().map_err(|error| garbled(error.into()))?;
        if (made.len, made.digest) == (patch.new_len, patch.digest) {
            return Ok((replacement, made.len));
        }
        drop(replacement);
        // The digest of the old version tells whether the delta is damaged or is for another version.
        let looking = (Pieces::whole(old), StreamSummary::new(&patch.header.spec));
        let (_, sum) = steps(server, looking, |(pieces, sum)| match pieces.next()? {
            None => Ok(Step::Done),
            Some(piece) => {
                sum.push(&piece).map_err(|error| garbled(error.into()))?;
                Ok(Step::On)
            }
        })
        .await?;
        let is_its = sum.finish().is_ok_and(|end| end.digest == patch.header.old_digest);
        Err(if is_its { garbled(FormatError::Damaged) } else { other_version() })
    }
}

fn other_version() -> Problem {
    let why = "the delta starts from another version than the present one; nothing was changed";
    Problem::new(StatusCode::PRECONDITION_FAILED, why)
}
