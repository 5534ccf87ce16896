//! What every store does: one suite, run against each of them.
//!
//! Each law is a function whose name says it; a failed assertion names the line. The suite uses nothing but the traits,
//! so a store of another crate can be held to it as well.

mod files;
mod leftovers;
mod trees;

use deltic_tree::rule::{Action, DirMerge, FileSyntax, Rule, Rules, Side};
use deltic_tree::{Kind, Meta, RelPath, Timestamp};

use crate::{
    Commit, Filter, Keep, Rebuild, Replaces, Resumable, Snapshot, Store, StoreError, Tree,
};

/// Holds the stores that `make` makes, each empty, to every law of what they keep. All keep files and directories.
///
/// # Panics
/// Where one is broken.
pub fn run<S: Store>(make: impl Fn() -> S) {
    files::run(&make);
    trees::run(&make);
    if keeps_links(&make()) {
        files::run_with_links(&make);
        trees::run_with_links(&make);
    }
    if keeps_leftovers(&make()) {
        leftovers::run(&make);
    }
}

/// Probes whether the store has symbolic links, and with them all of [`Posix`](crate::Posix).
fn keeps_links(store: &impl Store) -> bool {
    let made = store.make_symlink(&path("link"), b"x", &file_meta(), Keep::default());
    !matches!(made, Err(StoreError::Unsupported { .. }))
}

/// Probes whether the store keeps what a killed run wrote.
fn keeps_leftovers(store: &impl Store) -> bool {
    let noted = store.create(&path("file"), 1).expect("create").note(b"x");
    !matches!(noted, Err(StoreError::Unsupported { .. }))
}

/// Holds the stores that `make` makes with a filter to the laws of filters.
///
/// # Panics
/// Where one is broken.
pub fn run_filtered<S: Store>(make: impl Fn(Filter) -> S) {
    let exclude = |pattern: &[u8]| Rule::plain(Action::Exclude, pattern);
    let filter = |list| Filter::new(&Rules { list, ..Rules::default() }, Side::Receiver);
    let store = make(filter(vec![exclude(b"*.keep"), exclude(b"/cache/")]));
    trees::what_a_filter_excludes_is_neither_listed_nor_removed(&store);
    let reading = FileSyntax::default();
    let rules = DirMerge { file: b".rules"[..].into(), reading, inherited: true };
    let store = make(filter(vec![Rule::DirMerge(rules)]));
    trees::what_a_directory_protects_is_neither_listed_nor_removed(&store);
}

fn path(text: impl AsRef<[u8]>) -> RelPath {
    RelPath::parse(text.as_ref()).expect("a law knows what a path is")
}

/// Writes `bytes` and commits them at `at`, over whatever is there.
fn put(store: &impl Store, at: &str, bytes: &[u8]) {
    let at = path(at);
    let rebuild = store.create(&at, bytes.len() as u64).expect("create");
    rebuild.write(0, bytes).expect("write");
    let seen = store.look(&at).expect("look");
    let replaces = seen.as_ref().map_or(Replaces::Nothing, Replaces::Seen);
    let commit = Commit { meta: &file_meta(), keep: Keep::default(), replaces };
    rebuild.commit(commit).expect("commit");
}

fn bytes(store: &impl Tree, at: &str) -> Vec<u8> {
    all_of(&store.open(&path(at)).expect("open"))
}

fn all_of(snapshot: &impl Snapshot) -> Vec<u8> {
    let mut bytes = vec![0; snapshot.meta().len as usize];
    assert_eq!(snapshot.read_at(0, &mut bytes).expect("read"), bytes.len());
    bytes
}

fn names(store: &impl Tree, dir: &RelPath) -> Vec<Vec<u8>> {
    let listing = store.list(dir).expect("list");
    assert!(listing.errors.is_empty(), "{:?}", listing.errors);
    listing.entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect()
}

fn meta(store: &impl Store, at: &str) -> Meta {
    store.look(&path(at)).expect("look").expect("it is there")
}

fn file_meta() -> Meta {
    Meta::plain(Kind::File, 0, WHEN, 0o640)
}

fn dir_meta() -> Meta {
    Meta { kind: Kind::Dir, ..file_meta() }
}

fn special_meta() -> Meta {
    Meta { kind: Kind::Fifo, ..file_meta() }
}

fn symlink_meta(target: &[u8]) -> Meta {
    Meta { kind: Kind::Symlink(target.into()), ..file_meta() }
}

/// Bytes of which no two near ones are equal by accident.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

const WHEN: Timestamp = Timestamp { secs: 1_234_567_890, nanos: 123_456_789 };
/// Modes and times.
pub const KEEP_ALL: Keep = Keep {
    modes: true,
    times: true,
    executability: false,
    omit_dir_times: false,
    omit_link_times: false,
    acls: false,
    xattrs: false,
};
