//! Random edits at both ends of a model. Each step is executed under the checks that a caller makes.

use std::collections::{BTreeMap, BTreeSet};

use deltic_tree::RelPath;
use deltic_tree::reconcile::{
    CommonEntry, Deletions, SyncEnd, SyncStep, TreeNode, Trees, reconcile,
};

use super::{naming, path, state};

/// Contents of files; `None` is a directory.
type Model = BTreeMap<RelPath, Option<String>>;

struct Rng(u64);

impl Rng {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

#[derive(Default)]
struct World {
    was: BTreeMap<RelPath, CommonEntry>,
    ends: [Model; 2],
}

impl World {
    fn end(&mut self, end: SyncEnd) -> &mut Model {
        &mut self.ends[end as usize]
    }

    fn trees(&self) -> Trees {
        let nodes = |end: SyncEnd| {
            let node = |content: &Option<String>| match content {
                None => TreeNode::Dir,
                Some(content) => TreeNode::File(state(end, content)),
            };
            self.ends[end as usize].iter().map(|(path, is)| (path.clone(), node(is))).collect()
        };
        Trees {
            ancestor: self.was.clone(),
            here: nodes(SyncEnd::Here),
            there: nodes(SyncEnd::There),
        }
    }

    /// Executes a step. Panics if the step would replace or delete something that changed since the ancestor.
    fn execute(&mut self, step: &SyncStep) {
        match step {
            SyncStep::Aside { end, from, to } => {
                let file = self.end(*end).remove(from).expect("the file is there");
                assert!(file.is_some());
                assert!(self.end(*end).insert(to.clone(), file).is_none(), "{to} was free");
            }
            SyncStep::Move { end, from, to } => {
                let [one, other] = [(*end, from), (end.other(), to)];
                let content = |(end, path): (SyncEnd, &RelPath)| self.ends[end as usize].get(path);
                assert_eq!(content(one), content(other), "all digests are known");
                let file = self.end(*end).remove(from).expect("the file is there");
                self.make_above(*end, to);
                assert!(self.end(*end).insert(to.clone(), file).is_none(), "{to} was free");
                self.note(from);
                self.note(to);
            }
            SyncStep::Delete { end, path } => {
                self.delete(*end, path);
                self.note(path);
            }
            SyncStep::MakeDir { end, path } => {
                let before = self.end(*end).insert(path.clone(), None);
                assert!(before.is_none_or(|before| before.is_none()), "{path} was free");
                self.note(path);
            }
            SyncStep::Transfer { to, path } => {
                self.transfer(*to, path);
                self.note(path);
            }
            SyncStep::Compare { .. } => panic!("all digests are known"),
            SyncStep::Adopt { path } | SyncStep::Forget { path } => self.note(path),
        }
    }

    fn make_above(&mut self, end: SyncEnd, path: &RelPath) {
        for dir in above(path) {
            let before = self.end(end).insert(dir, None);
            assert!(before.is_none_or(|before| before.is_none()));
        }
    }

    fn delete(&mut self, end: SyncEnd, path: &RelPath) {
        let gone = self.end(end).remove(path).expect("the entry is there");
        match gone {
            None => {
                let is_empty = !self.end(end).keys().any(|other| other.starts_with(path));
                assert!(is_empty, "{path} is empty");
            }
            Some(content) => self.assert_unchanged(end, path, &content),
        }
    }

    fn transfer(&mut self, to: SyncEnd, path: &RelPath) {
        let content = self.ends[to.other() as usize][path].clone();
        assert!(content.is_some());
        assert!(above(path).iter().all(|dir| self.ends[to as usize].get(dir) == Some(&None)));
        if let Some(replaced) = self.end(to).insert(path.clone(), content) {
            let replaced = replaced.expect("a file never replaces a directory");
            self.assert_unchanged(to, path, &replaced);
        }
    }

    fn assert_unchanged(&self, end: SyncEnd, path: &RelPath, content: &str) {
        assert_eq!(self.tag(end, path), Some(state(end, content).tag), "{path} changed");
    }

    /// Returns the tag that the ancestor has for the file at `end`.
    fn tag(&self, end: SyncEnd, path: &RelPath) -> Option<Box<str>> {
        match self.was.get(path) {
            Some(CommonEntry::File { here, there }) => {
                Some([here, there][end as usize].tag.clone())
            }
            _ => None,
        }
    }

    fn note(&mut self, path: &RelPath) {
        let [here, there] = self.ends.each_ref().map(|end| end.get(path).cloned());
        let common = match (here, there) {
            (Some(Some(here)), Some(Some(there))) => {
                assert_eq!(here, there, "{path}");
                CommonEntry::File {
                    here: state(SyncEnd::Here, &here),
                    there: state(SyncEnd::There, &there),
                }
            }
            (Some(None), Some(None)) => CommonEntry::Dir,
            _ => return drop(self.was.remove(path)),
        };
        self.was.insert(path.clone(), common);
    }

    /// Returns the contents that no plan may lose: those that changed since the ancestor.
    fn precious(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for end in SyncEnd::BOTH {
            for (path, content) in &self.ends[end as usize] {
                let Some(content) = content else { continue };
                if self.tag(end, path) != Some(state(end, content).tag) {
                    all.insert(content.clone());
                }
            }
        }
        all
    }

