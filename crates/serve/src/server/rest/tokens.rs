//! Tokens and tickets that clients make for others, with no more rights than the client has.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use deltic_tree::RelPath;
use deltic_tree::path::printable;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::incoming::collect;
use super::request::{Address, no_store, on_disk, path};
use crate::server::access::Refusal;
use crate::server::audit::name;
use crate::server::grant::Grant;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::tickets::TicketUse;
use crate::server::volume::Right;
use crate::token::TokenHash;

/// Most bytes of a request about tokens.
const MAX_BODY: u64 = 16 << 10;
/// Longest name of a token, in bytes.
const MAX_NAME: usize = 100;
/// Hex digits of a token's hash that name the token in a request to revoke.
const ID_LETTERS: usize = 12;

/// A token that a client wants to make. Missing fields are inherited from the client's own token, except the rights
/// to write and to delete, which default to false.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    volumes: Option<Vec<String>>,
    path: Option<String>,
    read: Option<bool>,
    #[serde(default)]
    write: bool,
    #[serde(default)]
    delete: bool,
    share: Option<bool>,
    quota_bytes: Option<u64>,
    quota_files: Option<u64>,
    /// Seconds until the new token expires.
    expires_in: Option<u64>,
}

impl Wanted {
    /// Returns the grant of the new token, which expires no later than the client's own. Refuses rights, volumes and
    /// paths beyond the client's own.
    fn grant(self, server: &Server, known: &Known, now: u64) -> Result<Grant, Problem> {
        let own = &known.grant;
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || printable(self.name.as_bytes()) != self.name
        {
            let why = format!("name: 1 to {MAX_NAME} bytes, without control and format characters");
            return Err(Problem::new(StatusCode::BAD_REQUEST, why));
        }
        let (read, share) = (self.read.unwrap_or(own.read), self.share.unwrap_or(own.share));
        for (wanted, has, what) in [
            (true, own.share, "making tokens"),
            (read, own.read, "reading"),
            (self.write, own.write, "writing"),
            (self.delete, own.write && own.delete, "deleting"),
        ] {
            if wanted && !has {
                return Err(Problem::forbidden(what));
            }
        }
        let is_its = |name: &String| own.is_for(name) && server.volumes.contains_key(name);
        if !self.volumes.iter().flatten().all(is_its) {
            return Err(Problem::unknown());
        }
        let wanted = self.volumes.map(|names| Vec::from_iter(BTreeSet::from_iter(names)));
        let volumes = wanted.or_else(|| own.volumes.clone());
        let path = match &self.path {
            None => own.path.clone(),
            Some(text) => {
                let path = path(text)?;
                if !own.covers(&path) {
                    return Err(Problem::unknown());
                }
                Some(path)
            }
        };
        let ends = self.expires_in.map(|secs| now.saturating_add(secs));
        let expires = ends.into_iter().chain(own.expires).min();
        let Self { name, write, delete, quota_bytes, quota_files, .. } = self;
        let wanted =
            Grant { volumes, path, read, write, delete, expires, ..Grant::with_all_rights(name) };
        Ok(Grant { share, quota_bytes, quota_files, ..wanted })
    }
}

/// Makes a token with no more rights than the token of the request.
pub(super) async fn mint(
    State(server): State<Arc<Server>>,
    known: Known,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let wanted: Wanted = parse(&headers, body).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let grant = wanted.grant(&server, &known, now)?;
    let (again, made) = (Arc::clone(&server), grant.clone());
    let many = "this token has reached its limit of tokens";
    let token = on_disk(&server, move || {
        again.access.mint(&known.token, made).map_err(|why| refused(why, many))
    })
    .await?;
    let mut made = shown(&server, &token.hash(), &grant);
    made["token"] = token.reveal().into();
    Ok(no_store((StatusCode::CREATED, Json(made))))
}

/// Returns the answer to a request for a token that was refused; `many` is the text if there are too many tokens.
fn refused(why: Refusal, many: &str) -> Problem {
    match why {
        Refusal::Ended => Problem::not_let_in(),
        Refusal::TooMany => Problem::new(StatusCode::CONFLICT, many),
        Refusal::Io(error) => unwritten(&error),
    }
}

/// Returns the answer if the token file cannot be read or replaced. Texts that are not the system's may have the path
/// of the file.
fn unwritten(error: &io::Error) -> Problem {
    let why = match error.raw_os_error() {
        Some(errno) => deltic_store_local::reason(&io::Error::from_raw_os_error(errno)),
        None => "the file is damaged: `deltic token list` on the server tells where".into(),
    };
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("tokens: {why}"))
}

