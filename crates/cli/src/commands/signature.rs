//! `deltic signature`: the recipe of a file as a file, for `deltic delta` on another machine.
//!
//! Also what the three commands share about reading: [`Input`].

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use deltic_core::format::recipe::{MAX_BATCH_CHUNKS, Record, Summary};
use deltic_core::{Chunk, ChunkerSpec, Cutter};

use super::patch::Output;

/// Write down what another machine must know of FILE to compute a delta against it
///
/// The signature has the length and the fingerprint of each chunk of FILE, and
/// none of its bytes: about 1.5 % of a small file's size, and less the larger
/// the file is, down to 0.03 % from 32 GiB on.
///
/// To bring a file up to date where no connection leads:
///
///   there:  deltic signature disk.img -o disk.sig
///   here:   deltic delta disk.sig disk.img -o disk.delta
///   there:  deltic patch disk.img disk.delta -o disk.img
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The old version; - is standard input
    pub(super) file: PathBuf,
    /// Where to write the signature, instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: Option<PathBuf>,
}

/// Reads FILE once, and writes its recipe.
pub(crate) fn run(args: &Args) -> Result<()> {
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

/// A file or standard input, read once from front to back.
pub(super) struct Input {
    name: PathBuf,
    reader: Box<dyn Read>,
    /// In bytes, where that is known before the end.
    len: Option<u64>,
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == OsStr::new("-") {
            let reader = Box::new(io::stdin().lock());
            return Ok(Self { name: "standard input".into(), reader, len: None });
        }
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let meta = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            let is_dir = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(is_dir).with_context(|| format!("read {}", path.display()));
        }
        let len = meta.is_file().then_some(meta.len());
        Ok(Self { name: path.into(), reader: Box::new(file), len })
    }

    /// What to call it in messages.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        self.name.display()
    }

    /// Reads some bytes into `buffer`; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.with_context(|| format!("read {}", self.name.display())),
            }
        }
    }

    /// Cuts all of it; `each` gets every chunk with its bytes.
    pub(super) fn each_chunk(
        &mut self,
        spec: &ChunkerSpec,
        mut each: impl FnMut(&[u8], Chunk) -> Result<()>,
    ) -> Result<()> {
        let (mut cutter, mut buffer) = (Cutter::new(spec), vec![0; READ_BYTES]);
        loop {
            match self.read(&mut buffer)? {
                0 => return cutter.finish(each),
                n => cutter.push(&buffer[..n], &mut each)?,
            }
        }
    }
}

/// The length, in bytes, that standard input is taken for when its chunks are chosen: a mean of 8 KiB.
const STREAM_LEN: u64 = 1 << 31;
/// Bytes asked for at once.
pub(super) const READ_BYTES: usize = 1 << 20;
