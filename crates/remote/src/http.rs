//! HTTP requests to all systems: bounded answers, retries, and error texts.

use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request, StatusCode, Uri, header};
use roxmltree::{Document, ParsingOptions};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body};

use crate::{RemoteError, counted};

/// Most bytes of an answer other than file content.
pub(crate) const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// Most bytes read of an error's body.
const MAX_WHY_BYTES: u64 = 64 << 10;
/// Most nodes of an XML document.
const MAX_NODES: u32 = 1 << 20;
/// Most redirects in a row.
const MAX_REDIRECTS: usize = 5;
/// Most tries of a request.
const TRIES: u32 = 4;
/// Pause before the second try; doubles before each further try.
const PAUSE: Duration = Duration::from_millis(200);
/// Timeout of a connection attempt.
const CONNECTING: Duration = Duration::from_secs(15);
/// Timeout of the first byte of an answer, and of each further read.
const ANSWERING: Duration = Duration::from_secs(60);
/// Most idle connections to a host.
const CONNECTIONS: usize = 32;

/// An HTTP client, shared by all requests to a system.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    agent: Agent,
    redirects: RedirectPolicy,
    received: Arc<AtomicU64>,
}

/// Names and values of query parameters or headers.
pub(crate) type Pairs<'a> = [(&'a str, String)];

/// Query parameters and headers of a request, each sorted by name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestFields<'a> {
    pub(crate) query: &'a Pairs<'a>,
    pub(crate) headers: &'a Pairs<'a>,
}

/// A range request for a version of an object, and the expected answer.
#[derive(Clone, Debug)]
pub(crate) struct RangeRequest<'a> {
    pub(crate) range: Range<u64>,
    /// Length of the object in bytes.
    pub(crate) of: u64,
    pub(crate) version: ExpectedVersion<'a>,
}

/// Proof that an answer is of the requested version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedVersion<'a> {
    /// The `ETag` must have this value.
    Tag(&'a str),
    /// The header, if present, must have this value.
    Header(&'static str, &'a str),
    /// Answers carry no version. The range is part of the query, and the answer may be a plain 200.
    NotSent,
}

/// An answer with the body.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Treatment of redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectPolicy {
    /// Follow redirects to `http` URLs. Loopback and link-local targets are followed only if the first host has such an
    /// address too.
    Follow,
    /// Return the redirect: a request signed for one host is invalid on another host.
    Tell,
}

