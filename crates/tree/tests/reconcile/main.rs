//! Laws of `reconcile`: a table of cases, and random edits at both ends against a model.

mod model;

use std::collections::BTreeMap;

use deltic_tree::reconcile::{
    CommonEntry, ConflictNaming, Deletions, FileVersion, PathClash, SyncEnd, SyncPlan, SyncStep,
    TreeNode, Trees, conflict_name, reconcile,
};
use deltic_tree::{Name, RelPath};

const GUARDED: Deletions = Deletions::Guarded { before: [0, 0] };

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).expect("a path of a test")
}

fn naming() -> ConflictNaming {
    ConflictNaming { day: "2026-11-29".into(), here: "laptop".into(), there: "server".into() }
}

/// Returns the state of a file with this content. Tags of the two ends differ.
fn state(end: SyncEnd, content: &str) -> FileVersion {
    let tag = format!("{end:?}:{content}");
    let modified = content.bytes().map(i64::from).sum();
    FileVersion {
        tag: tag.into(),
        bytes: content.len() as u64,
        modified,
        digest: Some(content.into()),
    }
}

/// Parses a tree: `dir/` is a directory, `file=content` a file, `link@` another kind of entry.
fn tree(end: SyncEnd, words: &str) -> BTreeMap<RelPath, TreeNode> {
    let one = |word: &str| match word.split_once('=') {
        Some((name, content)) => (path(name), TreeNode::File(state(end, content))),
        None if word.ends_with('/') => (path(word.trim_end_matches('/')), TreeNode::Dir),
        None => (path(word.trim_end_matches('@')), TreeNode::Other),
    };
    words.split_whitespace().map(one).collect()
}

fn ancestor(words: &str) -> BTreeMap<RelPath, CommonEntry> {
    let [mut here, there] = SyncEnd::BOTH.map(|end| tree(end, words));
    let both = |(path, node)| match (node, here.remove(&path)) {
        (TreeNode::File(there), Some(TreeNode::File(here))) => {
            (path, CommonEntry::File { here, there })
        }
        _ => (path, CommonEntry::Dir),
    };
    there.into_iter().map(both).collect()
}

fn trees([was, here, there]: [&str; 3]) -> Trees {
    Trees {
        ancestor: ancestor(was),
        here: tree(SyncEnd::Here, here),
        there: tree(SyncEnd::There, there),
    }
}

fn word(end: SyncEnd) -> &'static str {
    match end {
        SyncEnd::Here => "here",
        SyncEnd::There => "there",
    }
}

fn told(plan: &SyncPlan) -> String {
    let step = |step: &SyncStep| match step {
        SyncStep::Aside { end, from, to } => format!("aside {} {from} -> {to}", word(*end)),
        SyncStep::Move { end, from, to } => format!("move {} {from} -> {to}", word(*end)),
        SyncStep::Delete { end, path } => format!("delete {} {path}", word(*end)),
        SyncStep::MakeDir { end, path } => format!("make {} {path}", word(*end)),
        SyncStep::Transfer { to, path } => format!("to {} {path}", word(*to)),
        SyncStep::Compare { path } => format!("compare {path}"),
        SyncStep::Adopt { path } => format!("adopt {path}"),
        SyncStep::Forget { path } => format!("forget {path}"),
    };
    let clash = |clash: &PathClash| match clash {
        PathClash::Folds { end, path, with } => format!("folds {} {path} with {with}", word(*end)),
        PathClash::Other { end, path } => format!("other {} {path}", word(*end)),
    };
    let guard = plan.guard.map(|it| format!("ask {} {} of {}", word(it.end), it.files, it.of));
    let told = plan.steps.iter().map(step).chain(plan.clashes.iter().map(clash)).chain(guard);
    told.collect::<Vec<_>>().join("; ").replace(" (conflict 2026-11-29 from ", "~").replace(')', "")
}

