//! Strong sums that the file system keeps are not computed again: the counters of `sync` prove this.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::csv::{csv, number};
use common::{Run, World};

/// A btrfs with SHA-256 checksums, removed on drop.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Returns `None` if mounting is not permitted.
    fn at(dir: &'a Path, image: &Path) -> Option<Self> {
        fs::create_dir(dir).ok()?;
        fs::File::create(image).ok()?.set_len(256 << 20).ok()?;
        let done = |command: &mut Command| command.output().is_ok_and(|out| out.status.success());
        let made = done(Command::new("mkfs.btrfs").args(["-q", "--csum", "sha256"]).arg(image));
        let mounts = made && done(Command::new("mount").args(["-o", "loop"]).arg(image).arg(dir));
        mounts.then_some(Self(dir))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).output().ok();
    }
}

#[test]
fn strong_sums_that_storage_keeps_are_not_computed() {
    let world = World::new();
    let (dir, image) = (world.path("disk"), world.path("image"));
    let Some(_disk) = Mounted::at(&dir, &image) else {
        return eprintln!("SKIPPED: btrfs cannot be mounted here");
    };
    let strong = |dir: &str| {
        let words = "--strategy skysync-f --size 1MB --kind inverse --change 0 --runs 1";
        let words = format!("sync -q --dir {dir} {words} --csv {dir}.csv");
        let run = Run::of(&mut world.bench(words.split_whitespace()));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        let rows = csv(&world, &format!("{dir}.csv"));
        let row = rows.iter().find(|row| row["name"] == "skysync-f").expect("it has a row");
        assert_eq!(number(row, "literal_bytes"), 0.0, "{row:?}");
        number(row, "sender_strong_compared")
    };
    // A file of 1 MB ends within a block, and the file system has no sum of a partial block.
    assert_eq!((strong("src"), strong("disk")), (123.0, 1.0));
}

/// The receiver reads an unchanged file once for sums, and once more for the proof.
#[test]
fn without_a_proof_the_receiver_reads_a_file_once() {
    let world = World::new();
    let reads = |proof: &str| {
        let words = "--strategy skysync-f,deltic --size 1MB --change 0 --runs 1 --threads 1";
        let words = format!("sync -q --dir src {words} --proof {proof} --csv {proof}.csv");
        let run = Run::of(&mut world.bench(words.split_whitespace()));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        let rows = csv(&world, &format!("{proof}.csv"));
        let row = |name| rows.iter().find(|row| row["name"] == name).expect("it has a row");
        ["skysync-f", "deltic"].map(|name| number(row(name), "receiver_read_bytes"))
    };
    let ([own, deltic], [none, deltic_too]) = (reads("own"), reads("none"));
    assert_eq!((own, none), (2e6, 1e6));
    assert_eq!(deltic, deltic_too, "Deltic's own recipes always prove the file");
}
