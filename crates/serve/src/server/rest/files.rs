//! Reads, replaces and removes whole files.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::response::Builder;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deltic_store::{Snapshot, Store, StoreError};
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::RelPath;
use sha2::{Digest, Sha256};

use super::changes;
use super::conditions::{
    Present, Verdict, check_change, check_conditions, commit_problem, evaluate_conditions, failed,
    need_condition, tag, tag_of,
};
use super::delta;
use super::incoming::{broken, content_length, next};
use super::moved;
use super::pieces::{PIECE, Pieces, Reader, Step, body_of, steps};
use super::preview;
use super::replacement::{NewAttributes, ReplaceTarget, Replacement};
use super::request::{At, no_store, on_disk};
use super::uploads::{self, Uploads};
use super::versions;
use super::zip;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Right;

/// Largest file with a digest in the answer, in bytes.
const MAX_DIGESTED: u64 = 64 << 20;
/// Header that asks for a file's digest (RFC 9530).
const WANT_REPR_DIGEST: &str = "want-repr-digest";
/// Header of a body's digest (RFC 9530).
const REPR_DIGEST: &str = "repr-digest";

/// Answers with a file, or with its signature or old versions (`?as=`).
pub(super) async fn get(
    State(server): State<Arc<Server>>,
    at: At,
    method: Method,
) -> Result<Response, Problem> {
    match at.form.as_deref() {
        None => read(server, at, method).await,
        Some("changes") => changes::changes(server, at).await,
        Some("signature") => delta::signature(server, at).await,
        Some("versions") => versions::list(server, at).await,
        Some("zip") => zip::archive(server, at).await,
        Some(_) => at.unknown(),
    }
}

/// Changes a file, or answers a query that has a body (`?as=`).
pub(super) async fn post(
    State(server): State<Arc<Server>>,
    at: At,
    body: Body,
) -> Result<Response, Problem> {
    match at.form.as_deref() {
        Some("delta") => delta::delta(server, at, body).await,
        Some("match") => delta::matches(server, at, body).await,
        Some("move") => moved::file(server, at).await,
        Some("patch") => delta::patch(server, at, body).await,
        Some("restore") => versions::restore(server, at).await,
        _ => at.unknown(),
    }
}

/// Reads a file, or a part of it.
async fn read(server: Arc<Server>, at: At, method: Method) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let at = Arc::new(at);
    let (opening, headers) = (Arc::clone(&at), &at.headers);
    let snapshot = on_disk(&server, move || versions::open(&volume, &opening)).await?;
    let tag = tag(&server, &snapshot);
    let len = snapshot.meta().len;
    let shown_as = if at.is_preview { preview::content_type(&at.file()?) } else { None };
    let mut response = described(&snapshot, &tag, shown_as);
    let build = |response: Builder, body| {
        Ok(no_store(response.body(body).expect("headers are plain text")))
    };
    match evaluate_conditions(
        headers,
        Some(Present { tag: &tag, modified: snapshot.meta().modified }),
    ) {
        Verdict::Holds => {}
        Verdict::HasIt => return build(response.status(StatusCode::NOT_MODIFIED), Body::empty()),
        Verdict::Fails(why) => return Err(failed(why)),
    }
    // A range of another version is of no use. A time does not tell versions apart, nor does a weak tag.
    let is_of_this =
        |wanted: &HeaderValue| !snapshot.has_writer() && wanted == &*tag && !tag.starts_with("W/");
    let is_of_this = headers.get(header::IF_RANGE).is_none_or(is_of_this);
    let range = headers.get(header::RANGE).filter(|_| is_of_this);
    let (status, span) = match range.map(|range| parse_range(range, len)) {
        None | Some(Asked::All) => (StatusCode::OK, 0..len),
        Some(Asked::Span(span)) => (StatusCode::PARTIAL_CONTENT, span),
        Some(Asked::Nothing) => {
            let response = response.header(header::CONTENT_RANGE, format!("bytes */{len}"));
            return build(response.status(StatusCode::RANGE_NOT_SATISFIABLE), Body::empty());
        }
    };
    if status == StatusCode::PARTIAL_CONTENT {
        let shown = format!("bytes {}-{}/{len}", span.start, span.end - 1);
        response = response.header(header::CONTENT_RANGE, shown);
    }
    let mut response =
        response.status(status).header(header::CONTENT_LENGTH, span.end - span.start);
    let snapshot = Arc::new(snapshot);
    if wants_digest(headers) && len <= MAX_DIGESTED {
        let digest = digest(&server, &snapshot).await?;
        response = response.header(REPR_DIGEST, format!("sha-256=:{}:", STANDARD.encode(digest)));
    }
    let body = match method == Method::HEAD {
        true => Body::empty(),
        false => {
            let mut pieces = Pieces::part(snapshot, span);
            body_of(Reader::of(&server, &at)?, move || pieces.next())
        }
    };
    build(response, body)
}

