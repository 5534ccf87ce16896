//! Files of figures. Measuring takes long: each file is tried before, written at the end beside its place, and takes it
//! in one step.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::exit::shown;

/// Fails where [`write()`] would fail now; `path` stays as it is.
pub(crate) fn try_out(path: &Path) -> Result<()> {
    create(path).map(drop).with_context(|| format!("write {}", shown(path)))
}

/// Puts `bytes` in the place of what `path` had.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = create(path).and_then(|(mut file, target)| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file.persist(target).map(drop)?)
    });
    written.with_context(|| format!("write {}", shown(path)))
}

/// Makes a directory for figures, if it is not there.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))
}

/// A file beside the one that `path` means, through symbolic links; the name of that one.
fn create(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let target = match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Err(io::Error::other("it exists and is not a regular file"));
        }
        Ok(_) => path.canonicalize()?,
        Err(error) if error.kind() == ErrorKind::NotFound => path.into(),
        Err(error) => return Err(error),
    };
    if target.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(ErrorKind::IsADirectory.into());
    }
    let dir = target.parent().filter(|dir| *dir != Path::new("")).unwrap_or_else(|| Path::new("."));
    let file = tempfile::Builder::new()
        .prefix(".figures-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(|error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error))?;
    Ok((file, target))
}
