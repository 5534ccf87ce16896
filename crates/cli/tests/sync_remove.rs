//! Removals besides deletions, and backups.

use crate::common::{WAYS, Way, World};

fn words(way: Way, options: &str) -> String {
    format!("-a --no-fsync {options} {} {}", way.from("src/"), way.to("dst/"))
}

fn world() -> World {
    let world = World::new();
    world.write("src/file", "new");
    world.write("src/sub/same", "same");
    world.ok("-a --no-fsync src/ dst/");
    world.write("dst/file", "old bytes");
    world.write("dst/sub/extra", "extra");
    world
}

#[test]
fn every_way_to_say_delete_deletes() {
    for (n, option) in
        ["--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after"]
            .into_iter()
            .enumerate()
    {
        let world = world();
        world.ok(&words(WAYS[n % 3], option));
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_limit_or_a_word_takes_the_place_of_the_guard() {
    let world = world();
    for n in 0..30 {
        world.write(format!("dst/more/{n}"), "");
    }
    world.fails(25, &words(Way::Push, "--delete --max-delete=50%"));
    // As in rsync neither says --delete: they may be settings.
    world.ok(&words(Way::Local, "--max-delete=300"));
    world.ok(&words(Way::Local, "--force-delete"));
    assert!(world.exists("dst/sub/extra") && world.exists("dst/more/29"));
    world.ok(&words(Way::Push, "--delete --max-delete=50% --force-delete"));
    world.assert_same("src", "dst");
}

#[test]
fn force_lets_a_full_directory_give_way() {
    for way in WAYS {
        let world = world();
        world.write("src/other", "a file");
        world.link("nowhere", "src/link");
        for name in ["other", "link"] {
            world.write(format!("dst/{name}/full/of"), "x");
        }
        world.fails(23, &words(way, ""));
        assert!(world.exists("dst/other/full/of"), "{way:?}");
        world.ok(&words(way, "--force"));
        assert_eq!(world.read("dst/other"), b"a file", "{way:?}");
        world.write("src/bare", "a file");
        world.mkdir("dst/bare");
        world.fails(25, &words(way, "--delete --max-delete=0"));
        assert_eq!(world.read("dst/bare"), b"a file", "{way:?}");
        assert!(world.exists("dst/sub/extra") && !world.exists("dst/link/full"), "{way:?}");
        world.write("src/third", "a file");
        world.write("dst/third/full/of", "x");
        world.fails(23, &words(way, "--force --no-force"));
    }
}

#[test]
fn ignore_errors_deletes_though_a_source_is_missing() {
    for way in WAYS {
        let world = world();
        let missing = if way == Way::Pull { ":missing" } else { "missing" };
        let all = |options: &str| {
            let source = way.from("src/");
            words(way, options).replace(&source, &format!("{source} {missing}"))
        };
        world.fails(23, &all("--delete"));
        assert!(world.exists("dst/sub/extra"), "{way:?}");
        world.fails(23, &all("--delete --ignore-errors"));
        assert!(!world.exists("dst/sub/extra"), "{way:?}");
    }
}

#[test]
fn sources_go_once_they_have_arrived_and_no_sooner() {
    for way in WAYS {
        let world = world();
        world.link("there", "src/link");
        world.write("src/newer here", "x");
        world.write("dst/newer here", "newer");
        for name in ["src/newer here", "dst/file"] {
            world.set_time(name, 1_000_000_000);
        }
        world.ok(&words(way, "--remove-source-files -n"));
        assert!(world.exists("src/file"), "{way:?}: a dry run removes nothing");
        world.ok(&words(way, "-u --remove-source-files"));
        for (name, stays) in
            [("file", false), ("sub/same", false), ("link", false), ("newer here", true)]
        {
            assert_eq!(world.exists(format!("src/{name}")), stays, "{way:?} {name}");
            assert!(world.exists(format!("dst/{name}")), "{way:?} {name}");
        }
        assert!(world.exists("src/sub"), "directories stay");
    }
}

#[test]
fn of_a_link_that_was_followed_the_link_goes() {
    for way in WAYS {
        let world = World::new();
        world.write("behind", "x");
        world.link("../behind", "src/link");
        let ends = [way.from("src/"), way.to("dst/")];
        world.ok(&format!("-rtL --remove-source-files {} {}", ends[0], ends[1]));
        assert_eq!(world.read("dst/link"), b"x", "{way:?}");
        assert!(!world.exists("src/link") && world.exists("behind"), "{way:?}");
    }
}

#[test]
fn a_source_that_arrives_under_two_names_goes_once() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a/file", "x");
        world.write("list", "a/\na\n");
        let words = ["-rt", "--no-R", "--files-from=list", "--remove-source-files"];
        let ends = [way.from("src/"), way.to("dst/")];
        let run = world.sync(&[&words[..], &ends.each_ref().map(|end| &**end)].concat());
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        assert!(world.exists("dst/file") && world.exists("dst/a/file"), "{way:?}");
        assert!(!world.exists("src/a/file"), "{way:?}");
    }
}

