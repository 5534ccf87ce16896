//! A writer that leaves holes for blocks of zeros.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// The block size of practically every file system.
const BLOCK_BYTES: u64 = 4096;

/// Writes a new file from front to end. A flush sets the length of the file to the bytes written.
#[derive(Debug)]
pub(super) struct WithHoles {
    file: File,
    at: u64,
}

impl WithHoles {
    /// Starts writing to the empty `file`.
    pub(super) const fn new(file: File) -> Self {
        Self { file, at: 0 }
    }

    /// Returns the longest prefix of `bytes` with blocks that are all zero or all not zero, and true for zeros.
    fn leading_run<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        let first = bytes.len().min((BLOCK_BYTES - self.at % BLOCK_BYTES) as usize);
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let zero = is_zero(&bytes[..first]);
        let blocks = bytes[first..].chunks(BLOCK_BYTES as usize);
        let more = blocks.take_while(|block| is_zero(block) == zero).map(<[u8]>::len);
        (&bytes[..first + more.sum::<usize>()], zero)
    }
}

impl Write for WithHoles {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (run, zero) = self.leading_run(bytes);
        if zero {
            self.file.seek(SeekFrom::Start(self.at + run.len() as u64))?;
        } else {
            self.file.write_all(run)?;
        }
        self.at += run.len() as u64;
        Ok(run.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.set_len(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_however_it_is_divided() {
        let block = BLOCK_BYTES as usize;
        let ones = |len: usize| vec![1; len];
        let zeros = |len: usize| vec![0; len];
        let content =
            [ones(3), zeros(5 * block), ones(1), zeros(block), ones(block), zeros(2 * block + 9)];
        let content = content.concat();
        for piece in [1, 7, block - 1, block, block + 1, content.len()] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let mut file = WithHoles::new(File::create(&path).unwrap());
            content.chunks(piece).for_each(|piece| file.write_all(piece).unwrap());
            file.flush().unwrap();
            assert!(std::fs::read(&path).unwrap() == content, "{piece}");
        }
    }
}
