//! Files that the receiver's worker holds open for one attempt.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use deltic_core::{ChunkerSpec, Digest, Fingerprinter, Key, Span};
use deltic_engine::assemble::WriteBuffer;
use deltic_engine::in_order::DigestInOrder;
use deltic_protocol::receiver::{Elsewhere, MAX_BORROWED, New};
use deltic_store::{Resumable, Snapshot, Store, StoreError};
use deltic_tree::{Meta, RelPath};

use crate::lock::lock;
use crate::monitor::{Stage, within};

/// The files of one attempt.
pub(super) struct Slot<S: Store> {
    pub(super) old: Vec<S::Snapshot>,
    /// Files of this run, once they are opened: they follow the others.
    pub(super) more: [OnceLock<S::Snapshot>; MAX_BORROWED],
    pub(super) in_place: bool,
    /// The names of chunks, where they are those of another session.
    pub(super) named: Option<(Key, Fingerprinter)>,
    /// The places that were written in it.
    pub(super) kept: Vec<Range<u64>>,
    /// True if the journal notes what is written, so that another session may go on.
    pub(super) noted: AtomicBool,
    pub(super) growing: Mutex<Option<Arc<Growing<S>>>>,
}

/// A new version in the making.
pub(super) struct Growing<S: Store> {
    pub(super) rebuild: S::Rebuild,
    pub(super) new: New,
    /// None where it goes on from another session, or from an old version: not all blocks will be complete.
    pub(super) buffer: Option<Mutex<WriteBuffer>>,
    /// The digest of what is written, where one is taken on the way.
    pub(super) digest: Option<Mutex<DigestInOrder>>,
}

impl<S: Store> Growing<S> {
    /// Has `write` write these bytes, and hashes them while they are at hand: before that if it is their turn, so that
    /// threads that write wait for no other, and overtake few.
    pub(super) fn write_hashed(
        &self,
        start: u64,
        bytes: &[u8],
        write: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(digest) = &self.digest else { return write() };
        let hash = |mut digest: MutexGuard<'_, DigestInOrder>| {
            let read = |start, into: &mut [u8]| self.rebuild.read_at(start, into);
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

    /// Takes no digest on the way: some bytes are not written here, but copied.
    pub(super) fn hash_no_more(&self) {
        self.digest.iter().for_each(|digest| lock(digest).give_up());
    }

    /// The digest of all that was written.
    pub(super) fn written_digest(&self) -> Option<Digest> {
        lock(self.digest.as_ref()?).finish(self.new.len)
    }
}

/// The old versions that a transfer asks for.
pub(super) struct Sought<'a> {
    pub(super) path: &'a RelPath,
    /// Places to look at where none is in place.
    pub(super) elsewhere: Elsewhere,
    /// Longest leftover, in bytes.
    pub(super) most: u64,
    /// The version whose interrupted transfer may go on.
    pub(super) goes_on: Option<Meta>,
    /// The chunker of a recipe that would be of use.
    pub(super) recipe: Option<ChunkerSpec>,
    /// True where it is of use which base the one in place is.
    pub(super) base: bool,
}

/// An attempt, and what grows in it.
pub(super) type Site<'a, S> = (&'a Slot<S>, &'a Growing<S>);

impl<S: Store> Slot<S> {
    /// All old versions, in order.
    fn versions(&self) -> impl Iterator<Item = &S::Snapshot> {
        self.old.iter().chain(self.more.iter().filter_map(OnceLock::get))
    }

    /// The old version of a number.
    pub(super) fn version(&self, part: usize) -> &S::Snapshot {
        self.versions().nth(part).expect("the machine asks for what was opened")
    }

    /// The old versions that hold `old`, which counts through them as if they were one, and where in each.
    pub(super) fn parts(&self, old: Span) -> impl Iterator<Item = (&S::Snapshot, Range<u64>)> {
        let mut base = 0;
        self.versions().filter_map(move |snapshot| {
            let start = base;
            base += snapshot.meta().len;
            let part = old.start.max(start)..old.end().min(base);
            (part.start < part.end).then(|| (snapshot, part.start - start..part.end - start))
        })
    }

    /// Reads spans of the old versions, one behind the other; fewer bytes where they have become shorter.
    pub(super) fn read<'a>(
        &self,
        spans: &[Span],
        buffer: &'a mut [u8],
    ) -> Result<&'a [u8], StoreError> {
        let mut read = 0;
        for (snapshot, part) in spans.iter().flat_map(|span| self.parts(*span)) {
            let piece = &mut buffer[read..read + (part.end - part.start) as usize];
            read += within(Stage::Read, || snapshot.read_at(part.start, piece))?;
        }
        Ok(&buffer[..read])
    }

    /// Checks that the old versions that hold any of `spans` are what they were; asks each once.
    pub(super) fn check_unchanged(
        &self,
        spans: impl Iterator<Item = Span> + Clone,
    ) -> Result<(), StoreError> {
        let mut end = 0;
        for snapshot in self.versions() {
            let start = end;
            end += snapshot.meta().len;
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
        }
    }
}
