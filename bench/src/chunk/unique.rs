//! Exact counts of different chunks in bounded memory.
//!
//! A chunk is written down by its fingerprint, in one of many buckets by the first byte of the fingerprint. A bucket that
//! outgrows its buffer continues in a temporary file. Equal chunks are in one bucket, so that at the end each bucket is
//! counted alone.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use anyhow::Result;
use deltic_core::Fingerprint;

/// Chunks of some inputs, in the order of the inputs.
pub(super) struct UniqueChunks {
    buckets: Vec<ChunkBucket>,
    inputs: usize,
}

/// Records of chunks: fingerprint, length, and number of the input.
#[derive(Default)]
struct ChunkBucket {
    buffer: Vec<u8>,
    file: Option<File>,
}

impl UniqueChunks {
    /// Makes an empty count for this number of inputs.
    pub(super) fn new(inputs: usize) -> Self {
        Self { buckets: (0..BUCKETS).map(|_| ChunkBucket::default()).collect(), inputs }
    }

    /// Adds a chunk of an input.
    pub(super) fn put(&mut self, input: usize, chunk: &[u8]) -> Result<()> {
        let fingerprint = Fingerprint::of(chunk);
        let bytes = fingerprint.as_bytes();
        let bucket = &mut self.buckets[usize::from(bytes[0]) % BUCKETS];
        bucket.buffer.extend_from_slice(bytes);
        bucket.buffer.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        bucket.buffer.extend_from_slice(&(input as u32).to_le_bytes());
        if bucket.buffer.len() >= BUFFER_BYTES { bucket.flush() } else { Ok(()) }
    }

    /// Returns the bytes of chunks that no earlier input has, for each input.
    pub(super) fn new_in(self) -> Result<Vec<u64>> {
        let mut new_in = vec![0; self.inputs];
        for bucket in self.buckets {
            let mut known = HashSet::new();
            bucket.each(|record| {
                let (fingerprint, numbers) = record.split_at(FINGERPRINT_BYTES);
                let (len, input) = numbers.split_at(4);
                if known.insert(fingerprint.to_vec()) {
                    new_in[number(input) as usize] += u64::from(number(len));
                }
            })?;
        }
        Ok(new_in)
    }
}

impl ChunkBucket {
    fn flush(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Calls `each` with all records, in order.
    fn each(self, mut each: impl FnMut(&[u8])) -> Result<()> {
        if let Some(mut file) = self.file {
            file.seek(SeekFrom::Start(0))?;
            let mut records = vec![0; BUFFER_BYTES];
            loop {
                let got = file.read(&mut records)?;
                if got == 0 {
                    break;
                }
                file.read_exact(&mut records[got..got.next_multiple_of(RECORD_BYTES)])?;
                records[..got.next_multiple_of(RECORD_BYTES)]
                    .chunks(RECORD_BYTES)
                    .for_each(&mut each);
            }
        }
        self.buffer.chunks(RECORD_BYTES).for_each(each);
        Ok(())
    }
}

/// Returns the number that four bytes of a record hold.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

const BUCKETS: usize = 64;
const FINGERPRINT_BYTES: usize = 32;
/// Bytes of a record: a fingerprint, a length and the number of an input.
const RECORD_BYTES: usize = FINGERPRINT_BYTES + 8;
/// Length of a buffer: whole records.
const BUFFER_BYTES: usize = 1024 * RECORD_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn chunks_are_counted_once_beyond_the_buffers_too() {
        let mut random = Random::new(1);
        let chunks: Vec<_> = (0..BUCKETS * 3000).map(|_| random.bytes(8)).collect();
        let mut unique = UniqueChunks::new(3);
        for (input, chunks) in
            [&chunks[..], &chunks[..1000], &[vec![1, 2, 3]]].into_iter().enumerate()
        {
            chunks.iter().for_each(|chunk| unique.put(input, chunk).unwrap());
        }
        assert!(unique.buckets.iter().all(|bucket| bucket.file.is_some()));
        assert_eq!(unique.new_in().unwrap(), [chunks.len() as u64 * 8, 0, 3]);
    }
}
