//! Moves a file or a directory to another path of its volume.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use deltic_store::{Store, StoreError, Tree};
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::RelPath;
use rustix::io::Errno;

use super::conditions::{check_conditions, commit_problem, names_tag, names_version, tag, tag_of};
use super::request::{Above, At, no_store, on_disk, path};
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Right;

/// Moves a file or a directory to a path that does not exist yet, in one step.
pub(super) async fn file(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Write)?;
    at.volume(&server, Right::Delete)?;
    // The new path may be readable for others.
    at.volume(&server, Right::Read)?;
    let from = at.file()?;
    let which = || Problem::new(StatusCode::BAD_REQUEST, "name the new path: &to=PATH");
    let to = path(at.to.as_deref().ok_or_else(which)?)?;
    at.volume_at(&server, Right::Write, &to)?;
    let again = Arc::clone(&server);
    let tag = on_disk(&server, move || {
        let store = volume.store()?;
        if store.look(&from)?.is_some_and(|there| there.is_dir()) {
            if volume.state.as_ref().is_some_and(|state| state.starts_with(&from)) {
                let why = format!("{from}: holds the state directory of the server");
                return Err(Problem::new(StatusCode::CONFLICT, why));
            }
            // No client knows this tag.
            let is_any = names_tag(&at.headers, &header::IF_MATCH, &tag_of(&again, b""));
            if at.headers.contains_key(header::IF_MATCH) && !is_any {
                let why = format!("{from}: a directory, which has no version");
                return Err(Problem::new(StatusCode::PRECONDITION_FAILED, why));
            }
            return dir(&store, &at.headers, [&from, &to]).map(|()| None);
        }
        let missing = || Problem::new(StatusCode::NOT_FOUND, format!("{from}: no such file"));
        // `If-None-Match` is about the new path, so it is left out of the check of the old path.
        let headers = without(&at.headers, &header::IF_NONE_MATCH);
        let version = check_conditions(&again, &store, &from, &headers)?.ok_or_else(missing)?;
        let version = names_version(&headers).then_some(&version);
        rename(&store, &headers, [&from, &to], version)?;
        Ok(Some(tag(&again, &store.open(&to)?)))
    })
    .await?;
    let mut response = Response::builder().status(StatusCode::CREATED);
    if let Some(tag) = tag {
        response = response.header(header::ETAG, tag);
    }
    Ok(no_store(response.body(Body::empty()).expect("headers are plain text")))
}

/// Moves a directory with its entries.
fn dir(store: &LocalStore, headers: &HeaderMap, [from, to]: [&RelPath; 2]) -> Result<(), Problem> {
    if to.starts_with(from) {
        let why = format!("{to}: in the directory that is to be moved");
        return Err(Problem::new(StatusCode::CONFLICT, why));
    }
    rename(store, headers, [from, to], None)
}

/// Renames an entry to a path that does not exist yet, and makes the directories above. With `version`, only this
/// version of a file is renamed.
fn rename(
    store: &LocalStore,
    headers: &HeaderMap,
    [from, to]: [&RelPath; 2],
    version: Option<&LocalSnapshot>,
) -> Result<(), Problem> {
    if store.look(to)?.is_some() {
        return Err(Problem::new(StatusCode::CONFLICT, format!("{to} exists")));
    }
    let mut above = Above::new(store);
    above.make_for(to)?;
    store.rename(from, to, version).map_err(|error| not_moved(headers, from, error))?;
    above.keep();
    Ok(store.flush()?)
}

/// Returns the answer to a move that failed.
fn not_moved(headers: &HeaderMap, from: &RelPath, error: StoreError) -> Problem {
    match &error {
        StoreError::NotFound { .. } => commit_problem(headers, error),
        StoreError::Conflict { path } if path == from => commit_problem(headers, error),
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::CrossesDevices => {
            let why = "the file system moves no file between these directories";
            let way = "put a copy there, and then delete the file";
            Problem::new(StatusCode::CONFLICT, format!("{from}: {why}: {way}"))
        }
        _ if error.errno() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
            let why = "the file system cannot move a file without the risk to replace another";
            let way = "put a copy there, and then delete the file";
            Problem::new(StatusCode::NOT_IMPLEMENTED, format!("{from}: {why}: {way}"))
        }
        _ => error.into(),
    }
}

fn without(headers: &HeaderMap, name: &header::HeaderName) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(name);
    headers
}
