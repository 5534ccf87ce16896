//! The sender's answer: the new gap as copies and literals.

use std::ops::Range;

use super::{BlockLen, MAX_GAP_BYTES};
use crate::codec::{CodecError, Put, Reader};
use crate::delta::Op;
use crate::span::Span;

/// A new gap, made of an old one. Its literals lie where it was made from, or read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapDelta<'a> {
    /// Pieces in the order of new. None is empty, and none could be one with the piece before it.
    pub(super) pieces: Vec<Piece<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Bytes of the old gap.
    Copy {
        /// The first one.
        start: usize,
        /// Length in bytes.
        len: usize,
    },
    /// These bytes.
    Literal(&'a [u8]),
}

/// Why a delta does not fit the gap that it came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDelta {
    /// A copy of bytes that old does not have.
    #[error("delta of a gap copies bytes beyond the end of the old gap")]
    BeyondOld,
    /// A delta of more or fewer bytes than the new gap has.
    #[error("delta of a gap makes {made} bytes, not {expected}")]
    Len {
        /// Bytes it would make.
        made: usize,
        /// Bytes of the new gap.
        expected: usize,
    },
}

impl<'a> GapDelta<'a> {
    /// Bytes that travel as they are.
    #[must_use]
    pub fn literal_len(&self) -> usize {
        let literals = self.pieces.iter().map(|piece| match piece {
            Piece::Copy { .. } => 0,
            Piece::Literal(bytes) => bytes.len(),
        });
        literals.sum()
    }

    /// Bytes of each of these lengths, laid end to end, that travel as they are.
    ///
    /// # Panics
    /// If they are longer together than what it makes.
    pub fn literal_lens(&self, lens: impl Iterator<Item = usize>) -> impl Iterator<Item = u64> {
        let mut pieces = self.pieces.iter();
        let (mut is_literal, mut left) = (false, 0);
        lens.map(move |mut len| {
            let mut literal = 0;
            while len > 0 {
                if left == 0 {
                    let piece = pieces.next().expect("the delta makes as many bytes");
                    (is_literal, left) = (matches!(piece, Piece::Literal(_)), piece.len());
                }
                let taken = left.min(len);
                literal += if is_literal { taken as u64 } else { 0 };
                (left, len) = (left - taken, len - taken);
            }
            literal
        })
    }

    /// Bytes that it makes.
    #[must_use]
    pub fn new_len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// The copies and literals in the order of new. Spans are of the gaps, not of the files.
    pub fn ops(&self) -> impl Iterator<Item = Op> {
        self.pieces.iter().scan(0, |at, piece| {
            let new = Span::new(*at, piece.len() as u32);
            *at = new.end();
            Some(match *piece {
                Piece::Copy { start, len } => {
                    Op::Copy { old: Span::new(start as u64, len as u32), new_start: new.start }
                }
                Piece::Literal(_) => Op::Literal { new },
            })
        })
    }

    /// Appends bytes of new that no piece has yet.
    pub(super) fn push_literal(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.pieces.push(Piece::Literal(bytes));
        }
    }

    /// Appends bytes of old.
    pub(super) fn push_copy(&mut self, old: Range<usize>) {
        match self.pieces.last_mut() {
            Some(Piece::Copy { start, len }) if *start + *len == old.start => *len += old.len(),
            _ if old.is_empty() => {}
            _ => self.pieces.push(Piece::Copy { start: old.start, len: old.len() }),
        }
    }

    /// Appends what the receiver needs. For each copy: the length of the literal before it, its own length, and how
    /// far it starts from where the last copy ended. Then the length of the last literal and a 0, then the bytes of
    /// all literals.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (mut literal_len, mut end) = (0, 0);
        for piece in &self.pieces {
            match *piece {
                Piece::Copy { start, len } => {
                    out.put_varint(std::mem::take(&mut literal_len));
                    out.put_varint(len as u64);
                    out.put_signed(start as i64 - end as i64);
                    end = start + len;
                }
                Piece::Literal(bytes) => literal_len = bytes.len() as u64,
            }
        }
        out.put_varint(literal_len);
        out.put_varint(0);
        for piece in &self.pieces {
            if let Piece::Literal(bytes) = piece {
                out.put_bytes(bytes);
            }
        }
    }

    /// Reads what [`GapDelta::encode`] wrote. Whether it fits the gap is for [`apply`] to say.
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] for more bytes or copies than a gap has, [`CodecError::NotCanonical`] for two copies
    /// that are one, [`CodecError::Truncated`] at the end.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, CodecError> {
        let mut steps = Vec::new();
        let mut end = 0;
        loop {
            let literal_len = super::bounded(reader.varint()?)?;
            let len = super::bounded(reader.varint()?)?;
            if len == 0 {
                return Self::read_literals(reader, &steps, literal_len);
            }
            let start = shifted(end, reader.signed()?)?;
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

    /// Checks that each copy lies in `old` and all pieces together have `new_len` bytes.
    fn check(&self, old: &[u8], new_len: usize) -> Result<(), BadDelta> {
        let beyond = |piece: &Piece<'_>| match *piece {
            Piece::Copy { start, len } => start + len > old.len(),
            Piece::Literal(_) => false,
        };
        match self.new_len() {
            _ if self.pieces.iter().any(beyond) => Err(BadDelta::BeyondOld),
            made if made != new_len => Err(BadDelta::Len { made, expected: new_len }),
            _ => Ok(()),
        }
    }
}

/// Appends the new gap of `new_len` bytes that `delta` makes of the `old` one. Nothing is appended on an error.
///
/// # Errors
/// [`BadDelta`] where the delta is not for these gaps.
pub fn apply(
    old: &[u8],
    delta: &GapDelta<'_>,
    new_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), BadDelta> {
    delta.check(old, new_len)?;
    out.reserve(new_len);
    for piece in &delta.pieces {
        out.extend_from_slice(match *piece {
            Piece::Copy { start, len } => &old[start..start + len],
            Piece::Literal(bytes) => bytes,
        });
    }
    Ok(())
}

impl Piece<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Copy { len, .. } => *len,
            Self::Literal(bytes) => bytes.len(),
        }
    }
}

/// `at`, moved by `by`, if a gap reaches as far.
fn shifted(at: usize, by: i64) -> Result<usize, CodecError> {
    let start = i64::try_from(at).ok().and_then(|at| at.checked_add(by));
    let start = start.and_then(|start| u64::try_from(start).ok());
    super::bounded(start.ok_or(CodecError::OutOfRange)?)
}

/// Copies that a search finds at most: each of a whole block, and one of a shorter last one.
const MAX_COPIES: usize = MAX_GAP_BYTES / BlockLen::MIN as usize + 1;
