//! Recipes of large files that came in earlier runs: who has one need not read the file to cut it (docs/decisions/0023).
//!
//! What is kept is what a journal of all of the file would say ([`journal`]): its key and chunker, and its chunks.

use std::path::PathBuf;
use std::sync::OnceLock;

use deltic_core::{ChunkerSpec, Key, Put, Reader};
use deltic_protocol::Terms;
use deltic_protocol::limits::INDEX_BUDGET_CHUNKS;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Kept, KeptChunk, New, Proof};
use deltic_store::cache::{self, Moment};
use deltic_store::{Snapshot, Version};

use super::journal;

/// Where those are that are known.
#[derive(Debug, Default)]
pub(crate) struct Recipes {
    dir: Option<PathBuf>,
    /// Opened when the first is asked for: most runs ask for none.
    kept: OnceLock<Option<cache::Recipes>>,
}

impl Recipes {
    /// In `dir`, if the options let them count.
    pub(crate) fn new(dir: Option<PathBuf>, options: &Options) -> Self {
        Self { dir: dir.filter(|_| options.compare.cached), kept: OnceLock::new() }
    }

    /// That of the version `old`, cut by `spec` and of use in a session of these terms.
    pub(super) fn find(
        &self,
        old: &impl Snapshot,
        spec: ChunkerSpec,
        terms: Terms,
    ) -> Option<Kept> {
        if !journal::is_kept(old.meta().len) {
            return None;
        }
        let bytes = self.kept()?.find(&old.identity()?)?;
        let (kept, _) = journal::read(&unframed(&bytes)?, old.meta(), terms)?;
        (kept.spec == spec).then_some(kept)
    }

    /// Keeps that of the version `is`, which was put in place from `begun` on: `new`, whose chunks `proof` has, with this key.
    pub(super) fn note(
        &self,
        (is, begun): (&Version, Moment),
        new: &New,
        (key, terms): (&Key, Terms),
        proof: &Proof,
    ) {
        let is_cut = matches!(new.spec, ChunkerSpec::ByContent(..));
        if !journal::is_kept(new.len) || !is_cut || new.from > 0 {
            return;
        }
        let (Some(kept), Some(chunks)) = (self.kept(), proof.chunks()) else { return };
        let mut start = 0;
        let place = |chunk| {
            let kept = KeptChunk { start, chunk };
            start = kept.end();
            kept
        };
        let chunks: Vec<_> = chunks.map(place).take(INDEX_BUDGET_CHUNKS + 1).collect();
        if chunks.len() <= INDEX_BUDGET_CHUNKS && start == new.len {
            let notes = [journal::version(new, key, terms), journal::chunks(chunks, terms)];
            kept.note(is, begun, &framed(&notes));
        }
    }

    /// Drops what is known of a version that was replaced.
    pub(super) fn forget(&self, old: &impl Snapshot) {
        let old = old.identity().filter(|_| journal::is_kept(old.meta().len));
        if let Some((old, kept)) = old.and_then(|old| Some((old, self.kept()?))) {
            kept.forget(&old);
        }
    }

    fn kept(&self) -> Option<&cache::Recipes> {
        self.kept.get_or_init(|| cache::Recipes::open(self.dir.as_deref()?)).as_ref()
    }
}

/// Notes one behind the other, each behind its length in bytes.
fn framed(notes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for note in notes {
        bytes.put_varint(note.len() as u64);
        bytes.put_bytes(note);
    }
    bytes
}

fn unframed(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut from, mut notes) = (Reader::new(bytes), Vec::new());
    while !from.is_empty() {
        let len = usize::try_from(from.varint().ok()?).ok()?;
        notes.push(from.bytes(len).ok()?.to_vec());
    }
    Some(notes)
}
