//! Files with holes that are not transferred. The sender tells the places of data before `Start`, and the receiver
//! reads old versions in the order of that data (docs/decisions/0066).

use std::ops::Range;
use std::sync::Arc;

use deltic_core::DataMap;

use crate::error::PeerError;
use crate::limits::{MAX_DATA_RUNS, MAX_SMALL_DATA_RUNS};
use crate::message::{DataLine, FileNo};
use crate::receiver::ask::{OldVersionWork, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;
use crate::work::{Handle, WorkError};

use super::WantedFiles;
use super::incoming::{AttemptStage, UNFIT};

impl WantedFiles {
    /// Takes the next data runs of a requested file. A file listed as small that has more runs than a small file can
    /// have is treated as grown.
    pub(super) fn receive_data_map(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        lines: &[DataLine],
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.under_way.get_mut(&file) else { return Ok(()) };
        let expected = match &mut incoming.stage {
            AttemptStage::Asked(expected) if cx.setting.takes_holes => expected,
            AttemptStage::Over { .. } => return Ok(()),
            _ => return Err(UNFIT),
        };
        if lines.is_empty() && expected.data.is_some() {
            return Err(UNFIT);
        }
        let runs = expected.data.get_or_insert_default();
        let count = runs.len() + lines.len();
        if count > MAX_DATA_RUNS {
            return Err(PeerError::Limit("runs of data"));
        }
        if count > MAX_SMALL_DATA_RUNS && !incoming.candidate.is_large() {
            let handle = incoming.handle;
            self.fail_outgrown(cx, handle);
            return Ok(());
        }
        for line in lines {
            let end = runs.last().map_or(0, |run: &Range<u64>| run.end);
            let start = end.checked_add(line.hole).ok_or(UNFIT)?;
            runs.push(start..start.checked_add(line.data).ok_or(UNFIT)?);
        }
        Ok(())
    }

    /// Asks the driver to read the old versions of a file in the order of data in `map`.
    pub(super) fn request_data_order(&self, cx: &mut Context, file: FileNo, map: Arc<DataMap>) {
        let handle = self.under_way[&file].handle;
        cx.request_work(
            ReceiverWork::Old(OldVersionWork::View { handle, map }),
            FilePending::View(handle),
        );
    }

    /// Takes the lengths of the old versions in the new order of reading.
    pub(super) fn take_data_order(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        lens: Result<Vec<u64>, WorkError>,
    ) {
        let lens = match lens {
            Ok(lens) => lens,
            Err(error) => return self.fail_attempt(cx, handle, error),
        };
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let Some(file_len) = incoming.running_transfer().map(|transfer| transfer.meta().len) else {
            return;
        };
        incoming.old.set_view_lens(lens, file_len);
        let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else { return };
        transfer.use_data_order(&mut fx);
        let outcome = fx.take_outcome();
        self.apply_outcome(cx, handle, outcome);
    }
}
