//! The signature conversation: sums of the old version's blocks go to the sender, and patches come back (rsync;
//! SkySync §3.3).

use deltic_core::Span;
use deltic_core::chunk::ChunkerSpec;

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::{Extent, FileNo, ToSender};
use crate::receiver::ask::PayloadChunk;
use crate::sums::{PatchStep, Sum, SumEncoder, SumLine};

use super::super::copies::FoundCopies;
use super::chunks::PeerChunks;

/// The blocks of the old version, as told to the sender.
#[derive(Debug)]
pub(super) struct PatchedBlocks {
    block: u32,
    old_len: u64,
    encoder: SumEncoder,
    /// For each block, the first block with the same sums.
    firsts: Vec<u32>,
    pub(super) is_all_sent: bool,
}

impl PatchedBlocks {
    pub(super) fn new(spec: ChunkerSpec) -> Self {
        let (encoder, firsts) = (SumEncoder::default(), Vec::new());
        Self { block: spec.max_len(), old_len: 0, encoder, firsts, is_all_sent: false }
    }

    /// Returns the frames that tell the next blocks of the old version, with at most `most` blocks each.
    pub(super) fn next_frames(
        &mut self,
        file: FileNo,
        most: usize,
        sums: &[Sum],
        at_end: bool,
    ) -> Vec<ToSender> {
        self.old_len += sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        self.is_all_sent = at_end;
        let lines: Vec<_> = sums.iter().map(|sum| self.sum_line(*sum)).collect();
        let mut batches: Vec<Vec<_>> = lines.chunks(most).map(<[_]>::to_vec).collect();
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

    fn sum_line(&mut self, sum: Sum) -> SumLine {
        let (no, line) = (self.firsts.len() as u32, self.encoder.sum_line(sum));
        self.firsts.push(match line {
            SumLine::New(_) => no,
            SumLine::Again(back) => self.firsts[(no - back) as usize],
        });
        line
    }

    /// Returns the place of a block in the old version. Of equal blocks, the one at the new offset is preferred, so
    /// that an unchanged file is recognised.
    fn span(&self, no: u32, new_start: u64) -> Span {
        let block = u64::from(self.block);
        let own = (new_start / block) as usize;
        let equals = self.firsts.get(own) == self.firsts.get(no as usize);
        let no = if equals && new_start.is_multiple_of(block) { own as u64 } else { u64::from(no) };
        Span::new(no * block, block.min(self.old_len - no * block) as u32)
    }

    /// Takes the next steps: adds copies to `copies`, and returns the places of literals. Errors: `Limit`.
    pub(super) fn take_steps(
        &self,
        chunks: &mut PeerChunks,
        steps: &[PatchStep],
        copies: &mut FoundCopies,
    ) -> Result<Vec<PayloadChunk>, PeerError> {
        let (mut pieces, mut blocks_left) = (Vec::new(), MAX_SUMS);
        for step in steps {
            match step {
                PatchStep::Literal(len) => {
                    if *len == 0 || u64::from(*len) > chunks.len() - chunks.end {
                        return Err(PeerError::Limit("bytes of a patch"));
                    }
                    pieces.push(PayloadChunk { span: Span::new(chunks.end, *len), brief: None });
                    chunks.end += u64::from(*len);
                }
                PatchStep::Copy(blocks) => {
                    let left = blocks_left.checked_sub(blocks.len());
                    if blocks.end as usize > self.firsts.len() || left.is_none() {
                        return Err(PeerError::Limit("blocks of a patch"));
                    }
                    blocks_left = left.unwrap_or(0);
                    for no in blocks.clone() {
                        let span = self.span(no, chunks.end);
                        if u64::from(span.len) > chunks.len() - chunks.end {
                            return Err(PeerError::Limit("bytes of a patch"));
                        }
                        copies.push(span, chunks.end);
                        chunks.end += u64::from(span.len);
                    }
                }
            }
        }
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use deltic_core::StrongSum;
    use deltic_core::chunk::FixedLen;

    use super::*;

    #[test]
    fn one_patch_copies_no_more_blocks_than_old_can_have() {
        const BLOCK: u32 = 8192;
        const BLOCKS: u32 = 1 << 10;
        let most = MAX_SUMS / BLOCKS as usize;
        let new_len = (most as u64 + 1) * u64::from(BLOCKS * BLOCK);
        let spec = ChunkerSpec::Fixed(FixedLen::new(BLOCK).unwrap());
        let mut chunks = PeerChunks::new(spec, new_len);
        let mut patched = PatchedBlocks::new(spec);
        let sum = |weak| Sum { len: BLOCK, weak, strong: StrongSum::NONE };
        patched.next_frames(FileNo(0), 100, &(0..BLOCKS).map(sum).collect::<Vec<_>>(), true);
        let mut steps = vec![PatchStep::Copy(0..BLOCKS); most];
        assert!(patched.take_steps(&mut chunks, &steps, &mut FoundCopies::default()).is_ok());
        chunks.end = 0;
        steps.push(PatchStep::Copy(0..1));
        let refused = patched.take_steps(&mut chunks, &steps, &mut FoundCopies::default());
        assert_eq!(refused.unwrap_err(), PeerError::Limit("blocks of a patch"));
    }
}
