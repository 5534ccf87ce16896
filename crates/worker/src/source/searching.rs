//! Searches a new version for the blocks of the old version that the receiver sent sums of.

use std::ops::Range;

use deltic_core::Searcher;
use deltic_core::recipe::FileDigest;
use deltic_core::search::{SearchedRegion, SharedBlocks};
use deltic_engine::search::NewSearch;
use deltic_engine::sums::READ_BYTES;
use deltic_protocol::sender::Searched;
use deltic_protocol::work::Handle;
use deltic_store::{Snapshot, StoreError, Tree};

use super::SourceWorker;
use crate::steps::{searched_sums, with_range};

/// A step of a search through a new version.
pub(super) struct SearchStep {
    /// Offset of the segment, in bytes.
    pub(super) start: u64,
    pub(super) searcher: Box<Searcher>,
    /// The region to continue with, if a region was searched already.
    pub(super) region: Option<Box<SearchedRegion>>,
    /// Digest of the bytes before the segment, if the bytes are to be hashed.
    pub(super) digest: Option<Box<FileDigest>>,
}

impl<T: Tree> SourceWorker<T> {
    /// Searches the next segment, or continues with the rest of a region.
    pub(super) fn search(&self, handle: Handle, step: SearchStep) -> Result<Searched, StoreError> {
        let SearchStep { start, searcher, region, digest } = step;
        let snapshot = self.snapshot(handle);
        let (blocks, file_len) = (searcher.blocks(), snapshot.meta().len);
        let end = match &region {
            Some(region) => blocks.bytes_to_read(region.range(), file_len).end,
            None => start + READ_BYTES as u64,
        };
        let range = start..end.max(start);
        let kept = searched_sums(&blocks, &snapshot, &range)?;
        let (zstd, limits) = (self.packer().asked(), self.agreed().terms.limits);
        let before = searcher.counts();
        let search = NewSearch { searcher, digest, start, zstd, limits, kept, region };
        let with = |bytes: &[u8], at_end| search.search(bytes, at_end);
        let searched = with_range(&self.buffers, &**snapshot, &range, with)?;
        self.kept.sums.add_search(before, searched.searcher.counts());
        Ok(searched)
    }

    /// Searches a region independently of other regions.
    pub(super) fn find(
        &self,
        handle: Handle,
        region: Range<u64>,
        blocks: &SharedBlocks,
    ) -> Result<SearchedRegion, StoreError> {
        let snapshot = self.snapshot(handle);
        let range = blocks.bytes_to_read(&region, snapshot.meta().len);
        let kept = searched_sums(blocks, &snapshot, &range)?;
        let with = |bytes: &[u8], _| blocks.find(region, bytes, kept.as_ref());
        with_range(&self.buffers, &**snapshot, &range, with)
    }
}
