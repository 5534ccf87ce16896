//! The strong sums of the candidates of a match: ParaSync's sub-table (ParaSync §3.2).
//!
//! The receiver proposes old chunks in batches. For each batch the sender makes a small table of their strong sums, and
//! looks the sums of its own chunks up. The memory of a table serves the next one.

use std::collections::HashMap;

use deltic_core::StrongSum;

use super::named::JudgedToken;

/// Table of the candidates of one match.
#[derive(Debug, Default)]
pub(super) struct SubTable {
    /// The number of a candidate, by the first chunk of the token and the strong sum.
    numbers: HashMap<(u32, StrongSum), u32>,
    /// True if the table has the candidates of the match that is being checked.
    is_filled: bool,
    /// Number of sums that were found, since the last [`SubTable::take_hits`].
    hits: u64,
}

impl SubTable {
    /// Fills the table with the candidates of a match, unless it is filled.
    pub(super) fn fill<'a>(&mut self, tokens: impl Iterator<Item = &'a JudgedToken>) {
        if std::mem::replace(&mut self.is_filled, true) {
            return;
        }
        for token in tokens {
            for (number, strong) in token.candidates.iter().enumerate() {
                // Of equal sums the first counts.
                self.numbers.entry((token.chunks.start, *strong)).or_insert(number as u32);
            }
        }
    }

    /// Returns the number of the candidate with the strong sum of a chunk of `token`.
    pub(super) fn find(&mut self, token: &JudgedToken, strong: StrongSum) -> Option<usize> {
        let found = self.numbers.get(&(token.chunks.start, strong)).copied();
        self.hits += u64::from(found.is_some());
        found.map(|number| number as usize)
    }

    /// Empties the table and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.is_filled = false;
    }

    /// Returns the number of sums found since the last call.
    pub(super) fn take_hits(&mut self) -> u64 {
        std::mem::take(&mut self.hits)
    }
}
