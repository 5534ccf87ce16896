//! Files of sums, read as far as they may be long.

use std::io::Read;

use super::parts::LayoutError;

/// All of a file that is no longer than those of this kind are.
pub(super) fn bytes(file: &mut dyn Read) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(LayoutError(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

pub(super) fn text(file: &mut dyn Read) -> Result<String, LayoutError> {
    String::from_utf8(bytes(file)?).map_err(|_| LayoutError("it is no text".into()))
}

pub(super) fn unread(error: std::io::Error) -> LayoutError {
    LayoutError(deltic_store::reason(&error))
}

/// Length of a file of sums at most.
const MAX_BYTES: u64 = 1 << 30;
