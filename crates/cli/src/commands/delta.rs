//! `deltic delta`: what turns the file behind a signature into a new version, as a file for `deltic patch`.

use anyhow::{Context, Result, bail};
use deltic_core::format::delta::{Header, MAX_KNOWN_CHUNKS, Record, Steps};
use deltic_core::format::recipe::{self, Recipe, Summary};
use deltic_core::format::{FormatError, Parser};
use deltic_core::{ChunkerSpec, Index};

use super::files::{Input, Output, READ_BYTES};
use crate::args::offline::DeltaArgs;

/// Reads SIGNATURE into memory and then NEW once, front to back.
pub(crate) fn run(args: &DeltaArgs) -> Result<()> {
    if args.signature == args.new {
        bail!("{} cannot be both the signature and the new version", args.new.display());
    }
    let old = Old::read(Input::open(&args.signature)?)?;
    let mut new = Input::open(&args.new)?;
    let mut output = Output::open(args.output.as_deref())?;
    let recipe::End { digest: old_digest, len: old_len, .. } = old.end;
    let header = Record::Header(Header { old_digest, old_len, spec: old.spec });
    output.put(|bytes| header.encode(bytes))?;
    let mut put = |record: Record| output.put(|bytes| record.encode(bytes));
    let (mut steps, mut sum) = (Steps::new(&old.index), Summary::new());
    new.each_chunk(&old.spec, |bytes, chunk| {
        sum.push(&chunk)?;
        steps.push((bytes, &chunk), &mut put)
    })?;
    steps.finish(&mut put)?;
    let recipe::End { len, digest, .. } = sum.finish();
    put(Record::End { len, digest })?;
    output.commit()
}

/// Content of a signature.
struct Old {
    spec: ChunkerSpec,
    end: recipe::End,
    index: Index,
}

impl Old {
    fn read(mut input: Input) -> Result<Self> {
        let (mut parser, mut buffer) = (Parser::<Recipe>::new(), vec![0; READ_BYTES]);
        let (mut index, mut start) = (Index::new(MAX_KNOWN_CHUNKS), 0);
        let (mut spec, mut end) = (None, None);
        loop {
            let n = input.read(&mut buffer)?;
            parser.feed(&buffer[..n]);
            while let Some(record) = parser.record().with_context(|| input.name().to_string())? {
                match record {
                    recipe::Record::Header(header) => spec = Some(header),
                    recipe::Record::Chunks(chunks) => {
                        for chunk in chunks {
                            index.push(start, chunk);
                            start += u64::from(chunk.len);
                        }
                    }
                    recipe::Record::End(last) => end = Some(last),
                }
            }
            if n == 0 {
                break;
            }
        }
        parser.finish().with_context(|| input.name().to_string())?;
        let both = spec.zip(end).ok_or(FormatError::Truncated)?;
        Ok(Self { spec: both.0, end: both.1, index })
    }
}
