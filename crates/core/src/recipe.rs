//! The recipe of a file: its chunks, its groups of chunks, and the digest that proves both.
//!
//! A group is a content-defined run of chunks, as a chunk is a content-defined run of bytes. A recipe is sent
//! as groups, and only groups that the receiver lacks are sent as chunks (docs/decisions/0001). The digest
//! covers the full fingerprints of the groups, and those cover the full fingerprints of the chunks. If the
//! digest of the written file is equal to the sender's digest, then the bytes are equal, whatever was sent.

use std::fmt;
use std::sync::LazyLock;

use crate::chunk::{AnyChunker, AtEnd, Chunker, ChunkerSpec, cut_all};
use crate::data_map::DataMap;
use crate::fingerprint::{DEBUG_BYTES, FINGERPRINT_BYTES, Fingerprint, Fingerprinter, write_hex};
use crate::moved::MovedRun;

/// Maximum number of chunks in a group, which bounds the cost of sending one missing group as chunks.
pub const MAX_GROUP_CHUNKS: u32 = 128;
/// A group ends after a chunk if the first byte of the chunk's fingerprint has none of these bits: one chunk in
/// 32.
const GROUP_MASK: u8 = 31;

/// A content-defined run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// Length in bytes, never 0.
    pub len: u32,
    /// Fingerprint of the bytes.
    pub fingerprint: Fingerprint,
}

impl Chunk {
    /// The chunk of `bytes`, with the fingerprint for stored data.
    ///
    /// # Panics
    /// If `bytes` is longer than `u32::MAX`; no chunker cuts such a chunk.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Fingerprinter::plain().chunk(bytes)
    }
}

/// A content-defined run of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Length in bytes.
    pub len: u64,
    /// Number of chunks, from 1 to [`MAX_GROUP_CHUNKS`].
    pub chunks: u32,
    /// Fingerprint of its chunks' lengths and fingerprints.
    pub fingerprint: Fingerprint,
}

/// Finds the groups in a sequence of chunks.
///
/// Like a chunker, a grouper keeps no state from earlier groups: a grouper that starts after the end of any group
/// finds the same later groups.
#[derive(Clone, Debug)]
pub struct Grouper {
    len: u64,
    chunks: u32,
    hasher: blake3::Hasher,
}

impl Grouper {
    /// A grouper at the start of a group.
    #[must_use]
    pub fn new() -> Self {
        Self { len: 0, chunks: 0, hasher: GROUPS.clone() }
    }

    /// Takes the next chunk. Returns the group that ends with this chunk, if any.
    pub fn push(&mut self, chunk: &Chunk) -> Option<Group> {
        let mut bytes = [0; 4 + FINGERPRINT_BYTES];
        bytes[..4].copy_from_slice(&chunk.len.to_le_bytes());
        bytes[4..].copy_from_slice(chunk.fingerprint.as_bytes());
        self.hasher.update(&bytes);
        self.len += u64::from(chunk.len);
        self.chunks += 1;
        let ends = chunk.fingerprint.as_bytes()[0] & GROUP_MASK == 0;
        if ends || self.chunks == MAX_GROUP_CHUNKS { self.finish() } else { None }
    }

    /// True if the next chunk begins a group.
    #[must_use]
    pub const fn is_at_start(&self) -> bool {
        self.chunks == 0
    }

    /// Ends the sequence. Returns the last, incomplete group if it has chunks. The next chunk begins a new
    /// group.
    pub fn finish(&mut self) -> Option<Group> {
        if self.chunks == 0 {
            return None;
        }
        let fingerprint = Fingerprint::from_bytes(self.hasher.finalize().into());
        let group = Group { len: self.len, chunks: self.chunks, fingerprint };
        self.hasher.reset();
        (self.len, self.chunks) = (0, 0);
        Some(group)
    }
}

impl Default for Grouper {
    fn default() -> Self {
        Self::new()
    }
}

/// Proof of a whole file under one chunker: equal digests mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; FINGERPRINT_BYTES]);

impl Digest {
    /// The digest with these `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0[..DEBUG_BYTES])
    }
}

/// Computes a [`Digest`] from the groups of a file, in order.
#[derive(Clone, Debug)]
pub struct DigestBuilder(blake3::Hasher);

