//! Facts about files from earlier runs, as far as the options allow their use.

use std::sync::Arc;

use deltic_protocol::options::Options;
use deltic_store::{FactStore, Moment, NoFacts};

use crate::old_sums::OldSums;

use super::RandomBytes;
use super::bases::Bases;
use super::digests::Digests;
use super::recipes::Recipes;
use crate::sum_report::SumReport;

/// Digests, recipes and bases that are known without reading a file.
#[derive(Debug)]
pub struct KeptFacts {
    facts: Arc<dyn FactStore>,
    pub(super) digests: Digests,
    pub(super) recipes: Recipes,
    pub(super) bases: Bases,
    pub(super) sums: SumReport,
}

impl Default for KeptFacts {
    /// Returns a value without facts.
    fn default() -> Self {
        Self::new(Arc::new(NoFacts), &Options::default(), None)
    }
}

impl KeptFacts {
    /// Returns the facts in `facts`, if the options allow their use; `old_sums` supplies further bases.
    pub fn new(
        facts: Arc<dyn FactStore>,
        options: &Options,
        old_sums: Option<Arc<dyn OldSums>>,
    ) -> Self {
        let counted: Arc<dyn FactStore> = match options.compare.cached {
            true => Arc::clone(&facts),
            false => Arc::new(NoFacts),
        };
        let digests = Digests::new(Arc::clone(&counted), options).with_sums(old_sums.clone());
        let recipes = Recipes::new(Arc::clone(&counted));
        let bases = Bases::new(counted, options, old_sums);
        Self { facts, digests, recipes, bases, sums: SumReport::default() }
    }

    /// Takes random bytes from `random`. Without random bytes, no sums of blocks are kept.
    pub fn with_random(self, random: RandomBytes) -> Self {
        Self { bases: self.bases.with_random(random), ..self }
    }

    /// Counts in `sums` which sums come from storage.
    pub fn counting_sums(self, sums: SumReport) -> Self {
        Self { sums, ..self }
    }

    /// True if an old version without a noted base can get its base from an [`OldSums`](crate::old_sums::OldSums).
    pub(crate) fn supplies_old_bases(&self) -> bool {
        self.bases.supplies_old_bases()
    }

    /// Returns the present time of the facts' clock.
    pub(super) fn now(&self) -> Moment {
        self.facts.now()
    }

    /// Writes facts that are still in memory, at the end of the session.
    pub(super) fn flush(&self) {
        self.facts.flush();
    }
}
