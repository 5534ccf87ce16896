//! A session over plain HTTP, for networks that cut WebSockets: bytes go up by POST and come down by GET.
//!
//! Each direction has its own connection, and repeats a request whose answer was lost over a new connection. Offsets
//! tell the server which bytes it has seen. So a session outlives its connections.

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

/// Most bytes buffered between the session and the requests, in each direction.
const WAITING: usize = 256 << 10;
/// First and longest pause before a request is repeated, and the longest time to wait for the server.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_AWAY: Duration = Duration::from_secs(60);
/// Most bytes in one request, even if the server accepts more.
const MAX_BODY: usize = 512 << 10;

/// The server's answer when a stream is opened.
#[derive(Deserialize)]
struct Opened {
    stream: String,
    body_bytes: usize,
}

/// The number of bytes that the server has taken so far.
#[derive(Deserialize)]
struct Taken {
    at: u64,
}

impl Address {
    /// Opens a session of the volume.
    ///
    /// # Errors
    /// The errors of `Requests::ask`, and [`SyncError::Refused`] for an invalid answer.
    pub(super) async fn tunnel(
        &self,
        credentials: &Credentials,
    ) -> Result<DuplexStream, SyncError> {
        let mut requests = Requests::new(self, credentials);
        let wanted = json!({ "volume": self.volume }).to_string();
        let answer = requests.ask(Method::POST, "/v1/streams", wanted.into()).await?;
        let opened: Opened = serde_json::from_slice(&answer).map_err(|_| {
            SyncError::Refused(format!(
                "{}: there is no deltic server at this address",
                self.server()
            ))
        })?;
        let (near, far) = duplex(WAITING);
        let (from, to) = split(far);
        let path = format!("/v1/streams/{}", opened.stream);
        let (above, below) = (
            Way { requests, path: path.clone() },
            Way { requests: Requests::new(self, credentials), path },
        );
        // The session sees only the end of the stream, and not the reason.
        tokio::spawn(above.upload_stream(from, opened.body_bytes.clamp(1, MAX_BODY)));
        tokio::spawn(below.download_stream(to));
        Ok(near)
    }
}

/// A direction of a stream, up or down.
struct Way {
    requests: Requests,
    path: String,
}

impl Way {
    async fn upload_stream(mut self, mut from: ReadHalf<DuplexStream>, most: usize) -> Option<()> {
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

    async fn download_stream(mut self, mut to: WriteHalf<DuplexStream>) -> Option<()> {
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
                // The session no longer reads, so the stream is closed.
                let path = std::mem::take(&mut self.path);
                self.requests.send(Method::DELETE, &path, Bytes::new()).await.ok();
                return None;
            }
            at += bytes.len() as u64;
        }
    }

    /// Repeats a request until the server answers, for a limited time. `None` if the server refuses or stays away.
    async fn insist(
        &mut self,
        method: Method,
        query: &str,
        body: Bytes,
    ) -> Option<(StatusCode, Bytes)> {
        let path = format!("{}{query}", self.path);
        let (mut pause, mut away) = (FIRST_PAUSE, None);
        loop {
            let asked = self.requests.send(method.clone(), &path, body.clone());
            // A proxy or firewall may silently have dropped the connection.
            let answer = timeout(ANSWERS_WITHIN, asked).await;
            match answer {
                Ok(Ok(Answer { status, body, .. })) if status.is_success() => {
                    return Some((status, body));
                }
                // Server errors are retried: a proxy answers so while the server restarts.
                Ok(Ok(Answer { status, .. })) if !status.is_server_error() => return None,
                _ if away.get_or_insert_with(Instant::now).elapsed() > LONGEST_AWAY => return None,
                _ => sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Reads bytes that are available without waiting, up to `most` bytes in total. True if at least one byte was
/// available.
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
