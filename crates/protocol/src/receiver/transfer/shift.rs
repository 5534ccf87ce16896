//! Tells if inserted or removed bytes shifted the blocks that have stored sums (docs/decisions/0044).
//!
//! Blocks have fixed places. Bytes that are inserted into a file shift all later bytes, so that the blocks behind have
//! no equal in the old version. Such a file is cut by content in another attempt.

use crate::report::{Trouble, TroubleKind};
use crate::work::{ErrorAction, WorkError};

use super::file_context::FileContext;
use super::table::GroupTable;

/// Bytes of lacked blocks that are sent as they are, however few other blocks are found.
const MAX_LACKED_BYTES: u64 = 1 << 20;

/// Blocks that were compared, and blocks of these that the old versions lack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShiftedBlocks {
    /// Bytes of the compared blocks that start within the old version.
    bytes: u64,
    /// Bytes of these blocks that the old versions lack.
    lacked_bytes: u64,
}

impl ShiftedBlocks {
    /// Counts the blocks of group `no`, if they have stored sums. The old versions lack the blocks `lacked`.
    pub(super) fn count(
        &mut self,
        table: &GroupTable,
        no: u32,
        lacked: &[u32],
        fx: &FileContext<'_>,
    ) {
        let (setting, slot) = (&fx.cx.setting, &table.groups[no as usize]);
        let is_summed = setting.summed_blocks.is_some_and(|blocks| blocks.chunker == table.spec);
        let old_len = fx.old.len_of(fx.old.first_nonempty());
        if is_summed && !setting.options.dry_run && slot.start < old_len {
            self.bytes += slot.len;
            self.lacked_bytes += lacked.len() as u64 * u64::from(table.spec.max_len());
        }
    }

    /// True if most blocks are lacked: probably, bytes before the blocks were inserted or removed.
    pub(super) const fn are_most(self) -> bool {
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
    fn blocks_are_shifted_if_the_old_version_lacks_most() {
        const MIB: u64 = 1 << 20;
        for (bytes, lacked_bytes, shifted) in
            [(0, 0, false), (MIB, MIB, false), (2 * MIB, 2 * MIB, true), (9 * MIB, 4 * MIB, false)]
        {
            assert_eq!(ShiftedBlocks { bytes, lacked_bytes }.are_most(), shifted, "{bytes}");
        }
    }
}
