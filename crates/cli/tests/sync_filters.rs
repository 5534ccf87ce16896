//! Filter rules, end to end: what each option takes, leaves out and protects; with rsync and git as judges of whole trees.

mod common;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use common::{Run, WAYS, Way, World, is_installed, skip};

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
        let run = Run::of(world.command(common::DELTIC, all).write_stdin("- a\n- b\n"));
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
    let run = Run::of(world.command(common::DELTIC, words).env("CVSIGNORE", "env a.c"));
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
    for (words, why) in [
        (["-f", "bad"], "unknown filter rule: 'bad'"),
        (["-f", "-z a"], "invalid modifier 'z'"),
        (["-f", "- "], "unexpected end of filter rule"),
        (["-f", ". rules"], "rules: line 3: unknown filter rule: 'bad rule'"),
        (["-f", ". missing"], "read rules missing: "),
        (["--exclude-from", "missing"], "read rules missing: "),
    ] {
        let run = sync(&world, Way::Local, &words);
        assert_eq!(run.code, Some(1), "{words:?} {run:#?}");
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
            run.stderr.contains("/src/d/.rsync-filter: line 2: unknown filter rule: 'bad'"),
            "{run:#?}"
        );
        assert!(world.exists("dst/a") && world.exists("dst/extra"), "{way:?}");
        assert!(!world.exists("dst/d/secret") && !world.exists("dst/d/e"), "{way:?}");
        // A link is not followed out of the tree.
        fs::remove_file(world.path("src/d/.rsync-filter")).unwrap();
        world.write("outside", "+ secret\n");
        world.link("../../outside", "src/d/.rsync-filter");
        let run = sync(&world, way, &["-F"]);
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        assert!(!world.exists("dst/d/secret"), "{way:?}");
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
        assert!(run.stderr.contains("keep gone: names in it are protected"), "{way:?} {run:#?}");
        assert_eq!(
            paths(&world.path("dst")),
            ["a", "gone/", "gone/keep", "keep", "x.o"].map(String::from).into(),
            "{way:?}"
        );
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

/// A dice that a seed fixes.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// True once in so many times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const NAMES: [&[u8]; 12] =
    [b"a", b"b", b"ab", b"a.o", b"core", b"x y", b"\xff\xfe", b"[a]", b"a\\b", b"#c", b"-d", b"*"];
const DIRS: [&[u8]; 5] = [b"d", b"e", b"d e", b"core", b"w*"];
const PATTERNS: [&[u8]; 40] = [
    b"a", b"b", b"a*", b"*b", b"?", b"*.o", b"core", b"core/", b"d/", b"d", b"/d/", b"/a", b"/d/a",
    b"d/a", b"d/*", b"e/**", b"**/a", b"d/***", b"/d/**/b", b"x y", b"x*", b"\xff*", b"\\[a]",
    b"[[]a]", b"a\\b", b"a\\\\*", b"#c", b"-*", b"*", b"*/", b"/*", b"**", b"d e/a", b"/e/*.o",
    b"[!a]", b"**b", b"w*/a", b"/w*/b", b"d**a", b"/**/a",
];

fn rule(dice: &mut Dice) -> Vec<u8> {
    let prefix: &[u8] = dice.one::<[u8]>(&[
        b"- ", b"- ", b"- ", b"+ ", b"+ ", b"H ", b"S ", b"P ", b"P ", b"R ", b"-p ", b"-! ",
        b"-s ", b"-r ", b"+r ", b"-rs ", b"P,p ", b"-!p ", b"H! ",
    ]);
    [prefix, dice.one(&PATTERNS)].concat()
}

fn rule_file(dice: &mut Dice) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..=dice.below(3) {
        match dice.below(12) {
            0 => text.extend_from_slice(b"# comment"),
            1 => text.push(b'!'),
            2 => text.extend_from_slice(b": .other"),
            3 => text.extend_from_slice(b":n .other"),
            _ => text.extend(rule(dice)),
        }
        text.push(b'\n');
    }
    text
}

/// Files, directories and files of rules, the latter for both sides alike.
fn grow(world: &World, dice: &mut Dice) {
    let mut dirs: Vec<Vec<u8>> = vec![Vec::new()];
    for depth in 0..3 {
        for dir in
            dirs.clone().into_iter().filter(|dir| dir.split(|b| *b == b'/').count() == depth + 1)
        {
            for name in DIRS {
                if dice.once_in(depth + 2) {
                    dirs.push([&dir, name, b"/"].concat());
                }
            }
        }
    }
    for dir in &dirs {
        let sides: &[&str] =
            dice.one::<[&str]>(&[&["src", "dst"], &["src", "dst"], &["src"], &["dst"]]);
        let path = |side: &str, name: &[u8]| {
            OsString::from_vec([side.as_bytes(), b"/", dir, name].concat())
        };
        for side in sides {
            fs::create_dir_all(world.path(path(side, b""))).expect("it can be made");
        }
        for (name, often) in [(".f", 2), (".other", 4), (".rsync-filter", 3), (".cvsignore", 4)] {
            if dice.once_in(often) {
                let text = match name {
                    ".cvsignore" => {
                        [dice.one::<[u8]>(&[b"a b", b"*.x !\tb", b"! core a*"]), b"\n"].concat()
                    }
                    _ => rule_file(dice),
                };
                for side in sides {
                    world.write(path(side, name.as_bytes()), &text);
                }
            }
        }
        for name in NAMES {
            for side in sides {
                if !DIRS.contains(&name) && !dice.once_in(3) {
                    world.write(path(side, name), "x");
                }
            }
        }
    }
}

