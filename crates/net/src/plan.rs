//! What to sync, from where to where, and how.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use deltic_core::PackedStrings;
use deltic_protocol::options::Options;

use crate::error::SyncError;
use crate::moved_sources::MovedSources;
use crate::old_sums::OldSums;
use crate::reasons::Reasons;

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
    /// Opens the connection to the other side, where no remote shell does.
    pub dial: Option<Dial>,
    /// Most bytes a second to put on the wire, in either direction.
    pub bwlimit: Option<u64>,
    /// When to give up.
    pub patience: Patience,
    /// True if chunks are named by BLAKE3, though both ends have something faster.
    pub by_blake3: bool,
    /// The directory in which this end keeps what it knows of files, if it may
    /// ([`Compare::cached`](deltic_protocol::options::Compare)).
    pub cache: Option<PathBuf>,
    /// Whether this run is kept in a file, or comes out of one.
    pub batch: Option<Batch>,
    /// Takes what this end says of why it read files, if somebody asks.
    pub reasons: Option<Reasons>,
    /// Keeps the sources that this run removed, where another attempt may list its sources again.
    pub moved: Option<MovedSources>,
}

#[cfg(test)]
impl Plan {
    /// From `sources` to a directory here, with no cache and no limit; for sessions that need no remote shell.
    pub(crate) fn plain(sources: Sources, destination: PathBuf, options: Options) -> Self {
        Self {
            sources,
            names: Names::None,
            destination: Destination::Local(destination),
            patience: Patience::of_silence(options.silence),
            options,
            remote: Remote { shell: Vec::new(), program: "deltic".into(), options: Vec::new() },
            dial: None,
            bwlimit: None,
            by_blake3: false,
            cache: None,
            reasons: None,
            moved: None,
            batch: None,
        }
    }
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
    Here(PackedStrings),
    /// Those in a file on the remote side.
    There {
        /// Its path there.
        path: OsString,
        /// True if names end in NULs there, and not with their lines.
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

/// The host of the other end, unless both ends are here.
#[must_use]
pub fn far_host<'a>(sources: &'a Sources, destination: &'a Destination) -> Option<&'a str> {
    match (sources, destination) {
        (Sources::Remote { host, .. }, _) | (_, Destination::Remote { host, .. }) => Some(host),
        _ => None,
    }
}

/// Stream of bytes to the other end.
pub trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A connection that is being opened.
pub type Dialling = Pin<Box<dyn Future<Output = Result<Pin<Box<dyn Stream>>, SyncError>> + Send>>;

/// Opens connections to the other end, one for each session.
#[derive(Clone)]
pub struct Dial {
    open: Arc<dyn Fn() -> Dialling + Send + Sync>,
    pub(crate) old_sums: Option<Arc<dyn OldSums>>,
    /// True if this user has kept a login for the other end, so that the address is known to be right.
    pub is_kept: bool,
}

impl Dial {
    /// Opens them by `open`.
    pub fn new(open: impl Fn() -> Dialling + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), old_sums: None, is_kept: false }
    }

    /// The same where the other end is in this process, and old versions can be summed as it sums what it has.
    #[must_use]
    pub fn with_old_sums(self, sums: Arc<dyn OldSums>) -> Self {
        Self { old_sums: Some(sums), ..self }
    }

