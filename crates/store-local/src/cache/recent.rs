//! Recipes in memory, shared by the sessions of a process.

use std::sync::{Arc, Mutex};

use deltic_store::Version;
use lru::LruCache;

use crate::kernel::lock;

/// Recipes of files that arrived in sessions of this process; the least recently used recipes are dropped. Clones share
/// the same recipes.
#[derive(Clone, Debug)]
pub struct RecipeCache(Arc<Mutex<RecentRecipes>>);

#[derive(Debug)]
struct RecentRecipes {
    recipes: LruCache<Version, Arc<Vec<u8>>>,
    /// Bytes of all recipes.
    bytes: usize,
    max_bytes: usize,
}

impl RecipeCache {
    /// Shortest file in bytes that gets a recipe in memory.
    pub(super) const SHORTEST_BYTES: u64 = 64 << 10;

    /// Returns an empty cache of at most `max_bytes`. A recipe takes about a hundredth of the bytes of its file.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let recipes = LruCache::unbounded();
        Self(Arc::new(Mutex::new(RecentRecipes { recipes, bytes: 0, max_bytes })))
    }

    /// Returns the recipe of a version.
    pub(super) fn find(&self, version: &Version) -> Option<Arc<Vec<u8>>> {
        lock(&self.0).recipes.get(version).cloned()
    }

    /// Notes the recipe of a version.
    pub(super) fn note_recipe(&self, version: &Version, recipe: Arc<Vec<u8>>) {
        let mut recent = lock(&self.0);
        recent.bytes += recipe.len();
        if let Some((_, before)) = recent.recipes.push(*version, recipe) {
            recent.bytes -= before.len();
        }
        while recent.bytes > recent.max_bytes
            && let Some((_, oldest)) = recent.recipes.pop_lru()
        {
            recent.bytes -= oldest.len();
        }
    }

    /// Drops the recipe of a version.
    pub(super) fn forget(&self, version: &Version) {
        let mut recent = lock(&self.0);
        if let Some(recipe) = recent.recipes.pop(version) {
            recent.bytes -= recipe.len();
        }
    }
}
