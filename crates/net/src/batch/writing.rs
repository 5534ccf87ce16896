//! Writes a batch: the list that the sender sends, then the content of each changed file.

use std::sync::Arc;

use deltic_core::format::delta::{DeltaRecord, DeltaSteps, MAX_KNOWN_CHUNKS};
use deltic_core::{ChunkerSpec, Digest, Index};
use deltic_engine::pack::{level, packed};
use deltic_protocol::batch::{Old, Part};
use deltic_protocol::report::{
    Action, Change, Differs, EntryType, Facts, Notice, Trouble, TroubleKind,
};
use deltic_protocol::sender::ToleratedChanges;
use deltic_store::{Snapshot, StoreError, Tree};
use deltic_tree::{Kind, Meta, RelPath};

use super::standing::{Standing, only_entry_path, open_destination};
use super::{Batch, MAX_STEPS, Tap, cut_chunks, io_error};
use crate::config::SessionConfig;
use crate::error::SyncError;
use crate::host::user::{Conversation, Watch};
use crate::plan::{self, Plan};
use deltic_worker::rest::is_restless;
use deltic_worker::trouble;

/// Runs a plan. If the plan asks for a batch, writes the batch, before or instead of changing the destination.
/// `converse` holds a session.
pub(crate) async fn write(
    plan: Plan,
    converse: impl for<'a> Fn(Plan, SessionConfig, Watch<'a>) -> Conversation<'a>,
    config: SessionConfig,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let (file, only) = match plan.batch.clone() {
        Some(plan::Batch::Write(file)) => (file, false),
        Some(plan::Batch::OnlyWrite(file)) => (file, true),
        Some(plan::Batch::Read { .. }) | None => return converse(plan, config, watch).await,
    };
    let pulls = matches!(plan.sources, plan::Sources::Remote { .. });
    if pulls && only {
        let why = "--only-write-batch: the sources are on the other machine: run it there, or --write-batch here";
        return Err(SyncError::Options(why.into()));
    }
    let is_local = !pulls && plan.destination.local_path().is_some();
    // Events are reported later, when the batch is read.
    let is_quiet = is_local && !only;
    let mut first = plan.clone();
    first.options.dry_run |= only || is_local;
    // With this option, every directory is listed.
    first.options.tells_unchanged = true;
    // For runs that compare no times: a file with content that was found equal would not be reported.
    first.options.whole_file |= !plan.options.times || plan.options.compare.ignore_times;
    let tap = Arc::new(Tap::new(Arc::clone(&file)));
    let (mut changed, mut finished) = (Vec::new(), None);
    let tells_unchanged = plan.options.tells_unchanged;
    let tapped = SessionConfig { tap: Some(Arc::clone(&tap)), ..config.clone() };
    converse(first, tapped, &mut |notice| {
        if let Notice::Changed(change) = &notice
            && has_content(change)
        {
            let Facts { len, modified, mode, .. } = change.facts;
            changed
                .push((change.path.clone(), Meta::without_owner(Kind::File, len, modified, mode)));
        }
        match notice {
            Notice::Finished(_) => finished = Some(notice),
            Notice::Changed(change) if change.action.is_none() && !tells_unchanged => {}
            Notice::Trouble(trouble) if is_quiet && !is_of_source(&trouble) => {}
            Notice::Trouble(_) => watch(notice),
            // The run goes on with the contents.
            Notice::Closing => {}
            _ if is_quiet => {}
            notice => watch(notice),
        }
    })
    .await?;
    let of_plan = plan.clone();
    let writing = tokio::task::spawn_blocking(move || write_contents(&tap, &of_plan, &changed));
    for trouble in writing.await.map_err(|_| SyncError::Internal)?? {
        watch(Notice::Trouble(trouble));
    }
    if is_quiet {
        let batch = Batch::open(file, "the written batch", &plan)?;
        let plan = batch.plan(plan);
        return converse(plan, SessionConfig { batch: Some(batch), ..config }, watch).await;
    }
    finished.into_iter().for_each(watch);
    Ok(())
}

/// True if a batch needs the content of a changed entry: the content is new, or a comparison found it equal.
fn has_content(change: &Change) -> bool {
    let Differs { content, size, time, .. } = change.differs;
    let is_wanted = match change.action {
        Action::Created | Action::Updated | Action::Copied => true,
        Action::Touched => content || size || time,
        Action::Deleted | Action::Unchanged | Action::PassedOver(_) => false,
    };
    // The first of several hard links brings the content.
    change.item == EntryType::File && is_wanted && change.facts.linked.is_none()
}

/// True if a trouble is about reading sources. Other troubles are reported again when the batch is read.
fn is_of_source(trouble: &Trouble) -> bool {
    matches!(trouble.kind, TroubleKind::Failed | TroubleKind::Vanished)
}

