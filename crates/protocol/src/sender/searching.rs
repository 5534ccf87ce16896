//! The signature conversation: the receiver tells the sums of the blocks of old, and new is searched for them
//! (rsync; SkySync §3.3).

use crate::error::PeerError;
use crate::limits::{MAX_ACTIVE_LARGE, MAX_SUMS};
use crate::message::{Extent, FileNo, ToReceiver};
use crate::report::Trouble;
use crate::sums::{Search, Sum, SumLine, sum_of};
use crate::work::Handle;

use super::file::CHANGED;
use super::telling::Side;
use super::{Place, Sealing, Searched, Sender, Work};

/// Most sums of all files under way: those of the large ones, and room for all small ones together. A sum that was told before
/// is told again by one byte, and takes many times that.
const MAX_SUMS_HELD: usize = (MAX_ACTIVE_LARGE + 1) * MAX_SUMS;

impl Sender {
    pub(super) fn old_sums(
        &mut self,
        file: FileNo,
        lines: Vec<SumLine>,
        extent: Extent,
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("sums of old");
        let outgoing = self.files.get_mut(&file).expect("the caller found the attempt");
        let handle = outgoing.handle;
        let Some(talk) = &mut outgoing.talk else { return Err(UNFIT) };
        let locality = talk.ways.locality();
        let Side::Signature(old) = &mut talk.side else { return Err(UNFIT) };
        let sums = old.as_mut().ok_or(UNFIT)?;
        outgoing.old_sums += lines.len();
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
        let all = if extent == Extent::Last { old.take() } else { None };
        if self.files.values().map(|file| file.old_sums).sum::<usize>() > MAX_SUMS_HELD {
            return Err(PeerError::Limit("sums of all files"));
        }
        if let Some(sums) = all {
            self.search(handle, 0, Search::New(*sums, locality));
        }
        Ok(())
    }

    fn search(&mut self, handle: Handle, start: u64, search: Search) {
        let zstd = self.options.compress;
        let Some((_, outgoing)) = self.outgoing(handle) else { return };
        let digest = outgoing.talk.as_mut().and_then(|talk| talk.digest.take());
        let digest = digest.unwrap_or_default();
        let work = Work::Search { handle, start, search, digest, zstd };
        self.jobs.ask(work, Place::Search(handle));
    }

    pub(super) fn searched(&mut self, handle: Handle, searched: Result<Searched, Trouble>) {
        let Searched { patches, consumed, at_end, searcher, digest } = match searched {
            Ok(searched) => searched,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        outgoing.scanned += consumed;
        let (scanned, len) = (outgoing.scanned, outgoing.len);
        if scanned > len || at_end && scanned < len {
            return self.fail_for(handle, CHANGED);
        }
        let proof = at_end.then(|| Sealing::Bytes(digest.finish()));
        if let Some(talk) = &mut outgoing.talk {
            talk.digest = Some(digest);
        }
        outgoing.settled = scanned;
        let frame = |(steps, payload)| ToReceiver::Patch { file, steps, payload };
        self.frames.extend(patches.into_iter().map(frame));
        self.advance(file, scanned);
        if let Some(proof) = proof {
            let counts = searcher.counts();
            self.counts.add(counts.weak, counts.strong);
            self.seal(handle, proof);
        } else {
            self.search(handle, scanned, Search::On(searcher));
        }
    }
}
