//! [`Layout`]: the parts of a version, with places and checksums.

use deltic_core::stored::SumStrength;
use deltic_store::StoreError;

use crate::sums::{ContentSum, SumAlgorithm};

/// The consecutive parts of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the storage system, for output.
    pub system: &'static str,
    /// Remarks for output: a root hash, a snapshot, the reason why checksums are missing.
    pub about: Vec<String>,
    /// Identifies this version among others of the same name.
    pub token: String,
    /// Strength of the evidence that parts with equal places in storage have equal bytes.
    pub identities: SumStrength,
    /// Identity of the storage system. Equal places mean equal bytes only in layouts with the same `history`.
    pub(super) history: [u8; 32],
    pub(super) parts: Vec<LayoutPart>,
    len: u64,
}

/// A part of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutPart {
    /// Length in bytes, never 0.
    pub len: u64,
    /// Place in storage, if equal places mean equal bytes.
    pub id: Option<StorageId>,
    /// Checksums or other facts about the bytes.
    pub content: PartContent,
}

/// A place in storage. Equal offsets into equal identities mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageId {
    /// Identity of the whole extent that the part lies in.
    pub of: [u64; 3],
    /// Offset of the part in the extent, in bytes.
    pub from: u64,
}

/// Recorded facts about the bytes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartContent {
    /// A checksum for each unit.
    Units(UnitSums),
    /// One checksum of the whole part.
    Whole(ContentSum),
    /// Compression method, and the checksum of the compressed bytes.
    Encoded(String, ContentSum),
    /// All bytes are zero.
    Zero,
    /// Unknown content: the part must be read.
    Unknown,
}

/// Checksums of consecutive units of equal length. The last unit may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSums {
    /// Algorithm of the checksums.
    pub algorithm: SumAlgorithm,
    /// Length of a unit in bytes, never 0.
    pub bytes: u32,
    /// True if zeros extend a shorter unit before the checksum is computed.
    pub padded: bool,
    /// Salt: bytes hashed before the unit.
    pub salt: Box<[u8]>,
    /// The checksums, concatenated.
    pub sums: Vec<u8>,
}

/// Why a layout cannot be made: the message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LayoutError(pub String);

impl From<StoreError> for LayoutError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Changed { .. } => Self("it changed meanwhile".into()),
            error => Self(error.to_string()),
        }
    }
}

impl Layout {
    /// An empty layout, to be filled by [`Layout::push`].
    #[must_use]
    pub fn new(system: &'static str, history: [u8; 32]) -> Self {
        let (about, token, identities) = (Vec::new(), String::new(), SumStrength::Proof);
        Self { system, about, token, identities, history, parts: Vec::new(), len: 0 }
    }

    /// Appends a part. An empty part is ignored; a part that continues the last one extends it.
    ///
    /// # Errors
    /// [`LayoutError`] for too many parts, an end past 2^63 bytes, or a number of checksums that does not fit the
    /// length.
    pub fn push(&mut self, part: LayoutPart) -> Result<(), LayoutError> {
        if part.len == 0 {
            return Ok(());
        }
        let end = self.len.checked_add(part.len).filter(|end| *end <= i64::MAX as u64);
        let ends = part.id.is_none_or(|id| id.from.checked_add(part.len).is_some());
        let joins = self.parts.last().is_some_and(|last| last.is_continued_by(&part));
        if !ends || self.parts.len() == MAX_PARTS && !joins {
            let why = format!("more than {MAX_PARTS} parts, or an offset past 2^64");
            return Err(LayoutError(why));
        }
        let fits = match &part.content {
            PartContent::Units(units) => units.fit(part.len),
            PartContent::Whole(sum) => sum.algorithm.len() == Some(sum.bytes.len()),
            // There may be a checksum for each chunk of the compressed bytes.
            PartContent::Encoded(_, sum) => !sum.bytes.is_empty(),
            PartContent::Zero | PartContent::Unknown => true,
        };
        if !fits {
            return Err(LayoutError(format!(
                "the checksums do not fit a part of {} bytes",
                part.len
            )));
        }
        self.len = end.ok_or_else(|| LayoutError("the parts end behind 2^63 bytes".into()))?;
        match self.parts.last_mut() {
            Some(last) if joins => last.extend(part),
            _ => self.parts.push(part),
        }
        Ok(())
    }

    /// Length of the version in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True if the version has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts, each with the offset of its first byte.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &LayoutPart)> {
        let mut next = 0;
        self.parts.iter().map(move |part| {
            let start = next;
            next += part.len;
            (start, part)
        })
    }
}

impl LayoutPart {
    /// True if `next` follows this part in storage and is recorded in the same way.
    fn is_continued_by(&self, next: &Self) -> bool {
        let place = self.id.map(|id| (id.of, id.from.checked_add(self.len)));
        let is_next = place == next.id.map(|id| (id.of, Some(id.from)));
        is_next
            && match (&self.content, &next.content) {
                (PartContent::Units(units), PartContent::Units(more)) => {
                    units.are_like(more) && self.len.is_multiple_of(units.bytes.into())
                }
                (PartContent::Zero, PartContent::Zero)
                | (PartContent::Unknown, PartContent::Unknown) => true,
                _ => false,
            }
    }

    /// Extends this part by `next`, which continues it.
    fn extend(&mut self, next: Self) {
        self.len += next.len;
        if let (PartContent::Units(units), PartContent::Units(more)) =
            (&mut self.content, next.content)
        {
            units.sums.extend(more.sums);
        }
    }
}

impl UnitSums {
    /// Checksums of units of `bytes` bytes, without salt and padding.
    #[must_use]
    pub fn plain(algorithm: SumAlgorithm, bytes: u32, sums: Vec<u8>) -> Self {
        Self { algorithm, bytes, padded: false, salt: Box::default(), sums }
    }

    /// Number of units.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sums.len() as u64 / self.each() as u64
    }

    /// The checksum of unit `no`.
    #[must_use]
    pub fn sum(&self, no: u64) -> Option<&[u8]> {
        let start = usize::try_from(no).ok()?.checked_mul(self.each())?;
        self.sums.get(start..start + self.each())
    }

    /// Length of a checksum in bytes.
    fn each(&self) -> usize {
        self.algorithm.len().unwrap_or(1)
    }

    /// True if there is exactly one whole checksum for each unit of `len` bytes.
    fn fit(&self, len: u64) -> bool {
        let is_whole =
            self.algorithm.len().is_some() && self.sums.len().is_multiple_of(self.each());
        self.bytes > 0 && is_whole && self.count() == len.div_ceil(self.bytes.into())
    }

    /// True if equal checksums of both mean equal bytes: same algorithm, unit length, padding and salt.
    pub(super) fn are_like(&self, other: &Self) -> bool {
        let way = |units: &Self| (units.algorithm, units.bytes, units.padded);
        way(self) == way(other) && self.salt == other.salt
    }
}

/// The little-endian `u64` at `at`.
pub(super) fn u64_le(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The little-endian `u32` at `at`.
pub(super) fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The big-endian `u32` at `at`.
pub(super) fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    u32_le(bytes, at).map(u32::swap_bytes)
}

/// Most parts of a version.
pub(super) const MAX_PARTS: usize = 1_000_000;
