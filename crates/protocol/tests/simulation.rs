//! Whole sessions between both machines, in an order that a dice picks: docs/laws.md holds at every step.
//!
//! `DELTIC_SEED` runs one session and `DELTIC_SESSIONS` sets how many run.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Dice;
use common::case::Case;
use common::destination::{By, DestinationFaults};
use common::session::Session;
use common::source::SourceFaults;
use common::tree::{NOW, Node, Tree, name, path};
use deltic_core::strategy::{Delivery, Proving};
use deltic_core::{AtEnd, BlockSumSpec, Crc32c, Strategy, StrongKind, SumKind};
use deltic_protocol::limits::{ENTRY_WINDOW, Limits, MIN_FRAME_BYTES};
use deltic_protocol::options::{Delete, Guard, Options, Window};
use deltic_protocol::report::{Action, EntryType, Totals};
use deltic_tree::meta::{HardLink, Inode};
use deltic_tree::{Kind, RelPath, Timestamp};

const SESSIONS: u64 = 4000;

#[test]
fn every_session_ends_with_the_new_version_or_says_why_not() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("DELTIC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELTIC_SESSIONS").unwrap_or(SESSIONS),
    };
    for seed in seeds {
        let run = catch_unwind(AssertUnwindSafe(|| drop(run(&Case::random(seed)))));
        assert!(run.is_ok(), "failed with DELTIC_SEED={seed}");
    }
}

/// What the destination holds in the end.
fn run(case: &Case) -> Tree {
    let mut dice = Dice::new(case.seed ^ 0x5e55_1011);
    let mut session = Session::new(case, &mut dice);
    if let Some(steps) = case.cut {
        let mut done = 0;
        while done < steps && session.step() {
            done += 1;
        }
        session.destination.kill();
        if dice.percent(30) {
            session.destination.reboot();
        }
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
    session.destination.tree
}

/// Gives some files of a tree other names, which an older one may have as well.
fn give_names(case: &mut Case, dice: &mut Dice) {
    let mut dirs: Vec<RelPath> = vec![RelPath::root()];
    dirs.extend(case.new.0.iter().filter(|(_, n)| n.meta.is_dir()).map(|(path, _)| path.clone()));
    let nodes: Vec<_> = case.new.0.keys().cloned().collect();
    for (number, path) in nodes.iter().enumerate() {
        if case.new.0[path].meta.is_dir() || dice.percent(50) {
            continue;
        }
        let names = dice.between(1, 4);
        let inode = Inode { device: 1, number: number as u64 };
        let linked = Some(HardLink::Inode(inode, names as u32 + 1));
        case.new.0.get_mut(path).unwrap().meta.set_hard_link(linked);
        let node = case.new.0[path].clone();
        for _ in 0..names {
            let other = dice.pick(&dirs).join(&name(&format!("n{}", dice.below(9)))).unwrap();
            if case.new.0.contains_key(&other) {
                continue;
            }
            case.new.0.insert(other.clone(), node.clone());
            let (parent, _) = other.split_last().unwrap();
            match dice.below(4) {
                _ if !case.old.is_dir(&parent) => {}
                0 => drop(case.old.0.insert(other, node.clone())),
                1 => {
                    let mut bytes = node.bytes.to_vec();
                    bytes.push(7);
                    let time = Timestamp { secs: 77, nanos: 0 };
                    case.old.0.insert(other, Node::file(bytes, time, 0o600));
                }
                2 => drop(case.old.0.insert(other, Node::other(Kind::Dir, NOW, 0o755))),
                _ => {}
            }
        }
        // The older tree has the file itself, or one of its own that looks like it.
        if let Some(old) = case.old.0.get_mut(path).filter(|old| old.bytes == node.bytes)
            && dice.percent(50)
            && old.meta.kind == node.meta.kind
        {
            old.meta.clone_from(&node.meta);
        }
    }
}

/// Each file of several names is one at the destination, as far as its names are there.
fn check_linked(case: &Case, tree: &Tree) {
    let listed = case.listed();
    let mut seen: BTreeMap<Inode, Option<HardLink>> = BTreeMap::new();
    for (path, node) in &listed {
        let Some(HardLink::Inode(inode, _)) = node.meta.hard_link() else { continue };
        let Some(here) = tree.0.get(*path).filter(|here| here.meta.kind == node.meta.kind) else {
            continue;
        };
        let here = here.meta.hard_link();
        match seen.entry(inode) {
            Entry::Vacant(entry) => drop(entry.insert(here)),
            Entry::Occupied(entry) => {
                assert!(here.is_some(), "{path} is a file of its own");
                assert_eq!(*entry.get(), here, "{path}");
            }
        }
    }
}

#[test]
fn names_of_one_file_end_as_names_of_one_file() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed ^ 0x11_77);
        let mut case = Case::random(seed);
        (case.cut, case.source_faults.change) = (None, 0);
        case.options.metadata.hard_links = true;
        if matches!(case.options.delete, Delete::AtMost(_)) {
            case.options.delete = Delete::Never;
        }
        give_names(&mut case, &mut dice);
        let run = catch_unwind(AssertUnwindSafe(|| {
            let tree = run(&case);
            if !case.has_faults() && !case.options.dry_run {
                check_linked(&case, &tree);
            }
        }));
        assert!(run.is_ok(), "failed with seed {seed}");
    }
}

/// Whether directories go by their tallies or not, all comes out the same, in all that is said of it.
#[test]
fn tallies_change_nothing_but_what_is_listed() {
    let alike: u64 = (0..1500).map(|seed| compare_tallied(seed, |_| {})).sum();
    assert!(alike > 1000, "only {alike} directories were alike");
}

#[test]
fn tallies_change_nothing_with_sizes_alone() {
    (0..300).for_each(|seed| {
        compare_tallied(seed, |case| case.options.compare.size_only = true);
    });
}

#[test]
fn tallies_change_nothing_with_a_window_but_times_within() {
    (0..300).for_each(|seed| {
        compare_tallied(seed, |case| case.options.compare.window = Window::Secs(1));
    });
}

