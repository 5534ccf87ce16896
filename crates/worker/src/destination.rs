//! The receiver's work: looks at entries, indexes old versions, copies, writes and commits.

mod closing;
mod found;
mod opening;
mod slot;
mod spelling;
mod tallying;
mod writing;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deltic_core::Key;
use deltic_core::strategy::Conversation;
use deltic_protocol::Terms;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{
    self, CarriedMeta, EntryWork, LookupAnswer, LookupWork, NewVersion, NewVersionAnswer,
    NewVersionWork, OldVersionAnswer, OldVersionWork, Receiver, ReceiverAnswer, ReceiverWork,
    RemovedNames, SettleWork,
};
use deltic_protocol::report::{Change, Trouble, TroubleKind};
use deltic_protocol::work::{ErrorAction, Handle, WorkError};
use deltic_store::{Commit, Keep, Link, RemoveOptions, Replaces, Store, StoreError};
use deltic_tree::{ComparedAttributes, DirDigestKey, Kind, Meta, RelPath};

use super::alternates::{AlternateCopy, Alternates};
use super::drops::{DropLater, DropNow};
use super::kept::KeptFacts;
use super::moves::Moves;
use super::owners::{Accounts, Owners, UnknownAccount};
use super::{Agreed, Buffers, to_failed_trouble, trouble_with_text, weight, work_error};
use crate::lock::lock;
use crate::stage::Stage;
use crate::user::User;
use crate::{WorkCost, Worker};
use found::Found;
use slot::{AttemptFiles, OldVersionQuery, Slot};

/// Bytes of literals of incomplete blocks that a new version buffers, unless the session has another limit.
pub const BUFFERED_BYTES: usize = 4 << 20;

/// Terms, options and accounts of a receiver's session.
pub(crate) struct DestinationConfig<'a> {
    pub(crate) terms: Terms,
    pub(crate) options: &'a Options,
    /// The sender's part of the session key.
    pub(crate) theirs: Key,
    /// Users and groups of this machine.
    pub(crate) accounts: Accounts,
}

/// Changes a store for a [`Receiver`].
pub struct DestinationWorker<S: Store> {
    store: S,
    alternates: Alternates<S>,
    options: Options,
    moves: Moves,
    keep: Keep,
    owners: Owners,
    /// The key of directory digests, and the attributes that the digests cover.
    tallied: (DirDigestKey, ComparedAttributes),
    found: Found,
    agreed: Agreed,
    user: User,
    slots: Mutex<HashMap<Handle, Arc<Slot<S>>>>,
    buffers: Buffers,
    kept: KeptFacts,
    drops: Arc<dyn DropLater>,
    /// Most bytes of literals that a new version buffers.
    buffered_bytes: usize,
}

