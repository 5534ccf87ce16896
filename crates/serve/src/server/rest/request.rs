//! Extractors and helpers for all requests: the client, work on the disk, paths and directories.

use std::sync::Arc;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRef, FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use deltic_store::{Keep, Store};
use deltic_store_local::LocalStore;
use deltic_tree::{Kind, Meta, RelPath, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::tickets::TicketUse;
use crate::server::volume::{Right, Volume};

impl<S: Send + Sync> FromRequestParts<S> for Known
where
    Arc<Server>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let server = Arc::<Server>::from_ref(state);
        server.identify(&parts.headers, &parts.extensions)?.1.ok_or_else(Problem::not_let_in)
    }
}

/// The variable parts of a request's path.
pub(crate) struct Address<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Address<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(path)| Self(path)).map_err(|error| bad_path(&error))
    }
}

fn bad_path(error: &PathRejection) -> Problem {
    let is_text = !matches!(error, PathRejection::FailedToDeserializePathParams(error)
        if matches!(error.kind(), ErrorKind::InvalidUtf8InPathParam { .. }));
    let why = match is_text {
        true => "no such path; GET /v1/openapi.json lists the paths",
        false => "the path is not UTF-8; use `deltic sync` for this file",
    };
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// The query parameters of a request.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(bad_query)
    }
}

fn bad_query(_: QueryRejection) -> Problem {
    let why = "a query parameter is missing, repeated, or not a number: \
               GET /v1/openapi.json lists the parameters";
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// The file that a request is about, with the request's parameters.
pub(super) struct At {
    pub(super) known: Known,
    pub(super) headers: HeaderMap,
    /// The form of the file that the request asks for: `?as=`.
    pub(super) form: Option<String>,
    /// The old version that the request asks for: `?version=`.
    pub(super) version: Option<String>,
    /// The old version that `?as=changes` compares with: `?from=`.
    pub(super) from: Option<String>,
    /// The moment that `?as=zip` asks for, in seconds since 1970: `?at=`.
    pub(super) moment: Option<u64>,
    /// True if the request has a ticket for a preview.
    pub(super) is_preview: bool,
    /// The new path in a request to move the file: `?to=`.
    pub(super) to: Option<String>,
    /// Name of the volume.
    pub(super) volume: String,
    path: String,
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(rename = "as")]
    form: Option<String>,
    version: Option<String>,
    from: Option<String>,
    at: Option<u64>,
    to: Option<String>,
    ticket: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for At
where
    Arc<Server>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Address((volume, path)) =
            Address::<(String, String)>::from_request_parts(parts, state).await?;
        let Parameters(asked) = Parameters::<Asked>::from_request_parts(parts, state).await?;
        let Asked { form, version, from, at: moment, to, ticket } = asked;
        let (known, good_for) = match ticket {
            None => (Known::from_request_parts(parts, state).await?, TicketUse::default()),
            Some(ticket) => {
                let is_read = form.as_deref().is_none_or(|form| form == "zip");
                if parts.method != Method::GET || !is_read {
                    return Err(Problem::not_let_in());
                }
                let server = Arc::<Server>::from_ref(state);
                let client = server.client(&parts.headers, &parts.extensions)?;
                server.redeem(&client, &ticket, &volume, &self::path(&path)?)?
            }
        };
        let headers = parts.headers.clone();
        let is_preview = good_for == TicketUse::Preview;
        Ok(Self { known, headers, form, version, from, moment, is_preview, to, volume, path })
    }
}

impl At {
    /// Returns the volume, if the client has this right at the request's path.
    pub(super) fn volume(&self, server: &Server, right: Right) -> Result<Volume, Problem> {
        self.volume_at(server, right, &self.file()?)
    }

    /// Returns the volume, if the client has this right at `path`.
    pub(super) fn volume_at(
        &self,
        server: &Server,
        right: Right,
        path: &RelPath,
    ) -> Result<Volume, Problem> {
        server.volume_for(right, &self.known, &self.volume, path)
    }

    /// Returns the path in the volume.
    pub(super) fn file(&self) -> Result<RelPath, Problem> {
        path(&self.path)
    }

    /// Refuses a value of `?as=` that this method does not know.
    pub(super) fn unknown<T>(&self) -> Result<T, Problem> {
        let asked = self.form.as_deref().unwrap_or_default();
        let why = format!("?as={asked}: no such form of a file for this method");
        Err(Problem::new(StatusCode::BAD_REQUEST, why))
    }
}

/// Marks an answer so that no cache stores it.
pub(crate) fn no_store(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Parses a path from the address of a request.
pub(crate) fn path(text: &str) -> Result<RelPath, Problem> {
    let path = RelPath::parse(text.trim_end_matches('/').as_bytes());
    let path = path.map_err(|why| Problem::new(StatusCode::BAD_REQUEST, format!("path: {why}")))?;
    if path.is_root() {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "path: the volume itself"));
    }
    let reserved =
        |_| Problem::new(StatusCode::BAD_REQUEST, format!("{path}: a name that Deltic reserves"));
    deltic_store::check_volume_path("reach", &path).map_err(reserved)?;
    Ok(path)
}

/// Runs `work` on a thread that may block on the disk.
pub(crate) async fn on_disk<T: Send + 'static>(
    server: &Server,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let turn = Arc::clone(&server.disk).acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed here");
    done.await.map_err(failed)?
}

/// Most directories that one request creates: deep paths in a bundle of files could name hundreds of thousands.
const MOST_NEW_DIRS: usize = 2_000;

/// Directories created above an entry. Dropping the value removes them again, unless `keep` was called.
pub(super) struct Above {
    store: LocalStore,
    made: Vec<RelPath>,
}

impl Above {
    pub(super) fn new(store: &LocalStore) -> Self {
        Self { store: store.clone(), made: Vec::new() }
    }

    /// Creates a directory and its missing parents.
    pub(super) fn make(&mut self, dir: &RelPath) -> Result<(), Problem> {
        let Some((above, _)) = dir.split_last() else { return Ok(()) };
        match self.store.look(dir)? {
            Some(there) if there.is_dir() => return Ok(()),
            Some(_) => {
                return Err(Problem::new(StatusCode::CONFLICT, format!("{dir}: not a directory")));
            }
            None => {}
        }
        self.make(&above)?;
        if self.made.len() == MOST_NEW_DIRS {
            let why = format!("more than {MOST_NEW_DIRS} new directories in one request");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        let meta = Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o777);
        self.store.make_dir(dir, Some((&meta, Keep::default())))?;
        self.made.push(dir.clone());
        self.store.set_meta(dir, &meta, Keep::default())?;
        Ok(())
    }

    /// Creates the missing parents of an entry.
    pub(super) fn make_for(&mut self, entry: &RelPath) -> Result<(), Problem> {
        entry.split_last().map_or(Ok(()), |(above, _)| self.make(&above))
    }

    /// Keeps the created directories. True if any were created.
    pub(super) fn keep(mut self) -> bool {
        !std::mem::take(&mut self.made).is_empty()
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        // A directory that is no longer empty stays.
        let _ = self.made.iter().rev().try_for_each(|dir| self.store.remove_empty(dir));
    }
}
