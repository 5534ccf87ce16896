//! The end of an attempt: commits or abandons a new version.

use std::borrow::Cow;
use std::sync::Arc;

use deltic_core::DataMap;
use deltic_core::recipe::{Digest, FileDigest};
use deltic_engine::check::small_digest;
use deltic_engine::pack::unpacked;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{NewVersion, Proof, SmallFile};
use deltic_protocol::work::{Handle, WorkError};
use deltic_store::{
    Commit, Rebuild, Replaces, Resumable, SettledVersion, Snapshot, Store, StoreError, Version,
    Whole,
};
use deltic_tree::{Meta, RelPath};

use super::slot::Growing;
use super::{DestinationWorker, unproven};
use crate::lock::lock;
use crate::recipes::Placed;
use crate::stage::{Stage, within};
use crate::steps::digest_of_bytes;
use crate::work_error;

/// Least length in bytes of an old version that takes the kernel noticeable time to free.
const LARGE_BYTES: u64 = 16 << 20;

/// Longest file in bytes that is read again to compute its digest. Reading so few bytes costs little beside a commit
/// (docs/decisions/0023).
const CHEAP_BYTES: u64 = 32 << 10;

impl<S: Store> DestinationWorker<S> {
    /// Commits the new version of an attempt. If the old version was in place, the commit replaces exactly that
    /// version.
    pub(super) fn commit(
        &self,
        handle: Handle,
        path: &RelPath,
        commit: Commit<'_, S::Snapshot>,
        proof: Proof,
    ) -> Result<(), WorkError> {
        let meta = commit.meta;
        // Nothing was staged for an empty file.
        let staged = lock(&self.slot(handle).growing).clone();
        let buffer = staged.as_ref().and_then(|growing| growing.buffer.as_ref());
        if !buffer.is_none_or(|buffer| lock(buffer).is_done()) {
            return Err(unproven(path));
        }
        let read = |start, buffer: &mut [u8]| {
            staged.as_ref().map_or(Ok(0), |growing| growing.rebuild.read_at(start, buffer))
        };
        let holds = proof.is_equal_to(|| digest_of_bytes(&self.buffers, u64::MAX, read));
        if !holds.map_err(|error| work_error(&error))? {
            return Err(unproven(path));
        }
        let digest = match staged.as_deref() {
            Some(growing) => self.digest_of_written(meta, &proof, growing)?,
            None => None,
        };
        drop(staged);
        let slot = lock(&self.slots).remove(&handle).unwrap_or_default();
        let staged = lock(&slot.growing).take();
        let begun = self.kept.now();
        let (rebuild, new) =
            self.staged(path, meta.len, proof.map(), staged).map_err(|error| work_error(&error))?;
        let in_place = slot.old.first().filter(|_| slot.in_place);
        let replaces = in_place.map_or(commit.replaces, Replaces::Version);
        // A commit is tried once, and may need room.
        self.drops.wait_for_drops();
        let committed = rebuild.commit(Commit { replaces, ..commit });
        let committed = self.ignore_same_change(committed, || self.has_metadata(path, meta));
        let committed = committed.map_err(|error| work_error(&error));
        let version = committed.as_ref().ok().copied().flatten();
        let settled = version.and_then(|version| SettledVersion::after_write(version, begun));
        if let (Some(version), Some(digest)) = (settled, digest) {
            self.kept.digests.note_all(&[(version, digest)]);
        }
        // The content of blocks with stored sums was trusted, so a later run must not take it as a base.
        let is_trusted = new.as_ref().is_some_and(|new| self.uses_stored_sums(&new.spec));
        let is_base = !is_trusted && self.holds_bases() && proof.has_digest();
        if let Some(version) = settled.filter(|_| is_base) {
            self.kept.bases.note_committed(&version, proof.digest());
        }
        if committed.is_ok() && self.keeps_notes() {
            in_place.inspect(|old| self.kept.recipes.forget(*old));
            // A commit that is not flushed may be lost while its recipe survives.
            let is_kept = self.options.durable && !is_trusted;
            if let (Some(version), Some(new), true) = (&settled, &new, is_kept) {
                let placed = Placed { version, new, proof: &proof };
                self.kept.recipes.note(&placed, &self.key_of(&slot), self.agreed.terms);
            }
        }
        // An old version may have lost its last link, and then takes long to free. The proof is dropped with the slot.
        if slot.old.iter().any(|old| old.meta().len >= LARGE_BYTES) {
            self.drops.drop_later(Box::new((slot, proof)));
        }
        committed.map(drop)
    }

    /// Returns the digest of the written bytes, if digests are kept. The digest is in the proof, or was computed during
    /// writing, or is computed now.
    fn digest_of_written(
        &self,
        meta: &Meta,
        proof: &Proof,
        growing: &Growing<S>,
    ) -> Result<Option<Digest>, WorkError> {
        if !self.keeps_digests() {
            return Ok(None);
        }
        let taken = proof.digest_of_bytes().copied().or_else(|| growing.written_digest());
        let is_read = self.options.checksum || meta.len <= CHEAP_BYTES;
        if taken.is_some() || meta.len == 0 || !is_read {
            return Ok(taken);
        }
        let read = |start, into: &mut [u8]| growing.rebuild.read_at(start, into);
        let taken = digest_of_bytes(&self.buffers, u64::MAX, read);
        taken.map(Some).map_err(|error| work_error(&error))
    }

    /// Returns the staged file of an attempt, and its description if bytes were written. Creates an empty staged file
    /// if there is none.
    fn staged(
        &self,
        path: &RelPath,
        len: u64,
        map: Option<&DataMap>,
        growing: Option<Arc<Growing<S>>>,
    ) -> Result<(S::Rebuild, Option<NewVersion>), StoreError> {
        let Some(growing) = growing else {
            return Ok((self.create_staged(path, len, map)?, None));
        };
        let growing = Arc::into_inner(growing);
        let growing = growing.expect("the last work of an attempt has it alone");
        let Growing { rebuild, new, .. } = growing;
        Ok((rebuild, Some(new)))
    }