impl<S: Store> Worker<Receiver> for DestinationWorker<S> {
    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        self.store.full_path(path)
    }

    fn ended(&self) {
        self.kept.flush();
    }

    fn describe(&self, change: &mut Change) {
        // The destination holds another version in a dry run, or until delayed updates are put in place.
        if !self.options.dry_run && !self.options.writing.delay {
            self.kept.digests.describe(&self.store, change, &self.buffers);
        }
    }

    fn terms(&self) -> Option<Terms> {
        Some(self.agreed.terms)
    }

    fn cost(&self, work: &ReceiverWork) -> WorkCost {
        match work {
            ReceiverWork::Lookup(LookupWork::Digest { .. }) => WorkCost::Heavy,
            // Listing as many names as `ExtendMoveIndex` wants takes long.
            ReceiverWork::Lookup(LookupWork::ExtendMoveIndex { .. }) => WorkCost::Heavy,
            ReceiverWork::Entry(EntryWork::CopyFromAlternate { .. }) => WorkCost::Copy,
            ReceiverWork::Old(OldVersionWork::OpenOld { .. } | OldVersionWork::OpenMore { .. }) => {
                WorkCost::Light
            }
            ReceiverWork::Old(_) => WorkCost::Heavy,
            ReceiverWork::New(NewVersionWork::Copy { .. } | NewVersionWork::Repeat { .. }) => {
                WorkCost::Copy
            }
            ReceiverWork::New(NewVersionWork::Write { .. } | NewVersionWork::Mend { .. }) => {
                WorkCost::Heavy
            }
            ReceiverWork::Ask(_) => WorkCost::Ask,
            // These steps wait for the disk only if the store makes changes durable.
            ReceiverWork::Settle(SettleWork::Commit { .. } | SettleWork::Replace(_))
            | ReceiverWork::Entry(EntryWork::SetMeta { .. })
            | ReceiverWork::Flush
                if self.options.durable =>
            {
                WorkCost::Flush
            }
            ReceiverWork::Lookup(_) | ReceiverWork::Entry(_) | ReceiverWork::Settle(_) => {
                WorkCost::Light
            }
            ReceiverWork::SetDirs { .. } | ReceiverWork::Remove { .. } => WorkCost::Light,
            ReceiverWork::Land | ReceiverWork::Sweep | ReceiverWork::Flush => WorkCost::Light,
        }
    }

    fn bytes(work: &ReceiverWork) -> usize {
        weight::of_destination(work)
    }

    fn stage(work: &ReceiverWork) -> Stage {
        match work {
            ReceiverWork::Lookup(LookupWork::Digest { .. }) => Stage::Sum,
            ReceiverWork::Entry(EntryWork::CopyFromAlternate { .. }) => Stage::Write,
            ReceiverWork::Old(work) => stage_of_old(work),
            ReceiverWork::New(_) => Stage::Write,
            ReceiverWork::Settle(SettleWork::Confirm { .. }) => Stage::Sum,
            ReceiverWork::Settle(SettleWork::Commit { .. } | SettleWork::Replace(_)) => {
                Stage::Write
            }
            ReceiverWork::Flush => Stage::Write,
            ReceiverWork::Lookup(_)
            | ReceiverWork::Entry(_)
            | ReceiverWork::Settle(SettleWork::Abandon { .. }) => Stage::Other,
            ReceiverWork::SetDirs { .. } | ReceiverWork::Remove { .. } | ReceiverWork::Ask(_) => {
                Stage::Other
            }
            ReceiverWork::Land | ReceiverWork::Sweep => Stage::Other,
        }
    }

    fn may_join(work: &ReceiverWork, next: &ReceiverWork) -> bool {
        match (work, next) {
            (
                ReceiverWork::Settle(SettleWork::Replace(_)),
                ReceiverWork::Settle(SettleWork::Replace(_)),
            ) => true,
            (
                ReceiverWork::Remove { gives_way: false, dry_run: one, .. },
                ReceiverWork::Remove { gives_way: false, dry_run: next, .. },
            ) => one == next,
            _ => false,
        }
    }

    fn perform_together(&self, works: Vec<ReceiverWork>) -> Vec<ReceiverAnswer> {
        let (mut small, mut names, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for work in works {
            match work {
                ReceiverWork::Settle(SettleWork::Replace(file)) => small.push(file),
                ReceiverWork::Remove { path, gives_way, dry_run, most } => {
                    names.push((path, RemoveOptions { gives_way, dry_run, most }));
                }
                alone => answers.push(self.perform(alone)),
            }
        }
        // Pieces of work that may join are of the same kind, so all but one of these lists are empty.
        answers.extend(self.replace_all(&small).into_iter().map(ReceiverAnswer::Done));
        let gone = self.store.remove_all(&names).into_iter();
        answers.extend(gone.map(|gone| ReceiverAnswer::Removed(removed(gone))));
        answers
    }

    fn perform(&self, work: ReceiverWork) -> ReceiverAnswer {
        match work {
            ReceiverWork::Lookup(work) => ReceiverAnswer::Lookup(self.look_up(work)),
            ReceiverWork::Entry(work) => done(self.change_entry(work)),
            ReceiverWork::SetDirs { dirs, carries } => {
                ReceiverAnswer::SetDirs(self.set_dirs(&dirs, carries))
            }
            ReceiverWork::Remove { path, gives_way, dry_run, most } => {
                let going = RemoveOptions { gives_way, dry_run, most };
                ReceiverAnswer::Removed(removed(self.store.remove(&path, going)))
            }
            ReceiverWork::Ask(question) => ReceiverAnswer::Asked(self.user.allows(&question)),
            ReceiverWork::Old(work) => ReceiverAnswer::Old(self.read_old(work)),
            ReceiverWork::New(work) => ReceiverAnswer::New(self.write_new(work)),
            ReceiverWork::Settle(work) => ReceiverAnswer::Done(self.settle(work)),
            ReceiverWork::Land => {
                let is_same = |new: &Meta, is: &Meta| receiver::agrees_with(&self.options, new, is);
                let failures = self.store.land(&is_same).into_iter();
                ReceiverAnswer::Landed(
                    failures.map(|(path, error)| (path, to_failed_trouble(&error))).collect(),
                )
            }
            ReceiverWork::Sweep => done(self.store.sweep().map(|_| ())),
            ReceiverWork::Flush => done(self.store.flush()),
        }
    }
}

