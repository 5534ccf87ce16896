//! Blocks with stored sums that the sender listed, and how many of them the old versions lack (docs/decisions/0044).
//!
//! Blocks have fixed places. Bytes that are inserted into a file shift all later bytes, so that the blocks behind have
//! no equal in the old version. Such a file is cut by content in another attempt.

use crate::report::{Trouble, TroubleKind};
use crate::work::{ErrorAction, WorkError};

use super::file_context::FileContext;
use super::table::GroupTable;

/// Bytes of lacked blocks that are sent as they are, however few other blocks are found.
const MAX_LACKED_BYTES: u64 = 1 << 20;

/// Listed blocks at places that the old version has too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListedBlocks {
    bytes: u64,
    /// Bytes of the blocks that the old versions lack.
    lacked_bytes: u64,
}

impl ListedBlocks {
    /// Counts the blocks of group `no`, if they have stored sums. Returns `lacked`, the blocks that the old versions
    /// lack.
    pub(super) fn counted(
        &mut self,
        table: &GroupTable,
        no: u32,
        lacked: Vec<u32>,
        fx: &FileContext<'_>,
    ) -> Vec<u32> {
        let (setting, slot) = (&fx.cx.setting, &table.groups[no as usize]);
        let is_summed = setting.summed_blocks.is_some_and(|blocks| blocks.chunker == table.spec);
        let old_len = fx.old.len_of(fx.old.first_nonempty());
        if is_summed && !setting.options.dry_run && slot.start < old_len {
            self.bytes += slot.len;
            self.lacked_bytes += lacked.len() as u64 * u64::from(table.spec.max_len());
        }
        lacked
    }

    /// True if most blocks are lacked: probably, bytes before the blocks were inserted or removed.
    pub(super) const fn are_shifted(self) -> bool {
        self.lacked_bytes > MAX_LACKED_BYTES && self.lacked_bytes * 2 > self.bytes
    }
}

/// Returns the error that leads to another attempt, in which the file is cut by content.
pub(super) fn shifted_error() -> WorkError {
    let message = "receive: bytes were inserted or removed before most blocks";
    let trouble = Trouble::new(TroubleKind::Failed, message);
    WorkError { trouble, then: ErrorAction::Retry }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lacked_blocks_among_few_found_ones_are_shifted() {
        const MIB: u64 = 1 << 20;
        for (bytes, lacked_bytes, shifted) in
            [(0, 0, false), (MIB, MIB, false), (2 * MIB, 2 * MIB, true), (9 * MIB, 4 * MIB, false)]
        {
            assert_eq!(ListedBlocks { bytes, lacked_bytes }.are_shifted(), shifted, "{bytes}");
        }
    }
}
