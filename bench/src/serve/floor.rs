//! A lower bound for a server's processor time per sync. A minimal single-threaded server exchanges as many messages
//! over the same TLS and WebSockets. It writes the same file completely, flushes and renames it, and computes nothing.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_websockets::{ClientBuilder, Message, ServerBuilder, WebSocketStream};

use super::clients::ClientSample;
use super::load::ServeOptions;
use super::row::LoadRow;

/// Round trips of a sync and bytes of each message, as seen with `strace` on a server for an edit of 1 kB.
const EXCHANGES: usize = 6;
const UP_BYTES: usize = 320;
const DOWN_BYTES: usize = 120;
const NAME: &str = "localhost";

/// Processor time of the server thread so far, in nanoseconds.
type Spent = Arc<AtomicU64>;

/// Measures the regular load.
pub(super) async fn measure(options: &ServeOptions) -> Result<LoadRow> {
    let dir = tempfile::tempdir_in(&options.dir).context("make a directory")?;
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let (at, spent) = (listener.local_addr()?, Spent::default());
    let (accepts, connects) = keys()?;
    let served = FloorServer {
        content: vec![7; usize::try_from(options.size.bytes())?],
        dir: dir.path().to_owned(),
        spent: Arc::clone(&spent),
    };
    // Nobody joins this thread; it ends with the process.
    std::thread::spawn(move || serve(listener, &accepts, &Arc::new(served)));
    let mut connected = Vec::new();
    for _ in 0..options.clients {
        connected.push(connect(at, &connects).await?);
    }
    let begun = (Instant::now(), spent.load(Ordering::Relaxed));
    let samples = load(connected, options).await?;
    let (wall, spent) = (begun.0.elapsed(), spent.load(Ordering::Relaxed) - begun.1);
    let each = |nanos: u64| nanos as f64 / 1e6 / samples.len().max(1) as f64;
    Ok(LoadRow {
        way: "floor".into(),
        edit: options.edit.bytes(),
        clients: options.clients,
        failed: 0,
        server_ms: each(spent),
        client_ms: 0.0,
        wall,
        resident_kib: 0,
        samples,
    })
}

/// Makes each client run its exchanges once per period.
async fn load(clients: Vec<WebSocket>, options: &ServeOptions) -> Result<Vec<ClientSample>> {
    let (count, begin) = (clients.len(), Instant::now());
    let period = Duration::from_secs_f64(options.period);
    let end = begin + Duration::from_secs_f64(options.seconds);
    let mut tasks = JoinSet::new();
    for (nth, mut client) in clients.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut at = begin + period.mul_f64(nth as f64 / count as f64);
            let mut samples = Vec::new();
            while at < end {
                let due = at.max(Instant::now());
                sleep_until(due.into()).await;
                let (begun, late) = (Instant::now(), due.elapsed());
                for _ in 0..EXCHANGES {
                    client.send(Message::binary(vec![7; UP_BYTES])).await?;
                    client.next().await.context("the floor's server has ended")??;
                }
                let (up, down) = (EXCHANGES * UP_BYTES, EXCHANGES * DOWN_BYTES);
                let (up, down) = (up as u64, down as u64);
                samples.push(ClientSample { elapsed: begun.elapsed(), up, down, late });
                at += period;
            }
            anyhow::Ok(samples)
        });
    }
    let mut all = Vec::new();
    while let Some(samples) = tasks.join_next().await {
        all.extend(samples??);
    }
    Ok(all)
}

/// A stream with or without TLS.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}
type WebSocket = WebSocketStream<Box<dyn ByteStream>>;

async fn connect(at: SocketAddr, tls: &TlsConnector) -> Result<WebSocket> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    let stream = tls.connect(ServerName::try_from(NAME)?, stream).await?;
    Ok(ClientBuilder::new().take_over(Box::new(stream)))
}

/// Content and directory of the files that the server writes.
struct FloorServer {
    content: Vec<u8>,
    dir: PathBuf,
    spent: Spent,
}

/// Serves all connections on this thread.
fn serve(listener: TcpListener, tls: &TlsAcceptor, served: &Arc<FloorServer>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        for client in 0_u64.. {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (tls, served) = (tls.clone(), Arc::clone(served));
            tokio::spawn(async move {
                let socket = ServerBuilder::new().serve(tls.accept(stream).await?);
                served.answer(socket, client).await
            });
        }
        Ok(())
    })
}

impl FloorServer {
    /// Serves a client. Its file is in place before the last message of an exchange.
    async fn answer<T>(&self, mut socket: WebSocketStream<T>, client: u64) -> Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (file, staged) =
            (self.dir.join(client.to_string()), self.dir.join(format!("new-{client}")));
        for message in 1_usize.. {
            let Some(_) = socket.next().await.transpose()? else { break };
            if message.is_multiple_of(EXCHANGES) {
                put(&self.content, &staged, &file)?;
            }
            socket.send(Message::binary(vec![7; DOWN_BYTES])).await?;
            let spent = clock_gettime(ClockId::ThreadCPUTime);
            let nanos = spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64;
            self.spent.store(nanos, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn put(content: &[u8], staged: &Path, file: &Path) -> Result<()> {
    let mut new = File::create(staged)?;
    new.write_all(content)?;
    new.sync_all()?;
    Ok(fs::rename(staged, file)?)
}

/// Makes both sides of TLS with a new key.
fn keys() -> Result<(TlsAcceptor, TlsConnector)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let cert: CertificateDer<'static> = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut trusted = RootCertStore::empty();
    trusted.add(cert.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert], key.into())?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok((Arc::new(server).into(), Arc::new(client).into()))
}
