//! `deltic signature`: writes the recipe of a file to a file, for `deltic delta` on another machine.

use anyhow::Result;
use deltic_core::ChunkerSpec;
use deltic_core::format::recipe::RecipeWriter;

use super::files::{InputStream, ResultFile};
use crate::args::offline::SignatureArgs;

/// Reads FILE once, and writes its recipe.
pub(crate) fn run(args: &SignatureArgs) -> Result<()> {
    let mut input = InputStream::open(&args.file, args.links.trust())?;
    let spec = ChunkerSpec::for_len(input.len.unwrap_or(STREAM_LEN));
    let mut output = ResultFile::open(args.output.as_deref(), args.links.trust())?;
    let mut out = Vec::new();
    let mut writer = RecipeWriter::new(&spec, &mut out);
    input.each_piece(|piece| {
        writer.push(piece, &mut out)?;
        output.take(&mut out)
    })?;
    writer.finish(&mut out)?;
    output.take(&mut out)?;
    output.commit()
}

/// The length assumed for standard input, in bytes, to choose the chunk size: a mean of 8 KiB.
const STREAM_LEN: u64 = 1 << 31;
