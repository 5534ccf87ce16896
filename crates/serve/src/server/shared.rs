//! State shared by all connections of a server: access, volumes, and room for sessions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use deltic_net::embed::Embedding;
use deltic_tree::RelPath;
use rustls::ServerConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::access::{Access, Found};
use super::acme::{Acme, News};
use super::admission::{Admission, Client, Counted, Peer};
use super::grant::Grant;
use super::journal::Journal;
use super::online::{Online, OnlineClient};
use super::problem::Problem;
use super::quotas::TokenQuota;
use super::streams::Streams;
use super::tickets::{TicketUse, Tickets};
use super::volume::{Right, Rights, Volume};
use crate::token::{Token, TokenHash};

/// State shared by all connections of a server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(crate) access: Access,
    pub(crate) admission: Admission,
    pub(crate) journal: Journal,
    pub(crate) tickets: Tickets,
    pub(super) streams: Streams,
    pub(super) tls: Keys,
    pub(crate) embedding: Embedding,
    pub(super) sessions: Room,
    pub(crate) disk: Arc<Semaphore>,
    pub(crate) upload_bytes: u64,
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) tracker: TaskTracker,
    /// Number of connected clients. While this number is above zero, the server looks for revoked tokens regularly.
    pub(super) clients: watch::Sender<usize>,
    /// Key for the hashes in entity tags, so that entity tags do not reveal inode numbers.
    pub(crate) tag_key: [u8; 32],
}

impl Server {
    /// Looks up a token. Errors: 401 if the token has no rights.
    pub(crate) fn known(&self, token: TokenHash) -> Result<Known, Problem> {
        self.known_by(token, self.access.find(&token))
    }

    /// Looks up the present rights of a token whose work began earlier. Expiry does not count, so the work may finish.
    /// Errors: 401 if the token was revoked meanwhile.
    pub(crate) fn known_begun(&self, token: TokenHash) -> Result<Known, Problem> {
        self.known_by(token, self.access.find_begun(&token))
    }

    fn known_by(&self, token: TokenHash, found: Option<Found>) -> Result<Known, Problem> {
        let Found { grant, first, quotas } = found.ok_or_else(Problem::not_let_in)?;
        let is_starter = self.access.is_starter(&token) || grant.session.is_some();
        Ok(Known { token, first, grant, quotas, is_starter })
    }

