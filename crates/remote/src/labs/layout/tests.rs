//! Tests of layouts against files of real programs (fixtures/README.md), against garbage, and of the rules of evidence.

use std::io::Read;
use std::iter;
use std::ops::Range;

use deltic_core::stored::SumStrength;
use sha2::{Digest, Sha256};

use super::parts::MAX_PARTS;
use super::{Comparison, Layout, LayoutPart, LayoutSource, PartContent, StorageId, UnitSums, zfs};
use crate::sums::{ContentSum, SumAlgorithm};

/// The byte stream that all fixtures are made of.
fn stream(len: usize) -> Vec<u8> {
    let mut state = 0_u64;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| word().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn layout(kind: LayoutSource, mut file: &[u8]) -> Layout {
    let len = if kind == LayoutSource::MooseFsChunk { 8192 + (4 << 16) } else { file.len() as u64 };
    kind.read(&mut file, len).unwrap()
}

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("fixtures/", $name)).as_slice()
    };
}

/// Checks the checksums of all units against `bytes`. Returns the number of bytes with a checksum.
fn check(layout: &Layout, bytes: &[u8], sum: impl Fn(&UnitSums, &[u8]) -> Vec<u8>) -> u64 {
    let mut seen = 0;
    for (start, part) in layout.parts() {
        let end = bytes.len().min((start + part.len) as usize);
        let content = &bytes[start as usize..end];
        match &part.content {
            PartContent::Units(units) => {
                for (no, unit) in content.chunks(units.bytes as usize).enumerate() {
                    let mut unit = unit.to_vec();
                    if units.padded {
                        unit.resize(units.bytes as usize, 0);
                    }
                    assert_eq!(
                        units.sum(no as u64).unwrap(),
                        sum(units, &unit),
                        "at {start}, {no}"
                    );
                }
                seen += content.len() as u64;
            }
            PartContent::Zero => assert!(content.iter().all(|byte| *byte == 0), "zeros at {start}"),
            PartContent::Whole(_) | PartContent::Encoded(..) | PartContent::Unknown => {}
        }
    }
    seen
}

fn crc32c(_: &UnitSums, unit: &[u8]) -> Vec<u8> {
    crc32c::crc32c(unit).to_be_bytes().to_vec()
}

fn crc32(_: &UnitSums, unit: &[u8]) -> Vec<u8> {
    crc32fast::hash(unit).to_be_bytes().to_vec()
}

fn fletcher4(_: &UnitSums, record: &[u8]) -> Vec<u8> {
    let mut sums = [0_u64; 4];
    for word in record.chunks_exact(4) {
        let mut add = u64::from(u32::from_le_bytes(word.try_into().unwrap()));
        for sum in &mut sums {
            *sum = sum.wrapping_add(add);
            add = *sum;
        }
    }
    sums.iter().flat_map(|sum| sum.to_be_bytes()).collect()
}

/// A list of one range.
fn one(range: Range<u64>) -> Vec<Range<u64>> {
    iter::once(range).collect()
}

#[test]
fn a_hash_device_has_the_checksums_of_its_image() {
    let new = layout(LayoutSource::DmVerity, fixture!("dm-verity-v2.hash"));
    let old = layout(LayoutSource::DmVerity, fixture!("dm-verity.hash"));
    let salted = |units: &UnitSums, block: &[u8]| {
        Sha256::new().chain_update(&units.salt).chain_update(block).finalize().to_vec()
    };
    assert_eq!(check(&old, &stream(819_200), salted), 819_200);
    assert_eq!(
        old.token,
        "root hash bb6f7cb1300d37157ebcb3439d128395ce35a6737d319ed6dd7739b413aedd3a"
    );
    assert_eq!(
        new.token,
        "root hash 3a1e56f8288948d0ffd424107f2ed6075c027ed883716a64f67a42c1bd6adb16"
    );
    let differs = vec![4096..8192, 696_320..700_416];
    assert_eq!(new.differing(&old), Comparison { differs, by: Some(SumStrength::Proof) });
    let short = layout(LayoutSource::DmVerity, fixture!("dm-verity-sha1.hash"));
    let salted = |units: &UnitSums, block: &[u8]| {
        sha1::Sha1::new().chain_update(&units.salt).chain_update(block).finalize().to_vec()
    };
    assert_eq!(check(&short, &stream(10_240), salted), 10_240);
    assert_eq!(short.token, "root hash f1aad2e03c609387a33570a2be211cba9a64e315");
    let all = new.differing(&short);
    assert_eq!(
        (all.differs, all.by),
        (one(0..819_200), None),
        "checksums with another salt prove nothing"
    );
    // A flipped bit in any hash but the root is noticed.
    let mut damaged = fixture!("dm-verity.hash").to_vec();
    damaged[8192 + 77] ^= 1;
    assert!(LayoutSource::DmVerity.read(&mut &damaged[..], 0).unwrap_err().0.contains("damaged"));
    let old_type =
        LayoutSource::DmVerity.read(&mut fixture!("dm-verity-type0.hash"), 0).unwrap_err();
    assert!(old_type.0.contains("type"), "{old_type}");
}

