//! Peers that break the rules: each is refused with a named error, or ignored where a late frame is (law 8).
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod common;
mod frames;

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use common::Dice;
use common::destination::Destination;
use common::source::{Source, tally_of};
use common::tree::{NOW, Node, Tree, name, path};
use deltic_core::chunk::{Algorithm, FixedLen, Segment, Sizes};
use deltic_core::moved::MovedRun;
use deltic_core::recipe::{Chunk, MAX_GROUP_CHUNKS, digest_of, digest_of_changes, scan};
use deltic_core::strategy::ParallelMode;
use deltic_core::{
    AtEnd, BlockLen, BlockSumSpec, ChunkPrefix, ChunkerSpec, Digest, Fingerprint, GapDelta,
    GapSums, GroupPrefix, Key, PrefixLen, Strategy, StrongSum, SumKind, ZeroRun,
};
use deltic_protocol::hello::ShortForms;
use deltic_protocol::known::Known;
use deltic_protocol::limits::{
    ENTRY_WINDOW, GROUP_WINDOW, LARGE_FILE_BYTES, LISTED_BYTES, Limits, MAX_ACTIVE_FILES,
    MAX_ACTIVE_LARGE, MAX_ATTEMPTS, MAX_BATCH, MAX_CANDIDATES, MAX_DATA_RUNS, MAX_FRAME_BYTES,
    MAX_GROUPS, MAX_LINKED_BYTES, MAX_MOVED_RUNS, MAX_OWNER_NAMES, MAX_SMALL_DATA_RUNS, MAX_SUMS,
    MAX_TEXT_BYTES, MAX_XATTRS_BYTES, MIN_FRAME_BYTES, OFFERED_GROUPS, TALLY_WINDOW,
    TOLD_BY_CHUNK_BYTES, UNHEARD_ENTRIES, WHOLE_BLOCK_BYTES,
};
use deltic_protocol::message::{
    Answers, BriefDigest, ChunkLine, ChunkLines, CutDigest, DataLine, Done, Extent, GapLine,
    GroupLine, NameLine, Outcome, PathBefore, Payload, SharedPath, ShortDigestLine,
    ShortDigestLines, ShortEntries, Sparse, TransferKind,
};
use deltic_protocol::options::{
    AlternateUse, Alternates, Append, Backup, Compare, Delete, Guard, Links, Metadata, Missing,
    Options, Remove, Select, Window, Writing,
};
use deltic_protocol::receiver::{self, Expect, Receiver, Setting};
use deltic_protocol::report::{
    Action, Change, Differs, EntryType, Facts, MadeRoot, PassedOver, Question, ReadReason, Totals,
    Trouble, TroubleKind,
};
use deltic_protocol::sender::{self, Deltas, Sender};
use deltic_protocol::streams::Aside;
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::{Keying, PatchStep, Sum, SumLine, Summing, Token, TokenScope};
use deltic_protocol::work::{ErrorAction, WorkError};
use deltic_protocol::{DigestLine, FileNo, PeerError, ToReceiver, ToSender};
use deltic_tree::meta::{HardLink, Inode, ModeRules, UnreadReason};
use deltic_tree::{
    Acl, ComparedAttributes, DirDigest, Entry, ExtraMeta, Kind, Meta, RelPath, Timestamp, Xattr,
};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

/// What each frame does in each state of either machine.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/states.txt");

const A: FileNo = FileNo(0);
const SPEC_MIN: u64 = 512;

fn options() -> Options {
    let metadata = Metadata { users: true, ..Metadata::default() };
    Options { recursive: true, links: true, times: true, metadata, ..Options::default() }
}

fn file_of(len: u64) -> Meta {
    Meta::without_owner(Kind::File, len, Timestamp { secs: 1, nanos: 0 }, 0o644)
}

fn dir() -> Meta {
    Meta::without_owner(Kind::Dir, 0, NOW, 0o755)
}

fn listing(at: &str, entries: &[(&str, Meta)], extent: Extent) -> ToReceiver {
    let entry = |(text, meta): &(&str, Meta)| Entry { name: name(text), meta: meta.clone() };
    let entries = entries.iter().map(entry).collect();
    ToReceiver::Listing { dir: path(at), own: None, entries, extent }
}

/// With sums as [`options`] have them.
fn tally(at: &str) -> ToReceiver {
    let tally = DirDigest { entries: 2, users: Some(0), ..DirDigest::default() };
    ToReceiver::Tally { dir: path(at), tally }
}

fn short_tally(at: &str) -> ToReceiver {
    let tally = DirDigest { entries: 2, users: Some(0), ..DirDigest::default() };
    ToReceiver::ShortTally { dir: short_path(at), tally }
}

fn cut_tally(at: &str) -> ToReceiver {
    let tally = DirDigest { entries: 2, users: Some(0), ..DirDigest::default() };
    ToReceiver::CutTally { dir: short_path(at), tally: CutDigest(tally) }
}

fn short_path(at: &str) -> SharedPath {
    PathBefore::default().shorten(&path(at))
}

fn tallied(alike: Vec<Range<u32>>, unlike: Vec<Range<u32>>) -> ToSender {
    ToSender::Tallied { alike, unlike }
}

fn trouble(kind: TroubleKind) -> Trouble {
    Trouble::new(kind, "no")
}

fn short(byte: u8) -> GroupPrefix {
    GroupPrefix::from_bytes([byte; 8])
}

/// A receiver that has `a` of 10,000 bytes.
struct Victim {
    machine: Receiver,
    hands: Destination,
    frames: Vec<ToSender>,
}

const OLD_BYTES: usize = 10_000;

fn old_bytes() -> Vec<u8> {
    Dice::new(1).bytes(OLD_BYTES)
}

impl Victim {
    fn new(setting: Setting) -> Self {
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(old_bytes(), NOW, 0o600));
        let hands = Destination::new(tree, setting.options.clone(), Dice::new(2));
        Self { machine: Receiver::new(setting), hands, frames: Vec::new() }
    }

    fn plain() -> Self {
        Self::new(Setting { options: options(), ..Setting::default() })
    }

    /// Takes frames and does all work that follows.
    fn take(&mut self, frames: impl IntoIterator<Item = ToReceiver>) -> Result<(), PeerError> {
        for frame in frames {
            self.machine.handle(frame)?;
            self.work();
        }
        Ok(())
    }

    fn work(&mut self) {
        while let Some((id, work)) = self.machine.poll_work() {
            let answer = self.hands.perform(work);
            self.machine.answer(id, answer).unwrap();
        }
        self.frames.extend(std::iter::from_fn(|| self.machine.poll_frame()));
        while self.machine.poll_notice().is_some() {}
    }

    fn refusal(&mut self, frame: ToReceiver) -> PeerError {
        self.take([frame]).expect_err("it is refused")
    }

    /// `a` is wanted by recipe.
    fn wanted() -> Self {
        Self::wanted_of(9000)
    }

    /// `a` has been listed and offered, and nothing was looked at yet.
    fn offered() -> Self {
        let setting = Setting { options: options(), takes_offers: true, ..Setting::default() };
        let mut victim = Self::new(setting);
        let list = listing("", &[("a", file_of(9000))], Extent::Last);
        [list, offer(3000)].into_iter().for_each(|frame| victim.machine.handle(frame).unwrap());
        victim
    }

    /// The same, of a length that was listed.
    fn wanted_of(len: u64) -> Self {
        let mut victim = Self::plain();
        victim.take([listing("", &[("a", file_of(len))], Extent::Last)]).unwrap();
        assert!(victim.frames.contains(&ToSender::Want { file: A, how: TransferKind::Recipe }));
        victim
    }

    /// Files of these lengths are wanted, and their holes may be told.
    fn of_holes(takes_holes: bool, files: &[(&str, u64)]) -> Self {
        let mut options = options();
        options.writing.sparse = takes_holes;
        let mut victim = Self::new(Setting { options, takes_holes, ..Setting::default() });
        let files: Vec<_> = files.iter().map(|(name, len)| (*name, file_of(*len))).collect();
        victim.take([listing("", &files, Extent::Last)]).unwrap();
        victim
    }

    /// `a` has been started with a version of `len` bytes.
    fn started(len: u64) -> Self {
        let mut victim = Self::wanted_of(len.max(9000));
        victim.take([start(len)]).unwrap();
        victim
    }

    /// `a` has the length that was listed: the sender was asked for its digest.
    fn compared() -> Self {
        let options = Options { checksum: true, ..options() };
        let mut victim = Self::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(OLD_BYTES as u64))], Extent::Last)]).unwrap();
        assert_eq!(victim.frames, [ToSender::Digest(vec![A])]);
        victim
    }

    /// `a` is a base of 10,000 bytes, and has been started by what changed with a version of `len` bytes.
    fn based(len: u64) -> Self {
        let mut options = options();
        options.compare.cached = true;
        let setting = Setting { options, tells_bases: true, ..Setting::default() };
        let mut victim = Self::new(setting);
        victim.hands.faults.based = 100;
        victim.take([listing("", &[("a", file_of(len + 1))], Extent::Last)]).unwrap();
        let is_base = |frame: &ToSender| matches!(frame, ToSender::Base { file: A, .. });
        assert!(victim.frames.iter().any(is_base), "{:?}", victim.frames);
        victim.take([start_changes(len)]).unwrap();
        victim
    }

    /// One unknown group of two chunks was told and lacked.
    fn lacked() -> Self {
        let mut victim = Self::started(3000);
        victim.take([groups(&[(3000, 2)])]).unwrap();
        assert!(victim.frames.contains(&ToSender::Lack { file: A, groups: one(0..1) }));
        victim
    }

    /// Its chunks were spelled out and face all of the old version.
    fn facing() -> Self {
        let mut victim = Self::lacked();
        victim.take([chunks(one(0..1), &[1000, 2000])]).unwrap();
        let asks = |frame: &ToSender| matches!(frame, ToSender::Mend { file: A, gaps } if gaps[0].chunks == (0..2));
        assert!(victim.frames.iter().any(asks), "{:?}", victim.frames);
        victim
    }

    /// The same of a file of which only a killed run left something: the chunks face nothing and are needed.
    fn needed() -> Self {
        Self::needed_within(Limits::default())
    }

    fn needed_within(limits: Limits) -> Self {
        let mut victim = Self::new(Setting { options: options(), limits, ..Setting::default() });
        victim.hands.tree = Tree::default();
        victim.hands.leftovers.insert(path("a"), vec![Arc::new(old_bytes())]);
        // Of a shorter one nobody asks what was left.
        let len = u64::from(WHOLE_BLOCK_BYTES) + 1;
        victim.take([listing("", &[("a", file_of(len))], Extent::Last)]).unwrap();
        victim.take([start(3000), groups(&[(3000, 2)])]).unwrap();
        victim.take([chunks(one(0..1), &[1000, 2000])]).unwrap();
        assert!(victim.frames.contains(&ToSender::Need { file: A, chunks: one(0..2) }));
        victim
    }

    /// `a` has been started by a strategy of the papers with a version of two chunks, 10,000 bytes.
    fn by(name: &str) -> Self {
        let strategy = Strategy::by_name(name).unwrap();
        let options = Options { strategy, ..options() };
        let mut victim = Self::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(10_000))], Extent::Last)]).unwrap();
        assert!(victim.frames.contains(&ToSender::Want { file: A, how: TransferKind::Strategy }));
        victim.take([start_by(name)]).unwrap();
        victim
    }

    /// `a` has been started by SkySync's blocks, and both ends may agree on sums that storage keeps.
    fn agreeing() -> Self {
        let options = Options { strategy: Strategy::by_name("skysync-f").unwrap(), ..options() };
        let setting = Setting { options, agrees_on_sums: true, ..Setting::default() };
        let mut victim = Self::new(setting);
        victim.take([listing("", &[("a", file_of(10_000))], Extent::Last)]).unwrap();
        victim.take([start_by("skysync-f")]).unwrap();
        let told = |frame: &ToSender| matches!(frame, ToSender::Sums { .. });
        assert!(!victim.frames.iter().any(told), "{:?}", victim.frames);
        victim
    }

    /// The sums of old were told, as storage keeps them.
    fn signed() -> Self {
        let mut victim = Self::agreeing();
        let kept = keeps(SumKind::Sha256, 4096);
        victim.take([ToReceiver::Keeps { file: A, kept }]).unwrap();
        assert!(victim.frames.contains(&ToSender::Signs { file: A, by: kept }));
        let is_told =
            |frame: &ToSender| matches!(frame, ToSender::Sums { sums, .. } if sums.len() == 3);
        assert!(victim.frames.iter().any(is_told), "{:?}", victim.frames);
        victim
    }

    /// Its chunks were told and both may be in old: the sender was asked.
    fn asked() -> Self {
        let mut victim = Self::by("parasync");
        victim.take([sums_of_old("parasync")]).unwrap();
        let asks =
            |frame: &ToSender| matches!(frame, ToSender::Match { tokens, .. } if tokens.len() == 2);
        assert!(victim.frames.iter().any(asks), "{:?}", victim.frames);
        victim
    }

    /// Its blocks were told, and the first is not in old.
    fn rolled() -> Self {
        let mut victim = Self::by("webr2sync");
        victim.take([sums(&[(8192, 1), (1808, 2)], 16)]).unwrap();
        assert!(victim.frames.contains(&ToSender::Need { file: A, chunks: one(0..2) }));
        victim
    }

    /// A file that is new comes whole.
    fn whole(len: u64) -> Self {
        Self::whole_over(1, len)
    }

    /// The same in a session of so many streams.
    fn whole_over(streams: u32, len: u64) -> Self {
        let mut victim = Self::wanting(Options { streams, ..options() }, len);
        victim.take([start_whole(len)]).unwrap();
        victim
    }

    /// The same before the file has started.
    fn wanted_whole(len: u64) -> Self {
        Self::wanting(options(), len)
    }

    fn wanting(options: Options, len: u64) -> Self {
        let mut victim = Self::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("b", file_of(len))], Extent::Last)]).unwrap();
        assert!(victim.frames.contains(&ToSender::Want { file: A, how: TransferKind::Whole }));
        victim
    }

    /// The list is complete and nothing is left to do.
    fn finished() -> Self {
        let mut victim = Self::plain();
        let empty = listing("", &[], Extent::Last);
        victim.take([empty, ToReceiver::Listed { intact: true }]).unwrap();
        assert!(victim.machine.is_finished());
        victim
    }
}

fn one(range: Range<u32>) -> Vec<Range<u32>> {
    vec![range]
}

fn start(len: u64) -> ToReceiver {
    let spec = ChunkerSpec::for_len(len);
    ToReceiver::Start { file: A, meta: file_of(len), how: TransferKind::Recipe, spec }
}

/// Runs of data, each with the length of the hole before it.
fn holes(file: FileNo, lines: &[(u64, u64)]) -> ToReceiver {
    let line = |&(hole, data): &(u64, u64)| DataLine { hole, data };
    ToReceiver::Holes { file, runs: lines.iter().map(line).collect() }
}

fn offer(len: u64) -> ToReceiver {
    ToReceiver::Offer { file: A, meta: file_of(len), spec: ChunkerSpec::for_len(len) }
}

fn start_whole(len: u64) -> ToReceiver {
    let spec = ChunkerSpec::Fixed(FixedLen::new(WHOLE_BLOCK_BYTES).unwrap());
    ToReceiver::Start { file: A, meta: file_of(len), how: TransferKind::Whole, spec }
}

fn start_by(name: &str) -> ToReceiver {
    let spec = Strategy::by_name(name).unwrap().chunker(10_000, None);
    ToReceiver::Start { file: A, meta: file_of(10_000), how: TransferKind::Strategy, spec }
}

/// Sums that nothing has, strong ones of so many bytes.
fn sums(chunks: &[(u32, u32)], strong: usize) -> ToReceiver {
    let strong = StrongSum::from_bytes(&vec![3; strong]).unwrap();
    let line = |&(len, weak): &(u32, u32)| SumLine::New(Sum { len, weak, strong });
    ToReceiver::Sums { file: A, sums: chunks.iter().map(line).collect(), extent: Extent::Last }
}

/// The sums of the victim's own version, cut in two.
fn sums_of_old(name: &str) -> ToReceiver {
    let strategy = Strategy::by_name(name).unwrap();
    let chunker = strategy.chunker(10_000, None);
    let (weak, keying) = (strategy.weak.unwrap(), Keying::Session);
    let summing = Summing { chunker, weak, strong: None, keying };
    let summed = common::source::sum(summing, &old_bytes(), &Portion::From(0), 1 << 20);
    let Some((Summed::Chunks(sums, _), _)) = summed else { panic!("it is all there") };
    let sums = sums.into_iter().map(SumLine::New).collect();
    ToReceiver::Sums { file: A, sums, extent: Extent::Last }
}

fn deny(chunks: Vec<Range<u32>>) -> ToReceiver {
    ToReceiver::Deny { file: A, chunks }
}

fn patch(steps: Vec<PatchStep>, literal: usize) -> ToReceiver {
    ToReceiver::Patch { file: A, steps, payload: Payload::Plain(vec![1; literal]) }
}

fn groups(lines: &[(u64, u32)]) -> ToReceiver {
    let line = |&(len, chunks): &(u64, u32)| GroupLine { len, chunks, short: short(7) };
    ToReceiver::Groups { file: A, groups: lines.iter().map(line).collect() }
}

fn chunks(groups: Vec<Range<u32>>, lens: &[u32]) -> ToReceiver {
    ToReceiver::Chunks { file: A, groups, chunks: chunk_lines(lens) }
}

fn recipe(lens: &[u32]) -> ToReceiver {
    ToReceiver::Recipe { file: A, chunks: chunk_lines(lens) }
}

fn chunk_lines(lens: &[u32]) -> ChunkLines {
    let brief = ChunkPrefix::from_bytes(&[8; 4]).unwrap();
    ChunkLines(lens.iter().map(|len| ChunkLine { len: *len, brief }).collect())
}

fn fill(chunks: Vec<Range<u32>>, len: usize) -> ToReceiver {
    ToReceiver::Fill { file: A, chunks, payload: Payload::Plain(vec![1; len]) }
}

/// The file `a` in one frame.
fn single(meta: Option<Meta>, len: usize) -> ToReceiver {
    let (digest, payload) = (BriefDigest::from_bytes([9; 16]), Payload::Plain(vec![7; len]));
    ToReceiver::Single { file: A, meta, digest, payload }
}

/// The file `a` as listed, in one frame.
fn short_single(len: usize) -> ToReceiver {
    ToReceiver::ShortSingle { file: A, digest: [9; 8], payload: Payload::Plain(vec![7; len]) }
}

/// Gaps as nothing but literals, `len` bytes in all.
fn mended(gaps: Vec<Range<u32>>, len: usize) -> ToReceiver {
    let mut deltas = Vec::new();
    let nothing = GapSums::sums_of(&[], BlockLen::for_gap(0, 2), 0);
    GapDelta::of(&vec![1; len], &nothing, 0).encode(&mut deltas);
    let bytes = deltas.len() as u32;
    ToReceiver::Mended { file: A, gaps, bytes, payload: Payload::Plain(deltas) }
}

fn mend(file: FileNo, chunks: Range<u32>, old: usize) -> ToSender {
    let sums = GapSums::sums_of(&vec![1; old], BlockLen::for_gap(old as u64, 2), 0);
    ToSender::Mend { file, gaps: vec![GapLine { chunks, sums }] }
}

fn digests(file: FileNo) -> ToReceiver {
    let digest = Some(Digest::from_bytes([1; 32]));
    ToReceiver::Digests(vec![DigestLine { file, digest }])
}

fn short_digests(file: FileNo) -> ToReceiver {
    let line = ShortDigestLine { file, digest: Some([1; 10]) };
    ToReceiver::ShortDigests(ShortDigestLines(vec![line]))
}

fn end() -> ToReceiver {
    ToReceiver::End { file: A, digest: Digest::from_bytes([9; 32]) }
}

fn failed(attempt: u32) -> ToReceiver {
    ToReceiver::Failed { file: A, attempt, trouble: trouble(TroubleKind::Failed) }
}

fn owners(id: u32, name: &str) -> ToReceiver {
    let users = vec![NameLine { id, name: name.as_bytes().into() }];
    ToReceiver::Owners { users, groups: Vec::new() }
}

/// One of each frame, as it could be about the file `a`.
fn each_to_receiver() -> Vec<(&'static str, ToReceiver)> {
    let foreign = FileNo(1 << 40);
    vec![
        ("Listing", listing("", &[("z", file_of(1))], Extent::Last)),
        ("Listing.More", listing("", &[("z", file_of(1))], Extent::More)),
        ("Listing.below", listing("d", &[("z", file_of(1))], Extent::Last)),
        ("ShortListing", {
            let z = Entry { name: name("z"), meta: file_of(1) };
            let (dir, entries) = (short_path(""), ShortEntries(vec![z]));
            ToReceiver::ShortListing { dir, own: None, entries, extent: Extent::Last }
        }),
        ("Owners", owners(1, "root")),
        ("Listed", ToReceiver::Listed { intact: true }),
        ("Start", start(3000)),
        ("Start.whole", start_whole(3000)),
        ("Start.changes", start_changes(3000)),
        ("Moved", moved(&[(0, 1, 1)])),
        (
            "Start.foreign",
            ToReceiver::Start {
                file: foreign,
                meta: file_of(1),
                how: TransferKind::Recipe,
                spec: ChunkerSpec::for_len(1),
            },
        ),
        ("Offer", offer(3000)),
        ("Offer.foreign", {
            let spec = ChunkerSpec::for_len(1);
            ToReceiver::Offer { file: foreign, meta: file_of(1), spec }
        }),
        ("Groups", groups(&[(3000, 2)])),
        ("Groups.foreign", ToReceiver::Groups { file: foreign, groups: Vec::new() }),
        ("Chunks", chunks(one(0..1), &[1000, 2000])),
        ("Recipe", recipe(&[1000, 2000])),
        ("Recipe.foreign", ToReceiver::Recipe { file: foreign, chunks: ChunkLines(Vec::new()) }),
        ("Fill", fill(one(0..1), 1000)),
        (
            "Fill.foreign",
            ToReceiver::Fill { file: foreign, chunks: one(0..1), payload: Payload::Plain(vec![1]) },
        ),
        ("Single", single(Some(file_of(3000)), 3000)),
        ("Single.listed", single(None, 3000)),
        ("Single.long", single(None, 3001)),
        ("Single.empty", single(Some(file_of(0)), 0)),
        ("ShortSingle", short_single(3000)),
        ("ShortSingle.long", short_single(3001)),
        ("Mended", mended(one(0..2), 3000)),
        (
            "Mended.foreign",
            ToReceiver::Mended {
                file: foreign,
                gaps: one(0..1),
                bytes: 1,
                payload: Payload::Plain(vec![1]),
            },
        ),
        ("Start.strategy", start_by("parasync")),
        ("Start.blocks", start_by("rsync")),
        ("Keeps", ToReceiver::Keeps { file: A, kept: keeps(SumKind::Sha256, 4096) }),
        ("Keeps.nothing", ToReceiver::Keeps { file: A, kept: None }),
        ("Keeps.foreign", ToReceiver::Keeps { file: foreign, kept: None }),
        ("Sums", sums_of_old("parasync")),
        ("Sums.blocks", sums(&[(8192, 1), (1808, 2)], 16)),
        ("Sums.incomplete", sums(&[(8192, 1)], 0)),
        ("Sums.again", {
            let sums = vec![SumLine::Again(1)];
            ToReceiver::Sums { file: A, sums, extent: Extent::More }
        }),
        ("Deny", deny(one(0..1))),
        ("Deny.nothing", deny(Vec::new())),
        ("Deny.beyond", deny(one(1..u32::MAX))),
        ("Patch", patch(vec![PatchStep::Copy(0..1)], 0)),
        ("Patch.literal", patch(vec![PatchStep::Literal(5), PatchStep::Copy(0..1)], 5)),
        ("Patch.beyond", patch(vec![PatchStep::Copy(0..u32::MAX)], 0)),
        ("Patch.much", patch(vec![PatchStep::Literal(10_001)], 10_001)),
        ("Patch.nothing", patch(Vec::new(), 0)),
        ("Digests", digests(A)),
        ("Digests.foreign", digests(foreign)),
        ("Digests.twice", {
            let line = DigestLine { file: A, digest: None };
            ToReceiver::Digests(vec![line; 2])
        }),
        ("ShortDigests", short_digests(A)),
        ("ShortDigests.foreign", short_digests(foreign)),
        ("Restless", ToReceiver::Restless { file: A }),
        ("Restless.foreign", ToReceiver::Restless { file: foreign }),
        ("End", end()),
        ("Failed", failed(1)),
        ("Failed.later", failed(9)),
        ("Trouble", ToReceiver::Trouble(trouble(TroubleKind::Failed))),
        ("Tally", tally("d")),
        ("ShortTally", short_tally("d")),
        ("CutTally", cut_tally("d")),
    ]
}

