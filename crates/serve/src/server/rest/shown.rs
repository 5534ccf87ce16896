//! Entries as listings show them.

use deltic_store::Version;
use deltic_tree::path::printable;
use deltic_tree::{Entry, Kind};
use serde_json::{Value, json};

use super::conditions::tag_of_file;
use crate::server::shared::Server;

/// Returns an entry as listings show it.
pub(super) fn entry(server: &Server, entry: &Entry, version: Option<&Version>) -> Value {
    let meta = &entry.meta;
    let name = printable(entry.name.as_bytes());
    let mut told = json!({
        "name": name,
        "type": kind_shown(&meta.kind),
        "bytes": meta.len,
        "modified": meta.modified.secs,
    });
    if meta.is_file() {
        told["etag"] = tag_of_file(server, meta, version).into();
    }
    if name.as_bytes() != entry.name.as_bytes() {
        // Another entry may have the printed name, and a request with that name is about the other entry.
        told["exact"] = false.into();
    }
    told
}

/// Returns the word for a kind of entries in listings.
pub(super) const fn kind_shown(kind: &Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Dir => "dir",
        Kind::Symlink(_) => "symlink",
        Kind::Fifo | Kind::Socket | Kind::Device(_) => "special",
    }
}
