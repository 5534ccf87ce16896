//! Reads files of checksums up to a length limit.

use std::io::Read;

use super::parts::LayoutError;

/// Reads a whole file of at most [`MAX_BYTES`].
pub(super) fn bytes(file: &mut dyn Read) -> Result<Vec<u8>, LayoutError> {
    bytes_to(file, MAX_BYTES)
}

/// Reads a whole file of at most `most` bytes.
///
/// # Errors
/// [`LayoutError`] for a longer file.
pub(super) fn bytes_to(file: &mut dyn Read, most: u64) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > most {
        return Err(LayoutError(format!("the file has more than {most} bytes")));
    }
    Ok(bytes)
}

pub(super) fn read_error(error: std::io::Error) -> LayoutError {
    LayoutError(deltic_store::reason(&error))
}

/// Most bytes of a file of checksums.
const MAX_BYTES: u64 = 1 << 30;
