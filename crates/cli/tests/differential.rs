//! Deltic and rsync, given the same trees and the same words: the results are equal.
//!
//! A case is a source, an older version of it in two equal targets, other trees to compare with, and random options. Each
//! line of [`CHOICES`] is an option: whoever adds one to Deltic adds a line. `DELTIC_DIFFERENTIAL_CASES` says how many cases
//! are tried, `DELTIC_DIFFERENTIAL_SEED` which is the first.
//!
//! Where the two are meant to differ, the choices see to it that it does not show:
//!
//! - Times are compared to the nanosecond by default. rsync is told so too (`-@-1`).
//! - With `-@-1`, rsync's `-u` takes a file that is up to a second newer for an older one. `-u` comes with a window here.
//! - `-c` with an alternate and an old version in place: that is brought up to date; rsync replaces it by a link.
//! - Without `-t`, times say what was written: nothing that was equal already, and directories with something staged in them.
//!   They are left out.
//! - Without `-p`, what is made of a file of an alternate or of another name has the mode of a new file; rsync gives it that of
//!   the file that it was matched against. Such options come with `-p` here.
//! - Without `-p`, a FIFO that takes the place of another kind of entry has the mode of a new one; rsync gives it that of the
//!   entry. `--specials` comes with `-p` here.
//! - A directory whose time is within the window keeps it with rsync; Deltic sets it. With `-b` alone rsync leaves times of
//!   directories alone. With either they are left out.
//! - With `-c`, rsync carries times within the window as well where contents are equal.
//! - What is found equal by its content is not written again, so that there is no backup of it; and with `-I` it stays one of
//!   the names of what it was.
//! - `--append` leaves alone what is not shorter; with `-c` rsync compares it first. What it makes of an alternate is not
//!   looked at either.
//! - `--munge-links` is not tried: rsync leaves links of the destination as they are that are not munged and else equal.
//! - What an alternate takes the place of is backed up; rsync does not.
//! - Where a directory stands in the place of a file that an alternate has, the file comes from the source.
//! - Which of the names of one file comes first, and is compared with what the destination has, is another one. So the
//!   names of one file are equal in the older trees too, and `-H` comes without `-u` and without other trees.
//! - A link that cannot be followed is an error, after which Deltic removes nothing; rsync removes what it removed before.
//! - `--ignore-existing` where a directory is to be and a file is: rsync fails on all below the directory, Deltic passes over
//!   it. No such trees are made for it.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use common::tree::{picture, set_time};
use common::{DELTIC, Run, World, is_installed, noise, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Cases without a word to the contrary.
const CASES: u64 = 80;

/// An option, how often in a hundred cases it is there, and what it looks like.
struct Choice {
    percent: u64,
    words: fn(&mut Dice) -> Vec<String>,
}

const fn at(percent: u64, words: fn(&mut Dice) -> Vec<String>) -> Choice {
    Choice { percent, words }
}

/// Every option that both know; one line each.
const CHOICES: &[Choice] = &[
    at(100, |dice| some(dice, &["-rlpt", "-rlpt", "-rlpt", "-rlt", "-rlp", "-rt", "-r", "-rl"])),
    at(30, |dice| some(dice, &["--specials -p", "-D -p", "-D --no-devices -p"])),
    at(10, |dice| {
        some(dice, &["-o", "-g", "-og --numeric-ids", "-E", "--chmod=Fg-w,o=", "-O", "-J"])
    }),
    at(35, |_| words("--delete")),
    at(15, |_| words("-c")),
    at(15, |_| words("--no-whole-file")),
    at(15, |_| words("-z")),
    at(10, |_| words("--size-only")),
    at(10, |_| words("-I")),
    at(20, |dice| some(dice, &["--modify-window=0", "-@1", "-@2"])),
    at(15, |dice| ["-u", *dice.pick(&["-@0", "-@1", "-@2"])].map(String::from).into()),
    at(8, |_| words("--existing")),
    at(8, |_| words("--ignore-existing")),
    at(8, |dice| vec![format!("--max-size={}", dice.pick(&["0", "20", "1k", "1K-1", "2KB+1"]))]),
    at(8, |dice| vec![format!("--min-size={}", dice.pick(&["1", "20", "1.5k", "1K-1", "2KB+1"]))]),
    at(25, alternates),
    at(10, |dice| some(dice, &["-y -p", "-yy -p"])),
    at(10, |_| words("-m")),
    at(10, |dice| some(dice, &["-b", "-b --suffix=.old", "-b --backup-dir=kept"])),
    at(10, |_| words("--force")),
    at(25, |_| words("-H")),
    at(10, |_| words("-K")),
    at(10, |dice| {
        some(dice, &["-S", "--preallocate", "-S --preallocate", "-B700", "-B 8K", "--cc=none"])
    }),
    at(15, |dice| {
        some(
            dice,
            &["--inplace", "--append", "--append-verify", "--delay-updates", "--partial-dir=.part"],
        )
    }),
    at(10, |dice| some(dice, &["--safe-links", "-L", "-k", "--copy-unsafe-links"])),
];

/// Words that do not go together in a case, for a reason in the head of this file.
const APART: &[(&str, &str)] = &[
    ("-c", "-dest="),
    ("-b", "-dest="),
    ("-c", "-@"),
    ("-c", "window"),
    ("-b", "--no-whole-file"),
    ("-I", "--no-whole-file"),
    ("-H", "-u"),
    ("-L", "--delete"),
    ("--copy-unsafe-links", "--delete"),
    ("-H", "-dest="),
    ("-c", "--cc=none"),
    ("--append", "--cc=none"),
    ("--append", "-c"),
    ("--append", "-dest="),
];
/// Words with which no entry is of another kind than before, for the same.
const NO_KINDS: &[&str] = &["--ignore-existing", "-dest="];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

fn some(dice: &mut Dice, all: &[&str]) -> Vec<String> {
    words(dice.pick::<&str>(all))
}

fn alternates(dice: &mut Dice) -> Vec<String> {
    let usage = dice.pick(&["compare", "copy", "link"]);
    let dirs = *dice.pick(&[&["../alt1"][..], &["../alt1", "../alt2"], &["../none", "../alt2"]]);
    let dirs = dirs.iter().map(|dir| format!("--{usage}-dest={dir}"));
    std::iter::once("-p".to_owned()).chain(dirs).collect()
}

#[test]
fn deltic_and_rsync_make_the_same_of_the_same() {
    if !is_installed("rsync") {
        return skip("rsync is not installed: nothing to compare with");
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("DELTIC_DIFFERENTIAL_SEED").unwrap_or(0);
    let cases: u64 = number("DELTIC_DIFFERENTIAL_CASES").unwrap_or(CASES);
    // Two at a time: each waits for processes most of the time.
    let failures: Vec<String> = std::thread::scope(|scope| {
        let half =
            |odd| move || (first..first + cases).filter(move |n| n % 2 == odd).filter_map(case);
        let halves = [0, 1].map(|odd| scope.spawn(move || half(odd)().collect::<Vec<_>>()));
        halves.into_iter().flat_map(|half| half.join().expect("it says what differs")).collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {cases} cases differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// What differs in the case of this seed, if anything.
fn case(seed: u64) -> Option<String> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9).wrapping_add(seed));
    let options = options(&mut dice);
    let kinds = !options.iter().any(|word| NO_KINDS.iter().any(|no| word.contains(no)));
    let world = World::new();
    let new = tree(&mut dice, 16);
    for (name, edits) in [("alt1", 3), ("alt2", 6)] {
        edited(&mut dice, &new, edits, kinds).write(&world.path(name));
    }
    let old = edited(&mut dice, &new, 8, kinds);
    new.write(&world.path("src"));
    old.write(&world.path("d"));
    old.write(&world.path("r"));
    let run = |program: &str, extra: &[&str], target: &str| {
        let mut words: Vec<OsString> = extra.iter().map(OsString::from).collect();
        words.extend(options.iter().map(OsString::from));
        words.extend(["src/", target].map(OsString::from));
        Run::of(&mut world.command(program, words))
    };
    let before = seen(&world, "d", Times::All);
    let theirs = run("rsync", &["-@-1"], "r/");
    let ours = run(DELTIC, &["sync", "--no-fsync"], "d/");
    let carried = options.iter().any(|word| word.starts_with("-r") && word.contains('t'));
    let loose = |word: &String| word.contains("window") || word.starts_with("-@") || word == "-b";
    let times = match (carried, options.iter().any(loose)) {
        (false, _) => Times::None,
        (true, true) => Times::OfFiles,
        (true, false) => Times::All,
    };
    let differences = differences(&world, &before, times);
    let same_end = ours.code == theirs.code;
    (!differences.is_empty() || !same_end).then(|| {
        let differences = differences.join("\n    ");
        format!(
            "seed {seed}: {options:?}\n    {differences}\n  deltic {:?}: {}{}\n  rsync {:?}: {}",
            ours.code, ours.stderr, ours.stdout, theirs.code, theirs.stderr
        )
    })
}

fn options(dice: &mut Dice) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for choice in CHOICES {
        if !dice.percent(choice.percent) {
            continue;
        }
        let fresh = (choice.words)(dice);
        let has = |words: &[String], part: &str| {
            words.iter().any(|word| {
                if matches!(part, "-c" | "-b" | "-H" | "-L" | "-u" | "--delete") {
                    word == part
                } else {
                    word.contains(part)
                }
            })
        };
        let clash = |(one, other): &(&str, &str)| {
            has(&all, one) && has(&fresh, other) || has(&all, other) && has(&fresh, one)
        };
        if !APART.iter().any(clash) {
            all.extend(fresh);
        }
    }
    all
}

/// Which times are compared.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    None,
    OfFiles,
    All,
}

