//! Evidence by which contents of a store were compared, in words and for programs.

use deltic_remote::{By, Compared, Counted};
use indicatif::HumanBytes;

use crate::plan::store::Store;
use crate::report::events;
use crate::report::numbers::counted;

/// Files by their evidence, and how much of them was read: `by CRC-32C that both keep: 3 files, 1.00 GiB; …`.
pub(super) fn words(store: &Store) -> String {
    let Compared { by, read } = store.evidence.compared();
    let how = |by: By| match by {
        By::Kept(sum) => format!("by {} that both sides keep", sum.name()),
        By::Summed(sum) => format!("by {} that one side keeps", sum.name()),
        By::Bytes => "by their bytes".to_owned(),
    };
    let mut words: Vec<String> = by
        .into_iter()
        .map(|(by, Counted { files, bytes })| {
            format!("{}: {}, {}", how(by), counted(files, "file"), HumanBytes(bytes))
        })
        .collect();
    words.push(format!("read here: {}", HumanBytes(read)));
    words.push(format!("received: {}", HumanBytes(store.remote.received())));
    words.join("; ")
}

/// The same for programs.
pub(super) fn event(store: &Store) -> events::Evidence {
    let Compared { by, read } = store.evidence.compared();
    let line = |(by, Counted { files, bytes })| {
        let (by, sum) = match by {
            By::Kept(sum) => ("kept", Some(sum.name())),
            By::Summed(sum) => ("summed", Some(sum.name())),
            By::Bytes => ("bytes", None),
        };
        events::ByEvidence { by, sum, files, bytes }
    };
    events::Evidence { read_bytes: read, evidence: by.into_iter().map(line).collect() }
}