/// Returns the stage to which work on old versions is charged.
const fn stage_of_old(work: &OldVersionWork) -> Stage {
    match work {
        OldVersionWork::Index { .. } | OldVersionWork::SumOld { .. } => Stage::Scan,
        OldVersionWork::Survey { .. } | OldVersionWork::HashOld { .. } => Stage::Sum,
        OldVersionWork::Roll { .. } => Stage::Search,
        OldVersionWork::OpenOld { .. }
        | OldVersionWork::OpenMore { .. }
        | OldVersionWork::View { .. } => Stage::Other,
    }
}

/// Returns the attributes that the store sets, as the options say.
const fn kept(options: &Options) -> Keep {
    let Options { modes, times, metadata, .. } = options;
    Keep {
        modes: *modes,
        times: *times,
        executability: metadata.executability && !*modes,
        omit_dir_times: metadata.omit_dir_times,
        omit_link_times: metadata.omit_link_times,
        acls: metadata.acls,
        xattrs: metadata.xattrs,
    }
}

fn done(result: Result<(), StoreError>) -> ReceiverAnswer {
    ReceiverAnswer::Done(result.map_err(|error| work_error(&error)))
}

/// Converts the result of a removal: removed names, and the reasons why other names stayed. A missing name is not
/// reported as an error.
fn removed(result: Result<deltic_store::RemoveResult, StoreError>) -> RemovedNames {
    let trouble = |error: &StoreError| match error {
        // These messages are those of rsync, which shows names without quotes.
        StoreError::Protected { path } | StoreError::NewEntriesAppeared { path } => {
            Trouble::about(TroubleKind::Skipped, path, error.to_string())
        }
        StoreError::HoldsBackups { .. } => {
            trouble_with_text(TroubleKind::Skipped, error, |path| error.message_for(path))
        }
        _ => to_failed_trouble(error),
    };
    match result {
        Ok(deltic_store::RemoveResult { gone, stayed, goes_on }) => {
            RemovedNames { gone, troubles: stayed.iter().map(trouble).collect(), goes_on }
        }
        Err(StoreError::NotFound { .. }) => RemovedNames::default(),
        Err(error) => RemovedNames { troubles: vec![trouble(&error)], ..RemovedNames::default() },
    }
}

impl<S: Store> DestinationWorker<S> {
    /// Starts a worker that changes `store`.
    ///
    /// # Errors
    /// [`UnknownAccount`] if the options name users or groups that do not exist on this machine.
    pub(crate) fn new(
        store: S,
        alternates: Alternates<S>,
        DestinationConfig { terms, options, theirs, accounts }: DestinationConfig<'_>,
    ) -> Result<Self, UnknownAccount> {
        Ok(Self {
            store,
            alternates,
            options: options.clone(),
            moves: Moves::default(),
            keep: kept(options),
            owners: Owners::new(&options.metadata, accounts)?,
            tallied: (DirDigestKey::of(&theirs), options.tallied_attributes().unwrap_or_default()),
            found: Found::default(),
            agreed: Agreed::new(terms, options),
            user: User::default(),
            slots: Mutex::default(),
            buffers: Buffers::default(),
            kept: KeptFacts::default(),
            drops: Arc::new(DropNow),
            buffered_bytes: BUFFERED_BYTES,
        })
    }

