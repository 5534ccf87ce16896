//! Regions of new, which any number of threads search at once, and one search that joins what they found
//! (SkySync §4.3).

use std::collections::BTreeMap;
use std::ops::Range;

use deltic_core::Searcher;
use deltic_core::search::{SearchedRegion, SharedBlocks};

use crate::limits::SEGMENT_BYTES;

/// Bytes of a region; the last one has up to twice as many. Blocks are shorter.
const REGION_BYTES: u64 = 2 * SEGMENT_BYTES;
/// Most regions of one file that are asked for and not joined.
const AHEAD: u64 = 16;

/// The regions of the rest of a file, from where a search stands on.
#[derive(Debug)]
pub(super) struct Regions {
    blocks: SharedBlocks,
    rest: Range<u64>,
    /// The number of the next region to be asked for, and of the next one to be joined.
    next: u64,
    joined: u64,
    /// Regions that were searched before those in front of them.
    early: BTreeMap<u64, SearchedRegion>,
    /// The search, unless it is at work.
    search: Option<Box<Searcher>>,
}

impl Regions {
    /// The regions of `rest`, if it is worth dividing; else the search is given back.
    pub(super) fn of(search: Box<Searcher>, rest: Range<u64>) -> Result<Self, Box<Searcher>> {
        if rest.end - rest.start < 2 * REGION_BYTES {
            return Err(search);
        }
        let blocks = search.blocks();
        Ok(Self { blocks, rest, next: 0, joined: 0, early: BTreeMap::new(), search: Some(search) })
    }

    /// The blocks that are looked for.
    pub(super) fn blocks(&self) -> SharedBlocks {
        self.blocks.clone()
    }

    fn region(&self, no: u64) -> Option<Range<u64>> {
        let count = (self.rest.end - self.rest.start) / REGION_BYTES;
        let start = self.rest.start + no * REGION_BYTES;
        let end = if no + 1 == count { self.rest.end } else { start + REGION_BYTES };
        (no < count).then_some(start..end)
    }

    /// The number and the bytes of the next region that may be searched now.
    pub(super) fn next(&mut self) -> Option<(u64, Range<u64>)> {
        let region = self.region(self.next).filter(|_| self.next < self.joined + AHEAD)?;
        self.next += 1;
        Some((self.next - 1, region))
    }

    /// Takes what was found in a region.
    pub(super) fn take(&mut self, no: u64, region: SearchedRegion) {
        self.early.insert(no, region);
    }

    /// Takes the search back.
    pub(super) fn wait(&mut self, search: Box<Searcher>) {
        self.search = Some(search);
    }

    /// The search and the region that it goes on with, once both are here.
    pub(super) fn join(&mut self) -> Option<(Box<Searcher>, SearchedRegion)> {
        self.search.as_ref()?;
        let region = self.early.remove(&self.joined)?;
        self.joined += 1;
        self.search.take().zip(Some(region))
    }
}
