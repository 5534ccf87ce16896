//! Trees so large that directories go by their tallies: they cost little, and every change in them is found.

use std::fs;

use crate::common::{WAYS, Way, World, attrs, rsync};

const DIRS: usize = 90;
const FILES: usize = 25;

/// A world whose `src` has directories within directories, and some of everything in many of them.
fn world() -> World {
    let world = World::new();
    for dir in 0..DIRS {
        for file in 0..FILES {
            let name = format!("{}/{file}", dir_name(dir));
            world.write(format!("src/{name}"), format!("{dir} {file}"));
            world.set_time(format!("src/{name}"), 1_000_000 + file as i64);
        }
        if dir % 3 == 0 {
            world.link(&format!("{dir}"), &format!("src/{}/link", dir_name(dir)));
        }
        world.mkdir(&format!("src/{}/empty", dir_name(dir)));
    }
    world
}

/// Each tenth of them lies in the one before.
fn dir_name(dir: usize) -> String {
    let chain = (dir / 10 * 10..=dir).map(|n| format!("a longish name of a directory {n}"));
    chain.collect::<Vec<_>>().join("/")
}

fn sync(world: &World, way: Way, options: &str) -> crate::common::Run {
    world.ok(&format!("-a --no-fsync {options} {} {}", way.from("src/"), way.to("dst/")))
}

/// The lines of `--stats` that rsync has as well.
fn counts(run: &crate::common::Run) -> Vec<&str> {
    let labels = ["Number of", "Total file size", "Total transferred file size"];
    run.stdout.lines().filter(|line| labels.iter().any(|label| line.starts_with(label))).collect()
}