    /// Identifies the client of a request, and counts the request. The second value is `None` if the request has no
    /// token.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<(Client, Option<Known>), Problem> {
        let client = self.client(headers, extensions)?;
        let Some(token) = bearer(headers) else { return Ok((client, None)) };
        let known = self.let_in(&client, token)?;
        Ok((client, Some(known)))
    }

    /// Identifies the client of a request by its address. Errors: the request comes from the page of another site.
    pub(crate) fn client(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Client, Problem> {
        check_origin(headers)?;
        let peer = extensions.get::<Arc<Peer>>().expect("each connection has one");
        Ok(self.admission.client(peer, headers))
    }

    /// Looks up a token that a client showed, and counts a request. `None` stands for an invalid token.
    pub(crate) fn let_in(&self, client: &Client, token: Option<Token>) -> Result<Known, Problem> {
        self.admit(client, token.map(|token| token.hash()))
    }

    /// Redeems a ticket for a file. `client` presented the ticket. Returns the token that requested the ticket, and the
    /// use that the ticket permits.
    pub(crate) fn redeem(
        &self,
        client: &Client,
        ticket: &str,
        volume: &str,
        path: &RelPath,
    ) -> Result<(Known, TicketUse), Problem> {
        let ticket = ticket.parse::<Token>().ok().map(|ticket| ticket.hash());
        let found = ticket.and_then(|ticket| self.tickets.find(&ticket, volume, path));
        // A request that is refused here uses up no ticket.
        let known = self.admit(client, found.map(|(token, _)| token))?;
        let good_for = ticket.and_then(|ticket| self.tickets.take(&ticket, volume, path));
        Ok((known, good_for.ok_or_else(Problem::not_let_in)?))
    }

    fn admit(&self, client: &Client, token: Option<TokenHash>) -> Result<Known, Problem> {
        let known = token.and_then(|token| self.known(token).ok());
        let known = known.ok_or_else(|| {
            let answer = self.admission.wrong_token(client);
            // Attempts beyond the rate are not logged, so that they cannot fill the log.
            if answer.status == StatusCode::UNAUTHORIZED {
                self.journal.log_wrong_token(client.ip);
            }
            answer
        })?;
        self.count_request(client, &known)?;
        Ok(known)
    }

    /// Counts a request. The starter's token has no rate limit.
    pub(crate) fn count_request(&self, client: &Client, known: &Known) -> Result<(), Problem> {
        self.access.uses.note(known.token, SystemTime::now());
        let counted = self.admission.request(client, known.first);
        if known.is_starter { Ok(()) } else { counted }
    }

    /// Finds a volume, and the client's rights there.
    pub(crate) fn volume(&self, known: &Known, name: &str) -> Result<(&Volume, Rights), Problem> {
        let volume = self.volumes.get(name).filter(|_| known.grant.is_for(name));
        let found = volume.and_then(|volume| Some((volume, volume.rights(&known.grant)?)));
        found.ok_or_else(Problem::unknown)
    }

    /// Finds a volume in which the client has the right `right` at a path.
    pub(crate) fn volume_for(
        &self,
        right: Right,
        known: &Known,
        name: &str,
        path: &RelPath,
    ) -> Result<Volume, Problem> {
        let (volume, rights) = self.volume(known, name)?;
        if !known.grant.covers(path) {
            return Err(Problem::unknown());
        }
        let (has, what) = match right {
            Right::Read => (rights.read, "reading"),
            Right::Write => (rights.write, "writing"),
            Right::Delete => (rights.delete, "deleting"),
        };
        match (has, right) {
            (false, _) => Err(Problem::forbidden(what)),
            (true, Right::Read) => Ok(volume.clone()),
            (true, _) => Ok(volume.for_writer(&known.quotas, &self.access.quotas)),
        }
    }

    /// Takes room for one more session.
    pub(crate) fn session_permit(&self, known: &Known) -> Result<SessionPermit, Problem> {
        let counted = self.counted(known, Admission::session)?;
        let room = self.sessions.take(*self.clients.borrow()).ok_or_else(many_sessions)?;
        let online = self.sessions.online.enter(known.token);
        Ok(SessionPermit { _counted: counted, _room: room, _online: online })
    }

    /// Takes room for one more update. An update counts as a session, but opens no files before its turn at the disk.
    pub(crate) fn update_permit(&self, known: &Known) -> Result<SessionPermit, Problem> {
        let counted = self.counted(known, Admission::session)?;
        let room = self.sessions.take_without_files().ok_or_else(many_sessions)?;
        let online = self.sessions.online.enter(known.token);
        Ok(SessionPermit { _counted: counted, _room: room, _online: online })
    }

    /// Takes room for one more watch or stream of events. Watches take no room of sessions.
    pub(crate) fn watch_permit(&self, known: &Known) -> Result<WatchPermit, Problem> {
        let counted = self.counted(known, Admission::watch)?;
        let why = "the server has reached its limit of watches; try again in a moment";
        let room = self.sessions.take_watch().ok_or_else(|| Problem::busy(why))?;
        let online = self.sessions.online.enter(known.token);
        Ok(WatchPermit { _counted: counted, _room: room, _online: online })
    }

    /// Counts a session or a watch of a token by `count`, unless the server is about to end.
    fn counted(
        &self,
        known: &Known,
        count: impl FnOnce(&Admission, TokenHash) -> Result<Counted<TokenHash>, Problem>,
    ) -> Result<Option<Counted<TokenHash>>, Problem> {
        if *self.draining.borrow() {
            return Err(Problem::busy("the server is about to end; try again in a moment"));
        }
        if known.is_starter {
            return Ok(None);
        }
        count(&self.admission, known.first).map(Some)
    }

    /// With ACME, obtains and renews the certificate for ever, and reports each outcome.
    pub(super) async fn keep_certificate(&self, report: &dyn Fn(&str)) -> Infallible {
        let Some(acme) = &self.tls.acme else { return std::future::pending().await };
        let told = |News { line, event, fields }| {
            report(&line);
            self.journal.note(event, fields);
        };
        acme.keep(&told).await
    }

    /// Returns the present number of sessions.
    pub(super) fn sessions(&self) -> u64 {
        (self.sessions.most - self.sessions.left.available_permits()) as u64
    }

    /// Counts a connected client until the guard is dropped.
    pub(crate) fn count_client(self: &Arc<Self>) -> ClientGuard {
        self.clients.send_modify(|clients| *clients += 1);
        ClientGuard(Arc::clone(self))
    }
}

/// TLS keys of a server.
#[derive(Debug)]
pub(crate) struct Keys {
    /// TLS configuration, or `None` without TLS.
    pub(super) config: watch::Sender<Option<Arc<ServerConfig>>>,
    /// ACME client for the certificate, with `Tls::Acme` settings.
    pub(super) acme: Option<Acme>,
}

