//! Frames to test with: one of each to pin, and strategies for all others.
#![allow(dead_code, unreachable_pub)]

use std::ops::Range;

use deltic_core::chunk::{Algorithm, FixedLen, Sizes};
use deltic_core::{
    BlockLen, BlockSumSpec, ChunkPrefix, ChunkerSpec, Digest, GapSums, GroupPrefix, Key, MovedRun,
    StrongSum, SumKind, ZeroRun,
};
use deltic_protocol::check::Checksum;
use deltic_protocol::echo::{Echo, Echoed, MeasuredLink};
use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::hello::{Abort, AbortCause, Alive, Names, NamesFrom, Reply, Request};
use deltic_protocol::limits::{MAX_BLOCK_BYTES, MAX_LEVEL, MAX_STREAMS, MAX_THREADS};
use deltic_protocol::message::{
    Answers, BriefDigest, ChunkLine, ChunkLines, CutDigest, DataLine, Done, Extent, GapLine,
    GroupLine, NameLine, Outcome, Payload, SharedPath, ShortDigestLine, ShortDigestLines,
    ShortEntries, Sparse, TransferKind,
};
use deltic_protocol::options::Writing;
use deltic_protocol::options::{
    AlternateUse, Alternates, Compare, Delete, Fuzzy, Guard, Options, TrustedSums, Window,
};
use deltic_protocol::options::{Append, Backup, Links, Metadata, Missing, Powers, Remove, Select};
use deltic_protocol::report::{
    Action, Change, Differs, EntryType, Facts, MadeRoot, PassedOver, Question, ReadReason, Side,
    Spot, Totals, Trouble, TroubleKind,
};
use deltic_protocol::streams::{self, Aside, Join};
use deltic_protocol::sums::{PatchStep, Sum, SumLine, Token, TokenScope};
use deltic_protocol::{DigestLine, FileNo, Hello, ToReceiver, ToSender};
use deltic_tree::meta::{
    AclEntry, Device, DeviceClass, HardLink, IdKind, IdRules, ModeRules, Owner, UnreadReason,
};
use deltic_tree::path::printable;
use deltic_tree::rule::{self, DirMerge, FileSyntax, PatternRule, Rule, RuleModifiers, Rules};
use deltic_tree::{
    Acl, DirDigest, Entry, ExtraMeta, Follow, Kind, Meta, Mounts, Name, RelPath, Timestamp, Xattr,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

/// The digest of the file in the session of the document.
const HELLO_DIGEST: [u8; 32] = [
    0x2d, 0x0c, 0x1b, 0x59, 0x95, 0xd5, 0x49, 0x40, 0x4f, 0x31, 0xe7, 0xb5, 0xe4, 0xee, 0x1b, 0x1c,
    0x68, 0x49, 0x8b, 0xa8, 0x45, 0xba, 0x77, 0xef, 0xa2, 0xe2, 0x50, 0xf8, 0x1e, 0xe3, 0xc1, 0x4d,
];

/// A whole frame's type and payload.
pub fn split(frame: &[u8]) -> (u8, &[u8]) {
    (frame[0], &frame[HEADER_BYTES..])
}

/// One frame or more of each kind, named.
pub fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let file = FileNo(300);
    let trouble = || Trouble::new(TroubleKind::Vanished, "open a: gone");
    let mut located = Trouble::at(TroubleKind::Failed, &RelPath::parse(b"a/b").unwrap(), |path| {
        format!("read {path}: no")
    });
    located = located.with_errno(Some(13));
    located.locate(Side::Sender, |_| Some((*b"/srv/a/b").into()));
    let when = Timestamp { secs: 1_700_000_000, nanos: 5 };
    let meta = Meta::without_owner(Kind::File, 5000, when, 0o644);
    let hello_meta = Meta { len: 6, modified: Timestamp { nanos: 0, ..when }, ..meta.clone() };
    let short = |byte| GroupPrefix::from_bytes([byte; 8]);
    let group = GroupLine { len: 5000, chunks: 3, short: short(0xab) };
    let chunk = ChunkLine { len: 1700, brief: brief(5, 0xcd) };
    let chunks = || ChunkLines(vec![chunk; 3]);
    let dir = Meta { kind: Kind::Dir, len: 0, mode: 0o755, ..meta.clone() };
    let link = Meta { kind: Kind::Symlink(b"../b"[..].into()), ..dir.clone() };
    let named = AclEntry { who: IdKind::Group, id: 1000, perms: 5 };
    let acl = Acl { owner: 7, group: 4, mask: Some(6), other: 0, named: vec![named] };
    let full = Meta {
        user: Some(0),
        group: Some(1000),
        more: ExtraMeta {
            accessed: Some(when),
            linked: Some(HardLink::First(300)),
            access_acl: Some(acl.clone()),
            default_acl: Some(Acl { mask: None, named: Vec::new(), ..acl }),
            xattrs: vec![Xattr { name: b"user.a"[..].into(), value: b"\0\xff"[..].into() }],
            unread: Some(UnreadReason::Other),
            implied: true,
            owner: None,
        }
        .into_box(),
        ..dir.clone()
    };
    let device = Device { class: DeviceClass::Block, major: 7, minor: 300 };
    let device = Meta { kind: Kind::Device(device), ..dir.clone() };
    let path = RelPath::parse(b"dir/a").unwrap();
    let entry = |name: &str, meta: &Meta| Entry {
        name: Name::new(name.as_bytes()).unwrap(),
        meta: meta.clone(),
    };
    let differs = Differs { content: true, time: true, xattrs: true, ..Differs::default() };
    let options = Options {
        recursive: true,
        times: true,
        delete: Delete::AtMost(7),
        rules: rules(),
        ..Options::default()
    };
    let replaced = Done::Replaced {
        action: Action::Updated,
        differs,
        literal: 5000,
        matched: 1,
        from: Some(path.clone()),
    };
    let facts =
        Facts { target: Some(b"to".as_slice().into()), ..Facts::state_at_sender(&meta_of(2)) };
    let change = Change { path, item: EntryType::Symlink, action: Action::Created, differs, facts };
    let sum = u128::from_le_bytes(*b"0123456789abcdef");
    let tally = DirDigest { entries: 300, sum, users: Some(1), groups: None };
    let linked_change = Change {
        path: RelPath::parse(b"b").unwrap(),
        item: EntryType::File,
        action: Action::Created,
        differs: Differs::default(),
        facts: Facts {
            linked: RelPath::parse(b"dir/a").ok(),
            ..Facts::state_at_sender(&meta_of(2))
        },
    };
    let linked = |linked: HardLink| {
        let mut meta = meta_of(2);
        meta.set_hard_link(Some(linked));
        meta
    };
    let totals = Totals {
        files: 1,
        bytes: 5000,
        transferred: 1,
        transferred_bytes: 5000,
        literal: 1700,
        matched: 3300,
        ..Totals::default()
    };
    let request = Request::Receive {
        destination: b"/data"[..].into(),
        single: None,
        names: NamesFrom::Nowhere,
        options: options.clone(),
    };
    let token = streams::Token::from_bytes([0x70; 32]);
    let join = Join::new(token, b"/run/s"[..].into()).unwrap();
    let strategy = deltic_core::Strategy::by_name("webr2sync+").unwrap();
    let by_strategy = Request::Receive {
        destination: b"/data"[..].into(),
        single: None,
        names: NamesFrom::Nowhere,
        options: Options { strategy, ..options.clone() },
    };
    let metadata = Metadata {
        users: true,
        acls: true,
        powers: Powers::Waived,
        chmod: ModeRules::parse("D755,Fgo-w", 0o022).unwrap(),
        user_map: IdRules::parse("0-99:nobody,*:7").unwrap(),
        ..Metadata::default()
    };
    let with_metadata = Request::Receive {
        destination: b"/data"[..].into(),
        single: None,
        names: NamesFrom::Nowhere,
        options: Options { metadata, ..options.clone() },
    };
    let compare = Compare {
        size_only: true,
        update: true,
        window: Window::Secs(2),
        min_bytes: 7,
        max_bytes: Some(300),
        alternates: Alternates { usage: AlternateUse::Link, dirs: vec![b"../old"[..].into()] },
        fuzzy: Fuzzy::Everywhere,
        max_age_secs: Some(86_400),
        trusted: Some(TrustedSums::Blocks { kind: SumKind::Xxh64, block_bytes: 4096 }),
        ..Compare::default()
    };
    let by_comparison = Request::Receive {
        destination: b"/data"[..].into(),
        single: None,
        names: NamesFrom::Nowhere,
        options: Options { compare, ..options.clone() },
    };
    let select = Select {
        dirs: true,
        list_only: true,
        existing: true,
        mounts: Mounts::LeaveOut,
        missing: Missing::Delete,
        ..Select::default()
    };
    let remove = Remove {
        ignore_errors: true,
        asks: true,
        backup: Some(Backup { dir: Some(b"kept"[..].into()), suffix: b"~"[..].into() }),
        ..Remove::default()
    };
    let by_selection = Request::Send {
        sources: vec![b"/src"[..].into()],
        names: NamesFrom::File { path: b"/list"[..].into(), nul: true },
        options: Options {
            select,
            remove,
            follow: Links {
                follow: Follow::Unsafe,
                safe: true,
                keep_dirs: true,
                ..Links::default()
            },
            ..options.clone()
        },
    };
    let writing = Writing {
        sparse: true,
        inplace: true,
        append: Append::Verified,
        temp_dir: Some(b"/tmp"[..].into()),
        ..Writing::default()
    };
    let in_place = Request::Receive {
        destination: b"/data"[..].into(),
        single: None,
        names: NamesFrom::Nowhere,
        options: Options { writing, block_bytes: Some(4096), ..options.clone() },
    };
    let part = Key::from_bytes([0x17; 32]);
    let capabilities = ["chunker:sieve", "recipe:keyed-8"].map(String::from).into();
    let hello = Hello { program: "deltic 0".into(), capabilities, part };
    let fill = || ToReceiver::Fill {
        file,
        chunks: std::iter::once(1..3).collect(),
        payload: Payload::Plain(b"abc".to_vec()),
    };
    let one = |range: Range<u32>| vec![range];
    let sums = GapSums::sums_of(&[0x5a; 200], BlockLen::for_gap(200, 2), 1);
    vec![
        ("Hello", hello.encode()),
        (
            "Request.Send",
            Request::Send { sources: vec![b"a/"[..].into()], names: NamesFrom::Nowhere, options }
                .encode(),
        ),
        ("Request.Receive", request.encode()),
        ("Request.strategy", by_strategy.encode()),
        ("Request.metadata", with_metadata.encode()),
        ("Request.compare", by_comparison.encode()),
        ("Request.select", by_selection.encode()),
        ("Request.writing", in_place.encode()),
        ("Names", Names(vec![b"a/b"[..].into(), b"c"[..].into()]).encode()),
        ("Reply", Reply { single: Some(Name::new(b"a").unwrap()), join: None }.encode()),
        ("Reply.join", Reply { single: None, join: Some(join) }.encode()),
        ("Check", {
            let mut sum = Checksum::NOTHING;
            sum.add_frames(&Alive.encode());
            sum.check_frame().to_vec()
        }),
        (
            "Abort",
            Abort { cause: AbortCause::Protocol, message: "too much: frame length".into() }
                .encode(),
        ),
        (
            "Listing",
            ToReceiver::Listing {
                dir: RelPath::root(),
                own: Some(dir.clone()),
                entries: vec![entry("a", &meta), entry("d", &dir), entry("l", &link)],
                extent: Extent::Last,
            }
            .encode(),
        ),
        (
            "Listing.empty",
            ToReceiver::Listing {
                dir: RelPath::root(),
                own: None,
                entries: Vec::new(),
                extent: Extent::Empty,
            }
            .encode(),
        ),
        (
            "Listing.metadata",
            ToReceiver::Listing {
                dir: RelPath::root(),
                own: None,
                entries: vec![entry("d", &full), entry("e", &device)],
                extent: Extent::More,
            }
            .encode(),
        ),
        (
            "Listing.linked",
            ToReceiver::Listing {
                dir: RelPath::root(),
                own: None,
                entries: vec![
                    entry("a", &linked(HardLink::First(3))),
                    entry("b", &linked(HardLink::Back(1))),
                ],
                extent: Extent::Last,
            }
            .encode(),
        ),
        (
            "ShortListing",
            ToReceiver::ShortListing {
                dir: SharedPath { shared: 0, rest: Box::default() },
                own: Some(dir.clone()),
                entries: ShortEntries(vec![
                    entry("a", &meta),
                    entry("aa", &Meta { len: 1, ..meta.clone() }),
                    entry("ab", &Meta { user: Some(0), group: Some(7), ..meta.clone() }),
                    entry("d", &full),
                    entry(
                        "e",
                        &Meta { modified: meta_of(2).modified, mode: 0o700, ..meta.clone() },
                    ),
                    entry("eb", &dir),
                    entry("l", &link),
                    entry(&"l".repeat(200), &linked(HardLink::Back(1))),
                    entry(&"l".repeat(210), &meta),
                ]),
                extent: Extent::Last,
            }
            .encode(),
        ),
        (
            "ShortListing.one",
            ToReceiver::ShortListing {
                dir: SharedPath { shared: 0, rest: Box::default() },
                own: None,
                entries: ShortEntries(vec![entry("a", &hello_meta)]),
                extent: Extent::Last,
            }
            .encode(),
        ),
        (
            "Single.one",
            ToReceiver::Single {
                file: FileNo(0),
                meta: None,
                digest: BriefDigest::of(&Digest::from_bytes(HELLO_DIGEST)),
                payload: Payload::Plain(b"hello\n".to_vec()),
            }
            .encode(),
        ),
        (
            "Owners",
            ToReceiver::Owners {
                users: vec![NameLine { id: 0, name: b"root"[..].into() }],
                groups: vec![NameLine { id: 1000, name: b"staff"[..].into() }],
            }
            .encode(),
        ),
        ("Listed", ToReceiver::Listed { intact: true }.encode()),
        (
            "Start.recipe",
            ToReceiver::Start {
                file,
                meta: meta.clone(),
                how: TransferKind::Recipe,
                spec: ChunkerSpec::for_len(5000),
            }
            .encode(),
        ),
        (
            "Start.whole",
            ToReceiver::Start {
                file,
                meta: meta.clone(),
                how: TransferKind::Whole,
                spec: ChunkerSpec::Fixed(FixedLen::new(256 << 10).unwrap()),
            }
            .encode(),
        ),
        (
            "Offer",
            ToReceiver::Offer { file, meta: meta.clone(), spec: ChunkerSpec::for_len(5000) }
                .encode(),
        ),
        ("Groups", ToReceiver::Groups { file, groups: vec![group] }.encode()),
        ("Chunks", ToReceiver::Chunks { file, groups: one(0..1), chunks: chunks() }.encode()),
        ("Recipe", ToReceiver::Recipe { file, chunks: chunks() }.encode()),
        (
            "Fill.plain",
            ToReceiver::Fill {
                file,
                chunks: one(1..3),
                payload: Payload::Plain(b"literal".to_vec()),
            }
            .encode(),
        ),
        (
            "Single",
            ToReceiver::Single {
                file,
                meta: None,
                digest: BriefDigest::from_bytes([0xef; 16]),
                payload: Payload::Plain(b"literal".to_vec()),
            }
            .encode(),
        ),
        (
            "Single.metadata",
            ToReceiver::Single {
                file,
                meta: Some(Meta { len: 0, ..meta.clone() }),
                digest: BriefDigest::from_bytes([0xef; 16]),
                payload: Payload::Plain(Vec::new()),
            }
            .encode(),
        ),
        (
            "ShortSingle",
            ToReceiver::ShortSingle {
                file,
                digest: [0xef; 8],
                payload: Payload::Plain(b"literal".to_vec()),
            }
            .encode(),
        ),
        ("Fill.aside", Aside { attempt: 2, frame: fill() }.encode().unwrap()),
        (
            "Fill.zstd",
            ToReceiver::Fill { file, chunks: one(1..3), payload: Payload::Zstd(b"frame".to_vec()) }
                .encode(),
        ),
        ("Fill.sparse", sparse(false).encode()),
        ("Fill.sparse.zstd", sparse(true).encode()),
        (
            "Mended",
            ToReceiver::Mended {
                file,
                gaps: one(1..3),
                bytes: 6,
                payload: Payload::Plain(b"deltas".to_vec()),
            }
            .encode(),
        ),
        (
            "Start.strategy",
            ToReceiver::Start {
                file,
                meta: meta_of(5000),
                how: TransferKind::Strategy,
                spec: deltic_core::Strategy::by_name("parasync").unwrap().chunker(5000, None),
            }
            .encode(),
        ),
        (
            "Sums.to_receiver",
            ToReceiver::Sums { file, sums: sum_lines_of(0), extent: Extent::More }.encode(),
        ),
        ("Deny", ToReceiver::Deny { file, chunks: vec![0..1, 4..9] }.encode()),
        (
            "Patch",
            ToReceiver::Patch {
                file,
                steps: vec![PatchStep::Literal(7), PatchStep::Copy(2..5)],
                payload: Payload::Plain(b"literal".to_vec()),
            }
            .encode(),
        ),
        (
            "Sums.to_sender",
            ToSender::Sums { file, sums: sum_lines_of(16), extent: Extent::Last }.encode(),
        ),
        (
            "Match",
            ToSender::Match {
                file,
                needs: one(0..2),
                tokens: vec![
                    Token { chunks: 2..9, over: TokenScope::Run, strong: strong_of(8) },
                    Token { chunks: 9..11, over: TokenScope::Each, strong: strong_of(16) },
                ],
            }
            .encode(),
        ),
        ("Want.strategy", ToSender::Want { file, how: TransferKind::Strategy }.encode()),
        ("Want.stronger", ToSender::Want { file, how: TransferKind::Stronger }.encode()),
        ("ReadReason.changed", {
            let reason = ReadReason::Changed { changed: 300, len: 70_000 };
            ToReceiver::ReadReason { file, reason }.encode()
        }),
        ("ReadReason.moved", {
            let reason = ReadReason::Moved { read: 300, len: 70_000 };
            ToReceiver::ReadReason { file, reason }.encode()
        }),
        ("ReadReason.differs", {
            let reason = ReadReason::Differs { differ: 300, shifted: 1, len: 70_000 };
            ToReceiver::ReadReason { file, reason }.encode()
        }),
        ("ReadReason.no_facts", {
            ToReceiver::ReadReason { file, reason: ReadReason::NoFacts("no".into()) }.encode()
        }),
        ("ReadReason.no_base", {
            ToReceiver::ReadReason { file, reason: ReadReason::NoBase }.encode()
        }),
        ("ReadReason.forgotten_base", {
            ToReceiver::ReadReason { file, reason: ReadReason::ForgottenBase }.encode()
        }),
        ("ReadReason.new_mount", {
            ToReceiver::ReadReason { file, reason: ReadReason::NewMount }.encode()
        }),
        ("ReadReason.much_changed", {
            ToReceiver::ReadReason { file, reason: ReadReason::MuchChanged("no".into()) }.encode()
        }),
        ("Restless", ToReceiver::Restless { file }.encode()),
        ("End", ToReceiver::End { file, digest: Digest::from_bytes([0xef; 32]) }.encode()),
        ("Failed", ToReceiver::Failed { file, attempt: 2, trouble: trouble() }.encode()),
        ("Trouble.to_receiver", ToReceiver::Trouble(trouble()).encode()),
        ("Trouble.located", ToReceiver::Trouble(located).encode()),
        ("Want", ToSender::Want { file, how: TransferKind::Recipe }.encode()),
        (
            "Keeps",
            ToReceiver::Keeps { file, kept: BlockSumSpec::new(SumKind::Crc32c, 4096) }.encode(),
        ),
        ("Keeps.nothing", ToReceiver::Keeps { file, kept: None }.encode()),
        ("Signs", ToSender::Signs { file, by: BlockSumSpec::new(SumKind::Sha256, 4096) }.encode()),
        ("Signs.nothing", ToSender::Signs { file, by: None }.encode()),
        ("Base", ToSender::Base { file, base: Digest::from_bytes([0xba; 32]) }.encode()),
        ("Moved", {
            let run = |to, from, blocks| MovedRun { to, from, blocks };
            ToReceiver::Moved { file, runs: vec![run(3, 70_000, 40), run(43, 1, 1)] }.encode()
        }),
        ("Holes", {
            let run = |hole, data| DataLine { hole, data };
            ToReceiver::Holes { file, runs: vec![run(0, 4096), run(8 << 40, 1 << 20)] }.encode()
        }),
        ("Holes.only", ToReceiver::Holes { file, runs: Vec::new() }.encode()),
        ("Start.changes", {
            let (meta, how) = (meta.clone(), TransferKind::Changes);
            ToReceiver::Start {
                file,
                meta,
                how,
                spec: deltic_protocol::limits::Limits::changed_file_chunker(),
            }
            .encode()
        }),
        (
            "Resume",
            ToSender::Resume {
                file,
                key: Key::from_bytes([7; 32]),
                spec: ChunkerSpec::for_len(5000),
            }
            .encode(),
        ),
        ("Append", ToSender::Append { file, from: 300 }.encode()),
        ("Settled", ToSender::Settled { upto: file }.encode()),
        ("Lack", ToSender::Lack { file, groups: one(0..1) }.encode()),
        ("Need", ToSender::Need { file, chunks: vec![0..1, 2..3] }.encode()),
        ("Mend", ToSender::Mend { file, gaps: vec![GapLine { chunks: 1..3, sums }] }.encode()),
        ("Mend.masked", ToSender::Mend { file, gaps: vec![masked_gap()] }.encode()),
        (
            "Done.same",
            ToSender::Done { file, done: Done::Same { touched: true, differs } }.encode(),
        ),
        ("Done.replaced", ToSender::Done { file, done: replaced }.encode()),
        ("Done.failed", ToSender::Done { file, done: Done::Failed(trouble()) }.encode()),
        ("Credit", ToSender::Credit { bytes: 65_536, more: 0, held_us: None }.encode()),
        (
            "Credit.held",
            ToSender::Credit { bytes: 300, more: 131_072, held_us: Some(1500) }.encode(),
        ),
        ("MadeRoot", ToSender::MadeRoot(MadeRoot { dirs: 3, holds_file: true }).encode()),
        ("Answers", ToSender::Answers(answers([&change, &linked_change])).encode()),
        ("Changed", ToSender::Changed(change).encode()),
        ("Changed.linked", ToSender::Changed(linked_change).encode()),
        ("Trouble.to_sender", ToSender::Trouble(trouble()).encode()),
        ("Removed", ToReceiver::Removed(RelPath::parse(b"dir/a").unwrap()).encode()),
        ("Gone", ToReceiver::Gone(vec![trouble()]).encode()),
        (
            "Arrived",
            ToSender::Arrived { files: vec![file, FileNo(301)], upto: FileNo(302), last: false }
                .encode(),
        ),
        ("Digest", ToSender::Digest(vec![file, FileNo(301)]).encode()),
        ("Digests", {
            let digest = Some(Digest::from_bytes([0xef; 32]));
            let unread = DigestLine { file: FileNo(301), digest: None };
            ToReceiver::Digests(vec![DigestLine { file, digest }, unread]).encode()
        }),
        ("ShortDigests", {
            let unread = ShortDigestLine { file: FileNo(301), digest: None };
            let line = ShortDigestLine { file, digest: Some([0xef; 10]) };
            ToReceiver::ShortDigests(ShortDigestLines(vec![line, unread])).encode()
        }),
        ("Alive", Alive.encode()),
        ("Echo", Echo::default().encode()),
        ("Echo.measured", {
            let measured = MeasuredLink {
                assumed_rate: 10_000_000,
                limit: 9_600_000,
                idle_micros: 30_400,
                current_micros: 214_000,
                samples: 38,
            };
            Echo { measured: Some(measured) }.encode()
        }),
        ("Echoed", Echoed { received: 300, held: 20_000 }.encode()),
        ("Ask", ToSender::Ask(question()).encode()),
        ("Allow", ToReceiver::Allow(true).encode()),
        ("Missing", ToReceiver::Missing(vec![RelPath::parse(b"dir/a").unwrap()]).encode()),
        ("Finished", ToSender::Finished(totals).encode()),
        ("Tally", ToReceiver::Tally { dir: RelPath::parse(b"dir").unwrap(), tally }.encode()),
        ("ShortTally", {
            let dir = SharedPath { shared: 2, rest: b"r".to_vec().into() };
            ToReceiver::ShortTally { dir, tally }.encode()
        }),
        ("CutTally", {
            let dir = SharedPath { shared: 2, rest: b"r".to_vec().into() };
            ToReceiver::CutTally { dir, tally: CutDigest(tally.compared_part()) }.encode()
        }),
        ("Tallied", ToSender::Tallied { alike: vec![0..3, 4..5], unlike: one(3..4) }.encode()),
    ]
}

