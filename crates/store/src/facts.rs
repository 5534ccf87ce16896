//! Extents: where the bytes of each part of a version are stored. A store can return the extents without reading the
//! version.
//!
//! Parts of two versions that lie in the same storage are equal. A sync needs to read only the other parts.

use std::ops::Range;

use deltic_core::codec::{Put, Reader};

/// The extents of a version, in order and without gaps from the first byte to the end of the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents {
    store: [u8; 32],
    parts: Vec<Extent>,
    len: u64,
}

/// A part of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, never 0.
    pub len: u64,
    /// Content of the part, as far as known to the store.
    pub is: ExtentContent,
}

/// Content of a part, as far as a store knows without reading the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentContent {
    /// Storage with an identity. The bytes of the storage never change while the storage has this identity, so two
    /// parts with equal identity and offset are equal.
    Id {
        /// Identity of the storage that contains the part.
        id: [u64; 3],
        /// Offset of the part in the storage, in bytes.
        from: u64,
    },
    /// Zeros: a hole, or storage that was reserved and never written.
    Zero,
    /// Unknown content. The part must be read.
    Unknown,
}

/// Error: more than [`MAX_PARTS`] parts, or a length or offset beyond 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Extents {
    /// Returns the extents of an empty version. `store` identifies the history in which identities of storage are
    /// unique.
    ///
    /// A store that may have been rolled back must use another value: after the rollback, the store would give the same
    /// identities to other bytes.
    #[must_use]
    pub const fn new(store: [u8; 32]) -> Self {
        Self { store, parts: Vec::new(), len: 0 }
    }

    /// Returns the identifier of the history in which identities of storage are unique.
    #[must_use]
    pub const fn store(&self) -> &[u8; 32] {
        &self.store
    }

    /// Appends a part of `len` bytes, or extends the last part if the new bytes continue it.
    ///
    /// # Errors
    /// [`TooMany`] beyond [`MAX_PARTS`] parts, or if an offset would exceed 64 bits.
    pub fn push(&mut self, len: u64, is: ExtentContent) -> Result<(), TooMany> {
        if len == 0 {
            return Ok(());
        }
        if let ExtentContent::Id { from, .. } = is {
            from.checked_add(len).ok_or(TooMany)?;
        }
        let end = self.len.checked_add(len).ok_or(TooMany)?;
        let is_full = self.parts.len() == MAX_PARTS;
        match self.parts.last_mut() {
            Some(last) if last.is.at_offset(last.len) == is => last.len += len,
            _ if is_full => return Err(TooMany),
            _ => self.parts.push(Extent { len, is }),
        }
        self.len = end;
        Ok(())
    }

    /// Length of the version in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True for an empty version.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the parts, each with its byte range in the version.
    pub fn parts(&self) -> impl Iterator<Item = (Range<u64>, ExtentContent)> {
        let mut start = 0;
        self.parts.iter().map(move |part| {
            let range = start..start + part.len;
            start = range.end;
            (range, part.is)
        })
    }

    /// Returns the ranges of this version that may differ from `old` at the same offset, ascending and not adjacent.
    /// Bytes beyond the end of `old` are included. `None` if the two versions belong to different histories.
    #[must_use]
    pub fn changed_since(&self, old: &Self) -> Option<Vec<Range<u64>>> {
        if self.store != old.store {
            return None;
        }
        let mut changed: Vec<Range<u64>> = Vec::new();
        let mut before = old.parts().peekable();
        for (part, is) in self.parts() {
            let mut at = part.start;
            while at < part.end {
                while before.next_if(|(old, _)| old.end <= at).is_some() {}
                let (end, is_same) = match before.peek() {
                    Some((old, was)) => {
                        let now = is.at_offset(at - part.start);
                        let is_same = now.is_known() && now == was.at_offset(at - old.start);
                        (part.end.min(old.end), is_same)
                    }
                    None => (part.end, false),
                };
                match changed.last_mut() {
                    _ if is_same => {}
                    Some(last) if last.end == at => last.end = end,
                    _ => changed.push(at..end),
                }
                at = end;
            }
        }
        Some(changed)
    }

    /// Encodes the extents for [`Extents::decode`], in a few bytes for each part.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.put_bytes(&self.store);
        let mut next = Expected::default();
        for Extent { len, is } in &self.parts {
            match *is {
                ExtentContent::Zero => bytes.put_u8(ZERO),
                ExtentContent::Unknown => bytes.put_u8(UNKNOWN),
                ExtentContent::Id { id, from } => {
                    let fields = next.differences_of(id);
                    let in_blocks = (len | fields[0] as u64 | from).is_multiple_of(BLOCK_BYTES);
                    let shift = if in_blocks { BLOCK_SHIFT } else { 0 };
                    bytes.put_u8(if in_blocks { ID_IN_BLOCKS } else { ID });
                    bytes.put_varint(len >> shift);
                    bytes.put_signed(fields[0] >> shift);
                    bytes.put_signed(fields[1]);
                    bytes.put_signed(fields[2]);
                    bytes.put_varint(from >> shift);
                    next.passed(id, from, *len);
                    continue;
                }
            }
            bytes.put_varint(*len);
        }
        bytes
    }

    /// Decodes bytes that [`Extents::encode`] wrote; `None` for all other bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        if from.u8().ok()? != FORMAT {
            return None;
        }
        let mut extents = Self::new(from.bytes(32).ok()?.try_into().ok()?);
        let mut next = Expected::default();
        while !from.is_empty() {
            let kind = from.u8().ok()?;
            let shift = if kind == ID_IN_BLOCKS { BLOCK_SHIFT } else { 0 };
            let len = shifted(from.varint().ok()?, shift)?;
            let is = match kind {
                ZERO => ExtentContent::Zero,
                UNKNOWN => ExtentContent::Unknown,
                ID | ID_IN_BLOCKS => {
                    let far = from.signed().ok()?;
                    let far = (far << shift >> shift == far).then_some(far << shift)?;
                    let fields = [far, from.signed().ok()?, from.signed().ok()?];
                    let from = shifted(from.varint().ok()?, shift)?;
                    let id = next.id_of(fields);
                    next.passed(id, from, len);
                    ExtentContent::Id { id, from }
                }
                _ => return None,
            };
            extents.push((len > 0).then_some(len)?, is).ok()?;
        }
        Some(extents)
    }
}

