//! The client: dials a server, and opens streams to a volume there.

mod directory;
mod handshake;
mod refusal;
mod request;
mod tunnel;
mod updates;
mod updating;

use std::future::ready;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use deltic_carrier::control::{FromClient, FromServer, SessionScope};
use deltic_carrier::ends::ClientEnd;
use deltic_net::SyncError;
use deltic_net::plan::{Dial, Stream};
use http::StatusCode;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_websockets::ClientBuilder;

use crate::channel::{Channel, Connection, Mux, invalid, limits};
use crate::lock;
use crate::pass::Pass;
use crate::token::Token;
use crate::trust::{self, TlsFault, client_config};

pub use self::directory::{
    DirectoryRequests, FailedFile, FileVersions, FileVersionsPage, RestoredPage,
};
use self::handshake::NoSocket;
pub use self::request::{KeptVersion, KnownChange, QuotaUse, TokenQuotas, VolumeRights};
pub use self::updates::{Local, State, Updated, Updates};
pub use self::updating::Updating;
pub use crate::percent::escape;

/// Address of a volume on a server, with a path: `https://host[:port]/volume/path`. If a proxy serves the server
/// below a path, that path and `/-` come first: `https://host/below/-/volume/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// True if the connection uses TLS.
    pub is_secret: bool,
    /// Host and port, as written.
    pub authority: String,
    /// Path on the host below which the server is, as written, with a leading slash; usually empty.
    pub below: String,
    /// Name of the volume.
    pub volume: String,
    /// Path in the volume as unescaped bytes, without a leading slash. A trailing slash is kept.
    pub path: Vec<u8>,
    /// The text after `#`, with a token and a pin.
    pub fragment: Option<String>,
}

/// Error for a text that is not the address of a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| BadAddress(why.into());
        let (text, fragment) = match text.split_once('#') {
            Some((text, fragment)) => (text, Some(fragment.to_owned())),
            None => (text, None),
        };
        let (is_secret, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(bad("an address begins with https:// or http://")),
        };
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let parsed = authority.parse::<http::uri::Authority>().ok();
        let parsed = parsed.filter(|parsed| !authority.contains('@') && !parsed.host().is_empty());
        let parsed = parsed.ok_or_else(|| bad("no host behind ://"))?;
        if !is_secret && !is_here(parsed.host()) {
            let why = "http:// would show the token and the files to the network; use https://";
            return Err(bad(why));
        }
        let (below, path) = below(path).ok_or_else(|| bad("invalid path in front of /-/"))?;
        let (volume, path) = path.split_once('/').unwrap_or((path, ""));
        let text = |part: &str| unescape(part).ok_or_else(|| bad("a '%' without two digits"));
        let volume =
            String::from_utf8(text(volume)?).map_err(|_| bad("the volume is not UTF-8"))?;
        let (authority, below) = (authority.to_owned(), below.to_owned());
        Ok(Self { is_secret, authority, below, volume, path: text(path)?, fragment })
    }
}

/// Splits the path of an address into the path below which the server is, and the rest without a leading slash.
/// `None` if the first part is not a valid path.
fn below(path: &str) -> Option<(&str, &str)> {
    let last = || Some((path.strip_suffix(MARK)?, ""));
    let split = path.split_once(MARK_INSIDE).or_else(last);
    let split = split.filter(|(below, _)| !below.is_empty());
    let split = split.unwrap_or_else(|| ("", path.strip_prefix('/').unwrap_or(path)));
    let is_path = split.0.is_empty() || split.0.parse::<http::uri::PathAndQuery>().is_ok();
    is_path.then_some(split)
}

/// Separator between the path below which a server is, and the volume.
const MARK: &str = "/-";
const MARK_INSIDE: &str = "/-/";

/// True if the name of a host means this machine. The name is not resolved.
fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Replaces each `%XX` by its byte. `None` if a `%` has no two digits.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = behind;
            continue;
        }
        let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
        rest = &behind[2..];
    }
    Some(bytes)
}

