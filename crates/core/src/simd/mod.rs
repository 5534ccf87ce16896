//! Vectors of bytes, once for all instruction sets: what the chunkers of VectorCDC (§4.1, §4.2) are written with.
//!
//! ```text
//! chunk/ram.rs …  ── impl Kernel ──►  Isa::run  ── picks ──►  x86.rs | neon.rs | wasm.rs | scalar.rs
//! ```
//!
//! An algorithm is a `Kernel`, generic over `Simd`. A value of a type that implements `Simd` is a *witness*: it is
//! made by detection alone, so whoever holds one may use its instructions. With that, three kinds of line are unsafe:
//! the call of an intrinsic that computes; the call of one that reads memory through a pointer (loads and gathers);
//! the step into a function that is compiled for its features. All stand in the files of the instruction sets and in
//! `gather.rs`, `clmul.rs` and `carryless.rs`.

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

/// An instruction set that this machine has. There is no other value: each was detected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Witness);

/// Declares [`Witness`]: a variant for each instruction set, the best last, with the type that proves it and its name.
macro_rules! witnesses {
    ($($(#[$there:meta])* $variant:ident($type:ty) = $name:literal,)+) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Witness {
            $($(#[$there])* $variant($type)),+
        }

        impl Witness {
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

/// Why an instruction set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted:?} is not an instruction set of this machine; it has {}", available.join(", "))]
pub struct UnknownIsa {
    wanted: String,
    available: Vec<&'static str>,
}

static CHOSEN: OnceLock<Isa> = OnceLock::new();

impl Isa {
    /// Plain Rust, one byte at a time: every machine has it.
    pub const SCALAR: Self = Self(Witness::Scalar(Scalar));

    /// All that this machine has, the best last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Witness::detect_all().into_iter().map(Self).collect()
    }

    /// The one that chunkers use unless they are told otherwise: detected once, or what [`Isa::prefer`] said.
    #[must_use]
    pub fn best() -> Self {
        *CHOSEN.get_or_init(|| Self::available().pop().unwrap_or(Self::SCALAR))
    }

    /// Makes [`Isa::best`] this one from now on; whether that was the first word on it.
    pub fn prefer(self) -> bool {
        CHOSEN.set(self).is_ok()
    }

    /// Its name, as [`FromStr`] reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// Words to gather, of 32 and of 64 bits, where there are instructions for them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn words(self) -> Option<(gather::Words32, gather::Words64)> {
        match self.0 {
            Witness::Avx512(witness) => Some((gather::Words32(witness), gather::Words64(witness))),
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
