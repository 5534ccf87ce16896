//! Checksums that btrfs keeps of files: each case, and each kind. Root only.

use std::ops::Range;

use deltic_core::stored::BlockSum;
use deltic_core::{Crc32c, StoredSums, SumKind};

use super::*;

fn sums(store: &LocalStore, at: &str, range: Range<u64>) -> StoredSums {
    store.open(&path(at)).unwrap().stored_sums(&range).unwrap().expect("a file of btrfs")
}

/// Returns a letter for each block of a file: `s` for a checksum, `z` for zeros, `u` for unknown.
fn states(sums: &StoredSums) -> String {
    let state = |at| match sums.sum_at(at) {
        BlockSum::Sum(_) => 's',
        BlockSum::Zero => 'z',
        BlockSum::Unknown => 'u',
    };
    sums.range().step_by(BLOCK as usize).map(state).collect()
}

/// Checks CRC-32C checksums against the bytes that a read returned. Returns the number of known blocks.
pub(super) fn check(sums: &StoredSums, bytes: &[u8], why: &str) -> usize {
    assert_eq!((sums.kind(), u64::from(sums.block_bytes())), (SumKind::Crc32c, BLOCK));
    let known = sums.range().step_by(BLOCK as usize).filter(|at| {
        let end = bytes.len().min((at + BLOCK) as usize);
        let block = &bytes[*at as usize..end];
        match sums.sum_at(*at) {
            BlockSum::Unknown => return false,
            BlockSum::Zero => assert!(block.iter().all(|byte| *byte == 0), "at {at}, {why}"),
            BlockSum::Sum(sum) => {
                assert_eq!(block.len() as u64, BLOCK, "the last part of a block has none, {why}");
                assert_eq!(sum, Crc32c::of(block).get().to_le_bytes(), "at {at}, {why}");
            }
        }
        true
    });
    known.count()
}

/// Checks the checksums of the whole file and of parts of it.
fn holds(at: &Path, store: &LocalStore, name: &str) -> String {
    let bytes = fs::read(at.join(name)).unwrap();
    let len = bytes.len() as u64;
    for range in [0..len, len / 3..len / 3 + 1, len / 2..len] {
        check(&sums(store, name, range), &bytes, name);
    }
    states(&sums(store, name, 0..len))
}

#[test]
fn sums_are_those_of_what_a_read_gives_and_the_last_part_of_a_block_has_none() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    let file = File::create(at.path().join("file")).unwrap();
    let holds = |name| holds(at.path(), &store, name);
    // The checksums are requested before anything was written to the disk.
    file.write_all_at(&noise(1, BLOCK as usize * 5 + 777), 0).unwrap();
    assert_eq!(holds("file"), "sssssu");
    // Old bytes stay on the disk behind the new end, under the old checksum.
    file.set_len(BLOCK * 3 + 5).unwrap();
    assert_eq!(holds("file"), "sssu");
    file.set_len(BLOCK * 6).unwrap();
    assert_eq!(holds("file"), "sssszz");
    file.write_all_at(b"other", BLOCK + 9).unwrap();
    file.write_all_at(&noise(2, 9000), BLOCK * 10).unwrap();
    assert_eq!(holds("file"), "sssszzzzzzssu");
    let (from, to) = (at.path().join("file"), at.path().join("clone"));
    assert!(succeeds(Command::new("cp").arg("--reflink=always").args([&from, &to])));
    assert_eq!(holds("clone"), "sssszzzzzzssu");
    file.write_all_at(&noise(3, 5000), 3000).unwrap();
    assert_eq!((holds("file"), holds("clone")), ("sssszzzzzzssu".into(), "sssszzzzzzssu".into()));
}

