//! Uploads in several requests, after the IETF's draft for resumable uploads (draft-ietf-httpbis-resumable-upload): for
//! clients behind proxies that refuse long bodies, or that lose connections.
//!
//! `PUT` with `Upload-Complete: ?0` begins an upload, under the conditions of the request. `PATCH` adds bytes at an
//! offset, and the last one commits. Uploads are kept by the process, and end with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use deltic_store::Rebuild;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::incoming::next;
use super::pieces::PIECE;
use super::replacement::{NewAttributes, ReplaceTarget, Replacement};
use super::request::{Address, At, no_store, on_disk};
use crate::lock;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::token::{Token, TokenHash, new_token};

/// Header that tells whether a request has the last bytes of an upload.
const UPLOAD_COMPLETE: &str = "upload-complete";
/// Header with the length of the whole upload, in bytes.
const UPLOAD_LENGTH: &str = "upload-length";
/// Header with the offset of a request's first byte, or of the next byte that the server expects.
const UPLOAD_OFFSET: &str = "upload-offset";
/// Time after the last request for which an unfinished upload is kept.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// Most unfinished uploads at once, of all tokens and of one.
const MAX_UPLOADS: usize = 1_000;
const MAX_OF_TOKEN: usize = 50;

/// The unfinished uploads, by the hashes of their names.
#[derive(Default)]
pub(super) struct Uploads(Mutex<HashMap<TokenHash, Arc<Upload>>>);

/// An upload in several requests.
struct Upload {
    token: TokenHash,
    volume: String,
    /// Length of the whole file in bytes.
    len: u64,
    touched: Mutex<Instant>,
    /// The arrived bytes; `None` after the end of the upload.
    staged: Arc<Turns<Option<StagedUpload>>>,
}

/// The bytes of an upload that have arrived.
struct StagedUpload {
    replacement: Replacement,
    /// Offset of the next byte.
    at: u64,
}

/// A request that adds bytes.
struct Addition {
    body: Body,
    is_last: bool,
}

impl Uploads {
    /// Keeps a new upload. Returns the secret name.
    fn keep(&self, upload: Arc<Upload>) -> Result<Token, Problem> {
        let mut all = lock(&self.0);
        all.retain(|_, upload| lock(&upload.touched).elapsed() < KEPT_FOR);
        let its = all.values().filter(|other| other.token == upload.token).count();
        if all.len() >= MAX_UPLOADS || its >= MAX_OF_TOKEN {
            return Err(Problem::busy("too many unfinished uploads; finish or delete some"));
        }
        let name = new_token();
        all.insert(name.hash(), upload);
        Ok(name)
    }

    /// Finds an upload by its name, if the token began it in this volume.
    fn find(&self, known: &Known, volume: &str, name: &str) -> Result<Arc<Upload>, Problem> {
        let name = name.parse::<Token>().ok().map(|name| name.hash());
        let found = name.and_then(|name| lock(&self.0).get(&name).cloned());
        let is_its = |upload: &Arc<Upload>| upload.token == known.token && upload.volume == volume;
        let found = found.filter(is_its).ok_or_else(unknown)?;
        *lock(&found.touched) = Instant::now();
        Ok(found)
    }

    fn forget(&self, name: &str) {
        if let Ok(name) = name.parse::<Token>() {
            lock(&self.0).remove(&name.hash());
        }
    }
}

impl Upload {
    /// Takes the upload for one request. Errors: 503 while another request has it, 404 once it has ended.
    fn take(&self) -> Result<OwnedMutexGuard<Option<StagedUpload>>, Problem> {
        let turn = Arc::clone(&self.staged).try_lock_owned();
        let busy = |_| Problem::busy("another request adds to this upload; try again in a moment");
        let turn = turn.map_err(busy)?;
        if turn.is_some() { Ok(turn) } else { Err(unknown()) }
    }
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such upload, or it has ended")
}

/// True if the request begins an upload in several requests.
pub(super) fn is_part(headers: &HeaderMap) -> bool {
    headers.contains_key(UPLOAD_COMPLETE)
}

/// Begins an upload, with the bytes of the request's body.
pub(super) async fn begin(
    server: Arc<Server>,
    uploads: Arc<Uploads>,
    at: At,
    body: Body,
) -> Result<Response, Problem> {
    let is_last = is_complete(&at.headers)?;
    let target = ReplaceTarget::of(&server, &at, false)?;
    let len = number(&at.headers, UPLOAD_LENGTH)?;
    target.check_len(len)?;
    let (token, volume) = (at.known.token, at.volume.clone());
    let replacement = on_disk(&server, move || target.begin(len)).await?;
    let staged = Arc::new(Turns::new(Some(StagedUpload { replacement, at: 0 })));
    let upload = Upload { token, volume, len, touched: Mutex::new(Instant::now()), staged };
    let upload = Arc::new(upload);
    let name = uploads.keep(Arc::clone(&upload))?;
    let added = add(server, upload, 0, Addition { body, is_last }).await;
    if is_last {
        uploads.forget(&name.reveal());
        return added;
    }
    let mut answer = added?;
    let place = format!("/v1/volumes/{}/uploads/{}", at.volume, name.reveal());
    *answer.status_mut() = StatusCode::CREATED;
    if let Ok(place) = HeaderValue::from_str(&place) {
        answer.headers_mut().insert("location", place);
    }
    Ok(answer)
}

