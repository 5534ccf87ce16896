//! Whole sessions between both machines, in an order that a dice picks: the laws of DESIGN §4 hold at every step.
//!
//! `DELTIC_SEED` runs one session and `DELTIC_SESSIONS` sets how many run.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Dice;
use common::case::Case;
use common::session::Session;
use common::source::SourceFaults;
use common::tree::{Node, Tree};
use deltic_core::RelPath;
use deltic_protocol::report::Totals;

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
    case.destination_faults = Default::default();
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
        let new = new.is_some_and(|new| new.iter().any(|new| *new == node.bytes));
        assert!(old || new, "{path} is neither old nor new");
    }
}

fn check_told(session: &Session, totals: &Totals) {
    let (sender, receiver) = (&session.told_by_sender, &session.told_by_receiver);
    assert_eq!(sender.settled, sender.listed, "the sender settled all");
    assert_eq!(receiver.settled, receiver.listed, "the receiver settled all");
    assert_eq!(sender.listed, receiver.listed);
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&sender.changes), sorted(&receiver.changes));
    assert_eq!(sorted(&sender.troubles), sorted(&receiver.troubles));
    assert_eq!(totals.bytes, receiver.listed);
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
