//! Files of sums, read as far as they may be long.

use std::io::Read;

use super::parts::LayoutError;

/// All of a file that is no longer than those of this kind are.
pub(super) fn bytes(file: &mut dyn Read) -> Result<Vec<u8>, LayoutError> {
    bytes_to(file, MAX_BYTES)
}

/// The same of one that has no more than `most` bytes.
pub(super) fn bytes_to(file: &mut dyn Read, most: u64) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > most {
        return Err(LayoutError(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

pub(super) fn read_error(error: std::io::Error) -> LayoutError {
    LayoutError(deltic_store::reason(&error))
}

/// Length of a file of sums at most.
const MAX_BYTES: u64 = 1 << 30;
