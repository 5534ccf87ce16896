//! The server: one port for WebSockets and plain HTTP.
//!
//! The server is [prepared](prepare) while the process has one thread: it binds its address, reads its keys and
//! tokens, and confines the process to the volumes and the state directory ([`keep_to_volumes`]). Then the server
//! [runs](Prepared::run) in its own runtime. Each connection is a task; sessions share one executor.

mod accept;
mod access;
mod acme;
mod admission;
pub mod announcement;
mod audit;
pub mod config;
mod events;
mod file_lock;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod grant;
mod house;
mod journal;
pub mod keep;
mod kept_clock;
mod leftover;
mod lock;
mod metrics;
mod online;
mod page;
mod patience;
mod problem;
mod quotas;
mod rates;
mod rest;
mod session;
mod shared;
mod signals;
mod socket;
pub mod state_dir;
mod strangers;
mod streams;
mod systemd;
mod tickets;
mod tls;
pub mod token_file;
mod tunnel;
mod updated;
mod updates;
mod uses;
mod volume;
mod watching;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use deltic_carrier::SOCKET_PATH;
use deltic_net::embed::{Bases, Embedding, RecipeCache};
use deltic_net::executor::Budget;
use deltic_net::restrict::{Wall, keep_to_volumes};
use deltic_net::walls::{hide_memory, refuse_system_calls};
use deltic_store_local::{StoreContext, VolumeDir};
use deltic_tree::Name;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

use self::accept::{Door, Wire};
use self::access::Access;
use self::acme::{Acme, NAME_SERVICE};
use self::admission::Admission;
use self::audit::Audit;
use self::config::{Config, ConfigError, Limits, Tls};
use self::journal::Journal;
use self::kept_clock::KeptClock;
use self::lock::Locks;
use self::metrics::Metrics;
use self::rest::Uploads;
use self::shared::{Keys, Room, Server};
pub use self::signals::Operator;
use self::signals::Signals;
use self::state_dir::{BASES, tag_key};
use self::streams::Streams;
use self::systemd::{Notify, opened_socket};
use self::tickets::Tickets;
use self::tls::{OWN_KEY, identity};
use self::token_file::TokenFile;
use self::volume::{Volume, VolumeFacts};
use crate::token::Token;

/// Line for the operator while the server waits for clients to end.
const ENDING: &str = "ending: clients have 30 s; a second signal (Ctrl-C again) ends at once";
/// Files that may be open in addition to connections.
const FILES: usize = 512;
/// Most connections at once to the metrics address.
const METRICS_CONNECTIONS: usize = 64;
/// Most requests at once that use the disk.
const DISK_REQUESTS: usize = 32;
/// Bytes after which a session yields to other sessions; syncing an edited file takes far fewer.
const PROMPT_BYTES: u64 = 32 << 20;
/// Longest wait at the end for threads that are blocked on a disk.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for sessions in progress to end, once the server is told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that is ready to run.
pub struct Prepared {
    server: Server,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    pin: Option<String>,
    /// Settings at the start.
    began: Config,
    connections: usize,
    /// Locks of the directories, held until the server has ended.
    locks: Arc<Locks>,
    clock: KeptClock,
    /// State of the Landlock confinement to the volumes.
    pub wall: Wall,
    /// Address that the server listens on.
    pub address: SocketAddr,
}

