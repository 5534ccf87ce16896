//! Sums of new, told chunk by chunk: the first step of the conversations in which the sender tells and the receiver
//! searches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::recipe::{Chunk, FileDigest};
use deltic_core::strategy::{Conversation, Delivery, Proof};
use deltic_core::{BlockSums, Fingerprint, Strategy, StrongSum};

use crate::error::PeerError;
use crate::limits::{MAX_BATCH, MAX_SUMS, SUM_WINDOW};
use crate::message::{Extent, FileNo, How, ToReceiver};
use crate::report::Trouble;
use crate::summing::{Step, Summation, Summed};
use crate::sums::{Sum, SumLine, Summing, Teller, Ways};
use crate::work::Handle;

use super::confirm::Confirm;
use super::file::{CHANGED, GroupStart, Outgoing};
use super::{Place, Sealing, Sender, Work};

/// It is tried again, in the end whole.
pub(super) const TOO_MANY_SUMS: &str = "it has too many chunks for this strategy";
/// Chunks between places of which the start is remembered.
const MARK_CHUNKS: usize = 64;

/// What an attempt by a strategy of the papers knows besides the chunks.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) ways: Ways,
    /// Present where the proof is over the bytes, and not under way.
    pub(super) digest: Option<Box<FileDigest>>,
    pub(super) side: Side,
    teller: Teller,
    /// Sums that were not told.
    waiting: VecDeque<SumLine>,
    /// From when new is open, where its sums are told.
    summation: Option<Summation>,
    /// All of new is cut.
    cut: bool,
    /// The last sum was told.
    told_last: bool,
}

/// What follows the sums.
#[derive(Debug)]
pub(super) enum Side {
    /// Matches to be confirmed.
    Confirm(Confirm),
    /// Needs: which blocks were asked for.
    Rolled(Vec<bool>),
    /// The receiver tells the sums: those of old, from when new is open until all are told.
    Signature(Option<Box<BlockSums>>),
}

impl Talk {
    pub(super) fn new(strategy: Strategy, how: How) -> Option<Box<Self>> {
        let ways = Ways::of(strategy, how)?;
        let side = match strategy.conversation {
            Conversation::RecipeConfirm => Side::Confirm(Confirm::default()),
            Conversation::RecipeRolled => Side::Rolled(Vec::new()),
            Conversation::Signature => Side::Signature(None),
            Conversation::Recipe => return None,
        };
        let digest = (strategy.proof() == Proof::WholeFile).then(Box::default);
        let (teller, waiting) = (Teller::default(), VecDeque::new());
        let (summation, cut, told_last) = (None, false, false);
        Some(Box::new(Self { ways, digest, side, teller, waiting, summation, cut, told_last }))
    }

    pub(super) fn is_pipelined(&self) -> bool {
        self.ways.strategy.delivery == Delivery::Pipelined
    }

    /// Whether every chunk was told.
    pub(super) fn told_all(&self) -> bool {
        self.told_last
    }

    fn is_rolled(&self) -> bool {
        matches!(self.side, Side::Rolled(_))
    }

    /// The strong sums that are taken of chunks while they are cut: those that travel, and those that prove.
    fn strong(&self) -> Option<deltic_core::Strong> {
        let proves = self.ways.strategy.proof() == Proof::Recipe;
        (self.is_rolled() || proves).then_some(self.ways.strong)
    }

    /// What travels of a chunk's sums.
    fn line(&mut self, sum: Sum) -> SumLine {
        let travels = if self.is_rolled() { self.ways.strong_bytes() } else { 0 };
        self.teller.line(Sum { strong: sum.strong.first(travels), ..sum })
    }

    /// Frames for what may be told by now.
    fn tell(&mut self, file: FileNo) -> Vec<ToReceiver> {
        if !self.cut && !self.is_pipelined() || self.told_last {
            return Vec::new();
        }
        let room = match &self.side {
            Side::Confirm(confirm) if self.is_pipelined() => {
                SUM_WINDOW.saturating_sub(confirm.unnamed()) as usize
            }
            _ => self.waiting.len(),
        };
        let waiting: Vec<_> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        match &mut self.side {
            Side::Confirm(confirm) => confirm.told(waiting.len()),
            Side::Rolled(asked) => asked.resize(asked.len() + waiting.len(), false),
            Side::Signature(_) => {}
        }
        self.told_last = self.cut && self.waiting.is_empty();
        let mut batches: Vec<_> = waiting.chunks(MAX_BATCH).map(<[_]>::to_vec).collect();
        if self.told_last && batches.is_empty() {
            batches.push(Vec::new());
        }
        let last = batches.len().saturating_sub(1);
        let frame = |(nth, sums)| {
            let extent = if self.told_last && nth == last { Extent::Last } else { Extent::More };
            ToReceiver::Sums { file, sums, extent }
        };
        batches.into_iter().enumerate().map(frame).collect()
    }
}