/// Writes the contents of changed files, and ends the batch. Returns the troubles with reading them.
fn write_contents(
    tap: &Tap,
    plan: &Plan,
    changed: &[(RelPath, Meta)],
) -> Result<Vec<Trouble>, SyncError> {
    let single = tap.single.get().cloned().flatten();
    let (there, rename) = open_destination(plan, single.as_ref())?.unzip();
    let names = rename
        .flatten()
        .zip(single)
        .map(|names| (only_entry_path(&names.0), only_entry_path(&names.1)));
    let contents = Contents { tap, there, level: level(plan.options.compress_level) };
    let (mut files, mut troubles) = (0, Vec::new());
    for (path, meta) in changed {
        let (path_there, path) = names.as_ref().map_or((path, path), |(there, here)| (there, here));
        match contents.write(path, path_there, meta) {
            Ok(()) => files += 1,
            Err(Unwritten { began, error }) => {
                files += u64::from(began);
                troubles.push(trouble(&error));
            }
        }
    }
    tap.finish(files).map(|()| troubles)
}

/// The trees that contents are read from, and the batch to write.
struct Contents<'a> {
    tap: &'a Tap,
    there: Option<Standing>,
    level: i32,
}

/// Error of a content that could not be written to the batch.
struct Unwritten {
    /// True if a part of the content is in the batch, marked as invalid.
    began: bool,
    error: StoreError,
}

impl Contents<'_> {
    /// Writes the content of the new version of `path`, which is named `path_there` at the destination.
    fn write(&self, path: &RelPath, path_there: &RelPath, meta: &Meta) -> Result<(), Unwritten> {
        let none = |error| Unwritten { began: false, error };
        let old = || self.there.as_ref().map(|tree| tree.open(path_there));
        let (new, old) = match self.tap.sources.get() {
            Some(worker) => (worker.tree().open(path).map_err(none)?, old().and_then(Result::ok)),
            // A content from another machine has already arrived at the destination.
            None => (old().expect("it was written there").map_err(none)?, None),
        };
        let is = new.meta();
        let is_same = self.tap.sources.get().is_none() || is.modified == meta.modified;
        if is.len != meta.len || !is_same {
            return Err(none(StoreError::Changed { path: path.clone() }));
        }
        let written =
            self.write_delta(path, meta.clone(), &new, old.filter(|old| old.meta().len > 0));
        let proof = written.as_ref().ok().copied();
        self.tap.write_bytes(&Part::Proof { digest: proof }.encode());
        written.map(drop).map_err(|error| Unwritten { began: true, error })
    }

    /// Writes the steps from the old to the new version. Returns the digest of the new version.
    fn write_delta(
        &self,
        path: &RelPath,
        meta: Meta,
        new: &impl Snapshot,
        old: Option<impl Snapshot>,
    ) -> Result<Digest, StoreError> {
        let spec = ChunkerSpec::for_len(meta.len);
        let mut index = Index::new(MAX_KNOWN_CHUNKS);
        let old = old.and_then(|old| index_old(&old, &spec, &mut index).ok());
        if old.is_none() {
            index = Index::new(0);
        }
        self.tap.write_bytes(&Part::Content { path: path.clone(), meta, old, spec }.encode());
        let (mut steps, mut count) = (DeltaSteps::new(&index), 0);
        let mut put = |record| {
            count += 1;
            let part = match record {
                DeltaRecord::Copy(span) => Part::Copy { span },
                DeltaRecord::Literal(bytes) => Part::Literal {
                    len: bytes.len() as u32,
                    payload: packed(bytes, Some(self.level)),
                },
                DeltaRecord::Header(_) | DeltaRecord::End { .. } => return Ok(()),
            };
            if count > MAX_STEPS {
                let source = io_error(
                    "the file has more changed places than a batch may have; sync the file without a batch",
                );
                return Err(StoreError::Io { action: "write", path: path.clone(), source });
            }
            self.tap.write_bytes(&part.encode());
            Ok(())
        };
        let digest = cut_chunks(new, &spec, |bytes, chunk| steps.push(bytes, chunk, &mut put))?;
        steps.finish(&mut put)?;
        is_restless(new, ToleratedChanges::default(), || {
            Ok(cut_chunks(new, &spec, |_, _| Ok(()))? == digest)
        })?;
        Ok(digest)
    }
}

/// Adds the chunks of an old version to `index`. Returns its digest and length.
fn index_old(
    old: &impl Snapshot,
    spec: &ChunkerSpec,
    index: &mut Index,
) -> Result<Old, StoreError> {
    let mut start = 0;
    let digest = cut_chunks(old, spec, |_, chunk| {
        index.push(start, *chunk);
        start += u64::from(chunk.len);
        Ok(())
    })?;
    old.check_settled()?;
    Ok(Old { digest, len: start })
}
