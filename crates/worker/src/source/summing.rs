//! Sums of the new version, and deltas of its gaps.

use deltic_core::recipe::FileDigest;
use deltic_core::{Span, StrongKind, StrongSum};
use deltic_engine::sums::{PortionSummer, StrongSums};
use deltic_engine::{FileShrank, gap};
use deltic_protocol::report::Trouble;
use deltic_protocol::sender::{Deltas, Gap};
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::Summing;
use deltic_protocol::work::Handle;
use deltic_store::{Snapshot, Tree};

use super::{SourceWorker, shrunk};
use crate::Agreed;
use crate::stage::Stage;
use crate::steps::{perform, read_one, stored_sums, sum_portion};
use crate::trouble;

impl<T: Tree> SourceWorker<T> {
    /// Computes sums of a portion of the new version. Also adds the portion's bytes to `digest`, if given.
    pub(super) fn sum(
        &self,
        handle: Handle,
        summing: Summing,
        portion: Portion,
        mut digest: Option<Box<FileDigest>>,
    ) -> Result<(Summed, Option<Box<FileDigest>>), Trouble> {
        let snapshot = self.snapshot(handle);
        let (key, file_len) = (&self.agreed().key, snapshot.meta().len);
        let stored = stored_sums(&self.options.strategy, &**snapshot, &portion);
        let stored = stored.map_err(|error| trouble(&error))?;
        let portions = PortionSummer::new(summing, key, file_len, stored);
        let into = digest.as_deref_mut();
        let summed = sum_portion(&self.buffers, &**snapshot, &portions, portion, into);
        self.kept.sums.add(portions.counts());
        let summed = summed.map_err(|error| trouble(&error))?;
        Ok((summed.ok_or_else(|| shrunk(&**snapshot))?, digest))
    }

    /// Returns the strong sums of `spans`, in order.
    pub(super) fn hash(
        &self,
        handle: Handle,
        strong: StrongKind,
        spans: &[Span],
    ) -> Result<Vec<StrongSum>, Trouble> {
        let snapshot = self.snapshot(handle);
        let task = StrongSums::new(strong, &self.agreed().key, spans);
        let read = read_one(|at, into| snapshot.read_packed(at, into));
        let sums = perform(&self.buffers, Stage::Sum, task, read);
        self.kept.sums.add_computed(spans.len());
        sums.map_err(|error| trouble(&error))?.map_err(|FileShrank| shrunk(&**snapshot))
    }

    /// Returns deltas that make `gaps` from bytes of the old version.
    pub(super) fn mend(&self, handle: Handle, gaps: &[Gap]) -> Result<Deltas, Trouble> {
        let snapshot = self.snapshot(handle);
        let Agreed { terms, gap_seed, .. } = self.agreed();
        let task = gap::GapDeltas::new(gaps, *gap_seed, terms.short_forms.split_code);
        let read = read_one(|at, into| snapshot.read_packed(at, into));
        let told = perform(&self.buffers, Stage::Search, task, read);
        let told = told.map_err(|error| trouble(&error))?;
        let (deltas, compared) = told.map_err(|FileShrank| shrunk(&**snapshot))?;
        let bytes = deltas.len() as u32;
        let payload = self.packed(deltas);
        Ok(Deltas { payload, bytes, compared })
    }
}
