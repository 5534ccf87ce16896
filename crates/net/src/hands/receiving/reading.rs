//! Reading old versions: sums of them, and searches through them.

use deltic_core::gap::{BlockLen, GapSums};
use deltic_core::{AtEnd, Op, Searcher, Span, Strong, StrongSum};
use deltic_protocol::receiver::{Facing, OldGap, Rolled};
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::Summing;
use deltic_protocol::work::{Handle, Setback};
use deltic_store::{Store, StoreError};

use super::{ReceivingHands, shrunk};
use crate::hands::setback;
use crate::hands::strategies::{READ_BYTES, hash_spans, segment, sum_portion};

impl<S: Store> ReceivingHands<S> {
    pub(super) fn sum_old(
        &self,
        handle: Handle,
        (part, portion): (usize, Portion),
        summing: Summing,
    ) -> Result<Summed, Setback> {
        let slot = self.slot(handle);
        let (summing, work) = ((summing, &self.key), (portion, &self.buffers));
        let summed = sum_portion(&slot.old[part], summing, work, None);
        summed.map_err(|error| setback(&error))?.ok_or_else(shrunk)
    }

    pub(super) fn hash_old(
        &self,
        handle: Handle,
        strong: Strong,
        spans: &[Span],
    ) -> Result<Vec<StrongSum>, StoreError> {
        let slot = self.slot(handle);
        hash_spans(&self.buffers, (strong, &self.key), spans, |span, bytes| {
            slot.read(&[span], bytes).map(<[u8]>::len)
        })
    }

    pub(super) fn roll(
        &self,
        handle: Handle,
        (part, start): (usize, u64),
        mut searcher: Box<Searcher>,
    ) -> Result<Rolled, StoreError> {
        let slot = self.slot(handle);
        self.buffers.with(READ_BYTES, |buffer| {
            let (bytes, at_end) = segment(&slot.old[part], start, buffer)?;
            let mut found = Vec::new();
            let consumed = searcher.search(bytes, at_end, |op| {
                found.extend(Some(op).filter(|op| matches!(op, Op::Copy { .. })));
            });
            let at_end = at_end == AtEnd::Yes;
            Ok(Rolled { found, consumed: consumed as u64, at_end, searcher })
        })
    }

    pub(super) fn survey(
        &self,
        handle: Handle,
        gaps: &[Facing],
    ) -> Result<Vec<GapSums>, StoreError> {
        let slot = self.slot(handle);
        self.buffers.with(longest(gaps.iter().map(|gap| &gap.old)), |buffer| {
            let sums = |gap: &Facing| {
                let old = slot.read(&gap.old, buffer)?;
                Ok(GapSums::of(old, BlockLen::for_gap(old.len() as u64, gap.edits), self.gap_seed))
            };
            gaps.iter().map(sums).collect()
        })
    }
}

/// Most bytes that any of these holds.
pub(super) fn longest<'a>(gaps: impl Iterator<Item = &'a OldGap>) -> usize {
    let len = |gap: &OldGap| gap.iter().map(|span| span.len as usize).sum();
    gaps.map(len).max().unwrap_or(0)
}
