//! Files that the receiver's worker keeps open while a file is transferred.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use deltic_core::{ChunkerSpec, DataMap, Digest, Fingerprinter, Key, PackedRuns, Span};
use deltic_engine::assemble::WriteBuffer;
use deltic_engine::in_order::DigestInOrder;
use deltic_protocol::receiver::{MAX_BORROWED, NewVersion, OtherPaths};
use deltic_store::{Rebuild, Resumable, Snapshot, Store, StoreError};
use deltic_tree::{Meta, RelPath};

use crate::lock::lock;
use crate::sparse::{facing, read_places};
use crate::stage::{Stage, reading, within};

/// Open files of one attempt to transfer a file.
pub(super) struct Slot<S: Store> {
    pub(super) old: Vec<S::Snapshot>,
    /// Files that arrived in this run and serve as old versions, once opened. Their indices follow the indices of
    /// `old`.
    pub(super) more: [OnceLock<S::Snapshot>; MAX_BORROWED],
    pub(super) in_place: bool,
    /// Key and fingerprints of another session whose transfer is resumed.
    pub(super) named: Option<(Key, Fingerprinter)>,
    /// Ranges that the journal of an interrupted transfer lists as written.
    pub(super) kept: Vec<Range<u64>>,
    /// True if written chunks are noted in a journal, so that another session may resume the transfer.
    pub(super) noted: AtomicBool,
    pub(super) growing: Mutex<Option<Arc<Growing<S>>>>,
    /// Data of the old versions, packed in the order of the new data. Set once the data map of the new version is
    /// known.
    pub(super) view: OnceLock<Vec<PackedRuns>>,
}

/// A new version that is being written.
pub(super) struct Growing<S: Store> {
    pub(super) rebuild: S::Rebuild,
    pub(super) new: NewVersion,
    /// Gathers literals into whole blocks. `None` if some blocks will never be complete: the file resumes another
    /// session, or appends to an old version.
    pub(super) buffer: Option<Mutex<WriteBuffer>>,
    /// The digest of the written bytes, if computed during writing.
    pub(super) digest: Option<Mutex<DigestInOrder>>,
}

impl<S: Store> Growing<S> {
    /// Returns the ranges of the file that hold a range of the transferred content.
    fn places(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let plain = self.new.map.is_none().then(|| range.clone());
        let map = self.new.map.as_deref();
        plain
            .into_iter()
            .chain(map.into_iter().flat_map(move |map| map.places_in_file(range.clone())))
    }

    /// Notes that a range of the transferred content is not from the replaced version.
    pub(super) fn note_new(&self, range: Range<u64>) {
        self.places(range).for_each(|place| self.rebuild.note_origin(place, None));
    }

    /// Splits `old`, which will be written from `start` on, at the holes of the new version. Returns each part with its
    /// place in the file.
    pub(super) fn parts(
        &self,
        old: Range<u64>,
        start: u64,
    ) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
        let places = self.places(start..start + (old.end - old.start));
        places.scan(old.start, |at, place| {
            let from = *at;
            *at += place.end - place.start;
            Some((from..*at, place))
        })
    }

    /// Calls `write` with each part of `bytes` and the offset of the part in the file. `start` is the offset of `bytes`
    /// in the transferred content.
    pub(super) fn write_parts(
        &self,
        start: u64,
        bytes: &[u8],
        mut write: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut parts = self.parts(0..bytes.len() as u64, start);
        parts.try_for_each(|(of, place)| {
            write(place.start, &bytes[of.start as usize..of.end as usize])
        })
    }

    /// Marks these ranges, and the holes, as staged in a resumed transfer.
    pub(super) fn resume_with(&self, staged: &[Range<u64>]) -> Result<(), StoreError> {
        let places = staged.iter().flat_map(|range| self.places(range.clone()));
        places.for_each(|place| self.rebuild.mark_staged(place));
        let mut holes = self.new.map.iter().flat_map(|map| map.holes());
        holes.try_for_each(|hole| self.rebuild.clear(hole))
    }

    /// Reads written bytes back. Returns fewer bytes only at the end.
    pub(super) fn read_at(&self, start: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let mut done = 0;
        for (of, place) in self.parts(0..into.len() as u64, start) {
            let room = &mut into[of.start as usize..of.end as usize];
            let got = self.rebuild.read_at(place.start, room)?;
            done += got;
            if got < room.len() {
                break;
            }
        }
        Ok(done)
    }

    /// True if all bytes of `range` are staged.
    pub(super) fn has_staged(&self, range: Range<u64>) -> bool {
        self.places(range).all(|place| self.rebuild.has_staged(&place))
    }

    /// Calls `write` to write `bytes`, and hashes the bytes while they are in the cache. Bytes that are next in order
    /// are hashed before they are written. So threads do not wait for each other's writes, and few blocks are hashed
    /// out of order.
    pub(super) fn write_hashed(
        &self,
        start: u64,
        bytes: &[u8],
        write: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(digest) = &self.digest else { return write() };
        let hash = |mut digest: MutexGuard<'_, DigestInOrder>| {
            let read = |start, into: &mut [u8]| reading(|| self.rebuild.read_at(start, into));
            within(Stage::Sum, || digest.push(start, bytes, read))
        };
        let before = Some(lock(digest)).filter(|digest| digest.is_next(start));
        if let Some(digest) = before {
            hash(digest)?;
            return write();
        }
        write()?;
        hash(lock(digest))
    }

    /// Stops computing the digest, because some bytes are copied inside the store and never read here.
    pub(super) fn hash_no_more(&self) {
        self.digest.iter().for_each(|digest| lock(digest).give_up());
    }

    /// Returns the digest of all written bytes.
    pub(super) fn written_digest(&self) -> Option<Digest> {
        lock(self.digest.as_ref()?).finish(self.new.len)
    }
}

