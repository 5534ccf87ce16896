//! `deltic delta`: what turns the file behind a signature into a new version, as a file for `deltic patch`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use deltic_core::format::delta::{Header, MAX_LITERAL_BYTES, Record};
use deltic_core::format::recipe::{self, Recipe, Summary};
use deltic_core::format::{FormatError, Parser};
use deltic_core::{BriefLen, Chunk, ChunkNo, ChunkerSpec, CopyRuns, Index, Op};

use super::patch::Output;
use super::signature::{Input, READ_BYTES};

/// Compute what turns the file behind SIGNATURE into NEW
///
/// The delta names what to copy from the old version, and holds the bytes that
/// only NEW has as they are; a compressor may follow:
///
///   deltic delta disk.sig disk.img | zstd > disk.delta.zst
///   pg_dump db | deltic delta dump.sig - -o dump.delta
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// What `deltic signature` wrote for the old version; - is standard input
    pub(super) signature: PathBuf,
    /// The new version; - is standard input
    pub(super) new: PathBuf,
    /// Where to write the delta, instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: Option<PathBuf>,
}

/// Reads SIGNATURE into memory and then NEW once, front to back.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.signature == args.new {
        bail!("{} cannot be both the signature and the new version", args.new.display());
    }
    let old = Old::read(Input::open(&args.signature)?)?;
    let mut new = Input::open(&args.new)?;
    let mut steps = Steps::new(Output::open(args.output.as_deref())?, &old)?;
    let mut sum = Summary::new();
    new.each_chunk(&old.spec, |bytes, chunk| {
        sum.push(&chunk)?;
        steps.push(bytes, &chunk, &old.index)
    })?;
    let recipe::End { len, digest, .. } = sum.finish();
    steps.finish(&Record::End { len, digest })
}

/// What a signature says.
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

/// Writes steps in the order of new, neighbours merged.
struct Steps {
    output: Output,
    runs: CopyRuns,
    literal: Vec<u8>,
    after: Option<ChunkNo>,
    new_start: u64,
}

impl Steps {
    fn new(mut output: Output, old: &Old) -> Result<Self> {
        let recipe::End { digest: old_digest, len: old_len, .. } = old.end;
        let header = Header { old_digest, old_len, spec: old.spec };
        output.put(|bytes| Record::Header(header).encode(bytes))?;
        let (runs, literal) = (CopyRuns::new(), Vec::new());
        Ok(Self { output, runs, literal, after: None, new_start: 0 })
    }

    /// Takes the next chunk of new and its bytes.
    fn push(&mut self, bytes: &[u8], chunk: &Chunk, index: &Index) -> Result<()> {
        match index.find_chunk(chunk.fingerprint.brief(BriefLen::MAX), chunk.len, self.after) {
            // A signature holds full fingerprints, so a copy can be certain here.
            Some(no) if index.chunk(no).1 == chunk.fingerprint => {
                self.put_literal()?;
                let run = self.runs.push(index.chunk(no).0, self.new_start);
                self.put_run(run)?;
                self.after = Some(no);
            }
            _ => {
                let run = self.runs.finish();
                self.put_run(run)?;
                if self.literal.len() + bytes.len() > MAX_LITERAL_BYTES {
                    self.put_literal()?;
                }
                self.literal.extend_from_slice(bytes);
            }
        }
        self.new_start += u64::from(chunk.len);
        Ok(())
    }

    fn put_run(&mut self, run: Option<Op>) -> Result<()> {
        match run {
            Some(Op::Copy { old, .. }) => self.output.put(|bytes| Record::Copy(old).encode(bytes)),
            _ => Ok(()),
        }
    }

    fn put_literal(&mut self) -> Result<()> {
        if self.literal.is_empty() {
            return Ok(());
        }
        let record = Record::Literal(std::mem::take(&mut self.literal));
        self.output.put(|bytes| record.encode(bytes))
    }

    fn finish(mut self, end: &Record) -> Result<()> {
        let run = self.runs.finish();
        self.put_run(run)?;
        self.put_literal()?;
        self.output.put(|bytes| end.encode(bytes))?;
        self.output.commit()
    }
}

/// Most chunks of old that are looked for, about 1 GB of memory; what lies beyond is sent as if it were new.
const MAX_KNOWN_CHUNKS: usize = 1 << 24;
