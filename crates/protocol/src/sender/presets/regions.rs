//! Regions of the new version, which any number of threads search at once, and one search that joins the results
//! (SkySync §4.3).

use std::collections::BTreeMap;
use std::ops::Range;

use deltic_core::Searcher;
use deltic_core::search::{SearchedRegion, SharedBlocks};

use crate::limits::SEGMENT_BYTES;

/// Length of a region in bytes; the last region is up to twice as long. Blocks are shorter.
const REGION_BYTES: u64 = 2 * SEGMENT_BYTES;
/// Most regions of one file that are requested and not yet joined.
const AHEAD: u64 = 16;

/// Regions of the rest of a file, from the offset that a search has reached.
#[derive(Debug)]
pub(super) struct SearchRegions {
    blocks: SharedBlocks,
    rest: Range<u64>,
    /// Numbers of the next region to request, and of the next region to join.
    next: u64,
    joined: u64,
    /// Regions that were searched before an earlier region.
    early: BTreeMap<u64, SearchedRegion>,
    /// The search that joins the regions; `None` while a worker runs it.
    search: Option<Box<Searcher>>,
}

impl SearchRegions {
    /// Divides `rest` into regions. Returns the search as an error if the rest is too short.
    pub(super) fn divide(search: Box<Searcher>, rest: Range<u64>) -> Result<Self, Box<Searcher>> {
        if rest.end - rest.start < 2 * REGION_BYTES {
            return Err(search);
        }
        let blocks = search.blocks();
        Ok(Self { blocks, rest, next: 0, joined: 0, early: BTreeMap::new(), search: Some(search) })
    }

    /// Returns the blocks to search for.
    pub(super) fn blocks(&self) -> SharedBlocks {
        self.blocks.clone()
    }

    fn region(&self, no: u64) -> Option<Range<u64>> {
        let count = (self.rest.end - self.rest.start) / REGION_BYTES;
        let start = self.rest.start + no * REGION_BYTES;
        let end = if no + 1 == count { self.rest.end } else { start + REGION_BYTES };
        (no < count).then_some(start..end)
    }

    /// Returns the number and the bytes of the next region that may be searched now.
    pub(super) fn next(&mut self) -> Option<(u64, Range<u64>)> {
        let region = self.region(self.next).filter(|_| self.next < self.joined + AHEAD)?;
        self.next += 1;
        Some((self.next - 1, region))
    }

    /// Takes the matches of a region.
    pub(super) fn take_region(&mut self, no: u64, region: SearchedRegion) {
        self.early.insert(no, region);
    }

    /// Takes the search that joins the regions back from a worker.
    pub(super) fn give_back_search(&mut self, search: Box<Searcher>) {
        self.search = Some(search);
    }

    /// Returns the search and the next region to join, once both are available.
    pub(super) fn next_to_join(&mut self) -> Option<(Box<Searcher>, SearchedRegion)> {
        self.search.as_ref()?;
        let region = self.early.remove(&self.joined)?;
        self.joined += 1;
        self.search.take().zip(Some(region))
    }
}
