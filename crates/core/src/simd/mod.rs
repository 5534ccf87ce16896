//! Vectors of bytes, with one interface for all instruction sets. The chunkers of VectorCDC (§4.1, §4.2) use
//! them.
//!
//! ```text
//! chunk/ram.rs …  ── impl Kernel ──►  Isa::run  ── picks ──►  x86.rs | neon.rs | wasm.rs | scalar.rs
//! ```
//!
//! An algorithm is a `Kernel`, generic over `Simd`. A value of a type that implements `Simd` is a *witness* that
//! the CPU has the instructions: only CPU detection creates such a value, so code with the value may use the
//! instructions. Three kinds of lines are unsafe: intrinsics that compute; intrinsics that read memory through a
//! pointer (loads and gathers); calls of a function that is compiled for CPU features. All of them are in the
//! files of the instruction sets and in `gather.rs`, `clmul.rs` and `carryless.rs`.

pub(crate) mod carryless;
pub(crate) mod clmul;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gather;
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
mod neon;
mod scalar;
pub(crate) mod search;
mod vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use scalar::Scalar;

pub(crate) use vector::{Kernel, MAX_LANES, Simd, all_lanes};

/// An instruction set of this machine. Every value was detected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(IsaWitness);

/// Declares [`IsaWitness`]: one variant for each instruction set, the best last, with its witness type and name.
macro_rules! witnesses {
    ($($(#[$there:meta])* $variant:ident($type:ty) = $name:literal,)+) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum IsaWitness {
            $($(#[$there])* $variant($type)),+
        }

        impl IsaWitness {
            fn detect_all() -> Vec<Self> {
                let mut all = Vec::new();
                $($(#[$there])* all.extend(<$type>::detect().map(Self::$variant));)+
                all
            }

            const fn name(self) -> &'static str {
                match self {
                    $($(#[$there])* Self::$variant(_) => $name),+
                }
            }

            #[inline]
            fn run<K: Kernel>(self, kernel: K) -> K::Output {
                match self {
                    $($(#[$there])* Self::$variant(witness) => witness.run(kernel)),+
                }
            }
        }
    };
}

witnesses! {
    Scalar(Scalar) = "scalar",
    #[cfg(target_arch = "x86_64")]
    Sse(x86::Sse) = "sse",
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2) = "avx2",
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512) = "avx512",
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
    Neon(neon::Neon) = "neon",
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128(wasm::Simd128) = "simd128",
}

/// Error for an instruction set that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted:?} is not an instruction set of this machine; it has {}", available.join(", "))]
pub struct UnknownIsa {
    wanted: String,
    available: Vec<&'static str>,
}

static CHOSEN: OnceLock<Isa> = OnceLock::new();

impl Isa {
    /// Portable Rust, one byte at a time, available on every machine.
    pub const SCALAR: Self = Self(IsaWitness::Scalar(Scalar));

    /// The instruction sets of this machine, the best last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        IsaWitness::detect_all().into_iter().map(Self).collect()
    }

    /// The instruction set that chunkers use by default: detected once, or set by [`Isa::prefer`].
    #[must_use]
    pub fn best() -> Self {
        *CHOSEN.get_or_init(|| Self::available().pop().unwrap_or(Self::SCALAR))
    }

    /// Sets the result of [`Isa::best`]. Returns false, without effect, if `best` or `prefer` was called
    /// before.
    pub fn prefer(self) -> bool {
        CHOSEN.set(self).is_ok()
    }

    /// Name of the instruction set, as [`FromStr`] parses it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// The gather instructions, if the instruction set has gather instructions.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn gathers(self) -> Option<gather::Gathers> {
        use gather::{Gathers, Words32, Words64};
        match self.0 {
            IsaWitness::Avx2(isa) => Some(Gathers::Avx2(Words32(isa), Words64(isa))),
            IsaWitness::Avx512(isa) => Some(Gathers::Avx512(Words32(isa), Words64(isa))),
            _ => None,
        }
    }

    /// Runs `kernel` with the widest vectors of this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        self.0.run(kernel)
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Self, UnknownIsa> {
        let available = Self::available();
        available.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| UnknownIsa {
            wanted: name.into(),
            available: available.iter().map(|isa| isa.name()).collect(),
        })
    }
}