/// A sender of `a` (3,000 bytes), `b` (600 kB) and `d/`.
struct Target {
    machine: Sender,
    hands: Source,
    frames: Vec<ToReceiver>,
}

/// The numbers that the sender's list gives them.
const NUMBERS: [FileNo; 2] = [FileNo(0), FileNo(1)];

impl Target {
    fn of(tree: Tree) -> Self {
        Self::with(tree, options())
    }

    fn with(tree: Tree, options: Options) -> Self {
        let hands = Source::new(tree, Some(dir()), Dice::new(3));
        let mut target = Self { machine: Sender::new(options), hands, frames: Vec::new() };
        target.machine.use_short_forms(ShortForms { answers: true, ..ShortForms::default() });
        target.work();
        target
    }

    /// `a`, of a megabyte, is wanted by a strategy of the papers, and told.
    fn by(name: &str) -> Self {
        let strategy = Strategy::by_name(name).unwrap();
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(Dice::new(1).bytes(1 << 20), NOW, 0o600));
        tree.0.insert(path("b"), Node::file(vec![1; 600_000], NOW, 0o600));
        tree.0.insert(path("d"), Node::other(Kind::Dir, NOW, 0o700));
        let mut target = Self::with(tree, Options { strategy, ..options() });
        target.take([ToSender::Want { file: A, how: TransferKind::Strategy }]).unwrap();
        target
    }

    /// `a` is wanted by SkySync's blocks, and both ends may agree on sums that storage keeps.
    fn agreeing() -> Self {
        let options = Options { strategy: Strategy::by_name("skysync-f").unwrap(), ..options() };
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(Dice::new(1).bytes(1 << 20), NOW, 0o600));
        tree.0.insert(path("b"), Node::file(vec![1; 600_000], NOW, 0o600));
        tree.0.insert(path("d"), Node::other(Kind::Dir, NOW, 0o700));
        let mut target = Self::with(tree, options);
        target.machine.negotiate_stored_sums();
        target.take([ToSender::Want { file: A, how: TransferKind::Strategy }]).unwrap();
        assert!(target.frames.contains(&ToReceiver::Keeps { file: A, kept: None }));
        target
    }

    /// The receiver said what the sums of old are made of.
    fn signed() -> Self {
        let mut target = Self::agreeing();
        let by = keeps(SumKind::Blake2b, 4096);
        target.take([ToSender::Signs { file: A, by }]).unwrap();
        target
    }

    /// Nearly all chunks were named as one run, which is not what the receiver has.
    fn split() -> Self {
        let mut target = Self::by("netsync");
        let told = |frame: &ToReceiver| match frame {
            ToReceiver::Sums { sums, .. } => sums.len() as u32,
            _ => 0,
        };
        let chunks: u32 = target.frames.iter().map(told).sum();
        let run = token(1..chunks, TokenScope::Run, 20);
        target.take([matching(one(0..1), vec![run])]).unwrap();
        let denied = ToReceiver::Deny { file: A, chunks: one(1..chunks) };
        assert!(target.frames.contains(&denied), "{:?}", target.frames);
        target
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(old_bytes()[..3000].to_vec(), NOW, 0o600));
        tree.0.insert(path("b"), Node::file(vec![1; 600_000], NOW, 0o600));
        tree.0.insert(path("d"), Node::other(Kind::Dir, NOW, 0o700));
        tree
    }

    /// The receiver asked for the digest of `a`.
    fn asked() -> Self {
        let mut target = Self::plain();
        target.take([ToSender::Digest(vec![A])]).unwrap();
        target
    }

    fn plain() -> Self {
        let target = Self::with(Self::tree(), Options { checksum: true, ..options() });
        assert!(target.frames.contains(&ToReceiver::Listed { intact: true }));
        target
    }

    fn take(&mut self, frames: impl IntoIterator<Item = ToSender>) -> Result<(), PeerError> {
        for frame in frames {
            self.machine.handle(frame)?;
            self.work();
        }
        Ok(())
    }

    fn work(&mut self) {
        while let Some((id, work)) = self.machine.poll_work() {
            let answer = self.hands.perform(work);
            self.machine.answer(id, answer).unwrap();
        }
        self.frames.extend(std::iter::from_fn(|| self.machine.poll_frame()));
        while self.machine.poll_notice().is_some() {}
    }

    fn refusal(&mut self, frame: ToSender) -> PeerError {
        self.take([frame]).expect_err("it is refused")
    }

    fn wanted() -> Self {
        let mut target = Self::plain();
        // What is resumed is told in groups, however short it is.
        target.take([resume(A, ChunkerSpec::for_len(3000))]).unwrap();
        target
    }

    /// `a`, the only file, has been offered.
    fn offered() -> Self {
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(old_bytes()[..3000].to_vec(), NOW, 0o600));
        let mut target = Self::of(tree);
        target.machine.note_slow_answer();
        target.work();
        let offered = |frame: &ToReceiver| matches!(frame, ToReceiver::Offer { file: A, .. });
        assert!(target.frames.iter().any(offered), "{:?}", target.frames);
        assert!(matches!(target.frames.last(), Some(ToReceiver::End { file: A, .. })));
        target
    }

    fn lacked() -> Self {
        let mut target = Self::wanted();
        target.take([ToSender::Lack { file: A, groups: one(0..1) }]).unwrap();
        target
    }

    fn needed() -> Self {
        let mut target = Self::lacked();
        target.take([ToSender::Need { file: A, chunks: one(0..1) }]).unwrap();
        target
    }

    /// The sender could not read `a`; the receiver may not know yet.
    fn failed() -> Self {
        let mut target = Self::plain();
        target.hands.faults.scan = 100;
        target.take([want(A)]).unwrap();
        target
    }

    fn finished() -> Self {
        let mut target = Self::plain();
        target.take([ToSender::Settled { upto: FileNo(3) }]).unwrap();
        target.take([ToSender::Finished(Totals::default())]).unwrap();
        target
    }
}

fn moved(runs: &[(u32, u32, u32)]) -> ToReceiver {
    let run = |&(to, from, blocks)| MovedRun { to, from, blocks };
    ToReceiver::Moved { file: A, runs: runs.iter().map(run).collect() }
}

fn start_changes(len: u64) -> ToReceiver {
    let spec = Limits::changed_file_chunker();
    ToReceiver::Start { file: A, meta: file_of(len), how: TransferKind::Changes, spec }
}

fn want(file: FileNo) -> ToSender {
    ToSender::Want { file, how: TransferKind::Recipe }
}

fn resume(file: FileNo, spec: ChunkerSpec) -> ToSender {
    ToSender::Resume { file, key: Key::from_bytes([1; 32]), spec }
}

fn blocks() -> ChunkerSpec {
    ChunkerSpec::Fixed(FixedLen::new(WHOLE_BLOCK_BYTES).unwrap())
}

fn keeps(kind: SumKind, block_bytes: u32) -> Option<BlockSumSpec> {
    Some(BlockSumSpec::new(kind, block_bytes).unwrap())
}

fn token(chunks: Range<u32>, over: TokenScope, strong: usize) -> Token {
    Token { chunks, over, strong: StrongSum::from_bytes(&vec![3; strong]).unwrap() }
}

fn matching(needs: Vec<Range<u32>>, tokens: Vec<Token>) -> ToSender {
    ToSender::Match { file: A, needs, tokens }
}

fn old_sums(lens: &[u32], strong: usize) -> ToSender {
    let strong = StrongSum::from_bytes(&vec![3; strong]).unwrap();
    let line = |&len: &u32| SumLine::New(Sum { len, weak: 1, strong });
    ToSender::Sums { file: A, sums: lens.iter().map(line).collect(), extent: Extent::Last }
}

fn created(file: FileNo) -> ToSender {
    ToSender::Answers(Answers { outcomes: vec![Outcome::Created(file)], ..Answers::default() })
}

fn each_to_sender() -> Vec<(&'static str, ToSender)> {
    let foreign = FileNo(1 << 40);
    let same = Done::Same { touched: false, differs: Differs::default() };
    let (item, action, differs) = (EntryType::Dir, Action::Created, Differs::default());
    vec![
        ("Want", want(A)),
        ("Want.whole", ToSender::Want { file: A, how: TransferKind::Whole }),
        ("Want.foreign", want(foreign)),
        ("Base", ToSender::Base { file: A, base: Digest::from_bytes([1; 32]) }),
        ("Base.foreign", ToSender::Base { file: foreign, base: Digest::from_bytes([1; 32]) }),
        ("Want.changes", ToSender::Want { file: A, how: TransferKind::Changes }),
        ("Resume", resume(A, ChunkerSpec::for_len(3000))),
        ("Resume.whole", resume(A, blocks())),
        ("Resume.finer", resume(A, FixedLen::new(512).map(ChunkerSpec::Fixed).unwrap())),
        ("Resume.foreign", resume(foreign, blocks())),
        ("Want.dir", want(FileNo(2))),
        ("Want.tail", ToSender::Want { file: A, how: TransferKind::Tail }),
        ("Append", ToSender::Append { file: A, from: 2999 }),
        ("Append.beyond", ToSender::Append { file: A, from: u64::MAX }),
        ("Append.foreign", ToSender::Append { file: foreign, from: 0 }),
        ("Digest", ToSender::Digest(vec![A, NUMBERS[1]])),
        ("Digest.nothing", ToSender::Digest(Vec::new())),
        ("Digest.twice", ToSender::Digest(vec![A; 2])),
        ("Digest.foreign", ToSender::Digest(vec![foreign])),
        ("Settled", ToSender::Settled { upto: A }),
        ("Settled.all", ToSender::Settled { upto: FileNo(3) }),
        ("Settled.beyond", ToSender::Settled { upto: FileNo(4) }),
        ("Lack", ToSender::Lack { file: A, groups: one(0..1) }),
        ("Lack.nothing", ToSender::Lack { file: A, groups: Vec::new() }),
        ("Lack.foreign", ToSender::Lack { file: foreign, groups: Vec::new() }),
        ("Need", ToSender::Need { file: A, chunks: one(0..1) }),
        ("Need.nothing", ToSender::Need { file: A, chunks: Vec::new() }),
        ("Need.foreign", ToSender::Need { file: foreign, chunks: Vec::new() }),
        ("Mend", mend(A, 0..1, 500)),
        ("Mend.nothing", ToSender::Mend { file: A, gaps: Vec::new() }),
        ("Mend.much", mend(A, 0..1, 100_000)),
        ("Mend.beyond", mend(A, 0..100, 500)),
        ("Mend.foreign", mend(foreign, 0..1, 500)),
        ("Want.strategy", ToSender::Want { file: A, how: TransferKind::Strategy }),
        ("Want.stronger", ToSender::Want { file: A, how: TransferKind::Stronger }),
        ("Signs", ToSender::Signs { file: A, by: keeps(SumKind::Sha256, 4096) }),
        ("Signs.nothing", ToSender::Signs { file: A, by: None }),
        ("Signs.short", ToSender::Signs { file: A, by: keeps(SumKind::Xxh64, 4096) }),
        ("Signs.foreign", ToSender::Signs { file: foreign, by: None }),
        ("Sums.kept", old_sums(&[4096, 4096, 5], 32)),
        ("Sums", old_sums(&[8192, 8192, 5], 16)),
        ("Sums.long", old_sums(&[8193], 16)),
        ("Sums.behind", old_sums(&[5, 8192], 16)),
        ("Sums.strong", old_sums(&[8192], 15)),
        ("Sums.nothing", old_sums(&[], 16)),
        ("Match", matching(one(1..2), vec![token(2..3, TokenScope::Run, 20)])),
        ("Match.short", matching(Vec::new(), vec![token(2..3, TokenScope::Run, 16)])),
        ("Match.each", matching(Vec::new(), vec![token(1..3, TokenScope::Each, 16)])),
        ("Match.first", matching(one(0..1), Vec::new())),
        ("Match.twice", matching(vec![5..6, 5..6], Vec::new())),
        ("Match.runs", matching(Vec::new(), vec![token(5..7, TokenScope::Run, 20)])),
        ("Match.beyond", matching(one(0..u32::MAX), Vec::new())),
        ("Match.nothing", matching(Vec::new(), Vec::new())),
        ("Need.blocks", ToSender::Need { file: A, chunks: vec![0..2, 5..6] }),
        ("Need.again", ToSender::Need { file: A, chunks: vec![0..2, 1..2] }),
        ("Need.beyond", ToSender::Need { file: A, chunks: one(0..u32::MAX) }),
        ("Done", ToSender::Done { file: A, done: same.clone() }),
        ("Done.foreign", ToSender::Done { file: foreign, done: same }),
        ("Answers", ToSender::Answers(Answers::default())),
        ("Answers.wanted", ToSender::Answers(Answers { wanted: vec![A], ..Answers::default() })),
        ("Answers.twice", ToSender::Answers(Answers { wanted: vec![A; 4], ..Answers::default() })),
        ("Answers.created", created(A)),
        ("Answers.foreign", created(foreign)),
        (
            "Answers.settled",
            ToSender::Answers(Answers { upto: Some(FileNo(3)), ..Answers::default() }),
        ),
        (
            "Answers.beyond",
            ToSender::Answers(Answers { upto: Some(FileNo(4)), ..Answers::default() }),
        ),
        ("Credit", ToSender::Credit { bytes: 1, more: 0, held_us: None }),
        ("MadeRoot", ToSender::MadeRoot(MadeRoot { dirs: 1, holds_file: false })),
        (
            "Changed",
            ToSender::Changed(Change {
                path: path("a"),
                item,
                action,
                differs,
                facts: Facts::default(),
            }),
        ),
        ("Trouble", ToSender::Trouble(trouble(TroubleKind::Failed))),
        ("Tallied", tallied(one(0..1), Vec::new())),
        ("Finished", ToSender::Finished(Totals::default())),
    ]
}

/// A state's name and a machine in it.
type State<M> = (&'static str, fn() -> M);

/// The whole table is pinned: a frame that is refused today is not let through tomorrow by accident.
#[test]
fn every_frame_has_its_answer_in_every_state() {
    let receivers: [State<Victim>; 21] = [
        ("new", Victim::plain),
        ("new file", || Victim::wanted_whole(3000)),
        ("offered", Victim::offered),
        ("wanted", Victim::wanted),
        ("started", || Victim::started(3000)),
        ("lacked", Victim::lacked),
        ("facing", Victim::facing),
        ("needed", Victim::needed),
        ("whole", || Victim::whole(3000)),
        ("given up", || {
            let mut victim = Victim::needed();
            victim.take([failed(1)]).unwrap();
            victim
        }),
        ("listed", || {
            let mut victim = Victim::needed();
            victim.take([ToReceiver::Listed { intact: true }]).unwrap();
            victim
        }),
        ("finished", Victim::finished),
        ("by parasync", || Victim::by("parasync")),
        ("asked", Victim::asked),
        ("by webr2sync", || Victim::by("webr2sync")),
        ("rolled", Victim::rolled),
        ("by rsync", || Victim::by("rsync")),
        ("agreeing", Victim::agreeing),
        ("signed", Victim::signed),
        ("compared", Victim::compared),
        ("by changes", || Victim::based(10_000)),
    ];
    let senders: [State<Target>; 16] = [
        ("listed", Target::plain),
        ("offered", Target::offered),
        ("wanted", Target::wanted),
        ("lacked", Target::lacked),
        ("needed", Target::needed),
        ("failed", Target::failed),
        ("finished", Target::finished),
        ("told", || Target::by("netsync")),
        ("named", || {
            let mut target = Target::by("parasync");
            target.take([matching(one(0..1), Vec::new())]).unwrap();
            target
        }),
        ("split", Target::split),
        ("by webr2sync", || Target::by("webr2sync")),
        ("by rsync", || Target::by("rsync")),
        ("agreeing", Target::agreeing),
        ("signed", Target::signed),
        ("asked", Target::asked),
        ("without -c", || Target::of(Target::tree())),
    ];
    let mut table = String::new();
    for (state, make) in receivers {
        for (name, frame) in each_to_receiver() {
            let mut victim = make();
            let before = format!("{:?}", victim.machine);
            let result = victim.take([frame]);
            let ignored = before == format!("{:?}", victim.machine);
            writeln!(table, "receiver, {state}: {name}: {}", shown(result, ignored)).unwrap();
        }
    }
    for (state, make) in senders {
        for (name, frame) in each_to_sender() {
            let mut target = make();
            let before = format!("{:?}", target.machine);
            let result = target.take([frame]);
            let ignored = before == format!("{:?}", target.machine);
            writeln!(table, "sender, {state}: {name}: {}", shown(result, ignored)).unwrap();
        }
    }
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(GOLDEN, &table).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    for (line, golden) in table.lines().zip(golden.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(table.lines().count(), golden.lines().count());
}

fn shown(result: Result<(), PeerError>, ignored: bool) -> String {
    match result {
        Ok(()) => if ignored { "ignored" } else { "taken" }.into(),
        Err(error) => error.to_string(),
    }
}

/// A chunk has as many candidates as the strategy allows. A sender refutes each of them, and refuses more.
#[test]
fn a_sender_refuses_more_candidates_than_the_strategy_has() {
    let unfit = PeerError::Unexpected("more candidates than the strategy has");
    let tokens = |count: usize, strong| vec![token(1..2, TokenScope::Run, strong); count];
    let mut target = Target::by("parasync");
    target.take([matching(Vec::new(), tokens(MAX_CANDIDATES, 16))]).unwrap();
    let denied = ToReceiver::Deny { file: A, chunks: vec![1..2; MAX_CANDIDATES] };
    assert!(target.frames.contains(&denied), "{:?}", target.frames);
    let mut target = Target::by("parasync");
    assert_eq!(target.refusal(matching(Vec::new(), tokens(MAX_CANDIDATES + 1, 16))), unfit);
    let mut target = Target::by("dsync");
    assert_eq!(target.refusal(matching(Vec::new(), tokens(2, 20))), unfit);
}

/// Law 9: a weaker sum that lied is not believed again.
#[test]
fn what_is_not_proven_comes_by_the_stronger_sum_and_then_whole() {
    let mut victim = Victim::by("webr2sync+");
    let spec = Strategy::by_name("webr2sync+").unwrap().chunker(10_000, None);
    for (strong, next) in [(8, TransferKind::Stronger), (16, TransferKind::Whole)] {
        victim.frames.clear();
        let literals = [fill(one(0..1), 8192), fill(one(1..2), 1808)];
        victim.take([sums(&[(8192, 1), (1808, 2)], strong)]).unwrap();
        victim.take(literals.into_iter().chain([end()])).unwrap();
        let wants = ToSender::Want { file: A, how: next };
        assert!(victim.frames.contains(&wants), "{:?}", victim.frames);
        if next == TransferKind::Stronger {
            let (file, meta) = (A, file_of(10_000));
            victim.take([ToReceiver::Start { file, meta, how: next, spec }]).unwrap();
        }
    }
    assert_eq!(*victim.hands.tree.0[&path("a")].bytes, old_bytes());
}

/// Who writes both versions can give every chunk one weak sum: each of new is looked for once, and no more bytes of old
/// are hashed than new has.
#[test]
fn forged_weak_sums_cost_one_look_and_one_strong_sum_for_each_chunk() {
    const CHUNKS: usize = 120_000;
    let len = CHUNKS as u64 * 8192;
    let forged = Sum { len: 8192, weak: 7, strong: StrongSum::NONE };
    // The first of old is of another length.
    let olds = [&[Sum { len: 4096, ..forged }][..], &vec![forged; CHUNKS]].concat();
    for name in ["dsync", "netsync", "skysync-c"] {
        let strategy = Strategy::by_name(name).unwrap();
        let options = Options { strategy, ..options() };
        let mut victim = Victim::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(len))], Extent::Last)]).unwrap();
        let (file, meta, how) = (A, file_of(len), TransferKind::Strategy);
        let spec = strategy.chunker(len, None);
        victim.machine.handle(ToReceiver::Start { file, meta, how, spec }).unwrap();
        for (nth, batch) in vec![forged; CHUNKS].chunks(MAX_BATCH).enumerate() {
            let last = (nth + 1) * MAX_BATCH >= CHUNKS;
            let extent = if last { Extent::Last } else { Extent::More };
            let sums = batch.iter().map(|sum| SumLine::New(*sum)).collect();
            victim.machine.handle(ToReceiver::Sums { file: A, sums, extent }).unwrap();
        }
        let mut hashed = 0;
        while let Some((id, work)) = victim.machine.poll_work() {
            let answer = match work {
                receiver::ReceiverWork::Old(receiver::OldVersionWork::SumOld { .. }) => {
                    receiver::ReceiverAnswer::Old(receiver::OldVersionAnswer::Summed(Ok(
                        Summed::Chunks(olds.clone(), true),
                    )))
                }
                receiver::ReceiverWork::Old(receiver::OldVersionWork::HashOld {
                    strong,
                    spans,
                    ..
                }) => {
                    hashed += spans.iter().map(|span| u64::from(span.len)).sum::<u64>();
                    let sums = vec![strong.sum_of(None, b"old"); spans.len()];
                    receiver::ReceiverAnswer::Old(receiver::OldVersionAnswer::Hashed(Ok(sums)))
                }
                other => panic!("{other:?}"),
            };
            victim.machine.answer(id, answer).unwrap();
        }
        // The one that is taken; the first of old is too short to be compared.
        assert_eq!(victim.machine.counts().weak, CHUNKS as u64, "{name}");
        assert!(hashed <= len, "{name}: {hashed}");
    }
}

/// ParaSync §3.2: a weak sum that 120,000 chunks share. They are dealt out in batches that any thread may take, each of
/// which takes the strong sum of the one chunk of old that has it once.
#[test]
fn chunks_that_share_a_weak_sum_are_dealt_out_and_hashed_once_a_batch() {
    const CHUNKS: usize = 120_000;
    for name in ["dsync", "pdsync", "netsync", "parasync", "skysync-c"] {
        let strategy = Strategy::by_name(name).unwrap();
        let ToReceiver::Sums { sums: old, .. } = sums_of_old(name) else { unreachable!() };
        let SumLine::New(shared) = old[0] else { unreachable!() };
        // Between them are others, so that they make no runs.
        let other = Sum { weak: shared.weak ^ 1, ..shared };
        let lines: Vec<_> = [shared, other].into_iter().cycle().take(2 * CHUNKS).collect();
        let len = 2 * CHUNKS as u64 * u64::from(shared.len);
        let options = Options { strategy, ..options() };
        let mut victim = Victim::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(len))], Extent::Last)]).unwrap();
        let (file, meta, how) = (A, file_of(len), TransferKind::Strategy);
        let spec = strategy.chunker(len, None);
        victim.take([ToReceiver::Start { file, meta, how, spec }]).unwrap();
        for (nth, batch) in lines.chunks(MAX_BATCH).enumerate() {
            let last = (nth + 1) * MAX_BATCH >= lines.len();
            let extent = if last { Extent::Last } else { Extent::More };
            let sums = batch.iter().map(|sum| SumLine::New(*sum)).collect();
            victim.machine.handle(ToReceiver::Sums { file: A, sums, extent }).unwrap();
        }
        let (mut batches, mut at_once, mut hashed) = (Vec::new(), 0, 0);
        let mut named = vec![0; lines.len()];
        loop {
            while let Some((id, work)) = victim.machine.poll_work() {
                batches.push((id, work));
            }
            at_once = at_once.max(batches.len());
            while let Some(frame) = victim.machine.poll_frame() {
                let ToSender::Match { needs, tokens, .. } = frame else { continue };
                let ranges = needs.into_iter().chain(tokens.into_iter().map(|token| token.chunks));
                ranges.flatten().for_each(|chunk| named[chunk as usize] += 1);
            }
            let Some((id, work)) = batches.pop() else { break };
            let receiver::ReceiverWork::Old(receiver::OldVersionWork::HashOld {
                strong,
                spans,
                ..
            }) = work
            else {
                panic!("{work:?}")
            };
            hashed += spans.len();
            let sums = vec![strong.sum_of(None, b"old"); spans.len()];
            victim
                .machine
                .answer(
                    id,
                    receiver::ReceiverAnswer::Old(receiver::OldVersionAnswer::Hashed(Ok(sums))),
                )
                .unwrap();
        }
        assert!(named.iter().all(|times| *times == 1), "{name}");
        assert!(hashed <= CHUNKS / 20, "{name}: {hashed} of {CHUNKS}");
        let in_turn = strategy.parallel == ParallelMode::No;
        assert_eq!(at_once == 1, in_turn, "{name}: {at_once} batches at once");
    }
}

