//! Files with holes: blocks of zeros are not written (`--sparse`).

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{self, FallocateFlags};
use rustix::io::Errno;

use super::copy::{BLOCK_BYTES, write_at};

/// What is in the place of bytes that are about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// A hole: nobody ever wrote there.
    Hole,
    /// Perhaps other bytes, or blocks of none.
    Blocks,
}

/// Writes all of `bytes`, with holes where blocks of the file would be zeros.
pub(super) fn write_sparse(
    file: BorrowedFd<'_>,
    start: u64,
    bytes: &[u8],
    under: Under,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let (run, is_zero) = run(start + done as u64, &bytes[done..]);
        let at = start + done as u64;
        match (is_zero, under) {
            (false, _) => write_at(file, at, run)?,
            (true, Under::Hole) => {}
            (true, Under::Blocks) => clear(file, at, run)?,
        }
        done += run.len();
    }
    Ok(())
}

/// The front of `bytes`, which go to `at`: as many blocks of the file as are all zeros, or all not.
fn run(at: u64, bytes: &[u8]) -> (&[u8], bool) {
    let to_next = BLOCK_BYTES - at % BLOCK_BYTES;
    let mut end = bytes.len().min(to_next as usize);
    let zero = is_zero(&bytes[..end]);
    while end < bytes.len() {
        let next = bytes.len().min(end + BLOCK_BYTES as usize);
        if is_zero(&bytes[end..next]) != zero {
            break;
        }
        end = next;
    }
    (&bytes[..end], zero)
}

/// Compared with itself, one byte on: that is a fast comparison of memory.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| *first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// Makes zeros of what is there: a hole of whole blocks, where the file system can, and written zeros of the rest.
fn clear(file: BorrowedFd<'_>, start: u64, zeros: &[u8]) -> Result<(), Errno> {
    let Range { start: from, end: to } = whole_blocks(start, zeros.len() as u64);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if from == to || fs::fallocate(file, punch, from, to - from).is_err() {
        // Where it cannot be done, writing says why, if that fails too.
        return write_at(file, start, zeros);
    }
    let (head, tail) = ((from - start) as usize, (to - start) as usize);
    write_at(file, start, &zeros[..head])?;
    write_at(file, to, &zeros[tail..])
}

/// The blocks that `len` bytes from `start` on fill.
fn whole_blocks(start: u64, len: u64) -> Range<u64> {
    let from = start.next_multiple_of(BLOCK_BYTES).min(start + len);
    let to = (start + len) / BLOCK_BYTES * BLOCK_BYTES;
    from..to.max(from)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{CWD, Mode, OFlags};

    use super::*;
    use crate::local::snapshot::read_at;

    const LEN: usize = 6 * BLOCK_BYTES as usize;

    /// What a file holds, which held `before` where it is not a hole, once `bytes` went to `start`.
    fn written(before: Option<u8>, start: usize, bytes: &[u8]) -> (Vec<u8>, i64) {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = fs::openat(CWD, dir.path().join("file"), flags, Mode::RWXU).unwrap();
        fs::ftruncate(&file, LEN as u64).unwrap();
        let under = match before {
            Some(byte) => {
                write_at(file.as_fd(), 0, &vec![byte; LEN]).unwrap();
                Under::Blocks
            }
            None => Under::Hole,
        };
        write_sparse(file.as_fd(), start as u64, bytes, under).unwrap();
        let mut content = vec![0; LEN];
        assert_eq!(read_at(file.as_fd(), 0, &mut content).unwrap(), LEN);
        (content, fs::fstat(&file).unwrap().st_blocks)
    }

    #[test]
    fn holes_are_zeros_wherever_runs_begin_and_end() {
        let block = BLOCK_BYTES as usize;
        for start in [0, 1, block - 1, block, block + 1] {
            for (ones, zeros) in [(0, 1), (1, block), (block, 2 * block), (7, 3 * block - 9)] {
                let bytes = [vec![1; ones], vec![0; zeros], vec![1; ones]].concat();
                for before in [None, Some(9)] {
                    let mut expected = vec![before.unwrap_or(0); LEN];
                    expected[start..start + bytes.len()].copy_from_slice(&bytes);
                    let (content, _) = written(before, start, &bytes);
                    assert!(content == expected, "{start} {ones} {zeros} {before:?}");
                }
            }
        }
    }

    #[test]
    fn whole_blocks_of_zeros_take_no_room() {
        let ones = |len: usize| vec![1_u8; len];
        let block = BLOCK_BYTES as usize;
        let bytes = [ones(block), vec![0; 4 * block], ones(block)].concat();
        let (_, full) = written(Some(9), 0, &ones(LEN));
        for before in [None, Some(9)] {
            let (_, blocks) = written(before, 0, &bytes);
            // A file system without holes has none to show.
            assert!(blocks * 3 == full || before.is_some() && blocks == full, "{blocks}");
        }
    }
}
