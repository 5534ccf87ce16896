//! Names in a server's state directory, and tests of such a directory.

use std::path::Path;

use deltic_store_local::{NamedDir, NamedFile};

/// Name of the token file.
pub(super) const TOKENS: &str = "tokens.json";
/// Name of the file that a running server locks.
pub(super) const SERVER_LOCK: &str = "lock";
/// Name of the directory with stored bases, in one directory for each volume.
pub(super) const BASES: &str = "bases";

/// True if the directory holds tokens, or a server has used the directory.
#[must_use]
pub fn has_state(state: &Path) -> bool {
    let is_there = |name| NamedFile::of_operator(&state.join(name))?.stat();
    [TOKENS, SERVER_LOCK].into_iter().any(|name| is_there(name).is_ok())
}

/// True unless servers with this state directory have had volumes, and no volume of that name.
#[must_use]
pub fn may_have_volume(state: &Path, volume: &str) -> bool {
    let volumes = state.join(BASES);
    let is_there = |path: &Path| NamedDir::of_operator(path).real_path().is_ok();
    !is_there(&volumes) || !volume.contains('/') && is_there(&volumes.join(volume))
}
