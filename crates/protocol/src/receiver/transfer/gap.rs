//! A gap: a run of chunks that nothing matched, and what old has in its place.

use std::ops::Range;

use deltic_core::gap::{BlockLen, SHORT_SUM_BYTES};

use crate::receiver::ask::{Facing, OldGap};

/// A run of chunks that nothing matched, and what old has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(super) chunks: Range<u32>,
    pub(super) len: u32,
    pub(super) old: OldGap,
    pub(super) edits: u32,
    /// The run that it shows something of, by its first chunk.
    pub(super) probes: Option<u32>,
}

impl Gap {
    pub(super) fn facing(&self) -> Facing {
        Facing { old: self.old.clone(), edits: self.edits }
    }

    /// True where `copied` bytes of it saved more than the sums of what it was told against cost.
    pub(super) fn was_worth(&self, copied: u64) -> bool {
        copied * u64::from(BlockLen::MIN) > bytes_of(&self.old) * SHORT_SUM_BYTES as u64
    }
}

/// Length of these places of old, in bytes.
pub(super) fn bytes_of(old: &OldGap) -> u64 {
    old.iter().map(|span| u64::from(span.len)).sum()
}
