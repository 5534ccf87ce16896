//! A session over plain HTTP, where something on the way cuts WebSockets: bytes go up by POST and come down by GET.
//!
//! Each way has a connection of its own, and makes a request again whose answer was lost, over a new one: the server
//! knows by its offset what it has seen. So a session outlives its connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use deltic_net::SyncError;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::time::{sleep, timeout};

use super::request::{ANSWERS_WITHIN, Answer, Requests};
use super::{Address, Credentials};

/// Most bytes of the session on the way to a request, and from an answer.
const WAITING: usize = 256 << 10;
/// Pauses before a request is made again, and the longest time for a server to come back.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_AWAY: Duration = Duration::from_secs(60);
/// Most bytes that go up at once, whatever the server takes.
const MAX_BODY: usize = 512 << 10;

/// A stream that the server opened.
#[derive(Deserialize)]
struct Opened {
    stream: String,
    body_bytes: usize,
}

/// Bytes that went up, as the server counts them.
#[derive(Deserialize)]
struct Taken {
    at: u64,
}

impl Address {
    /// Opens a session of the volume.
    ///
    /// # Errors
    /// As of any request.
    pub(super) async fn tunnel(
        &self,
        credentials: &Credentials,
    ) -> Result<DuplexStream, SyncError> {
        let mut requests = Requests::new(self, credentials);
        let wanted = json!({ "volume": self.volume }).to_string();
        let answer = requests.ask((Method::POST, "/v1/streams"), wanted.into()).await?;
        let opened: Opened = serde_json::from_slice(&answer).map_err(|_| {
            SyncError::Refused(format!("{}: no deltic serves there", self.server()))
        })?;
        let (near, far) = duplex(WAITING);
        let (from, to) = split(far);
        let path = format!("/v1/streams/{}", opened.stream);
        let (above, below) = (
            Way { requests, path: path.clone() },
            Way { requests: Requests::new(self, credentials), path },
        );
        // Whoever has the stream hears of its end, and nothing more of why.
        tokio::spawn(above.up(from, opened.body_bytes.clamp(1, MAX_BODY)));
        tokio::spawn(below.down(to));
        Ok(near)
    }
}

/// A stream's way up or down.
struct Way {
    requests: Requests,
    path: String,
}

impl Way {
    async fn up(mut self, mut from: ReadHalf<DuplexStream>, most: usize) -> Option<()> {
        let (mut at, mut bytes, mut has_ended) = (0, BytesMut::new(), false);
        while !has_ended || !bytes.is_empty() {
            if !has_ended && bytes.is_empty() {
                has_ended = from.read_buf(&mut bytes).await.ok()? == 0;
            }
            while !has_ended && bytes.len() < most && fill(&mut from, &mut bytes, most).await {}
            let end = if has_ended { "&end=true" } else { "" };
            let query = format!("?at={at}{end}");
            let (_, answer) = self.insist(Method::POST, &query, bytes.clone().freeze()).await?;
            let Taken { at: taken } = serde_json::from_slice(&answer).ok()?;
            let more = usize::try_from(taken.checked_sub(at)?).ok()?;
            bytes.advance(more.min(bytes.len()));
            at = taken;
            if more == 0 && !bytes.is_empty() {
                sleep(FIRST_PAUSE).await;
            }
        }
        Some(())
    }

    async fn down(mut self, mut to: WriteHalf<DuplexStream>) -> Option<()> {
        let mut at = 0;
        loop {
            let query = format!("?at={at}");
            let (status, bytes) = self.insist(Method::GET, &query, Bytes::new()).await?;
            if status == StatusCode::NO_CONTENT {
                continue;
            }
            if bytes.is_empty() {
                return to.shutdown().await.ok();
            }
            if to.write_all(&bytes).await.is_err() {
                // Nobody wants more of it.
                let path = std::mem::take(&mut self.path);
                self.requests.send((Method::DELETE, &path), Bytes::new()).await.ok();
                return None;
            }
            at += bytes.len() as u64;
        }
    }

    /// Makes a request until it has an answer of the server, for some time.
    async fn insist(
        &mut self,
        method: Method,
        query: &str,
        body: Bytes,
    ) -> Option<(StatusCode, Bytes)> {
        let path = format!("{}{query}", self.path);
        let (mut pause, mut away) = (FIRST_PAUSE, None);
        loop {
            let asked = self.requests.send((method.clone(), &path), body.clone());
            // What is on the way may have forgotten the connection.
            let answer = timeout(ANSWERS_WITHIN, asked).await;
            match answer {
                Ok(Ok(Answer { status, body, .. })) if status.is_success() => {
                    return Some((status, body));
                }
                // A proxy says so of a server that starts anew.
                Ok(Ok(Answer { status, .. })) if !status.is_server_error() => return None,
                _ if away.get_or_insert_with(Instant::now).elapsed() > LONGEST_AWAY => return None,
                _ => sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Takes what is at hand, up to `most` bytes: true if that was something.
async fn fill(from: &mut ReadHalf<DuplexStream>, bytes: &mut BytesMut, most: usize) -> bool {
    let begun = bytes.len();
    let mut piece = [0; 16 << 10];
    let room = (most - begun).min(piece.len());
    let mut buf = ReadBuf::new(&mut piece[..room]);
    poll_fn(|cx| {
        let _ = Pin::new(&mut *from).poll_read(cx, &mut buf);
        std::task::Poll::Ready(())
    })
    .await;
    bytes.extend_from_slice(buf.filled());
    bytes.len() > begun
}