#[test]
fn stored_crcs_match_the_content() {
    let bytes = stream(300_000);
    let hdfs = layout(LayoutSource::HdfsMeta, fixture!("hdfs.meta"));
    assert_eq!((check(&hdfs, &bytes[..10_000], crc32c), hdfs.len()), (10_000, 10_240));
    let hdfs = layout(LayoutSource::HdfsMeta, fixture!("hdfs-crc32.meta"));
    assert_eq!(check(&hdfs, &bytes[..10_000], crc32), 10_000);
    let mut chunk = bytes[..200_000].to_vec();
    chunk.resize(64 << 20, 0);
    assert_eq!(
        check(&layout(LayoutSource::MooseFsChunk, fixture!("moosefs.chunk")), &chunk, crc32),
        64 << 20
    );
    let mut object = bytes.clone();
    object[100_000..105_000].fill(0x55);
    let bluestore = layout(LayoutSource::BlueStore, fixture!("bluestore.json"));
    let seen = check(&bluestore, &object, crc32c);
    assert_eq!(bluestore.len(), 300_000);
    assert!(seen > 280_000, "{seen}");
    // A truncated object has old bytes in its last chunk, whose checksum must not be used.
    let cut = layout(LayoutSource::BlueStore, fixture!("bluestore-cut.json"));
    assert_eq!((check(&cut, &bytes[..250_001], crc32c), cut.len()), (249_856, 250_001));
    let packed = layout(LayoutSource::BlueStore, fixture!("bluestore-compressed.json"));
    assert_eq!(packed.len(), 300_000);
    assert!(packed.parts().any(|(_, part)| matches!(part.content, PartContent::Encoded(..))));
    assert_eq!(packed.differing(&packed).by, Some(SumStrength::Hint));
    // Without checksums no range is equal.
    let mut dump: serde_json::Value =
        serde_json::from_slice(fixture!("bluestore-compressed.json")).unwrap();
    for extent in dump["onode"]["extents"].as_array_mut().unwrap() {
        extent["blob"]["csum_data"] = serde_json::json!([]);
    }
    let none = layout(LayoutSource::BlueStore, dump.to_string().as_bytes());
    assert_eq!((none.differing(&none).bytes(), none.len()), (300_000, 300_000));
    let old = LayoutSource::MooseFsChunk.read(&mut fixture!("moosefs.chunk"), 5120 + (4 << 16));
    assert!(old.unwrap_err().0.contains("old version"));
    let mut content = bytes[..100_000].to_vec();
    let words: Vec<u8> = stream(600_000)[100_000..].to_vec();
    content.extend(words.chunks_exact(8).flat_map(|word| [word; 8].concat()).take(200_000));
    assert!(check(&packed, &content, crc32c) > 90_000);
}

