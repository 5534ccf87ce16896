//! Files: read, replaced as a whole, removed.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deltic_store::{Commit, Going, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree};
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::{Kind, Meta, RelPath, Timestamp};
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::request::{make_dirs, no_store, on_disk, path};
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::Right;

/// Bytes that are read or written at once.
const PIECE: usize = 256 << 10;
/// Longest time without a byte of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Header of a body's digest (RFC 9530).
const REPR_DIGEST: &str = "repr-digest";

/// Reads a file, or a part of it.
pub(super) async fn read(
    State(server): State<Arc<Server>>,
    known: Known,
    Path((volume, at)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let volume = server.volume_for(Right::Read, (&known, &volume))?;
    let file = path(&at)?;
    let snapshot = on_disk(&server, move || Ok(volume.store()?.open(&file)?)).await?;
    let tag = tag(&server, &snapshot);
    let len = snapshot.meta().len;
    let mut response = Response::builder()
        .header(header::ETAG, &tag)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_DISPOSITION, "attachment")
        .header(header::CONTENT_SECURITY_POLICY, "sandbox")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let modified = u64::try_from(snapshot.meta().modified.secs).unwrap_or_default();
    if let Some(modified) = UNIX_EPOCH.checked_add(Duration::from_secs(modified)) {
        response = response.header(header::LAST_MODIFIED, httpdate::fmt_http_date(modified));
    }
    let build = |response: axum::http::response::Builder, body| {
        Ok(no_store(response.body(body).expect("headers are plain text")))
    };
    if names_tag(&headers, &header::IF_NONE_MATCH, &tag) {
        return build(response.status(StatusCode::NOT_MODIFIED), Body::empty());
    }
    if headers.contains_key(header::IF_MATCH) && !names_tag(&headers, &header::IF_MATCH, &tag) {
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "the file is another version"));
    }
    // A range of another version is of no use.
    let is_of_this = headers.get(header::IF_RANGE).is_none_or(|wanted| wanted == &*tag);
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
    let response = response.status(status).header(header::CONTENT_LENGTH, span.end - span.start);
    let body = match method == Method::HEAD {
        true => Body::empty(),
        false => body(snapshot, span, Arc::clone(&server.disk)),
    };
    build(response, body)
}

/// Sends bytes of a file, and breaks off where it changes meanwhile.
fn body(snapshot: LocalSnapshot, span: Range<u64>, disk: Arc<tokio::sync::Semaphore>) -> Body {
    let (send, pieces) = mpsc::channel::<Result<Bytes, StoreError>>(2);
    tokio::spawn(async move {
        let snapshot = Arc::new(snapshot);
        let mut at = span.start;
        while at < span.end {
            let (reading, turn) = (Arc::clone(&snapshot), Arc::clone(&disk).acquire_owned().await);
            let want = usize::try_from(span.end - at).map_or(PIECE, |left| left.min(PIECE));
            let read = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let mut piece = vec![0; want];
                let got = reading.read_at(at, &mut piece)?;
                if got < want || at + want as u64 == reading.meta().len {
                    reading.check_unchanged()?;
                }
                piece.truncate(got);
                Ok(piece)
            });
            let piece = match read.await {
                Ok(Ok(piece)) if !piece.is_empty() => Ok(Bytes::from(piece)),
                Ok(Err(error)) => Err(error),
                Ok(Ok(_)) | Err(_) => return,
            };
            let ends = piece.is_err();
            at += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            if send.send(piece).await.is_err() || ends {
                return;
            }
        }
    });
    Body::from_stream(stream::unfold(pieces, |mut pieces| async {
        pieces.recv().await.map(|piece| (piece, pieces))
    }))
}

/// Part of a file that is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Span(Range<u64>),
    Nothing,
}

/// Parses a range of a file of `len` bytes. Several of them, and what is none, stand for all.
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

/// The entity tag of a version: strong where the store can tell versions apart, and gives away nothing else.
fn tag(server: &Server, snapshot: &LocalSnapshot) -> String {
    let mut hash = blake3::Hasher::new_keyed(&server.tag_key);
    let meta = snapshot.meta();
    let weak = match snapshot.identity() {
        Some(version) => {
            hash.update(&version.token.0);
            hash.update(&version.changed.secs.to_le_bytes());
            hash.update(&version.changed.nanos.to_le_bytes());
            ""
        }
        None => "W/",
    };
    hash.update(&meta.len.to_le_bytes());
    hash.update(&meta.modified.secs.to_le_bytes());
    hash.update(&meta.modified.nanos.to_le_bytes());
    format!("{weak}\"{}\"", &hash.finalize().to_hex()[..32])
}

/// Whether a condition names this version, or any.
fn names_tag(headers: &HeaderMap, condition: &header::HeaderName, tag: &str) -> bool {
    let values = headers.get_all(condition).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    let strong = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tags.any(|one| one == "*" || strong(one) == strong(tag))
}

