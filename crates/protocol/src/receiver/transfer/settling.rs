//! The end of a transfer: the result is put in place, or is found in place.

use deltic_core::recipe::Digest;

use crate::message::BriefDigest;
use crate::receiver::ask::{ReceiverWork, SettleWork, SmallFile};
use crate::receiver::pending::FilePending;
use crate::work::WorkTurn;

use super::file_context::{FileContext, TransferOutcome};
use super::proof::{Proof, ProofChunks, ProofOf};
use super::{IncomingTransfer, TransferMethod, TransferPhase};

impl IncomingTransfer {
    /// True if the version in place already is the new version, and is not to be written again.
    pub(crate) fn is_identical(&self, fx: &FileContext<'_>) -> bool {
        let in_blocks = matches!(self.method, TransferMethod::Blocks(_));
        let is_compared = !in_blocks && !fx.cx.setting.options.rewrites_equal();
        is_compared && self.build.is_identical(fx.old.len_that_stays())
    }

    /// Puts the result of a complete transfer in place, or finds the same version in place.
    pub(crate) fn commit_or_keep(&mut self, fx: &mut FileContext<'_>) {
        let TransferPhase::Ended(digest) = self.phase else { return };
        let (handle, path, seen) = (fx.handle, fx.path, fx.seen);
        if let TransferMethod::Blocks(blocks) = &mut self.method
            && blocks.is_single()
        {
            let (payload, payload_bytes) = (blocks.take_single_block(), self.meta.len as usize);
            let (path, meta, seen) = (path.clone(), self.meta.clone(), seen.cloned());
            let work = ReceiverWork::Settle(SettleWork::Replace(SmallFile {
                path,
                meta,
                seen,
                payload,
                digest: BriefDigest::of(&digest),
            }));
            let pending = FilePending::Replace { handle, payload_bytes };
            fx.cx.request_write(WorkTurn::Any, work, pending);
        } else if self.is_identical(fx) {
            let proof = self.take_proof(digest);
            let path = path.clone();
            fx.cx.request_work(
                ReceiverWork::Settle(SettleWork::Confirm { handle, path, proof }),
                FilePending::Confirm(handle),
            );
        } else {
            // The new version is a prefix of the version in place: the held-back copies are needed after all.
            if self.build.holds_copies() && !matches!(self.method, TransferMethod::Blocks(_)) {
                self.start_held_copies(fx);
                if fx.is_over() || self.build.is_busy() {
                    return;
                }
            }
            if fx.cx.setting.options.dry_run {
                return fx.end_transfer(TransferOutcome::Differs);
            }
            debug_assert!(self.build.is_complete(), "{path} is quiet and not covered");
            let (path, meta, seen) = (path.clone(), self.meta.clone(), seen.cloned());
            let proof = self.take_proof(digest);
            let work = ReceiverWork::Settle(SettleWork::Commit { handle, path, meta, seen, proof });
            fx.cx.request_work(work, FilePending::Commit(handle));
        }
        self.phase = TransferPhase::Settling;
    }

    fn start_held_copies(&mut self, fx: &mut FileContext<'_>) {
        match &self.method {
            TransferMethod::Recipe(recipe) => {
                self.build.start_copies(fx, Vec::new(), true, Some(recipe.index()))
            }
            _ => self.build.start_copies(fx, Vec::new(), true, None),
        }
    }

    /// Takes the evidence that proves the new version, together with the index of old versions.
    fn take_proof(&mut self, digest: Digest) -> Proof {
        let all = |chunks| ProofOf::Chunks(Box::new(chunks));
        let of = match &mut self.method {
            TransferMethod::Recipe(recipe) => all(recipe.proof_chunks()),
            TransferMethod::Blocks(blocks) => all(ProofChunks::all_received(blocks.as_chunks())),
            TransferMethod::Changes(changes) => changes.proof(),
            TransferMethod::Preset(preset) => preset.proof(),
        };
        Proof { digest, of, map: self.build.new.map.clone() }
    }
}