#[test]
fn names_that_leave_the_root_do_not_decode() {
    let frame = |name: &[u8]| {
        let mut payload = vec![0, 0, 1, name.len() as u8];
        payload.extend_from_slice(name);
        payload.extend_from_slice(&[1, 0, 0, 0, 1]);
        ToReceiver::decode(16, &payload)
    };
    assert!(frame(b"fine").is_ok());
    for bad in [&b""[..], b".", b"..", b"/", b"a/b", b"/etc", b"a\0b", b"../x"] {
        assert!(matches!(frame(bad), Err(PeerError::BadName { frame: "Listing", .. })), "{bad:?}");
    }
    for bad in [&b"/"[..], b"/etc", b"a/../b", b"..", b"a//b", b"a/", b".", b"a\0"] {
        let mut payload = vec![bad.len() as u8];
        payload.extend_from_slice(bad);
        payload.extend_from_slice(&[0, 0, 1]);
        assert!(
            matches!(ToReceiver::decode(16, &payload), Err(PeerError::BadName { .. })),
            "{bad:?}"
        );
    }
}

#[test]
fn entries_out_of_order_or_twice_are_refused() {
    let out_of_order = PeerError::Unexpected("names out of order");
    for names in [["b", "a"], ["a", "a"]] {
        let entries: Vec<_> = names.iter().map(|name| (*name, file_of(1))).collect();
        let frame = listing("", &entries, Extent::Last);
        assert_eq!(Victim::plain().refusal(frame), out_of_order);
    }
    let mut victim = Victim::plain();
    victim.take([listing("", &[("b", file_of(1))], Extent::More)]).unwrap();
    assert_eq!(victim.refusal(listing("", &[("b", file_of(1))], Extent::Last)), out_of_order);
}

#[test]
fn a_file_and_a_link_of_one_name_are_refused() {
    let link = Meta { kind: Kind::Symlink(b"/etc"[..].into()), ..dir() };
    let frame = listing("", &[("a", link), ("a", file_of(1))], Extent::Last);
    assert_eq!(Victim::plain().refusal(frame), PeerError::Unexpected("names out of order"));
}

#[test]
fn nothing_can_be_listed_below_a_link_or_a_file() {
    let link = Meta { kind: Kind::Symlink(b"/etc"[..].into()), ..dir() };
    let unlisted = PeerError::Unexpected("a listing of a directory that was not listed");
    for meta in [link, file_of(1)] {
        let mut victim = Victim::plain();
        victim.take([listing("", &[("x", meta)], Extent::Last)]).unwrap();
        assert_eq!(victim.refusal(listing("x", &[("passwd", file_of(1))], Extent::Last)), unlisted);
    }
}

#[test]
fn a_directory_is_listed_once_and_in_one_piece() {
    let unlisted = PeerError::Unexpected("a listing of a directory that was not listed");
    let both = [("d", dir()), ("e", dir())];
    let mut victim = Victim::plain();
    victim.take([listing("", &both, Extent::Last), listing("d", &[], Extent::Last)]).unwrap();
    assert_eq!(victim.refusal(listing("d", &[], Extent::Last)), unlisted);
    let mut victim = Victim::plain();
    let part = listing("d", &[("a", file_of(1))], Extent::More);
    victim.take([listing("", &both, Extent::Last), part]).unwrap();
    assert_eq!(victim.refusal(listing("e", &[], Extent::Last)), unlisted);
}

#[test]
fn a_list_ends_when_all_that_was_announced_was_listed() {
    let incomplete = PeerError::Unexpected("the end of an incomplete list");
    let mut victim = Victim::plain();
    assert_eq!(victim.refusal(ToReceiver::Listed { intact: true }), incomplete);
    let mut victim = Victim::plain();
    victim.take([listing("", &[("d", dir())], Extent::Last)]).unwrap();
    assert_eq!(victim.refusal(ToReceiver::Listed { intact: true }), incomplete);
}

#[test]
fn sections_that_say_nothing_are_refused() {
    let nothing = PeerError::Unexpected("an empty listing");
    assert_eq!(Victim::plain().refusal(listing("", &[], Extent::More)), nothing);
}

#[test]
fn metadata_of_its_own_belongs_to_the_first_section_of_the_root() {
    let own = PeerError::Unexpected("metadata of a directory that is not the root");
    let with_own = |at: &str| {
        let ToReceiver::Listing { dir, entries, extent, .. } =
            listing(at, &[("q", file_of(1))], Extent::More)
        else {
            unreachable!()
        };
        ToReceiver::Listing { dir, own: Some(self::dir()), entries, extent }
    };
    let mut victim = Victim::plain();
    victim.take([listing("", &[("d", dir())], Extent::Last)]).unwrap();
    assert_eq!(victim.refusal(with_own("d")), own);
    let mut victim = Victim::plain();
    victim.take([listing("", &[("a", file_of(1))], Extent::More)]).unwrap();
    assert_eq!(victim.refusal(with_own("")), own);
}

#[test]
fn names_that_were_not_asked_for_are_refused() {
    let setting =
        || Setting { options: options(), expect: Some([name("a")].into()), ..Setting::default() };
    let other = PeerError::Unexpected("a name that was not requested");
    for text in ["b", "aa", "A"] {
        let frame = listing("", &[(text, file_of(1))], Extent::Last);
        assert_eq!(Victim::new(setting()).refusal(frame), other);
    }
    let own = ToReceiver::Listing {
        dir: RelPath::root(),
        own: Some(dir()),
        entries: Vec::new(),
        extent: Extent::Last,
    };
    assert_eq!(Victim::new(setting()).refusal(own.clone()), other);
    let expect = Some(Expect { own: true, ..[name("a")].into() });
    Victim::new(Setting { expect, ..setting() }).take([own]).unwrap();
    let mut victim = Victim::new(setting());
    victim.take([listing("", &[("a", dir())], Extent::Last)]).unwrap();
    victim.take([listing("a", &[("b", file_of(1))], Extent::Last)]).unwrap();
}

#[test]
fn a_renamed_file_stays_alone() {
    let setting = Setting {
        options: options(),
        expect: Some([name("a")].into()),
        rename: Some(name("there")),
        ..Setting::default()
    };
    let mut victim = Victim::new(setting);
    victim.take([listing("", &[("a", file_of(0))], Extent::Last)]).unwrap();
    victim.take([start_whole(0), ToReceiver::End { file: A, digest: digest_of([]) }]).unwrap();
    let names: Vec<_> = victim.hands.tree.0.keys().cloned().collect();
    assert_eq!(names, [path("a"), path("there")]);
}

#[test]
fn entries_that_the_options_leave_out_are_refused_or_come_to_nothing() {
    let left_out = PeerError::Unexpected("an entry that the options exclude");
    let mut victim = Victim::new(Setting::default());
    assert_eq!(victim.refusal(listing("", &[("x", dir())], Extent::Last)), left_out);
    let link = Meta { kind: Kind::Symlink(b"/etc"[..].into()), ..dir() };
    let device = Meta { kind: Kind::Fifo, ..dir() };
    for meta in [link, device] {
        let mut victim = Victim::new(Setting::default());
        let before = victim.hands.tree.0.clone().into_keys().collect::<Vec<_>>();
        victim.take([listing("", &[("x", meta)], Extent::Last)]).unwrap();
        assert_eq!(victim.hands.tree.0.into_keys().collect::<Vec<_>>(), before);
    }
}

#[test]
fn metadata_that_was_not_asked_for_is_refused() {
    let unasked = PeerError::Unexpected("metadata that was not requested");
    let with = |more: ExtraMeta| Meta { more: more.into_box(), ..file_of(1) };
    let xattrs = vec![xattr("user.a", 1)];
    for meta in [
        Meta { user: Some(1), ..file_of(1) },
        Meta { group: Some(1), ..file_of(1) },
        with(ExtraMeta { accessed: Some(NOW), ..ExtraMeta::default() }),
        with(ExtraMeta { linked: Some(HardLink::First(2)), ..ExtraMeta::default() }),
        back(1),
        with(ExtraMeta { access_acl: Some(Acl::default()), ..ExtraMeta::default() }),
        with(ExtraMeta { default_acl: Some(Acl::default()), ..ExtraMeta::default() }),
        with(ExtraMeta { xattrs, ..ExtraMeta::default() }),
        with(ExtraMeta { unread: Some(UnreadReason::Other), ..ExtraMeta::default() }),
        with(ExtraMeta { implied: true, ..ExtraMeta::default() }),
    ] {
        let mut victim = Victim::new(Setting::default());
        assert_eq!(victim.refusal(listing("", &[("x", meta)], Extent::Last)), unasked);
    }
    let all = Metadata { acls: true, xattrs: true, accessed: true, ..Metadata::default() };
    let options = Options { metadata: all, ..options() };
    let default_acl = Some(Acl::default());
    let of_file = with(ExtraMeta { default_acl: default_acl.clone(), ..ExtraMeta::default() });
    let of_link = Meta {
        kind: Kind::Symlink(b"x"[..].into()),
        ..with(ExtraMeta { access_acl: default_acl, ..ExtraMeta::default() })
    };
    let read_dir = Meta {
        more: ExtraMeta { accessed: Some(NOW), ..ExtraMeta::default() }.into_box(),
        ..dir()
    };
    for meta in [of_file, of_link, read_dir] {
        let mut victim = Victim::new(Setting { options: options.clone(), ..Setting::default() });
        assert_eq!(victim.refusal(listing("", &[("x", meta)], Extent::Last)), unasked);
    }
}

/// Another name of the entry that was told so many before.
fn back(back: u64) -> Meta {
    let mut meta = Meta::without_owner(Kind::File, 0, Timestamp::default(), 0);
    meta.set_hard_link(Some(HardLink::Back(back)));
    meta
}

/// The first of so many names.
fn first(names: u32, mut meta: Meta) -> Meta {
    meta.set_hard_link(Some(HardLink::First(names)));
    meta
}

fn linking() -> Setting {
    let metadata = Metadata { hard_links: true, ..Metadata::default() };
    Setting { options: Options { metadata, ..options() }, ..Setting::default() }
}

#[test]
fn another_name_is_of_a_file_that_was_told() {
    let unknown = PeerError::Unexpected("a hard link to a file that was not listed");
    let two = || first(2, file_of(1));
    for (entries, why) in [
        (vec![("a", back(1))], "nothing was told before"),
        (vec![("a", two()), ("b", back(2))], "before the first"),
        (vec![("a", two()), ("b", back(u64::MAX))], "long before the first"),
        (vec![("a", file_of(1)), ("b", back(1))], "of one that has no other names"),
        (vec![("a", two()), ("b", back(1)), ("c", back(1))], "of another later name"),
        (vec![("a", two()), ("b", back(1)), ("c", back(2))], "more names than were announced"),
        (vec![("a", dir()), ("b", back(1))], "of a directory"),
    ] {
        let mut victim = Victim::new(linking());
        assert_eq!(victim.refusal(listing("", &entries, Extent::Last)), unknown, "{why}");
    }
    let mut victim = Victim::new(linking());
    let refused = victim.refusal(listing("", &[("d", first(2, dir()))], Extent::Last));
    assert_eq!(refused, PeerError::Unexpected("metadata that was not requested"));
    let own = Some(back(1));
    let mut victim = Victim::new(linking());
    let entries = Vec::new();
    let refused =
        victim.refusal(ToReceiver::Listing { dir: path(""), own, entries, extent: Extent::Last });
    assert_eq!(refused, PeerError::Unexpected("metadata that was not requested"));
}

#[test]
fn a_name_of_a_file_that_comes_to_nothing_keeps_nobody_waiting() {
    // A symbolic link that the options leave out leads; the other name comes to nothing as well, and the session ends.
    let metadata = Metadata { hard_links: true, ..Metadata::default() };
    let options = Options { links: false, metadata, ..options() };
    let mut victim = Victim::new(Setting { options, ..Setting::default() });
    let link = Meta { kind: Kind::Symlink(b"/etc"[..].into()), ..dir() };
    let entries = [("b", first(9, link)), ("c", back(1))];
    let list = [listing("", &entries, Extent::Last), ToReceiver::Listed { intact: true }];
    victim.take(list).unwrap();
    assert!(victim.machine.is_finished());
    assert_eq!(victim.hands.tree.0.into_keys().collect::<Vec<_>>(), [path("a")]);
}

#[test]
fn files_of_several_names_are_bounded_while_more_names_may_come() {
    let mut victim = Victim::new(linking());
    let mut told = 0;
    // The path of each is as long as a path may be, so that their bytes run out first. Names that are there settle at
    // once.
    let deep: Vec<String> = (0..15).map(|n| format!("{n:0250}")).collect();
    let dirs = (0..=deep.len()).map(|n| deep[..n].join("/")).collect::<Vec<_>>();
    for (at, below) in dirs.iter().zip(&deep) {
        let entries = [(below.as_str(), dir())];
        victim.take([listing(at, &entries, Extent::Last)]).unwrap();
    }
    let at = dirs.last().unwrap();
    let error = loop {
        let names: Vec<String> = (0..100).map(|n| format!("{:08}", told + n)).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), first(2, file_of(0)))).collect();
        for name in &names {
            let node = Node::file(Vec::new(), file_of(0).modified, 0o644);
            victim.hands.tree.0.insert(path(&format!("{at}/{name}")), node);
        }
        told += 100;
        if let Err(error) = victim.take([listing(at, &entries, Extent::More)]) {
            break error;
        }
        victim.frames.clear();
        victim.hands.tree.0.retain(|path, _| path.components().count() < 16);
    };
    assert_eq!(error, PeerError::Limit("files with hard links"));
    let least = MAX_LINKED_BYTES / (at.len() + 9);
    assert!((least..=least + 101).contains(&told), "{told}");
}

#[test]
fn what_links_of_several_names_point_at_is_bounded_too() {
    let metadata = Metadata { hard_links: true, ..Metadata::default() };
    let options = Options { links: false, metadata, ..options() };
    let mut victim = Victim::new(Setting { options, ..Setting::default() });
    let target = vec![b'x'; MAX_TEXT_BYTES].into_boxed_slice();
    let link = Meta { kind: Kind::Symlink(target), ..dir() };
    let mut told = 0;
    let error = loop {
        let names: Vec<String> = (0..100).map(|n| format!("{:08}", told + n)).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), first(2, link.clone()))).collect();
        told += names.len();
        if let Err(error) = victim.take([listing("", &entries, Extent::More)]) {
            break error;
        }
        victim.frames.clear();
    };
    assert_eq!(error, PeerError::Limit("files with hard links"));
    let least = MAX_LINKED_BYTES / (MAX_TEXT_BYTES + 8);
    assert!((least..=least + 100).contains(&told), "{told}");
}

#[test]
fn what_a_file_was_opened_with_says_nothing_of_owners() {
    let mut victim = Victim::plain();
    victim.take([listing("", &[("a", file_of(3000))], Extent::Last)]).unwrap();
    let ToReceiver::Start { file, meta, how, spec } = start_whole(3000) else { unreachable!() };
    let meta = Meta { user: Some(0), ..meta };
    let refused = victim.refusal(ToReceiver::Start { file, meta, how, spec });
    assert_eq!(refused, PeerError::Unexpected("a Start frame that does not fit the request"));
}

fn xattr(name: &str, len: usize) -> Xattr {
    Xattr { name: name.as_bytes().into(), value: vec![7; len].into() }
}

#[test]
fn attributes_too_long_too_many_or_of_other_namespaces_are_no_frame() {
    let decoded = |xattrs: Vec<Xattr>| {
        let meta =
            Meta { more: ExtraMeta { xattrs, ..ExtraMeta::default() }.into_box(), ..file_of(1) };
        let frame = listing("", &[("x", meta)], Extent::Last).encode();
        ToReceiver::decode(frame[0], &frame[deltic_protocol::frame::HEADER_BYTES..])
    };
    let many = |count: usize| {
        (0..count).map(|n| xattr(&format!("user.{n:02}"), 60_000)).collect::<Vec<_>>()
    };
    assert!(decoded(vec![xattr("user.a", 64 << 10), xattr("user.b", 0)]).is_ok());
    assert!(decoded(many(MAX_XATTRS_BYTES / 60_007)).is_ok());
    assert_eq!(
        decoded(many(MAX_XATTRS_BYTES / 60_007 + 1)).unwrap_err(),
        PeerError::Limit("bytes of extended attributes")
    );
    for bad in [
        vec![xattr("user.a", (64 << 10) + 1)],
        vec![xattr(&format!("user.{}", "n".repeat(251)), 1)],
        vec![xattr("system.posix_acl_access", 4)],
        vec![xattr("user.", 1)],
        vec![xattr("elsewhere", 1)],
        vec![xattr("user.a\0b", 1)],
        vec![xattr("user.b", 1), xattr("user.a", 1)],
        vec![xattr("user.a", 1), xattr("user.a", 1)],
    ] {
        let refused = decoded(bad.clone());
        assert!(matches!(refused, Err(PeerError::Malformed { .. })), "{bad:?}: {refused:?}");
    }
}

#[test]
fn names_are_told_once_and_not_without_end() {
    let mut victim = Victim::plain();
    victim.take([owners(1, "daemon"), owners(0, "root")]).unwrap();
    let again = PeerError::Unexpected("a second name of a user or group");
    assert_eq!(victim.refusal(owners(1, "other")), again);
    let mut victim = Victim::plain();
    (0..MAX_OWNER_NAMES as u32).for_each(|id| victim.take([owners(id, "x")]).unwrap());
    let limit = PeerError::Limit("names of users or groups");
    assert_eq!(victim.refusal(owners(MAX_OWNER_NAMES as u32, "x")), limit);
    let unasked = PeerError::Unexpected("names of users or groups");
    assert_eq!(Victim::new(Setting::default()).refusal(owners(1, "x")), unasked);
    let numeric = Metadata { users: true, numeric_ids: true, ..Metadata::default() };
    let options = Options { metadata: numeric, ..options() };
    let setting = Setting { options, ..Setting::default() };
    assert_eq!(Victim::new(setting).refusal(owners(1, "x")), unasked);
}

#[test]
fn a_name_too_deep_ends_the_session_and_shifts_nothing() {
    let mut victim = Victim::plain();
    let deep = "d/".repeat(255) + "d";
    let mut at = String::new();
    for _ in 0..256 {
        victim.take([listing(&at, &[("d", dir())], Extent::Last)]).unwrap();
        at = if at.is_empty() { "d".into() } else { at + "/d" };
    }
    assert_eq!(at, deep);
    let error = victim.refusal(listing(&at, &[("x", file_of(1))], Extent::Last));
    assert!(matches!(error, PeerError::BadName { .. }), "{error}");
}

#[test]
fn unsettled_entries_are_bounded() {
    let mut machine = Receiver::new(Setting { options: options(), ..Setting::default() });
    let mut told = 0;
    loop {
        let entries = (0..MAX_BATCH)
            .map(|n| Entry { name: name(&format!("{:09}", told + n as u64)), meta: file_of(1) });
        let frame = ToReceiver::Listing {
            dir: RelPath::root(),
            own: None,
            entries: entries.collect(),
            extent: Extent::More,
        };
        // No work is done: nothing is settled.
        match machine.handle(frame) {
            Ok(()) => told += MAX_BATCH as u64,
            Err(error) => {
                assert_eq!(error, PeerError::Limit("unsettled entries"));
                break;
            }
        }
    }
    assert!(told <= ENTRY_WINDOW + MAX_BATCH as u64, "{told}");
}

#[test]
fn attributes_of_unsettled_entries_are_bounded() {
    let metadata = Metadata { xattrs: true, ..Metadata::default() };
    let options = Options { metadata, ..options() };
    let mut machine = Receiver::new(Setting { options, ..Setting::default() });
    const VALUE_BYTES: usize = 60_000;
    let xattr = Xattr { name: (*b"user.a").into(), value: vec![7; VALUE_BYTES].into() };
    let more = ExtraMeta { xattrs: vec![xattr], ..ExtraMeta::default() }.into_box();
    let listing = |n: usize| ToReceiver::Listing {
        dir: RelPath::root(),
        own: None,
        entries: vec![Entry {
            name: name(&format!("{n:09}")),
            meta: Meta { more: more.clone(), ..dir() },
        }],
        extent: Extent::More,
    };
    // No work is done: nothing is settled.
    let refused = (0..1000).find_map(|n| machine.handle(listing(n)).err().map(|why| (n, why)));
    let (told, why) = refused.expect("so many are too much");
    assert_eq!(why, PeerError::Limit("attributes of unsettled entries"));
    assert!((LISTED_BYTES..LISTED_BYTES + MAX_FRAME_BYTES).contains(&(told * (VALUE_BYTES + 70))));
}

#[test]
fn unanswered_groups_are_bounded() {
    let mut victim = Victim::wanted_of(i64::MAX as u64);
    let huge = Meta { len: i64::MAX as u64, ..file_of(0) };
    let spec = ChunkerSpec::Fixed(FixedLen::new(512).unwrap());
    let frame = ToReceiver::Start { file: A, meta: huge, how: TransferKind::Recipe, spec };
    // Its old version is not indexed: nothing is answered.
    victim.machine.handle(frame).unwrap();
    let frame = groups(&[(512, 1); MAX_BATCH]);
    let error = (0..1000).find_map(|_| victim.machine.handle(frame.clone()).err());
    assert_eq!(error, Some(PeerError::Limit("unanswered groups")));
}

#[test]
fn an_offer_is_the_answer_to_the_want_that_follows() {
    let mut victim = Victim::offered();
    victim.take([groups(&[(3000, 2)])]).unwrap();
    let said = [
        ToSender::Settled { upto: FileNo(1) },
        ToSender::Want { file: A, how: TransferKind::Recipe },
        ToSender::Lack { file: A, groups: one(0..1) },
    ];
    assert!(said.iter().all(|frame| victim.frames.contains(frame)), "{:?}", victim.frames);
    assert_eq!(
        victim.refusal(start(3000)),
        PeerError::Unexpected("a Start frame that does not fit the request")
    );
}

/// Whose end may name chunks otherwise than the sender guessed does as if nothing had been offered.
#[test]
fn an_offer_by_other_names_is_ignored() {
    let mut victim = Victim::wanted();
    victim.take([offer(3000), groups(&[(3000, 2)])]).unwrap();
    let lacks = |frame: &ToSender| matches!(frame, ToSender::Lack { .. });
    assert!(!victim.frames.iter().any(lacks));
    victim.take([start(3000), groups(&[(3000, 2)])]).unwrap();
    assert!(victim.frames.iter().any(lacks));
}