/// Each name that is not the same in both targets.
fn differences(world: &World, before: &BTreeMap<PathBuf, String>, times: Times) -> Vec<String> {
    let (ours, theirs) = (seen(world, "d", times), seen(world, "r", times));
    let new = seen(world, "src", times);
    let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differ = names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name));
    let nothing = "nothing".to_owned();
    differ
        .map(|name| {
            let what = |all: &BTreeMap<PathBuf, String>| all.get(name).unwrap_or(&nothing).clone();
            let (deltic, rsync) = (what(&ours), what(&theirs));
            let (new, old) = (what(&new), what(before));
            format!("{}: {new} over {old} · deltic {deltic} · rsync {rsync}", name.display())
        })
        .collect()
}

/// What a target looks like: times of this run are all one, and links to the alternates are told.
fn seen(world: &World, target: &str, times: Times) -> BTreeMap<PathBuf, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut linked = BTreeSet::new();
    for alternate in ["alt1", "alt2"] {
        each(&world.path(alternate), &mut |path| {
            linked.insert(path.symlink_metadata().expect("it was listed").ino());
        });
    }
    let root = world.path(target);
    let mut all = picture(&root);
    let mut firsts: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for (name, what) in &mut all {
        let path = root.join(name);
        let meta = path.symlink_metadata().expect("it was listed");
        let (time, rest) = what.split_once(' ').expect("a time comes first");
        let kept = name.starts_with("kept") && meta.is_dir();
        let untimed = times == Times::None || times == Times::OfFiles && meta.is_dir();
        let fresh = untimed || meta.mtime() as u64 > now - 86_400;
        let time = if fresh { "now" } else { time };
        let is_link = if linked.contains(&meta.ino()) { " linked" } else { "" };
        let first = firsts.entry(meta.ino()).or_insert_with(|| name.clone());
        let same = if first == name { String::new() } else { format!(" = {}", first.display()) };
        *what = if kept { "dir".into() } else { format!("{time} {rest}{is_link}{same}") };
    }
    all
}

