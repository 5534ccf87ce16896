//! Filter rules, end to end: what each option takes, leaves out and protects; with git as judge of whole trees (rsync
//! is one in `differential`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use crate::common::attrs::set_times;
use crate::common::dice::Dice;
use crate::common::maker::{Node, Taste, Tree, What};
use crate::common::{Run, WAYS, Way, World, is_installed, is_root, skip};

/// Every path below `dir`; directories end in a slash.
fn paths(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            let shown =
                path.strip_prefix(dir).expect("it is below").as_os_str().as_bytes().escape_ascii();
            let is_dir = path.symlink_metadata().expect("it is there").is_dir();
            found.insert(format!("{shown}{}", if is_dir { "/" } else { "" }));
            if is_dir {
                dirs.push(path);
            }
        }
    }
    found
}

fn world(files: &[&str]) -> World {
    let world = World::new();
    for file in files {
        world.write(format!("src/{file}"), "x");
    }
    world
}

fn sync(world: &World, way: Way, options: &[&str]) -> Run {
    let ends = [way.from("src/"), way.to("dst/")];
    let words: Vec<&str> = ["-r", "--no-fsync"]
        .iter()
        .chain(options)
        .copied()
        .chain(ends.iter().map(|end| &**end))
        .collect();
    world.sync(&words)
}

/// Syncs in each way to a new destination, and compares what comes.
#[track_caller]
fn takes(world: &World, options: &[&str], wanted: &[&str]) {
    for way in WAYS {
        let _ = fs::remove_dir_all(world.path("dst"));
        let run = sync(world, way, options);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {options:?}");
        let files: BTreeSet<String> =
            paths(&world.path("dst")).into_iter().filter(|path| !path.ends_with('/')).collect();
        let wanted = wanted.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(files, wanted, "{way:?} {options:?}");
    }
}

#[test]
fn filter_takes_rules_by_short_and_long_names() {
    let world = world(&["a.o", "a.c", "keep.o", "d/b.o", "d/b.c"]);
    takes(
        &world,
        &["-f", "+ keep.o", "--filter=exclude,! */", "-f", "!", "-f-_*.o"],
        &["a.c", "d/b.c"],
    );
    takes(&world, &["-f", "show keep.o", "-f", "hide *.o"], &["a.c", "d/b.c", "keep.o"]);
    takes(&world, &["-f", "P *.o"], &["a.c", "a.o", "d/b.c", "d/b.o", "keep.o"]);
    let absolute = format!("-/ {}/src/d/b.c", world.path("").canonicalize().unwrap().display());
    let absolute = absolute.replace("//", "/");
    takes(&world, &["-f", &absolute], &["a.c", "a.o", "d/b.o", "keep.o"]);
}

#[test]
fn patterns_come_from_files_and_from_standard_input() {
    let world = world(&["a", "b", "c", "d e", "#f", "+ g"]);
    world.write("list", "# comment\n; another\n\n+ a\nb\r\nd e\n");
    takes(&world, &["--exclude-from=list", "--exclude", "a"], &["#f", "+ g", "a", "c"]);
    world.write("list", "a\n- b\n!\nc\n");
    takes(&world, &["--include-from=list", "--exclude", "*"], &["c"]);
    world.write("zero", b"a\0#x\0d e\0#f");
    takes(&world, &["-0", "--exclude-from=zero"], &["#f", "+ g", "b", "c"]);
    world.write("rules", "- a\n. more\n");
    world.write("more", "+ b\n- b\n- c\n");
    takes(&world, &["-f", ". rules"], &["#f", "+ g", "b", "d e"]);
    takes(&world, &["-f", "merge,- rules", "-f", "-s c"], &["#f", "+ g", "a", "b", "d e"]);
    world.write("words", "a b\tc");
    takes(&world, &["-f", ".-w words"], &["#f", "+ g", "d e"]);
    for words in [["--exclude-from", "-"], ["--filter", ". -"]] {
        let mut all = vec!["sync", "-r", "--no-fsync"];
        all.extend(words);
        all.extend(["src/", "dst/"]);
        let _ = fs::remove_dir_all(world.path("dst"));
        let run = Run::of(world.command(crate::common::DELTIC, all).write_stdin("- a\n- b\n"));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""));
        assert!(!world.exists("dst/a") && !world.exists("dst/b") && world.exists("dst/c"));
    }
}

