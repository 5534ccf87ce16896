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
}

fn digest_of_parts(index: &Index, parts: &[ProofPart]) -> Digest {
    let (mut grouper, mut digest, mut len) = (Grouper::new(), DigestBuilder::new(), 0);
    let mut take = |chunk: Chunk| {
        len += u64::from(chunk.len);
        if let Some(group) = grouper.push(&chunk) {
            digest.push(&group);
        }
    };
    for part in parts {
        match part {
            ProofPart::Old(range) => index.chunks(range.clone()).for_each(|(span, fingerprint)| {
                take(Chunk { len: span.len, fingerprint });
            }),
            ProofPart::New(chunks) => chunks.iter().copied().for_each(&mut take),
        }
    }
    if let Some(group) = grouper.finish() {
        digest.push(&group);
    }
    digest.finish(len)
}