/// Ancestor, here, there, and the plan. `a~laptop` stands for the name of a conflict.
const CASES: &[[&str; 4]] = &[
    // Nothing changed.
    ["", "", "", ""],
    ["a=1 d/ d/b=2", "a=1 d/ d/b=2", "a=1 d/ d/b=2", ""],
    // New at one end.
    ["", "a=1", "", "to there a"],
    ["", "", "a=1", "to here a"],
    ["", "d/ d/a=1", "", "make there d; to there d/a"],
    ["", "", "d/", "make here d"],
    // New at both ends.
    ["", "a=1", "a=1", "adopt a"],
    ["", "d/", "d/", "adopt d"],
    ["", "a=1", "a=2", "aside here a -> a~laptop; to here a; to there a~laptop"],
    // Changed.
    ["a=1", "a=2", "a=1", "to there a"],
    ["a=1", "a=1", "a=2", "to here a"],
    ["a=1", "a=2", "a=2", "adopt a"],
    ["a.b=1", "a.b=2", "a.b=3", "aside here a.b -> a~laptop.b; to there a~laptop.b; to here a.b"],
    // Deleted.
    ["a=1", "", "a=1", "delete there a"],
    ["a=1", "a=1", "", "delete here a"],
    ["a=1", "", "", "forget a"],
    ["d/ d/a=1", "", "d/ d/a=1", "delete there d/a; delete there d"],
    ["d/", "", "", "forget d"],
    // A change is stronger than a deletion.
    ["a=1", "a=2", "", "to there a"],
    ["a=1", "", "a=2", "to here a"],
    ["d/ d/a=1 d/b=1", "", "d/ d/a=1 d/b=2", "delete there d/a; make here d; to here d/b"],
    ["d/ d/a=1", "d/ d/a=1 d/n=2", "", "delete here d/a; make there d; to there d/n"],
    // Another kind of entry.
    ["a=1", "a/ a/b=2", "a=1", "delete there a; make there a; to there a/b"],
    [
        "a=1",
        "a=2",
        "a/ a/b=1",
        "aside here a -> a~laptop; make here a; to there a~laptop; to here a/b",
    ],
    [
        "",
        "a/ a/b=1",
        "a=2",
        "aside there a -> a~server; make there a; to here a~server; to there a/b",
    ],
    ["a/ a/b=1", "a=2", "a/ a/b=1", "delete there a/b; delete there a; to there a"],
    ["a/", "a=1", "a=1", "forget a; adopt a"],
    ["a=1", "a/", "a/", "adopt a"],
    ["", "a/ a/b=1", "a@", "other there a"],
    ["a/ a/b=1", "a/ a/b=1", "a@", "other there a"],
    ["", "", "a@", ""],
    // Renames.
    ["a=1", "b=1", "a=1", "move there a -> b"],
    ["a=1", "a=1", "b=1", "move here a -> b"],
    ["a=1 b=1", "c=1 d=1", "a=1 b=1", "delete there b; delete there a; to there c; to there d"],
    [
        "d/ d/a=1 d/b=1",
        "e/ e/a=1 e/b=1",
        "d/ d/a=1 d/b=1",
        "move there d/a -> e/a; move there d/b -> e/b; delete there d; make there e",
    ],
    ["a=1", "b=1", "a=2", "to here a; to there b"],
    ["a=1", "A=1", "a=1", "move there a -> A"],
    // Names that some file systems take for one.
    ["", "NAME=1", "name=2", "folds here name with NAME; folds there NAME with name"],
    ["", "", "A=1 a=2", "to here A; folds here a with A"],
    ["a=1", "a=1", "a=1 A=2", "folds here A with a"],
    ["", "D/ D/x=1", "d/ d/y=1", "folds here d with D; folds there D with d"],
    // An end that lost everything.
    ["a=1 b=2 c=3", "", "a=1 b=2 c=3", "ask there 3 of 3"],
    ["a=1 b=2", "", "a=1 b=2", "delete there b; delete there a"],
];

