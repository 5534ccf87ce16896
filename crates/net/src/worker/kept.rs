//! Facts about files that earlier runs kept.

use std::path::PathBuf;

use deltic_protocol::options::Options;

use super::digests::Digests;
use super::recipes::Recipes;

/// Digests and recipes that are known without reading a file.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(super) digests: Digests,
    pub(super) recipes: Recipes,
}

impl Kept {
    /// Opens those in `dir`, if the options let them count.
    pub(crate) fn new(dir: Option<PathBuf>, options: &Options) -> Self {
        Self { digests: Digests::new(dir.clone(), options), recipes: Recipes::new(dir, options) }
    }
}
