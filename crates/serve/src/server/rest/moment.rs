//! Lists a directory as of a moment, from the old versions that the volume keeps.

use std::sync::Arc;

use axum::Json;
use axum::response::Response;
use deltic_store::{Snapshot, Store, StoreError, Tree};
use deltic_store_local::{LocalStore, OldVersions, PastEntry};
use deltic_tree::path::printable;
use deltic_tree::{Meta, Name, RelPath};
use serde_json::{Value, json};

use super::conditions::tag;
use super::request::{no_store, on_disk};
use super::shown::kind_shown;
use super::versions::kept;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Volume;

/// A part of a directory as of a moment.
#[derive(Debug)]
pub(super) struct MomentPage {
    /// The moment, in seconds since 1970.
    pub(super) at: u64,
    /// Printed name after which the page begins; empty for the first page.
    pub(super) after: String,
    /// Most names to look at.
    pub(super) limit: usize,
}

/// Lists the entries that a directory had at a moment. The directory itself may be deleted by now.
pub(super) async fn list_at(
    server: &Arc<Server>,
    volume: Volume,
    dir: RelPath,
    page: MomentPage,
) -> Result<Response, Problem> {
    let again = Arc::clone(server);
    let listed = on_disk(server, move || {
        let past = PastTree { server: &again, kept: kept(&volume)?, store: volume.store()? };
        past.list(&dir, &page)
    });
    Ok(no_store(Json(listed.await?)))
}

/// A volume with the old versions of its files.
struct PastTree<'a> {
    server: &'a Server,
    kept: OldVersions,
    store: LocalStore,
}

impl PastTree<'_> {
    fn list(&self, dir: &RelPath, page: &MomentPage) -> Result<Value, Problem> {
        let names = names_ever(&self.kept, &self.store, dir)?;
        let is_after = |name: &str| page.after.is_empty() || *name > *page.after;
        let shown = names.iter().map(|name| (name, printable(name.as_bytes())));
        let mut left = shown.filter(|(_, shown)| is_after(shown));
        let (mut entries, mut younger, mut last) = (Vec::new(), 0_usize, None);
        let mut looks = MAX_LOOKS;
        for (name, shown) in left.by_ref().take(page.limit) {
            let Ok(path) = dir.join(name) else { continue };
            let is_exact = shown.as_bytes() == name.as_bytes();
            match self.entry(&path, page.at, &mut looks)? {
                Some(mut entry) => {
                    entry["name"] = (&*shown).into();
                    if !is_exact {
                        entry["exact"] = false.into();
                    }
                    entries.push(entry);
                }
                None => younger += usize::from(self.store.look(&path)?.is_some()),
            }
            last = Some(shown);
        }
        let next = last.filter(|_| left.next().is_some());
        Ok(json!({ "entries": entries, "younger": younger, "next": next }))
    }

    /// Returns the entry that `path` had at the moment `at`; `None` if it had none.
    fn entry(&self, path: &RelPath, at: u64, looks: &mut usize) -> Result<Option<Value>, Problem> {
        let there = self.store.look(path)?;
        let past = self.kept.entry_at(path, at, looks)?;
        let mut entry = match (&past, &there) {
            (PastEntry::Nothing, _) | (PastEntry::Present, None) => return Ok(None),
            (PastEntry::Dir, Some(there)) if there.is_dir() => {
                json!({ "type": "dir", "now": "same" })
            }
            (PastEntry::Dir, _) => json!({ "type": "dir", "now": "gone" }),
            (PastEntry::Old(old), there) => {
                let is_there = there.as_ref().is_some_and(|there| there.is_file());
                let mut entry = shown(old.snapshot.meta(), if is_there { "other" } else { "gone" });
                entry["version"] = old.id.to_string().into();
                entry
            }
            (PastEntry::Present, Some(there)) => shown(there, "same"),
        };
        if there.is_some_and(|there| there.is_file())
            && let Ok(present) = self.store.open(path)
        {
            entry["etag"] = tag(self.server, &present).into();
        }
        Ok(Some(entry))
    }
}

/// Returns the names of entries that `dir` has, or had in an old version. Errors: there is no such directory, now or
/// then.
pub(super) fn names_ever(
    kept: &OldVersions,
    store: &LocalStore,
    dir: &RelPath,
) -> Result<Vec<Name>, StoreError> {
    let names = kept.all_names(dir)?;
    if names.is_empty() {
        // Refuses a path without a directory.
        store.list_after(dir, &[], 1)?;
    }
    Ok(names)
}

fn shown(meta: &Meta, now: &str) -> Value {
    let modified = meta.modified.secs;
    json!({ "type": kind_shown(&meta.kind), "bytes": meta.len, "modified": modified, "now": now })
}

/// Most paths that one listing of a directory looks at to tell whether deleted directories existed at the moment.
pub(super) const MAX_LOOKS: usize = 10_000;
