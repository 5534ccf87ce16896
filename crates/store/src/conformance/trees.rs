//! Laws of directories, symlinks and names.

use deltic_tree::{EntryType, Kind, Meta, Name, RelPath};

use super::given::{
    KEEP_ALL, bytes, dir_meta, file_meta, meta, names, path, put, special_meta, symlink_meta,
};
use crate::{Keep, Link, RemoveOptions, STAGING_NAME, Store, StoreError};

const MAKE_WAY: RemoveOptions = RemoveOptions { gives_way: true, dry_run: false, most: u64::MAX };

/// Removes `at` with repeated calls. Returns the removed names, and the reasons why other names stayed.
fn gone(
    store: &impl Store,
    at: &str,
    going: RemoveOptions,
) -> (Vec<(String, EntryType)>, Vec<String>) {
    let (mut gone, mut stayed) = (Vec::new(), Vec::new());
    loop {
        let some = store.remove(&path(at), going).expect("remove");
        assert!(!some.goes_on || some.gone.len() + some.stayed.len() > 0, "no step forward");
        gone.extend(some.gone.into_iter().map(|(path, item)| (path.to_string(), item)));
        stayed.extend(some.stayed.iter().map(ToString::to_string));
        if !some.goes_on {
            return (gone, stayed);
        }
    }
}

fn protected(at: &str) -> String {
    StoreError::Protected { path: path(at) }.to_string()
}

pub(super) fn run<S: Store>(make: &impl Fn() -> S) {
    names_are_any_bytes_and_sorted_by_them(&make());
    a_directory_is_made_once_and_over_a_file(&make());
    a_file_becomes_executable_for_whoever_may_read_it(&make());
    times_of_directories_that_are_left_out_stay(&make());
    metadata_is_set_as_asked(&make());
    removing_takes_everything_below(&make());
    the_staging_directory_is_no_target(&make());
    what_is_missing_is_not_found(&make());
}

pub(super) fn run_with_links<S: Store>(make: &impl Fn() -> S) {
    a_directory_is_made_over_a_symlink(&make());
    a_symlink_is_made_over_anything_but_a_full_directory(&make());
    a_special_file_is_made_over_anything_but_a_full_directory(&make());
    times_of_symlinks_that_are_left_out_stay(&make());
    a_symlink_is_never_followed(&make());
    metadata_is_set_on_the_symlink_itself(&make());
    a_hard_link_is_made_only_if_both_entries_are_as_seen(&make());
    removing_takes_a_symlink_and_not_what_it_leads_to(&make());
    no_link_is_made_in_the_staging_directory(&make());
}

fn a_hard_link_is_made_only_if_both_entries_are_as_seen(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make");
    put(store, "first", b"new");
    put(store, "dir/old", b"old");
    let (first, is, seen) = (path("first"), meta(store, "first"), meta(store, "dir/old"));
    let link = |at: &str, is: &Meta, seen: Option<&Meta>| {
        store.link(&path(at), Link { from: store, at: &first, is, seen })
    };
    let changed = Meta { len: 4, ..is.clone() };
    for (at, is, seen) in [("other", &changed, None), ("dir/old", &changed, Some(&seen))] {
        assert!(matches!(link(at, is, seen), Err(StoreError::Changed { .. })), "{at}");
    }
    for (at, seen) in [("other", Some(&seen)), ("dir/old", None), ("dir/old", Some(&changed))] {
        assert!(matches!(link(at, &is, seen), Err(StoreError::Conflict { .. })), "{at}");
    }
    assert_eq!(bytes(store, "dir/old"), b"old");
    link("other", &is, None).expect("nothing is there");
    link("dir/old", &is, Some(&seen)).expect("it is what was seen");
    for at in ["other", "dir/old"] {
        assert_eq!(bytes(store, at), b"new");
        assert!(meta(store, at).is_equal_file(&is));
    }
    // The link exists already, and is replaced by an equal link.
    link("dir/old", &is, Some(&is)).expect("it is one already");
    put(store, "first", b"newer");
    assert_eq!(bytes(store, "other"), b"new");
}

