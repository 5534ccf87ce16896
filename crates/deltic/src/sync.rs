//! Syncs as a program starts them.

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
/// A string or path is one on this machine. As with rsync, a source that ends with a slash stands for what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path on this machine.
    Here(PathBuf),
    /// A path on a machine that the remote shell reaches; `deltic` must be in the `PATH` there.
    Host {
        /// The remote shell's word for it: `[user@]host`.
        host: String,
        /// The path there.
        path: OsString,
    },
    /// A path at the other end of a stream, for [`Sync::start_over`].
    There(OsString),
}

impl<T: AsRef<Path> + ?Sized> From<&T> for Place {
    fn from(path: &T) -> Self {
        Self::Here(path.as_ref().into())
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self::Here(path)
    }
}

impl Place {
    /// A path on a machine that `ssh` reaches as `[user@]host`.
    pub fn host(host: impl Into<String>, path: impl Into<OsString>) -> Self {
        Self::Host { host: host.into(), path: path.into() }
    }

    /// A path at the other end of a stream.
    pub fn there(path: impl Into<OsString>) -> Self {
        Self::There(path.into())
    }
}

/// One sync: brings the destination to what the source is.
///
/// Nothing is taken over but content until more is asked for: most programs want [`Sync::archive`]. What is in place
/// when a sync ends is flushed to the disk, unless [`Sync::durable`] says otherwise. A name shows the whole old or the
/// whole new file at every moment.
#[derive(Clone, Debug)]
pub struct Sync {
    from: Place,
    to: Place,
    options: Options,
    shell: Vec<OsString>,
    bwlimit: Option<u64>,
    cache: Option<PathBuf>,
    with: Embedding,
}

impl Sync {
    /// From `from` to `to`; one of the two is here.
    pub fn new(from: impl Into<Place>, to: impl Into<Place>) -> Self {
        let (from, to) = (from.into(), to.into());
        // Reading an old version here costs more than writing the new one.
        let whole_file = matches!((&from, &to), (Place::Here(_), Place::Here(_)));
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

    /// Takes whole trees: symbolic links, permissions, times, owners where allowed, devices and FIFOs (`-a` of the
    /// command).
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

    /// Removes what the source does not have (`--delete`), unless that is suspiciously much: then nothing is removed.
    #[must_use]
    pub fn delete(mut self) -> Self {
        self.options.delete = Delete::Guarded(Guard::default());
        self
    }

    /// Removes what the source does not have, but no more than `names` names (`--max-delete`).
    #[must_use]
    pub fn delete_at_most(mut self, names: u64) -> Self {
        self.options.delete = Delete::AtMost(names);
        self
    }

    /// Compares content where length and time agree (`-c`).
    #[must_use]
    pub fn checksum(mut self) -> Self {
        self.options.checksum = true;
        self
    }

    /// Changes nothing, and reports what would change (`-n`).
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Whether all is flushed to the disk before the sync ends; by default it is.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.options.durable = durable;
        self
    }

    /// The remote shell and its arguments, `ssh` by default (`-e`).
    #[must_use]
    pub fn shell(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.shell = words.into_iter().map(Into::into).collect();
        self
    }

    /// The most bytes a second on the wire, in either direction (`--bwlimit`).
    #[must_use]
    pub fn bwlimit(mut self, bytes_per_second: u64) -> Self {
        self.bwlimit = Some(bytes_per_second);
        self
    }

    /// A directory in which digests and recipes are kept from run to run; without one nothing is kept at this end.
    #[must_use]
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Whose threads do the work, how much of them, and who is asked.
    #[must_use]
    pub fn embedding(mut self, with: Embedding) -> Self {
        self.with = with;
        self
    }

    /// Ends the sync from elsewhere.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.with.cancel = cancel.clone();
        self
    }

    /// All other options of the command.
    pub fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Runs to the end on this thread. For programs without an async runtime: one of its own lives meanwhile.
    ///
    /// # Errors
    /// [`SyncError`] where the sync as a whole could not start or go on; [`SyncError::Usage`] inside a runtime. A file
    /// that failed is an [`Event::Trouble`], and counted in [`Outcome::totals`].
    pub fn run(self, mut on_event: impl FnMut(Event) + Send) -> Result<Outcome, SyncError> {
        if Handle::try_current().is_ok() {
            let why = "a runtime is running here already: await `start` instead of calling `run`";
            return Err(SyncError::Usage(why.into()));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|source| SyncError::Transport { action: "start a runtime", source })?;
        runtime.block_on(self.start(&mut on_event))
    }

    /// Runs to the end in the tokio runtime that polls it. Dropped, it stops where it is.
    ///
    /// # Errors
    /// As of [`Sync::run`].
    pub async fn start(
        self,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, SyncError> {
        let with = self.with.clone();
        embed::sync(self.plan()?, &with, on_event).await
    }

    /// Runs over a stream to whoever [serves](serve) at its other end; one of the places is [`Place::There`].
    ///
    /// # Errors
    /// As of [`Sync::run`].
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
            (Place::Here(from), to) => (Sources::Local(vec![from]), destination(to)),
            (Place::Host { host, path }, to @ Place::Here(_)) => {
                (Sources::Remote { host, paths: vec![path] }, destination(to))
            }
            (Place::There(path), to @ Place::Here(_)) => {
                (Sources::Remote { host: THERE.into(), paths: vec![path] }, destination(to))
            }
            _ => return Err(SyncError::Usage("neither source nor destination is here".into())),
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

fn destination(to: Place) -> Destination {
    match to {
        Place::Here(path) => Destination::Local(path),
        Place::Host { host, path } => Destination::Remote { host, path },
        Place::There(path) => Destination::Remote { host: THERE.into(), path },
    }
}

/// Does what the other end of `transport` asks for, once, with all rights of this process: only for a peer that is
/// trusted with them.
///
/// # Errors
/// [`SyncError`] where the session did not end well; the other end has been told.
pub async fn serve(
    transport: impl AsyncRead + AsyncWrite + Send + 'static,
    with: &Embedding,
) -> Result<(), SyncError> {
    embed::serve_over(transport, with).await
}

/// What messages call the other end of a stream.
const THERE: &str = "there";
