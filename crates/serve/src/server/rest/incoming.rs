//! Request bodies, bounded in length, in time, and in the memory of all bodies together.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::server::problem::Problem;

/// Longest wait for the next byte of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Least average speed of a body, in bytes a second, after the first minute.
const LEAST_RATE: u64 = 4 << 10;
/// Bytes of memory reserved at once.
const UNIT: u64 = 64 << 10;
/// Memory of this process for request bodies, for the indexes built from them, and for archives, in units of `UNIT`
/// bytes.
static MEMORY: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new((512 << 20) / UNIT as usize)));

/// Memory reserved from the memory of all requests.
#[derive(Default)]
pub(super) struct Memory(Vec<OwnedSemaphorePermit>);

impl Memory {
    /// Reserves memory for `bytes` in all. Errors: 503 if other requests have taken too much.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), Problem> {
        let wanted = bytes.div_ceil(UNIT) as usize;
        self.0.truncate(wanted);
        for _ in self.0.len()..wanted {
            let unit = Arc::clone(&MEMORY).try_acquire_owned().map_err(|_| {
                let why = "too many requests at once need memory; try again in a moment";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)
            })?;
            self.0.push(unit);
        }
        Ok(())
    }
}

/// A request body, with the memory reserved for it.
pub(super) struct Incoming {
    body: BodyDataStream,
    most: u64,
    cost: u64,
    come: u64,
    began: Instant,
    taken: Memory,
}

impl Incoming {
    /// Prepares to read a body of at most `most` bytes, each of which costs `cost` bytes of memory.
    pub(super) fn new(
        headers: &HeaderMap,
        body: Body,
        most: u64,
        cost: u64,
    ) -> Result<Self, Problem> {
        if content_length(headers).is_some_and(|len| len > most) {
            return Err(too_long(most));
        }
        let body = body.into_data_stream();
        Ok(Self { body, most, cost, come: 0, began: Instant::now(), taken: Memory::default() })
    }

    /// Returns the next bytes, or `None` at the end of the body.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(piece) = next(&mut self.body).await? else { return Ok(None) };
        // A slow body holds memory that other requests could use.
        let due = BODY_TIMEOUT + Duration::from_secs(self.come / LEAST_RATE);
        if self.began.elapsed() > due {
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly"));
        }
        self.come += piece.len() as u64;
        if self.come > self.most {
            return Err(too_long(self.most));
        }
        self.taken.hold(self.come * self.cost)?;
        Ok(Some(piece))
    }
}

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn collect(headers: &HeaderMap, body: Body, most: u64) -> Result<Bytes, Problem> {
    let mut body = Incoming::new(headers, body, most, 1)?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

/// Returns the next bytes of a body, or `None` at its end.
pub(super) async fn next(body: &mut BodyDataStream) -> Result<Option<Bytes>, Problem> {
    let piece = timeout(BODY_TIMEOUT, body.next()).await.map_err(|_| broken())?;
    piece.transpose().map_err(|_| broken())
}

pub(super) fn broken() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "the body ended early; nothing was changed")
}

fn too_long(most: u64) -> Problem {
    let why = format!("more than {most} bytes in the body");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}

/// Refuses a request whose body is not a whole plain file. A body with `Content-Encoding` would be stored encoded,
/// and a body with `Content-Range` would replace the whole file.
pub(crate) async fn refuse_coded(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let mut codes = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let is_plain = |value: &HeaderValue| {
        let mut codes = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        codes.all(|code| code.is_empty() || code.eq_ignore_ascii_case(b"identity"))
    };
    if !codes.all(is_plain) {
        let why = "Content-Encoding is not supported; send plain bytes";
        let refused = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
        return ([(header::ACCEPT_ENCODING, "identity")], refused).into_response();
    }
    if headers.contains_key(header::CONTENT_RANGE) {
        let why = "Content-Range is not supported; use ?as=patch to change a part of a file";
        return Problem::new(StatusCode::BAD_REQUEST, why).into_response();
    }
    next.run(request).await
}

/// Returns the request's `Content-Length`, if the header is there and is a number.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