/// Room for sessions and updates, and separate room for watches.
#[derive(Debug)]
pub(super) struct Room {
    /// Most sessions and updates at once.
    pub(super) most: usize,
    left: Arc<Semaphore>,
    /// Room for sessions, which have files open.
    with_files: Arc<Semaphore>,
    /// Room for watches and streams of events, which open no files: as many as sessions.
    watches: Arc<Semaphore>,
    /// Most open files of connections and sessions.
    files: usize,
    /// Tokens with a session or a watch.
    pub(super) online: Arc<Online>,
}

impl Room {
    /// Makes room for `most` sessions, in a process that may have `open` files open.
    pub(super) fn new(most: usize, open: usize) -> Self {
        let [left, with_files, watches] = [(); 3].map(|()| Arc::new(Semaphore::new(most)));
        let files = open.saturating_sub(OTHER_FILES);
        Self { most, left, with_files, watches, files, online: Arc::default() }
    }

    /// Reserves a place for a session, with `clients` connections open. `None` at the limit of sessions or open files.
    fn take(&self, clients: usize) -> Option<Taken> {
        let busy = self.most - self.with_files.available_permits();
        // The first session has room however many clients are connected.
        let has_files = busy * SESSION_FILES <= self.files.saturating_sub(clients);
        let files = Arc::clone(&self.with_files).try_acquire_owned().ok().filter(|_| has_files)?;
        Some(Taken { _files: Some(files), ..self.take_without_files()? })
    }

    /// Takes room for one more watch.
    fn take_watch(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watches).try_acquire_owned().ok()
    }

    /// Takes room for an update, which has no files open yet.
    fn take_without_files(&self) -> Option<Taken> {
        let one = Arc::clone(&self.left).try_acquire_owned().ok()?;
        Some(Taken { _one: one, _files: None })
    }
}

/// Room taken by a session or an update, released on drop.
struct Taken {
    _one: OwnedSemaphorePermit,
    _files: Option<OwnedSemaphorePermit>,
}

/// Files reserved for a session; most sessions have fewer files open.
const SESSION_FILES: usize = 16;
/// Files that may be open in addition to those of connections and sessions.
const OTHER_FILES: usize = 256;

fn many_sessions() -> Problem {
    Problem::busy("the server has reached its limit of sessions; try again in a moment")
}

/// Permit for a session, released on drop.
pub(crate) struct SessionPermit {
    _counted: Option<Counted<TokenHash>>,
    _room: Taken,
    _online: OnlineClient,
}

/// Permit for a watch or a stream of events, released on drop.
pub(crate) struct WatchPermit {
    _counted: Option<Counted<TokenHash>>,
    _room: OwnedSemaphorePermit,
    _online: OnlineClient,
}

/// A client with a valid token.
pub(crate) struct Known {
    pub(crate) token: TokenHash,
    /// The first token in the chain of makers. Rates and sessions of all tokens of the chain count toward this token.
    pub(crate) first: TokenHash,
    pub(crate) grant: Grant,
    /// Quotas of all tokens in the chain of makers.
    pub(crate) quotas: Vec<TokenQuota>,
    /// True for the starter's token, which was made when the server was started, and for sessions.
    is_starter: bool,
}

/// Guard that counts a connected client.
pub(crate) struct ClientGuard(Arc<Server>);

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.clients.send_modify(|clients| *clients -= 1);
    }
}

/// Returns the token of a request: `None` without an `Authorization` header, `Some(None)` for an invalid token.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Option<Token>> {
    let value = headers.get(header::AUTHORIZATION)?;
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
    Some(token.and_then(|token| token.parse().ok()))
}

/// Refuses a request from a page of another site. The page is of this site if the browser says so by
/// `Sec-Fetch-Site`, which no page can set, or if `Origin` equals `Host`. Forwarded host names of proxies are ignored.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).into_iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "more than one Host"));
    }
    // Many proxies replace `Host`, but pass this header on.
    let mut sites = headers.get_all("sec-fetch-site").into_iter().peekable();
    if sites.peek().is_some() && sites.all(|site| site == "same-origin") {
        return Ok(());
    }
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let site = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        !host.is_empty() && site.is_some_and(|site| site.eq_ignore_ascii_case(host))
    };
    match headers.get_all(header::ORIGIN).into_iter().all(is_own) {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request comes from a page of another site, or a proxy does not pass Host",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_room_as_long_as_files_may_be_opened() {
        let room = Room::new(1000, 20_000);
        let beside = |clients| std::iter::from_fn(|| room.take(clients)).collect::<Vec<_>>().len();
        assert_eq!([0, 19_000, 30_000].map(beside), [1000, 47, 1]);
        let _held = room.take(0);
        assert!(room.take(30_000).is_none());
        let updates = std::iter::from_fn(|| room.take_without_files()).collect::<Vec<_>>();
        assert_eq!(updates.len(), 999, "they need no files");
        assert!(room.take(0).is_none(), "but they count");
    }
}