impl DigestBuilder {
    /// A builder at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self(DIGESTS.clone())
    }

    /// Takes the next group.
    pub fn push(&mut self, group: &Group) {
        self.0.update(&group.len.to_le_bytes());
        self.0.update(group.fingerprint.as_bytes());
    }

    /// The digest of the file, of `len` bytes.
    #[must_use]
    pub fn finish(mut self, len: u64) -> Digest {
        self.0.update(&len.to_le_bytes());
        Digest(self.0.finalize().into())
    }
}

impl Default for DigestBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// Streaming BLAKE3 of a whole file: the proof for strategies without collision-resistant sums
/// ([`Strategy::proof`](crate::Strategy::proof)).
#[derive(Clone, Debug, Default)]
pub struct FileDigest(blake3::Hasher);

impl FileDigest {
    /// A hasher at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// BLAKE3-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(blake3::hash(bytes).into())
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// BLAKE3-256 of all bytes so far.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// The digest of a file with these `chunks`.
#[must_use]
pub fn digest_of<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> Digest {
    let (mut grouper, mut digest, mut len) = (Grouper::new(), DigestBuilder::new(), 0);
    for chunk in chunks {
        len += u64::from(chunk.len);
        if let Some(group) = grouper.push(chunk) {
            digest.push(&group);
        }
    }
    if let Some(group) = grouper.finish() {
        digest.push(&group);
    }
    digest.finish(len)
}

/// The digest of a version that is described by its difference from a base. The digest identifies the history
/// of the version, not its bytes alone.
///
/// - `base`: digest of the base.
/// - `len`: length of the version in bytes.
/// - `moved`: runs of blocks that the base has at another offset, ascending.
/// - `blocks`: all other changed blocks, with their numbers, ascending.
#[must_use]
pub fn digest_of_changes<'a>(
    base: &Digest,
    len: u64,
    moved: &[MovedRun],
    blocks: impl IntoIterator<Item = &'a (u32, Chunk)>,
) -> Digest {
    let mut hasher = if moved.is_empty() { CHANGES.clone() } else { MOVED.clone() };
    hasher.update(base.as_bytes());
    hasher.update(&len.to_le_bytes());
    if !moved.is_empty() {
        hasher.update(&(moved.len() as u64).to_le_bytes());
    }
    for MovedRun { to, from, blocks } in moved {
        for number in [to, from, blocks] {
            hasher.update(&number.to_le_bytes());
        }
    }
    for (number, Chunk { len, fingerprint }) in blocks {
        hasher.update(&number.to_le_bytes());
        hasher.update(&len.to_le_bytes());
        hasher.update(fingerprint.as_bytes());
    }
    Digest(hasher.finalize().into())
}

/// The digest of a sparse file. `data` is the digest of the packed data; a hole of any length enters as its
/// position.
#[must_use]
pub fn digest_of_data(data: &Digest, map: &DataMap) -> Digest {
    let mut hasher = HOLES.clone();
    hasher.update(data.as_bytes());
    hasher.update(&map.file_len().to_le_bytes());
    hasher.update(&(map.runs().len() as u64).to_le_bytes());
    for run in map.runs() {
        hasher.update(&run.start.to_le_bytes());
        hasher.update(&run.end.to_le_bytes());
    }
    Digest(hasher.finalize().into())
}

/// The chunks at the front of a byte slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkScan {
    /// Chunks in order.
    pub chunks: Vec<Chunk>,
    /// Number of bytes that the chunks cover. The next chunk begins there.
    pub consumed: usize,
}

/// [`Fingerprinter::scan`] with the fingerprints for stored data.
#[must_use]
pub fn scan(chunker: &impl Chunker, data: &[u8], at_end: AtEnd) -> ChunkScan {
    Fingerprinter::plain().scan(chunker, data, at_end)
}

impl Fingerprinter {
    /// The chunk of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is longer than `u32::MAX`; no chunker cuts such a chunk.
    #[must_use]
    pub fn chunk(&self, bytes: &[u8]) -> Chunk {
        let len = u32::try_from(bytes.len()).expect("chunkers limit the length of a chunk");
        Chunk { len, fingerprint: self.of(bytes) }
    }

