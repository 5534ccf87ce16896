//! Whole sessions between both machines, in an order that a dice picks: the laws of DESIGN §4 hold at every step.
//!
//! `DELTIC_SEED` runs one session and `DELTIC_SESSIONS` sets how many run.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Dice;
use common::case::Case;
use common::destination::DestinationFaults;
use common::session::Session;
use common::source::SourceFaults;
use common::tree::{NOW, Node, Tree, path};
use deltic_core::{Kind, RelPath};
use deltic_protocol::limits::ENTRY_WINDOW;
use deltic_protocol::options::{Delete, Options};
use deltic_protocol::report::{Action, Item, Totals};

const SESSIONS: u64 = 4000;

#[test]
fn every_session_ends_with_the_new_version_or_says_why_not() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("DELTIC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELTIC_SESSIONS").unwrap_or(SESSIONS),
    };
    for seed in seeds {
        let run = catch_unwind(AssertUnwindSafe(|| run(&Case::random(seed))));
        assert!(run.is_ok(), "failed with DELTIC_SEED={seed}");
    }
}

fn run(case: &Case) {
    let mut dice = Dice::new(case.seed ^ 0x5e55_1011);
    let mut session = Session::new(case, &mut dice);
    if let Some(steps) = case.cut {
        let mut done = 0;
        while done < steps && session.step() {
            done += 1;
        }
        session.destination.kill();
        check_nothing_is_torn(case, &session);
        return resume(case, session, &mut dice);
    }
    let totals = session.finish();
    check_nothing_is_torn(case, &session);
    check_told(&session, &totals);
    if !case.options.dry_run {
        assert_eq!(totals.literal + totals.matched, totals.transferred_bytes);
    }
    if !case.has_faults() {
        check_compared(case, &session);
    }
    if case.options.dry_run {
        assert_eq!(session.destination.tree, case.old);
    } else if !case.has_faults() {
        check_result(case, &session, &totals);
    } else if totals.failed == 0 && session.source.changes == 0 {
        check_tree(case, &session.destination.tree);
    }
}

/// What the next run makes of what a killed one left.
fn resume(case: &Case, killed: Session, dice: &mut Dice) {
    let mut case = case.clone();
    case.new = killed.source.tree;
    case.old = killed.destination.tree;
    case.leftovers = killed.destination.leftovers;
    case.source_faults = SourceFaults::default();
    case.destination_faults = DestinationFaults::default();
    let mut session = Session::new(&case, dice);
    let totals = session.finish();
    if case.options.dry_run {
        assert_eq!(session.destination.tree, case.old);
    } else {
        check_result(&case, &session, &totals);
    }
}

/// Law 6: a name shows an old or a new version, whole.
fn check_nothing_is_torn(case: &Case, session: &Session) {
    for (path, node) in session.destination.tree.0.iter().filter(|(_, node)| node.meta.is_file()) {
        let old = case.old.0.get(path).is_some_and(|old| old.bytes == node.bytes);
        let new = session.source.versions.get(path);
        let new = new.is_some_and(|new| new.contains(&node.bytes));
        assert!(old || new, "{path} is neither old nor new");
    }
}

fn check_told(session: &Session, totals: &Totals) {
    let (sender, receiver) = (&session.told_by_sender, &session.told_by_receiver);
    assert_eq!(sender.settled, sender.listed, "the sender settled all");
    assert_eq!(receiver.settled, receiver.listed, "the receiver settled all");
    assert_eq!(sender.listed, receiver.listed);
    assert_eq!(sorted(&sender.changes), sorted(&receiver.changes));
    assert_eq!(sorted(&sender.troubles), sorted(&receiver.troubles));
    assert_eq!(totals.bytes, receiver.listed);
}

fn sorted<T: std::fmt::Debug>(items: &[T]) -> Vec<String> {
    let mut lines: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
    lines.sort();
    lines
}

/// What was compared and found equal is not said to change, in a dry run or not.
fn check_compared(case: &Case, session: &Session) {
    if !case.options.checksum {
        return;
    }
    for change in &session.told_by_receiver.changes {
        let same = |tree: &Tree| tree.0.get(&change.path).map(|node| node.bytes.clone());
        if change.item == Item::File && change.action == Action::Updated {
            assert_ne!(same(&case.new), same(&case.old), "{}", change.path);
        }
    }
}

fn check_result(case: &Case, session: &Session, totals: &Totals) {
    let (_, deleted, failed) = case.expected();
    check_tree(case, &session.destination.tree);
    assert_eq!(totals.failed, failed, "{:?}", session.told_by_receiver.troubles);
    assert_eq!(totals.deleted, deleted);
    assert_eq!(totals.literal + totals.matched, totals.transferred_bytes);
    let listed = case.listed();
    let count = |what: fn(&Node) -> bool| listed.values().filter(|node| what(node)).count() as u64;
    assert_eq!(totals.files, count(|node| node.meta.is_file()));
    assert_eq!(totals.dirs, count(|node| node.meta.is_dir()));
    assert_eq!(totals.links, listed.len() as u64 - totals.files - totals.dirs);
    assert_eq!(totals.bytes, listed.values().map(|node| node.meta.len).sum::<u64>());
}

