//! Several source arguments as one tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use deltic_tree::Entry;
use deltic_tree::meta::{MetaMask, XattrScope};
use deltic_tree::rule::{Action, FilterSide, Rule, Rules};

use super::*;
use crate::read::list::PART_NAMES;

fn sources(args: &[&str], rules: Filter) -> SourceTree {
    let arg = |text: &&str| SourceArg::new(OsStr::new(text)).unwrap();
    let options = SourceOptions { rules, recursive: true, ..SourceOptions::default() };
    SourceTree::new(packed(args.iter().map(arg)), options)
}

pub(super) fn packed(args: impl IntoIterator<Item = SourceArg>) -> SourceArgs {
    let mut all = SourceArgs::default();
    args.into_iter().for_each(|arg| all.push(arg).unwrap());
    all
}

fn tree() -> (TempDir, String) {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in [("a/one", "a1"), ("a/two", "a2"), ("b/two", "b2"), ("b/dir/x", "bx")] {
        let at = root.path().join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, bytes).unwrap();
    }
    fs::create_dir(root.path().join("a/.deltic")).unwrap();
    symlink("b", root.path().join("link")).unwrap();
    let text = root.path().to_str().unwrap().to_owned();
    (root, text)
}

fn names(sources: &SourceTree, dir: &str) -> Vec<String> {
    let listing = sources.list(&path(dir)).unwrap();
    listing.entries.iter().map(|entry| entry.name.to_string()).collect()
}