fn names_are_any_bytes_and_sorted_by_them(store: &impl Store) {
    let long = [b'n'; 255];
    let mut odd: Vec<&[u8]> = vec![
        b"a",
        b"B",
        b"\xff\xfe",
        b"a\nb",
        b" ",
        b"-rf",
        b"*",
        b"a.b",
        b"a-b",
        b"\x01",
        b"\\",
        &long,
        "\u{202e}é".as_bytes(),
        ".hidden".as_bytes(),
        b".deltic2",
        b"a\x80",
    ];
    store.make_dir(&path("dir"), None).expect("make a directory");
    for name in &odd {
        let at = path("dir").join(&Name::new(name).expect("a name")).expect("a path");
        store.make_dir(&at, None).expect("make a directory");
    }
    odd.sort_unstable();
    assert_eq!(names(store, &path("dir")), odd);
    assert_eq!(names(store, &path("")), [b"dir"]);
    assert!(names(store, &path("dir/a")).is_empty());
}

fn a_directory_is_made_over_a_symlink(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make");
    put(store, "dir/file", b"x");
    store.make_symlink(&path("link"), b"dir", &file_meta(), KEEP_ALL).expect("symlink");
    store.make_dir(&path("link"), None).expect("make over a symlink");
    assert_eq!((meta(store, "link").kind, meta(store, "link").mode), (Kind::Dir, 0o700));
    assert!(names(store, &path("link")).is_empty());
    assert_eq!(names(store, &path("dir")), [b"file"]);
}

fn a_directory_is_made_once_and_over_a_file(store: &impl Store) {
    store.make_dir(&RelPath::root(), None).expect("the root is there");
    store.make_dir(&path("dir"), None).expect("make");
    put(store, "dir/file", b"x");
    store.make_dir(&path("dir"), None).expect("make again");
    assert_eq!(names(store, &path("dir")), [b"file"]);
    store.make_dir(&path("dir/file"), None).expect("make over a file");
    for at in ["dir", "dir/file"] {
        assert_eq!((meta(store, at).kind, meta(store, at).mode), (Kind::Dir, 0o700), "{at}");
    }
    assert!(names(store, &path("dir/file")).is_empty());
    store.flush().expect("flush");
}

fn a_symlink_is_made_over_anything_but_a_full_directory(store: &impl Store) {
    let make = |at: &str, target: &[u8]| {
        store.make_symlink(&path(at), target, &symlink_meta(target), KEEP_ALL)
    };
    put(store, "at", b"file");
    make("at", b"/over/a file").expect("over a file");
    make("at", b"../over/\xff").expect("over a symlink");
    store.make_dir(&path("dir"), None).expect("make a directory");
    make("dir", b"x").expect("over an empty directory");
    assert_eq!(meta(store, "at").kind, Kind::Symlink(b"../over/\xff"[..].into()));
    assert_eq!(meta(store, "at").modified, super::given::WHEN);
    assert_eq!(meta(store, "at").len, 0);
    store.make_dir(&path("full"), None).expect("make a directory");
    put(store, "full/file", b"x");
    let full = make("full", b"x");
    assert!(matches!(full, Err(StoreError::NotEmpty { .. })), "{full:?}");
    assert_eq!(names(store, &path("")), [&b"at"[..], b"dir", b"full"]);
    assert_eq!(store.sweep().expect("sweep"), 0);
}

fn a_special_file_is_made_over_anything_but_a_full_directory(store: &impl Store) {
    let of = |kind: Kind| Meta { kind, ..file_meta() };
    let (fifo, socket) = (of(Kind::Fifo), of(Kind::Socket));
    put(store, "at", b"file");
    store.make_special(&path("at"), &fifo, KEEP_ALL).expect("over a file");
    assert_eq!(meta(store, "at"), fifo);
    store.make_special(&path("at"), &socket, KEEP_ALL).expect("over a FIFO");
    assert_eq!(meta(store, "at"), socket);
    store.make_dir(&path("dir"), None).expect("make a directory");
    store.make_special(&path("dir"), &fifo, Keep::default()).expect("over an empty directory");
    assert_eq!((meta(store, "dir").kind, meta(store, "dir").mode), (Kind::Fifo, 0o640));
    let read_only = Meta { mode: 0o400, ..fifo.clone() };
    store.set_meta(&path("dir"), &read_only, KEEP_ALL).expect("set");
    assert_eq!(meta(store, "dir"), read_only);
    let other = store.set_meta(&path("at"), &fifo, KEEP_ALL);
    assert!(matches!(other, Err(StoreError::Conflict { .. })), "{other:?}");
    let file = store.make_special(&path("file"), &file_meta(), KEEP_ALL);
    assert!(matches!(file, Err(StoreError::Io { .. })), "{file:?}");
    store.make_dir(&path("full"), None).expect("make a directory");
    put(store, "full/file", b"x");
    let full = store.make_special(&path("full"), &fifo, KEEP_ALL);
    assert!(matches!(full, Err(StoreError::NotEmpty { .. })), "{full:?}");
    assert_eq!(store.sweep().expect("sweep"), 0);
}

