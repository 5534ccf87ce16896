//! `deltic signature`: the recipe of a file as a file, for `deltic delta` on another machine.
//!
//! Also what the three commands share about reading: [`Input`].

use anyhow::Result;
use deltic_core::format::recipe::{MAX_BATCH_CHUNKS, Record, Summary};
use deltic_core::{Chunk, ChunkerSpec};

use super::files::{Input, Output};
use crate::args::offline::SignatureArgs;

/// Reads FILE once, and writes its recipe.
pub(crate) fn run(args: &SignatureArgs) -> Result<()> {
    let mut input = Input::open(&args.file)?;
    let spec = ChunkerSpec::for_len(input.len.unwrap_or(STREAM_LEN));
    let mut output = Output::open(args.output.as_deref())?;
    output.put(|bytes| Record::Header(spec).encode(bytes))?;
    let (mut sum, mut batch) = (Summary::new(), Vec::new());
    input.each_chunk(&spec, |_, chunk| {
        sum.push(&chunk)?;
        batch.push(chunk);
        if batch.len() < MAX_BATCH_CHUNKS { Ok(()) } else { put_batch(&mut output, &mut batch) }
    })?;
    if !batch.is_empty() {
        put_batch(&mut output, &mut batch)?;
    }
    output.put(|bytes| Record::End(sum.finish()).encode(bytes))?;
    output.commit()
}

fn put_batch(output: &mut Output, batch: &mut Vec<Chunk>) -> Result<()> {
    let record = Record::Chunks(std::mem::take(batch));
    output.put(|bytes| record.encode(bytes))
}

/// The length, in bytes, that standard input is taken for when its chunks are chosen: a mean of 8 KiB.
const STREAM_LEN: u64 = 1 << 31;
