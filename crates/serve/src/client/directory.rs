//! Requests about the files below a directory of a server, over one connection.

use std::io;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deltic_net::SyncError;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::runtime::Runtime;

use super::request::{Answer, KeptVersion, Requests, runtime};
use super::{Address, Credentials, failed};
use crate::percent::escape;

/// A file below a directory, with its old versions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FileVersions {
    /// Path of the file in the volume. Control characters are escaped, and bytes that are not UTF-8 are written as
    /// `\xNN`.
    pub path: String,
    /// The path, percent-encoded, if `path` has escaped characters: another file may have the path as written.
    #[serde(default)]
    pub escaped: Option<String>,
    /// True if no regular file has this path now.
    pub deleted: bool,
    /// Time at which the present file was created, in seconds since 1970, if the server knows it.
    pub created: Option<i64>,
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

    /// Lists the files that have old versions; with `all_files`, files without old versions too. `after` is the
    /// `next` of the page before, empty for the first page.
    ///
    /// # Errors
    /// See [`DirectoryRequests`].
    pub fn versions(
        &mut self,
        all_files: bool,
        after: &str,
    ) -> Result<FileVersionsPage, SyncError> {
        let dir = self.address.request("tree", &self.address.path);
        let after = escape(after.as_bytes());
        let path = format!("{dir}?as=versions&all={all_files}&after={after}");
        let answer = self.answer(Method::GET, &path)?;
        let none = |error| failed("understand", &self.address.server())(io::Error::other(error));
        serde_json::from_slice(&answer.body).map_err(none)
    }

    /// Restores an old version of `file`. Returns false if the file has the bytes of this version already.
    ///
    /// # Errors
    /// See [`DirectoryRequests`].
    pub fn restore(&mut self, file: &FileVersions, version: u64) -> Result<bool, SyncError> {
        let file = self.file(file);
        let answer = self.answer(Method::POST, &format!("{file}?as=restore&version={version}"))?;
        Ok(answer.status != StatusCode::OK)
    }

    /// Deletes `file`, of any version.
    ///
    /// # Errors
    /// See [`DirectoryRequests`].
    pub fn delete(&mut self, file: &FileVersions) -> Result<(), SyncError> {
        self.answer(Method::DELETE, &self.file(file)).map(drop)
    }

    /// Returns the path of requests about `file`.
    fn file(&self, FileVersions { path, escaped, .. }: &FileVersions) -> String {
        let of_volume = self.address.request("files", b"");
        match escaped {
            Some(escaped) => format!("{of_volume}{escaped}"),
            None => format!("{of_volume}{}", escape(path.as_bytes())),
        }
    }

    /// Sends a request. If the server limits the rate of requests, waits as long as the server says, up to
    /// [`BUSY_WITHIN`].
    fn answer(&mut self, method: Method, path: &str) -> Result<Answer, SyncError> {
        let mut waited = Duration::ZERO;
        loop {
            let asking = self.requests.answer(method.clone(), path, Bytes::new());
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
