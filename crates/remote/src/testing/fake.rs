//! A fake HTTP server of objects in memory. A dialect answers requests in the protocol of a system.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::conformance::TestPlace;
use crate::system::StorageSystem;

/// Length in bytes of separately checksummed parts, in systems where the writer chooses it.
pub(crate) const PART: usize = 1 << 20;

/// A version of an object.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) bytes: Vec<u8>,
    /// Number of the version, unique in a server.
    pub(crate) no: u64,
}

/// The state of a fake server.
#[derive(Debug, Default)]
pub(crate) struct FakeServer {
    state: Mutex<FakeState>,
    /// Return checksums of other bytes.
    lies: bool,
    /// Port of the system's second protocol.
    besides: OnceLock<u16>,
}

#[derive(Debug, Default)]
struct FakeState {
    objects: BTreeMap<String, StoredObject>,
    versions: u64,
    /// Path and bytes of an object to put during the next read.
    next: Option<(String, Vec<u8>)>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct TestRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct TestAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// Answers a request in the protocol of a system.
pub(crate) type Dialect = fn(&FakeServer, &TestRequest) -> TestAnswer;

/// A client under test with a fake server.
pub(crate) struct ServedSystem<S> {
    pub(crate) fake: Arc<FakeServer>,
    pub(crate) system: Arc<S>,
}

impl<S: StorageSystem> TestPlace for ServedSystem<S> {
    type System = S;

    fn system(&self) -> Arc<S> {
        Arc::clone(&self.system)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        self.fake.state.lock().unwrap().put(path, bytes);
    }

    fn put_during_read(&self, path: &str, bytes: &[u8]) -> bool {
        self.fake.state.lock().unwrap().next = Some((path.into(), bytes.into()));
        true
    }
}

impl FakeState {
    fn put(&mut self, path: &str, bytes: &[u8]) {
        self.versions += 1;
        self.objects.insert(path.into(), StoredObject { bytes: bytes.into(), no: self.versions });
    }
}

impl FakeServer {
    pub(crate) fn new(lies: bool) -> Arc<Self> {
        Arc::new(Self { lies, ..Self::default() })
    }

    /// Starts the HTTP server, for the life of the process. Returns host and port.
    pub(crate) fn serve(self: &Arc<Self>, dialect: Dialect) -> String {
        let fake = Arc::clone(self);
        let answer = move |stream: TcpStream| {
            let asked = TestRequest::read(&stream);
            let told = dialect(&fake, &asked);
            told.write(&stream, asked.method == "HEAD");
        };
        listen(answer).to_string()
    }

    /// Starts a server of the second protocol, on [`FakeServer::port`].
    pub(crate) fn serve_second_port(self: &Arc<Self>, answer: fn(&Self, TcpStream)) {
        let fake = Arc::clone(self);
        let at = listen(move |stream| answer(&fake, stream));
        self.besides.set(at.port()).unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        *self.besides.get().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Option<StoredObject> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// The object version `no`, unless replaced.
    pub(crate) fn version(&self, no: u64) -> Option<StoredObject> {
        self.state.lock().unwrap().objects.values().find(|kept| kept.no == no).cloned()
    }

    pub(crate) fn all(&self) -> BTreeMap<String, StoredObject> {
        self.state.lock().unwrap().objects.clone()
    }

    /// Returns the bytes to checksum for `bytes`: other bytes if the server returns wrong checksums.
    pub(crate) fn summed<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut summed = Cow::Borrowed(bytes);
        if self.lies && !bytes.is_empty() {
            summed.to_mut()[0] ^= 1;
        }
        summed
    }

    /// A range of an object's content. Then the `next` object is put.
    pub(crate) fn content(&self, kept: &StoredObject, range: Range<usize>) -> Vec<u8> {
        let mut state = self.state.lock().unwrap();
        if let Some((path, bytes)) = state.next.take() {
            state.put(&path, &bytes);
        }
        kept.bytes[range].to_vec()
    }

    /// The answer to a `Range` header such as `bytes=0-1`.
    pub(crate) fn ranged(&self, kept: &StoredObject, range: &str) -> TestAnswer {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let (len, end) = (kept.bytes.len(), kept.bytes.len().min(last + 1));
        if first >= len {
            return TestAnswer::of(416, "");
        }
        let told = TestAnswer::of(206, self.content(kept, first..end));
        told.with("content-range", format!("bytes {first}-{}/{len}", end - 1))
    }
}

/// Starts a server that calls `answer` with each connection, on a thread of its own. Returns the address.
pub(crate) fn listen(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, answer) = (listener.local_addr().unwrap(), Arc::new(answer));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, stream) = (Arc::clone(&answer), stream.unwrap());
            thread::spawn(move || answer(stream));
        }
    });
    at
}

impl StoredObject {
    /// The entity tag.
    pub(crate) fn tag(&self) -> String {
        format!("\"v{}\"", self.no)
    }

    /// Time of the write, in seconds.
    pub(crate) fn secs(&self) -> u64 {
        1_000_000_000 + self.no
    }

    /// Time of the write, as an HTTP date.
    pub(crate) fn date(&self) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(self.secs()))
    }

    /// The separately checksummed parts; none of an object uploaded in one request.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(PART).take(if self.bytes.len() > PART { usize::MAX } else { 0 })
    }
}

impl TestRequest {
    fn read(stream: &TcpStream) -> Self {
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut lines = lines.take_while(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let (path, query) =
            words.next().map_or(("", ""), |to| to.split_once('?').unwrap_or((to, "")));
        let pair = |text: &str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.to_owned(), unescaped(value))
        };
        let header = |line: String| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let query = query.split('&').map(pair).collect();
        Self { method, path: unescaped(path), query, headers: lines.filter_map(header).collect() }
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }
}

impl TestAnswer {
    pub(crate) fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn write(&self, mut stream: &TcpStream, is_head: bool) {
        let Self { status, headers, body } = self;
        let mut head = format!("HTTP/1.1 {status} Told\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let body = if is_head { &[] } else { &body[..] };
        // A client that read enough closes the connection.
        stream.write_all(&[head.as_bytes(), body].concat()).ok();
    }
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}
