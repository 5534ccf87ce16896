//! What all connections of a server share: who is known, the volumes, and room for sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use deltic_net::embed::Embedding;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::access::{Access, Grant};
use super::problem::Problem;
use super::volume::{Right, Rights, Volume};
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
    /// The number of connections of clients who may be put out.
    pub(super) clients: watch::Sender<usize>,
    /// Key of entity tags: without it nobody learns numbers of inodes.
    pub(crate) tag_key: [u8; 32],
}

impl Server {
    /// Finds out who has a token, as long as that has rights.
    pub(crate) fn known(&self, token: TokenHash) -> Result<Known, Problem> {
        let grant = self.access.grant(&token).ok_or_else(Problem::not_let_in)?;
        Ok(Known { token, grant })
    }

    /// Finds a volume, and what a client may do there.
    pub(crate) fn volume(&self, known: &Known, name: &str) -> Result<(&Volume, Rights), Problem> {
        let volume = self.volumes.get(name).filter(|_| known.grant.is_for(name));
        let found = volume.and_then(|volume| Some((volume, volume.rights(&known.grant)?)));
        found.ok_or_else(Problem::unknown)
    }

    /// Finds a volume in which a client has a right.
    pub(crate) fn volume_for(
        &self,
        right: Right,
        (known, name): (&Known, &str),
    ) -> Result<Volume, Problem> {
        let (volume, rights) = self.volume(known, name)?;
        let (has, what) = match right {
            Right::Read => (rights.read, "reading"),
            Right::Write => (rights.write, "writing"),
            Right::Delete => (rights.delete, "deleting"),
        };
        if has { Ok(volume.clone()) } else { Err(Problem::forbidden(what)) }
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

    /// Counts a client as long as the guard lives.
    pub(crate) fn somebody(self: &Arc<Self>) -> Somebody {
        self.clients.send_modify(|clients| *clients += 1);
        Somebody(Arc::clone(self))
    }
}

/// A client whose token has rights.
pub(crate) struct Known {
    pub(crate) token: TokenHash,
    grant: Grant,
}

/// A client who is connected.
pub(crate) struct Somebody(Arc<Server>);

impl Drop for Somebody {
    fn drop(&mut self) {
        self.0.clients.send_modify(|clients| *clients -= 1);
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