#[test]
fn one_file_is_offered_once() {
    let mut victim = Victim::offered();
    assert_eq!(victim.refusal(offer(3000)), PeerError::Unexpected("an Offer frame in this state"));
    let mut victim = Victim::plain();
    assert_eq!(
        victim.refusal(offer(3000)),
        PeerError::Unexpected("an Offer frame in this state"),
        "it is not listed"
    );
}

#[test]
fn groups_of_an_offer_are_bounded() {
    let setting = Setting { options: options(), takes_offers: true, ..Setting::default() };
    let mut victim = Victim::new(setting);
    let huge = file_of(i64::MAX as u64);
    let spec = ChunkerSpec::Fixed(FixedLen::new(512).unwrap());
    victim.machine.handle(listing("", &[("a", huge.clone())], Extent::Last)).unwrap();
    victim.machine.handle(ToReceiver::Offer { file: A, meta: huge, spec }).unwrap();
    victim.machine.handle(groups(&[(512, 1); OFFERED_GROUPS as usize])).unwrap();
    let error = victim.machine.handle(groups(&[(512, 1)]));
    assert_eq!(error, Err(PeerError::Limit("groups of an offer")));
}

#[test]
fn groups_of_one_file_are_bounded() {
    let mut victim = Victim::wanted_of(i64::MAX as u64);
    let huge = Meta { len: i64::MAX as u64, ..file_of(0) };
    let spec = ChunkerSpec::Fixed(FixedLen::new(512).unwrap());
    let frame = ToReceiver::Start { file: A, meta: huge, how: TransferKind::Recipe, spec };
    victim.take([frame]).unwrap();
    let frame = groups(&[(512, 1); MAX_BATCH]);
    for _ in 0..MAX_GROUPS / MAX_BATCH {
        victim.take([frame.clone()]).unwrap();
        victim.frames.clear();
    }
    assert_eq!(victim.refusal(frame), PeerError::Limit("length of a group"));
}

#[test]
fn a_file_that_outgrew_what_was_listed_is_not_held_among_the_small() {
    let mut victim = Victim::wanted();
    victim.take([start(1 << 40)]).unwrap();
    let failed = |frame: &ToSender| matches!(frame, ToSender::Done { done: Done::Failed(_), .. });
    assert!(victim.frames.iter().any(failed), "{:?}", victim.frames);
}

#[test]
fn groups_that_no_chunker_cuts_are_refused() {
    let (count, length) =
        (PeerError::Limit("chunks in a group"), PeerError::Limit("length of a group"));
    let max = ChunkerSpec::for_len(1 << 20).max_len();
    for (line, error) in [
        ((0, 1), &count),
        ((1, 0), &count),
        ((1000, MAX_GROUP_CHUNKS + 1), &count),
        ((1000, u32::MAX), &count),
        ((u64::from(max) + 1, 1), &length),
        ((u64::MAX, 64), &length),
        ((1 << 63, 64), &length),
        ((SPEC_MIN, 2), &length),
        (((1 << 20) + 1, 64), &length),
    ] {
        assert_eq!(Victim::started(1 << 20).refusal(groups(&[line])), *error, "{line:?}");
    }
    let beyond = groups(&[(2000, 1), (1001, 1)]);
    assert_eq!(Victim::started(3000).refusal(beyond), length);
    assert_eq!(
        Victim::started(3000).refusal(groups(&[])),
        PeerError::Unexpected("an empty list of groups")
    );
}

#[test]
fn chunks_that_do_not_make_their_group_are_refused() {
    let asked = PeerError::Unexpected("chunks of a group that was not requested");
    let sum =
        PeerError::Unexpected("chunks whose lengths do not add up to the length of the group");
    let length = PeerError::Limit("length of a chunk");
    for (groups, lens, error) in [
        (one(1..2), &[1000, 2000][..], &asked),
        (one(0..2), &[1000, 2000, 1, 1], &asked),
        (one(0..u32::MAX), &[1000, 2000], &asked),
        (vec![0..1, 0..1], &[1000, 2000, 1000, 2000], &asked),
        (Vec::new(), &[], &PeerError::Unexpected("chunks without a group")),
        (one(0..1), &[3000], &PeerError::Unexpected("fewer chunks than the groups announced")),
        (
            one(0..1),
            &[1000, 2000, 1000],
            &PeerError::Unexpected("more chunks than the groups announced"),
        ),
        (one(0..1), &[1000, 1999], &sum),
        (one(0..1), &[1000, 2001], &length),
        (one(0..1), &[0, 3000], &length),
        (one(0..1), &[511, 2489], &length),
        (one(0..1), &[u32::MAX, 1], &length),
    ] {
        let refusal = Victim::lacked().refusal(chunks(groups.clone(), lens));
        assert_eq!(refusal, *error, "{groups:?} {lens:?}");
    }
}

#[test]
fn a_recipe_by_chunk_is_of_a_short_file_and_no_longer_than_it() {
    let (length, recipe_) = (
        PeerError::Limit("length of a chunk"),
        PeerError::Unexpected("a Recipe frame in this state"),
    );
    for (lens, error) in [
        (&[1000, 2001][..], &length),
        (&[0, 3000], &length),
        (&[511, 2489], &length),
        (&[u32::MAX, 1], &length),
        (&[], &recipe_),
    ] {
        assert_eq!(Victim::started(3000).refusal(recipe(lens)), *error, "{lens:?}");
    }
    let short = TOLD_BY_CHUNK_BYTES;
    Victim::started(short).take([recipe(&[3000])]).unwrap();
    assert_eq!(Victim::started(short + 1).refusal(recipe(&[3000])), recipe_);
    assert_eq!(Victim::whole(3000).refusal(recipe(&[3000])), recipe_);
    let mut told = Victim::started(3000);
    told.take([recipe(&[1000]), groups(&[(1000, 1)]), recipe(&[1000])]).unwrap();
    assert_eq!(told.refusal(recipe(&[1])), length);
    told.take([end()]).unwrap();
    assert_eq!(told.refusal(recipe(&[1])), recipe_);
}

#[test]
fn literals_that_were_not_asked_for_are_refused() {
    let unasked = PeerError::Unexpected("a chunk that was not requested");
    let length = PeerError::Unexpected("literals with another length than the chunks");
    for (ranges, len, error) in [
        (one(2..3), 1000, &unasked),
        (one(0..3), 3000, &unasked),
        (one(u32::MAX - 1..u32::MAX), 1, &unasked),
        (vec![0..1, 0..1], 2000, &unasked),
        (one(0..1), 999, &length),
        (one(0..1), 1001, &length),
        (one(0..1), 0, &length),
        (Vec::new(), 0, &length),
        (Vec::new(), 1 << 20, &length),
    ] {
        assert_eq!(Victim::needed().refusal(fill(ranges.clone(), len)), *error, "{ranges:?} {len}");
    }
    let packed =
        ToReceiver::Fill { file: A, chunks: one(0..1), payload: Payload::Zstd(vec![0; 1001]) };
    assert_eq!(Victim::needed().refusal(packed), length, "packed to more than it was");
}

#[test]
fn zeros_that_were_left_out_make_the_length_of_their_chunks() {
    let sparse = |runs: &[(u32, u32)], rest: usize, zstd| {
        let runs = runs.iter().map(|(before, len)| ZeroRun { before: *before, len: *len });
        let payload = Sparse { runs: runs.collect(), rest: vec![1; rest], zstd };
        ToReceiver::Fill { file: A, chunks: one(0..1), payload: Payload::Sparse(payload) }
    };
    for fits in [
        sparse(&[(0, 1000)], 0, false),
        sparse(&[(3, 500), (7, 400)], 100, false),
        sparse(&[(100, 900)], 100, true),
        sparse(&[(3, 900)], 9, true),
    ] {
        assert_eq!(Victim::needed().machine.handle(fits), Ok(()));
    }
    let length = PeerError::Unexpected("literals with another length than the chunks");
    for misfit in [
        sparse(&[(0, 1001)], 0, false),
        sparse(&[(0, 999)], 0, false),
        sparse(&[(0, 500), (0, u32::MAX)], 0, false),
        sparse(&[(101, 900)], 100, false),
        sparse(&[(u32::MAX, 900), (u32::MAX, 1)], 99, false),
        sparse(&[(0, 900)], 99, false),
        sparse(&[(0, 900)], 101, true),
        sparse(&[], 1001, false),
    ] {
        assert_eq!(Victim::needed().refusal(misfit), length);
    }
}

#[test]
fn a_chunk_is_filled_once() {
    let unasked = PeerError::Unexpected("a chunk that was not requested");
    let mut victim = Victim::needed();
    // Not even while its first bytes are being written.
    victim.machine.handle(fill(one(0..1), 1000)).unwrap();
    assert_eq!(victim.machine.handle(fill(one(0..1), 1000)), Err(unasked.clone()));
    let block = WHOLE_BLOCK_BYTES as usize;
    let mut victim = Victim::whole(2 * block as u64 + 5);
    victim.take([fill(one(1..2), block)]).unwrap();
    assert_eq!(victim.refusal(fill(one(1..2), block)), unasked);
    assert_eq!(Victim::whole(5).refusal(fill(one(1..2), 5)), unasked);
    assert_eq!(Victim::whole(5).refusal(fill(one(u32::MAX - 1..u32::MAX), 5)), unasked);
}

#[test]
fn a_fill_is_no_longer_than_a_frame() {
    let block = WHOLE_BLOCK_BYTES as usize;
    let count = (MAX_FRAME_BYTES / block) as u32 + 1;
    let mut victim = Victim::whole(1 << 40);
    let payload = Payload::Zstd(vec![0; 100]);
    let bomb = ToReceiver::Fill { file: A, chunks: one(0..count), payload };
    assert_eq!(victim.refusal(bomb), PeerError::Limit("literal bytes in a frame"));
}

#[test]
fn a_file_in_one_frame_is_a_block_of_its_length_at_most() {
    let wanted = Victim::wanted_whole;
    let length = PeerError::Unexpected("literals with another length than the chunks");
    assert_eq!(wanted(5).take([single(None, 5)]), Ok(()));
    assert_eq!(wanted(5).take([single(Some(file_of(6)), 6)]), Ok(()), "it has grown");
    for len in [0, 4, 6] {
        assert_eq!(wanted(5).refusal(single(None, len)), length, "{len}");
    }
    let empty = PeerError::Unexpected("literals of an empty file");
    assert_eq!(wanted(0).take([single(None, 0)]), Ok(()));
    assert_eq!(wanted(0).refusal(single(None, 1)), empty);
    let block = WHOLE_BLOCK_BYTES as usize;
    assert_eq!(wanted(block as u64).take([single(None, block)]), Ok(()));
    let incomplete = PeerError::Unexpected("the end of an incomplete file");
    assert_eq!(wanted(block as u64 + 1).refusal(single(None, block)), incomplete);
    // By recipe it was asked for; of an owner nothing is said; and it comes once.
    assert_eq!(
        Victim::wanted().refusal(single(None, 3000)),
        PeerError::Unexpected("a Start frame that does not fit the request")
    );
    let owned = Meta { user: Some(0), ..file_of(5) };
    assert_eq!(
        wanted(5).refusal(single(Some(owned), 5)),
        PeerError::Unexpected("a Start frame that does not fit the request")
    );
    let mut victim = wanted(5);
    victim.machine.handle(single(None, 5)).unwrap();
    assert_eq!(
        victim.machine.handle(single(None, 5)),
        Err(PeerError::Unexpected("a Start frame that does not fit the request"))
    );
    let chmod = ModeRules::parse("go=u", 0).unwrap();
    let metadata = Metadata { chmod, ..options().metadata };
    let mut victim = Victim::wanting(Options { metadata, ..options() }, 5);
    assert_eq!(victim.refusal(single(None, 5)), PeerError::Unexpected("a file without a mode"));
}

/// Before, no end sent tallies with these options.
#[test]
fn wide_tallies_are_for_a_receiver_that_knows_them() {
    let backup = Some(Backup { dir: None, suffix: b"~"[..].into() });
    let metadata = |change: fn(&mut Metadata)| {
        let mut options = options();
        change(&mut options.metadata);
        options
    };
    let compared = |compare: Compare| Options { compare, ..options() };
    let by_size = Compare { size_only: true, ..Compare::default() };
    let in_window = Compare { window: Window::Secs(1), ..Compare::default() };
    for (options, is_wide) in [
        (options(), false),
        (metadata(|metadata| metadata.hard_links = true), true),
        (metadata(|metadata| metadata.acls = true), true),
        (metadata(|metadata| metadata.xattrs = true), true),
        (Options { remove: Remove { backup, ..Remove::default() }, ..options() }, true),
        (compared(by_size), true),
        (compared(in_window), true),
        (Options { select: Select { relative: true, ..Select::default() }, ..options() }, true),
    ] {
        for wide_tallies in [false, true] {
            let mut hands = Source::new(Target::tree(), Some(dir()), Dice::new(3));
            hands.compared = options.tallied_attributes().unwrap();
            let machine = Sender::new(options.clone()).tally_all_dirs();
            let mut target = Target { machine, hands, frames: Vec::new() };
            let sent = |target: &Target| {
                target.frames.iter().any(|frame| matches!(frame, ToReceiver::Tally { .. }))
            };
            if wide_tallies {
                target
                    .machine
                    .use_short_forms(ShortForms { wide_tallies, ..ShortForms::default() });
                target.machine.set_terms(true, Limits::default());
            }
            target.work();
            assert_eq!(sent(&target), !is_wide || wide_tallies, "{options:?}");
        }
    }
}

/// Short forms are for a receiver that understands them.
#[test]
fn a_sender_uses_the_short_forms_that_were_agreed_on() {
    for (lists, files) in [(false, false), (true, false), (false, true), (true, true)] {
        let hands = Source::new(Target::tree(), Some(dir()), Dice::new(3));
        let mut target = Target { machine: Sender::new(options()), hands, frames: Vec::new() };
        target.machine.use_short_forms(ShortForms { lists, files, ..ShortForms::default() });
        target.machine.set_terms(true, Limits::default());
        target.work();
        target.take([ToSender::Want { file: A, how: TransferKind::Whole }]).unwrap();
        let has = |is: fn(&ToReceiver) -> bool| target.frames.iter().any(is);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::ShortListing { .. })), lists);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Listing { .. })), !lists);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Single { meta: None, .. })), files);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Start { .. })), !files);
    }
}

#[test]
fn tallies_have_short_paths_if_both_ends_agreed() {
    for (lists, cut_tallies) in [(false, false), (true, false), (true, true)] {
        let hands = Source::new(Target::tree(), Some(dir()), Dice::new(3));
        let machine = Sender::new(options()).tally_all_dirs();
        let mut target = Target { machine, hands, frames: Vec::new() };
        target.machine.use_short_forms(ShortForms { lists, cut_tallies, ..ShortForms::default() });
        target.machine.set_terms(true, Limits::default());
        target.work();
        let has = |is: fn(&ToReceiver) -> bool| target.frames.iter().any(is);
        let is_short = lists && !cut_tallies;
        assert_eq!(has(|frame| matches!(frame, ToReceiver::ShortTally { .. })), is_short);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::CutTally { .. })), cut_tallies);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Tally { .. })), !lists);
    }
}

#[test]
fn proofs_of_short_files_are_cut_if_both_ends_agreed() {
    for proofs in [false, true] {
        let mut target = Target::plain();
        let forms = ShortForms { files: true, proofs, ..ShortForms::default() };
        target.machine.use_short_forms(forms);
        target.take([ToSender::Want { file: A, how: TransferKind::Whole }]).unwrap();
        let has = |is: fn(&ToReceiver) -> bool| target.frames.iter().any(is);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::ShortSingle { file: A, .. })), proofs);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Single { meta: None, .. })), !proofs);
    }
}

#[test]
fn a_sender_refuses_answers_together_that_were_not_agreed_on() {
    let mut target = Target::plain();
    target.machine.use_short_forms(ShortForms::default());
    let refused = PeerError::Unexpected("answers in one frame, which were not agreed on");
    assert_eq!(target.refusal(ToSender::Answers(Answers::default())), refused);
}

#[test]
fn digests_are_cut_if_both_ends_agreed() {
    for digests in [false, true] {
        let mut target = Target::with(Target::tree(), Options { checksum: true, ..options() });
        target.machine.use_short_forms(ShortForms { digests, ..ShortForms::default() });
        target.take([ToSender::Digest(vec![A])]).unwrap();
        let has = |is: fn(&ToReceiver) -> bool| target.frames.iter().any(is);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::ShortDigests(_))), digests);
        assert_eq!(has(|frame| matches!(frame, ToReceiver::Digests(_))), !digests);
    }
}

#[test]
fn a_file_ends_when_it_is_complete() {
    let incomplete = PeerError::Unexpected("the end of an incomplete file");
    assert_eq!(Victim::started(3000).refusal(end()), incomplete);
    assert_eq!(Victim::whole(5).refusal(end()), incomplete);
    let mut victim = Victim::needed();
    victim.take([end()]).unwrap();
    assert_eq!(victim.refusal(end()), incomplete);
    assert_eq!(victim.refusal(groups(&[(1, 1)])), PeerError::Unexpected("groups"));
}

#[test]
fn a_start_must_fit_what_was_wanted() {
    let error = PeerError::Unexpected("a Start frame that does not fit the request");
    assert_eq!(Victim::wanted().refusal(start_whole(3000)), error);
    assert_eq!(Victim::started(3000).refusal(start(3000)), error);
    let blocks = |len| ChunkerSpec::Fixed(FixedLen::new(len).unwrap());
    let frame = |meta, how, spec| ToReceiver::Start { file: A, meta, how, spec };
    let small = frame(file_of(9000), TransferKind::Whole, blocks(512));
    let mut victim = Victim::plain();
    victim.take([listing("", &[("b", file_of(9000))], Extent::Last)]).unwrap();
    assert_eq!(victim.refusal(small), error);
    for kind in [Kind::Dir, Kind::Fifo, Kind::Symlink(b"x"[..].into())] {
        let meta = Meta { kind, len: 0, ..file_of(0) };
        let spec = ChunkerSpec::for_len(0);
        assert_eq!(Victim::wanted().refusal(frame(meta, TransferKind::Recipe, spec)), error);
    }
}

/// Chunks that fit no frame could not come.
#[test]
fn a_start_whose_chunks_may_be_longer_than_a_frame_is_refused() {
    let limits = Limits { frame_bytes: MIN_FRAME_BYTES, ..Limits::default() };
    let start = |spec, how| ToReceiver::Start { file: A, meta: file_of(300_000), how, spec };
    let blocks = |len| ChunkerSpec::Fixed(FixedLen::new(len).unwrap());
    let wanted = |whole_file| {
        let options = Options { whole_file, ..options() };
        let mut victim = Victim::new(Setting { options, limits, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(300_000))], Extent::Last)]).unwrap();
        victim
    };
    let longest = limits.chunk_bytes();
    assert_eq!(longest as usize, MIN_FRAME_BYTES - 1024);
    let chunker = Err(PeerError::Unexpected("a chunker that was not agreed"));
    let by_recipe = |spec| wanted(false).take([start(spec, TransferKind::Recipe)]);
    assert_eq!(by_recipe(blocks(longest)), Ok(()));
    assert_eq!(by_recipe(blocks(longest + 1)), chunker);
    assert_eq!(by_recipe(ChunkerSpec::for_len(1 << 40)), chunker);
    let in_blocks = |len| wanted(true).take([start(blocks(len), TransferKind::Whole)]);
    assert_eq!(in_blocks(limits.block_bytes()), Ok(()));
    assert_eq!(
        in_blocks(WHOLE_BLOCK_BYTES),
        Err(PeerError::Unexpected("a Start frame that does not fit the request"))
    );
}

/// The attributes of one entry may be longer than a frame of the session.
#[test]
fn attributes_that_fit_no_frame_are_left_out_and_told() {
    let listed = |limits: Option<Limits>| {
        let xattr = Xattr { name: (*b"user.a").into(), value: vec![7; 60_000].into() };
        let more = ExtraMeta { xattrs: vec![xattr], ..ExtraMeta::default() }.into_box();
        let mut tree = Tree::default();
        for name in ["a", "b", "c"] {
            tree.0.insert(path(name), Node::file(vec![], NOW, 0o600));
        }
        tree.0.get_mut(&path("b")).unwrap().meta.more = more;
        let hands = Source::new(tree, Some(dir()), Dice::new(3));
        let mut target = Target { machine: Sender::new(options()), hands, frames: Vec::new() };
        target.work();
        limits.into_iter().for_each(|limits| target.machine.set_terms(true, limits));
        target.work();
        let told = target.frames.iter().any(|frame| matches!(frame, ToReceiver::Trouble(_)));
        let entries = target.frames.iter().filter_map(|frame| match frame {
            ToReceiver::Listing { entries, .. } => Some(entries.clone()),
            _ => None,
        });
        let entries: Vec<Entry> = entries.into_iter().flatten().collect();
        let all = entries.iter().map(|entry| entry.meta.xattrs().len()).collect::<Vec<_>>();
        let unread =
            entries.iter().any(|entry| entry.meta.unread_reason() == Some(UnreadReason::TooMuch));
        (all, told, unread)
    };
    // Whoever has not heard the other end does not know what fits.
    assert_eq!(listed(None), (vec![0], false, false));
    assert_eq!(listed(Some(Limits::default())), (vec![0, 1, 0], false, false));
    let narrow = Limits { frame_bytes: MIN_FRAME_BYTES, ..Limits::default() };
    assert_eq!(listed(Some(narrow)), (vec![0, 0, 0], true, true));
}

/// Literals of attempts that are over count as well, whichever stream brings them.
#[test]
fn literals_without_credit_are_refused() {
    let overrun = PeerError::Limit("literals without credit");
    let limits = Limits { credit: Some(1500), ..Limits::default() };
    let aside = |attempt, bytes| Aside { attempt, frame: fill(one(0..2), bytes) };
    let mut victim = Victim::needed_within(limits);
    victim.machine.handle(fill(one(0..1), 1000)).unwrap();
    let error = victim.machine.handle(fill(one(1..2), 2000));
    assert_eq!(error, Err(overrun.clone()), "the first was not written");
    let mut victim = Victim::needed_within(limits);
    victim.take([fill(one(0..1), 1000), fill(one(1..2), 2000)]).unwrap();
    let gives = |frame: &ToSender| matches!(frame, ToSender::Credit { .. });
    assert!(victim.frames.iter().any(gives), "{:?}", victim.frames);
    let mut victim = Victim::needed_within(limits);
    let trouble = trouble(TroubleKind::Vanished);
    victim.take([ToReceiver::Failed { file: A, attempt: 1, trouble }]).unwrap();
    assert_eq!(victim.machine.handle_aside(aside(1, 1500)), Ok(()));
    assert_eq!(victim.machine.handle_aside(aside(1, 1)), Err(overrun));
}

#[test]
fn a_sender_reads_no_literals_beyond_its_credit() {
    let mut tree = Tree::default();
    tree.0.insert(path("a"), Node::file(Dice::new(1).bytes(8 << 20), NOW, 0o600));
    let hands = Source::new(tree, Some(dir()), Dice::new(3));
    let mut target = Target { machine: Sender::new(options()), hands, frames: Vec::new() };
    target.work();
    let limits = Limits { credit: Some(300 << 10), ..Limits::default() };
    target.machine.set_terms(true, limits);
    target.take([ToSender::Want { file: A, how: TransferKind::Whole }]).unwrap();
    let fills = |target: &Target| {
        target.frames.iter().filter(|frame| matches!(frame, ToReceiver::Fill { .. })).count()
    };
    assert_eq!(fills(&target), 1);
    target.work();
    assert_eq!(fills(&target), 1, "credit was withheld");
    let credit = |bytes, more| ToSender::Credit { bytes, more, held_us: None };
    target.take([credit(256 << 10, 0)]).unwrap();
    assert_eq!(fills(&target), 2);
    target.take([credit(0, 256 << 10)]).unwrap();
    assert_eq!(fills(&target), 3, "the window has grown");
}

