//! Bytes that lists of a tree cost with several options: in a first copy beside the content, without changes, and after
//! a change of adjacent files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::peer::{PeerProgram, SyncTask};
use super::run::BenchRig;
use super::tree::overwrite;
use crate::progress::progress;
use crate::random::Random;
use crate::serve::REST;
use crate::table::TextTable;

/// Option of all runs: without compression, the bytes of lists are the sent bytes less the bytes of the content.
const PLAIN: &str = "--compress-choice=none";
/// Options of each row.
const ROWS: [&[&str]; 11] = [
    &["-a", PLAIN],
    &["-aH", PLAIN],
    &["-aX", PLAIN],
    &["-aA", PLAIN],
    &["-aHAX", PLAIN],
    &["-ab", PLAIN],
    &["-a", "--size-only", PLAIN],
    &["-a", "--modify-window=1", PLAIN],
    &["-aR", PLAIN],
    &["-ac", PLAIN],
    &["-a", "--delete", "-f", "- *.never", PLAIN],
];
const HEADER: [&str; 6] = [
    "options",
    "peer",
    "first copy: sent beside content, a file B",
    "received, a file B",
    "no change: sent B",
    "1 % of files edited, in a row: sent beside content B",
];

/// Copies `source` with each of the options, three times: the second time without changes, the third time after a
/// change of 1 % of `files`, which are the files in order of their paths. Returns a table of the bytes.
///
/// # Errors
/// An error if a program fails.
pub(super) fn by_option(
    rig: &BenchRig,
    peers: &[PeerProgram],
    source: &Path,
    files: &[PathBuf],
) -> Result<TextTable> {
    let mut table = TextTable::new(2, HEADER);
    let a_file = |bytes: u64| format!("{:.1}", bytes as f64 / files.len().max(1) as f64);
    let mut random = Random::new(1);
    let edited = files.iter().skip(files.len() / 2).take(files.len().div_ceil(100));
    for flags in ROWS {
        for peer in peers {
            let named: Vec<&str> = flags.iter().copied().filter(|word| *word != PLAIN).collect();
            let options = named.join(" ");
            progress(&format!("{options}: {}", peer.name()));
            let dest = rig.path("dest-bytes");
            if dest.exists() {
                fs::remove_dir_all(&dest)?;
            }
            let task = SyncTask { flags, ..SyncTask::default() };
            let run = || {
                Ok::<_, anyhow::Error>(rig.transfer(*peer, task, &source.join(""), &dest)?.stats)
            };
            let (first, again) = (run()?, run()?);
            for path in edited.clone() {
                overwrite(path, &mut random)?;
            }
            std::thread::sleep(REST);
            let after = run()?;
            table.row([
                options,
                peer.name().into(),
                a_file(first.sent.saturating_sub(first.literal)),
                a_file(first.received),
                again.sent.to_string(),
                after.sent.saturating_sub(after.literal).to_string(),
            ]);
        }
    }
    progress("");
    Ok(table)
}
