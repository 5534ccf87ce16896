//! Admission: limits of connections, wrong tokens, requests and sessions for each address or token, so that no client
//! can use up the server.
//!
//! The address of a client is that of its connection, or the address named by a trusted proxy. An IPv6 /64 network
//! counts as one address, because the owner of one address usually has the whole network. Connections from this
//! machine are not counted, because they may come from a proxy that the settings do not name; `count_loopback` counts
//! them as well.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::config::Limits;
use super::problem::{BUSY, Problem};
use super::rates::{Meter, Rate};
use super::strangers::{StrangerPlace, Strangers};
use crate::lock;
use crate::token::TokenHash;

/// Counts connections, handshakes, requests and sessions by address or token.
#[derive(Debug)]
pub(crate) struct Admission {
    proxies: Vec<IpAddr>,
    limits: Mutex<Limits>,
    strangers: Arc<Strangers>,
    connections: Arc<Tally<IpAddr>>,
    handshakes: Meter<IpAddr>,
    /// Handshakes of strangers beyond the rates of their addresses, for all addresses together.
    spare_handshakes: Meter<()>,
    passes: Meter<TokenHash>,
    wrong_tokens: Meter<IpAddr>,
    sessions: Arc<Tally<TokenHash>>,
    watches: Arc<Tally<TokenHash>>,
    requests: Meter<TokenHash>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    ip: IpAddr,
    /// The address to count by; `None` for proxies and for loopback addresses that are not counted.
    counted: Option<IpAddr>,
    /// Cancelled once the connection must give way.
    leave: CancellationToken,
    standing: Mutex<Standing>,
    /// Permit for one of all connections; a WebSocket holds the permit for its whole life.
    _permit: Option<OwnedSemaphorePermit>,
}

/// State of the other end: with or without a token, and with the connection's place in the limits.
#[derive(Debug)]
enum Standing {
    /// The other end has shown neither a token nor a pass.
    Stranger { _place: StrangerPlace },
    /// The other end has shown a token, or a pass for a token.
    Known { _place: Option<Counted<IpAddr>> },
}

impl Peer {
    /// Adds the permit, to be held as long as the connection.
    pub(crate) fn holding(self, permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Some(permit), ..self }
    }

    /// Completes once the connection must give way to another connection.
    pub(crate) async fn has_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) ip: IpAddr,
    /// The address by which wrong tokens are counted, or `None` if they are not counted.
    counted: Option<IpAddr>,
    pub(crate) peer: Arc<Peer>,
}

impl Admission {
    pub(crate) fn new(limits: Limits, proxies: Vec<IpAddr>) -> Self {
        let [handshakes, wrong_tokens, requests] = rates(&limits);
        Self {
            proxies: proxies.into_iter().map(|ip| ip.to_canonical()).collect(),
            limits: Mutex::new(limits),
            strangers: Arc::default(),
            connections: Arc::default(),
            handshakes: Meter::new(handshakes),
            spare_handshakes: Meter::new(spare_handshakes()),
            passes: Meter::new(requests),
            wrong_tokens: Meter::new(wrong_tokens),
            sessions: Arc::default(),
            watches: Arc::default(),
            requests: Meter::new(requests),
        }
    }

    /// Applies other limits from now on.
    pub(crate) fn set(&self, limits: Limits) {
        let [handshakes, wrong_tokens, requests] = rates(&limits);
        self.handshakes.set(handshakes);
        self.wrong_tokens.set(wrong_tokens);
        self.requests.set(requests);
        self.passes.set(requests);
        *lock(&self.limits) = limits;
    }

    /// Returns the present limits.
    pub(crate) fn limits(&self) -> Limits {
        *lock(&self.limits)
    }

    /// Admits a new connection, as a stranger.
    pub(crate) fn connect(&self, ip: IpAddr) -> Peer {
        let (ip, limits) = (ip.to_canonical(), self.limits());
        let is_counted =
            !self.proxies.contains(&ip) && (limits.count_loopback || !ip.is_loopback());
        let counted = is_counted.then(|| network(ip));
        let place = self.strangers.enter(counted, limits.connections_per_address);
        let leave = place.eviction_token();
        let standing = Mutex::new(Standing::Stranger { _place: place });
        Peer { ip, counted, leave, standing, _permit: None }
    }

    /// Makes room for a new connection by closing the oldest stranger, if there is one.
    pub(crate) fn make_room(&self) {
        self.strangers.evict_oldest();
    }

    /// Returns true if one of these rates allows the TLS handshake to start:
    /// - the rate of the token, for a handshake with a pass
    /// - the rate of the address
    /// - the rate of all spare handshakes together
    pub(crate) fn admit_handshake(&self, peer: &Peer, passed: Option<TokenHash>) -> bool {
        let Some(address) = peer.counted else { return true };
        let now = Instant::now();
        let has_passed =
            |token| self.passes.take(token, now).is_ok() && self.recognise(peer).is_ok();
        passed.is_some_and(has_passed)
            || self.handshakes.take(address, now).is_ok()
            || self.spare_handshakes.take((), now).is_ok()
    }

