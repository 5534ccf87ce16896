//! The bytes of everything Deltic keeps or sends: integers as varints, the rest as it is.
//!
//! A varint is LEB128: seven bits a byte, least significant first, the high bit set on all but the last. There is one
//! encoding per value, so that equal values are equal bytes and a digest over bytes is a digest over values.
//! Reading never allocates from a length field: a length is only ever a request for bytes that are there already.

/// Longest encoding of one integer, in bytes.
pub const MAX_VARINT_BYTES: usize = 10;

/// Why bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes end inside a value.
    #[error("bytes end inside a value")]
    Truncated,
    /// A longer encoding than the value needs.
    #[error("value is not encoded in its shortest form")]
    NotCanonical,
    /// A value outside of what its field allows.
    #[error("value is out of range")]
    OutOfRange,
    /// Bytes after the last value.
    #[error("bytes follow the last value")]
    Trailing,
}

/// Appends values to bytes; what [`Reader`] reads back.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends `value` as a varint.
    fn put_varint(&mut self, value: u64);
    /// Appends `value` as a zigzag varint, short for small values of either sign.
    fn put_signed(&mut self, value: i64);
    /// Appends `bytes` as they are; the reader must know their number.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends the number of `bytes` and then `bytes`.
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

/// Reads values from the front of bytes. After an error its position means nothing.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the first of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] at the end.
    pub fn u8(&mut self) -> Result<u8, CodecError> {
        let (first, rest) = self.rest.split_first().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Takes one varint.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] at the end, [`CodecError::NotCanonical`] where it could be shorter,
    /// [`CodecError::OutOfRange`] above 64 bits.
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

    /// Takes one varint that fits 32 bits.
    ///
    /// # Errors
    /// As [`Reader::varint`]; [`CodecError::OutOfRange`] above 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.varint()?).map_err(|_| CodecError::OutOfRange)
    }

    /// Takes one zigzag varint.
    ///
    /// # Errors
    /// As [`Reader::varint`].
    pub fn signed(&mut self) -> Result<i64, CodecError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] where there are fewer.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] where there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Bytes behind their number, which is at most `max`.
    ///
    /// # Errors
    /// As [`Reader::varint`]; [`CodecError::OutOfRange`] above `max`, [`CodecError::Truncated`] where there are fewer.
    pub fn prefixed(&mut self, max: usize) -> Result<&'a [u8], CodecError> {
        let len = usize::try_from(self.varint()?).map_err(|_| CodecError::OutOfRange)?;
        if len > max { Err(CodecError::OutOfRange) } else { self.bytes(len) }
    }

    /// All bytes that are left; nothing is left after.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// True if no byte is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`CodecError::Trailing`] where bytes are left.
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
    fn a_length_is_a_request_and_not_a_promise() {
        let mut bytes = Vec::new();
        bytes.put_varint(u64::MAX);
        assert_eq!(Reader::new(&bytes).prefixed(usize::MAX), Err(CodecError::Truncated));
        assert_eq!(Reader::new(&bytes).prefixed(100), Err(CodecError::OutOfRange));
        assert_eq!(Reader::new(&bytes).varint_u32(), Err(CodecError::OutOfRange));
    }
}
