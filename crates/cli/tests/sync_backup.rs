//! What old versions that are kept (`-b`) take the place of: an older backup, or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;

use crate::common::attrs::SOMEBODY;
use crate::common::dice::Dice;
use crate::common::{DELTIC, Run, WAYS, Way, World, is_installed, is_root, noise, rsync, skip};

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

/// Whatever stands where: what was at the destination is somewhere after, but older backups, and what the sources have
/// is there if all is well.
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

/// Some that a rule names are of this run: those stay.
#[test]
fn an_old_version_of_another_run_goes_where_a_rule_says_so() {
    let there = ["f", "f~", "g~", "x~", "y", "y~", "sub/z~", "sub/w"];
    for way in WAYS {
        for (rules, gone) in [
            ("-fR_*~", &["x~", "sub/z~"][..]),
            ("--include=*~", &["x~", "sub/z~"]),
            ("-fR_/x~", &["x~"]),
            ("-fP_x~ -fR_*~", &["sub/z~"]),
            ("-f-_*~ -fR_*~", &[]),
            ("-fR_*~ --suffix=.b", &[]),
            ("", &[]),
        ] {
            let world = World::new();
            fill(&world, "src", &["f", "g", "sub/v"], "new");
            fill(&world, "dst", &there, "old");
            fill(&world, "theirs", &there, "old");
            let words = words(way, &format!("--delete {rules}"));
            let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words} {run:#?}");
            let ours = files(&world, "dst");
            for name in ["x~", "sub/z~"].iter().filter(|_| !rules.contains("--suffix")) {
                assert_eq!(ours.contains_key(*name), !gone.contains(name), "{words} {ours:?}");
            }
            let mut theirs = vec!["-ab", "--delete"];
            theirs.extend(rules.split_whitespace().chain(["src/", "theirs/"]));
            if rsync(&world, &theirs).is_some() {
                let mut theirs = files(&world, "theirs");
                // A file of its name came: this one could be of this run.
                if let Some(kept) = ours.get("g~") {
                    theirs.entry("g~".into()).or_insert_with(|| kept.clone());
                }
                assert_eq!(ours, theirs, "{words}");
            }
        }
    }
}

/// A run of an ordinary user by `program`, over what is root's.
fn run_as_somebody(world: &World, (program, first): (&str, &[&str]), words: &str) -> Run {
    let mut command = std::process::Command::new(program);
    command.args(first).args(words.split_whitespace()).uid(SOMEBODY).gid(SOMEBODY);
    Run::of(&mut world.settle(command))
}

/// With files of root's in a directory that everybody may write to, of which a user may read all but those that are
/// closed.
fn world_of_root() -> World {
    let world = World::new();
    for name in ["small", "large", "closed", "lent"] {
        world.write(format!("src/{name}"), noise(if name == "large" { 300_000 } else { 5 }, 1));
    }
    for name in ["small", "large", "closed", "lent", "gone", "closed-gone"] {
        world.write(format!("dst/{name}"), format!("old {name}"));
        world.set_time(format!("dst/{name}"), 1_000_000_000);
        world.chmod(&format!("dst/{name}"), if name.starts_with("closed") { 0o600 } else { 0o640 });
        let group = rustix::fs::Gid::from_raw(SOMEBODY);
        rustix::fs::chown(world.path(format!("dst/{name}")), None, Some(group))
            .expect("it is ours to give");
    }
    for dir in ["src", "dst"] {
        world.link(dir, &format!("{dir}/link"));
    }
    world.chmod("dst/lent", 0o4755);
    world.chmod("dst/small", 0o644);
    world.mkdir("kept");
    for (dir, mode) in [("", 0o755), ("dst", 0o777), ("kept", 0o777)] {
        world.chmod(dir, mode);
    }
    world
}

/// Where the system protects hard links, a user may give none to what he may not both read and write.
#[test]
fn what_a_user_may_not_link_is_kept_as_well() {
    if !is_root() {
        return skip("only root becomes somebody else");
    }
    for (options, kept, suffix) in [
        ("--delete", "dst", "~"),
        ("--delete-before --no-fsync", "dst", "~"),
        ("--delete --delay-updates", "dst", "~"),
        ("--delete --backup-dir=../kept", "kept", ""),
    ] {
        let world = world_of_root();
        let words = format!("sync -rltO -b --force-delete {options} src/ dst/");
        let run = run_as_somebody(&world, (DELTIC, &[]), &words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{options} {run:#?}");
        for name in ["small", "large", "closed", "lent"] {
            let same = world.read(format!("dst/{name}")) == world.read(format!("src/{name}"));
            assert!(same, "{name} {options}");
        }
        assert_eq!(fs::read_link(world.path("dst/link")).unwrap().as_os_str(), "src");
        let old = |name: &str| format!("{kept}/{name}{suffix}");
        assert_eq!(fs::read_link(world.path(old("link"))).unwrap().as_os_str(), "dst");
        // Whoever makes a copy is who it is of: it lends nobody his rights.
        for (name, mode, user) in [
            ("small", 0o644, SOMEBODY),
            ("large", 0o640, SOMEBODY),
            ("lent", 0o755, SOMEBODY),
            ("closed", 0o600, 0),
            ("gone", 0o640, 0),
            ("closed-gone", 0o600, 0),
        ] {
            let path = old(name);
            assert_eq!(world.read(&path), format!("old {name}").as_bytes(), "{options}");
            assert_eq!((world.mode(&path), world.time(&path).0), (mode, 1_000_000_000), "{path}");
            let is = world.path(&path).metadata().unwrap();
            assert_eq!((is.uid(), is.gid()), (user, SOMEBODY), "{path} {options}");
        }
        for name in ["gone", "closed-gone"] {
            assert!(!world.exists(format!("dst/{name}")), "{name} {options}");
        }
        world.assert_clean("dst");
    }
    // What a group may read that the copy is not of, its own may not.
    let world = world_of_root();
    for name in ["small", "large"] {
        rustix::fs::chown(world.path(format!("dst/{name}")), None, Some(rustix::fs::Gid::ROOT))
            .unwrap();
    }
    world.chmod("dst/small", 0o664);
    world.chmod("dst/large", 0o654);
    let run = run_as_somebody(&world, (DELTIC, &[]), "sync -rltO -b src/ dst/");
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    assert_eq!((world.mode("dst/small~"), world.mode("dst/large~")), (0o644, 0o644));
}

#[test]
fn what_was_moved_to_the_backups_comes_back_if_nothing_takes_its_place() {
    if !is_root() || !is_installed("strace") {
        return skip("only root becomes somebody else, and strace has a rename fail");
    }
    let world = world_of_root();
    let first = ["-qq", "-f", "-o", "/dev/null", "-e", "inject=renameat:error=EIO", DELTIC];
    let words = "sync -rltO -b --backup-dir=../kept src/closed dst/";
    let run = run_as_somebody(&world, ("strace", &first), words);
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains(&world.told("write", "dst/closed", "")), "{run:#?}");
    assert_eq!(world.read("dst/closed"), b"old closed");
    assert!(world.names("kept").is_empty());
    // It has been there.
    let run = run_as_somebody(&world, (DELTIC, &[]), words);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(world.read("kept/closed"), b"old closed");
}

/// A file system at `dst` that has no hard links, gone with this value.
struct Linkless<'a>(&'a World, String);

