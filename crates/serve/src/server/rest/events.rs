//! Changes of a volume as server-sent events.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::Response;
use bytes::Bytes;
use deltic_store_local::Became;
use deltic_tree::path::printable;
use futures_util::{FutureExt, stream};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::request::{Address, no_store};
use crate::server::events::{Event, Events, Missed, PIECE, Place};
use crate::server::problem::Problem;
use crate::server::shared::{ClientGuard, Known, Server, WatchPermit};
use crate::server::volume::Right;

/// Longest time without a byte sent: proxies cut connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Header that names the last event that the client received.
const LAST_EVENT_ID: &str = "last-event-id";

/// Streams the changes of a volume that the token may read.
pub(super) async fn follow(
    State(server): State<Arc<Server>>,
    known: Known,
    Address(volume): Address<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT_ID).map(|id| id.to_str().ok().and_then(Place::parse));
    let follower = Follower::new(server, known, volume, last)?;
    let body = Body::from_stream(stream::unfold(follower, |mut follower| async {
        let piece = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(piece)), follower))
    }));
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        // Without this header, nginx buffers the answer.
        .header(HeaderName::from_static("x-accel-buffering"), "no");
    Ok(no_store(response.body(body).expect("headers are plain text")))
}

/// Returns the events of a volume, if the token has the right to read its part of the volume.
fn readable(server: &Server, known: &Known, volume: &str) -> Result<Arc<Events>, Problem> {
    let part = known.grant.part();
    Ok(server.volume_for(Right::Read, known, volume, &part)?.events)
}

/// A client that follows the changes of a volume.
struct Follower {
    server: Arc<Server>,
    known: Known,
    /// Name of the volume.
    volume: String,
    events: Arc<Events>,
    /// Number of the last event sent to the client or skipped.
    seen: u64,
    more: watch::Receiver<u64>,
    /// The first piece of the answer, until it is sent.
    first: Option<String>,
    /// Completes when the token is revoked, or the server drains.
    ends: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
    /// Time of the next heartbeat.
    beat: Instant,
    _here: (ClientGuard, WatchPermit),
}

impl Follower {
    fn new(
        server: Arc<Server>,
        known: Known,
        volume: String,
        last: Option<Option<Place>>,
    ) -> Result<Self, Problem> {
        let events = readable(&server, &known, &volume)?;
        let permit = server.watch_permit(&known)?;
        let followed = match last {
            Some(None) => Err(Missed),
            last => events.follow(last.flatten()),
        };
        let has_ended = followed.is_err();
        let (seen, more, first) = match followed {
            Ok((seen, more, place)) => {
                // A position reveals how much changes in other parts: only a token for all of the volume receives
                // one.
                let place = if known.grant.path.is_none() {
                    format!("id: {place}\n")
                } else {
                    String::new()
                };
                (seen, more, format!("retry: 4000\n{place}event: ready\ndata: {{}}\n\n"))
            }
            Err(Missed) => (0, watch::channel(0).1, missed()),
        };
        let (again, token) = (Arc::clone(&server), known.token);
        let ends = Box::pin(async move {
            let mut draining = again.draining.subscribe();
            tokio::select! {
                () = again.access.revoked(&token) => {}
                _ = draining.wait_for(|drain| *drain) => {}
            }
        });
        let _here = (server.count_client(), permit);
        let (first, beat) = (Some(first), Instant::now() + HEARTBEAT);
        Ok(Self { server, known, volume, events, seen, more, first, ends, has_ended, beat, _here })
    }

    /// Looks up the present rights of the token: settings and tokens may change while a client follows.
    fn check_rights(&mut self) -> Result<(), Problem> {
        self.known = self.server.known(self.known.token)?;
        readable(&self.server, &self.known, &self.volume).map(drop)
    }

    /// Returns the next piece of the answer, or `None` at its end.
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.has_ended {
            // Polled here as well: a busy volume never reaches the `select!` below, which does not end at the token's
            // expiry.
            if self.ends.as_mut().now_or_never().is_some() || self.check_rights().is_err() {
                self.has_ended = true;
                break;
            }
            self.more.borrow_and_update();
            let Ok(events) = self.events.after(self.seen, PIECE) else {
                self.has_ended = true;
                return Some(missed());
            };
            self.seen += events.len() as u64;
            let is_its = |event: &&Event| self.known.grant.covers(&event.path);
            let told: String = events.iter().filter(is_its).map(told).collect();
            if !told.is_empty() {
                self.beat = Instant::now() + HEARTBEAT;
                return Some(told);
            }
            if !events.is_empty() {
                continue;
            }
            tokio::select! {
                () = &mut self.ends => self.has_ended = true,
                // The sender lives as long as the volume.
                _ = self.more.changed() => {}
                // Events for other clients do not reset this heartbeat.
                () = sleep_until(self.beat) => {
                    self.beat = Instant::now() + HEARTBEAT;
                    return Some(": still here\n\n".into());
                }
            }
        }
        None
    }
}

fn told(Event { place, path, became }: &Event) -> String {
    let event = match became {
        Became::Put => "put",
        Became::Gone => "gone",
    };
    let data = json!({ "path": printable(path.as_bytes()) });
    let mut text = String::new();
    let _ = write!(text, "id: {place}\nevent: {event}\ndata: {data}\n\n");
    text
}

/// Returns the last event for a client that missed events.
fn missed() -> String {
    let why = "events between are not kept any more: list the volume, and follow anew without Last-Event-ID";
    format!("event: missed\nid:\ndata: {}\n\n", json!({ "why": why }))
}
