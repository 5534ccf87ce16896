//! Reading old versions: sums of them, and searches through them.

use deltic_core::{GapSums, Searcher, Span, Strong, StrongSum};
use deltic_engine::Short;
use deltic_engine::gap::BlockSums;
use deltic_engine::search;
use deltic_engine::sums::{Portions, StrongSums};
use deltic_protocol::receiver::{Facing, Rolled};
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::Summing;
use deltic_protocol::work::{Handle, Setback};
use deltic_store::{Snapshot, Store, StoreError};

use super::{DestinationWorker, shrunk};
use crate::monitor::Stage;
use crate::worker::setback;
use crate::worker::steps::{perform, sum_portion, with_segment};

impl<S: Store> DestinationWorker<S> {
    pub(super) fn sum_old(
        &self,
        handle: Handle,
        (part, portion): (usize, Portion),
        summing: Summing,
    ) -> Result<Summed, Setback> {
        let slot = self.slot(handle);
        let old = &slot.old[part];
        let portions = Portions { summing, key: &self.agreed.key, file_len: old.meta().len };
        let summed = sum_portion(&self.buffers, old, &portions, (portion, None));
        summed.map_err(|error| setback(&error))?.ok_or_else(shrunk)
    }

    pub(super) fn hash_old(
        &self,
        handle: Handle,
        strong: Strong,
        spans: &[Span],
    ) -> Result<Vec<StrongSum>, Setback> {
        let (slot, task) = (self.slot(handle), StrongSums::new((strong, &self.agreed.key), spans));
        let sums = perform(&self.buffers, Stage::Sum, task, |spans, into| {
            slot.read(spans, into).map(<[u8]>::len)
        });
        sums.map_err(|error| setback(&error))?.map_err(|Short| shrunk())
    }

    pub(super) fn roll(
        &self,
        handle: Handle,
        (part, start): (usize, u64),
        searcher: Box<Searcher>,
    ) -> Result<Rolled, StoreError> {
        let slot = self.slot(handle);
        with_segment(&self.buffers, &slot.old[part], start, |bytes, at_end| {
            search::in_old(searcher, bytes, at_end)
        })
    }

    pub(super) fn block_sums(
        &self,
        handle: Handle,
        gaps: &[Facing],
    ) -> Result<Vec<GapSums>, StoreError> {
        let (slot, task) = (self.slot(handle), BlockSums::new(gaps, self.agreed.gap_seed));
        let Ok(sums) = perform(&self.buffers, Stage::Sum, task, |spans, into| {
            slot.read(spans, into).map(<[u8]>::len)
        })?;
        Ok(sums)
    }
}