fn a_file_becomes_executable_for_whoever_may_read_it(store: &impl Store) {
    let keep = Keep { executability: true, ..Keep::default() };
    put(store, "file", b"x");
    for (now, sent, then) in [(0o640, 0o700, 0o750), (0o755, 0o644, 0o644), (0o611, 0o755, 0o611)] {
        let of = |mode| Meta { mode, ..file_meta() };
        store.set_meta(&path("file"), &of(now), KEEP_ALL).expect("set");
        store.set_meta(&path("file"), &of(sent), keep).expect("set");
        assert_eq!(meta(store, "file").mode, then, "{now:o} {sent:o}");
    }
}

fn times_of_symlinks_that_are_left_out_stay(store: &impl Store) {
    let keep = Keep { omit_link_times: true, ..KEEP_ALL };
    store.make_symlink(&path("link"), b"x", &symlink_meta(b"x"), keep).expect("symlink");
    store.set_meta(&path("link"), &symlink_meta(b"x"), keep).expect("set");
    assert_ne!(meta(store, "link").modified, super::given::WHEN);
}

fn times_of_directories_that_are_left_out_stay(store: &impl Store) {
    let keep = Keep { omit_dir_times: true, ..KEEP_ALL };
    store.make_dir(&path("dir"), None).expect("make a directory");
    store.set_meta(&path("dir"), &dir_meta(), keep).expect("set");
    assert_ne!(meta(store, "dir").modified, super::given::WHEN);
    assert_eq!(meta(store, "dir").mode, dir_meta().mode);
}

fn a_symlink_is_never_followed(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    put(store, "dir/file", b"untouched");
    for target in [&b"dir"[..], b".", b"/"] {
        store.make_symlink(&path("link"), target, &file_meta(), KEEP_ALL).expect("symlink");
        let below = path("link/file");
        let answers = [
            ("list", store.list(&path("link")).map(drop)),
            ("open", store.open(&below).map(drop)),
            ("look", store.look(&below).map(drop)),
            ("create", store.create(&below, 1).map(drop)),
            ("leftovers", store.leftovers(&below).map(drop)),
            ("make_dir", store.make_dir(&below, None)),
            ("make_symlink", store.make_symlink(&below, b"x", &file_meta(), KEEP_ALL)),
            ("make_special", store.make_special(&below, &special_meta(), KEEP_ALL)),
            ("set_meta", store.set_meta(&below, &file_meta(), KEEP_ALL)),
            ("set_meta of itself", store.set_meta(&path("link"), &file_meta(), KEEP_ALL)),
            ("set_meta as directory", store.set_meta(&path("link"), &dir_meta(), KEEP_ALL)),
            ("remove", store.remove(&below, RemoveOptions::default()).map(drop)),
        ];
        for (call, answer) in answers {
            assert!(matches!(answer, Err(StoreError::OutsideRoot { .. })), "{call}: {answer:?}");
        }
    }
    assert_eq!(
        gone(store, "link", RemoveOptions::default()).0,
        [("link".into(), EntryType::Symlink)]
    );
    assert_eq!(bytes(store, "dir/file"), b"untouched");
}

fn metadata_is_set_on_the_symlink_itself(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    put(store, "dir/file", b"x");
    store.make_symlink(&path("link"), b"dir/file", &file_meta(), Keep::default()).expect("symlink");
    let before = meta(store, "dir/file");
    store.set_meta(&path("link"), &symlink_meta(b"dir/file"), KEEP_ALL).expect("set");
    assert_eq!(meta(store, "link").modified, super::given::WHEN);
    assert_eq!(meta(store, "dir/file"), before);
}

fn metadata_is_set_as_asked(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    put(store, "dir/file", b"x");
    let before = meta(store, "dir/file");
    store.set_meta(&path("dir"), &dir_meta(), KEEP_ALL).expect("set");
    assert_eq!(meta(store, "dir"), dir_meta());
    let times = Keep { times: true, ..Keep::default() };
    store.set_meta(&path("dir/file"), &file_meta(), times).expect("set");
    assert_eq!(meta(store, "dir/file").modified, super::given::WHEN);
    assert_eq!(meta(store, "dir/file").mode, before.mode);
    store.set_meta(&RelPath::root(), &dir_meta(), KEEP_ALL).expect("set");
    assert_eq!(store.look(&RelPath::root()).expect("look"), Some(dir_meta()));
}

