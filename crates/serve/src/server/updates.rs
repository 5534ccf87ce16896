//! Updates of files of volumes, each in one message of a client who knows what is there.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use deltic_core::CodecError;
use deltic_net::embed::Outcome;
use deltic_store::{
    Commit, Content, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree, check_path,
};
use deltic_store_local::cache::Moment;
use deltic_store_local::{LocalRebuild, LocalSnapshot, LocalStore};
use deltic_tree::{Kind, Meta, RelPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::problem::Problem;
use super::rest::on_disk;
use super::shared::{Known, Server, SessionPermit};
use super::updated::Updated;
use super::volume::{Right, Volume};
use crate::channel::Channel;
use crate::update::{Answer, Base, Head, MAX_FILE_BYTES, MAX_UPDATE_BYTES, Step, read};

/// Bytes that are copied at once where blocks are not shared.
const PIECE: usize = 256 << 10;

/// Room for an update of a client in a volume.
pub(super) struct Updating {
    pub(super) known: Known,
    pub(super) volume: String,
    pub(super) _permit: SessionPermit,
}

impl Updating {
    /// Takes an update from its channel, and answers it there.
    ///
    /// # Errors
    /// [`Problem`] where it is not done; the file stays as it was.
    pub(super) async fn hold(self, server: &Arc<Server>, channel: Channel) -> Result<(), Problem> {
        let (update, mut channel) = self.hear(server, channel).await?;
        let begun = Instant::now();
        let (heard, literal, answer) = self.apply(server, update).await?;
        channel.write_all(&[answer.byte()]).await.ok();
        channel.shutdown().await.ok();
        if answer == Answer::Done {
            let mut outcome = Outcome { elapsed: begun.elapsed(), ..Outcome::default() };
            (outcome.traffic.received, outcome.traffic.sent) = (heard, 1);
            (outcome.totals.transferred, outcome.totals.literal) = (1, literal);
            server.journal.ended("update", (&self.volume, &self.known.token), &Ok(outcome));
        }
        Ok(())
    }

    async fn hear(
        &self,
        server: &Server,
        mut channel: Channel,
    ) -> Result<(Vec<u8>, Channel), Problem> {
        let mut update = Vec::new();
        let within = server.admission.limits().stall();
        let mut bounded = (&mut channel).take(MAX_UPDATE_BYTES as u64 + 1);
        match timeout(within, bounded.read_to_end(&mut update)).await {
            Ok(Ok(_)) => Ok((update, channel)),
            _ => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the update does not come")),
        }
    }

    /// Puts the new version in place; bytes that came, bytes of them that are new, and what became of it.
    async fn apply(
        &self,
        server: &Arc<Server>,
        update: Vec<u8>,
    ) -> Result<(u64, u64, Answer), Problem> {
        let garbled = |why: CodecError| {
            Problem::new(StatusCode::BAD_REQUEST, format!("the update is garbled: {why}"))
        };
        let (head, _) = read(&update).map_err(garbled)?;
        let path = &head.path;
        let volume = server.volume_for(Right::Write, (&self.known, &self.volume, path))?;
        // Its copies, and the answer, tell what is there.
        server.volume_for(Right::Read, (&self.known, &self.volume, path))?;
        let reserved = |_| Problem::new(StatusCode::BAD_REQUEST, "a name of deltic's own");
        check_path("update", path).map_err(reserved)?;
        if head.len > server.upload_bytes {
            let why = format!("more than {} bytes in one file", server.upload_bytes);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        server.still(&self.known)?;
        let sets_dir = path.split_last().is_some_and(|(dir, _)| self.known.grant.covers(&dir));
        on_disk(server, move || {
            let (head, steps) = read(&update).map_err(garbled)?;
            let head = Head { dir_modified: head.dir_modified.filter(|_| sets_dir), ..head };
            let fresh = |step: &Step<'_>| match step {
                Step::Bytes(bytes) => bytes.len() as u64,
                Step::Copy { .. } => 0,
            };
            let literal = steps.iter().map(fresh).sum();
            let store = store(&volume)?;
            let new = (&head, &*steps, Base::made_by(&update));
            let answer = replace(&store, &volume.updates, new).or_else(|error| match error {
                StoreError::NotFound { .. }
                | StoreError::NotAFile { .. }
                | StoreError::Conflict { .. }
                | StoreError::Changed { .. } => Ok(Answer::OtherBase),
                error => {
                    volume.updates.close();
                    Err(error)
                }
            })?;
            Ok((update.len() as u64, literal, answer))
        })
        .await
    }
}

/// The files of a volume, which all who update it share; who has quotas of his own has them for himself.
fn store(volume: &Volume) -> Result<Arc<LocalStore>, StoreError> {
    match volume.has_quotas() {
        true => Ok(Arc::new(volume.store()?)),
        false => volume.updates.open(|| volume.store()),
    }
}

/// Makes the new version of the present one, if that is the base.
fn replace(
    store: &LocalStore,
    bases: &Updated,
    (head, steps, made): (&Head, &[Step<'_>], Base),
) -> Result<Answer, StoreError> {
    let old = Tree::open(store, &head.path)?;
    if old.meta().len > MAX_FILE_BYTES || !bases.knows(&old, head.base)? {
        return Ok(Answer::OtherBase);
    }
    let new = store.create(&head.path, head.len)?;
    let mut at = 0;
    for step in steps {
        match *step {
            Step::Bytes(bytes) => new.write(at, bytes)?,
            Step::Copy { start, len } => copy(&old, start..start.saturating_add(len), (&new, at))?,
        }
        at += step.len();
    }
    let begun = Moment::now();
    let meta = Meta::plain(Kind::File, head.len, head.modified, head.mode);
    let keep = Keep { times: head.times, modes: head.modes, ..Keep::default() };
    let there = old.identity();
    let version = new.commit(Commit { meta: &meta, keep, replaces: Replaces::Version(&old) })?;
    if let (Some(modified), Some((dir, _))) = (head.dir_modified, head.path.split_last()) {
        let meta = Meta::plain(Kind::Dir, 0, modified, 0o777);
        store.set_meta(&dir, &meta, Keep { times: true, ..Keep::default() })?;
    }
    store.flush()?;
    let version = version.filter(|version| begun.is_past(version.modified));
    bases.replace(there, version, made);
    Ok(Answer::Done)
}

/// Copies a span of the old version.
fn copy(
    old: &LocalSnapshot,
    span: Range<u64>,
    (new, mut at): (&LocalRebuild, u64),
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
