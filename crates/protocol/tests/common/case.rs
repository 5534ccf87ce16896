//! Random pairs of trees, and what a sync must make of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use deltic_core::Strategy;
use deltic_protocol::limits::{Limits, MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use deltic_protocol::options::{Compare, Delete, Guard, Options};
use deltic_tree::{Kind, Name, RelPath, Timestamp};

use super::Dice;
use super::destination::{DestinationFaults, Stage};
use super::source::SourceFaults;
use super::tree::{Node, Tree, name};

/// Everything that one session depends on.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub new: Tree,
    pub old: Tree,
    pub options: Options,
    /// True if directories go by their tallies wherever they may.
    pub eager: bool,
    /// The ends are far apart: the sender guesses what the receiver will want, and may guess its names wrong.
    pub far_away: bool,
    pub takes_offers: bool,
    /// The bounds that both ends agreed on.
    pub limits: Limits,
    /// The names at the root that are asked for; the whole root if `None`.
    pub roots: Option<HashSet<Name>>,
    pub leftovers: BTreeMap<RelPath, Vec<Arc<Vec<u8>>>>,
    pub interrupted: BTreeMap<RelPath, Stage>,
    pub source_faults: SourceFaults,
    pub destination_faults: DestinationFaults,
    /// The connection is cut before this step.
    pub cut: Option<usize>,
}

