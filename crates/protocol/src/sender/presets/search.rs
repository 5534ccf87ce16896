//! The signature conversation: the receiver sends the sums of the blocks of old, and new is searched for them
//! (rsync; SkySync §3.3).

use deltic_core::chunk::ChunkerSpec;
use deltic_core::search::SearchedRegion;
use deltic_core::strategy::ParallelMode;
use deltic_core::{BlockSumSpec, BlockSums, Searcher};

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::{Extent, FileNo, ToReceiver};
use crate::report::Trouble;
use crate::sums::{Search, Sum, SumLine, Ways, sum_of};

use super::super::ask::{Sealing, Searched, Work};
use super::super::context::Context;
use super::super::pending::Pending;
use super::super::transfer::{Attempt, CHANGED};
use super::regions::Regions;
use super::{Preset, Side};

/// The sums of old, as far as they came.
#[derive(Debug)]
pub(super) enum Signature {
    /// New is not open, or nothing was told; storage keeps these sums of new.
    Closed(Option<BlockSumSpec>),
    /// The receiver knows what storage keeps here, and owes what it makes them of.
    Unsigned,
    /// More of them come.
    Coming(Box<BlockSums>),
    /// All came: one search goes through new.
    Known,
    /// The same, by regions that are searched apart.
    Shared(Regions),
}

impl Signature {
    /// The next state, now that new is open. The receiver is told what storage keeps, where that counts.
    pub(super) fn open(
        &self,
        (ways, spec): (Ways, ChunkerSpec),
        file: FileNo,
        cx: &mut Context,
    ) -> Self {
        match self {
            Self::Closed(kept) if cx.abilities.agrees_on_sums && ways.negotiates() => {
                cx.send(ToReceiver::Keeps { file, kept: *kept });
                Self::Unsigned
            }
            _ => Self::Coming(Box::new(ways.block_sums(spec))),
        }
    }
}

impl Preset {
    /// Takes what the sums of old are made of.
    pub(crate) fn signed(&mut self, by: Option<BlockSumSpec>) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("what old is signed by");
        let Side::Signature(old @ Signature::Unsigned) = &mut self.side else { return Err(UNFIT) };
        if let Some(kept) = by {
            (self.ways, self.spec) = self.ways.kept_so(kept).ok_or(UNFIT)?;
        }
        *old = Signature::Coming(Box::new(self.ways.block_sums(self.spec)));
        Ok(())
    }

    /// Takes sums of the next blocks of old; begins the search behind the last.
    pub(crate) fn take_old_sums(
        &mut self,
        at: &Attempt,
        cx: &mut Context,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("sums of old");
        let Ways { keying, .. } = self.ways;
        let Side::Signature(old) = &mut self.side else { return Err(UNFIT) };
        let Signature::Coming(sums) = old else { return Err(UNFIT) };
        self.old_sums += lines.len();
        for line in lines {
            if sums.count() as usize >= MAX_SUMS {
                return Err(PeerError::Limit("sums of one file"));
            }
            let Sum { len, weak, strong } = line.sum(sums.count(), |no| sum_of(sums, no))?;
            let pushed = sums.push(len, weak, strong.as_bytes());
            pushed.map_err(|_| PeerError::Unexpected("a block that cannot follow"))?;
        }
        if matches!(extent, Extent::Part | Extent::Empty) {
            return Err(PeerError::Unexpected("a part of the sums"));
        }
        if extent == Extent::Last
            && let Signature::Coming(sums) = std::mem::replace(old, Signature::Known)
        {
            self.search(at, cx, Search::New(*sums, self.ways.locality(), keying));
        }
        Ok(())
    }

    fn search(&mut self, at: &Attempt, cx: &mut Context, search: Search) {
        let (handle, start, zstd) = (at.handle, self.scanned, cx.options.compress);
        let digest = self.digest.take().unwrap_or_default();
        let work = Work::Search { handle, start, search, digest, zstd };
        cx.jobs.ask(work, Pending::Search(handle));
    }

    /// Sends what a search settled, and goes on with it or seals the file.
    pub(crate) fn searched(
        &mut self,
        at: &mut Attempt,
        cx: &mut Context,
        searched: Searched,
    ) -> Result<(), Trouble> {
        let Searched { patches, consumed, at_end, searcher, digest } = searched;
        self.scanned += consumed;
        if self.scanned > at.len || at_end && self.scanned < at.len {
            return Err(at.trouble(CHANGED));
        }
        let proof = at_end.then(|| Sealing::Bytes(digest.finish()));
        self.digest = Some(digest);
        let file = at.file;
        let frame = |(steps, payload)| ToReceiver::Patch { file, steps, payload };
        cx.frames.extend(patches.into_iter().map(frame));
        at.settle(cx, consumed);
        if let Some(proof) = proof {
            let counts = searcher.counts();
            cx.counts.add(counts.weak, counts.strong);
            at.seal(cx, proof);
        } else {
            self.search_on(at, cx, searcher);
        }
        Ok(())
    }

    /// Goes on with a search; by regions, where threads share them.
    fn search_on(&mut self, at: &Attempt, cx: &mut Context, searcher: Box<Searcher>) {
        let Side::Signature(old) = &mut self.side else { return };
        let shares = self.ways.parallel(cx.options.threads) == ParallelMode::Regions;
        match old {
            Signature::Shared(regions) => regions.wait(searcher),
            _ if !shares => return self.search(at, cx, Search::On(searcher)),
            _ => match Regions::of(searcher, self.scanned..at.len) {
                Ok(regions) => *old = Signature::Shared(regions),
                Err(searcher) => return self.search(at, cx, Search::On(searcher)),
            },
        }
        self.share(at, cx);
    }

    /// Takes what was found in a region.
    pub(crate) fn found(
        &mut self,
        at: &Attempt,
        cx: &mut Context,
        no: u64,
        region: SearchedRegion,
    ) {
        if let Side::Signature(Signature::Shared(regions)) = &mut self.side {
            regions.take(no, region);
            self.share(at, cx);
        }
    }

    /// Asks for the regions that may be searched by now, and joins the next one if it was.
    fn share(&mut self, at: &Attempt, cx: &mut Context) {
        let Side::Signature(Signature::Shared(regions)) = &mut self.side else { return };
        let (handle, start, zstd) = (at.handle, self.scanned, cx.options.compress);
        if let Some((searcher, region)) = regions.join() {
            let (region, digest) = (Box::new(region), self.digest.take().unwrap_or_default());
            let work = Work::Join { handle, start, searcher, region, digest, zstd };
            cx.jobs.ask(work, Pending::Search(handle));
        }
        while let Some((no, region)) = regions.next() {
            let work = Work::Find { handle, region, blocks: regions.blocks() };
            cx.jobs.ask(work, Pending::Find(handle, no));
        }
    }
}