/// Prepares a server. `own` is a token for the user who starts the server. Settings are reloaded from the file
/// `settings`. The process must not have other threads.
///
/// # Errors
/// [`ConfigError`] if the settings are invalid, or a file or an address cannot be used.
pub fn prepare(
    config: &Config,
    own: Option<&Token>,
    settings: Option<&Path>,
) -> Result<Prepared, ConfigError> {
    hide_memory();
    config.check()?;
    let clock = KeptClock::start(config);
    let connections = config.limits.connections.min(limit_open().saturating_sub(FILES)).max(1);
    let opened = opened_socket().map_err(ConfigError::io("take the socket of LISTEN_FDS"))?;
    let listener = opened.map_or_else(|| TcpListener::bind(config.listen), Ok);
    let listener = listening(config.listen, listener)?;
    let address = listener.local_addr().map_err(ConfigError::io("listen"))?;
    config.check_address(address)?;
    let locks = Locks::take(config)?;
    let (tls, pin) = keys(config)?;
    let audit = config.audit.as_deref().map(|path| Audit::open(path).map_err(unopened(path)));
    let audit = audit.transpose()?;
    let metrics = config.metrics.map(listen).transpose()?;
    let own = own.map(Token::hash);
    let tokens = TokenFile::of(&config.state);
    let access = Access::new(tokens, own, config.grants()?, config.served())
        .map_err(unread_tokens(config))?;
    let named = named(config, &clock);
    // Opened before the process is confined: later, this path cannot be reached.
    let bases = |name| Bases::open(&config.state.join(BASES).join(name));
    let bases: Vec<_> = config.volumes.keys().map(bases).collect();
    let states: Vec<_> =
        config.volumes.values().map(|volume| config.state_in(&volume.path)).collect();
    let (context, wall) = keep_to(&named, config, settings)?;
    let limits = config.limits;
    let recipes = RecipeCache::new(bytes(limits.recipe_bytes));
    let volumes = config.volumes.iter().zip(&named).zip(bases.into_iter().zip(states));
    let volumes = volumes
        .map(|(((text, volume), VolumeDir { name, .. }), (bases, state))| {
            let facts = VolumeFacts { recipes: recipes.clone(), bases };
            let mut volume = Volume::new(name.clone(), volume, facts, context.clone());
            volume.state = state;
            (text.clone(), volume)
        })
        .collect();
    let tag_key = tag_key(&config.state)
        .map_err(ConfigError::io(format!("keep a key in {}", config.state.display())))?;
    let server = Server {
        volumes,
        access,
        tls,
        journal: Journal { audit, metrics: Metrics::default() },
        tickets: Tickets::default(),
        streams: Streams::default(),
        admission: Admission::new(limits, config.proxies.clone()),
        embedding: Embedding { budget: budget(&limits), ..Embedding::default() },
        sessions: Room::new(limits.sessions, limit_open()),
        disk: Arc::new(Semaphore::new(DISK_REQUESTS)),
        upload_bytes: limits.upload_bytes,
        draining: watch::Sender::new(false),
        tracker: TaskTracker::new(),
        clients: watch::Sender::default(),
        tag_key,
    };
    let (began, locks) = (config.clone(), Arc::new(locks));
    Ok(Prepared { server, listener, metrics, pin, began, connections, wall, address, locks, clock })
}

/// Checks settings, and the files that a start reads and writes. Creates no file and binds no address, because a
/// server with these settings may be running.
///
/// # Errors
/// Same as [`prepare`].
pub fn check(config: &Config) -> Result<(), ConfigError> {
    config.check()?;
    let own_key = || config.state.join(OWN_KEY).exists();
    if !matches!(config.tls, Tls::SelfSigned) || own_key() {
        keys(config)?;
    }
    if let Some(path) = &config.audit {
        Audit::check(path).map_err(unopened(path))?;
    }
    let tokens = TokenFile::of(&config.state).read().map(drop);
    tokens.map_err(unread_tokens(config))
}

/// Returns the directories of all volumes, with quotas and policies for old versions.
fn named(config: &Config, clock: &KeptClock) -> Vec<VolumeDir> {
    let volumes = config.volumes.iter().filter_map(|(name, volume)| {
        let versions = volume.versions.map(|keep| clock.history(keep));
        let name = Name::new(name.as_bytes()).ok()?;
        Some(VolumeDir { name, path: volume.path.clone(), versions, quota: volume.quota() })
    });
    volumes.collect()
}

