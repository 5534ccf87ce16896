//! Bytes that lists of a tree cost with several options: in a first copy beside the content, and without changes.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::peer::{PeerProgram, SyncTask};
use super::run::BenchRig;
use crate::progress::progress;
use crate::table::TextTable;

/// Options of each row.
const ROWS: [&[&str]; 11] = [
    &["-a"],
    &["-aH"],
    &["-aX"],
    &["-aA"],
    &["-aHAX"],
    &["-ab"],
    &["-a", "--size-only"],
    &["-a", "--modify-window=1"],
    &["-aR"],
    &["-ac"],
    &["-a", "--delete", "-f", "- *.never"],
];
const HEADER: [&str; 7] = [
    "options",
    "peer",
    "first copy: sent beside content B",
    "a file B",
    "received a file B",
    "no change: sent B",
    "a file B",
];

/// Copies `source` of `files` files with each of the options, twice, and returns a table of the bytes.
///
/// # Errors
/// An error if a program fails.
pub(super) fn by_option(
    rig: &BenchRig,
    peers: &[PeerProgram],
    source: &Path,
    files: usize,
) -> Result<TextTable> {
    let mut table = TextTable::new(2, HEADER);
    let a_file = |bytes: u64| format!("{:.1}", bytes as f64 / files.max(1) as f64);
    for flags in ROWS {
        for peer in peers {
            let options = flags.join(" ");
            progress(&format!("{options}: {}", peer.name()));
            let dest = rig.path("dest-bytes");
            if dest.exists() {
                fs::remove_dir_all(&dest)?;
            }
            let task = SyncTask { flags, ..SyncTask::default() };
            let first = rig.transfer(*peer, task, &source.join(""), &dest)?.stats;
            let again = rig.transfer(*peer, task, &source.join(""), &dest)?.stats;
            let beside = first.sent.saturating_sub(first.literal);
            table.row([
                options,
                peer.name().into(),
                beside.to_string(),
                a_file(beside),
                a_file(first.received),
                again.sent.to_string(),
                a_file(again.sent),
            ]);
        }
    }
    progress("");
    Ok(table)
}
