//! `--json`: one JSON object per line on standard output, for programs.
//!
//! The schema is `docs/events.md`. The schema is a promise: fields are added, never renamed or removed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use deltic_core::BlockSumSpec;
use deltic_net::embed::SumCounts;
use deltic_net::plan::{Destination, Sources};
use deltic_net::watch::{Note, Round};
use deltic_net::{Outcome, Plan, SyncError};
use deltic_protocol::report::{
    Action, AgreedSums, Change, Differs, EntryType, PeerSums, Side, Trouble, TroubleKind,
};
use deltic_remote::hex;
use deltic_tree::{Meta, RelPath};
use serde::Serialize;

use crate::report::exit::Exit;
use crate::report::link::{JsonCompression, JsonRoundTrip, compression, round_trip};
use crate::report::meter::RunMeter;
use crate::report::output;
use crate::report::reporter::RetryNotice;
use crate::words::password::without_passwords;

/// Schema number, raised if a field changes meaning, which is not intended.
const SCHEMA: u32 = 1;

/// An event, written as one line.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum JsonEvent<'a> {
    Start {
        schema: u32,
        version: &'a str,
        dry_run: bool,
        sources: Vec<JsonPlace<'a>>,
        destination: JsonPlace<'a>,
    },
    Progress(JsonProgress),
    Change(ChangeEvent<'a>),
    Sums {
        #[serde(flatten)]
        name: JsonName,
        #[serde(skip_serializing_if = "Option::is_none")]
        here: Option<JsonBlockSums>,
        #[serde(skip_serializing_if = "Option::is_none")]
        there: Option<JsonBlockSums>,
        is_there_told: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        agreed: Option<JsonBlockSums>,
    },
    Difference {
        #[serde(flatten)]
        name: JsonName,
        kind: &'a str,
        differences: Vec<&'a str>,
    },
    Entry {
        #[serde(flatten)]
        name: JsonName,
        kind: &'a str,
        bytes: u64,
        mode: u32,
        modified_secs: i64,
        modified_nanos: u32,
    },
    /// The sizes that `deltic size` counted.
    Size {
        files: u64,
        dirs: u64,
        bytes: u64,
    },
    Trouble {
        kind: &'a str,
        message: &'a str,
        #[serde(flatten)]
        name: Option<JsonName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        errno: Option<u32>,
    },
    Retry {
        pause_ms: u64,
        message: &'a str,
    },
    Summary(Box<JsonSummary>),
    Round {
        round: u64,
        full: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        names: Option<usize>,
    },
    Watch {
        state: &'a str,
        message: String,
    },
    Watched(Box<WatchTotals>),
    Verified(Box<VerifyTotals>),
    Error {
        exit_code: u8,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

/// A name as text; if the name is not UTF-8, its bytes are given in hexadecimal too.
#[derive(Debug, Serialize)]
pub(crate) struct JsonName {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

/// A source or destination of a run.
#[derive(Debug, Serialize)]
pub(crate) struct JsonPlace<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(flatten)]
    name: JsonName,
}

/// Progress of the run.
#[derive(Debug, Serialize)]
pub(crate) struct JsonProgress {
    elapsed_ms: u64,
    phase: &'static str,
    listed_files: u64,
    listed_bytes: u64,
    listing_complete: bool,
    settled_bytes: u64,
    changed: u64,
    bytes_per_second: u64,
    eta_ms: Option<u64>,
}

/// A change of a name.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeEvent<'a> {
    #[serde(flatten)]
    name: JsonName,
    kind: &'a str,
    action: &'a str,
    differs: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_to_bytes: Option<String>,
}

/// The counts of a run.
#[derive(Debug, Serialize)]
pub(crate) struct JsonSummary {
    pub(crate) exit_code: u8,
    pub(crate) dry_run: bool,
    pub(crate) elapsed_ms: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) files: u64,
    pub(crate) dirs: u64,
    pub(crate) links: u64,
    pub(crate) devices: u64,
    pub(crate) specials: u64,
    pub(crate) total_bytes: u64,
    pub(crate) created: u64,
    pub(crate) transferred: u64,
    pub(crate) transferred_bytes: u64,
    pub(crate) literal_bytes: u64,
    pub(crate) matched_bytes: u64,
    pub(crate) resumed_bytes: u64,
    pub(crate) deleted: u64,
    pub(crate) failed: u64,
    /// Rate of the link, as the sender measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link_bits_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_trip: Option<JsonRoundTrip>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compression: Option<JsonCompression>,
    /// Sums that a strategy of a paper used, by their source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sums: Option<JsonSums>,
    /// Units of a store's objects that old versions have at other offsets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shifted: Option<JsonShifted>,
}

