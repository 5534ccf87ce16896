//! Recipes of large files that arrived in earlier runs. A receiver with the recipe of a file cuts the file into
//! chunks without reading it (docs/decisions/0023).

use std::sync::Arc;

use deltic_core::{ChunkerSpec, Key};
use deltic_engine::recipe;
use deltic_protocol::Terms;
use deltic_protocol::receiver::{KnownChunks, NewVersion, Proof};
use deltic_store::{FactStore, SettledVersion, Snapshot};

/// The known recipes.
#[derive(Debug)]
pub(super) struct Recipes {
    facts: Arc<dyn FactStore>,
}

/// A version that was committed.
pub(super) struct Placed<'a> {
    pub(super) version: &'a SettledVersion,
    pub(super) new: &'a NewVersion,
    /// Lists the chunks of the version.
    pub(super) proof: &'a Proof,
}

impl Recipes {
    /// Returns recipes that are kept in `facts`.
    pub(super) fn new(facts: Arc<dyn FactStore>) -> Self {
        Self { facts }
    }

    /// Returns the recipe of the version `old`, if the recipe was cut by `spec` and suits a session with these terms.
    pub(super) fn find(
        &self,
        old: &impl Snapshot,
        spec: ChunkerSpec,
        terms: Terms,
    ) -> Option<KnownChunks> {
        if !self.facts.keeps_recipes(old.meta().len) {
            return None;
        }
        let notes = self.facts.recipe(&old.identity()?)?;
        let recipe = recipe::read(&notes, old.meta(), terms);
        recipe.filter(|recipe| recipe.spec == spec)
    }

    /// Keeps the recipe of a version. `key` is the key of the chunks' fingerprints.
    pub(super) fn note(&self, placed: &Placed<'_>, key: &Key, terms: Terms) {
        let Placed { version, new, proof } = *placed;
        let is_cut = matches!(new.spec, ChunkerSpec::ByContent(..));
        let chunks = || proof.chunks().into_iter().flatten();
        if !self.facts.keeps_recipes(new.len)
            || !is_cut
            || new.from > 0
            || !recipe::is_usable(new, chunks())
        {
            return;
        }
        self.facts.note_recipe(version, &mut recipe::written(new, key, terms, chunks()));
    }

    /// Forgets the recipe of a version that was replaced.
    pub(super) fn forget(&self, old: &impl Snapshot) {
        if self.facts.keeps_recipes(old.meta().len)
            && let Some(old) = old.identity()
        {
            self.facts.forget_recipe(&old);
        }
    }
}