fn no_more_names_go_in_a_call_than_may(store: &impl Store) {
    for going in [RemoveOptions::default(), MAKE_WAY] {
        store.make_dir(&path("some"), None).expect("make a directory");
        store.make_dir(&path("some/dir"), None).expect("make a directory");
        for file in ["some/1", "some/2", "some/dir/3"] {
            put(store, file, b"x");
        }
        let goes = |most| {
            let removed =
                store.remove(&path("some"), RemoveOptions { most, ..going }).expect("remove");
            assert!(removed.stayed.is_empty(), "{removed:?}");
            (removed.gone.len(), removed.goes_on)
        };
        assert_eq!([goes(2), goes(0), goes(1)], [(2, true), (0, true), (1, true)]);
        match going.gives_way {
            true => assert_eq!(goes(1), (2, false), "it is none of them itself"),
            false => assert_eq!([goes(1), goes(1)], [(1, true), (1, false)]),
        }
    }
}

fn removing_takes_a_symlink_and_not_what_it_leads_to(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    store.make_dir(&path("kept"), None).expect("make a directory");
    put(store, "kept/file", b"x");
    store.make_symlink(&path("dir/link"), b"../kept", &file_meta(), KEEP_ALL).expect("symlink");
    let all = [("dir/link".into(), EntryType::Symlink), ("dir".into(), EntryType::Dir)];
    for dry_run in [true, false] {
        assert_eq!(
            gone(store, "dir", RemoveOptions { dry_run, ..RemoveOptions::default() }).0,
            all
        );
    }
    assert_eq!(bytes(store, "kept/file"), b"x");
}

fn removing_takes_everything_below(store: &impl Store) {
    for dir in ["a", "a/b", "a/b/c", "a/d", "kept"] {
        store.make_dir(&path(dir), None).expect("make a directory");
    }
    for file in ["a/1", "a/b/2", "a/b/c/3", "a/d/4", "kept/file"] {
        put(store, file, b"x");
    }
    let (removed, stayed) =
        gone(store, "a", RemoveOptions { dry_run: true, ..RemoveOptions::default() });
    assert!(stayed.is_empty(), "{stayed:?}");
    let told: Vec<_> = removed.iter().map(|(path, item)| (&**path, *item)).collect();
    assert_eq!(
        told,
        [
            ("a/1", EntryType::File),
            ("a/b/2", EntryType::File),
            ("a/b/c/3", EntryType::File),
            ("a/b/c", EntryType::Dir),
            ("a/b", EntryType::Dir),
            ("a/d/4", EntryType::File),
            ("a/d", EntryType::Dir),
            ("a", EntryType::Dir),
        ]
    );
    assert_eq!(store.would_remove(&path("a"), false).expect("count"), 8);
    assert_eq!(gone(store, "a", RemoveOptions::default()), (removed, stayed));
    assert_eq!(names(store, &path("")), [b"kept"]);
    assert_eq!(bytes(store, "kept/file"), b"x");
    no_more_names_go_in_a_call_than_may(store);
    let root = store.remove(&RelPath::root(), RemoveOptions::default());
    assert!(matches!(root, Err(StoreError::BadName { .. })), "{root:?}");
    store.flush().expect("flush");
}

fn the_staging_directory_is_no_target(store: &impl Store) {
    let staging = RelPath::parse(STAGING_NAME).expect("a path");
    store.make_dir(&path("dir"), None).expect("make a directory");
    let below = path([b"dir/", STAGING_NAME, b"/file"].concat());
    for at in [&staging, &below] {
        let answers = [
            ("list", store.list(at).map(drop)),
            ("open", store.open(at).map(drop)),
            ("look", store.look(at).map(drop)),
            ("create", store.create(at, 1).map(drop)),
            ("make_dir", store.make_dir(at, None)),
            ("set_meta", store.set_meta(at, &dir_meta(), KEEP_ALL)),
            ("remove", store.remove(at, RemoveOptions::default()).map(drop)),
        ];
        for (call, answer) in answers {
            assert!(matches!(answer, Err(StoreError::BadName { .. })), "{call}: {answer:?}");
        }
    }
}

fn no_link_is_made_in_the_staging_directory(store: &impl Store) {
    let staging = RelPath::parse(STAGING_NAME).expect("a path");
    store.make_dir(&path("dir"), None).expect("make a directory");
    let below = path([b"dir/", STAGING_NAME, b"/file"].concat());
    for at in [&staging, &below] {
        let answers = [
            store.make_symlink(at, b"x", &file_meta(), KEEP_ALL),
            store.make_special(at, &special_meta(), KEEP_ALL),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(StoreError::BadName { .. })), "{answer:?}");
        }
    }
}

