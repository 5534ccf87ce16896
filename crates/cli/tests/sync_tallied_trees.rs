//! Random trees synced with tallies of directories and without: the results, and the lines of `-i`, are equal.
//!
//! A case is a batch of random trees with an edited version of each at two equal destinations, and random options. The
//! trees differ in files, modes, times, owners, ACLs, extended attributes and hard links. A second source with
//! [`LISTED_FIRST`] files, each above `--max-size`, uses up the entries that every run lists, so the directories of
//! the trees are sent as tallies. Without that source everything is listed. `DELTIC_TALLIES_CASES` is the number of
//! cases, `DELTIC_TALLIES_SEED` the first of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_tree::Acl;

use crate::common::attrs::{ACCESS, DEFAULT};
use crate::common::dice::Dice;
use crate::common::look::{Kind, Look, look};
use crate::common::maker::{Taste, Tree};
use crate::common::{Run, Way, World, is_root};

const CASES: u64 = 25;
/// Number of trees in a case. All of them together have fewer entries than a run lists at first.
const TREES: usize = 12;
const TREE_ENTRIES: u64 = 40;
/// Number of entries that a run lists before the first tally, and a few more.
const LISTED_FIRST: usize = 1030;
/// Length of a file that `--max-size=1m` passes over. No file of a tree is so long.
const LARGE: u64 = 2 << 20;

struct Case {
    seed: u64,
    way: Way,
    options: Vec<&'static str>,
    /// Source arguments below the world.
    sources: Vec<String>,
    new: Vec<Tree>,
    old: Vec<Tree>,
}

impl Case {
    fn random(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let options = options(dice);
        let taste = Taste {
            entries: TREE_ENTRIES,
            kinds: true,
            foreign: is_root() && dice.percent(60),
            notes: true,
            ..Taste::default()
        };
        let mut new: Vec<_> = (0..TREES).map(|_| Tree::random(dice, taste)).collect();
        new.iter_mut().for_each(|tree| remove_names_of_acls(tree, dice));
        let old = |tree: &Tree| {
            let edits = *dice.pick(&[1, 3, 9]);
            let mut old = tree.edited(dice, taste, edits, true);
            remove_names_of_acls(&mut old, dice);
            // Without -H, the first of two names that share a file is reported for both: the order decides which.
            if !options.contains(&"-H") {
                old.part_names();
            }
            old
        };
        let old = new.iter().map(old).collect();
        let is_split = options.contains(&"-R") && dice.percent(50);
        let sources = match is_split {
            true => (0..TREES).map(|no| format!("src/{no}")).collect(),
            false => vec!["src/".into()],
        };
        Self { seed, way: *dice.pick(&[Way::Push, Way::Pull]), options, sources, new, old }
    }

    fn has(&self, word: &str) -> bool {
        self.options.contains(&word)
    }

    fn write(&self, world: &World) {
        for no in 0..TREES {
            self.new[no].write(&world.path(format!("src/{no}")), None);
            for side in ["told", "listed"] {
                let below = if self.has("-R") { "src/" } else { "" };
                self.old[no].write(&world.path(format!("{side}/{below}{no}")), None);
            }
        }
        for dir in ["src", "told", "listed"] {
            world.set_time(dir, 1_000_000_000);
        }
    }

    /// Runs the sync into `side`. With `large`, directories are sent as tallies.
    fn run(&self, world: &World, side: &str, large: Option<&World>) -> Run {
        let mut words = vec!["-i".into(), "--no-fsync".into(), "--max-size=1m".into()];
        words.extend(self.options.iter().map(|word| (*word).to_owned()));
        words.extend(self.sources.iter().map(|word| self.way.from(word)));
        if let Some(large) = large {
            let dir = large.path("").join("./large/");
            words.push(self.way.from(dir.to_str().expect("a path of this test")));
        }
        words.push(self.way.to(&format!("{side}/")));
        world.sync(&words)
    }

    /// Returns what of an entry must be equal.
    fn compared(&self, path: &Path, look: &Look, links: &[PathBuf]) -> String {
        let Look { kind, mode, owner, device, content, notes, names, modified, .. } = look;
        let is_untimed = *kind == Kind::Dir && (self.has("-O") || path == Path::new(""))
            || *kind == Kind::Link && self.has("-J");
        let time = if is_untimed { None } else { Some(modified) };
        let names = if *kind == Kind::Dir { None } else { Some(names) };
        format!(
            "{kind:?} {mode:o} {owner:?} {device} {content} {notes:?} {names:?} {links:?} {time:?}"
        )
    }

