//! The proof of a rebuilt file (docs/protocol.md, "Sixteen bytes find, the digest proves").

use std::ops::Range;
use std::sync::Arc;

use deltic_core::recipe::{Chunk, Digest, DigestBuilder, Grouper};
use deltic_core::{ChunkNo, Index};

/// What shows that a rebuilt file is the sender's, to the last bit.
#[derive(Debug)]
pub struct Proof {
    pub(super) digest: Digest,
    pub(super) index: Arc<Index>,
    pub(super) parts: Vec<ProofPart>,
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
    /// Whether the chunks that were copied and written have the digest that the sender took. Hashes about 1 % of the
    /// file's length.
    #[must_use]
    pub fn holds(&self) -> bool {
        let (mut grouper, mut digest, mut len) = (Grouper::new(), DigestBuilder::new(), 0);
        let mut take = |chunk: Chunk| {
            len += u64::from(chunk.len);
            if let Some(group) = grouper.push(&chunk) {
                digest.push(&group);
            }
        };
        for part in &self.parts {
            match part {
                ProofPart::Old(range) => {
                    self.index.chunks(range.clone()).for_each(|(span, fingerprint)| {
                        take(Chunk { len: span.len, fingerprint });
                    })
                }
                ProofPart::New(chunks) => chunks.iter().copied().for_each(&mut take),
            }
        }
        if let Some(group) = grouper.finish() {
            digest.push(&group);
        }
        digest.finish(len) == self.digest
    }
}