#[test]
fn credit_that_was_not_spent_is_refused() {
    let credit = |bytes, more| ToSender::Credit { bytes, more, held_us: None };
    assert!(Target::plain().take([credit(0, 0)]).is_err(), "none was asked for");
    for (bytes, more) in [(1, 0), (1 << 63, 0), (u64::MAX, 1), (0, 1 << 63), (0, u64::MAX)] {
        let mut target = Target::plain();
        target.machine.set_terms(true, Limits { credit: Some(9), ..Limits::default() });
        assert!(target.take([credit(bytes, more)]).is_err(), "{bytes}, {more}");
    }
}

#[test]
fn an_aside_counts_for_the_attempt_that_it_names() {
    let aside = |attempt| Aside { attempt, frame: fill(one(0..2), 3000) };
    let unasked = Err(PeerError::Unexpected("a chunk that was not requested"));
    let to_come = Err(PeerError::Unexpected("a frame of a future attempt"));
    let mut victim = Victim::needed();
    assert_eq!(victim.machine.handle_aside(aside(2)), to_come);
    let trouble = trouble(TroubleKind::Vanished);
    victim.take([ToReceiver::Failed { file: A, attempt: 1, trouble }]).unwrap();
    assert_eq!(victim.machine.handle_aside(aside(1)), Ok(()));
    victim.take([start(3000)]).unwrap();
    assert_eq!(victim.machine.handle_aside(aside(1)), Ok(()));
    assert_eq!(victim.machine.backlog_bytes(), 0);
    assert_eq!(victim.machine.handle_aside(aside(3)), to_come);
    assert_eq!(victim.machine.handle_aside(aside(2)), unasked);
    let mut victim = Victim::needed();
    victim.machine.handle_aside(aside(1)).unwrap();
    assert_eq!(victim.machine.backlog_bytes(), 3000);
    let in_order =
        Err(PeerError::Unexpected("a frame on a second stream, for a file that uses one stream"));
    assert_eq!(Victim::whole(3000).machine.handle_aside(aside(1)), in_order);
    // Where there are more streams than one its blocks are asked for, if there are several.
    let block = WHOLE_BLOCK_BYTES as usize;
    let len = 2 * block as u64 + 5;
    let mut victim = Victim::whole_over(2, len);
    assert!(victim.frames.contains(&ToSender::Need { file: A, chunks: one(0..3) }));
    let aside = |chunk, len| Aside { attempt: 1, frame: fill(one(chunk..chunk + 1), len) };
    victim.take([end()]).unwrap();
    assert_eq!(victim.machine.handle_aside(aside(2, 5)), Ok(()));
    assert_eq!(victim.machine.handle_aside(aside(2, 5)), unasked);
    assert_eq!(Victim::whole_over(2, len).machine.handle_aside(aside(3, 5)), unasked);
    let lone = Victim::whole_over(2, 3000);
    assert!(!lone.frames.iter().any(|frame| matches!(frame, ToSender::Need { .. })));
    // Its first block was asked for: as a frame of the first stream it would do.
    let block = || fill(one(0..1), 8192);
    let mut victim = Victim::rolled();
    assert_eq!(victim.machine.handle_aside(Aside { attempt: 1, frame: block() }), in_order);
    assert_eq!(victim.machine.handle(block()), Ok(()));
}

#[test]
fn all_blocks_of_a_file_are_asked_for_once() {
    let file = FileNo(1);
    let need = |chunks| ToSender::Need { file, chunks };
    let unexpected = Err(PeerError::Unexpected("a Need frame in this state"));
    let begun = || {
        let mut target = Target::plain();
        target.machine.set_terms(true, Limits::default());
        target.take([ToSender::Want { file, how: TransferKind::Whole }]).unwrap();
        target
    };
    for chunks in [Vec::new(), one(0..1), one(0..2), one(1..3), one(0..4), vec![0..1, 1..3]] {
        assert_eq!(begun().take([need(chunks.clone())]), unexpected, "{chunks:?}");
    }
    let mut target = begun();
    target.take([need(one(0..3))]).unwrap();
    assert_eq!(target.take([need(one(0..3))]), unexpected);
    // It has one block, which came with its `Start`.
    let mut target = Target::plain();
    target.take([ToSender::Want { file: A, how: TransferKind::Whole }]).unwrap();
    assert_eq!(target.take([ToSender::Need { file: A, chunks: one(0..1) }]), unexpected);
}

/// What was cut before `Start` came is of no use then, and its answers are still under way.
#[test]
fn old_is_cut_again_where_the_chunker_is_not_the_expected_one() {
    let spec = ChunkerSpec::Fixed(FixedLen::new(1000).unwrap());
    let mut victim = Victim::plain();
    let listed = file_of(OLD_BYTES as u64);
    victim.machine.handle(listing("", &[("a", listed.clone())], Extent::Last)).unwrap();
    let mut guessed = None;
    while guessed.is_none() {
        let (id, work) = victim.machine.poll_work().expect("it goes on without Start");
        match work {
            receiver::ReceiverWork::Old(receiver::OldVersionWork::Index { spec: by, .. })
                if by != spec =>
            {
                guessed = Some((id, work))
            }
            work => victim.machine.answer(id, victim.hands.perform(work)).unwrap(),
        }
    }
    let start = ToReceiver::Start { file: A, meta: listed, how: TransferKind::Recipe, spec };
    victim.machine.handle(start).unwrap();
    let (id, work) = guessed.unwrap();
    let late = victim.hands.perform(work);
    victim.machine.answer(id, late).unwrap();
    victim.work();
    let chunks = scan(&spec.build(), &old_bytes(), AtEnd::Yes).chunks;
    let mut grouper = deltic_core::Grouper::new();
    let mut found: Vec<_> = chunks.iter().filter_map(|chunk| grouper.push(chunk)).collect();
    found.extend(grouper.finish());
    let line = |group: &deltic_core::recipe::Group| GroupLine {
        len: group.len,
        chunks: group.chunks,
        short: group.fingerprint.group_prefix(),
    };
    let groups = found.iter().map(line).collect();
    let end = ToReceiver::End { file: A, digest: digest_of(chunks.iter()) };
    victim.take([ToReceiver::Groups { file: A, groups }, end]).unwrap();
    assert!(victim.frames.contains(&ToSender::Lack { file: A, groups: Vec::new() }));
    let same =
        |frame: &ToSender| matches!(frame, ToSender::Done { file: A, done: Done::Same { .. } });
    assert!(victim.frames.iter().any(same), "{:?}", victim.frames);
}

/// A sender that dialled lists before the other end has said a word.
#[test]
fn a_sender_that_nobody_answers_lists_no_further_than_the_window() {
    let mut tree = Tree::default();
    for n in 0..2 * ENTRY_WINDOW {
        tree.0.insert(path(&format!("{n:06}")), Node::file(Vec::new(), NOW, 0o600));
    }
    let mut target = Target::of(tree);
    let told = |target: &Target| -> u64 {
        let told = |frame: &ToReceiver| match frame {
            ToReceiver::Listing { entries, .. } => entries.len() as u64,
            frame => panic!("nothing else can be said: {frame:?}"),
        };
        target.frames.iter().map(told).sum()
    };
    assert_eq!(told(&target), UNHEARD_ENTRIES, "more may be shorter");
    target.machine.set_terms(true, Limits::default());
    target.work();
    let told = told(&target);
    assert!((ENTRY_WINDOW..ENTRY_WINDOW + MAX_BATCH as u64).contains(&told), "{told}");
}

/// Some cost twenty times the processor of what was agreed.
#[test]
fn a_chunker_that_was_not_agreed_is_refused() {
    let sizes = Sizes::new(512, 2048, 8192).unwrap();
    for algorithm in Algorithm::ALL.into_iter().filter(|one| *one != Algorithm::Sieve) {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let frame =
            ToReceiver::Start { file: A, meta: file_of(9000), how: TransferKind::Recipe, spec };
        assert_eq!(
            Victim::wanted().refusal(frame),
            PeerError::Unexpected("a chunker that was not agreed")
        );
    }
}

/// A promise of 2^63 bytes costs nothing until bytes come.
#[test]
fn a_length_is_only_a_claim() {
    let most = i64::MAX as u64;
    let mut victim = Victim::started(most);
    let widest = Sizes::new(512, 1 << 19, 1 << 19).unwrap();
    let spec = ChunkerSpec::ByContent(Algorithm::Sieve, widest);
    let mut other = Victim::wanted_of(most);
    let frame = ToReceiver::Start { file: A, meta: file_of(most), how: TransferKind::Recipe, spec };
    other.take([frame]).unwrap();
    assert_eq!(victim.refusal(end()), PeerError::Unexpected("the end of an incomplete file"));
    let mut victim = Victim::whole(most);
    // Somewhere in the midst; the work is left undone.
    victim
        .machine
        .handle(fill(one(4_000_000_000..4_000_000_001), WHOLE_BLOCK_BYTES as usize))
        .unwrap();
    let incomplete = Err(PeerError::Unexpected("the end of an incomplete file"));
    assert_eq!(victim.machine.handle(end()), incomplete);
}

#[test]
fn totals_of_endless_files_saturate() {
    let setting = Setting { options: Options { dry_run: true, ..options() }, ..Setting::default() };
    let mut victim = Victim::new(setting);
    let huge = || file_of(i64::MAX as u64);
    let entries = [("b", huge()), ("c", huge()), ("d", huge()), ("e", huge())];
    victim
        .take([listing("", &entries, Extent::Last), ToReceiver::Listed { intact: true }])
        .unwrap();
    assert!(victim.machine.is_finished());
}

#[test]
fn bytes_of_another_content_never_become_the_file() {
    let mut victim = Victim::needed();
    victim.take([fill(one(0..1), 1000)]).unwrap();
    // The chunk was not what its fingerprint said: whole, now.
    assert_eq!(victim.frames.last(), Some(&ToSender::Want { file: A, how: TransferKind::Whole }));
    for _ in 0..2 {
        victim.take([start_whole(10), fill(one(0..1), 10), end()]).unwrap();
    }
    let refused = |frame: &ToSender| matches!(frame, ToSender::Done { done: Done::Failed(_), .. });
    assert!(victim.frames.iter().any(refused), "{:?}", victim.frames);
    assert_eq!(victim.hands.tree.0.get(&path("a")), None);
}

#[test]
fn a_gap_of_another_content_is_asked_for_once_more_and_never_becomes_the_file() {
    let mut victim = Victim::facing();
    victim.take([mended(one(0..2), 3000)]).unwrap();
    // Sums of blocks may be equal by chance: now without them.
    let asks = |frame: &ToSender| matches!(frame, ToSender::Mend { file: A, gaps } if gaps[0].sums.old_len() == 0);
    assert!(asks(victim.frames.last().unwrap()), "{:?}", victim.frames);
    victim.take([mended(one(0..2), 3000)]).unwrap();
    assert_eq!(victim.frames.last(), Some(&ToSender::Want { file: A, how: TransferKind::Whole }));
    assert_eq!(*victim.hands.tree.0[&path("a")].bytes, old_bytes());
}

#[test]
fn gaps_that_were_not_asked_for_are_refused() {
    let unasked = PeerError::Unexpected("a gap that was not requested");
    for gaps in [one(0..1), one(1..2), one(0..3), one(5..6), vec![0..2, 0..2]] {
        assert_eq!(Victim::facing().refusal(mended(gaps, 1000)), unasked);
    }
    assert_eq!(Victim::needed().refusal(mended(one(0..2), 3000)), unasked);
    let chunk = PeerError::Unexpected("a chunk that was not requested");
    assert_eq!(Victim::facing().refusal(fill(one(0..1), 1000)), chunk);
    let nothing = PeerError::Limit("bytes of gaps");
    assert_eq!(Victim::facing().refusal(mended(Vec::new(), 1)), nothing);
}

#[test]
fn masked_sums_are_refused_unless_both_ends_split_code() {
    let sums = GapSums::sums_of_code(&[1; 100], BlockLen::for_gap(100, 2), 0);
    let mend = ToSender::Mend { file: A, gaps: vec![GapLine { chunks: 0..1, sums }] };
    let refused = PeerError::Unexpected("masked sums of a gap, without the capability");
    assert_eq!(Target::lacked().refusal(mend.clone()), refused);
    let mut target = Target::lacked();
    target.machine.use_short_forms(ShortForms { split_code: true, ..ShortForms::default() });
    target.take([mend]).unwrap();
}

#[test]
fn gaps_that_are_asked_for_are_bounded() {
    let mut tree = Tree::default();
    tree.0.insert(path("a"), Node::file(Dice::new(1).bytes(16 << 20), NOW, 0o600));
    let mut target = Target::of(tree);
    target.take([want(A), ToSender::Lack { file: A, groups: one(0..1) }]).unwrap();
    let ToSender::Mend { gaps, .. } = mend(A, 0..1, 100) else { unreachable!() };
    let frame = ToSender::Mend { file: A, gaps: vec![gaps[0].clone(); MAX_BATCH / 4] };
    // No work is done: nothing is answered.
    let error = (0..100).find_map(|_| target.machine.handle(frame.clone()).err());
    assert_eq!(error, Some(PeerError::Limit("gaps to be filled by block sums")));
    assert_eq!(
        Target::lacked().refusal(mend(A, 0..1, 100_000)),
        PeerError::Limit("bytes of a gap")
    );
    let beyond = PeerError::Unexpected("a gap that was not offered");
    assert_eq!(Target::lacked().refusal(mend(A, 0..100, 100)), beyond);
}

/// The same gap again and again would read the file and send it for as long as the receiver likes.
#[test]
fn all_gaps_together_are_twice_the_file_at_most() {
    let mut target = Target::lacked();
    let told = |frame: &ToReceiver| match frame {
        ToReceiver::Chunks { chunks, .. } => chunks.0.len() as u32,
        _ => 0,
    };
    let chunks: u32 = target.frames.iter().map(told).sum();
    target.take([mend(A, 0..chunks, 100), mend(A, 0..chunks, 0)]).unwrap();
    assert_eq!(target.refusal(mend(A, 0..1, 0)), PeerError::Limit("bytes of all gaps"));
}

#[test]
fn a_failure_in_the_midst_of_a_commit_is_refused() {
    let content = old_bytes()[..3000].to_vec();
    let mut victim = Victim::started(3000);
    let spec = ChunkerSpec::for_len(3000);
    let found = scan(&spec.build(), &content, AtEnd::Yes).chunks;
    let group = {
        let mut grouper = deltic_core::Grouper::new();
        let mut groups: Vec<_> = found.iter().filter_map(|chunk| grouper.push(chunk)).collect();
        groups.extend(grouper.finish());
        groups
    };
    let lines = group.iter().map(|g| GroupLine {
        len: g.len,
        chunks: g.chunks,
        short: g.fingerprint.group_prefix(),
    });
    victim.take([ToReceiver::Groups { file: A, groups: lines.collect() }]).unwrap();
    let lacked = victim.frames.iter().find_map(|frame| match frame {
        ToSender::Lack { groups, .. } => Some(groups.clone()),
        _ => None,
    });
    let lines = found
        .iter()
        .map(|c| ChunkLine { len: c.len, brief: c.fingerprint.chunk_prefix(PrefixLen::MAX) });
    let lacked = lacked.filter(|lacked| !lacked.is_empty());
    if let Some(groups) = lacked {
        victim
            .take([ToReceiver::Chunks { file: A, groups, chunks: ChunkLines(lines.collect()) }])
            .unwrap();
    }
    let need = victim.frames.iter().find_map(|frame| match frame {
        ToSender::Need { chunks, .. } => Some(chunks.clone()),
        _ => None,
    });
    let before = |n: u32| found[..n as usize].iter().map(|c| c.len as usize).sum::<usize>();
    let gaps: Vec<_> = (victim.frames.iter())
        .filter_map(|frame| match frame {
            ToSender::Mend { gaps, .. } => Some(gaps.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    for GapLine { chunks, sums } in gaps {
        let mut deltas = Vec::new();
        let new = &content[before(chunks.start)..before(chunks.end)];
        GapDelta::of(new, &sums, common::GAP_SEED).encode(&mut deltas);
        let (bytes, payload) = (deltas.len() as u32, Payload::Plain(deltas));
        let gaps = one(chunks);
        victim.take([ToReceiver::Mended { file: A, gaps, bytes, payload }]).unwrap();
    }
    for range in need.into_iter().flatten() {
        let bytes = content[before(range.start)..before(range.end)].to_vec();
        victim
            .take([ToReceiver::Fill {
                file: A,
                chunks: one(range),
                payload: Payload::Plain(bytes),
            }])
            .unwrap();
    }
    victim.machine.handle(ToReceiver::End { file: A, digest: digest_of(&found) }).unwrap();
    let error = victim.machine.handle(failed(1));
    assert_eq!(error, Err(PeerError::Unexpected("the failure of a complete file")));
}

#[test]
fn only_what_was_offered_can_be_asked_for() {
    let error = PeerError::Unexpected("ranges that were not offered");
    let groups = |groups: Vec<Range<u32>>| ToSender::Lack { file: A, groups };
    for ranges in [one(1..2), one(0..2), vec![0..1, 0..1], one(0..u32::MAX)] {
        assert_eq!(Target::wanted().refusal(groups(ranges)), error);
    }
    let chunks = |chunks: Vec<Range<u32>>| ToSender::Need { file: A, chunks };
    for ranges in [one(0..1000), one(900..901), vec![0..1, 0..1]] {
        assert_eq!(Target::lacked().refusal(chunks(ranges)), error);
    }
    let mut target = Target::wanted();
    target.take([groups(Vec::new())]).unwrap();
    assert_eq!(
        target.refusal(groups(Vec::new())),
        PeerError::Unexpected("a Lack frame without an open group")
    );
    assert_eq!(
        target.refusal(chunks(Vec::new())),
        PeerError::Unexpected("a Need frame in this state")
    );
}

#[test]
fn nothing_is_answered_about_an_offer_before_it_is_wanted() {
    let lack = ToSender::Need { file: A, chunks: one(0..1) };
    let unasked = PeerError::Unexpected("an answer about a file that is not under way");
    assert_eq!(Target::offered().refusal(lack.clone()), unasked);
    let mut target = Target::offered();
    let told = target.frames.len();
    target.take([want(A)]).unwrap();
    assert_eq!(target.frames.len(), told, "it was the answer");
    target.take([lack]).unwrap();
    assert!(matches!(target.frames.last(), Some(ToReceiver::Fill { file: A, .. })));
}

#[test]
fn an_offer_is_withdrawn_where_the_file_is_wanted_otherwise_or_not_at_all() {
    let mut target = Target::offered();
    target.take([ToSender::Want { file: A, how: TransferKind::Whole }]).unwrap();
    let start =
        |frame: &ToReceiver| matches!(frame, ToReceiver::Start { how: TransferKind::Whole, .. });
    assert!(target.frames.iter().any(start), "{:?}", target.frames);
    let mut target = Target::offered();
    target.take([ToSender::Settled { upto: FileNo(1) }]).unwrap();
    assert!(target.hands.is_idle(), "it is closed");
    let mut target = Target::offered();
    target.machine.set_terms(false, Limits::default());
    target.take([want(A)]).unwrap();
    let start =
        |frame: &ToReceiver| matches!(frame, ToReceiver::Start { how: TransferKind::Recipe, .. });
    assert!(target.frames.iter().any(start), "{:?}", target.frames);
}

#[test]
fn what_spoils_an_offer_is_said_once_the_file_is_wanted() {
    let mut tree = Tree::default();
    tree.0.insert(path("a"), Node::file(old_bytes(), NOW, 0o600));
    let mut target = Target::of(tree);
    target.hands.faults.scan = 100;
    target.machine.note_slow_answer();
    target.work();
    let failed = |frame: &ToReceiver| matches!(frame, ToReceiver::Failed { attempt: 1, .. });
    assert!(!target.frames.iter().any(failed), "{:?}", target.frames);
    target.take([want(A)]).unwrap();
    assert!(target.frames.iter().any(failed), "{:?}", target.frames);
}

#[test]
fn a_file_is_tried_only_so_often() {
    let mut target = Target::plain();
    target.take((0..MAX_ATTEMPTS).map(|_| want(NUMBERS[1]))).unwrap();
    assert_eq!(target.refusal(want(NUMBERS[1])), PeerError::Limit("attempts to send a file"));
}

#[test]
fn only_so_many_files_can_be_wanted_at_once() {
    let mut tree = Tree::default();
    for n in 0..400 {
        tree.0.insert(path(&format!("{n:03}")), Node::file(vec![1; 3000], NOW, 0o600));
    }
    let mut target = Target::of(tree);
    let most = MAX_ACTIVE_FILES + MAX_ACTIVE_LARGE;
    target.take((0..most as u64).map(|n| want(FileNo(n)))).unwrap();
    assert_eq!(target.refusal(want(FileNo(most as u64))), PeerError::Limit("files under way"));
}

/// Scans that are dropped before they begin give their place in the window back.
#[test]
fn files_that_are_given_up_do_not_use_up_the_window() {
    let mut tree = Tree::default();
    for n in 0..202 {
        tree.0.insert(path(&format!("{n:03}")), Node::file(vec![1; 3000], NOW, 0o600));
    }
    let mut target = Target::of(tree);
    let done =
        |n| ToSender::Done { file: FileNo(n), done: Done::Failed(trouble(TroubleKind::Failed)) };
    for n in (0..200).step_by(2) {
        target.machine.handle(want(FileNo(n))).unwrap();
        target.machine.handle(want(FileNo(n + 1))).unwrap();
        for _ in 0..2 {
            let (id, open) = target.machine.poll_work().unwrap();
            let answer = target.hands.perform(open);
            target.machine.answer(id, answer).unwrap();
        }
        let (id, scan) = target.machine.poll_work().unwrap();
        target.machine.handle(done(n)).unwrap();
        target.machine.handle(done(n + 1)).unwrap();
        let answer = target.hands.perform(scan);
        target.machine.answer(id, answer).unwrap();
        target.work();
    }
    target.take([want(FileNo(200))]).unwrap();
    assert!(matches!(target.frames.last(), Some(ToReceiver::End { file: FileNo(200), .. })));
}

#[test]
fn what_is_settled_cannot_be_wanted_or_unsettled() {
    let mut target = Target::plain();
    target.take([ToSender::Settled { upto: FileNo(2) }]).unwrap();
    let unlisted = PeerError::Unexpected("a file that was not listed");
    assert_eq!(target.refusal(want(A)), unlisted);
    let back = PeerError::Unexpected("settled entries that were not listed");
    assert_eq!(target.refusal(ToSender::Settled { upto: FileNo(1) }), back);
}

/// Each file's sums are bounded, but many files may be under way.
/// Else what waits to be read would not be within the window.
#[test]
fn what_is_asked_about_is_answered_before_it_is_settled() {
    let early = PeerError::Unexpected("the end of a file before its requested digest");
    let failed = Done::Failed(trouble(TroubleKind::Failed));
    for end in [ToSender::Settled { upto: FileNo(3) }, ToSender::Done { file: A, done: failed }] {
        let mut target = Target::plain();
        target.machine.handle(ToSender::Digest(vec![A])).unwrap();
        assert_eq!(target.machine.handle(end.clone()), Err(early.clone()));
        let mut target = Target::asked();
        let told = |frame: &ToReceiver| matches!(frame, ToReceiver::Digests(lines) if lines[0].digest.is_some());
        assert!(target.frames.iter().any(told));
        target.take([end]).unwrap();
    }
}

/// What the sender's user reads of a file is what can have become of it.
#[test]
fn an_end_that_nothing_led_to_is_refused() {
    let (none, some) = (Differs::default(), Differs { mode: true, ..Differs::default() });
    let replaced =
        |action| Done::Replaced { action, differs: none, literal: 0, matched: 0, from: None };
    let good = [
        Done::Same { touched: false, differs: none },
        Done::Same { touched: true, differs: some },
        replaced(Action::Created),
        replaced(Action::Updated),
        replaced(Action::Copied),
    ];
    let bad = [
        Done::Same { touched: true, differs: none },
        Done::Same { touched: false, differs: some },
        replaced(Action::Touched),
        replaced(Action::Deleted),
        replaced(Action::Unchanged),
    ];
    let unled = PeerError::Unexpected("the end of a file without a matching attempt");
    let end = |done: &Done| ToSender::Done { file: A, done: done.clone() };
    for done in good.iter().chain(&bad) {
        assert_eq!(Target::plain().refusal(end(done)), unled, "{done:?} of what was not wanted");
        let mut target = Target::plain();
        target.take([want(A)]).unwrap();
        let ended = target.take([end(done)]);
        assert_eq!(ended.is_ok(), good.contains(done), "{done:?}");
    }
}

#[test]
fn the_sums_of_all_files_are_bounded() {
    let mut tree = Tree::default();
    for name in ["a", "b", "c", "d"] {
        tree.0.insert(path(name), Node::file(vec![1; 3000], NOW, 0o600));
    }
    let strategy = Strategy::by_name("rsync").unwrap();
    let mut target = Target::with(tree, Options { strategy, ..options() });
    let sum = Sum { len: 8192, weak: 1, strong: StrongSum::from_bytes(&[3; 16]).unwrap() };
    let lines = |file, sums| ToSender::Sums { file: FileNo(file), sums, extent: Extent::More };
    let mut told = Vec::new();
    for file in 0..4 {
        target.take([ToSender::Want { file: FileNo(file), how: TransferKind::Strategy }]).unwrap();
        target.machine.handle(lines(file, vec![SumLine::New(sum)])).unwrap();
        let again = || lines(file, vec![SumLine::Again(1); MAX_BATCH]);
        told.push((1..MAX_SUMS / MAX_BATCH).try_for_each(|_| target.machine.handle(again())));
    }
    assert_eq!(told[..3], [Ok(()), Ok(()), Ok(())]);
    assert_eq!(told[3], Err(PeerError::Limit("sums of all files")));
}

#[test]
fn stale_answers_about_a_failed_attempt_are_ignored() {
    let mut target = Target::failed();
    assert!(
        target.frames.iter().any(|frame| matches!(frame, ToReceiver::Failed { attempt: 1, .. }))
    );
    target
        .take([
            ToSender::Lack { file: A, groups: one(0..9) },
            ToSender::Need { file: A, chunks: one(0..9) },
        ])
        .unwrap();
}

/// Too many groups for one recipe: the receiver hears of it before it hears of them, and the file can still go whole.
#[test]
fn a_recipe_of_too_many_groups_is_given_up_in_time() {
    let mut machine = Sender::new(options());
    let mut told = 0;
    let failed = 'session: loop {
        while let Some((id, work)) = machine.poll_work() {
            machine.answer(id, endless(work)).unwrap();
        }
        while let Some(frame) = machine.poll_frame() {
            match frame {
                ToReceiver::Listing { .. } => machine.handle(want(A)).unwrap(),
                ToReceiver::Groups { groups, .. } => {
                    told += groups.len();
                    machine.handle(ToSender::Lack { file: A, groups: Vec::new() }).unwrap();
                }
                ToReceiver::Failed { trouble, .. } => break 'session trouble,
                _ => {}
            }
        }
    };
    assert_eq!(failed.kind, TroubleKind::Vanished, "which is tried again: {failed:?}");
    assert!((MAX_GROUPS / 2..=MAX_GROUPS).contains(&told), "{told}");
}

/// A file of 2^40 bytes whose every minimal chunk is a group.
fn endless(work: sender::SenderWork) -> sender::SenderAnswer {
    use sender::{FileAnswer, FileWork, Listed, Opened, SenderAnswer, SenderWork};
    let meta = file_of(1 << 40);
    let chunk = Chunk { len: 512, fingerprint: Fingerprint::from_bytes([0; 32]) };
    match work {
        SenderWork::List { .. } => {
            let entries = vec![Entry { name: name("a"), meta }];
            SenderAnswer::Listed(Ok(Listed { entries, ..Listed::default() }))
        }
        SenderWork::Open { .. } => {
            SenderAnswer::Opened(Ok(Opened { meta, body: None, known: Known::default() }))
        }
        SenderWork::File(FileWork::Scan { segment, .. }) => {
            let minimal = ChunkerSpec::Fixed(FixedLen::new(512).unwrap()).build();
            SenderAnswer::File(FileAnswer::Scanned(Ok(segment.cut(
                &minimal,
                &vec![0; segment.read_len()],
                |_| chunk,
            ))))
        }
        _ => SenderAnswer::Closed,
    }
}

/// What the receiver gave up on may still be on its way, even at the very end.
#[test]
fn late_frames_about_a_settled_file_are_ignored() {
    let mut victim = Victim::needed();
    victim.hands.faults.write = 100;
    victim.take([ToReceiver::Listed { intact: true }, fill(one(0..1), 1000)]).unwrap();
    for _ in 0..3 {
        victim.take([failed(1), failed(2), failed(3)]).unwrap();
    }
    assert!(victim.machine.is_finished());
    victim.take([fill(one(1..2), 2000), end(), failed(1), groups(&[(1, 1)])]).unwrap();
    let late = PeerError::Unexpected("a frame of the list after its end");
    assert_eq!(victim.refusal(listing("", &[], Extent::Last)), late);
    assert_eq!(victim.refusal(ToReceiver::Trouble(trouble(TroubleKind::Failed))), late);
}

/// What was to be compared is gone: that is a difference, and no reason to write in a dry run.
#[test]
fn a_dry_run_that_cannot_compare_writes_nothing() {
    let options = Options { dry_run: true, checksum: true, ..options() };
    let mut victim = Victim::new(Setting { options, ..Setting::default() });
    let frame = listing("", &[("a", file_of(OLD_BYTES as u64))], Extent::Last);
    victim.machine.handle(frame).unwrap();
    let (id, look) = victim.machine.poll_work().unwrap();
    let found = victim.hands.perform(look);
    victim.hands.tree.0.clear();
    victim.machine.answer(id, found).unwrap();
    victim.take([digests(A), ToReceiver::Listed { intact: true }]).unwrap();
    assert!(victim.machine.is_finished());
    assert!(!victim.frames.iter().any(|frame| matches!(frame, ToSender::Want { .. })));
}

#[test]
fn a_stale_failure_does_not_end_the_next_attempt() {
    let mut victim = Victim::needed();
    // The chunk is wrong: the receiver asks for the file whole, while the sender fails the first attempt.
    victim.take([fill(one(0..1), 1000)]).unwrap();
    victim.take([failed(1), start_whole(10)]).unwrap();
    let wants = victim.frames.iter().filter(|frame| matches!(frame, ToSender::Want { .. })).count();
    assert_eq!(wants, 2, "the second attempt goes on");
}

/// Three bytes ask for a copy that takes a disk longer: a driver is told of those that wait, until they are made or
/// given up.
#[test]
fn copies_that_wait_are_counted() {
    const LEN: u64 = 4 * 8192 * MAX_BATCH as u64;
    let strategy = Strategy::by_name("rsync").unwrap();
    let told = || {
        let options = Options { strategy, ..options() };
        let mut victim = Victim::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(LEN))], Extent::Last)]).unwrap();
        let (meta, spec) = (file_of(LEN), strategy.chunker(LEN, None));
        victim
            .take([ToReceiver::Start { file: A, meta, how: TransferKind::Strategy, spec }])
            .unwrap();
        let steps = vec![PatchStep::Copy(0..1); MAX_BATCH];
        for _ in 0..3 {
            victim.machine.handle(patch(steps.clone(), 0)).unwrap();
        }
        assert_eq!(victim.machine.copies_waiting(), 3 * MAX_BATCH);
        victim
    };
    let mut victim = told();
    victim.work();
    assert_eq!(victim.machine.copies_waiting(), 0);
    let mut victim = told();
    victim.take([failed(1)]).unwrap();
    assert_eq!(victim.machine.copies_waiting(), 0);
}

