//! The bytes of every control message, and of the other messages of a connection.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, missing_docs)]

use std::fmt::Write;

use deltic_carrier::changes::{ChangeKind, PathChange};
use deltic_carrier::control::{Capabilities, FileVersion, FromClient, FromServer, SessionScope};
use deltic_carrier::message::Outgoing;
use deltic_carrier::token::Token;
use deltic_carrier::update::Answer;
use proptest::collection::vec;
use proptest::prelude::*;

/// Changing a line of it is a change of the format (docs/protocol.md, "The WebSocket").
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/messages.txt");

const NOTHING: Capabilities =
    Capabilities { watch: false, busy: false, replaces: false, versions: false };
const ALL: Capabilities = Capabilities { watch: true, busy: true, replaces: true, versions: true };

fn token() -> String {
    Token::from_random(std::array::from_fn(|at| at as u8)).reveal()
}

fn from_client() -> Vec<(&'static str, FromClient)> {
    let (channel, volume) = (300, "photos".to_owned());
    let open = |scope| FromClient::Open { channel, volume: volume.clone(), scope };
    let replaces = |tag: &str| SessionScope { replaces: Some(tag.into()), version: None };
    let version = FileVersion { path: "2026/a".into(), id: "1764000000123456789".into() };
    vec![
        ("Auth", FromClient::Auth { token: token() }),
        ("Open", open(SessionScope::default())),
        ("Open.replaces", open(replaces("00112233445566778899aabbccddeeff"))),
        ("Open.creates", open(replaces(""))),
        ("Open.version", open(SessionScope { replaces: None, version: Some(version) })),
        ("Update", FromClient::Update { channel, volume: volume.clone() }),
        ("Close", FromClient::Close { channel }),
        ("Can", FromClient::Can(ALL)),
        ("Watch", FromClient::Watch { channel, volume, path: "2026/summer".into() }),
    ]
}

fn from_server() -> Vec<(&'static str, FromServer)> {
    let welcome = |can| {
        let version = "0.1.0".to_owned();
        FromServer::Welcome { version, channels: 8, message_bytes: 65_536, can }
    };
    let refused = |retry_secs| FromServer::Refused { channel: 1, why: "no".into(), retry_secs };
    let change = |path: &str, became| PathChange { path: path.into(), became };
    let paths = vec![change("2026/a", ChangeKind::Put), change("b\\xff", ChangeKind::Gone)];
    vec![
        ("Welcome", welcome(NOTHING)),
        ("Welcome.can", welcome(ALL)),
        ("Refused", refused(None)),
        ("Refused.later", refused(Some(4))),
        ("GoAway", FromServer::GoAway),
        ("Changed.begins", FromServer::Changed { channel: 1, seq: 0, paths: Some(Vec::new()) }),
        ("Changed", FromServer::Changed { channel: 1, seq: 1, paths: Some(paths) }),
        ("Changed.missed", FromServer::Changed { channel: 1, seq: 2, paths: None }),
        ("Busy", FromServer::Busy { secs: 5 }),
    ]
}

#[test]
fn golden_messages_keep_their_bytes() {
    let mut lines = String::new();
    let mut line = |name: &str, bytes: &[u8]| {
        let text = bytes.escape_ascii();
        writeln!(lines, "{name} {text}").unwrap();
    };
    from_client().iter().for_each(|(name, message)| line(name, &message.message()));
    from_server().iter().for_each(|(name, message)| line(name, &message.message()));
    line("Bytes", &Outgoing::new(300).message(b"some").unwrap().0);
    line("End", &Outgoing::new(300).end().unwrap());
    line("Answer.done", &[Answer::Done.byte()]);
    line("Answer.other_base", &[Answer::OtherBase.byte()]);
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        std::fs::write(GOLDEN, &lines).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    for (line, golden) in lines.lines().zip(golden.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(lines.lines().count(), golden.lines().count());
}

#[test]
fn golden_messages_come_back_and_none_that_is_cut_short_does() {
    for (name, message) in from_client() {
        let bytes = message.message();
        assert_eq!(FromClient::parse(&bytes[1..]).unwrap(), message, "{name}");
        assert!((1..bytes.len()).all(|end| FromClient::parse(&bytes[1..end]).is_err()), "{name}");
    }
    for (name, message) in from_server() {
        let bytes = message.message();
        assert_eq!(FromServer::parse(&bytes[1..]).unwrap(), message, "{name}");
        assert!((1..bytes.len()).all(|end| FromServer::parse(&bytes[1..end]).is_err()), "{name}");
    }
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<[bool; 4]>().prop_map(|[watch, busy, replaces, versions]| Capabilities {
        watch,
        busy,
        replaces,
        versions,
    })
}

fn scope() -> impl Strategy<Value = SessionScope> {
    let version = any::<(String, String)>().prop_map(|(path, id)| FileVersion { path, id });
    (any::<Option<String>>(), proptest::option::of(version))
        .prop_map(|(replaces, version)| SessionScope { replaces, version })
}

fn any_from_client() -> impl Strategy<Value = FromClient> {
    let text = || vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect::<String>());
    prop_oneof![
        text().prop_map(|token| FromClient::Auth { token }),
        (any::<u32>(), text(), scope()).prop_map(|(channel, volume, scope)| FromClient::Open {
            channel,
            volume,
            scope
        }),
        (any::<u32>(), text()).prop_map(|(channel, volume)| FromClient::Update { channel, volume }),
        any::<u32>().prop_map(|channel| FromClient::Close { channel }),
        capabilities().prop_map(FromClient::Can),
        (any::<u32>(), text(), text()).prop_map(|(channel, volume, path)| FromClient::Watch {
            channel,
            volume,
            path
        }),
    ]
}

fn any_from_server() -> impl Strategy<Value = FromServer> {
    let text = || vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect::<String>());
    let kind = prop_oneof![Just(ChangeKind::Put), Just(ChangeKind::Gone)];
    let change = (text(), kind).prop_map(|(path, became)| PathChange { path, became });
    prop_oneof![
        (text(), any::<u32>(), any::<u32>(), capabilities()).prop_map(
            |(version, channels, message_bytes, can)| FromServer::Welcome {
                version,
                channels,
                message_bytes,
                can
            }
        ),
        (any::<u32>(), text(), any::<Option<u32>>()).prop_map(|(channel, why, retry_secs)| {
            FromServer::Refused { channel, why, retry_secs }
        }),
        Just(FromServer::GoAway),
        (any::<u32>(), any::<u64>(), proptest::option::of(vec(change, 0..5)))
            .prop_map(|(channel, seq, paths)| FromServer::Changed { channel, seq, paths }),
        any::<u32>().prop_map(|secs| FromServer::Busy { secs }),
    ]
}

proptest! {
    #[test]
    fn a_clients_message_comes_back_as_it_went(message in any_from_client()) {
        prop_assert_eq!(FromClient::parse(&message.message()[1..]).unwrap(), message);
    }

    #[test]
    fn a_servers_message_comes_back_as_it_went(message in any_from_server()) {
        prop_assert_eq!(FromServer::parse(&message.message()[1..]).unwrap(), message);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
        let _ = (FromClient::parse(&bytes), FromServer::parse(&bytes));
    }
}
