//! Starting a sync from a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use deltic_net::embed::{self, Embedding};
use deltic_net::plan::{Destination, Names, Patience, Plan, Remote, Sources};
use deltic_protocol::options::{Delete, Guard, Metadata, Options};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Handle};

use crate::{Cancel, Event, Outcome, SyncError};

/// A directory or file at one end of a sync.
///
/// A string or path converts to a local path. As with rsync, a source with a trailing slash stands for the content of
/// the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncPath {
    /// A local path.
    Local(PathBuf),
    /// A path on a remote machine, reached by a remote shell. The remote `PATH` must contain `deltic`.
    Host {
        /// Host name for the remote shell: `[user@]host`.
        host: String,
        /// Path on the remote machine.
        path: OsString,
    },
    /// A path at the other end of a stream, for [`Sync::start_over`].
    Stream(OsString),
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
}

/// A sync: makes the destination equal to the source.
///
/// By default only file content is transferred; most programs want [`Sync::archive`]. All changes are flushed to disk
/// before the sync ends, unless [`Sync::durable`] turns this off. Files are replaced atomically: at every moment a name
/// shows the whole old or the whole new file.
#[derive(Clone, Debug)]
pub struct Sync {
    from: SyncPath,
    to: SyncPath,
    options: Options,
    shell: Vec<OsString>,
    bwlimit: Option<u64>,
    cache: Option<PathBuf>,
    with: Embedding,
}

impl Sync {
    /// Creates a sync from `from` to `to`. At least one of the two must be local.
    pub fn new(from: impl Into<SyncPath>, to: impl Into<SyncPath>) -> Self {
        let (from, to) = (from.into(), to.into());
        // Locally, reading the old version costs more than writing the new version.
        let whole_file = matches!((&from, &to), (SyncPath::Local(_), SyncPath::Local(_)));
        Self {
            from,
            to,
            options: Options { durable: true, whole_file, ..Options::default() },
            shell: vec!["ssh".into()],
            bwlimit: None,
            cache: None,
            with: Embedding::default(),
        }
    }

    /// Transfers whole trees: symbolic links, permissions, times, owners if permitted, devices and FIFOs (`-a`).
    #[must_use]
    pub fn archive(mut self) -> Self {
        let Options { recursive, links, modes, times, metadata, .. } = &mut self.options;
        (*recursive, *links, *modes, *times) = (true, true, true, true);
        *metadata = Metadata {
            users: true,
            groups: true,
            devices: true,
            specials: true,
            ..metadata.clone()
        };
        self
    }

    /// Deletes files that the source does not have (`--delete`). If suspiciously many files would go, nothing is
    /// deleted.
    #[must_use]
    pub fn delete(mut self) -> Self {
        self.options.delete = Delete::Guarded(Guard::default());
        self
    }

    /// Deletes files that the source does not have, but at most `names` names (`--max-delete`).
    #[must_use]
    pub fn delete_at_most(mut self, names: u64) -> Self {
        self.options.delete = Delete::AtMost(names);
        self
    }

    /// Compares digests of files with equal length and time (`-c`).
    #[must_use]
    pub fn checksum(mut self) -> Self {
        self.options.checksum = true;
        self
    }

    /// Changes no file, and reports all changes that a sync would make (`-n`).
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sets whether all changes are flushed to disk before the sync ends. On by default.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.options.durable = durable;
        self
    }

    /// Sets the remote shell and its arguments (`-e`). The default is `ssh`.
    #[must_use]
    pub fn shell(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.shell = words.into_iter().map(Into::into).collect();
        self
    }

    /// Limits the bytes per second in each direction (`--bwlimit`).
    #[must_use]
    pub fn bwlimit(mut self, bytes_per_second: u64) -> Self {
        self.bwlimit = Some(bytes_per_second);
        self
    }

    /// Sets the directory of the cache of digests and recipes. By default this end has no cache.
    #[must_use]
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Sets the threads, limits and callbacks of the embedding program.
    #[must_use]
    pub fn embedding(mut self, with: Embedding) -> Self {
        self.with = with;
        self
    }

    /// Sets a handle that can cancel the sync from other code.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.with.cancel = cancel.clone();
        self
    }

    /// Returns all other options of the command.
    pub fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Runs the sync on this thread, for programs without an async runtime. A temporary runtime exists during the call.
    ///
    /// # Errors
    /// - [`SyncError`] if the whole sync could not start or continue
    /// - [`SyncError::Usage`] inside an async runtime
    ///
    /// The failure of a single file is an [`Event::Trouble`], counted in [`Outcome::totals`].
    pub fn run(self, mut on_event: impl FnMut(Event) + Send) -> Result<Outcome, SyncError> {
        if Handle::try_current().is_ok() {
            let why = "an async runtime is already running: await `start` instead of calling `run`";
            return Err(SyncError::Usage(why.into()));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|source| SyncError::Transport { action: "start a runtime", source })?;
        runtime.block_on(self.start(&mut on_event))
    }

    /// Runs the sync in the current tokio runtime. Dropping the future stops the sync.
    ///
    /// # Errors
    /// The errors of [`Sync::run`].
    pub async fn start(
        self,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, SyncError> {
        let with = self.with.clone();
        embed::sync(self.plan()?, &with, on_event).await
    }

    /// Runs the sync over a stream. [`serve`] must run at the other end, and one of the two paths must be
    /// [`SyncPath::Stream`].
    ///
    /// # Errors
    /// The errors of [`Sync::run`].
    pub async fn start_over(
        self,
        transport: impl AsyncRead + AsyncWrite + Send + 'static,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, SyncError> {
        let with = self.with.clone();
        embed::sync_over(self.plan()?, transport, &with, on_event).await
    }

    fn plan(self) -> Result<Plan, SyncError> {
        let (sources, destination) = match (self.from, self.to) {
            (SyncPath::Local(from), to) => (Sources::Local(vec![from]), destination(to)),
            (SyncPath::Host { host, path }, to @ SyncPath::Local(_)) => {
                (Sources::Remote { host, paths: vec![path] }, destination(to))
            }
            (SyncPath::Stream(path), to @ SyncPath::Local(_)) => {
                (Sources::Remote { host: THERE.into(), paths: vec![path] }, destination(to))
            }
            _ => return Err(SyncError::Usage("neither source nor destination is local".into())),
        };
        Ok(Plan {
            sources,
            names: Names::None,
            destination,
            options: self.options,
            remote: Remote { shell: self.shell, program: "deltic".into(), options: Vec::new() },
            bwlimit: self.bwlimit,
            patience: Patience::default(),
            dial: None,
            by_blake3: false,
            cache: self.cache,
            batch: None,
            reasons: None,
            moved: None,
        })
    }
}

fn destination(to: SyncPath) -> Destination {
    match to {
        SyncPath::Local(path) => Destination::Local(path),
        SyncPath::Host { host, path } => Destination::Remote { host, path },
        SyncPath::Stream(path) => Destination::Remote { host: THERE.into(), path },
    }
}

/// Serves a single session over `transport` with all rights of this process. The peer must be trusted with these
/// rights.
///
/// # Errors
/// [`SyncError`] if the session failed. The peer has received the error.
pub async fn serve(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<(), SyncError> {
    embed::serve_over(transport, with).await
}

/// Name of the other end of a stream in messages.
const THERE: &str = "there";
