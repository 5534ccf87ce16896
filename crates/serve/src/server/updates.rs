//! Updates of files in a volume: a client that knows the server's version sends the changes in one message.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use deltic_carrier::update::{Answer, Base, Head, MAX_FILE_BYTES, Step, read};
use deltic_net::embed::Outcome;
use deltic_store::{
    Content, Keep, Rebuild, SettledVersion, Snapshot, Store, StoreError, check_volume_path,
};
use deltic_store_local::cache::now;
use deltic_store_local::{LocalRebuild, LocalSnapshot, LocalStore};
use deltic_tree::{Kind, Meta, RelPath};
use rustix::fs::fstat;
use rustix::process::getegid;
use tokio::task::spawn_blocking;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::problem::Problem;
use super::rest::{NewAttributes, PresentFile, ReplaceError, ReplaceTarget};
use super::shared::{Known, Server, SessionPermit};
use super::socket::refused;
use super::updated::Updated;
use crate::channel::Mux;

/// Most bytes that an update may write, for each byte of the old version and of the update.
const MAX_GROWTH: u64 = 4;
/// The set-group-ID bit: files in such a directory get the directory's group.
const SETGID: u32 = 0o2000;
/// Bytes copied at once if blocks cannot be shared.
const PIECE: usize = 256 << 10;

/// An update in progress.
pub(super) struct Updating {
    pub(super) server: Arc<Server>,
    pub(super) known: Known,
    pub(super) volume: String,
    /// Channel of the update.
    pub(super) channel: u32,
    pub(super) mux: Mux,
    /// Held until the answer.
    pub(super) permit: SessionPermit,
    /// Held until the answer is on its way.
    pub(super) token: TaskTrackerToken,
}

impl Updating {
    /// Applies a received update and sends the answer, once a disk thread is free.
    pub(super) fn start(self, update: Vec<u8>) {
        let disk = Arc::clone(&self.server.disk);
        tokio::spawn(async move {
            let turn = disk.acquire_owned().await;
            // The result is not awaited here: waking this task and the connection's task would cost a tenth of an
            // update.
            spawn_blocking(move || {
                let _turn = turn;
                self.make(&update);
            });
        });
    }

    fn make(self, update: &[u8]) {
        let made = catch_unwind(AssertUnwindSafe(|| self.apply(update)));
        let made = made.unwrap_or_else(|_| {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the update failed here"))
        });
        let Self { channel, mux, permit, token, .. } = self;
        // Released before the answer, because a session may follow at once.
        drop(permit);
        match made {
            Ok(landed) => {
                let answer = if landed == Landed::Whole { Answer::Done } else { Answer::OtherBase };
                let left = mux.end_with(channel, &[answer.byte()]);
                if !left.is_empty() {
                    tokio::spawn(async move {
                        mux.send(left).await;
                        drop(token);
                    });
                }
            }
            Err(why) => {
                tokio::spawn(async move {
                    mux.tell(refused(channel, why)).await;
                    drop(token);
                });
            }
        }
    }

    /// Puts the new version in place. Blocks on the disk.
    fn apply(&self, update: &[u8]) -> Result<Landed, Problem> {
        let (begun, server) = (Instant::now(), &self.server);
        let (head, steps) = read(update).map_err(|why| {
            Problem::new(StatusCode::BAD_REQUEST, format!("invalid update: {why}"))
        })?;
        let path = head.path.clone();
        // The update's copies, and the answer, reveal the file's content.
        let target = ReplaceTarget::new(server, &self.known, &self.volume, path, true)?;
        let reserved = |_| Problem::new(StatusCode::BAD_REQUEST, "a name that Deltic reserves");
        check_volume_path("update", &head.path).map_err(reserved)?;
        target.check_len(head.len)?;
        server.known_begun(self.known.token)?;
        let volume = target.volume.clone();
        if volume.has_quotas() {
            // Quotas need a store opened for the token, as a session opens one; updates share one store.
            return Ok(Landed::Not);
        }
        let sets_dir = head.path.split_last();
        let sets_dir = sets_dir.is_some_and(|(dir, _)| self.known.grant.covers(&dir));
        let head = Head { dir_modified: head.dir_modified.filter(|_| sets_dir), ..head };
        // Held until the end: the volume is not swept meanwhile.
        let store = volume.updates.open(|| volume.store())?;
        let present = target.open(LocalStore::clone(&store));
        let landed =
            present.and_then(|present| replace(present, &volume.updates, &head, &steps, update));
        let landed = landed.or_else(|error| match error {
            ReplaceError::Store(
                StoreError::NotFound { .. }
                | StoreError::NotAFile { .. }
                | StoreError::Conflict { .. }
                | StoreError::Changed { .. }
                | StoreError::InUse { .. },
            ) => Ok(Landed::Not),
            error => {
                // The disk may have failed: the next update opens the volume anew.
                volume.updates.close();
                Err(error)
            }
        })?;
        if landed != Landed::Not {
            let mut outcome = Outcome { elapsed: begun.elapsed(), ..Outcome::default() };
            (outcome.traffic.received, outcome.traffic.sent) = (update.len() as u64, 1);
            (outcome.totals.transferred, outcome.totals.literal) = (1, literal(&steps));
            server.journal.ended("update", &self.volume, &self.known.token, &Ok(outcome));
        }
        Ok(landed)
    }
}

