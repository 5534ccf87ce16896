//! What counts as changed, and other trees to compare with.

use crate::common::attrs::node;
use crate::common::{Mounted, Run, WAYS, Way, World, edited, noise, rsync};
use rustix::fs::FileType;

/// A world where `dst` has an old version of `src/file` of the same length.
fn world() -> World {
    let world = World::new();
    world.write("src/file", "new bytes");
    world.write("dst/file", "old bytes");
    world.set_time("src/file", 1_000_000_100);
    world.set_time("dst/file", 1_000_000_100);
    world
}

fn words(way: Way, options: &str) -> String {
    format!("-rt --no-fsync {options} {} {}", way.from("src/"), way.to("dst/"))
}

#[test]
fn size_only_takes_files_of_one_length_as_equal() {
    for way in WAYS {
        let world = world();
        world.set_time("dst/file", 1_000_000_000);
        world.ok(&words(way, "--size-only"));
        assert_eq!(world.read("dst/file"), b"old bytes", "{way:?}");
        assert_eq!(world.time("dst/file"), world.time("src/file"), "times are set all the same");
        world.write("dst/file", "another length");
        world.ok(&words(way, "--size-only"));
        assert_eq!(world.read("dst/file"), b"new bytes", "{way:?}");
    }
}

#[test]
fn ignore_times_brings_over_what_looks_equal() {
    for (way, option) in WAYS.into_iter().zip(["-I", "--ignore-times", "-I"]) {
        let world = world();
        world.ok(&words(way, ""));
        assert_eq!(world.read("dst/file"), b"old bytes", "{way:?}");
        world.ok(&words(way, option));
        assert_eq!(world.read("dst/file"), b"new bytes", "{way:?}");
    }
}

#[test]
fn a_window_says_how_near_times_are_the_same() {
    for way in WAYS {
        for (option, apart, same) in [
            ("", 0, true),
            ("", 1, false),
            ("--modify-window=1", 1, true),
            ("-@2", 2, true),
            ("-@2", 3, false),
            ("-@-1", 1, false),
        ] {
            let world = world();
            world.set_time("dst/file", 1_000_000_100 - apart);
            world.ok(&words(way, option));
            assert_eq!(world.read("dst/file") == b"old bytes", same, "{way:?} {option} {apart}");
        }
    }
}

/// A file system at `disk` that keeps whole seconds.
fn coarse(world: &World) -> Option<Mounted<'_>> {
    let without = "a file system that counts in seconds cannot be mounted here";
    let image = std::fs::File::create(world.path("image"));
    image.and_then(|image| image.set_len(16 << 20)).expect("there is room");
    let words = ["-q", "-F", "-I", "128", "image"];
    let made = || Run::of(&mut world.command("mkfs.ext2", words)).code == Some(0);
    if !(crate::common::is_installed("mkfs.ext2") && made()) {
        crate::common::skip(without);
        return None;
    }
    Mounted::by((world, "disk"), ("mount", &["-o", "loop", "image", "disk"]), without)
}

#[test]
fn where_times_are_kept_in_seconds_nothing_comes_twice() {
    let world = World::new();
    let Some(_disk) = coarse(&world) else { return };
    world.write("src/d/file", "old");
    std::os::unix::fs::symlink("file", world.path("src/d/link")).unwrap();
    for name in ["src/d/file", "src/d/link", "src/d", "src"] {
        world.set_time(name, 1_000_000_000);
    }
    for way in crate::common::WAYS {
        let dst = format!("disk/{way:?}");
        let run = |more: &str| {
            world.ok(&format!("-ai {more} {} {}", way.from("src/"), way.to(&dst))).stdout
        };
        run("");
        assert_eq!(world.time(&format!("{dst}/d/file")), (1_000_000_000, 0));
        assert_eq!(run(""), "", "{way:?}");
        assert_eq!(run("-u"), "", "{way:?}");
        assert!(run("-n -@-1").contains("f..t"), "{way:?}");
        let next = format!("{dst}-next");
        let link = format!("-a --link-dest=../{way:?}");
        world.ok(&format!("{link} {} {}", way.from("src/"), way.to(&next)));
        assert_eq!(world.inode(&format!("{dst}/d/file")), world.inode(&format!("{next}/d/file")));
        // Another second is another file.
        world.write("src/d/file", "new");
        world.set_time("src/d/file", 1_000_000_001);
        assert!(run("").contains("f..t"), "{way:?}");
        assert_eq!(world.read(format!("{dst}/d/file")), b"new");
        world.write("src/d/file", "old");
        world.set_time("src/d/file", 1_000_000_000);
    }
}