impl Address {
    /// True if `word` looks like an address.
    #[must_use]
    pub fn looks_like(word: &[u8]) -> bool {
        word.starts_with(b"https://") || word.starts_with(b"http://")
    }

    /// Returns the server's address, as written in an operand.
    #[must_use]
    pub fn server(&self) -> String {
        let mark = if self.below.is_empty() { "" } else { MARK };
        let scheme = if self.is_secret { "https" } else { "http" };
        format!("{scheme}://{}{}{mark}", self.authority, self.below)
    }

    /// True if the host is this machine, by its name or its address.
    #[must_use]
    pub fn is_here(&self) -> bool {
        is_here(&self.endpoint().0)
    }

    /// Returns `path` below the path prefix of the server's address.
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.below)
    }

    /// Returns the volume's address, as written in an operand.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}/{}", self.server(), self.volume)
    }

    /// Returns host and port to connect to.
    fn endpoint(&self) -> (String, u16) {
        let authority: http::uri::Authority = self.authority.parse().expect("it was parsed before");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        (host.into(), authority.port_u16().unwrap_or(if self.is_secret { 443 } else { 80 }))
    }

    /// Returns the value of `key` in the fragment: `#t=…&pin=…`.
    #[must_use]
    pub fn in_fragment(&self, key: &str) -> Option<&str> {
        let mut parts = self.fragment.as_deref()?.split('&');
        parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
    }
}

/// Longest time to connect with TLS, and for the answer to a WebSocket request. Long enough for lost SYNs and for a
/// disk that spins up.
const REACHED_WITHIN: Duration = Duration::from_secs(30);

/// The client's token, and the pin by which the client verifies the server, if any.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The client's token.
    pub token: Token,
    /// The pin of the server's key, if the server has no certificate from an authority.
    pub pin: Option<trust::Pin>,
}

impl Address {
    /// Returns a dialer for sessions of the volume. Each session uses a WebSocket, or plain HTTP if WebSockets are
    /// cut on the way.
    #[must_use]
    pub fn dial(self, credentials: Credentials) -> Dial {
        let (to, is_cut) = (Arc::new((self, credentials)), Arc::new(AtomicBool::new(false)));
        Dial::new(move || {
            let (to, is_cut) = (Arc::clone(&to), Arc::clone(&is_cut));
            Box::pin(async move { to.0.open(&to.1, is_cut).await })
        })
    }

    /// Opens a stream for a session. Sets `is_cut` if WebSockets are cut on the way.
    async fn open(
        &self,
        credentials: &Credentials,
        is_cut: Arc<AtomicBool>,
    ) -> Result<Pin<Box<dyn Stream>>, SyncError> {
        if is_cut.load(Ordering::Relaxed) {
            return Ok(Box::pin(self.tunnel(credentials).await?));
        }
        match self.link(credentials).await {
            Ok((link, heard)) => {
                let channel = link.open().await?;
                // A connection that ends before the server's first message was cut on the way.
                tokio::spawn(async move { is_cut.store(heard.await.is_err(), Ordering::Relaxed) });
                Ok(Box::pin(channel))
            }
            Err(NoLink::Refused(why)) => Err(why),
            Err(NoLink::Cut(why)) => match self.tunnel(credentials).await {
                Ok(stream) => {
                    is_cut.store(true, Ordering::Relaxed);
                    Ok(Box::pin(stream))
                }
                Err(said @ (SyncError::SelectionThere(_) | SyncError::Busy { .. })) => Err(said),
                Err(_) => Err(why),
            },
        }
    }

