//! Runs that are kept in a file: `--write-batch`, `--only-write-batch` and `--read-batch`.
//!
//! A batch is a source. Written, it holds the list as the sender told it ([`Tap`]) and the content that the receiver
//! lacked ([`writing`]); read, it is the tree of an ordinary sender ([`Batch`]), and all else is as in any sync.
//! Between two directories of this machine the batch is written first, from what a dry run finds, and then read: so
//! what it holds are deltas, and both destinations come to be the same way.

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
pub use spool::spool_batch;
pub(crate) use tap::Tap;
pub(crate) use writing::write;

/// Most steps of one content: a bound on what is held of it.
const MAX_STEPS: usize = 1 << 24;
/// Largest number of frames of a list that add nothing to the list.
const MAX_IDLE: usize = 16;
/// Memory in bytes that the names of a batch may take.
const MAX_HELD_BYTES: usize = if cfg!(test) { 1 << 20 } else { 2 << 30 };
/// Memory in bytes that a name takes beside its text.
const NAME_BYTES: usize = 64;
/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Cuts all of a version, and gives `each` the chunks with their bytes; its digest.
fn cut(
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
            // It is shorter by now, which whoever asks hears.
            break;
        }
        cutter.push(&buffer[..got], &mut each)?;
        start += got as u64;
    }
    cutter.finish(each)?;
    Ok(sum.finish().digest)
}

fn other(why: &'static str) -> io::Error {
    io::Error::other(why)
}