/// Returns the number of directories that were alike.
fn compare_tallied(seed: u64, change: impl Fn(&mut Case)) -> u64 {
    let mut alike = 0;
    let mut case = Case::random(seed);
    (case.source_faults, case.destination_faults, case.cut) = Default::default();
    case.options.times |= !seed.is_multiple_of(3);
    case.options.recursive = true;
    if !seed.is_multiple_of(4) {
        nest(&mut case);
    }
    change(&mut case);
    let mut run = |eager| {
        case.eager = eager;
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        check_told(&session, &totals);
        alike += session.destination.alike;
        let told = session.told_by_receiver;
        let said = (sorted(&told.changes), sorted(&told.troubles), told.listed);
        (session.destination.tree, totals, said)
    };
    // Bytes that are sent depend on what is found first.
    let counted = |totals: Totals| Totals { literal: 0, matched: 0, ..totals };
    let changes = |changes: Vec<String>| {
        let text = |line: String| line.split("literal").next().unwrap_or_default().to_owned();
        changes.into_iter().map(text).collect::<Vec<_>>()
    };
    let ((plain, plain_totals, plain_said), (tallied, totals, said)) = (run(false), run(true));
    for (path, node) in &plain.0 {
        let mut node = node.clone();
        // Of a listed directory, a time within the window becomes that of the source.
        if let Some(other) = tallied.0.get(path).map(|other| other.meta.modified)
            && node.meta.is_dir()
            && case.options.compare.window == Window::Secs(1)
            && node.meta.modified.secs.abs_diff(other.secs) <= 1
        {
            node.meta.modified = other;
        }
        assert!(tallied.0.get(path) == Some(&node), "seed {seed}: {path} differs");
    }
    assert_eq!(plain.0.len(), tallied.0.len(), "seed {seed}");
    assert_eq!(counted(plain_totals), counted(totals), "seed {seed}");
    assert_eq!(changes(plain_said.0), changes(said.0), "seed {seed}");
    assert_eq!((plain_said.1, plain_said.2), (said.1, said.2), "seed {seed}");
    alike
}

/// Puts copies of the tree into directories of it, so that many are alike at some depth.
fn nest(case: &mut Case) {
    let dir = Node::other(Kind::Dir, Timestamp { secs: 1, nanos: 0 }, 0o755);
    for tree in [&mut case.new, &mut case.old] {
        let inner = tree.clone();
        for top in ["x", "x/y", "x/y/z"] {
            tree.0.retain(|at, _| !at.starts_with(&path(top)));
            tree.0.insert(path(top), dir.clone());
        }
        for (at, node) in inner.0 {
            let text = |top: &str| [top.as_bytes(), b"/", at.as_bytes()].concat();
            for top in ["x", "x/y/z"].map(text) {
                tree.0.entry(RelPath::parse(&top).unwrap()).or_insert_with(|| node.clone());
            }
        }
    }
    // What is alike need not be all that there is.
    if case.seed.is_multiple_of(2) {
        let below = path("x/y/z");
        let inner = case.new.0.iter().filter(|(at, _)| at.starts_with(&below));
        let inner: Vec<_> = inner.map(|(at, node)| (at.clone(), node.clone())).collect();
        case.old.0.retain(|at, _| !at.starts_with(&below));
        case.old.0.extend(inner);
    }
}

/// On a slow stream they may come after the beginning of the next attempt, where they would be unasked.
#[test]
fn literals_of_an_attempt_that_is_over_may_come_late() {
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut case = Case::random(seed);
        let old = dice.bytes(1_600_000);
        let mut new = old.clone();
        for at in [30_000, 430_000, 830_000, 1_230_000] {
            let fresh = dice.bytes(330_000);
            new[at..at + fresh.len()].copy_from_slice(&fresh);
        }
        (case.new, case.old) = (Tree::default(), Tree::default());
        case.new.0.insert(path("a"), Node::file(new, NOW, 0o644));
        case.old.0.insert(path("a"), Node::file(old, Timestamp { secs: 1, nanos: 0 }, 0o644));
        case.options = Options { recursive: true, times: true, ..Options::default() };
        (case.roots, case.cut, case.limits) = (None, None, Limits::default());
        case.leftovers.clear();
        case.source_faults = SourceFaults::default();
        case.destination_faults = DestinationFaults { write: 20, ..DestinationFaults::default() };
        run(&case);
    }
}

/// A window of one byte is one frame at a time, by every way that literals travel.
#[test]
fn literals_wait_for_credit() {
    let mut credits = 0;
    for seed in 0..400 {
        let mut case = Case::random(seed);
        case.cut = None;
        case.limits.credit = Some(if seed % 2 == 0 { 1 } else { 64 << 10 });
        let mut session = Session::new(&case, &mut Dice::new(seed));
        session.finish();
        credits += session.credits;
    }
    assert!(credits > 400, "only {credits} frames gave credit");
}

/// Frames keep to the limit, whatever is told in them: `Session` checks each.
#[test]
fn no_frame_is_longer_than_both_ends_agreed() {
    let bytes = Dice::new(31).bytes(3_000_000);
    let mut old = bytes.clone();
    (0..30).for_each(|n| old[50_000 + n * 90_000] ^= 1);
    old.drain(1_000_000..1_100_000);
    let fresh = Dice::new(32).bytes(700_000);
    let mut new = tree_of(&[("edited", bytes), ("fresh", fresh)]);
    new.0.get_mut(&path("edited")).unwrap().meta.modified.nanos = 8;
    let name = "n".repeat(60);
    (0..2000).for_each(|no| {
        new.0.insert(path(&format!("{name}{no}")), Node::file(vec![], NOW, 0o644));
    });
    for strategy in Strategy::ALL {
        for (no, frame_bytes) in [MIN_FRAME_BYTES, 100_000, 256 << 10].into_iter().enumerate() {
            for (block_bytes, whole_file) in [(None, false), (Some(128 << 10), false), (None, true)]
            {
                let mut case = plain(new.clone(), tree_of(&[("edited", old.clone())]));
                (case.options.strategy, case.options.block_bytes) = (strategy, block_bytes);
                (case.options.whole_file, case.limits.frame_bytes) = (whole_file, frame_bytes);
                (case.far_away, case.takes_offers) = (true, true);
                let mut session = Session::new(&case, &mut Dice::new(no as u64));
                let totals = session.finish();
                check_result(&case, &session, &totals);
                let (name, longest) = (strategy.name, session.longest);
                assert!(longest > MIN_FRAME_BYTES / 2, "{name}: {longest} of {frame_bytes}");
                let is_found = totals.matched > 1_000_000 || whole_file || block_bytes.is_some();
                assert!(is_found, "{name}: {totals:?}");
            }
        }
    }
}

