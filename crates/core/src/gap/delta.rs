//! The delta of a gap: copies from the old gap and literals that make the new gap.

use std::ops::Range;

use super::{BlockLen, MAX_GAP_BYTES};
use crate::codec::{CodecError, Put, Reader};
use crate::delta::DeltaOp;
use crate::span::Span;

/// A new gap as copies and literals. The literals borrow from the new gap or from the received message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapDelta<'a> {
    /// Pieces in the order of the new gap. No piece is empty, and neighbours that could be one piece are one
    /// piece.
    pub(super) pieces: Vec<GapPiece<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapPiece<'a> {
    /// A copy of bytes of the old gap.
    Copy {
        /// Offset in the old gap.
        start: usize,
        /// Length in bytes.
        len: usize,
    },
    /// Literal bytes.
    Literal(&'a [u8]),
}

/// Reason why a delta does not fit its gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDelta {
    /// A copy reaches past the end of the old gap.
    #[error("delta of a gap copies bytes beyond the end of the old gap")]
    BeyondOld,
    /// The delta makes more or fewer bytes than the new gap has.
    #[error("delta of a gap makes {made} bytes, not {expected}")]
    Len {
        /// Number of bytes that the delta makes.
        made: usize,
        /// Number of bytes of the new gap.
        expected: usize,
    },
}

impl<'a> GapDelta<'a> {
    /// Number of literal bytes.
    #[must_use]
    pub fn literal_len(&self) -> usize {
        let literals = self.pieces.iter().map(|piece| match piece {
            GapPiece::Copy { .. } => 0,
            GapPiece::Literal(bytes) => bytes.len(),
        });
        literals.sum()
    }

    /// Number of literal bytes in each of several consecutive parts of the new gap, of the lengths `lens`.
    ///
    /// # Panics
    /// If `lens` add up to more than [`GapDelta::new_len`].
    pub fn literal_lens(&self, lens: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
        let mut pieces = self.pieces.iter();
        let (mut is_literal, mut left) = (false, 0);
        lens.map(move |mut len| {
            let mut literal = 0;
            while len > 0 {
                if left == 0 {
                    let piece = pieces.next().expect("lens add up to at most new_len");
                    (is_literal, left) = (matches!(piece, GapPiece::Literal(_)), piece.len());
                }
                let taken = left.min(len);
                literal += if is_literal { taken as u64 } else { 0 };
                (left, len) = (left - taken, len - taken);
            }
            literal
        })
    }

    /// Length of the new gap in bytes.
    #[must_use]
    pub fn new_len(&self) -> usize {
        self.pieces.iter().map(GapPiece::len).sum()
    }

    /// The copies and literals in the order of the new gap. Offsets count from the start of the gaps, not of
    /// the files.
    pub fn ops(&self) -> impl Iterator<Item = DeltaOp> {
        self.pieces.iter().scan(0, |at, piece| {
            let new = Span::new(*at, piece.len() as u32);
            *at = new.end();
            Some(match *piece {
                GapPiece::Copy { start, len } => {
                    DeltaOp::Copy { old: Span::new(start as u64, len as u32), new_start: new.start }
                }
                GapPiece::Literal(_) => DeltaOp::Literal { new },
            })
        })
    }