impl HttpClient {
    pub(crate) fn new(redirects: RedirectPolicy) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .timeout_connect(Some(CONNECTING))
            .timeout_recv_response(Some(ANSWERING))
            .timeout_per_read(Some(ANSWERING))
            .user_agent(concat!("deltic/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        let received = Arc::default();
        let connector = counted::connector(&received);
        let agent = Agent::with_parts(agent, connector, DefaultResolver::default());
        Self { agent, redirects, received }
    }

    /// Adds bytes received outside of HTTP to [`HttpClient::received`].
    pub(crate) fn count(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that the sockets received, plus bytes counted by [`HttpClient::count`].
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Sends a request, with retries, and returns the answer, even an error status. `make` builds and signs the request
    /// anew for each try.
    ///
    /// # Errors
    /// - [`RemoteError::Unreachable`]: no answer after the last try.
    /// - [`RemoteError::Wrong`]: the answer is too long, or a redirect is not followed.
    pub(crate) fn ask(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
    ) -> Result<HttpAnswer, RemoteError> {
        self.send_with_retries(make, |answer| {
            let is_success = answer.status().is_success();
            let most = if is_success { MAX_ANSWER_BYTES + 1 } else { MAX_WHY_BYTES };
            let answer = HttpAnswer::read(answer, most)?;
            if is_success && answer.body.len() as u64 == most {
                let why = format!("the answer has more than {MAX_ANSWER_BYTES} bytes");
                return Ok(Err(RemoteError::Wrong(why)));
            }
            Ok(Ok(answer))
        })?
    }

    /// Posts a form, without retries.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] if there is no answer.
    pub(crate) fn post_form(&self, url: &str, form: &str) -> Result<HttpAnswer, RemoteError> {
        let kind = "application/x-www-form-urlencoded";
        let sent = self.agent.post(url).content_type(kind).send(form);
        let unreachable = |why: String| RemoteError::Unreachable { server: url.to_owned(), why };
        let answer = sent.map_err(|error| unreachable(error_text(&error)))?;
        HttpAnswer::read(answer, MAX_WHY_BYTES).map_err(unreachable)
    }

    /// Reads the range of `wanted` into `buf`, which is as long as the range. Returns the answer as `Err` within `Ok`
    /// if its status is an error.
    ///
    /// # Errors
    /// The errors of [`HttpClient::ask`], and:
    /// - [`RemoteError::Wrong`]: the answer has another range.
    /// - [`RemoteError::Changed`]: the answer has another version.
    pub(crate) fn range(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
        wanted: &RangeRequest<'_>,
        buf: &mut [u8],
    ) -> Result<Result<(), HttpAnswer>, RemoteError> {
        self.send_with_retries(make, |mut answer| {
            let status = answer.status();
            if !status.is_success() {
                return HttpAnswer::read(answer, MAX_WHY_BYTES).map(|answer| Ok(Err(answer)));
            }
            if let Err(error) = wanted.check(status, answer.headers()) {
                return Ok(Err(error));
            }
            let mut body = answer.body_mut().as_reader();
            body.read_exact(buf).map_err(|error| error.to_string())?;
            if body.read(&mut [0]).map_err(|error| error.to_string())? > 0 {
                return Ok(Err(wanted.wrong("the answer has more bytes")));
            }
            Ok(Ok(Ok(())))
        })?
    }

    fn send_with_retries<T>(
        &self,
        make: &dyn Fn() -> Result<Request<()>, RemoteError>,
        read: impl FnMut(http::Response<Body>) -> Result<T, String>,
    ) -> Result<T, RemoteError> {
        let mut read = read;
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let request = make()?;
            let server = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            let answered = match self.send_following_redirects(request)? {
                Ok(answer) if tries < TRIES && is_transient(answer.status()) => {
                    Err(format!("status {}", answer.status()))
                }
                Ok(answer) => read(answer),
                Err(error) => Err(error_text(&error)),
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

impl HttpClient {
    /// Sends a request and follows redirects, as [`RedirectPolicy`] allows.
    fn send_following_redirects(
        &self,
        request: Request<()>,
    ) -> Result<Result<http::Response<Body>, ureq::Error>, RemoteError> {
        let first = request.uri().authority().cloned();
        let mut answered = self.agent.run(request);
        for _ in 0..MAX_REDIRECTS {
            let Ok(answer) = &answered else { break };
            let is_over =
                !answer.status().is_redirection() || self.redirects == RedirectPolicy::Tell;
            if is_over {
                break;
            }
            let to = header_of(answer.headers(), header::LOCATION.as_str()).unwrap_or_default();
            let uri: Result<Uri, _> = to.parse();
            let uri = uri.ok().filter(|uri| uri.scheme() == Some(&Scheme::HTTP));
            let may = uri.filter(|uri| {
                uri.authority()
                    .is_some_and(|to| !is_here(to) || first.as_ref().is_some_and(is_here))
            });
            let Some(uri) = may else {
                let to = deltic_tree::path::printable(to.as_bytes());
                return Err(RemoteError::Wrong(format!(
                    "a redirect to '{to}' is not followed; name that server in the URL if it is the right one"
                )));
            };
            let next = Request::get(uri).body(());
            answered = self.agent.run(next.map_err(|error| RemoteError::Wrong(error.to_string()))?);
        }
        Ok(answered)
    }
}

/// True for a host with a loopback or link-local address.
fn is_here(authority: &Authority) -> bool {
    let port = authority.port_u16().unwrap_or(80);
    let host = authority.host().trim_matches(['[', ']']);
    (host, port).to_socket_addrs().is_ok_and(|mut all| all.any(|it| is_near(it.ip())))
}

/// True for loopback, link-local and unspecified addresses.
pub(crate) fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

impl HttpAnswer {
    /// Reads at most `most` bytes of the body.
    fn read(mut answer: http::Response<Body>, most: u64) -> Result<Self, String> {
        let mut body = Vec::new();
        let read = answer.body_mut().as_reader().take(most).read_to_end(&mut body);
        read.map_err(|error| error.to_string())?;
        let (parts, _) = answer.into_parts();
        Ok(Self { status: parts.status, headers: parts.headers, body })
    }

    /// The value of a header, if it is ASCII text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.headers, name)
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of `Content-Length`.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.header(header::CONTENT_LENGTH.as_str())?.parse().ok()
    }
}

fn header_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// True for a status after which a retry may succeed.
fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

fn error_text(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => deltic_store::reason(error),
        other => other.to_string(),
    }
}

impl RangeRequest<'_> {
    fn wrong(&self, what: &str) -> RemoteError {
        let Range { start, end } = self.range;
        RemoteError::Wrong(format!("request for bytes {start}–{end} of {}: {what}", self.of))
    }

    /// Checks that an answer has the wanted range of the wanted version.
    fn check(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), RemoteError> {
        match self.version {
            ExpectedVersion::Tag(tag) => match header_of(headers, header::ETAG.as_str()) {
                Some(now) if bare_tag(now) == bare_tag(tag) => {}
                Some(_) => return Err(RemoteError::Changed),
                None => return Err(self.wrong("the answer has no entity tag")),
            },
            ExpectedVersion::Header(name, value) => {
                if header_of(headers, name).is_some_and(|now| now != value) {
                    return Err(RemoteError::Changed);
                }
            }
            ExpectedVersion::NotSent => {}
        }
        match status {
            StatusCode::PARTIAL_CONTENT => match content_range(headers) {
                Some((range, _)) if range != self.range => {
                    Err(self.wrong(&format!("the answer has bytes {}–{}", range.start, range.end)))
                }
                Some((_, of)) if of.is_some_and(|of| of != self.of) => Err(RemoteError::Changed),
                Some(_) => Ok(()),
                None => Err(self.wrong("the answer has no Content-Range")),
            },
            // Systems that take the range in the query answer 200, not 206.
            StatusCode::OK if matches!(self.version, ExpectedVersion::NotSent) || self.is_all() => {
                let len = header_of(headers, header::CONTENT_LENGTH.as_str());
                match len.and_then(|len| len.parse::<u64>().ok()) {
                    Some(len) if len == self.range.end - self.range.start => Ok(()),
                    Some(len) => Err(self.wrong(&format!("the answer has {len} bytes"))),
                    None => Err(self.wrong("the answer has no Content-Length")),
                }
            }
            _ => Err(self.wrong(&format!("the answer is {status}"))),
        }
    }

    fn is_all(&self) -> bool {
        self.range == (0..self.of)
    }
}

/// An entity tag without its quotes.
pub(crate) fn bare_tag(text: &str) -> &str {
    text.trim_matches('"')
}

/// Parses `Content-Range: bytes 0-1/2`: the range, and the object's length unless that is `*`.
fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let says = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, of) = says.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    Some((range, if of == "*" { None } else { Some(of.parse().ok()?) }))
}

