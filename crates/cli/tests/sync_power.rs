//! What a power cut leaves: the destination is on a file system of its own, and the disk below it is copied in the
//! midst of a run, without what the system has not written to it yet. What is mounted again from the copy is what is
//! there afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{DELTIC, Run, SHELL, Way, World, edited, is_installed, is_root, noise, skip};
use rustix::process::{Pid, Signal, kill_process_group};

/// A file system in a file, mounted until this value goes.
struct Disk<'a> {
    world: &'a World,
    image: PathBuf,
    place: String,
}

impl<'a> Disk<'a> {
    /// A new one. Nothing is written to it but what is flushed, or what its journal says must be.
    fn new(world: &'a World) -> Option<Self> {
        let image = fs::File::create(world.path("image"));
        image.and_then(|file| file.set_len(48 << 20)).expect("there is room");
        let words = ["-q", "-F", "-b", "4096", "-J", "size=4", "image"];
        let can = is_root() && is_installed("mkfs.ext4");
        let made = can && Run::of(&mut world.command("mkfs.ext4", words)).code == Some(0);
        let disk = made.then(|| Self::mount(world, "image", "disk")).flatten();
        if disk.is_none() {
            skip("a file system cannot be made and mounted here");
        }
        disk
    }

    fn mount(world: &'a World, image: &str, place: &str) -> Option<Self> {
        world.mkdir(place);
        // A file system that does not flush what is renamed over another is the harder one.
        let options = "loop,commit=300,noauto_da_alloc";
        let words = ["-t", "ext4", "-o", options, image, place];
        let mounted = Run::of(&mut world.command("mount", words)).code == Some(0);
        mounted.then(|| Self { world, image: world.path(image), place: place.to_owned() })
    }

    /// What is on the disk now, as another disk.
    fn cut(&self) -> Self {
        let read = || fs::read(&self.image).expect("it can be read");
        let mut bytes = read();
        // Of one instant, though the system may be writing.
        while let now = read()
            && now != bytes
        {
            bytes = now;
        }
        let copy = fs::File::create(self.world.path("cut")).expect("there is room");
        copy.set_len(bytes.len() as u64).expect("there is room");
        let blocks = (0..).step_by(4096).zip(bytes.chunks(4096));
        for (start, block) in blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
            copy.write_all_at(block, start).expect("there is room");
        }
        Self::mount(self.world, "cut", "after").expect("its journal can be replayed")
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        Run::of(&mut self.world.command("umount", [&*self.place]));
        let _ = fs::remove_file(&self.image);
    }
}

/// What names below `disk/dst` hold before a run, and after it: some change, some are new, one stays, one goes.
type Trees = BTreeMap<String, [Option<Vec<u8>>; 2]>;

const EXTRA: &str = "extra";

fn write_trees(world: &World) -> Trees {
    let large = noise(2_000_000, 1);
    let mut names = Trees::new();
    names.insert("large".to_owned(), [Some(large.clone()), Some(edited(&large, 1_000_000))]);
    names.insert("new large".to_owned(), [None, Some(noise(1_500_000, 2))]);
    names.insert("stays".to_owned(), [Some(noise(9000, 3)), Some(noise(9000, 3))]);
    names.insert(EXTRA.to_owned(), [Some(noise(9000, 4)), None]);
    for n in 0..60 {
        let before = (n % 2 == 0).then(|| noise(3000, 100 + n));
        names.insert(format!("sub {}/{n}", n % 4), [before, Some(noise(20_000, 200 + n))]);
    }
    for (name, versions) in &names {
        for (tree, bytes) in ["disk/dst", "src"].into_iter().zip(versions) {
            let Some(bytes) = bytes else { continue };
            let path = format!("{tree}/{name}");
            world.write(&path, bytes);
            let is_old = tree != "src" || name == "stays";
            world.set_time(&path, if is_old { 1_000_000_000 } else { 1_100_000_000 });
        }
    }
    Run::of(&mut world.command("sync", ["-f", "disk"]));
    names
}

