//! Lists, creates and restores directories.

use std::iter::repeat;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use deltic_store::{Store, StoreError, Tree};
use deltic_store_local::{ChangeNote, LocalStore, VersionsPage};
use deltic_tree::RelPath;
use deltic_tree::path::printable;
use serde::Deserialize;
use serde_json::json;

use super::changes::{Names, shown as change_shown};
use super::conditions::{names_tag, tag_of};
use super::moment::{MomentPage, list_at};
use super::request::{Above, Address, Parameters, no_store, on_disk, path};
use super::restored::{RestoreClient, RestorePage, restore_below};
use super::search::{Search, find_below};
use super::shown::entry;
use super::versions;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};

/// The page of a directory that a request asks for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Page {
    /// The last name of the previous page, or the `next` of the previous answer.
    after: Option<String>,
    /// Most entries.
    limit: Option<usize>,
    /// `versions` for the old versions of all files below the directory, `search` for the entries below with a part of
    /// a name, instead of the entries of the directory.
    #[serde(rename = "as")]
    form: Option<String>,
    /// True to tell the last change of each file, where the change is known without reading the file.
    changes: Option<bool>,
    /// With `as=versions`: true to list files without old versions too.
    all: Option<bool>,
    /// With `as=search`: the part of a name.
    name: Option<String>,
    /// A moment in seconds since 1970, to list the directory as it was then.
    at: Option<u64>,
}

impl Page {
    /// Returns the page of a listing of versions.
    fn of_versions(self) -> VersionsPage {
        VersionsPage {
            limit: self.limit(),
            after: self.after.unwrap_or_default(),
            all_files: self.all.unwrap_or_default(),
        }
    }

    /// Returns the most entries of the page.
    fn limit(&self) -> usize {
        self.limit.unwrap_or(PAGE).clamp(1, PAGE)
    }
}

/// Most entries in a page.
const PAGE: usize = 1_000;

pub(super) async fn list_root(
    server: State<Arc<Server>>,
    known: Known,
    Address(volume): Address<String>,
    page: Parameters<Page>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    list(server, known, Address((volume, String::new())), page, headers).await
}

/// Lists a directory in pages, in the order of names. If the client has the page (`If-None-Match`), answers 304.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    known: Known,
    Address((volume, at)): Address<(String, String)>,
    Parameters(page): Parameters<Page>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let dir = dir_named(&at)?;
    let volume = server.volume_for(Right::Read, &known, &volume, &dir)?;
    if page.form.is_some() || page.at.is_some() {
        let listed = ListedDir { volume, dir, names: Names::of(&known) };
        return listed.list_otherwise(&server, page).await;
    }
    let limit = page.limit();
    let after = page.after.unwrap_or_default();
    let wants_changes = page.changes.unwrap_or_default();
    let (listing, changes) = on_disk(&server, move || {
        let store = volume.store()?;
        let last = name_of(&store, &dir, &after)?;
        let listing = store.list_after(&dir, &last, limit + 1)?;
        let names = listing.entries.iter().map(|entry| &entry.name);
        let changes = wants_changes.then(|| store.change_notes(&dir, names)).transpose()?;
        Ok((listing, changes.unwrap_or_default()))
    })
    .await?;
    let names = Names::of(&known);
    let versions = listing.versions.iter().map(Option::as_ref).chain(repeat(None));
    let changes = changes.iter().map(Option::as_ref).chain(repeat(None));
    let mut entries = listing.entries.iter().zip(versions).zip(changes);
    let told = |((is, version), change): ((_, _), Option<&ChangeNote>)| {
        let mut told = entry(&server, is, version);
        if let Some(change) = change {
            told["change"] = change_shown(change, names);
        }
        told
    };
    let shown: Vec<_> = entries.by_ref().take(limit).map(told).collect();
    let more = entries.next().is_some();
    let page = json!({ "entries": shown, "more": more }).to_string();
    let tag = tag_of(&server, page.as_bytes());
    let response = Response::builder().header(header::ETAG, &tag);
    let response = if names_tag(&headers, &header::IF_NONE_MATCH, &tag) {
        response.status(StatusCode::NOT_MODIFIED).body(Body::empty())
    } else {
        response.header(header::CONTENT_TYPE, "application/json").body(Body::from(page))
    };
    Ok(no_store(response.expect("headers are plain text")))
}

/// A directory that a client may list.
struct ListedDir {
    volume: Volume,
    dir: RelPath,
    /// True if the client may see the names of tokens.
    names: Names,
}

