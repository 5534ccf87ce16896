//! Lists unfinished uploads, and finds an upload by its place in the list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::{KEPT_FOR, Upload, Uploads, unknown};
use crate::lock;
use crate::server::audit::name;
use crate::server::problem::Problem;
use crate::server::rest::request::{Address, no_store, on_disk};
use crate::server::shared::{Known, Server};
use crate::token::TokenHash;

/// Tokens whose uploads a client may list and cancel.
enum ListedTokens {
    /// All tokens: the client is an administrator.
    All,
    /// The client's token, and the tokens made with it.
    Some(HashSet<TokenHash>),
}

impl ListedTokens {
    fn of(server: &Server, known: &Known) -> Self {
        if known.grant.admin {
            return Self::All;
        }
        let made = server.access.made_by(&known.token).into_keys();
        Self::Some(made.chain([known.token]).collect())
    }

    fn has(&self, token: &TokenHash) -> bool {
        match self {
            Self::All => true,
            Self::Some(tokens) => tokens.contains(token),
        }
    }
}

/// Lists the unfinished uploads in a volume: those of the client's token and of tokens made with it, for an
/// administrator all.
pub(in super::super) async fn list(
    State(server): State<Arc<Server>>,
    Extension(uploads): Extension<Arc<Uploads>>,
    Address(volume): Address<String>,
    known: Known,
) -> Result<Response, Problem> {
    server.volume(&known, &volume)?;
    let again = Arc::clone(&server);
    let listed = on_disk(&again, move || {
        let (tokens, names) = (ListedTokens::of(&server, &known), server.access.tokens().0);
        let its = |upload: &Upload| upload.volume == volume && tokens.has(&upload.token);
        let mut listed: Vec<(String, Value)> = (lock(&uploads.all).iter())
            .filter(|(_, upload)| its(upload))
            .map(|(id, upload)| {
                let mut shown = upload.shown(id);
                shown["token"] = names.get(&upload.token).map(String::as_str).into();
                (upload.file.clone(), shown)
            })
            .collect();
        listed.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(listed.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>())
    });
    Ok(no_store(Json(json!({ "uploads": listed.await? }))))
}

impl Upload {
    fn shown(&self, id: &TokenHash) -> Value {
        let (silence, now) = (self.silence(), SystemTime::now());
        let secs = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "id": name(id),
            "path": self.file,
            "bytes": self.len,
            "arrived": self.arrived.load(Ordering::Relaxed),
            "touched": secs(now.checked_sub(silence).unwrap_or(UNIX_EPOCH)),
            "expires": secs(now + KEPT_FOR.saturating_sub(silence)),
        })
    }
}

impl Uploads {
    /// Finds an upload by the id of the list, if the client may cancel the upload. Blocks on the token file.
    pub(super) fn find_listed(
        &self,
        server: &Server,
        known: &Known,
        volume: &str,
        id: &str,
    ) -> Result<(TokenHash, Arc<Upload>), Problem> {
        let tokens = ListedTokens::of(server, known);
        let all = lock(&self.all);
        let mut its = all.iter().filter(|(hash, upload)| {
            name(hash) == id && upload.volume == volume && tokens.has(&upload.token)
        });
        its.next().map(|(hash, upload)| (*hash, Arc::clone(upload))).ok_or_else(unknown)
    }
}