    /// Returns this worker with facts about files from earlier runs.
    pub fn with_kept(self, kept: KeptFacts) -> Self {
        Self { kept, ..self }
    }

    /// Returns this worker with `drops`, which frees old versions in the background.
    pub fn with_drops(self, drops: Arc<dyn DropLater>) -> Self {
        Self { drops, ..self }
    }

    /// Returns this worker with room for `bytes` of literals of incomplete blocks in each new version. Further literals
    /// are written in small pieces.
    pub fn with_buffered_bytes(self, bytes: usize) -> Self {
        Self { buffered_bytes: bytes, ..self }
    }

    /// Returns this worker with `user`, the user that answers questions.
    pub fn with_user(self, user: User) -> Self {
        Self { user, ..self }
    }

    /// True if notes of an interrupted transfer are kept, so that the transfer can be resumed. The published
    /// strategies start anew.
    fn keeps_notes(&self) -> bool {
        self.options.strategy.conversation == Conversation::Recipe
    }

    /// Looks at names and contents.
    fn look_up(&self, work: LookupWork) -> LookupAnswer {
        match work {
            LookupWork::Look { paths, dirs, alike, users, groups } => {
                let mut found = self.look(&paths, &dirs);
                self.refuse_alike(&paths, &alike, &mut found);
                LookupAnswer::Looked(found, self.owners.ours(&users, &groups))
            }
            LookupWork::LookMissing { paths, listed } => {
                let mut found = self.look(&paths, &HashSet::new());
                self.spare_listed(&paths, &listed, &mut found);
                LookupAnswer::Looked(found, Default::default())
            }
            LookupWork::Compare { dir, tally, owners } => {
                LookupAnswer::Compared(self.compare(&dir, &tally, &owners).map(Box::new))
            }
            LookupWork::Digest { paths } => {
                let digests = self.kept.digests.of(&self.store, &paths, &self.buffers);
                LookupAnswer::Digested(self.agreed.compared(digests))
            }
            LookupWork::LookUpAlternates { path } => {
                LookupAnswer::Beside(self.alternates.look(&path))
            }
            LookupWork::Extra { dir, keep, rest } => {
                LookupAnswer::Extra(self.extra(&dir, keep.as_ref(), rest))
            }
            LookupWork::Count { path, gives_way } => {
                LookupAnswer::Counted(self.count(&path, gives_way))
            }
            LookupWork::CountMoved { paths, mut new } => {
                let files = self.count_moved(paths, &mut new);
                LookupAnswer::CountedMoved { files, new }
            }
            LookupWork::ExtendMoveIndex { near, names } => {
                LookupAnswer::MoveIndexExtended(self.moves.draw(&self.store, near, names))
            }
        }
    }

    /// Creates, links, copies or changes an entry.
    fn change_entry(&self, work: EntryWork) -> Result<(), StoreError> {
        match work {
            EntryWork::LinkFromAlternate { path, alternate, is, seen } => {
                let from = self.alternates.tree(alternate, &path)?;
                self.store.link(&path, Link { from, at: &path, is: &is, seen: seen.as_ref() })
            }
            EntryWork::Link { path, leader, kind, seen } => {
                let linked = self.link(&path, &leader, &kind, seen.as_ref());
                self.ignore_same_change(linked, || self.are_hard_linked(&path, &leader))
            }
            EntryWork::CopyFromAlternate { path, alternate, is, meta, seen } => {
                let seen = seen.as_ref();
                let beside = AlternateCopy { path: &path, alternate, is: &is, meta: &meta, seen };
                let copy = || self.alternates.copy(&self.store, &beside, self.keep);
                self.drops.with_room(copy)
            }
            EntryWork::MakeDir { path, meta, carries } => {
                self.store.make_dir(&path, Some((&meta, self.kept(carries))))
            }
            EntryWork::MakeSymlink { path, target, meta } => {
                let made = self.store.make_symlink(&path, &target, &meta, self.keep);
                self.ignore_same_change(made, || self.has_metadata(&path, &meta))
            }
            EntryWork::MakeSpecial { path, meta } => {
                let made = self.store.make_special(&path, &meta, self.keep);
                self.ignore_same_change(made, || self.has_metadata(&path, &meta))
            }
            EntryWork::SetMeta { path, meta } => self.set_meta(&path, &meta),
        }
    }