/// A single file is offered before the sender knows how long its chunks may be: such an offer is void for both.
#[test]
fn an_offer_of_chunks_that_no_frame_may_hold_is_void() {
    let bytes = Dice::new(33).bytes(3_000_000);
    let mut old = bytes.clone();
    old[1_500_000] ^= 1;
    let mut new = tree_of(&[("a", bytes)]);
    new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
    for (frame_bytes, block_bytes) in [(MIN_FRAME_BYTES, 128 << 10), (1 << 20, 128 << 10)] {
        for seed in 0..40 {
            let mut case = plain(new.clone(), tree_of(&[("a", old.clone())]));
            case.options.block_bytes = Some(block_bytes);
            (case.far_away, case.takes_offers) = (true, true);
            case.limits.frame_bytes = frame_bytes;
            let mut session = Session::new(&case, &mut Dice::new(seed));
            let totals = session.finish();
            check_result(&case, &session, &totals);
        }
    }
}

/// What the next run makes of what a killed one left.
fn resume(case: &Case, killed: Session, dice: &mut Dice) -> Tree {
    let mut case = case.clone();
    case.new = killed.source.tree;
    case.old = killed.destination.tree;
    case.leftovers = killed.destination.leftovers;
    case.interrupted = killed.destination.interrupted;
    case.source_faults = SourceFaults::default();
    case.destination_faults = DestinationFaults::default();
    let mut session = Session::new(&case, dice);
    let totals = session.finish();
    if case.options.dry_run {
        assert_eq!(session.destination.tree, case.old);
    } else {
        check_result(&case, &session, &totals);
    }
    session.destination.tree
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
    assert!(totals.bytes >= receiver.listed, "links count too");
    let told = |path| sender.reasons.contains(path);
    assert!(receiver.reasons.iter().all(told), "only what the sender told");
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
        // A name of its own may become another one of a file that is the same.
        let is_linked = change.facts.linked.is_some();
        if change.item == EntryType::File && change.action == Action::Updated && !is_linked {
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
    // The root counts where it is part of the transfer, though it is no entry.
    let root = u64::from(case.roots.is_none() && case.options.recursive);
    assert_eq!(totals.dirs - root, count(|node| node.meta.is_dir()));
    assert_eq!(totals.links, listed.len() as u64 + root - totals.files - totals.dirs);
    let len = |node: &Node| match &node.meta.kind {
        Kind::Symlink(target) => target.len() as u64,
        _ => node.meta.len,
    };
    assert_eq!(totals.bytes, listed.values().map(|node| len(node)).sum::<u64>());
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
        if case.options.modes && !matches!(new.meta.kind, deltic_tree::Kind::Symlink(_)) {
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
    case.interrupted.clear();
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
fn a_killed_run_of_which_no_journal_is_left_is_resumed_and_not_repeated() {
    let new = tree_of(&[("a", Dice::new(5).bytes(3_000_000))]);
    // A few old bytes make it a recipe, whose literals go straight to their places.
    let mut case = plain(new, tree_of(&[("a", vec![1; 10])]));
    let mut killed = Session::new(&case, &mut Dice::new(6));
    while killed.destination.written < 2_000_000 {
        assert!(killed.step());
    }
    let written = killed.destination.written;
    killed.destination.kill();
    killed.destination.reboot();
    case.leftovers = killed.destination.leftovers;
    let mut session = Session::new(&case, &mut Dice::new(7));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    let again = totals.literal - (3_000_000 - written);
    assert!(again < 300_000, "{again} bytes were sent again");
    assert!(totals.resumed > written - 300_000, "{totals:?}");
    assert!(totals.resumed <= totals.matched, "{totals:?}");
}

/// A session of `case`, killed once `most` literal bytes are written.
fn killed_after(case: &Case, most: u64, dice: &mut Dice) -> Session {
    let mut session = Session::new(case, dice);
    while session.destination.written < most {
        assert!(session.step());
    }
    session.destination.kill();
    session
}

/// However often it is killed: what was written is neither sent nor read again, and the result is right.
#[test]
fn what_is_known_to_be_written_is_neither_sent_nor_read_again() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let len = dice.between(300_000, 3_000_000);
        let new = dice.bytes(len);
        // Whole; by recipe; with much that is copied.
        let old = [Vec::new(), vec![1; 10], new[len / 3..].to_vec()];
        let old = &old[seed as usize % 3];
        let files: &[(&str, Vec<u8>)] = &[("a", old.clone())];
        let mut case = plain(
            tree_of(&[("a", new)]),
            if old.is_empty() { Tree::default() } else { tree_of(files) },
        );
        let (mut written, mut kills) = (0, 0);
        for _ in 0..dice.between(1, 3) {
            let more = dice.below(len / 4) as u64;
            let mut session = Session::new(&case, &mut dice);
            while session.destination.written < more && session.step() {}
            if session.receiver.is_finished() {
                break;
            }
            session.destination.kill();
            kills += 1;
            written += session.destination.written;
            case.interrupted = session.destination.interrupted;
            case.leftovers = session.destination.leftovers;
            assert!(case.leftovers.is_empty(), "{seed}: it goes on in the same file");
        }
        let interrupted = !case.interrupted.is_empty();
        let mut session = Session::new(&case, &mut dice);
        let totals = session.finish();
        check_result(&case, &session, &totals);
        assert_eq!(session.destination.resumed, usize::from(interrupted), "{seed}");
        let most = if old.len() > 10 { 2 * len / 5 } else { len } as u64;
        // Gaps that were mended count what was copied as written.
        assert!(totals.literal <= most + 100_000 - written.min(most), "{seed} after {kills} kills");
        if old.len() <= 10 {
            assert_eq!(totals.literal + written, len as u64, "{seed}: each byte travels once");
        }
    }
}

#[test]
fn a_transfer_that_lacks_nothing_reads_nothing_of_old() {
    let new = Dice::new(5).bytes(700_000);
    let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", vec![1; 400_000])]));
    let killed = killed_after(&case, 700_000, &mut Dice::new(6));
    case.interrupted = killed.destination.interrupted;
    // Whoever reads old fails.
    case.destination_faults.index = 100;
    let mut session = Session::new(&case, &mut Dice::new(7));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert_eq!((totals.literal, totals.matched), (0, 700_000));
}

/// What an earlier session knows of old serves this one: it is copied from, and not read to be cut, but for what a
/// killed run left besides.
#[test]
fn a_version_whose_recipe_is_known_is_not_read() {
    let old = Dice::new(8).bytes(700_000);
    let new = [&old[..300_000], b"something else", &old[300_000..]].concat();
    let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", old)]));
    // Whoever cuts it fails, and so does who asks for it.
    case.destination_faults = DestinationFaults { known: 100, index: 100, ..Default::default() };
    let mut session = Session::new(&case, &mut Dice::new(9));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert!(totals.literal < 20_000, "{}", totals.literal);
}

/// Only changes since a base are read and sent: nothing of old is read, nothing of new is cut.
#[test]
fn only_changes_since_a_known_base_are_read() {
    let old = Dice::new(8).bytes(700_000);
    let cases = [(700_000, false), (700_000, true), (650_001, false), (710_000, false)];
    for (len, is_same) in cases {
        let mut new = old.clone();
        new.resize(len, 3);
        if !is_same {
            new[300_000..300_005].fill(7);
        }
        let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", old.clone())]));
        case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
        // Whoever cuts it fails, and so does who asks for it.
        let faults = DestinationFaults { based: 100, index: 100, ..Default::default() };
        case.destination_faults = faults;
        case.source_faults.scan = 100;
        case.options.compare.cached = true;
        let mut session = Session::new(&case, &mut Dice::new(9));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        assert!(totals.literal <= if is_same { 0 } else { 150_000 }, "{}", totals.literal);
        assert_eq!(session.source.scanned, 0);
        assert_eq!(session.source.read, totals.literal);
    }
}

/// Blocks that came in, went away, changed places and are written over: what the base has elsewhere is not read, and
/// does not come.
#[test]
fn blocks_that_a_known_base_has_elsewhere_are_not_read() {
    let mut told = 0;
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let blocks = |dice: &mut Dice, most| dice.between(1, most) * 4096;
        let (len, odd) = (blocks(&mut dice, 200), dice.between(0, 4095));
        let old = dice.bytes(len + odd);
        let (mut new, mut fresh) = (Vec::new(), 0);
        for _ in 0..dice.between(1, 6) {
            let from = dice.between(0, len / 4096) * 4096;
            let end = (from + blocks(&mut dice, 80)).min(old.len());
            new.extend_from_slice(&old[from..end]);
            new.truncate(new.len() / 4096 * 4096);
            let more = if dice.percent(50) { blocks(&mut dice, 3) } else { 0 };
            new.extend(dice.bytes(more));
            fresh += more;
            if dice.percent(30) && !new.is_empty() {
                let at = dice.between(0, new.len() - 1);
                new[at] ^= 1;
                fresh += 4096;
            }
        }
        let tail = dice.between(0, 4095);
        new.extend(dice.bytes(tail));
        if new.len() <= 4096 {
            // It comes whole.
            continue;
        }
        let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", old)]));
        case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
        case.destination_faults =
            DestinationFaults { based: 100, index: 100, ..Default::default() };
        case.source_faults.scan = 100;
        case.options.compare.cached = true;
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        assert_eq!(session.source.read, totals.literal, "seed {seed}");
        told += usize::from(session.source.moved > 0);
        // Steps in which it is compared are no blocks: a run loses up to one at each end.
        let most = fresh as u64 + 4096 + 14 * 3 * 4096;
        assert!(session.source.moved == 0 || totals.literal <= most, "seed {seed}: {totals:?}");
    }
    assert!(told > 100, "{told}");
}

