//! The deltas of several gaps, one after the other, with the address fields of gaps of code.
//!
//! ```text
//! deltas   delta of each gap                                  without code
//!          delta of each gap, columns, length of the columns  with code; the length is a u32, little-endian
//! delta    copies and literals                                of the gap
//!          0, 0, copies and literals                          of the masked gap: its fields are in the columns
//! ```
//!
//! No other delta begins with two zeros: that delta would make no byte.

use super::{GapDelta, GapSums};
use crate::code::{BadColumns, FieldReader, FieldWriter, fields, is_code};
use crate::codec::{CodecError, Put, Reader};

/// First bytes of the delta of a masked gap.
const MASKED: [u8; 2] = [0, 0];
/// Length of the columns' length in bytes.
const LEN_BYTES: usize = 4;
/// A gap with more fields than one for so many bytes is not masked. Each field adds at most 5 bytes to the columns, so
/// deltas with columns are at most half as long again as the gaps.
const LEAST_BYTES_PER_FIELD: usize = 10;

/// Writes deltas of gaps.
#[derive(Debug, Default)]
pub struct GapDeltaWriter {
    /// True if gaps without old bytes may be masked.
    may_mask: bool,
    deltas: Vec<u8>,
    fields: Option<FieldWriter>,
}

impl GapDeltaWriter {
    /// Starts without a delta. `may_mask` says whether gaps without old bytes may be masked.
    #[must_use]
    pub fn new(may_mask: bool) -> Self {
        Self { may_mask, ..Self::default() }
    }

    /// Adds the delta from the old gap with these `sums` to the gap `new`, which begins at `address` of its file. `seed`
    /// is the seed of the session. Returns the number of compared sums.
    ///
    /// # Panics
    /// If `new` is longer than [`MAX_GAP_BYTES`](super::MAX_GAP_BYTES).
    pub fn add(&mut self, new: &[u8], address: u64, sums: &GapSums, seed: u64) -> u64 {
        let is_masked = match sums.old_len() {
            0 => self.may_mask && is_code(new),
            _ => sums.is_masked(),
        };
        let found: Vec<_> = if is_masked { fields(new).collect() } else { Vec::new() };
        if is_masked && found.len() * LEAST_BYTES_PER_FIELD <= new.len() {
            let mut masked = new.to_vec();
            self.fields.get_or_insert_default().split_at(&mut masked, &found, address);
            self.deltas.put_bytes(&MASKED);
            return self.add_delta(&masked, sums, seed);
        }
        if sums.is_masked() {
            let nothing = GapSums { old_len: 0, sums: Vec::new(), ..*sums };
            return self.add_delta(new, &nothing, seed);
        }
        self.add_delta(new, sums, seed)
    }

    fn add_delta(&mut self, new: &[u8], sums: &GapSums, seed: u64) -> u64 {
        let (delta, compared) = GapDelta::with_comparison_count(new, sums, seed);
        delta.encode(&mut self.deltas);
        compared
    }

    /// Returns the encoded deltas.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(fields) = &self.fields {
            let start = self.deltas.len();
            fields.encode(&mut self.deltas);
            let len = (self.deltas.len() - start) as u32;
            self.deltas.put_bytes(&len.to_le_bytes());
        }
        self.deltas
    }
}

/// Reads deltas of gaps.
#[derive(Debug)]
pub struct GapDeltaReader<'a> {
    deltas: Reader<'a>,
    fields: Option<FieldReader<'a>>,
}

/// A delta, and whether the delta is that of a masked gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDelta<'a> {
    /// Copies and literals.
    pub delta: GapDelta<'a>,
    /// True if the copies are those of the masked old gap, and make the masked new gap.
    pub is_masked: bool,
}

impl<'a> GapDeltaReader<'a> {
    /// Reads the output of [`GapDeltaWriter::finish`].
    #[must_use]
    pub const fn new(deltas: &'a [u8]) -> Self {
        Self { deltas: Reader::new(deltas), fields: None }
    }

    /// Returns the next delta.
    ///
    /// # Errors
    /// The errors of [`GapDelta::decode`], and [`CodecError::OutOfRange`] for invalid columns.
    pub fn next_delta(&mut self) -> Result<ReadDelta<'a>, CodecError> {
        let mut behind = self.deltas.clone();
        let is_masked = behind.array().is_ok_and(|first| first == MASKED);
        if is_masked {
            self.deltas = behind;
            if self.fields.is_none() {
                self.find_columns().map_err(|BadColumns| CodecError::OutOfRange)?;
            }
        }
        Ok(ReadDelta { delta: GapDelta::decode(&mut self.deltas)?, is_masked })
    }

    /// Fills the address fields of a masked gap that begins at `address` of its file. The gaps must come in order.
    ///
    /// # Errors
    /// [`BadColumns`] if the columns do not fit.
    pub fn join(&mut self, masked: &mut [u8], address: u64) -> Result<(), BadColumns> {
        self.fields.as_mut().ok_or(BadColumns)?.join(masked, address)
    }

    /// Splits the columns off from the end.
    fn find_columns(&mut self) -> Result<(), BadColumns> {
        let (rest, len) = self.deltas.rest().split_last_chunk::<LEN_BYTES>().ok_or(BadColumns)?;
        let len = u32::from_le_bytes(*len) as usize;
        let start = rest.len().checked_sub(len).ok_or(BadColumns)?;
        let (deltas, columns) = rest.split_at(start);
        self.deltas = Reader::new(deltas);
        self.fields = Some(FieldReader::decode(columns)?);
        Ok(())
    }
}
