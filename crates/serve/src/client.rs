//! The client: dials a server, and has a stream to a volume there.

mod handshake;
mod refusal;
mod request;
mod tunnel;
mod updates;
mod updating;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use deltic_carrier::control::{FromClient, FromServer};
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
use crate::trust::{self, WrongPin, client_config};

use self::handshake::NoSocket;
pub use self::request::KeptVersion;
pub use self::updates::{Local, State, Updated, Updates};
pub use self::updating::Updating;

/// Address of a server's volume, and a path there: `https://host[:port]/volume/path`. Where a proxy has the server
/// below a path, that and `/-` stand in front: `https://host/below/-/volume/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether the connection is secret.
    pub is_secret: bool,
    /// Host and port, as they were written.
    pub authority: String,
    /// Path below which the host has the server, as it was written, with a slash in front; most often nothing.
    pub below: String,
    /// The volume.
    pub volume: String,
    /// Bytes of the path in the volume, without the slash in front; a slash at the end counts.
    pub path: Vec<u8>,
    /// What stands behind `#`: a token, a pin.
    pub fragment: Option<String>,
}

/// Why a text is no address of a volume.
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
        let (below, path) = below(path).ok_or_else(|| bad("the path in front of /-/ is none"))?;
        let (volume, path) = path.split_once('/').unwrap_or((path, ""));
        let text = |part: &str| unescape(part).ok_or_else(|| bad("a '%' without two digits"));
        let volume =
            String::from_utf8(text(volume)?).map_err(|_| bad("the volume is not UTF-8"))?;
        let (authority, below) = (authority.to_owned(), below.to_owned());
        Ok(Self { is_secret, authority, below, volume, path: text(path)?, fragment })
    }
}

/// Splits what stands behind a host into the path below which the server is, and the rest without a slash in front.
fn below(path: &str) -> Option<(&str, &str)> {
    let last = || Some((path.strip_suffix(MARK)?, ""));
    let split = path.split_once(MARK_INSIDE).or_else(last);
    let split = split.filter(|(below, _)| !below.is_empty());
    let split = split.unwrap_or_else(|| ("", path.strip_prefix('/').unwrap_or(path)));
    let is_path = split.0.is_empty() || split.0.parse::<http::uri::PathAndQuery>().is_ok();
    is_path.then_some(split)
}

/// Stands between the path below which a server is, and its volumes.
const MARK: &str = "/-";
const MARK_INSIDE: &str = "/-/";

/// Whether a host is this machine, by its name alone.
fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Replaces `%XX` by the bytes that it stands for.
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
    /// True if a word is meant as an address.
    #[must_use]
    pub fn looks_like(word: &[u8]) -> bool {
        word.starts_with(b"https://") || word.starts_with(b"http://")
    }

    /// The server, as an operand names it.
    #[must_use]
    pub fn server(&self) -> String {
        let mark = if self.below.is_empty() { "" } else { MARK };
        let scheme = if self.is_secret { "https" } else { "http" };
        format!("{scheme}://{}{}{mark}", self.authority, self.below)
    }

    /// The path of a request at the host.
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.below)
    }

    /// The volume, as an operand names it.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}/{}", self.server(), self.volume)
    }

    /// Host and port to connect to.
    fn endpoint(&self) -> (String, u16) {
        let authority: http::uri::Authority = self.authority.parse().expect("it was parsed before");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        (host.into(), authority.port_u16().unwrap_or(if self.is_secret { 443 } else { 80 }))
    }

    /// A value of the fragment: `#t=…&pin=…`.
    #[must_use]
    pub fn in_fragment(&self, key: &str) -> Option<&str> {
        let mut parts = self.fragment.as_deref()?.split('&');
        parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
    }
}

/// Longest time for a connection with TLS, and for the answer to a request for a WebSocket: long enough for SYNs that
/// are lost, and for a disk that spins up.
const REACHED_WITHIN: Duration = Duration::from_secs(30);

/// How a client shows who it is, and knows the server.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token.
    pub token: Token,
    /// The server's key, where no authority vouches for it.
    pub pin: Option<trust::Pin>,
}

