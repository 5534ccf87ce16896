//! Weak sums: cheap to take, good to suggest a match, proof of nothing.

mod adler;
mod crc32c;
mod fastfp;
mod lastfp;
mod rolling;

pub use adler::Adler;
pub use crc32c::Crc32c;
#[doc(hidden)]
pub use crc32c::Engine;
pub use rolling::Rolling;
pub(crate) use rolling::{Roll, RollAdler, RollCrc32c};

use crate::codec::{CodecError, Put, Reader};
use crate::named::named;

/// A weak sum's kind. All have 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weak {
    /// rsync's rolling sum, which the papers call Adler-32 ([`Adler`]).
    Adler,
    /// CRC-32C ([`Crc32c`]; SkySync §3.2.1, ParaSync §2.2).
    Crc32c,
    /// The sum of all gear hashes (NetSync §4.2).
    FastFp,
    /// The sum of every sixteenth gear hash: FastFP(+16) (NetSync §4.2).
    FastFpStride,
    /// The last gear hash, only to compare with (NetSync §4.2).
    LastFp,
}

impl Weak {
    /// All there are.
    pub const ALL: [Self; 5] =
        [Self::Adler, Self::Crc32c, Self::FastFp, Self::FastFpStride, Self::LastFp];

    /// Bits of each sum.
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

    /// Appends its number.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(self.facts().0);
    }

    /// Reads what [`Weak::encode`] wrote.
    ///
    /// # Errors
    /// [`CodecError`]; an unknown number is out of range.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::numbered(reader.u8()?)
    }

    /// Its number in files and frames, and its name.
    const fn facts(self) -> (u8, &'static str) {
        match self {
            Self::Adler => (1, "adler-rsync"),
            Self::Crc32c => (2, "crc32c"),
            Self::FastFp => (3, "fastfp"),
            Self::FastFpStride => (4, "fastfp-16"),
            Self::LastFp => (5, "lastfp"),
        }
    }
}

/// No weak sum has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a weak sum; there are {names}", names = Weak::ALL.map(Weak::name).join(", "))]
pub struct UnknownWeak(String);

named!(Weak, UnknownWeak);