impl Case {
    pub fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut new = random_tree(&mut dice);
        let has_holes = seed % 5 == 2;
        if has_holes {
            make_holes(&mut new, &mut Dice::new(!seed));
        }
        let old = if dice.percent(10) { Tree::default() } else { older(&mut dice, &new) };
        let mut options = random_options(&mut dice);
        options.writing.sparse = has_holes;
        let leftovers = random_leftovers(&mut dice, &new);
        let roots = dice.percent(15).then(|| {
            let names = new.children(&RelPath::root()).into_iter().map(|entry| entry.name);
            names.filter(|_| dice.percent(70)).collect()
        });
        let mut case = Self {
            seed,
            new,
            old,
            options,
            eager: seed % 2 == 1,
            far_away: !seed.is_multiple_of(3),
            takes_offers: !seed.is_multiple_of(7),
            limits: random_limits(seed),
            roots,
            leftovers,
            interrupted: BTreeMap::new(),
            source_faults: SourceFaults::default(),
            destination_faults: DestinationFaults::default(),
            cut: None,
        };
        // Which of several directories in the way a small limit lets go depends on the order of answers.
        if matches!(case.options.delete, Delete::AtMost(_)) && case.has_dirs_in_the_way() {
            case.options.delete = Delete::Guarded(Guard::default());
        }
        case.destination_faults.known = 30;
        case.destination_faults.based = 30;
        case.source_faults.overstate = seed % 10;
        case.add_faults(&mut dice);
        case
    }

    fn has_dirs_in_the_way(&self) -> bool {
        let in_the_way = |(path, node): (&RelPath, &Node)| {
            !node.meta.is_dir() && self.old.0.get(path).is_some_and(|old| old.meta.is_dir())
        };
        self.new.0.iter().any(in_the_way)
    }

    fn add_faults(&mut self, dice: &mut Dice) {
        if dice.percent(60) {
            return;
        }
        let mut chance = |max| if dice.percent(25) { 1 + dice.next() % max } else { 0 };
        self.source_faults = SourceFaults {
            overstate: self.source_faults.overstate,
            list: chance(20),
            open: chance(30),
            scan: chance(20),
            seal: chance(20),
            read: chance(20),
            corrupt: chance(40),
            change: chance(10),
        };
        self.destination_faults = DestinationFaults {
            look: chance(10),
            make: chance(30),
            open: chance(30),
            guess: chance(80),
            index: chance(50),
            survey: chance(20),
            deceive: chance(60),
            copy: chance(30),
            write: chance(40),
            commit: chance(40),
            unproven: chance(60),
            ..self.destination_faults
        };
        if dice.percent(30) {
            self.cut = Some(dice.below(120));
        }
    }

    pub fn has_faults(&self) -> bool {
        let SourceFaults { list, open, scan, seal, read, corrupt, change, .. } = self.source_faults;
        let source = list + open + scan + seal + read + corrupt + change;
        let DestinationFaults { look, make, open, guess, index, survey, .. } =
            self.destination_faults;
        let DestinationFaults { deceive, copy, write, commit, unproven, .. } =
            self.destination_faults;
        let destination = look
            + make
            + open
            + guess
            + index
            + survey
            + deceive
            + copy
            + write
            + commit
            + unproven;
        source + destination > 0
    }

    /// Entries that the sender lists, parents first.
    pub fn listed(&self) -> BTreeMap<&RelPath, &Node> {
        let mut listed: BTreeMap<&RelPath, &Node> = BTreeMap::new();
        for (path, node) in &self.new.0 {
            let (parent, name) = path.split_last().unwrap();
            let reached = match &self.roots {
                _ if self.options.recursive && !parent.is_root() => listed.contains_key(&parent),
                Some(roots) => parent.is_root() && roots.contains(&name),
                // A whole root is a directory: without -r it is left out.
                None => parent.is_root() && self.options.recursive,
            };
            let admitted = match node.meta.kind {
                Kind::File => true,
                Kind::Dir => self.options.recursive,
                Kind::Symlink(_) => self.options.links,
                _ => false,
            };
            if reached && admitted {
                listed.insert(path, node);
            }
        }
        listed
    }

    /// The destination after a session in which nothing goes wrong, how many names went, and how many were in the way.
    pub fn expected(&self) -> (Tree, u64, u64) {
        let mut tree = self.old.clone();
        if self.options.dry_run {
            return (tree, 0, 0);
        }
        let (mut deleted, mut failed) = (0, 0);
        for (path, node) in self.listed() {
            let (parent, _) = path.split_last().unwrap();
            let in_the_way = tree.0.get(path).is_some_and(|old| old.meta.is_dir());
            if !node.meta.is_dir() && in_the_way {
                let empty = tree.count(path) == 1;
                if self.options.delete == Delete::Never && !empty {
                    failed += 1;
                    continue;
                }
                // What is in the way itself is replaced.
                deleted += tree.remove(path) - 1;
            }
            assert!(tree.is_dir(&parent));
            let old = tree.0.get(path);
            let mut node = node.clone();
            // The quick check of rsync: equal lengths and times count as equal content.
            let looks_equal = |old: &&Node| {
                node.meta.is_file()
                    && old.meta.is_file()
                    && (old.meta.len, old.meta.modified) == (node.meta.len, node.meta.modified)
            };
            if let Some(old) = old.filter(looks_equal).filter(|_| !self.options.checksum) {
                node.bytes = Arc::clone(&old.bytes);
            }
            tree.0.insert(path.clone(), node);
        }
        let extras = self.extras(failed);
        deleted += extras.iter().map(|extra| tree.remove(extra)).sum::<u64>();
        (tree, deleted, failed)
    }

    fn extras(&self, failed: u64) -> BTreeSet<RelPath> {
        let listed = self.listed();
        let whole_root = self.roots.is_none() && self.options.recursive;
        let in_listed_dir = |path: &&RelPath| {
            let (parent, _) = path.split_last().unwrap();
            match parent.is_root() {
                true => whole_root,
                false => {
                    listed.get(&parent).is_some_and(|node| node.meta.is_dir())
                        && self.old.is_dir(&parent)
                }
            }
        };
        // What is left out is told as well: it stays where it is.
        let told = |path: &RelPath| {
            let (parent, _) = path.split_last().unwrap();
            let reached = parent.is_root() || listed.contains_key(&parent);
            reached && self.new.0.get(path).is_some_and(|node| !node.meta.is_dir())
        };
        let paths = self.old.0.keys().filter(|path| !listed.contains_key(path) && !told(path));
        let extras: BTreeSet<_> = paths.filter(in_listed_dir).cloned().collect();
        let names: u64 = extras.iter().map(|path| self.old.count(path)).sum();
        let most = match self.options.delete {
            Delete::Never => 0,
            Delete::Guarded(_) | Delete::AtMost(_)
                if !self.new.0.keys().any(|path| listed.contains_key(path) || told(path)) =>
            {
                0
            }
            Delete::Guarded(_) => 1000,
            Delete::AtMost(most) => most,
        };
        if failed > 0 || names > most { BTreeSet::new() } else { extras }
    }
}

