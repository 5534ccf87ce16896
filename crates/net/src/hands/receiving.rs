//! The receiver's work: look, index old, copy, write, commit.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use deltic_core::gap::{BlockLen, GapDelta, GapSums, apply};
use deltic_core::recipe::{Chunk, Digest, digest_of};
use deltic_core::strategy::Conversation;
use deltic_core::{
    AtEnd, Fingerprint, Fingerprinter, Meta, Name, Op, Reader, RelPath, Searcher, Span, Strong,
    StrongSum, SumKey,
};
use deltic_protocol::Terms;
use deltic_protocol::limits::MAX_FRAME_BYTES;
use deltic_protocol::message::Payload;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{
    Answer, CopyRun, Extra, Facing, Kept, KeptChunk, Mended, New, OldGap, OldLens, Patch, Piece,
    Proof, Receiver, Rolled, SummedOld, Work,
};
use deltic_protocol::report::{Item, Trouble, TroubleKind};
use deltic_protocol::sums::Summing;
use deltic_protocol::work::{Handle, Setback};
use deltic_store::{Commit, Keep, Rebuild, Replaces, Resumed, Snapshot, Store, StoreError};

use super::owners::Owners;
use super::sending::cut_segment;
use super::strategies::{READ_BYTES, digest_of_bytes, hash_spans, segment, sum_segment};
use super::{Buffers, failed, journal, lock, setback};
use crate::drive::Hands;
use crate::error::SyncError;
use crate::monitor::{Stage, within};
use crate::pool::Cost;

/// Changes a store for a [`Receiver`].
pub(crate) struct ReceivingHands<S: Store> {
    store: S,
    keep: Keep,
    owners: Owners,
    terms: Terms,
    /// Whether an interrupted transfer may go on; strategies of the papers begin anew.
    keeps_notes: bool,
    /// How chunks are named in this session.
    names: Fingerprinter,
    gap_seed: u64,
    /// Of strong sums.
    key: SumKey,
    slots: Mutex<HashMap<Handle, Arc<Slot<S>>>>,
    buffers: Buffers,
}

/// What one attempt holds open.
struct Slot<S: Store> {
    old: Vec<S::Snapshot>,
    in_place: bool,
    /// How chunks are named that were written in another session, and where they are.
    resumed: Option<Fingerprinter>,
    kept: Vec<Range<u64>>,
    /// Whether what is written is noted, so that another session may go on.
    noted: AtomicBool,
    rebuild: Mutex<Option<Arc<S::Rebuild>>>,
}

impl<S: Store> Slot<S> {
    /// The old versions that hold `old`, which counts through them as if they were one, and where in each.
    fn parts(&self, old: Span) -> impl Iterator<Item = (&S::Snapshot, Range<u64>)> {
        let mut base = 0;
        self.old.iter().filter_map(move |snapshot| {
            let start = base;
            base += snapshot.meta().len;
            let part = old.start.max(start)..old.end().min(base);
            (part.start < part.end).then(|| (snapshot, part.start - start..part.end - start))
        })
    }

    /// Reads spans of the old versions, one behind the other; fewer bytes where they have become shorter.
    fn read<'a>(&self, spans: &[Span], buffer: &'a mut [u8]) -> Result<&'a [u8], StoreError> {
        let mut read = 0;
        for (snapshot, part) in spans.iter().flat_map(|span| self.parts(*span)) {
            let piece = &mut buffer[read..read + (part.end - part.start) as usize];
            read += within(Stage::Read, || snapshot.read_at(part.start, piece))?;
        }
        Ok(&buffer[..read])
    }
}

impl<S: Store> Default for Slot<S> {
    fn default() -> Self {
        Self {
            old: Vec::new(),
            in_place: false,
            resumed: None,
            kept: Vec::new(),
            noted: AtomicBool::new(false),
            rebuild: Mutex::new(None),
        }
    }
}

