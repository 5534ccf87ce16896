//! The proof of a rebuilt file (docs/protocol.md, "Briefs and digest").

use std::ops::Range;
use std::sync::Arc;

use deltic_core::moved::MovedRun;
use deltic_core::recipe::{Chunk, Digest, DigestBuilder, Grouper};
use deltic_core::{
    ChunkNo, Chunks, DataMap, Fingerprint, Index, Span, digest_of_changes, digest_of_data,
};

/// The evidence that a rebuilt file equals the sender's file in every bit.
#[derive(Debug)]
pub struct Proof {
    pub(super) digest: Digest,
    pub(super) of: ProofOf,
    /// The data map of the new version, if only its data was transferred.
    pub(super) map: Option<Arc<DataMap>>,
}

/// The input of the digest.
#[derive(Debug)]
pub(super) enum ProofOf {
    /// The chunks of the new version.
    Chunks(Box<ProofChunks>),
    /// The bytes of the new version.
    Bytes,
    /// Nothing: no proof is wanted.
    Nothing,
    /// A base, the length of the new version in bytes, the runs that are elsewhere in the base, and the changed
    /// blocks by number.
    Changes(Digest, u64, Vec<MovedRun>, Vec<(u32, Chunk)>),
}

/// The chunks of the new version, which are known from several sources.
#[derive(Debug)]
pub(super) struct ProofChunks {
    old: Box<Index>,
    kept: Chunks,
    received: Chunks,
    /// Runs of chunks in order, each from a single source.
    parts: Vec<(ProofSource, Range<ChunkNo>)>,
}

/// The source of chunks of the new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofSource {
    /// Copied from an old version.
    Old,
    /// Kept in place since an interrupted transfer.
    Kept,
    /// Received.
    Received,
}

impl ProofChunks {
    /// Creates a list without chunks of the new version, from the chunks known of old versions, kept and received.
    pub(super) const fn new(old: Box<Index>, kept: Chunks, received: Chunks) -> Self {
        Self { old, kept, received, parts: Vec::new() }
    }

    /// Creates the list of a new version of which all chunks were received, in order.
    pub(super) fn all_received(received: Chunks) -> Self {
        let (first, count) = (ChunkNo::FIRST, received.len() as u32);
        let mut all = Self::new(Box::new(Index::new(0)), Chunks::default(), received);
        all.push(ProofSource::Received, first..first.plus(count));
        all
    }