    fn contents(&self) -> BTreeSet<String> {
        self.ends.iter().flat_map(|end| end.values().flatten().cloned()).collect()
    }
}

fn above(path: &RelPath) -> Vec<RelPath> {
    let parent =
        |path: &RelPath| path.split_last().map(|(dir, _)| dir).filter(|dir| !dir.is_root());
    std::iter::successors(parent(path), parent).collect()
}

/// Names with other spellings of each other, and few enough to meet.
const NAMES: [&str; 6] = ["a", "b", "A", "c.txt", "d", "e\u{301}"];

fn random_path(rng: &mut Rng) -> RelPath {
    let depth = 1 + rng.below(3);
    let names: Vec<_> = (0..depth).map(|_| NAMES[rng.below(NAMES.len())]).collect();
    path(&names.join("/"))
}

/// Edits an end: deletes, renames, writes a file, or makes a directory.
fn edit(end: &mut Model, rng: &mut Rng) {
    let at = random_path(rng);
    match rng.below(6) {
        0 => end.retain(|path, _| !path.starts_with(&at)),
        1 => rename(end, rng, &at),
        kind => {
            let most = [6, 1 << 20][rng.below(2)];
            let content = format!("{:x}", rng.below(most));
            put(end, &at, BTreeMap::from([(at.clone(), (kind != 2).then_some(content))]));
        }
    }
}

fn rename(end: &mut Model, rng: &mut Rng, to: &RelPath) {
    let Some(from) = end.keys().nth(rng.below(end.len().max(1))).cloned() else { return };
    if to.starts_with(&from) || from.starts_with(to) {
        return;
    }
    let moved = end.iter().filter(|(path, _)| path.starts_with(&from)).map(|(path, is)| {
        let rest = &path.as_bytes()[from.as_bytes().len()..];
        (RelPath::parse(&[to.as_bytes(), rest].concat()).expect("the names are short"), is.clone())
    });
    let moved = moved.collect();
    end.retain(|path, _| !path.starts_with(&from));
    put(end, to, moved);
}

/// Puts `entries` at `at`, in place of what was there. Files above give way to directories.
fn put(end: &mut Model, at: &RelPath, entries: Model) {
    end.retain(|path, _| !path.starts_with(at));
    end.extend(above(at).into_iter().map(|dir| (dir, None)));
    end.extend(entries);
}

#[test]
fn random_edits_at_both_ends_lose_and_invent_nothing_and_end_equal() {
    for seed in 1..1_000 {
        let mut rng = Rng(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut world = World::default();
        for _ in 0..6 {
            for end in SyncEnd::BOTH {
                (0..rng.below(5)).for_each(|_| edit(world.end(end), &mut rng));
            }
            let (precious, before) = (world.precious(), world.contents());
            let plan = reconcile(&world.trees(), &naming(), Deletions::Confirmed);
            plan.steps.iter().for_each(|step| world.execute(step));
            let after = world.contents();
            assert!(precious.is_subset(&after), "seed {seed}: {precious:?} {after:?} {plan:#?}");
            assert!(after.is_subset(&before), "seed {seed}");
            let again = reconcile(&world.trees(), &naming(), Deletions::Confirmed);
            assert!(again.steps.is_empty(), "seed {seed}: {plan:#?} {again:#?}");
            if again.clashes.is_empty() {
                assert_eq!(world.ends[0], world.ends[1], "seed {seed}");
            }
        }
    }
}

#[test]
fn a_plan_of_the_other_end_is_the_mirrored_plan() {
    let mut compared = 0;
    for seed in 1..1_000 {
        let mut rng = Rng(u64::wrapping_mul(seed, 0x2545_f491_4f6c_dd1d));
        let mut world = World::default();
        for _ in 0..3 {
            for end in SyncEnd::BOTH {
                (0..rng.below(4)).for_each(|_| edit(world.end(end), &mut rng));
            }
            let plan = reconcile(&world.trees(), &naming(), Deletions::Confirmed);
            // The version here gives way, whichever end is here.
            if !plan.steps.iter().any(|step| matches!(step, SyncStep::Aside { .. })) {
                let mirrored = reconcile(&swapped(world.trees()), &naming(), Deletions::Confirmed);
                let steps: BTreeSet<_> = mirrored.steps.iter().map(mirror).collect();
                assert_eq!(steps, plan.steps.iter().cloned().collect(), "seed {seed}");
                compared += 1;
            }
            plan.steps.iter().for_each(|step| world.execute(step));
        }
    }
    assert!(compared > 1_000);
}

fn swapped(trees: Trees) -> Trees {
    let swap = |common| match common {
        CommonEntry::File { here, there } => CommonEntry::File { here: there, there: here },
        CommonEntry::Dir => CommonEntry::Dir,
    };
    let ancestor = trees.ancestor.into_iter().map(|(path, common)| (path, swap(common))).collect();
    Trees { ancestor, here: trees.there, there: trees.here }
}

fn mirror(step: &SyncStep) -> SyncStep {
    let mut step = step.clone();
    match &mut step {
        SyncStep::Aside { end, .. }
        | SyncStep::Move { end, .. }
        | SyncStep::Delete { end, .. }
        | SyncStep::MakeDir { end, .. }
        | SyncStep::Transfer { to: end, .. } => *end = end.other(),
        SyncStep::Compare { .. } | SyncStep::Adopt { .. } | SyncStep::Forget { .. } => {}
    }
    step
}
