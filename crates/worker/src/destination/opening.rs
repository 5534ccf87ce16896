//! Looks at the destination: entries that are not listed, and old versions.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use deltic_core::chunk::{ChunkerSpec, Segment, SegmentChunks};
use deltic_core::recipe::Chunk;
use deltic_core::{
    BlockSumSpec, Digest, Fingerprinter, GapSums, Key, Searcher, Span, StrongKind, StrongSum,
};
use deltic_engine::gap::GapBlockSums;
use deltic_engine::sums::{PortionSummer, StrongSums};
use deltic_engine::{FileShrank, journal, search};
use deltic_protocol::receiver::{
    Extra, FileRelation, GapSurvey, KnownChunks, NewFiles, NewVersion, OldLens, OldMatches,
    OtherPaths, SimilarFile, UnlistedNames,
};
use deltic_protocol::report::Trouble;
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::Summing;
use deltic_protocol::work::{Handle, WorkError};
use deltic_store::{Listing, Resumed, Snapshot, Store, StoreError, Tree};
use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, Meta, Names, RelPath};

use crate::lock::lock;
use crate::sparse::data_map;
use crate::stage::Stage;
use crate::steps::{cut_segment, keeps, perform, stored_sums, sum_portion, with_segment};
use crate::summed::{BlockFingerprints, are_kept};
use crate::{Agreed, to_failed_trouble, warning, work_error};

use super::slot::{Growing, OldVersionQuery, Slot};
use super::{DestinationWorker, shrunk};

/// A similar file under another name, and its open snapshot.
type Other<S> = Option<(SimilarFile, <S as Tree>::Snapshot)>;

impl<S: Store> DestinationWorker<S> {
    pub(super) fn extra(
        &self,
        dir: &RelPath,
        keep: Option<&Names>,
        rest: Option<Box<SortedNames>>,
    ) -> Result<UnlistedNames, Trouble> {
        let listed = match keep {
            Some(keep) => self.respell_and_list_unlisted(dir, keep),
            None => self.store.list_stat(dir, rest),
        };
        let Some(listing) = if_dir(listed)? else { return Ok(UnlistedNames::default()) };
        let warnings = listing.warnings.iter().map(|text| warning(text)).collect();
        let extra = |entry: Entry| {
            let path = dir.join(&entry.name).ok().filter(|_| entry.meta.is_dir());
            let names = path.map_or(1, |path| self.count(&path, false));
            Extra { name: entry.name, names }
        };
        let extras = listing.entries.into_iter().map(extra).collect();
        Ok(UnlistedNames { extras, rest: listing.rest, warnings })
    }

    /// Returns the number of names that would be removed with `path`, or 1 if the store cannot count.
    pub(super) fn count(&self, path: &RelPath, gives_way: bool) -> u64 {
        self.store.would_remove(path, gives_way).unwrap_or(1)
    }

    /// Counts the files at and below `paths` that match one of the `new` files. A file that cannot be examined does not
    /// match.
    pub(super) fn count_moved(&self, paths: Vec<RelPath>, new: &mut NewFiles) -> u64 {
        let found = self.store.look_all(&paths).into_iter().zip(paths);
        let mut dirs = Vec::new();
        let mut files = 0;
        let mut see = |path: RelPath, meta: &Meta, dirs: &mut Vec<RelPath>| match meta.is_dir() {
            true => dirs.push(path),
            false => files += u64::from(new.take_match(meta)),
        };
        for (found, path) in found {
            if let Ok(Some(meta)) = found {
                see(path, &meta, &mut dirs);
            }
        }
        while let Some(dir) = dirs.pop() {
            let mut rest = None;
            while let Ok(listing) = self.store.list_stat(&dir, rest) {
                for Entry { name, meta } in listing.entries {
                    if let Ok(path) = dir.join(&name) {
                        see(path, &meta, &mut dirs);
                    }
                }
                rest = listing.rest;
                if rest.is_none() {
                    break;
                }
            }
        }
        files
    }