/// Units of a store's objects that were copied from other offsets of old versions, and their bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct JsonShifted {
    units: u64,
    bytes: u64,
}

/// Number of sums by their source.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct JsonSums {
    stored: u64,
    computed: u64,
}

/// Sums that storage keeps of blocks of a file.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct JsonBlockSums {
    sum: &'static str,
    block_bytes: u32,
}

/// Counts of all rounds of a watch.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct WatchTotals {
    pub(crate) exit_code: u8,
    pub(crate) elapsed_ms: u64,
    pub(crate) rounds: u64,
    pub(crate) failed_rounds: u64,
    pub(crate) complete: bool,
    pub(crate) waiting: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) created: u64,
    pub(crate) transferred: u64,
    pub(crate) transferred_bytes: u64,
    pub(crate) literal_bytes: u64,
    pub(crate) deleted: u64,
}

/// Totals of a comparison of two trees.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct VerifyTotals {
    pub(crate) exit_code: u8,
    pub(crate) elapsed_ms: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) files: u64,
    pub(crate) compared_bytes: u64,
    pub(crate) differences: u64,
    pub(crate) missing: u64,
    pub(crate) extra: u64,
    pub(crate) failed: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<EvidenceTotals>,
}

/// Kinds of evidence by which contents were compared, if one of the trees is in an object store.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EvidenceTotals {
    pub(crate) read_bytes: u64,
    pub(crate) evidence: Vec<ByEvidence>,
}