/// With checksums a file that differs is no base, whatever is known of it: its bytes may have rotted.
#[test]
fn contents_that_differ_come_though_nothing_changed_since_the_base() {
    let (new, mut old) = (Dice::new(8).bytes(300_000), Dice::new(8).bytes(300_000));
    old[100_000] ^= 1;
    let mut case = plain(tree_of(&[("a", new.clone())]), tree_of(&[("a", old.clone())]));
    case.destination_faults = DestinationFaults { based: 100, ..Default::default() };
    (case.options.compare.cached, case.options.checksum) = (true, true);
    let mut session = Session::new(&case, &mut Dice::new(9));
    let believed = session.source.bases.values_mut();
    believed.for_each(|bytes| *bytes = std::sync::Arc::new(new.clone()));
    let totals = session.finish();
    check_result(&case, &session, &totals);
}

/// Nor is a recipe that was kept of it.
#[test]
fn contents_that_differ_come_though_a_recipe_of_the_same_was_kept() {
    let (new, mut old) = (Dice::new(8).bytes(300_000), Dice::new(8).bytes(300_000));
    old[100_000] ^= 1;
    let mut case = plain(tree_of(&[("a", new.clone())]), tree_of(&[("a", old)]));
    case.destination_faults = DestinationFaults { known: 100, ..Default::default() };
    (case.options.compare.cached, case.options.checksum) = (true, true);
    let mut session = Session::new(&case, &mut Dice::new(9));
    session.destination.believed.insert(path("a"), std::sync::Arc::new(new));
    let totals = session.finish();
    check_result(&case, &session, &totals);
}

/// A base that the sender does not know is of no use, and does no harm.
#[test]
fn an_unknown_base_ends_in_the_ordinary_way() {
    let old = Dice::new(8).bytes(300_000);
    let new = [&old[..100_000], b"something else", &old[100_000..]].concat();
    let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", old)]));
    case.destination_faults = DestinationFaults { based: 100, ..Default::default() };
    case.options.compare.cached = true;
    let mut session = Session::new(&case, &mut Dice::new(9));
    session.source.bases.clear();
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert!(totals.literal < 20_000, "{}", totals.literal);
}

/// Another time: it is another version, which is matched against what was left. The same time and other bytes, as where
/// a time was set back: what is in place and wrong is written over.
#[test]
fn a_source_that_changed_meanwhile_comes_through() {
    for (seed, time_tells) in [(1, true), (2, false), (3, true), (4, false)] {
        let mut dice = Dice::new(seed);
        let new = dice.bytes(2_000_000);
        let old = if seed < 3 { Tree::default() } else { tree_of(&[("a", vec![1; 10])]) };
        let mut case = plain(tree_of(&[("a", new.clone())]), old);
        let killed = killed_after(&case, 1_500_000, &mut dice);
        case.interrupted = killed.destination.interrupted;
        let mut changed = new;
        for at in [0, 500_000, 1_999_000] {
            changed[at..at + 1000].fill(7);
        }
        let node = case.new.0.get_mut(&path("a")).unwrap();
        node.bytes = std::sync::Arc::new(changed);
        node.meta.modified.nanos += u32::from(time_tells);
        // Killed a second time, in the midst of writing over.
        let again = killed_after(&case, 100_000, &mut dice);
        assert_eq!(again.destination.resumed, usize::from(!time_tells));
        case.interrupted = again.destination.interrupted;
        case.leftovers = again.destination.leftovers;
        let mut session = Session::new(&case, &mut dice);
        let totals = session.finish();
        check_result(&case, &session, &totals);
        assert!(totals.literal < 1_300_000, "{seed}: {}", totals.literal);
    }
}