impl<'a> Linkless<'a> {
    fn mount(world: &'a World) -> Option<Self> {
        world.mkdir("dst");
        let run = |program: &str, words: &[&str]| {
            let run = Run::of(&mut world.command(program, words));
            (run.code == Some(0)).then_some(run.stdout)
        };
        let can = is_root()
            && ["mkfs.exfat", "mount.exfat-fuse", "losetup"].into_iter().all(is_installed);
        let device = || {
            fs::File::create(world.path("disk")).ok()?.set_len(16 << 20).ok()?;
            run("mkfs.exfat", &["disk"])?;
            Some(run("losetup", &["-f", "--show", "disk"])?.trim().to_owned())
        };
        let disk = can.then(device).flatten().map(|device| Self(world, device));
        let disk = disk
            .filter(|disk| run("mount.exfat-fuse", &["-o", "umask=022", &disk.1, "dst"]).is_some());
        if disk.is_none() {
            skip("exFAT cannot be mounted here, which has no hard links");
        }
        disk
    }
}

impl Drop for Linkless<'_> {
    fn drop(&mut self) {
        Run::of(&mut self.0.command("umount", ["dst"]));
        Run::of(&mut self.0.command("losetup", ["-d", &self.1]));
    }
}

#[test]
fn old_versions_are_kept_where_there_are_no_hard_links() {
    let world = World::new();
    let Some(_disk) = Linkless::mount(&world) else { return };
    for (way, kept) in WAYS.into_iter().zip(["k", "l", "m"]) {
        for options in ["", "--no-fsync", "--delay-updates", "DIR"] {
            for name in ["a", "sub/large", "gone"] {
                let old = format!("old {name} {kept} {options}").repeat(9_000);
                world.write(format!("dst/{name}"), old);
                world.write(format!("src/{name}"), format!("new {name} {kept} {options}"));
            }
            fs::remove_file(world.path("src/gone")).unwrap();
            let more = options.replace("DIR", &format!("--backup-dir={kept}"));
            let (from, to) = (way.from("src/"), way.to("dst/"));
            world.ok(&format!("-rt -b --delete --force-delete {more} {from} {to}"));
            for name in ["a", "sub/large", "gone"] {
                let is = match options {
                    "DIR" => format!("dst/{kept}/{name}"),
                    _ => format!("dst/{name}~"),
                };
                let old = format!("old {name} {kept} {options}").repeat(9_000);
                assert!(world.read(&is) == old.as_bytes(), "{is} {way:?} {options}");
            }
            for name in ["a", "sub/large"] {
                let same = world.read(format!("dst/{name}")) == world.read(format!("src/{name}"));
                assert!(same, "{name} {way:?} {options}");
            }
            assert!(!world.exists("dst/gone"), "{way:?} {options}");
        }
    }
    // There is no room for a copy beside both.
    let old = noise(7 << 20, 1);
    world.write("dst/huge", &old);
    world.write("src/huge", noise(4 << 20, 2));
    world.ok("-rt -b src/ dst/");
    assert!(world.read("dst/huge") == world.read("src/huge") && world.read("dst/huge~") == old);
}

#[test]
fn two_runs_at_once_keep_the_old_versions() {
    for words in ["-a -b", "-a -b --backup-dir=../kept"] {
        let world = World::new();
        for n in 0..150 {
            world.write(format!("src/{n}"), format!("new version of {n}"));
            world.write(format!("dst/{n}"), format!("old of {n}"));
        }
        let run = format!("{words} src/ dst/");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| world.ok(&run));
            world.ok(&run);
            other.join().unwrap();
        });
        for n in 0..150 {
            let kept =
                if words.contains("kept") { format!("kept/{n}") } else { format!("dst/{n}~") };
            assert_eq!(world.read(kept), format!("old of {n}").as_bytes(), "{words}");
        }
        world.assert_clean("dst");
    }
}
