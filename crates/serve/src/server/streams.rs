//! State of streams for sessions over plain HTTP, kept between requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::{Mutex as Turns, Notify};

use crate::lock;
use crate::token::TokenHash;

/// The streams of all clients, by the hashes of the names.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<HashMap<TokenHash, Arc<Stream>>>);

/// The stream of a session over plain HTTP.
#[derive(Debug)]
pub(super) struct Stream {
    /// Token that opened the stream.
    pub(super) token: TokenHash,
    pub(super) up: Turns<Up>,
    pub(super) down: Turns<Down>,
    /// Number of requests in progress.
    requests: AtomicUsize,
    /// Time at which the last request ended.
    touched: Mutex<Instant>,
    /// Notified once the client has read the end of the stream, or cancels the session.
    pub(super) over: Notify,
}

/// The direction from the client to the session.
#[derive(Debug)]
pub(super) struct Up {
    /// Number of bytes written to the session.
    pub(super) at: u64,
    /// The writer to the session, until the stream has ended.
    pub(super) to: Option<WriteHalf<DuplexStream>>,
}

/// The direction from the session to the client.
#[derive(Debug)]
pub(super) struct Down {
    /// Offset of `last` in the stream.
    pub(super) at: u64,
    /// Bytes of the last answer, kept until the client acknowledges them by its next request.
    pub(super) last: BytesMut,
    pub(super) from: ReadHalf<DuplexStream>,
}

/// Guard of a request in progress.
pub(super) struct Under<'a>(&'a Stream);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        *lock(&self.0.touched) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    /// Returns the stream named `name`, if `token` opened the stream.
    pub(super) fn find(&self, token: &TokenHash, name: &TokenHash) -> Option<Arc<Stream>> {
        let stream = lock(&self.0).get(name).cloned();
        stream.filter(|stream| stream.token == *token)
    }

    /// Adds a stream named `name`. False if there are `most` streams already.
    pub(super) fn keep(&self, name: TokenHash, stream: &Arc<Stream>, most: usize) -> bool {
        let mut streams = lock(&self.0);
        let has_room = streams.len() < most;
        if has_room {
            streams.insert(name, Arc::clone(stream));
        }
        has_room
    }

    /// Removes the stream named `name`.
    pub(super) fn forget(&self, name: &TokenHash) {
        lock(&self.0).remove(name);
    }
}

impl Stream {
    pub(super) fn new(token: TokenHash, transport: DuplexStream) -> Self {
        let (from, to) = split(transport);
        Self {
            token,
            up: Turns::new(Up { at: 0, to: Some(to) }),
            down: Turns::new(Down { at: 0, last: BytesMut::new(), from }),
            requests: AtomicUsize::new(0),
            touched: Mutex::new(Instant::now()),
            over: Notify::new(),
        }
    }

    pub(super) fn ask(&self) -> Under<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Under(self)
    }

    /// Completes once the client has made no request for as long as `patience`.
    pub(super) async fn until_idle(&self, patience: Duration) {
        loop {
            let silent = lock(&self.touched).elapsed();
            let is_asked = self.requests.load(Ordering::Relaxed) > 0;
            if silent >= patience && !is_asked {
                return;
            }
            let wait = if is_asked { patience } else { patience.saturating_sub(silent) };
            tokio::time::sleep(wait.max(Duration::from_millis(100))).await;
        }
    }
}
