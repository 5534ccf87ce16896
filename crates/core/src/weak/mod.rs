//! Weak sums: cheap to take, good to suggest a match, proof of nothing (DESIGN §6).

mod crc32c;

pub(crate) use crc32c::CASTAGNOLI;
pub use crc32c::Crc32c;
#[doc(hidden)]
pub use crc32c::Engine;