fn unread_tokens(config: &Config) -> impl FnOnce(std::io::Error) -> ConfigError {
    ConfigError::io(format!("read tokens in {}", config.state.display()))
}

fn unopened(path: &Path) -> impl FnOnce(std::io::Error) -> ConfigError {
    ConfigError::io(format!("open {}", path.display()))
}

/// Converts a limit in bytes, at most the largest `usize`.
fn bytes(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns the budget of each session.
fn budget(limits: &Limits) -> Budget {
    Budget {
        work_bytes: bytes(limits.session_bytes),
        credit_timeout: Some(limits.stall()),
        prompt_bytes: Some(PROMPT_BYTES),
        ..Budget::default()
    }
}

/// Returns the TLS keys, and the pin of a self-signed certificate.
fn keys(config: &Config) -> Result<(Keys, Option<String>), ConfigError> {
    let (identity, acme) = match &config.tls {
        Tls::Acme(settings) => {
            let (acme, identity) = Acme::prepare(settings, &config.state)?;
            (Some(identity), Some(acme))
        }
        tls => (identity(tls, &config.state)?, None),
    };
    let (tls, pin) = identity.map_or((None, None), |it| (Some(it.config), it.pin));
    Ok((Keys { config: watch::Sender::new(tls), acme }, pin))
}

/// Confines the process to the volumes, by Landlock and seccomp.
fn keep_to(
    volumes: &[VolumeDir],
    config: &Config,
    settings: Option<&Path>,
) -> Result<(StoreContext, Wall), ConfigError> {
    let own = std::slice::from_ref(&config.state);
    let kept = keep_to_volumes(volumes, own, &reads(config, settings));
    // Errors are ignored: without seccomp, the other confinement still holds.
    refuse_system_calls().ok();
    kept.map_err(ConfigError::io("confine the process to the volumes"))
}

fn listen(at: SocketAddr) -> Result<TcpListener, ConfigError> {
    listening(at, TcpListener::bind(at))
}

fn listening(
    at: SocketAddr,
    listener: std::io::Result<TcpListener>,
) -> Result<TcpListener, ConfigError> {
    let listener = listener.and_then(|it| it.set_nonblocking(true).map(|()| it));
    listener.map_err(ConfigError::io(format!("listen on {at}")))
}

/// Returns the directories of files that are reloaded while the server runs, because a new version of a file is
/// another inode, and the path may be a symlink. With ACME, also returns the files for resolving host names.
fn reads(config: &Config, settings: Option<&Path>) -> Vec<PathBuf> {
    let (cert, key) = match &config.tls {
        Tls::Files { cert, key } => (Some(&**cert), Some(&**key)),
        Tls::Off | Tls::SelfSigned | Tls::Acme(_) => (None, None),
    };
    let asked: &[&str] = if matches!(config.tls, Tls::Acme(_)) { NAME_SERVICE } else { &[] };
    let files = [settings, cert, key].into_iter().flatten();
    let real = files.clone().filter_map(|file| file.canonicalize().ok());
    let files = files.map(Path::to_path_buf).chain(real);
    let above =
        files.filter_map(|file| std::path::absolute(file).ok()?.parent().map(Path::to_path_buf));
    let above = above.filter(|dir| dir.parent().is_some());
    above.chain(asked.iter().map(PathBuf::from)).collect()
}

/// Raises the limit of open files to the maximum. Returns the new limit.
fn limit_open() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).ok();
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |open| open as usize)
}

impl Prepared {
    /// Pin of the server's self-signed certificate, for clients.
    #[must_use]
    pub fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    /// Serves until the process is told to end, and then until sessions in progress have ended or a timeout expires.
    /// If the operator cannot reload settings, SIGHUP also ends the server.
    ///
    /// # Errors
    /// [`ConfigError`] if the runtime cannot be started or a listener fails.
    pub fn run(self, operator: &Operator<'_>) -> Result<(), ConfigError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(ConfigError::io("start a runtime"))?;
        let locks = Arc::clone(&self.locks);
        let ended = runtime.block_on(self.serve(operator));
        // A disk that does not answer does not block the end.
        runtime.shutdown_timeout(ENDING_TIMEOUT);
        drop(locks);
        ended
    }