impl Address {
    /// Dials the volume, once for each session: over a WebSocket, or by plain HTTP where something cuts that.
    #[must_use]
    pub fn dial(self, credentials: Credentials) -> Dial {
        let (to, is_cut) = (Arc::new((self, credentials)), Arc::new(AtomicBool::new(false)));
        Dial::new(move || {
            let (to, is_cut) = (Arc::clone(&to), Arc::clone(&is_cut));
            Box::pin(async move { to.0.open(&to.1, is_cut).await })
        })
    }

    /// Opens a stream for a session; remembers that WebSockets are cut.
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
                let channel = link.open()?;
                // What ends before the server said a word is cut on the way.
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

    /// Connects to the server, for sessions of this volume.
    ///
    /// # Errors
    /// [`SyncError::Dial`] where it is not reached or not trusted, [`SyncError::Refused`] where it does not let us in.
    pub async fn connect(&self, credentials: &Credentials) -> Result<Link, SyncError> {
        match self.link(credentials).await {
            Ok((link, _)) => Ok(link),
            Err(NoLink::Refused(why) | NoLink::Cut(why)) => Err(why),
        }
    }

    /// The same, with who hears once the server has said anything.
    async fn link(
        &self,
        credentials: &Credentials,
    ) -> Result<(Link, oneshot::Receiver<()>), NoLink> {
        let stream = self.reach(credentials).await.map_err(NoLink::Refused)?;
        let upgraded = timeout(REACHED_WITHIN, self.upgrade(stream, &credentials.token)).await;
        let upgraded = upgraded.map_err(|_| NoLink::Cut(self.is_silent(REACHED_WITHIN)))?;
        let upgraded = upgraded.map_err(|error| refused(self, error))?;
        let socket = ClientBuilder::new().limits(limits()).take_over(upgraded);
        let (connection, mux) = Connection::new(socket);
        let channels = mux.channels().clone();
        let (first, heard) = oneshot::channel();
        let said = Arc::new(Mutex::new(ClientEnd::default()));
        let ours = Arc::clone(&said);
        tokio::spawn(async move {
            let mut first = Some(first);
            let hear = |message: bytes::Bytes| {
                first.take().map(|first| first.send(()));
                let heard = lock(&ours).hear(&message).map_err(invalid)?;
                if let FromServer::Refused { channel, why, retry_secs } = heard {
                    // Whoever has the channel says of which volume.
                    let why = io::Error::other(refusal(why, retry_secs));
                    let channels = channels.clone();
                    tokio::spawn(async move { channels.close(channel, Some(why)).await });
                }
                Ok(())
            };
            // How it ended, whoever has the channel hears.
            connection.carry(hear, || {}, std::future::pending()).await.ok();
        });
        Ok((Link { mux, to: self.clone(), said }, heard))
    }

    /// Opens a stream to the server, by TLS unless it is this machine; not for ever.
    async fn reach(&self, credentials: &Credentials) -> Result<Pin<Box<dyn Stream>>, SyncError> {
        let reached = timeout(REACHED_WITHIN, self.reach_at_last(credentials)).await;
        reached.unwrap_or_else(|_| Err(self.is_silent(REACHED_WITHIN)))
    }

    async fn reach_at_last(
        &self,
        credentials: &Credentials,
    ) -> Result<Pin<Box<dyn Stream>>, SyncError> {
        let failed = |what: &str| failed(what, &self.server());
        let (host, port) = self.endpoint();
        // Settings take time, which a server that has many strangers does not give.
        let connector = if self.is_secret { Some(connector(credentials)) } else { None };
        let connector = connector.transpose();
        let connector = connector.map_err(|error| failed("connect to")(io::Error::other(error)))?;
        let stream = TcpStream::connect((&*host, port)).await.map_err(failed("connect to"))?;
        stream.set_nodelay(true).ok();
        let Some(connector) = connector else { return Ok(Box::pin(stream)) };
        let name = ServerName::try_from(host)
            .map_err(|error| failed("connect to")(io::Error::other(error)))?;
        let stream = connector.connect(name, stream).await.map_err(WrongPin::unwrapped);
        Ok(Box::pin(stream.map_err(failed("trust"))?))
    }

