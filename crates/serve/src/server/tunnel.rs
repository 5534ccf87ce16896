//! Sessions over plain HTTP, for clients behind a proxy or firewall that cuts WebSockets.
//!
//! A stream has a secret name. Its bytes go up by POST and come down by GET, in requests that end soon, so proxies
//! that buffer whole bodies do no harm. Bytes have offsets: a request repeated after a lost answer changes nothing. A
//! client that loses a connection continues over another connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::{Buf, Bytes, BytesMut};
use deltic_carrier::control::{FileVersion, SessionScope};
use deltic_net::embed::Cancel;
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

use super::admission::Peer;
use super::problem::Problem;
use super::rest::{Address, Parameters, collect, no_store};
use super::session::Opened;
use super::shared::{Known, Server, bearer, check_origin};
use super::streams::{Down, Stream, Up};
use crate::token::{Token, new_token};

/// Most bytes in the body of a request or of an answer. Proxies accept bodies of 1 MiB by default.
const MAX_BODY: usize = 512 << 10;
/// Most bytes buffered to a session, and as many from a session.
const WAITING: usize = 256 << 10;
/// Least free space in the buffer for each read from a session, in bytes.
const PIECE: usize = 16 << 10;
/// Longest time that a request waits for the session. Proxies give up a request after a minute of silence.
const WAIT: Duration = Duration::from_secs(20);
/// Longest time to keep a stream after its session, for the client to read the end.
const LINGER: Duration = Duration::from_secs(60);

/// The paths of streams, with their handlers.
pub(super) fn table() -> [(&'static str, MethodRouter<Arc<Server>>); 2] {
    [("/v1/streams", post(open)), ("/v1/streams/{id}", get(down).post(up).delete(close))]
}

/// The stream that a client wants to open.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    volume: String,
    replaces: Option<String>,
    version: Option<FileVersion>,
}

/// Opens a stream to a new session in a volume.
async fn open(
    State(server): State<Arc<Server>>,
    Extension(peer): Extension<Arc<Peer>>,
    known: Known,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = collect(&headers, body, 16 << 10).await?;
    let bad = |why| Problem::new(StatusCode::BAD_REQUEST, format!("the body: {why}"));
    let Wanted { volume, replaces, version } = serde_json::from_slice(&body).map_err(bad)?;
    let session = server.open_session(&known, &volume, SessionScope { replaces, version })?;
    let name = new_token();
    let (near, far) = duplex(WAITING);
    let stream = Arc::new(Stream::new(known.token, near));
    // Streams of ended sessions count until their clients have read the end.
    if !server.streams.keep(name.hash(), &stream, 2 * server.sessions.most) {
        return Err(Problem::busy("too many streams at once; try again in a moment"));
    }
    let from = server.admission.client(&peer, &headers).ip;
    let (serving, id) = (Arc::clone(&server), name.hash());
    server.tracker.spawn(async move {
        hold(stream, &serving, session, from, far).await;
        serving.streams.forget(&id);
    });
    let opened = json!({ "stream": name.reveal(), "body_bytes": MAX_BODY });
    Ok(no_store((StatusCode::CREATED, Json(opened))))
}

/// Runs the session to its end. Keeps the stream until the client has read the end or has stopped asking.
async fn hold(
    stream: Arc<Stream>,
    server: &Arc<Server>,
    session: Opened,
    from: IpAddr,
    transport: DuplexStream,
) {
    let _here = server.count_client();
    let (cancel, patience) = (Cancel::default(), server.admission.limits().stall());
    let session = session.hold(server, from, transport, cancel.clone());
    tokio::pin!(session);
    let has_ended = tokio::select! {
        _ = &mut session => true,
        () = server.access.revoked(&stream.token) => false,
        () = stream.until_idle(patience) => false,
        () = stream.over.notified() => false,
    };
    if !has_ended {
        cancel.cancel();
        session.await.ok();
        return;
    }
    // The session's permit is released, so the stream is kept only for a short time.
    let heard = async {
        tokio::select! {
            () = stream.over.notified() => {}
            () = stream.until_idle(patience) => {}
        }
    };
    timeout(LINGER, heard).await.ok();
}