/// Outcomes of two new files, a new directory in a new directory and two other changes, and two requests.
fn answers(others: [&Change; 2]) -> Answers {
    let mut modified = Timestamp { secs: 1_700_000_000, nanos: 0 };
    let mut made = |path: &str| {
        modified.nanos += 5;
        Outcome::Changed(Change {
            path: RelPath::parse(path.as_bytes()).unwrap(),
            item: EntryType::Dir,
            action: Action::Created,
            differs: Differs::default(),
            facts: Facts { modified, mode: 0o755, ..Facts::default() },
        })
    };
    let (outer, inner) = (made("dir"), made("dir/e"));
    let others = others.map(|change| Outcome::Changed(change.clone()));
    let files = [300, 301].map(|file| Outcome::Created(FileNo(file)));
    let outcomes = [outer, inner].into_iter().chain(files).chain(others).collect();
    let (wanted, upto) = (vec![FileNo(400), FileNo(402)], Some(FileNo(402)));
    Answers { outcomes, wanted, upto }
}

fn question() -> Question {
    let first = vec![RelPath::parse(b"dir/a").unwrap()];
    Question { names: 1200, of: 1300, first }
}

fn meta_of(len: u64) -> Meta {
    Meta::without_owner(Kind::File, len, Timestamp { secs: 1, nanos: 0 }, 0o644)
}

