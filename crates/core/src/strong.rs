//! Strong sums, which confirm a weak match (NetSync §4.1, WebR2sync+ §5.2, SkySync §3.3.2, ParaSync §2.2).
//!
//! The sums of the papers exist to compare the papers' systems. Only BLAKE3, SHA-256 and BLAKE2b resist
//! deliberate collisions: MD5 and SHA-1 are broken, and 64 bits are too few. A file from an untrusted author is
//! committed by its [`Digest`](crate::Digest), whatever sums matched its parts.

use blake2::Blake2b;
use blake2::digest::consts::U32;
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher as _;

use crate::codec::{CodecError, Put, Reader};
use crate::fingerprint::{DEBUG_BYTES, write_hex};
use crate::named::named;

/// Maximum length of a [`StrongSum`] in bytes.
pub const MAX_STRONG_BYTES: usize = 32;

/// Kind of a strong sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrongKind {
    /// BLAKE3-256: the choice of ParaSync and of Deltic.
    Blake3,
    /// MD5 (rsync, WebRsync).
    Md5,
    /// SHA-1 (dsync, NetSync).
    Sha1,
    /// SHA-256 (SkySync).
    Sha256,
    /// SipHash-2-4 with 64 bits. WebR2sync+ reports its collisions for this width (table 2).
    SipHash,
    /// BLAKE2b-256, the variant that btrfs stores.
    Blake2b,
}

/// Random bytes known to both ends of a session but not to authors of the content, so that no author can prepare
/// colliding blocks.
#[derive(Clone, Copy)]
pub struct SumKey([u8; KEY_BYTES]);

impl SumKey {
    /// The agreed key.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SumKey {
    /// Prints no key bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SumKey")
    }
}

impl StrongKind {
    /// The list of all kinds.
    pub const ALL: [Self; 6] =
        [Self::Blake3, Self::Md5, Self::Sha1, Self::Sha256, Self::SipHash, Self::Blake2b];

    /// The sum of `bytes`. A key is used as follows:
    ///
    /// - BLAKE3: keyed mode.
    /// - SipHash: the first half of the key; zeros without a key.
    /// - Other hashes: the key is hashed before `bytes`, as rsync does with its seed.
    #[must_use]
    pub fn sum_of(self, key: Option<&SumKey>, bytes: &[u8]) -> StrongSum {
        let prefix = key.map_or(&[][..], |key| &key.0);
        match self {
            Self::Blake3 => {
                let hash = match key {
                    None => blake3::hash(bytes),
                    Some(key) => blake3::keyed_hash(&key.0, bytes),
                };
                StrongSum::from_array(*hash.as_bytes())
            }
            Self::Md5 => StrongSum::from_array(digest::<Md5>(prefix, bytes).into()),
            Self::Sha1 => StrongSum::from_array(digest::<Sha1>(prefix, bytes).into()),
            Self::Sha256 => StrongSum::from_array(digest::<Sha256>(prefix, bytes).into()),
            Self::SipHash => StrongSum::from_array(sip_hash(key, bytes).to_le_bytes()),
            Self::Blake2b => StrongSum::from_array(digest::<Blake2b<U32>>(prefix, bytes).into()),
        }
    }

    /// Length of a sum in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 | Self::Blake2b => 32,
            Self::Sha1 => 20,
            Self::Md5 => 16,
            Self::SipHash => 8,
        }
    }

    /// Appends the number of the kind.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(self.number_and_name().0);
    }

    /// Reads the output of [`StrongKind::encode`].
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] for an unknown number.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::numbered(reader.u8()?)
    }

    /// Number of the kind in files and frames, and its name on the command line.
    const fn number_and_name(self) -> (u8, &'static str) {
        match self {
            Self::Blake3 => (1, "blake3"),
            Self::Md5 => (2, "md5"),
            Self::Sha1 => (3, "sha1"),
            Self::Sha256 => (4, "sha256"),
            Self::SipHash => (5, "siphash-2-4"),
            Self::Blake2b => (6, "blake2b"),
        }
    }
}

