//! Facts about files that earlier runs found: digests, recipes and bases. Facts are stored outside of the synced trees.
//!
//! The law: a known fact equals the result of reading the file; otherwise the fact is unknown. A [`Version`] is the
//! key of a fact. A fact is stored only for a [`SettledVersion`].

mod memory;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::Digest;

use crate::{Moment, SettledVersion, Version};

pub use memory::MemoryFacts;

/// Keeps facts between runs. A default method keeps no facts of its kind.
///
/// - No call waits for another machine; a call may read or write a local disk. A store whose database can only be
///   awaited (IndexedDB in a browser) answers from memory; its owner loads the facts about a directory between
///   [`prefetch`](Self::prefetch) and the queries.
/// - No call fails. A fact that cannot be read is unknown, a fact that cannot be written is lost.
/// - Several threads may call at once. Facts that one thread notes are visible to other threads, at the latest after
///   [`flush`](Self::flush).
pub trait FactStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the present time of the clock that sets the times in a [`Version`].
    fn now(&self) -> Moment;

    /// Announces that facts about `versions` will be queried next, such as the files of a directory. A local cache
    /// checks whether another process changed the cache.
    fn prefetch(&self, versions: &[Version]) {
        let _ = versions;
    }

    /// Writes facts that are buffered in memory, at the end of a session.
    fn flush(&self) {}

    /// True if this store keeps digests.
    fn keeps_digests(&self) -> bool {
        false
    }

    /// Puts the digest of each version of the query in `found`, in the same order: `None` if the digest is unknown.
    ///
    /// `found` has as many elements as the query has versions, all `None`. If the query
    /// [needs all](DigestQuery::needs_all) digests, the answer may stop at the first unknown digest.
    fn digests(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        let _ = (query, found);
    }

    /// Notes digests of whole files. A note replaces the notes about earlier versions of the same file.
    fn note_digests(&self, notes: &[(SettledVersion, Digest)]) {
        let _ = notes;
    }

    /// True if this store keeps recipes of files of `len` bytes.
    fn keeps_recipes(&self, len: u64) -> bool {
        let _ = len;
        false
    }

    /// Returns the recipe of a version: the bytes that were noted, `None` if unknown.
    fn recipe(&self, version: &Version) -> Option<Arc<Vec<u8>>> {
        let _ = version;
        None
    }

    /// Notes the recipe of a version; the bytes of the recipe come in parts. A note replaces the recipe of an earlier
    /// version of the same file.
    fn note_recipe(&self, version: &SettledVersion, parts: &mut dyn Iterator<Item = Vec<u8>>) {
        let _ = (version, parts);
    }

    /// Drops the recipe of a version that was replaced.
    fn forget_recipe(&self, version: &Version) {
        let _ = version;
    }

    /// True if this store keeps bases. A base is a version that both ends had at the end of an earlier session.
    fn keeps_bases(&self) -> bool {
        false
    }

    /// Returns the digest of the base that equals a version of a local file, `None` if unknown.
    fn base(&self, version: &Version) -> Option<Digest> {
        let _ = version;
        None
    }

    /// Notes that a version of a local file equals the base with digest `base`.
    fn note_base(&self, version: &SettledVersion, base: &Digest) {
        let _ = (version, base);
    }

    /// Returns the bytes that [`keep_base_note`](Self::keep_base_note) stored under this kind and name.
    fn base_note(&self, kind: BaseNote, name: &Digest) -> Option<Vec<u8>> {
        let _ = (kind, name);
        None
    }

    /// Keeps bytes under a kind and a name, in place of the bytes that were kept there before.
    fn keep_base_note(&self, kind: BaseNote, name: &Digest, bytes: Vec<u8>) {
        let _ = (kind, name, bytes);
    }

    /// Drops the bytes that are kept under this kind and name.
    fn forget_base_note(&self, kind: BaseNote, name: &Digest) {
        let _ = (kind, name);
    }
}

/// A query for digests of many versions.
#[derive(Clone, Copy, Debug)]
pub struct DigestQuery<'a> {
    /// The versions.
    pub versions: &'a [Version],
    /// Maximum age of a digest. A digest that was noted earlier counts as unknown.
    pub max_age: Option<Duration>,
    /// True if the answer is useless unless every digest is known.
    pub needs_all: bool,
}

/// Kinds of notes about bases. The caller decides what the bytes of a note mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BaseNote {
    /// Extents of a base, named by the digest of the base.
    Extents,
    /// Sums of blocks, named by the digest of a base or of a table of sums.
    Sums,
}

/// Keeps no facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl FactStore for NoFacts {
    /// Returns the start of 1970. Every file changed later, so no version is ever settled and no fact is noted.
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