fn strong_of(len: usize) -> StrongSum {
    StrongSum::from_bytes(&vec![0xab; len]).unwrap()
}

fn sum_lines_of(strong: usize) -> Vec<SumLine> {
    let sum = Sum { len: 4096, weak: 0x0403_0201, strong: strong_of(strong) };
    vec![SumLine::New(sum), SumLine::Again(1)]
}

fn keeps() -> impl Strategy<Value = BlockSumSpec> {
    let kinds = [SumKind::Crc32c, SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];
    let kept =
        |(kind, shift)| BlockSumSpec::new(kind, 1_u32 << shift).expect("a length that stores have");
    (prop::sample::select(kinds.to_vec()), 12_u32..17).prop_map(kept)
}

fn tally() -> impl Strategy<Value = DirDigest> {
    (0..9u64, any::<u128>(), option(any::<u128>()), option(any::<u128>()))
        .prop_map(|(entries, sum, users, groups)| DirDigest { entries, sum, users, groups })
}

fn shared_path() -> impl Strategy<Value = SharedPath> {
    (0..300_usize, vec(any::<u8>(), 0..20))
        .prop_map(|(shared, rest)| SharedPath { shared, rest: rest.into() })
}

pub fn to_receiver() -> impl Strategy<Value = ToReceiver> {
    prop_oneof![
        (rel_path(), option(meta()), vec(entry(), 0..4), any_extent()).prop_map(
            |(dir, own, entries, extent)| ToReceiver::Listing { dir, own, entries, extent }
        ),
        (shared_path(), option(meta()), entries(), any_extent()).prop_map(
            |(dir, own, entries, extent)| ToReceiver::ShortListing {
                dir,
                own,
                entries: ShortEntries(entries),
                extent
            }
        ),
        (file(), option(meta()), any::<[u8; 16]>(), payload()).prop_map(
            |(file, meta, digest, payload)| ToReceiver::Single {
                file,
                meta,
                digest: BriefDigest::from_bytes(digest),
                payload
            }
        ),
        (file(), any::<[u8; 8]>(), payload()).prop_map(|(file, digest, payload)| {
            ToReceiver::ShortSingle { file, digest, payload }
        }),
        (vec(name_line(), 0..3), vec(name_line(), 0..3))
            .prop_map(|(users, groups)| ToReceiver::Owners { users, groups }),
        vec(rel_path(), 0..4).prop_map(ToReceiver::Missing),
        (rel_path(), tally()).prop_map(|(dir, tally)| ToReceiver::Tally { dir, tally }),
        (shared_path(), tally()).prop_map(|(dir, tally)| ToReceiver::ShortTally { dir, tally }),
        (shared_path(), tally()).prop_map(|(dir, tally)| {
            ToReceiver::CutTally { dir, tally: CutDigest(tally.compared_part()) }
        }),
        vec(trouble(), 0..3).prop_map(ToReceiver::Gone),
        rel_path().prop_map(ToReceiver::Removed),
        vec((file(), option(any::<[u8; 32]>())), 0..4).prop_map(|lines| {
            let line = |(file, digest): (FileNo, Option<[u8; 32]>)| DigestLine {
                file,
                digest: digest.map(Digest::from_bytes),
            };
            ToReceiver::Digests(lines.into_iter().map(line).collect())
        }),
        vec((file(), option(any::<[u8; 10]>())), 0..4).prop_map(|lines| {
            let line = |(file, digest)| ShortDigestLine { file, digest };
            ToReceiver::ShortDigests(ShortDigestLines(lines.into_iter().map(line).collect()))
        }),
        any::<bool>().prop_map(ToReceiver::Allow),
        any::<bool>().prop_map(|intact| ToReceiver::Listed { intact }),
        (file(), meta(), how(), spec()).prop_map(|(file, meta, how, spec)| ToReceiver::Start {
            file,
            meta,
            how,
            spec
        }),
        (file(), meta(), spec()).prop_map(|(file, meta, spec)| ToReceiver::Offer {
            file,
            meta,
            spec
        }),
        (file(), vec(group(), 0..4)).prop_map(|(file, groups)| ToReceiver::Groups { file, groups }),
        (file(), ranges(), chunks()).prop_map(|(file, groups, chunks)| ToReceiver::Chunks {
            file,
            groups,
            chunks
        }),
        (file(), chunks()).prop_map(|(file, chunks)| ToReceiver::Recipe { file, chunks }),
        (file(), ranges(), payload()).prop_map(|(file, chunks, payload)| ToReceiver::Fill {
            file,
            chunks,
            payload
        }),
        (file(), vec(any::<[u32; 3]>(), 0..4)).prop_map(|(file, runs)| ToReceiver::Moved {
            file,
            runs: runs
                .into_iter()
                .map(|[to, from, blocks]| MovedRun { to, from, blocks })
                .collect(),
        }),
        (file(), vec(any::<(u64, u64)>(), 0..4)).prop_map(|(file, runs)| ToReceiver::Holes {
            file,
            runs: runs.into_iter().map(|(hole, data)| DataLine { hole, data }).collect(),
        }),
        (file(), ranges(), any::<u32>(), payload()).prop_map(|(file, gaps, bytes, payload)| {
            ToReceiver::Mended { file, gaps, bytes, payload }
        }),
        (file(), option(keeps())).prop_map(|(file, kept)| ToReceiver::Keeps { file, kept }),
        (file(), sum_lines(), extent()).prop_map(|(file, sums, extent)| ToReceiver::Sums {
            file,
            sums,
            extent
        }),
        (file(), ranges()).prop_map(|(file, chunks)| ToReceiver::Deny { file, chunks }),
        (file(), vec(patch_step(), 0..4), payload())
            .prop_map(|(file, steps, payload)| ToReceiver::Patch { file, steps, payload }),
        file().prop_map(|file| ToReceiver::Restless { file }),
        (file(), read_reason()).prop_map(|(file, reason)| ToReceiver::ReadReason { file, reason }),
        (file(), any::<[u8; 32]>()).prop_map(|(file, digest)| ToReceiver::End {
            file,
            digest: Digest::from_bytes(digest)
        }),
        (file(), 0..4u32, trouble()).prop_map(|(file, attempt, trouble)| ToReceiver::Failed {
            file,
            attempt,
            trouble
        }),
        trouble().prop_map(ToReceiver::Trouble),
    ]
}