#[test]
fn directories_bring_rules_with_them() {
    let world = world(&["a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "f/a"]);
    world.write("src/d/.rsync-filter", "- /a\n- /e/b\n");
    world.write("src/d/e/.rsync-filter", "+ a\n");
    let rest = ["a", "b", "d/b", "d/e/a", "f/a"];
    let own = ["d/.rsync-filter", "d/e/.rsync-filter"];
    takes(&world, &["-F"], &[&rest[..], &own].concat());
    takes(&world, &["-FF"], &rest);
    takes(&world, &["-f", ":e .rsync-filter"], &rest);
    world.write("src/d/.rsync-filter", "- a\n");
    fs::remove_file(world.path("src/d/e/.rsync-filter")).unwrap();
    takes(&world, &["-FF"], &["a", "b", "d/b", "d/e/b", "f/a"]);
    takes(&world, &["-f", ":en .rsync-filter"], &["a", "b", "d/b", "d/e/a", "d/e/b", "f/a"]);
    // Above the root as well, where the rule says so.
    world.write(".rsync-filter", "- /src/f\n");
    takes(&world, &["-FF"], &["a", "b", "d/b", "d/e/b"]);
    takes(
        &world,
        &["-f", ": ../.rsync-filter", "-f", "- .rsync-filter"],
        &["a", "b", "d/b", "d/e/b"],
    );
}

#[test]
fn cvs_exclude_leaves_out_what_cvs_does() {
    let world =
        world(&["a.o", "a.c", "core", "d/x~", ".git/config", "d/own", "own", "d/home", "env"]);
    world.write("src/d/.cvsignore", "own other");
    world.write(".cvsignore", "home\n");
    takes(&world, &["-C"], &["a.c", "d/.cvsignore", "env", "own"]);
    takes(&world, &["-f", "+ core", "-C"], &["a.c", "core", "d/.cvsignore", "env", "own"]);
    takes(
        &world,
        &["-f", ":C"],
        &[".git/config", "a.c", "a.o", "core", "d/.cvsignore", "d/home", "d/x~", "env", "own"],
    );
    let words = ["sync", "-rC", "--no-fsync", "src/", "new/"];
    let run = Run::of(world.command(crate::common::DELTIC, words).env("CVSIGNORE", "env a.c"));
    assert_eq!(
        (run.code, paths(&world.path("new"))),
        (Some(0), ["d/", "d/.cvsignore", "own"].map(String::from).into())
    );
}

#[test]
fn gitignore_leaves_out_what_git_does() {
    let world = world(&["a.log", "keep.log", "d/b.log", "d/keep", "build/x", "d/build", "info"]);
    world.write("src/.gitignore", "*.log\n!keep.log\nbuild/\n");
    world.write("src/d/.gitignore", "!b.log\nkeep\n");
    world.write("src/.git/info/exclude", "info\n");
    let rest = [".gitignore", "d/.gitignore", "d/b.log", "d/build", "keep.log"];
    takes(&world, &["--gitignore", "--exclude=/.git"], &rest);
    takes(&world, &["--exclude=/.git", "-f", "dir-merge,g"], &rest);
    let git = [
        ".git/info/exclude",
        ".gitignore",
        "info",
        "keep.log",
        "d/.gitignore",
        "d/b.log",
        "d/build",
    ];
    takes(&world, &["--include=info", "--gitignore"], &git);
    // A part of a repository.
    for way in WAYS {
        let run =
            world.sync(&["-r", "--no-fsync", "--gitignore", &way.from("src/d/"), &way.to("part/")]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""));
        assert_eq!(
            paths(&world.path("part")),
            [".gitignore", "b.log", "build"].map(String::from).into()
        );
        fs::remove_dir_all(world.path("part")).unwrap();
    }
}

#[test]
fn rules_that_are_wrong_are_refused_before_anything_starts() {
    let world = world(&["a"]);
    world.write("rules", "- a\n\nbad rule\n");
    for (words, code, why) in [
        (["-f", "bad"], 1, "unknown filter rule: 'bad'"),
        (["-f", "-z a"], 1, "invalid modifier 'z'"),
        (["-f", "- "], 1, "unexpected end of filter rule"),
        (["-f", ". rules"], 1, "rules: line 3: unknown filter rule: 'bad rule'"),
        (["-f", ". missing"], 11, "read rules missing: "),
        (["--exclude-from", "missing"], 11, "read rules missing: "),
    ] {
        let run = sync(&world, Way::Local, &words);
        assert_eq!(run.code, Some(code), "{words:?} {run:#?}");
        assert!(run.stderr.contains(why) && !world.exists("dst"), "{words:?} {run:#?}");
    }
}

#[test]
fn a_directory_whose_rules_cannot_be_understood_is_left_out_and_nothing_is_deleted() {
    for way in WAYS {
        let world = world(&["a", "d/secret", "d/e/secret"]);
        world.write("src/d/.rsync-filter", "- secret\nbad\n");
        world.write("dst/extra", "x");
        let run = sync(&world, way, &["-F", "--delete"]);
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        assert!(
            run.stderr.contains("/src/d/.rsync-filter: line 2: unknown filter rule\n"),
            "{run:#?}"
        );
        assert!(world.exists("dst/a") && world.exists("dst/extra"), "{way:?}");
        assert!(!world.exists("dst/d/secret") && !world.exists("dst/d/e"), "{way:?}");
    }
}

#[test]
fn a_file_of_rules_may_name_one_above_it() {
    for way in WAYS {
        for (rule, below) in [
            (": ../rules", "d"),
            (": ../../rules", "d/e"),
            (": ABSOLUTE/rules", "d/e"),
            (": /rules", "d"),
        ] {
            let world = world(&["skip", "d/skip", "d/e/skip", "d/e/f/skip", "d/e/f/new", "g/skip"]);
            for end in ["src", "dst"] {
                let base = world.path(end).display().to_string();
                world.write(format!("{end}/rules"), "P precious\n- skip\n- /d/e/f/new\n");
                world.write(format!("{end}/{below}/own"), rule.replace("ABSOLUTE", &base));
            }
            world.write("dst/d/e/f/precious", "x");
            world.write("dst/d/e/f/extra", "x");
            world.write("dst/precious", "x");
            let run = sync(&world, way, &["-f", ": own", "--delete"]);
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {rule}");
            let there =
                |names: &[&str]| names.iter().all(|name| world.exists(format!("dst/{name}")));
            assert!(there(&["skip", "g/skip", "d/e/f/precious"]), "{way:?} {rule}");
            assert_eq!(there(&["d/skip"]), below == "d/e", "{way:?} {rule}");
            for name in ["d/e/skip", "d/e/f/skip", "d/e/f/new", "d/e/f/extra", "precious"] {
                assert!(!world.exists(format!("dst/{name}")), "{way:?} {rule} {name}");
            }
        }
    }
}

#[test]
fn what_a_file_of_rules_above_the_root_names_is_looked_for_there_too() {
    for (rule, file, text) in
        [(": .rules", "top/src/.rules", ": ../.more\n"), (": ../.rules", "top/.rules", ": .more\n")]
    {
        let world = World::new();
        world.write("top/.more", "- skip\n");
        world.write("top/src/skip", "x");
        world.write(file, text);
        world.ok(&format!("-r --filter={} top/src/ dst", rule.replace(' ', "_")));
        assert!(!world.exists("dst/skip"), "{rule}");
    }
}

#[test]
fn ones_own_link_to_a_file_of_rules_is_followed_and_what_it_says_is_not_shown() {
    for way in WAYS {
        let world = world(&["d/secret", "d/a"]);
        world.write("outside", "- secret\n");
        world.link("../../outside", "src/d/.rsync-filter");
        let run = sync(&world, way, &["-F"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(world.exists("dst/d/a") && !world.exists("dst/d/secret"), "{way:?}");
        world.write("outside", "root:hash\n");
        let run = sync(&world, way, &["-F"]);
        assert!(run.code == Some(23) && !run.stderr.contains("root"), "{way:?} {run:#?}");
    }
}

#[test]
fn a_link_of_another_user_in_the_place_of_a_file_of_rules_does_not_count() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    for way in WAYS {
        for (rule, file) in [("-F", ".rsync-filter"), ("-C", ".cvsignore")] {
            let world = world(&["d/secret", "d/a"]);
            world.write("outside", "secret\n");
            world.link("../../outside", &format!("src/d/{file}"));
            lchown(world.path(format!("src/d/{file}")), Some(12345), None).expect("we are root");
            world.write("dst/d/extra", "x");
            let run = sync(&world, way, &["-lo", "--delete", rule]);
            let told = format!("/src/d/{file}: a symlink of another user; its rules are ignored");
            assert_eq!((run.code, run.stderr.contains(&told)), (Some(0), true), "{way:?} {run:#?}");
            assert!(world.exists("dst/d/secret") && !world.exists("dst/d/extra"), "{way:?} {rule}");
            // It protects nothing either, where it stands at the destination.
            world.write("dst/d/extra", "x");
            fs::remove_file(world.path(format!("src/d/{file}"))).expect("it is there");
            lchown(world.path(format!("dst/d/{file}")), Some(12345), None).expect("we are root");
            let run = sync(&world, way, &["-lo", "--delete", rule]);
            assert_eq!(
                (run.code, run.stderr.contains("/dst/d/")),
                (Some(0), true),
                "{way:?} {run:#?}"
            );
            assert!(!world.exists("dst/d/extra"), "{way:?} {rule}");
        }
    }
}

#[test]
fn what_is_protected_stays_and_its_directories_with_it() {
    for way in WAYS {
        let world = world(&["a"]);
        for name in ["keep", "risky", "x.o", "gone/keep", "gone/x.o", "gone/deep/b", "only/x.o"] {
            world.write(format!("dst/{name}"), "x");
        }
        let run = sync(
            &world,
            way,
            &[
                "--delete", "-f", "R risky", "-f", "P keep", "-f", "P risky", "-f", "P,p *.o",
                "-f", "H b",
            ],
        );
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        assert!(
            run.stdout.contains("directory: gone (filter rules protect entries in it)"),
            "{way:?} {run:#?}"
        );
        assert_eq!(
            paths(&world.path("dst")),
            ["a", "gone/", "gone/keep", "keep", "x.o"].map(String::from).into(),
            "{way:?}"
        );
    }
}

#[test]
fn a_dry_run_and_a_limit_know_which_directories_stay() {
    for way in WAYS {
        let world = world(&["a"]);
        world.write("dst/stays/deep/keep", "x");
        let words = ["--delete", "-f", "P keep", "-i", "--max-delete=0"];
        for words in [&[&words[..], &["-n"]].concat(), &words[..]] {
            let run = sync(&world, way, words);
            assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
            let told =
                "cannot delete non-empty directory: stays (filter rules protect entries in it)\n";
            let is_told = run.stdout.starts_with(told) && run.stderr.is_empty();
            assert!(is_told && !run.stdout.contains("*deleting"), "{run:#?}");
        }
        world.write("dst/stays/goes", "x");
        let run = sync(&world, way, &words);
        assert_eq!((run.code, world.exists("dst/stays/goes")), (Some(25), true), "{run:#?}");
        assert!(run.stderr.contains("--max-delete=0: 1 of 1 names"), "{way:?} {run:#?}");
    }
}

#[test]
fn what_is_protected_gives_way_to_what_takes_its_place() {
    for way in WAYS {
        let world = world(&["a", "x.o", "y.o"]);
        for name in ["x.o/b", "y.o/keep"] {
            world.write(format!("dst/{name}"), "x");
        }
        let run = sync(&world, way, &["--delete", "-f", "P *.o", "-f", "P keep"]);
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        assert!(
            run.stderr.contains("y.o (filter rules protect entries in it)"),
            "{way:?} {run:#?}"
        );
        assert_eq!(
            paths(&world.path("dst")),
            ["a", "x.o", "y.o/", "y.o/keep"].map(String::from).into(),
            "{way:?}"
        );
    }
}

#[test]
fn what_is_protected_is_not_pruned() {
    for way in WAYS {
        let world = world(&["a"]);
        for name in ["bare/other", "empty/deep"] {
            world.mkdir(&format!("src/{name}"));
        }
        let run = sync(&world, way, &["-m", "-f", "R bare", "-f", "P deep/", "-f", "P bare"]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        assert_eq!(
            paths(&world.path("dst")),
            ["a", "empty/", "empty/deep/"].map(String::from).into(),
            "{way:?}"
        );
    }
}

/// A rule with `/` is about a path from the file system's root: that at the destination, which the sender does not
/// know.
#[test]
fn a_path_at_the_source_protects_nothing_from_being_pruned() {
    for way in WAYS {
        let world = world(&["a"]);
        world.mkdir("src/d/empty");
        let run = sync(&world, way, &["-m", "-f", "P/ **/src/*", "-f", "P/ **/src/**"]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        assert_eq!(paths(&world.path("dst")), ["a"].map(String::from).into(), "{way:?}");
    }
}

#[test]
fn delete_excluded_removes_what_is_left_out() {
    for way in WAYS {
        let world = world(&["a", "b.o"]);
        for name in ["x.o", "y.o", "z.o", "extra", "d/.rsync-filter"] {
            world.write(format!("dst/{name}"), "- q\n");
        }
        world.write("dst/d/q", "x");
        let run = sync(
            &world,
            way,
            &[
                "--delete-excluded",
                "-F",
                "-f",
                "-sr y.o",
                "-f",
                "P z.o",
                "--exclude=*.o",
                "-f",
                "P /d",
            ],
        );
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        assert_eq!(
            paths(&world.path("dst")),
            ["a", "y.o", "z.o", "d/", "d/q", "d/.rsync-filter"].map(String::from).into(),
            "{way:?}"
        );
        world.fails(1, "--delete-excluded src/ dst/");
    }
}

#[test]
fn the_receivers_own_files_protect_even_if_they_go_themselves() {
    for way in WAYS {
        let world = world(&["a", "d/a"]);
        world.write("dst/d/.rsync-filter", "- mine\n");
        for name in ["d/mine", "d/yours", "d/gone/mine", "d/gone/yours"] {
            world.write(format!("dst/{name}"), "x");
        }
        let run = sync(&world, way, &["--delete", "-F"]);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        let left = ["a", "d/", "d/a", "d/gone/", "d/gone/mine", "d/mine"];
        assert_eq!(paths(&world.path("dst")), left.map(String::from).into(), "{way:?}");
        // Files that come with the run protect as well.
        world.write("src/d/.rsync-filter", "- new\n- mine\n");
        world.write("dst/d/new", "x");
        let run = sync(&world, way, &["--delete", "-F"]);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        assert!(world.exists("dst/d/new") && world.exists("dst/d/mine"), "{way:?}");
    }
}

/// The seeds of a run; `DELTIC_SEEDS=1000..2000` tries others.
fn seeds() -> std::ops::Range<u64> {
    let words = std::env::var("DELTIC_SEEDS").unwrap_or_default();
    let ends =
        words.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.unwrap_or(0..40)
}

#[test]
fn whole_trees_come_as_git_sees_them() {
    if !is_installed("git") {
        return skip("git is not installed: nobody else judges the result");
    }
    seeds().for_each(comes_as_git_sees_it);
}

fn comes_as_git_sees_it(seed: u64) {
    let dice = &mut Dice::new(seed);
    let world = World::new();
    let lines: &[&[u8]] = &[
        b"a", b"*.o", b"!a.o", b"d/", b"/d/", b"d/a", b"!d/a", b"/a", b"**/b", b"d/**", b"!d/**/b",
        b"d/**/b", b"*", b"!*/", b"!b", b"# no", b"\\#c", b"x y  ", b"x\\ ", b"[a-b]", b"[!a]",
        b"\\*", b"a**", b"**b", b"/*/a", b"\xff*", b"w*", b"\\[a]", b"a\\\\b", b"-*", b"core",
        b"!core/", b"/**/a", b"d e/*", b"  a", b"!", b"e/**/", b"**",
    ];
    let file = |dice: &mut Dice| {
        let mut text = Vec::new();
        for _ in 0..=dice.below(4) {
            let ends: [&[u8]; 3] = [b"\n", b"\n", b"\r\n"];
            text.extend_from_slice(dice.pick::<&[u8]>(lines));
            text.extend_from_slice(dice.pick::<&[u8]>(&ends));
        }
        text
    };
    let mut tree = Tree::random(dice, Taste { entries: 60, rules: true, ..Taste::default() });
    for dir in tree.dirs().into_iter().filter(|dir| dir.components().count() < 3) {
        if dice.percent(50) {
            let node = Node { what: What::Text(file(dice)), ..tree.0[Path::new("always")].clone() };
            tree.0.insert(dir.join(".gitignore"), node);
        }
    }
    tree.write(&world.path("src"), None);
    let git = |words: &[&str]| {
        let mut command = world.command("git", ["-C", "src", "-c", "core.excludesFile=/dev/null"]);
        Run::of(command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null"))
    };
    assert_eq!(git(&["init", "-q"]).code, Some(0));
    if dice.percent(50) {
        world.write("src/.git/info/exclude", file(dice));
    }
    let mut list = world.command("git", ["-C", "src", "-c", "core.excludesFile=/dev/null"]);
    let list =
        list.args(["ls-files", "-z", "-o", "--exclude-standard"]).output().expect("git starts");
    let theirs: BTreeSet<String> = list
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| path.escape_ascii().to_string())
        .collect();
    let run = world.sync(&["-r", "--no-fsync", "--gitignore", "--exclude=/.git", "src/", "new"]);
    assert_eq!(run.code, Some(0), "{:?}", run);
    let ours: BTreeSet<String> =
        paths(&world.path("new")).into_iter().filter(|path| !path.ends_with('/')).collect();
    let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
    let show = Run::of(&mut world.command(
        "sh",
        ["-c", "(grep -ra '' --include=.gitignore src; cat src/.git/info/exclude) | cat -v"],
    ));
    assert!(differ.is_empty(), "{seed}: {differ:?}\n{}", show.stdout);
}

#[test]
fn no_shell_on_the_way_reads_a_pattern() {
    let world = world(&["a b", "$(x)", "c"]);
    takes(&world, &["--exclude=a b", "-f", "- $(x)"], &["c"]);
}

#[test]
fn a_list_of_ten_thousand_patterns_is_taken() {
    for way in crate::common::WAYS {
        let world = World::new();
        let pattern = |n: usize| format!("/some/long/enough/name/{n}\n");
        world.write("list", (0..10_000).map(pattern).collect::<String>() + "gone\n");
        for name in ["some/long/enough/name/9999", "some/long/enough/name/10000", "gone", "kept"] {
            world.write(format!("src/{name}"), "");
        }
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("-a --no-fsync --exclude-from list {operands}"));
        assert!(world.exists("dst/kept") && world.exists("dst/some/long/enough/name/10000"));
        assert!(!world.exists("dst/gone") && !world.exists("dst/some/long/enough/name/9999"));
    }
}

#[test]
fn a_file_of_rules_does_not_count_as_read() {
    let world = World::new();
    let rules = ["src/.rules", "src/dir/.rules", "dst/.rules", "dst/dir/.rules"];
    let long_ago = (1_000_000_000, 1_200_000_000);
    for file in rules {
        world.write(file, "- hidden\n");
        set_times(&world.path(file), long_ago);
    }
    for name in ["src/dir/hidden", "dst/dir/extra"] {
        world.write(name, "x");
    }
    let run = world.sync(&["-rt", "--delete", "--filter=: .rules", "src/", "dst/"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    assert!(!world.exists("dst/dir/hidden") && !world.exists("dst/dir/extra"));
    for file in rules {
        assert_eq!(world.path(file).metadata().unwrap().atime(), long_ago.0, "{file}");
    }
}

#[test]
fn what_rules_protect_that_just_came_is_not_told_as_deleted() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a/.rsync-filter", "P *.log\n");
        for name in ["dst/a/1.log", "dst/a/2.log", "dst/a/gone"] {
            world.write(name, "x");
        }
        let words = format!("-avF --delete --stats {} {}", way.from("src/"), way.to("dst/"));
        let run = world.ok(&words);
        let told: Vec<_> = run.stdout.lines().filter(|line| line.starts_with("deleting")).collect();
        assert_eq!(
            (told, run.stat("Number of deleted files")),
            (vec!["deleting a/gone"], 1),
            "{way:?}"
        );
        assert!(world.exists("dst/a/1.log") && world.exists("dst/a/2.log"), "{way:?}");
    }
}
