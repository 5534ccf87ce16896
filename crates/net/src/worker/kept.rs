//! Facts about files that earlier runs kept.

use std::path::PathBuf;
use std::sync::Arc;

use deltic_protocol::options::Options;
use deltic_store_local::cache;

use crate::old_sums::OldSums;

use super::bases::Bases;
use super::digests::Digests;
use super::recipes::{RecipeCache, Recipes};
use crate::reasons::Reasons;

/// Digests and recipes that are known without reading a file.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(super) digests: Digests,
    pub(super) recipes: Recipes,
    pub(super) bases: Bases,
}

impl Kept {
    /// Opens those in `dir` and takes the recipes and bases of the process, if the options let them count; `old_sums`
    /// knows bases besides.
    pub(crate) fn new(
        dir: Option<PathBuf>,
        (recipes, bases): (Option<RecipeCache>, Option<cache::Bases>),
        options: &Options,
        old_sums: Option<Arc<dyn OldSums>>,
    ) -> Self {
        let digests = Digests::new(dir.clone(), options).with_sums(old_sums.clone());
        let bases = Bases::new((dir.clone(), bases), options, old_sums);
        Self { digests, recipes: Recipes::new(dir, recipes, options), bases }
    }

    /// Tells `reasons` why files are read whole, or not.
    pub(crate) fn explaining(self, reasons: Option<Reasons>) -> Self {
        Self { bases: self.bases.explaining(reasons), ..self }
    }
}