/// Checks the conditions of a change; what is to be replaced.
fn check_conditions(
    (server, store): (&Server, &LocalStore),
    file: &RelPath,
    headers: &HeaderMap,
) -> Result<Option<Meta>, Problem> {
    let there = store.look(file)?;
    let failed = |why: &str| Err(Problem::new(StatusCode::PRECONDITION_FAILED, why));
    if there.as_ref().is_some_and(|meta| !meta.is_file()) {
        let why = format!("{file}: not a file");
        return Err(Problem::new(StatusCode::CONFLICT, why));
    }
    let tag = match &there {
        None => None,
        Some(_) => Some(tag(server, &store.open(file)?)),
    };
    if headers.contains_key(header::IF_MATCH) {
        let is_it = |tag: &String| names_tag(headers, &header::IF_MATCH, tag);
        if !tag.as_ref().is_some_and(is_it) {
            return failed("the file is another version, or there is none (If-Match)");
        }
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        let is_it = |tag: &String| names_tag(headers, &header::IF_NONE_MATCH, tag);
        if tag.as_ref().is_some_and(is_it) {
            return failed("there is such a file (If-None-Match)");
        }
    }
    Ok(there)
}

/// Puts a new version in place, as a whole.
pub(super) async fn write(
    State(server): State<Arc<Server>>,
    known: Known,
    Path((volume, at)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let volume = server.volume_for(Right::Write, (&known, &volume))?;
    let (file, len) = (path(&at)?, content_length(&headers)?);
    if len > server.upload_bytes {
        let why = format!("more than {} bytes in one file", server.upload_bytes);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let wanted = wanted_digest(&headers)?;
    let (again, target) = (Arc::clone(&server), file.clone());
    let (store, rebuild, there) = on_disk(&server, move || {
        let store = volume.store()?;
        let there = check_conditions((&again, &store), &target, &headers)?;
        if let Some((above, _)) = target.split_last() {
            make_dirs(&store, &above)?;
        }
        let rebuild = store.create(&target, len)?;
        Ok((store, rebuild, there))
    })
    .await?;
    let (rebuild, digest) = fill(&server, rebuild, body, len).await?;
    if wanted.is_some_and(|wanted| wanted != digest) {
        let why = "the body is not what Repr-Digest says; nothing was changed";
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    // The token may have been revoked meanwhile.
    server.known(known.token)?;
    let made = there.is_none();
    let again = Arc::clone(&server);
    let tag = on_disk(&server, move || {
        let meta = Meta::plain(Kind::File, len, Timestamp::default(), 0o666);
        let replaces = there.as_ref().map_or(Replaces::Nothing, Replaces::Seen);
        rebuild.commit(Commit { meta: &meta, keep: Keep::default(), replaces })?;
        store.flush()?;
        Ok(tag(&again, &store.open(&file)?))
    })
    .await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let response = Response::builder().status(status).header(header::ETAG, tag);
    Ok(no_store(response.body(Body::empty()).expect("headers are plain text")))
}

/// Writes a body to a new version; the SHA-256 of it.
async fn fill<R: Rebuild>(
    server: &Server,
    rebuild: R,
    body: Body,
    len: u64,
) -> Result<(R, [u8; 32]), Problem> {
    let broken =
        || Problem::new(StatusCode::BAD_REQUEST, "the body ended early; nothing was changed");
    let mut body = body.into_data_stream();
    let (mut at, mut piece, mut ended) = (0, Vec::with_capacity(PIECE), false);
    let (mut rebuild, mut hash) = (rebuild, Sha256::new());
    while !ended {
        match timeout(BODY_TIMEOUT, body.next()).await.map_err(|_| broken())? {
            Some(bytes) => piece.extend_from_slice(&bytes.map_err(|_| broken())?),
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
        let turn = Arc::clone(&server.disk).acquire_owned().await;
        let whole = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            hash.update(&whole);
            rebuild.write(start, &whole).map(|()| (rebuild, hash))
        });
        (rebuild, hash) = done.await.map_err(|_| broken())??;
    }
    if at < len { Err(broken()) } else { Ok((rebuild, hash.finalize().into())) }
}

fn content_length(headers: &HeaderMap) -> Result<u64, Problem> {
    let len = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let why = "Content-Length is missing";
    len.ok_or_else(|| Problem::new(StatusCode::LENGTH_REQUIRED, why))
}

/// The SHA-256 that a body is to have, if the request says one.
fn wanted_digest(headers: &HeaderMap) -> Result<Option<[u8; 32]>, Problem> {
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
    known: Known,
    Path((volume, at)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let volume = server.volume_for(Right::Delete, (&known, &volume))?;
    if !headers.contains_key(header::IF_MATCH) {
        let why = "name the version that is to go: If-Match with its ETag, or *";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, why));
    }
    let (file, again) = (path(&at)?, Arc::clone(&server));
    on_disk(&server, move || {
        let store = volume.store()?;
        if store.look(&file)?.is_none() {
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("{file}: no such file")));
        }
        check_conditions((&again, &store), &file, &headers)?;
        let removed = store.remove(&file, Going::default())?;
        if let Some(error) = removed.stayed.into_iter().next() {
            return Err(error.into());
        }
        store.flush()?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
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
