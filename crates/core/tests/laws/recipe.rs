//! Laws of groups and digests.

use deltic_core::{Chunk, DigestBuilder, Fingerprint, Group, Grouper, digest_of, reference};
use proptest::prelude::*;

fn chunks(most: usize) -> impl Strategy<Value = Vec<Chunk>> {
    let chunk = (1u32..100_000, any::<u8>(), any::<u8>()).prop_map(|(len, first, last)| {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (first, last);
        Chunk { len, fingerprint: Fingerprint::from_bytes(bytes) }
    });
    let without_ends = (1u32..9).prop_map(|len| {
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        Chunk { len, fingerprint }
    });
    prop_oneof![
        proptest::collection::vec(chunk, 0..most),
        proptest::collection::vec(without_ends, 0..most)
    ]
}

fn groups(grouper: &mut Grouper, chunks: &[Chunk]) -> Vec<Group> {
    let mut groups: Vec<Group> = chunks.iter().filter_map(|chunk| grouper.push(chunk)).collect();
    groups.extend(grouper.finish());
    groups
}

proptest! {
    #[test]
    fn law4_groups_and_digests_equal_the_reference(chunks in chunks(300)) {
        prop_assert_eq!(groups(&mut Grouper::new(), &chunks), reference::groups(&chunks));
        prop_assert_eq!(digest_of(&chunks), reference::digest(&chunks));
    }

    #[test]
    fn law1_a_grouper_restarted_after_a_group_finds_the_same_later_groups(
        chunks in chunks(300),
        pick: proptest::sample::Index,
    ) {
        let all = groups(&mut Grouper::new(), &chunks);
        prop_assume!(!all.is_empty());
        let restart = pick.index(all.len());
        let first: u32 = all[..restart].iter().map(|group| group.chunks).sum();
        let later = groups(&mut Grouper::new(), &chunks[first as usize..]);
        prop_assert_eq!(later, &all[restart..]);
    }

    #[test]
    fn law3_groups_of_segments_give_the_digest_of_the_whole(
        chunks in chunks(300),
        pick: proptest::sample::Index,
    ) {
        let all = groups(&mut Grouper::new(), &chunks);
        let cut: u32 = all[..pick.index(all.len() + 1)].iter().map(|group| group.chunks).sum();
        let (front, back) = chunks.split_at(cut as usize);
        let mut digest = DigestBuilder::new();
        for segment in [front, back] {
            groups(&mut Grouper::new(), segment).iter().for_each(|group| digest.push(group));
        }
        let len = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        prop_assert_eq!(digest.finish(len), digest_of(&chunks));
    }

    #[test]
    fn the_digest_depends_on_every_chunk(
        chunks in chunks(100),
        pick: proptest::sample::Index,
        byte in 0usize..32,
        bit in 0u8..8,
    ) {
        prop_assume!(!chunks.is_empty());
        let at = pick.index(chunks.len());
        let mut longer = chunks.clone();
        longer[at].len += 1;
        let mut other = chunks.clone();
        let mut name = *other[at].fingerprint.as_bytes();
        name[byte] ^= 1 << bit;
        other[at].fingerprint = Fingerprint::from_bytes(name);
        let mut fewer = chunks.clone();
        fewer.remove(at);
        for changed in [longer, other, fewer] {
            prop_assert_ne!(digest_of(&changed), digest_of(&chunks));
        }
    }
}