fn digest<D: sha2::Digest>(prefix: &[u8], bytes: &[u8]) -> sha2::digest::Output<D> {
    D::new().chain_update(prefix).chain_update(bytes).finalize()
}

fn sip_hash(key: Option<&SumKey>, bytes: &[u8]) -> u64 {
    let half = key.and_then(|key| key.0.first_chunk()).unwrap_or(&[0; 16]);
    let mut hasher = SipHasher24::new_with_key(half);
    hasher.write(bytes);
    hasher.finish()
}

/// Error for an unknown name of a strong sum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a strong sum; there are {names}", names = StrongKind::ALL.map(StrongKind::name).join(", "))]
pub struct UnknownStrong(String);

named!(StrongKind, UnknownStrong);

/// A strong sum, in full or shortened. The full length is [`StrongKind::bytes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrongSum {
    /// The sum, padded with zeros.
    bytes: [u8; MAX_STRONG_BYTES],
    len: u8,
}

impl StrongSum {
    /// The empty sum, for blocks without a strong sum.
    pub const NONE: Self = Self { bytes: [0; MAX_STRONG_BYTES], len: 0 };

    /// The bytes of the sum.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// A sum with these `bytes`, in full or shortened. Returns `None` if there are more than
    /// [`MAX_STRONG_BYTES`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut sum = Self::from_array([]);
        sum.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        sum.len = bytes.len() as u8;
        Some(sum)
    }

    /// The first `len` bytes, or the whole sum if it is shorter.
    #[must_use]
    pub fn shortened(&self, len: usize) -> Self {
        let bytes = self.as_bytes();
        Self::from_bytes(&bytes[..len.min(bytes.len())])
            .expect("a shortened sum is no longer than the sum")
    }

    fn from_array<const N: usize>(sum: [u8; N]) -> Self {
        let mut bytes = [0; MAX_STRONG_BYTES];
        bytes[..N].copy_from_slice(&sum);
        Self { bytes, len: N as u8 }
    }
}

impl fmt::Display for StrongSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, self.as_bytes())
    }
}

impl fmt::Debug for StrongSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.bytes[..DEBUG_BYTES])
    }
}

/// Length of a [`SumKey`] in bytes.
pub(crate) const KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors from RFC 1321, FIPS 180, the SipHash paper (appendix, vector 0) and BLAKE3.
    #[test]
    fn sums_equal_the_published_test_vectors() {
        let sum = |kind: StrongKind, bytes: &[u8]| kind.sum_of(None, bytes).to_string();
        assert_eq!(sum(StrongKind::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(sum(StrongKind::Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            sum(StrongKind::Sha256, b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            sum(StrongKind::Blake3, b""),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
        // From `b2sum --length 256`.
        assert_eq!(
            sum(StrongKind::Blake2b, b"abc"),
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"
        );
        let key = SumKey::from_bytes(std::array::from_fn(|n| n as u8));
        assert_eq!(StrongKind::SipHash.sum_of(Some(&key), b"").to_string(), "310e0edd47db6f72");
        let fifteen: [u8; 15] = std::array::from_fn(|n| n as u8);
        assert_eq!(
            StrongKind::SipHash.sum_of(Some(&key), &fifteen).to_string(),
            "e545be4961ca29a1"
        );
    }

    #[test]
    fn sums_have_the_length_of_their_kind_and_depend_on_the_key() {
        let keys = [[1; KEY_BYTES], [2; KEY_BYTES]].map(SumKey::from_bytes);
        for kind in StrongKind::ALL {
            let plain = kind.sum_of(None, b"bytes");
            let keyed = keys.each_ref().map(|key| kind.sum_of(Some(key), b"bytes"));
            assert_eq!(plain.as_bytes().len(), kind.bytes(), "{kind:?}");
            assert!(plain != keyed[0] && plain != keyed[1] && keyed[0] != keyed[1], "{kind:?}");
        }
    }
}
