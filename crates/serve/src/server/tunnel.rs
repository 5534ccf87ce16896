//! Sessions over plain HTTP, for clients whose WebSockets something on the way cuts.
//!
//! A stream has a secret name. Its bytes go up by POST and come down by GET, in requests that end soon, so a proxy that
//! holds bodies back until they are whole holds nobody up. Bytes have offsets: a request that is made again, because
//! its answer was lost, changes nothing. A client that breaks off a connection goes on over another one.

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

/// Most bytes of a request and of an answer. Proxies take bodies of 1 MiB by default.
const MAX_BODY: usize = 512 << 10;
/// Most bytes on the way to a session, and from it.
const WAITING: usize = 256 << 10;
/// Least room for bytes that a session says.
const PIECE: usize = 16 << 10;
/// Longest time that a request waits for a session. Proxies give one up that is silent for a minute.
const WAIT: Duration = Duration::from_secs(20);
/// Longest time that a stream whose session has ended is kept for its client.
const LINGER: Duration = Duration::from_secs(60);

/// Its paths, with what is done at each.
pub(super) fn table() -> [(&'static str, MethodRouter<Arc<Server>>); 2] {
    [("/v1/streams", post(open)), ("/v1/streams/{id}", get(down).post(up).delete(close))]
}

/// Stream that a client wants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    volume: String,
}

/// Opens a session in a volume.
async fn open(
    State(server): State<Arc<Server>>,
    Extension(peer): Extension<Arc<Peer>>,
    known: Known,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = collect(&headers, body, 4 << 10).await?;
    let bad = |why| Problem::new(StatusCode::BAD_REQUEST, format!("the body: {why}"));
    let Wanted { volume } = serde_json::from_slice(&body).map_err(bad)?;
    let session = server.open_session(&known, &volume)?;
    let name = new_token();
    let (near, far) = duplex(WAITING);
    let stream = Arc::new(Stream::new(known.token, near));
    // Those that have ended stay until the client has heard it.
    if !server.streams.keep(name.hash(), &stream, 2 * server.sessions.most) {
        return Err(Problem::busy("too many streams at once; try again in a moment"));
    }
    let from = server.admission.client(&peer, &headers).ip;
    let (serving, id) = (Arc::clone(&server), name.hash());
    server.tracker.spawn(async move {
        hold(stream, &serving, session, (from, far)).await;
        serving.streams.forget(&id);
    });
    let opened = json!({ "stream": name.reveal(), "body_bytes": MAX_BODY });
    Ok(no_store((StatusCode::CREATED, Json(opened))))
}

/// Holds the session to its end, and the stream until the client has heard that or is forgotten.
async fn hold(
    stream: Arc<Stream>,
    server: &Arc<Server>,
    session: Opened,
    (from, transport): (IpAddr, DuplexStream),
) {
    let _here = server.somebody();
    let (cancel, patience) = (Cancel::default(), server.admission.limits().stall());
    let session = session.hold(server, from, (transport, cancel.clone()));
    tokio::pin!(session);
    let has_ended = tokio::select! {
        _ = &mut session => true,
        () = server.access.revoked(&stream.token) => false,
        () = stream.forgotten(patience) => false,
        () = stream.over.notified() => false,
    };
    if !has_ended {
        cancel.cancel();
        session.await.ok();
        return;
    }
    // Its place among the sessions is another's by now, so nothing keeps it for long.
    let heard = async {
        tokio::select! {
            () = stream.over.notified() => {}
            () = stream.forgotten(patience) => {}
        }
    };
    timeout(LINGER, heard).await.ok();
}

/// Finds the stream of a name, for whoever opened it.
fn find(server: &Server, headers: &HeaderMap, name: &str) -> Result<Arc<Stream>, Problem> {
    check_origin(headers)?;
    let token = bearer(headers).flatten().map(|token| token.hash());
    let name = name.parse::<Token>().ok().map(|name| name.hash());
    let found = token.zip(name).and_then(|(token, name)| server.streams.find(&token, &name));
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "no such stream, or it has ended");
    found.ok_or_else(unknown)
}

/// Part of a stream that a request is about.
#[derive(Deserialize)]
struct At {
    /// Bytes before it.
    at: u64,
    /// True if nothing comes behind it.
    #[serde(default)]
    end: bool,
}

/// Takes bytes for the session: as many as it takes soon, and says how many these are by now.
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

/// Hands bytes to the session. Whatever stops this, it is known how many it has.
async fn take(up: &mut Up, rest: &mut Bytes) {
    while !rest.is_empty() {
        let written = match &mut up.to {
            None => Ok(rest.len()),
            Some(to) => to.write(rest).await,
        };
        // To a session that has ended nothing is lost: how it ended comes down.
        let taken = written.unwrap_or_else(|_| {
            up.to = None;
            rest.len()
        });
        up.at += taken as u64;
        rest.advance(taken);
    }
}

/// Answers with bytes of the session; with no content where none came soon, and with an empty body at their end.
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
        // Whoever falls idle holds no buffer.
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

/// Gives a session up.
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
    Problem::new(StatusCode::CONFLICT, format!("the stream goes on at {at}"))
}