fn options(dice: &mut Dice) -> Vec<OsString> {
    let mut words = vec![OsString::from("-r")];
    for _ in 0..=dice.below(4) {
        let word = match dice.below(12) {
            0..=4 => [b"--filter=", &*rule(dice)].concat(),
            5 => b"-F".to_vec(),
            6 => [&b"--exclude="[..], dice.one(&PATTERNS)].concat(),
            7 => [&b"--include="[..], dice.one(&PATTERNS)].concat(),
            8 => dice.one::<[u8]>(&[b"-C", b"-f:C", b"-f-C", b"-f:sC"]).to_vec(),
            9 => [
                b"--filter=-/ ",
                dice.one::<[u8]>(&[b"src/d/a", b"dst/d/", b"**/src/*", b"dst**b", b"/a"]),
            ]
            .concat(),
            _ => dice
                .one::<[u8]>(&[
                    b"-f: .f",
                    b"-f:n .f",
                    b"-f:e .f",
                    b"-f:- .cvsignore",
                    b"-f:s- .cvsignore",
                    b"-f:r- .cvsignore",
                    b"-f:p .f",
                    b"-f!",
                    b"-f:/ .f",
                    b"-f: /.f",
                    b"-f:nw+ .cvsignore",
                    b"-f: .other",
                ])
                .to_vec(),
        };
        words.push(OsString::from_vec(word));
    }
    if !dice.once_in(3) {
        words.push(dice.one(&["--delete", "--delete-excluded"]).into());
    }
    words
}

/// The seeds of a run; `DELTIC_SEEDS=1000..2000` tries others.
fn seeds() -> std::ops::Range<u64> {
    let words = std::env::var("DELTIC_SEEDS").unwrap_or_default();
    let ends =
        words.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.unwrap_or(0..40)
}

#[test]
fn whole_trees_end_as_with_rsync() {
    if !is_installed("rsync") {
        return skip("rsync is not installed: nobody else judges the result");
    }
    seeds().for_each(ends_as_with_rsync);
}

/// The files of rules among `paths`.
fn rule_files(paths: &BTreeSet<String>) -> Vec<&String> {
    let is_one = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        [".f", ".other", ".rsync-filter", ".cvsignore"].contains(&name)
    };
    paths.iter().filter(is_one).collect()
}

fn ends_as_with_rsync(seed: u64) {
    let dice = &mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let world = World::new();
    world.mkdir("src");
    world.mkdir("dst");
    grow(&world, dice);
    let words = options(dice);
    let source: &OsStr = OsStr::new(dice.one(&["src/", "src/", "src"]));
    let ends = [source, OsStr::new("dst/")];
    let before = paths(&world.path("dst"));
    let copy = Run::of(&mut world.command("cp", ["-a", "dst", "saved"]));
    assert_eq!(copy.code, Some(0));
    let all: Vec<&OsStr> = words.iter().map(OsString::as_os_str).chain(ends).collect();
    let theirs = Run::of(&mut world.command("rsync", &all));
    // 23: what stands in the way is protected.
    assert!(matches!(theirs.code, Some(0 | 23)), "{seed} {words:?} {theirs:?}");
    fs::rename(world.path("dst"), world.path("theirs")).expect("it is there");
    fs::rename(world.path("saved"), world.path("dst")).expect("it is there");
    let way = WAYS[dice.below(3)];
    let deletes = words.iter().any(|word| word.as_bytes().starts_with(b"--delete"));
    let (from, to) = (way.from(source.to_str().expect("it is text")), way.to("dst/"));
    let mut ours: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    ours.push(OsStr::new("--no-fsync"));
    ours.extend(deletes.then_some(OsStr::new("--max-delete=1000000")));
    ours.extend([OsStr::new(&from), OsStr::new(&to)]);
    let run = world.sync(&ours);
    assert_eq!(run.code, theirs.code, "{seed} {words:?} {run:?} {theirs:?}");
    let (ours, theirs) = (paths(&world.path("dst")), paths(&world.path("theirs")));
    let own: BTreeSet<String> = ours.difference(&theirs).cloned().collect();
    let (more, less): (Vec<_>, Vec<_>) =
        (ours.difference(&theirs).collect(), theirs.difference(&ours).collect());
    // Where files of rules came or went, what either says is protected stays.
    let same_rules = rule_files(&before) == rule_files(&theirs);
    assert!(
        less.is_empty() && (more.is_empty() || !same_rules && before.is_superset(&own)),
        "{seed} {words:?} {source:?} {way:?}: only ours {more:?}, only theirs {less:?}"
    );
}

#[test]
fn whole_trees_come_as_git_sees_them() {
    if !is_installed("git") {
        return skip("git is not installed: nobody else judges the result");
    }
    seeds().for_each(comes_as_git_sees_it);
}

fn comes_as_git_sees_it(seed: u64) {
    let dice = &mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
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
            text.extend_from_slice(lines[dice.below(lines.len())]);
            text.extend_from_slice(dice.one::<[u8]>(&[b"\n", b"\n", b"\r\n"]));
        }
        text
    };
    grow(&world, dice);
    for dir in ["", "d/", "e/", "d/e/", "d/d e/"] {
        if dice.once_in(2) && world.exists(format!("src/{dir}")) {
            world.write(format!("src/{dir}.gitignore"), file(dice));
        }
    }
    let git = |words: &[&str]| {
        let mut command = world.command("git", ["-C", "src", "-c", "core.excludesFile=/dev/null"]);
        Run::of(command.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null"))
    };
    assert_eq!(git(&["init", "-q"]).code, Some(0));
    if dice.once_in(2) {
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
    for way in common::WAYS {
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
