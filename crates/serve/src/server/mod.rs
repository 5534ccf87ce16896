//! The server: one port for WebSockets and plain HTTP.
//!
//! It is [prepared](prepare) while the process has one thread: it binds its address, reads its keys
//! and tokens, and has the process keep to its volumes and its own directory ([`keep_to_volumes`]). Then it
//! [runs](Prepared::run) in a runtime of its own. A connection is a task; sessions share one executor.

pub mod access;
pub mod config;
pub mod keep;
mod problem;
mod rest;
mod shared;
mod socket;
pub mod tls;
mod volume;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use deltic_net::embed::{Embedding, RecipeCache};
use deltic_net::executor::Budget;
use deltic_net::restrict::{Wall, keep_to_volumes};
use deltic_store_local::VolumeDir;
use deltic_tree::Name;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use self::access::{Access, Grant, TokenFile};
use self::config::{Config, ConfigError};
use self::keep::Keep;
use self::problem::Problem;
use self::shared::Server;
use self::tls::{Identity, identity};
use self::volume::Volume;
use crate::SOCKET_PATH;
use crate::token::Token;

/// Longest time for a TLS handshake, and for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Open files besides connections.
const FILES: usize = 512;
/// Handshakes at once: each costs processor time before anybody is known.
const HANDSHAKES: usize = 64;
/// Requests at once that wait for the disk.
const DISK_REQUESTS: usize = 32;
/// Longest time for a thread to end that waits for a disk.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for sessions under way once the server is told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that has all that it needs, and serves nobody yet.
pub struct Prepared {
    server: Server,
    listener: TcpListener,
    identity: Option<Identity>,
    connections: usize,
    /// State of the wall around the volumes.
    pub wall: Wall,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Prepares a server; with `own`, a token for whoever started it. No other thread may have been started.
///
/// # Errors
/// [`ConfigError`] where the settings make no sense, or something is not to be had.
pub fn prepare(config: &Config, own: Option<&Token>) -> Result<Prepared, ConfigError> {
    config.check()?;
    let connections = limit_connections(config.limits.connections);
    let listener = TcpListener::bind(config.listen)
        .map_err(ConfigError::io(format!("listen on {}", config.listen)))?;
    let address = listener.local_addr().map_err(ConfigError::io("listen"))?;
    let identity = identity(&config.tls, &config.state)?;
    let own = own.map(|token| (token.hash(), Grant::all("who started the server")));
    let access = Access::new(TokenFile::of(&config.state), own)
        .map_err(ConfigError::io(format!("read tokens in {}", config.state.display())))?;
    let named = config.volumes.iter().filter_map(|(name, volume)| {
        let versions = volume.versions.map(|Keep(versions)| versions);
        let name = Name::new(name.as_bytes()).ok()?;
        Some(VolumeDir { name, path: volume.path.clone(), versions })
    });
    let named: Vec<_> = named.collect();
    let wall = keep_to_volumes(&named, std::slice::from_ref(&config.state))
        .map_err(ConfigError::io("keep to the volumes"))?;
    let volumes = config.volumes.iter().zip(&named);
    let volumes = volumes
        .map(|((text, volume), dir)| (text.clone(), Volume::new(dir.name.clone(), volume)))
        .collect();
    let limits = config.limits;
    let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut tag_key = [0; 32];
    getrandom::fill(&mut tag_key).expect("the system has randomness");
    let server = Server {
        volumes,
        access,
        embedding: Embedding {
            budget: Budget { work_bytes: bytes(limits.session_bytes), ..Budget::default() },
            recipes: Some(RecipeCache::new(bytes(limits.recipe_bytes))),
            ..Embedding::default()
        },
        sessions: Arc::new(Semaphore::new(limits.sessions)),
        disk: Arc::new(Semaphore::new(DISK_REQUESTS)),
        upload_bytes: limits.upload_bytes,
        draining: watch::Sender::new(false),
        tracker: TaskTracker::new(),
        clients: watch::Sender::default(),
        tag_key,
    };
    Ok(Prepared { server, listener, identity, connections, wall, address })
}

/// Raises the number of files that may be open as far as it goes, and leaves some for files besides connections.
fn limit_connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).ok();
    let open = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |open| open as usize);
    wanted.min(open.saturating_sub(FILES)).max(1)
}

impl Prepared {
    /// Pin of our own certificate, which clients are told.
    #[must_use]
    pub fn pin(&self) -> Option<&str> {
        self.identity.as_ref()?.pin.as_deref()
    }

    /// Serves until the process is told to end, and then until sessions under way have ended, or some time has passed.
    ///
    /// # Errors
    /// [`ConfigError`] where the system has no runtime for us.
    pub fn run(self) -> Result<(), ConfigError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(ConfigError::io("start a runtime"))?;
        let ended = runtime.block_on(self.serve());
        // A disk that does not answer holds nobody up.
        runtime.shutdown_timeout(ENDING_TIMEOUT);
        ended
    }

    async fn serve(self) -> Result<(), ConfigError> {
        let Self { server, listener, identity, connections, .. } = self;
        let failed = |what: &'static str| ConfigError::io(what);
        listener.set_nonblocking(true).map_err(failed("listen"))?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed("listen"))?;
        let mut told = deltic_net::told_to_end();
        let server = Arc::new(server);
        let router = router(Arc::clone(&server));
        let watching = Arc::clone(&server);
        tokio::spawn(async move { watching.access.watch(watching.clients.subscribe()).await });
        tokio::spawn(rest::expire(Arc::clone(&server)));
        let (connections, handshakes) =
            (Arc::new(Semaphore::new(connections)), Arc::new(Semaphore::new(HANDSHAKES)));
        let acceptor = identity.map(|identity| TlsAcceptor::from(identity.config));
        loop {
            let accepted = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (listener.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut told => break,
            };
            let Ok((stream, _)) = accepted else {
                // No descriptor is left, or the client has gone: there will be others.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            stream.set_nodelay(true).ok();
            let (router, acceptor) = (router.clone(), acceptor.clone());
            let handshakes = Arc::clone(&handshakes);
            let draining = server.draining.subscribe();
            server.tracker.spawn(async move {
                let _permit = permit;
                match acceptor {
                    None => converse(stream, router, draining).await,
                    Some(acceptor) => {
                        let shaking = async {
                            let _turn = handshakes.acquire().await;
                            acceptor.accept(stream).await
                        };
                        if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, shaking).await {
                            converse(stream, router, draining).await;
                        }
                    }
                }
            });
        }
        drop(listener);
        server.draining.send_replace(true);
        server.tracker.close();
        tokio::select! {
            () = server.tracker.wait() => {}
            () = tokio::time::sleep(DRAIN_TIMEOUT) => {}
            () = deltic_net::told_to_end() => {}
        }
        Ok(())
    }
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route(SOCKET_PATH, get(socket::upgrade))
        .merge(rest::routes())
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "no such address"))
        .with_state(server)
}

/// Answers the requests of a connection.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    mut draining: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        _ = draining.wait_for(|drain| *drain) => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}