#[test]
fn a_source_that_is_its_own_destination_stays() {
    let world = world();
    world.fails(3, "--remove-source-files src/file src/");
    world.fails(1, "-r --remove-source-files src/ src/");
    assert!(world.exists("src/file"));
}

#[test]
fn old_versions_are_kept_beside_the_new_ones() {
    for (way, option, suffix) in WAYS
        .into_iter()
        .zip(["-b", "--backup --suffix=.old", "-b"])
        .map(|(way, option)| (way, option, if option.contains(".old") { ".old" } else { "~" }))
    {
        let world = world();
        world.ok(&words(way, &format!("{option} --delete")));
        assert_eq!(world.read("dst/file"), b"new", "{way:?}");
        assert_eq!(world.read(format!("dst/file{suffix}")), b"old bytes", "{way:?}");
        assert_eq!(world.read(format!("dst/sub/extra{suffix}")), b"extra", "{way:?}");
        // They stay, and there are no backups of backups.
        world.ok(&words(way, &format!("{option} --delete")));
        assert!(world.exists(format!("dst/sub/extra{suffix}")), "{way:?}");
        assert!(!world.exists(format!("dst/file{suffix}{suffix}")), "{way:?}");
        world.ok(&words(way, "--delete"));
        world.assert_same("src", "dst");
    }
}

#[test]
fn old_versions_are_kept_in_a_tree_of_their_own() {
    for (way, dir) in WAYS.into_iter().zip(["../kept/today", "kept", "../kept/today"]) {
        let world = world();
        world.link("a", "src/link");
        world.link("b", "dst/link");
        world.mkdir("src/was a file");
        world.write("dst/was a file", "x");
        world.chmod("src/sub", 0o750);
        world.chmod("dst/sub", 0o750);
        for round in 0..2 {
            world.ok(&words(way, &format!("-b --backup-dir={dir} --delete")));
            let kept = format!("dst/{dir}");
            assert_eq!(world.read(format!("{kept}/file")), b"old bytes", "{way:?} {round}");
            assert_eq!(world.read(format!("{kept}/sub/extra")), b"extra", "{way:?} {round}");
            assert_eq!(world.read(format!("{kept}/was a file")), b"x", "{way:?} {round}");
            assert!(world.path(format!("{kept}/link")).is_symlink(), "{way:?} {round}");
            assert_eq!(world.mode(&format!("{kept}/sub")), 0o750, "{way:?} {round}");
            assert!(!world.exists("dst/file~") && !world.exists("dst/sub/extra"));
        }
    }
    let world = world();
    world.fails(1, &words(Way::Local, "-b --suffix="));
    world.fails(1, &words(Way::Local, "-b --suffix=a/b"));
}

