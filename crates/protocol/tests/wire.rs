//! The bytes of every frame: round trips, golden frames, and what does not decode.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

mod frames;

use std::fmt::Write;

use deltic_core::codec::CodecError;
use deltic_core::{Key, Strategy};
use deltic_protocol::check::{CHECK, Checksum};
use deltic_protocol::echo::{Echo, Echoed};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{Abort, Alive, MAGIC, Names, Reply, Request, check_magic};
use deltic_protocol::limits::{MAX_BATCH, MAX_CAPABILITIES, MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use deltic_protocol::message::{Extent, PathBefore, ShortEntries};
use deltic_protocol::streams::{Aside, OVER};
use deltic_protocol::{Hello, PeerError, ToReceiver, ToSender, batch, negotiate};
use deltic_tree::meta::Inode;
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};
use frames::{greeting, split, to_receiver, to_sender};
use proptest::prelude::*;

/// Changing a line of it is a change of the format (docs/protocol.md, "Versions").
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/frames.txt");

#[test]
fn golden_frames_keep_their_bytes() {
    let mut lines = format!("magic {}\n", hex(&MAGIC));
    for (name, bytes) in frames::golden() {
        writeln!(lines, "{name} {}", hex(&bytes)).unwrap();
    }
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(GOLDEN, &lines).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    for (line, golden) in lines.lines().zip(golden.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(lines.lines().count(), golden.lines().count());
}

/// The example of the document is one of the golden frames.
#[test]
fn the_documents_example_is_what_is_sent() {
    const DOCUMENT: &str = include_str!("../../../docs/protocol.md");
    let lines = DOCUMENT.lines().filter_map(|line| line.split("  #").next());
    let packed: String = lines.flat_map(str::chars).filter(|c| *c != ' ').collect();
    for (name, bytes) in frames::golden() {
        if ["Groups", "Lack", "ShortListing.one", "Single.one"].contains(&name) {
            assert!(packed.contains(&hex(&bytes)), "{name}: {}", hex(&bytes));
        }
    }
}

#[test]
fn a_golden_frame_cut_short_or_drawn_out_is_malformed() {
    for (name, bytes) in frames::golden() {
        let (kind, payload) = split(&bytes);
        assert!(decodes(kind, payload), "{name}");
        for len in 0..payload.len() {
            let is_fill = has_literals(name);
            // Without all fields, an echo is an echo to a receiver that asked for no measurements.
            let is_echo = kind == Echo::KIND && len == 0;
            assert!(is_fill || is_echo || !decodes(kind, &payload[..len]), "{name} cut to {len}");
        }
        let longer = [payload, &[0]].concat();
        let is_fill = has_literals(name);
        assert!(is_fill || !decodes(kind, &longer), "{name} and a byte");
    }
}

/// True for a frame that literals of any length end.
fn has_literals(name: &str) -> bool {
    let kinds = ["Fill", "Single", "ShortSingle", "Mended", "Patch"];
    kinds.iter().any(|kind| name.split('.').next() == Some(kind))
}

const CHECKED: Checksum = Checksum::NOTHING;

fn decodes(kind: u8, payload: &[u8]) -> bool {
    ToReceiver::decode(kind, payload).is_ok()
        || ToSender::decode(kind, payload).is_ok()
        || Hello::decode(kind, payload).is_ok()
        || Request::decode(kind, payload).is_ok()
        || Names::decode(kind, payload).is_ok()
        || Reply::decode(kind, payload).is_ok()
        || matches!(Abort::decode(kind, payload), Ok(Some(_)))
        || matches!(Alive::decode(kind, payload), Ok(Some(_)))
        || Echo::decode(kind, payload).is_ok()
        || Echoed::decode(kind, payload).is_ok()
        || matches!(Aside::decode(kind, payload), Ok(Some(_)))
        || kind == CHECK && matches!(CHECKED.verify(payload), Ok(()) | Err(PeerError::Damaged))
}

#[test]
fn each_type_number_belongs_to_one_frame() {
    for kind in 0..=255 {
        let unknown = PeerError::UnknownFrame(kind);
        assert_eq!(
            ToReceiver::decode(kind, &[]) == Err(unknown.clone()),
            !matches!(kind, 16..=28 | 31 | 45 | 46 | 50 | 51 | 53..=55 | 57 | 59 | 61 | 64 | 65 | 67 | 69..=71 | 74..=76)
        );
        let to_sender = matches!(kind, 32..=44 | 47..=49 | 52 | 58 | 60 | 62 | 63 | 73);
        assert_eq!(ToSender::decode(kind, &[]) == Err(unknown), !to_sender);
        assert_eq!(matches!(Hello::decode(kind, &[]), Err(PeerError::Unexpected(_))), kind != 1);
        assert_eq!(matches!(Request::decode(kind, &[]), Err(PeerError::Unexpected(_))), kind != 2);
        assert_eq!(matches!(Reply::decode(kind, &[]), Err(PeerError::Unexpected(_))), kind != 3);
        assert_eq!(Abort::decode(kind, &[]) == Ok(None), kind != 4);
        assert_eq!(Alive::decode(kind, &[]), Ok((kind == 6).then_some(Alive)));
        assert_eq!(Alive::decode(kind, &[0]).is_err(), kind == 6);
        assert_eq!(Aside::decode(kind, &[]) == Ok(None), kind != Aside::KIND);
        let owners = [
            ToReceiver::decode(kind, &[]) != Err(PeerError::UnknownFrame(kind)),
            ToSender::decode(kind, &[]) != Err(PeerError::UnknownFrame(kind)),
            // Of the greeting, and of further streams.
            (1..=7).contains(&kind),
            // Below the conversation.
            [Echo::KIND, Echoed::KIND].contains(&kind),
            [Aside::KIND, OVER].contains(&kind),
        ];
        assert!(owners.iter().filter(|owns| **owns).count() <= 1, "{kind}");
    }
}

#[test]
fn a_gentle_sender_needs_echoes_at_both_ends() {
    let hello = |part| Hello::of_this_version(Key::from_bytes([part; 32]));
    let (asks, answers) = (hello(1).with_echoes().with_gentle_sender(), hello(2).with_echoes());
    for (one, other) in [(&asks, &answers), (&answers, &asks)] {
        let terms = negotiate(one, other).unwrap();
        assert!(terms.link.echoes && terms.link.gentle);
        assert_eq!(terms.limits.frame_bytes, MIN_FRAME_BYTES);
    }
    for (one, other) in [(&asks, &hello(3)), (&hello(3), &asks)] {
        assert!(matches!(negotiate(one, other), Err(PeerError::NothingInCommon(_))));
    }
    let terms = negotiate(&answers, &hello(3)).unwrap();
    assert!(!terms.link.echoes && !terms.link.gentle, "an earlier version hears nothing");
}

#[test]
fn a_receiver_tells_the_rate_of_an_earlier_session_to_a_sender_with_echoes() {
    let hello = |part| Hello::of_this_version(Key::from_bytes([part; 32]));
    let sender = hello(1).with_echoes();
    let receiver = |rate| hello(2).with_echoes().with_link_rate(rate);
    for (rate, told) in
        [(Some(9_600_000), Some(9_600_000)), (Some(u64::MAX), Some(u64::MAX)), (None, Some(0))]
    {
        assert_eq!(negotiate(&sender, &receiver(rate)).unwrap().link.earlier_rate, told);
        assert_eq!(negotiate(&receiver(rate), &sender).unwrap().link.earlier_rate, None);
        assert_eq!(negotiate(&hello(1), &receiver(rate)).unwrap().link.earlier_rate, None);
    }
    let mut bad = hello(2).with_echoes();
    bad.capabilities.extend(["link:rate=", "link:rate=-1", "link:rate=1e9"].map(String::from));
    assert_eq!(negotiate(&sender, &bad).unwrap().link.earlier_rate, None);
}

/// A short listing of the root with these bytes of entries.
fn short_listing(entries: &[u8]) -> Result<ToReceiver, PeerError> {
    ToReceiver::decode(69, &[&[0, 0, 0][..], entries, &[1]].concat())
}

#[test]
fn entries_in_the_short_form_have_one_encoding_and_valid_fields() {
    // Files without a length, of the same mode, owner and time as at the start of a frame: all 0.
    let refused = |source| Err(PeerError::Malformed { frame: "ShortListing", source });
    let whole = [2, 0x3c, 0x01, b'a', 0, 0x3c, 0x11, b'b', 0];
    assert!(short_listing(&whole).is_ok());
    let (long, bad) = (CodecError::NotCanonical, CodecError::OutOfRange);
    for (entries, source) in [
        // The mode, the owner, the seconds, the nanoseconds are told, though they are the same.
        (&[1, 0x38, 0x01, b'a', 0, 0][..], long),
        (&[1, 0x34, 0x01, b'a', 0, 0, 0], long),
        (&[1, 0x2c, 0x01, b'a', 0, 0], long),
        (&[1, 0x1c, 0x01, b'a', 0, 0, 0, 0, 0], long),
        // The name shares more than it says, or more than there is, or is longer than any.
        (&[2, 0x3c, 0x01, b'a', 0, 0x3c, 0x02, b'a', b'b', 0], long),
        (&[1, 0x3c, 0x11, b'a', 0], bad),
        (&[1, 0x3c, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, b'a', 0], bad),
        (&[1, 0x3c, 0x0f, 0xf1, 1, b'a', 0], bad),
        // Flags that do not exist; flags of a full form; a full form where the short form does.
        (&[1, 0x7c, 0x01, b'a', 0], long),
        (&[1, 0x07, 0x01, b'a', 1, 0, 0, 0], long),
        (&[1, 0x03, 0x01, b'a', 1, 0, 0, 0], long),
        // 10⁹ nanoseconds; 13 bits of a mode; a length above 2⁶³; an empty target.
        (&[1, 0x1c, 0x01, b'a', 0, 0, 0xca, 0x9a, 0x3b], bad),
        (&[1, 0x38, 0x01, b'a', 0, 0x80, 0x20], bad),
        (&[1, 0x3c, 0x01, b'a', 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], bad),
        (&[1, 0x3e, 0x01, b'a', 0], bad),
        (&[1, 0x3c, 0x02, b'a'], CodecError::Truncated),
    ] {
        assert_eq!(short_listing(entries), refused(source), "{entries:x?}");
    }
    for name in [&b"/"[..], b".", b"..", b"\0", b""] {
        let entries = [&[1, 0x3c, name.len() as u8], name, &[0]].concat();
        let result = short_listing(&entries);
        assert!(matches!(result, Err(PeerError::BadName { .. })), "{name:?}: {result:?}");
    }
    assert_eq!(short_listing(&[0x81, 0x20]), Err(PeerError::Limit("items in one frame")));
}

/// Names like those of photographs, with their own times.
#[test]
fn an_entry_in_the_short_form_takes_at_most_twenty_bytes() {
    let entry = |n: u32| {
        let name = Name::new(format!("IMG_{:05}.jpg", n * 7).as_bytes()).unwrap();
        let modified = Timestamp { secs: 1_700_000_000 + i64::from(n) * 9_000, nanos: n * 400_000 };
        let meta = Meta::without_owner(Kind::File, 3_000_000 + u64::from(n), modified, 0o644);
        Entry { name, meta: Meta { user: Some(1000), group: Some(1000), ..meta } }
    };
    let entries: Vec<Entry> = (1..=1000).map(entry).collect();
    let (dir, own, extent) = (RelPath::root(), None, Extent::Last);
    let short = ShortEntries(entries.clone());
    let short_dir = PathBefore::default().shorten(&dir);
    let short = ToReceiver::ShortListing { dir: short_dir, own: None, entries: short, extent };
    let full = ToReceiver::Listing { dir, own, entries, extent };
    let (short, full) = (short.encode().len(), full.encode().len());
    assert!(short <= 20_000 && full >= 34_000, "{short} and {full}");
}

#[test]
fn a_header_bounds_its_payload() {
    let header = |len: u32| {
        let [a, b, c, _] = len.to_le_bytes();
        Header::decode([19, a, b, c])
    };
    let most = MAX_FRAME_BYTES as u32;
    assert_eq!(header(most), Ok(Header { kind: 19, len: MAX_FRAME_BYTES }));
    assert_eq!(header(most + 1), Err(PeerError::Limit("frame length")));
}

#[test]
fn a_count_is_refused_before_its_items_are_read() {
    // Groups of file 0: 2^63 of them, and more than a batch of them.
    let huge = [0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
    assert_eq!(ToReceiver::decode(19, &huge), Err(PeerError::Limit("items in one frame")));
    let claims = |count: usize| {
        let mut payload = vec![0];
        deltic_core::Put::put_varint(&mut payload, count as u64);
        ToReceiver::decode(19, &payload)
    };
    assert_eq!(claims(MAX_BATCH + 1), Err(PeerError::Limit("items in one frame")));
    let truncated = PeerError::Malformed { frame: "Groups", source: CodecError::Truncated };
    assert_eq!(claims(MAX_BATCH), Err(truncated));
}

#[test]
fn a_fingerprint_is_neither_too_brief_nor_too_long() {
    // Recipe of file 0: one chunk of a byte, and so many bytes of its fingerprint.
    for bytes in 0..=255 {
        let mut payload = vec![0, bytes, 1, 1];
        payload.resize(payload.len() + usize::from(bytes), 7);
        let told = ToReceiver::decode(51, &payload);
        let refused = PeerError::Malformed { frame: "Recipe", source: CodecError::OutOfRange };
        match bytes {
            4..=8 => assert_eq!(told.unwrap().encode()[HEADER_BYTES..], payload),
            _ => assert_eq!(told, Err(refused)),
        }
    }
    assert_eq!(
        ToReceiver::decode(51, &[0, 5, 1, 1, 7, 7, 7, 7]),
        Err(PeerError::Malformed { frame: "Recipe", source: CodecError::Truncated })
    );
}

#[test]
fn a_stream_of_something_else_is_named() {
    assert_eq!(check_magic(&MAGIC), Ok(()));
    let error = check_magic(b"SSH-2.0-").unwrap_err();
    assert_eq!(error.to_string(), "expected a deltic hello, got \"SSH-2.0-\"");
    let error = check_magic(b"\x1b[2J\r\n\0\xff").unwrap_err();
    assert!(!error.to_string().chars().any(char::is_control), "{error}");
    // What a shell prints comes before it.
    let error = check_magic(&[b"Hi\n", &MAGIC[..], b"\x01"].concat()).unwrap_err();
    assert_eq!(error.to_string(), "expected a deltic hello, got \"Hi\\n\"");
    for (other, name) in [(&b"deltic/2\x01\x87"[..], "deltic/2"), (b"deltic/12\x01", "deltic/12")] {
        let error = check_magic(other).unwrap_err();
        assert_eq!(error.to_string(), format!("the other end speaks {name}, this one deltic/1"));
    }
    for text in ["deltic/2: not found", "deltic/lib", "deltic/"] {
        assert_eq!(check_magic(text.as_bytes()), Err(PeerError::NotDeltic(text.into())));
    }
    for rsync in [&b"\x20\0\0\0"[..], b"@RSYNCD: 31.0\n"] {
        assert_eq!(check_magic(rsync), Err(PeerError::Rsync));
    }
}

#[test]
fn a_place_is_known_to_whoever_heard_its_hello_on_the_same_machine() {
    let hello = |part| Hello::of_this_version(Key::from_bytes([part; 32]));
    let inode = |device, number| Inode { device, number };
    let here = hello(1).place_fingerprint(b"boot", inode(7, 9));
    let told = hello(1).with_places(&[here]);
    assert!(told.is_at(&told.place_fingerprint(b"boot", inode(7, 9))));
    for other in [
        told.place_fingerprint(b"tomorrow", inode(7, 9)),
        told.place_fingerprint(b"boot", inode(9, 7)),
        hello(2).place_fingerprint(b"boot", inode(7, 9)),
    ] {
        assert!(!told.is_at(&other));
    }
    // Who does not know what it is for takes no notice.
    assert!(negotiate(&told, &hello(2)).is_ok());
    // A hello with all that may be added keeps to the number of capabilities.
    let places: Vec<_> = (0..Hello::MAX_PLACES as u64)
        .map(|number| told.place_fingerprint(b"boot", inode(7, number)))
        .collect();
    let all = hello(1).with_places(&places).with_max_files(Some(1000)).with_echoes();
    let all = all.with_gentle_sender().with_link_rate(Some(u64::MAX));
    let frame = all.encode();
    assert_eq!(Hello::decode(Hello::KIND, &frame[HEADER_BYTES..]), Ok(all));
}

#[test]
fn both_ends_agree_on_the_same_and_negotiation_ignores_what_it_does_not_know() {
    let ours = Hello::of_this_version(Key::from_bytes([7; 32]));
    // All sets of all names would be too many: these differ in all names, and strategies come and go together.
    let is_strategy = |name: &&String| name.starts_with("strategy:");
    let names: Vec<_> = ours.capabilities.iter().filter(|name| !is_strategy(name)).collect();
    for number in 0..1 << 14u64 {
        let missing = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number) >> (64 - names.len());
        let kept = names.iter().enumerate().filter(|(n, _)| missing >> n & 1 == 0);
        let mut other = Hello {
            program: "other".into(),
            capabilities: kept.map(|(_, name)| (*name).clone()).collect(),
            part: Key::from_bytes([8; 32]),
        };
        let strategies = ours.capabilities.iter().filter(is_strategy).cloned();
        other.capabilities.extend(strategies.filter(|_| missing % 2 == 0));
        other.capabilities.insert("teleport:v9".into());
        other.capabilities.extend((number % 3 == 0).then(|| "reasons".into()));
        let terms = negotiate(&ours, &other);
        let turned = negotiate(&other, &ours);
        assert_eq!(terms.is_err(), turned.is_err());
        let has = |name: &str| other.capabilities.contains(name);
        let needed = ["recipe:keyed-8", "chunker:sieve", "checks:crc32c"];
        match terms {
            Ok(terms) => {
                assert!(needed.iter().all(|name| has(name)));
                assert_eq!(terms.zstd, has("compress:zstd"));
                let stream = has("compress:zstd") && has("compress:zstd-stream");
                assert_eq!(terms.short_forms.compressed, stream);
                let cut = has("list:shared") && has("tallies:cut");
                assert_eq!(terms.short_forms.cut_tallies, cut);
                assert_eq!(terms.short_forms.proofs, has("whole:brief") && has("whole:short"));
                assert_eq!(terms.short_forms.answers, has("answers:together"));
                assert_eq!(terms.short_forms.split_code, has("filter:x86-split"));
                assert_eq!((terms.bases, terms.moved), (has("bases"), has("bases:moved")));
                assert_eq!(terms.reports.open_files, has("restless:open"));
                assert_eq!(terms.reports.troubles, has("troubles:located"));
                let asks = other.capabilities.contains("reasons");
                assert_eq!(terms.reports.reasons, asks);
                assert!(!turned.as_ref().unwrap().reports.reasons, "a sender asks nothing");
                assert_eq!(terms.reports.passed_over, has("changes:passed-over"));
                assert_eq!(terms.reports.removed, has("sources:removed"));
                assert_eq!(terms.may_skip_zeros(&Strategy::DELTIC), has("zeros"));
                // The sender's part alone makes the key, so that it can name chunks before it hears the receiver.
                let turned = turned.unwrap();
                assert_eq!((terms.zstd, terms.keyed), (turned.zstd, turned.keyed));
                assert_eq!(terms.key, ours.part.for_session());
                assert_eq!(turned.key, other.part.for_session());
                let guess = |hello: &Hello| hello.capabilities.contains("names:keyed");
                assert_eq!(terms.offers, guess(&ours) == terms.keyed);
                assert_eq!(turned.offers, guess(&other) == terms.keyed);
            }
            Err(error) => {
                assert!(!needed.iter().all(|name| has(name)), "{error}");
            }
        }
    }
}

#[test]
fn the_lesser_frame_limit_counts_and_none_is_refused_that_is_no_number() {
    let hello = |said: &[&str]| {
        let mut hello = Hello::of_this_version(Key::from_bytes([7; 32]));
        hello.capabilities.retain(|name| !name.starts_with("limit:frame="));
        hello.capabilities.extend(said.iter().map(|said| format!("limit:frame={said}")));
        hello
    };
    let agreed = |one: &[&str], other: &[&str]| {
        let terms = negotiate(&hello(one), &hello(other));
        assert_eq!(terms, negotiate(&hello(one), &hello(other)));
        terms.map(|terms| terms.limits.frame_bytes)
    };
    let (least, most) = (MIN_FRAME_BYTES, MAX_FRAME_BYTES);
    assert_eq!(agreed(&["262144"], &["65536"]), Ok(least));
    assert_eq!(agreed(&["65536"], &["262144"]), Ok(least));
    assert_eq!(agreed(&["100000"], &["18446744073709551615"]), Ok(100_000));
    assert_eq!(agreed(&["1048576"], &["1048577"]), Ok(most));
    assert_eq!(agreed(&["262144", "131072"], &["200000"]), Ok(131_072));
    // Who does not know limits cannot keep to one.
    assert_eq!(agreed(&["65536"], &[]), Ok(most));
    for bad in ["", "0", "65535", "-65536", "+65536", "065536", "65536 ", "64k", "1e6", "\u{666}"]
        .into_iter()
        .chain(["18446744073709551616", "99999999999999999999999999"])
    {
        for (one, other) in
            [(&["65536"][..], &[bad][..]), (&[bad], &[]), (&["65536"], &["65536", bad])]
        {
            let refused = agreed(one, other);
            assert!(matches!(refused, Err(PeerError::Limit(_))), "{bad:?}: {refused:?}");
        }
    }
    for (asked, said) in [(0, least), (usize::MAX, most), (100_000, 100_000)] {
        let framing = Hello::of_this_version(Key::from_bytes([7; 32])).with_frame_limit(asked);
        let terms = negotiate(&framing, &hello(&["1048576"])).unwrap();
        assert_eq!(terms.limits.frame_bytes, said);
    }
}

#[test]
fn a_hello_of_too_many_capabilities_is_refused() {
    let capabilities = (0..=MAX_CAPABILITIES).map(|n| n.to_string()).collect();
    let bytes =
        Hello { program: String::new(), capabilities, part: Key::from_bytes([0; 32]) }.encode();
    let (kind, payload) = split(&bytes);
    assert_eq!(Hello::decode(kind, payload), Err(PeerError::Limit("capabilities")));
}

proptest! {
    #[test]
    fn frames_to_the_receiver_come_back_as_they_were(frame in to_receiver()) {
        let bytes = frame.encode();
        let (kind, payload) = split(&bytes);
        prop_assert_eq!(ToReceiver::decode(kind, payload), Ok(frame));
    }

    /// The full form is the reference.
    #[test]
    fn entries_in_the_short_form_are_those_of_the_full_form(entries in frames::entries()) {
        let (dir, own, extent) = (RelPath::root(), None, Extent::Last);
        let short = ShortEntries(entries.clone());
        let short_dir = PathBefore::default().shorten(&dir);
        let short = ToReceiver::ShortListing { dir: short_dir, own: None, entries: short, extent };
        let short = short.encode();
        let full = ToReceiver::Listing { dir, own, entries, extent }.encode();
        let told = batch::BatchList::default().list_frame(short[0], split(&short).1);
        prop_assert_eq!(told.as_deref(), Some(&full[..]));
        prop_assert_eq!(batch::BatchList::default().list_frame(full[0], split(&full).1), told);
    }

    #[test]
    fn frames_to_the_sender_come_back_as_they_were(frame in to_sender()) {
        let bytes = frame.encode();
        let (kind, payload) = split(&bytes);
        prop_assert_eq!(ToSender::decode(kind, payload), Ok(frame));
    }

    #[test]
    fn greetings_come_back_as_they_were(greeting in greeting()) {
        let (hello, request, reply, abort) = greeting;
        let bytes = hello.encode();
        prop_assert_eq!(Hello::decode(1, split(&bytes).1), Ok(hello));
        let bytes = request.encode();
        prop_assert_eq!(Request::decode(2, split(&bytes).1), Ok(request));
        let bytes = reply.encode();
        prop_assert_eq!(Reply::decode(3, split(&bytes).1), Ok(reply));
        let bytes = abort.encode();
        prop_assert_eq!(Abort::decode(4, split(&bytes).1), Ok(Some(abort)));
    }

    /// What decodes is the one encoding of its value, but for text, which is made printable.
    #[test]
    fn any_bytes_decode_to_an_error_or_to_a_frame(kind in 0u8..70, payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let again = |bytes: Vec<u8>| bytes[HEADER_BYTES..] == payload[..];
        match ToReceiver::decode(kind, &payload) {
            Ok(frame @ (ToReceiver::Failed { .. } | ToReceiver::Trouble(_))) => drop(frame.encode()),
            Ok(frame) => prop_assert!(again(frame.encode()), "{:?}", frame),
            Err(_) => {}
        }
        if let Ok(frame) = ToSender::decode(kind, &payload) {
            _ = frame.encode();
        }
        _ = Hello::decode(kind, &payload).map(|hello| hello.encode());
        _ = Request::decode(kind, &payload).map(|request| request.encode());
        _ = Reply::decode(kind, &payload).map(|reply| reply.encode());
        _ = Abort::decode(kind, &payload).map(|abort| abort.map(|abort| abort.encode()));
    }

    /// Frames that were right but for a few bytes reach deeper than random bytes do.
    #[test]
    fn damaged_frames_decode_to_an_error_or_to_a_frame(frame in to_receiver(), answer in to_sender(), at in any::<prop::sample::Index>(), byte: u8) {
        let (mut one, mut other) = (frame.encode(), answer.encode());
        let (n, m) = (at.index(one.len()), at.index(other.len()));
        one[n] = byte;
        other[m] = byte;
        _ = ToReceiver::decode(one[0], &one[HEADER_BYTES..]);
        _ = ToSender::decode(other[0], &other[HEADER_BYTES..]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
