//! Versions of files as HTTP names them, and requests that are for one of them alone.

use axum::http::{HeaderMap, StatusCode, header};
use deltic_store::{Snapshot, Store, StoreError, Tree, Version};
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::{Meta, RelPath, Timestamp};

use crate::server::problem::Problem;
use crate::server::shared::Server;

/// The entity tag of a version: strong where the store can tell versions apart, and gives away nothing else.
pub(super) fn tag(server: &Server, snapshot: &LocalSnapshot) -> String {
    match snapshot.identity() {
        Some(version) => tag_of_version(server, &version),
        None => {
            let mut hash = blake3::Hasher::new_keyed(&server.tag_key);
            hash_content(&mut hash, snapshot.meta().len, snapshot.meta().modified);
            format!("W/{}", quoted(hash.finalize()))
        }
    }
}

/// The entity tag of a file that was put in place as this version, and of no other that took its place since.
pub(super) fn tag_of_new(
    server: &Server,
    (store, file): (&LocalStore, &RelPath),
    version: Option<Version>,
) -> Result<String, StoreError> {
    // Without a version any tag is a weak one.
    version.map_or_else(
        || Ok(tag(server, &store.open(file)?)),
        |version| Ok(tag_of_version(server, &version)),
    )
}

fn tag_of_version(server: &Server, version: &Version) -> String {
    let mut hash = blake3::Hasher::new_keyed(&server.tag_key);
    hash.update(&version.token.0);
    hash.update(&version.changed.secs.to_le_bytes());
    hash.update(&version.changed.nanos.to_le_bytes());
    hash_content(&mut hash, version.len, version.modified);
    quoted(hash.finalize())
}

fn hash_content(hash: &mut blake3::Hasher, len: u64, modified: Timestamp) {
    hash.update(&len.to_le_bytes());
    hash.update(&modified.secs.to_le_bytes());
    hash.update(&modified.nanos.to_le_bytes());
}

/// The entity tag of an answer that is made anew each time.
pub(super) fn tag_of(server: &Server, body: &[u8]) -> String {
    quoted(blake3::keyed_hash(&server.tag_key, body))
}

fn quoted(hash: blake3::Hash) -> String {
    format!("\"{}\"", &hash.to_hex()[..32])
}

/// True if a condition names this version, or any.
pub(super) fn names_tag(headers: &HeaderMap, condition: &header::HeaderName, tag: &str) -> bool {
    let values = headers.get_all(condition).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    let strong = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tags.any(|one| one == "*" || strong(one) == strong(tag))
}

/// Checks the conditions of a change; what is to be replaced.
pub(super) fn check_conditions(
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

/// Refuses a change of a file that does not name its version.
pub(super) fn need_condition(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let why = "name the version that is to go: If-Match with its ETag, or *";
    Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, why))
}