/// The names that a run says to change, but for directories, whose times rsync compares to the second, and for what is
/// deleted, of which Deltic tells the tops.
fn changes(run: &crate::common::Run) -> Vec<String> {
    let told = |line: &&&str| !line.starts_with("*deleting") && !line.starts_with(".d");
    let name = |line: &&str| line.split_once(' ').expect("what, then a name").1.to_owned();
    run.lines().iter().filter(told).map(name).collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

#[test]
fn what_did_not_change_costs_less_than_its_names() {
    for way in WAYS {
        let world = world();
        sync(&world, way, "");
        world.assert_same("src", "dst");
        for options in [
            "",
            "--delete",
            "-n",
            "-O --no-perms",
            "--numeric-ids",
            "-H",
            "-A",
            "-X",
            "-b",
            "--size-only",
            "--modify-window=1",
            "-HAX -b --delete",
        ] {
            let run = sync(&world, way, &format!("-i --stats {options}"));
            assert!(run.stdout.starts_with("\nNumber of files: "), "{way:?}: {}", run.stdout);
            assert_eq!(run.stat("Number of files"), (1 + DIRS * (2 + FILES) + DIRS / 3) as u64);
            let bytes = run.traffic();
            let names = DIRS * FILES * 2;
            // The first thousand names are listed.
            assert!(bytes < (30_000 + 400 * DIRS + names) as u64, "{way:?} {options}: {bytes}");
            let same = &["-ani", "--stats", "src/", "dst/"];
            if let Some(judge) = rsync(&world, same) {
                assert_eq!(counts(&run), counts(&judge));
            }
        }
        world.assert_same("src", "dst");
    }
}

#[test]
fn every_change_is_found_at_either_end() {
    for way in WAYS {
        let world = world();
        sync(&world, way, "");
        let at = |dir, name: &str| format!("{}/{name}", dir_name(dir));
        world.write(format!("src/{}", at(55, "7")), "another content");
        world.chmod(&format!("src/{}", at(66, "8")), 0o600);
        world.set_time(format!("src/{}", at(77, "9")), 5);
        world.set_time(format!("dst/{}", at(78, "9")), 5);
        fs::remove_file(world.path(format!("src/{}", at(82, "3")))).unwrap();
        fs::remove_file(world.path(format!("dst/{}", at(83, "3")))).unwrap();
        world.write(format!("src/{}", at(84, "empty/new/newer/newest")), "new");
        world.write(format!("dst/{}", at(85, "empty/extra/more")), "extra");
        fs::remove_file(world.path(format!("src/{}", at(87, "link")))).unwrap();
        world.link("elsewhere", &format!("src/{}", at(87, "link")));
        fs::remove_dir(world.path(format!("src/{}", at(88, "empty")))).unwrap();
        world.write(format!("src/{}", at(88, "empty")), "a file now");
        fs::remove_dir_all(world.path(format!("dst/{}", dir_name(49)))).unwrap();
        world.write(format!("dst/{}", dir_name(49)), "a file there");
        world.chmod(&format!("dst/{}", dir_name(35)), 0o500);
        let words = &["-ani", "--delete", "src/", "dst/"];
        let expected = rsync(&world, words);
        let run = sync(&world, way, "-i --delete");
        if let Some(judge) = expected {
            assert_eq!(sorted(changes(&run)), sorted(changes(&judge)), "{way:?}");
        }
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert_eq!(sync(&world, way, "-i --delete").stdout, "", "{way:?}");
    }
}

/// Rules of one end alone make directories unlike, and no more.
#[test]
fn rules_say_what_they_say_without_tallies() {
    for rules in ["--exclude=7", "-f'P_7'", "-f'H_7'", "--exclude=7 --delete-excluded"] {
        let world = world();
        sync(&world, Way::Push, "");
        for dir in [30, 60, 88] {
            fs::remove_file(world.path(format!("src/{}/7", dir_name(dir)))).unwrap();
            world.write(format!("dst/{}/8", dir_name(dir)), "changed");
            world.write(format!("dst/{}/extra", dir_name(dir)), "extra");
        }
        let rules: Vec<_> = rules.split(' ').map(|word| word.replace('\'', "")).collect();
        let rules: Vec<_> = rules.iter().map(|word| word.replace('_', " ")).collect();
        let mut words = vec!["-a", "-i", "--delete", "--max-delete=99999"];
        words.extend(rules.iter().map(String::as_str));
        let dry = [&words[..], &["-n", "src/", "dst/"]].concat();
        let expected = rsync(&world, &dry);
        words.extend(["--no-fsync", "src/", "h:dst/"]);
        let run = world.sync(&words);
        assert_eq!(run.code, Some(0), "{run:#?}");
        let deleted = |run: &crate::common::Run| {
            run.stdout.lines().filter(|line| line.starts_with("*deleting")).count()
        };
        if let Some(judge) = expected {
            assert_eq!(sorted(changes(&run)), sorted(changes(&judge)), "{rules:?}");
            assert_eq!(deleted(&run), deleted(&judge), "{rules:?}");
        }
    }
}

/// A directory that leads to an argument has other entries, which take no part.
#[test]
fn changes_below_arguments_that_keep_their_directories_are_found() {
    let world = world();
    let at = |dir, name: &str| format!("{}/{name}", dir_name(dir));
    let args: Vec<_> = [35, 55, 63, 70].map(|dir| format!("src/{}/", dir_name(dir))).into();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let words = [&["-aRi", "--delete", "--no-fsync"][..], &args, &["h:dst/"]].concat();
    let ours = || world.sync(&words);
    assert_eq!(ours().code, Some(0));
    assert_eq!(ours().stdout, "");
    world.write(format!("src/{}", at(37, "7")), "another content");
    world.set_time(format!("src/{}", at(57, "9")), 5);
    fs::remove_file(world.path(format!("src/{}", at(66, "3")))).unwrap();
    world.chmod(&format!("dst/src/{}", at(72, "4")), 0o600);
    world.write(format!("dst/src/{}", at(74, "extra")), "extra");
    world.write(format!("dst/src/{}", at(30, "beside")), "takes no part");
    let dry = [&["-aRni", "--delete"][..], &args, &["dst/"]].concat();
    let expected = rsync(&world, &dry);
    let run = ours();
    if let Some(judge) = expected {
        assert_eq!(sorted(changes(&run)), sorted(changes(&judge)));
        assert_eq!(rsync(&world, &dry).unwrap().stdout, "");
    }
    assert!(world.path(format!("dst/src/{}", at(30, "beside"))).exists());
    assert_eq!(ours().stdout, "");
}

/// Changes that only these options see, each in a directory that is otherwise as it was.
#[test]
fn what_hard_links_attributes_and_acls_change_is_found() {
    let world = world();
    let at = |dir, name: &str| format!("{}/{name}", dir_name(dir));
    let linked = |root: &str, from: &str, to: &str| {
        let _ = fs::remove_file(world.path(format!("{root}/{to}")));
        fs::hard_link(world.path(format!("{root}/{from}")), world.path(format!("{root}/{to}")))
            .unwrap();
    };
    let note = |name: &str, value: &[u8]| attrs::note(&world.path(name), "user.test", value);
    linked("src", &at(51, "1"), &at(52, "1"));
    note(&format!("src/{}", at(61, "3")), b"one");
    note(&format!("src/{}", at(62, "empty")), b"one");
    sync(&world, Way::Push, "-HAX");
    for options in ["-HAX", "-HAX -b --delete", "-HAX --size-only", "-HAX --modify-window=1"] {
        assert_eq!(sync(&world, Way::Push, &format!("-i {options}")).stdout, "", "{options}");
    }
    // One link more, one less, and one that only the destination lacks; times and contents stay.
    linked("src", &at(71, "4"), &at(72, "4"));
    fs::remove_file(world.path(format!("dst/{}", at(52, "1")))).unwrap();
    fs::copy(
        world.path(format!("dst/{}", at(51, "1"))),
        world.path(format!("dst/{}", at(52, "1"))),
    )
    .unwrap();
    world.set_time(format!("dst/{}", at(52, "1")), 1_000_001);
    note(&format!("src/{}", at(61, "3")), b"two");
    note(&format!("dst/{}", at(63, "5")), b"only here");
    let run = sync(&world, Way::Push, "-i -HAX");
    let said = |name: &str| run.stdout.lines().any(|line| line.contains(name));
    for name in [at(72, "4"), at(52, "1"), at(61, "3"), at(63, "5")] {
        assert!(said(&name), "{name}: {run:#?}");
    }
    if let Some(judge) = rsync(&world, &["-aniHAX", "src/", "dst/"]) {
        assert_eq!(judge.stdout, "");
    }
    assert_eq!(sync(&world, Way::Push, "-i -HAX").stdout, "");
}