/// Returns the number of literal bytes in the update.
fn literal(steps: &[Step<'_>]) -> u64 {
    let fresh = steps.iter().filter(|step| matches!(step, Step::Bytes(_)));
    fresh.map(Step::len).sum()
}

/// The part of an update that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landed {
    /// No part was applied: the old version is in place.
    Not,
    /// The new version is in place, but some attribute could not be set. A session reports the reason.
    Partly,
    /// The new version is in place, with all attributes.
    Whole,
}

/// Replaces the present version by the new version, if the present version is the update's base.
fn replace(
    present: PresentFile,
    bases: &Updated,
    head: &Head,
    steps: &[Step<'_>],
    update: &[u8],
) -> Result<Landed, ReplaceError> {
    let old = Arc::clone(&present.old);
    let (there, len) = (old.identity(), old.meta().len);
    let is_bounded = len <= MAX_FILE_BYTES && head.len <= (len + update.len() as u64) * MAX_GROWTH;
    if !is_bounded
        || !keeps_group(&present.store, &old, &head.path)?
        || !bases.knows(&old, head.base)?
    {
        return Ok(Landed::Not);
    }
    let replacement = present.begin(head.len)?;
    let new = &replacement.new;
    let mut at = 0;
    for step in steps {
        match *step {
            Step::Bytes(bytes) => new.write(at, bytes)?,
            Step::Copy { start, len } => copy(&old, start..start.saturating_add(len), new, at)?,
        }
        let from = if let Step::Copy { start, .. } = *step { Some(start) } else { None };
        new.note_origin(at..at + step.len(), from);
        at += step.len();
    }
    // Another program may be writing to the old version.
    old.check_settled()?;
    let begun = now();
    let meta = Meta::without_owner(Kind::File, head.len, head.modified, head.mode);
    let keep = Keep { times: head.times, modes: head.modes, ..Keep::default() };
    let attributes = NewAttributes { meta, keep, dir_modified: head.dir_modified };
    let committed = replacement.commit(attributes)?;
    let settled = committed.version.and_then(|version| SettledVersion::after_write(version, begun));
    bases.replace(there, settled, Base::made_by(update));
    Ok(if committed.is_whole { Landed::Whole } else { Landed::Partly })
}

/// True if a new file gets the group of the old file by default. An update does not set groups; a session does.
fn keeps_group(
    store: &LocalStore,
    old: &LocalSnapshot,
    path: &RelPath,
) -> Result<bool, StoreError> {
    let dir = path.split_last().map_or_else(RelPath::root, |(dir, _)| dir);
    let inherits = store.look(&dir)?.is_some_and(|dir| dir.mode & SETGID != 0);
    let is_ours = fstat(old).is_ok_and(|stat| stat.st_gid == getegid().as_raw());
    Ok(is_ours && !inherits)
}

/// Copies a span of the old version to offset `at` of the new version.
fn copy(
    old: &LocalSnapshot,
    span: Range<u64>,
    new: &LocalRebuild,
    mut at: u64,
) -> Result<(), StoreError> {
    if span.end > old.meta().len {
        return Err(StoreError::Changed { path: RelPath::root() });
    }
    if new.may_share(old, &span, at) {
        return new.copy(old, span, at);
    }
    let mut piece = vec![0; PIECE.min((span.end - span.start) as usize)];
    let mut start = span.start;
    while start < span.end {
        let piece = &mut piece[..PIECE.min((span.end - start) as usize)];
        if old.read_at(start, piece)? < piece.len() {
            return Err(StoreError::Changed { path: RelPath::root() });
        }
        new.write_old(at, piece, Content::Old)?;
        (start, at) = (start + piece.len() as u64, at + piece.len() as u64);
    }
    Ok(())
}