    pub(super) fn open_old(
        &self,
        handle: Handle,
        &OldVersionQuery { path, ref elsewhere, most, ref goes_on, recipe, base }: &OldVersionQuery<
            '_,
        >,
    ) -> Result<OldLens, StoreError> {
        let in_place = match self.store.open(path) {
            Ok(snapshot) => Some(snapshot),
            Err(StoreError::NotFound { .. } | StoreError::NotAFile { .. }) => None,
            // The old version is unreadable, but can be replaced.
            Err(StoreError::Denied { .. } | StoreError::OutsideRoot { .. }) => None,
            Err(error) => return Err(error),
        };
        let (beside, similar) = match in_place {
            Some(_) => (None, None),
            None => self.open_other_paths(path, elsewhere),
        };
        let (similar, snapshot) = similar.unzip();
        if let Some((growing, kept, noted)) =
            goes_on.as_ref().and_then(|meta| self.resume(path, meta))
        {
            let in_place_len = in_place.as_ref().map(|snapshot| snapshot.meta().len);
            let slot = Slot {
                noted: AtomicBool::new(true),
                in_place: in_place.is_some(),
                old: in_place.into_iter().chain(snapshot).collect(),
                named: Some(self.fingerprinter_of_resumed(&kept)),
                kept: noted,
                growing: Mutex::new(Some(Arc::new(growing))),
                ..Slot::default()
            };
            lock(&self.slots).insert(handle, Arc::new(slot));
            let kept = Some(kept);
            return Ok(OldLens { in_place: in_place_len, similar, kept, ..OldLens::default() });
        }
        let mut leftovers = self.store.leftovers(path)?;
        leftovers.retain(|snapshot| snapshot.meta().len <= most);
        let len = |snapshot: &S::Snapshot| snapshot.meta().len;
        let recipe = in_place.as_ref().zip(recipe);
        let recipe =
            recipe.and_then(|(old, spec)| self.kept.recipes.find(old, spec, self.agreed.terms));
        let named = recipe.as_ref().map(|recipe| self.fingerprinter_of_resumed(recipe));
        let base = in_place.as_ref().filter(|_| base);
        let base = base.and_then(|old| self.base_and_lend(path, old));
        let mut lens = OldLens {
            in_place: in_place.as_ref().map(len),
            has_other_names: in_place.as_ref().is_some_and(S::Snapshot::has_other_names),
            beside: beside.as_ref().map(len),
            similar,
            leftovers: leftovers.iter().map(len).collect(),
            recipe,
            base,
            ..OldLens::default()
        };
        let old = || in_place.iter().chain(&beside).chain(&snapshot).chain(&leftovers);
        lens.has_holes = old().any(|old| self.has_large_holes(old));
        let first = old().find(|old| old.meta().len > 0);
        lens.keeps = first.and_then(|old| self.kept_sums(old));
        let others = beside.into_iter().chain(snapshot).chain(leftovers);
        let old = in_place.into_iter().chain(others).collect();
        let slot = Slot { old, in_place: lens.in_place.is_some(), named, ..Slot::default() };
        lock(&self.slots).insert(handle, Arc::new(slot));
        Ok(lens)
    }

    /// Returns the kind of the sums that storage keeps of `old`, if the transfer may use such sums.
    fn kept_sums(&self, old: &S::Snapshot) -> Option<BlockSumSpec> {
        let blocks = self.agreed.blocks.as_ref().filter(|blocks| are_kept(blocks, old));
        let blocks = blocks.map(|blocks| blocks.spec);
        blocks.or_else(|| keeps(&self.options.strategy, self.agreed.terms, old))
    }

    /// Returns the base that equals `old`, the version in place at `path`. If there is such a base, lends the version
    /// to the other end (`OldSums::lend`).
    fn base_and_lend(&self, path: &RelPath, old: &S::Snapshot) -> Option<Digest> {
        let base = self.kept.bases.base_of_old(path, old)?;
        self.kept.bases.lend(path, || self.store.open(path).ok());
        Some(base)
    }

    /// Opens `other`, a file that arrived in this run, as a further old version. Returns the length of the file
    /// in bytes.
    pub(super) fn open_arrived(&self, handle: Handle, other: &RelPath) -> Option<u64> {
        let snapshot = self.store.open(other).ok()?;
        let len = snapshot.meta().len;
        let slot = self.slot(handle);
        let room = slot.more.iter().find(|more| more.get().is_none())?;
        room.set(snapshot).ok().map(|()| len)
    }

    /// True if the old version has large holes, and the sender may leave out the holes of the new version.
    fn has_large_holes(&self, old: &S::Snapshot) -> bool {
        self.agreed.terms.may_send_holes(&self.options)
            && data_map(old).is_ok_and(|map| map.is_some())
    }

    /// Opens old versions that are not at `path`: the version in an alternate, and a similar file under another name.
    fn open_other_paths(
        &self,
        path: &RelPath,
        elsewhere: &OtherPaths,
    ) -> (Option<S::Snapshot>, Other<S>) {
        let repeated = |path: &RelPath| Some((path.clone(), self.store.open(path).ok()?));
        if let Some((path, snapshot)) = elsewhere.repeated.as_ref().and_then(repeated) {
            let (len, relation) = (snapshot.meta().len, Some(FileRelation::Repeat));
            return (None, Some((SimilarFile { path, len, relation }, snapshot)));
        }
        let (beside, similar) = self.alternates.open(&self.store, path, elsewhere);
        // A similar file is at hand, so only a file of equal length and time is better.
        let most =
            elsewhere.moved.map(|most| similar.as_ref().map_or(most, |_| FileRelation::Twin));
        let find = |most| self.moves.find(&self.store, path, elsewhere.new, most);
        let (path, snapshot, relation) = match (most.and_then(find), similar) {
            (Some((path, snapshot, relation)), _) => (path, snapshot, Some(relation)),
            (None, Some((path, snapshot))) => (path, snapshot, None),
            (None, None) => return (beside, None),
        };
        let len = snapshot.meta().len;
        (beside, Some((SimilarFile { path, len, relation }, snapshot)))
    }