fn random_options(dice: &mut Dice) -> Options {
    Options {
        recursive: dice.percent(90),
        links: dice.percent(85),
        modes: dice.percent(60),
        times: dice.percent(75),
        checksum: dice.percent(25),
        whole_file: dice.percent(10),
        dry_run: dice.percent(10),
        delete: match dice.below(10) {
            0..5 => Delete::Never,
            5..8 => Delete::Guarded(Guard::default()),
            // Which names go of too many is nobody's promise: see `a_number_bounds_what_goes`.
            _ => Delete::AtMost(if dice.percent(50) { 0 } else { 1000 }),
        },
        compress: dice.percent(20),
        durable: dice.percent(50),
        strategy: *dice.pick(&Strategy::ALL),
        compare: Compare { cached: true, ..Compare::default() },
        ..Options::default()
    }
}

/// Makes zeros of parts of most files.
fn make_holes(tree: &mut Tree, dice: &mut Dice) {
    for node in tree.0.values_mut().filter(|node| node.bytes.len() > 64) {
        let bytes = Arc::make_mut(&mut node.bytes);
        for _ in 0..dice.below(5) {
            let (one, other) = (dice.below(bytes.len()), dice.below(bytes.len()));
            bytes[one.min(other)..one.max(other)].fill(0);
        }
    }
}

fn random_tree(dice: &mut Dice) -> Tree {
    let mut tree = Tree::default();
    let mut dirs = vec![RelPath::root()];
    for _ in 0..dice.below(14) {
        let names = ["a", "b", "c", "d", "e", "f", "g", "\u{e9}", "a.b", "-", "aa"];
        let path = dice.pick(&dirs).join(&name(names[dice.below(names.len())])).unwrap();
        if tree.0.contains_key(&path) {
            continue;
        }
        let mut node = random_node(dice);
        let longest = tree.0.values().max_by_key(|node: &&Node| node.bytes.len());
        if let Some(longest) = longest.filter(|_| node.meta.is_file() && dice.percent(10)) {
            let mut bytes = longest.bytes.to_vec();
            let at = dice.below(bytes.len() + 1);
            bytes[at..].iter_mut().take(dice.below(2)).for_each(|byte| *byte ^= 1);
            node = Node::file(bytes, node.meta.modified, node.meta.mode);
        }
        if node.meta.is_dir() {
            dirs.push(path.clone());
        }
        tree.0.insert(path, node);
    }
    tree
}

fn random_node(dice: &mut Dice) -> Node {
    let (time, mode) = (random_time(dice), *dice.pick(&[0o644, 0o755, 0o600]));
    match dice.below(20) {
        0..4 => Node::other(Kind::Dir, time, 0o755),
        4 | 5 => {
            let targets = [&b"a"[..], b"../b", b"/etc/passwd", b"\xff"];
            Node::other(Kind::Symlink(targets[dice.below(4)].into()), time, 0o777)
        }
        6 if dice.percent(30) => Node::other(Kind::Fifo, time, mode),
        _ => Node::file(random_bytes(dice), time, mode),
    }
}

fn random_time(dice: &mut Dice) -> Timestamp {
    Timestamp { secs: dice.below(4) as i64 - 1, nanos: 1 + dice.below(2) as u32 }
}

