//! The digest of a file, computed while its blocks are read or written in roughly ascending order.

use std::collections::BTreeMap;

use deltic_core::Digest;
use deltic_core::recipe::FileDigest;

/// Largest number of ranges ahead of the hashed prefix. Above this limit the digest is given up.
const MAX_AHEAD: usize = 4096;
/// Read size for blocks that arrived early, in bytes.
const AGAIN_BYTES: usize = 256 << 10;

/// The digest of a growing prefix of a file. A block that arrives early is read again later, from the page cache.
///
/// Law: the result is the digest of the bytes that were pushed, or `None`.
#[derive(Debug, Default)]
pub struct DigestInOrder {
    digest: FileDigest,
    len: u64,
    /// Ranges that arrived early: start to end. No two ranges touch.
    ahead: BTreeMap<u64, u64>,
    is_given_up: bool,
}

impl DigestInOrder {
    /// Takes a block that was read or written. `read` reads earlier blocks again.
    ///
    /// # Errors
    /// An error of `read`.
    pub fn push<E>(
        &mut self,
        start: u64,
        bytes: &[u8],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        if self.is_given_up || bytes.is_empty() {
            return Ok(());
        }
        let end = start + bytes.len() as u64;
        if start != self.len {
            self.record_early_range(start, end);
            return Ok(());
        }
        if self.ahead.first_key_value().is_some_and(|(next, _)| *next < end) {
            self.give_up();
            return Ok(());
        }
        self.take(bytes);
        let mut again = Vec::new();
        while let Some(end) = self.ahead.remove(&self.len) {
            while self.len < end {
                again.resize(AGAIN_BYTES.min((end - self.len) as usize), 0);
                let got = read(self.len, &mut again)?;
                if got == 0 {
                    self.give_up();
                    return Ok(());
                }
                self.take(&again[..got]);
            }
        }
        Ok(())
    }

    /// True if the block at `start` extends the prefix. Such a block may be pushed before it is written.
    #[must_use]
    pub const fn is_next(&self, start: u64) -> bool {
        !self.is_given_up && self.len == start
    }

    /// Stops computing the digest, because not every byte will be pushed, or some bytes were pushed twice.
    pub fn give_up(&mut self) {
        *self = Self { is_given_up: true, ..Self::default() };
    }

    /// Returns the digest if the file is `len` bytes long and every byte was pushed once.
    #[must_use]
    pub fn finish(&self, len: u64) -> Option<Digest> {
        (!self.is_given_up && self.len == len && len > 0).then(|| self.digest.finish())
    }

    fn record_early_range(&mut self, mut start: u64, mut end: u64) {
        let before = self.ahead.range(..=start).next_back().map(|(start, end)| (*start, *end));
        let behind = self.ahead.range(start..).next().map(|(start, end)| (*start, *end));
        let overlaps = start < self.len
            || before.is_some_and(|(_, before)| before > start)
            || behind.is_some_and(|(behind, _)| behind < end);
        if overlaps || self.ahead.len() == MAX_AHEAD {
            return self.give_up();
        }
        if let Some((first, _)) = before.filter(|(_, before)| *before == start) {
            start = first;
        }
        if let Some((_, last)) = behind.filter(|(behind, _)| *behind == end) {
            self.ahead.remove(&end);
            end = last;
        }
        self.ahead.insert(start, end);
    }

    fn take(&mut self, bytes: &[u8]) {
        self.digest.push(bytes);
        self.len += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Pushes the blocks of a file in this order. Returns the digest and the number of bytes read again.
    fn passed(file: &[u8], blocks: &[Range<usize>]) -> (DigestInOrder, u64) {
        let (mut digest, mut again) = (DigestInOrder::default(), 0);
        for block in blocks {
            let read = |start: u64, into: &mut [u8]| {
                let got = into.len().min(file.len() - start as usize);
                into[..got].copy_from_slice(&file[start as usize..][..got]);
                again += got as u64;
                Ok::<_, std::convert::Infallible>(got)
            };
            let Ok(()) = digest.push(block.start as u64, &file[block.clone()], read);
        }
        (digest, again)
    }

    fn digest_of(file: &[u8]) -> Option<Digest> {
        let mut digest = FileDigest::new();
        digest.push(file);
        Some(digest.finish())
    }

    /// Calls `with` for each permutation of these blocks.
    fn each_order(
        blocks: &mut [Range<usize>],
        fixed: usize,
        with: &mut impl FnMut(&[Range<usize>]),
    ) {
        if fixed == blocks.len() {
            return with(blocks);
        }
        for at in fixed..blocks.len() {
            blocks.swap(fixed, at);
            each_order(blocks, fixed + 1, with);
            blocks.swap(fixed, at);
        }
    }

    #[test]
    fn blocks_in_any_order_give_the_digest_of_the_file() {
        let file: Vec<u8> = (0..1000).map(|at| (at % 251) as u8).collect();
        let cuts = [0, 1, 100, 350, 351, 800, 1000];
        let mut blocks: Vec<_> = cuts.windows(2).map(|ends| ends[0]..ends[1]).collect();
        let (digest, again) = passed(&file, &blocks);
        assert_eq!((digest.finish(1000), again), (digest_of(&file), 0), "in order");
        assert_eq!(digest.finish(999), None);
        each_order(&mut blocks, 0, &mut |blocks| {
            let (digest, again) = passed(&file, blocks);
            assert_eq!(digest.finish(1000), digest_of(&file), "{blocks:?}");
            assert!(again < 1000 && digest.ahead.is_empty(), "{blocks:?}");
            assert_eq!(passed(&file, &blocks[1..]).0.finish(1000), None, "a block is missing");
        });
    }

    #[test]
    fn bytes_that_pass_twice_have_no_digest() {
        let file = [7; 100];
        for twice in [
            vec![0..50, 40..100],
            vec![0..50, 0..50, 50..100],
            vec![50..100, 50..100, 0..50],
            vec![50..100, 40..60, 0..50],
            vec![60..100, 0..70],
            vec![20..40, 60..80, 30..70, 0..100],
        ] {
            assert_eq!(passed(&file, &twice).0.finish(100), None, "{twice:?}");
        }
        assert_eq!(passed(&file, &[50..100, 0..50]).0.finish(100), digest_of(&file));
    }
}
