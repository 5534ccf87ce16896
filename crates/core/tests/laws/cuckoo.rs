//! The cuckoo index equals a map of lists.

use std::collections::HashMap;

use deltic_core::StrongSum;
use deltic_core::index::{CuckooIndex, Entry1, Entry2, PublishedTable, SumBits, TagTable};
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
    /// rsync's table returns the chunks whose weak sum has the tag, in order.
    #[test]
    fn tag_table_equals_a_search_of_all_chunks(sums in sums(), others in sums()) {
        let tag = |sum: u64| (sum as u32 % 65_536 + (sum as u32 >> 16)) % 65_536;
        let mut table = TagTable::default();
        sums.iter().for_each(|sum| table.push(*sum as u32));
        for wanted in sums.iter().take(200).chain(&others[..others.len().min(100)]) {
            let has_tag = |no: &usize| tag(sums[*no]) == tag(*wanted);
            let expected: Vec<usize> = (0..sums.len()).filter(has_tag).collect();
            let found: Vec<usize> = table.with_tag(*wanted as u32).map(|no| no.as_index()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// SkySync's table has each entry, whatever the room and the sums.
    #[test]
    fn published_table_equals_a_map_of_lists(sums in sums(), others in sums(), room in 0usize..6000) {
        let (mut weak, mut both) =
            (PublishedTable::with_load(room, 85), PublishedTable::with_load(room, 85));
        let mut oracle: HashMap<u32, Vec<Entry2>> = HashMap::new();
        for (sum, number) in sums.iter().zip(0..) {
            let strong = StrongSum::from_bytes(&sum.to_le_bytes()).expect("eight bytes are few");
            let entry = Entry2 { weak: *sum as u32, block: number, strong };
            oracle.entry(entry.weak).or_default().push(entry);
            weak.insert(Entry1 { weak: entry.weak, chunk: number });
            both.insert(entry);
        }
        for sum in sums.iter().chain(&others[..others.len().min(100)]).map(|sum| *sum as u32) {
            let expected = oracle.get(&sum).map_or(&[][..], Vec::as_slice);
            let mut found: Vec<Entry2> = both.matching(sum).copied().collect();
            found.sort_unstable();
            prop_assert_eq!(&found, expected);
            let mut chunks: Vec<u32> = weak.matching(sum).map(|entry| entry.chunk).collect();
            chunks.sort_unstable();
            prop_assert_eq!(chunks, expected.iter().map(|entry| entry.block).collect::<Vec<_>>());
        }
        let load = both.fill_level();
        prop_assert_eq!((load.taken + load.overflow, load), (sums.len(), weak.fill_level()));
    }

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
