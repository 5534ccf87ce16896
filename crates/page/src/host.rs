//! Functions of the host: the page's access to files of the user.

/// Reads and writes files of the user. The host gives each open file a number.
pub trait HostFiles: Clone + Send + Sync + 'static {
    /// Fills `into` with the bytes of `file` from offset `at`. Returns less than the length of `into` only at the end
    /// of the file.
    ///
    /// # Errors
    /// [`NotRead`] if the file changed or vanished since the user chose it.
    fn read(&self, file: u32, at: u64, into: &mut [u8]) -> Result<usize, NotRead>;

    /// Writes all of `bytes` to `file` at offset `at`.
    ///
    /// # Errors
    /// [`NotWritten`] if the storage of the origin is full or gone.
    fn write(&self, file: u32, at: u64, bytes: &[u8]) -> Result<(), NotWritten>;
}

/// Error: a file changed or vanished since the user chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRead;

/// Error: the host could not write a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotWritten;