    /// Adds the next chunks of the new version.
    pub(super) fn push(&mut self, source: ProofSource, chunks: Range<ChunkNo>) {
        match self.parts.last_mut() {
            Some((last, range)) if *last == source && range.end == chunks.start => {
                range.end = chunks.end;
            }
            _ => self.parts.push((source, chunks)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Chunk> {
        self.parts.iter().flat_map(|(source, range)| {
            let chunks = match source {
                ProofSource::Old => self.old.chunks(),
                ProofSource::Kept => &self.kept,
                ProofSource::Received => &self.received,
            };
            chunks.range(range.clone()).map(chunk)
        })
    }

    fn digest(&self) -> Digest {
        let mut sequence = ChunkSequence::default();
        for (source, range) in &self.parts {
            match source {
                ProofSource::Old => sequence.push_old_chunks(&self.old, range.clone()),
                ProofSource::Kept => sequence.push_chunks(&self.kept, range.clone()),
                ProofSource::Received => sequence.push_chunks(&self.received, range.clone()),
            }
        }
        sequence.finish()
    }
}

impl Proof {
    /// True if the digest equals the sender's. The digest is computed over the chunks copied and written, which
    /// hashes about 1 % of the file's length, or returned by `of_bytes` over the bytes themselves.
    ///
    /// # Errors The errors of `of_bytes`.
    pub fn is_equal_to<E>(&self, of_bytes: impl FnOnce() -> Result<Digest, E>) -> Result<bool, E> {
        let digest = match &self.of {
            ProofOf::Nothing => return Ok(true),
            ProofOf::Bytes => of_bytes()?,
            ProofOf::Chunks(chunks) => chunks.digest(),
            ProofOf::Changes(base, len, moved, blocks) => {
                digest_of_changes(base, *len, moved, blocks)
            }
        };
        let digest = self.map.as_ref().map_or(digest, |map| digest_of_data(&digest, map));
        Ok(digest == self.digest)
    }

    /// Returns the digest, if it is over the bytes themselves.
    #[must_use]
    pub const fn digest_of_bytes(&self) -> Option<&Digest> {
        match self.of {
            ProofOf::Bytes => Some(&self.digest),
            ProofOf::Chunks(_) | ProofOf::Changes(..) | ProofOf::Nothing => None,
        }
    }

    /// The data map of the new version, if only its data was transferred: all other bytes are holes.
    #[must_use]
    pub fn map(&self) -> Option<&DataMap> {
        self.map.as_deref()
    }

    /// True if the digest proves the version, so that the version can be named by it.
    #[must_use]
    pub const fn has_digest(&self) -> bool {
        !matches!(self.of, ProofOf::Nothing)
    }

    /// True if the proof is over the changes since a base.
    #[must_use]
    pub const fn is_of_base(&self) -> bool {
        matches!(self.of, ProofOf::Changes(..))
    }

    /// The digest: over the bytes, over the chunks, or over a base and its changes. Once the proof holds, both ends
    /// can name the version by this digest.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the chunks of the new version in order, if the digest is over chunks.
    pub fn chunks(&self) -> Option<impl Iterator<Item = Chunk>> {
        match &self.of {
            ProofOf::Chunks(chunks) => Some(chunks.iter()),
            ProofOf::Bytes | ProofOf::Changes(..) | ProofOf::Nothing => None,
        }
    }
}

const fn chunk((span, fingerprint): (Span, Fingerprint)) -> Chunk {
    Chunk { len: span.len, fingerprint }
}

/// The digest of a sequence of chunks, under computation.
#[derive(Default)]
struct ChunkSequence {
    grouper: Grouper,
    digest: DigestBuilder,
    len: u64,
}

impl ChunkSequence {
    fn push_chunk(&mut self, chunk: &Chunk) {
        self.len += u64::from(chunk.len);
        if let Some(group) = self.grouper.push(chunk) {
            self.digest.push(&group);
        }
    }

    fn push_chunks(&mut self, chunks: &Chunks, range: Range<ChunkNo>) {
        chunks.range(range).for_each(|known| self.push_chunk(&chunk(known)));
    }

    /// Takes chunks of `index`. Groups that `index` knows as a whole are not hashed again: that saves most of the
    /// time for a large file, during which nothing else continues.
    fn push_old_chunks(&mut self, index: &Index, mut range: Range<ChunkNo>) {
        while !range.is_empty() {
            let known = self.grouper.is_at_start().then(|| index.first_group(range.clone()));
            if let Some((group, rest)) = known.flatten() {
                self.len += group.len;
                self.digest.push(&group);
                range = rest;
            } else {
                self.push_chunk(&chunk(index.chunk(range.start)));
                range.start = range.start.next();
            }
        }
    }

    fn finish(mut self) -> Digest {
        if let Some(group) = self.grouper.finish() {
            self.digest.push(&group);
        }
        self.digest.finish(self.len)
    }
}

#[cfg(test)]
mod tests {
    use deltic_core::digest_of;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_it_is_made_of_the_digest_is_that_of_the_chunks(
            files in prop::collection::vec(0..200_u32, 0..4),
            takes in prop::collection::vec((0..400_u32, 1..300_u32, 0..3_usize), 0..8),
        ) {
            let mut index = Index::new(1000);
            let mut old = Vec::new();
            for chunks in files {
                for _ in 0..chunks {
                    let name = old.len() as u32;
                    old.push(Chunk { len: name + 1, fingerprint: Fingerprint::of(&name.to_le_bytes()) });
                    index.push(0, old[name as usize]);
                }
                index.end_part();
            }
            let others: Chunks = old.iter().map(|chunk| (0, *chunk)).collect();
            let mut proof = ProofChunks::new(Box::new(index), others.clone(), others);
            let mut all = Vec::new();
            for (from, count, source) in takes {
                let from = (from as usize).min(old.len());
                let chunks = &old[from..(from + count as usize).min(old.len())];
                all.extend_from_slice(chunks);
                let start = ChunkNo::FIRST.plus(from as u32);
                let source = [ProofSource::Old, ProofSource::Kept, ProofSource::Received][source];
                proof.push(source, start..start.plus(chunks.len() as u32));
            }
            prop_assert_eq!(proof.digest(), digest_of(&all));
            prop_assert!(proof.iter().eq(all));
        }
    }
}