    /// Returns the interrupted transfer of this exact version, if there is one with a readable journal.
    fn resume(
        &self,
        path: &RelPath,
        meta: &Meta,
    ) -> Option<(Growing<S>, KnownChunks, Vec<Range<u64>>)> {
        if !journal::is_kept(meta.len) {
            return None;
        }
        // After any error the transfer starts anew, as if there were no notes.
        let Resumed { rebuild, notes } = self.store.resume(path, meta.len).ok()??;
        let (kept, noted) = journal::read(notes, meta, self.agreed.terms)?;
        let (map, spec) = (kept.map.clone(), kept.spec);
        let new = NewVersion { len: meta.len, map, modified: meta.modified, from: 0, spec };
        let growing = Growing { rebuild, new, buffer: None, digest: None };
        growing.resume_with(&noted).ok()?;
        Some((growing, kept, noted))
    }

    /// Returns the key of another session, and the fingerprints of chunks under that key.
    fn fingerprinter_of_resumed(&self, kept: &KnownChunks) -> (Key, Fingerprinter) {
        (kept.key, self.agreed.terms.fingerprinter_with(&kept.key))
    }
}

/// Returns the listing, if it is of a directory and complete. Returns `None` if the path is missing, or is a file or
/// link that will be replaced. Errors: the first error of the listing.
fn if_dir(listed: Result<Listing, StoreError>) -> Result<Option<Listing>, Trouble> {
    match listed {
        Ok(listing) => match listing.errors.first() {
            Some(error) => Err(to_failed_trouble(error)),
            None => Ok(Some(listing)),
        },
        Err(
            StoreError::NotFound { .. }
            | StoreError::NotADir { .. }
            | StoreError::OutsideRoot { .. },
        ) => Ok(None),
        Err(error) => Err(to_failed_trouble(&error)),
    }
}

impl<S: Store> DestinationWorker<S> {
    /// Cuts a segment of an old version. Blocks with stored sums are not read.
    pub(super) fn index(
        &self,
        handle: Handle,
        part: usize,
        spec: &ChunkerSpec,
        segment: &Segment,
    ) -> Result<SegmentChunks<Chunk>, WorkError> {
        let slot = self.slot(handle);
        if let Some(blocks) = self.agreed.summed_blocks(spec).filter(|_| slot.view.get().is_none())
        {
            let reading =
                BlockFingerprints { blocks, buffers: &self.buffers, report: &self.kept.sums };
            let run = reading.of_segment(slot.version(part), segment);
            if let Some(run) = run.map_err(|error| work_error(&error))? {
                return Ok(run);
            }
        }
        let read = |at, into: &mut [u8]| slot.read_version(part, at, into);
        let names = self.fingerprinter_for(&slot, spec);
        let run = cut_segment(&self.buffers, read, spec, &names, segment);
        run.map_err(|error| work_error(&error))?.ok_or_else(shrunk)
    }

    pub(super) fn sum_old(
        &self,
        handle: Handle,
        part: usize,
        portion: Portion,
        summing: Summing,
    ) -> Result<Summed, WorkError> {
        let slot = self.slot(handle);
        let old = slot.version(part);
        let (key, file_len) = (&self.agreed.key, old.meta().len);
        let stored = stored_sums(&self.options.strategy, old, &portion);
        let stored = stored.map_err(|error| work_error(&error))?;
        let portions = PortionSummer::new(summing, key, file_len, stored);
        let summed = sum_portion(&self.buffers, old, &portions, portion, None);
        self.kept.sums.add(portions.counts());
        summed.map_err(|error| work_error(&error))?.ok_or_else(shrunk)
    }

    pub(super) fn hash_old(
        &self,
        handle: Handle,
        strong: StrongKind,
        spans: &[Span],
    ) -> Result<Vec<StrongSum>, WorkError> {
        let (slot, task) = (self.slot(handle), StrongSums::new(strong, &self.agreed.key, spans));
        let sums = perform(&self.buffers, Stage::Sum, task, |spans, into| {
            slot.read(spans, into).map(<[u8]>::len)
        });
        self.kept.sums.add_computed(spans.len());
        sums.map_err(|error| work_error(&error))?.map_err(|FileShrank| shrunk())
    }

    pub(super) fn roll(
        &self,
        handle: Handle,
        part: usize,
        start: u64,
        searcher: Box<Searcher>,
    ) -> Result<OldMatches, StoreError> {
        let slot = self.slot(handle);
        with_segment(&self.buffers, slot.version(part), start, |bytes, at_end| {
            search::in_old(searcher, bytes, at_end)
        })
    }

    pub(super) fn block_sums(
        &self,
        handle: Handle,
        gaps: &[GapSurvey],
    ) -> Result<Vec<GapSums>, StoreError> {
        let Agreed { terms, gap_seed, .. } = &self.agreed;
        let (slot, task) =
            (self.slot(handle), GapBlockSums::new(gaps, *gap_seed, terms.short_forms.split_code));
        let Ok(sums) = perform(&self.buffers, Stage::Sum, task, |spans, into| {
            slot.read(spans, into).map(<[u8]>::len)
        })?;
        Ok(sums)
    }
}
