//! The seam between computing and reading.

use deltic_core::Span;

/// A piece of work that reads in steps.
pub trait Task {
    /// The result of all steps.
    type Output;
    /// The reason why bytes end it early.
    type Error;

    /// The most bytes that one step reads: how long a buffer must be.
    fn most_read(&self) -> usize;

    /// The spans to read next, whose bytes are wanted end to end; `None` once all is read.
    fn reads(&self) -> Option<&[Span]>;

    /// Takes the bytes of these spans; fewer where the file ends before.
    ///
    /// # Errors
    /// An error where the work cannot go on with these.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends the work, once [`reads`](Self::reads) gave `None`.
    fn finish(self) -> Self::Output;
}

/// A file that is shorter than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

/// Something of the peer's that is not what it announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unproven;

/// Runs a task with a `buffer` of at least [`Task::most_read`] bytes, which `read` fills.
///
/// # Errors
/// Those of `read`; within, those of the task.
pub fn run<T: Task, E>(
    mut task: T,
    buffer: &mut [u8],
    mut read: impl FnMut(&[Span], &mut [u8]) -> Result<usize, E>,
) -> Result<Result<T::Output, T::Error>, E> {
    while let Some(spans) = task.reads() {
        let len: usize = spans.iter().map(|span| span.len as usize).sum();
        let got = read(spans, &mut buffer[..len])?;
        if let Err(error) = task.take(&buffer[..got]) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(task.finish()))
}

/// The longest of `spans` in bytes.
pub(crate) fn longest<'a>(spans: impl IntoIterator<Item = &'a Span>) -> usize {
    spans.into_iter().map(|span| span.len as usize).max().unwrap_or(0)
}
