//! The name of bytes: BLAKE3-256, collision-resistant, so that equal fingerprints mean equal bytes.

use std::fmt;

/// Length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_BYTES: usize = 32;
/// Length of a [`ShortFingerprint`] in bytes.
pub const SHORT_FINGERPRINT_BYTES: usize = 16;

/// BLAKE3 of some bytes, in full: what is stored, and what digests are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// The fingerprint that was written down as `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }

    /// What travels of it: its first bytes.
    #[must_use]
    pub fn short(&self) -> ShortFingerprint {
        ShortFingerprint(*self.0.first_chunk().expect("a short fingerprint is a prefix"))
    }
}

/// The first half of a [`Fingerprint`]: finds bytes, while a [`Digest`](crate::Digest) over full ones proves them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortFingerprint([u8; SHORT_FINGERPRINT_BYTES]);

impl ShortFingerprint {
    /// The short fingerprint that was written down as `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; SHORT_FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; SHORT_FINGERPRINT_BYTES] {
        &self.0
    }
}

/// Writes `bytes` as lower-case hexadecimal digits.
pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0[..DEBUG_BYTES])
    }
}

impl fmt::Display for ShortFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ShortFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0[..DEBUG_BYTES])
    }
}

/// Enough to tell fingerprints apart in a failed test.
pub(crate) const DEBUG_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_plain_blake3() {
        let empty = Fingerprint::of(b"");
        let hex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(empty.to_string(), hex);
        assert_eq!(empty.short().to_string(), hex[..32]);
        assert_eq!(format!("{empty:?}"), hex[..8]);
        assert_eq!(Fingerprint::from_bytes(*empty.as_bytes()), empty);
    }
}
