//! [`Layout`]: the parts of a version, and what is known of each.

use deltic_core::stored::SumStrength;
use deltic_store::StoreError;

use crate::sums::{ContentSum, SumAlgorithm};

/// The parts of a version, from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The system that says it, for people.
    pub system: &'static str,
    /// More about it, for people: a root hash, a snapshot, why something is not told.
    pub about: Vec<String>,
    /// Tells this version from others of the same name.
    pub token: String,
    /// Strength of equal identities as evidence.
    pub identities: SumStrength,
    /// The history in which identities are unique.
    pub(super) history: [u8; 32],
    pub(super) parts: Vec<LayoutPart>,
    len: u64,
}

/// A part of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutPart {
    /// Length in bytes, never 0.
    pub len: u64,
    /// Its place in storage, if that tells it from other bytes.
    pub id: Option<StorageId>,
    /// Knowledge of its bytes.
    pub content: PartContent,
}

/// A place in storage: equal offsets into equal identities are equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageId {
    /// Identity of the whole storage, of which the part is a piece.
    pub of: [u64; 3],
    /// Offset of the part in it, in bytes.
    pub from: u64,
}

/// Knowledge of the bytes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartContent {
    /// A sum for each unit.
    Units(UnitSums),
    /// Sum of all of it.
    Whole(ContentSum),
    /// Method by which it is packed, and the sum of the packed bytes.
    Encoded(String, ContentSum),
    /// Zeros.
    Zero,
    /// Unknown: only reading tells.
    Unknown,
}

/// Sums of units of one length, one behind the other. The last unit may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSums {
    /// Kind of the sums.
    pub algorithm: SumAlgorithm,
    /// Length of a unit in bytes, never 0.
    pub bytes: u32,
    /// True if a shorter unit is filled up with zeros before it is summed.
    pub padded: bool,
    /// Bytes that go into a sum before those of the unit.
    pub salt: Box<[u8]>,
    /// The bytes of the sums.
    pub sums: Vec<u8>,
}

/// Why a file is not what it was taken for.
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
    /// A version of no bytes so far, by the word of `system`.
    #[must_use]
    pub fn new(system: &'static str, history: [u8; 32]) -> Self {
        let (about, token, identities) = (Vec::new(), String::new(), SumStrength::Proof);
        Self { system, about, token, identities, history, parts: Vec::new(), len: 0 }
    }

    /// Appends a part; one without bytes is none. It joins the last one where it continues that.
    ///
    /// # Errors
    /// [`LayoutError`] of a part too many, of one that ends behind 2^63 bytes, and of sums that are not one a unit.
    pub fn push(&mut self, part: LayoutPart) -> Result<(), LayoutError> {
        if part.len == 0 {
            return Ok(());
        }
        let end = self.len.checked_add(part.len).filter(|end| *end <= i64::MAX as u64);
        let ends = part.id.is_none_or(|id| id.from.checked_add(part.len).is_some());
        let joins = self.parts.last().is_some_and(|last| last.is_continued_by(&part));
        if !ends || self.parts.len() == MAX_PARTS && !joins {
            let why = format!("it has more than {MAX_PARTS} parts, or ends nowhere");
            return Err(LayoutError(why));
        }
        let fits = match &part.content {
            PartContent::Units(units) => units.fit(part.len),
            PartContent::Whole(sum) => sum.algorithm.len() == Some(sum.bytes.len()),
            // There may be one for each piece of it.
            PartContent::Encoded(_, sum) => !sum.bytes.is_empty(),
            PartContent::Zero | PartContent::Unknown => true,
        };
        if !fits {
            return Err(LayoutError(format!("other sums than a part of {} bytes has", part.len)));
        }
        self.len = end.ok_or_else(|| LayoutError("it ends behind 2^63 bytes".into()))?;
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

    /// True for a version of no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts, each with the place of its first byte.
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
    /// True if `next` lies right behind it, and is covered in the same way.
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

    /// Takes a part that continues it.
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
    /// Sums of units of `bytes`, without a salt; the last unit is summed as it is.
    #[must_use]
    pub fn plain(algorithm: SumAlgorithm, bytes: u32, sums: Vec<u8>) -> Self {
        Self { algorithm, bytes, padded: false, salt: Box::default(), sums }
    }

    /// Number of units.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sums.len() as u64 / self.each() as u64
    }

    /// The sum of unit `no`.
    #[must_use]
    pub fn sum(&self, no: u64) -> Option<&[u8]> {
        let start = usize::try_from(no).ok()?.checked_mul(self.each())?;
        self.sums.get(start..start + self.each())
    }

    /// Length of a sum in bytes.
    fn each(&self) -> usize {
        self.algorithm.len().unwrap_or(1)
    }

    /// True if there is a sum for each unit of `len` bytes, and no piece of one.
    fn fit(&self, len: u64) -> bool {
        let is_whole =
            self.algorithm.len().is_some() && self.sums.len().is_multiple_of(self.each());
        self.bytes > 0 && is_whole && self.count() == len.div_ceil(self.bytes.into())
    }

    /// True if sums of both are taken in one way.
    pub(super) fn are_like(&self, other: &Self) -> bool {
        let way = |units: &Self| (units.algorithm, units.bytes, units.padded);
        way(self) == way(other) && self.salt == other.salt
    }
}

/// A number at `at`, little-endian.
pub(super) fn u64_le(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The same of four bytes.
pub(super) fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The same, most significant byte first.
pub(super) fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    u32_le(bytes, at).map(u32::swap_bytes)
}

/// Parts of a version at most.
pub(super) const MAX_PARTS: usize = 1_000_000;
