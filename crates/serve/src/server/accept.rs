//! Accepts connections, and serves each connection in a task.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use super::acme::TLS_ALPN;
use super::admission::Peer;
use super::leftover::Leftover;
use super::patience::{Patient, paced};
use super::shared::Server;
use crate::pass::Pass;

/// Pause after an error of `accept`.
const PAUSE: Duration = Duration::from_millis(50);
/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// Accepts the connections of a listener, and serves a router on them.
pub(super) struct Door {
    server: Arc<Server>,
    router: Router,
    connections: Arc<Semaphore>,
    wire: Wire,
}

/// Encryption of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// TLS, if the settings have TLS.
    AsConfigured,
    /// No encryption: no other machine reaches the address.
    Loopback,
}

impl Door {
    pub(super) fn new(
        server: Arc<Server>,
        router: Router,
        connections: usize,
        wire: Wire,
    ) -> Arc<Self> {
        let connections = Arc::new(Semaphore::new(connections));
        Arc::new(Self { server, router, connections, wire })
    }

    /// Accepts connections for ever.
    pub(super) async fn open(self: Arc<Self>, listener: TcpListener) -> Infallible {
        let mut spare = Spare::new();
        loop {
            let permit = self.room().await;
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    spare.turn_away(&listener, &error);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let metrics = &self.server.journal.metrics;
            metrics.connections.fetch_add(1, Ordering::Relaxed);
            let peer = self.server.admission.connect(from.ip());
            let peer = Arc::new(peer.holding(permit));
            let door = Arc::clone(&self);
            self.server.tracker.spawn(async move {
                tokio::select! {
                    () = door.converse(stream, Arc::clone(&peer)) => {}
                    () = peer.has_to_leave() => door.turned_away(),
                }
            });
        }
    }

    /// Waits for room for one more connection. Without room, the oldest connection without a token is closed.
    async fn room(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() {
            return permit;
        }
        self.server.admission.make_room();
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    fn turned_away(&self) {
        self.server.journal.metrics.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    async fn converse(&self, stream: TcpStream, peer: Arc<Peer>) {
        stream.set_nodelay(true).ok();
        let limits = self.server.admission.limits();
        end_if_unanswered(&stream, limits.stall());
        // Linger unless a request says otherwise: a malformed head never becomes a request.
        let lingers = Arc::new(AtomicBool::new(true));
        let stream = Patient::new(stream, limits.stall(), Arc::clone(&lingers));
        let tls = self.server.tls.config.borrow().clone();
        let tls = tls.filter(|_| self.wire == Wire::AsConfigured);
        let Some(tls) = tls else { return self.answer(stream, peer, lingers).await };
        let shaking = self.shake(stream, tls, &peer);
        let Ok(Some(stream)) = timeout(limits.head(), shaking).await else { return };
        // An authority that validates a name needs only the handshake.
        if stream.get_ref().1.alpn_protocol() != Some(TLS_ALPN) {
            self.answer(stream, peer, lingers).await;
        }
    }

    /// Performs the TLS handshake. `None` if the handshake fails, or if the rates of handshakes do not allow the
    /// handshake.
    async fn shake(
        &self,
        stream: Patient<TcpStream>,
        tls: Arc<ServerConfig>,
        peer: &Peer,
    ) -> Option<TlsStream<Patient<TcpStream>>> {
        let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await.ok()?;
        let hello = begun.client_hello();
        let pass = hello.alpn().and_then(|mut names| names.find_map(Pass::parse));
        let token = pass.and_then(|pass| self.server.access.passed(&pass));
        if !self.server.admission.admit_handshake(peer, token) {
            self.turned_away();
            return None;
        }
        begun.into_stream(tls).await.ok()
    }

    /// Answers the requests of a connection.
    pub(super) async fn answer(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Arc<Peer>,
        lingers: Arc<AtomicBool>,
    ) {
        let limits = self.server.admission.limits();
        let router = self.router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (mut head, body) = request.into_parts();
            let body = paced(Body::new(body), limits.stall());
            let (leftover, body) = Leftover::watch(&head.headers, body, &lingers);
            head.extensions.insert(Arc::clone(&peer));
            let answered = router.clone().call(hyper::Request::from_parts(head, body));
            async move { Ok::<_, Infallible>(leftover.settle(answered.await?).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head())
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let mut draining = self.server.draining.subscribe();
        tokio::select! {
            _ = &mut connection => return,
            _ = draining.wait_for(|drain| *drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await.ok();
    }
}

/// Lets the kernel end a connection whose client acknowledges nothing for three times `stall`. The buffer of the kernel
/// takes short answers, such as events, for a quarter of an hour after the client's machine has gone.
fn end_if_unanswered(stream: &TcpStream, stall: Duration) {
    let millis = u32::try_from(stall.as_millis()).unwrap_or(u32::MAX).saturating_mul(3);
    sockopt::set_tcp_user_timeout(stream, millis).ok();
}

/// A spare file descriptor, closed for a moment when descriptors run out, so that a waiting connection can be
/// refused.
struct Spare(Option<File>);

impl Spare {
    fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Accepts and closes a waiting connection, if `error` says that the process or the system is out of descriptors.
    fn turn_away(&mut self, listener: &TcpListener, error: &io::Error) {
        let is_full = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
            .iter()
            .any(|full| error.raw_os_error() == Some(full.raw_os_error()));
        if !is_full || self.0.take().is_none() {
            self.0 = self.0.take().or_else(|| File::open("/dev/null").ok());
            return;
        }
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let accepted = listener.poll_accept(&mut context);
        drop(accepted);
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_ends_a_connection_whose_client_acknowledges_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        end_if_unanswered(&stream, Duration::from_secs(60));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 180_000);
    }
}