impl ExtentContent {
    /// Returns the content `offset` bytes after the start of this part.
    const fn at_offset(self, offset: u64) -> Self {
        match self {
            // The addition wraps only for a part that `push` refuses.
            Self::Id { id, from } => Self::Id { id, from: from.wrapping_add(offset) },
            other => other,
        }
    }

    fn is_known(self) -> bool {
        self != Self::Unknown
    }
}

/// Predicts the identity of the next part: storage directly after the last part. A right prediction is encoded in few
/// bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    id: [u64; 3],
}

impl Expected {
    fn differences_of(self, id: [u64; 3]) -> [i64; 3] {
        [0, 1, 2].map(|field: usize| id[field].wrapping_sub(self.id[field]) as i64)
    }

    fn id_of(self, fields: [i64; 3]) -> [u64; 3] {
        [0, 1, 2].map(|field: usize| self.id[field].wrapping_add(fields[field] as u64))
    }

    const fn passed(&mut self, id: [u64; 3], from: u64, len: u64) {
        self.id = id;
        self.id[0] = id[0].wrapping_add(from).wrapping_add(len);
    }
}

fn shifted(value: u64, shift: u32) -> Option<u64> {
    (value << shift >> shift == value).then_some(value << shift)
}

/// Most parts of a version with extents. A version of more parts must be read.
pub const MAX_PARTS: usize = 1_000_000;

const FORMAT: u8 = 1;
const UNKNOWN: u8 = 0;
const ZERO: u8 = 1;
const ID: u8 = 2;
const ID_IN_BLOCKS: u8 = 3;
const BLOCK_SHIFT: u32 = 12;
const BLOCK_BYTES: u64 = 1 << BLOCK_SHIFT;

#[cfg(test)]
mod tests;
