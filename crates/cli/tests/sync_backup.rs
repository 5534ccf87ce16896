//! What old versions that are kept (`-b`) take the place of: an older backup, or nothing.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::dice::Dice;
use common::{WAYS, Way, World};

fn words(way: Way, options: &str) -> String {
    let force = if options.contains("--delete") { "--force-delete" } else { "" };
    format!("-ab --no-fsync {force} {options} {} {}", way.from("src/"), way.to("dst/"))
}

/// Writes the files of `dir`, each with its own path and who it is of in it, and, where it is an `old` one, long ago.
fn fill(world: &World, dir: &str, names: &[&str], whose: &str) {
    for name in names {
        world.write(format!("{dir}/{name}"), format!("{whose} {name}"));
        world.set_time(format!("{dir}/{name}"), if whose == "new" { 1_200_000_000 } else { 1 });
    }
}

/// What the files below `dir` have in them, by their paths.
fn files(world: &World, dir: &str) -> BTreeMap<String, String> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![String::new()]);
    while let Some(above) = dirs.pop() {
        for name in world.names(&format!("{dir}/{above}")) {
            let name = format!("{above}{name}");
            let path = format!("{dir}/{name}");
            if world.path(&path).is_dir() {
                dirs.push(format!("{name}/"));
            } else {
                let text = String::from_utf8_lossy(&world.read(&path)).into_owned();
                found.insert(name, text);
            }
        }
    }
    found
}

/// A file of the sources where the directory of an old version would be.
#[test]
fn the_way_to_an_old_version_leads_round_what_is_listed() {
    for way in WAYS {
        for options in [
            "--delete --backup-dir=k --remove-source-files",
            "--delete --backup-dir=DST/k",
            "--delete --backup-dir=k --delay-updates",
            "--delete-before --backup-dir=k",
        ] {
            let world = World::new();
            fill(&world, "src", &["k/x", "a"], "new");
            fill(&world, "dst", &["x/y"], "old");
            let dst = world.path("dst").display().to_string();
            world.ok(&words(way, &options.replace("DST", &dst)));
            assert_eq!(world.read("dst/k/x"), b"new k/x", "{way:?} {options}");
            assert_eq!(world.read("dst/k/k/x/y"), b"old x/y", "{way:?} {options}");
        }
        // One that did not change, and a directory that is not everybody's.
        let world = World::new();
        fill(&world, "src", &["k/x", "x/y"], "new");
        fill(&world, "dst", &["x/y"], "old");
        fill(&world, "dst", &["k/x"], "new");
        world.chmod("dst/x", 0o700);
        world.ok(&words(way, "--backup-dir=k"));
        assert_eq!(world.read("dst/x/y"), b"new x/y", "{way:?}");
        assert_eq!(world.read("dst/k/x"), b"new k/x", "{way:?}");
        assert_eq!(world.read("dst/k/k/x/y"), b"old x/y", "{way:?}");
        assert_eq!(world.mode("dst/k/k/x"), 0o700, "{way:?}");
    }
}

#[test]
fn no_directory_of_the_destination_gives_way_to_an_old_version() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("dst");
        let dst = world.path("dst").display().to_string();
        let here = [".", "../dst", &dst].map(|dir| format!("--backup-dir={dir} --suffix=~"));
        let there = ["--backup-dir=sub".to_owned(), format!("--backup-dir={dst}/sub")];
        let plain = String::new();
        let all = here.iter().chain([&plain]).map(|options| (options, "k~/p", "k~~"));
        let all = all.chain(there.iter().map(|options| (options, "sub/k/p", "sub/sub/k")));
        for (options, live, kept) in all {
            let world = World::new();
            fill(&world, "src", &["k"], "new");
            fill(&world, "dst", &["k", live], "old");
            let options = options.replace(&dst, &world.path("dst").display().to_string());
            world.ok(&words(way, &options));
            let found = [("k", "new k"), (live, &format!("old {live}")), (kept, "old k")];
            let found = found.map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(files(&world, "dst"), BTreeMap::from(found), "{way:?} {options}");
        }
    }
}

/// Beside the destination there may be anything, the sources too.
#[test]
fn nothing_beside_the_destination_gives_way_to_an_old_version_but_a_file() {
    for way in WAYS {
        for (suffix, kept) in [("", ["dst/src", "dst/src~"]), ("--suffix=~", ["src~~", "src~~~"])] {
            let world = World::new();
            fill(&world, "src", &["src", "src~", "zz/a"], "new");
            fill(&world, "dst", &["src", "src~", "zz/a"], "old");
            fill(&world, "src~", &["in"], "other");
            fill(&world, ".", &["zz"], "other");
            let options = words(way, &format!("--backup-dir=.. {suffix}"));
            let run = world.sync(&options.split_whitespace().collect::<Vec<_>>());
            assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
            assert_eq!(world.read("src/src"), b"new src", "{way:?} {suffix}");
            assert_eq!(world.read("src~/in"), b"other in", "{way:?} {suffix}");
            assert_eq!(world.read("zz"), b"other zz", "{way:?} {suffix}");
            assert_eq!(world.read("dst/zz/a"), b"old zz/a", "{way:?} {suffix}");
            let kept: BTreeSet<_> = kept.map(|name| world.read(name)).into();
            let old = ["old src", "old src~"].map(|old| old.as_bytes().to_vec());
            assert_eq!(kept, old.into(), "{way:?} {run:#?}");
        }
    }
}