    /// Counts the connection among the connections of its address that have shown a token.
    fn recognise(&self, peer: &Peer) -> Result<(), Problem> {
        let mut standing = lock(&peer.standing);
        if matches!(*standing, Standing::Known { .. }) {
            return Ok(());
        }
        let most = self.limits().connections_per_address;
        let full = || later("this address has reached its limit of connections", BUSY);
        let take = |address| Tally::take(&self.connections, address, most).ok_or_else(full);
        *standing = Standing::Known { _place: peer.counted.map(take).transpose()? };
        Ok(())
    }

    /// Returns the client of a request: the other end of the connection, or the address that a trusted proxy names.
    pub(crate) fn client(&self, peer: &Arc<Peer>, headers: &HeaderMap) -> Client {
        let named = self.forwarded(peer.ip, headers);
        let counted = named.map_or(peer.counted, |ip| Some(network(ip)));
        Client { ip: named.unwrap_or(peer.ip), counted, peer: Arc::clone(peer) }
    }

    /// Returns the last address in `X-Forwarded-For` that is not a proxy. Earlier addresses may be forged by clients.
    fn forwarded(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        if !self.proxies.contains(&peer) {
            return None;
        }
        let named = headers.get_all("x-forwarded-for").into_iter();
        let named: Vec<_> = named.filter_map(|value| value.to_str().ok()).collect();
        let mut named = named.iter().rev().flat_map(|value| value.rsplit(','));
        named
            .by_ref()
            .map_while(|address| address.trim().parse::<IpAddr>().ok())
            .map(|ip| ip.to_canonical())
            .find(|ip| !self.proxies.contains(ip))
    }

    /// Counts a wrong token, and returns the answer.
    pub(crate) fn wrong_token(&self, client: &Client) -> Problem {
        let Some(key) = client.counted else { return Problem::not_let_in() };
        match self.wrong_tokens.take(key, Instant::now()) {
            Ok(()) => Problem::not_let_in(),
            Err(wait) => later("too many wrong tokens from this address", wait),
        }
    }

    /// Counts a request with a token.
    pub(crate) fn request(&self, client: &Client, token: TokenHash) -> Result<(), Problem> {
        self.recognise(&client.peer)?;
        let taken = self.requests.take(token, Instant::now());
        taken.map_err(|wait| later("too many requests with this token", wait))
    }

    /// Counts a session of a token until the guard is dropped.
    pub(crate) fn session(&self, token: TokenHash) -> Result<Counted<TokenHash>, Problem> {
        let most = self.limits().sessions_per_token;
        let why = "this token has reached its limit of sessions; try again in a moment";
        Tally::take(&self.sessions, token, most).ok_or_else(|| later(why, BUSY))
    }

    /// Counts a watch of a token until the guard is dropped. A token may have as many watches as sessions.
    pub(crate) fn watch(&self, token: TokenHash) -> Result<Counted<TokenHash>, Problem> {
        let most = self.limits().sessions_per_token;
        let why = "this token has reached its limit of watches; try again in a moment";
        Tally::take(&self.watches, token, most).ok_or_else(|| later(why, BUSY))
    }
}

fn later(why: &str, wait: Duration) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, why).after(wait)
}

/// Rate of handshakes beyond the rates of addresses: an eighth of the processors, at a quarter of a millisecond for
/// each handshake.
fn spare_handshakes() -> Rate {
    const OF_A_PROCESSOR: u32 = 500;
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let most = OF_A_PROCESSOR.saturating_mul(u32::try_from(processors).unwrap_or(u32::MAX));
    Rate::new(most, Duration::from_secs(1), most / 10)
}

/// Rates of handshakes, wrong tokens and requests.
fn rates(limits: &Limits) -> [Rate; 3] {
    const SECOND: Duration = Duration::from_secs(1);
    let wrong = limits.wrong_tokens_per_minute;
    [
        Rate::new(limits.handshakes_per_second, SECOND, limits.handshake_burst),
        Rate::new(wrong, 60 * SECOND, wrong),
        Rate::new(limits.requests_per_second, SECOND, limits.request_burst),
    ]
}

/// Returns the network of an address, which is counted as one address: a /64 in IPv6.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & (u128::MAX << 64)).into(),
        ip => ip,
    }
}

/// Counts present objects by key.
#[derive(Debug)]
struct Tally<K>(Mutex<HashMap<K, usize>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash> Tally<K> {
    /// Counts one more object. `None` if there are `most` already.
    fn take(tally: &Arc<Self>, key: K, most: usize) -> Option<Counted<K>> {
        let mut counts = lock(&tally.0);
        let count = counts.entry(key).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Counted { tally: Arc::clone(tally), key })
    }
}

/// Guard that counts one object of a key.
#[derive(Debug)]
pub(crate) struct Counted<K: Copy + Eq + Hash> {
    tally: Arc<Tally<K>>,
    key: K,
}

