//! Lists and restores old versions of files.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use deltic_store::{Keep, Rebuild, Snapshot, Store, StoreError, Tree};
use deltic_store_local::{
    ChangeNote, LocalSnapshot, OldVersion, OldVersions, VersionId, VersionsOfFile, VersionsPage,
};
use deltic_tree::RelPath;
use deltic_tree::path::printable;
use serde_json::{Value, json};

use super::changes::{Names, shown as change_shown};
use super::pieces::{PIECE, Step, steps};
use super::replacement::{CommittedFile, NewAttributes, ReplaceError, ReplaceTarget, Replacement};
use super::request::{At, no_store, on_disk};
use crate::percent::escape;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::{Right, Volume};

/// Most versions that are listed.
const MOST: usize = 1_000;
/// Bytes that a restore copies in one step.
const STEP_BYTES: u64 = 8 << 20;

/// Lists the old versions of a file, the newest first.
pub(super) async fn list(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let file = at.file()?;
    let names = Names::of(&at.known);
    let listed = on_disk(&server, move || {
        let all = kept(&volume)?.list(&file)?;
        if all.is_empty() {
            match volume.store()?.look(&file)? {
                Some(there) if there.is_dir() => {
                    let why = format!(
                        "{file}: a directory, which has no versions; end the path with a slash for the files below"
                    );
                    return Err(Problem::new(StatusCode::CONFLICT, why));
                }
                Some(_) => {}
                None => {
                    let why = format!("{file}: no such file");
                    return Err(Problem::new(StatusCode::NOT_FOUND, why));
                }
            }
        }
        let versions: Vec<_> = all.iter().take(MOST).map(|old| shown(old, names)).collect();
        let present = volume.store()?.open(&file).ok();
        let present = present.and_then(|present| ChangeNote::of(&present));
        let present = present.map(|note| change_shown(&note, names));
        Ok(json!({ "versions": versions, "change": present }))
    })
    .await?;
    Ok(no_store(Json(listed)))
}

/// Lists the files below a directory that have old versions, with these versions.
pub(super) async fn list_below(
    server: &Arc<Server>,
    volume: Volume,
    dir: RelPath,
    page: VersionsPage,
    names: Names,
) -> Result<Response, Problem> {
    let listed = on_disk(server, move || {
        let mut files = Vec::new();
        let mut each = |file: VersionsOfFile| files.push(file_shown(&file, names));
        let next = kept(&volume)?.list_below(&dir, &page, &mut each)?;
        Ok(json!({ "files": files, "next": next }))
    });
    Ok(no_store(Json(listed.await?)))
}

/// Returns a file with its old versions, as a listing shows them.
fn file_shown(file: &VersionsOfFile, names: Names) -> Value {
    let VersionsOfFile { path, present, versions } = file;
    let printed = printable(path.as_bytes());
    // Another file may have the printed path, and a request with that path is about the other file.
    let escaped = (printed.as_bytes() != path.as_bytes()).then(|| escape(path.as_bytes()));
    let mut told = json!({
        "path": printed,
        "deleted": present.is_none(),
        "created": present.and_then(|present| present.created).map(|created| created.as_secs()),
        "versions": versions.iter().take(MOST).map(|old| shown(old, names)).collect::<Vec<_>>(),
    });
    if let Some(escaped) = escaped {
        told["escaped"] = escaped.into();
    }
    told
}

/// Returns an old version, as listings show it.
fn shown(version: &OldVersion, names: Names) -> Value {
    let OldVersion { id, snapshot } = version;
    let meta = snapshot.meta();
    let change = ChangeNote::of(snapshot).map(|note| change_shown(&note, names));
    json!({
        "version": id.to_string(),
        "created": version.created().map(|created| created.as_secs()),
        "replaced": id.replaced_at().as_secs(),
        "bytes": meta.len,
        "modified": meta.modified.secs,
        "change": change,
    })
}

/// Returns the versions of a volume, or the answer for a volume that keeps none.
pub(super) fn kept(volume: &Volume) -> Result<OldVersions, Problem> {
    let why = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "this volume keeps no versions; start the server with `--versions 10` to keep ten of each file",
        )
    };
    volume.versions()?.ok_or_else(why)
}

/// Parses the name of a version.
pub(crate) fn version_named(text: &str) -> Result<VersionId, Problem> {
    let why = "version, from: not a version that `?as=versions` lists";
    text.parse().map_err(|_| Problem::new(StatusCode::BAD_REQUEST, why))
}

