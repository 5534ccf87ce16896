//! Output files. A measurement takes long, so each output file is tried before the measurement. Results are written to
//! a temporary file and renamed.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::exit::shown;

/// Fails if [`write()`] would fail now. `path` stays unchanged.
pub(crate) fn try_out(path: &Path) -> Result<()> {
    create(path).map(drop).with_context(|| format!("write {}", shown(path)))
}

/// Replaces the content of `path` with `bytes`.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = create(path).and_then(|(mut file, target)| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file.persist(target).map(drop)?)
    });
    written.with_context(|| format!("write {}", shown(path)))
}

/// Creates a directory for output files, if missing.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))
}

/// Creates a temporary file beside the target of `path`. Returns the file and the target, with symbolic links resolved.
fn create(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let target = match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Err(io::Error::other("the path exists and is not a regular file"));
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