impl Outgoing {
    /// Whether the receiver rolls over old, and asks for blocks when it is done.
    pub(super) fn rolls(&self) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.is_rolled())
    }

    /// Blocks that the receiver did not find, each once.
    pub(super) fn need_blocks(&mut self, needed: &[Range<u32>]) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("blocks that were not told, or again");
        let Some(talk) = &mut self.talk else { return Err(UNFIT) };
        let told_all = talk.told_all();
        let Side::Rolled(asked) = &mut talk.side else { return Err(UNFIT) };
        for range in needed {
            let blocks = asked.get_mut(range.start as usize..range.end as usize);
            let blocks = blocks.filter(|_| told_all).ok_or(UNFIT)?;
            if blocks.iter_mut().any(|asked| std::mem::replace(asked, true)) {
                return Err(UNFIT);
            }
        }
        self.need_bytes += needed.iter().map(|range| self.bytes_of(range)).sum::<u64>();
        self.needs.extend(needed.iter().cloned());
        Ok(())
    }

    fn push_sum(&mut self, sum: &Sum) {
        if self.chunks.len().is_multiple_of(MARK_CHUNKS) {
            self.groups.push(self.next_group);
        }
        let GroupStart { start, chunk } = &mut self.next_group;
        (*start, *chunk) = (*start + u64::from(sum.len), *chunk + 1);
        let chunk = Chunk { len: sum.len, fingerprint: fingerprint_of(&sum.strong) };
        let chunks = Arc::get_mut(&mut self.chunks);
        chunks.expect("only sealing shares the chunks").push(chunk);
    }
}

/// A strong sum as the name of its chunk; of use where it is one.
fn fingerprint_of(sum: &StrongSum) -> Fingerprint {
    let mut bytes = [0; deltic_core::strong::MAX_STRONG_BYTES];
    bytes[..sum.as_bytes().len()].copy_from_slice(sum.as_bytes());
    Fingerprint::from_bytes(bytes)
}

impl Sender {
    /// New is open.
    pub(super) fn begin(&mut self, file: FileNo) {
        let Some(outgoing) = self.files.get_mut(&file) else { return };
        let (spec, len) = (outgoing.spec, outgoing.len);
        let Some(talk) = &mut outgoing.talk else { return };
        if let Side::Signature(old) = &mut talk.side {
            *old = Some(Box::new(talk.ways.block_sums(spec)));
            return;
        }
        let parallel = talk.ways.strategy.parallel;
        talk.summation = Some(Summation::new((parallel, &spec), len, talk.strong()));
        self.sum_more(file);
    }

    /// Goes on telling, cutting and summing, as far as the window of chunks that no match has named allows.
    pub(super) fn sum_more(&mut self, file: FileNo) {
        let Some(outgoing) = self.files.get_mut(&file) else { return };
        let (handle, chunker) = (outgoing.handle, outgoing.spec);
        let Some(talk) = &mut outgoing.talk else { return };
        let told_before = talk.told_last;
        self.frames.extend(talk.tell(file));
        if talk.told_last {
            if told_before {
                return;
            }
            let proof = match &talk.digest {
                Some(digest) => Sealing::Bytes(digest.finish()),
                None => Sealing::Chunks(Arc::clone(&outgoing.chunks)),
            };
            return self.seal(handle, proof);
        }
        let summing = Summing { chunker, weak: talk.ways.weak, strong: talk.strong() };
        while talk.waiting.is_empty() || !talk.is_pipelined() {
            let Some(summation) = &mut talk.summation else { return };
            let Some((step, portion)) = summation.next() else { return };
            let digest = talk.digest.take();
            let work = Work::Sum { handle, summing, portion, digest };
            self.jobs.ask(work, Place::Sum(handle, step));
        }
    }

    pub(super) fn summed(
        &mut self,
        handle: Handle,
        step: Step,
        summed: Result<(Summed, Option<Box<FileDigest>>), Trouble>,
    ) {
        let (summed, digest) = match summed {
            Ok(summed) => summed,
            Err(trouble) => return self.fail(handle, trouble),
        };
        let Some((file, outgoing)) = self.outgoing(handle) else { return };
        let Some(talk) = &mut outgoing.talk else { return };
        let Some(summation) = &mut talk.summation else { return };
        let sums = summation.take(step, summed);
        let (complete, too_many) = (summation.is_complete(), summation.is_too_much());
        outgoing.scanned += sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        if outgoing.scanned > outgoing.len || complete && outgoing.scanned < outgoing.len {
            return self.fail_for(handle, CHANGED);
        }
        if too_many || outgoing.chunks.len() + sums.len() > MAX_SUMS {
            return self.fail_for(handle, TOO_MANY_SUMS);
        }
        sums.iter().for_each(|sum| outgoing.push_sum(sum));
        let Some(talk) = &mut outgoing.talk else { return };
        for sum in sums {
            let line = talk.line(sum);
            talk.waiting.push_back(line);
        }
        (talk.cut, talk.digest) = (complete, digest);
        self.sum_more(file);
    }
}