impl ListedDir {
    /// Lists the directory as of a moment, or lists what is below the directory.
    async fn list_otherwise(self, server: &Arc<Server>, page: Page) -> Result<Response, Problem> {
        let Self { volume, dir, names } = self;
        let limit = page.limit();
        if page.form.is_some() && page.at.is_some() {
            let why = "at: only for the entries of a directory, without `as`";
            return Err(Problem::new(StatusCode::BAD_REQUEST, why));
        }
        match page.form.as_deref() {
            Some("versions") => {
                versions::list_below(server, volume, dir, page.of_versions(), names).await
            }
            Some("search") => {
                let text = page.name.as_deref().unwrap_or_default();
                let search = Search::parse(text, page.after.as_deref(), limit)?;
                find_below(server, volume, dir, search).await
            }
            Some(form) => {
                let why = format!(
                    "?as={form}: no such form of a directory; write ?as=versions or ?as=search"
                );
                Err(Problem::new(StatusCode::BAD_REQUEST, why))
            }
            None => {
                let (at, after) = (page.at.unwrap_or_default(), page.after.unwrap_or_default());
                list_at(server, volume, dir, MomentPage { at, after, limit }).await
            }
        }
    }
}

/// Returns the bytes of a name in `dir` that a page printed.
fn name_of(store: &LocalStore, dir: &RelPath, shown: &str) -> Result<Vec<u8>, StoreError> {
    if !shown.contains('\\') {
        return Ok(shown.into());
    }
    // A name that is not UTF-8 is found by its printed form.
    let entries = store.list(dir)?.entries;
    let names = || entries.iter().map(|entry| entry.name.as_bytes());
    let is_it = |name: &&[u8]| printable(name) == shown;
    let found = names().find(|name| *name == shown.as_bytes()).or_else(|| names().rfind(is_it));
    // Without a match, the entry has been removed meanwhile.
    Ok(found.unwrap_or(shown.as_bytes()).to_vec())
}

/// The change of a directory that a request asks for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct DirChange {
    /// `restore` to restore the files below; without a form, the directory is created.
    #[serde(rename = "as")]
    form: Option<String>,
    /// With `as=restore`: the moment, in seconds since 1970.
    at: Option<u64>,
    /// With `as=restore`: true to delete files that did not exist at the moment.
    delete: Option<bool>,
    /// With `as=restore`: the `next` of the previous answer.
    after: Option<String>,
    /// With `as=restore`: most files and versions to look at.
    limit: Option<usize>,
}

pub(super) async fn change_root(
    server: State<Arc<Server>>,
    known: Known,
    Address(volume): Address<String>,
    change: Parameters<DirChange>,
) -> Result<Response, Problem> {
    self::change(server, known, Address((volume, String::new())), change).await
}

/// Creates a directory, or restores the files below a directory.
pub(super) async fn change(
    State(server): State<Arc<Server>>,
    known: Known,
    Address((volume, at)): Address<(String, String)>,
    Parameters(change): Parameters<DirChange>,
) -> Result<Response, Problem> {
    let DirChange { form, at: moment, delete, after, limit } = change;
    match form.as_deref() {
        None => make(&server, &known, &volume, path(&at)?).await.map(IntoResponse::into_response),
        Some("restore") => {
            let dir = dir_named(&at)?;
            let bad = || Problem::new(StatusCode::BAD_REQUEST, "name the moment: &at=SECONDS");
            let (at, deletes) = (moment.ok_or_else(bad)?, delete.unwrap_or_default());
            let page = Page { after, limit, all: delete, ..Page::default() };
            let page = RestorePage { at, deletes, files: page.of_versions() };
            restore_below(RestoreClient::new(server, known, volume), dir, page).await
        }
        Some(form) => {
            let why = format!("?as={form}: no such form of a directory for this method");
            Err(Problem::new(StatusCode::BAD_REQUEST, why))
        }
    }
}

/// Parses the path of a directory, which may be the volume.
fn dir_named(at: &str) -> Result<RelPath, Problem> {
    if at.trim_end_matches('/').is_empty() { Ok(RelPath::root()) } else { path(at) }
}

/// Creates a directory and its missing parents.
async fn make(
    server: &Arc<Server>,
    known: &Known,
    volume: &str,
    dir: RelPath,
) -> Result<StatusCode, Problem> {
    let volume = server.volume_for(Right::Write, known, volume, &dir)?;
    on_disk(server, move || {
        let store = volume.store()?;
        let mut above = Above::new(&store);
        above.make(&dir)?;
        if !above.keep() {
            return Ok(StatusCode::OK);
        }
        store.flush()?;
        Ok(StatusCode::CREATED)
    })
    .await
}