    /// Error of a server that says nothing.
    fn is_silent(&self, within: Duration) -> SyncError {
        let why = format!("no answer within {} s", within.as_secs());
        failed("connect to", &self.server())(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

/// Settings of TLS, with a pass of the token.
fn connector(credentials: &Credentials) -> Result<TlsConnector, rustls::Error> {
    let mut config = client_config(credentials.pin.as_ref())?;
    let pass = Pass::of(&credentials.token.hash(), SystemTime::now());
    config.alpn_protocols.push(pass.protocol());
    Ok(TlsConnector::from(Arc::new(config)))
}

fn failed(what: &str, server: &str) -> impl FnOnce(io::Error) -> SyncError + use<> {
    let what = format!("{what} {server}");
    move |source| SyncError::Dial { what, source }
}

/// A connection to a server, and the sessions of a volume over it; clones share it. It lasts until the
/// server ends it, or all clones and sessions are gone.
#[derive(Clone, Debug)]
pub struct Link {
    mux: Mux,
    to: Address,
    /// Our end of the conversation in channel 0.
    said: Arc<Mutex<ClientEnd>>,
}

impl Link {
    /// Opens a stream for one session.
    ///
    /// # Errors
    /// Where the connection has ended.
    pub fn open(&self) -> Result<Channel, SyncError> {
        let volume = self.to.volume.clone();
        self.channel(|channel| FromClient::Open { channel, volume })
    }

    /// Opens a channel for what is asked of the server.
    fn channel(&self, asked: impl FnOnce(u32) -> FromClient) -> Result<Channel, SyncError> {
        let number = lock(&self.said).new_channel();
        let channel = self.mux.open(number).expect("no number comes twice");
        self.mux.say(asked(number).message()).map_err(failed("connect to", &self.to.server()))?;
        Ok(channel)
    }

    /// Dials the volume over this connection.
    #[must_use]
    pub fn dial(&self) -> Dial {
        let link = self.clone();
        Dial::new(move || {
            let channel = link.open();
            Box::pin(async move { Ok(Box::pin(channel?) as Pin<Box<dyn Stream>>) })
        })
    }
}

/// Why there is no connection for sessions.
enum NoLink {
    /// The server is not reached, or does not let us in.
    Refused(SyncError),
    /// The request for a WebSocket had another answer, or none: something on the way may have cut it.
    Cut(SyncError),
}

/// Says that a token does not let us in.
const NO_TOKEN: &str =
    "the token is not one of this server, or has ended; `deltic login` keeps another one";

/// Says that a server has no room now, or why it refuses something.
fn refusal(why: String, retry_secs: Option<u32>) -> SyncError {
    match retry_secs {
        Some(secs) => SyncError::Busy { why, wait: Duration::from_secs(secs.into()) },
        None => SyncError::SelectionThere(why),
    }
}

/// Says why a server did not let us in.
fn refused(to: &Address, error: NoSocket) -> NoLink {
    let server = to.server();
    let (why, is_said) = match error {
        NoSocket::Answered(StatusCode::UNAUTHORIZED) => (NO_TOKEN.into(), true),
        NoSocket::Answered(StatusCode::NOT_FOUND | StatusCode::UPGRADE_REQUIRED) => {
            ("no deltic serves there".into(), false)
        }
        NoSocket::Busy(why, wait) => {
            let why = format!("{server}: {why}");
            return NoLink::Refused(SyncError::Busy { why, wait });
        }
        NoSocket::Answered(status) => {
            let is_said = status == StatusCode::TOO_MANY_REQUESTS;
            (format!("it answered {}", status.as_u16()), is_said)
        }
        NoSocket::Ended(why) => {
            let ended = io::Error::new(io::ErrorKind::UnexpectedEof, why);
            return NoLink::Cut(failed("connect to", &server)(ended));
        }
        NoSocket::Garbled(why) => (format!("no deltic serves there ({why})"), false),
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
        // The system accepts for it.
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
        let asked = requests.ask((http::Method::GET, "/"), bytes::Bytes::new()).await;
        let error = asked.unwrap_err().to_string();
        assert_eq!(error, format!("cannot connect to http://{at}: no answer within 120 s"));
    }
}