pub fn to_sender() -> impl Strategy<Value = ToSender> {
    prop_oneof![
        (file(), how()).prop_map(|(file, how)| ToSender::Want { file, how }),
        (file(), any::<[u8; 32]>(), spec()).prop_map(|(file, key, spec)| {
            ToSender::Resume { file, key: Key::from_bytes(key), spec }
        }),
        (file(), any::<[u8; 32]>())
            .prop_map(|(file, base)| ToSender::Base { file, base: Digest::from_bytes(base) }),
        (file(), number()).prop_map(|(file, from)| ToSender::Append { file, from }),
        file().prop_map(|upto| ToSender::Settled { upto }),
        (vec(file(), 0..4), file(), any::<bool>())
            .prop_map(|(files, upto, last)| ToSender::Arrived { files, upto, last }),
        (ranges(), ranges()).prop_map(|(alike, unlike)| ToSender::Tallied { alike, unlike }),
        vec(file(), 0..4).prop_map(ToSender::Digest),
        (number(), number(), vec(rel_path(), 0..6))
            .prop_map(|(names, of, first)| ToSender::Ask(Question { names, of, first })),
        (file(), ranges()).prop_map(|(file, groups)| ToSender::Lack { file, groups }),
        (file(), ranges()).prop_map(|(file, chunks)| ToSender::Need { file, chunks }),
        (file(), vec((0..4u32, 1..4u32, vec(any::<u8>(), 0..600)), 0..4)).prop_map(
            |(file, gaps)| {
                let line = |(start, len, old): (u32, u32, Vec<u8>)| GapLine {
                    chunks: start..start + len,
                    sums: GapSums::sums_of(&old, BlockLen::for_gap(old.len() as u64, 2), 1),
                };
                ToSender::Mend { file, gaps: gaps.into_iter().map(line).collect() }
            }
        ),
        (file(), option(keeps())).prop_map(|(file, by)| ToSender::Signs { file, by }),
        (file(), sum_lines(), extent()).prop_map(|(file, sums, extent)| ToSender::Sums {
            file,
            sums,
            extent
        }),
        (file(), ranges(), vec(token(), 0..4)).prop_map(|(file, needs, tokens)| ToSender::Match {
            file,
            needs,
            tokens
        }),
        (file(), done()).prop_map(|(file, done)| ToSender::Done { file, done }),
        change().prop_map(ToSender::Changed),
        (vec(outcome(), 0..5), vec(file(), 0..4), option(file())).prop_map(
            |(outcomes, wanted, upto)| ToSender::Answers(Answers {
                outcomes: each_once(outcomes),
                wanted,
                upto
            })
        ),
        (number(), number(), option::of(any::<u32>()))
            .prop_map(|(bytes, more, held_us)| { ToSender::Credit { bytes, more, held_us } }),
        (number(), any::<bool>())
            .prop_map(|(dirs, holds_file)| { ToSender::MadeRoot(MadeRoot { dirs, holds_file }) }),
        trouble().prop_map(ToSender::Trouble),
        vec(number(), 14).prop_map(|n| {
            ToSender::Finished(Totals {
                files: n[0],
                dirs: n[1],
                links: n[2],
                bytes: n[3],
                created: n[4],
                transferred: n[5],
                transferred_bytes: n[6],
                literal: n[7],
                matched: n[8],
                deleted: n[9],
                failed: n[10],
                devices: n[11],
                specials: n[12],
                resumed: n[13],
            })
        }),
    ]
}

