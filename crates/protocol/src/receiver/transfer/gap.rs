//! A gap: a run of unmatched chunks, and the old bytes in the same place.

use std::ops::Range;

use deltic_core::gap::BlockLen;

use crate::message::Payload;
use crate::receiver::ask::{GapSurvey, OldGap};

/// A run of unmatched chunks, and the old bytes in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkGap {
    pub(super) chunks: Range<u32>,
    pub(super) len: u32,
    pub(super) old: OldGap,
    pub(super) edits: u32,
    /// Length in bytes of the sums, once the sums are known.
    pub(super) known_sums_bytes: Option<u64>,
    /// First chunk of the run that this gap is a probe of.
    pub(super) probes: Option<u32>,
}

/// Gaps sent as deltas against the old versions.
#[derive(Debug)]
pub(crate) struct GapPayload {
    /// Length in bytes of the unpacked deltas.
    pub(crate) bytes: u32,
    /// Length in bytes of the deltas on the wire.
    pub(crate) packed: u64,
    pub(crate) payload: Payload,
}

impl ChunkGap {
    pub(super) fn survey_request(&self) -> GapSurvey {
        GapSurvey { old: self.old.clone(), edits: self.edits }
    }

    /// Returns the length in bytes of the sums of the old bytes; an estimate until the sums are known.
    pub(super) fn sums_bytes(&self) -> u64 {
        let old = gap_bytes(&self.old);
        self.known_sums_bytes.unwrap_or_else(|| BlockLen::for_gap(old, self.edits).sums_bytes(old))
    }
}

/// Length of these places in the old versions, in bytes.
pub(super) fn gap_bytes(old: &OldGap) -> u64 {
    old.iter().map(|span| u64::from(span.len)).sum()
}
