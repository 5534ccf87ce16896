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
pub use deltic_store_local::cache::RecipeCache;
use deltic_store_local::cache::{self, Moment};

/// The shortest file whose recipe is kept in memory, in bytes.
const SHORTEST: u64 = 64 << 10;

/// The recipes that are known.
#[derive(Debug, Default)]
pub(super) struct Recipes {
    dir: Option<PathBuf>,
    /// Recipes of this process, if it keeps some, and the options let them count.
    recent: Option<RecipeCache>,
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
    /// Opens those in `dir` and takes those of the process, if the options let them count.
    pub(super) fn new(
        dir: Option<PathBuf>,
        recent: Option<RecipeCache>,
        options: &Options,
    ) -> Self {
        let counts = options.compare.cached;
        let (dir, recent) = (dir.filter(|_| counts), recent.filter(|_| counts));
        Self { dir, recent, kept: OnceLock::new() }
    }

    /// The recipe of the version `old`, cut by `spec` and of use in a session of these terms.
    pub(super) fn find(
        &self,
        old: &impl Snapshot,
        spec: ChunkerSpec,
        terms: Terms,
    ) -> Option<Kept> {
        let read = |notes: &[u8]| {
            let recipe = recipe::read(notes, old.meta(), terms);
            recipe.filter(|recipe| recipe.spec == spec)
        };
        let len = old.meta().len;
        let recent = self.recent(len);
        if recent.is_none() && !journal::is_kept(len) {
            return None;
        }
        let version = old.identity()?;
        match recent.and_then(|recent| recent.find(&version)) {
            Some(notes) => read(&notes),
            None => read(&self.kept(len)?.find(&version)?),
        }
    }

    /// Keeps that of a version whose chunks are named with `key`.
    pub(super) fn note(&self, placed: &Placed<'_>, key: &Key, terms: Terms) {
        let Placed { version, begun, new, proof } = *placed;
        let is_cut = matches!(new.spec, ChunkerSpec::ByContent(..));
        let recent = self.recent(new.len);
        let is_kept = recent.is_some() || journal::is_kept(new.len);
        let chunks = || proof.chunks().into_iter().flatten();
        if !is_kept || !is_cut || new.from > 0 || !recipe::is_usable(new, chunks()) {
            return;
        }
        let notes = || recipe::written(new, key, terms, chunks());
        if let Some(recent) = recent.filter(|_| begun.is_past(version.modified)) {
            recent.note(*version, notes().collect::<Vec<_>>().concat().into());
        }
        if let Some(kept) = self.kept(new.len) {
            kept.note(version, begun, notes());
        }
    }

    /// Drops what is known of a version that was replaced.
    pub(super) fn forget(&self, old: &impl Snapshot) {
        let len = old.meta().len;
        let recent = self.recent(len);
        if recent.is_none() && !journal::is_kept(len) {
            return;
        }
        let Some(old) = old.identity() else { return };
        recent.inspect(|recent| recent.forget(&old));
        if let Some(kept) = self.kept(len) {
            kept.forget(&old);
        }
    }

    /// Recipes of the process, for a file of this length.
    fn recent(&self, len: u64) -> Option<&RecipeCache> {
        self.recent.as_ref().filter(|_| len >= SHORTEST)
    }

    /// Recipes on the disk, for a file of this length.
    fn kept(&self, len: u64) -> Option<&cache::Recipes> {
        if !journal::is_kept(len) {
            return None;
        }
        self.kept.get_or_init(|| cache::Recipes::open(self.dir.as_deref()?)).as_ref()
    }
}
