//! The bytes of a batch file: golden frames, round trips, and what is none.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

mod frames;

use std::fmt::Write;

use deltic_core::chunk::FixedLen;
use deltic_core::{ChunkerSpec, Digest, Span, ZeroRun};
use deltic_protocol::batch::{
    Frame, MAGIC, Old, Part, combined_options, encode_request, is_list_frame,
};
use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::message::{Payload, Sparse};
use deltic_protocol::options::{Delete, Guard, Metadata, Options, Select};
use deltic_protocol::{PeerError, ToReceiver};
use deltic_tree::{Kind, Meta, Name, RelPath, Timestamp};
use frames::{split, to_receiver, to_sender};
use proptest::prelude::*;

/// Changing a line of it is a new version of the format.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/batch.txt");

fn parts() -> Vec<(&'static str, Part)> {
    let digest = Digest::from_bytes([0xab; 32]);
    let spec = ChunkerSpec::Fixed(FixedLen::new(4096).unwrap());
    let modified = Timestamp { secs: 1_700_000_000, nanos: 5 };
    let meta = Meta::without_owner(Kind::File, 5000, modified, 0o644);
    let path = RelPath::parse(b"dir/a").unwrap();
    let old = Some(Old { digest, len: 9000 });
    vec![
        ("Content", Part::Content { path: path.clone(), meta: meta.clone(), old, spec }),
        ("Content.whole", Part::Content { path, meta, old: None, spec }),
        ("Copy", Part::Copy { span: Span::new(300, 4993) }),
        ("Literal.plain", Part::Literal { len: 7, payload: Payload::Plain(b"literal".to_vec()) }),
        ("Literal.zstd", Part::Literal { len: 7, payload: Payload::Zstd(vec![9; 3]) }),
        ("Proof", Part::Proof { digest: Some(digest) }),
        ("Proof.none", Part::Proof { digest: None }),
        ("Over", Part::Over { files: 300, digest }),
    ]
}

#[test]
fn golden_parts_of_a_batch_keep_their_bytes() {
    let name = Name::new(b"a").unwrap();
    let request = encode_request(Some(name), Options { recursive: true, ..Options::default() });
    let mut lines = format!("magic {}\nrequest {}\n", hex(&MAGIC), hex(&request));
    for (name, part) in parts() {
        writeln!(lines, "{name} {}", hex(&part.encode())).unwrap();
    }
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(GOLDEN, &lines).unwrap();
    }
    assert_eq!(lines, std::fs::read_to_string(GOLDEN).unwrap());
}

#[test]
fn a_part_comes_back_as_it_was_and_cut_short_or_drawn_out_not_at_all() {
    for (name, part) in parts() {
        let bytes = part.encode();
        let (kind, payload) = split(&bytes);
        let is_literal = name.starts_with("Literal");
        for len in 0..payload.len() {
            let cut = Frame::decode(kind, &payload[..len]);
            assert!(cut.is_err() || is_literal, "{name} cut to {len}");
        }
        let longer = Frame::decode(kind, &[payload, &[0]].concat());
        assert!(longer.is_err() || is_literal, "{name} and a byte");
        assert_eq!(Frame::decode(kind, payload), Ok(Frame::Part(part)), "{name}");
    }
}

/// Lengths and places that no delta has.
#[test]
fn a_copy_is_not_empty_not_too_long_and_within_64_bits() {
    for (start, len) in [(0, 0), (0, (8 << 20) + 1), (u64::MAX, 1)] {
        let bytes = Part::Copy { span: Span { start, len } }.encode();
        assert!(Frame::decode(98, &bytes[HEADER_BYTES..]).is_err(), "{start} {len}");
    }
    let plain = |len| Payload::Plain(vec![0; len]);
    assert!(plain(512 << 10).is_literal_of(512 << 10) && !plain(5).is_literal_of(6));
    assert!(!plain((512 << 10) + 1).is_literal_of((512 << 10) + 1) && !plain(0).is_literal_of(0));
    assert!(Payload::Zstd(vec![0; 3]).is_literal_of(4), "it may come to be as long");
    let runs = vec![ZeroRun { before: 0, len: 4 }];
    let sparse = Payload::Sparse(Sparse { runs, rest: Vec::new(), zstd: false });
    assert!(!sparse.is_literal_of(4), "a batch has none of these");
}

#[test]
fn what_is_carried_over_is_as_it_was_written_and_what_is_removed_as_it_is_asked() {
    let written = Options {
        recursive: true,
        links: true,
        times: true,
        checksum: true,
        dry_run: true,
        delete: Delete::Guarded(Guard::default()),
        metadata: Metadata { users: true, hard_links: true, ..Metadata::default() },
        select: Select { relative: true, list_only: true, ..Select::default() },
        ..Options::default()
    };
    let asked = Options {
        durable: true,
        delete: Delete::AtMost(7),
        modes: true,
        metadata: Metadata { writes_notes: true, acls: true, ..Metadata::default() },
        ..Options::default()
    };
    let read = combined_options(written, asked);
    assert!(read.recursive && read.links && read.times && !read.modes);
    assert!(read.metadata.users && read.metadata.hard_links && !read.metadata.acls);
    assert!(read.durable && read.whole_file && !read.checksum && !read.dry_run);
    assert!(read.metadata.writes_notes && read.select.relative && !read.select.list_only);
    assert_eq!(read.delete, Delete::AtMost(7));
}

proptest! {
    #[test]
    fn a_batch_has_what_tells_a_list_and_nothing_else_of_a_session(
        told in to_receiver(), answer in to_sender()
    ) {
        let bytes = told.encode();
        let (kind, payload) = split(&bytes);
        let is_list = matches!(
            told,
            ToReceiver::Listing { .. }
                | ToReceiver::Listed { .. }
                | ToReceiver::Owners { .. }
                | ToReceiver::Missing(_)
        );
        prop_assert_eq!(is_list_frame(kind), is_list);
        let frame = Frame::decode(kind, payload);
        let expected = if is_list { Ok(Frame::Told(told)) } else { Err(PeerError::UnknownFrame(kind)) };
        prop_assert_eq!(frame, expected);
        let bytes = answer.encode();
        let (kind, payload) = split(&bytes);
        prop_assert_eq!(Frame::decode(kind, payload), Err(PeerError::UnknownFrame(kind)));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_frame_of_a_batch(
        kind in 90u8..110, payload in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        if let Ok(Frame::Part(part)) = Frame::decode(kind, &payload) {
            prop_assert_eq!(&part.encode()[HEADER_BYTES..], &payload[..]);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