impl<S: Store> Hands<Receiver> for ReceivingHands<S> {
    fn cost(work: &Work) -> Cost {
        match work {
            Work::Copy { .. } => Cost::Copy,
            Work::Index { .. } | Work::Write { .. } | Work::Survey { .. } | Work::Mend { .. } => {
                Cost::Heavy
            }
            Work::SumOld { .. } | Work::HashOld { .. } | Work::Roll { .. } => Cost::Heavy,
            // Whatever the store makes durable; where it does not, there is nothing to wait for.
            Work::Commit { .. } | Work::Replace { .. } | Work::SetMeta { .. } | Work::Flush => {
                Cost::Flush
            }
            _ => Cost::Light,
        }
    }

    fn stage(work: &Work) -> Stage {
        match work {
            Work::Index { .. } | Work::SumOld { .. } => Stage::Scan,
            Work::Survey { .. } | Work::HashOld { .. } | Work::Confirm { .. } => Stage::Sum,
            Work::Roll { .. } => Stage::Search,
            Work::Copy { .. }
            | Work::Write { .. }
            | Work::Mend { .. }
            | Work::Commit { .. }
            | Work::Replace { .. }
            | Work::Flush => Stage::Write,
            Work::Look { .. }
            | Work::Extra { .. }
            | Work::MakeDir { .. }
            | Work::MakeSymlink { .. }
            | Work::MakeSpecial { .. }
            | Work::SetMeta { .. }
            | Work::SetDirs { .. }
            | Work::Remove { .. }
            | Work::OpenOld { .. }
            | Work::Abandon { .. }
            | Work::Sweep => Stage::Other,
        }
    }

    fn perform(&self, work: Work) -> Answer {
        match work {
            Work::Look { paths, users, groups } => {
                let look = |path| self.store.look(path).map_err(|error| failed(&error));
                let ours = self.owners.ours(&users, &groups);
                Answer::Looked(paths.iter().map(look).collect(), ours)
            }
            Work::Extra { dir, keep } => Answer::Extra(self.extra(&dir, &keep)),
            Work::MakeDir { path } => done(self.store.make_dir(&path)),
            Work::MakeSymlink { path, target, meta } => {
                done(self.store.make_symlink(&path, &target, &meta, self.keep))
            }
            Work::MakeSpecial { path, meta } => {
                done(self.store.make_special(&path, &meta, self.keep))
            }
            Work::SetMeta { path, meta } => done(self.store.set_meta(&path, &meta, self.keep)),
            Work::SetDirs { dirs } => {
                let set = |(path, meta)| self.store.set_meta(path, meta, self.keep).err();
                let pairs = dirs.iter().map(|(path, meta)| (path, meta));
                Answer::SetDirs(pairs.filter_map(set).map(|error| failed(&error)).collect())
            }
            Work::Remove { path } => {
                Answer::Removed(self.store.remove(&path).map_err(|error| failed(&error)))
            }
            Work::OpenOld { handle, path, most, goes_on } => {
                let opened = self.open_old(handle, &path, (most, goes_on.as_ref()));
                Answer::Opened(opened.map_err(|error| setback(&error)))
            }
            Work::Index { handle, part, segment, spec } => {
                let slot = self.slot(handle);
                let run = self.buffers.with(segment.read_len(), |buffer| {
                    cut_segment(&slot.old[part], (&spec, self.names(&slot)), &segment, buffer)
                });
                let run = run.map_err(|error| setback(&error));
                Answer::Indexed(run.and_then(|run| run.ok_or_else(shrunk)))
            }
            Work::Copy { handle, path, new, runs, chunks } => Answer::Copied(
                (self.rebuild(handle, &path, new))
                    .and_then(|rebuild| self.copy(&self.slot(handle), &rebuild, (&runs, chunks)))
                    .map_err(|error| setback(&error)),
            ),
            Work::Write { handle, path, new, pieces, payload } => Answer::Written(
                (self.rebuild(handle, &path, new)).map_err(|error| setback(&error)).and_then(
                    |rebuild| self.write(&self.slot(handle), (&rebuild, &path), (&pieces, payload)),
                ),
            ),
            Work::Survey { handle, gaps } => {
                Answer::Surveyed(self.survey(handle, &gaps).map_err(|error| setback(&error)))
            }
            Work::Mend { handle, path, new, gaps, bytes, payload } => Answer::Mended(
                (self.rebuild(handle, &path, new)).map_err(|error| setback(&error)).and_then(
                    |rebuild| {
                        self.mend(&self.slot(handle), (&rebuild, &path), (&gaps, bytes, payload))
                    },
                ),
            ),
            Work::SumOld { handle, part, start, summing } => Answer::Summed(
                (self.sum_old(handle, (part, start), summing)).map_err(|error| setback(&error)),
            ),
            Work::HashOld { handle, strong, spans } => Answer::Hashed(
                self.hash_old(handle, strong, &spans).map_err(|error| setback(&error)),
            ),
            Work::Roll { handle, part, start, search } => Answer::Rolled(
                (self.roll(handle, (part, start), search.searcher(Some(self.key))))
                    .map_err(|error| setback(&error)),
            ),
            Work::Commit { handle, path, meta, seen, proof } => {
                Answer::Done(self.commit(handle, &path, (&meta, seen.as_ref()), &proof))
            }
            Work::Replace { path, meta, seen, payload, digest } => {
                Answer::Done(self.replace(&path, (&meta, seen.as_ref()), (payload, digest)))
            }
            Work::Confirm { handle, proof } => Answer::Done(self.confirm(handle, &proof)),
            Work::Abandon { handle } => done(self.abandon(handle)),
            Work::Sweep => done(self.store.sweep().map(|_| ())),
            Work::Flush => done(self.store.flush()),
        }
    }
}

