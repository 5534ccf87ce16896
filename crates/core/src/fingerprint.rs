//! The name of bytes: equal fingerprints mean equal bytes.
//!
//! What persists is named by plain BLAKE3-256, which nobody can find a collision of. A session names bytes with a key that
//! nobody knew when they were written, so that nobody can aim at its names (docs/decisions/0014), and eight bytes of one
//! are enough to find.

use std::fmt;
use std::sync::Arc;

use crate::keyed::{Key, KeyedSum, SUM_BYTES};

/// Length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_BYTES: usize = 32;
/// Length of a [`ShortFingerprint`] in bytes.
pub const SHORT_FINGERPRINT_BYTES: usize = 8;

/// The name of some bytes, in full: what digests are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of `bytes` that persists: plain BLAKE3.
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

/// The first bytes of a [`Fingerprint`]: finds bytes, while a [`Digest`](crate::Digest) over full ones proves them.
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

/// Names bytes, all in the same way. Cheap to clone.
#[derive(Clone)]
pub struct Fingerprinter(Form);

#[derive(Clone)]
enum Form {
    Plain,
    Blake3(Key),
    Keyed(Arc<KeyedSum>),
}

impl Fingerprinter {
    /// Plain BLAKE3, as [`Fingerprint::of`].
    #[must_use]
    pub const fn plain() -> Self {
        Self(Form::Plain)
    }

    /// BLAKE3 with a key.
    #[must_use]
    pub fn blake3(key: &Key) -> Self {
        Self(Form::Blake3(*key))
    }

    /// The keyed sum, which fills the first half; the second is zeros.
    #[must_use]
    pub fn keyed(key: &Key) -> Self {
        Self(Form::Keyed(Arc::new(KeyedSum::new(key))))
    }

    /// The fingerprint of `bytes`.
    #[must_use]
    pub fn of(&self, bytes: &[u8]) -> Fingerprint {
        match &self.0 {
            Form::Plain => Fingerprint::of(bytes),
            Form::Blake3(key) => Fingerprint(blake3::keyed_hash(key.as_bytes(), bytes).into()),
            Form::Keyed(sums) => {
                let mut fingerprint = [0; FINGERPRINT_BYTES];
                fingerprint[..SUM_BYTES].copy_from_slice(&sums.sum(bytes));
                Fingerprint(fingerprint)
            }
        }
    }
}

impl fmt::Debug for Fingerprinter {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Form::Plain => "Plain",
            Form::Blake3(_) => "Blake3",
            Form::Keyed(_) => "Keyed",
        })
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
        assert_eq!(empty.short().to_string(), hex[..16]);
        assert_eq!(format!("{empty:?}"), hex[..8]);
        assert_eq!(Fingerprint::from_bytes(*empty.as_bytes()), empty);
    }
}