/// A journal that claims what is not so cannot make the session hang, nor get past the digest.
#[test]
fn a_journal_of_other_bytes_ends_in_a_file_that_is_right() {
    let new = Dice::new(5).bytes(900_000);
    let mut case = plain(tree_of(&[("a", new)]), Tree::default());
    let killed = killed_after(&case, 600_000, &mut Dice::new(6));
    case.interrupted = killed.destination.interrupted;
    let stage = case.interrupted.get_mut(&path("a")).unwrap();
    let other = deltic_core::recipe::Chunk::of(b"of another file");
    for (n, kept) in stage.kept.iter_mut().enumerate() {
        match n % 3 {
            0 => kept.chunk.fingerprint = other.fingerprint,
            1 => kept.start += 1,
            _ => kept.chunk.len *= 2,
        }
    }
    let mut session = Session::new(&case, &mut Dice::new(7));
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert_eq!(totals.literal, 900_000);
}

/// Law 5, and 9: what weak sums suggest and strong ones refute comes otherwise, and once.
#[test]
fn refuted_matches_are_asked_about_again_or_sent() {
    for strategy in Strategy::ALL {
        let bytes = Dice::new(13).bytes(3_000_000);
        let mut old = bytes.clone();
        old[1_500_000] ^= 1;
        let mut case = plain(tree_of(&[("a", bytes)]), tree_of(&[("a", old)]));
        case.options.strategy = strategy;
        case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
        let literals = [0, 100].map(|deceive| {
            case.destination_faults.deceive = deceive;
            let mut session = Session::new(&case, &mut Dice::new(14));
            let totals = session.finish();
            check_result(&case, &session, &totals);
            let counts = (session.sender.counts(), session.receiver.counts());
            assert!(counts.0.strong + counts.1.strong > 0, "{}: {counts:?}", strategy.name);
            assert!(counts.0.weak + counts.1.weak > 0, "{}: {counts:?}", strategy.name);
            totals.literal
        });
        assert!(literals[0] < 50_000, "{}: {literals:?}", strategy.name);
    }
}

/// ParaSync §3.2: of the old chunks with the weak sum of a new chunk each is proposed, and the sender finds its own strong
/// sum in the sub-table of the batch. An end of an earlier version proposes the first one only.
#[test]
fn a_chunk_is_found_behind_another_with_its_weak_sum() {
    for name in ["parasync", "pdsync"] {
        let strategy = Strategy::by_name(name).unwrap();
        let first = Dice::new(31).bytes(1_000_000);
        let chunks =
            deltic_core::scan(&strategy.chunker(0, None).build(), &first, AtEnd::Yes).chunks;
        let start: u32 = chunks[..50].iter().map(|chunk| chunk.len).sum();
        let mut second = first.clone();
        change_without_crc32c(&mut second[start as usize + 100..]);
        let chunk = start as usize..(start + chunks[50].len) as usize;
        assert_eq!(Crc32c::of(&first[chunk.clone()]), Crc32c::of(&second[chunk.clone()]));
        // In its own place is the chunk with other bytes.
        let old = [&first[..], &second].concat();
        for (seed, literal, finds) in
            [(0, 0, chunks.len()), (1, chunks[50].len as usize, chunks.len() - 1)]
        {
            let mut case = plain(tree_of(&[("a", second.clone())]), tree_of(&[("a", old.clone())]));
            (case.options.strategy, case.seed) = (strategy, seed);
            let mut session = Session::new(&case, &mut Dice::new(32));
            let totals = session.finish();
            check_result(&case, &session, &totals);
            assert_eq!(totals.literal, literal as u64, "{name} {seed}");
            assert_eq!(session.sender.counts().sub_table_hits, finds as u64, "{name} {seed}");
        }
    }
}

/// dsync and NetSync have rsync's table: a look-up walks the old chunks with the tag of the new chunk.
#[test]
fn dsync_and_netsync_walk_the_chunks_with_a_tag() {
    for (name, walks) in [
        ("dsync", true),
        ("netsync", true),
        ("netsync-16", true),
        ("netsync-last", true),
        ("parasync", false),
        ("skysync-c", false),
    ] {
        let case = edited_in_many_places(Strategy::by_name(name).unwrap());
        let mut session = Session::new(&case, &mut Dice::new(34));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let counts = session.receiver.counts();
        assert_eq!(counts.tagged > 0, walks, "{name}: {counts:?}");
    }
}

/// A benchmark may leave out the proof of whole files. Then the driver hashes no file.
#[test]
fn a_file_may_come_without_a_proof_in_a_benchmark() {
    for strategy in Strategy::ALL {
        let mut case = edited_in_many_places(Strategy { proving: Proving::Never, ..strategy });
        case.options.threads = 2;
        let mut session = Session::new(&case, &mut Dice::new(35));
        let totals = session.finish();
        check_result(&case, &session, &totals);
    }
}

/// SS-CDC: both ends judge by gathers wherever the processor has them, except in the last part of each segment.
#[test]
fn pdsync_gathers_where_the_processor_can() {
    let has_gathers = deltic_core::Isa::best().name().starts_with("avx");
    for (name, gathers) in [("pdsync", has_gathers), ("pdsync-skip", false), ("parasync", false)] {
        let case = edited_in_many_places(Strategy::by_name(name).unwrap());
        let mut session = Session::new(&case, &mut Dice::new(33));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let gathered = [session.sender.counts().gathered, session.receiver.counts().gathered];
        let least = if gathers { 2_700_000..=3_000_000 } else { 0..=0 };
        assert!(gathered.iter().all(|bytes| least.contains(bytes)), "{name}: {gathered:?}");
    }
}

/// Changes five bytes so that no CRC-32C over them changes: the bits of the polynomial, lowest bit of a byte first.
fn change_without_crc32c(bytes: &mut [u8]) {
    let bits: u64 = 1 | 0x82f6_3b78 << 1;
    bytes.iter_mut().zip(bits.to_le_bytes()).for_each(|(byte, bits)| *byte ^= bits);
}

