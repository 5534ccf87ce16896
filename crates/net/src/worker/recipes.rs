//! Recipes of large files that came in earlier runs: who has one need not read the file to cut it
//! (docs/decisions/0023).

use std::path::PathBuf;
use std::sync::OnceLock;

use deltic_core::{ChunkerSpec, Key};
use deltic_engine::{journal, recipe};
use deltic_protocol::Terms;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Kept, New, Proof};
use deltic_store::{Snapshot, Version};
use deltic_store_local::cache::{self, Moment};

/// The recipes that are known.
#[derive(Debug, Default)]
pub(super) struct Recipes {
    dir: Option<PathBuf>,
    /// Opened when the first is asked for: most runs ask for none.
    kept: OnceLock<Option<cache::Recipes>>,
}

/// A version that was put in place.
pub(super) struct Placed<'a> {
    pub(super) version: &'a Version,
    /// The moment before that.
    pub(super) begun: Moment,
    pub(super) new: &'a New,
    /// Has its chunks.
    pub(super) proof: &'a Proof,
}

impl Recipes {
    /// Opens those in `dir`, if the options let them count.
    pub(super) fn new(dir: Option<PathBuf>, options: &Options) -> Self {
        Self { dir: dir.filter(|_| options.compare.cached), kept: OnceLock::new() }
    }

    /// The recipe of the version `old`, cut by `spec` and of use in a session of these terms.
    pub(super) fn find(
        &self,
        old: &impl Snapshot,
        spec: ChunkerSpec,
        terms: Terms,
    ) -> Option<Kept> {
        if !journal::is_kept(old.meta().len) {
            return None;
        }
        let notes = self.kept()?.find(&old.identity()?)?;
        recipe::read(&notes, (old.meta(), terms)).filter(|recipe| recipe.spec == spec)
    }

    /// Keeps that of a version whose chunks are named with `key`.
    pub(super) fn note(&self, placed: &Placed<'_>, key: &Key, terms: Terms) {
        let Placed { version, begun, new, proof } = *placed;
        let is_cut = matches!(new.spec, ChunkerSpec::ByContent(..));
        if !journal::is_kept(new.len) || !is_cut || new.from > 0 {
            return;
        }
        let chunks = || proof.chunks().into_iter().flatten();
        if let Some(kept) = self.kept().filter(|_| recipe::is_of_use(new, chunks())) {
            kept.note(version, begun, recipe::written((new, key, terms), chunks()));
        }
    }

    /// Drops what is known of a version that was replaced.
    pub(super) fn forget(&self, old: &impl Snapshot) {
        let old = old.identity().filter(|_| journal::is_kept(old.meta().len));
        if let Some((old, kept)) = old.and_then(|old| Some((old, self.kept()?))) {
            kept.forget(&old);
        }
    }

    fn kept(&self) -> Option<&cache::Recipes> {
        self.kept.get_or_init(|| cache::Recipes::open(self.dir.as_deref()?)).as_ref()
    }
}
