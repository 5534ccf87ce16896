//! Streams of sessions over plain HTTP: what is kept of them between two requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::{Mutex as Turns, Notify};

use crate::lock;
use crate::token::TokenHash;

/// All streams, by the hashes of their names.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<HashMap<TokenHash, Arc<Stream>>>);

/// A session's bytes.
#[derive(Debug)]
pub(super) struct Stream {
    /// Token of whoever opened it.
    pub(super) token: TokenHash,
    pub(super) up: Turns<Up>,
    pub(super) down: Turns<Down>,
    /// Requests under way.
    requests: AtomicUsize,
    /// End of the last one.
    touched: Mutex<Instant>,
    /// Told once the client has all, or wants nothing more.
    pub(super) over: Notify,
}

/// The way to the session.
#[derive(Debug)]
pub(super) struct Up {
    /// Bytes that it has taken.
    pub(super) at: u64,
    /// Our end, until it has ended.
    pub(super) to: Option<WriteHalf<DuplexStream>>,
}

/// The way from the session.
#[derive(Debug)]
pub(super) struct Down {
    /// Offset of `last`.
    pub(super) at: u64,
    /// Bytes of the last answer, until the next one is asked for.
    pub(super) last: BytesMut,
    pub(super) from: ReadHalf<DuplexStream>,
}

/// A request that is under way.
pub(super) struct Under<'a>(&'a Stream);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        *lock(&self.0.touched) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    /// The stream of a name, for whoever opened it.
    pub(super) fn find(&self, token: &TokenHash, name: &TokenHash) -> Option<Arc<Stream>> {
        let stream = lock(&self.0).get(name).cloned();
        stream.filter(|stream| stream.token == *token)
    }

    /// Keeps a stream of this name, unless there are `most`.
    pub(super) fn keep(&self, name: TokenHash, stream: &Arc<Stream>, most: usize) -> bool {
        let mut streams = lock(&self.0);
        let has_room = streams.len() < most;
        if has_room {
            streams.insert(name, Arc::clone(stream));
        }
        has_room
    }

    /// Forgets the stream of a name.
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

    /// Ends once nobody has asked for that long.
    pub(super) async fn forgotten(&self, patience: Duration) {
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
