//! The facts of a session that follow from its terms.

use deltic_core::{Fingerprinter, Strategy, SumKey};
use deltic_protocol::Terms;

/// The terms, and the keys that they give.
pub(super) struct Agreed {
    pub(super) terms: Terms,
    /// Names chunks in this session.
    pub(super) names: Fingerprinter,
    pub(super) gap_seed: u64,
    /// The key of strong sums.
    pub(super) key: SumKey,
}

impl Agreed {
    pub(super) fn new(terms: Terms, strategy: &Strategy) -> Self {
        Self {
            terms,
            names: terms.fingerprinter(strategy),
            gap_seed: terms.gap_seed(),
            key: terms.sum_key(),
        }
    }
}
