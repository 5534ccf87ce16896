//! Files that are nobody else's to read.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Puts `bytes` at `path` in one step, its owner's alone, and flushes them and the name.
///
/// # Errors
/// The system's; then `path` is what it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    // One that an earlier attempt left, or somebody else, may be open to others.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    fs::File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}