#[test]
fn older_backups_of_another_kind_give_way() {
    for way in WAYS {
        let world = World::new();
        for name in ["plain", "sub/file"] {
            world.write(format!("src/{name}"), "new");
            world.write(format!("dst/{name}"), "older");
        }
        world.write("kept/plain/deep/in", "an older backup");
        world.write("kept/plain/other", "an older backup");
        world.link("..", "kept/plain/link");
        world.write("kept/sub", "an older backup");
        world.ok(&words(way, "-b --backup-dir=../kept"));
        world.assert_same("src", "dst");
        assert_eq!(world.read("kept/plain"), b"older", "{way:?}");
        assert_eq!(world.read("kept/sub/file"), b"older", "{way:?}");
    }
}

#[test]
fn the_destination_does_not_give_way_to_an_old_version() {
    let world = World::new();
    for dir in ["src", "dst"] {
        world.write(format!("{dir}/dst"), dir);
        world.write(format!("{dir}/other"), dir);
    }
    // The backup of `dst/dst` would take its place.
    let run = world.fails(23, &words(Way::Local, "-b --backup-dir=.."));
    assert!(run.stderr.contains(&world.told("back up", "dst/dst", "")), "{run:#?}");
    assert_eq!(world.read("dst/dst"), b"dst");
    assert_eq!(world.read("dst/other"), b"src");
}

#[test]
fn the_destination_itself_is_no_place_for_old_versions_without_a_suffix() {
    for way in WAYS {
        let world = world();
        world.link("dst", "way");
        let here = world.path("dst").display().to_string();
        let dirs = [".", "./", "./.", "../dst", "../way", &here];
        for (dir, words_of) in dirs.iter().flat_map(|dir| ["", "--inplace"].map(|how| (dir, how))) {
            let run = words(way, &format!("-b --backup-dir={dir} --delete {words_of}"));
            let there = way == Way::Push && !dir.starts_with("./") && *dir != ".";
            let run = world.fails(if there { 3 } else { 1 }, &run);
            assert!(run.stderr.contains("give a --suffix, or another directory"), "{run:#?}");
            assert_eq!(world.read("dst/file"), b"old bytes", "{way:?} {dir}");
            assert_eq!(world.read("dst/sub/extra"), b"extra", "{way:?} {dir}");
        }
        world.ok(&words(way, "-b --backup-dir=../way --suffix=.old --delete"));
        assert_eq!(world.read("dst/file.old"), b"old bytes", "{way:?}");
    }
}

/// A live file where the old version of another one would be kept, and both change.
#[test]
fn old_versions_that_would_come_to_one_place_are_both_kept() {
    for (way, (options, of, kept)) in WAYS.into_iter().cycle().zip([
        ("-ab", "~", ["~~", "~~~"]),
        ("-ab --no-whole-file", "~", ["~~", "~~~"]),
        ("-ab --inplace", "~", ["~~", "~~~"]),
        ("-ab --delay-updates", "~", ["~~", "~~~"]),
    ]) {
        let world = World::new();
        let names: Vec<_> = (0..20).map(|n| format!("f{n}")).collect();
        for name in &names {
            for (dir, first, other) in [("src", "new", "new live"), ("dst", "old", "old live")] {
                world.write(format!("{dir}/{name}"), first);
                world.write(format!("{dir}/{name}{of}"), other);
            }
            for end in ["", of] {
                world.set_time(format!("dst/{name}{end}"), 1_000_000_000);
            }
        }
        world.ok(&format!("{options} {} {}", way.from("src/"), way.to("dst")));
        for name in &names {
            let read = |end: &str| world.read(format!("dst/{name}{end}"));
            assert_eq!((read(""), read(of)), (b"new".to_vec(), b"new live".to_vec()), "{options}");
            let mut old = kept.map(read);
            old.sort();
            assert_eq!(old, [b"old".to_vec(), b"old live".to_vec()], "{options} {name}");
        }
    }
}