/// One of each frame of the greeting.
pub fn greeting() -> impl Strategy<Value = (Hello, Request, Reply, Abort)> {
    let hello = (text(), btree_set("[a-z:]{0,8}", 0..5), any::<[u8; 32]>()).prop_map(
        |(program, capabilities, part)| {
            let part = Key::from_bytes(part);
            Hello { program, capabilities, part }
        },
    );
    let request = prop_oneof![
        ((vec(bytes(), 0..4), names_from()), options())
            .prop_map(|((sources, names), options)| Request::Send { sources, names, options }),
        (bytes(), option(name()), names_from(), options()).prop_map(
            |(destination, single, names, options)| {
                Request::Receive { destination, single, names, options }
            }
        ),
    ];
    let join = (any::<[u8; 32]>(), vec(any::<u8>(), 1..108)).prop_map(|(token, socket)| {
        Join::new(streams::Token::from_bytes(token), socket.into()).unwrap()
    });
    let reply = (option(name()), option(join)).prop_map(|(single, join)| Reply { single, join });
    let cause = of(&[
        AbortCause::Selection,
        AbortCause::Protocol,
        AbortCause::Internal,
        AbortCause::Stream,
        AbortCause::Incompatible,
        AbortCause::Damaged,
    ]);
    let abort = (cause, text()).prop_map(|(cause, message)| Abort { cause, message });
    (hello, request, reply, abort)
}

fn options() -> impl Strategy<Value = Options> {
    let delete = prop_oneof![
        Just(Delete::Never),
        (prop::option::of(0..=100u8), prop::option::of(number()))
            .prop_map(|(percent, names)| Delete::Guarded(Guard { percent, names })),
        number().prop_map(Delete::AtMost)
    ];
    let block = option(1..=MAX_BLOCK_BYTES);
    let numbers = ((0..=MAX_THREADS, 0..=MAX_STREAMS, 0..=MAX_LEVEL, block), any::<u32>());
    let strategy = of(&deltic_core::Strategy::ALL);
    (any::<[bool; 11]>(), delete, numbers, strategy, (chosen(), any_rules())).prop_map(
        |(
            flag,
            delete,
            ((threads, streams, compress_level, block_bytes), silence),
            strategy,
            ((compare, select, remove, follow, metadata, writing), rules),
        )| {
            Options {
                recursive: flag[0],
                links: flag[1],
                modes: flag[2],
                times: flag[3],
                checksum: flag[4],
                whole_file: flag[5],
                dry_run: flag[6],
                tells_unchanged: flag[9],
                tells_owners: flag[10],
                tells_digests: false,
                compress: flag[7],
                compress_level,
                durable: flag[8],
                delete,
                threads,
                silence,
                streams,
                strategy,
                block_bytes,
                compare,
                select,
                remove,
                follow,
                metadata,
                writing,
                rules,
            }
        },
    )
}

