//! A store that fails on demand, for tests: any call of a run can be made to fail.
//!
//! Tests use the method of SQLite. A first run counts the calls. Then a run for each call makes that call fail, and
//! the test checks that all promises hold.

mod plan;

use std::ops::Range;
use std::path::PathBuf;

use deltic_core::{StoredSums, SumKind};
use deltic_tree::names::SortedNames;
use deltic_tree::{Meta, Name, RelPath};

use crate::{
    Commit, Content, Extents, Keep, Link, Listing, NamePair, OneName, Posix, Rebuild,
    RemoveOptions, RemoveResult, Respell, Resumable, Resumed, Snapshot, Store, StoreError, Tree,
    Version,
};
pub use plan::{Call, Fault, Nth, Plan};

/// A store that fails chosen calls before they have any effect.
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: Plan,
}

/// A snapshot of a [`Faulty`] store.
#[derive(Debug)]
pub struct FaultySnapshot<S> {
    inner: S,
    path: RelPath,
    plan: Plan,
}

/// A rebuild of a [`Faulty`] store. If a write or a commit fails, the inner rebuild is dropped as after a crash.
#[derive(Debug)]
pub struct FaultyRebuild<R> {
    inner: R,
    path: RelPath,
    plan: Plan,
}

impl<S> Faulty<S> {
    /// Wraps `inner` with the faults of `plan`. The caller keeps a clone of the plan.
    pub fn new(inner: S, plan: Plan) -> Self {
        Self { inner, plan }
    }

    fn snapshot<T>(&self, path: &RelPath, inner: T) -> FaultySnapshot<T> {
        FaultySnapshot { inner, path: path.clone(), plan: self.plan.clone() }
    }
}

impl<S: Tree> Tree for Faulty<S> {
    type Snapshot = FaultySnapshot<S::Snapshot>;

    fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
        self.inner.full_path(path)
    }

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.list(dir)
    }

    fn list_some(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.list_some(dir, rest)
    }

    fn list_stat(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.list_stat(dir, rest)
    }

    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.list_versions(dir)
    }

    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        self.inner.versions(paths)
    }

    fn open(&self, path: &RelPath) -> Result<Self::Snapshot, StoreError> {
        self.plan.count_call(Call::Open, path)?;
        Ok(self.snapshot(path, self.inner.open(path)?))
    }

    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        self.plan.count_call(Call::Remove, path)?;
        self.inner.remove_source(path, is)
    }
}

impl<S: Snapshot> Snapshot for FaultySnapshot<S> {
    fn meta(&self) -> &Meta {
        self.inner.meta()
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        self.plan.count_call(Call::Read, &self.path)?;
        self.inner.read_at(start, buf)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.plan.count_call(Call::Check, &self.path)?;
        self.inner.check_unchanged()
    }

    fn check_settled(&self) -> Result<(), StoreError> {
        self.plan.count_call(Call::Check, &self.path)?;
        self.inner.check_settled()
    }

    fn may_be_written(&self) -> bool {
        self.inner.may_be_written()
    }

    fn wait_for_writes(&self) -> bool {
        self.inner.wait_for_writes()
    }

    fn len_now(&self) -> Result<u64, StoreError> {
        self.inner.len_now()
    }

    fn only_got_names(&self) -> Result<bool, StoreError> {
        self.inner.only_got_names()
    }

    fn has_other_names(&self) -> bool {
        self.inner.has_other_names()
    }

    fn has_version(&self, version: crate::Version) -> bool {
        self.inner.has_version(version)
    }

    fn identity(&self) -> Option<crate::Version> {
        self.inner.identity()
    }

    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        self.plan.count_call(Call::Check, &self.path)?;
        self.inner.extents()
    }

    fn data_runs(&self) -> Result<Option<Vec<Range<u64>>>, StoreError> {
        self.plan.count_call(Call::Check, &self.path)?;
        self.inner.data_runs()
    }

    fn sum_kind(&self) -> Option<SumKind> {
        self.inner.sum_kind()
    }

    fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
        self.plan.count_call(Call::Check, &self.path)?;
        self.inner.stored_sums(range)
    }
}

impl<S: Store> Posix for Faulty<S> {
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        self.plan.count_call(Call::MakeSymlink, path)?;
        self.inner.make_symlink(path, target, meta, keep)
    }

    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        self.plan.count_call(Call::MakeSpecial, path)?;
        self.inner.make_special(path, meta, keep)
    }

    fn link(&self, path: &RelPath, link: Link<'_, Self>) -> Result<(), StoreError> {
        self.plan.count_call(Call::Link, path)?;
        let Link { from, at, is, seen } = link;
        self.inner.link(path, Link { from: &from.inner, at, is, seen })
    }

    fn keep_dirlink(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.plan.count_call(Call::Look, path)?;
        self.inner.keep_dirlink(path)
    }

    fn stage_hard_link(
        &self,
        path: &RelPath,
        leader: &RelPath,
        seen: Option<&Meta>,
    ) -> Result<bool, StoreError> {
        self.inner.stage_hard_link(path, leader, seen)
    }

    fn land(&self, is_same: &dyn Fn(&Meta, &Meta) -> bool) -> Vec<(RelPath, StoreError)> {
        self.inner.land(is_same)
    }
}

