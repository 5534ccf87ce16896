//! Reports to the page, as JSON.

use serde::Serialize;

/// A report to the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The server accepted the token.
    Welcome {
        /// Version of the server.
        version: String,
        /// Most transfers at once.
        channels: u32,
    },
    /// The server is about to end. Transfers that run get some time.
    GoAway,
    /// The server asks for no new transfer for some time.
    Busy {
        /// Seconds to wait.
        secs: u32,
    },
    /// A transfer goes on.
    Progress {
        /// Number of the transfer.
        channel: u32,
        /// Bytes of the file that are up to date, matched or sent.
        settled: u64,
        /// Length of the file in bytes.
        of: u64,
        /// Bytes sent over the connection for this transfer.
        sent: u64,
        /// Bytes received over the connection for this transfer.
        received: u64,
    },
    /// A warning, or the failure of the file.
    Trouble {
        /// Number of the transfer.
        channel: u32,
        /// Reason, for people.
        why: String,
    },
    /// A transfer is over.
    Finished {
        /// Number of the transfer.
        channel: u32,
        /// The new version that a pull has staged. `None` for a push, and if the user's file is up to date.
        put: Option<PutFile>,
        /// Number of files that failed: 0 or 1.
        failed: u64,
        /// Number of files with new content: 0 or 1.
        changed: u64,
        /// Bytes of the new version that were sent as literals.
        literal: u64,
        /// Bytes of the new version that the other end already had.
        matched: u64,
        /// Bytes sent over the connection for this transfer.
        sent: u64,
        /// Bytes received over the connection for this transfer.
        received: u64,
        /// Weak sums that this end compared.
        weak: u64,
        /// Strong sums and fingerprints that this end compared.
        strong: u64,
    },
    /// A transfer failed, or could not begin.
    Failed {
        /// Number of the transfer; 0 for a transfer that could not begin.
        channel: u32,
        /// Reason, for people.
        why: String,
        /// Seconds after which another attempt may succeed.
        retry_secs: Option<u32>,
    },
    /// The server broke the rules of the connection. The page must close the socket.
    Broken {
        /// Reason, for people.
        why: String,
    },
}

/// A complete new version in the staged file of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PutFile {
    /// Length in bytes. The host cuts the staged file to this length.
    pub len: u64,
    /// Modification time, in milliseconds since 1970.
    pub modified_ms: i64,
}
