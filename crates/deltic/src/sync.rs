//! Starting a sync from a program.

use std::ffi::OsString;
use std::path::PathBuf;

use deltic_net::embed::{self, Embedding};
use deltic_net::plan::{Destination, Dial, Plan, Remote, Sources};
use deltic_net::rates::{RateLimits, RateTable};
use deltic_protocol::options::{Delete, Guard, Metadata, Options};
use deltic_protocol::report::{Action as ChangeAction, Trouble, TroubleKind};
use deltic_remote::{ProcessEnvironment, RemoteSystem};
use deltic_tree::rule::{Action, RuleLine, parse_pattern};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Handle};

use crate::path::{ServerPath, SyncPath};
use crate::{Cancel, Event, Outcome, SyncError};

/// A sync: makes the destination equal to the source.
///
/// By default only file content is transferred; most programs want [`TreeSync::archive`]. All changes are flushed to
/// disk before the sync ends, unless [`TreeSync::durable`] turns this off. Files are replaced atomically: at every
/// moment a name shows the whole old or the whole new file.
#[derive(Clone, Debug)]
pub struct TreeSync {
    from: SyncPath,
    to: SyncPath,
    options: Options,
    remote: Remote,
    limits: RateLimits,
    cache: Option<PathBuf>,
    pub(crate) with: Embedding,
}

