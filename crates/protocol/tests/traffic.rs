//! What long changes cost: the new bytes and little more, whatever lies where they are now.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;

use common::Dice;
use common::case::Case;
use common::destination::DestinationFaults;
use common::session::Session;
use common::source::SourceFaults;
use common::tree::{NOW, Node, Tree, path};
use deltic_protocol::options::Options;
use deltic_tree::Kind;

/// What became of a stretch of old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Stays,
    /// Other bytes are in its place.
    Replaced,
    /// As many other bytes come before it.
    Preceded,
    Gone,
    /// A byte of each few dozen is another: no chunk is as it was.
    Speckled,
}

/// Two versions of a file.
#[derive(Default)]
struct Versions {
    old: Vec<u8>,
    new: Vec<u8>,
    /// Bytes that only new has, and those of it that are speckled.
    fresh: u64,
    speckled: u64,
    stretches: u64,
}

impl Versions {
    fn push(&mut self, change: Change, len: usize, dice: &mut Dice) {
        let old = dice.bytes(len);
        match change {
            Change::Stays => self.new.extend(&old),
            Change::Replaced => self.push_fresh(len, dice),
            Change::Preceded => {
                self.push_fresh(len, dice);
                self.new.extend(&old);
            }
            Change::Gone => {}
            Change::Speckled => {
                self.new.extend((0..).zip(&old).map(|(at, byte)| byte ^ u8::from(at % 96 == 0)));
                self.speckled += len as u64;
            }
        }
        self.old.extend(old);
        self.stretches += 1;
    }

    fn push_fresh(&mut self, len: usize, dice: &mut Dice) {
        self.new.extend(dice.bytes(len));
        self.fresh += len as u64;
    }

    /// Brings new over, in chunks of this mean length, if not as it is done by default; what travelled, and how much of
    /// it as literals.
    fn traffic(&self, seed: u64, block_bytes: Option<u32>) -> (u64, u64) {
        let tree = |bytes: &Vec<u8>, len| {
            let mut node = Node::file(bytes.clone(), NOW, 0o644);
            node.meta.modified.nanos = len;
            Tree([(path("a"), node)].into())
        };
        let mut case = Case::random(0);
        (case.new, case.old) = (tree(&self.new, 8), tree(&self.old, 7));
        (case.roots, case.cut) = (None, None);
        case.leftovers.clear();
        case.interrupted.clear();
        (case.source_faults, case.destination_faults) =
            (SourceFaults::default(), DestinationFaults::default());
        case.options = Options { recursive: true, times: true, block_bytes, ..Options::default() };
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        let node = &session.destination.tree.0[&path("a")];
        assert!(node == &case.new.0[&path("a")], "{seed}: the result is not the new version");
        (session.bytes, totals.literal)
    }
}

/// What chunks are told with: of all bytes of new at most, and twice that.
const TOLD_SHARE: u64 = 100;
/// What a change of one stretch costs beside its bytes: chunks at both ends, and probes.
const STRETCH_BYTES: u64 = 40_000;

#[test]
fn new_bytes_cost_next_to_nothing_beside_themselves() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut versions = Versions::default();
        for _ in 0..dice.between(1, 5) {
            let kinds = [Change::Stays, Change::Replaced, Change::Preceded, Change::Gone];
            let (change, len) = (*dice.pick(&kinds), dice.between(1, 1_500_000));
            versions.push(change, len, &mut dice);
        }
        let (bytes, _) = versions.traffic(seed, None);
        let told = versions.new.len() as u64 / TOLD_SHARE;
        let most = versions.fresh + told + (versions.stretches + 1) * STRETCH_BYTES;
        assert!(bytes <= most, "{seed}: {bytes}, more than {most}");
    }
}

/// Chunks are old ones again some way behind an insertion, how far differs by content. Bytes up to there are no sign
/// that old has more of what came in.
#[test]
fn an_insertion_costs_no_sums_of_old() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut versions = Versions::default();
        let lens = [dice.between(1, 1_000_000), dice.between(1_500_000, 3_000_000), 1_000_000];
        versions.push(Change::Stays, lens[0], &mut dice);
        versions.push_fresh(lens[1], &mut dice);
        versions.push(Change::Stays, lens[2], &mut dice);
        let (bytes, _) = versions.traffic(seed, None);
        let told = versions.new.len() as u64 / TOLD_SHARE;
        let most = versions.fresh + told + 20_000;
        assert!(bytes <= most, "{seed}: {bytes}, more than {most}");
    }
}

