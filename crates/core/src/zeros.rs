//! Removes runs of zeros from literals before sending.
//!
//! ```text
//! bytes   a b c 0 0 0 … 0 d e 0 0 … 0        runs   (3, 0 0 0 … 0) (2, 0 0 … 0)
//!                                            rest   a b c d e
//! ```
//!
//! Every run of [`LEAST_RUN`] bytes contains a whole *probe*: `PROBE` bytes at a multiple of `STRIDE`. So input
//! without zeros costs one short check for each `STRIDE` bytes, not a pass over all bytes.

/// Minimum length of a run that is removed, in bytes. Shorter runs stay, because removing a run moves all bytes
/// after the run.
pub const LEAST_RUN: usize = 1024;

const STRIDE: usize = 512;
const PROBE: usize = 64;
const _: () = assert!(STRIDE + PROBE <= LEAST_RUN, "every run contains a probe");

/// A run of zeros, with the number of other bytes since the previous run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroRun {
    /// Number of other bytes between the previous run and this run.
    pub before: u32,
    /// Length of this run in bytes.
    pub len: u32,
}

/// Removes every run of at least [`LEAST_RUN`] zeros from `bytes`. Returns the runs and the remaining bytes.
#[must_use]
pub fn remove_zero_runs(mut bytes: Vec<u8>) -> (Vec<ZeroRun>, Vec<u8>) {
    let (mut runs, mut kept, mut from) = (Vec::new(), 0, 0);
    let mut at = 0;
    while at + PROBE <= bytes.len() {
        if !is_zero(&bytes[at..at + PROBE]) {
            at += STRIDE;
            continue;
        }
        let start = at - bytes[from..at].iter().rev().take_while(|byte| **byte == 0).count();
        let end = at + leading_zeros(&bytes[at..]);
        if end - start >= LEAST_RUN {
            let before = start - from;
            bytes.copy_within(from..start, kept);
            runs.push(ZeroRun { before: before as u32, len: (end - start) as u32 });
            (kept, from) = (kept + before, end);
        }
        at = (end + 1).next_multiple_of(STRIDE);
    }
    if !runs.is_empty() {
        let left = bytes.len() - from;
        bytes.copy_within(from.., kept);
        bytes.truncate(kept + left);
    }
    (runs, bytes)
}

/// Inserts `runs` into `rest`. Returns `None` if the result would not be exactly `len` bytes.
#[must_use]
pub fn insert_zero_runs(runs: &[ZeroRun], rest: &[u8], len: usize) -> Option<Vec<u8>> {
    if rest_len(runs, len) != Some(rest.len()) {
        return None;
    }
    let (mut bytes, mut rest, mut at) = (vec![0; len], rest, 0);
    for run in runs {
        let piece = rest.split_off(..run.before as usize)?;
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len() + run.len as usize;
    }
    bytes[at..].copy_from_slice(rest);
    Some(bytes)
}

/// The number of remaining bytes, if `len` bytes contain these `runs`. Returns `None` if the runs and the bytes
/// between them exceed `len`.
#[must_use]
pub fn rest_len(runs: &[ZeroRun], len: usize) -> Option<usize> {
    let sum = |of: fn(&ZeroRun) -> u32| runs.iter().map(|run| u64::from(of(run))).sum::<u64>();
    let rest = (len as u64).checked_sub(sum(|run| run.len))?;
    (sum(|run| run.before) <= rest).then_some(rest as usize)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |any, byte| any | byte) == 0
}

/// Number of leading zeros of `bytes`.
fn leading_zeros(bytes: &[u8]) -> usize {
    let whole = bytes.chunks_exact(PROBE).take_while(|part| is_zero(part)).count() * PROBE;
    whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs of zeros and ones, of lengths around the constants of this module.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let len = prop_oneof![
            0..4usize,
            PROBE - 1..PROBE + 2,
            STRIDE - 1..STRIDE + 2,
            LEAST_RUN - 2..LEAST_RUN + 3,
            0..4 * LEAST_RUN,
        ];
        let run = (any::<bool>(), len).prop_map(|(zero, len)| vec![u8::from(!zero); len]);
        prop::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
    }

    /// Reference implementation: slow and obvious.
    fn reference(bytes: &[u8]) -> (Vec<ZeroRun>, Vec<u8>) {
        let (mut runs, mut rest, mut before) = (Vec::new(), Vec::new(), 0);
        for run in bytes.chunk_by(|one, next| (*one == 0) == (*next == 0)) {
            if run[0] == 0 && run.len() >= LEAST_RUN {
                runs.push(ZeroRun { before, len: run.len() as u32 });
                before = 0;
            } else {
                rest.extend_from_slice(run);
                before += run.len() as u32;
            }
        }
        (runs, rest)
    }

    proptest! {
        #[test]
        fn every_long_run_is_taken_out_and_put_back(bytes in content()) {
            let (runs, rest) = remove_zero_runs(bytes.clone());
            prop_assert_eq!((&runs, &rest), (&reference(&bytes).0, &reference(&bytes).1));
            prop_assert_eq!(insert_zero_runs(&runs, &rest, bytes.len()), Some(bytes));
        }

        #[test]
        fn runs_that_do_not_fit_the_length_are_refused(
            runs in prop::collection::vec((0..9u32, 0..9u32), 0..5),
            rest in 0..20usize,
            len in 0..40usize,
        ) {
            let runs: Vec<_> = runs.iter().map(|(before, len)| ZeroRun { before: *before, len: *len }).collect();
            let made = insert_zero_runs(&runs, &vec![1; rest], len);
            let zeros: usize = runs.iter().map(|run| run.len as usize).sum();
            let between: usize = runs.iter().map(|run| run.before as usize).sum();
            prop_assert_eq!(made.is_some(), zeros + rest == len && between <= rest);
            prop_assert!(made.is_none_or(|made| made.iter().filter(|byte| **byte == 0).count() == zeros));
        }
    }

    #[test]
    fn lengths_near_the_integer_limit_do_not_overflow() {
        let runs = [ZeroRun { before: u32::MAX, len: u32::MAX }; 4];
        assert_eq!(rest_len(&runs, usize::MAX), Some(usize::MAX - 4 * u32::MAX as usize));
        assert_eq!(rest_len(&runs, 1 << 20), None);
    }
}
