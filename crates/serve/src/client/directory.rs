//! Requests about the files below a directory of a server, over one connection.

use std::io;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deltic_net::SyncError;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::request::{KeptVersion, Requests, runtime};
use super::{Address, Credentials, failed};
use crate::percent::escape;

/// A file below a directory, with its old versions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FileVersions {
    /// Path of the file in the volume. Control characters are escaped, and bytes that are not UTF-8 are written as
    /// `\xNN`.
    pub path: String,
    /// True if no regular file has this path now.
    pub deleted: bool,
    /// The old versions, newest first.
    pub versions: Vec<KeptVersion>,
}

/// A part of the files below a directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FileVersionsPage {
    /// The files, in the order of their paths.
    pub files: Vec<FileVersions>,
    /// The place where the next page begins; `None` for the last page.
    pub next: Option<String>,
}

/// The result of a restore of some files below a directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RestoredPage {
    /// Number of files that have other bytes now.
    pub restored: u64,
    /// Number of files that had the bytes of then.
    pub unchanged: u64,
    /// Number of files that did not exist then, and stay.
    pub younger: u64,
    /// Number of files that did not exist then, and were deleted.
    pub deleted: u64,
    /// Files that could not be restored.
    pub failed: Vec<FailedFile>,
    /// The place where the next page begins; `None` for the last page.
    pub next: Option<String>,
}

/// A file that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FailedFile {
    /// Path of the file in the volume, as in [`FileVersions`].
    pub path: String,
    /// Reason for people.
    pub detail: String,
}

/// Sequential requests about the files below a directory. Calls block: the requests have a runtime of their own.
///
/// Errors of all requests are those of [`Address::versions`].
pub struct DirectoryRequests {
    address: Address,
    runtime: Runtime,
    requests: Requests,
}

impl DirectoryRequests {
    /// Returns requests about the directory at `address`. The connection is opened by the first request.
    ///
    /// # Errors
    /// The system cannot start a runtime.
    pub fn new(address: &Address, credentials: &Credentials) -> Result<Self, SyncError> {
        let requests = Requests::new(address, credentials);
        Ok(Self { address: address.clone(), runtime: runtime()?, requests })
    }

    /// Lists the files that have old versions. `after` is the `next` of the page before, empty for the first page.
    ///
    /// # Errors
    /// See [`DirectoryRequests`].
    pub fn versions(&mut self, after: &str) -> Result<FileVersionsPage, SyncError> {
        self.page(Method::GET, "as=versions", after)
    }

    /// Restores files to their versions at `moment`, in seconds since 1970. With `deletes`, files that did not exist
    /// then are deleted. `after` is the `next` of the page before, empty for the first page.
    ///
    /// # Errors
    /// See [`DirectoryRequests`].
    pub fn restore(
        &mut self,
        moment: u64,
        deletes: bool,
        after: &str,
    ) -> Result<RestoredPage, SyncError> {
        let form = format!("as=restore&at={moment}&delete={deletes}");
        self.page(Method::POST, &form, after)
    }

    /// Asks for a page.
    fn page<T: DeserializeOwned>(
        &mut self,
        method: Method,
        form: &str,
        after: &str,
    ) -> Result<T, SyncError> {
        let dir = self.address.request("tree", &self.address.path);
        let after = escape(after.as_bytes());
        let answer = self.answer(method, &format!("{dir}?{form}&after={after}"))?;
        if answer.is_empty() {
            let why = "the server is older, and restores single files only; update the server";
            return Err(SyncError::Refused(format!("{}: {why}", self.address.server())));
        }
        let none = |error| failed("understand", &self.address.server())(io::Error::other(error));
        serde_json::from_slice(&answer).map_err(none)
    }

    /// Sends a request. If the server limits the rate of requests, waits as long as the server says, up to
    /// [`BUSY_WITHIN`].
    fn answer(&mut self, method: Method, path: &str) -> Result<Bytes, SyncError> {
        let mut waited = Duration::ZERO;
        loop {
            let asking = self.requests.ask(method.clone(), path, Bytes::new());
            match self.runtime.block_on(asking) {
                Err(SyncError::Busy { wait, .. }) if waited.saturating_add(wait) <= BUSY_WITHIN => {
                    let wait = wait.max(SHORTEST_WAIT);
                    waited += wait;
                    thread::sleep(wait);
                }
                answer => return answer,
            }
        }
    }
}

/// Longest time to wait for a busy server before one request is given up.
const BUSY_WITHIN: Duration = Duration::from_mins(1);
/// Shortest wait for a busy server.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
