//! What to sync, from where to where, and how.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::Packed;
use deltic_protocol::options::Options;

/// One run: every source on one side, one destination on the other. At most one side is remote.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the new versions are.
    pub sources: Sources,
    /// Which names below the only source are meant.
    pub names: Names,
    /// Where the old versions are.
    pub destination: Destination,
    /// How to sync.
    pub options: Options,
    /// How to reach the other side, if it is remote.
    pub remote: Remote,
    /// Most bytes a second to put on the wire, in either direction.
    pub bwlimit: Option<u64>,
    /// When to give up.
    pub patience: Patience,
    /// Whether chunks are named by BLAKE3, though both ends have something faster.
    pub by_blake3: bool,
    /// The directory in which this end keeps what it knows of files, if it may
    /// ([`Compare::cached`](deltic_protocol::options::Compare)).
    pub cache: Option<PathBuf>,
    /// Whether this run is kept in a file, or comes out of one.
    pub batch: Option<Batch>,
}

/// A file that keeps a run.
#[derive(Clone, Debug)]
pub enum Batch {
    /// It is written to this file (`--write-batch`).
    Write(Arc<File>),
    /// That is all that is done (`--only-write-batch`).
    OnlyWrite(Arc<File>),
    /// There are no sources but this file (`--read-batch`).
    Read(Arc<File>),
}

/// How long to wait before a run is given up; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// With no sign of life of the other end (`--timeout`); it gives some if the options name this
    /// [silence](Options::silence).
    pub silence: Option<Duration>,
    /// For the first word of the other end (`--contimeout`).
    pub answer: Option<Duration>,
    /// For the end of the run (`--stop-after`).
    pub whole: Option<Duration>,
}

impl Patience {
    /// Waits so many seconds for a sign of life, 0 for ever.
    pub(crate) fn of_silence(secs: u32) -> Self {
        let silence = (secs > 0).then(|| Duration::from_secs(secs.into()));
        Self { silence, ..Self::default() }
    }
}

/// The source arguments, all on one host. A trailing slash means "the contents of", as in rsync.
#[derive(Clone, Debug)]
pub enum Sources {
    /// Paths on this machine.
    Local(Vec<PathBuf>),
    /// Paths on `host` (`[user@]host`).
    Remote {
        /// What the remote shell is told to connect to.
        host: String,
        /// Paths there.
        paths: Vec<OsString>,
    },
}

/// Names below the only source (`--files-from`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// The sources stand for themselves.
    #[default]
    None,
    /// These.
    Here(Packed),
    /// Those in a file on the remote side.
    There {
        /// Its path there.
        path: OsString,
        /// Whether names end in NULs there, and not with their lines.
        nul: bool,
    },
}

/// The destination argument. A trailing slash means "this is a directory".
#[derive(Clone, Debug)]
pub enum Destination {
    /// A path on this machine.
    Local(PathBuf),
    /// A path on `host` (`[user@]host`).
    Remote {
        /// What the remote shell is told to connect to.
        host: String,
        /// The path there.
        path: OsString,
    },
}

impl Destination {
    /// Its path, if it is on this machine.
    pub(crate) fn here(&self) -> Option<&OsStr> {
        match self {
            Self::Local(path) => Some(path.as_os_str()),
            Self::Remote { .. } => None,
        }
    }
}

/// How to start the other end.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The remote shell and its arguments (`-e`); the host and the command are appended.
    pub shell: Vec<OsString>,
    /// The program to start there (`--deltic-path`); `agent` is appended.
    pub program: OsString,
    /// Options of `agent`, behind that (`--remote-option`).
    pub options: Vec<OsString>,
}

/// What went over the wire and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that this end sent, framing and hello included.
    pub sent: u64,
    /// Bytes that this end received.
    pub received: u64,
}
