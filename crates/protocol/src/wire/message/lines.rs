//! Fields of frames in both directions.

use std::ops::Range;

use deltic_core::GapSums;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::fingerprint::{ChunkPrefix, GroupPrefix, PrefixLen};
use deltic_core::moved::MovedRun;
use deltic_core::recipe::Digest;
use deltic_tree::path::MAX_NAME_BYTES;

use crate::wire::codec::{BadPayload, WireEncoding, closed_set, read_items};

/// Index of a listed entry in the sender's list, counted from 0 over all directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNo(pub u64);

/// Requested way of sending a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// By recipe: an old version can be matched.
    Recipe,
    /// Whole, as literals of fixed blocks.
    Whole,
    /// By the session's strategy, where that is not Deltic's own.
    Strategy,
    /// By the session's strategy with its stronger sum.
    Stronger,
    /// From an offset on, as literals of fixed blocks; requested by [`ToSender::Append`](super::ToSender::Append).
    Tail,
    /// By differences from the base that the receiver holds; the sender's answer to
    /// [`ToSender::Base`](super::ToSender::Base).
    Changes,
}

/// A group of a recipe on the wire: enough to find the group, not to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLine {
    /// Length of all chunks of the group, in bytes.
    pub len: u64,
    /// Number of chunks in the group.
    pub chunks: u32,
    /// First bytes of the group's fingerprint.
    pub short: GroupPrefix,
}

/// A chunk of a recipe on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLine {
    /// Length in bytes.
    pub len: u32,
    /// First bytes of the chunk's fingerprint.
    pub brief: ChunkPrefix,
}

/// Chunks of a recipe in a frame; all fingerprint prefixes have the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLines(pub Vec<ChunkLine>);

/// A gap in the new version, with the sums of the corresponding gap in the old version: the bytes between the same
/// matched neighbours (docs/decisions/0018).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapLine {
    /// Chunks of the new version without a match.
    pub chunks: Range<u32>,
    /// Sums of the old gap's blocks; without sums the sender sends the plain bytes.
    pub sums: GapSums,
}

/// A hole of a file, and the data from the end of the hole to the next hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLine {
    /// Length of the hole in bytes; 0 where the file begins with data.
    pub hole: u64,
    /// Length of the data in bytes.
    pub data: u64,
}

impl DataLine {
    /// Returns the lines of ascending runs of data.
    pub(crate) fn from_runs(runs: &[Range<u64>]) -> impl Iterator<Item = Self> {
        let line = |end: &mut u64, run: &Range<u64>| {
            let hole = run.start - std::mem::replace(end, run.end);
            Some(Self { hole, data: run.end - run.start })
        };
        runs.iter().scan(0, line)
    }
}

/// Name of a user or group at the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLine {
    /// Number of the user or group.
    pub id: u32,
    /// Name; not empty.
    pub name: Box<[u8]>,
}

/// Continuation of a directory's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Further entries of the directory follow in the next frame.
    More,
    /// These entries were the last.
    Last,
    /// These were the last entries that take part. The directory may have others, which are filtered out or could not
    /// be listed.
    Part,
    /// These entries were the last, and one of the source directories that make up this directory is empty.
    Empty,
}

/// Digest of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestLine {
    /// The file.
    pub file: FileNo,
    /// BLAKE3-256 of the content; `None` if the file cannot be read.
    pub digest: Option<Digest>,
}

/// First bytes of the digest of a file, for contents that both ends compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortDigestLine {
    /// The file.
    pub file: FileNo,
    /// First bytes of the digest; `None` if the file cannot be read.
    pub digest: Option<ShortDigest>,
}

/// Lines of short digests in a frame. Each file is encoded as a difference from the file before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortDigestLines(pub Vec<ShortDigestLine>);

/// The first bytes of a digest, which prove the copy of a file sent in a single frame. The content came over the same
/// session, so the digest only has to reveal damage: damaged content passes once in 2¹²⁸ times, or once in 2⁶⁴ times if
/// only [`ProofPrefix`] was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefDigest([u8; 16]);

/// The first bytes of a [`BriefDigest`].
pub type ProofPrefix = [u8; 8];

impl BriefDigest {
    /// Returns a brief digest of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the first bytes of `digest`.
    #[must_use]
    pub const fn of(digest: &Digest) -> Self {
        let (first, _) = digest.as_bytes().split_first_chunk().expect("a digest is longer");
        Self(*first)
    }

    /// Returns a brief digest of which only the first bytes are known.
    #[must_use]
    pub fn from_prefix(prefix: ProofPrefix) -> Self {
        let mut bytes = [0; 16];
        bytes[..prefix.len()].copy_from_slice(&prefix);
        Self(bytes)
    }

    /// Returns the first bytes.
    #[must_use]
    pub const fn prefix(&self) -> ProofPrefix {
        let (first, _) = self.0.split_first_chunk().expect("a brief digest is longer");
        *first
    }

