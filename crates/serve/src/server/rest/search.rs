//! Finds entries below a directory by a part of their names.

use std::sync::Arc;
use std::vec::IntoIter;

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deltic_store::{StoreError, Version};
use deltic_store_local::LocalStore;
use deltic_tree::path::printable;
use deltic_tree::{Entry, RelPath};
use serde_json::{Value, json};

use super::request::{no_store, on_disk};
use super::shown::entry;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Volume;

/// Most names that one request compares. A client continues with the `next` of the answer.
const MOST_NAMES: usize = 20_000;
/// Most entries that one request returns.
const MOST_FOUND: usize = 1_000;
/// Entries of a directory that are read at once.
const BLOCK: usize = 2_000;
/// Longest searched text in bytes: the longest name of most file systems.
const MAX_TEXT: usize = 255;

/// A search for a part of a name.
pub(super) struct Search {
    /// The searched text in lower case.
    text: String,
    /// The path after which the search continues.
    after: Option<RelPath>,
    limit: usize,
}

impl Search {
    /// Parses the parameters of a request. `after` is the `next` of an earlier answer.
    pub(super) fn parse(text: &str, after: Option<&str>, limit: usize) -> Result<Self, Problem> {
        let bad = |why: &str| Problem::new(StatusCode::BAD_REQUEST, why);
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(bad("?name= needs 1 to 255 bytes"));
        }
        let parsed = |after: &str| RelPath::parse(&URL_SAFE_NO_PAD.decode(after).ok()?).ok();
        let after = match after {
            None => None,
            Some(after) => Some(
                parsed(after)
                    .ok_or_else(|| bad("?after= is invalid; copy `next` from the previous page"))?,
            ),
        };
        Ok(Self { text: text.to_lowercase(), after, limit: limit.clamp(1, MOST_FOUND) })
    }

    fn matches(&self, name: &[u8]) -> bool {
        printable(name).to_lowercase().contains(&self.text)
    }
}

/// Answers the entries below `dir` that match, in the order of their paths by components.
pub(super) async fn find_below(
    server: &Arc<Server>,
    volume: Volume,
    dir: RelPath,
    search: Search,
) -> Result<Response, Problem> {
    let again = Arc::clone(server);
    let found = on_disk(server, move || {
        let store = volume.store()?;
        let mut walk = Walk::start(&store, dir, search.after.as_ref())?;
        let (mut found, mut next, mut looked) = (Vec::new(), None, 0);
        while let Some((path, is, version)) = walk.next() {
            looked += 1;
            if search.matches(is.name.as_bytes()) {
                found.push(shown(&again, &path, &is, version.as_ref()));
            }
            if found.len() == search.limit || looked == MOST_NAMES {
                next = Some(URL_SAFE_NO_PAD.encode(path.as_bytes()));
                break;
            }
        }
        Ok(json!({ "entries": found, "looked": looked, "next": next }))
    });
    Ok(no_store(Json(found.await?)))
}

/// Returns an entry as a listing of its directory shows the entry, with its path.
fn shown(server: &Server, path: &RelPath, is: &Entry, version: Option<&Version>) -> Value {
    let mut shown = entry(server, is, version);
    let text = printable(path.as_bytes());
    if text.as_bytes() != path.as_bytes() {
        shown["exact"] = false.into();
    }
    shown["path"] = text.into();
    shown
}

/// A walk over all entries below a directory, each directory before its entries. Symlinks are not followed.
struct Walk<'a> {
    store: &'a LocalStore,
    /// The directories from the first one down to the present one.
    levels: Vec<Level>,
}

/// A directory of a walk.
struct Level {
    dir: RelPath,
    /// Entries that were read, and not returned yet.
    entries: IntoIter<(Entry, Option<Version>)>,
    /// Name after which the directory is read on; `None` after the last entry was read.
    after: Option<Vec<u8>>,
}

impl<'a> Walk<'a> {
    /// Starts below `dir`, behind the path `after`. Errors: `dir` cannot be listed.
    fn start(
        store: &'a LocalStore,
        dir: RelPath,
        after: Option<&RelPath>,
    ) -> Result<Self, Problem> {
        let mut walk = Self { store, levels: Vec::new() };
        let level = |dir, after| Level { dir, entries: Vec::new().into_iter(), after: Some(after) };
        let Some(after) = after else {
            walk.levels.push(level(dir, Vec::new()));
            walk.read()?;
            return Ok(walk);
        };
        if !after.starts_with(&dir) {
            let why = "?after= is of another directory; copy `next` from the previous page";
            return Err(Problem::new(StatusCode::BAD_REQUEST, why));
        }
        let mut at = after.clone();
        walk.levels.push(level(at.clone(), Vec::new()));
        while at != dir
            && let Some((above, name)) = at.split_last()
        {
            walk.levels.push(level(above.clone(), name.as_bytes().to_vec()));
            at = above;
        }
        walk.levels.reverse();
        Ok(walk)
    }

    /// Reads the next entries of the present directory.
    fn read(&mut self) -> Result<(), StoreError> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let Some(after) = level.after.take() else { return Ok(()) };
        let listing = self.store.list_after(&level.dir, &after, BLOCK)?;
        if listing.entries.len() == BLOCK {
            level.after = listing.entries.last().map(|last| last.name.as_bytes().to_vec());
        }
        let versions = listing.versions.into_iter().chain(std::iter::repeat(None));
        level.entries = listing.entries.into_iter().zip(versions).collect::<Vec<_>>().into_iter();
        Ok(())
    }

    /// Returns the next entry with its path. Leaves out directories that cannot be listed.
    fn next(&mut self) -> Option<(RelPath, Entry, Option<Version>)> {
        loop {
            let level = self.levels.last_mut()?;
            if let Some((entry, version)) = level.entries.next() {
                // A path that is too long cannot be opened either.
                let Ok(path) = level.dir.join(&entry.name) else { continue };
                if entry.meta.is_dir() {
                    let entries = Vec::new().into_iter();
                    let dir = path.clone();
                    self.levels.push(Level { dir, entries, after: Some(Vec::new()) });
                }
                return Some((path, entry, version));
            }
            if level.after.is_none() || self.read().is_err() {
                self.levels.pop();
            }
        }
    }
}
