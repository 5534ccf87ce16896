//! Fingerprints of bytes: equal fingerprints mean equal bytes.
//!
//! Stored data is named by plain BLAKE3-256, which has no known collisions. A session uses a random key drawn
//! after the bytes were written, so an author of bytes cannot aim for a collision (docs/decisions/0014).
//! Prefixes of a few bytes suffice to find candidates.

use std::fmt;
use std::sync::Arc;

use crate::keyed::{Key, KeyedSum, SUM_BYTES};
use crate::strong::{StrongKind, StrongSum};

/// Length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_BYTES: usize = 32;
/// Length of a [`GroupPrefix`] in bytes.
pub(crate) const GROUP_PREFIX_BYTES: usize = 8;

/// The full hash of some bytes. Digests are built from full hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Plain BLAKE3 of `bytes`, the fingerprint for stored data.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// The fingerprint of a block with this strong `sum`, as [`Fingerprinter::summed`] computes it from the block.
    #[must_use]
    pub fn of_sum(key: &Key, sum: &StrongSum) -> Self {
        Self(blake3::keyed_hash(key.as_bytes(), sum.as_bytes()).into())
    }

    /// The fingerprint with these `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the fingerprint.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }

    /// The first eight bytes, which are sent for a group.
    #[must_use]
    pub fn group_prefix(&self) -> GroupPrefix {
        GroupPrefix(*self.0.first_chunk().expect("a prefix is shorter than a fingerprint"))
    }

    /// The first `len` bytes.
    #[must_use]
    pub fn chunk_prefix(&self, len: PrefixLen) -> ChunkPrefix {
        ChunkPrefix::from_bytes(&self.0[..len.get()]).expect("a PrefixLen is a valid length")
    }
}

/// The first bytes of a [`Fingerprint`]. A prefix finds candidates; a [`Digest`](crate::Digest) over full
/// fingerprints proves them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPrefix([u8; GROUP_PREFIX_BYTES]);

impl GroupPrefix {
    /// The prefix with these `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; GROUP_PREFIX_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the prefix.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; GROUP_PREFIX_BYTES] {
        &self.0
    }
}

/// Number of fingerprint bytes that are sent for each chunk.
///
/// A new chunk is identified by its length and this many bytes, and is compared with every old chunk. The
/// length adds about ten bits of distinction. If a prefix matches the wrong chunk, the digest of the file
/// detects the error, and the file is transferred again (law 9). docs/decisions/0018 gives the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixLen(u8);

impl PrefixLen {
    /// Minimum number of bytes.
    pub const MIN: Self = Self(4);
    /// Maximum number of bytes, that of a [`GroupPrefix`].
    pub const MAX: Self = Self(GROUP_PREFIX_BYTES as u8);

    /// Returns `None` if `bytes` is outside of `MIN..=MAX`.
    #[must_use]
    pub const fn new(bytes: u8) -> Option<Self> {
        if Self::MIN.0 <= bytes && bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// The prefix length for a file of about `chunks` chunks. A longer prefix would cost more than the repeated
    /// transfers that wrong matches cause, about one in 60,000 files (docs/decisions/0018).
    #[must_use]
    pub const fn for_chunks(chunks: u64) -> Self {
        let pairs = 2 * (u64::BITS - chunks.leading_zeros());
        let bytes = (pairs + SPARE_BITS).div_ceil(8) as u8;
        match Self::new(bytes) {
            Some(len) => len,
            None if bytes < Self::MIN.0 => Self::MIN,
            None => Self::MAX,
        }
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Bits beyond the two logarithms that distinguish all pairs of chunks. Chunk lengths add about ten more.
const SPARE_BITS: u32 = 6;

/// The first [`PrefixLen`] bytes of a chunk's [`Fingerprint`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkPrefix {
    /// The prefix, padded with zeros.
    bytes: [u8; GROUP_PREFIX_BYTES],
    len: PrefixLen,
}

impl ChunkPrefix {
    /// The prefix with these `bytes`, or `None` if the number of bytes is not a valid [`PrefixLen`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok().and_then(PrefixLen::new)?;
        let mut all = [0; GROUP_PREFIX_BYTES];
        all[..bytes.len()].copy_from_slice(bytes);
        Some(Self { bytes: all, len })
    }

    /// The bytes of the prefix, without padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.get()]
    }

    /// Length of the prefix in bytes.
    #[must_use]
    pub const fn len(&self) -> PrefixLen {
        self.len
    }

