//! Files with holes: reading skips holes, and writing skips blocks of zeros (`--sparse`).

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{self, FallocateFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::copy::{BLOCK_BYTES, read_in_parts};
use crate::kernel::read_write::{read_at, write_at};

/// Returns the number of bytes that a file takes on the disk.
pub(crate) const fn bytes_on_disk(stat: &Stat) -> u64 {
    const SECTOR_BYTES: u64 = 512;
    (stat.st_blocks as u64).saturating_mul(SECTOR_BYTES)
}

/// True if a file has fewer blocks than its length needs.
pub(crate) const fn has_holes(stat: &Stat) -> bool {
    bytes_on_disk(stat) < stat.st_size as u64
}

/// Reads until `buf` is full or the file ends. Holes are not read, since the kernel would allocate pages of zeros.
pub(crate) fn read_skipping_holes(
    file: BorrowedFd<'_>,
    start: u64,
    buf: &mut [u8],
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buf.len() {
        let (at, left) = (start + done as u64, (buf.len() - done) as u64);
        let data = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data follows, or the file ends here.
            Err(Errno::NXIO) => (fs::fstat(file)?.st_size as u64).max(at),
            // The file system does not support holes.
            Err(_) => return Ok(done + read_at(file, at, &mut buf[done..])?),
        };
        let hole = (data - at).min(left) as usize;
        buf[done..done + hole].fill(0);
        done += hole;
        if done == buf.len() {
            break;
        }
        let end = fs::seek(file, SeekFrom::Hole(data)).unwrap_or(data);
        let want = end.saturating_sub(data).min((buf.len() - done) as u64) as usize;
        let got = read_at(file, data, &mut buf[done..done + want])?;
        done += got;
        if got == 0 || got < want {
            break;
        }
    }
    Ok(done)
}

/// Returns the ranges of data in a file of `len` bytes, ascending and separate. `None` if the file system does not
/// support holes.
pub(crate) fn data_runs(file: BorrowedFd<'_>, len: u64) -> Result<Option<Vec<Range<u64>>>, Errno> {
    let mut runs = Vec::new();
    let whole = for_each_data(file, 0..len, |run| {
        runs.push(run);
        Ok(())
    })?;
    Ok(whole.then_some(runs))
}

/// Calls `each` with the ranges of data within a range of a file. Returns false if the file system does not support
/// holes.
pub(crate) fn for_each_data(
    file: BorrowedFd<'_>,
    within: Range<u64>,
    mut each: impl FnMut(Range<u64>) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let mut at = within.start;
    while at < within.end {
        let data = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) if data >= within.end => break,
            Ok(data) => data,
            // No data follows.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        at = fs::seek(file, SeekFrom::Hole(data))?.min(within.end);
        each(data..at)?;
    }
    Ok(true)
}

/// Copies the data of a file of `len` bytes into another file, with holes for blocks of zeros. Returns false if the
/// first file ends before `len`.
pub(crate) fn copy_sparse(
    from: BorrowedFd<'_>,
    len: u64,
    to: BorrowedFd<'_>,
    under: Under,
) -> Result<bool, Errno> {
    let put = |at, bytes: &[u8]| write_sparse(to, at, bytes, under);
    let mut whole = true;
    let told = for_each_data(from, 0..len, |run| {
        whole &= read_in_parts(from, run, put)?;
        Ok(())
    })?;
    if told { Ok(whole) } else { read_in_parts(from, 0..len, put) }
}

/// Zeros a range of a file, with holes for whole blocks. Existing holes cost nothing.
pub(crate) fn zero_range(file: BorrowedFd<'_>, span: Range<u64>) -> Result<(), Errno> {
    let clear = |data| zero_data(file, data);
    if for_each_data(file, span.clone(), clear)? { Ok(()) } else { clear(span) }
}

/// Zeros a range of data: punches a hole for whole blocks if the file system can, and writes zeros for the rest.
fn zero_data(file: BorrowedFd<'_>, data: Range<u64>) -> Result<(), Errno> {
    let blocks = whole_blocks(data.clone());
    if blocks.is_empty() || !punch_hole(file, blocks.clone()) {
        // Punching a hole failed. If writing zeros fails too, that error is returned.
        return write_zeros(file, data);
    }
    write_zeros(file, data.start..blocks.start)?;
    write_zeros(file, blocks.end..data.end)
}

fn write_zeros(file: BorrowedFd<'_>, run: Range<u64>) -> Result<(), Errno> {
    const MOST_BYTES: u64 = 256 << 10;
    let zeros = vec![0; MOST_BYTES.min(run.end - run.start) as usize];
    let mut at = run.start;
    while at < run.end {
        let len = (run.end - at).min(MOST_BYTES);
        write_at(file, at, &zeros[..len as usize])?;
        at += len;
    }
    Ok(())
}