/// Keeps a page signed in: answers the starter's token with a token that outlives the server, and extends the life of
/// such a token.
pub(super) async fn keep_session(
    State(server): State<Arc<Server>>,
    known: Known,
) -> Result<Response, Problem> {
    let again = Arc::clone(&server);
    let many =
        "the limit of signed-in pages is reached: `deltic token revoke page` signs all of them out";
    let session = on_disk(&server, move || {
        let kept = again.access.keep_session(&known.token, &known.grant, SystemTime::now());
        kept.map_err(|why| refused(why, many))
    })
    .await?;
    let mut answer = json!({ "expires": session.expires });
    let Some(token) = session.token else { return Ok(no_store(Json(answer))) };
    answer["token"] = token.reveal().into();
    Ok(no_store((StatusCode::CREATED, Json(answer))))
}

/// Signs a page out: revokes the token of its session, and all tokens made with that token.
pub(super) async fn end_session(
    State(server): State<Arc<Server>>,
    known: Known,
) -> Result<StatusCode, Problem> {
    if known.grant.session.is_none() {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this token is not of a session"));
    }
    on_disk(&server.clone(), move || {
        server.access.revoke(&known.token).map_err(|error| unwritten(&error))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the tokens made with the token of the request, directly or by tokens made with it.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    known: Known,
) -> Result<Response, Problem> {
    let again = Arc::clone(&server);
    let made = on_disk(&server, move || Ok(again.access.made_by(&known.token))).await?;
    let tokens: Vec<_> = made.iter().map(|(hash, grant)| shown(&server, hash, grant)).collect();
    Ok(no_store(Json(json!({ "tokens": tokens }))))
}

/// Revokes a token that the client made, and all tokens made with the revoked token. An administrator revokes any
/// token but those of the settings.
pub(super) async fn revoke(
    State(server): State<Arc<Server>>,
    known: Known,
    Address(id): Address<String>,
) -> Result<Response, Problem> {
    let unknown =
        || Problem::new(StatusCode::NOT_FOUND, "no such token, or not made with this one");
    on_disk(&server.clone(), move || {
        let made = match known.grant.admin {
            true => server.access.all(),
            false => server.access.made_by(&known.token),
        };
        let is_it = |hash: &&TokenHash| id.len() >= ID_LETTERS && hash.to_string().starts_with(&id);
        let token = made.keys().find(is_it).ok_or_else(unknown)?;
        let revoked = server.access.revoke(token).map_err(|error| unwritten(&error));
        if revoked? > 0 { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(unknown()) }
    })
    .await
}

/// Returns a token as lists show it: the rights, the time of the last request, and the number of visits.
pub(super) fn shown(server: &Server, token: &TokenHash, grant: &Grant) -> Value {
    let used = server.access.uses.of(token);
    let path = grant.path_text();
    let Grant { name: label, volumes, read, write, delete, expires, .. } = grant;
    let Grant { quota_bytes, quota_files, .. } = grant;
    json!({
        "id": name(token), "name": label, "volumes": volumes, "path": path,
        "read": read, "write": write, "delete": delete, "share": grant.share, "expires": expires,
        "quota_bytes": quota_bytes, "quota_files": quota_files,
        "used": used.map(|used| used.last), "visits": used.map_or(0, |used| used.visits),
    })
}

/// The file for which a client wants a ticket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    volume: String,
    path: String,
    /// True for a ticket for a preview: many reads, with the content type of the file.
    #[serde(default)]
    preview: bool,
}

/// Makes a ticket for a file that the client may read.
pub(super) async fn issue_ticket(
    State(server): State<Arc<Server>>,
    known: Known,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let File { volume, path: text, preview } = parse(&headers, body).await?;
    let good_for = if preview { TicketUse::Preview } else { TicketUse::Once };
    let path: RelPath = path(&text)?;
    server.volume_for(Right::Read, &known, &volume, &path)?;
    let fields = json!({ "token": name(&known.token), "volume": volume, "path": path.to_string() });
    let ticket = server.tickets.issue([known.token, known.first], volume, path, good_for)?;
    server.journal.note("ticket", fields);
    let answer = json!({ "ticket": ticket.reveal(), "expires_in": good_for.life().as_secs() });
    Ok(no_store((StatusCode::CREATED, Json(answer))))
}

/// Parses a request body as JSON, of at most `MAX_BODY` bytes.
async fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Problem> {
    let bytes = collect(headers, body, MAX_BODY).await?;
    let bad = |why| Problem::new(StatusCode::BAD_REQUEST, format!("the body: {why}"));
    serde_json::from_slice(&bytes).map_err(bad)
}
