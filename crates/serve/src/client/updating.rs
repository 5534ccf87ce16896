//! Updates over a lasting connection, for programs without an async runtime.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use deltic_tree::RelPath;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{Address, Credentials, Link, Local, Updated, Updates};

/// Longest time for an update, and for connecting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failure, before the next attempt to connect.
const AWAY: Duration = Duration::from_secs(60);

/// Remembered files at a server, with the connection to the server.
#[derive(Debug)]
pub struct Updating {
    runtime: Runtime,
    to: (Address, Credentials),
    updates: Updates,
    link: Option<Link>,
    /// Time of the last failure to connect or to update.
    failed: Option<Instant>,
}

impl Updating {
    /// Prepares updates for files of a volume. The first update connects to the server.
    ///
    /// # Errors
    /// If the runtime cannot be started.
    pub fn new(address: Address, credentials: Credentials) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (updates, link, failed) = (Updates::default(), None, None);
        Ok(Self { runtime, to: (address, credentials), updates, link, failed })
    }

    /// True if the server's version of a file is remembered.
    #[must_use]
    pub fn knows(&self, there: &RelPath) -> bool {
        self.updates.knows(there)
    }

    /// Remembers a file, see [`Updates::remember`].
    pub fn remember(&mut self, root: &Path, path: &RelPath, there: &RelPath) {
        self.updates.remember(root, path, there);
    }

    /// Updates a file at the server in one message. `None` if the file needs a session: see [`Updates::update`]. Also
    /// `None` if the server is not reached or refuses the update; a session reports the reason.
    pub fn update(&mut self, file: Local<'_>) -> Option<Updated> {
        self.connect();
        let update = self.updates.update(self.link.as_ref()?, file);
        match self.runtime.block_on(async { timeout(PATIENCE, update).await }) {
            Ok(Ok(updated)) => updated,
            Ok(Err(_)) | Err(_) => {
                (self.link, self.failed) = (None, Some(Instant::now()));
                None
            }
        }
    }

    /// Connects to the server, if there is no connection and no recent failure.
    fn connect(&mut self) {
        if self.link.is_some() || self.failed.is_some_and(|failed| failed.elapsed() < AWAY) {
            return;
        }
        let connect = self.to.0.connect(&self.to.1);
        let connected = self.runtime.block_on(async { timeout(PATIENCE, connect).await });
        self.link = connected.ok().and_then(Result::ok);
        self.failed = self.link.is_none().then(Instant::now);
    }
}
