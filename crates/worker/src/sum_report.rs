//! Counts of the sums of file contents that an end used: sums that storage keeps, and computed sums.

use std::sync::{Arc, Mutex};

use deltic_core::search::SearchCounts;
use deltic_engine::sums::SumCounts;

use crate::lock::lock;

/// Counts of the sums of a session by their source. Clones share the same counts.
#[derive(Clone, Debug, Default)]
pub struct SumReport(Arc<Mutex<SumCounts>>);

impl SumReport {
    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> SumCounts {
        *lock(&self.0)
    }

    /// Adds counts.
    pub(crate) fn add(&self, more: SumCounts) {
        *lock(&self.0) += more;
    }

    /// Adds computed sums.
    pub(crate) fn add_computed(&self, count: usize) {
        self.add(SumCounts { computed: count as u64, ..SumCounts::default() });
    }

    /// Adds the strong sums and the joined weak sums of a search that had counted `before` and now has counted `after`.
    pub(crate) fn add_search(&self, before: SearchCounts, after: SearchCounts) {
        let stored = after.kept + after.joined - before.kept - before.joined;
        let computed = after.strong - before.strong;
        self.add(SumCounts { stored, computed, ..SumCounts::default() });
    }
}
