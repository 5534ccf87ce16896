//! Tasks: computations that name the bytes to read and leave the reading to a worker.

use deltic_core::Span;

/// A computation that reads a file in steps.
pub trait Task {
    /// Result of the whole task.
    type Output;
    /// Error that ends the task early.
    type Error;

    /// Returns the largest number of bytes that a step reads: the minimum length of a buffer.
    fn max_read_bytes(&self) -> usize;

    /// Returns the spans to read next, to be concatenated. Returns `None` after the last step.
    fn next_spans(&self) -> Option<&[Span]>;

    /// Takes the concatenated bytes of the spans. The bytes are fewer if the file ends before.
    ///
    /// # Errors
    /// [`Self::Error`] if the task cannot go on with these bytes.
    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Returns the result. Call after [`next_spans`](Self::next_spans) returned `None`.
    fn finish(self) -> Self::Output;
}

/// Error: the file is shorter than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileShrank;

/// Error: data from the peer does not match the announced fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentMismatch;

/// Runs a task with a `buffer` of at least [`Task::max_read_bytes`] bytes. `read` fills the buffer and returns the
/// number of bytes.
///
/// # Errors
/// - outer: an error of `read`
/// - inner: an error of the task
pub fn run<T: Task, E>(
    mut task: T,
    buffer: &mut [u8],
    mut read: impl FnMut(&[Span], &mut [u8]) -> Result<usize, E>,
) -> Result<Result<T::Output, T::Error>, E> {
    while let Some(spans) = task.next_spans() {
        let len: usize = spans.iter().map(|span| span.len as usize).sum();
        let got = read(spans, &mut buffer[..len])?;
        if let Err(error) = task.take_bytes(&buffer[..got]) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(task.finish()))
}

/// Returns the length of the longest span in bytes.
pub(crate) fn longest<'a>(spans: impl IntoIterator<Item = &'a Span>) -> usize {
    spans.into_iter().map(|span| span.len as usize).max().unwrap_or(0)
}
