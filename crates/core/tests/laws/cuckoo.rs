//! The cuckoo index equals a map of lists.

use std::collections::HashMap;

use deltic_core::index::{CuckooIndex, SumBits};
use proptest::prelude::*;
use proptest::sample::select;

use crate::random;

/// Sums of many kinds: random, repeated, in few buckets, and adjacent.
fn sums() -> impl Strategy<Value = Vec<u64>> {
    let lens = select(vec![0, 1, 4, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 5000]);
    (lens, any::<u64>(), 0..5).prop_map(|(len, seed, kind)| {
        let bytes = random(seed, len * 8);
        let spread = bytes.chunks(8).map(|word| word.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        let sum = |(n, word): (usize, u64)| match kind {
            0 => word,
            1 => word % 50,
            2 => word & 0x00ff_ff00_00ff_ff00,
            3 => n as u64 * 0x1_0000_0001,
            _ => [word, word % 7, word & 0x00ff_ff00][n % 3],
        };
        spread.enumerate().map(sum).collect()
    })
}

fn check<S: SumBits + std::hash::Hash>(
    index: &mut CuckooIndex<S>,
    sums: &[S],
    others: &[S],
) -> Result<(), TestCaseError> {
    let mut oracle: HashMap<S, Vec<usize>> = HashMap::new();
    for (chunk, sum) in sums.iter().enumerate() {
        oracle.entry(*sum).or_default().push(chunk);
        index.push(*sum);
    }
    for sum in sums.iter().chain(others) {
        let expected = oracle.get(sum).map_or(&[][..], Vec::as_slice);
        prop_assert_eq!(index.find(*sum).map(|no| no.as_index()), expected.first().copied());
        for budget in [0, 1, expected.len(), expected.len() + 1] {
            let mut left = budget;
            let found: Vec<usize> =
                index.candidates(*sum, &mut left).map(|no| no.as_index()).collect();
            prop_assert_eq!(&found, &expected[..budget.min(expected.len())]);
            prop_assert_eq!(left, budget - found.len());
        }
    }
    let load = index.fill_level();
    prop_assert_eq!(load.taken + load.overflow, oracle.len());
    Ok(())
}

proptest! {
    #[test]
    fn cuckoo_equals_a_map_of_lists(sums in sums(), others in sums(), room in 0usize..6000) {
        let others = &others[..others.len().min(100)];
        for room in [0, room] {
            check(&mut CuckooIndex::with_room(sums.len(), room), &sums, others)?;
            let narrow = |sums: &[u64]| -> Vec<u32> { sums.iter().map(|sum| *sum as u32).collect() };
            check(&mut CuckooIndex::with_room(sums.len(), room), &narrow(&sums), &narrow(others))?;
        }
    }
}
