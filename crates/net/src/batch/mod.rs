//! Runs that are stored in a file: `--write-batch`, `--only-write-batch` and `--read-batch`.
//!
//! A batch is a source. A written batch holds the list as the sender sent it ([`Tap`]), and the content that the
//! receiver lacked ([`writing`]). A batch that is read is the tree of an ordinary sender ([`Batch`]), and the rest of
//! the sync is the same. Between two local directories, the batch is first written from the changes that a dry run
//! finds, and then read. So the batch holds deltas, and both destinations are updated in the same way.

mod frames;
mod reading;
mod spool;
mod standing;
mod tap;
mod writing;

use std::io;

use deltic_core::format::recipe::SummaryBuilder;
use deltic_core::{Chunk, ChunkerSpec, Digest, StreamCutter};
use deltic_store::{Snapshot, StoreError};

pub(crate) use reading::Batch;
pub use spool::{Spool, spool_batch};
pub(crate) use tap::Tap;
pub(crate) use writing::write;

/// Most steps (copies and literals) that make the content of a file; bounds the memory for the steps.
const MAX_STEPS: usize = 1 << 24;
/// Most frames without an entry that a list may have.
const MAX_IDLE: usize = 16;
/// Memory in bytes that the names of a batch may take.
const MAX_HELD_BYTES: usize = if cfg!(test) { 1 << 20 } else { 2 << 30 };
/// Memory in bytes that a name takes besides its text.
const NAME_BYTES: usize = 64;
/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Cuts a version into chunks, and calls `each` with the bytes of each chunk. Returns the digest of the version.
fn cut_chunks(
    snapshot: &impl Snapshot,
    spec: &ChunkerSpec,
    mut each: impl FnMut(&[u8], &Chunk) -> Result<(), StoreError>,
) -> Result<Digest, StoreError> {
    let (mut cutter, mut sum, len) =
        (StreamCutter::new(spec), SummaryBuilder::new(), snapshot.meta().len);
    let mut each = |bytes: &[u8], chunk: Chunk| {
        sum.push(&chunk).expect("a file's length has 64 bits");
        each(bytes, &chunk)
    };
    let (mut buffer, mut start) = (vec![0; len.min(READ_BYTES) as usize], 0);
    while start < len {
        let want = (len - start).min(READ_BYTES) as usize;
        let got = snapshot.read_at(start, &mut buffer[..want])?;
        if got == 0 {
            // The file became shorter. Later checks of the caller detect that.
            break;
        }
        cutter.push(&buffer[..got], &mut each)?;
        start += got as u64;
    }
    cutter.finish(each)?;
    Ok(sum.finish().digest)
}

fn io_error(why: &'static str) -> io::Error {
    io::Error::other(why)
}