    /// Sets the metadata of directories in this order. Returns the troubles with directories that could not be set.
    fn set_dirs(&self, dirs: &[(RelPath, Meta)], carries: CarriedMeta) -> Vec<Trouble> {
        let keep = self.kept(carries);
        let errors =
            dirs.iter().filter_map(|(path, meta)| self.store.set_meta(path, meta, keep).err());
        errors.map(|error| to_failed_trouble(&error)).collect()
    }

    /// Opens or reads old versions.
    fn read_old(&self, work: OldVersionWork) -> OldVersionAnswer {
        match work {
            OldVersionWork::OpenOld { handle, path, most, goes_on, recipe, base, elsewhere } => {
                let sought =
                    OldVersionQuery { path: &path, elsewhere, most, goes_on, recipe, base };
                let opened = self.open_old(handle, &sought);
                OldVersionAnswer::Opened(opened.map(Box::new).map_err(|error| work_error(&error)))
            }
            OldVersionWork::OpenMore { handle, other } => {
                OldVersionAnswer::OpenedMore(self.open_arrived(handle, &other))
            }
            OldVersionWork::View { handle, map } => {
                let lens = self.slot(handle).view_as(&map);
                OldVersionAnswer::Viewed(lens.map_err(|error| work_error(&error)))
            }
            OldVersionWork::Index { handle, part, segment, spec } => {
                OldVersionAnswer::Indexed(self.index(handle, part, &spec, &segment))
            }
            OldVersionWork::Survey { handle, gaps } => OldVersionAnswer::Surveyed(
                self.block_sums(handle, &gaps).map_err(|error| work_error(&error)),
            ),
            OldVersionWork::SumOld { handle, part, portion, summing } => {
                OldVersionAnswer::Summed(self.sum_old(handle, part, portion, summing))
            }
            OldVersionWork::HashOld { handle, strong, spans } => {
                OldVersionAnswer::Hashed(self.hash_old(handle, strong, &spans))
            }
            OldVersionWork::Roll { handle, part, start, search } => OldVersionAnswer::Rolled(
                (self.roll(handle, part, start, search.searcher(Some(self.agreed.key))))
                    .map_err(|error| work_error(&error)),
            ),
        }
    }

    /// Writes parts of a new version.
    fn write_new(&self, work: NewVersionWork) -> NewVersionAnswer {
        match work {
            NewVersionWork::Copy { handle, path, new, runs, chunks } => NewVersionAnswer::Copied(
                self.fill(handle, &path, new, |files| self.copy(files, &runs, chunks)),
            ),
            NewVersionWork::Repeat { handle, path, new, runs } => NewVersionAnswer::Copied(
                self.fill(handle, &path, new, |files| self.repeat(files, &runs)),
            ),
            NewVersionWork::Write { handle, path, new, pieces, payload, between } => {
                NewVersionAnswer::Written(self.fill(handle, &path, new, |files| {
                    self.write(files, &pieces, &payload, &between)
                }))
            }
            NewVersionWork::Mend { handle, path, new, gaps, bytes, payload } => {
                NewVersionAnswer::Mended(
                    self.fill(handle, &path, new, |files| self.mend(files, &gaps, bytes, &payload)),
                )
            }
        }
    }

    /// Ends an attempt at a file.
    fn settle(&self, work: SettleWork) -> Result<(), WorkError> {
        match work {
            SettleWork::Commit { handle, path, meta, seen, proof } => {
                let replaces = Replaces::seen(seen.as_ref());
                self.commit(handle, &path, Commit { meta: &meta, keep: self.keep, replaces }, proof)
            }
            SettleWork::Replace(small) => {
                let mut done = self.replace_all(&[small]);
                done.pop().expect("one answer for one file")
            }
            SettleWork::Confirm { handle, path, proof } => self.confirm(handle, &path, &proof),
            SettleWork::Abandon { handle } => {
                self.abandon(handle).map_err(|error| work_error(&error))
            }
        }
    }