#[test]
fn old_bytes_between_many_edits_are_not_sent_again() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let mut versions = Versions::default();
        let len = dice.between(400_000, 3_000_000);
        versions.push(Change::Stays, 100_000, &mut dice);
        versions.push(Change::Speckled, len, &mut dice);
        versions.push(Change::Stays, 100_000, &mut dice);
        let (bytes, literal) = versions.traffic(seed, None);
        // Blocks have a third of what lies between two edits.
        assert!(literal * 4 < versions.speckled * 3, "{seed}: {literal} of {len}");
        assert!(bytes * 10 < versions.speckled * 9, "{seed}: {bytes} for {len}");
    }
}

/// A log of equal lines: after a few bytes that came in no chunk is as it was, and how far its places moved no chunk
/// tells.
#[test]
fn what_repeats_itself_is_found_again_behind_bytes_that_came_in() {
    for (seed, period, places) in [(0, 100, 1), (1, 64, 3), (2, 2, 2), (3, 2, 5), (4, 4096, 2)] {
        let mut dice = Dice::new(seed);
        let line = dice.bytes(period);
        let old: Vec<u8> = line.into_iter().cycle().take(12_000_000).collect();
        let mut versions = Versions::default();
        for part in old.chunks(old.len() / (places + 1) - 7) {
            versions.new.extend(part);
            versions.push_fresh(5, &mut dice);
        }
        versions.old = old;
        let (bytes, literal) = versions.traffic(seed, None);
        let len = versions.new.len() as u64;
        assert!(literal < 100_000 && bytes < len / 12, "{seed}: {bytes}, {literal} of {len}");
    }
}

#[test]
fn scattered_bytes_in_what_is_all_equal_cost_little_more_than_themselves() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let len = dice.between(3_000_000, 8_000_000);
        let old = vec![0; len];
        let (mut new, edits) = (old.clone(), dice.between(5, 40));
        for _ in 0..edits {
            let (at, bytes) = (dice.between(0, new.len()), dice.bytes(200));
            new.splice(at..at, bytes);
        }
        let versions = Versions { old, new, ..Versions::default() };
        let (_, literal) = versions.traffic(seed, None);
        // A chunk would be forty times as long.
        assert!(literal < edits as u64 * 1_500, "{seed}: {literal} for {edits} edits in {len}");
    }
}

#[test]
fn whatever_is_asked_for_first_the_new_version_arrives() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let mut versions = Versions::default();
        let kinds = [
            Change::Stays,
            Change::Replaced,
            Change::Preceded,
            Change::Gone,
            Change::Speckled,
            Change::Speckled,
        ];
        for _ in 0..dice.between(1, 8) {
            // Many are long, and many next to each other are one run.
            let len = dice.between(1, 700_000);
            versions.push(*dice.pick(&kinds), len, &mut dice);
        }
        let (bytes, _) = versions.traffic(seed, None);
        let told = versions.new.len() as u64 / TOLD_SHARE;
        // Sums are of old that faces what nothing matched, twice as much at most, and cost a sixteenth of it.
        let faced = (versions.fresh + versions.speckled) / 8;
        let changed = versions.fresh + versions.speckled + faced;
        let most = changed + told + (versions.stretches + 1) * STRETCH_BYTES;
        assert!(bytes <= most, "{seed}: {bytes}, more than {most}");
    }
}

/// Chunks that are longer than a gap may be come as they are, also as part of a run that has probes.
#[test]
fn chunks_of_any_length_may_be_part_of_a_long_run() {
    for seed in 0..16 {
        let mut dice = Dice::new(seed);
        let mut versions = Versions::default();
        for change in [Change::Stays, Change::Speckled, Change::Replaced, Change::Stays] {
            let len = dice.between(1_000_000, 3_000_000);
            versions.push(change, len, &mut dice);
        }
        for block_bytes in [512, 16 << 10, 64 << 10, 128 << 10] {
            versions.traffic(seed, Some(block_bytes));
        }
    }
}

