//! Rolling weak sums: the sum of a window moves by one byte in constant time.

use super::{Crc32c, WeakKind};
use crate::chunk::CRC_ENTERS;

/// Kind of a rolling weak sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RollingKind {
    /// [`WeakKind::Adler`], the sum of rsync and its successors.
    Adler,
    /// [`WeakKind::Crc32c`]. A storage layer may have stored this sum for blocks of the old version (SkySync
    /// §3.1).
    Crc32c,
}

impl RollingKind {
    /// The same sum as a [`WeakKind`].
    #[must_use]
    pub const fn weak(self) -> WeakKind {
        match self {
            Self::Adler => WeakKind::Adler,
            Self::Crc32c => WeakKind::Crc32c,
        }
    }
}

/// Rolls the sum of a window of one length.
pub(crate) trait SumRoller {
    /// The sum in a form that is fast to roll.
    type State: Copy;

    /// The state of a window with this sum.
    fn state(&self, sum: u32) -> Self::State;

    /// The state one byte later: `leaves` was the first byte of the window, `enters` follows its last byte.
    fn roll(&self, state: Self::State, leaves: u8, enters: u8) -> Self::State;

    /// The sum of the window.
    fn sum(&self, state: Self::State) -> u32;
}

/// Rolls an [`Adler`](super::Adler).
#[derive(Debug)]
pub(crate) struct AdlerRoller {
    len: u32,
}

impl AdlerRoller {
    /// Rolls windows of `len` bytes.
    pub(crate) const fn new(len: u32) -> Self {
        Self { len }
    }
}

/// The state keeps both halves with unreduced higher bits, so each step waits for two additions only.
impl SumRoller for AdlerRoller {
    type State = [u32; 2];

    #[inline(always)]
    fn state(&self, sum: u32) -> [u32; 2] {
        [sum, sum >> 16]
    }

    #[inline(always)]
    fn roll(&self, [a, b]: [u32; 2], leaves: u8, enters: u8) -> [u32; 2] {
        let (enters, leaves) = (enters as i8 as u32, leaves as i8 as u32);
        let a = a.wrapping_add(enters.wrapping_sub(leaves));
        [a, b.wrapping_sub(leaves.wrapping_mul(self.len)).wrapping_add(a)]
    }

    #[inline(always)]
    fn sum(&self, [a, b]: [u32; 2]) -> u32 {
        a & 0xffff | b << 16
    }
}

/// Rolls a [`Crc32c`].
///
/// A first byte changes the CRC of a byte string by a value that depends only on this byte and on the length.
#[derive(Debug)]
pub(crate) struct Crc32cRoller {
    /// The change of the CRC for each value of the first byte.
    leaves: Box<[u32; 256]>,
}

impl Crc32cRoller {
    /// Rolls windows of `len` bytes.
    pub(crate) fn new(len: u32) -> Self {
        let window = Crc32c::of(&vec![0; len as usize]);
        let value = |byte| Crc32c::of(&[byte]).concat(window, len.into()).get() ^ window.get();
        Self { leaves: Box::new(std::array::from_fn(|byte| value(byte as u8))) }
    }
}

impl SumRoller for Crc32cRoller {
    /// The CRC register: the inverted sum.
    type State = u32;

    #[inline(always)]
    fn state(&self, sum: u32) -> u32 {
        !sum
    }

    #[inline(always)]
    fn roll(&self, register: u32, leaves: u8, enters: u8) -> u32 {
        let longer = register >> 8 ^ CRC_ENTERS[usize::from(register as u8 ^ enters)];
        longer ^ self.leaves[usize::from(leaves)]
    }

    #[inline(always)]
    fn sum(&self, register: u32) -> u32 {
        !register
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weak::Adler;

    #[test]
    fn a_rolled_sum_equals_the_sum_of_the_window() {
        let data: Vec<u8> = (0..3000u32).map(|n| (n * n % 251) as u8 ^ 0xa5).collect();
        for len in [1usize, 2, 31, 32, 33, 512, 700] {
            let (adler, crc) = (AdlerRoller::new(len as u32), Crc32cRoller::new(len as u32));
            let mut a = adler.state(Adler::of(&data[..len]).get());
            let mut c = crc.state(Crc32c::of(&data[..len]).get());
            for at in 1..=data.len() - len {
                let (leaves, enters) = (data[at - 1], data[at - 1 + len]);
                (a, c) = (adler.roll(a, leaves, enters), crc.roll(c, leaves, enters));
                let window = &data[at..at + len];
                assert_eq!(adler.sum(a), Adler::of(window).get(), "{len} at {at}");
                assert_eq!(crc.sum(c), Crc32c::of(window).get(), "{len} at {at}");
            }
        }
    }
}
