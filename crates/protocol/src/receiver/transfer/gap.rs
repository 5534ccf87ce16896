//! A gap: a run of unmatched chunks, and the old bytes in the same place.

use std::ops::Range;

use deltic_core::gap::{BlockLen, SHORT_SUM_BYTES};

use crate::message::Payload;
use crate::receiver::ask::{GapSurvey, OldGap};

/// A run of unmatched chunks, and the old bytes in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkGap {
    pub(super) chunks: Range<u32>,
    pub(super) len: u32,
    pub(super) old: OldGap,
    pub(super) edits: u32,
    /// First chunk of the run that this gap is a probe of.
    pub(super) probes: Option<u32>,
}

/// Gaps sent as deltas against the old versions.
#[derive(Debug)]
pub(crate) struct GapPayload {
    /// Length in bytes of the unpacked deltas.
    pub(crate) bytes: u32,
    pub(crate) payload: Payload,
}

impl ChunkGap {
    pub(super) fn facing(&self) -> GapSurvey {
        GapSurvey { old: self.old.clone(), edits: self.edits }
    }

    /// True if `copied` bytes saved more than the block sums of the old bytes cost.
    pub(super) fn was_worth(&self, copied: u64) -> bool {
        copied * u64::from(BlockLen::MIN) > bytes_of(&self.old) * SHORT_SUM_BYTES as u64
    }
}

/// Length of these places in the old versions, in bytes.
pub(super) fn bytes_of(old: &OldGap) -> u64 {
    old.iter().map(|span| u64::from(span.len)).sum()
}