fn check_tree(case: &Case, tree: &Tree) {
    let (expected, ..) = case.expected();
    let names = |tree: &Tree| tree.0.keys().cloned().collect::<Vec<RelPath>>();
    assert_eq!(names(tree), names(&expected));
    let listed = case.listed();
    for (path, node) in &tree.0 {
        let wanted = &expected.0[path];
        assert_eq!(node.meta.kind, wanted.meta.kind, "{path}");
        assert!(node.bytes == wanted.bytes, "{path}: content");
        let Some(new) = listed.get(path).filter(|new| new.meta.kind == node.meta.kind) else {
            continue;
        };
        if case.options.times {
            assert_eq!(node.meta.modified, new.meta.modified, "{path}");
        }
        if case.options.modes && !matches!(new.meta.kind, deltic_core::Kind::Symlink(_)) {
            assert_eq!(node.meta.mode, new.meta.mode, "{path}");
        }
    }
}

/// A case of one kind, with all else as plain as it gets.
fn plain(new: Tree, old: Tree) -> Case {
    let mut case = Case::random(0);
    (case.new, case.old) = (new, old);
    (case.roots, case.cut) = (None, None);
    case.leftovers.clear();
    case.source_faults = SourceFaults::default();
    case.destination_faults = DestinationFaults::default();
    case.options = Options { recursive: true, times: true, ..Options::default() };
    case
}

fn tree_of(files: &[(&str, Vec<u8>)]) -> Tree {
    let file =
        |(name, bytes): &(&str, Vec<u8>)| (path(name), Node::file(bytes.clone(), NOW, 0o644));
    Tree(files.iter().map(file).collect())
}

#[test]
fn a_tree_larger_than_every_window_comes_through() {
    let mut new = Tree::default();
    for dir in 0..12 {
        new.0.insert(path(&format!("{dir}")), Node::other(Kind::Dir, NOW, 0o755));
        for file in 0..2000 {
            new.0.insert(path(&format!("{dir}/{file}")), Node::file(vec![], NOW, 0o644));
        }
    }
    assert!(new.0.len() as u64 > ENTRY_WINDOW);
    let case = plain(new, Tree::default());
    let mut session = Session::new(&case, &mut Dice::new(1));
    let totals = session.finish();
    check_result(&case, &session, &totals);
}

#[test]
fn a_killed_run_is_resumed_and_not_repeated() {
    let new = tree_of(&[("a", Dice::new(5).bytes(3_000_000))]);
    // A few old bytes make it a recipe, whose literals go straight to their places.
    let mut case = plain(new, tree_of(&[("a", vec![1; 10])]));
    let mut killed = Session::new(&case, &mut Dice::new(6));
    while killed.destination.written < 2_000_000 {
        assert!(killed.step());
    }
    let written = killed.destination.written;
    killed.destination.kill();
    case.leftovers = killed.destination.leftovers;
    let mut session = Session::new(&case, &mut Dice::new(7));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    let again = totals.literal - (3_000_000 - written);
    assert!(again < 300_000, "{again} bytes were sent again");
}

/// Equal groups are found where they are, not where the first of them is.
#[test]
fn unchanged_files_of_repeated_content_are_recognised() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let period = dice.between(1, 60_000);
        let period = dice.bytes(period);
        let bytes: Vec<u8> = period.iter().copied().cycle().take(400_000).collect();
        let tree = tree_of(&[("a", bytes)]);
        let mut case = plain(tree.clone(), tree);
        case.options.checksum = true;
        let mut session = Session::new(&case, &mut dice);
        let totals = session.finish();
        assert_eq!(totals.transferred, 0, "{seed}");
        assert_eq!(session.destination.commits, 0);
    }
}

#[test]
fn a_move_costs_no_literals() {
    let bytes = Dice::new(8).bytes(600_000);
    let moved = [&bytes[300_000..], &bytes[..300_000]].concat();
    let case = plain(tree_of(&[("a", moved)]), tree_of(&[("a", bytes)]));
    let mut case = case;
    case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
    let mut session = Session::new(&case, &mut Dice::new(9));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert!(totals.literal < 20_000, "{}", totals.literal);
}

#[test]
fn nothing_is_deleted_after_a_failure() {
    let faults = [
        SourceFaults { open: 100, ..SourceFaults::default() },
        SourceFaults { list: 100, ..SourceFaults::default() },
    ];
    for source_faults in faults {
        let new = tree_of(&[("a", vec![1; 5000])]);
        let old = tree_of(&[("b", vec![2; 5000]), ("c", vec![3; 5])]);
        let mut case = plain(new, old.clone());
        case.options.delete = Delete::AtMost(100);
        case.source_faults = source_faults;
        let mut session = Session::new(&case, &mut Dice::new(10));
        let totals = session.finish();
        assert_eq!(session.destination.tree, old);
        assert!(totals.failed > 0);
        assert_eq!(totals.deleted, 0);
    }
}

#[test]
fn a_full_directory_in_the_way_counts_as_its_names() {
    let files: Vec<_> = (0..1500).map(|no| format!("d/{no}")).collect();
    let mut old: Vec<_> = files.iter().map(|name| (name.as_str(), vec![1; 3])).collect();
    old.sort();
    let mut old = tree_of(&old);
    old.0.insert(path("d"), Node::other(deltic_core::Kind::Dir, NOW, 0o755));
    for (delete, goes) in [
        (Delete::Never, false),
        (Delete::Guarded, false),
        (Delete::AtMost(1500), false),
        (Delete::AtMost(1501), true),
    ] {
        let mut case = plain(tree_of(&[("d", vec![2; 10])]), old.clone());
        case.options.delete = delete;
        let mut session = Session::new(&case, &mut Dice::new(11));
        let totals = session.finish();
        assert_eq!(session.destination.tree.is_dir(&path("d")), !goes, "{delete:?}");
        assert_eq!(totals.deleted, if goes { 1501 } else { 0 }, "{delete:?}");
        assert_eq!(totals.failed, u64::from(!goes), "{delete:?}");
    }
}