/// Begins an answer with the headers that describe a file. `shown_as` is the content type of a preview.
fn described(snapshot: &LocalSnapshot, tag: &str, shown_as: Option<&'static str>) -> Builder {
    let disposition = if shown_as.is_some() { "inline" } else { "attachment" };
    let response = Response::builder()
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_TYPE, shown_as.unwrap_or("application/octet-stream"))
        .header(header::CONTENT_DISPOSITION, disposition)
        .header(header::CONTENT_SECURITY_POLICY, "sandbox")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // While a program writes to the file, the bytes may mix two versions, and a client could cache them as one.
    if snapshot.has_writer() {
        return response;
    }
    let response = response.header(header::ETAG, tag);
    let modified = u64::try_from(snapshot.meta().modified.secs).unwrap_or_default();
    match UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
        Some(modified) => response.header(header::LAST_MODIFIED, httpdate::fmt_http_date(modified)),
        None => response,
    }
}

/// True if the client asks for a SHA-256 (RFC 9530); a preference of 0 declines.
fn wants_digest(headers: &HeaderMap) -> bool {
    let values = headers.get_all(WANT_REPR_DIGEST).into_iter();
    let mut wanted =
        values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    wanted.any(|one| one.trim().strip_prefix("sha-256=").is_some_and(|how| how.trim() != "0"))
}

/// Computes the SHA-256 of a file.
async fn digest(server: &Server, snapshot: &Arc<LocalSnapshot>) -> Result<[u8; 32], Problem> {
    let state = (Pieces::whole(Arc::clone(snapshot)), Sha256::new());
    let (_, hash) = steps(server, state, |(pieces, hash)| match pieces.next()? {
        None => Ok(Step::Done),
        Some(piece) => {
            hash.update(&piece);
            Ok(Step::On)
        }
    })
    .await?;
    Ok(hash.finalize().into())
}

/// Part of a file that a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Span(Range<u64>),
    Nothing,
}

/// Parses a `Range` header for a file of `len` bytes. Several ranges, or an invalid range, ask for all of the file.
fn parse_range(value: &HeaderValue, len: u64) -> Asked {
    let span = || {
        let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (first.trim(), last.trim()) {
            ("", last) => len.saturating_sub(last.parse().ok()?)..len,
            (first, "") => first.parse().ok()?..len,
            (first, last) => {
                let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(len)
            }
        })
    };
    match span() {
        None => Asked::All,
        Some(span) if span.is_empty() => Asked::Nothing,
        Some(span) => Asked::Span(span),
    }
}

/// Replaces a file atomically with the request's body, or creates the file.
pub(super) async fn write(
    State(server): State<Arc<Server>>,
    Extension(kept): Extension<Arc<Uploads>>,
    at: At,
    body: Body,
) -> Result<Response, Problem> {
    if uploads::is_part(&at.headers) {
        return uploads::begin(server, kept, at, body).await;
    }
    let target = ReplaceTarget::for_request(&server, &at, false)?;
    let missing = || Problem::new(StatusCode::LENGTH_REQUIRED, "Content-Length is missing");
    let len = content_length(&at.headers).ok_or_else(missing)?;
    target.check_len(len)?;
    let wanted = wanted_digest(&at.headers)?;
    let replacement = on_disk(&server, move || target.begin(len)).await?;
    let (replacement, digest) = fill(&server, replacement, body, len).await?;
    check_digest(wanted, digest)?;
    on_disk(&server, move || replacement.commit(NewAttributes::usual(len))?.answer()).await
}

/// Writes a body to a new version, and returns the SHA-256 of the body.
async fn fill(
    server: &Server,
    replacement: Replacement,
    body: Body,
    len: u64,
) -> Result<(Replacement, [u8; 32]), Problem> {
    let mut body = body.into_data_stream();
    let (mut at, mut piece, mut ended) = (0, Vec::with_capacity(PIECE), false);
    let (mut replacement, mut hash) = (replacement, Sha256::new());
    while !ended {
        match next(&mut body).await? {
            Some(bytes) => piece.extend_from_slice(&bytes),
            None => ended = true,
        }
        if piece.len() < PIECE && !ended || piece.is_empty() {
            continue;
        }
        let start = at;
        at += piece.len() as u64;
        if at > len {
            return Err(broken());
        }
        let whole = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
        (replacement, hash) = on_disk(server, move || {
            hash.update(&whole);
            replacement.add(start, &whole)?;
            Ok((replacement, hash))
        })
        .await?;
    }
    if at < len { Err(broken()) } else { Ok((replacement, hash.finalize().into())) }
}