fn done(result: Result<(), StoreError>) -> Answer {
    Answer::Done(result.map_err(|error| setback(&error)))
}

impl<S: Store> ReceivingHands<S> {
    /// # Errors
    /// [`SyncError`] where the options name owners whom nobody knows here.
    pub(crate) fn new(store: S, (terms, options): (Terms, &Options)) -> Result<Self, SyncError> {
        let strategy = &options.strategy;
        Ok(Self {
            store,
            keep: kept(options),
            owners: Owners::new(&options.metadata)?,
            terms,
            keeps_notes: strategy.conversation == Conversation::Recipe,
            names: terms.fingerprinter(strategy),
            gap_seed: terms.gap_seed(),
            key: terms.sum_key(),
            slots: Mutex::default(),
            buffers: Buffers::default(),
        })
    }

    fn extra(&self, dir: &RelPath, keep: &HashSet<Name>) -> Result<Vec<Extra>, Trouble> {
        let listing = match self.store.list(dir) {
            Ok(listing) => listing,
            // Not there yet, or a file or link to be replaced: nothing stands in it that could be extra.
            Err(
                StoreError::NotFound { .. }
                | StoreError::NotADir { .. }
                | StoreError::OutsideRoot { .. },
            ) => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        if let Some(error) = listing.errors.first() {
            return Err(failed(error));
        }
        let extras = listing.entries.into_iter().filter(|entry| !keep.contains(&entry.name));
        Ok(extras
            .map(|entry| {
                let is_dir = entry.meta.is_dir();
                let below = if is_dir { self.count_below(dir, &entry.name) } else { 0 };
                Extra { name: entry.name, item: Item::of(&entry.meta.kind), names: 1 + below }
            })
            .collect())
    }

    fn count_below(&self, dir: &RelPath, name: &Name) -> u64 {
        let (mut dirs, mut count) = (Vec::from_iter(dir.join(name)), 0);
        while let Some(dir) = dirs.pop() {
            let Ok(listing) = self.store.list(&dir) else { continue };
            count += listing.entries.len() as u64;
            let below = listing.entries.iter().filter(|entry| entry.meta.is_dir());
            dirs.extend(below.filter_map(|entry| dir.join(&entry.name).ok()));
        }
        count
    }

    fn open_old(
        &self,
        handle: Handle,
        path: &RelPath,
        (most, goes_on): (u64, Option<&Meta>),
    ) -> Result<OldLens, StoreError> {
        let in_place = match self.store.open(path) {
            Ok(snapshot) => Some(snapshot),
            Err(StoreError::NotFound { .. } | StoreError::NotAFile { .. }) => None,
            // It cannot be read, but it can be replaced.
            Err(StoreError::Denied { .. } | StoreError::OutsideRoot { .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some((rebuild, kept)) = goes_on.and_then(|meta| self.resume(path, meta)) {
            let in_place_len = in_place.as_ref().map(|snapshot| snapshot.meta().len);
            let slot = Slot {
                noted: AtomicBool::new(true),
                in_place: in_place.is_some(),
                old: in_place.into_iter().collect(),
                resumed: Some(self.terms.fingerprinter_with(&kept.key)),
                kept: journal::runs(&kept.chunks),
                rebuild: Mutex::new(Some(Arc::new(rebuild))),
            };
            lock(&self.slots).insert(handle, Arc::new(slot));
            let kept = Some(kept);
            return Ok(OldLens { in_place: in_place_len, leftovers: Vec::new(), kept });
        }
        let mut leftovers = self.store.leftovers(path)?;
        leftovers.retain(|snapshot| snapshot.meta().len <= most);
        let lens = OldLens {
            in_place: in_place.as_ref().map(|snapshot| snapshot.meta().len),
            leftovers: leftovers.iter().map(|snapshot| snapshot.meta().len).collect(),
            kept: None,
        };
        let old = in_place.into_iter().chain(leftovers).collect();
        let slot = Slot { old, in_place: lens.in_place.is_some(), ..Slot::default() };
        lock(&self.slots).insert(handle, Arc::new(slot));
        Ok(lens)
    }

    /// The interrupted transfer of just this version, if there is one and its journal can be read.
    fn resume(&self, path: &RelPath, meta: &Meta) -> Option<(S::Rebuild, Kept)> {
        if !journal::is_kept(meta.len) {
            return None;
        }
        // Whatever is wrong with it: then it goes as if nothing had been noted.
        let Resumed { rebuild, notes } = self.store.resume(path, meta.len).ok()??;
        let kept = journal::read(&notes, meta, self.terms)?;
        Some((rebuild, kept))
    }

    fn slot(&self, handle: Handle) -> Arc<Slot<S>> {
        Arc::clone(lock(&self.slots).entry(handle).or_default())
    }

    fn sum_old(
        &self,
        handle: Handle,
        (part, start): (usize, u64),
        summing: Summing,
    ) -> Result<SummedOld, StoreError> {
        let slot = self.slot(handle);
        let (sums, at_end) = self.buffers.with(READ_BYTES, |buffer| {
            sum_segment(&slot.old[part], (summing, &self.key), (start, buffer), None)
        })?;
        Ok(SummedOld { sums, at_end })
    }

    fn hash_old(
        &self,
        handle: Handle,
        strong: Strong,
        spans: &[Span],
    ) -> Result<Vec<StrongSum>, StoreError> {
        let slot = self.slot(handle);
        hash_spans(&self.buffers, (strong, &self.key), spans, |span, bytes| {
            slot.read(&[span], bytes).map(<[u8]>::len)
        })
    }

    fn roll(
        &self,
        handle: Handle,
        (part, start): (usize, u64),
        mut searcher: Box<Searcher>,
    ) -> Result<Rolled, StoreError> {
        let slot = self.slot(handle);
        self.buffers.with(READ_BYTES, |buffer| {
            let (bytes, at_end) = segment(&slot.old[part], start, buffer)?;
            let mut found = Vec::new();
            let consumed = searcher.search(bytes, at_end, |op| {
                found.extend(Some(op).filter(|op| matches!(op, Op::Copy { .. })));
            });
            let at_end = at_end == AtEnd::Yes;
            Ok(Rolled { found, consumed: consumed as u64, at_end, searcher })
        })
    }

    /// The rebuild of an attempt, started by whoever needs it first.
    fn rebuild(
        &self,
        handle: Handle,
        path: &RelPath,
        new: New,
    ) -> Result<Arc<S::Rebuild>, StoreError> {
        let slot = self.slot(handle);
        let mut rebuild = lock(&slot.rebuild);
        if let Some(rebuild) = &*rebuild {
            return Ok(Arc::clone(rebuild));
        }
        let made = Arc::new(self.store.create(path, new.len)?);
        if self.keeps_notes && journal::is_kept(new.len) {
            let noted = made.note(&journal::version(&new, self.terms));
            slot.noted.store(noted.is_ok(), Ordering::Relaxed);
        }
        *rebuild = Some(Arc::clone(&made));
        Ok(made)
    }

    fn copy(
        &self,
        slot: &Slot<S>,
        rebuild: &S::Rebuild,
        (runs, chunks): (&[CopyRun], Vec<KeptChunk>),
    ) -> Result<(), StoreError> {
        let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len));
        journal::write_over(rebuild, &slot.kept, spans)?;
        for CopyRun { old, new_start } in runs {
            let mut to = *new_start;
            for (snapshot, part) in slot.parts(*old) {
                let len = part.end - part.start;
                rebuild.copy(snapshot, part, to)?;
                to += len;
            }
        }
        self.note(slot, rebuild, chunks);
        Ok(())
    }

    /// Notes that these are in place.
    fn note(&self, slot: &Slot<S>, rebuild: &S::Rebuild, chunks: Vec<KeptChunk>) {
        if slot.noted.load(Ordering::Relaxed) && !chunks.is_empty() {
            // What cannot be noted is sent again after a kill.
            let _ = rebuild.note(&journal::chunks(chunks, self.terms));
        }
    }

    fn names<'a>(&'a self, slot: &'a Slot<S>) -> &'a Fingerprinter {
        slot.resumed.as_ref().unwrap_or(&self.names)
    }

    /// Unpacks a payload, checks each chunk and writes it.
    fn write(
        &self,
        slot: &Slot<S>,
        (rebuild, path): (&S::Rebuild, &RelPath),
        (pieces, payload): (&[Piece], Payload),
    ) -> Result<Vec<Fingerprint>, Setback> {
        let len = pieces.iter().map(|piece| piece.span.len as usize).sum();
        let bytes = unpacked(payload, len).ok_or_else(|| unproven(path))?;
        let fingerprints =
            checked(self.names(slot), pieces, &bytes).ok_or_else(|| unproven(path))?;
        self.put(slot, rebuild, (pieces, &bytes, &fingerprints))
            .map_err(|error| setback(&error))?;
        Ok(fingerprints)
    }

    /// Writes chunks, those that lie next to each other in one call.
    fn put(
        &self,
        slot: &Slot<S>,
        rebuild: &S::Rebuild,
        (pieces, bytes, fingerprints): (&[Piece], &[u8], &[Fingerprint]),
    ) -> Result<(), StoreError> {
        journal::write_over(rebuild, &slot.kept, pieces.iter().map(|piece| piece.span))?;
        write_runs(rebuild, pieces, bytes)?;
        let chunk = |(piece, fingerprint): (&Piece, &Fingerprint)| KeptChunk {
            start: piece.span.start,
            chunk: Chunk { len: piece.span.len, fingerprint: *fingerprint },
        };
        self.note(slot, rebuild, pieces.iter().zip(fingerprints).map(chunk).collect());
        Ok(())
    }

    fn survey(&self, handle: Handle, gaps: &[Facing]) -> Result<Vec<GapSums>, StoreError> {
        let slot = self.slot(handle);
        self.buffers.with(longest(gaps.iter().map(|gap| &gap.old)), |buffer| {
            let sums = |gap: &Facing| {
                let old = slot.read(&gap.old, buffer)?;
                Ok(GapSums::of(old, BlockLen::for_gap(old.len() as u64, gap.edits), self.gap_seed))
            };
            gaps.iter().map(sums).collect()
        })
    }

    /// Rebuilds gaps, and writes those whose chunks are what was announced.
    fn mend(
        &self,
        slot: &Slot<S>,
        (rebuild, path): (&S::Rebuild, &RelPath),
        (gaps, bytes, payload): (&[Patch], u32, Payload),
    ) -> Result<Vec<Option<Mended>>, Setback> {
        let deltas = unpacked(payload, bytes as usize).ok_or_else(|| unproven(path))?;
        let mut deltas = Reader::new(&deltas);
        let mut new = Vec::new();
        self.buffers.with(longest(gaps.iter().map(|gap| &gap.old)), |buffer| {
            let mut mend = |Patch { old, pieces }: &Patch| {
                let read = slot.read(old, buffer).map_err(|error| setback(&error))?;
                let len = pieces.iter().map(|piece| piece.span.len as usize).sum();
                let delta = GapDelta::decode(&mut deltas).map_err(|_| unproven(path))?;
                new.clear();
                apply(read, &delta, len, &mut new).map_err(|_| unproven(path))?;
                let Some(fingerprints) = checked(self.names(slot), pieces, &new) else {
                    // Short sums of blocks deceive now and then; nothing deceives where there were none.
                    return if old.is_empty() { Err(unproven(path)) } else { Ok(None) };
                };
                self.put(slot, rebuild, (pieces, &new, &fingerprints))
                    .map_err(|error| setback(&error))?;
                Ok(Some(Mended { fingerprints, literal: delta.literal_len() as u64 }))
            };
            gaps.iter().map(&mut mend).collect()
        })
    }

    fn commit(
        &self,
        handle: Handle,
        path: &RelPath,
        (meta, seen): (&Meta, Option<&Meta>),
        proof: &Proof,
    ) -> Result<(), Setback> {
        // Of an empty file nothing was written.
        let staged = lock(&self.slot(handle).rebuild).clone();
        let read = |start, buffer: &mut [u8]| {
            staged.as_ref().map_or(Ok(0), |rebuild| rebuild.read_at(start, buffer))
        };
        let holds = proof.holds(|| digest_of_bytes(&self.buffers, read));
        if !holds.map_err(|error| setback(&error))? {
            return Err(unproven(path));
        }
        drop(staged);
        let slot = lock(&self.slots).remove(&handle).unwrap_or_default();
        let staged = lock(&slot.rebuild).take();
        let rebuild = match staged {
            Some(rebuild) => {
                Arc::into_inner(rebuild).expect("the last work of an attempt has it alone")
            }
            None => self.store.create(path, meta.len).map_err(|error| setback(&error))?,
        };
        let replaces = match (slot.old.first().filter(|_| slot.in_place), seen) {
            (Some(version), _) => Replaces::Version(version),
            (None, Some(seen)) => Replaces::Seen(seen),
            (None, None) => Replaces::Nothing,
        };
        let commit = Commit { meta, keep: self.keep, replaces };
        rebuild.commit(commit).map_err(|error| setback(&error))
    }

    /// A whole small file at once: nothing of it is staged before all of it is proven.
    fn replace(
        &self,
        path: &RelPath,
        (meta, seen): (&Meta, Option<&Meta>),
        (payload, digest): (Payload, Digest),
    ) -> Result<(), Setback> {
        let bytes = unpacked(payload, meta.len as usize).ok_or_else(|| unproven(path))?;
        let chunk = (!bytes.is_empty()).then(|| self.names.chunk(&bytes));
        if digest_of(chunk.iter()) != digest {
            return Err(unproven(path));
        }
        let write = || {
            let rebuild = self.store.create(path, meta.len)?;
            rebuild.write(0, &bytes)?;
            let replaces = seen.map_or(Replaces::Nothing, Replaces::Seen);
            rebuild.commit(Commit { meta, keep: self.keep, replaces })
        };
        write().map_err(|error| setback(&error))
    }

    fn confirm(&self, handle: Handle, proof: &Proof) -> Result<(), Setback> {
        let slot = lock(&self.slots).remove(&handle).unwrap_or_default();
        let old = slot.old.first();
        let read = |start, buffer: &mut [u8]| old.map_or(Ok(0), |old| old.read_at(start, buffer));
        let holds = proof.holds(|| digest_of_bytes(&self.buffers, read));
        let holds = holds.map_err(|error| setback(&error))?;
        if let Some(old) = old {
            old.check_unchanged().map_err(|error| setback(&error))?;
        }
        if holds { Ok(()) } else { Err(unproven(&RelPath::root())) }
    }

    fn abandon(&self, handle: Handle) -> Result<(), StoreError> {
        let Some(slot) = lock(&self.slots).remove(&handle) else { return Ok(()) };
        match lock(&slot.rebuild).take().and_then(Arc::into_inner) {
            Some(rebuild) => rebuild.discard(),
            None => Ok(()),
        }
    }
}

/// What of metadata the options name.
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

/// The fingerprints of the pieces of `bytes`, if each is what was announced.
fn checked(names: &Fingerprinter, pieces: &[Piece], bytes: &[u8]) -> Option<Vec<Fingerprint>> {
    let mut rest = bytes;
    let check = |piece: &Piece| {
        let (chunk, after) = rest.split_at(piece.span.len as usize);
        rest = after;
        let fingerprint = names.of(chunk);
        piece.short.is_none_or(|short| short == fingerprint.short()).then_some(fingerprint)
    };
    within(Stage::Sum, || pieces.iter().map(check).collect())
}

/// Most bytes that any of these holds.
fn longest<'a>(gaps: impl Iterator<Item = &'a OldGap>) -> usize {
    let len = |gap: &OldGap| gap.iter().map(|span| span.len as usize).sum();
    gaps.map(len).max().unwrap_or(0)
}

/// Writes chunks that lie next to each other in one call.
fn write_runs<R: Rebuild>(rebuild: &R, pieces: &[Piece], bytes: &[u8]) -> Result<(), StoreError> {
    let mut done = 0;
    for run in pieces.chunk_by(|one, next| one.span.end() == next.span.start) {
        let len: usize = run.iter().map(|piece| piece.span.len as usize).sum();
        rebuild.write(run[0].span.start, &bytes[done..done + len])?;
        done += len;
    }
    Ok(())
}

/// Exactly `len` bytes, or nothing.
fn unpacked(payload: Payload, len: usize) -> Option<Vec<u8>> {
    debug_assert!(len <= MAX_FRAME_BYTES, "the machine bounds what a fill may hold");
    let bytes = match payload {
        Payload::Plain(bytes) => bytes,
        Payload::Zstd(frame) => within(Stage::Pack, || zstd::bulk::decompress(&frame, len)).ok()?,
    };
    (bytes.len() == len).then_some(bytes)
}

fn unproven(path: &RelPath) -> Setback {
    let message = format!("receive {path}: what arrived is not what was announced");
    Setback { trouble: Trouble { kind: TroubleKind::Failed, message }, retry: true }
}

/// An old version is not what it was when it was opened.
fn shrunk() -> Setback {
    let message = "read: an old version is shorter than it was".into();
    Setback { trouble: Trouble { kind: TroubleKind::Failed, message }, retry: true }
}