fn bytes(sources: &SourceTree, at: &str) -> String {
    let file = sources.open(&path(at)).unwrap();
    let mut bytes = vec![0; file.meta().len as usize];
    file.read_at(0, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns all entries that `tree` lists in `dir`, part by part.
fn by_parts(tree: &impl Tree, dir: &RelPath) -> Vec<Entry> {
    let (mut all, mut rest) = (Vec::new(), None);
    loop {
        let listing = tree.list_some(dir, rest).unwrap();
        assert!(listing.entries.len() <= PART_NAMES && listing.errors.is_empty());
        all.extend(listing.entries);
        rest = listing.rest;
        if rest.is_none() {
            return all;
        }
    }
}

/// The attributes of one part are bounded as well, whether arguments name directories or share them.
#[test]
fn long_attributes_end_a_part_however_directories_are_named() {
    let root = tempfile::tempdir().unwrap();
    let [many, other] = ["many", "other"].map(|name| root.path().join(name));
    fs::create_dir(&other).unwrap();
    for n in 0..200 {
        let dir = many.join(format!("{n:03}"));
        fs::create_dir_all(&dir).unwrap();
        let set =
            rustix::fs::setxattr(dir, "user.long", &[n; 3900], rustix::fs::XattrFlags::empty());
        if set.is_err() {
            return eprintln!("skipped: no attributes of users here");
        }
    }
    let (many, other) = (many.to_str().unwrap(), other.to_str().unwrap());
    let named: Vec<String> = (0..200).map(|n| format!("{many}/{n:03}")).collect();
    let see = MetaMask { xattrs: XattrScope::All, ..MetaMask::default() };
    for args in [named, vec![format!("{many}/"), format!("{other}/")]] {
        let args = packed(args.iter().map(|arg| SourceArg::new(OsStr::new(arg)).unwrap()));
        let options = SourceOptions { see, recursive: true, ..SourceOptions::default() };
        let sources = SourceTree::new(args, options);
        let first = sources.list_some(&RelPath::root(), None).unwrap();
        assert!(first.entries.len() < 150 && first.rest.is_some(), "{}", first.entries.len());
        assert_eq!(by_parts(&sources, &RelPath::root()).len(), 200);
    }
}

/// The index of moved files needs lengths and times alone.
#[test]
fn a_listing_for_lengths_and_times_reads_no_attributes() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    if rustix::fs::setxattr(&file, "user.a", b"v", rustix::fs::XattrFlags::empty()).is_err() {
        return eprintln!("skipped: no attributes of users here");
    }
    let see = MetaMask { xattrs: XattrScope::All, ..MetaMask::default() };
    let options = LocalOptions { see, ..LocalOptions::default() };
    let store = LocalStore::open(root.path(), options).unwrap();
    let compared = store.list_some(&RelPath::root(), None).unwrap().entries;
    let plain = store.list_stat(&RelPath::root(), None).unwrap().entries;
    assert_eq!([compared[0].meta.xattrs().len(), plain[0].meta.xattrs().len()], [1, 0]);
    assert_eq!(plain[0].meta.len, compared[0].meta.len);
}

/// Memory holds the names of a huge directory and the entries of one part, however the directory is named.
#[test]
fn a_huge_directory_is_listed_by_parts() {
    let root = tempfile::tempdir().unwrap();
    let huge = root.path().join("huge");
    fs::create_dir_all(huge.join("name-00500-dir")).unwrap();
    for n in 0..PART_NAMES + 20 {
        fs::write(huge.join(format!("name-{n:05}")), "").unwrap();
    }
    let list = vec![Rule::plain(Action::Exclude, b"*77")];
    let rules = Filter::new(&Rules { list, ..Rules::default() }, FilterSide::Sender);
    let top = huge.to_str().unwrap();
    for (arg, dir) in [(format!("{top}/"), ""), (top.to_owned(), "huge")] {
        let sources = sources(&[&arg], rules.clone());
        let whole = sources.list(&path(dir)).unwrap().entries;
        assert!(whole.len() > PART_NAMES - 100 && whole.is_sorted_by_key(|entry| &entry.name));
        assert_eq!(by_parts(&sources, &path(dir)), whole);
    }
    // Arguments that name entries in no order, some twice, and some by entries missing below them.
    let mut args: Vec<String> =
        (0..PART_NAMES + 20).rev().map(|n| format!("{top}/./name-{n:05}")).collect();
    args.extend(
        ["name-00500-dir/no", "name-00500-dir", "name-00007"].map(|name| format!("{top}/./{name}")),
    );
    let args = args.iter().map(|arg| SourceArg::relative(OsStr::new(arg)).unwrap());
    let listed = SourceTree::new(packed(args), SourceOptions::default());
    let whole = listed.list(&RelPath::root()).unwrap().entries;
    assert_eq!(whole.len(), PART_NAMES + 21);
    assert!(whole.is_sorted_by(|one, next| one.name < next.name));
    assert_eq!(by_parts(&listed, &RelPath::root()), whole);
    assert!(listed.list_some(&RelPath::root(), None).unwrap().rest.is_some());
    let store = open_store(root.path());
    let whole = store.list(&path("huge")).unwrap().entries;
    assert_eq!(whole.len(), PART_NAMES + 21);
    assert_eq!(by_parts(&store, &path("huge")), whole);
    assert!(store.list_some(&path("huge"), None).unwrap().rest.is_some());
}

#[test]
fn names_of_a_directory_that_is_another_one_by_now_have_not_vanished() {
    let root = tempfile::tempdir().unwrap();
    let huge = root.path().join("huge");
    fs::create_dir(&huge).unwrap();
    for n in 0..=PART_NAMES {
        fs::write(huge.join(format!("{n:05}")), "").unwrap();
    }
    let sources = sources(&[huge.to_str().unwrap()], Filter::default());
    let first = sources.list_some(&path("huge"), None).unwrap();
    assert_eq!((first.entries.len(), first.errors.len()), (PART_NAMES, 0));
    fs::rename(&huge, root.path().join("away")).unwrap();
    fs::create_dir(&huge).unwrap();
    let listing = sources.list_some(&path("huge"), first.rest).unwrap();
    assert!(matches!(listing.errors[..], [StoreError::Changed { .. }]), "{:?}", listing.errors);
    assert!(listing.rest.is_none() && listing.entries.is_empty());
}

#[test]
fn a_trailing_slash_stands_for_what_is_in_a_directory() {
    let (_root, top) = tree();
    for whole in ["a/", "a//", "a/.", "b/../a/"] {
        assert_eq!(
            names(&sources(&[&format!("{top}/{whole}")], Filter::default()), ""),
            ["one", "two"]
        );
    }
    let entry = sources(&[&format!("{top}/a")], Filter::default());
    assert_eq!(names(&entry, ""), ["a"]);
    assert_eq!(names(&entry, "a"), ["one", "two"]);
    assert_eq!(bytes(&entry, "a/two"), "a2");
    assert!(matches!(entry.open(&path("b/two")), Err(StoreError::NotFound { .. })));
    assert!(matches!(entry.open(&path("a/.deltic/x")), Err(StoreError::BadName { .. })));
}

#[test]
fn of_equal_names_the_first_arguments_is_taken() {
    let (_root, top) = tree();
    let both = sources(
        &[&format!("{top}/a/"), &format!("{top}/b/"), &format!("{top}/b")],
        Filter::default(),
    );
    assert_eq!(names(&both, ""), ["b", "dir", "one", "two"]);
    assert_eq!(bytes(&both, "two"), "a2");
    assert_eq!(bytes(&both, "dir/x"), "bx");
    assert_eq!(bytes(&both, "b/two"), "b2");
}

#[test]
fn a_symlink_is_followed_only_with_a_trailing_slash() {
    let (_root, top) = tree();
    let link = sources(&[&format!("{top}/link")], Filter::default());
    let entry = link.list(&RelPath::root()).unwrap().entries.remove(0);
    assert_eq!(entry.meta.kind, Kind::Symlink(b"b"[..].into()));
    assert!(matches!(link.list(&path("link")), Err(StoreError::OutsideRoot { .. })));
    assert_eq!(names(&sources(&[&format!("{top}/link/")], Filter::default()), ""), ["dir", "two"]);
}

#[test]
fn a_missing_source_is_told_and_the_others_go_on() {
    let (_root, top) = tree();
    let some = sources(
        &[&format!("{top}/no"), &format!("{top}/a"), &format!("{top}/no/")],
        Filter::default(),
    );
    let listing = some.list(&RelPath::root()).unwrap();
    assert_eq!(listing.entries.len(), 1);
    assert_eq!(listing.errors.len(), 2);
    assert!(listing.errors.iter().all(|error| matches!(error, StoreError::Argument { .. })));
    let is_no = |error: &StoreError| error.to_string().ends_with("/no: no such file or directory");
    assert_eq!(listing.errors.iter().filter(|error| is_no(error)).count(), 1);
}

#[test]
fn a_single_argument_that_is_no_directory_is_a_single_file() {
    let (_root, top) = tree();
    let single =
        |args: &[&str]| sources(args, Filter::default()).single_name().map(|name| name.to_string());
    let (file, dir, link) = (format!("{top}/a/one"), format!("{top}/a"), format!("{top}/link"));
    assert_eq!(single(&[&file]).as_deref(), Some("one"));
    assert_eq!(single(&[&link]).as_deref(), Some("link"));
    // A missing source does not imply a directory either.
    assert_eq!(single(&[&format!("{top}/no")]).as_deref(), Some("no"));
    let forgiven = SourceOptions { ignore_missing: true, ..SourceOptions::default() };
    let no = SourceArg::new(OsStr::new(&format!("{top}/no"))).unwrap();
    assert!(SourceTree::new(packed([no]), forgiven).single_name().is_some());
    let no = format!("{top}/no");
    assert_eq!(single(&[&format!("{no}/"), &dir]), None);
    for args in [
        [&*no, &*file],
        [&*file, &*no],
        [&*file, &*format!("{no}/")],
        [&*format!("{no}/x"), &*file],
    ] {
        assert_eq!(single(&args).as_deref(), Some("one"), "{args:?}");
    }
    assert_eq!(single(&[&format!("{no}/")]).as_deref(), Some("no"));
    for none in [&[&*dir][..], &[&format!("{link}/")], &[&file, &file], &[]] {
        assert_eq!(single(none), None);
    }
}

#[test]
fn a_filter_judges_arguments_as_well() {
    let (_root, top) = tree();
    let list = vec![Rule::plain(Action::Exclude, b"two")];
    let rules = Filter::new(&Rules { list, ..Rules::default() }, FilterSide::Sender);
    let some = sources(&[&format!("{top}/a"), &format!("{top}/b/two")], rules);
    assert_eq!(names(&some, ""), ["a"]);
    assert_eq!(names(&some, "a"), ["one"]);
}

#[test]
fn an_argument_is_read_as_it_is_written() {
    assert!(SourceArg::new(OsStr::new("")).is_err());
    assert!(SourceArg::new(OsStr::from_bytes(&[b'n'; 256])).is_err());
    assert!(SourceArg::new(OsStr::from_bytes(b"/dir/\xff")).is_ok());
    let here = sources(&["."], Filter::default());
    assert!(names(&here, "").contains(&"Cargo.toml".to_owned()));
    assert_eq!(
        sources(&["Cargo.toml"], Filter::default()).single_name().unwrap().as_bytes(),
        b"Cargo.toml"
    );
}

/// For a held file (an alternate), a new hard link is no change, since we make such links ourselves. For a source, a
/// new hard link counts: it may hide a change.
#[test]
fn more_names_are_a_change_of_a_source_alone() {
    let (root, text) = tree();
    let store = open_store(root.path());
    let held = store.open(&path("a/one")).unwrap();
    let sources = sources(&[&format!("{text}/a/")], Filter::default());
    let source = sources.open(&path("one")).unwrap();
    fs::hard_link(root.path().join("a/one"), root.path().join("more")).unwrap();
    assert!(held.check_unchanged().is_ok());
    assert!(matches!(source.check_unchanged(), Err(StoreError::Changed { .. })));
}
