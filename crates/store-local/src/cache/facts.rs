//! The [`FactStore`] for all facts kept on this machine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use deltic_core::Digest;
use deltic_store::{BaseNote, DigestQuery, FactStore, Moment, SettledVersion, Version};

use super::bases::Bases;
use super::now;
use super::recent::RecipeCache;
use super::recipes::Recipes;
use super::run::RunCache;

/// Longest file in bytes without a recipe on disk. Chunking such a file again takes no longer than reading its recipe.
pub const LONGEST_UNKEPT_BYTES: u64 = 32 << 20;

/// Facts in a directory of the user's own, and facts that the sessions of a process share. The default value keeps no
/// facts.
///
/// Each file of the directory is opened when first needed: most runs need no file.
#[derive(Debug, Default)]
pub struct LocalFacts {
    dir: Option<PathBuf>,
    /// Recipes in the memory of this process.
    recent: Option<RecipeCache>,
    digests: OnceLock<Option<RunCache>>,
    recipes: OnceLock<Option<Recipes>>,
    bases: OnceLock<Option<Bases>>,
}

impl LocalFacts {
    /// Keeps facts in the directory `dir`, which is created if missing.
    #[must_use]
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: Some(dir.into()), ..Self::default() }
    }

    /// Keeps recipes in memory as well.
    #[must_use]
    pub fn with_recipes(self, recent: RecipeCache) -> Self {
        Self { recent: Some(recent), ..self }
    }

    /// Keeps bases in `bases` instead of the directory.
    #[must_use]
    pub fn with_bases(self, bases: Bases) -> Self {
        Self { bases: OnceLock::from(Some(bases)), ..self }
    }

    /// Returns the table that `open` opens in the directory. The table is opened at the first call.
    fn open_once<'a, T>(
        &self,
        once: &'a OnceLock<Option<T>>,
        open: impl Fn(&Path) -> Option<T>,
    ) -> Option<&'a T> {
        once.get_or_init(|| open(self.dir.as_deref()?)).as_ref()
    }

    fn opened_digests(&self) -> Option<&RunCache> {
        self.open_once(&self.digests, RunCache::open)
    }

    fn opened_bases(&self) -> Option<&Bases> {
        self.open_once(&self.bases, Bases::open)
    }

    /// Recipes on disk, for a file of `len` bytes.
    fn recipes_on_disk(&self, len: u64) -> Option<&Recipes> {
        if len <= LONGEST_UNKEPT_BYTES {
            return None;
        }
        self.open_once(&self.recipes, Recipes::open)
    }

    /// Recipes in memory, for a file of `len` bytes.
    fn recipes_in_memory(&self, len: u64) -> Option<&RecipeCache> {
        self.recent.as_ref().filter(|_| len >= RecipeCache::SHORTEST_BYTES)
    }
}

impl FactStore for LocalFacts {
    fn now(&self) -> Moment {
        now()
    }

    fn prefetch(&self, _: &[Version]) {
        self.opened_digests().inspect(|cache| cache.refresh());
    }

    fn flush(&self) {
        self.digests.get().and_then(Option::as_ref).inspect(|cache| cache.write());
    }

    fn keeps_digests(&self) -> bool {
        self.opened_digests().is_some()
    }

    fn digests(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        self.opened_digests().inspect(|cache| cache.find_all(query, found));
    }

    fn note_digests(&self, notes: &[(SettledVersion, Digest)]) {
        self.opened_digests().inspect(|cache| cache.note_all(notes));
    }

    fn keeps_recipes(&self, len: u64) -> bool {
        let on_disk = self.dir.is_some() && len > LONGEST_UNKEPT_BYTES;
        on_disk || self.recipes_in_memory(len).is_some()
    }

    fn recipe(&self, version: &Version) -> Option<Arc<Vec<u8>>> {
        let in_memory = self.recipes_in_memory(version.len);
        let in_memory = in_memory.and_then(|recent| recent.find(version));
        in_memory.or_else(|| Some(self.recipes_on_disk(version.len)?.find(version)?.into()))
    }