/// Finds a stream by its name, if the request has the token that opened the stream.
fn find(server: &Server, headers: &HeaderMap, name: &str) -> Result<Arc<Stream>, Problem> {
    check_origin(headers)?;
    let token = bearer(headers).flatten().map(|token| token.hash());
    let name = name.parse::<Token>().ok().map(|name| name.hash());
    let found = token.zip(name).and_then(|(token, name)| server.streams.find(&token, &name));
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "no such stream, or it has ended");
    found.ok_or_else(unknown)
}

/// The part of a stream that a request is about.
#[derive(Deserialize)]
struct At {
    /// Offset of the part in the stream, in bytes.
    at: u64,
    /// True if the stream ends with this part.
    #[serde(default)]
    end: bool,
}

/// Hands bytes to the session. Answers with the offset of the next byte that the session expects; a slow session may
/// take only a part.
async fn up(
    State(server): State<Arc<Server>>,
    Address(id): Address<String>,
    Parameters(At { at, end }): Parameters<At>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let stream = find(&server, &headers, &id)?;
    let _under = stream.ask();
    let bytes = collect(&headers, body, MAX_BODY as u64).await?;
    let mut up = stream.up.lock().await;
    let seen = up.at.checked_sub(at).ok_or_else(|| gap(up.at))?;
    let seen = usize::try_from(seen).unwrap_or(usize::MAX).min(bytes.len());
    let mut rest = bytes.slice(seen..);
    timeout(wait(&server), take(&mut up, &mut rest)).await.ok();
    if end && rest.is_empty() {
        up.to = None;
    }
    Ok(no_store(Json(json!({ "at": up.at }))))
}

/// Writes `rest` to the session. `up.at` stays exact even if the future is dropped.
async fn take(up: &mut Up, rest: &mut Bytes) {
    while !rest.is_empty() {
        let written = match &mut up.to {
            None => Ok(rest.len()),
            Some(to) => to.write(rest).await,
        };
        // If the session has ended, the bytes are discarded: the client reads the session's result from the other
        // direction.
        let taken = written.unwrap_or_else(|_| {
            up.to = None;
            rest.len()
        });
        up.at += taken as u64;
        rest.advance(taken);
    }
}

/// Answers with bytes from the session. Answers 204 if no bytes come soon, and with an empty body at the end of the
/// stream.
async fn down(
    State(server): State<Arc<Server>>,
    Address(id): Address<String>,
    Parameters(At { at, .. }): Parameters<At>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stream = find(&server, &headers, &id)?;
    let _under = stream.ask();
    let mut down = stream.down.lock().await;
    let Down { at: begun, last, from } = &mut *down;
    if at == *begun + last.len() as u64 {
        *begun = at;
        // An idle stream holds no buffer.
        *last = BytesMut::new();
    } else if at != *begun {
        return Err(gap(*begun));
    }
    if last.is_empty() {
        last.reserve(PIECE);
        if timeout(wait(&server), from.read_buf(last)).await.is_err() {
            return Ok(no_store(StatusCode::NO_CONTENT));
        }
        while last.len() < MAX_BODY {
            last.reserve(PIECE);
            let more = from.read_buf(last).now_or_never();
            if !more.is_some_and(|more| more.is_ok_and(|len| len > 0)) {
                break;
            }
        }
    }
    if last.is_empty() {
        stream.over.notify_one();
    }
    let bytes = Bytes::copy_from_slice(last);
    Ok(no_store(([(header::CONTENT_TYPE, "application/octet-stream")], bytes)))
}

/// Cancels a session.
async fn close(
    State(server): State<Arc<Server>>,
    Address(id): Address<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    find(&server, &headers, &id)?.over.notify_one();
    Ok(no_store(StatusCode::NO_CONTENT.into_response()))
}

fn wait(server: &Server) -> Duration {
    WAIT.min(server.admission.limits().stall() / 3)
}

fn gap(at: u64) -> Problem {
    Problem::new(StatusCode::CONFLICT, format!("the stream continues at byte {at}"))
}
