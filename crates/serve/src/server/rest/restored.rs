//! Restores the files below a directory to a moment, page by page.
//!
//! A page looks at some files, and restores several files at a time. The page ends early when [`PAGE_TIME`] is over, so
//! that the client can show the progress. A file that cannot be restored is named; the others are restored.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::response::Response;
use deltic_store::{Store, Tree};
use deltic_store_local::{ContentAt, VersionId, VersionsPage};
use deltic_tree::RelPath;
use deltic_tree::path::printable;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::replacement::ReplaceTarget;
use super::request::{no_store, on_disk};
use super::versions::{kept, put_back};
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};

/// Time after which a page begins no file.
const PAGE_TIME: Duration = Duration::from_secs(3);
/// Most files that are restored at a time: a commit mostly waits for the disk.
const MAX_AT_ONCE: u32 = 8;
/// Longest file that is restored while others are, in bytes.
const SMALL: u64 = 8 << 20;

/// The files that a page restores.
pub(super) struct RestorePage {
    /// The moment, in seconds since 1970.
    pub(super) at: u64,
    /// True to delete files that did not exist at the moment.
    pub(super) deletes: bool,
    pub(super) files: VersionsPage,
}

/// Restores the files below a directory that another version has replaced since a moment, or that are gone.
pub(super) async fn restore_below(
    client: RestoreClient,
    dir: RelPath,
    page: RestorePage,
) -> Result<Response, Problem> {
    let volume = client.volume(&dir, page.deletes)?;
    let (files, next) = on_disk(&client.server, move || page.list(&volume, &dir)).await?;
    let until = Instant::now() + PAGE_TIME;
    let (mut last, mut has_long) = (String::new(), false);
    let begins = |file: &PastFile| {
        let path = printable(file.path.as_bytes());
        // The next page begins after a printed path, which two files may share. A long file ends its page: a client
        // waits for a page only so long.
        let begins = !has_long && Instant::now() < until || path == last;
        if begins {
            last = path;
            has_long |= file.bytes > SMALL;
        }
        ready(begins)
    };
    let mut answer = RestoreAnswer::default();
    let all = files.len();
    let mut results = stream::iter(files)
        .take_while(begins)
        .map(|file| client.perform(file))
        .buffered(MAX_AT_ONCE as usize);
    let mut done = 0;
    while let Some((path, result)) = results.next().await {
        answer.count(&path, result);
        done += 1;
    }
    drop(results);
    // A revoked token learns that from the answer to the request, not from each file.
    client.server.known_begun(client.known.token)?;
    answer.next = if done < all { Some(last) } else { next };
    Ok(no_store(Json(answer)))
}

impl RestorePage {
    /// Lists the files with what must be done. Returns the place where the next page begins too.
    fn list(
        &self,
        volume: &Volume,
        dir: &RelPath,
    ) -> Result<(Vec<PastFile>, Option<String>), Problem> {
        let mut files = Vec::new();
        let next = kept(volume)?.list_below(dir, &self.files, |file| {
            let content = file.at(self.at);
            let bytes = if let ContentAt::Old { bytes, .. } = content { bytes } else { 0 };
            let now = match (&file.present, self.deletes) {
                (None, _) => PathNow::Gone,
                (Some(_), true) => PathNow::Deletable,
                (Some(_), false) => PathNow::Stays,
            };
            let step = PastStep::of(content, now);
            files.push(PastFile { path: file.path, step, bytes });
        })?;
        Ok((files, next))
    }
}

/// A file, and the step that restores it.
struct PastFile {
    path: RelPath,
    step: PastStep,
    /// Length of the version that is restored.
    bytes: u64,
}

/// The present file of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathNow {
    /// No file is there.
    Gone,
    /// A file is there, and is deleted if it did not exist at the moment.
    Deletable,
    /// A file is there, and stays.
    Stays,
}

/// A step that restores a file to its version at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PastStep {
    /// Restore this version.
    Restore(VersionId),
    /// Delete a file that did not exist then.
    Delete,
    /// Leave a file that did not exist then.
    LeaveYounger,
    /// Leave a file that was not replaced since then.
    LeaveUnchanged,
    /// Leave a file that existed neither then nor now.
    LeaveDeleted,
}

impl PastStep {
    /// Returns the step for a file with this content at the moment.
    const fn of(content: ContentAt, now: PathNow) -> Self {
        match (content, now) {
            (ContentAt::Old { id, .. }, _) => Self::Restore(id),
            (_, PathNow::Gone) => Self::LeaveDeleted,
            (ContentAt::Present, _) => Self::LeaveUnchanged,
            (ContentAt::Nothing, PathNow::Deletable) => Self::Delete,
            (ContentAt::Nothing, PathNow::Stays) => Self::LeaveYounger,
        }
    }
}

