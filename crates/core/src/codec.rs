//! Encoding of everything that Deltic stores or sends: integers as varints, all other values as raw bytes.
//!
//! A varint is LEB128: seven bits a byte, least significant first; the high bit is set on every byte but the
//! last. Each value has exactly one encoding, so equal values are equal bytes and a digest over bytes is a
//! digest over values. Reading never allocates memory from a length field: a length only selects bytes that are
//! present already.

/// Maximum length of an encoded integer, in bytes.
pub const MAX_VARINT_BYTES: usize = 10;

/// Reason why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes end inside a value.
    #[error("bytes end inside a value")]
    Truncated,
    /// An encoding is longer than its value needs.
    #[error("value is not encoded in its shortest form")]
    NotCanonical,
    /// A value lies outside the range of its field.
    #[error("value is out of range")]
    OutOfRange,
    /// Bytes follow the last value.
    #[error("bytes follow the last value")]
    Trailing,
}

/// Appends encoded values to a buffer. [`Reader`] decodes them.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends `value` as a varint.
    fn put_varint(&mut self, value: u64);
    /// Appends `value` as a zigzag varint, which is short for small absolute values.
    fn put_signed(&mut self, value: i64);
    /// Appends `bytes` without a length, which the reader must know from elsewhere.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends the length of `bytes` as a varint, then `bytes`.
    fn put_prefixed(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_signed(&mut self, value: i64) {
        self.put_varint(((value << 1) ^ (value >> 63)) as u64);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_prefixed(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Decodes values from the front of a byte slice. After an error the position is unspecified.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] at the end.
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        let (first, rest) = self.rest.split_first().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads one varint.
    ///
    /// # Errors
    /// - [`CodecError::Truncated`]: the input ends inside the varint.
    /// - [`CodecError::NotCanonical`]: a shorter encoding exists.
    /// - [`CodecError::OutOfRange`]: the value exceeds 64 bits.
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0;
        for place in 0..MAX_VARINT_BYTES as u32 {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * place;
            if (bits << shift) >> shift != bits {
                return Err(CodecError::OutOfRange);
            }
            value |= bits << shift;
            match byte {
                0 if place > 0 => return Err(CodecError::NotCanonical),
                0..0x80 => return Ok(value),
                _ => {}
            }
        }
        Err(CodecError::OutOfRange)
    }

    /// Reads one varint of at most 32 bits.
    ///
    /// # Errors
    /// As [`Reader::varint`], and [`CodecError::OutOfRange`] if the value exceeds 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.varint()?).map_err(|_| CodecError::OutOfRange)
    }

    /// Reads one zigzag varint.
    ///
    /// # Errors
    /// As [`Reader::varint`].
    pub fn signed(&mut self) -> Result<i64, CodecError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads `n` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] if fewer than `n` bytes are left.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] if fewer than `N` bytes are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Reads a varint length of at most `max`, then that many bytes.
    ///
    /// # Errors
    /// As [`Reader::varint`], [`CodecError::OutOfRange`] if the length exceeds `max`, and
    /// [`CodecError::Truncated`] if fewer bytes are left.
    pub fn prefixed(&mut self, max: usize) -> Result<&'a [u8], CodecError> {
        let len = usize::try_from(self.varint()?).map_err(|_| CodecError::OutOfRange)?;
        if len > max { Err(CodecError::OutOfRange) } else { self.bytes(len) }
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// True if no byte is left to read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that all input was read.
    ///
    /// # Errors
    /// [`CodecError::Trailing`] if bytes are left.
    pub const fn finish(self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_has_one_encoding() {
        for (bytes, value) in [
            (&[0][..], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0x80, 1], Ok(128)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Ok(u64::MAX)),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
                Err(CodecError::OutOfRange),
            ),
            (&[0x80; 11], Err(CodecError::OutOfRange)),
            (&[0x80, 0], Err(CodecError::NotCanonical)),
            (&[0x80], Err(CodecError::Truncated)),
        ] {
            assert_eq!(Reader::new(bytes).varint(), value, "{bytes:x?}");
        }
    }

    #[test]
    fn a_length_beyond_the_input_is_an_error() {
        let mut bytes = Vec::new();
        bytes.put_varint(u64::MAX);
        assert_eq!(Reader::new(&bytes).prefixed(usize::MAX), Err(CodecError::Truncated));
        assert_eq!(Reader::new(&bytes).prefixed(100), Err(CodecError::OutOfRange));
        assert_eq!(Reader::new(&bytes).varint_u32(), Err(CodecError::OutOfRange));
    }
}