#[test]
fn a_time_that_is_near_enough_stays_where_something_else_changes() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("dst");
        for (name, secs, mode) in
            [("src/fifo", 1_000_000_001, 0o640), ("dst/fifo", 1_000_000_000, 0o600)]
        {
            node(&world.path(name), FileType::Fifo, (0, 0));
            world.chmod(name, mode);
            world.set_time(name, secs);
        }
        world.ok(&words(way, "-D -p --modify-window=1"));
        assert_eq!((world.mode("dst/fifo"), world.time("dst/fifo").0), (0o640, 1_000_000_000));
    }
}

#[test]
fn update_leaves_alone_what_is_newer() {
    for (way, option) in WAYS.into_iter().zip(["-u", "--update", "-u"]) {
        let world = world();
        world.set_time("dst/file", 1_000_000_200);
        world.ok(&words(way, option));
        assert_eq!(world.read("dst/file"), b"old bytes", "{way:?}");
        world.set_time("dst/file", 1_000_000_000);
        world.ok(&words(way, option));
        assert_eq!(world.read("dst/file"), b"new bytes", "{way:?}");
    }
}

#[test]
fn existing_makes_nothing_and_ignore_existing_changes_nothing() {
    for way in WAYS {
        let world = world();
        world.write("src/fresh", "x");
        world.write("src/dir/fresh", "x");
        for option in ["--existing -I", "--ignore-non-existing -I"] {
            world.ok(&words(way, option));
            assert_eq!(world.read("dst/file"), b"new bytes", "{way:?}");
            assert!(!world.exists("dst/fresh") && !world.exists("dst/dir"), "{way:?}");
        }
        world.write("dst/file", "old bytes");
        world.ok(&words(way, "--ignore-existing -I"));
        assert_eq!(world.read("dst/file"), b"old bytes", "{way:?}");
        assert!(world.exists("dst/fresh") && world.exists("dst/dir/fresh"), "{way:?}");
    }
}

#[test]
fn sizes_bound_what_is_brought_over_and_not_what_stays() {
    for way in WAYS {
        let world = World::new();
        for len in [1, 1023, 1024, 1025, 3000] {
            world.write(format!("src/{len}"), noise(len, 1));
        }
        world.write("dst/3000", "stays");
        world.ok(&words(way, "--delete --max-size=1K --min-size=2"));
        let mut names = world.names("dst");
        names.sort();
        assert_eq!(names, ["1023", "1024", "3000"], "{way:?}");
        assert_eq!(world.read("dst/3000"), b"stays");
        world.ok(&words(way, "--max-size=1k+1"));
        assert!(world.exists("dst/1025") && world.exists("dst/1"), "{way:?}");
    }
}

/// `alt` has `same` as it is, `touched` with another mode, and an old version of `changed`.
fn with_alternate() -> World {
    let world = World::new();
    let old = noise(300_000, 3);
    for (name, bytes) in [("same", noise(5000, 1)), ("touched", noise(5000, 2))] {
        world.write(format!("src/{name}"), &bytes);
        world.write(format!("alt/{name}"), &bytes);
    }
    world.write("src/changed", edited(&old, 1000));
    world.write("alt/changed", &old);
    for name in ["src/same", "alt/same", "src/touched", "alt/touched"] {
        world.set_time(name, 1_000_000_000);
    }
    world.chmod("alt/touched", 0o600);
    world.mkdir("dst");
    world
}

#[test]
fn compare_dest_leaves_out_what_the_alternate_has() {
    for way in WAYS {
        let world = with_alternate();
        let run = world.ok(&words(way, "-p --stats --no-whole-file --compare-dest=../alt"));
        let mut names = world.names("dst");
        names.sort();
        assert_eq!(names, ["changed", "touched"], "{way:?}");
        assert_eq!(world.read("dst/changed"), world.read("src/changed"));
        assert_eq!(world.mode("dst/touched"), 0o644);
        assert!(run.stat("Literal data") < 50_000, "{way:?} {run:#?}");
    }
}

#[test]
fn copy_dest_copies_what_the_alternate_has() {
    for way in WAYS {
        let world = with_alternate();
        let run = world.ok(&words(way, "-p --stats --no-whole-file --copy-dest=../alt"));
        world.assert_same("src", "dst");
        assert_ne!(world.inode("dst/same"), world.inode("alt/same"));
        assert!(run.stat("Literal data") < 50_000, "{way:?} {run:#?}");
    }
}

