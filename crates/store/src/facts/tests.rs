use proptest::prelude::*;

use super::*;

const STORE: [u8; 32] = [7; 32];

fn extents(parts: &[(u64, ExtentContent)]) -> Extents {
    let mut extents = Extents::new(STORE);
    for (len, is) in parts {
        extents.push(*len, *is).unwrap();
    }
    extents
}

const fn id(name: u64, from: u64) -> ExtentContent {
    ExtentContent::Id { id: [name, 9, 0], from }
}

#[test]
fn parts_that_continue_each_other_are_one() {
    let joined = extents(&[
        (5, id(1, 0)),
        (0, ExtentContent::Zero),
        (7, id(1, 5)),
        (2, ExtentContent::Zero),
        (1, ExtentContent::Zero),
    ]);
    assert_eq!(joined, extents(&[(12, id(1, 0)), (3, ExtentContent::Zero)]));
    assert_eq!(
        joined.parts().collect::<Vec<_>>(),
        [(0..12, id(1, 0)), (12..15, ExtentContent::Zero)]
    );
    assert_eq!(joined.len(), 15);
    assert_eq!(extents(&[(5, id(1, 0)), (7, id(1, 6)), (1, id(2, 13))]).parts().count(), 3);
}

#[test]
fn only_equal_places_in_equal_storage_are_unchanged() {
    let old = extents(&[
        (10, id(1, 0)),
        (10, ExtentContent::Zero),
        (10, ExtentContent::Unknown),
        (10, id(2, 5)),
    ]);
    let one = |range| Some(std::iter::once(range).collect::<Vec<_>>());
    assert_eq!(old.changed_since(&old), one(20..30));
    let empty = Extents::new(STORE);
    assert_eq!(empty.changed_since(&old), Some(vec![]));
    assert_eq!(old.changed_since(&empty), one(0..40));
    // Cut in the middle of a part, then another range of the same storage, then a longer tail.
    let new = extents(&[
        (4, id(1, 0)),
        (3, id(3, 0)),
        (5, id(1, 7)),
        (9, ExtentContent::Zero),
        (30, id(2, 6)),
    ]);
    assert_eq!(new.changed_since(&old), Some(vec![4..7, 10..12, 20..51]));
    let shifted = extents(&[(30, ExtentContent::Zero), (12, id(2, 5))]);
    assert_eq!(shifted.changed_since(&old), Some(vec![0..10, 20..30, 40..42]));
}

#[test]
fn facts_of_another_history_tell_nothing() {
    let mut other = Extents::new([8; 32]);
    other.push(1, id(1, 0)).unwrap();
    assert_eq!(other.changed_since(&extents(&[(1, id(1, 0))])), None);
}

#[test]
fn the_encoding_is_golden() {
    let facts = extents(&[
        (4096, ExtentContent::Id { id: [0x0100_0000, 12, 0], from: 0 }),
        (8192, ExtentContent::Id { id: [0x0100_0000, 12, 0], from: 4096 * 3 }),
        (1 << 20, ExtentContent::Zero),
        (777, ExtentContent::Id { id: [0x0200_0000, 13, 1], from: 4096 }),
        (3, ExtentContent::Unknown),
    ]);
    let golden = "01\
        0707070707070707070707070707070707070707070707070707070707070707\
        030180401800000302010000030180804002890680c0fd0f020280200003";
    let hex: String = facts.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, golden);
    assert_eq!(Extents::decode(&facts.encode()), Some(facts));
}

#[test]
fn damaged_facts_are_none() {
    let facts = extents(&[
        (4096, id(4096, 4096)),
        (5, ExtentContent::Zero),
        (u64::MAX - 5000, ExtentContent::Unknown),
    ]);
    let bytes = facts.encode();
    assert_eq!(Extents::decode(&bytes), Some(facts));
    let starts = (0..bytes.len()).filter(|len| Extents::decode(&bytes[..*len]).is_some());
    assert!(starts.eq([33, 39, 41]), "between parts alone");
    let with = |more: &[u8]| Extents::decode(&[&bytes, more].concat());
    assert_eq!(with(&[ZERO, 0]), None, "an empty part");
    assert_eq!(with(&[4, 1]), None, "an unknown kind");
    assert_eq!(with(&[ZERO, 0xff, 0x7f]), None, "longer than any file");
    assert_eq!(with(&[ZERO, 0x81, 0]), None, "not the shortest form");
    assert_eq!(Extents::decode(&[&[2], &bytes[1..]].concat()), None, "another format");
    assert_eq!(Extents::decode(&[]), None);
}

