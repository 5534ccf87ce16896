//! Cuts a new version into chunks.

use deltic_core::chunk::{ChunkerSpec, Segment, SegmentChunks};
use deltic_core::recipe::Chunk;
use deltic_protocol::report::Trouble;
use deltic_protocol::work::Handle;
use deltic_store::{StoreError, Tree};

use super::{SourceWorker, shrunk};
use crate::lock::lock;
use crate::steps::cut_segment;
use crate::summed::BlockFingerprints;
use crate::trouble;

impl<T: Tree> SourceWorker<T> {
    /// Cuts a segment. Blocks with stored sums are not read.
    pub(super) fn scan(
        &self,
        handle: Handle,
        spec: &ChunkerSpec,
        segment: &Segment,
    ) -> Result<SegmentChunks<Chunk>, Trouble> {
        let snapshot = self.snapshot(handle);
        if let Some(blocks) = self.agreed.get().and_then(|(agreed, _)| agreed.summed_blocks(spec)) {
            lock(&self.fingerprinters).insert(handle, blocks.fingerprinter());
            let reading =
                BlockFingerprints { blocks, buffers: &self.buffers, report: &self.kept.sums };
            let file = snapshot.map().is_none().then_some(&**snapshot);
            let run = file.map_or(Ok(None), |file| reading.of_segment(file, segment));
            let failed = |error| match error {
                StoreError::Short { .. } => shrunk(&**snapshot),
                error => trouble(&error),
            };
            if let Some(run) = run.map_err(failed)? {
                return Ok(run);
            }
        }
        let read = |at, into: &mut [u8]| snapshot.read_packed(at, into);
        let run = cut_segment(&self.buffers, read, spec, &self.names(handle), segment);
        run.map_err(|error| trouble(&error))?.ok_or_else(|| shrunk(&**snapshot))
    }
}