    /// Cuts and fingerprints the chunks at the front of `data` that later bytes cannot change.
    ///
    /// `data` must begin at a chunk boundary. A file scanned in several calls, each from the end of the last
    /// scan, has the same chunks as in one scan (law 1).
    #[must_use]
    pub fn scan(&self, chunker: &impl Chunker, data: &[u8], at_end: AtEnd) -> ChunkScan {
        let mut chunks = Vec::new();
        let consumed = cut_all(chunker, data, at_end, |chunk| chunks.push(self.chunk(chunk)));
        ChunkScan { chunks, consumed }
    }
}

const GROUP_CONTEXT: &str = "deltic 2026 group";
const DIGEST_CONTEXT: &str = "deltic 2026 recipe";
const CHANGES_CONTEXT: &str = "deltic 2026 changes";
const MOVED_CONTEXT: &str = "deltic 2026 changes and moved blocks";
const HOLES_CONTEXT: &str = "deltic 2026 data and holes";

/// Initial states of the hashers. Deriving their keys takes longer than hashing the recipe of a small file.
static GROUPS: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key(GROUP_CONTEXT));
static DIGESTS: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key(DIGEST_CONTEXT));
static CHANGES: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key(CHANGES_CONTEXT));
static MOVED: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key(MOVED_CONTEXT));
static HOLES: LazyLock<blake3::Hasher> =
    LazyLock::new(|| blake3::Hasher::new_derive_key(HOLES_CONTEXT));

/// Cuts a stream of bytes into chunks. Holds the bytes of a few chunks at a time.
#[derive(Debug)]
pub struct StreamCutter {
    chunker: AnyChunker,
    held: Vec<u8>,
}

impl StreamCutter {
    /// A cutter at the start of a file.
    #[must_use]
    pub fn new(spec: &ChunkerSpec) -> Self {
        Self { chunker: spec.build(), held: Vec::new() }
    }

    /// Takes the next bytes. `each` receives the chunks that are complete, in this call or a later one.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        each: impl FnMut(&[u8], Chunk) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.extend_from_slice(bytes);
        if self.held.len() < SCAN_BYTES { Ok(()) } else { self.cut_chunks(AtEnd::No, each) }
    }

    /// Ends the file. `each` receives the remaining chunks.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn finish<E>(mut self, each: impl FnMut(&[u8], Chunk) -> Result<(), E>) -> Result<(), E> {
        self.cut_chunks(AtEnd::Yes, each)
    }

    fn cut_chunks<E>(
        &mut self,
        at_end: AtEnd,
        mut each: impl FnMut(&[u8], Chunk) -> Result<(), E>,
    ) -> Result<(), E> {
        let scan = scan(&self.chunker, &self.held, at_end);
        let mut rest = &self.held[..];
        for chunk in scan.chunks {
            let (bytes, after) = rest.split_at(chunk.len as usize);
            each(bytes, chunk)?;
            rest = after;
        }
        self.held.drain(..scan.consumed);
        Ok(())
    }
}

/// Number of bytes to collect before a scan: several times the longest chunk.
const SCAN_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(first: u8, len: u32) -> Chunk {
        Chunk { len, fingerprint: Fingerprint::from_bytes([first; 32]) }
    }

    #[test]
    fn a_group_ends_by_content_or_when_it_is_full() {
        let mut grouper = Grouper::new();
        assert_eq!(grouper.push(&chunk(1, 10)), None);
        let group = grouper.push(&chunk(0x60, 5)).unwrap();
        assert_eq!((group.len, group.chunks), (15, 2));
        assert_eq!(grouper.finish(), None);
        let full = (0..MAX_GROUP_CHUNKS).filter_map(|_| grouper.push(&chunk(1, 1))).count();
        assert_eq!(full, 1);
        assert_eq!(grouper.finish(), None);
    }

    #[test]
    fn the_digest_depends_on_lengths_fingerprints_order_and_count() {
        let base = [chunk(1, 10), chunk(2, 20)];
        let all = [
            digest_of(&base),
            digest_of(&[chunk(1, 11), chunk(2, 20)]),
            digest_of(&[chunk(3, 10), chunk(2, 20)]),
            digest_of(&[chunk(2, 20), chunk(1, 10)]),
            digest_of(&base[..1]),
            digest_of(&[]),
            DigestBuilder::new().finish(1),
        ];
        for (n, digest) in all.iter().enumerate() {
            assert!(!all[..n].contains(digest), "{n}");
        }
    }
}