/// SkySync §3.3: a signature is of what the receiver's storage keeps, else of what the sender's does, where that is a
/// strong sum; and of the strategy's own where neither has one.
#[test]
fn a_signature_is_made_of_what_storage_keeps() {
    let keeps = |kind, block_bytes| BlockSumSpec::new(kind, block_bytes);
    let (crc, xxh64) = (keeps(SumKind::Crc32c, 4096), keeps(SumKind::Xxh64, 4096));
    let (sha256, blake2b) = (keeps(SumKind::Sha256, 4096), keeps(SumKind::Blake2b, 8192));
    let long = keeps(SumKind::Crc32c, 65_536);
    // What the receiver's storage keeps, the sender's, the block that is asked for; and what they agree on.
    let cases = [
        (None, None, None, None),
        (crc, crc, None, None),
        (xxh64, xxh64, None, None),
        (sha256, blake2b, None, sha256),
        (blake2b, sha256, None, blake2b),
        (None, sha256, None, sha256),
        (crc, sha256, None, sha256),
        (sha256, crc, None, sha256),
        (long, crc, None, long),
        (crc, long, None, None),
        (long, sha256, None, long),
        (sha256, sha256, Some(16_384), None),
        (sha256, sha256, Some(4096), sha256),
    ];
    for (ours, theirs, block_bytes, expected) in cases {
        let mut case = edited_in_many_places(Strategy::by_name("skysync-f").unwrap());
        case.options.block_bytes = block_bytes;
        let mut session = Session::new(&case, &mut Dice::new(41));
        (session.destination.keeps, session.source.keeps) = (ours, theirs);
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let block = expected.map(|kept| kept.block_bytes).or(block_bytes).unwrap_or(8192);
        let blocks = 3_000_000_u64.div_ceil(block.into());
        let name = format!("{ours:?}, {theirs:?}, {block_bytes:?}");
        assert_eq!(session.signed, [expected], "{name}");
        assert_eq!(session.old_sums, blocks, "{name}");
        assert!(totals.literal <= 10 * u64::from(block), "{name}: {totals:?}");
    }
}

/// Law 9: sums that storage keeps are believed as others are, and no more.
#[test]
fn wrong_sums_of_storage_cost_another_attempt() {
    let case = edited_in_many_places(Strategy::by_name("skysync-f").unwrap());
    let new = case.new.0[&path("a")].bytes.clone();
    for lies in [false, true] {
        let mut session = Session::new(&case, &mut Dice::new(42));
        session.destination.keeps = BlockSumSpec::new(SumKind::Sha256, 4096);
        session.destination.sums_of = lies.then(|| new.clone());
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let literal = if lies { 3_000_000..3_000_001 } else { 40_000..50_000 };
        assert!(literal.contains(&totals.literal), "{lies}: {totals:?}");
    }
}

/// SkySync §4.3: whichever of many threads is done first with its region, the file is brought over as by one. A file
/// that one thread alone may work at is searched once.
#[test]
fn regions_that_threads_share_bring_what_one_brings() {
    for name in ["skysync-f", "skysync-c"] {
        let mut case = edited_in_many_places(Strategy::by_name(name).unwrap());
        let node = case.new.0.get_mut(&path("a")).unwrap();
        let repeated = Dice::new(5).bytes(5000).into_iter().cycle().take(3_000_000);
        let bytes: Vec<u8> = node.bytes.iter().copied().chain(repeated).collect();
        *node = Node { meta: node.meta.clone(), ..Node::file(bytes.clone(), NOW, 0o644) };
        node.meta.len = bytes.len() as u64;
        let old = case.old.0.get_mut(&path("a")).unwrap();
        let bytes = [&old.bytes[..], &bytes[3_000_123..], b"more"].concat();
        *old = Node::file(bytes, NOW, 0o644);
        let mut totals = Vec::new();
        for (threads, seed) in [(1, 50), (2, 51), (0, 52), (0, 53)] {
            case.options.threads = threads;
            let mut session = Session::new(&case, &mut Dice::new(seed));
            totals.push(session.finish());
            check_result(&case, &session, totals.last().unwrap());
            let joins = name == "skysync-f" && threads != 1;
            assert_eq!(session.source.joined, if joins { 5 } else { 0 }, "{name} {threads}");
        }
        let found = totals.iter().map(|one| (one.literal, one.matched));
        assert!(
            found.clone().all(|one| one.0 > 0 && one == found.clone().next().unwrap()),
            "{totals:?}"
        );
    }
}

/// What waits for what ([`Delivery`]): with relative offsets, copies and literals follow each other in the order of the
/// file.
#[test]
fn copies_and_literals_follow_each_other_as_the_strategy_says() {
    for strategy in Strategy::ALL {
        let case = edited_in_many_places(strategy);
        let mut session = Session::new(&case, &mut Dice::new(22));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let placed = &session.destination.placed;
        let is_sorted = |by: &[By]| {
            let starts = placed.iter().filter(|(how, _)| by.contains(how));
            starts.map(|(_, span)| span.start).is_sorted()
        };
        let (both, name) = ([By::Copy, By::Literal], strategy.name);
        let swaps = placed.windows(2).filter(|two| two[0].0 != two[1].0).count();
        match strategy.delivery {
            Delivery::InOrder => {
                assert!(is_sorted(&both), "{name}: {placed:?}");
                assert!(swaps >= 18, "{name}: {placed:?}");
            }
            Delivery::Phased => {
                assert!(is_sorted(&both[..1]) && is_sorted(&both[1..]), "{name}: {placed:?}");
                assert_eq!(placed[0].0, By::Literal, "{name}");
                assert_eq!(swaps, 1, "{name}: {placed:?}");
            }
            Delivery::Pipelined => assert!(!is_sorted(&both), "{name}: {placed:?}"),
        }
    }
}

/// Where strong sums of all chunks prove the file, nothing is hashed once more for it; where they cannot, all of it is,
/// by something that nobody can forge.
#[test]
fn only_what_strong_sums_leave_unproven_is_hashed_again() {
    for strategy in Strategy::ALL {
        let case = edited_in_many_places(strategy);
        let mut session = Session::new(&case, &mut Dice::new(23));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let proves = strategy.strong == StrongKind::Blake3;
        assert_eq!(session.destination.whole_passes == 0, proves, "{}", strategy.name);
    }
}

