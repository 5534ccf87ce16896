//! Byte streams between two ends: in memory, over this process's standard streams, or over the streams of a child.

pub(crate) mod child;
#[cfg(test)]
mod damage;
mod echoes;
mod flow;
mod gentle;
mod hearing;
mod rate;
mod saying;
pub(crate) mod spare;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;

use deltic_core::strategy::LinkModel as Figures;

use crate::shape::simulate_direction;

pub(crate) use child::{Heard, Part, Shell, exit_error, spawn};
pub(crate) use flow::{Counters, Flow};
pub(crate) use hearing::{Arrivals, Frames, RawFrame, Reading, Stream, read_frames, start_reader};
pub(crate) use rate::{Arrival, LinkRate, RateMeter};
pub(crate) use saying::start_writer;

/// Bytes that the pipe to a simulated link holds, as in a socket buffer.
const SHAPED_PIPE_BYTES: usize = 256 << 10;
/// Most batches of frames between the driver and the writer.
const BATCHES: usize = 4;
/// Most bytes to gather for one write.
const WRITTEN_BYTES: usize = 64 << 10;
/// Most bytes of one read, and the wanted capacity of a pipe to another process. With larger pipes, the ends wait less
/// often for each other, and more small files are handled at a time.
const READ_BYTES: usize = 256 << 10;

/// Both directions of a byte stream to the other end.
pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) child: Option<Child>,
}

impl Link {
    fn from_memory(stream: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: Box::new(reader), writer: Box::new(writer), child: None }
    }
}

/// Source of the bytes from the other end.
pub(crate) enum Reader {
    Stream(Box<dyn AsyncRead + Send + Unpin>),
    /// The other end is in this process: each batch of frames arrives as sent.
    Memory(mpsc::Receiver<Vec<u8>>),
}

/// Sink of bytes for the other end.
pub(crate) enum Writer {
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
    /// The other end is in this process: batches of frames are passed on without a copy.
    Memory(mpsc::Sender<Vec<u8>>),
}

/// Both directions of a connection, at this end.
pub(crate) struct Ends {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) child: Option<Child>,
}

impl From<Link> for Ends {
    fn from(Link { reader, writer, child }: Link) -> Self {
        Self { reader: Reader::Stream(reader), writer: Writer::Stream(writer), child }
    }
}

impl Reader {
    /// Waits for bytes and appends them to `bytes`. Returns their number, 0 at the end of the stream.
    async fn read_more(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        match self {
            Self::Stream(reader) => {
                if bytes.capacity() == 0 {
                    *bytes = spare::buffer();
                }
                bytes.reserve(READ_BYTES);
                reader.read_buf(bytes).await
            }
            Self::Memory(batches) => {
                let batch = batches.recv().await.unwrap_or_default();
                let len = batch.len();
                if bytes.is_empty() {
                    *bytes = batch;
                } else {
                    bytes.extend_from_slice(&batch);
                    spare::keep(batch);
                }
                Ok(len)
            }
        }
    }
}

/// Returns both ends of a connection inside this process.
pub(crate) fn memory() -> (Ends, Ends) {
    let [(to_one, from_other), (to_other, from_one)] = [(); 2].map(|()| mpsc::channel(BATCHES));
    let ends =
        |from, to| Ends { reader: Reader::Memory(from), writer: Writer::Memory(to), child: None };
    (ends(from_other, to_other), ends(from_one, to_one))
}

/// Returns two ends, connected by a simulated link with these figures.
pub(crate) fn simulated(figures: Figures) -> (Ends, Ends) {
    let (one, near) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (far, other) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (near, far) = (tokio::io::split(near), tokio::io::split(far));
    tokio::spawn(simulate_direction(near.0, far.1, figures));
    tokio::spawn(simulate_direction(far.0, near.1, figures));
    (Link::from_memory(one).into(), Link::from_memory(other).into())
}

/// Returns this end of a byte stream that the caller has made.
pub(crate) fn over_stream(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Ends {
    let (reader, writer) = tokio::io::split(stream);
    Link { reader: Box::new(reader), writer: Box::new(writer), child: None }.into()
}

/// Returns this process's standard input and output.
pub(crate) fn stdio() -> Ends {
    Link { reader: standard_input(), writer: standard_output(), child: None }.into()
}

/// Returns this process's standard input. The runtime polls a pipe itself. For any other file a thread waits, which
/// costs several context switches for each read.
pub(crate) fn standard_input() -> Box<dyn AsyncRead + Send + Unpin> {
    let pipe = reopen_nonblocking(std::io::stdin(), OFlags::RDONLY);
    match pipe.and_then(|pipe| ChildStdout::from_std(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// Returns this process's standard output; the runtime polls a pipe itself.
pub(crate) fn standard_output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe = reopen_nonblocking(std::io::stdout(), OFlags::WRONLY);
    match pipe.and_then(|pipe| ChildStdin::from_std(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

/// Opens a pipe again, as a non-blocking handle. Other processes may share the original handle, and do not expect a
/// non-blocking handle.
fn reopen_nonblocking(pipe: impl AsFd, how: OFlags) -> std::io::Result<OwnedFd> {
    let kind = FileType::from_raw_mode(fs::fstat(&pipe)?.st_mode);
    if kind != FileType::Fifo {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let pipe = fs::openat(fs::CWD, path, how | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    enlarge_pipe_buffer(&pipe);
    Ok(pipe)
}

/// Enlarges the buffer of a pipe, unless the system refuses, as for users with many pipes.
fn enlarge_pipe_buffer(pipe: impl AsFd) {
    let _ = fcntl_setpipe_size(pipe, READ_BYTES);
}