    /// Looks at `paths`. A symlink to a directory counts as this directory if its path is one of `dirs`.
    fn look(
        &self,
        paths: &[RelPath],
        dirs: &HashSet<RelPath>,
    ) -> Vec<Result<Option<Meta>, Trouble>> {
        let looked = paths.iter().zip(self.look_all(paths));
        let found = looked.map(|(path, found)| match found {
            Ok(Some(link)) if link.is_symlink() && dirs.contains(path) => {
                self.store.keep_dirlink(path).map(|behind| behind.or(Some(link)))
            }
            // The path leads through a symlink. A dry run does not replace the link by a directory, so the entry counts
            // as missing; any other run fails there.
            Err(StoreError::OutsideRoot { .. }) => Ok(None),
            found => found,
        });
        found.map(|found| found.map_err(|error| to_failed_trouble(&error))).collect()
    }

    /// Makes `path` a hard link to `leader`, if `leader` still has the type that was committed.
    fn link(
        &self,
        path: &RelPath,
        leader: &RelPath,
        kind: &Kind,
        seen: Option<&Meta>,
    ) -> Result<(), StoreError> {
        if self.store.stage_hard_link(path, leader, seen)? {
            return Ok(());
        }
        let is = self.store.look(leader)?.filter(|is| is.kind == *kind);
        let is = is.ok_or_else(|| StoreError::Changed { path: leader.clone() })?;
        self.store.link(path, Link { from: &self.store, at: leader, is: &is, seen })
    }

    /// Ignores a conflict if another run has made the same change in the meantime; `is_done` checks that.
    fn ignore_same_change<T: Default>(
        &self,
        result: Result<T, StoreError>,
        is_done: impl FnOnce() -> bool,
    ) -> Result<T, StoreError> {
        match result {
            Err(StoreError::Conflict { .. }) if is_done() => Ok(T::default()),
            result => result,
        }
    }

    /// True if the entry at `path` already has the metadata `meta`.
    fn has_metadata(&self, path: &RelPath, meta: &Meta) -> bool {
        let is = self.store.look(path).ok().flatten();
        is.is_some_and(|is| receiver::agrees_with(&self.options, meta, &is))
    }

    /// True if both paths are hard links to the same file.
    fn are_hard_linked(&self, path: &RelPath, leader: &RelPath) -> bool {
        let inode = |path| self.store.look(path).ok()??.hard_link()?.inode();
        inode(path).is_some_and(|one| inode(leader) == Some(one))
    }

    /// Returns the attributes to set on entries that get the share `carries` of the sender's metadata.
    fn kept(&self, carries: CarriedMeta) -> Keep {
        match carries {
            CarriedMeta::Nothing => Keep::default(),
            CarriedMeta::Late => Keep { acls: false, xattrs: false, ..self.keep },
            CarriedMeta::All => self.keep,
        }
    }

    fn slot(&self, handle: Handle) -> Arc<Slot<S>> {
        Arc::clone(lock(&self.slots).entry(handle).or_default())
    }

    /// Opens the staged file of a new version and calls `fill` to write a part of it.
    fn fill<T>(
        &self,
        handle: Handle,
        path: &RelPath,
        new: NewVersion,
        fill: impl FnOnce(AttemptFiles<'_, S>) -> Result<T, WorkError>,
    ) -> Result<T, WorkError> {
        let growing = self.growing(handle, path, new).map_err(|error| work_error(&error))?;
        fill(AttemptFiles { path, slot: &self.slot(handle), growing: &growing })
    }
}

fn unproven(path: &RelPath) -> WorkError {
    let words =
        |path: &str| format!("cannot write {path}: the received data does not match its digest");
    WorkError { trouble: Trouble::at(TroubleKind::Failed, path, words), then: ErrorAction::Retry }
}

/// Returns the error for an old version that became shorter since it was opened.
fn shrunk() -> WorkError {
    let message = "an old version became shorter during the transfer";
    WorkError { trouble: Trouble::new(TroubleKind::Failed, message), then: ErrorAction::Retry }
}