/// Files that were compared by one kind of evidence.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ByEvidence {
    pub(crate) by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sum: Option<&'static str>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl<'a> JsonEvent<'a> {
    /// The first event of a run.
    pub(crate) fn start(plan: &'a Plan) -> Self {
        JsonEvent::Start {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            dry_run: plan.options.dry_run,
            sources: sources(&plan.sources),
            destination: match &plan.destination {
                Destination::Local(path) => place(None, path.as_os_str()),
                Destination::Remote { host, path } => place(Some(host), path),
            },
        }
    }

    /// Progress of the run, `elapsed` after its start.
    pub(crate) fn progress(meter: &RunMeter, elapsed: Duration) -> Self {
        JsonEvent::Progress(JsonProgress {
            elapsed_ms: millis(elapsed),
            phase: meter.phase().word("transferring"),
            listed_files: meter.files,
            listed_bytes: meter.bytes,
            listing_complete: meter.complete,
            settled_bytes: meter.settled.min(meter.bytes),
            changed: meter.changed,
            bytes_per_second: meter.speed(),
            eta_ms: meter.time_left().map(millis),
        })
    }

    /// The event of a changed name.
    pub(crate) fn change(change: &Change) -> Self {
        let path = change.path.as_bytes();
        let (linked_to, linked_to_bytes) = path_and_bytes(change.facts.linked.as_ref());
        let (from, from_bytes) = path_and_bytes(change.facts.from.as_ref());
        JsonEvent::Change(ChangeEvent {
            linked_to,
            linked_to_bytes,
            from,
            from_bytes,
            name: named(if path.is_empty() { b"." } else { path }),
            kind: kind(change.item),
            action: action(change.action),
            differs: differs(change),
        })
    }

    /// The event of a name that differs in `differences`.
    pub(crate) fn difference(change: &Change, differences: Vec<&'a str>) -> Self {
        let path = change.path.as_bytes();
        let name = named(if path.is_empty() { b"." } else { path });
        JsonEvent::Difference { name, kind: kind(change.item), differences }
    }

    /// The event of a listed name, in a run that only lists.
    pub(crate) fn entry(path: &RelPath, meta: &Meta) -> Self {
        let path = path.as_bytes();
        JsonEvent::Entry {
            name: named(if path.is_empty() { b"." } else { path }),
            kind: kind(EntryType::of(&meta.kind)),
            bytes: meta.len,
            mode: meta.mode,
            modified_secs: meta.modified.secs,
            modified_nanos: meta.modified.nanos,
        }
    }

    /// The event of the sums that both ends agreed on for a file.
    pub(crate) fn sums(AgreedSums { path, here, there, agreed }: &AgreedSums) -> Self {
        let sums = |kept: &Option<BlockSumSpec>| {
            kept.map(|BlockSumSpec { kind, block_bytes }| JsonBlockSums {
                sum: kind.name(),
                block_bytes,
            })
        };
        let (there, is_there_told) = match there {
            PeerSums::Untold => (None, false),
            PeerSums::Told(there) => (sums(there), true),
        };
        let name = named(path.as_bytes());
        JsonEvent::Sums { name, here: sums(here), there, is_there_told, agreed: sums(agreed) }
    }

    /// The event of a name that failed, or was left out.
    pub(crate) fn trouble(trouble: &'a Trouble) -> Self {
        let kind = match trouble.kind {
            TroubleKind::Vanished => "vanished",
            TroubleKind::Failed => "failed",
            TroubleKind::Skipped | TroubleKind::UnsafeLink => "skipped",
            TroubleKind::DeleteLimit => "delete_limit",
            TroubleKind::Warned => "warning",
        };
        let spot = trouble.spot.as_deref();
        let whole = spot.and_then(|spot| spot.full_path.as_deref());
        let path = whole.or_else(|| Some(spot?.path.as_ref()?.as_bytes()));
        JsonEvent::Trouble {
            kind,
            message: &trouble.message,
            name: path.map(|path| named(if path.is_empty() { b"." } else { path })),
            side: spot.and_then(|spot| spot.side).map(|side| match side {
                Side::Sender => "sender",
                Side::Receiver => "receiver",
            }),
            errno: spot.and_then(|spot| spot.errno),
        }
    }

    /// The event of a lost connection, before another attempt.
    pub(crate) fn retry(notice: &'a RetryNotice) -> Self {
        JsonEvent::Retry { pause_ms: millis(notice.pause), message: &notice.why }
    }

    /// The last event of a run that completed.
    pub(crate) fn summary(outcome: &Outcome, dry_run: bool, exit: Exit) -> Self {
        let Outcome { totals, traffic, elapsed, link, sums, store } = *outcome;
        JsonEvent::Summary(Box::new(JsonSummary {
            exit_code: exit.code(),
            dry_run,
            elapsed_ms: millis(elapsed),
            sent_bytes: traffic.sent,
            received_bytes: traffic.received,
            files: totals.files,
            dirs: totals.dirs,
            links: totals.links,
            devices: totals.devices,
            specials: totals.specials,
            total_bytes: totals.bytes,
            created: totals.created,
            transferred: totals.transferred,
            transferred_bytes: totals.transferred_bytes,
            literal_bytes: totals.literal,
            matched_bytes: totals.matched,
            resumed_bytes: totals.resumed,
            deleted: totals.deleted,
            failed: totals.failed,
            link_bits_per_second: link.bits_per_second,
            round_trip: round_trip(&link),
            compression: compression(&link),
            sums: (sums != SumCounts::default())
                .then_some(JsonSums { stored: sums.stored, computed: sums.computed }),
            shifted: (store.shifted_units > 0)
                .then_some(JsonShifted { units: store.shifted_units, bytes: store.shifted_bytes }),
        }))
    }

    /// The event at the begin of the next round.
    pub(crate) const fn round(round: &Round) -> Self {
        let Round { number, names, .. } = round;
        JsonEvent::Round { round: *number, full: names.is_none(), names: *names }
    }

    /// The event of a watch note, which belongs to no round.
    pub(crate) fn watch(note: &Note) -> Self {
        let state = match note {
            Note::SourceGone => "source_gone",
            Note::SourceBack => "source_back",
            Note::TooManyDirs => "too_many_dirs",
            Note::HeldBack(_) => "held_back",
        };
        JsonEvent::Watch { state, message: note.to_string() }
    }

    /// The last event of a run that failed.
    pub(crate) fn error(error: &SyncError, hint: Option<String>) -> Self {
        JsonEvent::Error { exit_code: Exit::from(error).code(), message: error.to_string(), hint }
    }

    /// The only event of a run with invalid arguments.
    pub(crate) fn refusal(refusal: &anyhow::Error) -> Self {
        JsonEvent::Error {
            exit_code: Exit::after_refusal(refusal).code(),
            message: output::words(refusal),
            hint: None,
        }
    }

    /// Returns the line without its newline.
    pub(crate) fn line(&self) -> String {
        let line = serde_json::to_string(self).expect("an event is text and numbers");
        without_passwords(&line).into_owned()
    }
}