/// One rule of each kind.
fn rules() -> Rules {
    let marks = RuleModifiers {
        sides: rule::RuleSides::Receiver,
        perishable: true,
        ..RuleModifiers::default()
    };
    let reading = FileSyntax { syntax: rule::LineSyntax::Cvs, words: true, marks };
    let merge = DirMerge { file: b".cvsignore"[..].into(), reading, inherited: false };
    let list = vec![Rule::plain(rule::Action::Exclude, b"*.o"), Rule::DirMerge(merge)];
    Rules { list, delete_excluded: true, from0: false }
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let sides = of(&[
        rule::RuleSides::Unsaid,
        rule::RuleSides::Sender,
        rule::RuleSides::Receiver,
        rule::RuleSides::Both,
    ]);
    let syntax = of(&[
        rule::LineSyntax::Rules,
        rule::LineSyntax::Excludes,
        rule::LineSyntax::Includes,
        rule::LineSyntax::Cvs,
        rule::LineSyntax::Git,
    ]);
    let rule = (any::<[bool; 6]>(), sides, syntax, bytes()).prop_map(
        |([merge, one, other, absolute, perishable, xattr], sides, syntax, text)| {
            let marks = RuleModifiers { sides, absolute, perishable, xattr };
            let action = if one { rule::Action::Include } else { rule::Action::Exclude };
            let reading = FileSyntax { syntax, words: one, marks };
            match merge {
                true => Rule::DirMerge(DirMerge { file: text, reading, inherited: other }),
                false => {
                    Rule::Pattern(PatternRule { action, negated: other, marks, pattern: text })
                }
            }
        },
    );
    (vec(rule, 0..3), any::<[bool; 2]>()).prop_map(|(list, [delete_excluded, from0])| Rules {
        list,
        delete_excluded,
        from0,
    })
}

fn chosen() -> impl Strategy<Value = (Compare, Select, Remove, Links, Metadata, Writing)> {
    let follow =
        of(&[Follow::Never, Follow::Dirs, Follow::Unsafe, Follow::All, Follow::DirsAndUnsafe]);
    let links = (follow, any::<[bool; 5]>()).prop_map(
        |(follow, [safe, munge, keep_dirs, unmunge, insecure])| Links {
            follow,
            safe,
            munge,
            keep_dirs,
            unmunge,
            insecure,
        },
    );
    (compare(), select(), remove(), links, metadata(), writing())
}

fn writing() -> impl Strategy<Value = Writing> {
    let append = of(&[Append::Never, Append::Blindly, Append::Verified]);
    (any::<[bool; 4]>(), append, option(bytes()), option(bytes())).prop_map(
        |([sparse, preallocate, inplace, delay], append, temp_dir, partial_dir)| Writing {
            sparse,
            preallocate,
            inplace,
            delay: delay && !inplace,
            append: if inplace { append } else { Append::Never },
            temp_dir,
            partial_dir: partial_dir.filter(|_| !inplace),
        },
    )
}

fn select() -> impl Strategy<Value = Select> {
    let mounts = of(&[Mounts::Enter, Mounts::Empty, Mounts::LeaveOut]);
    let missing = of(&[Missing::Fail, Missing::Ignore, Missing::Delete]);
    (any::<[bool; 7]>(), mounts, missing).prop_map(|(flag, mounts, missing)| Select {
        dirs: flag[0],
        relative: flag[1],
        plain_implied_dirs: flag[2],
        prune_empty_dirs: flag[3],
        mkpath: flag[4],
        list_only: flag[5],
        existing: flag[6],
        mounts,
        missing,
    })
}

fn remove() -> impl Strategy<Value = Remove> {
    let backup = option(bytes()).prop_map(|dir| Backup { dir, suffix: b".old"[..].into() });
    (any::<[bool; 5]>(), option(backup)).prop_map(|(flag, backup)| Remove {
        force: flag[0],
        ignore_errors: flag[1],
        sources: flag[2],
        asks: flag[3],
        drops_unsafe_links: flag[4],
        backup,
    })
}

fn compare() -> impl Strategy<Value = Compare> {
    let window =
        prop_oneof![Just(Window::Kept), Just(Window::Exact), small().prop_map(Window::Secs)];
    let usage = of(&[AlternateUse::Compare, AlternateUse::Copy, AlternateUse::Link]);
    let alternates =
        (usage, vec(bytes(), 0..3)).prop_map(|(usage, dirs)| Alternates { usage, dirs });
    let fuzzy = of(&[Fuzzy::Never, Fuzzy::Here, Fuzzy::Everywhere]);
    let bounds = (number(), option(number()), option(number()));
    let kinds = of(&[SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b]);
    let blocks = |(kind, shift)| TrustedSums::Blocks { kind, block_bytes: 1_u32 << shift };
    let sums = prop_oneof![(kinds, 9_u32..17).prop_map(blocks), Just(TrustedSums::Verity)];
    let fuzzy = (fuzzy, option(sums));
    (any::<[bool; 6]>(), window, bounds, alternates, fuzzy).prop_map(
        |(flag, window, (min_bytes, max_bytes, max_age_secs), alternates, (fuzzy, trusted))| {
            Compare {
                size_only: flag[0],
                ignore_times: flag[1],
                update: flag[2],
                existing: flag[3],
                ignore_existing: flag[4],
                cached: flag[5],
                window,
                min_bytes,
                max_bytes,
                alternates,
                fuzzy,
                max_age_secs,
                trusted,
            }
        },
    )
}

fn names_from() -> impl Strategy<Value = NamesFrom> {
    prop_oneof![
        Just(NamesFrom::Nowhere),
        Just(NamesFrom::Frames),
        (bytes(), any::<bool>()).prop_map(|(path, nul)| NamesFrom::File { path, nul }),
    ]
}

fn any_extent() -> impl Strategy<Value = Extent> {
    of(&[Extent::More, Extent::Last, Extent::Part, Extent::Empty])
}

fn of<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(all.to_vec())
}

fn option<T: std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(some)
}

/// Small numbers that meet each other, and some at the edges.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..6u64, 1 => 0..1_000_000u64, 1 => of(&[u64::MAX, 1 << 63, (1 << 63) - 1, u64::from(u32::MAX)])]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..6u32, 1 => 0..100_000u32, 1 => of(&[u32::MAX - 1, 1 << 20])]
}

pub fn file() -> impl Strategy<Value = FileNo> {
    number().prop_map(FileNo)
}

pub fn ranges() -> impl Strategy<Value = Vec<Range<u32>>> {
    let range = (small(), 1..4u32).prop_map(|(start, len)| start..start.saturating_add(len));
    vec(range, 0..3)
}

fn extent() -> impl Strategy<Value = Extent> {
    of(&[Extent::More, Extent::Last])
}

fn strong() -> impl Strategy<Value = StrongSum> {
    let bytes = (of(&[0, 8, 16, 20, 32]), of(&[1u8, 2])).prop_map(|(len, byte)| vec![byte; len]);
    bytes.prop_map(|bytes| StrongSum::from_bytes(&bytes).unwrap())
}