/// Multi-buffer SHA-1 of ISA-L: sixteen SHA-1 states over interleaved words, then SHA-1 of the states.
fn multi_sha1(bytes: &[u8]) -> [u8; 20] {
    const INITIAL: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((bytes.len() + 9).next_multiple_of(1024) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    let mut states = [INITIAL; 16];
    for block in padded.chunks(1024) {
        for (no, state) in states.iter_mut().enumerate() {
            let word = |i: usize| &block[(i * 16 + no) * 4..][..4];
            sha1_block(
                state,
                &std::array::from_fn(|i| u32::from_be_bytes(word(i).try_into().unwrap())),
            );
        }
    }
    let order = (0..5).flat_map(|word| (0..16).map(move |no| (no, word)));
    let all: Vec<u8> =
        order.flat_map(|(no, word): (usize, usize)| states[no][word].to_le_bytes()).collect();
    let mut digest: [u8; 20] = sha1::Sha1::digest(&all).into();
    digest.chunks_mut(4).for_each(<[u8]>::reverse);
    digest
}

fn sha1_block(state: &mut [u32; 5], block: &[u32; 16]) {
    let mut words = block.to_vec();
    for i in 16..80 {
        words.push((words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1));
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (i, word) in words.iter().enumerate() {
        let (f, k) = match i / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next =
            a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (sum, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(add);
    }
}

#[test]
fn recipes_list_the_chunks_of_their_backups() {
    let first = stream(400_000);
    let second = [&first[..150_000], &[0x55; 100], &first[150_000..]].concat();
    let recipes = [
        (LayoutSource::Mega, fixture!("mega-Recipe1"), fixture!("mega-Recipe2")),
        (LayoutSource::MfDedup, fixture!("mfdedup-Recipe1"), fixture!("mfdedup-Recipe2")),
    ];
    for (kind, old, new) in recipes {
        let [old, new] = [layout(kind, old), layout(kind, new)];
        for (layout, bytes) in [(&old, &first), (&new, &second)] {
            assert_eq!(layout.len(), bytes.len() as u64);
            for (start, part) in layout.parts() {
                let PartContent::Whole(sum) = &part.content else { panic!("{part:?}") };
                let chunk = &bytes[start as usize..][..part.len as usize];
                assert_eq!(*sum.bytes, multi_sha1(chunk), "{kind:?} at {start}");
            }
        }
        // All chunks after the insertion moved, and are found.
        let found = new.differing(&old);
        assert_eq!((found.differs.len(), found.by), (1, Some(SumStrength::AgainstAccidents)));
        assert!(found.differs[0].contains(&150_000) && found.bytes() < 40_000, "{found:?}");
    }
    // A chunk stored as a delta has the length of its content.
    assert_eq!(layout(LayoutSource::Mega, fixture!("mega-Recipe3")).len(), second.len() as u64);
}

#[test]
fn records_of_a_snapshot_are_identified_by_their_places() {
    let [old, new] = [fixture!("zfs/file-a.txt"), fixture!("zfs/file-b.txt")]
        .map(|file| layout(LayoutSource::Zfs, file));
    let mut bytes = stream(1_000_000);
    assert_eq!(check(&old, &bytes, fletcher4), 1_000_000);
    bytes[5000] ^= 0xff;
    bytes[700_000] ^= 0xff;
    assert_eq!(check(&new, &bytes, fletcher4), 1_000_000);
    let differs = vec![0..131_072, 655_360..786_432];
    assert_eq!(new.differing(&old), Comparison { differs, by: Some(SumStrength::Proof) });
    let sparse = layout(LayoutSource::Zfs, fixture!("zfs/sparse.txt"));
    let mut bytes = vec![0; 1 << 20];
    bytes.extend(stream(200_000));
    bytes.resize(3 << 20, 0);
    assert_eq!((check(&sparse, &bytes, fletcher4), sparse.len()), (262_144, 3 << 20));
    let small = layout(LayoutSource::Zfs, fixture!("zfs/small.txt"));
    assert_eq!((check(&small, &stream(700), fletcher4), small.len()), (700, 700));
    let sha256 = layout(LayoutSource::Zfs, fixture!("zfs/sha256.txt"));
    let sum = |_: &UnitSums, record: &[u8]| Sha256::digest(record).to_vec();
    assert_eq!(check(&sha256, &stream(sha256.len() as usize), sum), sha256.len());
    let packed = layout(LayoutSource::Zfs, fixture!("zfs/packed.txt"));
    let lzjb =
        |part: &LayoutPart| matches!(&part.content, PartContent::Encoded(how, _) if how == "lzjb");
    assert_eq!(packed.parts().filter(|(_, part)| lzjb(part)).count(), 6);
    assert_eq!(
        packed.differing(&packed).by,
        Some(SumStrength::Proof),
        "an equal place needs no checksum"
    );
    // Records that zdb could not read are an error, not zeros.
    let all = str::from_utf8(fixture!("zfs/file-a.txt")).unwrap();
    let is_record = |line: &&str| line.contains(" L0 DVA") && line.contains("60000");
    let some: Vec<_> = all.lines().filter(|line| !is_record(line)).collect();
    let unread = zfs::read(&some.join("\n")).unwrap_err();
    assert!(unread.0.contains("could not read"), "{unread}");
    // OpenZFS embeds short records in their parent block.
    let embedded = "20000  L0 EMBEDDED [L0 ZFS plain file] et=0 lz4 size=20000L/44P birth=13";
    let lines = all.lines().map(|line| match line.trim().starts_with("20000 ") {
        true => embedded,
        false => line,
    });
    let embedded = zfs::read(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(embedded.differing(&embedded).differs, one(131_072..262_144));
    assert_eq!(embedded.differing(&old).differs, one(131_072..262_144));
    // A file name may contain any text.
    let text = str::from_utf8(fixture!("zfs/small.txt")).unwrap();
    let forged = text.replace("/small", "/small\n\tsize\t5\nIndirect blocks:\n 0 L0 none");
    let refused = zfs::read(&forged).unwrap_err();
    assert!(refused.0.contains("repeated size"), "{refused}");
    for no_file in [fixture!("zfs/directory.txt"), fixture!("zfs/no-object.txt")] {
        LayoutSource::Zfs.read(&mut &*no_file, 0).unwrap_err();
    }
}

#[test]
fn garbage_is_refused_without_a_panic() {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let whole = [
        (LayoutSource::DmVerity, fixture!("dm-verity.hash")),
        (LayoutSource::Zfs, fixture!("zfs/file-a.txt")),
        (LayoutSource::HdfsMeta, fixture!("hdfs.meta")),
        (LayoutSource::MooseFsChunk, fixture!("moosefs.chunk")),
        (LayoutSource::BlueStore, fixture!("bluestore.json")),
        (LayoutSource::BlueStore, fixture!("bluestore-compressed.json")),
        (LayoutSource::Zfs, fixture!("zfs/packed.txt")),
        (LayoutSource::Mega, fixture!("mega-Recipe2")),
        (LayoutSource::MfDedup, fixture!("mfdedup-Recipe2")),
    ];
    for (kind, file) in whole {
        for _ in 0..300 {
            let mut bytes = file.to_vec();
            for _ in 0..next() % 4 {
                let at = next() as usize % bytes.len().min(4096);
                bytes[at] = next() as u8;
            }
            bytes.truncate(next() as usize % (bytes.len() * 2));
            if let Ok(layout) = kind.read(&mut &bytes[..], next()) {
                let found = layout.differing(&layout);
                assert!(found.bytes() <= layout.len());
            }
        }
        kind.read(&mut std::io::empty(), 0).unwrap_err();
    }
    // An endless file is not read to the end.
    LayoutSource::MooseFsChunk.read(&mut std::io::repeat(7).take(1 << 40), 8192).unwrap_err();
}

fn part(len: u64, id: Option<StorageId>, content: PartContent) -> LayoutPart {
    LayoutPart { len, id, content }
}

fn crcs(sums: &[u32]) -> PartContent {
    let bytes = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
    PartContent::Units(UnitSums::plain(SumAlgorithm::Crc32c, 4096, bytes))
}

fn of(history: u8, parts: &[LayoutPart]) -> Layout {
    let mut layout = Layout::new("test", [history; 32]);
    parts.iter().for_each(|part| layout.push(part.clone()).unwrap());
    layout
}

#[test]
fn evidence_is_graded_by_the_rules() {
    let id = |from| Some(StorageId { of: [7, 8, 9], from });
    let old = of(
        1,
        &[
            part(8192, id(0), crcs(&[1, 2])),
            part(4096, None, PartContent::Zero),
            part(8192, None, crcs(&[3, 4])),
            part(100, None, PartContent::Unknown),
        ],
    );
    let all = old.differing(&old);
    assert_eq!((all.differs, all.by), (one(20_480..20_580), Some(SumStrength::Hint)));
    // Places count within one history only; in another history checksums decide.
    let moved = of(2, &[part(8192, id(0), crcs(&[1, 9]))]);
    let found = moved.differing(&old);
    assert_eq!((found.differs, found.by), (one(4096..8192), Some(SumStrength::Hint)));
    // Equal places suffice, wherever parts begin.
    let same = of(
        1,
        &[part(1000, id(0), PartContent::Unknown), part(7192, id(1000), PartContent::Unknown)],
    );
    let found = same.differing(&old);
    assert_eq!((found.differs, found.by), (vec![], Some(SumStrength::Proof)));
    // Of a hint and a proof for one part, the proof counts.
    let hashes = |history| {
        let sums = UnitSums::plain(SumAlgorithm::Sha256, 4096, vec![5; 32]);
        let mut layout = of(history, &[part(4096, id(0), PartContent::Units(sums))]);
        layout.identities = SumStrength::Hint;
        layout
    };
    assert_eq!(hashes(1).differing(&hashes(1)).by, Some(SumStrength::Proof));
    let mut places =
        of(1, &[part(4096, id(0), PartContent::Unknown), part(5, None, PartContent::Zero)]);
    places.identities = SumStrength::Hint;
    assert_eq!(places.differing(&places).by, Some(SumStrength::Hint));
    // Offsets into a place count, and so do the offsets of units.
    let shifted = of(1, &[part(4096, id(1), crcs(&[1])), part(96, None, crcs(&[2]))]);
    assert_eq!(shifted.differing(&old).differs, one(4096..4192));
    let odd = of(3, &[part(100, None, PartContent::Unknown), part(4096, None, crcs(&[1]))]);
    assert_eq!(odd.differing(&old).differs, one(0..4196));
    // A chunk with a checksum of its own may be at any offset.
    let chunk = |n: u8| {
        let sum = ContentSum { algorithm: SumAlgorithm::MultiSha1, bytes: [n; 20].into() };
        part(10 + u64::from(n), None, PartContent::Whole(sum))
    };
    let [new, was] = [[chunk(1), chunk(2), chunk(3)], [chunk(9), chunk(1), chunk(3)]];
    let found = of(0, &new).differing(&of(0, &was));
    assert_eq!((found.differs, found.by), (one(11..23), Some(SumStrength::AgainstAccidents)));
    // Equal compressed bytes mean equal content, as far as the checksum proves it.
    let packed = |how: &str, n| {
        let sum = ContentSum { algorithm: SumAlgorithm::Fletcher4, bytes: [n; 32].into() };
        of(0, &[part(4096, None, PartContent::Encoded(how.into(), sum))])
    };
    assert_eq!(packed("lzjb", 1).differing(&packed("lzjb", 1)).bytes(), 0);
    assert_eq!(packed("lzjb", 1).differing(&packed("gzip", 1)).bytes(), 4096);
    assert_eq!(packed("lzjb", 1).differing(&packed("lzjb", 2)).bytes(), 4096);
}

#[test]
fn a_part_that_continues_the_last_one_extends_it() {
    let id = |from| Some(StorageId { of: [7, 8, 9], from });
    let joined = [
        part(4096, id(0), crcs(&[1])),
        part(4096, id(4096), crcs(&[2])),
        part(9, id(8192), crcs(&[3])),
        // The last unit of the part before was short.
        part(4096, id(8201), crcs(&[4])),
        part(5, None, PartContent::Zero),
        part(5, None, PartContent::Zero),
        part(5, id(3), PartContent::Unknown),
        part(5, id(9), PartContent::Unknown),
    ];
    let expected = [
        (0, part(8201, id(0), crcs(&[1, 2, 3]))),
        (8201, joined[3].clone()),
        (12_297, part(10, None, PartContent::Zero)),
        (12_307, joined[6].clone()),
        (12_312, joined[7].clone()),
    ];
    let layout = of(1, &joined);
    assert!(layout.parts().eq(expected.iter().map(|(start, part)| (*start, part))), "{layout:?}");
}

#[test]
fn the_number_of_parts_and_checksums_is_bounded() {
    let mut layout = Layout::new("test", [0; 32]);
    layout.push(part(0, None, crcs(&[]))).unwrap();
    layout.push(part(8192, None, crcs(&[1]))).unwrap_err();
    layout.push(part(4096, None, crcs(&[1, 2]))).unwrap_err();
    layout.push(part(u64::MAX, None, PartContent::Zero)).unwrap_err();
    layout
        .push(part(2, Some(StorageId { of: [0; 3], from: u64::MAX }), PartContent::Zero))
        .unwrap_err();
    assert!(layout.is_empty());
    let covers = [PartContent::Unknown, PartContent::Zero];
    for no in 0..MAX_PARTS {
        layout.push(part(1, None, covers[no % 2].clone())).unwrap();
    }
    layout.push(part(1, None, PartContent::Unknown)).unwrap_err();
    layout.push(part(1, None, PartContent::Zero)).unwrap();
}