    async fn serve(self, operator: &Operator<'_>) -> Result<(), ConfigError> {
        let Self { server, listener, metrics, connections, began, clock, .. } = self;
        let failed = |what: &'static str| ConfigError::io(what);
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed("listen"))?;
        let mut signals = Signals::hear().map_err(failed("hear signals"))?;
        let server = Arc::new(server);
        let watching = Arc::clone(&server);
        tokio::spawn(async move { watching.access.watch(watching.clients.subscribe()).await });
        tokio::spawn(journal::log_token_changes(Arc::clone(&server)));
        if let Some(metrics) = metrics {
            let metrics = tokio::net::TcpListener::from_std(metrics).map_err(failed("listen"))?;
            let at = metrics.local_addr().map_err(failed("listen"))?;
            let wire = if at.ip().is_loopback() { Wire::Loopback } else { Wire::AsConfigured };
            let shown = journal::shown(Arc::clone(&server));
            let door = Door::new(Arc::clone(&server), shown, METRICS_CONNECTIONS, wire);
            tokio::spawn(door.open(metrics));
        }
        let uploads = Arc::new(Uploads::of(&began.state, limit_open()));
        rest::resume_uploads(&server, &uploads).await;
        let all = router(Arc::clone(&server), Arc::clone(&uploads));
        let door = Door::new(Arc::clone(&server), all, connections, Wire::AsConfigured);
        let notify = Notify::from_env();
        let reload = || {
            notify.send("RELOADING=1");
            let reloaded = server.reload(operator, &began);
            notify.send("READY=1");
            reloaded
        };
        notify.send("READY=1");
        tokio::select! {
            never = door.open(listener) => match never {},
            never = server.keep_certificate(operator.report) => match never {},
            never = server.keep_house(&clock, operator.report) => match never {},
            never = rest::keep_uploads(&server, &uploads) => match never {},
            never = server.keep_uses() => match never {},
            () = signals.until_end_signal(reload) => {}
            () = notify.stay_alive() => {}
        }
        notify.send("STOPPING=1");
        server.draining.send_replace(true);
        server.tracker.close();
        if !server.tracker.is_empty() {
            (operator.report)(ENDING);
        }
        tokio::select! {
            () = server.tracker.wait() => {}
            () = tokio::time::sleep(DRAIN_TIMEOUT) => {}
            () = signals.until_end_signal(|| true) => {}
        }
        server.volumes.values().for_each(|volume| volume.updates.close());
        // A disk that does not answer does not block the end.
        tokio::time::timeout(ENDING_TIMEOUT, uploads.leave()).await.ok();
        let _ = clock.keep();
        let _ = server.access.save_uses();
        Ok(())
    }
}

/// Returns the server's paths with their handlers. openapi.json describes the paths.
fn table() -> impl Iterator<Item = (&'static str, MethodRouter<Arc<Server>>)> {
    let own = [("/healthz", get(async || "ok\n")), (SOCKET_PATH, get(socket::upgrade))];
    own.into_iter().chain(tunnel::table()).chain(rest::table())
}

fn router(server: Arc<Server>, uploads: Arc<Uploads>) -> Router {
    let add = |router: Router<_>, (path, methods)| router.route(path, methods);
    table()
        .fold(Router::new(), add)
        .fallback(page::answer)
        .layer(Extension(uploads))
        .layer(from_fn(rest::refuse_coded))
        .layer(map_response(problem::as_problem_document))
        .layer(from_fn_with_state(Arc::clone(&server), journal::watch))
        .with_state(server)
}
