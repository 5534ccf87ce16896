//! Whole blocks that moved within a file are neither read nor sent where storage keeps sums that decide. Root only: the
//! storage is btrfs, on files of its own.

use std::fs;
use std::io::Write;

use crate::common::{
    Mounted, Run, SECTOR, WAYS, Way, World, btrfs, btrfs_at, btrfs_by, bytes_read, noise,
};

const LEN: usize = 64 << 20;
const BLOCK: usize = SECTOR as usize;
/// Bytes of frames beside what is new: those of an offer, above all.
const OFFER_BYTES: u64 = 30_000;

/// A large file at `disk/s`, a copy of it at `there/d`, and what it holds.
struct Image<'a> {
    world: &'a World,
    bytes: Vec<u8>,
    words: String,
    time: i64,
    /// The sender is here, and tells why it read what it read.
    is_told: bool,
}

impl<'a> Image<'a> {
    fn new(world: &'a World, (way, there): (Way, &str), options: &str) -> Self {
        let (from, to) = (way.from("disk/s/"), way.to(&format!("{there}/d")));
        let words = format!("-a --stats --explain {options} {from} {to}");
        let (bytes, time, is_told) = (noise(LEN, 1), 1_000_000_000, way != Way::Pull);
        let mut image = Self { world, bytes, words, time, is_told };
        world.mkdir("disk/s");
        image.write_anew();
        world.ok(&image.words);
        image
    }

    /// Puts another file in the place of the image.
    fn write_anew(&mut self) {
        self.world.write("disk/s/.new", &self.bytes);
        fs::rename(self.world.path("disk/s/.new"), self.world.path("disk/s/image"))
            .expect("it is ours");
        self.tick();
    }

    /// Writes all over it, as a program that reads and saves it does.
    fn write_over(&mut self) {
        let path = self.world.path("disk/s/image");
        let mut file =
            fs::File::options().write(true).truncate(true).open(path).expect("it is there");
        file.write_all(&self.bytes).expect("there is room");
        self.tick();
    }

    fn tick(&mut self) {
        self.time += 1;
        self.world.set_time("disk/s/image", self.time);
    }

    /// New bytes, or none, instead of `count` blocks from block `at` on.
    fn splice(&mut self, at: usize, count: usize, new: &[u8]) {
        self.bytes.splice(at * BLOCK..(at + count) * BLOCK, new.iter().copied());
    }

    fn fresh(&self, blocks: usize) -> Vec<u8> {
        noise(blocks * BLOCK, 1000 + self.time as u64)
    }

    /// Syncs: the copy is the same then.
    fn sync(&self, there: &str) -> Run {
        let run = self.world.ok(&self.words);
        self.world.assert_same("disk/s", &format!("{there}/d"));
        run
    }

    /// The same; so many bytes were read and sent, and little besides.
    #[track_caller]
    fn costs(&self, there: &str, bytes: usize) {
        let (run, bytes) = (self.sync(there), bytes as u64);
        assert_eq!(run.stat("Literal data"), bytes, "{run:#?}");
        // It may have been offered before its base was known.
        assert!(run.traffic() < bytes + bytes / 8 + OFFER_BYTES, "{run:#?}");
        if self.is_told {
            assert!(run.stdout.contains("since the last sync\n"), "{run:#?}");
            assert!(!run.stdout.contains("read, as much of the file"), "{run:#?}");
        }
    }
}

fn both<'a>(world: &'a World, sums: [&str; 2]) -> Option<[Mounted<'a>; 2]> {
    let [here, there] = sums;
    Some([btrfs_by(world, here)?, btrfs_at(world, there, ("there", "there.image"))?])
}

#[test]
fn whole_blocks_that_moved_are_not_sent() {
    for (way, sums, options) in [
        (Way::Push, ["sha256", "sha256"], ""),
        (Way::Pull, ["blake2", "xxhash"], ""),
        (Way::Push, ["xxhash", "xxhash"], "--trust-sums"),
        (Way::Pull, ["xxhash", "crc32c"], "--trust-sums"),
    ] {
        let world = World::new();
        let Some(_disks) = both(&world, sums) else { return };
        let mut image = Image::new(&world, (way, "there"), options);
        let fresh = image.fresh(40);
        image.splice(8000, 0, &fresh);
        image.write_anew();
        image.costs("there", 40 * BLOCK);
        // In the file itself, and blocks in the runs that moved are written over.
        let fresh = image.fresh(40);
        image.splice(4000, 0, &fresh);
        for at in [9000, 9001, 12_000] {
            let fresh = image.fresh(1);
            image.splice(at, 1, &fresh);
        }
        image.write_over();
        image.costs("there", 43 * BLOCK);
        // Away, from the back to the front, and twice.
        image.splice(100, 100, &[]);
        image.write_anew();
        image.costs("there", 0);
        image.bytes.rotate_left(7000 * BLOCK);
        image.write_over();
        image.costs("there", 0);
        let twice = image.bytes[..500 * BLOCK].to_vec();
        image.splice(6000, 0, &twice);
        image.write_anew();
        image.costs("there", 0);
        // The odd end is read: nobody keeps its sum.
        image.bytes.truncate(LEN);
        image.bytes.extend_from_slice(&[7; 100]);
        let fresh = image.fresh(1);
        image.splice(0, 0, &fresh);
        image.write_anew();
        image.costs("there", BLOCK + 100);
        // Of the last base and the one before, each with a table. Others are gone.
        assert_eq!(world.names(".cache/deltic/sums-1").len(), 4);
    }
}

