//! The signature conversation: the sums of the blocks of old go to the sender, and patches come back
//! (rsync; SkySync §3.3).

use deltic_core::Span;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::delta::MAX_RUN_BYTES;

use crate::error::PeerError;
use crate::limits::{MAX_BATCH, MAX_FRAME_BYTES};
use crate::message::{Extent, FileNo, Payload, ToSender};
use crate::receiver::{Piece, Place, Receiver, Work};
use crate::sums::{PatchStep, Sum, Teller};

use super::Copies;
use super::talk::{Side, Told};

/// What was told of old.
#[derive(Debug)]
pub(super) struct Patched {
    block: u32,
    old_len: u64,
    teller: Teller,
    told_all: bool,
}

impl Patched {
    pub(super) fn new(spec: ChunkerSpec) -> Self {
        Self { block: spec.max_len(), old_len: 0, teller: Teller::default(), told_all: false }
    }

    /// How many bytes of old were told.
    pub(super) const fn old_len(&self) -> u64 {
        self.old_len
    }

    /// Frames that tell the next blocks of old.
    pub(super) fn tell(&mut self, file: FileNo, sums: &[Sum], at_end: bool) -> Vec<ToSender> {
        self.old_len += sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        self.told_all = at_end;
        let mut batches: Vec<Vec<_>> = (sums.chunks(MAX_BATCH))
            .map(|batch| batch.iter().map(|sum| self.teller.line(*sum)).collect())
            .collect();
        if at_end && batches.is_empty() {
            batches.push(Vec::new());
        }
        let last = batches.len().saturating_sub(1);
        let frame = |(nth, sums)| {
            let extent = if at_end && nth == last { Extent::Last } else { Extent::More };
            ToSender::Sums { file, sums, extent }
        };
        batches.into_iter().enumerate().map(frame).collect()
    }

    /// Takes the next steps: copies are noted, and where literals go is returned.
    fn take(
        &self,
        told: &mut Told,
        steps: &[PatchStep],
        copies: &mut Copies,
    ) -> Result<Vec<Piece>, PeerError> {
        let mut pieces = Vec::new();
        for step in steps {
            let left = told.len() - told.end;
            match step {
                PatchStep::Literal(len) => {
                    if *len == 0 || u64::from(*len) > left {
                        return Err(PeerError::Limit("bytes of a patch"));
                    }
                    pieces.push(Piece { span: Span::new(told.end, *len), short: None });
                    told.end += u64::from(*len);
                }
                PatchStep::Copy(blocks) => {
                    let block = u64::from(self.block);
                    let start = u64::from(blocks.start) * block;
                    let end = u64::from(blocks.end) * block;
                    if end >= self.old_len + block || end.min(self.old_len) - start > left {
                        return Err(PeerError::Limit("blocks of a patch"));
                    }
                    let mut at = start;
                    while at < end.min(self.old_len) {
                        let len = (end.min(self.old_len) - at).min(u64::from(MAX_RUN_BYTES));
                        copies.push(Span::new(at, len as u32), told.end);
                        (at, told.end) = (at + len, told.end + len);
                    }
                }
            }
        }
        Ok(pieces)
    }
}

impl Receiver {
    pub(in crate::receiver) fn patch(
        &mut self,
        file: FileNo,
        steps: &[PatchStep],
        payload: Payload,
    ) -> Result<(), PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("a patch");
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let path = incoming.candidate.path.clone();
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else {
            return Ok(());
        };
        let talk = attempt.talk.as_mut().ok_or(UNFIT)?;
        let Side::Patched(patched) = &talk.side else { return Err(UNFIT) };
        if !patched.told_all || attempt.end.is_some() || steps.is_empty() {
            return Err(UNFIT);
        }
        let (mut copies, before) = (Copies::default(), talk.told.end);
        let pieces = patched.take(&mut talk.told, steps, &mut copies)?;
        let bytes: usize = pieces.iter().map(|piece| piece.span.len as usize).sum();
        let fits = if pieces.is_empty() {
            payload == Payload::Plain(Vec::new())
        } else {
            bytes <= MAX_FRAME_BYTES && payload.may_hold(bytes)
        };
        if !fits {
            return Err(PeerError::Unexpected("literals of another length than their patch"));
        }
        attempt.matched += talk.told.end - before - bytes as u64;
        let (len, ops) = (attempt.meta.len, talk.ripe(copies));
        self.advance(file);
        self.copy(handle, ops, !pieces.is_empty());
        let Some((_, attempt)) = self.attempt_of(handle) else { return Ok(()) };
        if pieces.is_empty() {
            return Ok(());
        }
        attempt.jobs += 1;
        self.backlog_bytes += bytes;
        let spans: Vec<Span> = pieces.iter().map(|piece| piece.span).collect();
        let chunks = vec![0; spans.len()];
        self.jobs.ask(
            Work::Write { handle, path, len, pieces, payload },
            Place::Write { handle, chunks, spans, payload_bytes: bytes },
        );
        Ok(())
    }
}