/// The value of the `Range` header for `range`, which must not be empty.
pub(crate) fn range_header(range: &Range<u64>) -> String {
    format!("bytes={}-{}", range.start, range.end - 1)
}

/// Percent-encodes all bytes but the unreserved ones of RFC 3986, and slashes if `keeps_slashes`.
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

/// Parses an XML document that may begin with a byte order mark. `what` names the document in errors.
///
/// # Errors
/// [`RemoteError::Wrong`] if the text is not XML, or has too many nodes.
pub(crate) fn xml<'a>(text: &'a str, what: &str) -> Result<Document<'a>, RemoteError> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text.trim_start_matches('\u{feff}'), options)
        .map_err(|error| RemoteError::Wrong(format!("{what} that is not XML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::serve_answers;

    fn read(answer: &str, version: ExpectedVersion<'_>) -> Result<Vec<u8>, String> {
        let server = serve_answers(vec![answer.to_owned()]);
        let client = HttpClient::new(RedirectPolicy::Tell);
        let make = || Ok(Request::get(format!("http://{server}/")).body(()).unwrap());
        let (mut buf, wanted) = (vec![0; 4], RangeRequest { range: 2..6, of: 9, version });
        match client.range(&make, &wanted, &mut buf) {
            Ok(Ok(())) => Ok(buf),
            Ok(Err(answer)) => Err(answer.status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn an_answer_with_another_range_or_version_is_refused() {
        let part = "HTTP/1.1 206 Partial\r\nconnection: close\r\n";
        let tag = ExpectedVersion::Tag("\"a\"");
        let right = format!("{part}etag: a\r\ncontent-range: bytes 2-5/9\r\n");
        let taken = read(&format!("{right}content-length: 4\r\n\r\n2345"), tag);
        assert_eq!(taken.unwrap(), b"2345");
        for (head, why) in [
            ("etag: b\r\ncontent-range: bytes 2-5/9\r\ncontent-length: 4", "changed"),
            ("etag: a\r\ncontent-range: bytes 2-5/8\r\ncontent-length: 4", "changed"),
            (
                "etag: a\r\ncontent-range: bytes 3-6/9\r\ncontent-length: 4",
                "the answer has bytes 3–7",
            ),
            ("content-range: bytes 2-5/9\r\ncontent-length: 4", "no entity tag"),
            ("etag: a\r\ncontent-length: 4", "no Content-Range"),
            ("etag: a\r\ncontent-range: bytes 2-5/9", "more bytes"),
        ] {
            let told = read(&format!("{part}{head}\r\n\r\n23456"), tag).unwrap_err();
            assert!(told.contains(why), "{head}: {told}");
        }
    }

    #[test]
    fn bytes_received_include_headers_and_answers_that_were_tried_again() {
        let busy = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 5\r\n\r\nlater";
        let good = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\ndata";
        let server = serve_answers(vec![busy.to_owned(), good.to_owned()]);
        let client = HttpClient::new(RedirectPolicy::Tell);
        let make = || Ok(Request::get(format!("http://{server}/")).body(()).unwrap());
        assert_eq!(client.ask(&make).unwrap().text(), "data");
        assert_eq!(client.received(), (busy.len() + good.len()) as u64);
    }

    #[test]
    fn redirects_are_followed_to_http_urls_only() {
        let to =
            |to: &str| format!("HTTP/1.1 307 Go\r\nconnection: close\r\nlocation: {to}\r\n\r\n");
        let end = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhere".to_owned();
        let ask = |first: String| {
            let server = serve_answers(vec![first]);
            let make = || Ok(Request::get(format!("http://{server}/")).body(()).unwrap());
            HttpClient::new(RedirectPolicy::Follow).ask(&make).map(|answer| answer.text())
        };
        assert_eq!(ask(to(&format!("http://{}/x", serve_answers(vec![end])))).unwrap(), "here");
        for bad in ["https://127.0.0.1:1/", "file:///etc/passwd", "/x", ""] {
            let told = ask(to(bad)).unwrap_err().to_string();
            assert!(told.contains("a redirect to"), "{bad}: {told}");
        }
        for (ip, near) in [
            ("127.9.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("0.0.0.0", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_near(ip.parse().unwrap()), near, "{ip}");
        }
    }

    #[test]
    fn a_200_answer_must_have_the_length_of_the_range() {
        let all = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
        let taken = read(&format!("{all}content-length: 4\r\n\r\n2345"), ExpectedVersion::NotSent);
        assert_eq!(taken.unwrap(), b"2345");
        for (head, version, why) in [
            ("x: 1\r\n", ExpectedVersion::NotSent, "no Content-Length"),
            ("content-length: 5\r\n", ExpectedVersion::NotSent, "the answer has 5 bytes"),
            ("content-length: 4\r\n", ExpectedVersion::Header("x-goog-generation", "1"), "200 OK"),
            (
                "x-goog-generation: 2\r\n",
                ExpectedVersion::Header("x-goog-generation", "1"),
                "changed",
            ),
        ] {
            let told = read(&format!("{all}{head}\r\n23456"), version).unwrap_err();
            assert!(told.contains(why), "{head}: {told}");
        }
    }
}