fn each(dir: &Path, with: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        with(&path);
        if path.symlink_metadata().expect("it was listed").is_dir() {
            each(&path, with);
        }
    }
}

/// A tree to be written: what each path is, directories before what is in them.
#[derive(Clone, Default)]
struct Tree(BTreeMap<PathBuf, Node>);

#[derive(Clone)]
struct Node {
    what: What,
    mode: u32,
    time: (i64, i64),
}

#[derive(Clone)]
enum What {
    Dir,
    File {
        len: usize,
        seed: u64,
    },
    Link(&'static str),
    Fifo,
    /// Another name of the file of this name, if there is one; else nothing.
    Name(PathBuf),
}

impl Tree {
    fn write(&self, root: &Path) {
        fs::create_dir_all(root).expect("it can be made");
        for (path, node) in &self.0 {
            let path = root.join(path);
            match &node.what {
                What::Dir => fs::create_dir(&path).expect("it is free"),
                What::File { len, seed } => {
                    fs::write(&path, noise(*len, *seed)).expect("it is free")
                }
                What::Name(_) => {}
                What::Link(target) => symlink(target, &path).expect("it is free"),
                What::Fifo => {
                    let mode = Mode::from_raw_mode(0o600);
                    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("it is free");
                }
            }
        }
        for (path, node) in &self.0 {
            if let Some(first) = self.first(node) {
                fs::hard_link(root.join(first), root.join(path)).expect("it is free");
            }
        }
        // From the leaves up: a directory's time changes with what is put in it.
        for (path, node) in self.0.iter().rev() {
            if matches!(node.what, What::Name(_)) {
                continue;
            }
            let path = root.join(path);
            if !matches!(node.what, What::Link(_)) {
                let permissions = fs::Permissions::from_mode(node.mode);
                fs::set_permissions(&path, permissions).expect("it is ours");
            }
            set_time(&path, node.time);
        }
        set_time(root, (1_000_000_000, 7));
    }

