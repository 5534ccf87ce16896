//! The proof of a rebuilt file (docs/protocol.md, "Sixteen bytes find, the digest proves").

use std::ops::Range;

use deltic_core::recipe::{Chunk, Digest, DigestBuilder, Grouper};
use deltic_core::{ChunkNo, Index};

/// What shows that a rebuilt file is the sender's, to the last bit.
#[derive(Debug)]
pub struct Proof {
    pub(super) digest: Digest,
    pub(super) of: ProofOf,
}

/// What its digest is taken of.
#[derive(Debug)]
pub(super) enum ProofOf {
    /// The chunks of new.
    Chunks { index: Box<Index>, parts: Vec<ProofPart> },
    /// The bytes of new.
    Bytes,
}

/// A run of the new version's chunks, by where their fingerprints are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProofPart {
    /// Copied from old.
    Old(Range<ChunkNo>),
    /// Received, in order.
    New(Vec<Chunk>),
}

impl Proof {
    /// Whether the digest is the one that the sender took: over the chunks that were copied and written, which hashes about
    /// 1 % of the file's length; or else the one that `of_bytes` takes of the bytes themselves.
    ///
    /// # Errors
    /// Those of `of_bytes`.
    pub fn holds<E>(&self, of_bytes: impl FnOnce() -> Result<Digest, E>) -> Result<bool, E> {
        let digest = match &self.of {
            ProofOf::Bytes => of_bytes()?,
            ProofOf::Chunks { index, parts } => digest_of_parts(index, parts),
        };
        Ok(digest == self.digest)
    }

    /// The chunks of new, in order, where they are what its digest is taken of.
    pub fn chunks(&self) -> Option<impl Iterator<Item = Chunk>> {
        let ProofOf::Chunks { index, parts } = &self.of else { return None };
        Some(parts.iter().flat_map(|part| {
            let (old, new) = match part {
                ProofPart::Old(range) => (Some(range), &[][..]),
                ProofPart::New(chunks) => (None, &chunks[..]),
            };
            let old = old.into_iter().flat_map(|range| index.chunks(range.clone()));
            let old = old.map(|(span, fingerprint)| Chunk { len: span.len, fingerprint });
            old.chain(new.iter().copied())
        }))
    }
}

fn digest_of_parts(index: &Index, parts: &[ProofPart]) -> Digest {
    let mut sequence = Sequence::default();
    for part in parts {
        match part {
            ProofPart::Old(range) => sequence.take_old(index, range.clone()),
            ProofPart::New(chunks) => chunks.iter().for_each(|chunk| sequence.take(chunk)),
        }
    }
    sequence.finish()
}

/// The chunks of new, as they come.
#[derive(Default)]
struct Sequence {
    grouper: Grouper,
    digest: DigestBuilder,
    len: u64,
}

impl Sequence {
    fn take(&mut self, chunk: &Chunk) {
        self.len += u64::from(chunk.len);
        if let Some(group) = self.grouper.push(chunk) {
            self.digest.push(&group);
        }
    }

    /// Groups that `index` knows whole are not hashed again: most of a large file, while nothing else can go on.
    fn take_old(&mut self, index: &Index, mut range: Range<ChunkNo>) {
        while !range.is_empty() {
            let known = self.grouper.is_at_start().then(|| index.first_group(range.clone()));
            if let Some((group, rest)) = known.flatten() {
                self.len += group.len;
                self.digest.push(&group);
                range = rest;
            } else {
                let (span, fingerprint) = index.chunk(range.start);
                self.take(&Chunk { len: span.len, fingerprint });
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
    use deltic_core::{BriefLen, Fingerprint};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_it_is_made_of_the_digest_is_that_of_the_chunks(
            files in prop::collection::vec(0..200_u32, 0..4),
            takes in prop::collection::vec((0..400_u32, 1..300_u32, any::<bool>()), 0..8),
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
            let first = (!old.is_empty()).then(|| {
                index.find_chunk(old[0].fingerprint.brief(BriefLen::MAX), 1, None).unwrap()
            });
            let (mut parts, mut all) = (Vec::new(), Vec::new());
            for (from, count, is_old) in takes {
                let from = (from as usize).min(old.len());
                let chunks = &old[from..(from + count as usize).min(old.len())];
                all.extend_from_slice(chunks);
                parts.push(match first {
                    Some(first) if is_old => {
                        let start = first.plus(from as u32);
                        ProofPart::Old(start..start.plus(chunks.len() as u32))
                    }
                    _ => ProofPart::New(chunks.to_vec()),
                });
            }
            prop_assert_eq!(digest_of_parts(&index, &parts), digest_of_parts(&index, &[ProofPart::New(all)]));
        }
    }
}
