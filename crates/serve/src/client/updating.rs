//! Updates over a connection that stays, for a program without a runtime of its own.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use deltic_tree::RelPath;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{Address, Credentials, Link, Local, Updated, Updates};

/// Longest time for an update, or for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a connection is tried again.
const AWAY: Duration = Duration::from_secs(60);

/// Files at a server, and the connection to it.
#[derive(Debug)]
pub struct Updating {
    runtime: Runtime,
    to: (Address, Credentials),
    updates: Updates,
    link: Option<Link>,
    /// When there was no connection, or an update failed.
    failed: Option<Instant>,
}

impl Updating {
    /// Updates for files of a volume. Connects with the first of them.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub fn new(address: Address, credentials: Credentials) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (updates, link, failed) = (Updates::default(), None, None);
        Ok(Self { runtime, to: (address, credentials), updates, link, failed })
    }

    /// True if something is known of a file at the server.
    #[must_use]
    pub fn knows(&self, there: &RelPath) -> bool {
        self.updates.knows(there)
    }

    /// Remembers a file, as [`Updates::remember`].
    pub fn remember(&mut self, path: (&Path, &RelPath), there: &RelPath) {
        self.updates.remember(path, there);
    }

    /// Brings a file to the server in one message; `None` where that is for a session, as in [`Updates::update`], and
    /// where the server cannot be reached or refuses it: a session says why.
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

    /// Sees to it that there is a connection, if one can be had.
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