impl<K: Copy + Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = lock(&self.tally.0);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::new_token;

    fn admission(proxies: &[&str]) -> Admission {
        let limits = Limits { connections_per_address: 3, ..Limits::default() };
        Admission::new(limits, proxies.iter().map(|ip| ip.parse().unwrap()).collect())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Connects from an address, and shows a token.
    fn known(admission: &Admission, from: &str) -> (Arc<Peer>, Result<(), Problem>) {
        let peer = Arc::new(admission.connect(ip(from)));
        let client = admission.client(&peer, &HeaderMap::new());
        let shown = admission.request(&client, new_token().hash());
        (peer, shown)
    }

    #[test]
    fn an_address_has_so_many_connections_with_a_token_and_a_net_of_ipv6_is_one() {
        let admission = admission(&[]);
        let held: Vec<_> = (0..3).map(|_| known(&admission, "192.0.2.1")).collect();
        assert!(held.iter().all(|(_, shown)| shown.is_ok()));
        let refused = |from: &str| known(&admission, from).1.is_err();
        assert!(refused("192.0.2.1"));
        assert!(refused("::ffff:192.0.2.1"), "it is the same address");
        assert!(!refused("192.0.2.2"));
        drop(held);
        assert!(!refused("192.0.2.1"));
        let held: Vec<_> =
            (0..9).map(|last| known(&admission, &format!("2001:db8::{last:x}"))).collect();
        assert_eq!(held.iter().filter(|(_, shown)| shown.is_ok()).count(), 3);
        assert!(!refused("2001:db8:0:1::1"));
        let here: Vec<_> = (0..9).map(|_| known(&admission, "127.0.0.1")).collect();
        assert!(
            here.iter().all(|(_, shown)| shown.is_ok()),
            "whom a proxy speaks for is not known"
        );
    }

    #[test]
    fn strangers_take_no_room_of_those_with_a_token() {
        let admission = admission(&[]);
        let (held, shown) = known(&admission, "192.0.2.1");
        assert_eq!(shown, Ok(()));
        let strangers: Vec<_> = (0..200).map(|_| admission.connect(ip("192.0.2.1"))).collect();
        let here = strangers.iter().filter(|peer| !peer.leave.is_cancelled()).count();
        assert_eq!(here, 3, "the oldest give way");
        assert!(!held.leave.is_cancelled());
        // The newest connection has time to show its token, and then no longer gives way.
        let last = Arc::new(strangers.into_iter().last().unwrap());
        let client = admission.client(&last, &HeaderMap::new());
        assert_eq!(admission.request(&client, new_token().hash()), Ok(()));
        let more: Vec<_> = (0..200).map(|_| admission.connect(ip("192.0.2.1"))).collect();
        admission.make_room();
        assert!(!last.leave.is_cancelled() && more[197].leave.is_cancelled());
    }

    #[test]
    fn handshakes_of_strangers_are_held_off_and_those_with_a_pass_are_not() {
        let admission = admission(&[]);
        let shaken =
            |from: &str, pass| admission.admit_handshake(&admission.connect(ip(from)), pass);
        let strangers = (0..200_000).filter(|_| shaken("192.0.2.1", None)).count();
        assert!((50..50_000).contains(&strangers), "{strangers}");
        let token = new_token().hash();
        assert!((0..200).all(|_| shaken("192.0.2.1", Some(token))));
        let replayed = (0..200_000).filter(|_| shaken("192.0.2.1", Some(token))).count();
        assert!(replayed < 50_000, "{replayed}");
        assert!((0..50).all(|_| shaken("192.0.2.2", None)), "each address has its own rate");
        assert!((0..20_000).all(|_| shaken("127.0.0.1", None)));
    }

    #[test]
    fn a_proxy_says_who_the_client_is_and_nobody_else_does() {
        let admission = admission(&["127.0.0.1", "10.0.0.1"]);
        let client = |peer: &str, named: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in named {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            let peer = Arc::new(admission.connect(ip(peer)));
            admission.client(&peer, &headers).ip.to_string()
        };
        assert_eq!(client("127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &["6.6.6.6, 198.51.100.7, 10.0.0.1"]), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &["6.6.6.6", "198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &["6.6.6.6, junk"]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("192.0.2.1", &["6.6.6.6"]), "192.0.2.1");
    }

    #[test]
    fn wrong_tokens_are_answered_later_after_some() {
        let admission = admission(&[]);
        let peer = Arc::new(admission.connect(ip("192.0.2.1")));
        let client = admission.client(&peer, &HeaderMap::new());
        let answer = || admission.wrong_token(&client).status;
        assert!((0..10).all(|_| answer() == StatusCode::UNAUTHORIZED));
        assert_eq!(answer(), StatusCode::TOO_MANY_REQUESTS);
        let token = new_token().hash();
        assert_eq!(admission.request(&client, token), Ok(()), "a right one is not held up");
    }
}
