//! `deltic delta`: computes the delta from a signature to a new version, for `deltic patch`.

use anyhow::{Context, Result, bail};
use deltic_core::format::delta::{DeltaWriter, MAX_KNOWN_CHUNKS};
use deltic_core::format::matches::{self, MatchesFormat, MatchesReader};
use deltic_core::format::recipe::RecipeReader;
use deltic_core::format::{FileFormat, FormatError};

use super::files::{InputStream, ResultFile};
use crate::args::offline::DeltaArgs;

/// Reads SIGNATURE into memory and then NEW once, front to back.
pub(crate) fn run(args: &DeltaArgs) -> Result<()> {
    if args.signature == args.new {
        bail!("{} cannot be both the signature and the new version", args.new.display());
    }
    let (mut out, trust) = (Vec::new(), args.links.trust());
    let mut making = DeltaMaker::begin(InputStream::open(&args.signature, trust)?, &mut out)?;
    let mut new = InputStream::open(&args.new, trust)?;
    let name = new.name().to_string();
    let mut output = ResultFile::open(args.output.as_deref(), trust)?;
    new.each_piece(|piece| {
        making.push(piece, &mut out).with_context(|| name.clone())?;
        output.take(&mut out)
    })?;
    making.finish(&mut out).context(name)?;
    output.take(&mut out)?;
    output.commit()
}

/// The writer of a delta.
enum DeltaMaker {
    /// A writer that compares with a signature of the old file.
    Signature(Box<DeltaWriter>),
    /// A writer for matches that a server found in the old file.
    Matches(Box<matches::MatchedDeltaWriter>),
}

impl DeltaMaker {
    /// Reads a signature or a file of matches from `input`.
    fn begin(mut input: InputStream, out: &mut Vec<u8>) -> Result<Self> {
        let name = input.name().to_string();
        let mut head = Vec::new();
        let mut buffer = [0; MatchesFormat::MAGIC.len()];
        while head.len() < buffer.len() {
            match input.read(&mut buffer)? {
                0 => break,
                n => head.extend_from_slice(&buffer[..n]),
            }
        }
        let mut each = |feed: &mut dyn FnMut(&[u8]) -> Result<(), FormatError>| {
            feed(&head).with_context(|| name.clone())?;
            input.each_piece(|piece| feed(piece).with_context(|| name.clone()))
        };
        // The last byte of the magic is the version.
        let (kind, _) = MatchesFormat::MAGIC.split_at(MatchesFormat::MAGIC.len() - 1);
        if head.starts_with(kind) {
            let mut reader = MatchesReader::default();
            each(&mut |piece| reader.feed(piece))?;
            let writer = matches::MatchedDeltaWriter::new(reader.finish().context(name)?, out);
            return Ok(Self::Matches(Box::new(writer)));
        }
        let mut reader = RecipeReader::new(MAX_KNOWN_CHUNKS);
        each(&mut |piece| reader.feed(piece))?;
        let writer = DeltaWriter::new(reader.finish().context(name)?, out);
        Ok(Self::Signature(Box::new(writer)))
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        match self {
            Self::Signature(writer) => Ok(writer.push(bytes, out)?),
            Self::Matches(writer) => writer.push(bytes, out),
        }
    }

    fn finish(self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        match self {
            Self::Signature(writer) => Ok(writer.finish(out)?),
            Self::Matches(writer) => writer.finish(out),
        }
    }
}
