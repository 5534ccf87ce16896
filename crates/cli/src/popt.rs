//! Aliases that rsync's library of options reads from files (`rsync alias --mirror -a --delete`). They are not read here, and
//! that is said where the program is called as rsync.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_tree::path::printable;

use crate::report::output;

/// Says which files have aliases of rsync.
pub(crate) fn warn() {
    let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".popt"));
    for file in own.into_iter().chain([PathBuf::from("/etc/popt")]) {
        let mut text = Vec::new();
        let read = File::open(&file).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
        if read.is_ok() && has_aliases(&text) {
            let file = printable(file.as_os_str().as_bytes());
            let what = format!("{file}: aliases of rsync are not read; write the options out");
            output::complain(&what, None);
        }
    }
}

/// Whether a line is an alias, or runs another program.
fn has_aliases(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("rsync") && matches!(words.next(), Some("alias" | "exec"))
    })
}

/// What is looked at of a file.
const MAX_BYTES: u64 = 1 << 20;