#[test]
fn what_has_no_sum_is_unknown_and_holes_and_reserved_room_are_zeros() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    let create = |name: &str| File::create(at.path().join(name)).unwrap();
    let holds = |name| holds(at.path(), &store, name);
    create("empty");
    create("short").write_all_at(b"short", 0).unwrap();
    create("hole").set_len(BLOCK * 3 + 1).unwrap();
    let room = create("room");
    fallocate(&room, FallocateFlags::empty(), 0, BLOCK * 6).unwrap();
    room.write_all_at(&noise(1, 8192), BLOCK * 2).unwrap();
    assert_eq!([holds("empty"), holds("short"), holds("hole")], ["", "u", "zzzz"]);
    assert_eq!(holds("room"), "zzsszz");
    fs::create_dir(at.path().join("nocow")).unwrap();
    if succeeds(Command::new("chattr").arg("+C").arg(at.path().join("nocow"))) {
        create("nocow/file").write_all_at(&noise(2, 8192), BLOCK).unwrap();
        assert_eq!(states(&sums(&store, "nocow/file", 0..BLOCK * 3)), "uuu");
    }
    let mut compress = Command::new("mount");
    compress.args(["-o", "remount,compress-force=zstd"]).arg(at.path());
    if succeeds(&mut compress) {
        create("packed").write_all_at(&[1; 8192], 0).unwrap();
        assert_eq!(holds("packed"), "uu");
    }
}

/// The item of an extent may begin far before the requested part.
#[test]
fn a_part_of_a_long_extent_has_its_sums() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    let (file, len) = (File::create(at.path().join("file")).unwrap(), 80 << 20);
    let bytes = noise(1, len as usize);
    file.write_all_at(&bytes, 0).unwrap();
    for start in [0, len / 2 + 5, len - BLOCK] {
        let part = sums(&store, "file", start..start + 1);
        assert_eq!((states(&part), check(&part, &bytes, "a part")), ("s".into(), 1));
    }
    // A hole that begins just as far before.
    file.set_len(0).unwrap();
    file.set_len(len).unwrap();
    file.write_all_at(b"x", len).unwrap();
    assert_eq!(states(&sums(&store, "file", len - BLOCK * 2..len)), "zz");
}

#[test]
fn all_kinds_of_sums_are_known() {
    for (name, kind, program) in [
        ("crc32c", SumKind::Crc32c, None),
        ("xxhash", SumKind::Xxh64, Some("xxh64sum")),
        ("sha256", SumKind::Sha256, Some("sha256sum")),
        ("blake2", SumKind::Blake2b, Some("b2sum -l 256")),
    ] {
        let at = tempfile::tempdir().unwrap();
        let mkfs = format!("mkfs.btrfs --csum {name}");
        let Some(_mounted) = loop_mount(at.path(), &mkfs) else { continue };
        let store = open_store(at.path());
        let bytes = noise(7, BLOCK as usize * 3);
        fs::write(at.path().join("file"), &bytes).unwrap();
        let Some(sums) = store.open(&path("file")).unwrap().stored_sums(&(0..1 << 20)).unwrap()
        else {
            return skip("sums need CAP_SYS_ADMIN");
        };
        assert_eq!((sums.kind(), states(&sums)), (kind, "sss".into()));
        let Some(program) = program else { continue };
        for (no, block) in (0..).zip(bytes.chunks(BLOCK as usize)) {
            fs::write(at.path().join("block"), block).unwrap();
            let mut words = program.split(' ').map(std::ffi::OsStr::new);
            let mut summing = Command::new(words.next().unwrap());
            let Ok(output) = summing.args(words).arg(at.path().join("block")).output() else {
                skip(&format!("there is no {program}"));
                break;
            };
            let printed = String::from_utf8_lossy(&output.stdout);
            let BlockSum::Sum(sum) = sums.sum_at(no * BLOCK) else { unreachable!() };
            let mut hex: Vec<String> = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            if kind == SumKind::Xxh64 {
                // The program prints a number, which is stored in little-endian order.
                hex.reverse();
            }
            assert!(printed.starts_with(&hex.concat()), "{printed} of {program}, not {hex:?}");
        }
    }
}
