//! Sessions over a WebSocket.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deltic_carrier::SUBPROTOCOL;
use deltic_carrier::control::{Capabilities, FromClient, FromServer, SessionScope};
use deltic_carrier::ends::ServerEnd;
use deltic_carrier::message::MAX_MESSAGE_BYTES;
use deltic_carrier::update::MAX_UPDATE_BYTES;
use deltic_net::embed::Cancel;
use deltic_tree::RelPath;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, timeout};
use tokio_util::task::TaskTracker;
use tokio_websockets::ServerBuilder;

use super::admission::Client;
use super::audit::name;
use super::problem::Problem;
use super::shared::{Known, Server};
use super::updates::Updating;
use super::volume::Right;
use super::watching::Watching;
use crate::channel::{Connection, Mux, invalid, limits};
use crate::lock;
use crate::token::{Token, TokenHash};
use crate::upgrade::accept;

/// Most sessions, updates and watches of a connection at once.
const MAX_CHANNELS: usize = 8;
/// Longest time for sessions to end by themselves after their client has left.
const LAST_STEPS: Duration = Duration::from_secs(1);
/// Longest pause between two pings: proxies cut connections that are silent for a minute.
const PING_EVERY: Duration = Duration::from_secs(25);

/// Upgrades a request to a WebSocket, and serves the WebSocket from then on.
pub(super) async fn upgrade(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<Response, Problem> {
    let key = handshake_key(request.headers())?;
    let (by, known) = server.identify(request.headers(), request.extensions())?;
    let token = known.map(|known| known.token);
    let upgraded = hyper::upgrade::on(request);
    let serving = Arc::clone(&server);
    server.tracker.spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let socket = ServerBuilder::new().limits(limits()).serve(TokioIo::new(upgraded));
        let (connection, mux) = Connection::new(socket);
        let client = Connected {
            server: serving,
            by,
            mux,
            said: Mutex::default(),
            token: watch::Sender::new(token),
            sessions: Arc::default(),
            watches: Arc::default(),
            tracker: TaskTracker::new(),
        };
        client.serve(connection).await;
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept(&key))
        .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
    Ok(response.body(Body::empty()).expect("the parts are plain text"))
}

