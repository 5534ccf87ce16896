//! Helper functions for the laws: names, metadata and bytes.

use deltic_tree::{Kind, Meta, RelPath, Timestamp};

use crate::{Commit, Keep, Rebuild, Replaces, Snapshot, Store, Tree};

pub(super) fn path(text: impl AsRef<[u8]>) -> RelPath {
    RelPath::parse(text.as_ref()).expect("a law knows what a path is")
}

/// Writes `bytes` and commits them at `at`, in place of any entry there.
pub(super) fn put(store: &impl Store, at: &str, bytes: &[u8]) {
    let at = path(at);
    let rebuild = store.create(&at, bytes.len() as u64).expect("create");
    rebuild.write(0, bytes).expect("write");
    let seen = store.look(&at).expect("look");
    let replaces = Replaces::seen(seen.as_ref());
    let commit = Commit { meta: &file_meta(), keep: Keep::default(), replaces };
    rebuild.commit(commit).expect("commit");
}

pub(super) fn bytes(store: &impl Tree, at: &str) -> Vec<u8> {
    all_of(&store.open(&path(at)).expect("open"))
}

pub(super) fn all_of(snapshot: &impl Snapshot) -> Vec<u8> {
    let mut bytes = vec![0; snapshot.meta().len as usize];
    assert_eq!(snapshot.read_at(0, &mut bytes).expect("read"), bytes.len());
    bytes
}

pub(super) fn names(store: &impl Tree, dir: &RelPath) -> Vec<Vec<u8>> {
    let listing = store.list(dir).expect("list");
    assert!(listing.errors.is_empty(), "{:?}", listing.errors);
    listing.entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect()
}

pub(super) fn meta(store: &impl Store, at: &str) -> Meta {
    store.look(&path(at)).expect("look").expect("it is there")
}

pub(super) fn file_meta() -> Meta {
    Meta::without_owner(Kind::File, 0, WHEN, 0o640)
}

pub(super) fn dir_meta() -> Meta {
    Meta { kind: Kind::Dir, ..file_meta() }
}

pub(super) fn special_meta() -> Meta {
    Meta { kind: Kind::Fifo, ..file_meta() }
}

pub(super) fn symlink_meta(target: &[u8]) -> Meta {
    Meta { kind: Kind::Symlink(target.into()), ..file_meta() }
}

/// Returns `len` bytes that repeat only after 251 bytes.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

pub(super) const WHEN: Timestamp = Timestamp { secs: 1_234_567_890, nanos: 123_456_789 };
/// Keeps modes and times.
pub const KEEP_ALL: Keep = Keep {
    modes: true,
    times: true,
    executability: false,
    omit_dir_times: false,
    omit_link_times: false,
    acls: false,
    xattrs: false,
};
