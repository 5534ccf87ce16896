//! The signature conversation: the receiver sends block sums of the old version, and the sender searches the new
//! version for these blocks (rsync; SkySync §3.3).

use deltic_core::chunk::ChunkerSpec;
use deltic_core::search::SearchedRegion;
use deltic_core::strategy::ParallelMode;
use deltic_core::{BlockSumSpec, BlockSums, Searcher};

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::{Extent, FileNo, ToReceiver};
use crate::report::Trouble;
use crate::sums::{Search, StrategySums, Sum, SumLine, sum_of};

use super::super::ask::{FileWork, Searched, SenderWork};
use super::super::context::Context;
use super::super::pending::SenderPending;
use super::super::transfer::{CHANGED, SendAttempt};
use super::regions::SearchRegions;
use super::{MatchMethod, PresetSender};

/// Block sums of the old version, as far as received.
#[derive(Debug)]
pub(super) enum Signature {
    /// The new version is not open yet. Holds the kind of sums that the storage keeps of the file.
    Closed(Option<BlockSumSpec>),
    /// The receiver was told the kind of sums that the sender's storage keeps. The receiver has not yet chosen the sums
    /// of the signature. Holds the kind of sums that storage keeps.
    Unsigned(Option<BlockSumSpec>),
    /// More sums of the signature will arrive.
    Coming(Box<BlockSums>),
    /// The signature is complete: one search goes through the new version.
    Known,
    /// The signature is complete: threads search regions of the new version.
    Shared(SearchRegions),
}

impl Signature {
    /// Returns the next state after the new version was opened. Tells the receiver which sums storage keeps, if the
    /// strategy uses them.
    pub(super) fn open(
        &self,
        ways: StrategySums,
        spec: ChunkerSpec,
        file: FileNo,
        cx: &mut Context,
    ) -> Self {
        match self {
            Self::Closed(kept) if cx.abilities.agrees_on_sums && ways.negotiates() => {
                cx.send(ToReceiver::Keeps { file, kept: *kept });
                Self::Unsigned(*kept)
            }
            _ => Self::Coming(Box::new(ways.block_sums(spec))),
        }
    }
}

impl PresetSender {
    /// Takes the kind of sums that the receiver chose for the signature. Returns the kind that storage keeps here.
    pub(crate) fn receive_signature_sums(
        &mut self,
        by: Option<BlockSumSpec>,
    ) -> Result<Option<BlockSumSpec>, PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a choice of signature sums in this state");
        let MatchMethod::Signature(old) = &mut self.side else { return Err(UNFIT) };
        let Signature::Unsigned(here) = *old else { return Err(UNFIT) };
        if let Some(kept) = by {
            (self.ways, self.spec) = self.ways.with_stored_sums(kept).ok_or(UNFIT)?;
        }
        *old = Signature::Coming(Box::new(self.ways.block_sums(self.spec)));
        Ok(here)
    }

    /// Takes sums of the next blocks of the old version. Starts the search after the last sums.
    pub(crate) fn take_old_sums(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("signature sums in this state");
        let StrategySums { keying, .. } = self.ways;
        let MatchMethod::Signature(old) = &mut self.side else { return Err(UNFIT) };
        let Signature::Coming(sums) = old else { return Err(UNFIT) };
        self.old_sums += lines.len();
        for line in lines {
            if sums.count() as usize >= MAX_SUMS {
                return Err(PeerError::Limit("sums of one file"));
            }
            let Sum { len, weak, strong } = line.resolve(sums.count(), |no| sum_of(sums, no))?;
            let pushed = sums.push(len, weak, strong.as_bytes());
            pushed.map_err(|_| {
                PeerError::Unexpected("a block in a wrong order, or of a wrong length")
            })?;
        }
        if matches!(extent, Extent::Part | Extent::Empty) {
            return Err(PeerError::Unexpected("a partial list of signature sums"));
        }
        if extent == Extent::Last
            && let Signature::Coming(sums) = std::mem::replace(old, Signature::Known)
        {
            self.search(attempt, cx, Search::New(*sums, self.ways.locality(), keying));
        }
        Ok(())
    }

    fn search(&mut self, attempt: &SendAttempt, cx: &mut Context, search: Search) {
        let (handle, start) = (attempt.handle, self.scanned);
        let digest = self.digest.take();
        let work = SenderWork::File(FileWork::Search { handle, start, search, digest });
        cx.jobs.request(work, SenderPending::Search(handle));
    }

    /// Sends the results of a search, then continues the search or seals the file.
    pub(crate) fn take_search_result(
        &mut self,
        attempt: &mut SendAttempt,
        cx: &mut Context,
        searched: Searched,
    ) -> Result<(), Trouble> {
        let Searched { patches, consumed, at_end, searcher, digest } = searched;
        self.scanned += consumed;
        if self.scanned > attempt.len || at_end && self.scanned < attempt.len {
            return Err(attempt.retry_trouble(CHANGED));
        }
        self.digest = digest;
        let proof = at_end.then(|| self.sealing());
        let file = attempt.file;
        let frame = |(steps, payload)| ToReceiver::Patch { file, steps, payload };
        cx.frames.extend(patches.into_iter().map(frame));
        attempt.count_settled(cx, consumed);
        if let Some(proof) = proof {
            let counts = searcher.counts();
            cx.counts.add(counts.weak, counts.strong);
            attempt.request_proof(cx, proof);
        } else {
            self.continue_search(attempt, cx, searcher);
        }
        Ok(())
    }

    /// Continues a search, by regions if several threads share the work.
    fn continue_search(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        searcher: Box<Searcher>,
    ) {
        let MatchMethod::Signature(old) = &mut self.side else { return };
        let shares = self.ways.parallel_mode(cx.options.threads) == ParallelMode::Regions;
        match old {
            Signature::Shared(regions) => regions.give_back_search(searcher),
            _ if !shares => return self.search(attempt, cx, Search::On(searcher)),
            _ => match SearchRegions::divide(searcher, self.scanned..attempt.len) {
                Ok(regions) => *old = Signature::Shared(regions),
                Err(searcher) => return self.search(attempt, cx, Search::On(searcher)),
            },
        }
        self.search_regions(attempt, cx);
    }

    /// Takes the matches of a region.
    pub(crate) fn take_region_matches(
        &mut self,
        attempt: &SendAttempt,
        cx: &mut Context,
        no: u64,
        region: SearchedRegion,
    ) {
        if let MatchMethod::Signature(Signature::Shared(regions)) = &mut self.side {
            regions.take_region(no, region);
            self.search_regions(attempt, cx);
        }
    }

    /// Starts the search of all regions for which there is room, and joins the next region if its search has ended.
    fn search_regions(&mut self, attempt: &SendAttempt, cx: &mut Context) {
        let MatchMethod::Signature(Signature::Shared(regions)) = &mut self.side else { return };
        let (handle, start) = (attempt.handle, self.scanned);
        if let Some((searcher, region)) = regions.next_to_join() {
            let (region, digest) = (Box::new(region), self.digest.take());
            let work = SenderWork::File(FileWork::Join { handle, start, searcher, region, digest });
            cx.jobs.request(work, SenderPending::Search(handle));
        }
        while let Some((no, region)) = regions.next() {
            let work =
                SenderWork::File(FileWork::Find { handle, region, blocks: regions.blocks() });
            cx.jobs.request(work, SenderPending::Find(handle, no));
        }
    }
}