/// As rsync does: what an alternate has is told like what differs from there.
#[test]
fn what_comes_from_an_alternate_is_itemized() {
    let lines = |run: &Run| {
        let told = |line: &&str| line.ends_with(" same") || line.ends_with(" touched");
        let mut lines: Vec<_> = run.stdout.lines().filter(told).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (usage, same) in [("copy", "cf"), ("link", "hf"), ("compare", ".f")] {
        for (level, checksum) in [("-i", ""), ("-ii", ""), ("-ii", "-c")] {
            if (usage, checksum) == ("link", "-c") {
                continue;
            }
            let options = format!("-p {level} {checksum} --{usage}-dest=../alt");
            let mut expected = vec!["cf...p..... touched".to_owned()];
            if level == "-ii" {
                expected.push(format!("{same}          same"));
            }
            expected.sort();
            for way in WAYS {
                let run = with_alternate().ok(&words(way, &options));
                assert_eq!(lines(&run), expected, "{way:?} {options}");
            }
            let theirs = words(Way::Local, &options).replace(" --no-fsync", "");
            let theirs: Vec<_> = theirs.split_whitespace().collect();
            if let Some(run) = rsync(&with_alternate(), &theirs) {
                assert_eq!(lines(&run), expected, "rsync {options}");
            }
        }
    }
}

/// As by rsync: nothing is new that an alternate has, whatever makes way.
#[test]
fn what_comes_from_an_alternate_is_told_alike_where_something_of_another_kind_makes_way() {
    for way in WAYS {
        for (usage, mark) in [("--link-dest", 'h'), ("--copy-dest", 'c')] {
            for (end, names) in [("n", 0), ("", 0), ("n --force", 1), (" --force", 1)] {
                let world = World::new();
                world.write("src/dir/file", "x");
                world.write("src/file", "y");
                world.ok("-a src/ alt/");
                world.write("dst/dir", "is none");
                world.mkdir("dst/file");
                (0..names).for_each(|name| world.write(format!("dst/file/{name}"), "z"));
                let options = format!("{usage}=../alt --stats -aii{end}");
                let words = [&options, &*way.from("src/"), &way.to("dst/")].join(" ");
                let told = world.ok(&words).stdout;
                let blank = " ".repeat(9);
                for line in [format!("cd{blank} dir/"), format!("{mark}f{blank} file")] {
                    assert!(told.lines().any(|told| told == line), "{words}: {line} in {told}");
                }
                assert!(told.contains("created files: 0\n"), "{words}: {told}");
                assert!(told.contains("files transferred: 0\n"), "{words}: {told}");
                let is_linked = world.inode("dst/file") == world.inode("alt/file");
                assert_eq!(is_linked, mark == 'h' && !end.starts_with('n'), "{words}");
            }
        }
    }
}

#[test]
fn link_dest_links_what_is_equal_in_every_carried_attribute() {
    for way in WAYS {
        let world = with_alternate();
        world.link("there", "src/link");
        world.link("there", "alt/link");
        world.set_time("src/link", 1_000_000_000);
        world.set_time("alt/link", 1_000_000_000);
        world.ok(&words(way, "-pl --link-dest=../none --link-dest=../alt").replace("-rt", "-rtq"));
        world.assert_same("src", "dst");
        for (name, linked) in
            [("same", true), ("touched", false), ("changed", false), ("link", true)]
        {
            let same = world.inode(&format!("dst/{name}")) == world.inode(&format!("alt/{name}"));
            assert_eq!(same, linked, "{way:?} {name}");
        }
        let run = world.sync(&words(way, "--link-dest=../none").split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        let told =
            run.stderr.contains("--link-dest: ") && run.stderr.contains("none: does not exist");
        assert!(told, "{way:?} {run:#?}");
        // Again: nothing to do, and nothing is undone.
        world.ok(&words(way, "-pl --link-dest=../alt"));
        assert_eq!(world.inode("dst/same"), world.inode("alt/same"), "{way:?}");
    }
}

#[test]
fn link_dest_takes_the_place_of_an_old_file_and_never_goes_through_a_link() {
    let world = with_alternate();
    world.write("dst/same", "old");
    world.ok(&words(Way::Push, "-p --link-dest=../alt"));
    assert_eq!(world.inode("dst/same"), world.inode("alt/same"));
    // What an alternate holds behind a symlink is not its own.
    let world = World::new();
    world.write("src/dir/file", "x");
    world.write("elsewhere/file", "x");
    world.mkdir("alt");
    world.link("../elsewhere", "alt/dir");
    for name in ["src/dir/file", "elsewhere/file"] {
        world.set_time(name, 1_000_000_000);
    }
    world.mkdir("dst");
    world.ok(&words(Way::Local, "--link-dest=../alt"));
    assert_ne!(world.inode("dst/dir/file"), world.inode("elsewhere/file"));
}

#[test]
fn contents_are_compared_with_an_alternate_where_that_is_asked_for() {
    for way in WAYS {
        let world = with_alternate();
        world.set_time("src/same", 1_000_000_000);
        world.write("src/liar", "new bytes");
        world.write("alt/liar", "old bytes");
        world.set_time("src/liar", 1_000_000_000);
        world.set_time("alt/liar", 1_000_000_000);
        world.ok(&words(way, "-pc --link-dest=../alt"));
        assert_eq!(world.inode("dst/same"), world.inode("alt/same"), "{way:?}");
        assert_eq!(world.read("dst/liar"), b"new bytes", "{way:?}");
    }
}

/// Each link changes what the others are being compared with, but nothing of its content.
#[test]
fn names_of_one_file_are_linked_to_an_alternate_though_that_gets_more_names_meanwhile() {
    for way in WAYS {
        let world = World::new();
        for dir in ["src", "alt"] {
            world.write(format!("{dir}/000"), "content");
            for n in 1..200 {
                let link = world.path(format!("{dir}/{n:03}"));
                std::fs::hard_link(world.path(format!("{dir}/000")), link).unwrap();
            }
            world.set_time(format!("{dir}/000"), 1_000_000_000);
        }
        world.ok(&words(way, "-pc --link-dest=../alt"));
        for name in world.names("src") {
            assert_eq!(world.inode(&format!("dst/{name}")), world.inode("alt/000"), "{way:?}");
        }
    }
}

#[test]
fn several_alternates_are_of_one_use() {
    let world = world();
    let run = world.fails(1, "--compare-dest=a --link-dest=b src/ dst/");
    assert!(run.stderr.contains("conflicts"), "{run:#?}");
    let many = "--link-dest=a ".repeat(21);
    let run = world.fails(1, &format!("{many} src/ dst/"));
    assert!(run.stderr.contains("at most 20"), "{run:#?}");
}

#[test]
fn an_old_version_of_a_similar_name_is_matched_against() {
    for (way, option) in
        [(Way::Push, "-y"), (Way::Pull, "--fuzzy"), (Way::Push, "-yy --copy-dest=../alt")]
    {
        let world = World::new();
        let old = noise(400_000, 9);
        world.write("src/release-2.tar", edited(&old, 70_000));
        let dir = if option.contains("alt") { "alt" } else { "dst" };
        world.mkdir("dst");
        world.write(format!("{dir}/release-1.tar"), &old);
        let plain = world.ok(&words(way, "-n --stats"));
        assert_eq!(plain.stat("Number of regular files transferred"), 1);
        let run = world.ok(&words(way, &format!("--stats {option}")));
        assert_eq!(world.read("dst/release-2.tar"), world.read("src/release-2.tar"));
        assert!(run.stat("Literal data") < 50_000, "{way:?} {option} {run:#?}");
    }
}

/// The dry run looks at the other trees where the real one will: from a destination that is not there yet.
#[test]
fn a_dry_run_into_a_destination_that_is_not_there_tells_what_the_real_run_does() {
    for way in WAYS {
        for option in ["--compare-dest", "--copy-dest", "--link-dest"] {
            for (to, up) in [("new/", "../prev"), ("deep/er/new/", "../../../prev")] {
                for checksum in ["", "-c"] {
                    let world = World::new();
                    for (name, content) in [("same", "1"), ("sub/same", "22"), ("sub/other", "3")] {
                        world.write(format!("src/{name}"), content);
                        world.write(format!("prev/{name}"), content);
                        world.set_time(format!("src/{name}"), 1_000_000_100);
                        world.set_time(format!("prev/{name}"), 1_000_000_100);
                    }
                    world.write("prev/sub/other", "4");
                    world.set_time("prev/sub/other", 1_000_000_000);
                    let (from, to) = (way.from("src/"), way.to(to));
                    let words =
                        format!("-ai {checksum} --mkpath --no-fsync {option}={up} {from} {to}");
                    let dry = world.ok(&format!("-n {words}"));
                    assert!(!world.exists("new") && !world.exists("deep"), "{way:?}");
                    let real = world.ok(&words);
                    // What --mkpath makes is told otherwise, as in rsync.
                    let below =
                        |line: &&str| !line.ends_with(" ./") && !line.starts_with("created ");
                    let lines = |run: &Run| {
                        run.stdout.lines().filter(below).map(str::to_owned).collect::<Vec<_>>()
                    };
                    assert_eq!(lines(&dry), lines(&real), "{way:?} {words}");
                    assert_eq!(dry.stderr, real.stderr, "{way:?} {words}");
                    assert!(!real.stdout.contains("f+++++++++ same"), "{real:#?}");
                    assert!(real.stdout.contains("sub/other"), "{real:#?}");
                }
            }
        }
    }
}