    /// Connects to the server by a WebSocket, for sessions of this volume.
    ///
    /// # Errors
    /// [`SyncError::Dial`] if the server is not reached or not trusted, [`SyncError::Refused`] if it refuses the
    /// token, [`SyncError::Busy`] if it has no room now.
    pub async fn connect(&self, credentials: &Credentials) -> Result<Link, SyncError> {
        match self.link(credentials).await {
            Ok((link, _)) => Ok(link),
            Err(NoLink::Refused(why) | NoLink::Cut(why)) => Err(why),
        }
    }

    /// Connects to the server by a WebSocket. The returned receiver completes with the server's first message.
    async fn link(
        &self,
        credentials: &Credentials,
    ) -> Result<(Link, oneshot::Receiver<()>), NoLink> {
        let stream = self.reach(credentials).await.map_err(NoLink::Refused)?;
        let upgraded = timeout(REACHED_WITHIN, self.upgrade(stream, &credentials.token)).await;
        let upgraded = upgraded.map_err(|_| NoLink::Cut(self.no_answer_error(REACHED_WITHIN)))?;
        let upgraded = upgraded.map_err(|error| refused(self, error))?;
        let socket = ClientBuilder::new().limits(limits()).take_over(upgraded);
        let (connection, mux) = Connection::new(socket);
        let channels = mux.channels().clone();
        let (first, heard) = oneshot::channel();
        let said = Arc::new(Mutex::new(ClientEnd::default()));
        let ours = Arc::clone(&said);
        tokio::spawn(async move {
            let mut first = Some(first);
            let mut hear = |message: bytes::Bytes| {
                first.take().map(|first| first.send(()));
                let heard = lock(&ours).parse_message(&message).map_err(invalid)?;
                if let FromServer::Refused { channel, why, retry_secs } = heard {
                    // The reader of the channel knows the volume.
                    let why = io::Error::other(refusal(why, retry_secs));
                    let channels = channels.clone();
                    tokio::spawn(async move { channels.close(channel, Some(why)).await });
                }
                Ok(())
            };
            let hear = |message| ready(hear(message));
            // The readers of channels get the error.
            connection.carry(hear, || {}, std::future::pending()).await.ok();
        });
        Ok((Link { mux, to: self.clone(), said }, heard))
    }

    /// Opens a stream to the server in bounded time, by TLS for an `https` address.
    async fn reach(&self, credentials: &Credentials) -> Result<Pin<Box<dyn Stream>>, SyncError> {
        let reached = timeout(REACHED_WITHIN, self.reach_at_last(credentials)).await;
        reached.unwrap_or_else(|_| Err(self.no_answer_error(REACHED_WITHIN)))
    }

    async fn reach_at_last(
        &self,
        credentials: &Credentials,
    ) -> Result<Pin<Box<dyn Stream>>, SyncError> {
        let failed = |what: &str| failed(what, &self.server());
        let (host, port) = self.endpoint();
        // Built before connecting: building takes time, and a busy server closes slow connections.
        let connector = if self.is_secret { Some(connector(credentials)) } else { None };
        let connector = connector.transpose();
        let connector = connector.map_err(|error| failed("connect to")(io::Error::other(error)))?;
        let stream = TcpStream::connect((&*host, port)).await.map_err(failed("connect to"))?;
        stream.set_nodelay(true).ok();
        let Some(connector) = connector else { return Ok(Box::pin(stream)) };
        let name = ServerName::try_from(host)
            .map_err(|error| failed("connect to")(io::Error::other(error)))?;
        let stream = connector.connect(name, stream).await.map_err(TlsFault::unwrap_fault);
        Ok(Box::pin(stream.map_err(failed("trust"))?))
    }