    /// The file that a node is another name of.
    fn first<'a>(&self, node: &'a Node) -> Option<&'a Path> {
        let What::Name(first) = &node.what else { return None };
        matches!(self.0.get(first)?.what, What::File { .. }).then_some(first)
    }

    fn dirs(&self) -> Vec<PathBuf> {
        let dirs = self.0.iter().filter(|(_, node)| matches!(node.what, What::Dir));
        std::iter::once(PathBuf::new()).chain(dirs.map(|(path, _)| path.clone())).collect()
    }

    fn remove(&mut self, path: &Path) {
        self.0.retain(|other, _| !other.starts_with(path));
    }
}

fn tree(dice: &mut Dice, most: u64) -> Tree {
    let mut tree = Tree::default();
    for _ in 0..1 + dice.below(most) {
        add(dice, &mut tree);
    }
    // A source that is not empty, whatever the dice say.
    tree.0.insert("always".into(), node(dice, What::File { len: 30, seed: 1 }));
    tree
}

fn add(dice: &mut Dice, tree: &mut Tree) {
    let path = dice.pick(&tree.dirs()).join(name(dice));
    if tree.0.contains_key(&path) || path.as_os_str().len() > 200 {
        return;
    }
    let files = tree.0.iter().filter(|(_, node)| matches!(node.what, What::File { .. }));
    let files: Vec<_> = files.map(|(path, _)| path.clone()).collect();
    let what = match files.is_empty() || !dice.percent(15) {
        true => what(dice),
        false => What::Name(dice.pick(&files).clone()),
    };
    let node = node(dice, what);
    tree.0.insert(path, node);
}

fn name(dice: &mut Dice) -> OsString {
    let plain = ["a", "b", "c", "d.c", "e.txt", "e.text", "f~", ".g"];
    match dice.below(4) {
        0 => {
            let len = 1 + dice.below(6);
            let byte =
                |dice: &mut Dice| Some(dice.next() as u8).filter(|b| !matches!(b, 0 | b'/' | b'.'));
            OsString::from_vec((0..len).map(|_| byte(dice).unwrap_or(b'_')).collect())
        }
        1 => {
            let odd = *dice.pick(&common::tree::ODD_NAMES);
            OsString::from_vec(odd.to_vec())
        }
        _ => (*dice.pick(&plain)).into(),
    }
}

fn what(dice: &mut Dice) -> What {
    match dice.below(11) {
        10 => What::Fifo,
        0..3 => What::Dir,
        3 => What::Link(dice.pick::<&str>(&[
            "a",
            "../b",
            "nowhere",
            "/etc/passwd",
            "../../x",
            "a/../../c",
        ])),
        _ => {
            let long = 3000 + dice.below(9000);
            let len = *dice.pick(&[0, 1, 20, 20, 21, 1024, 1023, 2001, 2049, long]) as usize;
            What::File { len, seed: dice.below(4) }
        }
    }
}

fn node(dice: &mut Dice, what: What) -> Node {
    let mode = match what {
        What::Dir => *dice.pick(&[0o755, 0o755, 0o700, 0o775]),
        _ => *dice.pick(&[0o644, 0o644, 0o600, 0o755, 0o666]),
    };
    Node { what, mode, time: time(dice) }
}

fn time(dice: &mut Dice) -> (i64, i64) {
    (1_000_000_000 + dice.below(5) as i64, *dice.pick(&[0, 0, 500_000_000]))
}

/// `tree` after some edits; with `kinds`, entries may become of another kind.
fn edited(dice: &mut Dice, tree: &Tree, edits: u64, kinds: bool) -> Tree {
    let mut tree = tree.clone();
    for _ in 0..dice.below(edits + 1) {
        let paths: Vec<PathBuf> = tree.0.keys().cloned().collect();
        if paths.is_empty() {
            add(dice, &mut tree);
            continue;
        }
        let path = dice.pick(&paths).clone();
        let (fresh_what, fresh_time) = (what(dice), time(dice));
        let old = tree.0.get_mut(&path).expect("it was picked");
        match dice.below(9) {
            0 => tree.remove(&path),
            1 if kinds => {
                tree.remove(&path);
                let node = node(dice, fresh_what);
                tree.0.insert(path, node);
            }
            2 => old.mode ^= 0o020,
            3 => old.time = fresh_time,
            4 => {
                if let What::File { seed, .. } = &mut old.what {
                    *seed += 1;
                }
            }
            5 | 6 => {
                if let What::File { len, seed } = &mut old.what {
                    (*len, *seed) = (*len + 7, *seed);
                    old.time = fresh_time;
                }
            }
            _ => add(dice, &mut tree),
        }
    }
    tree
}

/// Random numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
