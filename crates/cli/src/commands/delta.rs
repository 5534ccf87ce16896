//! `deltic delta`: what turns the file behind a signature into a new version, as a file for `deltic patch`.

use anyhow::{Context, Result, bail};
use deltic_core::format::delta::{MAX_KNOWN_CHUNKS, Writer};
use deltic_core::format::recipe::{Known, KnownReader};

use super::files::{Input, Output};
use crate::args::offline::DeltaArgs;

/// Reads SIGNATURE into memory and then NEW once, front to back.
pub(crate) fn run(args: &DeltaArgs) -> Result<()> {
    if args.signature == args.new {
        bail!("{} cannot be both the signature and the new version", args.new.display());
    }
    let old = known(Input::open(&args.signature)?)?;
    let mut new = Input::open(&args.new)?;
    let mut output = Output::open(args.output.as_deref())?;
    let mut out = Vec::new();
    let mut writer = Writer::new(old, &mut out);
    new.each_piece(|piece| {
        writer.push(piece, &mut out)?;
        output.take(&mut out)
    })?;
    writer.finish(&mut out)?;
    output.take(&mut out)?;
    output.commit()
}

/// Reads a signature.
fn known(mut input: Input) -> Result<Known> {
    let mut reader = KnownReader::new(MAX_KNOWN_CHUNKS);
    let name = input.name().to_string();
    input.each_piece(|piece| reader.feed(piece).with_context(|| name.clone()))?;
    reader.finish().context(name)
}