impl TreeSync {
    /// Creates a sync from `from` to `to`. At least one of the two must be local.
    pub fn new(from: impl Into<SyncPath>, to: impl Into<SyncPath>) -> Self {
        let (from, to) = (from.into(), to.into());
        // Locally, reading the old version costs more than writing the new version.
        let whole_file = matches!((&from, &to), (SyncPath::Local(_), SyncPath::Local(_)));
        Self {
            from,
            to,
            options: Options { durable: true, whole_file, ..Options::default() },
            remote: Remote::with_shell(vec!["ssh".into()]),
            limits: RateLimits::default(),
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
        self.remote.shell = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the program to start on the other machine (`--deltic-path`). By default, the remote shell looks for
    /// `deltic` in its `PATH`, and then at `~/.local/bin/deltic`. No other place is tried for a program that is set
    /// here.
    #[must_use]
    pub fn far_program(mut self, program: impl Into<OsString>) -> Self {
        self.remote.program = program.into();
        self
    }

    /// Limits the bytes per second in each direction (`--bwlimit`).
    #[must_use]
    pub fn bwlimit(mut self, bytes_per_second: u64) -> Self {
        self.limits.table = Some(RateTable::constant(bytes_per_second));
        self
    }

    /// Leaves room for other traffic on the network: the sending end keeps the round trip below twice that of an idle
    /// network (`--bwlimit auto`).
    #[must_use]
    pub const fn gentle(mut self) -> Self {
        self.limits.gentle = true;
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

    /// Excludes the names that `pattern` matches (`--exclude`). The first pattern that matches a name decides.
    ///
    /// # Errors
    /// [`SyncError::Usage`] for a pattern that rsync would not take either.
    pub fn exclude(self, pattern: &str) -> Result<Self, SyncError> {
        self.pattern(pattern, Action::Exclude)
    }

    /// Includes the names that `pattern` matches, whatever later patterns exclude (`--include`).
    ///
    /// # Errors
    /// [`SyncError::Usage`] for a pattern that rsync would not take either.
    pub fn include(self, pattern: &str) -> Result<Self, SyncError> {
        self.pattern(pattern, Action::Include)
    }

    fn pattern(mut self, pattern: &str, action: Action) -> Result<Self, SyncError> {
        let wrong = |why: String| SyncError::Usage(format!("the pattern '{pattern}': {why}"));
        match parse_pattern(pattern.as_bytes(), action).map_err(|why| wrong(why.to_string()))? {
            Some(RuleLine::Rule(rule)) => self.options.rules.list.push(rule),
            _ => return Err(wrong("not a pattern".into())),
        }
        Ok(self)
    }

    /// Runs the sync on this thread, for programs without an async runtime. A temporary runtime exists during the call.
    ///
    /// # Errors
    /// - [`SyncError`] if the whole sync could not start or continue
    /// - [`SyncError::NoSource`] if the source is missing or cannot be read at all
    /// - [`SyncError::Usage`] inside an async runtime
    ///
    /// The failure of a single file is an [`Event::Trouble`], counted in [`Outcome::totals`].
    pub fn run(self, mut on_event: impl FnMut(Event) + Send) -> Result<Outcome, SyncError> {
        block_on(self.start(&mut on_event))
    }

    /// Runs the sync in the current tokio runtime. Dropping the future stops the sync.
    ///
    /// # Errors
    /// The errors of [`TreeSync::run`].
    pub async fn start(
        self,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, SyncError> {
        let with = self.with.clone();
        let mut unread = UnreadSource::default();
        let mut note = |event: Event| {
            unread.note(&event);
            on_event(event);
        };
        let outcome = embed::sync(self.plan()?, &with, &mut note).await?;
        unread.fail_if_unread(outcome)
    }

    /// Runs the sync over a stream. [`serve`] must run at the other end, and one of the two paths must be
    /// [`SyncPath::Stream`].
    ///
    /// # Errors
    /// The errors of [`TreeSync::run`].
    pub async fn start_over(
        self,
        transport: impl AsyncRead + AsyncWrite + Send + 'static,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, SyncError> {
        let with = self.with.clone();
        let mut unread = UnreadSource::default();
        let mut note = |event: Event| {
            unread.note(&event);
            on_event(event);
        };
        let outcome = embed::sync_over(self.plan()?, transport, &with, &mut note).await?;
        unread.fail_if_unread(outcome)
    }

    /// Compares the contents of both ends, and changes nothing. Reports each difference as [`Event::Changed`]: a
    /// created name is missing at the destination, a deleted name is missing at the source. Attributes are compared
    /// as the sync would set them.
    ///
    /// Runs on this thread, as [`TreeSync::run`] does.
    ///
    /// # Errors
    /// The errors of [`TreeSync::run`]; [`SyncError::Selection`] if the destination is missing.
    pub fn verify(
        mut self,
        mut on_event: impl FnMut(Event) + Send,
    ) -> Result<Verification, SyncError> {
        let Options {
            recursive, links, checksum, dry_run, delete, remove, compare, select, ..
        } = &mut self.options;
        (*recursive, *links, *checksum, *dry_run) = (true, true, true, true);
        *delete = Delete::AtMost(u64::MAX);
        remove.ignore_errors = true;
        compare.cached = false;
        select.existing = true;
        let mut differences = 0;
        let outcome = self.run(|event| {
            if let Event::Changed(change) = &event {
                differences += u64::from(change.action != ChangeAction::Unchanged);
            }
            on_event(event);
        })?;
        Ok(Verification { differences, outcome })
    }

    /// Lists the source, and transfers nothing: each name is an [`Event::Entry`]. The destination is not used.
    /// Names in subdirectories are listed only if [`TreeSync::archive`] was called.
    ///
    /// Runs on this thread, as [`TreeSync::run`] does.
    ///
    /// # Errors
    /// The errors of [`TreeSync::run`].
    pub fn list(mut self, on_event: impl FnMut(Event) + Send) -> Result<Outcome, SyncError> {
        let Options { recursive, dry_run, select, .. } = &mut self.options;
        *dry_run = true;
        (select.list_only, select.dirs) = (true, !*recursive);
        self.to = SyncPath::Local(".".into());
        self.run(on_event)
    }

    pub(crate) fn plan(self) -> Result<Plan, SyncError> {
        let Self { from, to, mut options, remote, limits, cache, .. } = self;
        let dial = dial(&from, &to, cache.clone(), &mut options)?;
        let (sources, destination) = match (from, to) {
            (SyncPath::Local(from), SyncPath::Local(to)) => {
                (Sources::Local(vec![from]), Destination::Local(to))
            }
            (SyncPath::Local(from), to) => {
                let (host, path) = to.remote().expect("the destination is not local");
                (Sources::Local(vec![from]), Destination::Remote { host, path })
            }
            (from, SyncPath::Local(to)) => {
                let (host, path) = from.remote().expect("the source is not local");
                (Sources::Remote { host, paths: vec![path] }, Destination::Local(to))
            }
            _ => return Err(SyncError::Usage("neither source nor destination is local".into())),
        };
        Ok(Plan { remote, limits, dial, cache, ..Plan::new(sources, destination, options) })
    }
}

/// Result of [`TreeSync::verify`].
#[derive(Clone, Copy, Debug)]
pub struct Verification {
    /// Number of names that differ.
    pub differences: u64,
    /// Counts of the comparison.
    pub outcome: Outcome,
}

impl Verification {
    /// True if everything was compared and nothing differs.
    #[must_use]
    pub const fn is_equal(&self) -> bool {
        self.differences == 0 && self.outcome.totals.failed == 0
    }
}

/// Returns the connection to a server or a store, if one of the two paths is there.
fn dial(
    from: &SyncPath,
    to: &SyncPath,
    cache: Option<PathBuf>,
    options: &mut Options,
) -> Result<Option<Dial>, SyncError> {
    match (from, to) {
        (SyncPath::Server(server), _) | (_, SyncPath::Server(server)) => {
            let ServerPath { address, credentials } = &**server;
            Ok(Some(address.clone().dial(credentials.clone())))
        }
        (SyncPath::Store { url, .. }, _) => {
            let remote = RemoteSystem::new(url, &ProcessEnvironment);
            let remote = remote.map_err(|why| SyncError::Selection(why.to_string()))?;
            remote.restrict(options);
            Ok(Some(remote.dial(cache).0))
        }
        (_, SyncPath::Store { url, .. }) => {
            Err(SyncError::Usage(format!("{url}: a store is read, not written")))
        }
        _ => Ok(None),
    }
}

/// The first error of a run, which ends the run if the source could not be read at all.
#[derive(Default)]
struct UnreadSource(Option<String>);

impl UnreadSource {
    fn note(&mut self, event: &Event) {
        if let Event::Trouble(Trouble {
            kind: TroubleKind::Failed | TroubleKind::Vanished,
            message,
            ..
        }) = event
            && self.0.is_none()
        {
            self.0 = Some(message.clone());
        }
    }

    /// Turns the outcome into an error if nothing was listed and something failed.
    fn fail_if_unread(self, outcome: Outcome) -> Result<Outcome, SyncError> {
        match self.0 {
            Some(message) if outcome.totals.listed() == 0 => Err(SyncError::NoSource(message)),
            _ => Ok(outcome),
        }
    }
}

/// Refuses a call that blocks inside an async runtime.
pub(crate) fn refuse_runtime() -> Result<(), SyncError> {
    match Handle::try_current() {
        Err(_) => Ok(()),
        Ok(_) => {
            let why = "an async runtime is already running: await `start` instead of calling `run`";
            Err(SyncError::Usage(why.into()))
        }
    }
}

/// Runs `future` on this thread, in a temporary runtime.
pub(crate) fn block_on<T>(
    future: impl Future<Output = Result<T, SyncError>>,
) -> Result<T, SyncError> {
    refuse_runtime()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| SyncError::Transport { action: "start a runtime", source })?;
    runtime.block_on(future)
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