    /// Returns everything of a destination that must be equal.
    fn picture(&self, world: &World, side: &str) -> BTreeMap<PathBuf, String> {
        let mut all = look(&world.path(side));
        all.retain(|path, _| !path.starts_with("large"));
        let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
        for (path, look) in all.iter().filter(|(_, look)| look.kind == Kind::File) {
            names.entry(look.inode).or_default().push(path.clone());
        }
        let links = |look: &Look| names.get(&look.inode).map_or(&[][..], Vec::as_slice);
        all.iter()
            .map(|(path, look)| (path.clone(), self.compared(path, look, links(look))))
            .collect()
    }

    /// Returns how the run with tallies differs from the run without.
    fn difference(&self, large: &World) -> Option<String> {
        let world = World::new();
        self.write(&world);
        let told = self.run(&world, "told", Some(large));
        let listed = self.run(&world, "listed", None);
        let differs = |what: String| {
            let Self { seed, way, options, sources, .. } = self;
            Some(format!("seed {seed}, {way:?} {options:?} {sources:?}: {what}"))
        };
        for run in [&told, &listed] {
            if (run.code, &*run.stderr) != (Some(0), "") {
                return differs(format!("{run:#?}"));
            }
        }
        let (ours, theirs) = (lines(&told), lines(&listed));
        if ours != theirs {
            return differs(format!("lines with tallies {ours:#?}\nwithout {theirs:#?}"));
        }
        let (ours, theirs) = (self.picture(&world, "told"), self.picture(&world, "listed"));
        for path in ours.keys().chain(theirs.keys()) {
            let (ours, theirs) = (ours.get(path), theirs.get(path));
            if ours != theirs {
                return differs(format!("{path:?}: with tallies {ours:?}\nwithout {theirs:?}"));
            }
        }
        for (side, large) in [("told", Some(large)), ("told", None), ("listed", Some(large))] {
            let again = self.run(&world, side, large);
            if !changes(&again).is_empty() || again.code != Some(0) {
                let is_told = large.is_some();
                return differs(format!("again, into {side}, tallies {is_told}: {again:#?}"));
            }
        }
        None
    }
}

/// Returns the lines of a run, sorted, without the lines of the source that uses up entries. Each run reports what
/// it skips.
fn lines(run: &Run) -> Vec<&str> {
    run.lines().into_iter().filter(|line| !line.ends_with(" large/")).collect()
}

/// Returns the lines about changes.
fn changes(run: &Run) -> Vec<&str> {
    lines(run).into_iter().filter(|line| !line.starts_with("skipping non-regular file ")).collect()
}

fn options(dice: &mut Dice) -> Vec<&'static str> {
    const LIKELY: &[&str] = &["-H", "-X", "-A", "--delete --force-delete"];
    const ALSO: &[&str] = &[
        "-b",
        "-R",
        "--size-only",
        "--modify-window=1",
        "--modify-window=0",
        "-O",
        "-J",
        "--no-perms",
        "--no-owner",
        "--no-group",
        "--numeric-ids",
        "--no-specials",
        "--no-links",
    ];
    let mut all = vec!["-a"];
    for (words, chance) in [(LIKELY, 50), (ALSO, 14)] {
        let drawn = words.iter().filter(|_| dice.percent(chance));
        all.extend(drawn.flat_map(|words| words.split(' ')).collect::<Vec<_>>());
    }
    all
}

/// Removes the named users and groups of half of the ACLs: a directory with an ACL that names users has no tally.
fn remove_names_of_acls(tree: &mut Tree, dice: &mut Dice) {
    for node in tree.0.values_mut() {
        for name in [ACCESS, DEFAULT] {
            let bytes = node.notes.get_mut(name).filter(|_| dice.percent(70));
            if let Some(bytes) = bytes {
                let mut acl = Acl::parse(bytes).expect("an ACL of the maker");
                acl.named.clear();
                *bytes = acl.to_bytes();
            }
        }
    }
}

#[test]
fn random_trees_come_out_alike_with_tallies_and_without() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("DELTIC_TALLIES_SEED").unwrap_or(0);
    let cases: u64 = number("DELTIC_TALLIES_CASES").unwrap_or(CASES);
    let large = World::new();
    large.mkdir("large");
    for no in 0..LISTED_FIRST {
        let file = File::create_new(large.path(format!("large/{no}"))).expect("the name is free");
        file.set_len(LARGE).expect("a hole needs no room");
    }
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + cases {
                return;
            }
            if let Some(text) = Case::random(seed).difference(&large) {
                failures.lock().expect("no thread panics").push(text);
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("no thread panics");
    assert!(
        failures.is_empty(),
        "{} of {cases} cases from {first} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