/// As in rsync what is listed is right in the end, and the old version is kept one further.
#[test]
fn an_old_version_takes_no_place_of_what_is_listed() {
    for (words_of, listed, kept) in [
        ("-b --backup-dir=k", "k/sub/a", "k/k/sub/a"),
        ("-b --backup-dir=k --inplace", "k/sub/a", "k/k/sub/a"),
        ("-b --backup-dir=../dst/k", "k/sub/a", "k/k/sub/a"),
        ("-b", "sub/a~", "sub/a~~"),
        ("-b --inplace", "sub/a~", "sub/a~~"),
        ("-b --suffix=.old --delay-updates", "sub/a.old", "sub/a.old.old"),
    ] {
        for (way, is_there) in WAYS.into_iter().flat_map(|way| [true, false].map(|is| (way, is))) {
            let world = World::new();
            world.write("src/sub/a", "new");
            world.write(format!("src/{listed}"), "live");
            world.write("dst/sub/a", "older");
            if is_there {
                world.ok(&words(way, &format!("--exclude=/sub/a --include={listed}")));
            }
            for _ in 0..2 {
                world.ok(&words(way, words_of));
                assert_eq!(world.read("dst/sub/a"), b"new", "{way:?} {words_of}");
                assert_eq!(world.read(format!("dst/{listed}")), b"live", "{way:?} {words_of}");
                assert_eq!(world.read(format!("dst/{kept}")), b"older", "{way:?} {words_of}");
            }
        }
    }
}

#[test]
fn a_source_that_is_a_link_to_another_is_no_error_once_that_is_removed() {
    for way in WAYS {
        let world = World::new();
        world.write("src/f", "content");
        world.link("f", "src/g");
        let (f, g) = (way.from("src/f"), way.from("src/g"));
        world.ok(&format!("-aL --remove-source-files {f} {g} {}", way.to("dst/")));
        assert!(!world.exists("src/f"), "{way:?}");
        for name in ["f", "g"] {
            assert_eq!(world.read(format!("dst/{name}")), b"content", "{way:?}");
        }
    }
}

#[test]
fn a_backup_never_leaves_the_destination_through_a_link() {
    let world = world();
    world.mkdir("outside");
    world.mkdir("dst/kept");
    world.link("../../outside", "dst/kept/sub");
    world.ok(&words(Way::Local, "-b --backup-dir=kept --delete"));
    assert!(world.names("outside").is_empty());
    assert_eq!(world.read("dst/kept/kept/sub/extra"), b"extra");
    // What cannot be kept is not removed.
    world.write("dst/sub/more", "more");
    world.write("file", "in the way");
    world.fails(23, &words(Way::Local, "-b --backup-dir=../file --delete"));
    assert_eq!(world.read("dst/sub/more"), b"more");
}

#[test]
fn what_is_kept_beside_stays_even_where_all_goes_that_is_not_sent() {
    for words in ["--delete", "--delete-excluded"] {
        let world = World::new();
        world.write("src/file", "content");
        world.write("dst/file", "older");
        world.write("dst/old~", "kept");
        world.ok(&format!("-rb {words} src/ dst/"));
        assert_eq!(world.names("dst"), ["file", "file~", "old~"], "{words}");
    }
}

/// It takes the place of an older one, which was seen before, and which rules may let go.
#[test]
fn the_newest_version_of_what_goes_with_its_directory_is_kept() {
    for way in WAYS {
        let rules = ["--delete-excluded", "-fR *~", "-frisk /gone/**", "-F"];
        for rule in rules {
            let world = World::new();
            world.write("src/file", "content");
            world.write("dst/gone/q", "newest");
            world.write("dst/gone/q~", "older");
            world.write("dst/gone/.rsync-filter", "R *~\n");
            for times in 1..=2 {
                let (from, to) = (way.from("src/"), way.to("dst/"));
                let run = world.sync(&["-ab", "--delete", "--force-delete", rule, &from, &to]);
                assert_eq!(run.code, Some(0), "{way:?} {rule} {run:#?}");
                assert_eq!(world.read("dst/gone/q~"), b"newest", "{way:?} {rule} {times}");
                assert!(!world.exists("dst/gone/q"), "{way:?} {rule}");
            }
        }
        let world = World::new();
        world.write("src/gone", "content");
        world.write("dst/gone/q", "newest");
        world.write("dst/gone/q~", "older");
        let run = world.fails(23, &words(way, "-b --force"));
        assert!(
            run.stderr.contains(&world.told("replace", "dst/gone", "the directory holds backups")),
            "{way:?} {run:#?}"
        );
        assert_eq!(world.read("dst/gone/q~"), b"newest", "{way:?}");
    }
}