    /// True if `fingerprint` starts with this prefix.
    #[must_use]
    pub fn is_prefix_of(&self, fingerprint: &Fingerprint) -> bool {
        fingerprint.0.starts_with(self.as_bytes())
    }
}

/// Computes fingerprints of one kind. Cheap to clone.
#[derive(Clone)]
pub struct Fingerprinter(FingerprintKind);

#[derive(Clone)]
enum FingerprintKind {
    Plain,
    Blake3(Key),
    Keyed(Arc<KeyedSum>),
    /// Keyed BLAKE3 of the sum.
    Summed(StrongKind, Key),
}

impl Fingerprinter {
    /// Plain BLAKE3, the same as [`Fingerprint::of`].
    #[must_use]
    pub(crate) const fn plain() -> Self {
        Self(FingerprintKind::Plain)
    }

    /// BLAKE3 in keyed mode.
    #[must_use]
    pub fn blake3(key: &Key) -> Self {
        Self(FingerprintKind::Blake3(*key))
    }

    /// [`KeyedSum`] in the first half of the fingerprint, zeros in the second.
    #[must_use]
    pub fn keyed(key: &Key) -> Self {
        Self(FingerprintKind::Keyed(Arc::new(KeyedSum::new(key))))
    }

    /// Keyed BLAKE3 of the `kind` sum without a key, so that a sum that storage keeps gives the fingerprint
    /// ([`Fingerprint::of_sum`]).
    #[must_use]
    pub const fn summed(kind: StrongKind, key: &Key) -> Self {
        Self(FingerprintKind::Summed(kind, *key))
    }

    /// The fingerprint of `bytes`.
    #[must_use]
    pub fn of(&self, bytes: &[u8]) -> Fingerprint {
        match &self.0 {
            FingerprintKind::Plain => Fingerprint::of(bytes),
            FingerprintKind::Blake3(key) => {
                Fingerprint(blake3::keyed_hash(key.as_bytes(), bytes).into())
            }
            FingerprintKind::Keyed(sums) => {
                let mut fingerprint = [0; FINGERPRINT_BYTES];
                fingerprint[..SUM_BYTES].copy_from_slice(&sums.sum(bytes));
                Fingerprint(fingerprint)
            }
            FingerprintKind::Summed(kind, key) => {
                Fingerprint::of_sum(key, &kind.sum_of(None, bytes))
            }
        }
    }
}

impl fmt::Debug for Fingerprinter {
    /// Prints the kind only: the key is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            FingerprintKind::Plain => "Plain",
            FingerprintKind::Blake3(_) => "Blake3",
            FingerprintKind::Keyed(_) => "Keyed",
            FingerprintKind::Summed(..) => "Summed",
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

impl fmt::Debug for ChunkPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.bytes[..DEBUG_BYTES])
    }
}

impl fmt::Display for GroupPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for GroupPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0[..DEBUG_BYTES])
    }
}

/// Number of bytes that `Debug` prints, enough to distinguish fingerprints in a failed test.
pub(crate) const DEBUG_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_begins_fingerprints_with_the_same_first_bytes() {
        let (one, mut other) = (Fingerprint::of(b"one"), Fingerprint::of(b"one"));
        other.0[5] ^= 1;
        let brief = |bytes| one.chunk_prefix(PrefixLen::new(bytes).unwrap());
        assert!(brief(5).is_prefix_of(&one) && brief(5).is_prefix_of(&other));
        assert!(brief(6).is_prefix_of(&one) && !brief(6).is_prefix_of(&other));
        assert_eq!(ChunkPrefix::from_bytes(&[0; 3]), None);
        assert_eq!(ChunkPrefix::from_bytes(&[0; 9]), None);
    }

    #[test]
    fn prefixes_grow_with_the_number_of_chunks() {
        let bytes = |chunks| PrefixLen::for_chunks(chunks).get();
        let lens = [0, 1, 8191, 8192, 1 << 17, 1 << 20, 1 << 22, 1 << 28, u64::MAX].map(bytes);
        assert_eq!(lens, [4, 4, 4, 5, 6, 6, 7, 8, 8]);
    }

    #[test]
    fn a_fingerprint_is_plain_blake3() {
        let empty = Fingerprint::of(b"");
        let hex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(empty.to_string(), hex);
        assert_eq!(empty.group_prefix().to_string(), hex[..16]);
        assert_eq!(format!("{empty:?}"), hex[..8]);
        assert_eq!(Fingerprint::from_bytes(*empty.as_bytes()), empty);
    }
}