/// Describes the old versions that a transfer requests.
pub(super) struct OldVersionQuery<'a> {
    pub(super) path: &'a RelPath,
    /// Other places to search if no old version is at `path`.
    pub(super) elsewhere: OtherPaths,
    /// Longest leftover of a killed run that is opened, in bytes.
    pub(super) most: u64,
    /// Metadata of the new version, if an interrupted transfer of the new version may be resumed.
    pub(super) goes_on: Option<Meta>,
    /// Chunker that a usable recipe of the old version was cut with; `None` if no recipe is wanted.
    pub(super) recipe: Option<ChunkerSpec>,
    /// True if the base of the old version is wanted.
    pub(super) base: bool,
}

/// An attempt's path, open files and new version.
pub(super) struct AttemptFiles<'a, S: Store> {
    pub(super) path: &'a RelPath,
    pub(super) slot: &'a Slot<S>,
    pub(super) growing: &'a Growing<S>,
}

impl<S: Store> Clone for AttemptFiles<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Store> Copy for AttemptFiles<'_, S> {}

impl<S: Store> Slot<S> {
    /// Returns all old versions, in order.
    fn versions(&self) -> impl Iterator<Item = &S::Snapshot> {
        self.old.iter().chain(self.more.iter().filter_map(OnceLock::get))
    }

    /// True if `snapshot`, one of the old versions, is the version that the new one replaces.
    pub(super) fn is_replaced(&self, snapshot: &S::Snapshot) -> bool {
        self.in_place && self.old.first().is_some_and(|old| std::ptr::eq(old, snapshot))
    }

    /// Returns the old version with the index `part`.
    pub(super) fn version(&self, part: usize) -> &S::Snapshot {
        self.versions().nth(part).expect("the machine asks for what was opened")
    }

    /// Returns the old versions that hold `old`, and the range in each. Offsets in `old` count through all old
    /// versions, as if the versions were one file.
    pub(super) fn parts(&self, old: Span) -> impl Iterator<Item = (&S::Snapshot, Range<u64>)> {
        let mut base = 0;
        self.versions().enumerate().flat_map(move |(no, snapshot)| {
            let start = base;
            base += self.len_of(no, snapshot);
            let part = old.start.max(start)..old.end().min(base);
            let part = (part.start < part.end).then(|| part.start - start..part.end - start);
            part.into_iter()
                .flat_map(move |part| self.places(no, part))
                .map(move |place| (snapshot, place))
        })
    }

    /// Returns the length in bytes of an old version, or of its packed data.
    fn len_of(&self, no: usize, snapshot: &S::Snapshot) -> u64 {
        match self.view.get() {
            Some(view) => view.get(no).map_or(0, PackedRuns::len),
            None => snapshot.meta().len,
        }
    }

    /// Returns the places in the old version `no` for a `range` of its packed data, or of the version itself.
    fn places(&self, no: usize, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let view = self.view.get();
        let plain = view.is_none().then(|| range.clone());
        let runs = view.and_then(|view| view.get(no));
        plain
            .into_iter()
            .chain(runs.into_iter().flat_map(move |runs| runs.places_in_file(range.clone())))
    }

    /// Reads the old version `no` from `start`, through its packed runs if there are any. Returns fewer bytes at the
    /// end.
    pub(super) fn read_version(
        &self,
        no: usize,
        start: u64,
        into: &mut [u8],
    ) -> Result<usize, StoreError> {
        let snapshot = self.version(no);
        match self.view.get() {
            Some(_) => {
                read_places(snapshot, self.places(no, start..start + into.len() as u64), into)
            }
            None => snapshot.read_at(start, into),
        }
    }

    /// From now on, reads packed old versions: first the places where the new version has data in `map`, then the
    /// other data. Returns the length of each packed old version in bytes.
    pub(super) fn view_as(&self, map: &DataMap) -> Result<Vec<u64>, StoreError> {
        let view = self.versions().map(|old| facing(old, map)).collect::<Result<Vec<_>, _>>()?;
        let view = self.view.get_or_init(|| view);
        Ok(view.iter().map(PackedRuns::len).collect())
    }

    /// Reads spans of the old versions one after the other. Returns fewer bytes if a version became shorter.
    pub(super) fn read<'a>(
        &self,
        spans: &[Span],
        buffer: &'a mut [u8],
    ) -> Result<&'a [u8], StoreError> {
        let mut read = 0;
        for (snapshot, part) in spans.iter().flat_map(|span| self.parts(*span)) {
            let piece = &mut buffer[read..read + (part.end - part.start) as usize];
            read += snapshot.read_at(part.start, piece)?;
        }
        Ok(&buffer[..read])
    }

    /// Checks that the old versions that hold any of `spans` are unchanged. Each version is checked once.
    pub(super) fn check_unchanged(
        &self,
        spans: impl Iterator<Item = Span> + Clone,
    ) -> Result<(), StoreError> {
        let mut end = 0;
        for (no, snapshot) in self.versions().enumerate() {
            let start = end;
            end += self.len_of(no, snapshot);
            if spans.clone().any(|span| span.start < end && start < span.end()) {
                snapshot.check_unchanged()?;
            }
        }
        Ok(())
    }
}

impl<S: Store> Default for Slot<S> {
    fn default() -> Self {
        Self {
            old: Vec::new(),
            more: std::array::from_fn(|_| OnceLock::new()),
            in_place: false,
            named: None,
            kept: Vec::new(),
            noted: AtomicBool::new(false),
            growing: Mutex::new(None),
            view: OnceLock::new(),
        }
    }
}
