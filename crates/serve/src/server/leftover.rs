//! Request bodies that a handler leaves unread. A client that is still sending must get the answer, not a reset.
//!
//! The kernel resets a connection that is closed with unread bytes. A client that sends its body before it reads may
//! then never see the answer. The server reads a short rest of the body before the answer, and the connection goes
//! on. A long rest ends the connection after the answer: the connection [lingers](super::patience::Patient), and the
//! server discards the rest for a while.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

use super::rest::content_length;
use crate::lock;

/// Longest rest that is read before the answer is sent, in bytes.
const SHORT_BYTES: u64 = 1 << 20;
/// Longest time for reading the rest.
const SHORT_TIME: Duration = Duration::from_secs(1);

/// The unread rest of a request's body, once the handler has dropped the body.
#[derive(Clone, Debug)]
pub(super) struct Leftover {
    rest: Arc<Mutex<Option<Body>>>,
    /// True if the body may be short and the client sends the body without `100 Continue`.
    is_short: bool,
    /// Set if the connection must linger.
    lingers: Arc<AtomicBool>,
}

impl Leftover {
    /// Wraps a body, so that an unread rest is found after the handler has dropped the body.
    pub(super) fn watch(
        headers: &HeaderMap,
        body: Body,
        lingers: &Arc<AtomicBool>,
    ) -> (Self, Body) {
        let is_long = content_length(headers).is_some_and(|len| len > SHORT_BYTES);
        // With `Expect: 100-continue`, the client sends the body only once the server reads.
        let is_short = !is_long && !headers.contains_key(header::EXPECT);
        let leftover = Self { rest: Arc::default(), is_short, lingers: Arc::clone(lingers) };
        lingers.store(false, Ordering::Relaxed);
        if body.is_end_stream() {
            return (leftover, body);
        }
        let watched = Watched { body: Some(body), rest: Arc::clone(&leftover.rest) };
        (leftover, Body::new(watched))
    }

    /// Reads the rest of the body if the rest is short. Otherwise the answer says `Connection: close`.
    pub(super) async fn settle(self, mut response: Response<Body>) -> Response<Body> {
        let Some(rest) = lock(&self.rest).take() else { return response };
        if !self.is_short || timeout(SHORT_TIME, read(rest)).await != Ok(true) {
            self.lingers.store(true, Ordering::Relaxed);
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads a body to its end. False if more than `SHORT_BYTES` are left, or on an error.
async fn read(mut body: Body) -> bool {
    let mut left = SHORT_BYTES;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let len = frame.data_ref().map_or(0, Bytes::len) as u64;
        match left.checked_sub(len) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    true
}

/// A body. If dropped before its end, the body is stored in `rest`.
struct Watched {
    body: Option<Body>,
    rest: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        // A failed body has no rest.
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *lock(&self.rest) = self.body.take().filter(|body| !body.is_end_stream());
    }
}