impl<S: Store> Store for Faulty<S> {
    type Rebuild = FaultyRebuild<S::Rebuild>;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.plan.count_call(Call::Look, path)?;
        self.inner.look(path)
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<Self::Rebuild, StoreError> {
        self.plan.count_call(Call::Create, path)?;
        let inner = self.inner.create(path, len)?;
        Ok(FaultyRebuild { inner, path: path.clone(), plan: self.plan.clone() })
    }

    fn create_sparse(
        &self,
        path: &RelPath,
        len: u64,
        data: u64,
    ) -> Result<Self::Rebuild, StoreError> {
        self.plan.count_call(Call::Create, path)?;
        let inner = self.inner.create_sparse(path, len, data)?;
        Ok(FaultyRebuild { inner, path: path.clone(), plan: self.plan.clone() })
    }

    fn leftovers(&self, path: &RelPath) -> Result<Vec<Self::Snapshot>, StoreError> {
        self.plan.count_call(Call::Leftovers, path)?;
        let found = self.inner.leftovers(path)?;
        Ok(found.into_iter().map(|inner| self.snapshot(path, inner)).collect())
    }

    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self::Rebuild>>, StoreError> {
        self.plan.count_call(Call::Resume, path)?;
        let found = self.inner.resume(path, len)?;
        Ok(found.map(|Resumed { rebuild, notes }| Resumed {
            rebuild: FaultyRebuild { inner: rebuild, path: path.clone(), plan: self.plan.clone() },
            notes,
        }))
    }

    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        self.plan.count_call(Call::MakeDir, path)?;
        self.inner.make_dir(path, will)
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        self.plan.count_call(Call::SetMeta, path)?;
        self.inner.set_meta(path, meta, keep)
    }

    fn list_but(&self, dir: &RelPath, keep: &dyn Fn(&Name) -> bool) -> Result<Listing, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.list_but(dir, keep)
    }

    fn respell(&self, dir: &RelPath, respell: &Respell<'_>) -> Result<Vec<Name>, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.respell(dir, respell)
    }

    fn one_name(&self, dir: &RelPath, pair: &NamePair<'_>) -> Result<OneName, StoreError> {
        self.plan.count_call(Call::List, dir)?;
        self.inner.one_name(dir, pair)
    }

    fn remove(&self, path: &RelPath, going: RemoveOptions) -> Result<RemoveResult, StoreError> {
        self.plan.count_call(if going.dry_run { Call::List } else { Call::Remove }, path)?;
        self.inner.remove(path, going)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.plan.count_call(Call::Flush, &RelPath::root())?;
        self.inner.flush()
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        self.plan.count_call(Call::Sweep, &RelPath::root())?;
        self.inner.sweep()
    }
}

impl<R: Rebuild> Resumable for FaultyRebuild<R> {
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        self.plan.count_call(Call::Note, &self.path)?;
        self.inner.note(bytes)
    }

    fn has_staged(&self, span: &Range<u64>) -> bool {
        self.inner.has_staged(span)
    }

    fn mark_staged(&self, span: Range<u64>) {
        self.inner.mark_staged(span);
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        self.plan.count_call(Call::Read, &self.path)?;
        self.inner.read_at(start, buf)
    }
}

impl<R: Rebuild> Rebuild for FaultyRebuild<R> {
    type Snapshot = FaultySnapshot<R::Snapshot>;

    fn copy(
        &self,
        from: &Self::Snapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError> {
        self.plan.count_call(Call::Copy, &self.path)?;
        self.inner.copy(&from.inner, old, new_start)
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.plan.count_call(Call::Write, &self.path)?;
        self.inner.write(new_start, bytes)
    }

    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        self.plan.count_call(Call::Write, &self.path)?;
        self.inner.write_old(new_start, bytes, content)
    }

    fn clear(&self, span: Range<u64>) -> Result<(), StoreError> {
        self.plan.count_call(Call::Write, &self.path)?;
        self.inner.clear(span)
    }

    fn may_share(&self, from: &Self::Snapshot, old: &Range<u64>, new_start: u64) -> bool {
        self.inner.may_share(&from.inner, old, new_start)
    }

    fn note_origin(&self, span: Range<u64>, old: Option<u64>) {
        self.inner.note_origin(span, old);
    }

    fn commit(self, commit: Commit<'_, Self::Snapshot>) -> Result<Option<Version>, StoreError> {
        self.plan.count_call(Call::Commit, &self.path)?;
        self.inner.commit(commit.map(|old| &old.inner))
    }

    fn discard(self) -> Result<(), StoreError> {
        self.plan.count_call(Call::Discard, &self.path)?;
        self.inner.discard()
    }
}

#[cfg(test)]
mod tests;