#[test]
fn sums_stay_true_while_a_file_changes_and_its_disk_is_mounted_anew() {
    let world = World::new();
    let Some([disk, _there]) = both(&world, ["sha256", "sha256"]) else { return };
    let mut image = Image::new(&world, (Way::Push, "there"), "");
    // Of what changed by itself no sum is kept until there is more of it.
    for at in [5, 9000] {
        let fresh = image.fresh(1);
        image.splice(at, 1, &fresh);
        let sector = noise(BLOCK, (image.time + 1) as u64 + at as u64);
        image.splice(at, 1, &sector);
        world.write_over("disk/s/image", &[at as u64], image.time + 1);
        image.time += 1;
        image.costs("there", BLOCK);
    }
    let fresh = image.fresh(2);
    image.splice(0, 0, &fresh);
    image.write_over();
    image.costs("there", 4 * BLOCK);
    // All of it is known by its sums.
    drop(disk);
    let words = ("mount", &["-o", "loop", "image", "disk"][..]);
    let Some(_disk) = Mounted::by((&world, "disk"), words, "it was mounted") else { return };
    let fresh = image.fresh(3);
    image.splice(3000, 0, &fresh);
    image.write_over();
    image.costs("there", 3 * BLOCK);
    image.tick();
    image.costs("there", 0);
}

#[test]
fn whole_blocks_that_moved_are_not_read() {
    let world = World::new();
    let Some(_disks) = both(&world, ["sha256", "sha256"]) else { return };
    let mut image = Image::new(&world, (Way::Local, "there"), "");
    let fresh = image.fresh(40);
    image.splice(8000, 0, &fresh);
    image.write_anew();
    let Some(read) = bytes_read(&world, "sync -a disk/s/ there/d") else { return };
    world.assert_same("disk/s", "there/d");
    // The table of sums is a 256th of the file. What the copy shares with the old one counts too.
    assert!(read < (40 * BLOCK + LEN / 256 + LEN + (300 << 10)) as u64, "{read}");
    let fresh = image.fresh(1);
    image.splice(8000, 0, &fresh);
    image.write_anew();
    let run = image.sync("there");
    assert!(run.stdout.contains("read the 4.00 KiB that are new since the last sync"), "{run:#?}");
}

/// A receiver that shares no blocks copies them by their bytes.
#[test]
fn a_copy_elsewhere_is_made_of_its_own_bytes() {
    for way in WAYS {
        let world = World::new();
        let Some(_disk) = btrfs_by(&world, "sha256") else { return };
        let mut image = Image::new(&world, (way, "."), "");
        let fresh = image.fresh(40);
        image.splice(8000, 0, &fresh);
        image.bytes.rotate_right(100 * BLOCK);
        image.write_over();
        image.costs(".", 40 * BLOCK);
    }
}

/// Sums of 32 bits decide nothing, and those of 64 bits not unasked.
#[test]
fn sums_that_do_not_decide_are_neither_kept_nor_asked() {
    for sums in ["crc32c", "xxhash"] {
        let world = World::new();
        let Some(_disks) = both(&world, [sums, sums]) else { return };
        let trust = if sums == "crc32c" { "--trust-sums" } else { "" };
        let mut image = Image::new(&world, (Way::Push, "there"), trust);
        let fresh = image.fresh(40);
        image.splice(8000, 0, &fresh);
        image.write_anew();
        let run = image.sync("there");
        let why = match sums {
            "crc32c" => "its file system keeps 32-bit checksums, which prove nothing",
            _ => "its file system keeps 64-bit checksums, which are used only with --trust-sums",
        };
        let told = format!("much of the file changed and data may only have moved: {why}");
        assert!(run.stdout.contains(&told), "{run:#?}");
        assert!(run.stat("Literal data") < 80 * SECTOR, "it is matched all the same: {run:#?}");
        assert_eq!(world.names(".cache/deltic/sums-1"), [""; 0]);
    }
}

#[test]
fn lost_or_spoilt_notes_and_a_spoilt_copy_end_in_the_ordinary_way() {
    let world = World::new();
    let Some(_disks) = both(&world, ["sha256", "crc32c"]) else { return };
    let mut image = Image::new(&world, (Way::Push, "there"), "");
    let notes = || fs::read_dir(world.path(".cache/deltic/sums-1")).unwrap();
    let lost = || fs::remove_dir_all(world.path(".cache/deltic/sums-1")).unwrap();
    let spoilt = || {
        for note in notes() {
            let path = note.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    };
    // Somebody wrote to the copy, and gave it its time back.
    let behind = || world.write_over("there/d/image", &[3000], world.time("there/d/image").0);
    for (spoil, is_by_sums) in
        [(&lost as &dyn Fn(), false), (&|| (), true), (&spoilt, false), (&behind, false)]
    {
        spoil();
        let fresh = image.fresh(40);
        image.splice(8000, 0, &fresh);
        image.write_anew();
        let run = image.sync("there");
        let told = run.stdout.contains("that are new since the last sync");
        assert_eq!(told, is_by_sums, "{run:#?}");
    }
    // What is packed has sums of something else: it is read.
    let packed = b"the same again and again ".repeat(LEN / 25);
    Run::of(&mut world.command("chattr", ["+c", "disk/s"]));
    image.bytes = packed;
    image.write_anew();
    image.sync("there");
    image.splice(8000, 0, &[1; BLOCK]);
    image.write_anew();
    image.sync("there");
}

/// Another file system keeps none.
#[test]
fn the_option_asks_for_nothing_where_no_sums_are_kept() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("s/a", noise(100_000, 1));
    world.ok("-a --trust-sums s/ disk/d");
    world.assert_same("s", "disk/d");
    world.ok("-a --trust-sums disk/d/ h:t");
    world.assert_same("disk/d", "t");
}
