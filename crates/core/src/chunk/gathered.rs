//! First stage of SS-CDC with gather instructions: each vector lane rolls a hash over its own region.

use super::crc::{self, CrcHash};
use super::gear::GearHash;
use super::rolling::RollingHash;
use super::ss_cdc::{BoundaryBits, PIECE, REGION};
use crate::constants::GEAR;
use crate::simd::gather::WordVector;
use crate::simd::{Kernel, Simd};

/// A rolling hash in each lane. Only the low byte of each lane of `bytes` is used.
pub(super) trait GatherHash<W: WordVector> {
    /// The hashes after one more byte.
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector;

    /// The hashes without the byte that leaves the window.
    fn remove_leaving_bytes(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector;

    /// A bit mask of the lanes with a hash that ends a chunk.
    fn lanes_that_end_chunks(words: W, hashes: W::Vector, limit: W::Vector) -> u16;
}

impl<W: WordVector<Word = u32>> GatherHash<W> for CrcHash {
    #[inline(always)]
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        let entered = words.look_up(&crc::ENTERS, words.xor(hashes, bytes));
        words.xor(words.shift_right_one_byte(hashes), entered)
    }

    #[inline(always)]
    fn remove_leaving_bytes(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        words.xor(hashes, words.look_up(&crc::LEAVES, bytes))
    }

    #[inline(always)]
    fn lanes_that_end_chunks(words: W, hashes: W::Vector, limit: W::Vector) -> u16 {
        words.ge(hashes, limit)
    }
}

impl<W: WordVector<Word = u64>> GatherHash<W> for GearHash {
    #[inline(always)]
    fn enter_each(words: W, hashes: W::Vector, bytes: W::Vector) -> W::Vector {
        words.add(words.add(hashes, hashes), words.look_up(&GEAR, bytes))
    }

    #[inline(always)]
    fn remove_leaving_bytes(_: W, hashes: W::Vector, _: W::Vector) -> W::Vector {
        hashes
    }

    #[inline(always)]
    fn lanes_that_end_chunks(words: W, hashes: W::Vector, limit: W::Vector) -> u16 {
        words.ge(limit, hashes)
    }
}

/// Marks the possible chunk ends in a [`PIECE`] of `data` from byte `at`: a [`REGION`] for each lane.
pub(super) struct GatherScan<'a, H: RollingHash<LANES>, W, const LANES: usize> {
    pub(super) words: W,
    pub(super) data: &'a [u8],
    pub(super) at: usize,
    pub(super) limit: H::Hash,
    pub(super) bits: &'a mut BoundaryBits,
}

impl<H, W, const LANES: usize> Kernel for GatherScan<'_, H, W, LANES>
where
    H: RollingHash<LANES> + GatherHash<W>,
    W: WordVector<Word = H::Hash>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, _: S) {
        for at in (self.at..self.at + PIECE).step_by(W::LANES * REGION) {
            let hashes = self.warm_up(at);
            self.roll(at, hashes);
        }
    }
}

impl<H, W, const LANES: usize> GatherScan<'_, H, W, LANES>
where
    H: RollingHash<LANES> + GatherHash<W>,
    W: WordVector<Word = H::Hash>,
{
    /// The hashes of the windows before the first byte of each lane.
    #[inline(always)]
    fn warm_up(&self, at: usize) -> W::Vector {
        let words = self.words;
        let mut hashes = words.splat(H::Hash::default());
        for n in (0..H::WINDOW).step_by(W::BYTES) {
            let mut enters = words.gather(self.data, at - 1 - H::WINDOW + n, REGION);
            for _ in 0..W::BYTES {
                hashes = H::enter_each(words, hashes, enters);
                enters = words.shift_right_one_byte(enters);
            }
        }
        hashes
    }

    #[inline(always)]
    fn roll(&mut self, at: usize, mut hashes: W::Vector) {
        let (words, limit) = (self.words, self.words.splat(self.limit));
        for n in (0..REGION).step_by(W::BYTES) {
            let mut leaves = words.gather(self.data, at - 1 - H::WINDOW + n, REGION);
            let mut enters = words.gather(self.data, at - 1 + n, REGION);
            for k in 0..W::BYTES {
                hashes =
                    H::remove_leaving_bytes(words, H::enter_each(words, hashes, enters), leaves);
                (enters, leaves) =
                    (words.shift_right_one_byte(enters), words.shift_right_one_byte(leaves));
                let mut ends = H::lanes_that_end_chunks(words, hashes, limit);
                while ends != 0 {
                    self.bits.set(at + ends.trailing_zeros() as usize * REGION + n + k);
                    ends &= ends - 1;
                }
            }
        }
    }
}
