//! Validated chunk lengths.

use crate::codec::{CodecError, Put, Reader};

/// Smallest allowed minimum, in bytes. Only the last chunk of a file is shorter.
pub const MIN_CHUNK_BYTES: u32 = 512;
/// Largest allowed maximum, in bytes.
pub const MAX_CHUNK_BYTES: u32 = 512 << 10;

/// Reason why lengths are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSizes {
    /// Sizes outside of `MIN_CHUNK_BYTES <= min <= avg <= max <= MAX_CHUNK_BYTES`.
    #[error(
        "chunk sizes must rise from min over avg to max, within {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES} bytes"
    )]
    Range,
    /// The average is not a power of two.
    #[error("average chunk size is not a power of two")]
    NotPowerOfTwo,
}

/// The minimum, average and maximum chunk length of a content-defined chunker, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    pub(super) min: u32,
    pub(super) avg: u32,
    pub(super) max: u32,
}

impl Sizes {
    /// Validates three lengths in bytes.
    ///
    /// # Errors
    /// [`BadSizes`] if the lengths do not ascend within [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`], or `avg` is
    /// not a power of two.
    pub const fn new(min: u32, avg: u32, max: u32) -> Result<Self, BadSizes> {
        if min < MIN_CHUNK_BYTES || avg < min || max < avg || MAX_CHUNK_BYTES < max {
            Err(BadSizes::Range)
        } else if !avg.is_power_of_two() {
            Err(BadSizes::NotPowerOfTwo)
        } else {
            Ok(Self { min, avg, max })
        }
    }

    /// Minimum chunk length in bytes. The last chunk of a file may be shorter.
    #[must_use]
    pub const fn min(self) -> u32 {
        self.min
    }

    /// Target of the average chunk length in bytes, a power of two.
    #[must_use]
    pub const fn avg(self) -> u32 {
        self.avg
    }

    /// Maximum chunk length in bytes.
    #[must_use]
    pub const fn max(self) -> u32 {
        self.max
    }

    /// Number of bytes to expect between the minimum and a boundary, so that chunks have the requested average;
    /// at least one.
    pub(super) const fn wait(self) -> u32 {
        if self.min < self.avg { self.avg - self.min } else { 1 }
    }

    /// The window of AE and RAM, in bytes. It accounts for the wait for an extreme byte after the window, and
    /// no chunk becomes shorter than the minimum.
    pub(super) const fn window(self) -> u32 {
        let (window, least) = (self.avg - RANDOM_WAIT_BYTES, self.min - 1);
        if window < least { least } else { window }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.put_varint(self.min.into());
        out.put_varint(self.avg.into());
        out.put_varint(self.max.into());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (min, avg, max) = (reader.varint_u32()?, reader.varint_u32()?, reader.varint_u32()?);
        Self::new(min, avg, max).map_err(|_| CodecError::OutOfRange)
    }
}

/// The mean number of random bytes until a given value occurs.
const RANDOM_WAIT_BYTES: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_accept_valid_lengths_only() {
        assert!(Sizes::new(512, 512, 512).is_ok());
        assert!(Sizes::new(512, 1 << 19, 1 << 19).is_ok());
        for (min, avg, max) in
            [(511, 512, 512), (1024, 512, 2048), (512, 2048, 1024), (512, 1024, (1 << 19) + 1)]
        {
            assert_eq!(Sizes::new(min, avg, max), Err(BadSizes::Range));
        }
        assert_eq!(Sizes::new(512, 1000, 2048), Err(BadSizes::NotPowerOfTwo));
    }
}
