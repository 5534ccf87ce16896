//! The plan of a run: sources, destination and options.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use deltic_core::PackedStrings;
use deltic_protocol::options::Options;

use crate::error::SyncError;
use crate::rates::RateLimits;
use deltic_worker::lock::lock;
use deltic_worker::moved_sources::MovedSources;
use deltic_worker::old_sums::OldSums;

/// A run: sources on one side, the destination on the other. At most one side is remote.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arguments with the new versions.
    pub sources: Sources,
    /// Names below the only source. The run is restricted to these names.
    pub names: Names,
    /// The argument with the old versions.
    pub destination: Destination,
    /// Options of the sync.
    pub options: Options,
    /// The remote shell and program, if a side is remote.
    pub remote: Remote,
    /// Opens the connection to the other side, in place of a remote shell.
    pub dial: Option<Dial>,
    /// Limits of the rate (`--bwlimit`).
    pub limits: RateLimits,
    /// Limits of time after which the run gives up.
    pub timeouts: SessionTimeouts,
    /// True if chunks are named by BLAKE3, even if both ends support a faster hash.
    pub by_blake3: bool,
    /// The directory in which this end keeps facts about files, if allowed
    /// ([`Compare::cached`](deltic_protocol::options::Compare)).
    pub cache: Option<PathBuf>,
    /// The batch that this run writes or reads, if any.
    pub batch: Option<Batch>,
    /// True if the sender is asked why it reads large files whole or in part.
    pub asks_reasons: bool,
    /// Records the sources that this run removed, if a later attempt may list its sources again.
    pub moved: Option<MovedSources>,
    /// Counts the bytes of attempts of this run that failed.
    pub failed_traffic: FailedTraffic,
}

impl Plan {
    /// Returns a plan from `sources` to `destination` over ssh, without cache, batch and limits.
    #[must_use]
    pub fn new(sources: Sources, destination: Destination, options: Options) -> Self {
        Self {
            sources,
            names: Names::None,
            destination,
            options,
            remote: Remote::with_shell(vec!["ssh".into()]),
            dial: None,
            limits: RateLimits::default(),
            timeouts: SessionTimeouts::default(),
            by_blake3: false,
            cache: None,
            batch: None,
            asks_reasons: false,
            moved: None,
            failed_traffic: FailedTraffic::default(),
        }
    }

    /// Returns a plan from `sources` to a local directory. The only limit is the silence that the options allow.
    #[cfg(test)]
    pub(crate) fn plain(sources: Sources, destination: PathBuf, options: Options) -> Self {
        let timeouts = SessionTimeouts::of_silence(options.silence);
        Self { timeouts, ..Self::new(sources, Destination::Local(destination), options) }
    }
}

/// A file that stores a run.
#[derive(Clone, Debug)]
pub enum Batch {
    /// The run also writes this file (`--write-batch`).
    Write(Arc<File>),
    /// The run only writes this file (`--only-write-batch`).
    OnlyWrite(Arc<File>),
    /// The run reads this file instead of sources (`--read-batch`).
    Read {
        /// The open file.
        file: Arc<File>,
        /// The name of the file in messages.
        name: String,
    },
}

/// Limits of time after which a run gives up; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTimeouts {
    /// Longest time without a sign of life of the other end (`--timeout`). The other end sends signs of life if the
    /// options name this [silence](Options::silence).
    pub silence: Option<Duration>,
    /// Longest time until the first byte of the other end (`--contimeout`).
    pub answer: Option<Duration>,
    /// Longest duration of the run (`--stop-after`).
    pub whole: Option<Duration>,
}

impl SessionTimeouts {
    /// Returns limits with `secs` seconds of silence; 0 for no limit.
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
        /// The host that the remote shell connects to.
        host: String,
        /// Paths on that host.
        paths: Vec<OsString>,
    },
}

