//! Checksums that a remote system stores of objects, and the same checksums computed over local bytes.
//!
//! Two units of one length with equal checksums are taken for equal bytes: naming a system by its URL means trusting it
//! (docs/decisions/0041).

use std::borrow::Cow;

use blake3::Hasher as Blake3;
use deltic_core::Digest;
use deltic_core::stored::SumStrength;
use deltic_store::Extents;
use deltic_store::facts::ExtentContent;
use sha2::Digest as _;
use xxhash_rust::xxh64::Xxh64;

use crate::RemoteError;

/// A checksum algorithm. Identities contain its number in this order, so a new one goes at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SumAlgorithm {
    /// CRC-32 of IEEE 802.3, as in zlib.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// An identifier that the system gives only to equal bytes. Cannot be computed from bytes.
    Name,
    /// XXH64 with seed 0.
    Xxh64,
    /// BLAKE2b-256. This variant and the following variants are only compared, never computed here.
    Blake2b,
    /// Fletcher-4 of ZFS: four 64-bit sums.
    Fletcher4,
    /// Multi-buffer SHA-1 of ISA-L, which is not SHA-1.
    MultiSha1,
}

/// A checksum with the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentSum {
    /// Algorithm of the checksum.
    pub algorithm: SumAlgorithm,
    /// The checksum; big-endian if the algorithm yields a number.
    pub bytes: Box<[u8]>,
}

/// A part of an object with a checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummedUnit {
    /// Length in bytes, never 0.
    pub len: u64,
    /// Length in bytes to which zeros extend the part before the checksum is computed; at least `len`.
    pub padded: u64,
    /// The checksum, if the system stores one.
    pub sum: Option<ContentSum>,
}

/// The checksums of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectSums {
    /// Consecutive units from the first byte to the last; empty if nothing is known.
    pub units: Vec<SummedUnit>,
    /// The checksum of all bytes, if the system stores one.
    pub whole: Option<ContentSum>,
}

/// A checksum computation in progress.
pub(crate) enum SumHasher {
    Crc32(crc32fast::Hasher),
    Crc32c(u32),
    Crc64Nvme(crc64fast_nvme::Digest),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Xxh64(Xxh64),
}

impl SumAlgorithm {
    pub(crate) fn summer(self) -> Option<SumHasher> {
        Some(match self {
            Self::Crc32 => SumHasher::Crc32(crc32fast::Hasher::new()),
            Self::Crc32c => SumHasher::Crc32c(0),
            Self::Crc64Nvme => SumHasher::Crc64Nvme(crc64fast_nvme::Digest::new()),
            Self::Md5 => SumHasher::Md5(md5::Md5::new()),
            Self::Sha1 => SumHasher::Sha1(sha1::Sha1::new()),
            Self::Sha256 => SumHasher::Sha256(sha2::Sha256::new()),
            Self::Name | Self::Blake2b | Self::Fletcher4 | Self::MultiSha1 => return None,
            Self::Xxh64 => SumHasher::Xxh64(Xxh64::new(0)),
        })
    }

    /// True if the checksum of local bytes can be computed.
    const fn is_computable(self) -> bool {
        !matches!(self, Self::Name | Self::Blake2b | Self::Fletcher4 | Self::MultiSha1)
    }

    /// Strength of equal checksums as a proof of equal contents (docs/storage.md). MD5 and SHA-1 only rule out
    /// accidents, since collisions can be made.
    #[must_use]
    pub const fn strength(self) -> SumStrength {
        match self {
            Self::Crc32 | Self::Crc32c => SumStrength::Hint,
            Self::Crc64Nvme | Self::Xxh64 | Self::Md5 | Self::Sha1 => SumStrength::AgainstAccidents,
            Self::Fletcher4 | Self::MultiSha1 => SumStrength::AgainstAccidents,
            Self::Sha256 | Self::Blake2b | Self::Name => SumStrength::Proof,
        }
    }