    fn note_recipe(&self, version: &SettledVersion, parts: &mut dyn Iterator<Item = Vec<u8>>) {
        let len = version.version().len;
        let on_disk = self.recipes_on_disk(len);
        let Some(recent) = self.recipes_in_memory(len) else {
            on_disk.inspect(|recipes| recipes.note_recipe(version, parts));
            return;
        };
        let recipe = Arc::new(parts.collect::<Vec<_>>().concat());
        recent.note_recipe(version.version(), Arc::clone(&recipe));
        on_disk
            .inspect(|recipes| recipes.note_recipe(version, &mut std::iter::once(recipe.to_vec())));
    }

    fn forget_recipe(&self, version: &Version) {
        self.recipes_in_memory(version.len).inspect(|recent| recent.forget(version));
        self.recipes_on_disk(version.len).inspect(|recipes| recipes.forget(version));
    }

    fn keeps_bases(&self) -> bool {
        self.bases.get().map_or_else(|| self.dir.is_some(), Option::is_some)
    }

    fn base(&self, version: &Version) -> Option<Digest> {
        self.opened_bases()?.base(version)
    }

    fn note_base(&self, version: &SettledVersion, base: &Digest) {
        self.opened_bases().inspect(|bases| bases.note_base(version, base));
    }

    fn base_note(&self, kind: BaseNote, name: &Digest) -> Option<Vec<u8>> {
        self.opened_bases()?.note(kind, name)
    }

    fn keep_base_note(&self, kind: BaseNote, name: &Digest, bytes: Vec<u8>) {
        self.opened_bases().inspect(|bases| bases.keep(kind, name, bytes));
    }

    fn forget_base_note(&self, kind: BaseNote, name: &Digest) {
        self.opened_bases().inspect(|bases| bases.forget(kind, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_store::conformance;

    #[test]
    fn a_directory_of_facts_is_a_store_of_facts() {
        let dir = tempfile::tempdir().unwrap();
        let next = std::cell::Cell::new(0);
        conformance::run_facts(|| {
            next.set(next.get() + 1);
            LocalFacts::in_dir(dir.path().join(next.get().to_string()))
        });
    }

    #[test]
    fn facts_of_a_party_and_of_a_process_are_a_store_of_facts() {
        let dir = tempfile::tempdir().unwrap();
        let bases = Bases::open(dir.path()).unwrap();
        let next = std::cell::Cell::new(0);
        conformance::run_facts(|| {
            next.set(next.get() + 1);
            let facts = LocalFacts::default().with_bases(bases.for_party([next.get(); 32]));
            facts.with_recipes(RecipeCache::new(1 << 20))
        });
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes a link that no cache may follow")]
    fn where_no_facts_can_be_kept_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        conformance::run_facts(LocalFacts::default);
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        let facts = LocalFacts::in_dir(dir.path().join("link"));
        assert!(!facts.keeps_digests());
        assert_eq!(facts.base_note(BaseNote::Sums, &Digest::from_bytes([7; 32])), None);
        assert!(!facts.keeps_bases());
    }

    #[test]
    fn facts_are_found_by_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let open = || LocalFacts::in_dir(dir.path());
        let version = super::super::tests::version(7);
        let version = Version { len: LONGEST_UNKEPT_BYTES + 1, ..version };
        let settled = SettledVersion::after_read(version, now()).unwrap();
        let digest = Digest::from_bytes([7; 32]);
        let facts = open();
        facts.note_digests(&[(settled, digest)]);
        facts.note_recipe(&settled, &mut std::iter::once(b"recipe".to_vec()));
        facts.note_base(&settled, &digest);
        drop(facts);
        let (facts, mut found) = (open(), [None]);
        let query = DigestQuery { versions: &[version], max_age: None, needs_all: false };
        facts.digests(&query, &mut found);
        assert_eq!((found, facts.base(&version)), ([Some(digest)], Some(digest)));
        assert_eq!(facts.recipe(&version).unwrap().as_slice(), b"recipe");
    }
}