fn sum_lines() -> impl Strategy<Value = Vec<SumLine>> {
    let new = (len(), 0..3u32, strong())
        .prop_map(|(len, weak, strong)| SumLine::New(Sum { len: len as u32, weak, strong }));
    vec(prop_oneof![3 => new, 1 => (1..4u32).prop_map(SumLine::Again)], 0..6)
}

fn token() -> impl Strategy<Value = Token> {
    let range = (small(), 1..4u32).prop_map(|(start, len)| start..start.saturating_add(len));
    (range, of(&[TokenScope::Run, TokenScope::Each]), strong())
        .prop_map(|(chunks, over, strong)| Token { chunks, over, strong })
}

fn patch_step() -> impl Strategy<Value = PatchStep> {
    let range = (small(), 1..4u32).prop_map(|(start, len)| start..start.saturating_add(len));
    prop_oneof![range.prop_map(PatchStep::Copy), small().prop_map(PatchStep::Literal)]
}

fn how() -> impl Strategy<Value = TransferKind> {
    of(&[
        TransferKind::Recipe,
        TransferKind::Whole,
        TransferKind::Strategy,
        TransferKind::Stronger,
        TransferKind::Tail,
        TransferKind::Changes,
    ])
}

fn short() -> impl Strategy<Value = GroupPrefix> {
    of(&[0, 1, 2]).prop_map(|byte: u8| GroupPrefix::from_bytes([byte; 8]))
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![4 => of(&[512, 1024, 2048, 2560, 4096]), 1 => number()]
}

fn group() -> impl Strategy<Value = GroupLine> {
    (len(), prop_oneof![4 => 1..3u32, 1 => small()], short())
        .prop_map(|(len, chunks, short)| GroupLine { len, chunks, short })
}

fn brief(bytes: usize, byte: u8) -> ChunkPrefix {
    ChunkPrefix::from_bytes(&vec![byte; bytes]).unwrap()
}

fn chunks() -> impl Strategy<Value = ChunkLines> {
    let line = |bytes| {
        move |(len, byte): (u64, u8)| ChunkLine { len: len as u32, brief: brief(bytes, byte) }
    };
    let some = move |bytes| vec((len(), of(&[0, 1, 2])).prop_map(line(bytes)), 0..4);
    prop_oneof![some(4), some(5), some(8)].prop_map(ChunkLines)
}

/// Sums of code with one call.
fn masked_gap() -> GapLine {
    let code = [&[0xe8, 1, 2, 0, 0][..], &[0x5a; 195]].concat();
    GapLine { chunks: 1..3, sums: GapSums::sums_of_code(&code, BlockLen::for_gap(200, 2), 1) }
}

fn payload() -> impl Strategy<Value = Payload> {
    let len = prop_oneof![of(&[512, 1024, 2048, 4096]), 0..5usize];
    let run = (0..9u32, 1..9000u32).prop_map(|(before, len)| ZeroRun { before, len });
    (any::<bool>(), len, vec(run, 0..4)).prop_map(|(zstd, len, runs)| match zstd {
        _ if !runs.is_empty() => Payload::Sparse(Sparse { runs, rest: vec![7; len], zstd }),
        true => Payload::Zstd(vec![7; len]),
        false => Payload::Plain(vec![7; len]),
    })
}

fn sparse(zstd: bool) -> ToReceiver {
    let run = |before, len| ZeroRun { before, len };
    let (runs, rest) = (vec![run(0, 4096), run(3, 300_000)], b"literal".to_vec());
    let payload = Payload::Sparse(Sparse { runs, rest, zstd });
    let chunks = std::iter::once(1..3).collect();
    ToReceiver::Fill { file: FileNo(300), chunks, payload }
}

fn spec() -> impl Strategy<Value = ChunkerSpec> {
    let sizes = || {
        of(&[(512, 512, 512), (512, 2048, 8192), (512, 1 << 19, 1 << 19)])
            .prop_map(|(min, avg, max)| Sizes::new(min, avg, max).unwrap())
    };
    prop_oneof![
        of(&[512, 256 << 10, 512 << 10])
            .prop_map(|len| ChunkerSpec::Fixed(FixedLen::new(len).unwrap())),
        (of(&Algorithm::ALL), sizes())
            .prop_map(|(algorithm, sizes)| ChunkerSpec::ByContent(algorithm, sizes)),
    ]
}

pub fn meta() -> impl Strategy<Value = Meta> {
    let kind = prop_oneof![
        4 => Just(Kind::File),
        2 => Just(Kind::Dir),
        1 => "[a-z./]{1,5}".prop_map(|text| Kind::Symlink(text.into_bytes().into())),
        1 => of(&[Kind::Fifo, Kind::Socket]),
        1 => (any::<bool>(), any::<u32>(), any::<u32>()).prop_map(|(block, major, minor)| {
            let class = if block { DeviceClass::Block } else { DeviceClass::Char };
            Kind::Device(Device { class, major, minor })
        }),
    ];
    let len = prop_oneof![len(), Just(i64::MAX as u64)].prop_map(|len| len.min(i64::MAX as u64));
    let owner = (option::of(any::<u32>()), option::of(any::<u32>()));
    (kind, len, time(), 0..=0o7777u32, owner, option::of(more())).prop_map(
        |(kind, len, modified, mode, (user, group), more)| {
            let len = if kind == Kind::File { len } else { 0 };
            let more = more.and_then(ExtraMeta::into_box);
            Meta { user, group, more, ..Meta::without_owner(kind, len, modified, mode) }
        },
    )
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let chmod = of(&["", "755", "Dg+s,Fo-w", "go=u"]).prop_flat_map(|text| {
        (0..=0o777u32).prop_map(move |umask| match text {
            "" => ModeRules::default(),
            text => ModeRules::parse(text, umask).unwrap(),
        })
    });
    let map = || of(&["", "*:7", "0-99:root,a*:b"]).prop_map(|text| IdRules::parse(text).unwrap());
    let powers = of(&[Powers::Own, Powers::Tried, Powers::Waived]);
    (any::<[bool; 16]>(), powers, chmod, map(), map()).prop_map(
        |(flag, powers, chmod, user_map, group_map)| Metadata {
            users: flag[0],
            groups: flag[1],
            devices: flag[2],
            specials: flag[3],
            executability: flag[4],
            omit_dir_times: flag[5],
            omit_link_times: flag[6],
            accessed: flag[7],
            untouched: flag[8],
            acls: flag[9],
            xattrs: flag[10],
            all_xattrs: flag[11],
            numeric_ids: flag[12],
            hard_links: flag[13],
            reads_notes: flag[14],
            writes_notes: flag[15],
            powers,
            chmod,
            user_map,
            group_map,
        },
    )
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

fn more() -> impl Strategy<Value = ExtraMeta> {
    let linked = (2..=u32::MAX).prop_map(HardLink::First);
    let xattrs = btree_map("(user|security|trusted)[.][a-z]{1,4}", vec(any::<u8>(), 0..9), 0..3);
    let xattr = |(name, value): (String, Vec<u8>)| Xattr {
        name: name.into_bytes().into(),
        value: value.into(),
    };
    let xattrs = xattrs.prop_map(move |all| all.into_iter().map(xattr).collect());
    let acls = (option::of(acl()), option::of(acl()));
    let bits = any::<[bool; 2]>();
    (option::of(time()), option::of(linked), acls, xattrs, bits).prop_map(
        |(accessed, linked, (access_acl, default_acl), xattrs, [unread, implied])| ExtraMeta {
            accessed,
            linked,
            access_acl,
            default_acl,
            xattrs,
            unread: unread.then_some(UnreadReason::Other),
            implied,
            owner: None,
        },
    )
}

fn acl() -> impl Strategy<Value = Acl> {
    let named = (any::<bool>(), any::<u32>(), 0..8u8).prop_map(|(group, id, perms)| AclEntry {
        who: if group { IdKind::Group } else { IdKind::User },
        id,
        perms,
    });
    (0..8u8, 0..8u8, option::of(0..8u8), 0..8u8, vec(named, 0..4)).prop_map(
        |(owner, group, mask, other, named)| {
            let mask = if named.is_empty() { mask } else { mask.or(Some(7)) };
            let mut acl = Acl { owner, group, mask, other, named };
            acl.sort_and_deduplicate();
            acl
        },
    )
}

fn name_line() -> impl Strategy<Value = NameLine> {
    (any::<u32>(), "[a-z]{1,5}")
        .prop_map(|(id, name)| NameLine { id, name: name.into_bytes().into() })
}

fn name() -> impl Strategy<Value = Name> {
    of(&[&b"a"[..], b"b", b"c", b"d", b"\xff\x01"]).prop_map(|bytes| Name::new(bytes).unwrap())
}

fn rel_path() -> impl Strategy<Value = RelPath> {
    of(&[&b""[..], b"a", b"b", b"a/b", b"c"]).prop_map(|bytes| RelPath::parse(bytes).unwrap())
}

fn entry() -> impl Strategy<Value = Entry> {
    let back = (1..=u64::MAX).prop_map(|back| {
        let mut meta = Meta::without_owner(Kind::File, 0, Timestamp::default(), 0);
        meta.set_hard_link(Some(HardLink::Back(back)));
        meta
    });
    (name(), prop_oneof![9 => meta(), 1 => back]).prop_map(|(name, meta)| Entry { name, meta })
}

/// Entries in any order, of which many have names and metadata in common.
pub fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let name = prop_oneof![
        4 => "[ab]{1,6}".prop_map(String::into_bytes),
        1 => "[ab]{12,40}".prop_map(String::into_bytes),
        1 => vec(b'a'..=b'b', 250..=255),
    ];
    let entry = (name, entry())
        .prop_map(|(name, entry)| Entry { name: Name::new(&name).unwrap(), ..entry });
    let alike = (vec(entry, 0..6), vec(any::<prop::sample::Index>(), 0..12), any::<[bool; 4]>());
    alike.prop_map(|(base, picks, [first, second, third, fourth])| {
        let count = base.len();
        let again = picks.iter().filter(|_| count > 0).map(|at| base[at.index(count)].clone());
        let mut all: Vec<Entry> = base.iter().cloned().chain(again).collect();
        if first {
            all.sort_by(|a, b| a.name.cmp(&b.name));
        }
        for entry in &mut all {
            let is_alone = !matches!(entry.meta.hard_link(), Some(HardLink::Back(_)));
            if second && is_alone {
                entry.meta.modified.secs = i64::MIN;
            }
            if third && is_alone {
                (entry.meta.mode, entry.meta.modified.nanos) = (0o644, 0);
            }
            if fourth && is_alone {
                (entry.meta.more, entry.meta.user) = (None, Some(7));
            }
        }
        all
    })
}