    /// Returns the error for a server that does not answer.
    fn no_answer_error(&self, within: Duration) -> SyncError {
        let why = format!("no answer within {} s", within.as_secs());
        failed("connect to", &self.server())(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

/// Returns a TLS configuration that offers a [pass](Pass) of the token as a protocol (ALPN).
fn connector(credentials: &Credentials) -> Result<TlsConnector, rustls::Error> {
    let mut config = client_config(credentials.pin.as_ref())?;
    let pass = Pass::of(&credentials.token.hash(), SystemTime::now());
    config.alpn_protocols.push(pass.alpn_name());
    Ok(TlsConnector::from(Arc::new(config)))
}

fn failed(what: &str, server: &str) -> impl FnOnce(io::Error) -> SyncError + use<> {
    let what = format!("{what} {server}");
    move |source| SyncError::Dial { what, source }
}

/// A WebSocket connection to a server, and the sessions of a volume over it. Clones share the connection. The
/// connection lasts until the server ends it, or all clones and sessions are dropped.
#[derive(Clone, Debug)]
pub struct Link {
    mux: Mux,
    to: Address,
    /// The client's end of the conversation on channel 0.
    said: Arc<Mutex<ClientEnd>>,
}

impl Link {
    /// Opens a stream for one session.
    ///
    /// # Errors
    /// [`SyncError::Dial`] if the connection has ended.
    pub async fn open(&self) -> Result<Channel, SyncError> {
        let volume = self.to.volume.clone();
        self.channel(|channel| FromClient::Open { channel, volume, scope: SessionScope::default() })
            .await
    }

    /// Opens a channel, and sends the request `asked` for it.
    async fn channel(&self, asked: impl FnOnce(u32) -> FromClient) -> Result<Channel, SyncError> {
        let number = lock(&self.said).new_channel();
        let channel = self.mux.open(number).expect("no number comes twice");
        let said = self.mux.say(asked(number).message()).await;
        said.map_err(failed("connect to", &self.to.server()))?;
        Ok(channel)
    }

    /// Returns a dialer for sessions over this connection.
    #[must_use]
    pub fn dial(&self) -> Dial {
        let link = self.clone();
        Dial::new(move || {
            let link = link.clone();
            Box::pin(async move { Ok(Box::pin(link.open().await?) as Pin<Box<dyn Stream>>) })
        })
    }
}

/// Reason why there is no WebSocket connection.
enum NoLink {
    /// The server was not reached, or refused the token.
    Refused(SyncError),
    /// The WebSocket request got no answer, or an unexpected one: WebSockets may be cut on the way.
    Cut(SyncError),
}

/// Error text for a refused token.
const NO_TOKEN: &str = "the server does not accept the token: it expired, was revoked, or ended with a restart of the server; \
     `deltic token add NAME` on the server prints a new one, with the `deltic login` for this machine";

/// Converts a refusal of the server: busy if there is a time to retry, else a refusal with a reason.
fn refusal(why: String, retry_secs: Option<u32>) -> SyncError {
    match retry_secs {
        Some(secs) => SyncError::Busy { why, wait: Duration::from_secs(secs.into()) },
        None => SyncError::SelectionThere(why),
    }
}

/// Returns the words for an answer with an unexpected status.
fn answer_words(status: StatusCode) -> String {
    let words = format!("the server answered HTTP {}", status.as_u16());
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            format!("{words}; a proxy in between may have failed: see the proxy's log")
        }
        _ => words,
    }
}

/// Converts the failure of a WebSocket request.
fn refused(to: &Address, error: NoSocket) -> NoLink {
    let server = to.server();
    let (why, is_said) = match error {
        NoSocket::Answered(StatusCode::UNAUTHORIZED) => (NO_TOKEN.into(), true),
        NoSocket::Answered(StatusCode::NOT_FOUND | StatusCode::UPGRADE_REQUIRED) => {
            ("there is no deltic server at this address".into(), false)
        }
        NoSocket::Busy(why, wait) => {
            let why = format!("{server}: {why}");
            return NoLink::Refused(SyncError::Busy { why, wait });
        }
        NoSocket::Answered(status) => {
            let is_said = status == StatusCode::TOO_MANY_REQUESTS;
            (answer_words(status), is_said)
        }
        NoSocket::Ended(why) => {
            let ended = io::Error::new(io::ErrorKind::UnexpectedEof, why);
            return NoLink::Cut(failed("connect to", &server)(ended));
        }
        NoSocket::NotHttp(_) if !to.is_secret => {
            return NoLink::Refused(failed("ask", &server)(TlsFault::NotHttp.into()));
        }
        NoSocket::NotHttp(why) | NoSocket::Garbled(why) => {
            (format!("there is no deltic server at this address ({why})"), false)
        }
    };
    let why = SyncError::Refused(format!("{server}: {why}"));
    if is_said { NoLink::Refused(why) } else { NoLink::Cut(why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::new_token;

    #[test]
    fn an_address_names_a_volume_and_a_path_there() {
        let address: Address = "https://nas.example:9000/photos/2026/a%20b/".parse().unwrap();
        assert_eq!((&*address.volume, &*address.path), ("photos", &b"2026/a b/"[..]));
        assert_eq!(address.host(), "https://nas.example:9000/photos");
        assert_eq!(address.endpoint(), ("nas.example".into(), 9000));
        let here: Address = "http://[::1]:8420/v#t=dlt_x&pin=sha256//q=".parse().unwrap();
        assert_eq!((here.endpoint().0.as_str(), &*here.path), ("::1", &b""[..]));
        assert_eq!(here.in_fragment("t"), Some("dlt_x"));
        assert_eq!(here.in_fragment("pin"), Some("sha256//q="));
        assert_eq!("https://h/v".parse::<Address>().unwrap().endpoint().1, 443);
        let behind: Address = "https://h/a/my%20files/-/photos/2026/-/x".parse().unwrap();
        assert_eq!((&*behind.volume, &*behind.path), ("photos", &b"2026/-/x"[..]));
        assert_eq!(behind.at("/v1/volumes"), "/a/my%20files/v1/volumes");
        assert_eq!(behind.host(), "https://h/a/my%20files/-/photos");
        let login: Address = "https://h/a/-#t=x".parse().unwrap();
        assert_eq!((login.server(), &*login.volume), ("https://h/a/-".into(), ""));
        assert_eq!("https://h/a/-/".parse::<Address>().unwrap().server(), login.server());
        let plain: Address = "https://h/-/x".parse().unwrap();
        assert_eq!((&*plain.below, &*plain.volume), ("", "-"), "a volume may be called so");
        for (bad, why) in [
            ("http://nas.example/v/", "use https://"),
            ("http://127.0.0.1.evil.example/v/", "use https://"),
            ("https:///v/", "no host"),
            ("https://me@h/v/", "no host"),
            ("ftp://h/v/", "begins with"),
            ("https://h/v/%4", "two digits"),
            ("https://h/v/%+1", "two digits"),
            ("https://h/a b/-/v/", "in front of /-/"),
        ] {
            let error = bad.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_accepts_and_says_nothing_is_given_up() {
        // The system accepts connections for the listener.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = silent.local_addr().unwrap();
        let pin = Some(trust::Pin::of(b"any key"));
        let credentials = Credentials { token: new_token(), pin };
        for scheme in ["https", "http"] {
            let address: Address = format!("{scheme}://{at}/v/").parse().unwrap();
            let begun = tokio::time::Instant::now();
            let error = address.connect(&credentials).await.unwrap_err().to_string();
            assert_eq!(error, format!("cannot connect to {scheme}://{at}: no answer within 30 s"));
            assert_eq!(begun.elapsed().as_secs(), REACHED_WITHIN.as_secs());
        }
        let address: Address = format!("http://{at}/v/f").parse().unwrap();
        let mut requests = request::Requests::new(&address, &credentials);
        let asked = requests.ask(http::Method::GET, "/", bytes::Bytes::new()).await;
        let error = asked.unwrap_err().to_string();
        assert_eq!(error, format!("cannot connect to http://{at}: no answer within 120 s"));
    }
}