/// New files made of a few long parts, each file of several; how many bytes all parts have that are in any of them.
fn sharing(dice: &mut Dice) -> (Tree, u64) {
    let parts: Vec<_> = (0..4).map(|_| (dice.next(), dice.between(200_000, 900_000))).collect();
    let parts: Vec<_> = parts.iter().map(|(seed, len)| Dice::new(*seed).bytes(*len)).collect();
    let (mut tree, mut used) = (Tree::default(), [false; 4]);
    for number in 0..dice.between(2, 7) {
        let mut bytes = Vec::new();
        while bytes.len() < 1 << 20 || dice.percent(30) {
            let part = dice.below(parts.len());
            used[part] = true;
            bytes.extend(&parts[part]);
        }
        let place = path(&number.to_string());
        tree.0.insert(place, Node::file(bytes, NOW, 0o644));
    }
    let lens = parts.iter().zip(used).map(|(part, used)| if used { part.len() as u64 } else { 0 });
    (tree, lens.sum())
}

/// New files that share parts, brought to where nothing is.
fn sharing_case(seed: u64, dice: &mut Dice) -> (Case, u64) {
    let (new, distinct) = sharing(dice);
    let mut case = Case::random(seed);
    (case.new, case.old, case.roots, case.cut) = (new, Tree::default(), None, None);
    case.leftovers.clear();
    case.interrupted.clear();
    case.options = Options { recursive: true, times: true, ..Options::default() };
    (case, distinct)
}

#[test]
fn parts_that_new_files_share_travel_about_once() {
    let (mut sent, mut distinct, mut all, mut borrowed) = (0, 0, 0, 0);
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let (mut case, parts) = sharing_case(seed, &mut dice);
        (case.source_faults, case.destination_faults) =
            (SourceFaults::default(), DestinationFaults::default());
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        assert_eq!((totals.failed, totals.created), (0, case.new.0.len() as u64), "{seed}");
        for (path, node) in &case.new.0 {
            assert!(session.destination.tree.0[path].bytes == node.bytes, "{seed}: {path}");
        }
        all += case.new.0.values().map(|node| node.meta.len).sum::<u64>();
        (sent, distinct) = (sent + totals.literal, distinct + parts);
        borrowed += session.destination.borrowed;
    }
    // Each file is matched against two others at most.
    let said = format!("{sent} of {all}, {distinct} distinct, {borrowed} files opened");
    assert!(sent * 10 < distinct * 11 && borrowed > 12, "{said}");
}

#[test]
fn files_that_share_parts_are_whole_or_not_there_after_faults() {
    let mut whole = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let (case, _) = sharing_case(seed, &mut dice);
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        let is_whole = |(path, node): (_, &Node)| {
            let there = session.destination.tree.0.get(path);
            there.is_some_and(|there| there.bytes == node.bytes)
        };
        let count = case.new.0.iter().filter(|entry| is_whole(*entry)).count();
        let files = session.destination.tree.0.values().filter(|node| node.meta.is_file()).count();
        let may_differ = session.source.changes > 0;
        assert!(may_differ || files == count, "{seed}: one is torn");
        assert!(may_differ || totals.failed > 0 || count == case.new.0.len(), "{seed}");
        whole += count;
    }
    assert!(whole > 40);
}

/// A tree of 2,000 files of up to 200 bytes, in 40 directories.
fn short_files(dice: &mut Dice) -> Tree {
    let mut tree = Tree::default();
    for dir in 0..40 {
        tree.0.insert(path(&format!("dir{dir}")), Node::other(Kind::Dir, NOW, 0o755));
        for file in 0..50 {
            let len = dice.between(0, 200);
            let bytes = dice.bytes(len);
            let place = path(&format!("dir{dir}/file{file}"));
            tree.0.insert(place, Node::file(bytes, NOW, 0o644));
        }
    }
    tree
}

#[test]
fn answers_about_short_new_files_take_a_few_bytes_each() {
    for seed in 0..3 {
        let mut dice = Dice::new(seed);
        let mut case = Case::random(0);
        (case.new, case.old) = (short_files(&mut dice), Tree::default());
        (case.roots, case.cut) = (None, None);
        case.leftovers.clear();
        case.interrupted.clear();
        (case.source_faults, case.destination_faults) =
            (SourceFaults::default(), DestinationFaults::default());
        case.options = Options { recursive: true, times: true, ..Options::default() };
        let mut session = Session::new(&case, &mut Dice::new(seed));
        let totals = session.finish();
        assert_eq!((totals.created, totals.failed), (2040, 0));
        assert!(session.answered < 2040 * 6, "{seed}: {}", session.answered);
    }
}
