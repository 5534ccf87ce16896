//! The ends of a sync: local paths, and paths that a host, a server or a store has.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use deltic_serve::client::{Address, Credentials};

use crate::SyncError;

/// A directory or file at one end of a sync.
///
/// A string or path converts to a local path. As with rsync, a source with a trailing slash stands for the content of
/// the directory.
#[derive(Clone, Debug)]
pub enum SyncPath {
    /// A local path.
    Local(PathBuf),
    /// A path on a remote machine, reached by a remote shell. `deltic` must be in the `PATH` there,
    /// or at `~/.local/bin/deltic`.
    Host {
        /// Host name for the remote shell: `[user@]host`.
        host: String,
        /// Path on the remote machine.
        path: OsString,
    },
    /// A path at the other end of a stream, for [`TreeSync::start_over`](crate::TreeSync::start_over).
    Stream(OsString),
    /// A path in a volume of a server, `deltic serve`.
    Server(Box<ServerPath>),
    /// A path in a store: S3, Google, Azure or HDFS. Only a source.
    Store {
        /// The URL without the path: `s3://BUCKET`.
        url: String,
        /// Path in the store. A trailing slash stands for the content of the directory.
        path: OsString,
    },
}

impl<T: AsRef<Path> + ?Sized> From<&T> for SyncPath {
    fn from(path: &T) -> Self {
        Self::Local(path.as_ref().into())
    }
}

impl From<PathBuf> for SyncPath {
    fn from(path: PathBuf) -> Self {
        Self::Local(path)
    }
}

impl SyncPath {
    /// A path on the remote machine `[user@]host`, reached by `ssh`.
    pub fn host(host: impl Into<String>, path: impl Into<OsString>) -> Self {
        Self::Host { host: host.into(), path: path.into() }
    }

    /// A path at the other end of a stream.
    pub fn over_stream(path: impl Into<OsString>) -> Self {
        Self::Stream(path.into())
    }

    /// A path on a server: `https://HOST:PORT/VOLUME/PATH`, with the text of a token, and the pin of the server's key
    /// if the server has no certificate from an authority.
    ///
    /// # Errors
    /// [`SyncError::Usage`] for a malformed URL, token or pin.
    pub fn server(url: &str, token: &str, pin: Option<&str>) -> Result<Self, SyncError> {
        let address: Address = url.parse().map_err(|why| usage(&format!("{url}: {why}")))?;
        if address.volume.is_empty() {
            return Err(usage(&format!("{url}: no volume behind the host")));
        }
        let token = token.parse().map_err(|why| usage(&format!("the token for {url}: {why}")))?;
        let pin = pin.map(|pin| pin.parse().map_err(|why| usage(&format!("{pin}: {why}"))));
        let credentials = Credentials { token, pin: pin.transpose()? };
        Ok(Self::Server(Box::new(ServerPath { address, credentials })))
    }

    /// A path in a store: `s3://BUCKET/PATH`, `gs://BUCKET/PATH`, `azure://CONTAINER/PATH` or
    /// `hdfs://NAMENODE:PORT/PATH`. Wildcards in the path are expanded. Credentials come from the environment
    /// variables and files of the store's own tools.
    ///
    /// # Errors
    /// [`SyncError::Usage`] if the text is not the URL of a store.
    pub fn store(url: &str) -> Result<Self, SyncError> {
        let unknown = || usage(&format!("{url}: not the URL of a known store"));
        let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
        deltic_remote::kind_of(scheme.as_bytes()).ok_or_else(unknown)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = if path.is_empty() { "./" } else { path };
        Ok(Self::Store { url: format!("{scheme}://{host}"), path: path.into() })
    }

    /// The host and the path for a plan. `None` for a local path.
    pub(crate) fn remote(&self) -> Option<(String, OsString)> {
        match self {
            Self::Local(_) => None,
            Self::Host { host, path } => Some((host.clone(), path.clone())),
            Self::Stream(path) => Some((STREAM_HOST.into(), path.clone())),
            Self::Store { url, path } => Some((url.clone(), path.clone())),
            Self::Server(server) => {
                let Address { path, .. } = &server.address;
                let path = if path.is_empty() { b"./".to_vec() } else { path.clone() };
                Some((server.address.host(), OsString::from_vec(path)))
            }
        }
    }
}

/// A path on a server, and the login there.
#[derive(Clone, Debug)]
pub struct ServerPath {
    pub(crate) address: Address,
    pub(crate) credentials: Credentials,
}

fn usage(why: &str) -> SyncError {
    SyncError::Usage(why.into())
}

/// Name of the other end of a stream in messages.
const STREAM_HOST: &str = "there";
