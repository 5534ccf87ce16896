//! Fingerprints of bytes: equal fingerprints mean equal bytes.
//!
//! Files that persist hold plain BLAKE3-256, of which nobody can find a collision. A session uses a key that nobody
//! knew when the bytes were written, so nobody can aim at its fingerprints (docs/decisions/0014). A prefix of a few
//! bytes is enough to find.

use std::fmt;
use std::sync::Arc;

use crate::keyed::{Key, KeyedSum, SUM_BYTES};

/// Length of a [`Fingerprint`] in bytes.
pub const FINGERPRINT_BYTES: usize = 32;
/// Length of a [`GroupPrefix`] in bytes.
pub(crate) const GROUP_PREFIX_BYTES: usize = 8;

/// A hash of some bytes, in full. Digests are made of these.
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

    /// The part that travels: its first bytes.
    #[must_use]
    pub fn group_prefix(&self) -> GroupPrefix {
        GroupPrefix(*self.0.first_chunk().expect("a prefix is shorter"))
    }

    /// Its first bytes, so many of them.
    #[must_use]
    pub fn chunk_prefix(&self, len: PrefixLen) -> ChunkPrefix {
        ChunkPrefix::from_bytes(&self.0[..len.get()]).expect("a length is a valid one")
    }
}

/// The first bytes of a [`Fingerprint`]: finds bytes, while a [`Digest`](crate::Digest) over full ones proves them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPrefix([u8; GROUP_PREFIX_BYTES]);

impl GroupPrefix {
    /// The prefix that was written down as `bytes`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; GROUP_PREFIX_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; GROUP_PREFIX_BYTES] {
        &self.0
    }
}

/// Number of bytes of a chunk's fingerprint that travel.
///
/// A chunk of new is told by its length and so many bytes. Each is compared with each chunk of old, and a length says
/// about ten bits more. Where two chunks are taken for one, the digest tells, and the file is brought over again (law
/// 9). docs/decisions/0024 says how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixLen(u8);

impl PrefixLen {
    /// Fewest bytes.
    pub const MIN: Self = Self(4);
    /// Most bytes: as many as a [`GroupPrefix`] has.
    pub const MAX: Self = Self(GROUP_PREFIX_BYTES as u8);

    /// Checks a number of bytes.
    #[must_use]
    pub const fn new(bytes: u8) -> Option<Self> {
        if Self::MIN.0 <= bytes && bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// The fewest bytes that find the chunks of a file that has about so many. A byte for each chunk costs less than
    /// mistakes as frequent as one in some hundred thousand.
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

/// Bits that a prefix has beyond those that tell pairs of chunks apart; their lengths add about ten.
const SPARE_BITS: u32 = 6;

/// The first bytes of a chunk's [`Fingerprint`], as few as will do.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkPrefix {
    /// Zeros behind the first `len`.
    bytes: [u8; GROUP_PREFIX_BYTES],
    len: PrefixLen,
}

impl ChunkPrefix {
    /// The prefix that was written down as `bytes`; `None` where they are too few or too many.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let len = u8::try_from(bytes.len()).ok().and_then(PrefixLen::new)?;
        let mut all = [0; GROUP_PREFIX_BYTES];
        all[..bytes.len()].copy_from_slice(bytes);
        Some(Self { bytes: all, len })
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.get()]
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> PrefixLen {
        self.len
    }

    /// True if `fingerprint` begins with it.
    #[must_use]
    pub fn begins(&self, fingerprint: &Fingerprint) -> bool {
        fingerprint.0.starts_with(self.as_bytes())
    }
}

/// Takes fingerprints, all of one kind. Cheap to clone.
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
    pub(crate) const fn plain() -> Self {
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

/// Enough to tell fingerprints apart in a failed test.
pub(crate) const DEBUG_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_begins_the_fingerprints_that_agree_with_it() {
        let (one, mut other) = (Fingerprint::of(b"one"), Fingerprint::of(b"one"));
        other.0[5] ^= 1;
        let brief = |bytes| one.chunk_prefix(PrefixLen::new(bytes).unwrap());
        assert!(brief(5).begins(&one) && brief(5).begins(&other));
        assert!(brief(6).begins(&one) && !brief(6).begins(&other));
        assert_eq!(ChunkPrefix::from_bytes(&[0; 3]), None);
        assert_eq!(ChunkPrefix::from_bytes(&[0; 9]), None);
    }

    #[test]
    fn the_more_chunks_there_are_the_more_bytes_tell_them_apart() {
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