/// Tells how much of an upload has arrived.
pub(super) async fn look(
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
) -> Result<Response, Problem> {
    let upload = uploads.find(&known, &volume, &name)?;
    let at = upload.take()?.as_ref().map_or(0, |staged| staged.at);
    Ok(told(at, upload.len))
}

/// Adds bytes to an upload. The last request commits the file, and is answered as `PUT` is.
pub(super) async fn append(
    State(server): State<Arc<Server>>,
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
    request: Request,
) -> Result<Response, Problem> {
    let upload = uploads.find(&known, &volume, &name)?;
    let (Parts { headers, .. }, body) = request.into_parts();
    let (from, is_last) = (number(&headers, UPLOAD_OFFSET)?, is_complete(&headers)?);
    let staged = Arc::clone(&upload.staged);
    // Bytes that have arrived stay, also if the client leaves in the middle of its request.
    let adding = tokio::spawn(add(server, upload, from, Addition { body, is_last }));
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed here");
    let added = adding.await.map_err(failed)?;
    if staged.try_lock().is_ok_and(|staged| staged.is_none()) {
        uploads.forget(&name);
    }
    added
}

/// Ends an upload. Nothing is changed.
pub(super) async fn cancel(
    State(server): State<Arc<Server>>,
    Extension(uploads): Extension<Arc<Uploads>>,
    Address((volume, name)): Address<(String, String)>,
    known: Known,
) -> Result<StatusCode, Problem> {
    let upload = uploads.find(&known, &volume, &name)?;
    uploads.forget(&name);
    let staged = upload.take()?.take();
    on_disk(&server, move || {
        drop(staged);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Writes the bytes of a body at `from`, and commits the file after the last ones.
async fn add(
    server: Arc<Server>,
    upload: Arc<Upload>,
    from: u64,
    Addition { body, is_last }: Addition,
) -> Result<Response, Problem> {
    let mut turn = upload.take()?;
    let mut at = turn.as_ref().map_or(0, |staged| staged.at);
    if from != at {
        let why = format!("the next byte is {at}: ask where the upload is");
        let refused = Problem::new(StatusCode::CONFLICT, why);
        return Ok(with(refused.into_response(), &[(UPLOAD_OFFSET, at.to_string())]));
    }
    let (mut body, mut piece, mut ended) = (body.into_data_stream(), Vec::new(), None);
    while ended.is_none() {
        match next(&mut body).await {
            Ok(Some(bytes)) => piece.extend_from_slice(&bytes),
            Ok(None) => ended = Some(Ok(())),
            // What has arrived stays.
            Err(broken) => ended = Some(Err(broken)),
        }
        if piece.is_empty() || piece.len() < PIECE && ended.is_none() {
            continue;
        }
        if at + piece.len() as u64 > upload.len {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "more bytes than Upload-Length"));
        }
        let (bytes, mut staged) = (std::mem::take(&mut piece), turn.take().ok_or_else(unknown)?);
        let (written, staged) = on_disk(&server, move || {
            let written = staged.replacement.new.write(staged.at, &bytes);
            staged.at += if written.is_ok() { bytes.len() as u64 } else { 0 };
            Ok((written, staged))
        })
        .await?;
        at = staged.at;
        *turn = Some(staged);
        written?;
    }
    ended.unwrap_or(Ok(()))?;
    *lock(&upload.touched) = Instant::now();
    if !is_last {
        return Ok(told(at, upload.len));
    }
    if at < upload.len {
        let why = format!("{at} of {} bytes have come, so this is not the end", upload.len);
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    let StagedUpload { replacement, .. } = turn.take().ok_or_else(unknown)?;
    let len = upload.len;
    let answer =
        on_disk(&server, move || replacement.commit(NewAttributes::usual(len))?.answer()).await?;
    Ok(with(answer, &[(UPLOAD_COMPLETE, "?1".into()), (UPLOAD_OFFSET, len.to_string())]))
}

/// Answers where an unfinished upload is.
fn told(at: u64, len: u64) -> Response {
    let headers = [
        (UPLOAD_COMPLETE, "?0".into()),
        (UPLOAD_OFFSET, at.to_string()),
        (UPLOAD_LENGTH, len.to_string()),
    ];
    with(no_store(StatusCode::NO_CONTENT), &headers)
}

fn with(mut answer: Response, headers: &[(&'static str, String)]) -> Response {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(*name, value);
        }
    }
    answer
}

/// Returns the value of `Upload-Complete`, a boolean of RFC 8941.
fn is_complete(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(UPLOAD_COMPLETE).map(HeaderValue::as_bytes) {
        Some(b"?1") => Ok(true),
        Some(b"?0") => Ok(false),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, "Upload-Complete: neither ?0 nor ?1")),
    }
}

fn number(headers: &HeaderMap, name: &'static str) -> Result<u64, Problem> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
    let missing = || Problem::new(StatusCode::BAD_REQUEST, format!("{name}: no number of bytes"));
    value.ok_or_else(missing)
}
