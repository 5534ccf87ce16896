//! Facts about files that earlier runs found out, kept outside of every tree: digests, recipes and bases.
//!
//! The law: an answer is what reading the file would give, or there is none. A [`Version`] finds the answer, and only a
//! [`SettledVersion`] is noted.

mod memory;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::Digest;

use crate::{Moment, SettledVersion, Version};

pub use memory::MemoryFacts;

/// Keeps facts between runs. Each default method is that of a store that keeps no facts of that kind.
///
/// - No call blocks or waits for another machine. A store whose database can only be awaited (IndexedDB in a browser)
///   answers from memory; its owner loads the facts about a directory between [`prefetch`](Self::prefetch) and the
///   questions.
/// - No call fails. A fact that cannot be read is unknown, a fact that cannot be written is lost.
/// - Several threads may call at once. Facts noted by one are found by the others, at the latest after
///   [`flush`](Self::flush).
pub trait FactStore: fmt::Debug + Send + Sync + 'static {
    /// The present time, by the clock that the times in a [`Version`] are compared with.
    fn now(&self) -> Moment;

    /// True if this process may use so little memory that buffers should be small.
    fn is_memory_tight(&self) -> bool {
        false
    }

    /// Says that facts about `versions` will be asked for next: those of the files of a directory, for instance. Local
    /// caches look whether another process changed the cache.
    fn prefetch(&self, versions: &[Version]) {
        let _ = versions;
    }

    /// Writes facts that wait in memory: the session has ended.
    fn flush(&self) {}

    /// True if digests are kept.
    fn keeps_digests(&self) -> bool {
        false
    }

    /// Puts the digest of each of the query's versions in `found`, in the same order: `None` where it is unknown.
    ///
    /// `found` has as many elements as the query has versions, all `None`. Where the query
    /// [needs all](DigestQuery::needs_all), the answer may stop at the first unknown digest.
    fn digests(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        let _ = (query, found);
    }

    /// Notes digests of whole files. A note replaces the notes about earlier versions of the same file.
    fn note_digests(&self, notes: &[(SettledVersion, Digest)]) {
        let _ = notes;
    }

    /// True if recipes of files of `len` bytes are kept.
    fn keeps_recipes(&self, len: u64) -> bool {
        let _ = len;
        false
    }

    /// The recipe of a version: the bytes that were noted.
    fn recipe(&self, version: &Version) -> Option<Arc<Vec<u8>>> {
        let _ = version;
        None
    }

    /// Notes the recipe of a version, whose bytes come in parts. A note replaces the recipe of an earlier version of the
    /// same file.
    fn note_recipe(&self, version: &SettledVersion, parts: &mut dyn Iterator<Item = Vec<u8>>) {
        let _ = (version, parts);
    }

    /// Drops the recipe of a version that was replaced.
    fn forget_recipe(&self, version: &Version) {
        let _ = version;
    }

    /// True if bases are kept: versions that the other end of an earlier session has as well.
    fn keeps_bases(&self) -> bool {
        false
    }

    /// The base that a version of a file here is.
    fn base(&self, version: &Version) -> Option<Digest> {
        let _ = version;
        None
    }

    /// Notes that a version of a file here is `base`.
    fn note_base(&self, version: &SettledVersion, base: &Digest) {
        let _ = (version, base);
    }

    /// The bytes that were kept under this kind and name.
    fn base_note(&self, kind: BaseNote, name: &Digest) -> Option<Vec<u8>> {
        let _ = (kind, name);
        None
    }

    /// Keeps bytes under a kind and a name, in place of those that were kept there.
    fn keep_base_note(&self, kind: BaseNote, name: &Digest, bytes: Vec<u8>) {
        let _ = (kind, name, bytes);
    }

    /// Drops what is kept under this kind and name.
    fn forget_base_note(&self, kind: BaseNote, name: &Digest) {
        let _ = (kind, name);
    }
}

/// A question for digests of many versions.
#[derive(Clone, Copy, Debug)]
pub struct DigestQuery<'a> {
    /// The versions.
    pub versions: &'a [Version],
    /// Digests that were noted longer ago count as unknown.
    pub max_age: Option<Duration>,
    /// True if the answer is of no use unless every digest is known.
    pub needs_all: bool,
}

/// Kinds of notes about bases. The caller decides what the bytes of a note mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BaseNote {
    /// Where the bytes of a base lay; the name is that of the base.
    Extents,
    /// Sums of blocks; the name is that of a base or of a table of sums.
    Sums,
}

/// Keeps no facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl FactStore for NoFacts {
    /// The start of 1970: no version is settled by then, and none is noted.
    fn now(&self) -> Moment {
        Moment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn a_store_of_no_facts_knows_nothing() {
        conformance::run_facts(|| NoFacts);
    }
}