/// The client of a request to restore a directory.
pub(super) struct RestoreClient {
    server: Arc<Server>,
    known: Known,
    /// Name of the volume.
    volume: String,
    /// Turns of the files that are restored at a time.
    turns: Semaphore,
}

impl RestoreClient {
    pub(super) fn new(server: Arc<Server>, known: Known, volume: String) -> Self {
        Self { server, known, volume, turns: Semaphore::new(MAX_AT_ONCE as usize) }
    }

    /// Returns the volume, if the client may restore files below `dir`: a restore tells which files have the content of
    /// then already.
    fn volume(&self, dir: &RelPath, deletes: bool) -> Result<Volume, Problem> {
        let right = |right| self.server.volume_for(right, &self.known, &self.volume, dir);
        if deletes {
            right(Right::Delete)?;
        }
        right(Right::Read)?;
        right(Right::Write)
    }

    /// Performs the step of a file. Returns the step that was performed.
    async fn perform(&self, file: PastFile) -> (RelPath, Result<PastStep, Problem>) {
        let PastFile { path, step, bytes } = file;
        let turns = if bytes > SMALL { MAX_AT_ONCE } else { 1 };
        let _turn = self.turns.acquire_many(turns).await;
        let result = match step {
            PastStep::Restore(version) => self.restore(path.clone(), version).await,
            PastStep::Delete => self.delete(path.clone()).await.map(|()| step),
            step => Ok(step),
        };
        (path, result)
    }

    async fn restore(&self, path: RelPath, version: VersionId) -> Result<PastStep, Problem> {
        let target = ReplaceTarget::new(&self.server, &self.known, &self.volume, path, true)?;
        let restored = put_back(&self.server, target, version).await?;
        Ok(restored.map_or(PastStep::LeaveUnchanged, |_| PastStep::Restore(version)))
    }

    async fn delete(&self, path: RelPath) -> Result<(), Problem> {
        let known = self.server.known_begun(self.known.token)?;
        let volume = self.server.volume_for(Right::Delete, &known, &self.volume, &path)?;
        on_disk(&self.server, move || {
            let store = volume.store()?;
            store.remove_version(&path, &store.open(&path)?)?;
            Ok(store.flush()?)
        })
        .await
    }
}

/// The answer: numbers of files that a page changed and left.
#[derive(Debug, Default, Serialize)]
struct RestoreAnswer {
    restored: u64,
    unchanged: u64,
    younger: u64,
    deleted: u64,
    failed: Vec<FailedFile>,
    /// Printed path after which the next page begins; `None` at the end.
    next: Option<String>,
}

/// A file that was not restored.
#[derive(Debug, Serialize)]
struct FailedFile {
    /// The printed path.
    path: String,
    status: u16,
    detail: String,
}

impl RestoreAnswer {
    fn count(&mut self, path: &RelPath, result: Result<PastStep, Problem>) {
        let count = match result {
            Ok(PastStep::Restore(_)) => &mut self.restored,
            Ok(PastStep::LeaveUnchanged) => &mut self.unchanged,
            Ok(PastStep::LeaveYounger) => &mut self.younger,
            Ok(PastStep::Delete) => &mut self.deleted,
            Ok(PastStep::LeaveDeleted) => return,
            Err(Problem { status, detail, .. }) => {
                let path = printable(path.as_bytes());
                return self.failed.push(FailedFile { path, status: status.as_u16(), detail });
            }
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_what_it_was_and_a_younger_one_is_left() {
        let old = ContentAt::Old { id: VersionId(10), bytes: 4 };
        let restore = PastStep::Restore(VersionId(10));
        for (content, now, step) in [
            (old, PathNow::Stays, restore),
            (old, PathNow::Deletable, restore),
            (old, PathNow::Gone, restore),
            (ContentAt::Present, PathNow::Stays, PastStep::LeaveUnchanged),
            (ContentAt::Present, PathNow::Deletable, PastStep::LeaveUnchanged),
            (ContentAt::Present, PathNow::Gone, PastStep::LeaveDeleted),
            (ContentAt::Nothing, PathNow::Stays, PastStep::LeaveYounger),
            (ContentAt::Nothing, PathNow::Deletable, PastStep::Delete),
            (ContentAt::Nothing, PathNow::Gone, PastStep::LeaveDeleted),
        ] {
            assert_eq!(PastStep::of(content, now), step, "{content:?} {now:?}");
        }
    }
}
