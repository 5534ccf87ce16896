#![expect(clippy::disallowed_methods, reason = "rsync works on real trees")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;
use proptest::prelude::*;

fn filter(rules: &[&str]) -> Filter {
    let rule = |text: &&str| {
        let (action, pattern) = text.split_at(2);
        let action = if action == "+ " { Action::Include } else { Action::Exclude };
        Rule { action, pattern: pattern.as_bytes().into() }
    };
    Filter::new(&rules.iter().map(rule).collect::<Vec<_>>())
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// From rsync's manual, "PATTERN MATCHING RULES", and its corner cases.
#[test]
fn patterns_match_as_rsyncs_manual_says() {
    for (pattern, matching, other) in [
        ("*.o", &["a.o", "dir/b.o"][..], &["a.oo", "a.o/x"][..]),
        ("/foo", &["foo"], &["dir/foo"]),
        ("foo/", &["foo/", "dir/foo/"], &["foo", "dir/foo"]),
        ("/foo/*/bar", &["foo/x/bar"], &["foo/bar", "foo/x/y/bar", "a/foo/x/bar"]),
        ("/foo/**/bar", &["foo/x/bar", "foo/x/y/bar"], &["foo/bar"]),
        ("foo/bar", &["foo/bar", "x/foo/bar"], &["foo/x/bar", "xfoo/bar", "foo/barx"]),
        ("foo/*", &["foo/x", "y/foo/x"], &["foo/", "foo/x/y"]),
        ("foo/**", &["foo/x", "foo/x/y", "a/foo/x"], &["foo/", "afoo/x"]),
        ("foo/***", &["foo/", "foo/x", "foo/x/y", "a/foo/", "a/foo/x"], &["foo", "afoo/"]),
        ("**/foo", &["foo", "a/foo", "a/b/foo"], &["afoo", "a/foo/b"]),
        ("/**/foo", &["a/foo", "a/b/foo"], &["foo"]),
        ("a**b", &["ab", "a/x/b", "x/a/b"], &["xab", "a/bx"]),
        ("fo?", &["foo", "x/fob"], &["fo", "fooo", "fo/"]),
        ("[a-c]x", &["ax", "y/cx"], &["dx", "x"]),
        ("[!a-c]x", &["dx"], &["ax", "x"]),
        ("[]a]x", &["]x", "ax"], &["bx"]),
        ("[a-]x", &["-x"], &["bx"]),
        ("[[:digit:]_]", &["7", "_"], &["x", "d"]),
        ("[\\]]", &["]"], &["\\"]),
        ("[x", &[], &["[x", "x"]),
        ("\\*", &["*"], &["\\*", "x"]),
        ("a\\b", &["a\\b"], &["ab"]),
        ("{a,b}", &["{a,b}"], &["a"]),
        ("", &[], &["x"]),
        ("/", &[], &["x", "x/"]),
    ] {
        let excluded = filter(&[&format!("- {pattern}")]);
        let admits =
            |text: &str| excluded.admits(&path(text.trim_end_matches('/')), text.ends_with('/'));
        for text in matching {
            assert!(!admits(text), "{pattern} matches {text}");
        }
        for text in other {
            assert!(admits(text), "{pattern} does not match {text}");
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let filter = filter(&["+ */", "+ *.rs", "- *"]);
    assert!(filter.admits(&path("src"), true));
    assert!(filter.admits(&path("src/lib.rs"), false));
    assert!(!filter.admits(&path("src/lib.c"), false));
    assert!(filter.admits(&RelPath::root(), true));
    assert!(Filter::default().admits(&path("x"), false));
}

#[test]
fn a_name_need_not_be_text() {
    let rule = Rule { action: Action::Exclude, pattern: b"\xff*".as_slice().into() };
    assert!(!Filter::new(&[rule]).admits(&RelPath::parse(b"\xffa\xfe").unwrap(), false));
}

#[test]
fn a_pattern_of_many_wildcards_is_matched_in_time() {
    let rules =
        ["*a*a*a*a*a*a*a*a*b", "**a**a**a**a**a**a**b"].map(|pattern| format!("- {pattern}"));
    let filter = filter(&[&rules[0], &rules[1]]);
    assert!(filter.admits(&path(&"a".repeat(250)), false));
    assert!(filter.admits(&path(&"a/".repeat(200)[..399]), false));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_admits_what_rsync_transfers(
        rules in prop::collection::vec("[-+] /?([ab*?]{1,3}|\\*\\*|\\[ab\\]|\\[!a\\])(/([ab*?]{1,3}|\\*\\*)){0,2}(/|/\\*\\*\\*)?", 1..5)
    ) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let Some(transferred) = by_rsync(&rules) else { return Ok(()) };
        prop_assert_eq!(by_walk(&filter(&rules)), transferred, "{:?}", rules);
    }
}

/// What rsync transfers of the tree of all paths of `a`, `b` and `ab`.
fn by_rsync(rules: &[&str]) -> Option<BTreeSet<String>> {
    let root = tempfile::tempdir().unwrap();
    grow(root.path(), 3);
    let rules = rules.iter().map(|rule| format!("--filter={rule}"));
    let source = format!("{}/", root.path().display());
    let run = Command::new("rsync")
        .args(["-rn", "--out-format=%n"])
        .args(rules)
        .args([&source, "/nowhere-to-be"])
        .output();
    let Ok(run) = run else {
        eprintln!("SKIPPED: no rsync to compare with");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lines = String::from_utf8(run.stdout).unwrap();
    Some(
        lines
            .lines()
            .filter(|line| !line.starts_with("./") && !line.contains(' '))
            .map(str::to_owned)
            .collect(),
    )
}

fn grow(dir: &Path, depth: u32) {
    for name in NAMES {
        let sub = dir.join(name);
        match depth {
            1 => fs::write(&sub, b"").unwrap(),
            _ => {
                fs::create_dir(&sub).unwrap();
                fs::write(dir.join(format!("{name}b")), b"").unwrap();
                grow(&sub, depth - 1);
            }
        }
    }
}

/// The same tree, walked with `filter`; directories end in a slash, as in rsync's output.
fn by_walk(filter: &Filter) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![(String::new(), 3)];
    while let Some((dir, depth)) = dirs.pop() {
        for name in NAMES {
            let (sub, file) = (format!("{dir}{name}"), format!("{dir}{name}b"));
            if depth > 1 && filter.admits(&path(&file), false) {
                found.insert(file);
            }
            if !filter.admits(&path(&sub), depth > 1) {
                continue;
            }
            if depth > 1 {
                dirs.push((format!("{sub}/"), depth - 1));
                found.insert(format!("{sub}/"));
            } else {
                found.insert(sub);
            }
        }
    }
    found
}

const NAMES: [&str; 3] = ["a", "b", "ba"];
