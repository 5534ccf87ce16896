//! What all connections of a server share: who is known, the volumes, and room for sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use deltic_net::embed::Embedding;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::access::Access;
use super::problem::Problem;
use super::volume::{Rights, Volume};
use crate::token::{Token, TokenHash};

/// State of a server that all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(crate) access: Access,
    pub(crate) embedding: Embedding,
    pub(super) sessions: Arc<Semaphore>,
    pub(crate) disk: Arc<Semaphore>,
    pub(crate) upload_bytes: u64,
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) tracker: TaskTracker,
    /// Connections of clients who may be put out.
    pub(super) clients: AtomicUsize,
    /// Key of entity tags: without it nobody learns numbers of inodes.
    pub(crate) tag_key: [u8; 32],
}

impl Server {
    /// The name of a token that has rights here.
    pub(crate) fn admit(&self, token: &Token) -> Result<TokenHash, Problem> {
        let hash = token.hash();
        self.access.grant(&hash).map(|_| hash).ok_or_else(Problem::not_let_in)
    }

    /// Refuses a token that has no rights any more.
    pub(super) fn admit_again(&self, token: &TokenHash) -> Result<(), Problem> {
        self.access.grant(token).map(drop).ok_or_else(Problem::not_let_in)
    }

    /// A volume, and what a token allows there.
    pub(crate) fn volume(
        &self,
        token: &TokenHash,
        name: &str,
    ) -> Result<(&Volume, Rights), Problem> {
        let grant = self.access.grant(token).ok_or_else(Problem::not_let_in)?;
        let volume = self.volumes.get(name);
        let found = volume.and_then(|volume| Some((volume, volume.rights(&grant)?)));
        found.ok_or_else(Problem::unknown)
    }

    /// Room for one more session.
    pub(crate) fn session_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |why: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
        if *self.draining.borrow() {
            return Err(busy("the server is about to end; try again in a moment"));
        }
        let permit = Arc::clone(&self.sessions).try_acquire_owned();
        permit.map_err(|_| busy("the server has as many sessions as it may; try again in a moment"))
    }

    /// Counts a client as long as the guard lives; with the first one, tokens are watched.
    pub(crate) fn somebody(self: &Arc<Self>) -> Somebody {
        if self.clients.fetch_add(1, Ordering::SeqCst) == 0 {
            let server = Arc::clone(self);
            tokio::spawn(async move {
                server.access.watch(|| server.clients.load(Ordering::SeqCst) > 0).await;
            });
        }
        Somebody(Arc::clone(self))
    }
}

/// A client who is connected.
pub(crate) struct Somebody(Arc<Server>);

impl Drop for Somebody {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The token of a request, if it has one.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<Token>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
    let token = token.and_then(|token| token.parse().ok());
    token.map(Some).ok_or_else(Problem::not_let_in)
}

/// Refuses a request that a page of another site makes: a browser says whose it is.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let host = headers.get(header::HOST).map(text).unwrap_or_default();
    let origin = text(origin);
    let site = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    match site == Some(&host) && !host.is_empty() {
        true => Ok(()),
        false => Err(Problem::new(StatusCode::FORBIDDEN, "a page of another site asks")),
    }
}
