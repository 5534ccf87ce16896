//! HTTPS requests to an authority, each over its own connection, bounded in time and length.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::lock;
use crate::private;
use crate::server::config::{AcmeConfig, ConfigError};
use crate::trust::{client_config, client_config_of};

/// Longest time for one request.
const REQUEST: Duration = Duration::from_secs(30);
/// Most hosts in the memory of addresses; an authority uses few hosts.
const MAX_KNOWN: usize = 16;
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// An HTTPS client for an authority.
#[derive(Debug)]
pub(super) struct Caller {
    trust: Arc<ClientConfig>,
    /// Last known addresses of hosts, for use when a name cannot be resolved.
    known: Mutex<BTreeMap<(String, u16), Vec<SocketAddr>>>,
}

impl Caller {
    /// Creates a client that trusts the authority as the settings say.
    pub(super) fn new(settings: &AcmeConfig) -> Result<Self, ConfigError> {
        let bad = |error: rustls::Error| ConfigError::Bad(format!("tls.acme: {error}"));
        let trust = match &settings.ca_file {
            None => client_config(None).map_err(bad)?,
            Some(path) => {
                let shown = path.display();
                let text = private::read_regular(path)
                    .map_err(ConfigError::io(format!("read {shown}")))?;
                let mut roots = RootCertStore::empty();
                for root in CertificateDer::pem_slice_iter(&text) {
                    let root = root.map_err(|why| ConfigError::Bad(format!("{shown}: {why}")))?;
                    roots.add(root).map_err(bad)?;
                }
                if roots.is_empty() {
                    return Err(ConfigError::Bad(format!("{shown}: no certificate in it")));
                }
                client_config_of(|builder| Ok(builder.with_root_certificates(roots)))
                    .map_err(bad)?
            }
        };
        let caller = Self { trust: Arc::new(trust), known: Mutex::default() };
        // The first look-up loads the resolver's libraries and files while the process may still read them. A look-up
        // that fails here may succeed later.
        if let Some(host) = settings.directory.parse::<Uri>().ok().as_ref().and_then(endpoint)
            && let Ok(found) = host.to_socket_addrs()
        {
            lock(&caller.known).insert(host, found.collect());
        }
        Ok(caller)
    }

    /// Resolves the addresses of a host. If the look-up fails, returns the last known addresses.
    async fn find(&self, host: (String, u16)) -> io::Result<Vec<SocketAddr>> {
        let found = lookup_host((&*host.0, host.1)).await.map(Vec::from_iter);
        match found {
            Ok(found) => {
                let mut known = lock(&self.known);
                if known.len() < MAX_KNOWN || known.contains_key(&host) {
                    known.insert(host, found.clone());
                }
                Ok(found)
            }
            Err(why) => lock(&self.known).get(&host).cloned().ok_or(why),
        }
    }

    async fn ask(&self, request: Request<BodyWrapper<Bytes>>) -> io::Result<Response<Full<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        let bad = || io::Error::other(format!("{}: not an address by https://", parts.uri));
        let (host, port) = endpoint(&parts.uri).ok_or_else(bad)?;
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let authority = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
        let failed = |what: &str, why: io::Error| {
            let why = deltic_store_local::reason(&why);
            io::Error::other(format!("cannot {what} {authority}: {why}"))
        };
        let found = self.find((host, port)).await.map_err(|why| failed("find", why))?;
        let stream = TcpStream::connect(&*found).await.map_err(|why| failed("connect to", why))?;
        let connector = TlsConnector::from(Arc::clone(&self.trust));
        let stream = connector.connect(name, stream).await.map_err(|why| failed("trust", why))?;
        let broken = |why: hyper::Error| failed("ask", io::Error::other(why));
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = HeaderValue::try_from(&authority).map_err(io::Error::other)?;
        parts.uri = path.parse().map_err(io::Error::other)?;
        parts.headers.insert(header::HOST, host);
        let answer = async {
            let answer = sender.send_request(Request::from_parts(parts, body)).await;
            let (parts, body) = answer.map_err(broken)?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let body = body.map_err(|why| failed("hear", io::Error::other(why)))?.to_bytes();
            Ok(Response::from_parts(parts, Full::new(body)))
        };
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The connection has ended, and the result of the request is known.
            _ = &mut connection => answer.await,
        }
    }
}

/// Returns host and port of an `https` address.
fn endpoint(uri: &Uri) -> Option<(String, u16)> {
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), uri.port_u16().unwrap_or(443)))
}

/// Adapter from [`Caller`] to the ACME library's client.
pub(super) struct Calls(pub(super) Arc<Caller>);

impl HttpClient for Calls {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let caller = Arc::clone(&self.0);
        Box::pin(async move {
            let late = || io::Error::other("the authority does not answer");
            let answer = timeout(REQUEST, caller.ask(request)).await.map_err(|_| late());
            let answer = answer.and_then(|answer| answer);
            answer.map(BytesResponse::from).map_err(|why| Error::Other(Box::new(why)))
        })
    }
}