fn sources(sources: &Sources) -> Vec<JsonPlace<'_>> {
    match sources {
        Sources::Local(paths) => paths.iter().map(|path| place(None, path.as_os_str())).collect(),
        Sources::Remote { host, paths } => {
            paths.iter().map(|path| place(Some(host), path)).collect()
        }
    }
}

fn place<'a>(host: Option<&'a str>, path: &OsStr) -> JsonPlace<'a> {
    JsonPlace { host, name: named(path.as_bytes()) }
}

fn named(bytes: &[u8]) -> JsonName {
    JsonName {
        path: String::from_utf8_lossy(bytes).into_owned(),
        path_bytes: std::str::from_utf8(bytes).is_err().then(|| hex(bytes)),
    }
}

/// Returns another name, if there is one, and its bytes if the name is not UTF-8.
fn path_and_bytes(path: Option<&RelPath>) -> (Option<String>, Option<String>) {
    let name = path.map(|path| named(path.as_bytes()));
    let (path, bytes) = name.map(|name| (name.path, name.path_bytes)).unzip();
    (path, bytes.flatten())
}

fn kind(item: EntryType) -> &'static str {
    match item {
        EntryType::File => "file",
        EntryType::Dir => "dir",
        EntryType::Symlink => "symlink",
        EntryType::Device => "device",
        EntryType::Special => "special",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Created => "created",
        Action::Updated => "updated",
        Action::Touched => "touched",
        Action::Deleted => "deleted",
        Action::Unchanged => "unchanged",
        Action::Copied => "copied",
        Action::PassedOver(_) => "passed_over",
    }
}

fn differs(change: &Change) -> Vec<&'static str> {
    let Differs { content, size, kind, .. } = change.differs;
    let names = [(kind, "kind"), (content, "content"), (size, "size")];
    let names = names.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name);
    names.chain(attributes(change).filter(|name| *name != "content")).collect()
}