    /// Name of the algorithm for output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC-32",
            Self::Crc32c => "CRC-32C",
            Self::Crc64Nvme => "CRC-64/NVME",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Name => "names",
            Self::Xxh64 => "XXH64",
            Self::Blake2b => "BLAKE2b",
            Self::Fletcher4 => "Fletcher-4",
            Self::MultiSha1 => "multi-buffer SHA-1",
        }
    }

    /// Length of a checksum in bytes; `None` for [`SumAlgorithm::Name`]: names vary in length.
    pub(crate) const fn len(self) -> Option<usize> {
        match self {
            Self::Crc32 | Self::Crc32c => Some(4),
            Self::Crc64Nvme | Self::Xxh64 => Some(8),
            Self::Md5 => Some(16),
            Self::Sha1 | Self::MultiSha1 => Some(20),
            Self::Sha256 | Self::Blake2b | Self::Fletcher4 => Some(32),
            Self::Name => None,
        }
    }
}

impl SumHasher {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(sum) => sum.update(bytes),
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Self::Crc64Nvme(sum) => sum.write(bytes),
            Self::Md5(sum) => sum.update(bytes),
            Self::Sha1(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
            Self::Xxh64(sum) => sum.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Box<[u8]> {
        match self {
            Self::Crc32(sum) => sum.finalize().to_be_bytes().into(),
            Self::Crc32c(sum) => sum.to_be_bytes().into(),
            Self::Crc64Nvme(sum) => sum.sum64().to_be_bytes().into(),
            Self::Md5(sum) => sum.finalize().to_vec().into(),
            Self::Sha1(sum) => sum.finalize().to_vec().into(),
            Self::Sha256(sum) => sum.finalize().to_vec().into(),
            Self::Xxh64(sum) => sum.digest().to_be_bytes().into(),
        }
    }
}

impl ContentSum {
    /// Makes a checksum of `bytes`.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] if the algorithm's checksums have another length.
    pub fn new(algorithm: SumAlgorithm, bytes: &[u8]) -> Result<Self, RemoteError> {
        if algorithm.len().is_some_and(|len| len != bytes.len()) {
            let why = format!("a checksum of {algorithm:?} cannot have {} bytes", bytes.len());
            return Err(RemoteError::Wrong(why));
        }
        Ok(Self { algorithm, bytes: bytes.into() })
    }
}

impl SummedUnit {
    /// A unit without padding.
    #[must_use]
    pub const fn new(len: u64, sum: Option<ContentSum>) -> Self {
        Self { len, padded: len, sum }
    }

    /// Identity of the unit's bytes for a given checksum. Equal lengths and checksums give equal identities in every
    /// system.
    pub(crate) fn identity(&self, sum: Option<&ContentSum>) -> ExtentContent {
        let Some(sum) = sum else { return ExtentContent::Unknown };
        let mut hasher = Blake3::new_derive_key(CONTEXT);
        hasher.update(&[sum.algorithm as u8]);
        hasher.update(&self.len.to_le_bytes());
        hasher.update(&self.padded.to_le_bytes());
        hasher.update(&sum.bytes);
        let mut id = [0; 24];
        hasher.finalize_xof().fill(&mut id);
        let field = |at: usize| u64::from_le_bytes(id[at..at + 8].try_into().expect("8 bytes"));
        ExtentContent::Id { id: [field(0), field(8), field(16)], from: 0 }
    }

    /// Algorithm of the unit's checksum.
    pub(crate) fn algorithm(&self) -> Option<SumAlgorithm> {
        self.sum.as_ref().map(|sum| sum.algorithm)
    }
}

/// Length in bytes of the units to request for an object of `len` bytes, in systems that checksum units of any length.
/// Longer objects get longer units, so that the checksums of an object stay below about two megabytes.
pub(crate) fn unit_bytes(len: u64) -> u64 {
    const LEAST: u64 = 64 << 10;
    const MOST_UNITS: u64 = 1 << 18;
    LEAST.max(len.div_ceil(MOST_UNITS).next_power_of_two())
}

/// Formats bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| DIGITS[usize::from(digit)] as char).collect()
}

/// Feeds `zeros` zero bytes.
pub(crate) fn pad(summer: &mut SumHasher, mut zeros: u64) {
    const ZEROS: [u8; 4096] = [0; 4096];
    while zeros > 0 {
        let some = zeros.min(ZEROS.len() as u64);
        summer.push(&ZEROS[..some as usize]);
        zeros -= some;
    }
}