    /// True if the known bytes are those of `digest`.
    #[must_use]
    pub fn agrees_with(&self, digest: &Digest) -> bool {
        let brief = Self::of(digest);
        [brief, Self::from_prefix(brief.prefix())].contains(self)
    }

    /// Returns the brief digest in the place of a whole digest, followed by zeros. Fails to prove any content that is
    /// compared with all bytes of a digest.
    pub(crate) fn padded(self) -> Digest {
        let mut bytes = [0; 32];
        bytes[..self.0.len()].copy_from_slice(&self.0);
        Digest::from_bytes(bytes)
    }
}

impl WireEncoding for ProofPrefix {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(self);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(from.array()?)
    }
}

impl WireEncoding for BriefDigest {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(&self.0);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self(from.array()?))
    }
}

/// First bytes of a digest. Two contents are compared under the key of a session, so nobody can prepare different
/// contents with equal first bytes. The first bytes of two different contents are equal once in 2⁸⁰ comparisons.
pub type ShortDigest = [u8; 10];

/// Returns the first bytes of `digest`.
pub(crate) const fn shortened(digest: &Digest) -> ShortDigest {
    let (brief, _) = digest.as_bytes().split_first_chunk().expect("a digest is longer");
    *brief
}

closed_set!(TransferKind: Recipe = 0, Whole = 1, Strategy = 2, Stronger = 3, Tail = 4, Changes = 5);
closed_set!(Extent: More = 0, Last = 1, Part = 2, Empty = 3);

impl WireEncoding for FileNo {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.0.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self(from.varint()?))
    }
}

impl WireEncoding for GroupLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.len.write_to(to);
        self.chunks.write_to(to);
        self.short.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self {
            len: from.varint()?,
            chunks: from.varint_u32()?,
            short: WireEncoding::read_from(from)?,
        })
    }
}

impl WireEncoding for ChunkLines {
    fn write_to(&self, to: &mut Vec<u8>) {
        let brief = self.0.first().map_or(PrefixLen::MIN, |line| line.brief.len());
        debug_assert!(self.0.iter().all(|line| line.brief.len() == brief), "all are as long");
        to.put_u8(brief.get() as u8);
        to.put_varint(self.0.len() as u64);
        for line in &self.0 {
            line.len.write_to(to);
            to.put_bytes(line.brief.as_bytes());
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let brief = PrefixLen::new(from.u8()?).ok_or(CodecError::OutOfRange)?;
        let line = |from: &mut Reader<'_>| {
            let (len, bytes) = (from.varint_u32()?, from.bytes(brief.get())?);
            let brief = ChunkPrefix::from_bytes(bytes).ok_or(CodecError::OutOfRange)?;
            Ok(ChunkLine { len, brief })
        };
        read_items(from, line).map(Self)
    }
}

impl WireEncoding for NameLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.id.write_to(to);
        to.put_prefixed(&self.name);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (id, name) = (from.varint_u32()?, from.prefixed(MAX_NAME_BYTES)?);
        let bad = name.is_empty() || name.contains(&0);
        if bad { Err(CodecError::OutOfRange.into()) } else { Ok(Self { id, name: name.into() }) }
    }
}

impl WireEncoding for GapLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.chunks.write_to(to);
        self.sums.encode(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { chunks: WireEncoding::read_from(from)?, sums: GapSums::decode(from)? })
    }
}

impl WireEncoding for DataLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.hole.write_to(to);
        self.data.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { hole: from.varint()?, data: from.varint()? })
    }
}

impl WireEncoding for MovedRun {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.to.write_to(to);
        self.from.write_to(to);
        self.blocks.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { to: from.varint_u32()?, from: from.varint_u32()?, blocks: from.varint_u32()? })
    }
}

impl WireEncoding for ShortDigestLines {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(self.0.len() as u64);
        let mut before = 0_u64;
        for ShortDigestLine { file, digest } in &self.0 {
            to.put_signed(file.0.wrapping_sub(before).cast_signed());
            to.put_bytes(digest.as_ref().unwrap_or(&UNREADABLE));
            before = file.0;
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let mut before = 0_u64;
        let line = |from: &mut Reader<'_>| {
            before = before.wrapping_add(from.signed()?.cast_unsigned());
            let digest = Some(from.array()?).filter(|digest| *digest != UNREADABLE);
            Ok(ShortDigestLine { file: FileNo(before), digest })
        };
        read_items(from, line).map(Self)
    }
}

/// Stands for the digest of a file that cannot be read.
const UNREADABLE: ShortDigest = [0; 10];

impl WireEncoding for DigestLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.file.write_to(to);
        self.digest.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { file: WireEncoding::read_from(from)?, digest: WireEncoding::read_from(from)? })
    }
}