/// WebR2sync+ §5.1, §5.2: all systems find the same blocks, at the receiver if the direction is reversed. Locality saves
/// look-ups by the weak sum, for one strong sum in vain behind each edit.
#[test]
fn the_family_of_webrsync_finds_the_same_with_less_work() {
    let counts = |name: &str| {
        let strategy = Strategy::by_name(name).unwrap();
        let case = edited_in_many_places(strategy);
        let mut session = Session::new(&case, &mut Dice::new(24));
        let totals = session.finish();
        check_result(&case, &session, &totals);
        assert_eq!(totals.literal, 10 * 8192, "{name}: each edit costs its block");
        let ends = [session.sender.counts(), session.receiver.counts()];
        let is_reversed = name.starts_with("webr2sync");
        assert_eq!(ends[usize::from(!is_reversed)].weak, 0, "{name}: one end searches");
        ends[usize::from(is_reversed)]
    };
    // The full blocks that are unchanged, and the short one at the end.
    let matched = 3_000_000 / 8192 - 10 + 1;
    for (plain, local) in [("webrsync", "webrsync+"), ("webr2sync-siphash", "webr2sync+")] {
        let (plain, local) = (counts(plain), counts(local));
        assert_eq!((plain.strong, local.strong), (matched, matched + 10));
        // Behind the edits both roll, and meet tags by chance.
        assert!(local.weak + matched - 50 < plain.weak, "{local:?}, {plain:?}");
    }
    assert_eq!(counts("webr2sync").strong, matched);
}

/// A file with ten edits of a byte each.
fn edited_in_many_places(strategy: Strategy) -> Case {
    let bytes = Dice::new(21).bytes(3_000_000);
    let mut old = bytes.clone();
    (0..10).for_each(|n| old[150_000 + n * 300_000] ^= 1);
    let mut case = plain(tree_of(&[("a", bytes)]), tree_of(&[("a", old)]));
    case.options.strategy = strategy;
    case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
    case
}

/// Equal groups are found where they are, not where the first of them is.
#[test]
fn unchanged_files_of_repeated_content_are_recognised() {
    for seed in 0..100 {
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

/// Whichever of the two questions comes first, a file is told once; and only where both ends name chunks alike is it
/// offered for anything.
#[test]
fn a_file_that_is_offered_is_not_told_again() {
    const START: u8 = 18;
    const OFFER: u8 = 59;
    let old = Dice::new(8).bytes(600_000);
    let new = [&old[..200_000], b"more", &old[200_000..]].concat();
    let mut case = plain(tree_of(&[("a", new)]), tree_of(&[("a", old)]));
    case.new.0.get_mut(&path("a")).unwrap().meta.modified.nanos = 8;
    case.far_away = true;
    let mut answered = 0;
    for seed in 0..200 {
        case.takes_offers = seed % 4 > 0;
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        let [offered, started] = [OFFER, START].map(|kind| session.said.contains(&kind));
        check_result(&case, &session, &totals);
        assert!(totals.literal < 20_000, "{seed}: {}", totals.literal);
        assert_eq!(started, !(offered && case.takes_offers), "{seed}");
        answered += u32::from(!started);
    }
    assert!(answered > 50, "{answered}");
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
    old.0.insert(path("d"), Node::other(deltic_tree::Kind::Dir, NOW, 0o755));
    for (delete, goes) in [
        (Delete::Never, false),
        (Delete::Guarded(Guard::default()), false),
        (Delete::AtMost(1500), false),
        (Delete::AtMost(1501), true),
    ] {
        let mut case = plain(tree_of(&[("d", vec![2; 10])]), old.clone());
        case.options.delete = delete;
        let mut session = Session::new(&case, &mut Dice::new(11));
        let totals = session.finish();
        assert_eq!(session.destination.tree.is_dir(&path("d")), !goes, "{delete:?}");
        // It is replaced itself.
        assert_eq!(totals.deleted, if goes { 1500 } else { 0 }, "{delete:?}");
        assert_eq!(totals.failed, u64::from(!goes), "{delete:?}");
    }
}

/// Of 1501 names, of which 1401 were there when they were counted.
#[test]
fn names_that_came_since_they_were_counted_go_within_the_limit_only() {
    let files: Vec<_> = (0..1500).map(|no| format!("d/{no}")).collect();
    let mut old: Vec<_> = files.iter().map(|name| (name.as_str(), vec![1; 3])).collect();
    old.sort();
    let mut old = tree_of(&old);
    old.0.insert(path("d"), Node::other(deltic_tree::Kind::Dir, NOW, 0o755));
    // In the place of a file, which takes the directory's own name for one that goes; and in nobody's.
    for (new, own) in [("d", 1), ("e", 0)] {
        for most in [1401, 1450, 1501] {
            let mut case = plain(tree_of(&[(new, vec![2; 10])]), old.clone());
            case.options.delete = Delete::AtMost(most);
            let mut session = Session::new(&case, &mut Dice::new(12));
            session.destination.uncounted = 100;
            let totals = session.finish();
            assert_eq!(totals.deleted, most - own, "{new} {most}");
            let stays = session.destination.tree.is_dir(&path("d"));
            assert_eq!(stays, most < 1501, "{new} {most}");
        }
    }
}

/// What a session made of `new`, and by how many literal bytes.
fn literal_of(case: &Case, seed: u64) -> u64 {
    let mut session = Session::new(case, &mut Dice::new(seed));
    let totals = session.finish();
    check_result(case, &session, &totals);
    totals.literal
}

fn at(secs: i64) -> Timestamp {
    Timestamp { secs, nanos: 0 }
}

#[test]
fn what_moved_is_copied_and_not_sent_again() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let (mut new, mut old) = (Tree::default(), Tree::default());
        for dir in ["new", "new/below", "old", "old/below"] {
            let tree = if dir.starts_with("new") { &mut new } else { &mut old };
            tree.0.insert(path(dir), Node::other(Kind::Dir, NOW, 0o755));
        }
        let mut edited = 0;
        for (n, name) in ["below/a", "below/b", "c", "d"].into_iter().enumerate() {
            let len = dice.between(20_000, 150_000);
            let mut bytes = dice.bytes(len);
            let time = at(n as i64);
            old.0.insert(path(&format!("old/{name}")), Node::file(bytes.clone(), time, 0o644));
            let moved = match dice.below(3) {
                // With the directory; under another name; edited.
                0 => format!("new/{name}"),
                1 => format!("new/other-{n}"),
                _ => {
                    bytes.splice(5000..5000, b"a few more".iter().copied());
                    edited += 1;
                    format!("new/{name}")
                }
            };
            new.0.insert(path(&moved), Node::file(bytes, time, 0o644));
        }
        let mut case = plain(new, old);
        case.options.delete = Delete::AtMost(100);
        let mut session = Session::new(&case, &mut dice);
        let totals = session.finish();
        check_result(&case, &session, &totals);
        let most = edited * 3000;
        assert!(totals.literal <= most, "{seed}: {} of at most {most}", totals.literal);
        let told = session.told_by_sender.changes.iter();
        assert_eq!(told.filter(|change| change.facts.from.is_some()).count(), 4, "{seed}");
    }
}