    pub(crate) fn open(&self) -> Dialling {
        (self.open)()
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

/// How to start the other end.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The remote shell and its arguments (`-e`); the host and the command are appended, or take the places of
    /// `{host}`, `{user}` and `{command}`.
    pub shell: Vec<OsString>,
    /// The program to start there (`--deltic-path`); `agent` is appended.
    pub program: OsString,
    /// Options of `agent`, behind that (`--remote-option`).
    pub options: Vec<OsString>,
}

impl Remote {
    /// The words that run `command` on `host` (`[user@]host`): as rsync, `shell… [-l user] host command…`, or the
    /// shell's own words where it has places for these.
    ///
    /// # Errors
    /// [`SyncError::Usage`] where the words leave a user out or miss one.
    pub fn words(&self, host: &str, command: &[OsString]) -> Result<Vec<OsString>, SyncError> {
        let (user, host) = match host.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, host),
        };
        let has = |place: &str| self.shell.iter().any(|word| contains(word, place));
        if !has(HOST) && !has(COMMAND) {
            let login = user.into_iter().flat_map(|user| ["-l", user]);
            let way = login.chain([host]).map(OsString::from);
            return Ok(self.shell.iter().cloned().chain(way).chain(command.to_vec()).collect());
        }
        let wrong = |what: &str| Err(SyncError::Usage(what.into()));
        match (user, has(USER)) {
            (Some(_), false) => return wrong("a user is named, and -e has no place for {user}"),
            (None, true) => {
                return wrong("-e has a place for {user}, and none is named: USER@HOST:PATH");
            }
            _ => {}
        }
        let joined = command.join(OsStr::new(" "));
        let mut words = Vec::new();
        for word in &self.shell {
            if word == COMMAND {
                // No shell splits what is run there.
                words.extend(command.iter().flat_map(|word| split(word)));
                continue;
            }
            let word = replaced(word, USER, OsStr::new(user.unwrap_or_default()));
            words.push(replaced(&replaced(&word, HOST, OsStr::new(host)), COMMAND, &joined));
        }
        if !has(COMMAND) {
            words.extend_from_slice(command);
        }
        Ok(words)
    }
}

/// The places in the words of a remote shell.
const HOST: &str = "{host}";
const USER: &str = "{user}";
const COMMAND: &str = "{command}";

fn contains(word: &OsStr, part: &str) -> bool {
    word.as_bytes().windows(part.len()).any(|bytes| bytes == part.as_bytes())
}

/// `word` with `by` in the place of each `part`.
fn replaced(word: &OsStr, part: &str, by: &OsStr) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    let at = |bytes: &[u8]| bytes.windows(part.len()).position(|it| it == part.as_bytes());
    while let Some(found) = at(rest) {
        bytes.extend([&rest[..found], by.as_bytes()].concat());
        rest = &rest[found + part.len()..];
    }
    OsString::from_vec([&bytes, rest].concat())
}

/// A word of a command at its blanks, as the shell of another machine would: `sudo deltic`.
fn split(word: &OsStr) -> impl Iterator<Item = OsString> {
    let words = word.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned())
}

/// What went over the wire and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that this end sent, framing and hello included.
    pub sent: u64,
    /// Bytes that this end received.
    pub received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(shell: &str, host: &str) -> Result<String, SyncError> {
        let shell = shell.split(' ').map(OsString::from).collect();
        let remote = Remote { shell, program: "deltic".into(), options: Vec::new() };
        let command = ["sudo deltic", "agent"].map(OsString::from);
        let words = remote.words(host, &command)?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_remote_shell_gets_the_host_and_the_command_where_it_has_places_for_them() {
        for (shell, host, wanted) in [
            ("ssh -p 2", "h", "ssh|-p|2|h|sudo deltic|agent"),
            ("ssh", "me@work@h", "ssh|-l|me@work|h|sudo deltic|agent"),
            ("docker exec -i {host} {command}", "box", "docker|exec|-i|box|sudo|deltic|agent"),
            ("kubectl exec pod/{host} --", "p-1", "kubectl|exec|pod/p-1|--|sudo deltic|agent"),
            ("run -u={user} {host} ({command})", "me@h", "run|-u=me|h|(sudo deltic agent)"),
            ("here {command}", "h", "here|sudo|deltic|agent"),
        ] {
            assert_eq!(words(shell, host).unwrap(), wanted, "{shell}");
        }
        assert!(words("x {host}", "me@h").unwrap_err().to_string().contains("no place for {user}"));
        assert!(words("x {user} {host}", "h").unwrap_err().to_string().contains("none is named"));
    }
}