    /// Appends a literal, the next bytes of the new gap.
    pub(super) fn push_literal(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.pieces.push(GapPiece::Literal(bytes));
        }
    }

    /// Appends a copy from the old gap.
    pub(super) fn push_copy(&mut self, old: Range<usize>) {
        match self.pieces.last_mut() {
            Some(GapPiece::Copy { start, len }) if *start + *len == old.start => *len += old.len(),
            _ if old.is_empty() => {}
            _ => self.pieces.push(GapPiece::Copy { start: old.start, len: old.len() }),
        }
    }

    /// Appends the encoded delta:
    ///
    /// 1. For each copy: length of the literal before it, length of the copy, and its start relative to the end
    ///    of the last copy.
    /// 2. Length of the last literal, and a 0.
    /// 3. The bytes of all literals.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (mut literal_len, mut end) = (0, 0);
        for piece in &self.pieces {
            match *piece {
                GapPiece::Copy { start, len } => {
                    out.put_varint(std::mem::take(&mut literal_len));
                    out.put_varint(len as u64);
                    out.put_signed(start as i64 - end as i64);
                    end = start + len;
                }
                GapPiece::Literal(bytes) => literal_len = bytes.len() as u64,
            }
        }
        out.put_varint(literal_len);
        out.put_varint(0);
        for piece in &self.pieces {
            if let GapPiece::Literal(bytes) = piece {
                out.put_bytes(bytes);
            }
        }
    }

    /// Reads the output of [`GapDelta::encode`]. [`apply`] checks whether the delta fits its gap.
    ///
    /// # Errors
    /// - [`CodecError::OutOfRange`]: more bytes or copies than a gap can have.
    /// - [`CodecError::NotCanonical`]: two adjacent copies that are one.
    /// - [`CodecError::Truncated`]: the input ends inside the delta.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, CodecError> {
        let mut steps = Vec::new();
        let mut end = 0;
        loop {
            let literal_len = super::checked_len(reader.varint()?)?;
            let len = super::checked_len(reader.varint()?)?;
            if len == 0 {
                return Self::read_literals(reader, &steps, literal_len);
            }
            let start = add_offset(end, reader.signed()?)?;
            match steps.last() {
                Some(_) if literal_len == 0 && start == end => {
                    return Err(CodecError::NotCanonical);
                }
                _ if steps.len() == MAX_COPIES => return Err(CodecError::OutOfRange),
                _ => steps.push((literal_len, start, len)),
            }
            end = start + len;
        }
    }

    fn read_literals(
        reader: &mut Reader<'a>,
        steps: &[(usize, usize, usize)],
        last_len: usize,
    ) -> Result<Self, CodecError> {
        let mut delta = GapDelta { pieces: Vec::with_capacity(2 * steps.len() + 1) };
        for (literal_len, start, len) in steps {
            delta.push_literal(reader.bytes(*literal_len)?);
            delta.push_copy(*start..*start + *len);
        }
        delta.push_literal(reader.bytes(last_len)?);
        if delta.new_len() > MAX_GAP_BYTES { Err(CodecError::OutOfRange) } else { Ok(delta) }
    }

    /// Checks that each copy lies in `old` and that all pieces have `new_len` bytes together.
    fn check_fits(&self, old: &[u8], new_len: usize) -> Result<(), BadDelta> {
        let beyond = |piece: &GapPiece<'_>| match *piece {
            GapPiece::Copy { start, len } => start + len > old.len(),
            GapPiece::Literal(_) => false,
        };
        match self.new_len() {
            _ if self.pieces.iter().any(beyond) => Err(BadDelta::BeyondOld),
            made if made != new_len => Err(BadDelta::Len { made, expected: new_len }),
            _ => Ok(()),
        }
    }
}

/// Appends the new gap, of `new_len` bytes, from the `old` gap and `delta`. Appends nothing on an error.
///
/// # Errors
/// [`BadDelta`] if the delta does not fit these gaps.
pub fn apply(
    old: &[u8],
    delta: &GapDelta<'_>,
    new_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), BadDelta> {
    delta.check_fits(old, new_len)?;
    out.reserve(new_len);
    for piece in &delta.pieces {
        out.extend_from_slice(match *piece {
            GapPiece::Copy { start, len } => &old[start..start + len],
            GapPiece::Literal(bytes) => bytes,
        });
    }
    Ok(())
}

impl GapPiece<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Copy { len, .. } => *len,
            Self::Literal(bytes) => bytes.len(),
        }
    }
}

/// `at + by`, or an error if the result is not an offset in a gap.
fn add_offset(at: usize, by: i64) -> Result<usize, CodecError> {
    let start = i64::try_from(at).ok().and_then(|at| at.checked_add(by));
    let start = start.and_then(|start| u64::try_from(start).ok());
    super::checked_len(start.ok_or(CodecError::OutOfRange)?)
}

/// Maximum number of copies that a search can find: one for each block.
const MAX_COPIES: usize = MAX_GAP_BYTES / BlockLen::MIN as usize + 1;