fn bytes() -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..6).prop_map(Vec::into_boxed_slice)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,8}".prop_map(|text: String| printable(text.as_bytes()))
}

pub fn read_reason() -> impl Strategy<Value = ReadReason> {
    let [one, other, len] = [any::<u64>(), any::<u64>(), any::<u64>()];
    prop_oneof![
        (one, len).prop_map(|(changed, len)| ReadReason::Changed { changed, len }),
        (one, len).prop_map(|(read, len)| ReadReason::Moved { read, len }),
        (one, other, len).prop_map(|(differ, shifted, len)| ReadReason::Differs {
            differ,
            shifted,
            len
        }),
        text().prop_map(ReadReason::NoFacts),
        of(&[ReadReason::NoBase, ReadReason::ForgottenBase, ReadReason::NewMount]),
        text().prop_map(ReadReason::MuchChanged),
    ]
}

pub fn trouble() -> impl Strategy<Value = Trouble> {
    let kind = of(&[
        TroubleKind::Vanished,
        TroubleKind::Failed,
        TroubleKind::Skipped,
        TroubleKind::DeleteLimit,
        TroubleKind::Warned,
        TroubleKind::UnsafeLink,
    ]);
    let spot = (
        of(&[Side::Sender, Side::Receiver]),
        option::of(rel_path()),
        option::of(bytes()),
        option::of(any::<u32>()),
    );
    let located = spot.prop_map(|(side, path, full_path, errno)| {
        let mut spot = Spot::default();
        (spot.side, spot.path) = (Some(side), path);
        (spot.full_path, spot.errno) = (full_path, errno);
        spot
    });
    (kind, text(), option::of(located)).prop_map(|(kind, message, spot)| Trouble {
        spot: spot.map(Box::new),
        ..Trouble::new(kind, message)
    })
}

fn item() -> impl Strategy<Value = EntryType> {
    of(&[
        EntryType::File,
        EntryType::Dir,
        EntryType::Symlink,
        EntryType::Device,
        EntryType::Special,
    ])
}

fn action() -> impl Strategy<Value = Action> {
    let all = [Action::Created, Action::Updated, Action::Touched, Action::Deleted];
    let passed_over = [
        PassedOver::New,
        PassedOver::Exists,
        PassedOver::Newer,
        PassedOver::Large,
        PassedOver::Small,
    ]
    .map(Action::PassedOver);
    of(&[&all[..], &[Action::Unchanged, Action::Copied], &passed_over].concat())
}

fn change() -> impl Strategy<Value = Change> {
    let parts = (rel_path(), item(), action(), differs(), facts());
    parts.prop_map(|(path, item, action, differs, facts)| Change {
        path,
        item,
        action,
        differs,
        facts,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (0..u64::MAX).prop_map(|file| Outcome::Created(FileNo(file))),
        (0..6u64).prop_map(|file| Outcome::Created(FileNo(file))),
        change().prop_map(Outcome::Changed),
        change().prop_map(|change| Outcome::Changed(Change {
            action: Action::Created,
            differs: Differs::default(),
            facts: Facts { modified: change.facts.modified, ..Facts::default() },
            ..change
        })),
    ]
}

/// Drops each file whose outcome came before: one frame has no file twice.
fn each_once(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut files = std::collections::BTreeSet::new();
    outcomes.retain(|outcome| match outcome {
        Outcome::Created(file) => files.insert(*file),
        Outcome::Changed(_) => true,
    });
    outcomes
}

fn facts() -> impl Strategy<Value = Facts> {
    let target = proptest::option::of(vec(any::<u8>(), 0..40).prop_map(Into::into));
    let words = (target, proptest::option::of(rel_path()));
    (number(), any::<(i64, u8)>(), 0..=0o7777u32, words, number()).prop_map(
        |(len, (secs, nanos), mode, (target, linked), literal)| {
            let modified = Timestamp { secs, nanos: u32::from(nanos) };
            let owner = Owner { user: Some(mode), group: None };
            Facts { len, modified, mode, owner, target, linked, literal, from: None, digest: None }
        },
    )
}

fn differs() -> impl Strategy<Value = Differs> {
    any::<[bool; 10]>().prop_map(
        |[content, size, time, mode, user, group, accessed, acl, xattrs, kind]| Differs {
            content,
            size,
            time,
            mode,
            user,
            group,
            accessed,
            acl,
            xattrs,
            kind,
        },
    )
}

fn done() -> impl Strategy<Value = Done> {
    prop_oneof![
        (any::<bool>(), differs()).prop_map(|(touched, differs)| Done::Same { touched, differs }),
        (action(), differs(), number(), number(), proptest::option::of(rel_path())).prop_map(
            |(action, differs, literal, matched, from)| {
                Done::Replaced { action, differs, literal, matched, from }
            }
        ),
        trouble().prop_map(Done::Failed),
    ]
}
