//! Old versions of files: which there are, and one put back.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Json;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use deltic_store::{Commit, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree};
use deltic_store_local::{
    LocalRebuild, LocalSnapshot, LocalStore, OldVersion, OldVersions, Quota, VersionId,
};
use deltic_tree::{Meta, RelPath};
use serde_json::json;

use super::conditions::{check_conditions, tag_of_new};
use super::pieces::{Step, steps};
use super::request::{Above, At, no_store, on_disk};
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::{Right, Volume};

/// Most versions that are listed.
const MOST: usize = 1_000;
/// Bytes that a restore copies in one step.
const STEP_BYTES: u64 = 8 << 20;
/// Pause between two looks for versions that are too old, and between two counts.
const HOUSE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Most by which a clock is set forth in an hour that is right.
const MOST_AHEAD: Duration = Duration::from_secs(10 * 60);

/// Lists the old versions of a file, the newest first.
pub(super) async fn list(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let file = at.file()?;
    let versions = on_disk(&server, move || {
        let all = kept(&volume)?.list(&file)?;
        if all.is_empty() {
            match volume.store()?.look(&file)? {
                Some(there) if there.is_dir() => {
                    let why =
                        format!("{file}: a directory, which has no versions; name a file in it");
                    return Err(Problem::new(StatusCode::CONFLICT, why));
                }
                Some(_) => {}
                None => {
                    let why = format!("{file}: no such file");
                    return Err(Problem::new(StatusCode::NOT_FOUND, why));
                }
            }
        }
        let shown = |OldVersion { id, snapshot }: &OldVersion| {
            let meta = snapshot.meta();
            json!({
                "version": id.to_string(),
                "replaced": id.went().as_secs(),
                "bytes": meta.len,
                "modified": meta.modified.secs,
            })
        };
        Ok(all.iter().take(MOST).map(shown).collect::<Vec<_>>())
    })
    .await?;
    Ok(no_store(Json(json!({ "versions": versions }))))
}

fn kept(volume: &Volume) -> Result<OldVersions, Problem> {
    let why = || Problem::new(StatusCode::NOT_FOUND, "this volume keeps no versions");
    volume.versions()?.ok_or_else(why)
}

/// Opens a file, or the version of it that is asked for.
pub(super) fn open(volume: &Volume, at: &At) -> Result<LocalSnapshot, Problem> {
    let file = at.file()?;
    match at.version()? {
        None => Ok(volume.store()?.open(&file)?),
        Some(id) => version(volume, &file, id),
    }
}

/// Opens an old version of a file.
fn version(volume: &Volume, file: &RelPath, id: VersionId) -> Result<LocalSnapshot, Problem> {
    match kept(volume)?.open(file, id) {
        Err(StoreError::NotFound { .. }) => {
            let why =
                format!("{file}: no version {id} is kept; `deltic versions` lists those that are");
            Err(Problem::new(StatusCode::NOT_FOUND, why))
        }
        opened => Ok(opened?),
    }
}

/// Puts an old version back, as a whole: the present one becomes an old version itself.
pub(super) async fn restore(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Write)?;
    at.volume(&server, Right::Read)?;
    let (file, id) = (at.file()?, at.version()?);
    let which = || Problem::new(StatusCode::BAD_REQUEST, "name the version: &version=ID");
    let id = id.ok_or_else(which)?;
    let (again, headers) = (Arc::clone(&server), at.headers.clone());
    let restoring = on_disk(&server, move || {
        let old = version(&volume, &file, id)?;
        let store = volume.store()?;
        let there = check_conditions((&again, &store), &file, &headers)?;
        let mut above = Above::new(&store);
        above.make_for(&file)?;
        let new = store.create(&file, old.meta().len)?;
        Ok(Restoring { old, store, new, there, file, above, made: 0 })
    })
    .await?;
    let restoring = steps(&server, restoring, Restoring::step).await?;
    // The token may have been revoked meanwhile.
    server.still(&at.known)?;
    let again = Arc::clone(&server);
    let (made, tag) = on_disk(&server, move || restoring.commit(&again)).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let response = Response::builder().status(status).header(header::ETAG, tag);
    Ok(no_store(response.body(Body::empty()).expect("headers are plain text")))
}

/// A restore under way.
struct Restoring {
    old: LocalSnapshot,
    store: LocalStore,
    new: LocalRebuild,
    there: Option<Meta>,
    file: RelPath,
    above: Above,
    made: u64,
}

impl Restoring {
    fn step(&mut self) -> Result<Step, Problem> {
        let span = self.made..self.old.meta().len.min(self.made + STEP_BYTES);
        if span.is_empty() {
            return Ok(Step::Done);
        }
        self.new.copy(&self.old, span.clone(), span.start)?;
        self.made = span.end;
        Ok(Step::On)
    }

    /// Puts it in place: whether nothing was there, and its tag.
    fn commit(self, server: &Server) -> Result<(bool, String), Problem> {
        let Self { old, store, new, there, file, above, .. } = self;
        let replaces = there.as_ref().map_or(Replaces::Nothing, Replaces::Seen);
        let keep = Keep { modes: true, times: true, ..Keep::default() };
        let version = match new.commit(Commit { meta: old.meta(), keep, replaces }) {
            Err(StoreError::Unset { .. }) => None,
            committed => committed?,
        };
        above.keep();
        store.flush()?;
        Ok((there.is_none(), tag_of_new(server, (&store, &file), version)?))
    }
}

/// Removes versions that are too old, and counts what volumes hold, now and then.
pub(crate) async fn keep_house(server: Arc<Server>) {
    let mut clocks = Clocks::now();
    loop {
        let (before, now) = (clocks, Clocks::now());
        clocks = now;
        // A clock that is wrong for a moment does not have all old versions go.
        let kept = if now.have_jumped(before) { None } else { Some(server.volumes.values()) };
        for volume in kept.into_iter().flatten() {
            let volume = volume.clone();
            // What cannot be removed now can be later.
            let expired = on_disk(&server, move || {
                if let Some(versions) = volume.versions()? {
                    versions.expire()?;
                }
                Ok(())
            });
            expired.await.ok();
        }
        tokio::time::sleep(HOUSE_EVERY).await;
        for volume in server.volumes.values() {
            let Some(quota) = Quota::of_volume(&volume.name) else { continue };
            on_disk(&server, move || {
                quota.recount();
                Ok(())
            })
            .await
            .ok();
        }
    }
}

/// The clock of the wall, which may be set, and one that goes on.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    wall: SystemTime,
    steady: Instant,
}

impl Clocks {
    fn now() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// True if the clock of the wall was set forth since then.
    fn have_jumped(self, before: Self) -> bool {
        let expected = before.wall + (self.steady - before.steady) + MOST_AHEAD;
        self.wall > expected
    }
}

impl At {
    /// The version that is asked for.
    fn version(&self) -> Result<Option<VersionId>, Problem> {
        let Some(text) = &self.version else { return Ok(None) };
        let bad =
            |_| Problem::new(StatusCode::BAD_REQUEST, "version: none that `?as=versions` lists");
        text.parse().map(Some).map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_forth_is_believed_an_hour_later() {
        let start = Clocks::now();
        let hour = Duration::from_secs(60 * 60);
        let at = |wall, steady| Clocks { wall: start.wall + wall, steady: start.steady + steady };
        assert!(!at(hour, hour).have_jumped(start));
        assert!(!at(Duration::ZERO, hour).have_jumped(start), "set back");
        let ahead = at(10_000 * hour, hour);
        assert!(ahead.have_jumped(start));
        assert!(!at(10_001 * hour, 2 * hour).have_jumped(ahead));
    }
}