#[test]
fn a_directory_with_backups_in_it_stays_whatever_is_to_take_its_place() {
    for way in WAYS {
        let world = world();
        for name in ["file/full/old~", "gone/old~", "gone/deep/x"] {
            world.path("dst/file").is_file().then(|| std::fs::remove_file(world.path("dst/file")));
            world.write(format!("dst/{name}"), "kept");
        }
        let told = world.fails(23, &words(way, "--delete -b")).stderr;
        assert_eq!(world.read("dst/file/full/old~"), b"kept", "{way:?} {told}");
        let again = words(way, "--exclude=/file --delete -b");
        let run = world.sync(&again.split(' ').collect::<Vec<_>>());
        let told = "cannot delete non-empty directory: gone (filter rules protect entries in it)\n";
        assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), told, ""), "{way:?}");
        assert!(world.exists("dst/gone/old~"), "{way:?}");
        assert_eq!(world.names("dst/gone/deep"), ["x~"], "{way:?}");
    }
}

/// More names than an end looks at, or holds, at a time.
const MANY: usize = 10_000;

fn many(world: &World, dir: &str) {
    for n in 0..MANY {
        world.write(format!("{dir}/{n:05}"), "");
    }
}

#[test]
fn of_many_sources_all_go_but_what_did_not_arrive() {
    let world = World::new();
    many(&world, "src");
    world.write("dst/00100/full/of", "x");
    world.fails(23, &words(Way::Push, "--remove-source-files"));
    assert_eq!(world.names("src"), ["00100"]);
    assert_eq!(world.names("dst").len(), MANY);
}

#[test]
fn many_names_go_where_they_may_and_only_there() {
    let world = World::new();
    world.write("src/file", "new");
    many(&world, "dst");
    many(&world, "dst/below/more");
    let going = 2 * MANY + 2;
    let held_back = world.fails(25, &words(Way::Push, "--delete"));
    assert!(held_back.stderr.contains(&format!("{going} of ")), "{}", held_back.stderr);
    for (most, code) in [(going - 1, 25), (going, 0)] {
        let would = words(Way::Pull, &format!("-nv --delete --max-delete={most}"));
        let would = world.sync(&would.split_whitespace().collect::<Vec<_>>());
        assert_eq!(would.code, Some(code), "{}", would.stderr);
        let told = would.lines().iter().filter(|line| line.starts_with("deleting ")).count();
        assert_eq!(told, most, "{}", would.stdout.len());
    }
    assert_eq!(world.names("dst/below/more").len(), MANY);
    let run = world.ok(&words(Way::Push, &format!("--stats --delete --max-delete={going}")));
    assert_eq!(world.names("dst"), ["file"], "{}", run.stdout);
}

/// Also where the other end is on this very machine: what was removed would be all there is.
#[test]
fn a_source_that_is_the_destination_is_not_removed() {
    for way in WAYS {
        let world = World::new();
        let names = ["src/file", "src/sub/file", "src/sub/other"];
        names.iter().for_each(|name| world.write(name, "all there is"));
        world.link("src", "link");
        for (options, from, to) in [
            ("-r", "src/", "src/"),
            ("-r", "src/", "link/"),
            ("-rc", "link/.", "src"),
            ("-r", "src", "."),
            ("-R", "src/sub/file", "."),
            ("", "src/sub/file", "src/sub"),
            ("", "src/file", "src/file"),
            ("", "src/file", "link/file"),
            ("-rn", "src/", "src/"),
        ] {
            let (from, to) = (way.from(from), way.to(to));
            let words = format!("{options} --remove-source-files {from} {to}");
            let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
            let told = run.stderr.contains("source and destination are the same")
                || run.stderr.contains("is the source");
            assert!(told && matches!(run.code, Some(1 | 3)), "{way:?} {words} {run:#?}");
            assert!(names.iter().all(|name| world.exists(name)), "{way:?} {words}");
        }
        // These go to another place, though it is near.
        world.ok(&format!(
            "-r --remove-source-files {} {}",
            way.from("src/sub/"),
            way.to("src/new/")
        ));
        world.ok(&format!(
            "--remove-source-files {} {}",
            way.from("src/new/file"),
            way.to("src/sub/")
        ));
        world.ok(&format!(
            "--remove-source-files {} {}",
            way.from("src/file"),
            way.to("src/moved")
        ));
        for name in ["src/new/other", "src/sub/file", "src/moved"] {
            assert_eq!(world.read(name), b"all there is", "{way:?} {name}");
        }
        assert!(!world.exists("src/new/file") && !world.exists("src/file"), "{way:?}");
    }
}