/// Returns the key of a WebSocket request. Errors: the request is not a valid WebSocket request for `SUBPROTOCOL`.
fn handshake_key(headers: &HeaderMap) -> Result<String, Problem> {
    let has = |name: header::HeaderName, wanted: &str| {
        let mut words = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        words.any(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case(wanted)))
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, "this address is for WebSockets"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13")
        || !has(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
    {
        let why = format!("this server speaks WebSocket 13 with the protocol {SUBPROTOCOL}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16));
    let why = "Sec-WebSocket-Key is missing or none";
    key.map(str::to_owned).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, why))
}

/// A connected client.
struct Connected {
    server: Arc<Server>,
    /// The client of the connection.
    by: Client,
    mux: Mux,
    /// The server's end of the conversation on channel 0.
    said: Mutex<ServerEnd>,
    token: watch::Sender<Option<TokenHash>>,
    /// Cancel handles of the sessions, by their channels.
    sessions: Arc<Mutex<BTreeMap<u32, Cancel>>>,
    /// Senders by the channels of watches. Dropping a sender ends the watch.
    watches: Arc<Mutex<BTreeMap<u32, Option<oneshot::Sender<()>>>>>,
    tracker: TaskTracker,
}

impl Connected {
    /// Serves the connection to its end. All sessions of the connection have ended when this returns.
    async fn serve<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        connection: Connection<T>,
    ) {
        let alive = AtomicBool::new(true);
        let _here = self.server.count_client();
        let hear = |message: Bytes| self.hear(message);
        let heard = || alive.store(true, Ordering::Relaxed);
        self.tracker.close();
        tokio::select! {
            // A client may leave as soon as it has everything, while its session is about to end.
            _ = connection.carry(hear, heard, self.until_drained()) => {
                timeout(LAST_STEPS, self.tracker.wait()).await.ok();
            }
            () = self.stay_alive(&alive) => {}
            () = self.until_revoked() => {}
            () = self.by.peer.has_to_leave() => {}
        }
        self.mux.channels().end(&Ok(()));
        lock(&self.watches).clear();
        let sessions = std::mem::take(&mut *lock(&self.sessions));
        for cancel in sessions.values() {
            cancel.cancel();
        }
        self.tracker.wait().await;
    }

    /// Completes if the client does not show a token in time, or is silent for several pings. Also closes channels of
    /// overdue updates.
    async fn stay_alive(&self, alive: &AtomicBool) {
        let limits = self.server.admission.limits();
        tokio::time::sleep(limits.head()).await;
        if self.token.borrow().is_none() {
            return;
        }
        let mut ticks = interval(PING_EVERY.min(limits.stall() / 2));
        let mut silent = 0;
        loop {
            ticks.tick().await;
            silent = if alive.swap(false, Ordering::Relaxed) { 0 } else { silent + 1 };
            if silent > 2 {
                return;
            }
            self.mux.ping();
            for channel in self.mux.channels().close_late(limits.stall()) {
                let why = "the update was not received in time";
                let why = Problem::new(StatusCode::REQUEST_TIMEOUT, why);
                self.mux.tell(refused(channel, why)).await;
            }
        }
    }

    /// Waits for the client's token, welcomes the client, and completes once the token is revoked.
    async fn until_revoked(&self) {
        let mut told = self.token.subscribe();
        // The sender belongs to `self`, so the channel stays open.
        let Ok(Some(token)) = told.wait_for(Option::is_some).await.map(|token| *token) else {
            return;
        };
        let fields = json!({ "from": self.by.ip, "token": name(&token) });
        self.server.journal.note("login", fields);
        self.mux.tell(welcome().message()).await;
        self.server.access.revoked(&token).await;
    }

    /// Completes once the server drains and the sessions in progress have ended by themselves. The server limits the
    /// time for that.
    async fn until_drained(&self) {
        self.server.draining.subscribe().wait_for(|drain| *drain).await.ok();
        self.mux.tell(FromServer::GoAway.message()).await;
        self.tracker.wait().await;
    }

    /// Handles a control message. Errors: the message is invalid, or the client does not read the answer in time.
    async fn hear(&self, message: Bytes) -> io::Result<()> {
        let Some(answer) = self.act(&message)? else { return Ok(()) };
        let stall = self.server.admission.limits().stall();
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client reads no answers");
        timeout(stall, self.mux.say(answer)).await.map_err(late)?
    }

    /// Handles a control message. Returns the answer, if the message has one.
    fn act(&self, message: &[u8]) -> io::Result<Option<Bytes>> {
        let heard = lock(&self.said).parse_message(message).map_err(invalid)?;
        match heard {
            FromClient::Auth { token } => {
                let known = self.server.let_in(&self.by, token.parse::<Token>().ok());
                let known = known.map_err(|_| invalid("unknown token"))?;
                if self.token.send_replace(Some(known.token)).is_some() {
                    return Err(invalid("the client has already sent a token"));
                }
            }
            FromClient::Open { channel, volume, scope } => {
                return Ok(denied(channel, self.open(channel, &volume, scope)));
            }
            FromClient::Update { channel, volume } => {
                return Ok(denied(channel, self.update(channel, volume)));
            }
            FromClient::Close { channel } => {
                // The channel number stays in use until the session has ended.
                if let Some(cancel) = lock(&self.sessions).get(&channel) {
                    cancel.cancel();
                }
                // Dropping its sender ends the watch.
                if let Some(end) = lock(&self.watches).get_mut(&channel) {
                    end.take();
                }
                self.mux.channels().give_up(channel);
            }
            FromClient::Can(_) => {}
            FromClient::Watch { channel, volume, path } => {
                return Ok(denied(channel, self.watch(channel, &volume, &path)));
            }
        }
        Ok(None)
    }

    /// Looks up the client's token again, and counts a request.
    fn known_client(&self) -> Result<Known, Problem> {
        let token = self.token.borrow().ok_or_else(Problem::unknown)?;
        let known = self.server.known(token)?;
        self.server.count_request(&self.by, &known)?;
        Ok(known)
    }

    /// Checks a channel number for a new session, update or watch. Errors: the number is 0 or in use, or there are
    /// too many channels.
    fn check_channel(&self, number: u32) -> Result<(), Problem> {
        let (sessions, watches) = (lock(&self.sessions), lock(&self.watches));
        if sessions.contains_key(&number) || watches.contains_key(&number) {
            return Err(is_open());
        }
        // `sessions` includes sessions whose clients have closed their channels already.
        let most = sessions.len().max(self.mux.channels().count()) + watches.len();
        match number == 0 || most >= MAX_CHANNELS {
            true => Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many channels")),
            false => Ok(()),
        }
    }

    /// Starts an update. Updates cannot be cancelled, because they are short.
    fn update(&self, channel: u32, volume: String) -> Result<(), Problem> {
        let known = self.known_client()?;
        // Counted by tasks, because an update that was received completely has no channel any more.
        if self.tracker.len() >= 2 * MAX_CHANNELS {
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many updates at once"));
        }
        let permit = self.server.update_permit(&known)?;
        self.check_channel(channel)?;
        let (server, mux) = (Arc::clone(&self.server), self.mux.clone());
        let token = self.tracker.token();
        let updating = Updating { server, known, volume, channel, mux, permit, token };
        let start = |update| updating.start(update);
        self.mux.open_whole(channel, MAX_UPDATE_BYTES, start).ok_or_else(is_open)
    }

    /// Starts a watch.
    fn watch(&self, number: u32, volume: &str, path: &str) -> Result<(), Problem> {
        let known = self.known_client()?;
        let dir = RelPath::parse(path.as_bytes()).map_err(|_| Problem::unknown())?;
        let events = self.server.volume_for(Right::Read, &known, volume, &dir)?.events;
        let permit = self.server.watch_permit(&known)?;
        self.check_channel(number)?;
        let (end, given_up) = oneshot::channel();
        lock(&self.watches).insert(number, Some(end));
        let (server, mux, watches) =
            (Arc::clone(&self.server), self.mux.clone(), Arc::clone(&self.watches));
        let to = self.mux.clone();
        let volume = volume.to_owned();
        let watching =
            Watching { server, known, volume, dir, events, mux, channel: number, _permit: permit };
        self.tracker.spawn(async move {
            if let Err(why) = watching.run(given_up).await {
                to.tell(refused(number, why)).await;
            }
            lock(&watches).remove(&number);
        });
        Ok(())
    }

    /// Starts a session.
    fn open(&self, number: u32, volume: &str, scope: SessionScope) -> Result<(), Problem> {
        let known = self.known_client()?;
        let session = self.server.open_session(&known, volume, scope)?;
        self.check_channel(number)?;
        let channel = self.mux.open(number).ok_or_else(is_open)?;
        let cancel = Cancel::default();
        lock(&self.sessions).insert(number, cancel.clone());
        let (server, mux, from) = (Arc::clone(&self.server), self.mux.clone(), self.by.ip);
        let sessions = Arc::clone(&self.sessions);
        self.tracker.spawn(async move {
            if let Err(why) = session.hold(&server, from, channel, cancel).await {
                mux.tell(refused(number, why)).await;
            }
            mux.channels().close(number, None).await;
            lock(&sessions).remove(&number);
        });
        Ok(())
    }
}

/// Returns the message with the limits of the connection and with the server's optional capabilities.
fn welcome() -> FromServer {
    FromServer::Welcome {
        version: env!("CARGO_PKG_VERSION").into(),
        channels: MAX_CHANNELS as u32,
        message_bytes: MAX_MESSAGE_BYTES as u32,
        can: Capabilities {
            watch: true,
            replaces: true,
            versions: true,
            ..Capabilities::default()
        },
    }
}

fn is_open() -> Problem {
    Problem::new(StatusCode::CONFLICT, "the channel is open already")
}

/// Returns the answer if nothing was started in a channel.
fn denied(channel: u32, started: Result<(), Problem>) -> Option<Bytes> {
    started.err().map(|why| refused(channel, why))
}

/// Returns the message that a channel is refused, or has ended early.
pub(super) fn refused(channel: u32, Problem { detail: why, retry_secs, .. }: Problem) -> Bytes {
    FromServer::Refused { channel, why, retry_secs }.message()
}