/// Names below the only source (`--files-from`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// The sources themselves.
    #[default]
    None,
    /// These names.
    Here(PackedStrings),
    /// The names in a file on the remote side.
    There {
        /// The path of the file on the remote side.
        path: OsString,
        /// True if names end with NUL bytes instead of line ends.
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
        /// The host that the remote shell connects to.
        host: String,
        /// The path on that host.
        path: OsString,
    },
}

impl Destination {
    /// Returns the path, if it is on this machine.
    pub(crate) fn local_path(&self) -> Option<&OsStr> {
        match self {
            Self::Local(path) => Some(path.as_os_str()),
            Self::Remote { .. } => None,
        }
    }
}

/// Returns the host of the other end, if that end is remote.
#[must_use]
pub fn remote_host<'a>(sources: &'a Sources, destination: &'a Destination) -> Option<&'a str> {
    match (sources, destination) {
        (Sources::Remote { host, .. }, _) | (_, Destination::Remote { host, .. }) => Some(host),
        _ => None,
    }
}

/// A byte stream to the other end.
pub trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A future that opens a connection.
pub type Dialling = Pin<Box<dyn Future<Output = Result<Pin<Box<dyn Stream>>, SyncError>> + Send>>;

/// Bytes received from a store that a URL names, and bytes that needed no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTraffic {
    /// Bytes received from the store.
    pub received: u64,
    /// Units with a checksum that the old version at the destination had at another offset.
    pub shifted_units: u64,
    /// Bytes of these units.
    pub shifted_bytes: u64,
}

impl StoreTraffic {
    /// Returns the traffic since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            shifted_units: self.shifted_units.saturating_sub(before.shifted_units),
            shifted_bytes: self.shifted_bytes.saturating_sub(before.shifted_bytes),
        }
    }
}

/// Opens connections to the other end, one for each session.
#[derive(Clone)]
pub struct Dial {
    open: Arc<dyn Fn() -> Dialling + Send + Sync>,
    pub(crate) old_sums: Option<Arc<dyn OldSums>>,
    /// Returns the traffic with a store so far, if the other end is in this process and reads a store.
    pub(crate) traffic: Option<Arc<dyn Fn() -> StoreTraffic + Send + Sync>>,
    /// True if the user has stored a login for the other end, so the address is known to be right.
    pub is_kept: bool,
}

impl Dial {
    /// Returns a `Dial` that opens connections by `open`.
    pub fn new(open: impl Fn() -> Dialling + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), old_sums: None, traffic: None, is_kept: false }
    }

    /// Returns this `Dial` for another end in this process. `sums` computes sums of old versions as the other end does
    /// for its files.
    #[must_use]
    pub fn with_old_sums(self, sums: Arc<dyn OldSums>) -> Self {
        Self { old_sums: Some(sums), ..self }
    }

    /// Returns this `Dial` for another end in this process that reads a store. `traffic` returns the traffic so far;
    /// [`Traffic`] then counts the bytes received from the store instead of the bytes of the stream.
    #[must_use]
    pub fn with_traffic(self, traffic: impl Fn() -> StoreTraffic + Send + Sync + 'static) -> Self {
        Self { traffic: Some(Arc::new(traffic)), ..self }
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

/// The remote shell and the program to start at the other end.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The remote shell and its arguments (`-e`). The host and the command are appended, or replace `{host}`,
    /// `{user}` and `{command}`.
    pub shell: Vec<OsString>,
    /// The program to start on the other machine (`--deltic-path`); `agent` is appended.
    pub program: OsString,
    /// Options after `agent` (`--remote-option`).
    pub options: Vec<OsString>,
}

impl Remote {
    /// The program that runs on the other machine unless the user names another one, found in the `PATH` there.
    pub const PROGRAM: &str = "deltic";

    /// Returns the remote shell `shell` with [`Self::PROGRAM`], without options.
    #[must_use]
    pub fn with_shell(shell: Vec<OsString>) -> Self {
        Self { shell, program: Self::PROGRAM.into(), options: Vec::new() }
    }

    /// The program that `deltic install` copies. A relative path: a remote shell starts in the home directory.
    pub const INSTALLED: &str = ".local/bin/deltic";