/// A file whose old version would be kept where those of what is in a directory are.
#[test]
fn old_versions_of_a_file_and_of_what_is_in_a_directory_are_all_kept() {
    for (way, dir) in WAYS.into_iter().flat_map(|way| ["../bk", "bk"].map(|dir| (way, dir))) {
        for options in ["", "--inplace", "--delete"] {
            let world = World::new();
            let names = ["c", "c.old/x", "d/e.old/f/x", "d/e"];
            fill(&world, "dst", &names, "old");
            fill(&world, "dst", &["c.old.old"], "old");
            // What is older gives way, in a tree that is theirs.
            fill(&world, "bk", &["c.old", "d/e.old/f/x.old/deep"], "older");
            world.mkdir("src");
            if !options.contains("delete") {
                fill(&world, "src", &names, "new");
            }
            world.ok(&words(way, &format!("--backup-dir={dir} --suffix=.old {options}")));
            let kept = files(&world, &format!("dst/{dir}"));
            let kept: BTreeSet<_> = kept.values().map(String::as_str).collect();
            for name in names {
                let old = format!("old {name}");
                assert!(kept.contains(&*old), "{way:?} {dir} {options}: {old} of {kept:?}");
            }
        }
    }
}

#[test]
fn a_directory_of_old_versions_in_the_destination_stays_by_whatever_path() {
    for way in WAYS {
        for dir in [".old", "deep/../deep/.old", "../dst/.old", "DST/.old", "."] {
            let world = World::new();
            fill(&world, "src", &["a", "deep/b"], "new");
            fill(&world, "dst", &["a", "gone/c"], "old");
            let here = world.path("dst").display().to_string();
            let suffix = if dir == "." { "--suffix=.old" } else { "" };
            let options = format!("--delete --backup-dir={} {suffix}", dir.replace("DST", &here));
            world.ok(&words(way, &options));
            let kept = files(&world, "dst");
            assert_eq!(kept.len(), 4, "{way:?} {dir}: {kept:?}");
            world.ok(&words(way, &options));
            assert_eq!(files(&world, "dst"), kept, "{way:?} {dir}");
        }
    }
}

/// Files and directories of few names, so that they meet.
fn some_names(dice: &mut Dice, dir: &str, depth: u64, found: &mut Vec<String>) {
    for name in ["a", "a~", "a~~", "k", "x"] {
        let name = format!("{dir}{name}");
        match dice.below(10) {
            0..3 => found.push(name),
            3..6 if depth > 0 => some_names(dice, &format!("{name}/"), depth - 1, found),
            _ => {}
        }
    }
}

/// Whatever stands where: what was at the destination is somewhere after, but older backups, and what the sources have is there
/// if all is well.
#[test]
fn no_old_version_is_lost_and_no_new_one() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let world = World::new();
        let mut names = [Vec::new(), Vec::new(), Vec::new()];
        names.iter_mut().for_each(|names| some_names(&mut dice, "", 2, names));
        let [new, old, older] = names;
        for (dir, names, whose) in
            [("src", &new, "new"), ("dst", &old, "old"), ("bk", &older, "older")]
        {
            world.mkdir(dir);
            names.iter().for_each(|name| fill(&world, dir, &[name], whose));
        }
        // Some did not change.
        for name in new.iter().filter(|name| old.contains(name)) {
            if dice.percent(30) {
                fill(&world, "dst", &[name], "new");
            }
        }
        let here = format!("--backup-dir={}/k", world.path("dst").display());
        let kept = *dice.pick(&[
            "",
            "--backup-dir=k",
            &here,
            "--backup-dir=k --suffix=~",
            "--backup-dir=. --suffix=~",
            "--backup-dir=../bk",
            "--backup-dir=../bk --suffix=~",
        ]);
        let goes = *dice.pick(&["", "--delete", "--delete-before", "--force", "--delete --force"]);
        let how = *dice.pick(&["", "--delay-updates", "--inplace", "--remove-source-files"]);
        let words = words(*dice.pick(&WAYS), &format!("{kept} {goes} {how}"));
        let (sources, before) = (files(&world, "src"), files(&world, "dst"));
        let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
        let told = format!("seed {seed}: {words}\n{run:#?}\n{sources:#?}\n{before:#?}");
        let after = files(&world, "dst");
        let all = [files(&world, "src"), after.clone(), files(&world, "bk")];
        let all: BTreeSet<_> = all.iter().flat_map(BTreeMap::values).collect();
        let is_backup = |name: &str| match kept {
            kept if kept.contains("bk") => false,
            kept if kept.contains("/k") || kept.contains("=k") => name.starts_with("k/"),
            _ => name.ends_with('~'),
        };
        for (name, text) in before.iter().filter(|(name, _)| !is_backup(name)) {
            assert!(all.contains(text), "{name} is lost: {told}\n{after:#?}");
        }
        assert!(matches!(run.code, Some(0 | 23)), "{told}");
        for (name, text) in &sources {
            assert!(all.contains(text), "{name} is in neither tree: {told}\n{after:#?}");
            let is_right = after.get(name) == Some(text);
            assert!(is_right || run.code == Some(23), "{name} is wrong: {told}\n{after:#?}");
        }
    }
}