/// Every name is the old or the new one, new where its source is gone, and none goes before all others are new. Gives
/// back how many files are new.
#[track_caller]
fn check(world: &World, names: &Trees, what: &str) -> usize {
    let is_now = |name: &str| fs::read(world.path(format!("after/dst/{name}"))).ok();
    let mut news = 0;
    for (name, [old, new]) in names {
        let is = is_now(name);
        assert!(is == *old || is == *new, "{what}: {name} is neither old nor new");
        let was_taken = new.is_some() && !world.exists(format!("src/{name}"));
        assert!(is == *new || !was_taken, "{what}: {name} left its source and is not here");
        news += usize::from(new.is_some() && is == *new && old != new);
    }
    assert!(is_now(EXTRA).is_some() || news == FILES, "{what}: a name went too early");
    news
}

/// Files that a run brings.
const FILES: usize = 62;

/// Both ends of a run, as one group; gone with this value.
struct Running {
    child: Child,
    group: Pid,
}

impl Running {
    fn start(world: &World, way: Way, words: &str) -> Self {
        let child = Command::new(DELTIC)
            .args(["sync", "-a", "--delete", "-e", SHELL, "--deltic-path", DELTIC])
            .args(words.split_whitespace())
            .args([way.from("src/"), way.to("disk/dst/")])
            .current_dir(world.path(""))
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        let group = Pid::from_child(&child);
        Self { child, group }
    }

    /// True if there was anything left to signal.
    fn signal(&self, signal: Signal) -> bool {
        kill_process_group(self.group, signal).is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Cuts the power again and again while a run is at work, and once when it has said that all is well. What a cut leaves
/// is checked, and now and then completed.
fn cut_often(way: Way, words: &str) {
    let world = World::new();
    let Some(disk) = Disk::new(&world) else { return };
    let names = write_trees(&world);
    let mut run = Running::start(&world, way, words);
    for cuts in 0.. {
        if run.child.try_wait().expect("it is ours").is_some() {
            break;
        }
        if run.signal(Signal::STOP) {
            let _after = disk.cut();
            let what = format!("{way:?} {words}, cut {cuts}");
            let news = check(&world, &names, &what);
            if cuts % 3 == 0 {
                complete(&world, &names, news, &what);
            }
            run.signal(Signal::CONT);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let code = run.child.wait().expect("it is ours").code();
    assert_eq!(code, Some(0), "{way:?} {words}");
    let _after = disk.cut();
    let what = format!("{way:?} {words}, at the end");
    assert_eq!(check(&world, &names, &what), FILES, "{what}");
    world.assert_clean("after/dst");
    complete(&world, &names, FILES, &what);
}

/// The next run brings what is not here, and that alone; after it nothing is to be done.
#[track_caller]
fn complete(world: &World, names: &Trees, news: usize, what: &str) {
    let run = world.ok("-a --no-fsync --stats src/ after/dst/");
    assert_eq!(run.stat("Number of regular files transferred"), (FILES - news) as u64, "{what}");
    assert_eq!(check(world, names, what), FILES, "{what}");
    world.assert_clean("after/dst");
    assert_eq!(world.ok("-ani src/ after/dst/").stdout, "", "{what}");
}

#[test]
fn a_power_cut_leaves_old_or_new_at_any_instant_and_after_success_all_is_new() {
    thread::scope(|scope| {
        for (way, words) in [
            (Way::Local, "--bwlimit=8M --no-fsync --fsync"),
            (Way::Push, "--bwlimit=4M"),
            (Way::Pull, "--bwlimit=4M --remove-source-files"),
            (Way::Push, "--bwlimit=4M --delay-updates"),
        ] {
            scope.spawn(move || cut_often(way, words));
        }
    });
}

/// Otherwise the test above would see nothing.
#[test]
fn without_flushing_a_power_cut_takes_what_was_said_to_be_there() {
    let world = World::new();
    let Some(disk) = Disk::new(&world) else { return };
    let names = write_trees(&world);
    let mut run = Running::start(&world, Way::Local, "--no-fsync");
    assert_eq!(run.child.wait().expect("it is ours").code(), Some(0));
    let _after = disk.cut();
    let is_there = |name: &String| fs::read(world.path(format!("after/dst/{name}"))).ok();
    let lost = names.iter().filter(|(name, [_, new])| is_there(name) != *new).count();
    if lost == 0 {
        skip("this system writes everything at once");
    }
}