#[test]
fn a_full_directory_that_gives_way_to_a_link_is_kept_and_all_is_well() {
    for (way, words) in
        WAYS.into_iter().zip(["-b --backup-dir=kept", "--force", "-b --backup-dir=kept"])
    {
        let world = World::new();
        world.mkdir("src/sub");
        world.link("a", "src/sub/link");
        world.write("dst/sub/link/below/file", "old");
        world.ok(&format!("-a --delete {words} {} {}", way.from("src/"), way.to("dst/")));
        assert_eq!(
            std::fs::read_link(world.path("dst/sub/link")).unwrap(),
            std::path::Path::new("a")
        );
        assert_eq!(world.exists("dst/kept/sub/link/below/file"), words.contains("kept"), "{way:?}");
    }
}

#[test]
fn what_stands_at_the_destination_itself_is_no_source_to_be_removed() {
    for (words, to, dir, link) in [
        ("-aL", "dst", "dst/sub", ("../dst/sub", "src/sub")),
        ("-ak", "dst", "dst/sub", ("../dst/sub", "src/sub")),
        ("-aK", ".", "src/sub", ("src/sub", "sub")),
    ] {
        let world = World::new();
        world.mkdir("src");
        world.write(format!("{dir}/file"), "the only copy");
        world.write("src/other", "x");
        world.link(link.0, link.1);
        let run = world.fails(23, &format!("{words} --remove-source-files src/ {to}/"));
        assert!(
            run.stderr.contains("sub/file: source and destination are the same entry"),
            "{run:#?}"
        );
        assert_eq!(world.read(format!("{dir}/file")), b"the only copy", "{words}");
        assert!(!world.exists("src/other") && world.exists(format!("{to}/other")), "{words}");
    }
}

#[test]
fn sources_in_many_directories_are_removed() {
    for way in [Way::Local, Way::Push] {
        let world = World::new();
        let dirs: Vec<_> = (0..50).map(|n| format!("src/{n}/")).collect();
        for (n, dir) in dirs.iter().enumerate() {
            world.write(format!("{dir}file-{n}"), "x");
        }
        let to = way.to("dst/");
        let words = ["-a", "--remove-source-files"].into_iter();
        let words: Vec<_> = words.chain(dirs.iter().map(String::as_str)).chain([&*to]).collect();
        assert_eq!(world.sync(&words).code, Some(0), "{way:?}");
        assert!(dirs.iter().all(|dir| world.names(dir).is_empty()), "{way:?}");
        assert_eq!(world.names("dst").len(), dirs.len(), "{way:?}");
    }
}

#[test]
fn what_several_sources_mean_is_removed_once_and_all_is_well() {
    for way in [Way::Local, Way::Push] {
        let world = World::new();
        for name in ["a/1", "a/b/2", "a/b/c/3"] {
            world.write(format!("src/{name}"), name);
        }
        let words = format!("-a --remove-source-files src/ src/a/ {}", way.to("dst/"));
        world.ok(&words);
        for name in ["a/1", "a/b/2", "a/b/c/3", "1", "b/2", "b/c/3"] {
            assert!(world.exists(format!("dst/{name}")), "{way:?} {name}");
        }
        assert!(!world.exists("src/a/1") && !world.exists("src/a/b/c/3"), "{way:?}");
    }
}