/// Refuses a new version whose SHA-256 is not the announced one.
pub(super) fn check_digest(wanted: Option<[u8; 32]>, digest: [u8; 32]) -> Result<(), Problem> {
    if wanted.is_none_or(|wanted| wanted == digest) {
        return Ok(());
    }
    let why = "the bytes are not what Repr-Digest says; nothing was changed";
    Err(Problem::new(StatusCode::BAD_REQUEST, why))
}

/// Returns the SHA-256 that the request announces for the new version (`Repr-Digest`), if there is one.
pub(super) fn wanted_digest(headers: &HeaderMap) -> Result<Option<[u8; 32]>, Problem> {
    let Some(value) = headers.get(REPR_DIGEST) else { return Ok(None) };
    let bad = || Problem::new(StatusCode::BAD_REQUEST, "Repr-Digest: not sha-256=:BASE64:");
    let text = value.to_str().map_err(|_| bad())?;
    let digest = text.split(',').find_map(|one| one.trim().strip_prefix("sha-256="));
    let Some(digest) = digest else { return Ok(None) };
    let digest = digest.strip_prefix(':').and_then(|digest| digest.strip_suffix(':'));
    let digest = STANDARD.decode(digest.ok_or_else(bad)?).map_err(|_| bad())?;
    Ok(Some(digest.try_into().map_err(|_| bad())?))
}

/// Removes a file, or an empty directory.
pub(super) async fn delete(
    State(server): State<Arc<Server>>,
    at: At,
) -> Result<StatusCode, Problem> {
    let volume = at.volume(&server, Right::Delete)?;
    need_condition(&at.headers)?;
    let (file, again) = (at.file()?, Arc::clone(&server));
    on_disk(&server, move || {
        let store = volume.store()?;
        let missing = || Problem::new(StatusCode::NOT_FOUND, format!("{file}: no such file"));
        match store.look(&file)? {
            None => return Err(missing()),
            Some(there) if there.is_dir() => {
                // No client knows this tag: only `If-Match: *` names a directory.
                let present = Present { tag: &tag_of(&again, b""), modified: there.modified };
                check_change(&at.headers, Some(present))?;
                return remove_dir(&store, &file);
            }
            Some(_) => {}
        }
        let version = check_conditions(&again, &store, &file, &at.headers)?.ok_or_else(missing)?;
        let removed = store.remove_version(&file, &version);
        removed.map_err(|error| commit_problem(&at.headers, error))?;
        store.flush()?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Removes an empty directory.
fn remove_dir(store: &LocalStore, dir: &RelPath) -> Result<StatusCode, Problem> {
    store.remove_empty(dir).map_err(|error| match error {
        StoreError::NotEmpty { .. } => {
            let why = format!("{dir}: the directory is not empty");
            Problem::new(StatusCode::CONFLICT, why)
        }
        error => error.into(),
    })?;
    store.flush()?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_rfc_9110_has_them() {
        let asked = |range: &str| parse_range(&HeaderValue::from_str(range).unwrap(), 100);
        assert_eq!(asked("bytes=0-0"), Asked::Span(0..1));
        assert_eq!(asked("bytes=10-"), Asked::Span(10..100));
        assert_eq!(asked("bytes=-10"), Asked::Span(90..100));
        assert_eq!(asked("bytes=-1000"), Asked::Span(0..100));
        assert_eq!(asked("bytes=90-200"), Asked::Span(90..100));
        assert_eq!(asked("bytes=100-"), Asked::Nothing);
        assert_eq!(asked("bytes=-0"), Asked::Nothing);
        for all in
            ["bytes=5-1", "bytes=x", "lines=1-2", "bytes=1-2,4-5", "bytes=18446744073709551616-"]
        {
            assert_eq!(asked(all), Asked::All, "{all}");
        }
        assert_eq!(asked("bytes=0-18446744073709551615"), Asked::Span(0..100));
        assert_eq!(asked("bytes=200-300"), Asked::Nothing);
    }
}
