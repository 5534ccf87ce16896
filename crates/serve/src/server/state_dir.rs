//! Names in a server's state directory, and tests of such a directory.

use std::io;
use std::path::Path;

pub use deltic_store::SERVER_STATE_NAME;
use deltic_store_local::{NamedDir, NamedFile};

use crate::private;

/// Name of the token file.
pub(super) const TOKENS: &str = "tokens.json";
/// Name of the file that a running server locks.
pub(super) const SERVER_LOCK: &str = "lock";
/// Name of the file with the key for entity tags.
const TAG_KEY: &str = "tag.key";
/// Name of the directory with stored bases, in one directory for each volume.
pub(super) const BASES: &str = "bases";

/// Reads the key for entity tags, and makes a missing key. The key stays, so that entity tags survive a restart.
///
/// # Errors
/// The system's errors. A file of another length is replaced by a new key.
pub(super) fn tag_key(state: &Path) -> io::Result<[u8; 32]> {
    let path = state.join(TAG_KEY);
    let stored = match private::read_regular(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        stored => stored?,
    };
    if let Ok(key) = stored.try_into() {
        return Ok(key);
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).expect("the system has randomness");
    private::replace(&path, &key).map(|()| key)
}

/// True if the directory holds tokens, or a server has used the directory.
#[must_use]
pub fn has_state(state: &Path) -> bool {
    let is_there = |name| NamedFile::of_operator(&state.join(name))?.stat();
    [TOKENS, SERVER_LOCK].into_iter().any(|name| is_there(name).is_ok())
}

/// True if a server with this state directory may have had the volume `volume`. False if the directory has facts about
/// other volumes only.
#[must_use]
pub fn may_have_volume(state: &Path, volume: &str) -> bool {
    let volumes = state.join(BASES);
    let is_there = |path: &Path| NamedDir::of_operator(path).real_path().is_ok();
    !is_there(&volumes) || !volume.contains('/') && is_there(&volumes.join(volume))
}