/// Returns the attributes that differ, without the length, which is part of the content.
pub(crate) fn attributes(change: &Change) -> impl Iterator<Item = &'static str> {
    let differs = change.differs;
    let names = [
        (differs.content, "content"),
        (differs.time, "time"),
        (differs.mode, "mode"),
        (differs.user, "owner"),
        (differs.group, "group"),
        (differs.accessed, "atime"),
        (differs.acl, "acl"),
        (differs.xattrs, "xattrs"),
    ];
    names.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_net::plan::StoreTraffic;
    use deltic_protocol::options::Options;
    use deltic_protocol::report::{Differs, Facts};
    use deltic_tree::RelPath;
    use serde_json::{Value, json};

    fn parsed(event: &JsonEvent<'_>) -> Value {
        let line = event.line();
        assert!(!line.contains('\n'));
        serde_json::from_str(&line).unwrap()
    }

    fn keys(event: &JsonEvent<'_>) -> String {
        let parsed = parsed(event);
        let mut keys: Vec<_> = parsed.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    }

    fn change(path: &[u8]) -> Change {
        let differs = Differs { size: true, time: true, ..Differs::default() };
        let path = RelPath::parse(path).unwrap();
        let (item, action, facts) = (EntryType::File, Action::Updated, Facts::default());
        Change { path, item, action, differs, facts }
    }

    #[test]
    fn the_first_line_names_both_ends() {
        let sources = Sources::Local(vec!["a".into(), "b/".into()]);
        let destination = Destination::Remote { host: "me@h".into(), path: "c".into() };
        let plan = Plan::new(sources, destination, Options::default());
        assert_eq!(
            parsed(&JsonEvent::start(&plan)),
            json!({
                "event": "start", "schema": 1, "version": env!("CARGO_PKG_VERSION"), "dry_run": false,
                "sources": [{"path": "a"}, {"path": "b/"}], "destination": {"host": "me@h", "path": "c"},
            })
        );
    }

    #[test]
    fn a_change_says_what_differed() {
        assert_eq!(
            parsed(&JsonEvent::change(&change(b"d/n"))),
            json!({"event": "change", "path": "d/n", "kind": "file", "action": "updated", "differs": ["size", "time"]})
        );
        assert_eq!(parsed(&JsonEvent::change(&change(b"")))["path"], ".");
        let mut moved = change(b"d/n");
        moved.facts.from = Some(RelPath::parse(b"e/\xff").unwrap());
        assert_eq!(
            keys(&JsonEvent::change(&moved)),
            "action differs event from from_bytes kind path"
        );
        assert_eq!(parsed(&JsonEvent::change(&moved))["from_bytes"], "652fff");
    }

    #[test]
    fn a_name_that_was_linked_says_to_which() {
        let mut linked = change(b"b");
        linked.facts.linked = Some(RelPath::parse(b"\xff").unwrap());
        let event = parsed(&JsonEvent::change(&linked));
        assert_eq!(
            (&event["linked_to"], &event["linked_to_bytes"]),
            (&json!("\u{fffd}"), &json!("ff"))
        );
        assert!(parsed(&JsonEvent::change(&change(b"b"))).get("linked_to").is_none());
    }

    #[test]
    fn a_name_that_is_no_text_comes_as_bytes_too() {
        let event = parsed(&JsonEvent::change(&change(b"a\n\xff")));
        assert_eq!(event["path"], "a\n\u{fffd}");
        assert_eq!(event["path_bytes"], "610aff");
    }

    fn located() -> Trouble {
        let path = RelPath::parse(b"closed").unwrap();
        let words = |path: &str| format!("cannot list {path}/: why");
        let mut told = Trouble::at(TroubleKind::Failed, &path, words).with_errno(Some(13));
        told.locate(Side::Receiver, |_| Some((*b"/srv/closed").into()));
        told
    }

    #[test]
    fn the_keys_are_those_of_the_documentation() {
        let outcome = Outcome::default();
        assert_eq!(
            keys(&JsonEvent::progress(&RunMeter::default(), Duration::ZERO)),
            "bytes_per_second changed elapsed_ms eta_ms event listed_bytes listed_files listing_complete phase settled_bytes"
        );
        assert_eq!(
            keys(&JsonEvent::summary(&outcome, false, Exit::Success)),
            "created deleted devices dirs dry_run elapsed_ms event exit_code failed files links literal_bytes matched_bytes \
             received_bytes resumed_bytes sent_bytes specials total_bytes transferred transferred_bytes"
        );
        let store = StoreTraffic { received: 9, shifted_units: 2, shifted_bytes: 131_072 };
        let found =
            parsed(&JsonEvent::summary(&Outcome { store, ..outcome }, false, Exit::Success));
        assert_eq!(found["shifted"], json!({"units": 2, "bytes": 131_072}));
        assert_eq!(
            parsed(&JsonEvent::trouble(&Trouble::new(TroubleKind::DeleteLimit, "m"))),
            json!({"event": "trouble", "kind": "delete_limit", "message": "m"})
        );
        let told = located();
        assert_eq!(
            parsed(&JsonEvent::trouble(&told)),
            json!({"event": "trouble", "kind": "failed", "message": "cannot list /srv/closed/: why", "path": "/srv/closed",
                "side": "receiver", "errno": 13})
        );
        assert_eq!(
            keys(&JsonEvent::error(&SyncError::Interrupted, None)),
            "event exit_code message"
        );
        assert_eq!(
            keys(&JsonEvent::error(&SyncError::Interrupted, Some("help".into()))),
            "event exit_code hint message"
        );
    }

    #[test]
    fn every_key_is_documented() {
        let (text, told) = (include_str!("../../../../docs/events.md"), located());
        let events = [
            JsonEvent::progress(&RunMeter::default(), Duration::ZERO),
            JsonEvent::summary(&Outcome::default(), false, Exit::Success),
            JsonEvent::error(&SyncError::Interrupted, Some("help".into())),
            JsonEvent::trouble(&told),
            JsonEvent::change(&change(b"\xff")),
            JsonEvent::Round { round: 1, full: false, names: Some(1) },
            JsonEvent::watch(&Note::SourceGone),
            JsonEvent::Size { files: 1, dirs: 0, bytes: 1 },
            JsonEvent::Watched(Box::default()),
            JsonEvent::Verified(Box::default()),
        ];
        for key in events.iter().map(keys).collect::<Vec<_>>().join(" ").split(' ') {
            assert!(text.contains(&format!("`{key}`")), "{key}");
        }
    }
}