fn what_is_missing_is_not_found(store: &impl Store) {
    put(store, "file", b"x");
    assert!(store.look(&path("missing")).expect("look").is_none());
    assert!(store.look(&path("missing/below")).expect("look").is_none());
    assert!(store.look(&path("file/below")).expect("look").is_none());
    let answers = [
        store.list(&path("missing")).map(drop),
        store.create(&path("missing/file"), 1).map(drop),
        store.make_dir(&path("missing/dir"), None),
        store.set_meta(&path("missing"), &file_meta(), KEEP_ALL),
        store.remove(&path("missing"), RemoveOptions::default()).map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::NotFound { .. })), "{answer:?}");
    }
    let answers = [
        store.list(&path("file")).map(drop),
        store.list(&path("file/below")).map(drop),
        store.create(&path("file/below"), 1).map(drop),
        store.make_dir(&path("file/below"), None),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::NotADir { .. })), "{answer:?}");
    }
}

pub(super) fn what_a_filter_excludes_is_neither_listed_nor_removed(store: &impl Store) {
    for dir in ["cache", "dir", "dir/cache"] {
        store.make_dir(&path(dir), None).expect("make a directory");
    }
    for file in ["cache/file", "dir/file", "dir/file.keep", "dir/cache/file"] {
        put(store, file, b"x");
    }
    assert_eq!(names(store, &path("")), [b"dir"]);
    assert_eq!(names(store, &path("dir")), [&b"cache"[..], b"file"]);
    let (removed, stayed) = gone(store, "dir", RemoveOptions::default());
    assert_eq!((removed.len(), &*stayed), (3, &[protected("dir")][..]));
    assert!(names(store, &path("dir")).is_empty());
    assert_eq!(bytes(store, "dir/file.keep"), b"x");
    assert_eq!(bytes(store, "cache/file"), b"x");
    // `MAKE_WAY` lets another entry replace `cache`, so rules protect only the names in `cache`.
    assert_eq!(gone(store, "cache", RemoveOptions::default()), (Vec::new(), Vec::new()));
    assert_eq!(gone(store, "cache", MAKE_WAY).0.len(), 2);
    assert!(store.look(&path("cache")).expect("look").is_none());
    assert_eq!(gone(store, "dir", MAKE_WAY), (Vec::new(), vec![protected("dir")]));
    assert_eq!(bytes(store, "dir/file.keep"), b"x");
}

pub(super) fn what_a_directory_protects_is_neither_listed_nor_removed(store: &impl Store) {
    for dir in ["dir", "dir/below", "other", "third"] {
        store.make_dir(&path(dir), None).expect("make a directory");
    }
    put(store, "third/file", b"x");
    put(store, "dir/.rules", b"P /own\nP,p *.tmp\nP mine\n");
    for file in ["dir/own", "dir/a.tmp", "dir/below/own", "dir/below/b.tmp", "dir/below/mine"] {
        put(store, file, b"x");
    }
    put(store, "other/mine", b"x");
    assert_eq!(names(store, &path("dir")), [&b".rules"[..], b"below"]);
    assert_eq!(names(store, &path("dir/below")), [b"own"]);
    assert_eq!(names(store, &path("other")), [b"mine"]);
    for _ in 0..2 {
        assert_eq!(store.would_remove(&path("dir/below"), false).expect("count"), 2);
        assert_eq!(store.would_remove(&path("dir/below/own"), false).expect("count"), 1);
    }
    let (removed, stayed) = gone(store, "dir/below", RemoveOptions::default());
    assert_eq!((removed.len(), &*stayed), (2, &[protected("dir/below")][..]));
    assert_eq!(bytes(store, "dir/below/mine"), b"x");
    assert!(store.look(&path("dir/below/b.tmp")).expect("look").is_none());
    // Rules files are read again when the first name is removed.
    put(store, "other/.rules", b"P mine\n");
    assert_eq!(gone(store, "other", RemoveOptions::default()).1, [protected("other")]);
    assert_eq!(bytes(store, "other/mine"), b"x");
    put(store, "third/.rules", b"# nothing is protected\nx");
    let answer = store.remove(&path("third/file"), RemoveOptions::default());
    assert!(
        matches!(&answer, Err(StoreError::Rules { why, .. }) if why.contains("line 2")),
        "{answer:?}"
    );
}