/// Punches a hole for these blocks; returns false if the file system cannot.
fn punch_hole(file: BorrowedFd<'_>, blocks: Range<u64>) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fs::fallocate(file, flags, blocks.start, blocks.end - blocks.start).is_ok()
}

/// Content of a range of a file before the range is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// A hole: the range was never written.
    Hole,
    /// Bytes that were written before, or allocated blocks without data.
    Blocks,
}

/// Writes all of `bytes`, with holes for whole blocks of zeros.
pub(crate) fn write_sparse(
    file: BorrowedFd<'_>,
    start: u64,
    bytes: &[u8],
    under: Under,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let (run, is_zero) = split_zero_run(start + done as u64, &bytes[done..]);
        let at = start + done as u64;
        match (is_zero, under) {
            (false, _) => write_at(file, at, run)?,
            (true, Under::Hole) => {}
            (true, Under::Blocks) => zero_data(file, at..at + run.len() as u64)?,
        }
        done += run.len();
    }
    Ok(())
}

/// Punches holes for allocated blocks of zeros in a file of `len` bytes.
pub(crate) fn punch_zero_blocks(file: BorrowedFd<'_>, len: u64) -> Result<(), Errno> {
    // A file system without support for holes is left unchanged.
    for_each_data(file, 0..len, |data| {
        read_in_parts(file, data, |start, bytes| {
            let mut done = 0;
            while done < bytes.len() {
                let start = start + done as u64;
                let (run, is_zero) = split_zero_run(start, &bytes[done..]);
                let zeros = start..start + run.len() as u64;
                // A hole needs at least one whole block.
                if is_zero && !whole_blocks(zeros.clone()).is_empty() {
                    zero_data(file, zeros)?;
                }
                done += run.len();
            }
            Ok(())
        })
        .map(drop)
    })
    .map(drop)
}

/// Splits off the longest start of `bytes` in which either all blocks of the file are zeros, or none. `bytes` begin at
/// offset `at` of the file. Also returns true for zeros.
fn split_zero_run(at: u64, bytes: &[u8]) -> (&[u8], bool) {
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

/// True if all bytes are zero. Comparing the slice with itself, shifted by one byte, is a fast `memcmp`.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| *first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// Returns the whole blocks of the file within `span`.
fn whole_blocks(span: Range<u64>) -> Range<u64> {
    let from = span.start.next_multiple_of(BLOCK_BYTES).min(span.end);
    let to = span.end / BLOCK_BYTES * BLOCK_BYTES;
    from..to.max(from)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{CWD, Mode, OFlags};

    use super::*;
    use crate::kernel::read_write::read_at;

    const LEN: usize = 6 * BLOCK_BYTES as usize;

    /// Returns the content and the disk blocks of a file after `bytes` were written at `start`. The file was full of
    /// `before`, or a hole.
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
    fn a_file_with_holes_is_read_as_any_other() {
        let (dir, block) = (tempfile::tempdir().unwrap(), BLOCK_BYTES as usize);
        let one = |ones: Range<usize>| std::iter::once(ones).collect::<Vec<_>>();
        for (len, ones) in [
            (0, Vec::new()),
            (5 * block + 7, Vec::new()),
            (LEN, one(0..block)),
            (LEN, vec![block..2 * block, 4 * block..LEN]),
            (LEN - 9, one(2 * block - 1..2 * block + 1)),
        ] {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
            let file = fs::openat(CWD, dir.path().join("file"), flags, Mode::RWXU).unwrap();
            fs::ftruncate(&file, len as u64).unwrap();
            let mut expected = vec![0; len];
            for run in ones {
                write_at(file.as_fd(), run.start as u64, &vec![1; run.len()]).unwrap();
                expected[run].fill(1);
            }
            for start in
                [0, 1, block - 1, block, 3 * block + 5, len.saturating_sub(1), len, len + 9]
            {
                for want in [1, block, 2 * block + 3, LEN, LEN + 9] {
                    let mut buf = vec![9; want];
                    let got = read_skipping_holes(file.as_fd(), start as u64, &mut buf).unwrap();
                    let there =
                        &expected[start.min(len)..(start + want).min(len).max(start.min(len))];
                    assert!(buf[..got] == *there, "{len} {start} {want} {got}");
                }
            }
        }
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
            // The file system may have no holes.
            assert!(blocks * 3 == full || before.is_some() && blocks == full, "{blocks}");
        }
    }
}