/// A new version is put in place when all work on the old ones has ended: with it they are let go of.
#[test]
fn an_early_end_waits_for_what_reads_old() {
    for name in ["rsync", "skysync-f"] {
        let strategy = Strategy::by_name(name).unwrap();
        let options = Options { strategy, ..options() };
        let mut victim = Victim::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("a", file_of(10_000))], Extent::Last)]).unwrap();
        let (meta, spec) = (file_of(0), strategy.chunker(0, None));
        let start = ToReceiver::Start { file: A, meta, how: TransferKind::Strategy, spec };
        victim.machine.handle(start).unwrap();
        let (id, sum) = victim.machine.poll_work().unwrap();
        assert!(
            matches!(sum, receiver::ReceiverWork::Old(receiver::OldVersionWork::SumOld { .. })),
            "{sum:?}"
        );
        victim.machine.handle(end()).unwrap();
        let early = victim.machine.poll_work();
        assert!(early.is_none(), "{name}: {early:?}");
        victim.machine.answer(id, victim.hands.perform(sum)).unwrap();
        let (_, commit) = victim.machine.poll_work().unwrap();
        assert!(
            matches!(commit, receiver::ReceiverWork::Settle(receiver::SettleWork::Commit { .. })),
            "{name}: {commit:?}"
        );
    }
}

/// The rest of an old version of which some cannot be read is of no use, but it is being read.
#[test]
fn a_version_that_cannot_be_read_is_held_until_nobody_reads_it() {
    let mut victim = Victim::plain();
    victim.machine.handle(listing("", &[("a", file_of(9000))], Extent::Last)).unwrap();
    let (id, look) = victim.machine.poll_work().unwrap();
    victim.machine.answer(id, victim.hands.perform(look)).unwrap();
    let (id, _) = victim.machine.poll_work().unwrap();
    let lens = receiver::OldLens { in_place: Some(100 << 20), ..receiver::OldLens::default() };
    victim
        .machine
        .answer(
            id,
            receiver::ReceiverAnswer::Old(receiver::OldVersionAnswer::Opened(Ok(Box::new(lens)))),
        )
        .unwrap();
    victim.machine.handle(start(0)).unwrap();
    let reads: Vec<_> = std::iter::from_fn(|| victim.machine.poll_work()).collect();
    assert!(
        reads.len() > 1
            && reads.iter().all(|(_, read)| matches!(
                read,
                receiver::ReceiverWork::Old(receiver::OldVersionWork::Index { .. })
            ))
    );
    victim.machine.handle(end()).unwrap();
    for (id, _) in reads {
        let early = victim.machine.poll_work();
        assert!(early.is_none(), "{early:?}");
        victim
            .machine
            .answer(
                id,
                receiver::ReceiverAnswer::Old(receiver::OldVersionAnswer::Indexed(Err(
                    work_error(0),
                ))),
            )
            .unwrap();
    }
    let (_, commit) = victim.machine.poll_work().unwrap();
    assert!(
        matches!(commit, receiver::ReceiverWork::Settle(receiver::SettleWork::Commit { .. })),
        "{commit:?}"
    );
}

#[test]
fn a_wrong_kind_of_answer_is_an_error_of_the_driver() {
    let mut machine = Receiver::new(Setting { options: options(), ..Setting::default() });
    machine.handle(listing("", &[("b", file_of(1))], Extent::Last)).unwrap();
    let (id, _) = machine.poll_work().unwrap();
    assert!(machine.answer(id, receiver::ReceiverAnswer::Asked(true)).is_err());
    assert!(
        machine
            .answer(
                id,
                receiver::ReceiverAnswer::Lookup(receiver::LookupAnswer::Looked(
                    Vec::new(),
                    receiver::MappedOwners::default()
                ))
            )
            .is_err()
    );
}

fn fast() -> ProptestConfig {
    let cases = std::env::var("DELTIC_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(3000), ..ProptestConfig::default() }
}

/// One thing that happens to a machine under test.
#[derive(Clone, Debug)]
enum Event<F> {
    Frame(F),
    /// Perform a piece of work that waits, and say that it failed or not.
    Work {
        pick: usize,
        luck: u8,
    },
}

fn events<F: Clone + std::fmt::Debug + 'static>(
    frame: impl prop::strategy::Strategy<Value = F> + 'static,
) -> impl prop::strategy::Strategy<Value = Vec<Event<F>>> {
    let work = (0..5usize, any::<u8>()).prop_map(|(pick, luck)| Event::Work { pick, luck });
    prop::collection::vec(prop_oneof![3 => frame.prop_map(Event::Frame), 2 => work], 0..60)
}

fn link() -> Meta {
    Meta { kind: Kind::Symlink(b"x"[..].into()), ..dir() }
}

/// A listing of the root as a part of the transfer.
fn whole_root(entries: &[(&str, Meta)], extent: Extent) -> ToReceiver {
    match listing("", entries, extent) {
        ToReceiver::Listing { dir: at, entries, extent, .. } => {
            ToReceiver::Listing { dir: at, own: Some(dir()), entries, extent }
        }
        other => other,
    }
}

/// What is done with links of one file, names that are in the way, lists, deletions and files that are there.
fn likely_ways() -> impl prop::strategy::Strategy<Value = Options> {
    let appends = [Append::Never, Append::Blindly, Append::Verified];
    (any::<[bool; 10]>(), prop::sample::select(appends.to_vec())).prop_map(|(flags, append)| {
        let [hard_links, list_only, asks, force, sources, inplace, delay, existing, safe, prune] =
            flags;
        let metadata = Metadata { hard_links, ..options().metadata };
        // Few lists are for nothing but to be shown.
        let list_only = list_only && prune && safe;
        let missing = if sources && force { Missing::Delete } else { Missing::Fail };
        let select = Select { list_only, prune_empty_dirs: prune, missing, ..Select::default() };
        let remove = Remove { asks, force, sources: sources && safe, ..Remove::default() };
        let append = if inplace { append } else { Append::Never };
        let writing = Writing { inplace, append, delay: delay && !inplace, ..Writing::default() };
        let follow = Links { safe, ..Links::default() };
        let compare = Compare { existing: existing && prune, ..Compare::default() };
        Options { metadata, select, remove, writing, follow, compare, ..options() }
    })
}

/// Frames that fit a small tree more often than any would.
fn likely_to_receiver() -> impl prop::strategy::Strategy<Value = ToReceiver> {
    let scripted: Vec<ToReceiver> = [
        listing("", &[("a", file_of(3000)), ("b", file_of(5)), ("c", dir())], Extent::More),
        listing("", &[("d", file_of(600_000))], Extent::Last),
        listing("c", &[("a", file_of(30_000))], Extent::Last),
        tally("c"),
        tally("c/b"),
        tally("c/b/b"),
        listing("c/b", &[("a", file_of(3000)), ("b", dir())], Extent::Last),
        whole_root(&[("a", first(3, file_of(3000))), ("b", back(1)), ("c", dir())], Extent::Last),
        listing("", &[("a", first(2, link())), ("b", back(1)), ("c", dir())], Extent::More),
        listing("c", &[("a", back(3)), ("b", dir())], Extent::Last),
        listing("c", &[("a", back(2)), ("b", first(2, dir()))], Extent::Part),
        whole_root(&[("b", file_of(5)), ("c", dir())], Extent::Empty),
        listing("c", &[], Extent::Empty),
        ToReceiver::Listed { intact: true },
        ToReceiver::Missing(vec![path("x")]),
        ToReceiver::Gone(Vec::new()),
        ToReceiver::Removed(path("a")),
        ToReceiver::Allow(true),
        owners(7, "ann"),
        recipe(&[1000, 2000]),
        recipe(&[3000]),
        chunks(one(0..1), &[1000, 2000]),
        chunks(one(1..2), &[3000]),
        groups(&[(3000, 2)]),
        groups(&[(3000, 1)]),
        fill(one(0..1), 1000),
        fill(one(0..1), 5),
        fill(one(1..2), 2000),
        mended(one(0..2), 3000),
        mended(one(0..2), 5),
        mended(one(0..1), 1000),
    ]
    .into();
    let about = (prop::sample::select(vec![0, 1, 3, 4]), 0..15usize, 1..3u32).prop_map(
        |(file, which, attempt)| {
            let frame = [
                start(3000),
                start_whole(5),
                start_whole(600_000),
                groups(&[(3000, 2)]),
                chunks(one(0..1), &[1000, 2000]),
                fill(one(0..1), 1000),
                mended(one(0..2), 3000),
                end(),
                ToReceiver::Restless { file: A },
                failed(attempt),
                digests(A),
                recipe(&[1000, 2000]),
                recipe(&[3000]),
                fill(one(0..1), 5),
                ToReceiver::Start {
                    file: A,
                    meta: file_of(30_000),
                    how: TransferKind::Tail,
                    spec: blocks(),
                },
            ][which]
                .clone();
            numbered(frame, FileNo(file))
        },
    );
    prop_oneof![2 => prop::sample::select(scripted), 4 => about, 1 => frames::to_receiver()]
}

fn numbered(frame: ToReceiver, file: FileNo) -> ToReceiver {
    match frame {
        ToReceiver::Start { meta, how, spec, .. } => ToReceiver::Start { file, meta, how, spec },
        ToReceiver::Groups { groups, .. } => ToReceiver::Groups { file, groups },
        ToReceiver::Chunks { groups, chunks, .. } => ToReceiver::Chunks { file, groups, chunks },
        ToReceiver::Recipe { chunks, .. } => ToReceiver::Recipe { file, chunks },
        ToReceiver::Fill { chunks, payload, .. } => ToReceiver::Fill { file, chunks, payload },
        ToReceiver::Mended { gaps, bytes, payload, .. } => {
            ToReceiver::Mended { file, gaps, bytes, payload }
        }
        ToReceiver::Restless { .. } => ToReceiver::Restless { file },
        ToReceiver::End { digest, .. } => ToReceiver::End { file, digest },
        ToReceiver::Failed { attempt, trouble, .. } => {
            ToReceiver::Failed { file, attempt, trouble }
        }
        ToReceiver::Digests(_) => digests(file),
        other => other,
    }
}

fn likely_to_sender() -> impl prop::strategy::Strategy<Value = ToSender> {
    let about = (0..4u64, 0..19usize).prop_map(|(file, which)| {
        let file = FileNo(file);
        let ask = ToSender::Digest(vec![file]);
        let same = Done::Same { touched: false, differs: Differs::default() };
        [
            ask,
            ToSender::Want { file, how: TransferKind::Recipe },
            ToSender::Want { file, how: TransferKind::Whole },
            ToSender::Lack { file, groups: one(0..1) },
            ToSender::Lack { file, groups: Vec::new() },
            ToSender::Need { file, chunks: one(0..1) },
            mend(file, 0..1, 100),
            ToSender::Settled { upto: file },
            ToSender::Done { file, done: same },
            resume(file, ChunkerSpec::for_len(3000)),
            tallied(one(0..file.0 as u32 + 1), Vec::new()),
            tallied(Vec::new(), one(0..file.0 as u32 + 1)),
            ToSender::Append { file, from: 1000 * file.0 },
            ToSender::Append {
                file,
                from: [1, 2999, i64::MAX as u64 - 1, u64::MAX][file.0 as usize],
            },
            tallied(one(file.0 as u32..file.0 as u32 + 1), Vec::new()),
            tallied(Vec::new(), one(file.0 as u32..file.0 as u32 + 1)),
            ToSender::Ask(Question { names: 7, of: 8, first: vec![path("a")] }),
            ToSender::Arrived { files: vec![file], upto: file, last: false },
            ToSender::Arrived { files: Vec::new(), upto: FileNo(file.0 + 1), last: file.0 == 3 },
        ][which]
            .clone()
    });
    prop_oneof![4 => about, 1 => frames::to_sender()]
}

fn work_error(luck: u8) -> WorkError {
    let then =
        [ErrorAction::Retry, ErrorAction::GiveUp, ErrorAction::GoOn, ErrorAction::WaitForRoom]
            [usize::from(luck % 4)];
    WorkError { trouble: trouble(TroubleKind::Failed), then }
}

/// A journal that may be a lie.
fn any_kept(luck: u8) -> receiver::KnownChunks {
    let spec = ChunkerSpec::for_len(3000);
    let chunks = scan(&spec.build(), &vec![luck % 2; 3000], AtEnd::Yes).chunks;
    let place = |(n, chunk)| (n as u64 * u64::from(luck), chunk);
    let chunks = chunks.into_iter().enumerate().map(place).collect();
    receiver::KnownChunks { key: Key::from_bytes([luck; 32]), spec, map: None, chunks }
}

