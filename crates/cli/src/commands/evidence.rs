//! Evidence by which the contents of a store were compared, as text and as an event.

use deltic_remote::{ComparedBy, ComparedContents, FileCount};
use indicatif::HumanBytes;

use crate::plan::store::StoreConnection;
use crate::report::events;
use crate::report::numbers::counted;

/// Returns the counts of files by evidence, and the bytes read, as text: `by CRC-32C that both sides keep: 3 files,
/// 1.00 GiB; …`.
pub(super) fn words(store: &StoreConnection) -> String {
    let ComparedContents { by, read } = store.evidence.compared();
    let how = |by: ComparedBy| match by {
        ComparedBy::Kept(sum) => format!("by {} that both sides keep", sum.name()),
        ComparedBy::Summed(sum) => format!("by {} that one side keeps", sum.name()),
        ComparedBy::Bytes => "by their bytes".to_owned(),
    };
    let mut words: Vec<String> = by
        .into_iter()
        .map(|(by, FileCount { files, bytes })| {
            format!("{}: {}, {}", how(by), counted(files, "file"), HumanBytes(bytes))
        })
        .collect();
    words.push(format!("read here: {}", HumanBytes(read)));
    words.push(format!("received: {}", HumanBytes(store.received())));
    words.join("; ")
}

/// Returns the counts of files by evidence, and the bytes read, as an event.
pub(super) fn event(store: &StoreConnection) -> events::EvidenceTotals {
    let ComparedContents { by, read } = store.evidence.compared();
    let line = |(by, FileCount { files, bytes })| {
        let (by, sum) = match by {
            ComparedBy::Kept(sum) => ("kept", Some(sum.name())),
            ComparedBy::Summed(sum) => ("summed", Some(sum.name())),
            ComparedBy::Bytes => ("bytes", None),
        };
        events::ByEvidence { by, sum, files, bytes }
    };
    events::EvidenceTotals { read_bytes: read, evidence: by.into_iter().map(line).collect() }
}