fn random_bytes(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(40) {
        0..3 => 0,
        3..8 => dice.between(1, 600),
        8..11 => dice.between(2046, 2050),
        11..30 => dice.between(2049, 40_000),
        30..37 => dice.between(40_000, 200_000),
        37 => *dice.pick(&[(256 << 10) - 1, 256 << 10, (256 << 10) + 1]),
        _ => dice.between(200_000, 1_200_000),
    };
    match dice.below(10) {
        0 => vec![0; len],
        1 | 2 => {
            let period = dice.between(1, 30_000);
            let period = dice.bytes(period);
            period.iter().copied().cycle().take(len).collect()
        }
        3 => {
            let mut bytes = dice.bytes(len);
            let hole = dice.below(len + 1);
            bytes[hole..hole + dice.below(len - hole + 1)].fill(0);
            bytes
        }
        _ => dice.bytes(len),
    }
}

/// One small change, as an editor or a program makes it.
pub fn edit(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let at = dice.below(bytes.len() + 1);
    let run = dice.between(1, 5000).min(bytes.len() - at);
    let len = dice.between(1, 5000);
    let fresh = dice.bytes(len);
    match dice.below(7) {
        0 => drop(bytes.splice(at..at, fresh)),
        1 => drop(bytes.splice(at..at + run, fresh[..run.min(len)].to_vec())),
        2 => drop(bytes.drain(at..at + run)),
        3 => bytes.truncate(at),
        4 => bytes.extend(fresh),
        5 => bytes[at..at + run].fill(0),
        _ => {
            let moved: Vec<u8> = bytes.drain(at..at + run).collect();
            let to = dice.below(bytes.len() + 1);
            bytes.splice(to..to, moved);
        }
    }
}

/// An older version of a tree.
fn older(dice: &mut Dice, new: &Tree) -> Tree {
    let mut old = Tree::default();
    for (path, node) in &new.0 {
        let (parent, _) = path.split_last().unwrap();
        if !old.is_dir(&parent) || dice.percent(10) {
            continue;
        }
        let mut node = node.clone();
        match dice.below(10) {
            0..3 => {}
            3 => node.meta.modified = random_time(dice),
            4 => node.meta.mode = 0o700,
            5 => node = random_node(dice),
            _ if node.meta.is_file() => {
                let mut bytes = node.bytes.to_vec();
                (0..dice.between(1, 4)).for_each(|_| edit(dice, &mut bytes));
                node.meta.len = bytes.len() as u64;
                node.bytes = Arc::new(bytes);
                node.meta.modified.nanos = 99;
            }
            _ => {}
        }
        old.0.insert(path.clone(), node);
    }
    for (path, node) in random_tree(dice).0 {
        let (parent, _) = path.split_last().unwrap();
        if dice.percent(40) && old.is_dir(&parent) && !old.0.contains_key(&path) {
            old.0.insert(path, node);
        }
    }
    old
}

fn random_leftovers(dice: &mut Dice, new: &Tree) -> BTreeMap<RelPath, Vec<Arc<Vec<u8>>>> {
    let mut leftovers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (path, node) in new.0.iter().filter(|(_, node)| node.meta.is_file()) {
        while dice.percent(8) {
            let mut bytes = node.bytes.to_vec();
            if !bytes.is_empty() {
                let hole = dice.below(bytes.len());
                bytes[hole..].fill(0);
            }
            edit(dice, &mut bytes);
            leftovers.entry(path.clone()).or_default().push(Arc::new(bytes));
        }
    }
    leftovers
}

/// Most sessions have no bounds of their own.
fn random_limits(seed: u64) -> Limits {
    let mut dice = Dice::new(seed ^ 0xc4ed_1700);
    let credit = *dice.pick(&[None, None, Some(1), Some(64 << 10), Some(1 << 20)]);
    let frame_bytes = *dice.pick(&[MAX_FRAME_BYTES, MAX_FRAME_BYTES, 256 << 10, MIN_FRAME_BYTES]);
    Limits { credit, frame_bytes }
}