/// An answer of the right kind and of any content.
fn receiver_answer(work: receiver::ReceiverWork, luck: u8) -> receiver::ReceiverAnswer {
    use receiver::{
        EntryWork, FileRelation, LookupAnswer, LookupWork, MoveIndexExtent, NewVersionAnswer,
        NewVersionWork, NotListed, OldLens, OldVersionAnswer, OldVersionWork, ReceiverAnswer,
        ReceiverWork, SettleWork,
    };
    let fails = luck.is_multiple_of(5);
    let work = match work {
        ReceiverWork::Old(OldVersionWork::Roll { .. }) if fails => {
            return ReceiverAnswer::Old(OldVersionAnswer::Rolled(Err(work_error(luck))));
        }
        ReceiverWork::Old(OldVersionWork::Roll { search, .. }) => {
            let (mut searcher, mut found) = (search.searcher(None), Vec::new());
            let bytes = vec![luck % 2; 3000];
            let consumed = searcher.search(&bytes, AtEnd::Yes, |op| found.push(op)) as u64;
            return ReceiverAnswer::Old(OldVersionAnswer::Rolled(Ok(receiver::OldMatches {
                found,
                consumed,
                at_end: true,
                searcher,
            })));
        }
        other => other,
    };
    let work = &work;
    let done = |luck| if fails { Err(work_error(luck)) } else { Ok(()) };
    match work {
        ReceiverWork::Lookup(LookupWork::Look { paths, .. })
        | ReceiverWork::Lookup(LookupWork::LookMissing { paths, .. }) => {
            let metas =
                [None, Some(file_of(3000)), Some(file_of(5)), Some(dir()), Some(file_of(0))];
            let look = |n: usize| match (luck as usize + n) % 7 {
                n @ 0..5 => Ok(metas[n].clone()),
                _ => Err(trouble(TroubleKind::Failed)),
            };
            ReceiverAnswer::Lookup(LookupAnswer::Looked(
                (0..paths.len()).map(look).collect(),
                receiver::MappedOwners::default(),
            ))
        }
        ReceiverWork::Lookup(LookupWork::Compare { .. }) if fails => {
            ReceiverAnswer::Lookup(LookupAnswer::Compared(None))
        }
        ReceiverWork::Lookup(LookupWork::Compare { .. }) => {
            let mut alike = receiver::EqualDir::default();
            alike.add(&name("a"), &file_of(u64::from(luck)));
            alike.add(&name("b"), &Meta { mode: [0o755, 0][usize::from(luck % 2)], ..dir() });
            ReceiverAnswer::Lookup(LookupAnswer::Compared(Some(Box::new(alike))))
        }
        ReceiverWork::Lookup(LookupWork::Digest { paths }) => {
            let digest = |n: usize| {
                let luck = (luck as usize + n) % 4;
                (luck > 0).then(|| Digest::from_bytes([luck as u8 / 2; 32]))
            };
            ReceiverAnswer::Lookup(LookupAnswer::Digested((0..paths.len()).map(digest).collect()))
        }
        ReceiverWork::Lookup(LookupWork::LookUpAlternates { .. }) => {
            let metas = [None, Some(file_of(3000)), Some(file_of(5)), Some(dir())];
            ReceiverAnswer::Lookup(LookupAnswer::Beside(
                (0..2).map(|n| metas[(luck as usize + n) % 4].clone()).collect(),
            ))
        }
        ReceiverWork::Lookup(LookupWork::Extra { .. }) if fails => {
            ReceiverAnswer::Lookup(LookupAnswer::Extra(Err(trouble(TroubleKind::Failed))))
        }
        ReceiverWork::Lookup(LookupWork::Extra { .. }) => {
            let (name, names) = (name("z"), u64::from(luck));
            let extra = deltic_protocol::receiver::Extra { name, names };
            let warnings = vec![trouble(TroubleKind::Warned)];
            let extras = vec![extra];
            ReceiverAnswer::Lookup(LookupAnswer::Extra(Ok(receiver::UnlistedNames {
                extras,
                rest: None,
                warnings,
            })))
        }
        ReceiverWork::Lookup(LookupWork::Count { .. }) => {
            ReceiverAnswer::Lookup(LookupAnswer::Counted(u64::from(luck)))
        }
        ReceiverWork::Lookup(LookupWork::CountMoved { new, .. }) => {
            ReceiverAnswer::Lookup(LookupAnswer::CountedMoved {
                files: u64::from(luck),
                new: new.clone(),
            })
        }
        ReceiverWork::SetDirs { .. } => ReceiverAnswer::SetDirs(Vec::new()),
        ReceiverWork::Land if fails => {
            let trouble = trouble(TroubleKind::Failed);
            ReceiverAnswer::Landed(vec![(path("a"), trouble.clone()), (path("none"), trouble)])
        }
        ReceiverWork::Land => ReceiverAnswer::Landed(Vec::new()),
        ReceiverWork::Remove { path, .. } => {
            let gone = vec![(path.clone(), EntryType::File); usize::from(luck % 3)];
            let troubles = match fails {
                true => vec![trouble(TroubleKind::Failed); usize::from(luck % 4)],
                false => vec![trouble(TroubleKind::Skipped); usize::from(luck > 200)],
            };
            ReceiverAnswer::Removed(receiver::RemovedNames {
                gone,
                troubles,
                goes_on: luck % 7 == 1,
            })
        }
        ReceiverWork::Ask(_) => ReceiverAnswer::Asked(luck > 100),
        ReceiverWork::Lookup(LookupWork::ExtendMoveIndex { names, .. }) => {
            let not_listed =
                [NotListed::Near, NotListed::Far, NotListed::Nothing][luck as usize % 3];
            let has_files = luck > 20;
            ReceiverAnswer::Lookup(LookupAnswer::MoveIndexExtended(MoveIndexExtent {
                names: names * u64::from(luck),
                not_listed,
                has_files,
            }))
        }
        ReceiverWork::Old(OldVersionWork::OpenMore { .. }) => {
            ReceiverAnswer::Old(OldVersionAnswer::OpenedMore((!fails).then_some(3000)))
        }
        ReceiverWork::Old(OldVersionWork::View { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Viewed(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::View { .. }) => {
            ReceiverAnswer::Old(OldVersionAnswer::Viewed(Ok(vec![1000; luck as usize % 3])))
        }
        ReceiverWork::Old(OldVersionWork::OpenOld { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Opened(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::OpenOld { .. }) => {
            ReceiverAnswer::Old(OldVersionAnswer::Opened(Ok(Box::new(OldLens {
                has_other_names: luck > 90,
                has_holes: luck % 7 == 1,
                base: luck.is_multiple_of(5).then(|| Digest::from_bytes([luck; 32])),
                in_place: [None, Some(0), Some(3000)][luck as usize % 3],
                beside: [None, Some(3000)][luck as usize / 3 % 2],
                similar: (luck / 6 % 2 == 1).then(|| receiver::SimilarFile {
                    path: path(["a", "d/b"][luck as usize / 12 % 2]),
                    len: 3000,
                    relation: [None, Some(FileRelation::Twin), Some(FileRelation::Kin)]
                        [luck as usize / 24 % 3],
                }),
                leftovers: vec![3000; luck as usize % 2],
                kept: (luck % 4 == 3).then(|| any_kept(luck)),
                recipe: (luck % 3 == 1).then(|| any_kept(luck)),
                keeps: BlockSumSpec::new(SumKind::Blake2b, 512 << (luck % 9)),
            }))))
        }
        ReceiverWork::Old(OldVersionWork::Index { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Indexed(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::Index { spec, segment, .. }) => {
            let bytes = vec![luck % 2; segment.read_len()];
            ReceiverAnswer::Old(OldVersionAnswer::Indexed(Ok(segment.cut(
                &spec.build(),
                &bytes,
                Chunk::of,
            ))))
        }
        ReceiverWork::Old(OldVersionWork::SumOld { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Summed(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::SumOld { summing, portion, .. }) => ReceiverAnswer::Old(
            OldVersionAnswer::Summed(Ok(summed_by_luck(*summing, portion, luck % 2))),
        ),
        ReceiverWork::Old(OldVersionWork::HashOld { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Hashed(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::HashOld { strong, spans, .. }) => {
            ReceiverAnswer::Old(OldVersionAnswer::Hashed(Ok(vec![
                strong.sum_of(None, &[luck]);
                spans.len()
            ])))
        }
        ReceiverWork::Old(OldVersionWork::Survey { .. }) if fails => {
            ReceiverAnswer::Old(OldVersionAnswer::Surveyed(Err(work_error(luck))))
        }
        ReceiverWork::Old(OldVersionWork::Survey { gaps, .. }) => {
            let sums = GapSums::sums_of(&[luck; 300], BlockLen::for_gap(300, 2), 1);
            ReceiverAnswer::Old(OldVersionAnswer::Surveyed(Ok(vec![sums; gaps.len()])))
        }
        ReceiverWork::New(NewVersionWork::Mend { .. }) if fails => {
            ReceiverAnswer::New(NewVersionAnswer::Mended(Err(work_error(luck))))
        }
        ReceiverWork::New(NewVersionWork::Mend { gaps, .. }) => {
            let mend = |patch: &receiver::GapPatch| {
                let len: u64 = patch.pieces.iter().map(|piece| u64::from(piece.span.len)).sum();
                let wrong = luck & 2 == 0 && !patch.old.is_empty();
                let fingerprint = (!wrong).then_some(Chunk::of(&[luck]).fingerprint);
                let fingerprints = vec![fingerprint; patch.pieces.len()];
                let literal = if wrong { 0 } else { len / 2 };
                receiver::Mended { fingerprints, literal, packed_copies: None }
            };
            ReceiverAnswer::New(NewVersionAnswer::Mended(Ok(gaps.iter().map(mend).collect())))
        }
        ReceiverWork::New(NewVersionWork::Copy { .. })
        | ReceiverWork::New(NewVersionWork::Repeat { .. }) => {
            ReceiverAnswer::New(NewVersionAnswer::Copied(done(luck)))
        }
        ReceiverWork::New(NewVersionWork::Write { pieces, .. }) => {
            let fingerprint = |_: &receiver::PayloadChunk| Chunk::of(&[luck]).fingerprint;
            ReceiverAnswer::New(NewVersionAnswer::Written(
                done(luck).map(|()| pieces.iter().map(fingerprint).collect()),
            ))
        }
        ReceiverWork::Settle(SettleWork::Commit { proof, .. })
        | ReceiverWork::Settle(SettleWork::Confirm { proof, .. }) => {
            _ = proof.is_equal_to(|| Ok::<_, ()>(digest_of([])));
            ReceiverAnswer::Done(done(luck))
        }
        ReceiverWork::Entry(EntryWork::LinkFromAlternate { .. })
        | ReceiverWork::Entry(EntryWork::CopyFromAlternate { .. })
        | ReceiverWork::Entry(EntryWork::Link { .. })
        | ReceiverWork::Entry(EntryWork::MakeDir { .. })
        | ReceiverWork::Entry(EntryWork::MakeSymlink { .. })
        | ReceiverWork::Entry(EntryWork::MakeSpecial { .. })
        | ReceiverWork::Entry(EntryWork::SetMeta { .. })
        | ReceiverWork::Settle(SettleWork::Replace(_))
        | ReceiverWork::Settle(SettleWork::Abandon { .. })
        | ReceiverWork::Sweep
        | ReceiverWork::Flush => ReceiverAnswer::Done(done(luck)),
        ReceiverWork::Old(OldVersionWork::Roll { .. }) => {
            unreachable!("a searcher is answered above")
        }
    }
}

/// Nothing, or alternates.
fn likely_compare() -> impl proptest::strategy::Strategy<Value = Compare> {
    let usage = [AlternateUse::Compare, AlternateUse::Copy, AlternateUse::Link];
    prop::option::of(prop::sample::select(usage.to_vec())).prop_map(|usage| match usage {
        None => Compare::default(),
        Some(usage) => {
            let alternates = Alternates { usage, dirs: vec![b"x"[..].into(); 2] };
            Compare { alternates, ..Compare::default() }
        }
    })
}

/// A list of huge files makes a receiver look around once, and no further than it will.
#[test]
fn claims_of_length_buy_a_bounded_look_around() {
    let files: Vec<_> = (0..1000).map(|n| format!("{n:04}")).collect();
    let huge: Vec<_> = files.iter().map(|name| (&**name, file_of(i64::MAX as u64))).collect();
    // The root itself is no part of it, or all would be looked at for the list as well.
    let mut machine = Victim::plain().machine;
    machine.handle(listing("", &huge, Extent::Last)).unwrap();
    let (mut names_seen, mut opened) = (0, 0);
    let mut hands = Victim::plain().hands;
    while let Some((id, work)) = machine.poll_work() {
        let answer = match work {
            receiver::ReceiverWork::Lookup(receiver::LookupWork::ExtendMoveIndex {
                near,
                names,
            }) => {
                assert!(near.is_empty(), "{near:?}");
                names_seen += names;
                let not_listed = receiver::NotListed::Far;
                receiver::ReceiverAnswer::Lookup(receiver::LookupAnswer::MoveIndexExtended(
                    receiver::MoveIndexExtent { names, not_listed, has_files: true },
                ))
            }
            work => {
                opened += u32::from(matches!(
                    work,
                    receiver::ReceiverWork::Old(receiver::OldVersionWork::OpenOld { .. })
                ));
                hands.perform(work)
            }
        };
        machine.answer(id, answer).unwrap();
    }
    assert!((1 << 20..(1 << 20) + (8 << 10)).contains(&names_seen), "{names_seen}");
    assert!(opened > 0, "what waited goes on");
}

#[test]
fn what_was_not_asked_for_is_not_removed_at_either_end() {
    let unasked = PeerError::Unexpected("a missing name that was not requested");
    let missing = || ToReceiver::Missing(vec![path("a")]);
    assert_eq!(Victim::plain().refusal(missing()), unasked);
    let select = Select { missing: Missing::Delete, ..Select::default() };
    let asked = || Options { select, ..options() };
    let expect = || Some([name("b")].into());
    let other = Setting { options: asked(), expect: expect(), ..Setting::default() };
    assert_eq!(Victim::new(other).refusal(missing()), unasked);
    let below = ToReceiver::Missing(vec![path("b/c")]);
    let named = Setting { options: asked(), expect: expect(), ..Setting::default() };
    assert_eq!(Victim::new(named).refusal(below.clone()), unasked);
    let relative = Options { select: Select { relative: true, ..select }, ..options() };
    let kept = Setting { options: relative, expect: expect(), ..Setting::default() };
    assert_eq!(Victim::new(kept).take([below]), Ok(()));
    let mut victim = Victim::new(Setting { options: asked(), ..Setting::default() });
    victim.take([missing(), listing("", &[], Extent::Last)]).unwrap();
    victim.take([ToReceiver::Listed { intact: true }]).unwrap();
    assert!(!victim.hands.tree.0.contains_key(&path("a")));
    let no_source = Err(PeerError::Unexpected("the arrival of a file that is not a source"));
    for sources in [false, true] {
        let remove = Remove { sources, ..Remove::default() };
        let mut machine = Sender::new(Options { remove, ..options() });
        assert_eq!(machine.handle(arrived(vec![A], FileNo(0))), no_source);
        assert_eq!(machine.handle(arrived(Vec::new(), FileNo(1))), no_source);
    }
    let unheard = PeerError::Unexpected("the end of removals that were not requested");
    assert_eq!(Victim::plain().refusal(ToReceiver::Gone(Vec::new())), unheard);
    let unheard = PeerError::Unexpected("the removal of a source that did not arrive");
    assert_eq!(Victim::plain().refusal(ToReceiver::Removed(path("a"))), unheard);
    let unheard = PeerError::Unexpected("a reason that was not asked for");
    let reason = ToReceiver::ReadReason { file: A, reason: ReadReason::NoBase };
    assert_eq!(Victim::plain().refusal(reason), unheard);
}

#[test]
fn a_file_that_is_told_and_does_not_come_excuses_no_deletion() {
    let delete = Delete::Guarded(Guard { percent: Some(5), names: None });
    let mut victim =
        Victim::new(Setting { options: Options { delete, ..options() }, ..Setting::default() });
    for n in 0..30 {
        let old = Node::file(vec![1; 3000], file_of(3000).modified, 0o644);
        victim.hands.tree.0.insert(path(&format!("old{n:02}")), old);
    }
    let names: Vec<_> = (0..30).map(|n| format!("new{n:02}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), file_of(3000))).collect();
    let list = listing("", &entries, Extent::Last);
    victim.take([list, ToReceiver::Listed { intact: true }]).unwrap();
    let mut attempts = [0; 30];
    let mut told = 0;
    while let Some(frame) = victim.frames.get(told).cloned() {
        told += 1;
        if let ToSender::Want { file, .. } = frame {
            let attempt = &mut attempts[file.0 as usize];
            *attempt += 1;
            let trouble = trouble(TroubleKind::Vanished);
            victim.take([ToReceiver::Failed { file, attempt: *attempt, trouble }]).unwrap();
        }
    }
    assert!(attempts.iter().all(|attempts| *attempts > 0), "{attempts:?}");
    let left = victim.hands.tree.0.keys().filter(|path| path.as_bytes().starts_with(b"old"));
    assert_eq!(left.count(), 30);
}

fn arrived(files: Vec<FileNo>, upto: FileNo) -> ToSender {
    ToSender::Arrived { files, upto, last: false }
}

/// A receiver that knows of a directory `d`.
fn named() -> Victim {
    let mut victim = Victim::plain();
    victim.hands.tree.0.insert(path("d"), Node::other(Kind::Dir, NOW, 0o755));
    victim.take([listing("", &[("d", dir())], Extent::Last)]).unwrap();
    victim
}

#[test]
fn a_tally_is_of_a_directory_that_is_or_will_be_listed_and_told_once() {
    let unlisted = PeerError::Unexpected("a tally of a directory that was not listed");
    let told = PeerError::Unexpected("a second tally of a directory");
    assert_eq!(named().refusal(tally("e")), unlisted);
    assert_eq!(named().refusal(tally("e/f")), unlisted);
    assert_eq!(named().refusal(tally("d/e/f")), unlisted);
    assert_eq!(named().refusal(tally("")), told);
    let mut victim = named();
    victim.take([tally("d/e")]).unwrap();
    assert_eq!(victim.refusal(tally("d/e")), told);
    let mut unlike = named();
    unlike.take([tally("d")]).unwrap();
    assert_eq!(unlike.frames.last(), Some(&tallied(Vec::new(), one(0..1))));
    assert_eq!(unlike.refusal(tally("d")), told);
    let mut begun = named();
    begun.take([listing("d", &[("e", dir())], Extent::More)]).unwrap();
    assert_eq!(begun.refusal(tally("d")), told);
    // Names ascend: this one does not come any more.
    assert_eq!(begun.refusal(tally("d/b")), unlisted);
    assert_eq!(begun.take([tally("d/f")]), Ok(()));
    let mut over = named();
    over.take([listing("d", &[], Extent::Last), ToReceiver::Listed { intact: true }]).unwrap();
    let late = PeerError::Unexpected("a frame of the list after its end");
    assert_eq!(over.refusal(tally("d")), late);
}

#[test]
fn a_tally_is_told_only_where_options_have_them_and_with_their_sums() {
    let unasked = PeerError::Unexpected("a tally that was not requested");
    let with = |options: Options| {
        let mut victim = Victim::new(Setting { options, ..Setting::default() });
        victim.take([listing("", &[("d", dir())], Extent::Last)]).unwrap();
        victim
    };
    // Of contents only where some may be known.
    let checksum = Options { checksum: true, ..options() };
    assert_eq!(with(checksum.clone()).refusal(tally("d")), unasked);
    let cached = Compare { cached: true, ..Compare::default() };
    assert_eq!(with(Options { compare: cached, ..checksum }).take([tally("d")]), Ok(()));
    let remove = Remove { sources: true, ..Remove::default() };
    assert_eq!(with(Options { remove, ..options() }).refusal(tally("d")), unasked);
    let wide = Metadata { hard_links: true, acls: true, xattrs: true, ..options().metadata };
    assert_eq!(with(Options { metadata: wide, ..options() }).take([tally("d")]), Ok(()));
    let without = Options { metadata: Metadata::default(), ..options() };
    assert_eq!(with(without).refusal(tally("d")), unasked);
    assert_eq!(with(options()).take([tally("d")]), Ok(()));
}

/// What was told to be in a directory must come to be in it.
#[test]
fn a_list_does_not_end_before_what_tallies_are_of() {
    let incomplete = PeerError::Unexpected("the end of an incomplete list");
    let end = || ToReceiver::Listed { intact: true };
    let mut unlike = named();
    unlike.take([tally("d")]).unwrap();
    assert_eq!(unlike.frames.last(), Some(&tallied(Vec::new(), one(0..1))));
    assert_eq!(unlike.refusal(end()), incomplete);
    let mut unnamed = named();
    unnamed.take([tally("d/e"), listing("d", &[("e", file_of(1))], Extent::Last)]).unwrap();
    assert_eq!(unnamed.refusal(end()), incomplete);
    let mut named = named();
    named.take([tally("d/e"), listing("d", &[("e", dir())], Extent::Last)]).unwrap();
    assert_eq!(named.take([listing("d/e", &[], Extent::Last), end()]), Ok(()));
}

#[test]
fn no_more_tallies_wait_than_the_window_holds() {
    let mut victim = named();
    let many = (0..TALLY_WINDOW).map(|n| tally(&format!("d/{n}")));
    victim.take(many).unwrap();
    assert_eq!(victim.refusal(tally("d/more")), PeerError::Limit("tallies"));
}

/// A sender that has told the tally of `d`, which holds a file and a directory `e`, and that of `d/e`.
fn tallying() -> Target {
    let mut tree = Tree::default();
    tree.0.insert(path("d"), Node::other(Kind::Dir, NOW, 0o755));
    tree.0.insert(path("d/a"), Node::file(old_bytes(), NOW, 0o644));
    tree.0.insert(path("d/e"), Node::other(Kind::Dir, NOW, 0o755));
    tree.0.insert(path("d/e/a"), Node::file(old_bytes(), NOW, 0o644));
    let hands = Source::new(tree, Some(dir()), Dice::new(3));
    let mut target =
        Target { machine: Sender::new(options()).tally_all_dirs(), hands, frames: Vec::new() };
    target.work();
    let tallies = target.frames.iter().filter(|frame| matches!(frame, ToReceiver::Tally { .. }));
    assert_eq!(tallies.count(), 2);
    target
}

#[test]
fn a_tally_is_answered_once() {
    let unknown = PeerError::Unexpected("an answer to an unknown tally");
    let none = Vec::new;
    for all in [one(2..3), one(0..3), one(0..u32::MAX)] {
        assert_eq!(tallying().refusal(tallied(all.clone(), none())), unknown);
        assert_eq!(tallying().refusal(tallied(none(), all)), unknown);
    }
    assert_eq!(tallying().refusal(tallied(one(0..1), one(0..1))), unknown);
    for again in [tallied(one(0..1), none()), tallied(none(), one(0..1))] {
        for first in [tallied(one(0..1), none()), tallied(none(), one(0..1))] {
            let mut target = tallying();
            target.take([first]).unwrap();
            assert_eq!(target.refusal(again.clone()), unknown);
        }
    }
}

/// The listing of a directory comes behind that of the one above, whichever was asked for first.
#[test]
fn what_is_below_an_unlike_directory_waits_for_it() {
    let mut target = tallying();
    let listed = |target: &Target| {
        let dir = |frame: &ToReceiver| match frame {
            ToReceiver::Listing { dir, .. } if !dir.is_root() => Some(dir.clone()),
            _ => None,
        };
        target.frames.iter().filter_map(dir).collect::<Vec<_>>()
    };
    target.take([tallied(Vec::new(), one(1..2))]).unwrap();
    assert_eq!(listed(&target), []);
    target.take([tallied(Vec::new(), one(0..1))]).unwrap();
    assert_eq!(listed(&target), [path("d"), path("d/e")]);
    assert_eq!(target.frames.last(), Some(&ToReceiver::Listed { intact: true }));
}

#[test]
fn names_that_stay_are_told_only_where_that_is_asked_for() {
    let told = |action| {
        let (item, differs) = (EntryType::File, Differs::default());
        ToSender::Changed(Change {
            path: path("a"),
            item,
            action,
            differs,
            facts: Facts::default(),
        })
    };
    let unasked = Err(PeerError::Unexpected(
        "a report of an unchanged name, without the option for these reports",
    ));
    for (tells_unchanged, heard) in [(true, Ok(())), (false, unasked)] {
        for action in [Action::Unchanged, Action::PassedOver(PassedOver::Newer)] {
            let mut machine = Sender::new(Options { tells_unchanged, ..options() });
            assert_eq!(machine.handle(told(action)), heard);
        }
    }
}

#[test]
fn a_question_is_asked_once_and_only_where_it_may_be() {
    let asks = Remove { asks: true, ..Remove::default() };
    let question = || ToSender::Ask(Question { names: 2000, of: 2001, first: vec![path("a")] });
    let unasked = Err(PeerError::Unexpected("a question about deletions in this state"));
    for (remove, delete, dry_run, may) in [
        (Remove::default(), Delete::Guarded(Guard::default()), false, false),
        (asks.clone(), Delete::Never, false, false),
        (asks.clone(), Delete::AtMost(7), false, false),
        (asks.clone(), Delete::Guarded(Guard::default()), true, false),
        (asks.clone(), Delete::Guarded(Guard::default()), false, true),
    ] {
        let mut machine = Sender::new(Options { remove, delete, dry_run, ..options() });
        assert_eq!(machine.handle(question()), if may { Ok(()) } else { unasked.clone() });
        assert_eq!(machine.handle(question()), unasked);
    }
    let fifo = || Meta::without_owner(Kind::Fifo, 0, Timestamp::default(), 0o644);
    let unheard = PeerError::Unexpected("an answer without a question");
    let setting = |user_is_here| {
        let options = Options {
            remove: asks.clone(),
            delete: Delete::Guarded(Guard { percent: Some(0), names: None }),
            ..options()
        };
        Setting { options, user_is_here, ..Setting::default() }
    };
    assert_eq!(Victim::new(setting(false)).refusal(ToReceiver::Allow(true)), unheard);
    // What is asked here is nobody else's to allow, and what waits for an answer does not go by itself.
    let own = || ToReceiver::Listing {
        dir: RelPath::root(),
        own: Some(dir()),
        // An empty source lets nothing go, whatever is answered.
        entries: vec![Entry { name: name("b"), meta: fifo() }],
        extent: Extent::Last,
    };
    let mut victim = Victim::new(setting(true));
    victim.machine.handle(own()).unwrap();
    victim.work();
    victim.machine.handle(ToReceiver::Listed { intact: true }).unwrap();
    assert_eq!(victim.machine.handle(ToReceiver::Allow(true)), Err(unheard.clone()));
    for allowed in [false, true] {
        let mut victim = Victim::new(setting(false));
        victim.take([own(), ToReceiver::Listed { intact: true }]).unwrap();
        let first = vec![path("a")];
        let asked = ToSender::Ask(Question { names: 1, of: 2, first });
        assert!(victim.frames.contains(&asked), "{:?}", victim.frames);
        assert!(!victim.machine.is_finished());
        victim.take([ToReceiver::Allow(allowed)]).unwrap();
        assert_eq!(victim.hands.tree.0.contains_key(&path("a")), !allowed);
        assert!(victim.machine.is_finished());
        assert_eq!(victim.refusal(ToReceiver::Allow(true)), unheard);
    }
}

/// As if each portion began a file.
fn summed_by_luck(summing: Summing, portion: &Portion, luck: u8) -> Summed {
    let portion = match portion {
        Portion::From(_) => Portion::From(0),
        Portion::Chunks(_, lens) => Portion::Chunks(0, lens.clone()),
        Portion::Boundaries(range) => Portion::Boundaries(0..range.end - range.start),
        Portion::Ends(range, judge) => Portion::Ends(0..range.end - range.start, *judge),
        Portion::SubChunks(range, judge) => Portion::SubChunks(0..range.end - range.start, *judge),
        Portion::Segment(segment) => Portion::Segment(Segment {
            own: 0..segment.own.end - segment.own.start,
            read_end: segment.read_len() as u64,
            at_end: segment.at_end,
        }),
        Portion::Digest(range) => Portion::Digest(0..range.end - range.start),
    };
    let len = match &portion {
        Portion::From(_) => 3000,
        Portion::Chunks(_, lens) => lens.iter().map(|len| *len as usize).sum(),
        Portion::Boundaries(range)
        | Portion::Ends(range, _)
        | Portion::SubChunks(range, _)
        | Portion::Digest(range) => range.end as usize,
        Portion::Segment(segment) => segment.read_len(),
    };
    let bytes = vec![luck; len];
    common::source::sum(summing, &bytes, &portion, 1 << 20).expect("all bytes are there").0
}

fn sender_answer(work: sender::SenderWork, luck: u8) -> sender::SenderAnswer {
    use sender::{
        Body, FileAnswer, FileSeal, FileWork, Listed, Opened, Sealing, Searched, SenderAnswer,
        SenderWork,
    };
    let sad = || {
        trouble(if luck.is_multiple_of(2) { TroubleKind::Vanished } else { TroubleKind::Failed })
    };
    let fails = luck.is_multiple_of(7);
    let plain = |len: usize| Payload::Plain(vec![0; len]);
    match work {
        SenderWork::List { .. } if fails => SenderAnswer::Listed(Err(sad())),
        SenderWork::List { dir: at, tally, .. } => {
            let meta = [file_of(3000), file_of(5), file_of(600_000), file_of(i64::MAX as u64)];
            let entry = |n: usize| Entry {
                name: name(&n.to_string()),
                meta: meta[(luck as usize + n) % 4].clone(),
            };
            let mut entries: Vec<_> = (0..4).map(entry).collect();
            for entry in entries.iter_mut().take(usize::from(luck % 3)) {
                let inode = Inode { device: 1, number: u64::from(luck % 2) };
                entry.meta.set_hard_link(Some(HardLink::Inode(inode, 2 + u32::from(luck % 5))));
            }
            if at.components().count() < 3 {
                entries.push(Entry { name: name("d"), meta: dir() });
            }
            let tally = tally.then(|| tally_of(&entries, ComparedAttributes::default(), |_| None));
            SenderAnswer::Listed(Ok(Listed { entries, tally, ..Listed::default() }))
        }
        SenderWork::Open { .. } if fails => SenderAnswer::Opened(Err(sad())),
        SenderWork::Open { .. } => {
            let meta = file_of([0, 5, 3000, i64::MAX as u64][luck as usize % 4]);
            let body =
                (meta.len == 5).then(|| Body { payload: plain(5), sealed: digest_of([]).into() });
            SenderAnswer::Opened(Ok(Opened { meta, body, known: Known::default() }))
        }
        SenderWork::File(FileWork::Scan { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Scanned(Err(sad())))
        }
        SenderWork::File(FileWork::Scan { spec, segment, .. }) => {
            let bytes = vec![luck; segment.read_len().min(1 << 20)];
            SenderAnswer::File(FileAnswer::Scanned(Ok(segment.cut(
                &spec.build(),
                &bytes,
                Chunk::of,
            ))))
        }
        SenderWork::File(FileWork::Seal { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Sealed(Err(sad())))
        }
        SenderWork::File(FileWork::Seal { proof: Sealing::Chunks(chunks), .. }) => {
            SenderAnswer::File(FileAnswer::Sealed(Ok(digest_of(chunks.iter()).into())))
        }
        SenderWork::File(FileWork::Seal { proof: Sealing::Bytes(digest), .. }) => {
            SenderAnswer::File(FileAnswer::Sealed(Ok(digest.into())))
        }
        SenderWork::File(FileWork::Seal { proof: Sealing::Nothing, .. }) => {
            SenderAnswer::File(FileAnswer::Sealed(Ok(FileSeal::UNPROVEN)))
        }
        SenderWork::File(FileWork::Seal {
            proof: Sealing::Changes(base, moved, blocks), ..
        }) => SenderAnswer::File(FileAnswer::Sealed(Ok(digest_of_changes(
            &base, 3000, &moved, &*blocks,
        )
        .into()))),
        SenderWork::File(FileWork::Sum { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Summed(Err(sad())))
        }
        SenderWork::File(FileWork::Sum { summing, digest, portion, .. }) => SenderAnswer::File(
            FileAnswer::Summed(Ok((summed_by_luck(summing, &portion, luck), digest))),
        ),
        SenderWork::File(FileWork::Hash { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Hashed(Err(sad())))
        }
        SenderWork::File(FileWork::Hash { strong, spans, .. }) => {
            SenderAnswer::File(FileAnswer::Hashed(Ok(vec![
                strong.sum_of(None, &[luck]);
                spans.len()
            ])))
        }
        SenderWork::File(FileWork::Search { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Searched(Err(sad())))
        }
        SenderWork::File(FileWork::Search { search, digest, .. }) => {
            let patches = vec![(vec![PatchStep::Literal(3000)], plain(3000))];
            let (searcher, at_end) = (search.searcher(None), !luck.is_multiple_of(3));
            SenderAnswer::File(FileAnswer::Searched(Ok(Searched {
                patches,
                consumed: 3000,
                at_end,
                searcher,
                digest,
            })))
        }
        SenderWork::File(FileWork::Find { .. }) | SenderWork::File(FileWork::Join { .. }) => {
            unreachable!("no file is long and told")
        }
        SenderWork::File(FileWork::Read { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Read(Err(sad())))
        }
        SenderWork::File(FileWork::Read { spans, .. }) => {
            let len = spans.iter().map(|span| span.len as usize).sum();
            SenderAnswer::File(FileAnswer::Read(Ok((plain(len), vec![Chunk::of(&[luck])]))))
        }
        SenderWork::File(FileWork::Mend { .. }) if fails => {
            SenderAnswer::File(FileAnswer::Mended(Err(sad())))
        }
        SenderWork::File(FileWork::Mend { gaps, .. }) => {
            let (payload, bytes) = (plain(gaps.len()), gaps.len() as u32);
            SenderAnswer::File(FileAnswer::Mended(Ok(Deltas { payload, bytes, compared: 0 })))
        }
        SenderWork::Digest { paths } => {
            let digest = (!fails).then(|| Digest::from_bytes([luck; 32]));
            SenderAnswer::Digested(vec![digest; paths.len()])
        }
        SenderWork::RemoveSource { .. } if fails => SenderAnswer::Removed(Err(sad())),
        SenderWork::RemoveSource { .. } => SenderAnswer::Removed(Ok(())),
        SenderWork::Ask(_) => SenderAnswer::Asked(luck > 100),
        SenderWork::Close { .. } => SenderAnswer::Closed,
    }
}

proptest! {
    #![proptest_config(fast())]

    #[test]
    fn no_frames_and_answers_make_a_receiver_panic(
        events in events(likely_to_receiver()),
        flags: [bool; 4],
        delete in prop::sample::select(vec![Delete::Never, Delete::Guarded(Guard::default()), Delete::Guarded(Guard { percent: Some(3), names: Some(3) }), Delete::AtMost(3)]),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
        compare in likely_compare(),
        ways in prop::option::of(likely_ways()),
        user_is_here: bool,
    ) {
        let [dry_run, checksum, whole_file, recursive] = flags;
        let recursive = !recursive || dry_run;
        let ways = ways.unwrap_or_else(options);
        let compare = Compare { existing: ways.compare.existing, ..compare };
        let options = Options { dry_run, checksum, whole_file, recursive, delete, strategy, compare, ..ways };
        let mut machine = Receiver::new(Setting { options, user_is_here, agrees_on_sums: !user_is_here, ..Setting::default() });
        let mut waiting = Vec::new();
        for event in events {
            match event {
                Event::Frame(frame) => if machine.handle(frame).is_err() { break },
                Event::Work { pick, luck } => {
                    waiting.extend(std::iter::from_fn(|| machine.poll_work()));
                    if !waiting.is_empty() {
                        let (id, work) = waiting.swap_remove(pick % waiting.len());
                        let answer = receiver_answer(work, luck);
                        machine.answer(id, answer).unwrap();
                    }
                }
            }
            while machine.poll_frame().is_some_and(|frame| !frame.encode().is_empty()) {}
            while machine.poll_notice().is_some() {}
        }
    }

    #[test]
    fn no_frames_and_answers_make_a_sender_panic(
        events in events(likely_to_sender()),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
        checksum: bool,
        ways in prop::option::of(likely_ways()),
        delete in prop::sample::select(vec![Delete::Never, Delete::Guarded(Guard::default())]),
    ) {
        let options = Options { strategy, checksum, delete, ..ways.unwrap_or_else(options) };
        let mut machine = Sender::new(options).tally_all_dirs();
        if !checksum {
            machine.negotiate_stored_sums();
        }
        let mut waiting = Vec::new();
        let lists = (0..2).map(|_| Event::Work { pick: 0, luck: 1 });
        for event in lists.chain(events) {
            match event {
                Event::Frame(frame) => if machine.handle(frame).is_err() { break },
                Event::Work { pick, luck } => {
                    waiting.extend(std::iter::from_fn(|| machine.poll_work()));
                    if !waiting.is_empty() {
                        let (id, work) = waiting.swap_remove(pick % waiting.len());
                        machine.answer(id, sender_answer(work, luck)).unwrap();
                    }
                }
            }
            while machine.poll_frame().is_some_and(|frame| !frame.encode().is_empty()) {}
            while machine.poll_notice().is_some() {}
        }
    }
}

fn appending() -> Options {
    let writing = Writing { inplace: true, append: Append::Blindly, ..Writing::default() };
    Options { writing, ..options() }
}

#[test]
fn sums_of_a_file_end_as_no_directory_does() {
    for extent in [Extent::Part, Extent::Empty] {
        let sums = ToReceiver::Sums { file: A, sums: Vec::new(), extent };
        let refusal = Victim::by("parasync").refusal(sums);
        assert_eq!(
            refusal,
            PeerError::Unexpected("a partial list of signature sums"),
            "{extent:?}"
        );
    }
}

#[test]
fn a_tail_lies_behind_what_was_there_and_comes_to_who_asked() {
    let begun = || {
        let mut victim = Victim::new(Setting { options: appending(), ..Setting::default() });
        victim.take([listing("", &[("a", file_of(300_000))], Extent::Last)]).unwrap();
        assert!(victim.frames.contains(&ToSender::Append { file: A, from: 10_000 }));
        victim
    };
    let start = |len, how| ToReceiver::Start { file: A, meta: file_of(len), how, spec: blocks() };
    let unasked = PeerError::Unexpected("a Start frame that does not fit the request");
    assert_eq!(begun().refusal(start(300_000, TransferKind::Whole)), unasked);
    assert_eq!(Victim::wanted().refusal(start(9000, TransferKind::Tail)), unasked);
    let backwards = PeerError::Unexpected("a tail that begins behind the end of the file");
    assert_eq!(begun().refusal(start(9999, TransferKind::Tail)), backwards);
    let mut victim = begun();
    victim.machine.handle(start(300_000, TransferKind::Tail)).unwrap();
    // Of 290,000 bytes there are two blocks.
    let beyond = victim.machine.handle(fill(one(2..3), 1));
    assert_eq!(beyond, Err(PeerError::Unexpected("a chunk that was not requested")));
    let mut victim = begun();
    victim.machine.handle(start(300_000, TransferKind::Tail)).unwrap();
    victim.machine.handle(fill(one(0..1), WHOLE_BLOCK_BYTES as usize)).unwrap();
    let early = victim.machine.handle(end());
    assert_eq!(early, Err(PeerError::Unexpected("the end of an incomplete file")));
    // One that is as long as what is there has none.
    let mut victim = begun();
    victim.machine.handle(start(10_000, TransferKind::Tail)).unwrap();
    victim.machine.handle(end()).unwrap();
}

#[test]
fn a_tail_is_what_the_file_has_behind_the_byte_that_was_named() {
    let tree = || {
        let mut tree = Tree::default();
        tree.0.insert(path("a"), Node::file(old_bytes()[..3000].to_vec(), NOW, 0o600));
        tree
    };
    let sent = |from| {
        let mut target = Target::with(tree(), appending());
        target.take([ToSender::Append { file: A, from }]).unwrap();
        let tail = |frame: &ToReceiver| match frame {
            ToReceiver::Fill { payload: Payload::Plain(bytes), .. } => Some(bytes.clone()),
            _ => None,
        };
        let bytes: Vec<u8> = target.frames.iter().filter_map(tail).flatten().collect();
        let failed = target.frames.iter().any(|frame| matches!(frame, ToReceiver::Failed { .. }));
        (bytes, failed)
    };
    for from in [0, 1, 1000, 2999, 3000] {
        assert_eq!(sent(from), (old_bytes()[from as usize..3000].to_vec(), false), "{from}");
    }
    for from in [3001, u64::MAX] {
        assert_eq!(sent(from), (Vec::new(), true), "{from}");
    }
}

/// Two new files, of which the second waits for the first: a group of it was asked for there.
fn waiting() -> Victim {
    let options = Options { compress: true, ..options() };
    let mut victim = Victim::new(Setting { options, ..Setting::default() });
    let entries = [("b", file_of(1 << 30)), ("c", file_of(2 << 30))];
    victim.take([listing("", &entries, Extent::Last)]).unwrap();
    for (file, (_, meta)) in [A, SECOND].into_iter().zip(entries) {
        let how = TransferKind::Recipe;
        assert!(victim.frames.contains(&ToSender::Want { file, how }), "{:?}", victim.frames);
        let spec = ChunkerSpec::for_len(meta.len);
        victim.take([ToReceiver::Start { file, meta, how, spec }, of_second(file, 1)]).unwrap();
    }
    assert_eq!((victim.answered(A), victim.answered(SECOND)), (1, 0));
    victim
}

const SECOND: FileNo = FileNo(1);

/// So many groups of one name.
fn of_second(file: FileNo, count: usize) -> ToReceiver {
    let line = GroupLine { len: 3000, chunks: 1, short: short(7) };
    ToReceiver::Groups { file, groups: vec![line; count] }
}

impl Victim {
    /// Frames of groups of a file that were answered.
    fn answered(&self, of: FileNo) -> usize {
        let answers = self.frames.iter();
        answers.filter(|frame| matches!(frame, ToSender::Lack { file, .. } if *file == of)).count()
    }
}

#[test]
fn a_file_that_waits_for_another_leaves_that_one_room_in_the_window() {
    let (mut victim, mut told) = (waiting(), 1);
    while victim.answered(SECOND) == 0 {
        assert!(told < GROUP_WINDOW as usize / 4, "it waits with {told} groups");
        victim.take([of_second(SECOND, MAX_BATCH)]).unwrap();
        told += MAX_BATCH;
    }
    victim.take([of_second(A, 1), of_second(SECOND, 1)]).unwrap();
    assert_eq!(victim.answered(A), 2);
    assert_eq!(victim.answered(SECOND), 2 + (told - 1) / MAX_BATCH, "it waits no more");
}

#[test]
fn nobody_waits_for_a_file_that_failed() {
    let mut victim = waiting();
    victim.take([failed(1)]).unwrap();
    assert_eq!(victim.answered(SECOND), 1);
}

/// The base has two whole blocks and a part of one.
#[test]
fn blocks_that_moved_are_whole_ones_of_both_versions_each_told_once_and_in_order() {
    let unfit = "an invalid run of moved blocks";
    for runs in [
        &[][..],
        // Nothing of it; what stays; what the base has not, or not whole; what the new version has not, or not whole.
        &[(0, 1, 0)],
        &[(0, 0, 1)],
        &[(0, 2, 1)],
        &[(0, 1, 2)],
        &[(0, u32::MAX, 1)],
        &[(0, 1, u32::MAX)],
        &[(5, 0, 1)],
        &[(4, 0, 2)],
        &[(u32::MAX, 0, 1)],
        &[(u32::MAX, u32::MAX - 1, u32::MAX)],
        // Twice, one over another, backwards.
        &[(3, 1, 1), (3, 0, 1)],
        &[(2, 0, 2), (3, 0, 1)],
        &[(3, 1, 1), (2, 0, 1)],
    ] {
        let refused = Victim::based(5 * 4096 + 7).refusal(moved(runs));
        assert_eq!(refused, PeerError::Unexpected(unfit), "{runs:?}");
    }
    // In a frame of its own it counts all the same.
    let mut victim = Victim::based(5 * 4096 + 7);
    victim.take([moved(&[(2, 0, 2)])]).unwrap();
    assert_eq!(victim.refusal(moved(&[(3, 0, 1)])), PeerError::Unexpected(unfit));
    // Behind a block it is too late.
    let mut victim = Victim::based(5 * 4096 + 7);
    victim.take([fill(one(0..1), 4096)]).unwrap();
    assert_eq!(victim.refusal(moved(&[(3, 0, 1)])), PeerError::Unexpected(unfit));
}

#[test]
fn blocks_that_moved_do_not_come_and_those_that_the_base_lacks_do() {
    let unasked = PeerError::Unexpected("a chunk that was not requested");
    let incomplete = PeerError::Unexpected("the end of an incomplete file");
    let runs = [(1, 0, 2), (4, 1, 1)];
    let victim = || {
        let mut victim = Victim::based(5 * 4096 + 7);
        victim.take([moved(&runs)]).unwrap();
        victim
    };
    for block in [1, 2, 4] {
        assert_eq!(victim().refusal(fill(one(block..block + 1), 4096)), unasked, "{block}");
    }
    // Block 3 is behind the end of the base, and so is the last.
    assert_eq!(victim().refusal(fill(one(5..6), 7)), unasked);
    assert_eq!(victim().refusal(end()), incomplete);
    let mut complete = victim();
    complete.take([fill(one(3..4), 4096)]).unwrap();
    assert_eq!(complete.refusal(end()), incomplete);
    let mut complete = victim();
    complete.take([fill(vec![3..4, 5..6], 4096 + 7)]).unwrap();
    // The digest is another: it comes whole.
    complete.take([end()]).unwrap();
    assert!(complete.frames.contains(&ToSender::Want { file: A, how: TransferKind::Whole }));
    assert_eq!(*complete.hands.tree.0[&path("a")].bytes, old_bytes());
}

/// A run that moved is where it was told to be if the digest is right. Another run has another digest.
#[test]
fn the_digest_is_of_the_runs_too() {
    let old = old_bytes();
    let base = |victim: &Victim| {
        let base = victim.frames.iter().find_map(|frame| match frame {
            ToSender::Base { base, .. } => Some(*base),
            _ => None,
        });
        base.expect("it was told")
    };
    for (told, proved) in [((0, 1, 1), (0, 1, 1)), ((0, 1, 1), (1, 0, 1)), ((1, 0, 1), (1, 0, 1))] {
        let mut victim = Victim::based(2 * 4096);
        let run = |(to, from, blocks)| MovedRun { to, from, blocks };
        let digest = digest_of_changes(&base(&victim), 2 * 4096, &[run(proved)], []);
        victim.take([moved(&[told]), ToReceiver::End { file: A, digest }]).unwrap();
        let is_taken = victim.frames.iter().any(|frame| matches!(frame, ToSender::Done { .. }));
        assert_eq!(is_taken, told == proved, "{told:?} {:?}", victim.frames);
        let mut new = old[..2 * 4096].to_vec();
        new.copy_within(
            told.1 as usize * 4096..(told.1 as usize + 1) * 4096,
            told.0 as usize * 4096,
        );
        let is = if is_taken { new } else { old.clone() };
        assert_eq!(*victim.hands.tree.0[&path("a")].bytes, is);
    }
}

#[test]
fn runs_of_blocks_that_moved_are_bounded() {
    let len = (MAX_MOVED_RUNS as u64 + 9) * 2 * 4096;
    let mut victim = Victim::based(len);
    let run = |no: usize| (no as u32 * 2 + 2, 0, 1);
    for first in (0..MAX_MOVED_RUNS).step_by(1 << 10) {
        let runs: Vec<_> = (first..first + (1 << 10)).map(run).collect();
        victim.take([moved(&runs)]).unwrap();
    }
    let refused = victim.refusal(moved(&[run(MAX_MOVED_RUNS)]));
    assert_eq!(refused, PeerError::Limit("runs of moved blocks"));
}

/// Holes are claims: those that a file cannot have end the session, and no length costs more than its entry.
#[test]
fn holes_that_a_file_cannot_have_are_refused() {
    let told = |lines: &[(u64, u64)]| holes(A, lines);
    let asked = |takes_holes: bool| Victim::of_holes(takes_holes, &[("a", 9000)]);
    let refused = Err(PeerError::Unexpected("data runs that do not fit the length of the file"));
    assert_eq!(asked(false).take([told(&[(5, 5)])]), refused, "nobody asked for holes");
    let bad: [&[(u64, u64)]; 6] = [
        &[(5, 0)],
        &[(0, 5), (0, 5)],
        &[(8000, 1001)],
        &[(0, 5), (u64::MAX, 1)],
        &[(u64::MAX, u64::MAX)],
        &[(9001, 1)],
    ];
    for lines in bad {
        assert_eq!(asked(true).take([told(lines), start(9000)]), refused, "{lines:?}");
    }
    assert_eq!(asked(true).take([told(&[(1, 1)]), told(&[])]), refused);
    let many = vec![(1, 1); 4096];
    let too_many = (0..=16).map(|_| told(&many));
    let mut large = Victim::of_holes(true, &[("a", LARGE_FILE_BYTES + 1)]);
    assert_eq!(large.take(too_many), Err(PeerError::Limit("runs of data")));
    let mut started = asked(true);
    started.take([told(&[(1, 1)]), start(9000)]).unwrap();
    assert_eq!(started.take([told(&[(1, 1)])]), refused, "its start came");
    // A group that is longer than the data.
    let mut started = asked(true);
    started.take([told(&[(100, 3000)]), start(9000)]).unwrap();
    assert_eq!(started.take([groups(&[(3001, 2)])]), Err(PeerError::Limit("length of a group")));
}

/// A session has many files under way, and holds the runs of all of them.
#[test]
fn a_small_file_has_no_more_runs_of_data_than_fit_between_large_holes() {
    let names: Vec<_> = (0..MAX_ACTIVE_FILES).map(|no| format!("{no:03}")).collect();
    let len = LARGE_FILE_BYTES / MAX_ACTIVE_FILES as u64;
    let files: Vec<_> = names.iter().map(|name| (&**name, len)).collect();
    let mut victim = Victim::of_holes(true, &files);
    let asked = |frame: &ToSender| matches!(frame, ToSender::Want { .. });
    assert_eq!(victim.frames.iter().filter(|frame| asked(frame)).count(), files.len());
    let failed = |victim: &Victim| {
        let failed = |frame: &&ToSender| matches!(frame, ToSender::Done { done: Done::Failed(why), .. } if why.message.contains("the file grew too much"));
        victim.frames.iter().filter(failed).count()
    };
    let told = |file: u64, runs: usize| holes(FileNo(file), &vec![(1, 1); runs]);
    for file in 0..files.len() {
        victim.take([told(file as u64, MAX_SMALL_DATA_RUNS)]).unwrap();
        assert_eq!(failed(&victim), file, "as many runs as a small file can have are taken");
        victim.take([told(file as u64, 1)]).unwrap();
        assert_eq!(failed(&victim), file + 1, "more runs are let go");
        // Frames that were on their way are of no file any more.
        let late = (0..MAX_DATA_RUNS / MAX_BATCH).map(|_| told(file as u64, MAX_BATCH));
        victim.take(late).unwrap();
    }
}
