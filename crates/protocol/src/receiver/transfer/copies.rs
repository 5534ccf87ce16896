//! Copies from the old versions to the new version, as found by steps and as made by a driver.

use std::ops::Range;

use deltic_core::Span;
use deltic_core::delta::{CopyRuns, DeltaOp, MAX_RUN_BYTES};

use crate::receiver::ask::CopyRun;

/// Copies found in a step, merged where they continue each other.
#[derive(Default)]
pub(super) struct FoundCopies {
    runs: CopyRuns,
    done: Vec<DeltaOp>,
}

impl FoundCopies {
    pub(super) fn push(&mut self, old: Span, new_start: u64) {
        self.done.extend(self.runs.push(old, new_start));
    }

    pub(super) fn finish(mut self) -> Vec<DeltaOp> {
        self.done.extend(self.runs.finish());
        self.done
    }
}

/// Number of bytes that an operation brings.
pub(super) fn op_bytes(op: &DeltaOp) -> u64 {
    match op {
        DeltaOp::Copy { old, .. } => u64::from(old.len),
        DeltaOp::Literal { new } => u64::from(new.len),
    }
}

/// Returns the copies in the form that a driver takes.
pub(super) fn copy_runs(ops: &[DeltaOp]) -> Vec<CopyRun> {
    let run = |op: &DeltaOp| match *op {
        DeltaOp::Copy { old, new_start } => Some(CopyRun { old, new_start }),
        DeltaOp::Literal { .. } => None,
    };
    ops.iter().filter_map(run).collect()
}

/// Splits copies into batches, each large enough for a thread and small enough to be done soon.
pub(super) fn batches(ops: &[DeltaOp]) -> Vec<Vec<CopyRun>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for op in ops {
        let DeltaOp::Copy { old, new_start } = *op else { continue };
        if bytes + old.len > MAX_RUN_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += old.len;
        batch.push(CopyRun { old, new_start });
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Merges ascending numbers into ranges.
pub(super) fn runs(numbers: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for no in numbers {
        match runs.last_mut() {
            Some(last) if last.end == no => last.end += 1,
            _ => runs.push(no..no + 1),
        }
    }
    runs
}