#[test]
fn facts_are_bounded() {
    let mut facts = Extents::new(STORE);
    for part in 0..MAX_PARTS as u64 {
        facts.push(1, id(part, 1 << 20)).unwrap();
    }
    assert_eq!(facts.push(1, ExtentContent::Zero), Err(TooMany));
    // A push that continues the last part adds no part.
    facts.push(1, id(MAX_PARTS as u64 - 1, (1 << 20) + 1)).unwrap();
    assert_eq!(facts.push(u64::MAX, id(MAX_PARTS as u64 - 1, (1 << 20) + 2)), Err(TooMany));
    assert_eq!(Extents::decode(&facts.encode()), Some(facts.clone()));
    let more = [&facts.encode()[..], &[ZERO, 1]].concat();
    assert_eq!(Extents::decode(&more), None);
}

fn some_is() -> impl Strategy<Value = ExtentContent> {
    let number = prop_oneof![any::<u64>(), 0..4_u64, (0..4_u64).prop_map(|n| n << 12)];
    let from = prop_oneof![0..1_u64 << 62, 0..9_u64, (0..9_u64).prop_map(|n| n << 12)];
    prop_oneof![
        Just(ExtentContent::Zero),
        Just(ExtentContent::Unknown),
        ([number.clone(), number.clone(), number], from)
            .prop_map(|(id, from)| ExtentContent::Id { id, from }),
    ]
}

fn some_extents() -> impl Strategy<Value = Extents> {
    let len = prop_oneof![1..20_u64, (1..20_u64).prop_map(|n| n << 12), 1..1_u64 << 50];
    prop::collection::vec((len, some_is()), 0..40).prop_map(|parts| extents(&parts))
}

/// Short extents of few identities, so that equal parts are common.
fn short_extents() -> impl Strategy<Value = Extents> {
    let is = prop_oneof![
        Just(ExtentContent::Zero),
        Just(ExtentContent::Unknown),
        (0..2_u64, 0..6_u64).prop_map(|(name, from)| id(name, from)),
    ];
    prop::collection::vec((1..5_u64, is), 0..12).prop_map(|parts| extents(&parts))
}

/// Content of each byte.
fn bytes_of(extents: &Extents) -> Vec<ExtentContent> {
    let each = |(range, is): (Range<u64>, ExtentContent)| {
        (0..range.end - range.start).map(move |at| is.at_offset(at))
    };
    extents.parts().flat_map(each).collect()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(extents in some_extents()) {
        let bytes = extents.encode();
        prop_assert_eq!(Extents::decode(&bytes), Some(extents));
    }

    #[test]
    fn any_bytes_decode_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&[FORMAT][..], &STORE, &bytes].concat();
        if let Some(extents) = Extents::decode(&bytes) {
            prop_assert_eq!(Extents::decode(&extents.encode()), Some(extents));
        }
    }

    #[test]
    fn bytes_damaged_in_one_place_decode_or_not(
        (extents, at, to) in (some_extents(), any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let mut bytes = extents.encode();
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = Extents::decode(&bytes);
    }

    #[test]
    fn changed_ranges_are_those_of_a_comparison_byte_by_byte(
        (old, new) in (short_extents(), short_extents()),
    ) {
        let (was, is) = (bytes_of(&old), bytes_of(&new));
        let expected = (0..is.len()).filter(|at| is[*at] == ExtentContent::Unknown || was.get(*at) != Some(&is[*at]));
        let changed = new.changed_since(&old).unwrap();
        prop_assert!(changed.iter().cloned().flatten().eq(expected.map(|at| at as u64)));
        prop_assert!(changed.windows(2).all(|two| two[0].end < two[1].start));
    }
}