/// Opens a file, or the old version that the request names.
pub(super) fn open(volume: &Volume, at: &At) -> Result<LocalSnapshot, Problem> {
    let file = at.file()?;
    match at.version()? {
        None => Ok(volume.store()?.open(&file)?),
        Some(id) => version(volume, &file, id),
    }
}

/// Opens an old version of a file.
pub(super) fn version(
    volume: &Volume,
    file: &RelPath,
    id: VersionId,
) -> Result<LocalSnapshot, Problem> {
    match kept(volume)?.open(file, id) {
        Err(StoreError::NotFound { .. }) => {
            let why = format!("{file}: no version {id}; `deltic versions` lists the versions");
            Err(Problem::new(StatusCode::NOT_FOUND, why))
        }
        opened => Ok(opened?),
    }
}

/// Replaces a file atomically with an old version. The present version becomes an old version. A file that has the
/// bytes of the old version already stays as it is, and the answer is 200.
pub(super) async fn restore(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let target = ReplaceTarget::for_request(&server, &at, true)?;
    let which = || Problem::new(StatusCode::BAD_REQUEST, "name the version: &version=ID");
    let id = at.version()?.ok_or_else(which)?;
    match put_back(&server, target, id).await? {
        Some(committed) => on_disk(&server, move || committed.answer()).await,
        None => Ok(no_store(StatusCode::OK)),
    }
}

/// Replaces a file with an old version. Returns `None` if the file has the bytes of the old version already.
pub(super) async fn put_back(
    server: &Server,
    target: ReplaceTarget,
    id: VersionId,
) -> Result<Option<CommittedFile>, Problem> {
    let restoring = on_disk(server, move || {
        let old = version(&target.volume, &target.file, id)?;
        let present = target.volume.store()?.open(&target.file).ok();
        let present = present.filter(|present| present.meta().len == old.meta().len);
        let replacement = target.begin(old.meta().len)?;
        Ok(Restoring { old, replacement, present, made: 0 })
    })
    .await?;
    let restoring = steps(server, restoring, Restoring::step).await?;
    if restoring.present.is_some() {
        return Ok(None);
    }
    on_disk(server, move || Ok(Some(restoring.commit()?))).await
}

/// A restore in progress.
struct Restoring {
    old: LocalSnapshot,
    replacement: Replacement,
    /// The present version, until a byte differs from `old`. `None` if the versions differ: then `old` is copied.
    present: Option<LocalSnapshot>,
    /// Number of bytes that were compared with the present version, or else copied.
    made: u64,
}

impl Restoring {
    fn step(&mut self) -> Result<Step, Problem> {
        match &self.present {
            Some(present) => {
                if self.made == present.meta().len {
                    return Ok(Step::Done);
                }
                match self.next_equal(present)? {
                    Some(bytes) => self.made += bytes,
                    None => (self.present, self.made) = (None, 0),
                }
                Ok(Step::On)
            }
            None => self.copy(),
        }
    }

    /// Returns the length of the next piece, if both versions have the same bytes in that piece; `None` if the bytes
    /// differ.
    fn next_equal(&self, present: &LocalSnapshot) -> Result<Option<u64>, Problem> {
        let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
        for (piece, snapshot) in pieces.iter_mut().zip([&self.old, present]) {
            let got = snapshot.read_at(self.made, piece)?;
            piece.truncate(got);
        }
        let [old, present] = pieces;
        Ok((old == present && !old.is_empty()).then_some(old.len() as u64))
    }

    /// Copies the next bytes of the old version.
    fn copy(&mut self) -> Result<Step, Problem> {
        let span = self.made..self.old.meta().len.min(self.made + STEP_BYTES);
        if span.is_empty() {
            return Ok(Step::Done);
        }
        self.replacement.new.copy(&self.old, span.clone(), span.start)?;
        self.made = span.end;
        Ok(Step::On)
    }

    /// Commits the restored version with the attributes of the old version.
    fn commit(self) -> Result<CommittedFile, ReplaceError> {
        let keep = Keep { modes: true, times: true, ..Keep::default() };
        let meta = self.old.meta().clone();
        self.replacement.commit(NewAttributes { meta, keep, dir_modified: None })
    }
}

impl At {
    /// Returns the version that the request names, if any.
    pub(super) fn version(&self) -> Result<Option<VersionId>, Problem> {
        self.version.as_deref().map(version_named).transpose()
    }

    /// Returns the version that the request compares with, if the request names one.
    pub(super) fn from(&self) -> Result<Option<VersionId>, Problem> {
        self.from.as_deref().map(version_named).transpose()
    }
}
