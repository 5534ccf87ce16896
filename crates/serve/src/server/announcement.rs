//! The announcement of a running server to other programs of the operator: address, certificate pin and volumes.
//!
//! The server writes `server.json` to the state directory at each start. `deltic token add` and `deltic serve --show`
//! read the file.

use std::io;
use std::path::{Path, PathBuf};

use deltic_store_local::NamedFile;
use serde::{Deserialize, Serialize};

use super::state_dir::SERVER_LOCK;
use crate::private;

/// Name of the file in the state directory.
const FILE: &str = "server.json";

/// Address, pin and volumes of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Address for clients: `https://HOST:PORT`.
    pub address: String,
    /// Pin of the server's self-signed key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// Volumes, in the order of their names.
    pub volumes: Vec<ServedVolume>,
}

/// A volume of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedVolume {
    /// Name of the volume.
    pub name: String,
    /// Directory of the volume.
    pub path: PathBuf,
    /// True if no client may write.
    pub is_read_only: bool,
}

impl Announcement {
    /// Writes the announcement to the state directory.
    ///
    /// # Errors
    /// The system's errors.
    pub fn write(&self, state: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("an announcement is plain data");
        private::replace(&state.join(FILE), &text)
    }

    /// Reads the announcement of the last server with this state directory; `None` if there was none.
    ///
    /// # Errors
    /// The system's errors, or an invalid file.
    pub fn read(state: &Path) -> io::Result<Option<Self>> {
        match private::read(&state.join(FILE)) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// True if a server with this state directory runs.
#[must_use]
pub fn is_running(state: &Path) -> bool {
    let lock =
        NamedFile::of_operator(&state.join(SERVER_LOCK)).and_then(|file| file.open_regular());
    lock.is_ok_and(|lock| std::fs::File::from(lock).try_lock_shared().is_err())
}
