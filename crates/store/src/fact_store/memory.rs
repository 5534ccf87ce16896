//! Facts in memory, for tests and for programs that keep facts only while they run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltic_core::Digest;

use super::{BaseNote, DigestQuery, FactStore};
use crate::{Moment, SettledVersion, Version, VersionToken, lock};

/// Facts in memory. Clones share the same facts.
///
/// The clock always shows the same moment, which is later than the times of all files. So every version counts as
/// settled, and this type suits only stores that never reuse a version token, such as
/// [`MemoryStore`](crate::memory::MemoryStore).
#[derive(Clone, Debug, Default)]
pub struct MemoryFacts(Arc<Mutex<Facts>>);

/// The moment that the clock of [`MemoryFacts`] always shows.
const NOW: Moment = Moment::since_1970(Duration::from_secs(u32::MAX as u64));

/// Facts about files, keyed by version token.
#[derive(Debug, Default)]
struct Facts {
    digests: HashMap<VersionToken, (SettledVersion, Digest)>,
    recipes: HashMap<VersionToken, (Version, Arc<Vec<u8>>)>,
    bases: HashMap<VersionToken, (Version, Digest)>,
    base_notes: HashMap<(BaseNote, Digest), Vec<u8>>,
}

impl FactStore for MemoryFacts {
    fn now(&self) -> Moment {
        NOW
    }

    fn keeps_digests(&self) -> bool {
        true
    }

    fn digests(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        let facts = lock(&self.0);
        for (version, found) in query.versions.iter().zip(found) {
            let noted = facts.digests.get(&version.token);
            let is_known = |(noted, _): &&(SettledVersion, Digest)| {
                let at = noted.begun().elapsed().as_secs();
                noted.version() == version && NOW.is_within(query.max_age, at)
            };
            *found = noted.filter(is_known).map(|(_, digest)| *digest);
            if found.is_none() && query.needs_all {
                return;
            }
        }
    }

    fn note_digests(&self, notes: &[(SettledVersion, Digest)]) {
        let notes = notes.iter().map(|note| (note.0.version().token, *note));
        lock(&self.0).digests.extend(notes);
    }

    fn keeps_recipes(&self, _: u64) -> bool {
        true
    }

    fn recipe(&self, version: &Version) -> Option<Arc<Vec<u8>>> {
        let facts = lock(&self.0);
        let (of, recipe) = facts.recipes.get(&version.token)?;
        (of == version).then(|| Arc::clone(recipe))
    }

    fn note_recipe(&self, version: &SettledVersion, parts: &mut dyn Iterator<Item = Vec<u8>>) {
        let recipe = parts.collect::<Vec<_>>().concat().into();
        let version = *version.version();
        lock(&self.0).recipes.insert(version.token, (version, recipe));
    }

    fn forget_recipe(&self, version: &Version) {
        lock(&self.0).recipes.remove(&version.token);
    }

    fn keeps_bases(&self) -> bool {
        true
    }

    fn base(&self, version: &Version) -> Option<Digest> {
        let facts = lock(&self.0);
        let (of, base) = facts.bases.get(&version.token)?;
        (of == version).then_some(*base)
    }

    fn note_base(&self, version: &SettledVersion, base: &Digest) {
        let version = *version.version();
        lock(&self.0).bases.insert(version.token, (version, *base));
    }

    fn base_note(&self, kind: BaseNote, name: &Digest) -> Option<Vec<u8>> {
        lock(&self.0).base_notes.get(&(kind, *name)).cloned()
    }

    fn keep_base_note(&self, kind: BaseNote, name: &Digest, bytes: Vec<u8>) {
        lock(&self.0).base_notes.insert((kind, *name), bytes);
    }

    fn forget_base_note(&self, kind: BaseNote, name: &Digest) {
        lock(&self.0).base_notes.remove(&(kind, *name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn facts_in_memory_are_a_store_of_facts() {
        conformance::run_facts(MemoryFacts::default);
    }
}
