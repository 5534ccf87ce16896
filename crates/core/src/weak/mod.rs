//! Weak sums: cheap 32-bit sums that suggest a match without proof.

mod adler;
mod crc32c;
mod fastfp;
mod lastfp;
mod rolling;

pub use adler::Adler;
#[doc(hidden)]
pub use crc32c::ConcatEngine;
pub use crc32c::Crc32c;
pub(crate) use fastfp::{
    STRIDE as FASTFP_STRIDE, WINDOW as FASTFP_WINDOW, last_hash as last_gear_hash,
};
pub use rolling::RollingKind;
pub(crate) use rolling::{AdlerRoller, Crc32cRoller, SumRoller};

use crate::codec::{CodecError, Put, Reader};
use crate::named::named;

/// Kind of a weak sum. All sums have 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeakKind {
    /// rsync's rolling sum, called Adler-32 in the papers ([`Adler`]).
    Adler,
    /// CRC-32C ([`Crc32c`]; SkySync §3.2.1, ParaSync §2.2).
    Crc32c,
    /// The sum of all Gear hashes (NetSync §4.2).
    FastFp,
    /// The sum of every sixteenth Gear hash: FastFP(+16) (NetSync §4.2).
    FastFpStride,
    /// The last Gear hash, for comparison only (NetSync §4.2).
    LastFp,
}

impl WeakKind {
    /// The list of all kinds.
    pub const ALL: [Self; 5] =
        [Self::Adler, Self::Crc32c, Self::FastFp, Self::FastFpStride, Self::LastFp];

    /// Length of a sum in bits.
    pub const BITS: u32 = u32::BITS;

    /// The sum of `bytes`.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Adler => Adler::of(bytes).get(),
            Self::Crc32c => Crc32c::of(bytes).get(),
            Self::FastFp => fastfp::fast_fp(bytes),
            Self::FastFpStride => fastfp::fast_fp_stride(bytes),
            Self::LastFp => lastfp::last_fp(bytes),
        }
    }

    /// Appends the number of the kind.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(self.number_and_name().0);
    }

    /// Reads the output of [`WeakKind::encode`].
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] for an unknown number.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::numbered(reader.u8()?)
    }

    /// Number of the kind in files and frames, and its name on the command line.
    const fn number_and_name(self) -> (u8, &'static str) {
        match self {
            Self::Adler => (1, "adler-rsync"),
            Self::Crc32c => (2, "crc32c"),
            Self::FastFp => (3, "fastfp"),
            Self::FastFpStride => (4, "fastfp-16"),
            Self::LastFp => (5, "lastfp"),
        }
    }
}

/// Error for an unknown name of a weak sum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a weak sum; there are {names}", names = WeakKind::ALL.map(WeakKind::name).join(", "))]
pub struct UnknownWeak(String);

named!(WeakKind, UnknownWeak);