impl ObjectSums {
    /// The checksums of an object of `len` bytes with one checksum of all bytes.
    #[must_use]
    pub fn of_whole(len: u64, sum: ContentSum) -> Self {
        Self { units: vec![SummedUnit::new(len.max(1), Some(sum.clone()))], whole: Some(sum) }
    }

    /// True if any unit has a checksum.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.units.iter().any(|unit| unit.sum.is_some())
    }

    /// Checks that the units cover an object of `len` bytes.
    ///
    /// # Errors
    /// [`RemoteError::Wrong`] if the units do not cover the object, or if there are too many units.
    pub fn check(self, len: u64) -> Result<Self, RemoteError> {
        let bytes = self.units.iter().try_fold(0_u64, |all, unit| all.checked_add(unit.len));
        if self.units.len() > MAX_UNITS {
            return Err(RemoteError::Wrong(format!(
                "{} checksums of one object",
                self.units.len()
            )));
        }
        let fits = self.units.is_empty() || bytes == Some(len) || len == 0;
        let padded = self.units.iter().all(|unit| unit.padded >= unit.len);
        if fits && padded {
            return Ok(self);
        }
        Err(RemoteError::Wrong(format!(
            "the answer has checksums of {bytes:?} bytes; the file has {len}"
        )))
    }

    /// The units as extents of an object of `len` bytes, identified by checksum. `None` if no checksum is
    /// known or the units do not cover the object.
    #[must_use]
    pub fn extents(&self, len: u64) -> Option<Extents> {
        if len == 0 || !self.is_known() {
            return None;
        }
        let mut extents = Extents::new(STORE);
        for unit in &self.units {
            extents.push(unit.len, unit.identity(unit.sum.as_ref())).ok()?;
        }
        (extents.len() == len).then_some(extents)
    }

    /// A digest that names the content of an object of `len` bytes, made of all checksums. `None` if no set of
    /// checksums covers the whole object.
    pub(crate) fn content_digest(&self, len: u64) -> Option<Digest> {
        if self.comparable_units(len).is_empty() {
            return None;
        }
        let mut hasher = Blake3::new_derive_key(CONTENT);
        hasher.update(&len.to_le_bytes());
        let whole = self.whole.iter().map(|sum| (SummedUnit::new(len, None), Some(sum)));
        let units = self.units.iter().map(|unit| (unit.clone(), unit.sum.as_ref()));
        for (unit, sum) in units.chain(whole) {
            match unit.identity(sum) {
                ExtentContent::Id { id, .. } => {
                    hasher.update(id.map(u64::to_le_bytes).as_flattened())
                }
                ExtentContent::Zero | ExtentContent::Unknown => {
                    hasher.update(&unit.len.to_le_bytes())
                }
            };
        }
        Some(Digest::from_bytes(hasher.finalize().into()))
    }

    /// Returns the sets of units by which a whole object of `len` bytes can be compared with local bytes: the units of
    /// the object, and the whole object as one unit. Sets that do not cover the object or cannot be computed here are
    /// left out.
    pub(crate) fn comparable_units(&self, len: u64) -> Vec<Cow<'_, [SummedUnit]>> {
        let whole =
            self.whole.iter().map(|sum| Cow::Owned(vec![SummedUnit::new(len, Some(sum.clone()))]));
        let comparable_units = [Cow::Borrowed(&self.units[..])].into_iter().chain(whole);
        comparable_units
            .filter(|way| {
                let is_known =
                    |unit: &SummedUnit| unit.algorithm().is_some_and(SumAlgorithm::is_computable);
                len > 0
                    && way.iter().map(|unit| unit.len).sum::<u64>() == len
                    && way.iter().all(is_known)
            })
            .collect()
    }
}

/// Store id of extents identified by checksums of content: such identities are valid in every store.
pub(crate) const STORE: [u8; 32] = *b"deltic: units by sums of content";
const CONTEXT: &str = "deltic 2026-11-26 units of remote systems by their sums";
const CONTENT: &str = "deltic 2026-11-26 contents of remote systems by their sums";
/// Most units of an object.
const MAX_UNITS: usize = 1 << 20;