    /// Returns the same with the program that `deltic install` copies; `None` if the user names another program.
    #[must_use]
    pub fn installed(&self) -> Option<Self> {
        (self.program == Self::PROGRAM)
            .then(|| Self { program: Self::INSTALLED.into(), ..self.clone() })
    }

    /// Returns the command line that runs `command` on `host` (`[user@]host`): as rsync `shell… [-l user] host
    /// command…`, or the words of the shell with their placeholders replaced.
    ///
    /// # Errors
    /// [`SyncError::Usage`] if a given user has no placeholder, or a placeholder has no user.
    pub fn command_line(
        &self,
        host: &str,
        command: &[OsString],
    ) -> Result<Vec<OsString>, SyncError> {
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
            (Some(_), false) => return wrong("-e has no {user} for USER@HOST; add {user} to -e"),
            (None, true) => return wrong("-e uses {user}; write USER@HOST:PATH"),
            _ => {}
        }
        let joined = command.join(OsStr::new(" "));
        let mut words = Vec::new();
        for word in &self.shell {
            if word == COMMAND {
                // No shell will split this word, so it is split here.
                words.extend(command.iter().flat_map(|word| split(word)));
                continue;
            }
            let word = replace_all(word, USER, OsStr::new(user.unwrap_or_default()));
            words.push(replace_all(&replace_all(&word, HOST, OsStr::new(host)), COMMAND, &joined));
        }
        if !has(COMMAND) {
            words.extend_from_slice(command);
        }
        Ok(words)
    }
}

/// Placeholders in the words of a remote shell.
const HOST: &str = "{host}";
const USER: &str = "{user}";
const COMMAND: &str = "{command}";

fn contains(word: &OsStr, part: &str) -> bool {
    word.as_bytes().windows(part.len()).any(|bytes| bytes == part.as_bytes())
}

/// Returns `word` with each `part` replaced by `by`.
fn replace_all(word: &OsStr, part: &str, by: &OsStr) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    let at = |bytes: &[u8]| bytes.windows(part.len()).position(|it| it == part.as_bytes());
    while let Some(found) = at(rest) {
        bytes.extend([&rest[..found], by.as_bytes()].concat());
        rest = &rest[found + part.len()..];
    }
    OsString::from_vec([&bytes, rest].concat())
}

/// Splits a word of a command at its blanks, as the shell of another machine would: `sudo deltic`.
fn split(word: &OsStr) -> impl Iterator<Item = OsString> {
    let words = word.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned())
}

/// Bytes of attempts that failed. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct FailedTraffic(Arc<Mutex<Traffic>>);

impl FailedTraffic {
    /// Adds the bytes of a failed attempt.
    pub(crate) fn add_failed_attempt(&self, traffic: Traffic) {
        let mut all = lock(&self.0);
        all.sent = all.sent.saturating_add(traffic.sent);
        all.received = all.received.saturating_add(traffic.received);
    }

    /// Returns the bytes so far, and counts from zero.
    #[must_use]
    pub fn take_counts(&self) -> Traffic {
        std::mem::take(&mut lock(&self.0))
    }
}

/// Bytes that were sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that this end sent, including framing and hello.
    pub sent: u64,
    /// Bytes that this end received.
    pub received: u64,
}

/// Time of a round trip to the other end, as a small message behind sent data takes it. Buffers on the way count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// The shortest one of the last minutes: over an almost empty link.
    pub idle: Duration,
    /// The present one, smoothed.
    pub current: Duration,
    /// Number of measurements.
    pub samples: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(shell: &str, host: &str) -> Result<String, SyncError> {
        let shell = shell.split(' ').map(OsString::from).collect();
        let remote = Remote::with_shell(shell);
        let command = ["sudo deltic", "agent"].map(OsString::from);
        let words = remote.command_line(host, &command)?;
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
        assert!(words("x {host}", "me@h").unwrap_err().to_string().contains("-e has no {user}"));
        assert!(words("x {user} {host}", "h").unwrap_err().to_string().contains("-e uses {user}"));
    }
}