    /// True if digests of committed versions are kept, for the next run that compares contents. False without flushes,
    /// since a power cut may undo the commit and keep the digest. False if files get the present time (without
    /// `--times`), or if commits are delayed.
    fn keeps_digests(&self) -> bool {
        let Options { durable, times, writing, .. } = &self.options;
        *durable && *times && !writing.delay && self.kept.digests.are_kept()
    }

    /// True if bytes are hashed during writing, because no proof will supply their digest.
    pub(super) fn hashes_written(&self) -> bool {
        self.keeps_notes() && self.keeps_digests()
    }

    /// Commits many small files together. A file is staged only after all of its bytes match the announced digest.
    pub(super) fn replace_all(&self, small: &[SmallFile]) -> Vec<Result<(), WorkError>> {
        let proven: Vec<_> = small.iter().map(|small| self.proven(small)).collect();
        let files: Vec<_> = (small.iter().zip(&proven))
            .filter_map(|(SmallFile { path, meta, seen, .. }, bytes)| {
                let bytes = bytes.as_deref()?;
                Some(Whole { path, bytes, meta, seen: seen.as_ref() })
            })
            .collect();
        let begun = self.kept.now();
        let mut done = self.store.replace_all(&files, self.keep);
        for (file, done) in files.iter().zip(&mut done) {
            if done.as_ref().is_err_and(StoreError::wants_room) {
                *done = self.drops.with_room(|| self.store.replace(file, self.keep));
            }
        }
        let mut notes = Vec::new();
        let unless = |(done, file): (Result<Option<Version>, StoreError>, &Whole<'_>)| {
            let version =
                self.ignore_same_change(done, || self.has_metadata(file.path, file.meta))?;
            let version = version.filter(|_| file.meta.len > 0 && self.keeps_digests());
            let settled = version.and_then(|version| SettledVersion::after_write(version, begun));
            notes.extend(settled.map(|version| (version, FileDigest::of(file.bytes))));
            Ok::<_, StoreError>(())
        };
        let done: Vec<_> = done.into_iter().zip(&files).map(unless).collect();
        self.kept.digests.note_all(&notes);
        let mut done = done.into_iter();
        let result = |(small, proven): (&SmallFile, &Option<Cow<'_, [u8]>>)| {
            let done = proven.as_ref().and_then(|_| done.next());
            done.map_or_else(|| Err(unproven(&small.path)), |done| done.map_err(|e| work_error(&e)))
        };
        small.iter().zip(&proven).map(result).collect()
    }

    /// Returns the bytes of a whole small file, if the first bytes of their digest are those announced.
    fn proven<'a>(
        &self,
        SmallFile { meta, payload, digest, .. }: &'a SmallFile,
    ) -> Option<Cow<'a, [u8]>> {
        let bytes = within(Stage::Pack, || unpacked(payload, meta.len as usize))?;
        digest.agrees_with(&small_digest(&self.agreed.names, &bytes)).then_some(bytes)
    }

    /// True if bases of committed versions are noted.
    fn holds_bases(&self) -> bool {
        let Options { durable, writing, .. } = &self.options;
        self.keeps_notes() && *durable && !writing.inplace && self.agreed.terms.bases
    }

    /// Sets the metadata of an entry. A file that was just found equal to a base stays noted as that base.
    pub(super) fn set_meta(&self, path: &RelPath, meta: &Meta) -> Result<(), StoreError> {
        let identity = || self.store.open(path).ok()?.identity();
        let confirmed = self.kept.bases.take_confirmed(path);
        let confirmed = confirmed.filter(|(version, _)| identity() == Some(*version));
        let begun = self.kept.now();
        self.store.set_meta(path, meta, self.keep)?;
        if let Some((_, base)) = confirmed
            && let Some(version) = identity()
            && let Some(version) = SettledVersion::after_write(version, begun)
        {
            self.kept.bases.note_committed(&version, &base);
        }
        Ok(())
    }

    /// Checks that the old version is equal to the new version, by the sender's proof. Ends the work of `handle`.
    pub(super) fn confirm(
        &self,
        handle: Handle,
        path: &RelPath,
        proof: &Proof,
    ) -> Result<(), WorkError> {
        let slot = lock(&self.slots).remove(&handle).unwrap_or_default();
        let old = slot.old.first();
        let read = |start, buffer: &mut [u8]| old.map_or(Ok(0), |old| old.read_at(start, buffer));
        let holds = proof.is_equal_to(|| digest_of_bytes(&self.buffers, u64::MAX, read));
        let holds = holds.map_err(|error| work_error(&error))?;
        if let Some(old) = old {
            old.check_unchanged().map_err(|error| work_error(&error))?;
        }
        if !holds {
            return Err(unproven(&RelPath::root()));
        }
        // A version that was read, and not written, changed at an unknown time.
        if let (Some(old), true) = (old, self.holds_bases() && proof.is_of_base()) {
            self.kept.bases.confirm(path, old, proof.digest());
        }
        Ok(())
    }

    /// Discards the new version of `handle`, if one was begun, and closes the old versions.
    pub(super) fn abandon(&self, handle: Handle) -> Result<(), StoreError> {
        let Some(slot) = lock(&self.slots).remove(&handle) else { return Ok(()) };
        match lock(&slot.growing).take().and_then(Arc::into_inner) {
            Some(growing) => growing.rebuild.discard(),
            None => Ok(()),
        }
    }
}