#[test]
fn the_table_of_cases_holds() {
    let wrong = CASES.iter().filter_map(|[was, here, there, expected]| {
        let plan = told(&reconcile(&trees([was, here, there]), &naming(), GUARDED));
        (plan != *expected).then(|| format!("{was} | {here} | {there}:\n  {plan}\n  {expected}\n"))
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn without_digests_files_of_equal_length_are_compared_first() {
    let mut trees = trees(["", "a=1 b=1", "a=2 b=22"]);
    for node in trees.here.values_mut() {
        if let TreeNode::File(file) = node {
            file.digest = None;
        }
    }
    let plan = told(&reconcile(&trees, &naming(), GUARDED));
    assert!(plan.contains("compare a") && plan.contains("aside here b"), "{plan}");
}

#[test]
fn a_name_of_a_conflict_is_never_a_name_that_is_there() {
    let taken = "a (conflict 2026-11-29 from laptop).md";
    let mut trees = trees(["", "a.md=1", "a.md=2"]);
    for (nth, other) in [(2, taken.to_uppercase()), (3, taken.replace("laptop", "laptop 2"))] {
        trees.there.insert(path(&other), TreeNode::File(state(SyncEnd::There, "old")));
        let plan = reconcile(&trees, &naming(), GUARDED);
        let to = path(&format!("a (conflict 2026-11-29 from laptop {nth}).md"));
        let aside = SyncStep::Aside { end: SyncEnd::Here, from: path("a.md"), to };
        assert!(plan.steps.contains(&aside), "{plan:?}");
    }
}

#[test]
fn long_names_of_conflicts_are_cut_between_letters() {
    for stem in ["x".repeat(251), "é".repeat(125), "€".repeat(83)] {
        let name = Name::new(format!("{stem}.txt").as_bytes()).unwrap();
        let naming = ConflictNaming { here: "a/b\0c:\u{202e}".into(), ..naming() };
        let other = conflict_name(&name, &naming, SyncEnd::Here, 12);
        let text = std::str::from_utf8(other.as_bytes()).unwrap();
        assert!(text.ends_with(" (conflict 2026-11-29 from a-b-c-- 12).txt"), "{text}");
        assert!(text.len() <= 255);
    }
}

#[test]
fn consent_is_asked_for_most_of_many_files_and_then_given() {
    let words = |count: usize| (0..count).map(|nth| format!("f{nth}={nth} ")).collect::<String>();
    let cases = [(3, 0, true), (2, 0, false), (50, 24, true), (50, 25, false), (30, 10, false)];
    for (of, left, is_asked) in cases {
        let trees = trees([&words(of), &words(left), &words(of)]);
        let plan = reconcile(&trees, &naming(), GUARDED);
        assert_eq!(plan.guard.is_some(), is_asked, "{left} of {of}");
        assert_eq!(plan.steps.is_empty(), is_asked);
        let plan = reconcile(&trees, &naming(), Deletions::Confirmed);
        assert_eq!(plan.steps.len(), of - left);
    }
}

#[test]
fn many_small_plans_delete_no_more_without_consent_than_one_plan() {
    let words = |count: usize| (0..count).map(|nth| format!("f{nth}={nth} ")).collect::<String>();
    let (mut left, mut before) = (50, [0, 0]);
    let asked = loop {
        let trees = trees([&words(left), &words(left), &words(left - 1)]);
        let plan = reconcile(&trees, &naming(), Deletions::Guarded { before });
        match plan.guard {
            Some(guard) => break guard,
            None => (left, before[0]) = (left - 1, before[0] + 1),
        }
    };
    assert_eq!((asked.end, asked.files, asked.of), (SyncEnd::Here, 1, 25));
    // A plan that deletes nothing is not held up.
    let trees = trees(["a=1", "a=1", "a=2"]);
    let plan = reconcile(&trees, &naming(), Deletions::Guarded { before: [99, 99] });
    assert_eq!((plan.guard, plan.steps.len()), (None, 1));
}

#[test]
fn a_file_of_the_same_length_and_time_is_no_rename_once_its_digest_differs() {
    let mut trees = trees(["a=xy", "a=xy", "b=yx"]);
    let plan = told(&reconcile(&trees, &naming(), GUARDED));
    assert!(plan.contains("delete here a") && !plan.contains("move"), "{plan}");
    for tree in [&mut trees.here, &mut trees.there] {
        for node in tree.values_mut() {
            let TreeNode::File(file) = node else { continue };
            file.digest = None;
        }
    }
    assert_eq!(told(&reconcile(&trees, &naming(), GUARDED)), "move here a -> b");
}
