//! Requests, as all systems here make them: bounded answers, a few tries, words for what went wrong.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::RemoteError;

/// Most bytes of an answer that is no file.
pub(crate) const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Most bytes of an error that are looked at.
const MAX_WHY_BYTES: u64 = 64 << 10;
/// Times that a request is made at most.
const TRIES: u32 = 4;
/// Pause before the second try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for a connection.
const CONNECTING: Duration = Duration::from_secs(15);
/// Longest wait for the first byte of an answer, and for each next piece.
const ANSWERING: Duration = Duration::from_secs(60);
/// Connections that are kept open to each host.
const CONNECTIONS: usize = 32;

/// A client of HTTP, which all requests to a system share.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    agent: Agent,
    received: Arc<AtomicU64>,
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Whether an answer leads elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// It is followed.
    Follow,
    /// It is an answer: what is signed for one host is of no use to another.
    Tell,
}

impl Client {
    pub(crate) fn new(redirects: Redirects) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let most = if redirects == Redirects::Follow { 5 } else { 0 };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(most)
            .max_redirects_will_error(redirects == Redirects::Follow)
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .timeout_connect(Some(CONNECTING))
            .timeout_recv_response(Some(ANSWERING))
            .timeout_per_read(Some(ANSWERING))
            .user_agent(concat!("deltic/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Self { agent: agent.into(), received: Arc::default() }
    }

    /// Bytes of bodies that came.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Makes a request until it is answered; `make` signs it anew each time. The answer may be an error of the system.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where it is not, [`RemoteError::Wrong`] where the answer is too long.
    pub(crate) fn ask(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
    ) -> Result<Answer, RemoteError> {
        self.tried(make, |mut answer| {
            let most = if answer.status().is_success() { MAX_ANSWER_BYTES } else { MAX_WHY_BYTES };
            let mut body = Vec::new();
            let read = answer.body_mut().as_reader().take(most + 1).read_to_end(&mut body);
            self.received.fetch_add(body.len() as u64, Ordering::Relaxed);
            read.map_err(|error| error.to_string())?;
            if body.len() as u64 > most {
                if answer.status().is_success() {
                    return Ok(Err(RemoteError::Wrong(format!(
                        "an answer of more than {most} bytes"
                    ))));
                }
                body.truncate(most as usize);
            }
            let (parts, _) = answer.into_parts();
            Ok(Ok(Answer { status: parts.status, headers: parts.headers, body }))
        })?
    }

    /// Posts a form, once.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn post_form(&self, url: &str, form: &str) -> Result<Answer, RemoteError> {
        let kind = "application/x-www-form-urlencoded";
        let sent = self.agent.post(url).content_type(kind).send(form);
        let unreachable = |why: String| RemoteError::Unreachable { server: url.to_owned(), why };
        let mut answer = sent.map_err(|error| unreachable(said(&error)))?;
        let mut body = Vec::new();
        let read = answer.body_mut().as_reader().take(MAX_WHY_BYTES).read_to_end(&mut body);
        read.map_err(|error| unreachable(error.to_string()))?;
        let (parts, _) = answer.into_parts();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Reads a range into `buf`, which is as long; what else comes is an answer for `refuse` to put into words.
    ///
    /// # Errors
    /// As [`Client::ask`]; [`RemoteError::Wrong`] where another range comes.
    pub(crate) fn range(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
        (range, of): (Range<u64>, u64),
        buf: &mut [u8],
    ) -> Result<Result<(), Answer>, RemoteError> {
        self.tried(make, |mut answer| {
            let status = answer.status();
            let len = header_of(answer.headers(), header::CONTENT_LENGTH.as_str());
            let is_long = len.and_then(|len| len.parse().ok()).unwrap_or(of) == buf.len() as u64;
            // Who is asked for a range in the query answers it as a whole.
            let whole = status == StatusCode::OK && is_long;
            if status != StatusCode::PARTIAL_CONTENT && !whole {
                let mut body = Vec::new();
                // An answer that ignores the range would be the whole file.
                let read = answer.body_mut().as_reader().take(MAX_WHY_BYTES).read_to_end(&mut body);
                read.map_err(|error| error.to_string())?;
                let (parts, _) = answer.into_parts();
                return Ok(Ok(Err(Answer { status, headers: parts.headers, body })));
            }
            let says = content_range(answer.headers());
            if says.as_ref().is_some_and(|says| *says != range) {
                let why = format!("bytes {range:?} were asked for, and {says:?} came");
                return Ok(Err(RemoteError::Wrong(why)));
            }
            answer.body_mut().as_reader().read_exact(buf).map_err(|error| error.to_string())?;
            self.received.fetch_add(buf.len() as u64, Ordering::Relaxed);
            Ok(Ok(Ok(())))
        })?
    }

    fn tried<T>(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
        read: impl FnMut(http::Response<Body>) -> Result<T, String>,
    ) -> Result<T, RemoteError> {
        let mut read = read;
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let request = make()?;
            let server = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            let answered = match self.agent.run(request) {
                Ok(answer) if tries < TRIES && is_passing(answer.status()) => {
                    Err(format!("status {}", answer.status()))
                }
                Ok(answer) => read(answer),
                Err(error) => Err(said(&error)),
            };
            match answered {
                Ok(answer) => return Ok(answer),
                Err(why) if tries == TRIES => {
                    return Err(RemoteError::Unreachable { server, why });
                }
                Err(_) => {}
            }
            thread::sleep(pause);
            (tries, pause) = (tries + 1, pause * 2);
        }
    }
}

impl Answer {
    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.headers, name)
    }

    /// Its body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Length of the object that it is about.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.header(header::CONTENT_LENGTH.as_str())?.parse().ok()
    }
}

fn header_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// True for what is most likely over soon.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

fn said(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => deltic_store::reason(error),
        other => other.to_string(),
    }
}

/// The range that `Content-Range: bytes 0-1/2` names.
fn content_range(headers: &HeaderMap) -> Option<Range<u64>> {
    let says = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, _) = says.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
}

/// The text of the header that asks for a range.
pub(crate) fn range_header(range: &Range<u64>) -> String {
    format!("bytes={}-{}", range.start, range.end - 1)
}

/// Escapes all but what is never escaped, and slashes where `keeps_slashes`.
pub(crate) fn escaped(text: &str, keeps_slashes: bool) -> String {
    let mut to = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                to.push(char::from(byte));
            }
            b'/' if keeps_slashes => to.push('/'),
            _ => to.push_str(&format!("%{byte:02X}")),
        }
    }
    to
}