/// A name that gets new content while its old content moves away: the one waits until the other is done with it.
#[test]
fn what_moves_away_is_there_until_it_was_copied() {
    let (mut all_found, mut all_sent) = (0, 0);
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let (now, before) = (dice.bytes(90_000), dice.bytes(90_000));
        let mut new = tree_of(&[("a", now), ("b", before.clone())]);
        new.0.get_mut(&path("b")).unwrap().meta.modified = at(5);
        let old = Tree([(path("a"), Node::file(before, at(5), 0o644))].into());
        let mut session = Session::new(&plain(new.clone(), old.clone()), &mut dice);
        let totals = session.finish();
        let found = session.destination.similar.iter().any(|(path, _)| path.as_bytes() == b"b");
        all_found += u32::from(found);
        all_sent += u32::from(found && totals.literal > 91_000);
    }
    // Its place may be taken just when it is found.
    assert!(all_found > 50 && all_sent <= 3, "{all_sent} of {all_found}");
}

/// A file that changed, and a copy of it that changed in the same way: the copy is matched against the old version,
/// whose place is lent to it, and lacks what the other one has got.
#[test]
fn nobody_waits_for_a_file_whose_place_it_has() {
    let mut all_found = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let (before, gained) = (dice.bytes(3_000_000), dice.bytes(1_200_000));
        let with = |place: usize| {
            let mut bytes = before.clone();
            bytes[place..place + gained.len()].copy_from_slice(&gained);
            bytes
        };
        let mut new = tree_of(&[("a", with(1_000_000)), ("b", with(1_500_000))]);
        // What has its length and time is looked at first.
        new.0.get_mut(&path("b")).unwrap().meta.modified = at(5);
        // Another new file, so that they may share.
        new.0.insert(path("c"), Node::file(dice.bytes(1_100_000), at(5), 0o644));
        let old = Tree([(path("a"), Node::file(before, at(5), 0o644))].into());
        let mut session = Session::new(&plain(new, old), &mut dice);
        let totals = session.finish();
        assert_eq!(totals.failed, 0, "{seed}");
        let found = session.destination.similar.iter().any(|(path, _)| path.as_bytes() == b"b");
        all_found += u32::from(found);
    }
    assert!(all_found > 10, "{all_found}");
}

#[test]
fn a_wrong_guess_costs_no_literal_and_many_of_them_end_it() {
    let mut dice = Dice::new(3);
    let file = |dice: &mut Dice| Node::file(dice.bytes(20_000), at(7), 0o644);
    let (mut new, mut old) = (Tree::default(), Tree::default());
    for n in 0..400 {
        new.0.insert(path(&format!("new-{n:03}")), file(&mut dice));
        old.0.insert(path(&format!("old-{n:03}")), file(&mut dice));
    }
    let case = plain(new, old);
    let mut session = Session::new(&case, &mut dice);
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert_eq!(totals.literal, 400 * 20_000);
    let guesses = session.destination.similar.len();
    assert!((17..400).contains(&guesses), "{guesses}");
}

#[test]
fn files_of_one_run_that_are_equal_come_once() {
    let mut dice = Dice::new(5);
    let (one, other) = (dice.bytes(600_000), dice.bytes(300_000));
    let mut edited = one.clone();
    edited[300_000] ^= 1;
    let file = |bytes: &[u8], time| Node::file(bytes.to_vec(), at(time), 0o644);
    let new = Tree(
        [("a", &one, 1), ("b", &one, 2), ("c", &edited, 3), ("d/e", &one, 4), ("f", &other, 5)]
            .map(|(name, bytes, time)| (path(name), file(bytes, time)))
            .into_iter()
            .chain([(path("d"), Node::other(Kind::Dir, at(1), 0o755))])
            .collect(),
    );
    let literal = literal_of(&plain(new.clone(), Tree::default()), 1);
    assert!((900_000..910_000).contains(&literal), "{literal}");
    let mut whole = plain(new, Tree::default());
    whole.options.whole_file = true;
    assert_eq!(literal_of(&whole, 2), 4 * 600_000 + 300_000);
}

#[test]
fn files_of_one_length_that_are_not_equal_are_guessed_at_for_a_while() {
    let mut dice = Dice::new(6);
    let file = |dice: &mut Dice| Node::file(dice.bytes(300_000), at(7), 0o644);
    let new = (0..20).map(|n| (path(&format!("{n:02}")), file(&mut dice))).collect();
    let case = plain(Tree(new), Tree::default());
    let mut session = Session::new(&case, &mut dice);
    let totals = session.finish();
    check_result(&case, &session, &totals);
    assert_eq!(totals.literal, 20 * 300_000);
    assert_eq!(session.destination.similar.len(), 19);
}

#[test]
fn nothing_is_looked_for_that_is_short_or_has_an_old_version() {
    let bytes = Dice::new(4).bytes(100_000);
    let file = |len: usize| Node::file(bytes[..len].to_vec(), at(7), 0o644);
    let tree = |files: &[(&str, usize)]| {
        Tree(files.iter().map(|(name, len)| (path(name), file(*len))).collect())
    };
    let (short, long) = (16 << 10, (16 << 10) + 1);
    let new = tree(&[("short-2", short), ("long-2", long)]);
    let old = tree(&[("short-1", short), ("long-1", long)]);
    assert_eq!(literal_of(&plain(new.clone(), old.clone()), 1), short as u64);
    // Whoever has an old version is not matched against another's.
    let mut with_old = old.clone();
    with_old.0.insert(path("long-2"), Node::file(vec![0; 10], at(1), 0o644));
    assert_eq!(literal_of(&plain(new.clone(), with_old), 2), (short + long) as u64);
    let rsync = *Strategy::ALL.iter().find(|strategy| strategy.name == "rsync").unwrap();
    for options in [
        Options { whole_file: true, ..plain(new.clone(), old.clone()).options },
        Options { strategy: rsync, ..plain(new.clone(), old.clone()).options },
    ] {
        let mut case = plain(new.clone(), old.clone());
        case.options = options;
        assert_eq!(literal_of(&case, 3), (short + long) as u64);
    }
}
