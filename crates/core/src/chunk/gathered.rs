//! The first stage of SS-CDC on gathered words: each lane rolls a hash over a region of its own.

use super::crc::{self, Crc};
use super::gear::GearHash;
use super::rolling::Rolling;
use super::two_stage::REGION;
use crate::constants::GEAR;
use crate::simd::gather::Words;
use crate::simd::{Kernel, Simd};

/// A rolling hash in each lane. Of `bytes` the low byte of each lane counts.
pub(super) trait InWords<W: Words> {
    /// The hashes with one more byte.
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector;

    /// The hashes without the byte that lies a window before the last.
    fn leave_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector;

    /// A bit for each lane where a chunk may end.
    fn ends_of(words: W, hashes: W::Vector, limit: W::Vector) -> u16;
}

impl<W: Words<Word = u32>> InWords<W> for Crc {
    #[inline(always)]
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        let entered = words.look_up(&crc::ENTERS, words.xor(hashes, bytes));
        words.xor(words.next_byte(hashes), entered)
    }

    #[inline(always)]
    fn leave_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        words.xor(hashes, words.look_up(&crc::LEAVES, bytes))
    }

    #[inline(always)]
    fn ends_of(words: W, hashes: W::Vector, limit: W::Vector) -> u16 {
        words.ge(hashes, limit)
    }
}

impl<W: Words<Word = u64>> InWords<W> for GearHash {
    #[inline(always)]
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        words.add(words.add(hashes, hashes), words.look_up(&GEAR, bytes))
    }

    #[inline(always)]
    fn leave_each(_: W, hashes: W::Vector, _: W::Vector) -> W::Vector {
        hashes
    }

    #[inline(always)]
    fn ends_of(words: W, hashes: W::Vector, limit: W::Vector) -> u16 {
        words.ge(limit, hashes)
    }
}

/// Appends which ends of a [`REGION`] for each lane, from `at` on, the hash would cut at. In no order.
pub(super) struct Scan<'a, H: Rolling<LANES>, W, const LANES: usize> {
    pub(super) words: W,
    pub(super) data: &'a [u8],
    pub(super) at: usize,
    pub(super) limit: H::Hash,
    pub(super) candidates: &'a mut Vec<usize>,
}

impl<H, W, const LANES: usize> Kernel for Scan<'_, H, W, LANES>
where
    H: Rolling<LANES> + InWords<W>,
    W: Words<Word = H::Hash>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { words, data, at, limit, candidates, .. } = self;
        let limit = words.splat(limit);
        let mut hashes = words.splat(H::Hash::default());
        let window = at - 1 - H::WINDOW;
        for n in (0..H::WINDOW).step_by(W::BYTES) {
            let mut enters = words.gather(data, window + n, REGION);
            for _ in 0..W::BYTES {
                hashes = H::enter_each(words, hashes, enters);
                enters = words.next_byte(enters);
            }
        }
        for n in (0..REGION).step_by(W::BYTES) {
            let mut leaves = words.gather(data, window + n, REGION);
            let mut enters = words.gather(data, at - 1 + n, REGION);
            for k in 0..W::BYTES {
                hashes = H::leave_each(words, H::enter_each(words, hashes, enters), leaves);
                (enters, leaves) = (words.next_byte(enters), words.next_byte(leaves));
                let mut ends = H::ends_of(words, hashes, limit);
                while ends != 0 {
                    candidates.push(at + ends.trailing_zeros() as usize * REGION + n + k);
                    ends &= ends - 1;
                }
            }
        }
    }
}
